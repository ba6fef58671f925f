"""A target that looks up two codes at once, with one wrong entry in its table, is wrong for one pair at one kind of place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxspec import affine
from mxspec.formats import get_block
from mxspec.layouts import get_layout
from mxspec_conformance.judge.check import check
from mxspec_conformance.judge.invariance.pools import list_neighbours

from tests.bugs.building import Array, make, right_values
from tests.judge.reading import failing


def spoil(codes: Array, pair: tuple[int, int], place: int, every: int) -> Array:
    """The codes, of which the first of a pair at these places is read as another one."""
    flat = codes.reshape(-1).copy()
    at = np.arange(place, flat.size - 1, every)
    flat[at[(flat[at] == pair[0]) & (flat[at + 1] == pair[1])]] ^= 1
    return flat.reshape(codes.shape)


@pytest.mark.parametrize("count", [4, 16, 64, 256])
def test_every_pair_is_asked_at_every_place(count: int) -> None:
    rows = list_neighbours(count, 32)
    every = 4 if count < 256 else 2
    for place in range(every):
        found = {(int(a), int(b)) for row in rows for a, b in zip(row[place::every], row[place + 1 :: every], strict=False)}
        assert len(found) == count * count


@pytest.mark.parametrize(
    ("fmt", "pair", "place", "every"),
    [
        ("mxfp4", (5, 9), 0, 2), ("mxfp4", (3, 3), 1, 2), ("nvfp4", (15, 1), 0, 2), ("mxfp6_e2m3", (10, 40), 2, 4), ("mxfp6_e3m2", (40, 10), 3, 4),
        ("mxfp8_e4m3", (0x13, 0x2A), 0, 2), ("mxint8", (0x81, 0x2A), 1, 2),
    ],
)  # fmt: skip
def test_a_table_of_pairs_with_one_wrong_entry_is_found(fmt: str, pair: tuple[int, int], place: int, every: int) -> None:
    def dequantize(codes: Array, scales: Array, fmt: str) -> Array:
        return right_values(spoil(codes, pair, place, every), scales, fmt)

    name = f"dequantize/{fmt}/code"
    quick = get_block(fmt).element.bits < 8
    report = check(make([fmt], dequantize=dequantize), only=name, quick=quick)
    assert failing(report) == {name: "fail"}
    assert failing(check(make([fmt], dequantize=right_values), only=name, quick=quick)) == {}


@pytest.mark.parametrize("function", ["pack", "unpack"])
@pytest.mark.parametrize("layout", ["nibble-low", "fp6-le"])
def test_so_it_is_of_packing(function: str, layout: str) -> None:
    def pack(codes: Array, layout: str) -> Array:
        return get_layout(layout).pack(spoil(codes, (5, 9), 0, 2))

    def unpack(data: Array, layout: str, shape: tuple[int, ...]) -> Array:
        return spoil(get_layout(layout).unpack(data, shape)[0], (5, 9), 0, 2)

    made: dict[str, Any] = {function: {"pack": pack, "unpack": unpack}[function]}
    name = f"{function}/{layout}/call-size"
    assert failing(check(make([], LAYOUTS=[layout], **made), only=name, quick=True)) == {name: "fail"}


def test_so_it_is_of_affine_integers() -> None:
    def dequantize_affine(codes: Array, scales: Array, offsets: Array, fmt: str) -> Array:
        return np.asarray(affine.dequantize(spoil(codes, (5, 9), 0, 2), scales, offsets, fmt, dtype="float16"))

    fmt = "int4-g32-bias-float16"
    report = check(make([], AFFINE=[fmt], dequantize_affine=dequantize_affine), only=f"*/{fmt}/*", quick=True)
    assert failing(report)[f"dequantize_affine/{fmt}/affine-code"] == "fail"
