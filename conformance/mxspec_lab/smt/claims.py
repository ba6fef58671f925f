"""What is asked of a solver: inputs under which two forms of a function differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mxspec.formats import get_block
from mxspec.profiles import get_profile
from mxspec.profiles.schema import QuantizationSteps
from mxspec_lab.smt import arrayform, definition, header
from mxspec_lab.smt.mutants import Function, Mutant
from mxspec_lab.smt.terms import Term, binary, both, const, either, extract, negate, variable, write_query

FORMATS = ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8")
RULES = ("mx-floor", "mx-rceil", "mx-even", "mx-ceil")
#: The inputs: bits of a maximum, of an element, and a scale byte.
AMAX, X, BYTE = variable("amax", 32), variable("x", 32), variable("scale", 8)


@dataclass(frozen=True, slots=True)
class Claim:
    """Two forms of one function."""

    format: str
    #: The rules that share the function.
    profiles: tuple[str, ...]
    function: Function
    #: What the definition is compared with.
    form: str
    differs: Term

    @property
    def name(self) -> str:
        """For people and files."""
        return f"{self.format}-{self.profiles[0]}-{self.function}-{self.form}"

    def text(self) -> str:
        """The SMT-LIB script."""
        note = (
            f"{self.format}, {', '.join(self.profiles)}: {self.function}, definition against {self.form}.",
            "unsat: equal on all inputs.",
        )
        return write_query(self.differs, note)


def _steps(profile: str, fmt: str) -> QuantizationSteps:
    steps = get_profile(profile, fmt).one_level
    assert steps is not None
    return steps


def _differ(a: Term, b: Term, unfinished: list[Term]) -> Term:
    """Where two forms differ, or a loop of the header would go on."""
    claim = negate(binary("=", a, b))
    for test in unfinished:
        claim = either(claim, test)
    return claim


def element_groups(fmt: str) -> Iterator[tuple[str, ...]]:
    """The rules of a format by what they do to an element."""
    groups: dict[object, list[str]] = {}
    for rule in RULES:
        steps = _steps(rule, fmt)
        groups.setdefault((steps.scaled, steps.element), []).append(rule)
    yield from map(tuple, groups.values())


def list_claims(fmt: str) -> Iterator[Claim]:
    """The claims of a format, each with its terms built."""
    block = get_block(fmt)
    for rule in RULES:
        steps = _steps(rule, fmt)
        meant = definition.scale_byte(AMAX, steps, block)
        given, unfinished = header.header_scale(rule, fmt, AMAX)
        yield Claim(fmt, (rule,), Function.SCALE, "header", _differ(given, meant, unfinished))
        yield Claim(fmt, (rule,), Function.SCALE, "arrays", _differ(arrayform.array_scale(AMAX, steps, block), meant, []))
    for rules in element_groups(fmt):
        steps = _steps(rules[0], fmt)
        meant = definition.element_code(X, BYTE, steps, block)
        given, unfinished = header.header_element(rules[0], fmt, X, BYTE)
        yield Claim(fmt, rules, Function.ELEMENT, "header", _differ(given, meant, unfinished))
        yield Claim(fmt, rules, Function.ELEMENT, "arrays", _differ(arrayform.array_element(X, BYTE, steps, block), meant, []))


def mutant_claim(mutant: Mutant) -> Claim:
    """Where a mutant differs from the definition in a finite block: an element that is no larger than the maximum, under the maximum's scale."""
    block, steps = get_block(mutant.format), _steps(mutant.profile, mutant.format)
    text = mutant.apply(header.header_text(mutant.format))
    finite = binary("bvult", extract(AMAX, 30, 0), const(0x7F800000, 31))
    scale = definition.scale_byte(AMAX, steps, block)
    if mutant.function is Function.SCALE:
        given, unfinished = header.header_scale(mutant.profile, mutant.format, AMAX, text)
        where, meant = finite, scale
    else:
        given, unfinished = header.header_element(mutant.profile, mutant.format, X, BYTE, text)
        meant = definition.element_code(X, BYTE, steps, block)
        where = both(both(finite, binary("=", scale, BYTE)), binary("bvule", extract(X, 30, 0), extract(AMAX, 30, 0)))
    return Claim(mutant.format, (mutant.profile,), mutant.function, mutant.id, both(where, _differ(given, meant, unfinished)))
