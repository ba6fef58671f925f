"""How a kernel converts both operands before it multiplies, as data: how affine codes become numbers, what all are rounded to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mxspec.affine import CONTRACTS, AffineFormat, list_contracts
from mxspec.dot.factor import Contract

#: Dtypes that float32 numbers may be rounded to once more.
_NARROWER = (Contract.FLOAT16, Contract.BFLOAT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandContract:
    """One contract of both operands; by default nothing is rounded."""

    #: What the number of an affine code is (`mxspec.affine.list_contracts`).
    affine: str = "exact"
    #: What the numbers of all but plain operands are rounded to afterwards.
    held: Contract = Contract.EXACT
    #: Whether plain float32 operands are rounded to it, too.
    plain: bool = False

    @property
    def text(self) -> str:
        """As a target declares it: `float16`, or `float32-fma/bfloat16`."""
        if self.affine == "exact":
            return self.held.value
        return self.affine if self.held is Contract.EXACT else f"{self.affine}/{self.held.value}"

    @property
    def words(self) -> str:
        """What it does, for a report."""
        if self.affine == "exact":
            return f"rounded to {self.held.value}, tensor scale included"
        found = f"by the affine contract {self.affine}"
        return found if self.held is Contract.EXACT else f"{found}, then rounded to {self.held.value}"


EXACTLY = OperandContract()


def list_operand_contracts(
    formats: Sequence[AffineFormat] = (), *, has_float32: bool = False, all_plain: bool = False
) -> tuple[OperandContract, ...]:
    """The contracts of a product by the affine formats of its operands; `EXACTLY` is the first.

    With no affine operand numbers are rounded to one float or not at all. has_float32: whether an operand is plain float32, which alone
    is rounded to TF32. all_plain: whether no operand has scales: then 16 bits, too, are of plain float32 sides, and of nothing else.
    """
    if not formats:
        whole = () if all_plain else tuple(OperandContract(held=held) for held in Contract if held not in (Contract.EXACT, Contract.TF32))
        plain = (*(_NARROWER[::-1] if all_plain else ()), Contract.TF32) if has_float32 else ()
        return EXACTLY, *whole, *(OperandContract(held=held, plain=True) for held in plain)
    found: list[OperandContract] = []
    for rule in list_contracts(formats[0]):
        if not all(rule.name in CONTRACTS[fmt.offset] for fmt in formats):
            continue
        found.append(OperandContract(affine=rule.name))
        if rule.dtype == Contract.FLOAT32:
            found += [OperandContract(affine=rule.name, held=held) for held in _NARROWER]
    return tuple(sorted(found, key=lambda c: c.held is not Contract.EXACT))


#: The texts that a target may declare.
CONTRACT_TEXTS: tuple[str, ...] = tuple(
    dict.fromkeys(
        [c.text for c in list_operand_contracts(has_float32=True)]
        + [c.text for offset in CONTRACTS for c in list_operand_contracts([AffineFormat(offset=offset)])]
    )
)


def parse_operand_contract(text: str, formats: Sequence[AffineFormat] = (), *, all_plain: bool = False) -> OperandContract:
    """The contract of a text, as `OperandContract.text` writes it, of a product with these affine operands; all_plain: with no scales.

    `float16` and `bfloat16` mean two things: with an affine operand, the affine contract of that name, each of whose operations is
    rounded; else that numbers are rounded once. Raises ValueError for a text that is none.
    """
    if formats:
        known = {c.text: c for c in list_operand_contracts(formats)}
        if text in known:
            return known[text]
    first, _, second = text.partition("/")
    floats = {c.value for c in Contract}
    if text not in CONTRACT_TEXTS:
        raise ValueError(f"contract = {text!r}; allowed are {', '.join(CONTRACT_TEXTS)}")
    if second or first not in floats:
        return OperandContract(affine=first, held=Contract(second or "exact"))
    held = Contract(first)
    return OperandContract(held=held, plain=held is Contract.TF32 or (all_plain and held in _NARROWER))
