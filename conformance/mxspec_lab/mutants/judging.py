"""Judging mutants: which cases find one out, and many of them at one level, within a selection of cases."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mxspec.layouts import get_layout
from mxspec.profiles import get_profile
from mxspec.profiles.schema import Kind
from mxspec_conformance.judge import layouts as judge_layouts
from mxspec_conformance.judge.stages import BLOCK_STAGES, SCALAR_STAGES, BlockRun, Source
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.mutants.instance import LAYOUT_OPERATIONS, Instance
from mxspec_conformance.observations.format import Observations
from mxspec_conformance.observations.selection import EVERYTHING, Selection, keeps, selects_calls, use_selection
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_lab.pools import forked_pool
from mxspec_vectors.cases import (
    load_decode_cases,
    load_encode_cases,
    load_layout_file,
    load_quantize_cases,
    load_scale_cases,
    load_stochastic_cases,
    read_dequantize_cases,
)
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

    transport = "python"

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
    for source, scorecard in _run_stages(session, operation, fmt, profile):
        kills = _collect(source, operation, scorecard, asked)
        for label, topic in kills:
            found.kills.setdefault(label, topic)
        if stop and found.kills:
            break
    found.asked, found.answers = share(frozenset(asked)), session.digest()
    return found


def _collect(source: Source, operation: str, scorecard: Scorecard, asked: set[Label]) -> Iterator[tuple[Label, str]]:
    """Enter what a stage asked; gives what did not pass, with its topic."""
    if source is Source.CALLS:
        function = Source.STOCHASTIC.value if operation == "encode_stochastic" else operation
        place = f"{function}/{scorecard.format}"
    else:
        place = scorecard.format
    for tally in scorecard.tallies.values():
        labels = {case: (source.value, place, tally.origins.get(case, case)) for case in tally.cases}
        asked.update(labels.values())
        no_answers = [case for case, no_answer in tally.no_answers.items() if not no_answer.is_unsupported]
        yield from ((labels[case], tally.topic) for case in (*tally.failing, *no_answers))


def _run_stages(session: TargetSession, operation: str, fmt: str, profile: str) -> Iterator[tuple[Source, Scorecard]]:
    """A scorecard for each of the judge's stages, in order."""
    if operation in LAYOUT_OPERATIONS:
        yield Source.LAYOUT, _judge_layout(session, operation, fmt)
    elif operation in BLOCK_STAGES:
        known = get_profile(profile, fmt)
        run = BlockRun(Observations(session, fmt), known, naming=False, pinned=known.kind is not Kind.NORMATIVE)
        for stage in BLOCK_STAGES[operation]:
            if stage.source is Source.CALLS and not selects_calls():
                continue
            scorecard = Scorecard(stage.operation, fmt)
            stage.judge(run, scorecard)
            yield stage.source, scorecard
    else:
        for scalar_stage in SCALAR_STAGES[operation]:
            if scalar_stage.source is Source.CALLS and not selects_calls():
                continue
            scorecard = Scorecard(scalar_stage.operation, fmt)
            scalar_stage.judge(session, fmt, scorecard)
            yield scalar_stage.source, scorecard


_SHARED: dict[frozenset[Label], frozenset[Label]] = {}


def share(labels: frozenset[Label]) -> frozenset[Label]:
    """The set itself, or the one that was there before and is equal."""
    return _SHARED.setdefault(labels, labels)


def _judge_layout(session: TargetSession, function: str, layout: str) -> Scorecard:
    scorecard = Scorecard(function, layout)
    for requirement in judge_layouts.judge_layout(session, function, get_layout(layout)):
        topic = requirement.id.rpartition("/")[2]
        for case in load_layout_file(layout).cases:
            if topic in (case.topic, "padding") and keeps("layout", layout, case.id):
                scorecard.count(topic, case.id, ok=case.id not in requirement.failing_cases)
    return scorecard


def flags_of(label: Label) -> tuple[str, ...]:
    """The flags of a case; of a call, which no vector file lists, none."""
    kind, fmt, name = label
    if kind == Source.CALLS:
        return ()
    flags = _read_flags(kind, fmt)
    return flags.get(name.partition("[")[0].partition("@")[0], flags.get("", ()))


_FLAGS: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}


def _read_flags(kind: str, fmt: str) -> dict[str, tuple[str, ...]]:
    if (kind, fmt) not in _FLAGS:
        flags = {case.id: case.flags for case in _LOADERS[Source(kind)](fmt)}
        # A table is one case to the judge and many to the file.
        every = dict.fromkeys(f for own in flags.values() for f in own)
        flags[""] = tuple(f for f in every if f in FLAGS)
        _FLAGS[kind, fmt] = flags
    return _FLAGS[kind, fmt]


_LOADERS: dict[Source, Callable[[str], Iterable[Any]]] = {
    Source.QUANTIZE: load_quantize_cases,
    Source.SCALE: load_scale_cases,
    Source.DEQUANTIZE: lambda fmt: read_dequantize_cases(read_document("dequantize", fmt)),
    Source.ENCODE: load_encode_cases,
    Source.DECODE: load_decode_cases,
    Source.STOCHASTIC: load_stochastic_cases,
    Source.LAYOUT: lambda layout: load_layout_file(layout).cases,
}


Progress = Callable[[str], None]


@dataclass(slots=True)
class Level:
    """All instances, judged at one level."""

    found: dict[str, Found] = field(default_factory=dict)
    #: Processor seconds.
    seconds: float = 0.0

    @property
    def survivors(self) -> list[str]:
        """Instances that no case finds out."""
        return [name for name, found in self.found.items() if not found.kills]


def judge_level(
    instances: Sequence[Instance], selection: Selection = EVERYTHING, *, progress: Progress = lambda _: None,
    stop: bool = False, jobs: int | None = 1,
) -> Level:  # fmt: skip
    """Judge instances within a selection; stop: each only until it is killed; jobs: processes, None one for each core."""
    level = Level()
    with ExitStack() as stack:
        results: Iterable[tuple[Found, float]]
        if jobs == 1:
            results = (_judge_one(instance, selection, stop) for instance in instances)
        else:
            # Instances hold functions that cannot be sent to a process; forked ones have them.
            pool = stack.enter_context(forked_pool(jobs, _keep, (instances, selection, stop)))
            results = pool.map(_judge_kept, range(len(instances)))
        for number, (instance, (found, seconds)) in enumerate(zip(instances, results, strict=True), 1):
            found.asked = share(found.asked)
            level.found[instance.name] = found
            level.seconds += seconds
            progress(f"{number} of {len(instances)}, {len(level.survivors)} alive: {instance.name}")
    return level


#: What a worker judges.
_kept: list[tuple[Sequence[Instance], Selection, bool]] = []


def _keep(instances: Sequence[Instance], selection: Selection, stop: bool) -> None:
    _kept[:] = [(instances, selection, stop)]


def _judge_kept(number: int) -> tuple[Found, float]:
    instances, selection, stop = _kept[0]
    return _judge_one(instances[number], selection, stop)


def _judge_one(instance: Instance, selection: Selection, stop: bool) -> tuple[Found, float]:
    """An instance's verdict, and its seconds of one core."""
    started = time.process_time()
    with use_selection(selection):
        found = judge_instance(instance, stop=stop)
    return found, time.process_time() - started


def render_rows(document: Mapping[str, Any], *listed: str, separators: tuple[str, str] = (", ", ": ")) -> str:
    """Canonical JSON: one row of a list to a line; listed: the keys of these lists."""
    lines = []
    for key, value in document.items():
        rows = ",\n".join(json.dumps(row, separators=separators) for row in value) if key in listed else ""
        lines.append(f' "{key}": [\n{rows}\n ]' if key in listed else f' "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"
