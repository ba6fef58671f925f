"""Writing `BlockTensor`s of memory as a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.blocks import BlockTensor
from mxspec.containers.checkpoint import StoredScales
from mxspec.containers.conventions import Form, Scalars, check_shape, list_forms, require_form
from mxspec.containers.header import Preamble, Tensor
from mxspec.containers.parts import Chunk, Part, cut, write_part, write_scalars
from mxspec.containers.pipeline import Item, Step, plan_file, write_files
from mxspec.containers.plain import PLAIN_DTYPES
from mxspec.containers.problems import ContainerError
from mxspec.containers.resuming import check_target, staged
from mxspec.containers.scalars import check_kind, derive_scalars
from mxspec.tensorscale import TensorScale


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
        raise TypeError(f"tensors is of type {type(tensors).__name__}; pass a mapping of base names to BlockTensors")
    for base, tensor in tensors.items():
        if not isinstance(base, str) or not isinstance(tensor, BlockTensor):
            raise TypeError(f"tensors[{base!r}] is of type {type(tensor).__name__}; pass names as keys and BlockTensors as values")
    for base in tensors:
        _check_unicode(base)
    for name, scale in _items(input_scales):
        if not isinstance(scale, TensorScale):
            raise TypeError(f"input_scales[{name!r}] is of type {type(scale).__name__}; pass a TensorScale")
    forms = list_forms(convention or "")
    check_target(path, force=force)
    items = [_make_item(base, tensor, convention, (input_scales or {}).get(base), convert=convert) for base, tensor in tensors.items()]
    if not items:
        raise ContainerError("there are no tensors to write")
    for name, (dtype, x) in _take_plain(others, {t.name for i in items for t in i.stored}).items():
        stored = Tensor(name, dtype, x.shape, 0, x.nbytes, path)
        items.append(Item(name, name, stored, (stored,), partial(_list_plain, name, x)))
    file = plan_file(path.name, Preamble(forms[0].container), items)
    with staged(path) as journal:
        write_files([file], journal.folder, journal)


def _check_unicode(name: str) -> None:
    if name.encode("utf-8", "replace").decode("utf-8") != name:
        raise ContainerError(f"the name {name!r} is not valid Unicode; choose another")


def _take_plain(others: object, taken: set[str]) -> dict[str, tuple[str, npt.NDArray[Any]]]:
    """Plain tensors with the names of their dtypes, in the files' byte order."""
    if others is None:
        return {}
    if not isinstance(others, Mapping):
        raise TypeError(f"others is of type {type(others).__name__}; pass a mapping of names to arrays")
    names = {dtype.newbyteorder("="): name for name, dtype in PLAIN_DTYPES.items()}
    found = {}
    for name, given in others.items():
        if not isinstance(name, str) or not isinstance(given, np.ndarray) or given.dtype.newbyteorder("=") not in names:
            kind = f"ndarray of {given.dtype}" if isinstance(given, np.ndarray) else type(given).__name__
            raise TypeError(f"others[{name!r}] is of type {kind}; pass names as keys and arrays of float32, float16, bfloat16 or float64")
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
        raise TypeError(f"input_scales is of type {type(input_scales).__name__}; pass a mapping of base names to TensorScales")
    return input_scales.items()


def _make_item(base: str, tensor: BlockTensor, convention: str, given: TensorScale | None, *, convert: bool) -> Item:
    form, shape = require_form(convention, tensor.format.name, base), tensor.shape
    padded = form.padded(shape)
    fits = tensor.codes.shape == shape if form.grid is None else tensor.codes.shape[-1:] == padded[-1:]
    if tensor.axis != len(shape) - 1 or not fits or shape[-1] % form.row_multiple:
        raise ContainerError(
            f"{base} has shape {list(shape)} and blocks along axis {tensor.axis}; {convention} {form.format_name} stores whole "
            f"blocks along the last axis, in rows of a multiple of {form.row_multiple}"
        )
    check_shape(form, base, shape)
    _check_grid(form, base, tensor)
    if tensor.tensor_scale is not None:
        check_kind(form, tensor.profile, convert=convert)
    scalars = derive_scalars(form, StoredScales.of(tensor.tensor_scale, given), base)
    stored = tuple(form.list_stored(base, shape, scalars, form.mark_text))
    return Item(base, base, stored[0], stored, partial(_list_steps, base, tensor, form, scalars))


def _check_grid(form: Form, base: str, tensor: BlockTensor) -> None:
    """Raise ContainerError where the blocks of a tile, which is stored with one scale, have several."""
    if form.grid is None or not tensor.scales.size:
        return
    rows, columns = (np.searchsorted(places, places) for places in form.list_places(*tensor.scales.shape))
    if (tensor.scales[rows[:, None], columns] != tensor.scales).any():
        raise ContainerError(
            f"{base} has blocks of several scales where {form.name} stores one; quantize with block=(128, 128), or use another convention"
        )


def _list_steps(base: str, tensor: BlockTensor, form: Form, scalars: Scalars) -> Iterator[Step]:
    codes, scales, k = tensor.codes.reshape(-1), tensor.scales.reshape(-1), form.format.k
    for start, stop in cut(form.padded(tensor.shape), by_rows=form.by_rows):
        part = Part(start, codes[start:stop], scales[start // k : stop // k])
        yield stop - start, partial(write_part, form, base, tensor.shape, part)
    yield 0, partial(write_scalars, base, scalars, form.mark_text)


def _list_plain(name: str, numbers: npt.NDArray[Any]) -> Iterator[Step]:
    chunk: Chunk = (name, 0, numbers.reshape(-1).view(np.uint8))
    yield numbers.nbytes, lambda: [chunk]
