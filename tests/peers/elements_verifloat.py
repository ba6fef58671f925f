"""VeriFloat as a witness: numbers rounded to elements, and MX and NVFP4 blocks in its exact recipe and in ModelOpt's.

    python -m tests.peers.elements_verifloat [--json reports/elements/verifloat.json]

Needs verifloat and Python 3.12; no GPU. Of blocks the sign of zeros is not compared: VeriFloat's numbers are fractions, which have no -0.
Exit code 1 where something else differs that is not explained here.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.formats import ELEMENTS, get_block
from mxspec_lab.evidence.status import stamp
from mxspec_vectors.writing import write_file

Array = npt.NDArray[Any]
#: Rounding -> VeriFloat's name.
MODES = {"rne": "RNE", "rna": "RNA", "rtz": "RTZ", "rtn": "RDN", "rtp": "RUP"}
#: Element -> exponent bits, mantissa bits, what VeriFloat calls its NaN and infinities.
FORMATS: dict[str, tuple[int, int, Any]] = {
    "e2m1": (2, 1, False), "e2m3": (2, 3, False), "e3m2": (3, 2, False), "e4m3": (4, 3, "fn"), "e5m2": (5, 2, True),
}  # fmt: skip
BLOCKS = {"mxfp4": "e2m1", "mxfp6_e2m3": "e2m3", "mxfp6_e3m2": "e3m2", "mxfp8_e4m3": "e4m3", "mxfp8_e5m2": "e5m2"}
#: An attribute of VeriFloat and the profiles that it follows.
NVFP4 = (("NVFP4", "nvfp4-exact"), ("NVFP4_MODELOPT", "modelopt-0.47/nvfp4/dynamic"))


def describe(what: str, compared: int, differ: int, why: str = "") -> dict[str, Any]:
    """A row; why: the reason for every difference."""
    return {"what": what, "compared": compared, "differ": differ} | ({"why": why} if why else {})


def make_format(element: str, mode: str = "rne", *, saturate: bool = True) -> Any:
    """VeriFloat's format of an element."""
    import verifloat

    exponent, mantissa, special = FORMATS[element]
    return verifloat.FPFormat(exponent, mantissa, inf_nan=special, saturate=saturate, rounding=getattr(verifloat.Rounding, MODES[mode]))


def list_inputs(element: str) -> Array:
    """Every float16 and bfloat16; each threshold of the element's numbers and midpoints in float32, and its neighbours."""
    half = np.arange(65536).astype(np.uint16)
    values = np.unique(mxspec.decode(np.arange(ELEMENTS[element].code_count).astype(np.uint8), element).astype(np.float64))
    values = values[np.isfinite(values)]
    at = np.concatenate([values, (values[1:] + values[:-1]) / 2, [values[-1] * 17 / 16, values[0] * 17 / 16]]).astype(np.float32)
    wide = [half.view(t).astype(np.float32) for t in (np.float16, ml_dtypes.bfloat16)]
    near = [np.nextafter(at, np.float32(d)) for d in (-np.inf, np.inf)]
    x = np.concatenate([*wide, at, *near])
    return x[np.isfinite(x) | (FORMATS[element][2] is not False) & np.isinf(x)]


def compare_elements() -> Iterator[dict[str, Any]]:
    """Encoding in every mode, saturating or not, and decoding."""
    import verifloat

    for element, (_, _, special) in FORMATS.items():
        x = list_inputs(element)
        for mode in MODES:
            for saturate in (True, False) if special else (True,):
                theirs = verifloat.FPArray(x.astype(np.float64), make_format(element, mode, saturate=saturate)).to_numpy("raw")
                ours = mxspec.encode(x, element, rounding=mode, overflow="saturate" if saturate else "own")  # type: ignore[arg-type]
                name = f"encode {element}, {mode}, overflow {'saturates' if saturate else 'is NaN or infinite'}"
                yield describe(name, len(x), int((theirs != ours).sum()))
        codes = np.arange(ELEMENTS[element].code_count).astype(np.uint8)
        theirs = verifloat.FPArray.from_raw(codes.tolist(), make_format(element)).to_numpy("value")
        ours = mxspec.decode(codes, element).astype(np.float64)
        yield describe(f"decode {element}", len(codes), int((~((theirs == ours) | np.isnan(theirs) & np.isnan(ours))).sum()))


def list_blocks(count: int) -> Array:
    """Maxima of every binade, half of them next to a number of few bits; other numbers up to twelve binades below."""
    draw = np.random.default_rng(3)
    exponent = draw.integers(-149, 128, count)
    top = np.ldexp(draw.choice([1, 1.25, 1.5, 1.75, 1.875, 1.9375, 1.96875, 1.9921875], count), exponent).astype(np.float32)
    near = np.nextafter(top, np.where(draw.random(count) < 0.5, np.float32(0), np.float32(np.inf)))
    top = np.where((draw.random(count) < 0.5) & np.isfinite(near), near, top)
    x = np.ldexp(draw.integers(0, 512, (count, 32)) / 256, exponent[:, None] - draw.integers(0, 12, (count, 32))).astype(np.float32)
    x = np.minimum(x, top[:, None])
    x[:, 5] = top
    x[::97] = 0
    return x * draw.choice([-1, 1], x.shape).astype(np.float32)


def equal_but_zeros(ours: Array, theirs: Array, fmt: str) -> Array:
    """Codes that are the same, or both a zero."""
    low = np.uint8(2 ** (get_block(fmt).element.bits - 1) - 1)
    return (ours == theirs) | (((ours | theirs) & low) == 0)


def compare_blocks() -> Iterator[dict[str, Any]]:
    """MX blocks against mx-floor; NVFP4 tensors against the exact recipe and ModelOpt's."""
    import verifloat
    from verifloat.blockscale import E8M0, IntFormat

    x = list_blocks(20_000)
    formats = {fmt: make_format(element) for fmt, element in BLOCKS.items()} | {"mxint8": IntFormat(8, frac_bits=6)}
    for fmt, element in formats.items():
        theirs = verifloat.BlockTensor.quantize(x.tolist(), verifloat.BlockFormat(element, 32, E8M0))
        ours = mxspec.quantize(x, fmt, profile="mx-floor")
        codes = (np.array(theirs.elem_raw) & 255).astype(np.uint8)
        same = equal_but_zeros(ours.codes, codes, fmt)
        scales = int((ours.scales.ravel() != np.array(theirs.scale_raw).ravel()).sum())
        lowest = (codes == 0x80) & (ours.codes == 0x81) if fmt == "mxint8" else np.zeros_like(same)
        yield describe(f"{fmt}, mx-floor: scales", len(x), scales)
        yield describe(f"{fmt}, mx-floor: codes", x.size, int((~same & ~lowest).sum()))
        if lowest.any():
            yield describe("mxint8: -2 is the code 80, and 81 in mx-floor", x.size, int(lowest.sum()), "OCP leaves open whether 80 is used")
    draw = np.random.default_rng(5)
    tensors = [(draw.standard_normal((64, 64)) * np.exp2(draw.integers(-s, s + 1, (64, 1)))).astype(np.float32) for s in range(40)]
    for name, profile in NVFP4:
        wrong = 0
        for tensor in tensors:
            theirs = verifloat.BlockTensor.quantize(tensor.tolist(), getattr(verifloat, name))
            ours = mxspec.quantize(tensor, "nvfp4", profile=profile, tensor_scale="auto")
            wrong += int((ours.scales != np.array(theirs.scale_raw)).sum())
            wrong += int((~equal_but_zeros(ours.codes, np.array(theirs.elem_raw).astype(np.uint8), "nvfp4")).sum())
        yield describe(f"nvfp4, {profile}: scales and codes of whole tensors", sum(t.size + t.size // 16 for t in tensors), wrong)


def main(arguments: list[str] | None = None) -> int:
    """Compare; 1 where something differs that has no reason."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    rows = [*compare_elements(), *compare_blocks()]
    for row in rows:
        print(f"{row['differ']:>7} of {row['compared']:>9} differ: {row['what']}")
    if given.json:
        versions = {name: version(name) for name in ("verifloat", "numpy")} | {"python": platform.python_version()}
        document = {"schema": "mxspec-elements-verifloat/1", "versions": versions, "comparisons": rows}
        write_file(given.json, (json.dumps(document, indent=1) + "\n").encode("ascii"))
        stamp(given.json)
    return int(any(row["differ"] for row in rows if "why" not in row))


if __name__ == "__main__":
    sys.exit(main())
