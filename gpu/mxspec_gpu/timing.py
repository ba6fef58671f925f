"""Timing launches: graphs of many, on several sets of buffers, for a moment and for seconds."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

#: Sets of buffers that launches take turns on at least, so that none finds in L2 what the one before left there.
LEAST_SETS = 3
#: Bytes that all sets have together at least: several times the L2 of any chip.
ROTATION = 1 << 29
REPLAYS = 21
#: Of a sustained measurement.
SECONDS = 2.0
#: Seconds without work before a burst: what ran before has left the chip at its power limit, where it lowers its clock.
PAUSE = 0.1

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one call."""

    median: float
    low: float
    high: float
    method: str


@dataclass(frozen=True, slots=True)
class Sustained:
    """The result of two seconds of nothing else, and the state of the chip in the second of them."""

    #: Of one call.
    seconds: float
    #: Medians of what nvidia-smi says; None where it does not say.
    sm_megahertz: float | None
    watts: float | None


def count_sets(bytes_of_set: int) -> int:
    """How many sets of buffers a measurement takes."""
    return max(LEAST_SETS, -(-ROTATION // bytes_of_set))


def import_torch() -> Any:
    """torch, which measuring alone needs."""
    import torch

    return torch


def capture_graph(calls: Sequence[Call], least: int = 8) -> tuple[Any, int] | None:
    """A CUDA graph of calls in turn, each set as often as the others and `least` in all, and their number; None where they
    cannot be captured."""
    torch = import_torch()
    for call in calls:
        call()
    torch.cuda.synchronize()
    launches = [*calls] * -(-least // len(calls))
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for call in launches:
                call()
    except Exception:
        torch.cuda.synchronize()
        return None
    return graph, len(launches)


def measure(calls: Sequence[Call], *, capture: bool = True, replays: int = REPLAYS, rest: bool = True) -> Timing:
    """The time of one call: `calls` do the same on different buffers. rest: let the chip cool down first."""
    torch = import_torch()
    calls[0]()
    captured = capture_graph(calls) if capture else None
    times = []
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    torch.cuda.synchronize()
    time.sleep(PAUSE if rest else 0)
    for i in range(replays + 3):
        events[0].record()
        if captured is not None:
            captured[0].replay()
        else:
            calls[i % len(calls)]()
        events[1].record()
        events[1].synchronize()
        times.append(events[0].elapsed_time(events[1]) * 1e-3 / (captured[1] if captured is not None else 1))
    low, median, high = statistics.quantiles(times[3:], n=4)
    sets = f"{len(calls)} sets of buffers"
    how = f"graph of {captured[1]} launches, {sets}" if captured is not None else f"events, call by call, {sets}"
    return Timing(median, low, high, how)


def _read_numbers(text: str) -> list[tuple[float, float]]:
    found = []
    for line in text.splitlines():
        try:
            clock, power = (float(part) for part in line.split(","))
        except ValueError:
            continue
        found.append((clock, power))
    return found


def measure_sustained(calls: Sequence[Call], seconds: float = SECONDS) -> Sustained | None:
    """The time of one call while nothing else runs for some seconds: the median over the second half. None where the calls
    cannot be captured."""
    torch = import_torch()
    captured = capture_graph(calls)
    if captured is None:
        return None
    graph, launches = captured
    query = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "--id=0", "-lms", "100"]
    try:
        watch = subprocess.Popen(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        watch = None
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    start, times = time.perf_counter(), []
    while time.perf_counter() - start < seconds:
        events[0].record()
        for _ in range(16):
            graph.replay()
        events[1].record()
        events[1].synchronize()
        times.append(events[0].elapsed_time(events[1]) * 1e-3 / (16 * launches))
    said = ""
    if watch is not None:
        watch.terminate()
        said = watch.communicate()[0]
    seen = _read_numbers(said)
    seen = seen[len(seen) // 2 :]
    return Sustained(
        statistics.median(times[len(times) // 2 :]),
        statistics.median(c for c, _ in seen) if seen else None,
        statistics.median(w for _, w in seen) if seen else None,
    )
