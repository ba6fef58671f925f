"""One product over every road: Python here and in a child, C through the header, a program through the harness."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mxspec_conformance import check
from mxspec_conformance.results.report import Verdict
from mxspec_conformance.transports.library import header_path

from tests.transports import EXAMPLES, assert_recorded_agrees, assert_roads_agree

GEMV = EXAMPLES / "c" / "gemv.c"
CC = shutil.which("gcc") or shutil.which("cc")

TARGET = """
import ml_dtypes
import numpy as np

NAME, OPERANDS, OUT_DTYPES = "product", [{"a": "bfloat16", "b": "mxfp4/nibble-low"}, "mxint8 @ mxint8"], ["float32", "bfloat16"]


def numbers(x):
    if not hasattr(x, "codes"):
        return np.asarray(x).astype(np.float32)
    codes = np.asarray(x.codes)
    if x.format == "mxfp4":
        codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(x.shape)
        q = codes.astype(np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    else:
        q = codes.view(np.int8).astype(np.float32) / 64
    scales = np.asarray(x.scales).view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    return q * np.repeat(scales, 32, axis=1)


def matmul(a, b, out_dtype, bias=None):
    dtype = ml_dtypes.bfloat16 if out_dtype == "bfloat16" else np.float32
    y = numbers(a) @ numbers(b).T
    return (y if bias is None else y + np.asarray(bias).astype(np.float32)).astype(dtype)
"""


def test_roads_agree(tmp_path: Path) -> None:
    path = tmp_path / "product.py"
    path.write_text(TARGET)
    here = assert_roads_agree(path)
    assert {r.format for r in here.requirements} == {"bfloat16@mxfp4", "mxint8@mxint8"}
    assert any(r.topic == "epilogue" for r in here.requirements)


def test_a_bundle_holds_products(tmp_path: Path) -> None:
    path = tmp_path / "product.py"
    path.write_text(TARGET)
    assert_recorded_agrees(path, tmp_path)


@pytest.mark.skipif(CC is None, reason="no C compiler (cc or gcc) here: the example in C is not built")
@pytest.mark.parametrize(
    ("broken", "verdict", "words"),
    [
        ("", None, ""),
        ("NEXT_SCALE", Verdict.FAIL, "the scale of the next block of b is used, the first one's for the last"),
        ("LAST_K", Verdict.FAIL, "the last k is dropped"),
        ("HALF_SUMS", Verdict.DEVIATION, "float16 additions"),
    ],
)  # fmt: skip
def test_a_c_kernel_and_its_mistakes(broken: str, verdict: Verdict | None, words: str, tmp_path: Path) -> None:
    library = tmp_path / "gemv.so"
    flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O1", f"-I{header_path().parent}"]
    assert CC is not None
    subprocess.run([CC, *flags, *([f"-DBROKEN_{broken}"] if broken else []), str(GEMV), "-o", str(library), "-lm"], check=True)
    report = check(str(library))
    bad = {r.verdict for r in report.requirements if r.verdict is not Verdict.PASS}
    assert bad == (set() if verdict is None else {verdict})
    assert not words or words in report.formats[0].deviations[0]
