"""The tensor scale of NVFP4: three kinds, each profile's own steps from the maximum, refusal, recorded conversion."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mxspec
from mxspec import exact
from mxspec.formats import FLOAT32
from mxspec.profiles import AmaxNan, Profile, TensorScaleKind, get_profile, list_profiles
from mxspec.reals import Real, encode_real
from mxspec.rounding import Overflow
from mxspec.tensorscale import TensorScale, bind_arrays, check_tensor_scale, convert_tensor_scale, derive_tensor_scale, find_tensor_amax
from mxspec_vectors.points import TENSOR_AMAXES

from tests.strategies import tensor_maxima
from tests.support import BFLOAT, FLT_MAX, INF, NAN, NAN_BITS, SIGN, assert_same, bits_of, float_bits, floats, real, rng

TWO_LEVEL: list[Profile] = [p for p in list_profiles("nvfp4") if p.tensor is not None]
IDS = [p.id for p in TWO_LEVEL]
TE, PAPER = get_profile("nvfp4-te", "nvfp4"), get_profile("nvfp4-paper", "nvfp4")
TORCHAO = get_profile("torchao-0.18/nvfp4/eager", "nvfp4")  # its native kind is decode
F = np.float32


def bits(x: Real) -> int:
    """float32 bits of a Real that float32 holds; NaN is the canonical one."""
    return NAN if x.nan else encode_real(x, FLOAT32, overflow=Overflow.OWN)


@pytest.mark.parametrize("profile", TWO_LEVEL, ids=IDS)
def test_native_scales_on_arrays_equal_the_exact_ones(profile: Profile) -> None:
    """Of any maximum: every exponent, special patterns with either sign, random ones."""
    draw = rng("native", profile.id)
    patterns = [e << 23 | draw.randrange(1 << 23) for e in range(256)]
    patterns += [0, 1, INF, INF - 1, NAN, NAN | 1 << 31, INF | 1 << 31, 1 << 31, 0x7F800001, 0xFFFFFFFF]
    patterns += [draw.randrange(1 << 32) for _ in range(200)]
    for amax in patterns:
        exact_scale = exact.derive_tensor_scale(real(amax), profile)
        assert derive_tensor_scale(amax, profile).bits == encode_real(exact_scale, FLOAT32, overflow=Overflow.OWN), amax


@pytest.mark.parametrize("profile", TWO_LEVEL, ids=IDS)
def test_leaves_on_arrays_equal_the_exact_ones(profile: Profile) -> None:
    """S, g and whatever else a profile derives, for ordinary, tiny, huge and special maxima."""
    draw = rng("tensor", profile.id)
    for amax in [*TENSOR_AMAXES.values(), 1, 0x007FFFFF, 0x03280000, 0x03280001, *(draw.randrange(INF) for _ in range(40))]:
        scale = derive_tensor_scale(amax, profile)
        assert profile.tensor is not None
        assert scale.kind is profile.tensor.native
        arrays = bind_arrays(profile, scale)
        numbers = exact.bind_tensor_scale(profile, scale.real)
        assert arrays.keys() == numbers.keys()
        for name, value in arrays.items():
            assert value.dtype == np.float32
            got = NAN if np.isnan(value) else int(bits_of(value))
            assert got == bits(numbers[name]), f"{profile.id} {name} of amax {amax:08x}"


@pytest.mark.parametrize(
    ("name", "native", "steps"),
    [
        ("nvfp4-te", "amax", lambda a: a),
        ("nvfp4-paper", "encode", lambda a: F(2688) / a),
        ("torchao-0.18/nvfp4/eager", "decode", lambda a: a / F(2688)),
        ("torchao-0.18/nvfp4/eager-cuda", "decode", lambda a: a * (F(1) / F(2688))),
        ("modelopt-0.47/nvfp4/dynamic", "decode", lambda a: a / F(2688)),
        ("compressed-tensors-0.20/nvfp4/eager", "encode", lambda a: (F(1) / a) * F(2688)),
        ("fouroversix-0.1/nvfp4/mse", "decode", lambda a: (a / F(1536)).astype(BFLOAT).astype(F)),
    ],
)
def test_steps_from_the_maximum(name: str, native: str, steps: Callable[[np.float32], np.float32]) -> None:
    """Each profile's own operations in float32, written out with NumPy."""
    profile = get_profile(name, "nvfp4")
    for amax in (40.0, 3.1415927410125732, 1.0, 2688.0, 1e-3, 7.25):
        value = F(amax)
        scale = mxspec.tensor_scale(np.array([value / 2, -value, value / 4], np.float32), "nvfp4", name)
        assert scale.kind == native
        assert scale.bits == int(F(steps(value)).view(np.uint32)), (name, amax)
        assert scale.converted_from is None
    assert profile.tensor is not None


def test_special_maxima() -> None:
    """Zero, NaN, Inf, and so tiny that 2688 / amax overflows."""

    def encode_scale(amax: int) -> int:
        return derive_tensor_scale(amax, PAPER).bits

    one = float_bits(1)
    assert encode_scale(0) == one
    assert encode_scale(INF) == one  # 2688 / Inf is 0
    assert encode_scale(1) == FLT_MAX
    assert encode_scale(float_bits(2688)) == one
    # The paper clamps the encode scale of a tiny tensor to FLT_MAX, and NaN stays.
    assert encode_real(derive_tensor_scale(NAN, PAPER).real, FLOAT32, overflow=Overflow.OWN) == NAN
    assert derive_tensor_scale(0, TE).bits == 0
    assert derive_tensor_scale(INF, TE).bits == INF
    assert int(bits_of(bind_arrays(TE, TensorScale(TensorScaleKind.AMAX, 0))["S"])) == one
    assert int(bits_of(bind_arrays(TE, TensorScale(TensorScaleKind.AMAX, INF))["S"])) == one
    assert int(bits_of(bind_arrays(TE, TensorScale(TensorScaleKind.AMAX, 1))["S"])) == FLT_MAX
    kept = float_bits(2688 / real(FLT_MAX).value)  # 2688 / amax is FLT_MAX or less from about here on
    finite = [b for b in range(kept - 4, kept + 5) if np.isfinite(quotient(b))]
    assert 0 < len(finite) < 9
    assert derive_tensor_scale(finite[0], PAPER).bits == int(quotient(finite[0]).view(np.uint32))
    assert derive_tensor_scale(finite[0] - 1, PAPER).bits == FLT_MAX


def quotient(amax: int) -> np.float32:
    """2688 / amax in float32."""
    with np.errstate(over="ignore"):
        return F(F(2688) / floats([amax])[0])


def test_amax_of_a_tensor() -> None:
    x = np.array([[1, -3], [2, -0.0]], np.float32)
    assert find_tensor_amax(x) == float_bits(3)
    assert find_tensor_amax(x[:, ::-1].T) == float_bits(3)
    assert find_tensor_amax(np.zeros((2, 0), np.float32)) == 0
    assert find_tensor_amax(np.array([-0.0], np.float32)) == 0
    assert find_tensor_amax(np.array([np.inf, -np.inf, 1], np.float32)) == INF
    assert find_tensor_amax(floats([1, 2 | SIGN])) == 2
    assert find_tensor_amax(np.array([1, 1.5], np.float16)) == float_bits(1.5)
    assert find_tensor_amax(np.array([1, 1.5], BFLOAT)) == float_bits(1.5)
    assert find_tensor_amax(np.array([1, 0.1], np.float32).astype(np.float64)) == float_bits(1)
    for nan in NAN_BITS:
        with_nan = np.append(x, floats([nan]))[::-1]
        assert find_tensor_amax(with_nan) == NAN
        assert find_tensor_amax(with_nan, nan=AmaxNan.SKIP) == float_bits(3)
    assert find_tensor_amax(floats(NAN_BITS), nan=AmaxNan.SKIP) == 0


def test_a_nan_in_the_tensor_follows_the_profile() -> None:
    x = np.array([np.nan, 6.0], np.float32)
    assert mxspec.tensor_scale(x).bits == NAN
    kernel = mxspec.tensor_scale(x, "nvfp4", "te-2.14/nvfp4/kernel")
    assert (kernel.kind, kernel.bits) == ("amax", float_bits(6))


@pytest.mark.parametrize("profile", TWO_LEVEL, ids=IDS)
def test_auto_is_the_profiles_own_scale_of_the_whole_tensor(profile: Profile) -> None:
    """Over all rows, before padding, whatever the axis."""
    x = np.linspace(-7, 9, 3 * 16, dtype=np.float32).reshape(3, 16)
    expected = mxspec.tensor_scale(x, "nvfp4", profile)
    for axis, pad in ((1, False), (0, True)):
        result = mxspec.quantize(x, "nvfp4", profile=profile, tensor_scale="auto", axis=axis, pad=pad)
        assert result.tensor_scale == expected
        given = mxspec.quantize(x, "nvfp4", profile=profile, tensor_scale=expected, axis=axis, pad=pad)
        assert_same(result.codes, given.codes)
        assert_same(result.scales, given.scales)
        assert_same(result.dequantize(), given.dequantize())


KINDS = {"decode": (TORCHAO, {"encode", "amax"}), "encode": (PAPER, {"decode", "amax"}), "amax": (TE, {"decode", "encode"})}


@pytest.mark.parametrize("native", KINDS)
def test_another_kind_is_refused(native: str) -> None:
    profile, others = KINDS[native]
    x = np.linspace(-3, 3, 16, dtype=np.float32)
    codes, scales = np.zeros(16, np.uint8), np.zeros(1, np.uint8)
    assert profile.tensor is not None
    assert profile.tensor.native == native
    for kind in others:
        scale = TensorScale.from_float(kind, 0.375)
        message = rf"tensor_scale is of kind {kind}, profile {profile.id} stores {native}; pass convert=True"
        with pytest.raises(ValueError, match=message):
            mxspec.quantize(x, "nvfp4", profile=profile, tensor_scale=scale)
        with pytest.raises(ValueError, match=message):
            mxspec.dequantize(codes, scales, "nvfp4", profile=profile, tensor_scale=scale)
        with pytest.raises(ValueError, match=message):
            check_tensor_scale(scale, profile, convert=False)


@pytest.mark.parametrize("native", KINDS)
def test_conversion_is_recorded(native: str) -> None:
    profile, others = KINDS[native]
    x = np.linspace(-3, 3, 16, dtype=np.float32)
    for kind in others:
        given_scale = TensorScale.from_float(kind, 0.375)
        result = mxspec.quantize(x, "nvfp4", profile=profile, tensor_scale=given_scale, convert=True)
        assert result.tensor_scale is not None
        assert result.tensor_scale.kind == native
        assert result.tensor_scale.converted_from == (given_scale.kind, given_scale.bits)
        assert f"converted from {kind} 0x3ec00000" in str(result.tensor_scale)
        values = mxspec.dequantize(result.codes, result.scales, "nvfp4", profile=profile, tensor_scale=given_scale, convert=True)
        assert_same(values, result.dequantize())


@pytest.mark.parametrize("native", KINDS)
def test_the_native_kind_passes_unchanged(native: str) -> None:
    profile, _ = KINDS[native]
    scale = TensorScale.from_float(native, 0.375)
    assert convert_tensor_scale(scale, profile) is scale
    assert check_tensor_scale(scale, profile, convert=True) is scale
    assert check_tensor_scale(scale, profile, convert=False) is scale


@given(tensor_maxima().filter(lambda b: b <= INF), st.sampled_from(sorted(KINDS)), st.sampled_from(sorted(KINDS)))
def test_conversions_are_rounded_once(code: int, source: str, target: str) -> None:
    """decode <-> encode: 1 / v; to amax: v * 2688 or 2688 / v; from amax: the profile's own steps."""
    profile, _ = KINDS[target]
    scale = TensorScale(TensorScaleKind(source), code)
    converted = convert_tensor_scale(scale, profile)
    value = floats([code])[0]
    if source == target:
        assert converted is scale
        return
    with np.errstate(all="ignore"):
        expected = {
            ("decode", "encode"): F(1) / value,
            ("encode", "decode"): F(1) / value,
            ("decode", "amax"): value * F(2688),
            ("encode", "amax"): F(2688) / value,
        }.get((source, target))
    wanted = derive_tensor_scale(code, profile).bits if expected is None else int(F(expected).view(np.uint32))
    assert converted.bits == wanted
    assert converted.converted_from == (scale.kind, code)


def test_reciprocals_do_not_always_return() -> None:
    """Why conversion has to be requested: of 2000 scales in a binade, a good part comes back changed."""
    codes = [float_bits(1) + n * 4099 for n in range(1, 2000)]
    changed = 0
    for code in codes:
        there = convert_tensor_scale(TensorScale(TensorScaleKind.DECODE, code), PAPER)
        back = convert_tensor_scale(TensorScale(TensorScaleKind.ENCODE, there.bits), TORCHAO)
        changed += back.bits != code
    assert 200 < changed < 800


def test_profiles_without_a_tensor_scale_refuse_one() -> None:
    x, scale = np.ones(32, np.float32), TensorScale.from_float("amax", 1.0)
    with pytest.raises(ValueError, match="profile mx-floor of mxfp4 has no tensor scale; only nvfp4 has one"):
        mxspec.tensor_scale(x, "mxfp4")
    ggml = get_profile("ggml-0.21/nvfp4", "nvfp4")
    with pytest.raises(ValueError, match=r"profile ggml-0.21/nvfp4 of nvfp4 has no tensor scale; pass tensor_scale=None"):
        mxspec.tensor_scale(x, "nvfp4", ggml)
    with pytest.raises(ValueError, match=r"profile ggml-0\.21/nvfp4 has no tensor scale; pass tensor_scale=None"):
        convert_tensor_scale(scale, ggml)
    with pytest.raises(ValueError, match="profile mx-floor has no tensor scale"):
        exact.derive_tensor_scale(real(0x3F800000), get_profile("mx-floor", "mxfp4"))


@pytest.mark.parametrize("profile", [p for p in TWO_LEVEL if p.one_level is None], ids=lambda p: str(p.id))
def test_profiles_without_a_one_level_form_ask_for_a_scale(profile: Profile) -> None:
    message = rf"no tensor scale was given, and profile {profile.id} has no such form; pass tensor_scale='auto'"
    with pytest.raises(ValueError, match=message):
        mxspec.quantize(np.ones(16, np.float32), "nvfp4", profile=profile)
    with pytest.raises(ValueError, match=message):
        mxspec.dequantize(np.zeros(16, np.uint8), np.zeros(1, np.uint8), "nvfp4", profile=profile)


def test_from_float() -> None:
    assert TensorScale.from_float("decode", 0.5) == TensorScale(TensorScaleKind.DECODE, 0x3F000000)
    assert TensorScale.from_float("amax", 40) == TensorScale(TensorScaleKind.AMAX, float_bits(40))
    assert TensorScale.from_float(TensorScaleKind.ENCODE, float("inf")).bits == INF
    assert TensorScale.from_float("amax", float(F(0.1))).value == float(F(0.1))
    assert np.isnan(TensorScale.from_float("amax", float("nan")).value)
    for value in (0.1, 1e-46, 1e39, 2**24 + 1, 2**60 + 1):
        with pytest.raises(ValueError, match=r"value = .* exactly a float32; round it yourself"):
            TensorScale.from_float("amax", value)


def test_a_tensor_scale_is_checked() -> None:
    assert TensorScale("decode", 1).kind is TensorScaleKind.DECODE  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'scale' is not a valid TensorScaleKind"):
        TensorScale("scale", 1)  # type: ignore[arg-type]
    for wrong in (-1, 1 << 32):
        with pytest.raises(ValueError, match=r"are not those of a float32; pass 0 to 0xffffffff"):
            TensorScale(TensorScaleKind.DECODE, wrong)
    scale = TensorScale(TensorScaleKind.ENCODE, 0x3EAAAAAB)
    viewed = TensorScale(TensorScaleKind.ENCODE, floats([0x3EAAAAAB]).view(np.uint32)[0])
    assert (viewed, type(viewed.bits)) == (scale, int)
    assert str(scale) == "encode 0x3eaaaaab = 0.3333333432674408"
    assert scale.real == real(0x3EAAAAAB)
    assert {scale, TensorScale(TensorScaleKind.ENCODE, 0x3EAAAAAB)} == {scale}


@pytest.mark.parametrize("profile", mxspec.list_profiles("nvfp4", kind="normative"), ids=lambda p: p.id)
def test_a_normative_profile_maps_zero_to_zero_or_says_where_not(profile: mxspec.Profile) -> None:
    """One number among zeros, of every binade and the ends of the smallest ones."""
    bits = [m | e << 23 for e in range(255) for m in (0, 0x266666, 0x7FFFFF)] + list(range(1, 40))
    lost = []
    for maximum in floats(bits):
        x = np.zeros((1, 16), np.float32)
        x[0, 3] = maximum
        values = mxspec.quantize(x, "nvfp4", profile=profile, tensor_scale="auto").dequantize()
        if np.delete(values, 3).any():
            lost.append(float(maximum))
    assert bool(lost) == bool(profile.lost_zeros), lost[:3]
    assert profile.lost_zeros in profile.summary
    reach = {"nvfp4-paper": (0, 1.8e-38), "nvfp4-te": (7.59e35, np.inf), "nvfp4-decode": (0, 4.3e-45)}
    assert all(reach[profile.id][0] <= v <= reach[profile.id][1] for v in lost)
