"""What a batch is drawn from and asked of, and what is kept of calls without an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mxspec.formats import BlockFormat, get_block
from mxspec_conformance.counterexample.sample_space import SampleSpace, get_sample_space
from mxspec_conformance.targets.errors import CallError

#: Blocks of a batch.
BLOCKS = 4096
#: Wrong lanes that are told of each call, and of each batch.
PER_CALL, PER_BATCH = 12, 96


@dataclass(frozen=True, slots=True)
class Job:
    """What a batch is drawn from and asked of."""

    target: Any
    fmt: str
    profile: str
    tensor: int | None
    dtype: str
    seed: int
    timeout: float
    in_process: bool = False
    blocks: int = BLOCKS

    @property
    def space(self) -> SampleSpace:
        """The tables of the job."""
        return get_sample_space(self.fmt, self.profile, self.tensor, self.dtype)

    @property
    def block_format(self) -> BlockFormat:
        """The block format."""
        return get_block(self.fmt)

    @property
    def name(self) -> str:
        """format, dtype and tensor, for keys."""
        return f"{self.fmt}/{self.dtype}/{'one-level' if self.tensor is None else f't{self.tensor:08x}'}"

    def generator(self, number: int, stream: int) -> np.random.Generator:
        """The random numbers of one batch; the same on every machine."""
        return np.random.Generator(np.random.PCG64([self.seed, number, stream]))


def note_no_answer(
    no_answers: dict[str, Any], failure: CallError, words: str, number: int, call: int, *, job: str, row: int = 0
) -> None:
    """Keep one call that had no answer, of each kind."""
    key = f"{failure.kind}: {str(failure)[:120]}"
    known = no_answers.setdefault(
        key, {"count": 0, "kind": failure.kind.value, "call": words, "batch": number, "number": call, "job": job, "row": row}
    )
    known["count"] += 1
