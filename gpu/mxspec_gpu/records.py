"""ggml's records on the GPU: MXFP4 (17 bytes for 32 values) and NVFP4 (36 bytes for 64) to values and packed codes, and back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mxspec.containers import gguf
from mxspec.containers.header import Tensor, read_at
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_gpu import product_kernels
from mxspec_gpu.api import check_packed, check_values_output, quantize
from mxspec_gpu.arguments import check_apart, check_float_name, check_format
from mxspec_gpu.arrays import OnDevice, View, copy_contiguous, current_stream, empty_array, upload_array, view_array, view_output
from mxspec_gpu.launch import POINTER, U32, U64, get_kernel

#: Format -> bytes and elements of a record.
RECORDS = {"mxfp4": (17, 32), "nvfp4": (36, 64)}
#: ggml's name of a type -> format.
_GGML = {"MXFP4": "mxfp4", "NVFP4": "nvfp4"}
_DEQUANTIZE = POINTER * 2 + U64 + U32
_MOVE = POINTER * 3 + U64 + U32


def _check_format(fmt: Any) -> BlockFormat:
    block = check_format(fmt)
    if block.name not in RECORDS:
        raise ValueError(f"fmt = {block.name!r} has no records here; allowed are {', '.join(RECORDS)}")
    return block


def _take_records(records: Any, block: BlockFormat) -> tuple[View, tuple[int, ...], int]:
    """The records, contiguous and aligned; the shape of their values; how many there are."""
    view = view_array(records, "records")
    size, elements = RECORDS[block.name]
    if view.dtype != "uint8":
        raise TypeError(f"records have dtype {view.dtype}; pass uint8 [..., {size} bytes for {elements} values]")
    if not view.shape or view.shape[-1] % size:
        raise ValueError(
            f"records have shape {view.shape}; the last axis of {block.name} is a multiple of {size} bytes, {elements} values each"
        )
    _check_count(view.size // size)
    held = view if view.contiguous and view.pointer % 16 == 0 else copy_contiguous(view)
    return held, (*view.shape[:-1], view.shape[-1] // size * elements), view.size // size


def _check_count(count: int) -> None:
    if count >= 1 << 28:
        raise ValueError(f"{count} records; fewer than 2**28 are done at once; pass parts")


def _grid(count: int, block: BlockFormat) -> tuple[int, int]:
    return -(-count * RECORDS[block.name][1] // product_kernels.RECORDS_ELEMENTS), 1


def dequantize_records(records: Any, fmt: str | BlockFormat, *, dtype: str = "bfloat16", out: Any = None) -> Any:
    """The values of ggml's records: codes times block scales, as `dequantize` gives them; the scale FF (7F) is NaN.

    records: uint8 [..., bytes], as in a GGUF file. fmt: mxfp4 or nvfp4. Returns [..., K] of `dtype` in the caller's library.
    out: contiguous, 16-byte aligned. NVFP4's tensor scale is a tensor of its own in a file: multiply by it (see `read_gguf`).
    Raises TypeError and ValueError that say what was given, what is allowed and what to do.
    """
    block = _check_format(fmt)
    check_float_name(dtype)
    held, shape, count = _take_records(records, block)
    if out is None:
        out = empty_array(shape, dtype, held.library, held.device)
    target = view_output(out)
    check_values_output(target, dtype, shape, held.device)
    check_apart([("out", *target.range)], [("records", *held.range)])
    if count:
        source = product_kernels.records_kernel(product_kernels.records_rules(block.name), "dequantize_records", dtype)
        kernel = get_kernel(source, _DEQUANTIZE, held.device)
        stream = current_stream(held.library, held.device)
        with OnDevice(held.device):
            kernel.launch(_grid(count, block), 256, stream, held.pointer, target.pointer, held.size, target.size // 8)
    return out


def unpack_records(records: Any, fmt: str | BlockFormat) -> tuple[Any, Any]:
    """Packed codes uint8 [..., K / 2] and scales uint8 [..., K / k] of ggml's records, as all other functions take them.

    Raises TypeError and ValueError that say what was given, what is allowed and what to do.
    """
    block = _check_format(fmt)
    held, shape, count = _take_records(records, block)
    codes = empty_array((*shape[:-1], shape[-1] // 2), "uint8", held.library, held.device)
    scales = empty_array((*shape[:-1], shape[-1] // block.k), "uint8", held.library, held.device)
    if count:
        source = product_kernels.records_kernel(product_kernels.records_rules(block.name), "unpack_records")
        kernel = get_kernel(source, _MOVE, held.device)
        stream = current_stream(held.library, held.device)
        with OnDevice(held.device):
            kernel.launch(
                _grid(count, block), 256, stream, held.pointer, view_array(codes).pointer, view_array(scales).pointer, held.size,
                count * RECORDS[block.name][1] // 32,
            )  # fmt: skip
    return codes, scales


def pack_records(codes: Any, scales: Any, fmt: str | BlockFormat) -> Any:
    """ggml's records, uint8 [..., bytes], of packed codes uint8 [..., K / 2] and scales uint8 [..., K / k]; the inverse of
    `unpack_records`.

    Raises TypeError and ValueError that say what was given, what is allowed and what to do.
    """
    block = _check_format(fmt)
    view, scale_view = check_packed(codes, scales, block, "row-major")
    size, elements = RECORDS[block.name]
    if view.shape[-1] * 2 % elements:
        raise ValueError(
            f"codes have shape {view.shape}, {view.shape[-1] * 2} in a row; a record of {block.name} holds {elements}: pad the last axis"
        )
    count = view.size * 2 // elements
    _check_count(count)
    if not view.contiguous or view.pointer % 16:
        view = copy_contiguous(view)
    records = empty_array((*view.shape[:-1], view.shape[-1] * 2 // elements * size), "uint8", view.library, view.device)
    if count:
        source = product_kernels.records_kernel(product_kernels.records_rules(block.name), "pack_records")
        kernel = get_kernel(source, _MOVE, view.device)
        stream = current_stream(view.library, view.device)
        with OnDevice(view.device):
            kernel.launch(
                _grid(count, block), 256, stream, view.pointer, scale_view.pointer, view_array(records).pointer, count * size, count
            )
    return records


def quantize_records(x: Any, fmt: str | BlockFormat, *, profile: str | Profile | None = None) -> Any:
    """x as ggml's records, uint8 [..., bytes], by a profile that the kernels have (ggml's own rounding is not among them).

    x: float32, float16 or bfloat16 [..., K], K a multiple of 32 (mxfp4) or 64 (nvfp4).
    Raises as `quantize` does.
    """
    block = _check_format(fmt)
    q = quantize(x, block, profile=profile)
    return pack_records(q.codes, q.scales, block)


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A block-scaled tensor of a GGUF file, on the GPU."""

    name: str
    format: str
    #: uint8 [..., bytes].
    records: Any
    #: Of NVFP4 the tensor scale that multiplies, where the file has one.
    tensor_scale: float | None = None

    def dequantize(self, dtype: str = "bfloat16") -> Any:
        """Codes times block scales; without the tensor scale, which ggml applies to the product."""
        return dequantize_records(self.records, self.format, dtype=dtype)

    def unpack(self) -> tuple[Any, Any]:
        """Packed codes and scales."""
        return unpack_records(self.records, self.format)


def read_gguf(path: str | Path, name: str, *, library: str = "cupy", device: int = 0) -> GgufTensor:
    """A tensor of a GGUF file in the GPU's memory, as the file has it: MXFP4 or NVFP4.

    library: "cupy" or "torch", of the arrays.
    Raises ContainerError for a file that is no GGUF, KeyError for a name that it has not, ValueError for other types.
    """
    if library not in ("cupy", "torch"):
        raise ValueError(f"library = {library!r}; allowed are cupy, torch")
    tensors = {t.name: t for t in gguf.read_header(Path(path)).tensors}
    if name not in tensors:
        some = ", ".join(list(tensors)[:8])
        raise KeyError(f"{path} has no tensor {name!r}; it has {len(tensors)}, such as {some}")
    found = tensors[name]
    if found.dtype not in _GGML:
        raise ValueError(f"{name} is of type {found.dtype}; read_gguf takes {', '.join(_GGML)}")
    fmt = _GGML[found.dtype]
    size, elements = RECORDS[fmt]
    shape = (*found.shape[:-1], found.shape[-1] // elements * size)
    data = np.frombuffer(read_at(found, 0, found.size), np.uint8).reshape(shape)
    scale = tensors.get(f"{name.removesuffix('.weight')}.scale")
    return GgufTensor(name, fmt, upload_array(data, library, device), None if scale is None else _read_scale(scale))


def _read_scale(tensor: Tensor) -> float:
    if tensor.dtype != "F32" or tensor.size != 4:
        raise ValueError(f"{tensor.name} is {tensor.dtype} of shape {tensor.shape}; a tensor scale is one F32")
    return float(np.frombuffer(read_at(tensor, 0, 4), "<f4")[0])
