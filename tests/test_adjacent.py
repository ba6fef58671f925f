"""Adjacent forms: one entry makes each of them a format that is quantized, exported and judged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import mxspec
from mxspec import exact, formats, profiles
from mxspec.adjacent import ADJACENT, Adjacent, find_any_profile, register_named
from mxspec_conformance.cli.main import main
from mxspec_conformance.judge.check import check
from mxspec_conformance.targets.declared import describe_target
from mxspec_vectors.build import build_document
from mxspec_vectors.cases import load_scale_cases
from mxspec_vectors.generate import list_files

from tests.few_calls import ask_few_calls
from tests.support import reals_of, rng

NORMATIVE = ["mx-floor", "mx-rceil", "mx-even", "mx-ceil"]


def list_names(entry: Adjacent) -> list[str]:
    """The profiles of an entry: others' on its scale format, the normative ones of an MX form, and its own."""
    others = [f"{entry.block.name}/{name}" for name in entry.like]
    return [*others, *(NORMATIVE if entry.block.is_mx else []), *(p.id for p in profiles.list_waiting(entry.block.name))]


#: Entries, each with a profile that it has.
PROFILES = pytest.mark.parametrize(
    ("entry", "profile"),
    [(e, p) for e in ADJACENT.values() for p in list_names(e)],
    ids=lambda v: v.block.name if isinstance(v, Adjacent) else str(v),
)
ENTRIES = pytest.mark.parametrize("entry", ADJACENT.values(), ids=lambda e: e.block.name)


def draw(fmt: formats.BlockFormat, rows: int) -> Any:
    generator = np.random.default_rng(rng("adjacent", fmt.name).randrange(1 << 32))
    powers = 2.0 ** generator.integers(-30, 30, (rows, 1))
    return (generator.standard_normal((rows, fmt.k)) * powers).astype(np.float32)


@ENTRIES
def test_it_is_unknown_until_it_is_named(entry: Adjacent) -> None:
    name = entry.block.name
    with pytest.raises(ValueError, match=f"unknown block format '{name}'"):
        mxspec.get_block(name)
    assert mxspec.register_adjacent(name) is mxspec.register_adjacent(name) is mxspec.get_block(name)
    assert not mxspec.get_block(name).is_ocp
    assert [p.id for p in mxspec.list_profiles(name)] == list_names(entry)
    assert entry.source


@PROFILES
def test_it_is_quantized_as_the_exact_model_says(entry: Adjacent, profile: str) -> None:
    mxspec.register_adjacent(entry.block.name)
    fmt = formats.get_rows(entry.block.name)
    x = draw(fmt, 8)
    result = mxspec.quantize(x, fmt, profile=profile)
    for row, codes, scale in zip(x, result.codes, result.scales[:, 0], strict=True):
        wanted = exact.quantize_block(reals_of(row), fmt, profile=profile)
        assert (int(scale), codes.tolist()) == (wanted.scale_code, list(wanted.codes))


@ENTRIES
def test_a_tile_has_one_scale(entry: Adjacent) -> None:
    """Of the tile's maximum, wherever it lies; rows of a form without tiles have their own."""
    fmt = mxspec.register_adjacent(entry.block.name)
    tiles = [shape for shape in fmt.shapes if shape[0] > 1]
    for rows, k in tiles:
        x = draw(fmt, rows)
        x[rows - 1, 3] = 2.0**100
        profile = list_names(entry)[0]
        result = mxspec.quantize(x, fmt.name, block=(rows, k), profile=profile)
        largest = reals_of(np.array([2.0**100], np.float32))[0]
        for row in (0, rows - 1):
            wanted = exact.quantize_block(reals_of(x[row]), fmt, profile=profile, amax=largest)
            assert (int(result.scales[row, 0]), result.codes[row].tolist()) == (wanted.scale_code, list(wanted.codes))
    if not tiles:
        with pytest.raises(ValueError, match="is not a block shape of"):
            mxspec.quantize(draw(fmt, fmt.k), fmt.name, block=(fmt.k, fmt.k))


@ENTRIES
def test_vectors_are_built_for_it(entry: Adjacent) -> None:
    fmt = mxspec.register_adjacent(entry.block.name)
    if fmt.scale.bits > 8:  # whose scale cases are computed
        assert sum(len(case.amax) for case in load_scale_cases(fmt.name)) > 400
        assert ("scale", fmt.name) not in list_files()
        assert build_document("quantize", fmt.name)["cases"]
        return
    document = build_document("scale", fmt.name)
    assert (document["format"], document["profiles"]) == (entry.block.name, [p.id for p in mxspec.list_profiles(entry.block)])
    # Thresholds of E8M0 are many cases; minifloat scales have ties.
    assert len(document["cases"]) > (20 if entry.block.is_mx else 5)
    if not entry.block.is_mx:
        assert build_document("quantize", entry.block.name)["cases"]


@ENTRIES
def test_the_command_line_knows_it_by_its_name(entry: Adjacent) -> None:
    name = entry.block.name
    runner = CliRunner()
    listed = runner.invoke(main, ["formats"], terminal_width=200).output
    assert name in listed
    for arguments in (["profiles", "--format", name], ["explain", name, "1", "-2.5", "6"]):
        done = runner.invoke(main, arguments)
        assert done.exit_code == 0, done.output


def test_deepgemm_has_a_floor_and_no_byte_beyond_fe() -> None:
    """Bytes of 1e-4 / 448 up to a power of two, of the smallest maximum above it, and of a block with a NaN or an infinity."""
    mxspec.register_adjacent("fp8_e4m3-128")
    x = np.zeros((5, 128), np.float32)
    x[1:, 7] = 448 * 2.0**-22, np.nextafter(np.float32(448 * 2.0**-22), np.float32(1)), np.nan, -np.inf
    t = mxspec.quantize(x, "fp8_e4m3-128", profile="deepgemm-2.6/fp8-128/ue8m0")
    assert t.scales[:, 0].tolist() == [0x69, 0x69, 0x6A, 0xFE, 0xFE]
    assert t.codes[:, 7].tolist() == [0x00, 0x7E, 0x76, 0x7F, 0xFE]


@pytest.mark.parametrize("name", ["deepgemm-2.6/fp8-128/ue8m0", "deepgemm/ue8m0", "fp4-32-ue4m3/nvfp4-paper"])
def test_a_profile_of_an_adjacent_format_registers_it(name: str) -> None:
    fmt = name.partition("/")[0] if "nvfp4" in name else "fp8_e4m3-128"
    found = find_any_profile(name)
    assert found.formats == (fmt,) == (mxspec.get_block(fmt).name,)
    done = CliRunner().invoke(main, ["distinguish", found.id, name])
    assert done.exit_code == 1, done.output


def test_scales_without_a_tensor_scale() -> None:
    """The one-level form of a profile is that of NVFP4, of one that always has a tensor scale its form under 1; UE5M3 reaches further."""
    x = draw(mxspec.register_adjacent("fp4-16-ue4m3"), 64)
    one = mxspec.TensorScale.from_float("encode", 1.0)
    for name in ("nvfp4-paper", "nvfp4-exact", "lightx2v-0.0.1/nvfp4"):
        own = mxspec.quantize(x, "fp4-16-ue4m3", profile=f"fp4-16-ue4m3/{name}")
        theirs = mxspec.quantize(x, "nvfp4", profile=name, tensor_scale=one if name.startswith("lightx2v") else None)
        assert np.array_equal(own.codes, theirs.codes)
        assert np.array_equal(own.scales, theirs.scales)
        assert np.array_equal(own.dequantize(), theirs.dequantize())
    mxspec.register_adjacent("fp4-16-ue5m3")
    large = np.full((1, 16), 6 * 114688, np.float32)
    wide = mxspec.quantize(large, "fp4-16-ue5m3", profile="fp4-16-ue5m3/nvfp4-paper")
    assert (wide.scales.tolist(), set(wide.codes.reshape(-1).tolist())) == ([[0xFE]], {7})
    assert mxspec.quantize(large, "fp4-16-ue4m3", profile="fp4-16-ue4m3/nvfp4-paper").scales.tolist() == [[0x7E]]


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("mxfp4-16", "mx-floor"),
        ("fp8_e4m3-128-f32", "deepgemm-2.6/fp8-128/float32"),
        ("fp4-16-ue5m3", "fp4-16-ue5m3/nvfp4-exact"),
        ("fp4-16-ue4m3", "fp4-16-ue4m3/nvfp4-exact"),
    ],
)
def test_a_target_that_names_it_is_judged(name: str, profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By contracts and open points: nothing of OCP binds it."""
    ask_few_calls(monkeypatch.setattr)

    def quantize(x: Any, fmt: str) -> tuple[Any, Any]:
        t = mxspec.quantize(x, fmt)
        return t.codes, t.scales

    report = check(SimpleNamespace(FORMATS=[name], quantize=quantize), in_process=True)
    assert {r.verdict for r in report.requirements} <= {"pass", "unsupported"}
    assert "contract" in {r.level for r in report.requirements} <= {"contract", "open"}
    assert (report.formats[0].judged_against, report.exit_code) == (profile, 0)

    def shift(x: Any, fmt: str) -> tuple[Any, Any]:
        codes, scales = quantize(x, fmt)
        return codes, np.maximum(scales, 1) - 1

    wrong = check(SimpleNamespace(FORMATS=[name], quantize=shift), in_process=True)
    assert (wrong.exit_code, "fail" in {r.verdict for r in wrong.requirements}) == (1, True)


def test_unknown_names_are_refused_as_before() -> None:
    with pytest.raises(ValueError, match=r"unknown adjacent format 'mxfp4-61'; known are mxfp4-16.*did you mean"):
        mxspec.register_adjacent("mxfp4-61")
    for name in (None, 5, ["mxfp4-16"], "MXFP4-16", ""):
        with pytest.raises(ValueError if isinstance(name, str) else TypeError, match="unknown adjacent format"):
            mxspec.register_adjacent(name)  # type: ignore[arg-type]  # what a caller without types may pass
    register_named(["mxfp4-61", 7, None])
    assert "mxfp4-61" not in mxspec.BLOCKS
    module = SimpleNamespace(FORMATS=["mxfp4-61"], quantize=lambda x, fmt: None)
    with pytest.raises(Exception, match="mxfp4-61"):
        describe_target(module, "spec")
    assert CliRunner().invoke(main, ["profiles", "--format", "mxfp4-61"]).exit_code == 2


def test_a_name_that_was_taken_stays_with_who_took_it() -> None:
    mine = formats.BlockFormat(name="mxfp4-16", element=formats.E2M3, scale=formats.E8M0, k=16, shapes=((1, 16),))
    mxspec.register_block(mine)
    register_named(["mxfp4-16"])
    assert mxspec.get_block("mxfp4-16") is mine
    with pytest.raises(ValueError, match="the name 'mxfp4-16' is taken by another format"):
        mxspec.register_adjacent("mxfp4-16")
