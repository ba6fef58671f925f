"""Layers of the model under the ladder: each product against its exact sums, and what `mxspec check` says of the loader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mxspec import dot, layouts
from mxspec.affine import get_affine
from mxspec.affine.words import unpack_words
from mxspec_conformance import check
from mxspec_lab.transformer.loaders import LOADERS, SPARSE_LAYOUTS, Floats, Packed, dequantize
from mxspec_lab.transformer.measure import LoaderTarget

CLASSES = ("float32-nearest", "float32", "bfloat16")


def make_factor(w: Packed, *, exact: bool) -> dot.Factor:
    """The numbers that a loader multiplies: those of the container, or what float32 makes of them."""
    if not exact:
        return dot.plain_factor(dequantize(w, w.layout))
    rows, k = w.shape
    if w.biases is not None:
        return dot.affine_factor(unpack_words(w.codes, 4), w.scales, w.biases, get_affine(w.format))
    if w.metadata is not None:
        kept, nibbles = (
            layouts.unpack(w.codes, SPARSE_LAYOUTS[0], (rows, k // 2)),
            layouts.unpack(w.metadata, SPARSE_LAYOUTS[1], (rows, k // 4)),
        )
        return dot.sparse_factor(kept, nibbles, w.format.removesuffix("-2to4"), w.scales)
    codes = layouts.unpack(w.codes, w.layout, w.shape)
    return dot.block_factor(codes, w.scales, w.format, tensor_scale=1.0 if w.tensor_scale is None else w.tensor_scale)


def judge_layers(matrices: Mapping[str, Packed], inputs: Mapping[str, Floats]) -> Iterator[dict[str, Any]]:
    """A row for each layer and loader: how many outputs are the correctly rounded ones, and how many each class allows.

    inputs: rows float32 [m, k] that the layer gets in the model.
    """
    for name, x in inputs.items():
        w = matrices[name]
        for loader, multiply in LOADERS.items():
            side = make_factor(w, exact=loader != "dequantizes")
            sums = dot.sum_products(dot.plain_factor(x), side)
            given = multiply(x, w, w.layout)
            due = dot.finish_product(sums, "float32", tensor_scale=side.tensor_scale)
            row: dict[str, Any] = {"layer": name, "loader": loader, "outputs": given.size, "correctly_rounded": int((given == due).sum())}
            for accumulator in CLASSES:
                allowed = dot.allow_outputs(sums, dot.get_accumulator(accumulator), "float32", tensor_scale=side.tensor_scale)
                row[f"allowed_by_{accumulator.replace('-', '_')}"] = int(allowed.accepts(given).sum())
            yield row


def judge_loaders(matrix: Packed) -> Iterator[dict[str, Any]]:
    """What `mxspec check` says of the two loaders as targets of the same product."""
    for loader, multiply in LOADERS.items():
        report = check(LoaderTarget(multiply, matrix))
        (found,) = report.formats
        yield {
            "loader": loader, "product": found.format, "verdict": found.judged_against, "cases": found.cases, "failing": found.failing,
            "deviations": list(found.deviations),
        }  # fmt: skip


def draw_rows(inputs: Floats, count: int, seed: int) -> Floats:
    """`count` different rows of a layer's inputs."""
    chosen = np.random.default_rng(seed).choice(len(inputs), count, replace=False)
    return np.asarray(inputs[np.sort(chosen)], np.float32)
