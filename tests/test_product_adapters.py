"""Real libraries' products: what the judge says of them, as it was found."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from mxspec import dot
from mxspec.elements import decode_table
from mxspec.formats import get_block
from mxspec_conformance import Report, check
from mxspec_conformance.adapters.ggml import _store, _store_q8
from mxspec_conformance.results.report import Verdict

from tests.pages.findings import list_findings
from tests.peers.products_peers import FOLDER, FOLDERS, HEAD, WAITING, describe, find_about, list_examples, list_targets, render_packages

ROOT = Path(__file__).resolve().parents[1]
LIGHT = "the extra `light` is not installed: pip install -e '.[light]'"


def wrong(report: Report) -> set[tuple[str, Verdict]]:
    return {(r.id, r.verdict) for r in report.requirements if r.verdict not in (Verdict.PASS, Verdict.OPEN, Verdict.UNSUPPORTED)}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numpy_conforms(dtype: str) -> None:
    report = check(f"numpy-products-{dtype}", in_process=True)
    assert wrong(report) == set()
    assert len(report.formats) == 10


def test_mlx_takes_the_scale_ff_as_infinity_and_is_right_otherwise() -> None:
    pytest.importorskip("mlx.core", reason=LIGHT)
    report = check("mlx-products-float32", in_process=True)
    assert wrong(report) == {(f"matmul/float32@{fmt}/nan", Verdict.FAIL) for fmt in ("mxfp4", "mxfp8_e4m3")}
    assert [f.deviations for f in report.formats] == [["the scale code FF of b is taken as infinity"]] * 2 + [[]] * 4
    assert [f.format for f in report.formats if f.format.startswith("float32@int")] == [
        "float32@int4-g64-bias-float32", "float32@int8-g32-bias-float32", "float32@int3-g128-bias-float32"
    ]  # fmt: skip


def test_mlx_adds_16_bit_products_in_16_bits() -> None:
    pytest.importorskip("mlx.core", reason=LIGHT)
    report = check("mlx-products-bfloat16", in_process=True)
    deviations = {r.id for r in report.requirements if r.verdict is Verdict.DEVIATION}
    assert {f"matmul/bfloat16@{fmt}/sum" for fmt in ("mxfp4", "mxfp8_e4m3", "nvfp4")} <= deviations
    affine = {f.format: f.behaviour for f in report.formats if "int" in f.format}
    assert {b["sums"] for b in affine.values()} == {"bfloat16 additions in any order and rounding"}


def test_gfloat_decodes_what_it_is_given() -> None:
    pytest.importorskip("gfloat", reason=LIGHT)
    report = check("gfloat-products", in_process=True)
    assert wrong(report) == set()
    assert len(report.formats) == 7


def test_gguf_has_no_nan() -> None:
    """FF is 2^128 in its MXFP4, of which most multiples are infinite and zero is zero; 7F is a number in its NVFP4."""
    pytest.importorskip("gguf", reason=LIGHT)
    report = check("gguf-products", in_process=True)
    assert {i.rpartition("/")[2] for i, _ in wrong(report)} == {"nan"}
    assert [f.deviations for f in report.formats if "mxfp4" in f.format] == [
        [f"the scale code FF of {sides} is taken as 2^128, and numbers beyond float32 as infinite"] for sides in ("a and b", "b")
    ]  # fmt: skip


def test_the_blocks_that_ggml_is_handed_hold_the_numbers() -> None:
    """Read back as ggml's block_q8_0, block_mxfp4 and block_nvfp4 say."""
    draw = np.random.default_rng(3)
    for fmt in ("mxfp6_e2m3", "mxint8"):
        codes = draw.integers(0, get_block(fmt).element.code_count, (3, 128)).astype(np.uint8)
        scales = draw.integers(120, 136, (3, 4)).astype(np.uint8)
        data = _store_q8(codes, scales, fmt).reshape(3, 4, 34)
        read = data[..., :2].copy().view(np.float16).astype(np.float64) * data[..., 2:].view(np.int8)
        assert (read.reshape(3, 128) == dot.block_factor(codes, scales, fmt).values).all()
    with pytest.raises(NotImplementedError, match="no float16 holds this scale"):
        _store_q8(np.zeros((1, 32), np.uint8), np.array([[0]], np.uint8), "mxint8")
    for fmt, stored, scale_bytes, run in (("mxfp4", 17, 1, 32), ("nvfp4", 36, 4, 16)):
        codes, scales = draw.integers(0, 16, (2, 128)).astype(np.uint8), draw.integers(1, 120, (2, 128 // run)).astype(np.uint8)
        data = _store(codes, scales, fmt).reshape(2, -1, stored)
        halves = data[..., scale_bytes:].reshape(2, 128 // run, run // 2)
        element, scale = (decode_table(part).astype(np.float64) for part in (get_block(fmt).element, get_block(fmt).scale))
        numbers = element[np.concatenate([halves & 15, halves >> 4], axis=-1)]
        read = numbers * scale[data[..., :scale_bytes].reshape(2, -1)][..., None]
        assert (read.reshape(2, 128) == dot.block_factor(codes, scales, fmt).values).all()


def test_every_target_with_products_has_a_committed_result() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(list_targets())
    assert len(list_targets()) >= 14


@pytest.mark.parametrize("name", FOLDERS)
def test_every_example_has_a_committed_result_and_its_rows(name: str) -> None:
    folder = FOLDERS[name]
    assert {path.stem for path in folder.glob("*.json")} == set(list_examples(name)) - set(WAITING)
    page = (folder / "README.md").read_text("utf-8")
    assert page.endswith("\n\n" + render_packages(name)), (
        "run `python tests/peers/products_peers.py NAME` in an environment with the package"
    )
    assert all(line.startswith("|") for line in render_packages(name).splitlines()), "a message's lines break the table"
    for path in folder.glob("*.json"):
        document = json.loads(path.read_text("ascii"))
        assert document["about"] == find_about(path.stem)
        assert (ROOT / document["file"]).exists()


def test_every_release_that_a_card_judged_has_its_digest() -> None:
    rows = re.findall(r"^\| \S+ \| (\S+) \| `\S+` \| `([0-9a-f]{64})` \|$", (FOLDERS["gpu"] / "README.md").read_text("utf-8"), re.M)
    judged = {json.loads(path.read_text("ascii"))["check"]["target"]["version"] for path in FOLDERS["gpu"].glob("*.json")}
    # DeepGEMM, torch and Triton were no releases of an index.
    assert judged - {"2.6.1", "2.11.0+cu130", "3.6.0"} == {version for version, _ in rows}
    assert len({digest for _, digest in rows}) == len(rows)


def test_a_finding_of_a_variant_names_its_variables() -> None:
    shown = next(shown for shown in list_findings() if shown.finding.target == "gptqmodel-marlin-mxfp4")
    assert shown.command.startswith("WEIGHTS=mxfp4 mxspec check conformance/examples/gpu/gptqmodel_marlin.py ")


def test_no_result_says_where_a_library_is_installed() -> None:
    assert not any("site-packages" in path.read_text("ascii") for folder in FOLDERS.values() for path in folder.glob("*.json"))


@pytest.mark.parametrize("name", list_targets())
def test_the_page_shows_what_was_found(name: str) -> None:
    document = json.loads((FOLDER / f"{name}.json").read_text("ascii"))
    page = (ROOT / "reports" / "products" / "README.md").read_text("utf-8")
    assert HEAD in page
    assert describe(document) in page, f"run `python tests/peers/products_peers.py {name}` and put its line into reports/products/README.md"
    assert document["about"] == find_about(name)
    products = sum("matmul" in entry["operations"] for entry in document["check"]["formats"])
    assert len(document["identify"]) in (products, 0)  # 0: judged alone
