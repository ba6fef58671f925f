"""From a wrong output to the smallest product that shows it, with its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.dot import Accumulator, OperandContract
from mxspec_conformance.counterexample.failure import can_write, fit_call, write_array
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.editing import clear_stretch, cut_length, find_used, place_dense, take_rows
from mxspec_conformance.judge.products.reference import allow, refer_case, round_exactly
from mxspec_conformance.judge.products.stored import StoredProduct, store_product
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.laying_out import hand_over
from mxspec_conformance.targets.operands import Numbers, OperandKind
from mxspec_conformance.targets.product_sizes import Sizes

#: Calls that making a product smaller may cost.
_CALLS = 48
#: Products of one output that are shown.
_SHOWN = 8

Ask = Callable[[ProductCase], Any]


@dataclass(frozen=True, slots=True)
class Wrong:
    """A case with an output that is not allowed."""

    case: ProductCase
    output: npt.NDArray[Any]
    place: tuple[int, int]


def find_wrong(case: ProductCase, output: Any, accumulator: Accumulator, contract: OperandContract) -> tuple[int, int] | None:
    """The first output that is not allowed; None where all are, or none came."""
    if not isinstance(output, np.ndarray):
        return None
    bad = ~allow(refer_case(case, contract), case, accumulator).accepts(output)
    if not bad.any():
        return None
    i, j = np.argwhere(bad)[0].tolist()
    return i, j


def shrink_product(ask: Ask, wrong: Wrong, sizes: Sizes, accumulator: Accumulator, contract: OperandContract) -> Wrong:
    """The smallest product found that is still wrong: fewer rows and columns, then fewer products, then a shorter k."""
    left = [_CALLS]

    def attempt(case: ProductCase | None) -> Wrong | None:
        if case is None or left[0] <= 0:
            return None
        left[0] -= 1
        output = ask(case)
        place = find_wrong(case, output, accumulator, contract)
        return None if place is None else Wrong(case, output, place)

    best = wrong
    best = attempt(_pick_rows(best.case, best.place, sizes)) or best
    step = max(best.case.a.shape[1] // 2, 1)
    while step >= 1 and left[0] > 6:  # products in runs, halving their length, as delta debugging does
        start, k = 0, best.case.a.shape[1]
        while start < k and left[0] > 6:
            best = attempt(_clear(best.case, best.place, start, step)) or best
            start += step
        step //= 2
    return attempt(_shorten(best.case, sizes)) or best


def _pick_rows(case: ProductCase, place: tuple[int, int], sizes: Sizes) -> ProductCase | None:
    """The case with the rows of one output first, and as few others as the target takes."""
    i, j = place
    if case.a.shape[0] == sizes.m and case.b.shape[0] == sizes.n:
        return None
    chosen = [_first_rows(at, rows, least) for at, rows, least in ((i, case.a.shape[0], sizes.m), (j, case.b.shape[0], sizes.n))]
    options = dict(case.options)
    if "c" in options:
        options["c"] = options["c"][np.ix_(*chosen)]
    if "bias" in options:
        options["bias"] = options["bias"][chosen[1]]
    return replace(case, a=take_rows(case.a, chosen[0]), b=take_rows(case.b, chosen[1]), options=options)


def _first_rows(at: int, rows: int, least: int) -> npt.NDArray[np.intp]:
    order = np.concatenate([[at], np.delete(np.arange(rows), at)])
    return order[: min(least, rows)].astype(np.intp)


def _clear(case: ProductCase, place: tuple[int, int], start: int, length: int) -> ProductCase | None:
    """Both sides with zeros at a stretch of k, as far as they have any; None where the output has nothing to lose there."""
    a, b = (clear_stretch(numbers, start, length) for numbers in (case.a, case.b))
    changed = ((x.held[row] != y.held[row]).any() for x, y, row in ((a, case.a, place[0]), (b, case.b, place[1])))
    return replace(case, a=a, b=b) if any(changed) else None


def _shorten(case: ProductCase, sizes: Sizes) -> ProductCase | None:
    """Without the blocks behind the last product that is not zero."""
    used = np.flatnonzero(find_used(case.a).any(axis=0) & find_used(case.b).any(axis=0))
    k = sizes.fit(1, 1, int(used[-1]) + 1 if used.size else 1)[2]
    if k >= case.a.shape[1]:
        return None
    return replace(case, a=cut_length(case.a, k), b=cut_length(case.b, k))


def describe_wrong(wrong: Wrong, accumulator: Accumulator, contract: OperandContract) -> Failure:
    """The failure that a report shows: sizes, operands of one output, its sum term by term, what may come and what came."""
    case, (i, j) = wrong.case, wrong.place
    reference = refer_case(case, contract)
    allowed = allow(reference, case, accumulator)
    exact = round_exactly(reference, case)
    low, high = float(allowed.low[i, j]), float(allowed.high[i, j])
    m, n, k = case.a.shape[0], case.b.shape[0], case.a.shape[1]
    given: dict[str, Any] = {"m x n x k": f"{m} x {n} x {k}", "output": f"[{i}, {j}]"}
    used = find_used(case.a)[i], find_used(case.b)[j]
    both = used[0] & used[1]
    given |= _show_side("a", case.a, i, both if both.any() else used[0]) | _show_side("b", case.b, j, both if both.any() else used[1])
    given |= {name: f"{value:g}" for name, value in case.options.items() if isinstance(value, float)}
    given |= {name: _show_added(case.options[name], i, j) for name in ("c", "bias") if name in case.options}
    expected = {"value": _show(exact[i, j])}
    if allowed.decided[i, j] or low == high:
        expected["why"] = "every order of additions gives it"
    elif not allowed.special[i, j]:
        expected["allowed"] = f"{low:.9g} to {high:.9g}, {accumulator.text}"
    return Failure(
        case=case.label,
        given=given,
        expected=expected,
        returned={"value": _show(wrong.output[i, j])},
        steps=_list_terms(reference.a.odd[i], reference.b.odd[j]) + _count_product(wrong, reference.a.odd[i], reference.b.odd[j]),
        snippet=_make_snippet(wrong),
        product=store_product(
            StoredProduct(case=case, place=(i, j), accumulator=accumulator.name, contract=contract, returned=wrong.output[i : i + 1, j])
        ),
    )


class _Name(str):
    """A variable of a snippet, in the place of an array."""

    __slots__ = ()
    __repr__ = str.__str__


def _make_snippet(wrong: Wrong) -> str:
    """NumPy lines that call the target with the operands; empty where they are too many numbers to be read, or other calls matter."""
    case, made = wrong.case, dict[str, npt.NDArray[Any]]()

    def name_part(side: str, array: npt.NDArray[Any]) -> _Name:
        name = _Name(f"{side}{sum(known.startswith(side) for known in made)}")
        made[name] = array
        return name

    operands = {side: hand_over(numbers, convert=partial(name_part, side)) for side, numbers in (("a", case.a), ("b", case.b))}
    made |= {name: value for name, value in case.options.items() if isinstance(value, np.ndarray)}
    if case.before or not can_write(*made.values()):
        return ""
    lines = ["import ml_dtypes, numpy as np  # k: the target", "from mxspec_conformance.targets.operands import Side"]
    for name, array in made.items():
        lines += write_array(name, array)
    for side, operand in operands.items():
        if isinstance(operand, _Name):
            lines.append(f"{side} = {operand}")
        else:
            given = {f.name: getattr(operand, f.name) for f in fields(operand)}
            lines += fit_call(
                f"{side} = Side", [f"{n}={v!r}" for n, v in given.items() if v is not None or n in ("scales", "tensor_scale")]
            )
    options = [f"{name}={name if name in made else repr(value)}" for name, value in case.options.items()]
    lines += fit_call("values = k.matmul", ["a", "b", f'"{case.out_dtype}"', *options])
    return "\n".join([*lines, f"print(values[{wrong.place[0]}, {wrong.place[1]}])"])


def describe_places(case: ProductCase, output: Any, accumulator: Accumulator, contract: OperandContract) -> str:
    """Where the wrong outputs of a case lie, in words."""
    bad = ~allow(refer_case(case, contract), case, accumulator).accepts(output)
    text = f"{int(bad.sum())} of {bad.size} outputs are wrong"
    for name, axis in (("row", 1), ("column", 0)):
        lines = np.flatnonzero(bad.all(axis=axis))
        if not lines.size or lines.size == bad.shape[1 - axis] or bad.sum() != lines.size * bad.shape[axis]:
            continue
        run = lines.size > 1 and (np.diff(lines) == 1).all()
        shown = f"{name}s {lines[0]} to {lines[-1]}" if run else f"{name} {', '.join(map(str, lines[:8].tolist()))}"
        return f"{text}: {shown}, {'each whole' if lines.size > 1 else 'the whole of it'}"
    return text


def _show(value: Any) -> str:
    bits = value.tobytes()[::-1].hex()
    return f"{float(value):.9g} ({bits})"


def _show_added(added: npt.NDArray[Any], i: int, j: int) -> str:
    return f"{float(added[i, j] if added.ndim == 2 else added[j]):.9g}"


def _show_side(name: str, numbers: Numbers, row: int, at: npt.NDArray[np.bool_]) -> dict[str, str]:
    """A side's stored parts that make up one row's numbers at some places."""
    spec = numbers.spec
    shown = {name: spec.text}
    if numbers.metadata is not None:
        assert spec.sparsity is not None
        nibbles = numbers.metadata[row]
        shown[f"{name} metadata"] = _join([f"group {g}:{int(n):x}" for g, n in enumerate(nibbles)])
    if numbers.codes is None:
        return shown
    codes = place_dense(numbers)[row]
    used = np.flatnonzero(at)
    shown[f"{name} codes"] = _join([f"k{k}:{int(codes[k]):02x}" for k in used])
    groups = np.unique(used // spec.group) if len(used) else np.arange(1)
    word = "block" if spec.kind is OperandKind.BLOCK else "group"
    for what, part in (("scales", numbers.scales), (_name_offsets(numbers), numbers.offsets)):
        if part is not None:
            shown[f"{name} {what}"] = _join([f"{word} {g}:{_show_part(part[row, g])}" for g in groups])
    if numbers.tensor_scale is not None:
        shown[f"{name} tensor scale"] = f"{numbers.tensor_scale:.9g}"
    return shown


def _name_offsets(numbers: Numbers) -> str:
    return "offsets" if numbers.offsets is None else "zero points" if numbers.offsets.dtype == np.uint8 else "biases"


def _show_part(value: Any) -> str:
    if value.dtype == np.uint32:  # the bits of a float32 scale
        value = value.view(np.float32)
    return f"{int(value):02x}" if value.dtype == np.uint8 else _show(value)


def _join(words: Sequence[str]) -> str:
    return " ".join(words[:_SHOWN]) + (" ..." if len(words) > _SHOWN else "")


def _count_product(wrong: Wrong, a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> list[str]:
    """Whether the only product of an output comes out as zero, or counts twice; nothing where something else is added."""
    used = np.flatnonzero((a != 0) & (b != 0))
    if len(used) != 1 or wrong.case.out_dtype != "float32" or any(v is not None for v in wrong.case.options.values()):
        return []
    one, came = a[used[0]] * b[used[0]], float(wrong.output[wrong.place])
    with np.errstate(over="ignore"):
        twice = 2 * float(np.float32(one))
    said = {0.0: "comes out as zero", twice: "counts twice, or has twice its scale"}.get(came)
    return [] if said is None or not one else [f"this product, at k = {used[0]}, {said}"]


def _list_terms(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> list[str]:
    used = np.flatnonzero((a != 0) & (b != 0))
    lines = [f"k = {k}: {a[k]:.9g} * {b[k]:.9g} = {a[k] * b[k]:.9g}" for k in used[:_SHOWN].tolist()]
    if len(used) > _SHOWN:
        lines.append(f"and {len(used) - _SHOWN} products more, to k = {int(used[-1])}")
    return lines
