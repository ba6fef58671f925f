"""How often profiles give the same bits: counted on the golden vectors' blocks, of which each was chosen to tell some apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
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
    #: Blocks that both define, and those on which they give the same canonical answer, [profiles, profiles].
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


#: A question to a profile: its id, float32 bits of the first lanes, and of the tensor's maximum.
_Question = tuple[str, tuple[int, ...], int | None]
_Answers = Mapping[_Question, tuple[int, tuple[int, ...]]]


def list_neighbours(fmt: str, pairs: Mapping[str, Any], most: int = 3) -> Mapping[str, Sequence[Neighbour]]:
    """For each profile of a format those that agree most often with it.

    pairs: the blocks that distinguish them, from `reports/identify/pairs.json`.
    """
    agreement = count_agreement(fmt)
    nearest = {profile: agreement.nearest(profile, most) for profile in agreement.profiles}
    known = {
        (profile, name): pairs.get(f"{profile} | {name}") or pairs.get(f"{name} | {profile}") or {}
        for profile, others in nearest.items() for name, _, _ in others
    }  # fmt: skip
    answers = _ask_all(fmt, {(name, *_read_block(block)) for pair, block in known.items() for name in pair if block.get("lanes")})
    return {
        profile: [_make_neighbour((profile, name), same, asked, known[profile, name], answers) for name, same, asked in others]
        for profile, others in nearest.items()
    }


def _make_neighbour(pair: tuple[str, str], same: int, asked: int, known: Mapping[str, Any], answers: _Answers) -> Neighbour:
    lanes, form = _read_block(known)
    found = tuple(answers[name, lanes, form] for name in pair if (name, lanes, form) in answers)
    return Neighbour(pair[1], same, asked, lanes, form, found, str(known.get("why", "")))


def _read_block(known: Mapping[str, Any]) -> tuple[tuple[int, ...], int | None]:
    amax = known.get("tensor_amax")
    return tuple(int(bits, 16) for bits in known.get("lanes", ())), None if amax is None else int(amax, 16)


def _ask_all(fmt: str, questions: Iterable[_Question]) -> _Answers:
    """Scale byte and codes of the first lanes; each profile is evaluated once for all blocks of one tensor maximum."""
    block = get_block(fmt)
    together: dict[tuple[str, int | None], list[tuple[int, ...]]] = defaultdict(list)
    for profile, lanes, form in questions:
        together[profile, form].append(lanes)
    answers: dict[_Question, tuple[int, tuple[int, ...]]] = {}
    for (profile, form), blocks in together.items():
        ask = ask_profile(get_profile(profile, block), block, form)
        if ask is None:
            continue
        given = np.zeros((len(blocks), block.k), np.uint32)
        for row, lanes in zip(given, blocks, strict=True):
            row[: len(lanes)] = lanes
        scales, codes = ask(given)
        for lanes, scale, row in zip(blocks, scales.tolist(), codes.tolist(), strict=True):
            answers[profile, lanes, form] = (scale, tuple(row[: len(lanes)]))
    return answers
