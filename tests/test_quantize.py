"""`mxspec quantize` and `dequantize`: the model's bits in every convention, the rest untouched, and the same bytes after a kill."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner

import mxspec
from mxspec import containers
from mxspec.containers import ContainerError, dequantize_checkpoint, pipeline, quantize_checkpoint, resuming
from mxspec.containers.contract import KEY, digest_arithmetic, make_rows, parse_contract
from mxspec.profiles import list_profiles
from mxspec.tensorscale import TensorScale
from mxspec_conformance.cli.main import main
from mxspec_conformance.lint import lint

from tests.containers.build import rewrite, split_safetensors, write_safetensors

Plain = npt.NDArray[Any]
#: Those with a scale for each block of a row; others are tried in test_containers_fp8.py.
FORMS = [(f.convention, f.format_name) for f in containers.list_forms() if f.grid is None]
STACKED = ("gpt-oss", "gpt-oss-openai")
L = "model.layers.0"
_NAMES = {"bfloat16": "BF16", "float32": "F32", "float16": "F16", "int64": "I64"}


def draw(seed: int, shape: tuple[int, ...], dtype: Any = ml_dtypes.bfloat16) -> Plain:
    return (np.random.default_rng(seed).standard_normal(shape) * 0.02).astype(dtype)


def save(path: Path, tensors: dict[str, Plain]) -> Path:
    stored = {n: (_NAMES[x.dtype.name], x.shape, x.tobytes()) for n, x in tensors.items()}
    return write_safetensors(path, stored, {"format": "pt"})


def weights(convention: str) -> dict[str, Plain]:
    """What is quantized: fused and single layers, or a stack of experts."""
    if convention in STACKED:
        return {f"{L}.mlp.experts.gate_up_proj": draw(1, (3, 8, 128)), f"{L}.mlp.experts.down_proj": draw(2, (3, 4, 64))}
    # comfy-kitchen stores whole tiles of 16 or 32 rows.
    step = 32 if convention == "comfy-kitchen" else 1
    q, k, down, up = (-(-n // step) * step for n in (8, 4, 130, 2))
    return {
        f"{L}.self_attn.q_proj.weight": draw(1, (q, 128)),
        f"{L}.self_attn.k_proj.weight": draw(2, (k, 128)) * ml_dtypes.bfloat16(2),
        f"{L}.mlp.down_proj.weight": draw(3, (down, 192), np.float32),
        f"{L}.mlp.up_proj.weight": draw(4, (up, 64), np.float16),
    }


OTHERS: dict[str, Plain] = {
    f"{L}.self_attn.q_proj.bias": draw(5, (8,), np.float32),
    f"{L}.input_layernorm.weight": draw(6, (128,)),
    "model.embed_tokens.weight": draw(7, (16, 128)),
    "lm_head.weight": draw(8, (16, 128)),
    "steps": np.arange(3, dtype=np.int64),
}


def source(path: Path, convention: str) -> Path:
    return save(path, {**weights(convention), **OTHERS})


def out_name(convention: str) -> str:
    return "x.gguf" if convention == "gguf" else "x.safetensors"


def base_of(name: str) -> str:
    return name.removesuffix(".weight")


def expected(convention: str, fmt: str, profile: str | None = None) -> dict[str, mxspec.BlockTensor]:
    """By the model, tensor by tensor; q and k with the scale of both."""
    found = weights(convention)
    form = containers.find_form(convention, fmt)
    assert form is not None
    profile = profile or (form.profile if form.tensor_scale is not None else None)
    qk = np.concatenate([x.reshape(-1).astype(np.float32) for n, x in found.items() if "self_attn" in n] or [np.zeros(1, np.float32)])
    made = {}
    for name, x in found.items():
        scale = None
        if form.tensor_scale is not None:
            scale = mxspec.tensor_scale(qk if "self_attn" in name and form.fused else x, fmt, profile)
        made[base_of(name)] = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale)
    return made


@pytest.mark.parametrize(("convention", "fmt"), FORMS, ids=[f"{c}-{f}" for c, f in FORMS])
def test_every_convention_there_and_back(convention: str, fmt: str, tmp_path: Path) -> None:
    original = source(tmp_path / "in.safetensors", convention)
    out = tmp_path / out_name(convention)
    done = quantize_checkpoint(original, out, fmt, convention)
    assert done.elements == sum(x.size for x in weights(convention).values())
    assert set(done.carried) == set(OTHERS)
    checkpoint = containers.open_checkpoint(out, formats=[fmt])
    due = expected(convention, fmt)
    assert set(checkpoint.blocks) == set(due)
    for base, tensor in due.items():
        read = checkpoint.read(base)
        assert np.array_equal(read.codes, tensor.codes)
        assert np.array_equal(read.scales, tensor.scales)
    for name, x in OTHERS.items():
        stored = checkpoint.tensors[name]
        assert containers.header.read_at(stored, 0, stored.size) == x.tobytes()
    # A file that says by which profile it was made needs no --format, and lint agrees with it.
    assert lint(out, against=original).findings == ()
    back = tmp_path / "back.safetensors"
    for dtype in ("bfloat16", "float32"):
        dequantize_checkpoint(out, back, dtype=dtype, force=True)
        plain = containers.open_checkpoint(back).tensors
        assert set(plain) == {*weights(convention), *OTHERS}
        for name, x in {**weights(convention), **OTHERS}.items():
            raw = containers.header.read_at(plain[name], 0, plain[name].size)
            if name in OTHERS:
                assert raw == x.tobytes()
            else:
                assert plain[name].shape == x.shape
                assert raw == checkpoint.read(base_of(name)).dequantize(dtype).tobytes()


@pytest.mark.parametrize(
    ("fmt", "convention", "profile"),
    [("mxfp4", "quark", "mx-rceil"), ("mxfp4", "gguf", "gguf-0.19/mxfp4"), ("nvfp4", "modelopt", "nvfp4-paper"),
     ("nvfp4", "lightx2v", "modelopt-0.47/nvfp4/dynamic"), ("nvfp4", "compressed-tensors", "nvfp4-exact")],
)  # fmt: skip
def test_any_profile(fmt: str, convention: str, profile: str, tmp_path: Path) -> None:
    original = source(tmp_path / "in.safetensors", convention)
    out = tmp_path / out_name(convention)
    done = quantize_checkpoint(original, out, fmt, convention, profile=profile, convert=True)
    assert done.profile == profile
    for base, tensor in expected(convention, fmt, profile).items():
        read = containers.open_checkpoint(out).read(base)
        assert np.array_equal(read.codes, tensor.codes)
        assert np.array_equal(read.scales, tensor.scales)
    assert [f for f in lint(out, against=original, profile=profile).findings if f.rule.id != "global/range"] == []


# The contract


def edit_metadata(path: Path, key: str, value: str | None) -> None:
    table, data = split_safetensors(path)
    if value is None:
        del table["__metadata__"][key]
    else:
        table["__metadata__"][key] = value
    rewrite(path, table, data)


def test_contract(tmp_path: Path) -> None:
    original, out = source(tmp_path / "in.safetensors", "quark"), tmp_path / "x.safetensors"

    def rules(**options: Any) -> set[str]:
        return {f.rule.id for f in lint(out, **options).findings}

    quantize_checkpoint(original, out, "mxfp4", "quark", profile="mx-rceil")
    text = containers.read_header(out).metadata[KEY]
    said = parse_contract(text, out)
    assert said is not None
    assert (said.format_name, said.profile, said.version) == ("mxfp4", "mx-rceil", mxspec.__version__)
    assert said.digest == digest_arithmetic("mxfp4", "mx-rceil")
    assert containers.read_header(out).metadata["format"] == "pt"
    assert rules() == set()
    for change, rule in (
        ({"profile": "mx-floor"}, {"contract/digest"}), ({"profile": "mx-none"}, {"contract/profile"}),
        ({"format": "mxfp8_e4m3"}, {"contract/format", "contract/digest"}), ({"schema": "other"}, {"contract/damaged"}),
        ({"digest": "0" * 64}, {"contract/digest"}), ({"names": [1]}, {"contract/damaged"}),
    ):  # fmt: skip
        edit_metadata(out, KEY, json.dumps({**json.loads(text), **change}))
        assert rules() == rule
    edit_metadata(out, KEY, json.dumps({**json.loads(text), "profile": "mx-floor", "digest": digest_arithmetic("mxfp4", "mx-floor")}))
    assert rules() == set()
    assert rules(against=original) == {"contract/bits"}
    edit_metadata(out, KEY, text)
    table, data = split_safetensors(out)
    raw = bytearray(data)
    raw[table[f"{L}.mlp.down_proj.weight"]["data_offsets"][0]] ^= 1
    rewrite(out, table, bytes(raw))
    assert rules(against=original) == {"contract/bits", "against/differs"}


def test_digests_tell_profiles_apart() -> None:
    """Profiles with one digest give the same bits on the recipe; the normative ones differ."""
    for fmt in ("mxfp4", "nvfp4", "mxfp8_e4m3", "mxint8"):
        normative = [p.id for p in list_profiles(fmt, kind="normative")]
        assert len({digest_arithmetic(fmt, p) for p in normative}) == len(normative)
    x = make_rows(32)
    assert np.isnan(x).any()
    assert np.isinf(x).any()
    assert (np.abs(x[np.isfinite(x)]) < 2.0**-126).any()


def test_every_profile_has_a_digest() -> None:
    for fmt in mxspec.BLOCKS:
        assert all(len(digest_arithmetic(fmt, p.id)) == 64 for p in list_profiles(fmt))


def test_the_digest_is_what_it_was() -> None:
    """A change here makes every file that was written before a finding: it must be a change of the arithmetic."""
    assert digest_arithmetic("mxfp4", "mx-floor")[:16] == "00d4570501842f9d"
    assert digest_arithmetic("nvfp4", "nvfp4-te")[:16] == "fc77d0ec1e5f3df5"


CONVERSIONS = [("modelopt", "nvfp4", to) for to in ("compressed-tensors", "gguf", "lightx2v")] + [
    ("gguf", "nvfp4", "modelopt"), ("quark", "mxfp4", "gguf"), ("gguf", "mxfp4", "compressed-tensors"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "fmt", "then"), CONVERSIONS, ids=[f"{a}-{f}-{b}" for a, f, b in CONVERSIONS])
def test_a_conversion_keeps_the_contract(first: str, fmt: str, then: str, tmp_path: Path) -> None:
    original = source(tmp_path / "in.safetensors", first)
    made, moved = tmp_path / out_name(first), tmp_path / f"moved-{out_name(then)}"
    back = tmp_path / f"back-{out_name(first)}"
    quantize_checkpoint(original, made, fmt, first)
    containers.convert(made, moved, then)
    assert containers.read_header(moved).metadata[KEY] == containers.read_header(made).metadata[KEY]
    assert lint(moved, against=original).findings == ()
    containers.convert(moved, back, first)
    assert back.read_bytes() == made.read_bytes()


# Choice and refusal


def test_choice(tmp_path: Path) -> None:
    original, out = source(tmp_path / "in.safetensors", "quark"), tmp_path / "x.safetensors"
    done = quantize_checkpoint(original, out, "mxfp4", "quark", include=["*up_proj*", "lm_head*"])
    assert {t.name for t in done.tensors} == {f"{L}.mlp.up_proj.weight", "lm_head.weight"}
    done = quantize_checkpoint(original, out, "mxfp4", "quark", exclude=["*up_proj*"], force=True)
    assert f"{L}.mlp.up_proj.weight" in done.carried
    assert len(done.tensors) == 3


def refused(tmp_path: Path, tensors: dict[str, Plain], fmt: str, convention: str, **options: Any) -> str:
    original, out = save(tmp_path / "in.safetensors", tensors), tmp_path / out_name(convention)
    with pytest.raises(ContainerError) as caught:
        quantize_checkpoint(original, out, fmt, convention, **options)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.safetensors"]
    return str(caught.value)


def test_refusals(tmp_path: Path) -> None:
    x = {"a.weight": draw(1, (4, 96))}
    assert "rows of 80" in refused(tmp_path, {"a.weight": draw(1, (4, 80))}, "mxfp4", "quark")
    assert "multiple of 64" in refused(tmp_path, x, "nvfp4", "gguf")
    assert "does not store mxint8" in refused(tmp_path, x, "mxint8", "quark")
    assert "no tensor to quantize" in refused(tmp_path, {"b": draw(1, (32,))}, "mxfp4", "quark")
    assert "exclude" in refused(tmp_path, {"a.weight": np.zeros((4, 96), np.float32)}, "nvfp4", "modelopt", profile="nvfp4-exact")
    assert "exclude" in refused(tmp_path, {"a.weight": np.full((4, 96), np.nan, np.float32)}, "nvfp4", "modelopt", profile="nvfp4-exact")
    assert "not quantized" in refused(tmp_path, x, "nvfp4", "modelopt", input_scales={"b": TensorScale("amax", 1.0)})
    assert "no place" in refused(tmp_path, x, "mxfp4", "quark", input_scales={"a": TensorScale("amax", 1.0)})
    assert "transforms" in refused(tmp_path, x, "nvfp4", "modelopt", profile=next(p.id for p in list_profiles("nvfp4") if p.transform))
    assert "written twice" in refused(tmp_path, {**x, "a.weight_scale": draw(1, (2,))}, "mxfp4", "quark")
    original, out = save(tmp_path / "in.safetensors", x), tmp_path / "x.safetensors"
    quantize_checkpoint(original, out, "mxfp4", "quark")
    with pytest.raises(ContainerError, match="exists"):
        quantize_checkpoint(original, out, "mxfp4", "quark")
    with pytest.raises(ContainerError, match="block-quantized"):
        quantize_checkpoint(out, tmp_path / "y.safetensors", "mxfp4", "quark")
    with pytest.raises(ContainerError, match="nothing to dequantize"):
        dequantize_checkpoint(original, tmp_path / "y.safetensors")
    with pytest.raises(ContainerError, match="is the input"):
        quantize_checkpoint(original, original, "mxfp4", "quark", force=True)


def test_a_profile_that_refuses_nan(tmp_path: Path) -> None:
    profile = next(p.id for p in list_profiles("mxfp4") if p.one_level and p.one_level.element.nan == "raise")
    x = draw(1, (4, 96), np.float32)
    x[2, 5] = np.nan
    said = refused(tmp_path, {"a.weight": x}, "mxfp4", "quark", profile=profile)
    assert "a.weight" in said
    assert profile in said


@pytest.mark.parametrize("form", [f for f in containers.list_forms() if f.tensor_scale is not None], ids=lambda f: f.convention)
def test_the_default_profile_has_the_tensor_scale_of_the_convention(form: containers.Form, tmp_path: Path) -> None:
    original = save(tmp_path / "in.safetensors", {"a.weight": draw(1, (128, 256))})
    out = tmp_path / f"x.{form.container}"
    args = ["quantize", str(original), str(out), "--format", "nvfp4", "--to", form.convention]
    done = CliRunner().invoke(main, [*args, "--profile", "nvfp4-te"])
    assert done.exit_code == 2
    words = " ".join(done.output.split())
    assert "profile nvfp4-te has a tensor scale of kind amax" in words
    assert "--convert" in words
    assert not out.exists()
    done = CliRunner().invoke(main, [*args, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["profile"] == form.profile
    made = mxspec.quantize(draw(1, (128, 256)), "nvfp4", profile=form.profile, tensor_scale="auto")
    back = containers.open_checkpoint(out).read("a")
    assert back == made
    assert back.dequantize("float32").tobytes() == made.dequantize("float32").tobytes()
    done = CliRunner().invoke(main, [*args, "--profile", "nvfp4-te", "--convert", "--force"])
    assert done.exit_code == 0, done.output


def test_input_scales(tmp_path: Path) -> None:
    original = source(tmp_path / "in.safetensors", "modelopt")
    scales = tmp_path / "scales.json"
    scales.write_text(json.dumps({f"{L}.mlp.up_proj": {"amax": 3.5}, f"{L}.mlp.down_proj.weight": {"decode": 0.001}}))
    for convention, due in (("modelopt", np.float32(3.5) / np.float32(2688)), ("compressed-tensors", np.float32(2688) / np.float32(3.5))):
        out = tmp_path / f"{convention}.safetensors"
        done = CliRunner().invoke(
            main, ["quantize", str(original), str(out), "--format", "nvfp4", "--to", convention, "--input-scales", str(scales)]
        )
        assert done.exit_code == 0, done.output
        suffix = ".input_scale" if convention == "modelopt" else ".input_global_scale"
        stored = containers.open_checkpoint(out).tensors[f"{L}.mlp.up_proj{suffix}"]
        assert containers.header.read_at(stored, 0, 4) == np.float32(due).tobytes()
        assert lint(out, against=original).findings == ()
    for bad in ('{"a": 3}', '{"a": {"amax": "x"}}', '{"a": {"amax": -1}}', '{"a": {"amax": 1e99}}', "[]", '{"a": {"max": 1}}'):
        scales.write_text(bad)
        done = CliRunner().invoke(
            main,
            [
                "quantize",
                str(original),
                str(tmp_path / "z.safetensors"),
                "--format",
                "nvfp4",
                "--to",
                "modelopt",
                "--input-scales",
                str(scales),
            ],
        )
        assert done.exit_code == 2
        assert not (tmp_path / "z.safetensors").exists()


def test_folder_of_shards(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    tensors = list({**weights("compressed-tensors"), **OTHERS}.items())
    half = len(tensors) // 2
    parts = {"model-1-of-2.safetensors": dict(tensors[:half]), "model-2-of-2.safetensors": dict(tensors[half:])}
    for name, held in parts.items():
        save(folder / name, held)
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": {t: n for n, held in parts.items() for t in held}})
    )
    (folder / "config.json").write_text('{"hidden_size": 128}')
    (folder / "tokenizer.json").write_text("{}")
    out = tmp_path / "out"
    done = quantize_checkpoint(folder, out, "nvfp4", "compressed-tensors")
    assert sorted(p.name for p in out.iterdir()) == sorted(p.name for p in folder.iterdir())
    assert len(done.files) == 2
    config = json.loads((out / "config.json").read_text())
    assert config["quantization_config"]["ignore"] == ["lm_head"]
    result = lint(out, against=folder)
    assert result.findings == ()
    assert result.comparison is not None
    assert len(result.comparison.explanations) == 4
    back = tmp_path / "back"
    dequantize_checkpoint(out, back)
    assert sorted(p.name for p in back.iterdir()) == sorted(p.name for p in folder.iterdir())
    assert "quantization_config" not in json.loads((back / "config.json").read_text())
    assert lint(back).findings == ()
    one = quantize_checkpoint(folder, tmp_path / "one.safetensors", "nvfp4", "compressed-tensors")
    assert one.files == (tmp_path / "one.safetensors",)


# Interruption


class Killed(BaseException):
    """As an unhandled signal: no error of the program."""


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(("convention", "fmt"), [("quark", "mxfp4"), ("lightx2v", "nvfp4"), ("gguf", "nvfp4")])
def test_a_run_that_stops_anywhere_goes_on_to_the_same_bytes(
    convention: str, fmt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = source(tmp_path / "in.safetensors", convention)
    out, again = tmp_path / out_name(convention), tmp_path / f"again-{out_name(convention)}"
    monkeypatch.setattr(resuming, "_INTERVAL", 1)
    steps = []
    quantize_checkpoint(original, again, fmt, convention, progress=lambda done, total, name: steps.append(done))
    assert steps == sorted(steps)
    resumed = 0
    for stop in range(1, len(steps) + 1):
        seen = []

        def interrupt(done: int, total: int, name: str, seen: list[int] = seen, stop: int = stop) -> None:
            seen.append(done)
            if len(seen) == stop:
                raise Killed

        with pytest.raises(Killed):
            quantize_checkpoint(original, out, fmt, convention, force=True, progress=interrupt)
        assert not out.exists()
        done = quantize_checkpoint(original, out, fmt, convention, force=True)
        resumed += done.resumed
        assert out.read_bytes() == again.read_bytes()
        out.unlink()
    assert resumed == len(steps)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([again.name, original.name])


def test_what_was_left_counts_only_for_the_same_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, out = source(tmp_path / "in.safetensors", "quark"), tmp_path / "x.safetensors"
    monkeypatch.setattr(resuming, "_INTERVAL", 1)

    def interrupt(done: int, total: int, name: str) -> None:
        if done > total // 2:
            raise Killed

    def stop(**options: Any) -> None:
        with pytest.raises(Killed):
            quantize_checkpoint(original, out, "mxfp4", "quark", progress=interrupt, force=True, **options)

    stop()
    assert not quantize_checkpoint(original, out, "mxfp4", "quark", profile="mx-rceil").resumed
    due = sha(out)
    stop(profile="mx-rceil")
    os.utime(original, ns=(1, 1))
    assert not quantize_checkpoint(original, out, "mxfp4", "quark", profile="mx-rceil", force=True).resumed
    stop(profile="mx-rceil")
    assert not quantize_checkpoint(original, out, "mxfp4", "quark", profile="mx-rceil", force=True, restart=True).resumed
    stop(profile="mx-rceil")
    (tmp_path / ".x.safetensors.partial" / "x.safetensors").unlink()
    quantize_checkpoint(original, out, "mxfp4", "quark", profile="mx-rceil", force=True)
    assert sha(out) == due


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    original, out = source(tmp_path / "in.safetensors", "quark"), tmp_path / "x.safetensors"

    def cut(done: int, total: int, name: str) -> None:
        original.write_bytes(original.read_bytes()[:-64])

    with pytest.raises(ContainerError, match="due"):
        quantize_checkpoint(original, out, "mxfp4", "quark", progress=cut)
    assert [p.name for p in tmp_path.iterdir()] == ["in.safetensors"]


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_command_goes_on(tmp_path: Path) -> None:
    """A real SIGKILL, at a time that the output's growth decides."""
    x = draw(0, (1024, 4096))
    tensors = {f"{n}.weight": x for n in range(8)}
    original, out = save(tmp_path / "in.safetensors", tensors), tmp_path / "x.safetensors"
    quantize_checkpoint(original, tmp_path / "again.safetensors", "mxfp4", "quark")
    command = [
        sys.executable, "-c", "from mxspec.containers import resuming; resuming._INTERVAL = 1\nfrom mxspec_conformance.cli.main import main; main()",
        "quantize", str(original), str(out), "--format", "mxfp4", "--to", "quark",
    ]  # fmt: skip
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    journal = tmp_path / ".x.safetensors.partial" / "journal"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and child.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") > 3):
        time.sleep(0.002)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    if not out.exists():  # it may have been quicker than the kill
        assert journal.exists()
        done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["resumed"] is True
    assert sha(out) == sha(tmp_path / "again.safetensors")
    assert not journal.parent.exists()


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    original, out = source(tmp_path / "in.safetensors", "quark"), tmp_path / "x.safetensors"
    refusals = []

    def second(done: int, total: int, name: str) -> None:
        if not refusals:
            with pytest.raises(ContainerError, match="another process") as caught:
                quantize_checkpoint(original, out, "mxfp4", "quark")
            refusals.append(caught)

    quantize_checkpoint(original, out, "mxfp4", "quark", progress=second)
    assert len(refusals) == 1
    assert out.exists()


# The commands


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source(Path("in.safetensors"), "modelopt")
    run = lambda *args: CliRunner().invoke(main, list(args))  # noqa: E731
    made = run("quantize", "in.safetensors", "x.safetensors", "--format", "nvfp4", "--profile", "nvfp4-exact", "--to", "modelopt")
    assert made.exit_code == 0, made.output
    assert "4 nvfp4" in made.stdout
    assert "lm_head.weight" in made.stdout
    assert max(map(len, made.stdout.splitlines())) <= 80
    back = run("dequantize", "x.safetensors", "y.safetensors", "--json")
    assert json.loads(back.stdout)["elements"] == sum(x.size for x in weights("modelopt").values())
    assert run("dequantize", "x.safetensors", "y.safetensors").exit_code == 2
    assert run("quantize", "in.safetensors", "z.safetensors", "--format", "nvfp4", "--to", "quark").exit_code == 2
    assert run("quantize", "in.safetensors", "z.safetensors", "--format", "mxfp4", "--to", "quark", "--profile", "no").exit_code == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.safetensors", "x.safetensors", "y.safetensors"]
    # No output over what is read, --force or not.
    Path("s.safetensors").write_text("{}")
    for out, scales in (("in.safetensors", "s.safetensors"), ("s.safetensors", "s.safetensors")):
        line = ("quantize", "in.safetensors", out, "--format", "nvfp4", "--to", "modelopt", "--force", "--input-scales", scales)
        assert run(*line).exit_code == 2
    assert Path("s.safetensors").read_text() == "{}"
    assert run("dequantize", "x.safetensors", "x.safetensors", "--force").exit_code == 2


def test_runs_are_cut_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors larger than a run give the bytes of one run."""
    from mxspec.containers import parts

    for convention, fmt in (("quark", "mxfp4"), ("lightx2v", "nvfp4"), ("gguf", "nvfp4"), ("compressed-tensors", "mxfp6_e2m3")):
        original = source(tmp_path / "in.safetensors", convention)
        whole, pieces = tmp_path / f"w-{out_name(convention)}", tmp_path / f"p-{out_name(convention)}"
        quantize_checkpoint(original, whole, fmt, convention, force=True)
        with monkeypatch.context() as patched:
            patched.setattr(parts, "RUN", 256)
            patched.setattr(pipeline, "RUN", 64)
            quantize_checkpoint(original, pieces, fmt, convention, force=True)
            dequantize_checkpoint(pieces, tmp_path / "p.safetensors", force=True)
        dequantize_checkpoint(whole, tmp_path / "w.safetensors", force=True)
        assert whole.read_bytes() == pieces.read_bytes()
        assert (tmp_path / "w.safetensors").read_bytes() == (tmp_path / "p.safetensors").read_bytes()
