"""What a target returned for the quantize cases, in every dtype that it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.observations.bisection import NoAnswer, run_bisected, unsupported
from mxspec_conformance.observations.selection import keeps
from mxspec_conformance.observations.strays import find_strays
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.dtypes import cast_input, is_representable
from mxspec_conformance.targets.fake import shows_codes
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import Codes, QuantizeCase
from mxspec_vectors.tensor_scales import TensorScales

#: Topics in which the whole block is compared with the legal answers; their cases are asked apart.
WHOLE_BLOCK = ("nan", "inf", "zero-block")


def dtype_label(case: QuantizeCase, dtype: str) -> str:
    """The label of a case in an input dtype."""
    return case.id if dtype == "float32" else f"{case.id}@{dtype}"


@dataclass(frozen=True, slots=True)
class Observed:
    """What a target returned for a case in one dtype."""

    case: QuantizeCase
    dtype: str
    scales: Codes
    codes: Codes

    @property
    def label(self) -> str:
        """The case's id, with the dtype where it is not float32."""
        return dtype_label(self.case, self.dtype)


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A case in one dtype for which nothing came back."""

    case: QuantizeCase
    dtype: str
    reason: NoAnswer

    @property
    def label(self) -> str:
        """The case's id, with the dtype where it is not float32."""
        return dtype_label(self.case, self.dtype)


def tensor_argument(tensor: TensorScales | None, capabilities: Capabilities) -> dict[str, float]:
    """The keyword that hands a tensor scale over, in the kind that the target takes."""
    return {} if tensor is None else {"tensor_scale": tensor.value(capabilities.tensor_scale)}


def refuse_tensor(function: str, tensor: TensorScales | None, capabilities: Capabilities) -> NoAnswer | None:
    """Why a function is not asked with this tensor scale, or without one."""
    if tensor is not None and not capabilities.has(function, "tensor_scale"):
        return unsupported(f"{function} takes no tensor_scale")
    if tensor is not None and function == "quantize" and capabilities.fake and not shows_codes(tensor.value("decode")):
        return unsupported("values under such a tensor scale do not show their codes")
    if tensor is None and not capabilities.one_level:
        return unsupported(f"{function} requires a tensor_scale")
    return None


def observe_quantize(session: TargetSession, fmt: str, cases: Sequence[QuantizeCase]) -> tuple[list[Observed], list[Unanswered]]:
    """Every case in every dtype that the target takes: what came back, and why nothing did."""
    capabilities = session.capabilities
    answered: list[Observed] = []
    unanswered: list[Unanswered] = []
    for dtype in capabilities.dtypes:
        chosen = [c for c in cases if is_representable(c.x, dtype).all() and keeps("quantize", fmt, c.id)]
        for batch in _batches(chosen):
            refusal = _refuse(batch[0], capabilities)
            if refusal is not None:
                unanswered += [Unanswered(case, dtype, refusal) for case in batch]
                continue
            for case, answer in zip(batch, _observe_batch(session, fmt, batch, dtype), strict=True):
                if isinstance(answer, NoAnswer):
                    unanswered.append(Unanswered(case, dtype, answer))
                else:
                    answered.append(Observed(case, dtype, *answer))
    return answered, unanswered


def _batches(cases: Sequence[QuantizeCase]) -> Iterator[list[QuantizeCase]]:
    """Rows with one tensor scale together, special values apart; other shapes alone."""
    groups: dict[tuple[Any, ...], list[QuantizeCase]] = {}
    for case in cases:
        if case.is_row:
            special = case.topic if case.topic in WHOLE_BLOCK else ""
            groups.setdefault((special, case.tensor), []).append(case)
        else:
            groups.setdefault((case.id,), []).append(case)
    yield from groups.values()


def _refuse(case: QuantizeCase, capabilities: Capabilities) -> NoAnswer | None:
    refusal = refuse_tensor("quantize", case.tensor, capabilities)
    if refusal is not None:
        return refusal
    for keyword, needed in (("axis", case.axis != -1), ("pad", case.pad), ("block", case.block is not None)):
        if needed and not capabilities.has("quantize", keyword):
            return unsupported(f"quantize takes no {keyword}")
    return None


def _observe_batch(session: TargetSession, fmt: str, batch: list[QuantizeCase], dtype: str) -> list[Any]:
    """(scales, codes) or `NoAnswer` for each case."""
    extra: dict[str, Any] = dict(tensor_argument(batch[0].tensor, session.capabilities))
    if not batch[0].is_row:
        case = batch[0]
        extra |= {k: v for k, v in (("axis", case.axis), ("block", case.block)) if v not in (-1, None)}
        if case.pad:
            extra["pad"] = True

        def call_alone(items: Sequence[QuantizeCase]) -> list[Any]:
            x = cast_input(items[0].x, dtype)
            codes, scales = session.call("quantize", x, fmt, **extra)
            return [next(iter(find_strays(session, x, fmt, **extra).values()), (scales, codes))]

        return run_bisected(batch, call_alone)

    def call(items: Sequence[QuantizeCase]) -> list[Any]:
        rows: npt.NDArray[Any] = cast_input(np.concatenate([c.x for c in items]), dtype)
        codes, scales = session.call("quantize", rows, fmt, **extra)
        strays = find_strays(session, rows, fmt, **extra)
        return [strays.get(i, (scales[i : i + 1], codes[i : i + 1])) for i in range(len(items))]

    return run_bisected(batch, call)


def group_rows(answered: Sequence[Observed], dtype: str) -> dict[TensorScales | None, list[Observed]]:
    """The answered rows of a dtype by tensor scale."""
    groups: dict[TensorScales | None, list[Observed]] = {}
    for item in answered:
        if item.case.is_row and item.dtype == dtype:
            groups.setdefault(item.case.tensor, []).append(item)
    return groups
