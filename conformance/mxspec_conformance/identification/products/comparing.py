"""Which model gives the bits of random operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np
import numpy.typing as npt

from mxspec import dot
from mxspec.dot import ACCUMULATORS, EXACTLY, OperandContract
from mxspec_conformance.identification.products.identity import ProductIdentity
from mxspec_conformance.identification.products.models import Model, simulate
from mxspec_conformance.judge.products.asking import Answered, Asker
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.draw import make_writer
from mxspec_conformance.judge.products.reference import list_contracts, make_factor, refer_case
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.operands import Numbers, OperandKind, Product

Floats = npt.NDArray[np.float64]
#: Both sides -> the outputs that a model may give.
Maker = Callable[[Numbers, Numbers], Iterator[Floats]]

#: Formats whose numbers do not reach far.
_NARROW = ("float16", "float8_e4m3fn", "float8_e5m2")


def compare_models(asker: Asker, found: ProductIdentity, models: Sequence[tuple[str, Model]]) -> None:
    """Enter which model gives the target's bits of random operands; their range is wide, so that sums depend on their order."""
    draw = np.random.default_rng(31)
    m, n, k = asker.sizes.fit(10, 10, 512)
    spread = 3 if {asker.out_dtype, asker.product.a.format, asker.product.b.format} & set(_NARROW) else 7
    sides = []
    for spec, rows in ((asker.product.a, m), (asker.product.b, n)):
        powers = np.repeat(draw.integers(-spread, spread, (rows, -(-k // 16))), 16, axis=1)[:, :k]
        sides.append(make_writer(spec, draw).quantized(np.ldexp(draw.standard_normal((rows, k)), powers)))
    case = ProductCase(topic="interval", label="random", a=sides[0], b=sides[1], out_dtype=asker.out_dtype)
    try:
        output = asker.session.call("matmul", case.a.as_data(), case.b.as_data(), asker.out_dtype).astype(np.float64)
    except CallError:
        return
    asker.questions += output.size
    fmt = dot.OUTPUTS[asker.out_dtype]
    found.compared = output.size
    sums = refer_case(case).sums
    found.certain = int(sums.fits(ACCUMULATORS["float32"].precision).sum())
    exact = dot.finish_product(sums, asker.out_dtype).astype(np.float64)
    candidates: list[tuple[str, Floats, Maker | None]] = [("the exact sum, rounded once", exact, None)]
    for name, outputs, simulated in chain(candidates, _run_models(case, _list_rounded(asker.product), models)):
        same = dot.round_floats(outputs, fmt) == output
        # Of several that give all of them, the first whose other answers are the target's, too.
        if same.sum() > found.equal:
            found.equal, found.nearest = int(same.sum()), name
        if same.all() and all(_answers(call, simulated, asker.out_dtype) for call in asker.answered):
            found.model = name
            # It adds in the order that was found: of the models alike it is the one to name.
            found.orders.sort(key=lambda other: other != name)
            return


def _answers(call: Answered, simulated: Maker | None, out_dtype: str) -> bool:
    """Whether a model gives the answers to questions that were put before; without one, the exact sum, rounded once."""
    if simulated is None:
        case = ProductCase(topic="interval", label="asked", a=call.a, b=call.b, out_dtype=out_dtype)
        answers = [dot.finish_product(refer_case(case).sums, out_dtype).astype(np.float64)]
    else:
        answers = [dot.round_floats(x, dot.OUTPUTS[out_dtype]) for x in simulated(call.a, call.b)]
    return any(np.array_equal(np.diagonal(x)[: len(call.outputs)], call.outputs, equal_nan=True) for x in answers)


def _list_rounded(product: Product) -> list[tuple[str, OperandContract]]:
    """What numbers are before they are multiplied, in words: affine ones rounded in every known way, others exact."""
    contracts = list_contracts(product)
    if OperandKind.AFFINE in (product.a.kind, product.b.kind):  # exact ones are sums of two numbers, which no model multiplies
        return [(f", numbers {c.words}", c) for c in contracts if c.affine != EXACTLY.affine]
    return [("", EXACTLY), *((f", numbers {c.words}", c) for c in contracts if c.plain)]


def _run_models(
    case: ProductCase, contracts: Sequence[tuple[str, OperandContract]], models: Sequence[tuple[str, Model]]
) -> Iterator[tuple[str, Floats, Maker]]:
    for words, contract in contracts:
        a, b = make_factor(case.a, contract), make_factor(case.b, contract)
        for name, model in models:
            yield name + words, simulate(a, b, model), partial(_simulate_numbers, contract, model)


def _simulate_numbers(contract: OperandContract, model: Model, a: Numbers, b: Numbers) -> Iterator[Floats]:
    """Most numbers of an experiment are zeros: a unit may align them by their scales, or not at all."""
    left, right = make_factor(a, contract), make_factor(b, contract)
    yield simulate(left, right, model)
    yield simulate(dot.exact_factor(left.values), dot.exact_factor(right.values), model)
    yield simulate(left, right, model, align_zeros=True)
