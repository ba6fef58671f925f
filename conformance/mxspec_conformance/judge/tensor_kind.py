"""Which kind of tensor scale a target takes, where it is not the kind that it names: a common mistake that spoils every block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile, TensorScaleKind
from mxspec_conformance.judge.dequantize import count_wrong_values
from mxspec_conformance.observations.quantize import observe_quantize
from mxspec_conformance.observations.tables import observe_tables
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import load_quantize_cases


class _Otherwise:
    """An session that is asked as if its target had named another kind."""

    def __init__(self, session: TargetSession, kind: str) -> None:
        self._session, self.transport = session, session.transport
        self.capabilities: Capabilities = replace(session.capabilities, tensor_scale=kind)

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        return self._session.call(function, *args, **kwargs)

    def close(self) -> None:
        """The session belongs to somebody else."""


def find_other_kind(session: TargetSession, fmt: BlockFormat, profiles: Sequence[Profile]) -> dict[str, str]:
    """Function -> the kind that it takes, for those that follow no profile with the kind that the target names.

    A function takes a kind if some profile explains every scale byte of the cases about tensor scales, or every value.
    """
    named = session.capabilities.tensor_scale
    kinds = [named, *(k.value for k in TensorScaleKind if k.value != named)]
    found = {}
    for function, follows in (("quantize", _quantizes), ("dequantize", _dequantizes)):
        if session.capabilities.has(function, "tensor_scale"):
            kind = next((k for k in kinds if follows(_Otherwise(session, k), fmt, profiles)), named)
            if kind != named:
                found[function] = kind
    return found


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
