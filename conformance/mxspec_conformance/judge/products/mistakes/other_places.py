"""Scales and the like, one for each block or group, taken from other places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Shared = npt.NDArray[Any]


def _next(x: Shared) -> Shared | None:
    return None if x.shape[1] < 2 else np.concatenate([x[:, 1:], x[:, -1:]], axis=1)


def _next_around(x: Shared) -> Shared | None:
    return None if x.shape[1] < 2 else np.roll(x, -1, axis=1)


def _next_in_memory(x: Shared) -> Shared | None:
    flat = x.reshape(-1)
    return np.append(flat[1:], flat[-1:]).reshape(x.shape) if x.size > 1 else None


def _previous(x: Shared) -> Shared | None:
    return None if x.shape[1] < 2 else np.concatenate([x[:, :1], x[:, :-1]], axis=1)


def _first(x: Shared) -> Shared | None:
    return np.repeat(x[:, :1], x.shape[1], axis=1) if x.shape[1] > 1 else None


def _next_row(x: Shared) -> Shared | None:
    return np.concatenate([x[1:], x[-1:]]) if len(x) > 1 else None


def _first_row(x: Shared) -> Shared | None:
    return np.repeat(x[:1], len(x), axis=0) if len(x) > 1 else None


def _by_columns(x: Shared) -> Shared | None:
    return np.ascontiguousarray(x.T).reshape(x.shape) if min(x.shape) > 1 else None


#: Words, and where what they say is taken from.
OTHER_PLACES: tuple[tuple[str, Callable[[Shared], Shared | None]], ...] = (
    ("the {what} of the next {unit} of {side} is used", _next),
    ("the {what} of the next {unit} of {side} is used, the first one's for the last", _next_around),
    ("the {what} of the next {unit} of {side} in memory is used", _next_in_memory),
    ("the {what} of the {unit} before is used in {side}", _previous),
    ("the {what} of the first {unit} of a row of {side} is used for the whole row", _first),
    ("the {what} of the next row of {side} is used", _next_row),
    ("the {what}s of the first row of {side} are used for all rows", _first_row),
    ("the {what}s of {side} are read column by column", _by_columns),
)
