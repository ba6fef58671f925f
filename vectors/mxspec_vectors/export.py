"""Flat exports of the vectors: .npz, a C header, or $readmemh files for hardware benches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mxspec.formats import BLOCKS
from mxspec_vectors.entries import code_digits
from mxspec_vectors.files import Document, read_document, vector_digest, write_files

KINDS = ("npz", "c", "readmemh")


def _words(text: str, digits: int) -> list[int]:
    return [
        0x7FC00000 >> (0 if digits == 8 else 16) if text[i] == "n" else int(text[i : i + digits], 16)
        for i in range(0, len(text), digits)
    ]


def quantize_tables(fmt: str, profile: str) -> dict[str, Any]:
    """The one-block quantize cases of a format with a profile's canonical answers, as arrays.

    Returns ids (list), x (uint32 [n, k]), tensor_amax (uint32 [n], all ones where there is none), scale (uint8 [n]),
    codes (uint8 [n, k]). Raises ValueError for a profile that the file does not know.
    """
    document = read_document("quantize", fmt)
    if profile not in document["profiles"]:
        raise ValueError(f"{fmt} has no profile {profile!r}; known are {', '.join(document['profiles'])}")
    block, digits = BLOCKS[fmt], code_digits(BLOCKS[fmt])
    table: dict[str, list[Any]] = {key: [] for key in ("ids", "x", "tensor_amax", "scale", "codes")}
    for case, row in _answers(document, profile):
        if case["shape"] != [1, block.k] or case.get("axis", -1) != -1 or "pad" in case:
            continue
        table["ids"].append(case["id"])
        table["x"].append(_words(case["x"], 8))
        table["tensor_amax"].append(int(case.get("tensor_scale", {"amax": "ffffffff"})["amax"], 16))
        table["scale"].append(int(row["scale"], 16))
        table["codes"].append(_words(row["codes"], digits))
    return {
        "ids": table["ids"],
        "x": np.array(table["x"], np.uint32),
        "tensor_amax": np.array(table["tensor_amax"], np.uint32),
        "scale": np.array(table["scale"], np.uint8),
        "codes": np.array(table["codes"], np.uint8),
    }


def _answers(document: Document, profile: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    index = document["profiles"].index(profile)
    for case in document["cases"]:
        for entry in case["expect"]:
            if index in entry["profiles"]:
                yield case, entry["any"][0]


def _c_array(name: str, values: Any, c_type: str, digits: int) -> str:
    rows = [",".join(f"0x{int(v):0{digits}x}" for v in row) for row in values.reshape(len(values), -1)]
    body = ",\n".join(f"{{{row}}}" for row in rows) if values.ndim == 2 else ",\n".join(rows)
    dims = "".join(f"[{n}]" for n in values.shape)
    return f"static const {c_type} {name}{dims} = {{\n{body}\n}};\n"


def export(out: Path, *, kind: str, fmt: str, profile: str) -> list[Path]:
    """Write one format's quantize vectors under one profile; returns the files written.

    kind: `npz`; `c` (a header with plain arrays); `readmemh` (x, scale and codes as $readmemh text, a case to a line).
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
        for key, c_type, digits in (
            ("x", "uint32_t", 8),
            ("tensor_amax", "uint32_t", 8),
            ("scale", "uint8_t", 2),
            ("codes", "uint8_t", 2),
        ):
            text += _c_array(f"{prefix}_{key}", tables[key], c_type, digits)
        names = ",".join(f'"{i}"' for i in tables["ids"])
        text += f"static const char *const {prefix}_ids[] = {{{names}}};\n"
        files = {f"{stem}.h": text.encode("ascii")}
    else:
        files = {}
        for key, digits in (("x", 8), ("tensor_amax", 8), ("scale", 2), ("codes", 2)):
            rows = tables[key].reshape(len(tables["ids"]), -1)
            lines = [f"// {about}: {key}, lane 0 rightmost"]
            lines += ["".join(f"{int(v):0{digits}x}" for v in row[::-1]) for row in rows]
            files[f"{stem}-{key}.mem"] = ("\n".join(lines) + "\n").encode("ascii")
    write_files({out / name: data for name, data in files.items()})
    return [out / name for name in files]


__all__ = ["KINDS", "export", "quantize_tables"]
