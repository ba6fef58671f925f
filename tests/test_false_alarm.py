"""No false alarm: what is right passes everything.

The exact model, executed as a target, passes every profile; so do quantizers that were not made by this project and
import nothing of it: one of NVIDIA's host conversions, one of gfloat's elements.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mxspec import exact, reals
from mxspec.formats import BLOCKS, ELEMENTS, SCALES, get_block, get_scalar
from mxspec.profiles import Profile, get_profile, list_profiles
from mxspec.profiles.schema import AmaxNan
from mxspec.reals import Real, encode_real, nan_codes
from mxspec.rounding import NanPolicy, Overflow, Rounding
from mxspec_conformance.judge.check import check
from mxspec_conformance.observations.tables import load_table_cases
from mxspec_conformance.results.conclusion import conclude
from mxspec_conformance.results.report import Report
from mxspec_vectors import files
from mxspec_vectors.cases import forget_cases
from mxspec_vectors.files import OPERATIONS, file_name, render

from tests.fresh import Fresh, open_fresh, write_index
from tests.support import FLOAT_TYPES, Array, ExactValues, bits_of, real, reals_of, rng, rounded_bits, seed

TARGETS = Path(__file__).parent / "targets"
#: Topics of which six cases are kept of each profile, where of the others two are.
SPECIAL = ("nan", "inf", "zero-block", "zero-sign", "tensor-scale")


def is_slow(profile: Profile) -> bool:
    """Whether the exact model must try every code, or two scales."""
    level = profile.one_level or profile.two_level
    assert level is not None
    return level.element.error is not None or level.alternative is not None


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    return open_fresh(tmp_path_factory)


def forget_vectors() -> None:
    """What the judge has read, it has read of other files."""
    files._read_checked.cache_clear()
    forget_cases()
    load_table_cases.cache_clear()


def sample_cases(cases: list[dict[str, Any]], k: int, profile: str, name: str, *, slow: bool) -> list[dict[str, Any]]:
    """Cases of each topic that a profile answers: one block each, drawn by the seed."""
    chance = rng("false-alarm", name)
    topics: dict[str, list[dict[str, Any]]] = {}
    for case in cases:
        answered = any(profile in e["profiles"] for e in case["expect"])
        if answered and case["shape"] == [1, k] and not {"axis", "pad", "block"} & set(case):
            topics.setdefault(case["topic"], []).append(case)
    kept = []
    for topic, members in topics.items():
        count = 1 if slow else 6 if topic in SPECIAL else 2
        kept += chance.sample(members, min(count, len(members)))
    return kept


def sample_scales(cases: list[dict[str, Any]], profile: str, name: str, *, slow: bool) -> list[dict[str, Any]]:
    """Some maxima of one case of each tensor scale."""
    chance = rng("false-alarm", "scale", name)
    groups: dict[str, list[dict[str, Any]]] = {}
    for case in cases:
        if any(profile in e["profiles"] for e in case["expect"]):
            groups.setdefault(case.get("tensor_scale", {"amax": ""})["amax"], []).append(case)
    kept = []
    for members in chance.sample(sorted(groups.values(), key=lambda m: m[0]["id"]), min(len(groups), 2)):
        case = json.loads(json.dumps(chance.choice(members)))
        chosen = chance.sample(range(len(case["amax"]) // 8), min(2 if slow else 8, len(case["amax"]) // 8))
        case.pop("recipe", None)
        case["amax"] = "".join(case["amax"][8 * i : 8 * i + 8] for i in chosen)
        for entry in case["expect"]:
            entry["scale"] = "".join(entry["scale"][2 * i : 2 * i + 2] for i in chosen)
        kept.append(case)
    return kept


@pytest.fixture
def sampled(fresh: Fresh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Makes the judge read a sample of the vectors that the model gives today."""
    for operation in ("quantize", "scale", "dequantize"):
        fresh.document(operation, request.node.callspec.params["fmt"])

    def use(fmt: str, profile: Profile) -> None:
        slow, name = is_slow(profile), f"{fmt}/{profile.id}"
        quantize, scale = fresh.document("quantize", fmt), fresh.document("scale", fmt)
        dequantize = fresh.document("dequantize", fmt)
        tables = [c for c in dequantize["cases"] if any(profile.id in e["profiles"] for e in c["expect"])]
        cases = {
            "quantize": sample_cases(quantize["cases"], get_block(fmt).k, profile.id, name, slow=slow),
            "scale": sample_scales(scale["cases"], profile.id, name, slow=slow),
            "dequantize": [rng("false-alarm", "table", name).choice(tables)],
        }
        for document in (quantize, scale, dequantize):
            path = tmp_path / file_name(document["operation"], fmt)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(render({**document, "cases": cases[document["operation"]]}))
        write_index(tmp_path, [file_name(o, fmt) for o in OPERATIONS if (tmp_path / file_name(o, fmt)).exists()])
        monkeypatch.setattr(files, "vectors_root", lambda: tmp_path)
        forget_vectors()

    yield use
    monkeypatch.undo()
    forget_vectors()


def exact_target(fmt: str, profile: Profile) -> Any:
    """The exact model as an implementation: whole rows of blocks, in the profile's dtypes, its own tensor scale."""
    k = get_block(fmt).k
    answers: dict[tuple[bytes, float | None], tuple[int, tuple[int, ...]]] = {}

    def tensor_real(tensor_scale: float | None) -> Real | None:
        return None if tensor_scale is None else real(int(np.float32(tensor_scale).view(np.uint32)))

    def quantize(x: Array, tensor_scale: float | None) -> tuple[Array, Array]:
        if x.shape[1] % k:
            raise ValueError(f"rows of {x.shape[1]} are no whole number of blocks")
        codes, scales = np.empty(x.shape, np.uint8), np.empty((len(x), x.shape[1] // k), np.uint8)
        for i, j in np.ndindex(scales.shape):
            block = x[i, j * k : (j + 1) * k]
            key = (block.astype(np.float32).tobytes(), tensor_scale)
            if key not in answers:
                answer = exact.quantize_block(reals_of(block), fmt, profile=profile, tensor_scale=tensor_real(tensor_scale))
                answers[key] = answer.scale_code, answer.codes
            scales[i, j], codes[i, j * k : (j + 1) * k] = answers[key]
        return codes, scales

    target = SimpleNamespace(NAME="exact", VERSION="1", FORMATS=[fmt], DTYPES=list(profile.dtypes))
    if profile.tensor is not None:
        target.TENSOR_SCALE = profile.tensor.native.value
        target.tensor_scale = lambda x, fmt: tensor_scale_of(x, profile)
    if profile.two_level is None:
        target.quantize = lambda x, fmt: quantize(x, None)
    elif profile.one_level is None:
        target.quantize = lambda x, fmt, tensor_scale: quantize(x, tensor_scale)
    else:
        target.quantize = lambda x, fmt, tensor_scale=None: quantize(x, tensor_scale)
    return target


@cache
def find_amax(data: bytes, nan: AmaxNan) -> Real:
    """The largest magnitude of a float32 tensor by the exact model; the judge calls every profile with the same tensors.

    Of more than 64 numbers without a NaN only the largest are compared exactly: float32 orders them as the reals do.
    """
    x = np.frombuffer(data, np.float32)
    if x.size > 64 and not np.isnan(x).any():
        x = np.sort(np.abs(x))[-64:]
    return exact.find_amax(reals_of(x), nan)


def tensor_scale_of(x: Array, profile: Profile) -> np.float32:
    """The tensor scale of a tensor, by the exact model."""
    assert profile.tensor is not None
    amax = find_amax(x.astype(np.float32).tobytes(), profile.tensor.amax_nan)
    bits = rounded_bits(exact.derive_tensor_scale(amax, profile), FLOAT_TYPES["float32"][1])
    value: np.float32 = np.uint32(bits).view(np.float32)
    return value


def assert_all_pass(report: Report, formats: list[str]) -> None:
    """Exit code 0, every requirement passed or not supported, no case off, and something was tested."""
    wrong = [(r.id, r.verdict.value, r.note, r.failing_cases[:2]) for r in report.requirements]
    wrong = [w for w in wrong if w[1] not in ("pass", "unsupported")]
    assert wrong == [], f"{[f.judged_against for f in report.formats]}, seed {seed()}"
    assert report.exit_code == 0
    assert [(f.format, f.judged_against, f.distance) for f in report.formats] == [
        (f, r.judged_against, 0) for f, r in zip(formats, report.formats, strict=True)
    ]
    for result in report.formats:
        own = [r for r in report.requirements if r.id.split("/")[1] == result.format and r.verdict == "pass"]
        assert sum(r.cases for r in own) >= 20
        assert result.deviations == []


@pytest.mark.share(12)
@pytest.mark.parametrize(("fmt", "name"), [(fmt, profile.id) for fmt in BLOCKS for profile in list_profiles(fmt)])
def test_the_exact_model_passes_every_profile(sampled: Any, fmt: str, name: str) -> None:
    profile = get_profile(name, fmt)
    sampled(fmt, profile)
    # Without data to measure an impact on: no verdict depends on it, and the exact model is slow.
    report = check(exact_target(fmt, profile), profile=profile.id, formats=[fmt], data=[])
    assert_all_pass(report, [fmt])
    (result,) = report.formats
    assert (result.judged_against, result.chosen) == (profile.id, "asked")
    assert profile.id in result.identical_to
    conclusion = "matches (provisional)" if profile.provisional else "conforms to"
    assert conclude(result, report.requirements).text == f"{conclusion} {profile.id}"


@pytest.mark.parametrize("fmt", BLOCKS)
def test_some_profile_of_each_format_is_not_provisional(fmt: str) -> None:
    assert not all(profile.provisional for profile in list_profiles(fmt))


@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_exact_values_pass(sampled: Any, fmt: str) -> None:
    """`dequantize` of the 4-bit formats, every code under every scale byte: one profile of each arithmetic."""
    distinct: dict[Any, Profile] = {}
    for profile in list_profiles(fmt):
        levels = [None if level is None else level.dequantize for level in (profile.one_level, profile.two_level)]
        native = None if profile.tensor is None else (profile.tensor.native, profile.tensor.derived)
        distinct.setdefault((*levels, native), profile)
    for profile in distinct.values():
        known: dict[float | None, ExactValues] = {}

        def values(codes: Array, scales: Array, tensor_scale: float | None, profile: Profile, known: Any) -> Array:
            if tensor_scale not in known:
                bits = None if tensor_scale is None else int(np.float32(tensor_scale).view(np.uint32))
                known[tensor_scale] = ExactValues(fmt, profile, None)
                known[tensor_scale]._scale = None if bits is None else real(bits)
            flat = codes.reshape(-1, get_block(fmt).k), scales.reshape(-1, 1)
            found: Array = known[tensor_scale].bits(*flat)
            return found.reshape(codes.shape)

        sampled(fmt, profile)
        target = SimpleNamespace(NAME="exact", FORMATS=[fmt])
        if profile.tensor is not None:
            target.TENSOR_SCALE = profile.tensor.native.value
        if profile.one_level is None:
            target.dequantize = lambda c, s, f, tensor_scale, p=profile, k=known: values(c, s, tensor_scale, p, k)
        else:
            target.dequantize = lambda c, s, f, tensor_scale=None, p=profile, k=known: values(c, s, tensor_scale, p, k)
        report = check(target, profile=profile.id, formats=[fmt], only=f"dequantize/{fmt}/*")
        assert_all_pass(report, [fmt])
        assert profile.id in report.formats[0].identical_to


def exact_scalars(name: str) -> Any:
    """Encoders and decoders by the exact model."""

    @cache
    def encode_one(bits: int, element: str, rounding: str, overflow: str) -> int:
        fmt, number = get_scalar(element), real(bits)
        if number.nan:
            policy = NanPolicy.NAN if fmt.nan_code is not None else NanPolicy.MAX_POSITIVE
            return nan_codes(fmt, policy)[number.sign]
        number = reals.absolute(number) if number.is_zero and not fmt.signed else number
        return encode_real(number, fmt, rounding=Rounding(rounding), overflow=Overflow(overflow))

    def encode(x: Array, element: str, rounding: str = "rne", overflow: str = "saturate") -> Array:
        codes = [encode_one(int(b), element, rounding, overflow) for b in bits_of(x).ravel()]
        return np.array(codes, np.uint8).reshape(x.shape)

    def decode(codes: Array, element: str) -> Array:
        fmt, float32 = get_scalar(element), FLOAT_TYPES["float32"][1]
        bits = [rounded_bits(exact.decode_real(int(c), fmt), float32) for c in codes.ravel()]
        return np.array(bits, np.uint32).view(np.float32).reshape(codes.shape)

    return SimpleNamespace(NAME="exact", ELEMENTS=[name], encode=encode, decode=decode)


@pytest.mark.parametrize("name", [*ELEMENTS, *SCALES])
def test_exact_scalars_pass(name: str) -> None:
    report = check(exact_scalars(name))
    assert_all_pass(report, [])
    judged = {r.id for r in report.requirements if r.verdict == "pass"}
    assert f"decode/{name}/code" in judged
    assert name in SCALES or f"encode/{name}/tie-even" in judged


# Outsiders


def imported(path: Path) -> set[str]:
    """Top-level names of the modules that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module.split(".")[0])
    return found


def test_outsiders_import_nothing_of_ours() -> None:
    for path in TARGETS.glob("*_target.py"):
        assert not imported(path) & {"mxspec", "mxspec_vectors", "mxspec_conformance", "tests", "ml_dtypes"}, path


@pytest.mark.parametrize(
    ("name", "formats"),
    [("cuda_headers_target", ["mxfp4", "mxfp8_e4m3", "mxfp8_e5m2"]), ("gfloat_target", [f for f in BLOCKS if f.startswith("mx")])],
)
def test_outsiders_conform(name: str, formats: list[str]) -> None:
    """In a child process, with all of the committed vectors."""
    report = check(str(TARGETS / f"{name}.py"))
    assert_all_pass(report, formats)
    for result in report.formats:
        assert conclude(result, report.requirements).text == "conforms to mx-floor"
        operations = {r.id.split("/")[0] for r in report.requirements if f"/{result.format}/" in r.id}
        assert operations == {"quantize", "scale", "dequantize"}


def test_a_broken_outsider_does_not() -> None:
    """The same file with round toward zero in one header call: the verdict is not a rubber stamp."""
    source = (TARGETS / "cuda_headers_target.py").read_text(encoding="utf-8")
    broken = source.replace("__NV_E2M1, cudaRoundNearest", "__NV_E2M1, cudaRoundZero")
    assert broken != source
    module: dict[str, Any] = {}
    exec(compile(broken, "broken.py", "exec"), module)
    target = SimpleNamespace(**{n: module[n] for n in ("NAME", "FORMATS", "encode", "quantize")})
    report = check(target, formats=["mxfp4"])
    failing = {r.id for r in report.requirements if r.verdict not in ("pass", "unsupported")}
    assert {"quantize/mxfp4/above-tie", "encode/e2m1/above-tie"} <= failing
    assert not {"quantize/mxfp4/scale-boundary", "scale/mxfp4/scale-boundary", "quantize/mxfp4/nan"} & failing
