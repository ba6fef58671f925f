"""The input that tells two profiles apart, computed from the profiles; or the proof that there is none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import mxspec
from mxspec.formats import BlockFormat
from mxspec.stepfunctions import LAST_FINITE, SIGN
from mxspec_conformance.identification.tables import SPECIAL_BLOCKS, Bits, ask_profile, tabulate, tabulate_elements, tabulate_scale
from mxspec_vectors.cases import load_quantize_cases
from mxspec_vectors.points import TENSOR_AMAXES

#: float32 patterns between neighbours of each dtype.
STEPS = {"float32": 1, "bfloat16": 1 << 16}


@dataclass(frozen=True, slots=True)
class DistinguishingInput:
    """A block to which two profiles give different answers."""

    format: str
    #: float32 bits of the lanes; the rest of the block is +0.
    lanes: tuple[int, ...]
    #: float32 bits of the tensor's maximum, or None in the one-level form.
    tensor_amax: int | None
    #: (scale byte, codes) of either profile.
    answers: tuple[tuple[int, bytes], tuple[int, bytes]]

    @property
    def block(self) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
        """The block [1, k]."""
        return _fill(self.lanes, mxspec.get_block(self.format))


def list_forms(fmt: BlockFormat) -> list[int | None]:
    """The forms of a format: without a tensor scale (None), and with that of tensors with these maxima."""
    finite = [bits for bits in TENSOR_AMAXES.values() if bits < 0x7F800000]
    return [None, *sorted(set(finite), key=_complexity)] if fmt.has_tensor_scale else [None]


def _complexity(bits: int) -> tuple[int, int]:
    """How far a number is from ordinary: binades from 1, then significand bits in use."""
    return abs((bits >> 23 & 0xFF) - 127), bin(bits & 0x7FFFFF).count("1")


def distinguish(a: str, b: str, fmt: str, *, dtype: str = "float32") -> DistinguishingInput | None:
    """A block that two profiles of a format answer differently, as plain as can be; None where there is none.

    Profiles that are step functions (`tables.why_no_table`) are compared completely, for tensors with each of `list_forms`'
    maxima; others on the golden vectors' inputs. dtype: what the block's values must be.
    """
    block, step = mxspec.get_block(fmt), STEPS[dtype]
    found: list[DistinguishingInput] = []
    for search in (_search_plain_tables, _from_vectors, _search_whole_tables):
        found += search(a, b, block, step)
        # Vectors are searched for something more ordinary; the whole tables only where nothing is found.
        if found and (search is not _search_plain_tables or min(map(_oddness, found)) == 0):
            break
    return min(found, key=lambda s: (_oddness(s), len(s.lanes), max(map(_complexity, s.lanes)), s.lanes), default=None)


def _oddness(s: DistinguishingInput) -> int:
    """0 for ordinary numbers, 1 for very large and small ones, 2 for blocks of zeros, infinities and NaN."""
    magnitudes = [bits & ~SIGN for bits in s.lanes]
    if max(magnitudes) == 0 or max(magnitudes) > LAST_FINITE:
        return 2
    return int(_complexity(max(magnitudes))[0] >= 32)


def explain_sameness(a: str, b: str, fmt: str, *, dtype: str = "float32") -> str:
    """Why `distinguish` finds nothing, in words."""
    block, step = mxspec.get_block(fmt), STEPS[dtype]
    equal, untold = [], 0
    for form in list_forms(block):
        first, second = tabulate(a, fmt, form), tabulate(b, fmt, form)
        if first is not None and second is not None:
            if first.digest(step) == second.digest(step):
                equal.append(form)
        elif all(ask_profile(mxspec.get_profile(p, block), block, form) is not None for p in (a, b)):
            untold += 1
    if equal and not untold:
        where = (
            ""
            if equal == [None]
            else f" for all {len(equal)} tensor maxima tried"
            if None not in equal
            else " with and without tensor scales"
        )
        return f"one function on {dtype}{where}: equal thresholds everywhere"
    if untold:
        return "not separated by any input of the golden vectors; one of them is no step function, so nothing is proven"
    return "they are never asked the same: they have no form in common"


def _fill(lanes: tuple[int, ...], fmt: BlockFormat) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    block = np.zeros((1, fmt.k), np.uint32)
    block[0, : len(lanes)] = lanes
    return block


def _check(a: str, b: str, fmt: BlockFormat, form: int | None, lanes: tuple[int, ...]) -> DistinguishingInput | None:
    answers = []
    for name in (a, b):
        ask = ask_profile(mxspec.get_profile(name, fmt), fmt, form)
        if ask is None:
            return None
        try:
            scales, codes = ask(_fill(lanes, fmt))
        except ValueError:
            return None
        answers.append((int(scales[0]), codes[0].tobytes()))
    return DistinguishingInput(fmt.name, lanes, form, (answers[0], answers[1])) if answers[0] != answers[1] else None


def _search_plain_tables(a: str, b: str, fmt: BlockFormat, step: int) -> list[DistinguishingInput]:
    return _search_tables(a, b, fmt, step, thorough=False)


def _search_whole_tables(a: str, b: str, fmt: BlockFormat, step: int) -> list[DistinguishingInput]:
    return _search_tables(a, b, fmt, step, thorough=True)


def _search_tables(a: str, b: str, fmt: BlockFormat, step: int, *, thorough: bool) -> list[DistinguishingInput]:
    found: list[DistinguishingInput] = []
    for form in list_forms(fmt):
        if tabulate_scale(a, fmt.name, form) is not None and tabulate_scale(b, fmt.name, form) is not None:
            found += _from_tables(a, b, fmt, form, step, thorough=thorough)
            if found and (thorough or min(map(_oddness, found)) == 0):
                break
    return found


def _from_tables(a: str, b: str, fmt: BlockFormat, form: int | None, step: int, *, thorough: bool) -> Iterator[DistinguishingInput]:
    """Separations in the scale, in an element under an equal scale, and in special blocks.

    thorough: under every scale, not only under those of the plainest maxima.
    """
    first, second = tabulate_scale(a, fmt.name, form), tabulate_scale(b, fmt.name, form)
    assert first is not None
    assert second is not None
    places = np.union1d(first.starts, second.starts)
    places = np.unique(places + (-places % step))
    places = places[places <= LAST_FINITE]
    candidates: list[tuple[int, ...]] = [(p,) for p in _plainest(places[first.at(places) != second.at(places)], 4)]
    # Maxima from which both take another scale after this one.
    ends = np.intersect1d(first.ends // step * step, second.ends // step * step)
    ends = ends[first.at(ends) == second.at(ends)]
    chosen = tuple(_plainest(ends, len(ends) if thorough else 6))
    for sign in (0, 1) if chosen else ():
        one_table, other_table = (tabulate_elements(p, fmt.name, form, chosen, sign) for p in (a, b))
        if one_table is None or other_table is None:
            break
        for largest, one, two in zip(chosen, one_table, other_table, strict=True):
            places = np.union1d(one.starts, two.starts)
            places = np.unique(places + (-places % step))
            places = places[places <= largest]
            differ = one.at(places) != two.at(places)
            candidates += [(largest, p | sign * SIGN) for p in _plainest(places[differ], 1)]
    for lanes in (*sorted(candidates, key=lambda c: max(_complexity(x) for x in c))[:8], *SPECIAL_BLOCKS):
        found = _check(a, b, fmt, form, lanes)
        if found is not None:
            yield found


def _plainest(bits: Bits, count: int) -> list[int]:
    return sorted(bits.tolist(), key=_complexity)[:count]


def _from_vectors(a: str, b: str, fmt: BlockFormat, step: int) -> list[DistinguishingInput]:
    """Separations among the golden vectors' blocks, cut down to few lanes where that still shows it."""
    blocks = []
    for case in load_quantize_cases(fmt.name):
        bits = case.x.reshape(-1).view(np.uint32)
        if not case.is_row or (bits % step).any() or a not in case.answers or b not in case.answers:
            continue
        one, two = case.answers[a][0], case.answers[b][0]
        if one.scale.tobytes() != two.scale.tobytes() or one.codes.tobytes() != two.codes.tobytes():
            form = None if case.tensor is None else case.tensor.amax
            blocks.append((bits.astype(np.int64), form, np.flatnonzero(one.codes != two.codes).tolist()))
    found = []
    for case_bits, form, wrong in sorted(blocks, key=lambda c: _complexity(int((c[0] & ~SIGN).max())))[:8]:
        largest = int(case_bits[np.argmax(case_bits & ~SIGN)])
        few = ((largest,), *((largest, int(case_bits[i])) for i in wrong[:4]), tuple(case_bits.tolist()))
        shown = next((s for lanes in few if (s := _check(a, b, fmt, form, lanes)) is not None), None)
        if shown is not None:
            found.append(shown)
    return found
