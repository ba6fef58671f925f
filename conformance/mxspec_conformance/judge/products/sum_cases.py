"""Cases of sums, and of the calls in which they are asked: integers, shapes, ordinary numbers, repetition and memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mxspec_conformance.judge.invariance.placed import PLACED, list_repeated
from mxspec_conformance.judge.products.case import ProductCase
from mxspec_conformance.judge.products.draw import Reach
from mxspec_conformance.judge.products.making import Maker

#: Rows and columns of operands of one content, and the parts along k of which some are zeros.
_CONTENTS, _PARTS = (20, 24), 4


def list_sums(maker: Maker) -> Iterator[ProductCase]:
    """Integers whose partial sums are exact in every order."""
    wanted = ((96, Reach.MANY), (128, Reach.LOW), (256, Reach.HIGH), (640, Reach.MANY), (2048, Reach.MANY))
    for number, (k_least, reach) in enumerate(wanted):
        m, n, k = maker.sizes.fit(*((9, 13) if k_least < 2048 else (2, 3)), k_least)
        a = maker.a.numbers(maker.integers(maker.a, m, k, reach=reach))
        b = maker.b.numbers(maker.integers(maker.b, n, k, reach=reach))
        yield ProductCase(topic="sum", label=f"integers {number}, k = {k}", a=a, b=b)
    m, n, k = maker.sizes.fit(4, 5, 512)
    ones = [writer.numbers(np.full((rows, k), writer.code_of(1.0))) for writer, rows in ((maker.a, m), (maker.b, n))]
    yield ProductCase(topic="sum", label=f"ones, k = {k}", a=ones[0], b=ones[1])
    signs = maker.integers(maker.a, m, k, bits=10)
    yield ProductCase(
        topic="sum", label="small integers", a=maker.a.numbers(signs), b=maker.b.numbers(maker.integers(maker.b, n, k, bits=10))
    )
    a, b = (maker.positive(writer, rows, k) for writer, rows in ((maker.a, m), (maker.b, n)))
    yield ProductCase(topic="sum", label="integers of one sign", a=a, b=b)


def list_equal_operands(maker: Maker, shape: tuple[int, int, int] = (11, 10, 192)) -> Iterator[ProductCase]:
    """Four products of one shape."""
    m, n, k = maker.sizes.fit(*shape)
    for number in range(4):
        a, b = maker.positive(maker.a, m, k), maker.positive(maker.b, n, k)
        yield ProductCase(topic="state", label=f"operands {number}", a=a, b=b)


def list_shapes(maker: Maker) -> Iterator[ProductCase]:
    """Sizes adjacent to those of tiles."""
    run = math.lcm(maker.a.run, maker.b.run)
    for m, n, k in ((1, 1, 1), (1, 40, 3), (3, 1, 5), (17, 33, 2), (65, 7, 9), (2, 129, 1), (130, 2, 33)):
        fitted = maker.sizes.fit(m, n, k * run)
        a = maker.a.numbers(maker.integers(maker.a, fitted[0], fitted[2]))
        b = maker.b.numbers(maker.integers(maker.b, fitted[1], fitted[2]))
        label = f"{fitted[0]} x {fitted[1]} x {fitted[2]}"
        yield ProductCase(topic="shape", label=label, a=a, b=b)


def list_ordinary(maker: Maker) -> Iterator[ProductCase]:
    """Numbers as they come: what is certified has one result, the rest an interval."""
    for label, k_least, fold in (("normal", 256, False), ("normal, long", 1024, False), ("magnitudes of normal", 1024, True)):
        m, n, k = maker.sizes.fit(12, 12, k_least)
        x, w = maker.draw.standard_normal((m, k)), maker.draw.standard_normal((n, k))
        if fold:
            x, w = np.abs(x), np.abs(w)
        yield ProductCase(topic="interval", label=f"{label}, k = {k}", a=maker.a.quantized(x), b=maker.b.quantized(w))
    m, n, k = maker.sizes.fit(10, 10, 512)
    spread = np.exp2(maker.draw.integers(-6, 7, (m, -(-k // 32)))).repeat(32, axis=1)[:, :k]
    x, w = maker.draw.standard_normal((m, k)) * spread, maker.draw.standard_normal((n, k))
    yield ProductCase(topic="interval", label=f"wide, k = {k}", a=maker.a.quantized(x), b=maker.b.quantized(w))


def list_calls(maker: Maker) -> Iterator[ProductCase]:
    """The same operands again, in other memory, and in a call that follows others."""
    m, n, k = maker.sizes.fit(7, 9, 128)
    a, b = (p.numbers(maker.integers(p, rows, k)) for p, rows in ((maker.a, m), (maker.b, n)))
    case = ProductCase(topic="state", label="a call", a=a, b=b)
    yield case
    yield replace(case, label="the same call again")
    m2, n2, k2 = maker.sizes.fit(19, 21, 224)
    wide = [p.numbers(maker.integers(p, rows, k2)) for p, rows in ((maker.a, m2), (maker.b, n2))]
    yield replace(case, label="a larger call", a=wide[0], b=wide[1])
    yield replace(case, label="the first call once more")
    empty = [p.numbers(np.full((rows, k), p.code_of(0.0))) for p, rows in ((maker.a, m), (maker.b, n))]
    yield replace(case, label="zeros in the same shape", a=empty[0], b=empty[1])
    for arrangement in ("offset", "rows", "padded"):
        yield replace(case, topic="memory", label=f"operands in memory: {arrangement}", before=("arranged", arrangement))


def list_contents(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    """Operands parts of which are zeros, or whose rows come again: kernels look whether they are, and pass them over."""
    writers = maker.a, maker.b
    m, n, k = maker.sizes.fit(*_CONTENTS, math.lcm(maker.a.run, maker.b.run, _PARTS) * _PARTS)
    plain = [maker.integers(writer, rows, k) for writer, rows in zip(writers, (m, n), strict=True)]
    for number, (name, writer, codes) in enumerate(zip("ab", writers, plain, strict=True)):
        changed = [
            (f"zeros {where}", np.where(np.repeat(flag(len(codes), _PARTS), k // _PARTS, axis=1), writer.code_of(0.0), codes))
            for where, flag in PLACED
        ]
        rows = np.arange(len(codes))[:, None]
        changed += [(what, codes[places[:, 0]]) for what, places in list_repeated(np.repeat(rows, 2, axis=1), 1)][1:-1]
        for what, given in changed:
            sides = [writer.numbers(x) for writer, x in zip(writers, (given, plain[1]) if not number else (plain[0], given), strict=True)]
            yield ProductCase(topic="shape", label=f"{m} x {n} x {k}, {name}: {what}", a=sides[0], b=sides[1], out_dtype=dtype)
