"""Drawing groups: to quantize, to dequantize, to prune, to compress and to decompress.

Values lie where rules change their answers: at and adjacent to codes and midpoints, at ends and scales of every size. Whatever is
drawn becomes a document of the vectors' form, with the answers of the model, and is judged as the vectors are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine.formats import AffineFormat, Offset, get_affine
from mxspec.sparsity import KEPT, SparseFormat, get_sparse
from mxspec_conformance.fuzzing.operations.job import OperationJob
from mxspec_conformance.judge.affine.points import ENDS, EXPONENTS, list_points
from mxspec_vectors.affine_cases import read_affine_groups, read_affine_stored
from mxspec_vectors.build_affine import document_groups, document_stored
from mxspec_vectors.build_sparse import document_sparse, list_numbers, list_prune_cases, make_compress_case, make_decompress_case, zeros_of
from mxspec_vectors.cases import SparseFunction, read_sparse_cases
from mxspec_vectors.inputs_affine import GroupInput, StoredGroup

Codes = npt.NDArray[np.uint8]

#: Lanes at the borders of groups, words and vectors of values.
BORDERS = (0, 0, 0, 0, -1, -1, -1, -1, 7, 8, 15, 16, 31, 32, 63, 64)
#: Points of a code or midpoint: itself and the floats on both sides.
POINTS_ADJACENT = 3


@dataclass(frozen=True, slots=True)
class SparseInput:
    """One group: dense codes to prune or to compress, or kept codes and their nibble."""

    codes: tuple[int, ...]
    nibble: int | None = None


Input = GroupInput | StoredGroup | SparseInput


def lanes_of(one: Input) -> tuple[int, ...]:
    """The contents of a group: bits of its values, or codes."""
    return one.bits if isinstance(one, GroupInput) else one.codes


def with_lanes(one: Input, lanes: tuple[int, ...]) -> Input:
    """The group with other values or codes."""
    return replace(one, bits=lanes) if isinstance(one, GroupInput) else replace(one, codes=lanes)


def draw_inputs(job: OperationJob, number: int) -> list[Input]:
    """The groups of one batch: the same for the same seed and number on every machine."""
    draw = job.generator(number)
    if job.function == "quantize_affine":
        fmt = get_affine(job.format_name)
        return [_draw_group(fmt, draw, i) for i in range(job.size)]
    if job.function == "dequantize_affine":
        fmt = get_affine(job.format_name)
        return [_draw_stored(fmt, draw, i) for i in range(job.size)]
    return list(_draw_sparse(get_sparse(job.format_name), job.function, job.size, draw))


# Affine integers.


def _bits(x: npt.NDArray[Any], fmt: AffineFormat) -> tuple[int, ...]:
    """Floats in the format's dtype, as bits."""
    with np.errstate(all="ignore"):
        held = np.ascontiguousarray(x.astype(np.float32).astype(fmt.numpy_dtype))
    return tuple(int(b) for b in held.view(f"u{held.itemsize}"))


def _pick(draw: np.random.Generator, options: Sequence[Any]) -> Any:
    return options[int(draw.integers(len(options)))]


def _draw_places(fmt: AffineFormat, draw: np.random.Generator) -> tuple[int, int]:
    """Two lanes for what determines a group's parameters: mostly one is at a border, where loops begin, end and hand over."""
    first, second = (int(place) for place in draw.permutation(fmt.group)[:2])
    if draw.random() < 0.75:
        first = int(_pick(draw, [place for place in BORDERS if -fmt.group <= place < fmt.group])) % fmt.group
        if second == first:
            second = (first + 1) % fmt.group
    return (first, second) if draw.random() < 0.5 else (second, first)


def _draw_group(fmt: AffineFormat, draw: np.random.Generator, number: int) -> GroupInput:
    """One group to quantize; a few have one value, and a few a NaN or an infinity."""
    kind, name = draw.random(), f"drawn-{number}"
    if kind < 0.5:  # values at and adjacent to codes and midpoints between two ends
        points = list_points(fmt, int(draw.integers(len(ENDS))), int(_pick(draw, EXPONENTS)))
        # Half the time the ends stand alone: a group in which others equal them shows nothing of where they are found.
        inner = points[2 + POINTS_ADJACENT : -POINTS_ADJACENT] if draw.random() < 0.5 else points
        lanes = [inner[i] for i in draw.integers(0, len(inner), fmt.group)]
        for place, end in zip(_draw_places(fmt, draw), points[:2], strict=True):
            lanes[place] = end
        return GroupInput(name, "mixture", tuple(lanes))
    reach = 13 if fmt.dtype == "float16" else 110
    factor = 2.0 ** int(draw.integers(-reach, reach + 1)) if draw.random() < 0.3 else 1.0
    if kind < 0.58:
        value = np.full(fmt.group, draw.standard_normal() * factor)
        return GroupInput(name, "constant", _bits(value, fmt), ("constant",))
    center = draw.standard_normal() * _pick(draw, (0, 0, 1, 8))
    x = (draw.standard_normal(fmt.group) + center) * factor
    if kind < 0.66:  # one number far from the others
        x[_draw_places(fmt, draw)[0]] *= 500
    elif kind < 0.74:  # mostly zeros, of both signs
        x = np.where(draw.random(fmt.group) < 0.2, x, np.copysign(0.0, x))
    elif kind < 0.8:
        x = np.abs(x) * float(_pick(draw, (-1, 1)))
    if kind > 0.96:
        x[int(draw.integers(fmt.group))] = np.nan if kind > 0.98 else _pick(draw, (np.inf, -np.inf))
        return GroupInput(name, "nan" if kind > 0.98 else "inf", _bits(x, fmt), ("nan-lost" if kind > 0.98 else "inf-block",))
    bits = _bits(np.clip(x, -6e4, 6e4) if fmt.dtype == "float16" else x, fmt)
    return GroupInput(name, "mixture", bits)


def _draw_stored(fmt: AffineFormat, draw: np.random.Generator, number: int) -> StoredGroup:
    """One stored group: any codes under an ordinary scale, one of any size, or zero, and an offset that nearly cancels them."""
    codes = tuple(int(c) for c in draw.integers(0, fmt.bins + 1, fmt.group))
    kind = draw.random()
    scale = (0.5 + draw.random()) * 2.0 ** int(draw.integers(-10, 4))
    topic = "affine-rounding"
    if kind < 0.2:
        reach = (-24, 12) if fmt.dtype == "float16" else (-120, 110)
        scale, topic = (1 + draw.random()) * 2.0 ** int(draw.integers(*reach)), "affine-extreme"
    elif kind < 0.3:  # powers of two, whose values nothing rounds
        scale, topic = 2.0 ** int(draw.integers(-6, 6)), "affine-code"
    elif kind < 0.33:
        scale, topic = 0.0, "constant"
    if draw.random() < 0.25:
        scale = -scale
    if fmt.offset is Offset.ZERO:
        return StoredGroup(f"drawn-{number}", topic, codes, _bits(np.array([scale]), fmt)[0], int(draw.integers(fmt.bins + 1)))
    bias = -scale * fmt.bins * float(_pick(draw, (0, 1, draw.random(), draw.random(), 1.5 * draw.standard_normal())))
    if topic == "affine-code":
        bias = scale * round(bias / scale)
    limit = float(fmt.scalar.max_value)
    scale_bits, bias_bits = _bits(np.clip([scale, bias], -limit, limit), fmt)
    return StoredGroup(f"drawn-{number}", topic, codes, scale_bits, bias_bits)


# Sparse operands.


def _draw_sparse(fmt: SparseFormat, function: str, count: int, draw: np.random.Generator) -> list[SparseInput]:
    zeros, numbers = zeros_of(fmt), list_numbers(fmt)
    every = np.concatenate([zeros, numbers])
    width = fmt.group // 2 if function == SparseFunction.DECOMPRESS else fmt.group
    codes = every[draw.integers(0, len(every), (count, width))]
    few = every[draw.integers(0, len(every), (count, 3))]  # groups of three codes have equal ones
    codes = np.where(draw.random((count, 1)) < 0.4, np.take_along_axis(few, draw.integers(0, 3, (count, width)), axis=1), codes)
    codes = np.where(draw.random((count, width)) < draw.choice(np.array([0.0, 0.3, 0.7]), (count, 1)), zeros[0], codes)
    if function == SparseFunction.DECOMPRESS:
        nibbles = np.array(list(KEPT))[draw.integers(0, len(KEPT), count)]
        return [SparseInput(tuple(c), int(n)) for c, n in zip(codes.tolist(), nibbles, strict=True)]
    if function == SparseFunction.COMPRESS:
        masks = np.zeros((count, 4, fmt.sparsity.unit), np.bool_)
        chosen = np.array(list(KEPT.values()))[draw.integers(0, len(KEPT), count)]
        np.put_along_axis(masks, np.repeat(chosen[:, :, None], fmt.sparsity.unit, axis=2), values=True, axis=1)
        dropped = zeros[draw.integers(0, len(zeros), codes.shape)] if len(zeros) > 1 else zeros[0]
        blank = np.where(draw.random((count, 1)) < 0.3, dropped, zeros[0])
        codes = np.where(masks.reshape(count, -1), codes, blank)
    return [SparseInput(tuple(c)) for c in codes.tolist()]


# Inputs as documents and cases.


def make_document(job: OperationJob, inputs: Sequence[Any]) -> dict[str, Any]:
    """Groups in the form of a vector file, with the model's answers."""
    if job.function == "quantize_affine":
        return document_groups(get_affine(job.format_name), inputs)
    if job.function == "dequantize_affine":
        return document_stored(get_affine(job.format_name), inputs)
    fmt = get_sparse(job.format_name)
    codes = np.array([i.codes for i in inputs], np.uint8)
    if job.function == SparseFunction.PRUNE:
        cases = [case for case in list_prune_cases(fmt, codes) if case["codes"]]
    elif job.function == SparseFunction.COMPRESS:
        zeros = zeros_of(fmt)
        minus = (codes == zeros[-1]).any(axis=1) if len(zeros) > 1 else np.zeros(len(codes), np.bool_)
        cases = [
            make_compress_case(fmt, topic, ["sparse-place"], codes[where])
            for topic, where in (("negative-zero", minus), ("pattern", ~minus))
            if where.any()
        ]
    else:
        nibbles = np.array([[i.nibble] for i in inputs], np.uint8)
        cases = [make_decompress_case(fmt, "pattern", ["sparse-place"], codes, nibbles)]
    return document_sparse(fmt, cases)


def read_cases(document: Mapping[str, Any]) -> tuple[Any, ...]:
    """The typed cases of a document."""
    if document["operation"] == "quantize_affine":
        return read_affine_groups(document)
    if document["operation"] == "dequantize_affine":
        return read_affine_stored(document)
    return read_sparse_cases(dict(document))


def list_inputs(document: Mapping[str, Any]) -> dict[str, Input]:
    """Each case's or group's label, as the judge calls it, and its input."""
    found: dict[str, Input] = {}
    for case, entry in zip(read_cases(document), document["cases"], strict=True):
        topic = entry["topic"]
        if document["operation"] == "quantize_affine":
            found[case.id] = GroupInput("drawn", topic, tuple(int(b) for b in case.x.view(f"u{case.x.itemsize}")), case.flags)
        elif document["operation"] == "dequantize_affine":
            scale, offset = (int(np.asarray(p).view(f"u{np.asarray(p).itemsize}")) for p in (case.scale, case.offset))
            found[case.id] = StoredGroup("drawn", topic, tuple(case.codes.tolist()), scale, offset, case.flags)
        elif case.function is SparseFunction.DECOMPRESS:
            for i, (kept, nibble) in enumerate(zip(case.kept.tolist(), case.metadata.tolist(), strict=True)):
                found[f"{case.id}[{i}]"] = SparseInput(tuple(kept), nibble)
        else:
            found |= {f"{case.id}[{i}]": SparseInput(tuple(codes)) for i, codes in enumerate(case.codes.tolist())}
    return found
