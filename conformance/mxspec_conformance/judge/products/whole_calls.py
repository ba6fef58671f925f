"""A whole product of a target on the GPU: thousands of rows, columns and numbers in each sum, every output of which is judged.

The GPU adds in float64, with a certificate for each output (`mxspec_gpu.exact_product`); what has none is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import dot
from mxspec.dot import EXACTLY, Accumulator, OperandContract, Sums
from mxspec.formats import BlockFormat
from mxspec_conformance.judge.invariance.answered import call_failure
from mxspec_conformance.judge.products.calls import OPERATION
from mxspec_conformance.judge.products.case import ProductCase
from mxspec_conformance.judge.products.large_calls import TOPIC
from mxspec_conformance.judge.products.making import Maker
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.operands import Numbers, OperandKind, Product
from mxspec_conformance.targets.sessions import TargetSession

#: m, n and k, and rows whose outputs are judged together.
SIZE, ROWS = (4096, 4096, 4096), 512

#: Both sides -> their exact sums, and which of them are certain.
Oracle = Callable[[Numbers, Numbers], tuple[Sums, npt.NDArray[np.bool_]]]


def judge_whole_call(
    session: TargetSession, product: Product, accumulator: Accumulator, contract: OperandContract, scorecard: Scorecard
) -> None:
    """Enter one product of block-scaled sides, where the target's arrays lie on a GPU that this machine has."""
    sides = product.a, product.b
    if contract != EXACTLY or not all(
        side.kind is OperandKind.BLOCK and side.sparsity is None and side.block.scale.bits <= 8 for side in sides
    ):
        return
    oracle = find_oracle(session.capabilities, [side.block for side in sides])
    if oracle is None:
        return
    maker = Maker(product, session.capabilities, accumulator, seed=30)
    m, n, k = maker.sizes.fit(*SIZE)
    a, b = (writer.quantized(maker.draw.standard_normal((rows, k))) for writer, rows in ((maker.a, m), (maker.b, n)))
    dtype = session.capabilities.out_dtypes[0]
    case = ProductCase(topic=TOPIC, label=f"every output of {m} x {n} x {k}", a=a, b=b, out_dtype=dtype)
    answer = run_once(partial(session.call, OPERATION, a.as_data(), b.as_data(), dtype))
    if isinstance(answer, NoAnswer):
        scorecard.count_no_answer(TOPIC, case.label, answer)
        return
    sums, certain = oracle(a, b)
    wrong = np.concatenate(
        [
            certain[rows] & ~dot.allow_outputs(_take_rows(sums, rows), accumulator, dtype).accepts(answer[rows])
            for rows in (slice(first, first + ROWS) for first in range(0, m, ROWS))
        ]
    )
    scorecard.count(TOPIC, case.label, ok=not wrong.any(), show=partial(call_failure, case.label, _describe(answer, sums, wrong)))


def find_oracle(capabilities: Capabilities, blocks: Sequence[BlockFormat]) -> Oracle | None:
    """The GPU's exact products, for targets whose arrays lie there; None where there is no GPU, or no CuPy, or no kernel for a format."""
    on_gpu = capabilities.arrays == "cupy" or (capabilities.arrays == "torch" and (capabilities.device or "").startswith("cuda"))
    if not on_gpu:
        return None
    import mxspec_gpu
    from mxspec_gpu.arguments import check_format

    try:
        mxspec_gpu.check_gpu()
        for block in blocks:
            check_format(block)
    except (mxspec_gpu.GpuMissingError, mxspec_gpu.UnsupportedProfileError):
        return None
    return multiply_on_gpu


def multiply_on_gpu(a: Numbers, b: Numbers) -> tuple[Sums, npt.NDArray[np.bool_]]:
    """Exact sums of two block-scaled sides without tensor scales, whose numbers are finite."""
    import cupy

    import mxspec_gpu

    sides: list[Any] = []
    highest = []
    for numbers in (a, b):
        block = numbers.spec.block
        codes = mxspec_gpu.pack(cupy.asarray(numbers.codes), block, check=False)
        sides.append(mxspec_gpu.Operand(codes, cupy.asarray(numbers.scales), block))
        highest.append(dot.block_factor(numbers.codes, numbers.scales, block).exponents.max(axis=1).astype(np.int16))
    product = mxspec_gpu.exact_product(*sides)
    nearest, magnitude, unit, certain = (cupy.asnumpy(x) for x in (product.values, product.magnitude, product.unit, product.certain))
    sums = Sums(
        nearest=nearest, remainder=np.zeros(nearest.shape, np.int8), magnitude=magnitude, unit=unit,
        # At least as high as that of any product: what a class may lose below it is no less.
        top=highest[0][:, None] + highest[1][None, :], special=np.zeros(nearest.shape, np.int8), k=product.k,
    )  # fmt: skip
    return sums, certain


def _take_rows(sums: Sums, rows: slice) -> Sums:
    return Sums(
        nearest=sums.nearest[rows], remainder=sums.remainder[rows], magnitude=sums.magnitude[rows], unit=sums.unit[rows],
        top=sums.top[rows], special=sums.special[rows], k=sums.k,
    )  # fmt: skip


def _describe(answer: npt.NDArray[Any], sums: Sums, wrong: npt.NDArray[np.bool_]) -> str:
    if not wrong.any():
        return ""
    i, j = np.argwhere(wrong)[0].tolist()
    return (
        f"{int(wrong.sum())} of {wrong.size} outputs are wrong; output [{i}, {j}], the first of them, is {float(answer[i, j]):g}, and the exact sum "
        f"{float(sums.nearest[i, j]):g}"
    )
