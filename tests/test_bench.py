"""`python -m mxspec_lab bench`: rows of threads, and of ggml's functions, which are measured where there is a library."""

from __future__ import annotations

import numpy as np
import pytest

import mxspec
from mxspec import fast
from mxspec_lab import bench


def test_a_row_of_one_thread_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int | None] = []

    def prepare(x: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> bench.Run:
        def run() -> mxspec.BlockTensor:
            seen.append(fast.most_threads)
            return mxspec.quantize(x, "mxfp4")

        return run

    x = np.ones((32, 32), np.float32)
    row = bench.run_case(bench.Case("one", prepare, 2.4, 1), x, np.zeros_like(x), 1)
    assert set(seen) == {1}
    assert fast.most_threads is None
    assert row["met"] == (row["ratio"] * 2.4 >= 1)


def test_most_threads_are_kept_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "most_threads", 2)
    assert [fast._thread_count(n) for n in (0, 1, 2, 50)] == [1, 1, 2, 2]


def test_ggml_is_measured_or_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MXSPEC_GGML_LIBRARY", raising=False)
    x = np.ones((32, 32), np.float32)
    for case in bench.GGML:
        row = bench.run_other(case, x, np.zeros_like(x), 1)
        assert ("reason" in row) != ("ratio" in row)
        if ", C," in case.what:
            assert "MXSPEC_GGML_LIBRARY" in row["reason"]
