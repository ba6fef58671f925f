"""Mutants of packing and of scale tiles, and the straightforward implementation that they change.

Each layout is written out here once more, by index arithmetic on plain loops and arrays; nothing of the model's patterns is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mxspec_conformance.mutants.reference import Array
from mxspec_conformance.mutants.schema import Family, Mutant
from mxspec_conformance.mutants.staged import NOTHING, Staged, Step, Wrap, around

Pack = Callable[[Array], Array]
Unpack = Callable[[Array, tuple[int, ...]], Array]


def pack_nibbles(codes: Array) -> Array:
    """The even code in the low nibble."""
    return (codes[..., ::2] | codes[..., 1::2] << 4).astype(np.uint8).reshape(-1)


def unpack_nibbles(data: Array, shape: tuple[int, ...]) -> Array:
    return np.stack([data & 15, data >> 4], axis=-1).reshape(shape)


def pack_sixes(codes: Array) -> Array:
    """Four codes in 24 bits, the first in the lowest."""
    a, b, c, d = (codes.reshape(-1, 4)[:, i].astype(np.uint32) for i in range(4))
    return to_three_bytes(a | b << 6 | c << 12 | d << 18)


def to_three_bytes(words: Array) -> Array:
    return np.stack([words & 255, words >> 8 & 255, words >> 16 & 255], axis=-1).astype(np.uint8).reshape(-1)


def unpack_sixes(data: Array, shape: tuple[int, ...]) -> Array:
    b = data.reshape(-1, 3).astype(np.uint32)
    word = b[:, 0] | b[:, 1] << 8 | b[:, 2] << 16
    return np.stack([word >> s & 63 for s in (0, 6, 12, 18)], axis=-1).astype(np.uint8).reshape(shape)


Place = Callable[[Array, Array, int], Array]


def in_tile(r: Array, c: Array) -> Array:
    """Byte of scale (r, c) in a tile of 128 rows and 4 columns."""
    return r % 32 * 16 + r % 128 // 32 * 4 + c % 4


def tiled(inside: Callable[[Array, Array], Array] = in_tile) -> Place:
    """Tiles row by row; inside: the byte of (r % 128, c % 4) in its tile."""
    return lambda r, c, columns: (r // 128 * -(-columns // 4) + c // 4) * 512 + inside(r % 128, c % 4)


tile_place = tiled()


def unpadded_stride(r: Array, c: Array, columns: int) -> Array:
    """Tiles of a row of tiles are counted without the padded one."""
    return (r // 128 * max(columns // 4, 1) + c // 4) * 512 + in_tile(r, c)


ORDERED, COLUMNS_FIRST = tiled(lambda r, c: r * 4 + c), tiled(lambda r, c: r % 32 * 16 + c * 4 + r // 32)


def tiles_by_column(r: Array, c: Array, columns: int) -> Array:
    rows = -(-(int(r.max()) + 1) // 128) if r.size else 0
    return (c // 4 * rows + r // 128) * 512 + in_tile(r, c)


def tile_size(rows: int, columns: int) -> int:
    return -(-rows // 128) * -(-columns // 4) * 512


def swizzle(place: Place = tile_place, fill: int = 0, crop: bool = False) -> Pack:
    """Scales [..., rows, columns] by a place formula."""

    def pack(scales: Array) -> Array:
        rows, columns = scales.shape[-2:]
        r, c = np.indices((rows, columns))
        parts = []
        for matrix in scales.reshape(-1, rows, columns):
            out = np.full(tile_size(rows, columns), fill, np.uint8)
            out[place(r, c, columns) % out.size] = matrix
            parts.append(out[: rows * columns] if crop else out)
        return np.concatenate(parts)

    return pack


def unswizzle(place: Place = tile_place) -> Unpack:
    def unpack(data: Array, shape: tuple[int, ...]) -> Array:
        rows, columns = shape[-2:]
        r, c = np.indices((rows, columns))
        size = tile_size(rows, columns)
        parts = [part[place(r, c, columns) % size] for part in data.reshape(-1, size)]
        return np.stack(parts).reshape(shape)

    return unpack


def pack_ggml(half: int, blocks: int, scales_first: bool = True) -> Callable[[Array, Array], Array]:
    """Records of scales and of codes whose halves of a block share a byte."""

    def pack(codes: Array, scales: Array) -> Array:
        pairs = codes.reshape(-1, 2, half)
        packed = (pairs[:, 0] | pairs[:, 1] << 4).astype(np.uint8).reshape(-1, half * blocks)
        parts = [scales.reshape(-1, blocks), packed]
        return np.concatenate(parts if scales_first else parts[::-1], axis=1).reshape(-1)

    return pack


def unpack_ggml(half: int, blocks: int) -> Callable[[Array, tuple[int, ...]], tuple[Array, Array]]:
    def unpack(data: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
        records = data.reshape(-1, blocks * (half + 1))
        packed = records[:, blocks:].reshape(-1, half)
        codes = np.stack([packed & 15, packed >> 4], axis=1).reshape(shape)
        return codes, records[:, :blocks].reshape(*shape[:-1], shape[-1] // (2 * half))

    return unpack


def words_of(order: tuple[int, ...], along_rows: bool) -> Pack:
    """Eight nibbles in a 32-bit word; slot i holds item order[i] of the eight."""

    def pack(codes: Array) -> Array:
        parts = []
        for matrix in codes.reshape(-1, *codes.shape[-2:]):
            # Words run over rows for AWQ's columns N, over columns K for GPTQ's.
            lines = matrix.T if along_rows else matrix
            groups = lines.reshape(lines.shape[0], -1, 8)[..., list(order)]
            slots = groups if along_rows else groups.swapaxes(0, 1)
            parts.append(pack_nibbles(np.ascontiguousarray(slots)))
        return np.concatenate(parts)

    return pack


AWQ = (0, 2, 4, 6, 1, 3, 5, 7)
IN_ORDER = tuple(range(8))

PACKERS: Mapping[str, Callable[..., Array]] = {
    "nibble-low": pack_nibbles,
    "fp6-le": pack_sixes,
    "awq": words_of(AWQ, True),
    "gptq": words_of(IN_ORDER, False),
    "128x4": swizzle(),
    "128x4-zeroed": swizzle(),
    "ggml-mxfp4": pack_ggml(16, 1),
    "ggml-nvfp4": pack_ggml(8, 4),
}
UNPACKERS: Mapping[str, Callable[..., Any]] = {
    "nibble-low": unpack_nibbles,
    "fp6-le": unpack_sixes,
    "128x4": unswizzle(),
    "128x4-zeroed": unswizzle(),
    "ggml-mxfp4": unpack_ggml(16, 1),
    "ggml-nvfp4": unpack_ggml(8, 4),
}


class Places(Staged):
    """A target that packs and unpacks the layouts above."""

    LAYOUTS = tuple(PACKERS)

    def __init__(self, *, name: str = "plain", wrap: Mapping[str, Wrap]) -> None:
        super().__init__(name, NOTHING, NOTHING, wrap)

    def pack(self, codes: Any, layout: str) -> Any:
        """Codes in a layout."""
        return PACKERS[layout](np.asarray(codes))

    def unpack(self, data: Any, layout: str, shape: tuple[int, ...]) -> Any:
        """Codes out of a layout, or codes and scales."""
        if layout not in UNPACKERS:
            raise NotImplementedError(f"{layout} is not unpacked here")
        return UNPACKERS[layout](np.asarray(data), shape)

    def swizzle(self, scales: Any, layout: str) -> Any:
        """Scales in a layout."""
        return PACKERS[layout](np.asarray(scales))

    def pack_blocks(self, codes: Any, scales: Any, layout: str) -> Any:
        """Codes and scales in records."""
        return PACKERS[layout](np.asarray(codes), np.asarray(scales))

    unswizzle = unpack_blocks = unpack


def instead(wrong: Callable[..., Any]) -> Wrap:
    """Another function; the layout's name is dropped."""
    return around(lambda right, *args: wrong(*(a for a in args if not isinstance(a, str))))


def then(change: Callable[[Array], Any]) -> Wrap:
    """The right bytes, changed."""
    return around(lambda right, *args: change(np.array(right(*args))))


def high_first(codes: Array) -> Array:
    return (codes[..., 1::2] | codes[..., ::2] << 4).astype(np.uint8).reshape(-1)


def halves(codes: Array) -> Array:
    k = codes.shape[-1] // 2
    return (codes[..., :k] | codes[..., k:] << 4).astype(np.uint8).reshape(-1)


def sixes_spill_lost(codes: Array) -> Array:
    """Bits that pass into the next byte are dropped."""
    a, b, c, d = (codes.reshape(-1, 4)[:, i].astype(np.uint32) for i in range(4))
    return np.stack([a | b << 6 & 255, c << 4 & 255, d << 2 & 255], axis=-1).astype(np.uint8).reshape(-1)


def padded(scales: Array, **how: Any) -> Array:
    """Scales up to whole tiles."""
    rows, columns = scales.shape[-2:]
    return np.pad(scales, [(0, 0)] * (scales.ndim - 2) + [(0, -rows % 128), (0, -columns % 4)], **how)


def left_dirty(right: Step) -> Step:
    """Padding is not written: with `out` the caller's bytes stay. Not by `around`: the right function's signature has no `out`."""

    def function(scales: Any, layout: str, out: Any = None) -> Any:
        rows, columns = np.shape(scales)[-2:]
        data = np.asarray(right(scales, layout))
        size = tile_size(rows, columns)
        r, c = np.indices((rows, columns))
        place = tile_place(r, c, columns)
        for i in range(0, data.size, size):
            out[i : i + size][place] = data[i : i + size][place]
        return out

    return function


def batch_overlaps(scales: Array) -> Array:
    """Matrices of a batch are written one after the other by their unpadded size."""
    rows, columns = scales.shape[-2:]
    matrices = scales.reshape(-1, rows, columns)
    size = tile_size(rows, columns)
    out = np.zeros(size * len(matrices), np.uint8)
    for i, matrix in enumerate(matrices):
        start = i * rows * columns
        out[start : start + size] = swizzle()(matrix)[: out.size - start]
    return out


def one_matrix_of_batch(codes: Array) -> Array:
    out = pack_nibbles(codes)
    if codes.ndim > 2:
        out = np.array(out)
        out[out.size // codes.shape[0] :] = 0
    return out


def byte_swapped(data: Array) -> Array:
    whole = data.size // 4 * 4
    return np.concatenate([data[:whole].reshape(-1, 4)[:, ::-1].reshape(-1), data[whole:]])


def read_sixes_spill(data: Array, shape: tuple[int, ...]) -> Array:
    """Codes that lie in two bytes take their upper bits from the wrong end of the next one."""
    b = data.reshape(-1, 3).astype(np.uint32)
    second = b[:, 0] >> 6 | (b[:, 1] >> 4 & 15) << 2
    third = b[:, 1] >> 4 | (b[:, 2] & 3) << 4
    return np.stack([b[:, 0] & 63, second, third, b[:, 2] >> 2], axis=-1).astype(np.uint8).reshape(shape)


def read_linear(data: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    records = data.reshape(-1, 17)
    packed = records[:, 1:]
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(shape), records[:, :1].reshape(*shape[:-1], shape[-1] // 32)


def read_scale_last(data: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    records = data.reshape(-1, 17)
    packed = records[:, :16]
    codes = np.stack([packed & 15, packed >> 4], axis=1).reshape(shape)
    return codes, records[:, 16:].reshape(*shape[:-1], shape[-1] // 32)


_P, _T = Family.PACK, Family.TILES
NIBBLES, SIXES, TILES, GGML = ("nibble-low",), ("fp6-le",), ("128x4", "128x4-zeroed"), ("ggml-mxfp4",)
_PACK, _UNPACK, _SW, _UN = ("pack",), ("unpack",), ("swizzle",), ("unswizzle",)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(id="nibbles-swapped", source="P48", family=_P, formats=NIBBLES, operations=_PACK, what="the even code in the high nibble", wrap={"pack": instead(high_first)}),
    Mutant(id="ggml-linear", source="P49", family=_P, formats=GGML, operations=("pack_blocks",), what="neighbours share a byte instead of j and j + 16", wrap={"pack_blocks": instead(lambda codes, scales: np.column_stack([scales.reshape(-1), pack_nibbles(codes).reshape(-1, 16)]).reshape(-1))}),
    Mutant(id="fp6-big-endian", source="P50", family=_P, formats=SIXES, operations=_PACK, what="the first code in the top bits of 24", wrap={"pack": instead(lambda codes: pack_sixes(codes.reshape(-1, 4)[:, ::-1]).reshape(-1, 3)[:, ::-1].reshape(-1))}),
    Mutant(id="awq-order", source="P51", family=_P, formats=NIBBLES, operations=_PACK, what="nibbles of a 32-bit word in AWQ's order", wrap={"pack": instead(lambda codes: pack_nibbles(codes.reshape(-1, 8)[:, list(AWQ)]))}),
    Mutant(id="ggml-scale-last", source="P52", family=_P, formats=GGML, operations=("pack_blocks",), what="the scale after the codes", wrap={"pack_blocks": instead(pack_ggml(16, 1, scales_first=False))}),
    Mutant(id="swizzle-none", source="P53", family=_T, formats=TILES, operations=_SW, what="padded and row-major", wrap={"swizzle": instead(lambda scales: padded(scales).reshape(-1))}),
    Mutant(id="swizzle-8x4", source="P54", family=_T, formats=TILES, operations=_SW, what="tiles of 8 rows", wrap={"swizzle": instead(swizzle(lambda r, c, columns: (r // 8 * -(-columns // 4) + c // 4) * 32 + r % 8 * 4 + c % 4))}),
    Mutant(id="swizzle-linear-in-tile", source="P55", family=_T, formats=TILES, operations=_SW, what="rows one after the other inside the tile", wrap={"swizzle": instead(swizzle(ORDERED))}),
    Mutant(id="swizzle-pad-one", source="P56", family=_T, formats=("128x4-zeroed",), operations=_SW, what="padding is 7F, scale 1", wrap={"swizzle": instead(swizzle(fill=127))}),
    Mutant(id="swizzle-cropped", source="P57", family=_T, formats=TILES, operations=_SW, what="cut to rows times columns bytes", wrap={"swizzle": instead(swizzle(crop=True))}),
    Mutant(id="swizzle-along-row", source="S3", family=_T, formats=TILES, operations=_SW, what="SF_0, SF_32, SF_64, SF_96 taken for one row's", wrap={"swizzle": instead(swizzle(tiled(lambda r, c: (r * 4 + c) % 128 * 4 + (r * 4 + c) // 128)))}),
    Mutant(id="ggml-4.5-bits", source="S0", family=_P, formats=GGML, operations=("pack_blocks",), what="records of 18 bytes, 4.5 bits to an element", wrap={"pack_blocks": instead(lambda codes, scales: np.insert(pack_ggml(16, 1)(codes, scales).reshape(-1, 17), 1, 0, axis=1).reshape(-1))}),
    Mutant(id="nibbles-in-halves", source="own", family=_P, formats=NIBBLES, operations=_PACK, what="code j and code j + K/2 share a byte", wrap={"pack": instead(halves)}),
    Mutant(id="words-big-endian", source="own", family=_P, formats=("nibble-low", "awq"), operations=_PACK, what="32-bit words are stored big-endian", wrap={"pack": then(byte_swapped)}),
    Mutant(id="or-race", source="Blaizzy/mlx-vlm#967", family=_P, formats=NIBBLES, operations=_PACK, what="of each 32-bit word one code survives an unlocked OR", wrap={"pack": then(lambda data: data & np.where(np.arange(data.size) % 4 == 0, 0x0F, 0).astype(np.uint8))}),
    Mutant(id="high-nibble-lost", source="own", family=_P, formats=NIBBLES, operations=_PACK, what="the second code overwrites the first", wrap={"pack": instead(lambda codes: (codes[..., 1::2] << 4).astype(np.uint8).reshape(-1))}),
    Mutant(id="batch-first-only", source="own", family=_P, formats=NIBBLES, operations=_PACK, what="only the first matrix of a batch is packed", wrap={"pack": instead(one_matrix_of_batch)}),
    Mutant(id="fp6-groups-reversed", source="own", family=_P, formats=SIXES, operations=_PACK, what="four codes in reversed order", wrap={"pack": instead(lambda codes: pack_sixes(codes.reshape(-1, 4)[:, ::-1]))}),
    Mutant(id="fp6-spill-lost", source="own", family=_P, formats=SIXES, operations=_PACK, what="bits that pass into the next byte are lost", wrap={"pack": instead(sixes_spill_lost)}),
    Mutant(id="fp6-padded-to-bytes", source="own", family=_P, formats=SIXES, operations=_PACK, what="one code to a byte", wrap={"pack": instead(lambda codes: codes.reshape(-1))}),
    Mutant(id="awq-in-order", source="own", family=_P, formats=("awq",), operations=_PACK, what="the nibbles of a word in plain order", wrap={"pack": instead(words_of(IN_ORDER, True))}),
    Mutant(id="awq-inverse-order", source="AutoAWQ", family=_P, formats=("awq",), operations=_PACK, what="the inverse of AWQ's order", wrap={"pack": instead(words_of((0, 4, 1, 5, 2, 6, 3, 7), True))}),
    Mutant(id="gptq-along-columns", source="own", family=_P, formats=("gptq",), operations=_PACK, what="words run along the other axis", wrap={"pack": instead(lambda codes: pack_nibbles(codes))}),
    Mutant(id="gptq-in-awq-order", source="own", family=_P, formats=("gptq",), operations=_PACK, what="AWQ's order in GPTQ's words", wrap={"pack": instead(words_of(AWQ, False))}),
    Mutant(id="ggml-halves-swapped", source="own", family=_P, formats=GGML, operations=("pack_blocks",), what="element j in the high nibble, j + 16 in the low one", wrap={"pack_blocks": instead(lambda codes, scales: pack_ggml(16, 1)(codes.reshape(-1, 2, 16)[:, ::-1], scales))}),
    Mutant(id="ggml-scale-minus-one", source="own", family=_P, formats=GGML, operations=("pack_blocks",), what="the half scale of the doubled table is stored", wrap={"pack_blocks": instead(lambda codes, scales: pack_ggml(16, 1)(codes, (scales - 1).astype(np.uint8)))}),
    Mutant(id="ggml-nvfp4-scales-reversed", source="own", family=_P, formats=("ggml-nvfp4",), operations=("pack_blocks",), what="the four scales in reversed order", wrap={"pack_blocks": instead(lambda codes, scales: pack_ggml(8, 4)(codes, scales.reshape(-1, 4)[:, ::-1]))}),
    Mutant(id="ggml-nvfp4-interleaved", source="own", family=_P, formats=("ggml-nvfp4",), operations=("pack_blocks",), what="each block follows its own scale", wrap={"pack_blocks": instead(pack_ggml(8, 1))}),
    Mutant(id="ggml-nvfp4-halves-of-16", source="own", family=_P, formats=("ggml-nvfp4",), operations=("pack_blocks",), what="elements j and j + 16 share a byte, as in MXFP4", wrap={"pack_blocks": instead(lambda codes, scales: np.concatenate([scales.reshape(-1, 4), pack_ggml(16, 1)(codes, np.zeros(codes.size // 32, np.uint8)).reshape(-1, 17)[:, 1:].reshape(-1, 32)], axis=1).reshape(-1))}),
    Mutant(id="unpack-swapped", source="own", family=_P, formats=NIBBLES, operations=_UNPACK, what="the high nibble is read first", wrap={"unpack": instead(lambda data, shape: np.stack([data >> 4, data & 15], axis=-1).reshape(shape))}),
    Mutant(id="unpack-sign-extended", source="own", family=_P, formats=NIBBLES, operations=_UNPACK, what="the high nibble comes out of an arithmetic shift", wrap={"unpack": instead(lambda data, shape: np.stack([data & 15, (data.view(np.int8) >> 4).view(np.uint8)], axis=-1).reshape(shape))}),
    Mutant(id="unpack-unmasked", source="own", family=_P, formats=NIBBLES, operations=_UNPACK, what="the low nibble is not masked", wrap={"unpack": instead(lambda data, shape: np.stack([data, data >> 4], axis=-1).reshape(shape))}),
    Mutant(id="unpack-fp6-from-top", source="own", family=_P, formats=SIXES, operations=_UNPACK, what="6-bit codes are read from the top", wrap={"unpack": instead(lambda data, shape: unpack_sixes(data.reshape(-1, 3)[:, ::-1], (-1, 4))[:, ::-1].reshape(shape))}),
    Mutant(id="unpack-fp6-spill", source="own", family=_P, formats=SIXES, operations=_UNPACK, what="a code in two bytes takes the wrong end of the second", wrap={"unpack": instead(read_sixes_spill)}),
    Mutant(id="unpack-ggml-linear", source="S0", family=_P, formats=GGML, operations=("unpack_blocks",), what="adjacent nibbles are neighbours", wrap={"unpack_blocks": instead(read_linear)}),
    Mutant(id="unpack-ggml-scale-last", source="S0", family=_P, formats=GGML, operations=("unpack_blocks",), what="the scale is read behind the codes", wrap={"unpack_blocks": instead(read_scale_last)}),
    Mutant(id="swizzle-rows-by-4", source="own", family=_T, formats=TILES, operations=_SW, what="r % 4 and r / 4 where r / 32 and r % 32 belong", wrap={"swizzle": instead(swizzle(tiled(lambda r, c: r // 4 * 16 + r % 4 * 4 + c)))}),
    Mutant(id="swizzle-columns-first", source="own", family=_T, formats=TILES, operations=_SW, what="column and row group change places", wrap={"swizzle": instead(swizzle(COLUMNS_FIRST))}),
    Mutant(id="swizzle-unpadded-stride", source="ROCm/aiter#2900", family=_T, formats=TILES, operations=_SW, what="tiles are counted by the unpadded width", wrap={"swizzle": instead(swizzle(unpadded_stride))}),
    Mutant(id="swizzle-tiles-by-column", source="own", family=_T, formats=TILES, operations=_SW, what="tiles lie column by column", wrap={"swizzle": instead(swizzle(tiles_by_column))}),
    Mutant(id="swizzle-twice", source="modular/modular#6600", family=_T, formats=TILES, operations=_SW, what="swizzled scales are swizzled again", wrap={"swizzle": instead(lambda scales: swizzle()(swizzle()(scales).reshape(padded(scales).shape)))}),
    Mutant(id="swizzle-padding-dirty", source="vllm-project/vllm#45739", family=_T, formats=("128x4-zeroed",), operations=_SW, what="padding is not written", wrap={"swizzle": left_dirty}),
    Mutant(id="swizzle-padding-repeated", source="own", family=_T, formats=("128x4-zeroed",), operations=_SW, what="the last row and column are repeated into the padding", wrap={"swizzle": instead(lambda scales: swizzle()(padded(scales, mode="edge")))}),
    Mutant(id="swizzle-columns-padded-127", source="meta-pytorch/MSLK#339", family=_T, formats=("128x4-zeroed",), operations=_SW, what="padding columns are 7F", wrap={"swizzle": instead(lambda scales: swizzle()(np.pad(scales, [(0, 0)] * (scales.ndim - 1) + [(0, -scales.shape[-1] % 4)], constant_values=127)))}),
    Mutant(id="swizzle-batch-overlaps", source="own", family=_T, formats=TILES, operations=_SW, what="matrices of a batch lie apart by their unpadded size", wrap={"swizzle": instead(batch_overlaps)}),
    Mutant(id="unswizzle-none", source="own", family=_T, formats=TILES, operations=_UN, what="the first bytes are taken for the matrix", wrap={"unswizzle": instead(lambda data, shape: data[: int(np.prod(shape))].reshape(shape))}),
    Mutant(id="unswizzle-linear-in-tile", source="own", family=_T, formats=TILES, operations=_UN, what="rows are read one after the other inside the tile", wrap={"unswizzle": instead(unswizzle(ORDERED))}),
    Mutant(id="unswizzle-columns-first", source="own", family=_T, formats=TILES, operations=_UN, what="column and row group change places", wrap={"unswizzle": instead(unswizzle(COLUMNS_FIRST))}),
    Mutant(id="unswizzle-unpadded-stride", source="ROCm/aiter#2900", family=_T, formats=TILES, operations=_UN, what="tiles are counted by the unpadded width", wrap={"unswizzle": instead(unswizzle(unpadded_stride))}),
)  # fmt: skip
