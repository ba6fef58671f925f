"""Judging one mutant: which cases find it out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mxspec.formats import get_block
from mxspec.layouts import get_layout
from mxspec.profiles import get_profile
from mxspec_conformance.judge import (
    dequantize as judge_dequantize,
    layouts as judge_layouts,
    quantize as judge_quantize,
    scalars as judge_scalars,
    scale as judge_scale,
)
from mxspec_conformance.judge.invariance import batch_shape as judge_shape, repeat as judge_calls
from mxspec_conformance.judge.quantize import Observed, answer_matches
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.observations.selection import CALLS, keeps
from mxspec_conformance.targets.sessions import CallError, InProcessSession, TargetSession
from mxspec_lab.mutants.schema import LAYOUT_OPERATIONS, Instance
from mxspec_vectors.files import read_document
from mxspec_vectors.topics import FLAGS

#: A case that was asked: the operation of its vector file or `calls`, the file's format, its label.
Label = tuple[str, str, str]


@dataclass(slots=True)
class Found:
    """What judging an instance came to."""

    #: Case -> the topic under which it does not pass.
    kills: dict[Label, str] = field(default_factory=dict)
    #: Cases asked; equal sets are one object, as there are many and large ones.
    asked: frozenset[Label] = frozenset()
    #: SHA-256 of everything that was returned.
    answers: str = ""


class Recording:
    """An session that keeps a digest of the answers."""

    road = "python"

    def __init__(self, session: InProcessSession) -> None:
        self._session, self._digest = session, hashlib.sha256()
        self.capabilities = session.capabilities

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallError."""
        try:
            answer = self._session.call(function, *args, **kwargs)
        except CallError as failure:
            self._digest.update(f"{failure.kind}: {failure}".encode())
            raise
        _feed(self._digest, answer)
        return answer

    def close(self) -> None:
        """Nothing to free."""

    def digest(self) -> str:
        """SHA-256 of all answers so far."""
        return self._digest.hexdigest()


def _feed(digest: Any, answer: Any) -> None:
    if isinstance(answer, tuple):
        for part in answer:
            _feed(digest, part)
    elif isinstance(answer, np.ndarray):
        digest.update(repr((answer.shape, str(answer.dtype))).encode())
        digest.update(np.ascontiguousarray(answer).tobytes())
    else:
        digest.update(repr(answer).encode())


def judge_instance(instance: Instance, *, stop: bool = False) -> Found:
    """The cases, within the selection in force, that do not pass under the profile that the mutant breaks.

    stop: end with the first stage that finds something.
    """
    found = Found()
    for target in instance.build():
        one = judge_target(target, instance.operation, instance.format, instance.profile, stop=stop)
        found.kills |= one.kills
        found.asked = share(found.asked | one.asked)
        found.answers += one.answers
    return found


def judge_target(target: Any, operation: str, fmt: str, profile: str, *, stop: bool = False) -> Found:
    """The cases of one operation and format that a target does not pass under a profile."""
    found, asked = Found(), set[Label]()
    session = Recording(InProcessSession(target, target.NAME))
    for kind, scorecard in _stages(session, operation, fmt, profile):
        for tally in scorecard.tallies.values():
            asked |= {_place(operation, fmt, kind, label) for label in tally.cases}
            no_answers = [label for label, no_answer in tally.no_answers.items() if no_answer.kind != "unsupported"]
            for label in (*tally.failing, *no_answers):
                found.kills.setdefault(_place(operation, fmt, kind, label), tally.topic)
        if stop and found.kills:
            break
    found.asked, found.answers = share(frozenset(asked)), session.digest()
    return found


_SHARED: dict[frozenset[Label], frozenset[Label]] = {}


def share(labels: frozenset[Label]) -> frozenset[Label]:
    """The set itself, or the one that was there before and is equal."""
    return _SHARED.setdefault(labels, labels)


def _place(operation: str, fmt: str, kind: str, label: str) -> Label:
    if kind == CALLS:
        function = "stochastic" if operation == "encode_stochastic" else operation
        return CALLS, f"{function}/{fmt}", label
    if kind == "quantize":  # every input dtype of a case
        return kind, fmt, label.partition("@")[0]
    if kind == "dequantize":
        return kind, fmt, label.split("-scale-")[0]
    if kind == "encode":  # every rounding of a lane
        case, _, lane = label.rpartition("[")
        return kind, fmt, f"{case.partition('@')[0]}[{lane}"
    return kind, fmt, label


def _stages(session: TargetSession, operation: str, fmt: str, profile: str) -> Iterator[tuple[str, Scorecard]]:
    """Ledgers, each of one vector file or of calls."""
    if operation in LAYOUT_OPERATIONS:
        yield "layout", _judge_layout(session, operation, fmt)
    elif operation == "quantize":
        yield from _quantize_stages(session, fmt, profile)
    elif operation == "dequantize":
        yield from _dequantize_stages(session, fmt, profile)
    elif operation == "tensor_scale":
        scorecard = Scorecard("tensor_scale", fmt)
        judge_scalars.judge_tensor_scale(session, fmt, get_profile(profile, fmt), scorecard)
        yield CALLS, scorecard
    else:
        kind = "stochastic" if operation == "encode_stochastic" else operation
        judge: Any = {
            "encode": judge_scalars.judge_encode,
            "decode": judge_scalars.judge_decode,
            "encode_stochastic": judge_scalars.judge_stochastic,
        }[operation]
        scorecard = Scorecard(kind, fmt)
        judge(session, fmt, scorecard)
        yield kind, scorecard
        scorecard = Scorecard(kind, fmt)
        judge_calls.judge_scalar_calls(session, operation, fmt, scorecard)
        yield CALLS, scorecard


def _quantize_stages(session: TargetSession, fmt: str, profile: str) -> Iterator[tuple[str, Scorecard]]:
    block, rules = get_block(fmt), get_profile(profile, fmt)
    scorecard, seen = Scorecard("quantize", fmt), []
    for item in judge_quantize.observe(session, fmt, judge_quantize.load_cases(fmt)):
        if isinstance(item, Observed):
            seen.append(item)
            if not _is_canonical(item, rules.id, block.element):
                judge_quantize.judge_observed(item, block, rules, scorecard, naming=False)
            else:
                scorecard.tally(item.case.topic).cases.add(item.label)
        else:
            case, dtype, no_answer = item
            if rules.id in case.answers:
                scorecard.count_no_answer(case.topic, judge_quantize.dtype_label(case, dtype), no_answer)
    yield "quantize", scorecard
    scorecard = Scorecard("scale", fmt)
    scales = judge_scale.observe_scales(session, fmt, judge_scale.load_scale_cases(fmt))
    judge_scale.judge_scales(scales, block, rules.id, scorecard, naming=False)
    yield "scale", scorecard
    scorecard = Scorecard("quantize", fmt)
    judge_calls.judge_quantize_calls(session, block, seen, scorecard)
    judge_shape.judge_quantize_shapes(session, block, seen, scorecard)
    yield CALLS, scorecard


def _is_canonical(seen: Observed, profile: str, element: Any) -> bool:
    """Whether every bit is the profile's own answer, which passes."""
    answers = seen.case.answers.get(profile)
    return answers is not None and answer_matches(
        judge_quantize.replace_mask(answers[0]), seen.scales, seen.codes, element, signs=True
    )


def _dequantize_stages(session: TargetSession, fmt: str, profile: str) -> Iterator[tuple[str, Scorecard]]:
    block, rules = get_block(fmt), get_profile(profile, fmt)
    scorecard = Scorecard("dequantize", fmt)
    tables = judge_dequantize.observe_tables(session, fmt)
    judge_dequantize.judge_tables(tables, block, rules, scorecard, [])
    yield "dequantize", scorecard
    scorecard = Scorecard("dequantize", fmt)
    if not all(isinstance(values, NoAnswer) for _, values in tables):
        judge_calls.judge_dequantize_calls(session, block, tables, scorecard)
        judge_shape.judge_dequantize_shapes(session, block, tables, scorecard)
    yield CALLS, scorecard


def _judge_layout(session: TargetSession, function: str, layout: str) -> Scorecard:
    scorecard = Scorecard(function, layout)
    for requirement in judge_layouts.judge_layout(session, function, get_layout(layout)):
        topic = requirement.id.rpartition("/")[2]
        for case in judge_layouts.load_cases(get_layout(layout)):
            if topic in (case.topic, "padding") and keeps("layout", layout, case.id):
                scorecard.count(topic, case.id, ok=case.id not in requirement.failing_cases)
    return scorecard


def flags_of(label: Label) -> tuple[str, ...]:
    """The flags of a case; of a call, which no vector file lists, none."""
    kind, fmt, name = label
    if kind == CALLS:
        return ()
    flags = _read_flags(kind, fmt)
    return flags.get(name.partition("[")[0].partition("@")[0], flags.get("", ()))


_FLAGS: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}


def _read_flags(kind: str, fmt: str) -> dict[str, tuple[str, ...]]:
    if (kind, fmt) not in _FLAGS:
        cases = read_document(kind, fmt)["cases"]
        flags = {case["id"]: tuple(case["flags"]) for case in cases}
        # A table is one case to the judge and many to the file.
        every = dict.fromkeys(f for case in cases for f in case["flags"])
        flags[""] = tuple(f for f in every if f in FLAGS)
        _FLAGS[kind, fmt] = flags
    return _FLAGS[kind, fmt]
