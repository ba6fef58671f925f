"""Writing `BlockTensor`s of memory as a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.blocks import BlockTensor
from mxspec.containers import gguf, safetensors
from mxspec.containers.checkpoint import StoredScales
from mxspec.containers.conventions import MARK_SUFFIX, Form, find_form, list_forms
from mxspec.containers.header import Tensor, round_up
from mxspec.containers.output import OutputFile, check_target, staged
from mxspec.containers.parts import Part, cut, write_part
from mxspec.containers.plain import PLAIN_DTYPES
from mxspec.containers.planning import Scalars, check_gguf_name, check_kind, derive_scalars, place_tensors
from mxspec.containers.problems import ContainerError
from mxspec.tensorscale import TensorScale

Array = npt.NDArray[np.uint8]


def write(
    path: str | Path,
    tensors: Mapping[str, BlockTensor],
    convention: str,
    *,
    input_scales: Mapping[str, TensorScale] | None = None,
    others: Mapping[str, npt.NDArray[Any]] | None = None,
    convert: bool = False,
    force: bool = False,
) -> None:
    """Write tensors, by base name, as one file of a convention.

    Blocks lie along the last axis and fill it. Codes, block scales and tensor scales are written bit for bit; `Checkpoint.read` gives them
    back with the profile by which the convention's library decodes (`Form.profile`), not the one that made them.

    Args:
        path: The file.
        tensors: By base name.
        convention: One of `CONVENTIONS`.
        input_scales: Scales of the layers' inputs, of any kind, by base name, where the convention has a place for them.
        others: Plain tensors, by their full names, such as biases; float32, float16, bfloat16 or float64, written as they are.
        convert: Convert a tensor scale of another kind than the convention's: to the correctly rounded reciprocal, product or quotient,
            after which values can differ in the last bit. Without it such a tensor is refused.
        force: Replace a file that exists.

    Raises:
        ContainerError: The convention cannot hold it; nothing is left of a file that was not finished.
        ValueError: An unknown convention.
        TypeError: Something else than names and BlockTensors.
    """
    path = Path(path)
    if not isinstance(tensors, Mapping):
        raise TypeError(f"tensors is a {type(tensors).__name__}; pass a mapping of base names to BlockTensors")
    for base, tensor in tensors.items():
        if not isinstance(base, str) or not isinstance(tensor, BlockTensor):
            raise TypeError(
                f"tensors[{base!r}] is a {type(tensor).__name__}; pass names as keys and BlockTensors as values"
            )
    for base in tensors:
        _check_unicode(base)
    for name, scale in _items(input_scales):
        if not isinstance(scale, TensorScale):
            raise TypeError(f"input_scales[{name!r}] is a {type(scale).__name__}; pass a TensorScale")
    list_forms(convention or "")
    check_target(path, force=force)
    planned: list[tuple[Form, str, BlockTensor, Scalars]] = []
    stored: list[Tensor] = []
    for base, tensor in tensors.items():
        form = _choose_form(base, tensor, convention)
        if tensor.tensor_scale is not None:
            check_kind(form, tensor.profile, convert=convert)
        given = (input_scales or {}).get(base)
        scales = StoredScales(
            tensor=None if tensor.tensor_scale is None else (tensor.tensor_scale.kind, (tensor.tensor_scale.bits,)),
            inputs=None if given is None else (given.kind, (given.bits,)),
        )
        scalars = derive_scalars(form, scales, base)
        planned.append((form, base, tensor, scalars))
        dtype = form.scales.dtypes[0] if form.scales else ""
        stored += place_tensors(form, base, tensor.shape, scalars, dtype, path, form.mark_text)
    if not stored:
        raise ContainerError("there are no tensors to write")
    plain = _take_plain(others, {t.name for t in stored})
    stored += [Tensor(name, dtype, x.shape, 0, x.nbytes, path) for name, (dtype, x) in plain.items()]
    if planned[0][0].container == "gguf":
        for t in stored:
            check_gguf_name(t.name)
        header, placed = gguf.lay_out(stored, b"", 0, {}, gguf.DEFAULT_ALIGNMENT, path)
        size = round_up(placed[-1].offset + placed[-1].size, gguf.DEFAULT_ALIGNMENT)
    else:
        header, placed = safetensors.lay_out(stored, {}, path)
        size = placed[-1].offset + placed[-1].size
    with staged(path) as scratch:
        output = OutputFile(scratch / path.name, header, placed, size)
        try:
            for form, base, tensor, scalars in planned:
                _write_tensor(output, form, base, tensor, scalars)
            for name, (_, numbers) in plain.items():
                output.write(name, 0, numbers.reshape(-1).view(np.uint8))
        finally:
            output.close()


def _check_unicode(name: str) -> None:
    if name.encode("utf-8", "replace").decode("utf-8") != name:
        raise ContainerError(f"the name {name!r} is not valid Unicode; choose another")


def _take_plain(others: object, taken: set[str]) -> dict[str, tuple[str, npt.NDArray[Any]]]:
    """Plain tensors with the names of their dtypes, in the files' byte order."""
    if others is None:
        return {}
    if not isinstance(others, Mapping):
        raise TypeError(f"others is a {type(others).__name__}; pass a mapping of names to arrays")
    names = {dtype.newbyteorder("="): name for name, dtype in PLAIN_DTYPES.items()}
    found = {}
    for name, given in others.items():
        if not isinstance(name, str) or not isinstance(given, np.ndarray) or given.dtype.newbyteorder("=") not in names:
            kind = f"array of {given.dtype}" if isinstance(given, np.ndarray) else type(given).__name__
            raise TypeError(f"others[{name!r}] is a {kind}; pass names as keys and arrays of float32, float16, bfloat16 or float64")
        _check_unicode(name)
        if name in taken:
            raise ContainerError(f"{name} would be written twice: a block-quantized tensor has that name already")
        dtype = names[given.dtype.newbyteorder("=")]
        found[name] = dtype, np.array(given, PLAIN_DTYPES[dtype], order="C")
    return found


def _items(input_scales: object) -> Iterable[tuple[object, object]]:
    if input_scales is None:
        return ()
    if not isinstance(input_scales, Mapping):
        raise TypeError(
            f"input_scales is a {type(input_scales).__name__}; pass a mapping of base names to TensorScales"
        )
    return input_scales.items()


def _choose_form(base: str, tensor: BlockTensor, convention: str) -> Form:
    form = find_form(convention, tensor.format.name)
    if form is None:
        known = ", ".join(dict.fromkeys(f.format_name for f in list_forms(convention)))
        raise ContainerError(f"{base} is {tensor.format.name}, which {convention} does not store; it stores {known}")
    shape = tensor.shape
    if tensor.axis != len(shape) - 1 or tensor.codes.shape != shape or shape[-1] % form.row_multiple:
        raise ContainerError(
            f"{base} has shape {list(shape)} and blocks along axis {tensor.axis}; {convention} {form.format_name} stores whole "
            f"blocks along the last axis, in rows of a multiple of {form.row_multiple}"
        )
    if len(shape) not in form.ranks:
        ranks = " or ".join(map(str, form.ranks))
        raise ContainerError(f"{base} has shape {list(shape)}; {convention} stores tensors of {ranks} axes")
    obstacle = form.find_obstacle(shape)
    if obstacle is not None:
        raise ContainerError(f"{base} has {obstacle}")
    return form


def _write_tensor(
    output: OutputFile,
    form: Form,
    base: str,
    tensor: BlockTensor,
    scalars: Scalars,
) -> None:
    codes, scales, k = tensor.codes.reshape(-1), tensor.scales.reshape(-1), form.format.k
    for start, stop in cut(tensor.shape, tiled=form.tiled):
        part = Part(start, codes[start:stop], scales[start // k : stop // k])
        for suffix, first, data in write_part(form, tensor.shape, part):
            output.write(base + suffix, first, data)
    for suffix, (_, bits) in scalars.items():
        output.write(base + suffix, 0, np.array(bits, "<u4").view(np.uint8))
    if form.mark_text is not None:
        output.write(base + MARK_SUFFIX, 0, form.mark_text.encode())
