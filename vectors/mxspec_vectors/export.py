"""Flat exports of the vectors: .npz, a C header, or $readmemh files for hardware benches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mxspec.formats import BlockFormat, get_block
from mxspec.profiles import Kind, find_profile
from mxspec_vectors.cases import Answer, Codes, QuantizeCase, load_quantize_cases
from mxspec_vectors.files import vector_digest, write_files
from mxspec_vectors.topics import Level, topic_level

KINDS = ("npz", "c", "readmemh")


def quantize_tables(fmt: str, profile: str) -> dict[str, Any]:
    """The one-block quantize cases of a format with a profile's canonical answers, as arrays.

    Returns ids (list), x (uint32 [n, k]), tensor_amax (uint32 [n], all ones where there is none), scale (uint8 [n]),
    codes (uint8 [n, k]). Raises ValueError for a profile that the file does not know.
    """
    rows = _list_rows(fmt, profile)
    answers = [c.answers[profile][0] for c in rows]
    return {
        "ids": [c.id for c in rows],
        "x": np.concatenate([c.x for c in rows]).view(np.uint32),
        "tensor_amax": np.array([0xFFFFFFFF if c.tensor is None else c.tensor.amax for c in rows], np.uint32),
        "scale": np.concatenate([a.scale for a in answers]),
        "codes": np.stack([a.codes for a in answers]),
    }


def _list_rows(fmt: str, profile: str) -> list[QuantizeCase]:
    cases, k = load_quantize_cases(fmt), get_block(fmt).k
    known = dict.fromkeys(name for case in cases for name in case.answers)
    if profile not in known:
        raise ValueError(f"{fmt} has no profile {profile!r}; known are {', '.join(known)}")
    return [c for c in cases if c.is_row and c.x.shape == (1, k) and profile in c.answers]


#: (a scale byte above its codes, lane 0 lowest, 8 bits a lane; the bits of it that count).
Pattern = tuple[int, int]
#: Matches everything.
ANYTHING: Pattern = (0, 0)


def list_patterns(answer: Answer, fmt: BlockFormat, *, signs: bool) -> Iterator[Pattern]:
    """A legal answer as bit patterns, of which a block has to match one.

    signs: whether the sign of zero counts. A NaN lane counts by the bits that all NaN codes have in common: of e5m2 these are those of
    infinity, too.
    """
    element = fmt.element
    codes, mask, lanes = answer.codes.copy(), answer.mask.copy(), list(answer.nan_lanes)
    if lanes:
        codes[lanes] = mask[lanes] = np.bitwise_and.reduce([c for c in range(element.code_count) if element.is_nan(c)])
    if not signs and element.has_minus_zero:
        mask[codes & (element.sign_bit - 1) == 0] &= 0xFF ^ element.sign_bit
    for scale, counting in list_ranges(int(answer.scale[0]), int(answer.scale_max[0])):
        yield _join(codes, scale), _join(mask, counting)


def _join(codes: Codes, scale: int) -> int:
    return int.from_bytes(bytes([*codes.tolist(), scale]), "little")


def list_ranges(low: int, high: int) -> Iterator[Pattern]:
    """The bytes from low to high as (value, bits that count)."""
    while low <= high:
        size = low & -low or 0x100
        while low + size - 1 > high:
            size //= 2
        yield low, 0x100 - size
        low += size


def write_answers(rows: Iterable[tuple[Iterable[Pattern], Iterable[Pattern]]], k: int, about: Sequence[str] = ()) -> str:
    """Text for `$readmemh`: for each block the patterns of right answers, and those under which OCP leaves the answer open."""
    width = 8 * k + 8
    head = (
        *about,
        f"{2 * width + 24} bits: kind [{2 * width + 23}:{2 * width + 16}], block [{2 * width + 15}:{2 * width}], bits that count [{2 * width - 1}:{width}], "
        f"scale [{width - 1}:{8 * k}], code of lane i [8i+7:8i]",
        "block: its number in the file of inputs, from 0. A block is right if a line of it of kind 00 agrees in the bits that count; of kind 01: OCP leaves it open",
    )
    lines = [f"// {line}" for line in head]
    for number, kinds in enumerate(rows):
        for kind, patterns in enumerate(kinds):
            lines += [f"{kind:02x}{number:04x}{mask:0{width // 4}x}{bits & mask:0{width // 4}x}" for bits, mask in dict.fromkeys(patterns)]
    return "\n".join(lines) + "\n"


def _list_legal(case: QuantizeCase, profile: str, fmt: BlockFormat) -> tuple[list[Pattern], list[Pattern]]:
    described = find_profile(profile).kind is not Kind.NORMATIVE
    signs = described or case.topic in ("zero-sign", "zero-block")
    is_open = topic_level(case.topic, "quantize", fmt.name, described=described) is Level.OPEN
    return [p for a in case.answers[profile] for p in list_patterns(a, fmt, signs=signs)], [ANYTHING] * is_open


def _c_array(name: str, values: Any, c_type: str, digits: int) -> str:
    rows = [",".join(f"0x{int(v):0{digits}x}" for v in row) for row in values.reshape(len(values), -1)]
    body = ",\n".join(f"{{{row}}}" for row in rows) if values.ndim == 2 else ",\n".join(rows)
    dims = "".join(f"[{n}]" for n in values.shape)
    return f"static const {c_type} {name}{dims} = {{\n{body}\n}};\n"


def export(out: Path, *, kind: str, fmt: str, profile: str) -> list[Path]:
    """Write one format's quantize vectors under one profile; returns the files written.

    kind: `npz`; `c` (a header with plain arrays); `readmemh` ($readmemh text: x, a case to a line, the tensor's maximum where a case has
    one, and all legal answers with the bits that count).
    """
    if kind not in KINDS:
        raise ValueError(f"kind = {kind!r}; allowed are {', '.join(KINDS)}")
    tables = quantize_tables(fmt, profile)
    stem = f"{fmt}-{profile.replace('/', '-')}"
    about = f"mxspec vectors v1, digest {vector_digest()}, quantize {fmt}, profile {profile}; CC0-1.0"
    if kind == "npz":
        import io

        buffer = io.BytesIO()
        np.savez_compressed(buffer, **{**tables, "ids": np.array(tables["ids"]), "about": np.array(about)})
        files = {f"{stem}.npz": buffer.getvalue()}
    elif kind == "c":
        prefix = stem.replace("-", "_").replace(".", "_")
        text = f"/* {about} */\n#include <stdint.h>\n#define {prefix.upper()}_CASES {len(tables['ids'])}\n"
        for key, c_type, digits in (("x", "uint32_t", 8), ("tensor_amax", "uint32_t", 8), ("scale", "uint8_t", 2), ("codes", "uint8_t", 2)):
            text += _c_array(f"{prefix}_{key}", tables[key], c_type, digits)
        names = ",".join(f'"{i}"' for i in tables["ids"])
        text += f"static const char *const {prefix}_ids[] = {{{names}}};\n"
        files = {f"{stem}.h": text.encode("ascii")}
    else:
        files = {}
        block = get_block(fmt)
        for key, digits in (("x", 8), ("tensor_amax", 8))[: 1 + block.has_tensor_scale]:
            rows = tables[key].reshape(len(tables["ids"]), -1)
            lines = [
                f"// {about}: {key}",
                f"// {32 * rows.shape[1]} bits: float32 of lane i [32i+31:32i]"
                if key == "x"
                else "// 32 bits: float32; ffffffff where there is none",
            ]
            lines += ["".join(f"{int(v):0{digits}x}" for v in row[::-1]) for row in rows]
            files[f"{stem}-{key}.mem"] = ("\n".join(lines) + "\n").encode("ascii")
        legal = [_list_legal(case, profile, block) for case in _list_rows(fmt, profile)]
        files[f"{stem}-answers.mem"] = write_answers(legal, block.k, [f"{about}: answers"]).encode("ascii")
    write_files({out / name: data for name, data in files.items()})
    return [out / name for name in files]


__all__ = ["ANYTHING", "KINDS", "Pattern", "export", "list_patterns", "list_ranges", "quantize_tables", "write_answers"]
