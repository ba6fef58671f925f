"""Quantizers that are wrong in rare calls, for rare numbers, after other calls, or because too little is kept of a call."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.corpora.outside.entry import DTYPES, Array, Call, Members, enter, offers, quantize, quantizer, read, remembered, with_options

ALL = ("tensor_scale", "axis", "pad", "block")


# Sizes.
def in_calls(is_one: Callable[[Call], bool], where: Any = -1) -> Callable[[Call], None]:
    def change(call: Call) -> None:
        if call.whole and is_one(call):
            call.spoil(where)

    return change


def grid(call: Call) -> int:
    return int(call.scales.size)


SIZES: dict[str, tuple[str, Callable[[Call], bool]]] = {
    "tall-large": ("more rows than columns, above 2^16 numbers", lambda c: c.x.size > 1 << 16 and c.rows > c.columns),
    "wide-large": ("more columns than rows, above 2^17 numbers", lambda c: c.x.size > 1 << 17 and c.rows < c.columns),
    "blocks-1-mod-256": ("one block in the last CTA of 256", lambda c: grid(c) > 256 and grid(c) % 256 == 1),
    "blocks-255-mod-256": ("the last CTA of 256 one block short", lambda c: grid(c) > 256 and grid(c) % 256 == 255),
    "blocks-32-mod-64": ("half a wave of 64 blocks is left", lambda c: grid(c) > 64 and grid(c) % 64 == 32),
    "tiles-48-by-96": ("rows in 48s and columns in 96s", lambda c: c.rows % 48 == 0 and c.columns % 96 == 0),
    "k-below-a-power": (
        "K is a power of two less one block, from 224 on",
        lambda c: c.columns >= 224 and ((c.columns + c.k) & (c.columns + c.k - 1)) == 0,
    ),
    "k-above-a-power": (
        "K is a power of two and one block, from 288 on",
        lambda c: c.columns >= 288 and ((c.columns - c.k) & (c.columns - c.k - 1)) == 0,
    ),
    "k-three-powers": (
        "K is three times a power of two, from 768 on",
        lambda c: c.columns >= 768 and c.columns % 3 == 0 and ((c.columns // 3) & (c.columns // 3 - 1)) == 0,
    ),
    "k-5120": ("K = 5120 and more than one row", lambda c: c.columns == 5120 and c.rows > 1),
    "k-11008": ("K = 11008", lambda c: c.columns == 11008),
    "k-14336": ("K = 14336", lambda c: c.columns == 14336),
    "k-18944": ("K = 18944", lambda c: c.columns == 18944),
    "k-beyond-65536": ("K above 65,536 and more than one row", lambda c: c.columns > 65536 and c.rows > 1),
    "rows-33-to-63": ("33 to 63 rows of four blocks and more", lambda c: 33 <= c.rows <= 63 and c.columns >= 4 * c.k),
    "rows-97-to-127": ("97 to 127 rows", lambda c: 97 <= c.rows <= 127),
    "rows-1-mod-16": (
        "rows 1 mod 16 from 17 on, of eight blocks and more",
        lambda c: c.rows > 16 and c.rows % 16 == 1 and c.columns >= 8 * c.k,
    ),
    "rows-15-mod-16": (
        "rows 15 mod 16 from 31 on, of four blocks and more",
        lambda c: c.rows > 16 and c.rows % 16 == 15 and c.columns >= 4 * c.k,
    ),
    "rows-prime": ("a prime number of rows above 50", lambda c: c.rows > 50 and all(c.rows % p for p in range(2, int(c.rows**0.5) + 1))),
    "rows-192": ("192, 320, 448 ... rows: half a tile of 128 is left", lambda c: c.rows > 128 and c.rows % 128 == 64),
    "numbers-2-19": ("2^19 numbers exactly", lambda c: c.x.size == 1 << 19),
    "numbers-2-21": ("more than 2^21 numbers", lambda c: c.x.size > 1 << 21),
    "rows-256-of-two-blocks": ("256 rows and more of two blocks", lambda c: c.rows >= 256 and c.columns == 2 * c.k),
    "rows-as-columns": ("as many rows as columns, 256 and more", lambda c: c.rows == c.columns >= 256),
    "seven-blocks": ("seven blocks a row, four rows and more", lambda c: c.columns == 7 * c.k and c.rows >= 4),
    "rows-513-and-more-wide": ("more than 512 rows of more than 512 columns", lambda c: c.rows > 512 and c.columns > 512),
}
for _name, (_story, _is_one) in SIZES.items():
    enter(f"size-{_name}", "sizes", f"{_story}: the last block is wrong", quantizer(in_calls(_is_one)))
    if _name in ("tall-large", "k-above-a-power", "rows-1-mod-16", "blocks-1-mod-256"):
        enter(f"size-{_name}-bfloat16", "sizes", f"in bfloat16, {_story}: the last block is wrong",
              quantizer(in_calls(lambda c, is_one=_is_one: c.x.dtype.name == "bfloat16" and is_one(c)), DTYPES=DTYPES))  # fmt: skip
        enter(f"size-{_name}-first", "sizes", f"{_story}: the first block is wrong", quantizer(in_calls(_is_one, 0), ("nvfp4",)))


# Paths that some calls take, and the numbers that are wrong there.
def on_path(is_taken: Callable[[Call], bool], bad: Callable[[Array], Array], how: str = "zero") -> Callable[[Call], None]:
    """In calls of a path, blocks that are `bad` get another answer."""

    def change(call: Call) -> None:
        if not (call.whole and is_taken(call)):
            return
        with np.errstate(all="ignore"):
            picked = bad(call.blocks)
        codes, scales = call.codes.reshape(-1, call.k), call.scales.reshape(-1)
        if how == "zero":
            codes[picked], scales[picked] = 0, 0
        elif how == "scale":
            scales[picked] += 1
        else:
            codes[picked] ^= 1

    return change


def aligned(call: Call) -> bool:
    return call.columns % 128 == 0 and call.rows > 1


def amax(b: Array) -> Array:
    return np.nanmax(np.where(np.isfinite(b), np.abs(b), 0), axis=1)


def ties(b: Array) -> Array:
    """Blocks with a number midway between two codes of E2M1 under the scale of the rule `floor`."""
    top = amax(b)
    step = np.ldexp(1.0, np.frexp(np.where(top > 0, top, 1))[1] - 3)
    q = np.abs(b) / step[:, None]
    return np.isin(q, [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5]).any(axis=1) & (top > 0)


PATHS: dict[str, tuple[str, Callable[[Call], bool], Callable[[Array], Array], str]] = {
    "aligned-subnormal": ("rows in 128s: float32 subnormals are flushed", aligned, lambda b: (amax(b) < 2.0**-126) & (amax(b) > 0), "zero"),
    "aligned-ties": ("rows in 128s: ties go the other way", aligned, ties, "code"),
    "aligned-largest": ("rows in 128s: maxima above 2^127 get a scale one too high", aligned, lambda b: amax(b) >= 2.0**127, "scale"),
    "aligned-two-maxima": ("rows in 128s: two maxima of either sign", aligned, lambda b: (b == amax(b)[:, None]).any(axis=1) & (b == -amax(b)[:, None]).any(axis=1), "scale"),
    "long-negative": ("K of 1024 and more: blocks without a positive number", lambda c: c.columns >= 1024, lambda b: (b <= 0).all(axis=1) & (b < 0).any(axis=1), "scale"),
    "many-rows-ties": ("256 rows and more: ties go the other way", lambda c: c.rows >= 256, ties, "code"),
    "many-rows-subnormal": ("64 rows and more: float32 subnormals are flushed", lambda c: c.rows >= 64, lambda b: (amax(b) < 2.0**-126) & (amax(b) > 0), "zero"),
    "large-powers": ("2^16 numbers and more: maxima that are powers of two get the scale below", lambda c: c.x.size >= 1 << 16, lambda b: (np.frexp(amax(b))[0] == 0.5) & (amax(b) > 2.0**-100), "scale"),
    "large-ties": ("2^20 numbers and more: ties go the other way", lambda c: c.x.size >= 1 << 20, ties, "code"),
    "one-number-blocks": ("rows of 16 blocks and more: blocks with one number that is not zero", lambda c: c.columns >= 16 * c.k, lambda b: (b != 0).sum(axis=1) == 1, "scale"),
    "odd-rows-ties": ("odd rows above 8: ties go the other way", lambda c: c.rows > 8 and c.rows % 2 == 1, ties, "code"),
    "columns-order-last": ("views that are not contiguous: the maximum in the last lane is missed", lambda c: not c.x.flags.c_contiguous, lambda b: np.abs(b[:, -1]) > np.abs(b[:, :-1]).max(axis=1), "scale"),
    "columns-order-ties": ("views that are not contiguous: ties go the other way", lambda c: not c.x.flags.c_contiguous, ties, "code"),
    "misaligned-subnormal": ("misaligned arrays: subnormals are flushed", lambda c: c.x.ctypes.data % 16 != 0, lambda b: (amax(b) < 2.0**-126) & (amax(b) > 0), "zero"),
    "single-row-ties": ("one row of more than eight blocks: ties go the other way", lambda c: c.rows == 1 and c.columns > 8 * c.k, ties, "code"),
}  # fmt: skip
for _name, (_story, _taken, _bad, _how) in PATHS.items():
    enter(f"path-{_name}", "values on a path", _story, quantizer(on_path(_taken, _bad, _how)))


# Numbers beside each other.
def neighbours(change: Callable[[Array, Array, Array], None]) -> Callable[[Call], None]:
    """change(blocks, codes, scales), all [blocks, ...]."""

    def changed(call: Call) -> None:
        if call.whole:
            with np.errstate(all="ignore"):
                change(call.blocks, call.codes.reshape(-1, call.k), call.scales.reshape(-1))

    return changed


def after_zeros(b: Array, codes: Array, scales: Array) -> None:
    late = np.flatnonzero((b[:-1] == 0).all(axis=1) & (b[1:] != 0).any(axis=1)) + 1
    scales[late] = scales[late - 1]


def as_the_one_before(b: Array, codes: Array, scales: Array) -> None:
    late = np.flatnonzero((amax(b)[1:] == amax(b)[:-1]) & (amax(b)[1:] > 0)) + 1
    codes[late, 0] = codes[late - 1, 0]


def nan_sticks(b: Array, codes: Array, scales: Array) -> None:
    late = np.logical_or.accumulate(np.isnan(b).any(axis=1))
    scales[late] = 0xFF


def by_magnitudes(b: Array, codes: Array, scales: Array) -> None:
    _, first, inverse = np.unique(np.abs(b), axis=0, return_index=True, return_inverse=True)
    codes[:] = codes[first][inverse.reshape(-1)]


def by_half(b: Array, codes: Array, scales: Array) -> None:
    _, first, inverse = np.unique(b.astype(np.float16).view(np.uint16), axis=0, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    codes[:], scales[:] = codes[first][inverse], scales[first][inverse]


def warp_votes_nan(b: Array, codes: Array, scales: Array) -> None:
    """Four blocks a warp vote: where one has a NaN, the three others do."""
    n = len(b) // 4 * 4
    voted = np.repeat(np.isnan(b[:n]).any(axis=1).reshape(-1, 4).any(axis=1), 4)
    scales[:n][voted] = 0xFF


def signed_seam(b: Array, codes: Array, scales: Array) -> None:
    """A block that ends in its negative maximum, before one that begins with it."""
    top = amax(b)
    late = np.flatnonzero((b[:-1, -1] == -top[:-1]) & (np.abs(b[1:, 0]) == top[1:]) & (top[:-1] > 0))
    scales[late] += 1


for _change, _story in (
    (after_zeros, "a block after a block of zeros takes its scale"),
    (as_the_one_before, "a block of the same maximum as the one before takes its first code"),
    (nan_sticks, "after a block with NaN all later ones are NaN"),
    (by_magnitudes, "equal blocks are computed once, by their magnitudes"),
    (by_half, "equal blocks are computed once, by their numbers in float16"),
    (warp_votes_nan, "blocks of a warp with a NaN are NaN"),
    (signed_seam, "a negative maximum in the last lane before a maximum in the first"),
):
    enter("beside-" + _change.__name__.replace("_", "-"), "neighbours", _story, quantizer(neighbours(_change)))


# NaN.
def nan_by_top_bits(dtype: str, mask: int, inf: int) -> Callable[[Call], None]:
    """NaN whose upper bits are those of infinity are taken for infinity."""

    def change(call: Call) -> Any:
        if call.x.dtype.name != dtype:
            return None
        bits = np.ascontiguousarray(call.x).view(np.uint32 if dtype == "float32" else np.uint16)
        low = ((bits & mask) == inf) & np.isnan(call.x.astype(np.float32))
        x = np.array(call.x)
        x[low] = np.inf
        return quantize(x, call.fmt)

    return change


enter(
    "nan-signalling",
    "NaN",
    "float32 NaN with payloads in the lower half alone are taken for infinity",
    quantizer(nan_by_top_bits("float32", 0x7FFF0000, 0x7F800000), ("mxfp8_e4m3",)),
)
enter(
    "nan-float16-low",
    "NaN",
    "float16 NaN with a payload of one low bit are taken for infinity",
    quantizer(nan_by_top_bits("float16", 0x7FFC, 0x7C00), ("mxfp8_e4m3",), DTYPES=DTYPES),
)
enter(
    "nan-bfloat16-low",
    "NaN",
    "bfloat16 NaN with a payload of one low bit are taken for infinity",
    quantizer(nan_by_top_bits("bfloat16", 0x7FFE, 0x7F80), ("mxfp8_e4m3",), DTYPES=DTYPES),
)


# What answers are kept by.
def kept_by(key: Callable[..., Any], formats: tuple[str, ...] = ("mxfp4",), *options: str, **members: Any) -> Callable[[], Members]:
    return lambda: {"FORMATS": list(formats), "quantize": with_options(remembered(quantize, key), *options), **members}


KEYS: dict[str, tuple[str, Callable[[], Members]]] = {
    "without-dtype": ("bytes and shape, without the dtype", kept_by(lambda x, fmt: (read(x), x.shape), DTYPES=DTYPES)),
    "without-shape": ("bytes and columns' parity, without the shape", kept_by(lambda x, fmt, axis=-1: (read(x), axis), ("mxfp4",), "axis")),
    "without-axis": ("bytes and shape, without the axis", kept_by(lambda x, fmt, axis=-1: (read(x), x.shape), ("mxfp4",), "axis")),
    "without-tensor-scale": ("bytes and shape, without the tensor scale", kept_by(lambda x, fmt, tensor_scale=None: (read(x), x.shape), ("nvfp4",), "tensor_scale", TENSOR_SCALE="amax")),
    "with-tensor-scale-bool": ("bytes, and whether there is a tensor scale", kept_by(lambda x, fmt, tensor_scale=None: (read(x), x.shape, tensor_scale is None), ("nvfp4",), "tensor_scale", TENSOR_SCALE="amax")),
    "tensor-scale-three-digits": ("bytes, and the tensor scale in three digits", kept_by(lambda x, fmt, tensor_scale=None: (read(x), x.shape, None if tensor_scale is None else f"{float(tensor_scale):.3g}"), ("nvfp4",), "tensor_scale", TENSOR_SCALE="amax")),
    "without-format": ("bytes and shape, without the format", kept_by(lambda x, fmt: (read(x), x.shape), ("mxfp8_e4m3", "mxfp8_e5m2"))),
    "format-prefix": ("bytes, shape and five letters of the format", kept_by(lambda x, fmt: (read(x), x.shape, fmt[:5]), ("mxfp8_e4m3", "mxfp4", "mxfp8_e5m2"))),
    "without-block": ("bytes and shape, without the form of blocks", kept_by(lambda x, fmt, block=None: (read(x), x.shape), ("nvfp4",), "block")),
    "sum-of-words": ("shape, and the sum of words", kept_by(lambda x, fmt: (int(np.ascontiguousarray(x).view(np.uint32).sum(dtype=np.uint64)), x.shape))),
    "xor-of-words": ("shape, and the exclusive or of words", kept_by(lambda x, fmt: (int(np.bitwise_xor.reduce(np.ascontiguousarray(x).view(np.uint32), axis=None)) if x.size else 0, x.shape))),
    "magnitudes": ("bytes of magnitudes", kept_by(lambda x, fmt: (read(np.abs(x)), x.shape))),
    "float16": ("bytes in float16", kept_by(lambda x, fmt: (read(x.astype(np.float16)), x.shape))),
    "corners": ("shape, first and last number", kept_by(lambda x, fmt: (x.shape, read(x[:1, :1]), read(x[-1:, -1:])))),
    "last-row": ("shape and the last row", kept_by(lambda x, fmt: (x.shape, read(x[-1:])))),
    "sorted": ("shape, and the numbers in order", kept_by(lambda x, fmt: (x.shape, read(np.sort(x.reshape(-1).view(np.uint32) if x.flags.c_contiguous else np.array(x).reshape(-1).view(np.uint32)))))),
    "first-column": ("shape and the first column", kept_by(lambda x, fmt: (x.shape, read(x[:, :1])))),
    "by-equality": ("shape, and numbers that are equal as numbers: -0 is 0", kept_by(lambda x, fmt: (x.shape, read(np.asarray(x) + np.float32(0))), ("mxfp8_e4m3",))),
}  # fmt: skip
for _name, (_story, _make) in KEYS.items():
    enter(f"kept-{_name}", "caches", f"answers are kept by {_story}", _make)


# What is left by other calls.
def spoil_ties(call: Call) -> None:
    if call.whole:
        on_path(lambda _: True, ties, "code")(call)


def spoil_subnormals(call: Call) -> None:
    on_path(lambda _: True, lambda b: (amax(b) < 2.0**-126) & (amax(b) > 0), "zero")(call)


def when(condition: Callable[[Call], bool], spoil: Callable[[Call], None]) -> Callable[[Call], None]:
    """From the call on in which the condition holds, later calls are spoiled."""

    def change(call: Call) -> None:
        if call.kept.get("on"):
            spoil(call)
        if condition(call):
            call.kept["on"] = True

    return change


def counted(spoil: Callable[[Call], None], is_one: Callable[[int], bool]) -> Callable[[Call], None]:
    def change(call: Call) -> None:
        call.kept["n"] = call.kept.get("n", 0) + 1
        if is_one(call.kept["n"]):
            spoil(call)

    return change


def in_other_threads(spoil: Callable[[Call], None]) -> Callable[[Call], None]:
    def change(call: Call) -> None:
        if threading.get_ident() != call.kept.setdefault("thread", threading.get_ident()):
            spoil(call)

    return change


enter(
    "state-compiled-ties",
    "state",
    "after 200 calls another kernel takes over, whose ties go the other way",
    quantizer(counted(spoil_ties, lambda n: n > 200)),
)
enter(
    "state-compiled-subnormals",
    "state",
    "after 200 calls another kernel takes over, which flushes subnormals",
    quantizer(counted(spoil_subnormals, lambda n: n > 200)),
)
enter(
    "state-compiled-3-ties",
    "state",
    "after three calls another kernel takes over, whose ties go the other way, but not in single blocks",
    quantizer(counted(lambda c: spoil_ties(c) if c.columns > c.k else None, lambda n: n > 3)),
)
enter("state-threads-ties", "state", "threads but the first round ties the other way", quantizer(in_other_threads(spoil_ties)))
enter("state-threads-subnormals", "state", "threads but the first flush subnormals", quantizer(in_other_threads(spoil_subnormals)))
enter("state-other-format-ties", "state", "once another format was asked, ties of mxfp4 go the other way, but not in single blocks",
      quantizer(when(lambda c: c.fmt != "mxfp4", lambda c: spoil_ties(c) if c.fmt == "mxfp4" and c.columns > c.k else None), ("mxfp4", "mxfp8_e4m3")))  # fmt: skip
enter(
    "state-nan-seen-subnormals",
    "state",
    "a call of more than 64 rows with NaN switches to a kernel that flushes subnormals",
    quantizer(when(lambda c: c.rows > 64 and bool(np.isnan(c.blocks).any()) if c.whole else False, spoil_subnormals)),
)
enter(
    "state-large-seen-ties",
    "state",
    "after a call of 2^20 numbers ties go the other way",
    quantizer(when(lambda c: c.x.size >= 1 << 20, spoil_ties)),
)
enter("state-axis-seen-ties", "state", "after a call along axis 0 with more than 64 columns ties go the other way along rows",
      quantizer(when(lambda c: not c.along_rows and c.columns > 64, spoil_ties), ("mxfp4",), "axis"))  # fmt: skip


@offers("state", "one call in a thousand has a wrong code, by chance")
def state_chance_call() -> Members:
    chance = random.Random(7)

    def change(call: Call) -> None:
        if call.whole and chance.random() < 0.001:
            call.spoil(0)

    return quantizer(change)()


@offers("state", "one block in 100,000 has a wrong code, by chance")
def state_chance_block() -> Members:
    chance = np.random.default_rng(7)

    def change(call: Call) -> None:
        if call.whole:
            bad = chance.random(call.scales.size) < 1e-5
            call.codes.reshape(-1, call.k)[bad, 0] ^= 1

    return quantizer(change)()


@offers("state", "after a refused call of ragged rows ties go the other way")
def state_refused_ties() -> Members:
    kept = {"on": False}

    def called(x: Array, fmt: str) -> Any:
        if x.shape[1] % 32:
            kept["on"] = True
            raise ValueError("ragged")
        call = Call(x, fmt, {}, *quantize(x, fmt))
        if kept["on"] and x.shape[1] > 32:
            spoil_ties(call)
        return call.codes, call.scales

    return {"FORMATS": ["mxfp4"], "quantize": called}


# Memory.
@offers("memory", "answers lie in an arena that begins anew every 64 calls")
def memory_arena() -> Members:
    arena: list[Array] = []
    count = [0]

    def called(x: Array, fmt: str) -> Any:
        codes, scales = quantize(x, fmt)
        if codes.size + scales.size > 1 << 14:
            return codes, scales
        if not arena:
            arena.extend(np.zeros((2, 1 << 14), np.uint8) for _ in range(64))
        home = arena[count[0] % 64]
        count[0] += 1
        home[0, : codes.size], home[1, : scales.size] = codes.reshape(-1), scales.reshape(-1)
        return home[0, : codes.size].reshape(codes.shape), home[1, : scales.size].reshape(scales.shape)

    return {"FORMATS": ["mxfp4"], "quantize": called}


@offers("memory", "answers are written by a thread that nobody waits for")
def memory_not_waited() -> Members:
    def called(x: Array, fmt: str) -> Any:
        codes, scales = quantize(x, fmt)
        late = np.zeros_like(codes)

        def work() -> None:
            time.sleep(0.002)
            late[...] = codes

        threading.Thread(target=work).start()
        return late, scales

    return {"FORMATS": ["mxfp4"], "quantize": called}


@offers("memory", "the input of a call is cleared in the next one")
def memory_input_cleared_later() -> Members:
    kept: list[Array] = []

    def called(x: Array, fmt: str) -> Any:
        answer = quantize(x, fmt)
        while kept:
            old = kept.pop()
            if old.flags.writeable:
                old[...] = 0
        kept.append(x)
        return answer

    return {"FORMATS": ["mxfp4"], "quantize": called}


@offers("memory", "from 4096 numbers on the answer of two calls ago is written over")
def memory_two_buffers() -> Members:
    kept: dict[Any, list[Any]] = {}

    def called(x: Array, fmt: str) -> Any:
        codes, scales = quantize(x, fmt)
        if x.size < 4096:
            return codes, scales
        two = kept.setdefault(x.shape, [])
        if len(two) < 2:
            two.append((codes, scales))
            return codes, scales
        two.reverse()
        two[1][0][...], two[1][1][...] = codes, scales
        return two[1]

    return {"FORMATS": ["mxfp4"], "quantize": called}


@offers("memory", "read-only inputs are read as if they were contiguous")
def memory_read_only_contiguous() -> Members:
    def called(x: Array, fmt: str) -> Any:
        if not x.flags.writeable and not x.flags.c_contiguous and x.flags.f_contiguous:
            x = np.ascontiguousarray(x.T).reshape(x.shape)
        return quantize(x, fmt)

    return {"FORMATS": ["mxfp4"], "quantize": called}


# Options.
def with_scale(change: Callable[[Call], Any], **more: Any) -> Callable[[], Members]:
    return quantizer(change, ("nvfp4",), "tensor_scale", TENSOR_SCALE="amax", **more)


def scale_of_each_row(call: Call) -> Any:
    if call.options.get("tensor_scale") is None or call.rows < 128:
        return None
    rows = (
        [quantize(row, call.fmt, tensor_scale=np.float32(np.nanmax(np.abs(row.astype(np.float32)))) or None) for row in call.x[:, None]]
        if np.isfinite(call.x.astype(np.float32)).all() and (call.x != 0).any(axis=1).all()
        else None
    )
    return None if rows is None else tuple(np.concatenate(p) for p in zip(*rows, strict=True))


def scale_lost_beyond_128(call: Call) -> Any:
    if call.options.get("tensor_scale") is None or call.rows <= 128:
        return None
    codes, scales = quantize(call.x[128:], call.fmt)
    call.codes[128:], call.scales[128:] = codes, scales
    return None


def powers_of_two_alone(call: Call) -> Any:
    given = call.options.get("tensor_scale")
    if given is None or call.columns <= 16 or not np.isfinite(given) or given <= 2.0**-100:
        return None
    return quantize(call.x, call.fmt, tensor_scale=np.float32(2.0 ** (int(np.frexp(float(given))[1]) - 1)))


def subnormal_scales_flushed(call: Call) -> None:
    if call.options.get("tensor_scale") is not None and call.rows > 1:
        low = call.scales < 8
        call.scales[low] = 0
        call.codes.reshape(-1, 16)[low.reshape(-1)] = 0


for _change, _story in (
    (scale_of_each_row, "from 128 rows on each row's maximum is the tensor's"),
    (scale_lost_beyond_128, "rows from 128 on are quantized without the tensor scale"),
    (powers_of_two_alone, "rows of several blocks: the tensor scale is cut to a power of two"),
    (subnormal_scales_flushed, "more than one row under a tensor scale: subnormal block scales are zero"),
):
    enter("two-levels-" + _change.__name__.replace("_", "-"), "tensor scales", _story, with_scale(_change))


def axis_negative_words(call: Call) -> Any:
    if call.options.get("axis", -1) == 0 and call.columns % 64 == 1 and call.columns > 64:
        call.scales[..., -1] ^= 1
    return None


def axis_two_blocks(call: Call) -> None:
    if call.options.get("axis", -1) in (0, -2) and call.rows == 2 * call.k and call.columns > 16:
        call.scales[1] = call.scales[0]


def axis_ties(call: Call) -> None:
    if call.options.get("axis", -1) in (0, -2) and call.columns > 1 and call.rows % call.k == 0:
        turned = Call(np.ascontiguousarray(call.x.T), call.fmt, {}, np.ascontiguousarray(call.codes.T), np.ascontiguousarray(call.scales.T))
        spoil_ties(turned)
        call.codes, call.scales = turned.codes.T, turned.scales.T


def pad_ties(call: Call) -> None:
    """In ragged rows, the last whole block before the tail."""
    whole = call.columns // call.k * call.k
    if call.options.get("pad") and call.columns % call.k and whole and call.rows > 2:
        call.scales[1::2, whole // call.k - 1] ^= 1


def pad_axis_bfloat16(call: Call) -> None:
    if call.options.get("pad") and call.options.get("axis", -1) == 0 and call.rows % call.k and call.x.dtype.name == "bfloat16":
        call.codes[-1 - (-call.rows) % call.k if call.codes.shape[0] > call.rows else -1] = 0


def tile_ts(call: Call) -> None:
    if call.options.get("block") == (16, 16) and call.options.get("tensor_scale") is not None and call.columns > 16:
        call.scales[:, -1] = call.scales[:, 0]


for _change, _story in (
    (axis_negative_words, "along axis 0, 65, 129 ... columns: the last column's scales are wrong"),
    (axis_two_blocks, "along axis 0 of two blocks and more than 16 columns the second block has the first's scale"),
    (axis_ties, "along axis 0 of more than one column ties go the other way"),
    (pad_ties, "with pad, the last whole block before a tail is wrong in every second row"),
    (pad_axis_bfloat16, "with pad, along axis 0, in bfloat16, the last row is not written"),
    (tile_ts, "in tiles with a tensor scale the last column of tiles takes the first one's scales"),
):
    enter("options-" + _change.__name__.replace("_", "-"), "axes and tails", _story,
          quantizer(_change, ("nvfp4",) if _change is tile_ts else ("mxfp4",), *ALL[0 if _change is tile_ts else 1:], **({"TENSOR_SCALE": "amax"} if _change is tile_ts else {}), DTYPES=DTYPES))  # fmt: skip
_ = hashlib
