"""Fuzzing functions of affine integers and of sparse operands: wrong ones are found, named and shrunk; right ones are not accused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxspec_conformance.fuzzing.operations.draw import draw_inputs, list_inputs, make_document, read_cases
from mxspec_conformance.fuzzing.operations.job import OperationJob
from mxspec_conformance.fuzzing.operations.subject import is_operations
from mxspec_conformance.fuzzing.run import fuzz, replay, run_batch, save
from mxspec_conformance.fuzzing.subject import Campaign, Dependence, Settings
from mxspec_conformance.results.report import Verdict, read_report
from mxspec_conformance.targets.affine import read_operand
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_lab.mutants.affine_matrix import CLAIMS
from mxspec_lab.mutants.affine_mutants import AFFINE_MUTANTS, ALL, Affine, AffineMutant
from mxspec_lab.sparse.mutants import MUTANTS
from mxspec_lab.sparse.plain import Plain, SparseVariant
from mxspec_lab.sparse.right import RIGHT
from mxspec_vectors.reading import read_json

from tests.support import seed

#: Batches within which every mutant is found, whatever the seed.
BATCHES = 6
SPARSE = ("prune", "compress", "decompress")


def make_job(target: Any, function: str, operand: str, claim: str | None = None) -> OperationJob:
    return OperationJob(
        target=InProcessSession(target, "drawn"), function=function, operand=operand, claim=claim, seed=seed(), in_process=True
    )


def make_sparse(one: SparseVariant, formats: tuple[str, ...]) -> Plain:
    return one.build(formats)


def is_found(job: OperationJob) -> bool:
    return any(run_batch(job, number)["wrong"] for number in range(BATCHES))


@pytest.mark.parametrize("mutant", AFFINE_MUTANTS, ids=lambda m: m.id)
def test_an_affine_mutant_is_found(mutant: AffineMutant) -> None:
    name = mutant.formats[AFFINE_MUTANTS.index(mutant) % len(mutant.formats)]
    claim = CLAIMS[mutant.function, read_operand(name).format.offset.value] if mutant.claimed_only else None
    assert is_found(make_job(Affine(mutant.id, (name,), mutant.change), mutant.function, name, claim))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.id}-{m.function}")
def test_a_sparse_mutant_is_found(mutant: SparseVariant) -> None:
    fmt = mutant.formats[0]
    assert is_found(make_job(make_sparse(mutant, (fmt,)), mutant.function, fmt))


@pytest.mark.parametrize("name", [*ALL, "int4-g64-bias-float16/words"])
@pytest.mark.parametrize("function", ["quantize_affine", "dequantize_affine"])
def test_a_right_affine_function_is_not_accused(function: str, name: str) -> None:
    for claim in (None, CLAIMS[function, read_operand(name).format.offset.value]):
        job = make_job(Affine("plain", (name,)), function, name, claim)
        assert [run_batch(job, number)["wrong"] for number in range(2)] == [[], []]


@pytest.mark.parametrize("right", RIGHT, ids=lambda r: r.id)
def test_a_right_sparse_function_is_not_accused(right: SparseVariant) -> None:
    target = make_sparse(right, right.formats)
    for function in SPARSE:
        for fmt in right.formats[:2]:
            assert run_batch(make_job(target, function, fmt), 0)["wrong"] == []


# What is drawn.


@pytest.mark.parametrize("function", ["quantize_affine", "dequantize_affine", *SPARSE])
def test_groups_are_the_same_for_the_same_seed_and_go_through_a_file(function: str) -> None:
    operand = "int4-g32-zero-bfloat16" if function.endswith("affine") else "e2m1-4to8"
    job = OperationJob(target=None, function=function, operand=operand, seed=seed())
    inputs = draw_inputs(job, 1)
    assert inputs == draw_inputs(job, 1) != draw_inputs(job, 2)
    assert len(inputs) == job.size
    document = json.loads(json.dumps(make_document(job, inputs)))
    again = list(list_inputs(document).values())
    assert len(again) == len(inputs)
    assert make_document(job, again)["cases"][0]["expect"] == document["cases"][0]["expect"]
    assert read_cases(document)


# Causes.


def campaign(target: Any, *operations: str) -> Campaign:
    return fuzz(target, Settings(seed=3, batches=2, operations=operations))


def find_mutant(name: str) -> AffineMutant:
    return next(m for m in AFFINE_MUTANTS if m.id == name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("affine-dequantize-bias-sign", "the sign of the bias is wrong"),
        ("affine-quantize-zero-one-more", "the zero point is one too high (GPTQ's stored zero minus one, read as v1)"),
    ],
)
def test_an_affine_mistake_is_named_and_shrunk(name: str, words: str) -> None:
    mutant = find_mutant(name)
    found = campaign(Affine(mutant.id, mutant.formats[:1], mutant.change), mutant.function)
    assert found.report.exit_code == 1
    first = next(f for f in found.operations if f.words == words)
    assert first.depends is Dependence.NOTHING
    assert len(first.inputs) == 1
    assert first.nonzero <= 8
    assert {r.verdict for r in found.report.requirements} & {Verdict.FAIL}


def test_what_depends_on_the_next_group_is_said() -> None:
    mutant = find_mutant("affine-dequantize-next-scale")
    found = campaign(Affine(mutant.id, mutant.formats[:1], mutant.change), mutant.function)
    words = [f.words for f in found.operations]
    assert "the scale of the next group is used, only next to other groups" in words


class Swapped:
    """The two kept are exchanged."""

    NAME, VERSION, SPARSE_FORMATS = "swapped", "1", ("e2m1-2to4",)
    right = Plain(name="right", formats=("e2m1-2to4",))

    def decompress(self, kept: Any, metadata: Any, fmt: str, shape: tuple[int, int]) -> Any:
        turned = np.asarray(kept).reshape(len(kept), -1, 2)[:, :, ::-1].reshape(np.shape(kept))
        return self.right.decompress(turned, metadata, fmt, shape)


def test_a_sparse_mistake_is_named_shrunk_saved_and_replayed(tmp_path: Path) -> None:
    found = campaign(Swapped())
    (finding,) = found.operations
    assert "exchanged" in finding.words
    assert (finding.nonzero, finding.depends) == (1, Dependence.NOTHING)
    (path,) = save(tmp_path, found.operations)
    assert is_operations(read_json(path))
    assert "differs" in {r.verdict for r in replay(path, InProcessSession(Swapped(), "swapped"))}
    assert {r.verdict for r in replay(path, InProcessSession(Swapped.right, "right"))} == {"right"}
    again = read_report(json.loads(found.report.to_json()))
    assert [r.id for r in again.requirements] == [r.id for r in found.report.requirements]
    assert {r.format for r in again.requirements} == {"decompress.e2m1-2to4"}


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"operation": "sparse", "format": "e2m1-2to4", "cases": [{"function": "prune", "codes": 3}]}))
    with pytest.raises(ValueError, match="groups that cannot be run"):
        replay(path, InProcessSession(Swapped.right, "right"))


# The command.
