"""Threads about numbers: block scales, casts to elements, decoding, tensor scales."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import mxspec
from mxspec.profiles import get_profile
from mxspec.profiles.schema import TensorScaleKind
from mxspec.tensorscale import TensorScale, convert_tensor_scale
from mxspec_conformance.mutants import reference, rounding_mutants as rounding
from mxspec_conformance.mutants.call_mutants import e8m0, one_mode, quantize_as
from mxspec_conformance.mutants.decode_mutants import as_normal, magnitudes, scale_as, subnormal, where
from mxspec_conformance.mutants.reference import ONE, Array, Context
from mxspec_conformance.mutants.scale_mutants import at_least, exact_ratio_scale, ratio_floor, rounded_log2, scale_when
from mxspec_conformance.mutants.staged import Step
from mxspec_conformance.mutants.two_level_mutants import no_flt_max, stored, tensor_signed, with_tensor
from mxspec_lab.threads.schema import Family, Level, Source, Thread

_S, _R, _D, _T = Family.SCALES, Family.ROUNDING, Family.DECODING, Family.TENSOR_SCALES
QUICK, NOTE = Level.QUICK, Source.NOTE
FLOOR, TE, PAPER = "mx-floor", "nvfp4-te", "nvfp4-paper"
#: Marks magnitudes that become NaN: beyond every value of the format.
_NAN = 2.0**40


def masked_round_up(magnitude: Array, right_codes: Array, mode: str) -> Array:
    """Toward +infinity where a bit of 4FFFFF is set: two of the 23 bits are not looked at."""
    bits = magnitude.astype(np.float32).view(np.uint32)
    normal = np.isfinite(magnitude) & (magnitude >= 2.0**-126)
    missed = normal & ((bits & 0x7FFFFF) != 0) & ((bits & 0x4FFFFF) == 0) & (mode == "rtp")
    return np.where(missed, np.minimum(bits >> 23, 254), right_codes)


def always_up(magnitude: Array, right_codes: Array, mode: str) -> Array:
    """The exponent field, plus one where a bit of the fraction is set."""
    bits = magnitude.astype(np.float32).view(np.uint32)
    code = (bits >> 23) + (((bits & 0x7FFFFF) != 0) & (bits >> 23 < 255))
    return np.where(np.isfinite(magnitude) & (mode == "rne"), code, right_codes)


def floored_when_strided(right_function: Step, x: Array, fmt: str, kwargs: dict[str, Any]) -> Any:
    """Inputs that are not contiguous take a path whose scale is at least 2^-33."""
    if x.flags.c_contiguous:
        return right_function(x, fmt, **kwargs)
    other = reference.Reference("mx-rceil", change={"find_amax": at_least(448 * 2.0**-33)})
    return other.quantize(x, fmt, **kwargs)


def nearest(step: Step) -> Step:
    """Where ties to even are asked for another step; other modes as they are."""
    return lambda c, m, n, mode: (step if mode == "rne" else reference.round_magnitude)(c, m, n, mode)


def four_bits_below(c: Context, magnitude: Array) -> Array:
    """Subnormals rounded to four significant bits."""
    step = np.ldexp(1.0, reference.exponent_of(magnitude) - 3)
    return np.where((magnitude < 2.0**-6) & (magnitude > 0), np.rint(magnitude / step) * step, magnitude)


def finite_overflow_is_nan(c: Context, rounded: Array, magnitude: Array) -> Array:
    """What ends at or above 512 and is below 57344 becomes NaN, what lies beyond saturates."""
    return np.where((rounded >= 512) & (magnitude < 57344), _NAN, reference.saturate(c, rounded, magnitude))


def added_to_pattern(c: Context, values: Array, scales: Array) -> Array:
    """The scale's exponent is added to the whole bfloat16 pattern of an element, which wraps."""
    bits = values.astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.int64)
    exponent = np.where(np.isnan(scales), 128, reference.exponent_of(np.nan_to_num(scales, nan=1.0)))
    moved = np.where(bits & 0x7FFF == 0, bits, bits + exponent * 128) & 0xFFFF
    return moved.astype(np.uint16).view(ml_dtypes.bfloat16).astype(np.float32)


def low_half(c: Context) -> np.float32:
    """The two bytes of a bfloat16, read as the lower half of a float32."""
    return ONE if c.given is None else (np.float32(c.given).view(np.uint32) >> 16).view(np.float32)


class FlashInfer:
    """FlashInfer 0.6.18 by its profile, under the claim of Transformer Engine's."""

    NAME, VERSION, FORMATS, TENSOR_SCALE, PROFILE = "broken", "1", ("nvfp4",), "amax", (TE,)

    def quantize(self, x: Any, fmt: str, tensor_scale: float) -> tuple[Any, Any]:
        """Codes and scales, under a tensor's maximum."""
        profile = get_profile("flashinfer-0.6.18/nvfp4/default", "nvfp4")
        amax = TensorScale(TensorScaleKind.AMAX, int(np.float32(tensor_scale).view(np.uint32)))
        t = mxspec.quantize(np.asarray(x), fmt, profile=profile, tensor_scale=convert_tensor_scale(amax, profile))
        return t.codes, t.scales


THREADS: tuple[Thread, ...] = (
    Thread(reference="vllm-project/vllm#43557", family=_S, operation="quantize", format="mxfp4", profile="mx-even",
        title="The E8M0 scale of the MXFP4 mixture-of-experts kernel is one too small for many blocks", wrong="The exponent is read off amax / 6 instead of off amax, with emax subtracted afterwards.", differs="The kernel multiplies by an approximate reciprocal of 6; here the quotient is rounded once.",
        change={"find_exponent": ratio_floor}, fails=("quantize/mxfp4/scale-boundary",), names="floor(log2 v), v = (amax"),
    Thread(reference="sgl-project/sglang#28418", also=("huggingface/transformers#46763",), family=_S, operation="quantize", format="mxfp8_e4m3", profile="mx-rceil", level=QUICK,
        title="Elements are quantized under the exact scale, and the scale is rounded to a power of two afterwards", wrong="x is divided by amax / 448; the stored scale is the next power of two, up to twice as large.", differs="The reports are of blocks of 128 and of 128 x 128; here they are MXFP8's 32.",
        change={"use_scale": exact_ratio_scale}, fails=("quantize/mxfp8_e4m3/exact",), names="before it was rounded to a power of two"),
    Thread(reference="sgl-project/sglang#31210", also=("sgl-project/sglang#29954",), family=_S, operation="quantize", format="mxfp8_e4m3", profile="mx-ceil",
        title="The UE8M0 scale is rounded up through a floating-point logarithm", wrong="ceil(log2(x)) in float32 loses a step for numbers just above a power of two.", differs="The report rounds a scale up; here the same rule takes the block's maximum, as mx-ceil does.",
        change={"find_exponent": lambda c, amax: np.ceil(rounded_log2(amax)).astype(np.int64) - c.element.emax}, fails=("scale/mxfp8_e4m3/scale-boundary",), names="ceil of a float log2"),
    Thread(reference="ROCm/aiter#3212", family=_S, operation="quantize", format="mxfp4", profile="mx-rceil",
        title="Three implementations of one quantizer choose scales by different rules", wrong="The reference takes floor(log2 amax) - 2 where the kernel rounds amax / 6 up to a power of two.",
        change={"find_exponent": reference.exponent_floor}, fails=("quantize/mxfp4/scale-boundary",), names="as mx-floor"),
    Thread(reference="pytorch/ao#4725", family=_S, operation="quantize", format="mxfp8_e4m3", profile=FLOOR, level=QUICK,
        title="The helper that widens a scale byte does not handle 2^-127", wrong="The byte is shifted into the exponent field: byte 00 is 0, by which elements are divided.",
        change={"use_scale": scale_when(lambda stored: stored == 0, 0.0)}, fails=("quantize/mxfp8_e4m3/zero-block", "quantize/mxfp8_e4m3/subnormal"), names="byte 00 were zero"),
    Thread(reference="vllm-project/vllm#53346", also=("vllm-project/vllm#53339",), family=_S, operation="quantize", format="mxfp8_e4m3", profile="mx-rceil", level=QUICK,
        title="Tiny groups get another scale if the input is not contiguous", wrong="Two paths of one function bound the scale differently, one of them at 1e-10, and memory order decides which is taken.", differs="The report is of groups of 128, and the bounded path is the contiguous one.",
        wrap={"quantize": quantize_as(floored_when_strided)}, fails=("quantize/mxfp8_e4m3/memory",), names=""),
    Thread(reference="onnx/onnx#7784", family=_S, operation="encode", format="e8m0",
        title="Rounding up to E8M0 leaves numbers below what they are", wrong="The fraction is masked with 4FFFFF in place of 7FFFFF, so that two of its bits are not looked at.",
        change={"encode_e8m0": e8m0(masked_round_up)}, fails=("encode/e8m0/choice",), names="some bits of the fraction were not looked at"),
    Thread(reference="jax-ml/ml_dtypes#398", also=("jax-ml/ml_dtypes#298",), family=_S, operation="encode", format="e8m0",
        title="Ties between two E8M0 scales always go up", wrong="The bit that decides ties to even is the implicit leading one, which is always set.",
        change={"encode_e8m0": e8m0(lambda m, right, mode: np.where((mode == "rne") & (np.frexp(m)[0] == 0.75), np.minimum(reference.exponent_of(m) + 128, 254), right))}, fails=("encode/e8m0/choice",), names="rounding rna"),
    Thread(reference="tile-ai/tilelang-metax#101", family=_S, operation="encode", format="e8m0",
        title="The cast to E8M0 rounds every fraction up, and over the end into NaN", wrong="One is added to the exponent field wherever the fraction is not zero, also to FE.", differs="Said in a review.",
        change={"encode_e8m0": e8m0(always_up)}, fails=("encode/e8m0/choice",), names="rounding rtp"),
    Thread(reference="ROCm/aiter#3992", also=("ROCm/aiter#4030", "ROCm/aiter#2247"), family=_R, operation="quantize", format="mxfp4", profile="mx-even", level=QUICK,
        title="The FP4 cast that is named after even rounding sends ties away from zero", wrong="All seven thresholds are inclusive, so that 0.25, 1.25, 2.5 and 5 go up to an odd code.",
        change={"round_magnitude": rounding.always("rna")}, fails=("quantize/mxfp4/tie-even",), names="ties away from zero"),
    Thread(reference="tenstorrent/tt-metal#51971", also=("tenstorrent/tt-metal#51975",), family=_R, operation="quantize", format="mxfp4", profile=FLOOR, level=QUICK,
        title="The MX element encoder rounds subnormals at the wrong bit", wrong="Below the smallest normal number bits beyond the first dropped one are lost: 0.25000006 counts as the tie 0.25 and becomes 0.", differs="Of three defects in the report this is the one about sticky bits.",
        change={"round_magnitude": rounding.before(rounding.guard_only)}, fails=("quantize/mxfp4/above-tie",), names="more than a tie counts as a tie"),
    Thread(reference="FlashML-org/FreeToken#85", family=_R, operation="quantize", format="mxfp8_e4m3", profile=FLOOR, level=QUICK,
        title="E4M3 codes are too small by one for a few numbers in a thousand, never too large", wrong="float32 is cut to float16 first, which makes a tie of what lies just above one.", differs="The report is of a cast under a float32 scale; here it stands in MXFP8.",
        change={"round_magnitude": rounding.before(lambda c, m: rounding.to_float16(m, truncate=True))}, fails=("quantize/mxfp8_e4m3/above-tie",), names="held in float16 by cutting"),
    Thread(reference="ROCm/aiter#3147", source=NOTE, family=_R, operation="quantize", format="mxfp4", profile=FLOOR, level=QUICK,
        title="Scaled values pass through bfloat16 before they become FP4 codes", wrong="The quotient is rounded to bfloat16 first, and so rounded twice.",
        change={"round_magnitude": rounding.before(lambda c, m: rounding.to_bfloat16(m, truncate=False))}, fails=("quantize/mxfp4/above-tie",), names="held in bfloat16"),
    Thread(reference="pytorch/pytorch#178817", also=("pytorch/ao#4364", "jax-ml/ml_dtypes#400"), family=_R, operation="quantize", format="mxfp8_e4m3", profile=FLOOR, level=QUICK,
        title="A cast to E4M3 gives NaN for finite numbers beyond 448", wrong="What rounds beyond the largest value becomes NaN in place of 448.", differs="The thread is about the cast; here it stands in a quantizer that relies on it to saturate.",
        change={"saturate": rounding.no_saturation, "code_magnitude": rounding.overflow_to(0x7F, 448)}, fails=("quantize/mxfp8_e4m3/overflow",), names="overflow gave the format's own Inf or NaN"),
    Thread(reference="triton-lang/triton#9808", also=("triton-lang/triton#8322", "triton-lang/triton#5925", "triton-lang/triton#6102"), family=_R, operation="encode", format="e4m3",
        title="The interpreter's downcast rounds up wherever the first dropped bit is set", wrong="Neither the bits below it nor the last kept bit are asked, so that ties go away from zero.",
        change={"round_magnitude": one_mode("rne", "rna")}, fails=("encode/e4m3/tie-even",), names="rounding rna"),
    Thread(reference="triton-lang/triton#11897", family=_R, operation="encode", format="e4m3",
        title="126.24 becomes 64 in E4M3", wrong="A carry out of the fraction is ORed into the exponent field, and lost where that bit is set.", differs="Of the defects that the change names this is the carry alone.",
        change={"round_magnitude": nearest(rounding.after(rounding.lose_carry))}, fails=("encode/e4m3/mixture",), names="ORed into the exponent field"),
    Thread(reference="triton-lang/triton#11753", also=("triton-lang/triton#10846", "triton-lang/triton#2583"), family=_R, operation="encode", format="e4m3",
        title="1.0625001 becomes 1 in E4M3", wrong="float32 is rounded to float16 on the way, where it becomes a tie.",
        change={"round_magnitude": nearest(rounding.before(lambda c, m: rounding.to_float16(m, truncate=False)))}, fails=("encode/e4m3/above-tie",), names="numbers were held in float16"),
    Thread(reference="sgl-project/sglang#40581", also=("tile-ai/tilelang-metax#140",), family=_R, operation="encode", format="e4m3",
        title="The software cast to E4M3 saturates from 256 on", wrong="Exponent field 15 counts as overflow, so that 256 becomes 448; ties go up beside that.",
        change={"round_magnitude": one_mode("rne", "rna"), "saturate": rounding.clamp_from(256)}, fails=("encode/e4m3/exact", "encode/e4m3/tie-even"), names="the largest exponent held no numbers"),
    Thread(reference="tenstorrent/tt-metal#29734", family=_R, operation="encode", format="e4m3",
        title="A test's E4M3 type cuts, and has no subnormals", wrong="Bits below the last are dropped, and everything below 2^-6 becomes 0.", differs="Without its treatment of numbers from 256 on.",
        change={"round_magnitude": nearest(lambda c, m, n, _: np.where(m < 2.0**-6, 0, reference.round_magnitude(c, m, n, "rtz")))}, fails=("encode/e4m3/above-tie", "encode/e4m3/exact"), names="below the smallest normal number were zero, and rounding were toward zero"),
    Thread(reference="openvinotoolkit/openvino#30057", family=_R, operation="encode", format="e4m3",
        title="Subnormal E4M3 results are rounded twice", wrong="The fraction is rounded as that of a normal number, and again when it is shifted.", differs="The report is of the step from float16.",
        change={"round_magnitude": nearest(rounding.before(four_bits_below))}, fails=("encode/e4m3/above-tie",), names="rounded as normal numbers first"),
    Thread(reference="stillwater-sc/universal#1351", also=("stillwater-sc/universal#1302",), family=_R, operation="encode", format="e4m3",
        title="An E4M3 cast that should overflow to NaN saturates", wrong="Numbers are clamped to the largest value before they are rounded, whatever the overflow mode.",
        change={"own_code": lambda c, v: reference.join_sign(c, np.full(np.shape(v), c.element.max_code), np.signbit(v))}, fails=("encode/e4m3/overflow",), names="overflow saturated"),
    Thread(reference="ucb-bar/saturn-vectors#101", family=_R, operation="encode", format="e4m3",
        title="A saturating cast gives NaN for 672, and 448 for 448512", wrong="Finite numbers from 512 to 57344 share the exponent codes by which NaN is told.", differs="Without the report's second bug, directed modes at overflow.",
        change={"saturate": finite_overflow_is_nan, "code_magnitude": rounding.overflow_to(0x7F, 448)}, fails=("encode/e4m3/overflow",), names="NaN in a range of numbers"),
    Thread(reference="PTO-ISA/SuperNPUBench#49", family=_R, operation="encode", format="e4m3",
        title="A generator of golden data writes E4M3 subnormals as zero", wrong="Below 2^-6 it counts steps of 2^-6, where the format's are 2^-9.", differs="Said in a review.",
        change={"round_magnitude": nearest(lambda c, m, n, mode: np.where(m < 2.0**-6, np.rint(m * 2.0**6) * 2.0**-9, reference.round_magnitude(c, m, n, mode)))}, fails=("encode/e4m3/exact",), names="steps of the smallest normal number"),
    Thread(reference="sgl-project/sglang#25519", family=_D, operation="dequantize", format="mxfp4", profile=FLOOR,
        title="Scale 128 decodes as NaN, and the NaN byte as infinity", wrong="The decoder compares the decoded value with 128 where the byte 255 is meant.",
        change={"decode_scale": lambda c, s: np.where(s == 134, np.nan, np.where(s == 255, np.inf, reference.decode_scale(c, s)))}, fails=("dequantize/mxfp4/scale-code",), names="scale byte 86 were NaN and FF were infinity"),
    Thread(reference="NVIDIA/TransformerEngine#3262", id="te-3262", family=_D, operation="dequantize", format="mxfp8_e4m3", profile=FLOOR,
        title="MXFP8 blocks under scale byte 00 dequantize to zeros, under FF to infinities", wrong="The byte is shifted into the exponent field of a float32, where 0 and 255 mean something else.",
        change={"decode_scale": lambda c, s: np.where(s == 0, 0.0, np.where(s == 255, np.inf, reference.decode_scale(c, s)))}, fails=("dequantize/mxfp8_e4m3/scale-code",), names="exponent field of a float32"),
    Thread(reference="vllm-project/vllm#46676", family=_D, operation="dequantize", format="mxfp4", profile=FLOOR,
        title="bfloat16 0.5 under scale byte 00 becomes minus infinity", wrong="The scale's exponent is added to the 16 bits of the number, and runs into its sign.", differs="Said in a review.",
        change={"combine": added_to_pattern}, fails=("dequantize/mxfp4/scale-code",), names="16 bits of the element as bfloat16"),
    Thread(reference="ROCm/rocm-libraries#9389", family=_D, operation="dequantize", format="nvfp4", profile="nvfp4-te",
        title="A test oracle reads E4M3 block scales as E8M0", wrong="Scale bytes of every type are taken for powers of two.", differs="The report is of a product; here the scales are decoded alone.",
        change={"decode_scale": lambda c, s: reference.decode_e8m0(c, s)}, fails=("dequantize/nvfp4/scale-code",), names="E8M0 scale"),
    Thread(reference="ROCm/rocm-libraries#7439", family=_D, operation="dequantize", format="nvfp4", profile="nvfp4-te",
        title="A generator of reference data decodes E4M3 scales by their exponent alone", wrong="The fraction is dropped, and subnormal scales and zero are powers of two.",
        change={"decode_scale": scale_as(lambda s: np.where(s & 127 == 127, np.nan, np.ldexp(1.0, ((s & 127) >> 3) - 7)))}, fails=("dequantize/nvfp4/scale-code",), names="exponent field alone"),
    Thread(reference="uxlfoundation/oneDNN#4218", family=_D, operation="decode", format="e8m0",
        title="E8M0 00 decodes as zero", wrong="00 is shifted into the exponent field, where it means zero, not 2^-127.",
        change={"decode_e8m0": lambda c, codes: np.where(codes == 0, 0.0, reference.decode_e8m0(c, codes))}, fails=("decode/e8m0/code",), names="byte 00 were zero"),
    Thread(reference="llvm/llvm-project#214919", id="llvm-214919", family=_D, operation="decode", format="e8m0",
        title="Converting an E8M0 NaN gives the bits of infinity", wrong="The NaN has no fraction to carry over, and an empty one under the largest exponent is infinity.",
        change={"decode_e8m0": lambda c, codes: np.where(codes == 255, np.inf, reference.decode_e8m0(c, codes))}, fails=("decode/e8m0/code",), names="the NaN byte were infinity"),
    Thread(reference="arch-hdl-lang/arch-com#848", family=_D, operation="decode", format="e8m0",
        title="An E8M0 scale widens to its own eight bits", wrong="to_fp32() returns the byte where 2^(byte - 127) is meant.", differs="One of four bugs that the text lists, found before the change was merged.",
        change={"decode_e8m0": lambda c, codes: codes.astype(np.float64)}, fails=("decode/e8m0/code",), names="the byte itself"),
    Thread(reference="pulp-platform/iDMA#219", source=NOTE, family=_D, operation="decode", format="e8m0",
        title="The shared scale is a signed number, not E8M0", wrong="The byte is two's complement: 2^byte for -128 to 127.",
        change={"decode_e8m0": lambda c, codes: np.ldexp(1.0, codes.astype(np.int8).astype(np.int64))}, fails=("decode/e8m0/code",), names="signed exponent"),
    Thread(reference="ml-explore/mlx#4376", also=("ml-explore/mlx#4135", "ml-explore/mlx#4164", "Scottcjn/ram-coffers#716"), family=_D, operation="decode", format="e4m3",
        title="E4M3 NaN decodes as 480", wrong="The decoder shifts all bits alike; 7F and FF have no case of their own.",
        change={"decode_element": where(magnitudes(0x7F), 480.0)}, fails=("decode/e4m3/code",), names="infinities and NaN were numbers"),
    Thread(reference="tile-ai/tilelang#2710", family=_D, operation="decode", format="e4m3",
        title="18 of 256 E4M3 codes decode wrongly", wrong="Zeros, subnormals and NaN are read as normal numbers.",
        change={"decode_element": as_normal}, fails=("decode/e4m3/code",), names="every code were a normal number"),
    Thread(reference="1bit-MONSTER/1bit-MONSTER#300", family=_D, operation="decode", format="e4m3",
        title="All seven E4M3 subnormals decode wrongly", wrong="The fraction gets a leading one and the exponent -7.",
        change={"decode_element": where(subnormal, as_normal)}, fails=("decode/e4m3/code",), names="subnormals had a leading one"),
    Thread(reference="intel/intel-xpu-backend-for-triton#7772", id="intel-xpu-triton-7772", family=_D, operation="decode", format="e5m2",
        title="E5M2 infinities and NaN decode as finite numbers", wrong="Exponent field 31 is read like any other: 7C is 65536.",
        change={"decode_element": where(lambda c, codes: (codes & 0x7C) == 0x7C, as_normal)}, fails=("decode/e5m2/code",), names="infinities and NaN were numbers"),
    Thread(reference="modular/modular#6600", also=("modular/modular#6699",), family=_T, operation="dequantize", format="nvfp4", profile=PAPER,
        title="Checkpoints of compressed-tensors come out as garbage: the tensor scale is a divisor there", wrong="The stored 2688 / amax is multiplied by, where it has to be divided by.", differs="The report's second half, scales swizzled twice, is left out.",
        change={"combine": with_tensor(lambda c, q, s: q * s * c.S)}, fails=("dequantize/nvfp4/tensor-scale",), names="its tensor scale as decode"),
    Thread(reference="vllm-project/vllm#55643", family=_T, operation="quantize", format="nvfp4", profile=PAPER,
        title="The fused activation and quantization pass the tensor scale in the wrong direction", wrong="The quantizer is given the scale that decodes where it takes the one that encodes.", differs="The report's first half, a buffer that is too small, is vllm-55456.",
        change={"find_encode_scale": lambda c: ONE if c.given is None else ONE / c.given}, fails=("quantize/nvfp4/tensor-scale",), names="its tensor scale as decode"),
    Thread(reference="flashinfer-ai/flashinfer#3497", also=("flashinfer-ai/flashinfer#3398",), family=_T, operation="quantize", format="nvfp4", profile=PAPER, level=QUICK,
        title="A tensor scale in bfloat16 gives codes of zeros, or of a wrong size", wrong="The kernel reads four bytes as float32 where two hold a bfloat16.", differs="The two bytes that follow are zero here.",
        change={"find_encode_scale": low_half}, fails=("quantize/nvfp4/tensor-scale",), names="or bfloat16 were read as four of float32"),
    Thread(reference="jax-ml/jax#30467", family=_T, operation="quantize", format="nvfp4", profile=PAPER, level=QUICK,
        title="NVFP4 codes are all zero under a tensor scale, and the test compared zeros with zeros", wrong="Block scales take the tensor scale in, elements are divided by them alone.",
        change={"find_factor": lambda c, s, a: np.where(s == 0, np.float32(0), ONE / s)}, fails=("quantize/nvfp4/exact",), names="left out of the elements"),
    Thread(reference="radixark/miles#1054", family=_T, operation="quantize", format="nvfp4", profile=TE, level=QUICK,
        title="The quantizer in use does not have Transformer Engine's bits", wrong="FlashInfer's kernel multiplies by approximate reciprocals where Transformer Engine divides.", differs="The broken one is the model's profile of FlashInfer 0.6.18.",
        broken=FlashInfer, fails=("quantize/nvfp4/tie-even",), names="a reciprocal that is approximate"),
    Thread(reference="flashinfer-ai/flashinfer#3932", family=_T, operation="quantize", format="nvfp4", profile=TE, level=QUICK,
        title="Under small block scales the quantizer and the tensor core disagree", wrong="Subnormal block scales are decoded as (1 + m/8) 2^-7 while quantizing, up to 4.5 times too large.", differs="The report's second half, an inverted factor, is left out.",
        change={"decode_scale": lambda c, s: np.where((s & 120 == 0) & (s & 7 != 0), (1 + (s & 7) / 8) * 2.0**-7, reference.decode_scale(c, s))}, fails=("quantize/nvfp4/tie-even",), names="subnormals had a leading one"),
    Thread(reference="NVIDIA/Model-Optimizer#1633", also=("NVIDIA/Model-Optimizer#1397",), source=NOTE, family=_T, operation="quantize", format="nvfp4", profile=TE, level=QUICK,
        title="Exported block scales hold NaN bytes", wrong="A block scale beyond 448 is cast without saturation.",
        change={"store_ratio": stored(lambda s, ratio: np.where(ratio > 464, 0x7F, s))}, fails=("quantize/nvfp4/scale-tie",), names="saturation gives 7e; returned 7f"),
    Thread(reference="flashinfer-ai/flashinfer#2440", source=NOTE, family=_T, operation="quantize", format="nvfp4", profile=TE, level=QUICK,
        title="Tiny inputs quantize to NaN", wrong="The reciprocal of a block scale of zero is infinite, and 0 times infinity is NaN.",
        change={"find_factor": no_flt_max}, fails=("quantize/nvfp4/zero-block",), names="division by a scale of zero"),
    Thread(reference="vllm-project/compressed-tensors#595", source=NOTE, family=_T, operation="tensor_scale", format="nvfp4", profile=PAPER,
        title="Activations of zeros give an infinite tensor scale", wrong="2688 / amax has no case for amax = 0.",
        change={"find_tensor_scale": lambda c, amax: np.float32(2688) / amax}, fails=("tensor_scale/nvfp4/tensor-scale",), names="however small or large"),
    Thread(reference="vllm-project/vllm#20578", family=_T, operation="tensor_scale", format="nvfp4", profile=PAPER,
        title="A benchmark takes the tensor scale from the largest number, not from the largest magnitude", wrong="The maximum is taken without abs.", differs="Said in a review.",
        change={"find_tensor_amax": tensor_signed}, fails=("tensor_scale/nvfp4/tensor-scale",), names="not the largest magnitude"),
)  # fmt: skip
