"""The second call of a kind takes a short way: it gives the same, and refuses what the first one would refuse."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import mxspec_gpu
from mxspec.tensorscale import TensorScale
from mxspec_gpu import quick

from tests.gpu.arithmetic import DTYPES, FORMAT_LEVELS, Level, level_id, native_values, rules_of
from tests.gpu.compare import LAYOUTS, compare_arrays, expect, gpu_tensor, lay_out, message_of, normal
from tests.gpu.device import LIBRARIES, POISON, Guarded, Tally, cp, import_torch, require_gpu, to_gpu, to_host

pytestmark = pytest.mark.gpu
require_gpu()


def outputs(want: Any, layout: str, library: str) -> tuple[Guarded, tuple[Any, Any]]:
    """Poisoned outputs of a library for what is expected."""
    guarded = Guarded(want[0].shape, lay_out(want[1], layout).shape)
    if library == "cupy":
        return guarded, (guarded.arrays[0], guarded.arrays[1])
    torch = import_torch()
    codes, scales = (torch.from_dlpack(a) for a in guarded.arrays)
    return guarded, (codes, scales)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call so far took the short way."""
    quick.forget()
    ways: list[bool] = []
    run = quick.run_again

    def record(*arguments: Any) -> Any:
        plan = run(*arguments)
        ways.append(plan is not None)
        return plan

    monkeypatch.setattr(mxspec_gpu.api, "run_again", record)
    return ways


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("level", FORMAT_LEVELS, ids=level_id)
def test_again(level: Level, library: str, tally: Tally, taken: list[bool]) -> None:
    """Other data, other outputs, another tensor scale, another seed."""
    natives = native_values(rules_of(level))
    for dtype in DTYPES:
        for axis in (1, 0):
            for layout in LAYOUTS:
                for turn in range(3):
                    x = normal((128, 256), dtype, seed=turn)
                    native = natives[turn % len(natives)]
                    want = expect(level, x, native, axis)
                    guarded, out = outputs(want, layout, library)
                    tensor = gpu_tensor(level, native)
                    if tensor is not None and library == "torch":
                        tensor = import_torch().from_dlpack(tensor)
                    q = mxspec_gpu.quantize(
                        to_gpu(x, library), level[1], profile=level[0], axis=axis, tensor_scale=tensor, scale_layout=layout,
                        out=out,
                    )  # fmt: skip
                    label = f"{level_id(level)} {library} {dtype} {axis} {layout} {turn}"
                    compare_arrays(tally, (q.codes, q.scales), want, layout, label)
                    tally.require(guarded.intact(), f"{label}: wrote outside its outputs")
                    tally.require(q.codes is out[0] and q.scales is out[1], f"{label}: other outputs")
                    tally.require(q.tensor_scale is tensor and q.shape == (*want[2].shape[:-1], x.shape[axis]), label)
    tally.require(sum(taken) * 3 == len(taken) * 2, f"{sum(taken)} of {len(taken)} calls took the short way")


@pytest.mark.parametrize("library", LIBRARIES)
def test_seeds(library: str, tally: Tally, taken: list[bool]) -> None:
    x = to_gpu(normal((64, 64), "bfloat16", seed=3), library)
    first = mxspec_gpu.quantize(x, "mxfp4", seed=5)
    wants = {seed: mxspec_gpu.quantize(x, "mxfp4", seed=seed) for seed in (5, 6, (1 << 64) - 1)}
    for seed in (5, 6, (1 << 64) - 1, 5):
        mxspec_gpu.quantize(x, "mxfp4", seed=seed, out=(first.codes, first.scales))
        tally.require(bool((first.codes == wants[seed].codes).all()), f"seed {seed}")
    tally.require(taken == [False, True, True, True], f"{taken}")
    tally.require(not bool((wants[5].codes == wants[6].codes).all()), "seeds give the same codes")


@pytest.mark.parametrize("library", LIBRARIES)
def test_kinds_in_turn(library: str, tally: Tally, taken: list[bool]) -> None:
    """The kind that came last, and those before it; by the same words, and by equal ones that are other objects."""
    x = to_gpu(normal((128, 256), "bfloat16", seed=4), library)
    tensors = [to_gpu(np.array([value], np.float32), library) for value in (0.5, 3.0)]
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("mxfp4", {}), ("mxfp4", {"seed": 3}), ("mxfp4", {"seed": 4}), ("nvfp4", {}), ("mxfp4", {"axis": 0}),
        ("nvfp4", {"tensor_scale": tensors[0]}), ("nvfp4", {"tensor_scale": tensors[1]}), ("mxfp4", {"profile": "mx-rceil"}),
        ("mxfp4", {"scale_layout": "128x4"}), ("mxfp8_e4m3", {}),
    ]  # fmt: skip
    wants = [mxspec_gpu.quantize(x, fmt, **more) for fmt, more in kinds]
    out = [(to_gpu(to_host(q.codes), library), to_gpu(to_host(q.scales), library)) for q in wants]
    for i in [*range(len(kinds)), *(j for k in range(len(kinds)) for j in (k, k, (k * 3 + 1) % len(kinds)))]:
        fmt, more = kinds[i]
        for array in out[i]:
            array[...] = POISON
        q = mxspec_gpu.quantize(x, fmt, **more, out=out[i])
        again = mxspec_gpu.quantize(x, "".join(list(fmt)), **more, out=out[i])
        for got in (q, again):
            tally.require(got.format.name == fmt and got.scale_layout == wants[i].scale_layout, f"{kinds[i]}: {got.format.name}")
        for name in ("codes", "scales"):
            tally.equal(to_host(getattr(again, name)), to_host(getattr(wants[i], name)), f"{library} {kinds[i]} {name}")
    tally.require(taken.count(False) == len(kinds) - 2, f"{taken}")


def _wrong_calls(x: Any, out: tuple[Any, Any]) -> dict[str, tuple[Callable[[], Any], type[Exception], str]]:
    """Calls that differ from a known one in what is wrong."""
    quantize, codes, scales = mxspec_gpu.quantize, *out
    return {
        "axis True": (lambda: quantize(x, "mxfp4", axis=True, out=out), TypeError, "axis = True"),
        "axis 1.0": (lambda: quantize(x, "mxfp4", axis=1.0, out=out), TypeError, "axis = 1.0"),
        "shape": (lambda: quantize(x, "mxfp4", axis=1, out=(codes[:1], scales)), ValueError, "out: codes has"),
        "exchanged": (lambda: quantize(x, "mxfp4", axis=1, out=(scales, codes)), ValueError, "out: codes has"),
        "same": (lambda: quantize(x, "mxfp8_e4m3", axis=1, out=(codes, codes)), ValueError, "out: "),
        "three": (lambda: quantize(x, "mxfp4", axis=1, out=(codes, scales, scales)), ValueError, "out has 3 arrays"),
        "negative seed": (lambda: quantize(x, "mxfp4", axis=1, seed=-1, out=out), ValueError, "seed = -1"),
        "seed True": (lambda: quantize(x, "mxfp4", axis=1, seed=True, out=out), TypeError, "seed = True"),
        "layout": (lambda: quantize(x, "mxfp4", axis=1, scale_layout="128", out=out), ValueError, "scale_layout"),
        "tensor scale": (
            lambda: quantize(x, "mxfp4", axis=1, tensor_scale=TensorScale.from_float("amax", 1.0), out=out),
            ValueError,
            "has no tensor scale",
        ),
        "host": (lambda: quantize(np.zeros((64, 64), np.float32), "mxfp4", axis=1, out=out), TypeError, "GPU"),
    }


@pytest.mark.parametrize("library", LIBRARIES)
def test_wrong_calls_of_a_known_kind(library: str, tally: Tally) -> None:
    x = to_gpu(normal((64, 64), "float32", seed=1), library)
    q = mxspec_gpu.quantize(x, "mxfp4")
    out = q.codes, q.scales
    for _ in range(2):
        mxspec_gpu.quantize(x, "mxfp4", axis=1, out=out)
    for name, (call, kind, words) in _wrong_calls(x, out).items():
        message = message_of(call, kind)
        tally.require(words in message, f"{name}: {message}")
    # x's own memory as an output of the right shape.
    whole = x.reshape(-1).view(q.codes.dtype)
    own = whole[: q.codes.size if library == "cupy" else q.codes.numel()].reshape(q.codes.shape)
    message = message_of(lambda: mxspec_gpu.quantize(x, "mxfp4", axis=1, out=(own, q.scales)), ValueError)
    tally.require("shares memory with x" in message, message)


def test_what_torch_negates_later(tally: Tally, taken: list[bool]) -> None:
    torch = import_torch()
    z = torch.randn(32, 64, dtype=torch.complex64, device="cuda")
    plain, negated = z.imag, z.conj().imag
    q = mxspec_gpu.quantize(plain, "mxfp4")
    want = mxspec_gpu.quantize(-plain, "mxfp4")
    for _ in range(2):
        mxspec_gpu.quantize(plain, "mxfp4", out=(q.codes, q.scales))
    mxspec_gpu.quantize(negated, "mxfp4", out=(q.codes, q.scales))
    tally.require(bool((q.codes == want.codes).all()), "signs of a negated view")
    tally.require(taken == [False, True, False], f"{taken}")


def test_threads(tally: Tally) -> None:
    """Each thread has parameters of its own: eight at once, each on its own data, do not mix them up."""
    xs = [to_gpu(normal((256, 512), "bfloat16", seed=i)) for i in range(8)]
    wants = [mxspec_gpu.quantize(x, "mxfp4") for x in xs]
    cp().cuda.get_current_stream().synchronize()

    def work(i: int) -> int:
        with cp().cuda.Stream(non_blocking=True) as stream:
            codes, scales = cp().empty_like(wants[i].codes), cp().empty_like(wants[i].scales)
            wrong = 0
            for _ in range(50):
                codes.fill(0)
                mxspec_gpu.quantize(xs[i], "mxfp4", out=(codes, scales))
                wrong += int((codes != wants[i].codes).sum()) + int((scales != wants[i].scales).sum())
            stream.synchronize()
            return wrong

    with ThreadPoolExecutor(8) as pool:
        wrong = list(pool.map(work, range(8)))
    tally.compared += sum(50 * (w.codes.size + w.scales.size) for w in wants)
    tally.require(not any(wrong), f"bytes that differ, by thread: {wrong}")
