"""The end of an exact product: alpha times a sum, plus a bias, rounded once to bfloat16. Array code for NumPy, torch and CuPy.

`mxspec.dot.finish_product` does it in rationals; here every rounding error is kept as a second float64 (Veltkamp and Dekker), so
that the sign of what is left decides the last bit. A number is rounded to odd before each narrower format.
"""

from __future__ import annotations

from typing import Any

#: 2**27 + 1 splits a float64 into two halves of 26 bits.
_SPLIT = 134217729.0


def _cast(x: Any, dtype: Any) -> Any:
    return x.to(dtype) if hasattr(x, "to") else x.astype(dtype)


def _halve(x: Any) -> tuple[Any, Any]:
    wide = x * _SPLIT
    high = wide - (wide - x)
    return high, x - high


def _add(x: Any, y: Any) -> tuple[Any, Any]:
    """The float64 sum and its error, exactly."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def _multiply(x: Any, y: Any) -> tuple[Any, Any]:
    """The float64 product and its error, exactly; nothing here is so large or small that a part leaves float64's range."""
    product = x * y
    (xh, xl), (yh, yl) = _halve(x), _halve(y)
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


def _step(x: Any, rest: Any, integer: Any, xp: Any) -> Any:
    """x one step toward the side of what is left, where there is something left and x is even: x rounded to odd."""
    bits = x.view(integer)
    # Bits of a float count away from zero.
    outward = (rest > 0) == (x > 0)
    moved = xp.where(outward, bits + 1, bits - 1).view(x.dtype)
    return xp.where((rest != 0) & (bits % 2 == 0) & xp.isfinite(x) & (x != 0), moved, x)


def finish_bfloat16(sums: Any, alpha: Any, bias: Any, xp: Any, bfloat16: Any) -> Any:
    """alpha * sums + bias, correctly rounded.

    Args:
        sums: float64 [m, n]: exact sums, NaN and infinities among them.
        alpha: float64 holding a float32, of shape () or (1,).
        bias: float64 [n] holding bfloat16 numbers, or None.
        xp: The arrays' module: numpy, torch or cupy.
        bfloat16: Its dtype of that name.

    Returns:
        bfloat16 [m, n].
    """
    product, lost = _multiply(sums, alpha)
    if bias is None:
        value, rest = product, lost
    else:
        near, over = _add(product, bias + xp.zeros_like(product))
        more, least = _add(over, lost)
        value, rest = _add(near, more)
        rest = xp.where(rest == 0, least, rest)
    # Where something is no number, float64's own rules give the result, and there is no rest.
    plain = product if bias is None else product + bias
    finite = xp.isfinite(plain)
    value, rest = xp.where(finite, value, plain), xp.where(finite, rest, xp.zeros_like(plain))
    odd = _step(value, rest, xp.int64, xp)
    narrow = _cast(odd, xp.float32)
    rest = odd - _cast(narrow, xp.float64)
    rest = xp.where(xp.isfinite(narrow) & finite, rest, xp.zeros_like(rest))
    return _cast(_step(narrow, _cast(rest, xp.float64), xp.int32, xp), bfloat16)
