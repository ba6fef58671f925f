"""A block format of one's own, registered: 16 e2m1 elements under an e8m0 scale, in model, vectors and command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import mxspec
from mxspec import exact, formats
from mxspec.formats import BLOCKS, E2M1, E4M3, E5M2, E8M0, UE4M3, BlockFormat, ElementFormat, register_block
from mxspec.profiles import list_profiles
from mxspec.stepfunctions import scale_steps
from mxspec_conformance.cli.main import main
from mxspec_conformance.judge.check import check
from mxspec_vectors.topics import Level, topic_level

from tests.few_calls import ask_few_calls
from tests.support import reals_of, rng

MXFP4_16 = BlockFormat(name="mxfp4-16", element=E2M1, scale=E8M0, k=16, shapes=((1, 16),))
NORMATIVE = ["mx-floor", "mx-rceil", "mx-even", "mx-ceil"]


@pytest.fixture
def registered() -> Iterator[BlockFormat]:
    """The format, registered for one test."""
    before = dict(formats._blocks)
    register_block(MXFP4_16)
    yield MXFP4_16
    formats._blocks.clear()
    formats._blocks.update(before)


@pytest.mark.usefixtures("registered")
def test_it_is_known_and_has_the_normative_mx_profiles() -> None:
    assert BLOCKS["mxfp4-16"] is mxspec.get_block("mxfp4-16") is MXFP4_16
    assert [p.id for p in list_profiles("mxfp4-16")] == NORMATIVE
    assert mxspec.default_profile("mxfp4-16").id == "mx-floor"
    assert "mxfp4-16" in mxspec.get_profile("mx-even", "mxfp4").formats
    register_block(MXFP4_16)


def test_it_is_gone_where_it_is_not_registered() -> None:
    with pytest.raises(ValueError, match="unknown block format 'mxfp4-16'"):
        mxspec.get_block("mxfp4-16")
    assert tuple(mxspec.get_profile("mx-floor", "mxfp4").formats) == tuple(f for f in BLOCKS if f != "nvfp4")


@pytest.mark.parametrize("profile", NORMATIVE)
def test_the_model_takes_it(registered: BlockFormat, profile: str) -> None:
    """Each block is what the exact model gives, and half a block of mxfp4 with the same maximum."""
    draw = np.random.default_rng(rng("registered", profile).randrange(1 << 32))
    x = (draw.standard_normal((60, 16)) * 2.0 ** draw.integers(-30, 30, (60, 1))).astype(np.float32)
    result = mxspec.quantize(x, registered.name, profile=profile)
    for row, codes, scale in zip(x, result.codes, result.scales[:, 0], strict=True):
        wanted = exact.quantize_block(reals_of(row), registered, profile=profile)
        assert (int(scale), codes.tolist()) == (wanted.scale_code, list(wanted.codes))
    wide = mxspec.quantize(np.concatenate([x, x], axis=1), "mxfp4", profile=profile)
    assert np.array_equal(wide.codes[:, :16], result.codes)
    assert np.array_equal(wide.scales, result.scales)
    assert np.array_equal(wide.dequantize()[:, :16], result.dequantize())
    assert scale_steps(mxspec.get_profile(profile, registered), registered).as_text() == (
        scale_steps(mxspec.get_profile(profile, "mxfp4"), BLOCKS["mxfp4"]).as_text()
    )


#: The forms that people ask for and OCP does not define.
ADJACENT = (
    MXFP4_16,
    BlockFormat(name="fp8_e4m3-128", element=E4M3, scale=E8M0, k=128, shapes=((1, 128),)),
    BlockFormat(name="fp8_e5m2-128", element=E5M2, scale=E8M0, k=128, shapes=((1, 128),)),
)


@pytest.mark.parametrize("fmt", ADJACENT, ids=lambda f: f.name)
def test_what_ocp_does_not_define_is_bound_by_nothing_of_it(registered: BlockFormat, fmt: BlockFormat) -> None:
    """It has MX's scale rules, and they are contracts."""
    register_block(fmt)
    assert (fmt.is_mx, fmt.is_ocp) == (True, False)
    assert [f.name for f in BLOCKS.values() if f.is_ocp] == [n for n in BLOCKS if n.startswith("mx") and n != registered.name]
    for operation, topic in (("quantize", "tie-even"), ("scale", "scale-boundary"), ("dequantize", "code")):
        assert topic_level(topic, operation, fmt.name) is Level.CONTRACT
        assert topic_level(topic, operation, "mxfp4") is not Level.CONTRACT
    assert topic_level("nan", "quantize", fmt.name) is Level.OPEN
    assert topic_level("nan", "quantize", "mxfp8_e4m3") is Level.MUST


@pytest.mark.usefixtures("registered")
def test_a_target_is_judged_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By vectors that are built for it, with random bits and with a seed, too; everything is a contract, or open."""
    ask_few_calls(monkeypatch.setattr)

    def quantize(x: Any, fmt: str, random_bits: Any = None, seed: int | None = None) -> tuple[Any, Any]:
        if seed is not None:
            random_bits = np.random.default_rng(seed).integers(1 << 32, size=x.shape, dtype=np.uint32)
        t = mxspec.quantize(x, fmt, random_bits=random_bits)
        return t.codes, t.scales

    report = check(SimpleNamespace(FORMATS=["mxfp4-16"], quantize=quantize), in_process=True)
    assert {r.verdict for r in report.requirements} <= {"pass", "unsupported"}
    assert {r.level for r in report.requirements} == {"contract", "open"}
    assert {"quantize/mxfp4-16/tie-even", "scale/mxfp4-16/scale-boundary", "stochastic/mxfp4-16/random-bits",
            "stochastic/mxfp4-16/probability"} <= {r.id for r in report.requirements}  # fmt: skip
    assert (report.formats[0].judged_against, report.exit_code) == ("mx-floor", 0)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("profile", NORMATIVE)
@pytest.mark.parametrize(("element", "rows"), [(E2M1, 32), (E4M3, 32), (E4M3, 128)])
def test_square_blocks_of_other_sizes(element: ElementFormat, rows: int, profile: str) -> None:
    """32 x 32 as training recipes have it, 128 x 128 as checkpoints do: every row has its tile's maximum, wherever it lies."""
    fmt = BlockFormat(name=f"square-{rows}", element=element, scale=E8M0, k=rows, shapes=((1, rows), (rows, rows)))
    register_block(fmt)
    draw = np.random.default_rng(rng("square", profile, rows).randrange(1 << 32))
    x = draw.standard_normal((2 * rows, 3 * rows)).astype(np.float32)
    tiles = x.reshape(2, rows, 3, rows)
    # The maximum of each tile in another of its rows, far above all else.
    for number, (i, j) in enumerate(np.ndindex(2, 3)):
        tiles[i, (7 * number + rows - 1) % rows, j, number] = 2.0 ** (20 + number)
    result = mxspec.quantize(x, fmt, block=(rows, rows), profile=profile)
    assert result.scales.shape == (2 * rows, 3)
    for i, j in np.ndindex(2, 3):
        largest = reals_of(np.abs(tiles[i, :, j]).max().reshape(1))[0]
        for row in (0, 1, rows // 2, rows - 1):
            wanted = exact.quantize_block(reals_of(tiles[i, row, j]), fmt, profile=profile, amax=largest)
            assert int(result.scales[i * rows + row, j]) == wanted.scale_code
            assert result.codes[i * rows + row, j * rows : (j + 1) * rows].tolist() == list(wanted.codes)


def test_the_command_line_refuses_it_where_it_is_not_registered() -> None:
    result = CliRunner().invoke(main, ["profiles", "--format", "mxfp4-17"])
    assert result.exit_code == 2
    assert "'mxfp4-17' is no block format; did you mean mxfp4-16" in result.output  # adjacent ones are registered by being named
    assert "[mxfp4|mxfp8_e4m3|nvfp4|" in CliRunner().invoke(main, ["profiles", "--help"], terminal_width=200).output


@pytest.mark.parametrize("taken", ["mxfp4", "e2m1", "ue4m3"])
def test_taken_names_are_refused(taken: str) -> None:
    before = dict(BLOCKS)
    with pytest.raises(ValueError, match=f"the name '{taken}' is taken by another format; choose a new name"):
        register_block(replace(MXFP4_16, name=taken))
    assert dict(BLOCKS) == before
    with pytest.raises(ValueError, match="the name 'nvfp4' is taken"):
        mxspec.register_scalar(replace(UE4M3, name="nvfp4"))


def test_unknown_parts_and_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="'e4m3' is not a registered format; register it first"):
        register_block(replace(MXFP4_16, element=replace(E4M3, max_code=0x7D)))
    for shapes in ((), ((1, 32),), ((0, 16),)):
        with pytest.raises(ValueError, match=r"shapes = .*; give one or more \(rows, k\) with k = 16"):
            register_block(replace(MXFP4_16, shapes=shapes))
    assert "mxfp4-16" not in BLOCKS


def test_the_views_cannot_be_written() -> None:
    for view in (mxspec.BLOCKS, mxspec.ELEMENTS, mxspec.SCALES):
        with pytest.raises(TypeError, match="does not support item assignment"):
            view["x"] = MXFP4_16  # type: ignore[index]  # what is tested


@pytest.mark.usefixtures("registered")
def test_a_format_that_no_profile_covers_says_so() -> None:
    register_block(BlockFormat(name="fp4-plain", element=E2M1, scale=UE4M3, k=16, shapes=((1, 16),)))
    assert not BLOCKS["fp4-plain"].is_mx
    with pytest.raises(ValueError, match="no profile covers fp4-plain; register one for it"):
        mxspec.quantize(np.zeros(16, np.float32), "fp4-plain")
