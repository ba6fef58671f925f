"""MLX quantizes, dequantizes and multiplies affine integers as the profile says; the committed record says how often."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mxspec.affine.formats import AffineFormat

from tests.peers import affine_mlx

RECORD = Path(__file__).parents[1] / "reports" / "affine" / "mlx.json"


@pytest.mark.parametrize("dtype", list(affine_mlx.DTYPES))
@pytest.mark.parametrize("bits", [3, 4, 8])
def test_mlx_follows_its_profile(bits: int, dtype: str) -> None:
    pytest.importorskip("mlx.core")
    for found in affine_mlx.compare(AffineFormat(bits=bits, group=64, dtype=dtype), 40):
        assert found.compared
        assert not found.different, found


def test_the_record_covers_every_format_and_shows_no_difference() -> None:
    record = json.loads(RECORD.read_text("ascii"))
    seen = {(c["function"], c["format"], c["inputs"]) for c in record["comparisons"]}
    assert seen == {
        (function, fmt.name, inputs)
        for function in ("quantize", "dequantize", "quantized_matmul")
        for fmt in affine_mlx.formats()
        for inputs in ("directed", "thresholds", "random")
    }
    assert all(c["compared"] and not c["different"] for c in record["comparisons"])
    assert record["profile"] == affine_mlx.PROFILE
