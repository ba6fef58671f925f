"""Containers: files that libraries wrote are read equal, files that we write are read back by the libraries."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import gguf
import ml_dtypes
import numpy as np
import pytest
from safetensors import deserialize, safe_open

import mxspec
from mxspec import containers, layouts
from mxspec.containers import ContainerError, list_forms, open_checkpoint, read_header
from mxspec.containers.conventions import FORMS, Form
from mxspec.containers.dtypes import GGML_TYPES, SAFETENSORS_BITS
from mxspec.containers.header import Tensor
from mxspec.containers.safetensors import lay_out
from mxspec.containers.scalars import convert_bits
from mxspec.formats import FLOAT32
from mxspec.layouts.schema import Evidence
from mxspec.profiles.schema import TensorScaleKind
from mxspec.reals import encode_real, make_real
from mxspec.rounding import Overflow
from mxspec.tensorscale import TensorScale

from tests.containers.build import (
    FILES,
    FP8_FILES,
    LIBRARY_DTYPES,
    LIBRARY_FILES,
    mxfp4_gpt_oss,
    pack_ggml,
    random_codes,
    random_scales,
    write_gguf,
    write_safetensors,
)
from tests.support import bits_of, rng

DTYPES: dict[str, Any] = {"BF16": ml_dtypes.bfloat16, "F32": np.float32}
KINDS = tuple(TensorScaleKind)


def stored_bytes(tensor: Tensor) -> bytes:
    raw = tensor.path.read_bytes()
    return raw[tensor.offset : tensor.offset + tensor.size]


# Files that libraries wrote


@pytest.mark.parametrize("name", LIBRARY_FILES)
def test_library_files_decode_to_what_the_library_decodes(name: str) -> None:
    checkpoint = open_checkpoint(FILES / name / "model.safetensors")
    decoded = open_checkpoint(FILES / name / "decoded.safetensors").tensors
    assert len(checkpoint.blocks) == 7
    for base in checkpoint.blocks:
        theirs = decoded[f"{base}.weight"]
        dtype = DTYPES[theirs.dtype]
        values = np.frombuffer(stored_bytes(theirs), dtype).reshape(theirs.shape)
        ours = checkpoint.read(base).dequantize().astype(dtype)
        assert np.array_equal(bits_of(ours), bits_of(values)), base


def test_every_measured_form_has_a_file_of_its_library() -> None:
    seen = {"gguf/mxfp4", "gguf/nvfp4"}  # by the gguf package, below
    for folder in (*(FILES / name for name in LIBRARY_FILES), *FP8_FILES):
        blocks = open_checkpoint(folder / "model.safetensors").blocks
        seen |= {f"{g.form.convention}/{g.form.format_name}" for g in blocks.values()}
    measured = {f"{f.convention}/{f.format_name}" for f in FORMS if f.evidence is Evidence.MEASURED}
    assert measured == seen


@pytest.mark.parametrize("alignment", [None, 64, 4096])
def test_gguf_files_of_the_package_decode_equal(tmp_path: Path, alignment: int | None) -> None:
    path = write_gguf(tmp_path / "x.gguf", alignment=alignment)
    checkpoint = open_checkpoint(path)
    theirs = {t.name: t for t in gguf.GGUFReader(path).tensors}
    assert set(checkpoint.tensors) == set(theirs)
    for tensor in checkpoint.tensors.values():
        assert tensor.shape == tuple(int(n) for n in theirs[tensor.name].shape[::-1])
        assert (tensor.offset, tensor.size) == (theirs[tensor.name].data_offset, theirs[tensor.name].n_bytes)
    mx = checkpoint.read("blk.0.ffn_down")
    values = gguf.quants.dequantize(theirs["blk.0.ffn_down.weight"].data, gguf.GGMLQuantizationType.MXFP4)
    assert np.array_equal(bits_of(mx.dequantize()), bits_of(values))
    nv = checkpoint.read("blk.0.ffn_up")
    assert np.array_equal(nv.codes, random_codes((5, 128), 1))
    assert np.array_equal(nv.scales, random_scales((5, 8), 2, 0x20, 0x7E))
    assert nv.tensor_scale == TensorScale.from_float("decode", float(np.float32(1e-4)))


def test_gguf_without_companion_decodes_as_the_package_does(tmp_path: Path) -> None:
    codes, scales = random_codes((4, 64), 8), random_scales((4, 4), 9, 0x01, 0x7E)
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    writer.add_tensor("a.weight", pack_ggml(codes, scales, 16, 4), raw_dtype=gguf.GGMLQuantizationType.NVFP4)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    ours = open_checkpoint(tmp_path / "x.gguf").read("a")
    assert ours.tensor_scale is None
    values = gguf.quants.dequantize(gguf.GGUFReader(tmp_path / "x.gguf").tensors[0].data, gguf.GGMLQuantizationType.NVFP4)
    # The package's zeros have the signs of its products; ggml's are +0.
    assert np.array_equal(ours.dequantize(), values)


def test_gguf_stack_of_experts(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write_gguf(tmp_path / "x.gguf", experts=True))
    with pytest.raises(ContainerError, match="stack of 3"):
        checkpoint.read("blk.0.ffn_up")
    whole = random_codes((3, 5, 128), 1)
    for item, scale in enumerate(np.linspace(1e-4, 3e-4, 3, dtype=np.float32)):
        one = checkpoint.read("blk.0.ffn_up", item)
        assert np.array_equal(one.codes, whole[item])
        assert one.tensor_scale == TensorScale.from_float("decode", float(scale))


def test_ggml_types_are_those_of_the_package() -> None:
    # ggml's own numbers grow at the end; the package gets them with its next release.
    newer = {"Q2_0": (42, 64, 2 + 64 * 2 // 8)}
    theirs = {t.name: (int(t), *gguf.GGML_QUANT_SIZES[t]) for t in gguf.GGMLQuantizationType}
    assert {t.name: (t.number, t.items, t.size) for t in GGML_TYPES.values()} == {**newer, **theirs}


def test_gguf_types_newer_than_the_package_are_carried_along(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "x.gguf")
    before = open_checkpoint(path)
    # 7 x 32 float16 become 24 rows of 64 two-bit codes, which take fewer bytes.
    name = b"token_embd.weight"
    raw = bytearray(path.read_bytes())
    at = raw.index(name) + len(name)
    raw[at : at + 24] = struct.pack("<IQQI", 2, 64, 24, 42)
    path.write_bytes(raw)
    tensor = open_checkpoint(path).tensors["token_embd.weight"]
    assert (tensor.dtype, tensor.shape, tensor.size) == ("Q2_0", (24, 64), 24 * 18)
    assert tensor.size <= before.tensors["token_embd.weight"].size
    with pytest.raises(ContainerError, match=r"token_embd.weight is Q2_0, a type of ggml that safetensors does not have"):
        containers.convert(path, tmp_path / "x.safetensors", "torch-dtypes")
    raw[at + 20 : at + 24] = struct.pack("<I", 43)
    path.write_bytes(raw)
    with pytest.raises(ContainerError, match="43"):
        open_checkpoint(path)


def test_gpt_oss_values(tmp_path: Path) -> None:
    tensor = open_checkpoint(mxfp4_gpt_oss(tmp_path / "x.safetensors")).read("model.layers.0.mlp.experts.gate_up_proj")
    codes, scales = random_codes((2, 6, 96), 3), random_scales((2, 6, 3), 4, 0x60, 0x90)
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
    values = table[codes] * np.repeat(np.exp2(scales.astype(np.float32) - 127), 32, axis=-1)
    assert np.array_equal(bits_of(tensor.dequantize()), bits_of(values))


# Files that we write


def block_tensor(form: Form, rows: int = 6, columns: int = 192) -> mxspec.BlockTensor:
    """A tensor of a form's format, of the form's own kind of scale."""
    rows = -(-rows // form.rows_multiple) * form.rows_multiple
    values = np.array([[rng(form.convention, i, j).gauss(0, 1) for j in range(columns)] for i in range(rows)], np.float32)
    fmt = form.format
    if form.tensor_scale is None:
        return mxspec.quantize(values, fmt)
    return mxspec.quantize(values, fmt, tensor_scale="auto", profile="modelopt-0.47/nvfp4/dynamic")


@pytest.mark.parametrize("form", [f for f in FORMS if f.grid is None], ids=lambda f: f"{f.convention}-{f.format_name}")
def test_what_is_written_is_read_back_by_us_and_by_the_library(form: Form, tmp_path: Path) -> None:
    tensor = block_tensor(form)
    path = tmp_path / f"x.{form.container}"
    containers.write(path, {"layer.proj": tensor}, form.convention, convert=True)
    back = open_checkpoint(path, formats=[form.format_name]).read("layer.proj")
    assert back.format == tensor.format
    assert np.array_equal(back.codes, tensor.codes)
    assert np.array_equal(back.scales, tensor.scales)
    if form.container == "gguf":
        raw = {t.name: t for t in gguf.GGUFReader(path).tensors}["layer.proj.weight"].data.tobytes()
        k, blocks = (32, 1) if form.format_name == "mxfp4" else (16, 4)
        assert raw == pack_ggml(tensor.codes, tensor.scales, k, blocks).tobytes()
        return
    stored = dict(deserialize(path.read_bytes()))
    ours = read_header(path).tensors
    assert {t.name: (t.dtype, stored_bytes(t)) for t in ours} == {n: (t["dtype"], bytes(t["data"])) for n, t in stored.items()}
    with safe_open(path, "numpy") as file:
        assert set(file.keys()) == set(stored)
    scales = stored["layer.proj" + (form.scales.suffix if form.scales else "")]
    expected = tensor.scales
    if form.tiled:
        assert layouts.unpack(np.frombuffer(bytes(scales["data"]), np.uint8), "128x4", expected.shape).tobytes() == expected.tobytes()
        assert tuple(scales["shape"]) == (128, -(-expected.shape[1] // 4) * 4)
    else:
        assert bytes(scales["data"]) == expected.tobytes()


def test_header_bytes_are_those_of_the_package(tmp_path: Path) -> None:
    tensors = {f't{i}.\u00e9"\\/': (dtype, (4,), bytes(SAFETENSORS_BITS[dtype] * 4 // 8)) for i, dtype in enumerate(LIBRARY_DTYPES)}
    path = write_safetensors(tmp_path / "x.safetensors", tensors, {"format": "pt\n\u00e9"})
    header = read_header(path)
    data, placed = lay_out(header.tensors[::-1], header.metadata, path)
    assert path.read_bytes().startswith(data)
    assert placed == list(header.tensors)


def test_input_scales_are_written(tmp_path: Path) -> None:
    form = next(f for f in list_forms("modelopt"))
    given = TensorScale.from_float("decode", 0.25)
    containers.write(tmp_path / "x.safetensors", {"p": block_tensor(form)}, "compressed-tensors", input_scales={"p": given}, convert=True)
    stored = dict(deserialize((tmp_path / "x.safetensors").read_bytes()))
    assert bytes(stored["p.input_global_scale"]["data"]) == np.float32(4).tobytes()


SCALED = [f for f in FORMS if f.tensor_scale is not None]


@pytest.mark.parametrize("form", SCALED, ids=lambda f: f.convention)
def test_a_tensor_scale_is_converted_only_on_request(form: Form, tmp_path: Path) -> None:
    """No convention stores the largest magnitude, which is the scale of `nvfp4-te`."""
    assert form.tensor_scale is not None
    x = np.random.default_rng(1).standard_normal((128, 256)).astype(np.float32)
    path = tmp_path / f"x.{form.container}"
    with pytest.raises(ContainerError) as caught:
        containers.write(path, {"a": mxspec.quantize(x, "nvfp4", tensor_scale="auto")}, form.convention)
    text = str(caught.value)
    assert f"profile nvfp4-te has a tensor scale of kind amax, and {form.convention} nvfp4 stores {form.tensor_scale.kind.value}" in text
    assert "convert=True" in text
    assert not list(tmp_path.iterdir())
    native = text.partition("has this kind (")[2].partition(")")[0].split(", ")
    assert native[0] == form.profile
    assert len(native) > 2
    for profile in native:
        made = mxspec.quantize(x, "nvfp4", profile=profile, tensor_scale="auto")
        containers.write(path, {"a": made}, form.convention, force=True)
        back = open_checkpoint(path, formats=["nvfp4"]).read("a")
        # Codes and scales of all profiles return; the profile that comes back is that of the convention's library.
        assert back.profile.id == form.profile
        assert (back.tensor_scale, back.codes.tobytes(), back.scales.tobytes()) == (
            made.tensor_scale,
            made.codes.tobytes(),
            made.scales.tobytes(),
        )
        same = back.dequantize(np.float32).tobytes() == made.dequantize(np.float32).tobytes()
        assert same or profile != form.profile


@pytest.mark.parametrize(
    ("shape", "message"), [((6, 32), "multiple of 64"), ((2, 2, 2, 2, 64), "1 or 2 or 3 or 4 axes")], ids=["row", "rank"]
)
def test_what_gguf_cannot_hold_is_refused(shape: tuple[int, ...], message: str, tmp_path: Path) -> None:
    x = np.ones(shape, np.float32)
    tensor = mxspec.quantize(x, "nvfp4")
    with pytest.raises(ContainerError, match=message):
        containers.write(tmp_path / "x.gguf", {"a": tensor}, "gguf")
    assert not list(tmp_path.iterdir())


def test_blocks_along_another_axis_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ContainerError, match="last axis"):
        containers.write(tmp_path / "x.gguf", {"a": mxspec.quantize(np.ones((64, 3), np.float32), "mxfp4", axis=0)}, "gguf")


# Exact arithmetic


def test_reciprocals_are_correctly_rounded() -> None:
    random = rng("reciprocals")
    cases = [random.randrange(0x00800000, 0x7E000000) for _ in range(500)] + [0x3F800000, 0x3F800001, 0x3F7FFFFF]
    for bits in cases:
        value = Fraction(float(np.uint32(bits).view(np.float32)))
        for source in KINDS:
            for target in KINDS:
                if target is source:
                    assert convert_bits(bits, source, target) == bits
                    continue
                amax = value if source is KINDS[2] else value * 2688 if source is KINDS[0] else 2688 / value
                real = amax if target is KINDS[2] else amax / 2688 if target is KINDS[0] else 2688 / amax
                if Fraction(2) ** -120 < real < Fraction(2) ** 120:
                    due = encode_real(make_real(real), FLOAT32, overflow=Overflow.OWN)
                    assert convert_bits(bits, source, target) == due


@pytest.mark.parametrize("bits", [0, 0x80000000, 0x7F800000, 0x7FC00000, 0xBF800000, 0x00000001, 0x7F7FFFFF])
def test_scales_without_counterpart_are_refused(bits: int) -> None:
    if bits == 0x7F7FFFFF:
        assert 0 < convert_bits(bits, KINDS[0], KINDS[1]) < 0x00800000  # subnormal, and fine
    else:
        with pytest.raises(ContainerError, match="0x"):
            convert_bits(bits, KINDS[0], KINDS[1])


# Which tensors belong together


def test_short_rows_of_lightx2v_are_ambiguous_until_named(tmp_path: Path) -> None:
    path = write_safetensors(
        tmp_path / "x.safetensors", {"a.weight": ("U8", (128, 64), bytes(8192)), "a.weight_scale": ("F8_E8M0", (128, 4), bytes(512))}
    )
    assert "fits lightx2v" in open_checkpoint(path).doubts[0].faults[0].text
    assert open_checkpoint(path, formats=["mxfp8_e4m3"]).blocks["a"].shape == (128, 64)
    assert open_checkpoint(path, formats=["mxfp4"]).blocks["a"].shape == (128, 128)


def test_e5m2_checkpoints_are_not_taken_for_block_quantized(tmp_path: Path) -> None:
    path = write_safetensors(
        tmp_path / "x.safetensors",
        {"a.weight": ("F8_E5M2", (4, 64), bytes(256)), "a.weight_scale": ("F32", (), bytes(4)), "b.weight": ("U8", (4, 64), bytes(256))},
    )
    checkpoint = open_checkpoint(path)
    assert not checkpoint.blocks
    assert not checkpoint.doubts


@pytest.mark.parametrize("name", ["../x.safetensors", "/etc/passwd", "a/b", "", ".."])
def test_index_stays_in_its_folder(name: str, tmp_path: Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(ContainerError, match="own folder"):
        open_checkpoint(index)


def test_importing_mxspec_imports_no_package_of_containers() -> None:
    code = "import sys, mxspec; print([m for m in sys.modules if m.split('.')[0] in ('gguf', 'safetensors') or m.startswith('mxspec.containers')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    code = "import sys, mxspec.containers; print([m for m in sys.modules if m.split('.')[0] in ('gguf', 'safetensors')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_documentation_has_every_convention_and_rule() -> None:
    from mxspec_conformance.lint import RULES

    text = (Path(__file__).resolve().parents[1] / "docs/checkpoints.md").read_text("utf-8")
    for form in FORMS:
        names = [form.convention, form.codes.suffix, *([form.scales.suffix] if form.scales else [])]
        names += [s.suffix for s in (form.tensor_scale, *form.input_scales) if s is not None]
        assert all(f"`{name}" in text for name in names), form
    missing = [r for r in RULES if f"`{r}`" not in text and not (r.startswith("container/") and r[10:] in text)]
    assert missing == []


def test_metadata_may_be_null(tmp_path: Path) -> None:
    """As MLX writes a file without metadata, and safetensors reads it."""
    text = b'{"__metadata__":null,"a":{"data_offsets":[0,8],"dtype":"F32","shape":[2]}}'
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + np.ones(2, np.float32).tobytes())
    with safe_open(path, "numpy") as file:
        assert file.get_tensor("a").tolist() == [1, 1]
    assert open_checkpoint(path).tensors["a"].shape == (2,)
    text = text.replace(b"null", b"1234")
    path.write_bytes(len(text).to_bytes(8, "little") + text + np.ones(2, np.float32).tobytes())
    with pytest.raises(ContainerError, match="must be an object of strings"):
        open_checkpoint(path)
