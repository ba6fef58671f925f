"""LightX2V's NVFP4 linear layer: quantized weights, the scale of its inputs by calibration, alpha of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from mxspec import containers, layouts
from mxspec.blocks import BlockTensor
from mxspec.calibration import RunningAmax
from mxspec.containers.checkpoint import open_checkpoint, read_scales
from mxspec.containers.header import read_at
from mxspec.containers.plain import PLAIN_DTYPES
from mxspec.containers.scalars import alpha_bits, convert_bits, is_usable
from mxspec.inputs import as_array
from mxspec.lightx2v import facts, operators
from mxspec.profiles.schema import TensorScaleKind
from mxspec.tensorscale import TensorScale

if TYPE_CHECKING:
    from typing import Self

_FMT = facts.NVFP4


@dataclass(frozen=True, slots=True)
class Operators:
    """What the layer does with arrays, of one library."""

    #: (x, global scale) -> codes and scales.
    quantize: Callable[[Any, TensorScale], tuple[Any, Any]]
    #: (codes of x, codes of the weight, their scales, alpha, bias) -> the product.
    multiply: Callable[..., Any]
    #: (x) -> its largest magnitude.
    observe: Callable[[Any], RunningAmax]
    #: (array) -> it as a NumPy array.
    to_host: Callable[[Any], npt.NDArray[Any]]
    #: (NumPy array) -> it in this library.
    from_host: Callable[[npt.NDArray[Any]], Any]


ON_HOST = Operators(
    quantize=operators.scaled_nvfp4_quant,
    multiply=operators.cutlass_scaled_nvfp4_mm,
    observe=lambda x: RunningAmax().update(x),
    to_host=as_array,
    from_host=lambda x: x,
)


def _derive_scale(seen: RunningAmax, what: str) -> TensorScale:
    """2688 / amax, as the library divides.

    Raises ValueError where that is no scale.
    """
    if seen.has_nan:
        raise ValueError(f"{what} hold a NaN, so they have no largest magnitude; take it out first")
    scale = seen.tensor_scale(_FMT.format, _FMT.profile)
    if not is_usable(scale.bits):
        raise ValueError(
            f"the largest magnitude of {what} is {seen.value!r}, and 2688 divided by it is {scale.value!r}, which is no scale; pass numbers "
            "that are not all zero, finite and not tiny"
        )
    return scale


class MMWeightNvfp4:
    """x times quantized weights, as the library's class of this name computes it: `apply` is alpha x W^T + bias.

    The weight is quantized with its own global scale, 2688 / max(abs(weight)). (The library's notes on conversion show the scale of
    the inputs there; what is decoded then is wrong by the quotient of the two, and `mxspec lint` tells it as `global/range`.)

    >>> import ml_dtypes, numpy as np
    >>> from mxspec.lightx2v import MMWeightNvfp4
    >>> draw = np.random.default_rng(1)
    >>> mm = MMWeightNvfp4(draw.standard_normal((32, 64)).astype(ml_dtypes.bfloat16))
    >>> x = draw.standard_normal((3, 64)).astype(ml_dtypes.bfloat16)
    >>> mm.calibrate_x_absmax(x)
    >>> mm.apply(x).shape
    (3, 32)
    """

    operators: ClassVar[Operators] = ON_HOST

    #: Codes uint8 [n, k / 2] and scales float8_e4m3fn in tiles, of the operators' library.
    weight: Any
    weight_scale: Any
    #: Of kind encode: what the weight was multiplied by.
    weight_global_scale: TensorScale
    #: bfloat16 [n], or None.
    bias: Any
    #: What calibration saw.
    seen: RunningAmax
    #: Of kind encode, and 1 / (input_global_scale x weight_global_scale) in float32; None before calibration.
    input_global_scale: TensorScale | None
    alpha: np.float32 | None

    def __init__(self, weight: Any, bias: Any = None) -> None:
        """Quantize a weight.

        Args:
            weight: float16 or bfloat16 [n, k], n and k multiples of 32.
            bias: bfloat16 (n,) or (1, n).

        Raises:
            TypeError: Another dtype.
            ValueError: A weight that holds a NaN or is all zeros, or another shape.
        """
        own = _derive_scale(self.operators.observe(weight), "the weights")
        self._keep(*self.operators.quantize(weight, own), own, bias)

    def _keep(self, codes: Any, scales: Any, own: TensorScale, bias: Any) -> None:
        n, width = codes.shape
        product = facts.NVFP4_MM
        if n % product.n or 2 * width % product.k:
            raise ValueError(
                f"the weights have shape {(n, 2 * width)}; {product.name} takes multiples of {product.n} and {product.k}: pad with zeros"
            )
        if bias is not None and tuple(bias.shape) not in ((n,), (1, n)):
            raise ValueError(f"bias has shape {tuple(bias.shape)}; pass one number for each row of the weights: {(n,)}")
        self.weight, self.weight_scale, self.weight_global_scale = codes, scales, own
        self.bias = None if bias is None else bias.reshape(-1)
        self.seen = RunningAmax()
        self.input_global_scale = self.alpha = None

    def calibrate_x_absmax(self, *batches: Any) -> None:
        """See batches of inputs, in addition to those seen before, and take scale and alpha for their largest magnitude.

        Args:
            batches: Arrays as `apply` takes them, of any shape; or `RunningAmax`, of another process say. `numpy.float32([5.0])` is a
                batch whose largest magnitude is 5 (on the GPU pass `RunningAmax().update(...)` of it).

        Raises:
            ValueError: A batch holds a NaN, or all numbers seen are zero.
        """
        seen = self.seen
        for batch in batches:
            seen = seen.merge(batch if isinstance(batch, RunningAmax) else self.operators.observe(batch))
        scale = _derive_scale(seen, "the inputs")
        self.seen = seen
        self._take_input(scale)

    def _take_input(self, scale: TensorScale) -> None:
        self.input_global_scale = scale
        self.alpha = np.uint32(alpha_bits(scale.bits, self.weight_global_scale.bits)).view(np.float32)

    def act_quant_nvfp4(self, x: Any) -> tuple[Any, Any]:
        """Codes and scales of inputs [m, k], by the calibrated scale; larger inputs than calibration saw saturate.

        Raises ValueError before calibration.
        """
        if self.input_global_scale is None:
            raise ValueError("no inputs were seen, so they have no scale; call calibrate_x_absmax with some first")
        return self.operators.quantize(x, self.input_global_scale)

    def apply(self, x: Any) -> Any:
        """bfloat16 [m, n]: inputs [m, k] quantized, times the weight, plus bias.

        Raises ValueError before calibration, and what the operators raise.
        """
        codes, scales = self.act_quant_nvfp4(x)
        return self.operators.multiply(codes, self.weight, scales, self.weight_scale, alpha=self.alpha, bias=self.bias)

    def as_tensor(self) -> BlockTensor:
        """The quantized weight as a BlockTensor, in memory of the CPU."""
        codes = self.operators.to_host(self.weight)
        plain = operators.unpack_side(_FMT, codes, self.operators.to_host(self.weight_scale), 2 * codes.shape[1])
        return BlockTensor.from_codes(*plain, _FMT.format, profile=_FMT.profile, tensor_scale=self.weight_global_scale)

    @classmethod
    def from_tensor(cls, tensor: BlockTensor, bias: Any = None, input_scale: TensorScale | None = None) -> Self:
        """The layer of weights that are quantized already.

        Args:
            tensor: nvfp4, blocks along the last of two axes; a tensor scale of another kind is converted to kind encode.
            bias: bfloat16 [n], of the operators' library.
            input_scale: The scale of the inputs, of any kind; None: calibrate before use.

        Raises:
            ValueError: Another format or shape.
        """
        if tensor.format.name != _FMT.format.name or len(tensor.shape) != 2 or tensor.axis != 1 or tensor.tensor_scale is None:
            raise ValueError(f"{tensor!r} is no nvfp4 matrix with blocks along its rows and a tensor scale; quantize the weight to one")
        layer = cls.__new__(cls)
        own = TensorScale("encode", convert_bits(tensor.tensor_scale.bits, tensor.tensor_scale.kind, TensorScaleKind.ENCODE))
        n, k = tensor.shape
        tiles = layouts.pack(tensor.scales, "128x4-zeroed").reshape(_FMT.shape_scales(n, k))
        layer._keep(
            cls.operators.from_host(layouts.pack(tensor.codes, _FMT.layout).reshape(n, -1)),
            cls.operators.from_host(tiles.view(operators.SCALE_DTYPES[_FMT.scale_dtype])), own, bias,
        )  # fmt: skip
        if input_scale is not None:
            amax = TensorScaleKind.AMAX
            if input_scale.kind is amax:
                layer.seen = RunningAmax(bits=input_scale.bits, count=1)
                layer._take_input(_derive_scale(layer.seen, "the inputs"))
            else:
                layer._take_input(TensorScale("encode", convert_bits(input_scale.bits, input_scale.kind, TensorScaleKind.ENCODE)))
        return layer

    def save(self, path: str | Path, name: str = "linear", *, force: bool = False) -> None:
        """Write a safetensors file of the convention `lightx2v`.

        It holds NAME.weight, .weight_scale, .weight_global_scale, after calibration .input_absmax (where only the scale is known:
        .input_global_scale and .alpha), and .bias where there is one. `mxspec lint` reads it, `mxspec convert` makes others of it.

        Raises ContainerError where the file exists (without `force`) or cannot be written.
        """
        given = None
        if self.seen.count:
            given = TensorScale("amax", self.seen.bits)
        elif self.input_global_scale is not None:
            given = self.input_global_scale
        containers.write(
            path, {name: self.as_tensor()}, "lightx2v", input_scales={} if given is None else {name: given},
            others={} if self.bias is None else {f"{name}.bias": self.operators.to_host(self.bias)}, force=force,
        )  # fmt: skip

    @classmethod
    def load(cls, path: str | Path, name: str = "linear") -> Self:
        """The layer of a file or checkpoint of any convention that stores nvfp4.

        Raises ContainerError for a damaged file, a name that is not in it, or an alpha that is not that of the two scales.
        """
        checkpoint = open_checkpoint(path, formats=(_FMT.format.name,))
        tensor = checkpoint.read(name)
        scales = read_scales(checkpoint.blocks[name])
        inputs = None if scales.inputs is None else TensorScale(scales.inputs[0], scales.inputs[1][0])
        bias = None
        stored = checkpoint.tensors.get(f"{name}.bias")
        if stored is not None:
            if stored.dtype != "BF16":
                raise containers.ContainerError(f"{stored.path}: {stored.name} is {stored.dtype}; the kernels read BF16")
            numbers = np.frombuffer(read_at(stored, 0, stored.size), PLAIN_DTYPES["BF16"])
            bias = cls.operators.from_host(numbers.reshape(stored.shape))
        layer = cls.from_tensor(tensor, bias, inputs)
        if scales.alpha is not None and (layer.alpha is None or scales.alpha != (int(layer.alpha.view(np.uint32)),)):
            raise containers.ContainerError(
                f"{path}: {name}.alpha is not 1 / (input_global_scale x weight_global_scale) in float32; compute it anew"
            )
        return layer
