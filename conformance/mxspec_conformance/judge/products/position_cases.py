"""Cases in which one number of a row counts: each position, each code, each offset at its own place."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from mxspec_conformance.judge.products.case import ProductCase
from mxspec_conformance.judge.products.making import Maker
from mxspec_conformance.targets.operands import OperandKind

#: What eight of may be added within the eight bits of the narrowest class.
_PER_GROUP = 31


def list_identities(maker: Maker) -> Iterator[ProductCase]:
    """One-hot rows: the product is the other side, number by number."""
    run = math.lcm(maker.a.run, maker.b.run)
    _, _, k = maker.sizes.fit(1, 1, max(128, 3 * run))
    for side in ("a", "b"):
        m, n, _ = maker.sizes.fit(k, 20, k) if side == "a" else maker.sizes.fit(20, k, k)
        rows = m if side == "a" else n
        places = np.where(np.arange(rows) < k, (np.arange(rows) * 5) % k if k % 5 else np.arange(rows), -1)
        hot, other = (maker.a, maker.b) if side == "a" else (maker.b, maker.a)
        sides = (hot.one_hot(rows, k, places), other.positions(n if side == "a" else m, k))
        a, b = sides if side == "a" else sides[::-1]
        yield ProductCase(topic="identity", label=f"one-hot rows of {side}, every position", a=a, b=b)
    m, n, k = maker.sizes.fit(16, 24, 2 * run)
    places = np.append(np.arange(m - 1) % k, k - 1)
    for side in ("a", "b"):
        writers = (maker.a, maker.b) if side == "a" else (maker.b, maker.a)
        rows, across = (m, n) if side == "a" else (n, m)
        hot_places = places if side == "a" else np.append(np.arange(n - 1) % k, k - 1)
        numbers = writers[0].one_hot(rows, k, hot_places), writers[1].numbers(writers[1].pick(writers[1].finite, across, k))
        a, b = numbers if side == "a" else numbers[::-1]
        yield ProductCase(topic="code", label=f"every code of {'b' if side == 'a' else 'a'} under the scale one", a=a, b=b)


def list_offsets(maker: Maker) -> Iterator[ProductCase]:
    """One number of each group of the other side: few enough that sums of codes and offsets are certain in every class."""
    for side, writer, other in (("b", maker.b, maker.a), ("a", maker.a, maker.b)):
        if writer.spec.kind is not OperandKind.AFFINE:
            continue
        groups = 8
        m, n, k = maker.sizes.fit(10, 12, groups * writer.run)
        rows, across = (n, m) if side == "b" else (m, n)
        codes = np.full((across, k), other.code_of(0.0))
        for group in range(groups):
            places = group * writer.run + (np.arange(across) * 7 + group) % writer.run
            codes[np.arange(across), places] = other.code_of(1.0)
        pair = writer.numbers(writer.pick(writer.lattice(_PER_GROUP), rows, k)), other.numbers(codes)
        a, b = pair[::-1] if side == "b" else pair
        yield ProductCase(topic="block-scale", label=f"offsets of {side}, one number of each group", a=a, b=b)


def list_cancellations(maker: Maker) -> Iterator[ProductCase]:
    """A number and its negative, wherever they stand: zero."""
    m, n, k = maker.sizes.fit(12, 3, 256)
    codes = np.full((m, k), maker.a.code_of(0.0))
    codes[np.arange(m), np.arange(m) * 3 % k] = maker.a.code_of(1.0)
    codes[np.arange(m), k - 1 - np.arange(m)] = maker.a.code_of(-1.0) if maker.a.has(-1.0) else maker.a.code_of(0.0)
    b = maker.b.numbers(np.repeat(maker.integers(maker.b, n, 1), k, axis=1))
    yield ProductCase(topic="sum", label="a number and its negative", a=maker.a.numbers(codes), b=b)


def list_roundings(maker: Maker) -> Iterator[ProductCase]:
    """One-hot rows against ordinary affine numbers: what each is rounded to, which long sums do not tell."""
    for side, hot, other in (("b", maker.a, maker.b), ("a", maker.b, maker.a)):
        if other.spec.kind is not OperandKind.AFFINE:
            continue
        k = maker.sizes.fit(1, 1, 32)[2]
        m, n, _ = maker.sizes.fit(k, 24, k) if side == "b" else maker.sizes.fit(24, k, k)
        rows, across = (m, n) if side == "b" else (n, m)
        places = np.where(np.arange(rows) < k, np.arange(rows), -1)
        pair = hot.one_hot(rows, k, places), other.quantized(maker.draw.standard_normal((across, k)))
        a, b = pair if side == "b" else pair[::-1]
        yield ProductCase(topic="interval", label=f"ordinary numbers of {side}, one by one", a=a, b=b)


def list_patterns(maker: Maker) -> Iterator[ProductCase]:
    """Every nibble of metadata, neighbours never alike, against one-hot rows: each number at its own place."""
    for side, writer, other in (("a", maker.a, maker.b), ("b", maker.b, maker.a)):
        rule = writer.spec.sparsity
        if rule is None:
            continue
        k = maker.sizes.fit(1, 1, max(64, 2 * math.lcm(maker.a.run, maker.b.run)))[2]
        m, n, _ = maker.sizes.fit(12, k, k) if side == "a" else maker.sizes.fit(k, 12, k)
        rows, across = (m, n) if side == "a" else (n, m)
        codes = writer.finite[(np.arange(rows)[:, None] * 3 + np.arange(k)[None, :]) % len(writer.finite)]
        sparse = writer.patterned(codes)
        hot = other.one_hot(across, k, np.where(np.arange(across) < k, np.arange(across), -1))
        a, b = (sparse, hot) if side == "a" else (hot, sparse)
        yield ProductCase(topic="metadata", label=f"every nibble of {side}'s metadata", a=a, b=b)
