"""What a profile gives for every pair, as tables: maximum -> scale byte, and under each scale byte element -> code."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.acceptance import flag_nan_codes, fold_zeros, is_lowest_allowed
from mxspec.elements import ScaleCodes
from mxspec.elements_given_scale import encode_given_scale
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Kind, Profile, QuantizationSteps
from mxspec.tensorscale import TensorScale, bind_arrays
from mxspec_conformance.proving.pairs import PairSpace, Patterns, as_float32
from mxspec_vectors.tensor_scales import TensorScales, native_scale

Codes = npt.NDArray[np.uint8]

#: Blocks with another scale that are examined lane by lane, for each chunk.
_MAX_FORCED = 1 << 15


@dataclass(slots=True)
class PairAnswers:
    """A profile's answers to the pairs of a space."""

    fmt: BlockFormat
    profile: Profile
    space: PairSpace
    #: The tensor scale in its three kinds, or None for the one-level form.
    tensor: TensorScales | None = None
    #: Scale code of every maximum.
    scales: ScaleCodes = field(init=False)
    #: Whether a code follows from scale byte and element alone; else rows are computed for each maximum.
    tabulated: bool = field(init=False)
    _native: TensorScale | None = field(init=False)
    _steps: QuantizationSteps = field(init=False)
    _bindings: dict[str, Any] = field(init=False)
    _rows: dict[int, Codes] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        profile = self.profile
        self._native = native_scale(profile, self.tensor)
        self._steps = profile.steps(with_tensor_scale=self._native is not None)
        self._bindings = {} if self._native is None else dict(bind_arrays(profile, self._native))
        self.tabulated = not self._steps.needs_maximum and self.fmt.scale.bits <= 8
        blocks = np.zeros((self.space.largest + 1, self.space.k), np.float32)
        blocks[:, 0] = as_float32(np.arange(self.space.largest + 1, dtype=np.uint16), self.space.dtype)
        self.scales = self.quantize(blocks)[0]

    def quantize(self, x: npt.NDArray[np.float32]) -> tuple[Codes, Codes]:
        """Scales [n] and codes [n, k] of blocks, by the array model."""
        with np.errstate(all="ignore"):
            t = mxspec.quantize(x, self.fmt, profile=self.profile, tensor_scale=self._native)
        return t.scales[:, 0], t.codes

    def given(self, x: npt.NDArray[np.float32], scales: Codes) -> tuple[Codes, npt.NDArray[Any]]:
        """Codes [n, k] under stored scale bytes [n], and the quotients."""
        usable = np.minimum(scales, self.fmt.scale.code_count - 1).astype(scales.dtype)
        with np.errstate(all="ignore"):
            return encode_given_scale(x, usable, self.fmt, self.profile, self._steps, self._bindings)

    def row(self, maximum: int) -> Codes:
        """The code of every pattern, as far as it can occur with this maximum: 65536 entries."""
        if self.tabulated:
            byte = int(self.scales[maximum])
            if byte not in self._rows:
                self._rows[byte] = self._row_of_byte(byte)
            return self._rows[byte]
        return self._row_of_maximum(maximum)

    def _row_of_byte(self, byte: int) -> Codes:
        x = as_float32(np.arange(1 << 16, dtype=np.uint16), self.space.dtype).reshape(-1, self.space.k)
        codes, _ = self.given(x, np.full(len(x), byte, self.scales.dtype))
        return np.ascontiguousarray(codes).reshape(-1)

    def _row_of_maximum(self, maximum: int) -> Codes:
        n, k = maximum + 1, self.space.k
        patterns = np.concatenate([np.arange(n), np.arange(n) | 0x8000]).astype(np.uint16)
        body = np.resize(patterns, -(-2 * n // (k - 1)) * (k - 1)).reshape(-1, k - 1)
        blocks = np.concatenate([np.full((len(body), 1), maximum, np.uint16), body], axis=1)
        codes = self.quantize(as_float32(blocks, self.space.dtype))[1][:, 1:].reshape(-1)
        row = np.zeros(1 << 16, np.uint8)
        row[:n], row[0x8000 : 0x8000 + n] = codes[:n], codes[n : 2 * n]
        return row

    def expect(self, first: int, last: int) -> tuple[Codes, Codes]:
        """Scales [blocks] and codes [blocks, k] of a chunk."""
        codes = self.space.fill(first, last, self.row, np.uint8)
        return self.space.per_block(self.scales, first, last), codes

    def digest(self) -> str:
        """BLAKE2b-128 of the scale bytes of all maxima, then of the codes that every scale byte (or every 251st maximum,
        where a code needs the maximum itself) gives: what a published proof was made against."""
        found = hashlib.blake2b(self.scales.tobytes(), digest_size=16)
        if self.tabulated:
            _, firsts = np.unique(self.scales, return_index=True)
            chosen = sorted(int(m) for m in firsts)
        else:
            chosen = list(range(0, self.space.largest + 1, 251))
        for m in chosen:
            row, n = self.row(m), (self.space.largest if self.tabulated else m) + 1
            found.update(row[:n].tobytes() + row[0x8000 : 0x8000 + n].tobytes())
        return found.hexdigest()

    @property
    def folds(self) -> Codes:
        """Each code with negative zero made positive."""
        return fold_zeros(self.fmt.element)

    def excuse(self, x: npt.NDArray[np.float32], scales: Codes, codes: Codes, expected: Codes) -> npt.NDArray[np.bool_]:
        """Lanes [n, k] that a normative profile leaves open, in addition to the canonical code: blocks of zeros, int8's lowest."""
        open_lanes = np.zeros(codes.shape, bool)
        if self.profile.kind is not Kind.NORMATIVE or self.fmt.has_tensor_scale:
            return open_lanes
        zero = ~x.any(axis=1) & ~flag_nan_codes(scales, self.fmt.scale)
        open_lanes[zero] = self.folds[codes[zero]] == 0
        if self.fmt.element.twos_complement:
            _, scaled = self.given(x, scales)
            lowest = self.fmt.element.sign_bit
            open_lanes |= (codes == lowest) & (expected == lowest + 1) & is_lowest_allowed(self.fmt.element, scaled)
        return open_lanes


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
