"""What all vector files are written with: hex of bits, tensor scales in their three kinds, answers grouped by profile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mxspec.acceptance import LegalRow
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec.tensorscale import TensorScale
from mxspec_vectors.document import VERSION, Document, canonical_json
from mxspec_vectors.recipes import binade_bits
from mxspec_vectors.tensor_scales import TensorScales
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
    """The tensor scale of a tensor maximum (float32 bits) in its three kinds, as it stands in files."""
    return TensorScales.from_amax(amax).as_dict()


def native_tensor_scale(profile: Profile, entry: Mapping[str, str]) -> TensorScale:
    """The tensor scale of a case as the profile takes it: the entry's bits of the profile's native kind.

    Raises ValueError for a profile without a tensor scale.
    """
    return TensorScales.from_dict(entry).native(profile)


def group_answers(answers: Sequence[tuple[str, Any]], key: str, by: str = "profiles") -> list[dict[str, Any]]:
    """[(name, answer)] -> one entry for each distinct answer, with the names that give it under the key `by`."""
    grouped: dict[str, tuple[list[str], Any]] = {}
    for name, answer in answers:
        grouped.setdefault(canonical_json(answer), ([], answer))[0].append(name)
    return [{by: names, key: answer} for names, answer in grouped.values()]


def code_digits(fmt: BlockFormat) -> int:
    """Hex digits of one element code in quantize and dequantize files: one for four bits, else two."""
    return 1 if fmt.element.bits <= 4 else 2


def scale_digits(fmt: BlockFormat) -> int:
    """Hex digits of one scale code in quantize and dequantize files: two, or eight of a float32."""
    return fmt.scale.storage_bits // 4


def row_entry(row: LegalRow, fmt: BlockFormat) -> dict[str, Any]:
    """A legal answer for a block, as it stands in a case."""
    entry: dict[str, Any] = {"scale": hex_words([row.scale], scale_digits(fmt))}
    if row.scale_max != row.scale:
        entry["scale_max"] = hex_words([row.scale_max], scale_digits(fmt))
    entry["codes"] = hex_words(row.codes, code_digits(fmt))
    if any(m != 0xFF for m in row.mask):
        used = fmt.element.code_count - 1
        entry["mask"] = hex_words((m & used for m in row.mask), code_digits(fmt))
    if row.nan_lanes:
        entry["nan_lanes"] = list(row.nan_lanes)
    return entry


def make_header(operation: str, fmt: str, profiles: Sequence[str] | None, flags: Iterable[str]) -> Document:
    """What a vector file begins with; its flags are those named, with their notes."""
    document: Document = {"schema": f"mxspec-vectors/{VERSION}/{operation}", "operation": operation, "format": fmt, "licence": "CC0-1.0"}
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
