"""Dequantization contracts: what the value of a code is, bit for bit.

Everybody writes q * s + b or (q - z) * s. Where it is rounded is another question, and kernels answer it differently: in
float16 and bfloat16 the answers differ in every third value. A contract is an expression of `q` (the code), `s` (the stored
scale), `b` or `z` (the stored offset), and the dtype in which its result is held. A result that is returned in a narrower
dtype is rounded once more.
"""

from __future__ import annotations

from dataclasses import dataclass

from mxspec.affine.formats import AffineFormat, Offset, get_affine
from mxspec.expressions import Expr, Leaf, bf16, exact, f16, f32
from mxspec.suggestions import did_you_mean

Q, S, B, Z = (Leaf(n) for n in ("q", "s", "b", "z"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AffineContract:
    """What the value of a stored code is."""

    name: str
    offset: Offset
    #: In words that a kernel's author would use.
    summary: str
    value: Expr
    #: The value of the expression is rounded once to this dtype; None: not at all (the weight is a real number).
    dtype: str | None
    #: Whether the expression has one rounding, that to `dtype`.
    fused: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.value}"


_PRODUCT, _DIFFERENCE = exact.mul(Q, S), exact.sub(Q, Z)
_DOMAINS = (("float32", f32), ("float16", f16), ("bfloat16", bf16))

_BIAS = (
    AffineContract(
        name="exact", offset=Offset.BIAS, dtype=None, fused=True,
        summary="q * s + b as a real number", value=exact.add(_PRODUCT, B),
    ),
    *(
        AffineContract(
            name=name, offset=Offset.BIAS, dtype=name,
            summary=f"q * s rounded to {name}, plus b rounded to {name}", value=domain.add(domain.mul(Q, S), B),
        )
        for name, domain in _DOMAINS
    ),
    *(
        AffineContract(
            name=f"{name}-fma", offset=Offset.BIAS, dtype=name, fused=True,
            summary=f"fma(q, s, b), rounded once to {name}", value=exact.add(_PRODUCT, B),
        )
        for name, _ in _DOMAINS
    ),
)  # fmt: skip

_ZERO = (
    AffineContract(
        name="exact", offset=Offset.ZERO, dtype=None, fused=True,
        summary="(q - z) * s as a real number", value=exact.mul(_DIFFERENCE, S),
    ),
    *(
        AffineContract(
            name=name, offset=Offset.ZERO, dtype=name, fused=True,
            summary=f"(q - z) * s, rounded once to {name}", value=exact.mul(_DIFFERENCE, S),
        )
        for name, _ in _DOMAINS
    ),
    *(
        AffineContract(
            name=f"{name}-products", offset=Offset.ZERO, dtype=name,
            summary=f"q * s - z * s, each of the three rounded to {name}",
            value=domain.sub(domain.mul(Q, S), domain.mul(Z, S)),
        )
        for name, domain in _DOMAINS
    ),
    *(
        AffineContract(
            name=f"{name}-fma", offset=Offset.ZERO, dtype=name,
            summary=f"fma(q, s, -z * s) with z * s rounded to {name} before, the sum once",
            value=exact.sub(_PRODUCT, domain.mul(Z, S)),
        )
        for name, domain in _DOMAINS
    ),
)  # fmt: skip

CONTRACTS: dict[Offset, dict[str, AffineContract]] = {Offset.BIAS: {c.name: c for c in _BIAS}, Offset.ZERO: {c.name: c for c in _ZERO}}


def list_contracts(fmt: str | AffineFormat) -> tuple[AffineContract, ...]:
    """The contracts that a format may be dequantized under; `exact` first."""
    return tuple(CONTRACTS[get_affine(fmt).offset].values())


def get_contract(name: str | AffineContract, fmt: str | AffineFormat) -> AffineContract:
    """A contract by its name.

    Raises ValueError for a name that the format's offset does not have.
    """
    affine = get_affine(fmt)
    if isinstance(name, AffineContract):
        if name.offset is not affine.offset:
            raise ValueError(f"contract {name.name} is of a {name.offset.value}; {affine.name} stores a {affine.offset.value}")
        return name
    known = CONTRACTS[affine.offset]
    if name not in known:
        raise ValueError(
            f"unknown contract {name!r} for {affine.name}; allowed are {', '.join(known)}. {did_you_mean(name, known)}".rstrip()
        )
    return known[name]
