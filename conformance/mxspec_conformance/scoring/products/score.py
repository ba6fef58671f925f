"""The score of a test of products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mxspec_conformance.kits.cover import cover_greedily
from mxspec_conformance.kits.golden import Kills
from mxspec_conformance.kits.products import PAIRS, find_kills, list_calls
from mxspec_conformance.kits.products_runtime import CLASSES
from mxspec_conformance.scoring.products.implementation import ProductImplementation
from mxspec_conformance.scoring.products.subjects import MOVED, laboratory, list_subjects
from mxspec_conformance.scoring.score import Progress, Score, Status, ask_controls, list_notes
from mxspec_conformance.scoring.subjects import Kind, Subject

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
    listed = list_subjects(scope)
    controls = [s for s in listed if s.kind is Kind.CONTROL]
    score, run = ask_controls(test, scope, controls, replace_by=replace_by, jobs=jobs, timeout=timeout, repeat=repeat, progress=progress)
    if score.status is not Status.SCORED:
        return score
    wanted = [s for s in listed if s.kind is not Kind.CONTROL and (s.kind is not Kind.MUTANT or only(s))]
    rows = run(s for s in wanted if s.profile in score.rules)
    score = replace(
        score, right=tuple(r for r in rows if r.subject.kind is Kind.RIGHT), mutants=tuple(r for r in rows if r.subject.kind is Kind.MUTANT),
        left_out=sum(s.kind is Kind.MUTANT and s.profile not in score.rules for s in wanted), notes=tuple(list_notes(rows)),
        seconds=sum(row.outcome.seconds for row in rows),
    )  # fmt: skip
    return _close_gap(score, progress) if patch else score


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
