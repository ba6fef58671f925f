"""The floating-point environment: round to nearest even, subnormal numbers kept. In any other one the bits are not the profile's.

A library that was built with -ffast-math may set flush-to-zero for the whole thread when it is loaded; `fesetround` changes
the direction of rounding. On x86 and ARM one register of the thread rules scalar and vector arithmetic of every width, NumPy's
too, so that a few operations on Python's floats show what NumPy would do.
"""

from __future__ import annotations

import struct

# Variables, since Python computes with constants when it compiles; by their bits, since powers may be rounded or flushed.
_ONE, _HALF, _TWO = 1.0, 0.5, 2.0
#: The smallest normal number, and the smallest subnormal one.
_LEAST, _SUBNORMAL = struct.unpack("<2d", bytes([0, 0, 0, 0, 0, 0, 0x10, 0, 1, 0, 0, 0, 0, 0, 0, 0]))
#: Less than half of what lies between 1 and its neighbours.
_SLIVER = 2.0**-60


class FloatEnvironmentError(FloatingPointError):
    """The thread's floating-point environment is not IEEE 754's default, and the model would return other bits."""


def check_environment() -> None:
    """Raise FloatEnvironmentError, saying what was found and what to do, in any environment but the default one.

    About 0.1 microseconds. The environment is the calling thread's own.
    """
    # The operand of the doubling, and the result of the halving, is subnormal; the sum rounds up or the difference down.
    if _LEAST * _HALF * _TWO != _LEAST or _ONE + _SLIVER != _ONE - _SLIVER:
        raise FloatEnvironmentError(
            f"the floating-point environment of this thread was changed: {describe_changes()}; the model computes in round to "
            "nearest even with subnormal numbers kept. Libraries built with -ffast-math change it when they are loaded: load "
            "them in another process, or restore it first (in C: fesetenv(FE_DFL_ENV))"
        )


def describe_changes() -> str:
    """What of this thread's floating-point environment is not IEEE 754's default, in words; empty where all of it is."""
    up, down = _ONE + _SLIVER > _ONE, -_ONE - _SLIVER < -_ONE
    direction = "upward" if up else "downward" if down else "toward zero"
    changes = {
        "subnormal results are flushed to zero": struct.pack("<d", _LEAST * _HALF) == bytes(8),
        "subnormal operands count as zero": _SUBNORMAL / _LEAST == 0,
        f"results are rounded {direction}": _ONE + _SLIVER != _ONE - _SLIVER,
    }
    return ", ".join(words for words, found in changes.items() if found)


check_environment()  # Python keeps the constants that it computes when it compiles, and modules those of their import
