"""The sets, and their kernels in one form: how each is listed, built and judged."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from typing import Any


@dataclass(frozen=True)
class Candidate:
    """A kernel of a set, wrong or right."""

    #: Unique in its set.
    key: str
    wrong: bool
    story: str
    #: Makes a fresh target: state is its own.
    build: Callable[[], Any]
    #: Judged against this; default: what the target claims.
    profile: str | None = None
    #: What else the set says of it.
    facts: Mapping[str, Any] = field(default_factory=dict)
    #: Why a wrong one may pass, where that is known.
    reason: str = ""


def _independent() -> Iterator[Candidate]:
    from tests.corpora.independent.catalogue import build
    from tests.corpora.independent.entries import BUGS, RIGHT, key_of, make_target
    from tests.corpora.independent.implementation import Kernel
    from tests.corpora.independent.reasons import explain_survival

    for bug in BUGS:
        key, what = key_of(bug), (bug.operation, bug.format, bug.profile)
        facts = {"id": bug.id, "operation": bug.operation, "format": bug.format, "profile": bug.profile}
        make = partial(lambda bug, what: make_target(build(bug), *what), bug, what)
        yield Candidate(key, True, bug.story, make, bug.profile or None, facts, ": ".join(explain_survival(key) or ()))
    for operation, fmt, profile in RIGHT:
        make = partial(lambda *what: make_target(Kernel(what[-1]), *what), operation, fmt, profile)
        facts = {"id": "right", "operation": operation, "format": fmt, "profile": profile}
        key = "/".join((operation, fmt, profile, "right"))
        yield Candidate(key, False, "the implementation without a bug", make, profile or None, facts)


def _calls(half: int) -> Iterator[Candidate]:
    """One half of the entries: drawn by their keys, so that nobody chose it."""
    from tests.corpora.calls.entries import ENTRIES

    for key, e in ENTRIES.items():
        if hashlib.sha256(key.encode()).digest()[0] & 1 == half:
            yield Candidate(key, not e.right, e.story, e.build, facts={"group": e.group, "offer": asdict(e.offer)})


def _outside() -> Iterator[Candidate]:
    from tests.corpora.outside import KERNELS

    for k in KERNELS.values():
        yield Candidate(f"{k.group}/{k.name}", k.wrong, k.story, k.build, facts={"group": k.group})


def _blind() -> Iterator[Candidate]:
    from tests.corpora.blind.entries import KERNELS

    for k in KERNELS.values():
        yield Candidate(k.id, k.wrong, k.what, k.target, facts={"operation": k.offer.operation, "axis": str(k.axis)})


#: Of `calls` the quick level was chosen by the looked-at half.
SETS: Mapping[str, Callable[[], Iterator[Candidate]]] = {
    "independent": _independent,
    "calls-held-out": partial(_calls, 1),
    "calls-looked-at": partial(_calls, 0),
    "outside": _outside,
    "blind": _blind,
}


@cache
def read_set(name: str) -> Mapping[str, Candidate]:
    """The kernels of a set by their keys; modules of other sets are not imported."""
    return {c.key: c for c in SETS[name]()}
