"""What the judge asks of products at the sizes of tiles, of every scale code, and of what is added to sums."""

from __future__ import annotations

import ml_dtypes
import pytest

from mxspec.dot import ACCUMULATORS
from mxspec_conformance import check
from mxspec_conformance.judge.products.cases import ProductCase, list_cases
from mxspec_conformance.judge.products.reference import allow, refer_case
from mxspec_conformance.results.report import Verdict
from mxspec_conformance.targets.declared import describe_target
from mxspec_conformance.targets.operands import parse_product
from mxspec_lab.products.kernels import Kernel, KernelTarget
from mxspec_lab.products.kinds import KindKernel
from mxspec_lab.products.kinds_wrong import NARROW_KINDS
from mxspec_lab.products.right import UNUSUAL
from mxspec_lab.products.run import list_accused
from mxspec_lab.products.wrong import NARROW

CLASS = ACCUMULATORS["float32"]
WRONG: dict[str, Kernel | KindKernel] = {kernel.name: kernel for kernel in (*NARROW, *NARROW_KINDS)}


def cases_of(a: str, b: str, *dtypes: str) -> list[ProductCase]:
    capabilities = describe_target(KernelTarget(Kernel(name="right", product=(a, b), out_dtypes=dtypes or ("float32",))), "right")
    return list_cases(parse_product(capabilities.products[0]), capabilities, CLASS)


def test_whole_tiles_are_asked_with_certain_sums() -> None:
    shapes = [c for c in cases_of("mxfp4", "mxfp4") if c.label.endswith("few products")]
    asked = {(len(c.a.held), len(c.b.held), c.a.shape[1]) for c in shapes}
    assert {m for m, _, _ in asked} >= {8, 16, 32, 64, 128, 256, 512, 1024}
    assert {n for _, n, _ in asked} >= {8, 16, 32, 64, 128, 256, 512, 1024}
    assert {k for _, _, k in asked} >= {384, 768, 1024, 1536, 2048, 4096, 4128}
    for case in (c for c in shapes if c.a.shape[1] >= 4096):
        assert allow(refer_case(case), case, ACCUMULATORS["bfloat16"]).decided.all()


@pytest.mark.parametrize(("fmt", "codes"), [("mxfp4", 255), ("mxint8", 255), ("nvfp4", 127)])
def test_every_scale_code_decides_a_row(fmt: str, codes: int) -> None:
    (case,) = [c for c in cases_of(fmt, fmt) if c.label.startswith(f"{codes} scale codes of a")][:1]
    assert case.a.scales is not None
    assert len(set(case.a.scales.ravel().tolist())) >= codes
    sums = allow(refer_case(case), case, CLASS)
    assert sums.decided.all()


def test_what_is_added_has_every_bit_of_its_dtype() -> None:
    for dtype in ("float32", "bfloat16", "float16"):
        (first, *_) = [c for c in cases_of("mxfp4", "mxfp4", dtype) if c.label.startswith("C of every bit")]
        c = first.options["c"]
        assert c.dtype.name == dtype
        assert allow(refer_case(first), first, CLASS).decided.all()
        if dtype == "float32":
            assert (c != c.astype(ml_dtypes.bfloat16)).any()


#: One kernel of each class; all are in the kill matrix.
SAMPLE = (
    "the last is lost at m = 1024", "square scales transposed", "subnormal float16 outputs flushed", "scales in float16", "no sum below -1e30",
    "epilogue: beta in float8", "subnormal biases flushed",
)  # fmt: skip


@pytest.mark.parametrize("name", SAMPLE)
def test_a_narrow_mistake_is_found(name: str) -> None:
    assert list_accused(check(KernelTarget(WRONG[name])))


def test_flushed_float16_outputs_are_not_called_wrong_sums() -> None:
    found = list_accused(check(KernelTarget(WRONG["subnormal float16 outputs flushed"])))
    assert {r.topic: r.verdict for r in found} == dict.fromkeys(("sum", "epilogue"), Verdict.DEVIATION)


def test_an_unusual_form_passes() -> None:
    kernel = next(k for k in UNUSUAL if k.name == "epilogue in float64")
    assert not list_accused(check(KernelTarget(kernel)))
