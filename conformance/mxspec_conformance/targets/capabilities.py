"""Targets: implementations under test, and the capabilities that they declare.

A target is a Python file, a module, the name of a known library, or any object with the functions of the interface. A
function's presence is the capability; a keyword in its signature (`axis`, `pad`, `rounding`, `block`) is a further one.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from mxspec.adjacent import ADJACENT, register_named
from mxspec.affine.contracts import get_contract
from mxspec.affine.profiles import get_affine_profile
from mxspec.attention import parse_attention, parse_cache
from mxspec.dot import ACCUMULATORS, CONTRACT_TEXTS
from mxspec.enums import StrEnum
from mxspec.formats import BLOCKS, ELEMENTS, SCALES, BlockFormat, ScalarFormat, get_block
from mxspec.fused.contracts import get_contract as get_fused_contract
from mxspec.fused.functions import read_fused
from mxspec.layouts import Layout, Padding, Part, get_layout, list_layouts
from mxspec.profiles import list_profiles
from mxspec.profiles.schema import Kind, Profile, TensorScaleKind
from mxspec.sparsity import RULES, SPARSE_FORMATS
from mxspec_conformance.targets.affine import AFFINE_FUNCTIONS, read_operand
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.targets.grouped import parse_grouped
from mxspec_conformance.targets.interface import ATTENTION, CACHE_FUNCTIONS, LAYOUT_FUNCTIONS, OPERATIONS, SPARSE_FUNCTIONS
from mxspec_conformance.targets.operand_words import ROW_MAJOR, UNPACKED
from mxspec_conformance.targets.operands import parse_product, parse_products
from mxspec_conformance.targets.texts import MESSAGE, clean_name, clean_text

FUNCTIONS = tuple(OPERATIONS)
#: What a Python target may have in place of `quantize`, and the options that it may take.
FAKE, FAKE_OPTIONS = "fake_quantize", ("tensor_scale",)

#: How the names of shared libraries end.
LIBRARY_SUFFIXES = (".so", ".dylib", ".dll")

#: How an input lies in memory: as a whole, in every second row or column of a larger array, one element into one, with
#: rows one element farther apart than they are long, column by column, backwards, as one row that is all rows, or as one
#: column that is all columns.
ARRANGEMENTS = ("contiguous", "rows", "columns", "offset", "padded", "fortran", "reversed", "broadcast", "one-column")
#: More of them, for whole matrices alone: columns of a matrix that is many times as wide, or so wide that 16 bits do not hold its
#: pitch, rows of a transposed one, one axis that runs backwards, memory that must not be written; every second row and column, every third
#: column, a transposed one that runs backwards, rows that overlap, an address that is a multiple of 8 bytes and not of 16.
MATRIX_ARRANGEMENTS = (
    "slice", "far-slice", "fortran-padded", "rows-reversed", "columns-reversed", "read-only", "rows-and-columns", "third-columns",
    "fortran-reversed", "windows", "8-bytes",
)  # fmt: skip
#: Those of all these in which numbers lie one behind the other, and those of them whose address is no multiple of 16 bytes.
DENSE, UNALIGNED = ("contiguous", "offset", "read-only", "8-bytes"), ("offset", "8-bytes")
#: How many rows of `windows` hold each of its numbers.
WINDOWS = 3
#: Bytes from row to row beyond which that matrix reaches.
FAR_PITCH = 1 << 17
#: Columns of the matrix of which `slice` is a part, in multiples of its own.
SLICED_OF = 8


class SrRule(StrEnum):
    """When stochastic rounding goes up, of a fraction and n random bits."""

    #: Where floor(fraction * 2**n) + word carries into bit n.
    CARRY = "carry"
    #: Where the word is less than fraction * 2**n.
    BELOW = "below"


#: Forms of scales: bytes, or the numbers that they mean.
SCALE_FORMS = ("uint8", "float32")
#: Random bits that a word may hold.
SR_BITS = (32, 16, 8)


@dataclass(frozen=True, slots=True)
class ShapeLimits:
    """The matrices that a target takes."""

    #: Columns are a multiple of this, rows of that, and there are so many rows at least.
    columns: int = 1
    rows: int = 1
    least_rows: int = 1

    @property
    def are_none(self) -> bool:
        """Whether every matrix of whole blocks is taken."""
        return self == ShapeLimits()

    @property
    def text(self) -> str:
        """In words."""
        parts = [f"columns a multiple of {self.columns}"] * (self.columns > 1) + [f"rows a multiple of {self.rows}"] * (self.rows > 1)
        return ", ".join(parts + [f"at least {self.least_rows} rows"] * (self.least_rows > 1))

    def allow(self, shape: tuple[int, ...]) -> bool:
        """Whether a matrix is taken as it is."""
        rows, columns = shape
        return columns % self.columns == 0 and rows % self.rows == 0 and rows >= self.least_rows

    def fit(self, blocks: int, k: int) -> tuple[int, int]:
        """The shape of a small matrix that is taken and holds so many blocks of k."""
        columns = math.lcm(self.columns, k)
        rows = max(-(-blocks * k // columns), self.least_rows)
        return -(-rows // self.rows) * self.rows, columns


#: Name in a target's SHAPES -> the limit.
SHAPE_NAMES = {"k": "columns", "rows": "rows", "min_rows": "least_rows"}
#: Names in a target's PRODUCT_SHAPES: multiples of each size of a product.
PRODUCT_SHAPE_NAMES = ("m", "n", "k")
#: Function -> the name of its declaration in Python and in descriptions, and what reads one of its products.
PRODUCTS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "matmul": ("OPERANDS", "products", parse_product), "grouped_matmul": ("GROUPED", "grouped", parse_grouped),
}  # fmt: skip
#: The largest of these multiples: products of larger ones take minutes to judge.
MOST_MULTIPLE = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a target says of itself; one shape for every transport."""

    name: str
    version: str
    formats: tuple[str, ...]
    functions: tuple[str, ...]
    #: function -> the interface's options that it takes, by keyword.
    keywords: dict[str, tuple[str, ...]]
    elements: tuple[str, ...]
    dtypes: tuple[str, ...] = ("float32",)
    arrays: str = "numpy"
    code_layout: str = UNPACKED
    scale_layout: str = ROW_MAJOR
    tensor_scale: str = "decode"
    #: Whether the target has `fake_quantize` in place of `quantize`: values, of which the codes are found.
    fake: bool = False
    #: How scales of one byte are handed over, one of SCALE_FORMS; "": as bytes.
    scales: str = ""
    #: Random bits that `encode_stochastic`, and `quantize` with `random_bits`, use.
    sr_bits: int = 32
    sr_rule: SrRule = SrRule.CARRY
    #: Whether `quantize` always rounds stochastically: no answer is the only right one.
    stochastic: bool = False
    #: Profiles that the target says it follows, at most one for each format; what is claimed is checked.
    claimed_profiles: tuple[str, ...] = ()
    #: Whether quantize and dequantize can be called without a tensor scale.
    one_level: bool = True
    #: The matrices that quantize and dequantize take: (columns, rows, rows at least), as `ShapeLimits`.
    shapes: tuple[int, int, int] = (1, 1, 1)
    #: Storage layouts that pack, unpack, swizzle and unswizzle know.
    layouts: tuple[str, ...] = ()
    #: Affine integer formats of `quantize_affine` and `dequantize_affine`: int4-g64-bias-float16, with /words where codes are
    #: 32-bit words.
    affine: tuple[str, ...] = ()
    #: The affine profile and dequantization contract that the target says it follows; what is claimed is checked.
    affine_profile: str | None = None
    affine_contract: str | None = None
    #: Sparse formats that prune, compress and decompress know.
    sparse_formats: tuple[str, ...] = ()
    #: What quantize_fused computes, as `silu_mul-mxfp8_e4m3`, and the contract that it says it follows; what is claimed is checked.
    fused: tuple[str, ...] = ()
    fused_contract: str = ""
    #: Layouts of kept codes and of metadata that compress returns and decompress takes; none: one to a byte.
    sparse_layout: tuple[str, ...] = ()
    #: The rule by which `prune` decides between equal magnitudes; "": none is claimed. What is claimed is checked.
    prune_rule: str = ""
    #: Caches of append_cache and read_cache, and what attention computes (`mxspec.attention.CacheSpec`).
    caches: tuple[str, ...] = ()
    attention: tuple[str, ...] = ()
    #: Where the arrays lie, such as `cuda:0`; None: the array library's default.
    device: str | None = None
    #: Products that matmul computes, as `operands.Product` writes them.
    products: tuple[str, ...] = ()
    #: Grouped products that grouped_matmul computes, as `grouped.GroupedProduct` writes them; what follows is said of both functions.
    grouped: tuple[str, ...] = ()
    #: Dtypes that matmul returns.
    out_dtypes: tuple[str, ...] = ("float32",)
    #: The class of accumulations that matmul says it follows (`mxspec.dot.ACCUMULATORS`); empty: none is claimed.
    accumulator: str = ""
    #: How matmul says it rounds each number before it multiplies (`mxspec.dot.CONTRACT_TEXTS`); empty: nothing is claimed.
    contract: str = ""
    #: Multiples of m, n and k that matmul takes.
    product_shapes: tuple[int, int, int] = (1, 1, 1)
    #: Whether matmul is compiled for each shape of b, as calls have shown: it gets few of them.
    few_shapes: bool = False

    def has(self, function: str, keyword: str | None = None) -> bool:
        """Whether the target has the function, and takes the keyword."""
        return function in self.functions and (keyword is None or keyword in self.keywords[function])

    @property
    def repeats(self) -> bool:
        """Whether `quantize` is there and has one answer to a call."""
        return self.has("quantize") and not self.stochastic

    @property
    def has_generator(self) -> bool:
        """Whether `quantize` rounds stochastically by random numbers of its own."""
        return self.has("quantize", "seed") or (self.stochastic and not self.has("quantize", "random_bits"))

    @property
    def limits(self) -> ShapeLimits:
        """The matrices that quantize and dequantize take."""
        return ShapeLimits(*self.shapes)

    def may_stray(self, fmt: str) -> bool:
        """Whether what `quantize` returns is read as codes and scales, and may be none."""
        return self.repeats and (self.fake or self.scales == "float32") and get_block(fmt).scale.bits <= 8

    def layout_of(self, fmt: str) -> str:
        """The layout in which codes of a block format are handed over; one to a byte where they are of another width than it holds."""
        fits = get_layout(self.code_layout).main.packing.width == get_block(fmt).element.bits
        return self.code_layout if fits else UNPACKED

    def layouts_of(self, function: str) -> list[Layout]:
        """The layouts that a layout function is tested with: those that the target lists, else all of the function's kind."""
        scales, several, _ = LAYOUT_FUNCTIONS[function]
        chosen = map(get_layout, self.layouts) if self.layouts else list_layouts()
        return [x for x in chosen if (len(x.fields) > 1) == several and (several or (x.main.part is Part.SCALES) == scales)]

    def as_dict(self) -> dict[str, Any]:
        """For the JSON result."""
        return {
            "formats": list(self.formats),
            "functions": {f: list(self.keywords[f]) for f in self.functions},
            "elements": list(self.elements),
            "dtypes": list(self.dtypes),
            "arrays": self.arrays,
            "layout": [self.code_layout, self.scale_layout],
            "layouts": list(self.layouts),
            "tensor_scale": self.tensor_scale,
            **({"fake_quantize": True} if self.fake else {}),
            **({"scales": self.scales} if self.scales else {}),
            "one_level": self.one_level,
            "shapes": dict(zip(SHAPE_NAMES, self.shapes, strict=True)),
            "sr_bits": self.sr_bits,
            **({} if self.sr_rule is SrRule.CARRY else {"sr_rule": self.sr_rule.value}),
            **({"stochastic": True} if self.stochastic else {}),
            **({"sparse_formats": list(self.sparse_formats)} if self.sparse_formats else {}),
            **({"sparse_layout": list(self.sparse_layout)} if self.sparse_layout else {}),
            **({"prune_rule": self.prune_rule} if self.prune_rule else {}),
            **({"fused": list(self.fused)} if self.fused else {}),
            **({"fused_contract": self.fused_contract} if self.fused_contract else {}),
            "profile": list(self.claimed_profiles),
            **({"affine": list(self.affine)} if self.affine else {}),
            **({} if self.affine_profile is None else {"affine_profile": self.affine_profile}),
            **({} if self.affine_contract is None else {"affine_contract": self.affine_contract}),
            **(self._describe_products() if self.products or self.grouped else {}),
            **({"caches": list(self.caches)} if self.caches else {}),
            **({"attention": list(self.attention), "out_dtypes": list(self.out_dtypes)} if self.attention else {}),
        }

    def _describe_products(self) -> dict[str, Any]:
        return {
            **({"products": list(self.products)} if self.products else {}),
            **({"grouped": list(self.grouped)} if self.grouped else {}),
            "out_dtypes": list(self.out_dtypes),
            **({"accumulator": self.accumulator} if self.accumulator else {}),
            **({"contract": self.contract} if self.contract else {}),
            "product_shapes": dict(zip(PRODUCT_SHAPE_NAMES, self.product_shapes, strict=True)),
        }


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
    if (single := _name_of(given)) is not None:
        return (single,)
    if isinstance(given, (bytes, bytearray)) or not isinstance(given, Iterable):
        raise TargetError(f"{spec}: {what} is a {type(given).__name__}; write a name or a list of names")
    members = list(islice(given, _MOST_NAMES + 1))  # an iterator may have no end
    if len(members) > _MOST_NAMES:
        raise TargetError(f"{spec}: {what} holds more than {_MOST_NAMES} names; list each once")
    names = []
    for member in members:
        name = _name_of(member)
        if name is None:
            raise TargetError(f"{spec}: {what} holds a {type(member).__name__}; write names, as text")
        names.append(name)
    return tuple(dict.fromkeys(names))


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
        raise TargetError(f"{spec}: {what} names {unknown[0]!r}; {whose}{_say_reserved(what)}")
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


def _listed_twice(module: Any, spec: str, what: str) -> tuple[str, ...]:
    """A declaration of several names, among which one may stand twice."""
    given = getattr(module, what, ())
    if isinstance(given, (list, tuple)) and all(isinstance(name, str) for name in given):
        return tuple(clean_name(str.__str__(name)) for name in given[:_MOST_NAMES])
    return _listed(module, spec, what)


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
_MOST_NAMES = 1000


def _name_of(given: Any) -> str | None:
    """The name that a text or an object of the model is; None for anything else."""
    if isinstance(given, str):
        return clean_name(str.__str__(given))
    if isinstance(given, Profile):
        return given.id
    return given.name if isinstance(given, (BlockFormat, ScalarFormat)) else None


def _single(module: Any, spec: str, what: str, default: str) -> str:
    """A declaration that holds one name."""
    name = _name_of(getattr(module, what, default))
    if name is None:
        raise TargetError(f"{spec}: {what} is a {type(getattr(module, what)).__name__}; write a name, as text")
    return name


def _text(module: Any, spec: str, what: str, default: str) -> str:
    """A declaration that is shown and means nothing."""
    given = getattr(module, what, default)
    try:
        return clean_name(str.__str__(given) if isinstance(given, str) else str(given))
    except (Exception, SystemExit):  # its text is made by code of the target's
        raise TargetError(f"{spec}: {what} is a {type(given).__name__} without a text; write a text") from None


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
            raise TargetError(f"{spec}: {what} is a {type(given).__name__} that cannot be read ({type(error).__name__})") from None
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


def _random_bits(module: Any, spec: str) -> int:
    given = getattr(module, "SR_BITS", 32)
    try:
        bits = int(given) if isinstance(given, float) and given.is_integer() else operator.index(given)
    except TypeError:
        bits = 0
    if bits not in SR_BITS:
        shown = given if isinstance(given, (int, float)) else f"a {type(given).__name__}"
        raise TargetError(f"{spec}: SR_BITS = {clean_name(str(shown), 40)}; allowed are {', '.join(map(str, SR_BITS))}")
    return bits


def _is_stochastic(module: Any, spec: str, parameters: Mapping[str, inspect.Parameter]) -> bool:
    """STOCHASTIC, or what follows from a parameter of `quantize` that has no default."""
    given = getattr(module, "STOCHASTIC", False)
    if not isinstance(given, (bool, np.bool_)):
        raise TargetError(f"{spec}: STOCHASTIC is a {type(given).__name__}; write True or False")
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
    return isinstance(value, tuple) and len(value) <= _MOST_NAMES and all(isinstance(v, str) for v in value)


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


def check_names(spec: str, what: str, given: Iterable[str], allowed: Iterable[str]) -> None:
    known = list(allowed)
    for name in given:
        if name not in known:
            raise TargetError(f"{spec}: {what} names {name!r}; allowed are {', '.join(known)}{_say_reserved(what)}")


def _say_reserved(what: str) -> str:
    """That a constant of a target has a meaning: its author may have another one in mind."""
    return f". mxspec reads {what}: a constant that is not meant for it needs another name" if what.isupper() else ""
