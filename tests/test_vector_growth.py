"""What a new profile does to the vectors: lines are added, answers appended, and what was measured before stays current."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest

import mxspec
from mxspec import profiles
from mxspec.profiles import Profile, ScaleStep, get_profile
from mxspec.rounding import Rounding
from mxspec_vectors import build as builder, digests, profile_order
from mxspec_vectors.build import build_document
from mxspec_vectors.digests import content_digest, digest_document
from mxspec_vectors.document import VectorError
from mxspec_vectors.files import file_name, read_document, read_index, render, vectors_root
from mxspec_vectors.profile_order import extend_order, read_order, render_order

FMT = "mxint8"
OPERATIONS = ("quantize", "scale", "dequantize")
each_operation = pytest.mark.parametrize("operation", OPERATIONS)


def new_profile() -> Profile:
    """A profile that answers otherwise than all others, and whose name comes before theirs."""
    base = get_profile("mx-floor", FMT)
    assert base.one_level is not None
    rule = replace(base.one_level.scale, step=ScaleStep.LOG2F_ROUND, subtract_emax=False, offset=3)
    level = replace(base.one_level, scale=rule, element=replace(base.one_level.element, rounding=Rounding.RTZ))
    return replace(base, id="aaa-a-new-one/mxint8", formats=(FMT,), one_level=level)


@pytest.fixture
def grown(monkeypatch: pytest.MonkeyPatch) -> Profile:
    """Registers the new profile before all others."""
    mxspec.list_profiles()  # loads all of them
    profile = new_profile()
    monkeypatch.setattr(profiles, "_profiles", {profile.id: profile, **profiles._profiles})
    assert mxspec.list_profiles(FMT)[0] == profile
    return profile


def committed(operation: str) -> bytes:
    return (vectors_root() / file_name(operation, FMT)).read_bytes()


def lines_of(data: bytes) -> list[str]:
    return data.decode("ascii").splitlines()


def collect_ids_of(lines: list[str]) -> Iterator[str]:
    return (found[1] for line in lines if (found := re.match(r',?\{"id":"([^"]+)"', line)))


@each_operation
def test_a_new_profile_only_adds(grown: Profile, operation: str) -> None:
    """By diff: lines are inserted; those that change are cases that got an answer at the end."""
    before, after = lines_of(committed(operation)), lines_of(render(build_document(operation, FMT)))
    appended = inserted = 0
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        assert tag in ("equal", "insert", "replace")
        if tag == "replace":
            # Cases with a new answer: the line is the old one with an answer put before its last two brackets.
            assert i2 - i1 == j2 - j1
            for old, new in zip(before[i1:i2], after[j1:j2], strict=True):
                assert old.endswith("]}")
                assert new.startswith(old[:-2] + ",")
                appended += 1
        elif tag == "insert":
            inserted += j2 - j1
            assert operation == "scale" or all(line.startswith(f',"{grown.id}":') for line in after[j1:j2])
    assert (inserted > 0, appended > 0) == (True, operation == "quantize")
    assert list(json.loads("\n".join(after))["profiles"])[-1] == grown.id
    old, new = (list(collect_ids_of(lines)) for lines in (before, after))
    assert [i for i in new if i in set(old)] == old
    assert (len(new) > len(old)) == (operation == "scale")


@each_operation
def test_files_do_not_depend_on_the_order_of_registration(monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    mxspec.list_profiles()
    monkeypatch.setattr(profiles, "_profiles", dict(reversed(profiles._profiles.items())))
    assert render(build_document(operation, FMT)) == committed(operation)


@each_operation
def test_evidence_outlives_a_new_profile(grown: Profile, operation: str) -> None:
    """Content digests of the profiles that were there stay; that of all changes, and so does one that names the new one."""
    before, after = read_document(operation, FMT), build_document(operation, FMT)
    known = before["profiles"]
    assert digest_document(after, known) == digest_document(before, known) == digest_document(before)
    for name in known:
        assert digest_document(after, [name]) == content_digest(operation, FMT, [name])
    assert digest_document(after) not in (digest_document(before), digest_document(after, known))
    assert digest_document(after, [grown.id]) != digest_document(after)


def test_new_profiles_join_at_the_end(tmp_path: Path, grown: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Building the package's own vectors appends them to the list of those that joined; building elsewhere does not."""
    path = tmp_path / "profile_order.json"
    path.write_bytes(profile_order.order_path().read_bytes())
    before = path.read_bytes()
    monkeypatch.setattr(profile_order, "order_path", lambda: path)
    monkeypatch.setattr(builder, "order_path", lambda: path)
    monkeypatch.setattr(builder, "list_files", lambda: [("decode", "e2m1")])
    monkeypatch.setattr(builder, "vectors_root", lambda: tmp_path / "v1")
    read_order.cache_clear()
    builder.build(tmp_path / "elsewhere")
    assert path.read_bytes() == before
    builder.build(tmp_path / "v1")
    added = lines_of(path.read_bytes())
    assert added[:-3] + added[-2:] == lines_of(before)
    assert added[-3] == f' ,"{grown.id}"'
    assert read_order()[-1] == grown.id
    assert extend_order([grown.id, "mx-floor"]) == read_order()
    read_order.cache_clear()


def test_every_profile_has_joined() -> None:
    """The committed list holds all registered profiles, each once, in canonical bytes."""
    names = read_order()
    assert set(names) >= {p.id for p in mxspec.list_profiles()}, "run `mxspec vectors build` and commit"
    assert profile_order.order_path().read_bytes() == render_order(names)


@pytest.mark.parametrize("content", ["", "[]", '{"profiles": ["a", "a"]}', '{"profiles": 3}'])
def test_a_damaged_list_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    (tmp_path / "profile_order.json").write_text(content, encoding="ascii")
    monkeypatch.setattr(profile_order, "order_path", lambda: tmp_path / "profile_order.json")
    read_order.cache_clear()
    with pytest.raises(VectorError, match=r"profile_order\.json .*restore it from version control"):
        read_order()
    read_order.cache_clear()


# Content digests


def reword(document: dict[str, Any]) -> None:
    document["flags"] = {"other": next(iter(document["flags"].values()))}
    for case in document["cases"]:
        case["topic"], case["flags"] = "mixture", ["other"]


def reorder(document: dict[str, Any]) -> None:
    document["cases"] = [dict(reversed(case.items())) for case in reversed(document["cases"])]
    for case in document["cases"]:
        case["expect"].reverse()


def rename_recipes(document: dict[str, Any]) -> None:
    for case in document["cases"]:
        case.pop("recipe", None)


def change_one_answer(document: dict[str, Any], profile: str) -> None:
    """The profile gives an answer of its own to the last case that it answers."""
    key = {"quantize": "any", "dequantize": "values", "scale": "scale"}[document["operation"]]
    case = [c for c in document["cases"] if any(profile in e["profiles"] for e in c["expect"])][-1]
    entry = next(e for e in case["expect"] if profile in e["profiles"])
    entry["profiles"].remove(profile)
    answer = [{"scale": "00", "codes": "1"}] if key == "any" else "a5"
    case["expect"].append({"profiles": [profile], key: answer})


def drop_profile(document: dict[str, Any], profile: str) -> None:
    """The profile says nothing of the first case any more."""
    entry = next(e for e in document["cases"][0]["expect"] if profile in e["profiles"])
    entry["profiles"].remove(profile)


@each_operation
@pytest.mark.parametrize("change", [reword, reorder, rename_recipes])
def test_content_is_not_layout(operation: str, change: Callable[[dict[str, Any]], None]) -> None:
    document = copy.deepcopy(read_document(operation, FMT))
    change(document)
    assert digest_document(document) == content_digest(operation, FMT)


@each_operation
@pytest.mark.parametrize("change", [change_one_answer, drop_profile])
def test_an_answer_ages_its_own_profile_alone(operation: str, change: Callable[[dict[str, Any], str], None]) -> None:
    document = copy.deepcopy(read_document(operation, FMT))
    change(document, "mx-rceil")
    for name in document["profiles"]:
        stale = digest_document(document, [name]) != content_digest(operation, FMT, [name])
        assert stale == (name == "mx-rceil"), name
    assert digest_document(document) != content_digest(operation, FMT)


def test_the_table_of_all_codes_counts_for_its_profile() -> None:
    document = copy.deepcopy(read_document("dequantize", FMT))
    entry = document["digests"][0]
    first = entry["profiles"].pop(0)
    document["digests"].append({"profiles": [first], "sha256": "0" * 64})
    for name in document["profiles"]:
        stale = digest_document(document, [name]) != content_digest("dequantize", FMT, [name])
        assert stale == (name == first)


@pytest.mark.parametrize(
    ("operation", "fmt", "path"),
    [
        ("encode", "e2m1", ("cases", 0, "x")),
        ("encode", "e2m1", ("steps", 0, "first")),
        ("encode", "e2m1", ("digests", 0, "sha256")),
        ("encode", "e2m1", ("cases", 0, "expect", 0, "codes")),
        ("encode", "e2m1", ("nan",)),
        ("decode", "e2m1", ("cases", 0, "expect", 0, "values")),
        ("quantize", FMT, ("cases", 0, "x")),
        ("quantize", FMT, ("cases", 0, "id")),
        ("dequantize", FMT, ("cases", 0, "codes")),
        ("scale", FMT, ("cases", -1, "amax")),
        ("stochastic", "e2m1", ("cases", 0, "random_bits")),
        ("layout", "awq", ("cases", 0, "expect", 0, "data")),
        ("layout", "128x4", ("masks", "1x1")),
        ("layout", "128x4", ("padding",)),
    ],
)
def test_content_is_inputs_and_answers(operation: str, fmt: str, path: tuple[Any, ...]) -> None:
    document = copy.deepcopy(read_document(operation, fmt))
    assert digest_document(document) == content_digest(operation, fmt)
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = place[path[-1]][:-1] + ("0" if place[path[-1]][-1] != "0" else "1")
    assert digest_document(document) != content_digest(operation, fmt)


def test_every_file_has_a_content_of_its_own() -> None:
    digests._open_pieces.cache_clear()
    found = {content_digest(*name.removesuffix(".json").split("/")) for name in read_index()["files"]}
    assert len(found) == len(read_index()["files"])


def test_an_unknown_profile_has_no_content() -> None:
    with pytest.raises(VectorError, match="no answers of mx-flor; there are those of mx-floor, "):
        content_digest("quantize", FMT, ["mx-flor"])
    with pytest.raises(VectorError, match="no answers of mx-floor; there are those of none"):
        content_digest("encode", "e2m1", ["mx-floor"])
