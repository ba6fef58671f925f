"""Expressions, evaluated exactly with every operation kept, and numbers placed among a format's values."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from mxspec import reals
from mxspec.enums import StrEnum
from mxspec.exact import EXACT
from mxspec.explain.text import CONSTANT_NAMES, float32_bits
from mxspec.expressions import Apply, Choose, Const, Domain, Expr, Leaf, Op, Test
from mxspec.formats import FLOAT32, ScalarFormat
from mxspec.reals import Real, make_real


@dataclass(frozen=True, slots=True)
class Node:
    """The result of an expression: its value, the exact result before rounding, and what it rests on."""

    expr: Expr
    result: Real
    exact: Real
    #: Operands; of a choice the condition's sides and the side taken.
    parts: tuple[Node, ...] = ()
    #: Whether a choice's test held.
    held: bool | None = None


class Recording:
    """`expressions.Arithmetic` over nodes; every value is `exact.EXACT`'s."""

    def constant(self, bits: int) -> Node:
        """The float32 with these bits."""
        value = EXACT.constant(bits)
        return Node(Const(bits), value, value)

    def apply(self, op: Op, domain: Domain, args: tuple[Node, ...]) -> Node:
        """One operation, rounded in its domain."""
        operands = tuple(a.result for a in args)
        result = EXACT.apply(op, domain, operands)
        before = result
        if op is Op.RCP:
            before = EXACT.apply(Op.DIV, Domain.EXACT, (make_real(1), operands[0]))
        elif domain is not Domain.EXACT:
            if domain is Domain.F32_FTZ:
                operands = tuple(reals.flush_subnormal(a, FLOAT32) for a in operands)
            before = EXACT.apply(op, Domain.EXACT, operands)
        return Node(Apply(op, domain, tuple(a.expr for a in args)), result, before, args)

    def choose(self, left: Node, test: Test, right: Node, then: Node, otherwise: Node) -> Node:
        """then where the test holds, else otherwise."""
        yes, no = make_real(1), make_real(0)
        held = EXACT.choose(left.result, test, right.result, yes, no) == yes
        taken = then if held else otherwise
        expr = Choose(left.expr, test, right.expr, then.expr, otherwise.expr)
        sides = (left,) if test in (Test.IS_NAN, Test.IS_INF) else (left, right)
        return Node(expr, taken.result, taken.result, (*sides, taken), held)


RECORDING = Recording()


def leaf_node(name: str, value: Real) -> Node:
    """A bound leaf."""
    return Node(Leaf(name), value, value)


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of an expression."""

    #: `t1`, `t2` ...; the leaf's name where the step ends in one (`S`, `g`).
    name: str
    #: In terms of leaves, constants and earlier names: `amax * t1`, `tmax == 0 is false: t2`.
    operation: str
    domain: Domain
    #: Before rounding.
    exact: Real
    result: Real
    #: Whether it is a choice: nothing is computed.
    is_choice: bool = False

    @property
    def bits(self) -> int | None:
        """float32 bits of the result, if float32 holds it."""
        return float32_bits(self.result)

    @property
    def rounded(self) -> bool:
        """Whether rounding changed the value."""
        return self.exact != self.result


class StepNamer:
    """Turns nodes into steps, each distinct expression once, operands before operations."""

    def __init__(self, names: dict[Expr, str] | None = None, count: int = 0) -> None:
        self.names: dict[Expr, str] = dict(names or {})
        self.steps: list[Step] = []
        self.count = count

    def fork(self) -> StepNamer:
        """A namer that knows these names and goes on counting."""
        return StepNamer(self.names, self.count)

    def add(self, node: Node, name: str | None = None) -> None:
        """The steps of a node that are not there yet; `name`: the leaf that the result becomes."""
        if not node.parts or (node.expr in self.names and name is None):
            return
        for part in node.parts:
            self.add(part)
        if name is None:
            self.count += 1
        label = f"t{self.count}" if name is None else name
        domain = node.expr.domain if isinstance(node.expr, Apply) else Domain.EXACT
        choice = isinstance(node.expr, Choose)
        self.steps.append(Step(label, self._operation(node), domain, node.exact, node.result, choice))
        self.names[node.expr] = label

    def _name(self, node: Node) -> str:
        expr = node.expr
        if isinstance(expr, Const):
            return CONSTANT_NAMES.get(expr.bits, str(expr))
        return expr.name if isinstance(expr, Leaf) else self.names[expr]

    def _operation(self, node: Node) -> str:
        names = [self._name(part) for part in node.parts]
        if isinstance(node.expr, Apply):
            op = node.expr.op
            if op in (Op.ADD, Op.SUB, Op.MUL, Op.DIV):
                return f"{names[0]} {op.value} {names[1]}"
            return f"{op.value}({', '.join(names)})"
        assert isinstance(node.expr, Choose)
        condition = f"{names[0]} {node.expr.test.value}" + (f" {names[1]}" if len(names) == 3 else "")
        return f"{condition} is {'true' if node.held else 'false'}: {names[-1]}"


class Where(StrEnum):
    """A number's place relative to two neighbouring values and their midpoint, by magnitude."""

    EXACT = "exact"
    BELOW = "below"
    TIE = "tie"
    ABOVE = "above"
    #: Above the largest finite value.
    BEYOND = "beyond"
    #: Below the smallest value of a format without zero.
    UNDER = "under"
    INFINITE = "inf"
    NAN = "nan"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A value next to a number; the code is None beyond the largest one."""

    code: int | None
    value: Real


@dataclass(frozen=True, slots=True)
class Place:
    """Where a number lies among the values of a format."""

    where: Where
    #: Next toward zero, and next away from zero; the same where the number is a value of the format.
    lower: Neighbour | None = None
    upper: Neighbour | None = None
    #: Magnitude of the midpoint, and the number's magnitude minus it.
    midpoint: Fraction | None = None
    distance: Fraction | None = None


def locate(x: Real, fmt: ScalarFormat, *, top: int | None = None) -> Place:
    """The place of a number among a format's values; top: the largest magnitude code, if not the format's."""
    top = fmt.max_code if top is None else top
    sign = x.sign if fmt.signed else 0

    def neighbour(magnitude_code: int) -> Neighbour:
        code = fmt.join(sign, magnitude_code) if magnitude_code <= top else None
        unsigned_zero = magnitude_code == 0 and fmt.twos_complement
        return Neighbour(code, Real(0 if unsigned_zero else sign, fmt.magnitude(magnitude_code)))

    if x.nan:
        return Place(Where.NAN)
    if x.magnitude is None:
        return Place(Where.INFINITE, neighbour(top))
    lo, hi = reals.neighbours(x.magnitude, fmt)
    if lo == hi and not fmt.has_zero and x.magnitude < fmt.min_subnormal:
        return Place(Where.UNDER, None, neighbour(0))
    if lo == hi and lo <= top:
        return Place(Where.EXACT, neighbour(lo), neighbour(lo))
    lo, hi = (top, top + 1) if lo >= top else (lo, hi)
    midpoint = (fmt.magnitude(lo) + fmt.magnitude(hi)) / 2
    distance = x.magnitude - midpoint
    where = Where.TIE if distance == 0 else Where.ABOVE if distance > 0 else Where.BELOW
    return Place(Where.BEYOND if lo == top else where, neighbour(lo), neighbour(hi), midpoint, distance)
