"""What a target returned for every code under every scale byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.acceptance import flag_nan_codes
from mxspec.formats import BlockFormat, get_block
from mxspec_conformance.observations.bisection import NoAnswer, run_bisected
from mxspec_conformance.observations.quantize import refuse_tensor, tensor_argument
from mxspec_conformance.observations.selection import keeps
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.build_dequantize import full_table
from mxspec_vectors.cases import Codes, load_dequantize_tensors
from mxspec_vectors.tensor_scales import TensorScales

Values = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TableCase:
    """Every code under every scale byte, under one tensor scale."""

    tensor: TensorScales | None

    @property
    def id(self) -> str:
        """The label of the table."""
        return "table-one-level" if self.tensor is None else f"table-t{self.tensor.amax:08x}"


@dataclass(frozen=True, slots=True)
class ObservedTable:
    """The values [n, k] of a table, or why there are none."""

    case: TableCase
    returned: Values | NoAnswer
    #: The dtype of the target's values, in which they were rounded.
    dtype: str = "float32"
    #: Rows that the target declines, or for which nothing came back, while it answers others; their values are NaN and mean
    #: nothing.
    refused: tuple[int, ...] = ()
    #: Those of them that should have had an answer, and why they have none.
    failed: Mapping[int, NoAnswer] = field(default_factory=dict)
    #: Keywords of the call.
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def answered(self) -> npt.NDArray[np.intp]:
        """The rows of an answered table that hold values of the target's."""
        assert not isinstance(self.returned, NoAnswer)
        return np.setdiff1d(np.arange(len(self.returned)), self.refused)


@lru_cache(maxsize=16)
def load_table_cases(fmt: str) -> tuple[TableCase, ...]:
    """One case for each tensor scale of the dequantize file."""
    return tuple(TableCase(tensor) for tensor in load_dequantize_tensors(fmt))


@lru_cache(maxsize=16)
def rotated_table(fmt: BlockFormat) -> tuple[Codes, Codes]:
    """`full_table` with the codes of each row rotated by some lanes, so that every code lies in every lane."""
    codes, scales = full_table(fmt)
    rows, lanes = np.indices(codes.shape)
    rotated: Codes = codes[rows, (lanes + 5 * scales.astype(np.intp)[:, None] + rows) % fmt.k]
    return rotated, scales


def observe_tables(session: TargetSession, fmt: str) -> list[ObservedTable]:
    """The target's values for each table [n, k]."""
    codes, scales = rotated_table(get_block(fmt))
    is_nan_scale = flag_nan_codes(scales, get_block(fmt).scale)
    results: list[ObservedTable] = []
    dtype = ""
    for case in load_table_cases(fmt):
        if not keeps("dequantize", fmt, case.id):
            continue
        refusal = refuse_tensor("dequantize", case.tensor, session.capabilities)
        if refusal is not None:
            results.append(ObservedTable(case, refusal))
            continue
        extra = tensor_argument(case.tensor, session.capabilities)

        def call(rows: Sequence[int], extra: dict[str, Any] = extra) -> list[Values]:
            values = session.call("dequantize", codes[list(rows)], scales[list(rows), None], fmt, **extra)
            return list(values)

        answers = run_bisected(range(len(codes)), call)
        silent = {i: a for i, a in enumerate(answers) if isinstance(a, NoAnswer)}
        # A scale that is NaN may be refused, by whatever refuses.
        failed = {i: a for i, a in silent.items() if not (a.is_unsupported or (a.is_refusal and is_nan_scale[i]))}
        if len(silent) == len(answers):
            results.append(ObservedTable(case, next(iter((failed or silent).values()))))
            continue
        values = np.stack([np.full(codes.shape[1:], np.nan, np.float32) if isinstance(a, NoAnswer) else a for a in answers])
        row = [next(i for i in range(len(answers)) if i not in silent)]
        dtype = dtype or _ask_dtype(session, codes[row], scales[row, None], fmt, extra)
        results.append(ObservedTable(case, values, dtype, tuple(silent), failed, extra))
    return results


def _ask_dtype(session: TargetSession, codes: Codes, scales: Codes, fmt: str, extra: dict[str, Any]) -> str:
    """The dtype that `dequantize` returns, where the transport can say it."""
    try:
        return str(session.call("output_dtype", "dequantize", codes, scales, fmt, **extra))
    except CallError:
        return "float32"


def same_values(a: Values, b: Values, *, signs: bool = True) -> npt.NDArray[np.bool_]:
    """Equal bits, or NaN in both; signs: whether the sign of zero counts."""
    same: npt.NDArray[np.bool_] = (a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))
    if not signs:
        same |= (a == 0) & (b == 0)
    return same
