"""Write small checkpoints with comfy-kitchen's tensors, and what it decodes from them.

The weights are those of files/original.safetensors; the tensors and their names are what `QuantizedTensor.state_dict` gives. The
marks (`.comfy_quant`) are ComfyUI's, which is no package: they follow Comfy-Org/ComfyUI@0271a469: comfy/ops.py, which reads and
writes them. One layer has an entry that other conventions do not know (`full_precision_matrix_mult`).

    pip install torch==2.13.0 safetensors==0.8.0 comfy-kitchen==0.2.40
    python tests/containers/write_with_comfy_kitchen.py
"""

from __future__ import annotations

import json
import shutil
from importlib.metadata import version
from pathlib import Path

import comfy_kitchen as ck
import torch
from comfy_kitchen.tensor import QuantizedTensor
from safetensors.torch import load_file, save_file

OUT = Path(__file__).parent / "files"
LAYOUTS = {"nvfp4": "TensorCoreNVFP4Layout", "mxfp8": "TensorCoreMXFP8Layout"}


def write(mark: str, layout: str) -> None:
    """One checkpoint."""
    stored: dict[str, torch.Tensor] = {}
    decoded: dict[str, torch.Tensor] = {}
    for name, x in load_file(OUT / "original.safetensors").items():
        if not name.endswith("_proj.weight"):
            stored[name] = x
            continue
        made = QuantizedTensor.from_float(x, layout)
        stored.update({n: t.contiguous() for n, t in made.state_dict(name).items()})
        says: dict[str, object] = {"format": mark}
        if "down_proj" in name:
            says["full_precision_matrix_mult"] = True
        stored[name.removesuffix("weight") + "comfy_quant"] = torch.tensor(list(json.dumps(says).encode()), dtype=torch.uint8)
        codes, scales = stored[name], stored[f"{name}_scale"]
        decoded[name] = (
            ck.dequantize_nvfp4(codes, stored[f"{name}_scale_2"], scales, torch.float32)
            if mark == "nvfp4"
            else ck.dequantize_mxfp8(codes, scales, torch.float32)
        )
    target = OUT / f"comfy-kitchen-{mark}"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    save_file(stored, target / "model.safetensors", {"format": "pt"})
    save_file(decoded, target / "decoded.safetensors")
    stamp = {p: version(p) for p in ("comfy-kitchen", "torch", "safetensors")}
    (target / "written_by.json").write_text(json.dumps(stamp, indent=1) + "\n", "ascii")
    print(target.name, {n: (str(x.dtype), list(x.shape)) for n, x in stored.items() if "k_proj" in n})


if __name__ == "__main__":
    for fmt, kind in LAYOUTS.items():
        write(fmt, kind)
