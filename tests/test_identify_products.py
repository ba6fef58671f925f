"""What questions find of a product's additions: widths, rounding, order, and the model that gives random operands' bits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from mxspec.dot import Direction
from mxspec_conformance.cli.main import main
from mxspec_conformance.identification.products import ProductIdentity, describe_product, identify_product
from mxspec_conformance.targets.operands import parse_product
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_lab.products.kernels import KernelTarget
from mxspec_lab.products.kinds_right import RIGHT_KINDS
from mxspec_lab.products.right import RIGHT


def identify(name: str, fmt: str, *out_dtypes: str) -> ProductIdentity:
    kernel = replace(next(k for k in RIGHT if k.name == name), product=(fmt, fmt), out_dtypes=out_dtypes or ("float32",))
    return identify_product(InProcessSession(KernelTarget(kernel), name), parse_product(f"{fmt} @ {fmt}"))


@pytest.mark.parametrize(
    ("name", "fmt", "near", "far", "rounding", "model"),
    [
        ("float32, forward", "mxfp8_e4m3", 23, 23, Direction.NEAREST, "float32-nearest, forward, each sum nearest even"),
        ("float32, strided", "mxfp8_e4m3", 23, 23, Direction.NEAREST, "float32-nearest, strided, each sum nearest even"),
        ("pairs, toward zero", "mxfp8_e4m3", 23, 24, None, "float32-nearest, pairs, each sum toward zero"),
        ("float32, each addition down", "mxfp8_e4m3", 23, 23, Direction.DOWN, "float32-nearest, forward, each sum down"),
        ("fused-f25-16", "mxfp8_e4m3", 25, 23, Direction.ZERO, "fused-f25-16"),
        ("fused-f13-32", "mxfp8_e4m3", 13, 13, Direction.ZERO, "fused-f13-32"),
        ("fused-f24-8", "mxfp8_e5m2", 24, 23, Direction.ZERO, "fused-f24-8"),
        ("float16 additions", "mxfp4", None, 10, Direction.NEAREST, "float16, forward, each sum nearest even"),
        ("float64, rounded to float32", "mxfp8_e4m3", None, None, None, "the exact sum, rounded once"),
    ],
)  # fmt: skip
def test_what_a_kernel_does_is_found(
    name: str, fmt: str, near: int | None, far: int | None, rounding: Direction | None, model: str
) -> None:
    found = identify(name, fmt)
    assert (found.near_bits, found.far_bits, found.rounding, found.model) == (near, far, rounding, model)
    assert found.equal == found.compared > 0
    assert "bit for bit" in describe_product(found)["random operands"]


def test_what_no_model_gives_is_said() -> None:
    found = identify("split-k of 7", "mxfp8_e4m3")
    assert found.model == ""
    assert 0 < found.equal < found.compared
    assert "no known model" in describe_product(found)["random operands"]


@pytest.mark.parametrize(("name", "out_dtype", "model"), [("fused-f24-8", "bfloat16", "fused-f24-8"), ("split-k of 7", "bfloat16", "")])
def test_a_model_gives_earlier_answers_too(name: str, out_dtype: str, model: str) -> None:
    """Rounded to 16 bits, random sums of most models are alike; the questions about bits and order are not."""
    found = identify(name, "mxfp8_e4m3", out_dtype)
    assert found.model == model
    assert found.equal == found.compared
    if model:
        assert found.orders[0] == model
    else:
        assert "other answers contradict it" in describe_product(found)["random operands"]


def test_float32_numbers_and_integers_with_offsets() -> None:
    """Integers with offsets are rounded by one of their contracts before a model multiplies them."""
    kernel = next(k for k in RIGHT_KINDS if k.name == "3-bit words of float32")
    found = identify_product(InProcessSession(KernelTarget(kernel), kernel.name), parse_product(" @ ".join(kernel.product)))
    assert "numbers by the affine contract float32" in found.nearest
    assert 0 < found.equal <= found.compared


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(
        "from mxspec_lab.products.kernels import Kernel, KernelTarget\n"
        "target = KernelTarget(Kernel(name='plain', product=('mxfp8_e4m3', 'mxfp4')))\n"
        "OPERANDS, matmul, NAME = target.OPERANDS, target.matmul, 'plain'\n"
    )
    done = CliRunner().invoke(main, ["identify", str(path), "--in-process", "--json", "-"])
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.output)
    assert found["product"] == "mxfp8_e4m3 @ mxfp4"
    assert found["far_bits"] == 23
    shown = CliRunner().invoke(main, ["identify", str(path), "--in-process"])
    assert "places far apart" in shown.output
