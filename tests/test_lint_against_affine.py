"""`mxspec lint --against` of affine integers: what libraries wrote is right, and each planted fault is named and explains all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxspec import affine
from mxspec.affine.checkpoints import quantize_affine
from mxspec_conformance.lint import RULES, Departure, LintResult, Severity, lint
from mxspec_conformance.lint.against import Basis

from tests.containers.build import FILES, rewrite, split_safetensors
from tests.test_containers_affine import LIBRARIES, WRITTEN
from tests.test_lint_against import array, departures, draw, edit, exchange, judged, save

N, K = 64, 128
D = Departure
Change = Callable[[Callable[[str], memoryview]], None]
FORMATS = {
    "gptq": "int4-g32-zero-float16", "gptq-v2": "int4-g32-zero-float16", "awq": "int4-g32-zero-float16",
    "pack-quantized": "int4-g32-zero-bfloat16", "mlx-affine": "int4-g32-bias-bfloat16",
}  # fmt: skip


def make(
    folder: Path, convention: str, *, fmt: str | None = None, profile: str | None = None, count: int = 1, rows: int = N
) -> tuple[Path, Path]:
    """A file and its original: bfloat16 weights, some groups of them not around zero."""
    plain = {f"{name}.weight": draw(seed, rows, K) for name, seed in zip("abc"[:count], range(count), strict=True)}
    original, out = save(folder / "original.safetensors", plain), folder / "x.safetensors"
    quantize_affine(original, out, fmt or FORMATS[convention], convention, profile=profile, force=True)
    return out, original


def words(name: str) -> Callable[[Callable[[str], memoryview]], Any]:
    return lambda view: np.frombuffer(view(name), "<u4")


def permute(name: str, *places: int) -> Change:
    """Number places[i] of each word goes to place i."""

    def change(view: Callable[[str], memoryview]) -> None:
        kept = words(name)(view)
        kept[:] = sum(((kept >> np.uint32(4 * p)) & np.uint32(15)) << np.uint32(4 * i) for i, p in enumerate(places))

    return change


def swap(name: str) -> Change:
    def change(view: Callable[[str], memoryview]) -> None:
        kept = array(view(name))
        kept[:] = kept << 4 | kept >> 4

    return change


def add(name: str, nibble: int) -> Change:
    """To each nibble, modulo 16."""

    def change(view: Callable[[str], memoryview]) -> None:
        kept = array(view(name))
        low, high = ((kept & 15) + nibble) & 15, ((kept >> 4) + nibble) & 15
        kept[:] = low | high << 4

    return change


def turn(name: str, rows: int, width: int) -> Change:
    """A matrix of so many rows is stored column by column."""

    def change(view: Callable[[str], memoryview]) -> None:
        kept = np.frombuffer(view(name), f"<u{width}")
        kept[:] = kept.reshape(rows, -1).T.reshape(-1).copy()

    return change


def roll(name: str, rows: int, width: int, axis: int, by: int) -> Change:
    def change(view: Callable[[str], memoryview]) -> None:
        kept = np.frombuffer(view(name), f"<u{width}").reshape(rows, -1)
        kept[:] = np.roll(kept, by, axis=axis)

    return change


def rename_float(*names: str) -> Change:
    """The bits of a bfloat16 of the same values, in a tensor that says float16; float16's in one that says bfloat16."""

    def change(view: Callable[[str], memoryview]) -> None:
        for name in names:
            kept = np.frombuffer(view(name), "<u2")
            kept[:] = kept.view(ml_dtypes.bfloat16).astype(np.float16).view(np.uint16)

    return change


def negate(view: Callable[[str], memoryview]) -> None:
    kept = np.frombuffer(view("a.biases"), "<u2")
    kept ^= np.uint16(0x8000)


def both(*changes: Change) -> Change:
    def change(view: Callable[[str], memoryview]) -> None:
        for one in changes:
            one(view)

    return change


AWQ, INVERSE = (0, 2, 4, 6, 1, 3, 5, 7), (0, 4, 1, 5, 2, 6, 3, 7)
PLANTED: list[tuple[str, str, Change, set[Departure]]] = [
    ("nibbles", "gptq", swap("a.qweight"), {D.NIBBLES}),
    ("nibbles", "pack-quantized", swap("a.weight_packed"), {D.NIBBLES}),
    ("nibbles", "mlx-affine", swap("a.weight"), {D.NIBBLES}),
    ("nibbles", "awq", both(swap("a.qweight"), swap("a.qzeros")), {D.NIBBLES}),
    ("zero points alone", "awq", swap("a.qzeros"), {D.NIBBLES}),
    ("in order", "awq", both(permute("a.qweight", *INVERSE), permute("a.qzeros", *INVERSE)), {D.INTERLEAVE}),
    ("interleaved", "gptq", permute("a.qweight", *AWQ), {D.INTERLEAVE}),
    ("interleaved", "pack-quantized", permute("a.weight_packed", *AWQ), {D.INTERLEAVE}),
    ("of the other version", "gptq", add("a.qzeros", 1), {D.ZERO_POINT}),
    ("of the other version", "gptq-v2", add("a.qzeros", 15), {D.ZERO_POINT}),
    ("plus 3", "pack-quantized", add("a.weight_zero_point", 3), {D.ZERO_POINT}),
    ("scales by column", "gptq", turn("a.scales", K // 32, 2), {D.TRANSPOSED}),
    ("all by column", "gptq", both(turn("a.scales", K // 32, 2), turn("a.qzeros", K // 32, 4), turn("a.qweight", K // 8, 4)), {D.TRANSPOSED}),
    ("scales by column", "mlx-affine", both(turn("a.scales", N, 2), turn("a.biases", N, 2)), {D.TRANSPOSED}),
    ("the next group", "awq", both(roll("a.scales", K // 32, 2, 0, 1), roll("a.qzeros", K // 32, 4, 0, 1)), {D.GROUP}),
    ("the group before", "mlx-affine", both(roll("a.scales", N, 2, 1, -1), roll("a.biases", N, 2, 1, -1)), {D.GROUP}),
    ("float16 in bfloat16", "mlx-affine", rename_float("a.scales", "a.biases"), {D.DTYPE}),
    ("two's complement", "pack-quantized", add("a.weight_packed", 8), {D.COMPLEMENT}),
    ("sign", "mlx-affine", negate, {D.SIGN}),
    ("two at once", "gptq-v2", both(swap("a.qweight"), add("a.qzeros", 1)), {D.NIBBLES, D.ZERO_POINT}),
]  # fmt: skip


@pytest.mark.parametrize("name", LIBRARIES)
def test_files_of_the_libraries_follow_from_their_original(name: str) -> None:
    """Every element, from weights that the libraries were given: nothing of it is ours."""
    result = lint(WRITTEN / name / "model.safetensors", against=FILES / "original.safetensors")
    assert {f.rule.id for f in result.findings} <= {"against/missing", "int4/lowest"}
    assert departures(result) == [(), ()]
    assert result.comparison is not None
    assert all(e.agreement.complete for e in result.comparison.explanations)
    if name.startswith("mlx"):
        assert {e.hypothesis.profile for e in result.comparison.explanations} == {"mlx-0.32/affine/cpu"}
        assert {e.hypothesis.basis for e in result.comparison.explanations} == {Basis.PROFILE}


@pytest.mark.parametrize("convention", FORMATS)
def test_what_follows_a_profile_is_clean(convention: str, tmp_path: Path) -> None:
    fmt = affine.get_affine(FORMATS[convention])
    for profile in affine.list_affine_profiles(fmt):
        if convention == "gptq" and profile.id.startswith("awq/"):
            continue  # zero points of 0, for which it has no form
        path, original = make(tmp_path, convention, profile=profile.id)
        assert judged(path, original) == []
        result = lint(path, against=original, profile=profile.id)
        assert [f for f in result.findings if f.rule.id.split("/")[0] in ("against", "contract")] == []
        assert result.comparison is not None
        (found,) = result.comparison.explanations
        assert (found.hypothesis.basis, found.agreement.agreeing) == (Basis.PROFILE, N * K)


@pytest.mark.parametrize(("what", "convention", "change", "due"), PLANTED, ids=[f"{w}-{c}" for w, c, *_ in PLANTED])
def test_planted_fault_is_named_and_explains_every_element(
    what: str, convention: str, change: Change, due: set[Departure], tmp_path: Path
) -> None:
    path, original = make(tmp_path, convention)
    if D.DTYPE in due:  # what a quantizer with float16 scales gives, in a file that says bfloat16
        half, _ = make(tmp_path, convention, fmt="int4-g32-bias-float16")
        table, data = split_safetensors(half)
        for name in ("a.scales", "a.biases"):
            table[name]["dtype"] = "BF16"
        table["__metadata__"] = {}
        path = rewrite(half, table, data)
    else:
        edit(path, change)
    result = lint(path, against=original, formats=[FORMATS[convention]])
    assert set(departures(result)[0]) == due
    assert result.comparison is not None
    (found,) = result.comparison.explanations
    assert found.agreement.complete
    assert found.as_stored.agreeing < found.agreement.elements
    assert {f.rule.id for f in result.findings if f.rule.id.startswith("against/")} == {f"against/{d}" for d in due}
    assert result.exit_code == 1


def test_codes_under_scales_of_no_known_rule(tmp_path: Path) -> None:
    """Scales a tenth larger, and codes rounded under them: right as stored, and faults are found as well."""
    x, fmt = draw(0, N, K).astype(np.float32), affine.get_affine("int4-g32-zero-float16")
    path, original = make(tmp_path, "gptq-v2")
    made = affine.quantize(x, bits=4, group=32, profile="gptq/asymmetric", scale_dtype=np.float16)
    scales = (made.scales.astype(np.float32) * np.float32(1.1)).astype(np.float16)
    quotients = x.reshape(N, -1, 32) / scales[..., None].astype(np.float32) + made.offsets[..., None]
    codes = np.clip(np.rint(quotients), 0, fmt.bins).astype(np.uint8).reshape(N, K)

    def change(view: Callable[[str], memoryview]) -> None:
        np.frombuffer(view("a.scales"), "<f2")[:] = scales.T.reshape(-1)
        np.frombuffer(view("a.qweight"), "<u4")[:] = affine.pack_words(codes, 4).T.reshape(-1)

    edit(path, change)
    assert judged(path, original) == []
    assert judged(path, original, profile="gptq/asymmetric") == ["against/profile"]
    assert departures(lint(edit(path, add("a.qzeros", 1)), against=original)) == [(D.ZERO_POINT,)]
    edit(path, add("a.qzeros", 15))
    assert departures(lint(edit(path, permute("a.qweight", *AWQ)), against=original)) == [(D.INTERLEAVE,)]


@pytest.mark.parametrize(("suffixes", "due"), [
    ((".qweight", ".scales", ".qzeros"), D.OTHER), ((".qweight",), D.OTHER_CODES),
])  # fmt: skip
def test_another_tensor(suffixes: tuple[str, ...], due: Departure, tmp_path: Path) -> None:
    path, original = make(tmp_path, "gptq-v2", count=2)
    result = lint(edit(path, exchange(*suffixes)), against=original)
    assert departures(result)[0] == (due,)


@pytest.mark.parametrize(("first", "due"), [
    (lambda x: x.astype(ml_dtypes.bfloat16), D.CAST), (lambda x: affine.quantize(x, bits=8, group=32, profile="affine-minmax",
                                                                                  scale_dtype=np.float16).dequantize(), D.TWICE),
    (lambda x: affine.quantize(x, bits=4, group=128, offset="zero", scale_dtype=np.float16).dequantize(), D.TWICE),
])  # fmt: skip
def test_quantized_twice(first: Callable[[Any], Any], due: Departure, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((N, K)).astype(np.float32)
    save(tmp_path / "first.safetensors", {"a.weight": first(x).astype(np.float32)})
    original = save(tmp_path / "original.safetensors", {"a.weight": x})
    quantize_affine(tmp_path / "first.safetensors", tmp_path / "x.safetensors", "int4-g32-zero-float16", "gptq-v2")
    result = lint(tmp_path / "x.safetensors", against=original)
    assert departures(result) == [(due,)]
    assert result.comparison is not None
    assert result.comparison.explanations[0].agreement.complete


@pytest.mark.parametrize("rows", [N, K])
def test_columns_of_the_original(rows: int, tmp_path: Path) -> None:
    """Quantized along the other axis: of a square matrix only bits can tell."""
    path, _ = make(tmp_path, "pack-quantized", rows=rows)
    original = save(tmp_path / "turned.safetensors", {"a.weight": np.ascontiguousarray(draw(0, rows, K).T)})
    assert departures(lint(path, against=original)) == [(D.TRANSPOSED,)]


def test_an_original_of_the_reversed_shape_that_it_is_not(tmp_path: Path) -> None:
    path, _ = make(tmp_path, "gptq")
    original = save(tmp_path / "other.safetensors", {"a.weight": draw(9, K, N)})
    assert judged(path, original) == ["against/unexplained"]


def test_error_correcting_methods_are_a_note(tmp_path: Path) -> None:
    path, original = make(tmp_path, "gptq")
    moved = np.random.default_rng(5).random(N * K // 8) < 1 / 8

    def change(view: Callable[[str], memoryview]) -> None:
        kept = words("a.qweight")(view)
        kept[:] = np.where(moved & (kept & 15 < 15), kept + np.uint32(1), kept)

    assert judged(edit(path, change), original) == ["against/differs"]
    assert RULES["against/differs"].severity is Severity.NOTE
    assert judged(edit(path, swap("a.qweight")), original) == ["against/nibbles"]


def test_the_contract_is_held_to(tmp_path: Path) -> None:
    path, original = make(tmp_path, "gptq-v2", profile="gptq/symmetric")

    def change(view: Callable[[str], memoryview]) -> None:
        view("a.qweight")[0] ^= 1

    found: LintResult = lint(edit(path, change), against=original)
    assert "contract/bits" in {f.rule.id for f in found.findings}
