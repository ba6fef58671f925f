"""Which contract and profile explain what a fused quantizer returned, and what they leave legal of one answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat
from mxspec.fused.contracts import FAST, Contract, get_contract, list_contracts
from mxspec.fused.evaluating import evaluate
from mxspec.fused.functions import EPS, FusedFunction, Inputs, Kind, read_fused
from mxspec.fused.legality import Legality, judge_answer, list_judged
from mxspec.profiles.schema import Kind as ProfileKind, Profile, TensorScaleKind
from mxspec.tensorscale import TensorScale
from mxspec_conformance.judge.fused.designs import Case
from mxspec_conformance.targets.capabilities import Capabilities

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
#: A function and its arrays -> others.
Change = Callable[[FusedFunction, Arrays], tuple[FusedFunction, Arrays] | None]
ACTIVATIONS = (Kind.SILU, Kind.GELU, Kind.GELU_TANH)
#: Special values: what a target does with them says nothing of its contract.
SPECIAL = ("nan", "inf")
#: The tensor scale 2 in each kind: 1 would not show which is meant.
_TENSOR_SCALES = {TensorScaleKind.DECODE: 2.0, TensorScaleKind.ENCODE: 0.5, TensorScaleKind.AMAX: 5376.0}
#: Contracts that are tried on all answers where none explains the first, and with all profiles.
_BEST = 3


class Answer(NamedTuple):
    """A case with what came back."""

    case: Case
    codes: Array
    scales: Array


@dataclass(slots=True)
class Subject:
    """A fused quantizer as a target declares it, in one dtype."""

    name: str
    dtype: str
    capabilities: Capabilities
    function: FusedFunction = field(init=False)
    fmt: BlockFormat = field(init=False)
    #: What every call is given, if the target takes one; and as an option, with the eps of a norm.
    tensor_scale: TensorScale | None = None
    options: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.function, self.fmt = read_fused(self.name)
        if self.fmt.has_tensor_scale and self.capabilities.has("quantize_fused", "tensor_scale"):
            kind = TensorScaleKind(self.capabilities.tensor_scale)
            self.tensor_scale = TensorScale.from_float(kind, _TENSOR_SCALES[kind])
            self.options["tensor_scale"] = self.tensor_scale.value
        if self.function.kind is Kind.RMSNORM and self.capabilities.has("quantize_fused", "eps"):
            self.options["eps"] = EPS

    def trim(self, given: Arrays) -> Arrays:
        """Without a weight that the target does not take."""
        return {n: array for n, array in given.items() if n != "weight" or self.capabilities.has("quantize_fused", n)}

    def lay(self, given: Arrays) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments and options of a call."""
        x, arrays = self.function.lay(self.trim(given))
        return (x, self.function.name, self.fmt.name), arrays | self.options

    def list_profiles(self) -> list[Profile]:
        """The claimed profile, or all."""
        scale = self.tensor_scale
        judged = list_judged(self.fmt, with_tensor_scale=scale is not None)
        listed = [p for p in judged if scale is None or (p.tensor is not None and p.tensor.native is scale.kind)]
        return [p for p in listed if p.id in self.capabilities.claimed_profiles] or listed


@dataclass(frozen=True, slots=True)
class Standing:
    """A contract and a profile, and how many elements they do not explain."""

    subject: Subject
    contract: Contract
    profile: Profile
    wrong: int

    def judge(self, given: Arrays, codes: Array, scales: Array) -> Legality:
        """What is legal of an answer."""
        found = evaluate(self.subject.function, self.contract, self.subject.trim(given), EPS)
        return judge_answer(found, scales, codes, self.subject.fmt, self.profile, self.subject.tensor_scale)


def find_standing(subject: Subject, answers: Sequence[Answer]) -> tuple[Standing, Standing | None]:
    """The first contract that explains everything with a normative profile, or else what explains the most, by which a target is judged; and
    where that is not everything, what does with a descriptive profile."""
    ordinary = [a for a in answers if a.case.topic not in SPECIAL] or answers
    claimed, listed = subject.capabilities.fused_contract, subject.list_profiles()
    contracts = [get_contract(claimed, subject.function)] if claimed else list(list_contracts(subject.function))
    first = [p for p in listed if p.kind is ProfileKind.NORMATIVE] or listed
    found = _rank(subject, contracts, first, ordinary)
    if found[0].wrong and (others := [p for p in listed if p not in first]):
        also = _rank(subject, list(dict.fromkeys(s.contract for s in found))[:_BEST], others, ordinary)[0]
        return found[0], None if also.wrong else also
    return found[0], None


def _change(name: str, to: Callable[[Array], Any]) -> Change:
    """Another array in the place of one that is given, in its dtype."""
    return lambda f, given: (f, given | {name: np.asarray(to(given[name])).astype(given[name].dtype)}) if name in given else None


def _cut(x: Array) -> Array:
    return (x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def _relay(inputs: Inputs) -> Change:
    """Gate and up taken from where another function has them."""
    lies_so = (Inputs.HALVES, Inputs.INTERLEAVED)
    return lambda f, given: (f, replace(f, inputs=inputs).take(*f.lay(given))) if f.inputs in lies_so and f.inputs is not inputs else None


def _take_kind(kind: Kind) -> Change:
    return lambda f, given: (replace(f, kind=kind), given) if f.kind in ACTIVATIONS and f.kind is not kind else None


def _reorder(number: Callable[[int, int], int]) -> Change:
    """Rows of a Hadamard matrix in another order: number(i, bits) is the row of Sylvester's that stands in row i, and maps sums of bits to sums."""

    def change(f: FusedFunction, given: Arrays) -> tuple[FusedFunction, Arrays] | None:
        if f.kind is not Kind.HADAMARD:
            return None
        bits = f.size.bit_length() - 1
        # What i & j counts of row number(i) is what i counts of another column, which takes the place of j.
        column = [sum(((number(1 << b, bits) & j).bit_count() & 1) << b for b in range(bits)) for j in range(f.size)]
        x = given["x"]
        return f, given | {"x": x.reshape(*x.shape[:-1], -1, f.size)[..., np.argsort(column)].reshape(x.shape)}

    return change


def _add(squares: Callable[[Array], Array]) -> Change:
    return lambda f, given: (replace(f, add=squares), given) if f.kind is Kind.RMSNORM else None


def _to_bfloat16(x: Array) -> Array:
    return x.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)


def _add_in_turn(first: Callable[[Array], Array], squares: Array) -> Array:
    """One after the other, each sum rounded to bfloat16. first: what becomes of a square."""
    squares, total = first(squares), np.zeros((*squares.shape[:-1], 1))
    for j in range(squares.shape[-1]):
        total = _to_bfloat16(total + squares[..., j : j + 1])
    return total


def _add_in_pairs(halves: bool, first: Callable[[Array], Array], squares: Array) -> Array:
    """Two and two, the halves of a row or neighbours, each sum rounded to bfloat16."""
    squares = first(squares)
    while (n := squares.shape[-1]) > 1:
        squares = np.pad(squares, [(0, 0)] * (squares.ndim - 1) + [(0, n % 2)])
        pair = (squares[..., : (n + 1) // 2], squares[..., (n + 1) // 2 :]) if halves else (squares[..., ::2], squares[..., 1::2])
        squares = _to_bfloat16(pair[0] + pair[1])
    return squares


def _reverse(i: int, bits: int) -> int:
    return int(f"{i:0{bits}b}"[::-1], 2)


def _add_narrowly(f: FusedFunction, given: Arrays) -> tuple[FusedFunction, Arrays] | None:
    weight = given["weight"].astype(np.float32) + np.float32(1) if f.plus_one and "weight" in given else None
    return None if weight is None else (replace(f, plus_one=False), given | {"weight": weight.astype(ml_dtypes.bfloat16)})


#: What kernels do wrong -> another function, and other arrays, by which they would be right; None: it is no mistake of such a function.
MISTAKES: dict[str, Change] = {
    "gate and up are exchanged": lambda f, g: (f, g | {"x": g["up"], "up": g["x"]}) if f.multiplies else None,
    "up is left out": lambda f, g: (f, g | {"up": np.ones_like(g["up"])}) if f.multiplies and f.kind is not Kind.SWIGLU_OAI else None,
    "gate and up lie in halves": _relay(Inputs.HALVES), "gate and up are interleaved": _relay(Inputs.INTERLEAVED),
    **{f"the activation is {kind}": _take_kind(kind) for kind in ACTIVATIONS},
    "nothing is clamped": lambda f, g: (replace(f, limit=np.inf), g) if f.kind is Kind.SWIGLU_OAI else None,
    "the gate is clamped below, too": lambda f, g: (f, g | {"x": np.maximum(g["x"], -f.limit).astype(g["x"].dtype)}) if f.kind is Kind.SWIGLU_OAI else None,
    "the residual is left out": _change("residual", np.zeros_like),
    "1 is not added to the weight": lambda f, g: (replace(f, plus_one=False), g) if f.plus_one else None,
    "weight + 1 is rounded to bfloat16": _add_narrowly,
    "squares are rounded to bfloat16 before they are added": _add(_to_bfloat16),
    "the mean of squares is rounded to bfloat16": _add(lambda s: _to_bfloat16(s.mean(axis=-1, keepdims=True)) * s.shape[-1]),
    **{f"{rounded}squares are added in bfloat16, {how}": _add(partial(add, first)) for rounded, first in (("", np.asarray), ("rounded ", _to_bfloat16))
       for how, add in (("one after the other", _add_in_turn), ("the halves of a row first", partial(_add_in_pairs, True)), ("neighbours first", partial(_add_in_pairs, False)))},
    "the Hadamard matrix is not divided by the root of its size": lambda f, g: (replace(f, scaled=False), g) if f.scaled else None,
    "rows of the Hadamard matrix are in sequency order (Walsh's)": _reorder(lambda i, bits: _reverse(i ^ i >> 1, bits)),
    "rows of the Hadamard matrix are in dyadic order (Paley's)": _reorder(_reverse),
    "x is cut to bfloat16": _change("x", _cut), "x is rounded to bfloat16": _change("x", lambda x: x.astype(ml_dtypes.bfloat16)),
    "x^3 is multiplied by 0.0447, not by 0.044715": lambda f, g: (replace(f, cubic=0.0447), g) if f.kind is Kind.GELU_TANH else None,
    "the sigmoid is made of an approximate tanh": lambda f, g: (replace(f, by_tanh=True), g) if f.kind in (Kind.SILU, Kind.SWIGLU_OAI) else None,
}  # fmt: skip
#: The same of the eps of a norm, and of scale bytes.
EPSILONS = (0.0, 1e-5, 1e-8)
BYTES: dict[str, Callable[[Array], Any]] = {"scales are stored as their inverse": lambda scales: 254 - scales}


def name_mistake(standing: Standing, answers: Sequence[Answer]) -> str:
    """The first mistake that explains every answer but those of special values, under some contract and the profile that stands best;
    "": none."""
    subject, ordinary = standing.subject, [a for a in answers if a.case.topic not in SPECIAL]
    f, contracts = subject.function, [c for c in list_contracts(subject.function) if c.ulps != FAST]  # those hold too much to name anything
    contracts.sort(key=lambda c: c != standing.contract)

    def keep(function: FusedFunction, given: Arrays) -> tuple[FusedFunction, Arrays]:
        return function, given

    def explains(contract: Contract, change: Change, eps: float, to_byte: Callable[[Array], Array], some: Sequence[Answer]) -> bool:
        for case, codes, scales in some:
            changed = change(f, subject.trim(case.given))
            if changed is None:
                return False
            result = evaluate(changed[0], contract, changed[1], eps)
            given = to_byte(scales).astype(scales.dtype)
            if judge_answer(result, given, codes, subject.fmt, standing.profile, subject.tensor_scale).wrong.any():
                return False
        return True

    def touches(change: Change) -> bool:
        pairs = [(case.given, change(f, subject.trim(case.given))) for case, *_ in ordinary]
        return any(c and (c[0] != f or any(a.tobytes() != given[n].tobytes() for n, a in c[1].items())) for given, c in pairs)

    tried: list[tuple[str, Change, float, Any]] = [(text, change, EPS, np.asarray) for text, change in MISTAKES.items() if touches(change)]
    tried += [(f"eps is {eps:g}", keep, eps, np.asarray) for eps in EPSILONS if f.kind is Kind.RMSNORM]
    tried += [(text, keep, EPS, to_byte) for text, to_byte in BYTES.items() if subject.fmt.is_mx]
    if not ordinary:  # nothing says anything
        return ""
    if subject.capabilities.fused_contract:
        tried.append(("numbers are of another contract, {}, than is claimed", keep, EPS, np.asarray))
    for text, change, eps, to_byte in tried:
        for contract in contracts:
            if all(explains(contract, change, eps, to_byte, some) for some in (ordinary[:1], ordinary)):
                return text.format(contract.describe(f))
    return ""


def _rank(subject: Subject, contracts: Sequence[Contract], profiles: Sequence[Profile], answers: Sequence[Answer]) -> list[Standing]:
    """Where contracts stand, the best first; one that explains all is the last that is tried. Which of them are tried on all answers, the
    first one says: those that explain it, or the nearest few."""

    def count(contract: Contract, some: Sequence[Answer]) -> list[int]:
        wrong = np.zeros(len(profiles), np.int64)
        for case, codes, scales in some:
            result = evaluate(subject.function, contract, subject.trim(case.given), EPS)
            judged = (judge_answer(result, scales, codes, subject.fmt, p, subject.tensor_scale) for p in profiles)
            wrong += [int(legal.wrong.sum()) for legal in judged]
        return wrong.tolist()

    near = [min(count(contract, answers[:1])) for contract in contracts]
    limit = sorted(near)[:_BEST][-1] if min(near) else 0
    found: list[Standing] = []
    for contract in (c for c, n in zip(contracts, near, strict=True) if n <= limit):
        wrong = count(contract, answers)
        found += [Standing(subject, contract, p, n) for p, n in zip(profiles, wrong, strict=True)]
        if not min(wrong):
            break
    return sorted(found, key=lambda s: s.wrong)
