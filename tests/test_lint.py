"""`mxspec lint`: each planted fault gives its finding and no other, clean files give none, hostile files do no harm."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from mxspec.containers import CONVENTIONS, ContainerError, convert
from mxspec_conformance.cli.main import main
from mxspec_conformance.lint import RULES, Departure, Severity, lint

from tests.containers.build import (
    FILES,
    FP8,
    LIBRARY_FILES,
    float32,
    modelopt_file,
    mxfp4_gpt_oss,
    pack_ggml,
    pack_low,
    random_codes,
    random_scales,
    rewrite,
    split_safetensors,
    write_gguf,
    write_safetensors,
)

#: A file of FP8 registers its format, as naming one does.
ROOT = Path(__file__).resolve().parents[1]
SCHEMA = json.loads((ROOT / "conformance/mxspec_conformance/schema/lint.schema.json").read_text("utf-8"))
Q = "model.layers.0.self_attn.q_proj"
Edit = Callable[[dict[str, Any], bytearray], Any]


def rules_of(path: Path, **options: Any) -> list[str]:
    return [f.rule.id for f in lint(path, **options).findings]


# Clean files


@pytest.mark.parametrize("name", LIBRARY_FILES)
def test_files_of_the_libraries_are_clean(name: str, tmp_path: Path) -> None:
    for file in (FILES / name).iterdir():
        if not file.name.startswith("decoded"):
            shutil.copy(file, tmp_path / file.name)
    result = lint(tmp_path)
    assert result.findings == ()
    assert result.exit_code == 0
    assert sum(result.quantized.values()) == 7


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("name", ["compressed-tensors-nvfp4-pack-quantized", "compressed-tensors-mxfp4-pack-quantized"])
def test_converted_files_are_clean(name: str, convention: str, tmp_path: Path) -> None:
    out = tmp_path / ("x.gguf" if convention == "gguf" else "x.safetensors")
    try:
        convert(FILES / name / "model.safetensors", out, convention)
    except ContainerError:
        out = FILES / name / "model.safetensors"
    assert rules_of(out) == []


@pytest.mark.parametrize("experts", [False, True])
def test_gguf_files_of_the_package_are_clean(experts: bool, tmp_path: Path) -> None:
    assert rules_of(write_gguf(tmp_path / "x.gguf", alignment=64, experts=experts)) == []


def test_gpt_oss_is_clean(tmp_path: Path) -> None:
    assert rules_of(mxfp4_gpt_oss(tmp_path / "x.safetensors")) == []


# Planted faults: safetensors


def at(table: dict[str, Any], name: str) -> int:
    return int(table[name]["data_offsets"][0])


def put(data: bytearray, place: int, value: bytes) -> None:
    data[place : place + len(value)] = value


def drop(name: str, table: dict[str, Any], data: bytearray) -> None:
    """Remove a tensor, and its bytes."""
    begin, end = table.pop(name)["data_offsets"]
    del data[begin:end]
    for entry in table.values():
        if "data_offsets" in entry:
            entry["data_offsets"] = [o - (end - begin if o >= end else 0) for o in entry["data_offsets"]]


def add(name: str, dtype: str, shape: list[int], value: bytes, table: dict[str, Any], data: bytearray) -> None:
    """Append a tensor."""
    table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(value)]}
    data += value


def set_scales(value: float, table: dict[str, Any], data: bytearray) -> None:
    for name in [n for n in table if n.endswith("weight_scale_2")]:
        put(data, at(table, name), float32(value))


def make_tiled(table: dict[str, Any], data: bytearray) -> None:
    drop(f"{Q}.weight_scale", table, data)
    add(f"{Q}.weight_scale", "F8_E4M3", [128, 8], b"\x7e" * 1024, table, data)


def make_small(table: dict[str, Any], data: bytearray) -> None:
    """The second block of q: no code above 2."""
    begin = at(table, f"{Q}.weight") + 8
    put(data, begin, bytes(b & 0x33 | 0x11 for b in data[begin : begin + 8]))


def make_negative_zeros(table: dict[str, Any], data: bytearray) -> None:
    begin, end = table[f"{Q}.weight"]["data_offsets"]
    nibbles = [8 if n == 0 else n for b in data[begin:end] for n in (b & 15, b >> 4)]
    for i in range(1, 400, 2):
        nibbles[i] = 8
    put(data, begin, pack_low(np.array(nibbles, np.uint8)))


def make_zero_block(table: dict[str, Any], data: bytearray) -> None:
    put(data, at(table, f"{Q}.weight") + 8, bytes(8))
    put(data, at(table, f"{Q}.weight_scale") + 1, b"\x55")


def lower_range(table: dict[str, Any], data: bytearray) -> None:
    for name in [n for n in table if n.endswith("weight_scale")]:
        begin, end = table[name]["data_offsets"]
        put(data, begin, bytes(min(b, 0x78) for b in data[begin:end]))


def shift_offsets(by: int, name: str, table: dict[str, Any], data: bytearray) -> None:
    table[name]["data_offsets"] = [o + by for o in table[name]["data_offsets"]]


def set_entry(name: str, key: str, value: Any, table: dict[str, Any], data: bytearray) -> None:
    table[name][key] = value


def extend(table: dict[str, Any], data: bytearray) -> None:
    data += bytes(8)


def rename(old: str, new: str, table: dict[str, Any], data: bytearray) -> None:
    table[new] = table.pop(old)


SCALE = f"{Q}.weight_scale"
INVERTED = partial(set_scales, 1 / 2.7e-5)
PLANTED: list[tuple[str, str, Edit]] = [
    ("container/dtype", "unknown", partial(set_entry, SCALE, "dtype", "F3")),
    ("container/shape", "negative", partial(set_entry, SCALE, "shape", [-8, 6])),
    ("container/shape", "2^63", partial(set_entry, SCALE, "shape", [1 << 63, 0])),
    ("container/shape", "fractions", partial(set_entry, SCALE, "shape", [8.0, 6])),
    ("container/size", "more items", partial(set_entry, SCALE, "shape", [8, 7])),
    ("container/size", "2^124 items", partial(set_entry, SCALE, "shape", [1 << 62, 1 << 62])),
    ("container/offset", "falling", partial(set_entry, SCALE, "data_offsets", [48, 0])),
    ("container/truncated", "beyond the end", partial(shift_offsets, 1 << 40, SCALE)),
    ("container/gap", "bytes at the end", extend),
    ("container/header-text", "an unknown key", partial(set_entry, SCALE, "color", "red")),
    ("container/header-text", "metadata of numbers", lambda t, d: t.__setitem__("__metadata__", {"a": 1})),
    ("tensor/missing", "block scales", partial(drop, SCALE)),
    ("tensor/missing", "tensor scale", partial(drop, f"{Q}.weight_scale_2")),
    ("tensor/dtype", "scales", partial(set_entry, SCALE, "dtype", "U8")),
    ("tensor/dtype", "tensor scale", partial(set_entry, f"{Q}.weight_scale_2", "dtype", "I32")),
    ("tensor/shape", "scales transposed", partial(set_entry, SCALE, "shape", [6, 8])),
    ("tensor/tiled", "128x4", make_tiled),
    ("scale/nan", "7F", lambda t, d: put(d, at(t, SCALE) + 3, b"\x7f")),
    ("scale/nan", "FF", lambda t, d: put(d, at(t, SCALE) + 3, b"\xff")),
    ("scale/sign", "negative", lambda t, d: put(d, at(t, SCALE) + 3, b"\xc0")),
    ("scale/zero", "zero", lambda t, d: put(d, at(t, SCALE) + 3, b"\x00")),
    ("scale/zero-block", "odd scale", make_zero_block),
    ("global/value", "zero", lambda t, d: put(d, at(t, f"{Q}.input_scale"), float32(0))),
    ("global/value", "nan", lambda t, d: put(d, at(t, f"{Q}.input_scale"), float32(float("nan")))),
    ("global/direction", "inverted", INVERTED),
    ("global/pair", "no reciprocal", partial(add, f"{Q}.weight_global_scale", "F32", [1], float32(2.7e-5))),
    ("global/fused", "q differs", lambda t, d: put(d, at(t, f"{Q}.weight_scale_2"), float32(3e-5))),
    ("global/range", "below 448", lower_range),
    ("codes/small-max", "one block", make_small),
    ("codes/negative-zero", "all", make_negative_zeros),
    ("sparse/nibble", "illegal", partial(add, "a.meta", "I16", [2], b"\x4e\xd9\x48\x01")),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "what", "edit"), PLANTED, ids=[f"{r}-{w}" for r, w, _ in PLANTED])
def test_planted_fault_gives_exactly_its_finding(rule: str, what: str, edit: Edit, tmp_path: Path) -> None:
    table, data = split_safetensors(modelopt_file(tmp_path / "x.safetensors"))
    edited = bytearray(data)
    edit(table, edited)
    path = rewrite(tmp_path / "x.safetensors", table, bytes(edited))
    result = lint(path)
    # One finding, or one for each of q, k and v where all three were edited.
    assert [f.rule.id for f in result.findings] == [rule] * (3 if edit is INVERTED else 1)
    assert result.exit_code == (0 if RULES[rule].severity is Severity.NOTE else 1)


def test_a_right_pair_of_scales_is_clean(tmp_path: Path) -> None:
    for encode in (np.float32(1) / np.float32(2.7e-5), np.float32(np.float32(2688) / np.float32(0.0725757))):
        source = modelopt_file(tmp_path / "x.safetensors", scale=float(np.float32(2.7e-5)))
        table, data = split_safetensors(source)
        edited = bytearray(data)
        if encode != np.float32(1) / np.float32(2.7e-5):
            set_scales(float(np.float32(0.0725757) / np.float32(2688)), table, edited)
        add(f"{Q}.weight_global_scale", "F32", [1], float32(float(encode)), table, edited)
        assert rules_of(rewrite(tmp_path / "x.safetensors", table, bytes(edited))) == []


def test_overlap(tmp_path: Path) -> None:
    """Two tensors of the same bytes, and nothing that belongs to none."""
    entry = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}
    assert rules_of(rewrite(tmp_path / "x.safetensors", {"a": entry, "b": entry}, bytes(4))) == ["container/overlap"]


def test_gap(tmp_path: Path) -> None:
    table = {n: {"dtype": "U8", "shape": [4], "data_offsets": [i, i + 4]} for n, i in (("a", 0), ("b", 8))}
    assert rules_of(rewrite(tmp_path / "x.safetensors", table, bytes(12))) == ["container/gap"]


def test_findings_point_at_the_byte(tmp_path: Path) -> None:
    source = modelopt_file(tmp_path / "x.safetensors")
    table, data = split_safetensors(source)
    place = source.stat().st_size - len(data) + at(table, SCALE) + 3
    raw = bytearray(source.read_bytes())
    raw[place] = 0xFF
    source.write_bytes(raw)
    (finding,) = lint(source).findings
    assert (finding.tensor, finding.offset, finding.file) == (SCALE, place, "x.safetensors")


def test_findings_point_at_the_byte_in_tiles_and_blocks(tmp_path: Path) -> None:
    for convention in ("lightx2v", "gguf"):
        folder = tmp_path / convention
        folder.mkdir()
        source = FILES / "compressed-tensors-nvfp4-pack-quantized/model.safetensors"
        out = folder / ("x.gguf" if convention == "gguf" else "x.safetensors")
        raw = bytearray(source.read_bytes())
        table, data = split_safetensors(source)
        block = 4 * 37 + 2
        raw[len(raw) - len(data) + at(table, SCALE) + block] = 0x7F
        (folder / "s.safetensors").write_bytes(raw)
        convert(folder / "s.safetensors", out, convention)
        (finding,) = lint(out).findings
        assert finding.rule.id == "scale/nan"
        assert finding.offset is not None
        assert out.read_bytes()[finding.offset] == 0x7F


def e8m0_file(path: Path, scales: np.ndarray[Any, Any], codes: np.ndarray[Any, Any], dtype: str = "U8") -> Path:
    rows, columns = codes.shape
    return write_safetensors(
        path, {"a.weight_packed": ("U8", (rows, columns // 2), pack_low(codes)), "a.weight_scale": (dtype, scales.shape, scales.tobytes())}
    )


def test_e8m0_nan(tmp_path: Path) -> None:
    codes, scales = random_codes((2, 96), 1), random_scales((2, 3), 2, 0x60, 0x90)
    scales[1, 1] = 0xFF
    assert rules_of(e8m0_file(tmp_path / "x.safetensors", scales, codes)) == ["scale/nan"]


def test_mx_scales_of_another_bias(tmp_path: Path) -> None:
    """Weights of 10^12: 40 steps too high. Half of the blocks beyond float16 are no majority."""
    codes, scales = random_codes((4, 64), 1), random_scales((4, 2), 2, 0x70, 0x78)
    assert rules_of(e8m0_file(tmp_path / "right.safetensors", scales, codes)) == []
    assert rules_of(e8m0_file(tmp_path / "high.safetensors", scales + np.uint8(40), codes)) == ["scale/large"]
    half = scales.copy()
    half[:2] += np.uint8(40)
    assert rules_of(e8m0_file(tmp_path / "half.safetensors", half, codes)) == []
    half[2, 0] += np.uint8(40)
    assert rules_of(e8m0_file(tmp_path / "more.safetensors", half, codes)) == ["scale/large"]


def test_rows_that_are_no_whole_blocks(tmp_path: Path) -> None:
    codes, scales = random_codes((2, 48), 1), random_scales((2, 2), 2, 0x60, 0x90)
    assert rules_of(e8m0_file(tmp_path / "x.safetensors", scales, codes)) == ["tensor/row"]


def test_nan_codes(tmp_path: Path) -> None:
    codes = np.full((2, 64), 0x7E, np.uint8)
    codes[1, 3] = 0x7F
    path = write_safetensors(
        tmp_path / "x.safetensors", {"a.weight": ("F8_E4M3", (2, 64), codes.tobytes()), "a.weight_scale": ("U8", (2, 2), b"\x70" * 4)}
    )
    assert rules_of(path) == ["codes/nan"]


def test_lightx2v_alpha(tmp_path: Path) -> None:
    source, out = modelopt_file(tmp_path / "s.safetensors"), tmp_path / "x.safetensors"
    convert(source, out, "lightx2v", ignore_origin=True)
    table, data = split_safetensors(out)
    edited = bytearray(data)
    put(edited, at(table, f"{Q}.alpha"), float32(1.5))
    table["__metadata__"].pop("mxspec.origin")
    assert rules_of(rewrite(out, table, bytes(edited))) == ["global/alpha"]


def test_kept_scales_that_do_not_agree(tmp_path: Path) -> None:
    source, out = modelopt_file(tmp_path / "s.safetensors"), tmp_path / "x.safetensors"
    convert(source, out, "compressed-tensors")
    table, data = split_safetensors(out)
    edited = bytearray(data)
    for name in [n for n in table if n.endswith("weight_global_scale")]:
        put(edited, at(table, name), float32(4096))
    assert rules_of(rewrite(out, table, bytes(edited))) == ["global/kept"] * 3


def test_damaged_origin(tmp_path: Path) -> None:
    out = modelopt_file(tmp_path / "x.safetensors")
    table, data = split_safetensors(out)
    table["__metadata__"] = {"mxspec.origin": '{"container":"gguf","tensors":7}'}
    assert rules_of(rewrite(out, table, data)) == ["global/kept"]


def test_ambiguous_rows(tmp_path: Path) -> None:
    path = write_safetensors(
        tmp_path / "x.safetensors", {"a.weight": ("U8", (128, 64), b"\x77" * 8192), "a.weight_scale": ("F8_E8M0", (128, 4), b"\x70" * 512)}
    )
    assert rules_of(path) == ["tensor/ambiguous"]
    shown = CliRunner().invoke(main, ["lint", str(path)])
    assert shown.exit_code == 2
    assert "none checked, 1 not checked" in shown.output
    assert "1 note; nothing could be judged" in shown.output
    assert rules_of(path, formats=["mxfp4"]) == []
    assert lint(path, formats=["mxfp4"]).exit_code == 0


def test_six_bits_of_quark_are_ambiguous(tmp_path: Path) -> None:
    path = write_safetensors(
        tmp_path / "x.safetensors", {"a.weight": ("U8", (4, 48), b"\xff" * 192), "a.weight_scale": ("U8", (4, 2), b"\x70" * 8)}
    )
    assert rules_of(path) == ["tensor/ambiguous"]
    assert rules_of(path, formats=["mxfp6_e3m2"]) == []


# Configuration


def folder_of(name: str, tmp_path: Path, edit: Callable[[dict[str, Any]], Any]) -> Path:
    for file in ("model.safetensors", "config.json"):
        shutil.copy(FILES / name / file, tmp_path / file)
    config = json.loads((tmp_path / "config.json").read_text())
    edit(config)
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path / "model.safetensors"


CONFIGS: list[tuple[str, str, Callable[[dict[str, Any]], Any]]] = [
    ("config/absent", "nothing", lambda c: c.pop("quantization_config")),
    ("config/method", "another library", lambda c: c["quantization_config"].update(quant_method="modelopt", quant_algo="NVFP4", format="")),
    ("config/method", "another format", lambda c: c["quantization_config"].update(format="mxfp4-pack-quantized")),
    ("config/group-size", "32", lambda c: c["quantization_config"]["config_groups"]["group_0"]["weights"].update(group_size=32)),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "what", "edit"), CONFIGS, ids=[f"{r}-{w}" for r, w, _ in CONFIGS])
def test_configuration(rule: str, what: str, edit: Callable[[dict[str, Any]], Any], tmp_path: Path) -> None:
    assert rules_of(folder_of("compressed-tensors-nvfp4-pack-quantized", tmp_path, edit)) == [rule]


def test_modelopts_own_configuration(tmp_path: Path) -> None:
    path = folder_of("modelopt-nvfp4", tmp_path, lambda c: None)
    (tmp_path / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "FP8", "group_size": 16}}')
    assert rules_of(path) == ["config/method"]


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [("modelopt-nvfp4", "NVFP4_AWQ"), ("modelopt-nvfp4", "MIXED_PRECISION"), ("compressed-tensors-mxfp8-quantized", "MXFP8")],
)
def test_names_under_which_the_same_tensors_are_stored(name: str, algorithm: str, tmp_path: Path) -> None:
    config = {"quant_method": "modelopt", "quant_algo": algorithm}
    assert rules_of(folder_of(name, tmp_path, lambda c: c.update(quantization_config=config))) == []


def test_configuration_of_tensors_that_are_not_there(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "x.safetensors", {"a": ("F32", (1,), bytes(4))})
    (tmp_path / "config.json").write_text('{"quantization_config": {"quant_method": "mxfp4"}}')
    assert rules_of(tmp_path / "x.safetensors") == ["config/method"]


# What is not known


def fp8(rows: int, columns: int) -> bytes:
    return np.random.default_rng(rows).integers(0, 0x7E, rows * columns, np.uint8).tobytes()


#: FP8 checkpoints and others, of the shapes that their libraries write: what is adjacent to a weight, and the configuration.
UNKNOWN: dict[str, tuple[dict[str, tuple[str, tuple[int, ...], bytes]], dict[str, Any] | None, str]] = {
    "fp8 64x64": (
        {"weight": ("F8_E4M3", (256, 256), fp8(256, 256)), "weight_scale_inv": ("F32", (4, 4), float32(0.01) * 16)},
        {"quant_method": "fp8", "weight_block_size": [64, 64]}, "2 tensors are F8_E4M3 adjacent to *_scale_inv",
    ),
    "fp8 fnuz": (
        {"weight": ("F8_E4M3FNUZ", (128, 128), fp8(128, 128)), "weight_scale_inv": ("F32", (1, 1), float32(0.01))},
        {"quant_method": "fp8"}, "2 tensors are F8_E4M3FNUZ adjacent to *_scale_inv",
    ),
    "fp8 of another element": (
        {"weight": ("F8_E5M2", (64, 96), fp8(64, 96)), "weight_scale": ("BF16", (64, 1), b"\x00\x3c" * 64)},
        {"quant_method": "quanto"}, "quanto: 2 tensors are F8_E5M2 adjacent to *_scale",
    ),
    "fp8 stacks": (
        {"weight": ("F8_E4M3", (2, 128, 128), 2 * fp8(128, 128)), "weight_scale_inv": ("F32", (2, 1, 1), float32(0.01) * 2)},
        {"quant_method": "fp8"}, "2 tensors are F8_E4M3 adjacent to *_scale_inv",
    ),
    "nf4": (
        {"weight": ("U8", (3072, 1), bytes(3072)), "weight.absmax": ("F32", (96,), float32(1) * 96), "weight.quant_map": ("F32", (16,), float32(1) * 16)},
        {"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes: 2 tensors are U8 adjacent to *.absmax",
    ),
    "no configuration": (
        {"weight": ("F8_E4M3", (128, 128), fp8(128, 128)), "weight_scale": ("F32", (1, 128), float32(0.01) * 128)},
        None, "2 tensors are F8_E4M3 adjacent to *_scale",
    ),
    "block scales under a method that is not known": (
        {"weight": ("F8_E4M3", (128, 128), fp8(128, 128)), "weight_scale": ("F8_E8M0", (1, 1), b"\x70")},
        {"quant_method": "quanto"}, "quanto: 2 tensors are F8_E4M3 adjacent to *_scale",
    ),
    "nvfp4 of other names": (
        {"weight": ("F4", (16, 64), bytes(512)), "weight_scale_inv": ("F8_E4M3", (16, 4), b"\x38" * 64)},
        None, "2 tensors are F4 adjacent to *_scale_inv",
    ),
}  # fmt: skip


def unknown_file(folder: Path, what: str, *, invert: bool = False) -> Path:
    parts, config, _ = UNKNOWN[what]
    tensors = {f"model.layers.0.mlp.{n}_proj.{p}": t for n in ("up", "down") for p, t in parts.items()}
    if invert:
        tensors = {n: (d, s, float32(100.0) * (len(raw) // 4) if d == "F32" else raw) for n, (d, s, raw) in tensors.items()}
    if config is not None:
        (folder / "config.json").write_text(json.dumps({"quantization_config": config}))
    return write_safetensors(folder / "x.safetensors", {"norm.weight": ("BF16", (64,), bytes(128)), **tensors})


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("what", UNKNOWN)
def test_what_is_not_known_is_not_called_clean(what: str, invert: bool, tmp_path: Path) -> None:
    path = unknown_file(tmp_path, what, invert=invert)
    result = lint(path)
    (finding,) = result.findings
    assert (finding.rule.id, finding.text) == ("tensor/not-checked", f"{UNKNOWN[what][2]}: not known, not checked")
    assert (result.exit_code, sum(result.unchecked.values())) == (2, 2)
    shown = CliRunner().invoke(main, ["lint", str(path)])
    assert shown.exit_code == 2
    assert "nothing found" not in shown.output
    assert "none checked, 2 not checked" in shown.output
    assert "1 note; nothing could be judged" in shown.output
    document = json.loads(CliRunner().invoke(main, ["lint", "--json", str(path)]).stdout)
    Draft202012Validator(SCHEMA).validate(document)
    assert document["exit_code"] == 2


def test_a_method_that_is_not_known_without_its_tensors(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "x.safetensors", {"a.weight": ("BF16", (4, 4), bytes(32))})
    assert (rules_of(path), lint(path).exit_code) == ([], 0)
    (tmp_path / "config.json").write_text('{"quantization_config": {"quant_method": "hqq"}}')
    assert (rules_of(path), lint(path).exit_code) == (["tensor/not-checked"], 2)


def test_what_is_not_known_next_to_what_is(tmp_path: Path) -> None:
    """E5M2 attention next to NVFP4: a note, and what is known is judged."""
    table, data = split_safetensors(modelopt_file(tmp_path / "x.safetensors"))
    edited = bytearray(data)
    add("model.layers.0.self_attn.o_proj.weight", "F8_E5M2", [64, 96], fp8(64, 96), table, edited)
    add("model.layers.0.self_attn.o_proj.weight_scale", "F32", [], float32(0.01), table, edited)
    path = rewrite(tmp_path / "x.safetensors", table, bytes(edited))
    assert (rules_of(path), lint(path).exit_code) == (["tensor/not-checked"], 0)
    put(edited, at(table, SCALE) + 3, b"\x7f")
    path = rewrite(tmp_path / "x.safetensors", table, bytes(edited))
    assert (sorted(rules_of(path)), lint(path).exit_code) == (["scale/nan", "tensor/not-checked"], 1)


def test_a_file_is_judged_by_the_convention_of_its_configuration(tmp_path: Path) -> None:
    """An export of NVFP4 that holds FP8 weights: their dtype is wrong, not that of their scales."""
    path = write_safetensors(
        tmp_path / "x.safetensors",
        {"a.weight": ("F8_E4M3", (64, 128), fp8(64, 128)), "a.weight_scale": ("F8_E4M3", (64, 8), b"\x70" * 512),
         "a.weight_scale_2": ("F32", (), float32(1e-3))},
    )  # fmt: skip
    assert rules_of(path) != ["tensor/dtype"]
    (tmp_path / "config.json").write_text('{"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}')
    (finding,) = lint(path).findings
    assert (finding.rule.id, finding.tensor) == ("tensor/dtype", "a.weight")
    assert finding.text == "is F8_E4M3; modelopt nvfp4 has U8"


def experts_file(path: Path, parts: dict[str, tuple[str, tuple[int, ...], bytes]], without: str = "") -> Path:
    tensors = {f"model.layers.0.mlp.experts.{e}.up_proj.{p}": t for e in range(4) for p, t in parts.items()}
    return write_safetensors(path, {n: t for n, t in tensors.items() if n != f"model.layers.0.mlp.experts.2.up_proj.{without}"})


EXPERTS = {
    **{f"modelopt {p}": ("modelopt", p) for p in ("input_scale", "weight_scale", "weight_scale_2")},
    "quark weight_scale": ("quark", "weight_scale"),
    "fp8 weight_scale_inv": ("fp8", "weight_scale_inv"),
}


@pytest.mark.parametrize("what", EXPERTS)
def test_an_expert_without_a_scale_of_its_siblings(what: str, tmp_path: Path) -> None:
    kind, lacking = EXPERTS[what]
    codes = ("U8", (64, 64), pack_low(random_codes((64, 128), 1)))
    parts = {
        "modelopt": {
            "weight": codes, "weight_scale": ("F8_E4M3", (64, 8), b"\x7e" * 512), "weight_scale_2": ("F32", (), float32(1e-4)),
            "input_scale": ("F32", (), float32(1e-3)),
        },
        "quark": {"weight": codes, "weight_scale": ("U8", (64, 4), b"\x70" * 256)},
        "fp8": {"weight": ("F8_E4M3", (64, 128), fp8(64, 128)), "weight_scale_inv": ("F32", (1, 1), float32(0.01))},
    }[kind]  # fmt: skip
    assert rules_of(experts_file(tmp_path / "x.safetensors", parts)) == []
    result = lint(experts_file(tmp_path / "x.safetensors", parts, lacking))
    found = [f for f in result.findings if f.rule.id in ("tensor/expert", "tensor/missing")]
    assert len(found) == 1
    assert "experts.2.up_proj" in str(found[0].tensor)
    if found[0].rule.id == "tensor/expert":
        assert found[0].text == f"no {lacking} of expert 2, where 3 of 4 have one"
    assert result.exit_code == 1


def test_buffers_of_a_quantizer(tmp_path: Path) -> None:
    table, data = split_safetensors(modelopt_file(tmp_path / "x.safetensors"))
    edited = bytearray(data)
    for name in ("q", "k"):
        add(f"model.layers.0.self_attn.{name}_proj.weight_quantizer._double_scale", "F32", [], float32(1), table, edited)
    (finding,) = lint(rewrite(tmp_path / "x.safetensors", table, bytes(edited))).findings
    assert (finding.rule.id, finding.text) == ("tensor/buffer", "2 named *.weight_quantizer._double_scale")


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32", "F64"])
def test_nan_in_a_tensor_that_is_carried_along(dtype: str, tmp_path: Path) -> None:
    table, data = split_safetensors(modelopt_file(tmp_path / "x.safetensors"))
    edited, numbers = bytearray(data), np.ones(8, {"BF16": ml_dtypes.bfloat16, "F16": "<f2", "F32": "<f4", "F64": "<f8"}[dtype])
    add("model.last.weight", dtype, [8], numbers.tobytes(), table, edited)
    assert rules_of(rewrite(tmp_path / "x.safetensors", table, bytes(edited))) == []
    numbers[3] = np.nan
    put(edited, at(table, "model.last.weight"), numbers.tobytes())
    assert rules_of(rewrite(tmp_path / "x.safetensors", table, bytes(edited))) == ["tensor/nan"]


# Integers


def gptq_file(
    folder: Path, *, zeros: int = 0x77777777, order: list[int] | None = None, config: dict[str, Any] | None = None, transposed: bool = False
) -> Path:  # fmt: skip
    n, k, groups = 16, 64, 2
    shape = (k, n // 8) if transposed else (k // 8, n)
    words = np.random.default_rng(1).integers(0, 1 << 32, shape, np.uint32)
    (folder / "config.json").write_text(json.dumps({"quantization_config": config or {"quant_method": "gptq", "bits": 4}}))
    return write_safetensors(
        folder / "x.safetensors",
        {
            "a.qweight": ("I32", shape, words.tobytes()),
            "a.qzeros": ("I32", (groups, n // 8), np.full((groups, n // 8), zeros, np.uint32).tobytes()),
            "a.scales": ("F16", (groups, n), bytes(2 * groups * n)),
            "a.g_idx": ("I32", (k,), np.array(order or [i // 32 for i in range(k)], np.int32).tobytes()),
        },
    )


GPTQ: list[tuple[list[str], str, dict[str, Any]]] = [
    ([], "v1", {}),
    ([], "v2", {"zeros": 0x88888888, "config": {"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq_v2"}}),
    ([], "awq", {"transposed": True, "config": {"quant_method": "awq", "bits": 4}}),
    (["int4/gptq-zero"], "v2 stored, v1 said", {"zeros": 0x88888888}),
    (["int4/gptq-zero"], "v1 stored, v2 said", {"config": {"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq_v2"}}),
    (["int4/method"], "awq shapes, gptq said", {"transposed": True}),
    (["int4/method"], "gptq shapes, awq said", {"config": {"quant_method": "awq", "bits": 4}}),
    (["int4/g-idx"], "group 2 of 2", {"order": [0] * 63 + [2]}),
    (["int4/act-order"], "falling", {"order": [1] * 32 + [0] * 32}),
    ([], "falling, and said so", {"order": [1] * 32 + [0] * 32, "config": {"quant_method": "gptq", "bits": 4, "desc_act": True}}),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "what", "options"), GPTQ, ids=[w for _, w, _ in GPTQ])
def test_gptq_and_awq(rules: list[str], what: str, options: dict[str, Any], tmp_path: Path) -> None:
    assert rules_of(gptq_file(tmp_path, **options)) == rules


def test_int4_shape(tmp_path: Path) -> None:
    path = write_safetensors(
        tmp_path / "x.safetensors",
        {"a.qweight": ("I32", (3, 5), bytes(60)), "a.qzeros": ("I32", (1, 2), bytes(8)), "a.scales": ("F16", (1, 16), bytes(32))},
    )
    assert rules_of(path) == ["int4/shape"]


def test_int4_lowest(tmp_path: Path) -> None:
    def make(word: int) -> Path:
        tensors = {
            "a.weight_packed": ("I32", (2, 4), np.full((2, 4), word, np.uint32).tobytes()),
            "a.weight_scale": ("F16", (2, 1), bytes(4)),
            "a.weight_shape": ("I64", (2,), np.array([2, 32], np.int64).tobytes()),
        }
        return write_safetensors(tmp_path / "x.safetensors", tensors)

    assert rules_of(make(0x12345678)) == []
    assert rules_of(make(0x02345678)) == ["int4/lowest"]


# Planted faults: GGUF


def gguf_bytes(
    tensors: list[tuple[str, tuple[int, ...], int, int]], data: bytes, *, version: int = 3, keys: bytes = b"", count: int = 0,
    claimed: tuple[int, int] | None = None, alignment: int = 32,
) -> bytes:  # fmt: skip
    """A GGUF file by hand: name, sizes with the fastest first, type, offset of each tensor."""
    head = b"GGUF" + struct.pack("<IQQ", version, *(claimed or (len(tensors), count))) + keys
    for name, sizes, kind, offset in tensors:
        text = name.encode()
        head += struct.pack("<Q", len(text)) + text + struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
        head += struct.pack("<IQ", kind, offset)
    return head.ljust(-(-len(head) // alignment) * alignment, b"\0") + data


def key(name: str, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", kind) + value


U32 = partial(struct.pack, "<I")
ONE = [("a", (4,), 0, 0)]
FAULTY_GGUF: list[tuple[str, str, bytes]] = [
    ("container/version", "big-endian", gguf_bytes([], b"", version=3 << 24)),
    ("container/version", "1", gguf_bytes([], b"", version=1)),
    ("container/count", "2^63 tensors", gguf_bytes([], b"", claimed=(1 << 63, 0))),
    ("container/count", "2^63 keys", gguf_bytes([], b"", claimed=(0, 1 << 63))),
    ("container/truncated", "one tensor too many", gguf_bytes(ONE, b"", claimed=(2, 0))[:-8]),
    ("container/truncated", "data", gguf_bytes(ONE, bytes(8))),
    ("container/header-size", "key of 2^62 bytes", gguf_bytes([], b"", keys=struct.pack("<Q", 1 << 62), count=1)),
    ("container/truncated", "string of 2^62 bytes", gguf_bytes([], b"", keys=key("a", 8, struct.pack("<Q", 1 << 62)), count=1)),
    ("container/truncated", "array of 2^60 numbers", gguf_bytes([], b"", keys=key("a", 9, struct.pack("<IQ", 4, 1 << 60)), count=1)),
    ("container/count", "array of 2^60 strings", gguf_bytes([], b"", keys=key("a", 9, struct.pack("<IQ", 8, 1 << 60)), count=1)),
    ("container/key", "array of arrays", gguf_bytes([], b"", keys=key("a", 9, struct.pack("<IQ", 9, 1)), count=1)),
    ("container/key", "type 99", gguf_bytes([], b"", keys=key("a", 99, b""), count=1)),
    ("container/key", "twice", gguf_bytes([], b"", keys=key("a", 4, U32(1)) * 2, count=2)),
    ("container/alignment", "48", gguf_bytes([], b"", keys=key("general.alignment", 4, U32(48)), count=1)),
    ("container/alignment", "0", gguf_bytes([], b"", keys=key("general.alignment", 4, U32(0)), count=1)),
    ("container/alignment", "a float", gguf_bytes([], b"", keys=key("general.alignment", 6, U32(32)), count=1)),
    ("container/header-text", "key is no UTF-8", gguf_bytes([], b"", keys=struct.pack("<Q", 1) + b"\xff", count=1)),
    ("container/name", "twice", gguf_bytes([*ONE, ("a", (4,), 0, 32)], bytes(64))),
    ("container/name", "64 bytes", gguf_bytes([("a" * 64, (4,), 0, 0)], bytes(32))),
    ("container/dtype", "type 38", gguf_bytes([("a", (4,), 38, 0)], bytes(32))),
    ("container/shape", "5 axes", gguf_bytes([("a", (1,) * 5, 0, 0)], bytes(32))),
    ("container/shape", "no whole blocks", gguf_bytes([("a.weight", (48, 2), 39, 0)], bytes(64))),
    ("container/size", "2^120 items", gguf_bytes([("a", (1 << 60, 1 << 60), 0, 0)], bytes(32))),
    ("container/offset", "8", gguf_bytes([("a", (4,), 0, 8)], bytes(32))),
    ("container/overlap", "same place", gguf_bytes([*ONE, ("b", (4,), 0, 0)], bytes(32))),
    ("tensor/no-scale", "nvfp4", gguf_bytes(
        [("a.weight", (64, 1), 40, 0)], pack_ggml(random_codes((1, 64), 1), random_scales((1, 4), 1, 0x20, 0x7E), 16, 4).tobytes())),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "what", "data"), FAULTY_GGUF, ids=[f"{r}-{w}" for r, w, _ in FAULTY_GGUF])
def test_faulty_gguf_gives_exactly_its_finding(rule: str, what: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(data)
    assert rules_of(tmp_path / "x.gguf") == [rule]


# Whole files


def header_file(path: Path, text: bytes, length: int | None = None) -> Path:
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text)
    return path


@pytest.mark.parametrize(
    ("rule", "data"),
    [
        ("container/truncated", b""),
        ("container/magic", b"PK\x03\x04 something else"),
        ("container/truncated", struct.pack("<Q", 100) + b"{}"),
        ("container/header-size", struct.pack("<Q", 1 << 63) + b"{"),
        ("container/header-text", struct.pack("<Q", 3) + b"{\xff}"),
        ("container/header-text", struct.pack("<Q", 8) + b'{"a":1,}'),
        ("container/header-text", struct.pack("<Q", 13) + b'{"a":1,"a":2}'),
        ("container/header-text", struct.pack("<Q", 9) + b'{"a":NaN}'),
        ("container/header-text", struct.pack("<Q", 400005) + b'{"a":' + b"[" * 400000),
        ("container/header-size", struct.pack("<Q", 4000000) + b"{" + b"[],," * 999999 + b"   "),
        ("container/header-text", struct.pack("<Q", 9006) + b'{"a":' + b"9" * 9000 + b"}"),
    ],
    ids=["empty", "zip", "short", "2^63", "utf-8", "comma", "twice", "NaN", "deep", "many", "long number"],
)
def test_damaged_headers(rule: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / ("x.bin" if rule == "container/magic" or not data else "x.safetensors")
    path.write_bytes(data)
    result = lint(path)
    assert [f.rule.id for f in result.findings] == [rule]
    assert result.exit_code == 2


def test_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path, Path("/dev/zero")):
        result = lint(path)
        assert [f.rule.id for f in result.findings] == ["container/unreadable"]
        assert result.exit_code == 2


def test_index_and_shards_that_do_not_agree(tmp_path: Path) -> None:
    modelopt_file(tmp_path / "a.safetensors")
    names = list(split_safetensors(tmp_path / "a.safetensors")[0])[1:]
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": dict.fromkeys(names, "a.safetensors")}))
    assert rules_of(index) == []
    index.write_text(json.dumps({"weight_map": dict.fromkeys([*names, "b"], "a.safetensors")}))
    assert rules_of(index) == ["container/index"]


def test_every_rule_is_planted_somewhere() -> None:
    """So that no rule is there that cannot be seen to work."""
    files = [p for name in ("test_lint*.py", "test_quantize.py", "test_containers_*.py") for p in Path(__file__).parent.glob(name)]
    text = "".join(p.read_text("utf-8") for p in files)
    departures = {
        f"against/{d}"
        for d in Departure
        if f"D.{d.name}}}" in text or f"D.{d.name}," in text or f"Departure.{d.name}," in text or f"(Departure.{d.name}" in text
    }
    planted = {rule for rule in RULES if f'"{rule}"' in text} | departures
    assert set(RULES) - planted == set()


def test_gpt_oss_with_blocks_of_another_size(tmp_path: Path) -> None:
    path = write_safetensors(
        tmp_path / "x.safetensors", {"a_blocks": ("U8", (2, 3, 17), bytes(102)), "a_scales": ("U8", (2, 3), b"\x70" * 6)}
    )
    assert rules_of(path) == ["tensor/rank"]


# The command


def run(*args: object) -> Any:
    return CliRunner().invoke(main, ["lint", *map(str, args)])


def test_json_follows_its_schema(tmp_path: Path) -> None:
    table, data = split_safetensors(modelopt_file(tmp_path / "x.safetensors"))
    edited = bytearray(data)
    put(edited, at(table, SCALE), b"\xff")
    path = rewrite(tmp_path / "x.safetensors", table, bytes(edited))
    result = run(path, tmp_path / "none", "--json")
    document = json.loads(result.stdout)
    Draft202012Validator(SCHEMA).validate(document)
    assert result.exit_code == document["exit_code"] == 2
    assert document["counts"]["error"] == 2
    Draft202012Validator.check_schema(SCHEMA)


def test_rules_are_listed_with_advice() -> None:
    result = run("--rules")
    assert result.exit_code == 0
    assert all(rule in result.stdout for rule in RULES)
    assert max(map(len, result.stdout.splitlines())) <= 80


# Hostile files


def write_big_files(folder: Path) -> None:
    """Headers as large as are read at all: long strings, wide characters, many objects, many tensors."""
    bodies = {
        "ascii": b'{"__metadata__":{"a":"' + b"x" * ((40 << 20) - 40) + b'"}}',
        "wide": b'{"__metadata__":{"a":"' + b"x" * ((12 << 20) - 40) + "\U0001f600".encode() + b'"}}',
        "objects": b'{"a":[' + b",".join([b'{"a":{}}'] * 190000) + b"]}",
        "entries": b"{" + b",".join(b'"%d":"%s"' % (i, b"x" * 200) for i in range(150000)) + b"}",
    }
    for name, body in bodies.items():
        header_file(folder / f"big-{name}.safetensors", body)
    infos = [(f"{i:060}", (1,), 0, 32 * i) for i in range(40000)]
    (folder / "big-tensors.gguf").write_bytes(gguf_bytes(infos, bytes(32 * 40000)))
    strings = key("a", 9, struct.pack("<IQ", 8, 1 << 20) + bytes(8 << 20))
    (folder / "big-strings.gguf").write_bytes(gguf_bytes([], b"", keys=strings, count=1))


def test_mutated_files_do_no_harm(tmp_path: Path) -> None:
    """A thousand files, fixed seed; in a process that may allocate 256 MB more than it has after import, ten CPU seconds a file."""
    modelopt_file(tmp_path / "0.safetensors")
    mxfp4_gpt_oss(tmp_path / "1.safetensors")
    shutil.copy(FILES / "compressed-tensors-nvfp4-pack-quantized/model.safetensors", tmp_path / "2.safetensors")
    convert(tmp_path / "2.safetensors", tmp_path / "3.gguf", "gguf")
    write_gguf(tmp_path / "4.gguf", alignment=64, experts=True)
    shutil.copy(FILES / "mlx-nvfp4/model.safetensors", tmp_path / "5.safetensors")
    convert(tmp_path / "5.safetensors", tmp_path / "6.safetensors", "modelopt")
    shutil.copy(FILES / "comfy-kitchen-nvfp4/model.safetensors", tmp_path / "7.safetensors")
    convert(tmp_path / "7.safetensors", tmp_path / "8.safetensors", "modelopt")
    for number, name in enumerate(("gptq-int4", "mlx-int4", "pack-quantized-int4"), 9):
        shutil.copy(FILES.parent / "affine" / name / "model.safetensors", tmp_path / f"{number}.safetensors")
    shutil.copy(FP8 / "fp8/model.safetensors", tmp_path / "12.safetensors")
    write_big_files(tmp_path)
    command = [sys.executable, "-m", "tests.containers.hostile", str(tmp_path), "1000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    counts = json.loads(done.stdout)
    assert counts["files"] == 1000
    assert counts["damaged"] > 500
    assert counts["crashes"] == []
