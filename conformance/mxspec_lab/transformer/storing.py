"""Formats of weights: each quantizes the model into a container, and reads what the container holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import mxspec
from mxspec import affine, containers, layouts
from mxspec.affine.reading import read_mlx_weights
from mxspec.affine.weights import QuantizedWeights
from mxspec.containers.checkpoint import interpret_scales, read_bits
from mxspec.containers.header import Tensor, read_at
from mxspec.sparsity import SparseTensor
from mxspec.tensorscale import TensorScale
from mxspec_lab.model_level import list_gguf
from mxspec_lab.transformer.loaders import SPARSE_LAYOUTS, Packed
from mxspec_lab.transformer.network import MATRICES, Floats

Parameters = Mapping[str, Floats]
_DTYPES = {"uint8": "U8", "uint32": "U32", "float16": "F16", "bfloat16": "BF16", "float32": "F32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """A matrix that a library decoded: its numbers, and the bytes that it takes in the container."""

    numbers: Floats
    bytes: int


Matrix = Packed | Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A way to store the model's matrices."""

    format: str
    rule: str
    #: The container's convention.
    convention: str
    #: The checkpoint of plain numbers, its parameters, and a folder that is empty -> what was written.
    write: Callable[[Path, Parameters, Path], Path]
    read: Callable[[Path], dict[str, Matrix]]
    note: str = ""

    @property
    def name(self) -> str:
        """Format and rule."""
        return f"{self.format}, {self.rule}"


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> Path:
    """A safetensors file of arrays of the types that plain, MLX's and sparse weights are made of."""
    table: dict[str, Any] = {}
    end = 0
    for name, x in arrays.items():
        table[name] = {"dtype": _DTYPES[x.dtype.name], "shape": list(x.shape), "data_offsets": [end, end + x.nbytes]}
        end += x.nbytes
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(np.ascontiguousarray(x).tobytes() for x in arrays.values()))
    return path


def _read_array(tensor: Tensor) -> npt.NDArray[Any]:
    dtypes: dict[str, Any] = {stored: getattr(ml_dtypes, name, name) for name, stored in _DTYPES.items()}
    return np.frombuffer(read_at(tensor, 0, tensor.size), np.dtype(dtypes.get(tensor.dtype, np.uint8))).reshape(tensor.shape)


# Block formats: `mxspec quantize` writes, `mxspec.containers` reads


def _write_blocks(fmt: str, rule: str, convention: str, source: Path, _: Parameters, folder: Path) -> Path:
    out = folder / "model.safetensors"
    include = [f"{name}.weight" for name in MATRICES]
    containers.quantize_checkpoint(source, out, fmt, convention, profile=rule, include=include, convert=True)
    return out


def _read_blocks(path: Path) -> dict[str, Matrix]:
    found: dict[str, Matrix] = {}
    for base, group in containers.open_checkpoint(path).blocks.items():
        assert group.scales is not None
        rows, k = group.shape
        scales = interpret_scales(group.form, {suffix: read_bits(t) for suffix, t in group.scalars.items()})
        found[base] = Packed(
            format=group.form.format_name, layout=group.form.codes.layout, shape=(rows, k),
            codes=np.frombuffer(read_at(group.codes, 0, group.codes.size), np.uint8),
            scales=np.frombuffer(read_at(group.scales, 0, group.scales.size), np.uint8).reshape(rows, -1),
            tensor_scale=None if scales.tensor is None else TensorScale(scales.tensor[0], scales.tensor[1][0]).value,
        )  # fmt: skip
    return found


def _by_blocks(fmt: str, rule: str, convention: str) -> Variant:
    return Variant(format=fmt, rule=rule, convention=convention, write=partial(_write_blocks, fmt, rule, convention), read=_read_blocks)


# Affine integers, as MLX stores them


def _write_affine(group: int, _: Path, parameters: Parameters, folder: Path) -> Path:
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name in MATRICES:
        w = QuantizedWeights.from_tensor(affine.quantize(parameters[name], bits=4, group=group, scale_dtype="bfloat16"))
        arrays |= {f"{name}.weight": w.weight, f"{name}.scales": w.scales, f"{name}.biases": w.biases}
    (folder / "config.json").write_text(json.dumps({"quantization": {"group_size": group, "bits": 4}}), "ascii")
    return write_arrays(folder / "model.safetensors", arrays)


def _read_affine(path: Path) -> dict[str, Matrix]:
    found: dict[str, Matrix] = {}
    for name in MATRICES:
        w = read_mlx_weights(path, name)
        found[name] = Packed(format=w.format.name, layout="words", shape=w.shape, codes=w.weight, scales=w.scales, biases=w.biases)
    return found


# 2:4


def _write_sparse(_: Path, parameters: Parameters, folder: Path) -> Path:
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name in MATRICES:
        dense = mxspec.quantize(parameters[name], "mxfp4", profile="mx-floor")
        t = SparseTensor.from_blocks(dense)
        values, metadata = layouts.pack(t.kept, SPARSE_LAYOUTS[0]), layouts.pack(t.metadata, SPARSE_LAYOUTS[1])
        rows = t.shape[0]
        arrays |= {
            f"{name}.values": values.view("<u4").reshape(-1, rows), f"{name}.metadata": metadata.view("<u4").reshape(-1, rows),
            f"{name}.scales": dense.scales,
        }  # fmt: skip
    return write_arrays(folder / "model.safetensors", arrays)


def _read_sparse(path: Path) -> dict[str, Matrix]:
    tensors = containers.open_checkpoint(path).tensors
    found: dict[str, Matrix] = {}
    for name in MATRICES:
        values, metadata, scales = (_read_array(tensors[f"{name}.{part}"]) for part in ("values", "metadata", "scales"))
        found[name] = Packed(
            format="mxfp4-2to4", layout="", shape=(scales.shape[0], 32 * scales.shape[1]), codes=values.view(np.uint8).reshape(-1),
            metadata=metadata.view(np.uint8).reshape(-1), scales=scales,
        )  # fmt: skip
    return found


def _write_pruned(_: Path, parameters: Parameters, folder: Path) -> Path:
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name in MATRICES:
        t = SparseTensor.from_dense(parameters[name].astype(ml_dtypes.bfloat16), "bfloat16")
        arrays |= {f"{name}.values": t.kept, f"{name}.metadata": layouts.pack(t.metadata, "nibble-low")}
    return write_arrays(folder / "model.safetensors", arrays)


def _read_pruned(path: Path) -> dict[str, Matrix]:
    tensors = containers.open_checkpoint(path).tensors
    found: dict[str, Matrix] = {}
    for name in MATRICES:
        kept, packed = (_read_array(tensors[f"{name}.{part}"]) for part in ("values", "metadata"))
        metadata = layouts.unpack(packed.reshape(-1), "nibble-low", (kept.shape[0], kept.shape[1] // 2))
        numbers = SparseTensor(kept, metadata, "bfloat16").dequantize(np.float32)
        found[name] = Plain(numbers=np.asarray(numbers, np.float32), bytes=kept.nbytes + packed.nbytes)
    return found


# Baselines of llama.cpp


def write_gguf(path: Path, kind: Any, records: Mapping[str, npt.NDArray[Any]], architecture: str = "mxspec") -> Path:
    """A GGUF file of tensors of one GGMLQuantizationType, by their bases."""
    import gguf

    writer = gguf.GGUFWriter(path, architecture)
    for base, data in records.items():
        writer.add_tensor(f"{base}.weight", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_by_gguf(name: str, quantize: Callable[[Floats, Any], Any], _: Path, parameters: Parameters, folder: Path) -> Path:
    import gguf

    kind = gguf.GGMLQuantizationType[name]
    return write_gguf(folder / "model.gguf", kind, {matrix: quantize(parameters[matrix], kind) for matrix in MATRICES})


def _read_gguf(path: Path) -> dict[str, Matrix]:
    import gguf

    return {
        t.name.removesuffix(".weight"): Plain(
            numbers=np.asarray(gguf.quants.dequantize(t.data, t.tensor_type), np.float32), bytes=int(t.n_bytes)
        )
        for t in gguf.GGUFReader(path).tensors
    }


def list_variants() -> Iterator[Variant]:
    """Every way in which the model is stored; the baselines where gguf is installed."""
    for fmt, convention in (
        ("mxfp4", "compressed-tensors"), ("mxfp6_e2m3", "compressed-tensors"), ("mxfp6_e3m2", "quark"), ("mxfp8_e4m3", "compressed-tensors"),
        ("mxfp8_e5m2", "torch-dtypes"), ("mxint8", "torch-dtypes"),
    ):  # fmt: skip
        for rule in ("mx-floor", "mx-rceil"):
            yield _by_blocks(fmt, rule, convention)
    for rule in ("nvfp4-paper", "nvfp4-te"):
        yield _by_blocks("nvfp4", rule, "modelopt")
    for group in (64, 128):
        yield Variant(
            format=f"int4-g{group}",
            rule="affine, bfloat16 scale and bias",
            convention="mlx",
            write=partial(_write_affine, group),
            read=_read_affine,
        )
    yield Variant(
        format="mxfp4, 2:4", rule="mx-floor", convention="safetensors, Metal Marlin's words", write=_write_sparse, read=_read_sparse,
        note="the two largest codes of four are kept; not trained after pruning",
    )  # fmt: skip
    yield Variant(
        format="bfloat16, 2:4", rule="pruned alone", convention="safetensors, values and nibbles", write=_write_pruned, read=_read_pruned,
        note="what pruning costs by itself",
    )  # fmt: skip
    for name, quantize, rule in list_gguf():
        yield Variant(
            format=name, rule=rule, convention="gguf", write=partial(_write_by_gguf, name, quantize), read=_read_gguf,
            note="baseline: stored and decoded by the gguf package",
        )  # fmt: skip
