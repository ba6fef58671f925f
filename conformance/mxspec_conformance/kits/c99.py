"""Profiles as one C99 header: integers alone, generated from the profiles' own expressions.

The runtime (`c99_runtime.h`) computes with numbers of 64 significant bits that never lose what decides a rounding; each expression becomes a C
function with one statement for each operation, in its order and domain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil, floor
from pathlib import Path

import mxspec
from mxspec.expressions import Domain, Expr, Leaf, Op, Test
from mxspec.formats import BlockFormat, ScalarFormat, get_block
from mxspec.lowering import Language, UnsupportedProfileError, lost_codes, overflow_codes, special_bytes
from mxspec.profiles import get_profile
from mxspec.profiles.schema import TENSOR_LEAF, ErrorNorm, ErrorOrder, ExponentUnderflow, Profile, QuantizationSteps
from mxspec.rounding import MAGNITUDE_RULES, Rounding
from mxspec.scales import exp2, log2bf16_reach, spacing_near
from mxspec_conformance.kits.reciprocal import BIAS, PIECES
from mxspec_vectors.cases import load_quantize_cases

RUNTIME = Path(__file__).with_name("c99_runtime.h").read_text("utf-8")
#: The formats of the vectors.
FORMATS = ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "nvfp4")
_STEPS = frozenset(re.findall(r"MX_STEP_(\w+)", RUNTIME))
_UNARY = (Op.ABS, Op.CEIL_POW2)
_HALF_FLOOR = {Domain.F32: 1, Domain.BF16: 2, Domain.F16: 3}
_NORMS = {ErrorNorm.SQUARED: "MX_SUM_OF_SQUARES", ErrorNorm.ABSOLUTE: "MX_SUM", ErrorNorm.MAXIMUM: "MX_LARGEST"}
#: Exponents from -150 on for which tables of rounded logarithms have an entry.
_EXPONENTS = range(-150, 130)


def _write_operation(op: Op, domain: Domain) -> str:
    operand = "mx_flush({})" if domain is Domain.F32_FTZ else "{}"
    exact = "{}" if op is Op.ROUND else f"mx_{op.name.lower()}({_join([operand] * (1 if op in _UNARY else 2))})"
    return exact if domain is Domain.EXACT else f"mx_as_{domain.value.rpartition('.')[2]}({exact})"


def _join(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


_ROUNDED = (Domain.EXACT, Domain.F32, Domain.F32_FTZ, Domain.BF16, Domain.F16)
#: The operations of expressions: (operation, domain) -> how it is written.
OPERATIONS: dict[tuple[Op, Domain], str] = {
    **{(op, domain): _write_operation(op, domain) for op in Op if op is not Op.RCP for domain in _ROUNDED},
    (Op.RCP, Domain.RCP_APPROX): "mx_rcp({})",
}
_C99 = Language(
    constant="mx_f32(0x{:08X}u)", result="t{}", leaf="v->{}", operations=OPERATIONS,
    tests={Test.EQUAL: "mx_equal({}, {})", Test.LESS: "mx_less({}, {})", Test.IS_NAN: "{}.kind == MX_NAN", Test.IS_INF: "{}.kind == MX_INF"},
)  # fmt: skip


@dataclass(slots=True)
class _Header:
    """What has been written so far; equal expressions share a function."""

    functions: dict[str, str] = field(default_factory=dict)
    scalars: dict[str, str] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)

    def expression(self, expr: Expr | None) -> str:
        """The name of the function of an expression; 0 for none."""
        if expr is None:
            return "0"
        statements, whole = _C99.lower(expr)
        last = statements.pop(whole, whole)
        return self._add("e", [*(f"  mx_real {name} = {text};" for name, text in statements.items()), f"  return {last};"])

    def derivation(self, derived: Iterable[tuple[Leaf, Expr]]) -> str:
        """The name of the function that derives leaves of the tensor scale; 0 for none."""
        calls = [f"  v->{leaf.name} = {self.expression(expr)}(v);" for leaf, expr in derived]
        return self._add("d", calls) if calls else "0"

    def scalar(self, f: ScalarFormat) -> str:
        """The name of a scalar format's constants."""
        nan = (f.nan_code or 0) if f.inf_code is None else f.inf_code + 1
        mantissa = 7 if f.exponent_bits == 0 else f.mantissa_bits
        numbers = (f.exponent_bits, mantissa, f.bias, f.max_code, nan, f.inf_code or 0, int(f.signed))
        self.scalars[f.name] = f"static const mx_scalar mx_{f.name} = {_set(numbers)};"
        return f"&mx_{f.name}"

    def _add(self, kind: str, body: list[str]) -> str:
        return self.functions.setdefault("\n".join(body), f"mx_{kind}{len(self.functions)}")

    def definitions(self) -> Iterator[str]:
        """All functions, in the order in which they were needed."""
        for text, name in self.functions.items():
            head = f"void {name}(mx_env *v)" if name.startswith("mx_d") else f"mx_real {name}(const mx_env *v)"
            unused = "  (void)v;\n" if "v->" not in text else ""
            yield f"static inline {head} {{\n{unused}{text}\n}}"


def _row(header: _Header, profile: Profile, fmt: BlockFormat, steps: QuantizationSteps, two_level: bool) -> str:
    """A profile's rules as one initializer. Raises UnsupportedProfileError."""
    rule, element, f = steps.scale, steps.element, fmt.element
    if rule.step.name not in _STEPS:
        raise UnsupportedProfileError(f"finds scales by {rule.step.value}")
    if element.rounding is Rounding.SR:
        raise UnsupportedProfileError("rounds stochastically")
    tensor = profile.tensor if two_level else None
    over, over_infinity = zip(*(overflow_codes(element, f, sign) for sign in (0, 1)), strict=True)
    numbers = [
        f"MX_STEP_{rule.step.name}", _rules(rule.rounding), rule.offset - (f.emax if rule.subtract_emax else 0), f.mantissa_bits + 1 if f.exponent_bits else 7,
        int(rule.underflow is ExponentUnderflow.WRAP), *rule.byte_range, *special_bytes(rule, fmt.scale), f"MX_AMAX_{profile.amax_nan.name}",
        int(profile.flush_inputs), _rules(element.rounding), _set(over), _set(over_infinity), _set(lost_codes(element, f) or (0, 0)),
        f"MX_ZERO_{element.zero.name}", element.int8_lowest, element.invalid_sign, -1 if element.under_nan_scale is None else element.under_nan_scale,
        _HALF_FLOOR[element.half_floor_domain] if element.add_half_floor_f32 else 0, int(element.binade_log2f), int(element.unbounded_fields),
    ]  # fmt: skip
    leaf = "NO_TENSOR" if tensor is None else TENSOR_LEAF[tensor.native].upper()
    expressions = (rule.value, steps.scaled, steps.dequantize, steps.normalize, element.error)
    head = [
        f'"{profile.id}"', f'"{fmt.name}"', fmt.k, f"MX_{leaf}", header.scalar(f), header.scalar(fmt.scale), *map(header.expression, expressions),
        header.derivation(() if tensor is None else tensor.derived), *_other(header, profile, fmt, steps, two_level),
    ]  # fmt: skip
    return f"  {{{_join(head)},\n   {_join(numbers)}}},"


def _other(header: _Header, profile: Profile, fmt: BlockFormat, steps: QuantizationSteps, two_level: bool) -> Sequence[object]:
    """What a row says of a second scale rule, which becomes an object of its own."""
    rule = steps.alternative
    if rule is None:
        return (0,) * 5
    text = _row(header, profile, fmt, replace(steps, scale=rule.scale, alternative=None), two_level)
    name = f"mx_other{len(header.others)}"
    header.others.append(f"static const mx_rules {name} =\n{text.rstrip(',')};\n")
    halves, total = int(rule.order is ErrorOrder.HALVES), {Domain.EXACT: 0, **_HALF_FLOOR}[rule.total]
    return f"&{name}", header.expression(rule.error), _NORMS[rule.norm], halves, total


def _set(values: Iterable[object]) -> str:
    return f"{{{_join(values)}}}"


def _rules(rounding: Rounding) -> str:
    return _set(f"MX_{rule.name.removeprefix('TIES_')}" for rule in MAGNITUDE_RULES[rounding])


def _table(head: str, words: Sequence[str], width: int, note: str = "") -> str:
    rows = [f"  {_join(words[i : i + width])}," for i in range(0, len(words), width)]
    return "\n".join([f"static const {head} = {{{note}", *rows, "};"])


def _log2_tables() -> str:
    """From which significand on a rounded logarithm of what lies below 2^n is n already; up to which one of what lies above is n still."""
    tables = {
        "mx_log2f_up": (ceil(exp2(64 - spacing_near(n, below=True) / 2)) for n in _EXPONENTS),
        "mx_log2f_down": (floor(exp2(63 + spacing_near(n, below=False) / 2)) for n in _EXPONENTS),
        "mx_log2bf16_up": (ceil(exp2(64 + log2bf16_reach(n) - n)) for n in _EXPONENTS),
    }
    sizes, note = f"[{len(_EXPONENTS)}]", f" /* 2^{_EXPONENTS[0]} and on */"
    return "\n".join(_table(f"uint64_t {name}{sizes}", [f"0x{n % 2**64:016X}u" for n in table], 7, note) for name, table in tables.items())


def list_levels(fmt: str) -> Iterator[tuple[Profile, QuantizationSteps, bool]]:
    """(profile, steps, with tensor scale) of each profile that the vectors hold for a format, by name."""
    for name in sorted({name for case in load_quantize_cases(fmt) for name in case.answers}):
        profile = get_profile(name, fmt)
        for steps, two_level in ((profile.one_level, False), (profile.two_level, True)):
            if steps is not None:
                yield profile, steps, two_level


@dataclass(frozen=True, slots=True)
class Code:
    """Code made from profiles, and which ones it has."""

    text: str
    #: (profile, format, with tensor scale), in order.
    rows: tuple[tuple[str, str, bool], ...]
    #: (profile, format, why it is left out).
    left_out: tuple[tuple[str, str, str], ...]

    @property
    def profiles(self) -> tuple[tuple[str, str], ...]:
        """(profile, format), each once."""
        return tuple(dict.fromkeys((p, f) for p, f, _ in self.rows))

    @property
    def lacks(self) -> str:
        """What is left out, as lines of a comment."""
        return "".join([f"\n *   {profile} ({fmt}): {why}" for profile, fmt, why in self.left_out]).replace("\n", "\n * Not here:\n", 1)


#: Profile, format, steps, with tensor scale.
Level = tuple[Profile, BlockFormat, QuantizationSteps, bool]


def sort_levels(
    formats: Iterable[str], lower: Callable[[Profile, BlockFormat, QuantizationSteps, bool], object]
) -> tuple[list[Level], Code]:
    """The levels of some formats' profiles that `lower` does not refuse; and which these are, and which not, as code without text."""
    kept: list[Level] = []
    left_out: dict[tuple[str, str, str], None] = {}
    for fmt in formats:
        for profile, steps, two_level in list_levels(fmt):
            level = profile, get_block(fmt), steps, two_level
            try:
                lower(*level)
                kept.append(level)
            except UnsupportedProfileError as error:
                left_out[profile.id, fmt, str(error)] = None
    return kept, Code("", tuple((p.id, f.name, two_level) for p, f, _, two_level in kept), tuple(left_out))


def write_c99(formats: Iterable[str] = ()) -> Code:
    """The header with every profile of some formats (all of them, if none are named) whose arithmetic it has."""
    levels, code = sort_levels(formats or FORMATS, partial(_row, _Header()))
    header = _Header()
    rows = [_row(header, *level) for level in levels]
    pieces = [_set(piece) for piece in PIECES]
    parts = {
        "COUNT": len(rows), "VERSION": mxspec.__version__, "LACKS": code.lacks, "LOG2": _log2_tables(),
        "RCP": _table(f"uint32_t mx_rcp_pieces[{len(pieces)}][3]", pieces, 6), "BIAS": BIAS, "FORMATS": "\n".join(header.scalars.values()),
        "EXPRESSIONS": "\n".join(header.definitions()), "OTHERS": "".join(header.others), "ROWS": "\n".join(rows),
    }  # fmt: skip
    return replace(code, text=re.sub("@([A-Z0-9]+)@", lambda mark: str(parts[mark[1]]), RUNTIME))
