"""What does not load has a message that says what to do."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mxspec_conformance.judge.check import check
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.transports.loading import load_target

QUANTIZE = "\ndef quantize(x, fmt): pass"
#: A file's text, which for the most part is no Python that could stand in a file of ours; what the message contains.
UNLOADABLE: dict[str, tuple[str, str]] = {
    "does not import": ("import no_such_module_at_all", "does not import: ModuleNotFoundError: No module named 'no_such"),
    "raises": ("1 / 0", "does not import: ZeroDivisionError: division by zero"),
    "exits": ("import sys; sys.exit(5)", "does not import: SystemExit: 5"),
    "syntax error": ("def quantize(x, fmt:\n    pass", r", line \d+: .*; the file is not valid Python"),
    "null byte": ("x = 1\0", "(not valid Python|does not import)"),
    "nothing": ("x = 1", "defines none of the functions quantize, quantize_fused, dequantize"),
    "near names": ("decode = 3\ndef dequantise(c, s, f): pass\ndef quantize_mx(x, f): pass", r"; did you mean dequantize for dequantise, quantize for quantize_mx\?"),
    "not callable": ("FORMATS = ['mxfp4']\nquantize = 3", "defines none of the functions"),
    "no formats": (QUANTIZE, "has no FORMATS; list the block formats it supports: mxfp4, mxfp6"),
    "unknown format": ("FORMATS = ['mxfp5']" + QUANTIZE, "FORMATS names 'mxfp5'; allowed are mxfp4,"),
    "formats of None": ("FORMATS = None" + QUANTIZE, "FORMATS is a NoneType; write a name or a list"),
    "unknown element": ("ELEMENTS = ['e9m9']\ndef encode(x, e): pass", "ELEMENTS names 'e9m9'; allowed are e2m1,"),
    "unknown layout": (
        "FORMATS, LAYOUT = ['mxfp4'], 'nibble-middle'" + QUANTIZE,
        "LAYOUT names 'nibble-middle'; allowed for mxfp4 are unpacked, nibble-low, nibble-low-flat,",
    ),
    "unknown dtype": (
        "FORMATS, DTYPES = ['mxfp4'], ['float64']" + QUANTIZE, "DTYPES names 'float64'; allowed are float32"
    ),
    "unknown arrays": ("FORMATS, ARRAYS = ['mxfp4'], 'jax'" + QUANTIZE, "ARRAYS names 'jax'; allowed are"),
    "unknown kind": (
        "FORMATS, TENSOR_SCALE = ['nvfp4'], 'g'" + QUANTIZE, "TENSOR_SCALE names 'g'; allowed are decode, encode, amax"
    ),
    "unknown bits": ("FORMATS, SR_BITS = ['mxfp4'], 12" + QUANTIZE, "SR_BITS = 12; allowed are 32, 16, 8"),
}  # fmt: skip


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], str]:
    """Writes a target file; returns its path."""

    def write_target(source: str) -> str:
        path = tmp_path / "target.py"
        path.write_text(source + "\n", encoding="utf-8")
        return str(path)

    return write_target


@pytest.mark.parametrize("name", UNLOADABLE)
def test_what_does_not_load_has_a_message(write: Callable[[str], str], name: str) -> None:
    source, message = UNLOADABLE[name]
    path = write(source)
    with pytest.raises(TargetError, match=message) as raised:
        check(path, in_process=True)
    assert path in str(raised.value)


@pytest.mark.parametrize("name", ["syntax error", "exits", "unknown layout"])
def test_what_does_not_load_has_the_same_message_from_a_process(write: Callable[[str], str], name: str) -> None:
    source, message = UNLOADABLE[name]
    with pytest.raises(TargetError, match=message):
        check(write(source))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("no/such/file.py", r"no/such/file\.py does not exist; pass a Python file, a module or a known library"),
        ("no_such_module_at_all", "is neither a file, an importable module nor a known library"),
        ("json", "defines none of the functions"),
        (os.devnull, "is no regular file|does not exist"),
    ],
)
def test_what_is_no_target(spec: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        check(spec, in_process=True)


def test_nothing_is_written_beside_a_target(write: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = Path(write("import helper_beside\nNAME, VERSION, FORMATS = 't', '1', ['mxfp4']\ndecode = helper_beside.decode\n"))
    path.with_name("helper_beside.py").write_text("def decode(codes, element): ...\n", encoding="utf-8")
    before = sorted(path.parent.rglob("*"))
    load_target(str(path))
    assert sorted(path.parent.rglob("*")) == before
    assert not sys.dont_write_bytecode
