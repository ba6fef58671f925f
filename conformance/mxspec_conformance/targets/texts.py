"""The only place where a target's texts are accepted: they are data, whatever they say.

What XML 1.0 cannot hold, UTF-8 cannot spell or terminals obey is replaced; what is too long is cut and says so.
"""

from __future__ import annotations

import re
from typing import Any

_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
#: A carriage return writes over the line that it is in.
_RETURNS = re.compile("\r\n?")
#: Characters of a message, of its details, of a name, and of what is printed at once.
MESSAGE, DETAIL, NAME, PRINTED = 2000, 8000, 120, 100_000
#: Characters that a remark about a cut may have.
_REMARK = 40
#: Members of an object or an array, and depth: of what a target says of its surroundings.
_MEMBERS, _DEPTH = 1000, 8


def clean_text(text: str, limit: int = MESSAGE) -> str:
    """A text without what documents and terminals cannot hold, cut to `limit` characters and a remark where it is longer.

    What was cut once is not cut again by the same limit.
    """
    length = str.__len__(text)
    if length <= limit + _REMARK:
        limit = length
    cut = str.__getitem__(text, slice(limit))  # a subclass of str is the target's code
    shown = _FORBIDDEN.sub("\ufffd", _RETURNS.sub("\n", cut))
    return shown if length <= limit else f"{shown} ... ({length} characters)"


def clean_name(text: str, limit: int = NAME) -> str:
    """The same on one line."""
    return " ".join(clean_text(text, limit).split())


def plain_text(text: str) -> str:
    """A text with 0 for each number: targets put shapes and counts into their messages."""
    return re.sub(r"\d+", "0", text)


def name_with_article(value: object) -> str:
    """The type of a value behind its article, by the sound with which it begins: an ndarray, a list."""
    name = type(value).__name__
    return f"{'an' if re.match('[aeio]|nd', name, re.IGNORECASE) else 'a'} {name}"


def clean_json(value: Any, depth: int = _DEPTH) -> Any:
    """What a target says as JSON, of unknown size: keys and texts as names, numbers as they are, the rest as text."""
    if isinstance(value, str):
        return clean_name(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if depth and isinstance(value, dict):
        return {clean_name(str(k)): clean_json(v, depth - 1) for k, v in list(value.items())[:_MEMBERS]}
    if depth and isinstance(value, (list, tuple)):
        return [clean_json(v, depth - 1) for v in value[:_MEMBERS]]
    return clean_name(str(value))
