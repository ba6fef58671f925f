"""Rules about tensor scales."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from mxspec.containers import ContainerError
from mxspec.containers.checkpoint import read_bits
from mxspec.containers.conventions import CONVENTIONS, find_form
from mxspec.containers.fused import name_fusion
from mxspec.containers.groups import Group
from mxspec.containers.origin import KEY, parse_origin
from mxspec.containers.planning import interpret_kept
from mxspec.containers.scalars import alpha_bits, convert_bits, derive_scalars, is_usable, to_float
from mxspec.profiles.schema import TensorScaleKind
from mxspec.tensorscale import TWO_LEVEL_MAX
from mxspec_conformance.lint.blocks import largest_scale
from mxspec_conformance.lint.rules import Finding, find
from mxspec_conformance.lint.subject import Subject

_DECODE, _ENCODE = TensorScaleKind.DECODE, TensorScaleKind.ENCODE
_FULL = 0x7E  # 448


def check_values(subject: Subject) -> Iterator[Finding]:
    """Tensor scales that are no positive finite number."""
    for group in subject.groups:
        for suffix, tensor in group.scalars.items():
            bad = [b for b in read_bits(tensor) if not is_usable(b)]
            if bad:
                yield find("global/value", f"{suffix[1:]} is {to_float(bad[0])!r} (0x{bad[0]:08x})", tensor)


def check_direction(subject: Subject) -> Iterator[Finding]:
    """Tensor scales that say that the largest weight is beyond 2688, as an inverted one does."""
    for group in subject.groups:
        scale = subject.scales[group.base].tensor
        if scale is None or group.form.tensor_scale is None:
            continue
        kind, bits = scale
        worst = [b for b in bits if is_usable(b) and (to_float(b) > 1 if kind is _DECODE else to_float(b) < 1)]
        if worst:
            value = to_float(worst[0])
            implied = value * TWO_LEVEL_MAX if kind is _DECODE else TWO_LEVEL_MAX / value
            tensor = group.parts[group.form.tensor_scale.suffix]
            yield find("global/direction", f"{value:g} of kind {kind.value} makes the largest weight {implied:g}", tensor)


def are_counterparts(decode: int, encode: int) -> bool:
    """Whether two scales can be one scale in its two directions.

    Each is the other's rounded reciprocal, or both come from one float32 maximum.
    """
    if not (is_usable(decode) and is_usable(encode)):
        return False
    for bits, kind, other, other_kind in ((decode, _DECODE, encode, _ENCODE), (encode, _ENCODE, decode, _DECODE)):
        try:
            if convert_bits(bits, kind, other_kind) == other:
                return True
        except ContainerError:
            continue
    with np.errstate(all="ignore"):
        near = np.float32(np.uint32(decode).view(np.float32) * np.float32(TWO_LEVEL_MAX)).view(np.uint32)
        # Every maximum whose quotient by 2688 rounds to `decode` lies within two floats of their product.
        for step in range(-2, 3):
            amax = np.uint32(int(near) + step).view(np.float32)
            low, high = amax / np.float32(TWO_LEVEL_MAX), np.float32(TWO_LEVEL_MAX) / amax
            if int(low.view(np.uint32)) == decode and int(high.view(np.uint32)) == encode:
                return True
    return False


def check_pairs(subject: Subject) -> Iterator[Finding]:
    """A tensor with tensor scales in both directions."""
    tensors = subject.checkpoint.tensors
    for name, tensor in tensors.items():
        if not name.endswith(".weight_scale_2"):
            continue
        other = tensors.get(name.removesuffix("_scale_2") + "_global_scale")
        if other is None or {tensor.dtype, other.dtype} != {"F32"} or tensor.size != 4 or other.size != 4:
            continue
        decode, encode = read_bits(tensor)[0], read_bits(other)[0]
        if not are_counterparts(decode, encode):
            text = f"{to_float(decode):g} here, {to_float(encode):g} in {other.name}: neither is the other's correctly rounded reciprocal"
            yield find("global/pair", text, tensor)


def check_alpha(subject: Subject) -> Iterator[Finding]:
    """LightX2V's product of scales."""
    for group in subject.groups:
        scales = subject.scales[group.base]
        if scales.alpha is None or scales.inputs is None or scales.tensor is None or group.form.alpha is None:
            continue
        kind, bits = scales.inputs
        if not all(map(is_usable, (*bits, *scales.tensor[1]))):
            continue
        due = alpha_bits(convert_bits(bits[0], kind, _ENCODE), scales.tensor[1][0])
        if scales.alpha[0] != due:
            yield find("global/alpha", f"is 0x{scales.alpha[0]:08x}, not 0x{due:08x}", group.parts[group.form.alpha])


def check_kept(subject: Subject) -> Iterator[Finding]:
    """Tensor scales against what an earlier conversion kept."""
    origins = {}
    for header in subject.checkpoint.headers:
        try:
            origins[header.path] = parse_origin(header.metadata.get(KEY), header.path)
        except ContainerError as error:
            yield find("global/kept", f"{KEY} is not what a conversion writes: {error}", offset=8)
    for group in subject.groups:
        origin = origins.get(group.codes.path)
        kept = origin.tensors.get(group.base) if origin else None
        if kept is None or kept.convention not in CONVENTIONS or not kept.scalars:
            continue
        form = find_form(kept.convention, group.form.format_name)
        if form is None:
            continue
        stored = {suffix: read_bits(t) for suffix, t in group.scalars.items()}
        try:
            due = {s: bits for s, (_, bits) in derive_scalars(group.form, interpret_kept(form, kept), group.base).items()}
        except ContainerError:
            due = {}
        if due != stored:
            tensor = next(iter(group.scalars.values()), group.codes)
            yield find("global/kept", f"the scales kept from {kept.convention} do not give the stored ones", tensor)


def fused_groups(subject: Subject) -> Iterator[list[Group]]:
    """NVFP4 tensors that loaders join, and every other one by itself."""
    joined: dict[object, list[Group]] = defaultdict(list)
    for group in subject.groups:
        if subject.scales[group.base].tensor is None:
            continue
        joined[name_fusion(group.base)].append(group)
    yield from joined.values()


def _bits_of(subject: Subject, group: Group) -> tuple[int, ...]:
    scale = subject.scales[group.base].tensor
    return () if scale is None else scale[1]


def check_fused(subject: Subject) -> Iterator[Finding]:
    """Layers that are fused when loaded."""
    for several in fused_groups(subject):
        if len({_bits_of(subject, g) for g in several if g.form.fused}) > 1:
            first = several[0]
            assert first.form.tensor_scale is not None
            values = ", ".join(f"{g.base.rpartition('.')[2]} {to_float(_bits_of(subject, g)[0]):g}" for g in several)
            yield find("global/fused", values, first.parts[first.form.tensor_scale.suffix])


def check_range(subject: Subject) -> Iterator[Finding]:
    """Whether the largest block scale of a tensor, or of those that share a tensor scale, is 448."""
    for several in fused_groups(subject):
        sharing: dict[tuple[int, ...], list[Group]] = defaultdict(list)
        for group in several:
            sharing[_bits_of(subject, group)].append(group)
        if len(sharing) > 1 and any(g.form.fused for g in several):
            continue  # global/fused says more
        for bits, members in sharing.items():
            if len(bits) > 1 or not all(map(is_usable, bits)):
                continue
            top = max(largest_scale(subject.counts(g)) for g in members)
            if top != _FULL and any(g.elements for g in members):
                names = ", ".join(g.base.rpartition(".")[2] for g in members)
                text = f"the largest block scale of {names} is {top:02X}, not {_FULL:02X}"
                yield find("global/range", text, members[0].scales or members[0].codes)


CHECKS = (
    check_values, check_direction, check_pairs, check_alpha, check_kept, check_fused, check_range,
)  # fmt: skip
