"""Exact products: what is called certain is the exact sum, and what the model calls certain is found to be."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import mxspec
import mxspec_gpu
from mxspec import dot
from mxspec.dot.sums import Special
from mxspec_gpu import Operand, blas

from tests.gpu.compare import LAYOUTS, lay_out, message_of
from tests.gpu.device import FULL, LIBRARIES, Array, Tally, cp, require_gpu, to_gpu, to_host
from tests.gpu.products import draw_codes, pack_codes

pytestmark = pytest.mark.gpu
require_gpu()

SHAPES = ((1, 1, 32), (3, 70, 96), (64, 64, 512), (130, 67, 1056), *(((150, 100, 2048),) if FULL else ()))
#: Binades of the scales, and whether NaN, infinities and zeros are among the numbers.
DRAWS = ((4, False), (12, False), (21, False), (70, False), (12, True))
Side = tuple[Array, Array]


@lru_cache(maxsize=2)
def draw_products(fmt: str) -> list[tuple[str, list[Side], dot.Sums]]:
    """Both sides of many products, and the model's sums."""
    found = []
    for number, (m, n, k) in enumerate(SHAPES):
        for spread, special in DRAWS:
            sides = [draw_codes(fmt, rows, k, 10 * number + s, spread=spread, special=special) for s, rows in ((1, m), (2, n))]
            sums = dot.sum_products(*(dot.block_factor(c, s, fmt) for c, s in sides))
            found.append((f"{fmt} {m} x {n} x {k} spread {spread} {special}", sides, sums))
    return found


def to_operand(codes: Array, scales: Array, fmt: str, library: str, layout: str = "row-major") -> Operand:
    return Operand(to_gpu(pack_codes(codes, fmt), library), to_gpu(lay_out(scales, layout), library), fmt, layout)


def compare_product(tally: Tally, product: Any, sums: dot.Sums, label: str) -> None:
    """Every output: whether it is certain, and where it is, sum, magnitude and unit; specials as the model calls them."""
    values, magnitude, certain, unit = (to_host(x) for x in (product.values, product.magnitude, product.certain, product.unit))
    finite = sums.special == Special.FINITE
    fits = sums.fits(53)
    tally.equal(certain, fits | ~finite, f"{label}: certain")
    tally.equal(unit, sums.unit, f"{label}: unit")
    sure = fits & finite
    tally.equal(values[sure].view(np.uint64), sums.nearest[sure].view(np.uint64), f"{label}: sums")
    tally.equal(magnitude[sure], sums.magnitude[sure], f"{label}: magnitudes")
    tally.require(not sums.remainder[sure].any(), f"{label}: the model's sums are not float64's")
    special = np.select(
        [np.isnan(values), np.isposinf(values), np.isneginf(values)], [Special.NAN, Special.PLUS_INF, Special.MINUS_INF],
        Special.FINITE,
    ).astype(np.int8)  # fmt: skip
    tally.equal(special, sums.special, f"{label}: specials")


@pytest.mark.parametrize("fmt", [name for name, block in mxspec.BLOCKS.items() if block.is_ocp or block.has_tensor_scale])
def test_product(fmt: str, tally: Tally) -> None:
    """Scales near each other, where all is certain; far from each other, where little is; NaN, infinities and zeros."""
    certain = outputs = 0
    for label, sides, sums in draw_products(fmt):
        certain += int(sums.fits(53).sum())
        outputs += sums.nearest.size
        for library in LIBRARIES:
            for layout in LAYOUTS:
                product = mxspec_gpu.exact_product(*(to_operand(c, s, fmt, library, layout) for c, s in sides))
                compare_product(tally, product, sums, f"{label} {library} {layout}")
                tally.require(product.k == sums.k, "k")
    most = 1 if fmt == "nvfp4" else 0.95  # its scales lie too near each other for sums beyond 53 bits
    tally.require(0.05 < certain / outputs <= most, f"{fmt}: {certain} of {outputs} outputs are certain")


def test_mixed_formats(tally: Tally) -> None:
    for number, (left, right) in enumerate((("mxfp4", "mxfp8_e4m3"), ("mxfp8_e5m2", "mxfp6_e3m2"), ("nvfp4", "mxint8"))):
        a, b = draw_codes(left, 50, 256, number), draw_codes(right, 65, 256, number + 9)
        sums = dot.sum_products(dot.block_factor(*a, left), dot.block_factor(*b, right))
        product = mxspec_gpu.exact_product(to_operand(*a, left, "cupy"), to_operand(*b, right, "cupy"))
        compare_product(tally, product, sums, f"{left} with {right}")


def test_quantized_tensors(tally: Tally) -> None:
    """What `quantize` returns is a side; tensor scales are left out."""
    x = np.random.default_rng(3).standard_normal((96, 512)).astype(np.float32)
    for layout in LAYOUTS:
        q = mxspec_gpu.quantize(to_gpu(x), "nvfp4", profile="nvfp4-te", tensor_scale="auto", scale_layout=layout)
        plain = mxspec.quantize(x, "nvfp4", profile="nvfp4-te", tensor_scale="auto")
        factor = dot.block_factor(plain.codes, plain.scales, "nvfp4")
        compare_product(tally, mxspec_gpu.exact_product(q, q), dot.sum_products(factor, factor), layout)


def test_rows_of_a_large_product(tally: Tally) -> None:
    """Some outputs of a product whose every tile is full."""
    size = 4096 if FULL else 1024
    sides = [draw_codes("nvfp4", size, size, seed) for seed in (1, 2)]
    product = mxspec_gpu.exact_product(*(to_operand(*s, "nvfp4", "cupy") for s in sides))
    rows = np.sort(np.random.default_rng(5).choice(size, 48, replace=False))
    sums = dot.sum_products(*(dot.block_factor(c[rows], s[rows], "nvfp4") for c, s in sides))
    at = np.ix_(rows, rows)
    part = mxspec_gpu.ExactProduct(
        *(to_gpu(to_host(getattr(product, name))[at]) for name in ("values", "certain", "magnitude", "unit")), size
    )
    compare_product(tally, part, sums, f"{size}")


def test_empty(tally: Tally) -> None:
    for m, n in ((0, 5), (5, 0)):
        sides = [Operand(cp().zeros((r, 16), cp().uint8), cp().zeros((r, 1), cp().uint8), "mxfp4") for r in (m, n)]
        product = mxspec_gpu.exact_product(*sides)
        tally.require(product.values.shape == product.certain.shape == (m, n), f"{m} x {n}")
    none = Operand(cp().zeros((3, 0), cp().uint8), cp().zeros((3, 0), cp().uint8), "mxfp4")
    product = mxspec_gpu.exact_product(none, none)
    tally.require(bool((product.values == 0).all() & product.certain.all()), "k = 0")


def test_wrong_calls(tally: Tally, monkeypatch: pytest.MonkeyPatch) -> None:
    a = to_operand(*draw_codes("mxfp4", 4, 64, 1), "mxfp4", "cupy")
    b = to_operand(*draw_codes("mxfp4", 4, 96, 1), "mxfp4", "cupy")
    deep = Operand(a.codes[None], a.scales[None], "mxfp4")
    product = mxspec_gpu.exact_product
    calls: tuple[tuple[Any, type[Exception], str], ...] = (
        (lambda: product(a, b), ValueError, "a has k = 64 and b has k = 96; both operands of a product have one k"),
        (lambda: product(a.codes, a), TypeError, "a is of type ndarray without codes, scales, format; pass a Quantized"),
        (lambda: product(a, deep), ValueError, "an operand of a product has two axes"),
        (lambda: product(Operand(a.codes, a.scales, "mxfp9"), a), ValueError, "mxfp9"),
        (lambda: product(Operand(a.codes, a.scales[:, :1], "mxfp4"), a), ValueError, "do not match for packed mxfp4"),
    )
    for call, kind, words in calls:
        message = message_of(call, kind)
        tally.require(words in message, message)
    monkeypatch.setenv(blas.EMULATION_VARIABLE, "1")
    tally.require("unset it" in message_of(lambda: product(a, a), RuntimeError), "emulation")
