"""Arrays and what they mean in one .npz file, written under a temporary name and renamed."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_FACTS = "facts"


def write_arrays(path: str | Path, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> None:
    """Write arrays and facts (as JSON); on any error the file is as it was.

    Raises OSError where the folder cannot be written to.
    """
    place = Path(path)
    text = np.frombuffer(json.dumps(facts).encode("ascii"), np.uint8)
    handle, name = tempfile.mkstemp(prefix=f".{place.name}-", dir=place.parent)
    scratch = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, **{_FACTS: text}, **arrays)
        scratch.chmod(0o644)
        scratch.replace(place)
    finally:
        scratch.unlink(missing_ok=True)


def read_arrays(path: str | Path, names: tuple[str, ...], schema: str) -> tuple[list[npt.NDArray[Any]], dict[str, Any]]:
    """The arrays of these names, and the facts, of a file of `write_arrays` with this schema.

    Raises OSError where the file cannot be read, and ValueError where it is not such a file.
    """
    try:
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            facts = json.loads(bytes(file[_FACTS]).decode("ascii"))
            if facts["schema"] != schema:
                raise ValueError(f"its schema is {facts['schema']!r}")
            return [file[name] for name in names], facts
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a file of {schema} ({error}); pass one that BlockTensor.save wrote") from error
