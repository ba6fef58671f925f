"""Judging what is not quantizing blocks: scalars, affine integers, layouts, products, and sparse blocks.

What few targets have is imported when a target has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import mxspec
from mxspec.formats import get_block
from mxspec_conformance.counterexample.items import ItemFailure, show_smallest_item
from mxspec_conformance.judge import layouts as judge_layouts
from mxspec_conformance.judge.stages import SCALAR_STAGES, Failures
from mxspec_conformance.judge.tally import Scorecard, Tally, common_explanation, judge_tally
from mxspec_conformance.judge.wanted import Wanted
from mxspec_conformance.results.report import Failure, Report, Requirement
from mxspec_conformance.targets.affine import AFFINE_FUNCTIONS, read_operand
from mxspec_conformance.targets.interface import ATTENTION, CACHE_FUNCTIONS, LAYOUT_FUNCTIONS, SPARSE_FUNCTIONS
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.files import FURTHER_OPERATIONS, NUMERIC_OPERATIONS

Progress = Callable[[str], None]


def check_scalars(session: TargetSession, formats: Sequence[str] | None, report: Report, progress: Progress, wanted: Wanted) -> None:
    """Enter requirements of encoders and decoders of scalar formats; where formats are named, of their elements."""
    capabilities = session.capabilities
    elements = capabilities.elements
    if formats is not None:
        elements = tuple(e for e in elements if any(get_block(f).element.name == e for f in formats))
    for element in elements:
        progress(element)
        for function, stages in SCALAR_STAGES.items():
            if not capabilities.has(function) or (function == "encode_stochastic" and element not in mxspec.ELEMENTS):
                continue
            scorecard = Scorecard(stages[0].operation, element, wanted)
            drawn: Failures = {}
            for stage in stages:
                if wanted.any_of(stage.operation, element, stage.topics):
                    drawn |= stage.judge(session, element, scorecard)
            tallies = list(scorecard.tallies.values())
            explanation = common_explanation(tallies, lambda _: (0,))
            answers = any(len(t.no_answers) < len(t.cases) for t in scorecard.tallies.values())
            report.requirements += [judge_tally(t, explanation, partial(_show_first, session, drawn), may_refuse=answers) for t in tallies]


def check_affine(session: TargetSession, report: Report, progress: Progress, wanted: Wanted) -> None:
    """Enter requirements of affine integers, and which profile each format was judged by."""
    capabilities = session.capabilities
    if not any(map(capabilities.has, AFFINE_FUNCTIONS)):
        return
    from mxspec_conformance.judge.affine.stage import judge_affine

    claims = {"quantize_affine": capabilities.affine_profile, "dequantize_affine": capabilities.affine_contract}
    for function, claimed in claims.items():
        for name in capabilities.affine if capabilities.has(function) else ():
            fmt = read_operand(name).format.name
            if not wanted.any_of(function, fmt):
                continue
            progress(f"{function} {fmt}")
            found, standing = judge_affine(session, function, name, claimed, calls=wanted.calls)
            report.requirements += found
            if standing is not None:
                entry = {"judged_against": standing.profile, "failing": standing.failing, "cases": standing.cases}
                report.details.setdefault("affine", {}).setdefault(fmt, {})[function] = entry


def name_operations(session: TargetSession) -> tuple[str, ...]:
    """The operations whose vectors a result speaks of."""
    # Products are judged by calls of the judge's own design.
    functions: dict[str, Collection[str]] = {"dot": (), "layout": LAYOUT_FUNCTIONS, "sparse": SPARSE_FUNCTIONS} | {
        f: (f,) for f in AFFINE_FUNCTIONS
    }
    return (*NUMERIC_OPERATIONS, *(o for o in FURTHER_OPERATIONS if any(map(session.capabilities.has, functions[o]))))


def check_layouts(session: TargetSession, report: Report, progress: Progress, wanted: Wanted) -> None:
    """Enter requirements of packing and swizzling, function by function."""
    pairs = [
        (function, layout)
        for function in LAYOUT_FUNCTIONS
        if session.capabilities.has(function)
        for layout in session.capabilities.layouts_of(function)
        if wanted.any_of(function, layout.name)
    ]
    found: dict[tuple[str, str], list[Requirement]] = {}
    # Cases of a layout are drawn once for all of its functions; results are reported function by function.
    for function, layout in sorted(pairs, key=lambda pair: pair[1].name):
        progress(f"{function} {layout.name}")
        found[function, layout.name] = judge_layouts.judge_layout(session, function, layout, wanted)
    for function, layout in pairs:
        report.requirements += found[function, layout.name]


def check_products(session: TargetSession, formats: Sequence[str] | None, report: Report, progress: Progress, wanted: Wanted) -> None:
    """Enter requirements and results of products, plain and grouped; where formats are named, of those with a side in one of them."""
    if not (session.capabilities.products or session.capabilities.grouped) or not wanted.calls:
        return
    from mxspec_conformance.judge.grouped.judging import judge_grouped
    from mxspec_conformance.judge.products.judging import judge_product, list_products

    judges: dict[str, Callable[..., Any]] = {"matmul": judge_product, "grouped_matmul": judge_grouped}
    for function, name, product in list_products(session):
        if (formats is None or product.has_format(formats)) and wanted.any_of(function, name):
            progress(name)
            requirements, result = judges[function](session, name, product, wanted)
            report.requirements += requirements
            report.formats.append(result)


def check_fused(session: TargetSession, report: Report, progress: Progress, wanted: Wanted) -> None:
    """Enter requirements of fused quantizers, and which contract each was judged by."""
    for name in session.capabilities.fused:
        if wanted.any_of("quantize_fused", name):
            from mxspec_conformance.judge.fused.judging import judge_fused

            progress(name)
            found, details = judge_fused(session, name, wanted)
            report.requirements += found
            report.details.setdefault("fused", {})[name] = details


def check_sparse(session: TargetSession, report: Report, progress: Progress, wanted: Wanted) -> None:
    """Enter requirements of sparse blocks."""
    if not any(map(session.capabilities.has, SPARSE_FUNCTIONS)):
        return
    from mxspec_conformance.judge.sparse import judge_sparse, list_topics

    for function in filter(session.capabilities.has, SPARSE_FUNCTIONS):
        progress(function)
        for fmt in session.capabilities.sparse_formats:
            if wanted.any_of(function, fmt, list_topics(function, fmt)):
                report.requirements += judge_sparse(session, function, fmt, calls=wanted.calls)


def check_attention(session: TargetSession, report: Report, progress: Progress, wanted: Wanted) -> None:
    """Enter requirements of caches and of attention."""
    capabilities = session.capabilities
    if not any(map(capabilities.has, (*CACHE_FUNCTIONS, ATTENTION))) or not wanted.calls:
        return
    from mxspec.attention import parse_attention, parse_cache
    from mxspec_conformance.judge.attention.caches import judge_cache
    from mxspec_conformance.judge.attention.judging import judge_attention

    for function in filter(capabilities.has, CACHE_FUNCTIONS):
        for text in capabilities.caches:
            if wanted.any_of(function, parse_cache(text).name):
                progress(f"{function} {text}")
                report.requirements += judge_cache(session, function, text, wanted)
    for text in capabilities.attention if capabilities.has(ATTENTION) else ():
        if wanted.any_of(ATTENTION, parse_attention(text).name):
            progress(f"attention {text}")
            report.requirements += judge_attention(session, text, wanted)


def _show_first(session: TargetSession, drawn: dict[str, Failure], tally: Tally) -> Failure | None:
    failure = drawn.get(tally.id) or (None if tally.show is None else tally.show())
    return show_smallest_item(session, failure) if isinstance(failure, ItemFailure) else failure
