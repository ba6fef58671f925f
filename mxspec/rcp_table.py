"""The measured reciprocal of NVIDIA's `rcp.approx.ftz.f32`: data that both models read."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt


@lru_cache(maxsize=1)
def load_rcp_table() -> npt.NDArray[np.int8]:
    """For each of the 2**23 float32 significands: bits of `rcp.approx.ftz.f32` minus those of the rounded reciprocal.

    Measured on an NVIDIA H200; see `mxspec/data/README.md`.
    """
    from importlib.resources import files  # slow to import, and only this needs it

    with files("mxspec").joinpath("data/rcp_approx_ftz_sm90.npz").open("rb") as file, np.load(file) as archive:
        table: npt.NDArray[np.int8] = archive["d"]
    return table
