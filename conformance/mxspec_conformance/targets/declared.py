"""What a Python module declares of itself as a target, and capabilities that another process has sent."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from mxspec.adjacent import ADJACENT, register_named
from mxspec.formats import BLOCKS, ELEMENTS, SCALES, get_block
from mxspec.layouts import list_layouts
from mxspec.profiles.schema import TensorScaleKind
from mxspec.sparsity import SPARSE_FORMATS
from mxspec_conformance.targets.capabilities import (
    FAKE,
    FAKE_OPTIONS,
    FUNCTIONS,
    PRODUCT_SHAPE_NAMES,
    PRODUCTS,
    SHAPE_NAMES,
    SR_BITS,
    Capabilities,
    SrRule,
)
from mxspec_conformance.targets.checks import (
    MOST_NAMES,
    check_affine,
    check_caches,
    check_claims,
    check_fused,
    check_names,
    check_rule,
    check_scales,
    check_sparse_layout,
    fit_layouts,
    name_of,
    read_layouts,
    read_products,
)
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.targets.interface import ATTENTION, CACHE_FUNCTIONS, OPERATIONS, SPARSE_FUNCTIONS
from mxspec_conformance.targets.operand_words import ROW_MAJOR, UNPACKED
from mxspec_conformance.targets.texts import MESSAGE, clean_name, clean_text, name_with_article


def describe_target(module: Any, spec: str) -> Capabilities:
    """What a target offers, read from its names and signatures.

    Raises TargetError where a declaration is not one that the interface has.
    """
    module = _Names(module, spec)
    described = getattr(module, "MXSPEC_CAPABILITIES", None)
    if isinstance(described, Capabilities):  # a transport that is not Python's has read them from a description
        return described
    sparse = _listed(module, spec, "SPARSE_FORMATS")
    check_names(spec, "SPARSE_FORMATS", sparse, SPARSE_FORMATS)
    # Names that libraries have for something else, NumPy's matmul among them.
    hidden: tuple[str, ...] = () if sparse else SPARSE_FUNCTIONS
    caches, attention = (tuple(str(s) for s in _listed(module, spec, what)) for what in ("CACHES", "ATTENTION"))
    of_caches = (CACHE_FUNCTIONS, bool(caches)), ((ATTENTION,), bool(attention))
    hidden += tuple(name for names, offered in of_caches if not offered for name in names)
    hidden += tuple(f for f, (what, *_) in PRODUCTS.items() if getattr(module, what, None) is None)
    functions = tuple(f for f in FUNCTIONS if f not in hidden and callable(getattr(module, f, None)))
    if fake := "quantize" not in functions and callable(getattr(module, FAKE, None)):
        functions, module.instead = ("quantize", *functions), {"quantize": FAKE}
    if not functions:
        named = [f for f in hidden if callable(getattr(module, f, None))]
        listed = [("SPARSE_FORMATS", SPARSE_FUNCTIONS), *((what, (f,)) for f, (what, *_) in PRODUCTS.items())]
        listed += [("CACHES", CACHE_FUNCTIONS), ("ATTENTION", (ATTENTION,))]
        why = "".join(f"; {', '.join(f for f in named if f in of)}: say of what in {what}" for what, of in listed if set(named) & set(of))
        why = why or _suggest_names(module)
        raise TargetError(f"{spec} defines none of the functions {', '.join((*FUNCTIONS, FAKE))}; define at least one{why}")
    for function in functions:
        # Their names are those of many a helper; any other function that cannot be called is a verdict.
        if {"layout", "affine", "lengths", "slots"} & set(OPERATIONS[function].arguments) or function in SPARSE_FUNCTIONS:
            _check_signature(module, spec, function)
        _check_parameters(module, spec, function)
    name = _text(module, spec, "NAME", Path(spec).stem)
    formats = _listed(module, spec, "FORMATS")
    if not formats and {"quantize", "dequantize"} & set(functions):
        raise TargetError(f"{spec} has no FORMATS; list the block formats it supports: {', '.join(BLOCKS)}")
    register_named((*formats, *_listed(module, spec, "ELEMENTS")))
    check_names(spec, "FORMATS", formats, {**BLOCKS, **ADJACENT})
    elements = _listed(module, spec, "ELEMENTS") or tuple(dict.fromkeys(get_block(f).element.name for f in formats))
    check_names(spec, "ELEMENTS", elements, {**ELEMENTS, **SCALES})
    code_layout, scale_layout = read_layouts(spec, "LAYOUT", _listed(module, spec, "LAYOUT"), formats)
    dtypes = _listed(module, spec, "DTYPES") or ("float32",)
    check_names(spec, "DTYPES", dtypes, DTYPES)
    arrays = _single(module, spec, "ARRAYS", "numpy")
    check_names(spec, "ARRAYS", (arrays,), dict.fromkeys(("numpy", "torch", "cupy")))
    kind = _single(module, spec, "TENSOR_SCALE", "decode")
    check_names(spec, "TENSOR_SCALE", (kind,), dict.fromkeys(k.value for k in TensorScaleKind))
    sr_rule = _single(module, spec, "SR_RULE", SrRule.CARRY.value)
    check_names(spec, "SR_RULE", (sr_rule,), [r.value for r in SrRule])
    known_layouts = _listed(module, spec, "LAYOUTS")
    check_names(spec, "LAYOUTS", known_layouts, [n for x in list_layouts() for n in (x.name, *x.aliases)])
    affine = _listed(module, spec, "AFFINE")
    affine_profile, affine_contract = (
        None if getattr(module, what, None) is None else _single(module, spec, what, "") for what in ("AFFINE_PROFILE", "AFFINE_CONTRACT")
    )
    check_affine(spec, functions, affine, affine_profile, affine_contract)
    check_caches(spec, functions, caches, attention, _listed(module, spec, "OUT_DTYPES"))
    claimed = () if getattr(module, "PROFILE", None) is None else _listed(module, spec, "PROFILE")
    signatures = {f: parameters_of(getattr(module, f)) for f in functions}
    if fake:
        signatures["quantize"] = {name: p for name, p in signatures["quantize"].items() if name in FAKE_OPTIONS}
        if wide := [f for f in formats if get_block(f).scale.bits > 8]:
            raise TargetError(
                f"{spec}: {FAKE} is not judged in {', '.join(wide)}: values alone do not show a float32 scale; write quantize(x, fmt), "
                f"which returns codes and float32 scales. {FAKE} is for formats with scales of one byte, such as mxfp4"
            )
        if (code_layout, scale_layout, kind) != (UNPACKED, ROW_MAJOR, "decode"):
            raise TargetError(f"{spec}: {FAKE} returns values, in no LAYOUT, with TENSOR_SCALE decode; leave these declarations out")
    tensor = [p["tensor_scale"] for f in ("quantize", "dequantize") if "tensor_scale" in (p := signatures.get(f, {}))]
    return Capabilities(
        name=name,
        version=_text(module, spec, "VERSION", "unknown"),
        formats=formats,
        functions=functions,
        keywords={f: tuple(o for o in OPERATIONS[f].options if o in p) for f, p in signatures.items()},
        elements=elements,
        dtypes=dtypes,
        arrays=arrays,
        code_layout=code_layout,
        scale_layout=scale_layout,
        tensor_scale=kind,
        fake=fake,
        scales=check_scales(spec, "SCALES", _single(module, spec, "SCALES", ""), scale_layout),
        sr_bits=_random_bits(module, spec),
        sr_rule=SrRule(sr_rule),
        stochastic=_is_stochastic(module, spec, signatures.get("quantize", {})),
        claimed_profiles=check_claims(spec, formats, claimed),
        shapes=fit_layouts(_shapes(module, spec), code_layout, scale_layout, formats),
        one_level=all(p.default is not inspect.Parameter.empty for p in tensor),
        layouts=known_layouts,
        **({"out_dtypes": _listed(module, spec, "OUT_DTYPES") or ("float32",)} | _products(module, spec, functions)),
        caches=caches,
        attention=attention,
        affine=affine,
        affine_profile=affine_profile,
        affine_contract=affine_contract,
        sparse_formats=sparse,
        sparse_layout=check_sparse_layout(spec, "SPARSE_LAYOUT", _listed_twice(module, spec, "SPARSE_LAYOUT")),
        prune_rule=check_rule(spec, "PRUNE_RULE", _single(module, spec, "PRUNE_RULE", "")),
        **check_fused(
            spec, {f: tuple(p) for f, p in signatures.items()}, _listed(module, spec, "FUSED"), _single(module, spec, "FUSED_CONTRACT", "")
        ),
        device=None if getattr(module, "DEVICE", None) is None else _text(module, spec, "DEVICE", ""),
    )


def _suggest_names(module: Any) -> str:
    """Functions of the interface whose names are those of a module's functions, or nearly; empty: none."""
    near: dict[str, str] = {}
    for name in dir(module):
        plain = name.lower().replace("ise", "ize")
        held = max((f for f in (*FUNCTIONS, FAKE) if f in plain), key=len, default="")
        if (found := held or "".join(get_close_matches(plain, (*FUNCTIONS, FAKE), 1, 0.8))) and callable(getattr(module, name, None)):
            near.setdefault(found, clean_name(name))
    words = [f"{found} for {name}" for found, name in islice(near.items(), 4)]
    return f"; did you mean {', '.join(words)}?" if words else ""


def _said(error: BaseException) -> str:
    try:
        return clean_text(str(error), MESSAGE)
    except Exception:  # its __str__ is the target's, too
        return "no message"


class _Names:
    """A target's names: an error of its own `__getattr__` for a name that it lacks is reported, and is no crash."""

    def __init__(self, module: Any, spec: str) -> None:
        self._module, self._spec = module, spec
        #: Name of the interface -> the target's.
        self.instead: dict[str, str] = {}

    def __dir__(self) -> Iterable[str]:
        return [name for name in dir(self._module) if not name.startswith("_")]

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self._module, self.instead.get(name, name))
        except (AttributeError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise TargetError(
                f"{self._spec}: its __getattr__ raised {type(error).__name__} ({_said(error)}) for the name {name}; "
                "raise AttributeError for a name that there is not"
            ) from error


#: Options that a target may need in every call.
_NEEDED = ("tensor_scale", "random_bits", "seed", "page_table", "q_scale")


def _check_parameters(module: Any, spec: str, function: str) -> None:
    """Raise TargetError for an argument that is passed by position and taken by name alone, and for an option without a default."""
    parameters = parameters_of(getattr(module, function))
    named = [
        a for a in (*OPERATIONS[function].arguments, "fmt") if a in parameters and parameters[a].kind is inspect.Parameter.KEYWORD_ONLY
    ]
    if named and not any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters.values()):
        raise TargetError(
            f"{spec}: {function} takes {', '.join(named)} only by name; arguments are passed by position: take the * out of its signature"
        )
    options = [o for o in OPERATIONS[function].options if o in parameters and o not in _NEEDED]
    if needed := [o for o in options if parameters[o].default is inspect.Parameter.empty]:
        raise TargetError(
            f"{spec}: {function} takes {needed[0]} without a default, and is called without it, too; give it one, such as {needed[0]}=None"
        )


def _check_signature(module: Any, spec: str, function: str) -> None:
    """Raise TargetError where a function cannot be called as the interface calls it: a helper, perhaps, of the same name."""
    arguments = OPERATIONS[function].arguments
    try:
        signature = inspect.signature(getattr(module, function))
    except (TypeError, ValueError):  # a builtin has no signature
        return
    try:
        # A packing function may require the buffer that it is to fill.
        signature.bind(*arguments, **{name: None for name in ("out", *_NEEDED) if name in signature.parameters and name not in arguments})
    except TypeError as error:
        raise TargetError(
            f"{spec}: {function}{signature} cannot be called as {function}({', '.join(arguments)}) ({error}); "
            "take these arguments, or rename it if it is a helper"
        ) from None


def _listed(module: Any, spec: str, what: str) -> tuple[str, ...]:
    """A declaration that holds one name or several. Members of enumerations of text, and mxspec's own objects, are names."""
    given = getattr(module, what, ())
    if (single := name_of(given)) is not None:
        return (single,)
    if isinstance(given, (bytes, bytearray)) or not isinstance(given, Iterable):
        raise TargetError(f"{spec}: {what} is {name_with_article(given)}; write a name or a list of names")
    members = list(islice(given, MOST_NAMES + 1))  # an iterator may have no end
    if len(members) > MOST_NAMES:
        raise TargetError(f"{spec}: {what} holds more than {MOST_NAMES} names; list each once")
    names = []
    for member in members:
        name = name_of(member)
        if name is None:
            raise TargetError(f"{spec}: {what} holds {name_with_article(member)}; write names, as text")
        names.append(name)
    return tuple(dict.fromkeys(names))


def _listed_twice(module: Any, spec: str, what: str) -> tuple[str, ...]:
    """A declaration of several names, among which one may stand twice."""
    given = getattr(module, what, ())
    if isinstance(given, (list, tuple)) and all(isinstance(name, str) for name in given):
        return tuple(clean_name(str.__str__(name)) for name in given[:MOST_NAMES])
    return _listed(module, spec, what)


def _single(module: Any, spec: str, what: str, default: str) -> str:
    """A declaration that holds one name."""
    name = name_of(getattr(module, what, default))
    if name is None:
        raise TargetError(f"{spec}: {what} is {name_with_article(getattr(module, what))}; write a name, as text")
    return name


def _text(module: Any, spec: str, what: str, default: str) -> str:
    """A declaration that is shown and means nothing."""
    given = getattr(module, what, default)
    try:
        return clean_name(str.__str__(given) if isinstance(given, str) else str(given))
    except (Exception, SystemExit):  # its text is made by code of the target's
        raise TargetError(f"{spec}: {what} is {name_with_article(given)} without a text; write a text") from None


def _shapes(module: Any, spec: str) -> tuple[int, int, int]:
    """SHAPES: limits by name."""
    given = getattr(module, "SHAPES", {})
    if not isinstance(given, Mapping) or not set(given) <= set(SHAPE_NAMES):
        raise TargetError(f"{spec}: SHAPES is a dict of {', '.join(SHAPE_NAMES)}, such as {{'k': 128, 'rows': 16, 'min_rows': 128}}")
    found = []
    for name in SHAPE_NAMES:
        try:
            value = operator.index(given.get(name, 1))
        except TypeError:
            value = 0
        if not 0 < value <= 1 << 16:
            raise TargetError(f"{spec}: SHAPES says {name} of {given[name]!r:.40}; allowed are whole numbers from 1 to 65536")
        found.append(value)
    columns, rows, least = found
    return columns, rows, least


def _products(module: Any, spec: str, functions: Iterable[str]) -> dict[str, Any]:
    """What a target says of products: OPERANDS, GROUPED, OUT_DTYPES, ACCUMULATOR, CONTRACT, PRODUCT_SHAPES."""
    declared = {f: getattr(module, what) for f, (what, *_) in PRODUCTS.items() if f in functions}
    if not declared:
        return {}
    shapes = getattr(module, "PRODUCT_SHAPES", {})
    if not isinstance(shapes, Mapping) or not set(shapes) <= set(PRODUCT_SHAPE_NAMES):
        raise TargetError(f"{spec}: PRODUCT_SHAPES is a dict of m, n and k, such as {{'n': 8, 'k': 128}}")
    return read_products(
        spec, declared, _listed(module, spec, "OUT_DTYPES"), _single(module, spec, "ACCUMULATOR", ""), _single(module, spec, "CONTRACT", ""),
        shapes,
    )  # fmt: skip


def _random_bits(module: Any, spec: str) -> int:
    given = getattr(module, "SR_BITS", 32)
    try:
        bits = int(given) if isinstance(given, float) and given.is_integer() else operator.index(given)
    except TypeError:
        bits = 0
    if bits not in SR_BITS:
        shown = given if isinstance(given, (int, float)) else name_with_article(given)
        raise TargetError(f"{spec}: SR_BITS = {clean_name(str(shown), 40)}; allowed are {', '.join(map(str, SR_BITS))}")
    return bits


def _is_stochastic(module: Any, spec: str, parameters: Mapping[str, inspect.Parameter]) -> bool:
    """STOCHASTIC, or what follows from a parameter of `quantize` that has no default."""
    given = getattr(module, "STOCHASTIC", False)
    if not isinstance(given, (bool, np.bool_)):
        raise TargetError(f"{spec}: STOCHASTIC is {name_with_article(given)}; write True or False")
    random = [parameters[name] for name in ("random_bits", "seed") if name in parameters]
    return bool(given) or any(p.default is inspect.Parameter.empty for p in random)


def parameters_of(function: Any) -> dict[str, inspect.Parameter]:
    """A function's parameters by name; none where it has no signature."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}


def takes_prepared(module: Any) -> bool:
    """Whether a target has `prepare(b)`, whose result its products take for b: a helper of this name has other parameters."""
    return list(parameters_of(getattr(module, "prepare", None))) == ["b"]


def write_capabilities(capabilities: Capabilities) -> dict[str, Any]:
    """Capabilities as data that `read_capabilities` reads."""
    return {f.name: getattr(capabilities, f.name) for f in fields(capabilities)}


def read_capabilities(given: Any, spec: str) -> Capabilities:
    """The capabilities that another process has sent.

    Raises TargetError where they are none: that process runs a target, and may say anything.
    """
    parts = get_type_hints(Capabilities)
    if not isinstance(given, dict) or set(given) != set(parts):
        raise TargetError(f"{spec}: its process does not say what the target can do")
    wrong = [name for name, kind in parts.items() if not _IS[kind](given[name])]
    if wrong:
        raise TargetError(f"{spec}: its process says of {', '.join(wrong)} what cannot be")
    register_named((*given["formats"], *given["elements"]))
    known = {
        "formats": BLOCKS, "functions": FUNCTIONS, "elements": {**ELEMENTS, **SCALES}, "dtypes": DTYPES,
        "sparse_formats": SPARSE_FORMATS,
    }  # fmt: skip
    for what, allowed in known.items():
        check_names(spec, what, given[what], allowed)
    if not set(given["functions"]) <= set(given["keywords"]):
        raise TargetError(f"{spec}: its process says of keywords what cannot be")
    check_claims(spec, given["formats"], given["claimed_profiles"])
    if declared := {f: given[key] for f, (_, key, _) in PRODUCTS.items() if given[key]}:
        named = dict(zip(PRODUCT_SHAPE_NAMES, given["product_shapes"], strict=True))
        read_products(spec, declared, given["out_dtypes"], given["accumulator"], given["contract"], named)
    check_affine(spec, given["functions"], given["affine"], given["affine_profile"], given["affine_contract"])
    check_caches(spec, given["functions"], given["caches"], given["attention"], given["out_dtypes"])
    check_sparse_layout(spec, "sparse_layout", given["sparse_layout"])
    check_rule(spec, "prune_rule", given["prune_rule"])
    check_scales(spec, "scales", given["scales"], given["scale_layout"])
    check_fused(spec, given["keywords"], given["fused"], given["fused_contract"])
    texts = {name: clean_name(given[name]) for name in ("name", "version")} | {"sr_rule": SrRule(given["sr_rule"])}
    return Capabilities(**{**given, **texts})


def _is_names(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) <= MOST_NAMES and all(isinstance(v, str) for v in value)


#: A field's type -> whether a value is of it.
_IS: dict[Any, Callable[[Any], bool]] = {
    SrRule: lambda v: isinstance(v, str) and v in [r.value for r in SrRule],
    str: lambda value: isinstance(value, str),
    str | None: lambda value: value is None or isinstance(value, str),
    int: lambda value: type(value) is int and value in SR_BITS,
    tuple[int, int, int]: lambda value: (
        isinstance(value, tuple) and len(value) == 3 and all(type(n) is int and 0 < n <= 1 << 16 for n in value)
    ),
    bool: lambda value: isinstance(value, bool),
    tuple[str, ...]: _is_names,
    dict[str, tuple[str, ...]]: lambda value: (
        isinstance(value, dict) and all(isinstance(k, str) and _is_names(v) for k, v in value.items())
    ),
}
