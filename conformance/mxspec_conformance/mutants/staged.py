"""Straightforward implementations in steps, and variants of them: a step replaced, or a function wrapped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from types import MappingProxyType
from typing import Any

Step = Callable[..., Any]
Wrap = Callable[[Step], Step]
NOTHING: Mapping[str, Any] = MappingProxyType({})


def around(change: Callable[..., Any]) -> Wrap:
    """A function built from the right one: change(right, *its arguments)."""

    def wrap(right: Step) -> Step:
        @wraps(right)
        def function(*args: Any, **kwargs: Any) -> Any:
            return change(right, *args, **kwargs)

        return function

    return wrap


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A named change of one step of a straightforward implementation: wrong as a rule, right where a text leaves a choice."""

    id: str
    #: `P01`: a row of the list of known bugs; `S0`: a wrong reading of that document; a public report as owner/repo#number;
    #: `own`.
    source: str = "own"
    #: Block formats, scalar formats or layouts, whatever the operations take.
    formats: tuple[str, ...]
    #: What it does, in one sentence.
    what: str
    #: Steps that are replaced.
    change: Mapping[str, Step] = field(default_factory=lambda: NOTHING)
    #: Functions of the target that are wrapped.
    wrap: Mapping[str, Wrap] = field(default_factory=lambda: NOTHING)


class Staged:
    """A target built from steps.

    steps: all of them by name; change: step name -> its replacement, which takes the same arguments;
    wrap: function name -> what makes the target's function of the right one. Raises ValueError for an unknown step.
    """

    VERSION = "1"

    def __init__(self, name: str, steps: Mapping[str, Step], change: Mapping[str, Step], wrap: Mapping[str, Wrap] = NOTHING) -> None:
        if unknown := set(change) - set(steps):
            raise ValueError(f"{', '.join(sorted(unknown))}: no such step; known are {', '.join(steps)}")
        self.NAME, self._steps = name, {**steps, **change}
        for function, make in wrap.items():
            setattr(self, function, make(getattr(self, function)))
