"""Arrays on a device that is not the current one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mxspec_gpu
from mxspec.tensorscale import TensorScale

from tests.gpu.arithmetic import pack
from tests.gpu.compare import compare_arrays, expect, lay_out, normal
from tests.gpu.device import LIBRARIES, Array, Tally, cp, import_torch, require_gpu, to_gpu, to_host

pytestmark = pytest.mark.gpu
require_gpu()

SCALE = TensorScale.from_float("amax", 3.5)


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
        match result:
            case mxspec_gpu.Quantized() | mxspec_gpu.QuantizedExperts():
                found[f"{name} codes"], found[f"{name} scales"] = result.codes, result.scales
            case mxspec_gpu.ExactProduct():
                found[f"{name} values"], found[f"{name} certain"] = result.values, result.certain
            case _:
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
        add(f"gemm {m}", mxspec_gpu.gemm(rows, q.codes, q.scales, "mxfp4", alpha=tensor, bias=send(normal((256,), "bfloat16", seed=6))))
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
    parts = [
        send(p)
        for p in (pack(rng.integers(0, 16, (64, 512), dtype=np.uint8), 4), normal((64, 8), "bfloat16", seed=9), normal((64, 8), "bfloat16"))
    ]
    fmt = "int4-g64-bias-bfloat16"
    add("affine", mxspec_gpu.affine_dequantize(*parts, fmt))
    add("affine gemv", mxspec_gpu.affine_gemv(x[:5], *parts, fmt))
    records = mxspec_gpu.pack_records(q.codes, q.scales, "mxfp4")
    add("records", records)
    add("values of records", mxspec_gpu.dequantize_records(records, "mxfp4"))
    return found


@pytest.mark.parametrize("library", LIBRARIES)
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
