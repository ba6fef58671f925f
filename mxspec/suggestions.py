"""What may have been meant by an unknown name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

#: Names that a message lists at most.
_MOST = 6


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """ "did you mean a or b?" with names like the one given, or that begin as it does; "" where none is.

    For people: names are compared without case, "_" and "-" are the same.
    """
    if not isinstance(given, str) or not given:
        return ""
    plain = {name: _plain(name) for name in known}
    wanted = _plain(given)
    found = [name for name, text in plain.items() if text.startswith(wanted) or text.rpartition("-")[2] == wanted]
    if not found:
        close = get_close_matches(wanted, plain.values(), n=3)
        found = sorted((name for name, text in plain.items() if text in close), key=lambda n: close.index(plain[n]))
    if not found:
        return ""
    shown = found[:_MOST]
    listed = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"
    return f"did you mean {listed}?" if len(found) <= _MOST else f"did you mean {', '.join(shown)} or one of {len(found) - _MOST} more?"


def refuse_name(given: object, text: str, known: Iterable[str] = ()) -> ValueError | TypeError:
    """The error of a name that there is not: its text, and what may have been meant. What is no text at all is a TypeError."""
    suggested = did_you_mean(given, known)
    text = f"{text}; {suggested}" if suggested else text
    return ValueError(text) if isinstance(given, str) else TypeError(text)


def _plain(name: str) -> str:
    return name.casefold().replace("_", "-")


def matches_short(short: str, full: str) -> bool:
    """Whether a profile's id is meant by a short name: its library without the version, then any of its parts in order.

    `torchao` and `torchao/rceil` both mean `torchao-0.18/mxfp4/rceil/eager`; `torchao-0.18` does, too.
    """
    library, *parts = full.split("/")
    first, *wanted = short.split("/")
    if first.casefold() not in (library.casefold(), re.sub(r"-\d[\w.]*$", "", library).casefold()) or not parts:
        return False
    rest = iter(parts)
    return all(any(part == w for part in rest) for w in wanted)
