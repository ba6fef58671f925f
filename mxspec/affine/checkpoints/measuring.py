"""Where the bytes of affine integers are: codes, scales, offsets and what is stored besides."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from mxspec.affine.checkpoints.groups import AffineCheckpoint, AffineGroup
from mxspec.affine.formats import AffineFormat
from mxspec.containers.footprint import sum_up


@dataclass(frozen=True, slots=True)
class AffineShare:
    """The tensors of one convention and format; all sizes in bytes."""

    convention: str
    format: AffineFormat
    tensors: int = 0
    elements: int = 0
    codes: int = 0
    scales: int = 0
    #: Biases or zero points.
    offsets: int = 0
    #: Indices of groups, shapes.
    extras: int = 0

    @property
    def size(self) -> int:
        """All bytes."""
        return self.codes + self.scales + self.offsets + self.extras

    @property
    def bits_per_element(self) -> Fraction:
        """Stored bits for each element, exactly; 0 where there are none."""
        return Fraction(8 * self.size, self.elements) if self.elements else Fraction(0)


def measure_affine(checkpoint: AffineCheckpoint) -> tuple[AffineShare, ...]:
    """The shares of a checkpoint; what they do not count is in `checkpoint.others` and the headers."""
    return sum_up(map(_measure, checkpoint.groups.values()))


def _measure(group: AffineGroup) -> AffineShare:
    form, sizes = group.form, {suffix: t.size for suffix, t in group.parts.items()}
    codes, scales, offsets = (sizes.pop(p.suffix, 0) for p in (form.codes, form.scales, form.offsets))
    return AffineShare(form.convention, group.format, 1, group.elements, codes, scales, offsets, sum(sizes.values()))
