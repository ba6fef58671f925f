"""Calls that differ from others in one thing: a size, the shape under an epilogue, the memory of what is added, one part of a side.

Kernels choose their way by these: a row of its own takes a product of matrix and vector, a square one may be mistaken for its
transpose, a side is prepared once and kept by its codes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Set
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine import Offset
from mxspec.sparsity import KEPT
from mxspec_conformance.judge.invariance.calls import EDGES
from mxspec_conformance.judge.products.case import ProductCase
from mxspec_conformance.judge.products.draw import takes_tensor_scale, with_tensor_scale
from mxspec_conformance.judge.products.operand_writer import OperandWriter
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.operands import Numbers, OperandKind
from mxspec_conformance.targets.product_sizes import Sizes

#: The other one of m and n, where one is adjacent to the size of a tile.
_OTHER = 3
#: Shapes under an epilogue: one row, one column, one output; and the least rows where there are as many columns.
_SHAPES, _SQUARE = ((1, 21), (21, 1), (1, 1)), 12
#: How C and bias lie in memory.
_ARRANGEMENTS = ("offset", "rows", "padded", "fortran")
#: A product of matrix and vector, and how long.
_VECTORS = ((1, 24), (24, 1))
_LONG = 1024
#: The most blocks of a sum.
_BLOCKS = 129

#: (writer, rows, k) -> codes of integers whose sums are certain.
Integers = Callable[[OperandWriter, int, int], npt.NDArray[Any]]


def find_taken(capabilities: Capabilities) -> set[str]:
    """What of an epilogue a target takes."""
    return {name for name in ("alpha", "beta", "c", "bias") if capabilities.has("matmul", name)}


def draw_edges(a: OperandWriter, b: OperandWriter, sizes: Sizes, integers: Integers) -> Iterator[ProductCase]:
    """Every size adjacent to that of a tile, of either operand, once."""
    wanted = [(edge, _OTHER) for edge in EDGES] + [(_OTHER, edge) for edge in EDGES]
    for m, n, k in dict.fromkeys(sizes.fit(m, n, math.lcm(a.run, b.run)) for m, n in wanted):
        yield ProductCase(
            topic="shape", label=f"{m} x {n} x {k}, beside a tile", a=a.numbers(integers(a, m, k)), b=b.numbers(integers(b, n, k))
        )


def draw_lengths(a: OperandWriter, b: OperandWriter, sizes: Sizes, integers: Integers) -> Iterator[ProductCase]:
    """As many blocks along k as there are rows at the edges of tiles; under scales that differ from block to block, and cancel."""
    run, (low, high) = math.lcm(a.run, b.run), (max(a.powers[0], -b.powers[1]), min(a.powers[1], -b.powers[0]))
    for m, n, k in dict.fromkeys(sizes.fit(3, 2, edge * run) for edge in EDGES if edge <= _BLOCKS):
        power = low + np.arange(k // run) * 5 % (high - low + 1)
        exponents = [np.tile(np.repeat(sign * power, run // writer.run), (rows, 1)) for sign, writer, rows in ((1, a, m), (-1, b, n))]
        sides = [writer.numbers(integers(writer, rows, k), x) for writer, rows, x in zip((a, b), (m, n), exponents, strict=True)]
        yield ProductCase(topic="block-scale", label=f"{k // run} blocks of a sum", a=sides[0], b=sides[1])


def draw_far_scales(a: OperandWriter, b: OperandWriter, sizes: Sizes) -> Iterator[ProductCase]:
    """Scales of both operands at one end of E8M0: their product has no byte, and the sums are zero, or infinite."""
    if any(writer.spec.kind is not OperandKind.BLOCK or not writer.spec.block.is_mx for writer in (a, b)):
        return
    m, n, k = sizes.fit(3, 4, math.lcm(a.run, b.run))
    for end, power, pick in (("lowest", -126, np.argmax), ("highest", 126, np.argmin)):
        found = []
        for writer, rows in ((a, m), (b, n)):
            positive = writer.finite[writer.values[writer.finite] > 0]
            found.append(writer.numbers(np.full((rows, k), positive[pick(writer.values[positive])]), power))
        yield ProductCase(topic="scale-code", label=f"both scales near the {end}", a=found[0], b=found[1])


def draw_vectors(a: OperandWriter, b: OperandWriter, sizes: Sizes, draw: np.random.Generator) -> Iterator[ProductCase]:
    """Ordinary numbers where one side is a vector."""
    for rows, columns in _VECTORS:
        m, n, k = sizes.fit(rows, columns, _LONG)
        x, w = (draw.standard_normal((size, k)) for size in (m, n))
        yield ProductCase(topic="interval", label=f"normal, {m} x {n} x {k}", a=a.quantized(x), b=b.quantized(w))


def draw_epilogues(
    a: OperandWriter, b: OperandWriter, sizes: Sizes, integers: Integers, takes: Set[str], dtype: str
) -> Iterator[ProductCase]:
    """C and bias, alone and together with factors, in each shape; no two of their rows and columns are alike."""
    step = math.lcm(sizes.m, sizes.n)  # a square that is taken as it is
    side = -(-_SQUARE // step) * step
    for m, n, k in dict.fromkeys(sizes.fit(rows, columns, 64) for rows, columns in (*_SHAPES, (side, side))):
        sides = a.numbers(integers(a, m, k)), b.numbers(integers(b, n, k))
        for label, options in list_options(m, n, takes, dtype):
            yield ProductCase(topic="epilogue", label=f"{label}, {m} x {n}", a=sides[0], b=sides[1], options=options)


def draw_added_memory(
    a: OperandWriter, b: OperandWriter, sizes: Sizes, integers: Integers, takes: Set[str], dtype: str, *, shape: tuple[int, int] = (7, 9)
) -> Iterator[ProductCase]:
    """C and bias apart from numbers that are not theirs."""
    m, n, k = sizes.fit(*shape, 128)
    among = "" if shape == (7, 9) else f", {m} x {n}"
    sides = a.numbers(integers(a, m, k)), b.numbers(integers(b, n, k))
    for label, options in list_options(m, n, takes, dtype)[-1:]:
        for arrangement in _ARRANGEMENTS:
            yield ProductCase(
                topic="memory",
                label=f"{label}{among} in memory: {arrangement}",
                a=sides[0],
                b=sides[1],
                options=options,
                before=("arranged", arrangement),
            )


def list_options(m: int, n: int, takes: Set[str], dtype: str) -> list[tuple[str, dict[str, Any]]]:
    """Labels and options of an epilogue, as far as the target takes them: the last one has all."""
    c = ((np.arange(m * n) * 5 % 23 - 11).reshape(m, n)).astype(DTYPES[dtype])
    bias = (np.arange(n) * 3 % 17 - 8).astype(DTYPES[dtype])
    every: dict[str, Any] = {"alpha": 0.5, "beta": -2.0, "c": c, "bias": bias}
    parts: list[tuple[str, dict[str, Any]]] = [("bias", {"bias": bias}), ("C", {"beta": 1.0, "c": c})]
    found = [(label, options) for label, options in parts if set(options) <= takes]
    left = [name for name in every if name in takes and ({"beta", "c"} <= takes or name not in ("beta", "c"))]
    added = [{"c": "C"}.get(name, name) for name in left if name in ("c", "bias")]
    return [*found, (f"{' and '.join(added)} with factors", {name: every[name] for name in left})] if added else found


def _change_offsets(numbers: Numbers) -> Numbers:
    """An affine side each of whose offsets is one step off; zero points stay codes."""
    offsets, scales = numbers.offsets, numbers.scales
    assert offsets is not None
    assert scales is not None
    if numbers.spec.affine.offset is Offset.BIAS:
        moved = offsets.astype(np.float64) + scales.astype(np.float64)
        return replace(numbers, offsets=moved.astype(offsets.dtype))
    return replace(numbers, offsets=np.where(offsets < numbers.spec.affine.bins, offsets + 1, offsets - 1).astype(offsets.dtype))


def _change_metadata(numbers: Numbers) -> Numbers:
    """A sparse side whose kept numbers stand at other places."""
    assert numbers.metadata is not None
    legal = np.array(sorted(KEPT), np.uint8)
    return replace(numbers, metadata=legal[(np.searchsorted(legal, numbers.metadata) + 1) % len(legal)])


def draw_kept(a: OperandWriter, b: OperandWriter, sizes: Sizes, integers: Integers) -> Iterator[ProductCase]:
    """Calls that share a part with the one before: codes under other scales, one of both sides, all but offsets, metadata or a tensor scale."""
    m, n, k = sizes.fit(6, 11, 128)
    codes = [[integers(writer, rows, k) for _ in range(2)] for writer, rows in ((a, m), (b, n))]
    powers = [1 if writer.powers[1] >= 1 else -1 for writer in (a, b)]
    first_a, first_b = a.numbers(codes[0][0]), b.numbers(codes[1][0])
    other_a, other_b = a.numbers(codes[0][1]), b.numbers(codes[1][1])
    yield ProductCase(topic="state", label="a call before others", a=first_a, b=first_b)
    yield ProductCase(topic="state", label="another b with the same a", a=first_a, b=other_b)
    yield ProductCase(topic="state", label="another a with the same b", a=other_a, b=other_b)
    yield ProductCase(topic="state", label="the codes of b under other scales", a=other_a, b=b.numbers(codes[1][1], powers[1]))
    yield ProductCase(topic="state", label="the codes of a under other scales", a=a.numbers(codes[0][1], powers[0]), b=other_b)
    for side, numbers in (("a", first_a), ("b", first_b)):
        part = "offsets" if numbers.offsets is not None else "metadata" if numbers.metadata is not None else ""
        if not part:
            continue
        changed = _change_offsets(numbers) if part == "offsets" else _change_metadata(numbers)
        for which, given in (("again", numbers), (f"under other {part}", changed)):
            label = f"the codes and scales of {side} {which}"
            yield ProductCase(topic="state", label=label, a=given if side == "a" else first_a, b=given if side == "b" else first_b)
    scaled = [takes_tensor_scale(writer.spec) for writer in (a, b)]
    for value in (2.0, 0.5) if any(scaled) else ():
        sides = [with_tensor_scale(x, value) if s else x for x, s in zip((other_a, other_b), scaled, strict=True)]
        yield ProductCase(topic="state", label=f"the same under the tensor scale {value:g}", a=sides[0], b=sides[1])
