"""Libraries that need neither a GPU nor torch equal the profiles that describe them, on every case of the vectors."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from mxspec_lab.crosscheck import compare_all

MODULES = ("gguf_py", "gfloat_py", "mlx_py", "mlx_bf16", "mlx_fp16")


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the libraries' own overflows are part of what is compared
def test_library_equals_its_profiles(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = import_module(f"mxspec_conformance.adapters.{name}")
    with np.errstate(all="ignore"):
        comparisons = compare_all(module)
    with capsys.disabled():
        print()
        for c in comparisons:
            print(
                f"  {c.target} {c.format} {c.operation} {c.dtype} = {c.profile}: {c.blocks} blocks; refused {c.reasons or 0}"
            )
    assert comparisons
    assert all(c.blocks > 100 for c in comparisons)
    assert not [c.first for c in comparisons if c.different]
