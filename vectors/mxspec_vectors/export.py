"""Flat exports of the vectors: .npz, a C header, or $readmemh files for hardware benches."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.acceptance import low_end_rows, zero_row
from mxspec.formats import BlockFormat, get_block
from mxspec.profiles import Kind, find_profile
from mxspec_vectors.cases import Answer, QuantizeCase, load_quantize_cases
from mxspec_vectors.files import vector_digest, write_files
from mxspec_vectors.topics import TOPICS, Level, topic_level, topic_numbers

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
    yield from _list_row(codes, mask, int(answer.scale[0]), int(answer.scale_max[0]))


def _list_row(codes: npt.NDArray[Any], mask: npt.NDArray[Any], low: int, high: int) -> Iterator[Pattern]:
    """One answer under any scale byte from low to high."""
    for scale, counting in list_ranges(low, high):
        yield _join(codes, scale), _join(mask, counting)


def list_legal(case: QuantizeCase, profile: str, fmt: BlockFormat) -> tuple[list[Pattern], list[Pattern]]:
    """The patterns of right answers to a block, and those under which OCP leaves the answer open: anything for a NaN that the element has no
    code for, and for infinities; the sign of zero; `low_end_rows`; zeros of NVFP4 under any scale."""
    rules = find_profile(profile)
    described, answers = rules.kind is not Kind.NORMATIVE, case.answers[profile]
    signs = described or case.topic in ("zero-sign", "zero-block")
    right = [p for a in answers for p in list_patterns(a, fmt, signs=signs)]
    if topic_level(case.topic, "quantize", fmt.name, described=described) is Level.OPEN:
        return right, [p for a in answers for p in list_patterns(a, fmt, signs=False)] if case.topic == "zero-sign" else [ANYTHING]
    rows = low_end_rows(case.x.reshape(-1), fmt, rules, int(answers[0].scale[0]))
    if case.topic == "zero-block" and fmt.has_tensor_scale and not described:
        rows = (zero_row(fmt, 0x7E),)
    return right, [p for row in rows for p in _list_row(np.array(row.codes), np.array(row.mask), row.scale, row.scale_max)]


def _join(codes: npt.NDArray[Any], scale: int) -> int:
    return int.from_bytes(bytes([*codes.tolist(), scale]), "little")


def list_ranges(low: int, high: int) -> Iterator[Pattern]:
    """The bytes from low to high as (value, bits that count)."""
    while low <= high:
        size = low & -low or 0x100
        while low + size - 1 > high:
            size //= 2
        yield low, 0x100 - size
        low += size


@dataclass(frozen=True, slots=True)
class Memory:
    """A file for `$readmemh`: lines of hexadecimal digits, and where the numbers of a line are."""

    lines: tuple[str, ...]
    #: Name -> (lowest bit, bits, how many of it follow each other).
    fields: Mapping[str, tuple[int, int, int]]
    #: Lines of its head.
    about: tuple[str, ...] = ()

    @property
    def bits(self) -> int:
        """Bits of a line."""
        return max(low + bits * count for low, bits, count in self.fields.values())

    def text(self) -> str:
        """The file."""
        places = (
            f"{name} [{low + bits - 1}:{low}]" if count == 1 else f"{name} i [{bits}i+{low + bits - 1}:{bits}i{f'+{low}' if low else ''}]"
            for name, (low, bits, count) in self.fields.items()
        )
        return "\n".join([*(f"// {line}" for line in (*self.about, f"{self.bits} bits: {', '.join(places)}")), *self.lines]) + "\n"


def list_inputs(rows: Iterable[Sequence[int]], notes: Iterable[str] = itertools.repeat(""), about: Sequence[str] = ()) -> Memory:
    """Blocks of float32 words, one to a line, lane 0 in the low bits."""
    k, lines = 0, []
    for row, note in zip(rows, notes, strict=False):
        k = len(row)
        lines.append("".join(f"{int(word):08x}" for word in reversed(row)) + (f" // {note}" if note else ""))
    return Memory(tuple(lines), {"lane": (0, 32, k)}, tuple(about))


def list_answers(rows: Iterable[tuple[Iterable[Pattern], Iterable[Pattern]]], k: int, about: Sequence[str] = ()) -> Memory:
    """For each block the patterns of right answers, and those under which OCP leaves the answer open."""
    width = 8 * k + 8
    head = (
        *about,
        "block: its number in the file of inputs, from 0. mask: bits that count, of scale and codes. A block is right if a line of it of kind 00 agrees "
        "in the bits that count; of kind 01: OCP leaves it open",
    )
    lines = []
    for number, kinds in enumerate(rows):
        for kind, patterns in enumerate(kinds):
            lines += [f"{kind:02x}{number:04x}{mask:0{width // 4}x}{bits & mask:0{width // 4}x}" for bits, mask in dict.fromkeys(patterns)]
    places = ((2 * width + 16, 8, 1), (2 * width, 16, 1), (width, width, 1), (8 * k, 8, 1), (0, 8, k))
    fields = dict(zip(("kind", "block", "mask", "scale", "code"), places, strict=True))
    return Memory(tuple(lines), fields, head)


#: The head of index.vh.
_HEAD = (
    '// Topics have the same numbers in every index; for a second one in a module: `define MXSPEC_NO_TOPICS. +define+MXSPEC_DIR=\\"FOLDER\\": where files are.',
    "`ifndef MXSPEC_FILE", "`ifdef MXSPEC_DIR", '`define MXSPEC_FILE(name) {`MXSPEC_DIR, "/", name}', "`else", "`define MXSPEC_FILE(name) name", "`endif", "`endif",
)  # fmt: skip


def write_index(files: Mapping[str, Memory], topics: Mapping[str, Sequence[str]], about: str) -> dict[str, str]:
    """What a bench has to know of files, as JSON (`index.json`) and as Verilog localparams (`index.vh`).

    topics: file of inputs -> the topic of each of its lines. In JSON these are ranges of lines, first and last; in Verilog a vector with eight
    bits for each line.
    """
    listed = {
        name: {"lines": len(file.lines), "bits": file.bits, "fields": {f: dict(zip(("low", "bits", "count"), at, strict=True)) for f, at in file.fields.items()}}
        for name, file in files.items()
    }  # fmt: skip
    ranges = {name: _list_runs(each) for name, each in topics.items()}
    numbers = topic_numbers()
    known = sorted({t for each in topics.values() for t in each}, key=numbers.__getitem__)
    named = [f"localparam TOPIC_{_constant(topic)} = {numbers[topic]}; // {topic}: {TOPICS[topic]}" for topic in known]
    params: list[tuple[str, str]] = []
    for name, file in files.items():
        stem = _constant(name.rpartition(".")[0])
        params += [(f"{stem}_FILE", f'`MXSPEC_FILE("{name}")'), (f"{stem}_LINES", str(len(file.lines))), (f"{stem}_BITS", str(file.bits))]
        for field, place in file.fields.items():
            places = zip(("LOW", "BITS", "COUNT")[: 2 + (place[2] > 1)], place, strict=False)
            params += [(f"{stem}_{_constant(field)}_{what}", str(at)) for what, at in places]
        if name in topics:
            digits = "".join(f"{numbers[t]:02x}" for t in reversed(topics[name]))
            params.append((f"[{4 * len(digits) - 1}:0] {stem}_TOPICS", f"{4 * len(digits)}'h{digits}"))
    document = {"schema": "mxspec-readmemh/1", "about": about, "files": listed, "topics": ranges}
    use = "Include it in a module. Of each file: FILE, LINES, BITS, fields of a line [LOW +: BITS], the topic of line i: TOPICS[8*i +: 8]."
    header = [f"// {about}", f"// {use}", *_HEAD, "`ifndef MXSPEC_NO_TOPICS", *named, "`endif"]
    return {
        "index.json": json.dumps(document, indent=1) + "\n",
        "index.vh": "\n".join([*header, *(f"localparam {name} = {value};" for name, value in params)]) + "\n",
    }


def _list_runs(topics: Sequence[str]) -> dict[str, list[list[int]]]:
    """Topic -> [first line, last line] of each of its runs."""
    runs: dict[str, list[list[int]]] = {}
    for topic, lines in itertools.groupby(range(len(topics)), topics.__getitem__):
        each = list(lines)
        runs.setdefault(topic, []).append([each[0], each[-1]])
    return runs


def _constant(name: str) -> str:
    return re.sub(r"\W", "_", name).upper()


def _c_array(name: str, values: Any, c_type: str, digits: int) -> str:
    rows = [",".join(f"0x{int(v):0{digits}x}" for v in row) for row in values.reshape(len(values), -1)]
    body = ",\n".join(f"{{{row}}}" for row in rows) if values.ndim == 2 else ",\n".join(rows)
    dims = "".join(f"[{n}]" for n in values.shape)
    return f"static const {c_type} {name}{dims} = {{\n{body}\n}};\n"


def export(out: Path, *, kind: str, fmt: str, profile: str) -> list[Path]:
    """Write one format's quantize vectors under one profile; returns the files written.

    kind: `npz`; `c` (a header with plain arrays); `readmemh` ($readmemh text: x, a case to a line, the tensor's maximum where a case has
    one, all legal answers with the bits that count, and an index of lines and fields).
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
        block, rows = get_block(fmt), _list_rows(fmt, profile)
        memories = {f"{stem}-x.mem": list_inputs(tables["x"].tolist(), tables["ids"], [f"{about}: x, float32 bits"])}
        if block.has_tensor_scale:
            maxima = tuple(f"{word:08x}" for word in tables["tensor_amax"].tolist())
            note = f"{about}: tensor_amax, float32 bits; ffffffff where there is none"
            memories[f"{stem}-tensor_amax.mem"] = Memory(maxima, {"amax": (0, 32, 1)}, (note,))
        legal = [list_legal(case, profile, block) for case in rows]
        memories[f"{stem}-answers.mem"] = list_answers(legal, block.k, [f"{about}: answers"])
        index = write_index(memories, {f"{stem}-x.mem": [case.topic for case in rows]}, about)
        files = {name: memory.text().encode("ascii") for name, memory in memories.items()}
        files |= {f"{stem}-{name}": text.encode("ascii") for name, text in index.items()}
    write_files({out / name: data for name, data in files.items()})
    return [out / name for name in files]


__all__ = [
    "KINDS", "Memory", "Pattern", "export", "list_answers", "list_inputs", "list_legal", "quantize_tables", "write_index",
]  # fmt: skip
