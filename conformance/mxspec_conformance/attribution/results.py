"""What `mxspec attribute` finds, as data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mxspec.enums import StrEnum
from mxspec.tensorscale import TensorScale
from mxspec_conformance.attribution.matching import Provenance
from mxspec_conformance.attribution.standing import Candidate, Standing

SCHEMA = "mxspec-attribution/1"


class Topic(StrEnum):
    """What a remark is about; every remark is a contradiction."""

    #: The bytes contradict the profile that the file's contract names.
    CONTRACT = "contract"
    #: They contradict every profile of the library that the configuration names.
    CONFIGURATION = "configuration"
    #: No known profile is consistent with them.
    NO_PROFILE = "no-profile"
    #: The source was rounded or quantized to something else first.
    TWICE = "twice"
    #: The tensor scale is not that of the source.
    TENSOR_SCALE = "tensor-scale"
    #: No profile gives the tensor from the source.
    SOURCE = "source"
    #: The source has no such tensor.
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Claim:
    """What the file or the configuration next to it says of how a tensor was quantized."""

    #: The profile's id of a contract, or the name of a library.
    name: str
    contract: bool

    def covers(self, profile: str) -> bool:
        """Whether a profile is, or is one of, what is claimed."""
        return profile == self.name if self.contract else name_library(profile) == self.name


@dataclass(frozen=True, slots=True)
class Remark:
    """A contradiction."""

    topic: Topic
    text: str

    def as_dict(self) -> dict[str, str]:
        """The form in JSON."""
        return {"topic": self.topic.value, "text": self.text}


@dataclass(frozen=True, slots=True)
class Observed:
    """What of a tensor's bytes tells profiles apart."""

    blocks: int
    #: Blocks with a NaN or an infinity, which are not examined.
    special: int
    #: Smallest and largest scale byte of the others; None: there are none.
    scale_bytes: tuple[int, int] | None
    #: Scale byte -> blocks whose codes are all zero.
    zero_blocks: Mapping[int, int]
    #: Elements that are zero, and those of them that are -0.
    zeros: int
    minus_zeros: int
    #: Largest value of a block, in units of its scale -> blocks.
    largest: Mapping[float, int]

    def as_dict(self) -> dict[str, object]:
        """The form in JSON."""
        return {
            "blocks": self.blocks, "special_blocks": self.special, "scale_bytes": self.scale_bytes and list(self.scale_bytes),
            "zero_blocks": {f"{b:02x}": n for b, n in self.zero_blocks.items()}, "zeros": self.zeros,
            "minus_zeros": self.minus_zeros, "largest": {f"{v:g}": n for v, n in self.largest.items()},
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorAttribution:
    """What is known of one tensor."""

    base: str
    convention: str
    format_name: str
    shape: tuple[int, ...]
    tensor_scale: TensorScale | None
    observed: Observed
    candidates: tuple[Candidate, ...]
    claim: Claim | None
    provenance: Provenance | None
    remarks: tuple[Remark, ...]

    def list(self, standing: Standing) -> tuple[str, ...]:
        """The ids of the profiles of a standing."""
        return tuple(c.profile for c in self.candidates if c.standing is standing)

    def as_dict(self) -> dict[str, object]:
        """The form in JSON."""
        scale = self.tensor_scale
        return {
            "tensor": self.base, "convention": self.convention, "format": self.format_name, "shape": list(self.shape),
            "tensor_scale": None if scale is None else {"kind": scale.kind.value, "bits": f"{scale.bits:08x}", "value": scale.value},
            "claim": None if self.claim is None else {"name": self.claim.name, "contract": self.claim.contract},
            "observed": self.observed.as_dict(), "consistent_with": list(self.list(Standing.CONSISTENT)),
            "candidates": [c.as_dict() for c in self.candidates],
            "source": None if self.provenance is None else self.provenance.as_dict(),
            "remarks": [r.as_dict() for r in self.remarks],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Attribution:
    """What is known of a checkpoint."""

    path: Path
    source: Path | None
    tensors: tuple[TensorAttribution, ...]
    #: Block-quantized tensors that were not examined, and why.
    skipped: Mapping[str, str]
    #: What contradicts the numeric contract of a file as a whole: it cannot be read, or names what there is not.
    remarks: tuple[Remark, ...] = ()

    @property
    def exit_code(self) -> int:
        """0: nothing contradicts anything; 1: something does; 2: there was nothing to look at."""
        if not self.tensors:
            return 2
        return int(bool(self.remarks) or any(t.remarks for t in self.tensors))

    @property
    def common(self) -> Mapping[str, tuple[str, ...]]:
        """Format -> the profiles that all tensors of it are consistent with; with sources, that give all bits of all."""
        found: dict[str, list[str]] = {}
        for t in self.tensors:
            exact = t.provenance and [m.profile for m in t.provenance.exact]
            own = list(exact or t.list(Standing.CONSISTENT))
            kept = found.get(t.format_name)
            found[t.format_name] = own if kept is None else [p for p in kept if p in own]
        return {name: tuple(profiles) for name, profiles in found.items()}

    def as_dict(self) -> dict[str, Any]:
        """The form in JSON."""
        return {
            "path": str(self.path), "source": None if self.source is None else str(self.source), "exit_code": self.exit_code,
            "all_tensors": {name: list(p) for name, p in self.common.items()}, "skipped": dict(self.skipped),
            **({"remarks": [r.as_dict() for r in self.remarks]} if self.remarks else {}),
            "tensors": [t.as_dict() for t in self.tensors],
        }  # fmt: skip


def name_library(profile: str) -> str:
    """The library of a descriptive profile, without its version: `torchao` of `torchao-0.18/mx/floor/eager`."""
    return re.sub(r"-[0-9a-f][0-9a-f.]*$", "", profile.split("/")[0]) if "/" in profile else profile
