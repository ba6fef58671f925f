"""Threads about operations that people ship, replayed with the kernels of the tests: `python -m tests.threads`
judges them and those of the laboratory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from mxspec_conformance.mutants import call_mutants as calls, layout_mutants as layouts
from mxspec_lab.products.kernels import AnyKernel, Floats, Kernel, KernelTarget, add_float32, finish_float32
from mxspec_lab.products.kinds import KindKernel
from mxspec_lab.products.kinds_right import zero_steps
from mxspec_lab.threads import REFUSED
from mxspec_lab.threads.schema import Family, Level, Maker, Refused, Source, Thread

from tests import float_scale_kernels as float_scales, fused_kernels as fused, grouped_kernels as grouped
from tests.judge.attention_kernels import WRONG as ATTENTION, Variation
from tests.judge.cache_writers import Cache, Writer, _by_heads

_P, _G, _F, _A, _S, _L, _C = (
    Family.PRODUCTS, Family.GROUPED, Family.FUSED, Family.CACHES, Family.SCALES, Family.LAYOUTS, Family.CALLS,
)  # fmt: skip
QUICK, NOTE = Level.QUICK, Source.NOTE
Array = Any
F32, BF16 = np.float32, ml_dtypes.bfloat16

# Products


def kernel(one: AnyKernel) -> Maker:
    """A product."""
    return lambda: KernelTarget(one)


def pair(right: AnyKernel, **steps: Any) -> dict[str, Maker]:
    """Both targets of a product: some steps of the broken one are others."""
    return {"broken": kernel(replace(right, **steps)), "fixed": kernel(right)}


class Chosen:
    """A product by one of two kernels, as the sizes say."""

    def __init__(self, right: AnyKernel, other: AnyKernel, when: Callable[[int, int, int], bool]) -> None:
        self.kernels, self.when = (right, other), when
        self.OPERANDS, self.OUT_DTYPES = dict(zip("ab", right.product, strict=True)), list(right.out_dtypes)

    def matmul(self, a: Any, b: Any, out_dtype: str) -> Array:
        """The product."""
        (m, k), n = a.shape, b.shape[0]
        return self.kernels[self.when(m, n, k)].matmul(a, b, out_dtype)


def chosen(right: AnyKernel, when: Callable[[int, int, int], bool], **steps: Any) -> dict[str, Maker]:
    """Both targets, of which the broken one has other steps in calls of some m, n and k."""
    return {"broken": lambda: Chosen(right, replace(right, **steps), when), "fixed": lambda: Chosen(right, right, when)}


_nvfp4, _mxfp4, _mxfp8, _mxint8 = (Kernel(name="kernel", product=(f, f)) for f in ("nvfp4", "mxfp4", "mxfp8_e4m3", "mxint8"))
_zeros, _zeros64 = (KindKernel(name="kernel", **zero_steps(product=("float16", f"int4-g{g}-zero-float16"))) for g in (32, 64))


def by_columns(shared: Array) -> Array:
    """Scales, or the like, read column by column."""
    return np.ascontiguousarray(shared.T).reshape(shared.shape)


def of_first(shared: Array) -> Array:
    """Those of a row's first block for all its blocks."""
    return np.repeat(shared[:, :1], shared.shape[1], axis=1)


def of_old_memory(scales: Array) -> Array:
    """Bytes of which no two neighbours are what they should be."""
    return (scales + np.arange(scales.size).reshape(scales.shape) % 5 + 1).astype(np.uint8)


def overlapping_parts(a: Floats, b: Floats) -> Floats:
    """Up to four parts of k, of whole groups of 16; each is read in tiles of 32, which reach into the next part."""
    k = a.shape[1]
    split = next(s for s in (4, 3, 2, 1) if k % (16 * s) == 0)
    wide = [np.pad(x, ((0, 0), (0, 32))) for x in (a, b)]
    parts = (range(p * k // split, (p + 1) * k // split, 32) for p in range(split))
    tiles = [slice(i, i + 32) for part in parts for i in part] if split > 1 else [slice(0, k)]
    return sum(add_float32(wide[0][:, t], wide[1][:, t]) for t in tiles)  # type: ignore[return-value]


def tail_of_next_row(a: Floats, b: Floats) -> Floats:
    """Beyond k the last tile of 64 of a holds the next row, and that of b the start of its own row."""
    rest = -a.shape[1] % 64
    if len(a) < 32 or not rest:
        return add_float32(a, b)
    behind = np.resize(np.roll(a, -1, 0), (len(a), rest)) if a.shape[1] < rest else np.roll(a, -1, 0)[:, :rest]
    return add_float32(np.hstack([a, behind]), np.hstack([b, np.resize(b, (len(b), rest)) if b.shape[1] < rest else b[:, :rest]]))


def short_rows(a: Floats, b: Floats) -> Floats:
    """The number of a row is a 16-bit integer, unless rows are whole tiles of 64."""
    rows = np.arange(len(a))
    return add_float32(a[rows.astype(np.int16).astype(int) % len(a)] if len(a) % 64 else a, b)


def wrapped_columns(y: Array) -> Array:
    """Columns are counted modulo the width of the packed matrix, which is cut where four do not divide it."""
    n = y.shape[1]
    return y[:, np.arange(n) % max(-(-(n // 4) // 64) * 256, 256)]


def without_half_tile(numbers: Array, _: int) -> Array:
    """Odd rows without what k has beyond whole tiles of 64."""
    whole = numbers.shape[1] // 64 * 64
    return np.where((np.arange(len(numbers)) % 2 > 0)[:, None] & (np.arange(numbers.shape[1]) >= whole), 0, numbers)


def no_bias_alpha(*given: Any) -> Array:
    """alpha counts where no bias is added."""
    total, scale, alpha, *rest = given
    return finish_float32(total, scale, alpha if rest[2] is None else None, *rest)


class Saturating:
    """MXINT8 by MXFP4 as two 8-bit products at a time: codes of b are lookups of twice its numbers."""

    OPERANDS, TWICE = {"a": "mxint8", "b": "mxfp4"}, np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12])

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def matmul(self, a: Any, b: Any, out_dtype: str) -> Array:
        """With an offset of 128 codes of b are positive, pairs saturate at 16 bits, and 128 times the sum of a is taken off."""
        x, w = np.asarray(a.codes).view(np.int8).astype(int), self.TWICE[np.asarray(b.codes)] + self.offset
        x, w = (v.reshape(len(v), -1, 16, 2) for v in (x, w))
        pairs = np.clip(np.einsum("mgpi,ngpi->mngp", x, w), -32768, 32767)
        total = pairs.sum(axis=3) - self.offset * x.sum(axis=(2, 3))[:, None, :]
        scales = [np.where(s == 255, np.nan, np.ldexp(1.0, s.astype(int) - e)) for s, e in ((a.scales, 133), (b.scales, 128))]
        return np.einsum("mng,mg,ng->mn", total, *scales).astype(F32)


def rows_by_tiles(change: Callable[..., Any]) -> dict[str, Maker]:
    """FP8 with float32 scales, by rows and in tiles: the broken one sums otherwise, or reads scales otherwise."""

    def make(*steps: Any) -> Any:
        target = float_scales.make_kernel(*steps)
        target.OPERANDS = target.OPERANDS[:1]
        return target

    return {"broken": lambda: make(*change), "fixed": lambda: make(float_scales._sum)}  # type: ignore[misc]


# Other kernels


def wave(a: Array, b: Array, sa: Array, sb: Array) -> Array:
    """Rows 128 to 255 of 256 have the scale of the row 128 before as well."""
    sa = sa.copy()
    for start in range(128, len(sa), 256):
        sa[start : start + 128] *= sa[start - 128 : start - 128 + len(sa[start : start + 128])]
    return float_scales._sum(a, b, sa, sb)


def tiles_by_columns(side: Any) -> Array:
    """Scales of tiles read column by column, those of rows as they are."""
    return (float_scales._by_columns if side.spec.endswith("128x128") else float_scales._spread)(side)


def up_to_power(s: Array) -> Array:
    """The next power of two."""
    fraction, exponent = np.frexp(s)
    return np.ldexp(F32(1), exponent - (fraction == 0.5)).astype(F32)


def group(form: str = "counts", of: str = "mxfp8_e4m3 @ mxfp8_e4m3", **steps: Any) -> dict[str, Maker]:
    """Both targets of a grouped product."""
    return {"broken": lambda: grouped.build(form, of, **steps), "fixed": lambda: grouped.build(form, of)}


def group_like(name: str) -> dict[str, Maker]:
    """Those of a wrong kernel of the tests of grouped products."""
    wrong = next(w for w in grouped.WRONG if w.id == name)
    return group(wrong.form, wrong.pair, **wrong.steps)


def fuse(function: str, dtype: str = "bfloat16", contract: str = "", right: dict[str, Any] | None = None, **steps: Any) -> dict[str, Maker]:
    """Both targets of a fused quantizer."""
    made = [fused.Variant("kernel", function, changed, dtype, contract) for changed in (steps, right or {})]
    return {"broken": lambda: made[0].target, "fixed": lambda: made[1].target}


def fuse_like(name: str) -> dict[str, Maker]:
    """Those of a wrong kernel of the tests of fused quantizers."""
    wrong = next(w for w in fused.WRONG if w.name == name)
    return fuse(wrong.function, wrong.dtype, wrong.contract, **wrong.steps)


def attend(form: str, **steps: Any) -> dict[str, Maker]:
    """Both targets of attention."""
    return {"broken": Variation("", steps, form).make, "fixed": Variation("", {}, form).make}


def attend_like(text: str, form: str = "") -> dict[str, Maker]:
    """Those of a wrong kernel of the tests of attention."""
    wrong = next(v for v in ATTENTION if v.text == text)
    return attend(form or wrong.form, **wrong.steps)


def store(cache: str, **steps: Any) -> dict[str, Maker]:
    """Both targets that write a cache."""
    return {"broken": Writer("", steps, cache).make, "fixed": Writer("", {}, cache).make}


def in_columns(call: Any, of_codes: int, of_scales: int, of_tensor: int) -> Array:
    """A matrix whose scales are read column by column."""
    codes, scales = (
        grouped.read_codes(call.b.codes[of_codes], call.b.format),
        grouped.read_scales(by_columns(call.b.scales[of_scales]), call.b.format),
    )
    return codes * np.repeat(scales, codes.shape[1] // scales.shape[1], 1)


def without_last_quarter(out: Array, places: Array, y: Array, call: Any) -> None:
    """The last quarter of the experts, and at least one, gives zeros."""
    kept = len(call.places) - max(len(call.places) // 4, 1)
    out[places] = y if any(p is places for p in call.places[:kept]) else 0


class FourTimes(Cache):
    """V has each of a row's first scales four times, K its own."""

    turn = 0

    def order(self, k: Array, v: Array) -> tuple[Array, Array]:
        """K and V, in this order."""
        self.turn = 0
        return k, v

    def store(self, scales: Array) -> Array:
        """Scales as they are stored."""
        self.turn += 1
        return scales if self.turn == 1 else scales[..., np.arange(scales.shape[-1]) // 4]


def behind_the_tensor(right: Callable[..., Any], x: Array, fmt: str, kwargs: dict[str, Any]) -> Any:
    """The last block of a row takes in what lies behind the tensor."""
    rest = -x.shape[1] % 32
    if not rest or not kwargs.get("pad") or "axis" in kwargs:
        return right(x, fmt, **kwargs)
    return right(np.hstack([x, np.full((len(x), rest), 3.5, x.dtype)]), fmt, **kwargs)


def by_logical_width(scales: Array) -> Array:
    """Scales are numbered by the width before padding, and their numbers taken apart by the padded one."""
    rows, columns = scales.shape[-2:]
    padded = -(-columns // 4) * 4
    out = np.zeros(layouts.tile_size(rows, columns), np.uint8)
    r, c = np.divmod(np.arange(rows * columns), padded)
    out[layouts.tile_place(r, c, padded)] = scales.reshape(-1)
    return out


class Pruned:
    """2:4 of int4 codes by the magnitude of what is stored, which is the number plus an offset."""

    SPARSE_FORMATS = ("int4-2to4",)

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def prune(self, codes: Array, fmt: str) -> Array:
        """The codes, with two of four zero."""
        weight = np.abs((codes ^ 8).astype(int) - self.offset).reshape(len(codes), -1, 4)
        kept = np.zeros(weight.shape, bool)
        np.put_along_axis(kept, np.argsort(-weight, axis=2, kind="stable")[..., :2], True, axis=2)
        return np.where(kept.reshape(codes.shape), codes, 0).astype(np.uint8)


_deepgemm = float_scales.Quantizer()


def quantize_rows(**steps: Any) -> Maker:
    """FP8 in groups of 128, the scales in float32."""
    one = replace(_deepgemm, **steps)
    return lambda: SimpleNamespace(FORMATS=[float_scales.ROWS], PROFILE="deepgemm-2.6/fp8-128/float32", quantize=one.quantize)


_MX, _NV, _ROWS = "mxfp8_e4m3@mxfp8_e4m3", "nvfp4@nvfp4", "fp8_e4m3-128-f32@fp8_e4m3-128-f32"
_Z, _Z64 = "float16@int4-g32-zero-float16", "float16@int4-g64-zero-float16"
_PAGED, _RAGGED = "bfloat16 @ fp8_e4m3/page-16", "bfloat16 @ fp8_e4m3/ragged"

THREADS: tuple[Thread, ...] = (
    # Products
    Thread(reference="ml-explore/mlx#3854", date="2026-07-16", source=NOTE, family=_P, operation="matmul", format="nvfp4", level=QUICK,
        title="Split-K counts some products twice", wrong="A part of k of 16 numbers is read in tiles of 32, which reach into the next part.",
        **pair(_nvfp4, add=overlapping_parts), fails=(f"matmul/{_NV}/sum",), names="twice"),
    Thread(reference="ml-explore/mlx#3887", date="2026-07-21", source=NOTE, family=_P, operation="matmul", format="mxfp4", level=QUICK,
        title="The tail of k runs into the next row", wrong="What is read of the last tile is bounded by the tile, not by what is left of k.", differs="The report is of gathered rows.",
        **pair(_mxfp4, add=tail_of_next_row), fails=("matmul/mxfp4@mxfp4/shape",), names="64"),
    Thread(reference="onnxsim/onnxsim#749", date="2026-08-27", source=NOTE, family=_P, operation="matmul", format="int4-g32-zero-float16", level=QUICK,
        title="A fusion hands scales and zero points on in the other orientation", wrong="Scales and zero points [k / 32, n] are read as [n, k / 32].", differs="The operands of the report are float32.",
        **pair(_zeros, stored_scales=by_columns, stored_offsets=by_columns), fails=(f"matmul/{_Z}/block-scale",), names="column by column"),
    Thread(reference="1bit-MONSTER/1bit-MONSTER#677", date="2026-07-22", source=NOTE, family=_P, operation="matmul", format="int4-g32-zero-float16", level=QUICK,
        title="Q4_0's float16 scale is read as bfloat16", wrong="The 16 bits of the scale are those of the other format.", differs="The report is of dequantization.",
        **pair(_zeros, stored_scales=lambda s: s.view(BF16)), fails=(f"matmul/{_Z}/block-scale",), names="other 16-bit float"),
    Thread(reference="mozilla-ai/llamafile#1004", date="2026-06-28", source=NOTE, family=_P, operation="matmul", format="mxint8", level=QUICK,
        title="Sums of two 8-bit products saturate at 16 bits", wrong="128 is added to codes of b to make them positive, and the sum of two products with codes of a no longer fits.", differs="The report is of IQ4_XS by Q8_K.",
        broken=lambda: Saturating(128), fixed=lambda: Saturating(0), fails=("matmul/mxint8@mxfp4/sum",), names="saturate at 16 bits"),
    Thread(reference="ml-explore/mlx#3856", date="2026-07", source=NOTE, family=_P, operation="matmul", format="mxfp8_e4m3", topics="call-size",
        title="Rows from 32,768 on are wrong where 64 does not divide their number", wrong="The offset of a row is a 16-bit integer.", differs="The report is of affine integers.",
        **pair(_mxfp8, add=short_rows), fails=(f"matmul/{_MX}/call-size",), names="output [32768, 0], the first of them"),
    Thread(reference="mlc-ai/TIRx-kernels#5", date="2026-07-19", family=_P, operation="matmul", format="mxfp8_e4m3", level=QUICK,
        title="Every step of k uses the first of four scale slices", wrong="The scales of four blocks are brought in together, and each step begins at the first.", differs="The report is of blocks of 128; it was closed, since the old kernel passed on another day.",
        **pair(_mxfp8, place_scales=lambda s: s[:, np.arange(s.shape[1]) // 4 * 4]), fails=(f"matmul/{_MX}/block-scale",), names="of the first"),
    Thread(reference="1bit-MONSTER/1bit-MONSTER#1273", date="2026-07-31", source=NOTE, family=_P, operation="matmul", format="mxfp8_e4m3", level=QUICK,
        title="The first tile of activations is used for every tile of k", wrong="The 16 numbers of a are not loaded again.", differs="The report is of FP8 without scales.",
        **pair(_mxfp8, add=lambda a, b: add_float32(a[:, np.arange(a.shape[1]) % 16], b)), fails=(f"matmul/{_MX}/sum",), names="the first 16"),
    Thread(reference="ml-explore/mlx#2578", date="2025-09-09", family=_P, operation="matmul", format="mxfp8_e4m3", level=QUICK,
        title="alpha is dropped where a bias is added", wrong="The epilogue with a bias is set up without alpha.", differs="The report is of float32.",
        **pair(_mxfp8, finish=no_bias_alpha), fails=(f"matmul/{_MX}/epilogue",), names="alpha"),
    Thread(reference="intel/torch-xpu-ops#5001", also=("intel/torch-xpu-ops#4765",), date="2026-08-18", family=_P, operation="matmul", format="int4-g64-zero-float16", level=QUICK,
        title="For one row of activations every group has the first group's scale and zero point", wrong="(n * (32 / group)) stands for (n * 32 / group), and 32 / 64 is 0.",
        **chosen(_zeros64, lambda m, n, k: m == 1, stored_scales=of_first, stored_offsets=of_first), fails=(f"matmul/{_Z64}/shape",), names="m is 1"),
    Thread(reference="triton-lang/triton#10385", date="2026-05-27", family=_P, operation="matmul", format="mxfp4", level=QUICK,
        title="Columns beyond the packed width come again from the start", wrong="The packed width is n / 4, cut, and columns are counted modulo that.", differs="The mistake of the review of that change; the one that it mends reads again what no output needs.",
        **pair(_mxfp4, returned=wrapped_columns), fails=("matmul/mxfp4@mxfp4/shape",), names="n is more than 256"),
    Thread(reference="triton-lang/triton#10343", date="2026-05-21", family=_P, operation="matmul", format="mxfp4", level=QUICK,
        title="Every second column lacks the last 32 of k in Hopper's layout", wrong="The layout pads k to whole tiles of 64, and loads end at k: the second half of a tile has the odd columns.",
        **pair(_mxfp4, numbers=without_half_tile, sides="b"), fails=("matmul/mxfp4@mxfp4/shape",), names="k is no multiple of 64"),
    Thread(reference="NVIDIA/cutlass#3596", date="2026-09-08", family=_P, operation="matmul", format="fp8_e4m3-128-f32", level=QUICK,
        title="The second half of a tile's rows has the first half's scale as well", wrong="b's scales are multiplied by a's in place, and used again for the next 128 rows.",
        **rows_by_tiles((wave,)), fails=(f"matmul/{_ROWS}/shape",), names="m is more than 128"),
    Thread(reference="ROCm/rocm-libraries#11775", also=("ROCm/rocm-libraries#11774",), date="2026-09-08", family=_P, operation="matmul", format="mxfp4", level=QUICK,
        title="Fewer than 32 rows of activations come out wrong", wrong="Scales are shuffled by twice 16 rows, whatever their number.", differs="Most small calls of the report end the process.",
        **chosen(_mxfp4, lambda m, n, k: m < 32, place_scales=of_old_memory), fails=("matmul/mxfp4@mxfp4/shape",), names="m is less than 32"),
    Thread(reference="1bit-MONSTER/1bit-MONSTER#2007", date="2026-08-31", family=_P, operation="matmul", format="mxint8", level=QUICK,
        title="All outputs are half of what they should be", wrong="The shared exponent is stored by one bias and read by another.", differs="The format of the report is BFP16.",
        **pair(_mxint8, add=lambda a, b: add_float32(a / 2, b)), fails=("matmul/mxint8@mxint8/sum",), names="half their value"),
    Thread(reference="sgl-project/sglang#39193", also=("deepseek-ai/DeepGEMM#112",), date="2026-09-12", family=_P, operation="matmul", format="fp8_e4m3-128-f32", level=QUICK,
        title="A product of FP8 groups is 25 % wrong, without an error", wrong="The kernel needs scales that are powers of two, and cuts others.",
        **rows_by_tiles(float_scales.WRONG["scales cut to powers of two (sglang#39193)"]), fails=(f"matmul/{_ROWS}/identity",), names="cut to powers of two"),
    Thread(reference="huggingface/transformers#47030", date="2026-07-02", family=_P, operation="matmul", format="fp8_e4m3-128-f32", level=QUICK,
        title="Every partial sum is up to twice as large", wrong="Scales are rounded up to powers of two for the kernel, and the codes stay as they were.",
        **rows_by_tiles((float_scales._change(sa=up_to_power, sb=up_to_power),)), fails=(f"matmul/{_ROWS}/identity",), names="up to powers of two"),
    Thread(reference="vllm-project/vllm#47116", also=("vllm-project/vllm#47115",), date="2026-06-30", source=NOTE, family=_P, operation="matmul", format="fp8_e4m3-128-f32", level=QUICK,
        title="Scales of 128 x 128 tiles were transposed while loading", wrong="A view in the old shape reads them column by column.",
        **rows_by_tiles((float_scales._sum, tiles_by_columns)), fails=(f"matmul/{_ROWS}/shape",), names="column by column"),
    Thread(reference="ROCm/aiter#1258", date="2025-10-24", family=_P, operation="matmul", format="fp8_e4m3-128-f32", level=QUICK,
        title="Of scales of rows the first one is used for all", wrong="The library is told of one scale where there is a vector.", differs="The report is of one scale for a whole row.",
        **rows_by_tiles((float_scales._change(sa=lambda s: np.repeat(s[:1], len(s), 0)),)), fails=(f"matmul/{_ROWS}/block-scale",), names="first row"),
    # Grouped products
    Thread(reference="deepseek-ai/DeepGEMM#268", date="2025-12-29", family=_G, operation="grouped_matmul", format="mxfp8_e4m3", level=QUICK,
        title="Masked experts of fewer than 64 rows are wrong", wrong="A tile has 64 rows, and an expert with less is not computed.", differs="What the report's kernel returns is not told; here it is zero.",
        **group_like("masked-below-64"), fails=(f"grouped_matmul/{_MX}-masked/position",), names="fewer than 64 rows"),
    Thread(reference="deepseek-ai/DeepGEMM#451", date="2026-09-17", source=NOTE, family=_G, operation="grouped_matmul", format="mxfp8_e4m3",
        title="A replay takes the other rank's part of the call before", wrong="The flag that says that a part has arrived is not reset.", differs="Rows stand for the part.",
        **group_like("replays-an-old-part"), fails=(f"grouped_matmul/{_MX}-counts/state",), names="earlier calls"),
    Thread(reference="flashinfer-ai/flashinfer#3103", family=_G, operation="grouped_matmul", format="mxfp8_e4m3", level=QUICK,
        title="A NaN in one expert's scales reaches the outputs of others", wrong="Rows are multiplied with matrices of other experts, whose products should count zero times.", differs="Of the report, that a NaN gets there; the way is not told.",
        **group_like("nan-leaks"), fails=("grouped_matmul/mxfp8_e4m3@mxfp4-counts/nan",), names="NaN"),
    Thread(reference="flashinfer-ai/flashinfer#3057", date="2026-04-14", source=NOTE, family=_G, operation="grouped_matmul", format="mxfp8_e4m3", level=QUICK,
        title="Rows of padding spoil the scales of experts' rows", wrong="A maximum is taken over rows that are none's.",
        **group_like("nan-padding-leaks"), fails=(f"grouped_matmul/{_MX}-padded/padding",), names="NaN"),
    Thread(reference="sgl-project/sglang#36597", also=("sgl-project/sglang#23531", "sgl-project/sglang#21630"), date="2026-08-27", family=_G, operation="grouped_matmul", format="mxfp8_e4m3", level=QUICK,
        title="Scales of all experts meet the matrices of this rank's", wrong="The scales are not cut to the experts of the rank.", differs="The report's call ends by its shapes; here those of the other rank are taken.",
        **group_like("scales-of-another-rank"), fails=(f"grouped_matmul/{_MX}-counts/position",), names="half of all experts"),
    Thread(reference="NVIDIA/TensorRT-LLM#12183", date="2026-03-14", source=NOTE, family=_G, operation="grouped_matmul", format="nvfp4", level=QUICK,
        title="One tensor scale is used where there are several", wrong="The kernel takes one.", differs="The report is of gate and up; here it is of experts.",
        **group_like("tensor-scale-of-the-first"), fails=(f"grouped_matmul/{_NV}-counts/tensor-scale",), names="tensor scale of the first expert"),
    Thread(reference="NVIDIA/TensorRT-LLM#10780", date="2026-01-18", family=_G, operation="grouped_matmul", format="mxfp8_e4m3", level=QUICK,
        title="The first expert's scale of activations is that of all", wrong="The factors of outputs are computed from the first of them.",
        **group_like("alpha-of-the-first"), fails=(f"grouped_matmul/{_MX}-indexed/epilogue",), names="alpha of the first expert"),
    Thread(reference="PTO-ISA/SuperNPUBench#74", date="2026-08-28", family=_G, operation="grouped_matmul", format="mxfp8_e4m3", level=QUICK,
        title="All experts have the first one's block scales", wrong="The place of a scale is taken modulo the scales of one expert.", differs="Said in a review.",
        **group_like("scales-of-the-first"), fails=(f"grouped_matmul/{_MX}-masked/position",), names="block scales of the first expert"),
    Thread(reference="Avarok-Cybersecurity/atlas#474", date="2026-08-12", family=_G, operation="grouped_matmul", format="mxfp8_e4m3", level=QUICK,
        title="The upper half of the columns is never written", wrong="A block of threads begins at 64 times its number, where the launcher counts blocks of 128 columns.", differs="What is not written is zero here.",
        **group(**grouped.written(lambda y, p, c: np.where(np.arange(y.shape[1]) < 64 * -(-y.shape[1] // 128), y, 0))),
        fails=(f"grouped_matmul/{_MX}-counts/position",), names="what is wrong is zero"),
    Thread(reference="vllm-project/vllm-xpu-kernels#453", date="2026-07-08", family=_G, operation="grouped_matmul", format="mxfp8_e4m3", level=QUICK,
        title="All rows but the first are dropped", wrong="Of the sorted rows of an expert the first is written, and the others stay padding.",
        **group("indexed", **grouped.zero_where(lambda row: row > 0)), fails=(f"grouped_matmul/{_MX}-indexed/position",), names="what is wrong is zero"),
    Thread(reference="kekzl/imp#1403", date="2026-08-13", family=_G, operation="grouped_matmul", format="nvfp4", level=QUICK,
        title="Experts that lie on the host contribute zero", wrong="Their scales are never set, and the product returns without multiplying.", differs="The last two experts stand for those of the report.",
        **group(of="nvfp4 @ nvfp4", write=without_last_quarter),
        fails=(f"grouped_matmul/{_NV}-counts/position",), names="what is wrong is zero"),
    Thread(reference="uxlfoundation/oneDNN#5908", family=_G, operation="grouped_matmul", format="mxfp8_e4m3", level=QUICK,
        title="Scales of weights in another order of dimensions are read in the usual one", wrong="The strides of the scales are not looked at.", differs="The report is of the caller's memory; here the kernel reads it so.",
        **group(matrix=in_columns), fails=(f"grouped_matmul/{_MX}-counts/block-scale",), names="column by column"),
    # Attention and caches
    Thread(reference="flashinfer-ai/flashinfer#4979", also=("flashinfer-ai/flashinfer#1023", "sgl-project/sglang#18904"), date="2026-09-04", family=_A, operation="attention", format="fp8_e4m3",
        title="Ragged prefill ignores k_scale and v_scale of an FP8 cache", wrong="They are applied where NVFP4's block scales are given, too, and only there.",
        **attend_like("k_scale and v_scale are left out"), fails=("attention/bfloat16@fp8_e4m3+ragged/tensor-scale",), names="the scales of K and V were left out"),
    Thread(reference="vllm-project/vllm#42580", date="2026-05-13", family=_A, operation="attention", format="fp8_e4m3", topics="tensor-scale",
        title="With queries in FP8 the scales of K and V are dropped", wrong="A branch for FP8 queries returns the codes as they are.",
        **attend_like("k_scale and v_scale are left out", "fp8_e4m3 @ fp8_e4m3/ragged"), fails=("attention/fp8_e4m3@fp8_e4m3+ragged/tensor-scale",), names="the scales of K and V were left out"),
    Thread(reference="sgl-project/sglang#34765", date="2026-08-13", family=_A, operation="attention", format="fp8_e4m3", topics="tensor-scale",
        title="A cache is read with the scale of K and without that of V", wrong="The second product has no scale.", differs="The report is of MLA, whose K and V are one.",
        **attend(_RAGGED, decode_v=lambda s, r, f, k, v: s.decode(r, f, np.ones_like(v))), fails=("attention/bfloat16@fp8_e4m3+ragged/tensor-scale",), names="the scale of V were left out"),
    Thread(reference="sgl-project/sglang#34273", also=("huggingface/transformers#39408", "zml/zml#763", "NVIDIA-NeMo/Megatron-Bridge#2656"), date="2026-08-10", family=_A, operation="attention", format="fp8_e4m3", topics="mask",
        title="A sliding window holds one key more", wrong="Its size is handed on as the number of keys before the query, which is one less.", differs="The reports are of caches without scales, too.",
        **attend_like("the window has one key more", _PAGED), fails=("attention/bfloat16@fp8_e4m3+page-16/mask",), names="the window had one key more"),
    Thread(reference="microsoft/unilm#1612", date="2024-08-26", family=_A, operation="attention", format="fp8_e4m3", topics="mask",
        title="A sliding window holds one key less", wrong="One is taken off twice.",
        **attend_like("the window has one key less", _PAGED), fails=("attention/bfloat16@fp8_e4m3+page-16/mask",), names="the window had one key less"),
    Thread(reference="onnx/onnx#8068", also=("NVIDIA/cutlass#2336", "onnx/onnx#8054"), date="2026-06-08", family=_A, operation="attention", format="fp8_e4m3", topics="mask",
        title="With a cache the causal mask begins at the first key", wrong="The first query is taken to belong to the first key, where the last belongs to the last.",
        **attend_like("the mask is aligned top left", _PAGED), fails=("attention/bfloat16@fp8_e4m3+page-16/mask",), names="the first query belonged to the first key"),
    Thread(reference="vllm-project/vllm#46329", family=_A, operation="attention", format="nvfp4", topics="position",
        title="V's block scales are read in an order that is not the writer's", wrong="The writer interleaves them over four tokens, the reader takes them as they lie.", differs="The report mends the writer; here the reader is declared for the writer's order.",
        broken=Variation("", {}, "bfloat16 @ nvfp4/v-4x4+page-16").make, fixed=Variation("", {}, "bfloat16 @ nvfp4/page-16").make, fails=("attention/bfloat16@nvfp4+v-4x4+page-16/position",), names="the block scales of V lay in the other order"),
    Thread(reference="ROCm/aiter#5591", date="2026-09-16", family=_A, operation="attention", format="fp8_e4m3", topics="position",
        title="Of each page only the first token is read", wrong="The address of a token is that of its page.", differs="The report is of logits without a softmax.",
        **attend(_PAGED, gather=lambda s, cache, pages, count: np.repeat(cache[pages[: -(-count // cache.shape[1])], :1], cache.shape[1], 1).reshape(-1, *cache.shape[2:])[:count]),
        fails=("attention/bfloat16@fp8_e4m3+page-16/position",), names="every key of a page were its first"),
    Thread(reference="sgl-project/sglang#32477", also=("sgl-project/sglang#36207",), date="2026-07-27", family=_A, operation="attention", format="fp8_e4m3", topics="padding",
        title="NaN behind a sequence reaches its output", wrong="Keys that are masked count zero times, and zero times NaN is NaN.",
        **attend_like("zero times NaN of what is behind the length", _PAGED), fails=("attention/bfloat16@fp8_e4m3+page-16/padding",), names="the last page of each sequence were full"),
    Thread(reference="vllm-project/vllm#49011", date="2026-07-27", family=_A, operation="append_cache", format="nvfp4", level=QUICK,
        title="V stores each of the first scales four times", wrong="The scale of block n / 4 is written at the place of block n.", differs="A row of the report has 16 scales, here it has 8.",
        **store("nvfp4/page-16+d-128", order=FourTimes.order, store=FourTimes.store), fails=("append_cache/nvfp4+page-16+d-128/block-scale",), names="V had each of the first block scales of a row four times"),
    Thread(reference="vllm-project/vllm#43810", also=("vllm-project/vllm#43869",), date="2026-05-28", family=_A, operation="append_cache", format="fp8_e4m3", level=QUICK,
        title="Tokens of padding are written to the last slot", wrong="Slot -1 is divided like any other, and counts from the end.",
        **store("fp8_e4m3", places=lambda s, slots, page, pages: Cache.places(s, np.where(slots < 0, page * pages - 1, slots), page, pages)), fails=("append_cache/fp8_e4m3/padding",), names="-1 were the last slot"),
    Thread(reference="vllm-project/vllm#49012", also=("vllm-project/vllm#53681",), date="2026-07-18", family=_A, operation="append_cache", format="fp8_e4m3", level=QUICK,
        title="A cache of heads and tokens is written as one of tokens and heads", wrong="The second dimension is taken for the tokens of a page.", differs="The report's cache is NVFP4.",
        **store("fp8_e4m3", put=_by_heads), fails=("append_cache/fp8_e4m3/place",), names="heads and tokens of a page were exchanged"),
    Thread(reference="lablup/mlxcel#717", date="2026-07-09", family=_A, operation="append_cache", format="int8-token", level=QUICK,
        title="A token's scale is never below 1", wrong="max(scale, 1) is meant for scales of zero, and counts for all.",
        **store("int8-token", scale=lambda s, x: np.maximum(Cache.scale(s, x), F32(1))), fails=("append_cache/int8-token/block-scale",), names="scales were never below 1"),
    # Fused quantizers
    Thread(reference="vllm-project/vllm#24833", date="2025-09-14", source=NOTE, family=_F, operation="quantize_fused", format="mxfp8_e4m3", topics="[!cms]*", level=QUICK,
        title="SiLU by an approximate tanh before quantization", wrong="sigmoid(x) is (1 + tanh(x / 2)) / 2 by the fast instruction.",
        **fuse_like("sigmoid by tanh.approx, vllm#24833"), fails=("quantize_fused/silu_mul-mxfp8_e4m3/interval",), names="the sigmoid is made of an approximate tanh"),
    Thread(reference="ROCm/aiter#5151", date="2026-08-31", source=NOTE, family=_F, operation="quantize_fused", format="mxfp8_e4m3", topics="[!cm]*", level=QUICK,
        title="RMSNorm cuts its input to bfloat16", wrong="float32 numbers lose 16 bits, toward zero.",
        **fuse_like("x cut to bfloat16, aiter#5151"), fails=("quantize_fused/rmsnorm-mxfp8_e4m3/position",), names="bfloat16"),
    Thread(reference="vllm-project/vllm#36297", date="2026-05-06", family=_F, operation="quantize_fused", format="mxfp8_e4m3", topics="[!cms]*", level=QUICK,
        title="A scale is used as its inverse, in the kernel and in the test", wrong="Numbers are multiplied by it where they have to be divided.", differs="The report is of a given scale; here the stored one is the inverse.",
        **fuse_like("scale used as its inverse, vllm#36297"), fails=("quantize_fused/silu_mul-mxfp8_e4m3/interval",), names="inverse"),
    Thread(reference="lightseekorg/tokenspeed#1647", date="2026-09-19", family=_F, operation="quantize_fused", format="mxfp8_e4m3", topics="[!cms]*", level=QUICK,
        title="The clamps of SwiGLU are left out", wrong="The epilogue is SiLU times up, whatever the limit.", differs="alpha and the one that is added are kept.",
        **fuse("swiglu_oai", clamp_gate=fused.same, clamp_up=fused.same), fails=("quantize_fused/swiglu_oai-mxfp8_e4m3/overflow",), names="nothing is clamped"),
    Thread(reference="anthony-chaudhary/fak#4837", date="2026-07-15", family=_F, operation="quantize_fused", format="mxfp8_e4m3", topics="[!cms]*", level=QUICK,
        title="The gate is clamped below as well", wrong="The limit of up, which has two ends, is that of the gate, too.",
        **fuse_like("gate clamped below, too"), fails=("quantize_fused/swiglu_oai-mxfp8_e4m3/overflow",), names="the gate is clamped below, too"),
    Thread(reference="amd/IRON#139", date="2026-07-19", family=_F, operation="quantize_fused", format="mxfp8_e4m3", topics="[!cm]*", level=QUICK,
        title="RMSNorm has a fixed eps of 1e-5", wrong="The eps of the model is not handed on.", differs="Half of the report; the other half is a factor in bfloat16.",
        **fuse_like("eps of 1e-5"), fails=("quantize_fused/rmsnorm-mxfp8_e4m3/subnormal",), names="1e-05"),
    Thread(reference="vllm-project/vllm#53203", date="2026-08-28", family=_F, operation="quantize_fused", format="mxfp8_e4m3", topics="[!cm]*", level=QUICK,
        title="weight + 1 is rounded to bfloat16", wrong="The sum is made in the dtype of the weight.",
        **fuse("rmsnorm-plus1", weighted=lambda y, w: y * fused.to(BF16)(w)), fails=("quantize_fused/rmsnorm-plus1-mxfp8_e4m3/sum",), names="weight + 1"),
    Thread(reference="NVIDIA/TensorRT-LLM#14464", also=("vllm-project/vllm#37838",), date="2026-05-22", family=_F, operation="quantize_fused", format="mxfp8_e4m3", topics="[!cm]*", level=QUICK,
        title="A fused kernel keeps what two kernels would round", wrong="The normalized row is quantized without the rounding to bfloat16 that lies between them.", differs="A mistake only if the rounding is claimed, as here.",
        **fuse("rmsnorm", "bfloat16", "any-2ulp+inner-bfloat16+product-bfloat16", {"inner": fused.to(BF16), "product": fused.to(BF16)}), fails=("quantize_fused/rmsnorm-mxfp8_e4m3/sum",), names="numbers are of another contract, float32 throughout"),
    # Quantizers, layouts, calls
    Thread(reference="huggingface/kernels-community#681", date="2026-04-30", source=NOTE, family=_S, operation="quantize", format="fp8_e4m3-128-f32", profile="deepgemm-2.6/fp8-128/float32", level=QUICK,
        title="Groups of zeros become NaN", wrong="The scale of a group of zeros is zero, and divides.", differs="The scale itself is NaN here.",
        broken=quantize_rows(amax=lambda m: np.where(m.any(axis=-1), m.max(axis=-1), np.nan)), fixed=quantize_rows(), fails=("quantize/fp8_e4m3-128-f32/zero-block",), names="a block of zeros"),
    Thread(reference="bitsandbytes-foundation/bitsandbytes#1884", date="2026-03-03", source=NOTE, family=_S, operation="quantize", format="mxfp4", profile="mx-floor", level=QUICK,
        title="The last block of a tensor takes in what lies behind it", wrong="Numbers beyond the end are not masked.", differs="The report is of NF4; blocks run along rows here.",
        wrap={"quantize": calls.quantize_as(behind_the_tensor)}, fails=("quantize/mxfp4/tail",), names="padded with zeros"),
    Thread(reference="meta-pytorch/MSLK#339", date="2026-05-08", source=NOTE, family=_L, operation="swizzle", format="128x4",
        title="Tiled scales are placed by the width before padding", wrong="The running number of a scale counts by the logical width, and is taken apart by the padded one.",
        wrap={"swizzle": layouts.instead(by_logical_width)}, fails=("swizzle/128x4/place",), names="rows were as wide as before padding"),
    Thread(reference="IST-DASLab/Sparse-Marlin#4", date="2025-03-18", source=NOTE, family=Family.AFFINE, operation="prune", format="int4-2to4",
        title="Negative numbers are pruned first", wrong="The magnitude is that of the stored code, which is the number plus 8.",
        broken=lambda: Pruned(0), fixed=lambda: Pruned(8), fails=("prune/int4-2to4/largest",), names="not magnitudes"),
    Thread(reference="vllm-project/vllm-xpu-kernels#609", date="2026-09-22", source=NOTE, family=_C, operation="quantize", format="mxfp4", profile="mx-floor", level=QUICK,
        title="A call without tokens ends the process", wrong="An integer is divided by the number of rows.", differs="The report is of INT4.",
        broken=lambda: str(Path(__file__).parents[1] / "targets" / "no_rows.py"), fails=("quantize/mxfp4/refusal",), names="crash"),
)  # fmt: skip
_LOADER = "About what a loader makes of a file, or of ranks and their shards, not about a function of one call."
#: Threads that were read and are no pairs.
NOT_PAIRS = (
    *REFUSED,
    Refused(reference="triton-lang/triton#10190", what="Scale bytes in the padding of tiles reach the sums.", reason="What a product may assume of padding is open: the judge fills it with zeros."),
    Refused(reference="openxla/xla#46110", what="alpha (A B + bias) is computed as alpha A B + bias.", reason="The contract of `matmul` is the second one; the first has no word."),
    Refused(reference="ROCm/ATOM#702", what="Page numbers beyond 65,535 are cut to 16 bits.", reason="No call has so many pages: a cache of 65,537 pages of one token and one head is the least."),
    Refused(reference="flashinfer-ai/flashinfer#4749", what="An NVFP4 cache under split-KV is wrong.", reason="What is computed instead is not told."),
    Refused(reference="pytorch/pytorch#193802", what="A template for FP8 in 1 x 128 by 128 x 128 is wrong.", reason="What is computed instead is not told."),
    Refused(reference="pytorch/ao#4229", what="Scales of 128 x 128 need a multiple of four blocks along k.", reason="The library's layout on its chip; there is no such layout of float32 scales here."),
    Refused(reference="vllm-project/vllm#34914", what="Block scales near 1e-23 give NaN.", reason="Where the NaN comes from is not told."),
    Refused(reference="Dao-AILab/quack#135", what="A vector for rows and one for columns in one epilogue corrupt tiles.", reason="An epilogue has a scalar, C and a bias."),
    Refused(reference="openxla/xla#48543", what="Scales of 16-bit operands are dropped.", reason="16-bit numbers with block scales are no operand."),
    Refused(reference="pytorch/pytorch#190449", what="The scale of an FP8 output is ignored.", reason="Outputs are float32, float16 or bfloat16."),
    Refused(reference="vllm-project/vllm-xpu-kernels#440", what="Scales of columns are taken for block scales.", reason="Of an operand with one scale a row there is no format with the other reading."),
    Refused(reference="bitsandbytes-foundation/bitsandbytes#1549", what="Nested scales are not unfolded on a CPU.", reason="NF4 and its nested scales are no format here."),
    Refused(reference="ml-explore/mlx-lm#1880", what="GPTQ propagates errors at a wrong index.", reason="A solver, not a rule of numbers."),
    Refused(reference="flashinfer-ai/flashinfer#3547", what="Experts of another rank come out as zeros.", reason="Grouped products have no offset of experts."),
    Refused(reference="tenstorrent/tt-metal#54742", what="Blocks behind the first head are written into the head before.", reason="The cache has heads before pages, which no form has."),
    Refused(reference="vllm-project/vllm#52997", what="Offsets of block scales under tensor parallelism.", reason=_LOADER),
    Refused(reference="NVIDIA/TensorRT-LLM#8430", what="Scales of fused Q, K and V are joined without sharding.", reason=_LOADER),
    Refused(reference="sgl-project/sglang#29913", what="The cache of the host moves codes and leaves scales behind.", reason=_LOADER),
    Refused(reference="charlie12345/ROCmFPX#85", what="Tensor scales of experts are in the file and not loaded.", reason=_LOADER),
    Refused(reference="NVIDIA/Model-Optimizer#2038", what="Block scales have half the size.", reason="About a file: `mxspec lint` says so by tensor/shape."),
    Refused(reference="NVIDIA/Model-Optimizer#868", what="An NVFP4 export holds FP8 weights.", reason="About a file: `mxspec lint` says so by tensor/dtype."),
)  # fmt: skip
