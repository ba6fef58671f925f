"""Sparse formats by name: what is kept of which codes. Targets list them, vectors and requirements are named after them."""

from __future__ import annotations

from dataclasses import dataclass

from mxspec.sparsity.kinds import Kind, get_kind
from mxspec.sparsity.patterns import Sparsity
from mxspec.suggestions import refuse_name


@dataclass(frozen=True, slots=True)
class SparseFormat:
    """Codes of one kind under one sparsity."""

    name: str
    #: The name of their kind: `int4` or an element format.
    kind: str
    sparsity: Sparsity
    #: Who takes such operands.
    users: str

    @property
    def group(self) -> int:
        """Codes that one nibble speaks of."""
        return self.sparsity.group

    @property
    def codes(self) -> Kind:
        """What the codes are."""
        return get_kind(self.kind)


_TWO, _PAIRS = Sparsity.TWO_OF_FOUR, Sparsity.PAIRS
SPARSE_FORMATS: dict[str, SparseFormat] = {
    f.name: f
    for f in (
        SparseFormat("e2m1-2to4", "e2m1", _TWO, "Metal Marlin; mma.sp kind::f8f6f4 and mxf8f6f4 (one code to a byte)"),
        SparseFormat("e2m1-4to8", "e2m1", _PAIRS, "mma.sp kind::mxf4 and mxf4nvf4 (packed)"),
        SparseFormat("int4-2to4", "int4", _TWO, "Metal Marlin"),
        SparseFormat("int4-4to8", "int4", _PAIRS, "mma.sp on s4"),
        SparseFormat("e2m3-2to4", "e2m3", _TWO, "mma.sp kind::f8f6f4 and mxf8f6f4"),
        SparseFormat("e3m2-2to4", "e3m2", _TWO, "mma.sp kind::f8f6f4 and mxf8f6f4"),
        SparseFormat("e4m3-2to4", "e4m3", _TWO, "mma.sp on e4m3, kind::f8f6f4 and mxf8f6f4"),
        SparseFormat("e5m2-2to4", "e5m2", _TWO, "mma.sp on e5m2, kind::f8f6f4 and mxf8f6f4"),
        SparseFormat("int8-2to4", "int8", _TWO, "mma.sp on s8, torch"),
    )
}


def get_sparse(fmt: str | SparseFormat) -> SparseFormat:
    """The sparse format of this name. Raises ValueError, listing the names, where there is none."""
    if isinstance(fmt, SparseFormat):
        return fmt
    if not isinstance(fmt, str) or fmt not in SPARSE_FORMATS:
        raise refuse_name(fmt, f"unknown sparse format {fmt!r}; known are {', '.join(SPARSE_FORMATS)}", SPARSE_FORMATS)
    return SPARSE_FORMATS[fmt]
