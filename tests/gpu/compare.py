"""One call of the kernels against the model, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mxspec
import mxspec_gpu
from mxspec.tensorscale import TensorScale
from mxspec_gpu.arguments import FLOAT_SCALE_LAYOUTS, find_scale_dtype

from tests.gpu import arithmetic
from tests.gpu.arithmetic import Level, level_id, rules_of
from tests.gpu.device import Array, Guarded, Tally, cp, swizzle, to_gpu, to_host

LAYOUTS = mxspec_gpu.api.SCALE_LAYOUTS
#: What a call of the kernels is given beside x.
Options = dict[str, Any]


def model_tensor(level: Level, native: float) -> TensorScale | None:
    """The tensor scale as the model takes it."""
    kind = rules_of(level).native
    return None if kind is None else TensorScale.from_float(kind, native)


def gpu_tensor(level: Level, native: float) -> Any:
    """The tensor scale as an array on the GPU."""
    return None if rules_of(level).native is None else cp().asarray(np.array([native], np.float32))


def pack_rows(codes: Array, level: Level) -> Array:
    """Codes [..., K], whole blocks, packed along the last axis."""
    fmt = rules_of(level).fmt
    return arithmetic.pack(codes.reshape(-1, fmt.k), fmt.element.bits).reshape(*codes.shape[:-1], -1)


def expect(level: Level, x: Array, native: float, axis: int = -1, **random: Any) -> tuple[Array, Array, Array]:
    """Packed codes and scales of the model, the blocks' axis last and padded; and which bytes of codes are pinned: profiles
    may leave those of a NaN block open."""
    profile, fmt, _ = level
    rules = rules_of(level)
    expected = mxspec.quantize(x, fmt, profile=profile, tensor_scale=model_tensor(level, native), axis=axis, pad=True, **random)
    codes, scales = (np.ascontiguousarray(np.moveaxis(a, axis, -1)) for a in (expected.codes, expected.scales))
    pinned = np.ones(scales.shape, np.bool_)
    if rules.profile.unspecified_nan_block_codes:
        pinned = scales != rules.fmt.scale.nan_code
    return pack_rows(codes, level), scales, np.repeat(pinned, rules.fmt.k * rules.fmt.element.bits // 8, axis=-1)


def layouts_of(level: Level) -> tuple[str, ...]:
    """How a call may lay out the scales."""
    floats = rules_of(level).fmt.scale.name == "f32"
    return FLOAT_SCALE_LAYOUTS if floats else LAYOUTS


def lay_out(scales: Array, layout: str) -> Array:
    """Scales [..., columns] as a call returns them."""
    if layout == "column-major":
        flat = scales.reshape(-1, scales.shape[-1])
        return np.pad(flat, ((0, -len(flat) % 4), (0, 0))).T.copy()
    return scales if layout == "row-major" else swizzle(scales.reshape(-1, scales.shape[-1]))


def compare_arrays(tally: Tally, got: tuple[Any, Any], want: tuple[Array, Array, Array], layout: str, label: str) -> None:
    """Codes and scales of a call against what was expected."""
    codes, scales, pinned = want
    tally.equal(to_host(got[1]).view(scales.dtype), lay_out(scales, layout), f"{label} scales")
    tally.equal(np.where(pinned, to_host(got[0]), 0), np.where(pinned, codes, 0), f"{label} codes")


def compare(
    tally: Tally, level: Level, x: Array, native: float = 1.0, layout: str = "row-major", axis: int = -1, *,
    given: Any = None, label: str = "", options: Options | None = None,
) -> None:  # fmt: skip
    """Quantize x (or `given`: the same values on the GPU in whatever way) into guarded outputs."""
    options = dict(options or {})
    words = options.get("random_bits")
    random = {} if words is None else {"random_bits": words, "sr_bits": options.get("sr_bits", 32)}
    random |= {"block": options["block"]} if "block" in options else {}
    want = expect(level, x, native, axis, **random)
    if words is not None:
        options["random_bits"] = cp().asarray(words)
    laid = lay_out(want[1], layout)
    guarded = Guarded(want[0].shape, (*laid.shape[:-1], laid.shape[-1] * laid.itemsize))
    out = guarded.arrays[0], guarded.arrays[1].view(find_scale_dtype(rules_of(level).fmt))
    q = mxspec_gpu.quantize(
        to_gpu(x) if given is None else given, level[1], profile=level[0], tensor_scale=gpu_tensor(level, native),
        axis=axis, scale_layout=layout, pad=True, out=out, **options,
    )  # fmt: skip
    where = f"{label} {level_id(level)} {x.dtype} {x.shape} axis {axis} {layout}"
    compare_arrays(tally, (q.codes, q.scales), want, layout, where)
    tally.require(guarded.intact(), f"{where}: wrote outside its outputs")


def compare_both(tally: Tally, level: Level, x: Array, native: float, layout: str, given: Any = None, label: str = "") -> None:
    """Rows and columns in one pass."""
    want = [expect(level, x, native, axis) for axis in (1, 0)]
    shapes = [s for codes, scales, _ in want for s in (codes.shape, lay_out(scales, layout).shape)]
    guarded = Guarded(*shapes)
    results = mxspec_gpu.quantize_both(
        to_gpu(x) if given is None else given, level[1], profile=level[0], tensor_scale=gpu_tensor(level, native),
        scale_layout=layout, out=guarded.arrays,
    )  # fmt: skip
    for q, expected, way in zip(results, want, ("rows", "columns"), strict=True):
        where = f"{label} {level_id(level)} {x.dtype} {x.shape} {layout} {way}"
        compare_arrays(tally, (q.codes, q.scales), expected, layout, where)
    tally.require(guarded.intact(), f"{label} both: wrote outside its outputs")


def normal(shape: tuple[int, ...], dtype: str, seed: int = 1) -> Array:
    """Normal numbers, an infinity and NaN of both signs among them where there is room."""
    x = (np.random.default_rng(seed).standard_normal(shape) * 3).astype(arithmetic.DTYPES[dtype])
    if x.size > 100:
        flat = x.reshape(-1)
        flat[x.size // 2], flat[x.size // 3], flat[x.size // 5] = np.inf, np.nan, -np.float32("nan")
    return x


def message_of(call: Callable[[], Any], kind: type[Exception] | tuple[type[Exception], ...]) -> str:
    """The message of the error that a call raises; of another error, or none, what happened."""
    try:
        call()
    except kind as error:
        return str(error)
    except Exception as error:
        return f"<{type(error).__name__}: {error}>"
    return "<no error>"
