"""Blocks for NVFP4: scale codes, orders of operations, reciprocals, tensor scales, tiles."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from mxspec.formats import get_block, power_of_two
from mxspec.profiles import Profile, get_profile
from mxspec.stepfunctions import element_steps, scale_steps
from mxspec.tensorscale import TensorScale, derive_tensor_scale
from mxspec_vectors.input_case import TOPIC_FLAGS, Input, filler_lanes, full_block, single_block
from mxspec_vectors.points import (
    FLT_MAX,
    INF,
    MIN_NORMAL,
    ORDINARY_AMAXES,
    QUIET_NAN,
    SIGN,
    TENSOR_AMAXES,
    bits_value,
    element_points,
    float_bits,
    neighbours,
)
from mxspec_vectors.recipes import binade_bits, scale_bits


def nvfp4_scale_steps(profile: str, tensor_amax: int | None) -> tuple[int, ...]:
    """float32 bits of the block maxima at which a profile's NVFP4 scale byte changes."""
    rules = get_profile(profile, "nvfp4")
    steps = scale_steps(rules, get_block("nvfp4"), _tensor_scale(rules, tensor_amax))
    return tuple(steps.below(INF).rises.tolist())


def _tensor_scale(profile: Profile, amax: int | None) -> TensorScale | None:
    return None if amax is None else derive_tensor_scale(amax, profile)


def nvfp4_scale_blocks() -> Iterator[Input]:
    """Blocks whose scale lies at a boundary of the scale encoder, under several tensor scales."""
    k = 16
    for name in ORDINARY_AMAXES:
        steps = nvfp4_scale_steps("nvfp4-te", TENSOR_AMAXES[name])
        first = 0 if name == "unit" else len(name) * 5 % 3
        for number, step in enumerate(steps[first :: 1 if name == "unit" else 3]):
            for side, bits in zip("-0+", neighbours(step), strict=True):
                if bits > TENSOR_AMAXES[name] or side != "-0+"[number % 3]:
                    continue
                yield Input(
                    slug=f"scale-{name}-{number}{side}",
                    topic="scale-tie",
                    flags=("scale-rounding", "order", "scale-subnormal", "scale-saturation"),
                    bits=single_block(filler_lanes(bits, k, step), bits | (SIGN if number % 2 else 0), k, number % k),
                    tensor_amax=TENSOR_AMAXES[name],
                )


def _code_steps(profile: str, tensor: int | None, largest: int) -> list[int]:
    """float32 bits of the positive elements at which a profile's code changes, in a block with this maximum."""
    rules = get_profile(profile, "nvfp4")
    [steps] = element_steps(rules, get_block("nvfp4"), _tensor_scale(rules, tensor), [largest], sign=0)
    found: list[int] = steps.rises.tolist()
    return found


def nvfp4_byte_blocks() -> Iterator[Input]:
    """One block for each scale byte: the last lane before and the first after each boundary between codes.

    Two of three blocks also hold the maximum twice, or its half.
    """
    k = 16
    for name, profile in ((None, "nvfp4-te"), ("odd", "nvfp4-te"), ("third", "nvfp4-paper")):
        tensor = None if name is None else TENSOR_AMAXES[name]
        steps = nvfp4_scale_steps(profile, tensor)
        ends = [1, *steps, steps[-1] + MIN_NORMAL if tensor is None else tensor]
        for number, (low, high) in enumerate(pairwise(ends)):
            largest = (low + high) // 2
            boundaries = _code_steps(profile, tensor, largest)
            lanes = [b for s in boundaries for b in (s - 1, s)]
            if number % 3 < 2:
                lanes = [*lanes[:13], largest if number % 3 else scale_bits(largest, -1)]
            sign = SIGN if number % 4 > 1 else 0
            block = full_block(lanes, largest | sign, k, 5 * number % k, 3 * number, sign)
            if number % 4 in (1, 2):
                block = (tuple(b & ~SIGN | sign for b in block[0]),)
            yield Input(
                slug=f"byte-{name or 'one-level'}-{number}",
                topic="mixture",
                flags=("order", "ties-away", "double-rounding"),
                bits=block,
                tensor_amax=tensor,
            )


def nvfp4_element_blocks() -> Iterator[Input]:
    """For blocks with odd scales: each lane at the float where a profile's code changes, and its neighbours."""
    k = 16
    shares = (Fraction(1), Fraction(5, 7), Fraction(1, 3), Fraction(11, 640), Fraction(1, 1500))
    for turn, name in enumerate(ORDINARY_AMAXES):
        tensor = TENSOR_AMAXES[name]
        for profile in ("nvfp4-te", "nvfp4-paper"):
            for number, share in enumerate(shares):
                largest = float_bits(bits_value(tensor) * share)
                steps = _code_steps(profile, tensor, largest)
                for side in range(3):
                    yield Input(
                        slug=f"element-{profile[6:]}-{name}-{share.numerator}of{share.denominator}{'-0+'[side]}",
                        topic=("below-tie", "tie-even", "above-tie")[side],
                        flags=("order", *TOPIC_FLAGS[("below-tie", "tie-even", "above-tie")[side]]),
                        bits=full_block(
                            [neighbours(s)[side] for s in steps], largest, k, (4 + 3 * number) % k, turn + number,
                            SIGN if profile == "nvfp4-paper" else 0,
                        ),
                        tensor_amax=tensor,
                    )  # fmt: skip


def nvfp4_tensor_blocks() -> Iterator[Input]:
    k = 16
    for name, tensor in TENSOR_AMAXES.items():
        finite = tensor if tensor < INF else FLT_MAX
        for number, share in enumerate((1, 2, 3, 7, 100, 448, 2688, 5376, 10**5)):
            largest = finite // 1 if share == 1 else float_bits(bits_value(finite) / share)
            lanes = filler_lanes(largest, k, number) if largest else [0, SIGN] * k
            yield Input(
                slug=f"tensor-{name}-{share}",
                topic="tensor-scale",
                flags=("tensor-scale", "scale-subnormal", "order"),
                bits=single_block(lanes, largest, k, number),
                tensor_amax=tensor,
            )


def nvfp4_end_blocks() -> Iterator[Input]:
    """Maxima whose scale is the largest, or zero: the lanes lie at the boundaries between codes under that scale."""
    k = 16
    exponents = (12, 13, 26, 45, 60, 92, 110, 127, -149, -137, -127, -126, -125, -100, -86, -45, -13)
    for number, exponent in enumerate(exponents):
        largest = binade_bits((0xC00001, 0xFFFFFF)[number % 2], exponent)
        for profile in ("nvfp4-te", "nvfp4-paper"):
            boundaries = _code_steps(profile, None, largest)
            lanes = [b for s in boundaries for b in neighbours(s)] or [0]
            turn = 2 if profile == "nvfp4-te" else 0
            sign = SIGN if (number + turn) % 3 else 0
            yield Input(
                slug=f"end-e{exponent}-{profile[6:]}",
                topic="mixture",
                flags=("scale-saturation", "scale-subnormal", "double-rounding"),
                bits=full_block(lanes, largest | sign, k, (5 * number + turn) % k, 5 * turn + 7 * (number % 2), sign),
            )


def nvfp4_stale_blocks() -> Iterator[Input]:
    """Blocks under the scale of another tensor: maxima beyond its own, infinities, NaN, and far below its smallest scale."""
    k = 16
    for turn, name in enumerate(("odd", "third", "large", "tiny", "huge")):
        tensor = TENSOR_AMAXES[name]

        def stale(slug: str, topic: str, lanes: list[int], first: int, position: int, tensor: int = tensor, name: str = name) -> Input:
            flags = ("tensor-scale", {"nan": "nan-lost", "inf": "inf-block"}.get(topic, "scale-saturation"))
            return Input(
                slug=f"stale-{name}-{slug}", topic=topic, flags=flags, bits=single_block(lanes, first, k, position),
                tensor_amax=tensor,
            )  # fmt: skip

        lanes = filler_lanes(tensor, k, 7 * turn)
        for number, bits in enumerate((QUIET_NAN, 0xFF800001)):
            yield stale(f"nan-{number}", "nan", lanes, bits, (5 * turn + 9 * number) % k)
        for number, bits in enumerate((INF, INF | SIGN)):
            yield stale(f"inf-{number}", "inf", lanes, bits, (3 * turn + 7 * number) % k)
        yield stale("inf-both", "inf", [INF | SIGN, *lanes], INF, turn)
        yield stale("nan-inf", "nan", [INF, *lanes], QUIET_NAN | SIGN, turn + 2)
        for factor in (Fraction(17, 16), Fraction(3), Fraction(100), Fraction(1 << 20)):
            if bits_value(tensor) * factor < bits_value(FLT_MAX):
                largest = float_bits(bits_value(tensor) * factor)
                sign = SIGN if factor.numerator % 2 else 0
                yield stale(
                    f"times-{factor.numerator}of{factor.denominator}", "tensor-scale", filler_lanes(largest, k, turn),
                    largest | sign, (turn + int(factor)) % k,
                )  # fmt: skip
        for number, share in enumerate((480_000, 10**6, 10**7, 10**9, 1 << 60)):
            largest = float_bits(bits_value(tensor) / share)
            if largest:
                yield stale(
                    f"share-{share}", "tensor-scale", filler_lanes(largest, k, number),
                    largest | (SIGN if number % 2 else 0), (turn + 5 * number) % k,
                )  # fmt: skip


def nvfp4_reciprocal_blocks() -> Iterator[Input]:
    """Where one step of a reciprocal decides: exact ties under scales whose reciprocal is rounded, in all dtypes; and the
    lanes before and after each boundary of a profile that multiplies by approximate reciprocals.
    """
    k = 16
    ties = [b for topic, b in element_points(get_block("nvfp4").element) if topic == "tie-even"]
    for number, significand in enumerate(range(9, 16)):
        for name in (None, "unit"):
            scale = Fraction(significand, 8) * power_of_two((0, -3, 4)[number % 3])
            exact = [float_bits(bits_value(t) * scale) for t in ties]
            lanes = [*exact, *(b + (0x10000, -0x10000)[(i + number) % 2] for i, b in enumerate(exact))]
            yield Input(
                slug=f"reciprocal-{name or 'one-level'}-{significand}",
                topic="tie-even",
                flags=("order", "double-rounding"),
                bits=full_block(
                    lanes, float_bits(6 * scale), k, 5 * number % k, number, SIGN if name is None else 0
                ),
                tensor_amax=None if name is None else TENSOR_AMAXES[name],
            )  # fmt: skip
    # 2688 / fl(1/3) is nearly 8064 = 7 * 9 * 128: powers of two lie next to 7/2 and 7/4 under scales of 9/8 * 2**n.
    for number, exponent in enumerate((1, -2, 4)):
        largest = float_bits(Fraction(27, 4) * power_of_two(exponent) / 8064) + 0x1000 >> 13 << 13
        powers = [float_bits(Fraction(7, 2) * Fraction(9, 8) * power_of_two(exponent - j) / 8064 * (1 << 12)) for j in (0, 1)]
        lanes = [scale_bits(b, -12) + 0x8000 >> 16 << 16 for b in powers]
        yield Input(
            slug=f"reciprocal-third-{exponent}", topic="mixture", flags=("order",),
            bits=full_block(lanes, largest, k, 4 * number, number, 0), tensor_amax=TENSOR_AMAXES["third"],
        )  # fmt: skip
    shares = (Fraction(1), Fraction(5, 7), Fraction(1, 3), Fraction(11, 640), Fraction(1, 1500))
    for turn, name in enumerate(("odd", "third", "thousandth")):
        tensor = TENSOR_AMAXES[name]
        for number, share in enumerate(shares):
            largest = float_bits(bits_value(tensor) * share)
            steps = _code_steps("te-2.14/nvfp4/kernel-rht-fastmath", tensor, largest)
            yield Input(
                slug=f"reciprocal-{name}-{share.numerator}of{share.denominator}", topic="mixture", flags=("order",),
                bits=full_block([b for s in steps for b in (s - 1, s)], largest, k, 3 * number, turn + number, 0),
                tensor_amax=tensor,
            )  # fmt: skip


def nvfp4_narrow_end_blocks() -> Iterator[Input]:
    """bfloat16 blocks of the smallest numbers, also under tensor scales: flushed inputs next to kept ones."""
    k = 16
    for number, (name, field) in enumerate((n, f) for n in (None, "odd", "tiny", "subnormal") for f in (0, 1, 2, 8)):
        largest = field << 23 | (0x7F0000, 0x400000)[number % 2]
        lanes = [0x800000, 0x7F0000, 0x400000, 0x810000, 0x1000000, 0x10000]
        lanes = [b for b in lanes if b <= largest]
        yield Input(
            slug=f"narrow-end-{name or 'one-level'}-{largest:08x}",
            topic="scale-clamp",
            flags=("scale-subnormal", "float32-subnormal", "tensor-scale"),
            bits=full_block(lanes, largest | (SIGN if number % 3 else 0), k, 3 * number % k, number, 0),
            tensor_amax=None if name is None else TENSOR_AMAXES[name],
        )


def nvfp4_narrow_blocks() -> Iterator[Input]:
    """Blocks that bfloat16 and float16 hold, with and without a tensor scale: maxima adjacent to those whose scale is a
    tie, and lanes on both sides of each boundary between codes.
    """
    k = 16
    scales = [Fraction(s, 16) for s in (17, 19, 25, 31)]  # midpoints between neighbours of e4m3
    for number, name in enumerate((None, "unit", "odd", "one", "third")):
        tensor = None if name is None else TENSOR_AMAXES[name]
        unit = Fraction(1) if tensor is None else bits_value(tensor) / 2688
        for turn, scale in enumerate(scales):
            step = 0x2000 if turn % 2 else 0x10000  # of float16, of bfloat16
            largest = float_bits(6 * scale * unit * (256 if tensor is not None else 1)) // step * step
            largest += step * ((turn + number) % 2)
            boundaries = _code_steps("nvfp4-te", tensor, largest)
            lanes = [b // step * step + up for b in boundaries for up in (0, step)]
            yield Input(
                slug=f"narrow-{name or 'one-level'}-{largest:08x}",
                topic="mixture",
                flags=("order", "scale-rounding", "double-rounding"),
                bits=full_block(
                    [b for b in lanes if b <= largest], largest, k, (5 * turn + number) % k, number + turn, 0
                ),
                tensor_amax=tensor,
            )  # fmt: skip


def nvfp4_tiny_tensor_blocks() -> Iterator[Input]:
    """Tensors so small that the reciprocal of their encode scale is subnormal, under the smallest block scales."""
    k = 16
    values = [Fraction(v, 4) for v in (1, 2, 3, 5, 6, 8, 10, 13, 16, 20, 24)]
    for number, exponent in enumerate((-106, -110, -115, -118)):
        tensor = binade_bits((0x800000, 0xC00001)[number % 2], exponent)
        unit = bits_value(tensor) / 2688
        for turn, code in enumerate((1, 3, 6, 9)):
            scale = get_block("nvfp4").scale.magnitude(code) * unit
            lanes = [float_bits(v * scale) for v in values]
            yield Input(
                slug=f"tiny-tensor-{exponent}-{code}",
                topic="tensor-scale",
                flags=("tensor-scale", "scale-subnormal", "float32-subnormal"),
                bits=full_block(lanes, float_bits(6 * scale), k, (3 * turn + number) % k, turn, 0),
                tensor_amax=tensor,
            )


#: Blocks for which Transformer Engine's choice between two scales depends on the order in which errors are added;
#: found by search, about one in a million.
_ORDER_OF_ERRORS = {
    "odd": (0xBEF53B55, 0xBF2E9F4E, SIGN, 0x401289C3, 0, 0x3FACFF1F, 0xBF7C8A4D, SIGN, 0x3FFD4A30, 0, SIGN, 0, 0, 0, 0, 0),
    "third": (
        0, 0x3E2EF06D, 0xBD0CEFB3, SIGN, 0, 0x3E2B2801, 0x3D57B3B0, 0, SIGN, 0, SIGN, SIGN, 0xBE48199D, 0, 0x3DA26906, 0,
    ),
}  # fmt: skip


def nvfp4_error_blocks() -> Iterator[Input]:
    for name, bits in _ORDER_OF_ERRORS.items():
        yield Input(slug=f"error-order-{name}", topic="mixture", flags=("order",), bits=(bits,), tensor_amax=TENSOR_AMAXES[name])


def nvfp4_tile_cases() -> Iterator[Input]:
    values = [[float_bits(Fraction((7 * r + 11 * c) % 97 + 1, 16 + abs(11 - r))) for c in range(32)] for r in range(32)]
    rows = tuple(tuple(b | (SIGN if (r + c) % 5 == 0 else 0) for c, b in enumerate(row)) for r, row in enumerate(values))
    yield Input(slug="tile-32x32", topic="position", flags=("tile",), bits=rows, tensor_amax=float_bits(40), block=(16, 16))
    # Two tiles whose maxima lie elsewhere, the other way round, and blocks along the first axis.
    turned = tuple(tuple(rows[31 - r][(5 * c + 3) % 32] for c in range(16)) for r in range(32))
    yield Input(
        slug="tile-axis-0", topic="axis", flags=("tile", "axis"), bits=turned, tensor_amax=float_bits(40), axis=0,
        block=(16, 16),
    )  # fmt: skip
