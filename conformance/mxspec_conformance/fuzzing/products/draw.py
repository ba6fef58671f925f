"""Drawing products: sizes adjacent to those of tiles, operands where kernels go wrong, calls that follow each other.

What legitimate kernels do differently is not drawn: numbers that are subnormal in float32 (some units flush them), products of
scales that float32 does not hold, zeros under scales far above the products near them (some units align by them).

Codes, scales, zero points, biases and metadata are written by the judge's operand writers; here is decided which, of what size, how often.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.dot import Contract, OperandContract
from mxspec_conformance.fuzzing.products.job import PRODUCTS, ProductJob
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.draw import make_writer, takes_tensor_scale, with_tensor_scale
from mxspec_conformance.judge.products.editing import take_rows
from mxspec_conformance.judge.products.operand_writer import OperandWriter, Reach
from mxspec_conformance.judge.products.spoiling import find_place, has_one_infinity, write_positive
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.operands import Numbers, OperandKind
from mxspec_conformance.targets.product_sizes import Sizes, find_sizes

#: Products of numbers in one call, and outputs of calls whose sums may have to be added one by one.
_WORK, _FEW = 1 << 20, 160
#: Tiles to whose sizes those of products are close, and the largest sizes; the judge uses the same.
_TILES, _MOST_ROWS, _MOST_K = (8, 16, 32, 64, 128), 130, 2112
_ARRANGEMENTS = ("offset", "rows", "padded")
#: Share of calls with one size that is far beyond a tile, these sizes of m and n and of k, and the most rows of what is not large.
_FAR, _FAR_ROWS, _FAR_K, _NARROW = 0.08, (200, 256, 512, 1024), (384, 768, 1024, 1536, 2048, 4096), 4
#: Numbers other than zero in a row of few, and their largest product: together they have the eight bits of the narrowest class.
_PRODUCTS, _PER_PRODUCT = 8, 31

Ints = npt.NDArray[Any]
Pair = tuple[Numbers, Numbers]


@dataclass(frozen=True)
class _Drawing:
    """What the cases of a batch are drawn with."""

    a: OperandWriter
    b: OperandWriter
    draw: np.random.Generator
    sizes: Sizes
    capabilities: Capabilities
    contract: OperandContract
    #: Bits of sums that have one result.
    bits: int

    @property
    def writers(self) -> tuple[OperandWriter, OperandWriter]:
        return self.a, self.b

    @property
    def run(self) -> int:
        """Elements that share a scale in both operands."""
        return math.lcm(self.a.run, self.b.run)

    def chance(self, share: float) -> bool:
        return bool(self.draw.random() < share)

    def pick(self, options: Any) -> Any:
        return options[int(self.draw.integers(len(options)))]

    # Sizes.

    def rows(self) -> int:
        kind = self.draw.random()
        if kind < 0.4:
            return int(self.draw.integers(1, 10))
        tile = int(self.pick(_TILES)) * int(self.pick((1, 1, 2)))
        return min(max(tile + int(self.draw.integers(-1, 3)), 1), _MOST_ROWS)

    def size(self, *, few: bool = False) -> tuple[int, int, int]:
        """m, n and k that the target takes."""
        if self.chance(_FAR):
            return self.far_size()
        m, n = self.rows(), self.rows()
        kind = self.draw.random()
        runs = int(self.draw.integers(1, 9))
        if kind > 0.4:
            runs = max(int(self.pick((2, 4, 8, 16, 32))) + int(self.draw.integers(-1, 2)), 1)
        k = min(runs * self.run, _MOST_K)
        if kind > 0.92:
            k = max(_MOST_K // self.run + int(self.draw.integers(-2, 1)), 1) * self.run
        while few and m * n > _FEW:
            m, n = max(m // 2, 1), max(n // 2, 1) if n > m else n
        while m * n * k > _WORK and (m > 1 or n > 1):
            m, n = (max(m // 2, 1), n) if m > n else (m, max(n // 2, 1))
        return self.sizes.fit(m, n, k)

    def far_size(self) -> tuple[int, int, int]:
        """One size far beyond a tile, often a whole number of tiles; the others small."""
        few = [int(self.draw.integers(1, _NARROW + 1)) for _ in range(2)]
        if self.chance(1 / 3):
            k = max(int(self.pick(_FAR_K)) // self.run + int(self.pick((0, 0, 1))), 1) * self.run
            return self.sizes.fit(few[0], few[1], k)
        rows = int(self.pick(_FAR_ROWS)) + int(self.pick((0, 0, 1, 5)))
        m, n = (rows, few[0]) if self.chance(0.5) else (few[0], rows)
        return self.sizes.fit(m, n, few[1] * self.run)

    # Numbers.

    def integers(self, writer: OperandWriter, rows: int, k: int, bits: int | None = None) -> Ints:
        """Codes of integers, k of whose products fit into so many bits."""
        bits = self.bits if bits is None else bits
        most = math.isqrt((1 << bits) // (2 * k)) or 1
        if self.chance(0.4):
            most = max(most >> int(self.draw.integers(1, 5)), 1)
        codes = writer.pick(writer.lattice(most, self.pick((Reach.MANY, Reach.MANY, Reach.LOW, Reach.HIGH))), rows, k)
        if self.chance(0.2):  # few that are not zero
            codes = np.where(self.draw.random((rows, k)) < 4 / k, codes, writer.code_of(0.0))
        return codes

    def powers(self, most: int = 12) -> tuple[int, int]:
        """Exponents that a scale of a may have while b's cancels it."""
        (a_low, a_high), (b_low, b_high) = self.a.powers, self.b.powers
        if self.contract.held is Contract.FLOAT16:
            most = min(most, 4)
        return max(a_low, -b_high, -most), min(a_high, -b_low, most)

    def reciprocal(self, m: int, n: int, k: int) -> tuple[Ints, Ints]:
        """Exponents of both operands' runs: another for each block, which the other operand cancels, and one for each row."""
        runs = -(-k // self.run)
        low, high = self.powers()
        each = self.draw.integers(low, high + 1, runs) if high >= low else np.zeros(runs, int)
        if self.chance(0.25):
            each = np.repeat(each[:1], runs)
        found = []
        for sign, writer, rows in ((1, self.a, m), (-1, self.b, n)):
            own = np.repeat(sign * each, self.run // writer.run)[None, : -(-k // writer.run)]
            least, most = writer.powers
            shift = self.draw.integers(-2, 3, (rows, 1)) if self.chance(0.4) else np.zeros((rows, 1), int)
            found.append(np.clip(own + shift, least, most) if self.chance(0.5) else np.broadcast_to(own, (rows, own.shape[1])))
        return found[0], found[1]

    def exact(self, *, bits: int | None = None) -> Pair:
        """Integers under scales that cancel each other: sums that are certain, or nearly."""
        m, n, k = self.size()
        up, down = self.reciprocal(m, n, k)
        return self.a.numbers(self.integers(self.a, m, k, bits), up), self.b.numbers(self.integers(self.b, n, k, bits), down)

    def ordinary(self) -> Pair:
        """Numbers as they come: normal, of one sign, of heavy tails, of wide range, mostly zero."""
        m, n, k = self.size(few=True)
        sides = []
        kind = int(self.draw.integers(5))
        for writer, rows in ((self.a, m), (self.b, n)):
            x = self.draw.standard_normal((rows, k))
            if kind == 1:
                x = np.abs(x)
            elif kind == 2:
                x = np.clip(x**3, -100, 100)
            elif kind == 3:
                x = x * np.exp2(self.draw.integers(-5, 6, (rows, -(-k // 32)))).repeat(32, axis=1)[:, :k]
            elif kind == 4:
                x = np.where(self.draw.random((rows, k)) < 0.1, x, 0)
            sides.append(writer.quantized(x))
        return sides[0], sides[1]


# Recipes: (topic, the case without its dtype); None where a product has no such case.

Recipe = Callable[[_Drawing], "ProductCase | None"]


def _case(topic: str, pair: Pair, **more: Any) -> ProductCase:
    (m, k), n = pair[0].shape, pair[1].shape[0]
    return ProductCase(topic=topic, label=f"{topic}, {m} x {n} x {k}", a=pair[0], b=pair[1], **more)


def _sum(t: _Drawing) -> ProductCase:
    pair = t.exact()
    varied = any(x.scales is not None and len(np.unique(x.scales)) > 1 for x in pair)
    return _case("block-scale" if varied else "sum", pair)


def _shape(t: _Drawing) -> ProductCase:
    m, n, k = t.size()
    return _case("shape", (t.a.numbers(t.integers(t.a, m, k)), t.b.numbers(t.integers(t.b, n, k))))


def _identity(t: _Drawing) -> ProductCase:
    m, n, k = t.size()
    writers, rows = (t.writers, (m, n)) if t.chance(0.5) else (t.writers[::-1], (n, m))
    hot = writers[0].one_hot(rows[0], k, t.draw.integers(0, k, rows[0]))
    dense = writers[1].positions(rows[1], k)
    if t.chance(0.5) or t.contract.held is Contract.FLOAT16:
        low, high = (max(writers[1].powers[0], -5), min(writers[1].powers[1], 5)) if t.contract.held is not Contract.FLOAT16 else (0, 2)
        exponents = t.draw.integers(low, high + 1, (rows[1], -(-k // writers[1].run)))
        dense = writers[1].numbers(writers[1].pick(writers[1].finite, rows[1], k), exponents)
    return _case("identity", (hot, dense) if writers[0] is t.a else (dense, hot))


def _one_by_one(t: _Drawing) -> ProductCase | None:
    """One-hot rows against ordinary numbers of an affine operand, or of one that a kernel rounds: what each is rounded to."""
    chosen = [(hot, dense) for hot, dense in (t.writers, t.writers[::-1]) if dense.spec.kind is OperandKind.AFFINE]
    if not chosen:
        return None
    hot, dense = t.pick(chosen)
    m, n, k = t.size(few=True)
    rows, across = (m, n) if hot is t.a else (n, m)
    pair = hot.one_hot(rows, k, t.draw.integers(0, k, rows)), dense.quantized(t.draw.standard_normal((across, k)))
    return _case("interval", pair if hot is t.a else pair[::-1])


def _few(t: _Drawing) -> ProductCase:
    """A few ones in each row, on both sides of the ends of groups: offsets and scales of any class's certain sums."""
    m, n, k = t.size()
    ones, many = t.writers if t.chance(0.5) else t.writers[::-1]
    rows, across = (m, n) if ones is t.a else (n, m)
    codes = np.full((rows, k), ones.code_of(0.0))
    runs = max(k // many.run, 1)
    for _ in range(_PRODUCTS):
        inside = t.pick((0, many.run - 1, int(t.draw.integers(many.run))))
        places = np.minimum(t.draw.integers(0, runs, rows) * many.run + inside, k - 1)
        codes[np.arange(rows), places] = ones.code_of(1.0)
    low, high = max(many.powers[0], -2), min(many.powers[1], 2)
    powers = t.draw.integers(low, high + 1, (across, 1)) if t.chance(0.5) else np.zeros((across, 1), int)
    dense = many.numbers(many.pick(many.lattice(_PER_PRODUCT), across, k), powers)
    pair = ones.numbers(codes), dense
    return _case("block-scale", pair if ones is t.a else pair[::-1])


def _metadata(t: _Drawing) -> ProductCase | None:
    """Metadata of every nibble in turn, which no number decides, against one-hot rows or sums."""
    sparse = [p for p in t.writers if p.spec.sparsity is not None]
    if not sparse:
        return None
    m, n, k = t.size()
    writer = t.pick(sparse)
    other = t.b if writer is t.a else t.a
    rows, across = (m, n) if writer is t.a else (n, m)
    thin = writer.patterned(t.integers(writer, rows, k))
    facing = other.one_hot(across, k, t.draw.integers(0, k, across)) if t.chance(0.5) else other.numbers(t.integers(other, across, k))
    return _case("metadata", (thin, facing) if writer is t.a else (facing, thin))


def _code(t: _Drawing) -> ProductCase:
    """Single codes, each in a column of its own, against ones."""
    m, n, k = t.size()
    writers, rows = (t.writers, (m, n)) if t.chance(0.5) else (t.writers[::-1], (n, m))
    every = np.resize(t.draw.permutation(writers[0].finite), rows[0])
    codes = np.full((rows[0], k), writers[0].code_of(0.0))
    codes[np.arange(rows[0]), t.draw.integers(0, k, rows[0])] = every
    one = writers[0].numbers(codes)
    other = writers[1].numbers(np.full((rows[1], k), writers[1].code_of(1.0)))
    return _case("code", (one, other) if writers[0] is t.a else (other, one))


def _interval(t: _Drawing) -> ProductCase:
    return _case("interval", t.ordinary())


def _cancelled(t: _Drawing) -> ProductCase:
    """Each number and its negative, at random places, next to a few that stay."""
    m, n, k = t.size(few=True)
    codes = np.full((m, k), t.a.code_of(0.0))
    places = np.stack([t.draw.permutation(k)[: max(k // 4 * 2, 2)] for _ in range(m)])
    codes[np.arange(m)[:, None], places] = t.a.code_of(1.0)
    codes[np.arange(m)[:, None], places[:, 1::2]] = t.a.code_of(-1.0)
    same = np.repeat(t.integers(t.b, n, 1), k, axis=1)
    changed = np.where(t.draw.random((n, k)) < 2 / k, t.integers(t.b, n, k), same)
    return _case("sum", (t.a.numbers(codes), t.b.numbers(changed)))


def _scale_code(t: _Drawing) -> ProductCase | None:
    """Any scale code; the other operand's scales bring the products back to ordinary exponents of float32."""
    scaled = [p for p in t.writers if p.spec.kind is OperandKind.BLOCK]
    if not scaled or t.contract.held is Contract.FLOAT16 or "float16" in (t.a.spec.format, t.b.spec.format):
        return None
    m, n, k = t.size(few=True)
    writer = t.pick(scaled)
    other = t.b if writer is t.a else t.a
    rows, across = (m, n) if writer is t.a else (n, m)
    runs = k // writer.run
    # Large enough that no float32 is subnormal, and the facing numbers at most one.
    largest = float(np.abs(writer.values[writer.finite]).max())
    least = 2.0 if largest >= 2 else 1.0
    codes = writer.pick(writer.finite[np.abs(writer.values[writer.finite]) >= least], rows, k)
    small = other.finite[np.abs(other.values[other.finite]) <= 1]
    facing = other.pick(small, across, k)
    if not writer.spec.block.is_mx:
        fmt = writer.spec.block.scale
        scales = t.draw.integers(1, fmt.max_code + 1, (rows, runs))
        ends = t.draw.choice(np.array([1, 2, 7, 8, fmt.max_code]), (rows, runs))
        scales = np.where(t.draw.random((rows, runs)) < 0.25, ends, scales)
        dense = Numbers(spec=writer.dense, codes=codes.astype(np.uint8), scales=scales.astype(np.uint8))
        pair = (writer.thin(dense, np.ones(codes.shape, np.bool_)), other.numbers(facing))
    elif other.spec.kind is OperandKind.BLOCK and other.spec.block.is_mx:
        end = 127 if least == 2 else 126
        # Ours are above 2**-126, theirs at most 2**127, and the products near one.
        each = t.draw.integers(-end, 101, -(-k // t.run))
        each = np.where(t.draw.random(len(each)) < 0.25, -end, each)  # the ends are where scales are misread
        own, back = np.repeat(each, t.run // writer.run)[:runs], np.repeat(-each, t.run // other.run)[: k // other.run]
        facing = other.pick(small[np.abs(other.values[small]) >= 0.5], across, k)
        pair = (writer.numbers(codes, np.tile(own, (rows, 1))), other.numbers(facing, np.tile(back, (across, 1))))
    else:
        pair = (writer.numbers(codes, int(t.draw.integers(-90, 91))), other.numbers(facing))
    a, b = pair if writer is t.a else pair[::-1]
    return _case("scale-code", (a, b))


def _scale_end(t: _Drawing) -> ProductCase | None:
    """The ends of an affine operand's scales, its rows in any order, against numbers of at most one."""
    affine = [p for p in t.writers if p.spec.kind is OperandKind.AFFINE]
    if not affine:
        return None
    m, n, k = t.size(few=True)
    writer = t.pick(affine)
    other = t.b if writer is t.a else t.a
    rows, across = (m, n) if writer is t.a else (n, m)
    found = writer.ends(rows, k, other, first=writer is t.a)
    assert found is not None
    small = other.finite[np.abs(other.values[other.finite]) <= 1]
    pair = take_rows(found[0], t.draw.permutation(rows)), other.numbers(other.pick(small, across, k), found[1])
    return _case("scale-code", pair if writer is t.a else pair[::-1])


def _tensor_scale(t: _Drawing) -> ProductCase | None:
    scaled = [takes_tensor_scale(p.spec) for p in t.writers]
    if not any(scaled):
        return None
    pair = t.exact() if t.chance(0.6) else t.ordinary()
    low, high = (-3, 4) if t.contract.held is Contract.FLOAT16 else (-16, 17)
    sides = []
    for numbers, takes in zip(pair, scaled, strict=True):
        factor = math.ldexp(1.0, int(t.draw.integers(low, high)))
        if t.chance(0.5):
            factor *= float(np.float32(t.draw.random() + 0.5))
        sides.append(with_tensor_scale(numbers, float(np.float32(factor))) if takes and t.chance(0.8) else numbers)
    return _case("tensor-scale", (sides[0], sides[1]))


def _epilogue(t: _Drawing) -> ProductCase | None:
    takes = [o for o in ("alpha", "beta", "c", "bias") if t.capabilities.has("matmul", o)]
    if not takes:
        return None
    pair = t.exact(bits=min(t.bits, 18)) if t.chance(0.7) else t.ordinary()
    m, n = pair[0].shape[0], pair[1].shape[0]
    dtype = DTYPES[t.capabilities.out_dtypes[0]]
    options: dict[str, Any] = {}

    def factor() -> float:
        near = t.pick((0.5, -1.0, 2.0, -0.25, 4.0, 1 / 3, float(t.draw.standard_normal())))
        return float(np.float32(near))

    def added(shape: tuple[int, ...]) -> Any:
        x = t.draw.integers(-40, 41, shape) if t.chance(0.7) else t.draw.standard_normal(shape) * 8
        return x.astype(np.float32).astype(dtype)

    wanted = [o for o in ("alpha", "c", "bias") if o in takes and t.chance(0.6)] or [t.pick([o for o in takes if o != "beta"] or takes)]
    if "alpha" in wanted:
        options["alpha"] = 0.0 if t.chance(0.05) else factor()
    if "c" in wanted and "beta" in takes:
        options |= {"beta": factor(), "c": added((m, n))}
    if "bias" in wanted:
        options["bias"] = added((n,))
    return _case("epilogue", pair, options=options) if options else None


def _special(t: _Drawing) -> ProductCase | None:
    """A NaN or an infinity in one row of one operand; no zeros and one sign, so that nothing else becomes NaN."""
    m, n, k = t.size(few=True)
    at = int(t.draw.integers(k))
    pair = [write_positive(writer, rows, k, at) for writer, rows in ((t.a, m), (t.b, n))]
    place = int(t.draw.integers(2))
    writer, other, numbers = t.writers[place], t.writers[1 - place], pair[place]
    row = int(t.draw.integers(numbers.shape[0]))
    injected = [
        (topic, side)
        for topic, _, side in writer.spoil(numbers, row, find_place(numbers, row, at), at // writer.run)
        if topic != "inf" or has_one_infinity(writer, other)
    ]
    if not injected:
        return None
    topic, pair[place] = t.pick(injected)
    if topic == "inf" and writer.spec.kind is OperandKind.PLAIN and t.chance(0.5):
        held = pair[place].held
        pair[place] = pair[place].with_held(np.where(np.isinf(held), -held, held))
    return _case(topic, (pair[0], pair[1]))


#: Recipe -> how often it is used.
_RECIPES: tuple[tuple[Recipe, float], ...] = (
    (_sum, 26), (_shape, 10), (_identity, 10), (_code, 6), (_interval, 10), (_cancelled, 5), (_scale_code, 8),
    (_tensor_scale, 9), (_epilogue, 10), (_special, 6), (_few, 8), (_one_by_one, 8), (_scale_end, 6), (_metadata, 8),
)  # fmt: skip
_WEIGHTS = np.array([w for _, w in _RECIPES]) / sum(w for _, w in _RECIPES)


def draw_products(job: ProductJob, capabilities: Capabilities, number: int) -> list[ProductCase]:
    """The calls of one batch, in order: the same for the same seed and number on every machine."""
    draw = job.generator(number)
    product = job.product
    drawing = _Drawing(
        a=make_writer(product.a, draw), b=make_writer(product.b, draw), draw=draw, sizes=find_sizes(product, capabilities.product_shapes),
        capabilities=capabilities, contract=job.contract, bits=min(job.accumulator.sure_bits, 24),
    )  # fmt: skip
    cases: list[ProductCase] = []
    while len(cases) < PRODUCTS:
        if cases and drawing.chance(0.12):  # the shape of the last call again, with other operands
            cases.append(_again(drawing, cases[-1]))
            continue
        case = _RECIPES[int(draw.choice(len(_RECIPES), p=_WEIGHTS))][0](drawing)
        if case is None:
            continue
        if drawing.chance(0.06) and not case.options:
            arrangement = str(drawing.pick(_ARRANGEMENTS))
            case = replace(case, topic="memory", before=("arranged", arrangement), label=f"{case.label}, in memory: {arrangement}")
        # Addends have the first output dtype.
        dtype = capabilities.out_dtypes[0] if case.options else str(drawing.pick(capabilities.out_dtypes))
        cases.append(replace(case, out_dtype=dtype))
    return cases


def _again(t: _Drawing, last: ProductCase) -> ProductCase:
    (m, k), n = last.a.shape, last.b.shape[0]
    pair = (t.a.numbers(t.integers(t.a, m, k)), t.b.numbers(t.integers(t.b, n, k)))
    return replace(_case("state", pair), out_dtype=last.out_dtype, label=f"state, {m} x {n} x {k}, after a call of that shape")
