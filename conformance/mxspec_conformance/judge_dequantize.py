"""Judging `dequantize`: every code under every scale byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from mxspec_vectors.build import full_table, native_tensor_scale
from mxspec_vectors.files import read_document

from mxspec import dequantize
from mxspec.elements import decode_table
from mxspec.exact import choose_level
from mxspec.formats import BlockFormat, get_block
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.executors import Executor
from mxspec_conformance.observe import Trouble, run_bisected
from mxspec_conformance.tally import Ledger

Codes = npt.NDArray[np.uint8]
Values = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TableCase:
    """Every code under every scale byte, under one tensor scale."""

    id: str
    tensor: dict[str, str] | None


@lru_cache(maxsize=16)
def load_table_cases(fmt: str) -> tuple[TableCase, ...]:
    """One case for each tensor scale of the dequantize file."""
    entries: dict[str, dict[str, str] | None] = {}
    for case in read_document("dequantize", fmt)["cases"]:
        tensor = case.get("tensor_scale")
        entries.setdefault("one-level" if tensor is None else f"t{tensor['amax']}", tensor)
    return tuple(TableCase(f"table-{name}", tensor) for name, tensor in entries.items())


@lru_cache(maxsize=16)
def turned_table(fmt: BlockFormat) -> tuple[Codes, Codes]:
    """`full_table` with the codes of each row turned by some lanes, so that every code comes to lie in every lane."""
    codes, scales = full_table(fmt)
    rows, lanes = np.indices(codes.shape)
    turned: Codes = codes[rows, (lanes + 5 * scales.astype(np.intp)[:, None] + rows) % fmt.k]
    return turned, scales


def observe_tables(executor: Executor, fmt: str) -> list[tuple[TableCase, Values | Trouble]]:
    """The target's values for each table [n, k]."""
    block, capabilities = get_block(fmt), executor.capabilities
    codes, scales = turned_table(block)
    results: list[tuple[TableCase, Values | Trouble]] = []
    for case in load_table_cases(fmt):
        extra: dict[str, Any] = {}
        if case.tensor is not None:
            if not capabilities.has("dequantize", "tensor_scale"):
                results.append((case, Trouble("unsupported", "dequantize takes no tensor_scale")))
                continue
            bits = int(case.tensor[capabilities.tensor_scale], 16)
            extra["tensor_scale"] = float(np.uint32(bits).view(np.float32))

        def call(rows: Sequence[int], extra: dict[str, Any] = extra) -> list[Values]:
            values = executor.call("dequantize", codes[list(rows)], scales[list(rows), None], fmt, **extra)
            return list(values)

        answers = run_bisected(range(len(codes)), call)
        trouble = next((a for a in answers if isinstance(a, Trouble)), None)
        results.append((case, trouble if trouble is not None else np.stack(answers)))
    return results


def expected_table(fmt: BlockFormat, profile: Profile, tensor: dict[str, str] | None) -> Values | None:
    """The profile's values for the table, or None where it has no such form."""
    try:
        choose_level(profile, with_tensor_scale=tensor is not None)
    except ValueError:
        return None
    codes, scales = turned_table(fmt)
    scale = None if tensor is None else native_tensor_scale(profile, tensor)
    with np.errstate(all="ignore"):
        values: Values = dequantize(codes, scales[:, None], fmt, profile=profile, tensor_scale=scale)
    return values


def same_values(a: Values, b: Values, *, signs: bool = True) -> npt.NDArray[np.bool_]:
    """Equal bits, or NaN in both; signs: whether the sign of zero counts."""
    same: npt.NDArray[np.bool_] = (a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))
    if not signs:
        same |= (a == 0) & (b == 0)
    return same


def judge_tables(
    results: Sequence[tuple[TableCase, Values | Trouble]], fmt: BlockFormat, profile: Profile, ledger: Ledger,
    others: Sequence[Profile],
) -> None:  # fmt: skip
    """Enter every (code, scale byte) into the ledger of a profile.

    A case is one scale byte or one code; products beyond float32 are not judged for normative profiles.
    """
    codes, scales = turned_table(fmt)
    special = {0, fmt.scale.max_code, *([fmt.scale.nan_code] if fmt.scale.nan_code is not None else [])}
    for case, returned in results:
        expected = expected_table(fmt, profile, case.tensor)
        if expected is None:
            continue
        if isinstance(returned, Trouble):
            ledger.trouble("code", case.id, returned)
            continue
        judged = np.ones(codes.shape, bool)
        if profile.kind is Kind.NORMATIVE:
            judged = ~np.isinf(expected) | np.isinf(decode_table(fmt.element)[codes])
        equal: dict[str, Values] = {}
        if not same_values(returned, expected)[judged].all():
            equal = {p.id: t for p in others if (t := expected_table(fmt, p, case.tensor)) is not None}
        same, same_but_signs = same_values(returned, expected), same_values(returned, expected, signs=False)
        wrong_by_scale = ~same_but_signs & judged
        whole_scales = (
            {int(s) for s in np.unique(scales) if wrong_by_scale[scales == s][judged[scales == s]].mean() > 0.5}
            if wrong_by_scale.any()
            else set()
        )
        for scale in np.unique(scales):
            rows = scales == scale
            bad = wrong_by_scale & rows[:, None]
            about_scale = int(scale) in special or int(scale) in whole_scales
            label = f"{case.id}-scale-{int(scale):02x}"
            matches = _matching(bad, returned, equal)
            ledger.count("scale-code", label, ok=not (about_scale and bad.any()), equals=matches)
            if not about_scale:
                ledger.count("code", label, ok=not bad.any(), equals=matches)
        signs = ~same & same_but_signs & judged
        ledger.count("zero-sign", case.id, ok=not signs.any(), equals=_matching(signs, returned, equal))


def _matching(bad: npt.NDArray[np.bool_], returned: Values, tables: dict[str, Values]) -> frozenset[str]:
    if not bad.any():
        return frozenset()
    return frozenset(n for n, t in tables.items() if same_values(returned[bad], t[bad]).all())


def count_asked(results: Sequence[tuple[TableCase, Values | Trouble]], fmt: BlockFormat) -> int:
    """Entries of the tables that the target offers to answer."""
    tables = sum(not (isinstance(r, Trouble) and r.kind == "unsupported") for _, r in results)
    return tables * turned_table(fmt)[0].size


def count_wrong_values(
    results: Sequence[tuple[TableCase, Values | Trouble]], fmt: BlockFormat, profile: Profile
) -> int:
    """Entries of the tables that differ from the profile's."""
    total = 0
    for case, returned in results:
        expected = expected_table(fmt, profile, case.tensor)
        if expected is None:
            continue
        if not isinstance(returned, Trouble):
            total += int((~same_values(returned, expected, signs=False)).sum())
        elif returned.kind != "unsupported":
            total += expected.size
    return total


def tables_identical(results: Sequence[tuple[TableCase, Values | Trouble]], fmt: BlockFormat, profile: Profile) -> bool:
    """Whether every value returned is the profile's."""
    for case, returned in results:
        expected = expected_table(fmt, profile, case.tensor)
        if expected is None or (isinstance(returned, Trouble) and returned.kind == "unsupported"):
            continue
        if isinstance(returned, Trouble) or not same_values(returned, expected).all():
            return False
    return True
