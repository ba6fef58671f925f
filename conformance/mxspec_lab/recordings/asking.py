"""Recording a library: the judge asks it what vectors ask, and what came back is set against the profiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import mxspec
from mxspec_conformance.judge.check import check
from mxspec_conformance.judge.planning import Model
from mxspec_conformance.observations.selection import NUMBERS_ALONE
from mxspec_conformance.results.environment import describe_environment, describe_git
from mxspec_conformance.results.report import Report
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.errors import CallError, FailureKind
from mxspec_conformance.targets.interface import OPERATIONS
from mxspec_conformance.targets.marshalling import Marshaller
from mxspec_conformance.targets.operand_words import ROW_MAJOR, UNPACKED
from mxspec_conformance.targets.sessions import TargetSession, run_call
from mxspec_conformance.transports.opening import open_target
from mxspec_conformance.transports.wire import PLAIN_DTYPES, digest_call, name_arguments
from mxspec_lab.recordings.items import Items, Rows, digest_answers, list_items
from mxspec_lab.recordings.recording import Answers, Recording, describe_error
from mxspec_vectors.files import vector_digest

#: A call with its items.
Call = tuple[str, Sequence[Any], Mapping[str, Any], Items]


def record(target: Any) -> tuple[Recording, Report]:
    """Ask a target everything that vectors ask.

    Args:
        target: As for `check`.

    Returns:
        The recording, and what the judge found meanwhile.

    Raises:
        TargetError: The target does not load.
    """
    session = RecordingSession(open_target(target))
    report = judge(session)
    return session.finish(), report


def judge(session: TargetSession) -> Report:
    """What the judge finds by numbers alone."""
    return check(session, selection=NUMBERS_ALONE, data=())


class RecordingSession:
    """Passes calls on, and keeps what came back: the first answer to each item."""

    def __init__(self, inner: TargetSession) -> None:
        self._inner = inner
        self.capabilities, self.transport = inner.capabilities, inner.transport
        origin = {
            "target": self.capabilities.name, "version": self.capabilities.version, "vectors": vector_digest(),
            "environment": describe_environment() | getattr(inner, "environment", {}), "commit": describe_git(__file__).get("git", {}),
        }  # fmt: skip
        self._recording = Recording(origin, self.transport, self.capabilities)
        self._calls: dict[str, list[Call]] = {}
        #: Class -> item -> the bytes of its answer, or the number of an error.
        self._answers: dict[str, dict[int, bytes | int]] = {}

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallError."""
        items = list_items(function, args, kwargs)
        try:
            answer = self._inner.call(function, *args, **kwargs)
        except CallError as error:
            self._keep(items, function, args, kwargs, error)
            raise
        self._keep(items, function, args, kwargs, answer)
        return answer

    def close(self) -> None:
        """Close the session."""
        self._inner.close()

    def _keep(self, items: Items | None, function: str, args: Sequence[Any], kwargs: Mapping[str, Any], answer: Any) -> None:
        if items is None:
            found = {"error": self._number(answer)} if isinstance(answer, CallError) else describe_answer(answer)
            self._recording.calls.setdefault(digest_whole(function, args, kwargs), found)
            return
        known, calls = self._answers.setdefault(items.name, {}), self._calls.setdefault(items.name, [])
        if isinstance(answer, CallError):
            # What of a batch failed is found by smaller calls, whose answers take its place.
            number = self._number(answer)
            for key in items.keys.tolist():
                known.setdefault(key, number)
            return
        rows = items.split(answer)
        if rows is None:
            raise ValueError(f"{function} returned other arrays than the interface has: {answer!r:.80}; nothing is recorded")
        calls.append((function, args, kwargs, items))
        for key, row in zip(items.keys.tolist(), rows, strict=True):
            if not isinstance(known.get(key), bytes):
                known[key] = row.tobytes()

    def _number(self, error: CallError) -> int:
        described, errors = describe_error(error), self._recording.errors
        if described not in errors:
            errors.append(described)
        return errors.index(described)

    def finish(self) -> Recording:
        """The recording of what was asked."""
        likely: list[str] = []
        for name, calls in sorted(self._calls.items()):
            found = _find_answers(self._recording, calls, self._answers[name], likely)
            self._recording.classes[name] = found
            if isinstance(found, Answers) and found.profile and found.profile not in likely:
                likely.append(found.profile)
        return self._recording


def _find_answers(recording: Recording, calls: Sequence[Call], known: Mapping[int, bytes | int], likely: Sequence[str]) -> Answers | int:
    """A class of items, by the profile that leaves the fewest answers to be stored; likely: profiles to try first."""
    errors = {key: answer for key, answer in known.items() if isinstance(answer, int)}
    kinds = {recording.errors[number]["kind"] for number in errors.values()}
    if len(errors) == len(known) and len(set(errors.values())) == 1 and kinds == {FailureKind.UNSUPPORTED.value}:
        return next(iter(errors.values()))
    keys = np.array(sorted(known), np.uint64)
    places = {key: place for place, key in enumerate(keys.tolist())}
    width = next((len(answer) for answer in known.values() if isinstance(answer, bytes)), 0)
    answers = np.zeros((len(keys), width), np.uint8)
    answered = np.zeros(len(keys), bool)
    for key, answer in known.items():
        if isinstance(answer, bytes):
            answers[places[key]], answered[places[key]] = np.frombuffer(answer, np.uint8), True
    profile, differing = None, answered
    for candidate in _list_candidates(calls[0], likely) if calls else ():
        found = _predict(recording.capabilities, candidate, calls, places, answers)
        wrong = None if found is None else (found != answers).any(axis=1) & answered
        if wrong is not None and wrong.sum() < differing.sum():
            profile, differing = candidate, wrong
        if not differing.any():
            break
    chosen = np.flatnonzero(differing)
    digest, places_of_errors = digest_answers(keys[answered], answers[answered]), {places[key]: number for key, number in errors.items()}
    return Answers(keys, profile, width, digest, chosen.astype(np.uint64), answers[chosen], places_of_errors)


def _list_candidates(call: Call, likely: Sequence[str]) -> Iterator[str]:
    _function, args, _, items = call
    if not items.shape.of_blocks:
        yield ""
        return
    fmt = next(a for a in args if isinstance(a, str))
    names = [p.id for p in mxspec.list_profiles(fmt)]
    yield from dict.fromkeys([*(name for name in likely if name in names), *names])


def _predict(capabilities: Capabilities, profile: str, calls: Sequence[Call], places: Mapping[int, int], answers: Rows) -> Rows | None:
    """What a profile answers to the items of calls, laid as their answers; None where it answers not all of them."""
    found = np.zeros_like(answers)
    for call in calls:
        rows = ask_model(capabilities, profile, call)
        if rows is None:
            return None
        found[[places[key] for key in call[-1].keys.tolist()]] = rows
    return found


def ask_model(capabilities: Capabilities, profile: str, call: Call) -> Rows | None:
    """The answer of a profile as the bytes of items; None where it has none."""
    function, args, kwargs, items = call
    plain = replace(capabilities, arrays="numpy", device=None, code_layout=UNPACKED, scale_layout=ROW_MAJOR, shapes=(1, 1, 1))
    target = Marshaller(Model(plain, profile or None), plain)
    try:
        return items.split(run_call(target, function, tuple(args), dict(kwargs)))
    except CallError:
        return None


def digest_whole(function: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The digest of a call that is kept whole."""
    if function in OPERATIONS:
        return digest_call(function, name_arguments(function, args, kwargs))
    return digest_call(function, {str(n): a for n, a in enumerate(args)} | dict(kwargs))


def describe_answer(answer: Any) -> dict[str, Any]:
    """What a recording holds of the answer to a call that is kept whole."""
    if isinstance(answer, (np.ndarray, tuple)):
        parts = answer if isinstance(answer, tuple) else (answer,)
        return {"arrays": [[a.dtype.name, list(a.shape), np.ascontiguousarray(a).tobytes().hex()] for a in parts]}
    return {"value": answer}


def read_answer(found: Mapping[str, Any]) -> Any:
    """The answer again."""
    if "arrays" not in found:
        return found["value"]
    parts = [np.frombuffer(bytes.fromhex(data), PLAIN_DTYPES[name]).reshape(shape) for name, shape, data in found["arrays"]]
    return parts[0] if len(parts) == 1 else tuple(parts)
