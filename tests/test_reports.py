"""Published results still speak of the current vectors and model, and show no difference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mxspec.profiles import Evidence, list_profiles, list_waiting
from mxspec_conformance.adapters.registry import Adapter, Kept, known_adapters
from mxspec_conformance.results.report import load_result_schema

REPORTS = Path(__file__).resolve().parents[1] / "reports"
#: layouts.json is tests/test_layout_witnesses.py's.
PEERS = sorted(p for p in (REPORTS / "peers").glob("*.json") if p.stem != "layouts")

#: Compared by hand with sources that are not on the package index; the profiles' own fields say with which.
WITHOUT_RESULT = {"te-reference", "vllm-emulation"}


def is_measured(adapter: Adapter) -> bool:
    """Whether a profile of the adapter claims to have been compared with the library."""
    expected = {**adapter.profiles_one_level, **({} if callable(adapter.profiles) else adapter.profiles)}
    names = set(expected.values())
    known = (*list_profiles(), *(p for fmt in expected for p in list_waiting(fmt)))
    return any(p.id in names and p.evidence is Evidence.MEASURED for p in known)


def load(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text("ascii"))
    return document


def test_every_peer_has_a_result() -> None:
    """A result that is missing would otherwise go unnoticed."""
    compared = {a.library.environment for a in known_adapters().values() if a.kept is Kept.PEER and is_measured(a)}
    assert {p.stem for p in PEERS} >= compared - WITHOUT_RESULT


@pytest.mark.parametrize("path", PEERS, ids=lambda p: p.stem)
def test_peer_was_compared_and_nothing_differs(path: Path) -> None:
    document = load(path)
    for witness in document["witness"]:
        assert witness["compared"] > 1000
        assert witness["different"] == 0, [c for c in witness["comparisons"] if c["different"]]


@pytest.mark.parametrize("path", PEERS, ids=lambda p: p.stem)
def test_peer_verdicts_fit_the_schema(path: Path) -> None:
    schema = load_result_schema()
    for result in load(path)["checks"]:
        jsonschema.validate(result, schema)


def test_chip_agrees_on_every_input() -> None:
    document = load(REPORTS / "gpu" / "sm90-instructions.json")
    inputs = {name: r["inputs"] for name, r in document["instructions"].items()}
    assert inputs["rcp.approx.ftz.f32"] == inputs["cvt.rn.satfinite.e4m3x2.f32"] == 1 << 32
    assert all(r["different"] == 0 for r in document["instructions"].values())


@pytest.mark.parametrize("instruction", ["rcp.approx.ftz.f32", "cvt.rn.satfinite.e4m3x2.f32", "cvt.rn.satfinite.e5m2x2.f32"])
def test_chip_digest_still_matches_the_model(instruction: str) -> None:
    from mxspec_gpu.witness import CHUNK, digest, model_answer

    digests = load(REPORTS / "gpu" / "sm90-instructions.json")["instructions"][instruction]["digests"]
    chunk = 0x3F  # 2**-1 to 2
    assert digest(model_answer(instruction, chunk * CHUNK, CHUNK)) == digests[chunk]


def test_earlier_releases_are_of_the_libraries_that_name_one() -> None:
    named = {p.split("==")[0].split("[")[0]: p.split("==")[1] for a in known_adapters().values() for p in a.library.earlier}
    record = load(REPORTS / "peers" / "earlier.json")
    assert named.items() <= record["packages"].items()
    assert len(named) >= 3
    assert not any(r["verdict"] in ("error", "timeout") for c in record["checks"] for r in c["requirements"])


def test_later_releases_are_of_the_targets_that_name_one() -> None:
    named = {a.name: a.later for a in known_adapters().values() if a.later}
    record = load(REPORTS / "peers" / "later.json")
    assert {c["target"]["name"] for c in record["checks"]} == set(named)
    for check in record["checks"]:
        commits = [p.rpartition("@")[2] for p in named[check["target"]["name"]] if "git+" in p]
        # The version that a build from a commit has ends in some of its digits.
        assert all(check["target"]["version"].rpartition("+git")[2] == commit[:9] for commit in commits)
        assert not any(r["verdict"] in ("error", "timeout") for r in check["requirements"])
