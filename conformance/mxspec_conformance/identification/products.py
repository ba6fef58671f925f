"""How a target adds products: a few dozen questions about one `matmul`, and the model that reproduces it bit for bit.

Each question is one output, of powers of two placed along k. Sources of the method: FPRev (order from what a large number and
its negative leave), Fasi et al. (bits that a unit keeps).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import dot
from mxspec.dot import (
    ACCUMULATORS,
    EXACTLY,
    PLAIN_DTYPES,
    Accumulator,
    Contract,
    Direction,
    Factor,
    OperandContract,
    Order,
)
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.draw import Pen, make_pen
from mxspec_conformance.judge.products.reference import list_contracts, make_factor, refer_case
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.operands import Numbers, OperandKind, OperandSpec, Product, parse_product
from mxspec_conformance.targets.product_sizes import Sizes, find_sizes
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_conformance.transports.opening import open_target

#: The widest gap between two numbers that is asked for.
_WIDEST = 44
#: Places along k at which the order of additions is looked at.
_PLACES = 32
#: How far places lie apart that no tensor core adds at once.
_APART = 32
#: Into how many runs split-k cuts k.
_PARTS = (2, 4, 8, 16, 32)
_NEAREST = ACCUMULATORS["float32-nearest"]
#: Exponents of plain numbers.
_PLAIN_RANGE = {
    "float32": (-60, 60), "bfloat16": (-60, 60), "float16": (-14, 15), "float8_e4m3fn": (-6, 8), "float8_e5m2": (-14, 15),
}  # fmt: skip
#: Formats whose numbers do not reach far.
_NARROW = ("float16", "float8_e4m3fn", "float8_e5m2")

#: Place along k -> a whole number times a power of two: (number, exponent).
Question = Mapping[int, tuple[int, int]]


@dataclass(slots=True)
class ProductIdentity:
    """What the questions found of one product."""

    product: str
    #: Outputs that were asked for.
    questions: int = 0
    #: The bits between the largest number of a sum and the smallest one that still counts: of neighbours along k, and of
    #: places far apart. None: the format does not reach so far, or nothing was lost.
    near_bits: int | None = None
    far_bits: int | None = None
    #: How a sum that does not fit is rounded; None: neither way, or not found.
    rounding: Direction | None = None
    #: For each place of a negative number, how many ones are left beside it and its positive: of neighbours along k, then of
    #: places far apart.
    order: list[int] = field(default_factory=list)
    #: Whether `order` holds answers of neighbours.
    near_order: bool = False
    #: Models that leave as many.
    orders: list[str] = field(default_factory=list)
    #: The model that gives every output of random operands, its bits; empty: none that is known.
    model: str = ""
    #: Outputs of random operands, and of them those that the nearest model gives.
    compared: int = 0
    equal: int = 0
    #: Of the outputs those that every order of float32 additions gives alike.
    certain: int = 0
    #: The nearest model.
    nearest: str = ""


@dataclass(frozen=True)
class _Writer:
    """Writes questions as operands of one side's format."""

    spec: OperandSpec

    @cached_property
    def pen(self) -> Pen:
        """What writes codes of this side."""
        return make_pen(self.spec, np.random.default_rng(0))

    @cached_property
    def codes(self) -> dict[float, int]:
        """Code of each value."""
        return {float(v): c for c, v in reversed(list(enumerate(self.pen.values))) if np.isfinite(v)}

    @cached_property
    def powers(self) -> tuple[int, int]:
        """Exponents of the powers of two among the elements; of plain numbers a range that products do not leave."""
        if self.spec.kind is OperandKind.PLAIN:
            return _PLAIN_RANGE[self.spec.format]
        found = [int(np.frexp(v)[1]) - 1 for v in self.codes if v > 0 and np.frexp(v)[0] == 0.5]
        return min(found), max(found)

    @property
    def run(self) -> int:
        """Numbers that share a scale; 0: none do."""
        return 0 if self.spec.kind is OperandKind.PLAIN else self.spec.group

    @property
    def scales(self) -> tuple[int, int]:
        """Exponents of the block scales."""
        if not self.run:
            return 0, 0
        if self.spec.kind is OperandKind.AFFINE:
            return self.pen.powers
        return (-60, 60) if self.spec.block.is_mx else (-6, 8)

    def has_room(self, values: npt.NDArray[np.float64]) -> bool:
        """Whether a sparse side keeps all numbers that are not zero."""
        rule = self.spec.sparsity
        if rule is None:
            return True
        used = (values.reshape(len(values), -1, 4, rule.unit) != 0).any(axis=-1)
        return bool((used.sum(axis=-1) <= 2).all())

    def write(self, values: npt.NDArray[np.float64], exponents: npt.NDArray[np.int64]) -> Numbers:
        """A side of numbers that the elements have, times a power of two for each block."""
        if not self.run:
            dense = Numbers(spec=self.pen.dense, values=values.astype(PLAIN_DTYPES[self.spec.format]))
            return self.pen.thin(dense, values != 0)
        codes = np.vectorize(self.codes.__getitem__, otypes=[np.intp])(values)
        return self.pen.numbers(codes, exponents)


class _Asker:
    """Asks questions in products of m = n, of which the diagonal counts."""

    def __init__(self, session: TargetSession, product: Product) -> None:
        self.session, self.product = session, product
        self.a, self.b = _Writer(product.a), _Writer(product.b)
        self.sizes: Sizes = find_sizes(product, session.capabilities.product_shapes)
        self.out_dtype = session.capabilities.out_dtypes[0]
        self.run = max(self.a.run, self.b.run, 1)
        #: The side whose block scales carry powers of two.
        self.scaled = self.a if self.a.run else self.b
        self.questions = 0

    @property
    def reach(self) -> int:
        """The widest gap between neighbours along k."""
        return sum(w.powers[1] - w.powers[0] for w in (self.a, self.b))

    def ask(self, questions: Sequence[Question], k: int) -> npt.NDArray[np.float64] | None:
        """The answers; None where a question cannot be written, or the target refuses it."""
        m, _, k = self.sizes.fit(len(questions), len(questions), k)
        n = self.sizes.fit(1, len(questions), k)[1]
        bases = [self._find_base(question) for question in questions]
        written = [self._write(question, k, base) for question, base in zip(questions, bases, strict=True)]
        if any(w is None for w in written):
            return None
        sides = [np.zeros((rows, k)) for rows in (m, n)]
        exponents = [np.zeros((rows, k // w.run if w.run else 0), np.int64) for rows, w in ((m, self.a), (n, self.b))]
        for row, held in enumerate(written):
            assert held is not None
            for side in range(2):
                sides[side][row], exponents[side][row] = held[side]
        if not (self.a.has_room(sides[0]) and self.b.has_room(sides[1])):
            return None
        a, b = self.a.write(sides[0], exponents[0]), self.b.write(sides[1], exponents[1])
        try:
            output = self.session.call("matmul", a.as_data(), b.as_data(), self.out_dtype)
        except CallError:
            return None
        self.questions += len(questions)
        return np.ldexp(np.asarray(np.diagonal(output), np.float64)[: len(questions)], np.negative(bases))

    @property
    def _ends(self) -> tuple[int, int]:
        """Exponents of the smallest and the largest product of two elements that are powers of two."""
        return self.a.powers[0] + self.b.powers[0], self.a.powers[1] + self.b.powers[1]

    def _find_base(self, question: Question) -> int:
        """The power of two by which a question is multiplied, and its answer divided, so that it fits without block scales."""
        least, most = self._ends
        wanted = [e + int(np.frexp(abs(number))[1]) - 1 for number, e in question.values()]
        if self.scaled.run or (min(wanted) >= least and max(wanted) <= most):
            return 0
        return most - max(wanted)

    def _write(
        self, question: Question, k: int, base: int
    ) -> list[tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]] | None:
        """Both sides of one question: numbers [k] and exponents of blocks."""
        values = [np.zeros(k), np.zeros(k)]
        exponents = [np.zeros(k // w.run if w.run else 0, np.int64) for w in (self.a, self.b)]
        least, most = self._ends
        question = {place: (number, exponent + base) for place, (number, exponent) in question.items()}
        run = self.scaled.run or k
        for start in sorted({place // run * run for place in question}):
            held = {place: at for place, at in question.items() if start <= place < start + run}
            wanted = [e + int(np.frexp(abs(number))[1]) - 1 for number, e in held.values()]
            shift = self._shift(min(wanted), max(wanted), least, most)
            if shift is None:
                return None
            if self.scaled.run:
                exponents[0 if self.scaled is self.a else 1][start // run] = shift
            for place, (number, exponent) in held.items():
                pair = self._split(number, exponent - shift)
                if pair is None:
                    return None
                values[0][place], values[1][place] = pair
        return list(zip(values, exponents, strict=True))

    def _shift(self, low: int, high: int, least: int, most: int) -> int | None:
        """The block's exponent that brings all numbers of a block into the elements' range."""
        floor, ceiling = self.scaled.scales
        shift = min(max(high - most, floor, min(low, ceiling)), ceiling) if self.scaled.run else 0
        return shift if low - shift >= least and high - shift <= most else None

    def _split(self, number: int, exponent: int) -> tuple[float, float] | None:
        """A number times a power of two as a product of an element of a and one of b."""
        for power in range(self.b.powers[1], self.b.powers[0] - 1, -1):
            value = number * 2.0 ** (exponent - power)
            if self.a.spec.kind is OperandKind.PLAIN:
                low, high = self.a.powers
                if 2.0**low <= abs(value) <= 2.0**high:
                    return value, 2.0**power
            elif value in self.a.codes:
                return value, 2.0**power
        return None


def identify_products_of(
    target: Any, *, in_process: bool = False, timeout: float = 60.0, progress: Callable[[str], None] = lambda _: None
) -> list[ProductIdentity]:
    """What is found of every product of a target, in the order in which it lists them; none where it has no `matmul`.

    Raises TargetError where the target does not load.
    """
    session = open_target(target, in_process=in_process, timeout=timeout)
    try:
        found = []
        for text in session.capabilities.products:
            progress(text)
            found.append(identify_product(session, parse_product(text)))
        return found
    finally:
        session.close()


def identify_product(session: TargetSession, product: Product) -> ProductIdentity:
    """What a few dozen questions tell of one product, and the model that gives its bits."""
    asker = _Asker(session, product)
    found = ProductIdentity(product=product.text)
    k = asker.sizes.fit(1, 1, _PLACES * max(asker.run, _APART))[2]
    found.near_bits = _find_width(asker, (0, 1, 2), k)
    found.far_bits = _find_width(asker, (0, k // 2, k - 1), k)
    if found.far_bits is not None:
        found.rounding = _find_rounding(asker, found.far_bits, k)
    models = list(_list_models(found))
    found.order = _ask_order(asker, found, k)
    if found.order:
        found.orders = [name for name, model in models if _model_order(found, k, model) == found.order]
    # Those that add in the target's order first: several may give the bits of few operands.
    models.sort(key=lambda model: model[0] not in found.orders)
    _compare_models(asker, found, models)
    found.questions = asker.questions
    return found


def _find_width(asker: _Asker, places: tuple[int, int, int], k: int) -> int | None:
    """The widest gap at which a one still counts between a number and its negative; None where none is lost."""
    first, middle, last = places
    gaps = range(1, _WIDEST + 1)
    answers: dict[int, float] = {}
    for start in range(0, len(gaps), 16):
        batch = list(gaps[start : start + 16])
        kept = asker.ask([{first: (1, t), middle: (1, 0), last: (-1, t)} for t in batch], k)
        if kept is None:  # one by one, to the widest that can be written
            for t in batch:
                single = asker.ask([{first: (1, t), middle: (1, 0), last: (-1, t)}], k)
                if single is None:
                    break
                answers[t] = float(single[0])
            break
        answers |= dict(zip(batch, kept.tolist(), strict=True))
    lost = [t for t, answer in answers.items() if answer != 1]
    return min(lost) - 1 if lost else None


def _find_rounding(asker: _Asker, bits: int, k: int) -> Direction | None:
    """What becomes of 2^(bits + 1) plus one, and plus three, of either sign."""
    first, last = 0, k - 1
    base = 2.0 ** (bits + 1)
    asked = asker.ask([{first: (s, bits + 1), last: (s * number, 0)} for s in (1, -1) for number in (1, 3)], k)
    if asked is None:
        return None
    wanted = {
        Direction.NEAREST: (base, base + 4, -base, -base - 4), Direction.ZERO: (base, base + 2, -base, -base - 2),
        Direction.DOWN: (base, base + 2, -base - 2, -base - 4), Direction.UP: (base + 2, base + 4, -base, -base - 2),
    }  # fmt: skip
    return next((direction for direction, values in wanted.items() if tuple(asked.tolist()) == values), None)


def _order_questions(found: ProductIdentity, k: int, *, near: bool) -> list[Question]:
    """A large number first, its negative at each place in turn, ones at all others."""
    bits = max(found.near_bits or 0, found.far_bits or 0, 8)
    places = list(range(0, k, 1 if near else k // _PLACES))[:_PLACES]
    large = bits + len(places).bit_length() + 1
    return [dict.fromkeys(places, (1, 0)) | {0: (1, large), at: (-1, large)} for at in places[1:]]


def _ask_order(asker: _Asker, found: ProductIdentity, k: int) -> list[int]:
    order: list[int] = []
    for near in (True, False):
        answers = asker.ask(_order_questions(found, k, near=near), k)
        if answers is not None and np.isfinite(answers).all() and (answers == np.rint(answers)).all():
            order += [int(a) for a in answers]
        found.near_order |= near and bool(order)
    return order


@dataclass(frozen=True, slots=True)
class Model:
    """One accumulation of a class, as `mxspec.dot.simulate_product` takes it."""

    unit: Accumulator
    order: Order = Order.FORWARD
    direction: Direction = Direction.NEAREST
    fused: bool = False
    parts: int = 1



def _list_models(found: ProductIdentity) -> Iterator[tuple[str, Model]]:
    """Models that may have given the answers: every published class, and groups of the widths that were found."""
    for name in ("float32-nearest", "float16", "bfloat16"):
        for direction in dict.fromkeys((Direction.NEAREST, Direction.ZERO, found.rounding or Direction.NEAREST)):
            for order in Order:
                yield f"{name}, {order.value}, each sum {direction.value}", Model(ACCUMULATORS[name], order, direction)
    for fused in (True, False):
        for parts in _PARTS if not fused else (1, *_PARTS):
            words = f", {parts} runs of k summed apart" if parts > 1 else ""
            yield f"float32-nearest, forward{', by FMA' * fused}{words}", Model(_NEAREST, fused=fused, parts=parts)
    for unit in ACCUMULATORS.values():
        if unit.group:
            yield unit.name, Model(unit)
    if found.near_bits is not None and found.far_bits is not None:
        for group in (4, 8, 16, 32, 64, 128):
            for promoted in (0, 64, 128, 256):
                unit = Accumulator(
                    name="", text="", precision=found.far_bits + 1, group=group, fraction=found.near_bits,
                    output_fraction=found.far_bits, promoted=promoted,
                )  # fmt: skip
                name = f"groups of {group}, {found.near_bits} bits below the largest exponent, output of {found.far_bits}"
                yield name + (f", promoted every {promoted}" if promoted else ""), Model(unit)


def _simulate(a: Factor, b: Factor, model: Model) -> npt.NDArray[np.float64]:
    return dot.simulate_product(
        a, b, model.unit, order=model.order, direction=model.direction, fused=model.fused, parts=model.parts
    )


def _model_order(found: ProductIdentity, k: int, model: Model) -> list[int]:
    """The same questions, answered by a model."""
    answers: list[int] = []
    for near in (True, False) if found.near_order else (False,):
        questions = _order_questions(found, k, near=near)
        values = np.zeros((len(questions), k))
        for row, question in enumerate(questions):
            for place, (number, exponent) in question.items():
                values[row, place] = number * 2.0**exponent
        output = _simulate(dot.exact_factor(values), dot.exact_factor(np.ones((1, k))), model)[:, 0]
        if not np.isfinite(output).all() or (output != np.rint(output)).any():
            return []
        answers += [int(a) for a in output]
    return answers


def _compare_models(asker: _Asker, found: ProductIdentity, models: Sequence[tuple[str, Model]]) -> None:
    """Random operands of wide range, so that sums depend on their order: which model gives the target's bits."""
    draw = np.random.default_rng(31)
    m, n, k = asker.sizes.fit(10, 10, 512)
    spread = 3 if {asker.out_dtype, asker.product.a.format, asker.product.b.format} & set(_NARROW) else 7
    sides = []
    for spec, rows in ((asker.product.a, m), (asker.product.b, n)):
        powers = np.repeat(draw.integers(-spread, spread, (rows, -(-k // 16))), 16, axis=1)[:, :k]
        sides.append(make_pen(spec, draw).quantized(np.ldexp(draw.standard_normal((rows, k)), powers)))
    case = ProductCase(topic="interval", label="random", a=sides[0], b=sides[1], out_dtype=asker.out_dtype)
    try:
        output = asker.session.call("matmul", case.a.as_data(), case.b.as_data(), asker.out_dtype).astype(np.float64)
    except CallError:
        return
    asker.questions += output.size
    fmt = dot.OUTPUTS[asker.out_dtype]
    found.compared = output.size
    sums = refer_case(case).sums
    found.certain = int(sums.fits(ACCUMULATORS["float32"].precision).sum())
    exact = dot.finish_product(sums, asker.out_dtype).astype(np.float64)
    candidates = [("the exact sum, rounded once", exact)]
    for name, outputs in chain(candidates, _run_models(case, _list_rounded(asker.product), models)):
        same = dot.round_floats(outputs, fmt) == output
        if same.sum() > found.equal:
            found.equal, found.nearest = int(same.sum()), name
        if same.all():
            found.model = name
            return


def _list_rounded(product: Product) -> list[tuple[str, OperandContract]]:
    """What numbers are before they are multiplied, in words: affine ones rounded in every known way, others exact."""
    contracts = list_contracts(product)
    if OperandKind.AFFINE in (product.a.kind, product.b.kind):  # exact ones are sums of two numbers, which no model multiplies
        return [(f", numbers {c.words}", c) for c in contracts if c.affine != EXACTLY.affine]
    return [("", EXACTLY), *((f", numbers {c.words}", c) for c in contracts if c.held is Contract.TF32)]


def _run_models(
    case: ProductCase, contracts: Sequence[tuple[str, OperandContract]], models: Sequence[tuple[str, Model]]
) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    for words, contract in contracts:
        a, b = make_factor(case.a, contract), make_factor(case.b, contract)
        for name, model in models:
            yield name + words, _simulate(a, b, model)


def describe_product(found: ProductIdentity) -> dict[str, str]:
    """The traits in words."""
    unknown = "more than could be asked"
    words = {
        "neighbours along k": unknown if found.near_bits is None else f"{found.near_bits} bits below the largest number count",
        "places far apart": unknown if found.far_bits is None else f"{found.far_bits} bits below the largest number count",
        "sums that do not fit": "not found" if found.rounding is None else f"rounded {_ROUNDING_WORDS[found.rounding]}",
    }
    if found.orders:
        words["order of additions"] = f"as {found.orders[0]}" + (f" ({len(found.orders) - 1} more alike)" if len(found.orders) > 1 else "")
    elif found.order:
        words["order of additions"] = "as no known model"
    if found.compared:
        words["random operands"] = (
            f"{found.model}: all {found.compared} outputs, bit for bit{_certain_words(found)}" if found.model
            else f"no known model gives all {found.compared} outputs; nearest: {found.nearest or 'none'} ({found.equal})"
        )  # fmt: skip
    return words


def _certain_words(found: ProductIdentity) -> str:
    """How many of the outputs tell nothing of the order."""
    if not found.certain:
        return ""
    return f" ({'all' if found.certain == found.compared else found.certain} of them are the same in every order)"


_ROUNDING_WORDS = {
    Direction.NEAREST: "to nearest, ties to even", Direction.ZERO: "toward zero", Direction.DOWN: "down", Direction.UP: "up",
}  # fmt: skip
