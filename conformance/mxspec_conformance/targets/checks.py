"""Whether what a target declares can be: names that are known, and that go together."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from mxspec.adjacent import ADJACENT, register_named
from mxspec.affine.contracts import get_contract
from mxspec.affine.profiles import get_affine_profile
from mxspec.attention import parse_attention, parse_cache
from mxspec.dot import ACCUMULATORS, CONTRACT_TEXTS
from mxspec.formats import BlockFormat, ScalarFormat, get_block
from mxspec.fused.contracts import get_contract as get_fused_contract
from mxspec.fused.functions import read_fused
from mxspec.layouts import Layout, Padding, Part, get_layout, list_layouts
from mxspec.profiles import list_profiles
from mxspec.profiles.schema import Kind, Profile
from mxspec.sparsity import RULES
from mxspec_conformance.targets.affine import AFFINE_FUNCTIONS, read_operand
from mxspec_conformance.targets.capabilities import MOST_MULTIPLE, PRODUCT_SHAPE_NAMES, PRODUCTS, SCALE_FORMS
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.targets.interface import ATTENTION, CACHE_FUNCTIONS
from mxspec_conformance.targets.operand_words import ROW_MAJOR, UNPACKED
from mxspec_conformance.targets.operands import parse_products
from mxspec_conformance.targets.texts import clean_name, name_with_article


def read_layouts(spec: str, what: str, given: Iterable[str], formats: Iterable[str], *, dense: bool = False) -> tuple[str, str]:
    """The layouts of codes and of scales among names, plain ones where none is named.

    Args:
        spec: The target, for the error.
        what: What declares the layouts, for the error.
        given: The names.
        formats: The target's block formats; allowed are layouts of codes that one of them has.
        dense: Whether rows of codes have to lie one after another without gaps, so that bytes alone say how many codes there are.

    Returns:
        The names, not aliases.

    Raises:
        TargetError: A name that is none of these, or two for the same part.
    """
    formats = tuple(formats)
    widths = {get_block(f).element.bits for f in formats}
    alone = [x for x in list_layouts() if len(x.fields) == 1]
    codes = [x for x in alone if x.main.part is Part.CODES and x.main.packing.width in widths and (is_dense(x) or not dense)]
    counts = {get_block(f).scale.code_count for f in formats}
    scales = [x for x in alone if x.main.part is Part.SCALES and (x.main.stored is None or len(x.main.stored) in counts)]
    plain = get_layout(UNPACKED)  # of 8-bit elements this is what other layouts are
    known = {UNPACKED: UNPACKED} | {n: UNPACKED if x is plain else x.name for x in (*codes, *scales) for n in (x.name, *x.aliases)}
    names = tuple(given)
    if unknown := [name for name in names if name not in known]:
        allowed = ", ".join((UNPACKED, *(x.name for x in (*codes, *scales) if x is not plain)))
        whose = f"allowed for {', '.join(formats)} are {allowed}" if formats else "it has no block formats"
        raise TargetError(f"{spec}: {what} names {unknown[0]!r}; {whose}{say_reserved(what)}")
    of_scales = {x.name for x in scales}
    parts = [[known[n] for n in names if (known[n] in of_scales) is which] for which in (False, True)]
    if twice := next((names for names in parts if len(names) > 1), None):
        raise TargetError(f"{spec}: {what} names {' and '.join(twice)}; name one layout of codes and one of scales")
    return (parts[0] or [UNPACKED])[0], (parts[1] or [ROW_MAJOR])[0]


def is_dense(layout: Layout) -> bool:
    """Whether rows lie one after another, without gaps."""
    columns = layout.tile[1]
    return lies_by_rows(layout) and layout.size((1, columns)) * 8 == columns * layout.main.packing.width


def lies_by_rows(layout: Layout) -> bool:
    """Whether rows lie one after another, each from a byte of its own on."""
    parsed = layout.main.parsed
    return len(parsed.rows) == 1 and parsed.order[0] == parsed.rows[0][0] and layout.pad_to is None and not layout.flat


def fit_layouts(shapes: tuple[int, int, int], codes: str, scales: str, formats: Iterable[str]) -> tuple[int, int, int]:
    """Limits of shapes, and whole tiles of the layouts that do not pad."""
    columns, rows, least = shapes
    for block in map(get_block, formats):
        for layout, in_block in ((get_layout(codes), block.k), (get_layout(scales), 1)):
            high, wide = layout.pad_to or layout.tile
            if layout.padding is Padding.REFUSED:
                rows = math.lcm(rows, high)
            if layout.padding is Padding.REFUSED and in_block % wide:
                columns = math.lcm(columns, wide * block.k // in_block)
    return columns, rows, least


def check_sparse_layout(spec: str, what: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Two layouts, of kept codes and of metadata, or none. Raises TargetError for anything else."""
    if names and len(names) != 2:
        raise TargetError(f"{spec}: {what} names {len(names)}; name two: the layout of kept codes, that of metadata")
    check_names(spec, what, names, ("unpacked", *(n for x in list_layouts() if len(x.fields) == 1 for n in (x.name, *x.aliases))))
    return names


def check_fused(spec: str, keywords: Mapping[str, Iterable[str]], names: Iterable[str], contract: str) -> dict[str, Any]:
    """The fields of `Capabilities` that describe fused quantizers. Raises TargetError where one is unknown, or cannot be called."""
    offered, names = "quantize_fused" in keywords, tuple(names)
    if offered != bool(names):
        missing = "no FUSED; list what it computes, such as silu_mul-mxfp8_e4m3" if offered else "FUSED, and no quantize_fused"
        raise TargetError(f"{spec} has {missing}")
    try:
        register_named([known for known in ADJACENT if any(name.endswith(f"-{known}") for name in names)])
        for function, _ in map(read_fused, names):
            if lacking := [n for n in function.needs if n not in keywords["quantize_fused"]]:
                raise ValueError(f"{function.name} needs the keyword {lacking[0]} of quantize_fused")
            if contract:
                get_fused_contract(contract, function)
    except ValueError as error:
        raise TargetError(f"{spec}: FUSED: {error}") from None
    return {"fused": names, "fused_contract": contract}


def check_scales(spec: str, what: str, form: str, layout: str) -> str:
    """A form of scales, or "". Raises TargetError for another word, and for numbers in a layout of bytes."""
    if form:
        check_names(spec, what, (form,), SCALE_FORMS)
    if form == "float32" and layout != ROW_MAJOR:
        raise TargetError(f"{spec}: {what} is float32, and scales lie in {layout}, a layout of bytes; declare one of the two")
    return form


def check_rule(spec: str, what: str, name: str) -> str:
    """A rule of pruning, or "". Raises TargetError for another name."""
    if name:
        check_names(spec, what, (name,), RULES)
    return name


#: Names that a declaration may hold; there are fewer of anything.
MOST_NAMES = 1000


def name_of(given: Any) -> str | None:
    """The name that a text or an object of the model is; None for anything else."""
    if isinstance(given, str):
        return clean_name(str.__str__(given))
    if isinstance(given, Profile):
        return given.id
    return given.name if isinstance(given, (BlockFormat, ScalarFormat)) else None


def read_products(
    spec: str, declared: Mapping[str, Any], out_dtypes: Iterable[str], accumulator: str, contract: str, shapes: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields of `Capabilities` that describe products. declared: by function, what is multiplied.

    Raises TargetError where a declaration is not one that the interface has.
    """
    texts = dict[str, Any]()
    for function, given in declared.items():
        what, key, parse = PRODUCTS[function]
        try:
            texts[key] = tuple(p.text for p in parse_products(given, parse))
        except ValueError as error:
            raise TargetError(f"{spec}: {what}: {error}") from None
        except Exception as error:  # its members are made by code of the target's
            raise TargetError(f"{spec}: {what} is {name_with_article(given)} that cannot be read ({type(error).__name__})") from None
    dtypes = tuple(out_dtypes) or ("float32",)
    check_names(spec, "OUT_DTYPES", dtypes, DTYPES)
    check_names(spec, "ACCUMULATOR", filter(None, [accumulator]), ACCUMULATORS)
    check_names(spec, "CONTRACT", filter(None, [contract]), CONTRACT_TEXTS)
    multiples = []
    for name in PRODUCT_SHAPE_NAMES:
        try:
            value = operator.index(shapes.get(name, 1))
        except TypeError:
            value = 0
        if not 0 < value <= MOST_MULTIPLE:
            raise TargetError(
                f"{spec}: PRODUCT_SHAPES says {name} of {shapes[name]!r:.40}; allowed are whole numbers from 1 to {MOST_MULTIPLE}"
            )
        multiples.append(value)
    return {
        **texts, "out_dtypes": dtypes, "accumulator": accumulator, "contract": contract,
        "product_shapes": tuple(multiples),
    }  # fmt: skip


def check_claims(spec: str, formats: Iterable[str], claimed: Iterable[str]) -> tuple[str, ...]:
    """The profiles that a target claims.

    Raises TargetError for a name that is no profile, one that covers no format of the target, and two for one format.
    """
    known = {p.id: p for p in list_profiles()}
    covered: dict[str, str] = {}
    for name in claimed:
        if name not in known:
            close = get_close_matches(str(name), known, n=3) or [p.id for p in known.values() if p.kind is Kind.NORMATIVE]
            raise TargetError(f"{spec}: PROFILE names {name!r}, which is no profile; close are {', '.join(close)}")
        mine = [f for f in formats if f in known[name].formats]
        if not mine:
            raise TargetError(
                f"{spec}: PROFILE names {name}, which covers {', '.join(known[name].formats)}; FORMATS lists {', '.join(formats)}"
            )
        for fmt in mine:
            if fmt in covered:
                raise TargetError(f"{spec}: PROFILE names {covered[fmt]} and {name}, both for {fmt}; claim one")
            covered[fmt] = name
    return tuple(claimed)


def check_affine(spec: str, functions: Iterable[str], affine: Iterable[str], profile: str | None, contract: str | None) -> None:
    """Raise TargetError where affine formats are missing or none, or a claimed profile or contract covers none of them."""
    offered = [f for f in AFFINE_FUNCTIONS if f in functions]
    try:
        formats = [read_operand(name).format for name in affine]
    except ValueError as error:
        raise TargetError(f"{spec}: AFFINE: {error}") from None
    if offered and not formats:
        raise TargetError(f"{spec} defines {' and '.join(offered)}, and no AFFINE; list the formats, such as int4-g64-bias-float16")
    try:
        for fmt in formats:
            what = "AFFINE_PROFILE"
            if profile is not None:
                get_affine_profile(profile, fmt)
            what = "AFFINE_CONTRACT"
            if contract is not None:
                get_contract(contract, fmt)
    except ValueError as error:
        raise TargetError(f"{spec}: {what}: {error}") from None


def check_caches(
    spec: str, functions: Iterable[str], caches: Iterable[str], attention: Iterable[str], out_dtypes: Iterable[str]
) -> None:  # fmt: skip
    """Raise TargetError where a cache or a form of attention is none, or is missing."""
    for what, names, parse, of in (
        ("CACHES", caches, parse_cache, CACHE_FUNCTIONS),
        ("ATTENTION", attention, parse_attention, (ATTENTION,)),
    ):
        try:
            found = [parse(name) for name in names]
        except ValueError as error:
            raise TargetError(f"{spec}: {what}: {error}") from None
        if not found and set(of) & set(functions):
            raise TargetError(f"{spec} has {' and '.join(of)}, and lists no {what}")
    check_names(spec, "OUT_DTYPES", out_dtypes, DTYPES)


def check_names(spec: str, what: str, given: Iterable[str], allowed: Iterable[str]) -> None:
    known = list(allowed)
    for name in given:
        if name not in known:
            raise TargetError(f"{spec}: {what} names {name!r}; allowed are {', '.join(known)}{say_reserved(what)}")


def say_reserved(what: str) -> str:
    """That a constant of a target has a meaning: its author may have another one in mind."""
    return f". mxspec reads {what}: a constant that is not meant for it needs another name" if what.isupper() else ""
