"""Checking committed sweeps against the models as they are now."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mxspec.formats import FLOAT32, get_scalar
from mxspec.stepfunctions import GRID, INF_BITS, NANS, SIGN, StepFunction, check_float32_steps, one_by_one
from mxspec_lab.sweeps.functions import CHUNK, CHUNK_BITS, Function, chunk_digest, list_functions
from mxspec_lab.sweeps.results import FunctionResult, read_results


def special_chunks(function: Function, steps: StepFunction) -> set[int]:
    """The chunks of zero, the smallest normal number, the last finite change and infinity; each sign."""
    definition = function.definition()
    fmt = get_scalar(definition.get("format") or definition["scale"])
    normal = int(np.float32(float(max(fmt.min_normal, FLOAT32.min_subnormal))).view(np.uint32))
    found = set()
    for base in range(0, steps.stop, SIGN):
        finite = steps.starts[(steps.starts >= base) & (steps.starts < base + INF_BITS)]
        found |= {pattern >> CHUNK_BITS for pattern in (base, base + normal, base + INF_BITS, int(finite[-1]))}
    return found


def find_problems(
    out: Path, seed: int, chunks: int = 4, *, pattern: str = "*", digest_share: float = 1.0, slice_bits: int = 16
) -> Iterator[str]:
    """What of committed results is not what the models are now, in words that begin with the function.

    For every function that matches: its result exists, is complete and without a difference; the exact model
    agrees with its runs at every change, at the binades' edges and inside each run (which, the function
    being monotone between them, is its complete answer); the array model agrees with the runs at the changes
    and their neighbours, at special values, and on one random slice in each of `chunks` random chunks. The
    digests of the special chunks and of the random ones are computed again for a random `digest_share` of the
    functions.
    """
    rng = np.random.default_rng(seed)
    known, on_disk = list_functions(pattern), read_results(out)
    for name in sorted(set(on_disk) - set(known)):
        if fnmatchcase(name, pattern):
            yield f"{name}: the registry has no such function now; delete its file (python -m mxspec_lab sweep --prune)"
    for name, function in known.items():
        result = on_disk.get(name)
        if result is None:
            yield f"{name}: there is no result that can be read; run python -m mxspec_lab sweep --function {name!r}"
            continue
        numbers = rng.choice(result.chunk_count, min(chunks, result.chunk_count), replace=False).tolist()
        starts = [chunk * CHUNK + int(rng.integers(0, CHUNK - (1 << slice_bits) + 1)) for chunk in numbers]
        bits = np.concatenate([_near_changes(result.steps), *(np.arange(s, s + (1 << slice_bits), dtype=np.int64) for s in starts)])
        digested = {*numbers, *special_chunks(function, result.steps)} if rng.random() < digest_share else set()
        yield from (f"{name}: {problem}" for problem in _verify(function, result, bits, digested))


def _verify(function: Function, result: FunctionResult, bits: npt.NDArray[np.int64], digested: set[int]) -> Iterator[str]:
    """The problems of one result; bits: inputs of the array model."""
    if not result.complete:
        done = f"{len(result.digests)} of {result.chunk_count} chunks"
        yield f"only {done}; run python -m mxspec_lab sweep --function {function.name!r}"
    yield from (f"{name} differs on {w.differences} inputs, first {w.first}" for name, w in result.witnesses.items() if w.differences)
    yield from check_float32_steps(one_by_one(function.exact), result.steps, function.grid)
    differing = np.flatnonzero(function.model(bits.astype(np.uint32).view(np.float32)) != result.steps.at(bits))
    if differing.size:
        yield f"the array model differs on {differing.size} inputs, first {bits[differing[0]]:08x}"
    for chunk in sorted(digested):
        if result.digests.get(chunk) != chunk_digest(result.steps, chunk):
            yield f"chunk {chunk} has another digest now"


def _near_changes(steps: StepFunction) -> npt.NDArray[np.int64]:
    """Each change with two patterns on either side, the edges of the binades, infinities and NaN."""
    near = (steps.starts[:, None] + np.arange(-2, 3)).ravel()
    fixed = [base + p for base in range(0, steps.stop, SIGN) for p in (*GRID, INF_BITS, *NANS)]
    every = np.unique(np.concatenate([near, np.array(fixed, np.int64)]))
    return every[(every >= 0) & (every < steps.stop)]
