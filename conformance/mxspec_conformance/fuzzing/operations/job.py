"""Batches of groups of affine integers, and of sparse operands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mxspec_conformance.fuzzing.subject import Job
from mxspec_conformance.targets.affine import AFFINE_FUNCTIONS, read_operand

#: Groups of a batch of affine integers, and of a sparse format.
AFFINE_GROUPS, SPARSE_GROUPS = 48, 512


@dataclass(frozen=True, kw_only=True)
class OperationJob(Job):
    """One function of a target in one format."""

    #: Quantizers and products have streams below it.
    STREAM: ClassVar[int] = 32

    function: str
    #: The format as the target declares it.
    operand: str
    #: The profile or contract that the target claims; None: none.
    claim: str | None = None

    @property
    def is_affine(self) -> bool:
        """Whether groups are of affine integers; else they are sparse."""
        return self.function in AFFINE_FUNCTIONS

    @property
    def format_name(self) -> str:
        """The format without its layout."""
        return read_operand(self.operand).format.name if self.is_affine else self.operand

    @property
    def fmt(self) -> str:
        """How results call it."""
        return f"{self.function}.{self.format_name}"

    @property
    def name(self) -> str:
        """For keys."""
        return f"{self.function}/{self.operand}"

    @property
    def size(self) -> int:
        """Groups of a batch."""
        return AFFINE_GROUPS if self.is_affine else SPARSE_GROUPS

    @property
    def identity(self) -> list[Any]:
        """What names the job in a state file."""
        return [self.name, self.claim, self.size]
