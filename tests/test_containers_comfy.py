"""The convention `comfy-kitchen`: marks decide, and the library decodes what we write to equal values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxspec.containers import ContainerError, convert, dequantize_checkpoint, open_checkpoint, quantize_checkpoint
from mxspec.containers.header import read_at
from mxspec_conformance.lint import lint

from tests.containers.build import FILES, rewrite, split_safetensors
from tests.support import bits_of

MARKS = {"nvfp4": "nvfp4", "mxfp8": "mxfp8_e4m3"}
Q = "model.layers.0.self_attn.q_proj"
NVFP4 = FILES / "comfy-kitchen-nvfp4" / "model.safetensors"


def drop(table: dict[str, Any], data: bytearray, name: str) -> None:
    begin, end = table.pop(name)["data_offsets"]
    del data[begin:end]
    for entry in table.values():
        if "data_offsets" in entry:
            entry["data_offsets"] = [o - (end - begin if o >= end else 0) for o in entry["data_offsets"]]


def marked_by_metadata(folder: Path, text: str | None = None) -> Path:
    """The library's file with the metadata entry instead of tensors."""
    table, raw = split_safetensors(NVFP4)
    data = bytearray(raw)
    names = [n for n in table if n.endswith(".comfy_quant")]
    for name in names:
        drop(table, data, name)
    layers = {n.removesuffix(".comfy_quant"): {"format": "nvfp4"} for n in names}
    said = json.dumps({"format_version": "1.0", "layers": layers})
    table["__metadata__"] = {"_quantization_metadata": said if text is None else text}
    return rewrite(folder / "metadata.safetensors", table, bytes(data))


def remark(folder: Path, text: bytes, base: str = Q) -> Path:
    """The library's file with another text in the mark of a layer, of the same length."""
    table, raw = split_safetensors(NVFP4)
    begin, end = table[f"{base}.comfy_quant"]["data_offsets"]
    assert len(text) == end - begin
    return rewrite(folder / "remarked.safetensors", table, raw[:begin] + text + raw[end:])


@pytest.mark.parametrize("mark", MARKS)
def test_comfy_kitchen_decodes_what_is_written_to_equal_values(mark: str, tmp_path: Path) -> None:
    ck: Any = pytest.importorskip("comfy_kitchen")
    torch: Any = pytest.importorskip("torch")
    out = tmp_path / "x.safetensors"
    quantize_checkpoint(FILES / "original.safetensors", out, MARKS[mark], "comfy-kitchen")
    checkpoint = open_checkpoint(out)

    def load(name: str, dtype: Any) -> Any:
        t = checkpoint.tensors[name]
        return torch.frombuffer(bytearray(read_at(t, 0, t.size)), dtype=dtype).reshape(t.shape)

    assert len(checkpoint.blocks) == 7
    for base in checkpoint.blocks:
        if mark == "nvfp4":
            codes, scales = load(f"{base}.weight", torch.uint8), load(f"{base}.weight_scale", torch.float8_e4m3fn)
            theirs = ck.dequantize_nvfp4(codes, load(f"{base}.weight_scale_2", torch.float32), scales, torch.float32)
        else:
            codes, scales = load(f"{base}.weight", torch.float8_e4m3fn), load(f"{base}.weight_scale", torch.float8_e8m0fnu)
            theirs = ck.dequantize_mxfp8(codes, scales, torch.float32)
        assert np.array_equal(bits_of(checkpoint.read(base).dequantize()), bits_of(theirs.numpy())), base


def test_marks_alone_tell_the_convention(tmp_path: Path) -> None:
    """The same tensors, marked by a tensor, by the metadata, and not at all."""
    by_tensor, by_metadata = open_checkpoint(NVFP4), open_checkpoint(marked_by_metadata(tmp_path))
    assert set(by_tensor.blocks) == set(by_metadata.blocks)
    assert {g.form.convention for g in (*by_tensor.blocks.values(), *by_metadata.blocks.values())} == {"comfy-kitchen"}
    assert np.array_equal(by_tensor.read(Q).codes, by_metadata.read(Q).codes)
    # Without a mark they are taken for ModelOpt's, and the padded shape of the scales says that they are not.
    plain = open_checkpoint(marked_by_metadata(tmp_path, "{}"))
    assert {d.form.convention for d in plain.doubts} == {"modelopt"}
    assert {f.misfit.value for d in plain.doubts for f in d.faults} == {"tiled"}


@pytest.mark.parametrize("way", ["modelopt", "compressed-tensors", "lightx2v"])
def test_metadata_marks_come_back_and_are_not_left_behind(way: str, tmp_path: Path) -> None:
    source, there, back = marked_by_metadata(tmp_path), tmp_path / "there.safetensors", tmp_path / "back.safetensors"
    convert(source, there, way)
    stored = split_safetensors(there)[0]
    assert "_quantization_metadata" not in stored["__metadata__"]
    assert not [n for n in stored if n.endswith(".comfy_quant")]
    # The library gives each layer a scale of its own, which loaders of the others join.
    assert {f.rule.id for f in lint(there).findings} == {"global/fused"}
    convert(there, back, "comfy-kitchen")
    assert back.read_bytes() == source.read_bytes()


def test_marks_keep_what_else_they_say(tmp_path: Path) -> None:
    convert(NVFP4, tmp_path / "there.safetensors", "modelopt")
    convert(tmp_path / "there.safetensors", tmp_path / "back.safetensors", "comfy-kitchen")
    assert b"full_precision_matrix_mult" in (tmp_path / "back.safetensors").read_bytes()
    dequantize_checkpoint(NVFP4, tmp_path / "plain.safetensors")
    assert not [n for n in open_checkpoint(tmp_path / "plain.safetensors").tensors if "comfy" in n]


@pytest.mark.parametrize(
    "text", [b'{"format": "nvfp4" ', b'{"Format": "nvfp4"}', b'{"format":      4 }', b"\xff" * 19, b"[" * 19, b"[                 ]"],
    ids=["cut off", "no format", "a number", "no UTF-8", "nested", "a list"],
)  # fmt: skip
def test_a_damaged_mark_is_said(text: bytes, tmp_path: Path) -> None:
    path = remark(tmp_path, text)
    assert [f.rule.id for f in lint(path).findings] == ["tensor/mark"]
    with pytest.raises(ContainerError, match=rf"{Q}.comfy_quant: is no JSON that names a format"):
        convert(path, tmp_path / "x.safetensors", "modelopt")


def test_a_mark_of_another_format_leaves_the_layer_alone(tmp_path: Path) -> None:
    path = remark(tmp_path, b'{"format": "other"}')
    checkpoint = open_checkpoint(path)
    assert Q not in checkpoint.blocks
    assert len(checkpoint.blocks) == 6
    convert(path, tmp_path / "x.safetensors", "modelopt")
    assert f"{Q}.comfy_quant" in open_checkpoint(tmp_path / "x.safetensors").tensors


Edit = Callable[[dict[str, Any], bytearray], Any]
HURT: list[tuple[str, str, Edit]] = [
    ("tensor/missing", "no scales", lambda t, d: drop(t, d, f"{Q}.weight_scale")),
    ("tensor/missing", "no tensor scale", lambda t, d: drop(t, d, f"{Q}.weight_scale_2")),
    ("tensor/shape", "scales row by row", lambda t, d: t[f"{Q}.weight_scale"].update(shape=[64, 8])),
    ("tensor/dtype", "scales of bytes", lambda t, d: t[f"{Q}.weight_scale"].update(dtype="I8")),
    ("tensor/rank", "one axis", lambda t, d: t[f"{Q}.weight"].update(shape=[2048])),
]


@pytest.mark.parametrize(("rule", "edit"), [(r, e) for r, _, e in HURT], ids=[w for _, w, _ in HURT])
def test_what_does_not_fit_is_said(rule: str, edit: Edit, tmp_path: Path) -> None:
    table, raw = split_safetensors(NVFP4)
    data = bytearray(raw)
    edit(table, data)
    path = rewrite(tmp_path / "x.safetensors", table, bytes(data))
    assert [f.rule.id for f in lint(path).findings] == [rule]


def test_rows_that_the_library_would_pad_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "in.safetensors"
    data = np.ones((20, 64), np.float32).tobytes()
    rewrite(source, {"a.weight": {"dtype": "F32", "shape": [20, 64], "data_offsets": [0, len(data)]}}, data)
    with pytest.raises(ContainerError, match=r"a.weight has 20 rows; comfy-kitchen nvfp4 needs a multiple of 16: leave it"):
        quantize_checkpoint(source, tmp_path / "x.safetensors", "nvfp4", "comfy-kitchen")
    quantize_checkpoint(source, tmp_path / "y.safetensors", "nvfp4", "modelopt")
    with pytest.raises(ContainerError, match="a has 20 rows; comfy-kitchen nvfp4 needs a multiple of 16"):
        convert(tmp_path / "y.safetensors", tmp_path / "x.safetensors", "comfy-kitchen")
