"""Topics (one for each case, a closed list) and flags (why a case exists)."""

from __future__ import annotations

from dataclasses import dataclass

from mxspec.enums import StrEnum
from mxspec.formats import BLOCKS, E8M0, ELEMENTS, OCP_ELEMENTS


class Level(StrEnum):
    """How binding a requirement is, the most binding first; `must` and `should` are the words of OCP MX v1.0 section 4.2."""

    MUST = "must"
    SHOULD = "should"
    #: What OCP does not speak of: what a profile, the definition of NVFP4, or the call itself promises.
    CONTRACT = "contract"
    #: What OCP leaves to the implementation: reported, never a failure.
    OPEN = "open"

    @property
    def rank(self) -> int:
        """0 for the most binding level."""
        return list(Level).index(self)


#: Topic -> the requirement in words.
TOPICS: dict[str, str] = {
    "tie-even": "a quotient midway between two codes goes to the even one",
    "below-tie": "a quotient just below a midpoint goes to the lower code",
    "above-tie": "a quotient just above a midpoint goes to the upper code",
    "exact": "a quotient that is a value of the format keeps it",
    "subnormal": "subnormal elements and inputs are rounded like all others",
    "overflow": "magnitudes beyond the largest normal are clamped to it, sign kept",
    "nan": "a block that holds a NaN is stored as the profile says",
    "inf": "a block that holds an infinity is stored as the profile says",
    "zero-block": "a block of zeros is stored as zeros under a scale that is a number",
    "zero-sign": "the sign of zero is kept, underflow included",
    "scale-boundary": "the scale changes exactly where the rule says",
    "scale-clamp": "scales beyond the scale format's range are clamped to its ends",
    "scale-tie": "a block scale midway between two scale codes goes where the rule says",
    "given-scale": "a block scale that is given comes back, and scales its elements",
    "representable": "scales are numbers of the scale's format, and values elements times one scale of their block",
    "scale-code": "every scale code means its value",
    "code": "every element code means its value",
    "tensor-scale": "the tensor scale enters in the profile's order of operations",
    "low-end": "a block whose scale lies below the smallest one: that scale, the next one, or zeros",
    "choice": "what is left open is decided alike in every block",
    "position": "every position of a block counts, with either sign",
    "mixture": "ordinary blocks",
    "axis": "blocks lie along the requested axis",
    "tail": "a ragged tail is padded with zeros",
    "call-size": "the result does not depend on how many blocks a call holds",
    "memory": "the result does not depend on where inputs lie; nothing but the result is written",
    "state": "the result does not depend on other calls, earlier or at the same time",
    "refusal": "what cannot be answered is refused, or answered as if zeros followed",
    "random-bits": "stochastic rounding goes up exactly when the random bits say so",
    "neighbour": "stochastic rounding gives one of the two codes next to the quotient",
    "probability": "stochastic rounding goes up as often as the quotient lies near the upper code",
    "independence": "one number's stochastic rounding says nothing of another's",
    "seed": "a seed gives the same codes again, another seed others",
    "affine-range": "the group's whole range is covered, wherever zero lies",
    "affine-extreme": "groups at the ends of the dtype, with subnormal scales, or with one large value",
    "affine-code": "every code means its value: q * s + b, or (q - z) * s",
    "affine-rounding": "values are rounded where the contract says",
    "affine-profile": "codes, scales and offsets are those of one profile",
    "constant": "a group of one value keeps it",
    "place": "every code lies in the byte and bits that the layout gives it",
    "padding": "bytes and bits that hold no code are as the layout says",
    "batch": "matrices of a batch lie one after the other",
    "identity": "one-hot rows of one operand give the numbers of the other",
    "sum": "a sum that is exact in every order is that sum",
    "block-scale": "each block counts with its own scale",
    "shape": "sizes next to tile sizes are computed alike",
    "interval": "a sum that rounding touches lies where its class of accumulations can bring it",
    "epilogue": "alpha, beta, C and bias enter as they are named",
    "largest": "the two largest of each group are kept as they are, and nothing else",
    "prune-tie": "where equal magnitudes leave a choice, the largest are kept all the same",
    "tie-choice": "which of equal magnitudes is kept",
    "few": "a group with no more than two numbers that are not zero keeps what it has",
    "negative-zero": "-0 is zero, and no number to be kept",
    "pattern": "every code comes back in its place, whatever the pattern",
    "metadata": "a nibble names two positions in ascending order",
    "zero-metadata": "the nibble of a group of zeros",
    "mask": "a query sees the keys that causal mask and window leave it, and no other",
    "no-key": "a query that sees no key gives zeros, or NaN",
    "illegal-metadata": "nibbles that name no two positions in ascending order are refused, or read as they stand",
}

#: The topics of single blocks, in the order of their bits and numbers in files for hardware; a new one comes last.
BLOCK_TOPICS = (
    "exact", "tie-even", "below-tie", "above-tie", "overflow", "subnormal", "zero-sign", "zero-block", "nan", "inf", "scale-boundary", "scale-clamp",
)  # fmt: skip


def topic_numbers() -> dict[str, int]:
    """Topic -> its number in files for hardware: `BLOCK_TOPICS`, then all others in the order of `TOPICS`."""
    return {topic: i for i, topic in enumerate(dict.fromkeys((*BLOCK_TOPICS, *TOPICS)))}


#: Topics whose subject OCP MX v1.0 section 6.3 only recommends ("SHOULD"), of an MX block.
_SHOULD = {"scale-boundary", "scale-clamp", "scale-tie"}
#: Topics that OCP MX v1.0 leaves to the implementation, of any format.
_OPEN = {
    "nan", "inf", "zero-sign", "low-end", "affine-profile", "tie-choice", "zero-metadata", "illegal-metadata",
}  # fmt: skip
#: Topics about a call, its layout or its random bits: OCP does not cover these, whatever the format.
_CONTRACT = {
    "tensor-scale",
    "given-scale",
    "choice",
    "position",
    "axis",
    "tail",
    "call-size",
    "random-bits",
    "neighbour",
    "probability",
    "independence",
    "seed",
    "place",
    "padding",
    "batch",
    "memory",
    "state",
    "refusal",
    "affine-range",
    "affine-extreme",
    "affine-code",
    "affine-rounding",
    "constant",
    "largest",
    "prune-tie",
    "few",
    "negative-zero",
    "pattern",
    "metadata",
}
#: What a conversion decides by its rounding. For E8M0 no text says which.
_ROUNDED = {"tie-even", "below-tie", "above-tie", "exact", "subnormal", "mixture", "overflow"}


#: What a topic means for an operation on single numbers, where its own words speak of blocks.
_OF_NUMBERS = {
    "nan": "a NaN becomes what the format has for it; for FP8 elements a NaN, for the others that is open",
    "inf": "an infinity becomes the largest value, or the format's own Inf or NaN",
    "mixture": "ordinary numbers",
}


_OF_TENSORS = {
    "nan": "the scale of a tensor with NaN is the profile's",
    "inf": "the scale of a tensor with infinities is the profile's",
    "zero-block": "the scale of a tensor of zeros is the profile's",
    "tensor-scale": "the scale of a tensor follows from its largest magnitude as the profile says",
}


_OF_PRODUCTS = {
    "nan": "a NaN in either operand makes its row or column of the product NaN",
    "inf": "an infinity in either operand is multiplied and added by the rules of IEEE 754",
    "overflow": "a sum beyond the output's largest number is infinite, or that number",
    "zero-block": "zeros under a large scale do not change a sum",
    "scale-code": "the ends of the scale format mean their values",
    "tensor-scale": "each operand's tensor scale multiplies the product",
    "state": "the result does not depend on earlier calls",
    "block-scale": "each block or group counts with its own scale, and its own offset",
    "metadata": "each nibble gives the positions of its two numbers",
    "position": "each row is multiplied with the matrix of its own expert, however many rows each has",
    "padding": "rows of padding may hold anything",
}


_OF_CACHES = {
    "code": "numbers become the rows of one quantizer, and every code means its value",
    "place": "each token lies in the page and place of its slot",
    "padding": "what no slot names stays as it is",
    "overflow": "magnitudes beyond the largest number are clamped to it",
    "nan": "a NaN stays one in FP8 under a given scale, and in plain numbers",
    "tensor-scale": "K and V have each its own given scale",
    "block-scale": "each block or token has its own scale",
    "tail": "each sequence has as many keys as its length says",
    "call-size": "the result does not depend on the size of a call",
}
_OF_ATTENTION = {
    "position": "each query finds each key: pages, heads and scales are those of the call",
    "tail": "the keys of a sequence end at its length",
    "sum": "equal logits give the mean of V",
    "interval": "weights are those of the scaled logits",
    "overflow": "logits beyond the range of exp give what smaller ones give",
    "padding": "what belongs to no sequence is not read, even where it is NaN",
    "tensor-scale": "given scales multiply Q, K and V",
    "call-size": "the result does not depend on the size of a call",
}
#: Operations that OCP MX v1.0 does not speak of, and what their topics mean.
OF_CALLS = {"append_cache": _OF_CACHES, "read_cache": _OF_CACHES, "attention": _OF_ATTENTION}


_OF_AFFINE = {
    "nan": "a group that holds a NaN, or whose scale is one",
    "inf": "a group that holds an infinity, or whose scale is one",
    "mixture": "codes are the nearest under the scale and offset that are stored",
    "position": "every position of a group counts",
    "zero-block": "a group of zeros comes back as zeros",
    "call-size": "the result does not depend on how many groups a row holds",
}


_OF_FUSED = {
    "mixture": "ordinary numbers, under one contract",
    "interval": "results next to ties of the codes",
    "scale-boundary": "maxima next to where the scale changes",
    "sum": "rows whose sum of squares is exact in every order",
    "overflow": "large numbers: clamps, saturated factors, squares beyond float16",
    "subnormal": "small numbers: subnormal results, eps against the mean",
    "call-size": "the result does not depend on how many rows and columns a call has",
}


def topic_text(topic: str, operation: str) -> str:
    """A topic's requirement in words, for an operation."""
    if operation in ("matmul", "grouped_matmul"):
        return _OF_PRODUCTS.get(topic, TOPICS[topic])
    if operation == "quantize_fused":
        return _OF_FUSED.get(topic, TOPICS[topic])
    if operation in OF_CALLS:
        return OF_CALLS[operation].get(topic, TOPICS[topic])
    if operation == "tensor_scale":
        return _OF_TENSORS.get(topic, TOPICS[topic])
    if operation in ("quantize_affine", "dequantize_affine"):
        return _OF_AFFINE.get(topic, TOPICS[topic])
    return _OF_NUMBERS.get(topic, TOPICS[topic]) if operation in ("encode", "stochastic") else TOPICS[topic]


def topic_level(topic: str, operation: str, fmt: str, *, described: bool = False) -> Level:
    """How binding a topic's requirement is for an operation and a format.

    OCP MX v1.0 binds MX blocks and their elements. Section 5.3 has FP8 elements follow OFP8, which turns a NaN into a NaN.
    Of NVFP4, of calls, of memory and of stochastic rounding in blocks it has no rule: these are contracts.

    described: whether the judged profile describes a stack; whatever it says is then what it promises.
    """
    if operation in ("matmul", "grouped_matmul"):  # OCP MX v1.0 section 6.1 fixes neither precision nor order
        return Level.OPEN if topic == "zero-block" else Level.CONTRACT
    if operation == "quantize_fused":  # OCP knows no function before a quantizer
        return Level.OPEN if topic == "inf" or (topic == "nan" and "mxfp8" not in fmt) else Level.CONTRACT
    if described or operation in OF_CALLS or topic in _CONTRACT or (operation == "stochastic" and fmt in BLOCKS):
        return Level.CONTRACT
    if topic == "nan" and _keeps_nan(operation, fmt):
        return Level.MUST if _is_ocp(fmt) else Level.CONTRACT
    if operation == "tensor_scale" and topic == "zero-block":
        return Level.OPEN
    if topic in _OPEN or (fmt == E8M0.name and operation == "encode" and topic in _ROUNDED):
        return Level.OPEN
    if not _is_ocp(fmt):
        return Level.CONTRACT
    return Level.SHOULD if topic in _SHOULD else Level.MUST


def bind_level(level: Level, fmt: str, *, described: bool) -> Level:
    """The level of a requirement that is stated for MX blocks, in a format; described: as for `topic_level`."""
    if described:
        return Level.CONTRACT
    return level if _is_ocp(fmt) or level is Level.OPEN else Level.CONTRACT


def _is_ocp(fmt: str) -> bool:
    """Whether OCP MX v1.0 defines a block or scalar format."""
    if fmt in BLOCKS:
        return BLOCKS[fmt].is_ocp
    return fmt in (*(f.name for f in OCP_ELEMENTS), E8M0.name)


def _keeps_nan(operation: str, fmt: str) -> bool:
    """Whether a conversion of a NaN has to give a NaN: to an FP8 element, alone, in an MX block or under a float32 scale."""
    if operation in ("encode", "stochastic"):
        return fmt in ELEMENTS and ELEMENTS[fmt].nan_code is not None
    return (
        operation == "quantize"
        and fmt in BLOCKS
        and (BLOCKS[fmt].is_ocp or BLOCKS[fmt].scale.bits > 8)
        and BLOCKS[fmt].element.nan_code is not None
    )


@dataclass(frozen=True, slots=True)
class Flag:
    """Why a case exists."""

    #: What goes wrong in an implementation that fails it.
    note: str
    source: str
    #: `known-bug` was seen in a real implementation, `edge` is a boundary of the rule, `basic` is plain use.
    kind: str
    evidence: str


FLAGS: dict[str, Flag] = {
    "ties-away": Flag("ties rounded away from zero instead of to even", "microxcaling default, Quark downcast", "known-bug", "measured"),
    "ties-to-zero": Flag("ties rounded toward zero: a scan for the nearest code that keeps the first", "gguf, ggml, mlx, ModelOpt MXFP4", "known-bug", "measured"),
    "double-rounding": Flag("the value just below a tie goes up: floor(x + 0.5), or a rounding to fewer bits first", "microxcaling, auto-round", "known-bug", "measured"),
    "tie-hack": Flag("a tie break by a small constant moves the value just above a tie down", "triton.tools.mxfp", "known-bug", "measured"),
    "truncation": Flag("low bits dropped instead of rounded", "bug class P02", "known-bug", "read"),
    "carry": Flag("a rounding carry into the exponent is lost", "bug class P05", "known-bug", "read"),
    "element-subnormal": Flag("results below the smallest normal element flushed, or rounded with too few guard bits", "bug classes P03, P08", "known-bug", "read"),
    "saturation": Flag("overflow becomes NaN, Inf or a wrong maximum, or wraps to zero", "fouroversix 0.1.0, ml_dtypes e4m3fn", "known-bug", "measured"),
    "float-log2": Flag("the exponent comes from a float log2, which rounds up just below powers of two", "microxcaling, gguf, gfloat, auto-round", "known-bug", "measured"),
    "scale-rule": Flag("another scale rule than the profile's", "OCP MX v1.0 6.3; seven rules in use", "edge", "measured"),
    "scale-clamp": Flag("the scale byte wraps, or the smallest scale is taken for zero or 2^-126", "gguf, mlx, torchao", "known-bug", "measured"),
    "float32-subnormal": Flag("float32 subnormals flushed to zero", "CUDA -ftz=true, CuPy's default", "known-bug", "measured"),
    "nan-lost": Flag("a NaN in the block silently becomes zeros or a finite block", "gguf, ModelOpt, auto-round, compressed-tensors, mlx", "known-bug", "measured"),
    "inf-block": Flag("an infinity gives a scale that no element fits, or a NaN block", "torchao, microxcaling", "edge", "measured"),
    "zero-block": Flag("a block of zeros gives NaN codes, or another scale byte", "auto-round 7e, torchao nvfp4 08", "edge", "measured"),
    "zero-sign": Flag("the sign of zero, or of an underflow to zero, is lost", "gguf, compressed-tensors", "edge", "measured"),
    "position": Flag("the maximum is not searched everywhere, or not by magnitude", "bug classes P23, P24", "known-bug", "read"),
    "eps": Flag("the maximum is clamped to a small constant", "bug class P37", "known-bug", "read"),
    "fp16-amax": Flag("the maximum or the quotient is held in float16 or bfloat16", "bug classes P06, P26", "known-bug", "read"),
    "order": Flag("another order of float32 operations, a reciprocal instead of a division, a fused operation", "vLLM, FlashInfer, ModelOpt, compressed-tensors", "known-bug", "measured"),
    "scale-subnormal": Flag("subnormal or zero block scales flushed, or clamped to a smallest scale", "torchao 2^-6, ModelOpt 2^-9, compressed-tensors 2^-3", "known-bug", "measured"),
    "scale-saturation": Flag("block scales from 248 to 448 stored as 448, or as NaN", "ggml ue4m3", "known-bug", "measured"),
    "scale-rounding": Flag("the block scale is truncated or rounded half up", "ggml ue4m3", "known-bug", "measured"),
    "tensor-scale": Flag("the tensor scale is ignored, inverted or applied twice, or overflows", "bug classes P39, P40, P46", "known-bug", "read"),
    "e8m0-edges": Flag("scale byte 00 read as zero or 2^-126, FF as infinity, bias off by one", "bug classes P29 to P33", "known-bug", "read"),
    "decode-table": Flag("a wrong decode table", "bug classes P10 to P17", "known-bug", "read"),
    "int8": Flag("int8: implicit 2^-6 forgotten, unsigned codes, truncation, asymmetric lowest code", "bug classes P63 to P65", "known-bug", "read"),
    "stochastic": Flag("random bits aligned wrongly, inverted, or used where the value is exact", "bug classes P61, P62", "known-bug", "read"),
    "axis": Flag("the wrong axis is quantized", "bug class P58", "known-bug", "read"),
    "tail": Flag("the tail is dropped, or padded with something else than zeros", "bug classes P59, P60", "known-bug", "read"),
    "tile": Flag("16 x 16 blocks take the maximum of one row", "Transformer Engine 2D scaling", "edge", "read"),
    "position-code": Flag("any code in another byte or bit than the layout's: every item is numbered", "-", "basic", "measured"),
    "nibble-order": Flag("the wrong nibble first, halves for neighbours, AWQ's order for the plain one", "bug classes P48, P49, P51", "known-bug", "read"),
    "bit-order": Flag("codes of six bits from the top of the byte down", "bug class P50", "known-bug", "read"),
    "scale-place": Flag("the scale after the codes instead of before them", "bug class P52", "known-bug", "read"),
    "swizzle": Flag("scales row-major, in tiles of another size, or rows in order inside a tile", "bug classes P53 to P55", "known-bug", "read"),
    "tile-padding": Flag("padding cut off, not written, or filled with something else", "bug classes P56, P57", "known-bug", "read"),
    "stored-code": Flag("a code stored as it is where the layout stores another: zero points minus one, signed exponents", "GPTQ v1 and v2", "known-bug", "measured"),
    "affine-range": Flag("the range is not the group's: 2^bits for 2^bits - 1 steps, zero forced in or left out, one end clipped", "AWQ clips groups without 0", "edge", "read"),
    "negative-scale": Flag("negative scales are taken for an error, or their sign is lost", "mlx", "edge", "measured"),
    "constant": Flag("a group of one value divides zero by zero, or gives NaN", "tiny-llm's formula; mlx stores a scale of -1e-7", "edge", "measured"),
    "affine-extreme": Flag("a range that overflows, or a scale that underflows, in the dtype of the scales", "-", "edge", "read"),
    "scale-bits": Flag("16 bits of a scale or bias are read as the other 16-bit float", "tiny-llm, Task 4: bfloat16 checkpoints in a float16 kernel", "known-bug", "read"),
    "affine-order": Flag("q * s + b is rounded elsewhere: in another dtype, fused, or as q * s - z * s", "dequantization kernels", "edge", "measured"),
    "codes-as-numbers": Flag("codes compared as numbers: every negative one counts as larger than every positive one", "Metal Marlin's document, 8.2", "known-bug", "measured"),
    "tie-position": Flag("of equal magnitudes all are kept, or none, or others than the largest", "-", "edge", "read"),
    "sparse-place": Flag("kept codes exchanged, in another group or at another position; nibbles in another order", "Metal Marlin's document, 3.2 and 5.3", "known-bug", "read"),
    "few-kept": Flag("groups with fewer than two numbers: lost codes, illegal nibbles, an exception", "Metal Marlin's document, 1; CUTLASS stores nibble 0 for zeros", "known-bug", "read"),
    "negative-zero": Flag("-0 counted as a number, for which another one is dropped", "compares codes with 0", "edge", "read"),
    "illegal-nibble": Flag("nibbles that PTX leaves undefined are read as something", "PTX ISA, sparse matrix storage", "edge", "read"),
    "product-scale": Flag("the scale of another block, row or side multiplies a product, or none", "-", "edge", "read"),
    "product-tail": Flag("the end of k is dropped or counted twice, the last row or column is not written", "-", "edge", "read"),
    "product-width": Flag("sums kept in 16 bits, or in 13 below the largest exponent", "mlx in bfloat16; FP8 tensor cores of Hopper", "edge", "measured"),
    "product-output": Flag("outputs cut, rounded away from zero at ties, or rounded twice on their way to 16 bits", "-", "edge", "read"),
    "product-nan": Flag("a NaN or an infinity of one side is lost, or the scale FF is read as infinity", "mlx 0.32.4", "known-bug", "measured"),
    "product-zeros": Flag("products are aligned by the scale of a block of zeros", "MMA-Sim c785138", "edge", "read"),
    "basic": Flag("plain use", "-", "basic", "read"),
}  # fmt: skip
