"""Two implementations against each other: where they part first, and whose rule each follows there."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.acceptance import fold_zeros
from mxspec.dot import ACCUMULATORS, DEFAULT_ACCUMULATOR, EXACTLY
from mxspec.formats import BLOCKS, BlockFormat, get_rows
from mxspec_conformance.judge.choosing import require_formats
from mxspec_conformance.judge.products.asked import Asked, ask_cases
from mxspec_conformance.judge.products.cases import list_cases
from mxspec_conformance.judge.quantize import count_failing
from mxspec_conformance.judge.shapes import fit_session
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.observations.quantize import Observed, Unanswered, observe_quantize, tensor_argument
from mxspec_conformance.observations.scale import ObservedScales, observe_scales
from mxspec_conformance.observations.tables import observe_tables, same_values
from mxspec_conformance.targets.errors import CallError, own_errors
from mxspec_conformance.targets.operands import Product, parse_product
from mxspec_conformance.targets.product_fitting import fit_product
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_conformance.transports.opening import open_target
from mxspec_vectors.cases import QuantizeCase, load_quantize_cases, load_scale_cases
from mxspec_vectors.tensor_scales import native_scale

Answer = tuple[int, npt.NDArray[np.uint8]]


@dataclass(frozen=True, slots=True)
class Difference:
    """The plainest block that two implementations answer differently."""

    case: QuantizeCase
    #: Scale byte and codes of either.
    answers: tuple[Answer, Answer]
    #: Profiles that give either answer.
    profiles: tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(slots=True)
class FormatDiff:
    """Two implementations in one format."""

    format: str
    #: operation -> (cases compared, cases that differ).
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    first: Difference | None = None
    #: Why nothing, or not everything, was compared.
    notes: list[str] = field(default_factory=list)

    @property
    def differ(self) -> bool:
        """Whether they part anywhere."""
        return any(different for _, different in self.counts.values())


@dataclass(slots=True)
class TargetDiff:
    """Two implementations in every format that both offer."""

    #: Name and version of either.
    targets: tuple[str, str]
    formats: list[FormatDiff] = field(default_factory=list)

    @property
    def compared(self) -> int:
        """Cases that both answered."""
        return sum(compared for f in self.formats for compared, _ in f.counts.values())

    @property
    def differ(self) -> bool:
        """Whether they diverge anywhere."""
        return any(f.differ for f in self.formats)


def diff(
    first: Any,
    second: Any,
    *,
    formats: Sequence[str] | None = None,
    timeout: float = 60.0,
    progress: Callable[[str], None] = lambda _: None,
) -> TargetDiff:
    """Compare two targets bit for bit on the golden vectors. This is `mxspec diff`.

    Args:
        first: As for `check`.
        second: As for `check`.
        formats: Block formats; default: those that both list.
        timeout: Seconds that one call may take; not for targets in this process.
        progress: Called with the name of each format.

    Returns:
        For each format and operation how many cases were compared and how many differ, and the simplest block on which
        the two differ.

    Raises:
        TargetError: A target does not load, or does not offer one of the formats.
        ValueError: They have no format in common.
    """
    sessions: list[TargetSession] = []
    try:
        sessions += (fit_session(open_target(target, timeout=timeout)) for target in (first, second))
        for session in sessions:
            require_formats(session.capabilities, formats)
        common = [f for f in BLOCKS if all(f in s.capabilities.formats for s in sessions) and (not formats or f in formats)]
        products = [] if formats else [text for text in sessions[0].capabilities.products if text in sessions[1].capabilities.products]
        if not common and not products:
            offered = "; ".join(
                f"{s.capabilities.name}: {', '.join((*s.capabilities.formats, *s.capabilities.products))}" for s in sessions
            )
            raise ValueError(f"no format and no product in common to compare; {offered}")
        first_name, second_name = (f"{s.capabilities.name} {s.capabilities.version}" for s in sessions)
        result = TargetDiff((first_name, second_name))
        for name in common:
            progress(name)
            result.formats.append(diff_format(sessions[0], sessions[1], get_rows(name)))
        for text in products:
            progress(text)
            result.formats.append(diff_product(sessions[0], sessions[1], parse_product(text)))
        return result
    finally:
        for session in sessions:
            session.close()


@own_errors()
def diff_format(first: TargetSession, second: TargetSession, fmt: BlockFormat) -> FormatDiff:
    """Every quantize, scale and dequantize case of a format through both, bit for bit; NaN equals NaN."""
    result = FormatDiff(fmt.name)
    both = (first, second)
    if drawn := [e.capabilities.name for e in both if not e.capabilities.repeats]:
        result.notes.append(f"quantize and scale are not compared: the same call of {' and of '.join(drawn)} may give other bits")
    else:
        _diff_quantize(both, fmt, result)
        _diff_scales(both, fmt, result)
    if all(e.capabilities.has("dequantize") for e in both):
        _diff_dequantize(both, fmt, result)
    return result


def _note_lost(both: tuple[TargetSession, TargetSession], operation: str, lost: Iterable[Sequence[NoAnswer]], result: FormatDiff) -> None:
    """Say why a target gives no answers, and where its code raised; once where another operation had the same reason."""
    for place, session, reasons in zip(("first", "second"), both, lost, strict=True):
        asked = [reason for reason in reasons if not reason.untried and not reason.given_up]
        if asked:
            frames = [line.strip() for line in asked[0].detail.splitlines() if line.lstrip().startswith('File "')]
            who = f"the {place} target, {session.capabilities.name} {session.capabilities.version},"
            why = "; ".join([asked[0].message, *frames[-1:]])
            if not any(who in note and why in note for note in result.notes):
                result.notes.append(f"{operation}: {who} leaves {len(asked)} without an answer, the first by {why}")


@own_errors()
def diff_product(first: TargetSession, second: TargetSession, product: Product) -> FormatDiff:
    """Every call of the judge through both, in the sizes, dtypes and options that both take, bit for bit; NaN equals NaN.

    Of calls that differ it is said how many answers of each lie where float32 additions in any order may bring them.
    """
    result, both = FormatDiff(product.name), [fit_product(session, product) for session in (first, second)]
    one, other = (session.capabilities for session in both)
    (m, n, k), (u, v, w) = one.product_shapes, other.product_shapes
    shared = replace(
        one,
        product_shapes=(math.lcm(m, u), math.lcm(n, v), math.lcm(k, w)),
        out_dtypes=tuple(d for d in one.out_dtypes if d in other.out_dtypes) or one.out_dtypes,
        keywords={**one.keywords, "matmul": tuple(k for k in one.keywords["matmul"] if k in other.keywords["matmul"])},
    )
    accumulator = ACCUMULATORS[DEFAULT_ACCUMULATOR]
    cases = list_cases(product, shared, accumulator)
    given = [ask_cases(s, cases) for s in both]
    _note_lost((first, second), "matmul", ([x.answer for x in side if isinstance(x.answer, NoAnswer)] for side in given), result)
    asked = [(a, b) for a, b in zip(*given, strict=True) if a.output is not None and b.output is not None]

    def same(a: Asked, b: Asked) -> npt.NDArray[np.bool_]:
        return same_values(a.output.astype(np.float32), b.output.astype(np.float32))

    differing = [(a, b) for a, b in asked if not same(a, b).all()]
    result.counts["matmul"] = len(asked), len(differing)
    if len(asked) < len(cases):
        result.notes.append(f"{len(cases) - len(asked)} of {len(cases)} calls were not answered by both")
    if differing:
        legal = [sum(x.is_right(accumulator, EXACTLY) for x in side) for side in zip(*differing, strict=True)]
        a, b = min(differing, key=lambda pair: math.prod(pair[0].size))
        i, j = (int(n) for n in np.argwhere(~same(a, b))[0])
        m, n, k = a.size
        calls, unlike = (Counter(a.case.topic for a, _ in pairs) for pairs in (asked, differing))
        result.notes += [
            f"of {len(differing)} calls that differ {legal[0]} and {legal[1]} are right in {accumulator.text}",
            f"the smallest: {a.case.topic}, {a.case.label}, m x n x k = {m} x {n} x {k}: output [{i}, {j}] is "
            f"{float(a.output[i, j])!r} and {float(b.output[i, j])!r}",
            "by requirement: " + ", ".join(f"{topic} {count} of {calls[topic]}" for topic, count in sorted(unlike.items())),
        ]
    return result


def _diff_quantize(both: tuple[TargetSession, TargetSession], fmt: BlockFormat, result: FormatDiff) -> None:
    found = []
    for session in both:
        answered, unanswered = observe_quantize(session, fmt.name, load_quantize_cases(fmt.name))
        items: list[Observed | Unanswered] = [*answered, *unanswered]
        found.append({(i.case.id, i.dtype): i for i in items})
    _note_lost(both, "quantize", ([i.reason for i in items.values() if isinstance(i, Unanswered)] for items in found), result)
    compared, differing, one_sided = 0, [], 0
    for key in found[0].keys() & found[1].keys():
        a, b = found[0][key], found[1][key]
        if isinstance(a, Observed) and isinstance(b, Observed):
            compared += 1
            if a.scales.tobytes() != b.scales.tobytes() or a.codes.tobytes() != b.codes.tobytes():
                differing.append((a, b))
        elif isinstance(a, Observed) != isinstance(b, Observed):
            one_sided += 1
    if one_sided:
        result.notes.append(f"{one_sided} quantize cases were answered by one of the two only")
    result.counts["quantize"] = compared, len(differing)
    rows = [(a, b) for a, b in differing if a.case.is_row and a.dtype == "float32"]
    if rows:
        a, b = min(rows, key=lambda pair: _complexity(pair[0], pair[1], fmt))
        near = [_rank_profiles([i for i in items.values() if isinstance(i, Observed)], fmt) for items in found]
        result.first = shrink(both, fmt, a, b, near)


def _complexity(a: Observed, b: Observed, fmt: BlockFormat) -> tuple[bool, bool, int, int]:
    """Ordinary numbers before extreme ones, other differences before signs of zero, few lanes before many."""
    bits = int(np.abs(a.case.x).max().view(np.uint32))
    same_scale = a.scales.tobytes() == b.scales.tobytes()
    only_signs = same_scale and not _beyond_signs(a.codes, b.codes, fmt).any()
    return bits >= 0x7F800000 or bits == 0, only_signs, abs((bits >> 23) - 127) // 16, int(np.count_nonzero(a.case.x))


def _beyond_signs(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8], fmt: BlockFormat) -> npt.NDArray[np.bool_]:
    """Where codes differ, zeros of either sign taken for one."""
    fold = fold_zeros(fmt.element)
    different: npt.NDArray[np.bool_] = fold[a] != fold[b]
    return different


def _rank_profiles(seen: Sequence[Observed], fmt: BlockFormat) -> list[str]:
    """All profiles, those nearest to what was observed first."""
    counted = count_failing(seen, [], fmt, mxspec.list_profiles(fmt))
    answered = {n: sum(n in s.case.answers for s in seen) for n in counted}
    return sorted(counted, key=lambda n: (counted[n] - answered[n], counted[n]))


def shrink(
    both: tuple[TargetSession, TargetSession], fmt: BlockFormat, a: Observed, b: Observed, near: Sequence[Sequence[str]]
) -> Difference:
    """The same difference with fewer lanes: the maximum alone, or with one lane, if the two still part there."""
    x = a.case.x.reshape(-1)
    finite = np.where(np.isfinite(x), np.abs(x), -1)
    largest = int(np.argmax(finite))
    codes = a.codes.reshape(-1), b.codes.reshape(-1)
    wrong = [*np.flatnonzero(_beyond_signs(*codes, fmt)).tolist(), *np.flatnonzero(codes[0] != codes[1]).tolist()]
    for keep in ({largest}, *({largest, lane} for lane in wrong[:8]), *({lane} for lane in wrong[:2])):
        kept = np.zeros_like(x)
        kept[list(keep)] = x[list(keep)]
        case = QuantizeCase(a.case.id, a.case.topic, kept.reshape(1, -1), tensor=a.case.tensor)
        found = [_ask(session, case, fmt) for session in both]
        if found[0] is not None and found[1] is not None and not _same(found[0], found[1]):
            return _make_difference(case, fmt, found[0], found[1], near)
    answers = [(int(s.scales.reshape(-1)[0]), s.codes.reshape(-1)) for s in (a, b)]
    return _make_difference(a.case, fmt, answers[0], answers[1], near)


def _same(a: Answer, b: Answer) -> bool:
    return a[0] == b[0] and bool((a[1] == b[1]).all())


def _ask(session: TargetSession, case: QuantizeCase, fmt: BlockFormat) -> Answer | None:
    try:
        codes, scales = session.call("quantize", case.x, fmt.name, **tensor_argument(case.tensor, session.capabilities))
    except CallError:
        return None
    return int(scales.reshape(-1)[0]), codes.reshape(-1)


def _make_difference(case: QuantizeCase, fmt: BlockFormat, a: Answer, b: Answer, near: Sequence[Sequence[str]]) -> Difference:
    names = [sorted(name_answer(case, fmt, x), key=order.index) for x, order in zip((a, b), near, strict=True)]
    return Difference(case, (a, b), (tuple(names[0]), tuple(names[1])))


def name_answer(case: QuantizeCase, fmt: BlockFormat, answer: Answer) -> tuple[str, ...]:
    """The profiles that give this answer to a block."""
    names = []
    for profile in mxspec.list_profiles(fmt):
        try:
            scale = native_scale(profile, case.tensor)
            with np.errstate(all="ignore"):
                t = mxspec.quantize(case.x, fmt, profile=profile, tensor_scale=scale)
        except ValueError:
            continue
        if _same((int(t.scales.reshape(-1)[0]), t.codes.reshape(-1)), answer):
            names.append(profile.id)
    return tuple(names)


def _diff_scales(both: tuple[TargetSession, TargetSession], fmt: BlockFormat, result: FormatDiff) -> None:
    cases = load_scale_cases(fmt.name)
    observed = [observe_scales(e, fmt.name, cases) for e in both]
    _note_lost(both, "scale", ([o.returned for o in items if isinstance(o.returned, NoAnswer)] for items in observed), result)
    found = [_index_scales(items) for items in observed]
    common = found[0].keys() & found[1].keys()
    result.counts["scale"] = len(common), sum(found[0][key] != found[1][key] for key in common)


def _index_scales(results: Sequence[ObservedScales]) -> dict[str, int]:
    """Label of a maximum -> scale byte."""
    return {o.case.label(i): int(byte) for o in results if not isinstance(o.returned, NoAnswer) for i, byte in enumerate(o.returned)}


def _diff_dequantize(both: tuple[TargetSession, TargetSession], fmt: BlockFormat, result: FormatDiff) -> None:
    found = [{o.case: o for o in observe_tables(e, fmt.name)} for e in both]
    _note_lost(both, "dequantize", ([o.returned for o in items.values() if isinstance(o.returned, NoAnswer)] for items in found), result)
    compared = different = 0
    for case in found[0].keys() & found[1].keys():
        a, b = found[0][case], found[1][case]
        if not isinstance(a.returned, NoAnswer) and not isinstance(b.returned, NoAnswer):
            rows = np.intersect1d(a.answered, b.answered)
            compared += a.returned[rows].size
            different += int((~same_values(a.returned, b.returned))[rows].sum())
    result.counts["dequantize"] = compared, different
