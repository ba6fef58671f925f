"""What a failure of an affine function shows: numbers with their bits, and lines that give the expected answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine.formats import AffineFormat


def format_bits(value: npt.NDArray[Any]) -> str:
    """A floating-point number, its value and its bits in hexadecimal digits."""
    width = np.asarray(value).dtype.itemsize
    return f"{float(np.float32(value))!r} ({int(np.asarray(value).view(f'u{width}')):0{2 * width}x})"


def make_snippet(loader: str, case: str, fmt: AffineFormat, what: str) -> str:
    """Python that prints the expected answer of a case of the golden vectors."""
    return "\n".join(
        [
            f"from mxspec_vectors.affine_cases import {loader}",
            f'case = next(c for c in {loader}("{fmt.name}") if c.id == "{case}")',
            f"print({what})",
        ]
    )
