"""What float64 sums and products lack, exactly (error-free transformations).

Sources: D. E. Knuth, The Art of Computer Programming 2, 4.2.2 (sums); T. J. Dekker, "A floating-point technique for extending
the available precision", Numerische Mathematik 18, 1971 (products).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Float64s = npt.NDArray[np.float64]


def sum_errors(a: Float64s, b: Float64s, sums: Float64s) -> Float64s:
    """a + b - sums, where sums = a + b rounded to float64; not finite where a sum overflows."""
    virtual = sums - a
    errors: Float64s = (a - (sums - virtual)) + (b - virtual)
    return errors


def product_errors(x: Float64s, y: Float64s, products: Float64s) -> Float64s:
    """x * y - products, where products = x * y rounded to float64.

    Exact where float64 holds the products of the halves: operands below 2^990, products that are zero or above 2^-900.
    """
    (high_x, low_x), (high_y, low_y) = _split(x), _split(y)
    errors: Float64s = ((high_x * high_y - products) + high_x * low_y + low_x * high_y) + low_x * low_y
    return errors


def _split(x: Float64s) -> tuple[Float64s, Float64s]:
    """Two halves of at most 26 bits, whose sum is x."""
    scaled = x * float((1 << 27) + 1)
    high = scaled - (scaled - x)
    return high, x - high
