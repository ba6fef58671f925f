"""Published proofs and campaigns are current: made by these vectors, from these tables, with nothing left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import mxspec
from mxspec_conformance.campaign.chunks import parse_chunks
from mxspec_conformance.proving.answers import PairAnswers, digest_answers
from mxspec_conformance.proving.pairs import PairSpace
from mxspec_conformance.results.report import load_result_schema

from tests.support import rng

ROOT = Path(__file__).resolve().parents[1]
REPORTS = ROOT / "reports"
PROOFS = ("gguf-mxfp4", "mxspec-mxfp4", "one-threshold-mxfp8_e4m3")


def read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((REPORTS / name).read_text("ascii"))
    return document


@pytest.fixture(params=PROOFS)
def proof(request: pytest.FixtureRequest) -> dict[str, Any]:
    return read(f"proofs/{request.param}.json")


def answers_of(proof: dict[str, Any], claim: dict[str, Any]) -> PairAnswers:
    result = proof["formats"][0]
    fmt = mxspec.BLOCKS[result["format"]]
    space = PairSpace.below(claim["dtype"], fmt.k)
    return PairAnswers(fmt, mxspec.get_profile(result["judged_against"], fmt), space, claim["tensor"])


def test_proof_is_a_result_made_by_the_current_vectors(proof: dict[str, Any]) -> None:
    jsonschema.validate(proof, load_result_schema())
    assert proof["kind"] == "proof"
    assert not proof["details"]["stopped"]
    assert not proof["details"]["pieces"]["lost"]


def test_proof_covers_every_chunk_and_rests_on_tested_independence(proof: dict[str, Any]) -> None:
    claims = [c for c in proof["details"]["claims"] if c["what"] == "pairs"]
    assert {c["dtype"] for c in claims} == {"bfloat16", "float16"}
    for claim in claims:
        assert claim["elements"] == claim["of"]
        assert parse_chunks(claim["chunks"]) == list(range(claim["chunk_count"]))
        assert len(claim["digests"]) == claim["chunk_count"]
    for tested in proof["details"]["independence"].values():
        assert not tested["broken"]
        assert sum(tested["compared"].values()) > 50_000


def test_proofs_digests_are_those_of_the_profile_as_it_is_now(proof: dict[str, Any]) -> None:
    for claim in (c for c in proof["details"]["claims"] if c["what"] == "pairs"):
        answers = answers_of(proof, claim)
        assert answers.digest() == claim["answers_digest"], "the profile's arithmetic has changed: run mxspec prove again"
        chunks = answers.space.chunks()
        number = rng("proof", claim["dtype"], proof["target"]["name"]).randrange(len(chunks))
        if not claim["wrong"]:
            assert digest_answers(*answers.expect(*chunks[number])) == claim["digests"][number]


@pytest.mark.parametrize("name", ["gguf-mxfp4", "mxspec-mxfp4"])
def test_what_is_proven_has_no_difference(name: str) -> None:
    proof = read(f"proofs/{name}.json")
    assert proof["exit_code"] == 0
    assert sum(r["failing"] for r in proof["requirements"]) == 0


def test_broken_target_has_a_counterexample_at_its_threshold() -> None:
    proof = read("proofs/one-threshold-mxfp8_e4m3.json")
    element = next(r for r in proof["requirements"] if r["id"].endswith("/element"))
    assert proof["exit_code"] == 1
    assert element["failing"] > 0
    lanes = element["first"]["given"]["x"]
    assert len(lanes) <= 2
    bits = [int(v.split(" ")[0], 16) for v in lanes.values()]
    quotients = {abs(float(np.uint32(b).view(np.float32))) / 2.0 ** (int(element["first"]["expected"]["scale"], 16) - 127) for b in bits}
    assert 1.1875 in quotients


def test_every_planted_bug_was_found_within_a_minute() -> None:
    report = read("fuzz/planted.json")
    targets = {p.stem for p in (ROOT / "tests" / "targets" / "planted").glob("*.py")} - {"planted_base"}
    assert set(report["planted"]) == targets
    for runs in report["planted"].values():
        for run in runs:
            assert run["seconds"] <= report["limit_seconds"] == 60
            assert run["causes"]
            assert all(c["nonzero_lanes"] <= 4 for c in run["causes"])


def test_a_killed_dask_worker_cost_nothing() -> None:
    report = read("clusters/dask.json")
    assert report["killed_after_results"]
    assert report["workers_replaced"] == 1
    assert report["lost"] == []
    assert report["entered_twice"] == 0
    assert report["same_sums"]
    assert report["same_pieces"]
