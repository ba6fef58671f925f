"""Mistakes in the text of the C99 header, each of which a solver has to find."""

from __future__ import annotations

from dataclasses import dataclass

from mxspec.enums import StrEnum


class Function(StrEnum):
    """What a claim is about."""

    SCALE = "scale"
    ELEMENT = "element"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One place of the header, changed."""

    id: str
    what: str
    function: Function
    format: str
    profile: str
    old: str
    new: str

    def apply(self, text: str) -> str:
        """The changed header. Raises ValueError where the place is not there exactly once."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.id}: {self.old!r} stands {text.count(self.old)} times in the header, not once")
        return text.replace(self.old, self.new)


_EVEN = "case MX_EVEN: return n + (rest == 3 || (rest == 2 && (n & 1)));"
_E, _S = Function.ELEMENT, Function.SCALE

MUTANTS = (
    Mutant("ties-away", "ties go away from zero", _E, "mxfp4", "mx-floor", _EVEN, "case MX_EVEN: return n + (rest >= 2);"),
    Mutant("ties-to-zero", "ties go to zero", _E, "mxfp6_e2m3", "mx-floor", _EVEN, "case MX_EVEN: return n + (rest == 3);"),
    Mutant("ties-to-odd", "ties go to the odd code", _E, "mxfp6_e3m2", "mx-floor", _EVEN, "case MX_EVEN: return n + (rest == 3 || (rest == 2 && !(n & 1)));"),
    Mutant("truncates", "what is cut off is dropped", _E, "mxfp8_e5m2", "mx-floor", _EVEN, "case MX_EVEN: return n;"),
    Mutant("rounds-up", "whatever is cut off adds a step", _E, "mxint8", "mx-floor", _EVEN, "case MX_EVEN: return n + (rest != 0);"),
    Mutant(
        "sticky-lost", "more than a half counts as a half", _E, "mxfp8_e4m3", "mx-floor",
        "*rest = !cut ? 0 : cut < half ? 1 : cut == half ? 2 : 3;", "*rest = !cut ? 0 : cut < half ? 1 : 2;",
    ),
    Mutant(
        "last-bit-ignored", "the last bit of the element is not looked at", _E, "mxfp4", "mx-floor",
        "return mx_make(MX_FINITE, sign, field ? part | 0x800000 : part,", "return mx_make(MX_FINITE, sign, (field ? part | 0x800000 : part) & ~1u,",
    ),
    Mutant(
        "inputs-flushed", "subnormal elements count as zero", _E, "mxfp8_e4m3", "mx-floor",
        "field ? part | 0x800000 : part,", "field ? part | 0x800000 : 0,",
    ),
    Mutant(
        "subnormal-exponent", "the exponent of subnormal elements is one too low", _E, "mxfp6_e2m3", "mx-floor",
        "(int32_t)(field ? field : 1) - 150);", "(int32_t)field - 150);",
    ),
    Mutant(
        "codes-flushed", "codes below the smallest normal one become zero", _E, "mxfp8_e5m2", "mx-floor",
        "n = mx_code(cut, f, rule);", "n = mx_code(cut, f, rule); if (f->e && n < 1 << f->m) n = 0;",
    ),
    Mutant("clamp-off-by-one", "the first value beyond the largest is not clamped", _E, "mxfp4", "mx-floor", "if (n > f->top || (rule", "if (n > f->top + 1 || (rule"),
    Mutant("clamp-missing", "nothing beyond the largest value is clamped", _E, "mxfp6_e3m2", "mx-floor", "if (n > f->top || (rule", "if ((rule"),
    Mutant(
        "carry-lost", "a significand that rounds up to 2 becomes 1", _E, "mxfp8_e4m3", "mx-floor",
        "return base + (int64_t)mx_steps(a, lsb, rule);", "return base + (int64_t)(f->e ? mx_steps(a, lsb, rule) & ((2u << f->m) - 1) : mx_steps(a, lsb, rule));",
    ),
    Mutant("minus-one-off", "negative integers are one too low", _E, "mxint8", "mx-floor", "return sign && code ? 256 - code : code;", "return sign && code ? 255 - code : code;"),
    Mutant(
        "byte-0-is-normal", "scale byte 00 divides by 2^-126", _E, "mxfp8_e5m2", "mx-floor",
        "mx_make(MX_FINITE, 0, 1, code - 127); /* e8m0 */", "mx_make(MX_FINITE, 0, 1, code ? code - 127 : -126);",
    ),
    Mutant("floor-for-ceil", "the exponent is rounded down", _S, "mxfp4", "mx-ceil", "if (r->step == MX_STEP_CEIL) e +=", "if (r->step == MX_STEP_ENCODE) e +="),
    Mutant("ceil-for-floor", "the exponent is rounded up", _S, "mxfp8_e4m3", "mx-floor", "if (r->step == MX_STEP_CEIL) e +=", "if (r->step == MX_STEP_FLOOR) e +="),
    Mutant("ceil-of-powers", "powers of two are rounded up, too", _S, "mxfp6_e2m3", "mx-ceil", "if (r->step == MX_STEP_CEIL) e += !mx_is_power(v);", "if (r->step == MX_STEP_CEIL) e += 1;"),
    Mutant(
        "threshold-exclusive", "the threshold of half up belongs to the side below", _S, "mxfp4", "mx-even",
        "e += v.sig >= ~(((uint64_t)1", "e += v.sig > ~(((uint64_t)1",
    ),
    Mutant("threshold-at-quarter", "half up adds a quarter of a step", _S, "mxfp8_e5m2", "mx-even", "(63 - r->half_bits)) - 1);", "(62 - r->half_bits)) - 1);"),
    Mutant("emax-off-by-one", "the exponent is one too high", _S, "mxfp6_e3m2", "mx-floor", "e += r->offset + r->scale->bias;", "e += r->offset + r->scale->bias + 1;"),
    Mutant(
        "low-clamp-at-one", "the lowest scale byte is 01", _S, "mxfp4", "mx-floor",
        "return n < low ? low : n > high ? high : (int)n;", "return n < low + 1 ? low + 1 : n > high ? high : (int)n;",
    ),
    Mutant(
        "high-clamp-missing", "a maximum near the largest float32 gives the NaN byte", _S, "mxint8", "mx-ceil",
        "return n < low ? low : n > high ? high : (int)n;", "return n < low ? low : (int)n;",
    ),
    Mutant(
        "quotient-floor", "amax / max is rounded down", _S, "mxfp8_e4m3", "mx-rceil",
        "r->rounding[0] == MX_UP ? !mx_is_power(v) :", "r->rounding[0] == MX_UP ? 0 :",
    ),
    Mutant(
        "quotient-nearest", "amax / max is rounded to the nearest power of two", _S, "mxfp4", "mx-rceil",
        "r->rounding[0] == MX_UP ? !mx_is_power(v) :", "r->rounding[0] == MX_UP ? v.sig > tie :",
    ),
)  # fmt: skip
