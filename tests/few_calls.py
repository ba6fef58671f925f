"""A small call matrix, for tests that are not about calls.

Each `check` tests millions of numbers again, more of a fast target than of a slow one; hundreds of tests are about other things.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxspec_conformance.judge import sparse_calls
from mxspec_conformance.judge.invariance import blocks, calls, history, items, pace, tensor_maxima
from mxspec_conformance.judge.invariance.pace import Speed

#: Numbers of the largest call, and equal calls.
FEW_NUMBERS, FEW_CALLS = 1 << 13, 40


def ask_few_calls(replace: Callable[[Any, str, Any], None] = setattr) -> None:
    """Make the judge of this process ask few calls, and as many of every target, however fast it is."""

    def list_few(k: int) -> list[calls.Size]:
        left_out = {*calls.list_small(k), *calls.list_edges(k)}
        return [size for size in calls.list_sizes(k) if size.elements <= FEW_NUMBERS and size not in left_out]

    for module in (items, tensor_maxima):
        replace(module, "list_sizes", list_few)
    replace(items, "CONTENTS", ((12, 4), *items.CONTENTS))
    replace(blocks, "PROBED", tuple((rows, wide) for rows, wide in blocks.PROBED if rows <= 130))
    replace(pace, "measure_speed", lambda call: Speed.STEADY)
    replace(sparse_calls, "SHAPES", sparse_calls.SHAPES[:-1])
    replace(history, "REPEATS", FEW_CALLS)
