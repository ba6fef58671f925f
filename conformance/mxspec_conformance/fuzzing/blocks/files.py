"""Blocks as cases in the vectors' own schema, and run again: a file that replays, and that any loader of vectors reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.acceptance import legal_rows
from mxspec.formats import get_block
from mxspec_conformance.counterexample.calls import ask_blocks, ask_reused
from mxspec_conformance.counterexample.mismatch import find_wrong, find_wrong_special
from mxspec_conformance.counterexample.sample_space import SampleSpace, get_sample_space
from mxspec_conformance.fuzzing.blocks.findings import BlockFinding
from mxspec_conformance.fuzzing.blocks.values import expect_values, look_at_values
from mxspec_conformance.fuzzing.subject import Replayed, Restart
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import read_scale_codes
from mxspec_vectors.compact import expand, pack
from mxspec_vectors.entries import code_digits, hex_floats, hex_words, row_entry, scale_digits
from mxspec_vectors.files import VERSION, Document, case_id, parse, render
from mxspec_vectors.reading import read_regular
from mxspec_vectors.verify import find_violation

#: Calls that a case may request before the one that is judged.
MAX_REPEATED = 100_000
_TOPICS = {"element": "mixture", "special": "nan", "calls": "call-size", "zero-sign": "zero-sign", "value": "code"}
_NOTES = {
    "fuzz": "an implementation was seen to answer this otherwise",
    "call-arranged": "the input lies in memory otherwise than row after row",
    "call-reused": "another input lay in the same memory at the call before",
    "call-wide": "several blocks lie in a row",
    "call-axis": "blocks lie along the first axis",
    "call-repeated": "this call of so many, counted from the loading of the implementation",
}


def make_documents(findings: Sequence[BlockFinding]) -> dict[str, Document]:
    """One document for each operation, format and profile: file name -> content."""
    grouped: dict[tuple[str, str, str], list[BlockFinding]] = {}
    for finding in findings:
        operation = "quantize" if finding.blocks is not None else "dequantize"
        grouped.setdefault((operation, finding.job.fmt, finding.job.profile), []).append(finding)
    documents: dict[str, Document] = {}
    for number, ((operation, fmt, profile), members) in enumerate(grouped.items()):
        cases: dict[str, dict[str, Any]] = {}
        for finding in members:
            case = _quantize_case(finding) if operation == "quantize" else _dequantize_case(finding)
            cases.setdefault(case["id"], case)
        flags = sorted({"fuzz", *(flag for case in cases.values() for flag in case["flags"])})
        document: Document = {
            "schema": f"mxspec-vectors/{VERSION}/{operation}", "operation": operation, "format": fmt,
            "licence": "CC0-1.0", "profiles": [profile], "flags": {name: _describe_flag(name) for name in flags},
            **({"digests": []} if operation == "dequantize" else {}), "cases": list(cases.values()),
        }  # fmt: skip
        violation = find_violation(operation, pack(document))
        assert violation is None, violation
        documents[f"{operation}-{fmt}{f'-{number}' if number else ''}.json"] = document
    return documents


def make_files(findings: Sequence[BlockFinding]) -> Mapping[str, bytes]:
    """The documents as files."""
    return {name: render(document) for name, document in make_documents(findings).items()}


def _describe_flag(name: str) -> dict[str, str]:
    note = next(note for key, note in _NOTES.items() if name.startswith(key))
    return {"note": note, "source": "mxspec fuzz", "kind": "known-bug", "evidence": "measured"}


def _quantize_case(finding: BlockFinding) -> dict[str, Any]:
    space, x, pattern = finding.job.space, finding.blocks, finding.pattern
    assert x is not None
    scales, codes = space.expect(x)
    if len(x) == 1:
        rows = legal_rows(x[0], space.fmt, space.profile, int(scales[0, 0]), codes[0])
        answers = [row_entry(r, space.fmt) for r in rows]
    else:
        answers = [dict(zip(("scale", "codes"), _write_stored(space, scales, codes), strict=True))]
    topic = _TOPICS.get(finding.topic, "scale-tie" if space.fmt.has_tensor_scale else "scale-boundary")
    if finding.topic == "special":
        block = x[finding.place]
        topic = "nan" if np.isnan(block).any() else "inf" if np.isinf(block).any() else "zero-block"
    shape = [len(x) // pattern.width, pattern.width * space.fmt.k]
    question = {"shape": shape, **_tensor_of(space), "x": hex_words(x.view(np.uint32).reshape(-1).tolist(), 8)}
    identity = {"operation": "quantize", "format": space.fmt.name, **question, "flags": pattern.flags}
    return {
        "id": case_id(f"fuzz-{pattern.kind}", identity), "topic": topic, "flags": ["fuzz", *pattern.flags], **question,
        "expect": [{"profiles": [finding.job.profile], "any": answers}],
    }  # fmt: skip


def _dequantize_case(finding: BlockFinding) -> dict[str, Any]:
    assert finding.stored is not None
    space, (codes, scales) = finding.job.space, finding.stored
    stored = dict(zip(("scales", "codes"), _write_stored(space, scales, codes), strict=True))
    question = {"shape": list(codes.shape), "dtype": "float32", **_tensor_of(space), **stored}
    identity = {"operation": "dequantize", "format": space.fmt.name, **question}
    return {
        "id": case_id(f"fuzz-{finding.pattern.kind}", identity), "topic": "code", "flags": ["fuzz"], **question,
        "expect": [{"profiles": [finding.job.profile], "values": hex_floats(expect_values(space, codes, scales))}],
    }  # fmt: skip


def _tensor_of(space: SampleSpace) -> dict[str, Any]:
    return {} if space.entry is None else {"tensor_scale": space.entry.as_dict()}


def _write_stored(space: SampleSpace, scales: Any, codes: Any) -> tuple[str, str]:
    return hex_words(scales.reshape(-1), scale_digits(space.fmt)), hex_words(codes.reshape(-1), code_digits(space.fmt))


def read_findings(path: Path) -> Document:
    """A file of findings, or any vector file of quantize or dequantize cases.

    Raises ValueError where it is none.
    """
    stored = parse(read_regular(path), str(path))
    operation = stored.get("operation")
    if operation not in ("quantize", "dequantize"):
        raise ValueError(f"{path} holds operation {operation!r}; quantize and dequantize replay")
    violation = find_violation(operation, stored)
    if violation is not None:
        raise ValueError(f"{path} is no vector file: {str(violation)[:200]}")
    return expand(stored)


def replay_cases(path: Path, _content: Any, session: TargetSession, restart: Restart | None) -> list[Replayed]:
    """Every case of a file.

    Raises ValueError where the file is none of cases.
    """
    document = read_findings(path)
    ask = _replay_quantize if document["operation"] == "quantize" else _replay_dequantize
    results = []
    for case in document["cases"]:
        try:
            current = _is_current(document, case)
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise ValueError(f"{path}: case {case.get('id')} cannot be run: {error}") from None
        if not current:
            results.append(Replayed(case["id"], "outdated", "the file expects something else than the profile gives now"))
            continue
        try:
            wrong = ask(document, case, session, restart)
        except CallError as failure:
            results.append(Replayed(case["id"], failure.kind, str(failure)))
            continue
        how = ", ".join(f for f in case["flags"] if f.startswith("call-"))
        results.append(Replayed(case["id"], "differs" if wrong else "right", ", ".join(filter(None, [wrong, how]))))
    return results


def _space_of(document: Document, case: dict[str, Any], dtype: str = "float32") -> SampleSpace:
    tensor = case.get("tensor_scale")
    amax = None if tensor is None else int(tensor["amax"], 16)
    return get_sample_space(document["format"], case["expect"][0]["profiles"][0], amax, dtype)


def _is_current(document: Document, case: dict[str, Any]) -> bool:
    """Whether the first answer that the file expects is the profile's."""
    space = _space_of(document, case)
    if document["operation"] == "dequantize":
        return bool(case["expect"][0]["values"] == hex_floats(expect_values(space, *_read_stored(document, case))))
    first = case["expect"][0]["any"][0]
    return bool((first["scale"], first["codes"]) == _write_stored(space, *space.expect(_read_blocks(document, case))))


def _read_blocks(document: Document, case: dict[str, Any]) -> npt.NDArray[np.float32]:
    bits = np.frombuffer(bytes.fromhex(case["x"]), ">u4").astype(np.uint32)
    return bits.view(np.float32).reshape(-1, get_block(document["format"]).k)


def _read_stored(document: Document, case: dict[str, Any]) -> tuple[Any, Any]:
    digits, text = code_digits(get_block(document["format"])), case["codes"]
    codes = np.array([int(text[i : i + digits], 16) for i in range(0, len(text), digits)], np.uint8)
    scales = read_scale_codes(case["scales"], get_block(document["format"]))
    return codes.reshape(case["shape"]), scales.reshape(case["shape"][0], -1)


def _flag_of(case: dict[str, Any], start: str) -> str | None:
    return next((f.removeprefix(start) for f in case["flags"] if f.startswith(start)), None)


def _replay_quantize(document: Document, case: dict[str, Any], session: TargetSession, restart: Restart | None) -> str:
    dtypes = session.capabilities.dtypes
    space = _space_of(document, case, "float32" if "float32" in dtypes else dtypes[0])
    width = case["shape"][1] // space.fmt.k
    x = _read_blocks(document, case)
    nth, arrangement = _flag_of(case, "call-repeated-"), _flag_of(case, "call-arranged-")
    if nth is not None and not (nth.isdecimal() and 1 <= int(nth[:9]) <= MAX_REPEATED):
        raise ValueError(f"case {case['id']} asks for {nth[:40]} calls; allowed are 1 to {MAX_REPEATED}")
    if nth is not None and restart is not None:
        fresh = restart()
        try:
            for _ in range(int(nth)):
                got = ask_blocks(fresh, space, x, width=width)
        finally:
            fresh.close()
    elif "call-reused" in case["flags"]:
        got = ask_reused(session, space, x)
    else:
        axis = 0 if "call-axis-0" in case["flags"] else -1
        got = ask_blocks(session, space, x, width=width, axis=axis, arrangement=arrangement or "contiguous")
    scales, codes = space.expect(x)
    want = scales.reshape(-1), codes
    plain = np.isfinite(x).all(axis=1) & x.any(axis=1)
    parts = []
    for rows, find in ((plain, find_wrong), (~plain, find_wrong_special)):
        if rows.any():
            wrong = find(space, x[rows], (want[0][rows], want[1][rows]), (got[0][rows], got[1][rows]))
            if wrong is not None:
                parts.append(f"{len(wrong.rows)} of {len(x)} blocks")
    return ", ".join(parts)


def _replay_dequantize(document: Document, case: dict[str, Any], session: TargetSession, _restart: Restart | None) -> str:
    wrong = look_at_values(session, _space_of(document, case), *_read_stored(document, case))[2]
    return f"{wrong.sum()} of {wrong.size} values" if wrong.any() else ""
