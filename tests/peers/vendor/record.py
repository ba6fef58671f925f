"""What somebody who built a vendor's device functions says of the library: where they come from, and what in it is not theirs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mxspec.profiles.schema import TensorScaleKind
from mxspec_conformance.targets.dtypes import DTYPES

from tests.peers.vendor.regions import Region, RegionError, verify_region


class RecordError(ValueError):
    """A record that says too little or what cannot be; the message says what."""


@dataclass(frozen=True, slots=True)
class Source:
    """A checkout that regions were taken from."""

    #: The repository or package, as owner/name or distribution.
    name: str
    #: The commit, or the version of a package.
    commit: str


@dataclass(frozen=True, slots=True)
class Function:
    """An exported function: `void SYMBOL(const void *x, uint64_t blocks, float tensor, uint8_t *codes, uint8_t *scales)`.

    x: blocks of k elements of the dtype. codes: one a byte. scales: one a block.
    """

    symbol: str
    #: The kernel or device function that it runs.
    runs: str
    format: str
    profile: str
    dtype: str
    #: What `tensor` is; None: it is not read.
    tensor: TensorScaleKind | None


@dataclass(frozen=True, slots=True)
class Record:
    """A built library."""

    library: Path
    compiler: str
    #: The vendor's headers whose bodies for the host took part.
    headers: str
    sources: tuple[Source, ...]
    regions: tuple[tuple[str, Region], ...]
    #: Instructions of the chip that something else computed, as the library itself counted them.
    instructions: tuple[str, ...]
    #: What else is not the vendor's, in words.
    replaced: tuple[str, ...]
    functions: tuple[Function, ...]


def read_record(path: Path) -> Record:
    """A record from its JSON file; the library's path is beside it.

    Raises RecordError.
    """
    try:
        document = json.loads(path.read_text("utf-8"))
        record = Record(
            path.parent / document["library"], document["compiler"], document["headers"],
            tuple(Source(**s) for s in document["sources"]),
            tuple((r["source"], Region(**{k: v for k, v in r.items() if k != "source"})) for r in document["regions"]),
            tuple(document["instructions"]), tuple(document["replaced"]), tuple(_read_function(f) for f in document["functions"]),
        )  # fmt: skip
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise RecordError(
            f"{path} is no record of a built library ({type(error).__name__}: {error}); tests/peers/vendor/record.py says what one holds"
        ) from error
    known = {source.name for source in record.sources}
    if unknown := {name for name, _ in record.regions} - known:
        raise RecordError(f"{path}: regions are of {', '.join(sorted(unknown))}; sources are {', '.join(sorted(known))}")
    if not record.library.is_file():
        raise RecordError(f"{path}: the library {record.library} is not there")
    return record


def _read_function(document: Mapping[str, Any]) -> Function:
    tensor = document["tensor"]
    if document["dtype"] not in DTYPES:
        raise RecordError(f"{document['symbol']}: dtype {document['dtype']!r}; allowed are {', '.join(DTYPES)}")
    kinds = [kind.value for kind in TensorScaleKind]
    if tensor is not None and tensor not in kinds:
        raise RecordError(f"{document['symbol']}: tensor {tensor!r}; allowed are null, {', '.join(kinds)}")
    return Function(
        document["symbol"], document["runs"], document["format"], document["profile"], document["dtype"],
        None if tensor is None else TensorScaleKind(tensor),
    )  # fmt: skip


def verify_sources(record: Record, folders: Mapping[str, Path]) -> None:
    """Check that the checkouts hold every region as it was built.

    folders: the checkout of each source by its name.

    Raises RecordError where a checkout or a file is missing, and RegionError where a region is another.
    """
    if missing := [source.name for source in record.sources if source.name not in folders]:
        raise RecordError(f"no checkout was named of {', '.join(missing)}; add --source NAME=FOLDER for each")
    texts: dict[Path, str] = {}
    for name, region in record.regions:
        path = folders[name] / region.file
        if path not in texts:
            try:
                texts[path] = path.read_text("utf-8")
            except OSError as error:
                raise RecordError(f"{path} cannot be read ({error.strerror}); take the commit that the record names") from error
        try:
            verify_region(texts[path], region)
        except RegionError as error:
            raise RegionError(f"{name}: {error}") from error
