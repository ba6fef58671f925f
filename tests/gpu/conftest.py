"""Tests on a GPU: kernels are compiled before the first one, and every comparison is counted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from dataclasses import asdict

import pytest

from tests.gpu.device import ROOT, Tally


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels() -> None:
    """All kernels in the cache, compiled on all cores. In a process of its own: this one has threads, and may not fork."""
    if os.environ.get("MXSPEC_GPU_COMPILED"):  # tests.gpu.differential has done it
        return
    subprocess.run([sys.executable, "-m", "tests.gpu.differential", "--compile"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def tally() -> Tally:
    """Counts a test's comparisons."""
    return Tally()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """A test that counted fails on its differences, and its counts go into the report."""
    yield
    tally = getattr(item, "funcargs", {}).get("tally")
    if isinstance(tally, Tally):
        counts = asdict(tally)
        item.user_properties.append(("tally", counts.pop("more") | counts))
        tally.verify()
