"""What an affine profile is, as data: the steps from a group's ends to its scale and offset, and from a value to its code.

Leaves of the steps' expressions:

======= ============================================================================================
lo, hi  the group's smallest and largest value
bins    2**bits - 1
x       one value (steps of the code only)
s       the stored scale: `scale` rounded once to the format's dtype
b, z    the stored offset: `bias` rounded once to that dtype, or `zero`, a whole number
======= ============================================================================================

and the names of earlier steps, which are bound to values that nothing has rounded for storage. A profile whose codes come
from `scale` divides by another number than one whose codes come from `s`; both exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mxspec.affine.formats import AffineFormat, Offset
from mxspec.expressions import Expr
from mxspec.formats import FLOATS
from mxspec.profiles.schema import AmaxNan, Evidence, Kind


@dataclass(frozen=True, slots=True)
class Step:
    """A named value."""

    name: str
    value: Expr
    #: Whether the value becomes the nearest whole number, of two equally near ones the even one.
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AffineProfile:
    """How a group becomes codes, a scale and an offset: a function from inputs to bits.

    A code is the step `code`, not below 0 and not above `bins`; NaN becomes `nan_code`.
    """

    id: str
    kind: Kind
    #: One sentence: what distinguishes it.
    summary: str
    #: Where the rule is written.
    source: str
    evidence: Evidence
    #: What was run to confirm it. Empty: nothing was.
    witness: str = ""
    offset: Offset
    #: Dtypes of the scales that it covers.
    dtypes: Sequence[str] = tuple(FLOATS)
    #: Steps of a group: one is named `scale`, one `bias` or `zero`.
    group: tuple[Step, ...]
    #: Steps of an element: the last is named `code`.
    element: tuple[Step, ...]
    #: What a NaN does to the group's ends.
    nan: AmaxNan = AmaxNan.PROPAGATE
    #: The code of what is NaN before it is cut to the range; where the implementation converts NaN to an integer, this is
    #: what the witness's machine does.
    nan_code: int = 0
    #: Inputs on which the implementation's result is not determined.
    unspecified: tuple[str, ...] = ()

    @property
    def provisional(self) -> bool:
        """Whether it describes an implementation that this project has not run."""
        return self.kind is Kind.DESCRIPTIVE and self.evidence is not Evidence.MEASURED

    def covers(self, fmt: AffineFormat) -> bool:
        """Whether it quantizes to this format."""
        return self.offset is fmt.offset and fmt.dtype in self.dtypes
