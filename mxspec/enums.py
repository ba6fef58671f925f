"""`enum.StrEnum`, which Python 3.10 does not have."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 11):
    from enum import StrEnum
else:
    from enum import Enum

    class StrEnum(str, Enum):
        """Members are their values in every text."""

        __str__ = str.__str__
        __format__ = str.__format__  # type: ignore[assignment]


__all__ = ["StrEnum"]
