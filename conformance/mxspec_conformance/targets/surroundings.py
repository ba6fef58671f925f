"""What a loaded target runs on: its device, and the libraries that it has imported."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions, version
from pathlib import Path
from typing import Any

from mxspec_conformance.targets.capabilities import Capabilities


def describe_surroundings(module: Any, capabilities: Capabilities) -> dict[str, Any]:
    """The device that a loaded target computes on and the libraries that it has imported, as far as it can be seen."""
    described = getattr(module, "MXSPEC_SURROUNDINGS", None)
    if described is not None:
        return dict(described)
    found: dict[str, Any] = {}
    device = _name_device(capabilities)
    if device is not None:
        found["device"] = device
    libraries = _list_libraries(module)
    if libraries:
        found["libraries"] = libraries
    return found


def list_loaded() -> str:
    """The files of the modules and, where /proc tells, of the native libraries that this process has loaded, a line each."""
    found = {file for module in list(sys.modules.values()) if isinstance(file := getattr(module, "__file__", None), str)}
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/maps").read_text("utf-8", "surrogateescape").splitlines()
        found.update(path for line in lines if (path := line.partition("/")[1] + line.partition("/")[2]).startswith("/") and ".so" in path)
    return "\n".join(sorted(str(Path(file).resolve()) for file in found if "\n" not in file)).encode("ascii", "replace").decode("ascii")


def _name_device(capabilities: Capabilities) -> str | None:
    if capabilities.arrays == "cupy":
        import cupy

        number = int((capabilities.device or "").rpartition(":")[2] or cupy.cuda.runtime.getDevice())
        name: str = cupy.cuda.runtime.getDeviceProperties(number)["name"].decode()
        return name
    if capabilities.arrays == "torch" and capabilities.device is not None and "cuda" in capabilities.device:
        import torch

        return str(torch.cuda.get_device_name(torch.device(capabilities.device)))
    return capabilities.device


def _list_libraries(module: Any) -> dict[str, str]:
    """Distributions of the packages that the target's own module names, with their versions."""
    used = set()
    for value in vars(module).values() if hasattr(module, "__dict__") else ():
        owner = getattr(value, "__name__", "") if type(value) is type(sys) else getattr(value, "__module__", None)
        if isinstance(owner, str) and owner:
            used.add(owner.partition(".")[0])
    used -= set(sys.stdlib_module_names) | {"mxspec_conformance", "mxspec", "numpy", "ml_dtypes", "builtins"}
    if "-packages" not in str(getattr(module, "__file__", "")):  # a file of no distribution: no need to look for its own
        used.discard(str(getattr(module, "__name__", "")))
    if not used:
        return {}
    distributions = _list_distributions()
    found = {}
    for package in sorted(used):
        for name in distributions.get(package, ()):
            with contextlib.suppress(PackageNotFoundError):
                if _is_of(package, distribution(name)):
                    found[name] = version(name)
    return found


@cache
def _list_distributions() -> Mapping[str, list[str]]:
    """Distributions by package; read once, as it takes longer than all else here."""
    return packages_distributions()


def _is_of(package: str, owner: Distribution) -> bool:
    """Whether the package that was imported is the distribution's, and not another one of that name."""
    module = sys.modules.get(package)
    here = next(iter(getattr(module, "__path__", ())), None) or getattr(module, "__file__", None)
    if here is None:
        return True
    if Path(here).resolve().parent == Path(str(owner.locate_file(package))).resolve().parent:
        return True
    return '"editable": true' in (owner.read_text("direct_url.json") or "")
