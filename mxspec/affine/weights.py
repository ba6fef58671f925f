"""Weights as the documents store them: words, scales, biases, group size and bits."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.affine.contracts import AffineContract
from mxspec.affine.formats import AffineFormat, Offset
from mxspec.affine.products import Order, quantized_matmul
from mxspec.affine.tensor import AffineTensor, quantize
from mxspec.affine.words import pack_words, unpack_words
from mxspec.formats import FLOATS
from mxspec.inputs import as_array

Values = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedWeights:
    """A weight matrix [K, N] with groups along N; the fields are those of the tiny-llm course, and of MLX.

    Raises TypeError and ValueError, with what is allowed, for fields that do not fit each other.
    """

    #: uint32 [K, N * bits / 32]; for 4 bits [K, N / 8], the first code in the lowest bits.
    weight: npt.NDArray[np.uint32]
    #: float16, bfloat16 or float32 [K, N / group_size].
    scales: Values
    #: The same shape and dtype.
    biases: Values
    group_size: int = 64
    bits: int = 4

    def __post_init__(self) -> None:
        AffineFormat(bits=self.bits, group=self.group_size)
        if self.weight.dtype != np.uint32:
            raise TypeError(f"weight is {self.weight.dtype}; pass uint32 words, {32 // self.bits} codes of {self.bits} bits in each")
        for array, what in ((self.scales, "scales"), (self.biases, "biases")):
            if array.dtype.name not in FLOATS:
                raise TypeError(
                    f"{what} are {array.dtype}; pass float16, bfloat16 or float32. Bits in an integer array do not say which "
                    "16-bit float they are: view them as the dtype that they were written in"
                )
        if self.scales.dtype != self.biases.dtype:
            raise TypeError(
                f"scales are {self.scales.dtype}, biases {self.biases.dtype}; convert one of them (astype), so that both are the same"
            )
        if self.weight.ndim != 2:
            raise ValueError(f"weight has shape {self.weight.shape}; pass [K, N * {self.bits} / 32]")
        rows, words = self.weight.shape
        if words * 32 % self.bits:
            raise ValueError(f"{words} words of a row do not hold a whole number of {self.bits}-bit codes")
        columns = words * 32 // self.bits
        wanted = (rows, self.format.groups(columns))
        for array, what in ((self.scales, "scales"), (self.biases, "biases")):
            if array.shape != wanted:
                raise ValueError(
                    f"{what} have shape {array.shape}; weight {self.weight.shape} holds {rows} x {columns} codes of {self.bits} bits, "
                    f"which in groups of {self.group_size} need {wanted}"
                )

    @property
    def format(self) -> AffineFormat:
        """The affine format."""
        return AffineFormat(bits=self.bits, group=self.group_size, offset=Offset.BIAS, dtype=self.scales.dtype.name)

    @property
    def shape(self) -> tuple[int, int]:
        """[K, N] of the matrix."""
        return self.weight.shape[0], self.weight.shape[1] * 32 // self.bits

    @property
    def tensor(self) -> AffineTensor:
        """The same with one code in a byte."""
        return AffineTensor(format=self.format, codes=unpack_words(self.weight, self.bits), scales=self.scales, offsets=self.biases)

    def dequantize(self, dtype: object = "float32", *, contract: str | AffineContract = "exact") -> Values:
        """The matrix [K, N]; as `AffineTensor.dequantize`."""
        return self.tensor.dequantize(dtype, contract=contract)

    @staticmethod
    def from_tensor(tensor: AffineTensor) -> QuantizedWeights:
        """Of an affine tensor [K, N] with biases.

        Raises ValueError for zero points, and where a row does not fill its last word.
        """
        if tensor.biases is None:
            raise ValueError(f"{tensor.format.name} has zero points; QuantizedWeights hold biases (b = -z * s, where that is exact)")
        words = pack_words(tensor.codes, tensor.bits)
        return QuantizedWeights(words, tensor.scales, tensor.biases, tensor.group, tensor.bits)

    @staticmethod
    def from_dense(w: npt.ArrayLike, *, group_size: int = 64, bits: int = 4, profile: str | None = None) -> QuantizedWeights:
        """Quantize a matrix [K, N]; as `mxspec.affine.quantize`, with biases."""
        return QuantizedWeights.from_tensor(quantize(w, bits=bits, group=group_size, profile=profile, offset=Offset.BIAS))

    @staticmethod
    def from_mlx_layer(layer: Any) -> QuantizedWeights:
        """Of `mlx.nn.QuantizedLinear`, or any object with `weight`, `scales`, `biases`, `group_size` and `bits`.

        Scales and biases keep their dtype, which MLX's checkpoints have in bfloat16: nothing is converted.
        Raises ValueError for a layer in another mode than affine.
        """
        mode = getattr(layer, "mode", "affine")
        if mode != "affine":
            raise ValueError(f"the layer is quantized in mode {mode!r}; QuantizedWeights are affine. Read it with mxspec.dequantize")
        weight, scales, biases = (_from_mlx(getattr(layer, name), name) for name in ("weight", "scales", "biases"))
        return QuantizedWeights(weight, scales, biases, int(layer.group_size), int(layer.bits))


def _from_mlx(array: Any, name: str) -> Values:
    core: Any = sys.modules.get("mlx.core")
    if core is not None and isinstance(array, core.array) and array.dtype == core.bfloat16:
        return np.array(array.view(core.uint16)).view(ml_dtypes.bfloat16)
    return as_array(array, name=name)


def quantized_linear(
    x: npt.ArrayLike,
    w: QuantizedWeights,
    bias: npt.ArrayLike | None = None,
    *,
    contract: str | AffineContract = "float32",
    accumulate: object = "float32",
    order: str | Order = Order.SEQUENTIAL,
    out: object = None,
) -> Values:
    """x W^T, plus a bias in the result's dtype, as the course's `linear`: [..., K] of x [..., N]; see `quantized_matmul`.

    The bias is added to the result, in float32, and the sum is rounded to the result's dtype.
    """
    product = quantized_matmul(x, w.tensor, contract=contract, accumulate=accumulate, order=order, out=out)
    if bias is None:
        return product
    added = as_array(bias, name="bias")
    if added.shape != (w.shape[0],):
        raise ValueError(f"bias has shape {added.shape}; weights {w.shape} need ({w.shape[0]},)")
    with np.errstate(over="ignore", invalid="ignore"):
        total: Values = product.astype(np.float32) + added.astype(np.float32)
    return total.astype(product.dtype)
