"""What kernels do wrong, as other calls: a mistake explains outputs that are right for the call that it makes of the one that was given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mxspec.attention import Call, bound_outputs
from mxspec_conformance.judge.attention.cases import AttentionCase
from mxspec_conformance.judge.explanation import Cause, Explanation


def _shift_lengths(call: Call, by: int) -> Call:
    most = 1 << 30 if call.page_table is None else call.page_table.shape[1] * _page(call)
    return replace(call, lengths=np.clip(call.lengths + by, 0, most).astype(np.int32))


def _page(call: Call) -> int:
    return int(call.k.shape[2 if call.spec.heads_first else 1])


def _fill_pages(call: Call) -> Call:
    return replace(call, lengths=(-(-call.lengths // _page(call)) * _page(call)).astype(np.int32))


def _take_first_table(call: Call) -> Call:
    assert call.page_table is not None
    return replace(call, page_table=np.repeat(call.page_table[:1], len(call.page_table), 0))


def _pack_table(call: Call) -> Call:
    assert call.page_table is not None
    count, most = len(call.page_table), -(-int(call.lengths.max()) // _page(call))
    return replace(call, page_table=call.page_table.reshape(-1)[: count * most].reshape(count, most))


def _take_place_for_page(call: Call) -> Call:
    assert call.page_table is not None
    return replace(call, page_table=np.tile(np.arange(call.page_table.shape[1], dtype=np.int32), (len(call.page_table), 1)))


def _roll_scales(call: Call, part: str, axis: int) -> Call:
    """The scales of the next token or block, the first one's for the last."""
    fmt, rows = getattr(call.spec, part), getattr(call, part).copy()
    first = fmt.count_codes(call.spec.d)
    if axis != -1:
        axis = 0 if call.spec.ragged else 2 if call.spec.heads_first else 1
    rows[..., first:] = np.roll(rows[..., first:], -1, axis)
    return replace(call, **{part: rows})


def _repeat_scales(call: Call, part: str) -> Call:
    """Each of the first scales of a row four times."""
    rows, first = getattr(call, part).copy(), getattr(call.spec, part).count_codes(call.spec.d)
    rows[..., first:] = rows[..., first:][..., np.arange(rows.shape[-1] - first) // 4]
    return replace(call, **{part: rows})


def _repeat_first_key(call: Call) -> Call:
    """Every key of a page is its first one."""
    axis = 2 if call.spec.heads_first else 1
    assert call.page_table is not None
    k, v = (np.repeat(np.take(rows, [0], axis), rows.shape[axis], axis) for rows in (call.k, call.v))
    return replace(call, k=k, v=v)


def _without(call: Call, *names: str) -> Call:
    ones: dict[str, Any] = {name: np.ones(1, np.float32) for name in names}
    return replace(call, **ones)


def _widen(call: Call, by: int) -> Call:
    assert call.window is not None
    return replace(call, window=call.window + by)


def _multiply_scale(call: Call, change: Callable[[float, int], float]) -> Call:
    d = call.spec.d
    return replace(call, scale=change(d**-0.5 if call.scale is None else call.scale, d))


def _read_other_way(call: Call) -> Call:
    """Pages of heads and tokens read as pages of tokens and heads, or the other way round."""
    k, v = (a.reshape(a.shape[0], a.shape[2], a.shape[1], a.shape[3]) for a in (call.k, call.v))
    return replace(call, k=k, v=v, spec=replace(call.spec, heads_first=not call.spec.heads_first))


def _swizzle(call: Call) -> Call:
    return replace(call, spec=replace(call.spec, swizzled=not call.spec.swizzled))


#: As if ... -> the call that would have these outputs; what does not fit a call raises.
MISTAKES: dict[str, Callable[[Call], Call]] = {
    "the causal mask ended one key late": partial(replace, late=1),
    "the causal mask ended one key early": partial(replace, late=-1),
    "the first query belonged to the first key": lambda c: replace(c, spec=replace(c.spec, top_left=True)),
    "the last query belonged to the last key": lambda c: replace(c, spec=replace(c.spec, top_left=False)),
    "there were no mask": lambda c: replace(c, causal=False, window=None),
    "there were no window": partial(replace, window=None),
    "the window had one key more": partial(_widen, by=1),
    "the window had one key less": partial(_widen, by=-1),
    "each sequence had one key more": partial(_shift_lengths, by=1),
    "each sequence had one key less": partial(_shift_lengths, by=-1),
    "the last page of each sequence were full": _fill_pages,
    "the page table of the first sequence were that of all": _take_first_table,
    "rows of the page table were as long as the longest sequence needs": _pack_table,
    "pages lay in order, whatever the page table says": _take_place_for_page,
    "query heads shared heads of K and V by modulo, not by division": partial(replace, by_modulo=True),
    "the scale of K were left out": lambda c: _without(c, "k_scale"),
    "the scale of V were left out": lambda c: _without(c, "v_scale"),
    "the scales of K and V were left out": lambda c: _without(c, "k_scale", "v_scale"),
    "the scale of Q were left out": lambda c: _without(c, "q_scale"),
    "the scale of K were that of V, too": lambda c: replace(c, v_scale=c.k_scale),
    "the scales of K and V were exchanged": lambda c: replace(c, v_scale=c.k_scale, k_scale=c.v_scale),
    "logits had no scale": lambda c: replace(c, scale=1.0),
    "logits were scaled twice": partial(_multiply_scale, change=lambda scale, d: scale * scale),
    "logits were scaled by 1 / sqrt(d), whatever the call says": partial(replace, scale=None),
    "logits were scaled by 1 / sqrt(2 d)": partial(_multiply_scale, change=lambda scale, d: (2 * d) ** -0.5),
    "logits were scaled by 1 / d": partial(_multiply_scale, change=lambda scale, d: 1 / d),
    "the block scales of V lay in the other order (v-4x4)": _swizzle,
    "V had the scale of the next token": partial(_roll_scales, part="v", axis=0),
    "K had the scale of the next token": partial(_roll_scales, part="k", axis=0),
    "V had the scale of the next block": partial(_roll_scales, part="v", axis=-1),
    "K had the scale of the next block": partial(_roll_scales, part="k", axis=-1),
    "V had each of the first block scales of a row four times": partial(_repeat_scales, part="v"),
    "every key of a page were its first": _repeat_first_key,
    "heads and tokens of a page were exchanged": _read_other_way,
}  # fmt: skip


def find_mistakes(case: AttentionCase, output: Any, among: frozenset[Explanation] | None) -> frozenset[Explanation]:
    """The mistakes that explain every output of a wrong call; among: those that explain the wrong calls before, None: it is the first.

    Ends so wide that they hold what is right as well explain nothing. Sequences all of whose outputs are right need no explanation: a
    kernel may take another path for them.
    """
    due, found = bound_outputs(case.call), set()
    wrong = ~due.accept(output, case.out_dtype)
    owners = np.searchsorted(case.call.starts, np.arange(len(wrong)), side="right")
    spoilt = np.isin(owners, owners[wrong.any((1, 2))])
    for text, change in MISTAKES.items():
        if among is not None and Explanation(Cause.ATTENTION_MISTAKE, text) not in among:
            continue
        try:
            with np.errstate(all="ignore"):
                bounds = bound_outputs(change(case.call))
            apart = ~((bounds.low <= due.high) & (due.low <= bounds.high))
            right = bounds.accept(output, case.out_dtype)[spoilt].all() and apart[wrong].any()
        except (ValueError, TypeError, IndexError, AssertionError, AttributeError):  # it is no mistake of such a call
            continue
        if right:
            found.add(Explanation(Cause.ATTENTION_MISTAKE, text))
    return frozenset(found)
