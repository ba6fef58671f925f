"""Rules about block scales and element codes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mxspec.containers.groups import Group
from mxspec.containers.header import Tensor
from mxspec.elements import decode_table
from mxspec.formats import UE4M3, BlockFormat, power_of_two
from mxspec_conformance.lint.rules import Finding, find
from mxspec_conformance.lint.subject import BlockCounts, Subject, locate_scale, magnitude_codes

#: Scale bytes that known libraries write for a block of zeros, by scale format.
ZERO_BLOCK_BYTES = {
    # ggml, TE, vLLM and others 00; ModelOpt 38, or 01 where a scale underflows; torchao and fouroversix 08; compressed-tensors 20.
    "ue4m3": (0x00, 0x01, 0x08, 0x20, 0x38),
    # Most libraries 00; auto-round 7E, MLX 7F.
    "e8m0": (0x00, 0x7E, 0x7F),
}
#: Zeros of which none is +0 before that is remarkable: by chance it happens once in 2**64.
_MANY_ZEROS = 64
_SIGN = 0x80


def _find(rule: str, group: Group, block: int, text: str, tensor: Tensor | None = None) -> Finding:
    """What is wrong with block scales, or codes, and the first block of which it is."""
    return find(rule, text, tensor or group.scales or group.codes, offset=locate_scale(group, block))


def _blocks(counts: BlockCounts, rows: list[int], columns: slice = slice(None)) -> tuple[int, int]:
    """How many blocks have these scale bytes and largest codes, and the first of them."""
    number = int(counts.largest[rows, columns].sum())
    first = counts.first[rows, columns]
    return number, int(first[first >= 0].min()) if number else -1


def _nan_bytes(fmt: BlockFormat) -> list[int]:
    return [0x7F, 0xFF] if fmt.scale is UE4M3 else [0xFF]


def check_scale_nan(subject: Subject) -> Iterator[Finding]:
    """NaN block scales."""
    for group in subject.with_blocks:
        rows = _nan_bytes(group.form.format)
        number, first = _blocks(subject.counts(group), rows)
        if number:
            names = " or ".join(f"{r:02X}" for r in rows)
            yield _find("scale/nan", group, first, f"{number} of {group.elements // group.form.format.k} block scales are {names}")


#: The largest number of float16, and the largest that it rounds to zero.
_LARGE = 65504
_SMALL = power_of_two(-25)


def count_extremes(counts: BlockCounts, fmt: BlockFormat) -> tuple[int, int, int]:
    """Of the blocks that are neither zero nor NaN: how many hold values beyond float16, how many only zeros of float16; all."""
    beyond, lost, total = 0, 0, 0
    codes = range(1, min(counts.largest.shape[1], fmt.element.max_code + 1))
    for byte in range(0xFF):
        held = counts.largest[byte, 1 : len(codes) + 1]
        if held.any():
            scale = power_of_two(byte - 127)
            total += int(held.sum())
            values = [(fmt.element.magnitude(c) * scale, int(held[c - 1])) for c in codes]
            beyond += sum(number for value, number in values if value > _LARGE)
            lost += sum(number for value, number in values if value <= _SMALL)
    return beyond, lost, total


def check_scale_extremes(subject: Subject) -> Iterator[Finding]:
    """MX scales under which most blocks are beyond float16, or zero in it: no weights are."""
    for group in subject.with_blocks:
        fmt = group.form.format
        if not fmt.is_mx:
            continue
        beyond, lost, total = count_extremes(subject.counts(group), fmt)
        for rule, number, what in (("scale/large", beyond, f"values beyond {_LARGE}"), ("scale/small", lost, "nothing above 2^-25")):
            if 2 * number > total:
                yield _find(rule, group, 0, f"{number} of {total} blocks that are not zero hold {what}")


def check_scale_sign(subject: Subject) -> Iterator[Finding]:
    """e4m3 block scales with a sign."""
    for group in subject.with_blocks:
        if group.form.format.scale is UE4M3:
            number, first = _blocks(subject.counts(group), list(range(_SIGN, 0xFF)))
            if number:
                yield _find("scale/sign", group, first, f"{number} of {group.elements // group.form.format.k} block scales are negative")


def check_scale_zero(subject: Subject) -> Iterator[Finding]:
    """Scales of zero above codes that are not; e8m0 has no zero."""
    for group in subject.with_blocks:
        if group.form.format.scale is UE4M3:
            number, first = _blocks(subject.counts(group), [0x00], slice(1, None))
            if number:
                yield _find("scale/zero", group, first, f"{number} blocks have scale 00 and codes that are not zero")


def check_zero_blocks(subject: Subject) -> Iterator[Finding]:
    """Scales of blocks whose codes are all zero."""
    for group in subject.with_blocks:
        fmt = group.form.format
        known = {*ZERO_BLOCK_BYTES[fmt.scale.name], *_nan_bytes(fmt), *(range(_SIGN, 256) if fmt.scale is UE4M3 else ())}
        rows = [b for b in range(256) if b not in known]
        number, first = _blocks(subject.counts(group), rows, slice(0, 1))
        if number:
            counts = subject.counts(group).largest[:, 0]
            found = ", ".join(f"{b:02X}" for b in rows if counts[b])
            yield _find("scale/zero-block", group, first, f"{number} blocks of zero codes have scale {_short(found)}")


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:38]}..."


def least_largest_code(fmt: BlockFormat) -> int:
    """The smallest magnitude code that a known scale rule leaves as the largest of a block.

    MX: a block's maximum is at least 2**emax in units of the scale under the OCP rule, and above half of that under every
    rule that rounds the scale up. NVFP4: 6 / (1 + 1/16), or 4 under Four-over-Six, which rounds to the code of 4 or 6.
    """
    if fmt.has_tensor_scale:
        return 6
    bound = power_of_two(fmt.element.emax - 1)
    return next(c for c in range(fmt.element.max_code + 1) if fmt.element.magnitude(c) >= bound)


def check_small_max(subject: Subject) -> Iterator[Finding]:
    """Blocks whose largest code is too small for their scale."""
    for group in subject.with_blocks:
        fmt = group.form.format
        least = least_largest_code(fmt)
        # Scales that were clamped from below say nothing: the smallest byte, and e4m3's subnormals.
        rows = [*range(0x08, 0x7F), *range(0x88, 0xFF)] if fmt.scale is UE4M3 else list(range(1, 0xFF))
        number, first = _blocks(subject.counts(group), rows, slice(1, least))
        if number:
            total = group.elements // fmt.k
            text = (
                f"in {number} of {total} blocks ({100 * number / total:.3g} %) the largest value is below "
                f"{float(fmt.element.magnitude(least)):g} x scale; the first is block {first}"
            )
            yield _find("codes/small-max", group, first, text, group.codes)


def check_negative_zero(subject: Subject) -> Iterator[Finding]:
    """Tensors in which every zero is -0."""
    for group in subject.groups:
        element = group.form.format.element
        if element.twos_complement:
            continue
        totals = subject.code_totals(group)
        minus = int(totals[element.sign_bit])
        if minus >= _MANY_ZEROS and totals[0] == 0:
            yield find("codes/negative-zero", f"{minus} zeros, all of them code {element.sign_bit:x}", group.codes)


def check_nan_codes(subject: Subject) -> Iterator[Finding]:
    """Element codes that are no finite number."""
    for group in subject.groups:
        element = group.form.format.element
        if element.twos_complement:
            continue
        special = magnitude_codes(group.form.format) > element.max_code
        number = int(subject.code_totals(group)[special].sum()) if special.any() else 0
        if number:
            yield find("codes/nan", f"{number} of {group.elements} codes are NaN or Inf", group.codes)


def largest_scale(counts: BlockCounts) -> int:
    """The largest finite e4m3 block scale, sign aside."""
    used = np.flatnonzero(counts.largest.sum(axis=1))
    return max((int(b) & 0x7F for b in used if b & 0x7F != 0x7F), default=0)


#: Scales at or below the largest floor of a known rule, 1 / (448 x 512), may have been raised to it.
_FLOOR = 1 / (448 * 512)


def check_grid(subject: Subject) -> Iterator[Finding]:
    """Scales of a grid: no positive finite numbers, or values under them that no weights have."""
    for group in subject.with_grids:
        counts, fmt = subject.grid(group), group.form.format
        bits, top = counts.bits, counts.largest
        magnitude = bits & np.uint32(0x7FFFFFFF)
        finite, live = magnitude < 0x7F800000, (top > 0) & (top <= fmt.element.max_code)
        with np.errstate(all="ignore"):
            scales = magnitude.view(np.float32).astype(np.float64)
            codes = decode_table(fmt.element)[top].astype(np.float64)
            values = scales * codes  # exact: at most 28 bits
            turned = codes / scales
            good = finite & live & (magnitude > 0)
            small = good & (codes < _least_grid_value(fmt)) & (scales > _FLOOR)
            sane = int((good & (turned <= _LARGE) & (turned > float(_SMALL))).sum())
        number, many = int(good.sum()), f"of {bits.size} scales"
        hint = f"; under the reciprocals of their scales {sane} would not" if 2 * sane > number else ""
        above = good & (scales > 1) & (turned <= _LARGE) & (not 2 * int((good & (values > _LARGE)).sum()) > number)
        top_value, top_turned = (float(v[above].max(initial=0)) for v in (values, turned))
        kind = {(0, 0): "tensors", (1, 0): "rows"}.get(group.form.grid or (0, 0), "tiles")
        for rule, wrong, most, text in (
            ("scale/nan", magnitude > 0x7F800000, False, f"{many} are NaN"),
            ("scale/infinite", magnitude == 0x7F800000, False, f"{many} are infinite"),
            ("scale/sign", bits >> np.uint32(31) > 0, False, f"{many} are negative"),
            ("scale/zero", live & (magnitude == 0), False, f"{many} are 0 above codes that are not zero"),
            ("scale/large", good & (values > _LARGE), True, f"of {number} {kind} that are not zero hold values beyond {_LARGE}{hint}"),
            ("scale/small", good & (values <= float(_SMALL)), True, f"of {number} {kind} that are not zero hold nothing above 2^-25{hint}"),
            ("scale/inverted", above, True, f"of {number} {kind} have a scale above 1 and values up to {top_value:.4g}; reciprocals give {top_turned:.4g}"),
            ("codes/small-max", small, False, f"of {number} {kind} have no value of {_least_grid_value(fmt):g} x scale or more"),
        ):  # fmt: skip
            found = int(wrong.sum())
            if found and (not most or 2 * found > number):
                yield _find(rule, group, int(wrong.reshape(-1).argmax()), f"{found} {text}")


def _least_grid_value(fmt: BlockFormat) -> float:
    """The smallest value, in units of the scale, that a known rule leaves as the largest: half the range is lost to powers of two."""
    return float(fmt.element.magnitude(least_largest_code(fmt))) if fmt.is_mx else float(fmt.element.max_value) / 2


CHECKS = (
    check_grid, check_scale_nan, check_scale_extremes, check_scale_sign, check_scale_zero, check_zero_blocks, check_small_max, check_negative_zero,
    check_nan_codes,
)  # fmt: skip
