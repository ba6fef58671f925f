"""Configurations with several formats: which entry speaks of a layer, and what contradicts it."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec import containers
from mxspec_conformance.lint import lint
from mxspec_conformance.lint.layers import Match, find_entry, match_target

UP, DOWN = "model.layers.0.mlp.up_proj", "model.layers.10.mlp.down_proj"


@pytest.mark.parametrize(
    ("target", "name", "match"),
    [
        ("Linear", UP, Match.CLASS), (UP, UP, Match.NAME), ("model.layers.0", UP, Match.NONE), ("mlp", UP, Match.NONE),
        ("re:.*up_proj", UP, Match.PATTERN), (r"re:.*\.up_proj$", UP, Match.PATTERN), ("re:.*down_proj", UP, Match.NONE),
        ("re:up_proj", UP, Match.NONE), ("re:model", UP, Match.PATTERN), ("re:model$", UP, Match.NONE),
        ("re:^model.layers.0", UP, Match.PATTERN), (r"re:model\.layers\.(0|1)\.", DOWN, Match.NONE),
        (r"re:.*(gate|up|down)_proj$", DOWN, Match.PATTERN), ("re:.*[0-9]+", UP, None), ("re:(a+)+$", UP, None), (7, UP, None),
    ],
)  # fmt: skip
def test_targets(target: Any, name: str, match: Match | None) -> None:
    assert match_target(target, name) is match
    if isinstance(target, str) and target.startswith("re:") and match is not None:
        assert (re.match(target.removeprefix("re:"), name) is not None) == (match is Match.PATTERN)


def test_names_go_before_patterns_and_patterns_before_classes() -> None:
    groups = {"a": {"targets": ["Linear"], "n": 1}, "b": {"targets": ["re:.*up_proj"], "n": 2}, "c": {"targets": [UP], "n": 3}}
    assert [(find_entry(groups, n) or {})["n"] for n in (UP, "x.up_proj", DOWN)] == [3, 2, 1]
    assert find_entry({"z": {"targets": ["re:.*[0-9]"]}, **groups}, UP) is None
    assert find_entry({"a": {"targets": [UP]}}, DOWN) is None


def test_no_pattern_takes_long() -> None:
    began = time.process_time()
    assert match_target("re:" + ".*a" * 200 + "$", "a" * 2000 + "b") is Match.NONE
    assert time.process_time() - began < 5


def write(folder: Path, groups: dict[str, tuple[str, int, int]], ignore: list[str]) -> Path:
    """Layers a (MXFP4) and b (MXFP8), and a configuration: targets, by format, bits and group size."""
    x = np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32)
    made = {n: mxspec.quantize(x, f) for n, f in (("m.a", "mxfp4"), ("m.b", "mxfp8_e4m3"))}
    containers.write(folder / "model.safetensors", made, "compressed-tensors", convert=True)
    entries = {
        f"group_{target}": {"format": name, "targets": [target], "weights": {"num_bits": bits, "type": "float", "group_size": size}}
        for target, (name, bits, size) in groups.items()
    }
    said = {"quant_method": "compressed-tensors", "format": "mixed-precision", "config_groups": entries, "ignore": ignore}
    (folder / "config.json").write_text(json.dumps({"quantization_config": said}), "ascii")
    return folder


FOUR, EIGHT = ("mxfp4-pack-quantized", 4, 32), ("mxfp8-quantized", 8, 32)


@pytest.mark.parametrize(
    ("groups", "ignore", "found"),
    [
        ({"re:.*a$": FOUR, "m.b": EIGHT}, ["lm_head"], {}),
        ({"Linear": EIGHT, "m.a": FOUR}, [], {}),
        ({"re:.*a$": EIGHT, "re:.*b$": FOUR}, [], {"m.a": "says mxfp8-quantized", "m.b": "says mxfp4-pack-quantized"}),
        ({"Linear": FOUR, "re:.*c$": EIGHT}, [], {"m.b": "says mxfp4-pack-quantized"}),
        ({"m.a": ("mxfp4-pack-quantized", 4, 16), "m.b": EIGHT}, [], {"m.a": "group_size 16; mxfp4 has 32"}),
        ({"m.a": ("mxfp4-pack-quantized", 8, 32), "m.b": EIGHT}, [], {"m.a": "num_bits 8; mxfp4 has 4"}),
        ({"m.a": FOUR, "m.b": EIGHT}, ["re:.*b"], {"m.b": "`ignore` names it"}),
        ({"re:[ab]": FOUR, "m.b": EIGHT}, [], {}),
    ],
    ids=["right", "class and name", "swapped", "left to a class", "group size", "bits", "ignored", "unread pattern"],
)  # fmt: skip
def test_mixed_groups(groups: Any, ignore: list[str], found: dict[str, str], tmp_path: Path) -> None:
    findings = lint(write(tmp_path, groups, ignore)).findings
    assert {f.rule.id for f in findings} <= {"config/group"}
    assert {(f.tensor or "").rpartition(".weight")[0] for f in findings} == set(found)
    for finding in findings:
        assert found[(finding.tensor or "").rpartition(".weight")[0]] in finding.text
