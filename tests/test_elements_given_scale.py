"""Elements under a given scale, and what each lane tests."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec import exact, reals
from mxspec.elements_given_scale import LaneClass, classify_lanes, encode_given_scale, scale_lanes
from mxspec.exact import EXACT
from mxspec.expressions import evaluate, leaves
from mxspec.formats import BLOCKS, ELEMENTS
from mxspec.profiles import Profile, get_profile
from mxspec.reals import Real, decode_real, make_real
from mxspec.rounding import NanPolicy, Rounding
from mxspec.tensorscale import TensorScale, bind_arrays, derive_tensor_scale
from mxspec_vectors.inputs import quantize_inputs
from mxspec_vectors.points import TENSOR_AMAXES

from tests.support import PAIR_NAMES, PAIRS, Array, Codes, Float32s, around, assert_same, float_bits, floats, magnitudes, reals_of, rng


def sample(fmt: str, count: int, *names: object, special: bool = True) -> Float32s:
    """Blocks of the vectors [count, k], drawn by the run's seed."""
    rows = [
        c.bits[0] for c in quantize_inputs(fmt) if len(c.bits) == 1 and len(c.bits[0]) == BLOCKS[fmt].k and (special or c.topic != "nan")
    ]
    return np.array(rng("given", *names).sample(rows, count), np.uint32).view(np.float32)


def levels(profile: Profile, *names: object) -> list[TensorScale | None]:
    """No tensor scale where the profile has such a form, and one of the vectors'."""
    found: list[TensorScale | None] = [] if profile.one_level is None else [None]
    if profile.two_level is not None:
        found.append(derive_tensor_scale(rng("levels", *names).choice(list(TENSOR_AMAXES.values())), profile))
    return found


def encode_exactly(x: Float32s, scales: Codes, fmt: str, profile: Profile, scale: TensorScale | None) -> Codes:
    """The codes of blocks [n, k] under scale bytes [n] by the exact model's stages."""
    shape = BLOCKS[fmt]
    level = profile.steps(with_tensor_scale=scale is not None)
    bindings: dict[str, Real] = {"M": make_real(shape.element.max_value)}
    if scale is not None:
        bindings |= exact.bind_tensor_scale(profile, scale.real)
    result = np.empty(x.shape, np.uint8)
    for i, (row, byte) in enumerate(zip(x, scales, strict=True)):
        block = exact.prepare_block(reals_of(row), profile, level, bindings)
        sf = decode_real(int(byte), shape.scale)
        known = {**bindings, "amax": exact.find_amax(block, profile.amax_nan), "sf": sf}
        scaled = [evaluate(level.scaled, {**known, "x": v}, EXACT) for v in block]
        if sf.nan and level.element.under_nan_scale is not None:
            codes = [level.element.under_nan_scale] * len(block)
        elif level.element.error is not None:
            codes = [
                exact._search_code({**known, "x": v, "scaled": s}, level.element.error, shape.element)
                for v, s in zip(block, scaled, strict=True)
            ]
        else:
            codes = [exact.encode_element(s, v, sf.nan, level.element, shape.element) for v, s in zip(block, scaled, strict=True)]
            if level.element.unbounded_fields:
                codes = list(exact.share_bytes(codes))
        result[i] = codes
    return result


def encode_arrays(x: Float32s, scales: Codes, fmt: str, profile: Profile, scale: TensorScale | None, **options: Any) -> tuple[Codes, Array]:
    level = profile.steps(with_tensor_scale=scale is not None)
    bindings = {} if scale is None else bind_arrays(profile, scale)
    return encode_given_scale(x, scales, BLOCKS[fmt], profile, level, bindings, **options)


@pytest.mark.parametrize(("profile", "fmt"), PAIRS, ids=PAIR_NAMES)
def test_under_its_own_scale_it_is_the_profile(profile: Profile, fmt: str) -> None:
    refuses = profile.one_level is not None and profile.one_level.element.nan is NanPolicy.RAISE
    x = sample(fmt, 60, profile.id, fmt, special=not refuses)
    for scale in levels(profile, fmt):
        result = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale)
        codes, _ = encode_arrays(x, result.scales[:, 0], fmt, profile, scale)
        assert_same(codes, result.codes, lambda i: f"{profile.id} {fmt} {scale}")  # noqa: B023


@pytest.mark.parametrize(("profile", "fmt"), PAIRS, ids=PAIR_NAMES)
def test_under_any_scale_it_is_the_exact_model(profile: Profile, fmt: str) -> None:
    """Other bytes than the block's own: next to it, at the ends, the format's NaN."""
    draw = rng("any scale", profile.id, fmt)
    refuses = profile.one_level is not None and profile.one_level.element.nan is NanPolicy.RAISE
    top = BLOCKS[fmt].scale.code_count - 1
    x = sample(fmt, 4, "any", profile.id, fmt, special=not refuses)
    for scale in levels(profile, fmt):
        own = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale).scales[:, 0].astype(int)
        # Under a NaN scale gfloat would refuse every lane, not only NaN.
        highest = top - 1 if refuses else top
        shifted = [min(max(int(b) + draw.choice((-1, 1, 2)), 0), highest) for b in own[:2]]
        bytes_ = np.array([*shifted, draw.choice((0, 1, top - 1)), draw.randrange(top) if refuses else top], np.uint8)
        got, _ = encode_arrays(x, bytes_, fmt, profile, scale)
        expected = encode_exactly(x, bytes_, fmt, profile, scale)
        assert_same(got, expected, lambda i: f"{profile.id} {fmt} {scale}: byte {bytes_[i[0]]:02x}, block {x[i[0]]}")  # noqa: B023


@pytest.mark.parametrize("mode", [Rounding.RNA, Rounding.RNZ, Rounding.RTZ, Rounding.RNU])
def test_a_variant_of_the_rule(mode: Rounding) -> None:
    """The same quotients with another element rule: what a mutant would return."""
    profile = get_profile("mx-floor", "mxfp4")
    assert profile.one_level is not None
    variant = replace(profile.one_level.element, rounding=mode)
    x = np.resize(np.array([2.5, -2.5, 5.0, -5, 0.25, -0.75, 1.1, 6], np.float32), 32)[None, :]
    scales = np.array([127], np.uint8)
    plain, scaled = encode_arrays(x, scales, "mxfp4", profile, None)
    changed, _ = encode_arrays(x, scales, "mxfp4", profile, None, rule=variant)
    assert scaled.tolist() == x.astype(np.float64).tolist()
    assert_same(plain, mxspec.encode(x, "e2m1"))
    assert_same(changed, mxspec.encode(x, "e2m1", rounding=mode))
    assert (plain != changed).any()


def test_scaled_elements_are_exact_quotients() -> None:
    profile = get_profile("mx-floor", "mxfp8_e4m3")
    x = sample("mxfp8_e4m3", 50, "quotients", special=False)
    assert profile.one_level is not None
    bytes_ = np.arange(0, 250, 5, dtype=np.uint8)
    scaled, known = scale_lanes(x, bytes_, BLOCKS["mxfp8_e4m3"], profile, profile.one_level, {})
    assert scaled.dtype == np.float64
    assert set(known) == {"M", "amax", "sf", "x"}
    for row, lanes, byte in zip(x, scaled, bytes_, strict=True):
        for value, quotient in zip(reals_of(row), lanes, strict=True):
            expected = reals.divide(value, make_real(Fraction(2) ** (int(byte) - 127)))
            if expected.is_finite:
                assert Fraction(float(quotient)) == expected.value
            else:
                assert np.isinf(quotient)


#: What a lane of e2m1 tests, and scaled numbers that test it.
E2M1_CLASSES = {
    LaneClass.ZERO: (0.0, -0.0, 0.1, 0.2499), LaneClass.TIE: (0.25, 0.75, -1.25, 2.5, 5.0), LaneClass.SUBNORMAL: (0.3,), LaneClass.PLAIN: (1.1, 4.6),
    LaneClass.EXACT: (1.0, -1.5, 6.0), LaneClass.OVERFLOW: (6.01, -7.0), LaneClass.SPECIAL: (np.inf, -np.inf, np.nan),
}  # fmt: skip


def test_classes_by_hand() -> None:
    for lane, numbers in E2M1_CLASSES.items():
        scaled = np.array(numbers, np.float32)
        assert classify_lanes(scaled, np.ones_like(scaled), ELEMENTS["e2m1"]).tolist() == [lane] * len(numbers)
    assert classify_lanes(scaled.astype(np.float64), np.ones_like(scaled), ELEMENTS["e2m1"]).dtype == np.int8
    special = classify_lanes(np.zeros(2, np.float32), np.array([np.inf, np.nan], np.float32), ELEMENTS["e2m1"])
    assert special.tolist() == [LaneClass.SPECIAL] * 2


@pytest.mark.parametrize("element", ELEMENTS.values(), ids=ELEMENTS)
def test_ties_and_their_neighbours_are_found(element: Any) -> None:
    """At every midpoint: the tie, up to four floats either side, and none of these further away."""
    grid = magnitudes(element)
    for low, high in pairwise(grid):
        middle = float_bits((low + high) / 2)
        bits = around(middle, 4)
        x = floats(bits)
        for sign in (1, -1):
            found = classify_lanes(x * np.float32(sign), x, element).tolist()
            below, above = found[:4], found[5:]
            assert found[4] == LaneClass.TIE
            assert set(below) == {LaneClass.BELOW_TIE}, (element.name, float(low))
            assert set(above) == {LaneClass.ABOVE_TIE}, (element.name, float(low))
    far = np.array([float(low + (high - low) * Fraction(5, 8)) for low, high in pairwise(grid)], np.float32)
    assert not {int(LaneClass.TIE), int(LaneClass.BELOW_TIE), int(LaneClass.ABOVE_TIE)} & set(classify_lanes(far, far, element).tolist())


@pytest.mark.parametrize("element", ELEMENTS.values(), ids=ELEMENTS)
def test_values_of_the_element_are_exact_or_subnormal(element: Any) -> None:
    grid = np.array([float(v) for v in magnitudes(element)], np.float32)
    found = classify_lanes(grid, grid, element).tolist()
    normal = float(element.min_normal)
    expected = [LaneClass.ZERO if v == 0 else LaneClass.SUBNORMAL if v < normal else LaneClass.EXACT for v in grid.tolist()]
    assert found == [int(c) for c in expected]
    beyond = np.nextafter(grid[-1:], np.float32(np.inf))
    assert classify_lanes(beyond, beyond, element).tolist() == [LaneClass.OVERFLOW]


@pytest.mark.parametrize("fmt", list(BLOCKS))
def test_quantize_takes_scales(fmt: str) -> None:
    """Under its own scales every profile answers as without them, or says why it cannot; under others the definition decides."""
    refused, draw = set(), rng("static", fmt)
    x = sample(fmt, 6, "static", fmt, special=False)
    scales = np.array([[draw.randrange(0x7E)] for _ in x], np.uint8)
    for profile in mxspec.list_profiles(fmt):
        for tensor in levels(profile, fmt, profile.id):
            own = mxspec.quantize(x, fmt, profile=profile, tensor_scale=tensor)
            steps = profile.steps(with_tensor_scale=tensor is not None)
            if "amax" in leaves(steps.scaled):
                with pytest.raises(ValueError, match="looks at a block's maximum"):
                    mxspec.quantize(x, fmt, profile=profile, tensor_scale=tensor, scales=own.scales)
                refused.add(profile.id)
                continue
            assert mxspec.quantize(x, fmt, profile=profile, tensor_scale=tensor, scales=own.scales) == own, profile.id
            t = mxspec.quantize(x, fmt, profile=profile, tensor_scale=tensor, scales=scales)
            bindings = {} if tensor is None else bind_arrays(profile, tensor)
            codes, _ = encode_given_scale(x, scales[:, 0], BLOCKS[fmt], profile, steps, bindings)
            assert_same(t.scales, scales)
            assert_same(t.codes, codes)
    normative = {p.id for p in mxspec.list_profiles(fmt, kind="normative")}
    assert not refused & normative


def test_given_scales_lie_as_found_ones() -> None:
    """Along other axes, in tiles, before a ragged end, with random bits."""
    x = np.linspace(-9, 7, 40 * 48, dtype=np.float32).reshape(40, 48)
    words = np.arange(x.size, dtype=np.uint32).reshape(x.shape) << np.uint32(20)
    ways: tuple[dict[str, Any], ...] = (
        {"axis": 0, "pad": True}, {"block": (16, 16), "pad": True}, {"block": (16, 16), "axis": 0, "pad": True}, {"random_bits": words},
    )  # fmt: skip
    for options in ways:
        t = mxspec.quantize(x, "nvfp4", **options)
        assert mxspec.quantize(x, "nvfp4", scales=t.scales, **options) == t
    twice = mxspec.quantize(x, "mxfp4", pad=True)
    halved = mxspec.quantize(x / 2, "mxfp4", pad=True, scales=twice.scales - 1)
    assert_same(halved.codes, twice.codes)
    with pytest.raises(ValueError, match=r"scales have shape \(2,\); x, in whole blocks of shape \(2, 32\), needs \(2, 1\)"):
        mxspec.quantize(x[:2, :32], "mxfp4", scales=np.zeros(2, np.uint8))
    with pytest.raises(ValueError, match="scales differ within a tile of 16 rows"):
        mxspec.quantize(x[:16, :16], "nvfp4", block=(16, 16), scales=np.arange(16, dtype=np.uint8)[:, None])
    with pytest.raises(TypeError, match="scales has dtype float32"):
        mxspec.quantize(x[:2, :32], "mxfp4", scales=np.ones((2, 1), np.float32))
