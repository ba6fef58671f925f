"""All bugs of the independent implementation, where the right one is asked, and the targets that are made of both."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.corpora.independent import bugs_calls, bugs_output, bugs_paths, bugs_rounding, bugs_scale, bugs_two_levels
from tests.corpora.independent.catalogue import Bug
from tests.corpora.independent.implementation import BLOCKS, ELEMENTS, Kernel

MODULES = (bugs_rounding, bugs_scale, bugs_two_levels, bugs_output, bugs_calls, bugs_paths)
BUGS: tuple[Bug, ...] = tuple(bug for module in MODULES for bug in module.BUGS)
SCALAR = ("encode", "decode", "encode_stochastic")
#: Operation, format and profile of the right implementation.
RIGHT: tuple[tuple[str, str, str], ...] = (
    *((op, f, "mx-floor") for op in ("quantize", "dequantize") for f in BLOCKS if f != "nvfp4"),
    *(("quantize", "mxfp4", p) for p in ("mx-rceil", "mx-even", "mx-ceil")),
    *((op, "nvfp4", p) for op in ("quantize", "dequantize", "tensor_scale") for p in ("nvfp4-te", "nvfp4-paper")),
    *((op, e, "") for op in SCALAR for e in ELEMENTS if op != "encode_stochastic" or e not in ("e8m0", "ue4m3")),
)


def key_of(bug: Bug) -> str:
    """operation/format/profile/id."""
    return f"{bug.operation}/{bug.format}/{bug.profile}/{bug.id}"


def make_target(kernel: Kernel, operation: str, fmt: str, profile: str) -> Any:
    """A target of one function of a kernel; fmt is an element for functions on single numbers."""
    target = SimpleNamespace(NAME="independent", VERSION="1", **{operation: getattr(kernel, operation)})
    if operation in SCALAR:
        target.ELEMENTS = [fmt]
        return target
    target.FORMATS, target.DTYPES = [fmt], ["float32", "float16", "bfloat16"]
    target.TENSOR_SCALE = "encode" if profile == "nvfp4-paper" else "amax"
    return target
