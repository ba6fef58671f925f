"""Checkpoints of affine integers: what libraries wrote decodes to their values, bit for bit, and what we write is theirs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from mxspec import affine
from mxspec.affine import checkpoints
from mxspec.affine.checkpoints import bands, convert_affine, dequantize_affine, open_affine, quantize_affine
from mxspec.containers import ContainerError, measure_footprint, open_checkpoint
from mxspec.containers.header import read_at
from mxspec_conformance.cli.main import main
from mxspec_conformance.lint import lint

from tests.containers.build import FILES, rewrite, split_safetensors, write_safetensors

ORIGINAL = FILES / "original.safetensors"
WRITTEN = FILES.parent / "affine"
#: Folder, convention and format of what libraries wrote.
LIBRARIES = {
    "gptq-int4": ("gptq", "int4-g32-zero-float16"), "gptq-int3": ("gptq", "int3-g32-zero-float16"),
    "gptq-v2-int4": ("gptq-v2", "int4-g32-zero-float16"), "awq-int4": ("awq", "int4-g32-zero-float16"),
    "pack-quantized-int4": ("pack-quantized", "int4-g32-zero-float16"),
    "pack-quantized-int4-symmetric": ("pack-quantized", "int4-g32-zero-float16"), "mlx-int4": ("mlx-affine", "int4-g32-bias-bfloat16"),
    "mlx-int6": ("mlx-affine", "int6-g32-bias-bfloat16"),
}  # fmt: skip
WAYS = [
    ("gptq", "int4-g32-zero-float16", "gptq/asymmetric"), ("gptq", "int3-g64-zero-bfloat16", "gptq/asymmetric"),
    ("gptq-v2", "int8-g64-zero-float16", "gptq/symmetric"), ("awq", "int4-g64-zero-float16", "awq/float16"),
    ("pack-quantized", "int5-g32-zero-float32", "gptq/asymmetric"), ("pack-quantized", "int4-g32-zero-bfloat16", "gptq/symmetric"),
    ("mlx-affine", "int3-g32-bias-bfloat16", "mlx-0.32/affine/cpu"),
]  # fmt: skip
Q = "model.layers.0.self_attn.q_proj"


def bytes_of(path: Path) -> dict[str, bytes]:
    return {n: read_at(t, 0, t.size) for n, t in open_checkpoint(path).tensors.items()}


def quantize(tmp_path: Path, convention: str = "gptq", fmt: str = "int4-g32-zero-float16", profile: str | None = None) -> Path:
    out = tmp_path / f"{convention}.safetensors"
    quantize_affine(ORIGINAL, out, fmt, convention, profile=profile)
    return out


@pytest.mark.parametrize("name", LIBRARIES)
def test_files_of_the_libraries(name: str, tmp_path: Path) -> None:
    folder, (convention, fmt) = WRITTEN / name, LIBRARIES[name]
    found = open_affine(folder / "model.safetensors")
    assert found.doubts == ()
    assert {(g.form.convention, g.format.name) for g in found.groups.values()} == {(convention, fmt)}
    dequantize_affine(found, tmp_path / "x.safetensors", dtype=affine.get_affine(fmt).dtype)
    assert bytes_of(tmp_path / "x.safetensors") == bytes_of(folder / "decoded.safetensors")
    for base, group in found.groups.items():
        assert found.read(base).shape == group.shape
    assert [f for f in lint(folder / "model.safetensors").findings if f.rule.id != "int4/lowest"] == []


@pytest.mark.parametrize(("convention", "fmt", "profile"), WAYS)
def test_what_is_written_is_what_the_profile_gives(
    convention: str, fmt: str, profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, form = quantize(tmp_path, convention, fmt, profile), affine.get_affine(fmt)
    found, source = open_affine(path), open_checkpoint(ORIGINAL)
    assert len(found.groups) == 7
    for base in found.groups:
        tensor = source.tensors[f"{base}.weight"]
        x = (np.frombuffer(read_at(tensor, 0, tensor.size), "<u2").astype(np.uint32) << 16).view(np.float32).reshape(tensor.shape)
        due = affine.quantize(x, bits=form.bits, group=form.group, profile=profile, offset=form.offset, scale_dtype=form.dtype)
        read = found.read(base)
        for ours, theirs in ((read.codes, due.codes), (read.scales, due.scales), (read.offsets, due.offsets)):
            assert ours.dtype == theirs.dtype
            assert np.array_equal(ours, theirs), base
    assert {n: b for n, b in bytes_of(path).items() if "norm" in n} == {n: b for n, b in bytes_of(ORIGINAL).items() if "norm" in n}
    assert [f for f in lint(path).findings if f.rule.id != "int4/lowest"] == []
    # In bands of 32 rows the bytes are the same.
    monkeypatch.setattr(bands, "RUN", 1)
    quantize_affine(ORIGINAL, tmp_path / "again.safetensors", fmt, convention, profile=profile)
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()
    dequantize_affine(path, tmp_path / "bands.safetensors", dtype=form.dtype)
    monkeypatch.undo()
    dequantize_affine(path, tmp_path / "whole.safetensors", dtype=form.dtype)
    assert (tmp_path / "bands.safetensors").read_bytes() == (tmp_path / "whole.safetensors").read_bytes()


def test_words_bit_by_bit(tmp_path: Path) -> None:
    """Codes of the column 0 to 7 of the rows, and zero points of 8."""
    codes = np.tile(np.arange(8, dtype=np.uint8)[:, None], (1, 32))
    x = ((codes.astype(np.float32) - 8) * 1).astype(np.float32)
    x[:, 0] = 15 - 8  # the largest code, so that each row's scale is 1
    x[:, 1] = -8
    write_safetensors(tmp_path / "x.safetensors", {"a.weight": ("F32", (8, 32), x.tobytes())})
    stored = {}
    for name in ("gptq", "gptq-v2", "awq"):
        quantize_affine(tmp_path / "x.safetensors", tmp_path / f"{name}.safetensors", "int4-g32-zero-float16", name)
        stored[name] = {n: np.frombuffer(b, "<u4") for n, b in bytes_of(tmp_path / f"{name}.safetensors").items()}
    assert hex(int(stored["awq"]["a.qweight"][2])) == "0x75316420"
    assert [hex(int(stored[n]["a.qzeros"][0])) for n in stored] == ["0x77777777", "0x88888888", "0x88888888"]
    # GPTQ: eight of a row in a word, and words of a column next to each other.
    assert hex(int(stored["gptq"]["a.qweight"][8 + 3])) == "0x33333333"


@pytest.mark.parametrize("bits", range(1, 9))
def test_words_for_checkpoints_are_the_models(bits: int) -> None:
    codes = np.random.default_rng(bits).integers(0, 1 << bits, (3, 64), dtype=np.uint8)
    words = affine.pack_words(codes, bits)
    assert np.array_equal(bands.pack_words(codes, bits), words)
    assert np.array_equal(bands.unpack_words(words, bits), codes)


def test_there_and_back_is_the_same_file(tmp_path: Path) -> None:
    path = quantize(tmp_path)
    for step, convention in enumerate(("awq", "pack-quantized", "gptq-v2", "gptq")):
        done = convert_affine(path, tmp_path / f"{step}.safetensors", convention)
        path = done.files[0]
        assert done.elements == 36864
    assert path.read_bytes() == (tmp_path / "gptq.safetensors").read_bytes()


def test_symmetric_tensors_have_no_zero_points(tmp_path: Path) -> None:
    path = quantize(tmp_path, profile="gptq/symmetric")
    packed, back = tmp_path / "p.safetensors", tmp_path / "b.safetensors"
    convert_affine(path, packed, "pack-quantized")
    assert not [n for n in open_checkpoint(packed).tensors if n.endswith("zero_point")]
    convert_affine(packed, back, "gptq")
    assert back.read_bytes() == path.read_bytes()


def test_a_zero_point_of_0_has_no_form_in_gptq(tmp_path: Path) -> None:
    x = np.linspace(0, 1, 8 * 32, dtype=np.float32)
    write_safetensors(tmp_path / "x.safetensors", {"a.weight": ("F32", (8, 32), x.tobytes())})
    with pytest.raises(ContainerError, match="zero point of 0, for which gptq has no agreed form"):
        quantize_affine(tmp_path / "x.safetensors", tmp_path / "y.safetensors", "int4-g32-zero-float16", "gptq")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.safetensors"]
    quantize_affine(tmp_path / "x.safetensors", tmp_path / "y.safetensors", "int4-g32-zero-float16", "gptq-v2")
    # Read as the first format, 0 is a 1, and a stored 15 has no meaning.
    table, data = split_safetensors(quantize(tmp_path))
    begin, end = table[f"{Q}.qzeros"]["data_offsets"]
    path = rewrite(tmp_path / "z.safetensors", table, data[:begin] + b"\xff" * (end - begin) + data[end:], pad=False)
    with pytest.raises(ContainerError, match="less one to some loaders"):
        open_affine(path).read(Q)
    assert "affine/zero" in {f.rule.id for f in lint(path).findings}


@pytest.mark.parametrize("said", ["configuration", "metadata", "option", "nothing"])
def test_which_gptq_it_is(said: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    shutil.copytree(WRITTEN / "gptq-v2-int4", folder)
    if said != "configuration":
        (folder / "config.json").unlink()
    if said == "metadata":
        table, data = split_safetensors(folder / "model.safetensors")
        table["__metadata__"] = {"mxspec.convention": "gptq-v2"}
        rewrite(folder / "model.safetensors", table, data, pad=False)
    extra = ["--from", "gptq-v2"] if said == "option" else []
    command = ["dequantize", str(folder / "model.safetensors"), str(tmp_path / "x.safetensors"), "--dtype", "float16", *extra]
    assert CliRunner().invoke(main, command).exit_code == 0
    same = bytes_of(tmp_path / "x.safetensors") == bytes_of(folder / "decoded.safetensors")
    assert same == (said != "nothing")  # as GPTQModel does, the older format is assumed


def test_columns_in_another_order(tmp_path: Path) -> None:
    path = quantize(tmp_path, "gptq-v2")
    table, data = split_safetensors(path)
    begin, end = table[f"{Q}.g_idx"]["data_offsets"]
    order = np.random.default_rng(4).permutation(64)
    index = (np.argsort(order) // 32).astype("<i4")
    edited = rewrite(tmp_path / "e.safetensors", table, data[:begin] + index.tobytes() + data[end:], pad=False)
    found, plain = open_affine(edited), open_affine(path)
    group, straight = found.read(Q), plain.read(Q)
    codes = straight.codes.astype(np.float32)
    due = (codes - straight.offsets[:, index].astype(np.float32)) * straight.scales[:, index].astype(np.float32)
    dequantize_affine(found, tmp_path / "x.safetensors", dtype="float16")
    got = np.frombuffer(bytes_of(tmp_path / "x.safetensors")[f"{Q}.weight"], "<f2").reshape(64, 64)
    assert np.array_equal(got, due.astype(np.float16))
    assert np.array_equal(np.sort(group.dequantize(), axis=1), np.sort(due, axis=1))
    with pytest.raises(ContainerError, match="another order"):
        convert_affine(found, tmp_path / "y.safetensors", "awq")
    convert_affine(found, tmp_path / "y.safetensors", "gptq")
    assert bytes_of(tmp_path / "y.safetensors")[f"{Q}.g_idx"] == index.tobytes()
    broken = rewrite(tmp_path / "b.safetensors", table, data[:begin] + bytes(end - begin) + data[end:], pad=False)
    with pytest.raises(ContainerError, match="does not give each of 2 groups 32 columns"):
        open_affine(broken).read(Q)
    assert "affine/index" in {f.rule.id for f in lint(broken).findings}


def test_sizes_that_mlx_leaves_open(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    shutil.copy(WRITTEN / "mlx-int4" / "model.safetensors", path)
    assert "int4-g32-bias-bfloat16, int2-g64" not in str(open_affine(path).doubts[0].text)
    assert open_affine(path).doubts[0].ambiguous
    with pytest.raises(ContainerError, match="--format"):
        dequantize_affine(path, tmp_path / "y.safetensors")
    assert {f.rule.id for f in lint(path).findings} == {"affine/ambiguous"}
    assert lint(path, formats=["int4-g32-bias-bfloat16"]).findings == ()
    command = ["dequantize", str(path), str(tmp_path / "y.safetensors"), "--format", "int4-g32-bias-bfloat16"]
    assert CliRunner().invoke(main, command).exit_code == 0
    assert bytes_of(tmp_path / "y.safetensors") == bytes_of(WRITTEN / "mlx-int4" / "decoded.safetensors")


def test_mlx_loads_what_is_written(tmp_path: Path) -> None:
    mx: Any = pytest.importorskip("mlx.core")
    path = quantize(tmp_path, "mlx-affine", "int4-g64-bias-float16", "mlx-0.32/affine/cpu")
    held = mx.load(str(path))
    theirs = mx.dequantize(held[f"{Q}.weight"], held[f"{Q}.scales"], held[f"{Q}.biases"], 64, 4)
    dequantize_affine(path, tmp_path / "y.safetensors", dtype="float16")
    assert bytes_of(tmp_path / "y.safetensors")[f"{Q}.weight"] == np.array(theirs).tobytes()
    # What MLX makes of the same weights has the same words.
    weight = mx.load(str(ORIGINAL))[f"{Q}.weight"].astype(mx.float16)
    words, scales, biases = mx.quantize(weight, 64, 4)
    stored = bytes_of(path)
    assert [stored[f"{Q}.{n}"] for n in ("weight", "scales", "biases")] == [np.array(a).tobytes() for a in (words, scales, biases)]


def _nan(x: np.ndarray[Any, Any]) -> None:
    x[1, 3] = np.nan


def _large(x: np.ndarray[Any, Any]) -> None:
    x[1, 3] = 3e38


@pytest.mark.parametrize(
    ("shape", "convention", "fmt", "edit", "message"),
    [
        ((8, 48), "gptq", "int4-g32-zero-float16", None, "needs a multiple of 32"),
        ((4, 32), "gptq", "int4-g32-zero-float16", None, "columns of 4 numbers"),
        ((8, 32), "awq", "int3-g32-zero-float16", None, "awq stores codes of 4 bits"),
        ((8, 32), "awq", "int4-g32-zero-float32", None, "stores scales in float16, bfloat16"),
        ((8, 32), "mlx-affine", "int4-g32-zero-float16", None, "stores a bias with each group"),
        ((8, 32), "gptq", "int4-g32-zero-float16", _nan, "holds NaN or infinity"),
        ((8, 32), "gptq", "int4-g32-zero-float16", _large, "a scale is beyond float16"),
    ],
)
def test_what_is_refused(
    shape: tuple[int, int], convention: str, fmt: str, edit: Callable[[Any], None] | None, message: str, tmp_path: Path
) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    if edit is not None:
        edit(x)
    write_safetensors(tmp_path / "x.safetensors", {"a.weight": ("F32", shape, x.tobytes())})
    with pytest.raises(ContainerError, match=message):
        quantize_affine(tmp_path / "x.safetensors", tmp_path / "y.safetensors", fmt, convention)
    assert [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]


def test_biases_do_not_become_zero_points(tmp_path: Path) -> None:
    path = quantize(tmp_path, "mlx-affine", "int4-g32-bias-float16")
    with pytest.raises(ContainerError, match="gptq stores a zero with each group"):
        convert_affine(path, tmp_path / "y.safetensors", "gptq")
    with pytest.raises(ContainerError, match="mlx-affine already"):
        convert_affine(path, tmp_path / "y.safetensors", "mlx-affine")


@pytest.mark.parametrize("back", [False, True], ids=["quantize", "dequantize"])
def test_a_killed_run_goes_on(back: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after each of its steps, with a journal at every step."""
    from mxspec.containers import resuming

    monkeypatch.setattr(resuming, "_INTERVAL", 1)
    source = quantize(tmp_path)

    def run(out: Path, progress: Any = None) -> Any:
        if back:
            return dequantize_affine(source, out, progress=progress)
        return quantize_affine(ORIGINAL, out, "int4-g32-zero-float16", "gptq", progress=progress)

    run(tmp_path / "due.safetensors")
    steps, out = 0, tmp_path / "x.safetensors"

    def kill(*_: object) -> None:
        nonlocal steps
        steps += 1
        if steps in (4, 9):
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run(out, kill)
        assert not out.exists()
    assert run(out).resumed
    assert out.read_bytes() == (tmp_path / "due.safetensors").read_bytes()


def test_footprint_counts_every_byte(tmp_path: Path) -> None:
    for convention, fmt, profile in WAYS:
        path = quantize(tmp_path, convention, fmt, profile)
        found = open_affine(path)
        (share,) = checkpoints.measure_affine(found)
        apart = {t.name for g in found.groups.values() for t in g.parts.values()}
        rest = measure_footprint(found.checkpoint, apart=apart)
        assert share.size + sum(o.size for o in rest.others) + rest.headers == path.stat().st_size
        assert share.codes * 8 == share.elements * share.format.bits
        document = json.loads(CliRunner().invoke(main, ["footprint", str(path), "--json"]).stdout)
        assert document["affine"][0]["format"] == fmt
        assert sum(o["size"] for o in document["others"]) == sum(o.size for o in rest.others)
        path.unlink()


@pytest.mark.parametrize(
    ("edit", "rule"),
    [
        (lambda t, _: t[f"{Q}.weight_scale"].update(dtype="F32", shape=[32, 2]), "affine/shape"),
        (lambda t, _: t["__metadata__"].update({"mxspec.contract": t["__metadata__"]["mxspec.contract"].replace("asymm", "symm")}), "contract/digest"),
        (lambda t, d: d.__setitem__(slice(*t[f"{Q}.weight_scale"]["data_offsets"]), b"\xff\x7f" * 128), "affine/not-finite"),
    ],
    ids=["dtype of scales", "another profile", "NaN"],
)  # fmt: skip
def test_lint_finds(edit: Any, rule: str, tmp_path: Path) -> None:
    path = quantize(tmp_path, "pack-quantized")
    table, data = split_safetensors(path)
    held = bytearray(data)
    edit(table, held)
    found = lint(rewrite(tmp_path / "e.safetensors", table, bytes(held), pad=False))
    assert {f.rule.id for f in found.findings if f.rule.id != "int4/lowest"} == {rule}


@pytest.mark.parametrize("convention", checkpoints.CONVENTIONS)
def test_a_folder_and_its_configuration(convention: str, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    shutil.copy(ORIGINAL, source / "model.safetensors")
    (source / "config.json").write_text('{"model_type": "llama"}', "ascii")
    fmt = "int4-g32-bias-float16" if convention == "mlx-affine" else "int4-g32-zero-float16"
    command = ["quantize", str(source), str(out), "--format", fmt, "--to", convention]
    assert CliRunner().invoke(main, command).exit_code == 0
    config = json.loads((out / "config.json").read_text("utf-8"))
    said = config["quantization_config"]
    if convention == "mlx-affine":
        assert said == config["quantization"] == {"group_size": 32, "bits": 4, "mode": "affine"}
    elif convention == "pack-quantized":
        assert (said["format"], said["config_groups"]["group_0"]["weights"]["group_size"]) == ("pack-quantized", 32)
    else:
        assert (said["quant_method"], said["bits"], said["group_size"]) == (convention.removesuffix("-v2"), 4, 32)
        assert said.get("checkpoint_format", "") == {"gptq": "gptq", "gptq-v2": "gptq_v2"}.get(convention, "")
    assert [f for f in lint(out).findings if f.rule.id != "int4/lowest"] == []
    assert CliRunner().invoke(main, ["dequantize", str(out), str(tmp_path / "plain")]).exit_code == 0
    assert "quantization_config" not in json.loads((tmp_path / "plain" / "config.json").read_text("utf-8"))


def test_formats_of_another_kind_are_reported(tmp_path: Path) -> None:
    for fmt, convention in (("mxfp4", "gptq"), ("int4-g32-zero-float16", "modelopt"), ("int9-g32-zero-float16", "gptq")):
        run = CliRunner().invoke(main, ["quantize", str(ORIGINAL), str(tmp_path / "x.safetensors"), "--format", fmt, "--to", convention])
        assert run.exit_code == 2
        assert ("does not store" in run.stderr) == (not fmt.startswith("int9"))
