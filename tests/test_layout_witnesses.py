"""Layouts against libraries that we did not write: the light ones here, the others by their committed record."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxspec import layouts
from mxspec.layouts import Evidence

from tests.peers.layouts.compare import Comparison, compare_packed, digest_layout, number_items
from tests.peers.layouts.record import tally
from tests.peers.layouts.run_layouts import LIBRARIES, ONCE

RECORD = Path(__file__).resolve().parents[1] / "reports" / "peers" / "layouts.json"
ROWS: list[dict[str, Any]] = [
    {**row, "library": document["library"]} for document in json.loads(RECORD.read_text("ascii"))["libraries"] for row in document["rows"]
]


@pytest.mark.parametrize("name", ["gguf_py", "mlx_py", "onnx_py"])
def test_light_library_agrees(name: str) -> None:
    pytest.importorskip(name.removesuffix("_py"))
    rows = tally(importlib.import_module(f"tests.peers.layouts.{name}").compare())
    assert rows
    assert sum(row["compared"] for row in rows) > 1000
    assert [row for row in rows if row["different"]] == []
    recorded = {(row["layout"], row["direction"]): row["compared"] for row in ROWS if row["library"] == name}
    assert {(row["layout"], row["direction"]): row["compared"] for row in rows} == recorded


def test_every_library_is_recorded() -> None:
    assert {row["library"] for row in ROWS} == {*LIBRARIES, *ONCE}


@pytest.mark.parametrize("layout", sorted({row["layout"] for row in ROWS}))
def test_record_is_of_this_layout_and_shows_no_difference(layout: str) -> None:
    for row in ROWS:
        if row["layout"] == layout:
            assert row["digest"] == digest_layout(layouts.get_layout(layout)), (
                f"run: python tests/peers/layouts/run_layouts.py {row['library']}"
            )
            assert row["compared"] > 0
            assert row["different"] == 0, row


def test_measured_layouts_are_those_on_record() -> None:
    measured = {x.name for x in layouts.list_layouts() if x.evidence is Evidence.MEASURED}
    assert measured == {row["layout"] for row in ROWS}


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (127, 3), (129, 9)])
@pytest.mark.parametrize("codes", [2, 16, (4, 8, 9, 12, 13, 14), 256])
def test_numbered_items_tell_every_item_apart(shape: tuple[int, int], codes: int | tuple[int, ...]) -> None:
    planes = np.stack([p.reshape(-1) for p in number_items(shape, codes)])
    assert len(np.unique(planes, axis=1).T) == shape[0] * shape[1]


@pytest.mark.parametrize(
    ("layout", "other"), [("awq", "gptq"), ("128x4", "row-major"), ("nibble-low", "nibble-high"), ("hopper-scale-4", "hopper-scale-8")]
)
def test_another_layout_would_show(layout: str, other: str) -> None:
    codes = 1 << layouts.get_layout(layout).main.packing.width
    found = list(compare_packed(layout, (512, 8), lambda items: layouts.pack(items, other), codes=codes))
    assert sum(c.different for c in found)


def test_a_single_wrong_item_shows() -> None:
    items = next(number_items((300, 7), 256))
    right = layouts.pack(items, "128x4-zeroed")
    wrong = right.copy()
    wrong[[5, 21]] = wrong[[21, 5]]
    comparison = Comparison("128x4-zeroed", "pack", (300, 7), right, wrong)
    assert comparison.different == 2
    assert comparison.first == f"at 5: {right[5]} against {right[21]}"
    assert replace(comparison, theirs=wrong[:-1]).different == right.size
    mask = np.full(right.size, 255, np.uint8)
    mask[[5, 21]] = 0
    assert replace(comparison, mask=mask).different == 0


def test_the_digest_notices_every_fact() -> None:
    layout = layouts.get_layout("128x4")
    field = layout.main
    changed = [
        replace(layout, fields=(replace(field, pattern="(M r:32 i:4) (C c:4) -> M C r i c"),)),
        replace(layout, fields=(replace(field, stored=tuple(range(256))),)),
        replace(layout, pad_to=(128, 8)), replace(layout, fill=1), replace(layout, gap=0), replace(layout, word=4),
        replace(layout, flat=True),
    ]  # fmt: skip
    assert len({digest_layout(x) for x in (layout, *changed)}) == len(changed) + 1
    assert digest_layout(replace(layout, users=(), source="", summary="")) == digest_layout(layout)
