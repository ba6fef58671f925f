"""Identification: tables are the functions, pairs of profiles are separated, real libraries are named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import mxspec
from mxspec import layouts
from mxspec.profiles import schema
from mxspec.rounding import Rounding
from mxspec.stepfunctions import LAST_FINITE, SIGN
from mxspec_conformance.cli.main import main
from mxspec_conformance.identification.distinguish import distinguish
from mxspec_conformance.identification.tables import ask_profile, tabulate
from mxspec_conformance.identification.target import identify, identify_format
from mxspec_conformance.transports.opening import open_target

PAIRS = json.loads((Path(__file__).parents[1] / "reports" / "identify" / "pairs.json").read_text("ascii"))


@pytest.mark.parametrize(
    ("profile", "fmt", "form"),
    [("mx-floor", "mxfp4", None), ("mx-rceil", "mxfp8_e5m2", None), ("mlx-0.32/mxfp4/cpu", "mxfp4", None),
     ("gguf-0.19/mxfp4", "mxfp4", None), ("mx-even", "mxint8", None), ("nvfp4-te", "nvfp4", 0x40490FDB),
     ("vllm-0.33/nvfp4/kernel", "nvfp4", 0x3F800000), ("nvfp4-paper", "nvfp4", None)],
)  # fmt: skip
def test_a_table_predicts_the_profile(profile: str, fmt: str, form: int | None) -> None:
    """Random maxima and elements, half of them next to thresholds: the table's answer is the profile's."""
    block = mxspec.get_block(fmt)
    table, ask = tabulate(profile, fmt, form), ask_profile(mxspec.get_profile(profile, block), block, form)
    assert table is not None
    assert ask is not None
    rng = np.random.default_rng(7)
    starts, ends = table.scale.starts, table.scale.ends
    amax = np.concatenate([rng.integers(0, LAST_FINITE + 1, 3000), starts, ends, starts + 1])
    amax = np.clip(amax, 0, LAST_FINITE)
    step = np.searchsorted(starts, amax, side="right") - 1
    x = (rng.random(len(amax)) * (amax + 1)).astype(np.int64)
    for i, s in enumerate(step.tolist()):
        first = table.elements[s, 0].starts
        if i % 2:
            x[i] = np.clip(first[i % len(first)] + (i // 2) % 3 - 1, 0, amax[i])
    blocks = np.zeros((len(amax), block.k), np.uint32)
    blocks[:, 0], blocks[:, 1], blocks[:, 2] = amax, x, x | SIGN
    scales, codes = ask(blocks)
    assert (scales == table.scale.at(amax)).all()
    for lane, sign in ((1, 0), (2, 1)):
        for i, s in enumerate(step.tolist()):
            assert codes[i, lane] == table.elements[s, sign].at(x[i : i + 1])[0], (i, lane)


@pytest.mark.parametrize("fmt", list(mxspec.BLOCKS))
def test_published_separations_separate(fmt: str) -> None:
    """Every pair is listed, and the two profiles still answer its block differently."""
    entry = PAIRS["formats"][fmt]
    ids = [p.id for p in mxspec.list_profiles(fmt)]
    assert entry["profiles"] == ids, f"run: python tests/identify_pairs.py {fmt}"
    assert set(entry["pairs"]) == {f"{a} | {b}" for a, b in combinations(ids, 2)}
    block = mxspec.get_block(fmt)
    answers: dict[tuple[str, str], Any] = {}

    def answer(name: str, found: dict[str, Any]) -> Any:
        key = name, json.dumps(found)
        if key not in answers:
            lanes = np.zeros((1, block.k), np.uint32)
            lanes[0, : len(found["lanes"])] = [int(x, 16) for x in found["lanes"]]
            form = int(found["tensor_amax"], 16) if "tensor_amax" in found else None
            ask = ask_profile(mxspec.get_profile(name, block), block, form)
            assert ask is not None
            scales, codes = ask(lanes)
            answers[key] = (int(scales[0]), codes.tobytes())
        return answers[key]

    for pair, found in entry["pairs"].items():
        if "why" not in found:
            first, second = (answer(name, found) for name in pair.split(" | "))
            assert first != second, pair


def test_all_mx_profiles_are_separated_or_are_one_function() -> None:
    for fmt, entry in PAIRS["formats"].items():
        untold = {pair: found["why"] for pair, found in entry["pairs"].items() if "why" in found}
        one = {pair for pair, why in untold.items() if why.startswith("one function on float32: equal thresholds everywhere")}
        assert set(untold) == one or fmt == "nvfp4", sorted(set(untold) - one)


def test_nvfp4_profiles_that_nothing_separates_are_explained() -> None:
    for pair, found in PAIRS["formats"]["nvfp4"]["pairs"].items():
        if "why" in found:
            assert found["why"].startswith(("one function on float32", "they are never asked the same", "not separated by any")), pair


@pytest.fixture
def new_profile() -> Iterator[mxspec.Profile]:
    """An unknown profile: nvfp4-te but for one leaf."""
    known = mxspec.get_profile("mx-floor", "mxfp4")
    assert known.one_level is not None
    element = replace(known.one_level.element, rounding=Rounding.RNU)
    made = replace(known, id="test/ties-up", kind=schema.Kind.DESCRIPTIVE, one_level=replace(known.one_level, element=element))
    mxspec.register_profile(made)
    yield made
    from mxspec import profiles

    profiles._profiles.pop(made.id, None)


def test_a_profile_is_distinguishable_the_day_it_is_added(new_profile: mxspec.Profile) -> None:
    for other in ("mx-floor", "mx-rceil", "gguf-0.19/mxfp4", "torchao-0.18/mx/floor/eager"):
        found = distinguish(new_profile.id, other, "mxfp4")
        assert found is not None, other
        assert found.answers[0] != found.answers[1]
    found = distinguish(new_profile.id, "mx-floor", "mxfp4")
    assert found is not None
    # Ties up and ties to even part at a tie between an even code below and an odd one above.
    assert found.answers[0][0] == found.answers[1][0]
    assert len(found.lanes) <= 2


def test_a_bfloat16_separation_is_one() -> None:
    found = distinguish("mx-floor", "mx-rceil", "mxfp4", dtype="bfloat16")
    assert found is not None
    assert all(bits % 65536 == 0 for bits in found.lanes)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("gguf", {"mxfp4": ["gguf-0.19/mxfp4"]}),
        ("mlx", {"mxfp4": ["mlx-0.32/mxfp4/cpu"], "mxfp8_e4m3": ["mlx-0.32/mxfp8_e4m3/cpu"], "nvfp4": ["mlx-0.32/nvfp4/cpu"]}),
    ],
)  # fmt: skip
def test_real_libraries_are_named(target: str, expected: dict[str, list[str]]) -> None:
    pytest.importorskip(target)
    session = open_target(target, in_process=True)
    for fmt, names in expected.items():
        found = identify_format(session, mxspec.get_block(fmt))
        assert found.identical == names
        assert found.layouts == {"codes": "bytes", "scales": "row-major"}
        assert {n.agrees_with for n in found.neighbours} <= {"nearest", ""}
        assert any(n.separation is not None for n in found.neighbours)


def test_a_kernel_that_takes_even_rows_alone_is_named() -> None:
    def quantize(x: Any, fmt: str) -> Any:
        if len(x) % 2:
            raise ValueError(f"{len(x)} rows; allowed are even numbers")
        return mxspec.quantize(x, fmt).codes, mxspec.quantize(x, fmt).scales

    (found,) = identify(SimpleNamespace(NAME="even", VERSION="1", FORMATS=["mxfp4"], quantize=quantize))
    assert (found.nearest, found.distance) == ("mx-floor", 0)


def test_layouts_of_what_comes_back_are_named() -> None:
    def quantize(x: Any, fmt: str) -> Any:
        t = mxspec.quantize(x, fmt)
        return layouts.pack(t.codes, "nibble-high"), layouts.pack(t.scales, "8x4")

    target = SimpleNamespace(NAME="packed", VERSION="1", FORMATS=["mxfp4"], quantize=quantize)
    found = identify_format(open_target(target), mxspec.get_block("mxfp4"))
    assert found.layouts == {"codes": "nibble-high", "scales": "8x4"}
    assert found.nearest == ""


def test_a_broken_kernel_is_described_leaf_by_leaf() -> None:
    def quantize(x: Any, fmt: str) -> Any:
        flushed = np.where(np.abs(x) < 2.0**-126, np.float32(0) * x, x)
        t = mxspec.quantize(flushed, fmt, profile="mx-rceil")
        return np.where(t.codes == 8, np.uint8(0), t.codes), t.scales

    target = SimpleNamespace(NAME="broken", VERSION="1", FORMATS=["mxfp4"], quantize=quantize)
    found = identify_format(open_target(target), mxspec.get_block("mxfp4"))
    assert found.identical == []
    assert found.traits["sign of zero"] == "lost"
    assert found.traits["subnormal inputs"] == "flushed to zero"
    assert found.traits["elements"] == "nearest, ties to even"
    assert found.traits["overflow"] in ("saturates", "not observed")
    assert "rceil" in found.nearest or "rceil" in str(found.arithmetic)


def test_a_floor_under_the_scale_is_not_called_a_flush() -> None:
    def quantize(x: Any, fmt: str) -> Any:
        own = mxspec.quantize(x, fmt, profile="mx-rceil").scales
        t = mxspec.quantize(x, fmt, profile="mx-rceil", scales=np.maximum(own, 0x69))
        return t.codes, t.scales

    target = SimpleNamespace(NAME="floor", VERSION="1", FORMATS=["mxfp4"], quantize=quantize)
    assert identify_format(open_target(target), mxspec.get_block("mxfp4")).traits["subnormal inputs"] == "not observed"


def test_command_distinguish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run = CliRunner().invoke(main, ["distinguish", "mx-floor", "mx-rceil", "--format", "mxfp4"])
    assert run.exit_code == 0
    assert "mx-rceil" in run.output
    assert max(map(len, run.output.splitlines())) <= 80
    run = CliRunner().invoke(main, ["distinguish", "mx-floor", "mx-nothing"])
    assert run.exit_code == 2
    assert "unknown profile 'mx-nothing'" in run.output
    run = CliRunner().invoke(main, ["distinguish", "mx-floor", "nvfp4-te"])
    assert run.exit_code == 2
    assert "mx-floor covers mxfp4" in run.output


def test_command_identify(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = tmp_path / "id.json"
    run = CliRunner().invoke(main, ["identify", "gguf", "--in-process", "--format", "mxfp4", "--json", str(out)])
    assert run.exit_code == 0, run.output
    assert "same bits as" in run.output
    assert json.loads(out.read_text("ascii"))[0]["identical"] == ["gguf-0.19/mxfp4"]
    run = CliRunner().invoke(main, ["identify", "ml_dtypes", "--in-process"])
    assert run.exit_code == 2
    assert "identify needs quantize" in run.output


PEERS = json.loads((Path(__file__).parents[1] / "reports" / "identify" / "peers.json").read_text("ascii"))
#: What each library that needs torch was found to be; the profile's id ends in one of these.
NAMED = {
    "gguf": ["gguf-0.19/mxfp4"],
    "gfloat": ["gfloat-0.5/mx", "gfloat-0.5/mxfp8"],
    "mlx": ["mlx-0.32/"],
    "torchao": ["torchao-0.18/mx/floor/eager", "torchao-0.18/nvfp4/eager"],
    "torchao-rceil": ["/rceil/eager"],
    "torchao-even": ["torchao-0.18/mx/even/eager"],
    "torchao-ceil": ["torchao-0.18/mx/ceil/eager"],
    "compressed-tensors": ["compressed-tensors-0.20/"],
    "modelopt": ["modelopt-0.47/"],
    "quark": ["quark-0.13/"],
}


@pytest.mark.parametrize("target", NAMED)
def test_libraries_were_named_with_the_current_vectors(target: str) -> None:
    formats = [f for f in PEERS["targets"][target]["formats"] if f["nearest"]]
    assert formats
    for identity in formats:
        assert identity["identical"], identity["format"]
        assert all(any(part in name for part in NAMED[target]) for name in identity["identical"])
