"""The arithmetic of products and of stored weights, compiled for the host, against the model; and their checks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mxspec import affine, dot, layouts
from mxspec.affine import AffineFormat, Offset, list_contracts
from mxspec.dot.rounding import lowest_bit
from mxspec.formats import get_block
from mxspec.sparsity import Sparsity, decompress
from mxspec.sparsity.patterns import find_illegal
from mxspec_gpu import blas, gemv_tunings, product_kernels, products, tiles
from mxspec_gpu.affine import check_affine, check_contract, gemv_contract
from mxspec_gpu.arrays import View

from tests.gpu.arithmetic import DTYPES, library, pack
from tests.gpu.device import bits_of
from tests.gpu.products import LESS_MEMORY, draw_codes, every_scale, expect_affine

ZERO = AffineFormat(offset=Offset.ZERO, group=64)


def test_lowest_bits_are_the_models() -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate(
        [
            [0.0, -0.0, 1.0, -3.0, 2.0**-1022, 5e-324, -1.7976931348623157e308],
            np.ldexp(rng.integers(-(1 << 52), 1 << 52, 5000).astype(np.float64), rng.integers(-900, 900, 5000)),
            np.ldexp(rng.integers(-4, 5, 5000).astype(np.float64), rng.integers(-900, 900, 5000)),
        ]
    )
    np.testing.assert_array_equal(library().find_lowest_bits(x), lowest_bit(x))
    assert library().find_lowest_bits(np.array([np.nan, np.inf, -np.inf])).tolist() == [8192] * 3


@pytest.mark.parametrize("fmt", ["mxfp4", "mxfp8_e5m2", "nvfp4"])
def test_certificate_is_the_models(fmt: str) -> None:
    """Over products whose scales spread so far that some sums are certain and others not."""
    a = dot.block_factor(*draw_codes(fmt, 40, 256, 1, spread=60), fmt)
    b = dot.block_factor(*draw_codes(fmt, 50, 256, 2, spread=20), fmt)
    sums = dot.sum_products(a, b)
    magnitude = np.abs(a.values) @ np.abs(b.values).T
    np.testing.assert_array_equal(library().find_certain(magnitude, sums.unit), sums.fits(53))
    limits = np.ldexp(1.0, np.arange(-900, 960)), np.arange(-953, 907).astype(np.int16)
    assert not library().find_certain(*limits).any()
    assert library().find_certain(np.nextafter(limits[0], 0), limits[1]).all()
    assert library().find_certain(np.array([np.nan, np.inf, 0.0]), np.full(3, 8192, np.int16)).all()


@pytest.mark.parametrize("offset", list(Offset))
@pytest.mark.parametrize("stored", ["float16", "bfloat16"])
def test_affine_values_are_the_models(offset: Offset, stored: str) -> None:
    """Every 61st 16-bit scale with all codes, under every contract and to every dtype."""
    fmt = AffineFormat(group=16, offset=offset, dtype=stored)
    codes, scales, offsets = (x[::61] for x in every_scale(fmt, 3))
    q = codes.astype(np.float32)
    s, o = (np.ascontiguousarray(np.broadcast_to(x.astype(np.float32), q.shape)) for x in (scales, offsets))
    for rule in list_contracts(fmt):
        for dtype in DTYPES:
            source = product_kernels.affine_kernel(fmt, rule, dtype, product_kernels.AffineTuning())
            defines = dict(source.defines)
            held = list(DTYPES)[int(defines["MX_HELD"])]
            got = library().dequantize_affine(
                q, s, o, zero=offset is Offset.ZERO, held=held, form=int(defines["MX_FORM"]), fused=defines["MX_FUSED"] == "1"
            )
            with np.errstate(all="ignore"):
                got = got.astype(DTYPES[dtype])
            want = expect_affine(codes, scales, offsets, fmt, rule.name, dtype)
            np.testing.assert_array_equal(bits_of(got), bits_of(want), err_msg=f"{fmt.name} {rule.name} {dtype}")


@pytest.mark.parametrize(("layout", "k", "record"), [("ggml-mxfp4", 32, 32), ("ggml-nvfp4", 16, 64)])
def test_records_are_the_layouts(layout: str, k: int, record: int) -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 16, (7, 3 * record), dtype=np.uint8)
    scales = rng.integers(0, 255 if k == 32 else 128, (7, 3 * record // k), dtype=np.uint8)
    packed = pack(codes, 4)
    want = layouts.pack_blocks(codes, scales, layout)
    np.testing.assert_array_equal(library().write_records(packed, scales, k), want)
    got_codes, got_scales = library().read_records(want, k)
    np.testing.assert_array_equal(got_codes.reshape(packed.shape), packed)
    np.testing.assert_array_equal(got_scales.reshape(scales.shape), scales)


@pytest.mark.parametrize("sparsity", list(Sparsity))
def test_sparse_codes_are_the_models(sparsity: Sparsity) -> None:
    """Every pair of nibbles over random codes; illegal ones are separated."""
    rng = np.random.default_rng(2)
    eights = 4096
    nibbles = np.resize(np.arange(256, dtype=np.uint8), eights)
    nibbles = np.stack([nibbles & 15, nibbles >> 4], axis=-1).reshape(-1)[: eights * 8 // sparsity.group]
    kept = rng.integers(0, 16, eights * 4, dtype=np.uint8)
    legal = ~find_illegal(nibbles)
    shown = np.where(legal, nibbles, 4).astype(np.uint8)
    dense = decompress(kept, shown, sparsity=sparsity).reshape(-1, sparsity.group)
    want = np.where(legal[:, None], dense, 0).astype(np.uint8)
    codes, found = library().spread_sparse(pack(kept[None], 4)[0], pack(nibbles[None], 4)[0], pairs=sparsity is Sparsity.PAIRS)
    np.testing.assert_array_equal(codes, pack(want.reshape(1, -1), 4)[0])
    np.testing.assert_array_equal(found, np.repeat(legal, sparsity.group // 4))


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: check_affine(4), TypeError, "fmt = 4 is of type int; pass a name such as int4-g64-bias-float16"),
    (lambda: check_affine("int8-g64-bias-float16"), ValueError, "the kernels have four bits and groups of a multiple of 8"),
    (lambda: check_affine("int4-g4-bias-float16"), ValueError, "the kernels have four bits"),
    (
        lambda: check_contract("float16", AffineFormat(dtype="float32"), "float32"), ValueError,
        "contract = 'float16' to float32 with float32 scales is not computed here; allowed are float32, float32-fma",
    ),
    (lambda: check_contract("exact", AffineFormat(dtype="float32"), "float16"), ValueError, "not computed here"),
    (lambda: check_contract("float64", ZERO, "float32"), ValueError, "unknown contract 'float64'"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "words"), WRONG)
def test_refused(call: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


def test_emulated_float64_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "0"):
        monkeypatch.setenv(blas.EMULATION_VARIABLE, value)
        blas.check_no_emulation()
    monkeypatch.setenv(blas.EMULATION_VARIABLE, "1")
    with pytest.raises(RuntimeError, match="makes cuBLAS emulate float64"):
        blas.check_no_emulation()


def test_contracts_of_the_vector_kernels_exist() -> None:
    for fmt in product_kernels.AFFINE_FORMATS:
        rule = affine.get_contract(gemv_contract(fmt), fmt)
        assert rule.dtype == fmt.dtype
        assert rule.fused


def test_ways_of_a_product() -> None:
    def choose(rows: int, n: int = 8192, k: int = 8192) -> str:
        return products.choose_way(rows, (n, k), has_vectors=True)

    assert [choose(rows) for rows in (1, products.MOST_ROWS, products.MOST_ROWS + 1)] == ["vectors", "vectors", "numbers"]
    for n, k, most in ((512, 4096, 8), (1024, 14336, 4), (2048, 4096, 16), (4096, 4096, 32), (4096, 14336, 48)):
        assert [choose(rows, n, k) for rows in (most, most + 1)] == ["vectors", "numbers"]
    assert products.choose_way(1, (8192, 8192), has_vectors=False) == "numbers"


def test_tiles_fit_the_chip() -> None:
    for tuning in tiles.list_tunings():
        assert tuning.count_shared() <= tiles.MOST_SHARED
        assert tuning.rows % tuning.splits == 0


def test_tiles_of_a_product() -> None:
    """As many blocks of threads as the chip has multiprocessors, or nearly, where the weights allow that; no tile of more rows than needed."""

    def choose(rows: int, n: int) -> tuple[int, int, int]:
        tuning = tiles.choose_tiles(rows, (n, n), 132)
        return tuning.rows, tuning.weights, tuning.splits

    assert [choose(rows, 16384) for rows in (17, 64, 128, 512)] == [(32, 256, 2), (64, 256, 2), (128, 256, 2), (256, 128, 1)]
    assert [choose(rows, 8192) for rows in (17, 64, 128, 256, 512)] == [
        (32, 128, 2), (64, 128, 2), (128, 128, 2), (256, 128, 2), (256, 128, 1),
    ]  # fmt: skip
    # Of experts, some of which have many more rows than others; K in halves of a stage.
    assert tiles.choose_tiles(64, (14336, 4096), 132, 8).rows == 32
    assert tiles.choose_tiles(8192, (2880, 2880), 132, 128) in tiles.list_tunings(half=True)


@pytest.mark.parametrize(
    ("n", "k", "pointer", "rows"),
    [(8192, 8192, 0, (17, 2048)), (2048, 4096, 0, (17, 512)), (8192, 2880, 0, (17, 1536)), (8192, 8192, 8, ()), (8192, 2912, 0, ())],
)
def test_rows_that_tiles_take(n: int, k: int, pointer: int, rows: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "find_arch", lambda device: "sm_90")
    monkeypatch.setattr(tiles, "count_multiprocessors", lambda device: 132)
    block = get_block("mxfp4")
    codes = View(pointer, (n, k // 2), (k // 2, 1), "uint8", 0, "torch", None)
    scales = View(0, (n, k // 32), (k // 32, 1), "uint8", 0, "torch", None)
    taken = [m for m in range(1, 2200) if tiles.is_tiled(m, codes, scales, block)]
    assert (taken[0], taken[-1]) == rows if rows else not taken
    monkeypatch.setattr(tiles, "find_arch", lambda device: "sm_100a")
    assert not tiles.is_tiled(64, codes, scales, block)


#: Compute capability 9.0, 8.0, and 8.6 (8.9, 12.0).
CHIPS = dict(zip(("9.0", "8.0", "8.6"), (gemv_tunings.HOPPER, *LESS_MEMORY), strict=True))
#: Columns where all of x, and codes and factors with it, come close to what a block has.
COLUMNS = (512, 4096, 14336, *range(30 << 10, 41 << 10, 1 << 10), *range(62 << 10, 79 << 10, 1 << 10), 1 << 17)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("factors", [6, 8, 12, 16, 20, 32])
def test_a_launch_fits_the_chip(chip: str, factors: int) -> None:
    """Whatever the size: shared memory of a block, and of all blocks where x lies whole in it."""
    memory, tunings = CHIPS[chip], {w: gemv_tunings.list_gemv_tunings(w) for w in gemv_tunings.WEIGHTS}
    for weights, rows, columns, vectors in itertools.product(
        gemv_tunings.WEIGHTS, (4096, 8192, 1 << 20), COLUMNS, (1, 2, 3, 4, 8, 16, 17, 48, 64)
    ):
        for copy in (False, True):
            plan = gemv_tunings.plan_gemv(weights, (rows, columns), vectors, copy=copy, factors=factors, memory=memory)
            tuning = plan.tuning
            assert plan.vectors == vectors if chip == "9.0" else plan.vectors <= vectors
            assert plan.vectors <= tuning.batch
            assert tuning in tunings[weights]
            assert tuning.count_shared(plan.vectors, columns, factors) <= plan.shared <= memory.block
            assert not tuning.whole or plan.shared <= memory.multiprocessor // tuning.blocks_of_sm - memory.system


def test_vectors_of_a_launch_on_smaller_chips() -> None:
    """As many as fit: several launches take the others."""

    def count(chip: str, vectors: int) -> int:
        return gemv_tunings.plan_gemv("mxfp4", (16384, 16384), vectors, copy=True, factors=8, memory=CHIPS[chip]).vectors

    assert [count("8.0", v) for v in (16, 32, 48, 64)] == [16, 32, 48, 48]
    assert [count("8.6", v) for v in (8, 16, 17, 64)] == [8, 16, 16, 16]
    tiny = gemv_tunings.SharedMemory(block=16 << 10, multiprocessor=16 << 10, system=0)
    with pytest.raises(ValueError, match="16384 bytes of shared memory on this GPU, too few"):
        gemv_tunings.plan_gemv("mxfp4", (8, 512), 1, copy=True, factors=8, memory=tiny)
