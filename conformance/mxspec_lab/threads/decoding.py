"""Threads about decoding elements and scales."""

from __future__ import annotations

from functools import partial

import ml_dtypes
import numpy as np

from mxspec_conformance.mutants import reference
from mxspec_conformance.mutants.reference import Array, Context
from mxspec_lab.threads.building import changed, changed_in, decoding, e8m0_decoding, right, scale_decoding
from mxspec_lab.threads.schema import Family, Source, Thread


def sentinel_by_value(stored: Array, values: Array) -> Array:
    """The NaN byte is looked for as the value 128; 2^128 itself overflows."""
    return np.where(stored == 134, np.nan, np.where(stored == 255, np.inf, values))


def shifted_byte(stored: Array, values: Array) -> Array:
    """The byte as the exponent field of a float32."""
    return np.where(stored == 0, 0.0, np.where(stored == 255, np.inf, values))


def e4m3_nan_as_480(codes: Array, values: Array) -> Array:
    """No case for NaN."""
    return np.where(codes & 127 == 127, np.where(codes & 128, -480.0, 480.0), values)


def e4m3_all_normal(codes: Array, values: Array) -> Array:
    """Every code as a normal number, zero and NaN too."""
    magnitude = codes & 127
    normal = (1 + (magnitude & 7) / 8) * np.ldexp(1.0, (magnitude >> 3) - 7)
    return np.where(codes & 128, -normal, normal)


def e4m3_subnormals_normal(codes: Array, values: Array) -> Array:
    """Subnormals as (1 + m/8) 2^-7."""
    small = (codes & 120 == 0) & (codes & 7 != 0)
    return np.where(small, np.copysign((1 + (codes & 7) / 8) * 2.0**-7, values), values)


def e5m2_all_finite(codes: Array, values: Array) -> Array:
    """Exponent field 31 as a number."""
    top = (codes & 124) == 124
    return np.where(top, np.where(codes & 128, -1.0, 1.0) * (1 + (codes & 3) / 4) * 65536, values)


def added_to_pattern(c: Context, values: Array, scales: Array) -> Array:
    """The scale's exponent is added to the whole bfloat16 pattern of an element, which wraps."""
    bits = values.astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.int64)
    exponent = np.where(np.isnan(scales), 128, reference.exponent_of(np.nan_to_num(scales, nan=1.0)))
    moved = np.where(bits & 0x7FFF == 0, bits, bits + exponent * 128) & 0xFFFF
    return moved.astype(np.uint16).view(ml_dtypes.bfloat16).astype(np.float32)


def read_as_e8m0(stored: Array, values: Array) -> Array:
    """The byte as a power of two."""
    return np.where(stored == 255, np.nan, np.ldexp(1.0, stored - 127))


def exponent_alone(stored: Array, values: Array) -> Array:
    """2^(field - 7), without fraction, zero and subnormals."""
    return np.where(np.isnan(values), np.nan, np.ldexp(1.0, ((stored & 127) >> 3) - 7))


_e4m3 = partial(
    Thread, family=Family.DECODING, operations=("decode",), formats=("e4m3",), only="decode/e4m3/*", fixed=right(), fails=("decode/e4m3/code",)
)
_e8m0 = partial(
    Thread, family=Family.DECODING, operations=("decode",), formats=("e8m0",), only="decode/e8m0/*", fixed=right(), fails=("decode/e8m0/code",)
)
_blocks = partial(Thread, family=Family.DECODING, operations=("dequantize",))

THREADS = (
    _blocks(
        id="sglang-25519", reference="sgl-project/sglang#25519", formats=("mxfp4",), judged=("mxfp4",), only="dequantize/mxfp4/*", profile="mx-floor",
        title="Scale 128 decodes as NaN, and the NaN byte as infinity", wrong="The decoder compares the decoded value with 128 where the byte 255 is meant.",
        broken=changed_in("dequantize", "mx-floor", decode_scale=scale_decoding(sentinel_by_value)), fixed=right(), fails=("dequantize/mxfp4/scale-code",), names="scale byte 86 were NaN and FF were infinity",
    ),
    _blocks(
        id="te-3262", reference="NVIDIA/TransformerEngine#3262", formats=("mxfp8_e4m3",), judged=("mxfp8_e4m3",), only="dequantize/mxfp8_e4m3/*", profile="mx-floor",
        title="MXFP8 blocks under scale byte 00 dequantize to zeros, under FF to infinities", wrong="The byte is shifted into the exponent field of a float32, where 0 and 255 mean something else.",
        broken=changed_in("dequantize", "mx-floor", decode_scale=scale_decoding(shifted_byte)), fixed=right(), fails=("dequantize/mxfp8_e4m3/scale-code",), names="exponent field of a float32",
    ),
    _blocks(
        id="vllm-46676", reference="vllm-project/vllm#46676", formats=("mxfp4",), judged=("mxfp4",), only="dequantize/mxfp4/*", profile="mx-floor",
        title="bfloat16 0.5 under scale byte 00 becomes minus infinity", wrong="The scale's exponent is added to the 16 bits of the number, and runs into its sign.", differs="Said in a review.",
        broken=changed(combine=added_to_pattern), fixed=right(), fails=("dequantize/mxfp4/scale-code",), names="16 bits of the element as bfloat16",
    ),
    _blocks(
        id="rocm-libraries-9389", reference="ROCm/rocm-libraries#9389", formats=("nvfp4",), judged=("nvfp4",), only="dequantize/nvfp4/*", profile="nvfp4-te",
        title="A test oracle reads E4M3 block scales as E8M0", wrong="Scale bytes of every type are taken for powers of two.", differs="The report is of a product; here the scales are decoded alone.",
        broken=changed_in("dequantize", "nvfp4-te", decode_scale=scale_decoding(read_as_e8m0)), fixed=right("nvfp4-te"), fails=("dequantize/nvfp4/scale-code",), names="E8M0 scale",
    ),
    _blocks(
        id="rocm-libraries-7439", reference="ROCm/rocm-libraries#7439", formats=("nvfp4",), judged=("nvfp4",), only="dequantize/nvfp4/*", profile="nvfp4-te",
        title="A generator of reference data decodes E4M3 scales by their exponent alone", wrong="The fraction is dropped, and subnormal scales and zero are powers of two.",
        broken=changed_in("dequantize", "nvfp4-te", decode_scale=scale_decoding(exponent_alone)), fixed=right("nvfp4-te"), fails=("dequantize/nvfp4/scale-code",), names="exponent field alone",
    ),
    _e8m0(
        id="onednn-4218", reference="uxlfoundation/oneDNN#4218", title="E8M0 00 decodes as zero", wrong="00 is shifted into the exponent field, where it means zero, not 2^-127.",
        broken=changed(decode_e8m0=e8m0_decoding(lambda codes, values: np.where(codes == 0, 0.0, values))), names="byte 00 were zero",
    ),
    _e8m0(
        id="llvm-214919", reference="llvm/llvm-project#214919", title="Converting an E8M0 NaN gives the bits of infinity", wrong="The NaN has no fraction to carry over, and an empty one under the largest exponent is infinity.",
        broken=changed(decode_e8m0=e8m0_decoding(lambda codes, values: np.where(codes == 255, np.inf, values))), names="the NaN byte were infinity",
    ),
    _e8m0(
        id="arch-com-848", reference="arch-hdl-lang/arch-com#848", title="An E8M0 scale widens to its own eight bits", wrong="to_fp32() returns the byte where 2^(byte - 127) is meant.",
        differs="One of four bugs that the text lists, found before the change was merged.",
        broken=changed(decode_e8m0=e8m0_decoding(lambda codes, values: codes.astype(np.float64))), names="the byte itself",
    ),
    _e8m0(
        id="idma-219", reference="pulp-platform/iDMA#219", source=Source.NOTE, title="The shared scale is a signed number, not E8M0", wrong="The byte is two's complement: 2^byte for -128 to 127.",
        broken=changed(decode_e8m0=e8m0_decoding(lambda codes, values: np.ldexp(1.0, np.where(codes > 127, codes - 256, codes)))), names="signed exponent",
    ),
    _e4m3(
        id="mlx-4376", reference="ml-explore/mlx#4376", also=("ml-explore/mlx#4135", "ml-explore/mlx#4164", "Scottcjn/ram-coffers#716"), title="E4M3 NaN decodes as 480", wrong="The decoder shifts all bits alike; 7F and FF have no case of their own.",
        broken=changed(decode_element=decoding(e4m3_nan_as_480)), names="infinities and NaN were numbers",
    ),
    _e4m3(
        id="tilelang-2710", reference="tile-ai/tilelang#2710", title="18 of 256 E4M3 codes decode wrongly", wrong="Zeros, subnormals and NaN are read as normal numbers.",
        broken=changed(decode_element=decoding(e4m3_all_normal)), names="every code were a normal number",
    ),
    _e4m3(
        id="1bit-monster-300", reference="1bit-MONSTER/1bit-MONSTER#300", title="All seven E4M3 subnormals decode wrongly", wrong="The fraction gets a leading one and the exponent -7.",
        broken=changed(decode_element=decoding(e4m3_subnormals_normal)), names="subnormals had a leading one",
    ),
    Thread(
        id="intel-xpu-triton-7772", reference="intel/intel-xpu-backend-for-triton#7772", family=Family.DECODING, operations=("decode",), formats=("e5m2",), only="decode/e5m2/*", fixed=right(), fails=("decode/e5m2/code",),
        title="E5M2 infinities and NaN decode as finite numbers", wrong="Exponent field 31 is read like any other: 7C is 65536.",
        broken=changed(decode_element=decoding(e5m2_all_finite)), names="infinities and NaN were numbers",
    ),
)  # fmt: skip
