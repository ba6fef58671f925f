"""Strategies of products and of compressed operands: what they reach, how they shrink, what they refuse."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings, strategies as st
from hypothesis.errors import InvalidArgument

from mxspec import dot
from mxspec.elements import decode_table
from mxspec.sparsity import KEPT, SPARSE_FORMATS
from mxspec_conformance.targets.operands import Side
from mxspec_conformance.testing import affine_groups as affine_module, product_operands, sparse_stored, strategies as mx
from mxspec_conformance.testing.strategies import Operands, SparseStored

from tests.shrinking import shrink_to

QUICK = settings(max_examples=7500, database=None, suppress_health_check=list(HealthCheck))
#: Where it matters alone that something is drawn.
DRAWN = settings(QUICK, phases=[Phase.generate])
PRODUCTS = ["mxfp8_e4m3 @ mxfp4/nibble-low+128x4", "nvfp4 @ bfloat16", "float32 @ float16/transposed", "mxint8 @ mxfp8_e5m2"]


def anything(p: Operands) -> bool:
    return bool((products_of(p) != 0).any())


def products_of(p: Operands) -> Any:
    a, b = p.factors()
    with np.errstate(all="ignore"):
        return a.values[:, None] * b.values[None]


def test_the_examples_of_the_documentation_run() -> None:
    for module in (product_operands, sparse_stored, affine_module):
        failed, tried = doctest.testmod(module)
        assert (failed, tried > 0) == (0, True)


@pytest.mark.parametrize("product", PRODUCTS)
@given(data=st.data())
@settings(QUICK, max_examples=40)
def test_what_is_drawn_is_a_product(data: st.DataObject, product: str) -> None:
    """One k, sizes as requested, finite, laid out as the product says, and the model's own answer is right."""
    p = data.draw(mx.operands(product, max_rows=2, max_columns=4, max_blocks=2))
    m, n, k = p.shape
    assert p.left.shape[1] == p.right.shape[1] == k
    assert 1 <= m <= 2
    assert 1 <= n <= 4
    for numbers, given_side in ((p.left, p.a), (p.right, p.b)):
        if numbers.values is None:
            assert isinstance(given_side, Side)
            assert given_side.shape == numbers.shape
            assert k in (32, 64, 16) or k == 48
        else:
            assert given_side.dtype == numbers.values.dtype
            assert given_side.shape == (numbers.shape[::-1] if numbers.spec.transposed else numbers.shape)
    a, b = p.factors()
    assert np.isfinite(a.values).all()
    assert np.isfinite(b.values).all()
    with np.errstate(all="ignore"):
        y = dot.matmul(a, b)
    p.check(y)


REACHED: list[tuple[str, dict[str, Any], Callable[[Operands], bool]]] = [
    (PRODUCTS[0], {}, lambda p: (p.left.scales == 0).any()),
    (PRODUCTS[0], {}, lambda p: (p.left.scales == 254).any()),
    (PRODUCTS[0], {}, lambda p: bool((p.left.codes == 0).all()) and (p.left.scales != 127).any()),
    (PRODUCTS[0], {"allow_nan": True}, lambda p: (p.right.scales == 255).any()),
    (PRODUCTS[0], {"allow_nan": True}, lambda p: (p.left.codes == 0x7F).any()),
    (PRODUCTS[0], {}, lambda p: (p.left.codes == 0x80).any()),
    (PRODUCTS[0], {}, lambda p: (p.left.codes == 0x7E).any()),
    (PRODUCTS[0], {}, lambda p: (p.left.codes == 0x01).any()),
    (PRODUCTS[0], {}, lambda p: not p.allow().decided.all()),
    (PRODUCTS[0], {}, lambda p: p.shape[2] > 32 and len(np.unique(p.left.scales[0])) > 1),
    (PRODUCTS[0], {}, lambda p: p.shape[:2] == (3, 3)),
    (PRODUCTS[1], {}, lambda p: p.left.tensor_scale is not None and p.left.tensor_scale != 1),
    (PRODUCTS[1], {}, lambda p: (p.left.scales == 0x7E).any() and (p.left.scales == 1).any()),
    (PRODUCTS[1], {"allow_infinity": True}, lambda p: np.isinf(p.right.values.astype(float)).any()),
    (PRODUCTS[1], {"allow_nan": True}, lambda p: np.isnan(p.right.values.astype(float)).any()),
    (PRODUCTS[2], {}, lambda p: (p.left.values.view("u4") == 1).any()),
    (PRODUCTS[2], {}, lambda p: (p.right.values.view("u2") == 0x7BFF).any()),
    (PRODUCTS[2], {}, lambda p: bool((np.signbit(p.left.values) & (p.left.values == 0)).any())),
    (PRODUCTS[3], {"allow_infinity": True}, lambda p: (p.right.codes == 0x7C).any()),
    (PRODUCTS[3], {}, lambda p: (p.left.codes == 0x80).any()),
]


@pytest.mark.parametrize("number", range(len(REACHED)))
def test_every_class_of_operands_is_reached(number: int) -> None:
    product, more, condition = REACHED[number]
    find(mx.operands(product, **more), lambda p: bool(condition(p)), settings=DRAWN, random=Random(0))


@pytest.mark.parametrize("product", PRODUCTS[1:3])
def test_numbers_cancel(product: str) -> None:
    def cancels(p: Operands) -> bool:
        terms = products_of(p)
        with np.errstate(all="ignore"):
            return bool(((terms != 0).any(axis=-1) & (terms.sum(axis=-1) == 0)).any())

    shrink_to(mx.operands(product), cancels, lambda p: np.count_nonzero(products_of(p)) == 2, limits=QUICK)


@pytest.mark.parametrize("product", PRODUCTS[1:3])
def test_a_failing_product_shrinks_to_ones(product: str) -> None:
    def simple(p: Operands) -> bool:
        """One row, one column, one product, and that is one times one."""
        return p.shape[:2] == (1, 1) and np.count_nonzero(products_of(p)) == 1 and bool(products_of(p).max() == 1)

    shrink_to(mx.operands(product), anything, simple, limits=QUICK)


def test_a_dropped_k_shrinks_to_one_number() -> None:
    def wrong(p: Operands) -> bool:
        a, b = p.factors()
        with np.errstate(all="ignore"):
            y = (a.values[:, :-1] @ b.values[:, :-1].T).astype(np.float32)
        return not p.allow().accepts(y).all()

    # Fewer blocks move the last place, and fewer numbers change what fills the others: no shrink finds both in every run.
    shrink_to(mx.operands("mxfp8_e4m3 @ mxfp8_e4m3"), wrong, lambda p: p.shape[:2] == (1, 1) and p.shape[2] <= 64, limits=QUICK)


def test_a_wrong_output_is_explained() -> None:
    p = shrink_to(mx.operands(PRODUCTS[0]), anything, lambda p: p.shape[:2] == (1, 1), limits=QUICK)
    with pytest.raises(
        AssertionError, match=r"1 of 1 outputs are wrong; the first:\nmxfp8_e4m3 @ mxfp4/nibble-low\+128x4, output \[0, 0\]"
    ):
        p.check(np.full((1, 1), 7, np.float32))
    with pytest.raises(ValueError, match=r"the output has shape \(2, 1\); the product has \(1, 1\)"):
        p.check(np.zeros((2, 1), np.float32))
    with pytest.raises(TypeError, match="the output is float64; allowed are float32"):
        p.check(np.zeros((1, 1)))
    with pytest.raises(ValueError, match="unknown accumulator 'x'"):
        p.allow(accumulator="x")
    with pytest.raises(ValueError, match="out_dtype = 'float8'"):
        p.allow("float8")


def test_the_repr_says_what_is_not_zero() -> None:
    one = f"Operands({PRODUCTS[0]!r}, m=1, n=1, k=32, a=(codes={{[0, 0]: 0x38}}), b=(codes={{[0, 0]: 0x02}}))"
    shrink_to(mx.operands(PRODUCTS[0]), anything, lambda p: repr(p) == one, limits=QUICK)


@given(mx.operands("mxfp8_e4m3 @ float32", extreme=False))
@settings(QUICK, max_examples=100)
def test_without_extremes_nothing_leaves_float32(p: Operands) -> None:
    terms = np.abs(products_of(p))
    assert terms.max(initial=0) < 2.0**60
    assert terms[terms != 0].min(initial=1) > 2.0**-60


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mx.operands("mxfp4"), "'mxfp4' is no product; write"),
        (lambda: mx.operands("mxfp4 @ mxfp9"), "'mxfp9' is neither a block format nor a dtype"),
        (lambda: mx.operands(3), "product=3"),  # type: ignore[arg-type]
        (lambda: mx.operands("mxfp4 @ mxfp4", max_rows=0), "max_rows=0 must be an integer from 1 on"),
        (lambda: mx.operands("mxfp4 @ mxfp4", max_blocks=1.5), "max_blocks=1.5 must be an integer"),  # type: ignore[arg-type]
        (lambda: mx.operands("mxfp4 @ mxfp4", allow_nan=1), "allow_nan=1 must be True or False"),  # type: ignore[arg-type]
        (lambda: mx.sparse_stored("e2m1"), "fmt='e2m1' is not a sparse format; known are e2m1-2to4"),
        (lambda: mx.sparse_stored("e2m1-2to4", columns=6), "columns=6 must be a multiple of the 4 codes of a group"),
        (lambda: mx.sparse_stored("e2m1-2to4", max_groups=0), "max_groups=0 must be an integer"),
        (lambda: mx.sparse_stored("e2m1-2to4", illegal=2), "illegal=2 must be True or False"),  # type: ignore[arg-type]
        (lambda: mx.affine_groups("int4"), "int4"),
        (lambda: mx.affine_groups("int4-g32-bias-float16", rows=0), "rows=0; pass a whole number of 1 or more"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_in_words(make: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message.replace("(", r"\(")):
        make()


# Compressed operands.


@pytest.mark.parametrize("fmt", SPARSE_FORMATS)
@given(data=st.data())
@settings(QUICK, max_examples=30)
def test_legal_operands_come_back_dense(data: st.DataObject, fmt: str) -> None:
    s = data.draw(mx.sparse_stored(fmt, max_rows=2, max_groups=4))
    assert s.is_legal
    dense = s.dense()
    assert dense.shape == (len(s.kept), 2 * s.kept.shape[1])
    assert np.count_nonzero(dense) == np.count_nonzero(s.kept)


@given(mx.sparse_stored("e2m1-4to8", illegal=True))
@settings(QUICK, max_examples=40)
def test_illegal_nibbles_are_refused(s: SparseStored) -> None:
    assert not s.is_legal
    with pytest.raises(ValueError, match="metadata hold"):
        s.dense()


@pytest.mark.parametrize("nibble", range(16))
def test_every_nibble_and_no_other_is_reached(nibble: int) -> None:
    legal = nibble in KEPT
    found = find(mx.sparse_stored("e2m1-2to4", illegal=not legal), lambda s: (s.metadata == nibble).any(), settings=DRAWN, random=Random(0))
    assert found.is_legal == legal


# Affine groups reach what they say.

AFFINE = "int4-g32-bias-float16"


@pytest.mark.parametrize(
    "condition",
    [
        lambda x: np.unique(x).size == 1 and x.any(), lambda x: (x > 0).all(), lambda x: (x < 0).all(),
        lambda x: np.unique(x).size > 8, lambda x: x.max() > 900, lambda x: 0 < np.abs(x[x != 0]).min(initial=9) < 2.0**-12,
        lambda x: x.min() == 0 and x.max() == 15 and bool((x % 1 == 0.5).any()),
    ],
)  # fmt: skip
def test_every_kind_of_group_is_reached(condition: Callable[[Any], bool]) -> None:
    find(mx.affine_groups(AFFINE), lambda x: bool(condition(x.astype(np.float64))), settings=DRAWN, random=Random(0))


def test_a_failing_group_shrinks_to_zeros_and_ones() -> None:
    strategy = mx.affine_groups(AFFINE, rows=2, groups=2)
    shrink_to(strategy, lambda x: x.any(), lambda x: set(np.unique(x.astype(np.float64))) <= {0.0, 1.0}, limits=QUICK)


def test_codes_of_formats_are_what_the_test_takes_them_for() -> None:
    table = decode_table(product_operands.parse_product(PRODUCTS[0]).a.block.element)
    assert (table[0x7E], np.isnan(table[0x7F])) == (448, True)
