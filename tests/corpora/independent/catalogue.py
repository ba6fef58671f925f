"""What a bug is: stages of the right implementation replaced, for one function, format and profile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.corpora.independent.implementation import Kernel

#: (the right stage, the stage's arguments ...) -> what the broken stage returns.
Stage = Callable[..., Any]


@dataclass(frozen=True)
class Bug:
    """One bug; where it survives, `kind` and `reason` say why that is so."""

    id: str
    story: str
    operation: str
    format: str
    profile: str
    change: dict[str, Stage]


def build(bug: Bug) -> Kernel:
    """A new kernel with the bug."""
    kernel = Kernel(bug.profile)
    for stage, broken in bug.change.items():
        setattr(kernel, stage, partial(broken, getattr(kernel, stage)))
    return kernel
