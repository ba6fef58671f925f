"""MLX's affine integers against the model, bit for bit: quantize, dequantize, quantized_matmul on the CPU.

    python -m tests.peers.affine_mlx [--json reports/affine/mlx.json] [--groups N]

What is compared: every directed group of the vectors, values at and beside every threshold of a code, and random groups, for
each number of bits, group size and dtype that MLX has.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec import affine
from mxspec.affine.formats import AffineFormat
from mxspec_conformance.results.environment import describe_environment
from mxspec_lab.evidence.status import stamp
from mxspec_vectors.inputs_affine import list_groups
from mxspec_vectors.writing import write_file

Values = npt.NDArray[Any]

PROFILE = "mlx-0.32/affine/cpu"
#: MLX's 1-bit codes follow another rule (scale = max - min), which is not modelled.
BITS = (2, 3, 4, 5, 6, 8)
GROUPS = (32, 64, 128)
DTYPES: dict[str, Any] = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


@dataclass(slots=True)
class Comparison:
    """One function, format and kind of input."""

    function: str
    format: str
    inputs: str
    #: Numbers compared: codes, scales and biases; values; or results.
    compared: int = 0
    different: int = 0
    first: str = ""
    #: Of the scales: how many are negative.
    negative_scales: int = 0
    scales: int = 0


def to_mlx(a: Values) -> Any:
    """An array with the same bits."""
    import mlx.core as mx

    return mx.array(a.view(np.uint16)).view(mx.bfloat16) if a.dtype == ml_dtypes.bfloat16 else mx.array(a)


def from_mlx(a: Any) -> Values:
    """An array with the same bits."""
    import mlx.core as mx

    return np.array(a.view(mx.uint16)).view(ml_dtypes.bfloat16) if a.dtype == mx.bfloat16 else np.array(a)


def bits_of(a: Values) -> Values:
    """Bits, with one NaN for all."""
    if a.dtype.kind in "ui":
        return a
    words = a.view(f"u{a.dtype.itemsize}").copy()
    words[np.isnan(a.astype(np.float32))] = np.iinfo(words.dtype).max
    return words


def beside_thresholds(fmt: AffineFormat, random: np.random.Generator, count: int) -> Values:
    """Groups with random ends whose other values lie at, just below and just above the midpoints between codes."""
    dtype, bins = DTYPES[fmt.dtype], fmt.bins
    ends = np.sort((random.standard_normal((count, 2)) * random.choice([0.01, 1, 300], (count, 1))).astype(dtype), axis=-1)
    wide = ends.astype(np.float64)
    steps = random.integers(0, bins, (count, fmt.group)) + 0.5
    values = (wide[:, :1] + (wide[:, 1:] - wide[:, :1]) / bins * steps).astype(dtype)
    moved = values.view(f"i{values.dtype.itemsize}") + random.integers(-2, 3, values.shape, dtype=np.int8)
    moved = moved.astype(f"i{values.dtype.itemsize}").view(dtype)
    wrong = ~((moved.astype(np.float32) >= ends[:, :1].astype(np.float32)) & (moved.astype(np.float32) <= ends[:, 1:].astype(np.float32)))
    result = np.where(wrong, ends[:, :1], moved)
    result[:, 3], result[:, 11] = ends[:, 0], ends[:, 1]
    return result


def random_groups(fmt: AffineFormat, random: np.random.Generator, count: int) -> Values:
    """Normal groups of several widths and centers, and groups of random finite bits."""
    dtype = DTYPES[fmt.dtype]
    normal = random.standard_normal((count // 2, fmt.group)) * 10.0 ** random.integers(-4, 3, (count // 2, 1))
    normal += random.choice([0, 0, 1, -1, 50], (count // 2, 1))
    unsigned = np.dtype(f"u{np.dtype(dtype).itemsize}")
    words = random.integers(0, np.iinfo(unsigned).max, (count - count // 2, fmt.group), dtype=unsigned).view(dtype)
    words = np.where(np.isfinite(words.astype(np.float32)), words, dtype(1))
    with np.errstate(over="ignore"):
        return np.concatenate([normal.astype(dtype), words])


def list_inputs(fmt: AffineFormat, count: int) -> Iterator[tuple[str, Values]]:
    """Inputs by name: [groups, group] of the format's dtype. Where MLX converts NaN to integers, they are left out."""
    random = np.random.default_rng([fmt.bits, fmt.group, list(DTYPES).index(fmt.dtype)])
    directed = np.array([g.bits for g in list_groups(fmt) if g.topic not in ("nan", "inf")], f"u{fmt.scalar.bits // 8}")
    yield "directed", directed.view(DTYPES[fmt.dtype])
    yield "thresholds", beside_thresholds(fmt, random, count)
    yield "random", random_groups(fmt, random, count)


def compare(fmt: AffineFormat, count: int) -> Iterator[Comparison]:
    """All comparisons of one format."""
    import mlx.core as mx

    options = {"group_size": fmt.group, "bits": fmt.bits}
    random = np.random.default_rng(fmt.bits + fmt.group)
    for inputs, x in list_inputs(fmt, count):
        got = [from_mlx(a) for a in mx.quantize(to_mlx(x), **options)]
        ours = affine.quantize(x, bits=fmt.bits, group=fmt.group, profile=PROFILE)
        found = Comparison("quantize", fmt.name, inputs)
        found.scales, found.negative_scales = ours.scales.size, int(np.sum(np.signbit(ours.scales)))
        codes = affine.unpack_words(got[0], fmt.bits)
        for what, theirs, mine in (("code", codes, ours.codes), ("scale", got[1], ours.scales), ("bias", got[2], ours.offsets)):
            _count(found, what, bits_of(theirs), bits_of(mine))
        yield found

        stored = [to_mlx(a) if a.dtype != np.uint32 else mx.array(a) for a in got]
        # Where a scale or a product is beyond the dtype, both say so by Inf or NaN.
        found = Comparison("dequantize", fmt.name, inputs)
        ours = affine.AffineTensor(format=fmt, codes=codes, scales=got[1], offsets=got[2])
        with np.errstate(all="ignore"):
            theirs = from_mlx(mx.dequantize(*stored, **options))
            _count(found, "value", bits_of(theirs), bits_of(ours.dequantize(fmt.dtype, contract=fmt.dtype)))
            yield found
            found = Comparison("quantized_matmul", fmt.name, inputs)
            # Two groups to a row, so that sums cross groups.
            rows = x.shape[0] // 2
            a = random.standard_normal((3, 2 * fmt.group)).astype(DTYPES[fmt.dtype])
            weights = [w.reshape(-1)[: rows * w.shape[-1] * 2].reshape(rows, -1) for w in got]
            parts = [to_mlx(w) if w.dtype != np.uint32 else mx.array(w) for w in weights]
            theirs = from_mlx(mx.quantized_matmul(to_mlx(a), *parts, transpose=True, **options))
            ours = affine.AffineTensor(format=fmt, codes=affine.unpack_words(weights[0], fmt.bits), scales=weights[1], offsets=weights[2])
            mine = affine.quantized_matmul(a, ours, contract=fmt.dtype, accumulate=fmt.dtype)
            _count(found, "result", bits_of(theirs), bits_of(mine))
            yield found


def _count(found: Comparison, what: str, theirs: Values, ours: Values) -> None:
    wrong = theirs != ours
    found.compared += wrong.size
    found.different += int(wrong.sum())
    if wrong.any() and not found.first:
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        found.first = f"{what} {place}: {int(theirs[place]):x}, the model {int(ours[place]):x}"


def formats() -> Iterator[AffineFormat]:
    """Every affine format of MLX."""
    for dtype in DTYPES:
        for bits in BITS:
            for group in GROUPS:
                yield AffineFormat(bits=bits, group=group, dtype=dtype)


def main() -> None:
    """Compare everything and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--groups", type=int, default=2000, help="random groups, and threshold groups, of each format")
    asked = parser.parse_args()
    found = [c for fmt in formats() for c in compare(fmt, asked.groups)]
    totals: dict[str, Counter[str]] = {}
    for c in found:
        totals.setdefault(c.function, Counter()).update(compared=c.compared, different=c.different)
    drawn = [c for c in found if c.function == "quantize" and c.inputs == "random"]
    document = {
        "library": "mlx", "version": version("mlx"), "device": "cpu", "profile": PROFILE,
        "environment": describe_environment(),
        "totals": {name: dict(counter) for name, counter in totals.items()},
        "negative_scales": {"of": sum(c.scales for c in drawn), "count": sum(c.negative_scales for c in drawn)},
        "comparisons": [asdict(c) for c in found],
    }  # fmt: skip
    for name, counter in totals.items():
        print(f"{name}: {counter['compared']} compared, {counter['different']} different")
    if asked.json:
        write_file(asked.json, (json.dumps(document, indent=1) + "\n").encode("ascii"))
        stamp(asked.json)


if __name__ == "__main__":
    main()
