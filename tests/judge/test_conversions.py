"""Encoders: a known mistake is named where it gives every wrong code and no right one otherwise."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import mxspec
from mxspec.formats import get_scalar
from mxspec.rounding import Rounding
from mxspec_conformance import check
from mxspec_conformance.judge.conversions import list_known
from mxspec_conformance.judge.explanation import Cause, ConversionMistake, Explanation

Codes = npt.NDArray[np.int64]
#: Every fifth finite bfloat16 number, with nothing and with something below its last bit.
_PATTERNS = np.arange(1 << 16, dtype=np.uint32)
_WORDS = _PATTERNS[(_PATTERNS & 0x7FFF) < 0x7F80][::5] << 16
X = np.concatenate([_WORDS, _WORDS | 1]).view(np.float32)
#: The smallest normal number of E4M3.
SMALL = np.abs(X) < 2.0**-6


def codes_of(x: Any, rounding: str = "rne", element: str = "e4m3") -> Codes:
    return mxspec.encode(np.asarray(x, np.float32), element, rounding=Rounding(rounding)).astype(np.int64)


def carry_ored() -> Codes:
    """Cut, then up by an addition to the fraction, whose carry is ORed."""
    right, cut = codes_of(X), codes_of(X, "rtz")
    up = right != cut
    fraction = (cut & 7) + up
    return np.where(up, cut & 0x80 | (cut & 0x78 | fraction & 8) | fraction & 7, cut)


def twice() -> Codes:
    once = X.astype(np.float64)
    scale = np.ldexp(1.0, np.frexp(once)[1] - 4)
    return codes_of(np.where(SMALL, np.rint(once / scale) * scale, once))


MISTAKES: dict[ConversionMistake, Callable[[], Codes]] = {
    ConversionMistake.CARRY_ORED: carry_ored,
    ConversionMistake.CARRY_DROPPED: lambda: np.where(
        (codes_of(X) != codes_of(X, "rtz")) & (codes_of(X) & 7 == 0), codes_of(X, "rtz") & 0xF8, codes_of(X)
    ),
    ConversionMistake.TWICE_BELOW: twice,
    ConversionMistake.COARSE_BELOW: lambda: np.where(
        SMALL, np.rint(np.where(SMALL, np.abs(X), 0) * 64).astype(np.int64) | np.signbit(X) << 7, codes_of(X)
    ),
    ConversionMistake.NOTHING_BELOW: lambda: codes_of(np.where(SMALL, np.copysign(np.float32(0), X), X)),
    ConversionMistake.TOP_FIELD_FULL: lambda: codes_of(np.where(np.abs(X) >= 256, np.copysign(np.float32(448), X), X)),
    ConversionMistake.NAN_IN_A_RANGE: lambda: np.where((np.abs(X) >= 512) & (np.abs(X) < 57344), codes_of(X) | 127, codes_of(X)),
    ConversionMistake.THROUGH_BFLOAT16: lambda: codes_of(X.astype(ml_dtypes.bfloat16)),
}


def explain(returned: Codes, asked: Rounding = Rounding.RNE) -> set[Explanation]:
    """What explains every wrong code."""
    expected = codes_of(X, asked.value)
    known = list_known(X, get_scalar("e4m3"), asked, own=False, returned=returned, expected=expected)
    return {e for e, codes in known.items() if (codes == returned)[returned != expected].all()}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name)
def test_a_mistake_is_named(mistake: ConversionMistake) -> None:
    returned = MISTAKES[mistake]()
    assert (returned != codes_of(X)).any()
    assert mistake in {e.mistake for e in explain(returned)}


def through_float16(x: Any) -> Any:
    """E5M2 by way of float16, whose subnormals are doubled where eleven bits of the number round up to the next power of two."""
    half, (fraction, exponent) = x.astype(np.float16).astype(np.float32), np.frexp(np.abs(x))
    return mxspec.encode(np.where((np.rint(fraction * 2048) == 2048) & (exponent <= -15), half * 2, half), "e5m2")


def by_distance(less: float) -> Callable[[Any], Any]:
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)

    def encode(x: Any) -> Any:
        distances = np.abs(np.abs(x)[..., None] - values) - np.where(np.arange(8) % 2, np.float32(0), np.float32(less))
        return (np.where(np.isfinite(x), np.argmin(distances, axis=-1), 7) | np.signbit(x) * 8).astype(np.uint8)

    return encode


ENCODERS: dict[ConversionMistake, tuple[str, Callable[[Any], Any], set[str]]] = {
    ConversionMistake.FLOAT16_CARRY: ("e5m2", through_float16, {"below-tie", "above-tie", "exact"}),
    ConversionMistake.DISTANCES: ("e2m1", by_distance(0.0), {"tie-even", "overflow"}),
    ConversionMistake.BIASED_DISTANCES: ("e2m1", by_distance(1e-6), {"below-tie", "above-tie", "overflow"}),
    ConversionMistake.TIES_DOWN: ("e3m2", lambda x: mxspec.encode(-x, "e3m2", rounding=Rounding.RNU) ^ 0x20, {"tie-even"}),
}


@pytest.mark.parametrize("mistake", ENCODERS, ids=lambda m: m.name)
def test_a_mistake_of_an_encoder_is_named(mistake: ConversionMistake) -> None:
    element, encode, topics = ENCODERS[mistake]
    with np.errstate(all="ignore"):
        report = check(SimpleNamespace(ELEMENTS=[element], encode=lambda x, element: encode(x)), in_process=True)
    notes = {r.topic: r.note for r in report.requirements if r.verdict == "fail"}
    assert {topic for topic, note in notes.items() if mistake.value in note} == topics


def test_a_mistake_under_another_rounding_names_both() -> None:
    returned = codes_of(np.where(SMALL, np.copysign(np.float32(0), X), X), "rtz")
    assert Explanation(Cause.CONVERSION_MISTAKE, mistake=ConversionMistake.NOTHING_BELOW, rounding=Rounding.RTZ) in explain(returned)


@pytest.mark.parametrize("rounding", ["rna", "rtz", "rtp"])
def test_a_rounding_is_named_where_right_codes_are_its_own_too(rounding: str) -> None:
    other = Explanation(Cause.ROUNDING, rounding=Rounding(rounding))
    assert other in explain(codes_of(X, rounding))
    # Only numbers above one are rounded so: those below contradict it.
    assert other not in explain(np.where(np.abs(X) > 1, codes_of(X, rounding), codes_of(X)))


def test_right_codes_have_no_explanation() -> None:
    assert explain(codes_of(X)) == set()


def test_bits_of_the_fraction_that_are_not_looked_at() -> None:
    x = X[X > 0]
    bits, asked = x.view(np.uint32), Rounding.RTP
    expected = codes_of(x, "rtp", "e8m0")
    missed = ((bits & 0x7FFFFF) != 0) & ((bits & 0x4FFFFF) == 0) & (bits >> 23 > 0)
    returned = np.where(missed, bits.astype(np.int64) >> 23, expected)
    known = list_known(x, get_scalar("e8m0"), asked, own=False, returned=returned, expected=expected)
    (found,) = [e for e, codes in known.items() if (codes == returned)[returned != expected].all()]
    assert found.mistake is ConversionMistake.FRACTION_IN_PART
    # All fractions of one kind went down, but one: it is no matter of bits.
    again = missed & (np.cumsum(missed) > 1)
    returned = np.where(again, bits.astype(np.int64) >> 23, expected)
    known = list_known(x, get_scalar("e8m0"), asked, own=False, returned=returned, expected=expected)
    assert all(e.mistake is not ConversionMistake.FRACTION_IN_PART for e in known)


LOG2 = {
    ConversionMistake.LOG2_FLOOR: np.floor, ConversionMistake.LOG2_CEIL: np.ceil, ConversionMistake.LOG2_ROUND: np.rint,
}  # fmt: skip


@pytest.mark.parametrize("mistake", LOG2)
def test_a_logarithm_in_float32_is_named(mistake: ConversionMistake) -> None:
    def encode(x: Any, element: str) -> Any:
        with np.errstate(all="ignore"):
            exponent = LOG2[mistake](np.log2(x.astype(np.float64)).astype(np.float32))  # noqa: TID251
        return np.where(np.isfinite(x) & (x > 0), np.clip(np.nan_to_num(exponent) + 127, 0, 254), np.where(x == 0, 0, 255)).astype(np.uint8)

    report = check(SimpleNamespace(ELEMENTS=["e8m0"], encode=encode))
    notes = {r.topic: r.note for r in report.requirements if r.verdict in ("fail", "open", "deviation")}
    assert mistake.value in notes["choice" if mistake is not ConversionMistake.LOG2_ROUND else "mixture"]
    assert not check(SimpleNamespace(ELEMENTS=["e8m0"], encode=lambda x, element: mxspec.encode(x, element))).exit_code


def test_the_shown_code_gives_the_expected_answer_where_the_own_infinity_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    def encode(x: Any, element: str, rounding: str = "rne", overflow: str = "saturate") -> Any:
        return mxspec.encode(x, element, rounding=Rounding(rounding))  # saturates, whatever was asked

    one = SimpleNamespace(NAME="saturates", VERSION="1", ELEMENTS=["e4m3", "e5m2"], encode=encode)
    report = check(one, in_process=True, only="encode/*/inf")
    shown = [r.first for r in report.requirements if r.first is not None]
    assert {f.given["overflow"] for f in shown} == {"own"}
    for failure in shown:
        exec(failure.snippet, {})
        assert int(capsys.readouterr().out.strip("[]\n")) == int(failure.expected["code"].split()[0], 16)


def test_the_nan_of_an_overflow_has_either_sign() -> None:
    def encode(x: Any, element: str, overflow: str = "saturate") -> Any:
        return np.array([*range(0xFF), 0x7F], np.uint8)[mxspec.encode(x, element, overflow=overflow)]

    assert check(SimpleNamespace(ELEMENTS=["e4m3"], encode=encode), only="encode/*").exit_code == 0


def test_an_infinity_that_is_the_last_code_but_one_is_told() -> None:
    def encode(x: Any, element: str) -> Any:
        codes = mxspec.encode(x, element, overflow="own")
        return np.array([*range(124), 126, 127, 127, 127], np.uint8)[codes & 127] | codes & 128

    def decode(codes: Any, element: str) -> Any:
        infinite = np.where(codes & 127 == 126, np.where(codes > 127, -np.inf, np.inf), np.nan)
        return np.where(codes & 127 > 123, infinite, mxspec.decode(codes, element)).astype(np.float32)

    failing = [r for r in check(SimpleNamespace(ELEMENTS=["e5m2"], encode=encode, decode=decode)).requirements if r.verdict == "fail"]
    assert {(r.id, r.note) for r in failing} == {
        (f"{name}/e5m2/{topic}", f"as if {ConversionMistake.LAST_BUT_ONE.value}")
        for name, topic in (("encode", "overflow"), ("decode", "code"))
    }
