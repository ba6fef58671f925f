"""Cases of NaN and Inf, and of sums at the ends of an output's range."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mxspec_conformance.judge.products.case import ProductCase
from mxspec_conformance.judge.products.making import Maker
from mxspec_conformance.judge.products.spoiling import find_place, has_one_infinity, subtracts, write_positive
from mxspec_conformance.targets.operands import OperandKind

#: Exponent of products whose sums, of up to 32, are subnormal in float16.
SUBNORMAL = -20


def list_specials(maker: Maker, rows: int = 5, columns: int = 6, least_k: int = 128) -> Iterator[ProductCase]:
    """NaN and Inf in one row, and in a block that others multiply by zero; of a k that is no whole tile the next row follows."""
    among = "" if rows == 5 else f", {rows} x {columns}"
    for side, writer, other in (("a", maker.a, maker.b), ("b", maker.b, maker.a)):
        m, n, k = maker.sizes.fit(rows, columns, least_k)
        # No zeros, and one sign: an infinity times zero, or two that cancel, are NaN, too.
        a, b = (write_positive(p, size, k) for p, size in ((maker.a, m), (maker.b, n)))
        chosen = a if side == "a" else b
        row = min(1, len(chosen.held) - 1)
        # Of two sparse operands only the injected place is sure to be kept by both: it is in the first group.
        sparse = other.spec.sparsity is not None
        for topic, label, changed in writer.spoil(chosen, row, find_place(chosen, row), 0 if sparse else -1):
            if topic == "inf" and not has_one_infinity(writer, other):
                continue
            pair = (changed, b) if side == "a" else (a, changed)
            yield ProductCase(topic=topic, label=f"{label} in {side}{among}", a=pair[0], b=pair[1])


def list_negative_infinities(maker: Maker) -> Iterator[ProductCase]:
    """Of floats; codes that are infinite have been asked for both signs."""
    for side, writer, other in (("a", maker.a, maker.b), ("b", maker.b, maker.a)):
        if writer.spec.kind is not OperandKind.PLAIN or subtracts(other):
            continue
        m, n, k = maker.sizes.fit(5, 6, 128)
        a, b = (write_positive(p, rows, k) for p, rows in ((maker.a, m), (maker.b, n)))
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


def list_overflows(maker: Maker, dtype: str, *, negative: bool = False, shape: tuple[int, int] = (3, 4)) -> Iterator[ProductCase]:
    """Sums beyond the output's largest number, or below the negative of it."""
    power = 6 if dtype == "float16" else 60
    sides = []
    m, n, k = maker.sizes.fit(*shape, 256)
    for writer, rows in ((maker.a, m), (maker.b, n)):
        largest = int(writer.finite[np.argmax(writer.values[writer.finite])])
        top = min(power + 5, writer.powers[1]) if writer.powers[1] < 12 else power + 5
        if writer.spec.kind is OperandKind.PLAIN and not writer.reaches_far:
            top = min(top, 5 if writer.spec.format == "float16" else writer.powers[1])
        codes = np.full((rows, k), largest)
        codes[-1] = writer.code_of(1.0)
        sides.append(writer.numbers(maker.negate(writer, codes) if negative and writer is maker.b else codes, top))
    label = "sums below the smallest number" if negative else "sums beyond the largest number"
    yield ProductCase(topic="overflow", label=label, a=sides[0], b=sides[1])


def list_subnormals(maker: Maker, dtype: str, *, shape: tuple[int, int] = (7, 9), power: int = SUBNORMAL) -> Iterator[ProductCase]:
    """Sums that only subnormal numbers of float16 hold. power: of two, of each product; below -24 the sums are rounded."""
    writers = maker.a, maker.b
    # Halves, where scales do not reach so far down.
    short = sum(writer.powers[0] for writer in writers) - power
    one = 0.5 if short > 0 and all(writer.has(0.5) for writer in writers) else 1.0
    left = power + 2 * (one == 0.5)
    low = max(maker.a.powers[0], left)
    powers = (low, left - low)
    if dtype != "float16" or powers[1] < maker.b.powers[0]:
        return
    m, n, k = maker.sizes.fit(*shape, 1)
    sides = [
        writer.numbers(writer.pick(np.array([writer.code_of(0.0), writer.code_of(one)]), rows, k), own)
        for writer, rows, own in zip(writers, (m, n), powers, strict=True)
    ]
    yield ProductCase(topic="sum", label="subnormal float16 sums", a=sides[0], b=sides[1])
