"""Mutants of NVFP4's block and tensor scales, of the order of its operations, and of dequantize arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxspec.formats import E4M3
from mxspec_conformance.mutants import reference
from mxspec_conformance.mutants.decode_mutants import MX
from mxspec_conformance.mutants.reference import FLT_MAX, ONE, ONE_2688TH, ONE_SIXTH, Array, Context
from mxspec_conformance.mutants.rounding_mutants import to_bfloat16
from mxspec_conformance.mutants.scale_mutants import EVERY, flush_small
from mxspec_conformance.mutants.schema import Family, Mutant
from mxspec_conformance.mutants.staged import Step

TE, PAPER = "nvfp4-te", "nvfp4-paper"


def e4m3_by(mode: str) -> Step:
    """The block scale in another rounding."""

    def step(c: Context, ratio: Array) -> Array:
        f = Context(E4M3, None, c.profile)
        magnitude = np.where(np.isnan(ratio), 0, np.minimum(ratio.astype(np.float64), 1e6))
        rounded = np.minimum(reference.round_magnitude(f, magnitude, np.zeros(ratio.shape, bool), mode), 448)
        return np.where(np.isnan(ratio), 0x7F, reference.code_magnitude(f, rounded))

    return step


def stored(change: Callable[[Array, Array], Array]) -> Step:
    """The byte, changed: (byte, ratio)."""
    return lambda c, ratio: change(reference.store_ratio(c, ratio), ratio)


def scale_of(change: Callable[[Context, np.float32], Any]) -> Step:
    """Another S of the amax that was given."""
    return lambda c: ONE if c.given is None else np.float32(change(c, c.given))


def bf16(x: Any) -> Any:
    return to_bfloat16(np.asarray(x, np.float64), truncate=False).astype(np.float32)


def te_scale(c: Context) -> np.float32:
    """g of the maximum that was given."""
    assert c.given is not None
    return np.float32(c.given * ONE_2688TH)


def with_tensor(change: Callable[[Context, Array, Array], Array]) -> Step:
    """Dequantize arithmetic under a tensor scale: (c, q, sf) in float32."""

    def step(c: Context, values: Array, scales: Array) -> Array:
        if c.given is None:
            return reference.combine(c, values, scales)
        return change(c, values.astype(np.float32), scales.astype(np.float32))

    return step


def result(change: Callable[[Array], Array]) -> Step:
    """The values, changed afterwards."""
    return lambda c, values, scales: change(reference.combine(c, values, scales))


def no_flt_max(c: Context, scale: Array, amax: Array) -> Array:
    return ONE / (scale * (ONE / c.S))


def reciprocal_approximate(c: Context, scale: Array, amax: Array) -> Array:
    """The reciprocal with its lowest bit cleared."""
    right = reference.find_factor(c, scale, amax)
    return (right.view(np.uint32) & np.uint32(0xFFFFFFFE)).view(np.float32)


def amax_in(choose: Callable[[Array], Array]) -> Step:
    return lambda c, x: reference.find_tensor_amax(c, choose(x))


def tensor_signed(c: Context, x: Array) -> np.float32:
    top = x.max()
    return np.float32(top if np.isnan(top) else max(top, 0))


_N, _G = Family.NVFP4, Family.DEQUANTIZE
_NV, _DQ = ("nvfp4",), ("dequantize",)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(id="nv-scale-unclamped", source="P38", family=_N, formats=_NV, what="a block scale beyond 464 is stored as 7F, NaN", change={"store_ratio": stored(lambda s, r: np.where(r > 464, 0x7F, s))}),
    Mutant(id="nv-global-inverted", source="P39", family=_N, formats=_NV, what="the tensor scale is used as a divisor", change={"find_encode_scale": lambda c: ONE / reference.find_encode_scale(c)}),
    Mutant(id="nv-global-inverted-decode", source="P39", family=_N, formats=_NV, operations=_DQ, what="dequantize divides by the tensor scale", change={"combine": with_tensor(lambda c, q, s: q * (s / te_scale(c)))}),
    Mutant(id="nv-global-ignored", source="P40", family=_N, formats=_NV, what="the tensor scale is ignored", change={"find_encode_scale": lambda c: ONE}),
    Mutant(id="nv-scale-truncated", source="P41", family=_N, formats=_NV, what="the block scale is cut", change={"store_ratio": e4m3_by("rtz")}),
    Mutant(id="nv-scale-ftz", source="P42", family=_N, formats=_NV, what="subnormal block scales become 0", change={"store_ratio": stored(lambda s, r: np.where(s < 8, 0, s))}),
    Mutant(id="nv-reciprocal", source="P43", family=_N, formats=_NV, profile=TE, what="elements are divided by s * (1/S) instead of multiplied by its reciprocal", change={"find_factor": lambda c, s, a: s * (ONE / c.S), "multiply": lambda c, x, f: np.where((f == 0)[:, None], reference.multiply(c, x, np.minimum(ONE / f, FLT_MAX)), x / f[:, None])}),
    Mutant(id="nv-scale-pow2", source="P44", family=_N, formats=_NV, what="the block scale loses its mantissa", change={"store_ratio": stored(lambda s, r: np.where(s == 0x7F, s, s & 0x78))}),
    Mutant(id="nv-partial-bf16", source="P45", family=_G, formats=_NV, operations=_DQ, what="the tensor scale is rounded to bfloat16", change={"combine": with_tensor(lambda c, q, s: q * s * bf16(te_scale(c)))}),
    Mutant(id="nv-global-twice", source="P46", family=_G, formats=_NV, operations=_DQ, what="the tensor scale is applied twice", change={"combine": with_tensor(lambda c, q, s: reference.combine(c, q, s) * te_scale(c))}),
    Mutant(id="nv-scale-not-rebiased", source="P47", family=_G, formats=_NV, operations=_DQ, what="the block scale is widened by shifts, its bias kept: 2^-120 too small", change={"decode_scale": lambda c, s: reference.decode_scale(c, s) * 2.0**-120}),
    Mutant(id="tensor-amax-bf16", source="P66", family=_N, formats=_NV, operations=("tensor_scale",), what="the tensor's maximum is rounded to bfloat16", change={"find_tensor_amax": lambda c, x: bf16(reference.find_tensor_amax(c, x))}),
    Mutant(id="tensor-zero-nan", source="S3", family=_N, formats=_NV, what="2688 / amax with amax = 0: an infinite scale", change={"find_encode_scale": scale_of(lambda c, a: np.float32(2688) / a)}),
    Mutant(id="nv-paper-order", source="own", family=_N, formats=_NV, profile=TE, what="amax / 6 * S instead of amax * (S * fl(1/6))", change={"scale_ratio": lambda c, a: np.minimum(a / np.float32(6) * c.S, FLT_MAX)}),
    Mutant(id="nv-sixth-last", source="own", family=_N, formats=_NV, profile=TE, what="(amax * S) * fl(1/6)", change={"scale_ratio": lambda c, a: np.minimum(a * c.S * ONE_SIXTH, FLT_MAX)}),
    Mutant(id="nv-divide-by-six-last", source="own", family=_N, formats=_NV, profile=PAPER, what="(amax * S) / 6 instead of (amax / 6) * S", change={"scale_ratio": lambda c, a: a * c.S / np.float32(6)}),
    Mutant(id="nv-paper-sixth", source="own", family=_N, formats=_NV, profile=PAPER, what="amax * fl(1/6) instead of amax / 6", change={"scale_ratio": lambda c, a: a * ONE_SIXTH * c.S}),
    Mutant(id="nv-scale-double", source="own", family=_N, formats=_NV, profile=TE, what="amax * (S / 6) without intermediate rounding", change={"scale_ratio": lambda c, a: np.minimum(a.astype(np.float64) * c.S / 6, FLT_MAX).astype(np.float32)}),
    Mutant(id="nv-scale-half-up", source="ggml-org/llama.cpp", family=_N, formats=_NV, what="the block scale is rounded half up", change={"store_ratio": lambda c, ratio: e4m3_by("rna")(c, ratio)}),
    Mutant(id="nv-scale-half-down", source="own", family=_N, formats=_NV, what="ties of the block scale go down", change={"store_ratio": e4m3_by("rnz")}),
    Mutant(id="nv-scale-up", source="own", family=_N, formats=_NV, what="the block scale is rounded up", change={"store_ratio": e4m3_by("rtp")}),
    Mutant(id="nv-scale-248", source="ggml-org/llama.cpp", family=_N, formats=_NV, what="block scales from 248 on are stored as 448", change={"store_ratio": stored(lambda s, r: np.where((r >= 248) & (s != 0x7F), 0x7E, s))}),
    Mutant(id="nv-scale-240", source="own", family=_N, formats=_NV, what="block scales end at 240", change={"store_ratio": stored(lambda s, r: np.where(s == 0x7F, s, np.minimum(s, 0x77)))}),
    Mutant(id="nv-scale-min-subnormal", source="NVIDIA/Model-Optimizer", family=_N, formats=_NV, what="a block scale is at least 2^-9", change={"store_ratio": stored(lambda s, r: np.maximum(s, 1))}),
    Mutant(id="nv-scale-min-normal", source="pytorch/ao", family=_N, formats=_NV, what="a block scale is at least 2^-6", change={"store_ratio": stored(lambda s, r: np.maximum(s, 8))}),
    Mutant(id="nv-scale-zero-is-one", source="own", family=_N, formats=_NV, what="a block scale of zero is stored as 1", change={"store_ratio": stored(lambda s, r: np.where(s == 0, 0x38, s))}),
    Mutant(id="nv-scale-subnormal-short", source="own", family=_N, formats=_NV, what="a subnormal block scale does not round up to the smallest normal", change={"store_ratio": stored(lambda s, r: np.where((s == 8) & (r < 2.0**-6), 7, s))}),
    Mutant(id="nv-scale-top-bit", source="own", family=_N, formats=_NV, what="bit 7 of the block scale is set where the maximum is negative", change={"load": lambda c, x: x, "store_ratio": stored(lambda s, r: s | 0x80)}),
    Mutant(id="nv-unrounded-scale", source="kekzl/imp#250", family=_N, formats=_NV, what="elements are scaled by the block scale before it was rounded", change={"find_factor": lambda c, scale, amax: reference.find_factor(c, reference.scale_ratio(c, amax), amax)}),
    Mutant(id="nv-no-flt-max", source="own", family=_N, formats=_NV, profile=TE, what="an infinite factor is not clamped: 0 * Inf is NaN", change={"find_factor": no_flt_max}),
    Mutant(id="nv-zero-scale-passes", source="own", family=_N, formats=_NV, what="a block whose scale is 0 keeps its elements as they are", change={"find_factor": lambda c, s, a: np.where(s == 0, ONE, reference.find_factor(c, s, a))}),
    Mutant(id="nv-reciprocal-low-bit", source="own", family=_N, formats=_NV, what="the reciprocal is one bit short", change={"find_factor": reciprocal_approximate}),
    Mutant(id="nv-factor-other-order", source="own", family=_N, formats=_NV, profile=TE, what="S / s instead of 1 / (s * (1/S))", change={"find_factor": lambda c, s, a: np.minimum(c.S / s, FLT_MAX)}),
    Mutant(id="nv-factor-two-steps", source="own", family=_N, formats=_NV, profile=TE, what="x * (1 / s) * S: two products", change={"find_factor": lambda c, s, a: np.minimum(ONE / s, FLT_MAX), "multiply": lambda c, x, f: x * f[:, None] * c.S}),
    Mutant(id="nv-multiply-double", source="own", family=_N, formats=_NV, what="the product of element and factor is not rounded to float32", change={"multiply": lambda c, x, f: x.astype(np.float64) * f[:, None]}),
    Mutant(id="nv-encode-scale-ftz", source="own", family=_N, formats=_NV, profile=TE, what="a subnormal maximum of the tensor counts as zero", change={"find_encode_scale": scale_of(lambda c, a: ONE if a < 2.0**-126 else reference.encode_scale_of(c, a))}),
    Mutant(id="nv-decode-ftz", source="own", family=_G, formats=_NV, operations=_DQ, profile=TE, what="subnormal products of the block scale and the maximum are flushed to zero", change={"combine": with_tensor(lambda c, q, s: q * (flush_small(s * c.given) * ONE_2688TH))}),
    Mutant(id="nv-encode-scale-240", source="own", family=_N, formats=_NV, profile=TE, what="the tensor scale is made for block scales up to 240", change={"find_encode_scale": scale_of(lambda c, a: np.float32(1440) / a if a else ONE)}),
    Mutant(id="nv-encode-scale-without-6", source="own", family=_N, formats=_NV, profile=TE, what="the tensor scale is 448 / amax", change={"find_encode_scale": scale_of(lambda c, a: np.float32(448) / a if a else ONE)}),
    Mutant(id="nv-encode-scale-fp16", source="own", family=_N, formats=_NV, what="the tensor scale is held in float16", change={"find_encode_scale": lambda c: np.float32(np.float16(reference.find_encode_scale(c)))}),
    Mutant(id="nv-encode-scale-unclamped", source="own", family=_N, formats=_NV, profile=TE, what="a tensor scale beyond float32 stays infinite", change={"find_encode_scale": scale_of(lambda c, a: np.float32(2688) / a if a else ONE)}),
    Mutant(id="nv-encode-reciprocal", source="own", family=_N, formats=_NV, profile=TE, what="the tensor scale is 1 / (amax * fl(1/2688))", change={"find_encode_scale": scale_of(lambda c, a: min(ONE / np.float32(a * ONE_2688TH), FLT_MAX) if a else ONE)}),
    Mutant(id="nv-one-level-needs-tensor", source="own", family=_N, formats=_NV, profile=TE, what="without a tensor scale the block scale is divided by 448", change={"find_encode_scale": lambda c: np.float32(1 / 448) if c.given is None else reference.find_encode_scale(c)}),
    Mutant(id="nv-decode-paper-order", source="own", family=_G, formats=_NV, operations=_DQ, profile=TE, what="(q * s) * g instead of q * (s * amax / 2688)", change={"combine": with_tensor(lambda c, q, s: q * s * te_scale(c))}),
    Mutant(id="nv-decode-g-first", source="own", family=_G, formats=_NV, operations=_DQ, profile=TE, what="q * (s * (amax * fl(1/2688)))", change={"combine": with_tensor(lambda c, q, s: q * (s * te_scale(c)))}),
    Mutant(id="nv-decode-divides-by-2688", source="own", family=_G, formats=_NV, operations=_DQ, profile=TE, what="a division by 2688 instead of the product with its reciprocal", change={"combine": with_tensor(lambda c, q, s: q * (s * c.given / np.float32(2688)))}),
    Mutant(id="nv-decode-double", source="own", family=_G, formats=_NV, operations=_DQ, profile=TE, what="everything in double precision, rounded once", change={"combine": with_tensor(lambda c, q, s: (q.astype(np.float64) * s * float(c.given or 0) / 2688).astype(np.float32))}),
    Mutant(id="nv-decode-global-ignored", source="own", family=_G, formats=_NV, operations=_DQ, what="dequantize ignores the tensor scale", change={"combine": with_tensor(lambda c, q, s: q * s)}),
    Mutant(id="nv-decode-amax-for-g", source="own", family=_G, formats=_NV, operations=_DQ, profile=TE, what="the maximum itself is the multiplier", change={"combine": with_tensor(lambda c, q, s: q * (s * c.given))}),
    Mutant(id="nv-decode-scale-bf16", source="own", family=_G, formats=_NV, operations=_DQ, what="the product of both scales is rounded to bfloat16", change={"combine": with_tensor(lambda c, q, s: q * bf16(s * te_scale(c)))}),
    Mutant(id="nv-decode-paper-te-order", source="own", family=_G, formats=_NV, operations=_DQ, profile=PAPER, what="q * (s * g) instead of (q * s) * g", change={"combine": with_tensor(lambda c, q, s: q * (s * (ONE / c.S)))}),
    Mutant(id="nv-decode-paper-divides", source="modular/modular#6600", family=_G, formats=_NV, operations=_DQ, profile=PAPER, what="(q * s) / S instead of times 1 / S", change={"combine": with_tensor(lambda c, q, s: q * s / c.S)}),
    Mutant(id="result-ftz", source="own", family=_G, formats=MX, operations=_DQ, what="subnormal results are flushed to zero", change={"combine": result(flush_small)}),
    Mutant(id="result-fp16", source="S0", family=_G, formats=EVERY, operations=_DQ, what="products are held in float16", change={"combine": result(lambda y: y.astype(np.float16).astype(np.float32))}),
    Mutant(id="scale-times-two-factors", source="own", family=_G, formats=MX, operations=_DQ, what="the scale is split in 2^(e/2) twice, with the halves cut", change={"combine": lambda c, v, s: _split_product(v, s)}),
    Mutant(id="nan-times-zero", source="own", family=_G, formats=MX, operations=_DQ, what="zero codes give 0 under a NaN scale", change={"combine": lambda c, v, s: np.where(v == 0, v, v * s).astype(np.float32)}),
    Mutant(id="zero-sign-under-scale", source="own", family=_G, formats=("mxfp4", "mxfp8_e4m3", "nvfp4"), operations=_DQ, what="0 is added to the product, which loses the sign of zero", change={"combine": result(lambda y: y + np.float32(0))}),
    Mutant(id="max-scale-saturates", source="own", family=_G, formats=MX, operations=_DQ, what="scales from FD on are those of FD", change={"decode_scale": lambda c, s: np.where(s == 255, np.nan, np.minimum(reference.decode_scale(c, s), 2.0**126))}),
    Mutant(id="tensor-amax-signed", source="vllm-project/vllm#20578", family=_N, formats=_NV, operations=("tensor_scale",), what="the signed maximum of the tensor", change={"find_tensor_amax": tensor_signed}),
    Mutant(id="tensor-amax-first-row", source="own", family=_N, formats=_NV, operations=("tensor_scale",), what="the maximum of the first row", change={"find_tensor_amax": amax_in(lambda x: x[:1])}),
    Mutant(id="tensor-amax-but-last", source="own", family=_N, formats=_NV, operations=("tensor_scale",), what="the last element is left out", change={"find_tensor_amax": amax_in(lambda x: x.reshape(-1)[:-1])}),
    Mutant(id="tensor-amax-sampled", source="own", family=_N, formats=_NV, operations=("tensor_scale",), what="every other column is looked at", change={"find_tensor_amax": amax_in(lambda x: x[:, ::2])}),
    Mutant(id="tensor-amax-nan-skipped", source="own", family=_N, formats=_NV, operations=("tensor_scale",), what="NaN is passed over", change={"find_tensor_amax": lambda c, x: np.float32(np.fmax.reduce(np.abs(x), axis=None))}),
    Mutant(id="tensor-scale-inverted", source="modular/modular#6600", family=_N, formats=_NV, operations=("tensor_scale",), what="the reciprocal is returned", change={"find_tensor_scale": lambda c, a: ONE / np.float32(reference.find_tensor_scale(c, a))}),
    Mutant(id="tensor-scale-zero-nan", source="flashinfer-ai/flashinfer#3448", family=_N, formats=_NV, operations=("tensor_scale",), profile=PAPER, what="a tensor of zeros has an infinite scale", change={"find_tensor_scale": lambda c, a: np.float32(2688) / np.float32(a)}),
    Mutant(id="tensor-scale-reciprocal", source="own", family=_N, formats=_NV, operations=("tensor_scale",), profile=PAPER, what="1 / (amax * fl(1/2688)) instead of 2688 / amax", change={"find_tensor_scale": lambda c, a: ONE if a == 0 else np.minimum(ONE / (np.float32(a) * ONE_2688TH), FLT_MAX)}),
    Mutant(id="tensor-scale-eps", source="own", family=_N, formats=_NV, operations=("tensor_scale",), what="the maximum is at least 1e-12", change={"find_tensor_amax": lambda c, x: np.maximum(reference.find_tensor_amax(c, x), np.float32(1e-12))}),
)  # fmt: skip


def _split_product(values: Array, scales: Array) -> Array:
    ordinary = np.isfinite(scales) & (scales > 0)
    e = reference.exponent_of(np.where(ordinary, scales, 1.0))
    half = np.trunc(e / 2).astype(np.int64)
    first = (values * np.ldexp(1.0, half)).astype(np.float32)
    return np.where(ordinary, first * np.ldexp(1.0, half).astype(np.float32), values * scales).astype(np.float32)
