"""Fused quantizers: quantize(f(x)), by contracts that say where f is rounded, and the answers that a contract leaves legal."""

from mxspec.fused.contracts import Contract, Form, get_contract, list_contracts
from mxspec.fused.evaluating import Result, compute, evaluate
from mxspec.fused.functions import EPS, FUNCTIONS, FusedFunction, Inputs, read_fused
from mxspec.fused.legality import Legality, judge_answer, list_judged

__all__ = [
    "EPS",
    "FUNCTIONS",
    "Contract",
    "Form",
    "FusedFunction",
    "Inputs",
    "Legality",
    "Result",
    "compute",
    "evaluate",
    "get_contract",
    "judge_answer",
    "list_contracts",
    "list_judged",
    "read_fused",
]
