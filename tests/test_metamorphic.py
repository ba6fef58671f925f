"""Relations between answers to related inputs, whatever the answers are.

What is expected follows from the formats' definitions and the documentation, not from another implementation. Profiles are the
normative ones: what libraries do may lack a symmetry.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings, strategies as st

import mxspec
from mxspec import BlockTensor, Profile, dot, layouts
from mxspec.formats import BLOCKS, ELEMENTS
from mxspec_conformance.testing import strategies as mx

from tests.support import PAIR_NAMES, PAIRS

Array = npt.NDArray[Any]

FORMATS = list(BLOCKS)
MX_FORMATS = [f.name for f in BLOCKS.values() if f.is_mx]
FEW = settings(max_examples=max(5, settings().max_examples // 6))


def draw_profile(data: st.DataObject, fmt: str) -> tuple[Profile, dict[str, Any]]:
    """A normative profile, and with what tensor scale it is called, if with one."""
    profile = data.draw(st.sampled_from(mxspec.list_profiles(fmt, kind="normative")))
    scale = data.draw(st.none() | mx.tensor_scales(profile)) if profile.tensor is not None else None
    return profile, {"profile": profile, "tensor_scale": scale}


def keep(profile: Profile, x: Array) -> Array:
    """Lanes that say something: a profile may lose zeros, as it says."""
    lanes: Array = (x != 0) if profile.lost_zeros else np.ones(x.shape, np.bool_)
    return lanes


def decode_wide(codes: Array, name: str) -> Array:
    return mxspec.decode(codes, name).astype(np.float64)


@pytest.mark.parametrize("fmt", FORMATS)
@given(data=st.data())
def test_negated_numbers_have_negated_values(fmt: str, data: st.DataObject) -> None:
    x = data.draw(mx.blocks(fmt))
    profile, options = draw_profile(data, fmt)
    plain, negated = (mxspec.quantize(v, fmt, **options) for v in (x, -x))
    assert (plain.scales == negated.scales).all()
    lanes = keep(profile, x)
    values = [decode_wide(t.codes[lanes], BLOCKS[fmt].element.name) for t in (plain, negated)]
    assert np.array_equal(values[0], -values[1], equal_nan=True)


@pytest.mark.parametrize("fmt", FORMATS)
@given(data=st.data())
def test_a_block_has_no_order(fmt: str, data: st.DataObject) -> None:
    x = data.draw(mx.blocks(fmt, allow_nan=True, allow_infinity=True))
    _, options = draw_profile(data, fmt)
    order = np.array(data.draw(st.permutations(range(x.size))))
    plain, moved = (mxspec.quantize(v, fmt, **options) for v in (x, x[order]))
    assert (plain.scales == moved.scales).all()
    assert (plain.codes[order] == moved.codes).all()


@pytest.mark.parametrize("fmt", MX_FORMATS)
@given(data=st.data(), power=st.integers(-60, 60))
def test_a_power_of_two_moves_the_scale_alone(fmt: str, data: st.DataObject, power: int) -> None:
    x = data.draw(mx.blocks(fmt, exponents=(-40, 40)))
    moved = np.ldexp(x, power)
    assume((np.ldexp(moved.astype(np.float64), -power) == x).all())  # nothing was lost among subnormal numbers
    _, options = draw_profile(data, fmt)
    plain, other = (mxspec.quantize(v, fmt, **options) for v in (x, moved))
    assert (plain.codes == other.codes).all()
    assert int(other.scales[0]) - int(plain.scales[0]) == (power if x.any() else 0)
    if x.any():
        assert mxspec.quantize(moved, fmt, scales=other.scales, **options) == other


@pytest.mark.parametrize("fmt", FORMATS)
@given(data=st.data())
def test_larger_numbers_have_no_smaller_values(fmt: str, data: st.DataObject) -> None:
    x = data.draw(mx.blocks(fmt))
    profile, options = draw_profile(data, fmt)
    lanes = keep(profile, x)
    values = decode_wide(mxspec.quantize(x, fmt, **options).codes[lanes], BLOCKS[fmt].element.name)
    assume(not np.isnan(values).any())
    assert (np.diff(values[np.argsort(x[lanes], kind="stable")]) >= 0).all()


@pytest.mark.parametrize("fmt", MX_FORMATS)
@given(data=st.data())
def test_what_was_dequantized_stays(fmt: str, data: st.DataObject) -> None:
    x = data.draw(mx.blocks(fmt))
    _, options = draw_profile(data, fmt)
    values = mxspec.quantize(x, fmt, **options).dequantize()
    assume(np.isfinite(values).all())
    assert (mxspec.quantize(values, fmt, **options).dequantize() == values).all()


@pytest.mark.parametrize(("profile", "fmt"), PAIRS, ids=PAIR_NAMES)
@FEW
@given(data=st.data())
def test_blocks_do_not_know_each_other(profile: Profile, fmt: str, data: st.DataObject) -> None:
    """Rows and halves of rows are quantized as they are alone, along another axis as after a transposition; every profile."""
    x, y = data.draw(mx.tensors(fmt, max_rows=2, max_blocks=2)), data.draw(mx.tensors(fmt, max_rows=2, max_blocks=2))
    assume(x.shape[1] == y.shape[1])
    scale = data.draw(mx.tensor_scales(profile)) if profile.two_level is not None else None
    both = np.concatenate([x, y])
    whole, first, second, turned = (
        mxspec.quantize(v, fmt, profile=profile, tensor_scale=scale, axis=axis)
        for v, axis in ((both, -1), (x, -1), (y, -1), (both.T, 0))
    )
    k = BLOCKS[fmt].k
    last = mxspec.quantize(both[:, -k:], fmt, profile=profile, tensor_scale=scale)
    for part in ("codes", "scales"):
        got = getattr(whole, part)
        assert (got == np.concatenate([getattr(first, part), getattr(second, part)])).all()
        assert (got == getattr(turned, part).T).all()
        assert (got[:, -getattr(last, part).shape[1] :] == getattr(last, part)).all()


@pytest.mark.parametrize("fmt", MX_FORMATS)
@given(data=st.data())
def test_elements_are_nearest_under_any_given_scale(fmt: str, data: st.DataObject) -> None:
    """OCP MX v1.0: x / scale rounds to the nearest value, ties to the even code, beyond the largest to it. Every comparison is of
    numbers that float64 holds."""
    x, scales = data.draw(mx.blocks(fmt)), data.draw(mx.scales(fmt, shape=(1,), finite=True))
    profile, _ = draw_profile(data, fmt)
    element = BLOCKS[fmt].element
    t = mxspec.quantize(x, fmt, profile=profile, scales=scales)
    grid = np.array([float(element.magnitude(m)) for m in range(element.max_code + 1)])
    middles = (grid[1:] + grid[:-1]) / 2
    wanted = np.abs(np.ldexp(x.astype(np.float64), 127 - int(scales[0])))
    place = np.searchsorted(grid, np.abs(decode_wide(t.codes, element.name)))
    low, high = np.r_[0, middles][place], np.r_[middles, np.inf][place]
    assert ((low <= wanted) & (wanted <= high)).all()
    assert (place[(wanted == low) & (wanted > 0) | (wanted == high)] % 2 == 0).all()
    negative = decode_wide(t.codes, element.name) < 0
    assert (negative == ((x < 0) & (place > 0))).all()


@pytest.mark.parametrize("name", list(ELEMENTS))
@given(x=st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=20))
def test_directions_enclose_the_number(name: str, x: list[float]) -> None:
    values = np.array(x, np.float32)
    values = values[np.abs(values) <= float(ELEMENTS[name].max_value)]
    down, up, inward, near = (
        decode_wide(mxspec.encode(values, name, rounding=r), name) for r in ("rtn", "rtp", "rtz", "rne")
    )  # type: ignore[arg-type]
    assert ((down <= values) & (values <= up) & (np.abs(inward) <= np.abs(values))).all()
    assert (((near == down) | (near == up)) & ((inward == down) | (inward == up))).all()
    assert (np.where(down == up, values, down) <= values).all()


@pytest.mark.parametrize("name", list(ELEMENTS))
@given(data=st.data(), bits=st.integers(1, 10))
def test_of_all_words_so_many_round_up(name: str, data: st.DataObject, bits: int) -> None:
    """Two neighbours, and the one away from zero for floor(f 2^n) of the 2^n words: the mean but for what the floor cuts off."""
    element = ELEMENTS[name]
    grid = [element.magnitude(m) for m in range(element.max_code + 1)]
    low, high = data.draw(st.sampled_from(list(pairwise(grid))))
    share = data.draw(st.integers(0, 1 << 12)) * Fraction(1, 1 << 12)
    x = np.float32(float(low + share * (high - low)) * data.draw(st.sampled_from((1, -1))))
    exact = (abs(Fraction(float(x))) - low) / (high - low)
    words = np.arange(1 << bits, dtype=np.uint32) | np.uint32(data.draw(st.integers(0, 3)) << bits)
    codes = mxspec.encode(np.full(words.size, x), name, rounding="sr", random_bits=words, sr_bits=bits)
    values = np.abs(decode_wide(codes, name))
    assert set(values.tolist()) <= {float(low), float(high)}
    assert int((values == float(high)).sum()) == (exact * (1 << bits)).__floor__()


@pytest.mark.parametrize("fmt", FORMATS)
@given(data=st.data())
def test_random_words_choose_between_the_neighbours(fmt: str, data: st.DataObject) -> None:
    """Scales are the profile's, without words; no word at all rounds toward zero; more of a word never goes back."""
    x = data.draw(mx.blocks(fmt))
    _, options = draw_profile(data, fmt)
    words = data.draw(mx.random_words(x.shape))
    none, some, most = (
        mxspec.quantize(x, fmt, random_bits=w, **options)
        for w in (np.zeros_like(words), words, np.full_like(words, 0xFFFFFFFF))
    )
    assert (some.scales == mxspec.quantize(x, fmt, **options).scales).all()
    least, drawn, largest = (np.abs(decode_wide(t.codes, BLOCKS[fmt].element.name)) for t in (none, some, most))
    numbers = ~np.isnan(largest)
    assert ((least <= drawn) & (drawn <= largest))[numbers].all()
    assert ((drawn == least) | (drawn == largest))[numbers].all()


@pytest.mark.parametrize("fmt", MX_FORMATS)
@given(data=st.data())
def test_a_value_is_its_element_times_its_scale(fmt: str, data: st.DataObject) -> None:
    block = BLOCKS[fmt]
    codes, scales = data.draw(mx.codes(fmt)), data.draw(mx.scales(fmt))
    t = BlockTensor.from_codes(codes, scales, fmt)
    scale = np.repeat(decode_wide(scales, block.scale.name), block.k, axis=-1)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        wanted = (decode_wide(codes, block.element.name) * scale).astype(np.float32)
    assert np.array_equal(t.dequantize(), wanted, equal_nan=True)
    row = BlockTensor.from_codes(np.atleast_2d(codes), np.atleast_2d(scales), fmt)
    one = np.zeros((1, row.shape[1]), np.float32)
    one[0, 0] = 1
    product = dot.matmul(row, dot.plain_factor(one))
    if np.isfinite(decode_wide(codes, block.element.name)).all() and np.isfinite(scale).all():
        assert product.ravel()[0] == wanted.ravel()[0]


@pytest.mark.parametrize("name", [layout.name for layout in layouts.list_layouts()])
@FEW
@given(data=st.data())
def test_what_is_packed_comes_back(name: str, data: st.DataObject) -> None:
    """Whole tiles and parts of them, which a layout pads or refuses."""
    layout = layouts.get_layout(name)
    rows, columns = layout.tile
    whole = data.draw(st.booleans())
    m, k = (data.draw(st.integers(1, 3)) * n if whole else data.draw(st.integers(1, 3 * n)) for n in (rows, columns))
    try:
        size = layout.size((m, k))
    except ValueError:
        assume(False)
    draw = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    parts = []
    for field in layout.fields:
        allowed = (
            np.arange(1 << field.packing.width) if field.stored is None else np.flatnonzero(np.array(field.stored) >= 0)
        )
        parts.append(draw.choice(allowed, (m, k // field.covers)).astype(np.uint8))
    packed = layout.pack(*parts)
    assert packed.size == size
    assert all((a == b).all() for a, b in zip(parts, layout.unpack(packed, (m, k)), strict=True))
