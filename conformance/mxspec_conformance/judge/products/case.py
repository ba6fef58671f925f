"""One call by which a product is judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mxspec_conformance.targets.operands import Numbers
from mxspec_vectors.topics import TOPICS


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductCase:
    """One call of `matmul`."""

    topic: str
    label: str
    a: Numbers
    b: Numbers
    out_dtype: str = "float32"
    #: alpha, beta, c and bias.
    options: dict[str, Any] = field(default_factory=dict)
    #: Words of the call before its function: an arrangement in memory, or a repetition.
    before: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        assert self.topic in TOPICS
