"""The builder: inputs from `inputs`, answers from the model, files in canonical bytes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.arrays import ARRAYS
from mxspec.blocks import quantize_rows
from mxspec.elements import default_nan_policy, output_dtype
from mxspec.exact import choose_level
from mxspec.expressions import evaluate
from mxspec.formats import (
    BLOCKS,
    ELEMENTS,
    SCALES,
    BlockFormat,
    ElementFormat,
    ScalarFormat,
    ScaleFormat,
    floor_log2,
    get_block,
    get_scalar,
)  # fmt: skip
from mxspec.legal import LegalRow, legal_rows
from mxspec.profiles.schema import Profile, TensorScaleKind
from mxspec.rounding import DETERMINISTIC, Overflow, Rounding
from mxspec.scales import encode_scale
from mxspec.stochastic import encode_te_stochastic
from mxspec.tensorscale import TensorScale, bind_arrays, derive_tensor_scale
from mxspec_vectors.build_layouts import build_layout, list_layout_names
from mxspec_vectors.files import (
    OPERATIONS,
    VERSION,
    Document,
    VectorError,
    canonical_json,
    case_id,
    check_replaceable,
    file_name,
    render,
    total_digest,
    vectors_root,
    write_tree,
)
from mxspec_vectors.inputs import (
    FLT_MAX,
    INF,
    ORDINARY_AMAXES,
    QUIET_NAN,
    SIGN,
    TENSOR_AMAXES,
    Input,
    Stream,
    binade_bits,
    bisect_steps,
    bits_value,
    float_bits,
    neighbours,
    quantize_inputs,
)
from mxspec_vectors.topics import FLAGS

Progress = Callable[[str], None]
T = TypeVar("T")


def hex_words(values: Iterable[int], digits: int) -> str:
    """Bits as one string of hex digits, most significant first within each word."""
    return "".join(f"{int(v):0{digits}x}" for v in values)


def hex_floats(values: npt.NDArray[Any]) -> str:
    """The bits of floats (float32: 8 hex digits each, 16-bit floats: 4), with every NaN as `nan` padded by dots."""
    width = values.dtype.itemsize
    bits = values.reshape(-1).view(np.uint32 if width == 4 else np.uint16)
    lost = np.isnan(values.reshape(-1).astype(np.float32))
    word = "nan.....".ljust(8, ".")[: 2 * width]
    return "".join(word if n else f"{int(b):0{2 * width}x}" for b, n in zip(bits, lost, strict=True))


def tensor_scale_entry(amax: int) -> dict[str, str]:
    """The tensor scale of a tensor maximum in its three kinds, as float32 bits in hex.

    decode is the rounded amax / 2688; encode is the rounded 2688 / amax, at most FLT_MAX, and 1 for a maximum of zero.
    """
    scale = TensorScale(TensorScaleKind.AMAX, amax)
    paper = mxspec.get_profile("nvfp4-paper", "nvfp4")
    encode = derive_tensor_scale(amax, paper)
    value = np.float32(scale.value)
    with np.errstate(all="ignore"):
        decode = np.float32(value / np.float32(2688))
    bits = int(decode.view(np.uint32)) if not np.isnan(decode) else QUIET_NAN
    return {"amax": f"{amax:08x}", "decode": f"{bits:08x}", "encode": f"{encode.bits:08x}"}


def native_tensor_scale(profile: Profile, entry: dict[str, str]) -> TensorScale:
    """The tensor scale of a case as the profile takes it: the entry's bits of the profile's native kind.

    Raises ValueError for a profile without a tensor scale.
    """
    if profile.tensor is None:
        raise ValueError(f"profile {profile.id} has no tensor scale")
    kind = profile.tensor.native
    return TensorScale(kind, int(entry[kind.value], 16))


def _group_answers(answers: Sequence[tuple[int, Any]], key: str) -> list[dict[str, Any]]:
    """[(profile index, answer)] -> one entry for each distinct answer, with the profiles that give it."""
    grouped: dict[str, tuple[list[int], Any]] = {}
    for index, answer in answers:
        grouped.setdefault(canonical_json(answer), ([], answer))[0].append(index)
    return [{"profiles": indices, key: answer} for indices, answer in grouped.values()]


def code_digits(fmt: BlockFormat) -> int:
    """Hex digits of one element code in quantize and dequantize files: one for four bits, else two."""
    return 1 if fmt.element.bits <= 4 else 2


def _row_entry(row: LegalRow, fmt: BlockFormat) -> dict[str, Any]:
    entry: dict[str, Any] = {"scale": f"{row.scale:02x}"}
    if row.scale_max != row.scale:
        entry["scale_max"] = f"{row.scale_max:02x}"
    entry["codes"] = hex_words(row.codes, code_digits(fmt))
    if any(m != 0xFF for m in row.mask):
        used = fmt.element.code_count - 1
        entry["mask"] = hex_words((m & used for m in row.mask), code_digits(fmt))
    if row.nan_lanes:
        entry["nan_lanes"] = list(row.nan_lanes)
    return entry


def _quantize_answers(
    cases: Sequence[Input], fmt: BlockFormat, profile: Profile, entries: dict[int, dict[str, str]]
) -> list[Any]:
    """For each case the list of legal answers, or None where the profile refuses the case."""
    answers: list[Any] = [None] * len(cases)
    batches: dict[int | None, list[int]] = {}
    for i, case in enumerate(cases):
        single = case.axis == -1 and not case.pad and case.block is None and len(case.bits) == 1
        if single and len(case.bits[0]) == fmt.k:
            batches.setdefault(case.tensor_amax, []).append(i)
        elif _takes(profile, case):
            answers[i] = _whole_tensor_answer(case, fmt, profile, entries)
    for amax, members in batches.items():
        if not has_level(profile, two_level=amax is not None):
            continue
        scale = None if amax is None else native_tensor_scale(profile, entries[amax])
        members = [i for i in members if _takes(profile, cases[i])]
        if not members:
            continue
        for i, row in zip(members, _quantize_rows([cases[i] for i in members], fmt, profile, scale), strict=True):
            if row is not None:
                legal = legal_rows(cases[i].x[0], fmt, profile, *row)
                answers[i] = [_row_entry(r, fmt) for r in legal]
    return answers


def _takes(profile: Profile, case: Input) -> bool:
    """Whether the profile speaks of the case's values: those of 16-bit code paths only of what the dtype holds."""
    if "float32" in profile.dtypes:
        return True
    x = case.x
    with np.errstate(all="ignore"):
        narrow = [x.astype(ml_dtypes.bfloat16 if d == "bfloat16" else d).astype(np.float32) for d in profile.dtypes]
    return any(bool((np.isnan(x) | (n.view(np.uint32) == x.view(np.uint32))).all()) for n in narrow)


def _quantize_rows(
    cases: Sequence[Input], fmt: BlockFormat, profile: Profile, scale: TensorScale | None
) -> list[tuple[int, npt.NDArray[np.uint8]] | None]:
    """(scale byte, codes) of one-block cases; None for those that the profile refuses (gfloat raises on NaN)."""
    try:
        result = mxspec.quantize(np.concatenate([c.x for c in cases]), fmt, profile=profile, tensor_scale=scale)
    except ValueError:
        if len(cases) == 1:
            return [None]
        half = len(cases) // 2
        return _quantize_rows(cases[:half], fmt, profile, scale) + _quantize_rows(cases[half:], fmt, profile, scale)
    return [(int(s[0]), c) for s, c in zip(result.scales, result.codes, strict=True)]


def _whole_tensor_answer(case: Input, fmt: BlockFormat, profile: Profile, entries: dict[int, dict[str, str]]) -> Any:
    if not has_level(profile, two_level=case.tensor_amax is not None):
        return None
    scale = None if case.tensor_amax is None else native_tensor_scale(profile, entries[case.tensor_amax])
    result = mxspec.quantize(
        case.x, fmt, profile=profile, axis=case.axis, pad=case.pad, block=case.block, tensor_scale=scale
    )
    return [
        {
            "scale": hex_words(result.scales.reshape(-1), 2),
            "codes": hex_words(result.codes.reshape(-1), code_digits(fmt)),
        }
    ]


def _header(operation: str, fmt: str, profiles: Sequence[str] | None, flags: Iterable[str]) -> Document:
    document: Document = {
        "schema": f"mxspec-vectors/{VERSION}/{operation}",
        "operation": operation,
        "format": fmt,
        "licence": "CC0-1.0",
    }
    if profiles is not None:
        document["profiles"] = list(profiles)
    document["flags"] = {
        name: {"note": f.note, "source": f.source, "kind": f.kind, "evidence": f.evidence}
        for name, f in ((n, FLAGS[n]) for n in sorted(set(flags)))
    }
    return document


def build_quantize(fmt_name: str) -> Document:
    """The quantize file of one block format."""
    fmt = get_block(fmt_name)
    cases = quantize_inputs(fmt_name)
    profiles = mxspec.list_profiles(fmt)
    entries = {a: tensor_scale_entry(a) for a in {c.tensor_amax for c in cases if c.tensor_amax is not None}}
    columns = [_quantize_answers(cases, fmt, p, entries) for p in profiles]
    document = _header("quantize", fmt_name, [p.id for p in profiles], (f for c in cases for f in c.flags))
    rows = []
    for i, case in enumerate(cases):
        question: dict[str, Any] = {"shape": [len(case.bits), len(case.bits[0])]}
        if case.axis != -1:
            question["axis"] = case.axis
        if case.pad:
            question["pad"] = True
        if case.block is not None:
            question["block"] = list(case.block)
        if case.tensor_amax is not None:
            question["tensor_scale"] = entries[case.tensor_amax]
        question["x"] = hex_words((b for row in case.bits for b in row), 8)
        answers = [(p, columns[p][i]) for p in range(len(profiles)) if columns[p][i] is not None]
        identity = {"operation": "quantize", "format": fmt_name, **question}
        rows.append(
            {
                "id": case_id(case.slug, identity),
                "topic": case.topic,
                "flags": list(case.flags),
                **question,
                "expect": _group_answers(answers, "any"),
            }
        )
    document["cases"] = rows
    return document


def has_level(profile: Profile, *, two_level: bool) -> bool:
    """Whether the profile has a form with (or without) a tensor scale."""
    return (profile.two_level if two_level else profile.one_level) is not None


def _scale_function(
    fmt: BlockFormat, profile: Profile, entry: dict[str, str] | None
) -> Callable[[npt.NDArray[np.uint32]], npt.NDArray[np.uint8]] | None:
    if not has_level(profile, two_level=entry is not None):
        return None
    level = choose_level(profile, with_tensor_scale=entry is not None)
    scale = None if entry is None else native_tensor_scale(profile, entry)
    bindings: dict[str, Any] = {} if scale is None else dict(bind_arrays(profile, scale))
    bindings["M"] = np.asarray(np.float32(float(fmt.element.max_value)))

    def scale_bytes(bits: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
        amax = bits.view(np.float32)
        value = np.broadcast_to(evaluate(level.scale.value, {**bindings, "amax": amax}, ARRAYS), amax.shape)
        return encode_scale(value, level.scale, fmt.scale, fmt.element)

    return scale_bytes


def _block_scale_function(
    fmt: BlockFormat, profile: Profile, entry: dict[str, str] | None
) -> Callable[[npt.NDArray[np.uint32]], npt.NDArray[np.uint8]] | None:
    """Maxima -> the scale bytes of blocks whose other lanes are zero."""
    level = profile.one_level if entry is None else profile.two_level
    if level is None or (level.alternative is None and level.normalize is None and not profile.flush_inputs):
        return _scale_function(fmt, profile, entry)
    bindings = {} if entry is None else dict(bind_arrays(profile, native_tensor_scale(profile, entry)))

    def scale_bytes(bits: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
        rows = np.zeros((len(bits), fmt.k), np.uint32)
        rows[:, 0] = bits
        with np.errstate(all="ignore"):
            scales, _ = quantize_rows(rows.view(np.float32), fmt, profile, level, bindings)
        return scales[:, 0]

    return scale_bytes


def build_scale(fmt_name: str) -> Document:
    """The scale file: every block maximum at which some profile's scale changes, with both neighbours.

    The answers are those of a block whose other lanes are zero: where a profile tries two scales, they decide too.
    A case holds boundaries of one profile only, so that a profile that is added later changes no case but its own.
    """
    fmt = get_block(fmt_name)
    profiles = mxspec.list_profiles(fmt)
    document = _header(
        "scale", fmt_name, [p.id for p in profiles], ("scale-rule", "float-log2", "scale-rounding", "order")
    )
    rows: dict[str, dict[str, Any]] = {}
    amaxes: list[int | None] = [None]
    if fmt.has_tensor_scale:
        amaxes += [TENSOR_AMAXES[n] for n in (*ORDINARY_AMAXES, "tiny", "overflow")]
    for tensor in amaxes:
        entry = None if tensor is None else tensor_scale_entry(tensor)
        functions = {i: f for i, p in enumerate(profiles) if (f := _scale_function(fmt, p, entry)) is not None}
        answering = {i: f for i, p in enumerate(profiles) if (f := _block_scale_function(fmt, p, entry)) is not None}
        limit = FLT_MAX if tensor is None else min(tensor, FLT_MAX)
        for i, function in functions.items():
            if not _is_monotone(profiles[i]):
                continue
            points = {b for step in bisect_steps(function, limit) for b in neighbours(step) if 0 < b <= limit}
            for chunk in _chunks(sorted(points), 96):
                question: dict[str, Any] = {} if entry is None else {"tensor_scale": entry}
                question["amax"] = hex_words(chunk, 8)
                name = "one-level" if tensor is None else f"t{tensor:08x}"
                identity = {"operation": "scale", "format": fmt_name, **question}
                key = case_id(f"scale-{name}-{chunk[0]:08x}", identity)
                if key in rows:
                    continue
                answers = [(n, hex_words(f(np.array(chunk, np.uint32)), 2)) for n, f in answering.items()]
                rows[key] = {
                    "id": key,
                    "topic": "scale-tie" if fmt.has_tensor_scale else "scale-boundary",
                    "flags": ["scale-rounding", "order"] if fmt.has_tensor_scale else ["scale-rule", "float-log2"],
                    **question,
                    "expect": _group_answers(answers, "scale"),
                }
    document["cases"] = list(rows.values())
    return document


def _is_monotone(profile: Profile) -> bool:
    """Whether no scale byte of the profile falls as the maximum grows (a wrapping low end does)."""
    from mxspec.profiles.schema import LowEnd

    return all(
        level is None or (level.scale.low is LowEnd.CLAMP and level.scale.on_zero in (None, 0))
        for level in (profile.one_level, profile.two_level)
    )


def _chunks(values: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]


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
    points["overflow"] += _ladder(fmt.emax + 1, 128)
    smallest = fmt.min_subnormal
    points["subnormal"] = _ladder(-149, floor_log2(smallest) - 1)
    points["zero-sign"] = [0, 1, 0x7FFFFF, 0x800000]
    if smallest / 4 > bits_value(1):
        points["zero-sign"].append(float_bits(smallest / 4))
    points["inf"] = [INF]
    points["nan"] = [QUIET_NAN, 0x7F800001, 0x7FFFFFFF]
    if fmt.signed:
        points = {t: [*bits, *(b | SIGN for b in bits)] for t, bits in points.items()}
    else:
        points["nan"] += [QUIET_NAN | SIGN, 0xFF800001]
        points["zero-sign"].append(SIGN)
    return points


def _ladder(first: int, end: int) -> list[int]:
    """float32 bits of one number in each binade from 2**first to below 2**end, with changing significands."""
    return [binade_bits((1 << 23, 0xFFFFFF, 0xAAAAAB, 0xC00001)[e % 4], e) for e in range(first, end)]


def _boundary_points(fmt: ScalarFormat) -> list[tuple[str, int]]:
    points = []
    for m in range(fmt.max_code):
        low, high = fmt.magnitude(m), fmt.magnitude(m + 1)
        below, tie, above = neighbours(float_bits((low + high) / 2))
        points += [("below-tie", below), ("tie-even", tie), ("above-tie", above)]
        points += [("exact", b) for b in neighbours(float_bits(high))]
    return [(t, b) for t, b in points if bits_value(b) <= fmt.max_value]


def _overflow_modes(fmt: ScalarFormat) -> tuple[Overflow, ...]:
    own = fmt.inf_code is not None or fmt.nan_code is not None
    return (Overflow.SATURATE, Overflow.OWN) if own else (Overflow.SATURATE,)


def build_encode(name: str) -> Document:
    """The encode file of one scalar format: boundaries, steps for all float32, digests for all 16-bit inputs."""
    fmt = get_scalar(name)
    document = _header("encode", name, None, (f for flags in _ENCODE_FLAGS.values() for f in flags))
    document["nan"] = default_nan_policy(fmt).value
    rows = []
    for overflow in _overflow_modes(fmt):
        for topic, bits in _scalar_points(fmt).items():
            if not bits or (overflow is Overflow.OWN and topic not in ("overflow", "inf")):
                continue
            for number, chunk in enumerate(_chunks(bits, 128)):
                x = np.array(chunk, np.uint32).view(np.float32)
                answers = [
                    (r.value, hex_words(mxspec.encode(x, name, rounding=r, overflow=overflow), 2))
                    for r in DETERMINISTIC
                ]
                question = {"overflow": overflow.value, "x": hex_words(chunk, 8)}
                grouped = _group_answers([(i, a) for i, (_, a) in enumerate(answers)], "codes")
                expect = [{"roundings": [answers[i][0] for i in g["profiles"]], "codes": g["codes"]} for g in grouped]
                identity = {"operation": "encode", "format": name, "nan": document["nan"], **question}
                rows.append(
                    {
                        "id": case_id(f"{topic}-{overflow.value}-{number}", identity),
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

                def magnitude_rank(bits: npt.NDArray[np.uint32], sign: int = sign) -> npt.NDArray[np.uint8]:
                    x = (bits | np.uint32(sign)).view(np.float32)
                    codes = mxspec.encode(x, fmt, rounding=rounding, overflow=overflow)  # noqa: B023
                    return _rank(fmt)[codes]

                first = bisect_steps(magnitude_rank)
                at = np.array([0, *first], np.uint32) | np.uint32(sign)
                codes = mxspec.encode(at.view(np.float32), fmt, rounding=rounding, overflow=overflow)
                steps.append(
                    {
                        "rounding": rounding.value,
                        "overflow": overflow.value,
                        "sign": 1 if sign else 0,
                        "first": hex_words(first, 8),
                        "codes": hex_words(codes, 2),
                    }
                )
    return steps


def _rank(fmt: ScalarFormat) -> npt.NDArray[np.uint8]:
    """Magnitude codes, which grow with |x|; Inf and NaN lie above the finite ones."""
    return np.array([fmt.split(c)[1] for c in range(fmt.code_count)], np.uint8)


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
    document = _header("decode", name, None, ("decode-table", "int8", "e8m0-edges"))
    codes = np.arange(fmt.code_count, dtype=np.uint8)
    flag = "e8m0-edges" if name == "e8m0" else "int8" if name == "int8" else "decode-table"
    rows = []
    for chunk in _chunks([int(c) for c in codes], 32):
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


#: Scale bytes under which every element code is decoded; the others are covered with chosen codes and by digest.
_E8M0_SCALES = (0x00, 0x01, 0x02, 0x67, 0x70, 0x7E, 0x7F, 0x80, 0xB0, 0xFD, 0xFE, 0xFF)
_UE4M3_SCALES = (0x00, 0x01, 0x07, 0x08, 0x09, 0x37, 0x38, 0x39, 0x78, 0x7D, 0x7E, 0x7F)


#: Tensor maxima under which every scale byte is decoded, and those under which a few are.
_FULL_TENSORS = ("unit", "odd", "tiny")
_SHORT_TENSORS = ("one", "third", "thousandth", "large", "huge", "subnormal", "zero")


def _dequantize_questions(fmt: BlockFormat) -> list[tuple[str, str, npt.NDArray[np.uint8], npt.NDArray[np.uint8]]]:
    """(slug, topic, scales [n], codes [n, k])."""
    all_codes = np.arange(fmt.element.code_count, dtype=np.uint8)
    rows = np.resize(all_codes, -(-len(all_codes) // fmt.k) * fmt.k).reshape(-1, fmt.k)
    questions = []
    for byte in _UE4M3_SCALES if fmt.has_tensor_scale else _E8M0_SCALES:
        questions.append((f"codes-scale-{byte:02x}", "code", np.full(len(rows), byte, np.uint8), rows))
    magnitudes = [0, 1, fmt.element.max_code // 2, fmt.element.max_code - 1, fmt.element.max_code]
    chosen = np.resize(np.array([fmt.element.join(s, m) for m in magnitudes for s in (0, 1)], np.uint8), fmt.k)
    for chunk in _chunks(range(fmt.scale.code_count), 16):
        scales = np.array(chunk, np.uint8)
        questions.append((f"scales-{chunk[0]:02x}", "scale-code", scales, np.tile(chosen, (len(scales), 1))))
    return questions


def build_dequantize(fmt_name: str) -> Document:
    """The dequantize file: all codes under chosen scales, chosen codes under all scales, digests of everything."""
    fmt = get_block(fmt_name)
    profiles = mxspec.list_profiles(fmt)
    document = _header(
        "dequantize", fmt_name, [p.id for p in profiles], ("decode-table", "e8m0-edges", "int8", "order")
    )
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
                for i, profile in enumerate(profiles):
                    values = _dequantize(codes, scales, fmt, profile, entry, dtype)
                    if values is not None:
                        answers.append((i, hex_floats(values)))
                question: dict[str, Any] = {"shape": [len(codes), fmt.k], "dtype": dtype}
                if entry is not None:
                    question["tensor_scale"] = entry
                question |= {"scales": hex_words(scales, 2), "codes": hex_words(codes.reshape(-1), code_digits(fmt))}
                name = slug if tensor is None else f"{slug}-t{tensor:08x}"
                identity = {"operation": "dequantize", "format": fmt_name, **question}
                rows.append(
                    {
                        "id": case_id(f"{name}-{dtype}", identity),
                        "topic": topic,
                        "flags": flags,
                        **question,
                        "expect": _group_answers(answers, "values"),
                    }
                )
    document["digests"] = _dequantize_digests(fmt, profiles)
    document["cases"] = rows
    return document


def _dequantize(
    codes: npt.NDArray[np.uint8],
    scales: npt.NDArray[np.uint8],
    fmt: BlockFormat,
    profile: Profile,
    entry: dict[str, str] | None,
    dtype: str,
) -> npt.NDArray[Any] | None:
    if not has_level(profile, two_level=entry is not None):
        return None
    scale = None if entry is None else native_tensor_scale(profile, entry)
    kind = output_dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    return mxspec.dequantize(codes, scales[:, None], fmt, profile=profile, tensor_scale=scale, dtype=kind)


def full_table(fmt: BlockFormat) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Every code under every scale byte: codes [n, k], scales [n], scale-major, the code list repeated to whole blocks."""
    all_codes = np.arange(fmt.element.code_count, dtype=np.uint8)
    rows = np.resize(all_codes, -(-len(all_codes) // fmt.k) * fmt.k).reshape(-1, fmt.k)
    scales = np.repeat(np.arange(fmt.scale.code_count, dtype=np.uint8), len(rows))
    return np.tile(rows, (fmt.scale.code_count, 1)), scales


def _dequantize_digests(fmt: BlockFormat, profiles: Sequence[Profile]) -> list[dict[str, Any]]:
    """SHA-256 of the little-endian float32 of `full_table`, one level, with every NaN written 7fc00000."""
    codes, scales = full_table(fmt)
    answers = []
    for i, profile in enumerate(profiles):
        values = _dequantize(codes, scales, fmt, profile, None, "float32")
        if values is not None:
            bits = np.where(np.isnan(values), np.uint32(QUIET_NAN), values.view(np.uint32)).astype("<u4")
            answers.append((i, hashlib.sha256(bits.tobytes()).hexdigest()))
    return _group_answers(answers, "sha256")


def build_stochastic(name: str) -> Document:
    """The stochastic file of one element format: random bits at the very word where the answer changes."""
    fmt = ELEMENTS[name]
    document = _header("stochastic", name, None, ("stochastic",))
    rows = []
    for rule, sr_bits in (("integer", 8), ("integer", 32), *((("te-software", 8),) if name == "e2m1" else ())):
        chunks = list(_chunks(list(_stochastic_points(fmt, sr_bits)), 96))
        if rule == "integer" and sr_bits == 32:
            chunks.append(list(_low_bit_points(fmt, sr_bits)))
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
    gaps = (
        range(fmt.max_code)
        if fmt.max_code < 32
        else [m for m in range(fmt.max_code) if m < 10 or m % 7 == 0 or m > fmt.max_code - 3]
    )
    for m in gaps:
        low, high = fmt.magnitude(m), fmt.magnitude(m + 1)
        for fraction in (*(Fraction(n, 1 << 24) for n in (0, 1 << 16, 1 << 23, 0x4DB6DB, 0xFF0000)), None):
            bits = float_bits(high) - 1 if fraction is None else float_bits(low + (high - low) * fraction)
            for word in _deciding_words((bits_value(bits) - low) / (high - low), sr_bits):
                yield bits | (SIGN if stream.below(2) else 0), word
    for word in (0, top):
        yield float_bits(fmt.max_value), word
        yield float_bits(fmt.max_value) | SIGN, word
    for bits in _ladder(-149, floor_log2(fmt.min_subnormal)):
        for word in _deciding_words(bits_value(bits) / fmt.min_subnormal, sr_bits):
            yield bits | (SIGN if stream.below(2) else 0), word
    for bits in _ladder(fmt.emax + 1, 128)[::2]:
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


_BUILDERS: dict[str, tuple[Callable[[str], Document], tuple[str, ...]]] = {
    "encode": (build_encode, (*ELEMENTS, *SCALES)),
    "decode": (build_decode, (*ELEMENTS, *SCALES)),
    "scale": (build_scale, tuple(BLOCKS)),
    "quantize": (build_quantize, tuple(BLOCKS)),
    "dequantize": (build_dequantize, tuple(BLOCKS)),
    "stochastic": (build_stochastic, tuple(ELEMENTS)),
    "layout": (build_layout, list_layout_names()),
}


def list_files() -> list[tuple[str, str]]:
    """(operation, format) of every file."""
    return [(operation, fmt) for operation in OPERATIONS for fmt in _BUILDERS[operation][1]]


def build_document(operation: str, fmt: str) -> Document:
    """One vector file's content, computed from the model."""
    return _BUILDERS[operation][0](fmt)


def build_all(progress: Progress = lambda _: None) -> dict[str, bytes]:
    """Every file's canonical bytes, the index included."""
    contents: dict[str, bytes] = {}
    entries: dict[str, dict[str, Any]] = {}
    for operation, fmt in list_files():
        name = file_name(operation, fmt)
        progress(name)
        document = build_document(operation, fmt)
        ids = [c["id"] for c in document["cases"]]
        if len(set(ids)) != len(ids):
            raise VectorError(f"{name}: two cases have one id: {sorted({i for i in ids if ids.count(i) > 1})[:3]}")
        data = render(document)
        contents[name] = data
        entries[name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), "cases": len(ids)}
    index: Document = {
        "schema": f"mxspec-vectors/{VERSION}/index",
        "licence": "CC0-1.0",
        "digest": total_digest(entries),
        "cases": sum(e["cases"] for e in entries.values()),
        "files": entries,
    }
    contents["index.json"] = (json.dumps(index, indent=1) + "\n").encode("ascii")
    return contents


def collect_ids(contents: dict[str, bytes]) -> set[str]:
    """`file id` of every case; of a damaged file, of those cases whose id can still be read."""
    return {
        f"{name} {found.decode('ascii')}"
        for name, data in contents.items()
        if "/" in name
        for found in re.findall(rb'^\{"id":"([!#-~]+)"', data, re.MULTILINE)
    }


def read_contents(root: Path) -> dict[str, bytes]:
    """The bytes of every vector file of a built tree, damaged or not; empty where there is no tree."""
    found = (p for operation in OPERATIONS for p in sorted((root / operation).glob("*.json")))
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in found}


def read_tombstones(root: Path) -> set[str]:
    """Ids that were removed on purpose, as `file id`: by the list beside a tree and by this package's own."""
    paths = {root.parent / "tombstones.json", vectors_root().parent / "tombstones.json"}
    lists = [json.loads(p.read_text("ascii"))["removed"] for p in paths if p.exists()]
    return {f"{t['file']} {t['id']}" for removed in lists for t in removed}


def build(root: Path | None = None, progress: Progress = lambda _: None) -> Document:
    """Build all vectors into a folder (by default the package's own), replacing it as a whole; returns the index.

    Raises VectorError when an id that exists would disappear without standing in tombstones.json: v1 only grows.
    """
    target = root or vectors_root()
    check_replaceable(target)
    before = read_contents(target)
    contents = build_all(progress)
    lost = collect_ids(before) - collect_ids(contents) - read_tombstones(target)
    if lost:
        raise VectorError(
            f"{len(lost)} ids would disappear, {sorted(lost)[0]!r} among them; v1 only grows: "
            "keep the cases, or list each removed id with its reason in tombstones.json"
        )
    write_tree(target, contents.items())
    index: Document = json.loads(contents["index.json"])
    return index


__all__ = ["build", "build_all", "build_document", "list_files", "tensor_scale_entry"]
