"""Groups for affine integers: what a kernel of the field gets wrong, in the format's own dtype.

Everything here is a pure function of the format: integers and rationals, the same on any platform.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from mxspec.affine.formats import AffineFormat, Offset
from mxspec.formats import FloatFormat
from mxspec.reals import decode_real, encode_real, make_real
from mxspec_vectors.points import Stream

#: The document's worked example.
WORKED_EXAMPLE = (Fraction(-1, 2), Fraction(-3, 10), Fraction(1, 10), Fraction(2, 5), Fraction(4, 5))


@dataclass(frozen=True, slots=True)
class GroupInput:
    """One group to quantize."""

    slug: str
    topic: str
    #: Bits of the values in the format's dtype.
    bits: tuple[int, ...]
    flags: tuple[str, ...] = ("basic",)


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """One group to dequantize."""

    slug: str
    topic: str
    codes: tuple[int, ...]
    #: Bits of the scale, and of the bias, or the zero point.
    scale: int
    offset: int
    flags: tuple[str, ...] = ("basic",)


def round_bits(value: Fraction | int, scalar: FloatFormat, *, negative_zero: bool = False) -> int:
    """The bits of a rational, rounded to nearest even, saturating."""
    return encode_real(make_real(Fraction(value), negative_zero=negative_zero), scalar)


def _fill(values: list[int], group: int) -> tuple[int, ...]:
    """Values repeated to a group."""
    return tuple(values[i % len(values)] for i in range(group))


def _peak(place: int, peak: int, i: int) -> Fraction | int:
    """A peak at one place, small values around it."""
    return peak if i == place else Fraction(i % 5, 8)


def _times(factor: Fraction, group: int, i: int) -> Fraction:
    """Values from -1 to 1, times a factor."""
    return Fraction(i * 23 % group * 2 - group, group) * factor


def list_groups(fmt: AffineFormat) -> tuple[GroupInput, ...]:
    """The groups of a format, in order."""
    return tuple(_list_groups(fmt))


def _list_groups(fmt: AffineFormat) -> Iterator[GroupInput]:
    scalar, group, bins = fmt.scalar, fmt.group, fmt.bins

    def bits(value: Fraction | int) -> int:
        return round_bits(value, scalar)

    def spread(slug: str, topic: str, value: Callable[[int], Fraction | int], *flags: str) -> GroupInput:
        return GroupInput(slug, topic, tuple(bits(value(i)) for i in range(group)), flags or ("basic",))

    yield GroupInput("worked-example", "mixture", _fill([bits(v) for v in WORKED_EXAMPLE], group))

    # Every code once, in an order in which no two neighbours are alike, so that a moved value shows.
    yield spread("every-code", "position", lambda i: (i * 7 + i // (bins + 1)) % (bins + 1), "position-code")
    yield spread("every-code-negative", "position", lambda i: -((i * 5 + 1) % (bins + 1)), "position-code")
    for place in (0, 1, group // 2, group - 1):
        yield spread(f"largest-at-{place}", "position", partial(_peak, place, 8), "position")
        yield spread(f"smallest-at-{place}", "position", partial(_peak, place, -8), "position")

    # Ends on one side of zero, far from it, mirrored.
    yield spread("positive", "affine-range", lambda i: 5 + Fraction(i * 37 % group, group), "affine-range")
    yield spread("negative", "affine-range", lambda i: -5 - Fraction(i * 37 % group, group), "affine-range")
    yield spread("from-zero", "affine-range", lambda i: Fraction(i * 11 % group, 16), "affine-range")
    yield spread("to-zero", "affine-range", lambda i: -Fraction(i * 11 % group, 16), "affine-range")
    yield spread("mirrored", "affine-range", lambda i: Fraction((i * 13 % group) * 2 - group + 1, 7), "affine-range", "negative-scale")
    yield spread("mostly-negative", "affine-range", lambda i: Fraction(i * 29 % group, 64) - 3, "affine-range", "negative-scale")
    yield spread("mostly-positive", "affine-range", lambda i: 3 - Fraction(i * 29 % group, 64), "affine-range", "negative-scale")

    # Midpoints between codes, exactly, and the values next to them; the step is a power of two.
    step = Fraction(1, 4)
    ties = [bits((2 * i + 1) * step / 2) for i in range(bins)]
    ends = [bits(0), bits(bins * step)]
    for slug, topic, move in (("tie", "tie-even", 0), ("below-tie", "below-tie", -1), ("above-tie", "above-tie", 1)):
        for number, start in enumerate(range(0, bins, max(group - 2, 1))):
            chosen = [t + move for t in ties[start : start + group - 2]]
            yield GroupInput(f"{slug}-{number}", topic, _fill([*ends, *chosen], group), ("ties-away",))
            if number == 1:
                break

    # The same next to midpoints of a step that fewer bits do not hold: rounding the scale on the way moves them.
    odd = Fraction(513, 512)
    near = [bits((2 * i + 1) * odd / 2) for i in range(min(bins, group - 2))]
    for slug, move in (("odd-step-below", -1), ("odd-step-above", 1)):
        placed = [bits(0), bits(bins * odd), *(t + move for t in near)]
        yield GroupInput(slug, "mixture", _fill(placed, group), ("scale-bits",))

    # One value in each group, and what lies near one.
    for slug, value in (("one", Fraction(1)), ("minus-one", Fraction(-1)), ("third", Fraction(1, 3)), ("small", Fraction(1, 3000))):
        yield GroupInput(f"constant-{slug}", "constant", (bits(value),) * group, ("constant",))
    yield GroupInput("constant-tiny", "constant", (bits(scalar.min_subnormal),) * group, ("constant",))
    one = bits(1)
    yield GroupInput("almost-constant", "constant", _fill([one, one + 1], group), ("constant",))
    zero, minus_zero = bits(0), round_bits(0, scalar, negative_zero=True)
    yield GroupInput("zeros", "zero-block", (zero,) * group, ("constant",))
    yield GroupInput("zeros-of-both-signs", "zero-block", _fill([zero, minus_zero, minus_zero], group), ("constant", "zero-sign"))
    yield GroupInput("negative-zeros", "zero-block", (minus_zero,) * group, ("constant", "zero-sign"))

    # Ranges that a dtype's ends, its subnormals, or a constant in the code meet.
    exponents = (-30, -24, -17, -14, -9, 0, 7, 14) if scalar.name == "float16" else (-130, -100, -40, -24, -17, 0, 14, 60, 120)
    for exponent in exponents:
        slug = f"exponent-{exponent}" if exponent >= 0 else f"exponent-m{-exponent}"
        yield spread(slug, "affine-extreme", partial(_times, Fraction(2) ** exponent, group), "affine-extreme")
    top = decode_real(scalar.max_code, scalar).value
    yield spread("largest", "affine-extreme", lambda i: top if i % 3 == 0 else -top if i % 7 == 0 else Fraction(i), "affine-extreme")
    yield spread("outlier", "affine-extreme", lambda i: 1000 if i == 3 else Fraction(i * 31 % group - group // 2, group), "affine-extreme")
    # 16-bit floats that are other numbers in the other 16-bit dtype, all of them ordinary.
    yield spread("sixteen-bits", "affine-extreme", lambda i: Fraction(256 + i * 41 % 256, 256) * (-1) ** i, "scale-bits")

    stream = Stream(fmt.bits * 1000 + fmt.group)
    for number in range(6):
        # Sums of four uniform numbers of 12 bits, as good as normal ones.
        center, width = Fraction(stream.below(64) - 32, 16), Fraction(1 + stream.below(31), 8)
        draws = [sum(stream.below(4096) for _ in range(4)) - 8192 for _ in range(group)]
        values = tuple(bits(center + width * Fraction(d, 4096)) for d in draws)
        yield GroupInput(f"random-{number}", "mixture", values)

    finite = [bits(Fraction(i * 19 % group, 8)) for i in range(group)]
    for slug, topic, special in (
        ("nan", "nan", [scalar.nan_code or 0]),
        ("inf", "inf", [scalar.inf_code or 0]),
        ("minus-inf", "inf", [(scalar.inf_code or 0) | scalar.sign_bit]),
        ("both-inf", "inf", [scalar.inf_code or 0, (scalar.inf_code or 0) | scalar.sign_bit]),
    ):
        yield GroupInput(slug, topic, (*finite[: group - len(special)], *special), ("nan-lost" if topic == "nan" else "inf-block",))
    yield GroupInput("all-nan", "nan", (scalar.nan_code or 0,) * group, ("nan-lost",))


def list_stored(fmt: AffineFormat) -> tuple[StoredGroup, ...]:
    """The stored groups of a format, in order."""
    return tuple(_list_stored(fmt))


def _list_stored(fmt: AffineFormat) -> Iterator[StoredGroup]:
    scalar, group, bins = fmt.scalar, fmt.group, fmt.bins
    is_bias = fmt.offset is Offset.BIAS
    stream = Stream(fmt.bits * 2000 + fmt.group)

    def bits(value: Fraction | int) -> int:
        return round_bits(value, scalar)

    def codes(start: int) -> tuple[int, ...]:
        return tuple((start + i * 7 + i // (bins + 1)) % (bins + 1) for i in range(group))

    def stored(slug: str, topic: str, scale: Fraction, offset: Fraction | int, number: int, *flags: str) -> StoredGroup:
        return StoredGroup(slug, topic, codes(number * 3), bits(scale), bits(offset) if is_bias else int(offset), flags or ("basic",))

    offsets: tuple[tuple[str, Fraction | int], ...]
    if is_bias:
        offsets = (("zero", 0), ("half", Fraction(-1, 2)), ("third", Fraction(-4, 3)), ("positive", Fraction(7, 5)), ("large", -100))
    else:
        offsets = tuple((f"z{z}", z) for z in dict.fromkeys((0, 1, bins // 2, bins // 2 + 1, bins)))
    scales = (
        ("one", Fraction(1)), ("quarter", Fraction(1, 4)), ("tenth", Fraction(1, 10)), ("seventh", Fraction(1, 7)),
        ("minus-third", Fraction(-1, 3)), ("thousandth", Fraction(1, 1000)), ("hundred", Fraction(1001, 10)),
    )  # fmt: skip
    number = 0
    for place, (scale_name, scale) in enumerate(scales):
        # Two offsets with each scale: all offsets, and the pairs in turn.
        for offset_name, offset in (offsets[2 * place % len(offsets)], offsets[(2 * place + 1) % len(offsets)]):
            topic = "affine-code" if scale_name in ("one", "quarter") else "affine-rounding"
            flag = "negative-scale" if scale < 0 else "affine-order" if topic == "affine-rounding" else "position-code"
            yield stored(f"{scale_name}-{offset_name}", topic, scale, offset, number, flag)
            number += 1
    for number in range(8):
        scale = Fraction(1 + stream.below(1 << 11), 1 << 10 + stream.below(8)) * (-1 if stream.below(4) == 0 else 1)
        # About half a range below zero, where q * s and b nearly cancel: there the order of roundings shows most.
        offset = -scale * Fraction(stream.below(bins * 16 + 1), 16) if is_bias else stream.below(bins + 1)
        random_codes = tuple(stream.below(bins + 1) for _ in range(group))
        yield StoredGroup(
            f"random-{number}", "affine-rounding", random_codes, bits(scale), bits(offset) if is_bias else int(offset), ("affine-order",)
        )
    ends = (
        ("subnormal", scalar.min_subnormal * 3),
        ("smallest-normal", scalar.min_normal),
        ("largest", decode_real(scalar.max_code, scalar).value / 4),
    )
    for name, scale in ends:
        for offset_name, offset in (("low", 0), ("high", Fraction(1, 3) if is_bias else bins)):
            yield stored(f"{name}-{offset_name}", "affine-extreme", scale, offset, number, "affine-extreme")
            number += 1
    yield stored("zero-scale", "constant", Fraction(0), Fraction(5, 8) if is_bias else bins // 2, number, "constant")
    # float16 0x3c00 is 1, as bfloat16 it is 0.0078; bfloat16 0x3f80 is 1, as float16 1.875.
    yield stored("sixteen-bits", "affine-extreme", Fraction(1), -1 if is_bias else 1, number, "scale-bits")
    yield StoredGroup("nan-scale", "nan", codes(0), scalar.nan_code or 0, bits(1) if is_bias else 1, ("nan-lost",))
    yield StoredGroup("inf-scale", "inf", codes(1), scalar.inf_code or 0, bits(1) if is_bias else 0, ("inf-block",))
