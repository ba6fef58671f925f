"""Files of affine integers as typed cases; of a format without a file, the cases that the model builds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine.formats import AffineFormat, Offset, get_affine
from mxspec_vectors.build_affine import digits_of
from mxspec_vectors.cases import open_document, read_codes

Values = npt.NDArray[Any]
Codes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class AffineAnswer:
    """What a profile makes of a group."""

    codes: Codes
    #: 0-d arrays: the scale in the format's dtype, and the bias in it or the zero point as uint8.
    scale: Values
    offset: Values


@dataclass(frozen=True, slots=True)
class AffineGroupCase:
    """A group to quantize."""

    id: str
    topic: str
    #: [group] in the format's dtype.
    x: Values
    answers: Mapping[str, AffineAnswer]
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AffineStoredCase:
    """A stored group to dequantize."""

    id: str
    topic: str
    codes: Codes
    scale: Values
    offset: Values
    #: Contract -> float32 values [group].
    values: Mapping[str, Floats]
    flags: tuple[str, ...] = ()


def _read_words(text: str, fmt: AffineFormat) -> Values:
    """Floats of the format's dtype from the hex of their bits; `nan` is its NaN."""
    digits = fmt.scalar.bits // 4
    words = [text[i : i + digits] for i in range(0, len(text), digits)]
    bits = [(fmt.scalar.nan_code or 0) if w.startswith("nan") else int(w, 16) for w in words]
    return np.array(bits, f"u{fmt.scalar.bits // 8}").view(fmt.numpy_dtype)


def _read_offset(text: str, fmt: AffineFormat) -> Values:
    return _read_words(text, fmt)[0] if fmt.offset is Offset.BIAS else np.asarray(int(text, 16), np.uint8)


def _read_values(text: str) -> Floats:
    words = [text[i : i + 8] for i in range(0, len(text), 8)]
    return np.array([0x7FC00000 if w.startswith("nan") else int(w, 16) for w in words], np.uint32).view(np.float32)


@lru_cache(maxsize=32)
def load_affine_groups(name: str) -> tuple[AffineGroupCase, ...]:
    """The groups to quantize of a format."""
    return read_affine_groups(open_document("quantize_affine", get_affine(name).name))


def read_affine_groups(document: Mapping[str, Any]) -> tuple[AffineGroupCase, ...]:
    """The groups to quantize of a document."""
    fmt = get_affine(document["format"])
    digits, _ = digits_of(fmt)
    cases = []
    for entry in document["cases"]:
        answers: dict[str, AffineAnswer] = {}
        for expected in entry["expect"]:
            codes = read_codes(expected["codes"], digits)
            answer = AffineAnswer(codes, _read_words(expected["scale"], fmt)[0], _read_offset(expected["offset"], fmt))
            answers |= dict.fromkeys(expected["profiles"], answer)
        cases.append(AffineGroupCase(entry["id"], entry["topic"], _read_words(entry["x"], fmt), answers, tuple(entry["flags"])))
    return tuple(cases)


@lru_cache(maxsize=32)
def load_affine_stored(name: str) -> tuple[AffineStoredCase, ...]:
    """The stored groups of a format."""
    return read_affine_stored(open_document("dequantize_affine", get_affine(name).name))


def read_affine_stored(document: Mapping[str, Any]) -> tuple[AffineStoredCase, ...]:
    """The stored groups of a document."""
    fmt = get_affine(document["format"])
    digits, _ = digits_of(fmt)
    cases = []
    for entry in document["cases"]:
        values: dict[str, Floats] = {}
        for expected in entry["expect"]:
            values |= dict.fromkeys(expected["contracts"], _read_values(expected["values"]))
        cases.append(
            AffineStoredCase(
                entry["id"], entry["topic"], read_codes(entry["codes"], digits), _read_words(entry["scale"], fmt)[0],
                _read_offset(entry["offset"], fmt), values, tuple(entry["flags"]),
            )
        )  # fmt: skip
    return tuple(cases)
