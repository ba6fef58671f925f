"""The score of a test: what it detects, what it misses, what it rejects that is right, and what would close its gap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mxspec.enums import StrEnum
from mxspec.formats import get_block
from mxspec_conformance.kits.cover import cover_greedily
from mxspec_conformance.kits.golden import Block, Kills, Kit, find_kills, list_blocks, select
from mxspec_conformance.scoring.outcomes import Outcome, Verdict
from mxspec_conformance.scoring.pool import Question, ask_all
from mxspec_conformance.scoring.subjects import (
    Kind,
    Subject,
    has_own_rule,
    list_controls,
    list_independent,
    list_mutant_subjects,
    list_right,
)
from mxspec_conformance.targets.errors import TargetError

SCHEMA = "mxspec-score/1"
Progress = Callable[[str], None]


class Status(StrEnum):
    """Whether a score says something."""

    SCORED = "scored"
    #: No right implementation passes the test.
    NO_CONTROL = "no control passes"
    #: The controls' verdicts differ from run to run.
    FLAKY = "flaky"


@dataclass(frozen=True, slots=True)
class Row:
    """One implementation and what the test said of it."""

    subject: Subject
    outcome: Outcome

    @property
    def is_seen(self) -> bool:
        """Whether the test rejects it."""
        return self.outcome.verdict is Verdict.REJECTS

    @property
    def is_verdict(self) -> bool:
        """Whether the test said anything."""
        return self.outcome.verdict in (Verdict.ACCEPTS, Verdict.REJECTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The outcome of running a test against everything."""

    test: str
    format: str
    status: Status
    #: The rules whose plain implementation passes.
    rules: tuple[str, ...]
    controls: tuple[Row, ...]
    right: tuple[Row, ...] = ()
    mutants: tuple[Row, ...] = ()
    independent: tuple[Row, ...] = ()
    #: Mutants of rules that the test does not require.
    left_out: int = 0
    #: Of mutants that it does not see: what finds them out.
    kills: Mapping[str, Kills] = field(default_factory=dict)
    patch: tuple[Block, ...] = ()
    patch_calls: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def seen(self) -> int:
        """Mutants that it rejects."""
        return sum(row.is_seen for row in self.mutants)

    @property
    def survivors(self) -> tuple[Row, ...]:
        """Mutants that it accepts."""
        return tuple(row for row in self.mutants if row.outcome.verdict is Verdict.ACCEPTS)

    @property
    def rejected_right(self) -> tuple[Row, ...]:
        """Right implementations that it rejects, of the rules that it accepts as they stand."""
        return tuple(row for row in self.right if row.is_seen)

    @property
    def plain(self) -> tuple[Row, ...]:
        """Mutants that one plain call of ordinary data can show: those that a golden block finds out."""
        return tuple(
            row
            for row in self.mutants
            if self.kills.get(row.subject.name, Kills()).blocks or self.kills.get(row.subject.name, Kills()).open_blocks
        )


def score_test(
    test: str, fmt: str, *, profile: str = "", replace_by: Sequence[str] = (), jobs: int = 0, timeout: float = 60.0, right: bool = True,
    independent: bool = True, only: Callable[[Subject], bool] = lambda _: True, repeat: int = 2, patch: bool = True,
    progress: Progress = lambda _: None,
) -> Score:  # fmt: skip
    """Run a test against right implementations and mutants of a format.

    Args:
        test: What `scoring.asking.load_test` takes.
        fmt: A block format.
        profile: Score it against this rule alone; "": against each whose plain implementation it accepts.
        replace_by: For a pytest file, what takes the place of the functions under test.
        jobs: Processes; 0: one for each core.
        timeout: Seconds for one implementation.
        right: Also run right implementations that choose otherwise where OCP leaves a choice.
        independent: Also run bugs by other authors, where the checkout has them.
        only: Which mutants.
        repeat: How often each control is run; verdicts that differ make the test flaky.
        patch: Look for the blocks and calls that close its gap.
        progress: Called with what happens.

    Returns:
        The score.

    Raises:
        TargetError: The test does not load, or cannot be run on this format.
    """
    get_block(fmt)
    controls = [s for s in list_controls(fmt) if not profile or s.profile == profile]
    score, run = ask_controls(test, fmt, controls, replace_by=replace_by, jobs=jobs, timeout=timeout, repeat=repeat, progress=progress)
    if score.status is not Status.SCORED:
        return score
    rules = score.rules
    calls = {call for row in score.controls for call in row.outcome.calls}
    mutants, left_out = _choose_mutants(fmt, rules, calls, only)
    chosen = [*mutants, *(s for s in list_right(fmt) if right and s.profile in rules)]
    chosen += [s for s in list_independent(fmt) if independent and s.profile in rules and s.operation in calls]
    rows = run(chosen)
    kinds = {kind: tuple(row for row in rows if row.subject.kind is kind) for kind in Kind}
    score = replace(
        score, right=kinds[Kind.RIGHT], mutants=kinds[Kind.MUTANT], independent=kinds[Kind.INDEPENDENT], left_out=left_out,
        notes=tuple(list_notes(rows)), seconds=sum(row.outcome.seconds for row in rows),
    )  # fmt: skip
    return close_gap(score, progress) if patch else score


def ask_controls(
    test: str,
    scope: str,
    controls: Sequence[Subject],
    *,
    replace_by: Sequence[str],
    jobs: int,
    timeout: float,
    repeat: int,
    progress: Progress,
) -> tuple[Score, Callable[[Iterable[Subject]], list[Row]]]:
    """What plain right implementations, each run several times, say of a test; and what runs it on more of them.

    Raises TargetError for a test that cannot be run at all.
    """

    def run(subjects: Iterable[Subject]) -> list[Row]:
        listed = list(subjects)
        outcomes = ask_all(test, [Question(s, s.profile, timeout) for s in listed], replace=replace_by, jobs=jobs, progress=progress)
        return [Row(s, o) for s, o in zip(listed, outcomes, strict=True)]

    rounds = [run(controls) for _ in range(repeat)]
    if all(row.outcome.verdict in (Verdict.BROKEN, Verdict.SKIPPED) for row in rounds[0]):
        raise TargetError(f"{test}: {rounds[0][0].outcome.reason}")
    flaky = any(len({r[i].outcome.verdict for r in rounds}) > 1 for i in range(len(controls)))
    rules = tuple(row.subject.profile for i, row in enumerate(rounds[0]) if all(r[i].outcome.verdict is Verdict.ACCEPTS for r in rounds))
    status = Status.FLAKY if flaky else Status.SCORED if rules else Status.NO_CONTROL
    return Score(test=test, format=scope, status=status, rules=rules, controls=tuple(rounds[0]), notes=tuple(list_notes(rounds[0]))), run


def _choose_mutants(fmt: str, rules: Sequence[str], calls: set[str], only: Callable[[Subject], bool]) -> tuple[list[Subject], int]:
    """The mutants of operations that the test calls and of rules that it accepts.

    A mutant of the default rule that the change does not tie to it is put on the first accepted rule where the test accepts not the default.
    """
    chosen, left_out = [], 0
    for subject in list_mutant_subjects(fmt):
        if subject.operation not in calls or not only(subject):
            continue
        if subject.profile in rules:
            chosen.append(subject)
        elif not has_own_rule(subject):
            moved = replace(subject, profile=rules[0])
            if _differs(moved):
                chosen.append(moved)
            else:
                left_out += 1
        else:
            left_out += 1
    return chosen, left_out


def _differs(subject: Subject) -> bool:
    """Whether a mutant that was put on another rule is wrong there too."""
    if subject.operation != "quantize":
        return True
    return bool(find_kills(subject.build, Kit(subject.format, list_blocks(subject.format)), subject.profile).all)


def list_notes(rows: Sequence[Row]) -> list[str]:
    """What the test did other than accepting and rejecting, counted."""
    words = {
        Verdict.TIMEOUT: "gave no verdict in time", Verdict.ENDED: "ended its process without a verdict", Verdict.SKIPPED: "was skipped",
        Verdict.BROKEN: "could not be run",
    }  # fmt: skip
    counts = Counter(row.outcome.verdict for row in rows)
    notes = []
    for verdict, sentence in words.items():
        if counts[verdict]:
            first = next(row for row in rows if row.outcome.verdict is verdict)
            notes.append(f"the test {sentence} on {counts[verdict]} implementations, first {first.subject.name}: {first.outcome.reason}")
    return notes


def close_gap(score: Score, progress: Progress = lambda _: None) -> Score:
    """Enter what finds each survivor out, and the fewest blocks and calls, nearly, that find all of them out."""
    kit = Kit(score.format, list_blocks(score.format))
    kills: dict[str, Kills] = {}
    for row in score.mutants:
        if row.subject.operation == "quantize" and row.outcome.verdict is Verdict.ACCEPTS:
            progress(f"what finds {row.subject.id} out")
            kills[row.subject.name] = find_kills(row.subject.build, kit, row.subject.profile)
    wanted = [k.blocks or k.calls or k.open_blocks for k in kills.values() if k.all]
    chosen = cover_greedily(wanted, lambda name: 4.0 if name.startswith("call:") else 1.0)
    return replace(
        score, kills=kills, patch=select(score.format, [c for c in chosen if not c.startswith("call:")]),
        patch_calls=tuple(c.removeprefix("call:") for c in chosen if c.startswith("call:")),
    )  # fmt: skip


def by_family(rows: Iterable[Row]) -> dict[str, tuple[int, int]]:
    """Family -> (seen, all)."""
    found: dict[str, tuple[int, int]] = {}
    for row in rows:
        seen, total = found.get(row.subject.family, (0, 0))
        found[row.subject.family] = seen + row.is_seen, total + 1
    return found


def as_dict(score: Score) -> dict[str, Any]:
    """The score as JSON."""

    def rows(listed: Iterable[Row]) -> list[dict[str, Any]]:
        return [
            {"id": r.subject.id, "operation": r.subject.operation, "profile": r.subject.profile, "family": r.subject.family, "what": r.subject.what,
             "verdict": r.outcome.verdict.value, "reason": r.outcome.reason}
            for r in listed
        ]  # fmt: skip

    return {
        "schema": SCHEMA, "test": score.test, "format": score.format, "status": score.status.value, "rules": list(score.rules),
        "counts": {
            "mutants": len(score.mutants), "seen": score.seen, "left_out": score.left_out, "right": len(score.right),
            "right_rejected": len(score.rejected_right), "independent": len(score.independent),
            "independent_seen": sum(r.is_seen for r in score.independent),
        },
        "families": {name: {"seen": s, "mutants": n} for name, (s, n) in by_family(score.mutants).items()},
        "controls": rows(score.controls), "mutants": rows(score.mutants), "right_rejected": rows(score.rejected_right),
        "independent": rows(score.independent),
        "patch": {"blocks": [b["i"] for b in score.patch], "calls": list(score.patch_calls)}, "notes": list(score.notes),
    }  # fmt: skip
