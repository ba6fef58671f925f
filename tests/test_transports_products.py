"""One product over every road: Python here and in a child, C through the header, a program through the harness."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mxspec_conformance import Report, check
from mxspec_conformance.results.report import Verdict
from mxspec_conformance.transports.library import header_path

ROOT = Path(__file__).parents[1]


GEMV = ROOT / "conformance/examples/c/gemv.c"
HARNESS = ROOT / "conformance/examples/python/harness.py"
CC = shutil.which("gcc") or shutil.which("cc")

TARGET = '''
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
'''


#: Topics with calls about memory and threads, which only a target of this machine's can be asked.
LOCAL_TOPICS = ("memory", "state")


def verdicts(report: Report) -> dict[str, tuple[Verdict, int, int]]:
    counted = {r.id: r.topic not in LOCAL_TOPICS for r in report.requirements}
    return {r.id: (r.verdict, r.cases if counted[r.id] else 0, r.failing) for r in report.requirements}


def test_roads_agree(tmp_path: Path) -> None:
    path = tmp_path / "product.py"
    path.write_text(TARGET)
    here = check(str(path), in_process=True)
    assert here.exit_code == 0, [r for r in here.requirements if r.verdict is not Verdict.PASS]
    assert {r.format for r in here.requirements} == {"bfloat16@mxfp4", "mxint8@mxint8"}
    assert any(r.topic == "epilogue" for r in here.requirements)
    assert verdicts(check(str(path))) == verdicts(here)
    assert verdicts(check(f"cmd:{sys.executable} {HARNESS} {path}")) == verdicts(here)


def test_a_bundle_holds_products(tmp_path: Path) -> None:
    path, bundle, results = tmp_path / "product.py", tmp_path / "bundle.jsonl", tmp_path / "results.jsonl"
    path.write_text(TARGET)
    run = [sys.executable, "-m", "mxspec_conformance"]
    subprocess.run([*run, "bundle", "--like", str(path), str(bundle)], check=True, capture_output=True)
    with bundle.open() as lines, results.open("w") as replies:
        subprocess.run([sys.executable, str(HARNESS), str(path)], stdin=lines, stdout=replies, check=True)
    report = check(str(results))
    assert report.exit_code == 0, [r for r in report.requirements if r.verdict is not Verdict.PASS]
    assert verdicts(report) == verdicts(check(str(path), in_process=True))


@pytest.mark.skipif(CC is None, reason="no C compiler")
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
