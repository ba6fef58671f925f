"""Rules about 4-bit integers (GPTQ, AWQ, compressed-tensors) and 2:4 metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mxspec.containers.header import Tensor, read_at
from mxspec_conformance.lint.rules import Finding, find
from mxspec_conformance.lint.subject import Subject

_RUN = 1 << 22
_MINUS_EIGHT = 0  # the value plus eight
#: Words of eight zero points of a symmetric checkpoint: 8, stored less one by gptq and as it is by gptq_v2.
_ZEROS = {"gptq": 0x77777777, "gptq_v2": 0x88888888}
#: Ordered pairs of positions, 4 x second + first.
LEGAL_NIBBLES = (4, 8, 9, 12, 13, 14)
_METADATA_SUFFIXES = (".meta", "_meta", ".metadata", "_metadata")
_METADATA_DTYPES = ("U8", "I8", "U16", "I16", "U32", "I32")


@dataclass(frozen=True, slots=True)
class _Layer:
    """One linear layer of GPTQ or AWQ."""

    base: str
    #: "gptq" or "awq", by its shapes.
    method: str
    groups: int
    zeros: Tensor
    index: Tensor | None


def _runs(tensor: Tensor) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
    for start in range(0, tensor.size, _RUN):
        yield start, np.frombuffer(read_at(tensor, start, min(_RUN, tensor.size - start)), np.uint8)


def _find_layers(tensors: Mapping[str, Tensor]) -> Iterator[_Layer | Finding]:
    for name, weight in tensors.items():
        if not name.endswith(".qweight") or weight.dtype != "I32":
            continue
        base = name.removesuffix("qweight")
        zeros, scales = tensors.get(base + "qzeros"), tensors.get(base + "scales")
        if zeros is None or scales is None:
            continue
        shapes = f"qweight {list(weight.shape)}, qzeros {list(zeros.shape)}, scales {list(scales.shape)}"
        method = None
        if len(weight.shape) == len(zeros.shape) == len(scales.shape) == 2:
            columns, groups = scales.shape[1], scales.shape[0]
            if zeros.shape == (groups, columns // 8) and columns % 8 == 0 and zeros.dtype == "I32":
                method = {columns: "gptq", columns // 8: "awq"}.get(weight.shape[1])
        if method is None:
            yield find("int4/shape", shapes, weight)
        else:
            yield _Layer(base, method, scales.shape[0], zeros, tensors.get(base + "g_idx"))


def has_four_bits(subject: Subject) -> bool:
    """Whether the configuration says nothing else than four bits."""
    return bool((subject.quantization or {}).get("bits", 4) == 4)


def check_layers(subject: Subject) -> Iterator[Finding]:
    """Shapes, method, zero points and g_idx of GPTQ and AWQ layers."""
    if not has_four_bits(subject):
        return
    said = str((subject.quantization or {}).get("quant_method", ""))
    for layer in _find_layers(subject.checkpoint.tensors):
        if isinstance(layer, Finding):
            # Of other sizes than four bits, where no configuration says so.
            if (layer.tensor or "").removesuffix(".qweight") not in subject.affine.groups:
                yield layer
            continue
        if said in ("gptq", "awq") and said != layer.method:
            text = f"the configuration says {said}, the shapes are those of {layer.method}"
            yield find("int4/method", text, f"{layer.base}qweight")
        elif layer.method == "gptq":
            yield from _check_zeros(subject, layer)
            yield from _check_index(subject, layer)


def _check_zeros(subject: Subject, layer: _Layer) -> Iterator[Finding]:
    """Zero points of symmetric checkpoints tell which format they are in."""
    said = str((subject.quantization or {}).get("checkpoint_format", "gptq"))
    words = {int(w) for _, run in _runs(layer.zeros) for w in np.unique(run.view("<u4"))[:2]}
    other = next((f for f, word in _ZEROS.items() if words == {word} and f != said), None)
    if said in _ZEROS and other is not None:
        yield find("int4/gptq-zero", f"checkpoint_format is {said}; every zero point is stored as {other} stores 8", layer.zeros)


def _check_index(subject: Subject, layer: _Layer) -> Iterator[Finding]:
    index = layer.index
    if index is None or index.dtype != "I32":
        return
    last, falls = -1, -1
    for start, run in _runs(index):
        values = run.view("<i4")
        outside = np.flatnonzero((values < 0) | (values >= layer.groups))
        if outside.size:
            at = index.offset + start + 4 * int(outside[0])
            yield find("int4/g-idx", f"group {int(values[outside[0]])} of {layer.groups} groups", index, offset=at)
            return
        steps = np.diff(np.concatenate([[last], values]))
        if falls < 0 and (steps < 0).any():
            falls = start + 4 * int(np.flatnonzero(steps < 0)[0])
        last = int(values[-1])
    if falls >= 0 and not (subject.quantization or {}).get("desc_act"):
        yield find("int4/act-order", "g_idx falls, so columns were reordered", index, offset=index.offset + falls)


def check_lowest(subject: Subject) -> Iterator[Finding]:
    """int4 codes of -8 in compressed-tensors' pack-quantized words."""
    for name, tensor in subject.checkpoint.tensors.items():
        if not name.endswith(".weight_packed") or tensor.dtype != "I32" or not _packs_four_bits(subject, tensor):
            continue
        number = 0
        for _, run in _runs(tensor):
            number += int((run & 15 == _MINUS_EIGHT).sum()) + int((run >> 4 == _MINUS_EIGHT).sum())
        if number:
            yield find("int4/lowest", f"{number} codes are -8", tensor)


def _packs_four_bits(subject: Subject, tensor: Tensor) -> bool:
    """Whether the logical shape, which such files store, is eight codes a word."""
    shape = subject.checkpoint.tensors.get(tensor.name.removesuffix("packed") + "shape")
    if shape is None or shape.dtype not in ("I64", "I32") or len(tensor.shape) != 2:
        return False
    values = np.frombuffer(read_at(shape, 0, min(shape.size, 16)), "<i8" if shape.dtype == "I64" else "<i4")
    return values.size == 2 and int(values[1]) == 8 * tensor.shape[1]


def check_nibbles(subject: Subject) -> Iterator[Finding]:
    """Nibbles of 2:4 metadata; layouts move them about, and none changes which are legal."""
    legal = np.isin(np.arange(16), LEGAL_NIBBLES)
    for name, tensor in subject.checkpoint.tensors.items():
        if not name.endswith(_METADATA_SUFFIXES) or tensor.dtype not in _METADATA_DTYPES:
            continue
        number, first = 0, -1
        for start, run in _runs(tensor):
            bad = ~(legal[run & 15] & legal[run >> 4])
            if first < 0 and bad.any():
                first = start + int(np.flatnonzero(bad)[0])
            number += int((~legal[run & 15]).sum()) + int((~legal[run >> 4]).sum())
        if number:
            yield find("sparse/nibble", f"{number} of {2 * tensor.size} nibbles", tensor, offset=tensor.offset + first)


CHECKS = (check_layers, check_lowest, check_nibbles)
