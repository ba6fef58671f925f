"""Load what `mxspec quantize` makes with transformers and compressed-tensors, on the CPU, and compare every value.

In the environment of write_with_libraries.py, with mxspec on its path:

    python tests/containers/load_with_libraries.py [--json reports/containers/loaded.json]

The original is files/original.safetensors: a Llama of one layer. For each format its weights are quantized into the library's
convention, loaded and decompressed by the library, and compared bit for bit, in bfloat16, with what `mxspec dequantize` writes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from transformers.utils.quantization_config import CompressedTensorsConfig

from mxspec.containers import dequantize_checkpoint, quantize_checkpoint
from mxspec_lab.evidence.status import write_result

FILES = Path(__file__).parent / "files"
WAYS = (
    ("mxfp4", "mx-floor"), ("mxfp4", "mx-rceil"), ("mxfp6_e2m3", "mx-floor"), ("mxfp8_e4m3", "mx-even"), ("nvfp4", "nvfp4-te"),
    ("nvfp4", "nvfp4-paper"),
)  # fmt: skip


def make_original(folder: Path) -> Path:
    """A folder with the original and a configuration that says nothing of quantization."""
    folder.mkdir()
    shutil.copy(FILES / "original.safetensors", folder / "model.safetensors")
    config = json.loads((FILES / "compressed-tensors-mxfp4-pack-quantized/config.json").read_text("utf-8"))
    del config["quantization_config"]
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return folder


def compare(original: Path, scratch: Path, fmt: str, profile: str) -> dict[str, Any]:
    """One format and profile, there and back."""
    out, plain = scratch / f"{fmt}-{profile}", scratch / f"{fmt}-{profile}-plain"
    done = quantize_checkpoint(original, out, fmt, "compressed-tensors", profile=profile, convert=True)
    dequantize_checkpoint(out, plain, dtype="bfloat16")
    config = CompressedTensorsConfig(run_compressed=False)
    model = AutoModelForCausalLM.from_pretrained(out, quantization_config=config, dtype=torch.bfloat16)
    due, found = load_file(plain / "model.safetensors"), model.state_dict()
    values = different = 0
    for name, x in due.items():
        y = found[name]
        assert (y.dtype, y.shape) == (x.dtype, x.shape), name
        values += x.numel()
        different += int((x.view(torch.int16) != y.view(torch.int16)).sum())
    return {
        "format": fmt, "profile": profile, "quantized": done.elements, "tensors": len(due), "values": values,
        "different": different,
    }  # fmt: skip


def main() -> int:
    """Compare and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("reports/containers/loaded.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        original = make_original(Path(scratch) / "original")
        rows = [compare(original, Path(scratch), fmt, profile) for fmt, profile in WAYS]
    document = {
        "command": "python tests/containers/load_with_libraries.py",
        "versions": {p: version(p) for p in ("compressed-tensors", "transformers", "torch", "safetensors")},
        "what": "values of bfloat16 that the library decodes, and how many are not those of mxspec dequantize",
        "loaded": rows,
    }
    write_result(options.json, document)
    for row in rows:
        print(row)
    return int(any(r["different"] for r in rows))


if __name__ == "__main__":
    raise SystemExit(main())
