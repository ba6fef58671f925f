"""Blocks for every format: boundaries of elements and scales, ends of ranges, special values, shapes."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from mxspec.formats import BFLOAT16, FLOAT16, FLOAT32, BlockFormat, FloatFormat, power_of_two
from mxspec.reals import decode_real, encode_real
from mxspec.scales import log2f_thresholds
from mxspec_vectors.input_case import TOPIC_FLAGS, Input, filler_lanes, full_block, single_block
from mxspec_vectors.points import (
    FLT_MAX,
    INF,
    MIN_NORMAL,
    QUIET_NAN,
    SIGN,
    Stream,
    element_points,
    float_bits,
    neighbours,
    scale_points,
    walking_ones,
)
from mxspec_vectors.recipes import Binades, Positions, binade_bits, scale_bits


def rounding_blocks(fmt: BlockFormat, exponents: list[int], *, thin: int = 1) -> Iterator[Input]:
    """Every rounding boundary with both neighbours, one topic to a block, the largest element value as the maximum.

    thin: in all but the first exponent keep every thin-th point.
    """
    element, k = fmt.element, fmt.k
    top = float_bits(element.max_value)
    for number, exponent in enumerate(exponents):
        for topic in ("tie-even", "below-tie", "above-tie", "exact"):
            points = [b for t, b in element_points(element) if t == topic]
            if number:
                points = points[number % thin :: thin]
            lanes = [scale_bits(b, exponent) for b in points]
            for start in range(0, len(lanes), k - 1):
                part = lanes[start : start + k - 1]
                for sign in (0, SIGN):
                    position = (start + 7 * number + (sign != 0)) % k
                    turn = 3 * number + (sign != 0)
                    yield Input(
                        slug=f"{topic}-e{exponent}-{start}-{'n' if sign else 'p'}",
                        topic=topic,
                        flags=TOPIC_FLAGS[topic],
                        bits=full_block(part, scale_bits(top, exponent) | sign, k, position, turn, sign),
                    )


def scale_blocks(fmt: BlockFormat, exponents: list[int]) -> Iterator[Input]:
    first, last = log2f_thresholds()
    for exponent in exponents:
        points = [scale_bits(point, exponent) for point in scale_points(fmt)]
        # Where log2 rounded to float32 reaches the next power of two, and where it leaves this one.
        points += [float_bits(Fraction(t)) for t in (first[exponent + 150], last[exponent + 149]) if t < 2.0**128]
        for number, point in enumerate(points):
            for side, bits in zip("-0+", neighbours(point), strict=True):
                if bits == 0:
                    continue
                seed = exponent * 16 + number
                yield Input(
                    slug=f"scale-e{exponent}-{number}{side}",
                    topic="scale-boundary",
                    flags=("scale-rule", "float-log2"),
                    bits=single_block(filler_lanes(bits, fmt.k, seed), bits | (SIGN if number % 2 else 0), fmt.k, seed % fmt.k),
                )


def binades_of(fmt: BlockFormat) -> Binades:
    """The recipe of `binade_blocks` for a format."""
    element = fmt.element
    top = float_bits(element.max_value) & 0x7FFFFF
    return Binades(
        points=tuple(b for _, b in element_points(element)),
        significands=(top, 0, top - 1, top & 0x2AAAAA | 1, 1),
        emax=element.emax,
        smallest=float_bits(element.min_subnormal),
    )


def binade_blocks(fmt: BlockFormat) -> Iterator[Input]:
    """One block for each exponent that a maximum can have: its lanes lie at, below and above the element's boundaries.

    From block to block the boundaries move through the lanes, and the maximum changes its place, its significand (the
    element's largest, a power of two, some with low bits; every 16th exponent once more with all ones), its sign and
    that of the others. A third of the blocks hold the maximum twice, a third its half, a third a lane that becomes zero.
    """
    maker = binades_of(fmt)
    for number in range(Binades.COUNT):
        exponent, significand = maker.maximum(number)
        yield Input(
            slug=f"binade-e{exponent}-{significand:x}",
            topic="mixture",
            flags=("ties-away", "double-rounding", "scale-clamp", "position"),
            bits=(maker.block(number, fmt.k),),
            recipe=("binades", number),
        )


def ladder_blocks(fmt: BlockFormat) -> Iterator[Input]:
    """Lanes at every exponent below the maximum, down to the smallest float32."""
    k = fmt.k
    for exponent, step in ((fmt.element.emax, 1), (127, 3)):
        largest = float_bits(fmt.element.max_value * power_of_two(exponent - fmt.element.emax))
        lanes = []
        for number, e in enumerate(range(exponent - 1, -150, -step)):
            significand = (1 << 23, (1 << 24) - 1, 0xC00001)[number % 3]
            lanes.append(binade_bits(significand, e) | (SIGN if number // 2 % 2 else 0))
        for start in range(0, len(lanes), k - 1):
            yield Input(
                slug=f"ladder-e{exponent}-{start}",
                topic="subnormal",
                flags=("element-subnormal", "float32-subnormal"),
                bits=single_block(lanes[start : start + k - 1], largest | (SIGN if start % 2 else 0), k, start % k),
            )


def _narrow(bits: int, dtype: FloatFormat, step: int) -> int | None:
    """float32 bits of a 16-bit float's neighbour; None where bits are not those of such a float."""
    code = encode_real(decode_real(bits, FLOAT32), dtype)
    if float_bits(decode_real(code, dtype).value) != bits:
        return None
    return float_bits(decode_real(max(code + step, 0), dtype).value)


def narrow_blocks(fmt: BlockFormat) -> Iterator[Input]:
    """Inputs that float16 or bfloat16 hold: ties and their neighbours in that dtype, also in its subnormal range."""
    element, k = fmt.element, fmt.k
    ties = [b for topic, b in element_points(element) if topic == "tie-even"]
    emax = element.emax
    for dtype, exponents in ((FLOAT16, (0, 14, -13, -14)), (BFLOAT16, (0, 100, -124, -126))):
        for number, exponent in enumerate(exponents):
            largest = float_bits(element.max_value * power_of_two(exponent - emax))
            found: list[int] = []
            for i, tie in enumerate(ties):
                bits = scale_bits(tie, exponent - emax)
                for side in (0, -1, 1) if len(ties) < 32 else ((i + number) % 3 - 1,):
                    lane = _narrow(bits, dtype, side)
                    if lane is not None and lane <= largest:
                        found.append(lane)
            for start in range(0, len(found), k - 1):
                sign = SIGN if (number + start) % 2 else 0
                part, position = found[start : start + k - 1], (start + 5 * number) % k
                yield Input(
                    slug=f"narrow-{dtype.name}-e{exponent}-{start}",
                    topic="mixture",
                    flags=("ties-away", "truncation", "float32-subnormal"),
                    bits=full_block(part, largest | sign, k, position, number, sign),
                )


def walking_blocks(fmt: BlockFormat) -> Iterator[Input]:
    """Quotients just above ties that go down, by one bit, each bit in turn; the scale is one."""
    k = fmt.k
    points = walking_ones(fmt.element)
    for number, start in enumerate(range(0, len(points), k - 1)):
        yield Input(
            slug=f"walking-{start}",
            topic="above-tie",
            flags=("truncation", "tie-hack"),
            bits=full_block(
                points[start : start + k - 1], float_bits(fmt.element.max_value), k, 7 * number % k, number,
                SIGN if number % 2 else 0,
            ),
        )  # fmt: skip


def extreme_blocks(fmt: BlockFormat) -> Iterator[Input]:
    """The largest and smallest numbers of float16 and of bfloat16, as maxima and next to each other; NaN of all payloads."""
    k = fmt.k
    half = (0x477FE000, 0x33800000, 0x387FC000, 0x38800000)  # 65504, 2**-24, the largest subnormal, the smallest normal
    brain = (0x7F7F0000, 0x00010000, 0x007F0000, 0x00800000)
    for name, (largest, smallest, subnormal, normal) in (("float16", half), ("bfloat16", brain)):
        small = [smallest, smallest | SIGN, subnormal, subnormal | SIGN, normal, normal | SIGN]
        for number, (first, lanes) in enumerate(
            ((largest, small), (largest | SIGN, []), (smallest, [smallest | SIGN, 0]), (normal | SIGN, small[:5]))
        ):
            yield Input(
                slug=f"extreme-{name}-{number}",
                topic="scale-clamp",
                flags=("scale-clamp", "float32-subnormal", "fp16-amax"),
                bits=single_block(lanes, first, k, 9 * number % k),
            )
    one = float_bits(1)
    for number, bits in enumerate((0x7F810000, 0xFFFF0000, 0x7F802000, 0xFFFFE000)):  # bfloat16, then float16
        yield Input(
            slug=f"extreme-nan-{bits:08x}", topic="nan", flags=("nan-lost",),
            bits=single_block([one, one | SIGN, 0], bits, k, 5 * number + 1),
        )  # fmt: skip


def narrow_end_blocks(fmt: BlockFormat) -> Iterator[Input]:
    """bfloat16 blocks at the ends of the range: where inputs, scales, reciprocals or quotients are subnormal, and flushed.

    The maximum goes up from the subnormals to where amax / max leaves them; the lanes lie on both sides of 2**-126.
    """
    element, k = fmt.element, fmt.k
    top = float_bits(element.max_value) & 0x7FFFFF
    fields = sorted({0, 1, 2, 3, *range(element.emax, element.emax + 4), 253, 254})
    significands = [(top, 0, 0x550000)[(field - element.emax - 1) % 3] for field in fields]
    for number, (field, significand) in enumerate(zip(fields, significands, strict=True)):
        largest = (field << 23 | significand) or 0x10000
        lanes = [0x800000, 0x7F0000, 0x400000, 0x810000, 0xFF0000, 0x1000000, 0x10000, 0xC00000, 0x1400000]
        lanes += [_narrow_share(largest, down) for down in (1, 2, 3, element.emax + 1)]
        lanes = [b for b in lanes if b <= largest]
        yield Input(
            slug=f"narrow-end-{largest:08x}",
            topic="scale-clamp",
            flags=("scale-clamp", "float32-subnormal", "eps"),
            bits=full_block(lanes, largest | (SIGN if number % 2 else 0), k, 3 * number % k, number, 0),
        )


def _narrow_share(bits: int, down: int) -> int:
    """bfloat16 bits, as float32, of a number divided by 2**down, cut where bfloat16 cannot hold it."""
    return scale_bits(bits, -down) >> 16 << 16


def overflow_blocks(fmt: BlockFormat) -> Iterator[Input]:
    element = fmt.element
    top = element.max_value
    step = element.magnitude(element.max_code) - element.magnitude(element.max_code - 1)
    limit = power_of_two(element.emax + 1)
    values = [top, top + step / 4, top + step / 2, top + step / 2 + step / 64, top + step * 3 / 4, limit - step / 128]
    for exponent in (0, -9, 20):
        for number, value in enumerate(values):
            if value >= limit:
                value = limit - step / 64
            largest = scale_bits(float_bits(value), exponent)
            lanes = [scale_bits(float_bits(v), exponent) for v in values if v <= value]
            signed = [b | (SIGN if (i + number) % 2 else 0) for i, b in enumerate(lanes)]
            yield Input(
                slug=f"overflow-e{exponent}-{number}",
                topic="overflow",
                flags=("saturation",),
                bits=single_block(signed, largest | (SIGN if number % 2 else 0), fmt.k, number),
            )


def subnormal_blocks(fmt: BlockFormat) -> Iterator[Input]:
    """Tiny blocks: float32 subnormals, scales clamped at the low end; and tiny lanes under ordinary maxima."""
    element, k = fmt.element, fmt.k
    for largest in (1, 2, 3, 0x200, 0x10000, 0x1FFFFF, 0x200000, 0x200001, 0x300000, 0x3FFFFF, 0x400000, 0x400001,
                    0x5FFFFF, 0x600000, 0x600001, 0x7FFFFF, 0x800000, 0x800001, 0xC00000, 0xC00001, 0xFFFFFF,
                    0x1000000, 0x1400000, 0x1400001, 0x1800001, 0x2000000, 0x2600001, 0x4600001, 0x7E00001):  # fmt: skip
        yield Input(
            slug=f"low-{largest:08x}",
            topic="scale-clamp",
            flags=("scale-clamp", "float32-subnormal", "eps", "fp16-amax"),
            bits=single_block(filler_lanes(largest, k, largest), largest, k, largest % k),
        )
    smallest = float_bits(element.min_subnormal)
    for exponent in (0, -20, 30):
        top = scale_bits(float_bits(element.max_value), exponent)
        lanes: list[int] = []
        for value in (smallest, float_bits(element.min_subnormal / 2), float_bits(element.min_normal)):
            lanes += [scale_bits(b, exponent) for b in neighbours(value)]
        lanes += [1, 0x7FFFFF, MIN_NORMAL, scale_bits(float_bits(element.min_subnormal / 4), exponent)]
        signed = [b | (SIGN if i % 2 else 0) for i, b in enumerate(lanes)]
        for sign in (0, SIGN):
            yield Input(
                slug=f"subnormal-e{exponent}-{'n' if sign else 'p'}",
                topic="subnormal",
                flags=("element-subnormal", "double-rounding"),
                bits=single_block([b ^ sign for b in signed], top, k, 3),
            )
            under = [b ^ sign for b in signed if b & 0x7FFFFFFF < scale_bits(smallest, exponent)]
            yield Input(
                slug=f"underflow-e{exponent}-{'n' if sign else 'p'}",
                topic="zero-sign" if element.has_minus_zero or element.twos_complement else "subnormal",
                flags=("zero-sign",),
                bits=single_block([sign, SIGN ^ sign, *under], top, k, 0),
            )


def high_blocks(fmt: BlockFormat) -> Iterator[Input]:
    for largest in (FLT_MAX, 0x7F7FFFFE, 0x7F000000, 0x7F400000, 0x7EFFFFFF, 0x7F600000, 0x7F6FFFFF, 0x7F61B1E6):
        yield Input(
            slug=f"high-{largest:08x}",
            topic="scale-clamp",
            flags=("scale-clamp", "fp16-amax"),
            bits=single_block(filler_lanes(largest, fmt.k, largest), largest, fmt.k, largest % fmt.k),
        )


def special_blocks(fmt: BlockFormat) -> Iterator[Input]:
    k = fmt.k
    one, two = float_bits(1), float_bits(2)
    ordinary = [one, two | SIGN, float_bits(Fraction(3, 2)), 0, SIGN, float_bits(3) | SIGN, float_bits(Fraction(1, 64))]

    def special(slug: str, topic: str, flag: str, lanes: list[int], first: int, position: int = 0) -> Input:
        return Input(slug=slug, topic=topic, flags=(flag,), bits=single_block(lanes, first, k, position))

    yield special("zeros", "zero-block", "zero-block", [0] * k, 0)
    yield special("zeros-negative", "zero-block", "zero-block", [SIGN] * k, SIGN)
    yield special("zeros-mixed", "zero-block", "zero-block", [0, SIGN] * k, SIGN)
    nans = (("quiet", QUIET_NAN), ("negative", QUIET_NAN | SIGN), ("payload", 0x7F800001), ("full", 0x7FFFFFFF),
            ("negative-payload", 0xFF800001), ("negative-full", 0xFFFFFFFF))  # fmt: skip
    for number in range(16):  # all residues of 8, in each quarter of the block
        position = number % k if k < 32 else 2 * number + number // 4 % 2
        name, bits = nans[number % len(nans)]
        yield special(f"nan-{name}-{position}", "nan", "nan-lost", ordinary, bits, position)
    yield special("nan-two", "nan", "nan-lost", [QUIET_NAN, *ordinary], 0x7F800001, k - 3)
    yield special("nan-all", "nan", "nan-lost", [QUIET_NAN] * k, QUIET_NAN)
    yield special("nan-zeros", "nan", "nan-lost", [0, SIGN] * k, QUIET_NAN, 5)
    yield special("nan-tiny", "nan", "nan-lost", [1, MIN_NORMAL] * k, QUIET_NAN | SIGN, 9)
    yield special("nan-inf", "nan", "nan-lost", [INF, *ordinary], QUIET_NAN, 2)
    for name, bits in (("positive", INF), ("negative", INF | SIGN)):
        for position in (0, k - 1):
            yield special(f"inf-{name}-{position}", "inf", "inf-block", ordinary, bits, position)
        yield special(f"inf-{name}-high", "inf", "inf-block", [FLT_MAX, FLT_MAX | SIGN, 0x7E800000, *ordinary], bits, 3)
        yield special(f"inf-{name}-all", "inf", "inf-block", [bits] * k, bits)
    yield special("inf-both", "inf", "inf-block", [INF | SIGN, *ordinary], INF, 4)


#: The recipe of `position_blocks`.
POSITIONS = Positions(lanes=tuple(float_bits(Fraction(3 + 2 * i, 16)) for i in range(5)), largest=(float_bits(5), float_bits(6)))


def position_blocks(fmt: BlockFormat) -> Iterator[Input]:
    """Blocks whose maximum visits every lane, with either sign.

    The first four have no recipe, so that a reader who computes none has some of this topic too.
    """
    for number in range(2 * fmt.k):
        yield Input(
            slug=f"position-{number // 2}-{'pn'[number % 2]}",
            topic="position",
            flags=("position",),
            bits=(POSITIONS.block(number, fmt.k),),
            recipe=("positions", number) if number > 3 else None,
        )


def mixture_blocks(fmt: BlockFormat, count: int) -> Iterator[Input]:
    k = fmt.k
    for number in range(count):
        stream = Stream(1000 + number)
        kind = number % 4
        lanes = []
        for _ in range(k):
            if kind == 0:  # any finite bits
                bits = stream.below(INF)
            elif kind == 1:  # one binade or two around 1
                bits = 0x3F000000 + stream.below(1 << 25)
            elif kind == 2:  # multiples of a quarter, where ties live
                bits = float_bits(Fraction(stream.below(33), 4))
            else:  # bfloat16 values
                bits = 0x3C000000 + (stream.below(0x600) << 16)
            lanes.append(bits | (SIGN if stream.below(2) else 0))
        name = ("bits", "binade", "quarters", "bfloat16")[kind]
        yield Input(slug=f"mixture-{name}-{number}", topic="mixture", flags=("basic",), bits=(tuple(lanes),))


def shape_cases(fmt: BlockFormat) -> Iterator[Input]:
    """Axis, tail, several blocks in a row: small tensors whose lanes, rows and columns differ."""
    k = fmt.k

    def tensor(rows: int, columns: int) -> tuple[tuple[int, ...], ...]:
        values = [float_bits(Fraction(2 * i + 1, 32)) | (SIGN if i % 3 == 1 else 0) for i in range(3 * k)]
        return tuple(
            tuple(
                scale_bits(v & ~SIGN, 2 * (r % 3) - c % 3 + 2 * (c // k) - 3 * (r // k)) | v & SIGN
                for c in range(columns)
                for v in (values[(5 * r + 3 * c + c // k) % (3 * k)],)
            )
            for r in range(rows)
        )

    yield Input(slug="axis-0", topic="axis", flags=("axis",), bits=tensor(2 * k, 3), axis=0)
    yield Input(slug="axis-0-square", topic="axis", flags=("axis",), bits=tensor(k, k), axis=0)
    yield Input(slug="axis-1-wide", topic="axis", flags=("axis",), bits=tensor(2, 3 * k))
    for length in (1, k - 1, k + 1, 2 * k - 3):
        yield Input(slug=f"tail-{length}", topic="tail", flags=("tail",), bits=tensor(1, length), pad=True)
    yield Input(slug="tail-none", topic="tail", flags=("tail",), bits=tensor(2, k), pad=True)
    yield Input(slug="tail-rows", topic="tail", flags=("tail",), bits=tensor(3, k - 4), pad=True)
    yield Input(slug="tail-axis-0", topic="tail", flags=("tail",), bits=tensor(k + 5, 2), axis=0, pad=True)
