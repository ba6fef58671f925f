"""Products as an accumulator computes them: one routine for fused groups, one for rounded additions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mxspec.dot.accumulators import Accumulator
from mxspec.dot.factor import Factor
from mxspec.dot.rounding import Direction, Float64s, add_to_odd, round_floats
from mxspec.enums import StrEnum
from mxspec.environment import check_environment
from mxspec.formats import BFLOAT16, FLOAT16, FLOAT32, FloatFormat

#: Bits of a running sum -> its format.
SUM_FORMATS: dict[int, FloatFormat] = {24: FLOAT32, 11: FLOAT16, 8: BFLOAT16}


class Order(StrEnum):
    """The order of rounded additions."""

    FORWARD = "forward"
    BACKWARD = "backward"
    #: Neighbours first, as a balanced tree.
    PAIRS = "pairs"
    #: Eight running sums, each of every eighth product, then their sum.
    STRIDED = "strided"
    #: Each half by itself, then their sum.
    HALVES = "halves"


def simulate_product(
    a: Factor,
    b: Factor,
    accumulator: Accumulator,
    *,
    order: Order = Order.FORWARD,
    direction: Direction = Direction.NEAREST,
    fused: bool = False,
    parts: int = 1,
    align_zeros: bool = False,
) -> Float64s:
    """Outputs [m, n], as float64, of one accumulation of a class; without the tensor scales.

    order and direction: of rounded additions; fused groups are taken forward and cut toward zero. fused: each addition takes its
    product exactly, as FMA does; otherwise products are rounded first. parts: so many equal runs along k are summed by themselves
    (split-k), and their sums added forward. align_zeros: products that are zero take part in the alignment of a fused group, by the
    exponents of their operands; on an H100 they do not.

    Raises ValueError for a side whose numbers float64 does not hold: a kernel rounds them before it multiplies, or sums their
    parts apart.
    """
    if a.rest is not None or b.rest is not None:
        raise ValueError("an operand's numbers are sums of two; pass affine_factor a contract other than exact")
    if accumulator.group:
        return _add_groups(a, b, accumulator, align_zeros=align_zeros)
    fmt = SUM_FORMATS[accumulator.precision]
    with np.errstate(invalid="ignore"):
        products = a.values[:, None, :] * b.values[None, :, :]
    terms = products if fused else round_floats(products, fmt, direction)
    sums = []
    for part in np.array_split(terms, parts, axis=-1):
        if fused:  # the first one is added to zero
            part = np.concatenate([np.zeros((*part.shape[:-1], 1)), part], axis=-1)
        sums.append(_add_ordered(part, fmt, order, direction))
    return sums[0] if parts == 1 else _add_ordered(np.stack(sums, axis=-1), fmt, Order.FORWARD, direction)


def _add_ordered(terms: Float64s, fmt: FloatFormat, order: Order, direction: Direction) -> Float64s:
    """The sum along the last axis, each addition rounded. float64 holds the sum of two numbers of the format, or is nearer
    than any midpoint of it."""

    def add(x: Float64s, y: Float64s) -> Float64s:
        return round_floats(add_to_odd(x, y), fmt, direction)

    k = terms.shape[-1]
    if k == 0:
        return np.zeros(terms.shape[:-1])
    if order is Order.HALVES and k > 1:
        halves = [_add_ordered(terms[..., s], fmt, Order.FORWARD, direction) for s in (slice(k // 2), slice(k // 2, k))]
        return add(halves[0], halves[1])
    if order is Order.STRIDED:
        lanes = [_add_ordered(terms[..., lane::8], fmt, Order.FORWARD, direction) for lane in range(min(8, k))]
        return _add_ordered(np.stack(lanes, axis=-1), fmt, Order.FORWARD, direction)
    if order is Order.PAIRS:
        while terms.shape[-1] > 1:
            if terms.shape[-1] % 2:
                terms = np.concatenate([terms, np.zeros((*terms.shape[:-1], 1))], axis=-1)
            terms = add(terms[..., 0::2], terms[..., 1::2])
        return terms[..., 0]
    if order is Order.BACKWARD:
        terms = terms[..., ::-1]
    total = terms[..., 0]
    for i in range(1, k):
        total = add(total, terms[..., i])
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStep:
    """One step of a fused unit: some products and the running sum, cut to one place and added. Arrays are [m, n] or [m, n, group]."""

    start: int
    stop: int
    products: Float64s
    #: Exponent at which each product is aligned; of a zero the class's least one.
    exponents: npt.NDArray[np.int64]
    #: The largest exponent of the step, that of the running sum among them.
    top: npt.NDArray[np.int64]
    #: Addends are cut toward zero to multiples of 2**place.
    place: npt.NDArray[np.int64]
    #: The running sum before, and after it has been cut to the output's bits.
    before: Float64s
    after: Float64s
    #: The float32 sum that takes the running sum after this step; None where it does not.
    promoted: Float64s | None


def step_groups(a: Factor, b: Factor, unit: Accumulator, *, align_zeros: bool = False) -> Iterator[GroupStep]:
    """The steps of a fused class, `group` products each: all addends cut to the place that the largest exponent leaves, added,
    and cut again."""
    check_environment()
    k = a.k
    total = np.zeros((a.rows, b.rows))
    promoted = np.zeros_like(total)
    for start in range(0, k, unit.group):
        stop = min(start + unit.group, k)
        part = slice(start, stop)
        with np.errstate(invalid="ignore"):
            products = a.values[:, None, part] * b.values[None, :, part]
        exponents = a.exponents[:, None, part].astype(np.int64) + b.exponents[None, :, part]
        if not align_zeros:
            exponents = np.where(products == 0, unit.least, exponents)
        own = np.where(total == 0, unit.least, np.maximum(np.frexp(np.where(np.isfinite(total), total, 0))[1] - 1, unit.least))
        top = np.maximum(exponents.max(axis=-1), own)
        place = top - unit.fraction
        kept = np.trunc(np.ldexp(products, -place[..., None])).sum(axis=-1) + np.trunc(np.ldexp(total, -place))
        after = _cut_output(np.ldexp(kept, place), unit)
        # What is left at the end goes to the float32 sum, too.
        moves = bool(unit.promoted) and ((start + unit.group) % unit.promoted == 0 or stop == k)
        if moves:
            promoted = round_floats(add_to_odd(promoted, after), FLOAT32)
        yield GroupStep(
            start=start, stop=stop, products=products, exponents=exponents, top=top, place=place, before=total,
            after=after, promoted=promoted if moves else None,
        )  # fmt: skip
        total = np.zeros_like(after) if moves else after


def _add_groups(a: Factor, b: Factor, unit: Accumulator, *, align_zeros: bool) -> Float64s:
    last: GroupStep | None = None
    for step in step_groups(a, b, unit, align_zeros=align_zeros):
        last = step
    if last is None:
        return np.zeros((a.rows, b.rows))
    return last.after if last.promoted is None else last.promoted


def _cut_output(x: Float64s, unit: Accumulator) -> Float64s:
    finite = np.where(np.isfinite(x), x, 0)
    place = np.maximum(np.frexp(finite)[1] - 1, unit.least) - unit.output_fraction
    return np.where(np.isfinite(x), np.ldexp(np.trunc(np.ldexp(finite, -place)), place), x)
