"""Every view of every rank, of both libraries, is quantized as the model quantizes it, or copied first.

`python -m tests.gpu.small` runs the same views under compute-sanitizer.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxspec
import mxspec_gpu

from tests.gpu.arithmetic import DTYPES, FORMAT_LEVELS, Level, block_k, level_id, native_values, rules_of
from tests.gpu.compare import LAYOUTS, compare, compare_arrays, compare_both, expect, gpu_tensor, model_tensor, normal, pack_rows
from tests.gpu.device import LIBRARIES, SEED, Array, Tally, bits_of, cp, import_torch, require_gpu, to_gpu, to_host
from tests.gpu.views import VIEWS, View, apply

pytestmark = pytest.mark.gpu
require_gpu()

#: 4-bit codes with both kinds of scales, 6-bit and 8-bit codes.
LEVELS = tuple(level for level in FORMAT_LEVELS if level[1] in ("mxfp4", "mxfp6_e3m2", "mxfp8_e4m3", "nvfp4"))
FIRST = native_values(rules_of(LEVELS[-1]))[0]


def on_gpu(view: View, x: Array, library: str) -> Any:
    """The view on the GPU; skips what the library has not."""
    if library == "torch":
        import_torch()
        if view.negative:
            pytest.skip("torch has no negative strides")
    return apply(view, to_gpu(x, library))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("view", VIEWS, ids=lambda v: v.name)
def test_quantize(view: View, library: str, tally: Tally) -> None:
    for dtype in DTYPES:
        x = normal(view.shape, dtype)
        host, given = apply(view, x), on_gpu(view, x, library)
        for level in LEVELS:
            for axis in range(host.ndim):
                for layout in LAYOUTS:
                    compare(tally, level, host, FIRST, layout, axis, given=given, label=f"{view.name} {library}")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("view", VIEWS, ids=lambda v: v.name)
def test_stochastic(view: View, library: str, tally: Tally) -> None:
    """Words that are views themselves, and a seed."""
    from tests.test_gpu_arithmetic import counter_bytes

    x = np.nan_to_num(normal(view.shape, "float32"), posinf=1, neginf=1).astype(ml_dtypes.bfloat16)
    words = np.random.default_rng(SEED).integers(0, 1 << 32, view.shape, dtype=np.uint32)
    host, given = apply(view, x), on_gpu(view, x, library)
    host_words = apply(view, words)
    given_words = apply(view, to_gpu(words.view(np.int32), library))
    for level in (LEVELS[0], LEVELS[-1]):
        tensor = gpu_tensor(level, FIRST)
        for bits in (32, 8):
            want = expect(level, host, FIRST, random_bits=host_words, sr_bits=bits)
            q = mxspec_gpu.quantize(given, level[1], tensor_scale=tensor, pad=True, random_bits=given_words, sr_bits=bits)
            compare_arrays(tally, (q.codes, q.scales), want, "row-major", f"{view.name} {library} words {bits}")
        k = block_k(level[1])
        padded = (*host.shape[:-1], -(-host.shape[-1] // k) * k)
        counted = counter_bytes(7, int(np.prod(padded))).astype(np.uint32).reshape(padded)[..., : host.shape[-1]]
        want = expect(level, host, FIRST, random_bits=np.ascontiguousarray(counted), sr_bits=8)
        q = mxspec_gpu.quantize(given, level[1], tensor_scale=tensor, pad=True, seed=7)
        compare_arrays(tally, (q.codes, q.scales), want, "row-major", f"{view.name} {library} seed")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("view", VIEWS, ids=lambda v: v.name)
def test_tensor_scale(view: View, library: str, tally: Tally) -> None:
    """The largest magnitude of what the view shows, not of what lies between: that is larger."""
    for dtype in DTYPES:
        x = np.nan_to_num(normal(view.shape, "float32"), posinf=1, neginf=1).astype(DTYPES[dtype])
        x.reshape(-1)[::7] = np.arange(x.reshape(-1)[::7].size) % 61
        host, given = apply(view, x), on_gpu(view, x, library)
        want = mxspec.tensor_scale(host, "nvfp4", "nvfp4-te")
        got = to_host(mxspec_gpu.tensor_scale(given, "nvfp4", "nvfp4-te")).view(np.uint32)
        tally.equal(got, np.array([want.bits], np.uint32), f"{view.name} {library} {dtype}")
        q = mxspec_gpu.quantize(given, "nvfp4", tensor_scale="auto", pad=True)
        compare_arrays(tally, (q.codes, q.scales), expect(("nvfp4-te", "nvfp4", True), host, want.value), "row-major", view.name)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("view", VIEWS, ids=lambda v: v.name)
def test_single_numbers_and_codes(view: View, library: str, tally: Tally) -> None:
    for dtype in DTYPES:
        x = normal(view.shape, dtype)
        host, given = apply(view, x), on_gpu(view, x, library)
        want = mxspec.encode(host, "e4m3")
        tally.equal(to_host(mxspec_gpu.encode(given, "e4m3")), want, f"encode {view.name} {library} {dtype}")
    codes = np.random.default_rng(2).integers(0, 16, view.shape, dtype=np.uint8)
    host, given = apply(view, codes), apply(view, to_gpu(codes, library))
    got = to_host(mxspec_gpu.decode(given, "e2m1"))
    tally.equal(got.view(np.uint32), mxspec.decode(host, "e2m1").view(np.uint32), f"decode {view.name} {library}")
    if host.shape[-1] % 2 == 0:
        pairs = np.ascontiguousarray(host).reshape(-1, 2)
        want = (pairs[:, 0] | pairs[:, 1] << 4).reshape(*host.shape[:-1], -1)
        tally.equal(to_host(mxspec_gpu.pack(given, "mxfp4")), want, f"pack {view.name} {library}")
    want = np.stack([host & 15, host >> 4], axis=-1).reshape(*host.shape[:-1], -1)
    tally.equal(to_host(mxspec_gpu.unpack(given, "mxfp4")), want, f"unpack {view.name} {library}")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("view", VIEWS, ids=lambda v: v.name)
def test_dequantize(view: View, library: str, tally: Tally) -> None:
    """Packed codes and scales that are views of larger arrays."""
    rng = np.random.default_rng(3)
    if apply(view, np.zeros(view.shape, np.uint8)).shape[-1] % 32:
        pytest.skip("the view has no whole blocks")
    for level in LEVELS:
        fmt = rules_of(level).fmt
        packed = rng.integers(0, 256, view.shape, dtype=np.uint8)
        codes = apply(view, packed)
        if codes.shape[-1] % (fmt.k * fmt.element.bits // 8):
            continue
        blocks = codes.shape[-1] // (fmt.k * fmt.element.bits // 8)
        wide = rng.integers(0, fmt.scale.nan_code, (*codes.shape[:-1], 2 * blocks), dtype=np.uint8)
        scales = wide[..., ::2]
        bits = np.unpackbits(np.ascontiguousarray(codes)[..., np.newaxis], axis=-1, bitorder="little")
        bits = bits.reshape(*codes.shape[:-1], -1, fmt.element.bits)
        one = np.packbits(bits, axis=-1, bitorder="little")[..., 0]
        given, given_scales = on_gpu(view, packed, library), to_gpu(wide, library)[..., ::2]
        for dtype, kind in DTYPES.items():
            want = mxspec.dequantize(
                one, np.ascontiguousarray(scales), level[1], profile=level[0], tensor_scale=model_tensor(level, FIRST), dtype=kind
            )
            got = mxspec_gpu.dequantize(given, given_scales, level[1], profile=level[0], tensor_scale=gpu_tensor(level, FIRST), dtype=dtype)
            tally.equal(bits_of(to_host(got)), bits_of(want), f"{view.name} {library} {level_id(level)} {dtype}")


@pytest.mark.parametrize("level", LEVELS, ids=level_id)
def test_both_directions_of_views(level: Level, tally: Tally) -> None:
    """A pitch is read in place; what has no contiguous rows is refused, never read as if it had."""
    for dtype in ("float16", "bfloat16"):
        x = normal((128, 256), dtype)
        for host, cut in ((x[:, :64], np.s_[:, :64]), (x[::2, 32:96], np.s_[::2, 32:96]), (x[64:, 2:66], np.s_[64:, 2:66])):
            for layout in LAYOUTS:
                compare_both(tally, level, host, FIRST, layout, to_gpu(x)[cut], f"{cut}")
        g = to_gpu(x)
        for view in (g.T, g[:, ::2], g[::-1], cp().broadcast_to(g[:1], (64, 256)), g.reshape(2, 64, 256), g[:, 1:65]):
            with pytest.raises(ValueError, match="both directions in one pass need"):
                mxspec_gpu.quantize_both(view, level[1], tensor_scale=gpu_tensor(level, FIRST))
            tally.compared += 1


def test_attention_heads(tally: Tally) -> None:
    """[B, T, H, D] as [B, H, T, D], the view that every transformer makes."""
    torch = import_torch()
    x = torch.randn(2, 16, 8, 64, device="cuda", dtype=torch.bfloat16)
    for fmt in ("mxfp4", "mxfp8_e4m3"):
        q, want = (mxspec_gpu.quantize(v, fmt) for v in (x.transpose(1, 2), x.transpose(1, 2).contiguous()))
        tally.equal(to_host(q.codes), to_host(want.codes), f"{fmt} codes")
        tally.equal(to_host(q.scales), to_host(want.scales), f"{fmt} scales")


def test_lazy_negation(tally: Tally) -> None:
    """torch's imaginary part of a conjugate holds the opposite signs in memory."""
    torch = import_torch()
    x = torch.randn(16, 64, dtype=torch.complex64, device="cuda").conj().imag
    assert x.is_neg()
    host = to_host(x.resolve_neg())
    compare(tally, LEVELS[0], host, given=x, label="negated")
    compare(tally, LEVELS[0], host, axis=0, given=x, label="negated")
    tally.equal(to_host(mxspec_gpu.encode(x, "e5m2")), mxspec.encode(host, "e5m2"), "negated encode")
    scale = torch.tensor([1 - 3.5j], device="cuda").conj().imag
    assert scale.is_neg()
    want = expect(("nvfp4-te", "nvfp4", True), host, 3.5)
    q = mxspec_gpu.quantize(x, "nvfp4", tensor_scale=scale)
    compare_arrays(tally, (q.codes, q.scales), want, "row-major", "negated tensor scale")
    with pytest.raises(ValueError, match="out is a torch tensor that torch holds negated"):
        mxspec_gpu.tensor_scale(x, "nvfp4", out=scale)
    with pytest.raises(TypeError, match="x has dtype complex64"):
        mxspec_gpu.quantize(torch.zeros(32, dtype=torch.complex64, device="cuda").conj(), "mxfp4")


def test_padding_is_cut_off(tally: Tally) -> None:
    """What comes back has x's shape, the blocks' axis last."""
    x = normal((3, 5, 40), "float32")
    q = mxspec_gpu.quantize(to_gpu(x).transpose(1, 0, 2), "mxfp8_e4m3", pad=True)
    codes, _, _ = expect(("mx-floor", "mxfp8_e4m3", False), x.transpose(1, 0, 2), 1.0)
    tally.equal(to_host(q.unpack()), codes, "codes")
    tally.require(q.dequantize("float32").shape == (5, 3, 40), "shape")
    tally.equal(pack_rows(codes, ("mx-floor", "mxfp8_e4m3", False)), codes, "codes of eight bits are packed already")
