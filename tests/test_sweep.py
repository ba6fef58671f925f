"""Sweeps: the complete exact answers, the comparison with witnesses, results on disk, and the committed results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import mxspec
from mxspec.formats import E2M1, ELEMENTS, SCALES
from mxspec.rounding import Overflow, Rounding
from mxspec.stepfunctions import INF_BITS
from mxspec_conformance.campaign.chunks import parse_chunks
from mxspec_lab import cuda_headers
from mxspec_lab.sweeps import command, functions as sweep_functions, references as sweep_witnesses, results, run as runs
from mxspec_lab.sweeps.functions import CHUNK, EncodeFunction, ScaleFunction
from mxspec_lab.sweeps.references import Exclusion, Witness
from mxspec_lab.sweeps.verify import find_problems

from tests.support import Codes, Float32s, float_bits, seed

COMMITTED = Path(__file__).parents[1] / "reports" / "sweeps"

#: Small and quick: its answer changes 14 times for each sign.
NAME = "encode/e2m1/rtz/saturate"
FUNCTIONS = sweep_functions.list_functions(NAME)


def test_the_answer_of_e2m1_is_what_its_definition_says() -> None:
    """Ties at 0.25, 0.75, 1.25, 1.75, 2.5, 3.5 and 5 go to the even code; infinity saturates; NaN is +6."""
    steps = sweep_functions.function_steps(EncodeFunction(E2M1, Rounding.RNE, Overflow.SATURATE))
    assert steps.as_text() == (
        "00000000:00 3e800001:01 3f400000:02 3fa00001:03 3fe00000:04 40200001:05 40600000:06 40a00001:07 "
        "80000000:08 be800001:09 bf400000:0a bfa00001:0b bfe00000:0c c0200001:0d c0600000:0e c0a00001:0f ff800001:07"
    )


def test_the_answer_of_the_floor_rule_is_an_exponent() -> None:
    name = next(n for n, f in sweep_functions.list_functions("scale/e2m1/floor-*").items() if "mx-floor" in used(f))
    steps = sweep_functions.function_steps(sweep_functions.list_functions()[name])
    expected = [(0, 0), *(((e << 23), e - 2) for e in range(3, 255)), (INF_BITS, 0xFE), (INF_BITS + 1, 0xFF)]
    assert steps.starts.tolist() == [start for start, _ in expected]
    assert steps.values.tolist() == [code for _, code in expected]


def used(function: sweep_functions.Function) -> tuple[str, ...]:
    assert isinstance(function, ScaleFunction)
    return function.profiles


def test_a_chunk_digest_is_that_of_its_bytes() -> None:
    import hashlib

    steps = sweep_functions.function_steps(FUNCTIONS[NAME])
    for chunk in (0, 63):
        data = steps.expand(chunk * CHUNK, (chunk + 1) * CHUNK).tobytes()
        assert sweep_functions.chunk_digest(steps, chunk) == hashlib.blake2b(data, digest_size=16).hexdigest()


def test_there_is_a_function_for_every_encoder_and_every_scale_rule() -> None:
    names = set(sweep_functions.list_functions())
    for fmt in (*ELEMENTS, *SCALES):
        assert f"encode/{fmt}/rtn/saturate" in names
        assert (f"encode/{fmt}/rtn/own" in names) == (fmt in ("e4m3", "e5m2", "e8m0", "ue4m3"))
    covered = {
        (profile, function.element.name)
        for function in sweep_functions.list_functions("scale/*").values()
        if isinstance(function, ScaleFunction)
        for profile in function.profiles
    }
    for profile in mxspec.list_profiles():
        for fmt in profile.formats:
            block = mxspec.get_block(fmt)
            if block.scale.name == "e8m0" and profile.one_level is not None:
                assert (profile.id, block.element.name) in covered


def ones(x: Float32s) -> Codes:
    """One, but two for the inputs 1.0 and 2.0."""
    return np.where((x == 1) | (x == 2), 2, 1).astype(np.uint8)


def test_compare_counts_what_is_not_excluded() -> None:
    start, expected = float_bits(1) - 10, np.ones(1 << 24, np.uint8)
    two = float_bits(2)
    piece = 1 << 16
    assert sweep_witnesses.compare(Witness("w", "1", ones, piece=piece), expected, start) == sweep_witnesses.Compared(
        1 << 24, 2, "3f800000: 02, exact 01"
    )
    for excluded, left in (((two, two), 1), ((two - 5, two + (1 << 20)), 1), ((start, start + 20), 1), ((0, two), 0)):
        witness = Witness("w", "1", ones, (Exclusion(*excluded, "why"),), piece)
        compared = sweep_witnesses.compare(witness, expected, start)
        passed = min(excluded[1] + 1, start + (1 << 24)) - max(excluded[0], start)
        assert (compared.inputs, compared.differences) == ((1 << 24) - passed, left)


def test_witnesses_differ_on_their_exclusions(tmp_path: Path) -> None:
    """Every exclusion holds an input on which the witness is not the model, so none hides agreement or is stale."""
    library = str(cuda_headers.compile_wrapper(tmp_path))
    asked: dict[str, int] = {}
    for function in sweep_functions.list_functions().values():
        for witness in sweep_witnesses.find_witnesses(function, library):
            asked[witness.name] = asked.get(witness.name, 0) + 1
            for e in witness.exclusions:
                bits = np.unique(np.linspace(e.first, e.last, 5).astype(np.int64))
                answers = witness.codes(bits.astype(np.uint32).view(np.float32))
                assert answers.tolist() != [function.exact(b) for b in bits.tolist()], (function.name, witness.name, e)
    assert asked["array-model"] == len(sweep_functions.list_functions())
    assert asked["cuda-headers"] >= 14 + 6
    assert asked["ml_dtypes"] >= 8
    assert asked["quantize"] == 24


@pytest.mark.parametrize("text", ["x", "256", "3-", "5-300"])
def test_chunk_lists_that_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number or a range"):
        parse_chunks(text)


# Results on disk


def run(out: Path, *chunks: int, **options: Any) -> runs.SweepReport:
    return runs.run_sweep(FUNCTIONS, chunks, out, **options)


def load(out: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(results.result_path(out, NAME).read_text("utf-8"))
    return result


def store(out: Path, data: dict[str, Any]) -> None:
    results.result_path(out, NAME).write_text(json.dumps(data), "utf-8")


def test_resume_keeps_chunks_and_fresh_computes_them_again(tmp_path: Path) -> None:
    first = run(tmp_path, 63)
    assert (first.chunks, first.kept, first.differences) == (1, 0, 0)
    second = run(tmp_path, 63, 64)
    assert (second.chunks, second.kept) == (1, 1)
    data = load(tmp_path)
    assert data["chunks"] == "63-64"
    assert data["witnesses"]["array-model"]["inputs"] == 2 * CHUNK
    steps = sweep_functions.function_steps(FUNCTIONS[NAME])
    assert data["digests"] == [sweep_functions.chunk_digest(steps, c) for c in (63, 64)]
    third = run(tmp_path, 63, resume=False)
    assert (third.chunks, third.kept) == (1, 0)
    assert load(tmp_path) == data
    assert not list(tmp_path.rglob("*.tmp"))


def test_chunks_of_other_thresholds_are_dropped(tmp_path: Path) -> None:
    run(tmp_path, 63, 64)
    data = load(tmp_path)
    data["runs"] = data["runs"].replace("3f000000:01", "3f000001:01")
    store(tmp_path, data)
    assert run(tmp_path, 63).chunks == 1
    assert load(tmp_path)["chunks"] == "63"


def test_a_witness_of_another_version_is_run_again(tmp_path: Path) -> None:
    run(tmp_path, 63, 64)
    data = load(tmp_path)
    data["witnesses"]["array-model"]["version"] = "mxspec 0.0.0"
    store(tmp_path, data)
    assert run(tmp_path, 63).chunks == 1
    after = load(tmp_path)
    assert after["chunks"] == "63-64"
    assert after["witnesses"]["array-model"]["chunks"] == "63"


def interrupt_after_two(function: str, done: int, total: int) -> None:
    """Ctrl-C."""
    assert (function, total) == (NAME, 3)
    if done == 2:
        raise KeyboardInterrupt


def test_an_interrupt_keeps_finished_chunks(tmp_path: Path) -> None:
    report = run(tmp_path, 62, 63, 64, on_chunk=interrupt_after_two)
    assert report.interrupted
    assert load(tmp_path)["chunks"] == "62-63"
    report = run(tmp_path, 62, 63, 64)
    assert (report.interrupted, report.chunks, report.kept) == (False, 1, 2)


def test_differences_are_counted_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = EncodeFunction.model

    def wrong(self: EncodeFunction, x: Float32s) -> Codes:
        codes = model(self, x)
        codes[x == 1] ^= 1
        return codes

    monkeypatch.setattr(EncodeFunction, "model", wrong)
    report = run(tmp_path, 63, 64)
    assert report.differences == 1
    found = load(tmp_path)["witnesses"]["array-model"]
    assert found["differences"] == 1
    assert found["differing_chunks"] == [{"chunk": 63, "differences": 1, "first": "3f800000: 03, exact 02"}]
    problems = list(find_problems(tmp_path, seed(), pattern=NAME))
    assert f"{NAME}: array-model differs on 1 inputs, first 3f800000: 03, exact 02" in problems
    assert f"{NAME}: only 2 of 256 chunks; run python -m mxspec_lab sweep --function {NAME!r}" in problems
    assert f"{NAME}: the array model differs on 1 inputs, first 3f800000" in problems
    monkeypatch.undo()
    assert run(tmp_path, 63, resume=False).differences == 0
    assert load(tmp_path)["witnesses"]["array-model"]["differing_chunks"] == []


def test_verification_says_what_is_stale(tmp_path: Path) -> None:
    run(tmp_path, 0, 63)
    data = load(tmp_path)
    data["digests"][0] = "00" * 16
    data["runs"] = data["runs"].replace("3f800000:02", "3f800001:02")
    store(tmp_path, data)
    results.write_json(results.result_path(tmp_path, "encode/e9m9/rne/saturate"), data | {"function": "encode/e9m9/rne"})
    problems = list(find_problems(tmp_path, seed(), pattern="encode/e*m[0-9]/r*/saturate"))
    assert f"{NAME}: 3f800000: the function gives 02, the steps 01" in problems
    assert f"{NAME}: chunk 0 has another digest now" in problems
    assert any(p.startswith("encode/e2m3/rne/saturate: there is no result") for p in problems)
    assert any(p.startswith("encode/e9m9/rne/saturate: the registry has no such function") for p in problems)


# The command


def test_command(tmp_path: Path) -> None:
    arguments = ["--function", NAME, "--chunks", "63", "--jobs", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(command.sweep, arguments)
    assert result.exit_code == 0, result.output
    assert "1 functions, 1 chunks swept, 0 kept, 0 differences" in " ".join(result.output.split())
    witnesses = load(tmp_path)["witnesses"]
    assert witnesses["cuda-headers"]["differences"] == witnesses["array-model"]["differences"] == 0
    index = json.loads((tmp_path / "index.json").read_text("utf-8"))
    assert index["functions"][NAME]["chunks"] == "1/256"
    assert index["totals"]["cuda-headers"] == {"differences": 0, "functions": 1, "inputs": CHUNK}
    results.write_json(results.result_path(tmp_path, "encode/e9m9/rne"), load(tmp_path))
    result = CliRunner().invoke(command.sweep, [*arguments, "--prune"])
    assert result.exit_code == 0, result.output
    assert "deleted encode/e9m9/rne" in result.output
    assert not results.result_path(tmp_path, "encode/e9m9/rne").exists()


# What is committed


@pytest.mark.parametrize("pattern", ["encode/*", "scale/e2*", "scale/e[!2]*", "scale/int8/*"])
def test_committed_results_are_those_of_the_models_now(pattern: str) -> None:
    """Every function's complete exact answer again; the array model where answers change and on random slices; the
    digests of the special chunks and of four random ones, for a random quarter of the functions.
    """
    assert sweep_functions.list_functions(pattern)
    problems = list(find_problems(COMMITTED, seed(), chunks=4, pattern=pattern, digest_share=0.25))
    if problems:
        pytest.fail("\n".join([f"{len(problems)} problems", *problems[:20]]), pytrace=False)
