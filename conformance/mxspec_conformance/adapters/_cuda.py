"""Adapters' targets on an NVIDIA GPU: the code of the targets on the CPU, on another device."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from mxspec_conformance.adapters.registry import Adapter, Kept, Profiles

#: What answers depend on in addition to the library itself.
_BENEATH = ("torch", "triton")


def on_gpu(
    adapter: Adapter, *, name: str = "", about: str = "", make: Callable[..., Any] | None = None, profiles: Profiles | None = None,
    profiles_one_level: Profiles | None = None,
) -> Adapter:  # fmt: skip
    """The same target on tensors of a GPU; its results name the chip, the driver and what lies between.

    Args:
        adapter: the target on the CPU.
        name: its name on the GPU, without the ending `-cuda`; the adapter's own by default.
        about: what it is; by default the adapter's words.
        make: makes the target, given `device`; by default the adapter's own function.
        profiles, profiles_one_level: what it is expected to follow there; by default what it follows on the CPU.
    """
    library = adapter.library
    followed = adapter.profiles if profiles is None else profiles
    return replace(
        adapter,
        name=f"{name or adapter.name}-cuda",
        library=replace(library, name=f"{library.name}-cuda", requires=f"{library.requires} and torch with an NVIDIA GPU"),
        about=f"{about or adapter.about}, on an NVIDIA GPU",
        kept=Kept.GPU,
        later=(),
        make=partial(_make, make or adapter.make),
        profiles=followed,
        profiles_one_level=adapter.profiles_one_level if profiles_one_level is None else profiles_one_level,
        counterpart=adapter.name,
    )


def _make(make: Callable[..., Any]) -> Any:
    """A target whose tensors lie on the current GPU.

    Raises ImportError where torch has none.
    """
    import torch

    if not torch.cuda.is_available():
        raise ImportError("torch finds no CUDA device")
    target = make(device="cuda")
    target.MXSPEC_SURROUNDINGS = {"device": torch.cuda.get_device_name(), "libraries": list_versions()}
    return target


def list_versions() -> dict[str, str]:
    """Versions of what lies between the library and the chip, the driver's last."""
    found = {}
    for name in _BENEATH:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return found
    driver = done.stdout.strip().splitlines()[:1]
    return {**found, **({"NVIDIA driver": driver[0]} if done.returncode == 0 and driver else {})}
