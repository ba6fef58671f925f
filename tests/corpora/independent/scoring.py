"""The bugs of the independent implementation as subjects of `mxspec score-tests`, which finds this module in a checkout."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from mxspec_conformance.scoring.subjects import Kind, Subject

from tests.corpora.independent.catalogue import Bug, build as build_kernel
from tests.corpora.independent.entries import BUGS, key_of
from tests.corpora.independent.reasons import explain_survival


def subjects(fmt: str) -> Iterator[Subject]:
    """Those of a format's quantize and dequantize that are not known to change no answer."""
    for bug in BUGS:
        if bug.format == fmt and bug.operation in ("quantize", "dequantize") and explain_survival(key_of(bug)) is None:
            yield Subject(Kind.INDEPENDENT, bug.operation, fmt, bug.profile, bug.id, bug.operation, bug.story)


def build(subject: Subject) -> Any:
    """A fresh kernel with the bug."""
    bug = _find(subject)
    kernel = build_kernel(bug)
    tensor_scale = "encode" if subject.profile == "nvfp4-paper" else "amax"
    functions = {name: getattr(kernel, name) for name in ("quantize", "dequantize", "tensor_scale")}
    return SimpleNamespace(TENSOR_SCALE=tensor_scale, **functions)


def _find(subject: Subject) -> Bug:
    key = f"{subject.operation}/{subject.format}/{subject.profile}/{subject.id}"
    for bug in BUGS:
        if key_of(bug) == key:
            return bug
    raise KeyError(subject.name)
