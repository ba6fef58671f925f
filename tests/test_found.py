"""What the judge itself found in libraries, read from the committed results: the facts of reports/findings.md, row by row."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec.expressions import SF, leaves
from mxspec_lab.evidence.status import REPORTS

from tests.pages.findings import list_findings, render_page


@cache
def _checks(library: str) -> dict[str, Any]:
    document = json.loads((REPORTS / f"peers/{library}.json").read_text("ascii"))
    checks: dict[str, Any] = {check["target"]["name"]: check for check in document["checks"]}
    return checks


def _requirement(library: str, target: str, name: str) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = [r for r in _checks(library)[target]["requirements"] if r["id"] == name]
    return found


@dataclass(frozen=True, slots=True)
class Found:
    """A counterexample of a report."""

    library: str
    target: str
    requirement: str
    #: A number of the case that shows it, as the report prints it.
    given: str
    #: What the judged profile has, and what the library returned.
    expected: dict[str, Any]
    returned: dict[str, Any]


FOUND = {
    "JAX, eagerly: FF for each element of a block of zeros": Found(
        "jax", "jax", "quantize/mxfp8_e4m3/zero-block", "0x00000000", *({"scale": "00", "codes": {f"lane {i}": c for i in range(32)}} for c in ("00", "ff")),
    ),
    "ONNX' reference: 01 just above 2^-127": Found(
        "onnx", "onnx", "encode/e8m0/below-tie", "0x005fffff", {"code": "00 = 5.877471754111438e-39"}, {"code": "01 = 1.1754943508222875e-38"},
    ),
    "ONNX' reference: FF for Inf": Found(
        "onnx", "onnx", "encode/e8m0/inf", "0x7f800000", {"code": "fe = 1.7014118346046923e+38"}, {"code": "ff = nan"},
    ),
    "oneDNN: NaN where E4M3 overflows": Found(
        "onednn", "onednn", "quantize/mxfp8_e4m3/overflow", "-65504.0", {"scale": "86", "codes": {"lane 9": "fe"}}, {"scale": "86", "codes": {"lane 9": "ff"}},
    ),
    "oneDNN: Inf where E5M2 overflows": Found(
        "onednn", "onednn", "quantize/mxfp8_e5m2/overflow", "-65504.0", {"scale": "7f", "codes": {"lane 9": "fb"}}, {"scale": "7f", "codes": {"lane 9": "fc"}},
    ),
    "FBGEMM: a third EVEN, 1.75 goes down": Found(
        "fbgemm", "fbgemm-even", "quantize/mxfp4/scale-boundary", "0x3fe00000 = 1.75", {"scale": "7e", "codes": {"lane 2": "06"}}, {"scale": "7d", "codes": {"lane 2": "07"}},
    ),
    "TOSA: 456 is below its step": Found(
        "tosa", "tosa", "quantize/mxfp8_e4m3/scale-boundary", "-456.0", {"scale": "80", "codes": {"lane 1": "f6"}}, {"scale": "7f", "codes": {"lane 1": "fe"}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("found", FOUND.values(), ids=FOUND)
def test_a_counterexample_shows_it(found: Found) -> None:
    requirement = _requirement(found.library, found.target, found.requirement)
    first = requirement["first"]
    assert requirement["verdict"] != "pass"
    assert found.given in json.dumps(first["given"])
    for part, wanted in (("expected", found.expected), ("returned", found.returned)):
        assert {key: first[part][key] for key in wanted} == wanted


@pytest.mark.parametrize(
    ("library", "target", "requirement"),
    [
        ("jax", "jax-jit", "quantize/mxfp8_e4m3/zero-block"),
        ("onnxruntime", "onnxruntime", "encode/e8m0/below-tie"),
        ("onnxruntime", "onnxruntime", "encode/e8m0/inf"),
    ],
)
def test_the_other_one_does_what_was_expected(library: str, target: str, requirement: str) -> None:
    assert _requirement(library, target, requirement)["verdict"] == "pass"


def test_nibbles_of_comfy_kitchen_are_named() -> None:
    (fmt,) = [f for f in _checks("comfy-kitchen")["comfy-kitchen-raw"]["formats"] if f["format"] == "nvfp4"]
    assert any("the even element lies in the high nibble" in text for text in fmt["deviations"])
    assert not any("nibble" in text for f in _checks("comfy-kitchen")["comfy-kitchen"]["formats"] for text in f["deviations"])


def _agreed(library: str, profile: str) -> int:
    """How many blocks agreed with a profile; 0 where one did not."""
    rows = [c for w in json.loads((REPORTS / f"peers/{library}.json").read_text("ascii"))["witness"] for c in w["comparisons"]]
    mine = [c for c in rows if c["profile"] == profile and c["operation"] == "quantize"]
    return 0 if any(c["different"] for c in mine) else sum(c["blocks"] for c in mine)


def test_nncf_divides_by_the_scale_before_it_is_rounded() -> None:
    """A profile that never reads the stored scale agrees in every block."""
    profile = mxspec.get_profile("nncf-3.4/nvfp4", "nvfp4")
    forms = [steps for steps in (profile.one_level, profile.two_level) if steps is not None]
    assert forms
    assert not any(SF.name in leaves(steps.scaled) for steps in forms)
    assert _agreed("nncf", profile.id) > 6000


def test_tosa_steps_above_464() -> None:
    """A profile that steps there agrees in every block."""
    fmt = "mxfp8_e4m3"
    profile = mxspec.get_profile(f"tosa-1.1/{fmt}", fmt)
    assert _agreed("tosa", profile.id) > 6000
    x = np.zeros((2, 32), np.float32)
    x[:, 0] = 464, np.nextafter(np.float32(464), np.float32(500))
    assert mxspec.quantize(x, fmt, profile=profile).scales[:, 0].tolist() == [0x7F, 0x80]


def test_the_page_lists_the_findings_as_they_are_now() -> None:
    page = (REPORTS / "findings.md").read_text("utf-8")
    assert page == render_page(page, list_findings()), "run: python -m tests.pages.findings --page reports/findings.md"
