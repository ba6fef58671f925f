"""What is said of one thing that a probe recorded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """One instruction's."""

    instruction: str
    inputs: int
    #: Inputs on which chip and model differ; None: the probe saw something that the model does not cover.
    different: int | None
    note: str = ""

    @property
    def evidence(self) -> str:
        """The word for it: what agrees on every input is confirmed on hardware."""
        return "hardware" if self.different == 0 else "provisional" if self.different is None else "DIFFERS"
