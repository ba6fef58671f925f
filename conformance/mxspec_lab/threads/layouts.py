"""Threads about where codes and scales lie."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mxspec_conformance.mutants.call_mutants import with_keyword, wrong_axis
from mxspec_conformance.mutants.layout_mutants import (
    IN_ORDER,
    instead,
    left_dirty,
    pack_nibbles,
    read_linear,
    swizzle,
    unpadded_stride,
    words_of,
)
from mxspec_conformance.mutants.reference import Array, Reference
from mxspec_lab.threads.building import claiming, misplaced, places, right, wrapped
from mxspec_lab.threads.schema import Family, Level, Maker, Source, Thread


def flattened(scales: Array) -> Array:
    """A batch as one matrix, padded at its end alone."""
    packed: Array = swizzle()(scales.reshape(-1, scales.shape[-1]))
    return packed


def first_bytes(data: Array, shape: tuple[int, ...]) -> Array:
    """Scales read as if they lay row by row."""
    return data.reshape(-1)[: int(np.prod(shape))].reshape(shape)


def low_first(codes: Array) -> Array:
    """The even code in the low nibble."""
    return pack_nibbles(codes).reshape(*codes.shape[:-1], -1)


def high_first(codes: Array) -> Array:
    """The even code in the high nibble."""
    packed: Array = (codes[..., 1::2] | codes[..., ::2] << 4).astype(np.uint8)
    return packed


class Packing:
    """NVFP4 with two codes to a byte."""

    NAME, VERSION, FORMATS, TENSOR_SCALE, LAYOUT = "packing", "1", ("nvfp4",), "amax", "nibble-low"
    PROFILE = ("nvfp4-te",)

    def __init__(self, pack: Callable[[Array], Array]) -> None:
        self._pack, self._plain = pack, claiming(Reference("nvfp4-te"))

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Packed codes, and scales."""
        codes, scales = self._plain.quantize(x, fmt, tensor_scale=tensor_scale)
        return self._pack(codes), scales


_low: Maker = lambda: Packing(low_first)  # noqa: E731
_tiles = partial(
    Thread, family=Family.LAYOUTS, operations=("swizzle",), formats=("128x4",), only="swizzle/128x4/*", fixed=places()
)

THREADS = (
    _tiles(
        id="vllm-38148", reference="vllm-project/vllm#38148", also=("vllm-project/vllm#37564", "vllm-project/vllm#45739", "vllm-project/vllm#45741", "vllm-project/vllm#30260"), formats=("128x4-zeroed",),
        only="swizzle/128x4-zeroed/*", title="NaN from old bytes in the padding of swizzled scales", wrong="The buffer is allocated and not cleared, and the quantizer does not write its padding.",
        broken=misplaced(swizzle=left_dirty), fails=("swizzle/128x4-zeroed/padding",), names="it holds padding",
    ),
    _tiles(
        id="vllm-55456", reference="vllm-project/vllm#55456", also=("vllm-project/vllm#23140",), title="The buffer of swizzled scales holds rows x columns bytes, not whole tiles",
        wrong="Rows are not padded to 128, so that the tiles do not fit.", differs="Writing outside the buffer becomes cutting here.",
        broken=misplaced(swizzle=instead(swizzle(crop=True))), fails=("swizzle/128x4/place",), names="bytes came back; 128x4 takes",
    ),
    _tiles(
        id="flashinfer-3604", reference="flashinfer-ai/flashinfer#3604", also=("flashinfer-ai/flashinfer#3455", "flashinfer-ai/flashinfer#3666"), title="Products of a batch are garbage beyond the first matrix if M is no multiple of 128",
        wrong="The batch is padded as one matrix, so that tiles reach over from one matrix into the next.",
        broken=misplaced(swizzle=instead(flattened)), fails=("swizzle/128x4/batch",), names="bytes came back; 128x4 takes",
    ),
    _tiles(
        id="aiter-2900", reference="ROCm/aiter#2900", source=Source.NOTE, title="A wrong stride of shuffled scales corrupts nearly all outputs", wrong="Tiles are counted by the width before padding.",
        broken=misplaced(swizzle=instead(swizzle(unpadded_stride))), fails=("swizzle/128x4/place",), names="",
    ),
    _tiles(
        id="fuser-4801", reference="NVIDIA/Fuser#4801", title="A product is handed block scales that were never swizzled", wrong="Scales stay row by row where the kernel reads tiles of 128 x 4.",
        broken=misplaced(swizzle=instead(lambda scales: scales.reshape(-1))), fails=("swizzle/128x4/place",), names="layout row-major",
    ),
    _tiles(
        id="vllm-50084", reference="vllm-project/vllm#50084", also=("vllm-project/vllm#50085", "vllm-project/vllm#55976"), operations=("unswizzle",), only="unswizzle/128x4/*",
        title="Scales of the V cache are written swizzled and read row by row", wrong="Writer and reader disagree about the layout; every shape and dtype fits.", differs="The cache has tiles of 4 x 4; here they are 128 x 4.",
        broken=misplaced(unswizzle=instead(first_bytes)), fails=("unswizzle/128x4/place",), names="layout row-major",
    ),
    Thread(
        id="flashinfer-3882", reference="flashinfer-ai/flashinfer#3882", family=Family.LAYOUTS, operations=("quantize",), formats=("mxfp8_e4m3",), judged=("mxfp8_e4m3",), only="*/mxfp8_e4m3/*", profile="mx-floor", level=Level.QUICK,
        title="A flaky test: one operand was quantized along the wrong dimension", wrong="Blocks run along n where the sum runs along k.", differs="The mistake was in the test, beside scales that were not swizzled.",
        broken=wrapped(quantize=with_keyword("axis", wrong_axis)), fixed=right(), fails=("quantize/mxfp8_e4m3/axis",), names="",
    ),
    Thread(
        id="comfy-kitchen-41", reference="Comfy-Org/comfy-kitchen#41", also=("sgl-project/sglang#23625",), family=Family.LAYOUTS, operations=("quantize",), formats=("nvfp4",), judged=("nvfp4",), only="quantize/nvfp4/*", level=Level.QUICK, profile="nvfp4-te",
        title="Two FP4 codes share a byte, in either order", wrong="The even code lies in the high nibble where the reader expects it in the low one.",
        broken=lambda: Packing(high_first), fixed=_low, fails=("quantize/nvfp4/exact",), names="codes of each pair are swapped",
    ),
    Thread(
        id="quark-30", reference="amd/Quark#30", family=Family.LAYOUTS, operations=("pack",), formats=("awq",), only="pack/awq/*", fixed=places(),
        title="int4 weights are stored in plain order under metadata that say AWQ's", wrong="The nibbles of a word are not interleaved.",
        broken=misplaced(pack=instead(words_of(IN_ORDER, True))), fails=("pack/awq/place",), names="nibbles in plain order",
    ),
    Thread(
        id="imp-722", reference="kekzl/imp#722", also=("1bit-MONSTER/1bit-MONSTER#572",), family=Family.LAYOUTS, operations=("unpack_blocks",), formats=("ggml-mxfp4",), only="unpack_blocks/ggml-mxfp4/*", fixed=places(),
        title="A ggml block is read as neighbours that share a byte", wrong="Byte j holds elements j and j + 16, and is read as 2j and 2j + 1.", differs="The reports are of Q4_0, whose codes lie as those of ggml's MXFP4.",
        broken=misplaced(unpack_blocks=instead(read_linear)), fails=("unpack_blocks/ggml-mxfp4/place",), names="neighbours shared a byte",
    ),
)  # fmt: skip
