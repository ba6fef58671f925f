"""gfloat's test/test_block.py: makers for `--replace gfloat.NAME=tests/suites/gfloat_block.py::MAKER`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import gfloat
import numpy as np

_ENCODE, _DECODE, _QUANTIZE = gfloat.encode_block, gfloat.decode_block, gfloat.quantize_block
#: gfloat's names of the formats, where they differ.
_NAMES = {"mxfp4_e2m1": "mxfp4"}


def _is_asked(info: Any, impl: Any) -> bool:
    return _NAMES.get(info.name, info.name) == impl.fmt


def encode_block(impl: Any) -> Callable[..., Iterator[int]]:
    """The scale's code, then those of the elements. The test divides by the scale first; here the implementation does."""

    def encode(info: Any, scale: float, values: Iterable[float], *more: Any) -> Iterator[int]:
        if not _is_asked(info, impl):
            yield from _ENCODE(info, scale, values, *more)
            return
        codes, scales = impl.quantize((np.asarray(list(values)) * scale).astype(np.float32)[None])
        yield int(scales[0, 0])
        yield from (int(c) for c in codes[0])

    return encode


def decode_block(impl: Any) -> Callable[..., Iterator[float]]:
    """The values of a block's codes."""

    def decode(info: Any, block: Iterable[int]) -> Iterator[float]:
        if not _is_asked(info, impl):
            yield from _DECODE(info, block)
            return
        scale, *codes = block
        yield from (float(v) for v in impl.dequantize(np.array([codes], np.uint8), np.array([[scale]], np.uint8))[0])

    return decode


def quantize_block(impl: Any) -> Callable[..., Any]:
    """There and back."""

    def quantize(info: Any, values: Any, compute_scale: Any, *more: Any) -> Any:
        if not _is_asked(info, impl):
            return _QUANTIZE(info, values, compute_scale, *more)
        return impl.dequantize(*impl.quantize(np.asarray(values, np.float32)[None]))[0].astype(np.float64)

    return quantize
