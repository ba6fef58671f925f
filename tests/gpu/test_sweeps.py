"""Complete functions: all 2**32 patterns of every encoder, all 2**31 largest magnitudes of every E8M0 rule, in the kernel
against the committed complete answers; and the same answers written out, by the digests of the CPU sweeps."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from mxspec_gpu.launch import POINTER, U32, get_kernel
from mxspec_lab.sweeps.functions import CHUNK
from mxspec_lab.sweeps.results import read_results

from tests.gpu.device import FULL, POISON, ROOT, Tally, cp, require_gpu
from tests.gpu.sweeps import JOBS, SweepJob

pytestmark = pytest.mark.gpu
require_gpu()

#: Chunks that are written out at a time.
GROUP = 16
NORMATIVE = ("mx-floor", "mx-rceil", "mx-even", "mx-ceil")
WRITTEN = tuple(
    j for j in JOBS
    if j.kind == "fast" or j.profile in NORMATIVE or (j.kind == "plain" and j.name in ("encode/ue4m3/rne/saturate", "encode/e8m0/rne/saturate"))
)  # fmt: skip


@lru_cache(maxsize=1)
def committed() -> Any:
    return read_results(ROOT / "reports" / "sweeps")


def launch(job: SweepJob, first: int, patterns: int, found: Any, out: Any) -> None:
    steps = committed()[job.name].steps
    starts, codes = cp().asarray(steps.starts.astype(np.uint32)), cp().asarray(steps.values)
    kernel = get_kernel(job.source(write=out is not None), U32 + POINTER * 2 + U32 + POINTER * 2, 0)
    kernel.launch(
        (patterns >> 16, 1), 256, cp().cuda.get_current_stream().ptr, first, starts.data.ptr, codes.data.ptr, len(codes),
        found.data.ptr, 0 if out is None else out.data.ptr,
    )  # fmt: skip
    cp().cuda.get_current_stream().synchronize()


@pytest.mark.parametrize("job", JOBS, ids=lambda j: j.label)
def test_compared_in_the_kernel(job: SweepJob, tally: Tally) -> None:
    assert job.name in committed(), "no committed sweep"
    count = committed()[job.name].steps.stop
    found = cp().zeros(16, cp().uint64)
    launch(job, 0, count, found, None)
    different, *rest = found.get().tolist()
    tally.compared += count
    if different:
        tally.fail(f"{job.label}: {different}, such as " + " ".join(f"{r & 0xFFFFFFFF:08x}->{r >> 32:x}" for r in rest[1:4]))


@pytest.mark.parametrize("job", WRITTEN, ids=lambda j: j.label)
def test_written_out(job: SweepJob, tally: Tally) -> None:
    result = committed()[job.name]
    host = np.frombuffer(cp().cuda.alloc_pinned_memory(GROUP * CHUNK), np.uint8, GROUP * CHUNK)
    out, found = cp().empty(GROUP * CHUNK, cp().uint8), cp().zeros(16, cp().uint64)

    def digest(i: int) -> str:
        return hashlib.blake2b(host[i * CHUNK : (i + 1) * CHUNK], digest_size=16).hexdigest()

    with ThreadPoolExecutor(GROUP) as pool:
        for start in range(0, result.chunk_count if FULL else GROUP, GROUP):
            out.fill(POISON)
            launch(job, start * CHUNK, GROUP * CHUNK, found, out)
            out.get(out=host)
            for i, got in enumerate(pool.map(digest, range(GROUP))):
                want = result.digests[start + i]
                tally.compared += CHUNK
                if got != want:
                    tally.fail(f"{job.label}: chunk {start + i} has the digest {got}, committed is {want}")
