"""Batches of blocks: one format and profile, one dtype, one tensor scale or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mxspec.formats import BlockFormat, get_rows
from mxspec_conformance.counterexample.sample_space import SampleSpace, get_sample_space
from mxspec_conformance.fuzzing.subject import Job

#: Blocks of a batch.
BLOCKS = 4096
#: Wrong lanes that are kept of each call, and of each batch.
PER_CALL, PER_BATCH = 12, 96


@dataclass(frozen=True, kw_only=True)
class BlockJob(Job):
    """What a batch of blocks is drawn from, and the target that gets them."""

    fmt: str
    profile: str
    tensor: int | None
    #: What is quantized, or `codes`: these are dequantized.
    dtype: str
    blocks: int = BLOCKS

    @property
    def decodes(self) -> bool:
        """Whether codes are dequantized."""
        return self.dtype == "codes"

    @property
    def space(self) -> SampleSpace:
        """The tables of the job."""
        return get_sample_space(self.fmt, self.profile, self.tensor, "float32" if self.decodes else self.dtype)

    @property
    def block_format(self) -> BlockFormat:
        """The block format."""
        return get_rows(self.fmt)

    @property
    def name(self) -> str:
        """format, dtype and tensor, for keys."""
        return f"{self.fmt}/{self.dtype}/{'one-level' if self.tensor is None else f't{self.tensor:08x}'}"

    @property
    def identity(self) -> list[Any]:
        """What names the job in a state file."""
        return [self.name, self.profile, self.blocks]

    @property
    def pace(self) -> int:
        """Codes are soon exhausted."""
        return 4 if self.decodes else 1
