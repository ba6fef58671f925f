"""MLIR's folding as a target: the text that it is given, and what is read from what it leaves, by a program that stands for mlir-opt."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import numpy as np
import pytest

import mxspec
from mxspec_conformance.adapters.registry import known_adapters

#: Folds E4M3 as MLIR does, or leaves NaN as they are: constants once each, in another order than they are returned.
PROGRAM = """#!{python}
import re, sys
import numpy as np, mxspec
if "--version" in sys.argv:
    print("Debian LLVM version 22.1.8")
    sys.exit()
text = sys.stdin.read()
codes = [int(c, 16) for c in re.findall(r"arith.constant 0x([0-9A-F]+) : f8E4M3FN", text)]
assert text.count("arith.extf") == text.count("arith.bitcast") == len(codes)
bits = mxspec.decode(np.array(codes, np.uint8), "e4m3").view(np.int32).tolist()
left = [] if {fold} else [b for b in bits if b & 0x7FFFFFFF > 0x7F800000]
print("module {{")
for value in sorted(set(bits) - set(left)):
    print(f"    %c{{value}}_i32 = arith.constant {{value}} : i32")
print("    return", ", ".join("%7" if b in left else f"%c{{b}}_i32" for b in bits), ":", ", ".join(["i32"] * len(bits)))
"""


def make_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fold: bool) -> object:
    program = tmp_path / "mlir-opt"
    program.write_text(PROGRAM.format(python=sys.executable, fold=fold))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("MXSPEC_MLIR_OPT", str(program))
    return known_adapters()["mlir-folding"].load()


@pytest.mark.skipif(sys.platform == "win32", reason="a script as a program")
def test_constants_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = make_target(tmp_path, monkeypatch, fold=True)
    codes = np.array([[0x7F, 1, 0x81], [1, 0, 0x7E]], np.uint8)
    found = target.decode(codes, "e4m3")  # type: ignore[attr-defined]
    assert found.dtype == np.float32
    assert (found.view(np.uint32) == mxspec.decode(codes, "e4m3").view(np.uint32)).all()
    assert target.VERSION == "22.1.8"  # type: ignore[attr-defined]
    with pytest.raises(NotImplementedError, match="no type for int8"):
        target.decode(codes, "int8")  # type: ignore[attr-defined]


@pytest.mark.skipif(sys.platform == "win32", reason="a script as a program")
def test_what_is_not_folded_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = make_target(tmp_path, monkeypatch, fold=False)
    with pytest.raises(NotImplementedError, match="does not fold"):
        target.decode(np.array([0x7F, 1], np.uint8), "e4m3")  # type: ignore[attr-defined]


def test_without_the_program_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MXSPEC_MLIR_OPT", raising=False)
    with pytest.raises(ImportError, match="MXSPEC_MLIR_OPT is not set"):
        known_adapters()["mlir-folding"].load()
