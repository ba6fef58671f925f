"""The case that finds each wrong kernel of a product: a test runs it alone, which takes a twentieth of the time that all cases take.

python -m tests.witnesses    finds them again where one does not find its kernel any more, and writes tests/witnesses.json.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from mxspec_conformance import Report, check
from mxspec_conformance.judge.products.judging import list_products
from mxspec_conformance.observations.selection import Selection
from mxspec_conformance.results.report import GOOD, Failure, Verdict
from mxspec_conformance.transports.opening import open_target
from mxspec_lab.products.kernels import AnyKernel, Kernel, KernelTarget
from mxspec_lab.products.kinds_wrong import WRONG_KINDS
from mxspec_lab.products.wrong import list_wrong
from mxspec_vectors.files import write_file

from tests.few_calls import ask_few_calls

PATH = Path(__file__).with_suffix(".json")
#: Seconds for finding a case: where a class of additions is looked for, no case says enough alone.
SECONDS = 15
#: A requirement, and a case of it.
Witness = tuple[str, str]
#: Kernels that are wrong after other calls alone, so that no case finds them by itself.
STATEFUL = ("accumulator not cleared", "workspace of a larger call")
KERNELS: dict[str, AnyKernel] = {f"{k.name}, {'@'.join(k.product)}": k for k in (*list_wrong(), *WRONG_KINDS) if k.name not in STATEFUL}


@cache
def read_witnesses() -> dict[str, Witness]:
    """Kernel -> what finds it."""
    return {name: (requirement, case) for name, (requirement, case) in json.loads(PATH.read_text("utf-8")).items()}


def ask_witness(kernel: AnyKernel, witness: Witness | None = None) -> Report:
    """The report of a kernel that is given one case; by default its own witness, or everything where it takes several cases."""
    witness = witness or read_witnesses().get(f"{kernel.name}, {'@'.join(kernel.product)}")
    if witness is None:
        return check(KernelTarget(kernel))
    requirement, case = witness
    operation, name, _ = requirement.split("/")
    only_it = Selection({(operation, name): frozenset([case])})
    return check(KernelTarget(kernel), only=requirement, selection=only_it)


def shows_both(failure: Failure, kernel: AnyKernel) -> bool:
    """Whether the lines of a failure give the output that was returned, or name the command that shows it, where one call is wrong."""
    several = not isinstance(kernel, Kernel) or kernel.name in STATEFUL or failure.product is None
    if several or failure.snippet.startswith("mxspec explain RESULT.json 'matmul/"):
        return True
    assert max(map(len, failure.snippet.splitlines())) <= 88
    printed: list[Any] = []
    with np.errstate(all="ignore"):  # as the judge calls it
        exec(failure.snippet, {"k": KernelTarget(kernel), "print": printed.append})
    value = f"{float(printed[0]):.9g} ({printed[0].tobytes()[::-1].hex()})"
    return failure.returned["value"] == value != failure.expected["value"]


def assert_wrong(kernel: AnyKernel) -> None:
    """A kernel fails by its witness alone, and what is shown of it is what it returns."""
    report = ask_witness(kernel)
    assert report.exit_code == 1, "python -m tests.witnesses finds another case"
    shown = [r.first for r in report.requirements if r.verdict in (Verdict.FAIL, Verdict.DEVIATION)]
    assert {f is not None and f.expected != f.returned and shows_both(f, kernel) for f in shown} == {True}


def list_witnesses_of(kernel: AnyKernel) -> Iterator[Witness]:
    """What finds a kernel that is given everything, the first case of each requirement first."""
    failing = [r for r in check(KernelTarget(kernel)).requirements if r.verdict not in GOOD]
    for place in range(max((len(r.failing_cases) for r in failing), default=0)):
        yield from ((r.id, r.failing_cases[place]) for r in failing if place < len(r.failing_cases))


def find_witness(kernel: AnyKernel, known: Counter[str]) -> Witness | None:
    """A case that finds a kernel alone: one that finds many others, or any; None: there is none."""
    ((_, product, _),) = list_products(open_target(KernelTarget(kernel)))
    parted = (text.partition(": ") for text, _ in known.most_common(12))
    shared = ((f"matmul/{product}/{topic}", case) for topic, _, case in parted)
    started = time.process_time()
    for witness in chain(shared, list_witnesses_of(kernel)):
        if time.process_time() - started > SECONDS:
            return None
        report = ask_witness(kernel, witness)
        if report.exit_code == 1 and all(shows_both(r.first, kernel) for r in report.requirements if r.first):
            return witness
    return None


def main() -> int:
    """0 if every kernel has a witness."""
    ask_few_calls()
    kept = dict(read_witnesses()) if PATH.exists() else {}
    known = Counter[str]()
    for number, (name, kernel) in enumerate(KERNELS.items(), 1):
        held = kept.pop(name, None)
        if found := held if held and ask_witness(kernel, held).exit_code == 1 else find_witness(kernel, known):
            kept[name] = found
            known[f"{found[0].rpartition('/')[2]}: {found[1]}"] += 1
        print(f"{number} of {len(KERNELS)}: {name}: {found}", file=sys.stderr, flush=True)
        write_file(PATH, json.dumps({n: kept[n] for n in KERNELS if n in kept}, indent=1).encode() + b"\n")
    print(f"{len(kept)} of {len(KERNELS)} kernels have a witness")
    return len(kept) < len(KERNELS)


if __name__ == "__main__":
    sys.exit(main())
