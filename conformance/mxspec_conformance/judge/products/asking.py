"""Questions about a product: sums of a few powers of two, each of which is one output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mxspec_conformance.judge.products.writing import Writer
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.operands import Numbers, OperandKind, Product
from mxspec_conformance.targets.product_sizes import Sizes, find_sizes
from mxspec_conformance.targets.sessions import TargetSession

#: Place along k -> a whole number times a power of two: (number, exponent).
Question = Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Answered:
    """Questions as they were put: both sides, and their outputs, the first ones of the diagonal."""

    a: Numbers
    b: Numbers
    outputs: npt.NDArray[np.float64]


class Asker:
    """Runs experiments as products of m = n, of which the diagonal counts."""

    def __init__(self, session: TargetSession, product: Product) -> None:
        self.session, self.product = session, product
        self.a, self.b = Writer(product.a), Writer(product.b)
        self.sizes: Sizes = find_sizes(product, session.capabilities.product_shapes)
        self.out_dtype = session.capabilities.out_dtypes[0]
        self.run = max(self.a.run, self.b.run, 1)
        #: The side whose block scales carry powers of two.
        self.scaled = self.a if self.a.run else self.b
        self.questions = 0
        #: Why the last call that was refused had no answer.
        self.refused: CallError | None = None
        #: What was answered, in order.
        self.answered: list[Answered] = []

    def ask(self, questions: Sequence[Question], k: int, least: tuple[int, int] = (1, 1)) -> npt.NDArray[np.float64] | None:
        """The answers, in a product of at least so many rows and columns; None where a question cannot be written, or the target
        refuses it."""
        m, n, k = self.sizes.fit(max(len(questions), least[0]), max(len(questions), least[1]), k)
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
        except CallError as error:
            self.refused = error
            return None
        self.questions += len(questions)
        outputs = np.asarray(np.diagonal(output), np.float64)[: len(questions)]
        self.answered.append(Answered(a, b, outputs))
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return np.ldexp(outputs, np.negative(bases))

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

    def _write(self, question: Question, k: int, base: int) -> list[tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]] | None:
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
