"""Vendors' device functions as witnesses: regions of a source, what a record must say, and which profiles they confirm."""

from __future__ import annotations

import ctypes
import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec.formats import get_block
from mxspec.profiles.schema import Evidence, TensorScaleKind
from mxspec_lab import crosscheck
from mxspec_lab.evidence.status import REPORTS

from tests.peers.vendor import asking
from tests.peers.vendor.__main__ import main, sum_profiles
from tests.peers.vendor.asking import ask, threshold_blocks
from tests.peers.vendor.record import Function, RecordError, read_record
from tests.peers.vendor.regions import Region, RegionError, cut_region, list_definitions, verify_region

#: What no search for braces or names alone gets right.
SOURCE = r"""
#include <cuda.h>
#define BRACE {
namespace made_up { namespace inner {
// int twice(int a) { return a; }
constexpr float table[2] = {1.0f, 2.0f};
template <int N, bool = (N > 1)>
struct alignas(16) Packed { int e[N]; void set(int i) { e[i] = '}'; } };
using Pair = Packed<2>;
template <typename T> __device__ __forceinline__ std::conditional_t<sizeof(T) == 2, int, long> twice(T a) {
#if N
  asm volatile("{ add %0, %1, %1; }" : "=r"(a) : "r"(a));
#endif
  return a + a;
}
template <> __device__ int twice<float>(float a) { return 2 * a; }
template <bool FAST>
__global__ void
#ifdef BOUNDED
__launch_bounds__(128)
#endif
    kernel(const float *x, int n) { /* } */ for (int i = 0; i < n; i++) { twice(x[i]); } }
}}  // namespace
extern "C" { int last() { return 0; } }
"""


def test_definitions_are_found_by_name() -> None:
    found = list_definitions(SOURCE)
    assert [d.name for d in found] == ["table", "Packed", "Pair", "twice", "twice", "kernel", "last"]
    for number, begins, ends in ((1, "template <int N", "};"), (5, "template <bool FAST>", "} }")):
        assert found[number].text.startswith(begins)
        assert found[number].text.endswith(ends)
    assert found[6].text == "int last() { return 0; }"
    lines = SOURCE.splitlines()
    assert all(d.text.splitlines()[0].strip() in lines[d.first - 1] and d.text.splitlines()[-1] in lines[d.last - 1] for d in found)


def test_a_region_is_known_by_its_text_wherever_it_lies() -> None:
    (first, text), (second, _) = cut_region(SOURCE, "made_up.cuh", "twice")
    assert first.digest == hashlib.sha256(text.encode()).hexdigest() != second.digest
    for region in (first, second):
        verify_region(SOURCE, region)
        verify_region("\n// moved\n" + SOURCE, region)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("return a + a", "return a * 2", "line 10: twice is another than was recorded"),
        ("twice", "double_", "defines no twice; is it another version"),
        ("template <> __device__ int twice<float>(float a) { return 2 * a; }", "", "defines twice 1 times"),
        ("return 0; } }", "return 0;", "still open"),
    ],
)  # fmt: skip
def test_another_source_is_refused(old: str, new: str, words: str) -> None:
    regions = [region for region, _ in cut_region(SOURCE, "made_up.cuh", "twice")]
    source = SOURCE.replace(old, new)
    with pytest.raises(RegionError, match=words):
        tuple(map(verify_region, [source, source], regions))


def _record(folder: Path, **changes: Any) -> Path:
    (folder / "made_up.so").write_bytes(b"")
    (folder / "src").mkdir(exist_ok=True)
    (folder / "src" / "made_up.cuh").write_text(SOURCE)
    region = {"source": "made/up", **asdict(cut_region(SOURCE, "made_up.cuh", "kernel")[0][0])}
    function = {"symbol": "f", "runs": "kernel", "format": "mxfp4", "profile": "mx-floor", "dtype": "float32", "tensor": None}
    document = {
        "library": "made_up.so", "compiler": "", "headers": "", "sources": [{"name": "made/up", "commit": "0"}], "regions": [region],
        "instructions": [], "replaced": [], "functions": [function],
    } | changes  # fmt: skip
    path = folder / "record.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"library": "other.so"}, "other.so is not there"),
        ({"sources": []}, "regions are of made/up"),
        ({"functions": [{"symbol": "f"}]}, "is no record"),
        ({"functions": [{"symbol": "f", "runs": "", "format": "", "profile": "", "dtype": "int8", "tensor": None}]}, "dtype 'int8'; allowed"),
        ({"functions": [{"symbol": "f", "runs": "", "format": "", "profile": "", "dtype": "float32", "tensor": "g"}]}, "tensor 'g'; allowed"),
    ],
)  # fmt: skip
def test_a_record_that_says_too_little_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RecordError, match=words):
        read_record(_record(tmp_path, **changes))


def test_the_command_calls_no_library_whose_source_is_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _record(tmp_path)
    assert main([str(path)]) == 2
    assert "add --source NAME=FOLDER" in capsys.readouterr().err
    source = tmp_path / "src" / "made_up.cuh"
    source.write_text(SOURCE.replace("i < n", "i <= n"))
    assert main([str(path), "--source", f"made/up={source.parent}"]) == 2
    assert "made/up: made_up.cuh, line 17: kernel is another" in capsys.readouterr().err
    source.unlink()
    assert main([str(path), "--source", f"made/up={source.parent}"]) == 2
    assert "take the commit that the record names" in capsys.readouterr().err


def _library(function: Function, follows: str) -> Any:
    """A library whose one function follows a profile."""
    k, dtype = get_block(function.format).k, np.dtype(np.float32)

    def run(x: Any, blocks: Any, tensor: Any, codes: Any, scales: Any) -> None:
        n = blocks.value
        given = np.frombuffer(ctypes.string_at(x.value, n * k * dtype.itemsize), dtype).reshape(n, k)
        scale = None if function.tensor is None else mxspec.TensorScale(function.tensor, int(np.float32(tensor.value).view(np.uint32)))
        with np.errstate(all="ignore"):
            done = mxspec.quantize(given, function.format, profile=follows, tensor_scale=scale)
        ctypes.memmove(codes.value, np.ascontiguousarray(done.codes).tobytes(), n * k)
        ctypes.memmove(scales.value, np.ascontiguousarray(done.scales).tobytes(), n)

    return SimpleNamespace(**{function.symbol: run})


FUNCTIONS = (
    (Function("f", "", "mxfp4", "mx-rceil", "float32", None), "mx-ceil"),
    (Function("f", "", "nvfp4", "te-2.14/nvfp4/kernel", "float32", TensorScaleKind.AMAX), "te-2.8/nvfp4/kernel"),
)


@pytest.mark.parametrize(("function", "other"), FUNCTIONS, ids=["one-level", "two-level"])
def test_what_follows_its_profile_agrees_and_what_follows_another_does_not(
    function: Function, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The vectors' blocks take seconds to list, and any blocks do here.
    amaxes = asking.THRESHOLD_AMAXES[:1]
    tensor = None if function.tensor is None else amaxes[0]
    monkeypatch.setattr(crosscheck, "batches", lambda fmt, *_, **__: [(crosscheck.random_blocks(get_block(fmt).k, 900, 1), tensor)])
    monkeypatch.setattr(asking, "THRESHOLD_AMAXES", amaxes)
    monkeypatch.setattr(asking, "DRAWS", 1)
    for row in ask(function, _library(function, function.profile)):
        assert row.blocks
        assert (row.different, row.refused, row.first) == (0, 0, "")
    _, chosen = ask(function, _library(function, other))
    assert chosen.different  # random blocks show the second pair's difference in none of 900
    assert "profile" in chosen.first


def test_a_dtype_that_the_profile_does_not_take_is_refused() -> None:
    function = Function("f", "", "nvfp4", "te-2.14/nvfp4/kernel-fastmath", "float32", TensorScaleKind.AMAX)
    with pytest.raises(ValueError, match="takes bfloat16, not float32"):
        ask(function, _library(function, function.profile))


def test_threshold_blocks_lie_on_both_sides_of_changes() -> None:
    fmt, profile = get_block("mxfp4"), mxspec.get_profile("mx-floor", "mxfp4")
    blocks = threshold_blocks(fmt, profile, None, "float32", 0)
    maxima, lanes = np.split(blocks, 2)
    tops = np.unique(np.abs(maxima).max(axis=1).view(np.uint32))
    powers = np.arange(4, 254, dtype=np.uint32) << 23  # a power of two, where mx-floor steps, and the float below it
    assert np.isin(np.concatenate([powers, powers - 1]), tops).all()
    done = mxspec.quantize(lanes, "mxfp4", profile=profile)
    assert len(np.unique(done.codes)) == 16


RESULT = json.loads((REPORTS / "vendor" / "device.json").read_text("ascii"))


def test_profiles_are_compiled_where_the_committed_result_agrees_and_nowhere_else() -> None:
    agreed = {row["profile"]: row["blocks"] for row in RESULT["profiles"] if not row["different"] and not row["refused"]}
    compiled = {p.id: p for p in mxspec.list_profiles() if p.evidence is Evidence.COMPILED}
    assert agreed.keys() == compiled.keys()
    assert RESULT["profiles"] == sum_profiles(RESULT["functions"])
    for name, profile in compiled.items():
        rows = [row for row in RESULT["functions"] if row["profile"] == name]
        assert {(r["format"], r["dtype"]) for r in rows} == {(f, d) for f in profile.formats for d in profile.dtypes}, name
        assert {r["tensor"] is not None for r in rows} == {
            two for two, s in ((False, profile.one_level), (True, profile.two_level)) if s
        }, name
        assert f"{agreed[name]:,} blocks" in profile.witness, name
        assert not profile.provisional


def test_the_committed_result_names_what_was_built() -> None:
    sources = {source["name"] for source in RESULT["sources"]}
    regions = [Region(**{k: v for k, v in row.items() if k != "source"}) for row in RESULT["regions"]]
    assert {row["source"] for row in RESULT["regions"]} == sources
    names = {region.name for region in regions}
    for row in RESULT["functions"]:
        kernel = row["runs"].split(" ")[0].split("::")[-1]
        assert kernel in names, kernel
    assert all(len(region.digest) == 64 and 0 < region.first <= region.last for region in regions)
    assert any(word.startswith("rcp.approx") for word in RESULT["replaced"])


PAGE = (REPORTS.parent / "docs" / "evidence.md").read_text("utf-8")


def test_the_page_says_why_each_other_profile_is_provisional() -> None:
    table = PAGE.partition("The other provisional profiles")[2].partition("\n\n")[2].partition("\n\n")[0]
    named = set()
    for row in table.splitlines()[2:]:
        first, *others = row.split("|")[1].strip().split(", ")
        library = first.partition("/")[0]
        named |= {first} | {name if name.startswith(library) else _beside(first, name) for name in others}
    assert named == {p.id for p in mxspec.list_profiles() if p.provisional}


def _beside(first: str, name: str) -> str:
    """A name that leaves out what it shares with the first of its row."""
    return "/".join([*first.split("/")[: first.count("/") - name.count("/")], name])


def test_the_page_has_the_counts_of_the_committed_result() -> None:
    total = sum(row["blocks"] for row in RESULT["profiles"])
    assert f"{len(RESULT['profiles'])} profiles, {total:,} blocks" in PAGE
