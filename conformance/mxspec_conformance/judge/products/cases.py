"""The calls by which a product is judged: each has operands made for one kind of mistake, and a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from zlib import crc32

from mxspec.dot import ACCUMULATORS, DEFAULT_ACCUMULATOR, Accumulator
from mxspec_conformance.judge.products import far_cases, late_cases, path_cases, twin_cases
from mxspec_conformance.judge.products.case import ProductCase
from mxspec_conformance.judge.products.epilogue_cases import list_epilogues, list_wide_epilogues
from mxspec_conformance.judge.products.extreme_cases import list_negative_infinities, list_overflows, list_specials, list_subnormals
from mxspec_conformance.judge.products.making import ListCases, Maker
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
from mxspec_conformance.judge.products.tiles import draw_longest, draw_square, draw_tiles
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
from mxspec_conformance.targets.operands import Numbers, OperandKind, Product

#: Rows, columns and numbers of a sum of products whose operands are squares: in which order they lie shows in no shape.
SQUARE = 64

__all__ = ["ProductCase", "list_cases", "list_equal_shapes", "list_topics"]


def _drawn(draw: Callable[..., Iterable[tuple[str, Numbers, Numbers]]], topic: str, *names: str) -> ListCases:
    """Cases of operands alone; names: what of a maker the function takes in addition to writers and sizes."""

    def list_drawn(maker: Maker, dtype: str) -> Iterator[ProductCase]:
        for label, a, b in draw(maker.a, maker.b, maker.sizes, *(getattr(maker, name) for name in names)):
            yield ProductCase(topic=topic, label=label, a=a, b=b)

    return list_drawn


def _list_every_scale(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    for side, writer, other in (("a", maker.a, maker.b), ("b", maker.b, maker.a)):
        for label, numbers, back in draw_every_scale(writer, other, maker.sizes, first=side == "a"):
            a, b = (numbers, back) if side == "a" else (back, numbers)
            yield ProductCase(topic="scale-code", label=label, a=a, b=b)


def _list_one_block_of_each_row(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    if OperandKind.AFFINE not in (maker.a.spec.kind, maker.b.spec.kind):
        yield list_one_block_of_each_row(maker)


#: Groups that are asked in the first dtype of outputs, by name: each has a random stream of its own, which no other one moves.
FIRST: dict[str, ListCases] = {
    "identities": lambda maker, _: list_identities(maker),
    "block scales": lambda maker, _: list_block_scales(maker),
    "offsets": lambda maker, _: list_offsets(maker),
    "cancellations": lambda maker, _: list_cancellations(maker),
    "shapes": lambda maker, _: list_shapes(maker),
    "ordinary": lambda maker, _: list_ordinary(maker),
    "scale codes": lambda maker, _: list_scale_codes(maker),
    "tensor scales": lambda maker, _: list_tensor_scales(maker),
    "epilogues": lambda maker, _: list_epilogues(maker),
    "zero blocks": lambda maker, _: list_zero_blocks(maker),
    "calls": lambda maker, _: list_calls(maker),
    "patterns": lambda maker, _: list_patterns(maker),
    "roundings": lambda maker, _: list_roundings(maker),
    "one block of each row": _list_one_block_of_each_row,
    "tensor scales alone": lambda maker, _: list_tensor_scales_alone(maker),
    "tiles": _drawn(draw_tiles, "shape"),
    "squares": _drawn(draw_square, "block-scale", "bits"),
    "every scale": _list_every_scale,
    "edges": lambda maker, _: draw_edges(maker.a, maker.b, maker.sizes, maker.integers),
    "vectors": lambda maker, _: draw_vectors(maker.a, maker.b, maker.sizes, maker.draw),
    "kept": lambda maker, _: draw_kept(maker.a, maker.b, maker.sizes, maker.integers),
    "added in memory": lambda maker, dtype: draw_added_memory(maker.a, maker.b, maker.sizes, maker.short, maker.takes, dtype),
    "added to tiles in memory": lambda maker, dtype: draw_added_memory(
        maker.a, maker.b, maker.sizes, maker.short, maker.takes, dtype, shape=(16, 16)
    ),
    "specials among rows": lambda maker, _: list_specials(maker, 17, 20, 160),
    "contents": list_contents,
    "lengths": lambda maker, _: draw_lengths(maker.a, maker.b, maker.sizes, maker.integers),
    "far scales": lambda maker, _: draw_far_scales(maker.a, maker.b, maker.sizes),
    "longest": _drawn(lambda a, b, sizes: [draw_longest(a, b, sizes)], "shape"),
    **twin_cases.FIRST,
    **late_cases.FIRST,
    **far_cases.FIRST,
    **path_cases.FIRST,
}
#: Those that are asked in every dtype of outputs.
EVERY: dict[str, ListCases] = {
    "sums": lambda maker, dtype: list_sums(maker),
    "specials": lambda maker, _: list_specials(maker),
    "overflows": list_overflows,
    "wide epilogues": list_wide_epilogues,
    "negative infinities": lambda maker, _: list_negative_infinities(maker),
    "negative overflows": lambda maker, dtype: list_overflows(maker, dtype, negative=True),
    "subnormals": list_subnormals,
    "epilogues of shapes": lambda maker, dtype: draw_epilogues(maker.a, maker.b, maker.sizes, maker.short, maker.takes, dtype),
    **far_cases.EVERY,
    **path_cases.EVERY,
}


def list_cases(product: Product, capabilities: Capabilities, accumulator: Accumulator) -> list[ProductCase]:
    """Every call by which a product is judged, the same ones each time."""
    first, *others = capabilities.out_dtypes

    def list_group(name: str, group: ListCases, dtype: str) -> Iterator[ProductCase]:
        maker = Maker(product, capabilities, accumulator, crc32(f"{name}, {dtype}".encode()))
        for case in group(maker, dtype):
            if dtype == first or not case.before:
                yield replace(case, out_dtype=dtype, label=case.label if dtype == first else f"{case.label}, {dtype}")

    cases = [case for name, group in (FIRST | EVERY).items() for case in list_group(name, group, first)]
    cases += [case for dtype in others for name, group in EVERY.items() for case in list_group(name, group, dtype)]
    maker = Maker(product, capabilities, accumulator, crc32(b"other outputs"))
    return [*cases, *twin_cases.list_other_outputs(maker, capabilities.out_dtypes)]


def list_topics(product: Product, capabilities: Capabilities) -> list[str]:
    """The topics by which a product is judged, the last one of targets that are fast (`large_calls`)."""
    cases = list_cases(product, capabilities, ACCUMULATORS[DEFAULT_ACCUMULATOR])
    return [*dict.fromkeys(c.topic for c in cases), "call-size"]


def list_equal_shapes(product: Product, capabilities: Capabilities, accumulator: Accumulator) -> Iterator[list[ProductCase]]:
    """Cases of one shape with different operands, sums of positive integers that have one result in every order; and of squares."""
    for seed, shape in ((21, (11, 10, 192)), (22, (SQUARE, SQUARE, SQUARE))):
        maker = Maker(product, capabilities, accumulator, seed)
        yield [replace(case, out_dtype=capabilities.out_dtypes[0]) for case in list_equal_operands(maker, shape)]
