"""The calls by which a product is judged: each has operands made for one kind of mistake, and a topic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mxspec.dot import ACCUMULATORS, DEFAULT_ACCUMULATOR, Accumulator
from mxspec_conformance.judge.products.draw import Pen, Reach, make_pen, takes_tensor_scale, with_tensor_scale
from mxspec_conformance.judge.products.epilogues import draw_wide_epilogues
from mxspec_conformance.judge.products.scale_range import draw_every_scale
from mxspec_conformance.judge.products.spoiling import find_place, has_one_infinity, subtracts, write_positive
from mxspec_conformance.judge.products.tiles import draw_square, draw_tiles
from mxspec_conformance.judge.products.variety import (
    Draft,
    draw_added_memory,
    draw_edges,
    draw_epilogues,
    draw_kept,
    draw_vectors,
    find_taken,
)
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.operands import Numbers, OperandKind, Product
from mxspec_conformance.targets.product_sizes import find_sizes
from mxspec_vectors.topics import TOPICS

#: What eight of may be added within the eight bits of the narrowest class.
_PER_GROUP = 31


#: Exponents of successive block scales of either side, no two sums of which are alike, shifted by one block or not.
_OWN = ((-3, 5, 0, -6, 2, 7), (4, -2, 6, 1, -5, 3))

#: Bits of the sums that an epilogue scales and adds to.
_LONG_BITS = 18

#: Exponent of products whose sums, of up to 32, are subnormal in float16.
_SUBNORMAL = -20


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductCase:
    """One call of `matmul`."""

    topic: str
    label: str
    a: Numbers
    b: Numbers
    out_dtype: str = "float32"
    #: alpha, beta, c and bias.
    options: dict[str, Any] = field(default_factory=dict)
    #: Words of the call before its function: an arrangement in memory, or a repetition.
    before: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        assert self.topic in TOPICS


def list_cases(product: Product, capabilities: Capabilities, accumulator: Accumulator, seed: int = 20) -> list[ProductCase]:
    """Every call by which a product is judged, the same ones each time."""
    maker = _CaseMaker(product, capabilities, accumulator, seed)
    first, *others = capabilities.out_dtypes
    cases = [replace(case, out_dtype=first) for case in maker.all_cases()]
    cases += [replace(case, out_dtype=first) for case in _CaseMaker(product, capabilities, accumulator, seed + 2).added()]
    cases += [replace(case, out_dtype=first) for case in _CaseMaker(product, capabilities, accumulator, seed + 3).wider(first)]
    cases += [replace(case, out_dtype=first) for case in _CaseMaker(product, capabilities, accumulator, seed + 4).varied(first)]
    for dtype in others:
        again = [replace(c, out_dtype=dtype, label=f"{c.label}, {dtype}") for c in maker.sums() if not c.before]
        cases += again + [replace(c, out_dtype=dtype, label=f"{c.label}, {dtype}") for c in maker.overflows(dtype)]
        also = _CaseMaker(product, capabilities, accumulator, seed + 3).in_another_dtype(dtype)
        cases += [replace(c, out_dtype=dtype, label=f"{c.label}, {dtype}") for c in also]
        also = _CaseMaker(product, capabilities, accumulator, seed + 4).varied_in_another_dtype(dtype)
        cases += [replace(c, out_dtype=dtype, label=f"{c.label}, {dtype}") for c in also]
    return cases


def list_topics(product: Product, capabilities: Capabilities) -> list[str]:
    """The topics by which a product is judged."""
    return list(dict.fromkeys(c.topic for c in list_cases(product, capabilities, ACCUMULATORS[DEFAULT_ACCUMULATOR])))


def list_equal_shapes(product: Product, capabilities: Capabilities, accumulator: Accumulator) -> list[ProductCase]:
    """Cases of one shape with different operands, sums of positive integers that have one result in every order."""
    maker = _CaseMaker(product, capabilities, accumulator, seed=21)
    return [replace(case, out_dtype=capabilities.out_dtypes[0]) for case in maker.equal_shapes()]


def _make_case(draft: Draft) -> ProductCase:
    return ProductCase(topic=draft.topic, label=draft.label, a=draft.a, b=draft.b, options=draft.options, before=draft.before)


class _CaseMaker:
    """Makes the cases of one product."""

    def __init__(self, product: Product, capabilities: Capabilities, accumulator: Accumulator, seed: int) -> None:
        self.capabilities = capabilities
        self.sizes = find_sizes(product, capabilities.product_shapes)
        self.bits = min(accumulator.sure_bits, 24)
        draw = np.random.default_rng(seed)
        self.a, self.b = make_pen(product.a, draw), make_pen(product.b, draw)
        self.draw = draw
        self.takes = find_taken(capabilities)

    def all_cases(self) -> list[ProductCase]:
        groups = (
            self.identities(), self.sums(), self.block_scales(), self.offsets(), self.cancellations(), self.shapes(), self.ordinary(),
            self.scale_codes(), self.tensor_scales(), self.epilogues(), self.specials(), self.zero_blocks(),
            self.overflows(self.capabilities.out_dtypes[0]), self.calls(), self.patterns(), self.roundings(),
        )  # fmt: skip
        return [case for group in groups for case in group]

    def _integers(self, pen: Pen, rows: int, k: int, *, reach: Reach = Reach.MANY, bits: int | None = None) -> Any:
        most = math.isqrt((1 << (self.bits if bits is None else bits)) // (2 * k))
        codes = pen.lattice(max(most, 1), reach)
        return pen.pick(codes, rows, k)

    def identities(self) -> Iterator[ProductCase]:
        """One-hot rows: the product is the other side, number by number."""
        run = math.lcm(self.a.run, self.b.run)
        _, _, k = self.sizes.fit(1, 1, max(128, 3 * run))
        for side in ("a", "b"):
            m, n, _ = self.sizes.fit(k, 20, k) if side == "a" else self.sizes.fit(20, k, k)
            rows = m if side == "a" else n
            places = np.where(np.arange(rows) < k, (np.arange(rows) * 5) % k if k % 5 else np.arange(rows), -1)
            hot, other = (self.a, self.b) if side == "a" else (self.b, self.a)
            sides = (hot.one_hot(rows, k, places), other.positions(n if side == "a" else m, k))
            a, b = sides if side == "a" else sides[::-1]
            yield ProductCase(topic="identity", label=f"one-hot rows of {side}, every position", a=a, b=b)
        m, n, k = self.sizes.fit(16, 24, 2 * run)
        places = np.append(np.arange(m - 1) % k, k - 1)
        for side in ("a", "b"):
            pens = (self.a, self.b) if side == "a" else (self.b, self.a)
            rows, across = (m, n) if side == "a" else (n, m)
            hot_places = places if side == "a" else np.append(np.arange(n - 1) % k, k - 1)
            numbers = pens[0].one_hot(rows, k, hot_places), pens[1].numbers(pens[1].pick(pens[1].finite, across, k))
            a, b = numbers if side == "a" else numbers[::-1]
            yield ProductCase(topic="code", label=f"every code of {'b' if side == 'a' else 'a'} under the scale one", a=a, b=b)

    def sums(self) -> Iterator[ProductCase]:
        """Integers whose partial sums are exact in every order."""
        wanted = ((96, Reach.MANY), (128, Reach.LOW), (256, Reach.HIGH), (640, Reach.MANY), (2048, Reach.MANY))
        for number, (k_least, reach) in enumerate(wanted):
            m, n, k = self.sizes.fit(*((9, 13) if k_least < 2048 else (2, 3)), k_least)
            a = self.a.numbers(self._integers(self.a, m, k, reach=reach))
            b = self.b.numbers(self._integers(self.b, n, k, reach=reach))
            yield ProductCase(topic="sum", label=f"integers {number}, k = {k}", a=a, b=b)
        m, n, k = self.sizes.fit(4, 5, 512)
        ones = [pen.numbers(np.full((rows, k), pen.code_of(1.0))) for pen, rows in ((self.a, m), (self.b, n))]
        yield ProductCase(topic="sum", label=f"ones, k = {k}", a=ones[0], b=ones[1])
        signs = self._integers(self.a, m, k, bits=10)
        yield ProductCase(topic="sum", label="small integers", a=self.a.numbers(signs), b=self.b.numbers(self._integers(self.b, n, k, bits=10)))
        a, b = (self._positive(pen, rows, k) for pen, rows in ((self.a, m), (self.b, n)))
        yield ProductCase(topic="sum", label="integers of one sign", a=a, b=b)

    def _positive(self, pen: Pen, rows: int, k: int) -> Numbers:
        codes = self._integers(pen, rows, k)
        return pen.numbers(np.where(pen.values[codes] < 0, self._negate(pen, codes), codes))

    def equal_shapes(self) -> Iterator[ProductCase]:
        """Four products of one shape."""
        m, n, k = self.sizes.fit(11, 10, 192)
        for number in range(4):
            a, b = self._positive(self.a, m, k), self._positive(self.b, n, k)
            yield ProductCase(topic="state", label=f"operands {number}", a=a, b=b)

    def _negate(self, pen: Pen, codes: Any) -> Any:
        lookup = {float(v): c for c, v in reversed(list(enumerate(pen.values.tolist())))}
        table = np.array([lookup.get(-float(v), lookup[0.0]) for v in pen.values])
        return table[codes]

    def block_scales(self) -> Iterator[ProductCase]:
        """Every block another scale on either side, their product one: another scale than the block's own shows."""
        low, high = (f(self.a.powers[i], -self.b.powers[1 - i]) for i, f in ((0, max), (1, min)))
        for number, k_least in enumerate((4, 16)):
            run = math.lcm(self.a.run, self.b.run)
            m, n, k = self.sizes.fit(11, 14, k_least * run)
            power = self.draw.permutation(np.resize(np.arange(low, high + 1), max(k // run, high - low + 1)))[: k // run]
            exponents = [np.tile(np.repeat(sign * power, run // pen.run), (rows, 1)) for sign, pen, rows in ((1, self.a, m), (-1, self.b, n))]
            a = self.a.numbers(self._integers(self.a, m, k), exponents[0])
            b = self.b.numbers(self._integers(self.b, n, k), exponents[1])
            yield ProductCase(topic="block-scale", label=f"reciprocal block scales {number}, k = {k}", a=a, b=b)
        if self.a.reaches_far and self.b.reaches_far:
            m, n, k = self.sizes.fit(5, 6, 4 * run)
            far = np.where(np.arange(k // run) % 2, 30, -30)
            exponents = [np.tile(np.repeat(sign * far, run // pen.run), (rows, 1)) for sign, pen, rows in ((1, self.a, m), (-1, self.b, n))]
            a = self.a.numbers(self._integers(self.a, m, k), exponents[0])
            b = self.b.numbers(self._integers(self.b, n, k), exponents[1])
            yield ProductCase(topic="block-scale", label="reciprocal block scales beyond float16", a=a, b=b)
        m, n, k = self.sizes.fit(24, 24, 3 * run)
        own = [np.tile((np.arange(rows) % 7 - 3)[:, None], (1, -(-k // pen.run))) for pen, rows in ((self.a, m), (self.b, n))]
        a = self.a.numbers(self._integers(self.a, m, k), own[0])
        b = self.b.numbers(self._integers(self.b, n, k), own[1])
        yield ProductCase(topic="block-scale", label="every row another scale", a=a, b=b)

    def added(self) -> Iterator[ProductCase]:
        """Cases that joined later: by numbers of their own, so that those of the others stay."""
        if OperandKind.AFFINE not in (self.a.spec.kind, self.b.spec.kind):
            yield self._one_block_of_each_row()
        yield from self._tensor_scales_alone()

    def wider(self, dtype: str) -> Iterator[ProductCase]:
        """Whole tiles, every scale code, epilogues of many bits and rows, infinities and overflows of the other sign."""
        for label, a, b in draw_tiles(self.a, self.b, self.sizes):
            yield ProductCase(topic="shape", label=label, a=a, b=b)
        for label, a, b in draw_square(self.a, self.b, self.sizes, self.bits):
            yield ProductCase(topic="block-scale", label=label, a=a, b=b)
        for side, pen, other in (("a", self.a, self.b), ("b", self.b, self.a)):
            for label, numbers, back in draw_every_scale(pen, other, self.sizes, first=side == "a"):
                a, b = (numbers, back) if side == "a" else (back, numbers)
                yield ProductCase(topic="scale-code", label=label, a=a, b=b)
        yield from self._wide_epilogues(dtype)
        yield from self._negative_infinities()
        yield from self.overflows(dtype, negative=True)
        yield from self.subnormals(dtype)

    def in_another_dtype(self, dtype: str) -> Iterator[ProductCase]:
        """What an output's dtype may change beside sums: what is added, NaN and Inf, the smallest numbers."""
        yield from self._wide_epilogues(dtype)
        yield from self.specials()
        yield from self._negative_infinities()
        yield from self.overflows(dtype, negative=True)
        yield from self.subnormals(dtype)

    def varied(self, dtype: str) -> Iterator[ProductCase]:
        """Cases that differ from others in one thing, and NaN and Inf beside many rows."""
        sides = self.a, self.b, self.sizes
        for draft in (
            *draw_edges(*sides, self._integers), *draw_vectors(*sides, self.draw), *draw_kept(*sides, self._integers),
            *draw_added_memory(*sides, self._short, self.takes, dtype),
        ):  # fmt: skip
            yield _make_case(draft)
        yield from self.specials(17, 20)
        yield from self.varied_in_another_dtype(dtype)

    def varied_in_another_dtype(self, dtype: str) -> Iterator[ProductCase]:
        """Epilogues of few rows and columns, and of as many."""
        for draft in draw_epilogues(self.a, self.b, self.sizes, self._short, self.takes, dtype):
            yield _make_case(draft)

    def _short(self, pen: Pen, rows: int, k: int) -> Any:
        """Integers of sums to which a scaled C and bias are added exactly."""
        return self._integers(pen, rows, k, bits=min(self.bits, _LONG_BITS))

    def _wide_epilogues(self, dtype: str) -> Iterator[ProductCase]:
        for rows, columns in ((5, 11), (2, 131), (130, 3)):
            m, n, k = self.sizes.fit(rows, columns, 1)
            for label, bits, options in draw_wide_epilogues(m, n, dtype, self.draw):
                if set(options) <= self.takes:
                    a, b = (p.numbers(self._integers(p, size, k, bits=min(self.bits, bits))) for p, size in ((self.a, m), (self.b, n)))
                    yield ProductCase(topic="epilogue", label=f"{label}, {m} x {n}", a=a, b=b, options=options)

    def _negative_infinities(self) -> Iterator[ProductCase]:
        """Of floats; codes that are infinite have been asked for both signs."""
        for side, pen, other in (("a", self.a, self.b), ("b", self.b, self.a)):
            if pen.spec.kind is not OperandKind.PLAIN or subtracts(other):
                continue
            m, n, k = self.sizes.fit(5, 6, 128)
            a, b = (write_positive(p, rows, k) for p, rows in ((self.a, m), (self.b, n)))
            chosen = a if side == "a" else b
            row = min(2, len(chosen.held) - 1)
            place = row, find_place(chosen, row)
            values = chosen.held.copy()
            values[place] = -np.inf
            if not np.isinf(values[place]):  # float8_e4m3fn has none
                continue
            changed = chosen.with_held(values)
            pair = (changed, b) if side == "a" else (a, changed)
            yield ProductCase(topic="inf", label=f"a negative Inf in {side}", a=pair[0], b=pair[1])

    def subnormals(self, dtype: str) -> Iterator[ProductCase]:
        """Sums that only subnormal numbers of float16 hold."""
        low = max(self.a.powers[0], _SUBNORMAL)
        powers = (low, _SUBNORMAL - low)
        if dtype != "float16" or powers[1] < self.b.powers[0]:
            return
        m, n, k = self.sizes.fit(7, 9, 1)
        sides = [
            pen.numbers(pen.pick(np.array([pen.code_of(0.0), pen.code_of(1.0)]), rows, k), power)
            for pen, rows, power in ((self.a, m, powers[0]), (self.b, n, powers[1]))
        ]
        yield ProductCase(topic="sum", label="subnormal float16 sums", a=sides[0], b=sides[1])

    def _tensor_scales_alone(self) -> Iterator[ProductCase]:
        """Tensor scales of many bits over short sums of one sign: what is lost of a scale is more than additions may lose."""
        scaled = [takes_tensor_scale(pen.spec) for pen in (self.a, self.b)]
        if any(scaled):
            m, n, k = self.sizes.fit(5, 6, 1)
            sides = [
                with_tensor_scale(x, v) if s else x
                for x, v, s in zip((self._positive(self.a, m, k), self._positive(self.b, n, k)), (0.3712, 1.9045), scaled, strict=True)
            ]
            yield ProductCase(topic="tensor-scale", label="any, short sums of one sign", a=sides[0], b=sides[1])

    def _one_block_of_each_row(self) -> ProductCase:
        """Rows of a with numbers in one block, scales of both sides that do not cancel: a shift of both shows."""
        run = math.lcm(self.a.run, self.b.run)
        m, n, k = self.sizes.fit(12, 9, len(_OWN[0]) * run)
        exponents = [
            np.tile(np.repeat(np.clip(np.resize(own, k // run), *pen.powers), run // pen.run), (rows, 1))
            for own, pen, rows in zip(_OWN, (self.a, self.b), (m, n), strict=True)
        ]
        codes = self._integers(self.a, m, k)
        codes[np.arange(k) // run != (np.arange(m) % (k // run))[:, None]] = self.a.code_of(0.0)
        a, b = self.a.numbers(codes, exponents[0]), self.b.numbers(self._integers(self.b, n, k), exponents[1])
        return ProductCase(topic="block-scale", label="one block of each row", a=a, b=b)

    def offsets(self) -> Iterator[ProductCase]:
        """One number of each group of the other side: few enough that sums of codes and offsets are certain in every class."""
        for side, pen, other in (("b", self.b, self.a), ("a", self.a, self.b)):
            if pen.spec.kind is not OperandKind.AFFINE:
                continue
            groups = 8
            m, n, k = self.sizes.fit(10, 12, groups * pen.run)
            rows, across = (n, m) if side == "b" else (m, n)
            codes = np.full((across, k), other.code_of(0.0))
            for group in range(groups):
                places = group * pen.run + (np.arange(across) * 7 + group) % pen.run
                codes[np.arange(across), places] = other.code_of(1.0)
            pair = pen.numbers(pen.pick(pen.lattice(_PER_GROUP), rows, k)), other.numbers(codes)
            a, b = pair[::-1] if side == "b" else pair
            yield ProductCase(topic="block-scale", label=f"offsets of {side}, one number of each group", a=a, b=b)

    def cancellations(self) -> Iterator[ProductCase]:
        """A number and its negative, wherever they stand: zero."""
        m, n, k = self.sizes.fit(12, 3, 256)
        codes = np.full((m, k), self.a.code_of(0.0))
        codes[np.arange(m), np.arange(m) * 3 % k] = self.a.code_of(1.0)
        codes[np.arange(m), k - 1 - np.arange(m)] = self.a.code_of(-1.0) if self.a.has(-1.0) else self.a.code_of(0.0)
        b = self.b.numbers(np.repeat(self._integers(self.b, n, 1), k, axis=1))
        yield ProductCase(topic="sum", label="a number and its negative", a=self.a.numbers(codes), b=b)

    def shapes(self) -> Iterator[ProductCase]:
        """Sizes beside those of tiles."""
        run = math.lcm(self.a.run, self.b.run)
        for m, n, k in ((1, 1, 1), (1, 40, 3), (3, 1, 5), (17, 33, 2), (65, 7, 9), (2, 129, 1), (130, 2, 33)):
            fitted = self.sizes.fit(m, n, k * run)
            a = self.a.numbers(self._integers(self.a, fitted[0], fitted[2]))
            b = self.b.numbers(self._integers(self.b, fitted[1], fitted[2]))
            label = f"{fitted[0]} x {fitted[1]} x {fitted[2]}"
            yield ProductCase(topic="shape", label=label, a=a, b=b)

    def ordinary(self) -> Iterator[ProductCase]:
        """Numbers as they come: what is certified has one result, the rest an interval."""
        for label, k_least, fold in (("normal", 256, False), ("normal, long", 1024, False), ("magnitudes of normal", 1024, True)):
            m, n, k = self.sizes.fit(12, 12, k_least)
            x, w = self.draw.standard_normal((m, k)), self.draw.standard_normal((n, k))
            if fold:
                x, w = np.abs(x), np.abs(w)
            yield ProductCase(topic="interval", label=f"{label}, k = {k}", a=self.a.quantized(x), b=self.b.quantized(w))
        m, n, k = self.sizes.fit(10, 10, 512)
        spread = np.exp2(self.draw.integers(-6, 7, (m, -(-k // 32)))).repeat(32, axis=1)[:, :k]
        x, w = self.draw.standard_normal((m, k)) * spread, self.draw.standard_normal((n, k))
        yield ProductCase(topic="interval", label=f"wide, k = {k}", a=self.a.quantized(x), b=self.b.quantized(w))

    def roundings(self) -> Iterator[ProductCase]:
        """One-hot rows against ordinary affine numbers: what each is rounded to, which long sums do not tell."""
        for side, hot, other in (("b", self.a, self.b), ("a", self.b, self.a)):
            if other.spec.kind is not OperandKind.AFFINE:
                continue
            k = self.sizes.fit(1, 1, 32)[2]
            m, n, _ = self.sizes.fit(k, 24, k) if side == "b" else self.sizes.fit(24, k, k)
            rows, across = (m, n) if side == "b" else (n, m)
            places = np.where(np.arange(rows) < k, np.arange(rows), -1)
            pair = hot.one_hot(rows, k, places), other.quantized(self.draw.standard_normal((across, k)))
            a, b = pair if side == "b" else pair[::-1]
            yield ProductCase(topic="interval", label=f"ordinary numbers of {side}, one by one", a=a, b=b)

    def scale_codes(self) -> Iterator[ProductCase]:
        """The ends of the scale format, one side's taking back the other's."""
        for side, pen, other in (("a", self.a, self.b), ("b", self.b, self.a)):
            m, n, k = self.sizes.fit(6, 7, 128)
            rows, across = (m, n) if side == "a" else (n, m)
            found = pen.ends(rows, k, other, first=side == "a")
            if found is None:
                continue
            # At most one, so that float32 holds the largest scale times a number.
            small = other.finite[np.abs(other.values[other.finite]) <= 1]
            pair = found[0], other.numbers(other.pick(small, across, k), found[1])
            a, b = pair if side == "a" else pair[::-1]
            yield ProductCase(topic="scale-code", label=f"the ends of {side}'s scales", a=a, b=b)

    def tensor_scales(self) -> Iterator[ProductCase]:
        """Tensor scales of either side."""
        scaled = [takes_tensor_scale(pen.spec) for pen in (self.a, self.b)]
        if not any(scaled):
            return
        m, n, k = self.sizes.fit(5, 6, 256)
        a, b = self.a.numbers(self._integers(self.a, m, k)), self.b.numbers(self._integers(self.b, n, k))
        for label, values in (("powers of two", (0.125, 32.0)), ("another of each side", (4.0, 0.5)), ("any", (0.3712, 1.9045))):
            sides = [with_tensor_scale(x, v) if s else x for x, v, s in zip((a, b), values, scaled, strict=True)]
            yield ProductCase(topic="tensor-scale", label=label, a=sides[0], b=sides[1])

    def epilogues(self) -> Iterator[ProductCase]:
        """alpha, beta, C and bias, by themselves and together."""
        m, n, k = self.sizes.fit(6, 10, 128)
        a, b = (p.numbers(self._short(p, rows, k)) for p, rows in ((self.a, m), (self.b, n)))
        dtype = DTYPES[self.capabilities.out_dtypes[0]]
        c = (np.arange(m * n).reshape(m, n) % 23 - 11).astype(dtype)
        bias = (np.arange(n) * 3 % 17 - 8).astype(dtype)
        wanted: list[tuple[str, dict[str, Any]]] = [
            ("alpha 0.5", {"alpha": 0.5}), ("alpha 0", {"alpha": 0.0}), ("alpha -2", {"alpha": -2.0}), ("alpha 1/3", {"alpha": 1 / 3}),
            ("bias", {"bias": bias}), ("alpha and bias", {"alpha": 4.0, "bias": bias}),
            ("C", {"beta": 1.0, "c": c}), ("beta 2 and C", {"beta": 2.0, "c": c}),
            ("all", {"alpha": 0.5, "beta": -1.0, "c": c, "bias": bias}),
        ]  # fmt: skip
        for label, options in wanted:
            if set(options) <= self.takes:
                yield ProductCase(topic="epilogue", label=label, a=a, b=b, options=options)

    def specials(self, rows: int = 5, columns: int = 6) -> Iterator[ProductCase]:
        """NaN and Inf in one row, and in a block that others multiply by zero."""
        among = "" if rows == 5 else f", {rows} x {columns}"
        for side, pen, other in (("a", self.a, self.b), ("b", self.b, self.a)):
            m, n, k = self.sizes.fit(rows, columns, 128)
            # No zeros, and one sign: an infinity times zero, or two that cancel, are NaN, too.
            a, b = (write_positive(p, size, k) for p, size in ((self.a, m), (self.b, n)))
            chosen = a if side == "a" else b
            row = min(1, len(chosen.held) - 1)
            # Of two sparse sides only the spoilt place is sure to be kept by both: it is in the first group.
            sparse = other.spec.sparsity is not None
            for topic, label, changed in pen.spoil(chosen, row, find_place(chosen, row), 0 if sparse else -1):
                if topic == "inf" and not has_one_infinity(pen, other):
                    continue
                pair = (changed, b) if side == "a" else (a, changed)
                yield ProductCase(topic=topic, label=f"{label} in {side}{among}", a=pair[0], b=pair[1])

    def patterns(self) -> Iterator[ProductCase]:
        """Every nibble of metadata, neighbours never alike, against one-hot rows: each number at its own place."""
        for side, pen, other in (("a", self.a, self.b), ("b", self.b, self.a)):
            rule = pen.spec.sparsity
            if rule is None:
                continue
            k = self.sizes.fit(1, 1, max(64, 2 * math.lcm(self.a.run, self.b.run)))[2]
            m, n, _ = self.sizes.fit(12, k, k) if side == "a" else self.sizes.fit(k, 12, k)
            rows, across = (m, n) if side == "a" else (n, m)
            codes = pen.finite[(np.arange(rows)[:, None] * 3 + np.arange(k)[None, :]) % len(pen.finite)]
            sparse = pen.patterned(codes)
            hot = other.one_hot(across, k, np.where(np.arange(across) < k, np.arange(across), -1))
            a, b = (sparse, hot) if side == "a" else (hot, sparse)
            yield ProductCase(topic="metadata", label=f"every nibble of {side}'s metadata", a=a, b=b)

    def zero_blocks(self) -> Iterator[ProductCase]:
        """A block of zeros under a large scale, beside ones."""
        if self.a.spec.kind is not OperandKind.BLOCK or not self.a.spec.block.is_mx:
            return
        m, n, k = self.sizes.fit(2, 3, 128)
        codes = np.full((m, k), self.a.code_of(1.0))
        codes[:, : self.a.run] = self.a.code_of(0.0)
        exponents = np.zeros((m, k // self.a.run), int)
        exponents[:, 0] = 60
        b = self.b.numbers(np.full((n, k), self.b.code_of(1.0)))
        yield ProductCase(topic="zero-block", label="zeros under the scale 2^60", a=self.a.numbers(codes, exponents), b=b)

    def overflows(self, dtype: str, *, negative: bool = False) -> Iterator[ProductCase]:
        """Sums beyond the output's largest number, or below the negative of it."""
        power = 6 if dtype == "float16" else 60
        sides = []
        m, n, k = self.sizes.fit(3, 4, 256)
        for pen, rows in ((self.a, m), (self.b, n)):
            largest = int(pen.finite[np.argmax(pen.values[pen.finite])])
            top = min(power + 5, pen.powers[1]) if pen.powers[1] < 12 else power + 5
            if pen.spec.kind is OperandKind.PLAIN and not pen.reaches_far:
                top = min(top, 5 if pen.spec.format == "float16" else pen.powers[1])
            codes = np.full((rows, k), largest)
            codes[-1] = pen.code_of(1.0)
            sides.append(pen.numbers(self._negate(pen, codes) if negative and pen is self.b else codes, top))
        label = "sums below the smallest number" if negative else "sums beyond the largest number"
        yield ProductCase(topic="overflow", label=label, a=sides[0], b=sides[1])

    def calls(self) -> Iterator[ProductCase]:
        """The same operands again, in other memory, and in a call that follows others."""
        m, n, k = self.sizes.fit(7, 9, 128)
        a, b = (p.numbers(self._integers(p, rows, k)) for p, rows in ((self.a, m), (self.b, n)))
        case = ProductCase(topic="state", label="a call", a=a, b=b)
        yield case
        yield replace(case, label="the same call again")
        m2, n2, k2 = self.sizes.fit(19, 21, 224)
        wide = [p.numbers(self._integers(p, rows, k2)) for p, rows in ((self.a, m2), (self.b, n2))]
        yield replace(case, label="a larger call", a=wide[0], b=wide[1])
        yield replace(case, label="the first call once more")
        empty = [p.numbers(np.full((rows, k), p.code_of(0.0))) for p, rows in ((self.a, m), (self.b, n))]
        yield replace(case, label="zeros in the same shape", a=empty[0], b=empty[1])
        for arrangement in ("offset", "rows", "padded"):
            yield replace(case, topic="memory", label=f"operands in memory: {arrangement}", before=("arranged", arrangement))
