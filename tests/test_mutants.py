"""Mutants: each is killed, at both levels; what is published is what the vectors and the catalogue give today."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from mxspec_conformance.judge.check import check
from mxspec_conformance.judge.stages import Source
from mxspec_conformance.kits.cover import cover_greedily
from mxspec_conformance.mutants import Family, Instance, list_instances, list_mutants, reference
from mxspec_conformance.mutants.instance import list_instances_of
from mxspec_conformance.mutants.layout_mutants import Places
from mxspec_conformance.mutants.reference import Reference
from mxspec_conformance.mutants.schema import Mutant
from mxspec_conformance.observations.selection import Selection, quick_selection, read_quick, use_selection
from mxspec_conformance.observations.tables import load_table_cases
from mxspec_conformance.results.report import Verdict
from mxspec_lab.__main__ import main
from mxspec_lab.mutants.judging import Found, Level, flags_of, judge_instance, judge_level
from mxspec_lab.mutants.matrix import catalogue_digest, fill, find_clones, make_tables, place_digests
from mxspec_lab.mutants.quick import BLOCKS_EACH, hold_out, list_slice
from mxspec_vectors.cases import load_quantize_cases, load_scale_cases, open_document
from mxspec_vectors.topics import FLAGS

REPORTS = Path(__file__).parents[1] / "reports" / "mutants"
NORMATIVE = ("mx-floor", "mx-rceil", "mx-even", "mx-ceil", "nvfp4-te", "nvfp4-paper")
INSTANCES = list_instances()


@cache
def published() -> dict[str, Any]:
    matrix: dict[str, Any] = json.loads((REPORTS / "matrix.json").read_text("ascii"))
    return matrix


@pytest.fixture
def quick() -> Iterator[None]:
    with use_selection(quick_selection()):
        yield


# The implementation that mutants change.


@pytest.mark.parametrize("profile", NORMATIVE)
def test_the_unchanged_implementation_passes(profile: str) -> None:
    report = check(Reference(profile), profile=profile)
    assert {r.verdict for r in report.requirements} == {Verdict.PASS}
    assert any(r.id.startswith("quantize/") for r in report.requirements)


def test_the_unchanged_implementation_passes_single_numbers_and_places() -> None:
    verdicts = {r.id: r.verdict for r in check(Reference("nvfp4-te"), only="*code/*").requirements}
    verdicts |= {r.id: r.verdict for r in check(Places(wrap={})).requirements}
    # Words of AWQ and GPTQ are packed only.
    words = ("unpack/awq/", "unpack/gptq/")
    assert {v for name, v in verdicts.items() if not name.startswith(words)} == {Verdict.PASS}


@pytest.mark.parametrize("bits", [32, 8])
def test_the_unchanged_implementation_rounds_stochastically(bits: int) -> None:
    target = Reference("mx-floor")
    target.SR_BITS = bits
    verdicts = {r.verdict for r in check(target, only="stochastic/*").requirements}
    assert verdicts == {Verdict.PASS}


@pytest.mark.parametrize("profile", NORMATIVE)
def test_the_quick_level_has_no_false_alarm_and_finds_the_profile(profile: str) -> None:
    report = check(Reference(profile), quick=True)
    assert {r.verdict for r in report.requirements} == {Verdict.PASS}
    assert {f.judged_against for f in report.formats} == {profile}
    assert report.details["level"] == "quick"


# The catalogue.


def test_every_known_bug_and_wrong_reading_has_a_mutant() -> None:
    sources = {m.source for m in list_mutants()}
    assert {f"P{n:02d}" for n in range(1, 68)} <= sources
    assert {"S0", "S1", "S3"} <= sources


def list_witnesses(mutant: Mutant) -> list[tuple[Instance, frozenset[str]]]:
    """Of each instance the cases that find it by the published matrix, without calls: their labels have spaces."""
    rows = {r["operation"] + r["format"]: r["by"] for m in published()["mutants"] if m["id"] == mutant.id for r in m["instances"]}
    every = [(i, frozenset(c for c in rows.get(i.operation + i.format, ()) if " " not in c)) for i in list_instances_of(mutant)]
    return [(instance, cases) for instance, cases in every if cases and instance.operation != "tensor_scale"]


#: One mutant takes another block's scale: no case finds it alone.
WITNESSED = {m.id: m for m in list_mutants() if len(list_witnesses(m)) == len(list(list_instances_of(m))) and m.id != "scale-of-next-block"}


@pytest.mark.share(100)
@pytest.mark.parametrize("mutant", WITNESSED)
def test_a_mutant_is_found_by_its_witness(mutant: str) -> None:
    for instance, cases in list_witnesses(WITNESSED[mutant]):
        with use_selection(Selection({(source.value, instance.format): cases for source in Source}, calls=False)):
            assert judge_instance(instance, stop=True).kills, instance.name


@pytest.mark.share(20)
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("mutant", [m for m in list_mutants() if m.id not in WITNESSED], ids=lambda m: m.id)
def test_a_mutant_is_found_out(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    alive = [i for i in list_instances_of(mutant) if not judge_instance(i, stop=True).kills]
    if alive:  # what large calls alone show
        monkeypatch.undo()
    assert not [i.name for i in alive if not judge_instance(i, stop=True).kills]


@pytest.mark.usefixtures("quick")
def test_what_is_right_is_not_found_out() -> None:
    right = Mutant(id="right", family=Family.ROUNDING, source="own", formats=("mxfp4", "nvfp4"), what="nothing")
    for instance in list_instances_of(right):
        assert not judge_instance(instance).kills


def test_an_equal_mutant_is_a_clone_and_counts_once() -> None:
    original = next(m for m in list_mutants() if m.id == "int8-floor")
    clone = Mutant(id="again", family=original.family, source="own", formats=original.formats, what="again", change=original.change)
    other = next(m for m in list_mutants() if m.id == "int8-wraps")
    members = (original, other, clone)
    level = judge_level([i for m in members for i in list_instances_of(m)], quick_selection())
    assert find_clones(members, level) == {"again": "int8-floor"}


# What is published.


def test_the_matrix_is_of_todays_vectors_and_catalogue() -> None:
    suite = published()["suite"]
    again = "run `python -m mxspec_lab mutants publish`"
    assert suite["layouts"] == place_digests(), again
    assert published()["catalogue"] == catalogue_digest(), again


def test_the_matrix_shows_every_mutant_found_out_at_both_levels() -> None:
    counts, levels = published()["counts"], published()["levels"]
    assert counts["known_bugs"] == 67
    assert counts["own"] >= 60
    assert counts["instances"] == len(INSTANCES)
    for level in levels.values():
        assert level["killed"] == len(INSTANCES)
        assert not level["survivors"]
    assert levels["quick"]["cases"] < levels["full"]["cases"] / 20


#: Topics of calls that follow from answers; more are called with time.
OF_CALLS = ("call-size", "memory", "state", "refusal", "axis", "tail", "position")


def test_the_matrix_says_what_the_judge_finds() -> None:
    """Two instances of the published matrix, judged again."""
    rows = {m["id"]: m for m in published()["mutants"]}
    for name in ("ties-away/quantize/mxfp4", "swizzle-none/swizzle/128x4"):
        instance = next(i for i in INSTANCES if i.name == name)
        found = judge_instance(instance)
        row = next(r for r in rows[instance.mutant.id]["instances"] if r["format"] == instance.format)
        # Blocks generated by the judge are tested in addition to the vectors.
        topics = Counter(topic for case, topic in found.kills.items() if "made/" not in str(case))
        # Calls are added without vectors growing; what the vectors kill is as published.
        assert {t: n for t, n in row["topics"].items() if t not in OF_CALLS} == {t: n for t, n in topics.items() if t not in OF_CALLS}
        assert all(topics[t] >= n for t, n in row["topics"].items())


def test_flags_say_which_mutants_they_are_there_for() -> None:
    table = {row["flag"]: row for row in published()["flags"]}
    assert set(table) <= set(FLAGS)
    closest = [name for row in table.values() for name in row["closest"]]
    assert len(closest) == len(set(closest))
    assert "ties-away" in table["ties-away"]["closest"]
    assert all(row["closest"] or row["alone"] for row in table.values())


def read_report(name: str) -> dict[str, Any]:
    """A published table."""
    document: dict[str, Any] = json.loads((REPORTS / name).read_text("ascii"))
    return document


def test_the_page_shows_what_is_published() -> None:
    page = (Path(__file__).parents[1] / "reports" / "mutants" / "tables.md").read_text("utf-8")
    tables = make_tables(published(), read_report("independent.json"))
    assert page == fill(page, tables), "run `python -m mxspec_lab mutants document`"


# The quick level.


def test_the_quick_level_names_cases_that_exist() -> None:
    for entry in read_quick()["files"]:
        operation, fmt = entry["operation"], entry["format"]
        assert entry["cases"] == sorted(set(entry["cases"]))
        if operation == "dequantize":  # whole tables
            known = {case.id for case in load_table_cases(fmt)}
        else:
            known = {case["id"] for case in open_document(operation, fmt)["cases"]}
        asked = {label.partition("[")[0] for label in entry["cases"]}
        assert {a for a in asked if not a.startswith("bfloat16 numbers from")} <= known


def test_only_selected_cases_are_judged() -> None:
    chosen = Selection({("scale", "mxfp4"): frozenset({"nothing"}), ("quantize", "mxfp4"): frozenset()})
    instance = Instance(next(m for m in list_mutants() if m.id == "exponent-ceil"), "quantize", "mxfp4")
    with use_selection(chosen):
        assert not judge_instance(instance).kills
    assert judge_instance(instance, stop=True).kills


def test_the_cover_is_a_cover_and_needs_no_more_than_it_must() -> None:
    wanted = [{"a", "b"}, {"b", "c"}, {"c"}, {"b"}]
    assert set(cover_greedily(wanted)) == {"b", "c"}
    with pytest.raises(ValueError, match="empty set"):
        cover_greedily([{"a"}, set()])
    random = np.random.default_rng(3)
    sets = [set(random.integers(0, 40, 5).tolist()) for _ in range(60)]
    chosen = set(cover_greedily(sets))
    assert all(chosen & members for members in sets)
    thrice = set(cover_greedily(sets, times=3))
    assert all(len(thrice & members) >= min(3, len(members)) for members in sets)
    assert len(chosen) < len(thrice) < 40 + 1


def test_mutants_of_what_the_quick_level_always_tests_are_found() -> None:
    instances = [Instance(m, "quantize", "mxfp4") for m in list_mutants()[:4]]
    always = next(label for label in sorted(list_slice()) if label[:2] == ("quantize", "mxfp4"))
    call = ("calls", "quantize/mxfp4", "float32, one-level: 64 x 64")
    for label, share in ((always, 1.0), (call, 1.0), (("quantize", "mxfp4", "another"), 0.0)):
        level = Level(found={i.name: Found(kills={label: "mixture"}) for i in instances})
        assert hold_out(instances, level, splits=2)["depths"][0]["mean"] == share


def test_every_topic_and_flag_has_cases_in_the_quick_level() -> None:
    kept = quick_selection().labels
    assert list_slice() <= {(kind, fmt, label) for (kind, fmt), labels in kept.items() for label in labels}
    for fmt in ("mxfp4", "nvfp4"):
        cases = load_quantize_cases(fmt)
        chosen = [c for c in cases if c.id in kept["quantize", fmt]]
        for kind in {k for c in cases for k in (c.topic, *c.flags)}:
            count = sum(kind in (c.topic, *c.flags) for c in cases)
            assert sum(kind in (c.topic, *c.flags) for c in chosen) >= min(count, BLOCKS_EACH), kind
        for run in load_scale_cases(fmt):
            assert any(label.startswith(f"{run.id}[") for label in kept["scale", fmt])


def test_flags_of_calls_and_tables() -> None:
    assert flags_of(("calls", "quantize/mxfp4", "call 0, of 1")) == ()
    assert "e8m0-edges" in flags_of(("dequantize", "mxfp4", "table-one-level"))


# The command.


def test_the_command_lists_judges_and_fails_on_survivors(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = CliRunner()
    listed = runner.invoke(main, ["mutants", "--list", "--only", "int8-*"])
    assert listed.exit_code == 0
    assert "int8-truncate  P64" in listed.output
    judged = runner.invoke(main, ["mutants", "--quick", "--only", "int8-*"])
    assert judged.exit_code == 0
    assert "0 survive" in judged.output
    assert max(map(len, judged.output.splitlines())) <= 80
    none = runner.invoke(main, ["mutants", "--only", "no-such"])
    assert none.exit_code == 2
    assert "no mutant matches" in none.output
    harmless = {"round_magnitude": reference.round_magnitude}
    survivor = Mutant(id="harmless", family=Family.INT8, source="own", formats=("mxint8",), what="nothing", change=harmless)
    monkeypatch.setattr("mxspec_conformance.mutants.list_instances", lambda: tuple(list_instances_of(survivor)))
    alive = runner.invoke(main, ["mutants", "--quick"])
    assert alive.exit_code == 1
    assert "survives: harmless/quantize/mxint8" in alive.output
