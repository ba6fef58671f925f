"""Affine weights of MLX: a layer, and a checkpoint that MLX wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxspec import affine

from tests.peers.affine_mlx import from_mlx

mx = pytest.importorskip("mlx.core")


@pytest.fixture
def layer() -> Any:
    from mlx import nn

    mx.random.seed(3)
    linear = nn.Linear(128, 12, bias=False)
    linear.weight = linear.weight.astype(mx.bfloat16)
    return nn.QuantizedLinear.from_linear(linear, group_size=64, bits=4)


@pytest.fixture
def checkpoint(layer: Any, tmp_path: Path) -> Path:
    tensors = {f"model.q_proj.{name}": getattr(layer, name) for name in ("weight", "scales", "biases")}
    mx.save_safetensors(str(tmp_path / "model.safetensors"), {**tensors, "model.norm.weight": mx.ones((4,))})
    return tmp_path


def test_a_layer_of_mlx_is_taken_as_it_is(layer: Any) -> None:
    w = affine.QuantizedWeights.from_mlx_layer(layer)
    assert (w.shape, w.scales.dtype.name, w.group_size, w.bits) == ((12, 128), "bfloat16", 64, 4)
    x = np.random.default_rng(2).standard_normal((3, 128)).astype(w.scales.dtype)
    theirs = from_mlx(layer(mx.array(x.view(np.uint16)).view(mx.bfloat16)))
    ours = affine.quantized_linear(x, w, contract="bfloat16", accumulate="bfloat16")
    assert np.array_equal(theirs.view(np.uint16), ours.view(np.uint16))


def test_a_checkpoint_of_mlx_is_read(layer: Any, checkpoint: Path) -> None:
    assert affine.list_mlx_weights(checkpoint) == ("model.q_proj",)
    wanted = affine.QuantizedWeights.from_mlx_layer(layer)
    (checkpoint / "config.json").write_text(json.dumps({"quantization": {"group_size": 64, "bits": 4}}))
    for path in (checkpoint, checkpoint / "model.safetensors"):
        w = affine.read_mlx_weights(path, "model.q_proj")
        assert (w.group_size, w.bits) == (64, 4)
        assert np.array_equal(w.weight, wanted.weight)
        assert np.array_equal(w.scales.view(np.uint16), wanted.scales.view(np.uint16))
        assert np.array_equal(w.biases.view(np.uint16), wanted.biases.view(np.uint16))


def test_a_layers_own_entry_counts(checkpoint: Path) -> None:
    whole = {"group_size": 128, "bits": 2, "model.q_proj": {"group_size": 64, "bits": 4}}
    (checkpoint / "config.json").write_text(json.dumps({"quantization": whole}))
    assert affine.read_mlx_weights(checkpoint, "model.q_proj").bits == 4


def test_what_is_not_known_has_to_be_given(checkpoint: Path) -> None:
    with pytest.raises(ValueError, match=r"8 bits in groups of 32, 4 bits in groups of 64, 2 bits in groups of 128; pass bits"):
        affine.read_mlx_weights(checkpoint, "model.q_proj")
    assert affine.read_mlx_weights(checkpoint, "model.q_proj", bits=4).group_size == 64
    with pytest.raises(ValueError, match="do not fit groups of any size and 3 bits"):
        affine.read_mlx_weights(checkpoint, "model.q_proj", bits=3)
    with pytest.raises(ValueError, match=r"has no model.norm.scales; it holds model.q_proj"):
        affine.read_mlx_weights(checkpoint, "model.norm")
    (checkpoint / "config.json").write_text(json.dumps({"quantization": {"mode": "mxfp4", "bits": 4}}))
    with pytest.raises(ValueError, match="mode 'mxfp4'"):
        affine.read_mlx_weights(checkpoint, "model.q_proj")
