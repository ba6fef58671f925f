"""The files of affine integers: groups with the answers of every profile, stored groups with those of every contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine.arrays import dequantize_groups, quantize_groups
from mxspec.affine.contracts import list_contracts
from mxspec.affine.formats import AffineFormat, Offset, get_affine
from mxspec.affine.profiles import list_affine_profiles
from mxspec_vectors.document import Document, case_id
from mxspec_vectors.entries import group_answers, hex_floats, hex_words, make_header
from mxspec_vectors.inputs_affine import GroupInput, StoredGroup, list_groups, list_stored

Values = npt.NDArray[Any]

#: Formats with files; of every other affine format the judge has the cases that the model gives.
AFFINE_FILES = (
    "int4-g64-bias-float16", "int4-g64-bias-bfloat16", "int4-g32-bias-float32", "int8-g32-bias-float16",
    "int3-g32-bias-float16", "int2-g32-bias-bfloat16", "int4-g64-zero-float16",
    "int4-g32-zero-bfloat16", "int8-g32-zero-float32",
)  # fmt: skip


def digits_of(fmt: AffineFormat) -> tuple[int, int]:
    """Hex digits of a code, and of the bits of a scale."""
    return (1 if fmt.bits <= 4 else 2), fmt.scalar.bits // 4


def float_array(bits: Sequence[Sequence[int]], fmt: AffineFormat) -> Values:
    """Bits as floats of the format's dtype."""
    return np.array(bits, f"u{fmt.scalar.bits // 8}").view(fmt.numpy_dtype)


def build_quantize_affine(name: str) -> Document:
    """The groups of a format, with the answers of every profile that covers it."""
    fmt = get_affine(name)
    return document_groups(fmt, list_groups(fmt))


def document_groups(fmt: AffineFormat, inputs: Sequence[GroupInput]) -> Document:
    """Groups to quantize as a file has them, with the answers of every profile that covers the format."""
    code_digits, word_digits = digits_of(fmt)
    profiles = list_affine_profiles(fmt)
    x = float_array([g.bits for g in inputs], fmt).astype(np.float32)
    answers = {p.id: quantize_groups(x, fmt, p) for p in profiles}
    document = make_header("quantize_affine", fmt.name, [p.id for p in profiles], {f for g in inputs for f in g.flags})
    cases = []
    for row, given in enumerate(inputs):
        question = {"x": hex_words(given.bits, word_digits)}
        entries = []
        for profile, (codes, scales, offsets) in answers.items():
            offset = hex_floats(offsets[row]) if fmt.offset is Offset.BIAS else f"{int(offsets[row]):02x}"
            entries.append((profile, {"codes": hex_words(codes[row], code_digits), "scale": hex_floats(scales[row]), "offset": offset}))
        identity = {"operation": "quantize_affine", "format": fmt.name, **question}
        cases.append(
            {
                "id": case_id(given.slug, identity), "topic": given.topic, "flags": list(given.flags), **question,
                "expect": [{"profiles": e["profiles"], **e["answer"]} for e in group_answers(entries, "answer")],
            }
        )  # fmt: skip
    document["cases"] = cases
    return document


def build_dequantize_affine(name: str) -> Document:
    """The stored groups of a format, with the values of every contract in float32."""
    fmt = get_affine(name)
    return document_stored(fmt, list_stored(fmt))


def document_stored(fmt: AffineFormat, inputs: Sequence[StoredGroup]) -> Document:
    """Stored groups as a file has them, with the values of every contract in float32."""
    code_digits, word_digits = digits_of(fmt)
    codes, scales, offsets = stored_arrays(inputs, fmt)
    contracts = list_contracts(fmt)
    values = {c.name: dequantize_groups(codes, scales, offsets, fmt, c, "float32") for c in contracts}
    document = make_header("dequantize_affine", fmt.name, None, {f for g in inputs for f in g.flags})
    document["contracts"] = {c.name: c.summary for c in contracts}
    cases = []
    for row, given in enumerate(inputs):
        offset = f"{given.offset:0{word_digits if fmt.offset is Offset.BIAS else 2}x}"
        question = {
            "codes": hex_words(given.codes, code_digits), "scale": f"{given.scale:0{word_digits}x}", "offset": offset,
        }  # fmt: skip
        identity = {"operation": "dequantize_affine", "format": fmt.name, **question}
        found = [(c, hex_floats(v[row])) for c, v in values.items()]
        cases.append(
            {
                "id": case_id(given.slug, identity), "topic": given.topic, "flags": list(given.flags), **question,
                "expect": group_answers(found, "values", "contracts"),
            }
        )  # fmt: skip
    document["cases"] = cases
    return document


def stored_arrays(inputs: Sequence[Any], fmt: AffineFormat) -> tuple[Values, Values, Values]:
    """Codes [n, g], scales [n] and offsets [n] of stored groups."""
    codes = np.array([g.codes for g in inputs], np.uint8)
    scales = float_array([[g.scale] for g in inputs], fmt)[:, 0]
    if fmt.offset is Offset.ZERO:
        return codes, scales, np.array([g.offset for g in inputs], np.uint8)
    return codes, scales, float_array([[g.offset] for g in inputs], fmt)[:, 0]
