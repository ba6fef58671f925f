"""A Hypothesis strategy for affine integers: groups whose values lie at codes, at midpoints between them, and adjacent to both.

Used through `mxspec_conformance.testing.strategies`, which says what is missing where Hypothesis is not installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument

from mxspec.affine.formats import AffineFormat, get_affine
from mxspec_conformance.judge.affine.points import ENDS, EXPONENTS, list_points

Array = npt.NDArray[Any]


def affine_groups(fmt: str | AffineFormat, *, rows: int = 1, groups: int = 1) -> st.SearchStrategy[Array]:
    """Groups to quantize, in the format's dtype.

    Each group has two ends, and values at the codes of the min/max rule between them, at the midpoints of its codes, and one
    float from either; groups of one value, groups on one side of zero, and ends of very different size are among them. All
    values are finite. A failing array shrinks to zeros and ones.

    >>> from hypothesis import given
    >>> from mxspec_conformance.testing import strategies as mx
    >>> from mxspec import affine
    >>> @given(mx.affine_groups("int4-g32-bias-float16"))
    ... def test_my_kernel(x):
    ...     t = affine.quantize(x, group=32)  # your kernel's answer would be compared with this
    ...     assert t.codes.shape == x.shape == (1, 32)
    >>> test_my_kernel()

    Args:
        fmt: Such as `int4-g64-bias-float16`.
        rows: Rows of the array.
        groups: Groups in a row.

    Returns:
        A strategy of arrays [rows, groups * group].

    Raises InvalidArgument for a format that is none, and for sizes below 1.
    """
    try:
        affine = get_affine(fmt)
    except ValueError as error:
        raise InvalidArgument(str(error)) from None
    for name, value in (("rows", rows), ("groups", groups)):
        if not isinstance(value, int) or value < 1:
            raise InvalidArgument(f"{name}={value!r}; pass a whole number of 1 or more")
    return _arrays(affine, rows, groups)


@st.composite
def _arrays(draw: st.DrawFn, fmt: AffineFormat, rows: int, groups: int) -> Array:
    made = [_draw_group(draw, fmt) for _ in range(rows * groups)]
    bits = np.array(made, f"u{fmt.scalar.bits // 8}").reshape(rows, groups * fmt.group)
    return bits.view(fmt.numpy_dtype)


def _draw_group(draw: st.DrawFn, fmt: AffineFormat) -> list[int]:
    """The bits of one group."""
    points = list_points(fmt, draw(st.integers(0, len(ENDS) - 1)), draw(st.sampled_from(EXPONENTS)))
    picked = draw(st.lists(st.integers(0, len(points) - 1), max_size=fmt.group - 2))
    lanes = [points[i] for i in picked]
    # The ends are there, somewhere.
    place = draw(st.integers(0, len(lanes)))
    lanes = [*lanes[:place], points[1], *lanes[place:]]
    return [*lanes, *[points[0]] * (fmt.group - len(lanes))]
