"""Blocks whose lanes all test the same, and blocks with two maxima: kernels that vote among lanes, or exchange them, go wrong there.

In the vectors a lane that tests something lies among others that do not. Here all lanes are ties, or beyond the largest value, or just
below a tie; or the maximum and its negative lie as far apart as lanes are that a step of a reduction compares. They hang on the format
alone, so that every target is asked the same: each rule of the scale among the normative profiles has blocks of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import ml_dtypes
import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.elements import decode_table
from mxspec.elements_given_scale import scale_lanes
from mxspec.formats import BlockFormat, ScalarFormat, get_rows
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.judge.alike import ALIKE
from mxspec_conformance.targets.dtypes import DTYPES, cast_input
from mxspec_vectors.tensor_scales import TensorScales, bind_profile, native_scale

Floats = npt.NDArray[np.float32]
Reals = npt.NDArray[np.float64]

#: Maxima whose scales are taken; those of a tensor in parts of its largest number.
MAXIMA, OF_TENSOR = (44.0, 0.7), (0.7, 0.004)
#: Lanes from a maximum to its negative, and pairs of lanes for each distance.
DISTANCES, PAIRS = (1, 2, 4, 8, 16, 32), 4
#: Blocks of each content that is made of others.
OTHERS = 4


@dataclass(frozen=True, slots=True)
class Test:
    """Quotients that test one thing, `step` numbers of the dtype away from what is written."""

    name: str
    quotients: Reals
    step: int = 0


@dataclass(frozen=True, slots=True)
class _Scale:
    """A stored scale, and what a quotient of one is under it."""

    byte: int
    unit: float
    profile: Profile
    tensor: TensorScales | None
    dtype: str

    def write(self, test: Test) -> Floats:
        """The numbers that have these quotients."""
        x = cast_input((test.quotients * self.unit).astype(np.float32), self.dtype)
        bits = x.view(f"u{x.itemsize}")
        bits += np.array(test.step).astype(bits.dtype)
        return x.astype(np.float32)

    def is_of(self, largest: Floats, fmt: BlockFormat) -> npt.NDArray[np.bool_]:
        """Which of these numbers, as the maximum of a block, give the block this scale."""
        x = np.zeros((len(largest), fmt.k), np.float32)
        x[:, 0] = largest
        scales = _quantize(x, fmt, self.profile, self.tensor)[1]
        return np.asarray(scales == self.byte)


@lru_cache(maxsize=64)
def list_made(fmt_name: str, dtype: str, tensor: TensorScales | None) -> tuple[tuple[str, Floats], ...]:
    """(name, block [k]) of numbers of a dtype, none of them subnormal, each block once."""
    fmt = get_rows(fmt_name)
    known: dict[bytes, tuple[str, Floats]] = {}
    smallest, largest = (float(v) for v in (ml_dtypes.finfo(DTYPES[dtype]).smallest_normal, ml_dtypes.finfo(DTYPES[dtype]).max))
    for number, (name, x) in enumerate(_list_all(fmt, dtype, tensor)):
        magnitude = np.abs(x)
        if ((magnitude >= smallest) & (magnitude <= largest) | (magnitude == 0)).all():
            known.setdefault(x.tobytes(), (f"{name}/{number:04}", x))
    return tuple(known.values())


def _list_all(fmt: BlockFormat, dtype: str, tensor: TensorScales | None) -> Iterator[tuple[str, Floats]]:
    for scale in _list_scales(fmt, dtype, tensor):
        tests = list_tests(fmt.element)
        numbers = [scale.write(test) for test in tests]
        fits = np.split(scale.is_of(np.concatenate(numbers), fmt), np.cumsum([len(n) for n in numbers])[:-1])
        if not fits[0].any():
            continue
        top = numbers[0][fits[0]][-1]
        for test, written, fit in zip(tests, numbers, fits, strict=True):
            for x in _fill_all_lanes(written, written[fit], top, fmt.k):
                yield test.name, x
        for x in _oppose(numbers[0], top, fmt.k):
            yield "opposite", x
        base = (np.arange(OTHERS * fmt.k).reshape(OTHERS, -1) * 37 % 97 - 40).astype(np.float32) / 64 * top
        for name, make in ALIKE if tensor is None else ():
            for x in make(cast_input(base, dtype).astype(np.float32)).astype(np.float32):
                yield name.replace(" ", "-"), x


def _list_scales(fmt: BlockFormat, dtype: str, tensor: TensorScales | None) -> Iterator[_Scale]:
    """The scales of a few maxima by every normative rule."""
    for profile in mxspec.list_profiles(fmt):
        if profile.kind is not Kind.NORMATIVE:
            continue
        maxima = MAXIMA if tensor is None else [tensor.value("amax") * part for part in OF_TENSOR]
        x = np.zeros((len(maxima), fmt.k), np.float32)
        x[:, 0] = cast_input(np.array(maxima, np.float32), dtype)
        try:
            scales = _quantize(x, fmt, profile, tensor)[1]
            steps, bindings = bind_profile(profile, tensor)
        except ValueError:  # it has no such form
            continue
        with np.errstate(all="ignore"):
            scaled = scale_lanes(x, scales, fmt, profile, steps, bindings)[0][:, 0].astype(np.float64)
            units = x[:, 0] / scaled
        for byte, unit in zip(scales.tolist(), units.tolist(), strict=True):
            if np.isfinite(unit) and unit > 0:
                yield _Scale(byte, unit, profile, tensor, dtype)


def _quantize(
    x: Floats, fmt: BlockFormat, profile: Profile, tensor: TensorScales | None
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Codes [n, k] and scales [n]."""
    with np.errstate(all="ignore"):
        t = mxspec.quantize(x, fmt, profile=profile, tensor_scale=native_scale(profile, tensor))
    return t.codes, t.scales.reshape(-1)


def list_tests(element: ScalarFormat) -> list[Test]:
    """What lanes may test under a scale; first what is exact."""
    values = np.abs(decode_table(element).astype(np.float64))
    grid = np.unique(values[np.isfinite(values) & (values <= float(element.max_value))])
    middles = (grid[1:] + grid[:-1]) / 2
    normal = float(element.min_normal)
    return [
        Test("exact", grid[1:]),
        Test("tie", middles),
        Test("below-tie", middles, -1),
        Test("above-tie", middles, 1),
        Test("overflow", grid[-1] * (1 + 1 / np.array([256, 100, 40, 20, 8, 4, 3.2]))),
        Test("subnormal", np.unique([*grid[(grid > 0) & (grid < normal)], *middles[middles < normal]])),
        Test("nothing", grid[1] / np.array([2, 2.25, 3, 4, 8])),
    ]


def _fill_all_lanes(numbers: Floats, fits: Floats, anchor: np.float32, k: int) -> Iterator[Floats]:
    """All lanes hold such numbers; where no maximum with the scale is one (`fits`), all lanes but one."""
    lanes = np.arange(k)
    for top in np.unique(fits)[[0, -1]] if len(fits) else (anchor,):
        members = numbers[numbers <= top]
        for fill in (members[lanes * 5 % len(members)], np.full(k, members[-1])) if len(members) else ():
            fill[len(members) * 7 % k] = top
            for signs in (1, -1, np.where(lanes * 11 % 7 % 2, -1, 1)):
                yield (fill * signs).astype(np.float32)


def _oppose(exact: Floats, top: np.float32, k: int) -> Iterator[Floats]:
    """The maximum and its negative in two lanes, in either order."""
    members = exact[exact <= top / 2]
    lanes = np.arange(k)
    for distance in DISTANCES:
        first = lanes[(lanes & distance == 0) & (lanes + distance < k)]
        for lane in first[:: max(1, len(first) // PAIRS)].tolist():
            for sign in (1, -1):
                x = members[lanes * 3 % len(members)] * np.where(lanes % 3, 1, -1)
                x[[lane, lane + distance]] = sign * top, -sign * top
                yield x.astype(np.float32)
