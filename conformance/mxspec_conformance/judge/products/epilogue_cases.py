"""Cases of alpha, beta, C and bias."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
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


#: What is given in addition to C and bias, and whether each of these is: every set of keywords, and factors by which a part is left out.
_KEY_SETS: tuple[tuple[dict[str, float], bool, bool], ...] = (
    ({"alpha": 1.0}, False, False), ({"alpha": 1.0}, False, True), ({"alpha": 0.0}, False, True), ({"beta": 1.0}, True, True),
    ({"beta": 0.0}, True, True), ({"beta": -0.5}, True, True), ({"alpha": 1.0, "beta": 2.0}, True, False),
    ({"alpha": 1.0, "beta": 1.0}, True, True), ({"alpha": 0.0, "beta": 0.0}, True, True), ({"alpha": 8.0, "beta": 0.0}, True, True),
    ({"alpha": 0.0, "beta": 2.0}, True, True), ({"alpha": 131072.0}, False, False),
)  # fmt: skip


def list_key_sets(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    """Which of alpha, beta, C and bias are given, and factors of zero and one: what is not given must not count, what is given must."""
    m, n, k = maker.sizes.fit(6, 10, 64)
    a, b = (p.numbers(maker.short(p, rows, k)) for p, rows in ((maker.a, m), (maker.b, n)))
    c = (np.arange(m * n).reshape(m, n) * 7 % 23 - 11).astype(DTYPES[dtype])
    bias = (np.arange(n) * 5 % 17 - 8).astype(DTYPES[dtype])
    for factors, has_c, has_bias in _KEY_SETS:
        options: dict[str, Any] = {**factors, **({"c": c} if has_c else {}), **({"bias": bias} if has_bias else {})}
        if set(options) <= maker.takes:
            named = [f"{name} {x:g}" for name, x in factors.items()] + ["C"] * has_c + ["bias"] * has_bias
            yield ProductCase(topic="epilogue", label=f"just {', '.join(named)}", a=a, b=b, options=options)


#: Exponents of the ends of an output's dtype, but for what a unit may flush.
_ENDS = {"float32": (-126, 127), "bfloat16": (-126, 127), "float16": (-14, 15)}
#: Bits of a number behind the first.
_DIGITS = {"float32": 23, "bfloat16": 7, "float16": 10}


def list_added_ends(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    """C and bias over all binades of their dtype, added to sums of zeros: they are the outputs."""
    m, n, k = maker.sizes.fit(3, 132, 64)
    a, b = (p.numbers(np.full((rows, k), p.code_of(0.0))) for p, rows in ((maker.a, m), (maker.b, n)))
    low, high = _ENDS[dtype]
    powers = np.resize(np.linspace(low, high, 37).round().astype(int), m * n)
    c = (np.ldexp(1.0, powers) * np.where(np.arange(m * n) % 2, -1, 1)).reshape(m, n).astype(DTYPES[dtype])
    # The largest number, and what brings it less than halfway to the next one.
    most = float(ml_dtypes.finfo(DTYPES[dtype]).max)
    largest = np.where(np.arange(m * n) % 2, -most, most).reshape(m, n).astype(DTYPES[dtype])
    step = largest[0] * np.asarray(2.0 ** (-3 - _DIGITS[dtype]), DTYPES[dtype])
    wanted: list[tuple[str, dict[str, Any]]] = [
        ("C of every size", {"beta": 1.0, "c": c}), ("bias of every size", {"bias": c[0].copy()}),
        ("C of the largest numbers and a small bias", {"beta": 1.0, "c": np.tile(largest[:1], (m, 1)), "bias": step}),
    ]  # fmt: skip
    for label, options in wanted:
        if set(options) <= maker.takes:
            yield ProductCase(topic="epilogue", label=f"{label}, sums of zeros", a=a, b=b, options=options)


def list_added_specials(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    """A NaN or an infinity at the end of what is added: nothing else is one."""
    m, n, k = maker.sizes.fit(20, 24, 32)
    ones = (np.array([p.code_of(0.0), p.code_of(1.0), p.code_of(1.0)]) for p in (maker.a, maker.b))
    a, b = (p.numbers(p.pick(codes, rows, k)) for p, codes, rows in zip((maker.a, maker.b), ones, (m, n), strict=True))
    for topic, value in (("nan", np.nan), ("inf", np.inf), ("inf", -np.inf)):
        c, bias = (np.ones(shape, DTYPES[dtype]) for shape in ((m, n), n))
        c[-1, -1] = bias[-2] = value
        for label, options in (("C", {"beta": 1.0, "c": c}), ("bias", {"bias": bias})):
            if set(options) <= maker.takes:
                yield ProductCase(topic=topic, label=f"{value:g} at the end of {label}, {m} x {n}", a=a, b=b, options=options)


def list_wide_epilogues(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    for rows, columns in ((5, 11), (2, 131), (130, 3)):
        m, n, k = maker.sizes.fit(rows, columns, 1)
        for label, bits, options in draw_wide_epilogues(m, n, dtype, maker.draw):
            if set(options) <= maker.takes:
                a, b = (p.numbers(maker.integers(p, size, k, bits=min(maker.bits, bits))) for p, size in ((maker.a, m), (maker.b, n)))
                yield ProductCase(topic="epilogue", label=f"{label}, {m} x {n}", a=a, b=b, options=options)
