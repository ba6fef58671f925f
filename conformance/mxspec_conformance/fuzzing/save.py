"""Findings as cases in the vectors' own schema, and back: a file that replays, and that any loader of vectors reads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np

from mxspec.acceptance import legal_rows
from mxspec_conformance.counterexample.sample_space import SampleSpace
from mxspec_conformance.fuzzing import values
from mxspec_conformance.fuzzing.findings import Finding
from mxspec_vectors.compact import expand, pack
from mxspec_vectors.entries import code_digits, hex_floats, hex_words, row_entry
from mxspec_vectors.files import VERSION, Document, case_id, parse, render, write_file
from mxspec_vectors.reading import read_regular
from mxspec_vectors.verify import load_schema

_TOPICS = {"element": "mixture", "special": "nan", "calls": "call-size", "zero-sign": "zero-sign", "value": "code"}


def _flag(note: str) -> dict[str, str]:
    return {"note": note, "source": "mxspec fuzz", "kind": "known-bug", "evidence": "measured"}


_NOTES = {
    "fuzz": "an implementation was seen to answer this otherwise",
    "call-arranged": "the input lies in memory otherwise than row after row",
    "call-reused": "another input lay in the same memory at the call before",
    "call-wide": "several blocks lie in a row",
    "call-axis": "blocks lie along the first axis",
    "call-repeated": "this call of so many, counted from the loading of the implementation",
}


def _describe_flag(name: str) -> dict[str, str]:
    return _flag(next(note for key, note in _NOTES.items() if name.startswith(key)))


def make_documents(findings: Sequence[Finding]) -> dict[str, Document]:
    """One document for each operation, format and profile: file name -> content."""
    grouped: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        operation = "quantize" if finding.blocks is not None else "dequantize"
        grouped.setdefault((operation, finding.job.fmt, finding.job.profile), []).append(finding)
    return {
        f"{operation}-{fmt}{f'-{number}' if number else ''}.json": _make_document(operation, fmt, profile, members)
        for number, ((operation, fmt, profile), members) in enumerate(grouped.items())
    }


def _make_document(operation: str, fmt: str, profile: str, members: Sequence[Finding]) -> Document:
    cases: list[dict[str, Any]] = []
    flags = {"fuzz"}
    for finding in members:
        case = _quantize_case(finding) if operation == "quantize" else _dequantize_case(finding)
        flags.update(case["flags"])
        if all(c["id"] != case["id"] for c in cases):
            cases.append(case)
    document: Document = {
        "schema": f"mxspec-vectors/{VERSION}/{operation}", "operation": operation, "format": fmt,
        "licence": "CC0-1.0", "profiles": [profile], "flags": {n: _describe_flag(n) for n in sorted(flags)},
    }  # fmt: skip
    if operation == "dequantize":
        document["digests"] = []
    document["cases"] = cases
    jsonschema.validate(pack(document), load_schema(operation))
    return document


def _quantize_case(finding: Finding) -> dict[str, Any]:
    space, x = finding.job.space, finding.blocks
    assert x is not None
    scales, codes = space.expect(x)
    if len(x) == 1:
        rows = legal_rows(x[0], space.fmt, space.profile, int(scales[0, 0]), codes[0])
        answers = [row_entry(r, space.fmt) for r in rows]
    else:
        answers = [
            {"scale": hex_words(scales.reshape(-1), 2), "codes": hex_words(codes.reshape(-1), code_digits(space.fmt))}
        ]
    width = finding.pattern.width
    question: dict[str, Any] = {"shape": [len(x) // width, width * space.fmt.k]}
    if space.entry is not None:
        question["tensor_scale"] = space.entry.as_dict()
    question["x"] = hex_words(x.view(np.uint32).reshape(-1).tolist(), 8)
    topic = _TOPICS.get(finding.topic, "scale-tie" if space.fmt.has_tensor_scale else "scale-boundary")
    if finding.topic == "special":
        block = x[finding.place]
        topic = "nan" if np.isnan(block).any() else "inf" if np.isinf(block).any() else "zero-block"
    identity = {"operation": "quantize", "format": space.fmt.name, **question, "flags": finding.pattern.flags}
    return {
        "id": case_id(f"fuzz-{finding.pattern.kind}", identity), "topic": topic, "flags": ["fuzz", *finding.pattern.flags],
        **question, "expect": [{"profiles": [finding.job.profile], "any": answers}],
    }  # fmt: skip


def _dequantize_case(finding: Finding) -> dict[str, Any]:
    assert finding.stored is not None
    space = values.space_of(finding.job)
    codes, scales = finding.stored
    question: dict[str, Any] = {"shape": list(codes.shape), "dtype": "float32"}
    if space.entry is not None:
        question["tensor_scale"] = space.entry.as_dict()
    question |= {
        "scales": hex_words(scales.reshape(-1), 2),
        "codes": hex_words(codes.reshape(-1), code_digits(space.fmt)),
    }
    want = hex_floats(values.expect_values(space, codes, scales))
    identity = {"operation": "dequantize", "format": space.fmt.name, **question}
    return {
        "id": case_id(f"fuzz-{finding.pattern.kind}", identity), "topic": "code", "flags": ["fuzz"], **question,
        "expect": [{"profiles": [finding.job.profile], "values": want}],
    }  # fmt: skip


def save_findings(folder: Path, findings: Sequence[Finding]) -> list[Path]:
    """Write the documents into a folder; those that hold the same bytes already are left."""
    written = []
    for name, document in make_documents(findings).items():
        path = folder / name
        data = render(document)
        if not path.exists() or hashlib.sha256(path.read_bytes()).digest() != hashlib.sha256(data).digest():
            write_file(path, data)
        written.append(path)
    return written


def read_findings(path: Path) -> Document:
    """A file of findings, or any vector file of quantize or dequantize cases.

    Raises ValueError where it is none.
    """
    stored = parse(read_regular(path), str(path))
    operation = stored.get("operation")
    if operation not in ("quantize", "dequantize"):
        raise ValueError(f"{path} holds operation {operation!r}; quantize and dequantize replay")
    error = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(load_schema(operation)).iter_errors(stored)
    )
    if error is not None:
        raise ValueError(f"{path} is no vector file: {error.json_path}: {error.message[:200]}")
    return expand(stored)


def space_of_case(document: Document, case: dict[str, Any]) -> tuple[str, int | None]:
    """The profile and the tensor's largest magnitude of a case."""
    tensor = case.get("tensor_scale")
    profile: str = case["expect"][0]["profiles"][0]
    return profile, None if tensor is None else int(tensor["amax"], 16)


__all__ = ["SampleSpace", "make_documents", "read_findings", "save_findings", "space_of_case"]
