"""The sets of wrong and right kernels: each kernel is what it says, and the judge says of it what was published or expected.

How the judge fares on all of them is no test of `make test`: python -m tests.corpora.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec_conformance import check
from mxspec_conformance.results.report import GOOD, Report, Verdict

from tests.corpora.__main__ import GOOD_FATES, describe, main
from tests.corpora.blind.entries import KERNELS as BLIND, prove
from tests.corpora.calls.catalogue import Entry, observe
from tests.corpora.calls.common import find_wrong
from tests.corpora.calls.engine_bits import Bits
from tests.corpora.calls.engine_tables import Tables
from tests.corpora.calls.entries import BUGS, RIGHT
from tests.corpora.calls.formats import BLOCKS, ELEMENTS, Array
from tests.corpora.calls.kernel import Engine
from tests.corpora.judging import Fate, Outcome, name_fate
from tests.corpora.sets import SETS, read_set
from tests.judge.shown import assert_shown
from tests.support import seed

REPORTS = Path(__file__).resolve().parents[1] / "reports" / "mutants"
BUGS_TABLE, CALLS_TABLE = (json.loads((REPORTS / f"{name}.json").read_text("utf-8")) for name in ("independent", "independent-calls"))
#: Key -> row of the published table.
PUBLISHED: dict[str, dict[str, Any]] = {f"{e['operation']}/{e['format']}/{e['profile']}/{e['id']}": e for e in BUGS_TABLE["bugs"]}
#: The seed chooses which third of the independent bugs is judged again; the command that makes the table judges all.
THIRD = 3

#: Right kernels of the set of outsiders -> what is asked.
OUTSIDE_RIGHT = {
    **dict.fromkeys(("work-packing-refuses", "form-tiles-dirty", "right-product-prepared", "right-product-nvfp4"), "*"),
    **dict.fromkeys(("work-memo-all", "work-affine-memo", "work-packing"), "*/state"),
}
#: Wrong kernels of outsiders -> what fails, in the whole matrix of calls: those that once passed.
ESCAPED = {
    "memory-arena": "quantize/mxfp4/memory",
    "memory-input-cleared-later": "quantize/mxfp4/memory",
    "size-blocks-1-mod-256-bfloat16": "quantize/mxfp4/call-size",
    "size-k-18944": "quantize/mxfp4/call-size",
    "size-k-above-a-power-first": "quantize/nvfp4/call-size",
    "encode-threads-to-nearest": "encode/e4m3/state",
    "encode-large-saturates": "encode/e5m2/call-size",
    "words-fortran": "stochastic/mxfp4/random-bits",
    "words-bfloat16": "stochastic/mxfp4/random-bits",
    "words-large": "stochastic/mxfp4/random-bits",
    "amax-one-column": "tensor_scale/nvfp4/call-size",
    "pack-two-experts": "pack/nibble-low/call-size",
    "pack-gptq-rows-24": "pack/gptq/call-size",
    "seed-period-of-rows": "stochastic/mxfp4/independence",
    "seed-large-to-nearest": "stochastic/mxfp4/probability",
}
#: What is kept of a call by less than all of it.
KEPT = {
    "kept-without-axis": "quantize/mxfp4/state",
    "kept-without-block": "quantize/nvfp4/state",
    "kept-without-dtype": "quantize/mxfp4/state",
    "kept-float16": "quantize/mxfp4/state",
    "kept-tensor-scale-three-digits": "quantize/nvfp4/state",
    "values-kept-without-scales": "dequantize/mxfp4/state",
    "values-kept-scales-first": "dequantize/mxfp4/state",
    "words-kept-by-numbers-and-sum": "stochastic/e2m1/state",
    "affine-kept-without-offsets": "dequantize_affine/int4-g64-bias-float16/state",
    "affine-kept-by-sum": "quantize_affine/int4-g64-bias-float16/state",
    "affine-kept-magnitudes": "quantize_affine/int4-g64-bias-float16/state",
    "sparse-kept-sum": "prune/e2m1-2to4/state",
    "unpack-kept-without-layout": "unpack/nibble-high/state",
    "unswizzle-kept-without-shape": "unswizzle/128x4/state",
    "swizzle-kept-without-shape": "swizzle/128x4/state",
    "records-kept-by-codes": "pack_blocks/ggml-mxfp4/state",
}
#: Products -> what fails.
PRODUCTS = {
    "product-symmetric-by-codes": "*/block-scale", "product-zeros-skipped": "*/nan", "product-beta-falsy": "*/epilogue",
    "product-negative-alpha": "*/epilogue", "product-one-row-bias": "*/epilogue", "product-long-in-half": "*/sum",
    "product-out-dtype-kept": "*/state", "product-after-half": "*/state", "product-weights-by-scales": "*/state",
}  # fmt: skip

ENGINES = (Tables(), Bits())
PROFILES = [(f, p) for f in BLOCKS for p in (("nvfp4-te",) if f == "nvfp4" else ("mx-floor", "mx-rceil"))]
SPECIAL = np.array(
    [0, -0.0, 1, 1.75, 2.5, -5, 7, 6, 448, 464, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-39, 2.0**-126, 3e38], np.float32
)
MAXIMA = (None, 0.0, 3.0, 1e30, 1e-30, 1e-42, 3.4e38, np.inf, np.nan)


@pytest.fixture
def quiet() -> Iterator[None]:
    """Overflow and NaN are what is tested."""
    with np.errstate(all="ignore"):
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def draw(rng: np.random.Generator, rows: int, k: int) -> Array:
    """Any bits, all exponents, special numbers, ties."""
    return np.concatenate(
        [
            rng.integers(0, 1 << 32, (rows, k), dtype=np.uint32).view(np.float32),
            np.ldexp(rng.standard_normal((rows, k), np.float32), rng.integers(-150, 128, (rows, 1))),
            rng.choice(SPECIAL, (rows, k)),
            rng.integers(-64, 65, (rows, k)).astype(np.float32) / 4,
        ]
    )


def same_floats(a: Array, b: Array) -> bool:
    """Equal bits; any NaN is one NaN."""
    lost = np.isnan(a)
    return bool((lost == np.isnan(b)).all() and (a.view(np.uint32) == b.view(np.uint32))[~lost].all())


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: e.name)
@pytest.mark.parametrize(("fmt", "profile"), PROFILES)
def test_engine_is_the_model(engine: Engine, fmt: str, profile: str, rng: np.random.Generator) -> None:
    k, bits = BLOCKS[fmt].k, ELEMENTS[BLOCKS[fmt].element].bits
    codes = rng.integers(0, 1 << bits, (2048, k)).astype(np.uint8)
    scales = rng.integers(0, 128 if fmt == "nvfp4" else 256, (2048, 1)).astype(np.uint8)
    for tmax in MAXIMA if fmt == "nvfp4" else (None,):
        scale = None if tmax is None else mxspec.TensorScale("amax", int(np.float32(tmax).view(np.uint32)))
        x = draw(rng, 300, k)
        right = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale)
        found = engine.quantize(x, engine.amax(x), fmt, profile, tmax)
        values = engine.dequantize(codes, scales[:, 0], fmt, tmax)
        assert np.array_equal(found[0], right.codes)
        assert np.array_equal(found[1], right.scales[:, 0])
        assert same_floats(values, mxspec.dequantize(codes, scales, fmt, profile=profile, tensor_scale=scale))


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: e.name)
@pytest.mark.parametrize("element", ELEMENTS)
def test_engine_is_the_model_on_numbers(engine: Engine, element: str, rng: np.random.Generator) -> None:
    x, codes = draw(rng, 300, 16).reshape(-1), np.arange(1 << ELEMENTS[element].bits, dtype=np.uint8)
    words = rng.integers(0, 1 << 32, x.size, dtype=np.uint32)
    words[::5], words[1::5] = 0, 0xFFFFFFFF
    for rounding in ("rne", "rtz"):
        assert np.array_equal(engine.encode(x, element, rounding), mxspec.encode(x, element, rounding=rounding))
    stochastic = mxspec.encode(x, element, rounding="sr", random_bits=words)
    assert np.array_equal(engine.encode_stochastic(x, element, words), stochastic)
    assert same_floats(engine.decode(codes, element), np.asarray(mxspec.decode(codes, element)))


def ask(name: str, key: str, only: str | None = None) -> Report:
    """The judge's report, of this process."""
    candidate = read_set(name)[key]
    return check(candidate.build(), in_process=True, profile=candidate.profile, only=only)


def list_failing(report: Report) -> list[str]:
    return [r.id for r in report.requirements if r.verdict is not Verdict.PASS]


def find_outside(name: str) -> str:
    """The key of a kernel of outsiders: its group and name."""
    return next(key for key in read_set("outside") if key.endswith(f"/{name}"))


@pytest.mark.parametrize("name", SETS)
def test_keys_differ(name: str) -> None:
    assert len(read_set(name)) == len(list(SETS[name]())) > 0


def test_the_command_writes_what_is_published() -> None:
    """Of each row what the set says, and the fate in the table's words."""
    bugs = {key: c for key, c in read_set("independent").items() if c.wrong}
    assert list(bugs) == list(PUBLISHED)
    for key, published in PUBLISHED.items():
        fate = Fate.FOUND if published["verdict"] == "killed" else Fate.MISSED
        assert bugs[key].reason or fate is Fate.FOUND
        row = describe(("independent", bugs[key], Outcome(fate, 0, (published.get("by", ""),), 0.0)))
        assert published.items() <= row.items()
    sets = {key: (name, c) for name in ("calls-held-out", "calls-looked-at") for key, c in read_set(name).items()}
    assert sorted(sets) == sorted(e["key"] for e in CALLS_TABLE["entries"])
    for e in CALLS_TABLE["entries"]:
        row = describe((*sets[e["key"]], Outcome(Fate(e["fate"]), e["exit_code"], e["failing"], e["seconds"])))
        assert json.loads(json.dumps(row)) == e | {"set": sets[e["key"]][0]}


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("bug", BUGS, ids=lambda e: e.key)
def test_a_bug_changes_an_answer(bug: Entry) -> None:
    assert bug.shows is not None
    right = observe(bug.reference(), bug.shows)
    assert not any(word.startswith("raised") or word == "input changed" for word in right)
    assert observe(bug.build(), bug.shows) != right


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("entry", RIGHT, ids=lambda e: e.key)
def test_a_right_implementation_equals_its_profile(entry: Entry) -> None:
    wrong, answered = find_wrong(entry, seed=int(os.environ["MXSPEC_SEED"]))
    assert wrong == []
    assert answered >= 3


@pytest.mark.parametrize("name", BLIND)
def test_a_kernel_is_what_it_says(name: str) -> None:
    assert prove(BLIND[name]) is None


# Before the judge.


@pytest.mark.parametrize("key", [key for key, c in read_set("independent").items() if not c.wrong])
def test_right_implementation_passes(key: str) -> None:
    report = ask("independent", key)
    assert report.requirements
    assert list_failing(report) == []


def _needs_all_calls(published: dict[str, Any]) -> bool:
    """Whether the first requirement that a bug fails is about calls, of which tests ask few."""
    return published.get("by", "").partition(":")[0].rpartition("/")[2] in ("call-size", "memory", "state")


@pytest.mark.share(30)
@pytest.mark.parametrize(
    "key",
    [
        pytest.param(key, marks=[pytest.mark.all_calls] if _needs_all_calls(published) else [])
        for number, (key, published) in enumerate(PUBLISHED.items())
        if number % THIRD == seed() % THIRD or _needs_all_calls(published)
    ],
)
def test_table_says_what_the_judge_says(key: str) -> None:
    """What is killed fails the requirement that the table names, asked alone, or the whole; all others survive everything."""
    if PUBLISHED[key]["verdict"] != "killed":
        assert list_failing(ask("independent", key)) == []
    elif not list_failing(ask("independent", key, PUBLISHED[key]["by"].partition(":")[0])):
        # What shows by the order of calls, or by numbers that are drawn for them, shows elsewhere where these are fewer.
        assert list_failing(ask("independent", key)), "python -m tests.corpora --set independent judges all again"


@pytest.mark.share(40)
@pytest.mark.all_calls
@pytest.mark.parametrize("name", BLIND)
def test_a_kernel_is_judged_rightly(name: str) -> None:
    report = ask("blind", name)
    assert name_fate(read_set("blind")[name], report.exit_code) in GOOD_FATES, list_failing(report)


@pytest.mark.share(2)
@pytest.mark.parametrize("name", OUTSIDE_RIGHT)
def test_a_right_one_is_not_accused(name: str) -> None:
    report = ask("outside", find_outside(name), OUTSIDE_RIGHT[name])
    assert report.exit_code == 0
    assert sum(r.cases for r in report.requirements) > 0


@pytest.mark.share(10)
@pytest.mark.parametrize(
    ("name", "requirement"),
    [pytest.param(*item, marks=pytest.mark.all_calls) for item in ESCAPED.items()] + [*KEPT.items(), *PRODUCTS.items()],
)
def test_a_wrong_one_is_found(name: str, requirement: str) -> None:
    report = ask("outside", find_outside(name), requirement.rpartition("/")[0] + "/*")
    assert any(fnmatchcase(r.id, requirement) for r in report.requirements if r.verdict not in GOOD)
    assert_shown(report.requirements)


@pytest.mark.parametrize(("name", "key"), [("calls-*", "aliased/scratch"), ("outside", "layouts/records-kept-by-codes")])
def test_the_command_judges_and_writes_what_it_used(name: str, key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "out.json"
    assert main(["--set", name, "--only", key, "--json", str(written), "--jobs", "1"]) == 0
    document = json.loads(written.read_text("utf-8"))
    assert document["counts"] == {"bugs": 1, "right": 0, "found": 1}
    assert [e["key"] for e in document["entries"]] == [key]
    head, row = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head[:4] == ["set", "wrong", "kernels", "found"]
    assert row[1:] == ["1", "1", "100.0", "%", "0", "0", "0"]
