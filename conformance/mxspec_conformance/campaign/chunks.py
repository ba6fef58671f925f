"""Numbers of chunks as text: how published results say which parts of a complete domain they cover."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: The most chunks that a domain has: 2**32 inputs in chunks of 2**24.
MOST_CHUNKS = 256


def format_chunks(numbers: Iterable[int]) -> str:
    """0-3,5,7-9."""
    parts: list[list[int]] = []
    for n in sorted(numbers):
        if parts and parts[-1][1] == n - 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def parse_chunks(text: str) -> list[int]:
    """Chunk numbers from `all`, or from a list such as 0,5-9.

    Raises ValueError for anything else.
    """
    if text == "all":
        return list(range(MOST_CHUNKS))
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if not match or int(match[2] or match[1]) >= MOST_CHUNKS:
            raise ValueError(f"chunks {text!r}: {part!r} is not a number or a range of numbers from 0 to {MOST_CHUNKS - 1}")
        numbers.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(numbers)
