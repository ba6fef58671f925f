"""Conversions that several adapters share: arrays to tensors, packed codes to one code a byte, values to their codes; what they refuse alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec_conformance.targets.dtypes import SCALAR_TYPES

Bytes = npt.NDArray[np.uint8]


def to_torch(x: Any, device: str = "cpu") -> Any:
    """An array as a contiguous torch tensor of the same bits, on a device; tensors are taken as well."""
    import torch

    if isinstance(x, torch.Tensor):
        return x.to(device).contiguous()
    array = np.require(x, requirements=["C", "W"])
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16).to(device)
    if array.dtype.name.startswith("float8"):
        return torch.from_numpy(array.view(np.uint8)).view(getattr(torch, array.dtype.name)).to(device)
    return torch.from_numpy(array).to(device)


def from_torch(x: Any) -> npt.NDArray[Any]:
    """A tensor of any device, of floats or of codes, as an array of the same bits."""
    import torch

    tensor = x.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16:
        bits: npt.NDArray[Any] = tensor.view(torch.uint16).numpy()
        return bits.view(ml_dtypes.bfloat16)
    found: npt.NDArray[Any] = tensor.numpy()
    return found


def unpack_nibbles(packed: npt.NDArray[Any]) -> Bytes:
    """Bytes [..., n] of two codes each, the low nibble first, as codes [..., 2n]."""
    data = np.ascontiguousarray(packed).view(np.uint8)
    return np.stack([data & 0x0F, data >> 4], axis=-1).reshape(*data.shape[:-1], -1)


def pack_nibbles(codes: npt.NDArray[Any]) -> Bytes:
    """The inverse of `unpack_nibbles`."""
    data = np.ascontiguousarray(codes)
    packed: Bytes = data[..., 0::2] | (data[..., 1::2] << 4)
    return packed


def unpack_six_bits(packed: npt.NDArray[Any]) -> Bytes:
    """Bytes [..., 3n] that hold four 6-bit codes in three, little-endian, as codes [..., 4n]."""
    low, middle, high = (packed[..., i::3] for i in range(3))
    fields = [low & 63, (low >> 6) | ((middle & 15) << 2), (middle >> 4) | ((high & 3) << 4), high >> 2]
    return np.stack(fields, axis=-1).reshape(*packed.shape[:-1], -1)


def pack_six_bits(codes: npt.NDArray[Any]) -> Bytes:
    """The inverse of `unpack_six_bits`."""
    first, second, third, fourth = (codes[..., i::4] for i in range(4))
    data = [first | (second << 6), (second >> 2) | (third << 4), (third >> 4) | (fourth << 2)]
    return np.stack(data, axis=-1).reshape(*codes.shape[:-1], -1).astype(np.uint8)


def find_codes(values: npt.NDArray[np.float32], element: str) -> Bytes:
    """The codes of numbers on an element format's grid, the sign of zero kept.

    Raises ValueError for a value without a code, NaN among them.
    """
    if element == "int8":
        codes: npt.NDArray[Any] = (values * np.float32(64)).astype(np.int8)
        back = codes.astype(np.float32) / np.float32(64)
    else:
        codes = values.astype(SCALAR_TYPES[element])
        back = codes.astype(np.float32)
    if not np.array_equal(back, values):
        nan = " (NaN)" if np.isnan(values).any() else ""
        raise ValueError(f"the library returned an element value without an {element} code{nan}")
    return codes.view(np.uint8)


def refuse_tensor_scale(tensor_scale: float | None, who: str) -> None:
    """Raise NotImplementedError where a tensor scale is given; who: the library, with its verb."""
    if tensor_scale is not None:
        raise NotImplementedError(f"{who} no tensor scale")


def encode_in_pairs(encode: Callable[[Any], Any], x: npt.NDArray[Any]) -> Bytes:
    """The codes of x by a function that packs a tensor [1, n] of an even number of values."""
    flat = np.ravel(x)
    even = np.concatenate([flat, np.zeros(len(flat) % 2, flat.dtype)]).reshape(1, -1)
    return unpack_nibbles(encode(to_torch(even)).numpy()).reshape(-1)[: len(flat)].reshape(x.shape)


def decode_in_pairs(decode: Callable[[Any], Any], codes: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """The values of codes by a function that takes a tensor [1, n] of packed ones."""
    flat = np.ravel(codes)
    even = np.concatenate([flat, np.zeros(len(flat) % 2, np.uint8)]).reshape(1, -1)
    values: npt.NDArray[np.float32] = decode(to_torch(pack_nibbles(even))).numpy()
    return values.reshape(-1)[: len(flat)].reshape(codes.shape)
