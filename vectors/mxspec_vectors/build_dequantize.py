"""The dequantize files: codes under scales, and digests of every code under every scale byte."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.elements import code_dtype, output_dtype
from mxspec.formats import BlockFormat, ScaleFormat, get_block
from mxspec.profiles.schema import Profile
from mxspec_vectors.document import Document, case_id
from mxspec_vectors.entries import (
    code_digits,
    cut_chunks,
    group_answers,
    has_level,
    hex_floats,
    hex_words,
    make_header,
    native_tensor_scale,
    scale_digits,
    tensor_scale_entry,
)
from mxspec_vectors.points import QUIET_NAN, TENSOR_AMAXES
from mxspec_vectors.profile_order import list_joined

#: Scale bytes under which every element code is decoded; the others are covered with chosen codes and by digest.
_SCALES = {
    "e8m0": (0x00, 0x01, 0x02, 0x67, 0x70, 0x7E, 0x7F, 0x80, 0xB0, 0xFD, 0xFE, 0xFF),
    "f32": (0x00000000, 0x00000001, 0x00800000, 0x38924925, 0x3F800000, 0x3F800001, 0x46FFFFFF, 0x7F7FFFFF, 0x7F800000, 0x7FC00000),
    "ue4m3": (0x00, 0x01, 0x07, 0x08, 0x09, 0x37, 0x38, 0x39, 0x78, 0x7D, 0x7E, 0x7F),
}


def _choose_scales(scale: ScaleFormat) -> tuple[int, ...]:
    """The scale bytes under which every element code is decoded; of a format not listed both ends and what lies at one."""
    one = scale.bias << scale.mantissa_bits
    ends = (0, 1, 2, one - 1, one, one + 1, scale.max_code - 1, scale.max_code, scale.code_count - 1)
    return _SCALES.get(scale.name, tuple(dict.fromkeys(ends)))


#: Tensor maxima under which every scale byte is decoded, and those under which a few are.
_FULL_TENSORS = ("unit", "odd", "tiny")
_SHORT_TENSORS = ("one", "third", "thousandth", "large", "huge", "subnormal", "zero")


def list_scales(scale: ScaleFormat) -> Sequence[int]:
    """Scale codes under which some element codes are decoded: all, or of float32 one or two of each binade."""
    if scale.bits <= 8:
        return range(scale.code_count)
    return [
        0,
        1,
        0x00012345,
        0x007FFFFF,
        *(e << 23 | (e * 0x35A9B1) & 0x7FFFFF for e in range(1, 255)),
        scale.max_code,
        0x7F800000,
        0x7FC00000,
    ]


def _dequantize_questions(fmt: BlockFormat) -> list[tuple[str, str, npt.NDArray[Any], npt.NDArray[np.uint8]]]:
    """(slug, topic, scales [n], codes [n, k])."""
    all_codes = np.arange(fmt.element.code_count, dtype=np.uint8)
    rows = np.resize(all_codes, -(-len(all_codes) // fmt.k) * fmt.k).reshape(-1, fmt.k)
    questions = []
    for byte in _choose_scales(fmt.scale):
        questions.append((f"codes-scale-{byte:02x}", "code", np.full(len(rows), byte, code_dtype(fmt.scale)), rows))
    magnitudes = [0, 1, fmt.element.max_code // 2, fmt.element.max_code - 1, fmt.element.max_code]
    chosen = np.resize(np.array([fmt.element.join(s, m) for m in magnitudes for s in (0, 1)], np.uint8), fmt.k)
    for chunk in cut_chunks(list_scales(fmt.scale), 16):
        scales = np.array(chunk, code_dtype(fmt.scale))
        questions.append((f"scales-{chunk[0]:02x}", "scale-code", scales, np.tile(chosen, (len(scales), 1))))
    return questions


def build_dequantize(fmt_name: str) -> Document:
    """The dequantize file: all codes under chosen scales, chosen codes under all scales, digests of everything."""
    fmt = get_block(fmt_name)
    profiles = list_joined(fmt)
    document = make_header("dequantize", fmt_name, [p.id for p in profiles], ("decode-table", "e8m0-edges", "int8", "order"))
    tensors: list[int | None] = [None]
    if fmt.has_tensor_scale:
        tensors += [TENSOR_AMAXES[n] for n in (*_FULL_TENSORS, *_SHORT_TENSORS)]
    flags = ["decode-table", "order"] if fmt.has_tensor_scale else ["decode-table", "e8m0-edges"]
    if fmt.element.twos_complement:
        flags.append("int8")
    rows = []
    for tensor in tensors:
        entry = None if tensor is None else tensor_scale_entry(tensor)
        short = tensor is not None and tensor in [TENSOR_AMAXES[n] for n in _SHORT_TENSORS]
        for slug, topic, scales, codes in _dequantize_questions(fmt):
            if tensor not in (None, TENSOR_AMAXES["odd"]) and topic == "code":
                continue
            if short and slug != "scales-00":
                continue
            if short:
                scales, codes = np.array([0x00, 0x01, 0x3B, 0x7E], np.uint8), codes[:4]
            for dtype in ("float32", "bfloat16", "float16"):
                if dtype != "float32" and (topic != "code" or tensor not in (None, TENSOR_AMAXES["odd"]) or
                                           (fmt.element.bits > 4 and scales[0] not in (0x00, 0x70, 0x7F, 0x80, 0xFE))):  # fmt: skip
                    continue
                answers = []
                for profile in profiles:
                    values = _dequantize(codes, scales, fmt, profile, entry, dtype)
                    if values is not None:
                        answers.append((profile.id, hex_floats(values)))
                question: dict[str, Any] = {"shape": [len(codes), fmt.k], "dtype": dtype}
                if entry is not None:
                    question["tensor_scale"] = entry
                question |= {"scales": hex_words(scales, scale_digits(fmt)), "codes": hex_words(codes.reshape(-1), code_digits(fmt))}
                name = slug if tensor is None else f"{slug}-t{tensor:08x}"
                identity = {"operation": "dequantize", "format": fmt_name, **question}
                rows.append(
                    {
                        "id": case_id(f"{name}-{dtype}", identity),
                        "topic": topic,
                        "flags": flags,
                        **question,
                        "expect": group_answers(answers, "values"),
                    }
                )
    document["digests"] = _dequantize_digests(fmt, profiles) if fmt.scale.bits <= 8 else []
    document["cases"] = rows
    return document


def _dequantize(
    codes: npt.NDArray[np.uint8], scales: npt.NDArray[Any], fmt: BlockFormat, profile: Profile, entry: dict[str, str] | None, dtype: str
) -> npt.NDArray[Any] | None:
    if not has_level(profile, two_level=entry is not None):
        return None
    scale = None if entry is None else native_tensor_scale(profile, entry)
    kind = output_dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    return mxspec.dequantize(codes, scales[:, None], fmt, profile=profile, tensor_scale=scale, dtype=kind)


def full_table(fmt: BlockFormat) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:
    """Every code under every scale byte (of float32 scales those of `list_scales`): codes [n, k], scales [n], scale-major, the code list repeated to whole blocks."""
    all_codes = np.arange(fmt.element.code_count, dtype=np.uint8)
    rows = np.resize(all_codes, -(-len(all_codes) // fmt.k) * fmt.k).reshape(-1, fmt.k)
    scales = np.array(list_scales(fmt.scale), code_dtype(fmt.scale))
    return np.tile(rows, (len(scales), 1)), np.repeat(scales, len(rows))


def _dequantize_digests(fmt: BlockFormat, profiles: Sequence[Profile]) -> list[dict[str, Any]]:
    """SHA-256 of the little-endian float32 of `full_table`, one level, with every NaN written 7fc00000."""
    codes, scales = full_table(fmt)
    answers = []
    for profile in profiles:
        values = _dequantize(codes, scales, fmt, profile, None, "float32")
        if values is not None:
            bits = np.where(np.isnan(values), np.uint32(QUIET_NAN), values.view(np.uint32)).astype("<u4")
            answers.append((profile.id, hashlib.sha256(bits.tobytes()).hexdigest()))
    return group_answers(answers, "sha256")
