"""Relations between answers to related inputs, whatever the answers are.

What is expected follows from the formats' definitions and the documentation, not from another implementation. Profiles are the
normative ones: what libraries do may lack a symmetry.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import Phase, given, settings, strategies as st
from hypothesis.errors import InvalidArgument

import mxspec
from mxspec import BlockTensor, Profile, dot, layouts
from mxspec.formats import BLOCKS, ELEMENTS
from mxspec_conformance.testing import strategies as mx
from mxspec_conformance.testing.relations import RELATIONS, Related, all_words, relation, stored_parts

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


def parts_of(t: BlockTensor) -> tuple[Array, Array]:
    return t.codes, t.scales


def decode_wide(codes: Array, name: str) -> Array:
    return mxspec.decode(codes, name).astype(np.float64)


@pytest.mark.parametrize(("name", "fmt"), [(n, f) for n, r in RELATIONS.items() for f in (MX_FORMATS if r.mx_only else FORMATS)])
@given(data=st.data())
def test_answers_to_related_inputs_are_related(name: str, fmt: str, data: st.DataObject) -> None:
    profile, options = draw_profile(data, fmt)
    special = RELATIONS[name].special
    drawn = data.draw(relation(name, fmt, profile=profile, allow_nan=special, allow_infinity=special))
    drawn.check(lambda x, **more: parts_of(mxspec.quantize(x, fmt, **options, **more)))


@pytest.mark.parametrize(("profile", "fmt"), PAIRS, ids=PAIR_NAMES)
@FEW
@given(data=st.data())
def test_blocks_do_not_know_each_other(profile: Profile, fmt: str, data: st.DataObject) -> None:
    """Of no profile, in rows and along another axis."""
    scale = data.draw(mx.tensor_scales(profile)) if profile.two_level is not None else None
    for name in ("axis", "part"):
        data.draw(relation(name, fmt)).check(
            lambda x, **more: parts_of(mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale, **more))
        )


def wrong(x: Array, axis: int = -1) -> tuple[Array, Array]:
    """Each block knows the first, the second lane is another one, scales and negative numbers are cut; not along the first axis."""
    codes, scales = parts_of(mxspec.quantize(x, "mxfp4", axis=axis))
    if axis == 0:
        return codes, scales
    codes = np.where(x < 0, np.minimum(codes, 12), codes).astype(np.uint8)
    codes[:, 32:] ^= codes[:, :1]
    codes[:, 1] ^= 2
    return codes, np.minimum(scales, 130)


@pytest.mark.parametrize("name", RELATIONS)
def test_a_wrong_kernel_breaks_every_relation(name: str) -> None:
    @settings(max_examples=300, database=None, phases=[Phase.generate], report_multiple_bugs=False)
    @given(relation(name, "mxfp4"))
    def check(related: Related) -> None:
        related.check(wrong)

    with pytest.raises(AssertionError):
        check()


@pytest.mark.parametrize(("name", "fmt", "words"), [("signs", "mxfp4", "known are sign"), ("idempotent", "nvfp4", "no powers of two")])
def test_what_does_not_hold_is_refused(name: str, fmt: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        relation(name, fmt)
    with pytest.raises(InvalidArgument, match="says nothing of NaN"):
        relation("sign", "mxfp4", allow_nan=True)


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
@given(data=st.data(), bits=st.integers(1, 10))
def test_of_all_words_so_many_round_up(name: str, data: st.DataObject, bits: int) -> None:
    drawn = data.draw(all_words(name, bits))
    drawn.check(mxspec.encode(drawn.x, name, rounding="sr", random_bits=drawn.words, sr_bits=bits))


@pytest.mark.parametrize("fmt", FORMATS)
@given(data=st.data())
def test_random_words_choose_between_the_neighbours(fmt: str, data: st.DataObject) -> None:
    """Scales are the profile's, without words; no word at all rounds toward zero; more of a word never goes back."""
    x = data.draw(mx.blocks(fmt))
    _, options = draw_profile(data, fmt)
    words = data.draw(mx.random_words(x.shape))
    none, some, most = (
        mxspec.quantize(x, fmt, random_bits=w, **options) for w in (np.zeros_like(words), words, np.full_like(words, 0xFFFFFFFF))
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
    layout = layouts.get_layout(name)
    parts, shape = data.draw(stored_parts(name))
    packed = layout.pack(*parts)
    assert packed.size == layout.size(shape)
    assert all((a == b).all() for a, b in zip(parts, layout.unpack(packed, shape), strict=True))
