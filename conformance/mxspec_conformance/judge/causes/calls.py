"""Answers that depend on the call: the same call again, wrong blocks in calls of their own, whole tiles, and what follows a NaN."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.formats import BlockFormat
from mxspec.layouts import Part, list_layouts
from mxspec_conformance.judge.causes.known import Found, KnownCause
from mxspec_conformance.judge.causes.rows import Rows
from mxspec_conformance.judge.causes.seen import Seen
from mxspec_conformance.judge.invariance.answered import ORDINARY, Answered
from mxspec_conformance.observations.answers import answer_matches
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.quantize import tensor_argument
from mxspec_conformance.targets.dtypes import DTYPES, cast_input, preferred_dtype
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import Answer, Codes
from mxspec_vectors.tensor_scales import TensorScales

#: What is said where nothing but the requirement about calls fails, and where wrong blocks are right in calls of their own.
CALL_ALONE = Found(KnownCause.CALL_ALONE, "right block by block; the answer depends on the call that a block stands in")
#: Blocks that are asked again, drawn evenly from all that are wrong.
_ASKED = 8
#: Rows and blocks of a matrix that fills whole tiles of the usual layouts.
_TILED = (128, 4)
#: Blocks that may share one scale by mistake; all of a row last.
_BLOCKS_TOGETHER = (2, _TILED[1])


def find_chance(session: TargetSession, again: Answered) -> Found | None:
    """The same call three times; one block stands beyond a multiple of 64, as tails have paths of their own."""
    count = len(again.before)
    place = np.arange(count - (count - 1) % 64)
    answers = [run_once(lambda: again.rows(session.call(again.function, *again.arguments(place), **again.kwargs))) for _ in range(3)]
    given = [a for a in answers if not isinstance(a, NoAnswer)]
    if len(given) < 2:
        return None
    differ = np.zeros(len(place), bool)
    for other in given[1:]:
        differ |= again.differ(given[0], other).any(axis=1)
    if not differ.any():
        return None
    text = f"not deterministic: the same call, made three times, gives {int(differ.sum())} of {len(place)} blocks other bits"
    return Found(KnownCause.NOT_DETERMINISTIC, f"{text} (chance, a race, or state that a call leaves behind)")


#: Largest numbers of a tensor, of which no rule of one level gives two the same scale.
_LARGEST = (1.0, 4.0, 96.0)


def find_own_tensor_scale(session: TargetSession, fmt: BlockFormat) -> Found | None:
    """Whether a quantizer that is given no tensor scale has one of its own: the largest block of each call gets the largest scale."""
    if not fmt.has_tensor_scale or session.capabilities.has("quantize", "tensor_scale"):
        return None
    for largest in _LARGEST:
        x = np.full((1, fmt.k), np.float32(largest))
        answer = run_once(lambda x=x: session.call("quantize", x, fmt.name))  # type: ignore[misc]
        if isinstance(answer, NoAnswer) or (np.asarray(answer[1]).reshape(-1)[:1] != fmt.scale.max_code).any():
            return None
    text = f"the tensor has a scale of its own: the largest block scale of every call is {fmt.scale.max_code:02x}"
    return Found(KnownCause.TENSOR_SCALE_OWN, f"{text}; take tensor_scale as an argument, and say by TENSOR_SCALE which kind it is")


def find_tiles(session: TargetSession, seen: Seen, again: Answered) -> Found | None:
    """Whether the scales of a matrix that fills tiles are the profile's, in the order of a layout in tiles, or those of longer blocks."""
    rows, blocks = _TILED
    x = again.inputs[0][np.arange(rows * blocks) % len(again.before)]
    arguments = again.arguments(np.arange(rows * blocks) % len(again.before), rows=rows)
    answer = run_once(lambda: again.rows(session.call(again.function, *arguments, **again.kwargs)))
    want = seen.scale_bytes(x.astype(np.float32), again.tensor).reshape(rows, blocks)
    if isinstance(answer, NoAnswer) or _has_scales(seen, answer, x, want):
        return None
    k = seen.fmt.k
    for count in _BLOCKS_TOGETHER:
        largest = np.abs(x.astype(np.float32)).reshape(-1, count * k).max(axis=1)[:, None] * (np.arange(k) == 0)
        if _has_scales(seen, answer, x, np.repeat(seen.scale_bytes(largest.astype(np.float32), again.tensor), count)):
            more = " or more" if count == blocks else ""
            return Found(
                KnownCause.WIDE_BLOCKS, f"blocks of {count * k}{more} numbers share a scale, where {seen.fmt.name} has one for {k}"
            )
    for layout in list_layouts() if want.dtype == np.uint8 else ():
        if [f.part for f in layout.fields] != [Part.SCALES] or layout.main.stored is not None or layout.tile[0] == 1:
            continue
        with contextlib.suppress(ValueError):  # the matrix is no whole number of its tiles
            if _has_scales(seen, answer, x, layout.pack(want)[: want.size]):
                tile = " x ".join(map(str, layout.tile)) if layout.name != "128x4" else layout.name
                return Found(
                    KnownCause.TILED_SCALES, f'scales are in the order of {tile} tiles, LAYOUT = "{layout.name}", where rows are declared'
                )
    return None


#: Lengths that blocks of values may have by mistake.
_SHORTER = (16, 8)


def find_other_blocks(session: TargetSession, seen: Seen) -> Found | None:
    """Whether the values of a matrix are those of shorter blocks, or of blocks along its columns."""
    if not (seen.of_values and seen.fmt.is_mx):
        return None
    (rows, blocks), fmt, dtype = _TILED, seen.fmt, DTYPES[seen.dtypes[0]]
    drawn = np.random.default_rng(1).standard_normal((rows, blocks * fmt.k)) * np.exp2(
        np.arange(blocks * fmt.k) % 7 - np.arange(rows)[:, None] % 5
    )
    x = cast_input(drawn.astype(np.float32), seen.dtypes[0]).astype(np.float32)
    answers = [run_once(partial(session.call, *name, x.astype(dtype), fmt.name)) for name in (("quantize",), ("strays", "quantize"))]
    if any(isinstance(one, NoAnswer) for one in answers):
        return None
    (codes, scales), (odd, _) = answers
    with np.errstate(all="ignore"):
        found = np.where(odd != 0, odd, mxspec.dequantize(codes, scales, fmt))
        cuts = {
            "blocks lie along the columns of a matrix, where they are to lie along its rows": mxspec.quantize(
                x, fmt, profile=seen.profile, axis=0
            )
        }
        for k in (k for k in _SHORTER if k < fmt.k):
            padded = np.pad(x.reshape(-1, k), [(0, 0), (0, fmt.k - k)])
            cuts[f"blocks of {k} numbers have a scale of their own, where {fmt.name} has one for {fmt.k}"] = mxspec.quantize(
                padded, fmt, profile=seen.profile
            )
        right = mxspec.dequantize(mxspec.quantize(x, fmt, profile=seen.profile))
        values = {words: mxspec.dequantize(t) for words, t in cuts.items()}
    for words, want in values.items():
        want = want[..., : x.size // len(want)].reshape(x.shape).astype(dtype).astype(np.float32)
        if np.array_equal(want, found, equal_nan=True) and not np.array_equal(want, right, equal_nan=True):
            return Found(KnownCause.OTHER_BLOCKS, words)
    return None


def _has_scales(seen: Seen, answer: npt.NDArray[Any], x: npt.NDArray[Any], scales: Codes) -> bool:
    """Whether these are the scales of what was answered; of values, whether they are those of blocks under these scales."""
    scales, codes = scales.reshape(-1), answer[:, 1:].astype(np.uint8)
    if not (seen.of_values and seen.fmt.is_mx):
        return bool((scales == answer[:, 0]).all())
    with np.errstate(all="ignore"):
        want = mxspec.quantize(x.astype(np.float32), seen.fmt, scales=scales[:, None]).codes
    rows = Rows(x, answer[:, 0].astype(np.uint8), codes, scales, want, None, of_values=True)
    return bool(rows.agree(scales, want, seen.fmt).all())


def find_nan_state(session: TargetSession, seen: Seen, again: Answered) -> Found | None:
    """Whether all wrong blocks have the scale of NaN, and an ordinary one gets it behind a block with NaN, in one call or in the next."""
    nan = seen.fmt.scale.nan_code
    wrong = [r.scales[~r.agree(r.want_scales, r.want_codes, seen.fmt)] for r in seen.rows]
    if nan is None or any((scales != nan).any() for scales in wrong):
        return None
    kept = np.flatnonzero(again.before[:, 0] != nan)
    block = again.inputs[0][kept[:1] if len(kept) else [0]]
    broken = np.full_like(block, np.nan)

    def ask(*blocks: Any) -> list[int]:
        given = (np.concatenate(blocks), again.name)
        answer = run_once(lambda: again.rows(session.call(again.function, *given, **again.kwargs)))
        return [] if isinstance(answer, NoAnswer) else answer[:, 0].tolist()

    alone = ask(block)
    together = ask(block, broken, block)
    after = ask(block)
    if after == [nan] and (alone != [nan] or len(kept)):
        return Found(KnownCause.NAN_STATE, "state after a NaN: once a block held NaN, all blocks of later calls get the scale of NaN")
    if after != [nan] and together[:1] != [nan] and together[2:] == [nan]:
        return Found(KnownCause.NAN_STATE, "state after a NaN: blocks behind one with NaN in the same call get the scale of NaN")
    return None


#: A block, the tensor scale that it stands under, and whether codes and scales are right for it.
_Block = tuple[npt.NDArray[np.float32], TensorScales | None, Callable[[Codes, Codes], bool]]


def are_right_alone(session: TargetSession, seen: Seen) -> bool:
    """Whether some ordinary blocks or maxima are wrong, and each of those that are asked again, in a call of one block, is right."""
    dtypes = session.capabilities.dtypes
    blocks, maxima = list(_list_wrong_blocks(seen, dtypes[0])), list(_list_wrong_maxima(seen))
    asked = [(one, dtypes[0]) for one in _draw(blocks)] + [(one, preferred_dtype(dtypes)) for one in _draw(maxima)]
    for (x, tensor, is_right), dtype in asked:
        arguments = (x.reshape(1, -1).astype(DTYPES[dtype]), seen.fmt.name)
        answer = run_once(partial(session.call, "quantize", *arguments, **tensor_argument(tensor, session.capabilities)))
        if isinstance(answer, NoAnswer) or not is_right(*answer):
            return False
    return bool(asked)


def _draw(wrong: Sequence[_Block]) -> list[_Block]:
    places = np.unique(np.linspace(0, len(wrong) - 1, min(len(wrong), _ASKED)).astype(int)).tolist()
    return [wrong[place] for place in places]


def _list_wrong_blocks(seen: Seen, dtype: str) -> Iterator[_Block]:
    for item in seen.answered:
        legal = item.case.answers.get(seen.profile.id)
        if item.case.is_row and item.dtype == dtype and item.case.topic in ORDINARY and legal is not None:
            is_right = partial(_is_right, legal, seen.fmt)
            if not is_right(item.codes, item.scales):
                yield item.case.x, item.case.tensor, is_right


def _list_wrong_maxima(seen: Seen) -> Iterator[_Block]:
    for maxima in seen.maxima(seen.profile):
        for i in np.flatnonzero(maxima.returned != maxima.expected):
            x = np.where(np.arange(seen.fmt.k) == 0, maxima.amax[i].view(np.float32), np.float32(0))
            yield x, maxima.tensor, partial(_has_scale, int(maxima.expected[i]))


def _is_right(legal: Sequence[Answer], fmt: BlockFormat, codes: Codes, scales: Codes) -> bool:
    return any(answer_matches(one, scales, codes, fmt.element, signs=False) for one in legal)


def _has_scale(expected: int, _: Codes, scales: Codes) -> bool:
    return bool((scales == expected).all())
