"""Holds the generated C99 header to the model: `python -m mxspec_lab.c99 [--blocks N] [--add]`.

Every profile of the header is asked about every block of the vectors, and about random blocks; codes, scales and dequantized values must be equal
in every bit. Writes reports/kits/c99.json.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

import mxspec
from mxspec.arrays import rcp_approx
from mxspec.formats import get_block
from mxspec.profiles import get_profile
from mxspec.profiles.schema import Profile
from mxspec.rounding import NanPolicy
from mxspec_conformance.kits.c99 import Code, write_c99
from mxspec_vectors.cases import load_quantize_cases
from mxspec_vectors.files import vector_digest, write_file
from mxspec_vectors.tensor_scales import TensorScales

REPORT = Path(__file__).resolve().parents[2] / "reports" / "kits" / "c99.json"
#: A shared library's doors: many blocks, or elements, of one row of `mx_all`.
_DOORS = """
#include "mxspec_c99.h"
void run_quantize(int row, long n, const uint32_t *x, uint32_t tensor, uint8_t *codes, uint8_t *scales) {
  long i;
  for (i = 0; i < n; i++) mx_quantize(&mx_all[row], x + i * mx_all[row].k, tensor, codes + i * mx_all[row].k, scales + i);
}
void run_dequantize(int row, long n, const uint8_t *codes, const uint8_t *scales, uint32_t tensor, uint32_t *y) {
  long i;
  for (i = 0; i < n; i++) y[i] = mx_dequantize(&mx_all[row], codes[i], scales[i], tensor);
}
void run_reciprocal(long n, const uint32_t *x, uint32_t *y) {
  long i;
  for (i = 0; i < n; i++) y[i] = mx_bits(mx_rcp(mx_f32(x[i])));
}
"""
#: Exponent fields of the reciprocals that are asked for: zeros and subnormal numbers, the ends, 1, results at the least normal number, infinities, NaN.
RECIPROCAL_FIELDS = (0, 1, 127, 252, 253, 254, 255)
FLAGS = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2")


def build(header: Code, folder: Path, flags: Sequence[str] = FLAGS) -> ctypes.CDLL:
    """The header as a shared library. Raises CalledProcessError for what does not compile."""
    (folder / "mxspec_c99.h").write_text(header.text, "utf-8")
    (folder / "doors.c").write_text(_DOORS, "utf-8")
    library = folder / "doors.so"
    subprocess.run(["gcc", *flags, "-shared", "-fPIC", str(folder / "doors.c"), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def _pointer(a: Any) -> Any:
    return a.ctypes.data_as(ctypes.c_void_p)


def quantize(library: ctypes.CDLL, row: int, x: Any, tensor: int) -> tuple[Any, Any]:
    """Codes [n, k] and scales [n] of blocks [n, k]."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    codes, scales = np.zeros(bits.shape, np.uint8), np.zeros(len(bits), np.uint8)
    library.run_quantize(row, ctypes.c_long(len(bits)), _pointer(bits), ctypes.c_uint32(tensor), _pointer(codes), _pointer(scales))
    return codes, scales


def dequantize(library: ctypes.CDLL, row: int, codes: Any, scales: Any, tensor: int) -> Any:
    """float32 bits of pairs of codes and scales."""
    y = np.zeros(len(codes), np.uint32)
    library.run_dequantize(row, ctypes.c_long(len(codes)), _pointer(codes), _pointer(scales), ctypes.c_uint32(tensor), _pointer(y))
    return y


def compare_reciprocal(library: ctypes.CDLL, fields: Sequence[int] = RECIPROCAL_FIELDS) -> dict[str, int]:
    """NVIDIA's approximate reciprocal of all significands under some exponents, either sign, against the model's measured table."""
    found = {"inputs": 0, "differ": 0}
    for field, sign in itertools.product(fields, (0, 1)):
        x = np.arange(1 << 23, dtype=np.uint32) | np.uint32(sign << 31 | field << 23)
        y = np.empty_like(x)
        library.run_reciprocal(ctypes.c_long(len(x)), _pointer(x), _pointer(y))
        with np.errstate(all="ignore"):
            want = rcp_approx(x.view(np.float32))
        found["inputs"] += len(x)
        found["differ"] += int((y != np.where(np.isnan(want), np.uint32(0x7FC00000), want.view(np.uint32))).sum())
    return found


def random_blocks(count: int, k: int, seed: int) -> Any:
    """Blocks of random bits, of which some share an exponent with their maximum so that rounding matters."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 32, (count, k), dtype=np.uint32)
    near = rng.integers(1, 255, (count, 1), dtype=np.int64) - rng.integers(0, 24, (count, k))
    mixed = (bits & np.uint32(0x807FFFFF)) | (np.clip(near, 0, 254).astype(np.uint32) << np.uint32(23))
    coarse = mixed & np.uint32(0xFFF80000)
    kind = rng.integers(0, 8, (count, 1))
    return np.where(kind == 0, bits, np.where(kind < 4, coarse, mixed)).astype(np.uint32).view(np.float32)


def _model(x: Any, profile: Profile, fmt: str, tensor: TensorScales | None) -> tuple[Any, Any]:
    scale = None if tensor is None else tensor.native(profile)
    t = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale)
    return t.codes, t.scales.reshape(-1)


def group_blocks(fmt: str, two_level: bool) -> Iterator[tuple[TensorScales | None, Any]]:
    """The vectors' blocks by tensor scale."""
    groups: dict[TensorScales | None, list[Any]] = {}
    for case in load_quantize_cases(fmt):
        if case.is_row and (case.tensor is not None) == two_level:
            groups.setdefault(case.tensor, []).append(case.x.reshape(-1))
    for tensor, rows in groups.items():
        yield tensor, np.stack(rows)


def refuses_nan(profile: Profile, fmt: str, two_level: bool) -> bool:
    """Whether the profile's stack raises for a NaN; the C header, which cannot, gives a zero."""
    rule = profile.steps(with_tensor_scale=two_level).element
    policy = rule.nan if get_block(fmt).element.nan_code is None else rule.nan_own
    return rule.error is None and policy is NanPolicy.RAISE


def compare(library: ctypes.CDLL, row: int, name: str, fmt: str, two_level: bool, count: int) -> dict[str, Any]:
    """A row of the header against the model."""
    profile, k = get_profile(name, fmt), get_block(fmt).k
    entry: dict[str, Any] = {"profile": name, "format": fmt, "tensor_scale": two_level, "cases": 0, "random": 0, "values": 0, "differ": 0}
    groups = list(group_blocks(fmt, two_level))
    if count:
        tensor = next((t for t, _ in groups if t is not None), None)
        groups += [(tensor, random_blocks(min(1 << 16, count - start), k, row + start)) for start in range(0, count, 1 << 16)]
    random_from = len(list(group_blocks(fmt, two_level)))
    for number, (tensor, x) in enumerate(groups):
        native = 0 if tensor is None else tensor.native(profile).bits
        if refuses_nan(profile, fmt, two_level):
            x = x[np.isfinite(x).all(axis=1)]
        with np.errstate(all="ignore"):
            want = _model(x, profile, fmt, tensor)
        got = quantize(library, row, x, native)
        wrong = (want[0] != got[0]).any(axis=1) | (want[1] != got[1])
        if profile.unspecified_nan_input_scales:
            wrong &= ~np.isnan(x).any(axis=1)
        entry["random" if number >= random_from else "cases"] += len(x)
        entry["differ"] += int(wrong.sum())
        if wrong.any() and "first" not in entry:
            i = int(np.flatnonzero(wrong)[0])
            entry["first"] = {
                "x": [f"{b:08x}" for b in x[i].view(np.uint32).tolist()],
                "tensor": native,
                "got": [int(got[1][i]), got[0][i].tolist()],
                "want": [int(want[1][i]), want[0][i].tolist()],
            }
        if number == 0:
            entry["values"], different = _compare_values(library, row, profile, fmt, tensor, native)
            entry["differ"] += different
    return entry


def _compare_values(
    library: ctypes.CDLL, row: int, profile: Profile, fmt: str, tensor: TensorScales | None, native: int
) -> tuple[int, int]:
    """Every code under every scale byte."""
    block = get_block(fmt)
    width = max(block.element.code_count, block.k)
    bytes_ = np.arange(block.scale.code_count, dtype=np.uint8)
    codes = np.resize(np.arange(block.element.code_count, dtype=np.uint8), (len(bytes_), width))
    scales = np.repeat(bytes_[:, None], width // block.k, axis=1)
    with np.errstate(all="ignore"):
        want = mxspec.dequantize(codes, scales, fmt, profile=profile, tensor_scale=None if tensor is None else tensor.native(profile))
    bits = np.where(np.isnan(want), np.uint32(0x7FC00000), np.asarray(want, np.float32).view(np.uint32))
    got = dequantize(library, row, codes.reshape(-1), np.repeat(bytes_, width), native)
    return codes.size, int((got != bits.reshape(-1)).sum())


@click.command()
@click.option("--blocks", default=1 << 12, show_default=True, help="Random blocks of each profile.")
@click.option("--default-blocks", default=1 << 12, show_default=True, help="Random blocks of each format's default profile.")
@click.option("--write", is_flag=True, help="Write the report.")
@click.option("--add", is_flag=True, help="Ask only about rows that the report does not have; the others keep their results.")
def main(blocks: int, default_blocks: int, write: bool, add: bool) -> None:
    """Compare."""
    header, rows, started = write_c99(), [], time.process_time()
    kept = {(r["profile"], r["format"], r["tensor_scale"]): r for r in json.loads(REPORT.read_text("ascii"))["rows"]} if add else {}
    with tempfile.TemporaryDirectory() as folder:
        library = build(header, Path(folder))
        reciprocal = compare_reciprocal(library)
        for row, (name, fmt, two_level) in enumerate(header.rows):
            if (name, fmt, two_level) in kept:
                rows.append(kept[name, fmt, two_level])
                continue
            default = name in ("mx-floor", "nvfp4-te") and two_level == (fmt == "nvfp4")
            entry = compare(library, row, name, fmt, two_level, default_blocks if default else blocks)
            rows.append(entry)
            if entry["differ"] or default:
                print(json.dumps(entry)[:700], file=sys.stderr, flush=True)
    wrong = [r for r in rows if r["differ"]]
    print(
        f"{len(rows)} profiles and levels, {sum(r['cases'] + r['random'] for r in rows)} blocks, {len(wrong)} differ, {len(header.left_out)} left out"
    )
    print(f"{reciprocal['inputs']} reciprocals, {reciprocal['differ']} differ")
    print(f"{header.text.count(chr(10))} lines, {time.process_time() - started:.0f} s")
    if write:
        document = {
            "schema": "mxspec-c99/1", "vectors": vector_digest(operations=("quantize",)), "lines": header.text.count("\n"), "flags": list(FLAGS),
            "reciprocal": reciprocal, "rows": rows, "left_out": [{"profile": p, "format": f, "why": w} for p, f, w in header.left_out],
        }  # fmt: skip
        write_file(REPORT, (json.dumps(document, indent=1) + "\n").encode("ascii"))
    raise click.exceptions.Exit(1 if wrong or reciprocal["differ"] else 0)


if __name__ == "__main__":
    main()
