"""The blind kernels: wrong ones fail, right ones pass; each is what it says, by calls of its own."""

from __future__ import annotations

import pytest

from tests.corpora_blind import KERNELS
from tests.corpora_blind.run import judge, prove


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_what_it_says(name: str) -> None:
    assert prove(KERNELS[name]) is None


@pytest.mark.share(40)
@pytest.mark.all_calls
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_judged_rightly(name: str) -> None:
    found = judge(name)
    assert found["verdict"] == ("found" if KERNELS[name].wrong else "passes"), found["failing"]
