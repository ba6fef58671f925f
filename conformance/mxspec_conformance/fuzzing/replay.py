"""Asking a target the cases of a file again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import get_block
from mxspec_conformance.counterexample.calls import ask_blocks, ask_reused, scale_argument
from mxspec_conformance.counterexample.mismatch import find_wrong, find_wrong_special
from mxspec_conformance.counterexample.sample_space import get_sample_space
from mxspec_conformance.fuzzing import values
from mxspec_conformance.fuzzing.save import read_findings, space_of_case
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.entries import code_digits, hex_floats, hex_words

#: Calls that a case may ask for before the one that is looked at.
MAX_REPEATED = 100_000


@dataclass(frozen=True, slots=True)
class Replayed:
    """One case, asked again."""

    id: str
    #: `differs`, `right`, `outdated`, or why there is no answer.
    verdict: str
    words: str


def replay(path: Path, session: TargetSession, restart: Callable[[], TargetSession] | None) -> list[Replayed]:
    """Every case of a file.

    Raises ValueError where the file is none of cases.
    """
    document = read_findings(path)
    ask = _quantize if document["operation"] == "quantize" else _dequantize
    results = []
    for case in document["cases"]:
        try:
            current = _is_current(document, case)
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise ValueError(f"{path}: case {case.get('id')} is none that can be asked: {error}") from None
        if not current:
            results.append(
                Replayed(case["id"], "outdated", "the file expects something else than the profile gives now")
            )
            continue
        try:
            wrong = ask(document, case, session, restart)
        except CallError as failure:
            results.append(Replayed(case["id"], failure.kind, str(failure)))
            continue
        how = ", ".join(f for f in case["flags"] if f.startswith("call-"))
        results.append(Replayed(case["id"], "differs" if wrong else "right", ", ".join(filter(None, [wrong, how]))))
    return results


def _is_current(document: dict[str, Any], case: dict[str, Any]) -> bool:
    """Whether the first answer that the file expects is the profile's."""
    profile, tensor = space_of_case(document, case)
    space = get_sample_space(document["format"], profile, tensor, "float32")
    digits = code_digits(space.fmt)
    if document["operation"] == "dequantize":
        codes, scales = _stored(document, case)
        return bool(case["expect"][0]["values"] == hex_floats(values.expect_values(space, codes, scales)))
    scales, codes = space.expect(_blocks(document, case))
    first = case["expect"][0]["any"][0]
    return bool(
        first["scale"] == hex_words(scales.reshape(-1), 2) and first["codes"] == hex_words(codes.reshape(-1), digits)
    )


def _blocks(document: dict[str, Any], case: dict[str, Any]) -> npt.NDArray[np.float32]:
    bits = np.frombuffer(bytes.fromhex(case["x"]), ">u4").astype(np.uint32)
    return bits.view(np.float32).reshape(-1, get_block(document["format"]).k)


def _stored(document: dict[str, Any], case: dict[str, Any]) -> tuple[Any, Any]:
    digits, text = code_digits(get_block(document["format"])), case["codes"]
    codes = np.array([int(text[i : i + digits], 16) for i in range(0, len(text), digits)], np.uint8)
    scales = np.frombuffer(bytes.fromhex(case["scales"]), np.uint8)
    return codes.reshape(case["shape"]), scales.reshape(case["shape"][0], -1)


def _flag_of(case: dict[str, Any], start: str) -> str | None:
    return next((f.removeprefix(start) for f in case["flags"] if f.startswith(start)), None)


def _quantize(
    document: dict[str, Any], case: dict[str, Any], session: TargetSession, restart: Callable[[], TargetSession] | None
) -> str:
    profile, tensor = space_of_case(document, case)
    dtype = "float32" if "float32" in session.capabilities.dtypes else session.capabilities.dtypes[0]
    space = get_sample_space(document["format"], profile, tensor, dtype)
    k = space.fmt.k
    width = case["shape"][1] // k
    x = _blocks(document, case)
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


def _dequantize(
    document: dict[str, Any], case: dict[str, Any], session: TargetSession, _restart: Callable[[], TargetSession] | None
) -> str:
    profile, tensor = space_of_case(document, case)
    fmt = get_block(document["format"])
    space = get_sample_space(fmt.name, profile, tensor, "float32")
    codes, scales = _stored(document, case)
    got = session.call("dequantize", codes, scales, fmt.name, **scale_argument(session, space))
    wrong, signs = values.find_wrong_values(space, codes, values.expect_values(space, codes, scales), got)
    count = int((wrong | signs).sum())
    return f"{count} of {codes.size} values" if count else ""
