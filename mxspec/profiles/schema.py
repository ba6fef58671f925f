"""What a profile is: a function from inputs to bits, written as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mxspec.enums import StrEnum
from mxspec.expressions import ZERO, Domain, Expr, Leaf, leaves
from mxspec.rounding import Choice, NanPolicy, Overflow, Rounding, ZeroPolicy


class Kind(StrEnum):
    """Whether a profile says what should be, or what is."""

    #: What a specification says, with every choice that it leaves open pinned.
    NORMATIVE = "normative"
    #: What a library computes in one version and code path, its bugs included.
    DESCRIPTIVE = "descriptive"


class Evidence(StrEnum):
    """How a fact is known."""

    #: The library, the vendor's header or the chip was run and agreed bit for bit.
    MEASURED = "measured"
    #: The vendor's source for its chip, built by another compiler for another machine, agreed bit for bit.
    COMPILED = "compiled"
    #: The source was read.
    READ = "read"
    #: From reading the source.
    SECOND_HAND = "second-hand"


class ScaleStep(StrEnum):
    """How the value v > 0 of the scale expression becomes a scale code.

    For e8m0 a step gives an exponent e, from which emax is subtracted if the rule says so; for float32 scales the power of two,
    which `byte_range` keeps normal. fl32 is rounding to float32, to nearest even.
    """

    #: e8m0: the largest integer e with 2**e <= v; exact.
    FLOOR = "floor"
    #: e8m0: the smallest integer e with 2**e >= v; exact.
    CEIL = "ceil"
    #: e8m0: the largest integer e with 2**e <= v + 2**floor(log2 v) * u / 2, where u is the step between the element's
    #: values in its largest binade, divided by 2**emax; exact. The significand is rounded half up to the element's
    #: precision; "EVEN" in the field.
    HALF_UP = "half-up"
    #: e8m0: floor(fl32(log2 v)), as log2f computes it: one too high just below some powers of two.
    LOG2F_FLOOR = "log2f-floor"
    #: e8m0: floor of fl32(log2 v) rounded to bfloat16, as torch.log2 of a bfloat16 tensor gives it.
    LOG2BF16_FLOOR = "log2bf16-floor"
    #: e8m0: ceil(fl32(log2 v)): one too low just above some powers of two.
    LOG2F_CEIL = "log2f-ceil"
    #: e8m0: the integer nearest to fl32(log2 v), of two equally near ones the even one.
    LOG2F_ROUND = "log2f-round"
    #: The scale format's own encoder, saturating, in the rounding that the rule names.
    ENCODE = "encode"
    #: ggml's encoder of ue4m3: half up on one bit, 7E from 248 on, subnormals never round up to 08.
    GGML_UE4M3 = "ggml-ue4m3"

    @property
    def has_table(self) -> bool:
        """Whether the upper 16 bits of a normal float32 and whether a lower one is set decide the code.

        All thresholds of such a step have at most eight significand bits: elements of eight bits have no more in their
        largest value, and so the bound of `HALF_UP`, nor have the midpoints of a scale format. The thresholds of a rounded
        logarithm, and of a sum rounded to float32, lie between.
        """
        return self in (ScaleStep.FLOOR, ScaleStep.CEIL, ScaleStep.HALF_UP, ScaleStep.ENCODE)


class ExponentUnderflow(StrEnum):
    """What happens to an exponent below the scale format's range."""

    CLAMP = "clamp"
    #: The byte is taken modulo 256.
    WRAP = "wrap"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRule:
    """How a block's largest magnitude becomes its scale byte.

    Sources and edge cases: the profile's own `source`.
    """

    #: The value that is encoded, from `amax` (and S, g, tmax, M).
    value: Expr
    step: ScaleStep
    #: Rounding of `ScaleStep.ENCODE`.
    rounding: Rounding = Rounding.RNE
    #: Whether the element's emax is subtracted from the exponent (the floor family).
    subtract_emax: bool = False
    #: Added to the exponent.
    offset: int = 0
    underflow: ExponentUnderflow = ExponentUnderflow.CLAMP
    #: Smallest and largest byte that a finite value may give.
    byte_range: tuple[int, int] = (0x00, 0xFE)
    #: Bytes for values of zero, infinity and NaN; None: what the step gives (zero: the low end; infinity: the high end;
    #: NaN: the format's NaN).
    on_zero: int | None = None
    on_inf: int | None = None
    on_nan: int | None = None

    @property
    def is_monotone(self) -> bool:
        """Whether the byte never falls as the expression's value grows from zero through all finite values.

        It falls where exponents below the range wrap, and where zero has a byte above the smallest. (The expression may
        fall as the maximum grows; that is another question.)
        """
        return self.underflow is ExponentUnderflow.CLAMP and self.on_zero in (None, self.byte_range[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementRule:
    """How a scaled element becomes its code."""

    rounding: Rounding = Rounding.RNE
    #: The nearest step is floor(steps + 0.5) with the sum in float32, which rounds twice just below half a step;
    #: with `rne` an exact tie that came out odd is taken back by one, with `rna` it stays.
    add_half_floor_f32: bool = False
    #: The domain of that sum, where it is not float32 (a framework that computes in the input's bfloat16).
    half_floor_domain: Domain = Domain.F32
    overflow: Overflow = Overflow.SATURATE
    #: Codes of NaN lanes where the format has no NaN, and where it has one.
    nan: NanPolicy = NanPolicy.MAX_POSITIVE
    nan_own: NanPolicy = NanPolicy.NAN
    zero: ZeroPolicy = ZeroPolicy.SIGNED
    #: Smallest int8 code that is written: -127 (81) or -128 (80).
    int8_lowest: int = -127
    #: Sign of a NaN that arithmetic makes from numbers (0 * Inf); x86 sets it, CUDA does not.
    invalid_sign: int = 0
    #: If not None, the code of every lane of a block whose scale is NaN; None: what the arithmetic gives.
    under_nan_scale: int | None = None
    #: If not None, codes are found by search: this expression of q (a candidate's value), x, sf and scaled is the
    #: candidate's error; codes are tried upward from 0, and one replaces the best so far only if its error compares
    #: less (NaN never does). Rounding, overflow and the policies for NaN and zero then do not matter.
    error: Expr | None = None
    #: The rounded value has no upper bound (above 4 the step between values is 2), and its code is built from the
    #: fields of its bfloat16: sign bit << 3 | (exponent field - 126) << 1 | first mantissa bit, ORed and cut to eight
    #: bits; NaN and Inf give 0B. Codes are packed two per byte by OR, first lane low: bits beyond four fall into the
    #: next lane. e2m1 only.
    unbounded_fields: bool = False
    #: The step between values is that of the binade floor(log2 |x|) with log2 rounded to float32, not of x's own:
    #: just below a power of two it is the next binade's. Shows only when rounding toward zero.
    binade_log2f: bool = False

    @property
    def is_lane_local(self) -> bool:
        """Whether a lane's code follows from the lane and what its block shares (the scale and the maximum).

        Otherwise a block cannot be taken apart into pairs of a maximum and an element.
        """
        return not self.unbounded_fields

    @property
    def is_deterministic(self) -> bool:
        """Whether the code needs no random bits."""
        return self.rounding is not Rounding.SR

    @property
    def has_table(self) -> bool:
        """Whether the scaled element's upper 16 bits as a float32, and whether a lower one is set, decide the code.

        So they do for the roundings of a format's encoder. They do not where the code is the least of several errors, or
        where a sum or a logarithm in float32 is rounded on the way.
        """
        rounded_on_the_way = self.add_half_floor_f32 or self.binade_log2f
        return self.error is None and not rounded_on_the_way and self.is_lane_local and self.is_deterministic

    def with_rounding(self, rounding: Rounding) -> ElementRule:
        """This rule with codes found by a rounding of the format's encoder; zeros, NaN and overflow as they are."""
        return replace(self, rounding=rounding, error=None, add_half_floor_f32=False, binade_log2f=False)

    @property
    def is_monotone(self) -> bool:
        """Whether, under one scale, no code falls in magnitude as the quotient's grows up to 3/2 of the largest value.

        It falls where an exact tie is taken back to the even code although what lies just below it went up (a float32 sum
        rounds it up to the tie's), where a float32 log2 puts what lies just below a power of two into the next binade, and
        where a value beyond the largest spills into other bits.
        """
        taken_back = self.add_half_floor_f32 and self.rounding is Rounding.RNE
        return not (taken_back or self.binade_log2f or self.unbounded_fields)


class AmaxNan(StrEnum):
    """What a NaN does to the largest magnitude of its block."""

    #: The result is NaN.
    PROPAGATE = "propagate"
    #: NaN lanes are ignored; a block of only NaN has the maximum 0.
    SKIP = "skip"
    #: NaN lanes are ignored; a block of only NaN has the maximum NaN (a fold that starts at a lane, not 0).
    SKIP_UNLESS_ALL = "skip-unless-all"
    #: NaN lanes are ignored; the result is NaN if all of lanes 1, 3, 5, ... are NaN (pairs are folded lane by
    #: lane, then the two results are compared by >, which takes the second if either is NaN).
    SKIP_UNLESS_ODD = "skip-unless-odd"


class TensorScaleKind(Choice):
    """What the float32 tensor scale of NVFP4 means."""

    #: g, about amax / 2688: the value of an element is code value * block scale * g.
    DECODE = "decode"
    #: S, about 2688 / amax: elements are multiplied by S before they are encoded.
    ENCODE = "encode"
    #: The largest magnitude of the tensor; the profile derives g or S.
    AMAX = "amax"


#: The leaf that a native tensor scale binds.
TENSOR_LEAF: dict[TensorScaleKind, str] = {TensorScaleKind.DECODE: "g", TensorScaleKind.ENCODE: "S", TensorScaleKind.AMAX: "tmax"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRule:
    """Where the tensor scale comes from."""

    #: The kind that the stack itself stores and passes.
    native: TensorScaleKind
    #: The native scale from `tmax`.
    from_amax: Expr
    #: Further leaves in terms of the native one, in order of evaluation: ((S, expression), ...).
    derived: tuple[tuple[Leaf, Expr], ...] = ()
    #: A NaN in the tensor makes `tmax` NaN (propagate) or is passed over.
    amax_nan: AmaxNan = AmaxNan.PROPAGATE


class ErrorNorm(StrEnum):
    """The error that a search minimises."""

    #: The sum of the lanes' squared errors.
    SQUARED = "squared"
    #: The sum of the lanes' absolute errors.
    ABSOLUTE = "absolute"
    #: The largest error of a lane instead of a sum; NaN if one is NaN.
    MAXIMUM = "maximum"


class ErrorOrder(StrEnum):
    """In which order float32 adds the lanes' errors."""

    #: Lanes 0 to k - 1.
    LANES = "lanes"
    #: Lane i and lane i + k/2 first, then those k/2 sums in order (torch.sum, rows of 16 in bfloat16, x86-64).
    HALVES = "halves"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Four-over-Six: a second scale is tried and kept if its error is strictly smaller.

    Both candidates are quantized and dequantized, and their lanes' errors are summed in float32.
    """

    #: The second candidate's scale rule.
    scale: ScaleRule
    norm: ErrorNorm
    #: The error of one lane, from `x`, `y` (the dequantized lane), `q` and `sf` (what it was dequantized from).
    error: Expr
    order: ErrorOrder = ErrorOrder.LANES
    #: Where the total is rounded once more before it is compared.
    total: Domain = Domain.F32


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationSteps:
    """The steps of one form of a profile, with or without a tensor scale: to the scale, to the element, and back."""

    scale: ScaleRule
    #: What the element encoder is given, from `x` and `sf`.
    scaled: Expr
    #: The value of a stored element, from `q` and `sf`.
    dequantize: Expr
    element: ElementRule = field(default_factory=ElementRule)
    alternative: Alternative | None = None
    #: If not None, what replaces each element before anything else is done (and before `amax` is taken), from `x`
    #: and the tensor scale: the stack divides the whole tensor first.
    normalize: Expr | None = None

    @property
    def is_lane_local(self) -> bool:
        """Whether a lane's code follows from the lane and the block's maximum.

        It does not where two scales are tried, since all lanes' errors decide between them, nor where the element rule
        is not lane-local.
        """
        return self.alternative is None and self.element.is_lane_local

    @property
    def needs_maximum(self) -> bool:
        """Whether an element's code needs the block's maximum itself, besides the scale byte that follows from it."""
        seen = leaves(self.scaled) | (set() if self.element.error is None else leaves(self.element.error))
        return "amax" in seen


class TransformKind(StrEnum):
    """What a transform of the input is."""

    #: A Hadamard matrix times a diagonal of random signs, times 1 / sqrt(size).
    RANDOM_HADAMARD = "random-hadamard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """What the implementation does to its input before the profile's arithmetic begins.

    The profile's `x` is a transformed element. The transform itself is no part of the model: the order in which its
    products are summed is the hardware's, so an implementation's input does not determine the profile's.
    """

    kind: TransformKind
    #: Neighbouring elements that are mixed with each other.
    size: int
    #: Whether they are mixed, and blocks lie, along columns (the transposed copy of a matrix) and not along rows.
    columnwise: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A named numerical contract."""

    #: `mx-floor`, or `library-version/format/path` for a real stack.
    id: str
    kind: Kind = Kind.DESCRIPTIVE
    #: Names of the block formats that it covers.
    formats: Sequence[str]
    #: One sentence: what distinguishes it.
    summary: str
    #: Where the rule is written.
    source: str
    evidence: Evidence
    #: What was run to confirm it: library, version and number of comparisons' origin. Empty: nothing was.
    witness: str = ""
    #: Without a tensor scale; None: the profile refuses that.
    one_level: QuantizationSteps | None = None
    #: With a tensor scale; None: the format or stack has none.
    two_level: QuantizationSteps | None = None
    tensor: TensorRule | None = None
    amax_nan: AmaxNan = AmaxNan.PROPAGATE
    #: Whether subnormal inputs count as zeros.
    flush_inputs: bool = False
    #: Input dtypes that the stack takes.
    dtypes: tuple[str, ...] = ("float32", "float16", "bfloat16")
    #: The id of the implementation's main profile, where this is the path that it takes for inputs of `dtypes`.
    variant_of: str | None = None
    #: Applied to the input before this arithmetic.
    transform: Transform | None = None
    #: Where zeros do not decode to zero, in words; part of the summary. Empty: they always do, or the kind is not normative.
    lost_zeros: str = ""
    #: Open points: inputs on which the stack's result is not pinned.
    unspecified: tuple[str, ...] = ()
    #: Codes under a NaN scale, and the sign bit of a NaN ue4m3 byte, depend on NaN payloads or on the machine's
    #: instruction set; comparisons pass over them (all of them decode to NaN).
    unspecified_nan_block_codes: bool = False
    #: Where arithmetic makes a NaN of the scale's value and the stack stores a number for it, bit 7 of the ue4m3 byte,
    #: which is no part of the format, is the machine's NaN sign; comparisons pass over that bit.
    unspecified_scale_sign_bit: bool = False
    #: The scale byte of a block that holds a NaN depends on where the block lies in the tensor (SIMD body or scalar tail of
    #: an array library's loop); the profile gives the body's, and comparisons pass over such blocks.
    unspecified_nan_input_scales: bool = False
    #: The definition divides by a stored scale of zero: codes under one are open (all of them decode to zero).
    unspecified_codes_under_zero: bool = False

    def __post_init__(self) -> None:
        for name, steps in (("one_level", self.one_level), ("two_level", self.two_level)):
            if steps is None:
                continue
            bound = {"amax", "M", "sf", "x", "q"}
            if name == "two_level":
                if self.tensor is None:
                    raise ValueError(f"profile {self.id}: two_level needs a tensor rule")
                bound |= {TENSOR_LEAF[self.tensor.native], *(leaf.name for leaf, _ in self.tensor.derived)}
            for stage, expr, allowed in (
                ("normalize", steps.normalize or ZERO, bound - {"amax", "q", "sf"}),
                ("scale", steps.scale.value, bound - {"x", "q", "sf"}),
                ("scaled", steps.scaled, bound - {"q"}),
                ("dequantize", steps.dequantize, bound - {"x", "amax"}),
            ):
                unbound = leaves(expr) - allowed
                if unbound:
                    raise ValueError(
                        f"profile {self.id}, {name}, {stage}: {', '.join(sorted(unbound))} is not known there; "
                        f"known are {', '.join(sorted(allowed))}"
                    )
            error = steps.element.error
            if error is not None and (unbound := leaves(error) - bound - {"scaled"}):
                raise ValueError(f"profile {self.id}, {name}, element error: {', '.join(sorted(unbound))} is not known there")

    def steps(self, *, with_tensor_scale: bool) -> QuantizationSteps:
        """The profile's arithmetic with or without a tensor scale.

        Raises ValueError where the profile has no such form.
        """
        steps = self.two_level if with_tensor_scale else self.one_level
        if steps is None:
            given, fix = (
                ("a tensor scale was given", "pass tensor_scale=None")
                if with_tensor_scale
                else ("no tensor scale was given", "pass tensor_scale='auto' or a TensorScale")
            )
            raise ValueError(f"{given}, and profile {self.id} has no such form; {fix}")
        return steps

    @property
    def provisional(self) -> bool:
        """Whether of a descriptive profile nothing was run: neither the library nor its source built by another compiler."""
        return self.kind is Kind.DESCRIPTIVE and self.evidence not in (Evidence.MEASURED, Evidence.COMPILED)
