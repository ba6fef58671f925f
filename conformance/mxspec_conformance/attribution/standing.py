"""Which profiles a tensor's bytes are consistent with, without the weights that it was made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mxspec.enums import StrEnum
from mxspec.formats import UE4M3, BlockFormat
from mxspec.profiles import Profile
from mxspec.tensorscale import TensorScale, convert_tensor_scale
from mxspec_conformance.attribution.maxima import Maximum, find_due_byte, find_maximum
from mxspec_conformance.attribution.traces import MinusZero, Trace, trace, trace_scales
from mxspec_conformance.lint.against.expecting import list_suited
from mxspec_conformance.lint.blocks import largest_scale
from mxspec_conformance.lint.subject import BlockCounts, GridCounts


class Standing(StrEnum):
    """What the bytes say of one profile."""

    #: Nothing in the bytes speaks against it.
    CONSISTENT = "consistent"
    #: Weights are thinkable from which it gives these bytes; they would have to be peculiar.
    IMPROBABLE = "improbable"
    #: From no finite weights does it give these bytes.
    EXCLUDED = "excluded"
    #: Its codes depend on each other, so that single blocks say nothing.
    UNKNOWN = "unknown"


class Sign(StrEnum):
    """What speaks against a profile."""

    #: Scale bytes that it gives to no block.
    SCALE_BYTE = "scale-byte"
    #: Another scale byte for blocks of zeros.
    ZERO_BLOCK = "zero-block"
    #: A largest code that it leaves under no maximum with this scale byte.
    LARGEST_CODE = "largest-code"
    #: Codes of -0, which it never gives.
    MINUS_ZERO = "minus-zero"
    #: No code of -0 among many zeros, of which it gives one for every negative weight that rounds to zero.
    NO_MINUS_ZERO = "no-minus-zero"
    #: A largest code that is in no block, and that it would give to many.
    UNUSED_CODE = "unused-code"
    #: A tensor scale that it computes from no maximum.
    TENSOR_SCALE = "tensor-scale"
    #: Block scales above that of the maximum from which the tensor scale was made.
    BEYOND_MAXIMUM = "beyond-maximum"


@dataclass(frozen=True, slots=True)
class Reason:
    """One observation against a profile."""

    sign: Sign
    text: str
    #: Blocks, or elements of `MINUS_ZERO`, that show it; None: it is their absence.
    count: int | None = None
    #: The first of these blocks in row-major order.
    block: int | None = None

    def as_dict(self) -> dict[str, object]:
        """The form in JSON."""
        return {"sign": self.sign.value, "text": self.text, "count": self.count, "block": self.block}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A profile and what the bytes say of it."""

    profile: str
    standing: Standing
    reasons: tuple[Reason, ...] = ()
    #: The maximum from which the profile makes the stored tensor scale, if there is one.
    maximum: Maximum | None = None

    def as_dict(self) -> dict[str, object]:
        """The form in JSON."""
        return {
            "profile": self.profile, "standing": self.standing.value, "reasons": [r.as_dict() for r in self.reasons],
            "maximum": None if self.maximum is None else self.maximum.as_dict(),
        }  # fmt: skip


#: Zeros without one -0 among them, and blocks that are due with a code that none has: by chance 2**-64 and exp(-32).
_ZEROS, _BLOCKS_DUE = 64, 32
#: A tensor scale that was turned into the other direction may have been rounded; so many float32 numbers on either side are tried.
_TURNED = (0, -1, 1, -2, 2)


def judge_profiles(counts: BlockCounts, fmt: BlockFormat, scale: TensorScale | None) -> tuple[Candidate, ...]:
    """Every profile of a format that has a form with, or without, a tensor scale: the likeliest first."""
    two_level = scale is not None
    found = [judge_profile(counts, fmt, p, scale) for p in list_suited(fmt, with_tensor_scale=two_level)]
    order = list(Standing)
    return tuple(sorted(found, key=lambda c: (order.index(c.standing), len(c.reasons))))


def judge_profile(counts: BlockCounts, fmt: BlockFormat, profile: Profile, scale: TensorScale | None) -> Candidate:
    """What the bytes say of one profile; scale: the stored tensor scale, of whatever kind."""
    if scale is None:
        return _judge(counts, fmt, profile, None, None)
    maximum = find_maximum(profile, scale)
    first: Candidate | None = None
    for native in _list_native(scale, profile):
        found = _judge(counts, fmt, profile, native, maximum)
        if found.standing is not Standing.EXCLUDED:
            return found
        first = first or found
    return first or Candidate(profile.id, Standing.EXCLUDED, (Reason(Sign.TENSOR_SCALE, "the tensor scale is no positive finite number"),))


def judge_grid(counts: GridCounts, fmt: BlockFormat) -> tuple[Candidate, ...]:
    """Every profile of a format, by the float32 scales of tiles and the largest code under each: the likeliest first."""
    tops, bits = counts.largest.reshape(-1).astype(np.int64), counts.bits.reshape(-1)
    held = (bits < 0x7F800000) & (tops <= fmt.element.max_code)  # traces are of finite weights
    scales, which = np.unique(bits[held], return_inverse=True)
    places, top = np.flatnonzero(held), tops[held]
    found = []
    for profile in list_suited(fmt, with_tensor_scale=False):
        known = trace_scales(profile, fmt, scales)
        if known is None:
            found.append(Candidate(profile.id, Standing.UNKNOWN))
            continue
        least, most = known.codes[which].T
        inside = known.reachable[which] & (least <= top) & (top <= most)
        zero = (top == 0) & (scales[which] == known.of_zeros)
        reasons = []
        for sign, wrong, text in (
            (Sign.SCALE_BYTE, ~known.reachable[which] & (top > 0), f"{{n}} of {len(top)} tiles: scales that it never gives, such as {{s}}"),
            (Sign.ZERO_BLOCK, (top == 0) & ~inside & ~zero, f"{{n}} of {len(top)} tiles: zero codes under scales such as {{s}}; it gives 0x{known.of_zeros:08x}"),
            (Sign.LARGEST_CODE, known.reachable[which] & ~inside & (top > 0), f"{{n}} of {len(top)} tiles, such as one of scale {{s}}: a largest code that it leaves under no maximum"),
        ):  # fmt: skip
            if wrong.any():
                first = int(wrong.argmax())
                shown = f"0x{int(bits[places[first]]):08x}"
                reasons.append(Reason(sign, text.format(n=int(wrong.sum()), s=shown), int(wrong.sum()), int(places[first])))
        minus = int(counts.codes[fmt.element.sign_bit])
        if minus and known.minus_zero is MinusZero.NEVER:
            reasons.append(
                Reason(Sign.MINUS_ZERO, f"{minus} elements are the code {fmt.element.sign_bit:x} of -0, which it never gives", minus)
            )
        found.append(Candidate(profile.id, Standing.EXCLUDED if reasons else Standing.CONSISTENT, tuple(reasons)))
    order = list(Standing)
    return tuple(sorted(found, key=lambda c: (order.index(c.standing), len(c.reasons))))


def _list_native(scale: TensorScale, profile: Profile) -> Iterator[TensorScale]:
    """The stored scale in the profile's kind, and its neighbours where it was turned."""
    if not 0 < scale.bits < 0x7F800000:
        return
    native = convert_tensor_scale(scale, profile)
    for step in _TURNED if scale.kind is not native.kind else _TURNED[:1]:
        if 0 < native.bits + step < 0x7F800000:
            yield TensorScale(native.kind, native.bits + step)


def _judge(counts: BlockCounts, fmt: BlockFormat, profile: Profile, scale: TensorScale | None, maximum: Maximum | None) -> Candidate:
    known = trace(profile, fmt, scale)
    if known is None:
        return Candidate(profile.id, Standing.UNKNOWN, (), maximum)
    held = ordinary_blocks(counts, fmt)
    against = [*_find_impossible(counts, held, known, fmt), *_find_minus_zero(counts, known, fmt)]
    if against:
        return Candidate(profile.id, Standing.EXCLUDED, tuple(against), maximum)
    odd = [*_find_absent(counts, held, known, fmt)]
    if scale is not None and profile.tensor is not None:
        if maximum is None:
            odd.append(Reason(Sign.TENSOR_SCALE, "it makes this tensor scale of no float32 maximum"))
        else:
            due, top = find_due_byte(profile, fmt, scale, maximum), largest_scale(counts)
            if top > due:
                text = f"the largest scale byte is {top:02X}; a block with the maximum of the tensor scale gets {due:02X}"
                odd.append(Reason(Sign.BEYOND_MAXIMUM, text))
    return Candidate(profile.id, Standing.IMPROBABLE if odd else Standing.CONSISTENT, tuple(odd), maximum)


def ordinary_blocks(counts: BlockCounts, fmt: BlockFormat) -> npt.NDArray[np.int64]:
    """Blocks by scale byte and largest code, without those that hold a NaN or an infinity: traces are of finite weights."""
    held = counts.largest.copy()
    held[[0x7F, 0xFF] if fmt.scale is UE4M3 else [0xFF]] = 0
    if not fmt.element.twos_complement:
        held[:, fmt.element.max_code + 1 :] = 0
    return held


def _find_impossible(counts: BlockCounts, held: npt.NDArray[np.int64], known: Trace, fmt: BlockFormat) -> Iterator[Reason]:
    wrong = (held > 0) & ~known.reachable
    used: npt.NDArray[np.bool_] = np.asarray(known.reachable.any(axis=1))

    def reason(sign: Sign, where: npt.NDArray[np.bool_], text: str) -> Iterator[Reason]:
        number = int(held[where].sum())
        if number:
            yield Reason(sign, text.format(n=number), number, int(counts.first[where].min()))

    rows = np.flatnonzero((wrong & ~used[:, None]).any(axis=1))
    unused = np.zeros_like(wrong)
    unused[rows] = wrong[rows]
    low, high = int(np.flatnonzero(used)[0]), int(np.flatnonzero(used)[-1])
    yield from reason(Sign.SCALE_BYTE, unused, f"scale bytes {_list_bytes(rows)} in {{n}} blocks; its own are {low:02X} to {high:02X}")
    zero = wrong & used[:, None]
    zero[:, 1:] = False
    rows = np.flatnonzero(zero.any(axis=1))
    own = np.flatnonzero(known.reachable[:, 0])
    gives = f"{_list_bytes(own)}" if own.size else "none"
    yield from reason(Sign.ZERO_BLOCK, zero, f"{{n}} blocks of zero codes have scale {_list_bytes(rows)}; it gives {gives}")
    code = wrong & used[:, None]
    code[:, 0] = False
    values = ", ".join(_value(fmt, int(c)) for c in np.flatnonzero(code.any(axis=0))[:4])
    yield from reason(Sign.LARGEST_CODE, code, f"{{n}} blocks whose largest value is {values} x scale, which it leaves under no maximum")


def _value(fmt: BlockFormat, code: int) -> str:
    element = fmt.element
    if element.twos_complement and code > element.max_code:
        return f"{float(-element.max_value) - float(element.magnitude(1)):g}"
    return f"{float(element.magnitude(code)):g}"


def _list_bytes(rows: npt.NDArray[np.intp]) -> str:
    shown = [f"{b:02X}" for b in rows.tolist()]
    return ", ".join(shown) if len(shown) <= 3 else f"{shown[0]} to {shown[-1]}"


def count_zeros(counts: BlockCounts, fmt: BlockFormat) -> tuple[int, int]:
    """How many elements are zero, and how many of these are -0."""
    totals = counts.pairs.sum(axis=0)
    minus = 0 if fmt.element.twos_complement else int(totals[fmt.element.sign_bit])
    return int(totals[0]) + minus, minus


def _find_minus_zero(counts: BlockCounts, known: Trace, fmt: BlockFormat) -> Iterator[Reason]:
    _, minus = count_zeros(counts, fmt)
    if minus and known.minus_zero is MinusZero.NEVER:
        text = f"{minus} elements are the code {fmt.element.sign_bit:x} of -0, which it never gives"
        yield Reason(Sign.MINUS_ZERO, text, minus)


def _find_absent(counts: BlockCounts, held: npt.NDArray[np.int64], known: Trace, fmt: BlockFormat) -> Iterator[Reason]:
    zeros, minus = count_zeros(counts, fmt)
    # Zeros of blocks of nothing else may come from weights of +0.
    mixed = zeros - int(counts.largest[:, 0].sum()) * fmt.k
    if minus == 0 and mixed >= _ZEROS and known.minus_zero is MinusZero.FROM_NEGATIVE and not fmt.element.twos_complement:
        yield Reason(Sign.NO_MINUS_ZERO, f"none of {mixed} zeros is -0; it makes -0 of negative weights that round to zero")
    due = (held.sum(axis=1)[:, None] * known.share).sum(axis=0)
    present = held.sum(axis=0)
    for code in np.flatnonzero((present == 0) & (due >= _BLOCKS_DUE)).tolist():
        text = f"no block has the largest value {_value(fmt, code)} x scale; of maxima spread evenly about {int(due[code])} would"
        yield Reason(Sign.UNUSED_CODE, text)


__all__ = ["Candidate", "Reason", "Sign", "Standing", "count_zeros", "judge_profile", "judge_profiles", "ordinary_blocks"]
