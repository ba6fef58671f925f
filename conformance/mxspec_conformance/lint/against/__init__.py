"""`mxspec lint --against`: a quantized checkpoint and the one that it was made from, compared by their bits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mxspec.affine.checkpoints import AffineCheckpoint, AffineGroup
from mxspec.containers import open_checkpoint
from mxspec.containers.checkpoint import Checkpoint
from mxspec.containers.fused import name_fusion
from mxspec.containers.groups import Group
from mxspec.containers.header import Tensor, count_items, read_at
from mxspec.containers.plain import PLAIN_DTYPES, cut_plain, read_plain
from mxspec_conformance.lint.against.affine import explain_affine
from mxspec_conformance.lint.against.affine.telling import describe_affine
from mxspec_conformance.lint.against.case import Case
from mxspec_conformance.lint.against.grids import GridCase, explain_grid
from mxspec_conformance.lint.against.material import Originals
from mxspec_conformance.lint.against.names import count_heads
from mxspec_conformance.lint.against.search import explain
from mxspec_conformance.lint.hypotheses import AffineHypothesis, Agreement, Basis, CodeOrder, Departure, Explanation, Hypothesis, ScaleOrder
from mxspec_conformance.lint.rules import Finding, find

__all__ = [
    "Agreement", "Basis", "CodeOrder", "Comparison", "Departure", "Explanation", "Hypothesis", "ScaleOrder", "compare",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was compared, and what became of each tensor."""

    original: Path
    explanations: tuple[Explanation, ...]
    findings: tuple[Finding, ...]

    def as_dict(self) -> dict[str, Any]:
        """The form in JSON."""
        return {"original": str(self.original), "tensors": [e.as_dict() for e in self.explanations]}


def compare(
    checkpoint: Checkpoint,
    original: str | Path,
    *,
    affine: AffineCheckpoint | None = None,
    profile: str | None = None,
    claims: Mapping[Path, str] | None = None,
    unknown: Collection[str] = (),
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Find for each quantized tensor what became of its original.

    original: a checkpoint with the unquantized tensors, under the same names.
    affine: what of the checkpoint are affine integers; None: nothing.
    profile: the id of the profile that every tensor should follow; another is then a finding.
    claims: the profile that each file says its tensors follow.
    unknown: names of quantized tensors of which nothing is known; they are not compared.

    Raises ContainerError where the original cannot be read, or the file is damaged.
    """
    originals = Originals(open_checkpoint(original))
    explanations: list[Explanation] = []
    findings: list[Finding] = []
    compared: set[str] = set()
    likely: list[str] = [] if profile is None else [profile]
    pairs: list[tuple[Group | AffineGroup, Tensor]] = []
    groups: list[Group | AffineGroup] = [*checkpoint.blocks.values(), *(affine.groups.values() if affine else ())]
    for group in groups:
        tensor = originals.find(group.base)
        if tensor is None or tensor.dtype not in PLAIN_DTYPES:
            what = "has no tensor of this name" if tensor is None else f"holds it as {tensor.dtype}, which is not plain"
            findings.append(find("against/missing", f"{original} {what}", group.codes.name))
            continue
        compared |= {t.name for t in originals.parts(tensor)}
        may_be_turned = isinstance(group, AffineGroup) and tensor.shape == group.shape[::-1]
        if tensor.shape != group.shape and not may_be_turned:
            text = f"is {list(group.shape)}, the original {list(tensor.shape)}"
            findings.append(find("against/shape", text, group.codes))
            continue
        if group.elements:
            pairs += [(group, tensor)] if isinstance(group, AffineGroup) else _split(group, tensor, originals)
    for group, tensor in pairs:
        if progress is not None:
            progress(group.base)
        own = (claims or {}).get(group.codes.path)
        first = [*([own] if own else []), *likely]
        if isinstance(group, AffineGroup):
            found = explain_affine(group, tensor, originals, first)
        elif group.form.grid is not None:
            found = explain_grid(GridCase(group, tensor, originals, tuple(first)))
        else:
            fused = list_fused(tensor, originals)
            found = explain(Case(group, tensor, originals, fused, first))
            turned = originals.turn(tensor, count_heads(checkpoint.headers, group.base))
            if turned is not None and not _is_clean(found):
                found = max(
                    found, explain(Case(group, turned, originals, fused, first)), key=lambda f: (_is_clean(f), f.agreement.agreeing)
                )
        explanations.append(found)
        if found.hypothesis.basis is Basis.PROFILE and found.agreement.complete:
            likely = [found.hypothesis.profile, *(p for p in likely if p != found.hypothesis.profile)]
        findings += _judge(group.codes, found, profile)
        if own is not None and not _follows(found, own):
            text = f"the contract says {own}; {found.as_stored.agreeing} of {found.as_stored.elements} elements follow as stored"
            findings.append(find("contract/bits", text, group.codes, explanation=found))
    parts = {t.name for g in groups for t in g.members}
    parts |= {d.tensor.name for d in (affine.doubts if affine else ())}
    parts |= set(unknown)
    compared |= {name for t in unknown for name in (t, f"{t.rpartition('.')[0]}.weight")}
    compared |= {p.name for t in unknown if (there := originals.find_renamed(t)) is not None for p in originals.parts(there)}
    findings += _compare_others(checkpoint, originals, compared, parts)
    return Comparison(Path(original), tuple(explanations), tuple(findings))


def _split(group: Group, tensor: Tensor, originals: Originals) -> Iterator[tuple[Group, Tensor]]:
    """A tensor and its original; a stack whose items have tensor scales of their own, as GGUF's experts, item by item."""
    count = max((count_items(t.shape) or 0 for t in group.scalars.values()), default=1)
    if count < 2:
        yield group, tensor
        return
    parts = originals.parts(tensor)
    for number in range(count):
        own = {s: _take_item(t, number, count) if t is group.codes or count_items(t.shape) == count else t for s, t in group.parts.items()}
        item = replace(group, base=f"{group.base}[{number}]", shape=group.shape[1:], parts=own)
        # What is measured of an original is kept by its name.
        original = replace(_take_item(tensor, number, count), name=f"{tensor.name}[{number}]")
        yield item, parts[number] if len(parts) == count else original


def _take_item(stack: Tensor, number: int, count: int) -> Tensor:
    size = stack.size // count
    return replace(stack, shape=stack.shape[1:], offset=stack.offset + number * size, size=size)


def _is_clean(found: Explanation) -> bool:
    """Whether nothing is wrong with a tensor."""
    return found.agreement.complete and not found.hypothesis.departures


def _follows(found: Explanation, profile: str) -> bool:
    """Whether a tensor is, bit for bit, what the profile gives."""
    hypothesis = found.hypothesis
    # The profile of the contract is tried first, so that another one explains the tensor only if it does not.
    return _is_clean(found) and hypothesis.basis is Basis.PROFILE and hypothesis.profile == profile


def list_fused(original: Tensor, originals: Originals) -> tuple[Tensor, ...]:
    """Originals of the layers with which loaders fuse that of this one, itself included."""
    base = original.name.removesuffix(".weight")
    key = name_fusion(base)
    if key == base:
        return ()
    return tuple(t for t in originals.plain if name_fusion(t.name.removesuffix(".weight")) == key)


def _judge(codes: Tensor, found: Explanation, due: str | None) -> Iterator[Finding]:
    """The findings of one tensor."""
    hypothesis, agreement, plain = found.hypothesis, found.agreement, found.as_stored
    counts = f"explains {agreement.agreeing} of {agreement.elements} elements"
    if hypothesis.departures:
        for departure in hypothesis.departures:
            what = describe_affine(hypothesis, departure) if isinstance(hypothesis, AffineHypothesis) else _describe(hypothesis, departure)
            text = f"{what}: {counts}; read as stored, {plain.agreeing} agree"
            yield find(f"against/{departure}", text, codes, explanation=found)
        return
    way = "the stored scales" if hypothesis.basis is Basis.GIVEN_SCALES else hypothesis.profile
    if not agreement.complete:
        first = "" if agreement.first is None else f"; the first that does not is element {agreement.first}"
        rule = "against/differs" if agreement.majority else "against/unexplained"
        text = f"{agreement.agreeing} of {agreement.elements} elements follow from the original by {way}{first}"
        yield find(rule, text, codes, explanation=found)
    elif due is not None and hypothesis.basis is Basis.PROFILE and hypothesis.profile != due:
        text = f"follows {hypothesis.profile}, not {due}: {counts}"
        yield find("against/profile", text, codes, explanation=found)
    elif due is not None and hypothesis.basis is Basis.GIVEN_SCALES:
        text = f"codes are right for the stored scales, which do not follow {due}"
        yield find("against/profile", text, codes, explanation=found)


def _describe(hypothesis: Hypothesis, departure: Departure) -> str:
    """What happened, in words."""
    rule = f"{hypothesis.profile}" if hypothesis.basis is Basis.PROFILE else "codes rounded to nearest under the scales"
    what = {
        Departure.NIBBLES: "codes with the nibbles of each byte swapped",
        Departure.LANES: "codes with lanes j and j + k/2 in one byte" if hypothesis.codes is CodeOrder.HALVES
        else "codes with neighbours in one byte",
        Departure.SWIZZLE: "scales read from 128x4 tiles" if hypothesis.scales is ScaleOrder.TILED else "scales read row by row",
        Departure.TRANSPOSED: "scales read column by column",
        Departure.ROWS: f"scales read {abs(hypothesis.rolled)} row{'s' if abs(hypothesis.rolled) > 1 else ''} {'below' if hypothesis.rolled > 0 else 'above'} their own",
        Departure.SHIFT: f"scale bytes {hypothesis.shift:+d}",
        Departure.INVERTED: "the reciprocals of the scales" if hypothesis.basis is Basis.GIVEN_SCALES and hypothesis.tensor_scale is None
        else "a tensor scale of the other direction",
        Departure.TENSOR_SCALE: "another tensor scale" if hypothesis.tensor_scale is None
        else f"the tensor scale 0x{hypothesis.tensor_scale:08x}",
        Departure.TWICE: f"the original quantized to {hypothesis.between} first",
        Departure.CAST: f"the original rounded to {hypothesis.between} first",
        Departure.SCALE_RULE: f"codes by {hypothesis.profile} and scales by {hypothesis.scale_profile}",
        Departure.OTHER: f"the original {hypothesis.codes_of}",
        Departure.OTHER_CODES: f"codes of the original {hypothesis.codes_of}",
        Departure.OTHER_SCALES: f"scales of the original {hypothesis.scales_of}",
    }[departure]  # fmt: skip
    return f"{what} ({rule})"


def _compare_others(checkpoint: Checkpoint, originals: Originals, compared: set[str], parts: set[str]) -> Iterator[Finding]:
    """Tensors that are not quantized: carried along as they were, or gone. parts: names of those that are."""
    for tensor in checkpoint.grouping.others:
        there = originals.checkpoint.tensors.get(tensor.name) or originals.find_renamed(tensor.name)
        if there is not None and tensor.name not in parts and originals.parts(there) == (there,):
            compared.add(there.name)
            # llama.cpp adds 1 to Gemma's norms.
            yield from _compare_plain(tensor, there, also=int("norm" in tensor.name and there.name != tensor.name))
    doubtful = {t.name for d in checkpoint.doubts for t in d.members}
    for there in originals.checkpoint.tensors.values():
        if there.name not in compared and there.name not in parts | doubtful:
            text = f"{there.name} of the original is not in the file"
            yield find("against/missing", text, there.name)


def _compare_plain(tensor: Tensor, there: Tensor, *, also: int = 0) -> Iterator[Finding]:
    """also: what all numbers may have been raised by."""
    plain = tensor.shape == there.shape and {tensor.dtype, there.dtype} <= set(PLAIN_DTYPES)
    if (
        also
        and plain
        and all(np.array_equal(read_plain(tensor, *ends), read_plain(there, *ends) + np.float32(also)) for ends in cut_plain(there))
    ):
        return
    if (tensor.dtype, tensor.size) == (there.dtype, there.size):
        changed = _count_changed_bytes(tensor, there)
        what = f"{changed} of {tensor.size} bytes are not the original's"
    elif plain:
        changed = sum(int((read_plain(tensor, *ends) != read_plain(there, *ends)).sum()) for ends in cut_plain(there))
        what = f"is {tensor.dtype}, the original {there.dtype}: {changed} of {count_items(there.shape)} values differ"
    else:
        changed, what = 1, f"is {tensor.dtype} {list(tensor.shape)}, the original {there.dtype} {list(there.shape)}"
    if changed:
        yield find("against/carried", what, tensor)


def _count_changed_bytes(one: Tensor, other: Tensor) -> int:
    changed = 0
    for start in range(0, one.size, 1 << 22):
        size = min(1 << 22, one.size - start)
        pair = [np.frombuffer(read_at(t, start, size), np.uint8) for t in (one, other)]
        changed += int((pair[0] != pair[1]).sum())
    return changed


def list_profiles_found(explanations: Sequence[Explanation]) -> dict[str, int]:
    """How many tensors each profile explains, every element of them."""
    found: dict[str, int] = {}
    for e in explanations:
        if e.agreement.complete and not e.hypothesis.departures:
            name = e.hypothesis.profile if e.hypothesis.basis is Basis.PROFILE else "scales of no known profile"
            found[name] = found.get(name, 0) + 1
    return found
