"""triton_kernels on CPU torch: as packaged in early 2026 and as vLLM carries it; the scale and value swizzles both ways."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import torch

from mxspec import layouts

from tests.peers.layouts.compare import STRADDLING, Bytes, Comparison, compare_packed, compare_unpacked
from tests.peers.layouts.sources import find_package, open_packages

PACKAGES = ("torch", "triton", "tokenspeed-triton-kernels", "vllm")
_SHAPES = ((1, 32), (16, 64), (31, 96), (64, 128), (127, 160), (129, 256), (257, 288), (300, 448))
_DETAILS = "tensor_details.layout_details"


def compare() -> Iterator[Comparison]:
    """Every comparison."""
    new = {n: importlib.import_module(f"triton_kernels.{_DETAILS}.{n}") for n in _NAMES}
    yield from _compare_new(new)
    for name in [n for n in sys.modules if n.partition(".")[0] == "triton_kernels"]:
        del sys.modules[name]
    root = find_package("vllm") / "third_party"
    open_packages(root, "triton_kernels", "triton_kernels.tensor_details", f"triton_kernels.{_DETAILS}")
    old = {n: importlib.import_module(f"triton_kernels.{_DETAILS}.{n}") for n in _NAMES if n != "gfx1250_scale"}
    yield from _compare_old(old)


_NAMES = ("blackwell_scale", "hopper_scale", "hopper_value", "cdna4_scale", "gfx1250_scale")


def _tensor(matrix: Bytes, *shape: int) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(matrix).reshape(shape or matrix.shape))


def _flat(tensor: torch.Tensor) -> Bytes:
    return np.ascontiguousarray(tensor.contiguous().numpy()).reshape(-1)


def _compare_scales(layout: str, shape: tuple[int, int], own: object, *, transposed: bool) -> Iterator[Comparison]:
    """A scale layout object whose matrices are [columns, rows] as its stored ones are, or [rows, columns]."""
    turn = (lambda t: t.mT) if transposed else (lambda t: t)
    stored = own.swizzle_data(turn(torch.zeros(shape, dtype=torch.uint8)).contiguous()).shape  # type: ignore[attr-defined]
    yield from compare_packed(
        layout,
        shape,
        lambda s: _flat(turn(own.swizzle_data(turn(_tensor(s)).contiguous()))),
        codes=256,  # type: ignore[attr-defined]
    )
    kept = (*stored[:-2], stored[-1], stored[-2]) if transposed else stored
    yield from compare_unpacked(
        layout, shape,
        lambda d: turn(own.unswizzle_data(turn(_tensor(d, *kept))))[: shape[0], : shape[1]].reshape(shape).numpy(), codes=256,  # type: ignore[attr-defined]
    )  # fmt: skip


def _compare_new(modules: dict[str, ModuleType]) -> Iterator[Comparison]:
    bw, hs, hv, cdna, gfx = (modules[n] for n in _NAMES)
    for shape in (*STRADDLING, (256, 8), (383, 17)):
        turned = [shape[1], shape[0]]
        # Weights come as [columns, rows] and are stored contiguous; activations as [rows, columns].
        own = bw.BlackwellMXScaleLayout().make_transformation(turned, False)
        yield from compare_packed("128x8", shape, lambda s, o=own: _flat(o.swizzle_data(_tensor(s).mT)), codes=256)
        yield from compare_unpacked(
            "128x8", shape, lambda d, o=own: np.ascontiguousarray(o.unswizzle_data(_tensor(d)).mT.numpy()), codes=256
        )
        act = bw.BlackwellActMXScaleLayout(None).make_transformation(list(shape), False)
        yield from compare_packed("128x8", shape, lambda s, o=act: _flat(o.swizzle_data(_tensor(s))), codes=256)
        yield from compare_unpacked("128x8", shape, lambda d, o=act: o.unswizzle_data(_tensor(d)).numpy(), codes=256)
        own = cdna.CDNA4MXScaleLayout().make_transformation(turned, False)
        if shape[0] > 1:  # of a single row its reader asserts a stride that torch does not give
            yield from _compare_scales("cdna4-scale-32", shape, own, transposed=True)
        own = gfx.GFX1250MXScaleLayout().make_transformation(turned, False)
        if shape[1] > 3:  # narrower matrices get tiles as narrow, of no layout here
            yield from _compare_scales("128x4-zeroed", shape, own, transposed=True)
        for warps in (4, 8):
            plain = hs.HopperMXScaleLayout(mx_axis=-1, num_warps=warps).make_transformation(list(shape), False)
            yield from _compare_scales(f"hopper-scale-{warps}", shape, plain, transposed=False)
            own = hs.HopperMXScaleLayout(mx_axis=-2, num_warps=warps).make_transformation(turned, False)
            yield from _compare_scales(f"hopper-scale-{warps}", shape, own, transposed=True)
    for shape in _SHAPES:
        for version, layout in ((3, "hopper-value-wgmma-64"), (2, "hopper-value-mma-64")):
            # Codes lie two to a byte along the last axis in either form.
            own = hv.HopperMXValueLayout(mx_axis=-1, mma_version=version).make_transformation(list(shape), True)
            yield from _compare_values(layout, shape, own, turned=False)
            if shape[0] % 2 == 0:
                own = hv.HopperMXValueLayout(mx_axis=-2, mma_version=version).make_transformation([shape[1], shape[0]], True)
                yield from _compare_values(layout, shape, own, turned=True)
    yield from _compare_repack()


def _compare_values(layout: str, shape: tuple[int, int], own: object, *, turned: bool) -> Iterator[Comparison]:
    def pack(codes: Bytes) -> Bytes:
        matrix = np.ascontiguousarray(codes.T if turned else codes)
        stored = own.swizzle_data(_tensor(layouts.pack(matrix, "nibble-low"), matrix.shape[0], -1))  # type: ignore[attr-defined]
        return _flat(stored.mT if turned else stored)

    rows = layouts.get_layout(layout).pad_shape(shape)[0] // 4

    def unpack(data: Bytes) -> Bytes:
        stored = _tensor(data, rows, -1)
        back = own.unswizzle_data(stored.mT if turned else stored)  # type: ignore[attr-defined]
        own_shape = shape[::-1] if turned else shape
        # Where the packed axis is the rows its reader cuts padding of that axis away in bytes.
        kept = np.ascontiguousarray(back.numpy()[: own_shape[0], : own_shape[1] // 2])
        codes = layouts.unpack(kept.reshape(-1), "nibble-low", own_shape)
        return np.ascontiguousarray(codes.T if turned else codes)

    yield from compare_packed(layout, shape, pack, codes=16)
    if turned:  # untransposed, its reader of this age repacks bytes that need none, and scrambles them
        yield from compare_unpacked(layout, shape, unpack, codes=16)


def _compare_old(modules: dict[str, ModuleType]) -> Iterator[Comparison]:
    """vLLM's copy: its Hopper values are given packed along the block axis, and padded to bare tiles."""
    bw, hs, hv, cdna = (modules[n] for n in _NAMES[:4])
    for shape in (*STRADDLING, (256, 8), (383, 17)):
        turned = [shape[1], shape[0]]
        own = bw.BlackwellMXScaleLayout(turned)
        yield from compare_packed("128x8", shape, lambda s, o=own: _flat(o.swizzle_data(_tensor(s).mT)), codes=256)
        yield from compare_unpacked(
            "128x8", shape, lambda d, o=own: np.ascontiguousarray(o.unswizzle_data(_tensor(d)).mT.numpy()), codes=256
        )
        for warps in (4, 8):
            plain = hs.HopperMXScaleLayout(list(shape), mx_axis=1, num_warps=warps)
            yield from _compare_scales(f"hopper-scale-{warps}", shape, plain, transposed=False)
            own = hs.HopperMXScaleLayout(turned, mx_axis=0, num_warps=warps)
            yield from _compare_scales(f"hopper-scale-{warps}", shape, own, transposed=True)
        if shape[0] % 32 == 0 and shape[1] % 8 == 0:
            cdna_own = cdna.CDNA4MXScaleLayout(turned)
            yield from compare_packed("cdna4-scale-32", shape, lambda s, o=cdna_own: _flat(o.swizzle_data(_tensor(s).mT).mT), codes=256)
    for shape in _SHAPES:
        for version, layout in ((3, "hopper-value-wgmma-16"), (2, "hopper-value-mma-16")):
            own = hv.HopperMXValueLayout(list(shape), mx_axis=1, mma_version=version)
            rows = layouts.get_layout(layout).pad_shape(shape)[0] // 4
            half = (shape[0], shape[1] // 2)
            yield from compare_packed(
                layout, shape, lambda c, o=own, h=half: _flat(o.swizzle_data(_tensor(layouts.pack(c, "nibble-low"), *h))), codes=16
            )  # fmt: skip
            yield from compare_unpacked(
                layout, shape,
                lambda d, o=own, h=half, r=rows, s=shape: layouts.unpack(
                    np.ascontiguousarray(o.unswizzle_data(_tensor(d, r, -1)).numpy()[: h[0], : h[1]]).reshape(-1), "nibble-low", s
                ), codes=16,
            )  # fmt: skip


def _compare_repack() -> Iterator[Comparison]:
    """`repack` from one axis to the other: nibble-low of the matrix in, nibble-low of its transpose out."""
    repack = importlib.import_module(f"triton_kernels.{_DETAILS}.torch_utils").repack
    for shape in ((2, 2), (32, 16), (128, 62), (300, 8)):
        yield from compare_packed(
            "nibble-low", shape,
            lambda c: _flat(repack(_tensor(layouts.pack(c.T.copy(), "nibble-low"), c.shape[1], -1), -1, -2, True).mT), codes=16,
        )  # fmt: skip
