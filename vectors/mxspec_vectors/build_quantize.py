"""The quantize files: every input under every profile, with the legal answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.acceptance import legal_rows
from mxspec.formats import BlockFormat, get_rows
from mxspec.profiles.schema import Profile
from mxspec.tensorscale import TensorScale
from mxspec_vectors.document import Document, case_id
from mxspec_vectors.entries import (
    code_digits,
    group_answers,
    has_level,
    hex_words,
    make_header,
    native_tensor_scale,
    row_entry,
    scale_digits,
    tensor_scale_entry,
)
from mxspec_vectors.input_case import Input
from mxspec_vectors.inputs import quantize_inputs, quantize_recipes
from mxspec_vectors.profile_order import list_joined


def _quantize_answers(cases: Sequence[Input], fmt: BlockFormat, profile: Profile, entries: dict[int, dict[str, str]]) -> list[Any]:
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
                answers[i] = [row_entry(r, fmt) for r in legal]
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
    two_level = case.tensor_amax is not None
    if not has_level(profile, two_level=two_level):
        return None
    if case.block is not None and profile.steps(with_tensor_scale=two_level).alternative is not None:
        return None  # the choice between two scales is one for a tile, which is not modelled
    scale = None if case.tensor_amax is None else native_tensor_scale(profile, entries[case.tensor_amax])
    result = mxspec.quantize(case.x, fmt, profile=profile, axis=case.axis, pad=case.pad, block=case.block, tensor_scale=scale)
    return [
        {"scale": hex_words(result.scales.reshape(-1), scale_digits(fmt)), "codes": hex_words(result.codes.reshape(-1), code_digits(fmt))}
    ]


def build_quantize(fmt_name: str) -> Document:
    """The quantize file of one block format."""
    fmt = get_rows(fmt_name)
    cases = quantize_inputs(fmt_name)
    profiles = list_joined(fmt)
    entries = {a: tensor_scale_entry(a) for a in {c.tensor_amax for c in cases if c.tensor_amax is not None}}
    columns = [_quantize_answers(cases, fmt, p, entries) for p in profiles]
    document = make_header("quantize", fmt_name, [p.id for p in profiles], (f for c in cases for f in c.flags))
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
        answers = [(p.id, column[i]) for p, column in zip(profiles, columns, strict=True) if column[i] is not None]
        identity = {"operation": "quantize", "format": fmt_name, **question}
        rows.append(
            {
                "id": case_id(case.slug, identity),
                "topic": case.topic,
                "flags": list(case.flags),
                **question,
                "expect": group_answers(answers, "any"),
                **({"recipe": list(case.recipe)} if case.recipe is not None else {}),
            }
        )
    document["recipes"] = quantize_recipes(fmt)
    document["cases"] = rows
    return document
