"""Lint's rules as data: what each means and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from mxspec.containers import Fault, Tensor
from mxspec.enums import StrEnum
from mxspec_conformance.lint.hypotheses import Explanation


class Severity(StrEnum):
    """How bad a finding is."""

    #: The file is damaged, or a loader that follows the convention gives wrong numbers.
    ERROR = "error"
    #: Some loaders give wrong numbers, or a mistake is likely.
    WARNING = "warning"
    #: Unusual, worth a look, and right in some files.
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is checked."""

    id: str
    severity: Severity
    means: str
    advice: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One place where a file breaks a rule."""

    rule: Rule
    #: What was found, with numbers.
    text: str
    tensor: str | None = None
    #: Byte of the file.
    offset: int | None = None
    file: str | None = None
    #: What explains the tensor, where it was compared with its original.
    explanation: Explanation | None = None


_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
_AGAIN = "download or write the file again"
_WRITER = "fix the program that wrote it; do not load it"

_CONTAINER: dict[Fault, tuple[str, str]] = {
    Fault.UNREADABLE: ("the file cannot be opened, or is no regular file", "name a readable file"),
    Fault.MAGIC: ("the first bytes are those of no known container", "check that this is the file you meant"),
    Fault.VERSION: ("a GGUF version that is not read", "write version 3, little-endian"),
    Fault.TRUNCATED: ("the file ends before its header or its data do", _AGAIN),
    Fault.HEADER_SIZE: ("the header, a string or a text is larger than is read", "if the file is meant so, split it into shards; otherwise do not load it"),
    Fault.HEADER_TEXT: ("the header is not the JSON or the text that it must be", _WRITER),
    Fault.COUNT: ("the header claims more tensors, keys or strings than are read", "if the file is meant so, split it into shards; otherwise do not load it"),
    Fault.KEY: ("a GGUF key occurs twice or has no valid type", _WRITER),
    Fault.ALIGNMENT: ("general.alignment is no power of two in a uint32", _WRITER),
    Fault.NAME: ("a tensor's name occurs twice, or is longer than ggml reads", "give each tensor a name of its own, in ggml below 64 bytes"),
    Fault.DTYPE: ("a tensor has a type that the container does not know", "write it with a current version of the library"),
    Fault.SHAPE: ("a shape is no list of sizes, or rows are no whole blocks of ggml's type", _WRITER),
    Fault.SIZE: ("shape x bits is not the number of bytes; F4 and F6 shapes count codes", "give the shape in codes, the offsets in bytes"),
    Fault.OFFSET: ("a tensor's position is not where the container allows one", "begin GGUF tensors at multiples of general.alignment"),
    Fault.OVERLAP: ("two tensors share bytes", _WRITER),
    Fault.GAP: ("bytes between or after the tensors belong to none; safetensors refuses such files", "write data without holes"),
    Fault.INDEX: ("index and shards do not agree", "write the index again from the shards"),
}  # fmt: skip

_OTHERS = (
    Rule("tensor/missing", _E, "a part of a block-quantized tensor is not there", "convert again; the values cannot be known without it"),
    Rule("tensor/dtype", _E, "a part has a dtype that the convention does not use", "write it in the convention's dtype, or name in the configuration what is stored"),
    Rule("tensor/shape", _E, "a part has not the shape that goes with its codes", "store block scales as [N, K / block], scales of tiles as [ceil(N / 128), ceil(K / 128)]"),
    Rule("tensor/rank", _E, "codes have a number of axes, or a last axis, that the convention does not have", "store them as the convention does"),
    Rule("tensor/row", _E, "rows are no whole number of blocks", "pad K to a multiple of the block before quantizing"),
    Rule("tensor/tiled", _E, "block scales have the padded shape of 128x4 tiles where row-major ones are due", "undo the swizzle: checkpoints hold row-major scales"),
    Rule("tensor/ambiguous", _N, "the stored shapes fit two formats", "say which with --format"),
    Rule("tensor/mixed", _N, "FP8 weights are stored with scales of several kinds, and no configuration says so", "name the scheme of each layer in quantization_config; loaders take one for all"),
    Rule("tensor/mark", _E, "the tensor that says how a layer is stored is no JSON with a format", "write NAME.comfy_quant as ComfyUI does: {\"format\": \"nvfp4\"}"),
    Rule("tensor/refused", _W, "a 2:4 form that its library no longer writes or reads", "store the weights dense, or decompress them with the version of the library that wrote them"),
    Rule("tensor/not-checked", _N, "tensors of a quantized form, or a method of the configuration, that lint does not know: nothing was checked of them", "no fault was looked for; check them with the library that wrote them"),
    Rule("tensor/expert", _W, "an expert lacks a scale that half of the layer's experts or more have", "write it: loaders take another expert's, zero or what was in memory"),
    Rule("tensor/buffer", _W, "the file holds buffers of the quantizer that made it", "leave them out on export: loaders refuse names that they do not know, or pass over them"),
    Rule("tensor/nan", _E, "a tensor that is not quantized holds NaN", "find the NaN in the original; every output that it meets is NaN"),
    Rule("tensor/no-scale", _W, "an NVFP4 tensor of a GGUF file has no companion NAME.scale", "if it came from a two-level checkpoint its values lack the tensor scale: convert again, keeping it"),
    Rule("scale/nan", _E, "a scale is NaN: all that it scales is", "find the NaN or Inf in the weights before quantizing; some loaders read FF as Inf or 2^128, ggml as 2^127"),
    Rule("scale/infinite", _E, "a float32 scale is infinite", "find the infinity in the weights before quantizing; zero codes under it decode to NaN"),
    Rule("scale/large", _W, "most blocks, tiles or rows of a tensor hold values that float16 cannot", "weights are far smaller: the scales may be reciprocals, have another bias, or belong to another tensor"),
    Rule("scale/small", _W, "most blocks, tiles or rows of a tensor hold only values that float16 has no number for but zero", "weights are far larger: the scales may be reciprocals, have another bias, or belong to another tensor"),
    Rule("scale/inverted", _N, "most FP8 scales are above 1, so that weights beyond 448 are there: they look like reciprocals", "scales multiply, whatever the name (weight_scale_inv too): compare with --against; expected of weights that are this large"),
    Rule("scale/sign", _E, "a scale has its sign bit set", "scales are unsigned: ggml and Marlin drop the bit, CUDA code honours it"),
    Rule("scale/zero", _E, "a scale is zero and its codes are not", "they decode to zeros: a scale has underflowed; choose the tensor scale by the tensor's maximum"),
    Rule("scale/zero-block", _N, "a block of zero codes has a scale that no known library writes for one", "harmless by itself; check that codes and scales belong together"),
    Rule("global/value", _E, "a tensor scale is zero, negative, infinite or NaN", "calibrate the tensor; 0 is not 'unset'"),
    Rule("global/direction", _W, "the tensor scale says that weights beyond 2688 are there: it looks inverted", "compressed-tensors and LightX2V store 2688 / amax, ModelOpt and GGUF amax / 2688"),
    Rule("global/pair", _E, "two tensor scales of one tensor are not each other's rounded reciprocal", "one of weight_global_scale and weight_scale_2 is wrong; keep the one that the codes were made with"),
    Rule("global/alpha", _W, "LightX2V's alpha is not 1 / (input_global_scale x weight_global_scale) in float32", "compute alpha anew from the two scales"),
    Rule("global/kept", _W, "the tensor scale is not what the kept origin gives", "the file was edited after conversion; --ignore-origin converts it as it is"),
    Rule("global/fused", _W, "layers that are fused when loaded have different tensor scales", "quantize q, k and v, and gate and up, with one tensor scale: loaders take the largest and leave block scales as they are"),
    Rule("global/range", _N, "no block scale reaches 448: the tensor scale was not made from this tensor's maximum", "expected of clipped or Four-over-Six weights; otherwise scale and codes may not belong together"),
    Rule("codes/small-max", _N, "the largest code of a block is below what every known scale rule leaves", "expected after GPTQ or pruning; otherwise scales are a factor 2 or more too large, or not these codes'"),
    Rule("codes/negative-zero", _W, "every zero is stored as -0", "ModelOpt's MXFP4 does so; readers that compare codes or skip +0 see no zeros"),
    Rule("codes/nan", _E, "element codes are NaN or Inf", "find the NaN or Inf in the weights before quantizing"),
    Rule("against/nibbles", _E, "the two codes of a byte stand in the other order than the convention's", "swap the nibbles: every convention here but comfy-kitchen has the first code in the low half"),
    Rule("against/lanes", _E, "codes of a block are paired as in the other kind of container", "safetensors pair neighbours, GGUF lanes j and j + k/2: pack the codes again"),
    Rule("against/swizzle", _E, "block scales stand in 128x4 tiles where row-major ones are due, or the reverse", "store them as the convention says; LightX2V and comfy-kitchen have tiles"),
    Rule("against/transposed", _E, "scales, or words of integers, are stored column by column", "store them in the convention's order: block scales as [N, K / block]"),
    Rule("against/rows", _E, "block scales stand some rows away from theirs, those of the last rows at the other end", "store those of row r at row r"),
    Rule("against/shift", _E, "every scale byte is the right one plus one number", "the bias of E8M0 is 127, and no constant belongs to a byte: subtract it"),
    Rule("against/inverted", _E, "scales are stored in the other direction", "compressed-tensors and LightX2V store 2688 / amax, ModelOpt and GGUF amax / 2688; FP8 amax / 448, whatever the name (weight_scale_inv multiplies)"),
    Rule("against/tensor-scale", _E, "the stored tensor scale is not the one with which codes and scales were made", "store the one that is named, or quantize again"),
    Rule("against/twice", _W, "the original was quantized to something else first", "quantize from the original itself: two roundings are worse than one"),
    Rule("against/cast", _N, "the original was rounded to a 16-bit float first", "expected of models that are loaded in bfloat16; load the original's own dtype to round once"),
    Rule("against/scale-rule", _E, "the stored scales follow one profile, the codes were made with the scales of another", "store the scales with which the codes were made"),
    Rule("against/other", _E, "codes and scales are those of another tensor", "write each tensor under its own name"),
    Rule("against/other-codes", _E, "the codes are those of another tensor", "write codes and scales of one tensor under its name"),
    Rule("against/other-scales", _E, "the block scales are those of another tensor", "write codes and scales of one tensor under its name"),
    Rule("against/interleave", _E, "eight integers of a word stand in AWQ's order where the first is due in the lowest bits, or the reverse", "AWQ's words hold 0, 2, 4, 6, 1, 3, 5, 7 from the lowest bits; all other conventions hold them in order"),
    Rule("against/zero-point", _E, "every zero point is the right one plus one number", "gptq (v1) stores zero - 1, gptq_v2, awq and pack-quantized zero: correct checkpoint_format, or the zero points"),
    Rule("against/dtype", _E, "scales and biases hold the bits of the other 16-bit float", "convert values (astype), never bits (view), or name the dtype that they are of"),
    Rule("against/group", _E, "scales, zero points or biases belong to the group before or after", "store those of group g at place g"),
    Rule("against/complement", _E, "codes have their highest bit inverted: two's complement where unsigned numbers are due, or the reverse", "store code + 2^(bits - 1), without a sign"),
    Rule("against/sign", _E, "every bias has the wrong sign", "a value is q * s + b: store b, not -b"),
    Rule("against/profile", _W, "the tensor follows another profile than the one requested", "quantize with the profile requested, or request the other"),
    Rule("against/differs", _N, "most elements follow from the original, some do not", "expected of GPTQ and other error-correcting methods; otherwise look at the first of them"),
    Rule("against/unexplained", _W, "most elements follow from the original in no way that is known", "expected of AWQ, SmoothQuant and rotations; otherwise this is not the original, or the file is damaged"),
    Rule("against/shape", _E, "the original has another shape", "compare with the checkpoint that it was made from"),
    Rule("against/missing", _N, "a tensor is in one of the two files only", "expected of tied or renamed tensors"),
    Rule("against/carried", _W, "a tensor that is not quantized differs from the original's", "carry biases, norms and embeddings along as they are"),
    Rule("contract/damaged", _W, "mxspec.contract in the metadata is not what `mxspec quantize` writes", "quantize again, or remove the entry"),
    Rule("contract/format", _E, "the contract names another format than that of the tensors", "quantize again; the metadata are of another file"),
    Rule("contract/profile", _W, "this version does not know the profile of the contract", "use the version of mxspec that the contract names"),
    Rule("contract/digest", _W, "the profile of the contract has another arithmetic in this version", "use the version of mxspec that the contract names, or quantize again"),
    Rule("contract/bits", _E, "codes and scales do not follow from the original by the profile of the contract", "quantize again; the file was edited, damaged or made from another original"),
    Rule("config/method", _E, "the configuration next to the file names another method or format", "write quantization_config for the convention of the tensors"),
    Rule("config/group", _E, "the entry of config_groups for a layer, or a list of layers that are left out, contradicts how the layer is stored", "give each format a group whose targets name its layers, and no others"),
    Rule("config/group-size", _E, "the configuration's group_size or weight_block_size is not that of the scales", "16 for NVFP4, 32 for MX, [128, 128] for FP8 in tiles"),
    Rule("config/scale-format", _W, "scale_fmt says ue8m0, and float32 scales are no powers of two", "kernels for ue8m0 cut or round such scales: quantize again with powers of two, or leave scale_fmt out"),
    Rule("config/absent", _W, "a config.json is there and has no quantization_config", "loaders take the tensors for plain ones: add it"),
    Rule("int4/shape", _E, "qweight, qzeros and scales have shapes of neither GPTQ nor AWQ", "GPTQ: [K/8, N], [G, N/8], [G, N]; AWQ: [K, N/8], [G, N/8], [G, N]"),
    Rule("int4/method", _E, "the shapes are GPTQ's where the configuration says AWQ, or the reverse", "the nibbles are packed along another axis: name the right method"),
    Rule("int4/gptq-zero", _W, "the zero points are those of the other GPTQ checkpoint format", "gptq (v1) stores zero - 1, gptq_v2 zero: correct checkpoint_format"),
    Rule("int4/g-idx", _E, "g_idx names a group that is not there", _WRITER),
    Rule("int4/act-order", _W, "g_idx is not rising, and the configuration does not say desc_act", "set desc_act: loaders that skip g_idx give wrong numbers"),
    Rule("affine/shape", _E, "codes, scales and offsets of affine integers have dtypes or shapes that do not go together", "store them as docs/checkpoints.md lists for the convention"),
    Rule("affine/ambiguous", _N, "the stored shapes fit several sizes of codes and groups", "say which with --format, or put config.json next to the file"),
    Rule("affine/not-finite", _E, "scales or biases are NaN or infinite", "quantize again; with float16 scales, look for weights beyond its range"),
    Rule("affine/zero", _E, "a zero point that GPTQ's first format has no agreed form for", "write checkpoint_format gptq_v2"),
    Rule("affine/index", _E, "g_idx does not give every group the same number of columns", _WRITER),
    Rule("int4/lowest", _N, "int4 codes of -8 are present", "kernels that negate or take magnitudes in four bits turn it into 0 or -8"),
    Rule("sparse/nibble", _E, "2:4 metadata hold nibbles that mean nothing", "legal are 4, 8, 9, c, d, e; CUTLASS's compressor writes 0 for an all-zero group"),
)  # fmt: skip

RULES: dict[str, Rule] = {
    r.id: r
    for r in (*(Rule(f"container/{fault}", _E, means, advice) for fault, (means, advice) in _CONTAINER.items()), *_OTHERS)
}  # fmt: skip


def find(
    rule: str, text: str, tensor: Tensor | str | None = None, *, offset: int | None = None, explanation: Explanation | None = None
) -> Finding:
    """A finding of the rule with this id. tensor: one of the file, where no other offset is given at its own; or a name alone."""
    if not isinstance(tensor, Tensor):
        return Finding(RULES[rule], text, tensor, offset, explanation=explanation)
    return Finding(RULES[rule], text, tensor.name, tensor.offset if offset is None else offset, explanation=explanation)
