"""`mxspec lint --against`: each planted fault is named, with the number of elements that it explains, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

import mxspec
from mxspec import containers
from mxspec.profiles import Profile
from mxspec_conformance.cli.main import main
from mxspec_conformance.lint import RULES, Departure, LintResult, lint
from mxspec_conformance.lint.against import Basis
from mxspec_conformance.lint.against.expecting import list_suited

from tests.containers.build import FILES, LIBRARY_FILES, pack_ggml, rewrite, split_safetensors, write_safetensors

SCHEMA = json.loads((Path(__file__).resolve().parents[1] / "conformance/mxspec_conformance/schema/lint.schema.json").read_text("utf-8"))
ROWS, COLUMNS = 128, 256
Plain = npt.NDArray[Any]
Table = dict[str, Any]


def draw(seed: int, rows: int = ROWS, columns: int = COLUMNS) -> Plain:
    """bfloat16 weights, with rows and blocks of zeros."""
    x = np.random.default_rng(seed).standard_normal((rows, columns)) * 0.02
    x[3, :64] = 0
    return x.astype(ml_dtypes.bfloat16)


def save(path: Path, tensors: dict[str, Plain]) -> Path:
    names = {"bfloat16": "BF16", "float32": "F32", "float16": "F16"}
    return write_safetensors(path, {n: (names[x.dtype.name], x.shape, x.tobytes()) for n, x in tensors.items()})


def make(folder: Path, fmt: str, convention: str, *, profile: str | None = None, count: int = 1) -> tuple[Path, Path, list[Plain]]:
    """A file, the original, and its numbers: tensors named a, b, ..."""
    plain = [draw(seed) for seed in range(count)]
    original = save(folder / "original.safetensors", {f"{n}.weight": x for n, x in zip("abc", plain, strict=False)})
    form = containers.find_form(convention, fmt)
    scale = "auto" if form is not None and form.tensor_scale is not None else None
    made = {n: mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale) for n, x in zip("abc", plain, strict=False)}
    out = folder / ("x.gguf" if convention == "gguf" else "x.safetensors")
    containers.write(out, made, convention, convert=True, force=True)
    return out, original, plain


def edit(path: Path, change: Callable[[Callable[[str], memoryview]], None]) -> Path:
    """Change stored bytes in place: `change` is given a function from a tensor's name to its bytes."""
    table, data = split_safetensors(path)
    raw = bytearray(data)

    def view(name: str) -> memoryview:
        begin, end = table[name]["data_offsets"]
        return memoryview(raw)[begin:end]

    change(view)
    return rewrite(path, table, bytes(raw))


def array(view: memoryview) -> npt.NDArray[np.uint8]:
    return np.frombuffer(view, np.uint8)


def departures(result: LintResult) -> list[tuple[Departure, ...]]:
    assert result.comparison is not None
    return [e.hypothesis.departures for e in result.comparison.explanations]


def judged(path: Path, original: Path, **options: Any) -> list[str]:
    return [f.rule.id for f in lint(path, against=original, **options).findings if f.rule.id.startswith("against/")]


#: The library of each folder of files, as profiles name it.
LIBRARIES = {"modelopt": "modelopt-0.47/", "compressed-tensors": "compressed-tensors-0.20/", "mlx": "mlx-0.32/",
             "comfy-kitchen": "comfy-kitchen-0.2/"}  # fmt: skip
FORMS = [(f.convention, f.format_name) for f in containers.list_forms() if f.grid is None]


def profiles_of(fmt: str) -> list[Profile]:
    block = mxspec.get_block(fmt)
    return list_suited(block, with_tensor_scale=block.has_tensor_scale)


@pytest.mark.parametrize(("convention", "fmt"), FORMS, ids=[f"{c}-{f}" for c, f in FORMS])
def test_what_follows_the_default_profile_is_clean(convention: str, fmt: str, tmp_path: Path) -> None:
    path, original, _ = make(tmp_path, fmt, convention)
    assert judged(path, original, formats=[fmt]) == []


EVERY = [(f, p.id) for f in ("mxfp4", "nvfp4", "mxfp8_e4m3", "mxint8") for p in profiles_of(f)]


@pytest.mark.parametrize(("fmt", "profile"), EVERY, ids=[f"{f}-{p}" for f, p in EVERY])
def test_what_follows_any_profile_is_clean(fmt: str, profile: str, tmp_path: Path) -> None:
    path, original, _ = make(tmp_path, fmt, "torch-dtypes", profile=profile)
    result = lint(path, against=original)
    assert departures(result) == [()]
    assert result.comparison is not None
    (found,) = result.comparison.explanations
    assert found.agreement.agreeing == found.agreement.elements == ROWS * COLUMNS


@pytest.mark.parametrize("name", LIBRARY_FILES)
def test_files_of_the_libraries_follow_their_own_profiles(name: str) -> None:
    """Files that the libraries wrote from weights that they were given: nothing of it is ours."""
    path = FILES / name / "model.safetensors"
    result = lint(path, against=FILES / "original.safetensors")
    assert result.findings == ()
    assert result.comparison is not None
    library = next(v for k, v in LIBRARIES.items() if name.startswith(k))
    assert len(result.comparison.explanations) == 7
    for found in result.comparison.explanations:
        assert found.hypothesis.basis is Basis.PROFILE
        assert found.hypothesis.profile.startswith(library)
        assert found.agreement.complete


# Planted faults


def swap_nibbles(view: Callable[[str], memoryview]) -> None:
    codes = array(view("a.weight_packed"))
    codes[:] = codes << 4 | codes >> 4


def pair_halves(view: Callable[[str], memoryview]) -> None:
    """As ggml has them: lane j low, lane j + 16 high."""
    codes = array(view("a.weight_packed"))
    lanes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(-1, 2, 16)
    codes[:] = (lanes[:, 0] | lanes[:, 1] << 4).reshape(-1)


def swizzle(view: Callable[[str], memoryview], name: str = "a.weight_scale") -> None:
    """Scale (r, c) to byte (r % 32) * 16 + (r // 32) * 4 + c % 4 of its tile."""
    scales = array(view(name))
    rows = scales.reshape(ROWS, -1)
    tiles = rows.reshape(4, 32, -1, 4).transpose(2, 1, 0, 3)
    scales[:] = tiles.reshape(-1).copy()


def transpose(view: Callable[[str], memoryview]) -> None:
    scales = array(view("a.weight_scale"))
    scales[:] = scales.reshape(ROWS, -1).T.reshape(-1).copy()


def roll(rows: int) -> Callable[[Callable[[str], memoryview]], None]:
    """Each row gets the scales of another, the last ones those of the first."""

    def change(view: Callable[[str], memoryview]) -> None:
        scales = array(view("a.weight_scale"))
        scales[:] = np.roll(scales.reshape(ROWS, -1), rows, axis=0).reshape(-1)

    return change


def shift(by: int) -> Callable[[Callable[[str], memoryview]], None]:
    def change(view: Callable[[str], memoryview]) -> None:
        scales = array(view("a.weight_scale"))
        scales += np.uint8(by % 256)

    return change


def exchange(*suffixes: str) -> Callable[[Callable[[str], memoryview]], None]:
    """Between tensors a and b."""

    def change(view: Callable[[str], memoryview]) -> None:
        for suffix in suffixes:
            one, other = array(view(f"a{suffix}")), array(view(f"b{suffix}"))
            one[:], other[:] = other.copy(), one.copy()

    return change


def scale_by(factor: float) -> Callable[[Callable[[str], memoryview]], None]:
    def change(view: Callable[[str], memoryview]) -> None:
        kept = np.frombuffer(view("a.weight_global_scale"), "<f4")
        kept[:] = np.float32(kept[0] * np.float32(factor))

    return change


def invert(view: Callable[[str], memoryview]) -> None:
    kept = np.frombuffer(view("a.weight_global_scale"), "<f4")
    kept[:] = np.float32(1) / kept[0]


D = Departure
PLANTED: list[tuple[str, str, Callable[[Callable[[str], memoryview]], None], int, set[Departure]]] = [
    ("nibbles", "mxfp4", swap_nibbles, 1, {D.NIBBLES}),
    ("nibbles", "nvfp4", swap_nibbles, 1, {D.NIBBLES}),
    ("lanes of ggml", "mxfp4", pair_halves, 1, {D.LANES}),
    ("swizzled", "mxfp4", swizzle, 1, {D.SWIZZLE}),
    ("swizzled", "nvfp4", swizzle, 1, {D.SWIZZLE}),
    ("transposed", "mxfp4", transpose, 1, {D.TRANSPOSED}),
    ("transposed", "mxfp6_e2m3", transpose, 1, {D.TRANSPOSED}),
    ("rolled", "mxfp4", roll(1), 1, {D.ROWS}),
    ("rolled", "nvfp4", roll(-1), 1, {D.ROWS}),
    ("rolled far", "mxfp4", roll(37), 1, {D.ROWS}),
    ("plus 40", "mxfp4", shift(40), 1, {D.SHIFT}),
    ("minus 1", "mxfp4", shift(-1), 1, {D.SHIFT}),
    ("plus 2", "mxfp6_e2m3", shift(2), 1, {D.SHIFT}),
    ("inverted", "nvfp4", invert, 1, {D.INVERTED}),
    ("a third more", "nvfp4", scale_by(4 / 3), 1, {D.TENSOR_SCALE}),
    ("amax itself", "nvfp4", scale_by(1 / 2688), 1, {D.TENSOR_SCALE}),
    ("all of another", "mxfp4", exchange(".weight_packed", ".weight_scale"), 2, {D.OTHER}),
    ("all of another", "nvfp4", exchange(".weight_packed", ".weight_scale", ".weight_global_scale"), 2, {D.OTHER}),
    ("codes of another", "mxfp4", exchange(".weight_packed"), 2, {D.OTHER_CODES}),
    ("scales of another", "mxfp4", exchange(".weight_scale"), 2, {D.OTHER_CODES, D.OTHER_SCALES}),
]  # fmt: skip


@pytest.mark.parametrize(("what", "fmt", "change", "count", "due"), PLANTED, ids=[f"{w}-{f}" for w, f, *_ in PLANTED])
@pytest.mark.parametrize("profile", [None, "other"])
def test_planted_fault_is_named_and_explains_every_element(
    what: str, fmt: str, change: Any, count: int, due: set[Departure], profile: str | None, tmp_path: Path
) -> None:
    chosen = None if profile is None else "nvfp4-paper" if fmt == "nvfp4" else "mx-rceil"
    path, original, _ = make(tmp_path, fmt, "compressed-tensors", count=count, profile=chosen)
    result = lint(edit(path, change), against=original)
    assert result.comparison is not None
    for found in result.comparison.explanations:
        assert set(found.hypothesis.departures) <= due
        assert len(found.hypothesis.departures) == 1
        assert found.agreement.complete
        assert found.as_stored.agreeing < found.agreement.elements
    assert {f"against/{d}" for d in departures(result)[0]} == {
        f.rule.id for f in result.findings if f.rule.id.startswith("against/") and f.tensor == "a.weight_packed"
    }
    assert result.exit_code == 1


@pytest.mark.parametrize("count", [None, 40])
def test_block_scales_with_a_sign_are_a_finding(tmp_path: Path, count: int | None) -> None:
    """Such a byte is no scale: no profile stores it, and no element follows from it."""
    path, original, _ = make(tmp_path, "nvfp4", "compressed-tensors")

    def negate(view: Callable[[str], memoryview]) -> None:
        stored = view("a.weight_scale")[:count]
        stored[:] = (array(stored) | 0x80).tobytes()

    rules = [f.rule.id for f in lint(edit(path, negate), against=original).findings]
    assert rules == ["scale/sign", "against/differs" if count else "against/unexplained"]


def test_two_faults_at_once(tmp_path: Path) -> None:
    path, original, _ = make(tmp_path, "mxfp4", "compressed-tensors")
    edit(path, swap_nibbles)
    edit(path, swizzle)
    result = lint(edit(path, shift(3)), against=original)
    assert departures(result) == [(Departure.NIBBLES, Departure.SWIZZLE, Departure.SHIFT)]


def test_row_major_scales_in_a_file_of_tiles(tmp_path: Path) -> None:
    path, original, plain = make(tmp_path, "mxfp4", "lightx2v")
    rows = mxspec.quantize(plain[0], "mxfp4").scales

    def change(view: Callable[[str], memoryview]) -> None:
        array(view("a.weight_scale"))[:] = rows.reshape(-1)

    result = lint(edit(path, change), against=original, formats=["mxfp4"])
    assert departures(result) == [(Departure.SWIZZLE,)]


def test_one_scale_for_all_blocks_is_the_same_in_any_order(tmp_path: Path) -> None:
    """A swizzle that moves nothing is no finding."""
    x = np.full((ROWS, COLUMNS), 6, np.float32)
    x[:, 1::2] = 0.5
    original = save(tmp_path / "o.safetensors", {"a": x})
    containers.write(tmp_path / "x.safetensors", {"a": mxspec.quantize(x, "mxfp4")}, "compressed-tensors")
    assert judged(edit(tmp_path / "x.safetensors", swizzle), original) == []


FIRST = [
    ("bfloat16", lambda x: x.astype(ml_dtypes.bfloat16)),
    ("mxfp8_e4m3 by mx-floor", lambda x: mxspec.quantize(x, "mxfp8_e4m3").dequantize()),
    ("nvfp4 by nvfp4-te", lambda x: mxspec.quantize(x, "nvfp4", tensor_scale="auto").dequantize()),
    ("e4m3 without a scale", lambda x: mxspec.decode(mxspec.encode(x, "e4m3"), "e4m3")),
]


@pytest.mark.parametrize(("name", "first"), FIRST, ids=[n for n, _ in FIRST])
def test_quantized_twice(name: str, first: Any, tmp_path: Path) -> None:
    # 2^17 numbers, so that some lie where a first rounding to bfloat16 moves the second.
    x = np.random.default_rng(1).standard_normal((512, 256)).astype(np.float32)
    original = save(tmp_path / "o.safetensors", {"a": x})
    made = mxspec.quantize(first(x), "mxfp4")
    containers.write(tmp_path / "x.safetensors", {"a": made}, "compressed-tensors")
    result = lint(tmp_path / "x.safetensors", against=original)
    assert departures(result) == [(Departure.CAST,) if name == "bfloat16" else (Departure.TWICE,)]
    assert result.exit_code == (0 if name == "bfloat16" else 1)
    assert result.comparison is not None
    (found,) = result.comparison.explanations
    # Several profiles of NVFP4 agree on these numbers.
    assert found.hypothesis.between is not None
    assert found.hypothesis.between.split()[0] == name.split()[0]
    assert found.agreement.complete
    assert found.as_stored.agreeing < x.size


def test_scales_of_one_profile_and_codes_of_another(tmp_path: Path) -> None:
    x = draw(0)
    original = save(tmp_path / "o.safetensors", {"a": x})
    codes, scales = mxspec.quantize(x, "mxfp4", profile="mx-floor"), mxspec.quantize(x, "mxfp4", profile="mx-ceil")
    mixed = mxspec.BlockTensor.from_codes(codes.codes, scales.scales, "mxfp4")
    containers.write(tmp_path / "x.safetensors", {"a": mixed}, "compressed-tensors")
    result = lint(tmp_path / "x.safetensors", against=original)
    assert departures(result) == [(Departure.SCALE_RULE,)]
    assert judged(tmp_path / "x.safetensors", original) == ["against/scale-rule"]


def test_an_unknown_rule_is_right(tmp_path: Path) -> None:
    """Scales two steps above the OCP rule's, and codes rounded under them."""
    x = draw(0).astype(np.float32)
    scales = mxspec.quantize(x, "mxfp4").scales + np.uint8(2)
    values = np.ldexp(np.float32(1), scales.astype(int) - 127)
    codes = mxspec.encode(x / np.repeat(values, 32, axis=-1), "e2m1")
    original = save(tmp_path / "o.safetensors", {"a": x})
    made = mxspec.BlockTensor.from_codes(codes, scales, "mxfp4")
    containers.write(tmp_path / "x.safetensors", {"a": made}, "compressed-tensors")
    assert judged(tmp_path / "x.safetensors", original) == []
    assert judged(tmp_path / "x.safetensors", original, profile="mx-floor") == ["against/profile"]
    assert departures(lint(edit(tmp_path / "x.safetensors", swap_nibbles), against=original)) == [(Departure.NIBBLES,)]


def test_error_correcting_methods_are_a_note(tmp_path: Path) -> None:
    """A third of the codes moved by one step, as GPTQ does; with swapped nibbles that is still seen."""
    path, original, _ = make(tmp_path, "mxfp4", "compressed-tensors")
    moved = np.random.default_rng(5).random(ROWS * COLUMNS) < 1 / 3

    def change(view: Callable[[str], memoryview]) -> None:
        codes = array(view("a.weight_packed"))
        lanes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(-1)
        lanes = np.where(moved & (lanes & 7 < 7) & (lanes & 7 > 0), lanes + 1, lanes).astype(np.uint8)
        codes[:] = lanes[0::2] | lanes[1::2] << 4

    assert judged(edit(path, change), original) == ["against/differs"]
    assert lint(path, against=original).exit_code == 0
    assert judged(edit(path, swap_nibbles), original) == ["against/nibbles"]


def test_one_damaged_code_is_counted_and_placed(tmp_path: Path) -> None:
    path, original, _ = make(tmp_path, "mxfp4", "compressed-tensors")

    def change(view: Callable[[str], memoryview]) -> None:
        view("a.weight_packed")[5000] ^= 0x40

    (finding,) = [f for f in lint(edit(path, change), against=original).findings if f.rule.id.startswith("against/")]
    assert finding.rule.id == "against/differs"
    assert finding.explanation is not None
    assert finding.explanation.agreement.agreeing == ROWS * COLUMNS - 1
    assert finding.explanation.agreement.first == 10001


def test_the_wrong_original(tmp_path: Path) -> None:
    path, _, _ = make(tmp_path, "mxfp4", "compressed-tensors")
    other = save(tmp_path / "other.safetensors", {"a.weight": draw(77)})
    assert judged(path, other) == ["against/unexplained"]
    short = save(tmp_path / "short.safetensors", {"a.weight": draw(77, 64)})
    assert judged(path, short) == ["against/shape"]
    none = save(tmp_path / "none.safetensors", {"z.weight": draw(77)})
    assert judged(path, none) == ["against/missing", "against/missing"]


def test_another_profile_than_the_one_requested(tmp_path: Path) -> None:
    path, original, _ = make(tmp_path, "mxfp4", "compressed-tensors", profile="mx-rceil")
    assert judged(path, original, profile="mx-rceil") == []
    assert judged(path, original, profile="mx-floor") == ["against/profile"]
    with pytest.raises(ValueError, match="needs the original"):
        lint(path, profile="mx-floor")
    with pytest.raises(ValueError, match="unknown profile"):
        lint(path, against=original, profile="mx-flour")


def test_fused_layers_share_the_scale_of_their_maximum(tmp_path: Path) -> None:
    q, k = draw(1), draw(2) * ml_dtypes.bfloat16(0.5)
    original = save(tmp_path / "o.safetensors", {"l.q_proj.weight": q, "l.k_proj.weight": k})
    scale = mxspec.tensor_scale(np.concatenate([q, k]), "nvfp4")
    made = {f"l.{n}_proj": mxspec.quantize(x, "nvfp4", tensor_scale=scale) for n, x in (("q", q), ("k", k))}
    containers.write(tmp_path / "x.safetensors", made, "modelopt", convert=True)
    assert judged(tmp_path / "x.safetensors", original) == []

    def change(view: Callable[[str], memoryview]) -> None:
        np.frombuffer(view("l.k_proj.weight_scale_2"), "<f4")[:] *= np.float32(0.5)

    result = lint(edit(tmp_path / "x.safetensors", change), against=original)
    assert departures(result) == [(), (Departure.TENSOR_SCALE,)] or departures(result) == [(Departure.TENSOR_SCALE,), ()]


def test_other_tensors_are_compared(tmp_path: Path) -> None:
    x = draw(0)
    made = mxspec.quantize(x, "mxfp4")
    bias = np.arange(8, dtype=np.float32)
    original = save(tmp_path / "o.safetensors", {"a.weight": x, "a.bias": bias, "n": bias})
    stored: dict[str, Any] = {
        "a.weight_packed": ("U8", (ROWS, COLUMNS // 2), made.pack("nibble-low").tobytes()),
        "a.weight_scale": ("U8", made.scales.shape, made.scales.tobytes()),
        "a.bias": ("F32", (8,), bias.tobytes()),
        "n": ("BF16", (8,), bias.astype(ml_dtypes.bfloat16).tobytes()),
    }
    path = write_safetensors(tmp_path / "x.safetensors", stored)
    assert judged(path, original) == []
    stored["a.bias"] = ("F32", (8,), (bias + 1).astype(np.float32).tobytes())
    stored["n"] = ("BF16", (8,), (bias * 2).astype(ml_dtypes.bfloat16).tobytes())
    assert judged(write_safetensors(path, stored), original) == ["against/carried"] * 2


def special(name: str) -> tuple[Plain, str, dict[str, Any]]:
    x = draw(0).astype(np.float32)
    if name == "nan":
        x[5, 7], x[6, 9] = np.nan, np.inf
    elif name == "zeros":
        x[:] = 0
    elif name == "one block":
        x = x[:1, :32]
    elif name == "sparse":
        x[np.random.default_rng(1).random(x.shape) < 0.9] = 0
    elif name == "subnormal":
        x = (x * np.float32(1e-38)).astype(np.float32)
    elif name == "16 x 16":
        return x, "nvfp4", {"block": (16, 16), "tensor_scale": "auto"}
    return np.ascontiguousarray(x), "mxfp4", {}


@pytest.mark.parametrize("name", ["nan", "zeros", "one block", "sparse", "subnormal", "16 x 16"])
def test_special_numbers_and_blocks_are_clean(name: str, tmp_path: Path) -> None:
    """Among them numbers that some of the profiles tried refuse."""
    x, fmt, options = special(name)
    original = save(tmp_path / "o.safetensors", {"a": x})
    containers.write(tmp_path / "x.safetensors", {"a": mxspec.quantize(x, fmt, **options)}, "compressed-tensors", convert=True)
    assert judged(tmp_path / "x.safetensors", original) == []


def test_stochastic_rounding_is_a_note(tmp_path: Path) -> None:
    x = draw(0)
    words = np.random.default_rng(3).integers(0, 1 << 32, x.shape, np.uint32)
    original = save(tmp_path / "o.safetensors", {"a": x})
    made = mxspec.quantize(x, "mxfp4", random_bits=words)
    containers.write(tmp_path / "x.safetensors", {"a": made}, "compressed-tensors")
    assert judged(tmp_path / "x.safetensors", original) == ["against/differs"]


def test_stacks_of_experts(tmp_path: Path) -> None:
    x = np.stack([draw(1), draw(2)])
    original = save(tmp_path / "o.safetensors", {"a": x})
    containers.write(tmp_path / "x.safetensors", {"a": mxspec.quantize(x, "mxfp4")}, "gpt-oss")
    assert judged(tmp_path / "x.safetensors", original) == []

    def change(view: Callable[[str], memoryview]) -> None:
        codes = array(view("a_blocks"))
        codes[:] = codes << 4 | codes >> 4

    assert judged(edit(tmp_path / "x.safetensors", change), original) == ["against/nibbles"]
    for order, due in (("swizzle", Departure.SWIZZLE), ("transpose", Departure.TRANSPOSED)):
        containers.write(tmp_path / "x.safetensors", {"a": mxspec.quantize(x, "mxfp4")}, "gpt-oss", force=True)

        def move(view: Callable[[str], memoryview], order: str = order) -> None:
            scales = array(view("a_scales"))
            stack = scales.reshape(2, ROWS, -1)
            tiles = stack.reshape(2, 4, 32, -1, 4).transpose(0, 3, 2, 1, 4)
            scales[:] = (tiles if order == "swizzle" else stack.transpose(0, 2, 1)).reshape(-1).copy()

        assert departures(lint(edit(tmp_path / "x.safetensors", move), against=original)) == [(due,)]


def test_the_command(tmp_path: Path) -> None:
    path, original, _ = make(tmp_path, "mxfp4", "compressed-tensors", count=2)
    run = lambda *args: CliRunner().invoke(main, ["lint", *map(str, args)])  # noqa: E731
    clean = run(path, "--against", original)
    assert clean.exit_code == 0
    assert "2 compared with the original" in clean.stdout
    assert "2 mx-floor" in clean.stdout
    edit(path, swap_nibbles)
    edit(path, lambda view: np.frombuffer(view("b.weight_scale"), np.uint8).__iadd__(40))
    done = run(path, "--against", original)
    assert done.exit_code == 1
    assert max(map(len, done.stdout.splitlines())) <= 80 or str(tmp_path) in done.stdout
    document = json.loads(run(path, "--against", original, "--json").stdout)
    Draft202012Validator(SCHEMA).validate(document)
    assert [t["departures"] for t in document["results"][0]["against"]["tensors"]] == [["nibbles"], ["shift"]]
    assert run(path, "--profile", "mx-floor").exit_code == 2
    missing = run(path, "--against", tmp_path / "none")
    assert missing.exit_code == 2
    (tmp_path / "text.safetensors").write_text("no checkpoint")
    assert run(path, "--against", tmp_path / "text.safetensors").exit_code == 2


def test_every_departure_is_a_rule_and_in_the_schema() -> None:
    named = SCHEMA["$defs"]["explanation"]["properties"]["departures"]["items"]["enum"]
    assert sorted(named) == sorted(Departure)
    assert all(f"against/{d}" in RULES for d in Departure)


def test_scales_of_another_bias_without_an_original(tmp_path: Path) -> None:
    for by, rule in ((40, "scale/large"), (-40, "scale/small"), (0, None)):
        path, _, _ = make(tmp_path, "mxfp4", "compressed-tensors")
        found = [f.rule.id for f in lint(edit(path, shift(by))).findings if f.rule.id.startswith("scale/")]
        assert set(found) - {"scale/zero-block"} == ({rule} - {None})


def test_a_weight_quantized_with_the_inputs_scale_is_seen(tmp_path: Path) -> None:
    """LightX2V's notes quantize a weight with the input's tensor scale and store the weight's: the cosine says that all is well."""
    weight, taken = draw(0).astype(np.float32), 150 * draw(1).astype(np.float32)
    scales = [mxspec.tensor_scale(x, "nvfp4", "nvfp4-te") for x in (weight, taken)]
    made = mxspec.quantize(weight, "nvfp4", profile="nvfp4-te", tensor_scale=scales[1])
    stored = mxspec.BlockTensor.from_codes(made.codes, made.scales, "nvfp4", profile="nvfp4-te", tensor_scale=scales[0])
    values = stored.dequantize().astype(np.float64)
    norms = [float(np.sqrt((x.astype(np.float64) ** 2).sum())) for x in (values, weight)]
    product = float((values * weight).sum())
    assert product > 0.99 * norms[0] * norms[1]
    assert product < 0.1 * norms[1] ** 2
    path, original = tmp_path / "x.safetensors", save(tmp_path / "original.safetensors", {"a.weight": weight})
    containers.write(path, {"a": stored}, "modelopt", convert=True)
    assert [f.rule.id for f in lint(path).findings] == ["global/range"]
    result = lint(path, against=original)
    assert {"global/range", "against/unexplained"} <= {f.rule.id for f in result.findings}
    assert result.exit_code == 1


def test_what_is_not_known_is_not_compared(tmp_path: Path) -> None:
    """E5M2 weights are no plain tensors that should have been carried along."""
    x = draw(0)
    original = save(tmp_path / "o.safetensors", {"a.weight": x, "norm": x[0]})
    path = write_safetensors(
        tmp_path / "x.safetensors",
        {"a.weight": ("F8_E5M2", x.shape, mxspec.encode(x, "e5m2").tobytes()), "a.weight_scale_inv": ("F32", (1, 2), bytes(8)),
         "norm": ("BF16", x[0].shape, x[0].tobytes())},
    )  # fmt: skip
    result = lint(path, against=original)
    assert ([f.rule.id for f in result.findings], result.exit_code) == (["tensor/not-checked"], 2)


def halves_in_turn(x: Plain, heads: int) -> Plain:
    """Row j of the first half of a head, row j of its second half, row j + 1 of the first, ..."""
    size = len(x) // heads
    order = [h * size + half * (size // 2) + j for h in range(heads) for j in range(size // 2) for half in (0, 1)]
    return x[order]


#: llama.cpp's names, and those of transformers.
RENAMED = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
EXPERTS = {
    "qwen": {p: f"mlp.experts.{{}}.{p}_proj" for p in ("gate", "up", "down")},
    "mixtral": {p: f"block_sparse_moe.experts.{{}}.{w}" for p, w in (("gate", "w1"), ("up", "w3"), ("down", "w2"))},
}


def write_model(folder: Path, model: str, paired: str = "") -> tuple[Path, Path]:
    """A model of one layer in both kinds of file: the GGUF package quantizes and writes it. paired: a tensor with neighbours in one byte."""
    gguf = pytest.importorskip("gguf")
    plain, stored = {}, {}
    for seed, (name, other) in enumerate(RENAMED.items()):
        x = plain[f"model.layers.0.{other}.weight"] = draw(seed, 64, 96)
        heads = {"attn_q": 4, "attn_k": 2}.get(name, 0) if model in ("llama", "mixtral") else 0
        stored[f"blk.0.{name}.weight"] = halves_in_turn(x, heads) if heads else x
    for part, other in EXPERTS.get(model, {}).items():
        several = [draw(20 + e, 32, 64) for e in range(3)]
        plain |= {f"model.layers.0.{other.format(e)}.weight": x for e, x in enumerate(several)}
        stored[f"blk.0.ffn_{part}_exps.weight"] = np.stack(several)
    plain |= {f"model.{n}.weight": draw(9, 4, 32) for n in ("embed_tokens", "norm")} | {"lm_head.weight": draw(10, 4, 32)}
    norm = plain["model.norm.weight"].astype(np.float32) + np.float32(model == "gemma")
    writer = gguf.GGUFWriter(folder / "x.gguf", "llama")
    writer.add_uint32("llama.attention.head_count", 4)
    writer.add_uint32("llama.attention.head_count_kv", 2)
    kind = gguf.GGMLQuantizationType.MXFP4
    for name, x in stored.items():
        data = gguf.quants.quantize(x.astype(np.float32), kind)
        if name == paired:
            blocks = data.reshape(-1, 17)
            lanes = np.concatenate([blocks[:, 1:] & 15, blocks[:, 1:] >> 4], axis=1)
            blocks[:, 1:] = lanes[:, ::2] | lanes[:, 1::2] << 4
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.add_tensor("output_norm.weight", norm)
    writer.add_tensor("token_embd.weight", plain["model.embed_tokens.weight"].astype(np.float32))
    writer.add_tensor(
        "output.weight",
        gguf.quants.quantize(plain["lm_head.weight"].astype(np.float32), gguf.GGMLQuantizationType.Q8_0),
        raw_dtype=gguf.GGMLQuantizationType.Q8_0,
    )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return folder / "x.gguf", save(folder / "o.safetensors", plain)


@pytest.mark.parametrize("model", ["llama", "qwen", "mixtral", "gemma"])
def test_names_of_llama_cpp(model: str, tmp_path: Path) -> None:
    path, original = write_model(tmp_path, model)
    result = lint(path, against=original)
    assert [f.rule.id for f in result.findings] == ["tensor/not-checked"]  # the head, in Q8_0
    assert result.comparison is not None
    assert len(result.comparison.explanations) == len(RENAMED) + len(EXPERTS.get(model, {}))
    assert all(e.agreement.complete for e in result.comparison.explanations)


@pytest.mark.parametrize(("model", "name"), [("llama", "attn_q"), ("llama", "ffn_up"), ("mixtral", "ffn_down_exps")])
def test_faults_under_names_of_llama_cpp(model: str, name: str, tmp_path: Path) -> None:
    path, original = write_model(tmp_path, model, paired=f"blk.0.{name}.weight")
    found = [f for f in lint(path, against=original).findings if f.rule.id != "tensor/not-checked"]
    assert [(f.rule.id, f.tensor) for f in found] == [("against/lanes", f"blk.0.{name}.weight")]


def test_a_carried_tensor_under_a_name_of_llama_cpp(tmp_path: Path) -> None:
    path, original = write_model(tmp_path, "qwen")
    data = path.read_bytes()
    norm = draw(9, 4, 32).astype(np.float32)
    assert data.count(norm.tobytes()) == 2  # the embedding has the same numbers
    path.write_bytes(data.replace(norm.tobytes(), (norm * np.float32(2)).tobytes()))
    found = [f for f in lint(path, against=original).findings if f.rule.id != "tensor/not-checked"]
    assert [(f.rule.id, f.tensor) for f in found] == [("against/carried", n) for n in ("output_norm.weight", "token_embd.weight")]


@pytest.mark.parametrize("names", ["model.layers.0.mlp.experts.{}.up_proj.weight", "blk.0.ffn_up_exps.weight"])
def test_experts_with_a_tensor_scale_each(names: str, tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    experts = [(draw(e, 32, 128).astype(np.float32) * np.float32(e + 1)).astype(ml_dtypes.bfloat16) for e in range(3)]
    plain = {names.format(e): x for e, x in enumerate(experts)} if "{}" in names else {names: np.stack(experts)}
    original = save(tmp_path / "o.safetensors", plain)
    made = [mxspec.quantize(x, "nvfp4", profile="modelopt-0.47/nvfp4/dynamic", tensor_scale="auto") for x in experts]
    scales = [t.tensor_scale.value for t in made if t.tensor_scale is not None]
    for factor, due in ((1.0, []), (1.5, ["against/tensor-scale"])):
        writer = gguf.GGUFWriter(tmp_path / "x.gguf", "qwen3moe")
        blocks = pack_ggml(np.stack([t.codes for t in made]), np.stack([t.scales for t in made]), 16, 4)
        writer.add_tensor("blk.0.ffn_up_exps.weight", blocks, raw_dtype=gguf.GGMLQuantizationType.NVFP4)
        writer.add_tensor("blk.0.ffn_up_exps.scale", np.array([scales[0], scales[1] * factor, scales[2]], np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        result = lint(tmp_path / "x.gguf", against=original)
        assert [f.rule.id for f in result.findings] == due
        assert result.comparison is not None
        assert [e.base for e in result.comparison.explanations] == [f"blk.0.ffn_up_exps[{e}]" for e in range(3)]
