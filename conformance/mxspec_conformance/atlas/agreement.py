"""How often profiles give the same bits: counted on the golden vectors' blocks, of which each was chosen to tell some apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import get_block
from mxspec.profiles import get_profile, list_profiles
from mxspec_conformance.identification.tables import ask_profile
from mxspec_vectors.cases import load_quantize_cases


@dataclass(frozen=True, slots=True)
class Agreement:
    """Profiles of a format, pair by pair."""

    profiles: tuple[str, ...]
    #: Blocks that both are asked, and those on which they give the same canonical answer, [profiles, profiles].
    asked: npt.NDArray[np.int64]
    same: npt.NDArray[np.int64]

    def nearest(self, profile: str, most: int) -> list[tuple[str, int, int]]:
        """Other profiles with the share of equal blocks, the largest first: (id, same, asked)."""
        row = self.profiles.index(profile)
        others = [
            (name, int(self.same[row, i]), int(self.asked[row, i]))
            for i, name in enumerate(self.profiles)
            if i != row and self.asked[row, i]
        ]
        return sorted(others, key=lambda o: (-o[1] / o[2], o[0]))[:most]


@lru_cache(maxsize=8)
def count_agreement(fmt: str) -> Agreement:
    """The agreement of all profiles of a format."""
    cases = [case for case in load_quantize_cases(fmt) if case.is_row]
    names = tuple(p.id for p in list_profiles(fmt) if any(p.id in case.answers for case in cases))
    answers = np.full((len(names), len(cases)), -1, np.int64)
    for column, case in enumerate(cases):
        seen: dict[Any, int] = {}
        for row, name in enumerate(names):
            if name in case.answers:
                first = case.answers[name][0]
                answers[row, column] = seen.setdefault((first.scale.tobytes(), first.codes.tobytes()), len(seen))
    both = (answers >= 0).astype(np.int64)
    same = np.array([((answers == row) & (row >= 0)).sum(axis=1) for row in answers], np.int64)
    return Agreement(names, both @ both.T, same)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another profile, how often it agrees, and the simplest block on which it does not."""

    profile: str
    same: int
    asked: int
    #: float32 bits of the lanes that are not zero; empty where none is known.
    lanes: tuple[int, ...]
    tensor_amax: int | None
    #: Scale byte and codes of the first and of the other profile, for these lanes.
    answers: tuple[tuple[int, tuple[int, ...]], ...]
    #: Why there is no block.
    why: str


def list_neighbours(profile: str, fmt: str, pairs: Mapping[str, Any], most: int = 8) -> list[Neighbour]:
    """The profiles that agree most often with one; pairs: the blocks that distinguish them, from `reports/identify/pairs.json`."""
    agreement = count_agreement(fmt)
    if profile not in agreement.profiles:
        return []
    return [
        _make_neighbour(profile, name, same, asked, fmt, pairs)
        for name, same, asked in agreement.nearest(profile, most)
    ]


def _make_neighbour(profile: str, other: str, same: int, asked: int, fmt: str, pairs: Mapping[str, Any]) -> Neighbour:
    known = pairs.get(f"{profile} | {other}") or pairs.get(f"{other} | {profile}") or {}
    lanes = tuple(int(bits, 16) for bits in known.get("lanes", ()))
    amax = known.get("tensor_amax")
    form = None if amax is None else int(amax, 16)
    answers = tuple(answer for name in (profile, other) if (answer := _answer(name, fmt, lanes, form)) is not None) if lanes else ()
    return Neighbour(other, same, asked, lanes, form, answers, str(known.get("why", "")))


def _answer(profile: str, fmt: str, lanes: Sequence[int], form: int | None) -> tuple[int, tuple[int, ...]] | None:
    block = get_block(fmt)
    ask = ask_profile(get_profile(profile, block), block, form)
    if ask is None:
        return None
    given = np.zeros((1, block.k), np.uint32)
    given[0, : len(lanes)] = lanes
    scales, codes = ask(given)
    return int(scales[0]), tuple(int(c) for c in codes[0, : len(lanes)])
