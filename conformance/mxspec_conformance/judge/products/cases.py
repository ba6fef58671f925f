"""The calls by which a product is judged: each has operands made for one kind of mistake, and a topic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mxspec.dot import ACCUMULATORS, DEFAULT_ACCUMULATOR, Accumulator
from mxspec_conformance.judge.products.case import ProductCase
from mxspec_conformance.judge.products.epilogue_cases import list_epilogues, list_wide_epilogues
from mxspec_conformance.judge.products.extreme_cases import list_negative_infinities, list_overflows, list_specials, list_subnormals
from mxspec_conformance.judge.products.far_cases import list_far_cases
from mxspec_conformance.judge.products.late_cases import list_late_cases
from mxspec_conformance.judge.products.making import Maker
from mxspec_conformance.judge.products.path_cases import list_path_cases
from mxspec_conformance.judge.products.position_cases import (
    list_cancellations,
    list_identities,
    list_offsets,
    list_patterns,
    list_roundings,
)
from mxspec_conformance.judge.products.scale_cases import (
    list_block_scales,
    list_one_block_of_each_row,
    list_scale_codes,
    list_tensor_scales,
    list_tensor_scales_alone,
    list_zero_blocks,
)
from mxspec_conformance.judge.products.scale_range import draw_every_scale
from mxspec_conformance.judge.products.sum_cases import (
    list_calls,
    list_contents,
    list_equal_operands,
    list_ordinary,
    list_shapes,
    list_sums,
)
from mxspec_conformance.judge.products.tiles import draw_square, draw_tiles
from mxspec_conformance.judge.products.twin_cases import list_twin_cases
from mxspec_conformance.judge.products.variety import (
    draw_added_memory,
    draw_edges,
    draw_epilogues,
    draw_far_scales,
    draw_kept,
    draw_lengths,
    draw_vectors,
)
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.operands import OperandKind, Product

#: Rows, columns and numbers of a sum of products whose operands are squares: in which order they lie shows in no shape.
SQUARE = 64

__all__ = ["ProductCase", "list_cases", "list_equal_shapes", "list_topics"]


def list_cases(product: Product, capabilities: Capabilities, accumulator: Accumulator, seed: int = 20) -> list[ProductCase]:
    """Every call by which a product is judged, the same ones each time."""
    maker = Maker(product, capabilities, accumulator, seed)
    first, *others = capabilities.out_dtypes
    cases = [replace(case, out_dtype=first) for case in _list_all(maker)]
    cases += [replace(case, out_dtype=first) for case in _list_added(Maker(product, capabilities, accumulator, seed + 2))]
    cases += [replace(case, out_dtype=first) for case in _list_wider(Maker(product, capabilities, accumulator, seed + 3), first)]
    cases += [replace(case, out_dtype=first) for case in _list_varied(Maker(product, capabilities, accumulator, seed + 4), first)]
    for dtype in others:
        again = [replace(c, out_dtype=dtype, label=f"{c.label}, {dtype}") for c in list_sums(maker) if not c.before]
        cases += again + [replace(c, out_dtype=dtype, label=f"{c.label}, {dtype}") for c in list_overflows(maker, dtype)]
        also = _list_in_another_dtype(Maker(product, capabilities, accumulator, seed + 3), dtype)
        cases += [replace(c, out_dtype=dtype, label=f"{c.label}, {dtype}") for c in also]
        also = _list_varied_in_another_dtype(Maker(product, capabilities, accumulator, seed + 4), dtype)
        cases += [replace(c, out_dtype=dtype, label=f"{c.label}, {dtype}") for c in also]
    cases += list_twin_cases(Maker(product, capabilities, accumulator, seed + 5), capabilities.out_dtypes)
    cases += list_late_cases(Maker(product, capabilities, accumulator, seed + 6), capabilities.out_dtypes)
    cases += list_far_cases(Maker(product, capabilities, accumulator, seed + 7), capabilities.out_dtypes)
    cases += list_path_cases(Maker(product, capabilities, accumulator, seed + 9), capabilities.out_dtypes)
    cases += _list_contents_and_ends(Maker(product, capabilities, accumulator, seed + 10), first)
    return cases


def _list_contents_and_ends(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    """Contents of operands, lengths of sums, and scales at the ends of their range."""
    yield from list_contents(maker, dtype)
    yield from (
        replace(case, out_dtype=dtype)
        for case in draw_added_memory(maker.a, maker.b, maker.sizes, maker.short, maker.takes, dtype, shape=(16, 16))
    )
    for case in (*draw_lengths(maker.a, maker.b, maker.sizes, maker.integers), *draw_far_scales(maker.a, maker.b, maker.sizes)):
        yield replace(case, out_dtype=dtype)


def list_topics(product: Product, capabilities: Capabilities) -> list[str]:
    """The topics by which a product is judged, the last one of targets that are fast (`large_calls`)."""
    cases = list_cases(product, capabilities, ACCUMULATORS[DEFAULT_ACCUMULATOR])
    return [*dict.fromkeys(c.topic for c in cases), "call-size"]


def list_equal_shapes(product: Product, capabilities: Capabilities, accumulator: Accumulator) -> Iterator[list[ProductCase]]:
    """Cases of one shape with different operands, sums of positive integers that have one result in every order; and of squares."""
    for seed, shape in ((21, (11, 10, 192)), (22, (SQUARE, SQUARE, SQUARE))):
        maker = Maker(product, capabilities, accumulator, seed)
        yield [replace(case, out_dtype=capabilities.out_dtypes[0]) for case in list_equal_operands(maker, shape)]


def _list_all(maker: Maker) -> Iterator[ProductCase]:
    """The cases that every dtype of outputs is asked first."""
    groups = (
        list_identities(maker), list_sums(maker), list_block_scales(maker), list_offsets(maker), list_cancellations(maker),
        list_shapes(maker), list_ordinary(maker), list_scale_codes(maker), list_tensor_scales(maker), list_epilogues(maker),
        list_specials(maker), list_zero_blocks(maker),
        list_overflows(maker, maker.capabilities.out_dtypes[0]), list_calls(maker), list_patterns(maker), list_roundings(maker),
    )  # fmt: skip
    for group in groups:
        yield from group


def _list_added(maker: Maker) -> Iterator[ProductCase]:
    """Cases that joined later: by numbers of their own, so that those of the others stay."""
    if OperandKind.AFFINE not in (maker.a.spec.kind, maker.b.spec.kind):
        yield list_one_block_of_each_row(maker)
    yield from list_tensor_scales_alone(maker)


def _list_wider(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    """Whole tiles, every scale code, epilogues of many bits and rows, infinities and overflows of the other sign."""
    for label, a, b in draw_tiles(maker.a, maker.b, maker.sizes):
        yield ProductCase(topic="shape", label=label, a=a, b=b)
    for label, a, b in draw_square(maker.a, maker.b, maker.sizes, maker.bits):
        yield ProductCase(topic="block-scale", label=label, a=a, b=b)
    for side, writer, other in (("a", maker.a, maker.b), ("b", maker.b, maker.a)):
        for label, numbers, back in draw_every_scale(writer, other, maker.sizes, first=side == "a"):
            a, b = (numbers, back) if side == "a" else (back, numbers)
            yield ProductCase(topic="scale-code", label=label, a=a, b=b)
    yield from list_wide_epilogues(maker, dtype)
    yield from list_negative_infinities(maker)
    yield from list_overflows(maker, dtype, negative=True)
    yield from list_subnormals(maker, dtype)


def _list_in_another_dtype(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    """What an output's dtype may change beside sums: what is added, NaN and Inf, the smallest numbers."""
    yield from list_wide_epilogues(maker, dtype)
    yield from list_specials(maker)
    yield from list_negative_infinities(maker)
    yield from list_overflows(maker, dtype, negative=True)
    yield from list_subnormals(maker, dtype)


def _list_varied(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    """Cases that differ from others in one thing, and NaN and Inf beside many rows."""
    sides = maker.a, maker.b, maker.sizes
    yield from (
        *draw_edges(*sides, maker.integers), *draw_vectors(*sides, maker.draw), *draw_kept(*sides, maker.integers),
        *draw_added_memory(*sides, maker.short, maker.takes, dtype),
    )  # fmt: skip
    yield from list_specials(maker, 17, 20)
    yield from _list_varied_in_another_dtype(maker, dtype)


def _list_varied_in_another_dtype(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    """Epilogues of few rows and columns, and of as many."""
    yield from draw_epilogues(maker.a, maker.b, maker.sizes, maker.short, maker.takes, dtype)
