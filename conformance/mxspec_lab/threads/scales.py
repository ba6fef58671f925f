"""Threads about block scales, and casts to E8M0."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mxspec_conformance.mutants import reference
from mxspec_conformance.mutants.call_mutants import quantize_as
from mxspec_conformance.mutants.reference import Array, Context, Step
from mxspec_conformance.mutants.scale_mutants import at_least, exact_ratio_scale, ratio_floor, rounded_log2, scale_when
from mxspec_lab.threads.building import changed, claiming, e8m0, right, wrapped
from mxspec_lab.threads.schema import Family, Level, Thread


def ceil_of_log2(c: Context, amax: Array) -> Array:
    """ceil(log2 amax) with the logarithm in float32."""
    return np.ceil(rounded_log2(amax)).astype(np.int64) - c.element.emax


def masked_round_up(magnitude: Array, right_codes: Array, mode: str) -> Array:
    """Toward +infinity where a bit of 4FFFFF is set: two of the 23 bits are not looked at."""
    bits = magnitude.astype(np.float32).view(np.uint32)
    normal = np.isfinite(magnitude) & (magnitude >= 2.0**-126)
    missed = normal & ((bits & 0x7FFFFF) != 0) & ((bits & 0x4FFFFF) == 0) & (mode == "rtp")
    return np.where(missed, np.minimum(bits >> 23, 254), right_codes)


def ties_up(magnitude: Array, right_codes: Array, mode: str) -> Array:
    """To nearest, every midpoint between two powers of two up."""
    tie = np.isfinite(magnitude) & (magnitude > 0) & (np.frexp(magnitude)[0] == 0.75) & (mode == "rne")
    return np.where(tie, np.minimum(reference.exponent_of(magnitude) + 128, 254), right_codes)


def always_up(magnitude: Array, right_codes: Array, mode: str) -> Array:
    """The exponent field, plus one where a bit of the fraction is set."""
    bits = magnitude.astype(np.float32).view(np.uint32)
    code = (bits >> 23) + (((bits & 0x7FFFFF) != 0) & (bits >> 23 < 255))
    return np.where(np.isfinite(magnitude) & (mode == "rne"), code, right_codes)


def floored_when_strided(right_function: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Any:
    """Inputs that are not contiguous take a path whose scale is at least 2^-33."""
    if x.flags.c_contiguous:
        return right_function(x, fmt, **kwargs)
    other = claiming(reference.Reference("mx-rceil", change={"find_amax": at_least(448 * 2.0**-33)}))
    return other.quantize(x, fmt, **kwargs)


_scales = partial(Thread, family=Family.SCALES, operations=("quantize",))
_e8m0 = partial(
    Thread, family=Family.SCALES, operations=("encode",), formats=("e8m0",), only="encode/e8m0/*", fixed=right()
)

THREADS = (
    _scales(
        id="vllm-43557", reference="vllm-project/vllm#43557", formats=("mxfp4",), judged=("mxfp4",), only="*/mxfp4/*", profile="mx-even",
        title="The E8M0 scale of the MXFP4 mixture-of-experts kernel is one too small for many blocks",
        wrong="The exponent is read off amax / 6 instead of off amax, with emax subtracted afterwards.",
        differs="The kernel multiplies by an approximate reciprocal of 6; here the quotient is rounded once.",
        broken=changed("mx-even", find_exponent=ratio_floor), fixed=right("mx-even"),
        fails=("quantize/mxfp4/scale-boundary",), names="floor(log2 v), v = (amax",
    ),
    _scales(
        id="sglang-28418", level=Level.QUICK, reference="sgl-project/sglang#28418", also=("huggingface/transformers#46763",), formats=("mxfp8_e4m3",), judged=("mxfp8_e4m3",), only="*/mxfp8_e4m3/*",
        profile="mx-rceil", title="Elements are quantized under the exact scale, and the scale is rounded to a power of two afterwards",
        wrong="x is divided by amax / 448; the stored scale is the next power of two, up to twice as large.",
        differs="The reports are of blocks of 128 and of 128 x 128; here they are MXFP8's 32.",
        broken=changed("mx-rceil", use_scale=exact_ratio_scale), fixed=right("mx-rceil"), fails=("quantize/mxfp8_e4m3/exact",), names="before it was rounded to a power of two",
    ),
    _scales(
        id="sglang-31210", reference="sgl-project/sglang#31210", also=("sgl-project/sglang#29954",), formats=("mxfp8_e4m3",), judged=("mxfp8_e4m3",), only="*/mxfp8_e4m3/*",
        profile="mx-ceil", title="The UE8M0 scale is rounded up through a floating-point logarithm",
        wrong="ceil(log2(x)) in float32 loses a step for numbers just above a power of two.",
        differs="The report rounds a scale up; here the same rule takes the block's maximum, as mx-ceil does.",
        broken=changed("mx-ceil", find_exponent=ceil_of_log2), fixed=right("mx-ceil"), fails=("scale/mxfp8_e4m3/scale-boundary",), names="ceil of a float log2",
    ),
    _scales(
        id="aiter-3212", reference="ROCm/aiter#3212", formats=("mxfp4",), judged=("mxfp4",), only="*/mxfp4/*", profile="mx-rceil",
        title="Three implementations of one quantizer choose scales by different rules",
        wrong="The reference takes floor(log2 amax) - 2 where the kernel rounds amax / 6 up to a power of two.",
        broken=changed("mx-rceil", find_exponent=reference.exponent_floor), fixed=right("mx-rceil"), fails=("quantize/mxfp4/scale-boundary",), names="as mx-floor",
    ),
    _scales(
        id="ao-4725", level=Level.QUICK, reference="pytorch/ao#4725", formats=("mxfp8_e4m3",), judged=("mxfp8_e4m3",), only="*/mxfp8_e4m3/*", profile="mx-floor",
        title="The helper that widens a scale byte does not handle 2^-127",
        wrong="The byte is shifted into the exponent field: byte 00 is 0, by which elements are divided.",
        broken=changed(use_scale=scale_when(lambda stored: stored == 0, 0.0)), fixed=right(), fails=("quantize/mxfp8_e4m3/zero-block", "quantize/mxfp8_e4m3/subnormal"), names="byte 00 were zero",
    ),
    _scales(
        id="vllm-53346", level=Level.QUICK, reference="vllm-project/vllm#53346", also=("vllm-project/vllm#53339",), formats=("mxfp8_e4m3",), judged=("mxfp8_e4m3",), only="*/mxfp8_e4m3/*", profile="mx-rceil",
        title="Tiny groups get another scale if the input is not contiguous",
        wrong="Two paths of one function bound the scale differently, one of them at 1e-10, and memory order decides which is taken.",
        differs="The report is of groups of 128, and the bounded path is the contiguous one.",
        broken=wrapped("mx-rceil", quantize=quantize_as(floored_when_strided)), fixed=right("mx-rceil"), fails=("quantize/mxfp8_e4m3/memory",), names="",
    ),
    _e8m0(
        id="onnx-7784", reference="onnx/onnx#7784", title="Rounding up to E8M0 leaves numbers below what they are",
        wrong="The fraction is masked with 4FFFFF in place of 7FFFFF, so that two of its bits are not looked at.",
        broken=changed(encode_e8m0=e8m0(masked_round_up)), fails=("encode/e8m0/choice",), names="some bits of the fraction were not looked at",
    ),
    _e8m0(
        id="ml_dtypes-398", reference="jax-ml/ml_dtypes#398", also=("jax-ml/ml_dtypes#298",), title="Ties between two E8M0 scales always go up",
        wrong="The bit that decides ties to even is the implicit leading one, which is always set.",
        broken=changed(encode_e8m0=e8m0(ties_up)), fails=("encode/e8m0/choice",), names="rounding rna",
    ),
    _e8m0(
        id="tilelang-metax-101", reference="tile-ai/tilelang-metax#101", title="The cast to E8M0 rounds every fraction up, and over the end into NaN",
        wrong="One is added to the exponent field wherever the fraction is not zero, also to FE.",
        differs="Said in a review.",
        broken=changed(encode_e8m0=e8m0(always_up)), fails=("encode/e8m0/choice",), names="rounding rtp",
    ),
)  # fmt: skip
