"""Affine and sparse sides over every road: Python here and in a child, C through the header, a program through the harness."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from mxspec_conformance import check
from mxspec_conformance.transports.abi import STRUCTURES

from tests.transports import assert_recorded_agrees, assert_roads_agree, build_library

TARGET = """
import ml_dtypes
import numpy as np

NAME = "kinds"
OPERANDS = [{"a": "bfloat16", "b": "int4-g32-zero-bfloat16/words"}, "float16 @ int8-g32-bias-float16", "float32 @ float16-2to4", "float16 @ mxfp4-2to4"]


def place(x):
    kept = np.asarray(x.values if x.codes is None else x.codes)
    nibbles = np.asarray(x.metadata).astype(int)
    dense = np.zeros((x.shape[0], x.shape[1] // 4, 4), kept.dtype)
    for i, places in enumerate((nibbles & 3, nibbles >> 2)):
        np.put_along_axis(dense, places[..., None], kept.reshape(*nibbles.shape, 2)[..., i : i + 1], axis=-1)
    return dense.reshape(x.shape)


def numbers(x):
    if not hasattr(x, "codes"):
        return np.asarray(x).astype(np.float32)
    if x.format.startswith("int4"):
        q = np.stack([np.asarray(x.codes) >> 4 * i & 15 for i in range(8)], axis=-1).reshape(x.shape).astype(np.float32)
        return (q - np.repeat(np.asarray(x.zeros).astype(np.float32), 32, axis=1)) * np.repeat(np.asarray(x.scales).astype(np.float32), 32, axis=1)
    if x.format.startswith("int8"):
        s, b = (np.repeat(np.asarray(part).astype(np.float32), 32, axis=1) for part in (x.scales, x.biases))
        return np.asarray(x.codes).astype(np.float32) * s + b
    if x.format == "float16-2to4":
        return place(x).astype(np.float32)
    q = place(x).view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    return q * np.repeat(np.asarray(x.scales).view(ml_dtypes.float8_e8m0fnu).astype(np.float32), 32, axis=1)


def matmul(a, b, out_dtype):
    with np.errstate(all="ignore"):
        return numbers(a) @ numbers(b).T
"""

KERNEL = r"""
#include <math.h>
#include <string.h>
#include "mxspec_target.h"

static float from_half(uint16_t h) {
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    float value;
    if (exponent == 31)
        value = mantissa ? NAN : INFINITY;
    else
        value = exponent ? ldexpf((float)(1024 + mantissa), exponent - 25) : ldexpf((float)mantissa, -24);
    return h & 0x8000 ? -value : value;
}

MXSPEC_EXPORT int32_t mxspec_abi(void) { return MXSPEC_ABI; }

MXSPEC_EXPORT const char *mxspec_describe(void) {
    return "{\"mxspec\": 1, \"name\": \"kinds\", \"version\": \"1.0\", \"capabilities\": {\"functions\": {\"matmul\": []},"
           " \"products\": [\"float16 @ int4-g32-zero-float16/nibble-low\", \"float16 @ float16-2to4\"]}}";
}

MXSPEC_EXPORT int32_t mxspec_matmul(const mxspec_matmul_call *call) {
    const uint16_t *x = call->a.values;
    const int sparse = call->b_more.metadata != NULL;
    for (int64_t i = 0; i < call->m; i++)
        for (int64_t j = 0; j < call->n; j++) {
            float sum = 0;
            if (sparse) {
                const uint16_t *kept = call->b.values;
                if (call->b_more.metadata_size != call->n * call->k / 4) return MXSPEC_ERROR;
                for (int64_t g = 0; g < call->k / 4; g++) {
                    const int nibble = call->b_more.metadata[j * (call->k / 4) + g], places[2] = {nibble & 3, nibble >> 2};
                    for (int e = 0; e < 2; e++)
                        sum += from_half(x[i * call->k + 4 * g + places[KEPT]]) * from_half(kept[j * (call->k / 2) + 2 * g + e]);
                }
            } else {
                uint16_t scale;
                const uint8_t *zeros = call->b_more.offsets;
                if (call->b.scales_size != call->n * call->k / 16 || call->b_more.offsets_size != call->n * call->k / 32) return MXSPEC_ERROR;
                for (int64_t k = 0; k < call->k; k++) {
                    const uint8_t byte = call->b.codes[(j * call->k + k) / 2];
                    const int64_t group = (j * call->k + k) / 32;
                    memcpy(&scale, call->b.scales + 2 * group, 2);
                    sum += from_half(x[i * call->k + k]) * ((float)((k % 2 ? byte >> 4 : byte & 15) - zeros[group] ZERO) * from_half(scale));
                }
            }
            ((float *)call->values)[i * call->n + j] = sum;
        }
    return MXSPEC_OK;
}
"""


def test_roads_agree(tmp_path: Path) -> None:
    path = tmp_path / "kinds.py"
    path.write_text(TARGET)
    here = assert_roads_agree(path)
    assert {r.format for r in here.requirements} == {
        "bfloat16@int4-g32-zero-bfloat16", "float16@int8-g32-bias-float16", "float32@float16-2to4", "float16@mxfp4-2to4"
    }  # fmt: skip


def test_a_bundle_holds_affine_and_sparse_sides(tmp_path: Path) -> None:
    path = tmp_path / "kinds.py"
    path.write_text(TARGET)
    assert_recorded_agrees(path, tmp_path)


@pytest.mark.parametrize(
    ("kept", "zero", "found"),
    [
        ("e", "", [[], []]),
        ("1 - e", "", [[], ["the two kept of each group of b are exchanged"]]),
        ("e", "- 1", [["the zero points of b are one too large"], []]),
    ],
)
def test_a_c_kernel_is_handed_offsets_and_metadata(kept: str, zero: str, found: list[list[str]], tmp_path: Path) -> None:
    source = tmp_path / "kinds.c"
    source.write_text(KERNEL)
    report = check(build_library(source, tmp_path / "kinds.so", f"KEPT={kept}", f"ZERO={zero}"))
    assert [f.deviations for f in report.formats] == found
    assert report.exit_code == (1 if any(found) else 0)


def test_what_was_appended_lies_behind_all_that_a_library_knew() -> None:
    """A library that was compiled with ABI 2's first header reads the same bytes."""
    known = ctypes.sizeof(ctypes.c_int64) * 3 + 2 * ctypes.sizeof(STRUCTURES["mxspec_operand"]) + 4 * ctypes.sizeof(ctypes.c_void_p) + 8
    assert STRUCTURES["mxspec_matmul_call"].values.offset == known
    assert STRUCTURES["mxspec_matmul_call"].a_more.offset == known + ctypes.sizeof(ctypes.c_void_p)
    assert [name for name, _ in STRUCTURES["mxspec_operand"]._fields_] == [
        "spec", "values", "codes", "codes_size", "scales", "scales_size", "tensor_scale",
    ]  # fmt: skip


def test_smoke_multiplies_every_kind(tmp_path: Path) -> None:
    path = tmp_path / "kinds.py"
    path.write_text(TARGET)
    done = subprocess.run([sys.executable, "-m", "mxspec_conformance", "smoke", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "matmul float16 @ mxfp4-2to4, 16 rows" in done.stdout
