"""Cases of block scales and tensor scales."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from mxspec_conformance.judge.products.case import ProductCase
from mxspec_conformance.judge.products.draw import takes_tensor_scale, with_tensor_scale
from mxspec_conformance.judge.products.making import Maker
from mxspec_conformance.targets.operand_words import SQUARE
from mxspec_conformance.targets.operands import OperandKind

#: Exponents of successive block scales of either side, no two sums of which are alike, shifted by one block or not.
_OWN = ((-3, 5, 0, -6, 2, 7), (4, -2, 6, 1, -5, 3))


def list_block_scales(maker: Maker) -> Iterator[ProductCase]:
    """Every block another scale on either side, their product one: another scale than the block's own shows."""
    low, high = (f(maker.a.powers[i], -maker.b.powers[1 - i]) for i, f in ((0, max), (1, min)))
    for number, k_least in enumerate((4, 16)):
        run = math.lcm(maker.a.run, maker.b.run)
        m, n, k = maker.sizes.fit(11, 14, k_least * run)
        power = maker.draw.permutation(np.resize(np.arange(low, high + 1), max(k // run, high - low + 1)))[: k // run]
        exponents = [
            np.tile(np.repeat(sign * power, run // writer.run), (rows, 1)) for sign, writer, rows in ((1, maker.a, m), (-1, maker.b, n))
        ]
        a = maker.a.numbers(maker.integers(maker.a, m, k), exponents[0])
        b = maker.b.numbers(maker.integers(maker.b, n, k), exponents[1])
        yield ProductCase(topic="block-scale", label=f"reciprocal block scales {number}, k = {k}", a=a, b=b)
    if maker.a.reaches_far and maker.b.reaches_far:
        m, n, k = maker.sizes.fit(5, 6, 4 * run)
        far = np.where(np.arange(k // run) % 2, 30, -30)
        exponents = [
            np.tile(np.repeat(sign * far, run // writer.run), (rows, 1)) for sign, writer, rows in ((1, maker.a, m), (-1, maker.b, n))
        ]
        a = maker.a.numbers(maker.integers(maker.a, m, k), exponents[0])
        b = maker.b.numbers(maker.integers(maker.b, n, k), exponents[1])
        yield ProductCase(topic="block-scale", label="reciprocal block scales beyond float16", a=a, b=b)
    m, n, k = maker.sizes.fit(24, 24, 3 * run)
    own = [np.tile((np.arange(rows) % 7 - 3)[:, None], (1, -(-k // writer.run))) for writer, rows in ((maker.a, m), (maker.b, n))]
    a = maker.a.numbers(maker.integers(maker.a, m, k), own[0])
    b = maker.b.numbers(maker.integers(maker.b, n, k), own[1])
    yield ProductCase(topic="block-scale", label="every row another scale", a=a, b=b)
    if SQUARE in (maker.a.spec.scales, maker.b.spec.scales):
        m, n = (257 if writer.spec.scales == SQUARE else 5 for writer in (maker.a, maker.b))
        m, n, k = maker.sizes.fit(m, n, 2 * run)
        own = [np.tile((np.arange(rows) // 128 % 7 - 3)[:, None], (1, -(-k // w.run))) for w, rows in ((maker.a, m), (maker.b, n))]
        a = maker.a.numbers(maker.integers(maker.a, m, k), own[0])
        b = maker.b.numbers(maker.integers(maker.b, n, k), own[1])
        yield ProductCase(topic="block-scale", label="every 128 rows another scale", a=a, b=b)


def list_one_block_of_each_row(maker: Maker) -> ProductCase:
    """Rows of a with numbers in one block, scales of both sides that do not cancel: a shift of both shows."""
    run = math.lcm(maker.a.run, maker.b.run)
    m, n, k = maker.sizes.fit(12, 9, len(_OWN[0]) * run)
    exponents = [
        np.tile(np.repeat(np.clip(np.resize(own, k // run), *writer.powers), run // writer.run), (rows, 1))
        for own, writer, rows in zip(_OWN, (maker.a, maker.b), (m, n), strict=True)
    ]
    codes = maker.integers(maker.a, m, k)
    codes[np.arange(k) // run != (np.arange(m) % (k // run))[:, None]] = maker.a.code_of(0.0)
    a, b = maker.a.numbers(codes, exponents[0]), maker.b.numbers(maker.integers(maker.b, n, k), exponents[1])
    return ProductCase(topic="block-scale", label="one block of each row", a=a, b=b)


def list_scale_codes(maker: Maker, rows_of_a: int = 6, rows_of_b: int = 7) -> Iterator[ProductCase]:
    """The ends of the scale format, one side's taking back the other's."""
    for side, writer, other in (("a", maker.a, maker.b), ("b", maker.b, maker.a)):
        m, n, k = maker.sizes.fit(rows_of_a, rows_of_b, 128)
        rows, across = (m, n) if side == "a" else (n, m)
        found = writer.ends(rows, k, other, first=side == "a")
        if found is None:
            continue
        # At most one, so that float32 holds the largest scale times a number.
        small = other.finite[np.abs(other.values[other.finite]) <= 1]
        codes = other.pick(small, across, k)
        if isinstance(found[1], int) and found[1]:  # one of each block: kernels scale the sums of blocks, too, one scale after the other
            places, turn = np.mgrid[0:across, 0 : k // other.run]
            kept = np.full((across, k), other.code_of(0.0))
            kept[places, turn * other.run + (places * 7 + turn * 5) % other.run] = other.code_of(1.0)
            codes = kept
        pair = found[0], other.numbers(codes, found[1])
        a, b = pair if side == "a" else pair[::-1]
        yield ProductCase(topic="scale-code", label=f"the ends of {side}'s scales", a=a, b=b)


def list_tensor_scales(maker: Maker) -> Iterator[ProductCase]:
    """Tensor scales of either side."""
    scaled = [takes_tensor_scale(writer.spec) for writer in (maker.a, maker.b)]
    if not any(scaled):
        return
    m, n, k = maker.sizes.fit(5, 6, 256)
    a, b = maker.a.numbers(maker.integers(maker.a, m, k)), maker.b.numbers(maker.integers(maker.b, n, k))
    for label, values in (("powers of two", (0.125, 32.0)), ("another of each side", (4.0, 0.5)), ("any", (0.3712, 1.9045))):
        sides = [with_tensor_scale(x, v) if s else x for x, v, s in zip((a, b), values, scaled, strict=True)]
        yield ProductCase(topic="tensor-scale", label=label, a=sides[0], b=sides[1])


def list_tensor_scales_alone(maker: Maker) -> Iterator[ProductCase]:
    """Tensor scales of many bits over short sums of one sign: what is lost of a scale is more than additions may lose."""
    scaled = [takes_tensor_scale(writer.spec) for writer in (maker.a, maker.b)]
    if any(scaled):
        m, n, k = maker.sizes.fit(5, 6, 1)
        sides = [
            with_tensor_scale(x, v) if s else x
            for x, v, s in zip((maker.positive(maker.a, m, k), maker.positive(maker.b, n, k)), (0.3712, 1.9045), scaled, strict=True)
        ]
        yield ProductCase(topic="tensor-scale", label="any, short sums of one sign", a=sides[0], b=sides[1])


def list_zero_blocks(maker: Maker) -> Iterator[ProductCase]:
    """A block of zeros under a large scale, next to ones."""
    if maker.a.spec.kind is not OperandKind.BLOCK or not maker.a.spec.block.is_mx:
        return
    m, n, k = maker.sizes.fit(2, 3, 128)
    codes = np.full((m, k), maker.a.code_of(1.0))
    codes[:, : maker.a.run] = maker.a.code_of(0.0)
    exponents = np.zeros((m, k // maker.a.run), int)
    exponents[:, 0] = 60
    b = maker.b.numbers(np.full((n, k), maker.b.code_of(1.0)))
    yield ProductCase(topic="zero-block", label="zeros under the scale 2^60", a=maker.a.numbers(codes, exponents), b=b)
