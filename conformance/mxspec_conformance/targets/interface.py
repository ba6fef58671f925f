"""The interface of targets as data: every operation with its arguments, options and outputs, the same on every transport."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One function that a target may have."""

    name: str
    #: Positional arguments in order. Those in `NAMES` are text, `shape` is a list of sizes, all others are arrays.
    arguments: tuple[str, ...]
    #: Arrays that it returns.
    outputs: tuple[str, ...]
    #: Keywords; a target that takes one has a further capability.
    options: tuple[str, ...] = ()


#: Arguments that name something.
NAMES = ("format", "element", "layout", "affine")
#: Options that are one float32.
FLOATS = ("tensor_scale", "a_tensor_scale", "b_tensor_scale")

OPERATIONS: dict[str, Operation] = {
    o.name: o
    for o in (
        Operation(
            name="quantize", arguments=("x", "format"), outputs=("codes", "scales"),
            options=("tensor_scale", "axis", "pad", "block", "random_bits", "seed"),
        ),
        Operation(
            name="dequantize", arguments=("codes", "scales", "format"), outputs=("values",), options=("tensor_scale",)
        ),
        Operation(name="quantize_affine", arguments=("x", "affine"), outputs=("codes", "scales", "offsets")),
        Operation(name="dequantize_affine", arguments=("codes", "scales", "offsets", "affine"), outputs=("values",)),
        Operation(name="encode", arguments=("x", "element"), outputs=("codes",), options=("rounding", "overflow")),
        Operation(name="decode", arguments=("codes", "element"), outputs=("values",)),
        Operation(name="encode_stochastic", arguments=("x", "element", "random_bits"), outputs=("codes",)),
        Operation(name="tensor_scale", arguments=("x", "format"), outputs=("scale",)),
        Operation(name="pack", arguments=("codes", "layout"), outputs=("data",)),
        Operation(name="unpack", arguments=("data", "layout", "shape"), outputs=("codes",)),
        Operation(name="swizzle", arguments=("scales", "layout"), outputs=("data",)),
        Operation(name="unswizzle", arguments=("data", "layout", "shape"), outputs=("scales",)),
        Operation(name="pack_blocks", arguments=("codes", "scales", "layout"), outputs=("data",)),
        Operation(name="unpack_blocks", arguments=("data", "layout", "shape"), outputs=("codes", "scales")),
        Operation(
            name="dot", arguments=("a_codes", "a_scales", "b_codes", "b_scales", "format"), outputs=("values",),
            options=("a_tensor_scale", "b_tensor_scale"),
        ),
    )
}  # fmt: skip
