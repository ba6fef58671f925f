"""The atlas' data: what the committed files say holds together, and the programs that made them find what is planted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import mxspec
from mxspec.formats import BLOCKS, get_block
from mxspec_lab.model_level import BOUNDED, DISTRIBUTIONS, bound_element_error, check_bound, list_methods, measure_error

ATLAS = Path(__file__).resolve().parents[1] / "reports" / "atlas"


def load(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((ATLAS / f"{name}.json").read_text("ascii"))
    return document


# Attribution


#: What is remarked of a library's own file: comfy-kitchen divides in bfloat16, and no profile makes that tensor scale.
REMARKED = {"comfy-kitchen-nvfp4": ["tensor-scale"]}


def test_checkpoints_are_attributed() -> None:
    rows = load("attribution")["rows"]
    assert len({r["library"] for r in rows if not r["planted"]} - {"mxspec"}) >= 3
    for row in rows:
        assert not row["own_profile_excluded"], row["checkpoint"]
        if row["planted"]:
            assert row["planted"] in row["remarks_with_source"], row["checkpoint"]
        else:
            assert row["remarks_with_source"] == REMARKED.get(row["checkpoint"], []), row["checkpoint"]
            assert row["follows"] in row["exact_from_source"], row["checkpoint"]


# Interop


def test_the_matrix_has_every_quantizer_and_its_own_decoder() -> None:
    document = load("interop")
    columns = {(d["format"], d["decoder"]) for d in document["decoders"]}
    assert {(r["format"], r["decoded_by"]) for r in document["rows"]} <= columns
    for row in document["rows"]:
        assert row["bytes_kept"]
        assert (row["verdict"] == "bits") == ("minimal" not in row)


# Model level


def test_bounds_are_exact_and_nearly_reached() -> None:
    fmt = get_block("mxfp4")
    floor, ceil = bound_element_error(fmt, "mx-floor"), bound_element_error(fmt, "mx-rceil")
    assert (floor["bound"], ceil["bound"]) == ("1/4", "1/5")
    assert 0.24 < check_bound(fmt, "mx-floor") < 0.25
    assert bound_element_error(fmt, "mx-ceil")["bound"] == "1/5"  # 2.5 of a scale; 5 would be above the largest amax, 4
    assert bound_element_error(get_block("mxfp8_e4m3"), "mx-even")["bound"] == "3/31"  # 496 saturates to 448
    assert bound_element_error(get_block("nvfp4"), "nvfp4-exact")["bound"] == "3/17"
    bounds = load("model")["bounds"]
    assert [(row["format"], row["rule"]) for row in bounds] == BOUNDED
    assert {name for name, _ in BOUNDED} == {f.name for f in BLOCKS.values() if f.is_ocp} | {"nvfp4"}
    for row in bounds:
        assert row == bound_element_error(get_block(row["format"]), row["rule"]) | {"largest_seen": row["largest_seen"]}
        assert 0.9 * row["bound_as_float"] < row["largest_seen"] <= row["bound_as_float"], row


def test_errors_are_those_of_the_model() -> None:
    method = next(m for m in list_methods() if (m.format, m.rule) == ("mxfp4", "mx-rceil"))
    name = "uniform on [-1, 1)"
    row = measure_error(method, name, 4, 4096)
    errors = []
    for batch in range(4):
        rng = np.random.default_rng([16, list(DISTRIBUTIONS).index(name), batch])
        x = rng.uniform(-1, 1, 4096).astype(np.float32)
        y = mxspec.quantize(x, "mxfp4", profile="mx-rceil").dequantize(np.float32).astype(np.float64)
        errors.append(((x - y) ** 2).sum() / (x.astype(np.float64) ** 2).sum())
    assert row["nmse"] == float(np.mean(np.array(errors)))
    assert row["nmse_standard_error"] > 0


def test_casts_and_channels_are_what_numpy_makes_of_them() -> None:
    """FP16 and BF16 drop bits; a channel's largest number is one of the codes."""
    methods = {m.format: m for m in list_methods()}
    x = np.float32([[1 + 2.0**-11, 1 + 3 * 2.0**-11, 3.0] * 4, [1e-30, 0, 127] * 4])
    assert methods["FP16"].there_and_back(x)[0, :3].tolist() == [1, 1 + 2.0**-9, 3]
    assert methods["BF16"].there_and_back(x)[0, :3].tolist() == [1, 1, 3]
    assert methods["FP8 E4M3"].there_and_back(x * 448)[1, :3].tolist() == [0, 0, 127 * 448]
    assert methods["INT8"].there_and_back(x)[1, :3].tolist() == [0, 0, 127]
    assert methods["INT8"].there_and_back(np.float32([[127, 2.5, -3.5, 0.5]])).tolist() == [[127, 2, -4, 0]]
