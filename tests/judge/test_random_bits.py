"""`quantize` with `random_bits`: every convention passes, every misuse of the words fails, on every transport alike."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec.elements import decode_table
from mxspec.elements_given_scale import find_neighbours
from mxspec.formats import BLOCKS, get_scalar
from mxspec_conformance import diff, fuzz, identify
from mxspec_conformance.fuzzing.subject import Settings
from mxspec_conformance.judge.check import check
from mxspec_conformance.judge.listing import list_requirements
from mxspec_conformance.judge.planning import plan_requests
from mxspec_conformance.proving.run import Plan, prove
from mxspec_conformance.results.report import Report
from mxspec_conformance.targets.declared import describe_target
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.transports.opening import open_target
from mxspec_conformance.transports.recorded import write_bundle
from mxspec_conformance.transports.smoke import try_target

from tests.bugs.building import Answer, Array, right
from tests.few_calls import ask_few_calls
from tests.judge.reading import failing, passed, requirement
from tests.transports import EXAMPLES, build_library, python_command

#: (scaled elements, words, random bits) -> whether each number goes up; of fractions.
Goes = Callable[[Array, Array, int], Array]


def carry(fraction: Array, word: Array, bits: int) -> Array:
    return np.floor(fraction * 2.0**bits) + word >= 2.0**bits


def below(fraction: Array, word: Array, bits: int) -> Array:
    return word < fraction * 2.0**bits


def below_cut(fraction: Array, word: Array, bits: int) -> Array:
    return word < np.floor(fraction * 2.0**bits)


def rounded(x: Array, fmt: str, words: Array, goes: Goes, bits: int, scales: Array | None = None) -> Answer:
    """Blocks of rows, rounded by words under the format's own scales."""
    block = BLOCKS[fmt]
    given = right(x, fmt)[1] if scales is None else scales
    exact = decode_table(block.scale).astype(np.float64)
    with np.errstate(all="ignore"):
        sf = np.repeat(exact[given], block.k, axis=1)
        scaled = x.astype(np.float64) / sf
        if fmt == "nvfp4":  # in the order of nvfp4-te
            scaled = x * np.minimum(np.float32(1) / sf.astype(np.float32), np.finfo(np.float32).max)
        low, high, fraction = find_neighbours(scaled, block.element)
        return np.where(goes(fraction, words.astype(np.float64), bits), high, low), given


def target(formats: list[str], quantize: Callable[..., Answer], **members: Any) -> SimpleNamespace:
    return SimpleNamespace(NAME="random", VERSION="1", FORMATS=formats, quantize=quantize, **members)


def by_words(goes: Goes = carry, bits: int = 32) -> Callable[..., Answer]:
    """A quantizer that needs words."""

    def quantize(x: Array, fmt: str, random_bits: Array) -> Answer:
        return rounded(x, fmt, random_bits, goes, bits)

    return quantize


def judge(one: SimpleNamespace, **options: Any) -> Report:
    return check(one, in_process=True, only="stochastic/*", **options)


@pytest.fixture(autouse=True)
def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    ask_few_calls(monkeypatch.setattr)


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize(("rule", "goes"), [("carry", carry), ("below", below), ("below", below_cut)])
def test_every_convention_passes(rule: str, goes: Goes, bits: int) -> None:
    formats = ["mxfp4", "mxint8", "nvfp4"]
    report = judge(target(formats, by_words(goes, bits), SR_BITS=bits, SR_RULE=rule))
    assert passed(report) == {f"stochastic/{f}/random-bits" for f in formats}
    assert report.exit_code == 0


MISREAD = {
    "upper": (lambda f, w, _: carry(f, np.floor(w / 1024), 22), "as if only the upper 22 bits of a random word were used"),
    "lower": (lambda f, w, _: carry(f, w % 2**24, 24), "as if only the lower 24 bits of a random word were used"),
    "one place too low": (lambda f, w, bits: carry(f, np.floor(w / 2), bits), "as if the random bits were added too low, by 1 or more places"),
    "from the middle": (lambda f, w, _: carry(f, np.floor(w / 16) % 2**24, 24), ""),
}  # fmt: skip


@pytest.mark.parametrize("name", MISREAD)
def test_a_misuse_of_words_is_named(name: str) -> None:
    goes, note = MISREAD[name]

    def encode_stochastic(x: Array, element: str, random_bits: Array) -> Array:
        low, high, fraction = find_neighbours(x.astype(np.float32), get_scalar(element))
        return np.where(goes(fraction, random_bits.astype(np.float64), 32), high, low)

    blocks = judge(target(["mxfp4", "nvfp4"], by_words(goes)), quick=True)
    numbers = check(SimpleNamespace(NAME="random", VERSION="1", ELEMENTS=["e2m1"], encode_stochastic=encode_stochastic))
    for report in (blocks, numbers):
        assert [r.note for r in report.requirements if r.id in failing(report)] == [note] * len(failing(report))
        assert failing(report)


def test_the_model_passes_in_every_shape_of_call() -> None:
    report = check("mxspec", in_process=True, formats=["nvfp4"], only="stochastic/nvfp4/*")
    assert passed(report) == {"stochastic/nvfp4/random-bits"}
    (found,) = report.requirements
    assert (found.level, found.cases > 10_000) == ("contract", True)


@pytest.mark.parametrize("profile", ["nvfp4-te", "nvfp4-exact", "nvfp4-paper"])
def test_where_scales_do_not_tell_profiles_apart_the_quotients_do(profile: str) -> None:
    def quantize(x: Array, fmt: str, random_bits: Array) -> Answer:
        t = mxspec.quantize(x, fmt, profile=profile, random_bits=random_bits)
        return t.codes, t.scales

    assert failing(judge(target(["nvfp4"], quantize))) == {}
    assert failing(judge(target(["nvfp4"], quantize, PROFILE=profile))) == {}


def test_one_that_needs_words_is_judged_by_its_scales_and_its_words_alone() -> None:
    one = target(["mxfp4"], by_words())
    report = check(one, in_process=True)
    assert passed(report) == {"scale/mxfp4/scale-boundary", "stochastic/mxfp4/random-bits"}
    assert failing(report) == {}
    assert report.formats[0].identical_to == []
    assert report.target["capabilities"]["stochastic"] is True
    assert {r.id for r in report.requirements} == set(list_requirements(open_target(one)))


#: (numbers, words) -> what is used in place of the words themselves, of their rule and of the right scales; nothing: no words.
MISUSES: dict[str, Callable[[Array, Array], dict[str, Any]]] = {
    "inverted": lambda x, words: {"words": ~words},
    "of the lane before": lambda x, words: {"words": np.roll(words, 1, axis=1)},
    "of the block's first lane": lambda x, words: {"words": np.repeat(words[:, ::32], 32, axis=1)},
    "eight bits of them": lambda x, words: {"words": words & np.uint32(0xFF000000)},
    "not looked at": lambda x, words: {},
    "as signed numbers": lambda x, words: {"words": words.astype(np.int32)},
    "half a step off": lambda x, words: {"goes": lambda f, w, n: carry(f, np.minimum(w + 2**31, 2**32 - 1), n)},
    "where exact": lambda x, words: {"goes": lambda f, w, n: (w >= 2.0**n - 1) | carry(f, w, n)},
    "of negative numbers inverted": lambda x, words: {"words": np.where(np.signbit(x), ~words, words)},
    "a fraction of eight bits": lambda x, words: {"goes": lambda f, w, n: carry(np.floor(f * 256) / 256, w, n)},
    "of pairs in wide rows": lambda x, words: {"words": words[:, np.arange(words.shape[1]) & ~1] if words.shape[1] > 4096 else words},
    "the scale too": lambda x, words: {"scales": (right(x, "mxfp4")[1] + (words[:, ::32] & 1)).astype(np.uint8)},
}


def spoiled(name: str) -> Callable[..., Answer]:
    def quantize(x: Array, fmt: str, random_bits: Array | None = None) -> Answer:
        used = {} if random_bits is None else MISUSES[name](x, random_bits)
        return rounded(x, fmt, **{"words": random_bits, "goes": carry, "bits": 32, **used}) if used else right(x, fmt)

    return quantize


@pytest.mark.parametrize("name", MISUSES)
def test_every_misuse_of_the_words_fails(name: str) -> None:
    report = judge(target(["mxfp4"], spoiled(name)))
    assert failing(report) == {"stochastic/mxfp4/random-bits": "fail"}, name
    first = requirement(report, "stochastic/mxfp4/random-bits").first
    assert first is not None
    assert first.expected != first.returned


def test_words_of_another_axis_fail() -> None:
    def quantize(x: Array, fmt: str, axis: int = -1, random_bits: Array | None = None) -> Answer:
        if random_bits is None:
            return right(x, fmt, axis=axis)
        if axis == -1:
            return rounded(x, fmt, random_bits, carry, 32)
        codes, scales = rounded(np.ascontiguousarray(x.T), fmt, random_bits.reshape(x.T.shape), carry, 32)
        return codes.T, scales.T

    found = requirement(judge(target(["mxfp4"], quantize)), "stochastic/mxfp4/random-bits")
    assert found.verdict == "fail"
    assert all("blocks along the first axis" in case for case in found.failing_cases)


@pytest.mark.parametrize("bits", [8, 32])
def test_the_lowest_code_of_int8_may_be_used(bits: int) -> None:
    used = []

    def quantize(x: Array, fmt: str, random_bits: Array) -> Answer:
        codes, scales = rounded(x, fmt, random_bits, carry, bits)
        scaled = x.astype(np.float64) / np.repeat(2.0 ** (scales.astype(float) - 127), 32, axis=1)
        beyond = -scaled * 64 - 127
        lowest = (beyond >= 1) | ((beyond > 0) & carry(beyond, random_bits, bits))
        used.append(lowest.any())
        return np.where(lowest, np.uint8(0x80), codes), scales

    assert failing(judge(target(["mxint8"], quantize, SR_BITS=bits))) == {}
    assert any(used)


def test_in_matrices_of_its_own_shapes_the_words_stay_with_their_numbers() -> None:
    def quantize(x: Array, fmt: str, random_bits: Array | None = None) -> Answer:
        if x.shape[1] % 128 or len(x) % 16:
            raise ValueError(f"{x.shape}")
        return right(x, fmt) if random_bits is None else rounded(x, fmt, random_bits, carry, 32)

    report = judge(target(["mxfp4"], quantize, SHAPES={"k": 128, "rows": 16}))
    assert passed(report) == {"stochastic/mxfp4/random-bits"}


def test_no_other_command_takes_its_answers_for_ones_that_repeat() -> None:
    one = target(["mxfp4"], by_words())
    with pytest.raises(ValueError, match="quantizes stochastically, and identify needs answers that repeat"):
        identify(one)
    with pytest.raises(ValueError, match="nothing that can be fuzzed: its quantize rounds stochastically"):
        fuzz(one, Settings(batches=1))
    with pytest.raises(ValueError, match="quantizes stochastically, so that no answer has to come"):
        prove(one, Plan(fmt="mxfp4"))
    assert diff(one, "mxspec").compared == 0


@pytest.mark.parametrize("given", ["yes", 1, None])
def test_stochastic_is_true_or_false(given: Any) -> None:
    with pytest.raises(TargetError, match=r"STOCHASTIC is an? .*; write True or False"):
        describe_target(target(["mxfp4"], lambda x, fmt: right(x, fmt), STOCHASTIC=given), "here")


def test_a_word_is_needed_where_it_has_no_default() -> None:
    def needs(x: Array, fmt: str, random_bits: Array) -> Answer:
        return right(x, fmt)

    def may(x: Array, fmt: str, random_bits: Array | None = None) -> Answer:
        return right(x, fmt)

    assert describe_target(target(["mxfp4"], needs), "here").stochastic
    assert not describe_target(target(["mxfp4"], may), "here").stochastic


NEEDS_WORDS = """
import mxspec
FORMATS, SR_BITS = ["mxfp4"], 8

def quantize(x, fmt, random_bits):
    t = mxspec.quantize(x, fmt, random_bits=random_bits{inverted}, sr_bits=8)
    return t.codes, t.scales
"""


@pytest.mark.parametrize("inverted", ["", " ^ 255"])
def test_the_same_verdicts_in_a_child_and_a_program(tmp_path: Path, inverted: str) -> None:
    file = tmp_path / "needs_words.py"
    file.write_text(NEEDS_WORDS.format(inverted=inverted), "utf-8")
    roads = [str(file), f"{python_command(EXAMPLES / 'python' / 'harness.py')} {file}"]
    reports = [check(road) for road in roads]
    wanted = "fail" if inverted else "pass"
    for report in reports:
        found = {r.id: r.verdict.value for r in report.requirements}
        assert found == {"scale/mxfp4/scale-boundary": "pass", "stochastic/mxfp4/random-bits": wanted}
    # Memory and threads are within reach of the child alone.
    cases = [{c for r in report.requirements for c in r.failing_cases if ": memory" not in c and "threads" not in c} for report in reports]
    assert cases[0] == cases[1]
    assert all(step.ok for road in roads for step in try_target(road))


def test_a_results_file_needs_no_further_calls(tmp_path: Path) -> None:
    """The bundle holds every call that a right target needs; the harness answers it without the judge."""
    file, bundle, results = (tmp_path / n for n in ("words.py", "bundle.jsonl", "results.jsonl"))
    file.write_text(NEEDS_WORDS.format(inverted=""), "utf-8")
    session = open_target(str(file), in_process=True)
    write_bundle(bundle, plan_requests(session.capabilities))
    with bundle.open("rb") as asked, results.open("wb") as told:
        subprocess.run([sys.executable, str(EXAMPLES / "python" / "harness.py"), str(file)], stdin=asked, stdout=told, check=True)
    recorded = open_target(str(results))
    report = check(recorded)
    assert failing(report) == {}
    assert passed(report) == {"scale/mxfp4/scale-boundary", "stochastic/mxfp4/random-bits"}


LIBRARY = r"""
#include "mxspec_target.h"
int32_t mxspec_abi(void) { return MXSPEC_ABI; }
const char *mxspec_describe(void) {
    return "{\"mxspec\": 1, \"name\": \"words\", \"version\": \"1\", \"capabilities\": {\"formats\": [\"mxfp4\"],"
           " \"stochastic\": true, \"functions\": {\"quantize\": [\"random_bits\", \"seed\"]}}}";
}
int32_t mxspec_quantize(const mxspec_quantize_call *call) {
    for (int64_t i = 0; i < call->rows * call->columns; i++)
        call->codes[i] = call->random_bits ? call->random_bits[i] & 15 : 0;
    for (int64_t i = 0; i < call->scales_size; i++) call->scales[i] = call->seed ? (uint8_t)(*call->seed >> 32) : 1;
    return MXSPEC_OK;
}
"""


def test_a_library_is_given_words_and_seeds(tmp_path: Path) -> None:
    source = tmp_path / "words.c"
    source.write_text(LIBRARY, "utf-8")
    session = open_target(build_library(source, tmp_path / "libwords.so"), in_process=True)
    assert session.capabilities.stochastic
    x, words = np.ones((2, 32), np.float32), np.arange(64, dtype=np.uint32).reshape(2, 32)
    codes, scales = session.call("quantize", x, "mxfp4", random_bits=words)
    assert (codes.tolist(), scales.tolist()) == ((words & 15).tolist(), [[1], [1]])
    codes, scales = session.call("quantize", x, "mxfp4", seed=(7 << 32) + 1)
    assert (int(codes.max()), scales.tolist()) == (0, [[7], [7]])
