"""AutoGPTQ, from a checkout: what its linear layer packs, weights and zero points."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from mxspec import layouts

from tests.peers.layouts.compare import Comparison, number_items
from tests.peers.layouts.sources import find_checkout, load_file

PACKAGES = ("torch", "transformers")
SOURCE_VARIABLE = "MXSPEC_AUTOGPTQ_SOURCE"
_GROUP = 32


def compare() -> Iterator[Comparison]:
    """Layers whose scales are 1, so that the weights are the codes less the zero points."""
    path = find_checkout(SOURCE_VARIABLE) / "auto_gptq" / "nn_modules" / "qlinear" / "qlinear_cuda_old.py"
    kind = load_file("autogptq_qlinear", path).QuantLinear
    for rows, columns in ((32, 32), (64, 96), (128, 64), (160, 288)):
        groups = columns // _GROUP
        # A zero point of 0 is left out: less one it is -1, and AutoGPTQ fills the rest of the word with it.
        planes = list(number_items((groups, rows), range(1, 16)))
        for n, codes in enumerate(number_items((rows, columns), 16)):
            zeros = planes[-1 - n % len(planes)]
            linear = torch.nn.Linear(columns, rows, bias=False)
            spread = np.repeat(zeros, _GROUP, axis=0).T
            linear.weight.data = torch.from_numpy(codes.astype(np.float32) - spread)
            own = kind(4, _GROUP, columns, rows, False, weight_dtype=torch.float32)
            own.pack(linear, torch.ones(rows, groups), torch.from_numpy(zeros.T.astype(np.float32)), None)
            yield Comparison("gptq", "pack", (rows, columns), layouts.pack(codes, "gptq"), _bytes(own.qweight))
            yield Comparison("gptq-v1-zeros", "pack", zeros.shape, layouts.pack(zeros, "gptq-v1-zeros"), _bytes(own.qzeros))


def _bytes(words: torch.Tensor) -> np.ndarray:
    return np.ascontiguousarray(words.numpy()).reshape(-1).view(np.uint8)
