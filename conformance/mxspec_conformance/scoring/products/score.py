"""The score of a test of products."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from mxspec_conformance.kits.cover import cover_greedily
from mxspec_conformance.kits.golden import Kills
from mxspec_conformance.kits.products import PAIRS, find_kills, list_calls
from mxspec_conformance.kits.products_runtime import CLASSES
from mxspec_conformance.scoring.outcomes import Verdict
from mxspec_conformance.scoring.pool import Question, ask_all
from mxspec_conformance.scoring.products.implementation import ProductImplementation
from mxspec_conformance.scoring.products.subjects import MOVED, laboratory, list_subjects
from mxspec_conformance.scoring.score import Progress, Row, Score, Status
from mxspec_conformance.scoring.subjects import Kind, Subject
from mxspec_conformance.targets.errors import TargetError

#: Class of accumulations -> its letter in kits; a kernel that declares none adds in float32.
_LETTERS = {name: letter for letter, name in CLASSES.items()} | {"": "b"}


def score_products(
    test: str, scope: str, *, replace_by: Sequence[str] = (), jobs: int = 0, timeout: float = 60.0, only: Callable[[Subject], bool] = lambda _: True,
    repeat: int = 2, patch: bool = True, progress: Progress = lambda _: None,
) -> Score:  # fmt: skip
    """Run a test against right and wrong kernels.

    Args:
        test: What `scoring.asking.load_test` takes.
        scope: A pair of formats such as `nvfp4@nvfp4`; or `products`: every kernel, each by its own pair.
        replace_by, jobs, timeout, only, repeat, patch, progress: As those of `score_test`.

    Returns:
        The score. Its rules are the pairs of formats whose plain kernel the test accepts.

    Raises:
        TargetError: The test does not load, or cannot be run on this pair; or there are no kernels here.
    """

    def run(subjects: Iterable[Subject]) -> list[Row]:
        listed = list(subjects)
        outcomes = ask_all(test, [Question(s, s.profile, timeout) for s in listed], replace=replace_by, jobs=jobs, progress=progress)
        return [Row(s, o) for s, o in zip(listed, outcomes, strict=True)]

    listed = list_subjects(scope)
    controls = [s for s in listed if s.kind is Kind.CONTROL]
    rounds = [run(controls) for _ in range(repeat)]
    _check_usable(test, rounds[0])
    flaky = any(len({r[i].outcome.verdict for r in rounds}) > 1 for i in range(len(controls)))
    rules = tuple(row.subject.profile for i, row in enumerate(rounds[0]) if all(r[i].outcome.verdict is Verdict.ACCEPTS for r in rounds))
    if flaky or not rules:
        status = Status.FLAKY if flaky else Status.NO_CONTROL
        return Score(test=test, format=scope, status=status, rules=rules, controls=tuple(rounds[0]), notes=tuple(_list_notes(rounds[0])))
    wanted = [s for s in listed if s.kind is not Kind.CONTROL and (s.kind is not Kind.MUTANT or only(s))]
    rows = run(s for s in wanted if s.profile in rules)
    score = Score(
        test=test, format=scope, status=Status.SCORED, rules=rules, controls=tuple(rounds[0]),
        right=tuple(r for r in rows if r.subject.kind is Kind.RIGHT), mutants=tuple(r for r in rows if r.subject.kind is Kind.MUTANT),
        left_out=sum(s.kind is Kind.MUTANT and s.profile not in rules for s in wanted), notes=tuple(_list_notes(rows)),
        seconds=sum(row.outcome.seconds for row in rows),
    )  # fmt: skip
    return _close_gap(score, progress) if patch else score


def _check_usable(test: str, controls: Sequence[Row]) -> None:
    """Raise for a test that cannot be run at all."""
    if all(row.outcome.verdict in (Verdict.BROKEN, Verdict.SKIPPED) for row in controls):
        raise TargetError(f"{test}: {controls[0].outcome.reason}")


def _list_notes(rows: Sequence[Row]) -> list[str]:
    """What the test did other than accepting and rejecting, counted."""
    others = [row for row in rows if not row.is_verdict]
    counts = Counter(row.outcome.verdict for row in others)
    return [
        f"no verdict on {counts[verdict]} kernels ({verdict.value}), first {first.subject.name}: {first.outcome.reason}"
        for verdict in counts for first in [next(row for row in others if row.outcome.verdict is verdict)]
    ]  # fmt: skip


def find_product_kills(subject: Subject) -> Kills:
    """Which golden calls, and call patterns, find a kernel out."""
    accumulator, numbers = laboratory().declares(subject)
    if subject.format not in PAIRS or accumulator not in _LETTERS:
        return Kills()
    pair = subject.format

    def build() -> Callable[..., object]:
        return ProductImplementation(subject.build(), pair).matmul

    return find_kills(build, pair, list_calls(pair)[1], _LETTERS[accumulator], numbers)


def _close_gap(score: Score, progress: Progress) -> Score:
    """Enter what finds each survivor out, and the fewest golden calls and patterns, nearly, that find all of them out.

    A mutant that was moved from another pair, that the test does not see and no golden call either, may be no mistake here: it is left out.
    """
    kills: dict[str, Kills] = {}
    for row in score.survivors:
        progress(f"what finds {row.subject.id} out")
        kills[row.subject.name] = find_product_kills(row.subject)
    undecided = {r.subject.name for r in score.survivors if MOVED in r.subject.what and not kills[r.subject.name].all}
    wanted = [
        {call if call.startswith("call:") else f"{row.subject.format}/{call}" for call in kills[row.subject.name].blocks or kills[row.subject.name].calls}
        for row in score.survivors if kills[row.subject.name].all
    ]  # fmt: skip
    chosen = cover_greedily(wanted, lambda name: 4.0 if name.startswith("call:") else 1.0)
    return replace(
        score, kills=kills, mutants=tuple(r for r in score.mutants if r.subject.name not in undecided), left_out=score.left_out + len(undecided),
        patch=tuple({"i": c} for c in chosen if not c.startswith("call:")),
        patch_calls=tuple(c.removeprefix("call:") for c in chosen if c.startswith("call:")),
    )  # fmt: skip
