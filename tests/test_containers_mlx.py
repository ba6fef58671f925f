"""The convention `mlx`: MLX loads what we write with equal values, and what only its files have is kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec import containers
from mxspec.containers import ContainerError, convert, open_checkpoint, quantize_checkpoint
from mxspec.containers.header import read_at
from mxspec_conformance.attribution import attribute
from mxspec_conformance.lint import lint

from tests.containers.build import FILES, rewrite, split_safetensors
from tests.support import bits_of

#: MLX's modes and the formats.
MODES = {"mxfp4": "mxfp4", "mxfp8": "mxfp8_e4m3", "nvfp4": "nvfp4"}
Q = "model.layers.0.self_attn.q_proj"


def quantize(tmp_path: Path, fmt: str, profile: str | None = None) -> Path:
    out = tmp_path / "x.safetensors"
    quantize_checkpoint(FILES / "original.safetensors", out, fmt, "mlx", profile=profile)
    return out


def folder_of(name: str, tmp_path: Path, **quantization: Any) -> Path:
    folder = tmp_path / "in"
    shutil.copytree(FILES / f"mlx-{name}", folder, ignore=shutil.ignore_patterns("decoded*"))
    config = json.loads((folder / "config.json").read_text("ascii"))
    config["quantization"].update(quantization)
    config["quantization_config"].update(quantization)
    (folder / "config.json").write_text(json.dumps(config), "ascii")
    return folder


@pytest.mark.parametrize("mode", MODES)
def test_mlx_loads_what_is_written_with_equal_values(mode: str, tmp_path: Path) -> None:
    mx: Any = pytest.importorskip("mlx.core")
    path = quantize(tmp_path, MODES[mode])
    held, checkpoint = mx.load(str(path)), open_checkpoint(path)
    assert len(checkpoint.blocks) == 7
    for base, group in checkpoint.blocks.items():
        assert group.form.convention == "mlx"
        theirs = mx.dequantize(held[f"{base}.weight"], held[f"{base}.scales"], mode=mode, dtype=mx.float32)
        assert np.array_equal(bits_of(checkpoint.read(base).dequantize()), bits_of(np.array(theirs))), base


@pytest.mark.parametrize("mode", MODES)
def test_by_its_profile_the_tensors_are_those_of_mlx(mode: str, tmp_path: Path) -> None:
    path = quantize(tmp_path, MODES[mode], f"mlx-0.32/{MODES[mode]}/cpu/bfloat16")
    theirs = open_checkpoint(FILES / f"mlx-{mode}" / "model.safetensors")
    ours = open_checkpoint(path)
    assert set(theirs.tensors) == set(ours.tensors)
    for name, tensor in theirs.tensors.items():
        own = ours.tensors[name]
        assert (own.dtype, own.shape) == (tensor.dtype, tensor.shape)
        assert read_at(own, 0, own.size) == read_at(tensor, 0, tensor.size), name


@pytest.mark.parametrize("mode", MODES)
def test_lint_agrees_with_the_contract(mode: str, tmp_path: Path) -> None:
    path = quantize(tmp_path, MODES[mode])
    assert lint(path, against=FILES / "original.safetensors").findings == ()
    # Quantized in one level, NVFP4 has another arithmetic than in two, and the contract says which.
    table, data = split_safetensors(path)
    said = json.loads(table["__metadata__"]["mxspec.contract"])
    assert ("tensor_scale" in said) == (mode == "nvfp4")
    if mode == "nvfp4":
        del said["tensor_scale"]
        table["__metadata__"]["mxspec.contract"] = json.dumps(said)
        assert [f.rule.id for f in lint(rewrite(path, table, data)).findings] == ["contract/digest"]


@pytest.mark.parametrize("mode", MODES)
def test_attribute_names_mlx(mode: str, tmp_path: Path) -> None:
    for tensor in attribute(folder_of(mode, tmp_path), source=FILES / "original.safetensors").tensors:
        assert tensor.claim is not None
        assert tensor.claim.name == "mlx"
        assert tensor.provenance is not None
        assert any(m.profile.startswith("mlx-0.32/") and m.equal == m.blocks for m in tensor.provenance.matches)
        assert tensor.remarks == ()


def test_nvfp4_has_no_tensor_scale(tmp_path: Path) -> None:
    source = FILES / "modelopt-nvfp4" / "model.safetensors"
    with pytest.raises(ContainerError, match="has a tensor scale; mlx nvfp4 has no place for it"):
        convert(source, tmp_path / "x.safetensors", "mlx")
    with pytest.raises(ContainerError, match="works with a tensor scale, and mlx nvfp4 stores none"):
        quantize(tmp_path, "nvfp4", "modelopt-0.47/nvfp4/dynamic")
    assert not list(tmp_path.iterdir())
    # A scale of 1 leaves every value as it is.
    x = np.random.default_rng(1).standard_normal((4, 32)).astype(np.float32)
    one = mxspec.quantize(x, "nvfp4", profile="nvfp4-decode", tensor_scale=mxspec.TensorScale.from_float("decode", 1.0))
    containers.write(tmp_path / "one.safetensors", {"a": one}, "modelopt")
    changes = convert(tmp_path / "one.safetensors", tmp_path / "mlx.safetensors", "mlx")
    assert changes.changed == 0
    assert open_checkpoint(tmp_path / "mlx.safetensors").read("a").tensor_scale is None
    convert(tmp_path / "mlx.safetensors", tmp_path / "back.safetensors", "modelopt")
    assert (tmp_path / "back.safetensors").read_bytes() == (tmp_path / "one.safetensors").read_bytes()


@pytest.mark.parametrize(
    "header", ["", "{", '{"a":{"data_offsets":[0,8],"dtype":"F32","shape":[2]}}', "\ud800", "[" * 3000, 7, {"a": []}], ids=range(7)
)
def test_a_kept_header_that_is_not_the_files_is_not_used(header: Any, tmp_path: Path) -> None:
    there, back = tmp_path / "there.safetensors", tmp_path / "back.safetensors"
    convert(FILES / "mlx-mxfp4" / "model.safetensors", there, "compressed-tensors")
    table, data = split_safetensors(there)
    origin = json.loads(table["__metadata__"]["mxspec.origin"])
    origin["header"] = header
    table["__metadata__"]["mxspec.origin"] = json.dumps(origin)
    convert(rewrite(there, table, data), back, "mlx")
    before, after = open_checkpoint(FILES / "mlx-mxfp4" / "model.safetensors"), open_checkpoint(back)
    assert set(before.tensors) == set(after.tensors)
    assert np.array_equal(before.read(Q).codes, after.read(Q).codes)


def test_the_configuration_of_a_folder(tmp_path: Path) -> None:
    source, there, back = folder_of("mxfp4", tmp_path), tmp_path / "there", tmp_path / "back"
    said = json.loads((source / "config.json").read_text("ascii"))
    convert(source, there, "compressed-tensors")
    config = json.loads((there / "config.json").read_text("ascii"))
    assert "quantization" not in config
    assert config["quantization_config"]["format"] == "mxfp4-pack-quantized"
    assert lint(there).findings == ()
    convert(there, back, "mlx")
    assert json.loads((back / "config.json").read_text("ascii")) == said
    assert (back / "model.safetensors").read_bytes() == (source / "model.safetensors").read_bytes()
    containers.dequantize_checkpoint(back, tmp_path / "plain")
    assert not {"quantization", "quantization_config"} & set(json.loads((tmp_path / "plain/config.json").read_text("ascii")))


def test_a_configuration_of_several_formats_names_layers(tmp_path: Path) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    x = np.random.default_rng(3).standard_normal((32, 64)).astype(np.float32)
    made = {n: mxspec.quantize(x, f) for n, f in (("a", "mxfp4"), ("b", "mxfp8_e4m3"), ("c", "mxfp4"))}
    containers.write(folder / "model.safetensors", made, "torch-dtypes")
    (folder / "config.json").write_text("{}", "ascii")
    convert(folder, out, "mlx")
    config = json.loads((out / "config.json").read_text("ascii"))
    eight = {"group_size": 32, "bits": 8, "mode": "mxfp8"}
    assert config["quantization"] == config["quantization_config"] == {"group_size": 32, "bits": 4, "mode": "mxfp4", "b": eight}
    assert lint(out).findings == ()


@pytest.mark.parametrize(
    ("said", "rules"),
    [
        ({}, set()),
        ({"mode": "nvfp4"}, {"config/method"}),
        ({"mode": "affine", "group_size": 64}, {"config/method", "config/group-size"}),
        ({"mode": "nvfp4", "group_size": 16, Q: {"mode": "mxfp4", "group_size": 32, "bits": 4}},
         {"config/method", "config/group-size"}),
    ],
    ids=["right", "another mode", "affine", "one layer of seven right"],
)  # fmt: skip
def test_lint_reads_the_modes_of_layers(said: dict[str, Any], rules: set[str], tmp_path: Path) -> None:
    found = lint(folder_of("mxfp4", tmp_path, **said)).findings
    assert {f.rule.id for f in found} == rules
    if Q in said:
        sizes = [f.tensor for f in found if f.rule.id == "config/group-size"]
        assert len(sizes) == 6
        assert f"{Q}.weight" not in sizes


def test_stacks_of_experts(tmp_path: Path) -> None:
    x = np.random.default_rng(2).standard_normal((3, 4, 64)).astype(np.float32)
    path = tmp_path / "x.safetensors"
    containers.write(path, {"e": mxspec.quantize(x, "mxfp4")}, "mlx")
    assert open_checkpoint(path).tensors["e.weight"].shape == (3, 4, 8)
    assert open_checkpoint(path).read("e").shape == (3, 4, 64)
    convert(path, tmp_path / "y.gguf", "gguf")
    convert(tmp_path / "y.gguf", tmp_path / "back.safetensors", "mlx")
    assert (tmp_path / "back.safetensors").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("edit", "rule"),
    [
        (lambda t: t[f"{Q}.scales"].update(shape=[32, 4]), "tensor/shape"),
        (lambda t: t[f"{Q}.scales"].update(dtype="I8"), "tensor/not-checked"),
        (lambda t: t.update({f"{Q}.weight": {**t[f"{Q}.weight"], "shape": [512]}}), "tensor/rank"),
    ],
    ids=["scales of another shape", "scales of another dtype", "one axis"],
)
def test_what_does_not_fit_is_said(edit: Any, rule: str, tmp_path: Path) -> None:
    table, data = split_safetensors(FILES / "mlx-mxfp4" / "model.safetensors")
    edit(table)
    path = rewrite(tmp_path / "x.safetensors", table, data, pad=False)
    found = lint(path)
    assert [f.rule.id for f in found.findings] == [rule]
    if rule == "tensor/not-checked":  # no scales that any convention has: other tensors
        assert Q not in open_checkpoint(path).blocks
    else:
        with pytest.raises(ContainerError, match=Q):
            convert(path, tmp_path / "y.safetensors", "compressed-tensors")
