"""The measured conversion of a checkpoint of 2 GB: it is there, it is of this source, and it meets its bar."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.containers.measure_convert import BAR, SHAPES, WAYS

REPORT = Path(__file__).resolve().parents[1] / "reports/containers/convert.json"


def test_report_is_of_what_the_command_measures() -> None:
    report = json.loads(REPORT.read_text("ascii"))
    assert report["source"]["shapes"] == {n: list(s) for n, s in SHAPES.items()}
    assert report["source"]["bytes"] > 2_000_000_000
    ways = [(r["from"], r["to"]) for r in report["conversions"]]
    assert ways == [pair for w in WAYS for pair in (("modelopt", w), (w, "modelopt"))]


@pytest.mark.parametrize("row", range(2 * len(WAYS)))
def test_conversion_stays_within_memory_and_returns(row: int) -> None:
    found = json.loads(REPORT.read_text("ascii"))["conversions"][row]
    assert found["peak_rss_bytes"] <= BAR
    assert found["elements"] == sum(a * b for a, b in SHAPES.values())
    assert found.get("same_bytes", True)
