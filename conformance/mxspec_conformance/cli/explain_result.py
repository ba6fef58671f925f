"""The smallest wrong blocks of a result, as `mxspec explain` shows them: from what `mxspec check --json` stored."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.adjacent import register_named
from mxspec.formats import BLOCKS
from mxspec.profiles import get_profile
from mxspec.tensorscale import TensorScale
from mxspec_conformance.targets.texts import clean_text
from mxspec_vectors.tensor_scales import TensorScales, native_scale

_LANE, _BITS = re.compile(r"^lane (\d{1,6})$"), re.compile(r"^0x([0-9a-f]{8})\b")


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """A block that a target answered wrongly, and what was said of it."""

    format: str
    profile: str
    x: npt.NDArray[np.float32]
    tensor_scale: TensorScale | None
    notes: tuple[str, ...]


def list_reports(document: Any) -> Iterator[Mapping[str, Any]]:
    """The results that a document holds: one, a list of them, or that of a recording."""
    for one in document if isinstance(document, list) else [document]:
        report = one.get("check", one) if isinstance(one, Mapping) else one
        if isinstance(report, Mapping):
            yield report


def list_failures(report: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The ids of a result's requirements with the smallest failure that was stored of each."""
    requirements = report.get("requirements")
    for r in requirements if isinstance(requirements, list) else ():
        if isinstance(r, Mapping) and isinstance(r.get("first"), Mapping):
            yield str(r.get("id")), r["first"]


def find_blocks(document: Any) -> dict[str, StoredBlock]:
    """The wrong blocks of all results of a document by requirement; what is no whole block of a known profile is left out."""
    found: dict[str, StoredBlock] = {}
    for report in list_reports(document):
        formats = report.get("formats")
        rows = [f for f in formats if isinstance(f, Mapping)] if isinstance(formats, list) else []
        judged = {str(f.get("format")): str(f.get("judged_against")) for f in rows}
        for name, first in list_failures(report):
            fmt = name.split("/")[1] if name.count("/") == 2 else ""
            try:
                found[name] = _read_block(fmt, judged[fmt], first)
            except (LookupError, TypeError, ValueError, AttributeError):
                continue
    return found


def _read_block(fmt: str, profile: str, first: Mapping[str, Any]) -> StoredBlock:
    """Raises LookupError, TypeError, ValueError or AttributeError for what is no block."""
    register_named([fmt])
    given, rules = first["given"], get_profile(profile, fmt)
    lanes = {int(_LANE.findall(lane)[0]): int(_BITS.findall(text)[0], 16) for lane, text in given["x"].items()}
    block = BLOCKS[fmt].sized(max(lanes, default=0) + 1)
    x = np.zeros(block.k, np.uint32)
    x[list(lanes)] = list(lanes.values())
    tensor = TensorScales.from_dict(given["tensor scale"]) if "tensor scale" in given else None
    returned = ", ".join(f"{what} {_in_words(value)}" for what, value in first["returned"].items())
    call = [f"call: {given['call']}"] if "call" in given else []
    notes = (*call, f"returned: {returned}", *map(str, first.get("steps", ())))
    return StoredBlock(fmt, rules.id, x.view(np.float32), native_scale(rules, tensor), tuple(map(clean_text, notes)))


def _in_words(value: Any) -> str:
    return "; ".join(f"{name}: {one}" for name, one in value.items()) if isinstance(value, Mapping) else str(value)
