"""What a conversion keeps of the file that it came from, so that the way back gives the same bytes.

It is one JSON text under the key `mxspec.origin`: safetensors' metadata, or a GGUF key of type string.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mxspec.containers.conventions import Scalars
from mxspec.containers.header import Preamble
from mxspec.containers.marks import MAX_MARK
from mxspec.containers.problems import Collector, ContainerError
from mxspec.containers.text import parse_object

KEY = "mxspec.origin"


@dataclass(frozen=True, slots=True)
class TensorOrigin:
    """What one block-quantized tensor had in its first convention."""

    convention: str
    #: Suffix of each float32 scale: shape and bits.
    scalars: Scalars
    #: dtype of the block scales, where they were a tensor of their own.
    scale_dtype: str | None = None
    #: The text of its mark, where a tensor held one.
    mark: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The form in the file."""
        scalars = {s: [list(shape), [f"{b:08x}" for b in bits]] for s, (shape, bits) in self.scalars.items()}
        own = {"scales": self.scale_dtype or None, "mark": self.mark}
        return {"from": self.convention, "scalars": scalars, **{key: value for key, value in own.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class Origin:
    """What one file keeps of its first form."""

    first: Preamble
    tensors: Mapping[str, TensorOrigin] = field(default_factory=dict)
    #: Shapes of other tensors, where the container could not hold them.
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def as_text(self) -> str:
        """The JSON text."""
        first = self.first
        found: dict[str, Any] = {
            "container": first.container, "tensors": {n: t.as_json() for n, t in self.tensors.items()}, "metadata": dict(first.metadata),
            "shapes": {n: list(s) for n, s in self.shapes.items()},
        }  # fmt: skip
        found = {key: value for key, value in found.items() if value}
        if first.text is not None:
            found["header"] = first.text
        if first.container == "gguf":
            keys = base64.b64encode(first.keys).decode("ascii")
            found["gguf"] = {"keys": keys, "count": first.key_count, "alignment": first.alignment, "order": list(first.order)}
        return json.dumps(found, separators=(",", ":"), ensure_ascii=True)


def parse_origin(text: str | None, path: Path) -> Origin | None:
    """What a file says of its origin; None where it says nothing.

    Raises ContainerError for a text that no conversion wrote.
    """
    if text is None:
        return None
    found = parse_object(text.encode("utf-8", "surrogatepass"), Collector(path), what=KEY)
    try:
        tensors = {name: _parse_tensor(entry) for name, entry in dict(found.get("tensors", {})).items()}
        kept = dict(found.get("gguf", {}))
        alignment = int(kept.get("alignment", 32))
        header = found.get("header")
        if alignment < 1 or alignment & (alignment - 1):
            raise ValueError("alignment")
        first = Preamble(
            str(found["container"]), {str(k): str(v) for k, v in dict(found.get("metadata", {})).items()},
            base64.b64decode(kept.get("keys", ""), validate=True), int(kept.get("count", 0)), alignment,
            tuple(map(str, kept.get("order", ()))), None if header is None else str(header),
        )  # fmt: skip
        return Origin(first, tensors, {str(k): tuple(map(int, v)) for k, v in dict(found.get("shapes", {})).items()})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ContainerError(
            f"{path}: {KEY} is damaged ({error!r}); pass ignore_origin=True (--ignore-origin) to convert without it"
        ) from error


def _parse_tensor(entry: Any) -> TensorOrigin:
    scalars = {
        str(suffix): (tuple(map(int, shape)), tuple(int(b, 16) for b in bits))
        for suffix, (shape, bits) in dict(entry.get("scalars", {})).items()
    }
    if any(not 0 <= b < 1 << 32 for _, bits in scalars.values() for b in bits):
        raise ValueError("bits")
    dtype, mark = entry.get("scales"), entry.get("mark")
    if mark is not None and (not isinstance(mark, str) or len(mark.encode()) > MAX_MARK):
        raise ValueError("mark")
    return TensorOrigin(str(entry["from"]), scalars, None if dtype is None else str(dtype), mark)
