"""Affine integers by the libraries themselves: write small checkpoints, and read what mxspec writes.

    python tests/containers/affine_with_libraries.py write LIBRARY
    python tests/containers/affine_with_libraries.py load LIBRARY [--json reports/containers/affine-LIBRARY.json]

LIBRARY is one of

    auto-round           conventions gptq and gptq-v2 (auto-round 0.16.1: QuantLinear of qlinear_torch_zp and qlinear_torch)
    autoawq              awq (AutoAWQ 0.2.9: WQLinear_GEMM, dequantize_gemm; its sdist unpacked, named by AUTOAWQ)
    compressed-tensors   pack-quantized, symmetric and not (0.20: PackedQuantizationCompressor)
    mlx                  mlx-affine (0.32.4: mx.quantize, mx.dequantize)

each in an environment of its own beside torch 2.13. Weights are two of files/original.safetensors. Scales and zero points are made
by a few lines here (minimum and maximum of each group), codes and words by the library. `load` quantizes by mxspec, lets the
library decode the file, and compares every value with what `mxspec dequantize` writes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import sys
import tempfile
import types
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from mxspec_lab.evidence.status import write_result

FILES = Path(__file__).parent / "files"
OUT = Path(__file__).parent / "affine"
LAYERS = ("model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj")
GROUP = 32
Tensors = dict[str, Any]


def _torch() -> Any:
    return importlib.import_module("torch")


def _weights() -> Tensors:
    found = importlib.import_module("safetensors.torch").load_file(FILES / "original.safetensors")
    return {base: found[f"{base}.weight"].to(_torch().float32) for base in LAYERS}


def _find_parameters(w: Any, bits: int, group: int) -> tuple[Any, Any]:
    """float16 scales and zero points, both [N, K / group], of the range of each group and 0."""
    torch = _torch()
    blocks = w.reshape(w.shape[0], -1, group)
    low, high = blocks.amin(-1).clamp(max=0), blocks.amax(-1).clamp(min=0)
    scales = ((high - low) / (2**bits - 1)).to(torch.float16).to(torch.float32)
    return scales, torch.round(-low / scales).clamp(1, 2**bits - 1)


# --- auto-round -----------------------------------------------------------------------------------------------------

_MODULES = {"gptq": "qlinear_torch_zp", "gptq-v2": "qlinear_torch"}


def _auto_round_layer(convention: str, bits: int, group: int, k: int, n: int, *, index: bool) -> Any:
    module = importlib.import_module(f"auto_round_extension.torch.{_MODULES[convention]}")
    layer = module.QuantLinear(bits, group, k, n, bias=False, g_idx=index)
    layer.device = _torch().device("cpu")  # qlinear_torch reads it and nothing sets it
    return layer


def _auto_round_write(convention: str, bits: int) -> tuple[Tensors, Tensors]:
    torch = _torch()
    stored: Tensors = {}
    decoded: Tensors = {}
    for base, w in _weights().items():
        layer = _auto_round_layer(convention, bits, GROUP, w.shape[1], w.shape[0], index=True)
        linear = torch.nn.Linear(w.shape[1], w.shape[0], bias=False)
        linear.weight.data = w
        layer.pack(linear, *_find_parameters(w, bits, GROUP), device="cpu")
        stored.update({f"{base}.{n}": x.contiguous() for n, x in layer.state_dict().items()})
        decoded[f"{base}.weight"] = _auto_round_decode(layer)
    return stored, decoded


def _auto_round_decode(layer: Any) -> Any:
    """The product with the identity, which adds zeros to one weight at a time."""
    torch = _torch()
    return layer(torch.eye(layer.infeatures, dtype=torch.float16)).T.contiguous()


def _auto_round_read(convention: str, bits: int, group: int, parts: Mapping[str, Any]) -> Any:
    n, k = parts["scales"].shape[1], parts["g_idx"].shape[0]
    # With g_idx its forward pass takes K for the number of scales of a group, and fails where N is larger.
    layer = _auto_round_layer(convention, bits, group, k, n, index=False)
    layer.load_state_dict({name: x for name, x in parts.items() if name != "g_idx"})
    return _auto_round_decode(layer)


# --- AutoAWQ ----------------------------------------------------------------------------------------------------------


def _awq(name: str) -> Any:
    """A module of the unpacked sdist, without what its packages import besides."""
    root = Path(os.environ["AUTOAWQ"]) / "awq"
    for package in ("", ".utils", ".modules", ".modules.linear"):
        made = types.ModuleType(f"awq{package}")
        made.__path__ = [str(root.joinpath(*package.split(".")))]
        sys.modules.setdefault(f"awq{package}", made)
    return importlib.import_module(f"awq.{name}")


def _awq_write(convention: str, bits: int) -> tuple[Tensors, Tensors]:
    torch, gemm = _torch(), _awq("modules.linear.gemm")
    stored: Tensors = {}
    decoded: Tensors = {}
    for base, w in _weights().items():
        linear = torch.nn.Linear(w.shape[1], w.shape[0], bias=False)
        scales, zeros = _find_parameters(w, bits, GROUP)
        shifted = w.reshape(*scales.shape, GROUP) + (zeros * scales)[..., None]
        # The library takes weights that lie on the grid.
        codes = torch.round(shifted / scales[..., None]).clamp(0, 2**bits - 1)
        linear.weight.data = ((codes - zeros[..., None]) * scales[..., None]).reshape(w.shape)
        layer = gemm.WQLinear_GEMM.from_linear(linear, bits, GROUP, scales=scales.t().contiguous(), zeros=zeros.t().contiguous())
        parts = {n: x.contiguous() for n, x in layer.state_dict().items()}
        stored.update({f"{base}.{n}": x for n, x in parts.items()})
        decoded[f"{base}.weight"] = _awq_read(convention, bits, GROUP, parts)
    return stored, decoded


def _awq_read(convention: str, bits: int, group: int, parts: Mapping[str, Any]) -> Any:
    decode = _awq("utils.packing_utils").dequantize_gemm
    return decode(parts["qweight"], parts["qzeros"], parts["scales"], bits, group).T.contiguous()


# --- compressed-tensors -----------------------------------------------------------------------------------------------


def _compressor(bits: int, group: int, *, symmetric: bool) -> tuple[Any, Any]:
    quantization = importlib.import_module("compressed_tensors.quantization")
    packed = importlib.import_module("compressed_tensors.compressors.pack_quantized")
    args = quantization.QuantizationArgs(num_bits=bits, type="int", strategy="group", group_size=group, symmetric=symmetric)
    return packed.PackedQuantizationCompressor, quantization.QuantizationScheme(targets=["Linear"], weights=args)


def _ct_write(convention: str, bits: int, *, symmetric: bool = False) -> tuple[Tensors, Tensors]:
    torch = _torch()
    compressor, scheme = _compressor(bits, GROUP, symmetric=symmetric)
    stored: Tensors = {}
    decoded: Tensors = {}
    for base, w in _weights().items():
        scales, zeros = _find_parameters(w, bits, GROUP)
        if symmetric:
            scales = (w.reshape(*scales.shape, GROUP).abs().amax(-1) / (2 ** (bits - 1) - 0.5)).to(torch.float16).to(torch.float32)
            zeros = torch.full_like(zeros, 2 ** (bits - 1))
        given = {
            "weight": w.to(torch.float16), "weight_scale": scales.to(torch.float16),
            "weight_zero_point": (zeros - 2 ** (bits - 1)).to(torch.int8),
        }  # fmt: skip
        parts = compressor.compress(given, scheme)
        stored.update({f"{base}.{n}": x.contiguous() for n, x in parts.items()})
        decoded[f"{base}.weight"] = _ct_read(convention, bits, GROUP, parts)
    return stored, decoded


def _ct_read(convention: str, bits: int, group: int, parts: Mapping[str, Any]) -> Any:
    compressor, scheme = _compressor(bits, group, symmetric="weight_zero_point" not in parts)
    return compressor.decompress(dict(parts), scheme)["weight"].contiguous()


# --- MLX --------------------------------------------------------------------------------------------------------------


def _mlx_write(convention: str, bits: int) -> tuple[Tensors, Tensors]:
    mx: Any = importlib.import_module("mlx.core")
    weights = mx.load(str(FILES / "original.safetensors"))
    stored: Tensors = {}
    decoded: Tensors = {}
    for base in LAYERS:
        parts = dict(zip(("weight", "scales", "biases"), mx.quantize(weights[f"{base}.weight"], GROUP, bits), strict=True))
        stored.update({f"{base}.{n}": x for n, x in parts.items()})
        decoded[f"{base}.weight"] = _mlx_read(convention, bits, GROUP, parts)
    return stored, decoded


def _mlx_read(convention: str, bits: int, group: int, parts: Mapping[str, Any]) -> Any:
    mx: Any = importlib.import_module("mlx.core")
    return mx.dequantize(parts["weight"], parts["scales"], parts["biases"], group, bits)


# --- all --------------------------------------------------------------------------------------------------------------

Write = Callable[[str, int], tuple[Tensors, Tensors]]
Read = Callable[[str, int, int, Mapping[str, Any]], Any]
#: Of a library: folders to write, with convention and bits; how to write; and files to load.
LIBRARIES: dict[str, tuple[dict[str, tuple[str, int, Write]], Read, tuple[tuple[str, str, str], ...]]] = {
    "auto-round": (
        {
            "gptq-int4": ("gptq", 4, _auto_round_write), "gptq-int3": ("gptq", 3, _auto_round_write),
            "gptq-v2-int4": ("gptq-v2", 4, _auto_round_write),
        },
        _auto_round_read,
        tuple(
            (convention, f"int{bits}-g{group}-zero-float16", profile)
            for convention in ("gptq", "gptq-v2") for bits, group in ((2, 32), (3, 64), (4, 32), (4, 64), (8, 64))
            for profile in ("gptq/asymmetric", "gptq/symmetric")
        ),
    ),
    "autoawq": ({"awq-int4": ("awq", 4, _awq_write)}, _awq_read, tuple(
        ("awq", f"int4-g{group}-zero-float16", profile) for group in (32, 64) for profile in ("awq/float16", "gptq/asymmetric")
    )),
    "compressed-tensors": (
        {
            "pack-quantized-int4": ("pack-quantized", 4, _ct_write),
            "pack-quantized-int4-symmetric": ("pack-quantized", 4, lambda c, b: _ct_write(c, b, symmetric=True)),
        },
        _ct_read,
        tuple(
            ("pack-quantized", f"int{bits}-g{group}-zero-{dtype}", profile)
            for bits, group in ((2, 32), (3, 32), (4, 32), (4, 64), (8, 64)) for dtype in ("float16", "bfloat16")
            for profile in ("gptq/asymmetric", "gptq/symmetric")
        ),
    ),
    "mlx": (
        {"mlx-int4": ("mlx-affine", 4, _mlx_write), "mlx-int6": ("mlx-affine", 6, _mlx_write)},
        _mlx_read,
        tuple(
            ("mlx-affine", f"int{bits}-g{group}-bias-{dtype}", "mlx-0.32/affine/cpu")
            for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64) for dtype in ("float16", "bfloat16")
        ),
    ),
}  # fmt: skip
_PACKAGES = {
    "auto-round": ("auto-round", "torch"),
    "autoawq": ("torch",),
    "compressed-tensors": ("compressed-tensors", "torch"),
    "mlx": ("mlx",),
}


def _io(library: str) -> tuple[Callable[[Tensors, Path], Any], Callable[[Path], Tensors]]:
    if library == "mlx":
        mx: Any = importlib.import_module("mlx.core")
        return (lambda x, path: mx.save_safetensors(str(path), x, metadata={"format": "mlx"})), lambda path: mx.load(str(path))
    files = importlib.import_module("safetensors.torch")
    return (lambda x, path: files.save_file(x, path, {"format": "pt"})), files.load_file


def _configure(convention: str, bits: int) -> dict[str, Any]:
    """What the libraries' own configurations say, as far as it tells one convention or size from another."""
    if convention.startswith("gptq"):
        said = {"quant_method": "gptq", "checkpoint_format": convention.replace("-", "_"), "desc_act": False, "sym": False}
        return {"quantization_config": {**said, "bits": bits, "group_size": GROUP}}
    if convention == "mlx-affine":
        return {"quantization": {"group_size": GROUP, "bits": bits, "mode": "affine"}}
    return {}


def write(library: str) -> None:
    """The files that the tests read."""
    save, _ = _io(library)
    for name, (convention, bits, make) in LIBRARIES[library][0].items():
        stored, decoded = make(convention, bits)
        target = OUT / name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        save(stored, target / "model.safetensors")
        save(decoded, target / "decoded.safetensors")
        config = _configure(convention, bits)
        if config:
            (target / "config.json").write_text(json.dumps(config, indent=1) + "\n", "ascii")
        stamp = {p: version(p) for p in _PACKAGES[library]} | ({"autoawq": "0.2.9"} if library == "autoawq" else {})
        (target / "written_by.json").write_text(json.dumps(stamp, indent=1) + "\n", "ascii")
        print(target.name, {n: (str(x.dtype), tuple(x.shape)) for n, x in stored.items() if "q_proj" in n})


def load(library: str, scratch: Path) -> list[dict[str, Any]]:
    """What the library decodes of files that mxspec wrote, beside `mxspec dequantize`."""
    from mxspec.affine import checkpoints, get_affine

    _, read_file = _io(library)
    rows = []
    for convention, name, profile in LIBRARIES[library][2]:
        out, plain, fmt = scratch / "x.safetensors", scratch / "plain.safetensors", get_affine(name)
        checkpoints.quantize_affine(FILES / "original.safetensors", out, name, convention, profile=profile, force=True)
        found = checkpoints.open_affine(out)
        checkpoints.dequantize_affine(found, plain, dtype=fmt.dtype, force=True)
        held, due = read_file(out), read_file(plain)
        values = different = 0
        for base in found.groups:
            parts = {n.removeprefix(f"{base}."): x for n, x in held.items() if n.startswith(f"{base}.")}
            theirs = LIBRARIES[library][1](convention, fmt.bits, fmt.group, parts)
            ours = due[f"{base}.weight"]
            a, b = _bits(theirs), _bits(ours)
            assert (theirs.dtype, a.shape) == (ours.dtype, b.shape), base
            values += a.size
            different += int((a != b).sum())
        rows.append(
            {
                "convention": convention,
                "format": name,
                "profile": profile,
                "tensors": len(found.groups),
                "values": values,
                "different": different,
            }
        )
    return rows


def _bits(x: Any) -> Any:
    """uint16 of 16-bit numbers of torch or MLX."""
    if type(x).__module__.startswith("mlx"):
        mx: Any = importlib.import_module("mlx.core")
        return np.array(x.view(mx.uint16))
    return x.view(_torch().int16).numpy()


def main() -> int:
    """Write or load."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "load"))
    parser.add_argument("library", choices=list(LIBRARIES))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.what == "write":
        write(options.library)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        rows = load(options.library, Path(scratch))
    versions = {p: version(p) for p in _PACKAGES[options.library]} | ({"autoawq": "0.2.9"} if options.library == "autoawq" else {})
    document = {
        "command": f"python tests/containers/affine_with_libraries.py load {options.library}", "versions": versions,
        "what": "values that the library decodes of files that mxspec wrote, and how many are not those of mxspec dequantize",
        "loaded": rows,
    }  # fmt: skip
    if options.json is not None:
        write_result(options.json, document)
    for row in rows:
        print(row)
    return int(any(r["different"] for r in rows))


if __name__ == "__main__":
    raise SystemExit(main())
