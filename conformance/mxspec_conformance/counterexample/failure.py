"""Drawing one failing case: shrunk, explained, and reproducible."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.elements import code_dtype
from mxspec.elements_given_scale import encode_given_scale
from mxspec.explain import explain_difference
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_conformance.observations.answers import equal_profiles
from mxspec_conformance.observations.quantize import Observed, tensor_argument
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.dtypes import cast_input
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import QuantizeCase, list_blocks
from mxspec_vectors.tensor_scales import bind_profile, native_scale

#: Numbers of a call that are written down.
MAX_SHOWN = 64


def describe_bits(x: float | np.float32) -> str:
    """A float32 by its bits and its value."""
    value = np.float32(x)
    return f"0x{int(value.view(np.uint32)):08x} = {float(value)!r}"


def describe_case(case: QuantizeCase, dtype: str) -> dict[str, Any]:
    """What was given in a case, for one that has no answer."""
    x = case.x.reshape(case.x.shape[0], -1)
    places = np.argwhere(x.view(np.uint32) != 0)[:64].tolist()
    lanes = {f"lane {j}" if len(x) == 1 else f"row {i}, column {j}": describe_bits(x[i, j]) for i, j in places}
    return {
        "x": lanes,
        "other lanes": "+0",
        "shape": "x".join(map(str, case.x.shape)),
        "dtype": dtype,
        **({} if case.axis == -1 else {"axis": str(case.axis)}),
        **({} if case.tensor is None else {"tensor scale": case.tensor.as_dict()}),
    }


def _size(seen: Observed) -> tuple[int, int]:
    """How hard a case is to read: how far its maximum lies from 1, in steps of 32 binades, then its non-zero inputs."""
    exponent = int(np.abs(seen.case.x).max().view(np.uint32)) >> 23
    return abs(exponent - 127) // 32, int(np.count_nonzero(seen.case.x))


def pick_smallest(seen: Sequence[Observed], labels: Collection[str]) -> Observed | None:
    """The failing case with the fewest non-zero inputs, of those with ordinary magnitudes if there are any."""
    wanted = set(labels)
    members = [s for s in seen if s.label in wanted]
    return min(members, key=_size) if members else None


#: Whether an answer still fails what is being shown.
Fails = Callable[[Observed], bool]


def shrink_block(session: TargetSession, seen: Observed, fmt: BlockFormat, profile: Profile, fails: Fails = lambda _: True) -> Observed:
    """The same failure with fewer lanes: all but the maximum and one lane that differs become zero, if it still shows.

    fails: whether an answer still fails the requirement; one that does not is no smaller case of it.
    """
    case = seen.case
    if not case.is_row:
        return seen
    expected = _expected(case.x, case, fmt, profile)
    wrong = np.flatnonzero(expected[1].reshape(-1) != seen.codes.reshape(-1))
    x = case.x.reshape(-1)
    finite = np.where(np.isfinite(x), np.abs(x), -1)
    largest = int(np.argmax(finite))
    keeps = [{largest}] if expected[0] != int(seen.scales.reshape(-1)[0]) else []
    keeps += [{largest, int(w)} for w in wrong[:4]]
    special = set(np.flatnonzero(~np.isfinite(x)).tolist())
    # What makes the block special stays: without it the case is another one.
    for keep in [*({s} for s in special), *({largest, s} for s in special), *([] if special else keeps)]:
        kept = np.zeros_like(x)
        kept[list(keep)] = x[list(keep)]
        shrunk = replace(case, x=kept.reshape(1, -1), answers={})
        answer = _ask(session, shrunk, fmt, seen.dtype)
        if answer is None:
            continue
        want = _expected(shrunk.x, shrunk, fmt, profile)
        differs = want[0] != int(answer[0].reshape(-1)[0]) or (want[1].reshape(-1) != answer[1].reshape(-1)).any()
        small = Observed(shrunk, seen.dtype, answer[0], answer[1])
        if differs and fails(small):
            return small
    return seen


def ask_alone(session: TargetSession, seen: Observed, fmt: BlockFormat) -> Observed | None:
    """The block of a case in a call of its own; None where it has no answer."""
    answer = _ask(session, seen.case, fmt, seen.dtype)
    return None if answer is None else replace(seen, scales=answer[0], codes=answer[1])


def _ask(session: TargetSession, case: QuantizeCase, fmt: BlockFormat, dtype: str) -> tuple[Any, Any] | None:
    extra = tensor_argument(case.tensor, session.capabilities)
    try:
        codes, scales = session.call("quantize", cast_input(case.x, dtype), fmt.name, **extra)
    except CallError:
        return None
    return scales, codes


def _expected(x: npt.NDArray[np.float32], case: QuantizeCase, fmt: BlockFormat, profile: Profile) -> tuple[int, npt.NDArray[np.uint8]]:
    scale = native_scale(profile, case.tensor)
    with np.errstate(all="ignore"):
        t = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale)
    return int(t.scales.reshape(-1)[0]), t.codes


def draw_failure(
    session: TargetSession, seen: Observed, fmt: BlockFormat, profile: Profile, fails: Fails = lambda _: True, *, guess: bool = False
) -> Failure:
    """A failing quantize case with its steps, its neighbours among profiles and a snippet.

    guess: whether steps say as if what each code came out: where nothing is known that explains more than one block.
    """
    small = shrink_block(session, seen, fmt, profile, fails)
    case = small.case
    also = sorted(equal_profiles(seen, fmt, signs=True) - {profile.id})
    if not case.is_row:
        return replace(_draw_tensor(small, fmt, profile, guess=guess), also=also)
    want_scale, want_codes = _expected(case.x, case, fmt, profile)
    got_scale, got_codes = int(small.scales.reshape(-1)[0]), small.codes.reshape(-1)
    lanes = [i for i in range(fmt.k) if case.x[0, i] != 0 or want_codes[0, i] != got_codes[i]]
    return Failure(
        case=seen.label,
        given={
            "x": {f"lane {i}": describe_bits(case.x[0, i]) for i in lanes},
            "other lanes": "+0",
            **({} if small.dtype == "float32" else {"dtype": small.dtype}),
            **({} if case.tensor is None else {"tensor scale": case.tensor.as_dict()}),
        },
        expected={"scale": f"{want_scale:02x}", "codes": {f"lane {i}": f"{int(want_codes[0, i]):02x}" for i in lanes}},
        returned={"scale": f"{got_scale:02x}", "codes": {f"lane {i}": f"{int(got_codes[i]):02x}" for i in lanes}},
        steps=explain_steps(case, fmt, profile, got_scale, got_codes, guess=guess),
        also=also,
        snippet=make_snippet(case, fmt, profile, want_scale),
    )


def _draw_tensor(seen: Observed, fmt: BlockFormat, profile: Profile, *, guess: bool) -> Failure:
    """A failing case of several blocks: the first block that differs, with its place, and what the others have in common."""
    case = seen.case
    scale = native_scale(profile, case.tensor)
    with np.errstate(all="ignore"):
        t = mxspec.quantize(case.x, fmt, profile=profile, axis=case.axis, pad=case.pad, block=case.block, tensor_scale=scale)
    axis = case.axis % case.x.ndim
    padded = np.pad(case.x, [(0, n - m) for n, m in zip(seen.codes.shape, case.x.shape, strict=True)])
    x, want, got = (list_blocks(case, fmt, a) for a in (padded, t.codes, seen.codes))
    want_scales, got_scales = (np.moveaxis(a, axis, -1).reshape(-1) for a in (t.scales, seen.scales))
    wrong = np.flatnonzero((want != got).any(axis=1) | (want_scales != got_scales))
    if not wrong.size:  # only what is open differs
        wrong = np.zeros(1, np.intp)
    scales_alone = wrong[want_scales[wrong] != got_scales[wrong]]
    first = int(scales_alone[0]) if scales_alone.size else int(wrong[0])
    lanes = [i for i in range(fmt.k) if x[first, i] != 0 or want[first, i] != got[first, i]]
    steps = [f"{len(wrong)} of {len(want)} blocks along axis {case.axis} differ; the first is number {first}"]
    order = find_order(t.scales, seen.scales) if t.scales.ndim == 2 else None
    steps += [] if order is None else [order.value]
    one = replace(case, x=np.ascontiguousarray(x[first : first + 1], np.float32), axis=-1, pad=False, block=None)
    if case.block is None:
        try:
            steps += explain_steps(one, fmt, profile, int(got_scales[first]), got[first], guess=guess)
        except ValueError as error:
            steps.append(str(error))
    return Failure(
        case=seen.label,
        given={
            "x": {f"lane {i}": describe_bits(x[first, i]) for i in lanes}, "other lanes": "+0",
            "shape": "x".join(map(str, case.x.shape)), "axis": str(case.axis), "pad": str(case.pad),
            "block": str(first), **({} if seen.dtype == "float32" else {"dtype": seen.dtype}),
            **({} if case.block is None else {"tile": "x".join(map(str, case.block))}),
            **({} if case.tensor is None else {"tensor scale": case.tensor.as_dict()}),
        },
        expected={"scale": f"{int(want_scales[first]):02x}", "codes": {f"lane {i}": f"{int(want[first, i]):02x}" for i in lanes}},
        returned={"scale": f"{int(got_scales[first]):02x}", "codes": {f"lane {i}": f"{int(got[first, i]):02x}" for i in lanes}},
        steps=steps,
    )  # fmt: skip


class Order(Enum):
    """How the right bytes lie in another order."""

    TRANSPOSED = "the scales come transposed: each byte is right for the block in the mirrored place"
    OTHER = "the scales are the right ones in another order"


def find_order(want: npt.NDArray[np.uint8], got: npt.NDArray[np.uint8]) -> Order | None:
    """The order in which a grid of scale bytes [rows, blocks] is the right one; None where it is right, or other bytes."""
    if (want == got).all() or sorted(want.reshape(-1).tolist()) != sorted(got.reshape(-1).tolist()):
        return None
    rows = want.shape[0]
    grid, flat = want.reshape(rows, -1), got.reshape(-1)
    # The same bytes, written column by column and read row by row, or read the other way.
    orders = (grid.T.reshape(-1), want.reshape(grid.shape[::-1]).T.reshape(-1))
    return Order.TRANSPOSED if any((order == flat).all() for order in orders) else Order.OTHER


def explain_steps(
    case: QuantizeCase, fmt: BlockFormat, profile: Profile, got_scale: int, got_codes: npt.NDArray[np.uint8], *, guess: bool = False
) -> list[str]:
    """The step of arithmetic at which the answer parts from the profile."""
    scale = native_scale(profile, case.tensor)
    return list(explain_difference(case.x.reshape(-1), fmt, profile, scale, got_scale, np.asarray(got_codes, np.uint8), guess=guess))


def explain_scale(case: QuantizeCase, fmt: BlockFormat, profile: Profile, got_scale: int) -> list[str]:
    """What is wrong with a scale, where the codes are not known: they are taken to be right under it."""
    steps, bindings = bind_profile(profile, case.tensor)
    usable = np.array([min(got_scale, fmt.scale.code_count - 1)], code_dtype(fmt.scale))
    with np.errstate(all="ignore"):
        codes = encode_given_scale(case.x, usable, fmt, profile, steps, bindings)[0]
    try:
        return explain_steps(case, fmt, profile, got_scale, codes.reshape(-1), guess=True)[:1]
    except ValueError:
        return []


def make_snippet(case: QuantizeCase, fmt: BlockFormat, profile: Profile, want_scale: int) -> str:
    """NumPy lines that give the expected answer; each of at most 80 columns, so that no mail or issue wraps them."""
    lanes = {i: int(b) for i, b in enumerate(case.x.reshape(-1).view(np.uint32)) if b}
    given = [f"{list(lanes)}", f"[{', '.join(f'0x{b:08x}' for b in lanes.values())}]"]
    arguments = ["x.view(np.float32)", f'"{fmt.name}"', f'profile="{profile.id}"']
    if case.tensor is not None:
        native = case.tensor.native(profile)
        arguments.append(f'tensor_scale=mxspec.TensorScale("{native.kind.value}", 0x{native.bits:08x})')
    lines = [
        "import numpy as np, mxspec",
        f"x = np.zeros({fmt.k}, np.uint32)",
        *(_fit(f"x[{given[0]}] = {given[1]}") if lanes else ()),
        *fit_call("q = mxspec.quantize", arguments),
        f"print(q.scales, q.codes)  # scale {want_scale:#04x}",
    ]
    return "\n".join(lines)


def make_call_snippet(
    x: npt.NDArray[np.float32], width: int, axis: int, place: int, fmt: BlockFormat, dtype: str, options: Mapping[str, Any]
) -> str:
    """NumPy lines that call the target with blocks [n, k], of which one is wrong, and with that one alone; empty where there are too
    many numbers to be read.

    width: blocks to a row, or to a column where the axis is 0.
    """
    rows = x.reshape(-1, width * fmt.k)
    given = rows.T if axis == 0 else rows
    if not can_write(given):
        return ""
    line, block = divmod(place, width)
    first, end = block * fmt.k, (block + 1) * fmt.k
    scale, codes, alone = f"{line}, {block}", f"{line}, {first}:{end}", f"{line}:{line + 1}, {first}:{end}"
    if axis == 0:
        scale, codes, alone = f"{block}, {line}", f"{first}:{end}, {line}", f"{first}:{end}, {line}:{line + 1}"
    arguments = "".join(f", {key}={value!r}" for key, value in (({"axis": 0} if axis == 0 else {}) | dict(options)).items())
    cast = "" if dtype == "float32" else f'.astype("{dtype}")'
    return "\n".join([
        f"import {'ml_dtypes, ' if dtype == 'bfloat16' else ''}numpy as np  # k: the target",
        *write_array("x", given),
        *([f"x = x{cast}"] if cast else []),
        f'codes, scales = k.quantize(x, "{fmt.name}"{arguments})',
        f"print(scales[{scale}], codes[{codes}])",
        f'codes, scales = k.quantize(x[{alone}].copy(), "{fmt.name}"{arguments})  # alone',
        "print(scales, codes)",
    ])  # fmt: skip


def _split_bits(array: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Any]:
    """An array's bits, and those that most of its items have."""
    bits = np.ascontiguousarray(array).view(f"u{array.itemsize}")
    values, counts = np.unique(bits, return_counts=True)
    return bits, values[np.argmax(counts)]


def can_write(*arrays: npt.NDArray[Any]) -> bool:
    """Whether the lines of `write_array` have few enough numbers to be read."""
    return sum(int((bits != most).sum()) for bits, most in map(_split_bits, arrays)) <= MAX_SHOWN


def write_array(name: str, array: npt.NDArray[Any]) -> list[str]:
    """NumPy lines that make an array from its bits."""
    bits, most = _split_bits(array)
    digits, places = 2 * bits.itemsize, np.nonzero(bits != most)
    index = ", ".join(str(axis.tolist()) for axis in places)
    values = ", ".join(f"0x{int(v):0{digits}x}" for v in bits[places])
    filled = f"zeros({array.shape}" if most == 0 else f"full({array.shape}, 0x{int(most):0{digits}x}"
    return [
        f"{name} = np.{filled}, np.{bits.dtype})",
        *(_fit(f"{name}[{index}] = [{values}]") if values else []),
        *([] if array.dtype == bits.dtype else [f'{name} = {name}.view("{array.dtype}")']),
    ]


def _fit(line: str) -> list[str]:
    """A line of lists, cut within their brackets where it is too long."""
    bound = line.replace(" = ", "\xa0=\xa0")
    lines = textwrap.wrap(bound, 80, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return [part.replace("\xa0", " ") for part in lines]


def fit_call(function: str, arguments: list[str]) -> list[str]:
    """A call on one line, or with a line for each argument."""
    line = f"{function}({', '.join(arguments)})"
    return [line] if len(line) <= 80 else [f"{function}(", *(f"    {a}," for a in arguments), ")"]


def first_failure(
    session: TargetSession, seen: Sequence[Observed], fmt: BlockFormat, profile: Profile, labels: Collection[str],
    fails: Fails = lambda _: True, *, guess: bool = False,
) -> Failure | None:  # fmt: skip
    """The smallest of the failing cases with these labels; None where there is none that is a block.

    fails: whether a smaller case still fails the requirement that is shown. guess: as in `draw_failure`.
    """
    smallest = pick_smallest(seen, labels)
    if smallest is None:
        return None
    try:
        bind_profile(profile, smallest.case.tensor)
    except ValueError:
        return None
    return draw_failure(session, smallest, fmt, profile, fails, guess=guess)
