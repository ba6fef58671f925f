"""Codes as 32-bit words: code k of a row has bits `bits * k` and up of the row, lowest first.

For 4 bits these are the documents' words (code i of eight at bit 4 i), for all sizes MLX's: 3- and 6-bit codes cross the
edges of words. Source: MLX 0.32.4 `mx.quantize`, measured; tiny-llm, "Storage Format".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint8]


def pack_words(codes: npt.ArrayLike, bits: int) -> npt.NDArray[np.uint32]:
    """uint32 words [..., k * bits / 32] of codes uint8 [..., k].

    Raises TypeError for another dtype, ValueError for codes of more bits, and where a row does not fill its last word.
    """
    array = np.asarray(codes)
    if array.dtype != np.uint8:
        raise TypeError(f"codes are {array.dtype}; pass uint8, one code in the low {bits} bits of each")
    if array.ndim == 0 or array.shape[-1] * bits % 32:
        k = array.shape[-1] if array.ndim else 0
        raise ValueError(f"k = {k} codes of {bits} bits do not fill whole 32-bit words; k * bits has to be a multiple of 32")
    if array.size and int(array.max()) >> bits:
        raise ValueError(f"codes hold {int(array.max())}; {bits} bits allow 0 to {(1 << bits) - 1}")
    each = np.unpackbits(array[..., None], axis=-1, count=bits, bitorder="little")
    data = np.packbits(each.reshape(*array.shape[:-1], -1), axis=-1, bitorder="little")
    return np.ascontiguousarray(data).view("<u4").astype(np.uint32, copy=False)


def unpack_words(words: npt.ArrayLike, bits: int) -> Codes:
    """Codes uint8 [..., k] of words uint32 [..., k * bits / 32].

    Raises TypeError for another dtype, and ValueError where a row does not end with a whole code.
    """
    array = np.asarray(words)
    if array.dtype not in (np.uint32, np.int32):
        raise TypeError(f"words are {array.dtype}; pass uint32")
    if array.ndim == 0 or array.shape[-1] * 32 % bits:
        n = array.shape[-1] if array.ndim else 0
        raise ValueError(f"{n} words of 32 bits do not hold a whole number of {bits}-bit codes")
    data = np.ascontiguousarray(array.astype("<u4")).view(np.uint8)
    each = np.unpackbits(data, axis=-1, bitorder="little")
    codes = np.packbits(each.reshape(*array.shape[:-1], -1, bits), axis=-1, bitorder="little")
    return np.ascontiguousarray(codes[..., 0])
