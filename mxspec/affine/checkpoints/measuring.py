"""Where the bytes of affine integers are: codes, scales, offsets and what is stored besides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from mxspec.affine.checkpoints.groups import AffineCheckpoint
from mxspec.affine.formats import AffineFormat


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
    found: dict[tuple[str, AffineFormat], AffineShare] = {}
    for group in checkpoint.groups.values():
        form, key = group.form, (group.form.convention, group.format)
        old = found.get(key, AffineShare(*key))
        sizes = {suffix: t.size for suffix, t in group.parts.items()}
        extras = sum(sizes.get(suffix, 0) for _, suffix in form.extras)
        found[key] = replace(
            old, tensors=old.tensors + 1, elements=old.elements + group.elements, codes=old.codes + sizes[form.codes.suffix],
            scales=old.scales + sizes[form.scales.suffix], offsets=old.offsets + sizes.get(form.offsets.suffix, 0),
            extras=old.extras + extras,
        )  # fmt: skip
    return tuple(found.values())
