"""The measured conversion and quantization of checkpoints of 2 GB: they are there, of these sources, and meet their bars."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.containers import measure_quantize
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


def test_quantization_stays_within_memory_and_time_and_goes_on_after_a_kill() -> None:
    found = json.loads((REPORT.parent / "quantize.json").read_text("ascii"))
    assert found["source"]["shapes"] == {n: list(s) for n, s in measure_quantize.SHAPES.items()}
    assert found["source"]["bytes"] > 2_000_000_000
    made = [r for r in found["runs"] if "to" in r]
    assert [(r["format"], r["to"]) for r in made] == list(measure_quantize.WAYS)
    assert all(r["peak_rss_bytes"] <= measure_quantize.BAR for r in found["runs"])
    assert made[0]["seconds"] <= measure_quantize.TIMES * found["copy"]["seconds"]
    assert found["killed"] == {"killed_in_the_middle": True, "resumed": True, "same_bytes": True}


def test_libraries_load_what_quantize_makes() -> None:
    found = json.loads((REPORT.parent / "loaded.json").read_text("ascii"))
    assert {r["format"] for r in found["loaded"]} == {"mxfp4", "mxfp6_e2m3", "mxfp8_e4m3", "nvfp4"}
    assert all(r["different"] == 0 and r["values"] > r["quantized"] > 0 for r in found["loaded"])
