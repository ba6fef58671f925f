"""What the GPU's benchmarks share, without a GPU: the shares of a row, and a report that is whole or not there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mxspec_gpu import bench_reports
from mxspec_gpu.bench_rows import describe_row
from mxspec_gpu.ceilings import Ceilings
from mxspec_gpu.tasks import TASKS, count_bytes
from mxspec_gpu.timing import Timing

BANDWIDTH = {"copy": 4e12, "read": 2e12}


class Known(Ceilings):
    """Ceilings that nothing measures."""

    def find(self, read: int, written: int) -> float:
        return 5e-7


@pytest.mark.parametrize(("moved", "against", "percent"), [((1_000_000, 1_000_000), "copy", 50.0), ((1_000_000, 0), "read", 50.0)])
def test_a_row_is_a_share_of_what_it_is_held_against(moved: tuple[int, int], against: str, percent: float) -> None:
    row = describe_row("some", (64, 32), moved, Timing(1e-6, 9e-7, 2e-6, "graph"), Known(BANDWIDTH))
    assert (row["size"], row["against"], row["percent"], row["percent_of_mix"]) == ("64 x 32", against, percent, 50.0)
    assert (row["microseconds"], row["quartiles"], row["method"]) == (1.0, [0.9, 2.0], "graph")
    assert row["bytes"] == {"read": moved[0], "written": moved[1]}


def test_scales_of_groups_are_four_bytes() -> None:
    rows = {t.fmt: count_bytes(t, (256, 1024)) for t in TASKS if t.kind == "quantize" and t.fmt in ("fp8_e4m3-128", "fp8_e4m3-128-f32")}
    assert rows == {"fp8_e4m3-128": (256 * 1024 * 2, 256 * 1024 + 256 * 8), "fp8_e4m3-128-f32": (256 * 1024 * 2, 256 * 1024 + 256 * 8 * 4)}


def test_a_report_holds_its_run_and_replaces_another_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Any] = []
    monkeypatch.setattr(bench_reports, "build_here", built.extend)
    monkeypatch.setattr(bench_reports, "describe_environment", lambda: {"device": "none"})
    monkeypatch.setattr(bench_reports, "measure_bandwidths", lambda: {"copy": 1.6, "read": 1.2})
    out = tmp_path / "new" / "report.json"
    monkeypatch.setattr("sys.argv", ["bench", "--out", str(out)])
    parts: dict[str, Callable[[Ceilings], Any]] = {"rows": lambda ceilings: [ceilings.bandwidth["copy"]], "more": lambda _: 2}
    assert bench_reports.run_command(None, "a try", [], parts) == 0
    assert json.loads(out.read_text("utf-8"))["more"] == 2
    monkeypatch.setattr("sys.argv", ["bench", "--out", str(out), "--only", "rows"])
    assert bench_reports.run_command(None, "a try", [], parts) == 0
    report = json.loads(out.read_text("utf-8"))
    assert list(report) == ["what", "device", "least_sets_of_buffers", "bandwidth", "rows", "mixes"]
    assert (report["what"], report["bandwidth"], report["rows"]) == ("a try", {"copy": 2, "read": 1}, [1.6])
    with pytest.raises(TypeError):
        bench_reports.write_report(out, {"what": object()})
    assert json.loads(out.read_text("utf-8")) == report
