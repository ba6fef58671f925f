"""Threads about stochastic rounding."""

from __future__ import annotations

from functools import partial

import ml_dtypes
import numpy as np

from mxspec_conformance.mutants import reference
from mxspec_conformance.mutants.call_mutants import stochastic
from mxspec_conformance.mutants.reference import Array, Context
from mxspec_lab.threads.building import changed, right
from mxspec_lab.threads.schema import Family, Thread


def zeros(c: Context, magnitude: Array, words: Array) -> Array:
    """The output as it was initialized."""
    return np.zeros_like(magnitude)


def carry_lost(c: Context, magnitude: Array, words: Array) -> Array:
    """What would carry into the exponent starts its binade again."""
    rounded = reference.round_stochastic(c, magnitude, words)
    start = np.ldexp(1.0, reference.exponent_of(magnitude))
    return np.where((rounded >= 2 * start) & (magnitude >= 2.0**-6), start, rounded)


def noise_in_bfloat16(c: Context, magnitude: Array, words: Array) -> Array:
    """floor(x + r) with r in bfloat16, which rounds up to 1."""
    step = reference.spacing(c.element, magnitude)
    noise = (words * 2.0**-32).astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
    return np.floor(magnitude / step + noise) * step


_sr = partial(Thread, family=Family.STOCHASTIC, operations=("encode_stochastic",), fixed=right())

THREADS = (
    _sr(
        id="te-3281", reference="NVIDIA/TransformerEngine#3281", formats=("e2m1",), only="stochastic/e2m1/*", title="Stochastic rounding returns zeros on devices without the instruction",
        wrong="The branch without the instruction is an assertion that release builds leave out; the output stays zero.",
        broken=changed(round_stochastic=zeros), fails=("stochastic/e2m1/random-bits",), names="every number were zero",
    ),
    _sr(
        id="onednn-2903", reference="uxlfoundation/oneDNN#2903", formats=("e5m2",), only="stochastic/e5m2/*", title="Stochastic rounding is biased: its random bits are misaligned",
        wrong="Random bits are added below the place where they could carry.", differs="By how many places is not said; here it is four.",
        broken=changed(round_stochastic=stochastic(lambda fraction, words: fraction + np.floor(words / 16) >= 2.0**32)), fails=("stochastic/e5m2/random-bits",), names="the random bits were added too low",
    ),
    _sr(
        id="rocm-llvm-3275", reference="ROCm/llvm-project#3275", formats=("e4m3",), only="stochastic/e4m3/*", title="3 % of stochastically rounded results are off by the whole fraction",
        wrong="Fraction and noise are added and masked, and the carry into the exponent is dropped.", differs="The report is of E5M3; here it is E4M3.",
        broken=changed(round_stochastic=carry_lost), fails=("stochastic/e4m3/random-bits",), names="a carry out of the fraction were dropped",
    ),
    _sr(
        id="comfy-kitchen-60", reference="Comfy-Org/comfy-kitchen#60", formats=("int8",), only="stochastic/int8/*", title="Whole numbers move under stochastic rounding",
        wrong="The noise is rounded to the input's 16 bits, where it becomes 1.", differs="Said in a review.",
        broken=changed(round_stochastic=noise_in_bfloat16), fails=("stochastic/int8/random-bits",), names="rounded to bfloat16",
    ),
)  # fmt: skip
