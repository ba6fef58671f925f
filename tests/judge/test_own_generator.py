"""Quantizers that round by a generator of their own: what is right is never accused, the bugs of public threads are caught.

Threads: TransformerEngine#3281 (zeros), Primus-Turbo#365 and #430 (a seed of zero; a seed one bit lower), oneDNN#2903 (random
bits aligned wrongly), torchao#3384 and triton#9693 (which generator, whose seed, which counter).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from math import comb
from typing import Any

import gfloat
import gfloat.formats
import numpy as np
import pytest

import mxspec
from mxspec.formats import BLOCKS
from mxspec.stochastic import encode_te_stochastic, unpack_random_words
from mxspec_conformance.judge.check import check
from mxspec_conformance.judge.listing import list_requirements
from mxspec_conformance.judge.stochastic import generator, inputs
from mxspec_conformance.judge.stochastic.binomial import FALSE_ALARM, BinomialTest, find_refuted, is_too_many
from mxspec_conformance.judge.stochastic.generator import judge_generator
from mxspec_conformance.judge.stochastic.statistics import list_dependences, list_dependences_of_seeds, list_frequencies, read_answer
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.transports.opening import open_target

from tests.bugs.building import Answer, Array, right
from tests.judge.reading import failing, passed
from tests.judge.test_random_bits import Goes, below, carry, rounded, target

#: (shape, seed) -> a word for each number.
Generator = Callable[[tuple[int, ...], int], Array]


def philox(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.Generator(np.random.Philox(seed)).integers(1 << 32, size=shape, dtype=np.uint32)


def pcg(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.Generator(np.random.PCG64(seed)).integers(1 << 32, size=shape, dtype=np.uint32)


def by(words: Generator, goes: Goes = carry, bits: int = 32) -> Callable[..., Answer]:
    """A quantizer with a seed, that rounds by the upper bits of its words."""

    def quantize(x: Array, fmt: str, seed: int) -> Answer:
        return rounded(x, fmt, words(x.shape, seed) >> np.uint32(32 - bits), goes, bits)

    return quantize


def judge(quantize: Callable[..., Answer], fmt: str = "mxfp4", **members: Any) -> Scorecard:
    """The scorecard of a quantizer in a format."""
    session = open_target(target([fmt], quantize, **members), in_process=True)
    card = Scorecard("stochastic", fmt)
    judge_generator(session, BLOCKS[fmt], card)
    return card


def failing_topics(card: Scorecard) -> set[str]:
    return {t.topic for t in card.tallies.values() if t.failing or t.no_answers}


TOPICS = {"neighbour", "exact", "zero-block", "overflow", "probability", "independence", "seed"}


@pytest.mark.parametrize("words", [philox, pcg])
@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("goes", [carry, below])
def test_every_convention_passes(goes: Goes, bits: int, words: Generator) -> None:
    card = judge(by(words, goes, bits))
    assert failing_topics(card) == set()
    assert set(card.tallies) == TOPICS


@pytest.mark.parametrize("fmt", [f for f in BLOCKS if f != "mxfp4"])
def test_every_format_passes(fmt: str) -> None:
    card = judge(by(philox, below, 8), fmt)
    assert failing_topics(card) == set()
    assert set(card.tallies) == TOPICS


def te_software(x: Array, fmt: str, seed: int) -> Answer:
    """Transformer Engine's: a byte of each word for four neighbours, an addition that rounds."""
    scales = right(x, fmt)[1]
    scaled = x / np.repeat(2.0 ** (scales.astype(np.float64) - 127), 32, axis=1).astype(np.float32)
    words = philox((len(x), x.shape[1] // 4), seed)
    return encode_te_stochastic(scaled, unpack_random_words(words)), scales


def added_noise(x: Array, fmt: str, seed: int) -> Answer:
    """Uniform floats of 24 bits are added, of the width of a step about zero, and the sum is rounded to nearest."""
    scales = right(x, fmt)[1]
    scaled = x / np.repeat(2.0 ** (scales.astype(np.float64) - 127), 32, axis=1).astype(np.float32)
    magnitude = np.abs(scaled)
    step = np.where(magnitude < 2, 0.5, np.where(magnitude < 4, 1.0, 2.0))
    noise = (philox(x.shape, seed) >> np.uint32(8)) / 2.0**24 - 0.5
    total = np.clip(np.rint(magnitude / step + noise) * step, 0, 6)
    codes = mxspec.encode(total.astype(np.float32), "e2m1")
    return np.where(np.signbit(scaled), codes | 8, codes).astype(np.uint8), scales


@pytest.mark.parametrize("quantize", [te_software, added_noise])
def test_what_libraries_do_passes(quantize: Callable[..., Answer]) -> None:
    assert failing_topics(judge(quantize)) == set()


@pytest.mark.parametrize("bits", [8, 16, 24])
@pytest.mark.parametrize("mode", ["Stochastic", "StochasticFast", "StochasticFastest"])
def test_what_gfloat_does_passes(mode: str, bits: int) -> None:
    """A library that knows nothing of this project: three ways to compare words with fractions."""

    def quantize(x: Array, fmt: str, seed: int) -> Answer:
        scales = right(x, fmt)[1]
        quotients = x.astype(np.float64) / np.repeat(2.0 ** (scales.astype(float) - 127), 32, axis=1)
        words = np.random.default_rng(seed).integers(1 << bits, size=x.shape)
        values = gfloat.round_ndarray(
            gfloat.formats.format_info_ocp_e2m1, quotients, gfloat.RoundMode[mode], sat=True, srbits=words, srnumbits=bits
        )
        return gfloat.encode_ndarray(gfloat.formats.format_info_ocp_e2m1, values).astype(np.uint8), scales

    assert failing_topics(judge(quantize)) == set()


def test_other_scales_pass() -> None:
    """Quotients follow from the scales that came back: twice as large, or with a factor that is no power of two."""

    def twice(x: Array, fmt: str, seed: int) -> Answer:
        return rounded(x, fmt, philox(x.shape, seed), carry, 32, scales=np.minimum(right(x, fmt)[1] + 1, 254).astype(np.uint8))

    def of_four(x: Array, fmt: str, seed: int) -> Answer:
        scales = mxspec.encode(np.abs(x).reshape(len(x), -1, 16).max(axis=2) / 4, "ue4m3")
        return rounded(x, fmt, philox(x.shape, seed), carry, 32, scales=scales)

    assert failing_topics(judge(twice)) == set()
    assert failing_topics(judge(of_four, "nvfp4")) == set()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_other_dtypes_pass(dtype: str) -> None:
    def quantize(x: Array, fmt: str, seed: int) -> Answer:
        return by(philox)(x.astype(np.float32), fmt, seed)

    card = judge(quantize, "mxfp8_e4m3", DTYPES=[dtype])
    assert failing_topics(card) == set()
    assert {"probability", "independence", "seed"} <= set(card.tallies)


@pytest.mark.parametrize("kind", ["amax", "decode", "encode"])
def test_with_a_tensor_scale(kind: str) -> None:
    """A tensor scale of 1: one that must be given, of any kind."""

    def quantize(x: Array, fmt: str, tensor_scale: float, seed: int) -> Answer:
        assert tensor_scale == (2688 if kind == "amax" else 1)
        return by(philox)(x, fmt, seed)

    assert failing_topics(judge(quantize, "nvfp4", TENSOR_SCALE=kind)) == set()


def test_one_without_a_seed_is_judged_by_single_calls() -> None:
    """Whether it begins anew in each call or goes on."""
    number = count()

    def goes_on(x: Array, fmt: str) -> Answer:
        return by(philox)(x, fmt, next(number))

    def begins_anew(x: Array, fmt: str) -> Answer:
        return by(philox)(x, fmt, 12)

    for quantize in (goes_on, begins_anew):
        card = judge(quantize, STOCHASTIC=True)
        assert failing_topics(card) == set()
        assert set(card.tallies) == TOPICS - {"seed"}


def test_int8_may_use_its_lowest_code() -> None:
    def quantize(x: Array, fmt: str, seed: int) -> Answer:
        codes, scales = by(philox)(x, fmt, seed)
        scaled = x / np.repeat(2.0 ** (scales.astype(float) - 127), 32, axis=1)
        return np.where(scaled < -127 / 64, np.uint8(0x80), codes), scales

    assert failing_topics(judge(quantize, "mxint8")) == set()


@dataclass(frozen=True)
class Bug:
    quantize: Callable[..., Answer]
    #: Topics that fail; others may not.
    topics: set[str]
    also: frozenset[str] = frozenset()


#: What is counted: where draws are not independent no count is what it would be.
COUNTED = frozenset({"probability", "independence", "seed"})


def positions(shape: tuple[int, ...]) -> Array:
    return np.arange(int(np.prod(shape)), dtype=np.uint64).reshape(shape)


def mix(z: Array) -> Array:
    """A counter as a word that looks random."""
    with np.errstate(over="ignore"):
        z = (z + np.uint64(77)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(32))) * np.uint64(0x94D049BB133111EB)
        return (z >> np.uint64(32)).astype(np.uint32)


def shared(every: Callable[[Array, tuple[int, ...]], Array]) -> Generator:
    """One word for all positions of one number."""
    return lambda shape, seed: mix(every(positions(shape), shape) + np.uint64(seed << 40))


def overlapping(shape: tuple[int, ...], seed: int) -> Array:
    """Four neighbours take bytes of one word, one bit apart."""
    whole = shared(lambda p, _: p // 4)(shape, seed)
    return (whole << (positions(shape) % 4).astype(np.uint32)).astype(np.uint32)


def antithetic(shape: tuple[int, ...], seed: int) -> Array:
    words = shared(lambda p, _: p // 2)(shape, seed)
    return np.where(positions(shape) % 2 == 0, words, ~words).astype(np.uint32)


def congruential(shape: tuple[int, ...], seed: int) -> Array:
    """A multiplier modulo 2^32, of which low bits are taken: they repeat every 2^16 draws and earlier."""
    state = (positions(shape) * np.uint64(5) + np.uint64(seed * 77 + 1)) & np.uint64(0xFF)
    return (mix(state) & np.uint32(0xFFFFFFFF)).astype(np.uint32)


CLOCK = count(1000)


def spoil(change: Callable[[Array, Array, Array, str, int], Answer]) -> Callable[..., Answer]:
    """A change of the right answer: (codes, scales, x, format, seed)."""

    def quantize(x: Array, fmt: str, seed: int) -> Answer:
        codes, scales = by(philox)(x, fmt, seed)
        return change(codes.copy(), scales.copy(), x, fmt, seed)

    return quantize


def wrapped(codes: Array, scales: Array, x: Array, fmt: str, seed: int) -> Answer:
    """Beyond the largest element the code becomes zero."""
    quotients = np.abs(x) / np.repeat(2.0 ** (scales.astype(float) - 127), 32, axis=1)
    return np.where(quotients > 6, codes & 8, codes).astype(np.uint8), scales


def moved_zeros(codes: Array, scales: Array, x: Array, fmt: str, seed: int) -> Answer:
    return np.where((x == 0) & (philox(x.shape, seed) & 7 == 0), codes | 1, codes).astype(np.uint8), scales


def moved_values(codes: Array, scales: Array, x: Array, fmt: str, seed: int) -> Answer:
    """Values of the format go up where a byte is 255."""
    quotients = np.abs(x) / np.repeat(2.0 ** (scales.astype(float) - 127), 32, axis=1)
    exact = np.isin(quotients, (0.5, 1, 1.5, 2, 3, 4)) & (philox(x.shape, seed) >> 24 == 255)
    return np.where(exact, codes + 1, codes).astype(np.uint8), scales


def by_sign(x: Array, fmt: str, seed: int) -> Answer:
    words = philox(x.shape, seed)
    return rounded(x, fmt, np.where(np.signbit(x), ~words, words), toward_plus(x), 32)


def toward_plus(x: Array) -> Goes:
    """The fraction of negative numbers is that of the upper neighbour."""
    return lambda f, w, n: np.where(np.signbit(x), (f > 0) & (w >= f * 2.0**n), carry(f, w, n))


def random_scale(codes: Array, scales: Array, x: Array, fmt: str, seed: int) -> Answer:
    up = philox(scales.shape, seed + 99) & 1
    return codes, np.where(scales > 0, scales + up, scales).astype(np.uint8)


def by_value(x: Array, fmt: str, seed: int) -> Answer:
    """Random words made of the number and the seed alone."""
    return rounded(x, fmt, mix(x.view(np.uint32).astype(np.uint64) + np.uint64(seed << 40)), carry, 32)


def by_row(x: Array, fmt: str, seed: int) -> Answer:
    """Random words made of the numbers of a row and the seed."""
    rows = mix(x.view(np.uint32).astype(np.uint64) + (positions(x.shape) % x.shape[1] << np.uint64(34))).astype(np.uint64).sum(axis=1)
    return rounded(x, fmt, mix(rows[:, None] + (positions(x.shape) % x.shape[1] << np.uint64(36)) + np.uint64(seed << 50)), carry, 32)


def without_last_lane(x: Array, fmt: str, seed: int) -> Answer:
    words = philox(x.shape, seed)
    words[:, -1] = 0
    return rounded(x, fmt, words, carry, 32)


def only_normal(x: Array, fmt: str, seed: int) -> Answer:
    """Numbers between zero and the smallest element are rounded to nearest."""
    words = philox(x.shape, seed)
    codes, scales = rounded(x, fmt, words, carry, 32)
    quotients = np.abs(x) / np.repeat(2.0 ** (scales.astype(float) - 127), 32, axis=1)
    nearest = np.where(quotients > 0.25, 1, 0) | np.where(np.signbit(x), 8, 0)
    return np.where(quotients < 0.5, nearest, codes).astype(np.uint8), scales


def ignores_seed(shape: tuple[int, ...], _: int) -> Array:
    return philox(shape, 3)


BUGS = {
    "zeros, TransformerEngine#3281": Bug(spoil(lambda c, s, x, f, n: (c * 0, s)), {"neighbour", "exact", "overflow", "seed"}, COUNTED),
    "a seed of zero draws zeros, Primus-Turbo#365": Bug(by(lambda s, n: philox(s, n) * np.uint32(n != 0)), {"probability"}, COUNTED),
    "a seed of zero is none": Bug(by(lambda s, n: philox(s, n or next(CLOCK))), {"seed"}),
    "words one bit lower, Primus-Turbo#430": Bug(by(lambda s, n: philox(s, n) >> np.uint32(1)), {"probability"}, COUNTED),
    "words one bit higher, oneDNN#2903": Bug(by(philox, lambda f, w, n: np.floor(f * 2.0**n) + 2 * w >= 2.0**n), {"probability"}, COUNTED),
    "words of seven bits": Bug(by(lambda s, n: philox(s, n) & np.uint32(0xFE000000)), {"probability"}),
    "one more than the word": Bug(by(philox, lambda f, w, n: np.floor(f * 2.0**n) + w + 1 >= 2.0**n, 8), {"probability"}),
    "where the word is at most the fraction": Bug(by(philox, lambda f, w, n: w <= f * 2.0**n, 8), {"probability"}),
    "a value of the format moves, once in 256": Bug(spoil(moved_values), {"exact"}),
    "to nearest": Bug(spoil(lambda c, s, x, f, n: right(x, f)), {"probability", "independence", "seed"}),
    "toward zero": Bug(by(lambda s, n: philox(s, n) * np.uint32(0)), {"probability", "independence", "seed"}),
    "half as often to the side of zero": Bug(by(philox, lambda f, w, n: carry(np.minimum(f * 1.0625, 1.0), w, n)), {"probability"}, COUNTED),
    "toward plus infinity by the magnitude's fraction": Bug(by_sign, {"probability"}, COUNTED),
    "below the smallest element to nearest": Bug(only_normal, {"probability"}, COUNTED),
    # Shared words make chance agreement of two seeds larger than independent draws allow.
    "one word for four neighbours": Bug(by(shared(lambda p, _: p // 4)), {"independence"}, {"seed"}),
    "one word for a block": Bug(by(shared(lambda p, _: p // 32)), {"independence"}, COUNTED),
    "one row's words for all rows": Bug(by(shared(lambda p, s: p % s[1])), {"independence"}, COUNTED),
    "every program's words from its own lanes": Bug(by(shared(lambda p, _: p % 1024)), {"independence"}, COUNTED),
    "a table of 10,007 words": Bug(by(shared(lambda p, _: p % 10007)), {"independence"}, COUNTED),
    "one word for a row": Bug(by(shared(lambda p, s: p // s[1])), {"independence", "probability"}, COUNTED),
    "bytes that overlap": Bug(by(overlapping, bits=8), {"independence"}),
    "a word and its complement": Bug(by(antithetic), {"independence"}),
    "a congruential generator of eight bits": Bug(by(congruential), {"independence"}, COUNTED),
    "words of the number itself, triton#9693": Bug(by_value, {"independence", "probability"}, COUNTED),
    "words of the row's numbers": Bug(by_row, {"independence"}),
    "a seed that is added to the position, torchao#3384": Bug(by(lambda s, n: mix(positions(s) + np.uint64(n))), {"seed"}),
    "a seed that is not looked at": Bug(by(ignores_seed), {"seed"}),
    "a clock": Bug(by(lambda s, n: philox(s, next(CLOCK))), {"seed"}),
    "the last column draws nothing": Bug(without_last_lane, {"probability"}, frozenset({"independence"})),
    "zeros that move": Bug(spoil(moved_zeros), {"zero-block", "exact"}),
    "a code beyond the largest": Bug(spoil(wrapped), {"overflow"}),
    "a scale that is random, too": Bug(spoil(random_scale), {"exact", "neighbour"}, COUNTED | {"overflow"}),
    "it writes another code now and then": Bug(spoil(lambda c, s, x, f, n: (np.where(philox(x.shape, n + 7) < 2**18, c ^ 4, c).astype(np.uint8), s)), {"neighbour"}, frozenset({"exact"})),
}  # fmt: skip


@pytest.mark.parametrize("name", list(BUGS))
def test_bugs_are_caught(name: str) -> None:
    """With at most 2^20 draws, by the topics that they are about."""
    bug, drawn = BUGS[name], []

    def quantize(x: Array, fmt: str, seed: int) -> Answer:
        drawn.append(x.size)
        return bug.quantize(x, fmt, seed)

    found = failing_topics(judge(quantize))
    assert bug.topics <= found <= bug.topics | bug.also
    assert sum(drawn) <= 1 << 20


@pytest.mark.parametrize("trials", [1, 7, 40])
@pytest.mark.parametrize("p", [Fraction(1, 256), Fraction(1, 3), Fraction(1, 2), Fraction(255, 256)])
def test_what_is_refuted_is_refuted(trials: int, p: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the exact tail: never more often than it allows, and hardly later."""
    monkeypatch.setattr("mxspec_conformance.judge.stochastic.binomial._NEAR", 0)
    is_too_many.cache_clear()
    for k in range(trials + 1):
        tail = sum(comb(trials, j) * p**j * (1 - p) ** (trials - j) for j in range(k, trials + 1))
        assert not is_too_many(k, trials, p, tail * (1 - Fraction(1, 10**9)))
        if k >= 2 * trials * p + 2:
            assert is_too_many(k, trials, p, tail * 4)
    is_too_many.cache_clear()


def test_tails_of_large_counts() -> None:
    """2^17 draws of one half: the standard deviation is 181; 10^-14 lies 7.65 of them out."""
    half = Fraction(1, 2)
    assert not is_too_many(65536 + 1350, 1 << 17, half, Fraction(1, 10**14))
    assert is_too_many(65536 + 1420, 1 << 17, half, Fraction(1, 10**14))
    assert is_too_many(1, 10**6, Fraction(0), Fraction(1, 10**14))
    assert not is_too_many(0, 10**6, Fraction(0), Fraction(1, 10**14))


def test_a_test_that_cannot_fail_is_none() -> None:
    """Both sides count: too few, too many."""
    few = BinomialTest("probability", "few", 0, 1000, Fraction(1, 4), Fraction(1, 4), "")
    many = BinomialTest("probability", "many", 1000, 1000, Fraction(1, 4), Fraction(1, 4), "")
    fit = BinomialTest("probability", "fit", 250, 1000, Fraction(1, 4), Fraction(1, 4), "")
    assert find_refuted([few, many, fit], FALSE_ALARM) == [few, many]


def simulate(runs: int, numbers: int, seed: int) -> int:
    """How many of so many runs of a right generator are accused, on small inputs: the whole statistic of every call."""
    fmt = BLOCKS["mxfp4"]
    draws = [d for d in inputs.list_draws(fmt, "float32", numbers, seeded=True) if d.frequencies]
    known = []
    for d in draws:
        scales = mxspec.quantize(d.x, fmt).scales
        a = read_answer(d, np.zeros(d.x.shape, np.uint8), scales, fmt)
        known.append((a, scales))
    stream, accused = np.random.default_rng(seed), 0
    for _ in range(runs):
        tests, answers = [], []
        for a, scales in known:
            up = carry(a.fractions, stream.integers(256, size=a.fractions.shape), 8)
            answer = read_answer(a.draws, np.where(up, a.high, a.low), scales, fmt)
            tests += list(list_frequencies(answer, fmt))
            tests += list(list_dependences(answer)) if a.draws.independence else []
            answers.append(answer)
        tests += list(list_dependences_of_seeds(answers[-len(inputs.SEEDS) :]))
        accused += bool(find_refuted(tests, FALSE_ALARM))
    return accused


def test_right_runs_are_not_accused() -> None:
    assert simulate(20, 1 << 10, 1) == 0


def test_counts_of_ten_thousand_right_runs_are_not_accused() -> None:
    """Every count of a whole run, drawn ten thousand times from the distribution that a right generator gives it."""
    fmt, tests = BLOCKS["mxfp4"], []
    for d in inputs.list_draws(fmt, "float32", generator.NUMBERS, seeded=True):
        answer = read_answer(d, *by(philox)(d.x, "mxfp4", d.seed), fmt)
        tests += [*list_frequencies(answer, fmt), *(list_dependences(answer) if d.independence else ())]
    trials = np.array([t.trials for t in tests])
    # At either edge of what is right.
    edges = [np.array([float(p) for p in ps]) for ps in zip(*((t.low, t.high) for t in tests), strict=True)]
    stream, chance = np.random.default_rng(20), FALSE_ALARM / len(tests)
    for run in range(10_000):
        p = edges[run % 2]
        counts = stream.binomial(trials, p)
        off = np.abs(counts - trials * p) / np.sqrt(np.maximum(trials * p * (1 - p), 1e-9))
        for i in np.flatnonzero(off > 4.5).tolist():
            test = BinomialTest("probability", "", int(counts[i]), tests[i].trials, tests[i].low, tests[i].high, "")
            assert not test.is_refuted(chance), (run, tests[i].label, test.count)


def test_the_report_of_one_with_a_seed() -> None:
    one = target(["mxfp4"], by(philox))
    report = check(one, in_process=True)
    assert failing(report) == {}
    assert passed(report) == {"scale/mxfp4/scale-boundary", *(f"stochastic/mxfp4/{t}" for t in TOPICS)}
    assert {r.level for r in report.requirements if r.operation == "stochastic"} == {"contract"}
    assert {r.id for r in report.requirements} == set(list_requirements(open_target(one)))
    assert report.exit_code == 0


def test_the_report_of_a_bug_shows_numbers() -> None:
    bug = BUGS["words one bit lower, Primus-Turbo#430"]
    report = check(target(["mxfp4"], bug.quantize), in_process=True, only="stochastic/mxfp4/probability")
    (found,) = report.requirements
    assert found.first is not None
    assert any("with a probability of less than 1 in" in step for step in found.first.steps)
    assert report.exit_code == 1


def test_no_answer_is_an_error() -> None:
    def quantize(x: Array, fmt: str, seed: int) -> Answer:
        raise RuntimeError("no generator")

    card = judge(quantize)
    assert failing_topics(card) == {"neighbour"}


def test_of_a_slow_target_less_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless only its first call is slow. A right one passes with few draws, too."""
    drawn: list[int] = []
    clock = iter(range(10**9))
    monkeypatch.setattr(generator.time, "monotonic", lambda: float(next(clock)))

    def quantize(x: Array, fmt: str, seed: int) -> Answer:
        drawn.append(x.size)
        return by(philox)(x, fmt, seed)

    card = judge(quantize)
    assert max(drawn) < 2 * generator.NUMBERS_SLOW < generator.NUMBERS
    assert failing_topics(card) == set()
    assert len(drawn) > 10
