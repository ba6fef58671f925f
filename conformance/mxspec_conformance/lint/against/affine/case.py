"""One tensor of affine integers with its original, and what profiles give for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import affine
from mxspec.affine.checkpoints.groups import AffineGroup
from mxspec.affine.formats import GROUPS, AffineFormat, Offset
from mxspec.affine.profiles import default_affine_profile, list_affine_profiles
from mxspec.affine.schema import AffineProfile
from mxspec.affine.tensor import AffineTensor
from mxspec.containers.header import Tensor
from mxspec.containers.plain import read_plain
from mxspec_conformance.judge.affine.soundness import Fault, find_faults, half_ulp
from mxspec_conformance.lint.against.affine.stored import Array, Codes, StoredIntegers
from mxspec_conformance.lint.against.expecting import list_between
from mxspec_conformance.lint.against.material import Float32s, Originals
from mxspec_conformance.lint.hypotheses import Reading

Flags = npt.NDArray[np.bool_]
Rows = tuple[int, int]
#: Rows of a band, and numbers of a sample: enough to tell hypotheses apart; what they say is then counted on all.
BAND, SAMPLE = 32, 1 << 17
#: Codes to which tensors are known to have been quantized first.
_FIRST = (4, 8)


@dataclass
class Sample:
    """Rows of a tensor on which hypotheses are ranked: its parts in every reading, read once."""

    stored: StoredIntegers
    bands: tuple[Rows, ...]
    _shared: dict[tuple[bool, str | None], list[tuple[Reading, Array]]] = field(default_factory=dict)

    @cached_property
    def codes(self) -> list[tuple[Reading, Codes]]:
        """Codes [rows, K] in each reading, the convention's first."""
        return [(r, np.concatenate([self.stored.read_codes(b, r) for b in self.bands])) for r in self.stored.list_codes()]

    def scales(self, dtype: str | None) -> list[tuple[Reading, Array]]:
        """Scales [rows, groups] in each reading."""
        return self._keep(self.stored.list_scales, self.stored.read_scales, dtype)

    def offsets(self, dtype: str | None) -> list[tuple[Reading, Array]]:
        """Zero points or biases in each reading."""
        return self._keep(self.stored.list_offsets, self.stored.read_offsets, dtype)

    def _keep(
        self, ways: Callable[[str | None], Iterator[Reading]], read: Callable[[Reading], Array], dtype: str | None
    ) -> list[tuple[Reading, Array]]:
        key = (read == self.stored.read_scales, dtype)
        if key not in self._shared:
            self._shared[key] = [(r, np.concatenate([found[a:b] for a, b in self.bands])) for r in ways(dtype) for found in (read(r),)]
        return self._shared[key]


@dataclass
class AffineCase:
    """One tensor of the file with its original."""

    group: AffineGroup
    original: Tensor
    originals: Originals
    #: Profiles to try first.
    first: Sequence[str] = ()
    stored: StoredIntegers = field(init=False)

    def __post_init__(self) -> None:
        self.stored = StoredIntegers(self.group)

    @property
    def is_turned(self) -> bool:
        """Whether the original's rows are the tensor's columns, by its shape."""
        return self.original.shape != self.group.shape

    def list_formats(self) -> Iterator[tuple[str | None, AffineFormat]]:
        """The formats that the tensor may have: the bits of scales may be those of another dtype, as `Reading` has it."""
        for dtype in self.stored.dtypes:
            yield dtype, replace(self.group.format, dtype=dtype or self.group.format.dtype)

    def list_profiles(self, fmt: AffineFormat) -> list[AffineProfile]:
        """Profiles that cover a format, the likeliest first."""
        order = {name: number for number, name in enumerate(dict.fromkeys(self.first))}
        return sorted(list_affine_profiles(fmt), key=lambda p: order.get(p.id, len(order)))

    @cached_property
    def sample(self) -> Sample:
        """Bands of rows, evenly spread."""
        n, k = self.group.shape
        bands = [(start, min(start + BAND, n)) for start in range(0, n, BAND)]
        wanted = max(SAMPLE // (BAND * k), 1)
        if len(bands) <= wanted:
            return Sample(self.stored, tuple(bands))
        return Sample(self.stored, tuple(bands[i * (len(bands) - 1) // max(wanted - 1, 1)] for i in range(wanted)))

    def read(self, rows: Rows, *, name: str | None = None, of_columns: bool = False) -> Float32s:
        """Numbers [rows, K] of an original, in the order of the groups."""
        tensor = self.original if name is None else self.originals.checkpoint.tensors[name]
        n, k = self.group.shape
        if of_columns:
            found = np.stack([read_plain(tensor, i * n + rows[0], i * n + rows[1]) for i in range(k)], axis=1)
        else:
            found = read_plain(tensor, rows[0] * k, rows[1] * k).reshape(-1, k)
        return found if self.stored.columns is None else np.ascontiguousarray(found[:, self.stored.columns])

    def list_between(self) -> Iterator[tuple[str, Callable[[Float32s], Float32s]]]:
        """What the original may have been quantized to first, and the numbers that this left of rows."""
        amax = self.originals.amax(self.original)
        for between in list_between(self.group.shape[1]):
            yield between.name, partial(between.apply, amax=amax)
        for bits in _FIRST:
            for group in GROUPS:
                for offset in Offset:
                    fmt = AffineFormat(bits=bits, group=group, offset=offset, dtype="float16")
                    profile = default_affine_profile(fmt)
                    if self.group.shape[1] % group == 0:
                        yield f"{fmt.name} by {profile.id}", partial(_go_and_return, fmt=fmt, profile=profile)


def _go_and_return(x: Float32s, fmt: AffineFormat, profile: AffineProfile) -> Float32s:
    return np.asarray(expect(x, fmt, profile).dequantize("float32"), np.float32)


def expect(x: Float32s, fmt: AffineFormat, profile: AffineProfile) -> AffineTensor:
    """What a profile gives for numbers [rows, K]; of NaN and infinity whatever it does."""
    with np.errstate(all="ignore"):
        return affine.quantize(x, bits=fmt.bits, group=fmt.group, profile=profile, offset=fmt.offset, scale_dtype=fmt.dtype)


def is_nearest(x: Float32s, codes: Codes, scales: Array, offsets: Array, fmt: AffineFormat) -> Flags:
    """Whether each code [rows, K] is a nearest one under its group's scale and offset, as `mxspec check` judges it."""
    flat_x, flat_codes, s, o = x.reshape(-1, fmt.group), codes.reshape(-1, fmt.group), scales.reshape(-1), offsets.reshape(-1)
    with np.errstate(all="ignore"):
        faults = find_faults(flat_x, flat_codes, s, o, fmt)
        numbers = s.astype(np.float64)
        # A scale of about zero tells codes apart no longer.
        flat = (np.abs(numbers) <= half_ulp(numbers, fmt))[:, None]
        wrong = faults[Fault.RANGE] | faults[Fault.FINITE] | faults[Fault.CODES] | (faults[Fault.COVER] & flat)
    right: Flags = (~wrong & np.isfinite(flat_x)).reshape(x.shape)
    return right


def match_groups(kept: Any, due: Any) -> Flags:
    """Where scales or offsets are the same numbers."""
    same: Flags = kept.astype(np.float32) == due.astype(np.float32)
    return same


def merge(codes: Reading, scales: Reading, offsets: Reading, *, step: int = 0) -> Reading:
    """The reading whose parts are those of three."""
    return Reading(
        codes=codes.codes, turned=codes.turned, complement=codes.complement, scales=scales.scales, dtype=scales.dtype,
        zeros=offsets.zeros, offsets=offsets.offsets, negated=offsets.negated, step=step,
    )  # fmt: skip
