"""An implementation as a program, for tests that are programs.

    COMMAND quantize ROWS COLUMNS X.f32 CODES.u8 SCALES.u8 [TENSOR_SCALE]
    COMMAND dequantize ROWS COLUMNS CODES.u8 SCALES.u8 Y.f32 [TENSOR_SCALE]
    COMMAND tensor_scale ROWS COLUMNS X.f32

Files hold raw numbers, little-endian, row after row; one code to a byte. `tensor_scale` prints a decimal number that reads back to the same
float32. Exit code 2: it was called wrongly.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mxspec.formats import get_block
from mxspec_conformance.scoring.subjects import find_subject

_USAGE = 2


def main(arguments: Sequence[str]) -> int:
    """Run one call of the subject that the first argument names."""
    try:
        name, function, rows, columns, *files = arguments
        subject = find_subject(name)
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
    except (ValueError, KeyError, IndexError, OSError) as error:
        print(f"{type(error).__name__}: {error}\n{__doc__}", file=sys.stderr)
        return _USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
