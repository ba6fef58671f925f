"""Right implementations of unusual form, which nobody may accuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxspec import layouts
from mxspec_lab.mutants.affine_mutants import Affine

from tests.corpora.outside.entry import DTYPES, Array, Members, enter, offers, quantize, remembered, with_options
from tests.corpora.outside.packing import Sides, pack, pack_blocks, product, unpack, unpack_blocks

Make = Callable[[], Members]


def right(group: str, story: str) -> Callable[[Make], Make]:
    return offers(group, story, wrong=False)


FORMS, WORK = "right: form", "right: work"


@right(FORMS, "laid out: padding of tiles holds the bytes of the call before")
def form_tiles_dirty() -> Members:
    kept = {"byte": 0}

    def quantize_(x: Array, fmt: str) -> Any:
        codes, scales = quantize(x, fmt)
        tiles = np.array(layouts.pack(scales, "128x4"))
        used = np.array(layouts.get_layout("128x4").mask(scales.shape)).reshape(tiles.shape)
        kept["byte"] = (kept["byte"] + 1) % 256
        tiles[used == 0] = kept["byte"]
        return layouts.pack(codes, "nibble-low").reshape(codes.shape[0], -1), tiles

    return {"FORMATS": ["mxfp4"], "LAYOUT": ["nibble-low", "128x4"], "quantize": quantize_}


@right(WORK, "answers are kept by everything that matters, for ever")
def work_memo_all() -> Members:
    def key(x: Array, fmt: str, **o: Any) -> Any:
        return np.ascontiguousarray(x).tobytes(), x.shape, x.dtype.name, fmt, tuple(sorted((k, str(v)) for k, v in o.items()))

    kept: dict[Any, Any] = {}

    def called(x: Array, fmt: str, **o: Any) -> Any:
        name = key(x, fmt, **o)
        if len(kept) > 50:
            kept.clear()
        kept.setdefault(name, quantize(x, fmt, **o))
        return tuple(a.copy() for a in kept[name])

    return {
        "FORMATS": ["mxfp4", "nvfp4"],
        "TENSOR_SCALE": "amax",
        "DTYPES": DTYPES,
        "quantize": with_options(called, "tensor_scale", "axis", "pad"),
    }


@right(WORK, "packing by tables of its own, answers as memoryviews and bytes")
def work_packing() -> Members:
    return {
        "LAYOUTS": ["nibble-low", "gptq", "awq", "128x4", "8x4", "ggml-mxfp4"], "pack": lambda codes, layout: bytes(pack(codes, layout)), "unpack": unpack,
        "swizzle": lambda scales, layout: memoryview(pack(scales, layout)), "unswizzle": lambda data, layout, shape: np.asfortranarray(unpack(data, layout, shape)),
        "pack_blocks": lambda codes, scales, layout: bytearray(pack_blocks(codes, scales, layout)),
        "unpack_blocks": lambda data, layout, shape: [np.asfortranarray(a) for a in unpack_blocks(data, layout, shape)],
    }  # fmt: skip


@right(WORK, "packing refuses three dimensions and what is not contiguous")
def work_packing_refuses() -> Members:
    def plain(function: Any) -> Any:
        def called(a: Array, layout: str, *more: Any) -> Any:
            if isinstance(a, np.ndarray) and (a.ndim > 2 or not a.flags.c_contiguous or a.size == 0):
                raise ValueError("two dimensions, contiguous")
            return function(a, layout, *more)

        return called

    return {
        "LAYOUTS": ["nibble-low", "128x4"],
        "pack": lambda codes, layout: plain(pack)(codes, layout),
        "swizzle": lambda scales, layout: plain(pack)(scales, layout),
    }


@right(WORK, "affine: kept by all that matters")
def work_affine_memo() -> Members:
    plain = Affine("plain", ("int4-g128-zero-float16",))
    whole = lambda *a: tuple((np.ascontiguousarray(p).tobytes(), p.shape, p.dtype.name) if isinstance(p, np.ndarray) else p for p in a)  # noqa: E731
    return {
        "AFFINE": ["int4-g128-zero-float16"], "quantize_affine": remembered(lambda x, fmt: plain.quantize_affine(x, fmt), whole),
        "dequantize_affine": remembered(lambda codes, scales, offsets, fmt: plain.dequantize_affine(codes, scales, offsets, fmt), whole),
    }  # fmt: skip


def backwards(p: Sides) -> Array:
    with np.errstate(all="ignore"):
        return (p.a[:, ::-1].astype(np.float32) @ p.b[:, ::-1].T.astype(np.float32)).astype(np.float64)


enter(
    "right-product-nvfp4",
    "right: products",
    "nvfp4 by nvfp4, backwards",
    product(lambda p: p.finish(backwards(p)), "nvfp4", "nvfp4"),
    wrong=False,
)
enter("right-product-prepared", "right: products", "weights prepared once for all of their bytes",
      product(lambda p: setattr(p, "b", p.kept.setdefault((p.b.shape, np.asarray(p.sides[1].codes).tobytes(), np.asarray(p.sides[1].scales).tobytes()), p.b))), wrong=False)  # fmt: skip
