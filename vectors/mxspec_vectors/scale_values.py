"""Block maxima for formats whose scale is a float32: it changes with every maximum, so that there are no tables of steps.

The maxima are the ends of the range, every binade, what profiles compare a maximum with, the element's largest value and its
neighbours, and those at which the usual ways to divide by it differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mxspec.blocks import quantize_rows
from mxspec.expressions import Const, walk
from mxspec.formats import BlockFormat, ScalarFormat
from mxspec.profiles.schema import Profile
from mxspec_vectors.document import case_id
from mxspec_vectors.entries import hex_words
from mxspec_vectors.points import FLT_MAX, MIN_NORMAL, Stream, float_bits, neighbours
from mxspec_vectors.profile_order import list_joined
from mxspec_vectors.recipes import bfloat16_magnitudes, scale_bits

Words = npt.NDArray[np.uint32]

#: Exponents at which quotients are taken, and how many maxima there are of each way in which they differ.
_EXPONENTS = (0, -13, 4, 60, -90)
_EACH = 12


def find_quotients(element: ScalarFormat) -> list[int]:
    """Maxima in [1, 2) at which amax / M, amax * (1 / M) and 1 / (M / amax) differ in float32, some for each way in which they do."""
    stream, largest = Stream(7), np.float32(float(element.max_value))
    bits = np.array([0x3F800000 | stream.below(1 << 23) for _ in range(4096)], np.uint32)
    amax = bits.view(np.float32)
    one = np.float32(1)
    divided, multiplied, inverted = amax / largest, amax * (one / largest), one / (largest / amax)
    pattern = (divided != multiplied) + 2 * (divided != inverted) + 4 * (multiplied != inverted)
    return [int(b) for kind in range(8) for b in bits[pattern == kind][:_EACH]]


def list_maxima(fmt: BlockFormat, profiles: Sequence[Profile]) -> Iterator[tuple[str, list[int]]]:
    """Runs of maxima (float32 bits, positive and finite), each with a name."""
    largest = float_bits(fmt.element.max_value)
    constants = {e.bits for p in profiles for e in walk(p.steps(with_tensor_scale=False).scale.value) if isinstance(e, Const)}
    near = [n for c in sorted(constants) if 0 < c <= FLT_MAX for n in neighbours(c)]
    yield "ends", [1, 2, 3, 0x1FF, 0x200, 0x12345, 0x7FFFFF, MIN_NORMAL, MIN_NORMAL + 1, FLT_MAX - 1, FLT_MAX]
    yield "constants", [n for n in near if 0 < n <= FLT_MAX]
    yield "largest", [n for e in _EXPONENTS for n in neighbours(scale_bits(largest, e))]
    yield "binades", [e << 23 | (e * 0x35A9B1) & 0x7FFFFF for e in range(1, 255)]
    yield "quotients", [scale_bits(b, e) for e in _EXPONENTS for b in find_quotients(fmt.element)]


@dataclass(frozen=True, slots=True)
class ScaleValues:
    """A run of maxima, and the scale codes that each profile gives to blocks whose other lanes are zero."""

    id: str
    topic: str
    amax: Words
    answers: dict[str, Words]


def _find_answers(name: str, topic: str, amax: Words, fmt: BlockFormat, profiles: Sequence[Profile]) -> ScaleValues:
    rows = np.zeros((len(amax), fmt.k), np.uint32)
    rows[:, 0] = amax
    answers = {}
    with np.errstate(all="ignore"):
        for profile in profiles:
            scales, _ = quantize_rows(rows.view(np.float32), fmt, profile, profile.steps(with_tensor_scale=False), {})
            answers[profile.id] = scales[:, 0].astype(np.uint32)
    identity = {"operation": "scale", "format": fmt.name, "amax": hex_words(amax, 8)}
    return ScaleValues(case_id(f"scale-{name}", identity), topic, amax, answers)


def list_scale_values(fmt: BlockFormat) -> list[ScaleValues]:
    """The maxima of `list_maxima` with every profile's answers."""
    profiles = list_joined(fmt)
    runs = [(name, np.unique(np.array(bits, np.uint32))) for name, bits in list_maxima(fmt, profiles)]
    return [_find_answers(name, "scale-tie", amax, fmt, profiles) for name, amax in runs if amax.size]


def list_bfloat16_values(fmt: BlockFormat) -> list[ScaleValues]:
    """All bfloat16 magnitudes with every profile's answers: the finite ones, zero, infinity and NaN."""
    profiles = list_joined(fmt)
    topics = {"finite": "scale-tie", "zero": "zero-block", "inf": "inf", "nan": "nan"}
    return [
        _find_answers(f"bfloat16-{kind}", topic, bfloat16_magnitudes(kind).astype(np.uint32), fmt, profiles)
        for kind, topic in topics.items()
    ]
