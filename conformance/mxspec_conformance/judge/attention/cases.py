"""The calls by which attention is judged: each key found, masks and lengths at their edges, means, given scales, and nothing else seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from mxspec.attention import CacheSpec, Call
from mxspec.attention.formats import PAGES
from mxspec_conformance.judge.attention.batch import NEAR, Batch, aim_at, aim_at_edge, aim_everywhere, aim_from_end
from mxspec_conformance.judge.attention.writing import count_to, point_at, spell_places, spell_words
from mxspec_conformance.targets.capabilities import Capabilities

OPERATION = "attention"
#: Keys of the sequences of most calls: one, whole pages of every size, and one more or less.
LENGTHS = (1, 37, 64, 17, 128)
#: The keys of which a mean is: 48 of the first 70, and 16 behind them.
SOME = np.concatenate([np.arange(70)[np.arange(70) % 7 % 3 != 1][:48], np.arange(75, 139, 4)])
#: The same where keys are in several parts of 128, 256 or 512, and of any size: 48 of the first 70, and 16 behind 600, or 8000.
FAR, FARTHER = (np.concatenate([SOME[:48], np.arange(first, first + 64, 4)]) for first in (600, 8000))
#: Keys, queries and windows of more than one or two tiles of 128; the keys of a decode that is split.
LONG, LONG_QUERIES, LONG_WINDOWS, SPLIT = (300, 450), (140, 33), (64, 129), (530, 300, 1100)
#: Windows of more keys than places have bits for, and the keys of sequences with them; pages of one key that are more than 4096.
WIDE_WINDOWS, WIDE, MANY_PAGES = (513, 1024), 1500, (4200, 2100)
#: More sequences than 256 threads; keys of 32 splits of 256 or of 64 and more, of whole splits, and one more.
MANY, FARTHEST = tuple(1 + n * 7 % 40 for n in range(270)), (8192, 2100, 768, 512, 257, 256)
#: Sizes of windows: its own key, a part of a page, a page of 16 and one more, more than there are.
WINDOWS = (1, 7, 16, 17, 300)
#: Scales given for K, Q's logits and V: a kernel that leaves one out sees logits of neighbours that do not differ by much.
K_SCALE, V_SCALE, SCALE = 96.0, 0.75, 0.046875


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttentionCase:
    """One call."""

    topic: str
    label: str
    call: Call
    out_dtype: str = "float32"

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the target is handed, in order."""
        c = self.call
        return c.q, c.k, c.v, c.starts, c.lengths, c.spec.text, self.out_dtype

    @property
    def options(self) -> dict[str, Any]:
        """And by name."""
        c = self.call
        given: dict[str, Any] = {} if c.page_table is None else {"page_table": c.page_table}
        given |= {"causal": True} if c.causal else {}
        given |= {name: value for name in ("window", "scale") if (value := getattr(c, name)) is not None}
        return given | {name: value for name in _SCALES if isinstance(value := getattr(c, name), np.ndarray)}


_SCALES = ("q_scale", "k_scale", "v_scale")


def list_topics(spec: CacheSpec, offered: Capabilities) -> list[str]:
    """The topics of a form of attention."""
    takes = partial(offered.has, OPERATION)
    topics = ["position", "tail", "sum", "interval", "no-key", "overflow"]
    topics += ["mask"] * takes("causal") + ["padding"] * (not spec.ragged)
    scaled = any(takes(f"{part}_scale") and getattr(spec, part).takes_scale for part in "kv")
    return [*topics, *["tensor-scale"] * scaled, "state", "memory", "call-size"]


def list_cases(spec: CacheSpec, offered: Capabilities) -> Iterator[AttentionCase]:
    """The cases of a form, page size by page size."""
    takes = partial(offered.has, OPERATION)
    number = 0
    for page in (16,) if spec.ragged else spec.pages:
        name = "ragged" if spec.ragged else f"pages of {page}"
        for topic, label, batch in _list_batches(spec, offered, Batch(
            spec=spec, lengths=LENGTHS, queries=LENGTHS, spell=spell_words, point=point_at, aim=aim_everywhere(6, 0), page=page, step=16,
        )):  # fmt: skip
            number += 1
            call = replace(batch, seed=number).make()
            dtype = offered.out_dtypes[number % len(offered.out_dtypes)]
            if batch.options.keys() <= {o for o in ("causal", "window", "scale", "k_scale", "v_scale") if takes(o)}:
                yield AttentionCase(topic=topic, label=f"{label}, {name}, {dtype}", call=call, out_dtype=dtype)


def _list_batches(spec: CacheSpec, offered: Capabilities, base: Batch) -> Iterator[tuple[str, str, Batch]]:
    given = _list_scales(spec)
    few = [-(-n // 6) for n in LENGTHS]
    yield "position", "every key", replace(base, queries=few)
    for heads, shared in ((4, 4), (8, 1), (16, 2), (12, 12), (1, 1)):
        mine = replace(base, queries=[3] * 5, heads=heads, shared=shared, aim=aim_everywhere(heads, 2))
        yield "position", f"{heads} heads, {shared} of K", mine
    yield "position", "one query each", replace(base, queries=[1] * 5)
    yield "position", "sequences of one length", replace(base, lengths=[48] * 6, queries=[1] * 6)
    yield "position", "more keys than a split", replace(base, lengths=SPLIT, queries=[1, 7, 23], aim=aim_everywhere(6, 4, 71))
    few_pages = base.page == 16 or base.page not in PAGES  # of the sizes that are tried, one
    last = replace(base, heads=4, shared=1, aim=aim_from_end(4))
    if few_pages:
        pairs = aim_everywhere(2, 1)
        yield "position", "many sequences", replace(base, lengths=MANY, queries=[1] * len(MANY), heads=2, shared=1, aim=pairs)
        yield "position", "sequences without queries among others", replace(base, queries=[0, 3, 0, 0, 2])
        yield "position", "the farthest keys", replace(last, lengths=FARTHEST, queries=[1] * len(FARTHEST))
    elif base.page == 1:
        yield "position", "the last of thousands of pages", replace(last, lengths=MANY_PAGES, queries=[1, 1])
    if not spec.ragged:
        begun = [2 * base.page + more for more in (5, 1, base.page, 2 * base.page)]
        yield "position", "pages that sequences share", replace(base, lengths=begun, queries=[4] * 4, prefix=2)
    linear = replace(base, spell=spell_places, point=partial(count_to, sign=1), step=1.0)
    yield "tail", "the last key of each", _edge(linear, [1, 5, 2, 3, 1])
    if not spec.ragged:
        yield "padding", "NaN in what no sequence has", _edge(replace(linear, lost=True), [1, 5, 2, 3, 1])
    yield "no-key", "a sequence without keys", _edge(replace(linear, lengths=(3, 0, 18)), [2, 3, 1])
    for more, label in ((2, "beyond exp"), (-2, "of which exp is zero")):
        yield "overflow", f"logits {label}", _edge(replace(linear, point=partial(count_to, sign=1, more=more)), [1, 5, 2, 3, 1])
    yield "sum", "the mean of all keys", replace(
        linear, lengths=(1, 2, 4, 32, 64), queries=[2] * 5, point=_look_nowhere, aim=aim_at(0, 6), whole=True
    )  # fmt: skip
    # Many of one half of the keys and few of the other have one word, so that parts of the keys have unequal sums.
    for label, some in (("some keys", SOME), ("keys far apart", FAR)):
        yield "sum", f"the mean of {label}", replace(
            base, lengths=(some[-1] + 20, some[-1] + 1), queries=[2, 2], spell=partial(_spell_alike, some), aim=aim_at(999, 6), whole=True,
        )  # fmt: skip
    if few_pages:
        yield "sum", "the mean of the farthest keys", replace(
            base, lengths=(FARTHER[-1] + 20,), queries=[1], spell=partial(_spell_alike, FARTHER), aim=aim_at(999, 1), heads=1, shared=1,
            whole=True,
        )  # fmt: skip
    near = replace(linear, margin=NEAR, lengths=(2, 3, 5, 8, 4), queries=[2] * 5, aim=aim_at(0, 6))
    yield "interval", "weights of neighbours", near
    yield "interval", "weights of neighbours, scale", replace(near, options={"scale": SCALE})
    far = replace(near, point=partial(count_to, sign=1, more=256))
    for scale, words in (({}, ""), ({"scale": SCALE}, ", scale")):
        yield "interval", f"weights of neighbours, logits beyond 128{words}", replace(far, options=scale)
    yield "interval", "the last key, scale", _edge(replace(linear, options={"scale": SCALE}), [1, 5, 2, 3, 1])
    for options in given:
        words = ", ".join(options)
        yield "tensor-scale", f"every key, {words}", replace(base, queries=few, options=options)
        yield "tensor-scale", f"weights of neighbours, {words}", replace(near, options=options)
    for queries, label in (
        (LENGTHS, "as many queries as keys"),
        ([1, 5, 64, 16, 3], "fewer queries than keys"),
        ([1] * 5, "one query each"),
    ):
        yield "mask", f"causal, {label}", _edge(linear, queries, causal=True)
        for window in WINDOWS:
            for first in (True, False):
                words = f"causal, {'first' if first else 'last'} of a window of {window}, {label}"
                yield "mask", words, _edge(linear, queries, causal=True, window=window, first=first)
    long = replace(linear, lengths=LONG, heads=2, shared=1)
    yield "mask", "causal, more keys than a tile", _edge(long, LONG_QUERIES, causal=True)
    for window, first in product(LONG_WINDOWS, (True, False)):
        words = f"causal, {'first' if first else 'last'} of a window of {window}, more keys than a tile"
        yield "mask", words, _edge(long, LONG_QUERIES, causal=True, window=window, first=first)
    for window in WIDE_WINDOWS if few_pages and not spec.top_left else ():
        wide = replace(long, lengths=[WIDE] * 2)
        words = f"causal, first of a window of {window}, one query and three"
        yield "mask", words, _edge(wide, [1, 3], causal=True, window=window, first=True, begin=WIDE - window - 256)
    yield "mask", "causal, the mean of what is seen", replace(
        linear, lengths=(8, 4), queries=[8, 3], point=_look_nowhere, aim=aim_at(0, 6), whole=True, options={"causal": True}
    )  # fmt: skip
    if not spec.top_left and few_pages:
        context = replace(
            base, lengths=SPLIT, queries=[1, 7, 90], aim=lambda queries, keys: aim_everywhere(6, 4, 71)(queries, keys - queries)
        )
        yield "mask", "causal, every key of a context", replace(context, options={"causal": True})
    if not spec.top_left:
        yield "no-key", "causal, more queries than keys", _edge(replace(linear, lengths=(5, 20)), [9, 21], causal=True)


def _edge(
    batch: Batch, queries: Sequence[int], *, causal: bool = False, window: int | None = None, first: bool = False, begin: int = 0
) -> Batch:  # fmt: skip
    """Each query looks at the last key that it sees, or at the first; what lies beyond that, from `begin` on, would win."""
    options: dict[str, Any] = dict(batch.options) | ({"causal": True} if causal else {}) | ({} if window is None else {"window": window})
    point = partial(count_to, sign=-1) if first else batch.point
    aim = aim_at_edge(batch.spec, batch.heads, causal=causal, window=window, first=first, begin=begin)
    spell = partial(spell_places, first=begin) if begin else batch.spell
    return replace(batch, queries=queries, spell=spell, point=point, aim=aim, options=options)


def _spell_alike(some: Any, places: Any, d: int) -> Any:
    """Words, of which some places have one."""
    return spell_words(np.where(np.isin(places, some), 999, places), d)


def _look_nowhere(places: Any, d: int) -> Any:
    return np.zeros((*places.shape, d))


def _list_scales(spec: CacheSpec) -> list[dict[str, Any]]:
    """Factors that calls are given, where the formats have any."""
    count = 2 if spec.per_head else 1
    k = {"k_scale": (K_SCALE * np.array([1, 1.25])[:count]).astype(np.float32)} if spec.k.takes_scale else {}
    v = {"v_scale": (V_SCALE * np.array([1, 3])[:count]).astype(np.float32)} if spec.v.takes_scale else {}
    return [options for options in ((k, v, k | v) if k and v else (k | v,)) if options]
