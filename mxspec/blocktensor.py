"""`BlockTensor`: codes and scales, and what is needed to interpret them."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from mxspec.dequantizing import check_axis, dequantize_arrays
from mxspec.elements import Codes, ScaleCodes, check_codes
from mxspec.formats import BlockFormat, BlockName, get_block
from mxspec.measures import measure_error
from mxspec.profiles import get_profile
from mxspec.profiles.schema import Profile, TensorScaleKind
from mxspec.saving import read_arrays, write_arrays
from mxspec.tensorscale import TensorScale, check_tensor_scale

_SCHEMA = "mxspec-blocktensor/1"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BlockTensor:
    """A quantized tensor, as `quantize` returns it; `BlockTensor.from_codes` makes one of codes and scales.

    Two are equal if format, profile, tensor scale, shape, axis and all bits are equal; `same_bits` leaves out the profile. They
    cannot be hashed. Codes and scales are checked when it is made: TypeError or ValueError says what does not fit.
    `mxspec.dot.block_factor(t)` makes one an operand of a product.
    """

    #: The block format; where a whole row or tensor has one scale, with k the length of the rows.
    format: BlockFormat
    #: The profile by which the codes were made, and by which `dequantize` computes.
    profile: Profile
    #: uint8, one code in the low bits of each byte, axes in the order of x, `axis` padded to whole blocks.
    codes: Codes
    #: uint8 scale bytes, or the bits of float32 scales as uint32 (`decode(t.scales, "f32")` gives the numbers), the shape of
    #: `codes` with `axis` divided by k; 16 x 16 blocks repeat their byte over 16 rows, whole tensors their scale over all.
    scales: ScaleCodes
    #: The scale of the whole tensor, in the profile's native kind; None without one.
    tensor_scale: TensorScale | None
    #: The logical shape, before padding.
    shape: tuple[int, ...]
    #: The axis along which blocks lie, non-negative.
    axis: int

    #: NumPy leaves operations with arrays to this class, which has none but ==.
    __array_ufunc__ = None

    def __post_init__(self) -> None:
        kinds: dict[str, tuple[object, type]] = {"format": (self.format, BlockFormat), "profile": (self.profile, Profile)}
        for name, (given, kind) in kinds.items():
            if not isinstance(given, kind):
                raise TypeError(
                    f"{name} is of type {type(given).__name__}; to name format and profile call "
                    "BlockTensor.from_codes(codes, scales, 'mxfp4', profile='mx-floor')"
                )
        fmt = self.format
        get_profile(self.profile, fmt)
        keep = object.__setattr__
        keep(self, "codes", check_codes(self.codes, fmt.element))
        keep(self, "scales", check_codes(self.scales, fmt.scale, name="scales"))
        keep(self, "axis", check_axis(self.axis, self.codes.ndim, "codes"))
        keep(self, "shape", _check_shape(self.shape, self.codes.shape, self.axis, fmt))
        expected = tuple(n // fmt.k if a == self.axis else n for a, n in enumerate(self.codes.shape))
        if self.scales.shape != expected:
            raise ValueError(
                f"scales have shape {self.scales.shape}; for codes of shape {self.codes.shape} with blocks of {fmt.k} along axis "
                f"{self.axis} {fmt.name} needs {expected}"
            )
        if self.tensor_scale is not None:
            check_tensor_scale(self.tensor_scale, self.profile, convert=False)
        self.profile.steps(with_tensor_scale=self.tensor_scale is not None)

    @classmethod
    def from_codes(
        cls,
        codes: object,
        scales: object,
        fmt: BlockName | str | BlockFormat,
        *,
        profile: str | Profile | None = None,
        axis: int = -1,
        tensor_scale: TensorScale | None = None,
        convert: bool = False,
        shape: tuple[int, ...] | None = None,
    ) -> BlockTensor:
        """A tensor of codes and scales that were computed elsewhere.

        Args:
            codes: uint8, one code in the low bits of each byte; an array, or a tensor of torch or CuPy.
            scales: uint8 scale bytes (float32 scales, or their uint32 bits), the shape of `codes` with `axis` divided by k.
            fmt: A block format or its name.
            profile: A profile or its name; default: `default_profile` of the format.
            axis: The axis along which blocks lie.
            tensor_scale: The tensor scale with which the codes were made; None if there was none.
            convert: Allow a tensor scale of another kind than the profile's native one; it is converted and the result records it.
            shape: The logical shape, where `axis` (of 16 x 16 blocks also the rows) was padded; default: that of the codes.

        Raises:
            TypeError: Codes or scales are not uint8, or an argument has another type.
            ValueError: A code has bits beyond the width of the format, or shapes, profile and tensor scale do not fit together.
        """
        fmt, profile = get_block(fmt), get_profile(profile, fmt)
        code_array = check_codes(codes, fmt.element)
        fmt = fmt.sized(code_array.shape[check_axis(axis, code_array.ndim, "codes")])
        if tensor_scale is not None:
            tensor_scale = check_tensor_scale(tensor_scale, profile, convert=convert)
        return cls(
            format=fmt, profile=profile, codes=code_array, scales=check_codes(scales, fmt.scale, name="scales"),
            tensor_scale=tensor_scale, shape=code_array.shape if shape is None else shape, axis=axis,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BlockTensor):
            return NotImplemented
        return self.profile == other.profile and self.tensor_scale == other.tensor_scale and self.same_bits(other)

    __hash__ = None  # type: ignore[assignment]  # arrays have none

    def same_bits(self, other: BlockTensor) -> bool:
        """Whether format, shape, axis, all codes and scales, and kind and bits of the tensor scale are equal.

        By which profile the bits were made, and from what a tensor scale was converted, does not matter.
        """
        if not isinstance(other, BlockTensor):
            raise TypeError(f"other is of type {type(other).__name__}; pass a BlockTensor (BlockTensor.from_codes makes one)")
        scales = [None if t.tensor_scale is None else (t.tensor_scale.kind, t.tensor_scale.bits) for t in (self, other)]
        return (
            all(getattr(self, f) == getattr(other, f) for f in ("format", "shape", "axis"))
            and scales[0] == scales[1]
            and np.array_equal(self.codes, other.codes)
            and np.array_equal(self.scales, other.scales)
        )

    def __repr__(self) -> str:
        scale = "" if self.tensor_scale is None else f", tensor scale {self.tensor_scale}"
        return (
            f"<BlockTensor {self.format.name} by {self.profile.id}, shape {self.shape}, blocks of {self.format.k} along axis "
            f"{self.axis}{scale}>"
        )

    @property
    def nbytes(self) -> int:
        """Bytes that codes and scales take in memory, one code to a byte; `stored_nbytes` are those of packed codes."""
        return self.codes.nbytes + self.scales.nbytes

    @property
    def stored_nbytes(self) -> int:
        """Bytes of the packed codes, the scales and the tensor scale, padding included; a layout may add its own."""
        bits = self.codes.size * self.format.element.bits
        return -(-bits // 8) + self.scales.nbytes + (0 if self.tensor_scale is None else 4)

    def dequantize(self, dtype: object = np.float32) -> npt.NDArray[Any]:
        """The values, by the profile's own arithmetic.

        Args:
            dtype: float32, float16 or bfloat16, of NumPy (`ml_dtypes.bfloat16`) or of torch.

        Returns:
            An array of this dtype in the logical shape, without the padding; for a dtype of torch a `torch.Tensor` on the CPU.
        """
        values = dequantize_arrays(
            self.codes,
            self.scales,
            self.format,
            profile=self.profile,
            axis=self.axis,
            tensor_scale=self.tensor_scale,
            convert=False,
            dtype=dtype,
        )
        kept = tuple(slice(0, n) for n in self.shape)
        return values[kept]

    def sqnr(self, x: object) -> float:
        """The signal-to-quantization-noise ratio against the numbers x that were quantized, in decibels.

        10 log10(sum x^2 / sum (x - values)^2), summed in float64 over the elements whose x is finite; inf without an error.

        Raises:
            TypeError: x has a dtype that `quantize` does not take.
            ValueError: x has another shape.
        """
        return measure_error(x, self.dequantize()).sqnr

    def pack(self, layout: str) -> npt.NDArray[np.uint8]:
        """The bytes of the codes, of the scales, or of both, in a layout: what the layout says that it holds.

        Args:
            layout: The name of a layout: "nibble-low" packs the codes, "128x4" the scales, "ggml-mxfp4" both.

        Returns:
            A flat uint8 array. Rows are all axes before the last; `mxspec.layouts.unpack` inverts it.

        Raises:
            TypeError: The layout holds neither codes nor scales.
            ValueError: An unknown layout, one that cannot hold the shape, or blocks that do not lie along the last axis.
        """
        from mxspec.layouts import Part, get_layout

        chosen = get_layout(layout)
        if self.axis != self.codes.ndim - 1:
            raise ValueError(
                f"blocks lie along axis {self.axis} of {self.codes.ndim}, layouts need them along the last; move it "
                "(numpy.moveaxis) before quantizing"
            )
        known = {Part.CODES: self.codes, Part.SCALES: self.scales}
        if not set(chosen.parts) <= set(known):
            raise TypeError(f"{chosen.name} holds {' and '.join(chosen.parts)}; a BlockTensor has codes and scales")
        return chosen.pack(*(np.atleast_2d(known[part]) for part in chosen.parts))

    def save(self, path: str | Path) -> None:
        """Write it to a .npz file, which `BlockTensor.load` reads; on any error the file is as it was.

        The profile is written by its name. For checkpoints of libraries see `mxspec.containers.write`.

        Raises OSError where the file cannot be written.
        """
        scale = self.tensor_scale
        facts = {
            "schema": _SCHEMA, "format": self.format.name, "profile": self.profile.id, "shape": list(self.shape), "axis": self.axis,
            "tensor_scale": None if scale is None else [scale.kind.value, scale.bits],
            "converted_from": None if scale is None or scale.converted_from is None else list(scale.converted_from),
        }  # fmt: skip
        write_arrays(path, {"codes": self.codes, "scales": self.scales}, facts)

    @classmethod
    def load(cls, path: str | Path) -> BlockTensor:
        """The tensor that `save` wrote.

        Raises OSError where the file cannot be read, and ValueError where it is no such file, holds what does not fit together,
        or names a format or profile that is not registered.
        """
        (codes, scales), facts = read_arrays(path, ("codes", "scales"), _SCHEMA)
        try:
            scale = None
            if facts["tensor_scale"] is not None:
                origin = facts["converted_from"]
                kind, bits = facts["tensor_scale"]
                before = None if origin is None else (TensorScaleKind(origin[0]), index(origin[1]))
                scale = TensorScale(kind, index(bits), before)
            return cls.from_codes(
                codes, scales, facts["format"], profile=facts["profile"], axis=facts["axis"], tensor_scale=scale,
                shape=tuple(facts["shape"]),
            )  # fmt: skip
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"{path} is damaged: {error}") from error

    def __getitem__(self, key: Any) -> BlockTensor:
        """A part of the tensor, as a view of its codes and scales: integers, slices and ... only.

        The axis of the blocks keeps whole blocks: its slices have step 1, begin at a multiple of k and end at one, or at the end.

        Raises IndexError for what lies outside, and TypeError or ValueError for what cannot be cut.
        """
        return _cut(self, key)

    def __len__(self) -> int:
        """The length of the first axis."""
        return self.shape[0]

    def __array__(self, *_: object, **__: object) -> NoReturn:
        """Refused: codes and values are different arrays."""
        raise TypeError("a BlockTensor is not an array; take its .codes, its .scales, or its values: .dequantize()")


def _check_shape(shape: object, stored: tuple[int, ...], axis: int, fmt: BlockFormat) -> tuple[int, ...]:
    """The logical shape of codes of a stored shape, as integers."""
    try:
        logical = tuple(index(n) for n in shape)  # type: ignore[attr-defined]  # what is no shape is refused in words
    except TypeError:
        raise TypeError(f"shape is {shape!r}; pass a tuple of integers") from None
    row_axis = axis - 1 if axis else 1
    fits = len(logical) == len(stored) and all(n >= 0 for n in logical)
    for a, (n, padded) in enumerate(zip(logical, stored, strict=False)):
        multiples = [fmt.k] if a == axis else [1, *(rows for rows, _ in fmt.shapes)] if a == row_axis else [1]
        fits &= padded in {-(-n // m) * m for m in multiples}
    if not fits:
        raise ValueError(
            f"codes of shape {stored} do not hold shape {logical} of {fmt.name}; axis {axis} is padded to a multiple of {fmt.k}, "
            "every other axis is as long as that of the codes"
        )
    return logical


def _cut(t: BlockTensor, key: Any) -> BlockTensor:
    keys = list(key) if isinstance(key, tuple) else [key]
    if sum(k is Ellipsis for k in keys) > 1:
        raise IndexError("an index has one ... at most")
    missing = len(t.shape) - sum(k is not Ellipsis for k in keys)
    if missing < 0:
        raise IndexError(f"{len(keys)} indices for {len(t.shape)} axes of shape {t.shape}")
    at = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
    keys[at : at + 1] = [slice(None)] * missing
    of_codes: list[int | slice] = []
    of_scales: list[int | slice] = []
    shape: list[int] = []
    for axis, (k, length) in enumerate(zip(keys, t.shape, strict=True)):
        if isinstance(k, slice):
            start, stop, step = k.indices(length)
            codes, scales, count = _cut_axis(t, axis, start, stop, step)
            shape.append(count)
            of_codes.append(codes)
            of_scales.append(scales)
            continue
        if isinstance(k, (bool, np.bool_)) or not hasattr(k, "__index__") or getattr(k, "shape", ()) != ():
            raise TypeError(f"the index of axis {axis} is of type {type(k).__name__}; a BlockTensor takes integers, slices and ...")
        place = index(k)
        if axis == t.axis:
            raise ValueError(f"axis {axis} holds the blocks; cut whole blocks of {t.format.k} with a slice, or dequantize first")
        if not -length <= place < length:
            raise IndexError(f"index {place} is out of range for axis {axis} with {length} entries")
        of_codes.append(place % length)
        of_scales.append(place % length)
    dropped = sum(not isinstance(k, slice) for k in keys[: t.axis])
    return BlockTensor(
        format=t.format, profile=t.profile, codes=t.codes[tuple(of_codes)], scales=t.scales[tuple(of_scales)],
        tensor_scale=t.tensor_scale, shape=tuple(shape), axis=t.axis - dropped,
    )  # fmt: skip


def _cut_axis(t: BlockTensor, axis: int, start: int, stop: int, step: int) -> tuple[slice, slice, int]:
    """Slices of codes and scales for a slice of one axis, and its logical length."""
    length, k = t.shape[axis], t.format.k
    if axis != t.axis:
        if (start, stop, step) == (0, length, 1):
            return slice(None), slice(None), length
        part = slice(start, None if step < 0 and stop < 0 else stop, step)
        return part, part, len(range(start, stop, step))
    stop = max(start, stop)
    if step != 1 or start % k or (stop % k and stop != length):
        raise ValueError(
            f"axis {axis} holds blocks of {k}: its slice begins at a multiple of {k}, ends at one or at {length}, and has step 1; "
            f"given was {start}:{stop}:{step}"
        )
    blocks = slice(start // k, -(-stop // k))
    return slice(start, blocks.stop * k), blocks, stop - start
