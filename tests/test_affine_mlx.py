"""MLX, GPTQ and AWQ compute affine integers as their profiles say: MLX is run here, the committed records say how often."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mxspec import affine
from mxspec.affine.formats import AffineFormat, Offset

from tests.peers import affine_mlx

RECORDS = Path(__file__).parents[1] / "reports" / "affine"


@pytest.mark.parametrize("dtype", list(affine_mlx.DTYPES))
@pytest.mark.parametrize("bits", [3, 4, 8])
def test_mlx_follows_its_profile(bits: int, dtype: str) -> None:
    pytest.importorskip("mlx.core")
    for found in affine_mlx.compare(AffineFormat(bits=bits, group=64, dtype=dtype), 40):
        assert found.compared
        assert not found.different, found


def test_the_record_covers_every_format_and_shows_no_difference() -> None:
    record = json.loads((RECORDS / "mlx.json").read_text("ascii"))
    seen = {(c["function"], c["format"], c["inputs"]) for c in record["comparisons"]}
    assert seen == {
        (function, fmt.name, inputs)
        for function in ("quantize", "dequantize", "quantized_matmul")
        for fmt in affine_mlx.formats()
        for inputs in ("directed", "thresholds", "random")
    }
    assert all(c["compared"] and not c["different"] for c in record["comparisons"])
    assert record["profile"] == affine_mlx.PROFILE


def test_the_record_of_gptq_and_awq_covers_their_profiles() -> None:
    record = json.loads((RECORDS / "torch.json").read_text("ascii"))
    described = [p for p in affine.list_affine_profiles() if p.offset is Offset.ZERO]
    assert all(p.witness for p in described)
    assert {(c["format"].partition("-zero")[0], c["inputs"]) for c in record["comparisons"]} == {
        (f"int{bits}-g{group}", f"{p.id}: {inputs}")
        for p in described
        for bits in (2, 3, 4, 8)
        for group in (32, 64, 128)
        for inputs in ("directed", "thresholds", "random")
    }
    assert all(c["compared"] and not c["different"] for c in record["comparisons"])
