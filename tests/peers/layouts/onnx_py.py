"""ONNX: raw_data of the sub-byte types, by from_array and to_array, for every count of items up to 40 and some shapes."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from mxspec import layouts

from tests.peers.layouts.compare import STRADDLING, Comparison, number_items

PACKAGES = ("onnx",)
_FLAT = (
    ("nibble-low-flat", TensorProto.FLOAT4E2M1, ml_dtypes.float4_e2m1fn, 16),
    ("nibble-low-flat", TensorProto.UINT4, ml_dtypes.uint4, 16),
    ("fp6-le-flat", TensorProto.FLOAT6E2M3, ml_dtypes.float6_e2m3fn, 64),
    ("fp6-le-flat", TensorProto.FLOAT6E3M2, ml_dtypes.float6_e3m2fn, 64),
    ("bytes", TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn, 256),
    ("row-major", TensorProto.FLOAT8E8M0, ml_dtypes.float8_e8m0fnu, 256),
)  # fmt: skip


def compare() -> Iterator[Comparison]:
    """Every comparison."""
    for layout, kind, dtype, codes in _FLAT:
        for shape in (*STRADDLING, *((1, n) for n in range(2, 41)), (3, 3), (5, 7)):
            for items in number_items(shape, codes):
                data = layouts.pack(items, layout)
                theirs = numpy_helper.from_array(items.view(dtype))
                assert theirs.data_type == kind
                yield Comparison(layout, "pack", shape, data, np.frombuffer(theirs.raw_data, np.uint8))
                tensor = onnx.helper.make_tensor("x", kind, shape, data.tobytes(), raw=True)
                back = np.ascontiguousarray(numpy_helper.to_array(tensor)).view(np.uint8)
                yield Comparison(layout, "unpack", shape, layouts.unpack(data, layout, shape), back)
