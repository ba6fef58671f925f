"""Products: right kernels pass whatever OCP leaves open, wrong ones fail and are named, the smallest product shows them."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import pytest

from mxspec_conformance import Report, check
from mxspec_conformance.judge.explanation import Cause
from mxspec_conformance.judge.products.mistakes import list_mistakes
from mxspec_conformance.results.conclusion import conclude
from mxspec_conformance.results.report import Verdict
from mxspec_conformance.targets.errors import TargetError
from mxspec_lab.products.kernels import Kernel, KernelTarget, finish_float32
from mxspec_lab.products.right import NVFP4, RIGHT
from mxspec_lab.products.wrong import MX, list_wrong

from tests.witnesses import assert_wrong, shows_both

WRONG = list_wrong()
GOOD = (Verdict.PASS, Verdict.UNSUPPORTED, Verdict.OPEN)


def judge(kernel: Kernel) -> Report:
    return check(KernelTarget(kernel))


@cache
def judge_wrong(name: str) -> Report:
    return judge(next(k for k in WRONG if k.name == name))


def failing(report: Report) -> dict[str, Verdict]:
    return {r.topic: r.verdict for r in report.requirements if r.verdict not in GOOD}


@pytest.mark.parametrize("kernel", RIGHT, ids=[f"{i}-{k.name}" for i, k in enumerate(RIGHT)])
def test_right_kernels_pass_under_their_own_class(kernel: Kernel) -> None:
    report = judge(kernel)
    assert failing(report) == {}
    assert report.exit_code == 0
    assert len(report.requirements) >= 12


@pytest.mark.share(60)
@pytest.mark.parametrize("kernel", WRONG, ids=[k.name for k in WRONG])
def test_wrong_kernels_fail(kernel: Kernel) -> None:
    """Each by its witness alone; what the whole report says of some is tested below."""
    assert_wrong(kernel)


#: Wrong kernel -> what the report says of it.
NAMED = {
    "next block's scale, b": "the scale of the next block of b is used, the first one's for the last",
    "last k dropped, a": "the last k is dropped",
    "k beyond 64s dropped, b": "what lies beyond a multiple of 64 along k is dropped",
    "nibbles swapped, a": "the two nibbles of a byte are swapped on one side",
    "linear e2m1, b": "the codes of b are taken as steps of one half",
    "scale 00 is zero": "the scale code 00 of a and b is taken as zero",
    "subnormal scales flushed": "subnormal scales of a and b are taken as zero",
    "tiles read as rows": "the 128x4 tiles of b's scales are read as rows",
    "no tensor scale of a": "the tensor scale of a is ignored",
    "epilogue: bias of next": "the bias of the next column is added",
    "bfloat16 output cut": "outputs are cut, not rounded",
    "bfloat16 ties away": "outputs midway are rounded away from zero",
}


@pytest.mark.parametrize("name", NAMED)
def test_mistakes_are_named(name: str) -> None:
    report = judge_wrong(name)
    assert report.formats[0].deviations == [NAMED[name]]
    assert any(r.note == f"as if {NAMED[name]}" for r in report.requirements)


def late_bias(total: Any, scale: float, alpha: Any, beta: Any, c: Any, bias: Any, out_dtype: str) -> Any:
    y = finish_float32(total, scale, alpha, beta, c, None, out_dtype)
    return y if bias is None else (y.astype(np.float32) + bias.astype(np.float32)).astype(y.dtype)


class CutActivations(KernelTarget):
    """float32 numbers of a lose their lower 16 bits; a NaN may become an infinity by it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.OPERANDS = {"a": "float32", "b": "mxfp4"}
        self.matmul = self.multiply  # type: ignore[method-assign, assignment]

    def multiply(self, a: Any, b: Any, out_dtype: str) -> Any:
        x = (np.ascontiguousarray(a).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        with np.errstate(all="ignore"):
            return (x @ self.kernel.decode(b, "b").astype(np.float32).T).astype(np.float32)  # type: ignore[attr-defined]


class Expanded(KernelTarget):
    """Codes of b are expanded to E4M3 under one scale, 2^-6 times the largest one of the operand."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.matmul = self.multiply  # type: ignore[method-assign, assignment]

    def multiply(self, a: Any, b: Any, out_dtype: str) -> Any:
        one = 2.0 ** (int(np.where(b.scales == 0xFF, 0, b.scales).max(initial=0)) - 127 - 6)
        y = self.kernel.decode(b, "b")  # type: ignore[attr-defined]
        with np.errstate(all="ignore"):
            held = (y / one).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
            return (self.kernel.decode(a, "a") @ held.T * one).astype(np.float32)  # type: ignore[attr-defined]


OTHERS_NAMED = {
    "padded tiles": (
        lambda: KernelTarget(Kernel(name="x", product=("nvfp4/nibble-low+128x4",) * 2, read_tiles=lambda t, m, n: t.reshape(-1, -(-n // 4) * 4)[:m, :n])),
        "the 128x4 tiles of a and b's scales are read as rows, padded to four scales",
    ),
    "late bias": (
        lambda: KernelTarget(Kernel(name="x", product=NVFP4, finish=late_bias, out_dtypes=("bfloat16",))),
        "the bias is added after the sum was rounded to the output's dtype",
    ),
    "activations cut": (lambda: CutActivations(Kernel(name="x", product=MX)), "numbers of a are cut to bfloat16"),
    "scales in a row kept near": (
        lambda: KernelTarget(Kernel(name="x", product=MX, sides="b", place_scales=lambda s: np.maximum(s, s.max(1, keepdims=True).clip(15) - 15))),
        "scales of b that lie more than 15 binades below the largest of the row are taken as 2^-15 times it",
    ),
    "one scale for an operand": (
        lambda: Expanded(Kernel(name="x", product=MX)), "numbers of b are rounded to E4M3 under one scale for the operand, 2^-6 times the largest",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS_NAMED)
def test_a_mistake_is_named_in_all_that_it_spoils(name: str) -> None:
    target, words = OTHERS_NAMED[name]
    report = check(target())
    assert report.formats[0].deviations == [words]
    for requirement in report.requirements:
        if requirement.verdict not in GOOD and (name, requirement.topic) != ("activations cut", "nan"):
            assert requirement.note == f"as if {words}"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("float16 additions, not declared", "float16"), ("bfloat16 additions, not declared", "bfloat16"),
        ("13 bits below the largest exponent, not declared", "fused-f13-32"),
    ],
)  # fmt: skip
def test_another_class_is_a_deviation_and_no_failure(name: str, found: str) -> None:
    report = judge_wrong(name)
    assert set(failing(report).values()) == {Verdict.DEVIATION}
    assert {r.explained_by for r in report.requirements if r.verdict is Verdict.DEVIATION} == {found}


def test_a_coarse_class_excuses_nothing_but_additions() -> None:
    """What is dropped beyond k = 1024 lies in the interval of coarse classes; sums that are certain in them tell."""
    report = judge_wrong("k beyond 1024 dropped, b")
    assert set(failing(report).values()) == {Verdict.FAIL}


def test_the_smallest_product_is_shown() -> None:
    report = judge_wrong("last k dropped, b")
    first = next(r.first for r in report.requirements if r.topic == "identity")
    assert first is not None
    assert first.given["m x n x k"].startswith("1 x 1 x ")
    assert first.expected["why"] == "every order of additions gives it"
    assert any(step.startswith("k = 127: ") for step in first.steps)
    assert "k.matmul(" in first.snippet
    assert shows_both(first, next(k for k in WRONG if k.name == "last k dropped, b"))


def test_places_of_wrong_outputs_are_said() -> None:
    report = judge_wrong("rows beyond tiles of 128")
    first = next(r.first for r in report.requirements if r.topic == "shape")
    assert first is not None
    assert any("row 128, the whole of it" in step for step in first.steps)


class Shaped(KernelTarget):
    """Takes multiples alone, and refuses others."""

    PRODUCT_SHAPES: ClassVar[dict[str, int]] = {"m": 16, "n": 8, "k": 128}

    def __post_init__(self) -> None:
        super().__post_init__()
        inner = self.matmul

        def matmul(a: Any, b: Any, out_dtype: str) -> Any:
            (m, k), n = a.shape, b.shape[0]
            if m % 16 or n % 8 or k % 128:
                raise ValueError("not a multiple")
            return inner(a, b, out_dtype)

        self.matmul = matmul


def test_declared_shapes_are_kept() -> None:
    report = check(Shaped(Kernel(name="shaped", product=NVFP4)))
    assert failing(report) == {}
    assert not any(r.topic == "epilogue" for r in report.requirements), "nothing is asked that the signature lacks"


def test_an_unsupported_product_is_no_failure() -> None:
    target = KernelTarget(RIGHT[0])
    target.OPERANDS = [{"a": "mxfp4", "b": "mxfp4"}, {"a": "mxint8", "b": "mxfp4"}]  # type: ignore[assignment]
    inner = target.matmul

    def matmul(a: Any, b: Any, out_dtype: str) -> Any:
        if a.format == "mxint8":
            raise NotImplementedError("no int8 here")
        return inner(a, b, out_dtype)

    target.matmul = matmul  # type: ignore[method-assign]
    report = check(target)
    assert report.exit_code == 0
    assert {r.verdict for r in report.requirements if r.format == "mxint8@mxfp4"} == {Verdict.UNSUPPORTED}
    assert [conclude(f, report.requirements).text for f in report.formats] == ["conforms to float32 sums", "not supported"]


def test_a_target_that_answers_nothing_right_does_not_conform() -> None:
    class Raises(KernelTarget):
        def __post_init__(self) -> None:
            super().__post_init__()
            self.matmul = self.fail  # type: ignore[method-assign, assignment]

        def fail(self, a: Any, b: Any, out_dtype: str) -> Any:
            raise RuntimeError("no")

    assert check(Raises(RIGHT[0])).exit_code == 1


@pytest.mark.parametrize(
    ("operands", "words"),
    [
        (None, "matmul: say of what in OPERANDS"), ({"a": "mxfp4"}, "is no product"), ({"a": "mxfp5", "b": "mxfp4"}, "neither a block format"),
        ({"a": "mxfp4/nibble-lo", "b": "mxfp4"}, "which is none"), ({"a": "mxfp8_e4m3/nibble-low", "b": "mxfp4"}, "codes of 4 bits"),
        ({"a": "float32/128x4", "b": "mxfp4"}, "names a layout"), ([], "it is empty"), ({"a": "nvfp4/ggml-mxfp4", "b": "nvfp4"}, "a scale for 32"),
        ({"a": "mxfp4/gptq-v1-zeros", "b": "mxfp4"}, "holds zeros"), (7, "is no product"), ({"a": None, "b": "mxfp4"}, "a dict is no product"),
        ("mxfp4 @ mxfp4 @ mxfp4", "is no product"), ({"a": "mxfp4", "b": "mxfp4", "c": "float32"}, "a dict is no product"),
        ({"a": "mxfp4/marlin-scales-nvfp4", "b": "mxfp4"}, "has no place for some of the scales of mxfp4"),
    ],
)  # fmt: skip
def test_wrong_declarations_are_refused_in_words(operands: Any, words: str) -> None:
    target = KernelTarget(RIGHT[0])
    target.OPERANDS = operands
    with pytest.raises(TargetError, match=words):
        check(target)


def test_unknown_classes_contracts_and_shapes_are_refused() -> None:
    for name, value in (("ACCUMULATOR", "float33"), ("CONTRACT", "float8"), ("OUT_DTYPES", ["float64"])):
        target = KernelTarget(RIGHT[0])
        setattr(target, name, value)
        with pytest.raises(TargetError, match=f"{name} names"):
            check(target)
    target = KernelTarget(RIGHT[0])
    target.PRODUCT_SHAPES = {"k": 0}  # type: ignore[attr-defined]
    with pytest.raises(TargetError, match="PRODUCT_SHAPES says k of 0"):
        check(target)


def test_texts_of_mistakes_are_their_names() -> None:
    texts = Counter(m.text for m in list_mistakes())
    assert all("one side" in text for text, times in texts.items() if times > 1)
    assert Cause.PRODUCT_MISTAKE is not Cause.ACCUMULATOR


def test_the_target_of_the_page_conforms_and_its_mistake_is_named(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "products.md").read_text(encoding="utf-8")
    source = page.partition("```python\n")[2].partition("```")[0]
    path = tmp_path / "my_gemm.py"
    path.write_text(source, encoding="utf-8")
    report = check(str(path))
    assert report.exit_code == 0
    assert sum(r.cases for r in report.requirements if r.verdict is not Verdict.OPEN) == int(re.findall(r"0/([0-9]+)", page)[0])
    path.write_text(source.replace("np.repeat(s.", "np.repeat(np.roll(s, -1, axis=1)."), encoding="utf-8")
    report = check(str(path))
    (product,) = report.formats
    assert product.deviations == ["the scale of the next block of a and b is used, the first one's for the last"]
    assert next(r for r in report.requirements if r.topic == "block-scale").verdict is Verdict.FAIL
    assert report.exit_code == 1
