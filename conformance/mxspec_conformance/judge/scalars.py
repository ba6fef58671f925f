"""Judging `encode` and `decode`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.acceptance import is_lowest_allowed
from mxspec.elements import encode_table, table_index
from mxspec.formats import ElementFormat, ScalarFormat, get_scalar
from mxspec.reals import nan_codes
from mxspec.rounding import NanPolicy, Overflow, Rounding
from mxspec_conformance.counterexample.evidence import describe_number, show_code, show_conversion, show_value
from mxspec_conformance.counterexample.items import is_other_value, keep_items, write_value
from mxspec_conformance.judge.conversions import list_known
from mxspec_conformance.judge.explanation import ROUNDING_TEXT, Explanation
from mxspec_conformance.judge.misreadings import name_codes
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_bisected
from mxspec_conformance.observations.selection import kept_lanes
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import load_encode_cases
from mxspec_vectors.topics import Level, topic_level

#: The significand bits of sqrt(2), above which log2 is nearer to the next integer.
SQRT2 = 0x3504F3


def _legal_nan_codes(fmt: ScalarFormat) -> list[tuple[frozenset[int], frozenset[int]]]:
    """For each legal policy the codes of a positive and a negative NaN; one policy has to explain all lanes.

    OFP8 turns a NaN into a NaN, whether or not the conversion saturates. For elements without one, OCP MX leaves it open;
    for scales no text speaks of it.
    """
    any_nan = frozenset(c for c in range(fmt.code_count) if fmt.is_nan(c))
    legal = [(any_nan, any_nan)] if any_nan else []
    if any_nan and isinstance(fmt, ElementFormat):
        return legal
    for policy in NanPolicy:
        try:
            positive, negative = nan_codes(fmt, policy)
        except ValueError:
            continue
        legal.append((frozenset({positive}), frozenset({negative})))
    return legal


def _explained_nan(x: npt.NDArray[np.float32], returned: Sequence[Any], fmt: ScalarFormat) -> set[int]:
    """The NaN lanes whose code is that of the policy that explains the most lanes."""
    answered = [i for i, c in enumerate(returned) if np.isnan(x[i]) and not isinstance(c, NoAnswer)]
    lanes = [(i, int(np.signbit(x[i]))) for i in answered]
    found = [{i for i, sign in lanes if int(returned[i]) in policy[sign]} for policy in _legal_nan_codes(fmt)]
    return max(found, key=len)


def _own_overflow(x: npt.NDArray[np.float32], fmt: ScalarFormat, rounding: Rounding) -> npt.NDArray[np.uint8]:
    """What an encoder returns that overflows to the format's own Inf or NaN."""
    codes: npt.NDArray[np.uint8] = encode_table(fmt, rounding, Overflow.OWN, NanPolicy.NAN)[table_index(x if fmt.signed else np.abs(x))]
    return codes


@dataclass(frozen=True, slots=True)
class _Encoded:
    """What came back for one encode case and rounding."""

    topic: str
    label: str
    #: The vector file's name of the case.
    case: str
    rounding: Rounding
    wants_own: bool
    x: npt.NDArray[np.float32]
    expected: npt.NDArray[np.uint8]
    #: A code or `NoAnswer` for each lane.
    returned: list[Any]
    #: The place of each lane in its case.
    places: Sequence[int]
    #: Keywords of the call.
    options: Mapping[str, Any]

    def name(self, i: int) -> str:
        """The label of a lane."""
        return f"{self.label}[{self.places[i]}]"

    def agreeing(self, codes: npt.NDArray[np.uint8]) -> int:
        """Lanes that hold these codes."""
        return sum(not isinstance(r, NoAnswer) and int(r) == int(c) for r, c in zip(self.returned, codes, strict=True))


def _overflows_to_own(cases: Sequence[_Encoded], fmt: ScalarFormat) -> set[tuple[str, Rounding]]:
    """Topics and roundings in which the target rather gives the format's own Inf or NaN than its largest value.

    Either is legal where the target has no `overflow`, but one for all lanes of a topic (finite, or infinite).
    """
    votes: dict[tuple[str, Rounding], int] = {}
    for case in cases:
        if case.topic in ("overflow", "inf"):
            more = case.agreeing(_own_overflow(case.x, fmt, case.rounding)) - case.agreeing(case.expected)
            key = (case.topic, case.rounding)
            votes[key] = votes.get(key, 0) + more
    return {key for key, more in votes.items() if more > 0}


def judge_encode(session: TargetSession, element: str, scorecard: Scorecard) -> dict[str, Failure]:
    """Enter the encode cases of one scalar format.

    Roundings are judged where `encode` takes a `rounding`, otherwise nearest even is; overflow may saturate or, where the
    format can, give its own Inf or NaN.
    """
    fmt, capabilities = get_scalar(element), session.capabilities
    roundings = [Rounding.RNE]
    if capabilities.has("encode", "rounding"):
        roundings = [r for r in Rounding if r is not Rounding.SR]
    encoded: list[_Encoded] = []
    for case in load_encode_cases(element):
        wants_own = case.overflow is Overflow.OWN
        if wants_own and not capabilities.has("encode", "overflow"):
            continue
        places = kept_lanes("encode", element, case.id, len(case.x))
        if not places:
            continue
        x = case.x[list(places)]
        for rounding in roundings:
            extra: dict[str, Any] = {}
            if capabilities.has("encode", "rounding"):
                extra["rounding"] = rounding.value
            if capabilities.has("encode", "overflow"):
                extra["overflow"] = case.overflow.value
            label = case.id if len(roundings) == 1 else f"{case.id}@{rounding.value}"
            expected = case.codes[rounding][list(places)]
            returned = _encode_lanes(session, x, element, extra)
            encoded.append(_Encoded(case.topic, label, case.id, rounding, wants_own, x, expected, returned, places, extra))
    # Where no text says how to round, what was asked for is asked in all roundings: a mask of the fraction has its wrong bit in any.
    for rounding in roundings if topic_level("tie-even", "encode", element) is Level.OPEN else [Rounding.RNE]:
        encoded += _observe_bfloat16(session, element, rounding)
    own = set()
    if fmt.nan_code is not None and not capabilities.has("encode", "overflow"):
        own = _overflows_to_own(encoded, fmt)
    known = _find_known(encoded, fmt)
    for number, item in enumerate(encoded):
        _judge_encode_case(item, fmt, scorecard, own=(item.topic, item.rounding) in own, known=known[number])
    if topic_level("tie-even", "encode", element) is Level.OPEN:
        _judge_one_rounding(encoded, known, fmt, scorecard, named=capabilities.has("encode", "rounding"))
    return {}


def _judge_one_rounding(
    cases: Sequence[_Encoded],
    known: Sequence[Mapping[Explanation, npt.NDArray[np.int64]]],
    fmt: ScalarFormat,
    scorecard: Scorecard,
    *,
    named: bool,
) -> None:
    """Where the rounding is open, one explains all ordinary numbers: the one that was asked for, or else any."""
    for wanted in dict.fromkeys(c.rounding for c in cases):
        members = [(n, i) for n, c in enumerate(cases) if c.rounding is wanted for i in range(len(c.x)) if 2.0**-126 <= c.x[i] <= 2.0**127]
        x = np.array([cases[n].x[i] for n, i in members], np.float32)
        policy = mxspec.elements.default_nan_policy(fmt)
        tables = {r: encode_table(fmt, r, Overflow.SATURATE, policy)[table_index(x)] for r in ROUNDING_TEXT}
        answers = [cases[n].returned[i] for n, i in members]
        got = np.array([-1 if isinstance(answer, NoAnswer) else int(answer) for answer in answers])
        nearest_log2 = tables[Rounding.RTZ] + ((x.view(np.uint32) & 0x7FFFFF) >= SQRT2).astype(np.uint8)
        candidates = [tables[wanted]] if named else [*tables.values(), nearest_log2]
        best = max(candidates, key=lambda codes: int((codes == got).sum()))
        for (n, i), want, code in zip(members, best.tolist(), got.tolist(), strict=True):
            if code not in (want, -1):
                case, equals = cases[n], [e for e, codes in known[n].items() if codes[i] == code]
                origin = f"{case.case}[{case.places[i]}]"
                show = partial(_show_encoded, case, i, want, fmt, own=case.wants_own)
                scorecard.count("choice", case.name(i), origin=origin, ok=False, equals=equals, show=show)


def _observe_bfloat16(session: TargetSession, element: str, rounding: Rounding) -> Iterator[_Encoded]:
    """Every sign, exponent and upper three significand bits among bfloat16's finite numbers, with nothing and with
    something below.

    A table in place of arithmetic has its wrong entry anywhere.
    """
    fmt, extra = get_scalar(element), dict[str, Any]()
    if session.capabilities.has("encode", "rounding"):
        extra["rounding"] = rounding.value
    if session.capabilities.has("encode", "overflow"):
        extra["overflow"] = Overflow.SATURATE.value
    upper = np.arange(1 << 12, dtype=np.uint32)
    every = np.stack([upper << 20, upper << 20 | upper * 5 % 15 + 1 << 16], axis=1).reshape(-1).view(np.float32)
    every = every[np.isfinite(every) & (every != 0) & (np.signbit(every) <= fmt.signed)]
    midway = [float((fmt.magnitude(m) + fmt.magnitude(m + 1)) / 2) for m in range(fmt.max_code)]
    every = every[~np.isin(np.abs(every).astype(np.float64), midway)]  # ties are a topic of their own
    within = np.abs(every) <= float(fmt.max_value)
    for topic, x in (("mixture", every[within]), ("overflow", every[~within])):
        for start in range(0, len(x), 512):
            part = x[start : start + 512]
            label = f"bfloat16 numbers from {int(part[0].view(np.uint32)) >> 16:04x}"
            if rounding is not Rounding.RNE:
                label += f"@{rounding.value}"
            places = kept_lanes("encode", element, label, len(part))
            if places:
                part = part[list(places)]
                expected = mxspec.encode(part, element, rounding=rounding)
                returned = _encode_lanes(session, part, element, extra)
                yield _Encoded(topic, label, label, rounding, False, part, expected, returned, places, extra)


def _encode_lanes(session: TargetSession, x: npt.NDArray[np.float32], element: str, extra: dict[str, Any]) -> list[Any]:
    def call(lanes: Sequence[float]) -> list[Any]:
        return list(session.call("encode", np.array(lanes, np.float32), element, **extra))

    return run_bisected(list(x), call)


def _find_known(cases: Sequence[_Encoded], fmt: ScalarFormat) -> list[dict[Explanation, npt.NDArray[np.int64]]]:
    """For each case the codes of what explains wrong ones, and no right one, of all cases that were asked alike."""
    found: list[dict[Explanation, npt.NDArray[np.int64]]] = [{} for _ in cases]
    for asked in dict.fromkeys((c.rounding, c.wants_own) for c in cases):
        numbers = [n for n, c in enumerate(cases) if (c.rounding, c.wants_own) == asked]
        members = [cases[n] for n in numbers]
        returned = [-1 if isinstance(code, NoAnswer) else int(code) for c in members for code in c.returned]
        known = list_known(
            np.concatenate([c.x for c in members]), fmt, asked[0], own=asked[1], returned=np.array(returned, np.int64),
            expected=np.concatenate([c.expected for c in members]).astype(np.int64),
        )  # fmt: skip
        ends = np.cumsum([len(c.x) for c in members])[:-1]
        for explanation, codes in known.items():
            for number, part in zip(numbers, np.split(codes, ends), strict=True):
                found[number][explanation] = part
    return found


def _judge_encode_case(
    item: _Encoded, fmt: ScalarFormat, scorecard: Scorecard, *, own: bool, known: Mapping[Explanation, npt.NDArray[np.int64]]
) -> None:
    topic, x, rounding = item.topic, item.x, item.rounding
    expected = _own_overflow(x, fmt, rounding) if own else item.expected
    legal_nan = _explained_nan(x, item.returned, fmt)
    zero = {fmt.join(s, 0) for s in (0, 1)}
    for i, code in enumerate(item.returned):
        lane, origin = item.name(i), f"{item.case}[{item.places[i]}]"
        if isinstance(code, NoAnswer):
            given = partial(describe_number, x[i], fmt.name, {"rounding": rounding.value})
            scorecard.count_no_answer(topic, lane, code, origin=origin, given=given)
            continue
        code = int(code)
        ok = code == expected[i] or (fmt.is_nan(code) and fmt.is_nan(int(expected[i])))  # an overflow's NaN has either sign
        show = partial(_show_encoded, item, i, int(expected[i]), fmt, own=own or item.wants_own)
        if np.isnan(x[i]):
            ok = i in legal_nan
        elif topic != "zero-sign" and not ok and code in zero and int(expected[i]) in zero:
            scorecard.count("zero-sign", lane, origin=origin, ok=False, show=show)
            ok = True
        elif fmt.twos_complement and code == fmt.sign_bit and expected[i] == fmt.sign_bit + 1:
            ok = bool(is_lowest_allowed(fmt, x[i : i + 1], rounding)[0])
        equals = [] if ok else [explanation for explanation, codes in known.items() if codes[i] == code]
        scorecard.count(topic, lane, origin=origin, ok=ok, equals=equals, show=show)


def _show_encoded(item: _Encoded, i: int, expected: int, fmt: ScalarFormat, *, own: bool) -> Failure:
    """own: the expected code is that of an encoder which overflows to the format's own Inf or NaN."""
    overflow = ', overflow="own"' if own else ""
    code, x, rounding = int(item.returned[i]), item.x[i], item.rounding
    bits = int(x.view(np.uint32))
    snippet = (
        "import numpy as np, mxspec\n"
        f"x = np.array([0x{bits:08x}], np.uint32).view(np.float32)\n"
        f'print(mxspec.encode(x, "{fmt.name}", rounding="{rounding.value}"{overflow}))  # {expected:#04x}'
    )
    how = {"element": fmt.name, "rounding": rounding.value} | ({"overflow": "own"} if own else {})
    shown = show_conversion(item.name(i), x, expected, code, fmt, how=how, snippet=snippet)
    if np.isnan(x):  # which code of a NaN is right hangs on the others
        return shown
    answered = np.flatnonzero([not isinstance(answer, NoAnswer) for answer in item.returned])
    return keep_encoded(shown, item.x[answered], int(np.searchsorted(answered, i)), fmt, expected, code, item.options)


def keep_encoded(
    shown: Failure, x: npt.NDArray[np.float32], at: int, fmt: ScalarFormat, expected: int, code: int, options: Mapping[str, Any]
) -> Failure:
    """A failure with the call in which a number got a wrong code. What is wrong as a zero is wrong by its sign."""
    zeros = {fmt.join(sign, 0) for sign in (0, 1)}
    legal = zeros if expected in zeros and code not in zeros else {expected}
    if (
        fmt.twos_complement
        and expected == fmt.sign_bit + 1
        and is_lowest_allowed(fmt, x[at : at + 1], Rounding(options.get("rounding", "rne")))[0]
    ):
        legal |= {fmt.sign_bit}
    return keep_items(
        shown, "encode", fmt.name, x[:, None], at, options=options,
        is_wrong=lambda answer: int(answer) not in legal, write=lambda answer: show_code(int(answer), fmt),
    )  # fmt: skip


def judge_decode(session: TargetSession, element: str, scorecard: Scorecard) -> dict[str, Failure]:
    """Enter every code of one scalar format."""
    fmt = get_scalar(element)
    codes = np.arange(fmt.code_count, dtype=np.uint8)
    expected = mxspec.decode(codes, element)

    def call(chunk: Sequence[int]) -> list[Any]:
        return list(session.call("decode", np.array(chunk, np.uint8), element))

    returned = run_bisected([int(c) for c in codes], call)
    named: frozenset[Explanation] = frozenset()
    if not any(isinstance(value, NoAnswer) for value in returned):
        named = name_codes(fmt, np.array(returned, np.float32))
    for code, value, want in zip(codes, returned, expected, strict=True):
        label = f"code-{int(code):02x}"
        if isinstance(value, NoAnswer):
            scorecard.count_no_answer("code", label, value, given=partial(dict, code=f"{int(code):02x}", element=element))
            continue
        got = np.float32(value)
        show = partial(_show_decoded, codes, int(code), element, want, got)
        same = got.view(np.uint32) == want.view(np.uint32) or (np.isnan(got) and np.isnan(want))
        if not same and got == 0 and want == 0:
            scorecard.count("zero-sign", label, ok=False, show=show)
            same = True
        elif want == 0 and fmt.has_minus_zero:
            scorecard.count("zero-sign", label, ok=bool(same))
        scorecard.count("code", label, ok=bool(same), equals=named, show=show)
    return {}


def _show_decoded(codes: npt.NDArray[np.uint8], code: int, element: str, want: np.float32, got: np.float32) -> Failure:
    snippet = f'import numpy as np, mxspec\nprint(mxspec.decode(np.array([0x{code:02x}], np.uint8), "{element}"))'
    given = {"code": f"{code:02x}", "element": element}
    return keep_items(
        show_value(f"code-{code:02x}", given, float(want), float(got), steps=[], snippet=snippet), "decode", element, codes[:, None], code,
        is_wrong=partial(is_other_value, want, signs=bool(want == got)), write=write_value,
    )  # fmt: skip
