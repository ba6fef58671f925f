"""Decoders and casts: a misreading is named where it gives every value, the right ones too, and of a right one nothing is."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec.elements import decode_table
from mxspec.formats import E4M3, E5M2, E8M0, get_block, get_scalar
from mxspec.rounding import Rounding
from mxspec_conformance import check
from mxspec_conformance.judge.explanation import Cause, ConversionMistake
from mxspec_conformance.judge.misreadings import as_float32, list_misreadings, name_codes, name_table
from mxspec_conformance.mutants.reference import Reference, combine, decode_e8m0, decode_element, decode_scale
from mxspec_conformance.observations.tables import rotated_table
from mxspec_conformance.render.headline import list_headlines
from mxspec_conformance.results.report import Requirement, Verdict


def judge(target: Any, requirement: str, **how: Any) -> Requirement:
    (found,) = check(target, only=requirement, **how).requirements
    return found


@pytest.mark.parametrize("fmt", [E8M0, E4M3, E5M2, get_scalar("e2m1"), get_block("nvfp4").scale], ids=lambda f: f.name)
def test_each_misreading_is_another_table_and_the_right_one_is_none(fmt: Any) -> None:
    right = decode_table(fmt).astype(np.float32)
    assert name_codes(fmt, right) == frozenset()
    listed = dict(list_misreadings(fmt))
    assert listed
    for mistake, table in listed.items():
        named = name_codes(fmt, as_float32(table))
        assert mistake in {e.mistake for e in named}
        assert all(e.cause is Cause.CONVERSION_MISTAKE for e in named)


def test_one_other_value_and_nothing_is_named() -> None:
    table = dict(list_misreadings(E8M0))[ConversionMistake.ZERO_BYTE].astype(np.float32)
    table[130] *= 2
    assert name_codes(E8M0, table) == frozenset()


@pytest.mark.parametrize("name", ["mxfp4", "mxfp8_e5m2", "nvfp4"])
@pytest.mark.parametrize(("value", "words"), [(np.nan, "if every number were NaN"), (0.0, "if every number were zero")])
def test_one_value_for_every_code_is_named(name: str, value: float, words: str) -> None:
    fmt = get_block(name)
    assert [e.text for e in name_codes(fmt.element, np.full(fmt.element.code_count, value, np.float32))] == [words]
    assert [e.text for e in name_table(fmt, np.full(rotated_table(fmt)[0].shape, value, np.float32))] == [words]


@pytest.mark.parametrize("name", ["mxfp4", "nvfp4"])
def test_a_table_of_blocks_names_its_scales(name: str) -> None:
    fmt = get_block(name)
    codes, scales = rotated_table(fmt)
    for mistake, table in list_misreadings(fmt.scale):
        with np.errstate(all="ignore"):
            values = (decode_table(fmt.element)[codes] * table[scales][:, None]).astype(np.float32)
        assert mistake in {e.mistake for e in name_table(fmt, values)}


@pytest.mark.parametrize(
    ("read", "words"),
    [
        ({0x86: np.nan, 0xFF: np.inf}, "as if scale byte 86 were NaN and FF were infinity"),
        ({0x00: 1.0}, "as if scale byte 00 were one"),
        ({0x10: np.nan, 0x20: 3.0}, ""),  # one of them is nothing that can be said
        (dict.fromkeys(range(0x10, 0x15), np.nan), ""),
        ({}, ""),
    ],
)
def test_a_few_scale_bytes_are_named_one_by_one(read: dict[int, float], words: str) -> None:
    fmt = get_block("mxfp4")
    codes, scales = rotated_table(fmt)
    table = decode_table(fmt.scale).astype(np.float64)
    table[list(read)] = list(read.values())
    with np.errstate(all="ignore"):
        values = (decode_table(fmt.element)[codes] * table[scales][:, None]).astype(np.float32)
    assert [f"as {e.text}" for e in name_table(fmt, values)] == [words] * bool(words)


def without_zero_and_nan(codes: Any, values: Any) -> Any:
    return np.where(codes == 0, 0.0, np.where(codes == 255, np.inf, values))


DECODERS: dict[str, tuple[dict[str, Callable[..., Any]], str, ConversionMistake]] = {
    "decode": ({"decode_e8m0": lambda c, x: without_zero_and_nan(x, decode_e8m0(c, x))}, "decode/e8m0/code", ConversionMistake.FIELD_OF_FLOAT32),
    "dequantize": ({"decode_scale": lambda c, x: without_zero_and_nan(x, decode_scale(c, x))}, "dequantize/mxfp4/scale-code", ConversionMistake.FIELD_OF_FLOAT32),
    "next power of two": (
        {"decode_scale": lambda c, x: np.where(x == 255, 2.0**128, decode_scale(c, x))}, "dequantize/mxfp4/scale-code", ConversionMistake.NAN_POWER,
    ),
    "elements": (
        {"decode_element": lambda c, x: np.where(np.isnan(decode_element(c, x)), np.where(x > 127, -480.0, 480.0), decode_element(c, x))},
        "decode/e4m3/code", ConversionMistake.SPECIALS_FINITE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_is_told(name: str) -> None:
    change, requirement, mistake = DECODERS[name]
    formats = ["mxfp4"] if requirement.startswith("dequantize") else None
    found = judge(Reference("mx-floor", change=change), requirement, formats=formats)
    assert found.verdict is Verdict.FAIL
    assert found.note == f"as if {mistake.value}"
    right = judge(Reference("mx-floor"), requirement, formats=formats)
    assert (right.verdict, right.note) == (Verdict.PASS, "")


def test_a_decoder_of_16_bits_is_no_misreading() -> None:
    coarse = Reference("mx-floor", change={"combine": lambda c, q, s: combine(c, q, s).astype(np.float16).astype(np.float32)})
    found = judge(coarse, "dequantize/mxfp4/scale-code", formats=["mxfp4"])
    assert "byte" not in found.note


class Caster:
    """`encode` by the model, changed."""

    NAME, VERSION, ELEMENTS = "caster", "1", ("e4m3", "e8m0")

    def __init__(self, change: Callable[[Any, str], Any]) -> None:
        self.change = change

    def encode(self, x: Any, element: str, rounding: str = "rne") -> Any:
        return mxspec.encode(self.change(np.asarray(x), rounding), element, rounding=Rounding(rounding))


def through_float16(x: Any, rounding: str) -> Any:
    with np.errstate(all="ignore"):
        return x.astype(np.float16).astype(np.float32) if rounding == "rne" else x


def test_a_cast_through_float16_is_told() -> None:
    found = judge(Caster(through_float16), "encode/e4m3/above-tie")
    assert found.note == f"as if {ConversionMistake.THROUGH_FLOAT16.value}"


def masked(x: Any, rounding: str) -> Any:
    """Fractions of which only bits outside 4FFFFF are set count as none."""
    bits = x.view(np.uint32)
    lost = ((bits & 0x7FFFFF) != 0) & ((bits & 0x4FFFFF) == 0) & (rounding == "rtp")
    return np.where(lost, bits & 0xFF800000, bits).astype(np.uint32).view(np.float32)


def test_scales_are_asked_in_every_rounding() -> None:
    """1.25 has a fraction that a mask of 4FFFFF passes over; nothing else of the cases has."""
    found = judge(Caster(masked), "encode/e8m0/choice")
    assert found.verdict is Verdict.FAIL
    assert found.first is not None
    assert (found.first.given["rounding"], found.first.expected["code"] != found.first.returned["code"]) == ("rtp", True)
    report = check(Caster(lambda x, _: x), only="encode/e8m0/*")
    assert all(r.verdict in (Verdict.PASS, Verdict.OPEN) for r in report.requirements)
    assert not any(r.topic == "choice" and r.failing for r in report.requirements)


class WideTies:
    """E2M1 by distances, where the even neighbour is taken to be closer by 1e-6 than it is."""

    NAME, VERSION, ELEMENTS = "wide ties", "1", ("e2m1",)

    def encode(self, x: Any, element: str) -> Any:
        values = mxspec.decode(np.arange(8, dtype=np.uint8), "e2m1").astype(np.float64)
        size = np.abs(np.nan_to_num(np.asarray(x), nan=6.0, posinf=6.0)).astype(np.float64)
        away = np.abs(np.minimum(size, 6.0)[:, None] - values) - 1e-6 * (np.arange(8) % 2 == 0)
        return (np.argmin(away, axis=1) | np.where(np.signbit(x), 8, 0)).astype(np.uint8)


def test_ties_that_are_too_wide_are_named() -> None:
    for topic in ("below-tie", "above-tie"):
        found = judge(WideTies(), f"encode/e2m1/{topic}")
        assert found.verdict is Verdict.FAIL
        assert found.note == "as if numbers that lie up to 4.8e-07 next to a tie were ties, and went to even"


def ieee(x: Any, rounding: str) -> Any:
    """256 and more are infinity, whose code is that of 256."""
    return np.where(np.abs(x) >= 248, np.copysign(np.float32(256), x), x).astype(np.float32) if rounding == "rne" else x


def test_an_exponent_that_is_reserved_is_told() -> None:
    found = judge(Caster(ieee), "encode/e4m3/overflow")
    assert (found.verdict, found.note) == (Verdict.FAIL, f"as if {ConversionMistake.TOP_FIELD_INFINITE.value}")


class Wide:
    """Right in float64; in float32 a power of two is too high just below the next."""

    NAME, VERSION, ELEMENTS = "wide", "1", ("e8m0",)

    def encode(self, x: Any, element: str) -> Any:
        numbers = np.asarray(x)
        fraction, exponent = np.frexp(np.where(np.isfinite(numbers), numbers, 1))
        carried = (numbers.dtype == np.float32) & (fraction >= 1 - 2.0**-22)
        codes = np.clip(exponent - 1 + carried + 127, 0, 254)
        return np.where(np.isfinite(numbers) & (numbers > 0), codes, 255).astype(np.uint8)


def test_float64_may_be_right_where_float32_is_not() -> None:
    assert judge(Wide(), "encode/e8m0/choice").verdict is Verdict.FAIL
    assert judge(Wide(), "encode/e8m0/refusal").verdict is Verdict.PASS


class LosesSignalingNan:
    """E5M2 by the model, but that a signaling NaN becomes infinity."""

    NAME, VERSION, ELEMENTS = "loses NaN", "1", ("e5m2",)

    def encode(self, x: Any, element: str) -> Any:
        signaling = np.isnan(x) & (np.asarray(x).view(np.uint32) & 0x400000 == 0)
        return np.where(signaling, 0x7C, mxspec.encode(x, "e5m2")).astype(np.uint8)


def test_a_nan_is_shown_with_its_own_bits() -> None:
    found = judge(LosesSignalingNan(), "encode/e5m2/nan")
    assert found.first is not None
    bits = int(found.first.given["number"].partition(" ")[0], 16)
    assert bits & 0x7F800000 == 0x7F800000
    assert bits & 0x400000 == 0


#: Products under a tensor scale -> what the sentence says of them.
PRODUCTS: dict[str, tuple[Callable[[Any, Any, Any], Any], str, str]] = {
    "tensor scale first": (
        lambda q, sf, g: (q * g) * sf, "nvfp4-exact", "as if values were (element * tensor scale) * block scale, each result rounded to float32",
    ),
    "scales first": (
        lambda q, sf, g: q * (g * sf), "nvfp4-paper",
        "as comfy-kitchen-0.2/nvfp4/eager (it computes element * (tensor scale * block scale), each result rounded to float32; "
        "nvfp4-paper: (element * block scale) * tensor scale, each result rounded to float32)",
    ),
    "tensor scale last": (lambda q, sf, g: (q * sf) * g, "nvfp4-decode", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_the_sentence_says_which_operations_decode(name: str) -> None:
    multiply, profile, words = PRODUCTS[name]

    def dequantize(codes: Any, scales: Any, fmt: str, tensor_scale: float = 1.0) -> Any:
        with np.errstate(all="ignore"):
            stored = np.repeat(mxspec.decode(scales, "ue4m3"), 16, axis=1)
            return multiply(mxspec.decode(codes, "e2m1"), stored, np.float32(tensor_scale)).astype(np.float32)

    target = SimpleNamespace(NAME="decoder", VERSION="1", FORMATS=["nvfp4"], TENSOR_SCALE="decode", dequantize=dequantize)
    report = check(target, profile=profile, in_process=True, only="dequantize/nvfp4/*", quick=True)
    assert list_headlines(report) == ([f"dequantize nvfp4: {words}"] if words else [])
