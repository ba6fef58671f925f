"""The judge's stages, one list for each operation: what `check` runs, and what mutants are judged by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from mxspec.enums import StrEnum
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.counterexample.failure import describe_case
from mxspec_conformance.judge import dequantize, quantize, scalars, scale, tensor_scales
from mxspec_conformance.judge.every_number import judge_every_number
from mxspec_conformance.judge.given_scales import TOPIC as GIVEN_SCALE, judge_given_scales
from mxspec_conformance.judge.invariance.all_calls import judge_calls
from mxspec_conformance.judge.invariance.answered import answered_numbers, answered_table
from mxspec_conformance.judge.invariance.numbers import judge_number_calls
from mxspec_conformance.judge.invariance.places import set_places_apart
from mxspec_conformance.judge.invariance.pools import list_dequantize_pools, list_quantize_pools
from mxspec_conformance.judge.invariance.tensor_binades import judge_dequantize_binades, judge_quantize_binades
from mxspec_conformance.judge.invariance.tensor_maxima import judge_tensor_maxima
from mxspec_conformance.judge.made import Judged, judge_made
from mxspec_conformance.judge.open_choice import judge_choices
from mxspec_conformance.judge.scale import count_wrong_scales
from mxspec_conformance.judge.special_tensor_scales import judge_special_tensor_scales
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.judge.wanted import OF_CALLS
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.observations.format import Observations
from mxspec_conformance.observations.strays import REPRESENTABLE
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.topics import TOPICS

#: All topics but those of which no vector is a case.
OF_VECTORS = frozenset(TOPICS) - OF_CALLS
#: Topics of ordinary blocks: a scale, and what each lane tests.
OF_LANES = frozenset({
    "mixture", "exact", "tie-even", "below-tie", "above-tie", "subnormal", "overflow", "scale-boundary", "scale-tie", "low-end", "zero-sign",
    "choice",
})  # fmt: skip

#: Requirement id -> the first call that failed it.
Failures = dict[str, Failure]


class Source(StrEnum):
    """Where a stage's cases come from: a vector file, or calls that follow from earlier answers."""

    QUANTIZE = "quantize"
    SCALE = "scale"
    DEQUANTIZE = "dequantize"
    ENCODE = "encode"
    DECODE = "decode"
    STOCHASTIC = "stochastic"
    LAYOUT = "layout"
    CALLS = "calls"


@dataclass(frozen=True, slots=True)
class BlockRun:
    """One block format of a target, judged by one profile."""

    observations: Observations
    profile: Profile
    #: Profiles that may be named where bits are wrong.
    others: Sequence[Profile] = field(default=())
    #: Whether to look for what else would have returned wrong bits.
    naming: bool = True
    #: Whether the profile was asked for or claimed.
    pinned: bool = False

    @property
    def session(self) -> TargetSession:
        """The target."""
        return self.observations.session

    @property
    def fmt(self) -> BlockFormat:
        """The block format."""
        return self.observations.fmt

    @property
    def described(self) -> bool:
        """Whether the target promises what a library does. Of a format without a normative profile the nearest one promises nothing."""
        return self.pinned and self.profile.kind is not Kind.NORMATIVE


@dataclass(frozen=True, slots=True)
class BlockStage:
    """One step in judging a block format."""

    #: What its requirement ids begin with.
    operation: str
    source: Source
    judge: Callable[[BlockRun, Scorecard], Failures]
    #: The topics that it may enter.
    topics: frozenset[str] = OF_VECTORS

    @property
    def is_of_calls(self) -> bool:
        """Whether its cases are calls that differ in size, memory, place and order, or draws, rather than in numbers."""
        return self.operation == "stochastic" or self.topics <= OF_CALLS | _PLACES | {GIVEN_SCALE}

    @property
    def explains(self) -> bool:
        """Whether it is by its cases that the failures of the whole format are explained."""
        return self.topics == OF_VECTORS


def _judge_quantize(run: BlockRun, scorecard: Scorecard) -> Failures:
    for item in run.observations.unanswered:
        if run.profile.id in item.case.answers:
            given = partial(describe_case, item.case, item.dtype)
            scorecard.count_no_answer(item.case.topic, item.label, item.reason, origin=item.case.id, given=given)
    if run.session.capabilities.may_stray(run.fmt.name):
        for one in run.observations.answered:
            scorecard.count(REPRESENTABLE, one.label, origin=one.case.id, ok=True)
    seen = set_places_apart(run.session, run.fmt, run.profile, run.observations.answered, scorecard)
    quantize.judge_all(seen, run.fmt, run.profile, scorecard, naming=run.naming)
    if not run.session.capabilities.fake:  # how a block is stored is not to be seen of its values
        judge_choices(run.observations.answered, run.fmt, run.profile, scorecard, described=run.described)
    return {}


def _judge_made(run: BlockRun, scorecard: Scorecard) -> Failures:
    judged = Judged(run.fmt, run.profile, run.others, run.naming)
    run.observations.made = judge_made(run.session, judged, run.observations.answered, scorecard)
    return {}


def _judge_scales(run: BlockRun, scorecard: Scorecard) -> Failures:
    if run.session.capabilities.may_stray(run.fmt.name):
        answered = (item.case for item in run.observations.scales if not isinstance(item.returned, NoAnswer))
        for label in (case.label(i) for case in answered for i in range(len(case.amax))):
            scorecard.count(REPRESENTABLE, label, ok=True)
    scale.judge_scales(run.observations.scales, run.fmt, run.profile, scorecard, naming=run.naming)
    return {}


def _judge_dequantize(run: BlockRun, scorecard: Scorecard) -> Failures:
    others = run.others if run.naming else ()
    dequantize.judge_tables(run.observations.tables, run.fmt, run.profile, scorecard, others)
    return {}


def _judge_neighbours(run: BlockRun, scorecard: Scorecard) -> Failures:
    answered = answered_table(run.session, run.fmt, run.observations.tables)
    return {} if answered is None else dequantize.judge_neighbours(run.session, run.fmt, answered, scorecard)


def _quantize_binades(run: BlockRun, scorecard: Scorecard) -> Failures:
    return judge_quantize_binades(run.session, run.fmt, run.profile, scorecard) if run.fmt.has_tensor_scale else {}


def _dequantize_binades(run: BlockRun, scorecard: Scorecard) -> Failures:
    return judge_dequantize_binades(run.session, run.fmt, run.profile, scorecard) if run.fmt.has_tensor_scale else {}


def _dequantize_specials(run: BlockRun, scorecard: Scorecard) -> Failures:
    return judge_special_tensor_scales(run.session, run.fmt, scorecard) if run.fmt.has_tensor_scale else {}


def _judge_tensor_scale(run: BlockRun, scorecard: Scorecard) -> Failures:
    if run.fmt.has_tensor_scale and run.session.capabilities.has("tensor_scale"):
        tensor_scales.judge_tensor_scale(run.session, run.fmt.name, run.profile, scorecard)
    return {}


def _place_tensor_maxima(run: BlockRun, scorecard: Scorecard) -> Failures:
    if run.fmt.has_tensor_scale and run.session.capabilities.has("tensor_scale"):
        return judge_tensor_maxima(run.session, run.fmt.name, scorecard)
    return {}


def _scale_by_given(run: BlockRun, scorecard: Scorecard) -> Failures:
    judge_given_scales(run.session, run.fmt, run.profile, run.observations.answered, scorecard)
    return {}


def _round_by_given_bits(run: BlockRun, scorecard: Scorecard) -> Failures:
    if not run.session.capabilities.has("quantize", "random_bits"):
        return {}
    from mxspec_conformance.judge.stochastic.given_bits import judge_random_bits  # here, as few targets take them

    profiles = [run.profile]
    if run.session.capabilities.stochastic and not run.pinned:
        scales, own = run.observations.scales, count_wrong_scales(run.observations.scales, run.profile.id)
        alike = [p for p in run.others if p.kind is Kind.NORMATIVE and count_wrong_scales(scales, p.id) <= own]
        profiles += [p for p in alike if p is not run.profile]
    return judge_random_bits(run.session, run.fmt, profiles, scorecard)


def _round_by_own_generator(run: BlockRun, scorecard: Scorecard) -> Failures:
    if not run.session.capabilities.has_generator:
        return {}
    from mxspec_conformance.judge.stochastic.generator import judge_generator

    return judge_generator(run.session, run.fmt, scorecard)


def _matrix_quantize(run: BlockRun, scorecard: Scorecard) -> Failures:
    capabilities = run.session.capabilities
    pools = list(list_quantize_pools(run.fmt, run.observations.answered, capabilities))
    return judge_calls(run.session, run.fmt, pools, scorecard)


def _matrix_dequantize(run: BlockRun, scorecard: Scorecard) -> Failures:
    pools = list(list_dequantize_pools(run.fmt, run.observations.tables, run.session.capabilities))
    return judge_calls(run.session, run.fmt, pools, scorecard)


_SIZES = frozenset({"call-size"})
_PLACES = frozenset({"axis", "tail", "position"})
_GENERATOR = frozenset({"neighbour", "exact", "zero-block", "overflow", "probability", "independence", "seed"})

#: Function of the target -> its stages in order; of each operation those that explain come first.
BLOCK_STAGES: dict[str, tuple[BlockStage, ...]] = {
    "quantize": (
        BlockStage("quantize", Source.QUANTIZE, _judge_quantize),
        BlockStage("scale", Source.SCALE, _judge_scales),
        BlockStage("quantize", Source.CALLS, _judge_made, OF_LANES),
        BlockStage("quantize", Source.CALLS, _matrix_quantize, OF_CALLS | _PLACES),
        BlockStage("quantize", Source.CALLS, _quantize_binades, _SIZES),
        BlockStage("quantize", Source.CALLS, _scale_by_given, frozenset({GIVEN_SCALE})),
        BlockStage("stochastic", Source.CALLS, _round_by_given_bits, frozenset({"random-bits"})),
        BlockStage("stochastic", Source.CALLS, _round_by_own_generator, _GENERATOR),
    ),
    "dequantize": (
        BlockStage("dequantize", Source.DEQUANTIZE, _judge_dequantize),
        BlockStage("dequantize", Source.CALLS, _judge_neighbours, frozenset({"code"})),
        BlockStage("dequantize", Source.CALLS, _dequantize_specials, frozenset({"refusal"})),
        BlockStage("dequantize", Source.CALLS, _matrix_dequantize, OF_CALLS),
        BlockStage("dequantize", Source.CALLS, _dequantize_binades, _SIZES),
    ),
    "tensor_scale": (
        BlockStage("tensor_scale", Source.CALLS, _judge_tensor_scale),
        BlockStage("tensor_scale", Source.CALLS, _place_tensor_maxima, OF_CALLS),
    ),
}


@dataclass(frozen=True, slots=True)
class ScalarStage:
    """One step in judging a function of single numbers, for one scalar format."""

    #: What its requirement ids begin with.
    operation: str
    source: Source
    judge: Callable[[TargetSession, str, Scorecard], Failures]
    #: The topics that it may enter.
    topics: frozenset[str] = OF_VECTORS


def _call_with_numbers(function: str) -> Callable[[TargetSession, str, Scorecard], Failures]:
    def judge(session: TargetSession, element: str, scorecard: Scorecard) -> Failures:
        answered = answered_numbers(session, function, element)
        return {} if answered is None else judge_number_calls(session, answered, scorecard)

    return judge


def _round_numbers_by_given_bits(session: TargetSession, element: str, scorecard: Scorecard) -> Failures:
    from mxspec_conformance.judge.stochastic.numbers import judge_stochastic

    return judge_stochastic(session, element, scorecard)


SCALAR_STAGES: dict[str, tuple[ScalarStage, ...]] = {
    "encode": (
        ScalarStage("encode", Source.ENCODE, scalars.judge_encode),
        ScalarStage("encode", Source.CALLS, judge_every_number),
        ScalarStage("encode", Source.CALLS, _call_with_numbers("encode"), OF_CALLS),
    ),
    "decode": (
        ScalarStage("decode", Source.DECODE, scalars.judge_decode),
        ScalarStage("decode", Source.CALLS, _call_with_numbers("decode"), OF_CALLS),
    ),
    "encode_stochastic": (
        ScalarStage("stochastic", Source.STOCHASTIC, _round_numbers_by_given_bits),
        ScalarStage("stochastic", Source.CALLS, _call_with_numbers("encode_stochastic"), OF_CALLS),
    ),
}
