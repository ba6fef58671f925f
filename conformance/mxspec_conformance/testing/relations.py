"""Relations between answers to related inputs, which hold whatever the answers are: for tests of kernels without a reference.

>>> from hypothesis import given
>>> from mxspec_conformance.testing.relations import relation
>>> import mxspec
>>> def my_quantize(x, **options):  # your kernel
...     t = mxspec.quantize(x, "mxfp4", **options)
...     return t.codes, t.scales
>>> @given(relation("sign", "mxfp4"))
... def test_my_kernel(related):
...     related.check(my_quantize)
>>> test_my_kernel()

This module needs hypothesis, an optional extra: pip install hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import assume, strategies as st
from hypothesis.errors import InvalidArgument

import mxspec
from mxspec.formats import ELEMENTS, BlockFormat, get_block, power_of_two
from mxspec.layouts import get_layout
from mxspec.profiles import Profile, get_profile
from mxspec_conformance.testing import strategies as mx

Array = npt.NDArray[Any]
#: Codes [rows, columns] and scale bytes [rows, blocks].
Answer = tuple[Array, Array]
#: (x [rows, columns], keywords) -> codes and scale bytes.
Quantize = Callable[..., Answer]


@dataclass(frozen=True, slots=True)
class Calls:
    """Two calls with related inputs, and their answers; of the second at first the input alone."""

    fmt: BlockFormat
    x: Array
    #: By what the input is changed, as it was drawn.
    by: Any
    plain: Answer
    changed: Array = field(default_factory=lambda: np.empty(0, np.float32))
    other: Answer = field(default_factory=lambda: (np.empty(0, np.uint8), np.empty(0, np.uint8)))
    #: Whether what is returned for a zero means nothing.
    lost_zeros: bool = False

    def values(self, answer: Answer, x: Array) -> Array:
        """The values of the codes, as float64, NaN where they mean nothing."""
        found: Array = mxspec.decode(answer[0], self.fmt.element.name).astype(np.float64)
        return np.where((x == 0) & self.lost_zeros, np.nan, found)

    def dequantize(self, answer: Answer) -> Array:
        """The numbers that codes and scales mean."""
        with np.errstate(all="ignore"):
            return mxspec.dequantize(*answer, self.fmt)


@dataclass(frozen=True, slots=True)
class Relation:
    """How an answer changes with its input."""

    text: str
    #: Format and keywords of `blocks` -> inputs [rows, columns], each with what changes it.
    draw: Callable[[BlockFormat, dict[str, Any]], st.SearchStrategy[tuple[Array, Any]]]
    change: Callable[[Calls], Array]
    agrees: Callable[[Calls], bool]
    #: Keywords of the second call.
    options: Mapping[str, Any] = field(default_factory=dict)
    #: Whether it holds for formats whose scales are powers of two alone, and for NaN and infinities.
    mx_only: bool = False
    special: bool = False


def _draw_block(fmt: BlockFormat, special: dict[str, Any]) -> st.SearchStrategy[tuple[Array, Any]]:
    return mx.blocks(fmt, **special).map(lambda x: (x[None], None))


def _draw_order(fmt: BlockFormat, special: dict[str, Any]) -> st.SearchStrategy[tuple[Array, Any]]:
    return st.tuples(mx.blocks(fmt, **special).map(lambda x: x[None]), st.permutations(range(fmt.k)).map(np.array))


def _draw_power(fmt: BlockFormat, special: dict[str, Any]) -> st.SearchStrategy[tuple[Array, Any]]:
    drawn = st.tuples(mx.blocks(fmt, exponents=(-40, 40), **special).map(lambda x: x[None]), st.integers(-60, 60))
    # Nothing is lost among subnormal numbers.
    return drawn.filter(lambda pair: bool((np.ldexp(np.ldexp(pair[0], pair[1]).astype(np.float64), -pair[1]) == pair[0]).all()))


def _draw_tensor(fmt: BlockFormat, special: dict[str, Any]) -> st.SearchStrategy[tuple[Array, Any]]:
    return mx.tensors(fmt, **special).map(lambda x: (x, None))


@st.composite
def _draw_part(draw: st.DrawFn, fmt: BlockFormat, special: dict[str, Any]) -> tuple[Array, Any]:
    x = draw(mx.tensors(fmt, **special))
    ends = [sorted(draw(st.tuples(st.integers(0, n), st.integers(0, n - 1)))) for n in (len(x), x.shape[1] // fmt.k)]
    return x, tuple(slice(low, high + (low == high)) for low, high in ends)


def _pick(array: Array, part: tuple[slice, slice], k: int = 1) -> Array:
    return np.ascontiguousarray(array[part[0], part[1].start * k : part[1].stop * k])


def _same(want: Answer, got: Answer) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(want, got, strict=True))


RELATIONS: dict[str, Relation] = {
    "sign": Relation(
        "negated numbers have negated values under the same scale", _draw_block, lambda c: -c.x,
        lambda c: np.array_equal(c.plain[1], c.other[1])
        and np.array_equal(c.values(c.plain, c.x), -c.values(c.other, c.x), equal_nan=True),
    ),
    "permutation": Relation(
        "a block has no order", _draw_order, lambda c: c.x[:, c.by], lambda c: _same((c.plain[0][:, c.by], c.plain[1]), c.other), special=True
    ),
    "power-of-two": Relation(
        "a power of two moves the scale alone", _draw_power, lambda c: np.ldexp(c.x, c.by),
        lambda c: _same((c.plain[0], c.plain[1].astype(int) + c.by * int(c.x.any())), c.other), mx_only=True,
    ),
    "monotone": Relation(
        "larger numbers have no smaller values", _draw_block, lambda c: np.sort(c.x),
        lambda c: not (np.diff((v := c.values(c.other, c.changed))[~np.isnan(v)]) < 0).any(),
    ),
    "idempotent": Relation(
        "what was dequantized stays", _draw_block, lambda c: c.dequantize(c.plain), lambda c: np.array_equal(c.dequantize(c.other), c.changed), mx_only=True
    ),
    "axis": Relation(
        "along the first axis blocks are those of the transposed tensor", _draw_tensor,
        lambda c: np.ascontiguousarray(c.x.T), lambda c: _same((c.plain[0].T, c.plain[1].T), c.other), {"axis": 0}, special=True,
    ),
    "part": Relation(
        "blocks do not know each other: rows and blocks of a tensor are quantized as they are alone", _draw_part, lambda c: _pick(c.x, c.by, c.fmt.k),
        lambda c: _same((_pick(c.plain[0], c.by, c.fmt.k), _pick(c.plain[1], c.by)), c.other), special=True,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Related:
    """An input, and what a kernel has to do with it when it is changed."""

    relation: Relation
    fmt: BlockFormat
    x: Array
    by: Any
    lost_zeros: bool = False

    def check(self, quantize: Quantize) -> None:
        """Quantize the input and the changed one, and compare.

        Args:
            quantize: Takes x [rows, columns] of float32, and `axis=0` in the relation "axis"; returns codes and scale bytes. A tensor
                scale has to be the same in both calls.

        Raises:
            AssertionError: The answers are not related as they should be.
        """
        calls = Calls(self.fmt, self.x, self.by, quantize(self.x), lost_zeros=self.lost_zeros)
        changed = self.relation.change(calls)
        assume(np.isfinite(changed).all() or not np.isfinite(self.x).all())
        calls = replace(calls, changed=changed, other=quantize(changed, **self.relation.options))
        assert self.relation.agrees(calls), f"{self.relation.text}: {self.x} gives {calls.plain}, {changed} gives {calls.other}"


def relation(
    name: str, fmt: str | BlockFormat, *, profile: str | Profile | None = None, allow_nan: bool = False, allow_infinity: bool = False
) -> st.SearchStrategy[Related]:
    """Inputs of a relation, with its check.

    Args:
        name: One of `RELATIONS`.
        fmt: A block format for which it holds: "power-of-two" and "idempotent" are for MX formats.
        profile: What the kernel follows; where it loses zeros, what is returned for them is not compared.
        allow_nan, allow_infinity: Whether inputs hold them, of relations that say something of them.

    Returns:
        A strategy; call `check` of what it draws.

    Raises:
        InvalidArgument: The relation is unknown, or does not hold for the format or for NaN.
    """
    if name not in RELATIONS:
        raise InvalidArgument(f"{name!r} is no relation; known are {', '.join(RELATIONS)}")
    block, chosen = get_block(fmt), RELATIONS[name]
    if chosen.mx_only and not block.is_mx:
        raise InvalidArgument(f"{name!r} does not hold for {block.name}, whose scales are no powers of two")
    if (allow_nan or allow_infinity) and not chosen.special:
        raise InvalidArgument(f"{name!r} says nothing of NaN and infinities; leave out allow_nan and allow_infinity")
    lost = profile is not None and get_profile(profile, block).lost_zeros
    special = {"allow_nan": allow_nan, "allow_infinity": allow_infinity}
    return chosen.draw(block, special).map(lambda pair: Related(chosen, block, *pair, lost_zeros=bool(lost)))


@dataclass(frozen=True, slots=True)
class AllWords:
    """One number with every random word: how often stochastic rounding goes which way."""

    element: str
    #: The number as often as there are words, and the words.
    x: Array
    words: Array
    #: The neighbours' magnitudes, and how many of the words round to the upper one.
    low: float
    high: float
    up: int

    def check(self, codes: Array) -> None:
        """Raises AssertionError where the codes are other than the two neighbours', or of the upper one more or fewer."""
        values = np.abs(mxspec.decode(codes, self.element).astype(np.float64))
        assert set(values.tolist()) <= {self.low, self.high}, f"{self.x[0]!r}: {set(values.tolist())}, not {self.low} or {self.high}"
        count = int((values == self.high).sum())
        assert count == self.up, f"{self.x[0]!r}: {count} of {values.size} words give {self.high}; {self.up} should"


@st.composite
def all_words(draw: st.DrawFn, element: str, bits: int = 8) -> AllWords:
    """Numbers between two neighbours of an element format, each with all words of so many bits: the one away from zero comes for
    floor(f 2^bits) of them, f being how far the number lies beyond the other. Further bits of the words say nothing."""
    grid = [ELEMENTS[element].magnitude(m) for m in range(ELEMENTS[element].max_code + 1)]
    low, high = draw(st.sampled_from(list(pairwise(grid))))
    share = draw(st.integers(0, 1 << 12)) * power_of_two(-12)
    x = np.float32(float(low + share * (high - low)) * draw(st.sampled_from((1, -1))))
    up = int((abs(Fraction(float(x))) - low) / (high - low) * (1 << bits))
    words = np.arange(1 << bits, dtype=np.uint32) | np.uint32(draw(st.integers(0, 3)) << bits)
    return AllWords(element, np.full(words.size, x), words, float(low), float(high), up)


@st.composite
def stored_parts(draw: st.DrawFn, layout: str) -> tuple[tuple[Array, ...], tuple[int, int]]:
    """Parts that a layout packs, in shapes that it takes: whole tiles and parts of them; and the shape [rows, k] of the numbers.

    What was packed comes back: `layout.unpack(layout.pack(*parts), shape)`.
    """
    chosen = get_layout(layout)
    whole = draw(st.booleans())
    m, k = (draw(st.integers(1, 3)) * n if whole else draw(st.integers(1, 3 * n)) for n in chosen.tile)
    try:
        chosen.size((m, k))
    except ValueError:  # which a layout refuses
        assume(False)
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    known = ((f, range(1 << f.packing.width) if f.stored is None else np.flatnonzero(np.array(f.stored) >= 0)) for f in chosen.fields)
    return tuple(random.choice(allowed, (m, k // f.covers)).astype(np.uint8) for f, allowed in known), (m, k)
