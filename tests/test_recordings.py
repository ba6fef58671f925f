"""Recordings: the judge says of them what it says of the library, and what it says is committed as a table of lines."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import mxspec
from mxspec_conformance.judge import tally
from mxspec_conformance.results.report import Verdict
from mxspec_conformance.targets.errors import CallError, FailureKind
from mxspec_conformance.transports.opening import open_target
from mxspec_lab.__main__ import main
from mxspec_lab.recordings import replaying
from mxspec_lab.recordings.asking import RecordingSession, record
from mxspec_lab.recordings.items import digest_answers, list_items
from mxspec_lab.recordings.recording import Answers, Recording, read_recording, write_recording
from mxspec_lab.recordings.replaying import ChangedModelError, ReplaySession
from mxspec_lab.recordings.verdicts import HEADER, TABLE, list_recordings, read_table, render_table, replay
from mxspec_vectors.topics import Level

COMMITTED = {path.name: path for path in list_recordings()}
ML_DTYPES = next(path for name, path in COMMITTED.items() if name.startswith("ml_dtypes-"))


class Wrong:
    """Single numbers of two formats: one is refused with NaN in it, and rounds ties of the other away from zero."""

    NAME, VERSION = "wrong", "1"
    FORMATS, ELEMENTS = (), ("e2m1", "e3m2")

    def __init__(self) -> None:
        self.calls = 0

    def encode(self, x: Any, element: str) -> Any:
        self.calls += 1
        if element == "e2m1" and np.isnan(x).any():
            raise ValueError("no NaN, please")
        return mxspec.encode(x, element, rounding="rna" if element == "e3m2" else "rne")

    def decode(self, codes: Any, element: str) -> Any:
        if element == "e3m2":
            raise NotImplementedError("e3m2 is not decoded")
        return mxspec.decode(codes, element)


@pytest.mark.share(20)
def test_the_committed_table_is_what_the_judge_says() -> None:
    """In a process of its own, as the command is: what other tests leave in this one changes which blocks are made."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-m", "mxspec_lab", "verdicts", "--check"], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_table_has_the_lines_of_the_recordings_alone() -> None:
    lines = read_table()
    assert TABLE.read_bytes() == render_table(lines)
    assert TABLE.read_text("ascii").startswith(HEADER + "\n")
    named = {f"{target}-{version}.jsonl.gz" for target, version, *_ in (line.split("\t") for line in lines)}
    assert named == set(COMMITTED)


@pytest.mark.parametrize("name", COMMITTED)
def test_a_recording_is_written_as_it_is_read(name: str, tmp_path: Path) -> None:
    write_recording(tmp_path / "again", read_recording(COMMITTED[name]))
    assert gzip.decompress((tmp_path / "again").read_bytes()) == gzip.decompress(COMMITTED[name].read_bytes())


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"hello",
        lambda data: gzip.compress(b""),
        lambda data: gzip.compress(gzip.decompress(data).replace(b"mxspec-recording/1", b"mxspec-recording/9")),
        lambda data: gzip.compress(gzip.decompress(data).replace(b"{", b"[")),
        lambda data: gzip.compress(gzip.decompress(data).replace(b'"keys"', b'"key"')),
        lambda data: gzip.compress(gzip.decompress(data).replace(b'"stored":"', b'"stored":"x')),
    ],
    ids=["truncated", "text", "empty", "schema", "syntax", "key", "hex"],
)
def test_a_damaged_recording_is_refused_by_its_name(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl.gz"
    path.write_bytes(damage(ML_DTYPES.read_bytes()))
    done = CliRunner().invoke(main, ["verdicts", "--check", "--recordings", str(tmp_path)])
    assert done.exit_code == 2
    assert f"{path} is no recording of mxspec-recording/1, or damaged (" in done.output


def test_a_recording_says_where_it_comes_from() -> None:
    for path in COMMITTED.values():
        origin = read_recording(path).origin
        assert len(origin["commit"]["commit"]) == 40
        assert origin["environment"]["time"]
        assert origin["environment"]["processor"]
    assert sum(path.stat().st_size for path in COMMITTED.values()) < 1_000_000


def test_the_judge_says_the_same_of_a_target_and_of_its_recording(tmp_path: Path) -> None:
    target = Wrong()
    recording, report = record(target)
    asked = target.calls
    write_recording(tmp_path / "w.jsonl.gz", recording)
    again = replay(read_recording(tmp_path / "w.jsonl.gz"))
    assert target.calls == asked
    assert again.requirements == report.requirements
    verdicts = {r.id: r.verdict for r in again.requirements}
    assert verdicts["encode/e3m2/tie-even"] in (Verdict.FAIL, Verdict.DEVIATION)
    assert verdicts["encode/e2m1/nan"] is Verdict.OPEN
    assert verdicts["decode/e3m2/code"] is Verdict.UNSUPPORTED
    assert not {r.topic for r in again.requirements} & {"call-size", "memory", "state", "refusal"}
    ties = recording.classes["encode e3m2 float32"]
    assert isinstance(ties, Answers)
    assert 0 < len(ties.places) < len(ties.keys) / 50, "answers of the model are not stored"


def test_a_change_of_the_judge_is_a_diff_of_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The judge takes for binding what is open: requirements of e8m0 fail, and no other line changes."""
    arguments = ["verdicts", "--recordings", str(tmp_path), "-o", str(tmp_path / "table.tsv")]
    (tmp_path / ML_DTYPES.name).write_bytes(ML_DTYPES.read_bytes())
    assert CliRunner().invoke(main, arguments).exit_code == 0
    known = tally.topic_level

    def binding(*args: Any, **kwargs: Any) -> Level:
        level = known(*args, **kwargs)
        return Level.MUST if level is Level.OPEN else level

    monkeypatch.setattr(tally, "topic_level", binding)
    changed = CliRunner().invoke(main, [*arguments, "--check"])
    assert changed.exit_code == 1
    lines = changed.stdout.splitlines()
    held = [line for line in read_table(tmp_path / "table.tsv") if "\topen\t" in line]
    assert held
    assert lines == [mark + text for line in held for mark, text in (("-", line), ("+", line.replace("\topen\t", "\tfail\t")))]


def _without_first(recording: Recording, name: str) -> Recording:
    """The recording without the first item of a class of codes, all of which are decoded as the model decodes them."""
    found = recording.classes[name]
    assert isinstance(found, Answers)
    assert not len(found.places)
    keys = found.keys[1:]
    values = mxspec.decode(keys.astype(np.uint8), name.split()[1])
    left = replace(found, keys=keys, digest=digest_answers(keys, values.view(np.uint8).reshape(-1, 4)))
    return replace(recording, classes={**recording.classes, name: left})


def test_what_a_recording_lacks_fails_nothing() -> None:
    recording = read_recording(ML_DTYPES)
    whole = {r.id: r for r in replay(recording).requirements}
    without = _without_first(recording, "decode e2m1 uint8")
    kept = {name: found for name, found in without.classes.items() if not name.startswith("encode e2m1")}
    lacking = {r.id: r for r in replay(replace(without, classes=kept)).requirements}
    assert lacking.keys() == whole.keys()
    code = lacking["decode/e2m1/code"]
    assert (code.verdict, code.failing, code.cases) == (Verdict.PASS, 0, whole["decode/e2m1/code"].cases - 1)
    assert code.note == "1 more case was not asked of this version"
    exact = lacking["encode/e2m1/exact"]
    assert (exact.verdict, exact.failing) == (Verdict.UNSUPPORTED, 0)
    assert "not asked of this version" in exact.note
    assert {i.split("/")[1] for i, r in whole.items() if r != lacking[i]} == {"e2m1"}


def test_a_model_that_gives_other_answers_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known = replaying.ask_model

    def other(capabilities: Any, profile: str, call: Any) -> Any:
        rows = known(capabilities, profile, call)
        return rows if call[0] != "decode" else rows ^ np.uint8(1)

    monkeypatch.setattr(replaying, "ask_model", other)
    with pytest.raises(ChangedModelError, match=r"ml_dtypes .* to decode e2m1 uint8 are no longer those that were recorded"):
        replay(read_recording(ML_DTYPES))
    (tmp_path / ML_DTYPES.name).write_bytes(ML_DTYPES.read_bytes())
    done = CliRunner().invoke(main, ["verdicts", "--check", "--recordings", str(tmp_path)])
    assert done.exit_code == 2
    assert "the model gives others by its own arithmetic" in done.stderr


def test_items_are_answered_alike_in_other_calls() -> None:
    """A batch with one more item, in another order, is known where all of its items are."""
    session = RecordingSession(open_target(Wrong()))
    x = np.array([1.0, 2.5, -3.0, 0.3], np.float32)
    codes = session.call("encode", x, "e3m2")
    replayed = ReplaySession(session.finish())
    for order in ([3, 1], [2, 2, 0], [0]):
        assert np.array_equal(replayed.call("encode", x[order], "e3m2"), codes[order])
    with pytest.raises(CallError) as raised:
        replayed.call("encode", np.array([1.0, 7.0], np.float32), "e3m2")
    assert raised.value.kind is FailureKind.NOT_ASKED


def test_blocks_are_items_and_other_calls_are_whole() -> None:
    x = np.arange(128, dtype=np.float32).reshape(2, 64)
    items, turned = list_items("quantize", (x, "mxfp4"), {}), list_items("quantize", (x[::-1], "mxfp4"), {})
    assert items is not None
    assert turned is not None
    assert sorted(items.keys.tolist()) == sorted(turned.keys.tolist())
    assert len(set(items.keys.tolist())) == 4
    answer = (np.arange(128, dtype=np.uint8).reshape(2, 64), np.arange(4, dtype=np.uint8).reshape(2, 2))
    rows = items.split(answer)
    assert rows is not None
    assert all(map(np.array_equal, items.join(rows), answer))
    assert items.split((answer[0], answer[1].astype(np.int8))) is None
    scaled = (list_items("quantize", (x, "nvfp4"), {"tensor_scale": 1.0}), list_items("quantize", (x, "nvfp4"), {"tensor_scale": 2.0}))
    assert scaled[0] is not None
    assert scaled[1] is not None
    assert not set(scaled[0].keys.tolist()) & set(scaled[1].keys.tolist())
    assert scaled[0].name == scaled[1].name
    assert list_items("quantize", (x, "mxfp4"), {"axis": 0}) is None
    assert list_items("output_dtype", ("dequantize", x), {}) is None


def test_the_command_records_and_changes_no_recording(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text(
        "import mxspec\nNAME, VERSION, FORMATS, ELEMENTS = 'k', '3', (), ('e2m1',)\n"
        "def encode(x, element):\n    return mxspec.encode(x, element)\n"
    )
    done = CliRunner().invoke(main, ["record", str(kernel), "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    (path,) = list_recordings(tmp_path / "out")
    before = path.read_bytes()
    assert path.name == "k-3.jsonl.gz"
    again = CliRunner().invoke(main, ["record", str(kernel), "-o", str(tmp_path / "out")])
    assert again.exit_code == 2
    assert "a recording is never changed" in again.output
    assert path.read_bytes() == before


def test_a_target_that_answers_one_item_in_several_ways_is_not_recorded(tmp_path: Path) -> None:
    """Alone a number is encoded rightly, in a large call wrongly: the calls by which the judge shows that differ."""
    kernel = tmp_path / "kernel.py"
    kernel.write_text(
        "import mxspec\nNAME, VERSION, FORMATS, ELEMENTS = 'k', '3', (), ('e2m1',)\n"
        "def encode(x, element):\n    return mxspec.encode(x, element) ^ (x.size > 9999)\n"
    )
    done = CliRunner().invoke(main, ["record", str(kernel), "-o", str(tmp_path)])
    assert done.exit_code == 2
    assert "answers one item in several ways" in done.output
    assert not list_recordings(tmp_path)
