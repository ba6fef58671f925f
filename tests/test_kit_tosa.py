"""The kit for TOSA's test runner, with a stand-in for the runner's base class: the package tosa-tools is not required here."""

from __future__ import annotations

import importlib.util
import json
import sys
from enum import IntEnum
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxspec
from mxspec_conformance.adapters.tosa import ELEMENTS, SystemUnderTest, pack, unpack
from mxspec_conformance.kits.writing import write_kit

KERNEL = """
import mxspec
FORMATS = ("mxfp4", "mxfp6_e3m2", "mxfp8_e4m3")
def quantize(x, fmt):
    if x[0, 0] == 777:
        raise ValueError("seven")
    t = mxspec.quantize(x, fmt, profile="mx-even")
    return t.codes, t.scales
def dequantize(codes, scales, fmt):
    return mxspec.dequantize(codes, scales, fmt, profile="mx-even")
"""


class Base:
    """What the kit uses of TosaTestRunner."""

    class TosaGraphResult(IntEnum):
        """As the runner has them."""

        TOSA_VALID = 0
        OTHER_ERROR = 3

    def __init__(self, args: Any, given: list[str], path: Path) -> None:
        self.testDirPath, self.testDesc = path, json.loads((path / "desc.json").read_text("utf-8"))

    def skipTest(self) -> tuple[bool, str]:  # noqa: N802
        """Nothing more is skipped."""
        return False, ""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "mxspec_tosa_sut.py").write_bytes(write_kit("tosa")["mxspec_tosa_sut.py"])
    (tmp_path / "kernel.py").write_text(KERNEL, "utf-8")
    stand_in = ModuleType("runner.tosa_test_runner")
    stand_in.TosaTestRunner = Base  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "runner", ModuleType("runner"))
    monkeypatch.setitem(sys.modules, "runner.tosa_test_runner", stand_in)
    spec = importlib.util.spec_from_file_location("mxspec_tosa_sut", tmp_path / "mxspec_tosa_sut.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def run(module: Any, folder: Path, operator: str, given: dict[str, Any], wanted: dict[str, tuple[int, ...]]) -> tuple[Any, list[Any]]:
    """The outcome of a test folder of these inputs, by their types."""
    folder.mkdir()
    for i, array in enumerate(given.values()):
        np.save(folder / f"input-{i}.npy", array)
    tensors = {f"input-{i}": {"data_type": dtype} for i, dtype in enumerate(given)}
    results = [f"result-{i}.npy" for i in range(len(wanted))]
    details = {"operator": operator, "output_types": list(wanted), "output_shapes": [list(s) for s in wanted.values()]}
    desc = {
        "ifm_file": [f"{n}.npy" for n in tensors],
        "ofm_file": results,
        "meta": {"data_gen": {"tensors": tensors}},
        "test_details": details,
    }
    (folder / "desc.json").write_text(json.dumps(desc), "utf-8")
    system = module.TosaSUTRunner(None, [f"target={folder.parent / 'kernel.py'}"], folder)
    skipped, why = system.skipTest()
    if skipped:
        return why, []
    return system.runTestGraph(), [np.load(folder / n) for n in results if (folder / n).exists()]


def test_a_target_answers_the_runners_tests(module: Any, tmp_path: Path) -> None:
    x = np.random.default_rng(3).standard_normal((3, 2, 64)).astype(np.float32)
    for n, fmt in enumerate(("mxfp4", "mxfp6_e3m2", "mxfp8_e4m3")):
        want = mxspec.quantize(x.reshape(-1, 64), fmt, profile="mx-even")
        shapes = {ELEMENTS[fmt]: x.shape, "FP8UE8M0": (3, 2, 2)}
        (said, why), (codes, scales) = run(module, tmp_path / f"to{n}", "CAST_TO_BLOCK_SCALED", {"FP32": x}, shapes)
        assert (said, why) == (Base.TosaGraphResult.TOSA_VALID, None)
        assert codes.shape == (3, 2, {"mxfp4": 32, "mxfp6_e3m2": 48}.get(fmt, 64))
        assert (unpack(codes, fmt).reshape(-1, 64) == want.codes).all()
        assert (scales.view(np.uint8).reshape(-1, 2) == want.scales).all()
        given = {ELEMENTS[fmt]: codes, "FP8UE8M0": scales}
        _, (y,) = run(module, tmp_path / f"from{n}", "CAST_FROM_BLOCK_SCALED", given, {"BF16": x.shape})
        back = mxspec.dequantize(want.codes, want.scales, fmt, profile="mx-even").astype(ml_dtypes.bfloat16)
        assert (y.view(np.uint16).reshape(-1, 64) == back.view(np.uint16)).all()


def test_what_it_cannot_run_is_said(module: Any, tmp_path: Path) -> None:
    why, _ = run(module, tmp_path / "add", "ADD", {"FP32": np.zeros(32, np.float32)}, {"FP32": (32,)})
    assert why == "operator ADD"
    shapes: dict[str, tuple[int, ...]] = {"FP8E5M2": (1, 32), "FP8UE8M0": (1, 1)}
    why, _ = run(module, tmp_path / "e5m2", "CAST_TO_BLOCK_SCALED", {"FP32": np.zeros((1, 32), np.float32)}, shapes)
    assert why == "format mxfp8_e5m2"
    shapes = {"FP8E4M3": (1, 32), "FP8UE8M0": (1, 1)}
    (said, why), made = run(module, tmp_path / "raises", "CAST_TO_BLOCK_SCALED", {"FP32": np.full((1, 32), 777, np.float32)}, shapes)
    assert said == Base.TosaGraphResult.OTHER_ERROR
    assert "seven" in why
    assert not made
    with pytest.raises(ValueError, match="0 targets are named"):
        module.TosaSUTRunner(None, [], tmp_path / "add")
    with pytest.raises(ValueError, match="MX_TOSA_SUT"):
        SystemUnderTest("")


@pytest.mark.parametrize("fmt", ELEMENTS)
def test_files_hold_what_was_packed(fmt: str) -> None:
    codes = np.arange(64, dtype=np.uint8).reshape(2, 32) & (15 if fmt == "mxfp4" else 63)
    assert (unpack(pack(codes, fmt), fmt) == codes).all()
