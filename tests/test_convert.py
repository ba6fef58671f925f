"""`mxspec convert`: there and back gives the same bytes, what changes is counted, what cannot be kept is refused."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from mxspec import containers
from mxspec.containers import ContainerError, convert, open_checkpoint
from mxspec.containers.conventions import find_form
from mxspec.containers.parts import RUN
from mxspec.elements import decode_table
from mxspec.formats import FLOAT32, get_block
from mxspec.profiles.schema import TensorScaleKind
from mxspec.reals import encode_real, make_real
from mxspec.rounding import Overflow
from mxspec_conformance.cli.main import main

from tests.containers.build import (
    FILES,
    LIBRARY_FILES,
    float32,
    modelopt_file,
    mxfp4_gpt_oss,
    pack_low,
    random_codes,
    random_scales,
    split_safetensors,
    write_gguf,
    write_safetensors,
)

#: Every convention that stores what a source holds.
WAYS = [
    (name, convention)
    for name in (*LIBRARY_FILES, "gpt-oss", "gguf", "gguf-experts", "modelopt-file")
    for convention in containers.CONVENTIONS
]


def make_source(name: str, folder: Path) -> Path:
    if name in LIBRARY_FILES:
        return Path(shutil.copy(FILES / name / "model.safetensors", folder / "source.safetensors"))
    if name == "gpt-oss":
        return mxfp4_gpt_oss(folder / "source.safetensors")
    if name == "modelopt-file":
        return modelopt_file(folder / "source.safetensors")
    return write_gguf(folder / "source.gguf", alignment=64, experts=name == "gguf-experts")


def file_of(folder: Path, name: str, convention: str) -> Path:
    return folder / f"{name}.{'gguf' if convention == 'gguf' else 'safetensors'}"


@pytest.mark.parametrize(("name", "convention"), WAYS, ids=lambda v: str(v))
def test_there_and_back_is_the_same_file_or_is_refused(name: str, convention: str, tmp_path: Path) -> None:
    source = make_source(name, tmp_path)
    groups = open_checkpoint(source).blocks.values()
    forms = [find_form(convention, g.form.format_name) for g in groups]
    own = next(iter(groups)).form.convention
    fits = own != convention and all(
        f is not None
        and len(g.shape) in f.ranks
        and f.find_obstacle(g.shape) is None
        and (f.container == "gguf" or all(t.size == 4 for t in g.scalars.values()))
        and (f.tensor_scale is not None or not g.scalars)
        for f, g in zip(forms, groups, strict=True)
    )
    there, back = file_of(tmp_path, "there", convention), file_of(tmp_path, "back", own)
    if not fits:
        with pytest.raises(ContainerError):
            convert(source, there, convention)
        assert {p.name for p in tmp_path.iterdir()} == {source.name}
        return
    first = convert(source, there, convention)
    again = convert(there, back, own)
    assert back.read_bytes() == source.read_bytes()
    assert again.changed == first.changed


def test_codes_and_block_scales_move_unchanged(tmp_path: Path) -> None:
    source = make_source("compressed-tensors-nvfp4-pack-quantized", tmp_path)
    before = open_checkpoint(source)
    for convention in ("modelopt", "gguf", "lightx2v", "torch-dtypes"):
        out = file_of(tmp_path, convention, convention)
        convert(source, out, convention)
        after = open_checkpoint(out)
        for base in before.blocks:
            assert np.array_equal(before.read(base).codes, after.read(base).codes)
            assert np.array_equal(before.read(base).scales, after.read(base).scales)


def test_larger_than_one_run_and_tiled(tmp_path: Path) -> None:
    """More elements than are handled at once, rows and tiles that straddle the runs."""
    rows, columns = 1153, 4160  # 9 tiles of rows and one row; 260 scales in a row
    assert rows * columns > RUN
    codes, scales = random_codes((rows, columns), 1), random_scales((rows, columns // 16), 2, 0x20, 0x7E)
    source = write_safetensors(
        tmp_path / "source.safetensors",
        {
            "a.weight": ("U8", (rows, columns // 2), pack_low(codes)),
            "a.weight_scale": ("F8_E4M3", (rows, columns // 16), scales.tobytes()),
            "a.weight_scale_2": ("F32", (), float32(0.25)),
        },
    )
    for convention in ("lightx2v", "gguf"):
        there, back = file_of(tmp_path, "there", convention), tmp_path / f"back-{convention}.safetensors"
        convert(source, there, convention)
        found = open_checkpoint(there).read("a")
        assert np.array_equal(found.codes, codes)
        assert np.array_equal(found.scales, scales)
        convert(there, back, "modelopt")
        assert back.read_bytes() == source.read_bytes()


def test_changed_values_are_counted_exactly(tmp_path: Path) -> None:
    """Against rationals, element by element, under scales whose reciprocal does and does not return."""
    fmt = get_block("nvfp4")
    codes, scales = random_codes((4, 64), 3), random_scales((4, 4), 4, 0x00, 0x7E)
    q = [Fraction(float(v)) for v in decode_table(fmt.element)]
    sf = [Fraction(float(v)) for v in decode_table(fmt.scale)[:127]]
    counted = []
    for value in (3.0, 0.25, 2.7e-5, 1.1920929e-7):
        source = write_safetensors(
            tmp_path / "source.safetensors",
            {
                "a.weight": ("U8", (4, 32), pack_low(codes)),
                "a.weight_scale": ("F8_E4M3", (4, 4), scales.tobytes()),
                "a.weight_scale_2": ("F32", (), float32(value)),
            },
        )
        done = convert(source, tmp_path / "out.safetensors", "compressed-tensors", force=True)
        after = done.tensors[0].after
        assert after is not None
        g, divisor = Fraction(float(np.float32(value))), Fraction(after.value)
        assert after.kind is TensorScaleKind.ENCODE
        expected, ulps = 0, 0
        for i in range(4):
            for j in range(64):
                product = q[codes[i, j]] * sf[scales[i, j // 16]]
                bits = [encode_real(make_real(x), FLOAT32, overflow=Overflow.OWN) for x in (product * g, product / divisor)]
                expected += bits[0] != bits[1]
                ulps = max(ulps, abs(bits[0] - bits[1]))
        assert (done.changed, done.ulps) == (expected, ulps)
        counted.append(expected)
    assert counted[1] == 0
    assert max(counted) > 0


def run(*args: object) -> Result:
    return CliRunner().invoke(main, ["convert", *map(str, args)])


def test_exact_refuses_and_leaves_nothing(tmp_path: Path) -> None:
    source = modelopt_file(tmp_path / "source.safetensors", scale=2.7e-5)
    result = run(source, tmp_path / "out.safetensors", "--to", "compressed-tensors", "--exact")
    assert result.exit_code == 2
    assert "values would change" in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["source.safetensors"]
    exact = modelopt_file(tmp_path / "source.safetensors", scale=0.25)
    assert run(exact, tmp_path / "out.safetensors", "--to", "compressed-tensors", "--exact").exit_code == 0


def test_output_says_what_changes_on_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = modelopt_file(tmp_path / "s.safetensors", scale=3.0)
    monkeypatch.chdir(tmp_path)
    result = run(source, "out.safetensors", "--to", "compressed-tensors")
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    for words in ("modelopt -> compressed-tensors", "unchanged", "rounded reciprocal", "changed values"):
        assert words in result.stdout


def test_json_has_every_tensor(tmp_path: Path) -> None:
    source = modelopt_file(tmp_path / "s.safetensors")
    result = run(source, tmp_path / "o.safetensors", "--to", "lightx2v", "--json")
    document = json.loads(result.stdout)
    assert [t["name"].rpartition(".")[2] for t in document["tensors"]] == ["k_proj", "q_proj", "v_proj"]
    assert document["values_changed"] == sum(t["values_changed"] for t in document["tensors"])
    assert document["tensors"][0]["tensor_scale_before"]["kind"] == "decode"


@pytest.mark.parametrize(
    ("out", "options", "message"),
    [
        ("source.safetensors", ["--to", "compressed-tensors"], "is what this command reads"),
        ("taken.safetensors", ["--to", "compressed-tensors"], "--force"),
        ("folder", ["--to", "compressed-tensors"], "name a new one"),
        ("none/x.safetensors", ["--to", "compressed-tensors"], "does not exist"),
        ("x.gguf", ["--to", "compressed-tensors"], "ends in .safetensors"),
        ("x.safetensors", ["--to", "modelopt"], "already"),
        ("x.safetensors", ["--to", "gpt-oss"], "does not store"),
        ("x.gguf", ["--to", "gguf"], "multiple of 64"),
    ],
)
def test_refusals_say_what_to_do_and_write_nothing(out: str, options: list[str], message: str, tmp_path: Path) -> None:
    source = modelopt_file(tmp_path / "source.safetensors")
    (tmp_path / "taken.safetensors").write_bytes(b"mine")
    (tmp_path / "folder").mkdir()
    before = sorted(p.name for p in tmp_path.iterdir())
    result = run(source, tmp_path / out, *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "nothing was written" in result.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    assert (tmp_path / "taken.safetensors").read_bytes() == b"mine"


def plain(name: str, dtype: str, shape: tuple[int, ...], size: int) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    codes, scales = random_codes((2, 64), 1), random_scales((2, 2), 2, 0x60, 0x90)
    return {
        "a.weight_packed": ("U8", (2, 32), pack_low(codes)),
        "a.weight_scale": ("U8", (2, 2), scales.tobytes()),
        name: (dtype, shape, bytes(size)),
    }


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "size", "message"),
    [
        ("mask", "BOOL", (4,), 4, "GGUF has no type"),
        ("n" * 64, "F32", (1,), 4, "at most 63"),
        ("deep", "F32", (1, 1, 1, 1, 1), 4, "at most 4"),
        ("a.weight", "F32", (1,), 4, "written twice"),
    ],
)
def test_other_tensors_that_gguf_cannot_hold(
    name: str, dtype: str, shape: tuple[int, ...], size: int, message: str, tmp_path: Path
) -> None:
    source = write_safetensors(tmp_path / "s.safetensors", plain(name, dtype, shape, size))
    with pytest.raises(ContainerError, match=message):
        convert(source, tmp_path / "o.gguf", "gguf")


def test_scalars_without_axes_come_back_from_gguf(tmp_path: Path) -> None:
    source = write_safetensors(tmp_path / "s.safetensors", plain("logit_scale", "F32", (), 4), {"format": "pt"})
    convert(source, tmp_path / "o.gguf", "gguf")
    convert(tmp_path / "o.gguf", tmp_path / "b.safetensors", "compressed-tensors")
    assert (tmp_path / "b.safetensors").read_bytes() == source.read_bytes()


def test_edited_scales_are_not_replaced_by_kept_ones(tmp_path: Path) -> None:
    source = modelopt_file(tmp_path / "s.safetensors")
    there = tmp_path / "there.safetensors"
    convert(source, there, "compressed-tensors")
    table, data = split_safetensors(there)
    begin = table["model.layers.0.self_attn.q_proj.weight_global_scale"]["data_offsets"][0]
    raw = bytearray(there.read_bytes())
    at = len(raw) - len(data) + begin
    raw[at : at + 4] = float32(1024)
    there.write_bytes(raw)
    done = convert(there, tmp_path / "back.safetensors", "modelopt")
    restored = {t.base.rpartition(".")[2]: t.restored for t in done.tensors}
    assert restored == {"k_proj": True, "q_proj": False, "v_proj": True}
    assert any("edited" in note for note in done.notes)
    scale = open_checkpoint(tmp_path / "back.safetensors").read("model.layers.0.self_attn.q_proj").tensor_scale
    assert scale is not None
    assert scale.value == 1 / 1024


def test_without_what_was_kept_the_way_back_is_the_rounded_reciprocal(tmp_path: Path) -> None:
    # fl(1 / fl(1 / x)) is not x.
    x = next(v for v in map(np.float32, range(1, 1000)) if np.float32(1) / (np.float32(1) / v) != v)
    source = modelopt_file(tmp_path / "s.safetensors", scale=float(x))
    convert(source, tmp_path / "t.safetensors", "compressed-tensors")
    convert(tmp_path / "t.safetensors", tmp_path / "kept.safetensors", "modelopt")
    done = convert(tmp_path / "t.safetensors", tmp_path / "b.safetensors", "modelopt", ignore_origin=True)
    assert (tmp_path / "kept.safetensors").read_bytes() == source.read_bytes()
    after = done.tensors[0].after
    assert after is not None
    assert after.value != x
    assert after.value == np.float32(1) / (np.float32(1) / x)


def test_lightx2v_absmax_and_alpha(tmp_path: Path) -> None:
    codes, scales = random_codes((128, 64), 1), random_scales((128, 4), 2, 0x20, 0x7E)
    tensors = {
        "a.weight": ("U8", (128, 32), pack_low(codes)),
        "a.weight_scale": ("F8_E4M3", (128, 4), scales.tobytes()),
        "a.weight_global_scale": ("F32", (), float32(700.0)),
        "a.input_absmax": ("F32", (), float32(3.7)),
    }
    source = write_safetensors(tmp_path / "s.safetensors", tensors)
    convert(source, tmp_path / "ct.safetensors", "compressed-tensors")
    stored = open_checkpoint(tmp_path / "ct.safetensors").tensors["a.input_global_scale"]
    raw = stored.path.read_bytes()[stored.offset : stored.offset + 4]
    assert raw == (np.float32(2688) / np.float32(3.7)).tobytes()
    convert(tmp_path / "ct.safetensors", tmp_path / "b.safetensors", "lightx2v")
    assert (tmp_path / "b.safetensors").read_bytes() == source.read_bytes()
    convert(modelopt_file(tmp_path / "m.safetensors"), tmp_path / "l.safetensors", "lightx2v")
    found = open_checkpoint(tmp_path / "l.safetensors").blocks["model.layers.0.self_attn.q_proj"]
    assert set(found.scalars) == {".weight_global_scale", ".input_global_scale", ".alpha"}
    tensors["a.alpha"] = ("F32", (), float32(1.0))
    bad = write_safetensors(tmp_path / "bad.safetensors", tensors)
    with pytest.raises(ContainerError, match="alpha"):
        convert(bad, tmp_path / "never.safetensors", "compressed-tensors")


def test_folder_with_index_and_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for file in (FILES / "modelopt-nvfp4").iterdir():
        if not file.name.startswith("decoded"):
            shutil.copy(file, folder / file.name)
    (folder / "tokenizer.json").write_text("{}")
    names = open_checkpoint(folder / "model.safetensors").tensors
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    index = {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(names, "model-00001-of-00001.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    done = convert(folder, tmp_path / "out", "compressed-tensors")
    out = open_checkpoint(tmp_path / "out")
    assert {g.form.convention for g in out.blocks.values()} == {"compressed-tensors"}
    config = json.loads((tmp_path / "out" / "config.json").read_text())["quantization_config"]
    assert (config["quant_method"], config["format"]) == ("compressed-tensors", "nvfp4-pack-quantized")
    assert config["ignore"] == ["lm_head", "model.embed_tokens"]
    assert (tmp_path / "out" / "tokenizer.json").exists()
    assert not (tmp_path / "out" / "hf_quant_config.json").exists()
    assert len(done.notes) == 2
    with pytest.raises(ContainerError, match="name a new one"):
        convert(folder, tmp_path / "out", "compressed-tensors")


def test_a_folder_with_a_gguf_file(tmp_path: Path) -> None:
    """What it becomes is called by its container."""
    folder = tmp_path / "in"
    folder.mkdir()
    source = write_gguf(folder / "some.gguf")
    (out,) = convert(folder, tmp_path / "out", "torch-dtypes").files
    assert out == tmp_path / "out" / "some.safetensors"
    (back,) = convert(tmp_path / "out", tmp_path / "back", "gguf").files
    assert back.name == "model.gguf"
    assert back.read_bytes() == source.read_bytes()


def test_stopping_leaves_nothing(tmp_path: Path) -> None:
    source = make_source("modelopt-nvfp4", tmp_path)

    def stop(done: int, total: int, name: str) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(source, tmp_path / "o.gguf", "gguf", progress=stop)
    assert [p.name for p in tmp_path.iterdir()] == ["source.safetensors"]
