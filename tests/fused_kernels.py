"""Fused quantizers in plain NumPy: a reference whose steps are replaced by name, in right ways and in wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from mxspec_conformance.judge.fused.judging import judge_fused
from mxspec_conformance.judge.wanted import Wanted
from mxspec_conformance.results.report import Requirement
from mxspec_conformance.transports.opening import open_target

F32, BF16 = np.float32, ml_dtypes.bfloat16
FORMAT, K, EMAX, LARGEST = "mxfp8_e4m3", 32, 8, 448


def to(dtype: Any) -> Callable[[Any], Any]:
    """Rounded to a dtype, and back."""
    return lambda v: np.asarray(v, F32).astype(dtype).astype(F32)


def exact(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of float64, rounded to float32."""
    return lambda v: function(np.asarray(v, np.float64)).astype(F32)


def same(v: Any) -> Any:
    return v


exp, tanh, keep = exact(np.exp), exact(np.tanh), same


def silu(x: Any, k: Any) -> Any:
    return x / (1 + k.exp(-x))


def gelu_tanh(x: Any, k: Any) -> Any:
    inner = F32(0.7978845608028654) * (x + F32(0.044715) * (x * x * x))
    return F32(0.5) * x * (1 + k.tanh(inner))


def oai(x: Any, k: Any) -> Any:
    gate = k.clamp_gate(x)
    return gate / (1 + k.exp(-F32(k.alpha) * gate))


def normalize(x: Any, k: Any, eps: float) -> Any:
    return x * k.rsqrt(k.mean(x), F32(eps))


def hadamard(x: Any, k: Any) -> Any:
    groups = x.reshape(len(x), -1, 16)
    signs = k.signs(np.array([[(-1.0) ** (i & j).bit_count() for j in range(16)] for i in range(16)]))
    total = np.zeros_like(groups)
    for j in range(16):
        total = total + groups[..., j : j + 1] * signs[j].astype(F32)
    return (total * F32(k.factor)).reshape(x.shape)


def halves(x: Any) -> Any:
    return np.split(x, 2, axis=1)


def encode(blocks: Any, exponent: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.clip(np.ldexp(blocks.astype(np.float64), -exponent), -LARGEST, LARGEST).astype(ml_dtypes.float8_e4m3fn)


def find_exponent(amax: Any) -> Any:
    return np.where(amax == 0, -127, np.clip(np.frexp(amax)[1] - 1 - EMAX, -127, 127)).astype(np.int64)


#: Step -> what it is by default.
DEFAULTS: dict[str, Any] = {
    "split": halves, "gate": same, "up": same, "exp": exp, "tanh": tanh, "activation": silu, "inner": same,
    "multiply": lambda a, up: a * up, "product": same, "of_amax": lambda plain, rounded: rounded,
    "amax": lambda blocks: np.abs(blocks).max(axis=2, keepdims=True), "find_exponent": find_exponent, "encode": encode,
    "lost": lambda amax: ~np.isfinite(amax), "byte": lambda e: e + 127, "codes": same, "scales": same,
    "clamp_gate": lambda x: np.minimum(x, F32(7)), "clamp_up": lambda x: np.clip(x, F32(-7), F32(7)), "alpha": 1.702, "one": 1,
    "mean": lambda x: (x * x).sum(axis=1, keepdims=True) / F32(x.shape[1]), "rsqrt": lambda m, eps: 1 / np.sqrt(m + eps),
    "weighted": lambda y, w: y * w, "total": lambda x, r: x + r, "signs": same, "factor": 0.25, "mix": hadamard,
    "normalize": normalize, "finish": lambda y, x: y,
}  # fmt: skip


def quantize(y: Any, k: Any) -> Any:
    rounded = k.product(y)
    blocks, plain = (v.reshape(len(y), -1, K) for v in (rounded, y))
    amax = k.amax(k.of_amax(plain, blocks))
    exponent = k.find_exponent(np.where(np.isfinite(amax), amax, 0))
    codes = k.codes(k.encode(blocks, exponent).view(np.uint8).reshape(y.shape))
    scales = k.scales(np.where(k.lost(amax), 255, k.byte(exponent)).astype(np.uint8)[..., 0])
    return codes, scales


def make_kernel(function: str, **steps: Any) -> Callable[..., Any]:
    """`quantize_fused` of one function, with some steps replaced."""
    k = SimpleNamespace(**DEFAULTS | steps)

    @np.errstate(all="ignore")
    def quantize_fused(x: Any, name: str, fmt: str, up: Any = None, residual: Any = None, weight: Any = None, eps: float = 1e-6) -> Any:
        x = x.astype(F32)
        if function.startswith(("silu_mul", "swiglu_oai")):
            gate, up = k.split(x)
            gate, up = k.gate(gate), k.up(up)
            if function == "swiglu_oai":
                gate, up = oai(gate, k), k.clamp_up(up) + F32(k.one)
            else:
                gate = k.activation(gate, k)
            return quantize(k.multiply(k.inner(gate), up), k)
        if function in ("gelu_tanh", "gelu"):
            return quantize(k.activation(x, k), k)
        if function == "hadamard-16":
            return quantize(k.mix(x, k), k)
        plain, weight = k.gate(x), weight.astype(F32) + F32(function.endswith("plus1"))
        x = plain if residual is None else k.total(plain, residual.astype(F32))
        return quantize(k.finish(k.weighted(k.inner(k.normalize(x, k, eps)), weight), residual), k)

    return quantize_fused


@dataclass(frozen=True)
class Variant:
    """A kernel: its function and the steps that it has otherwise."""

    name: str
    function: str
    steps: dict[str, Any] = field(default_factory=dict)
    dtype: str = "bfloat16"
    contract: str = ""

    @property
    def target(self) -> Any:
        """As `mxspec check` takes it."""
        return SimpleNamespace(
            NAME=self.name, VERSION="1", FUSED=[f"{self.function}-{FORMAT}"], DTYPES=[self.dtype], FUSED_CONTRACT=self.contract,
            quantize_fused=make_kernel(self.function, **self.steps),
        )  # fmt: skip

    def judge(self) -> tuple[list[Requirement], dict[str, Any]]:
        """Its requirements but those of other calls, and where it stands."""
        requirements, details = judge_fused(open_target(self.target), f"{self.function}-{FORMAT}", Wanted(calls=False))
        return requirements, details[self.dtype]


def off_by_ulps(n: int) -> Callable[[Any], Any]:
    """exp, off by up to n units in the last place: by as many as the argument's bits say."""

    def inexact(v: Any) -> Any:
        good = exp(v)
        by = (np.asarray(v, F32).view(np.uint32) * np.uint32(2654435761) >> np.uint32(16)).astype(np.int64) % (2 * n + 1) - n
        return np.where((good > 1e-30) & (good < 1e30), (good.view(np.int32) + by.astype(np.int32)).view(F32), good)

    return inexact


def sigmoid(x: Any, k: Any) -> Any:
    return 1 / (1 + k.exp(-x))


#: Contract, as `mxspec check` names it -> the kernel of SiLU times up that follows it.
CONTRACTS = {
    "plain-0ulp": Variant("float32 throughout", "silu_mul"),
    "plain-0ulp+inner-bfloat16": Variant("SiLU rounded to bfloat16", "silu_mul", {"inner": to(BF16)}),
    "plain-0ulp+product-bfloat16": Variant("product rounded to bfloat16 before amax", "silu_mul", {"product": to(BF16)}),
    "plain-0ulp+product-float16": Variant("product rounded to float16", "silu_mul", {"product": to(np.float16)}),
    "plain-0ulp+product-bfloat16+amax-unrounded": Variant(
        "amax of the unrounded product", "silu_mul", {"product": to(BF16), "of_amax": lambda plain, rounded: plain}
    ),
    "plain-2ulp": Variant("exp within 2 ulp", "silu_mul", {"exp": off_by_ulps(2)}, "float32"),
    "reciprocal-0ulp+sigmoid-bfloat16+inner-bfloat16+product-bfloat16": Variant(
        "x * sigmoid in bfloat16", "silu_mul",
        {"activation": lambda x, k: to(BF16)(x * to(BF16)(sigmoid(x, k))), "product": to(BF16)},
    ),
}  # fmt: skip


def in_float64(x: Any, k: Any) -> Any:
    return x.astype(np.float64) / (1 + np.exp(-x.astype(np.float64)))


def stable(x: Any, k: Any) -> Any:
    e = k.exp(-np.abs(x))
    return np.where(x < 0, x * e, x) / (1 + e)


def butterfly(x: Any, k: Any) -> Any:
    y = x.reshape(len(x), -1, 16)
    for step in (1, 2, 4, 8):
        pairs = y.reshape(*y.shape[:2], -1, 2, step)
        y = np.stack([pairs[..., 0, :] + pairs[..., 1, :], pairs[..., 0, :] - pairs[..., 1, :]], axis=-2).reshape(y.shape)
    return (y * F32(0.25)).reshape(x.shape)


def in_order(squares: Any) -> Any:
    total = np.zeros((len(squares), 1), F32)
    for j in range(squares.shape[1]):
        total = total + squares[:, j : j + 1]
    return total


def mean_by(total: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: (total(x * x) / x.dtype.type(x.shape[1])).astype(F32)


def keep_nan(blocks: Any, exponent: Any) -> Any:
    return np.where(np.isnan(blocks), np.float32(np.nan), encode(blocks, exponent).astype(F32)).astype(ml_dtypes.float8_e4m3fn)


def by_float64(x: Any) -> Any:
    wide = x.astype(np.float64)
    return ((wide * wide).sum(axis=1, keepdims=True) / x.shape[1]).astype(F32)


def ceil_exponent(amax: Any) -> Any:
    fraction, exponent = np.frexp(amax.astype(np.float64) / LARGEST)
    return np.where(amax == 0, -127, np.clip(exponent - (fraction == 0.5), -127, 127)).astype(np.int64)


_LOG2E = F32(1.4426950408889634)
#: Kernels that do what their function says, each in a way of its own.
RIGHT = (
    Variant("float64 up to the product", "silu_mul", {"activation": in_float64}),
    Variant("float64 up to the product", "silu_mul", {"activation": in_float64}, "float32"),
    Variant("exp by exp2, its argument rounded", "silu_mul", {"exp": lambda v: np.exp2(v * _LOG2E)}, "float32"),
    Variant("NumPy's exp of float32", "silu_mul", {"exp": np.exp}, "float32"),
    Variant("exp of a negative number alone", "silu_mul", {"activation": stable}, "float32"),
    Variant("x * (1 / (1 + exp(-x)))", "silu_mul", {"activation": lambda x, k: x * sigmoid(x, k)}, "float32"),
    Variant("(x * up) / (1 + exp(-x))", "silu_mul", {"activation": lambda x, k: x, "multiply": lambda x, up: x * up / (1 + exp(-x))},
            "float32"),
    Variant("the scale rounded up", "silu_mul", {"find_exponent": ceil_exponent}),
    Variant("NaN kept next to finite numbers", "silu_mul", {
        "amax": lambda b: np.nanmax(np.abs(b), axis=2, keepdims=True), "lost": np.isinf, "encode": keep_nan}),
    Variant("float64 sum of squares", "rmsnorm", {"mean": by_float64}, "float32"),
    Variant("squares added in order", "rmsnorm", {"mean": mean_by(in_order)}, "float32"),
    Variant("squares added from the end", "rmsnorm", {"mean": mean_by(lambda s: in_order(s[:, ::-1]))}),
    Variant("chunks of 32 squares", "rmsnorm", {"mean": mean_by(lambda s: in_order(s.reshape(len(s), -1, 32).sum(axis=2)))}),
    Variant("rsqrt", "rmsnorm", {"rsqrt": lambda m, eps: (1 / np.sqrt((m + eps).astype(np.float64))).astype(F32)}, "float32"),
    Variant("x / sqrt", "rmsnorm", {"normalize": lambda x, k, eps: x / np.sqrt(k.mean(x) + F32(eps))}, "float32"),
    Variant("mean by a product with 1 / n, sum in order", "add_rmsnorm", {"mean": lambda x: in_order(x * x) * F32(1 / x.shape[1])}),
    Variant("the residual sum in bfloat16", "add_rmsnorm", {"total": lambda x, r: to(BF16)(x + r)}),
    Variant("the normalized row in bfloat16", "rmsnorm-plus1", {"inner": to(BF16)}),
    Variant("butterflies", "hadamard-16", {"mix": butterfly}, "float32"),
    Variant("scaled first", "hadamard-16", {"mix": lambda x, k: hadamard(x * F32(0.25), SimpleNamespace(signs=same, factor=1))}, "float32"),
    Variant("GELU by a sigmoid", "gelu_tanh", {"activation": lambda x, k: x * sigmoid(
        F32(1.5957691216057308) * (x + F32(0.044715) * x * x * x), k)}, "float32"),
    Variant("clamps, float32", "swiglu_oai"),
)  # fmt: skip


class Kept:
    """What one step hands to another."""

    value: Any = None

    def keep(self, v: Any) -> Any:
        self.value = v
        return v

    def amax(self, blocks: Any) -> Any:
        return np.abs(self.value.reshape(blocks.shape)).max(axis=2, keepdims=True)


def toward_zero(dtype: Any) -> Callable[[Any], Any]:
    def cut(v: Any) -> Any:
        near = to(dtype)(v)
        return np.where(np.abs(near) > np.abs(v), np.nextafter(near.astype(dtype), dtype(0)).astype(F32), near)

    return cut


def encode_cut(blocks: Any, exponent: Any) -> Any:
    scaled = np.clip(np.ldexp(blocks.astype(np.float64), -exponent), -LARGEST, LARGEST)
    return toward_zero(ml_dtypes.float8_e4m3fn)(scaled.astype(F32)).astype(ml_dtypes.float8_e4m3fn)


def encode_away(blocks: Any, exponent: Any) -> Any:
    scaled = np.ldexp(blocks.astype(np.float64), -exponent).astype(F32)
    return encode(np.where(scaled == 0, scaled, np.nextafter(scaled, np.sign(scaled) * F32(np.inf))), np.zeros_like(exponent))


def erf_gelu(x: Any, k: Any) -> Any:
    from math import erf

    return F32(0.5) * x * (1 + np.vectorize(erf, otypes=[F32])(x.astype(np.float64) / np.sqrt(2)).astype(F32))


def rough(bits: int) -> Callable[[Any], Any]:
    """Rounded to so many bits."""
    return lambda v: (lambda f, e: np.ldexp(np.rint(np.ldexp(f, bits)), e - bits).astype(F32))(*np.frexp(np.asarray(v, F32)))


def flush(v: Any) -> Any:
    return np.where(np.abs(v) < 2.0**-126, np.copysign(F32(0), v), v)


_KEPT = Kept()
#: Kernels with one mistake, and where it was seen.
WRONG = (
    Variant("gate and up exchanged", "silu_mul", {"split": lambda x: halves(x)[::-1]}),
    Variant("halves where they are interleaved", "silu_mul-interleaved"),
    Variant("interleaved where they are halves", "silu_mul", {"split": lambda x: (x[:, ::2], x[:, 1::2])}),
    Variant("up not multiplied", "silu_mul", {"multiply": lambda a, up: a}),
    Variant("up added", "silu_mul", {"multiply": lambda a, up: a + up}),
    Variant("the sigmoid alone", "silu_mul", {"activation": sigmoid}),
    Variant("sigmoid by tanh.approx, vllm#24833", "silu_mul", {
        "activation": lambda x, k: x * (F32(0.5) + F32(0.5) * rough(11)(np.tanh(x / 2)))}),
    Variant("sigmoid by tanh, float32", "silu_mul", {"activation": lambda x, k: x * (F32(0.5) + F32(0.5) * tanh(x / 2))}, "float32"),
    Variant("one for a gate of zero", "silu_mul", {"activation": lambda x, k: np.where(x == 0, F32(1), silu(x, k))}),
    Variant("hard sigmoid", "silu_mul", {"activation": lambda x, k: x * np.clip(x / 6 + F32(0.5), 0, 1)}),
    Variant("GELU for SiLU", "silu_mul", {"activation": gelu_tanh}),
    Variant("exp in bfloat16", "silu_mul", {"exp": lambda v: to(BF16)(exp(v))}),
    Variant("exp in float16", "silu_mul", {"exp": lambda v: to(np.float16)(exp(v))}),
    Variant("up rounded to float8", "silu_mul", {"up": to(ml_dtypes.float8_e4m3fn)}),
    Variant("product cut to bfloat16", "silu_mul", {"product": toward_zero(BF16)}),
    Variant("scale used as its inverse, vllm#36297", "silu_mul", {"byte": lambda e: 127 - e}),
    Variant("scale byte off by one", "silu_mul", {"byte": lambda e: e + 128}),
    Variant("amax of x", "silu_mul", {"gate": _KEPT.keep, "amax": _KEPT.amax}),
    Variant("amax of the block before", "silu_mul", {"amax": lambda b: np.roll(DEFAULTS["amax"](b), 1, axis=1)}),
    Variant("amax without abs", "silu_mul", {"amax": lambda b: np.maximum(b.max(axis=2, keepdims=True), 0)}),
    Variant("amax of even lanes", "silu_mul", {"amax": lambda b: np.abs(b[..., ::2]).max(axis=2, keepdims=True)}),
    Variant("amax of the first 31 lanes", "silu_mul", {"amax": lambda b: np.abs(b[..., :31]).max(axis=2, keepdims=True)}),
    Variant("amax of the row", "silu_mul", {"amax": lambda b: np.repeat(np.abs(b).max(axis=(1, 2), keepdims=True), b.shape[1], axis=1)}),
    Variant("subnormal products flushed", "silu_mul", {"product": flush}),
    Variant("subnormal codes flushed", "silu_mul", {"codes": lambda c: np.where(c & 0x78, c, c & 0x80)}),
    Variant("codes cut", "silu_mul", {"encode": encode_cut}),
    Variant("ties away from zero", "hadamard-16", {"encode": encode_away}),
    Variant("codes not clamped", "silu_mul", {
        "encode": lambda b, e: np.ldexp(b.astype(np.float64), -e).astype(ml_dtypes.float8_e4m3fn)}),
    Variant("NaN dropped", "silu_mul", {"multiply": lambda a, up: np.where(np.isnan(a * up), 0, a * up)}),
    Variant("scales of transposed blocks", "silu_mul", {"scales": lambda s: np.ascontiguousarray(s.T).reshape(s.shape)}),
    Variant("gate not clamped", "swiglu_oai", {"clamp_gate": same}),
    Variant("gate clamped below, too", "swiglu_oai", {"clamp_gate": lambda x: np.clip(x, F32(-7), F32(7))}),
    Variant("up clamped above alone", "swiglu_oai", {"clamp_up": lambda x: np.minimum(x, F32(7))}),
    Variant("limit 6", "swiglu_oai", {"clamp_gate": lambda x: np.minimum(x, F32(6)), "clamp_up": lambda x: np.clip(x, F32(-6), F32(6))}),
    Variant("up without + 1", "swiglu_oai", {"one": 0}),
    Variant("alpha 1", "swiglu_oai", {"alpha": 1}),
    Variant("alpha 1.7", "swiglu_oai", {"alpha": 1.7}),
    Variant("eps outside the root", "rmsnorm", {"rsqrt": lambda m, eps: 1 / (np.sqrt(m) + eps)}),
    Variant("eps left out", "rmsnorm", {"rsqrt": lambda m, eps: 1 / np.sqrt(np.maximum(m, F32(1e-30)))}),
    Variant("eps of 1e-5", "rmsnorm", {"rsqrt": lambda m, eps: 1 / np.sqrt(m + F32(1e-5))}),
    Variant("mean over one too few", "rmsnorm", {"mean": lambda x: (x * x).sum(axis=1, keepdims=True) / F32(x.shape[1] - 1)}),
    Variant("mean over a power of two", "rmsnorm", {"mean": lambda x: (x * x).sum(axis=1, keepdims=True) / F32(1 << (x.shape[1] - 1).bit_length())}),
    Variant("weight before the norm", "rmsnorm", {"normalize": lambda x, k, eps: x, "finish": lambda y, r: normalize(
        y, SimpleNamespace(**DEFAULTS), 1e-6)}),
    Variant("mean of squares in bfloat16, aiter#5151", "rmsnorm", {"mean": lambda x: to(BF16)(DEFAULTS["mean"](x))}, "float32"),
    Variant("x cut to bfloat16, aiter#5151", "rmsnorm", {"gate": toward_zero(BF16)}, "float32"),
    Variant("squares in float16", "rmsnorm", {"mean": lambda x: to(np.float16)(x * x).sum(axis=1, keepdims=True) / F32(x.shape[1])}),
    Variant("rsqrt of 12 bits", "rmsnorm", {"rsqrt": lambda m, eps: rough(12)(1 / np.sqrt(m + eps))}),
    Variant("mean subtracted", "rmsnorm", {"gate": lambda x: x - x.mean(axis=1, keepdims=True)}),
    Variant("weight without + 1", "rmsnorm-plus1", {"weighted": lambda y, w: y * (w - 1)}),
    Variant("weight + 1 where it is whole", "rmsnorm", {"weighted": lambda y, w: y * (w + 1)}),
    Variant("residual not added", "add_rmsnorm", {"total": lambda x, r: x}),
    Variant("residual added to the result", "add_rmsnorm", {"total": lambda x, r: x, "finish": lambda y, r: y + r}),
    Variant("Hadamard not normalized", "hadamard-16", {"factor": 1}),
    Variant("Hadamard divided by its size", "hadamard-16", {"factor": 1 / 16}),
    Variant("a row of the Hadamard matrix negated", "hadamard-16", {"signs": lambda s: s * np.where(np.arange(16) == 5, -1, 1)}),
    Variant("Hadamard rows in another order", "hadamard-16", {"signs": lambda s: s[:, np.argsort((np.diff(s, axis=0) != 0).sum(axis=0))]}),
    Variant("GELU by erf where tanh is named", "gelu_tanh", {"activation": erf_gelu}, contract="any-2ulp"),
    Variant("0.0447 for 0.044715", "gelu_tanh", {"activation": lambda x, k: F32(0.5) * x * (1 + k.tanh(
        F32(0.7978845608028654) * (x + F32(0.0447) * x * x * x)))}, "float32", "any-2ulp"),
)  # fmt: skip


def render_shares() -> str:
    """The table of docs/fused.md: under each contract, of how many elements one code under one scale is legal."""
    rows = ["| contract | dtype | N(0, 1) | next to ties | next to scales |", "|---|---|--:|--:|--:|"]
    more = {"any-2ulp": RIGHT[1], "any-2ulp, RMSNorm": RIGHT[9], "any-2ulp, Hadamard": RIGHT[18], "any-2ulp, GELU by tanh": RIGHT[20]}
    for name, variant in (CONTRACTS | more).items():
        found = variant.judge()[1]
        assert found["contract"] == name.partition(",")[0], name
        labels = ("N(0, 1)", "next to ties", "maxima next to where the scale changes")
        shares = (f"{100 * found['decided'][label]:.2f} %" if label in found["decided"] else "" for label in labels)
        rows.append(f"| `{name.partition(',')[0]}`{name[len(name.partition(',')[0]) :]} | {variant.dtype} | {' | '.join(shares)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(render_shares())
