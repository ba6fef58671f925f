"""What a test is run against: right implementations, mutants of this package, and bugs that others planted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from mxspec.enums import StrEnum
from mxspec.formats import get_block
from mxspec_conformance.mutants import list_mutants
from mxspec_conformance.mutants.instance import default_profile
from mxspec_conformance.mutants.reference import Reference
from mxspec_conformance.mutants.right import open_choices

#: The operations that tests may call.
OPERATIONS = ("quantize", "dequantize")
#: The rules that the plain implementation follows, the default of a format first.
MX_RULES, NV_RULES = ("mx-floor", "mx-rceil", "mx-even", "mx-ceil"), ("nvfp4-te", "nvfp4-paper")


class Kind(StrEnum):
    """Why a subject is there."""

    #: A rule as it stands.
    CONTROL = "control"
    #: A rule with other choices where OCP leaves one.
    RIGHT = "right"
    MUTANT = "mutant"
    #: A bug in another implementation, by authors who had not seen the vectors; only in a checkout.
    INDEPENDENT = "independent"


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """One implementation. Its name says all that is needed to build it in another process."""

    kind: Kind
    operation: str
    format: str
    #: The rule that it follows, or breaks.
    profile: str
    id: str
    #: The class of bugs that it belongs to.
    family: str = ""
    what: str = ""

    @property
    def name(self) -> str:
        """kind/operation/format/profile/id."""
        return "/".join((self.kind.value, self.operation, self.format, self.profile, self.id))

    def build(self) -> Any:
        """The implementation: `quantize`, `dequantize`, `tensor_scale`."""
        if self.kind is Kind.INDEPENDENT:
            return _independent().build(self)
        return Reference(self.profile, **_changes(self))


def find_subject(name: str) -> Subject:
    """The subject of a name. Raises KeyError."""
    kind, operation, fmt, profile, ident = name.split("/", 4)
    subject = Subject(Kind(kind), operation, fmt, profile, ident)
    subject.build()
    return subject


def rules_of(fmt: str) -> tuple[str, ...]:
    """The rules for a format, its default first."""
    return NV_RULES if get_block(fmt).has_tensor_scale else MX_RULES


def list_controls(fmt: str) -> tuple[Subject, ...]:
    """Each rule of a format as it stands."""
    return tuple(Subject(Kind.CONTROL, "quantize", fmt, rule, "plain", "", rule) for rule in rules_of(fmt))


def list_right(fmt: str) -> Iterator[Subject]:
    """Right implementations that differ from a control where OCP leaves a choice; NVFP4 has no such text."""
    if get_block(fmt).has_tensor_scale:
        return
    for rule in rules_of(fmt):
        for number, (name, _) in enumerate(open_choices(fmt)):
            if number:
                yield Subject(Kind.RIGHT, "quantize", fmt, rule, str(number), "open choice", f"{rule}; {name}")


def list_mutant_subjects(fmt: str) -> Iterator[Subject]:
    """The mutants of a format's quantize and dequantize, under the profile that each breaks."""
    for mutant in list_mutants():
        if fmt in mutant.formats:
            for operation in mutant.operations:
                if operation in OPERATIONS:
                    profile = mutant.profile or default_profile(fmt)
                    yield Subject(Kind.MUTANT, operation, fmt, profile, mutant.id, mutant.family.value, mutant.what)


def list_independent(fmt: str) -> tuple[Subject, ...]:
    """Bugs that others planted, where the checkout that holds them is at hand."""
    found = _independent()
    return () if found is None else tuple(found.subjects(fmt))


def has_own_rule(subject: Subject) -> bool:
    """Whether a mutant breaks one rule alone; others break whichever rule a test requires."""
    return any(m.id == subject.id and m.profile for m in list_mutants())


def _changes(subject: Subject) -> dict[str, Any]:
    if subject.kind is Kind.CONTROL:
        return {}
    if subject.kind is Kind.RIGHT:
        return {"change": list(open_choices(subject.format))[int(subject.id)][1]}
    for mutant in list_mutants():
        if mutant.id == subject.id:
            return {"change": mutant.change, "wrap": mutant.wrap}
    raise KeyError(subject.name)


#: The module of a checkout that lists bugs planted by others, and its file there: no other package of this name is imported.
INDEPENDENT_MODULE = "tests.corpora.independent.scoring"
_INDEPENDENT_FILE = Path(__file__).resolve().parents[3] / "tests" / "corpora" / "independent" / "scoring.py"


def _independent() -> Any:
    if not _INDEPENDENT_FILE.is_file() or not any(Path(p or ".").resolve() == _INDEPENDENT_FILE.parents[3] for p in sys.path):
        return None
    try:
        module = import_module(INDEPENDENT_MODULE)
    except ImportError:
        return None
    return module if Path(module.__file__ or "").resolve() == _INDEPENDENT_FILE else None
