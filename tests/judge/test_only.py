"""`check --only`: the verdicts of the whole run, by the calls that they need."""

from __future__ import annotations

import json
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec_conformance.judge import stages
from mxspec_conformance.judge.check import check
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.render.badge import render_badge
from mxspec_conformance.results.conclusion import Stand, conclude
from mxspec_conformance.results.report import Report, read_report
from mxspec_conformance.transports.in_process import InProcessSession

from tests.bugs.building import Answer, Array, make, on_blocks, right_values
from tests.judge.test_scale_search import searched


def quantize(x: Array, fmt: str, pad: bool = False) -> Answer:
    t = mxspec.quantize(x, fmt, pad=pad)
    return t.codes.copy(), t.scales.copy()


def as_rceil(x: Array, fmt: str, pad: bool = False) -> Answer:
    t = mxspec.quantize(x, fmt, profile="mx-rceil", pad=pad)
    return t.codes.copy(), t.scales.copy()


def ties_up(x: Array, fmt: str, pad: bool = False) -> Answer:
    """Codes one too large after a tie, and the last of many blocks left out."""
    codes, scales = quantize(x, fmt, pad)
    scaled = (
        np.abs(x.astype(np.float64)).reshape(*scales.shape, -1) / np.exp2(scales.astype(np.float64) - 127)[..., None] if not pad else None
    )
    if scaled is not None:
        codes[(scaled == 2.5).reshape(codes.shape)] += 1
    if x.size > 4096:
        codes[-1, -32:] = 0
    return codes, scales


by_search = on_blocks(searched("squared", (0, 1)))


def by_search_and_wrong(x: Array, fmt: str) -> Answer:
    codes, scales = by_search(x, fmt)
    if x.size > 4096:
        codes[-1, -32:] = 0
    return codes, scales


def encode(x: Array, element: str) -> Array:
    return mxspec.encode(x, element)


def swapped(codes: Array, layout: str) -> Array:
    if codes.shape[-1] % 2:
        raise ValueError("an odd number of columns")
    return np.asarray(codes[..., 1::2] | codes[..., ::2] << 4)


TARGETS: dict[str, Callable[..., Any]] = {
    "right": quantize, "as another profile": as_rceil, "wrong": ties_up, "searched": by_search, "searched and wrong": by_search_and_wrong,
}  # fmt: skip
GLOBS = (
    "quantize/mxfp4/tie-even", "quantize/*/tail", "*/refusal", "*/mxfp4/state", "dequantize/*", "encode/e2m1/*", "*/nibble-low/refusal",
    "pack/*/memory",
)  # fmt: skip


class Counting(InProcessSession):
    """Counts the calls."""

    made = 0

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        self.made += 1
        return super().call(function, *args, **kwargs)


def judge(name: str, only: str | None) -> tuple[Report, int]:
    target = make(
        ["mxfp4"], quantize=TARGETS[name], dequantize=right_values, encode=encode, pack=swapped, ELEMENTS=["e2m1"], LAYOUTS=["nibble-low"]
    )
    session = Counting(target, name)
    return check(session, only=only), session.made


@cache
def judge_whole(name: str) -> tuple[Report, int]:
    return judge(name, None)


@pytest.mark.parametrize(
    ("name", "only"),
    [*product(TARGETS, ("*/scale-*",)), *product(("right",), GLOBS), *product(("wrong",), GLOBS[:2]), ("as another profile", "*/nan")],
)
def test_a_part_has_the_verdicts_of_the_whole(name: str, only: str) -> None:
    whole, calls = judge_whole(name)
    part, fewer = judge(name, only)
    wanted = {r.id: (r.verdict, r.cases, r.failing, r.explained_by) for r in whole.requirements if fnmatchcase(r.id, only)}
    assert wanted
    assert {r.id: (r.verdict, r.cases, r.failing, r.explained_by) for r in part.requirements} == wanted
    assert fewer < calls or name.startswith("searched")


def test_the_targets_are_of_all_kinds() -> None:
    found = {name: {r.id: r.verdict.value for r in judge_whole(name)[0].requirements} for name in TARGETS}
    assert found["right"]["quantize/mxfp4/tie-even"] == "pass"
    assert found["wrong"]["quantize/mxfp4/tie-even"] == "fail"
    assert found["searched"]["scale/mxfp4/scale-boundary"] == "open"
    assert found["searched and wrong"]["scale/mxfp4/scale-boundary"] != "open"
    assert {verdicts["pack/nibble-low/place"] for verdicts in found.values()} == {"fail"}


@pytest.mark.parametrize("name", ["right", "wrong"])
def test_a_stage_enters_its_own_topics(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[str] = []
    tally = Scorecard.tally
    monkeypatch.setattr(Scorecard, "tally", lambda card, topic: entered.append(topic) or tally(card, topic))  # type: ignore[func-returns-value]

    def watch(stage: Any) -> Any:
        def judge_watched(*args: Any) -> Any:
            entered.clear()
            found = stage.judge(*args)
            assert set(entered) <= stage.topics, stage.judge
            return found

        return type(stage)(stage.operation, stage.source, judge_watched, stage.topics)

    for table in (stages.BLOCK_STAGES, stages.SCALAR_STAGES):
        for function, listed in table.items():
            monkeypatch.setitem(table, function, tuple(map(watch, listed)))  # type: ignore[arg-type]
    judge(name, None)


def test_a_part_is_not_said_to_conform() -> None:
    """The scale is another one's, and no requirement of quantize is about that."""
    target = make(["mxfp4"], quantize=as_rceil)
    target.PROFILE = "mx-even"
    whole, part = check(target, quick=True), check(target, quick=True, only="quantize/mxfp4/tie-even")
    assert whole.exit_code == 1
    assert part.exit_code == 0
    conclusion = conclude(part.formats[0], part.requirements)
    assert (conclusion.stand, conclusion.text) == (Stand.PART, "passes the requested part of mx-even")
    assert part.as_dict()["details"]["only"] == "quantize/mxfp4/tie-even"
    assert read_report(part.as_dict()).formats[0].partial
    assert json.loads(render_badge([part.as_dict()]))["message"] == "pass of quantize/mxfp4/tie-even"


@pytest.mark.parametrize("only", [["quantize/*"], 3])
def test_what_is_no_pattern_is_refused(only: Any) -> None:
    with pytest.raises(TypeError, match="pass one pattern of requirements"):
        check(make(["mxfp4"], quantize=quantize), only=only)
