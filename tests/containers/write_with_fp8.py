"""Write small FP8 checkpoints with the libraries themselves, and what each decodes from its own file.

compressed-tensors compresses the model of `write_with_libraries.py` (what it was made from is `files/original.safetensors`): per
tensor, per channel, and in tiles of 128 x 128, of which this model fills none. transformers quantizes two matrices of whole
tiles with the operation with which it saves FP8 models, and decodes them with the one that loads them.

    pip install torch==2.13.0 transformers==5.23.0 compressed-tensors==0.20.0 accelerate
    python -m tests.containers.write_with_fp8
"""

from __future__ import annotations

import json
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import torch
from compressed_tensors.compressors import ModelCompressor
from compressed_tensors.quantization import QuantizationConfig, QuantizationStatus, apply_quantization_config
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors.torch import save_file
from transformers import FineGrainedFP8Config
from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize

from tests.containers.write_with_libraries import make_model

OUT = Path(__file__).parent / "fp8"
#: compressed-tensors presets, and what mxspec calls the convention.
PRESETS = {"fp8-tensor": "FP8", "fp8-channel": "FP8_DYNAMIC", "fp8-block": "FP8_BLOCK"}
SHAPES = {"mlp.up_proj": (384, 128), "mlp.down_proj": (128, 256)}


def stamp(folder: Path, *libraries: str) -> None:
    found = {p: version(p) for p in (*libraries, "torch", "transformers", "safetensors")}
    (folder / "written_by.json").write_text(json.dumps(found, indent=1) + "\n", "ascii")


def write_compressed_tensors(name: str) -> None:
    """A model compressed by compressed-tensors; the observers' work (minimum and maximum) is done here."""
    model = make_model()
    config = QuantizationConfig(
        config_groups={PRESETS[name]: ["Linear"]}, ignore=["lm_head"], quantization_status=QuantizationStatus.FROZEN
    )
    apply_quantization_config(model, config)
    for module in model.modules():
        scheme = getattr(module, "quantization_scheme", None)
        if scheme is None or not hasattr(module, "weight_scale"):
            continue
        weight = module.weight.data
        axes = {"fp8-tensor": (0, 1), "fp8-channel": (1,), "fp8-block": (0, 1)}[name]  # each matrix is a part of one tile
        low, high = weight.amin(axes, keepdim=name != "fp8-tensor"), weight.amax(axes, keepdim=name != "fp8-tensor")
        module.weight_scale.data = calculate_qparams(low, high, scheme.weights)[0].to(module.weight_scale.dtype)
        if hasattr(module, "input_scale"):
            module.input_scale.data = torch.full_like(module.input_scale.data, 0.0069)
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    target = OUT / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        model.save_pretrained(scratch)
        compressor.update_config(scratch)
        for file in ("model.safetensors", "config.json"):
            shutil.copy(Path(scratch) / file, target / file)
    compressor.decompress_model(model)
    decoded = {f"{n}.weight": m.weight.detach().contiguous() for n, m in model.named_modules() if hasattr(m, "quantization_scheme")}
    save_file(decoded, target / "decoded.safetensors")
    stamp(target, "compressed-tensors")


def write_transformers(name: str, scale_fmt: str) -> None:
    """Two matrices by `Fp8Quantize`: one has a tile of zeros, the columns of one are of many sizes."""
    config = FineGrainedFP8Config(scale_fmt=scale_fmt)
    quantize, decode = (op(SimpleNamespace(quantization_config=config)) for op in (Fp8Quantize, Fp8Dequantize))
    torch.manual_seed(7)
    original = {f"model.layers.0.{n}.weight": (torch.randn(s) * 0.02).to(torch.bfloat16) for n, s in SHAPES.items()}
    original["model.layers.0.mlp.up_proj.weight"][128:256] = 0
    original["model.layers.0.mlp.down_proj.weight"] *= torch.logspace(-3, 1, 256).to(torch.bfloat16)
    stored, decoded = {"model.norm.weight": torch.ones(128, dtype=torch.bfloat16)}, {}
    for key, x in original.items():
        made = quantize.convert({key: x})
        stored |= made
        codes, scales = made[key], made[f"{key}_scale_inv"]
        decoded[key] = decode.convert({"weight": [codes], "weight_scale_inv": [scales]})["weight"].to(torch.bfloat16).contiguous()
    target = OUT / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    save_file(stored, target / "model.safetensors", {"format": "pt"})
    save_file(decoded, target / "decoded.safetensors")
    (target / "config.json").write_text(json.dumps({"quantization_config": config.to_dict()}, indent=1) + "\n", "ascii")
    stamp(target)
    save_file(original, OUT / "original.safetensors", {"format": "pt"})


if __name__ == "__main__":
    for form in PRESETS:
        write_compressed_tensors(form)
    write_transformers("fp8", "float")
    write_transformers("fp8-ue8m0", "ue8m0")
