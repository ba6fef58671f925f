"""A profile's arithmetic as rows of a name and what stands there, in the order in which a block is computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mxspec.profiles.schema import ElementRule, Profile, ScaleRule


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One line: inner ones belong to the last that is not."""

    name: str
    value: str
    inner: bool = False


def list_profile_rows(p: Profile) -> Iterator[ProfileRow]:
    """What a profile is, where it comes from, and each step of its arithmetic."""
    status = "provisional: not confirmed by a run" if p.provisional else p.witness
    yield ProfileRow("profile", p.id)
    yield ProfileRow("kind", p.kind.value)
    yield ProfileRow("formats", ", ".join(p.formats))
    yield ProfileRow("summary", p.summary)
    yield ProfileRow("source", p.source)
    yield ProfileRow("evidence", f"{p.evidence.value}; {status}" if status else p.evidence.value)
    yield ProfileRow("dtypes", ", ".join(p.dtypes))
    if p.variant_of is not None:
        yield ProfileRow("variant of", p.variant_of)
    yield from list_steps(p)
    for text in p.unspecified:
        yield ProfileRow("unspecified", text)


def list_steps(p: Profile) -> Iterator[ProfileRow]:
    """The steps alone: transform, tensor scale, and those of either form."""
    if p.transform is not None:
        side = "columns" if p.transform.columnwise else "rows"
        yield ProfileRow(
            "transform", f"{p.transform.kind.value}, {p.transform.size} elements along {side}, applied before the steps below"
        )
    if p.tensor is not None:
        yield ProfileRow(f"tensor ({p.tensor.native.value})", str(p.tensor.from_amax))
        for leaf, expression in p.tensor.derived:
            yield ProfileRow(str(leaf), str(expression), inner=True)
    for title, steps in (("no tensor scale", p.one_level), ("with tensor scale", p.two_level)):
        if steps is None:
            continue
        yield ProfileRow(title, "")
        yield ProfileRow("scale value", str(steps.scale.value), inner=True)
        yield ProfileRow("scale code", describe_scale_rule(steps.scale), inner=True)
        yield ProfileRow("scaled", str(steps.scaled), inner=True)
        yield ProfileRow("element", describe_element_rule(steps.element), inner=True)
        yield ProfileRow("dequantize", str(steps.dequantize), inner=True)


def describe_scale_rule(rule: ScaleRule) -> str:
    """How the scale's value becomes a code."""
    minus = " - emax" if rule.subtract_emax else ""
    special = ", ".join(
        f"{name} -> {code:02x}"
        for name, code in (("0", rule.on_zero), ("Inf", rule.on_inf), ("NaN", rule.on_nan))
        if code is not None
    )
    return f"{rule.step.value}{minus}, rounding {rule.rounding.value}, {rule.underflow.value} on underflow" + (
        f"; {special}" if special else ""
    )


def describe_element_rule(rule: ElementRule) -> str:
    """How a scaled number becomes a code."""
    if rule.error is not None:
        return f"the code with the smallest {rule.error}; the first of equals"
    return (
        f"{rule.rounding.value}, overflow {rule.overflow.value}, NaN {rule.nan.value} "
        f"({rule.nan_own.value} if the format has NaN), zero {rule.zero.value}"
    )
