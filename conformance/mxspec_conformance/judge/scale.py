"""Judging the scale rule alone: every block maximum at which some profile's scale byte changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat, get_block
from mxspec.profiles.schema import Profile
from mxspec_conformance.judge.quantize import DTYPES
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_bisected
from mxspec_conformance.observations.selection import kept_lanes
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.files import read_document

Codes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class ScaleCase:
    """A run of block maxima under one tensor scale."""

    id: str
    topic: str
    amax: npt.NDArray[np.uint32]
    tensor: dict[str, str] | None
    #: Profile id -> scale bytes.
    answers: dict[str, Codes]
    #: The place of each maximum in the case, where only some are asked for.
    places: tuple[int, ...] | None = None

    def label(self, lane: int) -> str:
        """The label of one maximum."""
        return f"{self.id}[{lane if self.places is None else self.places[lane]}]"

    def keep(self, places: Sequence[int]) -> ScaleCase:
        """Some maxima of the case."""
        index = np.array(places, np.intp)
        answers = {name: scales[index] for name, scales in self.answers.items()}
        return replace(self, amax=self.amax[index], answers=answers, places=tuple(places))


@lru_cache(maxsize=16)
def load_scale_cases(fmt: str) -> tuple[ScaleCase, ...]:
    """The scale cases of a format, read once."""
    document = read_document("scale", fmt)
    names = document["profiles"]
    return tuple(
        ScaleCase(
            id=entry["id"],
            topic=entry["topic"],
            amax=np.frombuffer(bytes.fromhex(entry["amax"]), ">u4").astype(np.uint32),
            tensor=entry.get("tensor_scale"),
            answers={
                names[i]: np.frombuffer(bytes.fromhex(e["scale"]), np.uint8)
                for e in entry["expect"]
                for i in e["profiles"]
            },
        )
        for entry in document["cases"]
    )


def scale_blocks(case: ScaleCase, k: int) -> npt.NDArray[np.float32]:
    """One block for each maximum: it stands at a moving position with alternating sign, the other lanes are zero."""
    blocks = np.zeros((len(case.amax), k), np.uint32)
    index = np.arange(len(case.amax))
    place = index if case.places is None else np.array(case.places)
    blocks[index, place % k] = case.amax | ((place & 1).astype(np.uint32) << np.uint32(31))
    return blocks.view(np.float32)


def keep_representable(case: ScaleCase, dtype: str) -> ScaleCase | None:
    """The case with those of its maxima that a dtype holds; None if it holds none."""
    with np.errstate(all="ignore"):
        kept = case.amax.view(np.float32).astype(DTYPES[dtype]).astype(np.float32).view(np.uint32) == case.amax
    if not kept.any():
        return None
    places = None if case.places is None else tuple(np.array(case.places)[kept].tolist())
    return replace(case, amax=case.amax[kept], answers={n: a[kept] for n, a in case.answers.items()}, places=places)


def _keep_selected(cases: Sequence[ScaleCase], fmt: str) -> Iterator[ScaleCase]:
    for case in cases:
        places = kept_lanes("scale", fmt, case.id, len(case.amax))
        if len(places) == len(case.amax):
            yield case
        elif places:
            yield case.keep(places)


def observe_scales(session: TargetSession, fmt: str, cases: Sequence[ScaleCase]) -> list[tuple[ScaleCase, Codes | NoAnswer]]:
    """The scale bytes that the target returns for each case, in float32, or else in its first dtype."""
    block, capabilities = get_block(fmt), session.capabilities
    cases = list(_keep_selected(cases, fmt))
    dtype = "float32" if "float32" in capabilities.dtypes else capabilities.dtypes[0]
    if dtype != "float32":
        cases = [c for c in (keep_representable(c, dtype) for c in cases) if c is not None]
    results: list[tuple[ScaleCase, Codes | NoAnswer]] = []
    groups: dict[str | None, list[ScaleCase]] = {}
    for case in cases:
        groups.setdefault(None if case.tensor is None else case.tensor["amax"], []).append(case)
    for members in groups.values():
        first = members[0]
        if first.tensor is not None and not capabilities.has("quantize", "tensor_scale"):
            results += [(c, NoAnswer("unsupported", "quantize takes no tensor_scale")) for c in members]
            continue
        if first.tensor is None and not capabilities.one_level:
            results += [(c, NoAnswer("unsupported", "quantize asks for a tensor_scale")) for c in members]
            continue
        extra: dict[str, Any] = {}
        if first.tensor is not None:
            bits = int(first.tensor[capabilities.tensor_scale], 16)
            extra["tensor_scale"] = float(np.uint32(bits).view(np.float32))

        def call(items: Sequence[ScaleCase], extra: dict[str, Any] = extra) -> list[Codes]:
            rows = np.concatenate([scale_blocks(c, block.k) for c in items]).astype(DTYPES[dtype])
            _, scales = session.call("quantize", rows, fmt, **extra)
            edges = np.cumsum([len(c.amax) for c in items])[:-1]
            return list(np.split(scales.reshape(-1), edges))

        results += list(zip(members, run_bisected(members, call), strict=True))
    return results


def judge_scales(
    results: Sequence[tuple[ScaleCase, Codes | NoAnswer]],
    fmt: BlockFormat,
    profile: str,
    scorecard: Scorecard,
    *,
    naming: bool = True,
) -> None:
    """Enter every maximum into the scorecard of a profile; naming: look for other profiles that give a wrong byte."""
    for case, returned in results:
        expected = case.answers.get(profile)
        if expected is None:
            continue
        if isinstance(returned, NoAnswer):
            scorecard.count_no_answer(case.topic, case.id, returned)
            continue
        for i, ok in enumerate(returned == expected):
            equals = () if ok or not naming else (n for n, a in case.answers.items() if a[i] == returned[i])
            scorecard.count(case.topic, case.label(i), ok=bool(ok), equals=equals)


def count_wrong_scales(results: Sequence[tuple[ScaleCase, Codes | NoAnswer]], profile: str) -> int:
    """Maxima whose scale byte is not the profile's."""
    return sum(
        0 if profile not in case.answers
        else (0 if returned.kind == "unsupported" else len(case.amax)) if isinstance(returned, NoAnswer)
        else int((returned != case.answers[profile]).sum())
        for case, returned in results
    )  # fmt: skip


def count_asked(results: Sequence[tuple[ScaleCase, Codes | NoAnswer]]) -> int:
    """Maxima that the target offers to answer."""
    return sum(len(c.amax) for c, r in results if not (isinstance(r, NoAnswer) and r.kind == "unsupported"))


def weigh_wrong_scales(results: Sequence[tuple[ScaleCase, Codes | NoAnswer]], profile: str) -> int:
    """How many maxima get another scale byte than the profile's, where one that was tried stands for its surroundings.

    The unit is half a float32 step: a maximum counts as far as its neighbours on both sides among all that were tried.
    """
    total = 0
    groups: dict[str | None, list[tuple[ScaleCase, Codes]]] = {}
    for case, returned in results:
        if not isinstance(returned, NoAnswer) and profile in case.answers:
            groups.setdefault(None if case.tensor is None else case.tensor["amax"], []).append((case, returned))
    for members in groups.values():
        bits, place = np.unique(np.concatenate([c.amax for c, _ in members]).astype(np.int64), return_inverse=True)
        wrong = np.zeros(len(bits), bool)
        wrong[place[np.concatenate([r != c.answers[profile] for c, r in members])]] = True
        edges = np.concatenate([bits[:1], bits, bits[-1:]])
        total += int((edges[2:] - edges[:-2])[wrong].sum())
    return total


def scales_identical(results: Sequence[tuple[ScaleCase, Codes | NoAnswer]], fmt: BlockFormat, profile: Profile) -> bool:
    """Whether every scale byte returned is the profile's; where it leaves NaN blocks open, any NaN for a NaN."""
    nan = np.array([fmt.scale.is_nan(byte & (fmt.scale.code_count - 1)) for byte in range(256)])
    for case, returned in results:
        if profile.id not in case.answers:
            continue
        if isinstance(returned, NoAnswer):
            if returned.kind != "unsupported":
                return False
            continue
        expected = case.answers[profile.id]
        same = returned == expected
        if not profile.pins_nan_blocks:
            same |= nan[returned] & nan[expected]
        if not same.all():
            return False
    return True
