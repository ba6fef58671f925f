"""Which axes of calls each operation is judged on, counted in the calls that a judge really makes of a target that offers everything.

python -m tests.axes    writes reports/calls.md
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from mxspec_conformance import check
from mxspec_conformance.adapters.registry import known_adapters
from mxspec_conformance.targets.interface import OPERATIONS
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_vectors.files import write_file

from tests.grouped_kernels import build

ROOT = Path(__file__).resolve().parents[1]
PATH = ROOT / "reports" / "calls.md"
#: What a session does with calls, as an axis.
VERBS = {
    "probe": "memory: inputs and answers afterwards",
    "held": "memory: answers held",
    "reused": "history: other numbers in its memory",
    "repeated": "history: equal calls",
    "threads": "threads: one size",
}
SHAPES, LARGEST, SHAPED = "sizes: shapes", "sizes: numbers of the largest, of a product m k n", "history: a shape again, with other numbers"
VIEWS, THREAD_SIZES, THREAD_OTHERS = "memory: views", "threads: several sizes", "threads: with other functions"
AFTER, DTYPES, OPTIONS = "history: after other functions", "dtypes", "sets of options"
AXES = (
    SHAPES,
    LARGEST,
    VIEWS,
    VERBS["probe"],
    VERBS["held"],
    VERBS["reused"],
    SHAPED,
    VERBS["repeated"],
    AFTER,
    VERBS["threads"],
    THREAD_SIZES,
    THREAD_OTHERS,
    DTYPES,
    OPTIONS,
)
#: Where an operation has no value on an axis: why.
NONE = {
    **dict.fromkeys(((name, OPTIONS) for name, o in OPERATIONS.items() if not o.options), "it has no options"),
    **dict.fromkeys(
        ((name, DTYPES) for name, o in OPERATIONS.items() if not {"x", "out_dtype"} & {*o.arguments}),
        "it takes bytes, or its dtypes follow from its formats",
    ),
    ("tensor_scale", VERBS["held"]): "it returns a number",
}


def describe_shape(function: str, arguments: tuple[Any, ...]) -> tuple[tuple[int, ...], str]:
    """The shape and dtype of the first array of a call; of a product m, k and n, and the dtype of its answer."""
    if function.endswith("matmul"):  # of a grouped one with the experts as well
        a, b = (next(part for part in operand if isinstance(part, np.ndarray)).shape for operand in arguments[:2])
        return (*a, *b[-3:-1]), arguments[-1]
    array = next(one for one in arguments if isinstance(one, np.ndarray))
    return array.shape, array.dtype.name


class Spy:
    """Records the calls of a session."""

    def __init__(self) -> None:
        #: Operation -> axis -> the distinct values that were requested.
        self.seen: defaultdict[str, defaultdict[str, set[Any]]] = defaultdict(lambda: defaultdict(set))
        self.last = ""
        self.calls = 0

    def count(self, operation: str, axis: str) -> int:
        """How many values; of the largest size the numbers."""
        return max(self.seen[operation][axis], default=0) if axis == LARGEST else len(self.seen[operation][axis])

    def note(self, function: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        """One kind of call of a session."""
        self.calls += 1
        if function == "arranged":
            view, function, *rest = arguments
            self.seen[function][VIEWS].add(view.partition("@")[0])
            return self.note(function, tuple(rest), options)
        if function in ("probe", "reused"):
            verb, function, first = function, arguments[0], arguments[1]
            self.seen[function][VERBS[verb]].add(self.calls)
            return self.note(function, first, options)
        if function in ("held", "repeated"):
            verb, function = function, arguments[2]
            self.seen[function][VERBS[verb]].add(self.calls)
            return self.note(function, arguments[3] if verb == "held" else arguments[3:], options)
        if function == "threads":
            calls = arguments[1]
            names = {name for name, *_ in calls}
            shapes = {describe_shape(name, given)[0] for name, given, _ in calls}
            axis = THREAD_OTHERS if len(names) > 1 else THREAD_SIZES if len(shapes) > 1 else VERBS["threads"]
            for name in names:
                self.seen[name][axis].add(self.calls)
            return None
        if function in ("wrote", "timed"):
            return self.note(arguments[0], arguments[1:], options)
        if function not in OPERATIONS:
            return None
        mine, (shape, dtype) = self.seen[function], describe_shape(function, arguments)
        mine[SHAPED].update({(shape, dtype)} if (shape, dtype) in mine["shapes and dtypes"] else ())
        mine["shapes and dtypes"].add((shape, dtype))
        mine[SHAPES].add(shape)
        mine[LARGEST].add(prod(shape))
        mine[DTYPES].update({dtype} if {"x", "out_dtype"} & {*OPERATIONS[function].arguments} else ())
        mine[OPTIONS].update({frozenset(options)} if options else ())
        mine[AFTER].update({self.last} if self.last not in ("", function) else ())
        self.last = function
        return None

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Note the calls of all sessions of this process."""
        call: Callable[..., Any] = InProcessSession.call

        def noted(session: InProcessSession, function: str, /, *arguments: Any, **options: Any) -> Any:
            self.note(function, arguments, options)
            return call(session, function, *arguments, **options)

        with patch.object(InProcessSession, "call", noted):
            yield


def load_everything() -> Any:
    """A target that offers every operation: the model, NumPy's products, and a grouped one."""
    parts = [
        *(known_adapters()[name].load() for name in ("mxspec", "numpy-products-float32")),
        build(dtypes=["float32", "bfloat16", "float16"]),
    ]
    return SimpleNamespace(**{name: getattr(part, name) for part in parts for name in dir(part) if not name.startswith("_")})


def count_calls(**how: Any) -> Spy:
    """The calls of `check`."""
    spy = Spy()
    with spy.watch():
        check(load_everything(), in_process=True, **how)
    return spy


def list_holes(spy: Spy) -> list[tuple[str, str]]:
    """(operation, axis) without a value, and without a reason."""
    return [(name, axis) for name in OPERATIONS for axis in AXES if not spy.count(name, axis) and (name, axis) not in NONE]


def render(spy: Spy) -> str:
    """The table, operations as columns."""
    reasons = sorted(set(NONE.values()))
    rows = [
        f"# Calls: operations and axes\n\n`python -m tests.axes` counts what `check` asks a target that offers everything: distinct values of each axis, of {spy.calls:,} "
        "calls. A letter says why an operation has none.\n",
        f"| axis | {' | '.join(f'`{name}`' for name in OPERATIONS)} |",
        f"|---|{'--:|' * len(OPERATIONS)}",
    ]
    for axis in AXES:
        cells = [
            f"{n:,}" if (n := spy.count(name, axis)) else "abcdef"[reasons.index(NONE[name, axis])] if (name, axis) in NONE else "**0**"
            for name in OPERATIONS
        ]
        rows.append(f"| {axis} | {' | '.join(cells)} |")
    return "\n".join([*rows, "", *(f"- {'abcdef'[n]}: {reason}" for n, reason in enumerate(reasons))]) + "\n"


def main() -> int:
    """1 where an operation is not judged on an axis, without a reason."""
    spy = count_calls()
    write_file(PATH, render(spy).encode())
    holes = list_holes(spy)
    print(f"{PATH.relative_to(ROOT)}: {spy.calls:,} calls; " + (f"holes: {holes}" if holes else "no hole"))
    return bool(holes)


if __name__ == "__main__":
    sys.exit(main())
