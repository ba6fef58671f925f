"""Makers of targets: the plain implementation of the mutants with one step replaced, or as it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from mxspec_conformance.mutants import reference
from mxspec_conformance.mutants.layout_mutants import Places
from mxspec_conformance.mutants.reference import Array, Reference, Step
from mxspec_conformance.mutants.schema import Wrap
from mxspec_lab.products.kernels import AnyKernel, KernelTarget
from mxspec_lab.threads.schema import Maker

# A right target is one object for all threads that it mends: it is judged once.


@cache
def right(profile: str = "mx-floor") -> Maker:
    """The plain implementation of a profile, which it claims."""
    return lambda: claiming(Reference(profile))


def changed(profile: str = "mx-floor", **steps: Step) -> Maker:
    """The same with steps replaced."""
    return lambda: claiming(Reference(profile, name="broken", change=steps))


def wrapped(profile: str = "mx-floor", **functions: Wrap) -> Maker:
    """The same with functions wrapped."""
    return lambda: claiming(Reference(profile, name="broken", wrap=functions))


def changed_in(function: str, profile: str, **steps: Step) -> Maker:
    """The same with steps replaced in one function alone."""

    def make() -> Any:
        target, broken = claiming(Reference(profile, name="broken")), Reference(profile, change=steps)
        setattr(target, function, getattr(broken, function))
        return target

    return make


def claiming(target: Reference) -> Any:
    """A target that says which profile it follows."""
    target.PROFILE = [target.profile]  # type: ignore[attr-defined]
    return target


@cache
def places() -> Maker:
    """The plain packing and tiling functions."""
    return lambda: Places(name="fixed", wrap={})


def misplaced(**functions: Wrap) -> Maker:
    """The same with functions wrapped."""
    return lambda: Places(name="broken", wrap=functions)


def kernel(one: AnyKernel) -> Maker:
    """A product."""
    return lambda: KernelTarget(one)


def e8m0(change: Callable[[Array, Array, str], Array]) -> Step:
    """The e8m0 cast, changed: (magnitudes in float64, right codes, rounding mode) -> codes."""

    def step(c: Any, magnitude: Array, mode: str, own: bool) -> Array:
        return change(magnitude, reference.encode_e8m0(c, magnitude, mode, own), mode)

    return step


def decoding(change: Callable[[Array, Array], Array]) -> Step:
    """Values of element codes, changed: (codes, right values) -> values."""
    return lambda c, codes: change(np.asarray(codes).astype(np.int64), reference.decode_element(c, codes))


def scale_decoding(change: Callable[[Array, Array], Array]) -> Step:
    """Values of scale bytes, changed: (bytes, right values) -> values."""
    return lambda c, stored: change(np.asarray(stored).astype(np.int64), reference.decode_scale(c, stored))


def e8m0_decoding(change: Callable[[Array, Array], Array]) -> Step:
    """Values of single e8m0 codes, changed: (codes, right values) -> values."""
    return lambda c, codes: change(np.asarray(codes).astype(np.int64), reference.decode_e8m0(c, codes))
