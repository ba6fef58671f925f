"""Every call that judging a target would make, without the target."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import mxspec
from mxspec.affine.arrays import dequantize_groups, quantize_groups
from mxspec.affine.contracts import get_contract
from mxspec.affine.profiles import default_affine_profile, get_affine_profile
from mxspec.attention import append_cache, attend_as, parse_cache, read_cache
from mxspec.formats import get_block
from mxspec.fused.evaluating import compute
from mxspec.layouts import get_layout
from mxspec.profiles.schema import TensorScaleKind
from mxspec.sparsity import compress, decompress, get_sparse, prune
from mxspec_conformance.judge.check import check
from mxspec_conformance.judge.stochastic.words import model_words
from mxspec_conformance.targets.affine import read_operand
from mxspec_conformance.targets.arrays import lay_codes, lay_scales, take_laid
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.interface import OPERATIONS, quantized_shapes
from mxspec_conformance.targets.operand_words import ROW_MAJOR, UNPACKED
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_conformance.transports.recorded import Request
from mxspec_conformance.transports.wire import digest_call, name_arguments


def plan_requests(capabilities: Capabilities, formats: Sequence[str] | None = None) -> list[Request]:
    """Every call that judging a conforming target with these capabilities makes, in order."""
    recorder = _Recorder(capabilities)
    check(InProcessSession(recorder, capabilities.name, transport="results-file"), formats=formats)
    return recorder.requests


class Model:
    """The model, dressed as a target with given capabilities; it follows one profile, or of each format the default one."""

    MXSPEC_TAKES_SIDES = True

    def __init__(self, capabilities: Capabilities, profile: str | None = None) -> None:
        self.MXSPEC_CAPABILITIES = capabilities
        self._profile, self._calls = profile, 0

    def __getattr__(self, name: str) -> Any:
        if name not in OPERATIONS or name not in self.MXSPEC_CAPABILITIES.functions:
            raise AttributeError(name)
        return partial(self._run, name)

    def _run(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        self._calls += 1
        return getattr(self, f"_{function}")(*args, **kwargs)

    def _tensor(self, fmt: str, value: float | None) -> tuple[str | None, Any]:
        """A profile that takes the kind of tensor scale that the capabilities name, and the scale."""
        kind = self.MXSPEC_CAPABILITIES.tensor_scale
        if value is None or self._profile is not None:
            return self._profile, None if value is None else mxspec.TensorScale.from_float(TensorScaleKind(kind), value)
        known = [
            p for p in mxspec.list_profiles(fmt)
            if p.tensor is not None and p.tensor.native.value == kind and p.two_level is not None
            and p.two_level.alternative is None and p.two_level.element.error is None
        ]  # fmt: skip
        return known[0].id, mxspec.TensorScale.from_float(TensorScaleKind(kind), value)

    def _quantize(
        self, x: Any, fmt: str, tensor_scale: float | None = None, random_bits: Any = None, seed: int | None = None, **options: Any
    ) -> Any:
        profile, scale = self._tensor(fmt, tensor_scale)
        capabilities = self.MXSPEC_CAPABILITIES
        if random_bits is not None:
            options["random_bits"] = model_words(random_bits, capabilities.sr_bits, capabilities.sr_rule)
        elif seed is not None or capabilities.has_generator:
            drawn = np.random.default_rng(self._calls if seed is None else seed)
            options["random_bits"] = drawn.integers(1 << 32, size=x.shape, dtype=np.uint32)
        if options.get("scales") is not None and capabilities.scale_layout != ROW_MAJOR:
            shape = quantized_shapes(x.shape, get_block(fmt), axis=options.get("axis", -1))[1]
            options["scales"] = take_laid(options["scales"], shape, capabilities.scale_layout, "scales")
        t = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale, **options)
        codes, scales = t.codes, t.scales
        return lay_codes(codes, capabilities.layout_of(fmt)), lay_scales(scales, capabilities.scale_layout)

    def _quantize_fused(self, x: Any, function: str, fmt: str, tensor_scale: float | None = None, **options: Any) -> Any:
        contract = self.MXSPEC_CAPABILITIES.fused_contract
        return self._quantize(compute(x, function, contract=contract, **options), fmt, tensor_scale)

    def _dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        layout = self.MXSPEC_CAPABILITIES.layout_of(fmt)
        if layout != UNPACKED:
            codes = take_laid(codes, (len(codes), 8 * codes.shape[1] // get_block(fmt).element.bits), layout, "codes")
        profile, scale = self._tensor(fmt, tensor_scale)
        return mxspec.dequantize(codes, np.asarray(scales), fmt, profile=profile, tensor_scale=scale)

    def _quantize_affine(self, x: Any, affine: str) -> Any:
        operand = read_operand(affine)
        fmt = operand.format
        profile = get_affine_profile(self.MXSPEC_CAPABILITIES.affine_profile or default_affine_profile(fmt), fmt)
        codes, scales, offsets = quantize_groups(x.astype(np.float32).reshape(len(x), -1, fmt.group), fmt, profile)
        return operand.give(codes.reshape(x.shape)), scales, offsets

    def _dequantize_affine(self, codes: Any, scales: Any, offsets: Any, affine: str) -> Any:
        operand = read_operand(affine)
        contract = get_contract(self.MXSPEC_CAPABILITIES.affine_contract or "exact", operand.format)
        plain = operand.take(np.asarray(codes)).reshape(*scales.shape, operand.format.group)
        values = dequantize_groups(plain, np.asarray(scales), np.asarray(offsets), operand.format, contract, "float32")
        return values.reshape(len(scales), -1)

    def _encode(self, x: Any, element: str, **options: Any) -> Any:
        return mxspec.encode(x, element, **options)

    def _decode(self, codes: Any, element: str) -> Any:
        return mxspec.decode(codes, element)

    def _encode_stochastic(self, x: Any, element: str, random_bits: Any) -> Any:
        return np.zeros(x.shape, np.uint8)

    def _tensor_scale(self, x: Any, fmt: str) -> Any:
        return 1.0

    def _prune(self, codes: Any, fmt: str) -> Any:
        chosen, rule = get_sparse(fmt), self.MXSPEC_CAPABILITIES.prune_rule or "lower"
        return prune(codes, kind=chosen.kind, sparsity=chosen.sparsity, rule=rule)

    def _compress(self, codes: Any, fmt: str) -> Any:
        chosen = get_sparse(fmt)
        parts = compress(codes, kind=chosen.kind, sparsity=chosen.sparsity)
        return tuple(p if n == "unpacked" else get_layout(n).pack(p) for p, n in zip(parts, self._sparse_layout(), strict=True))

    def _decompress(self, kept: Any, metadata: Any, fmt: str, shape: tuple[int, ...]) -> Any:
        chosen, (rows, k) = get_sparse(fmt), shape
        shapes = (rows, k // 2), (rows, k // chosen.group)
        parts = [
            given if name == "unpacked" else get_layout(name).unpack(given, size)[0]
            for given, name, size in zip((kept, metadata), self._sparse_layout(), shapes, strict=True)
        ]
        return decompress(*parts, sparsity=chosen.sparsity)

    def _sparse_layout(self) -> tuple[str, ...]:
        return self.MXSPEC_CAPABILITIES.sparse_layout or ("unpacked", "unpacked")

    def _pack(self, *parts_and_layout: Any) -> Any:
        *parts, layout = parts_and_layout
        return get_layout(layout).pack(*reversed(parts))

    def _unpack(self, data: Any, layout: str, shape: tuple[int, ...]) -> Any:
        found = get_layout(layout).unpack(data, shape)
        return found[0] if len(found) == 1 else tuple(reversed(found))

    _swizzle = _pack_blocks = _pack
    _unswizzle = _unpack_blocks = _unpack

    def _matmul(self, *_: Any, **options: Any) -> Any:
        raise NotImplementedError  # no call depends on the answer, but those about a wrong one

    _grouped_matmul = _matmul

    def _append_cache(self, k: Any, v: Any, slots: Any, k_cache: Any, v_cache: Any, cache: str, **options: Any) -> Any:
        return append_cache(k, v, slots, k_cache, v_cache, parse_cache(cache), **options)

    def _read_cache(self, k_cache: Any, v_cache: Any, page_table: Any, lengths: Any, cache: str, **options: Any) -> Any:
        return read_cache(k_cache, v_cache, page_table, lengths, parse_cache(cache), **options)

    def _attention(self, *arguments: Any, **options: Any) -> Any:
        return attend_as(*arguments, **options)


class _Recorder(Model):
    """The model as a target that keeps what it is asked."""

    def __init__(self, capabilities: Capabilities) -> None:
        super().__init__(capabilities)
        self.requests: list[Request] = []
        self._times: dict[str, int] = {}

    def _run(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        arguments = name_arguments(function, args, kwargs)
        digest = digest_call(function, arguments)
        times = self._times[digest] = self._times.get(digest, 0) + 1
        kept = {k: np.array(v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
        self.requests.append((digest if times == 1 else f"{digest}.{times}", function, kept))
        return super()._run(function, *args, **kwargs)
