"""The order in which profiles joined the vectors, so that one that is added comes last whatever its name.

`profile_order.json` lists every profile that ever stood in a vector file; names are appended and never moved. Tables of
profiles stand in this order, and so do the distinct answers of a case, each where its first profile puts it: a new
profile is a new last line, and an answer that only it gives comes after all others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import mxspec
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_vectors.document import VERSION, VectorError

FILE = "profile_order.json"


def order_path() -> Path:
    """Where the list lies."""
    return Path(str(files("mxspec_vectors"))) / FILE


@lru_cache(maxsize=1)
def read_order() -> tuple[str, ...]:
    """The names that joined, first to last.

    Raises VectorError for a damaged list.
    """
    try:
        names = tuple(json.loads(order_path().read_text("ascii"))["profiles"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise VectorError(f"{order_path()} cannot be read ({error}); restore it from version control") from error
    if len(set(names)) != len(names):
        raise VectorError(f"{order_path()} names a profile twice; restore it from version control")
    return names


def sort_profiles(profiles: Iterable[Profile]) -> tuple[Profile, ...]:
    """Profiles in the order in which they joined; those that have not joined yet last, in the order given."""
    place = {name: number for number, name in enumerate(read_order())}
    return tuple(sorted(profiles, key=lambda p: place.get(p.id, len(place))))


def list_joined(fmt: str | BlockFormat) -> tuple[Profile, ...]:
    """The registered profiles of a block format, in the order in which they joined."""
    return sort_profiles(mxspec.list_profiles(fmt))


def extend_order(names: Sequence[str]) -> tuple[str, ...]:
    """The list with those of `names` appended that it does not hold yet."""
    known = read_order()
    return (*known, *(n for n in dict.fromkeys(names) if n not in known))


def render_order(names: Sequence[str]) -> bytes:
    """The list's canonical bytes, a name to a line."""
    head = f'{{\n "schema": "mxspec-vectors/{VERSION}/profile-order",\n "profiles": [\n  '
    return (head + "\n ,".join(json.dumps(name) for name in names) + "\n ]\n}\n").encode("ascii")
