"""What is left open has to be decided one way: blocks with NaN or Inf that are stored otherwise than the profile says.

OCP MX leaves it to the implementation how such a block is stored. Whatever it chooses, it chooses for all of them: the scale
is that of the other lanes, or the same byte each time; the lanes with NaN or Inf become the same thing each time; the other
lanes are what the scale makes of them, or are all lost. An answer that depends on the lane, on the sign of a NaN, or on the
numbers next to it, is no choice but a mistake.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.acceptance import flag_nan, flag_nan_codes, fold_zeros
from mxspec.elements import code_dtype
from mxspec.elements_given_scale import encode_given_scale
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_conformance.judge.tally import Scorecard, Tally
from mxspec_conformance.observations.answers import is_legal
from mxspec_conformance.observations.quantize import Observed
from mxspec_vectors.cases import Codes
from mxspec_vectors.tensor_scales import TensorScales, bind_profile, native_scale
from mxspec_vectors.topics import Level, topic_level

#: Topics whose blocks are decided alike.
TOPICS = ("nan", "inf")

#: What explains one part of an answer; an answer is explained by several, a choice by what explains all answers.
Reasons = frozenset[Hashable]


def judge_choices(seen: Sequence[Observed], fmt: BlockFormat, profile: Profile, scorecard: Scorecard, *, described: bool) -> None:
    """Enter, for each group of blocks that one choice concerns, the blocks that it does not explain.

    Groups in which every answer is one of those that are listed as legal are left alone; so is a target that goes wrong in
    ordinary blocks, as it does so in these. described: as for `topic_level`.
    """
    if described or any(t.failing for t in scorecard.tallies.values() if _binds(t)):
        return
    groups: dict[tuple[str, str, TensorScales | None], list[Observed]] = {}
    for item in seen:
        if item.case.topic in TOPICS and _is_asked(item, profile):
            groups.setdefault((item.case.topic, item.dtype, item.case.tensor), []).append(item)
    for members in groups.values():
        if all(is_legal(m, fmt, profile.id) for m in members):
            continue
        parts = [_explain(m, fmt, profile) for m in members]
        chosen = [_most_common(column) for column in zip(*parts, strict=True)]
        for item, reasons in zip(members, parts, strict=True):
            ok = all(not one or choice in one for one, choice in zip(reasons, chosen, strict=True))
            scorecard.count("choice", item.label, origin=item.case.id, ok=ok)


def _binds(tally: Tally) -> bool:
    return topic_level(tally.topic, tally.operation, tally.format) is not Level.OPEN and tally.topic not in TOPICS


def _is_asked(item: Observed, profile: Profile) -> bool:
    """Rows with NaN or Inf, not both, under an ordinary tensor scale."""
    case = item.case
    mixed = np.isnan(case.x).any() and np.isinf(case.x).any()
    special = case.tensor is not None and case.tensor.is_special
    return case.is_row and not mixed and not special and profile.id in case.answers


def _most_common(column: Iterable[Reasons]) -> Hashable:
    """The reason that explains the most answers."""
    counts: dict[Hashable, int] = {}
    for reasons in column:
        for reason in reasons:
            counts[reason] = counts.get(reason, 0) + 1
    return max(counts, key=lambda r: counts[r]) if counts else None


def _explain(item: Observed, fmt: BlockFormat, profile: Profile) -> tuple[Reasons, Reasons, Reasons]:
    """What explains the scale, the lanes with NaN or Inf, and the other lanes; nothing where any choice would do."""
    x, scale, codes = item.case.x.reshape(-1), int(item.scales.reshape(-1)[0]), item.codes.reshape(-1)
    special = ~np.isfinite(x)
    if flag_nan_codes(scale, fmt.scale):
        return frozenset({"nan"}), frozenset(), frozenset()
    rest = np.where(special, np.float32(0), x)
    scales: set[Hashable] = {scale}
    if not (rest != 0).any() or scale == _scale_of(rest, item, fmt, profile):
        scales.add("of the others")
    return frozenset(scales), _explain_special(x, codes, special, fmt), _explain_others(rest, scale, codes, special, item, fmt, profile)  # fmt: skip


def _scale_of(rest: npt.NDArray[np.float32], item: Observed, fmt: BlockFormat, profile: Profile) -> int:
    with np.errstate(all="ignore"):
        t = mxspec.quantize(rest[None], fmt, profile=profile, tensor_scale=native_scale(profile, item.case.tensor))
    return int(t.scales.reshape(-1)[0])


def _explain_special(x: npt.NDArray[np.float32], codes: Codes, special: npt.NDArray[np.bool_], fmt: BlockFormat) -> Reasons:
    """What the lanes with NaN or Inf have become: a NaN, one code, or one code with the sign of the lane."""
    element, found = fmt.element, set[Hashable]()
    lanes = fold_zeros(element)[codes[special]]
    if flag_nan(element)[lanes].all():
        found.add("NaN")
    if len(set(lanes.tolist())) == 1:
        found.add(("code", int(lanes[0])))
    if element.twos_complement:
        signed = lanes.astype(np.int8).astype(int) * np.where(np.signbit(x[special]), -1, 1)
        signed = np.where(np.abs(signed) >= 127, 127, signed)  # the lowest code and its neighbour are one end
    else:
        signed = np.where(lanes & element.sign_bit, lanes & (element.sign_bit - 1), lanes).astype(int)
        turned = (np.signbit(x[special]) != ((lanes & element.sign_bit) != 0)) & (signed != 0)
        signed = np.where(turned, -signed, signed)
    if len(set(signed.tolist())) == 1:
        found.add(("signed", int(signed[0])))
    return frozenset(found) or frozenset({("codes", lanes.tobytes())})


def _explain_others(
    rest: npt.NDArray[np.float32], scale: int, codes: Codes, special: npt.NDArray[np.bool_], item: Observed,
    fmt: BlockFormat, profile: Profile,
) -> Reasons:  # fmt: skip
    """What the other lanes have become: right under the scale, zeros, or one and the same code."""
    if special.all():
        return frozenset()
    steps, bindings = bind_profile(profile, item.case.tensor)
    usable = np.array([min(scale, fmt.scale.code_count - 1)], code_dtype(fmt.scale))
    with np.errstate(all="ignore"):
        expected = encode_given_scale(rest[None], usable, fmt, profile, steps, bindings)[0].reshape(-1)
    fold = fold_zeros(fmt.element)
    lanes, wanted = fold[codes[~special]], fold[expected[~special]]
    found: set[Hashable] = set()
    # One step at a two's complement end is another open choice.
    lowest = (lanes == fmt.element.sign_bit) & (wanted == fmt.element.sign_bit + 1) & fmt.element.twos_complement
    open_codes = profile.unspecified_codes_under_zero and scale == 0
    if open_codes or ((lanes == wanted) | lowest).all():
        found.add("right")
    if not lanes.any():
        found.add("zeros")
    if len(set((lanes & (fmt.element.sign_bit - 1)).tolist())) == 1:
        found.add(("magnitude", int(lanes[0]) & (fmt.element.sign_bit - 1)))
    return frozenset(found) or frozenset({("codes", lanes.tobytes())})
