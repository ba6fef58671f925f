"""Calls stay on the caller's stream, never wait, allocate nothing, and can be captured."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import mxspec
import mxspec_gpu
from mxspec.tensorscale import TensorScale

from tests.gpu.compare import compare_arrays, expect, normal
from tests.gpu.device import POISON, Array, Tally, cp, import_torch, require_gpu, to_gpu, to_host

pytestmark = pytest.mark.gpu
require_gpu()

NVFP4 = ("nvfp4-te", "nvfp4", True)
SCALE = TensorScale.from_float("amax", 3.5)
#: Keeps a stream busy: cycles of a spinning kernel, about a tenth of a second.
SPIN = cp().RawKernel('extern "C" __global__ void spin(long long n) { const long long t = clock64(); while (clock64() - t < n) ; }', "spin")


def spin(stream: Any = None) -> None:
    SPIN((1,), (1,), (np.int64(200_000_000),), stream=stream)


def cupy_stream(stream: Any) -> Any:
    """torch's stream as CuPy's."""
    with warnings.catch_warnings():
        # Deprecated for a protocol that not every torch has.
        warnings.simplefilter("ignore", DeprecationWarning)
        return cp().cuda.ExternalStream(stream.cuda_stream)


def test_captured_by_cupy(tally: Tally) -> None:
    x = normal((512, 2048), "float32")
    given = to_gpu(x)
    want = expect(("mx-floor", "mxfp4", False), x, 1.0)
    q = mxspec_gpu.quantize(given, "mxfp4", scale_layout="128x4")
    stream = cp().cuda.Stream(non_blocking=True)
    cp().cuda.get_current_stream().synchronize()
    with stream:
        codes, scales = cp().full_like(q.codes, POISON), cp().full_like(q.scales, POISON)
        stream.begin_capture()
        mxspec_gpu.quantize(given, "mxfp4", scale_layout="128x4", out=(codes, scales))
        graph = stream.end_capture()
        for _ in range(2):
            graph.launch(stream)
    stream.synchronize()
    compare_arrays(tally, (codes, scales), want, "128x4", "captured")


def test_nothing_is_allocated(tally: Tally) -> None:
    x = to_gpu(normal((512, 2048), "float32"))
    for options in ({"fmt": "mxfp4", "scale_layout": "128x4"}, {"fmt": "nvfp4", "tensor_scale": SCALE}):
        q = mxspec_gpu.quantize(x, **options)
        values = cp().empty(x.shape, cp().float32)
        pool = cp().get_default_memory_pool()
        before = pool.used_bytes(), pool.total_bytes()
        for _ in range(10):
            mxspec_gpu.quantize(x, **options, out=(q.codes, q.scales))
            q.dequantize("float32", out=values)
        tally.require((pool.used_bytes(), pool.total_bytes()) == before, f"{options}: memory was allocated")


def torch_calls(x: Any) -> dict[str, tuple[Callable[[], Any], Callable[[Array], tuple[Array, Array, Array]], str]]:
    """Name -> call with outputs of its own, what the model says of x, layout."""
    mxfp4 = ("mx-floor", "mxfp4", False)

    def prepared(layout: str, **options: Any) -> Callable[[], Any]:
        first = mxspec_gpu.quantize(x, scale_layout=layout, **options)
        return lambda: mxspec_gpu.quantize(x, scale_layout=layout, out=(first.codes, first.scales), **options)

    return {
        "rows": (prepared("128x4", fmt="mxfp4"), lambda h: expect(mxfp4, h, 1.0), "128x4"),
        "columns": (prepared("row-major", fmt="mxfp4", axis=0), lambda h: expect(mxfp4, h, 1.0, 0), "row-major"),
        "TensorScale": (
            prepared("row-major", fmt="nvfp4", tensor_scale=SCALE), lambda h: expect(NVFP4, h, 3.5), "row-major",
        ),
        "auto": (
            prepared("128x4", fmt="nvfp4", tensor_scale="auto"),
            lambda h: expect(NVFP4, h, mxspec.tensor_scale(h, "nvfp4").value),
            "128x4",
        ),
    }  # fmt: skip


@pytest.mark.parametrize("what", ["rows", "columns", "TensorScale", "auto"])
def test_captured_by_torch(what: str, tally: Tally) -> None:
    """Replayed on changed inputs. A TensorScale needs neither memory nor another stream."""
    torch = import_torch()
    x = torch.randn(256, 512, device="cuda", dtype=torch.bfloat16)
    call, model, layout = torch_calls(x)[what]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        q = call()
    for turn in range(3):
        x.normal_()
        q.codes.fill_(POISON)
        q.scales.fill_(POISON)
        graph.replay()
        torch.cuda.synchronize()
        compare_arrays(tally, (q.codes, q.scales), model(to_host(x)), layout, f"{what}, replay {turn}")
    tally.require(torch.rand(3, device="cuda").shape == (3,), "torch's random numbers still work")


@pytest.mark.parametrize("what", ["rows", "columns", "TensorScale", "auto"])
def test_side_streams_of_torch(what: str, tally: Tally) -> None:
    """Behind a busy stream of its own: the call returns at once and its work waits. Beside a busy null stream of CuPy's: done
    while that one is still busy."""
    torch = import_torch()
    x = torch.randn(256, 512, device="cuda", dtype=torch.bfloat16)
    call, model, layout = torch_calls(x)[what]
    side = torch.cuda.Stream()
    want = model(to_host(x))
    torch.cuda.synchronize()
    start = time.perf_counter()
    with torch.cuda.stream(side):
        spin(cupy_stream(side))
        q = call()
    took = time.perf_counter() - start
    tally.require(not side.query(), "the stream was idle: nothing to wait behind")
    tally.require(took < 0.05, f"the call took {took} s")
    side.synchronize()
    compare_arrays(tally, (q.codes, q.scales), want, layout, f"{what} behind a busy stream")
    busy = cp().cuda.Stream(non_blocking=True)
    with busy:
        spin()
        with torch.cuda.stream(side):
            q = call()
        side.synchronize()
        tally.require(not busy.done, f"{what} waited for CuPy's current stream")
    compare_arrays(tally, (q.codes, q.scales), want, layout, f"{what} beside a busy stream")


def test_eight_threads_on_eight_streams(tally: Tally) -> None:
    torch = import_torch()
    inputs = [torch.randn(128, 64 * (i + 1), device="cuda") for i in range(8)]
    torch.cuda.synchronize()

    def work(i: int) -> Any:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(50):
                q = mxspec_gpu.quantize(inputs[i], "nvfp4", tensor_scale=SCALE, scale_layout="128x4")
            torch.cuda.current_stream().synchronize()
            return q

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    for x, q in zip(inputs, results, strict=True):
        compare_arrays(tally, (q.codes, q.scales), expect(NVFP4, to_host(x), 3.5), "128x4", f"{tuple(x.shape)}")


def test_checks_that_wait_refuse_a_capture(tally: Tally) -> None:
    """`pack` and `decode` wait for the GPU to refuse wide codes; within a capture they say so, and the capture goes on."""
    codes = to_gpu(np.full((4, 32), 3, np.uint8))
    mxspec_gpu.pack(codes, "mxfp4")
    mxspec_gpu.decode(codes, "e2m1")
    stream = cp().cuda.Stream(non_blocking=True)
    cp().cuda.get_current_stream().synchronize()
    with stream:
        stream.begin_capture()
        for call in (lambda: mxspec_gpu.pack(codes, "mxfp4"), lambda: mxspec_gpu.decode(codes, "e2m1")):
            with pytest.raises(ValueError, match="pass check=False"):
                call()
        packed = mxspec_gpu.pack(codes, "mxfp4", check=False)
        graph = stream.end_capture()
        graph.launch(stream)
    stream.synchronize()
    tally.equal(to_host(packed), np.full((4, 16), 0x33, np.uint8), "captured")
