"""A recording: what one version of a library answered, as a file.

Of each class of items the file holds their names, the profile whose answers are nearest, the answers that are not this
profile's, and a digest of all answers. The others are computed from the profile again, when somebody asks; where the
profile has changed since, the digest shows it.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.targets.capabilities import Capabilities, SrRule
from mxspec_conformance.targets.errors import CallError, FailureKind
from mxspec_lab.recordings.items import KEY_BYTES, Rows
from mxspec_vectors.writing import write_file

SCHEMA = "mxspec-recording/1"
#: What such a file's name ends in.
SUFFIX = ".jsonl.gz"
Numbers = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to one class of items."""

    #: Names of the items, ascending.
    keys: Numbers
    #: The profile that computes answers; "": the model's arithmetic of single numbers; None: all answers are stored.
    profile: str | None
    #: Bytes of an answer.
    width: int
    #: Of all answers but errors, `digest_answers`.
    digest: str
    #: Places among the keys of answers that are stored, ascending, and their bytes.
    places: Numbers
    stored: Rows
    #: Place among the keys -> number of the error.
    errors: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Recording:
    """What one version of a library answered."""

    #: Target, version, environment, commit and vectors of the day.
    origin: Mapping[str, Any]
    transport: str
    capabilities: Capabilities
    errors: list[dict[str, Any]] = field(default_factory=list)
    #: By class; a number is the error that every item of the class has.
    classes: dict[str, Answers | int] = field(default_factory=dict)
    #: Calls that are kept whole, by digest: a value, arrays, or the number of an error.
    calls: dict[str, dict[str, Any]] = field(default_factory=dict)

    def make_error(self, number: int) -> CallError:
        """An error as it was raised."""
        e = self.errors[number]
        return CallError(FailureKind(e["kind"]), e["message"], e["detail"], e["stumbled"], final=e["final"])


def describe_error(error: CallError) -> dict[str, Any]:
    """What a recording holds of an error."""
    return {"kind": error.kind.value, "message": str(error), "detail": error.detail, "stumbled": error.is_defect, "final": error.final}


def write_recording(path: Path, recording: Recording) -> None:
    """Write a recording: the same answers, the same bytes."""
    # Fields that are younger than recordings are written where they say something.
    younger = ("fused", "fused_contract", "grouped", "caches", "attention", "scales", "fake", "few_shapes")
    capabilities = {k: v for k, v in asdict(recording.capabilities).items() if v or k not in younger}
    head = {"schema": SCHEMA, **recording.origin, "transport": recording.transport, "capabilities": capabilities}
    lines: list[dict[str, Any]] = [head, {"errors": recording.errors}]
    for name, found in sorted(recording.classes.items()):
        lines.append({"class": name, **({"error": found} if isinstance(found, int) else _describe(found))})
    lines += [{"call": name, **answer} for name, answer in sorted(recording.calls.items())]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    write_file(path, gzip.compress(text.encode("ascii"), 9, mtime=0))


def read_recording(path: Path) -> Recording:
    """Read a recording.

    Raises ValueError for a file that is none, of another schema, or damaged.
    """
    try:
        head, errors, *lines = (json.loads(line) for line in gzip.decompress(path.read_bytes()).decode("ascii").splitlines())
        return _read_lines(head, errors, lines)
    except (EOFError, zlib.error, gzip.BadGzipFile, ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} is no recording of {SCHEMA}, or damaged ({why}); `python -m mxspec_lab record` writes them") from error


def _read_lines(head: dict[str, Any], errors: dict[str, Any], lines: Sequence[dict[str, Any]]) -> Recording:
    if (schema := head.pop("schema", None)) != SCHEMA:
        raise ValueError(f"its schema is {schema}")
    capabilities = {key: _to_tuples(value) for key, value in head.pop("capabilities").items()}
    capabilities["sr_rule"] = SrRule(capabilities["sr_rule"])
    recording = Recording(head, head.pop("transport"), Capabilities(**capabilities), errors["errors"])
    for line in lines:
        if "call" in line:
            recording.calls[line.pop("call")] = line
        else:
            recording.classes[line["class"]] = line["error"] if "error" in line else _read(line)
    return recording


def _describe(found: Answers) -> dict[str, Any]:
    return {
        "items": len(found.keys), "profile": found.profile, "width": found.width, "answers": found.digest, "keys": _pack(found.keys, KEY_BYTES),
        "places": _pack(found.places, 4), "stored": found.stored.tobytes().hex(),
        "errors": [[place, number] for place, number in sorted(found.errors.items())],
    }  # fmt: skip


def _read(line: Mapping[str, Any]) -> Answers:
    stored = np.frombuffer(bytes.fromhex(line["stored"]), np.uint8).reshape(-1, max(line["width"], 1))
    keys, places = _unpack(line["keys"], KEY_BYTES), _unpack(line["places"], 4)
    return Answers(keys, line["profile"], line["width"], line["answers"], places, stored, dict(line["errors"]))


def _pack(numbers: Numbers, width: int) -> str:
    """Ascending numbers as hex of their differences, bytes of one weight together: most of the upper ones are 0."""
    steps = np.diff(numbers, prepend=np.uint64(0)).astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
    return np.ascontiguousarray(steps.T).tobytes().hex()


def _unpack(text: str, width: int) -> Numbers:
    planes = np.frombuffer(bytes.fromhex(text), np.uint8).reshape(width, -1)
    steps = np.zeros((planes.shape[1], 8), np.uint8)
    steps[:, :width] = planes.T
    return np.cumsum(steps.view("<u8").reshape(-1), dtype=np.uint64)


def _to_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _to_tuples(item) for key, item in value.items()}
    return tuple(_to_tuples(item) for item in value) if isinstance(value, list) else value
