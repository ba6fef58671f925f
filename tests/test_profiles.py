"""Every registered profile in every format that it covers: the array model equals the exact one, bit for bit.

Scale bytes, codes and dequantized values, on all special blocks of the vectors, on a sample of the others (the run's
seed chooses it), on threshold-directed hypothesis blocks, without and with tensor scales. Then the registry.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mxspec
from mxspec import exact as exact_model, profiles
from mxspec.blocks import _total_error, prepare_rows, quantize_rows
from mxspec.elements import decode_table
from mxspec.exact import bind_tensor_scale
from mxspec.expressions import AMAX, SF, TMAX, Domain, G, Q, S, X, exact, f32
from mxspec.formats import BLOCKS, ElementFormat
from mxspec.profiles import (
    Evidence,
    Kind,
    Profile,
    Transform,
    TransformKind,
    find_variant,
    get_profile,
    list_profiles,
    name_main_profile,
    register_profile,
)
from mxspec.profiles.schema import AmaxNan, ElementRule, QuantizationSteps, ScaleRule, ScaleStep, TensorRule, TensorScaleKind
from mxspec.reals import make_real
from mxspec.rounding import DETERMINISTIC, NanPolicy, Overflow, Rounding, ZeroPolicy
from mxspec.tensorscale import TensorScale, bind_arrays, derive_tensor_scale
from mxspec_vectors.input_case import Input
from mxspec_vectors.inputs import quantize_inputs
from mxspec_vectors.points import TENSOR_AMAXES

from tests.strategies import blocks, tensor_maxima
from tests.support import (
    FLOAT_TYPES,
    PAIR_NAMES,
    PAIRS,
    SIGN,
    Array,
    Codes,
    ExactValues,
    Float32s,
    assert_same,
    bits_of,
    block_format,
    exact_quantize,
    float_of,
    floats,
    reals_of,
    rng,
)

AMAXES = tuple(TENSOR_AMAXES.values())
SPECIAL_TOPICS = ("nan", "inf", "zero-block")


@cache
def rows_of(fmt: str) -> tuple[tuple[Input, ...], tuple[Input, ...]]:
    """The vectors' single blocks of a format: the special ones, and the rest."""
    single = [c for c in quantize_inputs(fmt) if len(c.bits) == 1 and len(c.bits[0]) == BLOCKS[fmt].k and c.block is None]
    special = tuple(c for c in single if c.topic in SPECIAL_TOPICS)
    return special, tuple(c for c in single if c.topic not in SPECIAL_TOPICS)


def scales_for(profile: Profile, count: int, offset: int) -> list[TensorScale | None]:
    """Tensor scales for `count` blocks: the vectors' tensor maxima in turn; None for a profile of one level."""
    if profile.tensor is None or profile.two_level is None:
        return [None] * count
    return [derive_tensor_scale(AMAXES[(i + offset) % len(AMAXES)], profile) for i in range(count)]


def prove(x: Float32s, fmt: str, profile: Profile, scale: TensorScale | None, *, outputs: Sequence[str]) -> None:
    """Arrays equal exact numbers for rows [n, k] under one tensor scale."""
    level = profile.steps(with_tensor_scale=scale is not None)
    if level.element.nan is NanPolicy.RAISE and np.isnan(x).any():
        x = prove_refusal(x, fmt, profile, scale)
    scales, codes = exact_quantize(x, fmt, profile, scale)

    def describe(index: tuple[int, ...]) -> str:
        row = " ".join(f"{b:08x}" for b in bits_of(x[index[0]]))
        return f"{profile.id}, {fmt}, tensor scale {scale}, block {row}"

    result = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale)
    assert_same(result.scales, scales, describe)
    assert_same(result.codes, codes, describe)
    bindings = {} if scale is None else bind_arrays(profile, scale)
    general_scales, general_codes = quantize_rows(x, block_format(fmt), profile, level, bindings)
    assert_same(general_scales, scales, describe)
    assert_same(general_codes, codes, describe)
    exact_values = ExactValues(fmt, profile, scale)
    for dtype in outputs:
        expected = exact_values.bits(codes, scales, dtype)
        assert_same(result.dequantize(FLOAT_TYPES[dtype][0]), expected, describe)


def prove_refusal(x: Float32s, fmt: str, profile: Profile, scale: TensorScale | None) -> Float32s:
    """Both models refuse each row that holds a NaN; the rows without one."""
    lost = np.isnan(x).any(axis=-1)
    for row in x[lost]:
        with pytest.raises(ValueError, match="the input holds a NaN and nan='raise' forbids it"):
            exact_quantize(row[None, :], fmt, profile, scale)
        with pytest.raises(ValueError, match="the input holds a NaN and nan='raise' forbids it"):
            mxspec.quantize(row, fmt, profile=profile, tensor_scale=scale)
    return x[~lost]


def grouped(cases: Sequence[Input], scales: Sequence[TensorScale | None]) -> Iterator[tuple[Float32s, TensorScale | None]]:
    """Blocks by their tensor scale, so that each needs one call."""
    for scale in dict.fromkeys(scales):
        rows = [c.bits[0] for c, s in zip(cases, scales, strict=True) if s == scale]
        yield np.array(rows, np.uint32).view(np.float32), scale


@pytest.mark.parametrize(("profile", "fmt"), PAIRS, ids=PAIR_NAMES)
def test_special_blocks(profile: Profile, fmt: str) -> None:
    """NaN, infinities and zeros, one level and two."""
    special, _ = rows_of(fmt)
    if profile.one_level is not None:
        x = np.array([c.bits[0] for c in special], np.uint32).view(np.float32)
        prove(x, fmt, profile, None, outputs=["float32"])
    if profile.two_level is not None:
        offset = rng("special", profile.id).randrange(len(AMAXES))
        for x, scale in grouped(special, scales_for(profile, len(special), offset)):
            prove(x, fmt, profile, scale, outputs=["float32"])


@pytest.mark.parametrize(("profile", "fmt"), PAIRS, ids=PAIR_NAMES)
def test_sampled_blocks(profile: Profile, fmt: str) -> None:
    """A sample of the vectors' blocks; with a tensor scale, the one that each block was made for where it has one."""
    draw = rng("sample", profile.id, fmt)
    _, ordinary = rows_of(fmt)
    cases = draw.sample(ordinary, 14)
    if profile.one_level is not None:
        x = np.array([c.bits[0] for c in cases[:8]], np.uint32).view(np.float32)
        prove(x, fmt, profile, None, outputs=list(FLOAT_TYPES))
    if profile.two_level is not None:
        amaxes = [draw.choice(AMAXES) if c.tensor_amax is None else c.tensor_amax for c in cases]
        scales = [derive_tensor_scale(a, profile) for a in amaxes]
        for x, scale in grouped(cases, scales):
            prove(x, fmt, profile, scale, outputs=[draw.choice(list(FLOAT_TYPES))])


@pytest.mark.parametrize(("profile", "fmt"), PAIRS, ids=PAIR_NAMES)
@settings(max_examples=max(5, settings().max_examples // 6))
@given(data=st.data())
def test_drawn_blocks(profile: Profile, fmt: str, data: st.DataObject) -> None:
    """Blocks at the thresholds of their own scale, in a dtype that the stack takes."""
    x = data.draw(blocks(fmt, data.draw(st.sampled_from(profile.dtypes))))
    scale = None
    if profile.two_level is not None and (profile.one_level is None or data.draw(st.booleans())):
        scale = derive_tensor_scale(data.draw(tensor_maxima()), profile)
    wide = x.astype(np.float32)[None, :]
    prove(wide, fmt, profile, scale, outputs=["float32"])
    if profile.id.startswith("gfloat-") and np.isnan(x).any():
        return  # it refuses
    narrow = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale)
    again = mxspec.quantize(wide[0], fmt, profile=profile, tensor_scale=scale)
    assert_same(narrow.codes, again.codes)
    assert_same(narrow.scales, again.scales)


@pytest.mark.parametrize(("profile", "fmt"), PAIRS, ids=PAIR_NAMES)
def test_dequantize_every_code(profile: Profile, fmt: str) -> None:
    """Every code under scale bytes at the ends, around one, at the format's NaN, and drawn ones."""
    block = BLOCKS[fmt]
    draw = rng("dequantize", profile.id, fmt)
    top = block.scale.code_count - 1
    chosen = {0, 1, top - 1, top, draw.randrange(top), draw.randrange(top)}
    if block.element.bits < 8:
        chosen |= {2, 8, top - 2, 0x38, 0x37} | {draw.randrange(top) for _ in range(5)}
    k = block.k
    every = np.resize(np.arange(block.element.code_count), -(-block.element.code_count // k) * k).astype(np.uint8)
    codes = np.tile(every.reshape(-1, k), (len(chosen), 1))
    scales = np.repeat(np.array(sorted(chosen), np.uint8), every.size // k)[:, None]
    names = list(FLOAT_TYPES)
    tensor_scales: list[TensorScale | None] = [] if profile.one_level is None else [None]
    if profile.two_level is not None:
        tensor_scales += [derive_tensor_scale(a, profile) for a in draw.sample(AMAXES, 3)]
    for scale in tensor_scales:
        values = ExactValues(fmt, profile, scale)
        for dtype in ("float32", draw.choice(("float16", "bfloat16"))) if scale is None else draw.sample(names, 1):
            got = mxspec.dequantize(codes, scales, fmt, profile=profile, tensor_scale=scale, dtype=FLOAT_TYPES[dtype][0])
            expected = values.bits(codes, scales, dtype)
            assert_same(
                got,
                expected,
                lambda i: f"{profile.id}: code {codes[i]:02x} under {scales[i[0], 0]:02x}, {scale}",  # noqa: B023
            )


ALTERNATIVES = [p for p in list_profiles("nvfp4") if p.two_level is not None and p.two_level.alternative is not None]


@pytest.mark.parametrize("profile", ALTERNATIVES, ids=lambda p: str(p.id))
def test_error_totals(profile: Profile) -> None:
    """The float32 sums that a search compares, bit for bit: the order of addition shows in nearly every block."""
    draw = np.random.default_rng(rng("totals", profile.id).randrange(1 << 32))
    x = draw.standard_normal((5, 16)).astype(np.float32)
    x[0] *= np.float32(2.0**40)
    scale = derive_tensor_scale(int(draw.choice(AMAXES[:6])), profile)
    level, fmt = profile.steps(with_tensor_scale=True), block_format("nvfp4")
    bindings = {**bind_arrays(profile, scale), "M": np.float32(6)}
    scales, codes = quantize_rows(x, fmt, profile, level, bindings)
    got = _total_error(prepare_rows(x, profile, level, bindings), scales, codes, level, fmt, bindings)
    numbers = {**bind_tensor_scale(profile, scale.real), "M": make_real(6)}
    for row, total in zip(x, got, strict=True):
        chosen = exact_model.quantize_block(reals_of(row), fmt, profile=profile, tensor_scale=scale.real)
        prepared = exact_model.prepare_block(reals_of(row), profile, level, numbers)
        expected = exact_model._error(prepared, chosen, level, fmt, numbers)
        assert float_of(expected).tobytes() == np.float32(total).tobytes()


#: Roundings that the two floor(steps + 1/2) variants and the log2 binade are defined with.
SPECIAL_ROUNDINGS = {"add_half_floor_f32": (Rounding.RNE, Rounding.RNA), "binade_log2f": (Rounding.RTZ,)}


@st.composite
def element_rules(draw: st.DrawFn, element: ElementFormat) -> ElementRule:
    """Any combination of leaf behaviours that an element's format can honour."""
    has_nan = element.nan_code is not None
    kinds = ["plain", "add_half_floor_f32"] + ([] if element.twos_complement else ["binade_log2f"])
    kind = draw(st.sampled_from(kinds))
    overflow = [Overflow.SATURATE] if kind != "plain" or not has_nan else list(Overflow)
    needs_nan = (NanPolicy.NAN, NanPolicy.NAN_POSITIVE, NanPolicy.NAN_NEGATIVE)
    policies = [p for p in NanPolicy if p not in (NanPolicy.RAISE, NanPolicy.AS_NUMBER, *needs_nan)]
    return ElementRule(
        rounding=draw(st.sampled_from(SPECIAL_ROUNDINGS.get(kind, DETERMINISTIC))),
        add_half_floor_f32=kind == "add_half_floor_f32",
        half_floor_domain=draw(st.sampled_from((Domain.F32, Domain.BF16))),
        binade_log2f=kind == "binade_log2f",
        overflow=draw(st.sampled_from(overflow)),
        nan=draw(st.sampled_from(policies)),
        nan_own=draw(st.sampled_from([*policies, *needs_nan])) if has_nan else NanPolicy.NAN,
        zero=draw(st.sampled_from(ZeroPolicy)) if kind == "plain" else ZeroPolicy.PLUS_UNLESS_UNDERFLOW,
        int8_lowest=draw(st.sampled_from((-127, -128))) if kind == "plain" else -127,
        invalid_sign=draw(st.sampled_from((0, 1))),
        under_nan_scale=draw(st.sampled_from((None, 0, element.max_code))),
    )


@pytest.mark.parametrize("fmt", BLOCKS)
@given(data=st.data())
def test_any_combination_of_leaf_behaviours(fmt: str, data: st.DataObject) -> None:
    """Element rules that no registered profile has, scaled exactly or in float32, inputs flushed or not."""
    base = mxspec.default_profile(fmt)
    assert base.one_level is not None
    rule = data.draw(element_rules(BLOCKS[fmt].element))
    # Rules that work in float32 take a float32 quotient.
    plain = not rule.add_half_floor_f32 and not rule.binade_log2f
    scaled = data.draw(st.sampled_from((f32.div(X, SF), exact.div(X, SF)))) if plain else f32.div(X, SF)
    level = replace(base.one_level, element=rule, scaled=scaled)
    profile = replace(
        base,
        id="drawn",
        one_level=level,
        two_level=None,
        tensor=None,
        amax_nan=data.draw(st.sampled_from(AmaxNan)),
        flush_inputs=data.draw(st.booleans()),
    )
    prove(data.draw(blocks(fmt))[None, :], fmt, profile, None, outputs=["float32"])


def test_flushed_inputs() -> None:
    """Subnormal elements count as zeros of their sign, in the maximum too."""
    floor = get_profile("mx-floor", "mxfp4")
    flushing = replace(floor, id="flushing", flush_inputs=True)
    x = np.resize(floats([0x007FFFFF, 0x807FFFFF, 1]), 32)
    assert quantized(x, floor.id, "mxfp4")[1].any()
    result = mxspec.quantize(x, "mxfp4", profile=flushing)
    assert (result.scales.tolist(), result.codes[:3].tolist()) == ([0x00], [0, 8, 0])
    prove(x[None, :], "mxfp4", flushing, None, outputs=["float32"])


def encode_e2m1(x: Float32s) -> Codes:
    """ml_dtypes' e2m1 of finite numbers."""
    return x.astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & np.uint8(0x0F)


def finite_blocks(fmt: str, *topics: str) -> list[Input]:
    """The vectors' blocks of topics, of finite numbers that are not all zero."""
    return [c for c in rows_of(fmt)[1] if c.topic in topics and np.isfinite(c.x).all() and c.x.any()]


@pytest.mark.parametrize("two_level", [False, True])
@pytest.mark.parametrize("name", ["nvfp4-paper", "nvfp4-te"])
def test_normative_nvfp4_in_numpy(name: str, two_level: bool) -> None:
    """The published float32 operations written out with NumPy, the casts ml_dtypes': scales, codes and values.

    Blocks at the boundaries of the scale encoder and of the elements, under ordinary tensor maxima.
    """
    one, six, largest = np.float32(1), np.float32(6), np.float32(2688)
    sixth = one / six
    cases = finite_blocks("nvfp4", "scale-tie", "tie-even", "below-tie", "above-tie", "position")
    maxima = sorted({c.tensor_amax for c in cases if c.tensor_amax is not None}) if two_level else [None]
    if not two_level:  # where amax / 6 is a midpoint of e4m3 or a float next to it
        grid = np.unique(decode_table(BLOCKS["nvfp4"].scale)[:0x7F].astype(np.float64))
        bits = (((grid[1:] + grid[:-1]) * 3).astype(np.float32).view(np.uint32)[:, None] + np.arange(-2, 3)).ravel()
        ties = np.repeat(bits.astype(np.uint32).view(np.float32)[:, None], 16, axis=1)
        ties[:, 1:] *= np.linspace(-1, 1, 15, dtype=np.float32)
    for amax in maxima:
        if amax is None:
            x = np.concatenate([np.array([c.bits[0] for c in cases], np.uint32).view(np.float32), ties])
            encode_scale, decode_scale, tensor_maximum = one, one, None
            scale = None
        else:
            x = np.array([c.bits[0] for c in cases if c.tensor_amax == amax], np.uint32).view(np.float32)
            tensor_maximum = floats([amax])[0]
            encode_scale = largest / tensor_maximum
            decode_scale = one / encode_scale
            scale = derive_tensor_scale(amax, get_profile(name, "nvfp4"))
        block_maximum = np.abs(x).max(axis=-1, keepdims=True)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            if name == "nvfp4-paper":
                value = block_maximum / six * encode_scale
            else:
                value = block_maximum * (encode_scale * sixth)
            byte = np.minimum(value, np.float32(448)).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
            sf = byte.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
            multiplier = one / (sf * decode_scale)
            if name == "nvfp4-paper":
                multiplier = np.where(sf == 0, np.float32(0), multiplier)
            else:
                multiplier = np.minimum(multiplier, np.finfo(np.float32).max)
            codes = encode_e2m1(np.clip(x * multiplier, -six, six))
            q = decode_table(BLOCKS["nvfp4"].element)[codes]
            if tensor_maximum is None:
                values = q * sf
            elif name == "nvfp4-paper":
                values = q * sf * decode_scale
            else:
                values = q * (sf * tensor_maximum * (one / largest))
        result = mxspec.quantize(x, "nvfp4", profile=name, tensor_scale=scale)
        assert_same(result.scales, byte, lambda i: f"amax {block_maximum[i[0]]}")  # noqa: B023
        assert_same(result.codes, codes, lambda i: f"{x[i]}")  # noqa: B023
        assert_same(result.dequantize(), values.astype(np.float32), lambda i: f"{codes[i]}")  # noqa: B023


@pytest.mark.parametrize("profile", ["mx-floor", "mx-rceil", "mx-even", "mx-ceil"])
@pytest.mark.parametrize("fmt", [f for f in BLOCKS if f != "nvfp4"])
def test_normative_mx_elements_in_numpy(fmt: str, profile: str) -> None:
    """x / 2^e, clamped, rounded to nearest even by NumPy and ml_dtypes; the value is the code's times 2^e."""
    cases = finite_blocks(fmt, "tie-even", "below-tie", "above-tie", "exact", "overflow", "scale-boundary", "mixture")
    x = np.array([c.bits[0] for c in cases], np.uint32).view(np.float32)
    largest = np.abs(x).max(axis=-1)
    x = x[(largest > 2.0**-80) & (largest < 2.0**100)]
    element = BLOCKS[fmt].element
    result = mxspec.quantize(x, fmt, profile=profile)
    exponents = result.scales.astype(np.int64)[:, :, None] - 127
    scaled = np.ldexp(x.reshape(*result.scales.shape, 32), -exponents).reshape(x.shape)
    limit = np.float32(float(element.max_value))
    clamped = np.clip(scaled, -limit, limit)
    if fmt == "mxint8":
        codes = np.rint(clamped * np.float32(64)).astype(np.int8).view(np.uint8)
    else:
        dtype = {"e2m1": ml_dtypes.float4_e2m1fn, "e2m3": ml_dtypes.float6_e2m3fn, "e3m2": ml_dtypes.float6_e3m2fn,
                 "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[element.name]  # fmt: skip
        codes = clamped.astype(dtype).view(np.uint8) & np.uint8(element.code_count - 1)
    assert len(x) > 100
    assert_same(result.codes, codes, lambda i: f"{x[i]} under {result.scales[i[0]]}")
    values = np.ldexp(decode_table(element)[codes].reshape(*result.scales.shape, 32), exponents).reshape(x.shape)
    assert_same(result.dequantize(), values.astype(np.float32))


def quantized(x: Array, profile: str, fmt: str, scale: TensorScale | str | None = None) -> tuple[list[int], Codes]:
    result = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale)
    return result.scales.ravel().tolist(), result.codes


def block_with(largest: float, k: int, rest: float = 0.0) -> Float32s:
    x = np.full(k, rest, np.float32)
    x[0] = largest
    return x


def test_rules_by_hand() -> None:
    """Where the normative scale rules part: amax 4, the largest value 6, just above it, 7, just below 8."""
    below_8, above_6 = float(floats([0x40FFFFFF])[0]), float(floats([0x40C00001])[0])
    found = {
        p: [quantized(block_with(a, 32), p, "mxfp4")[0][0] - 127 for a in (4, 6, above_6, 7, below_8, 8)]
        for p in ("mx-floor", "mx-rceil", "mx-even", "mx-ceil")
    }
    assert found == {
        "mx-floor": [0, 0, 0, 0, 0, 1],
        "mx-rceil": [0, 0, 1, 1, 1, 1],
        "mx-even": [0, 0, 0, 1, 1, 1],
        "mx-ceil": [0, 1, 1, 1, 1, 1],
    }


@pytest.mark.parametrize("profile", ["mx-floor", "mx-rceil", "mx-even", "mx-ceil"])
@pytest.mark.parametrize("fmt", [f for f in BLOCKS if f != "nvfp4"])
def test_canonical_answers_where_ocp_has_no_rule(profile: str, fmt: str) -> None:
    """The table of the architecture: NaN, Inf, zero blocks, sign of zero, the ends of the scale."""
    element = BLOCKS[fmt].element
    k = 32
    nan = block_with(np.nan, k, 1)
    assert quantized(nan, profile, fmt)[0] == [0xFF]
    assert not quantized(nan, profile, fmt)[1].any()
    assert np.isnan(mxspec.quantize(nan, fmt, profile=profile).dequantize()).all()
    scale, codes = quantized(block_with(-np.inf, k, 2.0**126), profile, fmt)
    assert scale == [0xFE]
    assert codes[0] == element.join(1, element.max_code)
    assert decode_table(element)[codes[1]] == 0.5
    zeros = np.resize(np.array([0.0, -0.0], np.float32), k)
    scale, codes = quantized(zeros, profile, fmt)
    assert scale == [0x00]
    assert codes[:2].tolist() == [0, 0 if element.twos_complement else element.sign_bit]
    assert quantized(block_with(2.0**-149, k), profile, fmt)[0] == [0x00]
    underflow = block_with(1, k, -(2.0**-100))
    assert quantized(underflow, profile, fmt)[1][1] == (0 if element.twos_complement else element.sign_bit)


def test_int8_is_symmetric() -> None:
    """Below -127.5/64 the canonical code is 81; decode of 80 is -2 always."""
    _, codes = quantized(block_with(-1.9999, 32), "mx-floor", "mxint8")
    assert codes[0] == 0x81
    codes = np.full(32, 0x80, np.uint8)
    assert mxspec.dequantize(codes, np.array([127], np.uint8), "mxint8").tolist() == [-2.0] * 32


def test_the_two_nvfp4_profiles_part_where_they_should() -> None:
    """(amax / 6) * S against amax * (S * fl(1/6)): some boundary of the scale encoder tells them apart."""
    cases = [c for c in quantize_inputs("nvfp4") if c.topic == "scale-tie" and c.tensor_amax is not None]
    differing = 0
    for amax in {c.tensor_amax for c in cases}:
        assert amax is not None
        x = np.array([c.bits[0] for c in cases if c.tensor_amax == amax], np.uint32).view(np.float32)
        te, paper = (
            quantized(x, name, "nvfp4", derive_tensor_scale(amax, get_profile(name, "nvfp4")))[0] for name in ("nvfp4-te", "nvfp4-paper")
        )
        differing += sum(a != b for a, b in zip(te, paper, strict=True))
    assert 0 < differing < len(cases) // 2


def test_descriptive_profiles_have_sources_and_evidence() -> None:
    descriptive = list_profiles(kind=Kind.DESCRIPTIVE)
    assert len(descriptive) > 100
    for p in descriptive:
        assert p.source.strip(), p.id
        assert p.summary.strip(), p.id
        assert isinstance(p.evidence, Evidence), p.id
        if p.evidence is Evidence.MEASURED:
            assert p.witness.strip(), f"{p.id}: measured by running what?"
        assert p.id.count("/") >= 1, f"{p.id}: library-version/format/path"
        assert any(c.isdigit() for c in p.id.split("/")[0]), f"{p.id}: no version"
        assert p.dtypes, p.id
        assert set(p.dtypes) <= set(FLOAT_TYPES), p.id
        assert len(set(p.dtypes)) == len(p.dtypes), p.id


REPORTS = Path(__file__).resolve().parents[1] / "reports"
#: Stacks whose quantizers have no path that runs without a GPU or the vendor's hardware.
WITHOUT_CPU_PATH = ("flashinfer-", "lightx2v-", "vllm-", "te-", "aws-neuron-", "cudnn-", "torchao-")


def test_torchao_on_a_gpu_is_measured_where_every_bit_was_equal() -> None:
    """The committed run of torchao on an H200 is the witness of its RCEIL profiles, in all five formats."""
    report = json.loads((REPORTS / "gpu/torchao-rceil-cuda.json").read_text("utf-8"))
    confirmed = {(name, f["format"]) for f in report["formats"] for name in f["identical_to"]}
    profiles = [p for p in list_profiles() if p.id.startswith("torchao-0.18/") and p.id.endswith("rceil/eager-cuda")]
    assert {(p.id, fmt) for p in profiles for fmt in p.formats} == confirmed
    assert not any(p.provisional for p in profiles)


def test_provisional_profiles_are_those_without_a_cpu_path() -> None:
    provisional = [p for p in list_profiles() if p.provisional]
    unmeasured = (Evidence.READ, Evidence.SECOND_HAND)
    assert provisional == [p for p in list_profiles(kind=Kind.DESCRIPTIVE) if p.evidence in unmeasured]
    for p in provisional:
        assert not p.id.startswith(("lightx2v-", "vllm-"))  # all of these were built from their source
        assert p.id.startswith(WITHOUT_CPU_PATH), p.id
        if p.id.startswith(("torchao-", "te-", "vllm-")):
            assert any(word in p.id for word in ("cuda", "sm100", "kernel", "experts")), p.id


def test_normative_profiles() -> None:
    names = [p.id for p in list_profiles(kind=Kind.NORMATIVE)]
    assert names == ["mx-floor", "mx-rceil", "mx-even", "mx-ceil", "nvfp4-paper", "nvfp4-te",
                     "nvfp4-exact", "nvfp4-exact-encode", "nvfp4-decode"]  # fmt: skip
    assert [p.id for p in list_profiles()][: len(names)] == names
    assert not any(p.provisional for p in list_profiles(kind=Kind.NORMATIVE))
    for fmt in BLOCKS:
        assert mxspec.default_profile(fmt).id == ("nvfp4-te" if fmt == "nvfp4" else "mx-floor")
        assert get_profile(None, fmt) is mxspec.default_profile(fmt)


def test_lists_are_consistent() -> None:
    ids = [p.id for p in list_profiles()]
    assert len(ids) == len(set(ids))
    for fmt in BLOCKS:
        listed = list_profiles(fmt)
        assert [p for p in list_profiles() if fmt in p.formats] == list(listed)
        assert all(get_profile(p.id, fmt) is p for p in listed)
    assert all(set(p.formats) <= set(BLOCKS) for p in list_profiles())
    for p in list_profiles():
        assert p.one_level is not None or p.two_level is not None, p.id
        if p.two_level is not None:
            assert p.formats == ("nvfp4",), p.id


def test_paths_for_other_dtypes_name_their_main_profile() -> None:
    """A variant covers what its main profile does, in dtypes that this does not take; judging and proving rest on it."""
    variants = [p for p in list_profiles() if p.variant_of is not None]
    assert len(variants) == 22
    for p in variants:
        assert p.variant_of is not None
        main = get_profile(p.variant_of, p.formats[0])
        assert (main.variant_of, main.formats) == (None, p.formats)
        assert not set(main.dtypes) & set(p.dtypes)
        for dtype in p.dtypes:
            assert find_variant(main, dtype) is p
            assert name_main_profile(p.id, dtype) == main.id
        assert find_variant(main, main.dtypes[0]) is main
        assert name_main_profile(p.id, main.dtypes[0]) == p.id
    assert find_variant(get_profile("gfloat-0.5/mx", "mxfp4"), "float16") is None
    assert name_main_profile("no such profile", "float16") == "no such profile"


def test_a_transform_is_in_the_data() -> None:
    transformed = {p.id: p.transform for p in list_profiles() if p.transform is not None}
    hadamard = Transform(kind=TransformKind.RANDOM_HADAMARD, size=16, columnwise=True)
    assert transformed == {"te-2.14/nvfp4/kernel-rht": hadamard, "te-2.14/nvfp4/kernel-rht-fastmath": hadamard}


@pytest.fixture
def registry() -> Iterator[None]:
    """Restores the registry of profiles."""
    list_profiles()
    kept = dict(profiles._profiles)
    yield
    profiles._profiles.clear()
    profiles._profiles.update(kept)


@pytest.mark.usefixtures("registry")
def test_a_module_of_profiles_is_found_and_listed_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else has to be written for a library's profiles to be there."""
    before = [p.id for p in list_profiles()]
    source = """
from dataclasses import replace
from mxspec.profiles.normative import PROFILES as NORMATIVE
from mxspec.profiles.schema import Kind
PROFILES = tuple(replace(NORMATIVE[0], id=f"lib-1/{f}", kind=Kind.DESCRIPTIVE, formats=(f,)) for f in ("mxfp4", "mxint8"))
"""
    (tmp_path / "lib.py").write_text(source, "utf-8")
    monkeypatch.setattr(profiles, "__path__", [*profiles.__path__, str(tmp_path)])
    profiles._profiles.clear()
    profiles._load_stacks.cache_clear()
    profiles._load("normative")
    after = [p.id for p in list_profiles()]
    at = next(i for i, name in enumerate(after) if name.startswith("lightx2v"))
    assert after == [*before[: at - 2], "lib-1/mxfp4", "lib-1/mxint8", *before[at - 2 :]]
    sys.modules.pop("mxspec.profiles.lib")


@pytest.mark.usefixtures("registry")
def test_a_profile_of_ones_own() -> None:
    """Registered once, found by name, used by quantize; the id cannot be taken by another."""
    floor = get_profile("mx-floor", "mxfp4")
    assert floor.one_level is not None
    doubled = replace(floor.one_level, scale=replace(floor.one_level.scale, offset=1))
    mine = replace(floor, id="mine-1.0/mxfp4", kind=Kind.DESCRIPTIVE, formats=("mxfp4",), one_level=doubled)
    register_profile(mine)
    register_profile(mine)
    assert get_profile("mine-1.0/mxfp4", "mxfp4") is mine
    assert list_profiles("mxfp4")[-1] is mine
    assert mine.provisional
    x = block_with(6, 32)
    assert quantized(x, "mine-1.0/mxfp4", "mxfp4")[0] == [128]
    prove(x[None, :], "mxfp4", mine, None, outputs=["float32"])
    with pytest.raises(ValueError, match=r"the profile id 'mine-1\.0/mxfp4' is taken; choose a new one"):
        register_profile(replace(mine, summary="another"))
    with pytest.raises(ValueError, match="unknown block format 'mxfp3'; known are mxfp4"):
        register_profile(replace(mine, id="mine-2.0/mxfp3", formats=("mxfp3",)))
    assert "mine-2.0/mxfp3" not in [p.id for p in list_profiles()]


def test_an_unregistered_profile_can_be_used() -> None:
    floor = get_profile("mx-floor", "mxfp4")
    mine = replace(floor, id="mine", formats=("mxfp4",))
    assert get_profile(mine, "mxfp4") is mine
    assert mxspec.quantize(block_with(6, 32), "mxfp4", profile=mine).profile is mine
    with pytest.raises(ValueError, match="profile mine does not cover mxint8, only mxfp4"):
        mxspec.quantize(block_with(6, 32), "mxint8", profile=mine)


LEVEL = QuantizationSteps(scale=ScaleRule(value=AMAX, step=ScaleStep.FLOOR), scaled=exact.div(X, SF), dequantize=exact.mul(Q, SF))
TWO = replace(LEVEL, scaled=f32.mul(X, S))


@pytest.mark.parametrize(
    ("level", "message"),
    [
        (replace(LEVEL, scale=replace(LEVEL.scale, value=f32.mul(AMAX, S))), "one_level, scale: S is not known there"),
        (replace(LEVEL, scaled=f32.mul(X, Q)), "one_level, scaled: q is not known there"),
        (replace(LEVEL, dequantize=f32.mul(Q, AMAX)), "one_level, dequantize: amax is not known there"),
        (replace(LEVEL, normalize=f32.mul(X, SF)), "one_level, normalize: sf is not known there"),
        (replace(LEVEL, element=replace(LEVEL.element, error=f32.sub(X, G))), "one_level, element error: g is not known there"),
    ],
)
def test_leaves_that_a_stage_does_not_know_are_refused(level: QuantizationSteps, message: str) -> None:
    floor = get_profile("mx-floor", "mxfp4")
    with pytest.raises(ValueError, match=message):
        replace(floor, one_level=level)


def test_two_levels_need_a_tensor_rule() -> None:
    te = get_profile("nvfp4-te", "nvfp4")
    with pytest.raises(ValueError, match="profile nvfp4-te: two_level needs a tensor rule"):
        replace(te, tensor=None)
    decode = TensorRule(native=TensorScaleKind.DECODE, from_amax=TMAX)
    with pytest.raises(ValueError, match="two_level, scaled: S is not known there; known are"):
        replace(te, two_level=TWO, tensor=decode)
    derived = replace(decode, derived=((S, f32.div(G, G)),))
    assert replace(te, two_level=TWO, tensor=derived).tensor is derived


def test_signs_of_special_blocks_are_seen() -> None:
    """The special blocks hold NaN of both signs and payloads, infinities of both signs and zeros of both signs."""
    for fmt in BLOCKS:
        special, ordinary = rows_of(fmt)
        lanes = {b for c in special for b in c.bits[0]}
        assert {0, SIGN, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0x7FFFFFFF} <= lanes
        assert len(special) >= 28
        assert len(ordinary) > 400
