"""`SparseTensor`: kept items, where they were, and the scales of groups of the dense K."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine.arrays import add_to_odd
from mxspec.affine.tensor import AffineTensor
from mxspec.blocktensor import BlockTensor
from mxspec.dequantizing import dequantize_arrays
from mxspec.elements import Codes, as_float32, check_codes, decode, output_dtype, round_to
from mxspec.formats import ELEMENTS, BlockFormat
from mxspec.inputs import as_array, to_torch, torch_dtype_name
from mxspec.profiles import Profile
from mxspec.sparsity.kinds import FLOATS, Nibble, get_kind
from mxspec.sparsity.patterns import Sparsity, check_fit, check_metadata, decompress, gather, get_sparsity, scatter
from mxspec.sparsity.pruning import choose_kept
from mxspec.sparsity.rules import PruneRule
from mxspec.tensorscale import TensorScale

#: Zero points beyond this are none of codes; up to it every number is exact in float64.
_LARGEST_ZERO = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class GroupScales:
    """One scale to `group` neighbours of the dense K; the group of a kept code is that of its dense position.

    The number of a code q is q x scale; with zero points (q - zero) x scale; with biases q x scale + bias. It is exact, and
    rounded once to the type requested. Scales of another format are decoded first: `mxspec.decode(codes, "e8m0")`.
    """

    #: Neighbours along the dense K that share a scale: a multiple of the 4 (pairs: 8) of a sparse group, and a divisor of K.
    group: int
    #: [..., K / group]: float32, float16 or bfloat16.
    scales: npt.NDArray[Any]
    #: Zero points, integers in the shape of the scales.
    zeros: npt.NDArray[Any] | None = None
    #: Biases, floats in the shape of the scales.
    biases: npt.NDArray[Any] | None = None

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "scales", as_float32(self.scales, name="scales"))
        if self.zeros is not None and self.biases is not None:
            raise ValueError("zeros and biases are given; a number is (q - zero) x scale or q x scale + bias: pass one of them")
        if self.zeros is not None:
            zeros = np.asarray(self.zeros)
            if zeros.dtype.kind not in "iu":
                raise TypeError(f"zeros are {zeros.dtype}; zero points are integers (of floats: biases)")
            keep(self, "zeros", zeros.astype(np.int64))
            if zeros.size and max(abs(int(zeros.min())), abs(int(zeros.max()))) > _LARGEST_ZERO:
                raise ValueError(f"zeros reach {int(zeros.max())}; zero points of codes of 8 bits are at most {_LARGEST_ZERO}")
        if self.biases is not None:
            keep(self, "biases", as_float32(self.biases, name="biases"))
        for name, part in (("zeros", self.zeros), ("biases", self.biases)):
            if part is not None and part.shape != self.scales.shape:
                raise ValueError(f"{name} have shape {part.shape}; the scales have {self.scales.shape}")

    def check(self, shape: tuple[int, ...], sparsity: Sparsity) -> None:
        """Raise ValueError where the group does not suit a dense shape, or the scales do not."""
        check_group(self.group, shape[-1], sparsity)
        wanted = (*shape[:-1], shape[-1] // self.group)
        if self.scales.shape != wanted:
            raise ValueError(f"scales have shape {self.scales.shape}; a dense shape of {shape} in groups of {self.group} needs {wanted}")

    def apply(self, numbers: npt.NDArray[np.float64], kept: npt.NDArray[np.bool_], dtype: object) -> npt.NDArray[Any]:
        """Dense numbers of codes, 0 where nothing was kept, under these scales."""

        def spread(a: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
            return np.repeat(a.astype(np.float64), self.group, axis=-1)

        scale = spread(self.scales)
        with np.errstate(all="ignore"):
            if self.zeros is not None:
                numbers = np.where(kept, numbers - spread(self.zeros), numbers)
            exact = numbers * scale
            if self.biases is not None:
                exact = np.where(kept, add_to_odd(exact, spread(self.biases)), exact)
            return round_to(exact, output_dtype(dtype))


def check_group(group: object, k: int, sparsity: Sparsity = Sparsity.TWO_OF_FOUR) -> int:
    """The group of scales as a number. Raises TypeError or ValueError unless it consists of sparse groups and divides K."""
    if isinstance(group, bool) or not isinstance(group, (int, np.integer)):
        raise TypeError(f"group is of type {type(group).__name__}; pass the number of neighbours along K that share a scale")
    if group <= 0 or group % sparsity.group:
        raise ValueError(
            f"group = {group} is not a positive multiple of the {sparsity.group} codes of a {sparsity} group; a sparse group "
            "would lie under two scales"
        )
    if k % group:
        raise ValueError(f"k = {k} is not a multiple of the {group} neighbours that share a scale; pad K, or choose a divisor of it")
    return int(group)


@dataclass(frozen=True, slots=True, eq=False)
class BlockScales:
    """The scales of a block format, and the profile by which its numbers are computed."""

    format: BlockFormat
    profile: Profile
    #: uint8 [..., K / k].
    scales: Codes
    tensor_scale: TensorScale | None = None

    def check(self, shape: tuple[int, ...], sparsity: Sparsity) -> None:
        """Raise ValueError where the blocks do not suit a dense shape."""
        check_group(self.format.k, shape[-1], sparsity)
        wanted = (*shape[:-1], shape[-1] // self.format.k)
        if self.scales.shape != wanted:
            raise ValueError(f"scales have shape {self.scales.shape}; {self.format.name} of shape {shape} needs {wanted}")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SparseTensor:
    """A matrix of which two of four items (or two of four pairs) are kept along the last axis.

    Of the items that were dropped each counts as a zero under its group's scale: what `dequantize` gives for codes, block
    formats and scaled groups is what it gives for the dense codes with zeros in their places. Affine codes have no such code;
    the number of a dropped one is zero all the same, never a bias.
    Two are compared by `same_numbers`: several metadata stand for the same matrix.
    """

    #: Codes (uint8, one to a byte) or numbers [..., K / 2], in the order of their positions.
    kept: npt.NDArray[Any]
    #: uint8 nibbles [..., K / 4], of pairs [..., K / 8], one to a byte.
    metadata: Codes
    #: What the items are: `int4`, an element format, or `float32`, `float16`, `bfloat16`. Affine codes of up to 8 bits: `uint8`.
    kind: str
    sparsity: Sparsity = Sparsity.TWO_OF_FOUR
    #: None: codes and numbers count as they are.
    scales: GroupScales | BlockScales | None = None

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "sparsity", get_sparsity(self.sparsity))
        keep(self, "kind", str(self.kind))
        keep(self, "metadata", as_array(self.metadata, name="metadata"))
        check_metadata(self.metadata)
        keep(self, "kept", _check_items(self.kept, self.kind))
        check_fit(self.kept, self.metadata, self.sparsity)
        if isinstance(self.scales, BlockScales):
            if self.scales.format.element.name != self.kind:
                raise ValueError(f"kind is {self.kind}; the elements of {self.scales.format.name} are {self.scales.format.element.name}")
            check_codes(self.scales.scales, self.scales.format.scale, name="scales")
        elif self.scales is not None and not isinstance(self.scales, GroupScales):
            raise TypeError(f"scales are a {type(self.scales).__name__}; pass GroupScales(group, scales), BlockScales or None")
        if self.scales is not None:
            if self.kind in FLOATS:
                raise ValueError(f"kind is {self.kind}: plain numbers have no scales")
            self.scales.check(self.shape, self.sparsity)
        elif self.kind == UINT8:
            raise ValueError("kind is uint8: affine codes mean nothing without GroupScales")

    @classmethod
    def from_dense(
        cls, items: npt.ArrayLike, kind: str = "e2m1", *, sparsity: str | Sparsity = Sparsity.TWO_OF_FOUR,
        scales: GroupScales | BlockScales | None = None, rule: str | PruneRule = "lower",
    ) -> SparseTensor:  # fmt: skip
        """Prune dense codes or numbers [..., K] by their magnitudes, and keep what a rule of pruning keeps.

        Affine codes (`uint8`) are weighed by their numbers under their scales.
        Raises TypeError or ValueError as `choose_kept` and the scales' checks.
        """
        pattern, array = get_sparsity(sparsity), _check_items(items, kind)
        if kind == UINT8:
            if not isinstance(scales, GroupScales):
                raise ValueError("kind is uint8: affine codes mean nothing without GroupScales")
            scales.check(array.shape, pattern)
            numbers = scales.apply(array.astype(np.float64), np.ones(array.shape, np.bool_), np.float32)
            nibbles = choose_kept(numbers, kind="float32", sparsity=pattern, rule=rule)
        else:
            nibbles = choose_kept(array, kind=kind, sparsity=pattern, rule=rule)
        return cls(gather(array, nibbles, pattern), nibbles, kind, pattern, scales)

    @classmethod
    def from_blocks(
        cls, tensor: BlockTensor, *, sparsity: str | Sparsity = Sparsity.TWO_OF_FOUR, rule: str | PruneRule = "lower"
    ) -> SparseTensor:
        """Prune the codes of a quantized tensor, whose scales stay as they are.

        Raises ValueError where its blocks do not lie along the last axis, or pad it.
        """
        if not isinstance(tensor, BlockTensor):
            raise TypeError(f"tensor is of type {type(tensor).__name__}; pass a BlockTensor, as mxspec.quantize returns it")
        if tensor.axis != tensor.codes.ndim - 1 or tensor.shape != tensor.codes.shape:
            raise ValueError(
                f"blocks lie along axis {tensor.axis} of shape {tensor.shape} (stored: {tensor.codes.shape}); a sparse tensor's "
                "lie along the last one, unpadded"
            )
        scales = BlockScales(tensor.format, tensor.profile, tensor.scales, tensor.tensor_scale)
        return cls.from_dense(tensor.codes, tensor.format.element.name, sparsity=sparsity, scales=scales, rule=rule)

    @classmethod
    def from_affine(cls, tensor: AffineTensor, *, rule: str | PruneRule = "lower") -> SparseTensor:
        """Prune affine integers 2:4 by their numbers; codes, scales and offsets stay as they are.

        Raises TypeError for anything else, ValueError where the groups of scales do not consist of sparse groups.
        """
        if not isinstance(tensor, AffineTensor):
            raise TypeError(f"tensor is of type {type(tensor).__name__}; pass an AffineTensor, as mxspec.affine.quantize returns it")
        scales = GroupScales(tensor.group, tensor.scales, zeros=tensor.zeros, biases=tensor.biases)
        return cls.from_dense(tensor.codes, UINT8, scales=scales, rule=rule)

    @property
    def shape(self) -> tuple[int, ...]:
        """The dense shape."""
        return (*self.kept.shape[:-1], 2 * self.kept.shape[-1])

    @property
    def k(self) -> int:
        """The dense K."""
        return self.shape[-1]

    def __repr__(self) -> str:
        of = "" if self.scales is None else f", scales of {self._group}"
        return f"<SparseTensor {self.kind} {self.sparsity}, dense shape {self.shape}{of}>"

    @property
    def _group(self) -> int:
        return self.scales.format.k if isinstance(self.scales, BlockScales) else self.scales.group if self.scales else 1

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Which dense positions are kept."""
        found: npt.NDArray[np.bool_] = scatter(np.ones(self.kept.shape, np.bool_), self.metadata, self.sparsity)
        return found

    def decompress(self) -> npt.NDArray[Any]:
        """The dense codes, or numbers, in the dense shape: 0 where nothing was kept (of affine codes that is no zero)."""
        return decompress(self.kept, self.metadata, sparsity=self.sparsity)

    def dequantize(self, dtype: object = np.float32) -> npt.NDArray[Any]:
        """The dense numbers.

        Args:
            dtype: float32, float16 or bfloat16, of NumPy (`ml_dtypes.bfloat16`) or of torch.

        Returns:
            An array of this type in the dense shape; for a dtype of torch a `torch.Tensor` on the CPU. Exact numbers rounded
            once to nearest even; those of a block format by its profile's arithmetic. A NaN scale makes its whole group NaN.
        """
        if isinstance(self.scales, BlockScales):
            given = self.scales
            values: npt.NDArray[Any] = dequantize_arrays(
                self.decompress(), given.scales, given.format, profile=given.profile, axis=len(self.shape) - 1,
                tensor_scale=given.tensor_scale, convert=False, dtype=dtype,
            )  # fmt: skip
            return values
        numbers = scatter(_numbers_of(self.kept, self.kind), self.metadata, self.sparsity)
        name = torch_dtype_name(dtype)
        plain = FLOATS.get(name, name) if name is not None else dtype
        if self.scales is None:
            found = round_to(numbers, output_dtype(plain))
        else:
            found = self.scales.apply(numbers, self.mask, plain)
        return found if name is None else to_torch(found, name)

    def same_numbers(self, other: SparseTensor) -> bool:
        """Whether two sparse tensors, or one and a dense array, hold equal numbers; -0 equals 0, NaN equals NaN."""
        mine, theirs = (t.dequantize() if isinstance(t, SparseTensor) else np.asarray(t) for t in (self, other))
        return mine.shape == theirs.shape and bool(np.array_equal(mine, theirs, equal_nan=True))


#: Unsigned codes of up to 8 bits that zero points or biases give a meaning.
UINT8 = "uint8"


def _check_items(items: npt.ArrayLike, kind: str) -> npt.NDArray[Any]:
    if kind != UINT8:
        return get_kind(kind).check(items, "kept codes")
    array = as_array(items, name="kept codes")
    if array.dtype != np.uint8:
        raise TypeError(f"kept codes are {array.dtype}; pass uint8, one code to a byte")
    return array


def _numbers_of(items: npt.NDArray[Any], kind: str) -> npt.NDArray[np.float64]:
    """The numbers that codes mean before scaling, exactly."""
    if kind == Nibble.INT4:
        return np.where(items > 7, items.astype(np.float64) - 16, items)
    read: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = (lambda a: decode(a, ELEMENTS[kind])) if kind in ELEMENTS else np.asarray
    return read(items).astype(np.float64)
