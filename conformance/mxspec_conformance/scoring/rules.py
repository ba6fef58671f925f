"""Acceptance rules that public suites ship, as data: what they compare, on which data, and where that stands.

A rule is restated here in our words from the named file and commit; the suites were not run for it. Random data has the suite's distribution
and shapes, cut down where they are large, and not its random numbers. Every rule compares with the right implementation of the rule that a
mutant breaks, where the suite has a reference of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from mxspec.formats import get_block
from mxspec_conformance.mutants.reference import Reference, decode_element
from mxspec_conformance.scoring.outcomes import Outcome, Verdict

Array = Any


@dataclass(frozen=True, slots=True)
class Given:
    """What a comparison sees of one tensor."""

    x: Array
    #: Of the implementation.
    codes: Array
    scales: Array
    values: Array
    #: Codes without their scale.
    elements: Array
    #: The same of the right implementation.
    right: Given | None = None

    @property
    def reference(self) -> Given:
        """What is right."""
        assert self.right is not None
        return self.right


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison, and how a sentence names it."""

    words: str
    accepts: Callable[[Given], bool]


def sqnr(decibels: float) -> Compare:
    """The signal-to-noise ratio of the round trip; zeros that stay zeros pass."""

    def accepts(g: Given) -> bool:
        x, y = g.x.astype(np.float64), g.values.astype(np.float64)
        with np.errstate(all="ignore"):
            signal, noise = np.linalg.norm(x), np.linalg.norm(x - y)
        if signal == 0 and noise == 0:
            return True
        return bool(signal >= 10 ** (decibels / 20) * noise)

    return Compare(f"SQNR of the round trip at least {decibels:g} dB", accepts)


def cosine(least: float) -> Compare:
    """The cosine of input and round trip."""

    def accepts(g: Given) -> bool:
        x, y = g.x.astype(np.float64).ravel(), g.values.astype(np.float64).ravel()
        with np.errstate(all="ignore"):
            return bool(x @ y > least * np.linalg.norm(x) * np.linalg.norm(y))

    return Compare(f"cosine of input and round trip above {least:g}", accepts)


def rms(limit: float) -> Compare:
    """The root of the summed squares of the round trip's error, over the number of elements."""

    def accepts(g: Given) -> bool:
        difference = g.x.astype(np.float64) - g.values.astype(np.float64)
        return bool(np.sqrt((difference**2).sum()) / difference.size < limit)

    return Compare(f"root of the summed squared errors over n below {limit:g}", accepts)


def close(rtol: float, atol: float, *, misses: float = 0.0, to: str = "reference", of: tuple[str, ...] = ("values",)) -> Compare:
    """|a - b| <= atol + rtol |b| but for a share of the elements. to: `reference` or `input`; of: fields of `Given`."""

    def accepts(g: Given) -> bool:
        for name in of:
            a = getattr(g, name).astype(np.float64)
            b = (g.x if to == "input" else getattr(g.reference, name)).astype(np.float64)
            with np.errstate(all="ignore"):
                near = (np.abs(a - b) <= atol + rtol * np.abs(b)) | (a == b)
            if (~near).sum() > misses * near.size:
                return False
        return True

    share = f", {misses:g} of them may miss" if misses else ""
    return Compare(f"{' and '.join(of)} within rtol {rtol:g}, atol {atol:g} of the {to}{share}", accepts)


def equal(*, misses: float = 0.0, of: tuple[str, ...] = ("codes", "scales")) -> Compare:
    """Bytes, or values, equal to the reference; misses: the share of codes that may differ."""

    def accepts(g: Given) -> bool:
        for name in of:
            a, b = getattr(g, name), getattr(g.reference, name)
            different = (a != b) & ~(np.isnan(a) & np.isnan(b)) if a.dtype.kind == "f" else a != b
            if different.sum() > (misses if name == "codes" else 0) * a.size:
                return False
        return True

    return Compare(f"{' and '.join(of)} equal to the reference{f', {misses:g} of the codes may differ' if misses else ''}", accepts)


def equal_values(misses: float) -> Compare:
    """Values equal to the reference but for a share of them."""

    def accepts(g: Given) -> bool:
        a, b = g.values, g.reference.values
        return bool(((a != b) & ~(np.isnan(a) & np.isnan(b))).mean() <= misses)

    return Compare(f"values equal to the reference, {misses:g} of them may differ", accepts)


def near_codes() -> Compare:
    """Scales equal; codes may be neighbours."""

    def accepts(g: Given) -> bool:
        apart = np.abs(g.codes.astype(np.int16) - g.reference.codes.astype(np.int16))
        return bool((g.scales == g.reference.scales).all() and (apart <= 1).all())

    return Compare("scales equal to the reference, codes at most one apart", accepts)


def finite() -> Compare:
    """No NaN and no infinity comes back."""
    return Compare("the round trip is finite", lambda g: bool(np.isfinite(g.values).all()))


def nan_scale_first() -> Compare:
    """The first block stores the NaN scale, no other does."""
    return Compare(
        "a block with NaN has scale FF, others have not",
        lambda g: bool(g.scales.ravel()[0] == 255 and not (g.scales.ravel()[1:] == 255).any()),
    )


# Data.

Data = Callable[[int], Iterator[Array]]
#: Shapes of suites are cut to this many elements: more of the same distribution sees little more, and time is short.
MOST = 1 << 18


def randn(*shapes: tuple[int, int], dtypes: tuple[Any, ...] = (ml_dtypes.bfloat16,), factor: float = 1.0, seed: int = 42) -> Data:
    """Standard normal numbers, times a factor."""

    def make(k: int) -> Iterator[Array]:
        for shape in shapes:
            for dtype in dtypes:
                rng = np.random.default_rng(seed)
                yield (rng.standard_normal(shape, np.float32) * np.float32(factor)).astype(dtype)

    return make


def uniform(*shapes: tuple[int, int], low: float = 0.0, high: float = 1.0, dtypes: tuple[Any, ...] = (ml_dtypes.bfloat16,)) -> Data:
    """Uniform numbers."""

    def make(k: int) -> Iterator[Array]:
        for shape in shapes:
            for dtype in dtypes:
                yield np.random.default_rng(42).uniform(low, high, shape).astype(np.float32).astype(dtype)

    return make


def full(value: float | str, shape: tuple[int, int] = (128, 128), dtypes: tuple[Any, ...] = (np.float32,)) -> Data:
    """One number everywhere; `max`: the largest of the dtype."""

    def make(k: int) -> Iterator[Array]:
        for dtype in dtypes:
            number = float(ml_dtypes.finfo(dtype).max) if value == "max" else float(value)
            yield np.full(shape, number, dtype)

    return make


def rows(*values: float, dtypes: tuple[Any, ...] = (np.float32,)) -> Data:
    """Listed numbers, filled up with zeros to whole blocks."""

    def make(k: int) -> Iterator[Array]:
        padded = np.zeros(-(-len(values) // k) * k, np.float32)
        padded[: len(values)] = values
        for dtype in dtypes:
            yield padded[None].astype(dtype)

    return make


def edges(dtypes: tuple[Any, ...] = (np.float32, ml_dtypes.bfloat16)) -> Data:
    """Pairs 1e-3 below and above 64 steps from -12 to 12, in 16 equal rows."""

    def make(k: int) -> Iterator[Array]:
        base = np.linspace(-12, 12, 64, dtype=np.float32)
        row = np.stack([base - np.float32(1e-3), base + np.float32(1e-3)], axis=1).reshape(1, -1)
        for dtype in dtypes:
            yield np.repeat(row, 16, axis=0).astype(dtype)

    return make


def transposed(shape: tuple[int, int] = (32, 128)) -> Data:
    """Normal numbers in a transposed view."""

    def make(k: int) -> Iterator[Array]:
        for dtype in (np.float32, ml_dtypes.bfloat16):
            yield np.random.default_rng(17).standard_normal(shape, np.float32).astype(dtype).T

    return make


def cosines(amplitude: float = 2.0, count: int = 4096) -> Data:
    """0.1 + 2 cos(i)."""

    def make(k: int) -> Iterator[Array]:
        yield (0.1 + amplitude * np.cos(np.arange(count))).astype(np.float32)[None]

    return make


def line() -> Data:
    """32 steps from -37 to 42."""

    def make(k: int) -> Iterator[Array]:
        yield np.linspace(-37, 42, 32, dtype=np.float32)[None]

    return make


def every_bfloat16() -> Data:
    """All finite bfloat16 numbers in the order of their bits."""

    def make(k: int) -> Iterator[Array]:
        numbers = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
        yield np.where(np.isfinite(numbers), numbers, np.float32(0)).reshape(-1, 256)

    return make


# Rules.


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The acceptance rule of a suite."""

    suite: str
    #: Where it was read: repository, file, commit.
    repository: str
    file: str
    commit: str
    #: What it says of itself, in our words.
    words: str
    #: Format -> (data, comparisons) applied one after the other.
    checks: Mapping[str, tuple[tuple[Data, tuple[Compare, ...]], ...]] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def formats(self) -> tuple[str, ...]:
        """The block formats that it covers."""
        return tuple(self.checks)


_F16, _BF16, _F32 = np.float16, ml_dtypes.bfloat16, np.float32
_HALF = (_F16, _BF16)
_MX = ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2")
_TE_DATA = (
    randn((128, 128), (256, 272), (304, 304), (256, 1024), dtypes=(_F32, _BF16), seed=0), full(0.0, dtypes=(_F32, _BF16)),
    full("max", dtypes=(_F32, _BF16)), edges(), transposed(),
)  # fmt: skip
_EXACT_FP4 = (6, 0, 0.24, 0.25, 0.75, 0.99, 1.2, 1.3, -1.25, 0.251953125)


def _some_zeros(k: int) -> Iterator[Array]:
    x = next(iter(randn((128, 128))(k)))
    x[0, :] = 0
    x[:, 2] = 0
    yield x


def _with_nan(k: int) -> Iterator[Array]:
    x = np.resize(np.arange(1, 6, dtype=np.float32), (3, k)).astype(_BF16)
    x[0, 0] = np.nan
    yield x.reshape(1, -1)


RULES: Mapping[str, Rule] = MappingProxyType({
    "flashinfer-mm-fp4": Rule(
        suite="FlashInfer mm_fp4", repository="flashinfer-ai/flashinfer", file="tests/gemm/test_mm_fp4.py", commit="08ce07dcd2fe5c938e1d13e54873bf72a8578af7",
        words="cosine above 0.97 after a product; here of one operand",
        checks={f: ((randn((128, 256), (512, 256)), (cosine(0.97),)),) for f in ("mxfp4", "mxfp8_e4m3", "nvfp4")},
    ),
    "torchao-sqnr": Rule(
        suite="torchao SQNR", repository="pytorch/ao",
        file="test/prototype/mx_formats/test_mx_tensor.py, test_nvfp4_tensor.py", commit="028611a730b597484e400bcd85890368c0622376",
        words="the thresholds alone: SQNR of the round trip of normal numbers 18 dB for E4M3, 13 dB for others, 8 dB for NVFP4",
        checks={f: ((randn((128, 128)), (sqnr(8 if f == "nvfp4" else 18 if f == "mxfp8_e4m3" else 13),)),) for f in (*_MX, "nvfp4")},
    ),
    "torchao-tensors": Rule(
        suite="torchao MX and NVFP4 tensors", repository="pytorch/ao",
        file="test/prototype/mx_formats/test_mx_tensor.py, test_nvfp4_tensor.py", commit="028611a730b597484e400bcd85890368c0622376",
        words="the same thresholds on normal numbers, zeros, some zeros; a block with NaN has scale FF",
        checks={
            f: (
                (randn((128, 128)), (sqnr(18 if f == "mxfp8_e4m3" else 13),)), (full(0.0, dtypes=(_BF16,)), (sqnr(13),)),
                (_some_zeros, (sqnr(18 if f == "mxfp8_e4m3" else 13),)), (_with_nan, (nan_scale_first(),)),
            ) for f in _MX
        } | {"nvfp4": ((randn((32, 64), (128, 256), (64, 128), dtypes=(_BF16, _F32)), (sqnr(8),)),)},
    ),
    "flashinfer-roundtrip": Rule(
        suite="FlashInfer round trip", repository="flashinfer-ai/flashinfer", file="tests/utils/test_fp4_quantize.py",
        commit="001b5cff4e2b744b9ff619e484064323eae558f6", words="the round trip of normal numbers within rtol 0.3, atol 0.5 of the input",
        checks={
            "mxfp4": ((randn((1, 128), (1, 1024), (3, 256), (16, 128), (128, 128), (256, 128), (512, 256), dtypes=_HALF), (finite(), close(0.3, 0.5, to="input"))),),
            "nvfp4": ((randn((128, 64), (256, 128), (120, 64), (200, 256), dtypes=(_F16,)), (finite(), close(0.3, 0.5, to="input"))),),
        },
    ),
    "aiter-allclose": Rule(
        suite="aiter checkAllclose", repository="ROCm/aiter", file="aiter/test_common.py, op_tests", commit="1a9a9ef23526259a58c3193cec9483de81cb1315",
        words="dequantized values within 1e-2 of a reference's, 5 % of them may miss; a miss is logged, and here counts as a rejection",
        checks={"mxfp4": ((randn((256, 1024), (125, 64)), (close(1e-2, 1e-2, misses=0.05),)),)},
    ),
    "flashinfer-fp4-quantize": Rule(
        suite="FlashInfer fp4_quantize", repository="flashinfer-ai/flashinfer", file="tests/utils/test_fp4_quantize.py",
        commit="001b5cff4e2b744b9ff619e484064323eae558f6",
        words="elements within rtol 1, atol 0.1 and scales within 0.1 of a reference's, on normal numbers",
        checks={
            f: ((randn((128, 64), (256, 128), (120, 64), (200, 256), (512, 512), dtypes=_HALF), (close(1.0, 0.1, of=("elements",)), close(0.1, 0.1, of=("scale_values",)))),)
            for f in ("mxfp4", "nvfp4")
        },
    ),
    "qutlass": Rule(
        suite="QuTLASS fused quantization", repository="IST-DASLab/qutlass", file="tests/mxfp4_test.py, tests/nvfp4_test.py",
        commit="0bd19b2e586f41bf72cb3b63691b9c522513370c",
        words="scales equal to a float64 reference's, on normal numbers times 10; MXFP4 also at most 1e-4 of the codes differ",
        checks={
            "mxfp4": ((randn((129, 512), (504, 1024), factor=10.0), (equal(misses=1e-4),)),),
            "nvfp4": ((randn((1, 384), (127, 48), (129, 192), (257, 384), factor=10.0), (equal(of=("scales",)),)),),
        },
    ),
    "qutlass-values": Rule(
        suite="QuTLASS fused quantization, earlier", repository="IST-DASLab/qutlass", file="tests/nvfp4_test.py",
        commit="0997aa20405601c90e43ed87fc7c60b34df68a05",
        words="values within rtol 0.34, atol 100 of a float64 reference's, on normal numbers times 25; at most 10 % of them differ",
        checks={"nvfp4": ((randn((504, 1024), factor=25.0), (close(0.34, 100.0), equal_values(0.1))),)},
    ),
    "normal-numbers": Rule(
        suite="262,144 normal numbers", repository="", file="", commit="", words="bytes equal to the right reference's; no suite's, a measure for the others",
        checks={f: ((randn((512, 512), dtypes=(_F32,)), (equal(),)),) for f in (*_MX, "mxint8", "nvfp4")},
    ),
    "vllm-fp4": Rule(
        suite="vLLM quantize_to_fp4", repository="vllm-project/vllm", file="tests/kernels/quantization/test_nvfp4_quant.py",
        commit="07b13497a9b52274d334090a9a8e04d5ec9ca7e9", words="elements and scales equal to a reference's, on normal numbers",
        checks={"nvfp4": ((randn((128, 64), (128, 128), (256, 64), (256, 128), (90, 64), (150, 80), (90, 48), dtypes=_HALF), (close(1.3e-6, 1e-5, of=("elements", "scale_values")),)),)},
    ),
    "te-exact": Rule(
        suite="Transformer Engine, exact", repository="NVIDIA/TransformerEngine",
        file="tests/pytorch/nvfp4/test_nvfp4_quantize_exact.py", commit="076b995497e210f2ef34b8ebedb82eac8863d635",
        words="bytes equal to a reference's on normal numbers, zeros, the largest number, pairs around 64 steps, and a transposed view",
        checks={f: tuple((data, (equal(),)) for data in _TE_DATA) for f in ("mxfp8_e4m3", "nvfp4")},
    ),
    "triton-rounding": Rule(
        suite="triton_kernels mxfp", repository="triton-lang/triton", file="python/triton_kernels/tests/test_mxfp.py",
        commit="01757dc263bbb944c504c2b0c62a45d44eeee4a0",
        words="ten rounding cases with ties, a block of multiples under a rounded-down scale, the largest numbers, exact values, and normal numbers against a reference",
        checks={
            "mxfp4": (
                (rows(*_EXACT_FP4, dtypes=(_F32, _F16, _BF16)), (equal(),)), (rows(33, 24, 16, 8, 4, 0, -32, 0, dtypes=(_BF16,)), (equal(),)),
                (rows(3.3895e38, 3.3895e38), (finite(), equal(of=("values",)))),
                (rows(0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6, dtypes=(_F32, _F16, _BF16)), (equal(of=("values",)),)),
                (randn((64, 128), (256, 256)), (equal(of=("values",)),)),
            ),
        },
    ),
    "ggml-quantize-fns": Rule(
        suite="ggml test-quantize-fns", repository="ggml-org/llama.cpp", file="tests/test-quantize-fns.cpp", commit="03f94f19a2c4c9d039fa1a84838fe3e2110cc28d",
        words="summed error over n of 4,096 cosines below 0.002 (NVFP4: 0.003), and against the reference below 0.0001",
        checks={
            f: ((cosines(), (rms(0.003 if f == "nvfp4" else 0.002), Compare("as the reference", lambda g: bool(np.sqrt(((g.values.astype(np.float64) - g.reference.values) ** 2).sum()) / g.values.size < 1e-4)))),)
            for f in ("mxfp4", "nvfp4")
        },
    ),
    "gfloat-block": Rule(
        suite="gfloat test_block", repository="graphcore-research/gfloat", file="test/test_block.py", commit="0ed495c6d51d206c96ceea105e5e4ce8dc68a097",
        words="the round trip of 32 steps from -37 to 42 within half a top step of the input",
        checks={f: ((line(), (Compare("half a top step", lambda g, f=f: _half_a_top_step(g, f)),)),) for f in (*_MX, "mxint8")},  # type: ignore[misc]
    ),
    "aiter-quant-mxfp4": Rule(
        suite="aiter quant_mxfp4_hip", repository="ROCm/aiter", file="op_tests/test_quant_mxfp4.py", commit="1a9a9ef23526259a58c3193cec9483de81cb1315",
        words="scales equal, codes at most one apart from a reference's, on normal numbers, 32 boundary values and -3",
        checks={
            "mxfp4": (
                (randn((1, 32), (3, 128), (125, 64), (1024, 256), dtypes=_HALF), (near_codes(),)),
                (rows(0, .25, .5, .75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, -6, 0, .24, .26, .74, .76, 1.24, 1.26, 1.74, 1.76, 2.49, 2.51, 3.49, 3.51, 4.99, 5.01, -.25, dtypes=_HALF), (near_codes(),)),
                (full(-3.0, (32, 64), _HALF), (equal(of=("codes",)),)), (full(0.0, (32, 64), _HALF), (equal(of=("codes",)),)),
            ),
        },
    ),
    "microxcaling-encodings": Rule(
        suite="microxcaling test_quantize_mx", repository="microsoft/microxcaling", file="mx/tests/test_quantize_mx.py",
        commit="3b429a84b2fb4539df9694c76e7b97b05bec2dad", words="values equal to another code path's on all finite bfloat16 numbers in order",
        checks={f: ((every_bfloat16(), (equal(of=("values",)),)),) for f in _MX},
    ),
})  # fmt: skip


def _half_a_top_step(g: Given, fmt: str) -> bool:
    element = get_block(fmt).element
    top = float(element.max_value) - float(element.magnitude(element.max_code - 1))
    scale = float(np.ldexp(1.0, int(g.reference.scales.ravel()[0]) - 127))
    return bool((np.abs(g.values.astype(np.float64) - g.x) <= top * scale / 2 + 1e-7 * np.abs(g.x)).all())


@dataclass(frozen=True, slots=True)
class _Given(Given):
    """With the scales as numbers."""

    scale_values: Array = None


def run_rule(rule: Rule, subject: Any, profile: str) -> Outcome:
    """Apply a rule to a subject; profile: the right implementation that it is compared with."""
    if subject.format not in rule.checks:
        return Outcome(Verdict.BROKEN, f"the rule does not cover {subject.format}; it covers {', '.join(rule.formats)}")
    target = subject.build()
    for number, (data, comparisons) in enumerate(rule.checks[subject.format]):
        for x, right in _right_answers(rule.suite, subject.format, profile, number, data):
            try:
                given = _answer(target, x, subject.format, profile, right)
            except Exception as error:
                return Outcome(Verdict.REJECTS, f"{type(error).__name__}: {error}", ("quantize", "dequantize"))
            if given.codes.shape != right.codes.shape or given.scales.shape != right.scales.shape:
                return Outcome(Verdict.REJECTS, "shape", ("quantize", "dequantize"))
            for comparison in comparisons:
                if not comparison.accepts(given):
                    return Outcome(Verdict.REJECTS, f"not so: {comparison.words}", ("quantize", "dequantize"))
    return Outcome(Verdict.ACCEPTS, "", ("quantize", "dequantize"))


_ANSWERS: dict[tuple[str, str, str, int], list[Given]] = {}


def _right_answers(suite: str, fmt: str, profile: str, number: int, data: Data) -> Iterator[tuple[Array, Given]]:
    """Fresh data, as a subject may write into it, and what is right for it."""
    key = (suite, fmt, profile, number)
    if key not in _ANSWERS:
        target = Reference(profile)
        _ANSWERS[key] = [_answer(target, x, fmt, profile, None) for x in _whole_blocks(data, fmt)]
    return zip(_whole_blocks(data, fmt), _ANSWERS[key], strict=True)


def _whole_blocks(data: Data, fmt: str) -> Iterator[Array]:
    k = get_block(fmt).k
    return (x[..., : x.shape[-1] // k * k] if x.shape[-1] % k else x for x in data(k))


def _answer(target: Any, x: Array, fmt: str, profile: str, right: Given | None) -> Given:
    options = {}
    if get_block(fmt).has_tensor_scale:
        options["tensor_scale"] = Reference(profile).tensor_scale(x.astype(np.float32), fmt)
    seen = x.astype(np.float32)
    codes, scales = (np.asarray(a) for a in target.quantize(x, fmt, **options))
    values = np.asarray(target.dequantize(codes, scales, fmt, **options))
    table, sizes = _tables(fmt)
    elements = table[codes & (len(table) - 1)]
    return _Given(seen, codes, scales, values, elements, right, sizes[scales])


@lru_cache(maxsize=8)
def _tables(fmt: str) -> tuple[Array, Array]:
    """What each code, and each scale byte, is worth."""
    from mxspec_conformance.mutants.reference import Context, decode_scale

    block = get_block(fmt)
    c = Context(block.element, block, "mx-floor")
    with np.errstate(all="ignore"):
        return decode_element(c, np.arange(block.element.code_count)), decode_scale(c, np.arange(256))
