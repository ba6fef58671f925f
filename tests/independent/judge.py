"""Judging one function of a kernel on one format."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mxspec_conformance.judge.check import check
from mxspec_conformance.results.report import Report, Verdict

SCALAR = ("encode", "decode", "encode_stochastic")


def judge(kernel: Any, operation: str, fmt: str, profile: str, only: str | None = None) -> Report:
    """The judge's report on one function; fmt is an element for functions on single numbers. only: a glob of requirements."""
    target = SimpleNamespace(NAME="independent", VERSION="1", **{operation: getattr(kernel, operation)})
    if operation in SCALAR:
        target.ELEMENTS = [fmt]
        return check(target, only=only)
    target.FORMATS, target.DTYPES = [fmt], ["float32", "float16", "bfloat16"]
    target.TENSOR_SCALE = "encode" if profile == "nvfp4-paper" else "amax"
    return check(target, profile=profile, only=only)


def failing(report: Report) -> list[str]:
    """`requirement: first failing case` for each that does not pass."""
    return [f"{r.id}: {r.failing_cases[0] if r.failing_cases else r.note}" for r in report.requirements if r.verdict is not Verdict.PASS]
