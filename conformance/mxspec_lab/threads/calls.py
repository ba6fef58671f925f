"""Threads about calls: which blocks are written, and what earlier ones leave."""

from __future__ import annotations

from functools import partial

import numpy as np

from mxspec_conformance.mutants.call_mutants import from_neighbour, ignores_strides, on_result, stale_rows, stateful
from mxspec_conformance.mutants.reference import Array
from mxspec_lab.threads.building import right, wrapped
from mxspec_lab.threads.schema import Family, Level, Source, Thread


def no_scales_in_large_calls(x: Array, codes: Array, scales: Array, k: int) -> None:
    """In calls of more than 64 blocks scales are not written."""
    if len(scales) > 64:
        scales[...] = 0


def neighbours_of_nan(x: Array, codes: Array, scales: Array, k: int) -> None:
    """Four blocks reduce together: a NaN in one is one of all."""
    lost = np.isnan(x.astype(np.float32)).any(axis=1)
    groups = np.arange(len(lost)) // 4
    marked = np.isin(groups, groups[lost])
    codes[marked], scales[marked] = 0, 0xFF


_calls = partial(
    Thread, family=Family.CALLS, operations=("quantize",), formats=("mxfp4",), judged=("mxfp4",), only="*/mxfp4/*", profile="mx-floor", level=Level.QUICK, fixed=right()
)

THREADS = (
    _calls(
        id="vllm-57014", reference="vllm-project/vllm#57014", title="With 1 to 4 rows beyond a multiple of 8 the last rows hold old data", wrong="The tail's threads read shared memory before it is written.",
        differs="The report is of a transform that stands before quantization.",
        broken=wrapped(quantize=stateful(stale_rows)), fails=("quantize/mxfp4/call-size",), names="not deterministic",
    ),
    _calls(
        id="mirage-719", reference="mirage-project/mirage#719", title="Under a persistent kernel rows are quantized by the wrong worker", wrong="The physical block's number is taken for the row's.",
        differs="132 workers, each for the block with its number; the report's are rows of FP8.",
        broken=wrapped(quantize=from_neighbour(True, lambda i, n: i % 132)), fails=("quantize/mxfp4/call-size",), names="the answer depends on the call",
    ),
    _calls(
        id="bitsandbytes-1342", reference="bitsandbytes-foundation/bitsandbytes#1342", source=Source.NOTE, title="A strided tensor is quantized in memory order", wrong="Strides are not looked at.",
        broken=wrapped(quantize=ignores_strides), fails=("quantize/mxfp4/memory",), names="",
    ),
    _calls(
        id="flashinfer-5053", reference="flashinfer-ai/flashinfer#5053", title="For some sizes the kernel writes codes and no scales, and returns success", wrong="Block scales stay as they were, here zero.",
        differs="The report is of a product's epilogue in NVFP4; here it is the quantizer, in calls of more than 64 blocks.",
        broken=wrapped(quantize=on_result(no_scales_in_large_calls)), fails=("quantize/mxfp4/call-size",), names="scales are not written",
    ),
    _calls(
        id="vllm-40047", reference="vllm-project/vllm#40047", title="NaN in rows of padding spoils the scales of other rows", wrong="A reduction over a warp takes in the blocks of neighbouring rows.",
        broken=wrapped(quantize=on_result(neighbours_of_nan)), fails=("quantize/mxfp4/call-size",), names="",
    ),
)  # fmt: skip
