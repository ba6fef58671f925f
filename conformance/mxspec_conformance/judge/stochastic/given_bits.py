"""Judging `quantize` with `random_bits`: every code, bit for bit, under the scale that was returned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.elements import code_dtype, decode_codes
from mxspec.elements_given_scale import find_neighbours, scale_lanes
from mxspec.formats import BlockFormat, ElementFormat
from mxspec.profiles.schema import Profile
from mxspec_conformance.counterexample.evidence import show_conversion
from mxspec_conformance.counterexample.failure import describe_bits
from mxspec_conformance.judge.explanation import Explanation
from mxspec_conformance.judge.invariance.pools import draw_places
from mxspec_conformance.judge.stochastic.given_calls import Asked, judge_given_calls
from mxspec_conformance.judge.stochastic.mistakes import list_misread_words
from mxspec_conformance.judge.stochastic.words import Flags, Words, goes_up, may_be_lowest, turning_words
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_bisected, run_once
from mxspec_conformance.observations.quantize import WHOLE_BLOCK, refuse_tensor, tensor_argument
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.dtypes import cast_input, is_representable, preferred_dtype
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import QuantizeCase, load_quantize_cases
from mxspec_vectors.points import Stream
from mxspec_vectors.tensor_scales import TensorScales, bind_profile, native_scale

Codes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

TOPIC = "random-bits"
#: Rows of the vectors that are asked with one tensor scale, or without.
ROWS = 96
#: Sets of rows, one-level and under one tensor scale, that are asked in large calls, after others, and at once.
CALLED = 2
#: What the words of a row are: on either side of where each number turns, the ends, drawn.
KINDS = ("the last word below the turn", "the first word above it", "the smallest and the largest word", "drawn words")


@dataclass(frozen=True, slots=True)
class Rows:
    """Blocks [n, k], one to a row, under one tensor scale, with a word for each number."""

    labels: tuple[str, ...]
    x: Floats
    words: Words
    tensor: TensorScales | None


def judge_random_bits(session: TargetSession, fmt: BlockFormat, profiles: Sequence[Profile], scorecard: Scorecard) -> dict[str, Failure]:
    """Enter rows of the vectors with words on either side of where each number turns, in calls of several shapes.

    profiles: by the first of them, or by the next one that explains every answer: scales alone do not tell profiles apart that
    divide in another order.
    """
    cards = (_judge_by(session, fmt, profile, Scorecard(scorecard.operation, scorecard.format)) for profile in profiles)
    first = next(cards)
    tally = first.tallies.get(TOPIC)
    if tally is not None and tally.failing:
        first = next((c for c in cards if TOPIC in c.tallies and not c.tallies[TOPIC].failing), first)
    scorecard.tallies |= first.tallies
    return {}


def _judge_by(session: TargetSession, fmt: BlockFormat, profile: Profile, scorecard: Scorecard) -> Scorecard:
    for number, rows in enumerate(_list_rows(session.capabilities, fmt, profile)):
        answered = _judge_rows(session, fmt, profile, rows, scorecard)
        # What is wrong in a call of the vectors is wrong in every other one.
        if answered is not None and number < CALLED and not scorecard.tally(TOPIC).failing:
            judge_given_calls(session, fmt, answered, _name(rows), scorecard)
        for name, needed in _SHAPES:
            _judge_shape(session, fmt, profile, rows, name, needed, scorecard)
        _judge_places(session, fmt, profile, rows, scorecard)
        if rows.tensor is None:
            _judge_bits(session, fmt, profile, scorecard)
    return scorecard


def _list_rows(capabilities: Capabilities, fmt: BlockFormat, profile: Profile) -> Iterator[Rows]:
    dtype = preferred_dtype(capabilities.dtypes)
    groups: dict[TensorScales | None, list[QuantizeCase]] = {}
    for case in load_quantize_cases(fmt.name):
        special = case.topic in WHOLE_BLOCK or not np.isfinite(case.x).all()
        if case.is_row and not special and is_representable(case.x, dtype).all():
            groups.setdefault(case.tensor, []).append(case)
    for tensor, cases in groups.items():
        if refuse_tensor("quantize", tensor, capabilities) is None and _can_round(profile, tensor):
            yield _make_rows(cases[:: -(-len(cases) // ROWS)], capabilities, fmt, profile, tensor)


def _can_round(profile: Profile, tensor: TensorScales | None) -> bool:
    """Whether the profile has a form with or without a tensor scale, which chooses nothing by errors."""
    steps = profile.one_level if tensor is None else profile.two_level
    special = tensor is not None and tensor.is_special
    return steps is not None and steps.alternative is None and steps.element.error is None and not special


def _make_rows(
    cases: Sequence[QuantizeCase], capabilities: Capabilities, fmt: BlockFormat, profile: Profile, tensor: TensorScales | None
) -> Rows:
    """Each row once with every kind of words."""
    bits, rule = capabilities.sr_bits, capabilities.sr_rule
    x = np.concatenate([c.x for c in cases])
    scales = mxspec.quantize(x, fmt, profile=profile, tensor_scale=native_scale(profile, tensor)).scales.reshape(-1)
    below, above = turning_words(_locate(x, scales, fmt, profile, tensor)[3], bits, rule)
    stream = Stream(57)
    drawn = np.array([stream.below(1 << bits) for _ in range(x.size)], np.uint32).reshape(x.shape)
    ends = np.where(drawn & 1 == 1, np.uint32((1 << bits) - 1), np.uint32(0))
    return Rows(
        labels=tuple(f"{c.id}, {kind}" for kind in KINDS for c in cases),
        x=np.concatenate([x] * len(KINDS)),
        words=np.concatenate([below, above, ends, drawn]),
        tensor=tensor,
    )


def _locate(
    x: Floats, scales: Codes, fmt: BlockFormat, profile: Profile, tensor: TensorScales | None
) -> tuple[npt.NDArray[Any], Codes, Codes, npt.NDArray[np.float64]]:
    """Scaled elements of blocks under scale bytes, the codes on either side, and the fractions between them."""
    steps, bindings = bind_profile(profile, tensor)
    scaled, _ = scale_lanes(x, scales, fmt, profile, steps, bindings)
    return (scaled, *find_neighbours(scaled, fmt.element))


def _name(rows: Rows) -> str:
    return "one-level" if rows.tensor is None else f"tensor {rows.tensor.amax:08x}"


def _judge_rows(session: TargetSession, fmt: BlockFormat, profile: Profile, rows: Rows, scorecard: Scorecard) -> Asked | None:
    """The rows as they were answered, where all of them were."""
    capabilities = session.capabilities
    extra, dtype = tensor_argument(rows.tensor, capabilities), preferred_dtype(capabilities.dtypes)

    def call(items: Sequence[int]) -> list[Any]:
        chosen = list(items)
        codes, scales = session.call("quantize", cast_input(rows.x[chosen], dtype), fmt.name, random_bits=rows.words[chosen], **extra)
        return list(zip(codes, scales[:, 0], strict=True))

    answers = run_bisected(list(range(len(rows.labels))), call)
    answered = [i for i, a in enumerate(answers) if not isinstance(a, NoAnswer)]
    for i, answer in enumerate(answers):
        if isinstance(answer, NoAnswer):
            scorecard.count_no_answer(TOPIC, rows.labels[i], answer)
    if answered:
        codes = np.stack([answers[i][0] for i in answered])
        scales = np.array([answers[i][1] for i in answered], code_dtype(fmt.scale))
        _enter(rows, answered, codes, scales, fmt, profile, capabilities, "", scorecard)
        _enter_scales(rows, answered, scales, scorecard)
    if len(answered) < len(answers):
        return None
    allowed = _list_allowed(rows, answered, scales, fmt, profile, capabilities)
    return Asked(
        x=cast_input(rows.x, dtype), words=rows.words, scales=scales, kwargs=dict(extra),
        find_right=lambda codes, place: allowed.find_right(codes, fmt.element, place),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Allowed:
    """Which codes are right for numbers [n, k] under scales and words."""

    scaled: npt.NDArray[Any]
    expected: Codes
    high: Codes
    #: Where the upper code is right as well; where int8's lowest code is; where every code is.
    may: Flags
    lowest: Flags
    free: Flags

    def find_right(self, codes: Codes, element: ElementFormat, place: npt.NDArray[np.intp] | slice = slice(None)) -> Flags:
        """Whether each of these codes is right; place: the rows that they answer."""
        right = _same(codes, self.expected[place], element) | (self.may[place] & _same(codes, self.high[place], element)) | self.free[place]
        if element.twos_complement:
            right |= (codes == element.sign_bit) & self.lowest[place]
        return np.asarray(right)


def _list_allowed(
    rows: Rows, chosen: Sequence[int], scales: Codes, fmt: BlockFormat, profile: Profile, capabilities: Capabilities,
    read: Callable[[Words], Words] = lambda words: words,
) -> Allowed:  # fmt: skip
    """For some of the rows under the scales that came back; lanes under a scale that is zero or no number are free."""
    bits, rule = capabilities.sr_bits, capabilities.sr_rule
    words = read(rows.words[chosen])
    scaled, low, high, fractions = _locate(rows.x[chosen], scales, fmt, profile, rows.tensor)
    must, may = goes_up(fractions, words, bits, rule)
    expected = np.where(must, high, low)
    divisor = decode_codes(scales, fmt.scale)[:, None]
    lowest = np.zeros(expected.shape, bool)
    if fmt.element.twos_complement:
        lowest = (expected == fmt.element.sign_bit + 1) & may_be_lowest(scaled, words, bits, rule)
    free = ~np.isfinite(scaled) | ~np.isfinite(divisor) | (divisor == 0)
    return Allowed(scaled, expected, high, may, lowest, np.asarray(free))


def _enter(
    rows: Rows, asked: Sequence[int], codes: Codes, scales: Codes, fmt: BlockFormat, profile: Profile,
    capabilities: Capabilities, shape: str, scorecard: Scorecard,
) -> None:  # fmt: skip
    """Blocks with their answers."""
    bits, rule = capabilities.sr_bits, capabilities.sr_rule
    chosen = list(asked)
    x, words = rows.x[chosen], rows.words[chosen]
    allowed = _list_allowed(rows, chosen, scales, fmt, profile, capabilities)
    scaled, expected, right = allowed.scaled, allowed.expected, allowed.find_right(codes, fmt.element)
    equals: list[list[Explanation]] = [[] for _ in chosen]
    for explanation, read, used in () if right.all() else list_misread_words(bits):
        other = _list_allowed(rows, chosen, scales, fmt, profile, replace(capabilities, sr_bits=used), read)
        for n in np.flatnonzero(other.find_right(codes, fmt.element).all(axis=1)).tolist():
            equals[n].append(explanation)
    for n, i in enumerate(chosen):
        wrong = np.flatnonzero(~right[n])
        label = f"{rows.labels[i]}{shape}"
        show = None
        if wrong.size:
            at = int(wrong[0])
            how = {
                "lane": str(at), "x": describe_bits(float(x[n, at])), "scale byte": f"{int(scales[n]):02x}",
                "word": f"0x{int(words[n, at]):0{bits // 4}x}", "rule": f"{rule.value}, {bits} bits",
            }  # fmt: skip
            show = partial(
                show_conversion, label, np.float32(scaled[n, at]), int(expected[n, at]), int(codes[n, at]), fmt.element,
                how=how, snippet="",
            )  # fmt: skip
        scorecard.count(TOPIC, label, ok=not wrong.size, equals=equals[n], origin=rows.labels[i].partition(",")[0], show=show)


def _same(codes: Codes, others: Codes, element: ElementFormat) -> npt.NDArray[np.bool_]:
    """Equal codes; the sign of a zero, which is open, does not count."""
    if element.twos_complement:
        return np.asarray(codes == others)
    zero = np.uint8(element.sign_bit)
    return np.asarray((codes == others) | (((codes | zero) == zero) & ((others | zero) == zero)))


def _enter_scales(rows: Rows, asked: Sequence[int], scales: Codes, scorecard: Scorecard) -> None:
    """A block's scale does not depend on its random words."""
    first: dict[str, tuple[str, int]] = {}
    for i, scale in zip(asked, scales.tolist(), strict=True):
        name = rows.labels[i].partition(",")[0]
        label, before = first.setdefault(name, (rows.labels[i], scale))
        if label == rows.labels[i]:
            continue
        show = partial(
            Failure, case=f"{name}, scale", given={"calls": f"{label}; {rows.labels[i]}"}, expected={"scale": f"{before:02x}"},
            returned={"scale": f"{scale:02x}"}, steps=["the block's scale depends on the random words of its elements"],
        )  # fmt: skip
        scorecard.count(TOPIC, f"{name}, scale", ok=scale == before, origin=name, show=show)


#: Blocks of a call that is large for a kernel, and how many of them a row has.
LARGE, WIDE = 512, 256


def _judge_places(session: TargetSession, fmt: BlockFormat, profile: Profile, rows: Rows, scorecard: Scorecard) -> None:
    """The same rows in a large call, tall and wide, in every dtype that holds them, and in views: each word stays with its number."""
    capabilities, count = session.capabilities, len(rows.x)
    drawn = draw_places(LARGE, count, 58)
    calls: list[tuple[str, str, npt.NDArray[np.intp], tuple[str, ...], int]] = []
    for dtype in capabilities.dtypes:
        held = np.flatnonzero(is_representable(rows.x, dtype).all(axis=1))
        if held.size:
            calls.append((f"a large call in {dtype}", dtype, held[drawn % held.size], (), 4))
            if dtype != preferred_dtype(capabilities.dtypes):  # whose rows are asked in every size
                calls.append((f"a wide call in {dtype}", dtype, held[drawn[:WIDE] % held.size], (), WIDE))
    calls += [
        (f"in memory: {a}", preferred_dtype(capabilities.dtypes), drawn[:96], ("arranged", a), 4)
        for a in ("fortran", "columns", "reversed")
    ]
    for name, dtype, chosen, before, row in calls:
        x, words = rows.x[chosen].reshape(len(chosen) // row, -1), rows.words[chosen].reshape(len(chosen) // row, -1)
        answer = run_once(
            partial(
                session.call,
                *before,
                "quantize",
                cast_input(x, dtype),
                fmt.name,
                random_bits=words,
                **tensor_argument(rows.tensor, capabilities),
            )
        )
        if not isinstance(answer, NoAnswer):
            codes, scales = (np.ascontiguousarray(a) for a in answer)
            _enter(rows, chosen.tolist(), codes.reshape(-1, fmt.k), scales.reshape(-1), fmt, profile, capabilities, f", {name}", scorecard)
        elif not before:  # a target may refuse views
            scorecard.count_no_answer(TOPIC, f"all rows, {name}", answer)


def _judge_bits(session: TargetSession, fmt: BlockFormat, profile: Profile, scorecard: Scorecard) -> None:
    """Numbers that turn at each bit of a word, in every dtype: of most 16-bit numbers the upper bits alone decide."""
    capabilities = session.capabilities
    top, step = float(fmt.element.max_value), float(fmt.element.magnitude(1))
    unit = 2.0**7 if top * 2.0**7 <= 65504 else 1.0
    x = (np.concatenate([[top], step * 2.0 ** -np.arange(1, fmt.k)]) * unit).astype(np.float32)[None]
    for dtype in capabilities.dtypes:
        held = np.where(is_representable(x, dtype), x, np.float32(0))
        scales = mxspec.quantize(held, fmt, profile=profile).scales.reshape(-1)
        words = turning_words(_locate(held, scales, fmt, profile, None)[3], capabilities.sr_bits, capabilities.sr_rule)
        rows = Rows(tuple(f"a number for each bit, {kind}" for kind in KINDS[:2]), np.concatenate([held] * 2), np.concatenate(words), None)
        answer = run_once(partial(session.call, "quantize", cast_input(rows.x, dtype), fmt.name, random_bits=rows.words))
        if isinstance(answer, NoAnswer):
            scorecard.count_no_answer(TOPIC, f"a number for each bit, in {dtype}", answer)
            continue
        _enter(rows, range(2), answer[0], answer[1].reshape(-1), fmt, profile, capabilities, f", in {dtype}", scorecard)


#: Other shapes of a call, with the options that they need.
_SHAPES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("four blocks to a row", ()), ("blocks along the first axis", ("axis",)), ("a ragged end", ("pad",)),
    ("a ragged end along the first axis", ("axis", "pad")), ("square blocks", ("block",)),
)  # fmt: skip
_MISSING = 3


def _judge_shape(
    session: TargetSession, fmt: BlockFormat, profile: Profile, rows: Rows, name: str, needed: tuple[str, ...], scorecard: Scorecard
) -> None:
    """The same rows in a call of another shape, by the options that it needs: each word stays with its number."""
    capabilities = session.capabilities
    square = "block" in needed
    if not all(capabilities.has("quantize", option) for option in needed) or (square and len(fmt.shapes) < 2):
        return
    extra: dict[str, Any] = dict(tensor_argument(rows.tensor, capabilities))
    step = 4 * fmt.shapes[1][0] if square else 4
    dtype, count = preferred_dtype(capabilities.dtypes), len(rows.x) // step * step
    if not count:
        return
    x, words = rows.x[:count], rows.words[:count]
    given, bits = (x, words) if needed and not square else (x.reshape(count // 4, -1), words.reshape(count // 4, -1))
    if square:
        extra["block"] = fmt.shapes[1]
    if "pad" in needed:
        given, bits, extra["pad"] = x[:, :-_MISSING], words[:, :-_MISSING], True
        x = np.where(np.arange(fmt.k) < fmt.k - _MISSING, x, np.float32(0))
    if "axis" in needed:
        given, bits, extra["axis"] = given.T, bits.T, 0
    arguments = cast_input(np.ascontiguousarray(given), dtype), fmt.name
    label = f"all rows, {name}"
    (answer,) = run_bisected([0], lambda _: [session.call("quantize", *arguments, random_bits=np.ascontiguousarray(bits), **extra)])
    if isinstance(answer, NoAnswer):
        scorecard.count_no_answer(TOPIC, label, answer)
        return
    codes, scales = answer
    if "axis" in needed:
        codes, scales = codes.T, scales.T
    asked = Rows(rows.labels[:count], x, words, rows.tensor)
    _enter(
        asked, range(count), np.ascontiguousarray(codes).reshape(-1, fmt.k), np.ascontiguousarray(scales).reshape(-1),
        fmt, profile, capabilities, f", {name}", scorecard,
    )  # fmt: skip
