"""A batch of sequences in pages, ragged, grouped, and scaled: from the units of K and of queries to a call."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.attention import CacheSpec, Call, Scaling
from mxspec.attention.caches import view_rows, write_rows
from mxspec.elements import encode
from mxspec_conformance.judge.attention.writing import KAPPA, LAST, LOG_KAPPA, draw_rows, lose_rows, write_exactly

Array = npt.NDArray[Any]
#: (queries of a sequence, its keys) -> the place at which each query looks, [queries, heads].
Aim = Callable[[int, int], Array]

#: By how much logits of neighbours differ: more than float32's exp can tell from nothing, or little, so that all keys count.
CERTAIN, NEAR = 128.0, 0.5
#: Pages that no sequence has, and the place of their keys, whose bits are all ones.
SPARE, NO_PLACE = 3, 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The sequences of a call, and how K and queries are written."""

    spec: CacheSpec
    #: Keys and queries of each sequence.
    lengths: Sequence[int]
    queries: Sequence[int]
    spell: Callable[[Array, int], Array]
    point: Callable[[Array, int], Array]
    aim: Aim
    heads: int = 6
    shared: int = 2
    page: int = 16
    #: The least difference of logits, of units of queries and K of which `step` is the least.
    margin: float = CERTAIN
    step: float = 1.0
    #: Whether numbers of V are small and whole, so that sums of them are certain; and whether what no sequence has is NaN.
    whole: bool = False
    lost: bool = False
    #: Pages that all sequences begin with: those of the first one.
    prefix: int = 0
    #: Given factors, as the call has them.
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0

    def make(self) -> Call:
        """The call."""
        draw, spec, d, shared = np.random.default_rng(self.seed), self.spec, self.spec.d, self.shared
        needed = [-(-n // self.page) for n in self.lengths]
        orders = draw.permuted(np.tile(np.arange(d), (len(self.lengths), shared, 1)), axis=-1)
        if self.prefix:  # a page has one order
            orders[...] = orders[0]
        order = draw.permutation(sum(needed) + SPARE)
        count = len(order) * self.page
        # What no sequence has looks like a key behind all others.
        places = np.full((len(order), self.page), NO_PLACE)
        owners = np.zeros(len(order), int)
        table = np.full((len(self.lengths), max(max(needed), 1) + 1), order[-1], np.int32)
        ends = np.cumsum(needed)
        for n, end in enumerate(ends):
            mine = np.concatenate([order[: self.prefix], order[end - needed[n] + self.prefix : end]])
            table[n, : needed[n]], owners[mine] = mine, n
            places[mine] = np.arange(needed[n] * self.page).reshape(-1, self.page)
        units = np.take_along_axis(
            self.spell(np.repeat(places[..., None], shared, -1), d), np.argsort(orders, -1)[owners][:, None], -1
        )  # fmt: skip
        k = write_exactly(units, spec.k, draw, LOG_KAPPA)
        if self.whole:
            v = write_exactly(draw.integers(-3, 4, (len(order), self.page, shared, d)).astype(np.float64), spec.v, draw)
        else:
            v = draw_rows((len(order), self.page, shared), d, spec.v, draw)
        if self.lost:
            unused = np.ones(count, bool)
            for n, length in enumerate(self.lengths):
                unused[(table[n, : needed[n]].astype(int)[:, None] * self.page + np.arange(self.page)).reshape(-1)[:length]] = False
            lost = unused.reshape(len(order), self.page)
            k[lost], v[lost] = lose_rows(k[lost], spec.k), lose_rows(v[lost], spec.v)
        q, factor = self._write_queries(orders)
        options = dict(self.options) | ({} if factor is None else {"q_scale": np.array([factor], np.float32)})
        starts = np.concatenate([[0], np.cumsum(self.queries)]).astype(np.int32)
        lengths = np.array(self.lengths, np.int32)
        if spec.ragged:
            k, v = (
                np.concatenate([part[table[n, : needed[n]]].reshape(-1, *part.shape[2:])[:length] for n, length in enumerate(self.lengths)])
                for part in (k, v)
            )
            return Call(spec=spec, q=q, k=k, v=v, starts=starts, lengths=lengths, **options)
        k, v = np.ascontiguousarray(view_rows(k, spec)), write_rows(v, spec)
        return Call(spec=spec, q=q, k=k, v=v, starts=starts, lengths=lengths, page_table=table, **options)

    def _write_queries(self, orders: Array) -> tuple[Array, float | None]:
        """Queries, and what multiplies them: logits differ by the margin, or by less than twice that."""
        d, parts = self.spec.d, []
        groups = np.arange(self.heads) // (self.heads // self.shared)
        for n, (queries, length) in enumerate(zip(self.queries, self.lengths, strict=True)):
            units = self.point(self.aim(queries, length), d)
            parts.append(np.take_along_axis(units, np.argsort(orders[n], -1)[groups][None], -1))
        units = np.concatenate(parts)
        scale = self.options.get("scale")
        factor = self.step * KAPPA * (d**-0.5 if scale is None else scale) * float(np.min(self.options.get("k_scale", 1.0)))
        fraction, exponent = math.frexp(self.margin / factor)
        power = math.ldexp(1, exponent - (fraction == 0.5))
        assert self.spec.q is not None
        # Numbers of one and less, so that without what multiplies their codes logits differ by little.
        units, power = units / self.step, power * self.step
        if self.spec.q.scaling is Scaling.NONE:
            return (units * power).astype(self.spec.q.dtype), None
        return encode(units.astype(np.float32), self.spec.q.element), power


def aim_everywhere(heads: int, first: int, step: int = 1) -> Aim:
    """Each key in turn, or each so many keys further, another one for each head."""
    return lambda queries, keys: (np.arange(queries)[:, None] * heads + np.arange(heads) * 5 + first) * step % max(keys, 1)


def aim_from_end(heads: int) -> Aim:
    """The last key, and for other heads those that divide the keys evenly."""
    return lambda queries, keys: np.tile(keys - 1 - np.arange(heads) * keys // heads, (queries, 1))


def aim_at_edge(spec: CacheSpec, heads: int, *, causal: bool, window: int | None, first: bool, begin: int = 0) -> Aim:
    """The last key that a query sees, or the first, counted from where places begin."""

    def aim(queries: int, keys: int) -> Array:
        own = np.arange(queries) + (0 if spec.top_left else keys - queries)
        last = np.minimum(own, keys - 1) if causal else np.full(queries, keys - 1)
        place = np.maximum(own - window + 1, 0) if first and window is not None else np.zeros(queries, int) if first else last
        return np.repeat(np.clip(place - begin, 0, LAST)[:, None], heads, 1)

    return aim


def aim_at(place: int, heads: int) -> Aim:
    """One place, for every query."""
    return lambda queries, _: np.full((queries, heads), place)
