"""What a test of products is run against: the wrong and the right kernels of the kill matrix, which a checkout has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from mxspec_conformance.kits.products import PAIRS
from mxspec_conformance.scoring.subjects import Subject
from mxspec_conformance.targets.errors import TargetError

#: The operation of every subject.
MATMUL = "matmul"
#: The scope of a test of all pairs of formats, each kernel by its own.
ALL = "products"
#: In the words of a mutant that was made for another pair, before that pair: it may be no mistake here.
MOVED = ", moved from "
#: The module of the laboratory that lists kernels; the wheel has no laboratory.
LAB = "mxspec_lab.products.subjects"


class Laboratory(Protocol):
    """What that module offers."""

    def subjects(self, scope: str) -> Iterator[Subject]:
        """Controls, right kernels and mutants of a pair of formats, or of all."""

    def build(self, subject: Subject) -> Any:
        """The kernel."""

    def declares(self, subject: Subject) -> tuple[str, str]:
        """(class of accumulations, dtype to which it rounds its operands)."""


@dataclass(frozen=True, slots=True, order=True)
class ProductSubject(Subject):
    """One kernel; its format is the pair of formats that it multiplies, its profile the same."""

    def build(self) -> Any:
        """The kernel: `matmul` of two `Side`, and the layouts that it takes."""
        return laboratory().build(self)


def is_product(fmt: str) -> bool:
    """Whether a name is that of products: a pair of formats, or all of them."""
    return fmt == ALL or "@" in fmt


def laboratory() -> Laboratory:
    """The kernels. Raises TargetError where they are not installed."""
    try:
        module: Laboratory = import_module(LAB)
    except ImportError as error:
        raise TargetError("the mutants of products are in mxspec's sources alone: run `mxspec score-tests` in a checkout") from error
    return module


def list_subjects(scope: str) -> tuple[Subject, ...]:
    """Every subject of a pair of formats, or of all. Raises TargetError for a pair that there are no kernels of."""
    if scope != ALL and scope not in PAIRS:
        raise TargetError(f"there are no mutants of {scope}; there are of {ALL} (all pairs), {', '.join(PAIRS)}")
    return tuple(laboratory().subjects(scope))


def find_product(name: str) -> Subject:
    """The subject of a name. Raises KeyError."""
    fmt = name.split("/", 4)[2]
    for scope in (ALL, fmt):
        for subject in laboratory().subjects(scope):
            if subject.name == name:
                return subject
    raise KeyError(name)
