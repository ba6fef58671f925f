"""Judging `dequantize`: every code under every scale byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import dequantize
from mxspec.elements import decode_table
from mxspec.exact import choose_level
from mxspec.formats import BlockFormat, get_block
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_bisected
from mxspec_conformance.observations.selection import keeps
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.build_dequantize import full_table
from mxspec_vectors.entries import native_tensor_scale
from mxspec_vectors.files import read_document

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


def observe_tables(session: TargetSession, fmt: str) -> list[tuple[TableCase, Values | NoAnswer]]:
    """The target's values for each table [n, k]."""
    block, capabilities = get_block(fmt), session.capabilities
    codes, scales = turned_table(block)
    results: list[tuple[TableCase, Values | NoAnswer]] = []
    for case in load_table_cases(fmt):
        if not keeps("dequantize", fmt, case.id):
            continue
        extra: dict[str, Any] = {}
        if case.tensor is None and not capabilities.one_level:
            results.append((case, NoAnswer("unsupported", "dequantize asks for a tensor_scale")))
            continue
        if case.tensor is not None:
            if not capabilities.has("dequantize", "tensor_scale"):
                results.append((case, NoAnswer("unsupported", "dequantize takes no tensor_scale")))
                continue
            bits = int(case.tensor[capabilities.tensor_scale], 16)
            extra["tensor_scale"] = float(np.uint32(bits).view(np.float32))

        def call(rows: Sequence[int], extra: dict[str, Any] = extra) -> list[Values]:
            values = session.call("dequantize", codes[list(rows)], scales[list(rows), None], fmt, **extra)
            return list(values)

        answers = run_bisected(range(len(codes)), call)
        no_answer = next((a for a in answers if isinstance(a, NoAnswer)), None)
        results.append((case, no_answer if no_answer is not None else np.stack(answers)))
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
    results: Sequence[tuple[TableCase, Values | NoAnswer]], fmt: BlockFormat, profile: Profile, scorecard: Scorecard,
    others: Sequence[Profile],
) -> None:  # fmt: skip
    """Enter every (code, scale byte) into the scorecard of a profile.

    A case is one scale byte or one code; products beyond float32 are not judged for normative profiles. What is wrong in a
    whole table counts once, as the tensor scale's.
    """
    tables = [t for t in (_judge_table(c, r, fmt, profile) for c, r in results) if t is not None]
    culprits = _find_culprits(tables)
    for case, returned in results:
        if isinstance(returned, NoAnswer) and expected_table(fmt, profile, case.tensor) is not None:
            scorecard.count_no_answer("code", case.id, returned)
    for table in tables:
        _enter_table(table, fmt, culprits, scorecard, others)


@dataclass(frozen=True, slots=True)
class _Judged:
    """A table that was answered, compared with a profile's."""

    case: TableCase
    returned: Values
    #: Where a value is wrong, and where only the sign of a zero is.
    wrong: npt.NDArray[np.bool_]
    signs: npt.NDArray[np.bool_]
    #: Scale bytes with more wrong values than right ones.
    whole: frozenset[int]
    #: Scale bytes that have nonzero, finite values.
    ordinary: frozenset[int]


def _judge_table(case: TableCase, returned: Values | NoAnswer, fmt: BlockFormat, profile: Profile) -> _Judged | None:
    expected = expected_table(fmt, profile, case.tensor)
    if expected is None or isinstance(returned, NoAnswer):
        return None
    codes, scales = turned_table(fmt)
    judged = np.ones(expected.shape, bool)
    if profile.kind is Kind.NORMATIVE:
        judged = ~np.isinf(expected) | np.isinf(decode_table(fmt.element)[codes])
    same, same_but_signs = same_values(returned, expected), same_values(returned, expected, signs=False)
    wrong = ~same_but_signs & judged
    values = decode_table(fmt.scale)
    present = [int(s) for s in np.unique(scales)]
    return _Judged(
        case=case,
        returned=returned,
        wrong=wrong,
        signs=~same & same_but_signs & judged,
        whole=frozenset(s for s in present if 2 * wrong[scales == s].sum() > judged[scales == s].sum()),
        ordinary=frozenset(s for s in present if np.isfinite(values[s]) and values[s] != 0),
    )


@dataclass(frozen=True, slots=True)
class _Culprits:
    """What makes values wrong: scale bytes, whatever the tensor scale is; the tensor scale itself."""

    scales: frozenset[int]
    tensor: bool


def _find_culprits(tables: Sequence[_Judged]) -> _Culprits:
    """A table without a tensor scale shows which scale bytes are wrong by themselves.

    A target that takes no such table shows them where only some bytes are wrong; if most are, under some tensor scale, that
    one is the likelier culprit.
    """
    plain = frozenset[int]().union(*(t.whole for t in tables if t.case.tensor is None))
    scaled = [t for t in tables if t.case.tensor is not None]
    free = tables[0].ordinary - plain if tables else frozenset()
    if any(2 * len(free & t.whole) > len(free) for t in scaled):
        return _Culprits(plain, tensor=True)
    return _Culprits(plain.union(*(t.whole for t in scaled)), tensor=False)


def _enter_table(
    table: _Judged, fmt: BlockFormat, culprits: _Culprits, scorecard: Scorecard, others: Sequence[Profile]
) -> None:
    _, scales = turned_table(fmt)
    case, tensor = table.case, table.case.tensor
    special = {0, fmt.scale.max_code, *([fmt.scale.nan_code] if fmt.scale.nan_code is not None else [])}
    equal: dict[str, Values] = {}
    if table.wrong.any() or table.signs.any():
        equal = {p.id: t for p in others if (t := expected_table(fmt, p, tensor)) is not None}
    for scale in (int(s) for s in np.unique(scales)):
        bad = table.wrong & (scales == scale)[:, None]
        label = f"{case.id}-scale-{scale:02x}"
        matches = _matching(bad, table.returned, equal)
        about_tensor = tensor is not None and culprits.tensor and scale not in culprits.scales
        if tensor is not None:
            scorecard.count("tensor-scale", label, ok=not (about_tensor and bad.any()), equals=matches)
        if about_tensor:
            continue
        about_scale = scale in special or scale in culprits.scales
        scorecard.count("scale-code", label, ok=not (about_scale and bad.any()), equals=matches)
        if not about_scale:
            scorecard.count("code", label, ok=not bad.any(), equals=matches)
    signs = table.signs
    scorecard.count("zero-sign", case.id, ok=not signs.any(), equals=_matching(signs, table.returned, equal))


def _matching(bad: npt.NDArray[np.bool_], returned: Values, tables: dict[str, Values]) -> frozenset[str]:
    if not bad.any():
        return frozenset()
    return frozenset(n for n, t in tables.items() if same_values(returned[bad], t[bad]).all())


def count_asked(results: Sequence[tuple[TableCase, Values | NoAnswer]], fmt: BlockFormat) -> int:
    """Entries of the tables that the target offers to answer."""
    tables = sum(not (isinstance(r, NoAnswer) and r.kind == "unsupported") for _, r in results)
    return tables * turned_table(fmt)[0].size


def count_wrong_values(
    results: Sequence[tuple[TableCase, Values | NoAnswer]], fmt: BlockFormat, profile: Profile
) -> int:
    """Entries of the tables that differ from the profile's."""
    total = 0
    for case, returned in results:
        expected = expected_table(fmt, profile, case.tensor)
        if expected is None:
            continue
        if not isinstance(returned, NoAnswer):
            total += int((~same_values(returned, expected, signs=False)).sum())
        elif returned.kind != "unsupported":
            total += expected.size
    return total


def tables_identical(results: Sequence[tuple[TableCase, Values | NoAnswer]], fmt: BlockFormat, profile: Profile) -> bool:
    """Whether every value returned is the profile's."""
    for case, returned in results:
        expected = expected_table(fmt, profile, case.tensor)
        if expected is None or (isinstance(returned, NoAnswer) and returned.kind == "unsupported"):
            continue
        if isinstance(returned, NoAnswer) or not same_values(returned, expected).all():
            return False
    return True
