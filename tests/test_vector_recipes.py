"""Recipes: what stands in the files for inputs gives the same inputs in Python, in C++ and in the README's JavaScript."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec import exact
from mxspec.formats import BLOCKS, get_block
from mxspec.profiles import get_profile
from mxspec_vectors import verify
from mxspec_vectors.cases import DotCase, load_dot_cases, load_quantize_cases, load_scale_cases, load_scale_recipes
from mxspec_vectors.compact import expand, pack
from mxspec_vectors.document import asked, canonical_json
from mxspec_vectors.files import VectorError, file_name, parse, read_document, read_index, render, vectors_root
from mxspec_vectors.hex_runs import shorten_runs, write_out_runs
from mxspec_vectors.points import FLT_MAX, bits_value, float_bits
from mxspec_vectors.profile_table import SYMBOLS, make_table
from mxspec_vectors.recipes import BFLOAT16_KINDS, bfloat16_magnitudes, number_items, scale_bits
from mxspec_vectors.scale_table import REFUSED, ScaleTable, complete_table, find_dense_steps

from tests.support import real, rng

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "vectors" / "README.md"
EXPANDER = ROOT / "conformance" / "examples" / "cpp" / "expand.cpp"
FILES = [tuple(name.removesuffix(".json").split("/")) for name in read_index()["files"]]


def run(command: list[str], **kwargs: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **kwargs)
    assert done.returncode == 0, done.stderr
    return done.stdout


# Python


def test_scale_bits_is_the_rounded_product() -> None:
    chance = rng("scale-bits")
    edges = [0, 1, 2, 3, 0x7FFFFF, 0x800000, 0x800001, 0xFFFFFF, 0x1000000, 0x3F800000, FLT_MAX]
    pairs = [(b, e) for b in edges for e in range(-300, 301, 7)]
    pairs += [(chance.randrange(FLT_MAX), chance.randrange(-280, 281)) for _ in range(4000)]
    pairs += [(chance.randrange(1 << 24), chance.randrange(-30, 30)) for _ in range(2000)]
    for bits, exponent in pairs:
        wanted = min(float_bits(bits_value(bits) * Fraction(2) ** exponent), FLT_MAX)
        assert scale_bits(bits, exponent) == wanted, f"{bits:08x} * 2**{exponent}"


def test_digits_number_every_item() -> None:
    """The digits together are the number; scrambled ones are those of the multiples of the golden ratio."""
    for base in (3, 15, 16, 256):
        planes = [number_items(700, base, p).astype(int) for p in range(6)]
        assert sum(plane * base**p for p, plane in enumerate(planes)).tolist() == list(range(700))
        scrambled = [(n * 2654435761 % (1 << 32)) // (1 << 16) % base for n in range(70_000)]
        assert number_items(70_000, base, None).tolist() == scrambled


def test_bfloat16_kinds_are_all_magnitudes() -> None:
    found = np.concatenate([bfloat16_magnitudes(kind) for kind in BFLOAT16_KINDS])
    assert sorted(found.tolist()) == [n << 16 for n in range(1 << 15)]
    with pytest.raises(ValueError, match="kind = 'all'; allowed are finite, zero, inf, nan"):
        bfloat16_magnitudes("all")


@pytest.mark.parametrize("text", ["", "00", "0000", "ff" * 600, "00ff00", "00" * 11 + "01" * 12 + "a5", "12" * 3 + "0" * 7 + "1"])
def test_runs(text: str) -> None:
    short = shorten_runs(text)
    assert write_out_runs(short) == text
    assert len(short) <= len(text)


@pytest.mark.parametrize("text", ["0", "(00*3", "(00*)", "xx", "00(0*3)", "00 00", "00(00*3)f"])
def test_what_is_no_run_is_refused(text: str) -> None:
    with pytest.raises(VectorError, match="is neither a byte in hex nor a run of one"):
        write_out_runs(text)


def test_a_case_has_at_most_as_many_answers_as_symbols() -> None:
    case = {"id": "many", "expect": [{"profiles": [str(i)]} for i in range(63)]}
    assert make_table([{**case, "expect": case["expect"][:62]}], [str(i) for i in range(62)])["61"] == SYMBOLS[-1]
    with pytest.raises(VectorError, match="many has 63 distinct answers; a table holds 62"):
        make_table([case], [str(i) for i in range(63)])


# Scale tables


def tabulate(steps: list[tuple[int, int]]) -> Callable[[Any], Any]:
    first = np.array([s[0] for s in steps], np.int64)
    scale = np.array([s[1] for s in steps], np.int16)
    return lambda bits: scale[np.searchsorted(first, bits, side="right") - 1]


def find_table(function: Callable[[Any], Any]) -> ScaleTable:
    """The table of a function: the finite magnitudes but zero searched, the others evaluated."""
    special = function(np.array([0, 0x7F800000, 0x7FC00000])).tolist()
    finite = find_dense_steps(lambda bits: function(np.maximum(bits, 1)))
    return complete_table(finite, at_zero=special[0], at_inf=special[1], at_nan=special[2])


STEPS = {
    "constant": [(0, 7)],
    "every binade": [(0, 0), *((n << 23, n) for n in range(1, 255)), (0x7F800001, 0xFF)],
    "between bfloat16 numbers": [(0, 1), (0x3F801234, 5), (0x3F804321, 2), (0x3F80F000, 9), (0x40000001, 1)],
    "refusing": [(0, 0), (1, 3), (0x7F800000, REFUSED)],
    "refusing NaN": [(0, 0), (0x55555555, 3), (0x7F800001, REFUSED)],
    "subnormal": [(0, 0x7F), (1, 0), (3, 4), (0xFF, 5), (0x8001, 6)],
    "wraps": [(0, 250), *((n << 23, (250 + n) % 256) for n in range(1, 255))],
}


@pytest.mark.parametrize("name", STEPS)
def test_tables_hold_every_step(name: str) -> None:
    table = find_table(tabulate(STEPS[name]))
    assert list(zip(table.first.tolist(), table.scale.tolist(), strict=True)) == STEPS[name]
    entry = json.loads(json.dumps(table.as_dict()))
    back = ScaleTable.from_dict(entry, "table 0")
    assert (back.first.tolist(), back.scale.tolist()) == (table.first.tolist(), table.scale.tolist())
    answers = tabulate(STEPS[name])(np.arange(1 << 15) << 16)
    wanted = hashlib.sha256(bytes(int(a) for a in answers if a != REFUSED)).hexdigest()
    assert entry["bfloat16"] == wanted
    with pytest.raises(VectorError, match="table 0: the scale bytes of the bfloat16 maxima have another digest"):
        ScaleTable.from_dict({**entry, "bfloat16": "0" * 64}, "table 0")


@pytest.mark.parametrize("fmt", BLOCKS)
def test_bfloat16_maxima(fmt: str) -> None:
    """Four cases for each tensor scale of the scale cases; of each, sampled profiles and maxima by the exact model."""
    block, chance = get_block(fmt), rng("bfloat16", fmt)
    cases = load_scale_recipes(fmt)
    settings = list(dict.fromkeys(c.tensor for c in load_scale_cases(fmt)))
    assert [c.tensor for c in cases] == [s for s in settings for _ in range(4)]
    assert not {c.id for c in cases} & {c.id for c in load_scale_cases(fmt)}
    assert len({c.id for c in cases}) == len(cases)
    for case in cases:
        wanted = "scale-tie" if fmt == "nvfp4" else "scale-boundary"
        kind = case.id.split("-")[-2]
        assert case.topic == {"finite": wanted, "zero": "zero-block"}.get(kind, kind)
        assert all(len(scales) == len(case.amax) for scales in case.answers.values())
        for name in chance.sample(sorted(case.answers), 3):
            profile = get_profile(name, fmt)
            level = profile.one_level if case.tensor is None else profile.two_level
            assert level is not None
            places = chance.sample(range(len(case.amax)), min(len(case.amax), 2 if level.alternative else 6))
            for i in places:
                lanes = [real(int(case.amax[i]))] + [real(0)] * (block.k - 1)
                assert profile.tensor is not None or case.tensor is None
                tensor = None if case.tensor is None else real(case.tensor.bits(profile.tensor.native))  # type: ignore[union-attr]
                answer = exact.quantize_block(lanes, block, profile=profile, tensor_scale=tensor)
                assert answer.scale_code == case.answers[name][i], f"{case.id}[{i}], {name}"


def test_a_profile_that_refuses_a_maximum_is_missing() -> None:
    """gfloat takes no NaN."""
    by_kind = {c.id.split("-")[-2]: c for c in load_scale_recipes("mxfp4")}
    refusing = set(by_kind["finite"].answers) - set(by_kind["nan"].answers)
    assert "gfloat-0.5/mx" in refusing
    for name in refusing:
        with pytest.raises(ValueError, match=r"."):
            mxspec.quantize(np.full((1, 32), np.nan, np.float32), "mxfp4", profile=name)


# What is wrong is said


def change_recipe(stored: dict[str, Any], change: Callable[[list[Any]], None]) -> str:
    """Change the second case that has a recipe; returns its id."""
    case = [c for g in stored["groups"] for c in g["cases"] if "recipe" in c][1]
    change(case["recipe"])
    found: str = case["id"]
    return found


WRONG: dict[str, tuple[str, str, Callable[[list[Any]], None]]] = {
    "another block": ("quantize", "mxfp4", lambda r: r.__setitem__(1, r[1] + 1)),
    "another part": ("scale", "mxfp4", lambda r: r.__setitem__(4, r[4] + 1)),
    "another table": ("scale", "nvfp4", lambda r: r.__setitem__(1, r[1] + 1)),
    "another digit": ("layout", "nibble-low", lambda r: r.__setitem__(1, r[1] + 1)),
    "another column": ("dot", "mxfp4@mxfp4", lambda r: r[3].__setitem__(2, r[3][2] + 1)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_recipe_that_gives_something_else_is_refused(name: str) -> None:
    operation, fmt, change = WRONG[name]
    stored = parse((vectors_root() / file_name(operation, fmt)).read_bytes(), fmt)
    case = change_recipe(stored, change)
    with pytest.raises(VectorError, match=rf"^{operation}/{fmt}\.json: case {re.escape(case)}: recipe `[a-z]+ .*` gives inputs"):
        expand(stored)


@pytest.mark.parametrize(
    ("operation", "fmt"), [("quantize", "mxfp4"), ("scale", "mxfp4"), ("layout", "nibble-low"), ("dot", "nvfp4@nvfp4")]
)
def test_an_unknown_recipe_is_refused(operation: str, fmt: str) -> None:
    stored = parse((vectors_root() / file_name(operation, fmt)).read_bytes(), fmt)
    change_recipe(stored, lambda recipe: recipe.__setitem__(0, "magic"))
    with pytest.raises(VectorError, match=rf"^{operation}/{fmt}\.json"):
        expand(stored)


def test_what_is_built_is_held_to_its_recipes_and_tables() -> None:
    document = read_document("quantize", "mxint8")
    made = next(c for c in document["cases"] if "recipe" in c)
    changed = {**made, "x": made["x"][:-8] + "3f800000"}
    with pytest.raises(VectorError, match=r"quantize/mxint8\.json: case .* does not give its x"):
        render({**document, "cases": [changed]})
    document = read_document("scale", "mxint8")
    case = document["cases"][0]
    expect = [{**case["expect"][0], "scale": "a5" + case["expect"][0]["scale"][2:]}, *case["expect"][1:]]
    with pytest.raises(VectorError, match=r"scale/mxint8\.json: case .*: the tables do not give its answers"):
        render({**document, "cases": [{**case, "expect": expect}]})


@pytest.mark.parametrize(("operation", "fmt"), FILES)
def test_what_is_stored_is_what_is_read(operation: str, fmt: str) -> None:
    """Stored and written out again, with and without recipes, a document says the same."""
    document = read_document(operation, fmt)
    assert expand(pack(document)) == document
    literal = {**document, "cases": [{k: v for k, v in c.items() if k != "recipe"} for c in document["cases"]]}
    stored = pack(literal)
    assert expand(stored) == literal
    assert list(verify.validate(operation, stored)) == []


# Other languages


def answers_of(document: dict[str, Any], case: dict[str, Any]) -> list[str]:
    """The answers of a case as text, as expand.cpp writes them: of each profile, or all."""
    operation = document["operation"]
    if operation == "layout":
        return [case["expect"][0]["data"]]
    if operation == "dot":
        ends = {name: [e["low"], e["high"]] for e in case["expect"] for name in e["profiles"]}
        return ["..".join(dict.fromkeys(ends.get(name, ["-"]))) for name in document["profiles"]]
    key = {"quantize": "any", "scale": "scale", "dequantize": "values"}.get(operation)
    if key is None:
        return [canonical_json(e) for e in case["expect"]]
    found = dict.fromkeys(document["profiles"], "-")
    for entry in case["expect"]:
        for name in entry["profiles"]:
            found[name] = canonical_json(entry[key]) if operation == "quantize" else entry[key]
    return list(found.values())


def exhaustive_cases(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The cases that files do not write out, as if they did."""
    for case in load_scale_recipes(document["format"]):
        expect = [{"profiles": [name], "scale": scales.tobytes().hex()} for name, scales in case.answers.items()]
        tensor = {} if case.tensor is None else {"tensor_scale": case.tensor.as_dict()}
        yield {"id": case.id, **tensor, "amax": "".join(f"{b:08x}" for b in case.amax), "expect": expect}


def expanded_line(operation: str, fmt: str) -> str:
    """What expand.cpp prints of a file."""
    document = read_document(operation, fmt)
    cases = [*document["cases"], *(exhaustive_cases(document) if operation == "scale" else ())]
    extra = {"nan": document["nan"]} if operation == "encode" else {}
    inputs, answers = hashlib.sha256(), hashlib.sha256()
    for case in cases:
        identity = {"operation": operation, "format": fmt, **extra, **asked(case)}
        inputs.update(f"{case['id']} {canonical_json(identity)}\n".encode())
        answers.update(" ".join([case["id"], *answers_of(document, case)]).encode() + b"\n")
    return f"{operation}/{fmt}.json {len(cases)} {inputs.hexdigest()} {answers.hexdigest()}"


@pytest.fixture(scope="module")
def expander(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = next((c for c in ("c++", "g++", "clang++") if shutil.which(c)), None)
    if compiler is None:
        pytest.skip("no C++ compiler (c++, g++ or clang++) here: the example that expands recipes is not built")
    out = tmp_path_factory.mktemp("expand") / "expand"
    run([compiler, "-O1", "-std=c++17", "-Wall", "-Wextra", "-Werror", str(EXPANDER), "-o", str(out)])
    return out


def test_cpp_expands_every_file_to_the_same(expander: Path) -> None:
    lines = run([str(expander), str(vectors_root())]).splitlines()
    assert lines == [expanded_line(*file) for file in FILES]


@pytest.mark.parametrize(("operation", "fmt"), [("quantize", "mxint8"), ("scale", "mxint8"), ("layout", "awq")])
def test_cpp_refuses_a_wrong_recipe(expander: Path, tmp_path: Path, operation: str, fmt: str) -> None:
    name = file_name(operation, fmt)
    stored = parse((vectors_root() / name).read_bytes(), name)
    case = change_recipe(stored, lambda recipe: recipe.__setitem__(-1, recipe[-1] + 1))
    (tmp_path / operation).mkdir()
    data = json.dumps(stored, separators=(",", ":")).encode()
    (tmp_path / name).write_bytes(data)
    index = {"files": {name: {"sha256": hashlib.sha256(data).hexdigest()}}}
    (tmp_path / "index.json").write_text(json.dumps(index), encoding="ascii")
    done = subprocess.run([str(expander), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"{name}: case {case} is expanded to other inputs than its id stands for\n"


READ_ALL = """
const fs = require('fs'), [root, operation, format, profiles] = process.argv.slice(1);
const file = JSON.parse(fs.readFileSync(`${root}/${operation}/${format}.json`));
const found = {};
if (operation === 'quantize')
  for (const profile of profiles.split(','))
    for (const c of readCases(file, profile)) {
      const digits = c.rows[0].codes.length === c.x.length ? 1 : 2;
      const scales = numbers(c.rows[0].scale, 2), codes = numbers(c.rows[0].codes, digits), nan = code => code === 0x7f;
      for (const i of c.rows[0].nan_lanes ?? []) codes[i] = 0x7f;
      if (!accepts(c.rows, scales, codes, digits, nan)) throw `${c.id} refuses its own answer`;
      for (let i = 0; i < codes.length; i++) {
        const wrong = codes.map((code, j) => j === i ? code ^ 1 : code);
        if (c.rows.length === 1 && !c.rows[0].mask && accepts(c.rows, scales, wrong, digits, nan)) throw `${c.id} takes all`;
      }
      (found[c.id] ??= [c.shape, c.axis, c.pad, c.x]).push([profile, c.rows.map(r => r.codes)]);
    }
if (operation === 'scale')
  for (const group of [...file.groups, ...file.exhaustive.map(c => ({ ...c, cases: [c] }))])
    for (const c of group.cases) {
      const amax = c.amax ? numbers(c.amax, 8) : makeMaxima(file, group.tensor, ...c.recipe);
      const some = amax.filter((_, i) => i % Math.ceil(amax.length / 100) === 0);
      const tables = profiles.split(',').map(p => file.profiles[p][group.tensor]);
      found[c.id] = [amax.length, some, tables.map(t => t === null ? null : some.map(readTable(file.tables[t]).at))];
    }
if (operation === 'layout')
  for (const group of file.groups)
    for (const c of group.cases) found[c.id] = file.parts.map(part => makeItems(file, part, c.shape, ...c.recipe));
if (operation === 'dot') {
  const asked = JSON.parse(fs.readFileSync(profiles));
  for (const group of file.groups)
    for (const c of group.cases) found[c.id] = [makeOperands(file, c.shape, c.recipe), {}];
  for (const accumulator of Object.keys(file.profiles))
    for (const c of readProducts(file, accumulator))
      found[c.id][1][accumulator] = asked[accumulator][c.id].map(bits => allows(c.answer, bits, c.out));
}
console.log(JSON.stringify(found));
"""


def read_with_readme(tmp_path: Path, operation: str, fmt: str, profiles: list[str]) -> dict[str, Any]:
    """What the JavaScript of the README reads."""
    blocks = re.findall(r"```js\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 6
    script = tmp_path / "read.js"
    script.write_text("\n".join([*blocks, READ_ALL.replace("slice(1)", "slice(2)")]), encoding="utf-8")
    found: dict[str, Any] = json.loads(run(["node", str(script), str(vectors_root()), operation, fmt, ",".join(profiles)]))
    return found


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


@needs_node
@pytest.mark.parametrize("fmt", BLOCKS)
def test_readme_reads_quantize(tmp_path: Path, fmt: str) -> None:
    cases = load_quantize_cases(fmt)
    profiles = rng("readme", fmt).sample(read_document("quantize", fmt)["profiles"], 4)
    digits = 1 if get_block(fmt).element.bits <= 4 else 2
    wanted = {
        c.id: [
            list(c.x.shape), c.axis, c.pad, c.x.view(np.uint32).reshape(-1).tolist(),
            *([p, ["".join(f"{v:0{digits}x}" for v in row.codes) for row in c.answers[p]]] for p in profiles if p in c.answers),
        ]
        for c in cases
        if set(profiles) & set(c.answers)
    }  # fmt: skip
    assert read_with_readme(tmp_path, "quantize", fmt, profiles) == wanted


@needs_node
@pytest.mark.parametrize("fmt", ["mxfp4", "mxint8", "nvfp4"])
def test_readme_reads_scale(tmp_path: Path, fmt: str) -> None:
    profiles = rng("readme", fmt).sample(read_document("scale", fmt)["profiles"], 2)
    found = read_with_readme(tmp_path, "scale", fmt, profiles)
    cases = [*load_scale_cases(fmt), *load_scale_recipes(fmt)]
    assert list(found) == [c.id for c in cases]
    for case in cases:
        length, some, answers = found[case.id]
        step = -(-length // 100)
        assert length == len(case.amax)
        assert some == case.amax[::step].tolist()
        for profile, scales in zip(profiles, answers, strict=True):
            wanted = case.answers[profile][::step].tolist() if profile in case.answers else None
            assert scales == wanted or (wanted is None and None in scales)


@needs_node
@pytest.mark.parametrize("name", ["nibble-low", "fp6-le", "128x4", "ggml-nvfp4", "marlin", "ct-int3"])
def test_readme_reads_layouts(tmp_path: Path, name: str) -> None:
    document = read_document("layout", name)
    found = read_with_readme(tmp_path, "layout", name, [])
    assert list(found) == [c["id"] for c in document["cases"]]
    for case in document["cases"]:
        for part, items in zip(document["parts"], found[case["id"]], strict=True):
            digits = 1 if part["bits"] <= 4 else 2
            assert "".join(f"{i:0{digits}x}" for i in items) == case[part["part"]]


def bits_of(x: Any) -> list[int]:
    found: list[int] = x.reshape(-1).view(f"u{x.dtype.itemsize}").tolist()
    return found


def outputs_of(case: DotCase, name: str) -> list[Any]:
    """Outputs that a class allows, and some that it may not: adjacent to the ends, of the other sign, NaN."""
    answer = case.answers[name]
    wide = [x.astype(np.float64) for x in (answer.low, answer.high)]
    up, down = (np.nextafter(x, x.dtype.type(s * np.inf)) for x, s in ((answer.high, 1), (answer.low, -1)))
    with np.errstate(all="ignore"):
        middle = ((wide[0] + wide[1]) / 2).astype(answer.low.dtype)
    return [answer.low, answer.high, middle, up, down, -answer.low, np.full_like(answer.low, np.nan)]


@needs_node
@pytest.mark.parametrize("pair", ["mxfp8_e5m2@mxfp8_e5m2", "float32@mxfp4", "float16@nvfp4"])
def test_readme_reads_products(tmp_path: Path, pair: str) -> None:
    document, cases = read_document("dot", pair), load_dot_cases(pair)
    asked = {
        name: {c.id: [bits_of(y) for y in outputs_of(c, name)] for c in cases if name in c.answers} for name in ("float32", "bfloat16")
    }
    for name in set(document["profiles"]) - set(asked):
        asked[name] = {c.id: [] for c in cases if name in c.answers}
    outputs = tmp_path / "outputs.json"
    outputs.write_text(json.dumps(asked), encoding="ascii")
    found = read_with_readme(tmp_path, "dot", pair, [str(outputs)])
    assert list(found) == [c["id"] for c in document["cases"]]
    for case, typed in zip(document["cases"], cases, strict=True):
        operands, judged = found[case["id"]]
        assert set(operands) == {"a", "b", "a_scales", "b_scales"} & set(case)
        for part, words in operands.items():
            digits = 2 if part.endswith("scales") else document["sides"][part]["digits"]
            assert "".join(f"{w:0{digits}x}" for w in words) == case[part], (case["id"], part)
        assert set(judged) == set(typed.answers)
        for name in {"float32", "bfloat16"} & set(judged):
            wanted = [bool(typed.answers[name].accepts(y).all()) for y in outputs_of(typed, name)]
            assert judged[name] == wanted, (case["id"], name)
            assert wanted[:2] == [True, True]


def test_recipes_leave_some_of_each_topic_to_be_read() -> None:
    """A reader that expands nothing still has blocks of each topic."""
    for fmt in BLOCKS:
        cases = read_document("quantize", fmt)["cases"]
        assert {c["topic"] for c in cases} == {c["topic"] for c in cases if "recipe" not in c}
        special = [c for c in cases if c["topic"] in ("nan", "inf", "zero-block", "zero-sign")]
        assert not any("recipe" in c for c in special)
