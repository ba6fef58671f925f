"""What would have returned the bits that are wrong: as a type, so that no verdict hangs on its words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from mxspec.enums import StrEnum
from mxspec.rounding import Rounding

ROUNDING_TEXT = {
    Rounding.RNE: "nearest, ties to even",
    Rounding.RNA: "nearest, ties away from zero",
    Rounding.RNZ: "nearest, ties toward zero",
    Rounding.RNU: "nearest, ties toward +infinity",
    Rounding.RTZ: "toward zero",
    Rounding.RTN: "toward -infinity",
    Rounding.RTP: "toward +infinity",
}

#: What leaves of expressions are called in a sentence.
LEAF_NAMES = {"q": "element", "sf": "block scale", "g": "tensor scale", "S": "encode scale", "tmax": "tensor maximum"}


class Cause(IntEnum):
    """What kind of thing explains wrong bits."""

    #: Another profile: the requirement is a deviation, not a failure.
    PROFILE = 0
    #: The judged profile, its elements rounded otherwise.
    PROFILE_ROUNDED = 1
    #: A conversion in another rounding mode.
    ROUNDING = 2
    #: Another storage layout.
    LAYOUT = 3
    #: A known mistake in this layout.
    LAYOUT_MISTAKE = 4
    #: A product's sums of another class of accumulations: a deviation, as another profile is.
    ACCUMULATOR = 5
    #: A known mistake in a product.
    PRODUCT_MISTAKE = 6
    #: A known mistake with affine integers.
    AFFINE_MISTAKE = 7
    #: A known mistake in pruned or compressed codes.
    SPARSE_MISTAKE = 8
    #: Another dequantization contract of affine integers.
    CONTRACT = 9
    #: A known mistake in a conversion: a misreading of codes or scale bytes, or overflow of the other kind.
    CONVERSION_MISTAKE = 10
    #: A known mistake in attention.
    ATTENTION_MISTAKE = 11


#: Causes that make a requirement a deviation.
DEVIATING = (Cause.PROFILE, Cause.ACCUMULATOR, Cause.CONTRACT)


class Mistake(StrEnum):
    """Mistakes within a layout, those first that explain the others; as words, before which "as if" goes."""

    NIBBLES_SWAPPED = "the nibbles of each byte were swapped"
    NEIGHBOURS_SHARED = "neighbours shared a byte instead of halves of the block"
    AWQ_ORDER = "each 32-bit word held its nibbles in AWQ's order 0 2 4 6 1 3 5 7"
    PLAIN_ORDER = "each 32-bit word held its nibbles in plain order"
    HALVES_OF_16 = "each block were split in halves of 16"
    HALVES_OF_8 = "each block were split in halves of 8"
    HIGHEST_BIT_FIRST = "codes were packed from the highest bit down"
    LOWEST_BIT_FIRST = "codes were packed from the lowest bit up"
    SCALE_LAST = "the scale stood after the codes"
    STORED_PLAINLY = "codes were stored as they are"
    PADDING_CUT = "the padding were cut off"
    ROWS_IN_ORDER = "rows lay in order inside each tile"
    TILES_BY_COLUMN = "tiles lay column by column"
    UNPADDED_WIDTH = "rows were as wide as before padding"
    TILES_ROUNDED_DOWN = "the tiles of a row were counted by columns over those of a tile, rounded down"
    TRANSPOSED = "the matrix were transposed"
    BIG_ENDIAN = "32-bit words were big-endian"


class SparseMistake(StrEnum):
    """Mistakes in sparse operands, as words before which "as if" goes."""

    EXCHANGED = "the two kept codes, or the two positions of a nibble, were exchanged"
    PAIRS_TURNED = "the two codes of a pair were exchanged"
    NIBBLES_SWAPPED = "the nibbles of each byte of metadata were swapped"
    NIBBLES_REVERSED = "the nibbles of each word of metadata were in reversed order"
    HALF_A_WORD = "the lower half of a word of metadata were used for both halves"
    SIGNED = "the largest numbers were kept, not magnitudes"
    SMALLEST = "the smallest magnitudes were kept"


class ConversionMistake(StrEnum):
    """Ways in which codes and scale bytes are decoded wrongly, and those of encoding, as words before which "as if" goes."""

    ZERO_BYTE = "byte 00 were zero"
    NAN_INFINITE = "the NaN byte were infinity"
    NAN_POWER = "the NaN byte were the next power of two"
    FIELD_OF_FLOAT32 = "the byte were the exponent field of a float32, 00 zero and FF infinity"
    BYTE_ITSELF = "the byte itself were the number"
    SIGNED_BYTE = "the byte were a signed exponent, without a bias"
    AS_E8M0 = "the byte were an E8M0 scale"
    EXPONENT_ALONE = "the exponent field alone were read, without the fraction"
    SPECIALS_FINITE = "infinities and NaN were numbers like others"
    SUBNORMALS_NORMAL = "subnormals had a leading one"
    ALL_NORMAL = "every code were a normal number: zero, subnormals and NaN, too"
    SUBNORMALS_HALVED = "subnormals were half as large: the exponent -bias, not 1 - bias"
    SUBNORMALS_ZERO = "subnormals were zero"
    WHOLE_NUMBERS = "integers were themselves, without the format's factor"
    THROUGH_FLOAT16 = "numbers were held in float16 first"
    THROUGH_BFLOAT16 = "numbers were held in bfloat16 first"
    FLOAT16_CARRY = "numbers were held in float16 first, where a carry out of a subnormal's fraction counts twice"
    DISTANCES = "the code were that of the least distance in float32, in which large numbers are as far from one value as from another"
    BIASED_DISTANCES = "the code were that of the least distance in float32, less 1e-6 for even codes: more than ties go to even"
    TIES_DOWN = "ties went toward -infinity"
    CARRY_ORED = "a carry out of the fraction were ORed into the exponent field"
    CARRY_DROPPED = "a carry out of the fraction were dropped"
    TWICE_BELOW = "subnormals were rounded as normal numbers first, and so rounded twice"
    COARSE_BELOW = "subnormals counted steps of the smallest normal number"
    NOTHING_BELOW = "all below the smallest normal number were zero"
    TOP_FIELD_FULL = "the largest exponent held no numbers, and they saturated"
    TOP_FIELD_INFINITE = "the largest exponent were infinity and NaN, as in IEEE 754"
    LAST_BUT_ONE = "infinity were the last code but one, and its exponent's others NaN, as in Universal's cfloat"
    SIGNED_MAXIMUM = "the largest number were taken, not the largest magnitude"
    UNGUARDED = "2688 were divided by the largest magnitude, however small or large that is"
    RECIPROCAL = "a rounded reciprocal were multiplied with, where a quotient is required"
    NAN_IN_A_RANGE = "finite overflow were NaN in a range of numbers, and saturated beyond"
    FRACTION_IN_PART = "some bits of the fraction were not looked at"
    ADDED_TO_BFLOAT16 = "the scale's exponent were added to the 16 bits of the element as bfloat16, and ran into its sign"
    ADDED_TO_FLOAT32 = "the scale's exponent were added to the 32 bits of the element as float32, and ran into its sign"
    ALL_ZERO = "every number were zero"
    ALL_NAN = "every number were NaN"
    NOISE_BFLOAT16 = "the random number were rounded to bfloat16, where it may become 1"
    LOG2_FLOOR = "the scale were floor(log2(v)) in float32: one too high just below some powers of two"
    LOG2_CEIL = "the scale were ceil(log2(v)) in float32: one too low just above some powers of two"
    LOG2_ROUND = "the scale were round(log2(v)) in float32"
    SATURATED = "overflow saturated, where the format's own Inf or NaN is asked for"


_MISTAKES: list[Mistake | SparseMistake | ConversionMistake] = [*Mistake, *SparseMistake, *ConversionMistake]
_ROUNDINGS = list(Rounding)


@dataclass(frozen=True, slots=True)
class Explanation:
    """One thing that would have returned the same bits."""

    cause: Cause
    #: The id of a profile, a layout or a class of accumulations; of a contract its name; of a mistake in a product
    #: or with affine integers its words, one to each in its list; of one in a conversion its words, where it has numbers.
    name: str = ""
    rounding: Rounding | None = None
    mistake: Mistake | SparseMistake | ConversionMistake | None = None

    @property
    def order(self) -> tuple[int, str, int, int]:
        """A key by which explanations that are equally good are ranked: by what they are, ids and order of definition."""
        rounding = -1 if self.rounding is None else _ROUNDINGS.index(self.rounding)
        return (self.cause, self.name, rounding, -1 if self.mistake is None else _MISTAKES.index(self.mistake))

    @property
    def text(self) -> str:
        """For people."""
        if self.cause is Cause.PROFILE_ROUNDED:
            assert self.rounding is not None
            return f"{self.name} with elements rounded {ROUNDING_TEXT[self.rounding]}"
        if self.cause is Cause.ROUNDING:
            assert self.rounding is not None
            return f"rounding {self.rounding.value}"
        if self.cause is Cause.LAYOUT:
            return f"layout {self.name}"
        if self.cause in (Cause.LAYOUT_MISTAKE, Cause.SPARSE_MISTAKE):
            assert self.mistake is not None
            return self.mistake.value
        if self.cause is Cause.CONVERSION_MISTAKE:
            words = self.name if self.mistake is None else self.mistake.value
            and_rounding = "" if self.rounding is None else f", and rounding were {ROUNDING_TEXT[self.rounding]}"
            return f"if {words}{and_rounding}"  # after the "as" of a note
        if self.cause is Cause.CONTRACT:
            return f"contract {self.name}"
        return self.name


def by_profile(name: str) -> Explanation:
    """A profile gives these bits."""
    return Explanation(Cause.PROFILE, name)


def by_profiles(names: frozenset[str] | set[str] | list[str]) -> frozenset[Explanation]:
    """Each of these profiles gives these bits."""
    return frozenset(map(by_profile, names))
