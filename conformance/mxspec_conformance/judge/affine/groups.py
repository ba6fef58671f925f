"""Groups that a target has answered, to be asked again in calls of any shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Groups:
    """Groups, each a row of every array, and the target's answers to them."""

    #: What the function is given: values, or codes, scales and offsets; [groups, items of one].
    arguments: tuple[Values, ...]
    #: What it returned.
    answers: tuple[Values, ...]
    #: Where no NaN and no Inf is among what is given.
    finite: npt.NDArray[np.bool_]

    @property
    def group(self) -> int:
        """Values of a group."""
        return int(self.arguments[0].shape[1])

    @cached_property
    def ordinary(self) -> Places:
        """The groups without NaN and Inf."""
        return np.flatnonzero(self.finite)

    @cached_property
    def special(self) -> dict[str, Places]:
        """Groups that kernels pass over, by kind."""
        zero = self.finite & ~self.arguments[0].astype(np.bool_).any(axis=1)
        return {"NaN and Inf": np.flatnonzero(~self.finite), "zeros": np.flatnonzero(zero)}

    def join_first(self, arguments: Sequence[Values], answer: Any) -> Groups:
        """The groups, and behind them the first of a call of some that are ordinary; arguments: [groups, items of one]."""
        parts = answer if isinstance(answer, (tuple, list)) else [answer]
        returned = (np.asarray(part).reshape(len(arguments[0]), -1) for part in parts)
        return Groups(
            tuple(np.concatenate([a, b[:1]]) for a, b in zip(self.arguments, arguments, strict=True)),
            tuple(np.concatenate([a, b[:1]]) for a, b in zip(self.answers, returned, strict=True)),
            np.append(self.finite, True),
        )

    def give(self, places: Places, rows: int) -> tuple[Values, ...]:
        """Chosen groups as arguments: arrays of so many rows."""
        return tuple(a[places].reshape(rows, -1) for a in self.arguments)

    def find_wrong(self, places: Places, answer: Any, rows: int) -> npt.NDArray[np.bool_]:
        """Which of the chosen groups have another answer than before; zeros of both signs are alike, and so are all NaNs."""
        wrong = np.zeros(len(places), np.bool_)
        for before, part in zip(self.answers, answer if isinstance(answer, (tuple, list)) else [answer], strict=True):
            if part.shape[0] != rows:
                return np.ones(len(places), np.bool_)
            one, other = (np.asarray(x, np.float32).reshape(len(places), -1) for x in (before[places], part))
            wrong |= ~((one == other) | (np.isnan(one) & np.isnan(other))).all(axis=1)
        return wrong


def make_groups(arguments: Sequence[Any], answers: Sequence[Any], finite: Sequence[bool]) -> Groups:
    """Groups of lists, one item for each group: arrays of a group's values, or single scales and offsets."""
    stacked = [tuple(np.stack([np.atleast_1d(item) for item in items]) for items in side) for side in (arguments, answers)]
    return Groups(stacked[0], stacked[1], np.array(finite, np.bool_))
