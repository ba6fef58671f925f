"""The sides on which a mistake may be made."""

from __future__ import annotations

#: The sides, and how they are called.
SIDES = (("b", "b"), ("a", "a"), ("ab", "a and b"))
