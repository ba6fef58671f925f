"""The calls by which caches are judged: slots and pages of every kind, numbers at midpoints and beyond the ends, NaN, given scales."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.attention import CacheSpec, Quantizer, RowFormat, Scaling, append_cache, decode_rows, join_rows, read_cache, view_rows
from mxspec.attention.caches import write_rows
from mxspec.attention.rows import largest, split_rows
from mxspec.elements import encode
from mxspec.formats import get_scalar
from mxspec_conformance.judge.attention.writing import draw_rows, lose_rows

Array = npt.NDArray[Any]
#: Heads of most caches, and sequences of calls that read.
HEADS, LENGTHS = 3, (1, 16, 0, 37, 64)
#: Slots of more pages than a byte counts; more sequences than 128 threads.
FAR = 4096
MANY = tuple(n * 7 % 23 for n in range(140))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CacheCase:
    """One call of either function."""

    topic: str
    label: str
    spec: CacheSpec
    k_cache: Array
    v_cache: Array
    #: New numbers [tokens, heads, d] and their slots; None: the call reads.
    k: Array | None = None
    v: Array | None = None
    slots: Array | None = None
    page_table: Array | None = None
    lengths: Array | None = None
    options: dict[str, Any]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the target is handed, in order."""
        caches = self.k_cache, self.v_cache
        first = (self.k, self.v, self.slots, *caches) if self.slots is not None else (*caches, self.page_table, self.lengths)
        return *first, self.spec.text

    def list_readings(self) -> Iterator[tuple[Array, Array]]:
        """What a read may return: numbers in float32; under given scales of many bits also in 16 bits, with products there or before."""
        yield self.compute()
        if self.slots is None and self.topic == "tensor-scale":
            for dtype in (ml_dtypes.bfloat16, np.float16):
                narrow = replace(self, options={name: s.astype(dtype).astype(np.float32) for name, s in self.options.items()})
                for case in (self, narrow):
                    k, v = (part.astype(dtype).astype(np.float32) for part in case.compute())
                    yield k, v

    def compute(self, quantizers: tuple[Quantizer, Quantizer] | None = None) -> tuple[Array, Array]:
        """What the model returns."""
        if self.slots is None:
            return read_cache(self.k_cache, self.v_cache, self.page_table, self.lengths, self.spec, **self.options)  # type: ignore[arg-type]
        return append_cache(
            self.k, self.v, self.slots, self.k_cache, self.v_cache, self.spec, **self.options, quantizers=quantizers,  # type: ignore[arg-type]
        )  # fmt: skip


def list_options(spec: CacheSpec) -> dict[str, Any]:
    """Given scales that are exact under any quantizer: few bits, K's another one than V's."""
    count = HEADS if spec.per_head else 1
    factors = np.array([1, 2, 0.5])[:count]
    return {f"{p}_scale": (s * factors).astype(np.float32) for p, s in (("k", 0.5), ("v", 4.0)) if getattr(spec, p).takes_scale}


def clamps(fmt: RowFormat) -> bool:
    """Whether a row has the largest number of its format for what lies beyond it."""
    return fmt.scaling is Scaling.GIVEN


def keeps_nan(fmt: RowFormat) -> bool:
    """Whether a NaN stays one: no scale but a given one decides what becomes of it."""
    return fmt.scaling in (Scaling.GIVEN, Scaling.NONE)


def make_caches(spec: CacheSpec, pages: int, page: int, heads: int, draw: np.random.Generator) -> tuple[Array, Array]:
    """Caches of any bytes."""
    shape = (pages, heads, page) if spec.heads_first else (pages, page, heads)
    k, v = (
        draw.integers(0, 256, (*shape, fmt.width(spec.d) * fmt.dtype.itemsize)).astype(np.uint8).view(fmt.dtype) for fmt in (spec.k, spec.v)
    )
    return k, v


def draw_exact(fmt: RowFormat, shape: tuple[int, ...], d: int, draw: np.random.Generator, scale: float, dtype: Any) -> Array:
    """Numbers [*shape, d] that every quantizer stores as they are: each block holds the largest code."""
    rows = draw_rows(shape, d, fmt, draw)
    if fmt.scaling in (Scaling.BLOCK, Scaling.TOKEN):
        first, k = fmt.count_codes(d), d if fmt.block is None else fmt.block.k
        values = decode_rows(join_rows(*_unit_codes(rows, fmt, d), fmt), fmt)
        values[..., ::k] = np.copysign(largest(fmt), values[..., ::k])
        powers = 2.0 ** draw.integers(-3, 4, (*shape, d // k))
        assert first
        values = values * np.repeat(powers, k, -1)
    else:
        values = decode_rows(rows, fmt)
    scaled: Array = (values * scale).astype(dtype)
    return scaled


def draw_some_zeros(*args: Any) -> Array:
    """The same numbers, and every third head of a token zeros."""
    x = draw_exact(*args)
    x.reshape(-1, x.shape[-1])[::3] = 0
    return x


def draw_some_nan(fmt: RowFormat, *args: Any) -> Array:
    """The same numbers, and every fifth of a head of either sign NaN, where these stay NaN."""
    x = draw_exact(fmt, *args)
    if keeps_nan(fmt):
        x[..., 1::5] = np.copysign(np.array(np.nan, x.dtype), x[..., 1::5])
    return x


def _unit_codes(rows: Array, fmt: RowFormat, d: int) -> tuple[Array, Array]:
    """The codes of rows, and scales of 1."""
    codes, scales = split_rows(rows, fmt)
    if fmt.block is None:
        return codes, np.broadcast_to(np.ones(1, np.float32), (*scales.shape[:-1], 1))
    return codes, np.broadcast_to(encode(np.ones(1, np.float32), fmt.block.scale), scales.shape)


def draw_thresholds(fmt: RowFormat, shape: tuple[int, ...], d: int, draw: np.random.Generator, scale: Array, dtype: Any) -> Array:
    """Numbers at and next to midpoints of codes, under scales of any size."""
    if fmt.scaling is Scaling.NONE:
        return draw.standard_normal((*shape, d)).astype(dtype)
    if fmt.element == "int8" and fmt.block is None:
        values = np.arange(0, 127.5, 0.5)
    else:
        element = get_scalar(fmt.element)
        codes = np.array([float(element.magnitude(c)) for c in range(element.max_code + 1)])
        values = np.sort(np.concatenate([codes, (codes[1:] + codes[:-1]) / 2]))
    chosen = (draw.choice(values, (*shape, d)) * draw.choice([-1, 1], (*shape, d))).astype(np.float32)
    chosen *= draw.choice(np.array([1, 1, 1 - 2.0**-20, 1 + 2.0**-20], np.float32), chosen.shape)
    k = 1 if fmt.scaling is Scaling.GIVEN else d if fmt.block is None else fmt.block.k
    if k > 1:
        most = largest(fmt) * draw.uniform(1, 2, (*shape, d // k)) ** draw.integers(0, 2, (*shape, d // k))
        chosen[..., ::k] = most * draw.choice([-1, 1], most.shape)
        chosen = draw.permuted(chosen.reshape(*shape, d // k, k), axis=-1).reshape(chosen.shape)
        # Block scales of a few binades have ends of their own.
        ends = (-4, 5) if fmt.block is not None and not fmt.block.scale.is_power_of_two else (-12, 7)
        chosen *= np.repeat(2.0 ** draw.integers(*ends, (*shape, d // k)), k, -1).astype(np.float32)
    scaled: Array = (chosen * scale).astype(dtype)
    return scaled


def list_appends(spec: CacheSpec, options: dict[str, Any], dtype: Any) -> Iterator[CacheCase]:
    d, draw = spec.d, np.random.default_rng(5)

    def make(topic: str, label: str, page: int, slots: Array, pages: int, write: Any, heads: int = HEADS, given: Any = None) -> CacheCase:
        given = {} if given is None else given
        k_cache, v_cache = make_caches(spec, pages, page, heads, draw)
        k, v = (
            write(fmt, (len(slots), heads), d, draw, given[n].reshape(-1, 1) if n in given else np.float32(1), dtype)
            for fmt, n in ((spec.k, "k_scale"), (spec.v, "v_scale"))
        )
        return CacheCase(
            topic=topic, label=f"{label}, pages of {page}", spec=spec, k_cache=k_cache, v_cache=v_cache, k=k, v=v,
            slots=slots.astype(np.int32), options=given,
        )  # fmt: skip

    for page in spec.pages:
        pages = max(5, 20 // page)
        count = pages * page
        slots = draw.permutation(count)
        some = np.where(np.arange(count) % 3 == 0, -1, slots)
        yield make("place", "slots in any order", page, slots[: count // 2], pages, draw_exact)
        yield make("place", "every slot", page, slots, pages, draw_exact)
        yield make("place", "slots in order, the last page partly", page, np.arange(count - page // 2 - 1), pages, draw_exact)
        yield make("place", "slots of -1 among others", page, np.where(some == count - 1, -1, some), pages, draw_exact)
        yield make("place", "no slot but -1", page, np.full(4, -1), pages, draw_exact)
        yield make("place", "one token", page, slots[:1], pages, draw_exact)
        if not spec.per_head:
            yield make("place", "one head", page, slots[:7], pages, draw_exact, heads=1)
            yield make("place", "as many heads as tokens of a page", page, slots[:9], pages, draw_exact, heads=page)
        many = FAR // page + 1
        yield make("place", "few tokens in many pages", page, draw.permutation(many * page)[:20], many, draw_exact)
        yield make("code", "zeros among others", page, slots, pages, draw_some_zeros)
        yield make("code", "midpoints of codes", page, slots, pages, draw_thresholds)
        if keeps_nan(spec.k) or keeps_nan(spec.v):
            yield make("nan", "NaN among others", page, slots, pages, draw_some_nan)
        if options:
            yield make("tensor-scale", "given scales", page, slots[: count // 2 + 1], pages, draw_exact, given=options)
            odd = {name: (value * np.float32(1.3)).astype(np.float32) for name, value in options.items()}
            if not any(f.block for f in (spec.k, spec.v)):  # a profile may take NVFP4's tensor scale for another kind of it
                yield make("tensor-scale", "given scales that are no powers of two", page, slots, pages, draw_thresholds, given=odd)
        if clamps(spec.k) and clamps(spec.v):
            far = lambda *args: (draw_exact(*args).astype(np.float32) * 2.0**17).astype(dtype)  # noqa: E731
            if dtype != np.float16:
                yield make("overflow", "beyond the largest number", page, slots[:9], pages, far)


def list_reads(spec: CacheSpec, options: dict[str, Any]) -> Iterator[CacheCase]:
    d, draw = spec.d, np.random.default_rng(6)

    def make(topic: str, label: str, page: int, lengths: tuple[int, ...], write: Any, given: Any = None, prefix: int = 0) -> CacheCase:
        needed = [-(-n // page) for n in lengths]
        order, table = draw.permutation(sum(needed) + 2), np.zeros((len(lengths), max(needed) + 1), np.int32)
        table[...] = order[-1]
        ends = np.cumsum(needed)
        for n, end in enumerate(ends):
            table[n, : needed[n]] = order[end - needed[n] : end]
        table[:, :prefix] = table[0, :prefix]
        k, v = (write((len(order), page, HEADS), d, fmt, draw) for fmt in (spec.k, spec.v))
        k[order[-2:]], v[order[-2:]] = lose_rows(k[order[-2:]], spec.k), lose_rows(v[order[-2:]], spec.v)
        return CacheCase(
            topic=topic, label=f"{label}, pages of {page}", spec=spec, k_cache=np.ascontiguousarray(view_rows(k, spec)),
            v_cache=write_rows(v, spec), page_table=table, lengths=np.array(lengths, np.int32), options={} if given is None else given,
        )  # fmt: skip

    for page in spec.pages:
        yield make("place", "sequences in any pages", page, (64, 128, 64), draw_rows)
        yield make("tail", "lengths of every kind", page, LENGTHS, draw_rows)
        yield make("tail", "one key", page, (1,), draw_rows)
        yield make("place", "many sequences", page, MANY, draw_rows)
        yield make("place", "pages that sequences share", page, (2 * page + 1, 3 * page, 2 * page + page // 2), draw_rows, prefix=2)
        yield make("code", "every code and scale", page, (64, 64), _draw_all)
        if options:
            yield make("tensor-scale", "given scales", page, (20, 33), draw_rows, given=options)
            odd = {name: (value * np.float32(1.3)).astype(np.float32) for name, value in options.items()}
            if not any(f.block for f in (spec.k, spec.v)):  # which two of three factors multiply first is open
                yield make("tensor-scale", "given scales that are no powers of two", page, (20, 33), draw_rows, given=odd)


def _draw_all(shape: tuple[int, ...], d: int, fmt: RowFormat, draw: np.random.Generator) -> Array:
    """Rows of any bytes; scales of tokens are numbers near 1."""
    if fmt.scaling is Scaling.NONE:
        return draw_rows(shape, d, fmt, draw)
    rows = draw.integers(0, 256, (*shape, fmt.width(d))).astype(np.uint8)
    if fmt.block is not None:
        rows[..., fmt.count_codes(d) :] &= fmt.block.scale.code_count - 1
    if fmt.scaling is Scaling.TOKEN:
        rows[..., -4:] = draw_rows(shape, d, fmt, draw)[..., -4:]
    return rows


def find_page(case: CacheCase) -> int:
    """Tokens of a page."""
    return int(view_rows(case.k_cache, case.spec).shape[1])
