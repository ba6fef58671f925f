"""Witnesses of sweeps: somebody else's implementation of a function, and the inputs it is not asked on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

import mxspec
from mxspec.expressions import AMAX, M, exact as exact_domain, f32 as f32_domain
from mxspec.formats import BLOCKS, BlockFormat
from mxspec.profiles import list_profiles
from mxspec.profiles.schema import Kind, Profile, ScaleRule, ScaleStep
from mxspec.rounding import Overflow, Rounding
from mxspec_conformance.targets.dtypes import SCALAR_TYPES
from mxspec_lab import cuda_headers
from mxspec_lab.sweeps.functions import Codes, EncodeFunction, Float32s, Function, ScaleFunction


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Patterns on which a witness is not asked, and why."""

    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True)
class Witness:
    """Somebody's implementation of a function."""

    name: str
    version: str
    codes: Callable[[Float32s], Codes]
    exclusions: tuple[Exclusion, ...] = ()
    #: Inputs given at once: what stays in the cache.
    piece: int = 1 << 16


def count_excluded(exclusions: tuple[Exclusion, ...], start: int, stop: int) -> int:
    """How many patterns from start to stop - 1 are excluded."""
    return sum(max(0, min(e.last + 1, stop) - max(e.first, start)) for e in exclusions)


_NAN_BELOW_SIGN = (0x7F800001, 0x7FFFFFFF)
_NAN_ABOVE_SIGN = (0xFF800001, 0xFFFFFFFF)


def _nans(reason: str, *ranges: tuple[int, int]) -> tuple[Exclusion, ...]:
    return tuple(Exclusion(*r, reason) for r in ranges or (_NAN_BELOW_SIGN, _NAN_ABOVE_SIGN))


def _cuda_encode(function: EncodeFunction, library: str) -> Witness | None:
    key = (function.fmt.name, function.rounding.value, function.overflow.value)
    if key not in cuda_headers.ENCODERS:
        return None
    headers = _load_headers(library)

    def codes(x: Float32s) -> Codes:
        return headers.encode(x, key[0], rounding=key[1], overflow=key[2])

    one_nan = function.fmt.signed and function.fmt.nan_code is not None
    exclusions = _nans("the header gives every NaN a positive sign", _NAN_ABOVE_SIGN) if one_nan else ()
    return Witness("cuda-headers", _headers_version(), codes, exclusions)


def _cuda_scale(function: ScaleFunction, library: str) -> Witness | None:
    """cvt.rp.satfinite.ue8m0x2 of a float32 quotient, for the rules that mean just that."""
    plain = ScaleRule(value=function.rule.value, step=ScaleStep.ENCODE, rounding=Rounding.RTP)
    if function.rule != plain or function.rule.value not in (exact_domain.div(AMAX, M), f32_domain.div(AMAX, M)):
        return None
    headers = _load_headers(library)
    divisor = np.float32(float(function.element.max_value))

    def codes(x: Float32s) -> Codes:
        with np.errstate(all="ignore"):
            quotient = x / divisor
        return headers.encode(quotient, "e8m0", rounding="rtp", overflow="saturate")

    exclusions: tuple[Exclusion, ...] = ()
    just_above = np.nextafter(divisor * np.float32(2.0**-127), np.float32(1))
    if function.rule.value == exact_domain.div(AMAX, M) and just_above / divisor == np.float32(2.0**-127):
        bits = int(just_above.view(np.uint32))
        reason = "the float32 quotient rounds to 2**-127, the exact one lies above it"
        exclusions = (Exclusion(bits, bits, reason),)
    return Witness("cuda-headers", _headers_version(), codes, exclusions)


_E8M0_EXCLUSIONS = (
    Exclusion(0x00000000, 0x00000000, "ml_dtypes makes zero a NaN"),
    Exclusion(0x00400001, 0x005FFFFF, "ml_dtypes rounds subnormals between 2**-127 and 1.5 * 2**-127 up"),
    Exclusion(0x80000000, 0xFFFFFFFF, "ml_dtypes makes negative numbers and zero NaN; here they count by magnitude"),
)


def _ml_dtypes_encode(function: EncodeFunction) -> Witness | None:
    fmt, rounding, overflow = function.fmt, function.rounding, function.overflow
    dtype = SCALAR_TYPES.get(fmt.name)
    if dtype is None:
        return None
    name, limit = "ml_dtypes", np.float32(float(fmt.max_value))
    exclusions: tuple[Exclusion, ...] = ()
    if fmt.name == "e8m0":
        if rounding not in (Rounding.RNA, Rounding.RNU) or overflow is not Overflow.OWN:
            return None
        exclusions = _E8M0_EXCLUSIONS
    elif rounding is not Rounding.RNE:
        return None
    elif fmt.nan_code is None:
        exclusions = _nans("ml_dtypes makes NaN a zero of the other sign")
    elif fmt.name == "e5m2":
        exclusions = _nans("ml_dtypes writes the NaN 7E, here 7F")
    clamped = fmt.nan_code is not None and overflow is Overflow.SATURATE
    if clamped:
        name = "ml_dtypes after a clamp to the largest value"

    def codes(x: Float32s) -> Codes:
        magnitude = x if fmt.signed else np.abs(x)
        given = np.clip(magnitude, -limit, limit) if clamped else magnitude
        with np.errstate(all="ignore"):
            return given.astype(dtype).view(np.uint8)

    return Witness(name, f"ml_dtypes {version('ml_dtypes')}", codes, exclusions)


def _quantizer(function: ScaleFunction) -> Witness | None:
    """`mxspec.quantize` on blocks of one element, under a normative profile: its tuned path finds scales by tables."""
    for block in BLOCKS.values():
        if (block.element, block.scale) == (function.element, function.scale):
            for profile in list_profiles(block, kind=Kind.NORMATIVE):
                if profile.id in function.profiles:
                    single = replace(block, k=1, shapes=((1, 1),))

                    def codes(x: Float32s, profile: Profile = profile, single: BlockFormat = single) -> Codes:
                        return mxspec.quantize(x[:, np.newaxis], single, profile=profile).scales[:, 0]

                    return Witness("quantize", f"mxspec {mxspec.__version__}", codes, piece=1 << 14)
    return None


#: Profiles that describe torchao's `to_mx` in eager mode on the CPU, and the mode.
_TORCHAO = re.compile(r"torchao-0\.18/(?:mx/(?P<mode>floor|ceil|even)|mxf\w+/(?P<rceil>rceil))/eager")


def _torchao_scale(function: ScaleFunction) -> Witness | None:
    """torchao's `to_mx` with blocks of one element, so that each input is its block's largest magnitude."""
    matches = [m for p in function.profiles if (m := _TORCHAO.fullmatch(p))]
    if not matches or not _torchao_version().startswith("0.18."):
        return None
    import torch
    from torchao.prototype.mx_formats import mx_tensor
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.constants import DTYPE_FP6_E2M3, DTYPE_FP6_E3M2

    torch.set_num_threads(1)
    mode = ScaleCalculationMode(matches[0]["mode"] or matches[0]["rceil"])
    element = {
        "e2m1": torch.float4_e2m1fn_x2, "e2m3": DTYPE_FP6_E2M3, "e3m2": DTYPE_FP6_E3M2, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2,
    }[function.element.name]  # fmt: skip

    def codes(x: Float32s) -> Codes:
        # Two columns, since e2m1 codes are packed in pairs.
        scale, _ = mx_tensor.to_mx(torch.from_numpy(x.copy()).reshape(-1, 2), element, 1, mode)
        found: Codes = scale.view(torch.uint8).numpy().reshape(-1)
        return found

    label = f"torchao {_torchao_version()} on torch {version('torch')}, {torch.backends.cpu.get_cpu_capability()}"
    return Witness("torchao", label, codes, piece=1 << 15)


@lru_cache(maxsize=1)
def _torchao_version() -> str:
    try:
        version("torch")
        return version("torchao")
    except PackageNotFoundError:
        return ""


@lru_cache(maxsize=1)
def _load_headers(library: str) -> cuda_headers.CudaHeaders:
    return cuda_headers.CudaHeaders(Path(library))


@lru_cache(maxsize=1)
def _headers_version() -> str:
    return cuda_headers.describe()["cuda_headers"]


def find_witnesses(function: Function, library: str | None) -> list[Witness]:
    """The array model, then every outside witness of a function that is installed.

    library: the compiled wrapper of NVIDIA's headers (`cuda_headers.compile_wrapper`), or None to go without.
    """
    model = f"mxspec {mxspec.__version__}"
    found: list[Witness | None] = [Witness("array-model", model, function.model)]
    if isinstance(function, EncodeFunction):
        found += [_ml_dtypes_encode(function), _cuda_encode(function, library) if library else None]
    elif isinstance(function, ScaleFunction):
        found += [_quantizer(function), _torchao_scale(function), _cuda_scale(function, library) if library else None]
    return [w for w in found if w is not None]


@dataclass(frozen=True, slots=True)
class Compared:
    """A witness on one chunk."""

    inputs: int
    differences: int
    #: The first difference in words, or "".
    first: str


def compare(witness: Witness, expected: Codes, start: int) -> Compared:
    """A witness against the exact answer on the patterns from `start`; excluded ones are passed over."""
    size, piece = expected.size, min(witness.piece, expected.size)
    offsets = np.arange(piece, dtype=np.uint32)
    differences, first = 0, ""
    for begin in range(0, size, piece):
        bits = offsets[: size - begin] + np.uint32(start + begin)
        answers = witness.codes(bits.view(np.float32))
        wanted = expected[begin : begin + bits.size]
        if np.array_equal(answers, wanted):
            continue
        differing = answers != wanted
        for e in witness.exclusions:
            low, high = max(e.first - start - begin, 0), max(e.last + 1 - start - begin, 0)
            differing[low:high] = False
        count = int(np.count_nonzero(differing))
        if count and not first:
            i = int(np.argmax(differing))
            first = f"{int(bits[i]):08x}: {int(answers[i]):02x}, exact {int(wanted[i]):02x}"
        differences += count
    return Compared(size - count_excluded(witness.exclusions, start, start + size), differences, first)
