"""Threads about NVFP4's tensor scale, and its block scales."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import mxspec
from mxspec.profiles import get_profile
from mxspec.profiles.schema import TensorScaleKind
from mxspec.tensorscale import TensorScale, convert_tensor_scale
from mxspec_conformance.mutants import reference
from mxspec_conformance.mutants.reference import ONE, Array, Context
from mxspec_conformance.mutants.two_level_mutants import no_flt_max, tensor_signed, with_tensor
from mxspec_lab.threads.building import changed, changed_in, right, scale_decoding
from mxspec_lab.threads.schema import Family, Level, Source, Thread

TE, PAPER = "nvfp4-te", "nvfp4-paper"
FLASHINFER = "flashinfer-0.6.18/nvfp4/default"


def stored_multiplies(c: Context, q: Array, s: Array) -> Array:
    """The stored encode scale is taken for the factor that decodes."""
    return q * s * c.S


def low_half(c: Context) -> np.float32:
    """The two bytes of a bfloat16, read as the lower half of a float32."""
    if c.given is None:
        return ONE
    half = np.float32(c.given).view(np.uint32) >> 16
    return np.uint32(half).view(np.float32)


def without_tensor_scale(c: Context, scale: Array, amax: Array) -> Array:
    """Elements are divided by the stored block scale alone."""
    return np.where(scale == 0, np.float32(0), ONE / scale)


def wrong_subnormals(stored: Array, values: Array) -> Array:
    """Subnormal block scales as (1 + m/8) 2^-7."""
    small = (stored & 127 > 0) & (stored & 127 < 8)
    return np.where(small, (1 + (stored & 7) / 8) * 2.0**-7, values)


def nan_scale(c: Context, ratio: Array) -> Array:
    """What rounds beyond 448 is stored as NaN."""
    return np.where(ratio > 464, 0x7F, reference.store_ratio(c, ratio))


def unguarded(c: Context, amax: np.float32) -> np.float32:
    """2688 / 0 as it comes."""
    return np.float32(np.float32(2688) / amax)


class OfProfile:
    """A profile of the model, under the claim of another."""

    NAME, VERSION, FORMATS, TENSOR_SCALE = "broken", "1", ("nvfp4",), "amax"

    def __init__(self, profile: str, claimed: str) -> None:
        self._profile, self.PROFILE = get_profile(profile, "nvfp4"), [claimed]

    def quantize(self, x: Any, fmt: str, tensor_scale: float) -> tuple[Any, Any]:
        """Codes and scales, under a tensor's maximum."""
        kind = TensorScaleKind.AMAX
        scale = convert_tensor_scale(TensorScale(kind, int(np.float32(tensor_scale).view(np.uint32))), self._profile)
        t = mxspec.quantize(np.asarray(x), fmt, profile=self._profile, tensor_scale=scale)
        return t.codes, t.scales


_nvfp4 = partial(Thread, family=Family.TENSOR_SCALES, formats=("nvfp4",), judged=("nvfp4",))
_quantize = partial(_nvfp4, operations=("quantize",), only="quantize/nvfp4/*", level=Level.QUICK)

THREADS = (
    _nvfp4(
        id="modular-6600", reference="modular/modular#6600", also=("modular/modular#6699",), operations=("dequantize",), only="dequantize/nvfp4/*", profile=PAPER,
        title="Checkpoints of compressed-tensors come out as garbage: the tensor scale is a divisor there",
        wrong="The stored 2688 / amax is multiplied by, where it has to be divided by.", differs="The report's second half, scales swizzled twice, is left out.",
        broken=changed_in("dequantize", PAPER, combine=with_tensor(stored_multiplies)), fixed=right(PAPER), fails=("dequantize/nvfp4/tensor-scale",), names="its tensor scale as decode",
    ),
    _quantize(
        id="vllm-55643", level=Level.FULL, reference="vllm-project/vllm#55643", profile=PAPER, title="The fused activation and quantization pass the tensor scale in the wrong direction",
        wrong="The quantizer is given the scale that decodes where it takes the one that encodes.", differs="The report's first half, a buffer that is too small, is vllm-55456.",
        broken=changed_in("quantize", PAPER, find_encode_scale=lambda c: ONE if c.given is None else ONE / c.given), fixed=right(PAPER), fails=("quantize/nvfp4/tensor-scale",), names="its tensor scale as decode",
    ),
    _quantize(
        id="flashinfer-3497", reference="flashinfer-ai/flashinfer#3497", also=("flashinfer-ai/flashinfer#3398",), profile=PAPER, title="A tensor scale in bfloat16 gives codes of zeros, or of a wrong size",
        wrong="The kernel reads four bytes as float32 where two hold a bfloat16.", differs="The two bytes that follow are zero here.",
        broken=changed_in("quantize", PAPER, find_encode_scale=low_half), fixed=right(PAPER), fails=("quantize/nvfp4/tensor-scale",), names="",
    ),
    _quantize(
        id="jax-30467", reference="jax-ml/jax#30467", profile=PAPER, title="NVFP4 codes are all zero under a tensor scale, and the test compared zeros with zeros",
        wrong="Block scales take the tensor scale in, elements are divided by them alone.",
        broken=changed(PAPER, find_factor=without_tensor_scale), fixed=right(PAPER), fails=("quantize/nvfp4/exact",), names="left out of the elements",
    ),
    _quantize(
        id="miles-1054", reference="radixark/miles#1054", profile=TE, title="The quantizer in use does not have Transformer Engine's bits",
        wrong="FlashInfer's kernel multiplies by approximate reciprocals where Transformer Engine divides.", differs="The broken one is the model's profile of FlashInfer 0.6.18.",
        broken=lambda: OfProfile(FLASHINFER, TE), fixed=right(TE), fails=("quantize/nvfp4/tie-even",), names="a reciprocal that is approximate",
    ),
    _quantize(
        id="flashinfer-3932", reference="flashinfer-ai/flashinfer#3932", profile=TE, title="Under small block scales the quantizer and the tensor core disagree",
        wrong="Subnormal block scales are decoded as (1 + m/8) 2^-7 while quantizing, up to 4.5 times too large.", differs="The report's second half, an inverted factor, is left out.",
        broken=changed_in("quantize", TE, decode_scale=scale_decoding(wrong_subnormals)), fixed=right(TE), fails=("quantize/nvfp4/tie-even",), names="subnormals had a leading one",
    ),
    _quantize(
        id="model-optimizer-1633", reference="NVIDIA/Model-Optimizer#1633", also=("NVIDIA/Model-Optimizer#1397",), source=Source.NOTE, profile=TE, title="Exported block scales hold NaN bytes",
        wrong="A block scale beyond 448 is cast without saturation.", broken=changed(TE, store_ratio=nan_scale), fixed=right(TE), fails=("quantize/nvfp4/scale-tie",), names="saturation gives 7e; returned 7f",
    ),
    _quantize(
        id="flashinfer-2440", reference="flashinfer-ai/flashinfer#2440", source=Source.NOTE, profile=TE, title="Tiny inputs quantize to NaN",
        wrong="The reciprocal of a block scale of zero is infinite, and 0 times infinity is NaN.", broken=changed(TE, find_factor=no_flt_max), fixed=right(TE), fails=("quantize/nvfp4/zero-block",), names="division by a scale of zero",
    ),
    _nvfp4(
        id="compressed-tensors-595", reference="vllm-project/compressed-tensors#595", source=Source.NOTE, operations=("tensor_scale",), only="tensor_scale/nvfp4/*", profile=PAPER,
        title="Activations of zeros give an infinite tensor scale", wrong="2688 / amax has no case for amax = 0.",
        broken=changed(PAPER, find_tensor_scale=unguarded), fixed=right(PAPER), fails=("tensor_scale/nvfp4/tensor-scale",), names="however small or large",
    ),
    _nvfp4(
        id="vllm-20578", reference="vllm-project/vllm#20578", operations=("tensor_scale",), only="tensor_scale/nvfp4/*", profile=PAPER,
        title="A benchmark takes the tensor scale from the largest number, not from the largest magnitude", wrong="The maximum is taken without abs.", differs="Said in a review.",
        broken=changed(PAPER, find_tensor_amax=tensor_signed), fixed=right(PAPER), fails=("tensor_scale/nvfp4/tensor-scale",), names="not the largest magnitude",
    ),
)  # fmt: skip
