"""Error by format, block size and scale rule on four distributions: `python -m mxspec_lab.model_level`.

Writes reports/atlas/model.json. Baselines are casts to 16 bits, FP8 and INT8 with a scale for each row, and llama.cpp's: Q4_0 and Q8_0 by the gguf package;
Q4_K and Q6_K, which it decodes and cannot quantize, by ggml's own quantizer where MXSPEC_GGML_LIBRARY names a libggml-base. Informational: nothing here is a verdict. Every figure is the mean over independent batches, with
the standard error of that mean; seeds are fixed. Beside them stands the exact bound of an element's error; errors of layers are measured
by `python -m mxspec_lab.transformer`.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import ml_dtypes
import numpy as np
import numpy.typing as npt

import mxspec
from mxspec import affine, sparsity
from mxspec.blocks import quantize_rows
from mxspec.dequantizing import dequantize_rows
from mxspec.formats import BlockFormat, ElementFormat, get_block, power_of_two
from mxspec.profiles import get_profile
from mxspec_conformance.results.environment import describe_environment
from mxspec_lab.evidence.status import write_result

SCHEMA = "mxspec-atlas-model/1"
REPORT = Path(__file__).resolve().parents[2] / "reports" / "atlas" / "model.json"
SEED, BATCHES, SIZE, ROW = 16, 16, 1 << 16, 4096
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

#: The unit of each is as sampled: scales are powers of two, so that the error depends on it.
DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], Doubles]] = {
    "N(0, 1)": lambda rng, n: rng.standard_normal(n),
    "Laplace, b = 1": lambda rng, n: rng.laplace(size=n),
    "Student t, 5 degrees of freedom": lambda rng, n: rng.standard_t(5, n),
    "uniform on [-1, 1)": lambda rng, n: rng.uniform(-1, 1, n),
}

#: Mean errors E (x - q)^2 / E x^2 that an earlier, separate program measured with 8.39 million numbers, and their standard errors.
EARLIER: dict[tuple[str, str, str], tuple[float, float]] = {
    ("mxfp4", "mx-floor", "N(0, 1)"): (1.3222e-2, 6.6e-6), ("mxfp4", "mx-rceil", "N(0, 1)"): (1.3318e-2, 6e-6),
    ("mxfp4", "mx-even", "N(0, 1)"): (1.2515e-2, 6e-6), ("nvfp4", "nvfp4-paper", "N(0, 1)"): (9.0449e-3, 4.4e-6),
    ("mxfp4", "mx-floor", "Laplace, b = 1"): (1.6071e-2, 1.3e-5),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A way to quantize rows of numbers and back."""

    format: str
    rule: str
    block: int
    #: Bits an element takes, scales included.
    bits: Fraction
    #: float32 [n, ROW] -> float32 of the same shape.
    there_and_back: Callable[[Floats], Floats]
    note: str = ""


def _by_profile(name: str, rule: str) -> Method:
    fmt = get_block(name)

    def apply(x: Floats) -> Floats:
        scale: Any = "auto" if fmt.has_tensor_scale else None
        return mxspec.quantize(x, fmt, profile=rule, tensor_scale=scale).dequantize(np.float32)

    return Method(format=name, rule=rule, block=fmt.k, bits=fmt.element.bits + Fraction(8, fmt.k), there_and_back=apply)


def _by_block(name: str, rule: str, block: int) -> Method:
    fmt, profile = get_block(name), get_profile(rule, name)
    steps = profile.steps(with_tensor_scale=False)

    def apply(x: Floats) -> Floats:
        rows = x.reshape(-1, block)
        scales, codes = quantize_rows(rows, fmt, profile, steps, {})
        return np.asarray(dequantize_rows(codes, scales, steps, fmt, {}), np.float32).reshape(x.shape)

    note = "" if block == fmt.k else f"not OCP: blocks of {block}"
    return Method(format=name, rule=rule, block=block, bits=fmt.element.bits + Fraction(8, block), there_and_back=apply, note=note)


def _by_affine(group: int) -> Method:
    def apply(x: Floats) -> Floats:
        return np.asarray(affine.quantize(x, bits=4, group=group, scale_dtype="float16").dequantize(), np.float32)

    return Method(
        format="int4", rule="affine, min and max, float16 scale and bias", block=group, bits=4 + Fraction(32, group), there_and_back=apply
    )


def _by_cast(name: str, dtype: Any) -> Method:
    return Method(
        format=name, rule="cast", block=1, bits=Fraction(16), there_and_back=lambda x: x.astype(dtype).astype(np.float32), note="baseline"
    )


def _by_row(name: str, largest: int, round_numbers: Callable[[Floats], Floats]) -> Method:
    """Numbers of 8 bits, with a float32 scale amax / largest for each row, which is a channel."""

    def apply(x: Floats) -> Floats:
        scale = np.abs(x).max(-1, keepdims=True) / np.float32(largest)
        return np.asarray(round_numbers(x / scale) * scale, np.float32)

    return Method(
        format=name,
        rule=f"amax / {largest} of each channel, float32",
        block=ROW,
        bits=8 + Fraction(32, ROW),
        there_and_back=apply,
        note="baseline",
    )


def _round_e4m3(x: Floats) -> Floats:
    return np.asarray(mxspec.decode(mxspec.encode(x, "e4m3"), "e4m3"), np.float32)


def _pruned(name: str, rule: str) -> Method:
    fmt = get_block(name)

    def apply(x: Floats) -> Floats:
        t = mxspec.quantize(x, fmt, profile=rule)
        return mxspec.dequantize(sparsity.prune(t.codes), t.scales, fmt, profile=rule)

    return Method(
        format=f"{name}, 2:4", rule=rule, block=fmt.k, bits=Fraction(fmt.element.bits, 2) + Fraction(8, fmt.k) + 1, there_and_back=apply,
        note="the two largest codes of four are kept",
    )  # fmt: skip


def list_methods() -> Iterator[Method]:
    """Every method whose error is measured."""
    for name in ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8"):
        for rule in ("mx-floor", "mx-rceil", "mx-even", "mx-ceil"):
            yield _by_profile(name, rule)
    for rule in ("nvfp4-paper", "nvfp4-te", "nvfp4-exact", "te-2.17/nvfp4/4over6-kernel/mse"):
        yield _by_profile("nvfp4", rule)
    for block in (16, 64):
        for rule in ("mx-floor", "mx-rceil"):
            yield _by_block("mxfp4", rule, block)
    yield _pruned("mxfp4", "mx-floor")
    for group in (32, 128):
        yield _by_affine(group)
    yield _by_cast("FP16", np.float16)
    yield _by_cast("BF16", ml_dtypes.bfloat16)
    yield _by_row("FP8 E4M3", 448, _round_e4m3)
    yield _by_row("INT8", 127, lambda x: np.rint(x).clip(-127, 127))
    for baseline in list_gguf():
        yield _by_gguf(*baseline)


#: Names ggml's shared library; the adapter `ggml-c` reads the same variable.
GGML = "MXSPEC_GGML_LIBRARY"
#: Formats that gguf decodes and does not quantize -> ggml's function.
BY_GGML = {"Q4_K": "quantize_row_q4_K_ref", "Q6_K": "quantize_row_q6_K_ref"}


def describe_ggml() -> str:
    """The library that GGML names, and the decoder."""
    library = ctypes.CDLL(os.environ[GGML])
    library.ggml_version.restype = ctypes.c_char_p
    return f"ggml {library.ggml_version().decode()}, decoded by gguf {version('gguf')}"


def quantize_by_ggml(x: Floats, kind: Any) -> npt.NDArray[np.uint8]:
    """Records of a GGMLQuantizationType that BY_GGML has, by ggml's own quantizer; each row is whole blocks."""
    from gguf import GGML_QUANT_SIZES

    block, size = GGML_QUANT_SIZES[kind]
    given = np.ascontiguousarray(x, np.float32)
    out = np.empty((*given.shape[:-1], given.shape[-1] // block * size), np.uint8)
    quantize = getattr(ctypes.CDLL(os.environ[GGML]), BY_GGML[kind.name])
    quantize(given.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(given.size))
    return out


def list_gguf() -> Iterator[tuple[str, Callable[[Floats, Any], Any], str]]:
    """llama.cpp's formats that can be made here: name, quantizer of numbers and type, and whose it is."""
    try:
        from gguf import quants
    except ImportError:
        return
    for name in ("Q4_0", "Q8_0"):
        yield name, quants.quantize, f"gguf {version('gguf')}"
    if os.environ.get(GGML):
        for name in BY_GGML:
            yield name, quantize_by_ggml, describe_ggml()


def _by_gguf(name: str, quantize: Callable[[Floats, Any], Any], rule: str) -> Method:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

    kind = GGMLQuantizationType[name]
    block, size = GGML_QUANT_SIZES[kind]

    def apply(x: Floats) -> Floats:
        return np.asarray(quants.dequantize(quantize(x, kind), kind), np.float32)

    return Method(format=name, rule=rule, block=block, bits=Fraction(8 * size, block), there_and_back=apply, note="baseline")


def list_absent() -> list[dict[str, str]]:
    """Baselines that cannot be made here, and why."""
    try:
        import gguf
    except ImportError:
        return [{"format": n, "why": "gguf is not installed"} for n in ("Q4_0", "Q8_0", *BY_GGML)]
    if os.environ.get(GGML):
        return []
    why = f"gguf {version(gguf.__name__)} decodes it and has no quantizer; ggml has one: name its libggml-base in {GGML}"
    return [{"format": name, "why": why} for name in BY_GGML]


# Errors of tensors


def summarize(values: Doubles) -> dict[str, float]:
    """Mean and the standard error of the mean."""
    return {"mean": float(values.mean()), "standard_error": float(values.std(ddof=1) / np.sqrt(len(values)))}


def measure_error(method: Method, name: str, batches: int, size: int) -> dict[str, Any]:
    """The relative squared error and the cosine of one method on one distribution."""
    errors, cosines = np.empty(batches), np.empty(batches)
    for batch in range(batches):
        rng = np.random.default_rng([SEED, list(DISTRIBUTIONS).index(name), batch])
        x = DISTRIBUTIONS[name](rng, size).astype(np.float32).reshape(-1, ROW)
        y = method.there_and_back(x).astype(np.float64)
        wide = x.astype(np.float64)
        power = (wide * wide).sum()
        errors[batch] = ((wide - y) ** 2).sum() / power
        cosines[batch] = (wide * y).sum() / np.sqrt(power * (y * y).sum())
    found = summarize(errors)
    decibel = -10 * float(np.log10(found["mean"]))
    row: dict[str, Any] = {
        "format": method.format, "rule": method.rule, "block": method.block, "bits_per_element": float(method.bits), "distribution": name,
        "nmse": found["mean"], "nmse_standard_error": found["standard_error"], "sqnr_db": decibel,
        "sqnr_db_standard_error": 10 / float(np.log(10)) * found["standard_error"] / found["mean"],
        "one_minus_cosine": 1 - float(cosines.mean()), "note": method.note,
    }  # fmt: skip
    earlier = EARLIER.get((method.format, method.rule, name))
    if earlier is not None and method.block == get_block(method.format).k:
        spread = np.hypot(found["standard_error"], earlier[1])
        row |= {"earlier": earlier[0], "standard_errors_from_earlier": float((found["mean"] - earlier[0]) / spread)}
    return row


# Exact bounds


def _find_half_unit(element: ElementFormat) -> Fraction:
    """Half a unit in the last place of significands."""
    return (element.max_value - element.magnitude(element.max_code - 1)) / power_of_two(element.emax) / 2


#: Rule -> the least and the largest amax of a block in units of its scale; an end may itself have the next scale.
_RANGES: dict[str, Callable[[ElementFormat], tuple[Fraction, Fraction]]] = {
    "mx-floor": lambda e: (power_of_two(e.emax), 2 * power_of_two(e.emax)),
    "mx-rceil": lambda e: (e.max_value / 2, e.max_value),
    "mx-even": lambda e: (power_of_two(e.emax) * (1 - _find_half_unit(e) / 2), power_of_two(e.emax) * (2 - _find_half_unit(e))),
    "mx-ceil": lambda e: (power_of_two(e.emax) / 2, power_of_two(e.emax)),
    # The scale is amax / 6 rounded to E4M3: 8.5 / 8 of a scale goes down to 8 eighths, and 8.5 / 9 up to 9.
    "nvfp4-exact": lambda e: (e.max_value * 17 / 18, e.max_value * 17 / 16),
}
BOUNDED = [
    (name, rule)
    for name in ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8")
    for rule in _RANGES
    if rule != "nvfp4-exact"
]
BOUNDED.append(("nvfp4", "nvfp4-exact"))


def bound_element_error(fmt: BlockFormat, rule: str) -> dict[str, Any]:
    """The largest |x - q| / amax of an element of a block, exactly, for elements rounded to nearest; subnormal scales left aside.

    In units of the scale amax lies in a range that the rule determines: an element below it has an error of at most half a step,
    in it also of what saturation cuts off. What NVFP4's rounded float32 steps add, and its tensor scale, are left aside.
    """
    element = fmt.element
    values = [element.magnitude(c) for c in range(element.max_code + 1)]
    low, high = _RANGES[rule](element)
    ties = [((a + b) / 2, (b - a) / 2) for a, b in pairwise(values) if (a + b) / 2 <= high]
    bound, reached = max(
        *((error / tie, "a tie") if tie >= low else (error / low, "a tie under the least amax of a scale") for tie, error in ties),
        ((high - element.max_value) / high, "saturation of the largest amax of a scale"),
    )
    return {
        "format": fmt.name, "rule": rule, "bound": str(bound), "bound_as_float": float(bound),
        "reached_by": reached,
    }  # fmt: skip


def check_bound(fmt: BlockFormat, rule: str) -> float:
    """The largest |x - q| / amax that was seen: maxima and elements over two octaves, 2**11 steps each."""
    steps = np.arange(1, (1 << 12) + 1, dtype=np.float64) / (1 << 11)
    worst = 0.0
    for amax in steps[1 << 11 :: 16]:
        x = steps[steps <= amax]
        x = np.concatenate([x, np.zeros(-len(x) % (fmt.k - 1))]).reshape(-1, fmt.k - 1)
        rows = np.concatenate([np.full((len(x), 1), amax), x], axis=1).astype(np.float32)
        y = mxspec.quantize(rows, fmt, profile=rule).dequantize(np.float32)
        worst = max(worst, float(np.abs(rows.astype(np.float64) - y).max() / amax))
    return worst


NOT_SHOWN = (
    "Synthetic, independent numbers: weights and activations of networks are neither independent nor of one distribution.",
    "No calibration, no outlier channels, no rotation, no GPTQ or AWQ: formats and scale rules alone.",
    "Scales are powers of two, so that MX errors depend on the distribution's unit, by up to 0.4 dB for MXFP4.",
    "No perplexity and no tokens: no language model was run for this table.",
)


@click.command()
@click.option("--batches", type=click.IntRange(min=4), default=BATCHES, show_default=True)
@click.option("--size", type=click.IntRange(min=ROW), default=SIZE, show_default=True, help="Numbers of a batch, a multiple of 4096.")
@click.option("--json", "out", type=click.Path(path_type=Path), default=REPORT, show_default="reports/atlas/model.json")
def main(batches: int, size: int, out: Path) -> None:
    """Measure errors, and write the tables."""
    if size % ROW:
        raise click.UsageError(f"--size {size} is not a multiple of {ROW}; pass {size // ROW * ROW}")
    started = time.process_time()
    rows = []
    for method in list_methods():
        own = [measure_error(method, name, batches, size) for name in DISTRIBUTIONS]
        rows += own
        click.echo(f"{method.format:12} {method.rule:34.34} {method.block:4} " + " ".join(f"{r['sqnr_db']:7.3f}" for r in own))
    bounds = []
    for name, rule in BOUNDED:
        fmt = get_block(name)
        bounds.append(bound_element_error(fmt, rule) | {"largest_seen": check_bound(fmt, rule)})
    write_result(
        out,
        {
            "schema": SCHEMA, "command": f"python -m mxspec_lab.model_level --batches {batches} --size {size}",
            "environment": describe_environment(), "cpu_seconds": round(time.process_time() - started, 1), "seed": SEED,
            "batches": batches, "size": size, "not_shown": list(NOT_SHOWN), "absent": list_absent(), "rows": rows, "bounds": bounds,
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
