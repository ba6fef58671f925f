"""Every kernel once or more on small shapes, and every view: what compute-sanitizer watches.

Every array has an allocation of its own, so that a read beyond it is seen.

`compute-sanitizer --tool memcheck python -m tests.gpu.small` (racecheck, initcheck, synccheck likewise).
"""

from __future__ import annotations

import numpy as np

import mxspec
import mxspec_gpu
from mxspec_gpu.build import import_cupy

from tests.gpu import arithmetic
from tests.gpu.device import to_gpu
from tests.gpu.views import VIEWS, apply

LEVELS = (
    *((("mx-floor", f, False)) for f in mxspec.BLOCKS if f != "nvfp4"),
    ("mx-rceil", "mxfp4", False),
    ("nvfp4-te", "nvfp4", True),
)


def main() -> None:
    """Run them all."""
    cupy = import_cupy()
    cupy.cuda.set_allocator(None)
    rng = np.random.default_rng(1)
    calls = 0
    for profile, fmt, two in LEVELS:
        for dtype in ("float32", "bfloat16"):
            tensor = cupy.asarray(np.ones(1, np.float32)) if two else None
            for shape in ((160, 192), (3, 96), (130, 33)):
                x = rng.standard_normal(shape).astype(arithmetic.DTYPES[dtype])
                x.reshape(-1)[7] = np.nan
                x.reshape(-1)[50] = np.inf
                g = to_gpu(x)
                for layout in mxspec_gpu.api.SCALE_LAYOUTS:
                    for axis in (-1, 0):
                        q = mxspec_gpu.quantize(
                            g, fmt, profile=profile, tensor_scale=tensor, axis=axis, scale_layout=layout, pad=True
                        )
                        for out in ("float32", "bfloat16"):
                            q.dequantize(out)
                        q.unpack()
                        calls += 4
                    if dtype != "float32" and shape[0] % 32 == 0 and shape[1] % 32 == 0:
                        mxspec_gpu.quantize_both(g, fmt, profile=profile, tensor_scale=tensor, scale_layout=layout)
                        calls += 1
                words = cupy.asarray(rng.integers(0, 1 << 32, shape, dtype=np.uint32))
                mxspec_gpu.quantize(g, fmt, profile=profile, tensor_scale=tensor, pad=True, random_bits=words)
                mxspec_gpu.quantize(g, fmt, profile=profile, tensor_scale=tensor, pad=True, seed=3)
                calls += 2
            if two:
                mxspec_gpu.quantize(g, fmt, profile=profile, tensor_scale="auto", pad=True)
                calls += 1
    for view in VIEWS:
        for fmt, tensor_scale in (("mxfp4", None), ("nvfp4", "auto")):
            given = apply(view, to_gpu(rng.standard_normal(view.shape).astype(np.float16)))
            for axis in range(given.ndim):
                for layout in mxspec_gpu.api.SCALE_LAYOUTS:
                    mxspec_gpu.quantize(given, fmt, axis=axis, tensor_scale=tensor_scale, scale_layout=layout, pad=True)
                    calls += 1
        codes = apply(view, to_gpu(rng.integers(0, 16, view.shape, dtype=np.uint8)))
        mxspec_gpu.decode(codes, "e2m1")
        mxspec_gpu.unpack(codes, "mxfp4")
        calls += 2
    x32 = cupy.asarray(rng.standard_normal(1000).astype(np.float32))
    for name in (*mxspec.ELEMENTS, *mxspec.SCALES):
        codes = mxspec_gpu.encode(x32, name)
        mxspec_gpu.decode(codes, name)
        calls += 2
    cupy.cuda.Device().synchronize()
    print(f"{calls} calls")


if __name__ == "__main__":
    main()
