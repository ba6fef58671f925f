"""Profiles as one JavaScript file without a library, generated from the profiles' own expressions.

The file holds data and `explorer_runtime.js`. Every operation of an expression is one node of a table, with the domain in which its result is
rounded; the runtime computes them in that order, float32 by Math.fround. Formats, rules and layouts are data in the same file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.expressions import AMAX, Apply, Choose, Const, Expr, Leaf, children, walk
from mxspec.formats import BLOCKS, E2M1, E8M0, BlockFormat, ElementFormat, ScalarFormat
from mxspec.layouts import Layout
from mxspec.layouts.catalogue import fp6, ggml, nibbles
from mxspec.lowering import UnsupportedProfileError, list_departures, lost_codes, refuse_operation
from mxspec.profiles.schema import (
    TENSOR_LEAF,
    AmaxNan,
    ElementRule,
    ErrorOrder,
    ExponentUnderflow,
    Profile,
    QuantizationSteps,
    ScaleRule,
    ScaleStep,
)
from mxspec.rounding import MAGNITUDE_RULES, Rounding
from mxspec.scales import scale_exponents, significand_bits
from mxspec_conformance.kits.c99 import FORMATS, OPERATIONS, Code, sort_levels
from mxspec_conformance.kits.reciprocal import BIAS, PIECES

RUNTIME = Path(__file__).with_name("explorer_runtime.js")
_LOGARITHMS = (ScaleStep.LOG2F_FLOOR, ScaleStep.LOG2F_CEIL, ScaleStep.LOG2F_ROUND, ScaleStep.LOG2BF16_FLOOR)
#: Binades of positive float32 numbers.
_FIRST_BINADE, _LAST_BINADE = -149, 127
#: Fields of rules by their names here; those that are no field here; all others have their own name, unless they are at their default.
_RENAMED = {"int8_lowest": "lowest", "under_nan_scale": "under_nan"}
_RESOLVED = {"value", "byte_range", "underflow", "nan", "nan_own", "add_half_floor_f32", "half_floor_domain", "error"}


@dataclass(slots=True)
class _Tables:
    """Distinct values by their text, each with its number."""

    nodes: dict[str, int] = field(default_factory=dict)
    scales: dict[str, int] = field(default_factory=dict)
    elements: dict[str, int] = field(default_factory=dict)

    def node(self, root: Expr | None) -> int | None:
        """The number of an expression's node. Raises UnsupportedProfileError."""
        if root is None:
            return None
        numbers: dict[Expr, int] = {}
        for node in walk(root):
            operands = [numbers[e] for e in children(node)]
            if isinstance(node, Apply) and (node.op, node.domain) not in OPERATIONS:
                raise refuse_operation(node.op, node.domain)
            entry: Any = node.name if isinstance(node, Leaf) else node.bits if isinstance(node, Const) else [
                *(("if", node.test) if isinstance(node, Choose) else (node.op, node.domain)), *operands,
            ]  # fmt: skip
            numbers[node] = _number(self.nodes, entry)
        return numbers[root]


def _number(table: dict[str, int], value: object) -> int:
    return table.setdefault(_dump(value, sort_keys=True), len(table))


def _dump(value: object, *, sort_keys: bool = False) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, sort_keys=sort_keys)


def _present(**entries: Any) -> dict[str, Any]:
    """Entries that are not None."""
    return {name: value for name, value in entries.items() if value is not None}


def _scalar(f: ScalarFormat) -> dict[str, Any]:
    return _present(
        name=f.name, bits=f.bits, exponent=f.exponent_bits, mantissa=f.mantissa_bits, bias=f.bias, signed=f.signed, zero=f.has_zero, top=f.max_code,
        emax=f.emax, inf=f.inf_code, nan=f.nan_code, twos=f.twos_complement or None, half_bits=significand_bits(f) if isinstance(f, ElementFormat) else None,
    )  # fmt: skip


def _fields(rule: ScaleRule | ElementRule) -> dict[str, Any]:
    return {_RENAMED.get(name, name): value for name, value in list_departures(rule).items() if name not in _RESOLVED}


def _scale(tables: _Tables, rule: ScaleRule) -> dict[str, Any]:
    wraps = rule.underflow is ExponentUnderflow.WRAP or None
    return _present(value=tables.node(rule.value), **_fields(rule), range=rule.byte_range, wraps=wraps)


def _element(tables: _Tables, rule: ElementRule, fmt: BlockFormat) -> dict[str, Any]:
    if rule.rounding is Rounding.SR:
        raise UnsupportedProfileError("rounds stochastically")
    half_floor = rule.half_floor_domain if rule.add_half_floor_f32 else None
    return _present(**_fields(rule), nan=lost_codes(rule, fmt.element), half_floor=half_floor, error=tables.node(rule.error))


def _row(tables: _Tables, profile: Profile, fmt: BlockFormat, steps: QuantizationSteps, two_level: bool) -> dict[str, Any]:
    """A profile's rules in a format. Raises UnsupportedProfileError."""
    tensor, other = (profile.tensor if two_level else None), steps.alternative
    return _present(
        profile=profile.id, format=fmt.name, scale=_number(tables.scales, _scale(tables, steps.scale)), scaled=tables.node(steps.scaled),
        dequantize=tables.node(steps.dequantize), normalize=tables.node(steps.normalize),
        element=_number(tables.elements, _element(tables, steps.element, fmt)), amax_nan=profile.amax_nan, flush=profile.flush_inputs or None,
        other=None if other is None else _present(
            scale=_scale(tables, other.scale), error=tables.node(other.error), norm=other.norm, halves=other.order is ErrorOrder.HALVES or None,
            total=other.total,
        ),
        tensor=None if tensor is None else _present(
            leaf=TENSOR_LEAF[tensor.native], kind=tensor.native, from_amax=tables.node(tensor.from_amax),
            derived=[[leaf.name, tables.node(e)] for leaf, e in tensor.derived],
            amax_nan=None if tensor.amax_nan is AmaxNan.PROPAGATE else tensor.amax_nan,
        ),
    )  # fmt: skip


@lru_cache(maxsize=8)
def find_log2_steps(step: ScaleStep) -> tuple[int, ...]:
    """For each binade of float32 numbers, the first that gives the exponent above, in numbers from the nearer power of two.

    Positive: from the binade's own power up; zero or negative: from the next one down (zero: none gives it).
    """
    rule = ScaleRule(value=AMAX, step=step)
    exponents = np.arange(_FIRST_BINADE, _LAST_BINADE + 1)
    low, high = _bits_of_powers(exponents), _bits_of_powers(exponents + 1)
    first, last = low, high
    while (first < last).any():
        middle = (first + last) // 2
        values = np.minimum(middle, high - 1).astype(np.uint32).view(np.float32).astype(np.float64)
        up = (middle == high) | (scale_exponents(values, rule, E2M1) > exponents)
        last, first = np.where(up, middle, last), np.where(up, first, np.minimum(middle + 1, last))
    return tuple(int(a if 0 < a < b else -b) for a, b in zip(first - low, high - first, strict=True))


def _bits_of_powers(exponents: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """float32 bits of powers of two, 2^128 as an infinity."""
    return np.where(exponents < -126, 1 << np.maximum(exponents + 149, 0), (exponents + 127) << 23).astype(np.int64)


def _layout(layout: Layout, fmt: BlockFormat) -> dict[str, Any] | None:
    """Where the bits of one block of a row lie; None for layouts of other items."""
    main, columns = layout.main, lcm(fmt.k, layout.tile[1])
    if main.part != "codes" or main.packing.width != fmt.element.bits or layout.tile[0] != 1 or main.stored is not None:
        return None
    scales = layout.fields[0] if len(layout.fields) > 1 else None
    if scales is not None and (scales.covers != fmt.k or (scales.stored is not None and fmt.scale != E8M0)):
        return None
    bits = range(fmt.element.bits)

    def find(k: int, b: int) -> int:
        known = {"m": 0, "k": k, "rows": 1, "columns": columns, "b": b}
        bit = int(main.bit.evaluate(**known)) + (0 if "b" in main.bit.names else b)
        return 8 * int(main.byte.evaluate(**known)) + bit

    places = [[find(k, b) for b in bits] for k in range(fmt.k)]
    joined = all(p == list(range(p[0], p[0] + len(p))) for p in places)
    return _present(
        width=fmt.element.bits, size=layout.size((1, columns)), partial=columns != fmt.k or None, codes=[p[0] for p in places] if joined else places,
        scale=None if scales is None else 8 * int(scales.byte.evaluate(m=0, k=0, rows=1, columns=columns // fmt.k)),
        stored=None if scales is None or scales.stored is None else list(scales.stored),
    )  # fmt: skip


def list_block_layouts() -> list[dict[str, Any]]:
    """Layouts that one block can be shown in: packings of nibbles and of six bits, bytes, and records with a scale.

    Equal maps are one entry with several names.
    """
    found: dict[str, dict[str, Any]] = {}
    for fmt in (BLOCKS[name] for name in FORMATS):
        for layout in (*nibbles.LAYOUTS, *fp6.LAYOUTS, *ggml.LAYOUTS):
            place = _layout(layout, fmt)
            if place is not None:
                entry = found.setdefault(_dump(place), {"names": [], "formats": [], "summary": layout.summary, **place})
                entry["names"] += [] if layout.name in entry["names"] else [layout.name]
                entry["formats"] += [] if fmt.name in entry["formats"] else [fmt.name]
    return list(found.values())


def _write_entries(name: str, texts: Iterable[str]) -> str:
    """An array, one entry to a line."""
    return "\n".join([f"const {name} = [", *(f"{text}," for text in texts), "];"])


@lru_cache(maxsize=2)
def write_javascript(formats: tuple[str, ...] = FORMATS) -> Code:
    """The script with every profile that the vectors hold for some formats and whose arithmetic it has.

    It defines `mxspec`, as a global name in a browser and as the module in node.
    """
    levels, code = sort_levels(formats, partial(_row, _Tables()))
    tables = _Tables()
    rows = [_row(tables, *level) for level in levels]
    rules = [steps for _, _, steps, _ in levels]
    used = {s.scale.step for s in rules} | {s.alternative.scale.step for s in rules if s.alternative is not None}
    used |= {ScaleStep.LOG2F_FLOOR for s in rules if s.element.binade_log2f}
    blocks = [BLOCKS[name] for name in formats]
    data = {
        "VERSION": mxspec.__version__, "SCALARS": {f.name: _scalar(f) for b in blocks for f in (b.element, b.scale)},
        "FORMATS": {b.name: {"element": b.element.name, "scale": b.scale.name, "k": b.k} for b in blocks},
        "RULES": {r: list(rules) for r, rules in MAGNITUDE_RULES.items()}, "RECIPROCAL": PIECES, "RECIPROCAL_BIAS": BIAS, "FIRST_BINADE": _FIRST_BINADE,
        "LOGARITHMS": {step: find_log2_steps(step) for step in _LOGARITHMS if step in used},
    }  # fmt: skip
    about = [
        _present(id=p.id, kind=p.kind, summary=p.summary, dtypes=p.dtypes, provisional=p.provisional or None)
        for p in {profile.id: profile for profile, _, _, _ in levels}.values()
    ]
    layouts = [e for e in list_block_layouts() if set(e["formats"]) & set(formats)]
    lines = [
        f"/* {len(rows)} numerical contracts of OCP MX and NVFP4 in JavaScript, without a library.", " *",
        f" * Generated by mxspec {mxspec.__version__} from the profiles' expressions: every entry of NODES that is a list is one operation of one of them.",
        f" * Licence: Apache-2.0.{code.lacks}", " */", "(function () {", "'use strict';", *(f"const {name} = {_dump(value)};" for name, value in data.items()),
        _write_entries("NODES", tables.nodes), _write_entries("SCALE_RULES", tables.scales), _write_entries("ELEMENT_RULES", tables.elements),
        _write_entries("ROWS", map(_dump, rows)),
        "for (const row of ROWS) {", "  row.scale = SCALE_RULES[row.scale];", "  row.element = ELEMENT_RULES[row.element];", "}",
        _write_entries("PROFILES", map(_dump, about)), _write_entries("LEFT_OUT", map(_dump, code.left_out)), _write_entries("LAYOUTS", map(_dump, layouts)),
        RUNTIME.read_text("utf-8").rstrip(), "if (typeof module === 'object' && module.exports) module.exports = mxspec;", "else globalThis.mxspec = mxspec;",
        "})();", "",
    ]  # fmt: skip
    return replace(code, text="\n".join(lines))
