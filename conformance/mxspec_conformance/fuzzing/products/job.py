"""What a batch of products is drawn from and asked of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mxspec.dot import Accumulator, OperandContract, get_accumulator
from mxspec_conformance.judge.products.reference import read_contract
from mxspec_conformance.targets.operands import Product, parse_product

#: Products of a batch; they are asked one after the other.
PRODUCTS = 16


@dataclass(frozen=True)
class ProductJob:
    """One product of a target."""

    target: Any
    #: Both sides as the target declares them, and the name that requirements have.
    text: str
    fmt: str
    #: The class by which outputs are judged, and what numbers are rounded to first.
    class_name: str
    contract_name: str
    seed: int
    timeout: float
    in_process: bool = False
    #: Other contracts that fit everything the target was asked when the campaign was planned. Nothing is called wrong that one of
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

    def generator(self, number: int, stream: int) -> np.random.Generator:
        """The random numbers of one batch; the same on every machine. Quantizers have streams below 16."""
        return np.random.Generator(np.random.PCG64([self.seed, number, 16 + stream]))
