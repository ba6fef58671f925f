"""The module, or the object, that a target's name stands for."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mxspec_conformance.adapters.registry import Adapter, known_adapters
from mxspec_conformance.targets.capabilities import LIBRARY_SUFFIXES
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.targets.sessions import describe_import
from mxspec_conformance.transports.launching import is_stdlib, stdlib_first


def load_target(spec: str, *, stay: bool = False) -> Any:
    """What a target spec names: a known library, a `.py` file, a shared library, or an importable module.

    stay: this process is the target's alone: the folder of its file stays in the search path where it is while the file is
    imported, behind the standard library and before all else. Otherwise it goes to the end.
    Raises TargetError, saying what to do, when it cannot be found or does not import.
    """
    known = known_adapters()
    if spec in known:
        return _load_known(known[spec])
    if not spec:
        raise TargetError("'' names no target; pass a Python file, a module or a known library")
    if "\0" in spec:
        raise TargetError(f"{spec!r} names no target: it holds a NUL")
    path = Path(spec)
    if path.suffix in LIBRARY_SUFFIXES:
        from mxspec_conformance.transports.library import load_library

        return load_library(path)
    if spec.endswith(".py") or path.exists():
        return _load_file(path, stay=stay)
    try:
        return importlib.import_module(spec)
    except ModuleNotFoundError as error:
        if error.name is not None and (spec == error.name or spec.startswith(error.name + ".")):
            close = get_close_matches(spec, known)
            hint = f"did you mean {' or '.join(close)}?" if close else "`mxspec targets` lists them"
            raise TargetError(f"{spec!r} is neither a file, an importable module nor a known library; {hint}") from None
        raise TargetError(f"module {spec} does not import: {error}") from error
    except (Exception, SystemExit) as error:
        raise TargetError(f"module {spec} does not import: {describe_import(error)}") from error


def _load_known(adapter: Adapter) -> Any:
    try:
        return adapter.load()
    except ImportError as error:
        raise TargetError(
            f"{adapter.name} needs {adapter.library.requires}, which does not import here ({error}); install it and try again"
        ) from error


def _load_file(path: Path, *, stay: bool) -> Any:
    if path.is_dir():
        raise TargetError(f"{path} is a folder; pass a Python file, a module or a known library")
    if not path.is_file():
        what = "is no regular file" if path.exists() else "does not exist"
        raise TargetError(f"{path} {what}; pass a Python file, a module or a known library")
    if path.suffix != ".py":
        raise TargetError(
            f"{path} is none of the files that can be judged: .py (Python), {', '.join(LIBRARY_SUFFIXES)} (shared library), "
            ".json or .jsonl (results); a program is judged as 'cmd:PROGRAM ARGUMENTS'"
        )
    name = _module_name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    sys.path.insert(sum(map(is_stdlib, stdlib_first(sys.path))) if stay else 0, folder)
    # Judging writes nothing next to the target: neither its bytecode nor that of the files it imports.
    write_none, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        if error.lineno is None:  # of NUL bytes, which UTF-16 has, nothing says where they are
            raise TargetError(f"{path}: {error.msg}; the file is not valid Python; save it as UTF-8") from error
        raise TargetError(f"{path}, line {error.lineno}: {error.msg}; the file is not valid Python") from error
    except (Exception, SystemExit) as error:
        lost = isinstance(error, ModuleNotFoundError) and Path(str(error.name).partition(".")[0])
        found = lost and (lost.is_dir() or lost.with_suffix(".py").is_file())
        hint = "; it lies in the working folder, which is not on the path: set PYTHONPATH=." if found else ""
        raise TargetError(f"{path} does not import: {describe_import(error)}{hint}") from error
    finally:
        sys.dont_write_bytecode = write_none
        if not stay:  # functions may import their neighbours later
            with contextlib.suppress(ValueError):
                sys.path.remove(folder)
            sys.path.append(folder)
    return module


def _module_name(path: Path) -> str:
    """The file's own name where nothing else has it: then processes that the target starts can import it, too."""
    name = path.stem
    try:
        free = name.isidentifier() and name not in sys.stdlib_module_names and importlib.util.find_spec(name) is None
    except (ImportError, ValueError, AttributeError):
        free = False
    return name if free else f"mxspec_target_{name}"
