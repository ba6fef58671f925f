"""Kernels as subjects of `mxspec score-tests`: each by its own pair of formats, or moved to another where the mistake can be made there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import lru_cache

from mxspec_conformance.kits.products import PAIRS
from mxspec_conformance.scoring.products.subjects import ALL, MATMUL, MOVED, ProductSubject
from mxspec_conformance.scoring.subjects import Kind, Subject
from mxspec_lab.products.kernels import Kernel
from mxspec_lab.products.right import RIGHT
from mxspec_lab.products.wrong import list_wrong

#: The step that a kernel replaces -> the kind of mistake.
FAMILIES = {
    "place_codes": "order of codes", "place_scales": "places of scales", "read_tiles": "places of scales", "elements": "values of codes",
    "scales": "values of scales", "numbers": "numbers along k", "add": "sums and sizes", "scale": "tensor scales", "finish": "epilogue and rounding",
    "returned": "outputs", "accumulator": "sums and sizes",
}  # fmt: skip
#: What a right kernel may replace and still be right for another pair of formats.
_FREE = {"name", "product", "out_dtypes", "accumulator", "add", "finish", "returned"}


def pair_of(kernel: Kernel) -> str:
    """The pair of formats by which a kernel is judged."""
    return "@".join(text.partition("/")[0] for text in kernel.product)


def _name(kernel: Kernel) -> str:
    """Unique: some are listed twice, with and without their contract."""
    return f"{kernel.name}, declared" if kernel.contract else kernel.name


def _words(kernel: Kernel) -> str:
    """The product, and what the kernel declares."""
    return ", ".join(filter(None, (" @ ".join(kernel.product), kernel.accumulator)))


def _steps(kernel: Kernel) -> set[str]:
    """The fields in which a kernel differs from the plain one."""
    plain = {f.name: f.default for f in fields(Kernel)}
    return {name for name, value in plain.items() if getattr(kernel, name) is not value and getattr(kernel, name) != value}


def family_of(kernel: Kernel) -> str:
    """The kind of mistake."""
    steps = _steps(kernel)
    return next(family for step, family in FAMILIES.items() if step in steps)


def move(kernel: Kernel, pair: str) -> Kernel:
    """The same steps on another pair, in the layouts that the kernel takes."""
    sides = []
    for fmt, text in zip(pair.split("@"), kernel.product, strict=True):
        words = [w for w in text.partition("/")[2].split("+") if w and (w != "nibble-low" or fmt in ("mxfp4", "nvfp4"))]
        sides.append(f"{fmt}/{'+'.join(words)}" if words else fmt)
    return replace(kernel, product=(sides[0], sides[1]))


@lru_cache(maxsize=16)
def _listed(scope: str) -> dict[Subject, Kernel]:
    found: dict[Subject, Kernel] = {}

    def enter(kind: Kind, kernel: Kernel, family: str, what: str) -> None:
        pair = pair_of(kernel)
        found[ProductSubject(kind, MATMUL, pair, pair, _name(kernel), family, what)] = kernel

    pairs = dict.fromkeys(pair_of(k) for k in (*RIGHT, *list_wrong())) if scope == ALL else {scope: None}
    for pair in pairs:
        a, b = pair.split("@")
        enter(Kind.CONTROL, Kernel(name="plain", product=(a, b)), "", pair)
    for kernel in RIGHT:
        if pair_of(kernel) in pairs:
            enter(Kind.RIGHT, kernel, "open choice", _words(kernel))
        elif _steps(kernel) <= _FREE and scope != ALL and kernel.out_dtypes != ("float16",):
            enter(Kind.RIGHT, move(kernel, scope), "open choice", _words(kernel))
    for kernel in list_wrong():
        if pair_of(kernel) in pairs:
            enter(Kind.MUTANT, kernel, family_of(kernel), _words(kernel))
        else:
            moved = move(kernel, scope)
            enter(Kind.MUTANT, moved, family_of(kernel), f"{_words(moved)}{MOVED}{pair_of(kernel)}")
    return found


def subjects(scope: str) -> Iterator[Subject]:
    """Controls, right kernels and mutants of a pair of formats, or of all; what is moved to a pair may be no mistake there."""
    assert scope == ALL or scope in PAIRS
    return iter(_listed(scope))


def build(subject: Subject) -> Kernel:
    """The kernel of a subject."""
    for scope in (ALL, subject.format):
        if subject in _listed(scope):
            return _listed(scope)[subject]
    raise KeyError(subject.name)


def declares(subject: Subject) -> tuple[str, str]:
    """(class of accumulations, dtype to which the kernel rounds its operands)."""
    kernel = build(subject)
    return kernel.accumulator, kernel.fold
