"""Write small checkpoints with MLX itself, and what it decodes from its own file: `python -m tests.containers.write_with_mlx`.

The weights are those of files/original.safetensors. Layers are quantized by `mlx.nn.quantize` and saved by
`mlx.core.save_safetensors`, as mlx-lm does (ml-explore/mlx-lm@d78bf58e: mlx_lm/utils.py, quantize_model and save_model); the
configuration has the two entries that quantize_model makes. Run with mlx 0.32.4.
"""

from __future__ import annotations

import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_unflatten

OUT = Path(__file__).parent / "files"
#: Modes, and what is called of each: the sizes that mlx-lm writes down.
MODES = {"mxfp4": {"group_size": 32, "bits": 4}, "mxfp8": {"group_size": 32, "bits": 8}, "nvfp4": {"group_size": 16, "bits": 4}}


def make_model() -> tuple[nn.Module, dict[str, mx.array]]:
    """The original's linear layers as a tree of modules, and its other tensors."""
    tensors: dict[str, mx.array] = mx.load(str(OUT / "original.safetensors"))
    linear = [n for n in tensors if n.endswith("_proj.weight")]
    layers: list[tuple[str, Any]] = []
    for name in linear:
        layer = nn.Linear(tensors[name].shape[1], tensors[name].shape[0], bias=False)
        layer.weight = tensors[name]
        layers.append((name.removesuffix(".weight"), layer))
    model = nn.Module()
    for name, tree in tree_unflatten(layers).items():
        setattr(model, name, tree)
    return model, {n: x for n, x in tensors.items() if n not in linear}


def write(mode: str) -> None:
    """One checkpoint."""
    model, others = make_model()
    nn.quantize(model, mode=mode, **MODES[mode])
    target = OUT / f"mlx-{mode}"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    stored = {**dict(tree_flatten(model.parameters())), **others}
    mx.save_safetensors(str(target / "model.safetensors"), stored, metadata={"format": "mlx"})
    quantization = {**MODES[mode], "mode": mode}
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "quantization": quantization}
    config["quantization_config"] = quantization
    (target / "config.json").write_text(json.dumps(dict(sorted(config.items())), indent=4), "ascii")
    decoded = {
        n: mx.dequantize(x, stored[n.removesuffix("weight") + "scales"], mode=mode, dtype=mx.float32)
        for n, x in stored.items()
        if n.removesuffix("weight") + "scales" in stored
    }
    mx.save_safetensors(str(target / "decoded.safetensors"), decoded)
    (target / "written_by.json").write_text(json.dumps({"mlx": version("mlx")}, indent=1) + "\n", "ascii")
    print(target.name, len(decoded), sorted((n, str(x.dtype), x.shape) for n, x in stored.items() if "q_proj" in n))


if __name__ == "__main__":
    for name in MODES:
        write(name)
