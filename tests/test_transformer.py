"""The small transformer: its gradients, its text, its loaders, and what the committed result says of the committed weights."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from click.testing import CliRunner

from mxspec import containers
from mxspec_conformance import check
from mxspec_lab.transformer import __main__ as command
from mxspec_lab.transformer.loaders import LOADERS, Packed, dequantize, multiply_packed
from mxspec_lab.transformer.measure import LoaderTarget, ask, compare, find_error, list_numbers, load_dense, load_packed
from mxspec_lab.transformer.network import MATRICES, MODEL, hold_dense, list_shapes, read_model, run
from mxspec_lab.transformer.source import LENGTH, write_text
from mxspec_lab.transformer.storing import Variant, list_variants

VARIANTS = {v.name: v for v in list_variants()}
RESULT = Path(__file__).resolve().parents[1] / "reports" / "atlas" / "transformer.json"


def store(variant: Variant, folder: Path) -> tuple[Path, dict[str, Any]]:
    path = variant.write(MODEL, read_model(), folder)
    return path, variant.read(path)


# Containers and loaders


@pytest.mark.parametrize("name", [n for n in VARIANTS if n.startswith("mx") and "2:4" not in n and n.endswith("mx-floor")])
def test_the_loader_makes_the_numbers_that_the_container_holds(name: str, tmp_path: Path) -> None:
    path, matrices = store(VARIANTS[name], tmp_path)
    checkpoint = containers.open_checkpoint(path)
    for base in ("embed", "blocks.1.qkv", "head"):
        assert np.array_equal(dequantize(matrices[base], matrices[base].layout), checkpoint.read(base).dequantize(np.float32))


@pytest.mark.parametrize(
    "name", ["mxfp4, mx-floor", "nvfp4, nvfp4-paper", "int4-g64, affine, bfloat16 scale and bias", "mxfp4, 2:4, mx-floor"]
)
def test_both_loaders_conform_and_a_wrong_one_does_not(name: str, tmp_path: Path) -> None:
    _, matrices = store(VARIANTS[name], tmp_path)
    matrix = matrices["head"]
    for multiply in LOADERS.values():
        report = check(LoaderTarget(multiply, matrix))
        assert report.exit_code == 0
        assert report.formats[0].failing == 0

    class Shifted:
        """An operand with the next block's scale."""

        def __init__(self, side: Any) -> None:
            self._side = side

        def __getattr__(self, key: str) -> Any:
            return np.roll(self._side.scales, 1, axis=1) if key == "scales" else getattr(self._side, key)

    wrong = check(LoaderTarget(lambda x, w, layout: multiply_packed(x, cast(Packed, Shifted(w)), layout), matrix))
    assert wrong.exit_code == 1
    assert any(r.id.endswith("/block-scale") and r.failing for r in wrong.requirements)


def test_the_packed_model_is_the_dequantized_one(tmp_path: Path) -> None:
    _, matrices = store(VARIANTS["mxfp6_e3m2, mx-rceil"], tmp_path)
    parameters, (tokens, _) = read_model(), write_text(4, 15)
    packed = {name: w for name, w in matrices.items() if isinstance(w, Packed)}
    dense = run(load_dense(parameters, list_numbers(matrices)), tokens[:, :-1])
    assert find_error(run(load_packed(parameters, packed), tokens[:, :-1]), dense) < 1e-10


def test_comparing_a_model_with_itself_and_with_another() -> None:
    parameters, (tokens, _) = read_model(), write_text(8, 16)
    due = ask(hold_dense(parameters), tokens, 2)
    same = compare(due, due)
    assert (same["ratio"], same["greedy_token_match"], same["tokens_before_first_difference"], same["texts_equal"]) == (1, 1, 32, 2)
    other = compare(ask(hold_dense({**parameters, "head": -parameters["head"]}), tokens, 2), due)
    assert other["ratio"] > 100
    assert other["cosine"] < -0.999999
    assert other["tokens_before_first_difference"] == 0


# The committed result


def test_the_committed_result_is_of_the_committed_weights(tmp_path: Path) -> None:
    document = json.loads(RESULT.read_text("ascii"), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert document["model"]["sha256"] == sha256(MODEL.read_bytes()).hexdigest()
    assert document["model"]["numbers"] == sum(int(np.prod(s)) for s in list_shapes().values())
    assert {(r["format"], r["rule"]) for r in document["rows"][1:] if not r["format"].startswith("Q")} == {
        (v.format, v.rule) for v in VARIANTS.values() if not v.format.startswith("Q")
    }
    assert document["absent"] == []
    assert {r["format"] for r in document["rows"] if r["format"].startswith("Q")} == {"Q4_0", "Q4_K", "Q6_K", "Q8_0"}
    assert {(r["format"], r["rule"]) for r in document["against_q4_k"]} == {
        (r["format"], r["rule"]) for r in document["rows"][1:] if r["format"] != "Q4_K"
    }
    parameters = read_model()
    for name in ("mxfp4, mx-floor", "int4-g128, affine, bfloat16 scale and bias"):
        (tmp_path / name[:4]).mkdir()
        _, matrices = store(VARIANTS[name], tmp_path / name[:4])
        numbers = list_numbers(matrices)
        rows = [r for r in document["layers"] if f"{r['format']}, {r['rule']}" == name]
        assert len([r for r in rows if "weights" in r]) == len(MATRICES) - 1  # all but the embedding
        (head,) = (r["weights"] for r in rows if r["layer"] == "head")
        assert abs(head / find_error(numbers["head"], parameters["head"]) - 1) < 2.0**-40  # another machine adds in another order
    assert all(r["failing"] == 0 for r in document["judged_loaders"])
    assert all(r["allowed_by_float32"] == r["outputs"] for r in document["ladder"])


@pytest.mark.parametrize("name", ["Q4_0", "Q8_0", "Q4_K", "Q6_K"])
def test_every_matrix_has_whole_blocks_of_llama_cpp(name: str) -> None:
    gguf: Any = pytest.importorskip("gguf")
    block, _ = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    assert {list_shapes()[matrix][1] % block for matrix in MATRICES} == {0}


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "list_variants", lambda: iter([VARIANTS["mxint8, mx-floor"], VARIANTS["bfloat16, 2:4, pruned alone"]]))
    out = tmp_path / "t.json"
    done = CliRunner().invoke(command.main, ["--texts", "64", "--prompts", "8", "--json", str(out)])
    assert done.exit_code == 0, done.output
    document = json.loads(out.read_text("ascii"))
    unquantized, good, pruned = document["rows"]
    assert unquantized["perplexity"] == document["model"]["perplexity"]
    assert abs(good["perplexity"] / good["ratio"] / unquantized["perplexity"] - 1) < 2.0**-40
    assert abs(good["ratio"] - 1) < 0.01 < pruned["ratio"] - 1
    assert len(document["layers"]) == 1 + 2 * 6 + 1
    assert [r["failing"] for r in document["judged_loaders"]] == [0, 0]
    assert document["source"]["tokens_predicted"] == 64 * LENGTH
    assert document["against_q4_k"] == []  # of which none was made


def test_figures_against_the_baseline_are_those_against_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second way of storing the same numbers is the baseline: everything is equal to it, and nothing to the unquantized model."""
    same, other = VARIANTS["mxfp4, mx-floor"], VARIANTS["mxint8, mx-floor"]
    monkeypatch.setattr(
        command,
        "list_variants",
        lambda: iter([replace(same, format="Q4_K", rule="plain"), replace(same, rule="again"), replace(other, rule="plain")]),
    )
    monkeypatch.setattr(command, "CHOSEN", ())
    document = command.measure(64, 8)
    again, int8 = document["against_q4_k"]
    assert (again["format"], again["ratio"], again["greedy_token_match"], again["top_token_match"]) == ("mxfp4", 1, 1, 1)
    _, base, _, alone = document["rows"]
    assert abs(int8["ratio"] * base["ratio"] / alone["ratio"] - 1) < 2.0**-40
    assert int8["top_token_match"] < 1
