"""The doors of files, texts and declarations: what comes through, and that everything else is refused in words."""

from __future__ import annotations

import contextlib
import enum
import json
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mxspec
from mxspec_conformance.campaign import open_state
from mxspec_conformance.cli.parameters import is_same_file
from mxspec_conformance.targets.answers import CHECKS, is_answer
from mxspec_conformance.targets.declared import describe_target, read_capabilities, write_capabilities
from mxspec_conformance.targets.errors import CallError, FailureKind, TargetError
from mxspec_conformance.targets.marshalling import Marshaller
from mxspec_conformance.targets.sessions import FailureBudget
from mxspec_conformance.targets.texts import clean_text
from mxspec_conformance.transports.launching import is_stdlib, stdlib_first
from mxspec_vectors.reading import NotJson, UnreadableFile, parse_json, read_json, read_regular

posix = pytest.mark.skipif(sys.platform == "win32", reason="FIFOs and devices of POSIX")


# Reading


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda c: st.lists(c) | st.dictionaries(st.text(), c),
        max_leaves=8,
    )
)
def test_json_is_read_as_it_is(value: Any) -> None:
    assert parse_json(json.dumps(value).encode()) == value


@given(st.binary(max_size=200))
def test_bytes_are_json_or_refused(data: bytes) -> None:
    with contextlib.suppress(NotJson):
        parse_json(data)


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000, b"\xff", b"", b"[1,]", b"[" + b"0," * 5_000_000 + b"0]"])
def test_what_is_no_json_is_reported(data: bytes) -> None:
    with pytest.raises(NotJson):
        parse_json(data)


@posix
def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "file").write_bytes(b"{}")
    (tmp_path / "link").symlink_to("file")
    for name, words in (("fifo", "a FIFO"), ("zero", "a device"), (".", "a folder")):
        with pytest.raises(UnreadableFile, match=f"{words}, not a regular file"):
            read_regular(tmp_path / name)
    for name in ("a\0b", "half \ud800"):
        with pytest.raises(UnreadableFile, match="is no file name"):
            read_regular(tmp_path / name)
    assert read_json(tmp_path / "link") == {}
    with pytest.raises(UnreadableFile, match="has 2 bytes; at most 1 are read"):
        read_regular(tmp_path / "file", 1)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "absent")


# Texts


@given(st.text(st.characters()), st.integers(1, 50))
def test_a_cleaned_text_stays_as_it_is(text: str, limit: int) -> None:
    once = clean_text(text, limit)
    assert clean_text(once, limit) == once
    assert len(once) <= limit + 40
    once.encode()
    assert not set(once) & {"\x1b", "\r", "\x00", "\u202e"}


# Declarations


class Named(enum.StrEnum):
    MXFP4 = "mxfp4"


def target(**declared: Any) -> Any:
    given = {"NAME": "t", "VERSION": "1", "FORMATS": ["mxfp4"], "quantize": lambda x, fmt: None} | declared
    return SimpleNamespace(**given)


@pytest.mark.parametrize(
    ("declared", "field", "value"),
    [
        ({"FORMATS": Named.MXFP4}, "formats", ("mxfp4",)),
        ({"FORMATS": [Named.MXFP4, "mxfp4"]}, "formats", ("mxfp4",)),
        ({"FORMATS": np.array(["mxfp4"])}, "formats", ("mxfp4",)),
        ({"PROFILE": mxspec.get_profile("mx-floor", "mxfp4")}, "claimed_profiles", ("mx-floor",)),
        ({"PROFILE": None}, "claimed_profiles", ()),
        ({"SR_BITS": np.int64(8)}, "sr_bits", 8),
        ({"SR_BITS": 8.0}, "sr_bits", 8),
        ({"VERSION": (1, 2)}, "version", "(1, 2)"),
        ({"NAME": "n" * 10_000_000}, "name", "n" * 120 + " ... (10000000 characters)"),
    ],
)
def test_a_declaration_is_taken_as_plain_data(declared: dict[str, Any], field: str, value: Any) -> None:
    capabilities = describe_target(target(**declared), "t.py")
    assert getattr(capabilities, field) == value
    assert type(getattr(capabilities, field)) is type(value)
    json.dumps(capabilities.as_dict())
    assert read_capabilities(write_capabilities(capabilities), "t.py") == capabilities


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"FORMATS": b"mxfp4"}, "FORMATS is a bytes"),
        ({"FORMATS": [None]}, "FORMATS holds a NoneType"),
        ({"FORMATS": iter(lambda: "mxfp4", "")}, "more than 1000 names"),
        ({"PROFILE": object()}, "PROFILE is an object"),
        ({"PROFILE": Path("mx-floor")}, "PROFILE is a PosixPath"),
        ({"ARRAYS": ["numpy"]}, "ARRAYS is a list"),
        ({"SR_BITS": "8"}, "SR_BITS = a str"),
    ],
)
def test_a_declaration_that_is_none_is_refused(declared: dict[str, Any], words: str) -> None:
    with pytest.raises(TargetError, match=words):
        describe_target(target(**declared), "t.py")


# Answers


def test_an_answer_has_the_required_types_and_shapes() -> None:
    x = np.zeros((3, 32), np.float32)
    t = mxspec.quantize(x, "mxfp4")
    good = (t.codes, t.scales)
    assert is_answer("quantize", (x, "mxfp4"), {}, good)
    assert is_answer("probe", ("quantize", (x, "mxfp4"), (x, "mxfp4")), {}, (True, False, good))
    assert is_answer("arranged", ("rows", "quantize", x, "mxfp4"), {}, good)
    for bad in (None, "pass", list(good), good[:1], (good[1], good[0]), (t.codes.astype(np.int8), t.scales), (t.codes, None)):
        assert not is_answer("quantize", (x, "mxfp4"), {}, bad)
        assert not is_answer("probe", ("quantize", (x, "mxfp4"), (x, "mxfp4")), {}, (True, False, bad))
    assert not is_answer("probe", ("quantize", (x, "mxfp4"), (x, "mxfp4")), {}, good)
    assert not is_answer("decode", (t.codes, "e2m1"), {}, t.codes)
    assert not is_answer("tensor_scale", (x, "nvfp4"), {}, "1")


def test_every_call_has_a_look_at_its_answer() -> None:
    """Also at that to calls which hold others: an answer to the call before is none to this one."""
    calls = [name.removeprefix("_call_") for name in vars(Marshaller) if name.startswith("_call_")]
    assert len(calls) > 10
    assert sorted(calls) == sorted(CHECKS)
    x = np.zeros((2, 32), np.float32)
    t = mxspec.quantize(x, "mxfp4")
    asked: dict[str, tuple[Any, ...]] = {
        "threads": (2, []), "repeated": (2, 1.0, "quantize", x, "mxfp4"), "wrote": ("quantize", x, "mxfp4"),
        "covered": (x, "mxfp4"), "trimmed": (x, "mxfp4"), "output_dtype": ("dequantize", t.codes, t.scales, "mxfp4"),
    }  # fmt: skip
    right: dict[str, Any] = {
        "threads": (0, 8), "repeated": (-1, 2), "wrote": False, "covered": 32, "trimmed": t.codes, "output_dtype": "float32",
    }  # fmt: skip
    for name, args in asked.items():
        assert is_answer(name, args, {}, right[name])
        assert not is_answer(name, args, {}, (t.codes, t.scales))


def test_all_calls_together_have_an_end() -> None:
    budget = FailureBudget(total=0.05)
    assert budget.allow(60) <= 0.05
    with budget.spend():
        budget.check("quantize")
        time.sleep(0.06)
    with pytest.raises(CallError, match=r"all calls together may take 0\.05 s") as caught:
        budget.check("quantize")
    assert caught.value.kind is FailureKind.TIMEOUT
    assert caught.value.final


# Others


def test_the_standard_library_comes_first() -> None:
    path = stdlib_first(["", "/work", *sys.path])
    known = [is_stdlib(entry) for entry in path]
    assert known == sorted(known, reverse=True)
    assert any(known)
    assert not is_stdlib("")


def test_names_of_one_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    (tmp_path / "l").symlink_to("a")
    (tmp_path / "d").mkdir()
    for other in ("l", "d/../a"):
        assert is_same_file(tmp_path / "a", tmp_path / other)
    assert is_same_file(tmp_path / "new", tmp_path / "d" / ".." / "new")
    assert not is_same_file(tmp_path / "a", tmp_path / "new")
    assert not is_same_file(Path("/dev/null"), Path("/dev/null"))


@pytest.mark.parametrize("line", ["", "[]", '{"key": "a", "result": {}}', '{"key": "a", "result": {"x": 2}, "sum": "0"}', "[" * 10_000])
def test_a_forged_line_of_a_state_is_dropped(tmp_path: Path, line: str) -> None:
    path = tmp_path / "s.state"
    with open_state(path, {"of": "this"}) as state:
        state.enter("a", {"x": 1})
        state.enter("b", {"x": 2})
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], line, lines[2], ""]))
    with open_state(path, {"of": "this"}) as state:
        assert state.finished == {"b": {"x": 2}}
