"""One output of a product, term by term: what an accumulator keeps of each product, the epilogue, and why a result is legal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from mxspec.dot.accumulators import ACCUMULATORS, DEFAULT_ACCUMULATOR, Accumulator, get_accumulator
from mxspec.dot.factor import Factor
from mxspec.dot.outputs import Allowed, Epilogue, allow_outputs, finish_product
from mxspec.dot.rounding import OUTPUTS, add_to_odd, round_floats
from mxspec.dot.simulate import SUM_FORMATS, step_groups
from mxspec.dot.sums import Special, Sums, pair_parts, sum_products
from mxspec.enums import StrEnum
from mxspec.formats import FLOAT32


class Why(StrEnum):
    """Why an output is legal, or is not."""

    #: Every accumulation of the class gives the exact sum, and float32 holds every step of the epilogue.
    CERTAIN = "certain"
    #: The interval of the class rounds to one output.
    ONE_OUTPUT = "one output"
    #: Every output within the interval of the class is legal.
    INTERVAL = "interval"
    #: Nothing is proven of the class here: a partial sum may overflow, or the bound exceeds the sum.
    UNBOUNDED = "unbounded"
    #: A NaN or an infinity is among the products: no sum decides.
    SPECIAL = "special"


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One product of a sum. All numbers are exact in float64."""

    k: int
    a: float
    b: float
    product: float
    #: The exponent at which hardware aligns the product; of a zero the class's least one.
    exponent: int
    #: What enters the addition: the product cut to the step's place, or rounded to the class's precision.
    kept: float
    #: The running sum after this product; None in a fused step, which adds all its products at once.
    total: float | None

    @property
    def cut(self) -> float:
        """What the product loses before it is added."""
        return self.product - self.kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The products that are added at once (a fused class), or one after the other."""

    #: From k to k, the last excluded.
    start: int
    stop: int
    #: The largest exponent of the step, zeros and the running sum included; None where each addition is rounded by itself.
    top: int | None
    #: Addends are cut toward zero to multiples of 2**place.
    place: int | None
    before: float
    after: float
    #: `before`, plus the products, minus `after`: what the step lost, exactly.
    lost: Fraction
    #: The float32 sum that took the running sum after this step.
    promoted: float | None
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpilogueStep:
    """One operation of the epilogue, in float32."""

    words: str
    operand: float
    result: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassVerdict:
    """What one class allows."""

    accumulator: Accumulator
    low: float
    high: float
    why: Why
    #: Whether the returned number is among them; None where none was given.
    accepts: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputExplanation:
    """One output of a product, step by step. Numbers are exact float64, or the float32 that is said."""

    row: int
    column: int
    k: int
    #: Products of each k: one for each pair of parts, where an operand's numbers are sums of two (`Factor.parts`); pair after pair.
    parts: int = 1
    out_dtype: str
    accumulator: Accumulator
    steps: tuple[Step, ...]
    #: The exact sum of products, as the nearest float64, and whether it is that.
    exact_sum: float
    is_exact: bool
    #: At least the sum of the products' magnitudes; every product is a multiple of 2**unit.
    magnitude: float
    unit: int
    #: Bits that a partial sum may need: the certificate is that the class is sure of as many.
    bits_needed: int
    #: The sum as this accumulation gives it.
    total: float
    #: At most how far an accumulation of the class is from the exact sum; infinite where nothing is proven.
    bound: float
    epilogue: tuple[EpilogueStep, ...]
    #: The output of this accumulation, before and after its rounding to `out_dtype`.
    finished: float
    output: float
    #: The exact sum, finished and rounded once to nearest even.
    expected: float
    low: float
    high: float
    why: Why
    special: Special
    returned: float | None
    accepted: bool | None
    #: The same operands under every class, the most demanding first.
    classes: tuple[ClassVerdict, ...]

    @property
    def nonzero(self) -> int:
        """Products that are not zero."""
        return sum(t.product != 0 for s in self.steps for t in s.terms)


def explain_output(
    a: Factor,
    b: Factor,
    *,
    row: int = 0,
    column: int = 0,
    accumulator: str | Accumulator = DEFAULT_ACCUMULATOR,
    out_dtype: str = "float32",
    epilogue: Epilogue | None = None,
    returned: float | None = None,
) -> OutputExplanation:
    """One output of a b^T, step by step, as one accumulation of a class computes it, and what the class allows.

    A fused class takes its groups forward. Of a class of rounded additions one order is shown, the first k first, each addition
    to nearest; the class allows any other.

    >>> import numpy as np
    >>> from mxspec import dot
    >>> a = dot.plain_factor(np.float32([[2.0**14, 1]]))
    >>> e = dot.explain_output(a, a, accumulator="fused-f13-32")
    >>> e.exact_sum, e.total, e.steps[0].place, e.steps[0].terms[1].cut
    (268435457.0, 268435456.0, 15, 1.0)

    Args:
        a: [m, k], as `block_factor` or `plain_factor` make it.
        b: [n, k].
        row: Row of a, from 0.
        column: Row of b: the output's column.
        accumulator: A class of `ACCUMULATORS`, or its name.
        out_dtype: "float32", "bfloat16" or "float16".
        epilogue: alpha, beta, c [m, n] and bias [n]; None: the sum alone.
        returned: What a kernel returned, to be judged by every class.

    Returns:
        Terms, running sums, what is lost at each step, the epilogue in float32, and the legal interval with its reason.

    Raises:
        ValueError: No such output, class or dtype; sides of different k.
    """
    unit = get_accumulator(accumulator) if isinstance(accumulator, str) else accumulator
    if out_dtype not in OUTPUTS:
        raise ValueError(f"out_dtype = {out_dtype!r}; allowed are {', '.join(OUTPUTS)}")
    for name, index, count in (("row", row, a.rows), ("column", column, b.rows)):
        if not 0 <= index < count:
            raise ValueError(f"{name} = {index} is none of the product's: it has {name}s 0 to {count - 1}")
    left, right = _pick(a, row), _pick(b, column)
    sums = sum_products(left, right)
    shown = _lay_parts(left, right)
    own = _pick_epilogue(epilogue or Epilogue(), row, column)
    scale = a.tensor_scale * b.tensor_scale
    steps = tuple(_list_groups(*shown, unit, a.k) if unit.group else _list_additions(*shown, unit, a.k))
    total = _finish_steps(steps)
    operations = tuple(_list_epilogue(total, own, scale))
    finished = operations[-1].result if operations else float(np.float32(total))
    classes = tuple(_judge(c, sums, own, scale, out_dtype, returned) for c in ACCUMULATORS.values())
    mine = next((c for c in classes if c.accumulator == unit), None) or _judge(unit, sums, own, scale, out_dtype, returned)
    expected = finish_product(sums, out_dtype, tensor_scale=scale, epilogue=own)
    with np.errstate(all="ignore"):
        output = round_floats(np.array([finished]), OUTPUTS[out_dtype])
    return OutputExplanation(
        row=row, column=column, k=a.k, parts=shown[0].k // max(a.k, 1), out_dtype=out_dtype, accumulator=unit, steps=steps,
        exact_sum=float(sums.nearest[0, 0]), is_exact=not sums.remainder[0, 0],
        magnitude=float(sums.magnitude[0, 0]), unit=int(sums.unit[0, 0]), bits_needed=_count_bits(sums),
        total=total, bound=float(unit.bound_error(sums)[0, 0]), epilogue=operations, finished=finished,
        output=float(output[0]), expected=float(expected[0, 0]), low=mine.low, high=mine.high, why=mine.why,
        special=Special(int(sums.special[0, 0])), returned=returned, accepted=mine.accepts, classes=classes,
    )  # fmt: skip


def _pick(factor: Factor, row: int) -> Factor:
    mine = slice(row, row + 1)
    return replace(
        factor, values=factor.values[mine], exponents=factor.exponents[mine],
        rest=None if factor.rest is None else factor.rest[mine], kept=None if factor.kept is None else factor.kept[mine],
    )  # fmt: skip


def _lay_parts(a: Factor, b: Factor) -> tuple[Factor, Factor]:
    """One row of each operand as single float64 numbers: parts behind each other along k, zeros where an operand keeps nothing."""
    left, right, exponents, _ = pair_parts(a, b)
    for factor in (a, b):
        if factor.kept is not None:
            mask = np.tile(factor.kept, left.shape[1] // max(factor.k, 1))
            left, right = np.where(mask, left, 0), np.where(mask, right, 0)
    return Factor(values=left, exponents=exponents[0]), Factor(values=right, exponents=exponents[1])


def _pick_epilogue(epilogue: Epilogue, row: int, column: int) -> Epilogue:
    return replace(
        epilogue,
        c=None if epilogue.c is None else epilogue.c[row : row + 1, column : column + 1],
        bias=None if epilogue.bias is None else epilogue.bias[column : column + 1],
    )


def _count_bits(sums: Sums) -> int:
    """The smallest p for which every partial sum is below 2**(unit + p)."""
    magnitude = float(sums.magnitude[0, 0])
    return max(int(np.frexp(magnitude)[1]) - int(sums.unit[0, 0]), 0) if magnitude else 0


def _list_groups(a: Factor, b: Factor, unit: Accumulator, k: int) -> Iterator[Step]:
    for step in step_groups(a, b, unit):
        place = int(step.place[0, 0])
        products = step.products[0, 0]
        kept = np.ldexp(np.trunc(np.ldexp(products, -place)), place)
        terms = tuple(
            Term(k=(step.start + i) % k, a=float(a.values[0, step.start + i]), b=float(b.values[0, step.start + i]),
                 product=float(products[i]), exponent=int(step.exponents[0, 0, i]), kept=float(kept[i]), total=None)
            for i in range(len(products))
        )  # fmt: skip
        before, after = float(step.before[0, 0]), float(step.after[0, 0])
        yield Step(
            start=step.start % k, stop=(step.stop - 1) % k + 1, top=int(step.top[0, 0]), place=place, before=before, after=after,
            lost=_subtract(before, terms, after), promoted=None if step.promoted is None else float(step.promoted[0, 0]),
            terms=terms,
        )  # fmt: skip


def _list_additions(a: Factor, b: Factor, unit: Accumulator, k: int) -> Iterator[Step]:
    """All products one after the other, as one step."""
    if not a.k:
        return
    fmt = SUM_FORMATS[unit.precision]
    with np.errstate(invalid="ignore"):
        products = a.values[0] * b.values[0]
    rounded = round_floats(products, fmt)
    exponents = a.exponents[0].astype(np.int64) + b.exponents[0]
    terms: list[Term] = []
    total = np.zeros(1)
    for i in range(a.k):
        total = rounded[:1] if i == 0 else round_floats(add_to_odd(total, rounded[i : i + 1]), fmt)
        terms.append(
            Term(k=i % k, a=float(a.values[0, i]), b=float(b.values[0, i]), product=float(products[i]), exponent=int(exponents[i]),
                 kept=float(rounded[i]), total=float(total[0]))
        )  # fmt: skip
    after = float(total[0])
    yield Step(
        start=0, stop=k, top=None, place=None, before=0.0, after=after, lost=_subtract(0.0, terms, after), promoted=None,
        terms=tuple(terms),
    )  # fmt: skip


def _subtract(before: float, terms: list[Term] | tuple[Term, ...], after: float) -> Fraction:
    numbers = [before, *(t.product for t in terms), after]
    if not np.isfinite(numbers).all():
        return Fraction(0)
    return sum(map(Fraction, numbers[:-1]), Fraction()) - Fraction(after)


def _finish_steps(steps: tuple[Step, ...]) -> float:
    if not steps:
        return 0.0
    last = steps[-1]
    return last.after if last.promoted is None else last.promoted


def _list_epilogue(total: float, epilogue: Epilogue, tensor_scale: float) -> Iterator[EpilogueStep]:
    """The epilogue in float32, in the order in which it is written."""
    with np.errstate(all="ignore"):
        y = np.float32(total)
        for words, factor in (("tensor scales", tensor_scale), ("alpha", epilogue.alpha)):
            if factor != 1:
                y = np.float32(y * np.float32(factor))
                yield EpilogueStep(words=f"times {words}", operand=float(np.float32(factor)), result=float(y))
        names = [*(["beta C"] if epilogue.c is not None else []), *(["bias"] if epilogue.bias is not None else [])]
        for words, added in zip(names, epilogue.added, strict=True):
            term = np.float32(round_floats(added, FLOAT32).reshape(-1)[0])
            y = np.float32(y + term)
            yield EpilogueStep(words=f"plus {words}", operand=float(term), result=float(y))


def _judge(unit: Accumulator, sums: Sums, epilogue: Epilogue, scale: float, out_dtype: str, returned: float | None) -> ClassVerdict:
    allowed = allow_outputs(sums, unit, out_dtype, tensor_scale=scale, epilogue=epilogue)
    accepts = None if returned is None else bool(allowed.accepts(np.array([[returned]]))[0, 0])
    return ClassVerdict(
        accumulator=unit, low=float(allowed.low[0, 0]), high=float(allowed.high[0, 0]), why=_find_reason(allowed), accepts=accepts
    )


def _find_reason(allowed: Allowed) -> Why:
    low, high = float(allowed.low[0, 0]), float(allowed.high[0, 0])
    if allowed.special[0, 0] != Special.FINITE:
        return Why.SPECIAL
    if allowed.decided[0, 0]:
        return Why.CERTAIN
    if low == -np.inf and high == np.inf:
        return Why.UNBOUNDED
    return Why.ONE_OUTPUT if low == high else Why.INTERVAL
