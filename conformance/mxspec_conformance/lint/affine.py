"""Rules about affine integers: GPTQ, AWQ, compressed-tensors' pack-quantized, MLX's affine mode."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mxspec.affine.checkpoints.bands import cut
from mxspec.affine.checkpoints.groups import AffineGroup
from mxspec.containers import ContainerError
from mxspec_conformance.lint.integers import has_four_bits
from mxspec_conformance.lint.rules import Finding, find
from mxspec_conformance.lint.subject import Subject


def check_affine_shapes(subject: Subject) -> Iterator[Finding]:
    """Tensors that look like affine integers and do not fit."""
    for doubt in subject.affine.doubts:
        # Layers of four bits in qweight have a rule of their own.
        if doubt.form.codes.suffix == ".qweight" and has_four_bits(subject):
            continue
        rule = "affine/ambiguous" if doubt.ambiguous else "affine/shape"
        yield find(rule, doubt.text, doubt.tensor)


def check_affine_numbers(subject: Subject) -> Iterator[Finding]:
    """Scales, biases and zero points."""
    for group in subject.affine.groups.values():
        yield from _check_group(group)
        try:
            group.read_order()
        except ContainerError as error:
            if group.format.bits == 4 and has_four_bits(subject) and group.names_more_groups():
                continue  # int4/g-idx says so
            yield find("affine/index", str(error), group.codes)


def _check_group(group: AffineGroup) -> Iterator[Finding]:
    wrong = {group.form.scales.suffix: 0, group.form.offsets.suffix: 0}
    for rows in cut(group.shape):
        try:
            band = group.read_band(rows)
        except ContainerError as error:
            yield find("affine/zero", str(error), group.parts[group.form.offsets.suffix])
            return
        for suffix, numbers in ((group.form.scales.suffix, band.scales), (group.form.offsets.suffix, band.biases)):
            if numbers is not None:
                wrong[suffix] += int((~np.isfinite(numbers.astype(np.float32))).sum())
    for suffix, number in wrong.items():
        if number:
            yield find("affine/not-finite", f"{number} are NaN or infinite", group.parts[suffix])


CHECKS = (check_affine_shapes, check_affine_numbers)
