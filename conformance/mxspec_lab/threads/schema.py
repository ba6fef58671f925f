"""What a replayed thread is: a public report of a bug, and two small targets, one with the mistake and one without."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from mxspec.enums import StrEnum
from mxspec_conformance.mutants.instance import build_target
from mxspec_conformance.mutants.reference import Reference
from mxspec_conformance.mutants.staged import Step, Wrap

#: Makes a target anew, with no state of earlier ones.
Maker = Callable[[], Any]
#: Operations that are judged by a form that the target declares, not by a format.
OF_FORMS = ("matmul", "grouped_matmul", "quantize_fused", "attention", "append_cache", "read_cache")
_REFERENCE = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+#[1-9][0-9]*")


class Family(StrEnum):
    """What a mistake is about."""

    SCALES = "block scales"
    ROUNDING = "elements and casts"
    DECODING = "decoding"
    TENSOR_SCALES = "tensor scales"
    LAYOUTS = "layouts"
    PRODUCTS = "products"
    STOCHASTIC = "stochastic rounding"
    CALLS = "shapes, calls and state"
    AFFINE = "affine integers"
    GROUPED = "grouped products"
    FUSED = "fused quantizers"
    CACHES = "attention and caches"


class Source(StrEnum):
    """How the mistake is known. No pair is the project's own code: each is written anew."""

    #: From what the thread itself says: its formula, its table or its example.
    READ = "thread"
    #: From a note that sums the thread up in a line.
    NOTE = "note"


class Level(StrEnum):
    """Which cases of the vectors a pair is asked for: all, where the quick ones do not tell its mistake from another."""

    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A thread as a runnable pair: the plain implementation of the mutants with a step replaced or a function wrapped, and as it is."""

    #: owner/repository#number.
    reference: str
    #: `repository-number`, unless another is given.
    id: str = ""
    #: Threads about the same mistake.
    also: tuple[str, ...] = ()
    #: Of the report, year-month-day, or as far as it is known.
    date: str = ""
    source: Source = Source.READ
    family: Family
    operation: str
    format: str
    #: The profile whose bits the mended one has; "": it conforms.
    profile: str = ""
    level: Level = Level.FULL
    #: Glob of the topics that are judged.
    topics: str = "*"
    #: The report in the words of this project.
    title: str
    #: What was wrong, in one sentence.
    wrong: str
    #: Where the pair differs from the report: another format or operation, a part of it alone; "": nowhere.
    differs: str = ""
    #: As those of a mutant; both count in the operation alone.
    change: Mapping[str, Step] = field(default_factory=dict)
    wrap: Mapping[str, Wrap] = field(default_factory=dict)
    #: Targets that are no variants of the plain implementation.
    broken: Maker | None = None
    fixed: Maker | None = None
    #: Requirements of which each must fail.
    fails: tuple[str, ...]
    #: What the judge's words of the cause contain; "": it is known to name none.
    names: str

    def __post_init__(self) -> None:
        for reference in (self.reference, *self.also):
            check_reference(reference)
        if not self.fails:
            raise ValueError(f"{self.reference}: nothing says which requirement fails")
        if not self.id:
            object.__setattr__(self, "id", self.reference.rpartition("/")[2].lower().replace("#", "-"))

    @property
    def url(self) -> str:
        """Where the thread is."""
        owner, _, number = self.reference.partition("#")
        return f"https://github.com/{owner}/issues/{number}"

    @property
    def only(self) -> str:
        """Glob of the requirements that are judged."""
        if self.operation in OF_FORMS:
            return f"{self.operation}/*/{self.topics}"
        if self.operation == "quantize" and self.format != "nvfp4":
            return f"*/{self.format}/*"
        return f"{'stochastic' if self.operation == 'encode_stochastic' else self.operation}/{self.format}/*"

    @property
    def judged(self) -> tuple[str, ...]:
        """The block formats that are judged; none: those that the target lists."""
        return (self.format,) if self.operation in ("quantize", "dequantize", "tensor_scale") else ()

    def build_broken(self) -> Any:
        """The target with the mistake."""
        if self.broken is not None:
            return self.broken()
        changed = build_target(self.operation, self.profile or "mx-floor", "broken", self.change, self.wrap)
        target = right(self.operation, self.profile)()
        setattr(target, self.operation, getattr(changed, self.operation))
        return target

    @property
    def make_fixed(self) -> Maker:
        """What makes the target without it."""
        return self.fixed or right("" if self.judged else self.operation, self.profile)


@cache
def right(operation: str, profile: str) -> Maker:
    """Makes the plain implementation, which claims its profile; one object for all threads, so that it is judged once."""

    def make() -> Any:
        target = build_target(operation, profile or "mx-floor")
        if isinstance(target, Reference):
            target.PROFILE = [target.profile]  # type: ignore[attr-defined]
        return target

    return make


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A thread that is no pair, and why."""

    reference: str
    what: str
    reason: str

    def __post_init__(self) -> None:
        check_reference(self.reference)


def check_reference(reference: str) -> None:
    """Raise ValueError for what is not owner/repository#number."""
    if not _REFERENCE.fullmatch(reference):
        raise ValueError(f"{reference!r} is no owner/repository#number")
