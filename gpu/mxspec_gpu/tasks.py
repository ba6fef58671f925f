"""What the bench measures: tasks, their shapes, the bytes that they must move, and what is demanded of them on an H200."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mxspec.adjacent import register_named
from mxspec.formats import get_block
from mxspec_gpu.arrays import ITEM_BYTES

Shape = tuple[int, int]
LARGE, MIDDLE, SMALL, TOKENS = (16384, 16384), (8192, 8192), (4096, 4096), (1024, 4096)
SHAPES: tuple[Shape, ...] = (LARGE, MIDDLE, SMALL, TOKENS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A row of the table."""

    name: str
    #: "quantize", "fused" (SiLU(gate) * up of twice as many columns), "norm" (RMSNorm), "square" (16 x 16 blocks), "dequantize", "columns", "both", "amax", "gemv", "embedding" (as many rows of a table four times as long).
    kind: str
    fmt: str
    profile: str
    #: Whether scales lie in 128x4 tiles, or float32 ones column by column.
    tiled: bool = False
    stochastic: bool = False
    dtype: str = "bfloat16"
    #: How x lies in memory: "contiguous"; "pitched", in rows of 256 elements more; "shifted", one element off 16 bytes; "odd",
    #: one element less in a row.
    source: str = "contiguous"
    #: Whether the profile's Hadamard transform is applied first.
    transformed: bool = False
    #: Vectors of a product.
    batch: int = 1
    shapes: tuple[Shape, ...] = SHAPES
    #: The shape for which there are demands: least share of the copy bandwidth and goal, in percent, or most microseconds.
    judged: Shape = LARGE
    floor: float | None = None
    goal: float | None = None
    most: float | None = None

    @property
    def two_level(self) -> bool:
        """Whether a tensor scale is given."""
        return self.fmt == "nvfp4"

    def shape_of(self, shape: Shape) -> Shape:
        """The shape of x."""
        return (shape[0], shape[1] - 1) if self.source == "odd" else shape


def _plain() -> list[Task]:
    def q(fmt: str, profile: str = "mx-floor", **more: Any) -> Task:
        return Task(name=f"{fmt} quantize, {profile}", kind="quantize", fmt=fmt, profile=profile, **more)

    return [
        q("mxfp4", floor=92, goal=101),
        q("mxfp4", "mx-rceil", floor=92, goal=101),
        q("nvfp4", "nvfp4-te", floor=80, goal=95),
        q("nvfp4", "vllm-0.33/nvfp4/kernel", floor=80, goal=95),
        q("nvfp4", "torchao-0.18/nvfp4/eager", floor=80, goal=95),
        q("mxfp6_e2m3", floor=80, goal=95),
        q("mxfp6_e3m2", floor=80, goal=95),
        q("mxfp8_e4m3", floor=92, goal=101),
        q("mxfp8_e5m2", floor=92, goal=101),
        q("mxint8", floor=90, goal=99),
    ]


_NORMATIVE = (("mxfp8_e4m3", "mx-floor"), ("mxfp4", "mx-floor"), ("mxfp6_e2m3", "mx-floor"), ("nvfp4", "nvfp4-te"))


def _loose() -> list[Task]:
    """Data that do not lie as the fast kernels like it best."""
    once: dict[str, Any] = {"shapes": (MIDDLE,), "judged": MIDDLE}
    pitched = {"mxfp4": 44, "mxfp8_e4m3": 52, "nvfp4": 47}
    found = [
        Task(name=f"{f} quantize, pitched", kind="quantize", fmt=f, profile=p, source="pitched", most=pitched.get(f), **once)
        for f, p in _NORMATIVE
    ]  # fmt: skip
    # At most twice the time of the aligned case; `twice_of` in the bench compares them.
    for source, what in (("shifted", "one element off"), ("odd", "odd width")):
        for kind in ("quantize", "columns"):
            found += [
                Task(name=f"{f} quantize{' columns' * (kind == 'columns')}, {what}", kind=kind, fmt=f, profile=p, source=source, **once)
                for f, p in _NORMATIVE
            ]
    found += [
        Task(name=f"{f} quantize columns of float32", kind="columns", fmt=f, profile=p, dtype="float32", **once) for f, p in _NORMATIVE
    ]
    found.append(
        Task(
            name="tensor amax, one element off", kind="amax", fmt="nvfp4", profile="nvfp4-te", source="shifted", most=160, **once
        )
    )  # fmt: skip
    return found


def _recipe() -> list[Task]:
    """The NVFP4 training recipe: random Hadamard transform, tensor scale given, nearest or stochastic rounding, one pass."""
    profile = "te-2.14/nvfp4/kernel-rht"
    found = []
    for kind, what, floors in (
        ("quantize", "rows", (75, 60)),
        ("columns", "columns", (None, None)),
        ("both", "rows and columns", (None, None)),
    ):
        for stochastic, floor in zip((False, True), floors, strict=True):
            name = f"nvfp4 transform and quantize {what}{', stochastic' * stochastic}"
            found.append(
                Task(
                    name=name, kind=kind, fmt="nvfp4", profile=profile, transformed=True, stochastic=stochastic, floor=floor,
                    goal=75 if floor else None, shapes=(LARGE, MIDDLE),
                )
            )  # fmt: skip
    found.append(
        Task(name="tensor amax after the transform", kind="amax", fmt="nvfp4", profile=profile, transformed=True, shapes=(LARGE, MIDDLE))
    )
    return found


def _lookups() -> list[Task]:
    """Weights used where they lie."""
    goals = {"mxfp4": 78, "nvfp4": 72}
    found = [
        Task(
            name=f"{f} product with {m} vector{'s' * (m > 1)}", kind="gemv", fmt=f, profile=p, batch=m,
            floor=50 if m == 1 else None, goal=goals[f] if m == 1 else None, shapes=(LARGE, MIDDLE),
        )
        for f, p in (("mxfp4", "mx-floor"), ("nvfp4", "nvfp4-te"))
        for m in (1, 4, 8, 16)
    ]  # fmt: skip
    found += [
        Task(name=f"{f} embedding", kind="embedding", fmt=f, profile=p, shapes=(MIDDLE,), judged=MIDDLE)
        for f, p in (("mxfp4", "mx-floor"), ("nvfp4", "nvfp4-te"))
    ]
    return found


def _groups() -> list[Task]:
    """FP8 in groups of 128: scales row by row and column by column (`tiled`), a product or a quotient for each element, powers of two."""
    f32, e8m0 = "fp8_e4m3-128-f32", "fp8_e4m3-128"
    kinds = [("quantize", f32, "deepgemm-2.6/fp8-128/float32-cuda", tiled) for tiled in (False, True)]
    kinds += [("quantize", f32, "vllm-0.33/fp8-128/native", False), ("quantize", e8m0, "deepgemm-2.6/fp8-128/ue8m0-cuda", False)]
    kinds.append(("dequantize", f32, "deepgemm-2.6/fp8-128/float32-cuda", False))
    return [
        Task(name=f"{fmt} {kind}, {profile}{', scales by columns' * tiled}", kind=kind, fmt=fmt, profile=profile, tiled=tiled)
        for kind, fmt, profile, tiled in kinds
    ]


def _fused() -> list[Task]:
    """SiLU(gate) * up, and RMSNorm, quantized in the same pass."""
    kinds = (
        ("mxfp8_e4m3", "mx-floor", False), ("mxfp4", "mx-floor", False), ("nvfp4", "nvfp4-te", False),
        ("fp8_e4m3-128-f32", "deepgemm-2.6/fp8-128/float32-cuda", False), ("fp8_e4m3-128-f32", "vllm-0.33/fp8-128/triton", True),
    )  # fmt: skip
    return [
        Task(name=f"{fmt} of {what}, {profile}{', scales by columns' * tiled}", kind=kind, fmt=fmt, profile=profile, tiled=tiled)
        for kind, what in (("fused", "SiLU times up"), ("norm", "RMSNorm"))
        for fmt, profile, tiled in kinds
    ]


def _list_tasks() -> tuple[Task, ...]:
    plain = _plain()
    tiled = [
        Task(name=f"{t.name}, 128x4 tiles", kind="quantize", fmt=t.fmt, profile=t.profile, tiled=True, shapes=(LARGE, MIDDLE))
        for t in plain
        if t.profile in ("mx-floor", "nvfp4-te")
    ]
    back = [
        Task(
            name=f"{f} dequantize", kind="dequantize", fmt=f, profile="nvfp4-te" if f == "nvfp4" else "mx-floor",
            floor=92 if f in ("mxfp4", "nvfp4") else 90, goal=95,
        )
        for f in ("mxfp4", "nvfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8")
    ]  # fmt: skip
    tiled += [
        Task(name=f"{t.name}, 128x4 tiles", kind="dequantize", fmt=t.fmt, profile=t.profile, tiled=True, shapes=(LARGE, MIDDLE))
        for t in back
    ]
    columns_least = {"mxfp8_e4m3": (90, 94), "mxfp4": (90, 95), "mxfp6_e2m3": (85, 89), "nvfp4": (72, 77)}
    columns = [
        Task(
            name=f"{f} quantize columns", kind="columns", fmt=f, profile=p, floor=columns_least[f][0], goal=columns_least[f][1]
        )
        for f, p in _NORMATIVE
    ]  # fmt: skip
    both_most = {"mxfp8_e4m3": 335, "mxfp4": 280, "nvfp4": 371}
    both = [Task(name=f"{f} quantize rows and columns", kind="both", fmt=f, profile=p, most=both_most.get(f)) for f, p in _NORMATIVE]
    stochastic = Task(
        name="mxfp4 quantize, stochastic", kind="quantize", fmt="mxfp4", profile="mx-floor", stochastic=True, floor=75, goal=90
    )  # fmt: skip
    square = Task(name="nvfp4 quantize, 16 x 16 blocks", kind="square", fmt="nvfp4", profile="nvfp4-te")
    amax = Task(name="tensor amax", kind="amax", fmt="nvfp4", profile="nvfp4-te", floor=95, goal=99)
    wide = [
        Task(name=f"{f} quantize of {d}", kind="quantize", fmt=f, profile=p, dtype=d, shapes=(LARGE, MIDDLE))
        for d in ("float32", "float16")
        for f, p in (("mxfp4", "mx-floor"), ("nvfp4", "nvfp4-te"), ("mxfp8_e4m3", "mx-floor"))
    ]
    return (
        *plain,
        square,
        *tiled,
        amax,
        *back,
        *columns,
        *both,
        stochastic,
        *wide,
        *_loose(),
        *_recipe(),
        *_lookups(),
        *_groups(),
        *_fused(),
    )


TASKS = _list_tasks()


def count_bytes(task: Task, shape: Shape) -> tuple[int, int]:
    """Bytes that must be read and written, scales and padding included. The task's format is registered from then on."""
    register_named([task.fmt])
    block = get_block(task.fmt)
    rows, columns = task.shape_of(shape)
    item = ITEM_BYTES[task.dtype]
    padded = rows * (-(-columns // block.k) * block.k) if task.kind != "columns" else columns * (-(-rows // block.k) * block.k)
    codes, scales = padded * block.element.bits // 8, padded // block.k * block.scale.storage_bits // 8
    if task.kind == "amax":
        return rows * columns * item, 0
    if task.kind == "gemv":  # x and the result are small
        return codes + scales, 0
    if task.kind == "embedding":
        return codes + scales + rows * 8, rows * columns * item
    if task.kind == "dequantize":
        return codes + scales, rows * columns * item
    if task.kind == "fused":
        return 2 * rows * columns * item, codes + scales
    return rows * columns * item, (codes + scales) * (2 if task.kind == "both" else 1)
