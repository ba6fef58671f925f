"""What all vector files are written with: hex of bits, tensor scales in their three kinds, answers grouped by profile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile, TensorScaleKind
from mxspec.tensorscale import TensorScale, derive_tensor_scale
from mxspec_vectors.files import VERSION, Document, canonical_json
from mxspec_vectors.points import QUIET_NAN, binade_bits
from mxspec_vectors.topics import FLAGS

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


def group_answers(answers: Sequence[tuple[int, Any]], key: str) -> list[dict[str, Any]]:
    """[(profile index, answer)] -> one entry for each distinct answer, with the profiles that give it."""
    grouped: dict[str, tuple[list[int], Any]] = {}
    for index, answer in answers:
        grouped.setdefault(canonical_json(answer), ([], answer))[0].append(index)
    return [{"profiles": indices, key: answer} for indices, answer in grouped.values()]


def code_digits(fmt: BlockFormat) -> int:
    """Hex digits of one element code in quantize and dequantize files: one for four bits, else two."""
    return 1 if fmt.element.bits <= 4 else 2


def make_header(operation: str, fmt: str, profiles: Sequence[str] | None, flags: Iterable[str]) -> Document:
    """What a vector file begins with; its flags are those named, with their notes."""
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


def has_level(profile: Profile, *, two_level: bool) -> bool:
    """Whether the profile has a form with (or without) a tensor scale."""
    return (profile.two_level if two_level else profile.one_level) is not None


def cut_chunks(values: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    """Runs of at most `size` values."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


def list_binades(first: int, end: int) -> list[int]:
    """float32 bits of one number in each binade from 2**first to below 2**end, with changing significands."""
    return [binade_bits((1 << 23, 0xFFFFFF, 0xAAAAAB, 0xC00001)[e % 4], e) for e in range(first, end)]
