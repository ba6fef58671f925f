"""What may have been done to a tensor between the original and the file, as data."""

from __future__ import annotations

from dataclasses import dataclass, fields

from mxspec.enums import StrEnum


class Departure(StrEnum):
    """One way in which a stored tensor departs from what its convention, read straight, says; each is a rule `against/...`."""

    #: The two codes of each byte stand in the other order.
    NIBBLES = "nibbles"
    #: Lanes j and j + k/2 of a block share a byte where neighbours are due, or the reverse.
    LANES = "lanes"
    #: Block scales stand in 128x4 tiles where row-major ones are due, or the reverse.
    SWIZZLE = "swizzle"
    #: Block scales stand column by column.
    TRANSPOSED = "transposed"
    #: Block scales stand some rows away from theirs.
    ROWS = "rows"
    #: All e8m0 bytes are the right ones plus one number.
    SHIFT = "shift"
    #: The tensor scale is of the other direction: encode where decode is due, or the reverse.
    INVERTED = "inverted"
    #: The tensor scale is not the one with which codes and block scales were made.
    TENSOR_SCALE = "tensor-scale"
    #: The original was quantized to something else first.
    TWICE = "twice"
    #: The original was rounded to a 16-bit float first, as a model that is loaded in one is.
    CAST = "cast"
    #: Block scales follow one profile, codes were made with those of another.
    SCALE_RULE = "scale-rule"
    #: Codes and scales are those of another tensor.
    OTHER = "other"
    #: The codes are those of another tensor, the scales are not.
    OTHER_CODES = "other-codes"
    #: The scales are those of another tensor, the codes are not.
    OTHER_SCALES = "other-scales"
    #: The eight codes of a word stand in AWQ's order where the first is due in the lowest bits, or the reverse.
    INTERLEAVE = "interleave"
    #: All zero points are the right ones plus one number.
    ZERO_POINT = "zero-point"
    #: The bits of scales and biases are those of the other 16-bit float.
    DTYPE = "dtype"
    #: Scales, zero points or biases belong to the group before or after.
    GROUP = "group"
    #: Codes are two's complement where they are due as unsigned numbers, or the reverse.
    COMPLEMENT = "complement"
    #: Every bias has the wrong sign.
    SIGN = "sign"


class CodeOrder(StrEnum):
    """In which order the stored codes of a block are read."""

    #: As the convention says.
    STORED = "stored"
    #: Neighbours 2i and 2i + 1 swapped.
    SWAPPED = "swapped"
    #: Stored lanes 0, 1, 2, 3, ... are lanes 0, k/2, 1, k/2 + 1, ...
    HALVES = "halves"
    #: Stored lanes 0, k/2, 1, ... are lanes 0, 1, 2, ...
    PAIRS = "pairs"


class ScaleOrder(StrEnum):
    """In which order the stored block scales are read."""

    #: As the convention says.
    STORED = "stored"
    #: Row-major.
    LINEAR = "linear"
    #: In 128x4 tiles.
    TILED = "tiled"
    #: Column by column.
    TRANSPOSED = "transposed"


class WordOrder(StrEnum):
    """In which order the eight numbers of a 32-bit word of affine integers are read."""

    #: As the convention says.
    STORED = "stored"
    #: The two numbers of each byte swapped.
    SWAPPED = "swapped"
    #: The first in the lowest bits.
    LOWEST_FIRST = "lowest-first"
    #: AWQ's: 0, 2, 4, 6, 1, 3, 5, 7.
    INTERLEAVED = "interleaved"


class GroupOrder(StrEnum):
    """In which order scales or offsets of groups are read."""

    #: As the convention says.
    STORED = "stored"
    #: Rows are columns.
    TRANSPOSED = "transposed"
    #: Those of a group stand one place before it.
    BEFORE = "before"
    #: Those of a group stand one place after it.
    AFTER = "after"


class Basis(StrEnum):
    """What the stored codes are compared with."""

    #: Codes and scales that the profile gives for the original.
    PROFILE = "profile"
    #: Codes that follow from the original and the stored scales, rounded to nearest; any scale is right.
    GIVEN_SCALES = "given-scales"


#: Names of 16-bit floats to which an original may have been rounded.
CASTS = ("bfloat16", "float16")

_CODE_DEPARTURES = {
    CodeOrder.SWAPPED: Departure.NIBBLES, CodeOrder.HALVES: Departure.LANES, CodeOrder.PAIRS: Departure.LANES,
}  # fmt: skip
_SCALE_DEPARTURES = {
    ScaleOrder.LINEAR: Departure.SWIZZLE, ScaleOrder.TILED: Departure.SWIZZLE, ScaleOrder.TRANSPOSED: Departure.TRANSPOSED,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """How the stored bits may have come from an original."""

    basis: Basis
    #: The profile with which the codes were made.
    profile: str
    #: The profile of the stored scales, where it is another.
    scale_profile: str | None = None
    codes: CodeOrder = CodeOrder.STORED
    scales: ScaleOrder = ScaleOrder.STORED
    #: Scales of a row stand so many rows below it, those of the last rows at the top.
    rolled: int = 0
    #: Added to every e8m0 byte.
    shift: int = 0
    #: float32 bits of the tensor scale used, in the profile's own kind; None: the format has none, or it is the stored one.
    tensor_scale: int | None = None
    #: INVERTED or TENSOR_SCALE, where that is not the stored one.
    scale_fault: Departure | None = None
    #: What the original was quantized to first, as `Between.name` has it.
    between: str | None = None
    #: Names of the originals of codes and of scales, where they are another tensor's.
    codes_of: str | None = None
    scales_of: str | None = None

    @property
    def departures(self) -> tuple[Departure, ...]:
        """What is wrong, if this is what happened; empty: nothing."""
        found: list[Departure] = []
        if self.codes_of and self.codes_of == self.scales_of:
            found.append(Departure.OTHER)
        else:
            found += [Departure.OTHER_CODES] if self.codes_of else []
            found += [Departure.OTHER_SCALES] if self.scales_of else []
        found += [_CODE_DEPARTURES[self.codes]] if self.codes in _CODE_DEPARTURES else []
        found += [_SCALE_DEPARTURES[self.scales]] if self.scales in _SCALE_DEPARTURES else []
        found += [Departure.ROWS] if self.rolled else []
        found += [Departure.SHIFT] if self.shift else []
        found += [self.scale_fault] if self.scale_fault else []
        found += [Departure.CAST if self.between in CASTS else Departure.TWICE] if self.between else []
        found += [Departure.SCALE_RULE] if self.scale_profile not in (None, self.profile) else []
        return tuple(found)

    def as_dict(self) -> dict[str, object]:
        """The form in JSON."""
        return {
            "departures": [d.value for d in self.departures], "basis": self.basis.value, "profile": self.profile,
            "scale_profile": self.scale_profile, "shift": self.shift,
            "tensor_scale": None if self.tensor_scale is None else f"{self.tensor_scale:08x}", "between": self.between,
            "codes_of": self.codes_of, "scales_of": self.scales_of, **({"rolled": self.rolled} if self.rolled else {}),
        }  # fmt: skip


_WORD_DEPARTURES = {
    WordOrder.SWAPPED: Departure.NIBBLES, WordOrder.LOWEST_FIRST: Departure.INTERLEAVE, WordOrder.INTERLEAVED: Departure.INTERLEAVE,
}  # fmt: skip
_GROUP_DEPARTURES = {
    GroupOrder.TRANSPOSED: Departure.TRANSPOSED, GroupOrder.BEFORE: Departure.GROUP, GroupOrder.AFTER: Departure.GROUP,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the stored parts of affine integers are read; the default is as the convention says."""

    codes: WordOrder = WordOrder.STORED
    #: Whether the words of codes are read column by column.
    turned: bool = False
    #: Whether 2^(bits - 1) is added to codes, modulo 2^bits.
    complement: bool = False
    zeros: WordOrder = WordOrder.STORED
    scales: GroupOrder = GroupOrder.STORED
    offsets: GroupOrder = GroupOrder.STORED
    #: Added to each zero point, modulo 2^bits.
    step: int = 0
    #: Whether the sign of every bias is the other.
    negated: bool = False
    #: The dtype that the bits of scales and biases are of; None: the stored one.
    dtype: str | None = None

    @property
    def departures(self) -> tuple[Departure, ...]:
        """What is wrong if this is right."""
        found = [_WORD_DEPARTURES[o] for o in (self.codes, self.zeros) if o in _WORD_DEPARTURES]
        found += [_GROUP_DEPARTURES[o] for o in (self.scales, self.offsets) if o in _GROUP_DEPARTURES]
        numeric = (
            (self.turned, Departure.TRANSPOSED), (self.complement, Departure.COMPLEMENT), (bool(self.step), Departure.ZERO_POINT),
            (self.negated, Departure.SIGN), (self.dtype is not None, Departure.DTYPE),
        )  # fmt: skip
        return tuple(dict.fromkeys((*found, *(d for is_so, d in numeric if is_so))))


@dataclass(frozen=True, slots=True, kw_only=True)
class AffineHypothesis:
    """How the stored bits of affine integers may have come from an original."""

    basis: Basis
    #: The profile with which they were made; of codes under given scales: the first that covers the format.
    profile: str
    reading: Reading = Reading()
    #: Whether the original's rows were its columns.
    of_columns: bool = False
    #: What the original was quantized to first.
    between: str | None = None
    #: Names of the originals of codes, and of scales and offsets, where they are another tensor's.
    codes_of: str | None = None
    scales_of: str | None = None

    @property
    def departures(self) -> tuple[Departure, ...]:
        """What is wrong, if this is what happened; empty: nothing."""
        found: list[Departure] = []
        if self.codes_of and self.codes_of == self.scales_of:
            found.append(Departure.OTHER)
        else:
            found += [Departure.OTHER_CODES] if self.codes_of else []
            found += [Departure.OTHER_SCALES] if self.scales_of else []
        found += [Departure.TRANSPOSED] if self.of_columns else []
        found += self.reading.departures
        found += [Departure.CAST if self.between in CASTS else Departure.TWICE] if self.between else []
        return tuple(dict.fromkeys(found))

    def as_dict(self) -> dict[str, object]:
        """The form in JSON: that of block formats, and how the parts are read where that is not the convention's."""
        plain = Reading()
        parts = {f.name: getattr(self.reading, f.name) for f in fields(Reading)}
        read = {name: value for name, value in parts.items() if value != getattr(plain, name)}
        return {
            "departures": [d.value for d in self.departures], "basis": self.basis.value, "profile": self.profile,
            "scale_profile": None, "shift": self.reading.step, "tensor_scale": None, "between": self.between,
            "codes_of": self.codes_of, "scales_of": self.scales_of,
            "read": read | ({"of_columns": True} if self.of_columns else {}),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well a hypothesis explains a tensor: counts over elements."""

    #: Elements whose code, and the scale of whose block, are as the hypothesis says.
    agreeing: int
    elements: int
    #: Elements that are zero in the original and stored as zero: they agree under any hypothesis.
    silent: int = 0
    #: The first element that does not agree; None: all do.
    first: int | None = None

    @property
    def complete(self) -> bool:
        """Whether every element agrees."""
        return self.agreeing == self.elements

    @property
    def majority(self) -> bool:
        """Whether most elements that can tell agree."""
        return 2 * (self.agreeing - self.silent) > self.elements - self.silent


@dataclass(frozen=True, slots=True)
class Explanation:
    """What became of one tensor."""

    base: str
    #: Name of the original.
    original: str
    hypothesis: Hypothesis | AffineHypothesis
    agreement: Agreement
    #: The best that can be said if nothing is wrong.
    as_stored: Agreement

    def as_dict(self) -> dict[str, object]:
        """The form in JSON."""
        return {
            "tensor": self.base, "original": self.original, **self.hypothesis.as_dict(), "agreeing": self.agreement.agreeing,
            "elements": self.agreement.elements, "agreeing_as_stored": self.as_stored.agreeing,
        }  # fmt: skip
