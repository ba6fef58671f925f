"""The libraries that the judge has targets for, found in the modules of this package.

A module states its targets as data in the tuple `ADAPTERS`. It imports its library in the function that makes a target and
nowhere else, so that reading what is known imports no library.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from importlib import import_module
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mxspec_conformance import adapters

#: Block format -> id of a profile.
Profiles = Mapping[str, str]

#: The version of torch under which libraries are compared with their profiles.
TORCH = "torch==2.13.0"


@dataclass(frozen=True, slots=True)
class Source:
    """What is not on the package index: an environment variable names it."""

    variable: str
    #: What the variable has to name.
    what: str

    def find(self) -> Path:
        """The path that the variable names.

        Raises ImportError where it is not set.
        """
        path = os.environ.get(self.variable)
        if not path:
            raise ImportError(f"{self.variable} is not set; it has to name {self.what}")
        return Path(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """What has to be installed for some targets."""

    name: str
    #: What to install, in words.
    requires: str
    #: The package that has to be importable.
    imports: str | None = None
    #: The distribution that has to be installed instead, where it holds no Python.
    distribution: str | None = None
    #: Where it is taken from instead.
    source: Source | None = None
    #: What pip installs in the environment in which the library is compared with its profiles.
    packages: tuple[str, ...] = ()
    #: The same, without what these ask for in turn: their requirements would replace torch or bring GPU packages.
    bare_packages: tuple[str, ...] = ()
    #: Needs neither a GPU nor torch; light libraries share one environment.
    light: bool = False
    #: An earlier release of its packages, judged next to the pinned one: what changed between the two is a trend.
    earlier: tuple[str, ...] = ()

    def is_here(self) -> bool:
        """Whether the library can be found; it is not imported."""
        if self.source is not None and self.source.variable in os.environ:
            return True
        if self.distribution is not None:
            return any(True for _ in distributions(name=self.distribution))
        return self.imports is not None and find_spec(self.imports) is not None

    def target(
        self, name: str, about: str, make: Callable[[], Any], profiles: Profiles | Callable[[Any], Profiles] | None = None, **more: Any
    ) -> Adapter:
        """A target of this library; the arguments are fields of `Adapter`."""
        return Adapter(name=name, library=self, about=about, make=make, profiles=profiles or {}, **more)

    @property
    def environment(self) -> str | None:
        """The name of the environment in which it is compared with its profiles, and of the committed result.

        None: it is not compared there.
        """
        if not self.packages and self.source is None:
            return None
        return "light" if self.light else self.name


class Kept(Enum):
    """Which command's results are kept of a target."""

    #: `tests/peers/run_peers.py`: judged, and compared with its profiles, in an environment of its own.
    PEER = "reports/peers"
    #: `tests/peers/products_peers.py`: its products judged and identified.
    PRODUCTS = "reports/products"
    #: This project's own kernels, and libraries on tensors of a GPU (`tests/peers/gpu_peers.py`): judged there.
    GPU = "reports/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """A target: a library in one of its modes."""

    name: str
    library: Library
    about: str
    kept: Kept = Kept.PEER
    #: Makes the target: an object with functions of the interface. Raises ImportError where the library is not here.
    make: Callable[[], Any]
    #: The profiles that it is expected to follow bit for bit, or a function of the target that gives them.
    profiles: Profiles | Callable[[Any], Profiles] = field(default_factory=dict)
    #: The same for calls without a tensor scale, of formats that have one.
    profiles_one_level: Profiles = field(default_factory=dict)
    #: What pip installs to judge it as it is after the pinned release, where that changed: a release that is to come is a trend, too.
    later: tuple[str, ...] = ()
    #: Of a target on a GPU: the name of that on the CPU with which it shares its code.
    counterpart: str = ""

    def load(self) -> Any:
        """The target, under its name.

        Raises ImportError where the library is not here.
        """
        target = self.make()
        target.NAME = self.name
        return target

    def expected_profiles(self, target: Any) -> Profiles:
        """The profiles that the loaded target is expected to follow."""
        return self.profiles(target) if callable(self.profiles) else self.profiles


@cache
def known_adapters() -> Mapping[str, Adapter]:
    """All targets by name: those of light libraries first, then by module."""
    found: list[Adapter] = []
    for module in sorted(m.name for m in pkgutil.iter_modules(adapters.__path__)):
        if not module.startswith("_") and module != "registry":
            found += import_module(f"{adapters.__name__}.{module}").ADAPTERS
    known: dict[str, Adapter] = {}
    for adapter in sorted(found, key=lambda a: not a.library.light):
        if adapter.name in known:
            raise ValueError(f"two adapters are named {adapter.name!r}; choose another name")
        known[adapter.name] = adapter
    return known
