"""Judging `append_cache` and `read_cache` bit for bit: which rows numbers become, where these lie, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.attention import (
    CacheSpec,
    Quantizer,
    RowFormat,
    Scaling,
    append_cache,
    decode_rows,
    find_places,
    join_rows,
    list_quantizers,
    parse_cache,
    read_cache,
    read_rows,
    view_rows,
)
from mxspec.attention.caches import write_rows
from mxspec.attention.rows import largest
from mxspec.formats import get_scalar
from mxspec_conformance.judge.attention.cache_calls import judge_appends, judge_reads
from mxspec_conformance.judge.attention.judging import judge_tallies
from mxspec_conformance.judge.attention.writing import draw_rows, lose_rows
from mxspec_conformance.judge.explanation import Cause, Explanation
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.judge.wanted import Wanted
from mxspec_conformance.observations.bisection import NoAnswer, run_once, unsupported
from mxspec_conformance.observations.selection import keeps
from mxspec_conformance.results.report import Failure, Requirement, Verdict
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.sessions import TargetSession

Array = npt.NDArray[Any]
APPEND, READ = "append_cache", "read_cache"
#: A target that is wrong in one call, and one more of so many, gets the calls of other sizes and memory as well.
FEW = 16
#: Heads of most caches, and sequences of calls that read.
HEADS, LENGTHS = 3, (1, 16, 0, 37, 64)
#: Slots of more pages than a byte counts; more sequences than 128 threads.
FAR = 4096
MANY = tuple(n * 7 % 23 for n in range(140))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CacheCase:
    """One call of either function."""

    topic: str
    label: str
    spec: CacheSpec
    k_cache: Array
    v_cache: Array
    #: New numbers [tokens, heads, d] and their slots; None: the call reads.
    k: Array | None = None
    v: Array | None = None
    slots: Array | None = None
    page_table: Array | None = None
    lengths: Array | None = None
    options: dict[str, Any]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the target is handed, in order."""
        caches = self.k_cache, self.v_cache
        first = (self.k, self.v, self.slots, *caches) if self.slots is not None else (*caches, self.page_table, self.lengths)
        return *first, self.spec.text

    def list_readings(self) -> Iterator[tuple[Array, Array]]:
        """What a read may return: numbers in float32; under given scales of many bits also in 16 bits, with products there or before."""
        yield self.compute()
        if self.slots is None and self.topic == "tensor-scale":
            for dtype in (ml_dtypes.bfloat16, np.float16):
                narrow = replace(self, options={name: s.astype(dtype).astype(np.float32) for name, s in self.options.items()})
                for case in (self, narrow):
                    k, v = (part.astype(dtype).astype(np.float32) for part in case.compute())
                    yield k, v

    def compute(self, quantizers: tuple[Quantizer, Quantizer] | None = None) -> tuple[Array, Array]:
        """What the model returns."""
        if self.slots is None:
            return read_cache(self.k_cache, self.v_cache, self.page_table, self.lengths, self.spec, **self.options)  # type: ignore[arg-type]
        return append_cache(
            self.k, self.v, self.slots, self.k_cache, self.v_cache, self.spec, **self.options, quantizers=quantizers,  # type: ignore[arg-type]
        )  # fmt: skip


def list_topics(function: str, spec: CacheSpec, *, scaled: bool) -> list[str]:
    """The topics of a function and a cache."""
    stored = any(fmt.scaling in (Scaling.BLOCK, Scaling.TOKEN) for fmt in (spec.k, spec.v))
    topics = (
        ["place", "padding", "code", *["overflow"] * (_clamps(spec.k) or _clamps(spec.v))]
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
    options = {n: v for n, v in _list_options(spec).items() if session.capabilities.has(function, n)}
    make = partial(_list_appends, dtype=DTYPES[session.capabilities.dtypes[0]]) if function == APPEND else _list_reads
    cases = [case for case in make(spec, options) if keeps(function, spec.name, case.label)]
    called = [(case, _ask(session, function, case)) for case in cases]
    taken = {_page(case) for case, answer in called if not isinstance(answer, NoAnswer)}
    answered = [(case, answer) for case, answer in called if not isinstance(answer, NoAnswer)]
    quantizers = None if function == READ else find_quantizers(spec, answered)
    for case, answer in called:
        if isinstance(answer, NoAnswer):
            limited = answer.is_refusal and bool(taken) and _page(case) not in taken
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


def _ask(session: TargetSession, function: str, case: CacheCase) -> Any:
    """The answer, which no later call changes, or why there is none."""
    answer = run_once(partial(session.call, function, *case.arguments, **case.options))
    return answer if isinstance(answer, NoAnswer) else tuple(np.array(part) for part in answer)


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
    differ: Array = (a != b) & ~(np.isnan(a) & np.isnan(b))
    return differ


def _page(case: CacheCase) -> int:
    return int(view_rows(case.k_cache, case.spec).shape[1])


def _show(case: CacheCase, answer: Any, right: tuple[Array, Array], wrong: list[Array]) -> Failure:
    part = 0 if wrong[0].any() else 1
    place = tuple(int(n) for n in np.argwhere(wrong[part])[0])
    name = f"{'kv'[part]}{'_cache' if case.slots is not None else ''}[{', '.join(map(str, place))}]"
    given: dict[str, Any] = {"cache": case.spec.text, "call": case.label}
    count = sum(int(w.sum()) for w in wrong)
    steps = [f"{count} of {sum(w.size for w in wrong)} items differ"]
    if case.slots is not None:
        page, at = (place[0], place[2 if case.spec.heads_first else 1])
        slot = page * _page(case) + at
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


def _swap_numbers(case: CacheCase) -> CacheCase:
    return replace(case, k=case.v, v=case.k)


def _turn(case: CacheCase) -> CacheCase:
    """Pages of heads and tokens for tokens and heads."""
    k, v = (a.reshape(a.shape[0], a.shape[2], a.shape[1], a.shape[3]) for a in (case.k_cache, case.v_cache))
    return replace(case, k_cache=k, v_cache=v, spec=replace(case.spec, heads_first=not case.spec.heads_first))


def _change_slots(case: CacheCase, change: Callable[[Array, int], Array]) -> CacheCase:
    assert case.slots is not None
    count = case.k_cache.shape[0] * _page(case)
    slots = change(case.slots, count)
    if (slots >= count).any():
        raise ValueError
    return replace(case, slots=slots)


def _change_scales(case: CacheCase, change: Callable[[dict[str, Any]], dict[str, Any]]) -> CacheCase:
    return replace(case, options=change(case.options))


#: As if ... -> the call that would return this.
_MISTAKES: dict[str, Callable[[CacheCase], CacheCase]] = {
    "K and V were exchanged": _swap_numbers,
    "every slot were the next one": lambda c: _change_slots(c, lambda s, _: np.where(s < 0, s, s + 1)),
    "-1 were the last slot": lambda c: _change_slots(c, lambda s, count: np.where(s < 0, count - 1, s)),
    "-1 were slot 0": lambda c: _change_slots(c, lambda s, _: np.maximum(s, 0)),
    "tokens lay in the order in which they come": lambda c: _change_slots(c, lambda s, _: np.arange(len(s), dtype=np.int32)),
    "heads and tokens of a page were exchanged": _turn,
    "the block scales of V lay in the other order (v-4x4)": lambda c: replace(c, spec=replace(c.spec, swizzled=not c.spec.swizzled)),
    "given scales were left out": lambda c: _change_scales(c, lambda o: {}),
    "given scales were inverse": lambda c: _change_scales(c, lambda o: {n: (1 / s).astype(np.float32) for n, s in o.items()}),
    "V had the given scale of K": lambda c: _change_scales(c, lambda o: o | {"v_scale": o["k_scale"]}),
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
        written = [view_rows(cache, case.spec)[find_places(case.slots, _page(case))[1:]] for cache in answer]  # type: ignore[arg-type]
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


def _list_options(spec: CacheSpec) -> dict[str, Any]:
    """Given scales that are exact under any quantizer: few bits, K's another one than V's."""
    count = HEADS if spec.per_head else 1
    factors = np.array([1, 2, 0.5])[:count]
    return {f"{p}_scale": (s * factors).astype(np.float32) for p, s in (("k", 0.5), ("v", 4.0)) if getattr(spec, p).takes_scale}


def _clamps(fmt: RowFormat) -> bool:
    return fmt.scaling is Scaling.GIVEN


def make_caches(spec: CacheSpec, pages: int, page: int, heads: int, draw: np.random.Generator) -> tuple[Array, Array]:
    """Caches of any bytes."""
    shape = (pages, heads, page) if spec.heads_first else (pages, page, heads)
    k, v = (
        draw.integers(0, 256, (*shape, fmt.width(spec.d) * fmt.dtype.itemsize)).astype(np.uint8).view(fmt.dtype) for fmt in (spec.k, spec.v)
    )
    return k, v


def draw_exact(fmt: RowFormat, shape: tuple[int, ...], d: int, draw: np.random.Generator, scale: float, dtype: Any) -> Array:
    """Numbers [*shape, d] that every quantizer stores as they are: each block holds the largest code."""
    rows = draw_rows(shape, d, fmt, draw)
    if fmt.scaling in (Scaling.BLOCK, Scaling.TOKEN):
        first, k = fmt.count_codes(d), d if fmt.block is None else fmt.block.k
        values = decode_rows(join_rows(*_unit_codes(rows, fmt, d), fmt), fmt)
        values[..., ::k] = np.copysign(largest(fmt), values[..., ::k])
        powers = 2.0 ** draw.integers(-3, 4, (*shape, d // k))
        assert first
        values = values * np.repeat(powers, k, -1)
    else:
        values = decode_rows(rows, fmt)
    scaled: Array = (values * scale).astype(dtype)
    return scaled


def draw_some_zeros(*args: Any) -> Array:
    """The same numbers, and every third head of a token zeros."""
    x = draw_exact(*args)
    x.reshape(-1, x.shape[-1])[::3] = 0
    return x


def _unit_codes(rows: Array, fmt: RowFormat, d: int) -> tuple[Array, Array]:
    """The codes of rows, and scales of 1."""
    from mxspec.attention.rows import split_rows

    codes, scales = split_rows(rows, fmt)
    if fmt.block is None:
        return codes, np.broadcast_to(np.ones(1, np.float32), (*scales.shape[:-1], 1))
    from mxspec.elements import encode

    return codes, np.broadcast_to(encode(np.ones(1, np.float32), fmt.block.scale), scales.shape)


def draw_thresholds(fmt: RowFormat, shape: tuple[int, ...], d: int, draw: np.random.Generator, scale: Array, dtype: Any) -> Array:
    """Numbers at and next to midpoints of codes, under scales of any size."""
    if fmt.scaling is Scaling.NONE:
        return draw.standard_normal((*shape, d)).astype(dtype)
    if fmt.element == "int8" and fmt.block is None:
        values = np.arange(0, 127.5, 0.5)
    else:
        element = get_scalar(fmt.element)
        codes = np.array([float(element.magnitude(c)) for c in range(element.max_code + 1)])
        values = np.sort(np.concatenate([codes, (codes[1:] + codes[:-1]) / 2]))
    chosen = (draw.choice(values, (*shape, d)) * draw.choice([-1, 1], (*shape, d))).astype(np.float32)
    chosen *= draw.choice(np.array([1, 1, 1 - 2.0**-20, 1 + 2.0**-20], np.float32), chosen.shape)
    k = 1 if fmt.scaling is Scaling.GIVEN else d if fmt.block is None else fmt.block.k
    if k > 1:
        most = largest(fmt) * draw.uniform(1, 2, (*shape, d // k)) ** draw.integers(0, 2, (*shape, d // k))
        chosen[..., ::k] = most * draw.choice([-1, 1], most.shape)
        chosen = draw.permuted(chosen.reshape(*shape, d // k, k), axis=-1).reshape(chosen.shape)
        # Block scales of a few binades have ends of their own.
        ends = (-4, 5) if fmt.block is not None and not fmt.block.scale.is_power_of_two else (-12, 7)
        chosen *= np.repeat(2.0 ** draw.integers(*ends, (*shape, d // k)), k, -1).astype(np.float32)
    scaled: Array = (chosen * scale).astype(dtype)
    return scaled


def _list_appends(spec: CacheSpec, options: dict[str, Any], dtype: Any) -> Iterator[CacheCase]:
    d, draw = spec.d, np.random.default_rng(5)

    def make(topic: str, label: str, page: int, slots: Array, pages: int, write: Any, heads: int = HEADS, given: Any = None) -> CacheCase:
        given = {} if given is None else given
        k_cache, v_cache = make_caches(spec, pages, page, heads, draw)
        k, v = (
            write(fmt, (len(slots), heads), d, draw, given[n].reshape(-1, 1) if n in given else np.float32(1), dtype)
            for fmt, n in ((spec.k, "k_scale"), (spec.v, "v_scale"))
        )
        return CacheCase(
            topic=topic, label=f"{label}, pages of {page}", spec=spec, k_cache=k_cache, v_cache=v_cache, k=k, v=v,
            slots=slots.astype(np.int32), options=given,
        )  # fmt: skip

    for page in spec.pages:
        pages = max(5, 20 // page)
        count = pages * page
        slots = draw.permutation(count)
        some = np.where(np.arange(count) % 3 == 1, -1, slots)
        yield make("place", "slots in any order", page, slots[: count // 2], pages, draw_exact)
        yield make("place", "every slot", page, slots, pages, draw_exact)
        yield make("place", "slots in order, the last page partly", page, np.arange(count - page // 2 - 1), pages, draw_exact)
        yield make("place", "slots of -1 among others", page, np.where(some == count - 1, -1, some), pages, draw_exact)
        yield make("place", "no slot but -1", page, np.full(4, -1), pages, draw_exact)
        yield make("place", "one token", page, slots[:1], pages, draw_exact)
        if not spec.per_head:
            yield make("place", "one head", page, slots[:7], pages, draw_exact, heads=1)
            yield make("place", "as many heads as tokens of a page", page, slots[:9], pages, draw_exact, heads=page)
        many = FAR // page + 1
        yield make("place", "few tokens in many pages", page, draw.permutation(many * page)[:20], many, draw_exact)
        yield make("code", "zeros among others", page, slots, pages, draw_some_zeros)
        yield make("code", "midpoints of codes", page, slots, pages, draw_thresholds)
        if options:
            yield make("tensor-scale", "given scales", page, slots[: count // 2 + 1], pages, draw_exact, given=options)
            odd = {name: (value * np.float32(1.3)).astype(np.float32) for name, value in options.items()}
            if not any(f.block for f in (spec.k, spec.v)):  # a profile may take NVFP4's tensor scale for another kind of it
                yield make("tensor-scale", "given scales that are no powers of two", page, slots, pages, draw_thresholds, given=odd)
        if _clamps(spec.k) and _clamps(spec.v):
            far = lambda *args: (draw_exact(*args).astype(np.float32) * 2.0**17).astype(dtype)  # noqa: E731
            if dtype != np.float16:
                yield make("overflow", "beyond the largest number", page, slots[:9], pages, far)


def _list_reads(spec: CacheSpec, options: dict[str, Any]) -> Iterator[CacheCase]:
    d, draw = spec.d, np.random.default_rng(6)

    def make(topic: str, label: str, page: int, lengths: tuple[int, ...], write: Any, given: Any = None, prefix: int = 0) -> CacheCase:
        needed = [-(-n // page) for n in lengths]
        order, table = draw.permutation(sum(needed) + 2), np.zeros((len(lengths), max(needed) + 1), np.int32)
        table[...] = order[-1]
        ends = np.cumsum(needed)
        for n, end in enumerate(ends):
            table[n, : needed[n]] = order[end - needed[n] : end]
        table[:, :prefix] = table[0, :prefix]
        k, v = (write((len(order), page, HEADS), d, fmt, draw) for fmt in (spec.k, spec.v))
        k[order[-2:]], v[order[-2:]] = lose_rows(k[order[-2:]], spec.k), lose_rows(v[order[-2:]], spec.v)
        return CacheCase(
            topic=topic, label=f"{label}, pages of {page}", spec=spec, k_cache=np.ascontiguousarray(view_rows(k, spec)),
            v_cache=write_rows(v, spec), page_table=table, lengths=np.array(lengths, np.int32), options={} if given is None else given,
        )  # fmt: skip

    for page in spec.pages:
        yield make("place", "sequences in any pages", page, (64, 128, 64), draw_rows)
        yield make("tail", "lengths of every kind", page, LENGTHS, draw_rows)
        yield make("tail", "one key", page, (1,), draw_rows)
        yield make("place", "many sequences", page, MANY, draw_rows)
        yield make("place", "pages that sequences share", page, (2 * page + 1, 3 * page, 2 * page + page // 2), draw_rows, prefix=2)
        yield make("code", "every code and scale", page, (64, 64), _draw_all)
        if options:
            yield make("tensor-scale", "given scales", page, (20, 33), draw_rows, given=options)
            odd = {name: (value * np.float32(1.3)).astype(np.float32) for name, value in options.items()}
            if not any(f.block for f in (spec.k, spec.v)):  # which two of three factors multiply first is open
                yield make("tensor-scale", "given scales that are no powers of two", page, (20, 33), draw_rows, given=odd)


def _draw_all(shape: tuple[int, ...], d: int, fmt: RowFormat, draw: np.random.Generator) -> Array:
    """Rows of any bytes; scales of tokens are numbers near 1."""
    if fmt.scaling is Scaling.NONE:
        return draw_rows(shape, d, fmt, draw)
    rows = draw.integers(0, 256, (*shape, fmt.width(d))).astype(np.uint8)
    if fmt.block is not None:
        rows[..., fmt.count_codes(d) :] &= fmt.block.scale.code_count - 1
    if fmt.scaling is Scaling.TOKEN:
        rows[..., -4:] = draw_rows(shape, d, fmt, draw)[..., -4:]
    return rows
