"""AutoAWQ, from a checkout: what its linear layer packs, its reader, and its words for ExLlama (GPTQ's)."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import numpy as np
import torch

from mxspec import layouts

from tests.peers.layouts.compare import Comparison, number_items
from tests.peers.layouts.sources import find_checkout, open_packages, stub_modules

PACKAGES = ("torch",)
SOURCE_VARIABLE = "MXSPEC_AUTOAWQ_SOURCE"
_GROUP = 32


def compare() -> Iterator[Comparison]:
    """Layers whose scales are 1, so that the weights are the codes less the zero points."""
    root = find_checkout(SOURCE_VARIABLE)
    stub_modules("awq", real=("awq.modules.linear.gemm", "awq.utils.packing_utils"))
    open_packages(root, "awq", "awq.modules", "awq.modules.linear", "awq.utils")
    packing = importlib.import_module("awq.utils.packing_utils")
    from awq.utils import module, utils

    module.try_import = lambda name: (None, f"{name} is not wanted")
    utils.get_best_device = lambda: "cpu"
    kind = importlib.import_module("awq.modules.linear.gemm").WQLinear_GEMM
    for rows, columns in ((32, 32), (64, 96), (128, 64), (160, 288)):
        groups = columns // _GROUP
        planes = list(number_items((groups, rows), 16))
        for n, codes in enumerate(number_items((rows, columns), 16)):
            zeros = planes[-1 - n % len(planes)]
            linear = torch.nn.Linear(columns, rows, bias=False)
            linear.weight.data = torch.from_numpy(codes.astype(np.float32) - np.repeat(zeros, _GROUP, axis=0).T)
            own = kind.from_linear(linear, 4, _GROUP, scales=torch.ones(groups, rows), zeros=torch.from_numpy(zeros.astype(np.float32)))
            weight, packed_zeros = layouts.pack(codes, "awq"), layouts.pack(zeros, "awq-zeros")
            yield Comparison("awq", "pack", codes.shape, weight, _bytes(own.qweight))
            yield Comparison("awq-zeros", "pack", zeros.shape, packed_zeros, _bytes(own.qzeros))
            words = [_words(weight, columns), _words(packed_zeros, groups)]
            found = packing.reverse_awq_order(*packing.unpack_awq(*words, 4), 4)
            yield Comparison("awq", "unpack", codes.shape, layouts.unpack(weight, "awq", codes.shape), found[0].numpy().T & 15)
            back = layouts.unpack(packed_zeros, "awq-zeros", zeros.shape)
            yield Comparison("awq-zeros", "unpack", zeros.shape, back, found[1].numpy() & 15)
            exllama, _ = packing.unpack_reorder_pack(*words, 4)
            yield Comparison("gptq", "pack", codes.shape, layouts.pack(codes, "gptq"), _bytes(exllama))


def _words(data: np.ndarray, rows: int) -> torch.Tensor:
    return torch.from_numpy(data.view("<i4").reshape(rows, -1).copy())


def _bytes(words: torch.Tensor) -> np.ndarray:
    return np.ascontiguousarray(words.numpy()).reshape(-1).view(np.uint8)
