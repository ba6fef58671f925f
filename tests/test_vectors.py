"""The golden vectors: what is committed is what the model gives, in canonical bytes, with permanent ids."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import mxspec
from mxspec import exact
from mxspec.expressions import evaluate
from mxspec.formats import BLOCKS, ELEMENTS, SCALES, BlockFormat, get_block, get_scalar
from mxspec.profiles import Kind, Profile, default_profile, get_profile, list_profiles
from mxspec.reals import Real, encode_real, nan_codes
from mxspec.rounding import DETERMINISTIC, NanPolicy, Overflow, Rounding
from mxspec_vectors import build as builder, files, verify
from mxspec_vectors.build import build_all, build_document, collect_ids, list_files
from mxspec_vectors.compact import expand
from mxspec_vectors.entries import code_digits, hex_words
from mxspec_vectors.export import export, quantize_tables
from mxspec_vectors.files import VectorError, case_id, file_name, parse, read_index, render, render_stored, vectors_root
from mxspec_vectors.profile_order import list_joined
from mxspec_vectors.topics import FLAGS, TOPICS

from tests.fresh import Fresh, Stored, open_fresh
from tests.support import SIGN, ExactValues, assert_same, bits_of, floats, real, reals_of, rng, seed

FILES = list_files()
NAMES = [file_name(*f) for f in FILES]
each_file = pytest.mark.parametrize(("operation", "fmt"), FILES, ids=NAMES)

#: The whole of the vectors, in bytes.
BUDGET = 10_000_000
#: Topics of which every case is held to the exact model; of the others a sample is.
SPECIAL = ("nan", "inf", "zero-block", "zero-sign", "axis", "tail")
#: Fields of a case that its id does not depend on.
NOT_ASKED = ("id", "topic", "flags", "of", "expect", "recipe")


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    return open_fresh(tmp_path_factory)


@pytest.fixture(scope="session")
def stored() -> Stored:
    """What is committed; `test_committed_file_is_what_the_model_gives` holds it to the model."""
    return Stored()


# Files


@each_file
def test_committed_file_is_what_the_model_gives(fresh: Fresh, operation: str, fmt: str) -> None:
    committed = (vectors_root() / file_name(operation, fmt)).read_bytes()
    assert committed == fresh.data(operation, fmt), "stale: run `mxspec vectors build` and commit"


def test_committed_index_is_of_the_committed_files() -> None:
    index = read_index()
    found = {p.relative_to(vectors_root()).as_posix(): p.read_bytes() for p in vectors_root().rglob("*.json")}
    assert set(found) == {*NAMES, "index.json"} == {*index["files"], "index.json"}
    for name, entry in index["files"].items():
        assert entry["sha256"] == hashlib.sha256(found[name]).hexdigest()
        assert entry["bytes"] == len(found[name])
        document = expand(json.loads(found[name]))
        assert entry["cases"] == len(document["cases"])
        assert entry.get("exhaustive", 0) == len(document.get("exhaustive", ()))
    assert index["digest"] == files.total_digest(index["files"])


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    assert len(found) == len(pairs), f"a key stands twice among {[k for k, _ in pairs]}"
    return found


@each_file
def test_bytes_are_canonical(stored: Stored, operation: str, fmt: str) -> None:
    data = stored.data(operation, fmt)
    assert data.isascii()
    assert b"\r" not in data
    assert b"\t" not in data
    assert data.endswith(b"}\n")
    kept = json.loads(data, parse_constant=refuse, object_pairs_hook=without_twins)
    assert render_stored(kept) == data
    assert render(expand(kept)) == data
    lines = data.decode().splitlines()
    ids = [c["id"] for c in (*kept.get("exhaustive", ()), *(c for g in kept["groups"] for c in g["cases"]))]
    assert [found[1] for line in lines if (found := re.match(r',?\{"id":"([^"]+)"', line))] == ids
    assert list(kept)[:4] == ["schema", "operation", "format", "licence"]
    assert list(kept)[-1] == "groups"


@each_file
def test_schema(stored: Stored, operation: str, fmt: str) -> None:
    schema = verify.load_schema(operation)
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(stored.data(operation, fmt))
    assert [e.message for e in jsonschema.Draft202012Validator(schema).iter_errors(document)] == []
    assert (document["operation"], document["format"], document["licence"]) == (operation, fmt, "CC0-1.0")


def identity_of(case: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """The question of a case."""
    extra = {"nan": document["nan"]} if document["operation"] == "encode" else {}
    asked = {k: v for k, v in case.items() if k not in NOT_ASKED}
    return {"operation": document["operation"], "format": document["format"], **extra, **asked}


@each_file
def test_ids_are_unique_and_depend_on_the_question_alone(stored: Stored, operation: str, fmt: str) -> None:
    document = stored.document(operation, fmt)
    ids = [case["id"] for case in document["cases"]]
    assert len(set(ids)) == len(ids)
    for case in document["cases"]:
        assert case_id(case["id"][:-11], identity_of(case, document)) == case["id"]
    asked = [json.dumps(identity_of(case, document), sort_keys=True) for case in document["cases"]]
    assert len(set(asked)) == len(asked), "a question occurs twice"


@each_file
def test_topics_and_flags(stored: Stored, operation: str, fmt: str) -> None:
    document = stored.document(operation, fmt)
    used = {flag for case in document["cases"] for flag in case["flags"]}
    assert used == set(document["flags"]) or operation in ("encode", "decode", "scale", "dequantize")
    assert used <= set(document["flags"])
    assert {case["topic"] for case in document["cases"]} <= set(TOPICS)
    assert all(case["flags"] for case in document["cases"])
    for name, flag in document["flags"].items():
        assert flag == {"note": FLAGS[name].note, "source": FLAGS[name].source, "kind": FLAGS[name].kind,
                        "evidence": FLAGS[name].evidence}  # fmt: skip
        assert len(flag["note"].split()) >= 2
        assert flag["source"]


@pytest.mark.parametrize("fmt", BLOCKS)
def test_all_profiles_answer(stored: Stored, fmt: str) -> None:
    """A file of a block format holds every registered profile of it, and each answers some case."""
    registered = [p.id for p in list_profiles(fmt)]
    for operation in ("quantize", "scale", "dequantize"):
        document = stored.document(operation, fmt)
        assert document["profiles"] == [p.id for p in list_joined(fmt)]
        answering = {name for case in document["cases"] for e in case["expect"] for name in e["profiles"]}
        assert answering == set(registered)
        for case in document["cases"]:
            named = [i for e in case["expect"] for i in e["profiles"]]
            assert len(set(named)) == len(named), f"{case['id']}: a profile has two answers"


def test_every_quantize_topic_is_there(stored: Stored) -> None:
    """What the formats have in common: each topic has a case in every MX format."""
    wanted = {"tie-even", "below-tie", "above-tie", "exact", "subnormal", "overflow", "nan", "inf", "zero-block",
              "zero-sign", "scale-boundary", "scale-clamp", "position", "mixture", "axis", "tail"}  # fmt: skip
    for fmt in BLOCKS:
        topics = {case["topic"] for case in stored.document("quantize", fmt)["cases"]}
        assert wanted - topics == ({"scale-boundary"} if fmt == "nvfp4" else set())
    assert {"scale-tie", "tensor-scale"} <= {c["topic"] for c in stored.document("quantize", "nvfp4")["cases"]}


# Answers


def draw(cases: list[dict[str, Any]], count: int, *name: object) -> list[dict[str, Any]]:
    """Every case of a special topic, and a sample of the others that depends on the run's seed."""
    special = [c for c in cases if c["topic"] in SPECIAL]
    others = [c for c in cases if c["topic"] not in SPECIAL]
    return special + rng("vectors", *name).sample(others, min(count, len(others)))


def tensor_real(case: dict[str, Any], profile: Profile) -> Real | None:
    """A case's tensor scale as the profile takes it."""
    if "tensor_scale" not in case:
        return None
    assert profile.tensor is not None
    return real(int(case["tensor_scale"][profile.tensor.native.value], 16))


def exact_quantized(case: dict[str, Any], fmt: BlockFormat, profile: Profile) -> tuple[str, str]:
    """Scale bytes and codes of a case as hex, by the exact model, block by block."""
    x = floats(int(case["x"][i : i + 8], 16) for i in range(0, len(case["x"]), 8)).reshape(case["shape"])
    axis = case.get("axis", -1)
    moved = np.moveaxis(x, axis, -1)
    if case.get("pad"):
        moved = np.pad(moved, ((0, 0), (0, -moved.shape[-1] % fmt.k)))
    tensor = tensor_real(case, profile)
    codes = np.empty(moved.shape, np.uint8)
    scales = np.empty((len(moved), moved.shape[1] // fmt.k), np.uint8)
    for i, row in enumerate(moved):
        for j in range(scales.shape[1]):
            amax = None
            if "block" in case:
                first = i - i % case["block"][0]
                tile = moved[first : first + case["block"][0], j * fmt.k : (j + 1) * fmt.k]
                amax = exact.find_amax(reals_of(tile), profile.amax_nan)
            block = reals_of(row[j * fmt.k : (j + 1) * fmt.k])
            answer = exact.quantize_block(block, fmt, profile=profile, tensor_scale=tensor, amax=amax)
            scales[i, j], codes[i, j * fmt.k : (j + 1) * fmt.k] = answer.scale_code, answer.codes
    back = [np.moveaxis(a, -1, axis).reshape(-1) for a in (scales, codes)]
    return hex_words(back[0], 2), hex_words(back[1], code_digits(fmt))


def is_slow(profile: Profile) -> bool:
    """Whether the exact model must try every code, or two scales."""
    level = profile.one_level or profile.two_level
    assert level is not None
    return level.element.error is not None or level.alternative is not None


@pytest.mark.parametrize("fmt", BLOCKS)
def test_quantize_answers_are_exact(stored: Stored, fmt: str) -> None:
    """Of each distinct answer one profile, drawn by the seed; of what only slow profiles answer, one answer in eight."""
    document, block = stored.document("quantize", fmt), get_block(fmt)
    chance = rng("vectors", "profiles", fmt)
    compared = 0
    for case in draw(document["cases"], 12, "quantize", fmt):
        for entry in case["expect"]:
            known = [get_profile(name, fmt) for name in entry["profiles"]]
            quick = [p for p in known if not is_slow(p)]
            if not quick and chance.randrange(8):
                continue
            profile = chance.choice(quick or known)
            canonical = entry["any"][0]
            wanted = exact_quantized(case, block, profile)
            assert (canonical["scale"], canonical["codes"]) == wanted, f"{case['id']}, {profile.id}, seed {seed()}"
            compared += 1
    assert compared > 100


@pytest.mark.parametrize("fmt", BLOCKS)
def test_scale_answers_are_exact(stored: Stored, fmt: str) -> None:
    """Of a block whose other lanes are zero."""
    document, block = stored.document("scale", fmt), get_block(fmt)
    chance = rng("vectors", "scale", fmt)
    for case in chance.sample(document["cases"], 12):
        for entry in case["expect"]:
            profile = get_profile(chance.choice(entry["profiles"]), fmt)
            tensor = tensor_real(case, profile)
            level = profile.steps(with_tensor_scale=tensor is not None)
            bindings = {"M": exact.make_real(block.element.max_value)}
            if tensor is not None:
                bindings |= exact.bind_tensor_scale(profile, tensor)
            for i in chance.sample(range(len(case["amax"]) // 8), min(6, len(case["amax"]) // 8)):
                amax = real(int(case["amax"][8 * i : 8 * i + 8], 16))
                if level.alternative is None and level.normalize is None and not profile.flush_inputs:
                    value = evaluate(level.scale.value, {**bindings, "amax": amax}, exact.EXACT)
                    byte = exact.encode_scale(value, level.scale, block.scale, block.element)
                else:
                    lanes = [amax] + [real(0)] * (block.k - 1)
                    byte = exact.quantize_block(lanes, block, profile=profile, tensor_scale=tensor).scale_code
                assert entry["scale"][2 * i : 2 * i + 2] == f"{byte:02x}", f"{case['id']}[{i}], {profile.id}"


WIDTHS = {"float32": 8, "float16": 4, "bfloat16": 4}


@pytest.mark.parametrize("fmt", BLOCKS)
def test_dequantize_answers_are_exact(stored: Stored, fmt: str) -> None:
    document, block = stored.document("dequantize", fmt), get_block(fmt)
    chance, digits = rng("vectors", "dequantize", fmt), code_digits(block)
    for case in chance.sample(document["cases"], 12):
        codes = np.array([int(c, 16) for c in re.findall("." * digits, case["codes"])], np.uint8)
        scales = np.frombuffer(bytes.fromhex(case["scales"]), np.uint8)
        for entry in case["expect"]:
            profile = get_profile(chance.choice(entry["profiles"]), fmt)
            tensor = tensor_real(case, profile)
            values = ExactValues(fmt, profile, None)
            values._scale = tensor
            for i in chance.sample(range(len(codes)), 8):
                pair = codes[i : i + 1, None], scales[i // block.k : i // block.k + 1, None]
                bits = bits_of(values.bits(*pair, case["dtype"]))[0, 0]
                width = WIDTHS[case["dtype"]]
                returned = entry["values"][width * i : width * i + width]
                is_nan = np.isnan(values.bits(*pair, case["dtype"]).astype(np.float32)[0, 0])
                wanted = "nan.....".ljust(8, ".")[:width] if is_nan else f"{int(bits):0{width}x}"
                assert returned == wanted, f"{case['id']}[{i}], {profile.id}, seed {seed()}"


SCALARS = [*ELEMENTS, *SCALES]


@pytest.mark.parametrize("name", SCALARS)
def test_encode_answers_are_exact(stored: Stored, name: str) -> None:
    document, fmt = stored.document("encode", name), get_scalar(name)
    policy = NanPolicy(document["nan"])
    for case in draw(document["cases"], 6, "encode", name):
        x = [int(case["x"][i : i + 8], 16) for i in range(0, len(case["x"]), 8)]
        answers = {r: e["codes"] for e in case["expect"] for r in e["roundings"]}
        assert set(answers) == {r.value for r in DETERMINISTIC}
        for rounding, codes in answers.items():
            for i, bits in enumerate(x):
                number = real(bits)
                if number.nan:
                    code = nan_codes(fmt, policy)[number.sign]
                else:
                    mode, overflow = Rounding(rounding), Overflow(case["overflow"])
                    code = encode_real(number, fmt, rounding=mode, overflow=overflow)
                assert codes[2 * i : 2 * i + 2] == f"{code:02x}", f"{case['id']}[{i}] {rounding}"


@pytest.mark.parametrize("name", SCALARS)
def test_decode_answers_are_exact(stored: Stored, name: str) -> None:
    fmt, seen = get_scalar(name), 0
    for case in stored.document("decode", name)["cases"]:
        codes, values = bytes.fromhex(case["codes"]), case["expect"][0]["values"]
        for i, code in enumerate(codes):
            value = exact.decode_real(code, fmt)
            wanted = "nan....." if value.nan else f"{encode_real(value, exact.FLOAT32, overflow=Overflow.OWN):08x}"
            assert values[8 * i : 8 * i + 8] == wanted, f"{name} {code:02x}"
            seen += 1
    assert seen == fmt.code_count


def stochastic_code(bits: int, word: int, sr_bits: int, name: str) -> int | None:
    """The integer rule in rationals: up where floor(frac * 2**n) + r >= 2**n; None for what is no finite number."""
    fmt, x = get_scalar(name), real(bits)
    if x.nan or x.magnitude is None:
        return None
    if x.magnitude >= fmt.max_value:
        return fmt.join(x.sign, fmt.max_code)
    low = max(m for m in range(fmt.max_code) if fmt.magnitude(m) <= x.magnitude)
    share = (x.magnitude - fmt.magnitude(low)) / (fmt.magnitude(low + 1) - fmt.magnitude(low))
    return fmt.join(x.sign, low + (int(share * 2**sr_bits) + word % 2**sr_bits >= 2**sr_bits))


@pytest.mark.parametrize("name", ELEMENTS)
def test_stochastic_answers_are_exact(stored: Stored, name: str) -> None:
    seen = {8: 0, 32: 0}
    odd = set()
    for case in stored.document("stochastic", name)["cases"]:
        if case["rule"] != "integer":
            continue
        x = [int(w, 16) for w in re.findall("." * 8, case["x"])]
        words = [int(w, 16) for w in re.findall("." * 8, case["random_bits"])]
        codes = bytes.fromhex(case["expect"][0]["codes"])
        for bits, word, code in zip(x, words, codes, strict=True):
            wanted = stochastic_code(bits, word, case["sr_bits"], name)
            assert wanted in (None, code), f"{case['id']}: {bits:08x} with {word:08x}"
            seen[case["sr_bits"]] += 1
            if case["sr_bits"] == 32 and stochastic_code(bits, word ^ 1, 32, name) != wanted:
                odd.add((bits, word))
    assert min(seen.values()) > 100
    assert odd, "the lowest random bit never decides"


def step_codes(document: dict[str, Any], bits: np.ndarray[Any, Any], rounding: str, overflow: str) -> Any:
    """Codes of finite float32 by the file's `steps` alone."""
    codes = np.zeros(bits.shape, np.uint8)
    for step in document["steps"]:
        if (step["rounding"], step["overflow"]) == (rounding, overflow):
            first = [int(w, 16) for w in re.findall("." * 8, step["first"])]
            table = np.frombuffer(bytes.fromhex(step["codes"]), np.uint8)
            mine = (bits >> 31) == step["sign"]
            codes[mine] = table[np.searchsorted(first, bits[mine] & (SIGN - 1), side="right")]
    return codes


@pytest.mark.parametrize("name", SCALARS)
def test_steps_are_the_whole_encoder(stored: Stored, name: str) -> None:
    """The steps give what `encode` gives on floats of every exponent and around every step."""
    document, fmt = stored.document("encode", name), get_scalar(name)
    chance = np.random.default_rng(rng("steps", name).randrange(1 << 32))
    near = {int(w, 16) + d for s in document["steps"] for w in re.findall("." * 8, s["first"]) for d in (-1, 0, 1)}
    bits = np.concatenate([np.array(sorted(near), np.uint32), chance.integers(0, 0x7F800000, 3000, np.uint32)])
    bits = bits[bits < 0x7F800000]
    if fmt.signed:
        bits = np.concatenate([bits, bits | np.uint32(SIGN)])
    for overflow in {s["overflow"] for s in document["steps"]}:
        for rounding in DETERMINISTIC:
            ours = mxspec.encode(bits.view(np.float32), name, rounding=rounding, overflow=overflow)
            assert_same(step_codes(document, bits, rounding.value, overflow), ours)


# The tree as a whole


def test_build_all_is_the_files_and_their_index(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    """build_all with the documents of this run: names, index, digest, and the budget."""
    asked: list[str] = []
    monkeypatch.setattr(builder, "build_document", fresh.document)
    contents = build_all(asked.append)
    assert asked == NAMES
    assert {n: contents[n] for n in NAMES} == {file_name(*f): fresh.data(*f) for f in FILES}
    assert set(contents) == {*NAMES, "index.json"}
    index = json.loads(contents["index.json"])
    assert list(jsonschema.Draft202012Validator(verify.load_schema("index")).iter_errors(index)) == []
    for name in NAMES:
        assert index["files"][name]["sha256"] == hashlib.sha256(contents[name]).hexdigest()
        assert index["files"][name]["bytes"] == len(contents[name])
    lines = "".join(f"{n} {index['files'][n]['sha256']}\n" for n in sorted(NAMES))
    assert index["digest"] == hashlib.sha256(lines.encode()).hexdigest()
    assert index["cases"] == sum(e["cases"] for e in index["files"].values())
    exhaustive = sum(e.get("exhaustive", 0) for e in index["files"].values())
    assert len(collect_ids(contents)) == index["cases"] + exhaustive
    sizes = {o: sum(len(d) for n, d in contents.items() if n.startswith(o + "/")) for o in files.OPERATIONS}
    print(f"bytes: {sizes}")
    assert sum(sizes.values()) <= BUDGET


def test_two_cases_of_one_id_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    document = build_document("decode", "e2m1")
    monkeypatch.setattr(builder, "list_files", lambda: [("decode", "e2m1")])
    monkeypatch.setattr(builder, "build_document", lambda *_: {**document, "cases": document["cases"] * 2})
    with pytest.raises(VectorError, match=r"decode/e2m1\.json: two cases have one id"):
        build_all()


SMALL = [("decode", "e2m1"), ("decode", "e4m3"), ("stochastic", "e2m1")]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds and verifications of three small files."""
    monkeypatch.setattr(builder, "list_files", lambda: SMALL)
    monkeypatch.setattr(verify, "list_files", lambda: SMALL)


def contents_of(root: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def lose_a_case(operation: str, fmt: str) -> dict[str, Any]:
    """A document whose first case is gone."""
    document = build_document(operation, fmt)
    return {**document, "cases": document["cases"][(fmt == "e4m3") :]}


@pytest.mark.usefixtures("small")
def test_v1_only_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "v1"
    index = builder.build(root)
    assert builder.build(root) == index
    before = contents_of(tmp_path)
    assert sorted(before) == sorted(f"v1/{n}" for n in [*(file_name(*s) for s in SMALL), "index.json"])

    monkeypatch.setattr(builder, "build_document", lose_a_case)
    lost = build_document("decode", "e4m3")["cases"][0]["id"]
    with pytest.raises(VectorError, match=f"1 ids would disappear, 'decode/e4m3.json {lost}' among them"):
        builder.build(root)
    assert contents_of(tmp_path) == before

    removed = {"schema": "t", "removed": [{"file": "decode/e4m3.json", "id": lost, "reason": "a test"}]}
    (tmp_path / "tombstones.json").write_text(json.dumps(removed), encoding="ascii")
    assert builder.build(root)["cases"] == index["cases"] - 1
    assert lost.encode() not in (root / "decode/e4m3.json").read_bytes()


@pytest.mark.usefixtures("small")
def test_a_corrected_answer_keeps_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "v1"
    first = builder.build(root)
    ids = collect_ids(builder.read_contents(root))

    def corrected(operation: str, fmt: str) -> dict[str, Any]:
        document = build_document(operation, fmt)
        for case in document["cases"]:
            case["expect"], case["flags"], case["topic"] = [], ["basic"], "exact"
        return document

    monkeypatch.setattr(builder, "build_document", corrected)
    second = builder.build(root)
    assert second["digest"] != first["digest"]
    assert collect_ids(builder.read_contents(root)) == ids


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damaged", ["index.json", "decode/e4m3.json"])
def test_a_damaged_tree_is_rebuilt_and_still_grows_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: str) -> None:
    root = tmp_path / "v1"
    builder.build(root)
    before = contents_of(root)
    (root / damaged).write_bytes(before[damaged][:-200])
    builder.build(root)
    assert contents_of(root) == before
    (root / damaged).write_bytes(before[damaged][:-200])
    monkeypatch.setattr(builder, "build_document", lose_a_case)
    with pytest.raises(VectorError, match="1 ids would disappear"):
        builder.build(root)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("stranger", ["thesis.tex", "quantize/notes.txt", "decode/old/e2m1.json", "index.json/x"])
def test_a_foreign_folder_is_not_replaced(tmp_path: Path, stranger: str) -> None:
    path = tmp_path / "mine" / stranger
    path.parent.mkdir(parents=True)
    path.write_text("years of work", encoding="ascii")
    before = contents_of(tmp_path)
    with pytest.raises(VectorError, match="is not empty and holds"):
        builder.build(tmp_path / "mine")
    assert contents_of(tmp_path) == before


# Verification


@pytest.fixture
def tree(tmp_path: Path, small: None) -> Path:
    builder.build(tmp_path / "v1")
    return tmp_path / "v1"


def edit(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def edit_index(root: Path, change: Callable[[dict[str, Any]], object]) -> None:
    index = json.loads((root / "index.json").read_bytes())
    change(index)
    (root / "index.json").write_text(json.dumps(index), encoding="ascii")


def edit_consistently(root: Path, change: Callable[[bytes], bytes]) -> None:
    """A file is changed, and the digests that cover it with it."""
    path = root / "decode/e4m3.json"
    edit(path, change)

    def correct(index: dict[str, Any]) -> None:
        index["files"]["decode/e4m3.json"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        index["digest"] = files.total_digest(index["files"])

    edit_index(root, correct)


DAMAGE: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "nothing": (lambda root: None, []),
    "truncated": (lambda root: edit(root / "decode/e4m3.json", lambda d: d[:-1]), ["decode/e4m3.json: SHA-256 differs"]),
    "empty": (lambda root: edit(root / "decode/e2m1.json", lambda d: b""), ["decode/e2m1.json: SHA-256 differs"]),
    "one byte": (
        lambda root: edit(root / "stochastic/e2m1.json", lambda d: d[:4000] + bytes([d[4000] ^ 1]) + d[4001:]),
        ["stochastic/e2m1.json: SHA-256 differs"],
    ),
    "missing": (lambda root: (root / "decode/e2m1.json").unlink(), ["decode/e2m1.json: does not exist"]),
    "digest of a file": (
        lambda root: edit_index(root, lambda i: i["files"]["decode/e2m1.json"].update(sha256="0" * 64)),
        ["index.json: digest is not that", "decode/e2m1.json: SHA-256 differs"],
    ),
    "digest of all": (
        lambda root: edit_index(root, lambda i: i.update(digest="f" * 64)),
        ["index.json: digest is not that of the files listed"],
    ),
    "not listed": (
        lambda root: edit_index(root, lambda i: i["files"].pop("decode/e2m1.json")),
        ["decode/e2m1.json: missing from the index", "index.json: digest is not that"],
    ),
    "listed but unknown": (
        lambda root: edit_index(root, lambda i: i["files"].update({"decode/e9m9.json": i["files"]["decode/e2m1.json"]})),
        ["decode/e9m9.json: unknown, but in the index", "index.json: digest is not that"],
    ),
    "index without a digest of a file": (
        lambda root: edit_index(root, lambda i: i["files"]["decode/e2m1.json"].pop("sha256")),
        ["index.json: files/decode/e2m1.json: 'sha256' is missing"],
    ),
    "against the schema": (
        lambda root: edit_consistently(root, lambda d: d.replace(b'"topic":"code"', b'"topic":"fun"', 1)),
        ["decode/e4m3.json: groups/0/topic: 'fun' is not one of"],
    ),
    "no cases": (lambda root: edit_consistently(root, lambda d: d.replace(b'"groups":[', b'"kisten":[')), ["decode/e4m3.json"]),
    "a flag without a note": (
        lambda root: edit_consistently(root, lambda d: d.replace(b'"flags":["decode-table"]', b'"flags":["basic"]', 1)),
        ["decode/e4m3.json: flags without a note: basic", "decode/e4m3.json: differs from what the model gives"],
    ),
    "another answer": (
        lambda root: edit_consistently(root, lambda d: d.replace(b"3f800000", b"3f800001", 1)),
        ["decode/e4m3.json: differs from what the model gives today"],
    ),
    "not canonical": (
        lambda root: edit_consistently(root, lambda d: d.replace(b'","codes"', b'", "codes"', 1)),
        ["decode/e4m3.json: differs from what the model gives today"],
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_verify_finds(tree: Path, name: str) -> None:
    damage, expected = DAMAGE[name]
    damage(tree)
    problems = verify.verify(tree)
    if name == "no cases":
        assert problems
        assert all(p.startswith("decode/e4m3.json: ") for p in problems)
        return
    assert [p[: len(e)] for p, e in zip(problems, expected, strict=True)] == expected


@pytest.mark.parametrize("content", [b"", b'{"files": {', b"[]", b'{"files": 3}', b"\xff\xfe{}"])
def test_verify_refuses_a_damaged_index(tree: Path, content: bytes) -> None:
    (tree / "index.json").write_bytes(content)
    with pytest.raises(VectorError, match=r"index\.json"):
        verify.verify(tree)


def test_verify_without_the_model(tree: Path) -> None:
    edit_consistently(tree, lambda d: d.replace(b"3f800000", b"3f800001", 1))
    assert verify.verify(tree, model=False) == []


def test_verify_needs_a_tree(tmp_path: Path) -> None:
    with pytest.raises(VectorError, match=r"index\.json does not exist; build the vectors with `mxspec vectors build`"):
        verify.verify(tmp_path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: edit(p, lambda d: d[:-1]), "the file is truncated or edited: restore it, or rebuild"),
        (lambda p: p.unlink(), "does not exist; rebuild with `mxspec vectors build`"),
    ],
    ids=["truncated", "missing"],
)
def test_reading_checks_the_digest(tree: Path, damage: Callable[[Path], object], message: str) -> None:
    assert files.read_document("decode", "e2m1", tree)["format"] == "e2m1"
    files._read_checked.cache_clear()
    damage(tree / "decode/e2m1.json")
    with pytest.raises(VectorError, match=message):
        files.read_document("decode", "e2m1", tree)
    with pytest.raises(VectorError, match=r"there is no vector file decode/e9m9\.json; known are decode/e2m1\.json"):
        files.read_document("decode", "e9m9", tree)


def test_parse_names_the_file() -> None:
    with pytest.raises(VectorError, match=r"x\.json is not JSON .*truncated: restore it"):
        parse(b'{"cases": [', "x.json")
    with pytest.raises(VectorError, match=r"x\.json holds a list"):
        parse(b"[1]", "x.json")


# Other languages


def run(command: list[str], **kwargs: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **kwargs)
    assert done.returncode == 0, done.stderr
    return done.stdout


EXPORTED = [("mxfp4", "mx-floor"), ("mxfp8_e4m3", "torchao-0.18/mxfp8/rceil/eager"), ("nvfp4", "nvfp4-te")]
each_export = pytest.mark.parametrize(("fmt", "profile"), EXPORTED)


def model_answers(table: dict[str, Any], fmt: str, profile: str) -> Iterator[tuple[int, Any, Any]]:
    """Index, scale byte and codes of each exported case by the model."""
    for amax in np.unique(table["tensor_amax"]):
        members = np.flatnonzero(table["tensor_amax"] == amax)
        scale = None if amax == 0xFFFFFFFF else mxspec.TensorScale("amax", int(amax))
        t = mxspec.quantize(table["x"][members].view(np.float32), fmt, profile=profile, tensor_scale=scale)
        yield from zip(members.tolist(), t.scales[:, 0].tolist(), t.codes.tolist(), strict=True)


@each_export
def test_tables_are_the_one_block_cases(fmt: str, profile: str) -> None:
    document = files.read_document("quantize", fmt)
    k = get_block(fmt).k
    wanted = [
        c["id"]
        for c in document["cases"]
        if c["shape"] == [1, k] and not {"axis", "pad", "block"} & set(c) and any(profile in e["profiles"] for e in c["expect"])
    ]
    table = quantize_tables(fmt, profile)
    assert table["ids"] == wanted
    assert len(wanted) > 400
    for i, scale, codes in model_answers(table, fmt, profile):
        assert (table["scale"][i], table["codes"][i].tolist()) == (scale, codes), wanted[i]


@each_export
def test_export_npz(tmp_path: Path, fmt: str, profile: str) -> None:
    (path,) = export(tmp_path, kind="npz", fmt=fmt, profile=profile)
    assert path == tmp_path / f"{fmt}-{profile.replace('/', '-')}.npz"
    with np.load(path, allow_pickle=False) as stored:
        table = quantize_tables(fmt, profile)
        assert set(stored) == {*table, "about"}
        assert stored["ids"].tolist() == table["ids"]
        for key in ("x", "tensor_amax", "scale", "codes"):
            assert_same(stored[key], table[key])
        assert read_index()["digest"] in str(stored["about"])


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@each_export
def test_export_c(tmp_path: Path, fmt: str, profile: str) -> None:
    """The header compiles without a warning, and every value in it is the table's."""
    (path,) = export(tmp_path, kind="c", fmt=fmt, profile=profile)
    table = quantize_tables(fmt, profile)
    prefix = re.sub(r"[-.]", "_", path.stem)
    main = tmp_path / "main.c"
    main.write_text(
        f"""#include <stdio.h>
#include "{path.name}"
int main(void) {{
    unsigned long long sum = 0;
    for (int i = 0; i < {prefix.upper()}_CASES; i++) {{
        sum = sum * 31 + {prefix}_scale[i] + {prefix}_tensor_amax[i];
        for (int j = 0; j < {get_block(fmt).k}; j++) sum = sum * 31 + {prefix}_x[i][j] + {prefix}_codes[i][j];
    }}
    printf("%d %llu %s %08x %02x\\n", {prefix.upper()}_CASES, sum, {prefix}_ids[7], {prefix}_x[7][2], {prefix}_scale[7]);
    return 0;
}}
""",
        encoding="ascii",
    )
    run(["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", str(main), "-o", str(tmp_path / "main")])
    total = 0
    for x, amax, scale, codes in zip(table["x"], table["tensor_amax"], table["scale"], table["codes"], strict=True):
        total = (total * 31 + int(scale) + int(amax)) % (1 << 64)
        for a, b in zip(x.tolist(), codes.tolist(), strict=True):
            total = (total * 31 + a + b) % (1 << 64)
    wanted = f"{len(table['ids'])} {total} {table['ids'][7]} {int(table['x'][7][2]):08x} {int(table['scale'][7]):02x}"
    assert run([str(tmp_path / "main")]).strip() == wanted


@each_export
def test_export_readmemh(tmp_path: Path, fmt: str, profile: str) -> None:
    table = quantize_tables(fmt, profile)
    paths = export(tmp_path, kind="readmemh", fmt=fmt, profile=profile)
    stem = f"{fmt}-{profile.replace('/', '-')}"
    keys = ("x", "tensor_amax")[: 1 + get_block(fmt).has_tensor_scale]
    assert [p.name for p in paths] == [*(f"{stem}-{k}.mem" for k in (*keys, "answers")), f"{stem}-index.json", f"{stem}-index.vh"]
    index = json.loads(paths[-2].read_text("ascii"))
    assert index["files"][paths[0].name]["lines"] == len(table["ids"])
    assert sum(high - low + 1 for runs in index["topics"][paths[0].name].values() for low, high in runs) == len(table["ids"])
    for path, key, digits in zip(paths, keys, (8, 8), strict=False):
        comment, bits, *lines = path.read_text(encoding="ascii").splitlines()
        assert comment.startswith("// mxspec vectors v1, digest ")
        assert bits.startswith(f"// {4 * len(lines[0].split()[0])} bits: ")
        rows = table[key].reshape(len(table["ids"]), -1)
        if key == "x":
            assert [line.partition(" // ")[2] for line in lines] == table["ids"]
        lines = [line.partition(" ")[0] for line in lines]
        assert all(re.fullmatch(f"[0-9a-f]{{{digits * rows.shape[1]}}}", line) for line in lines)
        back = [[int(w, 16) for w in reversed(re.findall("." * digits, line))] for line in lines]
        assert back == rows.tolist()
    # The canonical answer of each case is among its lines; an infinity may make the block NaN, where OCP says so.
    k = get_block(fmt).k
    width = 8 * k + 8
    lines = [line for line in paths[-3].read_text(encoding="ascii").splitlines() if not line.startswith("//")]
    assert {4 * len(line) for line in lines} == {2 * width + 24}
    legal: dict[int, list[tuple[int, int]]] = {}
    for word in (int(line, 16) for line in lines):
        if word >> 2 * width + 16 == 0:
            legal.setdefault(word >> 2 * width & 0xFFFF, []).append((word & ((1 << width) - 1), word >> width & ((1 << width) - 1)))

    def accepts(case: int, scale: int, codes: bytes) -> bool:
        returned = scale << 8 * k | int.from_bytes(codes, "little")
        return any(not (returned ^ bits) & mask for bits, mask in legal[case])

    for case in range(len(table["ids"])):
        codes = table["codes"][case].tobytes()
        assert accepts(case, int(table["scale"][case]), codes)
        magnitudes = table["x"][case] & 0x7FFFFFFF
        if magnitudes.max() == 0x7F800000:
            assert accepts(case, 0xFF, codes) == (
                (get_block(fmt).is_mx and get_profile(profile, fmt).kind is Kind.NORMATIVE) or table["scale"][case] == 0xFF
            )
        if magnitudes.max() < 0x7F800000:
            assert not accepts(case, int(table["scale"][case]) ^ 0x80, codes) or not magnitudes.any()


def test_every_profile_gives_a_c_name() -> None:
    """`-c` exports name their arrays after format and profile."""
    for fmt in BLOCKS:
        for p in list_profiles(fmt):
            stem = f"{fmt}-{p.id.replace('/', '-')}".replace("-", "_").replace(".", "_")
            assert re.fullmatch(r"[a-z][a-z0-9_]*", stem), p.id


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "csv"}, "kind = 'csv'; allowed are npz, c, readmemh"),
        ({"profile": "nvfp4-te"}, "mxfp4 has no profile 'nvfp4-te'; known are mx-floor"),
    ],
)
def test_export_refuses(tmp_path: Path, change: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        export(tmp_path / "out", **{"kind": "npz", "fmt": "mxfp4", "profile": "mx-floor", **change})
    assert list(tmp_path.iterdir()) == []


def test_default_profiles_are_exported(tmp_path: Path) -> None:
    """Each format's default profile has a table; what is exported twice is the same bytes."""
    for fmt in BLOCKS:
        do = partial(export, kind="readmemh", fmt=fmt, profile=default_profile(fmt).id)
        first = {p.name: p.read_bytes() for p in do(tmp_path / "a")}
        assert first == {p.name: p.read_bytes() for p in do(tmp_path / "b")}


def test_threshold_of_the_oldest_case() -> None:
    """A case by hand, so that not everything here rests on the model: mxfp4, a block of 6 and the ties around it."""
    cases = files.read_document("quantize", "mxfp4")["cases"]
    case = next(c for c in cases if c["id"].startswith("tie-even-e0-0-p-"))
    x = [Fraction(float(v)) for v in floats(int(w, 16) for w in re.findall("." * 8, case["x"]))]
    ties = {Fraction(1, 4): "0", Fraction(3, 4): "2", Fraction(5, 4): "2", Fraction(7, 4): "4", Fraction(5, 2): "4",
            Fraction(7, 2): "6", Fraction(5): "6", Fraction(6): "7", Fraction(0): "0"}  # fmt: skip
    codes = "".join(f"{int(ties[abs(v)], 16) | (8 if v < 0 else 0):x}" for v in x)
    entry = next(e for e in case["expect"] if "mx-floor" in e["profiles"])
    assert entry["any"] == [{"scale": "7f", "codes": codes}]
