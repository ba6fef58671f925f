"""The operators of LightX2V's lightx2v_kernel under their own names, on any NVIDIA GPU: quantizers, products, a linear layer.

    from mxspec_gpu.lightx2v import scaled_nvfp4_quant, cutlass_scaled_nvfp4_mm      # instead of lightx2v_kernel.gemm

Arrays are torch tensors or CuPy arrays. torch has the 8-bit floats in which the library shows scales; with CuPy, which lacks them,
scales are uint8. The bits are those of `mxspec.lightx2v`, whose docstrings say what each operator takes and refuses; products
there are the exact sums, and here only with `exact=True`.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

import mxspec
from mxspec.calibration import RunningAmax
from mxspec.inputs import as_array, to_torch
from mxspec.lightx2v import facts, operators, weights
from mxspec.lightx2v.facts import Given, Product, Quantizer
from mxspec_gpu import api, exact as oracle, products
from mxspec_gpu.arrays import OnDevice, View, view_array
from mxspec_gpu.build import import_cupy
from mxspec_gpu.finish import finish_bfloat16


def _module(library: str) -> Any:
    return import_module("torch") if library == "torch" else import_cupy()


def _bfloat16(library: str) -> Any:
    if library == "torch":
        return _module(library).bfloat16
    import ml_dtypes

    return ml_dtypes.bfloat16


def _describe(view: View, name: str) -> Given:
    return Given(name, view.shape, view.dtype)


def _take_scale(scale: Any, x: View) -> Any:
    """The global scale as `mxspec_gpu.quantize` takes it."""
    found = facts.check_global_scale(scale)
    if found is not None:
        return found
    view = view_array(scale, "input_global_scale")
    facts.check_one_float(_describe(view, "input_global_scale"))
    if view.device != x.device:
        raise ValueError(f"input_global_scale is on device {view.device} and input on device {x.device}; pass both on one")
    return scale.reshape(1)


def _show(flat: Any, shape: tuple[int, int], dtype: str, library: str) -> Any:
    """The bytes of the tiles in a type of scales."""
    bytes_ = flat.reshape(shape)
    return bytes_ if dtype == "uint8" else bytes_.view(getattr(_module(library), dtype))


def _quantize(quantizer: Quantizer, x: Any, scale: Any, scale_dtype: Any) -> tuple[Any, Any]:
    view = view_array(x, "input")
    m, n = facts.check_input(quantizer, _describe(view, "input"))
    if scale_dtype is None and view.library == "cupy":
        scale_dtype = "uint8"
    shown = facts.check_scale_dtype(quantizer, scale_dtype)
    if view.library == "cupy" and shown not in facts.SCALE_VIEWS:
        raise ValueError(f"scale_dtype = {shown!r}, which CuPy lacks; allowed with CuPy are {', '.join(facts.SCALE_VIEWS)}")
    q = api.quantize(
        x, quantizer.format.name, profile=quantizer.profile, tensor_scale=None if scale is None else _take_scale(scale, view),
        scale_layout="128x4",
    )  # fmt: skip
    return q.codes, _show(q.scales, quantizer.shape_scales(m, n), shown, view.library)


def scaled_nvfp4_quant(
    input: Any,  # noqa: A002
    input_global_scale: Any,
    *,
    ue8m0: bool = False,
    scale_dtype: str | None = None,  # the library's name
) -> tuple[Any, Any]:
    """As `mxspec.lightx2v.scaled_nvfp4_quant`; the global scale is read where it lies, and nothing waits for the GPU.

    ue8m0: registers the adjacent format `mxfp4-16` in this process, which the kernels take by its name.
    """
    if ue8m0:
        mxspec.register_adjacent(facts.NVFP4_UE8M0.format.name)
    scale = operators.NO_SCALE if input_global_scale is None else input_global_scale
    return _quantize(facts.NVFP4_UE8M0 if ue8m0 else facts.NVFP4, input, scale, scale_dtype)


def scaled_mxfp4_quant(input: Any, *, scale_dtype: str | None = None) -> tuple[Any, Any]:  # noqa: A002
    """As `mxspec.lightx2v.scaled_mxfp4_quant`."""
    return _quantize(facts.MXFP4, input, None, scale_dtype)


def scaled_mxfp6_quant(input: Any, *, scale_dtype: str | None = None) -> tuple[Any, Any]:  # noqa: A002
    """As `mxspec.lightx2v.scaled_mxfp6_quant`."""
    return _quantize(facts.MXFP6, input, None, scale_dtype)


def scaled_mxfp8_quant(input: Any, *, scale_dtype: str | None = None) -> tuple[Any, Any]:  # noqa: A002
    """As `mxspec.lightx2v.scaled_mxfp8_quant`."""
    return _quantize(facts.MXFP8, input, None, scale_dtype)


def _describe_scales(scales: Any, name: str) -> Given:
    dtype = str(scales.dtype).removeprefix("torch.") if hasattr(scales, "dtype") else type(scales).__name__
    return Given(name, tuple(getattr(scales, "shape", ())), dtype)


def _take_alpha(alpha: Any) -> Any:
    """alpha as `gemm` takes it: a number, or a float32 array [1]."""
    if isinstance(alpha, (bool, str)):
        raise TypeError(f"alpha is of type {type(alpha).__name__}; pass one float32")
    if isinstance(alpha, (int, float, np.floating)):
        return float(np.float32(alpha))
    facts.check_one_float(_describe(view_array(alpha, "alpha"), "alpha"))
    return alpha.reshape(1)


def _multiply(product: Product, mat_a: Any, mat_b: Any, scales_a: Any, scales_b: Any, alpha: Any, bias: Any, exact: bool) -> Any:
    a, b = view_array(mat_a, "a"), view_array(mat_b, "b")
    library = a.library
    facts.check_product(
        product, _describe(a, "a"), _describe(b, "b"), _describe_scales(scales_a, "scale_a"), _describe_scales(scales_b, "scale_b"),
        None if bias is None else _describe(view_array(bias, "bias"), "bias"),
    )  # fmt: skip
    uint8 = _module(library).uint8
    tiles = [s.view(uint8).reshape(-1) for s in (scales_a, scales_b)]
    factor = _take_alpha(alpha)
    added = None if bias is None else bias.reshape(-1)
    formats = product.a.format.name, product.b.format.name
    if exact:
        sides = [oracle.Operand(codes, scales, fmt, "128x4") for codes, scales, fmt in zip((mat_a, mat_b), tiles, formats, strict=True)]
        with OnDevice(a.device):
            return _finish(product, sides, factor, added, library)
    values = api.dequantize(mat_a, tiles[0], formats[0], scale_layout="128x4", dtype="bfloat16")
    return products.gemm(values, mat_b, tiles[1], formats[1], alpha=factor, bias=added, dtype="bfloat16", scale_layout="128x4")


def _finish(product: Product, sides: list[oracle.Operand], alpha: Any, bias: Any, library: str) -> Any:
    found = oracle.exact_product(*sides)
    xp = _module(library)
    double = {"dtype": xp.float64} | ({"device": found.values.device} if library == "torch" else {})
    factor = xp.asarray(alpha, **double)
    added = None if bias is None else (bias.to(xp.float64) if library == "torch" else bias.astype(xp.float64))
    result = finish_bfloat16(found.values, factor, added, xp, _bfloat16(library))
    open_ = ~found.certain
    if bool(open_.any()):
        _finish_on_host(product, sides, alpha, bias, open_, result, library)
    return result


def _finish_on_host(product: Product, sides: list[oracle.Operand], alpha: Any, bias: Any, open_: Any, result: Any, library: str) -> None:
    """Outputs whose sums float64 did not hold, one part of the product at a time."""
    places = as_array(open_)
    rows, columns = (np.flatnonzero(places.any(axis=axis)) for axis in (1, 0))
    parts = []
    for side, quantizer, kept in zip(sides, (product.a, product.b), (rows, columns), strict=True):
        codes = as_array(side.codes)
        k = codes.shape[1] * 8 // quantizer.format.element.bits
        plain, scales = operators.unpack_side(quantizer, codes, as_array(side.scales), k)
        parts.append(mxspec.dot.block_factor(plain[kept], scales[kept], quantizer.format))
    part = mxspec.dot.matmul(
        parts[0], parts[1], alpha=float(as_array(alpha).reshape(-1)[0]), bias=None if bias is None else as_array(bias)[columns],
        out_dtype="bfloat16",
    )  # fmt: skip
    whole = as_array(result).copy()
    chosen = places[np.ix_(rows, columns)]
    block = whole[np.ix_(rows, columns)]
    block[chosen] = part[chosen]
    whole[np.ix_(rows, columns)] = block
    result[...] = _from_host(whole, library)


def cutlass_scaled_nvfp4_mm(
    mat_a: Any, mat_b: Any, scales_a: Any, scales_b: Any, alpha: Any, bias: Any = None, *, exact: bool = False
) -> Any:
    """As `mxspec.lightx2v.cutlass_scaled_nvfp4_mm`: a is dequantized to bfloat16 and multiplied by `mxspec_gpu.gemm`.

    Sums are float32, as those of the library. A number that bfloat16 does not hold (only at the ends of its range) is rounded.
    exact: the exact sums, rounded once, the bits of the NumPy form: by float64, and on the CPU for outputs that it does not decide.
    """
    return _multiply(facts.NVFP4_MM, mat_a, mat_b, scales_a, scales_b, alpha, bias, exact)


def cutlass_scaled_mxfp4_mm(
    mat_a: Any, mat_b: Any, scales_a: Any, scales_b: Any, alpha: Any, bias: Any = None, *, exact: bool = False
) -> Any:
    """The same of two MXFP4 matrices."""
    return _multiply(facts.MXFP4_MM, mat_a, mat_b, scales_a, scales_b, alpha, bias, exact)


def cutlass_scaled_mxfp6_mxfp8_mm(
    mat_a: Any, mat_b: Any, scales_a: Any, scales_b: Any, alpha: Any, bias: Any = None, *, exact: bool = False
) -> Any:
    """The same of MXFP8 activations a and MXFP6 weights b."""
    return _multiply(facts.MXFP6_MXFP8_MM, mat_a, mat_b, scales_a, scales_b, alpha, bias, exact)


def cutlass_scaled_mxfp8_mm(
    mat_a: Any, mat_b: Any, scales_a: Any, scales_b: Any, alpha: Any, bias: Any = None, *, exact: bool = False
) -> Any:
    """The same of two MXFP8 matrices."""
    return _multiply(facts.MXFP8_MM, mat_a, mat_b, scales_a, scales_b, alpha, bias, exact)


def _observe(x: Any) -> RunningAmax:
    """The largest magnitude, which waits for the GPU."""
    view = view_array(x)
    if not view.size:
        return RunningAmax()
    largest = as_array(api.tensor_scale(x, "nvfp4", "nvfp4-te"))
    if np.isnan(largest[0]):
        return RunningAmax(0, True, view.size)
    return RunningAmax(int(largest.view(np.uint32)[0]), False, view.size)


def _from_host(x: Any, library: str) -> Any:
    if library == "torch":
        _module(library)
        return to_torch(np.array(x), x.dtype.name).cuda()
    cupy = import_cupy()
    return cupy.asarray(x.view(np.uint8) if x.dtype.name.startswith("float8") else x)


def _operators(library: str) -> weights.Operators:
    return weights.Operators(
        quantize=scaled_nvfp4_quant, multiply=cutlass_scaled_nvfp4_mm, observe=_observe, to_host=as_array,
        from_host=partial(_from_host, library=library),
    )  # fmt: skip


class MMWeightNvfp4(weights.MMWeightNvfp4):
    """As `mxspec.lightx2v.MMWeightNvfp4`, on torch tensors on the GPU; the global scales travel in the launches."""

    operators: ClassVar[weights.Operators] = _operators("torch")


class MMWeightNvfp4OnCupy(weights.MMWeightNvfp4):
    """The same on CuPy arrays."""

    operators: ClassVar[weights.Operators] = _operators("cupy")
