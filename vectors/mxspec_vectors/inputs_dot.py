"""The products of the vectors: operands for one kind of mistake each, as choices from tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from zlib import crc32

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.elements import decode_table
from mxspec.formats import BLOCKS, BlockFormat, get_block
from mxspec_vectors.recipes_dot import PARTS, Choice, Side, mix

Floats = npt.NDArray[np.float64]

#: dtype of a plain side -> NumPy's dtype, bits of the significand below the leading one.
_PLAIN: dict[str, tuple[Any, int]] = {
    "float32": (np.dtype(np.float32), 23), "bfloat16": (np.dtype(ml_dtypes.bfloat16), 7), "float16": (np.dtype(np.float16), 10),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DotInput:
    """One product."""

    slug: str
    topic: str
    flags: tuple[str, ...]
    #: m, n, k.
    shape: tuple[int, int, int]
    recipe: tuple[Any, ...]
    out: str = "float32"
    #: float32 bits of the tensor scale of each side.
    tensor_scales: tuple[int | None, int | None] = (None, None)


@dataclass(frozen=True)
class OperandWriter:
    """What one operand can consist of: entries (codes, or the bits of floats) by what they are worth."""

    format: str
    #: The other side's format, whose blocks a plain side's powers of two follow.
    other: str

    @cached_property
    def block(self) -> BlockFormat | None:
        """The block format; None: a plain side."""
        return get_block(self.format) if self.format in BLOCKS else None

    @cached_property
    def side(self) -> Side:
        """The side as files state it."""
        if self.block is not None:
            return Side(format=self.format, run=self.block.k, digits=1 if self.block.element.bits <= 4 else 2)
        dtype, fraction = _PLAIN[self.format]
        return Side(format=self.format, run=get_block(self.other).k, digits=2 * dtype.itemsize, fraction=fraction)

    @cached_property
    def _known(self) -> tuple[npt.NDArray[np.uint32], Floats]:
        """Entries and their values: all codes that are numbers; of a plain side small integers."""
        if self.block is not None:
            values = decode_table(self.block.element).astype(np.float64)
            entries = np.flatnonzero(np.isfinite(values)).astype(np.uint32)
            return entries, values[entries]
        integers = np.concatenate([np.arange(257), -np.arange(1, 257)]).astype(np.float64)
        return self.encode(integers), integers

    def encode(self, values: Floats) -> npt.NDArray[np.uint32]:
        """The bits of numbers that a plain side holds."""
        dtype, _ = _PLAIN[self.format]
        narrow = values.astype(np.float32).astype(dtype)
        return narrow.view(f"u{dtype.itemsize}").astype(np.uint32)

    def of(self, value: float) -> int:
        """The first entry of a value."""
        entries, values = self._known
        return int(entries[np.flatnonzero(values == value)[0]])

    @property
    def finite(self) -> list[int]:
        """Every code that is a number; of a plain side numbers of every bit."""
        return self._known[0].tolist() if self.block is not None else self.numbers()

    def numbers(self, *, positive: bool = False, bits: int = 24) -> list[int]:
        """Ordinary numbers within 64 of each other: of a plain side with significands of so many bits, if it has them."""
        if self.block is None:
            fraction = min(_PLAIN[self.format][1], bits - 1)
            words = mix(len(self.format), 16)
            exponents = (words % np.uint32(6)).astype(np.int64) - 3
            low = (words >> np.uint32(8)).astype(np.float64) / 2.0**24
            values = np.ldexp(1 + np.floor(low * 2.0**fraction) / 2.0**fraction, exponents)
            return _whole(self.encode(values if positive else np.where(words >> np.uint32(7) & np.uint32(1) == 1, -values, values)))
        entries, values = self._known
        most = np.abs(values).max()
        return _whole(entries[(values > 0 if positive else values != 0) & (np.abs(values) * 64 >= most)])

    def integers(self, most: int, reach: str = "many", *, positive: bool = False) -> list[int]:
        """Entries that are multiples of one power of two, at most `most` times it.

        reach: the power that gives the most entries, the lowest or the highest one that gives several.
        """
        entries, values = self._known
        found = []
        for power in range(-20, 20):
            steps = np.ldexp(values, -power)
            fits = (np.abs(steps) <= most) & (steps == np.rint(steps)) & ((values > 0) if positive else True)
            if (values[fits] != 0).any():
                found.append(entries[fits].tolist())
        rich = [codes for codes in found if len(codes) > 6] or found
        chosen = {"many": max(found, key=len), "low": rich[0], "high": rich[-1]}[reach]
        # Of a plain side's many integers some, the smallest and the largest among them.
        return chosen if self.block is not None or len(chosen) <= 17 else [chosen[i * (len(chosen) - 1) // 16] for i in range(17)]

    def multiples(self, unit: float, most: float) -> list[int]:
        """Entries that are multiples of a number, up to another."""
        entries, values = self._known
        step = np.abs(values) / unit
        return _whole(entries[(np.abs(values) <= most) & (step == np.rint(step))])

    @property
    def largest(self) -> int:
        """The entry of the largest number that a design uses."""
        entries, values = self._known
        return int(entries[np.argmax(values)])

    def power(self, exponent: int) -> int:
        """The scale code of a power of two."""
        if self.block is None or self.block.is_mx:
            return 127 + exponent
        scales = decode_table(self.block.scale).astype(np.float64)
        return int(np.flatnonzero(scales == math.ldexp(1, exponent))[0])

    @property
    def powers(self) -> tuple[int, int]:
        """The exponents that a design may use freely."""
        if self.format == "float16":
            return -6, 6
        return (-12, 12) if self.block is None or self.block.is_mx else (-5, 7)

    @property
    def is_mx(self) -> bool:
        """Whether the side has E8M0 scales."""
        return self.block is not None and self.block.is_mx


def _whole(entries: npt.NDArray[np.uint32]) -> list[int]:
    return [int(e) for e in entries]


@dataclass
class Desk:
    """Makes the products of one pair of formats."""

    a: OperandWriter
    b: OperandWriter
    #: Part -> name -> entries.
    tables: dict[str, dict[str, list[int]]] = field(default_factory=lambda: {part: {} for part in PARTS})

    def writer(self, which: str) -> OperandWriter:
        """One side."""
        return self.a if which == "a" else self.b

    def choose(self, part: str, kind: str, name: str, entries: Sequence[int], *numbers: int) -> Choice:
        """A choice from a table, which the file then has."""
        known = self.tables[part].setdefault(name, list(entries))
        assert known == list(entries), name
        return [kind, name, *numbers]

    def draw(self, which: str, slug: str, name: str, entries: Sequence[int]) -> Choice:
        """Entries without a pattern."""
        return self.choose(which, "draw", name, entries, crc32(f"{slug}/{which}".encode()) & 0xFFFF)

    def scale(self, which: str, exponent: int = 0) -> Choice:
        """One scale for all."""
        name = "one" if exponent == 0 else f"2^{exponent}"
        return self.choose(f"{which}_scales", "turn", name, [self.writer(which).power(exponent)], 0, 0)

    def make(
        self, topic: str, slug: str, flags: str, shape: tuple[int, int, int], parts: Mapping[str, Choice], *,
        edits: Sequence[Sequence[Any]] = (), out: str = "float32", tensor_scales: Sequence[float | None] = (None, None),
    ) -> DotInput:  # fmt: skip
        """One product; scales are one where none are given."""
        of_a, of_b = (None if t is None else int(np.float32(t).view(np.uint32)) for t in tensor_scales)
        choices = [list(parts[part] if part in parts else self.scale(part[0])) for part in PARTS]
        return DotInput(
            slug=slug, topic=topic, flags=tuple(flags.split()), shape=shape, recipe=("sides", *choices, *edits), out=out,
            tensor_scales=(of_a, of_b),
        )  # fmt: skip

    def integers(self, slug: str, k: int, bits: int = 24, reach: str = "many", *, positive: bool = False) -> dict[str, Choice]:
        """Both sides of a sum that so many bits hold in every order."""
        most = min(max(math.isqrt((1 << bits) // (2 * k)), 1), 64)
        entries = {w: self.writer(w).integers(most, reach, positive=positive) for w in "ab"}
        wanted = f"up-to-{most}-{reach}" + "-positive" * positive
        return {w: self.draw(w, slug, self._name(w, entries[w], wanted), entries[w]) for w in "ab"}

    def _name(self, part: str, entries: Sequence[int], wanted: str) -> str:
        """The name of a table of these entries, which may be there already."""
        return next((name for name, known in self.tables[part].items() if known == list(entries)), wanted)

    def list_inputs(self) -> Iterator[DotInput]:
        """Every product, in the order of the file."""
        for group in (
            self.identities(), self.sums(), self.block_scales(), self.shapes(), self.intervals(), self.scale_codes(),
            self.tensor_scales(), self.specials(), self.overflows(), self.zero_blocks(), self.outputs(),
        ):  # fmt: skip
            yield from group

    @property
    def run(self) -> int:
        """Elements to a block; both sides' are alike."""
        assert self.a.side.run == self.b.side.run
        return self.a.side.run

    def identities(self) -> Iterator[DotInput]:
        """One-hot rows of one side."""
        k = 3 * self.run
        for which, other in (("a", "b"), ("b", "a")):
            writer = self.writer(other)
            hot = self.choose(which, "hot", "zero-one", [self.writer(which).of(0.0), self.writer(which).of(1.0)], 5, 0)
            turn = self.choose(other, "turn", "short", writer.numbers(bits=8), 5, 7)
            # No number is beyond float16.
            top = 132 - max(int(np.frexp(np.abs(writer._known[1]).max())[1]) - 9, 0) * (writer.block is not None)
            spread = (
                [0x21 + 5 * i for i in range(11)] if writer.block is not None and not writer.is_mx else [top - 10 + i for i in range(11)]
            )
            scales = self.choose(f"{other}_scales", "turn", "spread", spread, 3, 4)
            parts = {which: hot, other: turn, f"{other}_scales": scales}
            shape = (k, 1, k) if which == "a" else (1, k, k)
            yield self.make("identity", f"identity-{which}", "product-scale decode-table position-code", shape, parts)
        for which, other in (("a", "b"), ("b", "a")):
            writer = self.writer(which)
            rows = -(-len(writer.finite) // 32)
            parts = {
                which: self.choose(which, "turn", "finite", writer.finite, 32, 1),
                other: self.choose(other, "hot", "zero-one", [self.writer(other).of(0.0), self.writer(other).of(1.0)], 1, 0),
            }
            yield self.make("code", f"code-{which}", "decode-table nibble-order", (rows, 32, 32) if which == "a" else (32, rows, 32), parts)

    def sums(self) -> Iterator[DotInput]:
        """Integers whose partial sums are exact in every order."""
        for slug, shape, bits, reach in (
            ("sum-8", (3, 4, 96), 8, "many"), ("sum-14", (2, 3, 512), 14, "many"), ("sum", (2, 3, 96), 24, "many"),
            ("sum-low", (1, 3, 160), 24, "low"), ("sum-high", (2, 2, 256), 24, "high"), ("sum-640", (3, 1, 640), 24, "many"),
            ("sum-2048", (1, 2, 2048), 24, "many"),
        ):  # fmt: skip
            yield self.make("sum", slug, "product-width product-tail", shape, self.integers(slug, shape[2], bits, reach))
        slug = "sum-positive"
        yield self.make("sum", slug, "product-width", (2, 1, 512), self.integers(slug, 512, positive=True))
        k, zero = 256, self.a.of(0.0)
        ends = [(r, c, v) for r in range(3) for c, v in ((5 * r, 1.0), (k - 1 - r, -1.0))]
        edits = [["a", r, c, f"{self.a.of(v):0{self.a.side.digits}x}"] for r, c, v in ends]
        a = self.choose("a", "turn", "zero", [zero], 0, 0)
        b = self.choose("b", "turn", "one-two", [self.b.of(1.0), self.b.of(1.5 if self.b.block else 2.0)], 1, 0)
        yield self.make("sum", "cancel", "product-tail", (3, 2, k), {"a": a, "b": b}, edits=edits)

    def block_scales(self) -> Iterator[DotInput]:
        """Reciprocal scales, and another scale for each row."""
        low = max(self.a.powers[0], -self.b.powers[1])
        high = min(self.a.powers[1], -self.b.powers[0])
        count = high - low + 1
        step = next(s for s in (7, 5, 3) if math.gcd(s, count) == 1)
        ladder = [low + step * i % count for i in range(count)]
        far = [-30, 30] if (self.a.is_mx or self.a.format in ("float32", "bfloat16")) and self.b.is_mx else []
        for slug, powers, blocks, shape in (
            ("reciprocal-4", ladder, 4, (3, 4)), ("reciprocal-16", ladder, 16, (2, 3)), ("reciprocal-far", far, 4, (2, 3)),
        ):  # fmt: skip
            if not powers:
                continue
            k, name = blocks * self.run, "far" if powers is far else "ladder"
            scales = {
                f"{w}_scales": self.choose(f"{w}_scales", "turn", name, [self.writer(w).power(sign * p) for p in powers], 0, 1)
                for w, sign in (("a", 1), ("b", -1))
            }
            yield self.make("block-scale", slug, "product-scale", (*shape, k), self.integers(slug, k) | scales)
        slug, k = "row-scales", 3 * self.run
        yield self.make("block-scale", slug, "product-scale", (3, 5, k), self.integers(slug, k) | self.scale_rows())

    def scale_rows(self) -> dict[str, Choice]:
        """Another scale for each row of either side."""
        powers = range(-3, 4)
        return {
            part: self.choose(part, "turn", "rows", [self.writer(part[0]).power(p) for p in powers], 1, 0)
            for part in ("a_scales", "b_scales")
        }

    def shapes(self) -> Iterator[DotInput]:
        """One row, one column, many blocks."""
        for m, n, blocks in ((1, 1, 1), (1, 33, 3), (33, 1, 5), (3, 2, 33)):
            slug, k = f"shape-{m}x{n}", blocks * self.run
            yield self.make("shape", slug, "product-tail product-scale", (m, n, k), self.integers(slug, k) | self.scale_rows())

    def intervals(self) -> Iterator[DotInput]:
        """Ordinary numbers: most have no one result."""
        for slug, k, out, positive in (
            ("ordinary", 512, "float32", False), ("magnitudes", 1024, "float32", True), ("ordinary-bfloat16", 256, "bfloat16", False),
            ("ordinary-float16", 256, "float16", False),
        ):  # fmt: skip
            name = "magnitudes" if positive else "numbers"
            parts = {w: self.draw(w, slug, name, self.writer(w).numbers(positive=positive)) for w in "ab"}
            low, high = (-1, 1) if out == "float32" else (-5, -3)
            for w in "ab":
                powers = [self.writer(w).power(p) for p in range(low, high + 1)]
                parts[f"{w}_scales"] = self.draw(f"{w}_scales", slug, f"around-{low + 1}", powers)
            yield self.make(
                "interval", slug, "product-width product-output", (1, 2, k) if slug == "ordinary" else (2, 1, k), parts, out=out
            )

    def scale_codes(self) -> Iterator[DotInput]:
        """The ends of the scale formats."""
        for which, other in (("a", "b"), ("b", "a")):
            writer, facing = self.writer(which), self.writer(other)
            if writer.block is None:
                continue
            slug, k = f"scale-ends-{which}", 4 * self.run
            if not writer.is_mx:
                ends = [0x01, 0x02, 0x07, 0x08, 0x7E, 0x38]
                parts = self.integers(slug, k)
                parts[f"{which}_scales"] = self.choose(f"{which}_scales", "turn", "ends", ends, 1, 0)
                shape = (6, 3, k) if which == "a" else (3, 6, k)
                yield self.make("scale-code", slug, "scale-subnormal scale-saturation", shape, parts)
                continue
            entries, values = writer._known
            # No number times the smallest scale is subnormal in float32: units may flush these.
            least = 2.0 if np.abs(values).max() >= 2 else 1.0
            large = entries[(np.abs(values) >= least) & (np.abs(values) <= 8 * least)].tolist()
            small = facing.multiples(0.125, 1.0)
            end = 127 if least == 2 else 126
            for sign in (-1, 1) if facing.block is None else (-1,):
                own = sign * (end if facing.is_mx else 100)
                parts = {
                    which: self.draw(which, slug, "large", large), other: self.draw(other, slug, "small", small),
                    f"{which}_scales": self.scale(which, own), f"{other}_scales": self.scale(other, -own if facing.is_mx else 0),
                }  # fmt: skip
                name = slug if facing.is_mx else f"{slug}-{'low' if sign < 0 else 'high'}"
                yield self.make("scale-code", name, "e8m0-edges", (3, 3, k), parts)

    def tensor_scales(self) -> Iterator[DotInput]:
        """NVFP4's second scales."""
        takes = [writer.block is not None and writer.block.has_tensor_scale for writer in (self.a, self.b)]
        if not any(takes):
            return
        k = 256
        for slug, values in (("tensor-powers", (0.125, 32.0)), ("tensor-sides", (4.0, 0.5)), ("tensor-any", (0.3712, 1.8245))):
            both = [v if t else None for v, t in zip(values, takes, strict=True)]
            parts = self.integers(slug, k, positive=slug == "tensor-any")
            yield self.make("tensor-scale", slug, "tensor-scale", (3, 3, k), parts, tensor_scales=both)

    def specials(self) -> Iterator[DotInput]:
        """A NaN or an Inf in row 1 of one side; no zeros and one sign, so that nothing else is NaN."""
        k = 3 * self.run
        for which in "ab":
            writer = self.writer(which)
            for topic, part, entry, slug in self._spoilers(writer):
                digits = 2 if part == "scales" else writer.side.digits
                where = [f"{which}_scales", 1, 2] if part == "scales" else [which, 1, k - 3]
                name = f"{slug}-{which}"
                parts = self.integers(name, k, 14, positive=True)
                yield self.make(
                    topic, name, "product-nan", (3, 2, k) if which == "a" else (2, 3, k), parts, edits=[[*where, f"{entry:0{digits}x}"]]
                )

    def _spoilers(self, writer: OperandWriter) -> Iterator[tuple[str, str, int, str]]:
        """(topic, codes or scales, entry, slug)."""
        if writer.block is None:
            nan, inf = writer.encode(np.array([np.nan, np.inf])).tolist()
            yield from (("nan", "codes", nan, "nan"), ("inf", "codes", inf, "inf"))
            return
        if writer.block.scale.nan_code is not None:
            yield "nan", "scales", writer.block.scale.nan_code, "nan-scale"
        values = decode_table(writer.block.element).astype(np.float64)
        for topic, found in (("nan", np.isnan(values)), ("inf", np.isinf(values))):
            for code in np.flatnonzero(found)[-1:].tolist():
                yield topic, "codes", code, f"{topic}-code-{code:02x}"

    def overflows(self) -> Iterator[DotInput]:
        """Sums beyond the output's largest number, and one that is not."""
        for out, wanted in (("float32", 65), ("float16", 8)):
            k, ends = 256, []
            parts: dict[str, Choice] = {}
            for w in "ab":
                writer = self.writer(w)
                top = min(wanted, writer.powers[1] if writer.powers[1] < 12 else wanted)
                parts[w] = self.choose(w, "turn", "largest", [writer.largest], 0, 0)
                parts[f"{w}_scales"] = self.scale(w, top)
                ends.append(math.ldexp(float(writer._known[1].max()), top))
            largest = 3.5e38 if out == "float32" else 65536.0
            if k * ends[0] * ends[1] > largest:
                parts["a"] = self.choose("a", "head", "zero-largest", [self.a.of(0.0), self.a.largest], k, 0)
                yield self.make("overflow", f"overflow-{out}", "product-output", (2, 1, k), parts, out=out)

    def zero_blocks(self) -> Iterator[DotInput]:
        """Zeros under a large scale next to ones."""
        if not self.a.is_mx:
            return
        zero, one = self.a.of(0.0), self.a.of(1.0)
        a = self.choose("a", "head", "one-zero", [one, zero], 0, self.run)
        b = self.choose("b", "turn", "ones", [self.b.of(1.0)], 0, 0)
        scales = self.choose("a_scales", "head", "one-large", [self.a.power(0), self.a.power(60)], 0, 1)
        yield self.make("zero-block", "zero-block", "product-zeros", (1, 2, 4 * self.run), {"a": a, "b": b, "a_scales": scales})

    def outputs(self) -> Iterator[DotInput]:
        """Counts of ones about the midpoints of 16-bit outputs, and certain sums in these dtypes."""
        for out, first, k in (("bfloat16", 255, 288), ("float16", 2046, 2080)):
            a = self.choose("a", "head", "zero-one", [self.a.of(0.0), self.a.of(1.0)], 1, first)
            b = self.choose("b", "turn", "signs", [self.b.of(1.0), self.b.of(-1.0)], 1, 0)
            yield self.make("sum", f"ties-{out}", "product-output", (8, 2, k), {"a": a, "b": b}, out=out)
        for out in ("bfloat16", "float16"):
            slug = f"sum-14-{out}"
            yield self.make("sum", slug, "product-output product-width", (2, 3, 512), self.integers(slug, 512, 14), out=out)
