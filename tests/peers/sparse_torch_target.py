"""torch as a target of sparse functions: INT8 2:4, in the packed and meta of its CUTLASS form, and its sparsifier.

    mxspec check 'cmd:PYTHON_WITH_TORCH conformance/examples/python/harness.py tests/peers/sparse_torch_target.py'

Needs torch and NumPy; no GPU.
"""

import numpy as np
import torch
from torch.ao.pruning import WeightNormSparsifier
from torch.sparse import _semi_structured_conversions as conversions

NAME, VERSION = "torch", torch.__version__
SPARSE_FORMATS, SPARSE_LAYOUT = ["int8-2to4"], ["unpacked", "torch-metadata-32"]
SHAPES = {"k": 64, "rows": 16}


def prune(codes, fmt):
    weights = torch.from_numpy(np.asarray(codes).view(np.int8).astype(np.float32))
    linear = torch.nn.Linear(weights.shape[1], weights.shape[0], bias=False)
    linear.weight = torch.nn.Parameter(weights)
    model = torch.nn.Sequential(linear)
    sparsifier = WeightNormSparsifier(sparsity_level=1.0, sparse_block_shape=(1, 4), zeros_per_block=2)
    sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}])
    sparsifier.step()
    sparsifier.squash_mask()
    return model[0].weight.detach().numpy().astype(np.int8).view(np.uint8)


def compress(codes, fmt):
    packed, meta = conversions.sparse_semi_structured_from_dense_cutlass(torch.from_numpy(np.asarray(codes).view(np.int8)))
    return packed.numpy().view(np.uint8), meta.numpy()


def decompress(kept, metadata, fmt, shape):
    rows, k = shape
    meta = torch.from_numpy(np.asarray(metadata).view(np.int32).reshape(rows, k // 32))
    packed = torch.from_numpy(np.asarray(kept).view(np.int8))
    return conversions.sparse_semi_structured_to_dense_cutlass(packed, meta).numpy().view(np.uint8)
