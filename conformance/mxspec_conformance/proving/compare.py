"""Comparing a chunk's answers with the profile's: whole arrays first, and only where they differ lane by lane."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.proving.answers import Codes, PairAnswers
from mxspec_conformance.proving.pairs import Patterns, as_float32

#: What may be wrong, in the order of a report.
KINDS = ("scale", "element", "zero-sign")
#: Blocks with another scale that are looked at lane by lane, for each chunk.
_MAX_FORCED = 1 << 15


def digest_answers(scales: Codes, codes: Codes) -> str:
    """BLAKE2b-128 of a chunk's scale bytes, then its codes."""
    found = hashlib.blake2b(np.ascontiguousarray(scales).data, digest_size=16)
    found.update(np.ascontiguousarray(codes).data)
    return found.hexdigest()


def compare_chunk(answers: PairAnswers, first: int, last: int, patterns: Patterns, scales: Codes, codes: Codes) -> Any:
    """Counts of what differs from the profile, and the first block of each kind; None where nothing does."""
    want_scales, want_codes = answers.expect(first, last)
    if np.array_equal(scales, want_scales) and np.array_equal(codes, want_codes):
        return None
    rows = np.flatnonzero((scales != want_scales) | (codes != want_codes).any(axis=1))
    x = as_float32(patterns[rows], answers.space.dtype)
    got_s, got_c, exp_s, exp_c = scales[rows], codes[rows], want_scales[rows], want_codes[rows].copy()
    other_scale = got_s != exp_s
    wrong_scale = other_scale.copy()
    forced = np.flatnonzero(other_scale)[:_MAX_FORCED]
    if forced.size:
        exp_c[forced] = answers.given(x[forced], got_s[forced])[0]
    skipped = np.flatnonzero(other_scale)[_MAX_FORCED:]
    got_c = got_c.copy()
    got_c[skipped] = exp_c[skipped]
    excused = answers.excuse(x, got_s, got_c, exp_c)
    wrong_scale &= ~(excused.all(axis=1) & ~x.any(axis=1))
    folds = answers.folds
    wrong = (folds[got_c] != folds[exp_c]) & ~excused
    signs = (got_c != exp_c) & ~wrong & ~excused
    found: dict[str, Any] = {}
    for kind, lanes in (("scale", wrong_scale[:, None]), ("element", wrong), ("zero-sign", signs)):
        bad = lanes.any(axis=1)
        if bad.any():
            row = int(np.argmax(bad))
            found[kind] = {"count": int(lanes.sum()), "first": "".join(f"{int(p):04x}" for p in patterns[rows[row]])}
    return found or None


def read_block(text: str) -> npt.NDArray[np.uint16]:
    """The patterns of a block as `compare_chunk` writes them."""
    return np.frombuffer(bytes.fromhex(text), ">u2").astype(np.uint16)
