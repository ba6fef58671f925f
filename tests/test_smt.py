"""Proofs for all inputs: each form of a function is what it says it is on samples, and scripts and mutants are well formed.

That the forms are equal on every input, a solver shows: reports/proofs/smt.json. Where one is installed, a part is solved here.
"""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec import exact
from mxspec.formats import get_block
from mxspec.profiles import get_profile
from mxspec_conformance.kits.c99 import Code, write_c99
from mxspec_lab import c99
from mxspec_lab.smt import arrayform, definition, terms
from mxspec_lab.smt.mutants import MUTANTS, Function
from mxspec_lab.smt.terms import binary, const, variable

FORMATS = ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8")
RULES = ("mx-floor", "mx-rceil", "mx-even", "mx-ceil")
REPORT = Path(__file__).resolve().parents[1] / "reports" / "proofs" / "smt.json"
AMAX, X, BYTE = variable("amax", 32), variable("x", 32), variable("scale", 8)


def sample_maxima(count: int) -> Any:
    """Magnitudes: random ones, ends of binades and of eight-bit significands with their neighbours, subnormals, what is not finite."""
    rng = np.random.default_rng(15)
    fields = np.repeat(np.arange(256, dtype=np.uint32) << 23, 5)
    ends = fields + np.tile(np.array([0, 1, 0x600000, 0x600001, 0x7FFFFF], np.uint32), 256)
    coarse = (rng.integers(0, 1 << 16, count // 4, dtype=np.uint32) << 15) + rng.integers(0, 2, count // 4, dtype=np.uint32)
    return np.concatenate(
        [ends & 0x7FFFFFFF, coarse, rng.integers(0, 1 << 31, count, dtype=np.uint32), rng.integers(0, 1 << 23, 64, dtype=np.uint32)]
    )


def sample_elements(count: int) -> tuple[Any, Any]:
    """Elements and scale bytes, most of them near each other and with few bits; the last ones far apart."""
    rng = np.random.default_rng(16)
    scales = rng.integers(0, 256, count, dtype=np.uint32)
    fields = np.clip(scales[: count // 2].astype(np.int64) + rng.integers(-9, 9, count // 2), 0, 255).astype(np.uint32) << 23
    bits = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    bits[: count // 2] = fields | bits[: count // 2] & 0x80780000 | rng.integers(0, 2, count // 2, dtype=np.uint32)
    bits[-64:], scales[-64:] = 0x50929B23, 104  # beyond a scale that no maximum gives: the header once answered 0
    return bits, scales


def exact_codes(bits: Any, scales: Any, profile: str, fmt: str) -> Any:
    """Codes of single elements by the exact model."""
    block, steps = get_block(fmt), get_profile(profile, fmt).one_level
    assert steps is not None
    codes = []
    for b, s in zip(bits.tolist(), scales.tolist(), strict=True):
        x, sf = exact.real_from_bits(b), mxspec.reals.decode_real(s, block.scale)
        if sf.nan and steps.element.under_nan_scale is not None:
            codes.append(steps.element.under_nan_scale)
            continue
        scaled = exact.evaluate(steps.scaled, {"x": x, "sf": sf}, exact.EXACT)
        codes.append(exact.encode_element(scaled, x, sf.nan, steps.element, block.element))
    return np.array(codes)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("fmt", FORMATS)
def test_scale_forms_are_the_models(fmt: str, rule: str) -> None:
    steps = get_profile(rule, fmt).one_level
    assert steps is not None
    maxima = sample_maxima(256)
    blocks = np.zeros((len(maxima), get_block(fmt).k), np.float32)
    blocks[:, 0] = maxima.view(np.float32)
    with np.errstate(all="ignore"):
        want = mxspec.quantize(blocks, fmt, profile=rule).scales.reshape(-1)
    (meant,) = terms.evaluate([definition.scale_byte(AMAX, steps, get_block(fmt))], {"amax": maxima})
    (arrays,) = terms.evaluate([arrayform.array_scale(AMAX, steps, get_block(fmt))], {"amax": maxima})
    assert (meant == want).all()
    assert (arrays == want).all()


@pytest.mark.parametrize("fmt", FORMATS)
def test_element_forms_are_the_models(fmt: str) -> None:
    steps = get_profile("mx-floor", fmt).one_level
    assert steps is not None
    bits, scales = sample_elements(768)
    want = exact_codes(bits, scales, "mx-floor", fmt)
    given = {"x": bits, "scale": scales}
    (meant,) = terms.evaluate([definition.element_code(X, BYTE, steps, get_block(fmt))], given)
    (arrays,) = terms.evaluate([arrayform.array_element(X, BYTE, steps, get_block(fmt))], given)
    assert (meant == want).all()
    assert (arrays == want).all()


def test_every_mutant_changes_one_place() -> None:
    assert len({m.id for m in MUTANTS}) == len(MUTANTS) >= 20
    texts = {fmt: write_c99([fmt]).text for fmt in sorted({m.format for m in MUTANTS})}
    for mutant in MUTANTS:
        assert mutant.apply(texts[mutant.format]) != texts[mutant.format]
    with pytest.raises(ValueError, match="0 times"):
        MUTANTS[0].apply("")


def test_terms_fold_and_print() -> None:
    a = variable("a", 8)
    assert binary("bvadd", const(250, 8), const(10, 8)).value == 4
    assert terms.ite(terms.TRUE, a, const(1, 8)) is a
    assert terms.extract(terms.concat(a, const(0, 4)), 11, 4) is a
    text = terms.write_query(binary("=", binary("bvmul", a, a), const(9, 8)), ["a note"])
    assert text.splitlines() == [
        "; a note", "(set-logic QF_BV)", "(set-option :produce-models true)", "(declare-const a (_ BitVec 8))", "(define-fun t2 () (_ BitVec 8) (bvmul a a))",
        "(define-fun t3 () Bool (= t2 #x09))", "(assert t3)", "(check-sat)",
    ]  # fmt: skip


def compiled(text: str, rows: tuple[tuple[str, str, bool], ...], folder: Path) -> ctypes.CDLL:
    """The header with its doors as a library."""
    doors = "\nvoid scales_of(int row, long n, const uint32_t *a, uint8_t *y) { long i; for (i = 0; i < n; i++) y[i] = scale_of(&mx_all[row], a[i]); }\n"
    doors += "void codes_of(int row, long n, const uint32_t *x, const uint8_t *s, uint8_t *y) { long i; for (i = 0; i < n; i++) y[i] = element_of(&mx_all[row], x[i], s[i]); }\n"
    return c99.build(Code(text + doors, rows, ()), folder, ("-std=c99", "-O1", "-w"))


@pytest.mark.parametrize("fmt", ["mxfp4", "mxint8"])
def test_the_headers_text_is_executed_as_a_compiler_does(fmt: str, tmp_path: Path) -> None:
    pytest.importorskip("pycparser")
    from mxspec_lab.smt import header

    rows = write_c99([fmt]).rows
    row = rows.index(("mx-rceil", fmt, False))
    library = compiled(header.header_text(fmt), rows, tmp_path)
    maxima, (bits, scales) = sample_maxima(64), sample_elements(1024)
    n = len(maxima)
    answers, codes = np.zeros(n, np.uint8), np.zeros(len(bits), np.uint8)
    pointer = lambda a: a.ctypes.data_as(ctypes.c_void_p)  # noqa: E731
    library.scales_of(row, ctypes.c_long(n), pointer(maxima), pointer(answers))
    narrow = scales.astype(np.uint8)
    library.codes_of(row, ctypes.c_long(len(bits)), pointer(bits), pointer(narrow), pointer(codes))
    scale, scale_open = header.header_scale("mx-rceil", fmt, AMAX)
    code, code_open = header.header_element("mx-rceil", fmt, X, BYTE)
    found, *loops = terms.evaluate([scale, *scale_open], {"amax": maxima})
    assert (found == answers).all()
    assert not np.any(loops)
    found, *loops = terms.evaluate([code, *code_open], {"x": bits, "scale": scales})
    assert (found == codes).all()
    assert not np.any(loops)
    assert (codes == exact_codes(bits, scales, "mx-rceil", fmt)).all()


def test_a_solver_proves_and_refutes() -> None:
    pytest.importorskip("pycparser")
    pytest.importorskip("bitwuzla")
    from mxspec_lab.smt.claims import list_claims, mutant_claim
    from mxspec_lab.smt.solving import Answer, solve

    claim = next(list_claims("mxfp4"))
    assert solve(claim.text(), "bitwuzla", 60).answer is Answer.UNSAT
    mutant = next(m for m in MUTANTS if m.function is Function.SCALE and m.format == "mxfp4")
    assert solve(mutant_claim(mutant).text(), "bitwuzla", 60, ("amax",)).answer is Answer.SAT


def test_the_committed_result_proves_what_the_page_says() -> None:
    if not REPORT.exists():
        pytest.skip("reports/proofs/smt.json has not been made")
    from mxspec_lab.smt.__main__ import PAGE, render

    document = json.loads(REPORT.read_text("ascii"))
    assert render(document) in PAGE.read_text("utf-8")
    assert {(r["format"], r["function"], r["form"]) for r in document["claims"]} == {
        (f, g, form) for f in FORMATS for g in ("scale", "element") for form in ("header", "arrays")
    }
    assert {p for r in document["claims"] for p in r["profiles"]} == set(RULES)
    first, *others = document["solvers"]
    assert all(r[first]["answer"] == "unsat" for r in document["claims"])
    assert others
    assert all(r[s]["answer"] != "sat" for r in document["claims"] for s in others if s in r)
