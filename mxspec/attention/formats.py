"""What a row of a KV cache is, and how a declaration says which rows, pages and mask a kernel has."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import ml_dtypes
import numpy as np

from mxspec.formats import BlockFormat, get_block


class Scaling(Enum):
    """Where the scales of a row come from."""

    #: The row holds numbers.
    NONE = auto()
    #: float32, given with the call: one for all heads, or one for each.
    GIVEN = auto()
    #: One float32 for each token and head, stored behind the codes.
    TOKEN = auto()
    #: A scale byte for each block along the head, stored behind the codes.
    BLOCK = auto()


@dataclass(frozen=True, slots=True)
class RowFormat:
    """A row: the d numbers of one token and one head. Codes come first, then the scales that are stored."""

    name: str
    scaling: Scaling
    #: The element format of codes; of plain numbers their dtype.
    element: str
    block: BlockFormat | None = None

    @property
    def dtype(self) -> Any:
        """The dtype in which a kernel has rows: bytes, or plain numbers."""
        plain = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
        return np.dtype(plain[self.element]) if self.scaling is Scaling.NONE else np.dtype(np.uint8)

    @property
    def takes_scale(self) -> bool:
        """Whether a float32 scale of the call multiplies: of FP8, and NVFP4's tensor scale."""
        return self.scaling is Scaling.GIVEN or (self.block is not None and self.block.has_tensor_scale)

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return 8 * self.dtype.itemsize if self.block is None else self.block.element.bits

    def count_codes(self, d: int) -> int:
        """Items of the codes of a row of d numbers."""
        return d if self.scaling is Scaling.NONE else d * self.bits // 8

    def count_scales(self, d: int) -> int:
        """Bytes of the scales of a row."""
        return d // self.block.k if self.block is not None else 4 if self.scaling is Scaling.TOKEN else 0

    def width(self, d: int) -> int:
        """Items of a row."""
        return self.count_codes(d) + self.count_scales(d)

    def columns(self, width: int) -> int:
        """d of a row of so many items."""
        if self.block is None:
            return width - self.count_scales(0)
        return width * 8 * self.block.k // (self.bits * self.block.k + 8)


def _list_formats() -> list[RowFormat]:
    plain = [RowFormat(n, Scaling.NONE, n) for n in ("float32", "float16", "bfloat16")]
    given = [RowFormat(f"fp8_{e}", Scaling.GIVEN, e) for e in ("e4m3", "e5m2")]
    stored = [RowFormat(f"{n}-token", Scaling.TOKEN, e) for n, e in (("int8", "int8"), ("fp8_e4m3", "e4m3"))]
    names = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp4", "nvfp4")
    return [*plain, *given, *stored, *(RowFormat(n, Scaling.BLOCK, get_block(n).element.name, get_block(n)) for n in names)]


ROW_FORMATS = {fmt.name: fmt for fmt in _list_formats()}
#: Formats of queries: rows of numbers, or of FP8 codes under a given scale.
QUERIES = ("float32", "float16", "bfloat16", "fp8_e4m3")
#: Dtypes to which weights may be rounded before they multiply V.
WEIGHTS = ("float32", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2")
#: Tokens of a page, where a declaration names none: the judge tries each.
PAGES = (1, 16, 64)
#: Heads have a multiple of this many numbers.
HEAD = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSpec:
    """A cache, and attention over it."""

    k: RowFormat
    v: RowFormat
    #: The format of queries; None: no attention is meant.
    q: RowFormat | None = None
    #: Whether pages are [heads, tokens] and not [tokens, heads].
    heads_first: bool = False
    #: Whether the scales of V lie as `caches.find_swizzled` says.
    swizzled: bool = False
    #: Tokens of a page; 0: any.
    page: int = 0
    d: int = HEAD
    #: Whether K and V are no pages, but the rows of all sequences one behind the other.
    ragged: bool = False
    #: Whether the first query belongs to the first key, and not the last to the last.
    top_left: bool = False
    #: Whether given scales of K and V are one for each head, and not one for all.
    per_head: bool = False
    #: The dtype of weights; "": not said.
    weights: str = ""
    #: Further words, as they were given.
    words: tuple[str, ...] = field(default=())

    @property
    def text(self) -> str:
        """As a target writes it."""
        formats = ([] if self.q is None else [self.q.name]) + [self.k.name] + ([] if self.v == self.k else [self.v.name])
        return " @ ".join(formats) + ("/" + "+".join(self.words) if self.words else "")

    @property
    def name(self) -> str:
        """As requirement ids have it."""
        return self.text.replace(" ", "").replace("/", "+")

    @property
    def pages(self) -> tuple[int, ...]:
        """Sizes of pages to try."""
        return (self.page,) if self.page else tuple(p for p in PAGES if p % 4 == 0 or not self.swizzled)

    @property
    def coarsest(self) -> str:
        """The coarsest dtype that weights may have."""
        return self.weights or ("bfloat16" if self.v.scaling is Scaling.NONE else "fp8_e4m3")


def parse_cache(text: str) -> CacheSpec:
    """A cache from `K`, or `K @ V`, then / and words: `nvfp4/heads-first+v-4x4`. Raises ValueError, saying what is allowed."""
    return _parse(text, queries=False)


def parse_attention(text: str) -> CacheSpec:
    """Attention from `Q @ K`, or `Q @ K @ V`, then / and words: `bfloat16 @ fp8_e4m3/ragged`. Raises ValueError."""
    return _parse(text, queries=True)


def _parse(text: str, *, queries: bool) -> CacheSpec:
    formats, _, words = text.partition("/")
    names = [part.strip() for part in formats.split("@")]
    first = 1 if queries else 0
    if not first < len(names) <= first + 2:
        shown = "Q @ K or Q @ K @ V, such as 'bfloat16 @ fp8_e4m3'" if queries else "K or K @ V, such as 'fp8_e4m3'"
        raise ValueError(f"{text!r} is not {shown}")
    for name, known in [*((names[0], QUERIES) for _ in range(first)), *((n, tuple(ROW_FORMATS)) for n in names[first:])]:
        if name not in known:
            raise ValueError(f"{text!r} names {name!r}; allowed are {', '.join(known)}")
    found: dict[str, Any] = {"k": ROW_FORMATS[names[first]], "v": ROW_FORMATS[names[-1]]}
    if queries:
        found["q"] = ROW_FORMATS[names[0]]
    given = tuple(filter(None, words.split("+")))
    for word in given:
        found |= _read_word(text, word, queries=queries)
    spec = CacheSpec(**found, words=given)
    if spec.swizzled and (spec.v.block is None or spec.page % 4 or spec.ragged or spec.v.count_scales(spec.d) % 4):
        raise ValueError(f"{text!r}: v-4x4 is of V in a multiple of 4 blocks, and of pages of a multiple of 4 tokens")
    return spec


def _read_word(text: str, word: str, *, queries: bool) -> dict[str, Any]:
    name, _, number = word.partition("-")
    if name in ("page", "d") and number.isascii() and number.isdigit() and 0 < int(number) <= 1024:
        if name == "page" or int(number) % HEAD == 0:
            return {name: int(number)}
        raise ValueError(f"{text!r}: d is a multiple of {HEAD}")
    flags = {"heads-first": "heads_first", "v-4x4": "swizzled", "per-head": "per_head"} | (
        {"ragged": "ragged", "top-left": "top_left"} if queries else {}
    )
    if word in flags:
        return {flags[word]: True}
    if queries and name == "p" and number in WEIGHTS:
        return {"weights": number}
    more = f", {', '.join(f'p-{w}' for w in WEIGHTS)}" if queries else ""
    raise ValueError(f"{text!r} has {word!r}; allowed are {', '.join(flags)}, page-N, d-N{more}")
