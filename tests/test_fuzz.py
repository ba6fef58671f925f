"""Fuzzing: rare bugs are found, shrunk and named; nothing right is accused; the same seed gives the same; files replay."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import mxspec
from mxspec.formats import BLOCKS
from mxspec.profiles.schema import Kind
from mxspec_conformance.campaign import Named
from mxspec_conformance.campaign.profile import nearest_profile
from mxspec_conformance.fuzzing.blocks import findings
from mxspec_conformance.fuzzing.blocks.batch import draw_batch
from mxspec_conformance.fuzzing.blocks.files import make_documents, read_findings
from mxspec_conformance.fuzzing.blocks.job import BlockJob
from mxspec_conformance.fuzzing.run import fuzz, replay, run_batch, save
from mxspec_conformance.fuzzing.subject import Campaign, Settings
from mxspec_conformance.judge.check import check
from mxspec_conformance.results.report import Verdict, load_result_schema
from mxspec_conformance.targets.dtypes import is_representable
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.transports.opening import open_target
from mxspec_vectors.compact import pack
from mxspec_vectors.verify import load_schema

from tests.bugs import Entry, planted, rare
from tests.judge.reading import AWAY
from tests.support import bits_of, seed

PLANTED = {entry.id: entry for entry in planted.ENTRIES}


@cache
def campaign(name: str) -> Campaign:
    """A short campaign against a planted target, with the run's own seed."""
    fuzzed = PLANTED[name].fuzzed
    assert fuzzed is not None
    settings = Settings(seed=seed(), batches=fuzzed.batches, first=fuzzed.stop, profile=fuzzed.profile)
    return fuzz(PLANTED[name].target(), settings, in_process=True)


@pytest.mark.parametrize("entry", planted.ENTRIES, ids=lambda e: e.id)
def test_planted_bug_is_found_shrunk_and_named(entry: Entry) -> None:
    found, fuzzed = campaign(entry.id), entry.fuzzed
    assert fuzzed is not None
    assert len(found.findings) == fuzzed.findings == 1, [f.words for f in found.findings]
    finding = found.findings[0]
    assert fuzzed.text in finding.words
    assert finding.nonzero <= fuzzed.lanes
    assert not any("as if" in step for step in finding.failure.steps), "one block shows less than `check` knows of all"
    assert finding.pattern.kind == fuzzed.pattern
    assert found.report.exit_code == 1


@pytest.mark.parametrize("entry", rare.ENTRIES, ids=lambda e: e.id)
def test_bugs_that_need_more_than_one_block_or_lane_are_named(entry: Entry) -> None:
    fuzzed = entry.fuzzed
    assert fuzzed is not None
    settings = Settings(seed=seed(), batches=fuzzed.batches, profile=fuzzed.profile, first=fuzzed.stop)
    found = fuzz(entry.target(), settings)
    assert [f for f in found.findings if fuzzed.text in f.words], [f.words for f in found.findings]
    assert len(found.findings) <= fuzzed.findings
    assert all(f.nonzero <= fuzzed.lanes for f in found.findings)


def test_what_is_not_minimized_fails_its_requirement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the time for shrinking is over, no part that was seen to be wrong passes."""
    monkeypatch.setattr(findings, "MAX_TRIES", 0)
    for name, topics in {"one_threshold": {"element"}, "one_value": {"value"}}.items():
        fuzzed = PLANTED[name].fuzzed
        assert fuzzed is not None
        settings = Settings(seed=seed(), batches=fuzzed.batches, first=fuzzed.stop, profile=fuzzed.profile)
        report = fuzz(PLANTED[name].target(), settings, in_process=True).report
        assert report.exit_code == 1
        assert {r.topic for r in report.requirements if r.verdict is Verdict.FAIL} == topics
        assert all("not minimized" in r.note for r in report.requirements if r.verdict is Verdict.FAIL)


@pytest.mark.parametrize("name", ["large_call", "second_call", "odd_stride", "one_value", "neighbours"])
def test_saved_finding_differs_when_replayed_and_is_right_for_the_model(name: str, tmp_path: Path) -> None:
    target = PLANTED[name].target()
    (path,) = save(tmp_path, campaign(name).findings)
    session = open_target(target, in_process=True)
    assert {r.verdict for r in replay(path, session, partial(Named(target).open, 60.0))} == {"differs"}
    model = open_target("mxspec", in_process=True)
    assert {r.verdict for r in replay(path, model, None)} == {"right"}


def test_findings_are_written_in_the_vectors_own_schema(tmp_path: Path) -> None:
    for name in ("one_threshold", "large_call", "one_value"):
        for document in make_documents(campaign(name).findings).values():
            jsonschema.validate(pack(document), load_schema(document["operation"]))
    (path,) = save(tmp_path, campaign("one_threshold").findings)
    document = json.loads(path.read_text())
    document["groups"][0]["cases"][0]["x"] = "zz"
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match="is no vector file"):
        read_findings(path)


def test_a_file_that_expects_something_else_is_called_outdated(tmp_path: Path) -> None:
    (path,) = save(tmp_path, campaign("one_threshold").findings)
    document = json.loads(path.read_text())
    answer = document["groups"][0]["cases"][0]["expect"][0][0]
    answer["scale"] = "7f" if answer["scale"] == "00" else "00"
    path.write_text(json.dumps(document))
    (result,) = replay(path, open_target("mxspec", in_process=True), None)
    assert result.verdict == "outdated"


@pytest.mark.parametrize("fmt", list(BLOCKS))
def test_the_model_is_never_accused(fmt: str) -> None:
    found = fuzz("mxspec", Settings(seed=seed(), batches=1, formats=(fmt,)), in_process=True)
    assert not found.findings
    assert found.report.exit_code == 0
    assert {r.verdict for r in found.report.requirements} == {Verdict.PASS}
    for numbers in found.report.details["totals"][fmt]["relations"].values():
        assert numbers["compared"] > 0
        assert numbers["broken"] == 0
    jsonschema.validate(json.loads(found.report.to_json()), load_result_schema())


class Raising:
    """A target that refuses NaN by an exception and is right otherwise."""

    NAME, VERSION, FORMATS = "raising", "1", ["mxfp4"]

    def quantize(self, x: Any, fmt: str) -> Any:
        if np.isnan(x).any():
            raise ValueError("no NaN, please")
        t = mxspec.quantize(x, fmt)
        return t.codes, t.scales


def test_the_input_on_which_a_target_raises_is_reported() -> None:
    found = fuzz(Raising(), Settings(seed=seed(), batches=1))
    answers = next(r for r in found.report.requirements if r.id == "fuzz/mxfp4/answers")
    assert answers.verdict is Verdict.ERROR
    assert "no NaN, please" in answers.note
    assert "NaN, infinities or zeros" in answers.note
    assert len(answers.first.given["block"]) == 1
    assert "nan" in next(iter(answers.first.given["block"].values()))
    assert not found.findings


CRASHING = """
import os, numpy as np, mxspec
NAME, VERSION, FORMATS = "crashing", "1", ["mxfp4"]
def quantize(x, fmt):
    if len(x) > 1000 and (np.abs(x).view(np.uint32) == 0x7f7fffff).any():
        os.abort()
    t = mxspec.quantize(x, fmt)
    return t.codes, t.scales
"""


def test_a_target_that_crashes_on_large_calls_is_a_verdict_and_the_rest_is_judged(tmp_path: Path) -> None:
    target = tmp_path / "crashing.py"
    target.write_text(CRASHING)
    found = fuzz(str(target), Settings(seed=seed(), batches=1, profile="mx-floor"))
    answers = next(r for r in found.report.requirements if r.id == "fuzz/mxfp4/answers")
    assert answers.verdict is Verdict.ERROR
    assert "SIGABRT" in answers.note
    assert answers.first.given["blocks"] > 1000
    assert not found.findings
    assert found.report.details["totals"]["mxfp4"]["blocks"] > 4000


class Writing(Raising):
    """Right answers, in one buffer that every call reuses, and -0 made +0 in the input."""

    NAME = "writing"

    def __init__(self) -> None:
        self._codes = np.empty((1 << 16, 32), np.uint8)

    def quantize(self, x: Any, fmt: str) -> Any:
        t = mxspec.quantize(x, fmt)
        x += np.float32(0)
        codes = self._codes.reshape(-1)[: t.codes.size].reshape(t.codes.shape)
        codes[...] = t.codes
        return codes, t.scales


def test_memory_that_is_written_or_reused_is_noticed() -> None:
    found = fuzz(Writing(), Settings(seed=seed(), batches=1))
    memory = next(r for r in found.report.requirements if r.id == "fuzz/mxfp4/memory")
    assert memory.verdict is Verdict.FAIL
    assert "writes into its input" in memory.note
    assert "changes what an earlier one returned" in memory.note


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    job = BlockJob(target="mxspec", fmt="mxfp4", profile="mx-floor", tensor=None, dtype="float32", seed=5, in_process=True, blocks=256)
    first, again = draw_batch(job, 3), draw_batch(job, 3)
    assert np.array_equal(bits_of(first[0]), bits_of(again[0]))
    assert [c.rows.tolist() for c in first[1]] == [c.rows.tolist() for c in again[1]]
    assert not np.array_equal(bits_of(first[0]), bits_of(draw_batch(job, 4)[0]))
    one, two = run_batch(job, 3), run_batch(job, 3)
    assert {**one, "seconds": 0} == {**two, "seconds": 0}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_blocks_of_a_16_bit_dtype_are_numbers_that_it_holds(dtype: str) -> None:
    job = BlockJob(
        target="mxspec", fmt="mxfp8_e4m3", profile="mx-floor", tensor=None, dtype=dtype, seed=seed(), in_process=True, blocks=512
    )
    x, calls, _ = draw_batch(job, 0)
    for call in calls:
        blocks = call.blocks(x)
        assert np.isfinite(blocks).all()
        assert is_representable(blocks, dtype).all()


def test_a_batch_reaches_every_tie_and_almost_every_scale() -> None:
    found = fuzz("mxspec", Settings(seed=seed(), batches=3, formats=("mxfp6_e3m2",)), in_process=True)
    counts = found.report.details["coverage"]["mxfp6_e3m2"]
    for name in ("ties", "below ties", "above ties", "values", "binades of maxima", "lanes of maxima"):
        assert counts[name][0] == counts[name][1], name
    assert counts["scale bytes"][0] >= 250


def test_a_campaign_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    state = tmp_path / "state"
    settings = Settings(seed=seed(), batches=2, formats=("mxfp4",), profile="mx-floor")
    first = fuzz("mxspec", settings, state_file=state, in_process=True).report
    longer = Settings(seed=seed(), batches=3, formats=("mxfp4",), profile="mx-floor")
    again = fuzz("mxspec", longer, state_file=state, in_process=True).report
    assert again.environment["campaign"]["kept"] == first.environment["campaign"]["done"]
    whole = fuzz("mxspec", longer, in_process=True).report
    assert again.details["totals"] == whole.details["totals"]
    assert again.details["coverage"] == whole.details["coverage"]


def test_any_executor_runs_a_campaign_and_gives_the_same() -> None:
    settings = Settings(seed=seed(), batches=3, formats=("mxfp4",), profile="mx-floor")
    with ThreadPoolExecutor(2) as pool:
        together = fuzz("mxspec", settings, pool=pool, jobs=2, in_process=True).report
        assert pool.submit(int).result() == 0  # it is the caller's, and still open
    alone = fuzz("mxspec", settings, in_process=True).report
    assert together.details["totals"] == alone.details["totals"]
    assert together.details["coverage"] == alone.details["coverage"]
    assert together.environment["campaign"]["workers"] == "the workers of a ThreadPoolExecutor"


def test_the_profile_that_explains_most_is_chosen() -> None:
    found = fuzz("gguf", Settings(seed=seed(), batches=1, formats=("mxfp4",)), in_process=True)
    assert found.report.formats[0].judged_against == "gguf-0.19/mxfp4"
    assert not found.findings
    against = fuzz("gguf", Settings(seed=seed(), batches=1, formats=("mxfp4",), profile="mx-floor"), in_process=True)
    assert any("instead of" in f.words for f in against.findings)


@pytest.mark.parametrize("kept", [Kind.NORMATIVE, Kind.DESCRIPTIVE])
def test_a_profile_is_chosen_whatever_kinds_there_are(kept: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a target that departs from all of them, and of a format that has no normative one."""
    some = [p for p in mxspec.list_profiles("mxfp4") if p.kind is kept]
    monkeypatch.setattr(mxspec, "list_profiles", lambda *_, **__: some)
    assert nearest_profile(open_target(AWAY, in_process=True), BLOCKS["mxfp4"])[0] in some
    (result,) = check(AWAY, in_process=True, formats=["mxfp4"], only="quantize/mxfp4/exact").formats
    assert result.judged_against in {p.id for p in some}


def test_formats_and_profiles_that_do_not_fit_are_refused() -> None:
    with pytest.raises(TargetError, match="offers mxfp4; not nvfp4"):
        fuzz(Raising(), Settings(batches=1, formats=("nvfp4",)))
    with pytest.raises(ValueError, match="has no profile 'mx-flor'"):
        fuzz(Raising(), Settings(batches=1, profile="mx-flor"))
