"""FP8 checkpoints whose scales are a grid: tiles of 128 x 128, rows, or a tensor. Decoded here by a few lines of NumPy and ml_dtypes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from safetensors import deserialize

import mxspec
from mxspec import containers
from mxspec.adjacent import ADJACENT, register_named
from mxspec.containers import ContainerError, Form, list_forms, open_checkpoint
from mxspec.containers.header import Tensor, read_at
from mxspec_conformance.attribution import attribute
from mxspec_conformance.attribution.standing import Standing
from mxspec_conformance.lint import Departure, lint

from tests.containers.build import FILES, FP8, FP8_FILES, write_safetensors

#: A file of FP8 registers its format, as naming one does.
Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.uint8]
Parts = dict[str, tuple[str, Sequence[int], bytes]]
FORMS = [f for f in list_forms() if f.grid is not None]
TILES = [f for f in FORMS if f.grid == (128, 128)]
ALL, ROW, TILE = (0, 0), (1, 0), (128, 128)
DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
}


def draw(rows: int, columns: int, seed: int = 0) -> Floats:
    return (np.random.default_rng(seed).standard_normal((rows, columns)) * 0.02).astype(ml_dtypes.bfloat16).astype(np.float32)


def spread(grid: Floats, tile: tuple[int, int], shape: tuple[int, int]) -> Floats:
    """The scale of each element."""
    rows = np.zeros(shape[0], int) if not tile[0] else np.arange(shape[0]) // tile[0]
    columns = np.zeros(shape[1], int) if not tile[1] else np.arange(shape[1]) // tile[1]
    return np.atleast_2d(grid)[rows][:, columns]


def quantize(x: Floats, tile: tuple[int, int]) -> tuple[Codes, Floats]:
    """amax / 448 in float32 of each tile, and quotients rounded to e4m3 by ml_dtypes."""
    height, width = (t or n for t, n in zip(tile, x.shape, strict=True))
    tiles = [[np.abs(x[a : a + height, b : b + width]).max() for b in range(0, x.shape[1], width)] for a in range(0, x.shape[0], height)]
    grid = np.asarray(tiles, np.float32) / np.float32(448)
    return (x / spread(grid, tile, x.shape)).astype(ml_dtypes.float8_e4m3fn).view(np.uint8), grid


def stored(
    base: str, codes: Codes, grid: npt.NDArray[Any], suffix: str = ".weight_scale_inv", dtype: str = "F32", mark: str | None = None
) -> Parts:
    raw = grid.astype(DTYPES[dtype])
    marked: Parts = {} if mark is None else {f"{base}.comfy_quant": ("U8", (len(mark),), mark.encode())}
    return {f"{base}.weight": ("F8_E4M3", codes.shape, codes.tobytes()), f"{base}{suffix}": (dtype, grid.shape, raw.tobytes())} | marked


def decode(tensors: dict[str, Any], form: Form) -> Floats:
    """What a file holds, by the types of ml_dtypes: each code times its scale, rounded to float32."""
    weight, scales = (tensors["a" + s] for s in (form.codes.suffix, form.scales.suffix if form.scales else ""))
    codes = np.frombuffer(bytes(weight["data"]), ml_dtypes.float8_e4m3fn).reshape(weight["shape"]).astype(np.float32)
    grid = np.frombuffer(bytes(scales["data"]), DTYPES[scales["dtype"]]).reshape(scales["shape"]).astype(np.float32)
    values: Floats = codes * spread(grid, form.grid or ALL, codes.shape)
    return values


def up_to_powers(grid: Floats) -> Floats:
    words = grid.view(np.uint32)
    return ((words >> np.uint32(23)) + (words & np.uint32(0x7FFFFF) > 0) << np.uint32(23)).astype(np.uint32).view(np.float32)


def bits(x: Any) -> npt.NDArray[np.uint32]:
    return np.ascontiguousarray(x, np.float32).view(np.uint32)


def plain(tensor: Tensor) -> Floats:
    return np.frombuffer(read_at(tensor, 0, tensor.size), DTYPES[tensor.dtype]).reshape(tensor.shape).astype(np.float32)


# Read, write, quantize, dequantize, convert


@pytest.mark.parametrize("folder", FP8_FILES, ids=lambda p: p.name)
def test_library_files_decode_to_what_the_library_decodes_and_are_clean(folder: Path) -> None:
    path, theirs = folder / "model.safetensors", open_checkpoint(folder / "decoded.safetensors").tensors
    checkpoint = open_checkpoint(path)
    assert {g.form.convention for g in checkpoint.blocks.values()} == {folder.name}
    assert {f"{b}.weight" for b in checkpoint.blocks} == set(theirs) - {"lm_head.weight"}
    for base in checkpoint.blocks:
        values = checkpoint.read(base).dequantize("bfloat16").astype(np.float32)
        assert np.array_equal(bits(values), bits(plain(theirs[f"{base}.weight"]))), base
    original = (FILES if len(checkpoint.blocks) == 7 else FP8) / "original.safetensors"
    result = lint(path, against=original)
    assert (result.findings, result.exit_code) == ((), 0)
    assert result.comparison is not None
    assert all(e.agreement.complete and not e.hypothesis.departures for e in result.comparison.explanations)
    profile = next(iter(checkpoint.blocks.values())).form.profile
    if folder.name in ("fp8", "fp8-ue8m0"):  # transformers wrote these
        found = attribute(path, source=original)
        assert found.exit_code == 0
        for t in found.tensors:
            assert profile in t.list(Standing.CONSISTENT)
            assert t.provenance is not None
            assert profile in {m.profile for m in t.provenance.exact}
        zeros = next(t for t in found.tensors if t.base.endswith("up_proj"))  # it has a tile of zeros
        assert [p for p in zeros.list(Standing.CONSISTENT) if not p.startswith("te-")] == [profile]


@pytest.mark.parametrize("shape", [(128, 256), (576, 200), (129, 127), (1, 1), (300, 128)])
@pytest.mark.parametrize("form", TILES, ids=lambda f: f.convention)
def test_tiles_there_and_back(form: Form, shape: tuple[int, int], tmp_path: Path) -> None:
    x = draw(*shape)
    write_safetensors(tmp_path / "in.safetensors", {"a.weight": ("F32", shape, x.tobytes()), "n": ("F32", (2,), bytes(8))})
    register_named([form.format_name])
    out, back = tmp_path / "x.safetensors", tmp_path / "back.safetensors"
    containers.quantize_checkpoint(tmp_path / "in.safetensors", out, form.format_name, form.convention)
    made = mxspec.quantize(x, form.format_name, profile=form.profile, block=TILE, pad=True)
    tensors = dict(deserialize(out.read_bytes()))
    read = open_checkpoint(out).read("a")
    assert read.shape == shape
    assert np.array_equal(read.codes[:, : shape[1]], made.codes[: shape[0], : shape[1]])
    assert np.array_equal(read.scales, made.scales[: shape[0]])
    assert tensors["a" + (form.scales.suffix if form.scales else "")]["shape"] == [-(-n // 128) for n in shape]
    values = decode(tensors, form)
    assert np.array_equal(bits(read.dequantize()), bits(values))
    containers.dequantize_checkpoint(out, back, dtype="float32")
    assert np.array_equal(bits(plain(open_checkpoint(back).tensors["a.weight"])), bits(values))
    containers.write(tmp_path / "w.safetensors", {"a": made}, form.convention)
    assert open_checkpoint(tmp_path / "w.safetensors").read("a").same_bits(read)
    result = lint(out, against=tmp_path / "in.safetensors")
    assert (result.findings, result.exit_code) == ((), 0)
    share = containers.measure_footprint(out).shares[0]
    assert (share.elements, share.codes, share.padding) == (x.size, x.size, 0)
    assert share.bits_per_element == share.format_bits


@pytest.mark.parametrize("dtype", ["F32", "BF16"])
@pytest.mark.parametrize("form", [f for f in FORMS if f.format_name == "fp8_e4m3-128-f32"], ids=lambda f: f.convention)
def test_grids_of_float_scales_are_read(form: Form, dtype: str, tmp_path: Path) -> None:
    assert form.grid is not None
    assert form.scales is not None
    codes, grid = quantize(draw(300, 200), form.grid)
    for shape in {ALL: [(), (1,)], ROW: [(300, 1), (300,)], TILE: [(3, 2)]}[form.grid]:
        parts = stored("a", codes, grid.reshape(shape), form.scales.suffix, dtype, form.mark_text)
        path = write_safetensors(tmp_path / "x.safetensors", parts)
        checkpoint = open_checkpoint(path)
        assert checkpoint.blocks["a"].form == form
        tensors = dict(deserialize(path.read_bytes()))
        tensors["a" + form.scales.suffix]["shape"] = grid.shape
        assert np.array_equal(bits(checkpoint.read("a").dequantize()), bits(decode(tensors, form)))
        assert (lint(path).findings, lint(path).exit_code) == ((), 0)


WAYS = [(a, b) for a in FORMS for b in FORMS if a.convention != b.convention]


@pytest.mark.parametrize(("source", "target"), WAYS, ids=lambda f: f.convention)
def test_conversions_keep_every_value_or_are_refused(source: Form, target: Form, tmp_path: Path) -> None:
    """From power-of-two scales, in bfloat16 where the form has it; the way back gives the same bytes."""
    assert source.grid is not None
    assert target.grid is not None
    codes, grid = quantize(draw(300, 200), source.grid)
    powers = up_to_powers(grid).reshape(() if source.grid == ALL else grid.shape)
    assert source.scales is not None
    dtype = "BF16" if "BF16" in source.scales.dtypes else "F8_E8M0"
    parts = stored("a", codes, powers, source.scales.suffix, dtype, source.mark_text)
    path = write_safetensors(tmp_path / "x.safetensors", parts, {"format": "pt"})
    out, back = tmp_path / "out.safetensors", tmp_path / "back.safetensors"
    if not all(s in (0, t) for s, t in zip(source.grid, target.grid, strict=True)):
        with pytest.raises(ContainerError, match="smaller parts"):
            containers.convert(path, out, target.convention)
        assert not out.exists()
        return
    containers.convert(path, out, target.convention)
    assert open_checkpoint(out).blocks["a"].form == target
    assert np.array_equal(bits(open_checkpoint(out).read("a").dequantize()), bits(open_checkpoint(path).read("a").dequantize()))
    if source.grid == target.grid:
        assert lint(out).findings == ()
        containers.convert(out, back, source.convention)
        assert np.array_equal(bits(open_checkpoint(back).read("a").dequantize()), bits(open_checkpoint(path).read("a").dequantize()))
        assert back.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("scale", [0.75, 0.0, -2.0, np.inf, 2.0**-128])
def test_float_scales_become_powers_of_two_only_where_they_are(scale: float, tmp_path: Path) -> None:
    codes, grid = quantize(draw(256, 128), TILE)
    grid = np.array([[2.0**-127], [scale]], np.float32)
    path = write_safetensors(tmp_path / "x.safetensors", stored("a", codes, grid))
    with pytest.raises(ContainerError, match="is no power of two"):
        containers.convert(path, tmp_path / "out.safetensors", "fp8-ue8m0")
    assert [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    register_named(["fp8_e4m3-128-f32"])
    rows = mxspec.quantize(draw(256, 256), "fp8_e4m3-128-f32", profile="transformers-5.23/fp8-128/float32")
    with pytest.raises(ContainerError, match="several scales"):
        containers.write(tmp_path / "x.safetensors", {"a": rows}, "fp8")
    write_safetensors(tmp_path / "in.safetensors", {"a.weight": ("F32", (4, 4), bytes(64))})
    with pytest.raises(ContainerError, match="a scale for each row"):
        containers.quantize_checkpoint(tmp_path / "in.safetensors", tmp_path / "x.safetensors", "fp8_e4m3-128-f32", "fp8-channel")
    one = mxspec.BlockTensor.from_codes(np.full((3, 128), 0x38, np.uint8), np.ones((3, 1), np.float32), "fp8_e4m3-128-f32")
    containers.write(tmp_path / "x.safetensors", {"a": one}, "fp8-tensor")
    assert open_checkpoint(tmp_path / "x.safetensors").blocks["a"].form.grid == ALL


@pytest.mark.parametrize("scale", [-1e-4, -0.0])
def test_negative_scales_are_not_decoded(scale: float, tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "x.safetensors", stored("a", np.zeros((2, 2), np.uint8), np.full((1, 1), scale, np.float32)))
    with pytest.raises(ContainerError, match="a:"):
        open_checkpoint(path).read("a")
    with pytest.raises(ContainerError, match="a:"):
        containers.dequantize_checkpoint(path, tmp_path / "out.safetensors")
    assert [f.rule.id for f in lint(path).findings] == ["scale/sign"]


def test_configuration_that_is_written(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_safetensors(tmp_path / "in/model.safetensors", {"a.weight": ("F32", (200, 256), draw(200, 256).tobytes())})
    (tmp_path / "in/config.json").write_text("{}")
    for form in TILES:
        register_named([form.format_name])
        containers.quantize_checkpoint(tmp_path / "in", tmp_path / form.convention, form.format_name, form.convention)
        said = json.loads((tmp_path / form.convention / "config.json").read_text())["quantization_config"]
        assert said["quant_method"] == (form.config or ("", ""))[0]
        assert said.get("scale_fmt") == ("ue8m0" if form.format_name == "fp8_e4m3-128" else None)
        assert lint(tmp_path / form.convention).findings == ()


# Lint


@dataclass
class File:
    """A file of one matrix, `a`, in tiles of 128 x 128, with something done to it."""

    x: Floats = field(default_factory=lambda: draw(576, 300))
    parts: Parts = field(default_factory=dict)
    config: dict[str, Any] | None = None
    codes: Codes = field(init=False)
    grid: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.codes, self.grid = quantize(self.x, TILE)
        self.parts = stored("a", self.codes, self.grid)

    def scale(self, grid: Floats) -> None:
        self.parts = stored("a", self.codes, np.ascontiguousarray(grid))

    def says(self, **more: Any) -> None:
        self.config = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128], "activation_scheme": "dynamic", **more}

    def write(self, folder: Path) -> Path:
        if self.config is not None:
            (folder / "config.json").write_text(json.dumps({"quantization_config": self.config}))
        return write_safetensors(folder / "x.safetensors", self.parts)


def put(value: float) -> Callable[[File], None]:
    def edit(f: File) -> None:
        f.grid[1, 1] = value
        f.scale(f.grid)

    return edit


def add(**parts: tuple[str, Sequence[int], bytes]) -> Callable[[File], None]:
    return lambda f: f.parts.update({f"b.{name}": part for name, part in parts.items()})


def channels(f: File) -> None:
    f.codes, f.grid = quantize(f.x, ROW)
    f.parts = stored("a", f.codes, f.grid, ".weight_scale")
    group = {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}}
    f.config = {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0": group}}


FAULTS: dict[str, tuple[Callable[[File], Any], set[str]]] = {
    "nothing": (lambda f: f.says(), set()),
    "nan": (put(np.nan), {"scale/nan"}),
    "infinite": (put(np.inf), {"scale/infinite"}),
    "negative": (put(-1e-4), {"scale/sign"}),
    "zero": (put(0), {"scale/zero"}),
    "reciprocals": (lambda f: f.scale(1 / f.grid), {"scale/large"}),
    "reciprocals of large weights": (lambda f: f.scale(1 / (f.grid * np.float32(100))), {"scale/inverted"}),
    "transposed": (lambda f: f.scale(f.grid.T), {"tensor/shape"}),
    "rounded down": (lambda f: f.scale(f.grid[:4]), {"tensor/shape"}),
    "tiles of 128 x 256, declared": (lambda f: (f.scale(f.grid[:, :2]), f.says(weight_block_size=[128, 256])), {"tensor/not-checked"}),
    "tiles of 128 x 256 or rounded down": (lambda f: f.scale(f.grid[:, :2]), {"tensor/not-checked"}),
    "tiles of 64, declared": (lambda f: (f.scale(np.ones((9, 5), np.float32)), f.says(weight_block_size=[64, 64])), {"tensor/not-checked"}),
    "tiles of 64, not declared": (lambda f: (f.scale(np.ones((9, 5), np.float32)), f.says()), {"tensor/shape", "tensor/not-checked"}),
    "tiles of 128, not declared": (lambda f: f.says(weight_block_size=[64, 64]), {"config/group-size"}),
    "no scales": (add(weight=("F8_E4M3", (2, 4), bytes(8))), {"tensor/missing", "tensor/not-checked"}),
    "no scales of a layer left out": (
        lambda f: (add(weight=("F8_E4M3", (2, 4), bytes(8)))(f), f.says(modules_to_not_convert=["b"])), {"tensor/not-checked"},
    ),
    "no codes": (add(weight_scale_inv=("F32", (1, 1), bytes(4))), {"tensor/missing"}),
    "scales of plain numbers": (
        add(weight=("BF16", (2, 4), bytes(16)), weight_scale_inv=("F32", (1, 1), bytes(4))), {"tensor/dtype"},
    ),
    "ue8m0 declared": (lambda f: f.says(scale_fmt="ue8m0"), {"config/scale-format"}),
    "ue8m0": (lambda f: (f.scale(up_to_powers(f.grid)), f.says(scale_fmt="ue8m0")), set()),
    "left out": (lambda f: f.says(modules_to_not_convert=["a"]), {"config/group"}),
    "another method": (lambda f: setattr(f, "config", {"quant_method": "modelopt", "quant_algo": "NVFP4"}), {"config/method"}),
    "another strategy": (channels, {"config/group"}),
    "not there": (lambda f: (f.says(), f.parts.clear(), f.parts.update(n=("BF16", (1,), bytes(2)))), {"config/method"}),
    "two kinds": (
        lambda f: f.parts.update(stored("b", f.codes, quantize(f.x, ALL)[1].reshape(()), ".weight_scale")), {"tensor/mixed"},
    ),
    "codes too small": (lambda f: setattr(f, "parts", stored("a", quantize(f.x / 4, TILE)[0] & 0xAF, f.grid)), {"codes/small-max"}),
    "nan codes": (lambda f: setattr(f, "parts", stored("a", np.where(np.arange(300) == 7, 0x7F, f.codes).astype(np.uint8), f.grid)), {"codes/nan"}),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_gives_its_finding_and_no_other(fault: str, tmp_path: Path) -> None:
    file = File()
    edit, due = FAULTS[fault]
    edit(file)
    assert {f.rule.id for f in lint(file.write(tmp_path)).findings} == due


def test_a_finding_says_where(tmp_path: Path) -> None:
    """The byte of the scale in the file: that of the second row and column of the grid, a bfloat16."""
    file = File()
    file.grid[1, 1] = np.nan
    file.parts = stored("a", file.codes, file.grid, dtype="BF16")
    path = file.write(tmp_path)
    (finding,) = lint(path).findings
    scales = open_checkpoint(path).tensors["a.weight_scale_inv"]
    assert (finding.tensor, finding.offset) == (scales.name, scales.offset + 2 * (1 * 3 + 1))
    assert path.read_bytes()[finding.offset : finding.offset + 2] == np.array([np.nan], ml_dtypes.bfloat16).tobytes()


AGAINST: dict[str, tuple[tuple[int, int], Callable[[Floats], Floats], list[Departure]]] = {
    "nothing": (TILE, lambda g: g, []),
    "inverted": (TILE, lambda g: 1 / g, [Departure.INVERTED]),
    "square transposed": (TILE, lambda g: g.T, [Departure.TRANSPOSED]),
    "both": (TILE, lambda g: 1 / g.T, [Departure.TRANSPOSED, Departure.INVERTED]),
    "rows": (ROW, lambda g: g, []),
    "rows inverted": (ROW, lambda g: 1 / g, [Departure.INVERTED]),
    "tensor": (ALL, lambda g: g.reshape(1), []),
    "tensor inverted": (ALL, lambda g: 1 / g.reshape(1), [Departure.INVERTED]),
}


@pytest.mark.parametrize("what", AGAINST)
def test_against_the_original(what: str, tmp_path: Path) -> None:
    tile, edit, due = AGAINST[what]
    x = draw(500, 390) * np.linspace(0.5, 2, 390, dtype=np.float32)
    codes, grid = quantize(x, tile)
    original = write_safetensors(tmp_path / "o.safetensors", {"a.weight": ("F32", x.shape, x.tobytes())})
    suffix = ".weight_scale_inv" if tile == TILE else ".weight_scale"
    path = write_safetensors(tmp_path / "x.safetensors", stored("a", codes, np.ascontiguousarray(edit(grid)), suffix))
    result = lint(path, against=original)
    assert result.comparison is not None
    (found,) = result.comparison.explanations
    assert list(found.hypothesis.departures) == due
    assert found.agreement.majority
    assert {f.rule.id for f in result.findings if f.rule.id.startswith("against/")} == {f"against/{d}" for d in due}
    assert (result.exit_code == 0) == (not due)
    if not due:
        assert found.agreement.complete


PROFILES = [(f, p.id) for f in ("fp8_e4m3-128-f32", "fp8_e4m3-128") for p in ADJACENT[f].profiles] + [("fp8_e4m3-128", "mx-ceil")]


@pytest.mark.parametrize(("fmt", "profile"), PROFILES)
def test_attribution_is_consistent_with_the_profile_that_made_it(fmt: str, profile: str, tmp_path: Path) -> None:
    register_named([fmt])
    x = draw(576, 712)
    x[:128, :128] = 0
    source = write_safetensors(tmp_path / "o.safetensors", {"a.weight": ("F32", x.shape, x.tobytes())})
    out = tmp_path / "x.safetensors"
    containers.quantize_checkpoint(source, out, fmt, "fp8" if fmt.endswith("f32") else "fp8-ue8m0", profile=profile)
    found = attribute(out, source=source)
    (tensor,) = found.tensors
    assert found.exit_code == 0
    assert profile in tensor.list(Standing.CONSISTENT)
    assert len(tensor.list(Standing.EXCLUDED)) >= 4
    assert tensor.provenance is not None
    assert profile in {m.profile for m in tensor.provenance.exact}


def test_forms_without_a_profile_are_not_attributed(tmp_path: Path) -> None:
    codes, grid = quantize(draw(64, 96), ROW)
    found = attribute(write_safetensors(tmp_path / "x.safetensors", stored("a", codes, grid, ".weight_scale")))
    assert (found.exit_code, list(found.skipped)) == (2, ["a"])
