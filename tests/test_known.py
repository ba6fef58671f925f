"""Libraries that need neither a GPU nor torch equal the profiles that describe them, on every case of the vectors."""

from __future__ import annotations

import numpy as np
import pytest

from mxspec_conformance.adapters.registry import Adapter, known_adapters
from mxspec_lab.crosscheck import compare_all

LIGHT = [a for a in known_adapters().values() if a.library.light and a.profiles]


@pytest.mark.parametrize("adapter", LIGHT, ids=lambda a: a.name)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the libraries' own overflows are part of what is compared
def test_library_equals_its_profiles(adapter: Adapter, capsys: pytest.CaptureFixture[str]) -> None:
    if not adapter.library.is_here():
        pytest.skip(f"{adapter.library.requires} is not installed")
    with np.errstate(all="ignore"):
        comparisons = compare_all(adapter, adapter.load())
    with capsys.disabled():
        print()
        for c in comparisons:
            print(f"  {c.target} {c.format} {c.operation} {c.dtype} = {c.profile}: {c.blocks} blocks; refused {c.reasons or 0}")
    assert comparisons
    assert all(c.blocks > 100 for c in comparisons)
    assert not [c.first for c in comparisons if c.different]
