"""Pages of the atlas that are rendered from the model itself, or from measurements: layouts, words of bits, the model level."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxspec.expressions import AMAX, SCALED, SF, TMAX, Domain, G, M, Q, S, X
from mxspec.formats import FLOAT32, get_scalar
from mxspec.layouts import get_layout, list_layouts
from mxspec.profiles import list_profiles
from mxspec.rounding import Rounding
from mxspec_conformance.atlas.layouts import MOST_BYTES, view_layout
from mxspec_conformance.atlas.measured import make_part
from mxspec_conformance.atlas.reading import read_collection
from mxspec_conformance.atlas.site import Site
from mxspec_conformance.render.bits import draw_code, write_word
from mxspec_conformance.render.profile import list_steps, list_symbols

ATLAS = Path(__file__).resolve().parents[1] / "reports" / "atlas"
#: One of each kind: whole bytes, nibbles, codes across bytes, tiles, two parts in a record, rows that begin within a byte.
NAMES = ("bytes", "nibble-high", "fp6-le", "fp6-planes", "128x4", "ggml-mxfp4", "nibble-low-flat", "hopper-value-mma-16", "awq")


def pack_one(name: str, part: int, row: int, column: int) -> set[int]:
    """The bytes that change where one item has all its bits set."""
    layout = get_layout(name)
    shape = view_layout(layout).shape
    given = [np.zeros((shape[0], shape[1] // f.covers), np.uint8) for f in layout.fields]
    empty = layout.pack(*given)
    given[part][row, column] = (1 << layout.fields[part].packing.width) - 1
    return {int(i) for i in np.flatnonzero(layout.pack(*given) != empty)}


@pytest.mark.parametrize("name", NAMES)
def test_a_drawn_item_lies_where_packing_puts_it(name: str) -> None:
    view = view_layout(get_layout(name))
    held, *grids = view.grids
    fields = [cell for _, cells in held.lines for cell in cells]
    assert len(fields) == min(MOST_BYTES, view.layout.size(view.shape))
    for part, grid in enumerate(grids):
        places = [(int(head), column, cell) for head, cells in grid.lines for column, cell in enumerate(cells)]
        for row, column, cell in places[:: max(1, len(places) // 9)]:
            due = pack_one(name, part, row, column)
            assert {int(n) for n in re.findall(r"byte (\d+)", cell.title)} == due == {int(n) for n in cell.text.split("+")}
            assert cell.title.startswith(f"row {row}, column {column}: ")
            for byte in due & set(range(len(fields))):
                assert fields[byte].title.startswith(f"byte {byte} ({byte:#x}): ")
                assert f"row {row}, column {column}" in fields[byte].title


def test_every_layout_has_a_page_that_says_it_all() -> None:
    site = Site(read_collection([]))
    site._add_layouts()
    pages = {name: text.decode() for name, text in site._files.items()}
    assert {f"l/{layout.name}.html" for layout in list_layouts()} < set(pages)
    for view in site.layouts:
        text = unescape(pages[f"l/{view.layout.name}.html"])
        assert all(f.byte.text in text and f.pattern in text for f in view.layout.fields)
        assert text.count("<td title=") + text.count("<td class=r") == sum(len(cells) for g in view.grids for _, cells in g.lines)
        assert view.layout.name in pages["layouts.html"]


def test_a_word_of_bits_holds_its_bits_and_marks_what_differs() -> None:
    e2m1 = get_scalar("e2m1")
    text = str(write_word(draw_code(5, e2m1, 7)))
    assert text == '<span class="word wrong"><b>5</b><span><i class=s>0</i><i class=e>1<b>0</b></i><i class=f>1</i></span><em>3</em></span>'
    nan = str(write_word(draw_code(0xFFC00001, FLOAT32)))
    assert re.sub(r"<[^>]+>", "", nan) == f"ffc00001{0xFFC00001:032b}NaN"
    assert nan.startswith("<span class=word>")
    assert "class=x" in str(write_word(draw_code(0x1F, e2m1)))


# The model level


def load(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((ATLAS / f"{name}.json").read_text("ascii"))
    return document


def test_the_model_page_shows_both_measurements_and_their_limits() -> None:
    site = Site(read_collection([ATLAS / "model.json", ATLAS / "transformer.json"]))
    site._add_tables()
    text = unescape(site._files["model.html"].decode())
    for document in (load("model"), load("transformer")):
        assert document["command"] in text
        assert all(limit in text for limit in document["not_shown"])
    for row in load("transformer")["rows"][1:]:
        assert f"{100 * (row['ratio'] - 1):.2f} ± {100 * row['ratio_standard_error']:.2f}" in text


def test_bars_are_as_long_as_what_they_say() -> None:
    document = load("transformer")
    added, kept, *layers = make_part("transformer", "", document).plots
    by_label = {f"{r['format']}, {r['rule']}": r for r in document["rows"]}
    most = max(r["ratio"] - 1 for r in document["rows"])
    for bar in added.bars:
        assert bar.share == max(0.0, (by_label[bar.label]["ratio"] - 1) / most)
    assert all(bar.share == by_label[bar.label]["greedy_token_match"] for bar in kept.bars)
    assert len(layers) == 3
    assert max(bar.share for bar in layers[0].bars) == 1


def test_a_measurement_that_lacks_what_is_drawn_is_refused(tmp_path: Path) -> None:
    document = load("transformer")
    del document["rows"][1]["ratio"]
    (tmp_path / "t.json").write_text(json.dumps(document), "ascii")
    with pytest.raises(ValueError, match=r"t\.json: \$\.rows\[1\]: 'ratio' is missing"):
        read_collection([tmp_path / "t.json"])


def test_every_symbol_of_a_profile_s_steps_is_explained() -> None:
    names = [leaf.name for leaf in (X, AMAX, TMAX, S, G, SF, Q, M, SCALED)] + ["emax", *(r.value for r in Rounding if r is not Rounding.SR)]
    names += [f"_{domain.value}" for domain in Domain if domain is not Domain.EXACT]
    for profile in list_profiles():
        text = " ".join(row.value for row in list_steps(profile))
        used = {
            name
            for name in names
            if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w.-])" if name[0] != "_" else rf"{re.escape(name)}(?![\w.])", text)
        }
        assert "x" in used
        assert used <= {name for name, _ in list_symbols(profile)}, profile.id


def test_pairs_of_the_interop_matrix_are_counted_by_verdict() -> None:
    document = json.loads((ATLAS / "interop.json").read_text("ascii"))
    (plot,) = make_part("interop", "", document).plots
    counts = [re.fullmatch(r"(\d+) of (\d+); (\d+) except for signs of zero, (\d+) wrong", bar.text) for bar in plot.bars]
    assert all(c is not None and int(c[2]) == int(c[1]) + int(c[3]) + int(c[4]) for c in counts)
    assert sum(int(c[2]) for c in counts if c is not None) == len(document["rows"])
