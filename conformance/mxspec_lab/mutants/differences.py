"""Whether a change of the model's source changes any answer: both models, on questions drawn where answers change.

The vectors' verdict on a change needs a second witness: a change that they let live is equivalent, or they have a gap.
The questions here are not the vectors': they are drawn like those of `mxspec fuzz`, for every profile, and take in calls
that targets are not asked for. What differs on none of them is called equivalent as measured, no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

import numpy as np

import mxspec
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec.rounding import Overflow, Rounding
from mxspec_conformance.counterexample.sample_space import SampleSpace
from mxspec_conformance.fuzzing.blocks.draw import draw_blocks, draw_special
from mxspec_vectors.points import TENSOR_AMAXES

#: Blocks for each profile, and those with NaN, infinities or nothing but zeros among them.
BLOCKS, SPECIALS = 1536, 192
#: Tensor maxima of the two-level forms.
_AMAXES = ("odd", "third", "tiny", "huge")

#: A question asks a model, given as its top module, and returns arrays.
Ask = Callable[[Any], Sequence[Any]]


@dataclass(slots=True)
class Question:
    """Something that both models are asked."""

    name: str
    ask: Ask
    #: The block format, profile and input dtype that are asked about, if it is one profile's answer to blocks.
    about: tuple[str, str, str] | None = None
    #: The unchanged model's answer.
    answer: list[bytes] = field(default_factory=list)
    #: Numbers in it.
    count: int = 0


def _answer(question: Question, model: Any) -> list[bytes]:
    """Bits; of what a model refuses, the kind of error."""
    try:
        with np.errstate(all="ignore"):
            return [np.ascontiguousarray(v).tobytes() for v in question.ask(model)]
    except Exception as error:
        return [type(error).__name__.encode("ascii")]


def _quantize(fmt: str, profile: str, x: Any, native: tuple[str, int] | None, **options: Any) -> Ask:
    def ask(model: Any) -> Sequence[Any]:
        scale = None if native is None else model.TensorScale(*native)
        t = model.quantize(x, fmt, profile=profile, tensor_scale=scale, **options)
        return t.codes, t.scales

    return ask


def _dequantize(fmt: str, profile: str, codes: Any, scales: Any, native: tuple[str, int] | None) -> Ask:
    def ask(model: Any) -> Sequence[Any]:
        scale = None if native is None else model.TensorScale(*native)
        return (model.dequantize(codes, scales, fmt, profile=profile, tensor_scale=scale),)

    return ask


def _every_code(block: BlockFormat, repeats: int) -> tuple[Any, Any]:
    """Codes [n, k] and scales [n, 1]: every code under every scale byte."""
    count = max(block.element.code_count, block.k)
    codes = np.resize(np.arange(block.element.code_count, dtype=np.uint8), count).reshape(-1, block.k)
    scales = np.repeat(np.arange(block.scale.code_count, dtype=np.uint8), len(codes))
    rows = np.tile(codes, (block.scale.code_count, 1))
    return np.tile(rows, (repeats, 1)), np.tile(scales, repeats)[:, None]


def _native(profile: Profile, space: SampleSpace) -> tuple[str, int] | None:
    assert profile is space.profile
    return None if space.native is None else (space.native.kind.value, space.native.bits)


def _profile_questions(block: BlockFormat, profile: Profile, rng: np.random.Generator) -> Iterator[Question]:
    tensors: list[int | None] = [] if profile.one_level is None else [None]
    tensors += [TENSOR_AMAXES[name] for name in _AMAXES] if profile.two_level is not None else []
    for number, tensor in enumerate(tensors):
        dtypes = profile.dtypes if number == 0 else profile.dtypes[:1]
        for dtype in dtypes:
            space = SampleSpace(block, profile, tensor, dtype)
            if space.exponents[0] > space.exponents[1]:  # no number of the dtype is so small
                continue
            native = _native(profile, space)
            n = BLOCKS if len(tensors) == 1 else BLOCKS // 2
            x = np.concatenate([draw_blocks(space, n, rng), draw_special(space, SPECIALS, rng)])
            name = f"{block.name} {profile.id} {dtype}" + ("" if tensor is None else f" {tensor:08x}")
            ask = _quantize(block.name, profile.id, space.as_input(x), native)
            yield Question(f"quantize/{name}", ask, (block.name, profile.id, dtype))
        codes, scales = _every_code(block, 1)
        yield Question(f"dequantize/{name}", _dequantize(block.name, profile.id, codes, scales, native))


def _shape_questions(rng: np.random.Generator) -> Iterator[Question]:
    for name, block in mxspec.BLOCKS.items():
        profile = mxspec.list_profiles(name)[0].id
        k = block.k
        x = (rng.standard_normal((2 * k + 5, 3, k + 7)) * 2.0 ** rng.integers(-20, 20, (2 * k + 5, 1, 1))).astype("f4")
        for axis in (0, 1, 2, -1, -3):
            yield Question(f"quantize/{name} axis {axis}", _quantize(name, profile, x, None, axis=axis, pad=True))
        if len(block.shapes) > 1:
            y = x[: 2 * k, 0, :k]
            for axis in (0, 1):
                options = {"axis": axis, "block": block.shapes[1], "pad": True}
                yield Question(f"quantize/{name} tiles {axis}", _quantize(name, profile, y, None, **options))
        large = np.tile(x.reshape(-1)[: 32 * 32 * (x.size // 1024)], 40).reshape(-1, 32 * 4)
        yield Question(f"quantize/{name} large", _quantize(name, profile, large, None))
        codes, scales = _every_code(block, 20 if block.element.bits == 4 else 5)
        yield Question(f"dequantize/{name} large", _dequantize(name, profile, codes, scales, None))


def _decode(element: str, count: int, model: Any) -> Sequence[Any]:
    return (model.decode(np.arange(count, dtype=np.uint8), element),)


def _tensor_scales(tensors: Sequence[Any], profile: str, model: Any) -> Sequence[Any]:
    return [np.uint32(model.tensor_scale(x, "nvfp4", profile).bits) for x in tensors]


def _scalar_questions(rng: np.random.Generator) -> Iterator[Question]:
    index = np.arange(1 << 17, dtype=np.uint32)
    near = np.concatenate([index << 15, (index << 15) + 1, (index << 15) - 1])
    x = near.view(np.float32)
    words = rng.integers(0, 1 << 32, x.size, dtype=np.uint32)

    def encode(element: str, rounding: str, overflow: str, **options: Any) -> Ask:
        return lambda model: (model.encode(x, element, rounding=rounding, overflow=overflow, sign="ignore", **options),)

    for element in (*mxspec.ELEMENTS, *mxspec.SCALES):
        fmt = (mxspec.ELEMENTS | mxspec.SCALES)[element]
        yield Question(f"decode/{element}", partial(_decode, element, fmt.code_count))
        for overflow in Overflow:
            for rounding in Rounding:
                options = {"random_bits": words} if rounding is Rounding.SR else {}
                name = f"encode/{element} {rounding.value} {overflow.value}"
                yield Question(name, encode(element, rounding.value, overflow.value, **options))
    small = np.concatenate([x[(np.abs(x) < 8)], rng.uniform(-7, 7, 1 << 15).astype(np.float32)])
    random = rng.integers(0, 256, small.size, dtype=np.uint8)

    def te(model: Any) -> Sequence[Any]:
        stochastic = import_module(f"{model.__name__}.stochastic")
        return (stochastic.encode_te_stochastic(small, random),)

    yield Question("stochastic/e2m1 te", te)


def _tensor_questions(rng: np.random.Generator) -> Iterator[Question]:
    tensors = [np.array([a], np.uint32).view(np.float32) for a in TENSOR_AMAXES.values()]
    tensors += [rng.integers(0, 0x7F800000, 3, dtype=np.uint32).view(np.float32) for _ in range(40)]
    special = ((np.nan, 1, -3), (1, np.nan, np.nan), (-np.inf, 1, np.nan))
    tensors += [np.array(values, np.float32) for values in special]
    for profile in mxspec.list_profiles("nvfp4"):
        if profile.tensor is not None:
            yield Question(f"tensor_scale/{profile.id}", partial(_tensor_scales, tensors, profile.id))


def list_questions(seed: int) -> Iterator[Question]:
    """The questions, without answers."""
    rng = np.random.Generator(np.random.PCG64(seed))
    yield from _scalar_questions(rng)
    yield from _tensor_questions(rng)
    yield from _shape_questions(rng)
    for name, block in mxspec.BLOCKS.items():
        for profile in mxspec.list_profiles(name):
            yield from _profile_questions(block, profile, rng)


@lru_cache(maxsize=1)
def prepare_questions(seed: int) -> list[Question]:
    """The questions with the unchanged model's answers."""
    questions = []
    for question in list_questions(seed):
        question.answer = _answer(question, mxspec)
        question.count = sum(map(len, question.answer))
        questions.append(question)
    return questions


def find_differences(model: Any, questions: Sequence[Question], limit: int = 6) -> list[Question]:
    """The first questions that another model answers otherwise, of each profile one."""
    found: list[Question] = []
    for question in questions:
        if question.about is not None and any(q.about and q.about[:2] == question.about[:2] for q in found):
            continue
        if _answer(question, model) != question.answer:
            found.append(question)
            if len(found) == limit:
                break
    return found
