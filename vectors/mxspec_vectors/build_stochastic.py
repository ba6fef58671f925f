"""The stochastic files: random bits at the very word where the answer changes."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

import mxspec
from mxspec.formats import E2M1, ELEMENTS, ScalarFormat, floor_log2
from mxspec.rounding import Rounding
from mxspec.stochastic import encode_te_stochastic
from mxspec_vectors.document import Document, case_id
from mxspec_vectors.entries import cut_chunks, hex_words, list_binades, make_header
from mxspec_vectors.points import INF, QUIET_NAN, SIGN, Stream, bits_value, float_bits


def build_stochastic(name: str) -> Document:
    """The stochastic file of one element format: random bits at the very word where the answer changes."""
    fmt = ELEMENTS[name]
    document = make_header("stochastic", name, None, ("stochastic",))
    rows = []
    for rule, sr_bits in (("integer", 8), ("integer", 32), *((("te-software", 8),) if fmt == E2M1 else ())):
        chunks = list(cut_chunks(list(_stochastic_points(fmt, sr_bits)), 96))
        if rule == "integer" and sr_bits == 32:
            chunks += [list(_low_bit_points(fmt, sr_bits)), list(_fraction_points(fmt, sr_bits))]
        for number, chunk in enumerate(chunks):
            x = np.array([b for b, _ in chunk], np.uint32).view(np.float32)
            words = np.array([w for _, w in chunk], np.uint32)
            if sr_bits == 8 and number % 2:  # the upper bits of a word do not count
                words |= (np.arange(len(words), dtype=np.uint32) * np.uint32(0x9E3779B1)) & np.uint32(0xFFFFFF00)
            if rule == "integer":
                codes = mxspec.encode(x, name, rounding=Rounding.SR, random_bits=words, sr_bits=sr_bits)
            else:
                codes = encode_te_stochastic(x, words.astype(np.uint8))
            question = {
                "rule": rule,
                "sr_bits": sr_bits,
                "x": hex_words((b for b, _ in chunk), 8),
                "random_bits": hex_words((int(w) for w in words), 8),
            }
            identity = {"operation": "stochastic", "format": name, **question}
            rows.append(
                {
                    "id": case_id(f"{rule}-{sr_bits}-{number}", identity),
                    "topic": "random-bits",
                    "flags": ["stochastic"],
                    **question,
                    "expect": [{"codes": hex_words(codes, 2)}],
                }
            )
    document["cases"] = rows
    return document


def _stochastic_points(fmt: ScalarFormat, sr_bits: int) -> Iterable[tuple[int, int]]:
    """(float32 bits, random word): between neighbours at several fractions, with the words around the threshold."""
    top = (1 << sr_bits) - 1
    stream = Stream(sr_bits)
    gaps = range(fmt.max_code) if fmt.max_code < 32 else [m for m in range(fmt.max_code) if m < 10 or m % 7 == 0 or m > fmt.max_code - 3]
    for m in gaps:
        low, high = fmt.magnitude(m), fmt.magnitude(m + 1)
        for fraction in (*(Fraction(n, 1 << 24) for n in (0, 1 << 16, 1 << 23, 0x4DB6DB, 0xFF0000)), None):
            bits = float_bits(high) - 1 if fraction is None else float_bits(low + (high - low) * fraction)
            for word in _deciding_words((bits_value(bits) - low) / (high - low), sr_bits):
                yield bits | (SIGN if stream.below(2) else 0), word
    for word in (0, top):
        yield float_bits(fmt.max_value), word
        yield float_bits(fmt.max_value) | SIGN, word
    for bits in list_binades(-149, floor_log2(fmt.min_subnormal)):
        for word in _deciding_words(bits_value(bits) / fmt.min_subnormal, sr_bits):
            yield bits | (SIGN if stream.below(2) else 0), word
    for bits in list_binades(fmt.emax + 1, 128)[::2]:
        yield bits | (SIGN if stream.below(2) else 0), top * stream.below(2)
    gap = fmt.magnitude(fmt.max_code) - fmt.magnitude(fmt.max_code - 1)
    for value in (fmt.max_value + gap / 2, fmt.max_value + gap * 2):
        for word in (0, top):
            yield float_bits(value), word
            yield float_bits(value) | SIGN, word
    for bits in (0, SIGN, 1, 1 | SIGN, INF, INF | SIGN, QUIET_NAN):
        for word in (0, top):
            yield bits, word


def _deciding_words(share: Fraction, sr_bits: int) -> list[int]:
    """Random words around the one from which a share of the gap rounds up; neighbours in the list differ in answer."""
    top = (1 << sr_bits) - 1
    threshold = (1 << sr_bits) - (share * (1 << sr_bits)).__floor__()
    return list(dict.fromkeys(min(max(w, 0), top) for w in (0, top, threshold - 1, threshold)))


def _low_bit_points(fmt: ScalarFormat, sr_bits: int) -> Iterable[tuple[int, int]]:
    """(float32 bits, random word): odd thresholds, where the lowest random bit decides."""
    for share in (1, 3, 5, 0xFFFFFF):
        bits = float_bits(fmt.min_subnormal * Fraction(share, 1 << sr_bits))
        threshold = (1 << sr_bits) - share
        for word in (threshold - 1, threshold, threshold ^ 1):
            yield bits, word
            if fmt.signed:
                yield bits | SIGN, word


def _fraction_points(fmt: ScalarFormat, sr_bits: int) -> Iterable[tuple[int, int]]:
    """(float32 bits, random word): fractions of a step of the random word; a float64 sum that keeps them goes up."""
    points = [(1 - Fraction(1, 1 << lost), 1) for lost in (22, 23, 24)]
    points += [(share - Fraction(1, 1 << 21), share) for share in (2, 3, 6)]
    for steps, share in points:
        bits = float_bits(fmt.min_subnormal * steps / (1 << sr_bits))
        for word in ((1 << sr_bits) - share, (1 << sr_bits) - share - 1):
            yield bits, word
            if fmt.signed:
                yield bits | SIGN, word
