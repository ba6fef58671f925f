"""Arm TOSA's conformance tests of CAST_TO_BLOCK_SCALED, judged by its own `tosa_verify`: a test for `mxspec score-tests`.

TOSA_TESTS is a folder of tests with the reference model's results, TOSA_VERIFY the program; README.md beside this file says how to make them.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np


def cast_to_block_scaled(quantize: Any) -> None:
    """Every test whose input the folder holds; result-0 are the codes, two to a byte, the first low, and result-1 the scales."""
    verify = os.environ.get("TOSA_VERIFY", "tosa_verify")
    tests = sorted(Path(os.environ["TOSA_TESTS"]).rglob("desc.json"))
    assert tests, "no test in TOSA_TESTS"
    for desc in tests:
        folder = desc.parent
        x, ref_codes, ref_scales = (np.load(folder / n) for n in ("input-0.npy", "ref-result-0.npy", "ref-result-1.npy"))
        codes, scales = quantize(x.reshape(-1, x.shape[-1]))
        with tempfile.TemporaryDirectory() as made:
            files = [str(Path(made) / n) for n in ("codes.npy", "scales.npy")]
            packed = codes[:, ::2] | codes[:, 1::2] << 4
            np.save(files[0], packed.reshape(*ref_codes.shape[:-1], -1))
            np.save(files[1], scales.reshape(ref_scales.shape).view(ml_dtypes.float8_e8m0fnu))
            wanted = [str(folder / n) for n in ("ref-result-0.npy", "ref-result-1.npy")]
            command = [
                verify, "--test_desc", str(desc), "--ofm_name", "result-0", "--imp_result_file", ",".join(files), "--ref_result_file", ",".join(wanted),
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{folder.name}: {(done.stdout + done.stderr).strip()[-300:]}"
