"""triton_kernels' activation scales of ragged groups (experts), its padding kernels under Triton's interpreter: both ways."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import torch

from mxspec import layouts

from tests.peers.layouts.compare import Comparison, number_items

PACKAGES = ("torch", "triton", "tokenspeed-triton-kernels")
_GROUPS = ((15, 17, 0, 127), (128, 1), (5,), (130, 0, 0, 256, 3))


def compare() -> Iterator[Comparison]:
    """Each group is padded to whole tiles by itself, as `pack_groups` does; what follows the last is scratch."""
    # Read by Triton when it is imported.
    os.environ["TRITON_INTERPRET"] = "1"
    from triton_kernels import target_info
    from triton_kernels.tensor_details import ragged_tensor
    from triton_kernels.tensor_details.layout_details.blackwell_scale import BlackwellActMXScaleLayout

    ragged_tensor.is_hip, target_info.num_sms = lambda: False, lambda: 8
    for rows in _GROUPS:
        for columns in (1, 4, 9):
            shape = (sum(rows), columns)
            sizes = torch.tensor(rows, dtype=torch.int32)
            ragged = ragged_tensor.make_ragged_tensor_metadata_torch(sizes, shape[0])
            own = BlackwellActMXScaleLayout(ragged).make_transformation(list(shape), False)
            for scales in number_items(shape, 256):
                data = layouts.pack_groups(scales, "128x8", rows)
                theirs = own.swizzle_data(torch.from_numpy(scales))
                kept = np.ascontiguousarray(theirs.numpy()).reshape(-1)[: data.size]
                yield Comparison("128x8", "pack", shape, data, kept)
                back = own.unswizzle_data(theirs).numpy()
                yield Comparison("128x8", "unpack", shape, layouts.unpack_groups(data, "128x8", rows, columns), back)
