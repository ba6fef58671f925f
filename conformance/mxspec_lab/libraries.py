"""Libraries asked to quantize and to dequantize, in this process or by another interpreter: `python -m mxspec_lab.libraries`.

A call names an adapter, an operation and a format and brings arrays; many calls go to another interpreter in one file.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from mxspec_conformance.adapters.registry import Adapter, known_adapters

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an adapter: `quantize` of float32 [rows, k], `dequantize` of codes [rows, k] and scales, or `version`."""

    adapter: str
    operation: str
    format: str
    arrays: tuple[Array, ...]
    #: The tensor scale in the adapter's own kind.
    tensor_scale: float | None = None


#: Arrays, or why there are none.
Reply = tuple[Array, ...] | str


def answer(calls: Iterable[Call]) -> list[Reply]:
    """The replies of the libraries in this process."""
    loaded: dict[str, Any] = {}
    found: list[Reply] = []
    for call in calls:
        if call.adapter not in loaded:
            loaded[call.adapter] = known_adapters()[call.adapter].load()
        if call.operation == "version":
            found.append((np.array(str(getattr(loaded[call.adapter], "VERSION", ""))),))
            continue
        function = getattr(loaded[call.adapter], call.operation, None)
        if function is None:
            found.append(f"{call.adapter} has no {call.operation}")
            continue
        extra = {} if call.tensor_scale is None else {"tensor_scale": call.tensor_scale}
        try:
            with np.errstate(all="ignore"):
                got = function(*call.arrays, call.format, **extra)
        except Exception as error:  # a library may raise anything for a format or a NaN that it does not take
            found.append(f"{type(error).__name__}: {error}")
            continue
        found.append(tuple(np.asarray(a) for a in (got if isinstance(got, tuple) else (got,))))
    return found


def ask(calls: Sequence[Call], python: str | None = None) -> list[Reply]:
    """The replies of this process, or of another interpreter that can import what this one can.

    Raises subprocess.CalledProcessError where the other one fails.
    """
    if python is None or not calls:
        return answer(calls)
    with tempfile.TemporaryDirectory() as folder:
        asked, replied = Path(folder) / "calls.npz", Path(folder) / "replies.npz"
        _save(asked, [(c.arrays, [c.adapter, c.operation, c.format, c.tensor_scale]) for c in calls])
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        subprocess.run([python, "-m", "mxspec_lab.libraries", str(asked), str(replied)], check=True, env=environment)
        return [text if isinstance(text, str) else arrays for arrays, text in _load(replied)]


def _save(path: Path, rows: Sequence[tuple[tuple[Array, ...], Any]]) -> None:
    held = {f"{i}_{j}": a for i, (arrays, _) in enumerate(rows) for j, a in enumerate(arrays)}
    text = json.dumps([[len(arrays), said] for arrays, said in rows])
    np.savez(path, said=np.frombuffer(text.encode(), np.uint8), **held)  # type: ignore[arg-type]


def _load(path: Path) -> list[tuple[tuple[Array, ...], Any]]:
    with np.load(path) as held:
        said = json.loads(held["said"].tobytes())
        return [(tuple(held[f"{i}_{j}"] for j in range(count)), text) for i, (count, text) in enumerate(said)]


def find_versions(adapters: Iterable[str], interpreters: Mapping[str, str]) -> dict[str, str]:
    """Adapter -> version of its library."""
    by_python: dict[str | None, list[str]] = {}
    for name in adapters:
        by_python.setdefault(interpreters.get(name), []).append(name)
    found = {}
    for python, names in by_python.items():
        for name, reply in zip(names, ask([Call(n, "version", "", ()) for n in names], python), strict=True):
            found[name] = reply if isinstance(reply, str) else str(reply[0])
    return found


class NoInterpreter(click.UsageError, ValueError):
    """A text that names no interpreter of an adapter; commands print it as one message."""


def read_interpreters(given: Sequence[str]) -> Mapping[str, str]:
    """Adapter -> interpreter, of texts such as `torchao=PATH`.

    Raises NoInterpreter, a ValueError, for a text of another form, a name that no adapter has, and what is no program.
    """
    found = {}
    for text in given:
        name, _, path = text.partition("=")
        if name not in known_adapters() or not path:
            raise NoInterpreter(f"{text!r} is not ADAPTER=PYTHON; adapters are {', '.join(known_adapters())}")
        if shutil.which(path) is None:
            raise NoInterpreter(f"{text!r}: {path} is no program; name the Python in which {name} is installed")
        found[name] = path
    return found


def list_here(interpreters: Mapping[str, str]) -> list[Adapter]:
    """The adapters of block formats that can be asked: light ones that are installed here, and those with an interpreter."""
    return [
        a for a in known_adapters().values()
        if a.name in interpreters or (a.library.light and a.library.is_here() and (a.profiles or a.name == "mxspec"))
    ]  # fmt: skip


def main() -> None:
    """Answer a file of calls."""
    asked, replied = map(Path, sys.argv[1:3])
    calls = [Call(name, operation, fmt, arrays, scale) for arrays, (name, operation, fmt, scale) in _load(asked)]
    _save(replied, [((), r) if isinstance(r, str) else (r, None) for r in answer(calls)])


if __name__ == "__main__":
    main()
