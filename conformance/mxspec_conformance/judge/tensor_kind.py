"""Which kind of tensor scale a target takes, where it is not the kind that it names: a common mistake that spoils every block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Kind, Profile, TensorScaleKind
from mxspec_conformance.judge.dequantize import count_wrong_values
from mxspec_conformance.judge.tensor_scales import ordinary_tensor_scales
from mxspec_conformance.observations.quantize import Observed, observe_quantize
from mxspec_conformance.observations.tables import observe_tables
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import load_quantize_cases
from mxspec_vectors.tensor_scales import TensorScales


class _Otherwise:
    """A session that is asked as if its target had named another kind."""

    def __init__(self, session: TargetSession, kind: str) -> None:
        self._session, self.transport = session, session.transport
        self.capabilities: Capabilities = replace(session.capabilities, tensor_scale=kind)

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        return self._session.call(function, *args, **kwargs)

    def close(self) -> None:
        """The session belongs to somebody else."""


@dataclass(frozen=True, slots=True)
class MixedKind:
    """A function whose tensor scale is of another kind than the target names."""

    function: str
    kind: str
    #: Answers that the kind explains, of all; equal where it explains every one.
    explained: int
    asked: int

    def words(self, named: str) -> str:
        """For people; a guess is worded as one."""
        if self.function == "tensor_scale":
            share = "" if self.explained == self.asked else f" for {self.explained} of {self.asked} tensors"
            return f"tensor_scale returns the {self.kind} scale{share}; TENSOR_SCALE says {named}"
        if self.explained == self.asked:
            return f"{self.function} uses its tensor scale as {self.kind}; TENSOR_SCALE says {named}"
        return (
            f"{self.function} seems to use its tensor scale as {self.kind}, which gives {self.explained} of {self.asked} scale "
            f"bytes; TENSOR_SCALE says {named}"
        )


def find_mixed_kinds(session: TargetSession, fmt: BlockFormat, profiles: Sequence[Profile]) -> list[MixedKind]:
    """The functions that follow no profile with the kind that the target names, and follow one with another kind.

    A function takes a kind if some profile explains every scale byte of the cases about tensor scales, or every value; if
    none does, `quantize` seems to take the kind with which a normative profile explains more than half of the bytes, where
    none explains as many with the kind that is named.
    """
    named = session.capabilities.tensor_scale
    kinds = [named, *(k.value for k in TensorScaleKind if k.value != named)]
    found = []
    for function, follows in (("quantize", _quantizes), ("dequantize", _dequantizes)):
        if session.capabilities.has(function, "tensor_scale"):
            kind = next((k for k in kinds if follows(_Otherwise(session, k), fmt, profiles)), None)
            if kind is None and function == "quantize":
                found += _guess_kind(session, fmt, profiles, kinds)
            elif kind not in (None, named):
                found.append(MixedKind(function, str(kind), 1, 1))
    if session.capabilities.has("tensor_scale"):
        found += _returned_kind(session, fmt)
    return found


def _guess_kind(session: TargetSession, fmt: BlockFormat, profiles: Sequence[Profile], kinds: Sequence[str]) -> list[MixedKind]:
    """The kind that explains the most scale bytes, where it is not the first one, and explains more than half."""
    counts = {}
    for kind in kinds:
        seen = _observe(_Otherwise(session, kind), fmt)
        right = [
            sum(bool((s.scales.reshape(-1) == a[0].scale).all()) for s in seen if (a := s.case.answers.get(p.id)))
            for p in profiles
            if p.kind is Kind.NORMATIVE
        ]
        counts[kind] = MixedKind("quantize", kind, max(right, default=0), len(seen))
    best = max(counts.values(), key=lambda one: one.explained)
    first = counts[kinds[0]]
    return [best] if best.explained > 2 * first.explained and 2 * best.explained > best.asked else []


def _returned_kind(session: TargetSession, fmt: BlockFormat) -> list[MixedKind]:
    """The kind that `tensor_scale` returns for more tensors than the one that is named, and for more than half."""
    named = session.capabilities.tensor_scale
    counts = dict.fromkeys((k.value for k in TensorScaleKind), 0)
    asked = 0
    for bits, amax in ordinary_tensor_scales(session, fmt.name):
        asked += 1
        scales = TensorScales.from_amax(amax)
        for kind in counts:
            counts[kind] += scales.bits(kind) == bits
    best = max(counts, key=lambda k: (counts[k], k == named))
    if best == named or 2 * counts[best] <= asked or counts[best] <= 2 * counts[named]:
        return []
    return [MixedKind("tensor_scale", best, counts[best], asked)]


def _observe(session: TargetSession, fmt: BlockFormat) -> list[Observed]:
    cases = [c for c in load_quantize_cases(fmt.name) if c.topic == "tensor-scale" and c.is_row and not _is_special(c.tensor)]
    return observe_quantize(session, fmt.name, cases)[0]


def _is_special(tensor: TensorScales | None) -> bool:
    return tensor is not None and tensor.is_special


def _quantizes(session: TargetSession, fmt: BlockFormat, profiles: Sequence[Profile]) -> bool:
    cases = [c for c in load_quantize_cases(fmt.name) if c.topic == "tensor-scale" and c.is_row]
    seen, _ = observe_quantize(session, fmt.name, cases)
    return bool(seen) and any(
        all((s.scales.reshape(-1) == a[0].scale).all() for s in seen if (a := s.case.answers.get(p.id)))
        for p in profiles
        if any(p.id in s.case.answers for s in seen)
    )


def _dequantizes(session: TargetSession, fmt: BlockFormat, profiles: Sequence[Profile]) -> bool:
    tables = [t for t in observe_tables(session, fmt.name) if t.case.tensor is not None]
    return any(count_wrong_values(tables, fmt, p) == 0 for p in profiles if p.two_level is not None)
