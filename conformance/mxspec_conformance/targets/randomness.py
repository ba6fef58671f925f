"""Targets whose `quantize` rounds stochastically: what a call needs that has no random bits of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.sessions import TargetSession

#: The seed of calls in which it does not matter.
ANY_SEED = 1


class RandomSession:
    """A session whose calls of `quantize` have random words, or a seed, where none are given: some calls test scales alone, or
    whether there is an answer at all."""

    def __init__(self, inner: TargetSession) -> None:
        self.inner = inner
        self.capabilities: Capabilities = inner.capabilities
        self.transport = inner.transport
        self.environment: dict[str, Any] = getattr(inner, "environment", {})

    def close(self) -> None:
        """Close the session."""
        self.inner.close()

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallError."""
        if function == "quantize" and "random_bits" not in kwargs and "seed" not in kwargs:
            kwargs |= some_randomness(self.capabilities, args[0].shape)
        return self.inner.call(function, *args, **kwargs)


def some_randomness(capabilities: Capabilities, shape: tuple[int, ...]) -> dict[str, Any]:
    """The keywords with which a target's `quantize` can be called for numbers of a shape; none where it needs none."""
    if capabilities.has("quantize", "seed"):
        return {"seed": ANY_SEED}
    if capabilities.has("quantize", "random_bits"):
        return {"random_bits": np.zeros(shape, np.uint32)}
    return {}
