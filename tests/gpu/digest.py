"""Digests of what the evidence of the GPU depends on: the kernels, what calls them, and the rules generated for them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.gpu.arithmetic import LEVELS, level_id, rules_of

PACKAGE = Path(__file__).resolve().parents[2] / "gpu" / "mxspec_gpu"
#: The modules that a call goes through; not those that measure, draw or probe.
MODULES = (
    "api", "arguments", "arrays", "build", "kernels", "launch", "rules", "scalars", "views",
)  # fmt: skip


def _digest(parts: dict[str, str]) -> str:
    h = hashlib.blake2b(digest_size=16)
    for name in sorted(parts):
        h.update(f"{name}\0{parts[name]}\1".encode())
    return h.hexdigest()


def digest_sources() -> dict[str, str]:
    """What -> digest."""
    kernels = {f.name: f.read_text("utf-8") for f in (PACKAGE / "kernels").iterdir() if f.suffix in (".cu", ".cuh")}
    modules = {name: (PACKAGE / f"{name}.py").read_text("utf-8") for name in MODULES}
    rules = {level_id(level): rules_of(level).text for level in LEVELS}
    return {"kernels": _digest(kernels), "modules": _digest(modules), "rules": _digest(rules)}
