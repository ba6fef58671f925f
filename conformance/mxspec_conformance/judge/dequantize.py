"""Judging `dequantize`: every code under every scale byte, and next to every other code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import dequantize
from mxspec.arrays import ARRAYS
from mxspec.elements import code_dtype, decode_codes, decode_table
from mxspec.expressions import ONE, SF, Expr, G, Q, S, evaluate, f32, put_in_words
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.counterexample.evidence import show_code, show_value
from mxspec_conformance.counterexample.items import is_other_value, keep_items, write_value
from mxspec_conformance.judge.causes.dividing import bind_tensor
from mxspec_conformance.judge.explanation import LEAF_NAMES, Cause, Explanation, by_profile
from mxspec_conformance.judge.invariance.answered import Answered
from mxspec_conformance.judge.invariance.pace import LARGEST_OF
from mxspec_conformance.judge.invariance.pools import list_neighbours
from mxspec_conformance.judge.misreadings import name_table
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.selection import makes_call
from mxspec_conformance.observations.tables import ObservedTable, TableCase, Values, rotated_table, same_values
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import Codes
from mxspec_vectors.tensor_scales import TensorScales, native_scale


def expected_table(fmt: BlockFormat, profile: Profile, tensor: TensorScales | None, dtype: str = "float32") -> Values | None:
    """The profile's values for the table, rounded once to an output dtype; None where it has no such form."""
    try:
        profile.steps(with_tensor_scale=tensor is not None)
    except ValueError:
        return None
    codes, scales = rotated_table(fmt)
    with np.errstate(all="ignore"):
        values: Values = dequantize(codes, scales[:, None], fmt, profile=profile, tensor_scale=native_scale(profile, tensor))
        return values if dtype == "float32" else values.astype(DTYPES[dtype]).astype(np.float32)


def judge_tables(
    results: Sequence[ObservedTable], fmt: BlockFormat, profile: Profile, scorecard: Scorecard,
    others: Sequence[Profile],
) -> None:  # fmt: skip
    """Enter every (code, scale byte) into the scorecard of a profile.

    A case is one scale byte or one code; products beyond float32 are not judged for normative profiles. What is wrong in a
    whole table counts once, as the tensor scale's.
    """
    tables = [t for t in (_judge_table(r, fmt, profile) for r in results) if t is not None]
    culprits = _find_culprits(tables)
    for item in results:
        if isinstance(item.returned, NoAnswer) and expected_table(fmt, profile, item.case.tensor) is not None:
            given = {"table": "every code under every scale byte"}
            if item.case.tensor is not None:
                given |= {f"tensor scale, {k}": v for k, v in item.case.tensor.as_dict().items()}
            scorecard.count_no_answer("code", item.case.id, item.returned, given=partial(dict, given))
        for row, reason in item.failed.items():
            scale = f"{int(rotated_table(fmt)[1][row]):02x}"
            given = {"scale": scale, "codes": rotated_table(fmt)[0][row].tobytes().hex()}
            scorecard.count_no_answer(
                "scale-code", f"{item.case.id}-scale-{scale}", reason, origin=item.case.id, given=partial(dict, given)
            )
    plain = next((t for t in tables if not t.seen.refused and t.case.tensor is None and t.seen.dtype == "float32" and t.wrong.any()), None)
    misread: frozenset[Explanation] = frozenset() if plain is None else name_table(fmt, plain.returned)
    for table in tables:
        _enter_table(table, fmt, culprits, scorecard, others, misread)


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
    #: Scale bytes that were answered, and those of them that have nonzero, finite values.
    scales: tuple[int, ...]
    ordinary: frozenset[int]
    #: The profile's values, its id, and the tensor scale in its own kind.
    expected: Values
    profile: str
    native: tuple[str, int]
    seen: ObservedTable


def _judge_table(item: ObservedTable, fmt: BlockFormat, profile: Profile) -> _Judged | None:
    case, returned = item.case, item.returned
    expected = expected_table(fmt, profile, case.tensor, item.dtype)
    if expected is None or isinstance(returned, NoAnswer):
        return None
    codes, scales = rotated_table(fmt)
    judged = np.ones(expected.shape, bool)
    if profile.kind is Kind.NORMATIVE:
        judged = ~np.isinf(expected) | np.isinf(decode_table(fmt.element)[codes])
    judged[list(item.refused)] = False
    same, same_but_signs = same_values(returned, expected), same_values(returned, expected, signs=False)
    wrong = ~same_but_signs & judged
    # What stands for a product beyond float32 is open, but not its sign.
    wrong |= ~judged & ~np.isnan(returned) & (np.signbit(returned) != np.signbit(expected))
    present = tuple(int(s) for s in np.unique(scales[item.answered]))
    values = dict(zip(present, decode_codes(np.array(present, code_dtype(fmt.scale)), fmt.scale).tolist(), strict=True))
    return _Judged(
        case=case,
        returned=returned,
        wrong=wrong,
        signs=~same & same_but_signs & judged,
        whole=frozenset(s for s in present if 2 * wrong[scales == s].sum() > judged[scales == s].sum()),
        scales=present,
        ordinary=frozenset(s for s in present if np.isfinite(values[s]) and values[s] != 0),
        expected=expected,
        profile=profile.id,
        native=("", 0) if (own := native_scale(profile, case.tensor)) is None else (own.kind.value, own.bits),
        seen=item,
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
    table: _Judged, fmt: BlockFormat, culprits: _Culprits, scorecard: Scorecard, others: Sequence[Profile],
    misread: frozenset[Explanation],
) -> None:  # fmt: skip
    """Enter one table. misread: what gives every value of the table without a tensor scale."""
    _, scales = rotated_table(fmt)
    case, tensor = table.case, table.case.tensor
    special = {0, fmt.scale.max_code, *([fmt.scale.nan_code] if fmt.scale.nan_code is not None else [])}
    equal: dict[Explanation, Values] = {}
    if table.wrong.any() or table.signs.any():
        equal = {by_profile(p.id): t for p in others if (t := expected_table(fmt, p, tensor, table.seen.dtype)) is not None}
        orders = _list_orders(fmt, tensor, table.seen.dtype).items()  # who multiplies so does it in all values
        equal |= {e: t for e, t in orders if same_values(table.returned, t, signs=False)[table.seen.answered].all()}
    for scale in table.scales:
        bad = table.wrong & (scales == scale)[:, None]
        label = f"{case.id}-scale-{scale:02x}"
        matches = _matching(bad, table.returned, equal)
        about_scale = scale in special or scale in culprits.scales
        alike = [s for s in table.scales if (s in special or s in culprits.scales) == about_scale]
        show = partial(_show_value, table, fmt, table.wrong & np.isin(scales, alike)[:, None])
        about_tensor = tensor is not None and culprits.tensor and scale not in culprits.scales
        if tensor is not None:
            scorecard.count("tensor-scale", label, origin=case.id, ok=not (about_tensor and bad.any()), equals=matches, show=show)
        if about_tensor:
            continue
        matches |= misread
        scorecard.count("scale-code", label, origin=case.id, ok=not (about_scale and bad.any()), equals=matches, show=show)
        if not about_scale:
            scorecard.count("code", label, origin=case.id, ok=not bad.any(), equals=matches, show=show)
    signs = table.signs
    scorecard.count(
        "zero-sign", case.id, ok=not signs.any(), equals=_matching(signs, table.returned, equal),
        show=partial(_show_value, table, fmt, signs),
    )  # fmt: skip


def _show_value(table: _Judged, fmt: BlockFormat, bad: npt.NDArray[np.bool_]) -> Failure:
    """The wrong value that is easiest to read: under the scale byte nearest to one, the smallest code."""
    codes, scales = rotated_table(fmt)
    one = fmt.scale.bias << fmt.scale.mantissa_bits
    row, lane = min(np.argwhere(bad).tolist(), key=lambda at: (abs(int(scales[at[0]]) - one), int(codes[at[0], at[1]])))
    code, scale = int(codes[row, lane]), int(scales[row])
    values = codes[bad]
    others = sorted({f"{int(c):02x}" for c in values})
    under = len(set(scales[np.where(bad)[0]].tolist()))
    text = f"wrong here and under {under - 1} other scale bytes: codes {', '.join(others[:6])}{' ...' if len(others) > 6 else ''}"
    tensor = {} if table.case.tensor is None else table.case.tensor.as_dict()
    given: dict[str, Any] = {
        "code": show_code(code, fmt.element), "scale": show_code(scale, fmt.scale), "lane": str(lane),
        **({"tensor scale": tensor} if tensor else {}),
        **({"output": table.seen.dtype} if table.seen.dtype != "float32" else {}),
    }  # fmt: skip
    kind = "None" if not tensor else f'mxspec.TensorScale("{table.native[0]}", 0x{table.native[1]:08x})'
    snippet = (
        "import numpy as np, mxspec\n"
        f"codes, scale = np.full((1, {fmt.k}), 0x{code:02x}, np.uint8), np.full((1, 1), 0x{scale:02x}, np.{code_dtype(fmt.scale)})\n"
        f'print(mxspec.dequantize(codes, scale, "{fmt.name}", profile="{table.profile}", tensor_scale={kind})[0, 0])'
    )
    want, answered = table.expected[row, lane], table.seen.answered
    shown = show_value(
        f"{table.case.id}-scale-{scale:02x}", given, float(want), float(table.returned[row, lane]), steps=[text], snippet=snippet
    )
    return keep_items(
        shown, "dequantize", fmt.name, np.column_stack([codes, scales])[answered], int(np.searchsorted(answered, row)), lane=lane,
        options=table.seen.options, write=write_value, is_wrong=partial(is_other_value, want, signs=bool(table.signs[row, lane])),
    )  # fmt: skip


def judge_neighbours(session: TargetSession, fmt: BlockFormat, table: Answered, scorecard: Scorecard) -> dict[str, Failure]:
    """Enter calls in which a code means what the table says, whatever its neighbours are: a target may look up several at once.

    table: codes under scale bytes, as they were answered. Returns the first code that was read otherwise, by requirement.
    """
    every = list_neighbours(fmt.element.code_count, fmt.k)
    bytes_of_rows = table.inputs[1].reshape(-1)
    scale = min(bytes_of_rows.tolist(), key=lambda byte: abs(np.nan_to_num(float(decode_codes(byte, fmt.scale)), nan=np.inf) - 1))
    own = np.zeros(fmt.element.code_count, np.float32)
    own[table.inputs[0][bytes_of_rows == scale]] = table.before[bytes_of_rows == scale]
    largest = LARGEST_OF.get(session.transport, every.size)
    first: dict[str, Failure] = {}
    in_table = bool(scorecard.tally("code").failing)  # whose case then is the one to show
    for number, codes in enumerate(np.array_split(every, -(-every.size // largest)) if len(every[0]) <= largest else ()):
        label = f"every pair of adjacent codes{f', {number + 1}' if number else ''}"
        if not makes_call(quick=fmt.element.bits < 8):
            continue
        scales = np.full((len(codes), codes.shape[1] // fmt.k), scale, code_dtype(fmt.scale))
        answer = run_once(partial(session.call, "dequantize", codes, scales, fmt.name, **table.kwargs))
        if isinstance(answer, NoAnswer):
            if not answer.is_refusal:  # rows may be too long
                scorecard.count_no_answer("code", label, answer)
            continue
        wrong = ~same_values(answer, own[codes], signs=False)
        scorecard.count("code", label, ok=not wrong.any())
        if wrong.any() and not in_table:
            first.setdefault(scorecard.tally("code").id, _show_neighbours(label, fmt, codes, scale, own, answer, wrong, table.kwargs))
    return first


def _show_neighbours(
    label: str,
    fmt: BlockFormat,
    codes: Codes,
    scale: int,
    own: Values,
    returned: Values,
    wrong: npt.NDArray[np.bool_],
    options: Mapping[str, Any],
) -> Failure:
    """The first code of a call that is read otherwise than in the table, between its neighbours."""
    row, column = np.argwhere(wrong)[0].tolist()
    before, after = (f"{int(codes[row, at]):02x}" if 0 <= at < codes.shape[1] else "none" for at in (column - 1, column + 1))
    code = int(codes[row, column])
    given = {
        "code": show_code(code, fmt.element), "scale": show_code(scale, fmt.scale), "between codes": f"{before}, {after}",
        "row, column": f"{row}, {column} of {codes.shape[0]} x {codes.shape[1]}",
    }  # fmt: skip
    text = f"{int(wrong.sum())} of {wrong.size} codes are read otherwise than in the table of single codes; a target may look up several at once"
    blocks = codes.reshape(-1, fmt.k)
    return keep_items(
        show_value(label, given, float(own[code]), float(returned[row, column]), steps=[text]), "dequantize", fmt.name,
        np.column_stack([blocks, np.full(len(blocks), scale, code_dtype(fmt.scale))]), (row * codes.shape[1] + column) // fmt.k, lane=column % fmt.k,
        options=options, write=write_value, is_wrong=partial(is_other_value, own[code], signs=False),
    )  # fmt: skip


def _matching(bad: npt.NDArray[np.bool_], returned: Values, tables: dict[Explanation, Values]) -> frozenset[Explanation]:
    if not bad.any():
        return frozenset()
    return frozenset(e for e, t in tables.items() if same_values(returned[bad], t[bad]).all())


#: Orders of the products under a tensor scale that may be no profile's.
_ORDERS: tuple[Expr, ...] = (
    f32.mul(f32.mul(Q, G), SF), f32.mul(f32.mul(Q, SF), G), f32.mul(Q, f32.mul(SF, G)), f32.mul(f32.div(Q, S), SF), f32.div(f32.mul(Q, SF), S),
    f32.mul(Q, f32.div(SF, S)), f32.mul(f32.mul(Q, SF), f32.div(ONE, S)), f32.mul(Q, f32.mul(SF, f32.div(ONE, S))),
)  # fmt: skip


def _list_orders(fmt: BlockFormat, tensor: TensorScales | None, dtype: str) -> dict[Explanation, Values]:
    """The values of a table by each order, rounded to an output dtype."""
    codes, scales = rotated_table(fmt)
    known = {"q": decode_table(fmt.element)[codes], "sf": decode_codes(scales, fmt.scale)[:, None], **bind_tensor(tensor)}
    found = {}
    with np.errstate(all="ignore"):
        for order in _ORDERS if tensor is not None else ():
            words = f"values were {put_in_words(order, LEAF_NAMES)}"
            values = np.asarray(evaluate(order, known, ARRAYS)).astype(DTYPES[dtype])
            found[Explanation(Cause.CONVERSION_MISTAKE, words)] = values.astype(np.float32)
    return found


def count_supported(results: Sequence[ObservedTable], fmt: BlockFormat) -> int:
    """Entries of the tables that the target answers, or should."""
    rows, k = rotated_table(fmt)[0].shape
    tables = [r for r in results if not (isinstance(r.returned, NoAnswer) and r.returned.is_unsupported)]
    entries: int = rows * k * len(tables)
    return entries - count_refused(results, fmt)


def count_refused(results: Sequence[ObservedTable], fmt: BlockFormat) -> int:
    """Entries of the tables that the target declines while it answers others."""
    return sum(len(r.refused) - len(r.failed) for r in results) * fmt.k


def count_wrong_values(results: Sequence[ObservedTable], fmt: BlockFormat, profile: Profile) -> int:
    """Entries of the tables that differ from the profile's."""
    total = 0
    for item in results:
        expected = expected_table(fmt, profile, item.case.tensor, item.dtype)
        if expected is None:
            continue
        if not isinstance(item.returned, NoAnswer):
            total += int((~same_values(item.returned, expected, signs=False))[item.answered].sum()) + len(item.failed) * fmt.k
        elif not item.returned.is_unsupported:
            total += expected.size
    return total


def tables_identical(results: Sequence[ObservedTable], fmt: BlockFormat, profile: Profile) -> bool:
    """Whether every value returned is the profile's."""
    for item in results:
        expected = expected_table(fmt, profile, item.case.tensor, item.dtype)
        if expected is None or (isinstance(item.returned, NoAnswer) and item.returned.is_unsupported):
            continue
        if isinstance(item.returned, NoAnswer) or item.failed or not same_values(item.returned, expected)[item.answered].all():
            return False
    return True
