"""The state of every committed result."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from mxspec_lab.evidence.kinds import KINDS, Kind
from mxspec_lab.evidence.uses import ROOT, CodeUse, VectorUse, use_code, use_vectors
from mxspec_vectors.files import write_file

REPORTS = ROOT / "reports"


class State(StrEnum):
    """What can be said of a committed result."""

    CURRENT = "current"
    #: Nothing that it says has changed, but the code that made it has.
    OLDER_CODE = "older code"
    #: Something that it used has changed.
    STALE = "stale"
    #: It does not say what it used.
    UNSTAMPED = "unstamped"


@dataclass(frozen=True, slots=True)
class Standing:
    """One committed result."""

    #: Path below reports/.
    name: str
    kind: Kind
    state: State
    why: str

    @property
    def command(self) -> str:
        """What renews it."""
        return self.kind.command.replace("{name}", Path(self.name).stem)


def list_results() -> Iterator[tuple[Path, Kind]]:
    """Every committed result with its kind."""
    for kind in KINDS:
        for path in sorted(REPORTS.glob(kind.pattern)):
            if path.stem not in kind.without:
                yield path, kind


def judge_result(path: Path, kind: Kind) -> Standing:
    """The state of one result, from the digests that it carries."""
    document = json.loads(path.read_text("utf-8"))
    name = path.relative_to(REPORTS).as_posix()
    uses = document.get("uses")
    if uses is None:
        return Standing(name, kind, State.UNSTAMPED, "it carries no digests")
    bound = [VectorUse.from_dict(u) for u in uses.get("vectors", ())]
    changes = [change for use in bound if (change := use.find_change()) is not None]
    if "code" in uses and (change := CodeUse.from_dict(uses["code"]).find_change()) is not None:
        changes.append(change)
    if changes:
        more = f" (and {len(changes) - 1} more)" if len(changes) > 1 else ""
        return Standing(name, kind, State.STALE, changes[0] + more)
    if "made_by" in uses and (change := CodeUse.from_dict(uses["made_by"]).find_change()) is not None:
        return Standing(name, kind, State.OLDER_CODE, change)
    return Standing(name, kind, State.CURRENT, "")


def judge_all() -> list[Standing]:
    """The state of every committed result."""
    return [judge_result(path, kind) for path, kind in list_results()]


def describe_uses(document: dict[str, Any], kind: Kind) -> dict[str, Any]:
    """What a result that was made just now used."""
    uses: dict[str, Any] = {"vectors": [u.as_dict() for u in use_vectors(kind.list_vectors(document))]}
    if kind.code:
        uses["code"] = use_code(kind.code).as_dict()
    if kind.made_by:
        uses["made_by"] = use_code(kind.made_by).as_dict()
    return uses


#: How a stamp begins: it is the last member of a document, on a line of its own.
_STAMP = ',\n "uses": '


def stamp(path: Path, uses: dict[str, Any] | None = None) -> None:
    """Write into a result that was made just now what it used.

    uses: what it used, where that is known otherwise.
    Raises ValueError for a file that is no committed result.
    """
    kind = next((k for p, k in list_results() if p == path.resolve()), None)
    if kind is None:
        raise ValueError(f"{path} is none of the committed results; `python -m mxspec_lab evidence` lists them")
    text, earlier, _ = path.read_text("utf-8").partition(_STAMP)
    # The brace that closes the document is behind a stamp, or else the last character.
    body = text if earlier else text.rstrip().removesuffix("}").rstrip()
    document = json.loads(body + "}")
    line = json.dumps(describe_uses(document, kind) if uses is None else uses, ensure_ascii=True)
    write_file(path, f"{body}{_STAMP}{line}\n}}\n".encode("ascii"))
