"""A small call matrix, for tests that are not about calls.

Each `check` asks millions of numbers again, more of a fast target than of a slow one; hundreds of tests are about other things,
and some compare two reports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxspec.formats import BlockFormat
from mxspec_conformance.judge import sparse_calls
from mxspec_conformance.judge.affine import calls as affine_calls
from mxspec_conformance.judge.invariance import calls, contents, history, matrix, numbers, states
from mxspec_conformance.judge.invariance.pace import Speed

#: Numbers of the largest call, and equal calls.
FEW_NUMBERS, FEW_CALLS = 1 << 13, 40


def ask_few_calls(replace: Callable[[Any, str, Any], None] = setattr) -> None:
    """Make the judge of this process ask few calls, and as many of every target, however fast it is."""

    def list_few(fmt: BlockFormat) -> list[calls.Size]:
        left_out = set(calls.list_small(fmt.k))
        return [size for size in calls.list_sizes(fmt) if size.elements <= FEW_NUMBERS and size not in left_out]

    replace(matrix, "list_sizes", list_few)
    replace(contents, "ROWS", (12, 16))
    replace(contents, "ACROSS", 4)
    replace(states, "PROBED", tuple((rows, blocks) for rows, blocks in states.PROBED if rows <= 130))
    for module in (matrix, numbers):
        replace(module, "measure_speed", lambda call: Speed.STEADY)
    every = affine_calls.list_shapes

    def list_few_groups(group: int) -> list[tuple[int, int]]:
        return [(rows, wide) for rows, wide in every(group) if rows * wide * group <= FEW_NUMBERS][::3]

    replace(affine_calls, "list_shapes", list_few_groups)
    few_groups = [shape for shape in sparse_calls.SHAPES if shape[0] * shape[1] <= FEW_NUMBERS // 8]
    replace(sparse_calls, "SHAPES", (*few_groups[:12], *few_groups[12::4]))
    replace(sparse_calls, "LARGEST", ((2048, 8),))
    replace(sparse_calls, "LARGE", ())
    for module in (states, history):  # what each workload takes from them, when it is made
        replace(module, "REPEATS", FEW_CALLS)
