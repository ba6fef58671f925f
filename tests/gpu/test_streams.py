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

from tests.gpu.arithmetic import pack
from tests.gpu.compare import compare_arrays, expect, lay_out, normal
from tests.gpu.device import POISON, Array, Tally, cp, import_torch, require_gpu, to_gpu, to_host

pytestmark = pytest.mark.gpu
require_gpu()

NVFP4 = ("nvfp4-te", "nvfp4", True)
SCALE = TensorScale.from_float("amax", 3.5)
#: Keeps a stream busy: cycles of a spinning kernel, about a tenth of a second.
SPIN = cp().RawKernel(
    'extern "C" __global__ void spin(long long n) { const long long t = clock64(); while (clock64() - t < n) ; }',
    "spin",
)


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


def test_other_devices(tally: Tally) -> None:
    """Arrays of a device that is not the current one, through both libraries."""
    if cp().cuda.runtime.getDeviceCount() < 2:
        pytest.skip("one GPU only")
    torch = import_torch()
    x = normal((64, 128), "float32")
    want = expect(("mx-floor", "mxfp4", False), x, 1.0)
    turned = expect(("mx-floor", "mxfp4", False), np.ascontiguousarray(x.reshape(4, 16, 128).transpose(1, 0, 2)), 1.0)
    with cp().cuda.Device(1):
        far = to_gpu(x)
    for given in (far, torch.from_numpy(x).to("cuda:1")):
        q = mxspec_gpu.quantize(given, "mxfp4", scale_layout="128x4")
        compare_arrays(tally, (q.codes, q.scales), want, "128x4", type(given).__module__)
        cube = given.reshape(4, 16, 128)
        view = cube.transpose(0, 1) if given is not far else cube.transpose(1, 0, 2)
        q = mxspec_gpu.quantize(view, "mxfp4")
        compare_arrays(tally, (q.codes, q.scales), turned, "row-major", f"{type(given).__module__} copied")
        near = cp().empty(lay_out(want[1], "row-major").shape, cp().uint8)
        with pytest.raises(ValueError, match="codes are on device 1 and scales on device 0"):
            mxspec_gpu.dequantize(mxspec_gpu.quantize(given, "mxfp4").codes, near, "mxfp4")
    tally.require(cp().cuda.runtime.getDevice() == 0, "the current device is another one")


def _give_everywhere(send: Callable[[Array], Any]) -> dict[str, Any]:
    """Results of everything that takes arrays, made of what `send` puts on a device."""
    rng = np.random.default_rng(8)
    x = send(normal((256, 512), "bfloat16", seed=5))
    tensor, ids = send(np.array([0.75], np.float32)), np.array([[3, 0], [255, 7]])
    found: dict[str, Any] = {}

    def add(name: str, result: Any) -> None:
        for part in ("codes", "scales", "values", "certain"):
            if hasattr(result, part):
                found[f"{name} {part}"] = getattr(result, part)
        if not hasattr(result, "codes") and not hasattr(result, "certain"):
            found[name] = result

    q, n = mxspec_gpu.quantize(x, "mxfp4"), mxspec_gpu.quantize(x, "nvfp4", tensor_scale=tensor)
    add("rows", q)
    add("two levels", n)
    add("auto", mxspec_gpu.quantize(x, "nvfp4", tensor_scale="auto"))
    add("object", mxspec_gpu.quantize(x, "nvfp4", tensor_scale=SCALE))
    add("seed", mxspec_gpu.quantize(x, "mxfp4", seed=3, axis=0))
    add("words", mxspec_gpu.quantize(x, "mxfp4", random_bits=send(rng.integers(0, 1 << 32, (256, 512), dtype=np.uint32))))
    add("copied", mxspec_gpu.quantize(send(normal((8, 4, 64), "float32")).swapaxes(0, 1), "mxfp4"))
    for name, part in zip(("both rows", "both columns"), mxspec_gpu.quantize_both(x, "mxfp8_e4m3"), strict=True):
        add(name, part)
    add("scale", mxspec_gpu.tensor_scale(x, "nvfp4"))
    add("dequantize", n.dequantize("float16"))
    add("unpack", mxspec_gpu.unpack(q.codes, "mxfp4"))
    add("pack", mxspec_gpu.pack(mxspec_gpu.unpack(q.codes, "mxfp4"), "mxfp4"))
    add("decode", mxspec_gpu.decode(mxspec_gpu.encode(x, "e4m3"), "e4m3"))
    for m in (1, 40, 100):
        rows = x[:1].reshape(512) if m == 1 else x[:m]
        add(f"gemm {m}", mxspec_gpu.gemm(rows, q.codes, q.scales, "mxfp4", alpha=tensor, bias=send(normal((256,), "bfloat16", seed=6)))
        )
    add("gemv", mxspec_gpu.gemv(x[:3], n.codes, n.scales, "nvfp4", alpha=tensor))
    for kind in (np.int64, np.int32):
        add(f"embedding {kind.__name__}", mxspec_gpu.embedding(send(ids.astype(kind)), n.codes, n.scales, "nvfp4", tensor_scale=tensor))
    add("exact", mxspec_gpu.exact_product(q, n))
    rows_of = (100, 0, 156)
    for name, scales in (
        ("auto", "auto"), ("array", send(np.array([0.5, 1, 2], np.float32))), ("arrays", [send(np.array([s], np.float32)) for s in (1, 2, 3)]),
        ("objects", [SCALE] * 3),
    ):  # fmt: skip
        experts = mxspec_gpu.quantize_experts(x, rows_of, "nvfp4", tensor_scales=scales)
        add(f"experts {name}", experts)
        add(f"experts {name} back", experts.dequantize())
    parts = [send(p) for p in (pack(rng.integers(0, 16, (64, 512), dtype=np.uint8), 4), normal((64, 8), "bfloat16", seed=9), normal((64, 8), "bfloat16"))]
    fmt = "int4-g64-bias-bfloat16"
    add("affine", mxspec_gpu.affine_dequantize(*parts, fmt))
    add("affine gemv", mxspec_gpu.affine_gemv(x[:5], *parts, fmt))
    records = mxspec_gpu.pack_records(q.codes, q.scales, "mxfp4")
    add("records", records)
    add("values of records", mxspec_gpu.dequantize_records(records, "mxfp4"))
    return found


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_everything_on_another_device(library: str, tally: Tally) -> None:
    """While device 0 is current, as on device 0."""
    if cp().cuda.runtime.getDeviceCount() < 2:
        pytest.skip("one GPU only")

    def send(array: Array, device: int) -> Any:
        with cp().cuda.Device(device):
            if library == "cupy":
                return to_gpu(array)
            return to_gpu(array, "torch").to(f"cuda:{device}")

    wants = _give_everywhere(lambda a: send(a, 0))
    for name, got in _give_everywhere(lambda a: send(a, 1)).items():
        device = got.get_device() if library == "torch" else got.device.id
        tally.require(device == 1, f"{library} {name} is on device {device}")
        own, there = (np.frombuffer(to_host(a).tobytes(), np.uint8) for a in (got, wants[name]))
        tally.equal(own, there, f"{library} {name}")
    tally.require(cp().cuda.runtime.getDevice() == 0, "the current device is another one")
