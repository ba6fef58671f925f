"""Calls of `append_cache` and `read_cache` of every size, in every memory, and next to others: an item is one head of one token."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.attention import CacheSpec, Quantizer, Scaling, append_cache, read_cache, view_rows
from mxspec.attention.caches import write_rows
from mxspec_conformance.judge.attention.calls import judge_places
from mxspec_conformance.judge.attention.writing import write_exactly
from mxspec_conformance.judge.invariance.history import Drawn
from mxspec_conformance.judge.invariance.items import Items
from mxspec_conformance.judge.invariance.pools import Places
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.sessions import TargetSession

Array = npt.NDArray[Any]
#: Items of a pool, and heads that a call may have.
ITEMS, MOST_HEADS = 48, 128
#: Magnitudes of the numbers of items: whole, and of few bits under any scale.
_WHOLE = np.array([1, 2, 3, 4, 6])


class _Pool:
    """Rows of K and V that are stored as they are, with zeros as one more."""

    def __init__(self, spec: CacheSpec, page: int, dtype: Any) -> None:
        draw = np.random.default_rng(7)
        self.spec, self.page, self.dtype = spec, page, dtype
        units = draw.choice([-1, 1], (2, ITEMS + 1, spec.d)) * draw.choice(_WHOLE, (2, ITEMS + 1, spec.d))
        units[..., ::16] = 6  # the largest of e2m1: the scale of each block is certain
        units[:, -1] = 0
        self.units = units
        self.rows = [write_exactly(u.astype(np.float64), fmt, draw) for u, fmt in zip(units, (spec.k, spec.v), strict=True)]


def _judge(session: TargetSession, function: str, spec: CacheSpec, scorecard: Scorecard, fill: Any) -> None:
    # Under which scale zeros are stored is open.
    stored = any(fmt.scaling in (Scaling.BLOCK, Scaling.TOKEN) for fmt in (spec.k, spec.v)) and function == "append_cache"
    special = {} if stored else {"zeros": np.array([ITEMS])}
    items = Items(width=spec.d, fill=fill, ordinary=np.arange(ITEMS), special=special, takes=lambda s: s[1] <= MOST_HEADS)
    turn = session.capabilities.caches.index(spec.text)
    judge_places(session, function, scorecard, items, turn=turn, rows="tokens", changed=2)


def judge_appends(
    session: TargetSession, spec: CacheSpec, scorecard: Scorecard, page: int, quantizers: tuple[Quantizer, Quantizer]
) -> None:  # fmt: skip
    """Enter calls of `append_cache`."""
    pool = _Pool(spec, page, DTYPES[session.capabilities.dtypes[0]])
    _judge(session, "append_cache", spec, scorecard, partial(_fill_append, pool, quantizers))


def judge_reads(session: TargetSession, spec: CacheSpec, scorecard: Scorecard, page: int) -> None:
    """Enter calls of `read_cache`."""
    _judge(session, "read_cache", spec, scorecard, partial(_fill_read, _Pool(spec, page, np.float32)))


def _fill_append(pool: _Pool, quantizers: tuple[Quantizer, Quantizer], places: Places) -> Drawn:
    spec, (tokens, heads), page = pool.spec, places.shape, pool.page
    pages = -(-tokens // page) + 1
    # An odd step that no number of slots shares a factor with: any order, and none comes twice.
    slots = (np.arange(tokens, dtype=np.int64) * 7919 % (pages * page)).astype(np.int32)
    if len(np.unique(slots)) < tokens:
        slots = np.arange(tokens, dtype=np.int32)[::-1].copy()
    if int(places.sum()) % 2:  # in some calls, some tokens are not stored
        slots[1::5] = -1
    shape = (pages, heads, page) if spec.heads_first else (pages, page, heads)
    caches = [np.full((*shape, fmt.width(spec.d)), 0x35, np.uint8).astype(fmt.dtype) for fmt in (spec.k, spec.v)]
    k, v = (pool.units[n][places].astype(pool.dtype) for n in range(2))

    def find_mistake(answer: Any) -> str:
        return _count(answer, append_cache(k, v, slots, caches[0], caches[1], spec, quantizers=quantizers))

    return Drawn((k, v, slots, *caches, spec.text), find_mistake=find_mistake)


def _fill_read(pool: _Pool, places: Places) -> Drawn:
    spec, (tokens, heads), page = pool.spec, places.shape, pool.page
    pages = -(-tokens // page)
    padded = np.resize(places, (pages * page, heads)).reshape(pages, page, heads)
    k, v = (rows[padded] for rows in pool.rows)
    caches = np.ascontiguousarray(view_rows(k, spec)), write_rows(v, spec)
    table, lengths = np.arange(pages, dtype=np.int32)[None, ::-1].copy(), np.array([tokens], np.int32)

    def find_mistake(answer: Any) -> str:
        return _count(answer, read_cache(*caches, table, lengths, spec))

    return Drawn((*caches, table, lengths, spec.text), find_mistake=find_mistake)


def _count(answer: Any, right: tuple[Array, Array]) -> str:
    wrong = [a != r for a, r in zip(answer, right, strict=True)]
    count = sum(int(w.sum()) for w in wrong)
    return f"{count} of {sum(w.size for w in wrong)} items differ from those of the rows that were given" if count else ""
