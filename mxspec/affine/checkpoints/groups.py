"""Which stored tensors belong together as one tensor of affine integers, and what is wrong where they do not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine.checkpoints.bands import locate, read_rectangle, unpack
from mxspec.affine.checkpoints.forms import CONVENTION_KEY, FLOAT_DTYPES, FORMS, AffineForm, Axis, Extra, Floats, Packed, find_form
from mxspec.affine.formats import MOST_GROUP, AffineFormat, Offset, get_affine
from mxspec.affine.tensor import AffineTensor
from mxspec.containers.checkpoint import FORMAT_KEY, Checkpoint, open_checkpoint, read_json
from mxspec.containers.groups import Doubt, Fault, Misfit, StoredGroup, sort_out
from mxspec.containers.header import Tensor, read_at
from mxspec.containers.problems import ContainerError
from mxspec.containers.text import clip
from mxspec.elements import output_dtype

_NAMES = {stored: name for name, stored in FLOAT_DTYPES.items()}
#: Configurations of a folder, and the entry that speaks of the quantization; None: the whole file.
_CONFIGS = (("config.json", "quantization_config"), ("config.json", "quantization"), ("quantize_config.json", None))
#: Columns that are read: a band holds 32 rows.
MOST_COLUMNS = 1 << 18
#: What MLX has, where nothing in a file tells group and bits apart.
_MLX_GROUPS = (32, 64, 128)


#: Tensors that look like affine integers and do not fit.
AffineDoubt = Doubt


@dataclass(frozen=True, slots=True)
class AffineGroup(StoredGroup[AffineForm]):
    """The stored tensors of one tensor of affine integers, of shape N and K."""

    #: N and K.
    shape: tuple[int, int]
    format: AffineFormat

    @property
    def symmetric(self) -> bool:
        """Whether no zero points are stored, and all are 2^(bits - 1)."""
        return self.form.offsets.suffix not in self.parts

    def read_band(self, rows: tuple[int, int]) -> AffineTensor:
        """Rows of the tensor, as groups of consecutive stored columns.

        Raises ContainerError for a zero point that the convention has no form for.
        """
        fmt, form = self.format, self.form
        if self.symmetric:
            offsets = np.full((rows[1] - rows[0], self.shape[1] // fmt.group), 1 << (fmt.bits - 1), np.uint8)
        else:
            offsets = self.read_part(form.offsets, rows)
        if isinstance(form.offsets, Packed) and int(offsets.max(initial=0)) > fmt.bins:
            tensor = self.parts[form.offsets.suffix]
            raise ContainerError(
                f"{tensor.path}: {clip(tensor.name)} holds {fmt.bins}, which is a zero point of {fmt.bins + 1} less one to some "
                "loaders and of 0 to others; ask who wrote it for checkpoint_format gptq_v2"
            )
        return AffineTensor(format=fmt, codes=self.read_part(form.codes, rows), scales=self.read_part(form.scales, rows), offsets=offsets)

    def read_part(self, part: Packed | Floats, rows: tuple[int, int], dtype: str | None = None) -> npt.NDArray[Any]:
        """Rows of codes, scales or offsets, as they lie if this is how. dtype: of which the bits of floats are; None: the stored one."""
        fmt, (n, k), stored = self.format, self.shape, self.parts[part.suffix]
        across = k if part.suffix == self.form.codes.suffix else k // fmt.group
        found = read_rectangle(stored, locate(part, rows, n, across, fmt))
        if isinstance(part, Packed):
            return unpack(found, part, fmt.bits)
        return np.ascontiguousarray(found.T if part.transposed else found).view(output_dtype(dtype or fmt.dtype))

    def read_order(self) -> npt.NDArray[np.intp] | None:
        """Which stored column each column of the groups is, where `g_idx` puts other columns together; None: they are consecutive.

        Raises ContainerError for an index that names other groups than there are, or gives one more columns than another.
        """
        index, k, group = self._read_index(), self.shape[1], self.format.group
        if index is None or np.array_equal(index, np.arange(k) // group):
            return None
        counts = np.bincount(index, minlength=k // group) if int(index.min()) >= 0 and int(index.max()) < k else np.array([])
        if counts.shape != (k // group,) or np.any(counts != group):
            raise ContainerError(
                f"{self.codes.path}: g_idx of {clip(self.base)} does not give each of {k // group} groups {group} columns, so its tensor is not read"
            )
        return np.argsort(index, kind="stable")

    def names_more_groups(self) -> bool:
        """Whether `g_idx` names a group that is not there."""
        index = self._read_index()
        return index is not None and bool(((index < 0) | (index >= self.shape[1] // self.format.group)).any())

    def _read_index(self) -> npt.NDArray[np.int32] | None:
        tensor = self.parts.get(self.form.extra(Extra.INDEX) or "")
        return None if tensor is None else np.frombuffer(read_at(tensor, 0, tensor.size), "<i4")


@dataclass(frozen=True)
class AffineCheckpoint:
    """A checkpoint's tensors of affine integers; others are as `mxspec.containers` has them."""

    checkpoint: Checkpoint
    #: What the configuration next to it says of its quantization.
    config: Mapping[str, Any]
    #: The convention and the format that it is known to follow.
    convention: str | None = None
    format: AffineFormat | None = None

    @cached_property
    def _sorted(self) -> tuple[dict[str, AffineGroup], tuple[AffineDoubt, ...]]:
        metadata = {h.path: h.metadata for h in self.checkpoint.headers}

        def list_fits(tensor: Tensor) -> Iterator[AffineGroup | AffineDoubt]:
            own = metadata[tensor.path]
            wanted = self.convention or own.get(CONVENTION_KEY) or self._configured
            for form, base in _candidates(tensor, self.checkpoint.tensors):
                if form.convention == wanted or not _same_tensors(form, wanted):
                    yield _fit(form, base, self.checkpoint.tensors, self._hint(base, own))

        taken = {t.name for g in self.checkpoint.blocks.values() for t in g.members}
        found, doubts = sort_out(self.checkpoint.tensors, list_fits, taken)
        return {first.base: first for first, *_ in found}, tuple(doubts)

    @property
    def _configured(self) -> str | None:
        """The convention that the configuration names."""
        said = (self.config.get("quant_method"), self.config.get("checkpoint_format"))
        return next(
            (f.convention for f in FORMS if (f.method, dict(f.config).get("checkpoint_format")) == said and said[1] is not None), None
        )

    def _hint(self, base: str, metadata: Mapping[str, str]) -> dict[str, int]:
        """Bits and group as far as something says them."""
        names = metadata.get(FORMAT_KEY, "").split()
        known = self.format or (find_affine(names[0]) if len(names) == 1 else None)
        if known is not None:
            return {"bits": known.bits, "group": known.group}
        own = self.config.get(base)
        said = {**self.config, **(own if isinstance(own, dict) else {})}
        found = {"bits": said.get("bits"), "group": said.get("group_size")}
        return {key: value for key, value in found.items() if isinstance(value, int) and value > 0}

    @property
    def groups(self) -> Mapping[str, AffineGroup]:
        """Tensors of affine integers by base name."""
        return self._sorted[0]

    @property
    def doubts(self) -> tuple[AffineDoubt, ...]:
        """Tensors that look like affine integers and do not fit."""
        return self._sorted[1]

    @property
    def others(self) -> tuple[Tensor, ...]:
        """Stored tensors that are no part of affine integers."""
        taken = {t.name for g in self.groups.values() for t in g.members}
        return tuple(t for t in self.checkpoint.tensors.values() if t.name not in taken)

    def read(self, base: str) -> AffineTensor:
        """One tensor, whole, in memory; of columns in another order (`g_idx`) those of one group stand together.

        Raises ContainerError for an unknown name, and for a damaged file.
        """
        if base not in self.groups:
            raise ContainerError(f"{self.checkpoint.path} has no affine integers {clip(str(base))!r}; `.groups` lists them")
        group = self.groups[base]
        found, order = group.read_band((0, group.shape[0])), group.read_order()
        return found if order is None else replace(found, codes=np.ascontiguousarray(found.codes[:, order]))


def find_affine(name: str) -> AffineFormat | None:
    """The format of a name, or None where it is none of affine integers."""
    try:
        return get_affine(name)
    except ValueError:
        return None


def _same_tensors(form: AffineForm, convention: str | None) -> bool:
    """Whether another convention, which is known to be the one, has tensors of the same names and shapes."""
    same = (f for f in FORMS if (f.codes, f.scales, f.offsets.suffix) == (form.codes, form.scales, form.offsets.suffix))
    return any(f.convention == convention for f in same)


def _candidates(tensor: Tensor, tensors: Mapping[str, Tensor]) -> Iterator[tuple[AffineForm, str]]:
    for form in FORMS:
        if tensor.dtype != form.codes.dtype or not tensor.name.endswith(form.codes.suffix):
            continue
        base = tensor.name.removesuffix(form.codes.suffix)
        scales = tensors.get(base + form.scales.suffix)
        if base and scales is not None and scales.dtype in _NAMES and (form.symmetric or base + form.offsets.suffix in tensors):
            yield form, base


def _fit(form: AffineForm, base: str, tensors: Mapping[str, Tensor], hint: Mapping[str, int]) -> AffineGroup | AffineDoubt:
    suffixes = (form.codes.suffix, form.scales.suffix, form.offsets.suffix, *(suffix for _, suffix in form.extras))
    parts = {s: tensors[base + s] for s in suffixes if base + s in tensors}
    codes, scales = parts[form.codes.suffix], parts[form.scales.suffix]
    shapes = ", ".join(f"{s} {t.dtype} {list(t.shape)}" for s, t in parts.items())

    def doubt(text: str, misfit: Misfit = Misfit.SHAPE) -> AffineDoubt:
        return Doubt(base, form, tuple(parts.values()), (Fault(misfit, codes.name, f"{text}: {shapes}", codes.offset),))

    if any(len(t.shape) != 2 or 0 in t.shape for t in (codes, scales)):
        return doubt(f"{form.convention} stores matrices")
    n, groups = scales.shape[::-1] if form.scales.transposed else scales.shape
    stated, across = _read_shape(form, base, tensors), codes.shape[0 if form.codes.transposed else 1]
    # Codes along N have a word for each column.
    columns = {b: divmod(across * 32, b) if form.codes.axis is Axis.K else (across, 0) for b in form.bits}
    possible = [
        (AffineFormat(bits=b, group=k // groups, offset=form.offset, dtype=_NAMES[scales.dtype]), k)
        for b, (k, rest) in columns.items()
        if not rest and k % groups == 0 and k // groups <= MOST_GROUP and k <= MOST_COLUMNS and (stated is None or stated == (n, k))
    ]
    fitting = [(f, k) for f, k in possible if _agrees(form, f, (n, k), parts)]
    if form.offset is Offset.BIAS:
        fitting = [(f, k) for f, k in fitting if f.group in _MLX_GROUPS]
    if len(fitting) > 1:
        narrowed = [(f, k) for f, k in fitting if f.bits == hint.get("bits", f.bits) and f.group == hint.get("group", f.group)]
        fitting = narrowed or fitting
    if not fitting:
        return doubt(f"these shapes and dtypes are none of {form.convention}")
    if len(fitting) > 1:
        names = ", ".join(f.name for f, _ in fitting)
        return doubt(f"fits {names} alike; say which it is (--format), or put its config.json next to it", Misfit.AMBIGUOUS)
    ((fmt, k),) = fitting
    return AffineGroup(base, form, (n, k), parts, fmt)


def _read_shape(form: AffineForm, base: str, tensors: Mapping[str, Tensor]) -> tuple[int, ...] | None:
    """N and K where the file says them."""
    tensor = tensors.get(base + (form.extra(Extra.SHAPE) or ""))
    if form.extra(Extra.SHAPE) is None or tensor is None or tensor.dtype not in ("I64", "I32") or tensor.size > 16:
        return None
    return tuple(int(x) for x in np.frombuffer(read_at(tensor, 0, tensor.size), "<i8" if tensor.dtype == "I64" else "<i4"))


def _agrees(form: AffineForm, fmt: AffineFormat, shape: tuple[int, int], parts: Mapping[str, Tensor]) -> bool:
    """Whether every stored tensor has the dtype and the shape that follow."""
    symmetric = form.offsets.suffix not in parts
    if (symmetric and not form.symmetric) or form.find_obstacle(shape, fmt, symmetric=symmetric) is not None:
        return False
    # Shapes are stored as I64 or I32.
    due = {t.name: t for t in form.list_stored("", fmt, shape, symmetric=symmetric) if t.name != form.extra(Extra.SHAPE)}
    return all((t.dtype, t.shape) == (due[s].dtype, due[s].shape) for s, t in parts.items() if s in due)


def open_affine(path: str | Path | Checkpoint, *, convention: str | None = None, fmt: str | AffineFormat | None = None) -> AffineCheckpoint:
    """A checkpoint, and what of it are affine integers.

    Args:
        path: A safetensors file, an index of shards, a folder with one of these, or an open checkpoint.
        convention: Which of several conventions with the same tensors it follows (gptq, gptq-v2); default: what its metadata or
            the configuration next to it say, else the older.
        fmt: Its format, where names and shapes leave bits and group open (MLX); default: the same.

    Only headers, configurations and tensors of a few bytes are read. Raises ContainerError for what is no checkpoint, and
    ValueError for an unknown convention or format.
    """
    checkpoint = path if isinstance(path, Checkpoint) else open_checkpoint(path)
    if convention is not None:
        find_form(convention)
    folder = checkpoint.path if checkpoint.path.is_dir() else checkpoint.path.parent
    return AffineCheckpoint(checkpoint, _read_config(folder), convention, None if fmt is None else get_affine(fmt))


def _read_config(folder: Path) -> dict[str, Any]:
    for name, key in _CONFIGS:
        if not (folder / name).is_file():
            continue
        try:
            whole = read_json(folder / name, "the configuration")
        except ContainerError:  # lint says so
            continue
        found = whole if key is None else whole.get(key)
        if isinstance(found, dict):
            return found
    return {}
