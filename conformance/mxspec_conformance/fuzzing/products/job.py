"""Batches of products: two operands, and how their outputs are judged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from mxspec.dot import Accumulator, OperandContract, get_accumulator
from mxspec_conformance.fuzzing.subject import Job
from mxspec_conformance.judge.products.reference import read_contract
from mxspec_conformance.targets.operands import Product, parse_product

#: Products of a batch; they are called one after the other.
PRODUCTS = 16


@dataclass(frozen=True, kw_only=True)
class ProductJob(Job):
    """One product of a target."""

    #: Quantizers have streams below it.
    STREAM: ClassVar[int] = 16

    #: Both operands as the target declares them, and the name that requirements have.
    text: str
    fmt: str
    #: The class by which outputs are judged, and what numbers are rounded to first.
    class_name: str
    contract_name: str
    #: Other contracts that fit every answer of the target when the campaign was planned. Nothing is called wrong that one of
    #: them allows.
    rival_names: tuple[str, ...] = ()

    @cached_property
    def product(self) -> Product:
        """Both sides."""
        return parse_product(self.text)

    @property
    def accumulator(self) -> Accumulator:
        """The class."""
        return get_accumulator(self.class_name)

    @property
    def contract(self) -> OperandContract:
        """What numbers are rounded to before they are multiplied."""
        return read_contract(self.contract_name, (self.product.a, self.product.b))

    @property
    def rivals(self) -> list[OperandContract]:
        """The other contracts that may be the target's."""
        return [read_contract(name, (self.product.a, self.product.b)) for name in self.rival_names]

    @property
    def name(self) -> str:
        """For keys."""
        return f"matmul/{self.fmt}"

    @property
    def identity(self) -> list[Any]:
        """What names the job in a state file."""
        return [self.name, self.text, self.class_name, self.contract_name, list(self.rival_names), PRODUCTS]
