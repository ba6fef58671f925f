"""Modules of libraries whose package cannot be imported whole: loaded without running any package's `__init__`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import cast
from unittest.mock import MagicMock


def find_package(name: str) -> Path:
    """The folder of an installed package, found without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{name} is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def open_packages(root: Path, *names: str) -> None:
    """Let modules of these packages be imported from `root` without running their `__init__`."""
    for name in names:
        package = types.ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")))]
        sys.modules[name] = package


def load_file(name: str, path: Path) -> types.ModuleType:
    """One file as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class _Stubs(MetaPathFinder, Loader):
    """Finds every module below a prefix that is not listed as real, and makes it of mocks."""

    def __init__(self, prefixes: tuple[str, ...], real: tuple[str, ...]) -> None:
        self.prefixes, self.real = prefixes, real

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        mine = any(fullname == p or fullname.startswith(p + ".") for p in self.prefixes)
        if not mine or fullname in self.real:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        module = MagicMock(name=spec.name)
        module.__name__, module.__spec__, module.__path__ = spec.name, spec, []
        return cast(types.ModuleType, module)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""


def stub_modules(*prefixes: str, real: tuple[str, ...] = ()) -> None:
    """Answer imports below the prefixes with mocks, but for the modules that are `real`.

    For one function of a package that would not import on a machine without its device. A mock in the way of a result would
    show as a difference: nothing that is compared passes through one.
    """
    sys.meta_path.insert(0, _Stubs(prefixes, real))
