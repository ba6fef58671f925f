"""Quick ways to pack give the bytes of the plain ones: nibbles joined before they are moved, six bits by words."""

from __future__ import annotations

import numpy as np
import pytest

from mxspec import layouts
from mxspec.layouts import folding, tuned
from mxspec.layouts.packing import SIX_BITS
from mxspec.layouts.tuned import pack_items, unpack_items

from tests.support import rng

FOLDED = [(x.name, f) for x in layouts.list_layouts() for f in x.fields if f.folding is not None]


def test_the_layouts_of_the_speed_table_are_folded() -> None:
    assert {"gptq", "awq", "marlin"} <= {name for name, _ in FOLDED}


@pytest.mark.parametrize("band", [1, 1 << 18])
@pytest.mark.parametrize(("name", "field"), FOLDED, ids=[n for n, _ in FOLDED])
def test_folding_is_arranging_and_packing(name: str, field: layouts.Field, band: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, pattern = field.folding, field.parsed
    assert plan is not None
    monkeypatch.setattr(folding, "_BAND", band)
    draw = np.random.default_rng(rng("folding", name, band).randrange(1 << 32))
    for rows, columns in ((1, 1), (2, 3), (5, 2)):
        shape = (rows * pattern.row_tile, columns * pattern.column_tile * 8)
        codes = draw.integers(0, 16, shape, dtype=np.uint8)
        due = pack_items(pattern.arrange(codes), field.packing)
        assert np.array_equal(plan.pack(codes), due)
        assert np.array_equal(plan.unpack(due, *shape), codes)


@pytest.mark.parametrize("count", [0, 4, 8, 12, 8 * tuned._SMALL, 8 * tuned._SMALL + 4, 24 * tuned._SMALL - 4])
def test_six_bits_by_words(count: int) -> None:
    codes = np.random.default_rng(rng("sixes", count).randrange(1 << 32)).integers(0, 64, count, dtype=np.uint8)
    data = pack_items(codes, SIX_BITS)
    assert np.array_equal(data, SIX_BITS.pack(codes))
    data.flags.writeable = False
    assert np.array_equal(unpack_items(data, SIX_BITS), codes)
