"""The wheel holds vector files compressed, each as the gzip file that `mxspec_vectors.files.read_vectors` reads: 1.4 MB for 7.4."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_VECTORS = "vectors/mxspec_vectors/v1"


class VectorHook(BuildHookInterface[Any]):
    """Compresses them into a folder that is gone when the wheel is written; the plain ones are left out by `exclude`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the compressed files; an editable wheel has none, as it finds the plain ones."""
        if version == "editable":
            return
        source = Path(self.root, _VECTORS)
        self._scratch = tempfile.TemporaryDirectory()
        for path in sorted(source.glob("*/*.json")):
            packed = Path(self._scratch.name, f"{path.parent.name}-{path.name}.gz")
            packed.write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
            build_data["force_include"][str(packed)] = f"mxspec_vectors/v1/{path.parent.name}/{path.name}.gz"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove them."""
        if version != "editable":
            self._scratch.cleanup()
