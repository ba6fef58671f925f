"""Witnesses: a real library against the profiles that claim to describe it, on every case of the vectors.

`python -m mxspec_lab.crosscheck TARGET` compares and prints counts; `compare_all` is the same in Python.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.acceptance import flag_nan_codes
from mxspec.adjacent import register_named
from mxspec.formats import get_block
from mxspec.profiles import find_variant
from mxspec.profiles.schema import Profile, TensorScaleKind
from mxspec.tensorscale import TensorScale, derive_tensor_scale
from mxspec_conformance.adapters.registry import Adapter, known_adapters
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.forms import read_float_scales
from mxspec_conformance.targets.interface import has_float_scales
from mxspec_vectors.build_dequantize import full_table
from mxspec_vectors.files import write_file
from mxspec_vectors.input_case import Input
from mxspec_vectors.inputs import quantize_inputs
from mxspec_vectors.points import TENSOR_AMAXES


@dataclass(slots=True)
class Comparison:
    """One library function against one profile."""

    target: str
    format: str
    profile: str
    operation: str
    dtype: str
    blocks: int = 0
    different: int = 0
    refused: int = 0
    first: str = ""
    reasons: dict[str, int] = field(default_factory=dict)


def random_blocks(k: int, count: int, seed: int) -> npt.NDArray[np.float32]:
    """Rows of random float32 bits: a third any bits, a third around one binade, a third multiples of a quarter."""
    rng = np.random.default_rng(seed)
    third = count // 3
    any_bits = rng.integers(0, 1 << 32, (third, k), dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = rng.standard_normal((third, k)).astype(np.float32)
    grid = (rng.integers(-32, 33, (count - 2 * third, k)) / 4).astype(np.float32)
    powers = np.ldexp(np.float32(1), rng.integers(-120, 100, (count - 2 * third, 1))).astype(np.float32)
    return np.concatenate([any_bits, near, grid * powers])


def single_blocks(fmt: str) -> list[Input]:
    """The quantize cases that are one block along the last axis."""
    k = get_block(fmt).k
    return [c for c in quantize_inputs(fmt) if c.axis == -1 and not c.pad and c.block is None and len(c.bits[0]) == k]


#: Rows [n, k], and the bits of their tensor's maximum or None.
Batch = tuple[npt.NDArray[np.float32], int | None]


def batches(fmt: str, profile: Profile, *, two_level: bool, random: int = 3000) -> Iterator[Batch]:
    """(rows [n, k], tensor amax bits or None): the vectors' blocks, then random ones."""
    k = get_block(fmt).k
    cases = single_blocks(fmt)
    if not two_level:
        yield np.concatenate([c.x for c in cases]), None
        yield random_blocks(k, random, 1), None
        return
    by_amax: dict[int, list[npt.NDArray[np.float32]]] = {}
    for c in cases:
        amaxes = [c.tensor_amax] if c.tensor_amax is not None else [TENSOR_AMAXES["unit"], TENSOR_AMAXES["odd"]]
        for amax in amaxes:
            by_amax.setdefault(amax, []).append(c.x)
    for amax, rows in by_amax.items():
        yield np.concatenate(rows), amax
    for number, amax in enumerate(TENSOR_AMAXES.values()):
        yield random_blocks(k, random // 8, number), amax


def target_tensor_scale(target: Any, profile: Profile, amax: int) -> tuple[float, TensorScale]:
    """What the target is given and what the profile is given, for a tensor maximum.

    When both use the same kind they get the same bits; otherwise each its own, derived from the maximum.
    """
    native = derive_tensor_scale(amax, profile)
    kind = TensorScaleKind(getattr(target, "TENSOR_SCALE", "decode"))
    if kind is native.kind:
        return native.value, native
    if kind is TensorScaleKind.AMAX:
        return TensorScale(kind, amax).value, native
    given = mxspec.tensorscale.convert_tensor_scale(native, _kind_profile(kind))
    return given.value, native


def _kind_profile(kind: TensorScaleKind) -> Profile:
    for profile in mxspec.list_profiles("nvfp4"):
        if profile.tensor is not None and profile.tensor.native is kind:
            return profile
    raise ValueError(f"no profile stores a tensor scale of kind {kind}")


def as_target_array(target: Any, x: npt.NDArray[Any]) -> Any:
    """x as the arrays that the target takes."""
    if getattr(target, "ARRAYS", "numpy") != "torch":
        return x
    import torch

    if x.dtype == DTYPES["bfloat16"]:
        return torch.from_numpy(x.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def as_numpy(a: Any) -> npt.NDArray[Any]:
    """A target's array as a NumPy one; bfloat16 by its bits."""
    if hasattr(a, "detach"):
        import torch

        a = a.detach().cpu()
        if a.dtype == torch.bfloat16:
            bits: npt.NDArray[Any] = a.view(torch.uint16).numpy().view(DTYPES["bfloat16"])
            return bits
        return np.asarray(a.numpy())
    return np.asarray(a)


def _call(target: Any, name: str, fmt: str, scale: float | None, *arrays: npt.NDArray[Any]) -> Any:
    function = getattr(target, name)
    given = [as_target_array(target, np.ascontiguousarray(a)) for a in arrays]
    return function(*given, fmt) if scale is None else function(*given, fmt, tensor_scale=scale)


def _quantize_guarded(
    target: Any, fmt: str, scale: float | None, rows: npt.NDArray[Any], out: Comparison
) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]]:
    """(rows, scales, codes) in as few calls as the target's exceptions allow."""
    try:
        with np.errstate(all="ignore"):
            codes, scales = _call(target, "quantize", fmt, scale, rows)
        found = as_numpy(scales).reshape(len(rows), -1)
        yield rows, read_float_scales(found) if has_float_scales(fmt) else found, as_numpy(codes)
    except Exception as error:
        if len(rows) == 1:
            out.refused += 1
            reason = f"{type(error).__name__}: {str(error)[:80]}"
            out.reasons[reason] = out.reasons.get(reason, 0) + 1
            return
        half = len(rows) // 2
        yield from _quantize_guarded(target, fmt, scale, rows[:half], out)
        yield from _quantize_guarded(target, fmt, scale, rows[half:], out)


def _has_nan_scale(scales: npt.NDArray[Any], fmt: str) -> npt.NDArray[np.bool_]:
    """Which scale bytes are NaN; the sign bit of a stored e4m3 byte does not count."""
    scale = get_block(fmt).scale
    return flag_nan_codes(scales, scale)


def compare_quantize(
    target: Any, fmt: str, profile: Profile, dtype: str, *, two_level: bool, blocks: Iterable[Batch] | None = None
) -> Comparison:
    """The target's `quantize` against a profile, bit for bit.

    blocks: what it is asked; None: `batches`.
    """
    out = Comparison(target.NAME, fmt, profile.id, "quantize", dtype)
    for rows, amax in batches(fmt, profile, two_level=two_level) if blocks is None else blocks:
        with np.errstate(all="ignore"):
            narrow = rows.astype(DTYPES[dtype])
        given, native = (None, None) if amax is None else target_tensor_scale(target, profile, amax)
        for part, scales, codes in _quantize_guarded(target, fmt, given, narrow, out):
            with np.errstate(all="ignore"):
                expected = mxspec.quantize(part, fmt, profile=profile, tensor_scale=native)
            out.blocks += len(part)
            if profile.unspecified_scale_sign_bit:
                scales = scales & np.uint8(get_block(fmt).scale.code_count - 1)
            wrong = (expected.codes != codes).any(axis=1) | (expected.scales != scales).any(axis=1)
            if profile.unspecified_nan_block_codes:
                wrong &= ~(_has_nan_scale(expected.scales, fmt) & _has_nan_scale(scales, fmt)).all(axis=1)
            if profile.unspecified_nan_input_scales:
                wrong &= ~np.isnan(part.astype(np.float32)).any(axis=1)
            out.different += int(wrong.sum())
            if wrong.any() and not out.first:
                i = int(np.flatnonzero(wrong)[0])
                out.first = (
                    f"x {[float(v) for v in part[i]]} ({[hex(b) for b in part[i].astype(np.float32).view(np.uint32)]}) tensor {native}: "
                    f"library {scales[i].tolist()} {codes[i].tolist()}, profile {expected.scales[i].tolist()} {expected.codes[i].tolist()}"
                )
    return out


def compare_dequantize(target: Any, fmt: str, profile: Profile, *, two_level: bool) -> Comparison:
    """The target's `dequantize` against a profile: every code under every scale byte."""
    out = Comparison(target.NAME, fmt, profile.id, "dequantize", "float32")
    block = get_block(fmt)
    codes, scale_codes = full_table(block)
    scales = scale_codes.reshape(-1, 1)
    handed = scales.view(np.float32) if has_float_scales(fmt) else scales
    for amax in TENSOR_AMAXES.values() if two_level else [None]:
        given, native = (None, None) if amax is None else target_tensor_scale(target, profile, amax)
        try:
            values = as_numpy(_call(target, "dequantize", fmt, given, codes, handed)).astype(np.float32)
        except Exception as error:
            reason = f"{type(error).__name__}: {str(error)[:80]}"
            out.refused += len(codes)
            out.reasons[reason] = out.reasons.get(reason, 0) + 1
            continue
        with np.errstate(all="ignore"):
            expected = mxspec.dequantize(codes, scales, fmt, profile=profile, tensor_scale=native)
        same = (values.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(values) & np.isnan(expected))
        wrong = ~same.all(axis=1)
        out.blocks += len(codes)
        out.different += int(wrong.sum())
        if wrong.any() and not out.first:
            i, j = (int(v) for v in np.argwhere(~same)[0])
            out.first = (
                f"code {codes[i, j]:#04x} scale {scales[i, 0]:#04x} tensor {native}: library {values[i, j]!r}, profile {expected[i, j]!r}"
            )
    return out


def compare_all(adapter: Adapter, target: Any) -> list[Comparison]:
    """Every function of a known target against the profiles that it is expected to follow."""
    results = []
    dtypes = getattr(target, "DTYPES", ["float32"])
    for expected, two_level in ((adapter.expected_profiles(target), True), (adapter.profiles_one_level, False)):
        register_named(expected)
        for fmt, name in expected.items():
            profile = mxspec.get_profile(name, fmt)
            levels = two_level and get_block(fmt).has_tensor_scale
            if hasattr(target, "quantize"):
                for dtype in dtypes:
                    if (spoken := find_variant(profile, dtype)) is not None:
                        results.append(compare_quantize(target, fmt, spoken, dtype, two_level=levels))
            if hasattr(target, "dequantize"):
                results.append(compare_dequantize(target, fmt, profile, two_level=levels))
    return results


def compare_counterpart(adapter: Adapter, target: Any) -> list[Comparison]:
    """A target on a GPU against the profiles that the same code follows on the CPU, where they are others."""
    known = known_adapters().get(adapter.counterpart)
    if known is None:
        return []
    expected, followed = known.expected_profiles(target), adapter.expected_profiles(target)
    others = {fmt: name for fmt, name in expected.items() if followed.get(fmt) != name}
    one_level = {f: name for f, name in known.profiles_one_level.items() if adapter.profiles_one_level.get(f) != name}
    return compare_all(replace(adapter, profiles=others, profiles_one_level=one_level), target)


def describe(target: Any, comparisons: list[Comparison]) -> dict[str, Any]:
    """A JSON-able record of one target's comparisons, with where they were made."""
    from mxspec_conformance.results.environment import describe_environment
    from mxspec_vectors.files import NUMERIC_OPERATIONS, vector_digest

    return {
        "target": target.NAME, "version": target.VERSION, "vectors": vector_digest(operations=NUMERIC_OPERATIONS),
        "environment": describe_environment(), "compared": sum(c.blocks for c in comparisons), "different": sum(c.different for c in comparisons),
        "comparisons": [asdict(c) for c in comparisons],
    }  # fmt: skip


def main(arguments: list[str]) -> int:
    """Compare known targets, print a line for each comparison, and write a JSON file where asked; 1 if any differs."""
    known = known_adapters()
    parser = argparse.ArgumentParser(prog="python -m mxspec_lab.crosscheck", description=__doc__)
    parser.add_argument("targets", nargs="+", choices=known, metavar="TARGET", help="names that `mxspec targets` lists")
    parser.add_argument("--json", type=Path, help="write the record here")
    options = parser.parse_args(arguments)
    records = []
    for name in options.targets:
        target = known[name].load()
        comparisons = compare_all(known[name], target)
        records.append(describe(target, comparisons))
        for c in comparisons:
            print(
                f"{c.target} {c.format} {c.operation} {c.dtype} against {c.profile}: {c.blocks} blocks, "
                f"{c.different} different, {c.refused} refused {c.reasons or ''}"
            )
            if c.first:
                print(f"    first: {c.first}")
    if options.json is not None:
        write_file(options.json, (json.dumps(records, indent=1) + "\n").encode("ascii"))
    print(f"{sum(r['compared'] for r in records)} comparisons, {sum(r['different'] for r in records)} different")
    return 1 if any(r["different"] for r in records) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
