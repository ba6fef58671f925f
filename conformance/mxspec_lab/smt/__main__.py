"""Proofs for all inputs: `python -m mxspec_lab.smt`. Needs the packages pycparser and bitwuzla (or z3-solver), and gcc for what confirms mutants.

Every claim is written as SMT-LIB and given to the solver: `unsat` says that the definition, the C99 header's text and the array form are one
function. Mutants of the header must be `sat`, and the inputs found are asked again of the compiled header, of both models and of `check`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from mxspec_lab.smt.claims import FORMATS, Claim, list_claims, mutant_claim
from mxspec_lab.smt.confirming import confirm
from mxspec_lab.smt.mutants import MUTANTS, Mutant
from mxspec_lab.smt.solving import SOLVERS, Answer, solve
from mxspec_vectors.files import write_file

ROOT = Path(__file__).resolve().parents[3]
REPORT = ROOT / "reports" / "proofs" / "smt.json"
PAGE = ROOT / "reports" / "proofs" / "smt.md"
_START, _END = "<!-- smt -->", "<!-- end -->"


def prove(claim: Claim, solvers: Sequence[str], limit: int) -> dict[str, Any]:
    """What each solver says of a claim."""
    text = claim.text()
    entry: dict[str, Any] = {
        "format": claim.format,
        "profiles": list(claim.profiles),
        "function": claim.function,
        "form": claim.form,
        "bytes": len(text),
    }
    for solver in solvers:
        solved = solve(text, solver, limit)
        entry[solver] = {"version": solved.version, "answer": solved.answer, "seconds": solved.seconds}
    return entry


def refute(solver: str, limit: int, mutant: Mutant) -> dict[str, Any]:
    """What the solver finds of a mutant, and who confirms it."""
    claim = mutant_claim(mutant)
    solved = solve(claim.text(), solver, limit, ("amax", "x", "scale"))
    entry: dict[str, Any] = {
        "id": mutant.id,
        "what": mutant.what,
        "format": mutant.format,
        "profile": mutant.profile,
        "answer": solved.answer,
        "seconds": solved.seconds,
    }
    if solved.answer is Answer.SAT:
        entry["inputs"] = {n: f"{v:08x}" for n, v in sorted(solved.values.items()) if n != "scale"}
        entry |= confirm(mutant, mutant.format, mutant.profile, solved.values)
        entry["confirmed"] = entry["model"] == entry["exact"] != entry["compiled"] and entry["check"] == "differs"
    return entry


def control(fmt: str, profile: str) -> dict[str, Any]:
    """What `check` says of the header as it is."""
    return {"format": fmt, "profile": profile} | confirm(None, fmt, profile, None)


def render(document: dict[str, Any]) -> str:
    """The table of reports/proofs/smt.md."""
    solver = document["solvers"][0]
    rows = document["claims"]
    version = rows[0][solver]["version"]
    others = document["solvers"][1:]
    also = "".join(f"; {s} {version_of(rows, s)}, limit {limit_of(document, s)} s" for s in others)
    heads = ["header = definition", "arrays = definition", *(f"{s}: {form}" for s in others for form in ("header", "arrays"))]
    lines = [
        f"CPU seconds with reading the script; {solver} {version}, limit {document['limit']} s each{also}.", "",
        f"| format | function | rules | {' | '.join(heads)} |", f"|---|---|---|{'---:|' * len(heads)}",
    ]  # fmt: skip
    pairs: dict[tuple[str, str, str], dict[tuple[str, str], str]] = {}
    for r in rows:
        answers = pairs.setdefault((r["format"], r["function"], ", ".join(r["profiles"])), {})
        for s in document["solvers"]:
            known = s in r and r[s]["answer"] != "unknown"
            answers[s, r["form"]] = f"{r[s]['answer']}, {r[s]['seconds']:.1f} s" if known else "-"
    lines += [
        f"| {fmt} | {function} | {rules} | {' | '.join(answers[s, form] for s in document['solvers'] for form in ('header', 'arrays'))} |"
        for (fmt, function, rules), answers in pairs.items()
    ]
    found = [m for m in document["mutants"] if m["answer"] == "sat"]
    confirmed = [m for m in found if m["confirmed"]]
    lines += [
        "", f"Mutants of the header's text: {len(found)} of {len(document['mutants'])} `sat` (the slowest {max(m['seconds'] for m in found):.1f} s), "
        f"{len(confirmed)} counterexamples confirmed by the compiled header, both models and `check`.",
    ]  # fmt: skip
    left = [m for m in found if not m["confirmed"]]
    if left:
        lines.append(f"Differ only where OCP leaves the answer open, as `check` says: {', '.join(m['id'] for m in left if m['open'])}.")
    open_ = [f"{r['format']} {r['function']} {r['form']}" for r in rows if r[solver]["answer"] == "unknown"]
    lines.append(f"Not finished: {', '.join(open_) if open_ else 'none'}.")
    for other in others:
        asked = [r for r in rows if other in r]
        unsat, sat = (sum(r[other]["answer"] == a for r in asked) for a in ("unsat", "sat"))
        lines.append(
            f"{other} {version_of(rows, other)} was asked about {len(asked)} claims: {unsat} `unsat`, {sat} `sat`, {len(asked) - unsat - sat} not finished (-)."
        )
    return "\n".join(line.rstrip() for line in lines)


def version_of(rows: Sequence[dict[str, Any]], solver: str) -> str:
    """A solver's version; one that does not finish does not tell it."""
    return next((str(r[solver]["version"]) for r in rows if solver in r and r[solver]["version"]), "of unknown version")


def limit_of(document: dict[str, Any], solver: str) -> int:
    """CPU seconds that a solver was given for each claim."""
    return next((int(r[solver]["limit"]) for r in document["claims"] if "limit" in r.get(solver, {})), int(document["limit"]))


def write_page(document: dict[str, Any]) -> None:
    """Put the table into reports/proofs/smt.md."""
    head, _, rest = PAGE.read_text("utf-8").partition(_START)
    _, _, tail = rest.partition(_END)
    write_file(PAGE, f"{head}{_START}\n{render(document)}\n{_END}{tail}".encode())


def _tell(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows as they are, each printed when it is done."""
    for row in rows:
        print(json.dumps(row), file=sys.stderr, flush=True)
        yield row


@click.command()
@click.option("--format", "formats", multiple=True, type=click.Choice(FORMATS), help="Only these; repeatable.")
@click.option(
    "--solver",
    "solvers",
    multiple=True,
    type=click.Choice(SOLVERS),
    default=("bitwuzla",),
    show_default=True,
    help="Repeatable; mutants are asked of the first.",
)
@click.option("--limit", default=60, show_default=True, help="CPU seconds for each claim.")
@click.option("--emit", type=click.Path(path_type=Path), help="Write the scripts into this folder, and ask no solver.")
@click.option("--write", is_flag=True, help="Write reports/proofs/smt.json and the table of reports/proofs/smt.md.")
def main(formats: tuple[str, ...], solvers: tuple[str, ...], limit: int, emit: Path | None, write: bool) -> None:
    """Prove, refute, and print what was found."""
    claims = [c for fmt in formats or FORMATS for c in list_claims(fmt)]
    if emit is not None:
        emit.mkdir(parents=True, exist_ok=True)
        for claim in claims:
            write_file(emit / f"{claim.name}.smt2", claim.text().encode("ascii"))
        print(f"{len(claims)} scripts in {emit}")
        return
    rows = list(_tell(prove(claim, solvers, limit) for claim in claims))
    chosen = [m for m in MUTANTS if m.format in (formats or FORMATS)]
    mutants = list(_tell(refute(solvers[0], limit, mutant) for mutant in chosen))
    controls = list(_tell(control(*pair) for pair in sorted({(m.format, m.profile) for m in chosen})))
    wrong = [r for r in rows if any(r[s]["answer"] == "sat" for s in solvers)]
    missed = [m for m in mutants if not m.get("confirmed") and not m.get("open")] + [c for c in controls if c["check"] != "conforms"]
    print(f"{len(rows)} claims, {len(wrong)} refuted; {len(mutants)} mutants, {len(missed)} not confirmed")
    if write:
        document = {
            "schema": "mxspec-smt/1",
            "limit": limit,
            "solvers": list(solvers),
            "claims": rows,
            "mutants": mutants,
            "controls": controls,
        }
        write_file(REPORT, (json.dumps(document, indent=1) + "\n").encode("ascii"))
        write_page(document)
    raise click.exceptions.Exit(1 if wrong or missed else 0)


if __name__ == "__main__":
    main()
