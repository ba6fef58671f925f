"""Write small checkpoints with the libraries themselves, and what each decodes from its own file.

The files are witnesses: nobody of this project wrote them. `compressed-tensors` and `nvidia-modelopt` need torch, so they
are made in an environment of their own and kept; the tests read them and compare with what the library decoded.

    pip install torch==2.13.0 transformers==5.23.0 compressed-tensors==0.20.0 nvidia-modelopt==0.47.0 accelerate
    python tests/containers/write_with_libraries.py
"""

from __future__ import annotations

import json
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

OUT = Path(__file__).parent / "files"
SEED = 20
#: compressed-tensors presets by the name of their format.
PRESETS = {
    "nvfp4-pack-quantized": "NVFP4",
    "mxfp4-pack-quantized": "MXFP4A16",
    "mxfp6-pack-quantized": "MXFP6A16",
    "mxfp8-quantized": "MXFP8A16",
}


FUSED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))


def make_model() -> LlamaForCausalLM:
    """A Llama with one layer of 64 channels."""
    torch.manual_seed(SEED)
    config = LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        vocab_size=32, max_position_embeddings=32, tie_word_embeddings=False, architectures=["LlamaForCausalLM"],
    )  # fmt: skip
    return LlamaForCausalLM(config).to(torch.bfloat16)


def calibrate(model: Any) -> None:
    """One forward pass on fixed tokens."""
    with torch.no_grad():
        model(torch.arange(32)[None])


def keep(folder: Path, name: str, decoded: dict[str, torch.Tensor], library: str) -> None:
    """Keep the checkpoint and the values that the library decodes."""
    target = OUT / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for file in ("model.safetensors", "config.json", "hf_quant_config.json"):
        if (folder / file).exists():
            shutil.copy(folder / file, target / file)
    save_file(decoded, target / "decoded.safetensors")
    stamp = {p: version(p) for p in (library, "torch", "transformers", "safetensors")}
    (target / "written_by.json").write_text(json.dumps(stamp, indent=1) + "\n", "ascii")
    print(name, {k: (str(v.dtype), list(v.shape)) for k, v in load_file(folder / "model.safetensors").items() if "q_proj" in k})


def write_compressed_tensors(fmt: str) -> None:
    """A model compressed by compressed-tensors; the observers' work (minimum and maximum) is done here."""
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import QuantizationConfig, QuantizationStatus, apply_quantization_config
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    model = make_model()
    config = QuantizationConfig(config_groups={PRESETS[fmt]: ["Linear"]}, ignore=["lm_head"], quantization_status=QuantizationStatus.FROZEN)
    apply_quantization_config(model, config)
    for name, module in model.named_modules():
        scheme = getattr(module, "quantization_scheme", None)
        if scheme is None or not hasattr(module, "weight_scale"):
            continue
        weight, args = module.weight.data, scheme.weights
        blocks = weight.reshape(weight.shape[0], -1, args.group_size)
        low, high = blocks.amin(-1), blocks.amax(-1)
        gparam = None
        if hasattr(module, "weight_global_scale"):
            # Layers that loaders fuse share one scale, as llm-compressor makes it.
            parent, _, own = name.rpartition(".")
            fused = next(f for f in (*FUSED, (own,)) if own in f)
            weights = [model.get_submodule(f"{parent}.{n}").weight.data for n in fused]
            gparam = generate_gparam(min(w.min() for w in weights), max(w.max() for w in weights))
            module.weight_global_scale.data = gparam
        if hasattr(module, "input_global_scale"):
            module.input_global_scale.data = generate_gparam(torch.tensor(-2.7), torch.tensor(3.1))
        scale, _ = calculate_qparams(low, high, args, global_scale=gparam)
        module.weight_scale.data = scale
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        model.save_pretrained(folder)
        compressor.update_config(folder)
        compressor.decompress_model(model)
        decoded = {
            f"{n}.weight": m.weight.detach().contiguous()
            for n, m in model.named_modules()
            if getattr(m, "quantization_scheme", None) is not None
        }
        keep(folder, f"compressed-tensors-{fmt}", decoded, "compressed-tensors")


def write_modelopt() -> None:
    """A model quantized and exported by ModelOpt; decoded by its NVFP4QTensor."""
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint
    from modelopt.torch.quantization.qtensor import NVFP4QTensor

    model = make_model()
    mtq.quantize(model, mtq.NVFP4_DEFAULT_CFG, calibrate)
    with tempfile.TemporaryDirectory() as scratch, torch.inference_mode():
        folder = Path(scratch)
        export_hf_checkpoint(model, export_dir=folder)
        stored = load_file(folder / "model.safetensors")
        decoded = {}
        for name in [n for n in stored if n.endswith(".weight_scale_2")]:
            base = name.removesuffix(".weight_scale_2")
            packed = stored[f"{base}.weight"]
            q = NVFP4QTensor(torch.Size((packed.shape[0], packed.shape[1] * 2)), torch.float32, packed)
            decoded[f"{base}.weight"] = q.dequantize(
                dtype=torch.float32, fast=False, scale=stored[f"{base}.weight_scale"], double_scale=stored[name],
                block_sizes={-1: 16},
            ).contiguous()  # fmt: skip
        keep(folder, "modelopt-nvfp4", decoded, "nvidia-modelopt")


if __name__ == "__main__":
    # What all of them were made from, for `lint --against`.
    save_file({n: x.contiguous() for n, x in make_model().state_dict().items()}, OUT / "original.safetensors", {"format": "pt"})
    for form in PRESETS:
        write_compressed_tensors(form)
    write_modelopt()
