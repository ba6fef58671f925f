"""A recording as a target: the judge asks it as it would ask the library."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.targets.errors import CallError, FailureKind
from mxspec_conformance.targets.sessions import names_calls
from mxspec_lab.recordings.asking import ask_model, digest_whole, read_answer
from mxspec_lab.recordings.items import Rows, digest_answers, list_items
from mxspec_lab.recordings.recording import Answers, Recording

NOT_ASKED = "not asked of this version"


class ChangedModelError(ValueError):
    """A profile no longer gives the answers that a recording takes from it."""


class ReplaySession:
    """Answers what was asked when the recording was made; all else was not asked of this version."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.capabilities, self.transport = recording.capabilities, recording.transport
        #: Class -> which items were asked here, and what was answered.
        self._given: dict[str, tuple[npt.NDArray[np.bool_], Rows]] = {}

    @names_calls
    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallError."""
        items = list_items(function, args, kwargs)
        if items is None:
            whole = self._recording.calls.get(digest_whole(function, args, kwargs))
            if whole is None:
                raise CallError(FailureKind.NOT_ASKED, NOT_ASKED)
            if "error" in whole:
                raise self._recording.make_error(whole["error"])
            return read_answer(whole)
        found = self._recording.classes.get(items.name)
        if found is None:
            raise CallError(FailureKind.NOT_ASKED, NOT_ASKED)
        if isinstance(found, int):
            raise self._recording.make_error(found)
        places = np.searchsorted(found.keys, items.keys)
        if not np.array_equal(found.keys[places % len(found.keys)], items.keys):
            raise CallError(FailureKind.NOT_ASKED, NOT_ASKED)
        for place in places.tolist() if found.errors else ():
            if place in found.errors:
                raise self._recording.make_error(found.errors[place])
        rows = np.zeros((len(places), found.width), np.uint8)
        if found.profile is not None:
            computed = ask_model(self.capabilities, found.profile, (function, args, kwargs, items))
            if computed is None:
                raise ChangedModelError(f"{found.profile or 'the model'} has no answer to {items.name} any more, but had one")
            rows = computed
        if len(found.places):
            at = np.searchsorted(found.places, places).clip(max=len(found.places) - 1)
            stored = found.places[at] == places
            rows[stored] = found.stored[at[stored]]
        seen, answers = self._given.setdefault(
            items.name, (np.zeros(len(found.keys), bool), np.zeros((len(found.keys), found.width), np.uint8))
        )
        seen[places], answers[places] = True, rows
        return items.join(rows)

    def verify(self) -> None:
        """Raises ChangedModelError where all items of a class were asked, and answers are not those recorded."""
        for name, (seen, answers) in self._given.items():
            found = self._recording.classes[name]
            if not isinstance(found, Answers) or seen.sum() + len(found.errors) != len(seen):
                continue
            if digest_answers(found.keys[seen], answers[seen]) != found.digest:
                who, by = f"{self.capabilities.name} {self.capabilities.version}", found.profile or "its own arithmetic"
                raise ChangedModelError(
                    f"answers of {who} to {name} are no longer those that were recorded: the model gives others by {by}"
                )

    def close(self) -> None:
        """Nothing to free."""
