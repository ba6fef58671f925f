"""Cases of alpha, beta, C and bias."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mxspec_conformance.judge.products.case import ProductCase
from mxspec_conformance.judge.products.epilogues import draw_wide_epilogues
from mxspec_conformance.judge.products.making import Maker
from mxspec_conformance.targets.dtypes import DTYPES


def list_epilogues(maker: Maker) -> Iterator[ProductCase]:
    """alpha, beta, C and bias, by themselves and together."""
    m, n, k = maker.sizes.fit(6, 10, 128)
    a, b = (p.numbers(maker.short(p, rows, k)) for p, rows in ((maker.a, m), (maker.b, n)))
    dtype = DTYPES[maker.capabilities.out_dtypes[0]]
    c = (np.arange(m * n).reshape(m, n) % 23 - 11).astype(dtype)
    bias = (np.arange(n) * 3 % 17 - 8).astype(dtype)
    wanted: list[tuple[str, dict[str, Any]]] = [
        ("alpha 0.5", {"alpha": 0.5}), ("alpha 0", {"alpha": 0.0}), ("alpha -2", {"alpha": -2.0}), ("alpha 1/3", {"alpha": 1 / 3}),
        ("bias", {"bias": bias}), ("alpha and bias", {"alpha": 4.0, "bias": bias}),
        ("C", {"beta": 1.0, "c": c}), ("beta 2 and C", {"beta": 2.0, "c": c}),
        ("all", {"alpha": 0.5, "beta": -1.0, "c": c, "bias": bias}),
    ]  # fmt: skip
    for label, options in wanted:
        if set(options) <= maker.takes:
            yield ProductCase(topic="epilogue", label=label, a=a, b=b, options=options)


def list_wide_epilogues(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    for rows, columns in ((5, 11), (2, 131), (130, 3)):
        m, n, k = maker.sizes.fit(rows, columns, 1)
        for label, bits, options in draw_wide_epilogues(m, n, dtype, maker.draw):
            if set(options) <= maker.takes:
                a, b = (p.numbers(maker.integers(p, size, k, bits=min(maker.bits, bits))) for p, size in ((maker.a, m), (maker.b, n)))
                yield ProductCase(topic="epilogue", label=f"{label}, {m} x {n}", a=a, b=b, options=options)
