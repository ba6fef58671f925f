"""What is computed once a run: by the first test process that needs it, while the others wait."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

#: The environment variable that names the run's folder, which all its processes share.
FOLDER = "MXSPEC_TEST_RUN"
#: Seconds to wait for another process.
PATIENCE = 300


def once(name: str, make: Callable[[], bytes]) -> bytes:
    """The bytes that `make` gives; where several processes run the tests, one of them calls it."""
    root = os.environ.get(FOLDER)
    if root is None:
        return make()
    path = Path(root) / hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    taken, failed = path.with_suffix(".taken"), path.with_suffix(".failed")
    try:
        os.close(os.open(taken, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        deadline = time.monotonic() + PATIENCE
        while not path.exists() and not failed.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        return path.read_bytes() if path.exists() else make()
    try:
        path.with_suffix(".new").write_bytes(make())
        path.with_suffix(".new").replace(path)
    except BaseException:
        failed.touch()
        raise
    return path.read_bytes()
