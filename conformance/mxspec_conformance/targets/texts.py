"""The one door through which a target's texts come in: they are data, whatever they say.

What XML 1.0 cannot hold, UTF-8 cannot spell or terminals obey is replaced; what is too long is cut and says so.
"""

from __future__ import annotations

import re

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
#: Characters of a message, of its details, and of a name.
MESSAGE, DETAIL, NAME = 2000, 8000, 120


def clean_text(text: str, limit: int = MESSAGE) -> str:
    """A text of at most `limit` characters, without what documents and terminals cannot hold."""
    cut = text if len(text) <= limit else f"{text[:limit]} ... ({len(text)} characters)"
    return _FORBIDDEN.sub("\ufffd", cut)


def clean_name(text: str, limit: int = NAME) -> str:
    """The same on one line."""
    return " ".join(clean_text(text, limit).split())
