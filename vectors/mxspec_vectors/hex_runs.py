"""Hex of bytes with runs written short: `ff(00*511)` is one byte ff and 511 bytes 00."""

from __future__ import annotations

import re
from itertools import groupby

from mxspec_vectors.document import VectorError

_TOKEN = re.compile(r"([0-9a-f]{2})|\(([0-9a-f]{2})\*([0-9]+)\)")


def shorten_runs(text: str) -> str:
    """Hex of bytes with each run written as `(byte*count)` where that is shorter."""
    parts = []
    for byte, run in groupby(text[i : i + 2] for i in range(0, len(text), 2)):
        count = len(list(run))
        short = f"({byte}*{count})"
        parts.append(short if len(short) < 2 * count else byte * count)
    return "".join(parts)


def write_out_runs(text: str) -> str:
    """The inverse of `shorten_runs`.

    Raises VectorError for anything else.
    """
    parts, end = [], 0
    for found in _TOKEN.finditer(text):
        if found.start() != end:
            break
        byte, repeated, count = found.groups()
        parts.append(byte or repeated * int(count))
        end = found.end()
    if end != len(text):
        raise VectorError(f"{text[end : end + 20]!r} is neither a byte in hex nor a run of one")
    return "".join(parts)
