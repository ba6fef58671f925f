"""Small checkpoints for the tests, written by the libraries or by a few lines of NumPy that share nothing with mxspec."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from safetensors import TensorSpec, serialize

FILES = Path(__file__).parent / "files"
#: Folders of checkpoints that the libraries wrote.
LIBRARY_FILES = tuple(sorted(p.name for p in FILES.iterdir() if p.is_dir()))
FP8 = Path(__file__).parent / "fp8"
#: And of those whose scales are a grid.
FP8_FILES = tuple(sorted(p for p in FP8.iterdir() if p.is_dir()))
Bytes = npt.NDArray[np.uint8]
Stored = Mapping[str, tuple[str, Sequence[int], bytes]]

#: safetensors' dtype names and what its writer calls them.
LIBRARY_DTYPES = {
    "BOOL": "bool", "F4": "float4_e2m1fn_x2", "U8": "uint8", "I8": "int8", "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu", "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz", "I16": "int16", "U16": "uint16", "F16": "float16", "BF16": "bfloat16",
    "I32": "int32", "U32": "uint32", "F32": "float32", "C64": "complex64", "F64": "float64", "I64": "int64",
    "U64": "uint64",
}  # fmt: skip


def write_safetensors(path: Path, tensors: Stored, metadata: Mapping[str, str] | None = None) -> Path:
    """A file written by the safetensors package. The writer takes bytes for F4 and makes codes of them."""
    held, specs = [], {}
    for name, (dtype, shape, data) in tensors.items():
        buffer = ctypes.create_string_buffer(data, max(len(data), 1))
        held.append(buffer)
        shape = list(shape)
        if dtype == "F4":
            shape[-1] //= 2
        specs[name] = TensorSpec(dtype=LIBRARY_DTYPES[dtype], shape=shape, data_ptr=ctypes.addressof(buffer), data_len=len(data))
    path.write_bytes(serialize(specs, dict(metadata) if metadata else None))
    return path


def rewrite(path: Path, table: Mapping[str, Any], data: bytes, *, pad: bool = True) -> Path:
    """A safetensors file with this header and these data, whatever they are."""
    text = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8 if pad else 0)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def split_safetensors(path: Path) -> tuple[dict[str, Any], bytes]:
    """Header and data of a safetensors file."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def random_codes(shape: tuple[int, ...], seed: int) -> Bytes:
    """e2m1 codes of every kind, with a 6 in every 16."""
    codes = np.random.default_rng(seed).integers(0, 16, shape, np.uint8)
    codes[..., ::16] = 7
    return codes


def random_scales(shape: tuple[int, ...], seed: int, low: int, high: int) -> Bytes:
    """Scale bytes low to high; the first is `high`."""
    scales = np.random.default_rng(seed).integers(low, high + 1, shape, np.uint8)
    scales.reshape(-1)[0] = high
    return scales


def pack_low(codes: Bytes) -> bytes:
    """Two codes a byte, the first low."""
    return (codes[..., 0::2] | codes[..., 1::2] << 4).tobytes()


def pack_ggml(codes: Bytes, scales: Bytes, k: int, blocks: int) -> Bytes:
    """ggml's rows: `blocks` scale bytes, then for each block k / 2 bytes, element j low and j + k / 2 high."""
    *lead, columns = codes.shape
    halves = codes.reshape(*lead, columns // (k * blocks), blocks, 2, k // 2)
    nibbles = halves[..., 0, :] | halves[..., 1, :] << 4
    bytes_of = np.concatenate([scales.reshape(*lead, -1, blocks), nibbles.reshape(*lead, columns // (k * blocks), -1)], axis=-1)
    return bytes_of.reshape(*lead, -1)


def write_gguf(path: Path, *, alignment: int | None = None, experts: bool = False) -> Path:
    """A file of the gguf package: MXFP4 quantized by it, NVFP4 raw with its companions, and plain tensors."""
    writer = gguf.GGUFWriter(path, "llama")
    if alignment:
        writer.add_custom_alignment(alignment)
    writer.add_uint32("llama.block_count", 1)
    writer.add_array("tokenizer.ggml.tokens", ["a", "bc", "d\u00e9"])
    writer.add_array("some.numbers", [1.5, 2.5])
    x = np.random.default_rng(5).standard_normal((6, 96)).astype(np.float32)
    mx = gguf.quants.quantize(x, gguf.GGMLQuantizationType.MXFP4)
    writer.add_tensor("blk.0.ffn_down.weight", mx, raw_dtype=gguf.GGMLQuantizationType.MXFP4)
    writer.add_tensor("blk.0.attn_norm.weight", np.arange(96, dtype=np.float32))
    shape = (3, 5, 128) if experts else (5, 128)
    codes = random_codes(shape, 1)
    raw = pack_ggml(codes, random_scales((*shape[:-1], 8), 2, 0x20, 0x7E), 16, 4)
    writer.add_tensor("blk.0.ffn_up.weight", raw, raw_dtype=gguf.GGMLQuantizationType.NVFP4)
    count = 3 if experts else 1
    writer.add_tensor("blk.0.ffn_up.scale", np.linspace(1e-4, 3e-4, count, dtype=np.float32))
    writer.add_tensor("blk.0.ffn_up.input_scale", np.linspace(1e-3, 2e-3, count, dtype=np.float32))
    writer.add_tensor("token_embd.weight", np.linspace(0, 1, 7 * 32, dtype=np.float16).reshape(7, 32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def mxfp4_gpt_oss(path: Path, *, experts: int = 2, rows: int = 6, columns: int = 96) -> Path:
    """A gpt-oss file by the safetensors package."""
    codes = random_codes((experts, rows, columns), 3)
    scales = random_scales((experts, rows, columns // 32), 4, 0x60, 0x90)
    blocks = pack_low(codes)
    base = "model.layers.0.mlp.experts.gate_up_proj"
    return write_safetensors(
        path,
        {
            f"{base}_blocks": ("U8", (experts, rows, columns // 32, 16), blocks),
            f"{base}_scales": ("U8", (experts, rows, columns // 32), scales.tobytes()),
            f"{base}_bias": ("BF16", (experts, rows), bytes(2 * experts * rows)),
        },
        {"format": "pt"},
    )


def float32(value: float) -> bytes:
    """Four bytes."""
    return np.float32(value).tobytes()


def nvfp4_parts(base: str, shape: tuple[int, int], seed: int) -> tuple[bytes, bytes]:
    """Packed codes, and row-major scales whose largest is 448, of one NVFP4 tensor."""
    return pack_low(random_codes(shape, seed)), random_scales((shape[0], shape[1] // 16), seed, 0x20, 0x7E).tobytes()


def modelopt_file(path: Path, *, scale: float = 2.7e-5) -> Path:
    """q, k and v of ModelOpt's form, with one tensor scale."""
    tensors: dict[str, tuple[str, Sequence[int], bytes]] = {}
    for seed, (name, rows) in enumerate((("q_proj", 8), ("k_proj", 4), ("v_proj", 4))):
        base = f"model.layers.0.self_attn.{name}"
        codes, scales = nvfp4_parts(base, (rows, 96), seed)
        tensors[f"{base}.weight"] = ("U8", (rows, 48), codes)
        tensors[f"{base}.weight_scale"] = ("F8_E4M3", (rows, 6), scales)
        tensors[f"{base}.weight_scale_2"] = ("F32", (), float32(scale))
        tensors[f"{base}.input_scale"] = ("F32", (), float32(1e-3))
    tensors["model.norm.weight"] = ("BF16", (96,), bytes(192))
    return write_safetensors(path, tensors, {"format": "pt"})
