"""A target's own words made fit for documents."""

from __future__ import annotations

import re
from typing import Any

#: What XML 1.0 cannot hold, UTF-8 cannot spell, or terminals obey.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def clean(value: Any) -> Any:
    """JSON with the forbidden characters of all its strings replaced."""
    if isinstance(value, str):
        return _FORBIDDEN.sub("\ufffd", value)
    if isinstance(value, dict):
        return {clean(k): clean(v) for k, v in value.items()}
    return [clean(v) for v in value] if isinstance(value, list) else value
