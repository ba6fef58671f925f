"""Mutants of affine integers: each is found out as a stranger's kernel and under a claim; what is right is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mxspec_conformance.targets.affine import read_operand
from mxspec_lab.mutants.affine_matrix import CLAIMS, judge, judge_mutant
from mxspec_lab.mutants.affine_mutants import AFFINE_MUTANTS, ALL, Affine, AffineMutant

RECORD = Path(__file__).parents[1] / "reports" / "mutants" / "affine.json"


@pytest.mark.parametrize("name", [*ALL, "int4-g64-bias-float16/words"])
def test_the_unchanged_implementation_is_not_found_out(name: str) -> None:
    for function in ("quantize_affine", "dequantize_affine"):
        claim = CLAIMS[function, read_operand(name).format.offset.value]
        for claimed in (None, claim):
            assert judge(Affine("plain", (name,)), function, name, claimed) == ([], [])


@pytest.mark.share(10)
@pytest.mark.parametrize("mutant", AFFINE_MUTANTS, ids=lambda m: m.id)
def test_a_mutant_is_found_out(mutant: AffineMutant) -> None:
    """In one of its formats, another one for each mutant; the record has all."""
    place = AFFINE_MUTANTS.index(mutant) % len(mutant.formats)
    one = AffineMutant(
        id=mutant.id, source=mutant.source, what=mutant.what, function=mutant.function, formats=mutant.formats[place:][:1],
        change=mutant.change, claimed_only=mutant.claimed_only,
    )  # fmt: skip
    (row,) = judge_mutant(one)
    assert row.killed, row


def test_mistakes_with_a_name_are_named() -> None:
    named = {
        "affine-dequantize-next-scale": "as if the scale of the next group is used",
        "affine-dequantize-bias-sign": "as if the sign of the bias is wrong",
        "affine-dequantize-scale-bits": "as if the scale's 16 bits are read as the other 16-bit float",
        "affine-dequantize-word-awq": "as if the eight nibbles of a word are in AWQ's order",
        "affine-quantize-bias-sign": "as if the sign of the bias is wrong",
        "affine-quantize-nibbles": "as if the nibbles of each byte are exchanged",
        "affine-quantize-zero-one-more": "as if the zero point is one too high (GPTQ's stored zero minus one, read as v1)",
    }
    for mutant in AFFINE_MUTANTS:
        if mutant.id in named:
            row = next(judge_mutant(mutant))
            assert row.said == [named[mutant.id]], row


def test_ids_are_unique_and_steps_exist() -> None:
    assert len({m.id for m in AFFINE_MUTANTS}) == len(AFFINE_MUTANTS)
    with pytest.raises(ValueError, match="no such step"):
        Affine("x", ALL, {"rounding": lambda x: x})


def test_the_record_is_of_this_catalogue_and_nothing_survives() -> None:
    record = json.loads(RECORD.read_text("ascii"))
    assert {(r["mutant"], r["format"]) for r in record["rows"]} == {(m.id, f) for m in AFFINE_MUTANTS for f in m.formats}
    assert record["survivors"] == []
    assert all(r["claimed"] and (r["claimed_only"] or r["blind"]) for r in record["rows"])
