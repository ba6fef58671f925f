"""Flat exports of the vectors: .npz, a C header, or $readmemh files for hardware benches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mxspec.formats import get_block
from mxspec_vectors.cases import load_quantize_cases
from mxspec_vectors.files import vector_digest, write_files

KINDS = ("npz", "c", "readmemh")


def quantize_tables(fmt: str, profile: str) -> dict[str, Any]:
    """The one-block quantize cases of a format with a profile's canonical answers, as arrays.

    Returns ids (list), x (uint32 [n, k]), tensor_amax (uint32 [n], all ones where there is none), scale (uint8 [n]),
    codes (uint8 [n, k]). Raises ValueError for a profile that the file does not know.
    """
    cases, k = load_quantize_cases(fmt), get_block(fmt).k
    known = dict.fromkeys(name for case in cases for name in case.answers)
    if profile not in known:
        raise ValueError(f"{fmt} has no profile {profile!r}; known are {', '.join(known)}")
    rows = [c for c in cases if c.is_row and c.x.shape == (1, k) and profile in c.answers]
    answers = [c.answers[profile][0] for c in rows]
    return {
        "ids": [c.id for c in rows],
        "x": np.concatenate([c.x for c in rows]).view(np.uint32),
        "tensor_amax": np.array([0xFFFFFFFF if c.tensor is None else c.tensor.amax for c in rows], np.uint32),
        "scale": np.concatenate([a.scale for a in answers]),
        "codes": np.stack([a.codes for a in answers]),
    }


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
