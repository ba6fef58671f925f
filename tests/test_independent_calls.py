"""The second independent set: its engines equal the model, its bugs change an answer, its right implementations none.

How the judge fares is no test of `make test`: python -m tests.independent_calls.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mxspec

from tests.independent_calls.__main__ import main
from tests.independent_calls.catalogue import Entry, observe
from tests.independent_calls.common import find_wrong
from tests.independent_calls.engine_bits import Bits
from tests.independent_calls.engine_tables import Tables
from tests.independent_calls.entries import BUGS, ENTRIES, RIGHT
from tests.independent_calls.formats import BLOCKS, ELEMENTS, Array
from tests.independent_calls.kernel import Engine

ENGINES = (Tables(), Bits())
PROFILES = [(f, p) for f in BLOCKS for p in (("nvfp4-te",) if f == "nvfp4" else ("mx-floor", "mx-rceil"))]
SPECIAL = np.array(
    [0, -0.0, 1, 1.75, 2.5, -5, 7, 6, 448, 464, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-39, 2.0**-126, 3e38], np.float32
)
MAXIMA = (None, 0.0, 3.0, 1e30, 1e-30, 1e-42, 3.4e38, np.inf, np.nan)


@pytest.fixture(autouse=True)
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


def test_keys_differ() -> None:
    assert len(ENTRIES) == len(BUGS) + len(RIGHT)


@pytest.mark.parametrize("bug", BUGS, ids=lambda e: e.key)
def test_a_bug_changes_an_answer(bug: Entry) -> None:
    assert bug.shows is not None
    right = observe(bug.reference(), bug.shows)
    assert not any(word.startswith("raised") or word == "input changed" for word in right)
    assert observe(bug.build(), bug.shows) != right


@pytest.mark.parametrize("entry", RIGHT, ids=lambda e: e.key)
def test_a_right_implementation_equals_its_profile(entry: Entry) -> None:
    wrong, answered = find_wrong(entry, seed=int(os.environ["MXSPEC_SEED"]))
    assert wrong == []
    assert answered >= 3


def test_the_command_judges_and_writes_what_it_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "out.json"
    assert main(["--only", "aliased/scratch", "--json", str(written), "-j", "1"]) == 0
    document = json.loads(written.read_text("utf-8"))
    assert document["counts"] == {"bugs": 1, "right": 0, "found": 1}
    assert {len(document[key]) for key in ("set", "judge")} == {32}
    head, row, everything = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head[:4] == ["class", "bugs", "found", "missed"]
    assert row == ["aliased", "1", "1", "0", "0", "0", "0", "0", "0"]
    assert everything[1:] == row[1:]
