"""Fused quantizers: contracts are told apart, wrong kernels are found, right ones are not accused, on every transport."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal, localcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxspec
from mxspec.acceptance import fold_zeros
from mxspec.arrays import ceil_pow2
from mxspec.formats import get_block
from mxspec.fused.contracts import FAST, Contract, Form, list_contracts
from mxspec.fused.enclosures import Interval, enclose_erf, enclose_exp, enclose_tanh, make_point
from mxspec.fused.evaluating import compute, evaluate
from mxspec.fused.functions import FUNCTIONS
from mxspec.fused.legality import judge_answer
from mxspec_conformance import check
from mxspec_conformance.judge.fused.judging import judge_fused, list_topics
from mxspec_conformance.judge.wanted import Wanted
from mxspec_conformance.results.report import GOOD, Requirement, Verdict
from mxspec_conformance.transports.abi import header_path
from mxspec_conformance.transports.opening import open_target

from tests.fused_kernels import CONTRACTS, F32, FORMAT, RIGHT, WRONG, Variant, render_shares
from tests.support import rng

RNG = np.random.default_rng(rng("fused").getrandbits(64))
ARGUMENTS = (0.0, -0.0, 1e-300, -1e-10, 0.25, -0.25, 0.2500001, 19.999, 20.001, 5.999, 6.001, 88.8, -104.0, 699.9, -699.9)


def list_unmet(requirements: list[Requirement]) -> dict[str, Verdict]:
    return {r.topic: r.verdict for r in requirements if r.verdict not in GOOD}


def test_enclosures_hold_what_60_digits_give() -> None:
    z = np.concatenate([RNG.normal(0, 8, 600), RNG.uniform(-699, 699, 200), ARGUMENTS])
    with localcontext() as context:
        context.prec = 60

        def erf(x: Decimal) -> Decimal:
            """The alternating series of erf, which loses no more than 20 of the digits here."""
            total, term, n = Decimal(0), x, 0
            while abs(term) > Decimal(10) ** -45 or n < 40:
                total += term / (2 * n + 1)
                n += 1
                term = -term * x * x / n
            return 2 * total / Decimal("3.14159265358979323846264338327950288419716939937510582").sqrt()

        for name, enclose, exactly in (
            ("exp", enclose_exp, Decimal.exp),
            ("tanh", enclose_tanh, lambda d: 1 - 2 / (1 + (2 * d).exp())),
            ("erf", enclose_erf, lambda d: erf(d) if abs(d) < 6 else Decimal(math.copysign(1, d))),
        ):
            found = enclose(make_point(z))
            for x, low, high in zip(z.tolist(), found.lo.tolist(), found.hi.tolist(), strict=True):
                true = exactly(Decimal(x))
                assert Decimal(low) <= true <= Decimal(high), (name, x)
                assert Decimal(high) - Decimal(low) < max(abs(true), 1 if name != "exp" else 0) * Decimal(2) ** -40


@pytest.mark.parametrize(
    ("fmt", "profile"), [("mxfp4", "mx-even"), ("mxfp8_e4m3", "mx-rceil"), ("mxint8", "mx-floor"), ("nvfp4", "nvfp4-exact")]
)
def test_what_is_legal_is_what_some_number_of_the_interval_gives(fmt: str, profile: str) -> None:
    """Against the array model, for every float32 between the ends."""
    block, rule = get_block(fmt), mxspec.get_profile(profile, fmt)
    y = RNG.normal(size=(40, block.k)).astype(np.float32)
    y[:20, 0] = 2.0 ** RNG.integers(-3, 3, 20) * 2  # maxima where scales change
    steps = [y]
    for _ in range(4):
        steps.append(np.nextafter(steps[-1], np.float32(np.inf)))
    interval = Interval(steps[0].astype(np.float64), steps[-1].astype(np.float64))
    result = interval, interval
    many = [mxspec.quantize(s, fmt, profile=profile) for s in steps]
    for chosen in many:
        found = judge_answer(result, chosen.scales, chosen.codes, block, rule)
        assert found.scales.all()
        assert not found.wrong.any()
        under = [mxspec.quantize(s, fmt, profile=profile, scales=chosen.scales).codes for s in steps]
        fold = fold_zeros(block.element)
        single = np.all([fold[c] == fold[under[0]] for c in under], axis=0)
        assert (found.decided_codes == single).all()
        beyond = np.max(under, axis=0) + 1
        judged = judge_answer(result, chosen.scales, beyond.astype(np.uint8), block, rule)
        assert not judged.codes[single & (y > 0) & (under[0] < block.element.max_code)].any()
    wrong = (many[0].scales + 3).astype(np.uint8)
    assert not judge_answer(result, wrong, many[0].codes, block, rule).scales.any()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_narrower_contracts_lie_in_wider_ones(function: str) -> None:
    """What correctly rounded steps give lies in the interval of any order, whatever is rounded afterwards; that interval is narrow."""
    f = FUNCTIONS[function]
    x = RNG.normal(0, 3, (8, 128)).astype(np.float32)
    given = {"x": x} | {n: x[::-1] for n in ("up", "residual") if (n == "up") * f.multiplies or (n == "residual") * f.adds}
    by_rounding: dict[Any, list[tuple[Contract, Interval]]] = {}
    for contract in list_contracts(f):
        key = tuple(contract.rounds.items()), contract.amax_unrounded
        by_rounding.setdefault(key, []).append((contract, evaluate(f, contract, given)[0]))
    for found in by_rounding.values():
        wide = found[-1][1]
        for contract, narrow in found:
            assert (narrow.lo >= wide.lo).all(), contract.name
            assert (narrow.hi <= wide.hi).all(), contract.name


def sigmoid_of(z: Any) -> Any:
    return 1 / (1 + np.exp(-z))


#: Function -> ways to compute it in float32, NumPy's exp being within 3 ulp.
WAYS: dict[str, list[Any]] = {
    "silu_mul": [
        lambda x, up: x / (1 + np.exp(-x)) * up, lambda x, up: up * (x * sigmoid_of(x)), lambda x, up: x * up / (1 + np.exp(-x)),
        lambda x, up: x * (np.exp(x) / (1 + np.exp(x))) * up,
    ],
    "swiglu_oai": [
        lambda x, up: np.minimum(x, F32(7)) * sigmoid_of(F32(1.702) * np.minimum(x, F32(7))) * (np.clip(up, F32(-7), F32(7)) + 1),
        lambda x, up: (np.clip(up, F32(-7), F32(7)) + 1) * np.minimum(x, F32(7)) / (1 + np.exp(np.minimum(x, F32(7)) * F32(-1.702))),
    ],
    "gelu_tanh": [
        lambda x, up: F32(0.5) * x * (1 + np.tanh(F32(0.7978845608) * (x + F32(0.044715) * x * x * x))),
        lambda x, up: x * sigmoid_of(F32(1.5957691216) * x * (1 + F32(0.044715) * (x * x))),
        lambda x, up: x - x / (1 + np.exp(F32(1.5957691216) * (x + F32(0.044715) * (x * x * x)))),
    ],
    "hadamard-32": [
        lambda x, up: (x.reshape(len(x), -1, 32) @ hadamard_32()).reshape(x.shape) * F32(32**-0.5),
        lambda x, up: (x.reshape(len(x), -1, 32) @ (hadamard_32() * F32(32**-0.5))).reshape(x.shape),
    ],
    "rmsnorm": [
        lambda x, up: x / np.sqrt((x * x).mean(axis=1, keepdims=True) + F32(1e-6)),
        lambda x, up: x * (1 / np.sqrt(np.cumsum(x * x, axis=1, dtype=F32)[:, -1:] * F32(1 / x.shape[1]) + F32(1e-6))),
        lambda x, up: x * (1 / np.sqrt((x * x).reshape(len(x), -1, 8).sum(axis=2).sum(axis=1, keepdims=True) / F32(x.shape[1]) + F32(1e-6))),
    ],
}  # fmt: skip


def hadamard_32() -> Any:
    return np.array([[(-1) ** (i & j).bit_count() for j in range(32)] for i in range(32)], F32)


@pytest.mark.parametrize("function", WAYS)
def test_what_float32_computes_lies_in_the_interval(function: str) -> None:
    f = FUNCTIONS[function]
    x, up = (RNG.normal(0, 1, (2000, 256)) * 2.0 ** RNG.integers(-8, 5, (2000, 1)) for _ in range(2))
    x, up = x.astype(F32), up.astype(F32)
    given = {"x": x, "up": up} if f.multiplies else {"x": x}
    value, _ = evaluate(f, Contract(form=Form.ANY, ulps=3), given)
    for number, way in enumerate(WAYS[function]):
        with np.errstate(all="ignore"):
            y = way(x, up)
        assert y.dtype == F32
        outside = ~((value.lo <= y) & (y <= value.hi))
        assert not outside.any(), (number, x[outside][:3], y[outside][:3], value.lo[outside][:3], value.hi[outside][:3])


@pytest.mark.share(10)
@pytest.mark.parametrize(
    # Of 16 bits few numbers lie so near to a threshold that an ulp of float32 shows.
    ("contract", "dtype"), [(c, d) for c in CONTRACTS for d in ("bfloat16", "float32") if d == "float32" or c != "plain-2ulp"],
)  # fmt: skip
def test_each_contract_is_named(contract: str, dtype: str) -> None:
    variant = CONTRACTS[contract]
    requirements, found = Variant(variant.name, variant.function, variant.steps, dtype).judge()
    assert (found["contract"], found["failing"], list_unmet(requirements)) == (contract, 0, {})


@pytest.mark.share(20)
@pytest.mark.parametrize("variant", RIGHT, ids=lambda v: f"{v.name}, {v.function}, {v.dtype}")
def test_right_kernels_are_not_accused(variant: Variant) -> None:
    requirements, found = variant.judge()
    assert (list_unmet(requirements), found["failing"]) == ({}, 0)


@pytest.mark.share(20)
@pytest.mark.parametrize("variant", WRONG, ids=lambda v: v.name)
def test_wrong_kernels_are_found(variant: Variant) -> None:
    failing = [r for r in variant.judge()[0] if r.verdict in (Verdict.FAIL, Verdict.DEVIATION)]
    shown = failing[0].first
    assert shown is not None
    assert {"code", "f", "contract"} <= set(shown.expected)
    assert set(shown.returned) == {"code", "scale"}


def add_in_bfloat16(squares: Any) -> Any:
    total = np.zeros((len(squares), 1), ml_dtypes.bfloat16)
    for square in squares.T:
        total[:, 0] = (total[:, 0].astype(F32) + square).astype(ml_dtypes.bfloat16)
    return total.astype(F32)


def add_halves(squares: Any) -> Any:
    while squares.shape[1] > 1:
        squares = np.pad(squares, [(0, 0), (0, squares.shape[1] % 2)])
        first, second = np.split(squares, 2, axis=1)
        squares = (first + second).astype(ml_dtypes.bfloat16).astype(F32)
    return squares


def paley(signs: Any) -> Any:
    return signs[[int(f"{i:04b}"[::-1], 2) for i in range(16)]]


#: Of each kernel what is named; "": nothing, as it does something that is like it.
NAMED = (
    (Variant("sequency", "hadamard-16", next(v for v in WRONG if v.name == "Hadamard rows in another order").steps), "sequency order"),
    (Variant("dyadic", "hadamard-16", {"signs": paley}), "dyadic order"),
    (Variant("rows from the last to the first", "hadamard-16", {"signs": lambda s: s[:, ::-1]}), ""),
    (Variant("unscaled", "hadamard-16", {"factor": 1}), "not divided by the root"),
    (Variant("in turn", "rmsnorm", {"mean": lambda x: add_in_bfloat16(x * x) / F32(x.shape[1])}), "added in bfloat16, one after the other"),
    (Variant("halves", "rmsnorm", {"mean": lambda x: add_halves(x * x) / F32(x.shape[1])}, "float32"), "the halves of a row first"),
    (Variant("from the end", "rmsnorm", {"mean": lambda x: add_in_bfloat16((x * x)[:, ::-1]) / F32(x.shape[1])}), ""),
    (
        Variant("squares", "rmsnorm", {"mean": lambda x: (x * x).astype(ml_dtypes.bfloat16).astype(F32).sum(axis=1, keepdims=True) / F32(x.shape[1])}),
        "squares are rounded to bfloat16",
    ),
    (next(v for v in WRONG if v.name.startswith("mean of squares in bfloat16")), "the mean of squares is rounded"),
    *((replace(WRONG[-1], dtype=dtype, contract=c), "by 0.0447, not") for dtype in ("bfloat16", "float16") for c in ("any-2ulp", "plain-0ulp")),
    (Variant("0.0446", "gelu_tanh", {"activation": lambda x, k: F32(0.5) * x * (1 + k.tanh(F32(0.7978845608028654) * (x + F32(0.0446) * x * x * x)))}, contract="any-2ulp"), ""),
)  # fmt: skip


@pytest.mark.parametrize(("variant", "words"), NAMED, ids=[f"{v.name}, {v.dtype} {v.contract}" for v, _ in NAMED])
def test_a_mistake_is_named_and_not_what_is_like_it(variant: Variant, words: str) -> None:
    requirements, found = variant.judge()
    assert list_unmet(requirements)
    assert words in found["as_if"]
    assert words or not found["as_if"]


def test_the_fast_contract_holds_a_factor_of_0_0447_for_every_number_in_16_bits() -> None:
    """The limit of the page: no input can part the two without a claim."""
    for dtype in (ml_dtypes.bfloat16, np.float16):
        x = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)
        x = x[np.isfinite(x)]
        contract = Contract(form=Form.ANY, ulps=FAST)
        wide, (low, high) = (evaluate(FUNCTIONS["gelu_tanh"], contract, {"x": x})[0], _enclose_gelu(x, 0.0447))
        assert (wide.lo <= low).all()
        assert (high <= wide.hi).all()


def _enclose_gelu(x: Any, cubic: float) -> tuple[Any, Any]:
    """Correctly rounded operations with another factor."""
    found = evaluate(replace(FUNCTIONS["gelu_tanh"], cubic=cubic), Contract(), {"x": x})[0]
    return found.lo, found.hi


@pytest.mark.parametrize("columns", [4096, 16384])
def test_a_long_row_of_a_norm_has_all_its_columns(columns: int) -> None:
    """A kernel that holds so many of them loses the others."""
    right = next(v for v in RIGHT if v.function == "rmsnorm").target

    def quantize_fused(x: Any, function: str, fmt: str, weight: Any = None, eps: float = 1e-6) -> Any:
        return right.quantize_fused(np.where(np.arange(x.shape[1]) < columns, x, 0).astype(x.dtype), function, fmt, weight=weight, eps=eps)

    report = check(SimpleNamespace(**vars(right) | {"quantize_fused": quantize_fused}), in_process=True)
    assert {r.topic for r in report.requirements if r.verdict not in GOOD} == {"call-size"}


def test_a_claimed_contract_is_what_counts() -> None:
    rounded = Variant("SiLU rounded to bfloat16", "silu_mul", CONTRACTS["plain-0ulp+inner-bfloat16"].steps, contract="plain-0ulp")
    assert list_unmet(rounded.judge()[0])


def test_a_profile_that_describes_a_library_is_a_deviation() -> None:
    ties = next(v for v in WRONG if v.name == "ties away from zero")
    requirements, found = ties.judge()
    assert set(list_unmet(requirements).values()) == {Verdict.DEVIATION}
    assert found["same_bits_as"].startswith("microxcaling")


def test_a_tensor_scale_and_options_are_passed() -> None:
    """NVFP4 under a tensor scale, up in an array of its own; each contract's roundings hold."""

    def quantize_fused(x: Any, function: str, fmt: str, up: Any = None, tensor_scale: float = 1.0) -> Any:
        t = mxspec.quantize(
            compute(x, function, up=up), fmt, profile="nvfp4-te", tensor_scale=mxspec.TensorScale.from_float("amax", tensor_scale)
        )
        return t.codes, t.scales

    members = {"FUSED": ["silu_mul-split-nvfp4"], "TENSOR_SCALE": "amax"}
    right = SimpleNamespace(NAME="right", VERSION="1", quantize_fused=quantize_fused, **members)
    assert check(right, only="quantize_fused/*/[iz]*").exit_code == 0
    inverse = SimpleNamespace(
        NAME="wrong",
        VERSION="1",
        quantize_fused=lambda *a, up=None, tensor_scale=1.0: quantize_fused(*a, up, 2688**2 / tensor_scale),
        **members,
    )
    assert check(inverse, only="quantize_fused/*/mixture").exit_code == 1


C_KERNEL = r"""
#include "mxspec_target.h"
#include <math.h>
#include <string.h>
int32_t mxspec_abi(void) { return MXSPEC_ABI; }
const char *mxspec_describe(void) {
    return "{\"mxspec\": 1, \"name\": \"c\", \"version\": \"1\", \"capabilities\": {\"fused\": [\"silu_mul-mxint8\"],"
           " \"functions\": {\"quantize_fused\": []}}}";
}
int32_t mxspec_quantize_fused(const mxspec_quantize_fused_call *call) {
    int64_t k = call->columns / 2;
    for (int64_t b = 0; b < call->rows * k / 32; ++b) {
        const float *row = (const float *)call->x + b / (k / 32) * call->columns;
        float y[32], amax = 0;
        int exponent, nan = 0;
        for (int i = 0; i < 32; ++i) {
            int64_t j = b % (k / 32) * 32 + i;
            y[i] = row[j] / (1 + (float)exp(-(double)row[j])) * row[MULTIPLY];
            nan |= !isfinite(y[i]);
            amax = fmaxf(amax, fabsf(y[i]));
        }
        frexpf(amax, &exponent);
        exponent = amax == 0 || exponent < -126 ? -127 : exponent - 1;
        call->scales[b] = nan ? 255 : exponent + 127;
        for (int i = 0; i < 32; ++i) {
            double q = nan ? 0 : nearbyint(ldexp(y[i], 6 - exponent));
            call->codes[32 * b + i] = (uint8_t)(int8_t)fmax(fmin(q, 127), -127);
        }
    }
    return MXSPEC_OK;
}
"""


@pytest.mark.parametrize("transport", ["library", "process"])
def test_other_transports(transport: str, tmp_path: Path) -> None:
    """A right and a wrong kernel each; requirements are those that are listed."""
    for multiply, code in (("k + j", 0), ("j", 1)):
        if transport == "library":
            source, library = tmp_path / f"{code}.c", tmp_path / f"{code}.so"
            source.write_text(C_KERNEL.replace("MULTIPLY", multiply))
            build = [
                "cc",
                "-O1",
                "-ffp-contract=off",
                "-shared",
                "-fPIC",
                "-I",
                str(header_path().parent),
                str(source),
                "-o",
                str(library),
                "-lm",
            ]
            subprocess.run(build, check=True)
            target = str(library)
        else:
            kernel = tmp_path / f"kernel{code}.py"
            steps = "" if code == 0 else ", multiply=lambda a, up: a"
            kernel.write_text(
                f"import sys\nsys.path.insert(0, {str(Path(__file__).parents[2])!r})\nfrom tests.fused_kernels import make_kernel\n"
                f"FUSED = ['silu_mul-mxfp8_e4m3']\nquantize_fused = make_kernel('silu_mul'{steps})\n"
            )
            harness = Path(__file__).parents[2] / "conformance" / "examples" / "python" / "harness.py"
            target = f"cmd:{sys.executable} {harness} {kernel}"
        report = check(target, only="quantize_fused/*" if code == 0 and transport == "library" else "quantize_fused/*/mixture")
        assert report.exit_code == code
        assert report.requirements


PAGE = (Path(__file__).parents[2] / "docs" / "fused.md").read_text("utf-8")


@pytest.mark.share(20)
def test_the_shares_of_the_page() -> None:
    assert render_shares() in PAGE


@pytest.mark.parametrize(("mistake", "code"), [(None, 0), (("np.abs(blocks).max(", "blocks.max("), 1)])
def test_the_example_of_the_page(mistake: tuple[str, str] | None, code: int, tmp_path: Path) -> None:
    kernel = PAGE.split("```python\n")[1].partition("```")[0]
    (tmp_path / "my_kernel.py").write_text(kernel.replace(*mistake) if mistake else kernel, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mxspec_conformance", "check", "my_kernel.py", "--failures", "1", "--only", "quantize_fused/*/[mpisozn]*"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    shown = PAGE.split("```\n")[2 if code == 0 else 4].rstrip().splitlines()
    assert done.returncode == code
    assert "\n".join(shown[code == 0 :]) in "\n".join(line.rstrip() for line in done.stdout.splitlines()), done.stdout


def test_every_topic_is_listed() -> None:
    for function in ("silu_mul", "rmsnorm"):
        report = check(Variant("right", function, {}).target)
        assert {r.topic for r in report.requirements} == set(list_topics(f"{function}-{FORMAT}"))


@pytest.mark.parametrize(("members", "words"), [
    ({"FUSED": ["silu-mxfp5"]}, "FUSED"), ({}, "no FUSED"), ({"FUSED": ["add_rmsnorm-mxfp4"]}, "needs the keyword residual"),
    ({"FUSED": ["silu-mxfp4"], "FUSED_CONTRACT": "exact"}, "no contract of silu"),
])  # fmt: skip
def test_what_cannot_be_declared_is_refused(members: dict[str, Any], words: str) -> None:
    with pytest.raises(Exception, match=words):
        check(SimpleNamespace(NAME="t", VERSION="1", quantize_fused=lambda x, function, fmt: None, **members))


#: Step of a kernel with float32 scales of 128 elements -> what it is by default.
FLOAT_SCALES: dict[str, Any] = {
    "halves": lambda x: np.split(x, 2, axis=1), "amax": lambda blocks: np.abs(blocks).max(axis=2, keepdims=True),
    "scale": lambda amax: np.maximum(amax, F32(1e-10)) / F32(448), "divide": lambda blocks, scale: blocks / scale, "stored": lambda s, amax: s,
}  # fmt: skip
_OWN = "silu_mul-fp8_e4m3-128-f32"


def judge_float_scales(**steps: Any) -> list[Requirement]:
    k = SimpleNamespace(**FLOAT_SCALES | steps)

    @np.errstate(all="ignore")
    def quantize_fused(x: Any, function: str, fmt: str) -> Any:
        gate, up = k.halves(x.astype(F32))
        silu = (gate / (1 + np.exp(-gate))).astype(ml_dtypes.bfloat16).astype(F32)
        blocks = (silu * up).reshape(len(x), -1, 128)
        amax = k.amax(blocks)
        scale = k.scale(amax).astype(F32)
        codes = np.clip(k.divide(blocks, scale), -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
        return codes.reshape(len(x), -1), np.ascontiguousarray(k.stored(scale, amax)[..., 0], F32)

    target = SimpleNamespace(NAME="own", VERSION="1", FUSED=[_OWN], DTYPES=["bfloat16"], quantize_fused=quantize_fused)
    return judge_fused(open_target(target), _OWN, Wanted(calls=False))[0]


@pytest.mark.parametrize(
    "steps",
    [
        {}, {"scale": lambda amax: np.maximum(amax, F32(1e-10)) * F32(1 / 448)},
        {"divide": lambda blocks, scale: blocks * (F32(1) / scale)},
        # A floor of the scale, none of amax; a power of two.
        {"scale": lambda amax: np.maximum(amax * F32(1 / 448), F32(1e-12))},
        {"scale": lambda amax: ceil_pow2((np.maximum(amax, F32(1e-10)) * F32(1 / 448)).astype(np.float64))},
    ],
)  # fmt: skip
def test_float32_scales_are_judged(steps: dict[str, Any]) -> None:
    assert not list_unmet(judge_float_scales(**steps))


@pytest.mark.parametrize(
    "steps",
    [
        {"halves": lambda x: np.split(x, 2, axis=1)[::-1]}, {"amax": lambda blocks: blocks.max(axis=2, keepdims=True)},
        {"amax": lambda blocks: np.broadcast_to(np.abs(blocks).max(axis=(1, 2), keepdims=True), (*blocks.shape[:2], 1))},
        {"scale": lambda amax: np.maximum(amax, F32(1e-10)) / F32(240)}, {"scale": lambda amax: np.maximum(amax, F32(1e-3)) / F32(448)},
        {"scale": lambda amax: np.nextafter(np.maximum(amax, F32(1e-10)) / F32(448), F32(9))}, {"stored": lambda s, amax: 1 / s},
        {"stored": lambda s, amax: amax}, {"scale": lambda amax: np.maximum(amax * F32(1 / 448), F32(1e-11))}, {"stored": lambda s, amax: s.astype(ml_dtypes.bfloat16)}, {"stored": lambda s, amax: s[::-1]},
        {"stored": lambda s, amax: s.swapaxes(0, 1).reshape(s.shape)}, {"scale": lambda amax: np.maximum(amax, F32(1e-10)) * F32(0.0022)},
        {"divide": lambda blocks, scale: (blocks / scale).astype(ml_dtypes.bfloat16)}, {"divide": lambda blocks, scale: np.trunc(blocks / scale)},
    ],
)  # fmt: skip
def test_wrong_float32_scales_are_found(steps: dict[str, Any]) -> None:
    assert list_unmet(judge_float_scales(**steps))
