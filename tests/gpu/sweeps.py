"""What is swept: every encoder and every E8M0 rule that the kernels have, by the names of the committed sweeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mxspec
from mxspec import reals
from mxspec.elements import default_nan_policy
from mxspec_gpu import kernels
from mxspec_gpu.build import KernelSource
from mxspec_gpu.rules import KernelRules, generate_rules
from mxspec_lab.sweeps.functions import EncodeFunction, ScaleFunction, list_functions


@dataclass(frozen=True, slots=True)
class SweepJob:
    """One function on one of the kernels' ways."""

    #: Of the committed sweep.
    name: str
    #: "plain", "fast" (eight at a time) or "scale".
    kind: str
    defines: tuple[tuple[str, Any], ...] = ()
    rules: KernelRules | None = None

    @property
    def profile(self) -> str | None:
        """Of a scale rule."""
        return self.rules.profile.id if self.rules else None

    @property
    def label(self) -> str:
        """For reports."""
        return f"{self.name} ({self.profile or self.kind})"

    def source(self, *, write: bool) -> KernelSource:
        """The kernel; write: answers are written as well."""
        return kernels.sweep_kernel({"plain": 0, "fast": 1, "scale": 2}[self.kind], dict(self.defines), self.rules, write=write)


def _encoders(name: str, function: EncodeFunction) -> Iterator[SweepJob]:
    positive, negative = reals.nan_codes(function.fmt, default_nan_policy(function.fmt))
    common = (("MX_SCALAR", function.fmt.name.upper()), ("MX_NAN_POSITIVE", positive), ("MX_NAN_NEGATIVE", negative))
    overflow = function.overflow.value.upper().replace("-", "_")
    yield SweepJob(name, "plain", (*common, ("MX_ROUNDING", function.rounding.value.upper()), ("MX_OVERFLOW", overflow)))
    if function.rounding.value == "rne" and function.overflow.value == "saturate" and function.fmt.signed:
        yield SweepJob(name, "fast", common)


def _list_jobs() -> Iterator[SweepJob]:
    for name, function in list_functions().items():
        if isinstance(function, EncodeFunction):
            yield from _encoders(name, function)
            continue
        assert isinstance(function, ScaleFunction)
        block = next(b for b in mxspec.BLOCKS.values() if b.element == function.element and b.scale.name == "e8m0")
        for profile in function.profiles:
            try:
                rules = generate_rules(profile, block.name, two_level=False)
            except ValueError:  # a part that the kernels lack
                continue
            yield SweepJob(name, "scale", rules=rules)
            break


JOBS: tuple[SweepJob, ...] = tuple(_list_jobs())
