"""Products of thousands of rows or columns, of several tiles both ways, and of tens of thousands of numbers in a sum.

Kernels take tiles in another order, and add in other accumulators, where both sides have many rows; indices of 8, 15 and 16 bits
come round. The operands are integers under powers of two, so that float64 has the outputs at once. A loop in an interpreter takes
too long for these: fast kernels alone get them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.dot import OUTPUTS, Accumulator, OperandContract, round_floats
from mxspec_conformance.judge.invariance.answered import call_failure
from mxspec_conformance.judge.invariance.history import Verb
from mxspec_conformance.judge.invariance.reach import LOCAL
from mxspec_conformance.judge.products.calls import OPERATION, judge_product_calls
from mxspec_conformance.judge.products.case import ProductCase
from mxspec_conformance.judge.products.draw import takes_tensor_scale, with_tensor_scale
from mxspec_conformance.judge.products.making import Maker
from mxspec_conformance.judge.products.operand_writer import OperandWriter
from mxspec_conformance.judge.products.reference import allow, refer_case
from mxspec_conformance.judge.products.sum_cases import list_equal_operands
from mxspec_conformance.judge.products.variety import list_options
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.targets.operands import Numbers, Product
from mxspec_conformance.targets.sessions import TargetSession

Floats = npt.NDArray[np.float64]

#: The requirement of all these calls: small ones were right.
TOPIC = "call-size"

#: m and n of many rows, of many columns, and of more outputs than 16 bits count, in several tiles both ways.
_MANY = ((2056, 3), (3, 4104), (580, 72), (260, 264))
#: m and n of more rows or columns than 15 and 16 bits count, and numbers of the side that is asked so at most.
_COUNTED, _COUNTED_NUMBERS = ((65601, 3), (3, 65601)), 1 << 23
#: Sums of every bit in several tiles both ways, and their k: two tiles, the last one a part, fewer than a pipeline has stages, and more.
_DEEP = ((132, 136, 192), (72, 68, 512), (72, 72, 2112))
#: Rows and columns of several tiles of scales, blocks of several of them along k: runs that leave three of a tile of four, and one.
_BY_BLOCK = ((268, 136, 11), (140, 264, 5))
#: One column whose k, and whose number of blocks, have more bits than are counted in 15 and in 8.
_LONG = (2, 1, 33024)
#: Calls of one shape that may share memory.
_KEPT = (40, 48, 1088)
#: m and n in every dtype of outputs, with an epilogue: more than one tile both ways.
_ADDED = (132, 130)
#: Bits of sums that float16 holds.
_SHORT = 15
#: Tensor scales whose product leaves float16 what it held.
_TENSOR_SCALES = 4.0, 0.5
#: Products of two numbers a second from which on these calls are made, the size by which that is measured, and how often.
_RATE, _MEASURED, _TRIES = 30_000_000, (72, 68, 64), 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeCall:
    """A call, and its exact outputs before they are rounded to their dtype: in float32, the only right ones."""

    case: ProductCase
    exact: Floats


def judge_large_calls(
    session: TargetSession, product: Product, accumulator: Accumulator, contract: OperandContract, scorecard: Scorecard
) -> None:
    """Enter large products of a target that is fast and whose memory is within reach."""
    if session.transport not in LOCAL:
        return
    maker = Maker(product, session.capabilities, accumulator, seed=28)
    if not _is_fast(session, maker):
        return
    for call in list_large_calls(maker, session.capabilities.out_dtypes):
        case = call.case
        answer = run_once(partial(session.call, OPERATION, case.a.as_data(), case.b.as_data(), case.out_dtype, **case.options))
        if isinstance(answer, NoAnswer):
            scorecard.count_no_answer(case.topic, case.label, answer)
            continue
        wrong = np.argwhere(answer.astype(np.float64) != round_floats(call.exact, OUTPUTS[case.out_dtype]))
        if len(wrong):  # a class may cut what lies far below the largest exponent
            wrong = np.argwhere(~allow(refer_case(case, contract), case, accumulator).accepts(answer))
        scorecard.count(case.topic, case.label, ok=not len(wrong), show=partial(call_failure, case.label, _describe(call, answer, wrong)))
    equal = [replace(case, out_dtype=session.capabilities.out_dtypes[0]) for case in list_equal_operands(maker, _KEPT)]
    judge_product_calls(session, equal, accumulator, contract, scorecard, verbs=set(Verb) - {Verb.VIEWS, Verb.TWINS, Verb.OTHERS})


def list_large_calls(maker: Maker, dtypes: Sequence[str]) -> Iterator[LargeCall]:
    """dtypes: of the outputs, the first one first. Every output has one result in float32."""
    first = dtypes[0]
    for m, n in _MANY:
        yield _draw(maker, maker.sizes.fit(m, n, 1), first)
    for size in _DEEP:
        yield _draw(maker, maker.sizes.fit(*size), first)
    yield from _draw_long(maker, first)
    for dtype in dtypes:
        m, n, k = maker.sizes.fit(*_ADDED, 1)
        if dtype != first:
            yield _draw(maker, (m, n, k), dtype)
        for size in _BY_BLOCK:
            yield from _draw_by_block(maker, dtype, size)
        for label, options in list_options(m, n, maker.takes, dtype)[-1:]:
            sides = [
                _write(writer, writer.pick(_list_small(writer), rows, k), np.zeros((rows, 1), int))
                for writer, rows in ((maker.a, m), (maker.b, n))
            ]
            yield _add(_multiply(f"{m} x {n} x {k}, {dtype}", dtype, sides[0], sides[1]), label, options)
    for rows, columns in _COUNTED:
        m, n, k = maker.sizes.fit(rows, columns, 1)
        if max(m, n) * k <= _COUNTED_NUMBERS:
            yield _draw(maker, (m, n, k), first)


def _is_fast(session: TargetSession, maker: Maker) -> bool:
    m, n, k = maker.sizes.fit(*_MEASURED)
    case = _draw(maker, (m, n, k), maker.capabilities.out_dtypes[0]).case
    for _ in range(_TRIES):
        seconds = run_once(partial(session.call, "timed", OPERATION, case.a.as_data(), case.b.as_data(), case.out_dtype))
        if isinstance(seconds, NoAnswer):
            return False
        if m * n * k >= _RATE * seconds:
            return True
    return False


def _list_small(writer: OperandWriter) -> npt.NDArray[np.intp]:
    """The codes of zero and one, and of minus one where there is one: to their sums C and bias are added exactly."""
    return np.array([writer.code_of(v) for v in (0.0, 1.0, -1.0) if writer.has(v)])


def _draw(maker: Maker, size: tuple[int, int, int], dtype: str) -> LargeCall:
    """Integers whose sums are certain, every row under another scale."""
    m, n, k = size
    bits, by_row = (_SHORT, 0) if dtype == "float16" else (maker.bits, 1)
    sides = [
        _write(writer, maker.integers(writer, rows, k, bits=min(maker.bits, bits)), (np.arange(rows) % 7 - 3)[:, None] * by_row)
        for writer, rows in ((maker.a, m), (maker.b, n))
    ]
    label = f"{m} x {n} x {k}{', every row another scale' if by_row else ''}, {dtype}"
    return _multiply(label, dtype, sides[0], sides[1])


def _draw_long(maker: Maker, dtype: str) -> Iterator[LargeCall]:
    """One number of each block of a, and blocks whose scales do not take each other back: a shift of both sides shows."""
    m, n, k = maker.sizes.fit(*_LONG)
    run = math.lcm(maker.a.run, maker.b.run)
    turn = np.arange(k // run)
    room = maker.bits - len(turn).bit_length() - 1
    if room < 2:
        return
    spread = min(room // 2, 3, maker.a.powers[1], maker.b.powers[1])
    most = 1 << max((room - 2 * spread) // 2, 0)
    sides = []
    for writer, rows, step in ((maker.a, m, 1), (maker.b, n, 3)):
        codes = writer.pick(writer.lattice(most), rows, k)
        if writer is maker.a:
            codes[:, np.arange(k) % run != turn.repeat(run) * 7 % run] = writer.code_of(0.0)
        # Neighbours differ, and so do blocks 256 apart.
        powers = (turn * step + turn // 256) % (spread + 1)
        sides.append(_write(writer, codes, np.tile(np.repeat(powers, run // writer.run), (rows, 1))))
    yield _multiply(f"{m} x {n} x {k}, every block another scale", dtype, sides[0], sides[1])


def _draw_by_block(maker: Maker, dtype: str, size: tuple[int, int, int]) -> Iterator[LargeCall]:
    """Scales that differ by row and block, alone and under an epilogue of every bit and tensor scales."""
    run = math.lcm(maker.a.run, maker.b.run)
    m, n, k = maker.sizes.fit(size[0], size[1], size[2] * run)
    label = f"every block another scale, {m} x {n} x {k}, {dtype}"

    def draw(codes_of: Callable[[OperandWriter, int], npt.NDArray[Any]]) -> list[tuple[Numbers, Floats]]:
        sides = []
        for writer, rows, step in ((maker.a, m, 1), (maker.b, n, 2)):
            turn = (np.arange(rows)[:, None] + np.arange(-(-k // run))[None, :] * step) % 3 - 1
            sides.append(_write(writer, codes_of(writer, rows), np.repeat(turn, run // writer.run, axis=1)[:, : -(-k // writer.run)]))
        return sides

    sides = draw(lambda writer, rows: maker.integers(writer, rows, k, bits=min(maker.bits, _SHORT + 3) - 4))
    plain = _multiply(label, dtype, sides[0], sides[1])
    yield plain
    for name, options in list_options(m, n, maker.takes, dtype)[-1:]:
        short = draw(lambda writer, rows: writer.pick(_list_small(writer), rows, k))
        yield _add(_multiply(label, dtype, short[0], short[1]), name, options)
    scaled = [takes_tensor_scale(writer.spec) for writer in (maker.a, maker.b)]
    if any(scaled):  # powers of two, which leave sums exact
        given = [with_tensor_scale(x[0], v) if s else x[0] for x, v, s in zip(sides, _TENSOR_SCALES, scaled, strict=True)]
        factor = math.prod(v for v, s in zip(_TENSOR_SCALES, scaled, strict=True) if s)
        case = replace(plain.case, a=given[0], b=given[1], label=f"tensor scales, {label}")
        yield LargeCall(case=case, exact=plain.exact * factor)


def _write(writer: OperandWriter, codes: npt.NDArray[Any], powers: npt.NDArray[Any]) -> tuple[Numbers, Floats]:
    """A side of codes under powers of two, one for each row or each run, and its numbers."""
    if writer.spec.sparsity is not None:  # what cannot be kept is zero, so that everything else is
        unit = writer.spec.sparsity.unit
        codes[:, np.arange(codes.shape[1]) // unit % 4 >= 2] = writer.code_of(0.0)
    runs = -(-codes.shape[1] // writer.run)
    exponents = np.broadcast_to(powers, (len(codes), runs))
    wide = powers if powers.shape[1] == 1 else np.repeat(powers, writer.run, axis=1)[:, : codes.shape[1]]
    return writer.numbers(codes, exponents), np.ldexp(writer.values[codes], wide)


def _multiply(label: str, dtype: str, a: tuple[Numbers, Floats], b: tuple[Numbers, Floats]) -> LargeCall:
    return LargeCall(case=ProductCase(topic=TOPIC, label=label, a=a[0], b=b[0], out_dtype=dtype), exact=a[1] @ b[1].T)


def _add(call: LargeCall, label: str, options: dict[str, Any]) -> LargeCall:
    """The call with an epilogue of few bits, none of whose steps rounds."""
    added = options.get("beta", 0.0) * options["c"].astype(np.float64) if "c" in options else 0.0
    exact = call.exact * options.get("alpha", 1.0) + added + (options["bias"].astype(np.float64) if "bias" in options else 0.0)
    return LargeCall(case=replace(call.case, options=options, label=f"{label}, {call.case.label}"), exact=exact)


def _describe(call: LargeCall, answer: npt.NDArray[Any], wrong: npt.NDArray[np.intp]) -> str:
    if not len(wrong):
        return ""
    i, j = wrong[0].tolist()
    return (
        f"{len(wrong)} of {answer.size} outputs are wrong; output [{i}, {j}], the first of them, is {float(answer[i, j]):g} "
        f"instead of {float(call.exact[i, j]):g}, rounded to {call.case.out_dtype}"
    )
