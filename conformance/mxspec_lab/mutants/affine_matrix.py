"""The kill matrix of affine integers: each mutant judged as a stranger, and under the profile and contract that it breaks.

python -m mxspec_lab.mutants.affine_matrix [--json reports/mutants/affine.json]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mxspec_conformance.judge.affine.stage import judge_affine
from mxspec_conformance.results.report import GOOD
from mxspec_conformance.targets.affine import read_operand
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_lab.mutants.affine_mutants import AFFINE_MUTANTS, Affine, AffineMutant
from mxspec_lab.mutants.judging import render_rows
from mxspec_vectors.writing import write_file

#: What the plain implementation follows.
CLAIMS = {
    ("quantize_affine", "bias"): "affine-minmax-float32",
    ("quantize_affine", "zero"): "gptq/asymmetric",
    ("dequantize_affine", "bias"): "float32",
    ("dequantize_affine", "zero"): "float32",
}


@dataclass(slots=True)
class Row:
    """One mutant in one format."""

    mutant: str
    source: str
    what: str
    function: str
    format: str
    #: Requirements that fail where nothing is claimed, and under the profile or contract that it breaks.
    blind: list[str] = field(default_factory=list)
    claimed: list[str] = field(default_factory=list)
    #: What is said of the failures.
    said: list[str] = field(default_factory=list)
    #: Whether it is a mistake only under a claim.
    claimed_only: bool = False

    @property
    def killed(self) -> bool:
        """Whether it is found out wherever it has to be."""
        return bool(self.claimed) and (self.claimed_only or bool(self.blind))


def judge(target: Affine, function: str, name: str, claimed: str | None) -> tuple[list[str], list[str]]:
    """Topics that fail, and the notes on them."""
    found, _ = judge_affine(InProcessSession(target, target.NAME), function, name, claimed)
    bad = [r for r in found if r.verdict not in GOOD]
    return sorted({r.topic for r in bad}), sorted({r.note for r in bad if r.note.startswith("as ")})


def judge_mutant(mutant: AffineMutant) -> Iterator[Row]:
    """A mutant in each of its formats."""
    for name in mutant.formats:
        target = Affine(mutant.id, (name,), mutant.change)
        claim = CLAIMS[mutant.function, read_operand(name).format.offset.value]
        row = Row(mutant.id, mutant.source, mutant.what, mutant.function, name, claimed_only=mutant.claimed_only)
        row.blind, row.said = judge(target, mutant.function, name, None)
        row.claimed, _ = judge(target, mutant.function, name, claim)
        yield row


def main() -> None:
    """Judge all and write the matrix."""
    from mxspec_lab.evidence.status import stamp

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rows = [row for mutant in AFFINE_MUTANTS for row in judge_mutant(mutant)]
    alive = [f"{r.mutant} in {r.format}" for r in rows if not r.killed]
    for name in alive:
        print(f"survives: {name}")
    named = sum(bool(r.said) for r in rows)
    blind = [r for r in rows if not r.claimed_only]
    print(
        f"{len(AFFINE_MUTANTS)} mutants in {len(rows)} places, {len(rows) - len(alive)} killed; {sum(bool(r.blind) for r in blind)} "
        f"of {len(blind)} with nothing claimed, {named} named"
    )
    if asked.json:
        document = {
            "mutants": len(AFFINE_MUTANTS),
            "places": len(rows),
            "survivors": alive,
            "named": named,
            "rows": [asdict(r) for r in rows],
        }
        write_file(asked.json, render_rows(document, "rows").encode("ascii"))
        stamp(asked.json)


if __name__ == "__main__":
    main()
