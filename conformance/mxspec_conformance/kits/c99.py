"""Profiles as one C99 header: integers alone, generated from the profiles' own expressions.

The runtime (`c99_runtime.h`) computes with numbers of 64 significant bits that never lose what decides a rounding; each expression becomes a C
function with one statement for each operation, in its order and domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from math import ceil, floor
from pathlib import Path

import mxspec
from mxspec import reals
from mxspec.expressions import Choose, Const, Domain, Expr, Leaf, Op, Test, walk
from mxspec.formats import BFLOAT16, BlockFormat, ScalarFormat, floor_log2, get_block
from mxspec.profiles import get_profile
from mxspec.profiles.schema import (
    TENSOR_LEAF,
    AmaxNan,
    ErrorNorm,
    ErrorOrder,
    ExponentUnderflow,
    Profile,
    QuantizationSteps,
    ScaleStep,
)
from mxspec.reals import nan_codes
from mxspec.rounding import MAGNITUDE_RULES, MagnitudeRule, NanPolicy, Rounding, ZeroPolicy
from mxspec_conformance.kits.reciprocal import BIAS, PIECES
from mxspec_vectors.cases import load_quantize_cases

RUNTIME = Path(__file__).with_name("c99_runtime.h")

_OPERATIONS = {
    Op.ADD: "mx_add", Op.SUB: "mx_sub", Op.MUL: "mx_mul", Op.DIV: "mx_div", Op.MIN: "mx_min", Op.MAX: "mx_max", Op.FMIN: "mx_fmin",
    Op.FMAX: "mx_fmax", Op.ABS: "mx_abs", Op.CEIL_POW2: "mx_ceil_pow2",
}  # fmt: skip
_ROUNDED = {Domain.EXACT: "", Domain.F32: "mx_as_f32", Domain.F32_FTZ: "mx_as_ftz", Domain.BF16: "mx_as_bf16", Domain.F16: "mx_as_f16"}
_RULES = {
    MagnitudeRule.EVEN: "MX_EVEN", MagnitudeRule.TIES_AWAY: "MX_AWAY", MagnitudeRule.TIES_TO_ZERO: "MX_TO_ZERO", MagnitudeRule.DOWN: "MX_DOWN",
    MagnitudeRule.UP: "MX_UP",
}  # fmt: skip
_STEPS = {
    ScaleStep.FLOOR: "MX_STEP_FLOOR", ScaleStep.CEIL: "MX_STEP_CEIL", ScaleStep.HALF_UP: "MX_STEP_HALF_UP", ScaleStep.ENCODE: "MX_STEP_ENCODE",
    ScaleStep.LOG2F_FLOOR: "MX_STEP_LOG2F_FLOOR", ScaleStep.LOG2F_CEIL: "MX_STEP_LOG2F_CEIL",
    ScaleStep.LOG2BF16_FLOOR: "MX_STEP_LOG2BF16_FLOOR", ScaleStep.GGML_UE4M3: "MX_STEP_GGML_UE4M3",
}  # fmt: skip
_AMAX = {
    AmaxNan.PROPAGATE: "MX_AMAX_PROPAGATE", AmaxNan.SKIP: "MX_AMAX_SKIP", AmaxNan.SKIP_UNLESS_ALL: "MX_AMAX_SKIP_UNLESS_ALL",
    AmaxNan.SKIP_UNLESS_ODD: "MX_AMAX_SKIP_UNLESS_ODD",
}  # fmt: skip
_ZERO = {
    ZeroPolicy.SIGNED: "MX_ZERO_SIGNED", ZeroPolicy.PLUS: "MX_ZERO_PLUS", ZeroPolicy.MINUS_UNLESS_POSITIVE: "MX_ZERO_MINUS_UNLESS_POSITIVE",
    ZeroPolicy.PLUS_UNLESS_UNDERFLOW: "MX_ZERO_PLUS_UNLESS_UNDERFLOW",
}  # fmt: skip
_TENSOR = {"tmax": "MX_TMAX", "S": "MX_S", "g": "MX_G"}
_HALF_FLOOR = {Domain.F32: 1, Domain.BF16: 2, Domain.F16: 3}


class UnsupportedProfileError(ValueError):
    """A profile whose arithmetic the header does not have. The message says which part."""


@dataclass(slots=True)
class _Header:
    """What has been written so far; equal expressions share a function."""

    functions: dict[str, str] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)
    scalars: dict[str, str] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)

    def expression(self, expr: Expr) -> str:
        """The name of the function of an expression."""
        return self._add("mx_real", "const mx_env *v", _statements(expr))

    def derivation(self, derived: Iterable[tuple[Leaf, Expr]]) -> str:
        """The name of the function that derives leaves of the tensor scale; 0 for none."""
        calls = [f"  v->{leaf.name} = {self.expression(expr)}(v);" for leaf, expr in derived]
        return self._add("void", "mx_env *v", calls) if calls else "0"

    def scalar(self, f: ScalarFormat) -> str:
        """The name of a scalar format's constants."""
        name = f"mx_{f.name}"
        nan = 0 if f.nan_code is None else f.nan_code
        if f.inf_code is not None:
            nan = f.inf_code + 1
        mantissa = 7 if f.exponent_bits == 0 else f.mantissa_bits
        numbers = (f.exponent_bits, mantissa, f.bias, f.max_code, nan, f.inf_code or 0, int(f.signed))
        self.scalars[name] = f"static const mx_scalar {name} = {{{', '.join(map(str, numbers))}}};"
        return name

    def _add(self, returns: str, takes: str, body: list[str]) -> str:
        text = "\n".join(body)
        if text not in self.functions:
            self.functions[text] = f"mx_e{len(self.functions)}"
        return self.functions[text] if returns == "mx_real" else self._named(text, returns, takes)

    def _named(self, text: str, returns: str, takes: str) -> str:
        name = self.functions[text].replace("mx_e", "mx_d")
        self.functions[text] = name
        return name

    def definitions(self) -> Iterator[str]:
        """All functions, in the order in which they were needed."""
        for text, name in self.functions.items():
            head = f"static inline void {name}(mx_env *v)" if name.startswith("mx_d") else f"static inline mx_real {name}(const mx_env *v)"
            unused = "  (void)v;\n" if "v->" not in text else ""
            yield f"{head} {{\n{unused}{text}\n}}"


def _statements(expr: Expr) -> list[str]:
    names: dict[Expr, str] = {}
    lines: list[str] = []
    for node in walk(expr):
        if isinstance(node, Leaf):
            names[node] = f"v->{node.name}"
            continue
        names[node] = f"t{len(lines)}"
        lines.append(f"  mx_real {names[node]} = {_operation(node, names)};")
    if not lines:
        return [f"  return {names[expr]};"]
    last = lines.pop()
    return [*lines, f"  return {last.partition(' = ')[2]}"]


def _operation(node: Expr, names: dict[Expr, str]) -> str:
    if isinstance(node, Const):
        return f"mx_f32(0x{node.bits:08X}u)"
    if isinstance(node, Choose):
        left, right, then, otherwise = (names[e] for e in (node.left, node.right, node.then, node.otherwise))
        condition = {
            Test.EQUAL: f"mx_equal({left}, {right})", Test.LESS: f"mx_less({left}, {right})", Test.IS_NAN: f"{left}.kind == MX_NAN",
            Test.IS_INF: f"{left}.kind == MX_INF",
        }[node.test]  # fmt: skip
        return f"{condition} ? {then} : {otherwise}"
    assert not isinstance(node, Leaf)
    args = [names[a] for a in node.args]
    if node.op is Op.RCP:
        return f"mx_rcp({args[0]})"
    if node.domain not in _ROUNDED:
        raise UnsupportedProfileError(f"computes {node.op.value} in the domain {node.domain.value}")
    if node.op is Op.ROUND:
        exact = args[0]
    else:
        if node.domain is Domain.F32_FTZ:
            args = [f"mx_flush({a})" for a in args]
        exact = f"{_OPERATIONS[node.op]}({', '.join(args)})"
    return f"{_ROUNDED[node.domain]}({exact})" if _ROUNDED[node.domain] else exact


def _row(header: _Header, profile: Profile, fmt: BlockFormat, steps: QuantizationSteps, *, two_level: bool) -> str:
    """A profile's rules as one initializer. Raises UnsupportedProfileError."""
    rule, element, scale = steps.scale, steps.element, fmt.scale
    if rule.step not in _STEPS:
        raise UnsupportedProfileError(f"finds scales by {rule.step.value}")
    if element.rounding is Rounding.SR:
        raise UnsupportedProfileError("rounds stochastically")
    low, high = rule.byte_range
    assert scale.nan_code is not None
    policy = element.nan if fmt.element.nan_code is None else element.nan_own
    lost = (0, 0) if policy is NanPolicy.RAISE else nan_codes(fmt.element, policy)
    f = fmt.element
    tensor = profile.tensor if two_level else None

    def over(*, infinite: bool) -> list[int]:
        return [reals.overflow_code(f, s, element.overflow, infinite=infinite, toward_zero=False) for s in (0, 1)]

    half_bits = f.mantissa_bits + 1 if f.exponent_bits else 7
    offset = rule.offset - (f.emax if rule.subtract_emax else 0)
    numbers = [
        _STEPS[rule.step], _pair([_RULES[r] for r in MAGNITUDE_RULES[rule.rounding]]), offset, half_bits,
        int(rule.underflow is ExponentUnderflow.WRAP), low, high, low if rule.on_zero is None else rule.on_zero,
        high if rule.on_inf is None else rule.on_inf, scale.nan_code if rule.on_nan is None else rule.on_nan, _AMAX[profile.amax_nan],
        int(profile.flush_inputs), _pair([_RULES[r] for r in MAGNITUDE_RULES[element.rounding]]), _pair(over(infinite=False)),
        _pair(over(infinite=True)), _pair(lost), _ZERO[element.zero], element.int8_lowest, element.invalid_sign,
        -1 if element.under_nan_scale is None else element.under_nan_scale, _HALF_FLOOR[element.half_floor_domain] if element.add_half_floor_f32 else 0,
        int(element.binade_log2f), int(element.unbounded_fields),
    ]  # fmt: skip
    leaf = _TENSOR[TENSOR_LEAF[tensor.native]] if tensor is not None else "MX_NO_TENSOR"
    functions = [header.expression(e) for e in (rule.value, steps.scaled, steps.dequantize)]
    functions += ["0" if e is None else header.expression(e) for e in (steps.normalize, element.error)]
    functions.append("0" if tensor is None else header.derivation(tensor.derived))
    functions += _other(header, profile, fmt, steps, two_level=two_level)
    head = [f'"{profile.id}"', f'"{fmt.name}"', str(fmt.k), leaf, f"&{header.scalar(f)}", f"&{header.scalar(scale)}", *functions]
    return f"  {{{', '.join(head)},\n   {', '.join(map(str, numbers))}}},"


def _other(header: _Header, profile: Profile, fmt: BlockFormat, steps: QuantizationSteps, *, two_level: bool) -> list[str]:
    """What a row says of a second scale rule, which becomes an object of its own."""
    rule = steps.alternative
    if rule is None:
        return ["0", "0", "0", "0", "0"]
    text = _row(header, profile, fmt, replace(steps, scale=rule.scale, alternative=None), two_level=two_level)
    name = f"mx_other{len(header.others)}"
    header.others.append(f"static const mx_rules {name} =\n{text.rstrip(',')};")
    norm = {ErrorNorm.SQUARED: "MX_SUM_OF_SQUARES", ErrorNorm.ABSOLUTE: "MX_SUM", ErrorNorm.MAXIMUM: "MX_LARGEST"}[rule.norm]
    halves = str(int(rule.order is ErrorOrder.HALVES))
    return [f"&{name}", header.expression(rule.error), norm, halves, str({Domain.EXACT: 0, **_HALF_FLOOR}[rule.total])]


#: Exponents from -150 on for which tables of rounded logarithms have an entry.
_FIRST, _COUNT = -150, 280


def _spacing(n: int, bits: int, *, above: bool) -> Fraction:
    """The distance from an integer to its neighbour above, or below, among numbers of so many significant bits; 0 from 0."""
    if n == 0:
        return Fraction(0)
    away = above == (n > 0)
    top = abs(n).bit_length() - 1
    nearer = 1 if not away and abs(n) == 1 << top else 0
    return Fraction(2) ** (top - (bits - 1) - nearer)


def _power(exponent: Fraction) -> Decimal:
    """2^(64 + exponent) with 60 digits."""
    with localcontext() as context:
        context.prec = 60
        return Decimal(2) ** 64 * ((Decimal(exponent.numerator) / Decimal(exponent.denominator)) * Decimal(2).ln()).exp()


def _log2_tables() -> str:
    """From which significand on a rounded logarithm of what lies below 2^n is n already; up to which one of what lies above is n still."""

    def up(n: int) -> int:
        half = _spacing(n, 24, above=False) / 2
        return ceil(_power(-half)) if half else 0

    def down(n: int) -> int:
        half = _spacing(n, 24, above=True) / 2
        return floor(_power(half - 1)) if half else 1 << 63

    def up_bfloat16(n: int) -> int:
        if n == 0:
            return 0
        tie = n - _spacing(n, 8, above=False) / 2  # a float32; which way it goes, the last bit of n's bfloat16 says
        step = Fraction(2) ** (floor_log2(abs(tie)) - 23)
        odd = reals.encode_real(reals.make_real(Fraction(n)), BFLOAT16) & 1
        least = tie + (step if odd else 0)
        below = step / 2 if abs(least) != Fraction(2) ** floor_log2(abs(least)) or least < 0 else step / 4
        return ceil(_power(least - below - n))

    lines = []
    for name, find in (("mx_log2f_up", up), ("mx_log2f_down", down), ("mx_log2bf16_up", up_bfloat16)):
        words = [f"0x{min(find(n), (1 << 64) - 1):016X}u" for n in range(_FIRST, _FIRST + _COUNT)]
        rows = [f"  {', '.join(words[i : i + 7])}," for i in range(0, _COUNT, 7)]
        lines += [f"static const uint64_t {name}[{_COUNT}] = {{ /* 2^{_FIRST} and on */", *rows, "};"]
    return "\n".join(lines)


def _rcp_pieces() -> str:
    """The pieces of NVIDIA's reciprocal."""
    words = [f"{{{a}, {b}, {c}}}" for a, b, c in PIECES]
    rows = [f"  {', '.join(words[i : i + 6])}," for i in range(0, len(words), 6)]
    return "\n".join([f"static const uint32_t mx_rcp_pieces[{len(words)}][3] = {{", *rows, "};"])


def _pair(values: Iterable[object]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


def profiles_of(fmt: str) -> list[str]:
    """The profiles that the vectors hold for a format, in order."""
    return sorted({name for case in load_quantize_cases(fmt) for name in case.answers})


def list_levels(fmt: str) -> Iterator[tuple[Profile, QuantizationSteps, bool]]:
    """(profile, steps, with tensor scale) of each profile of a format."""
    for name in profiles_of(fmt):
        profile = get_profile(name, fmt)
        for steps, two_level in ((profile.one_level, False), (profile.two_level, True)):
            if steps is not None:
                yield profile, steps, two_level


@dataclass(frozen=True, slots=True)
class C99:
    """The header, and which profiles it has."""

    text: str
    #: (profile, format, with tensor scale), in the order of `mx_all`.
    rows: tuple[tuple[str, str, bool], ...]
    #: (profile, format) -> why it is left out.
    left_out: tuple[tuple[str, str, str], ...]


def write_c99(formats: Iterable[str] = ()) -> C99:
    """The header with every profile of some formats (all of them, if none are named) whose arithmetic it has."""
    header, rows, left_out = _Header(), [], []
    for fmt in formats or ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "nvfp4"):
        for profile, steps, two_level in list_levels(fmt):
            try:
                _row(_Header(), profile, get_block(fmt), steps, two_level=two_level)  # leaves nothing behind if it raises
                header.rows.append(_row(header, profile, get_block(fmt), steps, two_level=two_level))
                rows.append((profile.id, fmt, two_level))
            except UnsupportedProfileError as error:
                left_out.append((profile.id, fmt, str(error)))
    notes = [f" *   {name} ({fmt}): {why}" for name, fmt, why in dict.fromkeys(left_out)]
    runtime = RUNTIME.read_text("utf-8")
    for mark, part in (("@LOG2@", _log2_tables()), ("@RCP@", _rcp_pieces()), ("@BIAS@", str(BIAS))):
        runtime = runtime.replace(mark, part)
    text = "\n".join(
        [
            f"/* {len(rows)} numerical contracts of OCP MX and NVFP4 in C99, integers alone.",
            " *",
            f" * Generated by mxspec {mxspec.__version__} from the profiles' expressions: every statement below the runtime is one operation of one of them.",
            " * Code: Apache-2.0. mx_quantize() and mx_dequantize() take a row of mx_all; numbers go in and out by their bits.",
            *([" * Not here:", *notes] if notes else []), " */", runtime, "/* Formats. */", *header.scalars.values(), "", "/* Expressions. */",
            *header.definitions(), "", *header.others, "static const mx_rules mx_all[] = {", *header.rows, "};", "",
            "/* The rules of a profile; 0 if there are none of this name. */",
            "static inline const mx_rules *mx_find(const char *profile, const char *format, int with_tensor_scale) {",
            "  size_t i, n;", "  for (i = 0; i < sizeof mx_all / sizeof *mx_all; i++) {", "    const mx_rules *r = &mx_all[i];",
            "    for (n = 0; r->profile[n] && r->profile[n] == profile[n]; n++) continue;", "    if (r->profile[n] != profile[n]) continue;",
            "    for (n = 0; r->format[n] && r->format[n] == format[n]; n++) continue;",
            "    if (r->format[n] == format[n] && (r->tensor != MX_NO_TENSOR) == (with_tensor_scale != 0)) return r;", "  }", "  return 0;", "}", "#endif", "",
        ]
    )  # fmt: skip
    return C99(text, tuple(rows), tuple(dict.fromkeys(left_out)))


