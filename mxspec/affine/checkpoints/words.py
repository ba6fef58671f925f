"""Words of `mxspec.affine.words`, for whole checkpoints: sizes of codes that no byte's edge cuts are joined by shifts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mxspec.affine import words

Codes = npt.NDArray[np.uint8]
#: Sizes of codes that no byte's edge cuts.
_WITHIN = (1, 2, 4, 8)


def _join(codes: Codes, bits: int) -> Codes:
    """Bytes [..., k * bits / 8] of codes [..., k]: neighbours are joined until they fill a byte."""
    while bits < 8:
        joined = codes[..., 1::2] << np.uint8(bits)
        joined |= codes[..., ::2]
        codes, bits = joined, 2 * bits
    return codes


def _split(data: Codes, bits: int) -> Codes:
    """Codes [..., k] of bytes [..., k * bits / 8]."""
    if bits == 8:
        return data.copy()
    per = 8 // bits
    codes = np.empty((*data.shape, per), np.uint8)
    for i in range(per):
        np.right_shift(data, np.uint8(bits * i), out=codes[..., i])
    if bits < 8:
        codes &= np.uint8((1 << bits) - 1)
    return codes.reshape(*data.shape[:-1], -1)


def pack_words(codes: Codes, bits: int) -> npt.NDArray[np.uint32]:
    """`mxspec.affine.words.pack_words`, of codes [..., k] that fill whole words and have no more bits."""
    if bits not in _WITHIN:
        return words.pack_words(codes, bits)
    return np.ascontiguousarray(_join(np.ascontiguousarray(codes), bits)).view("<u4").astype(np.uint32, copy=False)


def unpack_words(stored: npt.NDArray[np.uint32], bits: int) -> Codes:
    """`mxspec.affine.words.unpack_words`."""
    if bits not in _WITHIN:
        return words.unpack_words(stored, bits)
    return _split(np.ascontiguousarray(stored.astype("<u4", copy=False)).view(np.uint8), bits)
