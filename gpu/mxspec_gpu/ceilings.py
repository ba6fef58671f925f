"""What the chip's memory gives: a copy, a read, a fill, and for every mix of reads and writes a kernel without arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import gcd
from typing import Any

from mxspec_gpu import kernels
from mxspec_gpu.launch import POINTER, get_kernel
from mxspec_gpu.timing import Call, count_sets, import_torch, measure


def measure_bandwidths() -> dict[str, float]:
    """Bytes a second of a 4 GiB copy (read plus written), a 4 GiB read and a 4 GiB fill, through torch."""
    torch = import_torch()
    a = torch.zeros(1 << 30, device="cuda", dtype=torch.float32)
    b = torch.empty_like(a)
    size = a.numel() * 4
    out = {
        "copy": 2 * size / measure([partial(b.copy_, a)], capture=False).median,
        "read": size / measure([a.sum]).median,
        "write": size / measure([partial(b.fill_, 1.0)]).median,
    }
    del a, b
    torch.cuda.empty_cache()
    return out


@dataclass(frozen=True, slots=True)
class Mix:
    """16-byte vectors that a block of threads reads and writes."""

    reads: int
    writes: int

    @property
    def name(self) -> str:
        """As in reports."""
        step = gcd(self.reads, self.writes) or 1
        return f"{self.reads // step}:{self.writes // step}"


#: Vectors of the larger side of a mix, about.
_VECTORS = 1024
#: Threads, load and store that are tried; the fastest counts.
_WAYS = tuple(
    kernels.MixTuning(threads=threads, load=load, store=store)
    for threads in (256, 512)
    for load in ("__ldg(p)", "__ldcs(p)")
    for store in ("__stcs(p, v)", kernels.PLAIN_STORE)
)


def find_mix(read: int, written: int) -> Mix:
    """The mix of a kernel that reads and writes so many bytes."""
    step = gcd(read, written)
    reads, writes = read // step, written // step
    largest = max(reads, writes)
    if largest > _VECTORS:  # no small whole numbers: the nearest mix of a thousand vectors
        return Mix(max(read * _VECTORS // max(read, written), 1), written * _VECTORS // max(read, written))
    return Mix(reads * (_VECTORS // largest), writes * (_VECTORS // largest))


def measure_mix(read: int, written: int) -> float:
    """Seconds that a kernel without arithmetic takes to read and write so many bytes, on as many sets of buffers as a kernel
    with it."""
    torch = import_torch()
    mix = find_mix(read, written)
    groups = max(1, (read if mix.reads else written) // (16 * (mix.reads or mix.writes)))
    sets = count_sets(read + written)
    stream = torch.cuda.current_stream
    sources = [torch.randint(0, 1 << 30, (groups * mix.reads * 4 + 4,), device="cuda", dtype=torch.int32) for _ in range(sets)]
    targets = [torch.empty(groups * mix.writes * 4 + 4, device="cuda", dtype=torch.int32) for _ in range(sets)]
    best = float("inf")
    for way in _WAYS:
        kernel = get_kernel(kernels.mix_kernel(mix.reads, mix.writes, way), POINTER * 2, 0)

        def move(x: Any, y: Any, *, kernel: Any = kernel, threads: int = way.threads) -> None:
            kernel.launch((groups, 1), threads, stream().cuda_stream, x.data_ptr(), y.data_ptr())

        calls: list[Call] = [partial(move, x, y) for x, y in zip(sources, targets, strict=True)]
        best = min(best, measure(calls, replays=9, rest=False).median)
    del sources, targets
    torch.cuda.empty_cache()
    # The bytes that were moved may be a little fewer or more than requested.
    return best * (read + written) / (groups * 16 * (mix.reads + mix.writes))


class Ceilings:
    """What the rows of a report are compared with; mixes are measured on first use."""

    def __init__(self, bandwidth: dict[str, float]) -> None:
        self.bandwidth = bandwidth
        self._mixes: dict[tuple[int, int], float] = {}

    def find(self, read: int, written: int) -> float:
        """Seconds of `measure_mix`."""
        if (read, written) not in self._mixes:
            self._mixes[read, written] = measure_mix(read, written)
        return self._mixes[read, written]

    def describe(self) -> list[dict[str, Any]]:
        """For a report."""
        return [
            {
                "read": read, "written": written, "microseconds": round(seconds * 1e6, 2),
                "bytes_a_second": round((read + written) / seconds),
            }
            for (read, written), seconds in sorted(self._mixes.items())
        ]  # fmt: skip
