"""The encode and decode files of element and scale formats."""

from __future__ import annotations

import hashlib
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.elements import default_nan_policy
from mxspec.formats import ElementFormat, ScalarFormat, ScaleFormat, floor_log2, get_scalar
from mxspec.rounding import DETERMINISTIC, Overflow
from mxspec.stepfunctions import find_float32_steps
from mxspec_vectors.document import Document, case_id
from mxspec_vectors.entries import cut_chunks, group_answers, hex_floats, hex_words, list_binades, make_header
from mxspec_vectors.points import FLT_MAX, INF, QUIET_NAN, SIGN, bits_value, float_bits, neighbours, walking_ones

_ENCODE_FLAGS = {
    "tie-even": ("ties-away", "ties-to-zero"),
    "below-tie": ("double-rounding", "truncation"),
    "above-tie": ("tie-hack", "truncation"),
    "exact": ("basic",),
    "zero-sign": ("zero-sign",),
    "subnormal": ("element-subnormal", "float32-subnormal"),
    "overflow": ("saturation",),
    "inf": ("saturation",),
    "nan": ("nan-lost",),
}


def _scalar_points(fmt: ScalarFormat) -> dict[str, list[int]]:
    """Topic -> float32 bits of inputs, both signs for signed formats."""
    points: dict[str, list[int]] = {topic: [] for topic in _ENCODE_FLAGS}
    for topic, bits in _boundary_points(fmt):
        points[topic].append(bits)
    top = fmt.max_value
    if top < bits_value(FLT_MAX):
        step = fmt.magnitude(fmt.max_code) - fmt.magnitude(fmt.max_code - 1)
        for value in (top + step / 4, top + step / 2, top + step, 2 * top):
            if value < bits_value(FLT_MAX):
                points["overflow"] += [b for b in neighbours(float_bits(value)) if bits_value(b) > top]
    points["overflow"].append(FLT_MAX)
    points["overflow"] += list_binades(fmt.emax + 1, 128)
    smallest = fmt.min_subnormal
    points["subnormal"] = list_binades(-149, floor_log2(smallest) - 1)
    points["zero-sign"] = [0, 1, 0x7FFFFF, 0x800000]
    if smallest / 4 > bits_value(1):
        points["zero-sign"].append(float_bits(smallest / 4))
    if fmt.signed and not (fmt.has_minus_zero or fmt.twos_complement):  # -0 must not become the NaN that has its code
        points["subnormal"] += points["zero-sign"]
        points["zero-sign"] = []
    points["inf"] = [INF]
    points["nan"] = [QUIET_NAN, 0x7F800001, 0x7FFFFFFF]
    if fmt.signed:
        points = {t: [*bits, *(b | SIGN for b in bits)] for t, bits in points.items()}
    else:
        points["nan"] += [QUIET_NAN | SIGN, 0xFF800001]
        points["zero-sign"].append(SIGN)
    return points


def _boundary_points(fmt: ScalarFormat) -> list[tuple[str, int]]:
    points = []
    for m in range(fmt.max_code):
        low, high = fmt.magnitude(m), fmt.magnitude(m + 1)
        below, tie, above = neighbours(float_bits((low + high) / 2))
        points += [("below-tie", below), ("tie-even", tie), ("above-tie", above)]
        points += [("exact", b) for b in neighbours(float_bits(high))]
    return [(t, b) for t, b in points if bits_value(b) <= fmt.max_value]


def _point_groups(fmt: ScalarFormat) -> list[tuple[str, str, list[int]]]:
    """(slug, topic, float32 bits) of the inputs of encode."""
    groups = [(topic, topic, bits) for topic, bits in _scalar_points(fmt).items()]
    walking = walking_ones(fmt)
    return [*groups, ("walking", "above-tie", walking + ([b | SIGN for b in walking] if fmt.signed else []))]


def _overflow_modes(fmt: ScalarFormat) -> tuple[Overflow, ...]:
    return (Overflow.SATURATE, Overflow.OWN) if fmt.has_nonfinite else (Overflow.SATURATE,)


def build_encode(name: str) -> Document:
    """The encode file of one scalar format: boundaries, steps for all float32, digests for all 16-bit inputs."""
    fmt = get_scalar(name)
    document = make_header("encode", name, None, (f for flags in _ENCODE_FLAGS.values() for f in flags))
    document["nan"] = default_nan_policy(fmt).value
    rows = []
    for overflow in _overflow_modes(fmt):
        for slug, topic, bits in _point_groups(fmt):
            if not bits or (overflow is Overflow.OWN and topic not in ("overflow", "inf")):
                continue
            for number, chunk in enumerate(cut_chunks(bits, 128)):
                x = np.array(chunk, np.uint32).view(np.float32)
                answers = [(r.value, hex_words(mxspec.encode(x, name, rounding=r, overflow=overflow), 2)) for r in DETERMINISTIC]
                question = {"overflow": overflow.value, "x": hex_words(chunk, 8)}
                expect = group_answers(answers, "codes", by="roundings")
                identity = {"operation": "encode", "format": name, "nan": document["nan"], **question}
                rows.append(
                    {
                        "id": case_id(f"{slug}-{overflow.value}-{number}", identity),
                        "topic": topic,
                        "flags": list(_ENCODE_FLAGS[topic]),
                        **question,
                        "expect": expect,
                    }
                )
    document["steps"] = _encode_steps(fmt)
    document["digests"] = _encode_digests(fmt)
    document["cases"] = rows
    return document


def _encode_steps(fmt: ElementFormat | ScaleFormat) -> list[dict[str, Any]]:
    """The complete answer for all finite float32: where |x| crosses each `first`, the code becomes the next in `codes`."""
    steps = []
    for overflow in _overflow_modes(fmt):
        for rounding in DETERMINISTIC:
            for sign in (0, SIGN) if fmt.signed else (0,):

                def encode(bits: npt.NDArray[Any], sign: int = sign) -> npt.NDArray[np.uint8]:
                    x = (bits | sign).astype(np.uint32).view(np.float32)
                    return mxspec.encode(x, fmt, rounding=rounding, overflow=overflow)  # noqa: B023

                found = find_float32_steps(encode).below(INF)
                steps.append(
                    {
                        "rounding": rounding.value,
                        "overflow": overflow.value,
                        "sign": 1 if sign else 0,
                        "first": hex_words(found.starts[1:], 8),
                        "codes": hex_words(found.values, 2),
                    }
                )
    return steps


def _encode_digests(fmt: ElementFormat | ScaleFormat) -> list[dict[str, str]]:
    """SHA-256 of the codes of all 65,536 float16 and bfloat16 patterns in order (unsigned formats: magnitudes)."""
    patterns = np.arange(1 << 16, dtype=np.uint16)
    digests = []
    for dtype, kind in (("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)):
        with np.errstate(invalid="ignore"):
            x = patterns.view(kind).astype(np.float32)
        for overflow in _overflow_modes(fmt):
            for rounding in DETERMINISTIC:
                codes = mxspec.encode(x, fmt, rounding=rounding, overflow=overflow, sign="ignore")
                digests.append(
                    {
                        "dtype": dtype,
                        "rounding": rounding.value,
                        "overflow": overflow.value,
                        "sha256": hashlib.sha256(codes.tobytes()).hexdigest(),
                    }
                )
    return digests


def build_decode(name: str) -> Document:
    """The decode file of one scalar format: all codes."""
    fmt = get_scalar(name)
    document = make_header("decode", name, None, ("decode-table", "int8", "e8m0-edges"))
    codes = np.arange(fmt.code_count, dtype=np.uint8)
    flag = "e8m0-edges" if fmt.is_power_of_two else "int8" if fmt.twos_complement else "decode-table"
    rows = []
    for chunk in cut_chunks([int(c) for c in codes], 32):
        question = {"codes": hex_words(chunk, 2)}
        rows.append(
            {
                "id": case_id(f"code-{chunk[0]:02x}", {"operation": "decode", "format": name, **question}),
                "topic": "code",
                "flags": [flag],
                **question,
                "expect": [{"values": hex_floats(mxspec.decode(np.array(chunk, np.uint8), name))}],
            }
        )
    document["cases"] = rows
    return document
