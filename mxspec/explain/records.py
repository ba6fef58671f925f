"""What an explanation holds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from mxspec.explain.text import float32_bits
from mxspec.explain.trace import Place, Step
from mxspec.formats import BlockFormat, ElementFormat, ScaleFormat
from mxspec.profiles.schema import Profile, QuantizationSteps, ScaleRule
from mxspec.reals import Real
from mxspec.rounding import NanPolicy, Overflow, Rounding
from mxspec.tensorscale import TensorScale


@dataclass(frozen=True, slots=True)
class RuleText:
    """The rule that decided a code, in words."""

    label: str
    #: How it reads before "gives CODE", where that is not the label.
    phrase: str = ""
    #: What else became of the number.
    note: str = ""
    #: Whether nothing was decided: the number is a value of the format.
    is_exact: bool = False

    def __str__(self) -> str:
        return f"{self.label}; {self.note}" if self.note else self.label

    @property
    def in_sentence(self) -> str:
        """As it stands before "gives CODE"."""
        return self.phrase if self.phrase and not self.note else str(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleExplanation:
    """From the largest magnitude to the scale code."""

    rule: ScaleRule
    format: ScaleFormat
    #: Operations of the scale expression; empty where its value is a leaf.
    steps: tuple[Step, ...]
    #: What is encoded.
    value: Real
    #: Exponent of the value's binade, for a finite value above zero.
    floor_log2: int | None
    #: log2 as the rule's float computes it, for the rules that do.
    log2: Fraction | None
    #: The exponent that the step alone gives; None for the steps that encode the value itself.
    raw_exponent: int | None
    #: The exponent after emax and offset, before bias and clamping; None for encoders other than e8m0's.
    exponent: int | None
    #: The code before the clamp to the byte range or the wrap.
    unclamped: int | None
    #: The value among the scale format's values, where an encoder chooses between neighbours.
    place: Place | None
    code: int
    #: What the stored code means.
    decoded: Real

    @property
    def value_bits(self) -> int | None:
        """float32 bits of the value, if float32 holds it."""
        return float32_bits(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneExplanation:
    """From one element to its code and back."""

    lane: int
    #: float32 bits as given.
    bits: int
    #: What the profile's stages see: flushed or normalized where it does so.
    x: Real
    #: Operations that involve x; a step named `x` normalizes it first.
    steps: tuple[Step, ...]
    #: What the element encoder is given.
    scaled: Real
    place: Place
    #: (code, error) of the neighbours and of the code chosen, for profiles that search for the least error.
    errors: tuple[tuple[int, Real], ...]
    #: The rule that decided, in a few words.
    rule: RuleText
    code: int
    #: What the code means.
    q: Real
    #: The dequantized value before it is rounded to an output dtype, and its float32 bits.
    value: Real
    value_bits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One of the two scales that a profile with an alternative tries."""

    scale_code: int
    codes: tuple[int, ...]
    #: The summed error of the block.
    error: Real
    chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockExplanation:
    """One block through one profile, every step."""

    format: BlockFormat
    profile: Profile
    #: The stage's arithmetic: one level, or two with a tensor scale.
    quantization: QuantizationSteps
    tensor_scale: TensorScale | None
    #: From the tensor's maximum or the native tensor scale to the leaves that the block uses.
    tensor_steps: tuple[Step, ...]
    #: Values of the leaves that the tensor scale gives, by name.
    leaves: tuple[tuple[str, Real], ...]
    #: The largest magnitude, its bits, and the first lane that has it (None: no lane does).
    amax: Real
    amax_bits: int | None
    amax_lane: int | None
    scale: ScaleExplanation
    #: Both candidates where the profile tries two scales, else empty; `scale` is the chosen one's.
    candidates: tuple[Candidate, ...]
    #: Operations of the scaled value that are the same for every lane.
    shared_steps: tuple[Step, ...]
    lanes: tuple[LaneExplanation, ...]

    @property
    def codes(self) -> tuple[int, ...]:
        """The element codes."""
        return tuple(lane.code for lane in self.lanes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarExplanation:
    """One number through one encoder."""

    format: ElementFormat | ScaleFormat
    rounding: Rounding
    overflow: Overflow
    nan: NanPolicy
    bits: int
    x: Real
    place: Place
    #: For stochastic rounding: random word, number of bits, floor(frac * 2^bits); else None.
    random: tuple[int, int, int] | None
    rule: RuleText
    code: int
    #: What the code means.
    value: Real
