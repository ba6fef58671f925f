"""Checking committed sweeps against the models as they are now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mxspec.formats import FLOAT32, ScalarFormat, get_scalar
from mxspec.stepfunctions import GRID, INF_BITS, NANS, SIGN, StepFunction, check_float32_steps, one_by_one
from mxspec_lab.sweeps.functions import CHUNK, CHUNK_BITS, Function, chunk_digest, list_functions
from mxspec_lab.sweeps.results import FunctionResult, read_results


@dataclass(slots=True)
class Verification:
    """What `verify_committed` looked at and found."""

    seed: int
    functions: int = 0
    #: Points at which the exact model was asked again.
    exact_points: int = 0
    #: Inputs at which the array model was compared again.
    inputs: int = 0
    digests: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.functions} functions, exact model asked at {self.exact_points} "
            f"patterns, array model on {self.inputs} inputs, {self.digests} chunk digests; {len(self.problems)} problems"
        )


def special_chunks(steps: StepFunction, fmt: ScalarFormat) -> list[int]:
    """The chunks of zero, the smallest normal number, the last finite change and infinity; each sign."""
    normal = int(np.float32(float(max(fmt.min_normal, FLOAT32.min_subnormal))).view(np.uint32))
    found = set()
    for base in range(0, steps.stop, SIGN):
        finite = steps.starts[(steps.starts >= base) & (steps.starts < base + INF_BITS)]
        found |= {base >> CHUNK_BITS, (base + normal) >> CHUNK_BITS, (base + INF_BITS) >> CHUNK_BITS}
        found.add(int(finite[-1]) >> CHUNK_BITS)
    return sorted(found)


def _format_of(function: Function) -> ScalarFormat:
    definition = function.definition()
    return get_scalar(definition.get("format") or definition["scale"])


def verify_committed(
    out: Path, seed: int, chunks: int = 4, *, pattern: str = "*", digest_share: float = 1.0, slice_bits: int = 16
) -> Verification:
    """Compare committed results with the models as they are now.

    For every function that matches: its result exists, is complete and without a difference; the exact model
    agrees with its runs at every change, at the binades' edges and inside each run (which, the function
    being monotone between them, is its complete answer); the array model agrees with the runs at the changes
    and their neighbours, at special values, and on one random slice in each of `chunks` random chunks. The
    digests of the special chunks and of the random ones are computed again for a random `digest_share` of the
    functions.
    """
    rng = np.random.default_rng(seed)
    found = Verification(seed)
    known = list_functions()
    on_disk = read_results(out)
    found.problems += [
        f"{name}: the registry has no such function now; delete its file (python -m mxspec_lab sweep --prune)"
        for name in sorted(set(on_disk) - set(known))
        if fnmatchcase(name, pattern)
    ]
    for name, function in known.items():
        if not fnmatchcase(name, pattern):
            continue
        found.functions += 1
        result = on_disk.get(name)
        if result is None:
            found.problems.append(f"{name}: there is no result that can be read; run python -m mxspec_lab sweep --function {name!r}")
            continue
        found.problems += [f"{name}: {p}" for p in _verify_result(function, result, found)]
        numbers = rng.choice(result.chunk_count, min(chunks, result.chunk_count), replace=False).tolist()
        patterns = [_near_changes(result.steps)]
        for chunk in numbers:
            start = chunk * CHUNK + int(rng.integers(0, CHUNK - (1 << slice_bits) + 1))
            patterns.append(np.arange(start, start + (1 << slice_bits), dtype=np.int64))
        bits = np.concatenate(patterns)
        answers = function.model(bits.astype(np.uint32).view(np.float32))
        found.inputs += bits.size
        differing = np.flatnonzero(answers != result.steps.at(bits))
        if differing.size:
            i = int(differing[0])
            found.problems.append(f"{name}: the array model differs on {differing.size} inputs, first {bits[i]:08x}")
        if rng.random() < digest_share:
            for chunk in sorted({*numbers, *special_chunks(result.steps, _format_of(function))}):
                found.digests += 1
                if result.digests.get(chunk) != chunk_digest(result.steps, chunk):
                    found.problems.append(f"{name}: chunk {chunk} has another digest now")
    return found


def _verify_result(function: Function, result: FunctionResult, found: Verification) -> Iterator[str]:
    if not result.complete:
        done = f"{len(result.digests)} of {result.chunk_count} chunks"
        yield f"only {done}; run python -m mxspec_lab sweep --function {function.name!r}"
    for name, w in result.witnesses.items():
        if w.differences:
            yield f"{name} differs on {w.differences} inputs, first {w.first}"
    asked = 0

    def answer(bits: int) -> int:
        nonlocal asked
        asked += 1
        return function.exact(bits)

    yield from check_float32_steps(one_by_one(answer), result.steps, function.grid)
    found.exact_points += asked


def _near_changes(steps: StepFunction) -> npt.NDArray[np.int64]:
    """Each change with two patterns on either side, the edges of the binades, infinities and NaN."""
    near = (steps.starts[:, None] + np.arange(-2, 3)).ravel()
    fixed = [base + p for base in range(0, steps.stop, SIGN) for p in (*GRID, INF_BITS, *NANS)]
    every = np.unique(np.concatenate([near, np.array(fixed, np.int64)]))
    return every[(every >= 0) & (every < steps.stop)]
