"""Acceptance rules of products: a threshold on a cosine, an SQNR, a norm, or every output, on normally distributed numbers.

`rule:NAME` names one that is published; `rule:cosine=0.97`, `rule:sqnr=16`, `rule:rtol=0.05,atol=0.5,misses=0.05` states any other against the
product of the operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec import dot
from mxspec_conformance.scoring.outcomes import Outcome, Verdict
from mxspec_conformance.scoring.subjects import Subject
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.targets.laying_out import hand_over
from mxspec_conformance.targets.operands import Numbers, parse_operand

Floats = npt.NDArray[np.float64]
#: m, n, k: whole tiles of every kernel and the length of a layer, as in most tests.
SHAPE = (64, 64, 4096)
SEED = 20


@dataclass(frozen=True, slots=True)
class Trial:
    """What a kernel returned, and what it is compared with."""

    returned: Floats
    #: The product of the operands that the kernel was given, rounded once.
    exact: Floats
    #: The product of the numbers before they were quantized.
    unquantized: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductRule:
    """One acceptance rule."""

    id: str
    text: str
    source: str
    accepts: Callable[[Trial], bool]


def cosine(x: Floats, y: Floats) -> float:
    """The cosine of the angle between two arrays; NaN where one is not finite."""
    with np.errstate(all="ignore"):
        return float((x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum()))


def relative(x: Floats, y: Floats) -> float:
    """The norm of the difference over that of y."""
    with np.errstate(all="ignore"):
        return float(np.sqrt(((x - y) ** 2).sum() / (y * y).sum()))


def is_close(x: Floats, y: Floats, rtol: float, atol: float, misses: float = 0.0) -> bool:
    """Whether |x - y| <= atol + rtol |y| but for a share of the outputs."""
    with np.errstate(all="ignore"):
        far = ~(np.abs(x - y) <= atol + rtol * np.abs(y))
    return bool(far.sum() <= misses * far.size)


PRODUCT_RULES: tuple[ProductRule, ...] = (
    ProductRule(id="cosine-unquantized", text="cosine of at least 0.99 to the unquantized product", source="pytorch/TensorRT#4697, an NVFP4 test",
                accepts=lambda t: cosine(t.returned, t.unquantized) >= 0.99),
    ProductRule(id="cosine-exact", text="cosine of at least 0.99 to the product of the operands", source="the same number against a dequantizing reference",
                accepts=lambda t: cosine(t.returned, t.exact) >= 0.99),
    ProductRule(id="norm-5%", text="relative error of the whole output of at most 5 %", source="looser than the 1 to 2 % of published notes on MXFP4",
                accepts=lambda t: relative(t.returned, t.exact) <= 0.05),
    ProductRule(id="rtol-5%", text="every output within rtol 0.05 and atol 0.5", source="TensorRT-LLM#6784, an FP4 test",
                accepts=lambda t: is_close(t.returned, t.exact, 0.05, 0.5)),
    ProductRule(id="rtol-5%-alone", text="every output within rtol 0.05", source="a common form",
                accepts=lambda t: is_close(t.returned, t.exact, 0.05, 0.0)),
)  # fmt: skip

#: The forms that a rule may be stated in -> the keys that it has.
_FORMS = {
    "cosine": ("cosine",),
    "sqnr": ("sqnr",),
    "norm": ("norm",),
    "rtol": ("rtol", "atol", "misses"),
    "atol": ("rtol", "atol", "misses"),
}


@lru_cache(maxsize=8)
def find_rule(name: str) -> ProductRule:
    """A published rule, or one that is stated. Raises TargetError, saying what is allowed."""
    for rule in PRODUCT_RULES:
        if rule.id == name:
            return rule
    allowed = f"allowed are {', '.join(rule.id for rule in PRODUCT_RULES)}, cosine=X, sqnr=DECIBELS, norm=X, and rtol=X,atol=Y,misses=SHARE"
    numbers: dict[str, float] = {}
    for part in name.split(","):
        key, mark, text = part.partition("=")
        try:
            numbers[key] = float(text)
        except ValueError:
            mark = ""
        if not mark or not math.isfinite(numbers[key]):
            raise TargetError(f"no rule of products is named {name!r}; {allowed}")
    keys = _FORMS.get(next(iter(numbers)), ())
    if not set(numbers) <= set(keys):
        raise TargetError(f"no rule of products has the numbers of {name!r}; {allowed}")
    return ProductRule(id=name, text=name, source="stated", accepts=_stated(numbers))


def _stated(numbers: dict[str, float]) -> Callable[[Trial], bool]:
    if "cosine" in numbers:
        return lambda t: cosine(t.returned, t.exact) >= numbers["cosine"]
    if "sqnr" in numbers:
        return lambda t: relative(t.returned, t.exact) <= 10 ** (-numbers["sqnr"] / 20)
    if "norm" in numbers:
        return lambda t: relative(t.returned, t.exact) <= numbers["norm"]
    return lambda t: is_close(t.returned, t.exact, numbers.get("rtol", 0.0), numbers.get("atol", 0.0), numbers.get("misses", 0.0))


@cache
def make_numbers(side: int) -> npt.NDArray[np.float32]:
    """Numbers from N(0, 1), the same for every kernel."""
    rows, k = SHAPE[side], SHAPE[2]
    return np.random.default_rng(SEED + side).standard_normal((rows, k)).astype(np.float32)


@cache
def make_operand(side: int, text: str) -> Numbers:
    """An operand of these numbers in a kernel's format and layout; NVFP4 with the tensor scale of their maximum."""
    spec, x = parse_operand(text), make_numbers(side)
    if not spec.block.has_tensor_scale:
        t = mxspec.quantize(x, spec.format)
        return Numbers(spec=spec, codes=t.codes, scales=t.scales)
    scale = np.float32(np.abs(x).max() / np.float32(448 * 6))
    t = mxspec.quantize(x, spec.format, tensor_scale=mxspec.TensorScale("decode", float(scale)), convert=True)
    return Numbers(spec=spec, codes=t.codes, scales=t.scales, tensor_scale=float(scale))


@cache
def make_references(product: tuple[str, str]) -> tuple[Floats, Floats]:
    """(the exact product of the operands, the product of the numbers)."""
    factors = []
    for side, text in enumerate(product):
        numbers = make_operand(side, text)
        scale = 1.0 if numbers.tensor_scale is None else numbers.tensor_scale
        factors.append(dot.block_factor(numbers.codes, numbers.scales, numbers.spec.block, tensor_scale=scale))
    x, w = (make_numbers(side).astype(np.float64) for side in (0, 1))
    return dot.matmul(factors[0], factors[1]).astype(np.float64), x @ w.T


def run_product_rule(rule: ProductRule, subject: Subject) -> Outcome:
    """Apply a rule to a kernel: one call, without an epilogue, in the first dtype that the kernel has."""
    kernel = subject.build()
    a, b = (hand_over(make_operand(side, text)) for side, text in enumerate(kernel.product))
    try:
        with np.errstate(all="ignore"):
            returned = np.asarray(kernel.matmul(a, b, kernel.out_dtypes[0])).astype(np.float64)
    except Exception as error:
        return Outcome(Verdict.REJECTS, f"{type(error).__name__}: {error}", ("matmul",))
    if returned.shape != SHAPE[:2]:
        return Outcome(Verdict.REJECTS, f"outputs {returned.shape}", ("matmul",))
    accepted = rule.accepts(Trial(returned, *make_references(kernel.product)))
    return Outcome(Verdict.ACCEPTS if accepted else Verdict.REJECTS, "" if accepted else f"not so: {rule.text}", ("matmul",))
