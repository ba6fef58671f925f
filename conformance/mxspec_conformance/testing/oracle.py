"""An oracle for the tests of a framework: from a recipe to an answer that none of its own kernels computed, and a typed verdict on theirs.

>>> import numpy as np
>>> from mxspec_conformance.testing.oracle import Recipe, oracle
>>> mxfp4 = oracle(Recipe("mxfp4", profile="mx-rceil", codes="nibble-low"))
>>> x = np.linspace(-3, 3, 64, dtype=np.float32).reshape(1, 64)
>>> codes, scales = mxfp4.quantize(x)  # or those of a kernel
>>> mxfp4.check(x, codes, scales).status
<Status.RIGHT: 'right'>
>>> mxfp4.check(x, codes, scales + 1).message
'mx-rceil: 2 of 2 blocks are wrong, 0 differ where the answer is open. Row 0, block 0: scale expected 7e, returned 7f'
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec import BlockTensor, TensorScale
from mxspec.acceptance import flag_nan, flag_nan_codes, fold_zeros, legal_rows, low_end_rows
from mxspec.adjacent import register_named
from mxspec.dot import DEFAULT_ACCUMULATOR, OUTPUTS, Epilogue, allow_outputs, block_factor, get_accumulator, sum_products
from mxspec.elements import as_float32, check_codes
from mxspec.enums import StrEnum
from mxspec.formats import F32, BlockFormat, ScalarFormat, get_block
from mxspec.inputs import as_array
from mxspec.layouts import pack, unpack
from mxspec.profiles import Profile, default_profile, get_profile
from mxspec.profiles.schema import Kind, TensorScaleKind
from mxspec_vectors.topics import Level, topic_level

Array = npt.NDArray[Any]


class Status(StrEnum):
    """What is to be said of an answer."""

    #: Every bit is that of the profile, or every output lies in its interval.
    RIGHT = "right"
    #: It differs only where OCP, or a profile that is not pinned there, leaves the answer open, or in what becomes of a block whose NaN is kept.
    OPEN = "open"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict on blocks or outputs: how many there are, and of these how many are wrong, and how many differ where the answer is open."""

    status: Status
    count: int
    wrong: int
    open: int
    #: The first that is wrong, or open, with what was expected; "" where none is.
    message: str

    def require(self) -> None:
        """Raise AssertionError, with the message, where something is wrong."""
        if self.status is Status.WRONG:
            raise AssertionError(self.message)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a kernel quantizes, and how it stores what it returns."""

    #: A block format, adjacent ones included: "nvfp4", "fp8_e4m3-128-f32".
    format: str
    #: What it promises; "" for the format's default.
    profile: str = ""
    #: What a tensor scale is in calls: "amax", "encode" or "decode"; "" for the profile's own kind.
    tensor_scale: str = ""
    #: The layouts of codes and of scale bytes (`mxspec layouts`): "nibble-low", "128x4". float32 scales are arrays.
    codes: str = "bytes"
    scales: str = "bytes"


@dataclass(frozen=True, slots=True)
class Oracle:
    """The answers of the model to a recipe. Matrices are [rows, columns] with blocks along the columns; arrays or tensors of torch and CuPy.

    Raises what `mxspec.quantize` and `mxspec.layouts` raise: TypeError for a dtype, ValueError for shapes, names and numbers of bytes.
    """

    recipe: Recipe
    fmt: BlockFormat
    profile: Profile

    def quantize(self, x: object, tensor_scale: float | None = None) -> tuple[Array, Array]:
        """Codes and scales of a matrix, as the recipe stores them; float32 scales as numbers."""
        t = self._quantize(x, tensor_scale)
        codes = pack(t.codes, self.recipe.codes).reshape(len(t.codes), -1) if self.recipe.codes != "bytes" else t.codes
        if self.fmt.scale == F32:
            return codes, t.scales.view(np.float32)
        return codes, t.scales if self.recipe.scales == "bytes" else pack(t.scales, self.recipe.scales)

    def read(self, codes: object, scales: object, shape: tuple[int, int], tensor_scale: float | None = None) -> BlockTensor:
        """What was stored, of a matrix of a shape, for `mxspec`."""
        rows, columns = shape
        return BlockTensor.from_codes(
            _unpack(codes, self.recipe.codes, self.fmt.element, (rows, columns)),
            _unpack(scales, self.recipe.scales if self.fmt.scale != F32 else "bytes", self.fmt.scale, (rows, columns // self.fmt.k)),
            self.fmt, profile=self.profile, tensor_scale=self._scale(tensor_scale), convert=True,
        )  # fmt: skip

    def dequantize(
        self, codes: object, scales: object, shape: tuple[int, int], tensor_scale: float | None = None
    ) -> npt.NDArray[np.float32]:
        """The float32 numbers that were stored, as the profile computes them."""
        return self.read(codes, scales, shape, tensor_scale).dequantize()

    def check(self, x: object, codes: object, scales: object, tensor_scale: float | None = None) -> Verdict:
        """The verdict on what a quantizer returned for x."""
        values = as_float32(x)
        if values.ndim != 2:
            raise ValueError(f"x has shape {values.shape}; pass a matrix [rows, columns]")
        want, k = self._quantize(values, tensor_scale), self.fmt.k
        got = self.read(codes, scales, (values.shape[0], values.shape[1]), tensor_scale)
        blocks = values.reshape(-1, k)
        wanted, returned = ((t.scales.reshape(-1), t.codes.reshape(-1, k)) for t in (want, got))
        differ = np.flatnonzero((wanted[0] != returned[0]) | (wanted[1] != returned[1]).any(axis=1))
        special = want.tensor_scale is not None and not np.isfinite(want.tensor_scale.value)
        wrong = [] if special and self._is_open("nan") else [
            i for i in differ if not self._may_differ(blocks[i], int(wanted[0][i]), wanted[1][i], int(returned[0][i]), returned[1][i])
        ]  # fmt: skip
        message = ""
        if differ.size:
            shown = int(wrong[0] if wrong else differ[0])
            row, block = divmod(shown, want.scales.shape[1])
            lanes = np.flatnonzero(wanted[1][shown] != returned[1][shown])
            message = (
                f"{self.profile.id}: {len(wrong)} of {len(blocks)} blocks are wrong, {len(differ) - len(wrong)} differ where the answer is open. "
                f"Row {row}, block {block}: scale expected {wanted[0][shown]:02x}, returned {returned[0][shown]:02x}"
            ) + "".join(
                f"; lane {n}, x = {float(blocks[shown, n])!r}: code expected {wanted[1][shown, n]:02x}, returned {returned[1][shown, n]:02x}" for n in lanes[:4]
            )  # fmt: skip
        return _make_verdict(len(blocks), len(wrong), len(differ) - len(wrong), message)

    def check_product(
        self,
        a: BlockTensor,
        b: BlockTensor,
        output: npt.ArrayLike,
        *,
        accumulator: str = DEFAULT_ACCUMULATOR,
        epilogue: Epilogue | None = None,
    ) -> Verdict:
        """The verdict on a product a b^T of two operands that were read: whether each output lies in the interval of an accumulation of the class."""
        y = np.asarray(output)
        if y.dtype.name not in OUTPUTS:
            raise TypeError(f"the output is {y.dtype}; allowed are {', '.join(OUTPUTS)}")
        sides = block_factor(a, convert=True), block_factor(b, convert=True)
        if y.shape != (sides[0].rows, sides[1].rows):
            raise ValueError(f"the output has shape {y.shape}; the product has {(sides[0].rows, sides[1].rows)}")
        with np.errstate(all="ignore"):
            allowed = allow_outputs(
                sum_products(*sides),
                get_accumulator(accumulator),
                y.dtype.name,
                tensor_scale=sides[0].tensor_scale * sides[1].tensor_scale,
                epilogue=epilogue,
            )
            bad = np.argwhere(~allowed.accepts(y))
        message = ""
        if len(bad):
            i, j = (int(n) for n in bad[0])
            message = (
                f"{len(bad)} of {y.size} outputs are wrong. Row {i}, column {j}: expected {float(allowed.low[i, j])!r} to {float(allowed.high[i, j])!r}, "
                f"returned {float(y[i, j])!r} (additions of the class {accumulator})"
            )
        return _make_verdict(y.size, len(bad), 0, message)

    def _scale(self, value: float | None) -> TensorScale | None:
        if value is None:
            return None
        tensor = self.profile.tensor
        if tensor is None:
            raise ValueError(f"profile {self.profile.id} has no tensor scale; leave out tensor_scale")
        return TensorScale.from_float(TensorScaleKind(self.recipe.tensor_scale or tensor.native), value)

    def _quantize(self, x: object, tensor_scale: float | None) -> BlockTensor:
        return mxspec.quantize(x, self.fmt, profile=self.profile, tensor_scale=self._scale(tensor_scale), convert=True)

    def _is_open(self, topic: str) -> bool:
        return topic_level(topic, "quantize", self.fmt.name, described=self.profile.kind is not Kind.NORMATIVE) is Level.OPEN

    def _may_differ(self, x: npt.NDArray[np.float32], want_scale: int, want: Array, scale: int, codes: Array) -> bool:
        """Whether a block that differs from the canonical answer is one of the others that OCP, or a profile that is not pinned, leaves open."""
        element, fold, profile = self.fmt.element, fold_zeros(self.fmt.element), self.profile
        is_nan, nan_scale = flag_nan(element), bool(flag_nan_codes(scale, self.fmt.scale))
        rows = legal_rows(x, self.fmt, profile, want_scale, want)
        if any(row.matches(scale, codes, is_nan) for row in rows):
            return True
        unsigned = [replace(row, codes=tuple(int(c) for c in fold[list(row.codes)])) for row in rows]
        if self._is_open("zero-sign") and any(row.matches(scale, fold[codes], is_nan) for row in unsigned):
            return True
        if np.isnan(x).any():
            kept = nan_scale or bool(is_nan[codes[np.isnan(x)]].all())
            loose = profile.unspecified_nan_block_codes and nan_scale and bool(flag_nan_codes(want_scale, self.fmt.scale))
            return loose or profile.unspecified_nan_input_scales or self._is_open("nan") or (kept and profile.kind is Kind.NORMATIVE)
        if np.isinf(x).any() and self._is_open("inf"):
            return True
        zeros = not fold[codes].any() and not nan_scale
        if not x.any():  # no text fixes the scale of zeros; under float32 scales 0 / 0 may make them NaN
            return zeros and (profile.kind is Kind.NORMATIVE or (self.fmt.scale == F32 and bool(is_nan[want].all())))
        return any(row.matches(scale, codes, is_nan) for row in low_end_rows(x, self.fmt, profile, want_scale))


def _unpack(stored: object, layout: str, fmt: ScalarFormat, shape: tuple[int, int]) -> Array:
    if layout == "bytes":
        array = check_codes(stored, fmt)
    else:
        raw = as_array(stored)
        array = unpack(raw.view(np.uint8) if raw.dtype.itemsize == 1 else raw, layout, shape)
    if array.size != shape[0] * shape[1]:
        raise ValueError(f"{array.shape} are not the {shape[0]} x {shape[1]} codes of {fmt.name} in the layout {layout}")
    return array.reshape(shape)


def _make_verdict(count: int, wrong: int, differ: int, message: str) -> Verdict:
    return Verdict(Status.WRONG if wrong else Status.OPEN if differ else Status.RIGHT, count, wrong, differ, message)


def oracle(recipe: Recipe) -> Oracle:
    """The oracle of a recipe. Raises ValueError for a format or profile that there is not; layouts are looked up when they are needed."""
    register_named([recipe.format])
    fmt = get_block(recipe.format)
    return Oracle(recipe, fmt, get_profile(recipe.profile, fmt) if recipe.profile else default_profile(fmt))
