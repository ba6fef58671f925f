"""`mxspec footprint`: every byte of the files is counted once, and what is counted is what shapes say."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

import mxspec
from mxspec import containers
from mxspec.containers import ContainerError, find_form, measure_footprint, quantize_checkpoint
from mxspec_conformance.cli.main import main

from tests.containers.build import FILES, LIBRARY_FILES, mxfp4_gpt_oss, write_gguf, write_safetensors

#: Those with a scale for each block of a row; others are tried in test_containers_fp8.py.
FORMS = [(f.convention, f.format_name) for f in containers.list_forms() if f.grid is None]


def add_up(found: containers.Footprint) -> int:
    parts = [s.codes + s.scales + s.padding + s.tensor_scales for s in found.shares]
    return sum(parts) + sum(o.size for o in found.others) + found.headers + found.alignment


@pytest.mark.parametrize(("convention", "fmt"), FORMS, ids=[f"{c}-{f}" for c, f in FORMS])
def test_every_convention(convention: str, fmt: str, tmp_path: Path) -> None:
    block = mxspec.get_block(fmt)
    form = find_form(convention, fmt)
    assert form is not None
    rows = -(-130 // form.rows_multiple) * form.rows_multiple
    x = np.ones((rows, 192), np.float32)
    out = tmp_path / ("x.gguf" if convention == "gguf" else "x.safetensors")
    made = mxspec.quantize(x, fmt, tensor_scale="auto" if form.tensor_scale is not None else None)
    containers.write(out, {"a": made}, convention, convert=True)
    found = measure_footprint(out, formats=[fmt])
    (share,) = found.shares
    assert found.size == out.stat().st_size == add_up(found)
    assert found.alignment >= 0
    columns = 192 // block.k
    padded = 256 * -(-columns // 4) * 4
    assert (share.elements, share.codes, share.scales) == (rows * 192, rows * 192 * block.element.bits // 8, rows * columns)
    assert share.padding == (padded - rows * columns if form.tiled else 0)
    assert share.padding_in_tiles == padded - rows * columns
    assert share.tensor_scales == (4 if form.tensor_scale is not None else 0)
    assert share.bits_per_element >= share.format_bits


@pytest.mark.parametrize("name", LIBRARY_FILES)
def test_files_of_the_libraries(name: str) -> None:
    found = measure_footprint(FILES / name / "model.safetensors")
    assert add_up(found) == found.size
    assert sum(s.tensors for s in found.shares) == 7


def test_gguf_with_alignment_and_stacks(tmp_path: Path) -> None:
    found = measure_footprint(write_gguf(tmp_path / "x.gguf", alignment=64, experts=True))
    assert add_up(found) == found.size
    assert {s.format_name for s in found.shares} == {"mxfp4", "nvfp4"}
    assert {o.dtype for o in found.others} == {"F32", "F16"}
    stack = measure_footprint(mxfp4_gpt_oss(tmp_path / "y.safetensors", experts=2, rows=6, columns=96))
    # Each of the two matrices has a tile of its own.
    assert stack.shares[0].padding_in_tiles == 2 * 512 - 2 * 6 * 3


def test_folder_and_command(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    x = np.ones((64, 64), ml_dtypes.bfloat16)
    for n in ("a", "b"):
        write_safetensors(folder / f"{n}.safetensors", {f"{n}.weight": ("BF16", x.shape, x.tobytes())})
    out = tmp_path / "out"
    quantize_checkpoint(folder, out, "mxfp4", "quark", exclude=["b*"])
    run = CliRunner().invoke(main, ["footprint", str(out), "--json"])
    document = json.loads(run.stdout)
    assert document["files"] == 2
    assert document["size"] == sum(p.stat().st_size for p in out.glob("*.safetensors"))
    assert document["quantized"][0]["bits_per_element"] == 4.25
    assert document["others"] == [{"dtype": "BF16", "tensors": 1, "size": 8192}]
    done = CliRunner().invoke(main, ["footprint", str(out / "a.safetensors")])
    assert done.exit_code == 0
    assert "4.25 bits an element" in done.stdout
    (tmp_path / "z.safetensors").write_text("no")
    assert CliRunner().invoke(main, ["footprint", str(tmp_path / "z.safetensors")]).exit_code == 2
    with pytest.raises(ContainerError):
        measure_footprint(tmp_path / "z.safetensors")
