"""A profile's arithmetic as rows of a name and what stands there, in the order in which a block is computed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mxspec.profiles.schema import ElementRule, Profile, ScaleRule


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One line: inner ones belong to the last that is not."""

    name: str
    value: str
    inner: bool = False


#: What stands in the steps: names of values, roundings, and what the operations after `_` are rounded to.
SYMBOLS = {
    "x": "a number of the block", "amax": "the largest magnitude of the block", "tmax": "the largest magnitude of the tensor",
    "M": "the largest element", "emax": "the exponent of the largest element", "S": "the tensor scale that numbers are multiplied by",
    "g": "the tensor scale that numbers are divided by", "sf": "the block scale as stored, decoded", "scaled": "the scaled number before its code is chosen",
    "q": "an element, decoded", "rne": "to nearest, ties to even", "rna": "to nearest, ties away from zero", "rnz": "to nearest, ties toward zero",
    "rtz": "toward zero", "rtp": "toward +infinity", "half-up": "halves go up", "_f32": "the operation is rounded to float32",
    "_f32.ftz": "rounded to float32, subnormals become zeros", "_bf16": "rounded to float32, then bfloat16", "_f16": "rounded to float32, then float16",
    "_sm90.rcp": "NVIDIA's approximate reciprocal, as measured", "pow2ceil": "rounded up to a power of two",
}  # fmt: skip


def list_symbols(p: Profile) -> list[tuple[str, str]]:
    """The symbols that stand in a profile's steps, and what they mean."""
    named = {word for row in list_steps(p) for word in _WORD.findall(row.value)}
    return [(name, meaning) for name, meaning in SYMBOLS.items() if name in named]


#: A name, or what follows an operation.
_WORD = re.compile(r"(?<!\w)_?[a-zA-Z][a-zA-Z0-9]*(?:[.-][a-z]\w*)*|_[a-z][a-z0-9]*(?:\.[a-z]+)?")


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
        yield ProfileRow("transform", f"{p.transform.kind.value}, {p.transform.size} elements along {side}, applied before the steps below")
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
        f"{name} -> {code:02x}" for name, code in (("0", rule.on_zero), ("Inf", rule.on_inf), ("NaN", rule.on_nan)) if code is not None
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
