"""FP8 with float32 scales, plainly: a quantizer by steps, of groups, rows and tensors; products by rows and in tiles, right and wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

K = 128
ROWS, TILES = "fp8_e4m3-128-f32", "fp8_e4m3-128-f32/128x128"
ROW, TENSOR = "fp8_e4m3-row-f32", "fp8_e4m3-tensor-f32"
Floats = npt.NDArray[np.float32]
Parts = tuple[Floats, Floats, Floats, Floats]


@dataclass(frozen=True)
class Quantizer:
    """A plain quantizer as a library writes it: a maximum, a floor, a division, elements times the reciprocal, a cast."""

    fmt: str = ROWS
    magnitude: Callable[[Floats], Floats] = np.abs
    amax: Callable[[Floats], Floats] = lambda m: m.max(axis=-1)
    floor: float = 1e-4
    scale: Callable[[Floats], Floats] = lambda a: a / np.float32(448)
    stored: Callable[[Floats], Floats] = lambda s: s
    scaled: Callable[[Floats, Floats], Floats] = lambda x, s: x * (np.float32(1) / s)
    cast: Callable[[Floats], Any] = lambda q: np.clip(q, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    placed: Callable[[Floats], Floats] = lambda s: s
    #: Where codes are the positive NaN, by scales and quotients; elsewhere the cast's.
    lost: Callable[[Floats, Floats], Any] = lambda s, q: np.isnan(s)

    def quantize(self, x: Any, fmt: str) -> tuple[Any, Any]:
        groups = x.astype(np.float32).reshape(*x.shape[:-1], *((-1, K) if fmt == ROWS else (1, x.shape[-1])))
        with np.errstate(all="ignore"):
            amax = self.amax(self.magnitude(groups)).astype(np.float32)
            scales = self.scale(np.maximum(amax, np.float32(self.floor))).astype(np.float32)
            quotients = self.scaled(groups, scales[..., None]).astype(np.float32)
            codes = np.array(self.cast(quotients).view(np.uint8))
        # NaN by x86 and NaN by the scale are the profile's.
        codes[np.isinf(groups) & np.isinf(scales)[..., None]] = 0xFF
        codes[self.lost(scales, quotients)] = 0x7F
        stored = self.placed(self.stored(scales))
        return codes.reshape(x.shape), stored[0, 0] if fmt == TENSOR else stored


def bfloat(values: Floats) -> Floats:
    """Rounded to bfloat16."""
    return values.astype(ml_dtypes.bfloat16).astype(np.float32)


def _spread(side: Any) -> Floats:
    """Scales [rows, groups] of an operand."""
    scales: Floats = side.scales
    return np.repeat(scales, 128, axis=0)[: side.shape[0]] if side.spec.endswith("128x128") else scales


def _numbers(side: Any) -> Floats:
    return np.asarray(side.codes).view(ml_dtypes.float8_e4m3fn).astype(np.float32)


def _sum(a: Floats, b: Floats, sa: Floats, sb: Floats) -> Floats:
    """float32 sums of groups, each times the product of its scales."""
    out = np.zeros((len(a), len(b)), np.float32)
    for g in range(sa.shape[1]):
        part = slice(g * K, g * K + K)
        out += a[:, part] @ b[:, part].T * (sa[:, g, None] * sb[None, :, g])
    return out


def _scaled_first(a: Floats, b: Floats, sa: Floats, sb: Floats) -> Floats:
    return (a * np.repeat(sa, K, axis=1)) @ (b * np.repeat(sb, K, axis=1)).T


def _scaled_twice(a: Floats, b: Floats, sa: Floats, sb: Floats) -> Floats:
    """From the last group on, the scale of b first."""
    out = np.zeros((len(a), len(b)), np.float32)
    for g in reversed(range(sa.shape[1])):
        part = slice(g * K, g * K + K)
        out = a[:, part] @ b[:, part].T * sb[None, :, g] * sa[:, g, None] + out
    return out


def _in_float64(a: Floats, b: Floats, sa: Floats, sb: Floats) -> Floats:
    return _scaled_first(*(x.astype(np.float64) for x in (a, b, sa, sb))).astype(np.float32)


def make_kernel(compute: Callable[..., Floats], spread: Callable[[Any], Floats] = _spread) -> Any:
    def matmul(a: Any, b: Any, out_dtype: str) -> Any:
        with np.errstate(all="ignore"):
            out = compute(_numbers(a), _numbers(b), spread(a), spread(b))
        return out.astype(ml_dtypes.bfloat16) if out_dtype == "bfloat16" else out

    return SimpleNamespace(OPERANDS=[{"a": ROWS, "b": TILES}, {"a": ROWS, "b": ROWS}], OUT_DTYPES=["float32", "bfloat16"], matmul=matmul)


RIGHT = {"sums of groups": _sum, "scaled first": _scaled_first, "one scale after the other": _scaled_twice, "float64": _in_float64}


def _change(**how: Callable[[Floats], Floats]) -> Callable[..., Floats]:
    """Sums of other parts: a, b, sa, sb by name."""

    def compute(*parts: Floats) -> Floats:
        named = dict(zip(("a", "b", "sa", "sb"), parts, strict=True))
        return _sum(*(how.get(name, lambda x: x)(part) for name, part in named.items()))

    return compute


def _ignore(s: Floats) -> Floats:
    return np.ones_like(s)


def _first_group(s: Floats) -> Floats:
    return np.repeat(s[:, :1], s.shape[1], axis=1)


def _next(s: Floats) -> Floats:
    return np.roll(s, -1, axis=1)


def _power_of_two(s: Floats) -> Floats:
    return (s.view(np.uint32) & np.uint32(0xFF800000)).view(np.float32)


def _half_tiles(side: Any) -> Floats:
    scales: Floats = side.scales[np.minimum(np.arange(side.shape[0]) // 64, len(side.scales) - 1)]
    return scales if side.spec.endswith("128x128") else _spread(side)


def _by_columns(side: Any) -> Floats:
    scales = np.ascontiguousarray(side.scales.T).reshape(side.scales.shape)
    return _spread(SimpleNamespace(scales=scales, shape=side.shape, spec=side.spec))


def _without_last(a: Floats, b: Floats, sa: Floats, sb: Floats) -> Floats:
    return _sum(a[:, : -K or None], b[:, : -K or None], sa[:, :-1], sb[:, :-1]) if sa.shape[1] > 1 else _sum(a, b, sa, sb)


def _cut(a: Floats, b: Floats, sa: Floats, sb: Floats) -> Floats:
    """All products under one scale pair to a row and column, that of the last group."""
    return (a @ b.T) * (sa[:, -1:] * sb[:, -1][None])


WRONG: dict[str, tuple[Callable[..., Floats], Callable[[Any], Floats]]] = {
    "scales of a ignored": (_change(sa=_ignore), _spread),
    "scales of b ignored": (_change(sb=_ignore), _spread),
    "scales of b divide": (_change(sb=lambda s: 1 / s), _spread),
    "the first group's scale for all (TIRx-kernels#5)": (_change(sa=_first_group, sb=_first_group), _spread),
    "the last group's scale for all": (_cut, _spread),
    "the next group's scale of a": (_change(sa=_next), _spread),
    "the next group's scale of b": (_change(sb=_next), _spread),
    "scales cut to powers of two (sglang#39193)": (_change(sa=_power_of_two, sb=_power_of_two), _spread),
    "scales of a in bfloat16": (_change(sa=bfloat), _spread),
    "scales read by columns (vllm#47115)": (_sum, _by_columns),
    "tiles of 64 rows": (_sum, _half_tiles),
    "the last group is left out": (_without_last, _spread),
    "codes of a lose their sign": (_change(a=np.abs), _spread),
    "subnormal numbers flushed": (_change(b=lambda b: np.where(np.abs(b) < 2.0**-6, np.float32(0), b)), _spread),
    "the sum in bfloat16": (lambda *p: bfloat(_sum(*p)), _spread),
}  # fmt: skip
