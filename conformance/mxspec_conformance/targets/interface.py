"""The interface of targets as data: every operation with its arguments, options and outputs, the same on every transport."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One function that a target may have."""

    name: str
    #: Positional arguments in order. Those in `NAMES` are text, `shape` is a list of sizes, `a` and `b` are the sides of a
    #: product (`targets/operands.py`), all others are arrays.
    arguments: tuple[str, ...]
    #: Arrays that it returns.
    outputs: tuple[str, ...]
    #: Keywords; a target that takes one has a further capability.
    options: tuple[str, ...] = ()
    #: What the arguments are called where each array travels by a name of its own; empty: as here.
    parts: tuple[str, ...] = ()

    @property
    def wire_arguments(self) -> tuple[str, ...]:
        """Names of what travels for the arguments."""
        return self.parts or self.arguments


#: Arguments that name something.
NAMES = ("format", "element", "layout", "affine", "out_dtype", "a_spec", "b_spec")
#: Options that are one float32.
FLOATS = ("tensor_scale", "a_tensor_scale", "b_tensor_scale", "alpha", "beta")

#: What one side of a product consists of: its text, and its arrays as far as it has them.
SIDE_PARTS = ("spec", "values", "codes", "scales", "tensor_scale", "offsets", "metadata")

#: Operations on sparse formats. Their names are those of many a helper: a target offers them by naming sparse formats.
SPARSE_FUNCTIONS = ("prune", "compress", "decompress")

#: Function -> whether it handles scales, whether several parts, and whether it reads bytes.
LAYOUT_FUNCTIONS = {
    "pack": (False, False, False),
    "unpack": (False, False, True),
    "swizzle": (True, False, False),
    "unswizzle": (True, False, True),
    "pack_blocks": (False, True, False),
    "unpack_blocks": (False, True, True),
}

OPERATIONS: dict[str, Operation] = {
    o.name: o
    for o in (
        Operation(
            name="quantize", arguments=("x", "format"), outputs=("codes", "scales"),
            options=("tensor_scale", "axis", "pad", "block", "random_bits", "seed", "scales"),
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
        Operation(name="prune", arguments=("codes", "format"), outputs=("codes",)),
        Operation(name="compress", arguments=("codes", "format"), outputs=("kept", "metadata")),
        Operation(name="decompress", arguments=("kept", "metadata", "format", "shape"), outputs=("codes",)),
        Operation(name="pack", arguments=("codes", "layout"), outputs=("data",)),
        Operation(name="unpack", arguments=("data", "layout", "shape"), outputs=("codes",)),
        Operation(name="swizzle", arguments=("scales", "layout"), outputs=("data",)),
        Operation(name="unswizzle", arguments=("data", "layout", "shape"), outputs=("scales",)),
        Operation(name="pack_blocks", arguments=("codes", "scales", "layout"), outputs=("data",)),
        Operation(name="unpack_blocks", arguments=("data", "layout", "shape"), outputs=("codes", "scales")),
        Operation(
            name="matmul", arguments=("a", "b", "out_dtype"), outputs=("values",), options=("alpha", "beta", "c", "bias"),
            parts=(*(f"{side}_{part}" for side in "ab" for part in SIDE_PARTS), "out_dtype", "shape"),
        ),
    )
}  # fmt: skip
