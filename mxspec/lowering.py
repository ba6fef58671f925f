"""Profiles lowered to code: every operation of an expression as one statement, and what rules yield in a format.

A language is a table of templates; what its table lacks, it refuses. CUDA, C99, JavaScript and SMT-LIB are made from profiles
with what is here and what is peculiar to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from mxspec import reals
from mxspec.expressions import ONE, Choose, Const, Domain, Expr, Leaf, Op, Test, children, walk
from mxspec.formats import ElementFormat, ScaleFormat
from mxspec.profiles.schema import ElementRule, ScaleRule
from mxspec.rounding import NanPolicy


class UnsupportedProfileError(ValueError):
    """A profile whose arithmetic a language does not have. The message says which part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """How a language writes an expression."""

    #: A constant, from its bits.
    constant: str
    #: The name of a result, from its number.
    result: str
    #: A choice's condition, from two operands.
    tests: Mapping[Test, str]
    #: An operation's rounded result, from its operands. Where a domain has `Op.RCP`, quotients of 1 are written by it.
    operations: Mapping[tuple[Op, Domain], str]
    #: A leaf, from its name.
    leaf: str = "{}"
    #: Expressions that have a text of their own.
    special: Mapping[Expr, str] = field(default_factory=dict)
    #: Whether a constant stands where it is used; else it is a statement of its own.
    inlines_constants: bool = False

    def lower(self, expr: Expr) -> tuple[dict[str, str], str]:
        """Statements by the names of their results, operands first, and the name of the whole.

        Raises UnsupportedProfileError for an operation that the language lacks.
        """
        names: dict[Expr, str] = {}
        statements: dict[str, str] = {}
        for node in walk(expr):
            names[node] = text = self.special.get(node) or self._write(node, names)
            if not isinstance(node, (Leaf, Const) if self.inlines_constants else Leaf):
                names[node] = self.result.format(len(statements))
                statements[names[node]] = text
        return statements, names[expr]

    def _write(self, node: Expr, names: Mapping[Expr, str]) -> str:
        if isinstance(node, Leaf):
            return self.leaf.format(node.name)
        if isinstance(node, Const):
            return self.constant.format(node.bits)
        operands = [names[e] for e in children(node)]
        if isinstance(node, Choose):
            return f"{self.tests[node.test].format(*operands)} ? {operands[2]} : {operands[3]}"
        is_reciprocal = node.op is Op.DIV and node.args[0] == ONE and (Op.RCP, node.domain) in self.operations
        key = (Op.RCP if is_reciprocal else node.op, node.domain)
        if key not in self.operations:
            raise refuse_operation(node.op, node.domain)
        return self.operations[key].format(*operands)


def refuse_operation(op: Op, domain: Domain) -> UnsupportedProfileError:
    """The error for an operation that a language lacks."""
    return UnsupportedProfileError(f"computes {op.value} in the domain {domain.value}")


def list_departures(rule: ScaleRule | ElementRule) -> dict[str, Any]:
    """The fields of a rule that have no default, and those that are not at it."""
    return {f.name: value for f in fields(rule) if (value := getattr(rule, f.name)) != f.default}


def special_bytes(rule: ScaleRule, scale: ScaleFormat) -> tuple[int, int, int]:
    """The scale bytes of zero, infinity and NaN."""
    assert scale.nan_code is not None
    given, plain = (rule.on_zero, rule.on_inf, rule.on_nan), (*rule.byte_range, scale.nan_code)
    zero, infinity, nan = (p if g is None else g for g, p in zip(given, plain, strict=True))
    return zero, infinity, nan


def lost_codes(rule: ElementRule, element: ElementFormat) -> tuple[int, int] | None:
    """The codes of a positive and a negative NaN; None where the profile refuses a NaN."""
    policy = rule.nan if element.nan_code is None else rule.nan_own
    return None if policy is NanPolicy.RAISE else reals.nan_codes(element, policy)


def overflow_codes(rule: ElementRule, element: ElementFormat, sign: int) -> tuple[int, int]:
    """The codes of what is rounded beyond the largest value, and of infinity."""
    finite, infinity = (reals.overflow_code(element, sign, rule.overflow, infinite=i, toward_zero=False) for i in (False, True))
    return finite, infinity
