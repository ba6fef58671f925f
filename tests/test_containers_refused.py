"""2:4 forms of compressed-tensors: refused with their reason, by name and by tensors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mxspec.affine.checkpoints import dequantize_affine, find_form
from mxspec.containers import ContainerError, convert, dequantize_checkpoint, list_forms
from mxspec.containers.refused import REFUSED, Refused, find_refused
from mxspec_conformance.cli.main import main
from mxspec_conformance.lint import lint

from tests.containers.build import FILES, write_safetensors

REASON = "0.20 keeps the name and has no code"


@pytest.mark.parametrize("form", REFUSED, ids=lambda r: r.name)
def test_by_name(form: Refused, tmp_path: Path) -> None:
    for find in (list_forms, find_form):
        with pytest.raises(ValueError, match=REASON):
            find(form.name)
    for command in (["quantize", "--format", "int4-g32-zero-float16"], ["convert"]):
        found = CliRunner().invoke(
            main, [*command, str(FILES / "original.safetensors"), str(tmp_path / "x.safetensors"), "--to", form.name]
        )
        assert found.exit_code == 2
        assert "neither read nor written" in " ".join(found.output.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", REFUSED, ids=lambda r: r.name)
def test_by_tensors(form: Refused, tmp_path: Path) -> None:
    path, out = tmp_path / "x.safetensors", tmp_path / "y.safetensors"
    write_safetensors(path, {"norm.weight": ("F32", (4,), bytes(16))} | {f"model.a{s}": ("I32", (2, 4), bytes(32)) for s in form.suffixes})
    ways: list[Callable[[], Any]] = [
        lambda: dequantize_checkpoint(path, out), lambda: dequantize_affine(path, out), lambda: convert(path, out, "modelopt"),
    ]  # fmt: skip
    for way in ways:
        with pytest.raises(ContainerError, match=f"is of the form {form.name}: compressed-tensors {REASON}"):
            way()
    (finding,) = [f for f in lint(path).findings if f.rule.id == "tensor/refused"]
    assert finding.text.startswith(f"{form.name}: ")
    assert finding.tensor == f"model.a{form.suffixes[0]}"


def test_other_tensors_are_no_such_form() -> None:
    assert find_refused(["a.compressed", "b.bitmask", "a.weight_packed", "a.weight_scale"]) is None
