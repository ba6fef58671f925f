"""The judge of layouts: right ones pass, wrong ones are named, nothing else is accused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from mxspec import layouts
from mxspec.layouts import Part, get_layout, list_layouts
from mxspec_conformance.judge.check import check
from mxspec_conformance.judge.explanation import Mistake
from mxspec_conformance.judge.layout_mistakes import MISTAKES
from mxspec_conformance.mutants import layout_mutants as mutants
from mxspec_conformance.render.terminal import summary_table
from mxspec_conformance.results.report import Report, Verdict
from mxspec_conformance.targets.errors import TargetError
from mxspec_vectors.cases import load_layout_file

ALL = list_layouts()
ONE_PART = [x for x in ALL if len(x.fields) == 1]
SCALE_LAYOUTS = [x for x in ONE_PART if x.main.part is Part.SCALES]


def target(**functions: Any) -> Any:
    return SimpleNamespace(NAME="packer", VERSION="1", **functions)


def verdicts(report: Report) -> dict[str, Verdict]:
    return {r.id: r.verdict for r in report.requirements}


def right_target(**more: Any) -> Any:
    return target(
        pack=layouts.pack, unpack=layouts.unpack, swizzle=layouts.pack, unswizzle=layouts.unpack,
        pack_blocks=layouts.pack_blocks, unpack_blocks=layouts.unpack_blocks, **more,
    )  # fmt: skip


def test_the_model_passes_every_requirement() -> None:
    found = verdicts(check(right_target()))
    assert set(found.values()) == {Verdict.PASS}
    for layout in ALL:
        writer, reader = ("pack_blocks", "unpack_blocks") if len(layout.fields) > 1 else ("pack", "unpack")
        if layout in SCALE_LAYOUTS:
            writer, reader = "swizzle", "unswizzle"
        assert {f"{writer}/{layout.name}/place", f"{reader}/{layout.name}/place"} <= set(found)
    assert "swizzle/128x4/padding" not in found
    assert found["swizzle/128x4-zeroed/padding"] is Verdict.PASS


@pytest.mark.parametrize("layout", ALL, ids=[x.name for x in ALL])
def test_vector_bytes_are_those_of_the_formula(layout: layouts.Layout) -> None:
    """The files are read as a stranger would, and compared with the documented formula, bit for bit."""
    for case in load_layout_file(layout.name).cases:
        if len(case.shape) > 2:
            continue
        bits = np.unpackbits(case.data, bitorder="little")
        mask = np.unpackbits(case.mask, bitorder="little")
        held = np.zeros_like(mask)
        for field, items in zip(layout.fields, case.parts, strict=True):
            m, k = np.meshgrid(*(np.arange(n) for n in items.shape), indexing="ij")
            for b in range(field.packing.width):
                byte, bit = layout.locate(m, k, case.shape, part=field.part, b=b)
                assert (bits[8 * byte + bit] == field.store(items, layout.name) >> b & 1).all()
                held[8 * byte + bit] = 1
        assert (held == mask).all()


def test_large_vectors_straddle_tiles_both_ways() -> None:
    for layout in ALL:
        rows, columns = layout.tile
        shapes = [c.shape for c in load_layout_file(layout.name).cases]
        assert any(s[-2] > rows or layout.flat for s in shapes), layout.name
        assert any(s[-1] > columns for s in shapes), layout.name
        assert layout.flat or any(len(s) > 2 for s in shapes) or layout.pad_to is not None, layout.name


@pytest.mark.parametrize("wrong", SCALE_LAYOUTS, ids=[x.name for x in SCALE_LAYOUTS])
def test_a_wrong_scale_layout_is_named(wrong: layouts.Layout) -> None:
    """128x4 was requested, another came back, where that other has bytes for the shape and the scales."""

    def pack(layout: layouts.Layout, scales: Any) -> Any:
        try:
            return layout.pack(scales)
        except ValueError as error:
            raise NotImplementedError from error

    report = check(target(LAYOUTS=["128x4"], swizzle=lambda scales, _: pack(wrong, scales)))
    place = next(r for r in report.requirements if r.id == "swizzle/128x4/place")
    if wrong.name in ("128x4", "128x4-zeroed"):
        assert place.verdict is Verdict.PASS
    elif place.cases:
        # 8 columns of padding make other bytes only where the columns are no multiple of 8.
        assert place.verdict is Verdict.FAIL
        assert place.failing == len(place.failing_cases)
        # Tiles of 4 columns are row-major too where there are no more columns.
        failing = [c.parts[0] for c in load_layout_file("128x4").cases if c.id in place.failing_cases]
        same = [other.name for other in SCALE_LAYOUTS if same_bytes(other, wrong, failing)]
        assert place.note in [f"these are the bytes of layout {name}" for name in same]


def same_bytes(other: layouts.Layout, wrong: layouts.Layout, many: Sequence[Any]) -> bool:
    try:
        return all(np.array_equal(other.pack(scales), wrong.pack(scales)) for scales in many)
    except ValueError:  # the other has no bytes for one of them
        return False


def test_a_target_of_matrices_alone_is_judged_by_matrices() -> None:
    """What it says of three dimensions is not said of two."""

    def swizzle(scales: Any, name: str) -> Any:
        if scales.ndim != 2:
            raise NotImplementedError("matrices only")
        return layouts.pack(scales, name)

    report = check(target(LAYOUTS=["128x4"], swizzle=swizzle))
    of_calls = {f"swizzle/128x4/{topic}": Verdict.PASS for topic in ("call-size", "memory", "state", "refusal")}
    assert verdicts(report) == {
        "swizzle/128x4/place": Verdict.PASS, "swizzle/128x4/batch": Verdict.UNSUPPORTED, **of_calls
    }  # fmt: skip
    place = next(r for r in report.requirements if r.id == "swizzle/128x4/place")
    assert place.cases == sum(c.topic == "place" for c in load_layout_file("128x4").cases)


NAMED = [
    ("nibble-low", lambda x: layouts.pack(x, "nibble-high"), "these are the bytes of layout nibble-high"),
    ("fp6-le", lambda x: from_the_top(x), "as if codes were packed from the highest bit down"),
    ("gptq-v1-zeros", lambda x: layouts.pack(x, "nibble-low"), "as if codes were stored as they are"),
    ("awq", lambda x: layouts.pack(x, "awq").reshape(-1, 4)[:, ::-1], "as if 32-bit words were big-endian"),
]  # fmt: skip


TILES_IN_A_ROW = {
    "writing": (lambda x: target(swizzle=lambda s, _: mutants.swizzle(mutants.unpadded_stride)(s), **x), True),
    "without the cut tile": (lambda x: target(swizzle=lambda s, _: mutants.swizzle()(s[..., : max(s.shape[-1] // 4 * 4, min(s.shape[-1], 4))]), **x), True),
    "reading": (lambda x: target(unswizzle=lambda data, _, shape: mutants.unswizzle(mutants.unpadded_stride)(data, shape), **x), True),
    "one tile more": (lambda x: target(swizzle=lambda s, _: mutants.swizzle(lambda r, c, k: mutants.tile_place(r, c, k + 4))(s), **x), False),
}  # fmt: skip


@pytest.mark.parametrize("name", TILES_IN_A_ROW)
def test_tiles_of_columns_that_are_rounded_down_are_named(name: str) -> None:
    make_target, named = TILES_IN_A_ROW[name]
    report = check(make_target({"LAYOUTS": ["128x4"]}), only="*/place")
    (place,) = report.requirements
    assert place.verdict is Verdict.FAIL
    assert (place.note == f"as if {Mistake.TILES_ROUNDED_DOWN.value}") is named


def from_the_top(codes: Any) -> Any:
    c = codes.reshape(-1, 4).astype(np.uint32)
    word = c[:, 0] << 18 | c[:, 1] << 12 | c[:, 2] << 6 | c[:, 3]
    return np.stack([word >> 16, word >> 8 & 255, word & 255], axis=-1).astype(np.uint8)


@pytest.mark.parametrize(("name", "make", "note"), NAMED, ids=[n[0] for n in NAMED])
def test_a_wrong_code_layout_is_named(name: str, make: Callable[[Any], Any], note: str) -> None:
    report = check(target(LAYOUTS=[name], pack=lambda codes, _: make(codes)))
    place = next(r for r in report.requirements if r.id == f"pack/{name}/place")
    assert (place.verdict, place.note) == (Verdict.FAIL, note)
    assert place.first is not None
    assert place.first.steps


def test_scale_after_the_codes_is_named() -> None:
    def pack_blocks(codes: Any, scales: Any, layout: str) -> Any:
        record = layouts.pack_blocks(codes, scales, layout).reshape(-1, 17)
        return np.concatenate([record[:, 1:], record[:, :1]], axis=1)

    report = check(target(LAYOUTS=["ggml-mxfp4"], pack_blocks=pack_blocks))
    notes = {r.note for r in report.requirements if r.topic not in ("call-size", "memory", "state", "refusal")}
    assert notes == {"as if the scale stood after the codes"}


def test_every_slip_differs_from_the_right_bytes() -> None:
    """Each slip changes at least one layout's vectors: none is an empty threat."""
    for mistake in MISTAKES:
        changed = False
        for layout in ALL:
            for case in load_layout_file(layout.name).cases:
                try:
                    made = mistake.make(layout, case.parts, case.data)
                except ValueError:
                    continue
                if made is not None and (made.shape != case.data.shape or ((made ^ case.data) & case.mask).any()):
                    changed = True
        assert changed, mistake.what


def test_cropped_output_fails_with_both_sizes() -> None:
    report = check(target(LAYOUTS=["128x4"], swizzle=lambda s, n: layouts.pack(s, n)[: s.size]))
    place = next(r for r in report.requirements if r.id == "swizzle/128x4/place")
    assert place.verdict is Verdict.FAIL
    assert place.note == "as if the padding were cut off"
    assert place.first is not None
    assert "1 bytes came back; 128x4 takes 512" in place.first.steps[0]


def test_padding_of_ones_fails_where_zeros_are_specified_and_nowhere_else() -> None:
    def swizzle(scales: Any, name: str) -> Any:
        right = layouts.pack(scales, name)
        return np.where(get_layout("128x4").mask(scales.shape) == 0, np.uint8(0x7F), right)

    found = verdicts(check(target(LAYOUTS=["128x4", "128x4-zeroed"], swizzle=swizzle)))
    topics = ("padding", "call-size", "memory", "state")  # wherever inputs lie
    assert {i for i, v in found.items() if v is not Verdict.PASS} == {f"swizzle/128x4-zeroed/{t}" for t in topics}


def test_unwritten_padding_shows_in_a_dirty_buffer() -> None:
    def swizzle(scales: Any, name: str, out: Any) -> None:
        written = get_layout("128x4").mask(scales.shape) != 0
        out[written] = layouts.pack(scales, name)[written]

    found = verdicts(check(target(LAYOUTS=["128x4", "128x4-zeroed"], swizzle=swizzle)))
    topics = ("padding", "call-size", "memory", "state")  # wherever inputs lie
    assert {i for i, v in found.items() if v is not Verdict.PASS} == {f"swizzle/128x4-zeroed/{t}" for t in topics}


def test_garbage_in_gaps_does_not_matter() -> None:
    def pack(codes: Any, name: str) -> Any:
        return layouts.pack(codes, name) | ~get_layout(name).mask(codes.shape)

    names = ["fp4-align16", "fp6-align16", "fp4-in-bytes-shifted"]
    assert set(verdicts(check(target(LAYOUTS=names, pack=pack))).values()) == {Verdict.PASS}


def test_a_reader_that_trusts_padding_fails() -> None:
    """The judge fills undefined bytes before it passes them."""

    def unswizzle(data: Any, name: str, shape: tuple[int, ...]) -> Any:
        if (data[layouts.get_layout(name).mask(shape) == 0] != 0).any():
            raise ValueError("padding is not zero")
        return layouts.unpack(data, name, shape)

    found = verdicts(check(target(LAYOUTS=["128x4"], unswizzle=unswizzle)))
    assert found["unswizzle/128x4/place"] is Verdict.ERROR


def test_a_wrong_reader_is_named() -> None:
    report = check(target(LAYOUTS=["nibble-low"], unpack=lambda d, _, s: layouts.unpack(d, "nibble-high", s)))
    place = next(r for r in report.requirements if r.id == "unpack/nibble-low/place")
    assert (place.verdict, place.note) == (Verdict.FAIL, "these are the bytes of layout nibble-high")
    assert place.first is not None
    assert place.first.expected != place.first.returned


@pytest.mark.parametrize(
    "convert", [bytes, bytearray, lambda d: d.view(np.int8), lambda d: d.reshape(4, -1) if d.size % 4 == 0 else d,
                lambda d: d.view(np.int32) if d.size % 4 == 0 else d],
)  # fmt: skip
def test_bytes_may_come_in_any_integer_array(convert: Callable[[Any], Any]) -> None:
    report = check(target(LAYOUTS=["nibble-low"], pack=lambda c, n: convert(layouts.pack(c, n))))
    assert set(verdicts(report).values()) == {Verdict.PASS}


def test_unlisted_layouts_may_be_refused() -> None:
    def pack(codes: Any, name: str) -> Any:
        if name != "nibble-low":
            raise NotImplementedError(name)
        return layouts.pack(codes, name)

    found = verdicts(check(target(pack=pack)))
    assert found.pop("pack/nibble-low/place") is Verdict.PASS
    for topic in ("batch", "call-size", "memory", "state", "refusal"):
        assert found.pop(f"pack/nibble-low/{topic}") is Verdict.PASS
    assert set(found.values()) == {Verdict.UNSUPPORTED}


def test_floats_are_no_bytes() -> None:
    report = check(target(LAYOUTS=["nibble-low"], pack=lambda c, n: layouts.pack(c, n).astype(np.float32)))
    assert {r.verdict for r in report.requirements} == {Verdict.ERROR}
    assert "return bytes, or an array of integers" in report.requirements[0].note


def test_a_wrong_shape_is_reported() -> None:
    report = check(target(LAYOUTS=["nibble-low"], unpack=lambda d, n, s: layouts.unpack(d, n, s).reshape(-1)))
    assert "unpack returned codes of shape" in report.requirements[0].note


def test_an_unknown_layout_in_the_list_is_refused() -> None:
    with pytest.raises(TargetError, match=r"LAYOUTS names 'nibble-middle'; allowed are bytes"):
        check(target(LAYOUTS=["nibble-middle"], pack=layouts.pack))


def changed(is_wrong: Callable[[Any], bool]) -> Callable[[Any, str], Any]:
    """The right bytes, but for the last one of some calls."""

    def pack(items: Any, name: str) -> Any:
        data = layouts.pack(items, name)
        if is_wrong(items):
            data[-1] ^= 1
        return data

    return pack


CALLS: list[tuple[str, Callable[[Any], bool]]] = [
    ("nibble-low-flat", lambda x: x.ndim == 2 and x.shape[1] % 2 == 1 and x.shape[0] > 64),
    ("fp6-le", lambda x: x.ndim == 2 and x.shape[0] > 1024 and x.shape[0] % 2 == 1 and x.shape[1] < 32),
    ("nibble-low", lambda x: x.ndim == 2 and x.shape[1] > 8192),
    ("bytes", lambda x: x.ndim == 3 and x.shape[1] > 128),
    ("bytes", lambda x: x.ndim == 3 and x.shape[2] % 4 != 0 and x.shape[2] > 4),
    ("bytes", lambda x: x.ndim == 3 and len(x) > 4),
]  # fmt: skip


@pytest.mark.all_calls
@pytest.mark.parametrize(("name", "is_wrong"), CALLS)
def test_ragged_tiles_long_rows_and_many_matrices_are_tested(name: str, is_wrong: Callable[[Any], bool]) -> None:
    found = verdicts(check(target(LAYOUTS=[name], pack=changed(is_wrong))))
    assert {i for i, v in found.items() if v is not Verdict.PASS} == {f"pack/{name}/call-size"}


@pytest.mark.all_calls
def test_rows_of_an_odd_number_of_blocks_are_tested() -> None:
    def pack_blocks(codes: Any, scales: Any, name: str) -> Any:
        data = layouts.pack_blocks(codes, scales, name)
        if scales.ndim == 2 and scales.shape[1] > 8 and scales.shape[1] % 2:
            data[-1] ^= 1
        return data

    found = verdicts(check(target(LAYOUTS=["ggml-mxfp4"], pack_blocks=pack_blocks)))
    assert {i for i, v in found.items() if v is not Verdict.PASS} == {"pack_blocks/ggml-mxfp4/call-size"}


def test_a_target_of_layouts_is_named_so() -> None:
    report = check(target(LAYOUTS=["nibble-low"], pack=layouts.pack))
    console = Console(width=120)
    with console.capture() as shown:
        console.print(summary_table([report]))
    assert "layouts" in shown.get()
    assert "elements" not in shown.get()
