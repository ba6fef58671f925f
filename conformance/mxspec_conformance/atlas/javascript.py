"""Profiles as one JavaScript file without a library, generated from the profiles' own expressions.

The file holds data and `explorer_runtime.js`. Every operation of an expression is one node of a table, with the domain in which its result is
rounded; the runtime computes them in that order, float32 by Math.fround. Formats, rules and layouts are data beside them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.expressions import Apply, Choose, Const, Domain, Expr, Leaf, Op, walk
from mxspec.formats import BLOCKS, E2M1, E8M0, BlockFormat, ElementFormat, ScalarFormat
from mxspec.layouts import Layout
from mxspec.layouts.catalogue import fp6, ggml, nibbles
from mxspec.profiles.schema import (
    TENSOR_LEAF,
    AmaxNan,
    ElementRule,
    ErrorNorm,
    ErrorOrder,
    ExponentUnderflow,
    Profile,
    QuantizationSteps,
    ScaleRule,
    ScaleStep,
)
from mxspec.reals import nan_codes
from mxspec.rounding import MAGNITUDE_RULES, NanPolicy, Overflow, Rounding, ZeroPolicy
from mxspec.scales import scale_exponents, significand_bits
from mxspec_conformance.kits.c99 import list_levels
from mxspec_conformance.kits.reciprocal import BIAS, PIECES

RUNTIME = Path(__file__).with_name("explorer_runtime.js")
FORMATS = ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "nvfp4")
_ROUNDED = (Domain.EXACT, Domain.F32, Domain.F32_FTZ, Domain.BF16, Domain.F16)
_LOGARITHMS = (ScaleStep.LOG2F_FLOOR, ScaleStep.LOG2F_CEIL, ScaleStep.LOG2F_ROUND, ScaleStep.LOG2BF16_FLOOR)
#: Binades of positive float32 numbers.
_FIRST_BINADE, _LAST_BINADE = -149, 127

Row = dict[str, Any]


class UnsupportedProfileError(ValueError):
    """A profile whose arithmetic the script does not have. The message says which part."""


@dataclass(slots=True)
class _Nodes:
    """Nodes of all expressions; equal ones are one."""

    entries: list[Any] = field(default_factory=list)
    numbers: dict[Expr, int] = field(default_factory=dict)

    def add(self, root: Expr) -> int:
        """The number of an expression's node. Raises UnsupportedProfileError before anything is added."""
        nodes = list(walk(root))
        for node in nodes:
            if isinstance(node, Apply) and node.op is not Op.RCP and node.domain not in _ROUNDED:
                raise UnsupportedProfileError(f"computes {node.op.value} in the domain {node.domain.value}")
        for node in nodes:
            if node not in self.numbers:
                self.entries.append(self._entry(node))
                self.numbers[node] = len(self.entries) - 1
        return self.numbers[root]

    def _entry(self, node: Expr) -> Any:
        if isinstance(node, Leaf):
            return node.name
        if isinstance(node, Const):
            return node.bits
        if isinstance(node, Choose):
            return ["if", node.test.value, *(self.numbers[e] for e in (node.left, node.right, node.then, node.otherwise))]
        return [node.op.value, node.domain.value, *(self.numbers[a] for a in node.args)]


def _present(**entries: Any) -> dict[str, Any]:
    """Entries that are not None."""
    return {name: value for name, value in entries.items() if value is not None}


def _scalar(f: ScalarFormat) -> dict[str, Any]:
    return _present(
        name=f.name, bits=f.bits, exponent=f.exponent_bits, mantissa=f.mantissa_bits, bias=f.bias, signed=f.signed, zero=f.has_zero, top=f.max_code,
        emax=f.emax, inf=f.inf_code, nan=f.nan_code, twos=f.twos_complement or None, half_bits=significand_bits(f) if isinstance(f, ElementFormat) else None,
    )  # fmt: skip


def _scale(nodes: _Nodes, rule: ScaleRule) -> dict[str, Any]:
    return _present(
        value=nodes.add(rule.value), step=rule.step.value, rounding=None if rule.rounding is Rounding.RNE else rule.rounding.value,
        subtract_emax=rule.subtract_emax or None, offset=rule.offset or None, wraps=rule.underflow is ExponentUnderflow.WRAP or None,
        range=list(rule.byte_range), on_zero=rule.on_zero, on_inf=rule.on_inf, on_nan=rule.on_nan,
    )  # fmt: skip


def _element(nodes: _Nodes, rule: ElementRule, fmt: BlockFormat) -> dict[str, Any]:
    if rule.rounding is Rounding.SR:
        raise UnsupportedProfileError("rounds stochastically")
    policy = rule.nan if fmt.element.nan_code is None else rule.nan_own
    return _present(
        rounding=None if rule.rounding is Rounding.RNE else rule.rounding.value,
        overflow=None if rule.overflow is Overflow.SATURATE else rule.overflow.value,
        nan=None if policy is NanPolicy.RAISE else list(nan_codes(fmt.element, policy)),
        zero=None if rule.zero is ZeroPolicy.SIGNED else rule.zero.value, half_floor=rule.half_floor_domain.value if rule.add_half_floor_f32 else None,
        lowest=rule.int8_lowest if rule.int8_lowest != -127 else None, invalid_sign=rule.invalid_sign or None, under_nan=rule.under_nan_scale,
        error=None if rule.error is None else nodes.add(rule.error), unbounded_fields=rule.unbounded_fields or None, binade_log2f=rule.binade_log2f or None,
    )  # fmt: skip


def _row(nodes: _Nodes, profile: Profile, fmt: BlockFormat, steps: QuantizationSteps, *, two_level: bool) -> Row:
    """A profile's rules in a format. Raises UnsupportedProfileError."""
    tensor, other = (profile.tensor if two_level else None), steps.alternative
    return _present(
        profile=profile.id, format=fmt.name, scale=_scale(nodes, steps.scale), scaled=nodes.add(steps.scaled), dequantize=nodes.add(steps.dequantize),
        normalize=None if steps.normalize is None else nodes.add(steps.normalize), element=_element(nodes, steps.element, fmt),
        amax_nan=profile.amax_nan.value, flush=profile.flush_inputs or None,
        other=None if other is None else _present(
            scale=_scale(nodes, other.scale), error=nodes.add(other.error), norm=ErrorNorm(other.norm).value,
            halves=other.order is ErrorOrder.HALVES or None, total=other.total.value,
        ),
        tensor=None if tensor is None else _present(
            leaf=TENSOR_LEAF[tensor.native], kind=tensor.native.value, from_amax=nodes.add(tensor.from_amax),
            derived=[[leaf.name, nodes.add(e)] for leaf, e in tensor.derived],
            amax_nan=None if tensor.amax_nan is AmaxNan.PROPAGATE else tensor.amax_nan.value,
        ),
    )  # fmt: skip


@lru_cache(maxsize=8)
def find_log2_steps(step: ScaleStep) -> tuple[int, ...]:
    """For each binade of float32 numbers, the first that gives the exponent above, in numbers from the nearer power of two.

    Positive: from the binade's own power up; zero or negative: from the next one down (zero: none gives it).
    """
    rule = ScaleRule(value=Leaf("amax"), step=step)
    exponents = np.arange(_FIRST_BINADE, _LAST_BINADE + 1)
    low, high = _bits_of_powers(exponents), _bits_of_powers(exponents + 1)
    first, last = low.copy(), high.copy()
    while (first < last).any():
        middle = (first + last) // 2
        values = middle.astype(np.uint32).view(np.float32).astype(np.float64)
        inside = middle < high
        up = np.ones(len(middle), bool)
        up[inside] = scale_exponents(values[inside], rule, E2M1) > exponents[inside]
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
        names=[layout.name], formats=[fmt.name], summary=layout.summary, width=fmt.element.bits, size=layout.size((1, columns)),
        partial=columns != fmt.k or None, codes=[p[0] for p in places] if joined else places,
        scale=None if scales is None else 8 * int(scales.byte.evaluate(m=0, k=0, rows=1, columns=columns // fmt.k)),
        stored=None if scales is None or scales.stored is None else list(scales.stored),
    )  # fmt: skip


def list_block_layouts() -> list[dict[str, Any]]:
    """Layouts that one block can be shown in: packings of nibbles and of six bits, bytes, and records with a scale.

    Equal maps are one entry with several names.
    """
    found: list[dict[str, Any]] = []
    for fmt in (BLOCKS[name] for name in FORMATS):
        for layout in (*nibbles.LAYOUTS, *fp6.LAYOUTS, *ggml.LAYOUTS):
            entry = _layout(layout, fmt)
            if entry is None:
                continue
            place = {n: v for n, v in entry.items() if n not in ("names", "formats", "summary")}
            same = [e for e in found if all(e.get(n) == place.get(n) for n in ("width", "size", "partial", "codes", "scale", "stored"))]
            for e in same:
                e["formats"] += [] if fmt.name in e["formats"] else [fmt.name]
                e["names"] += [] if layout.name in e["names"] else [layout.name]
            if not same:
                found.append(entry)
    return found


@dataclass(frozen=True, slots=True)
class Script:
    """The arithmetic, and which profiles it has."""

    text: str
    #: (profile, format, with tensor scale).
    rows: tuple[tuple[str, str, bool], ...]
    #: (profile, format, why it is left out).
    left_out: tuple[tuple[str, str, str], ...]

    @property
    def profiles(self) -> tuple[tuple[str, str], ...]:
        """(profile, format), each once."""
        return tuple(dict.fromkeys((p, f) for p, f, _ in self.rows))


def _collect(nodes: _Nodes, formats: Iterable[str]) -> tuple[list[Row], list[Profile], list[tuple[str, str, str]]]:
    rows, profiles, left_out = [], {}, []
    for fmt in formats:
        for profile, steps, two_level in list_levels(fmt):
            try:
                _row(_Nodes(), profile, BLOCKS[fmt], steps, two_level=two_level)  # leaves nothing behind if it raises
            except UnsupportedProfileError as error:
                left_out.append((profile.id, fmt, str(error)))
                continue
            rows.append(_row(nodes, profile, BLOCKS[fmt], steps, two_level=two_level))
            profiles[profile.id] = profile
    return rows, list(profiles.values()), list(dict.fromkeys(left_out))


def _write(name: str, value: object) -> str:
    return f"const {name} = {json.dumps(value, separators=(',', ':'), ensure_ascii=True)};"


def _write_entries(name: str, entries: Iterable[object]) -> Iterator[str]:
    """An array, one entry to a line."""
    yield f"const {name} = ["
    yield from (f"{json.dumps(e, separators=(',', ':'), ensure_ascii=True)}," for e in entries)
    yield "];"


def _share(rows: Iterable[Row], name: str) -> tuple[list[Any], dict[str, int]]:
    """Distinct values of an entry of the rows, and where each is."""
    texts = list(dict.fromkeys(json.dumps(row[name], sort_keys=True) for row in rows))
    return [json.loads(t) for t in texts], {t: i for i, t in enumerate(texts)}


def _head(rows: int, left_out: Iterable[tuple[str, str, str]]) -> str:
    by_reason: dict[str, list[str]] = {}
    for profile, fmt, why in left_out:
        by_reason.setdefault(why, []).append(f"{profile} ({fmt})")
    lines = [
        f"/* {rows} numerical contracts of OCP MX and NVFP4 in JavaScript, without a library.", " *",
        f" * Generated by mxspec {mxspec.__version__} from the profiles' expressions: every entry of NODES that is a list is one operation of one of them.",
        " * Licence: Apache-2.0." + (" Not here:" if by_reason else ""),
    ]  # fmt: skip
    for why, names in by_reason.items():
        lines += [f" *   {name}" for name in names] + [f" * since each of them {why}."]
    return "\n".join([*lines, " */"])


@lru_cache(maxsize=2)
def write_javascript(formats: tuple[str, ...] = FORMATS) -> Script:
    """The script with every profile that the vectors hold for some formats and whose arithmetic it has.

    It defines `mxspec`, as a global name in a browser and as the module in node.
    """
    nodes = _Nodes()
    rows, profiles, left_out = _collect(nodes, formats)
    shared = {name: _share(rows, name) for name in ("scale", "element")}
    compact = [{n: shared[n][1][json.dumps(v, sort_keys=True)] if n in shared else v for n, v in row.items()} for row in rows]
    used = {rule["step"] for row in rows for rule in (row["scale"], row.get("other", {}).get("scale", row["scale"]))}
    if any(row["element"].get("binade_log2f") for row in rows):
        used.add(ScaleStep.LOG2F_FLOOR.value)
    logarithms: Mapping[str, Any] = {s.value: find_log2_steps(s) for s in _LOGARITHMS if s.value in used}
    blocks = [BLOCKS[name] for name in formats]
    scalars = {f.name: _scalar(f) for b in blocks for f in (b.element, b.scale)}
    about = [_present(id=p.id, kind=p.kind.value, summary=p.summary, dtypes=list(p.dtypes), provisional=p.provisional or None) for p in profiles]
    lines = [
        _head(len(rows), left_out), "(function () {", "'use strict';", _write("VERSION", mxspec.__version__), _write("SCALARS", scalars),
        _write("FORMATS", {b.name: {"element": b.element.name, "scale": b.scale.name, "k": b.k} for b in blocks}),
        _write("RULES", {r.value: [m.value for m in MAGNITUDE_RULES[r]] for r in MAGNITUDE_RULES}),
        _write("RECIPROCAL", PIECES), f"const RECIPROCAL_BIAS = {BIAS};",
        f"const FIRST_BINADE = {_FIRST_BINADE};", _write("LOGARITHMS", logarithms), *_write_entries("NODES", nodes.entries),
        *_write_entries("SCALE_RULES", shared["scale"][0]), *_write_entries("ELEMENT_RULES", shared["element"][0]), *_write_entries("ROWS", compact),
        "for (const row of ROWS) {", "  row.scale = SCALE_RULES[row.scale];", "  row.element = ELEMENT_RULES[row.element];", "}",
        *_write_entries("PROFILES", about), *_write_entries("LEFT_OUT", [list(entry) for entry in left_out]),
        *_write_entries("LAYOUTS", [e for e in list_block_layouts() if set(e["formats"]) & set(formats)]), RUNTIME.read_text("utf-8").rstrip(),
        "if (typeof module === 'object' && module.exports) module.exports = mxspec;", "else globalThis.mxspec = mxspec;", "})();", "",
    ]  # fmt: skip
    return Script("\n".join(lines), tuple((r["profile"], r["format"], "tensor" in r) for r in rows), tuple(left_out))
