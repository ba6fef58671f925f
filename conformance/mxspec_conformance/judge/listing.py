"""Which requirements a target will be judged by, from what it says of itself: nothing of it is called.

A requirement that is listed may turn out to have no case (the profile that is found has none of the kind); one that the
judge reports is listed, which the tests hold for the model as a target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from mxspec.attention import parse_attention, parse_cache
from mxspec.formats import BLOCKS, ELEMENTS, SCALES, BlockFormat, Extent, get_block, get_scalar
from mxspec.layouts import Layout
from mxspec_conformance.judge.choosing import choose_formats
from mxspec_conformance.judge.given_scales import TOPIC as GIVEN_SCALE
from mxspec_conformance.observations.strays import REPRESENTABLE
from mxspec_conformance.targets.affine import AFFINE_FUNCTIONS, read_operand
from mxspec_conformance.targets.interface import ATTENTION, CACHE_FUNCTIONS, LAYOUT_FUNCTIONS, SPARSE_FUNCTIONS
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import load_layout_file
from mxspec_vectors.topics import Level, topic_level

_ROUNDING = ("exact", "tie-even", "below-tie", "above-tie")
#: What hangs on the call.
_CALLS = ("call-size", "memory", "state")
_SPECIAL = ("nan", "inf", "overflow", "subnormal", "mixture")


def list_requirements(session: TargetSession, *, profile: str | None = None, formats: Sequence[str] | None = None) -> list[str]:
    """Ids of the requirements that `check` with the same options reports, in no particular order.

    Raises ValueError for an unknown profile or format, or a profile that covers no format of the target.
    """
    offered = session.capabilities
    chosen = choose_formats(session, formats, profile)
    found = [name for fmt in chosen for name in _of_block(session, get_block(fmt))]
    if profile is None or not chosen:
        wanted = offered.elements
        if formats is not None:
            wanted = tuple(e for e in wanted if any(get_block(f).element.name == e for f in formats))
        found += [name for element in wanted for name in _of_element(session, element)]
    if profile is None and formats is None:
        for function in filter(offered.has, AFFINE_FUNCTIONS):
            from mxspec_conformance.judge.affine.stage import list_affine

            for name in offered.affine:
                found += list(list_affine(function, read_operand(name).format.name))
        for function in LAYOUT_FUNCTIONS:
            if offered.has(function):
                found += [name for layout in session.capabilities.layouts_of(function) for name in _of_layout(function, layout)]
        for function in filter(offered.has, SPARSE_FUNCTIONS):
            from mxspec_conformance.judge.sparse import list_topics

            found += [f"{function}/{fmt}/{topic}" for fmt in offered.sparse_formats for topic in list_topics(function, fmt)]
        for name in offered.fused:
            from mxspec_conformance.judge.fused.judging import list_topics as list_fused_topics

            found += [f"quantize_fused/{name}/{topic}" for topic in list_fused_topics(name)]
        for function in filter(offered.has, CACHE_FUNCTIONS):
            from mxspec_conformance.judge.attention.caches import list_topics as list_cache_topics, takes_scales

            for spec in map(parse_cache, offered.caches):
                scaled = takes_scales(session, function, spec)
                found += [f"{function}/{spec.name}/{topic}" for topic in list_cache_topics(function, spec, scaled=scaled)]
        if offered.has(ATTENTION):
            from mxspec_conformance.judge.attention.cases import list_topics as list_attention_topics

            for spec in map(parse_attention, offered.attention):
                found += [f"{ATTENTION}/{spec.name}/{topic}" for topic in list_attention_topics(spec, offered)]
    if profile is None and (offered.products or offered.grouped):
        from mxspec_conformance.judge.grouped.cases import list_topics as list_grouped_topics
        from mxspec_conformance.judge.products.cases import list_topics as list_product_topics
        from mxspec_conformance.judge.products.judging import list_products

        topics: dict[str, Callable[..., list[str]]] = {"matmul": list_product_topics, "grouped_matmul": list_grouped_topics}
        for function, name, product in list_products(session):
            if formats is None or product.has_format(formats):
                found += [f"{function}/{name}/{topic}" for topic in topics[function](product, offered)]
    return found


def list_fewer(requirements: Iterable[str]) -> list[str]:
    """Those of the ids of which a results file, which stores every call, gets fewer cases than a target that runs."""
    globs = ["*/*/call-size", "quantize/*/axis", "quantize/*/tail", f"quantize/*/{GIVEN_SCALE}"]
    globs.append("quantize/nvfp4/position")  # for its square blocks
    globs += [f"encode/{e}/mixture" for e in (*ELEMENTS, *SCALES) if topic_level("tie-even", "encode", e) is not Level.OPEN]
    drawn = ("random-bits", "exact", "neighbour", "probability", "independence", "seed")
    globs += [f"dequantize/{fmt}/code" for fmt in BLOCKS if get_block(fmt).element.bits > 4]  # pairs of codes are too many to store
    globs += [f"stochastic/{fmt}/{topic}" for fmt in BLOCKS for topic in drawn]
    return [name for name in requirements if any(fnmatchcase(name, glob) for glob in globs)]


def _of_block(session: TargetSession, fmt: BlockFormat) -> Iterator[str]:
    offered = session.capabilities
    of_tensor = ("tensor-scale",) if fmt.has_tensor_scale else ()
    # Two's complement has one zero; what else concerns the scale is a threshold of e8m0, a tie of other formats.
    signs = ("zero-sign",) if fmt.element.has_minus_zero else ()
    rule = "scale-boundary" if fmt.scale.is_power_of_two else "scale-tie"
    if offered.repeats:
        ways = ("axis", "tail") if fmt.extent is Extent.BLOCK else ()
        topics = (*_ROUNDING, *_SPECIAL, *signs, rule, "scale-clamp", "zero-block", "position", *ways, *of_tensor)
        given = (GIVEN_SCALE,) if offered.has("quantize", "scales") else ()
        numbers = (REPRESENTABLE,) if offered.may_stray(fmt.name) else ()
        yield from (f"quantize/{fmt.name}/{topic}" for topic in (*topics, *numbers, *given, *_CALLS, "refusal"))
    if offered.has("quantize"):
        yield from (f"scale/{fmt.name}/{topic}" for topic in (rule, *((REPRESENTABLE,) if offered.may_stray(fmt.name) else ())))
    if offered.has("quantize", "random_bits"):
        yield f"stochastic/{fmt.name}/random-bits"
    if offered.has_generator:
        topics = ("neighbour", "exact", "zero-block", "overflow", "probability", "independence")
        yield from (f"stochastic/{fmt.name}/{topic}" for topic in topics)
        if offered.has("quantize", "seed"):
            yield f"stochastic/{fmt.name}/seed"
    if offered.has("dequantize"):
        topics = ("scale-code", "code", "zero-sign", *of_tensor, *_CALLS, "refusal")
        yield from (f"dequantize/{fmt.name}/{topic}" for topic in topics)
    if offered.has("tensor_scale") and fmt.has_tensor_scale:
        yield from (f"tensor_scale/{fmt.name}/{topic}" for topic in ("tensor-scale", "nan", "inf", "zero-block", *_CALLS, "refusal"))


def _of_element(session: TargetSession, element: str) -> Iterator[str]:
    offered, fmt = session.capabilities, get_scalar(element)
    if offered.has("encode"):
        yield from (f"encode/{element}/{topic}" for topic in (*_ROUNDING, *_SPECIAL, "zero-sign", "call-size", "state", "refusal"))
    if offered.has("decode"):
        signs = ("zero-sign",) if fmt.has_minus_zero else ()
        yield from (f"decode/{element}/{topic}" for topic in (*signs, "code", "call-size", "state", "refusal"))
    if offered.has("encode_stochastic") and element in ELEMENTS:
        of_nan = () if fmt.nan_code is None else ("nan",)
        yield from (f"stochastic/{element}/{topic}" for topic in ("random-bits", *of_nan, "call-size", "state", "refusal"))


def _of_layout(function: str, layout: Layout) -> Iterator[str]:
    file = load_layout_file(layout.name)
    topics = dict.fromkeys(case.topic for case in file.cases)
    reads = LAYOUT_FUNCTIONS[function][2]
    if not reads and file.padding_is_specified and any((~case.mask).any() for case in file.cases):
        topics["padding"] = None
    yield from (f"{function}/{layout.name}/{topic}" for topic in (*topics, "call-size", "memory", "state", "refusal"))
