"""What benchmarks of the GPU share: buffers that are drawn on it, and the rows of a report."""

from __future__ import annotations

from typing import Any

from mxspec.affine import AffineFormat, Offset
from mxspec.formats import get_block
from mxspec_gpu.ceilings import Ceilings
from mxspec_gpu.tasks import Shape
from mxspec_gpu.timing import Call, Timing, import_torch, measure

Row = dict[str, Any]


def draw_bytes(*shape: int, low: int = 0, high: int = 256) -> Any:
    """Random bytes on the GPU."""
    return import_torch().randint(low, high, shape, device="cuda", dtype=import_torch().uint8)


def draw_values(*shape: int, dtype: str = "bfloat16") -> Any:
    """Random normal numbers on the GPU."""
    return import_torch().randn(*shape, device="cuda").to(getattr(import_torch(), dtype))


def draw_blocks(fmt: str, shape: Shape) -> tuple[Any, Any]:
    """Packed codes and ordinary scales."""
    block = get_block(fmt)
    low, high = (110, 126) if block.scale.mantissa_bits == 0 else (0x20, 0x60)
    return draw_bytes(shape[0], shape[1] * block.element.bits // 8), draw_bytes(shape[0], shape[1] // block.k, low=low, high=high)


def draw_affine(fmt: AffineFormat, shape: Shape) -> tuple[Any, Any, Any]:
    """Packed codes, scales and offsets."""
    groups = shape[0], shape[1] // fmt.group
    scales = draw_values(*groups, dtype=fmt.dtype) / 64
    return (
        draw_bytes(shape[0], shape[1] // 2),
        scales,
        draw_bytes(*groups, high=16) if fmt.offset is Offset.ZERO else draw_values(*groups, dtype=fmt.dtype),
    )


def describe_timing(timing: Timing) -> Row:
    """A timing for a report."""
    return {
        "microseconds": round(timing.median * 1e6, 2),
        "quartiles": [round(timing.low * 1e6, 2), round(timing.high * 1e6, 2)],
        "method": timing.method,
    }


def describe_row(name: str, shape: Shape, moved: tuple[int, int], timing: Timing, ceilings: Ceilings) -> Row:
    """A row of something that moves bytes, read and written, as shares of the bandwidths of the same run."""
    against = "copy" if moved[1] else "read"
    return {
        "name": name, "size": shape[0] if shape[0] == shape[1] else f"{shape[0]} x {shape[1]}", **describe_timing(timing),
        "bytes": {"read": moved[0], "written": moved[1]}, "against": against,
        "percent": round(sum(moved) / timing.median / ceilings.bandwidth[against] * 100, 2),
        "percent_of_mix": round(ceilings.find(*moved) / timing.median * 100, 2),
    }  # fmt: skip


def measure_row(name: str, shape: Shape, moved: tuple[int, int], calls: list[Call], ceilings: Ceilings) -> Row:
    """The same of calls, which are measured and printed."""
    row = describe_row(name, shape, moved, measure(calls), ceilings)
    print(
        f"{row['size']!s:8} {name:52} {row['microseconds']:9.1f} us {row['percent']:6.1f} % of {row['against']} {row['percent_of_mix']:6.1f} % of mix",
        flush=True,
    )
    import_torch().cuda.empty_cache()
    return row
