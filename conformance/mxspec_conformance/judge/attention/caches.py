"""Judging `append_cache` and `read_cache` bit for bit: which rows numbers become, where these lie, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.attention import CacheSpec, Quantizer, RowFormat, Scaling, decode_rows, list_quantizers, parse_cache
from mxspec.attention.caches import find_places, read_rows, view_rows, write_rows
from mxspec.elements import decode
from mxspec_conformance.judge.attention.cache_calls import judge_appends, judge_reads
from mxspec_conformance.judge.attention.cache_cases import CacheCase, clamps, find_page, keeps_nan, list_appends, list_options, list_reads
from mxspec_conformance.judge.attention.judging import FEW, ask, judge_tallies
from mxspec_conformance.judge.explanation import Cause, Explanation
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.judge.wanted import Wanted
from mxspec_conformance.observations.bisection import NoAnswer, unsupported
from mxspec_conformance.observations.selection import keeps
from mxspec_conformance.results.report import Failure, Requirement, Verdict
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.sessions import TargetSession

Array = npt.NDArray[Any]
APPEND, READ = "append_cache", "read_cache"


def list_topics(function: str, spec: CacheSpec, *, scaled: bool) -> list[str]:
    """The topics of a function and a cache."""
    stored = any(fmt.scaling in (Scaling.BLOCK, Scaling.TOKEN) for fmt in (spec.k, spec.v))
    topics = (
        [
            "place",
            "padding",
            "code",
            *["overflow"] * (clamps(spec.k) or clamps(spec.v)),
            *["nan"] * (keeps_nan(spec.k) or keeps_nan(spec.v)),
        ]
        if function == APPEND
        else ["place", "tail", "code"]
    )
    topics += ["block-scale"] * (stored and function == APPEND) + ["tensor-scale"] * scaled
    return [*topics, "state", "memory", "call-size"]


def takes_scales(session: TargetSession, function: str, spec: CacheSpec) -> bool:
    """Whether calls are given scales."""
    return any(session.capabilities.has(function, f"{p}_scale") and getattr(spec, p).takes_scale for p in "kv")


def judge_cache(session: TargetSession, function: str, text: str, wanted: Wanted) -> list[Requirement]:
    """The requirements of one function for one cache."""
    spec = parse_cache(text)
    scorecard = Scorecard(function, spec.name, wanted)
    options = {n: v for n, v in list_options(spec).items() if session.capabilities.has(function, n)}
    make = partial(list_appends, dtype=DTYPES[session.capabilities.dtypes[0]]) if function == APPEND else list_reads
    cases = [case for case in make(spec, options) if keeps(function, spec.name, case.label)]
    called = [(case, ask(session, function, case)) for case in cases]
    taken = {find_page(case) for case, answer in called if not isinstance(answer, NoAnswer)}
    answered = [(case, answer) for case, answer in called if not isinstance(answer, NoAnswer)]
    quantizers = None if function == READ else find_quantizers(spec, answered)
    for case, answer in called:
        if isinstance(answer, NoAnswer):
            limited = answer.is_refusal and bool(taken) and find_page(case) not in taken
            scorecard.count_no_answer(case.topic, case.label, unsupported(answer.message) if limited else answer)
        else:
            _enter(case, answer, None if quantizers is None else quantizers[1], scorecard)
    failing = {label for tally in scorecard.tallies.values() for label in tally.failing}
    if answered and len(failing) <= 1 + len(called) // FEW:
        page = 16 if 16 in taken else min(taken)
        if quantizers is None:
            judge_reads(session, spec, scorecard, page)
        else:
            judge_appends(session, spec, scorecard, page, quantizers[1])
    requirements = list(judge_tallies(scorecard, _MISTAKES))
    for requirement in requirements:
        if requirement.topic == "code" and quantizers is not None and requirement.verdict is Verdict.PASS:
            requirement.note = f"quantized by {quantizers[0]}"
    return requirements


def find_quantizers(spec: CacheSpec, answered: list[tuple[CacheCase, Any]]) -> tuple[str, tuple[Quantizer, Quantizer]]:
    """What makes rows of K, and of V: those that make the most calls right, the first of equals."""
    coded = [(c, a) for c, a in answered if c.topic in ("code", "tensor-scale")] or answered
    names, found = [], []
    for part, fmt in (("k", spec.k), ("v", spec.v)):
        best: tuple[int, str, Quantizer] | None = None
        for name, quantizer in list_quantizers(fmt):
            try:
                pair = (quantizer, _blank(spec.v)) if part == "k" else (_blank(spec.k), quantizer)
                wrong = sum(any(w[part == "v"].any() for _, w in _list_wrong(c, a, c.compute(pair))) for c, a in coded)
            except ValueError:  # a profile without a tensor scale
                continue
            if best is None or wrong < best[0]:
                best = wrong, name, quantizer
            if not wrong:
                break
        assert best is not None
        names.append(best[1])
        found.append(best[2])
    return " and ".join(dict.fromkeys(names)), (found[0], found[1])


def _blank(fmt: RowFormat) -> Quantizer:
    """Rows that nobody looks at."""
    return lambda x, _: np.zeros((len(x), fmt.width(x.shape[-1])), fmt.dtype)


def _enter(case: CacheCase, answer: Any, quantizers: tuple[Quantizer, Quantizer] | None, scorecard: Scorecard) -> None:
    right = case.compute(quantizers)
    if case.slots is None:
        right = min(case.list_readings(), key=lambda r: sum(int(_differ(a, b).sum()) for a, b in zip(answer, r, strict=True)))
    for topic, wrong in _list_wrong(case, answer, right):
        ok = not any(w.any() for w in wrong)
        explained = frozenset() if ok else _explain(case, answer, quantizers)
        show = partial(_show, case, answer, right, wrong)
        scorecard.count(topic, case.label, ok=ok, equals=explained, show=show)


def _list_wrong(case: CacheCase, answer: Any, right: tuple[Array, Array]) -> Iterator[tuple[str, list[Array]]]:
    """(topic, what of K and of V is wrong there)."""
    wrong = [_differ(a, r) for a, r in zip(answer, right, strict=True)]
    if case.slots is None:
        yield case.topic, wrong
        return
    touched = []
    for part, given, cache in (("k", case.k, answer[0]), ("v", case.v, answer[1])):
        fmt: RowFormat = getattr(case.spec, part)
        rows = view_rows(cache, case.spec) if part == "k" else read_rows(cache, case.spec)
        mark: Array = np.zeros(rows.shape, np.uint8)
        kept, pages, places = find_places(case.slots, mark.shape[1])
        mark[pages, places, :, : fmt.count_codes(case.spec.d)] = 1
        mark[pages, places, :, fmt.count_codes(case.spec.d) :] = 2
        # Zeros may have any scale that is a number.
        zeros = (np.asarray(given)[kept] == 0).all(-1) & _are_zeros(rows[pages, places], fmt, fmt.count_codes(case.spec.d))
        mark[pages, places] = np.where(zeros[..., None], 3, mark[pages, places])
        if clamps(fmt):  # a NaN is as any other
            lost = np.isnan(np.asarray(given)[kept]) & np.isnan(decode(rows[pages, places], fmt.element))
            mark[pages, places] = np.where(lost, 3, mark[pages, places])
        touched.append(write_rows(mark, case.spec) if part == "v" else np.ascontiguousarray(view_rows(mark, case.spec)))
    yield case.topic, [w & (t == 1) for w, t in zip(wrong, touched, strict=True)]
    if any((t == 2).any() for t in touched):
        yield "block-scale", [w & (t == 2) for w, t in zip(wrong, touched, strict=True)]
    yield "padding", [w & (t == 0) for w, t in zip(wrong, touched, strict=True)]


def _are_zeros(rows: Array, fmt: RowFormat, codes: int) -> Array:
    """Whether rows stand for zeros; scales, which follow so many bytes of codes, may be bytes that are none."""
    legal: Array = np.ones(rows.shape[:-1], bool)
    if fmt.block is not None:
        legal &= (rows[..., codes:] < 1 << fmt.block.scale.bits).all(-1)
    return np.asarray(legal & (decode_rows(np.where(legal[..., None], rows, 0), fmt) == 0).all(-1))


def _differ(a: Array, b: Array) -> Array:
    """Items of other bits; numbers of other values: a NaN is as any other, and the sign of a zero is open."""
    if a.dtype == np.uint8:
        return np.not_equal(a, b)
    with np.errstate(invalid="ignore"):  # signalling NaN
        differ: Array = (a != b) & ~(np.isnan(a) & np.isnan(b))
    return differ


def _show(case: CacheCase, answer: Any, right: tuple[Array, Array], wrong: list[Array]) -> Failure:
    part = 0 if wrong[0].any() else 1
    place = tuple(int(n) for n in np.argwhere(wrong[part])[0])
    name = f"{'kv'[part]}{'_cache' if case.slots is not None else ''}[{', '.join(map(str, place))}]"
    given: dict[str, Any] = {"cache": case.spec.text, "call": case.label}
    count = sum(int(w.sum()) for w in wrong)
    steps = [f"{count} of {sum(w.size for w in wrong)} items differ"]
    if case.slots is not None:
        page, at = (place[0], place[2 if case.spec.heads_first else 1])
        slot = page * find_page(case) + at
        token = np.flatnonzero(case.slots == slot)
        steps.append(f"slot {slot} is place {at} of page {page}, " + (f"of token {int(token[0])}" if len(token) else "which no token has"))
    if case.slots is None:
        assert case.lengths is not None
        ends = np.cumsum(case.lengths)
        sequence = int(np.searchsorted(ends, place[0], "right"))
        steps.append(
            f"token {place[0]} is key {place[0] - int(ends[sequence] - case.lengths[sequence])} of sequence {sequence} of {len(ends)}"
        )
    shown = [f"{int(a[part][place]):02x}" if a[part].dtype == np.uint8 else repr(float(a[part][place])) for a in (right, answer)]
    return Failure(case=case.label, given=given, expected={name: shown[0]}, returned={name: shown[1]}, steps=steps)


def _turn(case: CacheCase) -> CacheCase:
    """Pages of heads and tokens for tokens and heads."""
    k, v = (a.reshape(a.shape[0], a.shape[2], a.shape[1], a.shape[3]) for a in (case.k_cache, case.v_cache))
    return replace(case, k_cache=k, v_cache=v, spec=replace(case.spec, heads_first=not case.spec.heads_first))


def _change_slots(case: CacheCase, change: Callable[[Array, int], Array]) -> CacheCase:
    assert case.slots is not None
    count = case.k_cache.shape[0] * find_page(case)
    slots = change(case.slots, count)
    if (slots >= count).any():
        raise ValueError
    return replace(case, slots=slots)


#: As if ... -> the call that would return this.
_MISTAKES: dict[str, Callable[[CacheCase], CacheCase]] = {
    "K and V were exchanged": lambda c: replace(c, k=c.v, v=c.k),
    "every slot were the next one": lambda c: _change_slots(c, lambda s, _: np.where(s < 0, s, s + 1)),
    "-1 were the last slot": lambda c: _change_slots(c, lambda s, count: np.where(s < 0, count - 1, s)),
    "-1 were slot 0": lambda c: _change_slots(c, lambda s, _: np.maximum(s, 0)),
    "tokens lay in the order in which they come": lambda c: _change_slots(c, lambda s, _: np.arange(len(s), dtype=np.int32)),
    "heads and tokens of a page were exchanged": _turn,
    "the block scales of V lay in the other order (v-4x4)": lambda c: replace(c, spec=replace(c.spec, swizzled=not c.spec.swizzled)),
    "given scales were left out": lambda c: replace(c, options={}),
    "given scales were inverse": lambda c: replace(c, options={n: (1 / s).astype(np.float32) for n, s in c.options.items()}),
    "V had the given scale of K": lambda c: replace(c, options=c.options | {"v_scale": c.options["k_scale"]}),
    "the page table of the first sequence were that of all": lambda c: replace(c, page_table=np.repeat(c.page_table[:1], len(c.page_table), 0)),  # type: ignore[index,arg-type]
}  # fmt: skip


#: ... had ... -> the stored block scales of a row, in other places.
_PLACES: dict[str, Callable[[Array], Array]] = {
    "each of the first block scales of a row four times": lambda scales: scales[..., np.arange(scales.shape[-1]) // 4],
    "the scale of the next block": lambda scales: np.roll(scales, -1, -1),
}


def _move_scales(quantizer: Quantizer, first: int, place: Callable[[Array], Array], x: Any, scale: Any) -> Any:
    rows = np.array(quantizer(x, scale))
    rows[..., first:] = place(rows[..., first:])
    return rows


def _list_other(case: CacheCase, answer: Any, quantizers: tuple[Quantizer, Quantizer] | None) -> Iterator[tuple[str, Any]]:
    """(as if ..., what makes the caches that would come back): mistakes in the call, in places of scales, a least scale."""
    for text, change in _MISTAKES.items():
        yield text, lambda change=change: change(case).compute(quantizers)
    if quantizers is None:
        return
    d = case.spec.d
    for whose in ("V", "K", "K and V"):
        for text, place in _PLACES.items():
            moved = tuple(
                partial(_move_scales, q, fmt.count_codes(d), place) if part in whose and fmt.block is not None else q
                for part, q, fmt in zip("KV", quantizers, (case.spec.k, case.spec.v), strict=True)
            )
            yield f"{whose} had {text}", lambda moved=moved: case.compute(moved)
    if case.spec.k == case.spec.v and case.spec.k.scaling is Scaling.TOKEN:
        written = [view_rows(cache, case.spec)[find_places(case.slots, find_page(case))[1:]] for cache in answer]  # type: ignore[arg-type]
        least = min(float(w[..., -4:].copy().view(np.float32).min()) for w in written)
        for _, quantizer in list_quantizers(case.spec.k, least) if np.isfinite(least) else ():
            yield f"scales were never below {least:g}", lambda q=quantizer: case.compute((q, q))


def _explain(case: CacheCase, answer: Any, quantizers: tuple[Quantizer, Quantizer] | None) -> frozenset[Explanation]:
    found = set()
    for text, make in _list_other(case, answer, quantizers):
        try:
            other = make()
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError):
            continue
        # In another shape the same bytes lie elsewhere.
        if all(a.size == b.size and not _differ(a.reshape(-1), b.reshape(-1)).any() for a, b in zip(answer, other, strict=True)):
            found.add(Explanation(Cause.ATTENTION_MISTAKE, text))
    return frozenset(found)
