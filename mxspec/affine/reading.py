"""Affine weights of MLX's checkpoints: `BASE.weight` (U32 words), `BASE.scales`, `BASE.biases`, and config.json in the same folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine.formats import GROUPS
from mxspec.affine.weights import QuantizedWeights
from mxspec.containers.checkpoint import Checkpoint, open_checkpoint, read_json
from mxspec.containers.header import Tensor, read_at
from mxspec.elements import output_dtype

#: What MLX has in addition to the group sizes.
_BITS = (2, 3, 4, 5, 6, 8)
_FLOATS = {"F16": "float16", "BF16": "bfloat16", "F32": "float32"}
_PARTS = ("weight", "scales", "biases")


def list_mlx_weights(path: str | Path) -> tuple[str, ...]:
    """The names, without `.weight`, of all affine weights of a safetensors file or a folder of them.

    Raises ContainerError for what is no checkpoint.
    """
    tensors = open_checkpoint(path).tensors
    bases = (name.removesuffix(".weight") for name, t in tensors.items() if name.endswith(".weight") and t.dtype == "U32")
    return tuple(base for base in bases if all(f"{base}.{part}" in tensors for part in _PARTS))


def read_mlx_weights(path: str | Path, base: str, *, group_size: int | None = None, bits: int | None = None) -> QuantizedWeights:
    """One weight matrix, with scales and biases in the dtype in which they are stored.

    Args:
        path: A safetensors file, or a folder of them.
        base: The name without `.weight`.
        group_size: Values in a group; default: what config.json next to the file says, or what follows from `bits`.
        bits: Of a code; the same.

    Raises:
        ContainerError: The checkpoint cannot be read.
        ValueError: It has no such weights, they are no matrix, or group size and bits are not known: the shapes give their
            product alone.
        TypeError: Parts have other dtypes than MLX writes.
    """
    checkpoint = open_checkpoint(path)
    parts = _find(checkpoint, base, path)
    words, scales = parts[0], parts[1]
    if len(words.shape) != 2 or len(scales.shape) != 2 or scales.shape[1] == 0:
        raise ValueError(f"{words.name} has shape {words.shape}, its scales {scales.shape}; a matrix [K, words] can be read")
    config = _read_config(Path(path), base)
    group_size, bits = group_size or config.get("group_size"), bits or config.get("bits")
    product, rest = divmod(words.shape[1] * 32, scales.shape[1])
    known = [(g, b) for g in GROUPS for b in _BITS if g * b == product and group_size in (None, g) and bits in (None, b)]
    if rest or not known:
        raise ValueError(
            f"{base}: {words.shape[1]} words and {scales.shape[1]} groups to a row do not fit groups of {group_size or 'any size'} "
            f"and {bits or 'any'} bits"
        )
    if len(known) > 1:
        listed = ", ".join(f"{b} bits in groups of {g}" for g, b in known)
        raise ValueError(f"{base} may have {listed}; pass bits or group_size, which MLX writes into config.json")
    ((group, width),) = known
    arrays = [_read(t) for t in parts]
    return QuantizedWeights(arrays[0], arrays[1], arrays[2], group, width)


def _find(checkpoint: Checkpoint, base: str, path: str | Path) -> list[Tensor]:
    missing = [f"{base}.{part}" for part in _PARTS if f"{base}.{part}" not in checkpoint.tensors]
    if missing:
        known = list_mlx_weights(path)
        shown = f"{', '.join(known[:4])}{' ...' if len(known) > 4 else ''}" if known else "no affine weights"
        raise ValueError(f"{path} has no {missing[0]}; it holds {shown}")
    return [checkpoint.tensors[f"{base}.{part}"] for part in _PARTS]


def _read_config(path: Path, base: str) -> dict[str, int]:
    """Group size and bits of a layer, as far as config.json says."""
    place = (path if path.is_dir() else path.parent) / "config.json"
    if not place.is_file():
        return {}
    whole = read_json(place, "config.json").get("quantization")
    if not isinstance(whole, dict):
        return {}
    own = whole.get(base)
    found = {**whole, **(own if isinstance(own, dict) else {})}
    if found.get("mode", "affine") != "affine":
        raise ValueError(f"config.json says mode {found['mode']!r} of {base}; affine weights have biases. Read it with mxspec.containers")
    return {key: found[key] for key in ("group_size", "bits") if isinstance(found.get(key), int)}


def _read(tensor: Tensor) -> npt.NDArray[Any]:
    if tensor.dtype == "U32":
        dtype = np.dtype("<u4")
    elif tensor.dtype in _FLOATS:
        dtype = output_dtype(_FLOATS[tensor.dtype])
    else:
        raise TypeError(f"{tensor.name} is {tensor.dtype}; MLX writes U32 words, and scales and biases as {', '.join(_FLOATS)}")
    return np.frombuffer(read_at(tensor, 0, tensor.size), dtype).reshape(tensor.shape)
