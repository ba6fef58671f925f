"""Layouts: the packer against the documented formula, worked examples, round trips, masks and refusals."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from mxspec import layouts
from mxspec.layouts import Layout, Padding
from mxspec.layouts.formula import Formula
from mxspec.layouts.packing import Packing
from mxspec.layouts.pattern import parse_pattern
from mxspec.layouts.picture import default_shape, label_run, map_bytes
from mxspec.layouts.tuned import _TUNED
from mxspec_conformance.cli.layouts import render_markdown

ALL = layouts.list_layouts()
NAMES = [layout.name for layout in ALL]


def shapes_of(layout: Layout) -> list[tuple[int, int]]:
    """Shapes that straddle tiles both ways; whole tiles only, where a layout does not pad."""
    rows, columns = layout.pad_to or layout.tile
    shapes = [(rows, columns), (2 * rows, 3 * columns), (3 * rows, 2 * columns)]
    if layout.padding is not Padding.REFUSED:
        shapes += [(1, 1), (rows + 1, columns + 1), (2 * rows - 1, 2 * columns - 1), (127, 5), (129, 9)]
    elif rows == 1:
        shapes += [(7, columns), (129, 2 * columns)]
    return shapes


def make_parts(layout: Layout, shape: tuple[int, ...], plane: int = 0) -> list[np.ndarray]:
    """Position-coded items: digit `plane` of the item's number, in the base of the number of codes it may have."""
    parts = []
    for field in layout.fields:
        allowed = 1 << field.packing.width
        if field.stored is not None:
            allowed = sum(code >= 0 for code in field.stored)
        own = (*shape[:-1], shape[-1] // field.covers)
        number = np.arange(int(np.prod(own)), dtype=np.int64)
        parts.append((number // allowed**plane % allowed).astype(np.uint8).reshape(own))
    return parts


def planes_of(layout: Layout, shape: tuple[int, ...]) -> int:
    """How many digits number every item."""
    planes, count = 1, int(np.prod(shape))
    while 8**planes < count:
        planes += 1
    return planes


@pytest.mark.parametrize("layout", ALL, ids=NAMES)
def test_packer_and_formula_agree_on_every_bit(layout: Layout) -> None:
    for shape in shapes_of(layout):
        for plane in range(min(planes_of(layout, shape), 3)):
            parts = make_parts(layout, shape, plane)
            bits = np.unpackbits(layout.pack(*parts), bitorder="little")
            for field, part in zip(layout.fields, parts, strict=True):
                stored = field.store(part, layout.name)
                m, k = np.meshgrid(*(np.arange(n) for n in part.shape), indexing="ij")
                for b in range(field.packing.width):
                    byte, bit = layout.locate(m, k, shape, part=field.part, b=b)
                    assert (bits[8 * byte + bit] == stored >> b & 1).all(), (shape, field.part, b)


@pytest.mark.parametrize("layout", ALL, ids=NAMES)
def test_no_two_bits_share_a_place_and_the_mask_covers_exactly_the_items(layout: Layout) -> None:
    for shape in shapes_of(layout):
        taken = np.zeros(8 * layout.size(shape), np.int64)
        for field in layout.fields:
            m, k = np.meshgrid(np.arange(shape[0]), np.arange(shape[1] // field.covers), indexing="ij")
            for b in range(field.packing.width):
                byte, bit = layout.locate(m, k, shape, part=field.part, b=b)
                np.add.at(taken, np.asarray(8 * byte + bit), 1)
        assert taken.max() == 1
        mask = np.unpackbits(layout.mask(shape), bitorder="little")
        if layout.padding is Padding.UNSPECIFIED or (layout.gap is None and layout.padding is Padding.REFUSED):
            assert (mask == taken).all()
        else:
            assert (mask >= taken).all()


@pytest.mark.parametrize("layout", ALL, ids=NAMES)
def test_round_trip(layout: Layout) -> None:
    for shape in shapes_of(layout):
        parts = make_parts(layout, shape)
        data = layout.pack(*parts)
        assert data.shape == (layout.size(shape),)
        for part, back in zip(parts, layout.unpack(data, shape), strict=True):
            assert back.dtype == np.uint8
            assert (back == part).all()


@pytest.mark.parametrize("layout", ALL, ids=NAMES)
def test_unpack_ignores_what_the_mask_leaves_out(layout: Layout) -> None:
    shape = shapes_of(layout)[-1]
    parts = make_parts(layout, shape)
    dirty = layout.pack(*parts) | ~layout.mask(shape)
    for part, back in zip(parts, layout.unpack(dirty, shape), strict=True):
        assert (back == part).all()


@pytest.mark.parametrize("layout", [x for x in ALL if not x.flat], ids=[x.name for x in ALL if not x.flat])
def test_leading_axes_lie_one_after_the_other(layout: Layout) -> None:
    shape = shapes_of(layout)[0]
    parts = make_parts(layout, (2, 3, *shape))
    data = layout.pack(*parts)
    each = [layout.pack(*(p[i, j] for p in parts)) for i in range(2) for j in range(3)]
    assert data.tobytes() == b"".join(e.tobytes() for e in each)
    for part, back in zip(parts, layout.unpack(data, (2, 3, *shape)), strict=True):
        assert (back == part).all()
    assert (layout.mask((2, 3, *shape)) == np.tile(layout.mask(shape), 6)).all()


@pytest.mark.parametrize("layout", ALL, ids=NAMES)
def test_empty(layout: Layout) -> None:
    _, columns = layout.tile
    parts = make_parts(layout, (0, columns))
    assert layout.pack(*parts).size == 0
    assert layout.unpack(np.empty(0, np.uint8), (0, columns))[-1].shape == (0, columns)


@pytest.mark.parametrize("layout", ALL, ids=NAMES)
def test_formula_beyond_two_to_the_31(layout: Layout) -> None:
    """On matrices that no memory holds: the formula, in int64 and in integers without limit, against the digits."""
    rows, columns = layout.pad_to or layout.tile
    shape = (rows * (1 << 17), columns * (1 << 18))
    if layout.flat:
        shape = (1 << 17, columns * (1 << 18))
    rng = np.random.default_rng(20261121)
    for field in layout.fields:
        own = (shape[0], shape[1] // field.covers)
        for m, k in [
            (own[0] - 1, own[1] - 1),
            *zip(rng.integers(0, own[0], 40).tolist(), rng.integers(0, own[1], 40).tolist(), strict=True),
        ]:
            byte, bit = layout.locate(m, k, shape, part=field.part)
            wide = layout.locate(np.int64(m), np.int64(k), shape, part=field.part)
            assert (byte, bit) == tuple(int(x) for x in wide)
            assert 8 * byte + bit == place_by_digits(layout, field.part, m, k, own)
        assert byte < layout.size(shape)
    assert layout.size(shape) > 1 << 31


def place_by_digits(layout: Layout, part: str, m: int, k: int, shape: tuple[int, int]) -> int:
    """The absolute bit of bit 0 of an item, by mixed-radix arithmetic on the pattern's text."""
    number = [f.part for f in layout.fields].index(part)
    field = layout.fields[number]
    if layout.flat:
        m, k, shape = 0, m * shape[1] + k, (1, shape[0] * shape[1])
    left, right = field.pattern.split("->")
    row_digits, column_digits = (g.strip("()").split() for g in re.findall(r"\([^)]*\)|\S+", left))
    sizes: dict[str, int] = {}
    values: dict[str, int] = {}
    for digits, index, length in ((row_digits, m, shape[0]), (column_digits, k, shape[1])):
        tile = int(np.prod([int(d.split(":")[1]) for d in digits if ":" in d], dtype=object))
        for digit in reversed(digits):
            name, _, size = digit.partition(":")
            sizes[name] = int(size) if size else length // tile
            index, values[name] = divmod(index, sizes[name])
    outer, bar, inner = right.partition("|")
    item = 0
    for name in (inner if bar else right).split():
        item = item * sizes[name] + values[name]
    record = 0
    for name in outer.split() if bar else ():
        record = record * sizes[name] + values[name]
    widths = [
        int(np.prod([sizes_of(f.pattern, f is field, sizes, name) for name in f.pattern.partition("|")[2].split()], dtype=object))
        // f.packing.codes * f.packing.size if "|" in f.pattern else 0
        for f in layout.fields
    ]  # fmt: skip
    group, within = divmod(item, field.packing.codes)
    start = record * sum(widths) + sum(widths[:number])
    return 8 * (start + group * field.packing.size) + field.packing.places[within * field.packing.width]


def sizes_of(pattern: str, own: bool, sizes: dict[str, int], name: str) -> int:
    """The size of a digit inside a record, which every pattern spells."""
    found = re.search(rf"{name}:(\d+)", pattern)
    assert found or own
    return int(found[1]) if found else sizes[name]


#: Written out by hand from the sources: (layout, items as rows of hex codes, the packed bytes).
WORKED = [
    ("nibble-low", ["0 1 2 3 4 5 6 7 8 9 a b c d e f"], "1032547698badcfe"),
    ("nibble-high", ["0 1 2 3 4 5 6 7 8 9 a b c d e f"], "0123456789abcdef"),
    ("nibble-split-16", ["0 1 2 3 4 5 6 7 8 9 a b c d e f"], "8091a2b3c4d5e6f7"),
    ("nibble-low-flat", ["1 2 3"], "2103"),
    ("fp6-le", ["1 2 3 4"], "813010"),
    ("fp6-planes", ["11 22 33 4"], "6c1234"),
    ("fp6-le", ["11 22 33 4"], "913813"),
    ("gptq", ["0 1 2 3 4 5 6 7"], "10325476"),
    ("awq", ["0", "1", "2", "3", "4", "5", "6", "7"], "20643175"),
    ("fp4-in-bytes-shifted", ["f 1"], "3c04"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "rows", "data"), WORKED)
def test_worked_examples(name: str, rows: list[str], data: str) -> None:
    items = np.array([[int(code, 16) for code in row.split()] for row in rows], np.uint8)
    assert layouts.pack(items, name).tobytes().hex() == data


def test_worked_gap_of_the_six_bit_container() -> None:
    data, mask = (layouts.pack(np.arange(16, dtype=np.uint8)[None], "b6x16_p32"), layouts.get_layout("b6x16_p32").mask((1, 16)))
    assert data[:12].tobytes().hex() == "40200c44611c48a22c4ce33c"
    assert mask.tobytes().hex() == "ff" * 12 + "00" * 4


def test_worked_ggml_block() -> None:
    codes = np.array([[*range(16), *range(15, -1, -1)]], np.uint8)
    data = layouts.pack_blocks(codes, np.array([[127]], np.uint8), "ggml-mxfp4")
    assert data.tobytes().hex() == "7ff0e1d2c3b4a5968778695a4b3c2d1e0f"


def test_worked_hopper_word() -> None:
    """Bytes 21 43 65 87 become 5d 2c a6 40."""
    layout = layouts.get_layout("hopper-value-wgmma")
    packing = layout.main.packing
    assert packing.pack(np.arange(1, 9, dtype=np.uint8)[None]).tobytes().hex() == "5d2ca640"


def test_worked_marlin_permutation() -> None:
    """Which of the 16 x 64 weights, numbered K x N in 16 x 16 tiles, lies in the first nibbles."""
    layout = layouts.get_layout("marlin")
    number = {}
    for n in range(64):
        for k in range(16):
            byte, bit = layout.locate(n, k, (64, 16))
            number[2 * byte + bit // 4] = 256 * (n // 16) + 16 * k + n % 16
    assert [number[i] for i in range(9)] == [0, 128, 8, 136, 16, 144, 24, 152, 256]


@pytest.mark.parametrize(
    ("name", "item", "shape", "byte"),
    [
        ("128x4", (0, 1), (128, 4), 1), ("128x4", (1, 0), (128, 4), 16), ("128x4", (32, 0), (128, 4), 4),
        ("128x4", (127, 7), (128, 8), 1023), ("128x4", (128, 0), (256, 8), 1024), ("128x4", (200, 3), (300, 5), 1163),
        ("128x4", (5, 2), (128, 8), 82), ("128x4", (5, 5), (128, 8), 593), ("8x4", (1, 0), (8, 4), 4),
        ("8x4", (200, 3), (300, 5), 1603), ("cdna4-scale", (16, 0), (256, 8), 1), ("cdna4-scale", (0, 4), (256, 8), 2),
        ("cdna4-scale", (16, 4), (256, 8), 3), ("cdna4-scale", (1, 0), (256, 8), 4),
    ],
)  # fmt: skip
def test_worked_places(name: str, item: tuple[int, int], shape: tuple[int, int], byte: int) -> None:
    assert layouts.get_layout(name).locate(*item, shape) == (byte, 0)


def test_int32_view_is_not_row_major() -> None:
    scales = np.arange(128, dtype=np.uint8)[:, None].repeat(4, axis=1)
    view = layouts.pack(scales, "vllm-int32-view").reshape(128, 4)
    assert view[1, 0] == 32


def test_gptq_zero_of_version_one_is_stored_minus_one() -> None:
    assert layouts.pack(np.array([[8, 1]], np.uint8), "gptq-v1-zeros").tobytes() == b"\x07"
    assert layouts.pack(np.array([[0, 0]], np.uint8), "gptq-v1-zeros").tobytes() == b"\xff"


def test_quark_scale_is_a_signed_exponent() -> None:
    data = layouts.pack_blocks(np.zeros((1, 64), np.uint8), np.array([[127, 126]], np.uint8), "quark-mxfp4")
    assert (data[0], data[17]) == (0x00, 0xFF)
    with pytest.raises(ValueError, match="cannot hold the scales code 0xff"):
        layouts.pack_blocks(np.zeros((1, 32), np.uint8), np.array([[255]], np.uint8), "quark-mxfp4")


def test_s0e5m3_keeps_every_scale_and_its_order() -> None:
    stored = layouts.get_layout("marlin-scales-nvfp4").main.stored
    assert stored is not None
    kept = stored[:127]
    assert len(set(kept)) == 127
    assert sorted(kept) == list(kept)
    assert kept[0] == 0
    assert kept[0x38] == 0xB0  # 1.0: exponent 15 + 7, shifted over the sign bit


@given(st.data())
def test_tuned_packers_equal_the_general_ones(data: st.DataObject) -> None:
    packing: Packing = data.draw(st.sampled_from(sorted(_TUNED, key=lambda p: p.name)))
    groups = data.draw(st.integers(1, 70)) if data.draw(st.booleans()) else (1 << 15) + data.draw(st.integers(-2, 3))
    seed = data.draw(st.integers(0, 2**32 - 1))
    codes = np.random.default_rng(seed).integers(0, 1 << packing.width, groups * packing.codes).astype(np.uint8)
    pack, unpack = _TUNED[packing]
    assert (pack(codes) == packing.pack(codes)).all()
    assert (unpack(packing.pack(codes)) == codes).all()


@pytest.mark.parametrize("name", ["nibble-split-32", "nibble-split-16", "ggml-nvfp4"])
def test_split_nibbles_over_chunks(name: str) -> None:
    """The fast way works in chunks; a matrix of several, against the formula."""
    layout = layouts.get_layout(name)
    shape = (3, 1 << 18)
    parts = make_parts(layout, shape)
    data = layout.pack(*parts)
    m, k = np.meshgrid(np.arange(3), np.arange(0, shape[1], 7), indexing="ij")
    byte, bit = layout.locate(m, k, shape)
    assert (data[byte] >> bit.astype(np.uint8) & 15 == parts[-1][:, ::7]).all()
    assert (layout.unpack(data, shape)[-1] == parts[-1]).all()


def test_groups_are_padded_each_by_itself() -> None:
    scales = np.arange(200 * 5, dtype=np.int64).astype(np.uint8).reshape(200, 5)
    rows = [1, 128, 0, 71]
    data = layouts.pack_groups(scales, "128x4-zeroed", rows)
    assert data.size == 3 * 128 * 8
    assert (data[:1024] == layouts.pack(scales[:1], "128x4-zeroed")).all()
    assert (layouts.unpack_groups(data, "128x4-zeroed", rows, 5) == scales).all()
    with pytest.raises(ValueError, match=r"groups of \[1, 2\] rows make 3; the matrix has 200"):
        layouts.pack_groups(scales, "128x4", [1, 2])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: layouts.pack(np.zeros((1, 3), np.uint8), "nibble-low"), "1 x 3 codes do not fit the 1 x 2 tiles of nibble-low, which does not pad; pad to 1 x 4 first"),
        (lambda: layouts.pack(np.full((1, 2), 16, np.uint8), "nibble-low"), "codes hold 0x10; nibble-low stores codes below 0x10"),
        (lambda: layouts.pack(np.zeros((1, 2), np.int64), "nibble-low"), "codes are int64; nibble-low takes uint8"),
        (lambda: layouts.pack(np.zeros(2, np.uint8), "nibble-low"), r"shape \(2,\) has 1 axes"),
        (lambda: layouts.pack(np.zeros((1, 2), np.uint8), "nibble-mid"), "unknown layout 'nibble-mid'; known are bytes, nibble-low"),
        (lambda: layouts.unpack(np.zeros(3, np.uint8), "nibble-low", (1, 4)), r"3 bytes are not the 2 that nibble-low takes for shape \(1, 4\)"),
        (lambda: layouts.unpack(np.zeros(1, np.uint32), "nibble-low", (1, 8)), "data are uint32; pass bytes as uint8"),
        (lambda: layouts.pack(np.zeros((1, 32), np.uint8), "ggml-mxfp4"), "ggml-mxfp4 stores scales and codes together; use pack_blocks"),
        (lambda: layouts.unpack(np.zeros(17, np.uint8), "ggml-mxfp4", (1, 32)), "use unpack_blocks"),
        (lambda: layouts.pack_blocks(np.zeros((1, 32), np.uint8), np.zeros((1, 2), np.uint8), "ggml-mxfp4"), r"scales have shape \(1, 2\); for codes of shape \(1, 32\)"),
        (lambda: layouts.pack_blocks(np.zeros((1, 32), np.uint8), np.zeros((1, 1), np.uint8), "128x4"), "128x4 stores scales alone"),
    ],
)  # fmt: skip
def test_refusals(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@pytest.mark.parametrize(
    ("text", "message"),
    [("M K", "expected"), ("M K -> M", "stands once"), ("M (a:2) -> M a", "exactly one digit without a size"), ("M (K q8) -> M K q8", "is no digit")],
)  # fmt: skip
def test_malformed_patterns_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_pattern(text)


@pytest.mark.parametrize("text", ["__import__('os')", "m.real", "m if k else 0", "z + 1", "m ** k", "[m]"])
def test_formulas_are_integer_arithmetic_only(text: str) -> None:
    with pytest.raises(ValueError, match="is not allowed"):
        Formula(text).evaluate(m=1, k=1, rows=1, columns=1)


def test_names_and_aliases_are_unique_and_documented() -> None:
    names = [name for layout in ALL for name in (layout.name, *layout.aliases)]
    assert len(set(names)) == len(names)
    assert all(layout.source and layout.users and layout.summary for layout in ALL)
    assert all(layouts.get_layout(alias) is layout for layout in ALL for alias in layout.aliases)


@pytest.mark.parametrize("layout", ALL, ids=NAMES)
def test_picture_shows_every_bit_of_every_item_once(layout: Layout) -> None:
    shape = default_shape(layout)
    seen: set[tuple[str, int, int, int]] = set()
    for runs in map_bytes(layout, shape):
        assert sum(run.count for run in runs) == 8
        for run in runs:
            assert label_run(run, rows=True, several=True)
            bits = [(run.part, run.row, run.column, run.code_bit + i) for i in range(run.count)] if run.part else []
            assert not seen.intersection(bits)
            seen.update(bits)
    wanted = sum(shape[0] * (shape[1] // f.covers) * f.packing.width for f in layout.fields)
    assert len(seen) == wanted


def test_documented_catalogue_is_the_catalogue() -> None:
    """reports/layouts.md ends in what `mxspec layouts --markdown` prints."""
    text = (Path(__file__).parents[1] / "reports" / "layouts.md").read_text("utf-8")
    assert text.partition("## Catalogue\n\n")[2] == render_markdown()
