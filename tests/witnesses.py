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

from mxspec_conformance import Report, check
from mxspec_conformance.judge.products.judging import list_products
from mxspec_conformance.observations.selection import Selection
from mxspec_conformance.results.report import GOOD
from mxspec_conformance.transports.opening import open_target
from mxspec_lab.products.kernels import AnyKernel, KernelTarget
from mxspec_lab.products.kinds_wrong import WRONG_KINDS
from mxspec_lab.products.wrong import list_wrong
from mxspec_vectors.files import write_file

from tests.few_calls import ask_few_calls

PATH = Path(__file__).with_suffix(".json")
#: Seconds for finding a case: where a class of additions is looked for, no case says enough alone.
SECONDS = 15
#: A requirement, and a case of it.
Witness = tuple[str, str]
KERNELS: dict[str, AnyKernel] = {kernel.name: kernel for kernel in (*list_wrong(), *WRONG_KINDS)}


@cache
def read_witnesses() -> dict[str, Witness]:
    """Kernel -> what finds it."""
    return {name: (requirement, case) for name, (requirement, case) in json.loads(PATH.read_text("utf-8")).items()}


def ask_witness(kernel: AnyKernel, witness: Witness | None = None) -> Report:
    """The report of a kernel that is given one case; by default its own witness, or everything where it takes several cases."""
    witness = witness or read_witnesses().get(kernel.name)
    if witness is None:
        return check(KernelTarget(kernel))
    requirement, case = witness
    operation, name, _ = requirement.split("/")
    only_it = Selection({(operation, name): frozenset([case])})
    return check(KernelTarget(kernel), only=requirement, selection=only_it)


def list_witnesses_of(kernel: AnyKernel) -> Iterator[Witness]:
    """What finds a kernel that is given everything, the first case of each requirement first."""
    failing = [r for r in check(KernelTarget(kernel)).requirements if r.verdict not in GOOD]
    for place in range(max((len(r.failing_cases) for r in failing), default=0)):
        yield from ((r.id, r.failing_cases[place]) for r in failing if place < len(r.failing_cases))


def find_witness(kernel: AnyKernel, known: Counter[str]) -> Witness | None:
    """A case that finds a kernel alone: one that finds many others, or any; None: there is none."""
    ((product, _),) = list_products(open_target(KernelTarget(kernel)))
    parted = (text.partition(": ") for text, _ in known.most_common(12))
    shared = ((f"matmul/{product}/{topic}", case) for topic, _, case in parted)
    started = time.process_time()
    for witness in chain(shared, list_witnesses_of(kernel)):
        if time.process_time() - started > SECONDS:
            return None
        if ask_witness(kernel, witness).exit_code == 1:
            return witness
    return None


def main() -> int:
    """0 if every kernel is found."""
    ask_few_calls()
    kept = read_witnesses() if PATH.exists() else {}
    known = Counter[str]()
    found: dict[str, Witness | None] = {}
    for number, (name, kernel) in enumerate(KERNELS.items(), 1):
        held = kept.get(name)
        found[name] = held if held and ask_witness(kernel, held).exit_code == 1 else find_witness(kernel, known)
        if witness := found[name]:
            known[f"{witness[0].rpartition('/')[2]}: {witness[1]}"] += 1
        print(f"{number} of {len(KERNELS)}: {name}: {found[name]}", file=sys.stderr, flush=True)
        kept = {n: w for n, w in found.items() if w}
        write_file(PATH, json.dumps(kept, indent=1).encode() + b"\n")
    several = [name for name, witness in found.items() if witness is None]
    print(f"{len(kept)} kernels have a witness; several cases find {', '.join(several) or 'none'}")
    return any(check(KernelTarget(KERNELS[name])).exit_code != 1 for name in several)


if __name__ == "__main__":
    sys.exit(main())
