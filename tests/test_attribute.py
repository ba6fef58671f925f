"""`mxspec attribute`: no profile is ruled out by bytes that it gave itself, others are, and contradictions are found."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner, Result

import mxspec
from mxspec import containers
from mxspec.containers.checkpoint import read_scales
from mxspec.containers.contract import KEY, make_rows
from mxspec.containers.scalars import convert_bits
from mxspec.formats import BLOCKS, BlockFormat, get_block
from mxspec.profiles import Profile, get_profile
from mxspec.profiles.schema import TensorScaleKind
from mxspec.tensorscale import TensorScale
from mxspec_conformance.attribution import Sign, Standing, Topic, attribute
from mxspec_conformance.attribution.matching import compare_blocks
from mxspec_conformance.attribution.standing import judge_profile
from mxspec_conformance.attribution.traces import MinusZero, trace
from mxspec_conformance.cli.main import main
from mxspec_conformance.lint.against.expecting import list_suited, zero_table
from mxspec_conformance.lint.subject import Subject

from tests.containers.build import FILES, rewrite, split_safetensors, write_safetensors

BASE = "model.layers.0.mlp.up_proj"
#: The convention that stores all formats.
PLAIN = "torch-dtypes"


def weights(shape: tuple[int, int] = (64, 256), seed: int = 1) -> npt.NDArray[np.float32]:
    """N(0, 0.02) of bfloat16."""
    x = np.random.default_rng(seed).standard_normal(shape) * 0.02
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def write_source(path: Path, x: npt.NDArray[np.float32]) -> Path:
    return write_safetensors(path, {f"{BASE}.weight": ("BF16", x.shape, x.astype(ml_dtypes.bfloat16).tobytes())})


def write_quantized(path: Path, x: npt.NDArray[np.float32], fmt: str, profile: str | Profile, **scale: Any) -> Path:
    given = scale or ({"tensor_scale": "auto"} if get_block(fmt).has_tensor_scale else {})
    containers.write(path, {BASE: mxspec.quantize(x, fmt, profile=profile, **given)}, PLAIN, convert=True)
    return path


def standings(path: Path, **options: Any) -> dict[str, Standing]:
    (tensor,) = attribute(path, **options).tensors
    return {c.profile: c.standing for c in tensor.candidates}


# Soundness: a profile is never ruled out by what it gave


def list_wild(fmt: BlockFormat) -> npt.NDArray[np.float32]:
    """Finite blocks over all exponents, zeros, -0 and subnormal numbers among them."""
    x = make_rows(fmt.k)[::8].copy()
    x[~np.isfinite(x)] = 0
    x[:64:9] *= np.float32(2.0**-126)
    x[1:64:9] = -0.0
    return x


@pytest.mark.parametrize("fmt", BLOCKS)
def test_no_profile_is_ruled_out_by_its_own_bytes(fmt: str, tmp_path: Path) -> None:
    block = get_block(fmt)
    two_level = block.has_tensor_scale
    known = list_suited(block, with_tensor_scale=two_level)
    assert known
    for profile in known:
        wild = list_wild(block)
        x = wild.reshape(-1, 4 * block.k) if profile.dtypes == ("float32", "float16", "bfloat16") else weights()
        path = write_quantized(tmp_path / f"{known.index(profile)}.safetensors", x, fmt, profile)
        subject = Subject(containers.open_checkpoint(path))
        (group,) = subject.groups
        kept = read_scales(group).tensor
        scale = None if kept is None else TensorScale(kept[0], kept[1][0])
        found = judge_profile(subject.counts(group), block, profile, scale)
        assert found.standing is not Standing.EXCLUDED, (profile.id, found.reasons)


@pytest.mark.parametrize("fmt", ["mxfp4", "mxfp8_e5m2", "nvfp4"])
def test_weights_of_a_profile_are_consistent_with_it(fmt: str, tmp_path: Path) -> None:
    block = get_block(fmt)
    for number, profile in enumerate(list_suited(block, with_tensor_scale=block.has_tensor_scale)):
        if not {"float32", "bfloat16"} & set(profile.dtypes):
            continue
        path = write_quantized(tmp_path / f"{number}.safetensors", weights(), fmt, profile)
        subject = Subject(containers.open_checkpoint(path))
        (group,) = subject.groups
        kept = read_scales(group).tensor
        scale = None if kept is None else TensorScale(kept[0], kept[1][0])
        found = judge_profile(subject.counts(group), block, profile, scale)
        assert found.standing in (Standing.CONSISTENT, Standing.UNKNOWN), (profile.id, found)


# Power: what tells profiles apart


@pytest.mark.parametrize(
    ("fmt", "profile", "other", "sign"),
    [
        ("mxfp4", "mx-rceil", "mx-floor", Sign.LARGEST_CODE),
        ("mxfp4", "mx-ceil", "mx-floor", Sign.LARGEST_CODE),
        ("mxfp4", "mx-floor", "gguf-0.19/mxfp4", Sign.MINUS_ZERO),
        ("mxfp8_e4m3", "mx-rceil", "mx-floor", Sign.LARGEST_CODE),
        ("nvfp4", "te-2.17/nvfp4/4over6-kernel/mae", "nvfp4-te", Sign.LARGEST_CODE),
        ("nvfp4", "nvfp4-te", "mlx-0.32/nvfp4/cpu", Sign.MINUS_ZERO),
    ],
)
def test_another_profile_is_excluded(fmt: str, profile: str, other: str, sign: Sign, tmp_path: Path) -> None:
    found = attribute(write_quantized(tmp_path / "q.safetensors", weights(), fmt, profile)).tensors[0]
    by_name = {c.profile: c for c in found.candidates}
    assert by_name[profile].standing is Standing.CONSISTENT
    assert by_name[other].standing is Standing.EXCLUDED
    assert sign in {r.sign for r in by_name[other].reasons}
    assert all(r.count and r.block is not None for r in by_name[other].reasons if r.sign is Sign.LARGEST_CODE)


@pytest.mark.parametrize(
    ("fmt", "profile", "other", "sign"),
    [
        ("mxfp4", "mx-floor", "mx-rceil", Sign.UNUSED_CODE),
        ("mxfp4", "gguf-0.19/mxfp4", "mx-floor", Sign.NO_MINUS_ZERO),
        ("nvfp4", "nvfp4-te", "te-2.17/nvfp4/4over6-kernel/mae", Sign.UNUSED_CODE),
    ],
)
def test_what_is_absent_makes_a_profile_improbable(fmt: str, profile: str, other: str, sign: Sign, tmp_path: Path) -> None:
    found = attribute(write_quantized(tmp_path / "q.safetensors", weights((64, 512)), fmt, profile)).tensors[0]
    (candidate,) = (c for c in found.candidates if c.profile == other)
    assert candidate.standing is Standing.IMPROBABLE
    assert sign in {r.sign for r in candidate.reasons}


def test_scales_of_zeros_and_small_blocks_tell(tmp_path: Path) -> None:
    """torchao's smallest scale is 08, that of zeros too; ModelOpt's is 01, and 38 for zeros."""
    x = weights((16, 256))
    x[0, :16], x[1] = 0, x[1] * np.float32(2.0**-16)
    torchao = standings(write_quantized(tmp_path / "a.safetensors", x, "nvfp4", "torchao-0.18/nvfp4/eager"))
    assert torchao["torchao-0.18/nvfp4/eager"] is Standing.CONSISTENT
    assert torchao["modelopt-0.47/nvfp4/dynamic"] is torchao["nvfp4-te"] is Standing.EXCLUDED
    path = write_quantized(tmp_path / "b.safetensors", x, "nvfp4", "modelopt-0.47/nvfp4/dynamic")
    (tensor,) = attribute(path).tensors
    assert tensor.observed.zero_blocks[0x38] == 1
    (other,) = (c for c in tensor.candidates if c.profile == "torchao-0.18/nvfp4/eager")
    assert {Sign.SCALE_BYTE, Sign.ZERO_BLOCK} <= {r.sign for r in other.reasons}


def test_the_tensor_scale_tells_the_maximum(tmp_path: Path) -> None:
    x = weights()
    (tensor,) = attribute(write_quantized(tmp_path / "q.safetensors", x, "nvfp4", "nvfp4-decode")).tensors
    (own,) = (c for c in tensor.candidates if c.profile == "nvfp4-decode")
    assert own.maximum is not None
    assert (own.maximum.dtype, own.maximum.value) == ("bfloat16", float(np.abs(x).max()))


def test_traces_say_what_is_known_of_rules() -> None:
    floor = trace(get_profile("mx-floor", "mxfp4"), get_block("mxfp4"), None)
    ggml = trace(get_profile("gguf-0.19/mxfp4", "mxfp4"), get_block("mxfp4"), None)
    assert floor is not None
    assert ggml is not None
    # [4, 8) in units of the scale: the values 4 and 6, a quarter of the maxima and three quarters.
    assert floor.reachable[0x7F].nonzero()[0].tolist() == [6, 7]
    assert floor.share[0x7F].tolist()[6:] == [(1 / 4 * (1 << 23) + 1) / (1 << 23), 1 - (1 / 4 * (1 << 23) + 1) / (1 << 23)]
    assert (floor.minus_zero, ggml.minus_zero) == (MinusZero.FROM_NEGATIVE, MinusZero.NEVER)


# With the source


@pytest.mark.parametrize("folder", ["compressed-tensors-nvfp4-pack-quantized", "compressed-tensors-mxfp8-quantized"])
def test_a_library_s_own_file_is_confirmed(folder: str) -> None:
    """compressed-tensors quantized bfloat16 weights, and computes in that dtype."""
    file = next(p for p in (FILES / folder).iterdir() if p.suffix == ".safetensors" and p.name != "decoded.safetensors")
    found = attribute(file, source=FILES / "original.safetensors")
    assert found.exit_code == 0
    for t in found.tensors:
        assert t.provenance is not None
        assert any(m.profile.startswith("compressed-tensors-0.20/") for m in t.provenance.exact)


def test_the_source_names_the_profile(tmp_path: Path) -> None:
    x = weights()
    source = write_source(tmp_path / "s.safetensors", x)
    (tensor,) = attribute(write_quantized(tmp_path / "q.safetensors", x, "mxfp4", "mx-even"), source=source).tensors
    assert tensor.provenance is not None
    exact = {m.profile for m in tensor.provenance.exact}
    assert "mx-even" in exact
    assert "mx-floor" not in exact
    assert tensor.remarks == ()


@pytest.mark.parametrize("first", ["mxfp8_e4m3", "bfloat16"])
def test_quantized_twice(first: str, tmp_path: Path) -> None:
    x = np.random.default_rng(2).standard_normal((64, 256)).astype(np.float32)
    source = write_safetensors(tmp_path / "s.safetensors", {f"{BASE}.weight": ("F32", x.shape, x.tobytes())})
    once = x.astype(ml_dtypes.bfloat16).astype(np.float32) if first == "bfloat16" else mxspec.quantize(x, first).dequantize()
    (tensor,) = attribute(write_quantized(tmp_path / "q.safetensors", once, "mxfp4", "mx-rceil"), source=source).tensors
    assert [r.topic for r in tensor.remarks] == [Topic.TWICE]
    assert first.removeprefix("mxfp8_") in tensor.remarks[0].text


def test_a_wrong_tensor_scale(tmp_path: Path) -> None:
    x = weights()
    source = write_source(tmp_path / "s.safetensors", x)
    wrong = TensorScale("amax", 0.3)
    path = write_quantized(tmp_path / "q.safetensors", x, "nvfp4", "nvfp4-te", tensor_scale=wrong)
    found = attribute(path, source=source)
    assert [r.topic for r in found.tensors[0].remarks] == [Topic.TENSOR_SCALE]
    assert found.exit_code == 1


def test_a_tensor_scale_stored_in_the_other_direction_is_no_contradiction(tmp_path: Path) -> None:
    """Its reciprocal is rounded: turned back it is often another number than the one that was used."""
    profile = "modelopt-0.47/nvfp4/dynamic"
    x = weights((16, 256))
    for amax in np.arange(0x3E00, 0x3E80, dtype=np.uint16).view(ml_dtypes.bfloat16).astype(np.float32):
        x[0, 0] = amax  # beyond all others
        own = mxspec.tensor_scale(x, "nvfp4", profile)
        there = convert_bits(own.bits, own.kind, TensorScaleKind.ENCODE)
        if convert_bits(there, TensorScaleKind.ENCODE, own.kind) != own.bits:
            break
    else:
        pytest.fail("every reciprocal returns")
    source, out = write_source(tmp_path / "s.safetensors", x), tmp_path / "q.safetensors"
    containers.quantize_checkpoint(source, out, "nvfp4", "compressed-tensors", profile=profile, convert=True)
    (tensor,) = attribute(out, source=source).tensors
    assert tensor.remarks == ()
    assert tensor.provenance is not None
    assert profile in {m.profile for m in tensor.provenance.exact}


def test_a_contract_that_the_bytes_contradict(tmp_path: Path) -> None:
    source = write_source(tmp_path / "s.safetensors", weights())
    out = tmp_path / "q.safetensors"
    containers.quantize_checkpoint(source, out, "mxfp4", PLAIN, profile="mx-rceil")
    assert attribute(out).exit_code == attribute(out, source=source).exit_code == 0
    assert attribute(out).tensors[0].claim is not None
    table, data = split_safetensors(out)
    said = json.loads(table["__metadata__"][KEY])
    table["__metadata__"][KEY] = json.dumps(said | {"profile": "mx-floor"})
    rewrite(out, table, data)
    for found in (attribute(out), attribute(out, source=source)):
        assert [r.topic for r in found.tensors[0].remarks] == [Topic.CONTRACT]
        assert found.exit_code == 1


def test_a_contract_that_cannot_be_read_or_names_what_there_is_not(tmp_path: Path) -> None:
    out = tmp_path / "q.safetensors"
    containers.quantize_checkpoint(write_source(tmp_path / "s.safetensors", weights()), out, "mxfp4", PLAIN)
    table, data = split_safetensors(out)
    said = table["__metadata__"][KEY]
    changed = {
        "{": "mxspec.contract",
        said.replace("mx-floor", "mx-flor"): "'mx-flor'|mx-flor of mxfp4",
        said.replace('"mxfp4"', '"nvfp4"'): "1 of 1",
    }
    for text, words in changed.items():
        table["__metadata__"][KEY] = text
        rewrite(out, table, data)
        found = attribute(out)
        assert found.exit_code == 1
        assert any(re.search(words, r.text) for r in found.remarks), (text, found.remarks)
        result = CliRunner().invoke(main, ["attribute", str(out)])
        assert (result.exit_code, "contract " in result.output) == (1, True)
        assert json.loads(CliRunner().invoke(main, ["attribute", "--json", str(out)]).output)["remarks"][0]["topic"] == "contract"


def test_a_configuration_that_names_another_library(tmp_path: Path) -> None:
    path = write_quantized(tmp_path / "model.safetensors", weights(), "mxfp4", "mx-ceil")
    for method, topics in (("quark", [Topic.CONFIGURATION]), ("fbgemm", []), ("nobody", [])):
        (tmp_path / "config.json").write_text(json.dumps({"quantization_config": {"quant_method": method}}))
        assert [r.topic for r in attribute(path).tensors[0].remarks] == topics, method


def test_a_tensor_that_the_source_lacks(tmp_path: Path) -> None:
    source = write_source(tmp_path / "s.safetensors", weights((4, 256)))
    path = write_quantized(tmp_path / "q.safetensors", weights(), "mxfp4", "mx-floor")
    assert [r.topic for r in attribute(path, source=source).tensors[0].remarks] == [Topic.MISSING]


# The command


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["attribute", *map(str, arguments)])


def test_the_command(tmp_path: Path) -> None:
    source = write_source(tmp_path / "s.safetensors", weights())
    path = write_quantized(tmp_path / "q.safetensors", weights(), "mxfp4", "mx-floor")
    done = run(path)
    assert done.exit_code == 0
    assert "consistent with mx-floor" in done.output
    assert "made by" not in done.output
    assert max(map(len, done.output.splitlines())) <= 80
    done = run(path, "--source", source, "--json")
    document = json.loads(done.output)
    assert document["schema"] == "mxspec-attribution/1"
    (row,) = document["tensors"]
    assert "mx-floor" in row["consistent_with"]
    assert "mx-floor" in document["all_tensors"]["mxfp4"]
    assert {m["profile"] for m in row["source"]["matches"] if m["equal"] == m["blocks"]} >= {"mx-floor"}
    assert "every bit of every block" in run(path, "--source", source).output


def test_what_cannot_be_examined(tmp_path: Path) -> None:
    source = write_source(tmp_path / "s.safetensors", weights())
    assert run(source).exit_code == 2
    broken = tmp_path / "b.safetensors"
    broken.write_bytes(source.read_bytes()[:20])
    done = run(broken)
    assert done.exit_code == 2
    assert done.output.count("\n") == 1


def test_blocks_are_compared_in_bits_and_in_values() -> None:
    """By the definition, element by element; blocks of every share of equal codes, zeros of either sign, and other scales."""
    rng = np.random.default_rng(11)
    fold = zero_table(get_block("mxfp4"))
    due = rng.choice(np.array([0, 8, 1], np.uint8), (400, 32))
    codes, scales = due.copy(), rng.choice(np.array([1, 2], np.uint8), 400)
    change = rng.random((400, 32)) < rng.choice([0, 0.03, 0.3], (400, 1))
    codes[change] ^= 8
    due[:40], codes[:40] = 0, rng.choice(np.array([0, 8], np.uint8), (40, 32))
    due_scales = np.where(rng.random(400) < 0.3, scales + 1, scales).astype(np.uint8)
    equal, same = compare_blocks(due, due_scales, codes, scales, fold)
    for n in range(400):
        assert equal[n] == (bytes(due[n]) == bytes(codes[n]) and due_scales[n] == scales[n])
        values = [fold[a[n]] for a in (due, codes)]
        nothing = not values[0].any() and not values[1].any()
        assert same[n] == (np.array_equal(*values) and (due_scales[n] == scales[n] or nothing))
    assert 0 < equal.sum() < same.sum() < 400
