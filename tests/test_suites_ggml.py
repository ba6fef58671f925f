"""The adapter of ggml's test program, with a program of the same calls that needs no ggml."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mxspec_conformance.mutants.reference import Reference
from mxspec_conformance.scoring.implementation import Implementation
from mxspec_conformance.scoring.subjects import find_subject

from tests.suites import ggml_quantize_fns as ggml

#: Stands for libggml: type 39 quantizes to nothing but zeros, which the shim must replace.
_LIBRARY = """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
struct traits { const char *name; int64_t block, interleave; size_t size; bool quantized; void (*to)(const void *, float *, int64_t); void (*from)(const float *, void *, int64_t); };
struct cpu { void (*from)(const float *, void *, int64_t); void *dot; int dot_type; int64_t rows; };
static void from(const float *x, void *y, int64_t n) { (void)x; memset(y, 0, (size_t)(n / 32) * 17); }
static void to(const void *x, float *y, int64_t n) { (void)x; memset(y, 0, (size_t)n * 4); }
const struct traits *ggml_get_type_traits(int type) { static struct traits t = {"mxfp4", 32, 0, 17, true, to, from}; (void)type; return &t; }
const struct cpu *ggml_get_type_traits_cpu(int type) { static struct cpu c = {from, 0, 0, 1}; (void)type; return &c; }
"""
#: Stands for the test: 2.5 is a tie that goes to 2, in the second half of the second block.
_TEST = """
#include <stdio.h>
#include <string.h>
int main(void) {
  float x[64] = {4}, y[64];
  unsigned char q[34];
  if (ggml_get_type_traits(8)->block != 0) return 2;
  x[32] = 4, x[32 + 20] = 2.5f;
  ggml_get_type_traits_cpu(39)->from(x, q, 64);
  ggml_get_type_traits(39)->to(q, y, 64);
  printf("%g\\n", y[52]);
  return !(q[0] == 127 && q[17] == 127 && q[18 + 4] >> 4 == 4 && y[0] == 4 && y[52] == 2);
}
"""


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler")
def test_a_program_takes_the_place_of_ggmls_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = _LIBRARY[: _LIBRARY.index("static void from")]
    declared += "const struct traits *ggml_get_type_traits(int);\nconst struct cpu *ggml_get_type_traits_cpu(int);\n"
    (tmp_path / "ggml.c").write_text(_LIBRARY, "ascii")
    (tmp_path / "test.c").write_text(declared + _TEST, "ascii")
    subprocess.run(["cc", "-shared", "-fPIC", "ggml.c", "-o", "libggml.so"], cwd=tmp_path, check=True)
    subprocess.run(["cc", "test.c", "-L.", "-lggml", f"-Wl,-rpath,{tmp_path}", "-o", "test"], cwd=tmp_path, check=True)
    monkeypatch.setenv("GGML_TEST", str(tmp_path / "test"))
    ggml.quantize_fns(Implementation(Reference("mx-floor"), "mxfp4"))
    with pytest.raises(AssertionError, match="3"):
        ggml.quantize_fns(Implementation(find_subject("mutant/quantize/mxfp4/mx-floor/ties-away").build(), "mxfp4"))


@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_structs_hold_scales_then_halves_of_blocks(fmt: str) -> None:
    rng = np.random.default_rng(4)
    k = 32 if fmt == "mxfp4" else 16
    codes, scales = rng.integers(0, 16, (8, k), dtype=np.uint8), rng.integers(0, 256, 8, dtype=np.uint8)
    data = ggml.pack(codes, scales, fmt)
    assert len(data) == (8 * 17 if fmt == "mxfp4" else 2 * 36)
    assert data[0] == scales[0]
    assert data[1 if fmt == "mxfp4" else 4] == codes[0, 0] | codes[0, k // 2] << 4
    back = ggml.unpack(data, fmt)
    assert (back[0] == codes).all()
    assert (back[1][:, 0] == scales).all()
