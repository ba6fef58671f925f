"""An implementation as a program, for tests that are programs.

    COMMAND quantize ROWS COLUMNS X.f32 CODES.u8 SCALES.u8 [TENSOR_SCALE]
    COMMAND dequantize ROWS COLUMNS CODES.u8 SCALES.u8 Y.f32 [TENSOR_SCALE]
    COMMAND tensor_scale ROWS COLUMNS X.f32
    COMMAND matmul M N K A_CODES.u8 A_SCALES.u8 B_CODES.u8 B_SCALES.u8 Y.f32 [A_TENSOR_SCALE B_TENSOR_SCALE]

Files hold raw numbers, little-endian, row after row; one code to a byte. `tensor_scale` prints a decimal number that reads back to the same
float32. Exit code 2: it was called wrongly.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mxspec.formats import get_block
from mxspec_conformance.scoring.finding import find_subject
from mxspec_conformance.scoring.products.implementation import ProductImplementation

_USAGE = 2


def main(arguments: Sequence[str]) -> int:
    """Run one call of the subject that the first argument names."""
    try:
        name, function, rows, columns, *files = arguments
        subject = find_subject(name)
        if function == "matmul":
            _multiply(ProductImplementation(subject.build(), subject.format), (int(rows), int(columns), int(files[0])), files[1:])
            return 0
        shape = (int(rows), int(columns))
        scaled = (shape[0], shape[1] // get_block(subject.format).k)
        target = subject.build()
        count = {"quantize": 3, "dequantize": 3, "tensor_scale": 1}[function]
        options = {"tensor_scale": float(files[count])} if len(files) > count else {}
        if function == "quantize":
            codes, scales = target.quantize(np.fromfile(files[0], "<f4").reshape(shape), subject.format, **options)
            Path(files[1]).write_bytes(codes.tobytes())
            Path(files[2]).write_bytes(scales.tobytes())
        elif function == "dequantize":
            codes = np.fromfile(files[0], np.uint8).reshape(shape)
            values = target.dequantize(codes, np.fromfile(files[1], np.uint8).reshape(scaled), subject.format, **options)
            Path(files[2]).write_bytes(values.astype("<f4").tobytes())
        else:
            print(repr(float(target.tensor_scale(np.fromfile(files[0], "<f4").reshape(shape), subject.format))))
    except (ValueError, KeyError, IndexError, OSError, TypeError) as error:
        print(f"{type(error).__name__}: {error}\n{__doc__}", file=sys.stderr)
        return _USAGE
    return 0


def _multiply(product: ProductImplementation, shape: tuple[int, int, int], files: Sequence[str]) -> None:
    """Read both sides, and write the product in float32."""
    m, n, k = shape
    sides = [
        np.fromfile(file, np.uint8).reshape(rows, -1 if number % 2 else k)
        for number, (file, rows) in enumerate(zip(files[:4], (m, m, n, n), strict=True))
    ]
    tensors = dict(zip(("a_tensor_scale", "b_tensor_scale"), (float(x) for x in files[5:]), strict=False))
    Path(files[4]).write_bytes(np.asarray(product.matmul(*sides, **tensors)).astype("<f4").tobytes())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
