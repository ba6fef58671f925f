"""How the arrays of a call lie where the target has them: what it is given, and reading what it returns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine.formats import Offset
from mxspec.elements import decode_codes, encode
from mxspec.formats import get_block
from mxspec.layouts import get_layout
from mxspec_conformance.targets.affine import read_floats, read_offsets, read_operand
from mxspec_conformance.targets.arrays import NIBBLES, from_target_array, laid_size, lay_codes, lay_scales, take_laid, unpack_nibbles
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.errors import BadReturn
from mxspec_conformance.targets.interface import Call, Expected, Form, Operation, Shape, has_float_scales, has_one_scale
from mxspec_conformance.targets.layout_hints import suggest_code_layout, suggest_scale_layout
from mxspec_conformance.targets.operand_words import ROW_MAJOR, UNPACKED
from mxspec_conformance.targets.texts import name_with_article

#: How many times as many items as an input has an answer may have before it is examined: padding to tiles is less.
MOST = 1024


@dataclass(slots=True)
class TargetArray:
    """One array of a call, as a target has it."""

    operation: Operation
    name: str
    call: Call
    capabilities: Capabilities
    form: Form = field(init=False)

    def __post_init__(self) -> None:
        self.form = self.operation.forms.get(self.name, Form.ITEMS)

    @property
    def layout(self) -> str | None:
        """The layout in which its items lie; None: one to a byte, by rows."""
        layout: str | None
        match self.form:
            case Form.BLOCK_CODES:
                layout = self.capabilities.layout_of(self.call["format"])
            case Form.BLOCK_SCALES:
                layout = None if self.is_float else self.capabilities.scale_layout
            case Form.KEPT | Form.METADATA as form:
                layout = (self.capabilities.sparse_layout or (UNPACKED, UNPACKED))[form is Form.METADATA]
            case _:
                return None
        return None if layout in (UNPACKED, ROW_MAJOR) else layout

    @property
    def is_float(self) -> bool:
        """Whether it is scales that are float32."""
        return self.form is Form.BLOCK_SCALES and (self.capabilities.scales == "float32" or has_float_scales(self.call["format"]))

    @property
    def is_one(self) -> bool:
        """Whether it is the scale of a whole tensor, which the judge has for each row."""
        return self.form is Form.BLOCK_SCALES and has_one_scale(self.call["format"])

    @property
    def word(self) -> str:
        """What messages call it."""
        if self.form is Form.AFFINE_OFFSETS:
            return "biases" if read_operand(self.call["affine"]).format.offset is Offset.BIAS else "zero points"
        return self.name

    def give(self, items: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The judge's items as the target takes them. Raises NotImplementedError where its layout does not hold their shape."""
        if self.form is Form.AFFINE_CODES:
            return read_operand(self.call["affine"]).give(items)
        if self.is_float:
            numbers = items.view(np.float32) if has_float_scales(self.call["format"]) else give_scale_numbers(items, self.call["format"])
            return numbers.reshape(-1)[:1] if self.is_one else numbers
        if self.layout is None:
            return items
        return lay_codes(items, self.layout) if self.form is Form.BLOCK_CODES else lay_scales(items, self.layout)

    def expect(self, dtype: Any, shape: Shape | None, measured: Shape = ()) -> tuple[Any, Shape]:
        """The dtype and shape in which a target has what the judge has in these.

        measured: the shape of the call's numbers; for a layout's bytes.
        """
        if shape is None:
            return dtype, (get_layout(self.call["layout"]).size(measured),)
        if self.form is Form.NUMBER:
            return np.float32, (1,)
        if self.form is Form.AFFINE_CODES:
            operand = read_operand(self.call["affine"])
            return (np.uint32 if operand.words else dtype), operand.shapes(shape)[0]
        if self.is_float:
            return np.float32, (1,) if self.is_one else shape
        if self.layout is None:
            return dtype, shape
        size = laid_size(shape, self.layout)
        return dtype, (shape[0], size // max(shape[0], 1)) if self.form is Form.BLOCK_CODES else (size,)

    def take(self, returned: Any, wanted: Expected) -> Any:
        """What a target returned, as the judge has it. Raises BadReturn for what it cannot be."""
        function, shape, form = self.operation.name, wanted.shape, self.form
        if form is Form.NUMBER:
            return _take_number(returned, function)
        if shape is None:
            return flat_bytes(returned, function)
        if form in (Form.KEPT, Form.METADATA) and self.layout is not None:
            return _take_packed(returned, self.name, shape, self.layout)
        is_result = form in (Form.FLOATS, Form.PRODUCT)
        array = from_target_array(returned, f"{function}'s result" if is_result else self.word)
        if form is Form.FLOATS and array.dtype not in DTYPES.values():
            raise BadReturn(f"{function} returned dtype {array.dtype}; return float32")
        if form in (Form.BLOCK_CODES, Form.BLOCK_SCALES):
            return self._take_block(array, shape)
        if array.shape != (expected := self.expect(wanted.dtype, shape)[1]):
            raise BadReturn(self._describe_shape(array, expected))
        match form:
            case Form.FLOATS:
                return array.astype(np.float32)
            case Form.PRODUCT:
                return _take_numbers(array, self.call["out_dtype"], function)
            case Form.ROWS if wanted.dtype != np.uint8:
                return _take_numbers(array, wanted.dtype.name, function)
            case Form.AFFINE_CODES:
                return read_operand(self.call["affine"]).take(array)
            case Form.AFFINE_SCALES:
                return read_floats(array, read_operand(self.call["affine"]).format, self.word)
            case Form.AFFINE_OFFSETS:
                return read_offsets(array, read_operand(self.call["affine"]).format)
        return read_bytes(array, self.name)

    def _take_block(self, array: npt.NDArray[Any], shape: Shape) -> npt.NDArray[Any]:
        """Codes or scales that `quantize` returned."""
        x, axis, layout = self.call["x"], self.call.get("axis", -1), self.layout
        if not -x.ndim <= axis < x.ndim:
            raise BadReturn(f"quantize returned codes along axis {axis} of x of shape {x.shape}")
        if self.is_float and array.size == (1 if self.is_one else math.prod(shape)) and array.shape in ((), (1,), shape[:-1]):
            array = np.broadcast_to(array.reshape(-1, 1), shape)
        # Shapes first: a broadcast array of terabytes has few bytes until it is copied.
        if layout is None and array.shape != shape:
            raise BadReturn(self._describe_shape(array, shape))
        if array.size > MOST * max(x.size, 1024):
            raise BadReturn(f"{self.name} have shape {array.shape} for x of shape {x.shape}")
        if self.is_float:
            is_own = has_float_scales(self.call["format"])
            return read_float_scales(array) if is_own else read_scale_numbers(array, self.call["format"])
        if layout is None or layout in NIBBLES or self.form is Form.BLOCK_SCALES:
            array = read_bytes(array, self.name)
        else:
            array = flat_bytes(array, "quantize")
        if layout is None:
            return array
        return unpack_nibbles(array, shape, axis, layout) if layout in NIBBLES else take_laid(array, shape, layout, self.name)

    def _describe_shape(self, array: npt.NDArray[Any], wanted: Shape) -> str:
        """What is wrong with the shape of an array that was returned."""
        operation, found = self.operation, array.shape
        given = f"for {operation.arguments[0]} of shape"
        have = f"{self.word} have shape {found}; {wanted} was expected"
        match self.form:
            case Form.BLOCK_CODES:
                return f"{have} {given} {self.call['x'].shape}{suggest_code_layout(found, wanted, get_block(self.call['format']))}"
            case Form.BLOCK_SCALES:
                return f"{have} {given} {self.call['x'].shape}{suggest_scale_layout(array.size, found, wanted)}"
            case Form.AFFINE_CODES | Form.AFFINE_SCALES | Form.AFFINE_OFFSETS:
                return f"{have} {given} {self.call['x'].shape} in {self.call['affine']}"
            case Form.KEPT | Form.METADATA:
                return f"{have}, one to a byte (or declare SPARSE_LAYOUT)"
            case Form.PRODUCT:
                sizes = ("[experts, m, n]" if len(wanted) > 2 else "[m, n]") if "a" in self.call else ""
                return f"{operation.name} returned shape {found}; {wanted} was expected{': ' * bool(sizes)}{sizes}"
            case Form.ITEMS if "shape" not in operation.arguments:
                return f"{operation.name} returned shape {found}; {wanted} was expected {given} {wanted}"
        part = f"{self.name} of " if operation.unpacks else ""
        return f"{operation.name} returned {part}shape {found}; {wanted} was expected"


#: What to do with a third output of a quantizer.
_OWN_SCALE = (
    ". If the third is a tensor scale: take it as the argument tensor_scale instead of computing it (TENSOR_SCALE = 'decode', 'encode' or "
    "'amax' says which kind), and offer tensor_scale(x, fmt)"
)


def split_answer(operation: Operation, returned: Any, count: int) -> Sequence[Any]:
    """What a target returned for each of its outputs. Raises BadReturn for another number of arrays."""
    several = returned if isinstance(returned, (tuple, list)) else None
    if operation.unpacks:
        given = (returned,) if several is None else several
        if len(given) != count:
            raise BadReturn(f"{operation.name} returned {len(given)} arrays; {count} were expected")
        return given
    if count == 1:
        return (returned,)
    if several is None or len(several) != count:
        words = ("biases or zero points" if o.form is Form.AFFINE_OFFSETS else o.name for o in operation.outputs)
        hint = _OWN_SCALE if operation.name == "quantize" and several is not None and len(several) == 3 else ""
        raise BadReturn(f"{operation.name} returned {_name_kind(returned)}; return ({', '.join(words)}){hint}")
    return several


def _name_kind(returned: object) -> str:
    """What came instead of the outputs."""
    kind = name_with_article(returned)
    return f"{kind} of {len(returned)}" if isinstance(returned, (tuple, list)) else kind


def read_bytes(a: npt.NDArray[Any], what: str) -> npt.NDArray[np.uint8]:
    """Items of one byte. Raises BadReturn for another dtype."""
    if a.dtype.itemsize == 1 and a.dtype.kind != "b":
        return np.ascontiguousarray(a).view(np.uint8)
    packed = f"; {a.dtype.itemsize} packed into each integer: {what}.view(np.uint8)"
    hint = f". One in each integer: {what}.astype(np.uint8){packed}" if a.dtype.kind in "iu" else ""
    raise BadReturn(f"{what} have dtype {a.dtype}; return uint8{hint}")


def read_float_scales(a: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
    """The bits of float32 scales, of NaN those of the canonical one. Raises BadReturn for another dtype."""
    if a.dtype == np.uint32:  # their bits, as `mxspec.quantize` has them
        a = a.view(np.float32)
    if a.dtype != np.float32:
        raise BadReturn(f"scales have dtype {a.dtype}; return float32")
    return np.where(np.isnan(a), np.float32(np.nan), a).view(np.uint32)


def give_scale_numbers(codes: npt.NDArray[Any], fmt: str) -> npt.NDArray[np.float32]:
    """The numbers that scale bytes mean. Raises NotImplementedError for wider integers, which mean none."""
    scale = get_block(fmt).scale
    if codes.dtype != np.uint8:
        raise NotImplementedError(f"scales are float32; {codes.dtype} is not handed over")
    return decode_codes(codes & np.uint8(scale.code_count - 1), scale)


def read_scale_numbers(a: npt.NDArray[Any], fmt: str) -> npt.NDArray[np.uint8]:
    """The bytes of scales that are numbers; of one that the format does not have the byte of a number near it: `find_strays`.

    Raises BadReturn for another dtype.
    """
    if a.dtype not in (np.float64, *DTYPES.values()):
        raise BadReturn(f"scales have dtype {a.dtype}; by SCALES return float32, the numbers")
    with np.errstate(all="ignore"):
        return encode(np.abs(a).astype(np.float32), get_block(fmt).scale)


def find_stray_scales(a: npt.NDArray[Any], fmt: str) -> npt.NDArray[np.float32]:
    """Where scales are no numbers of their format these scales, elsewhere NaN."""
    means = give_scale_numbers(read_scale_numbers(a, fmt), fmt)
    return np.where((a == means) | np.isnan(a), np.float32(np.nan), a.astype(np.float32))


def flat_bytes(returned: Any, function: str) -> npt.NDArray[np.uint8]:
    """Packed bytes, returned as bytes or as an array of any integers or 8-bit floats."""
    if isinstance(returned, (bytes, bytearray, memoryview)):
        return np.frombuffer(returned, np.uint8)
    array = from_target_array(returned, f"{function}'s result")
    if array.dtype.kind not in "iuV" and array.dtype.itemsize != 1:
        raise BadReturn(f"{function} returned dtype {array.dtype}; return bytes, or an array of integers")
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)


def _take_number(value: Any, function: str) -> float:
    if not isinstance(value, (int, float, np.generic)) and (hasattr(value, "detach") or hasattr(value, "shape")):
        array = from_target_array(value, f"{function}'s result")
        if array.size != 1:
            raise BadReturn(f"{function} returned {array.size} numbers; return one")
        value = array.reshape(-1)[0]
    try:
        return float(value)
    except TypeError:
        raise BadReturn(f"{function} returned {_name_kind(value)}; return one number") from None


def _take_numbers(values: npt.NDArray[Any], out_dtype: str, function: str) -> npt.NDArray[Any]:
    name = values.dtype.name
    if name not in DTYPES:
        raise BadReturn(f"{function} returned dtype {name}; return {out_dtype}")
    if name == out_dtype:
        return np.array(values)
    # torch's bfloat16 comes as float32.
    cast = values.astype(DTYPES[out_dtype])
    same = (cast.astype(np.float64) == values.astype(np.float64)) | (np.isnan(cast) & np.isnan(values))
    if not same.all():
        raise BadReturn(f"{function} returned numbers of {name} that {out_dtype} does not have; return {out_dtype}")
    return cast


def _take_packed(returned: Any, what: str, shape: Shape, layout: str) -> npt.NDArray[np.uint8]:
    """Kept codes or metadata out of a layout's bytes."""
    try:
        size = get_layout(layout).size(shape)
    except ValueError as error:
        raise BadReturn(f"{what} of shape {shape} cannot lie in {layout}: {error}") from None
    given = getattr(returned, "nbytes", size)
    data = flat_bytes(returned, what) if given == size else None
    if data is None or data.size != size:
        raise BadReturn(f"{what} have {given} bytes; {layout} takes {size} for {shape}")
    return get_layout(layout).unpack(data, shape)[0]
