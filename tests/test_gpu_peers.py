"""Libraries on a GPU: one code path with the CPU, what results name, and what reports/gpu/README.md says of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mxspec_conformance.adapters import _cuda, torchao
from mxspec_conformance.adapters.registry import Kept, known_adapters

from tests.peers.gpu_peers import HEAD, describe_result, keep_records, list_counterparts, list_targets

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "reports" / "gpu"
KNOWN = known_adapters()


def read(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text("ascii"))


@pytest.mark.parametrize("name", list_targets())
def test_the_page_shows_what_was_found(name: str) -> None:
    page = (ROOT / "reports" / "gpu" / "README.md").read_text("utf-8")
    assert HEAD in page
    assert describe_result(name, FOLDER) in page, "put what `python tests/peers/gpu_peers.py --markdown` prints into reports/gpu/README.md"


@pytest.mark.parametrize("name", list_targets())
def test_a_result_names_chip_driver_and_versions(name: str) -> None:
    environment = read(name)["environment"]
    assert environment["device"] in ("NVIDIA H200", "NVIDIA H100 80GB HBM3")
    assert set(environment["libraries"]) == {"torch", "triton", "NVIDIA driver"}


def test_the_comparisons_are_of_every_target_and_its_counterpart() -> None:
    records = {r["target"]: r for r in read("peers-h200")["targets"]}
    same_bits = {n for n in list_counterparts() if n.startswith("microxcaling")}  # nothing to explain
    assert set(records) == {*list_targets(), *list_counterparts()} - same_bits
    for name in same_bits:
        assert records[f"{name}-cuda"]["different"] == 0
    assert {r["environment"]["libraries"]["torch"] for r in records.values()} == {"2.11.0"}


def test_eight_libraries_were_judged_on_a_gpu() -> None:
    assert len({KNOWN[KNOWN[name].counterpart].library.name for name in list_targets()}) >= 8


def test_a_target_on_a_gpu_is_that_on_the_cpu_with_another_device() -> None:
    for name in list_targets():
        adapter = KNOWN[name]
        counterpart = KNOWN[adapter.counterpart]
        assert counterpart.kept is Kept.PEER
        assert adapter.library.imports == counterpart.library.imports
        assert set(counterpart.profiles) <= set(adapter.profiles)  # type: ignore[arg-type]  # an interpreter follows none


def _torch(available: bool) -> ModuleType:
    module = ModuleType("torch")
    vars(module)["cuda"] = SimpleNamespace(is_available=lambda: available, get_device_name=lambda: "a chip")
    return module


def test_make_requests_the_gpu_and_says_what_lies_beneath(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def make(device: str) -> SimpleNamespace:
        asked.append(device)
        return SimpleNamespace()

    monkeypatch.setitem(sys.modules, "torch", _torch(True))
    monkeypatch.setattr(_cuda, "list_versions", lambda: {"NVIDIA driver": "1"})
    target = _cuda._make(make)
    assert asked == ["cuda"]
    assert target.MXSPEC_SURROUNDINGS == {"device": "a chip", "libraries": {"NVIDIA driver": "1"}}


def test_without_a_gpu_the_target_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", _torch(False))
    with pytest.raises(ImportError, match="no CUDA device"):
        KNOWN["torch-casts-cuda"].make()


def test_records_of_targets_that_were_not_run_stay(tmp_path: Path) -> None:
    path = tmp_path / "peers.json"
    keep_records(path, [{"target": "b", "n": 1}, {"target": "a", "n": 1}])
    keep_records(path, [{"target": "b", "n": 2}])
    assert json.loads(path.read_text("ascii"))["targets"] == [{"target": "a", "n": 1}, {"target": "b", "n": 2}]


def test_parts_of_one_shape_give_the_blocks_back() -> None:
    x = np.arange(5 * 96, dtype=np.float32).reshape(5, 96)
    parts = torchao._cut(x, 32)
    assert {p.shape for p in parts} == {(torchao._PART, 32)}
    assert np.array_equal(torchao._join(parts, 15, 5), x)
    assert torchao._cut(np.zeros((torchao._PART + 1, 1), np.uint8), 1)[1].shape == (torchao._PART, 1)


def test_parts_do_not_hide_scales_that_are_missing() -> None:
    target = torchao._Compiled.__new__(torchao._Compiled)
    with pytest.raises(ValueError, match="15 scales do not fit 640 codes"):
        target.dequantize(np.zeros((5, 128), np.uint8), np.zeros((5, 3), np.uint8), "mxfp4")
