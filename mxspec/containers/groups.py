"""Which stored tensors belong together as one quantized tensor, and what is missing where they do not fit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mxspec.adjacent import register_named
from mxspec.containers.conventions import FORMS, MARK_SUFFIX, BaseForm, CodeShape, Form
from mxspec.containers.header import Tensor, count_items
from mxspec.enums import StrEnum


class Misfit(StrEnum):
    """Ways in which stored tensors do not fit a form."""

    MISSING = "missing"
    DTYPE = "dtype"
    SHAPE = "shape"
    RANK = "rank"
    ROW = "row"
    TILED = "tiled"
    AMBIGUOUS = "ambiguous"
    MARK = "mark"


@dataclass(frozen=True, slots=True)
class Mark:
    """What a file says of one tensor's form."""

    #: The name of the format; "" where that cannot be made out.
    says: str
    #: The tensor that says it; None where the metadata do.
    tensor: Tensor | None = None
    #: What is wrong with it.
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """One misfit: what was found, what is due."""

    misfit: Misfit
    tensor: str
    text: str
    offset: int | None = None


F = TypeVar("F", bound=BaseForm)


@dataclass(frozen=True, slots=True)
class StoredGroup(Generic[F]):
    """The stored tensors of one quantized tensor."""

    base: str
    form: F
    #: Logical shape; the last axis lies along blocks or groups.
    shape: tuple[int, ...]
    #: Stored tensors by suffix, as far as they are there; the codes first.
    parts: Mapping[str, Tensor]

    @property
    def elements(self) -> int:
        """Number of elements."""
        return count_items(self.shape) or 0

    @property
    def codes(self) -> Tensor:
        """Where the codes are."""
        return self.parts[self.form.codes.suffix]

    @property
    def members(self) -> tuple[Tensor, ...]:
        """All stored tensors of the group."""
        return tuple(self.parts.values())


class Group(StoredGroup[Form]):
    """The stored tensors of one block-quantized tensor."""

    __slots__ = ()

    @property
    def padded(self) -> tuple[int, ...]:
        """The shape in whole blocks, in which runs are counted."""
        return self.form.padded(self.shape)

    @property
    def scales(self) -> Tensor | None:
        """The block scales; None where the codes' tensor holds them too."""
        return None if self.form.scales is None else self.parts[self.form.scales.suffix]

    @property
    def scalars(self) -> Mapping[str, Tensor]:
        """float32 scales by suffix."""
        others = (self.form.codes, self.form.scales)
        return {s: t for s, t in self.parts.items() if s != MARK_SUFFIX and all(o is None or s != o.suffix for o in others)}

    @property
    def mark(self) -> Tensor | None:
        """The tensor that says what it is."""
        return self.parts.get(MARK_SUFFIX)


@dataclass(frozen=True, slots=True)
class Doubt:
    """Tensors that look like a form's and do not fit it."""

    base: str
    form: BaseForm
    #: The codes first.
    members: tuple[Tensor, ...]
    faults: tuple[Fault, ...]

    @property
    def tensor(self) -> Tensor:
        """The codes."""
        return self.members[0]

    @property
    def text(self) -> str:
        """What is wrong first."""
        return self.faults[0].text

    @property
    def ambiguous(self) -> bool:
        """Whether it fits more than one format."""
        return self.faults[0].misfit is Misfit.AMBIGUOUS


@dataclass(frozen=True, slots=True)
class Grouping:
    """The tensors of a checkpoint, sorted out."""

    groups: tuple[Group, ...]
    doubts: tuple[Doubt, ...]
    #: Tensors that are no part of a block-quantized one.
    others: tuple[Tensor, ...]


G = TypeVar("G", bound=StoredGroup[Any])


def sort_out(
    tensors: Mapping[str, Tensor], list_fits: Callable[[Tensor], Iterator[G | Doubt]], taken: set[str]
) -> tuple[list[list[G]], list[Doubt]]:
    """Tensors in groups: of each the forms of the first convention that fits it, or else what is wrong with the likeliest.

    list_fits: how a tensor fits every form whose codes it may be. taken: names of tensors that are none; those of groups and doubts
    are added.
    """
    found: list[list[G]] = []
    doubts: list[Doubt] = []
    for tensor in tensors.values():
        if tensor.name in taken:
            continue
        fitting: list[G] = []
        failing: list[Doubt] = []
        for fit in list_fits(tensor):
            if isinstance(fit, Doubt):
                failing.append(fit)
            elif not fitting or fit.form.convention == fitting[0].form.convention:
                fitting.append(fit)
        if fitting:
            found.append(fitting)
            taken.update(t.name for t in fitting[0].members)
        elif failing:
            doubts.append(min(failing, key=lambda d: len(d.faults)))
            taken.update(t.name for t in doubts[-1].members)
    return found, doubts


def group_tensors(
    tensors: Mapping[str, Tensor], container: str, formats: Collection[str] = (), marks: Mapping[str, Mark] | None = None
) -> Grouping:
    """Sort tensors into groups; names decide which form is tried, dtypes and shapes whether it fits.

    formats: the formats that the file is known to hold, where names, dtypes and shapes leave it open. (LightX2V stores
    codes of 4, 6 and 8 bits as the same bytes with padded scales, and short rows fit more than one.)
    marks: what the file says of single tensors, by base name.
    """
    known, taken = marks or {}, set[str]()

    def list_fits(tensor: Tensor) -> Iterator[Group | Doubt]:
        return (fit(form, base, tensors, known.get(base)) for form, base in _candidates(tensor, tensors, container, known))

    found, doubts = sort_out(tensors, list_fits, taken)
    names = [{g.form.format_name for g in several} for several in found]
    certain = set(formats).union(*(n for n in names if len(n) == 1))
    shared = set.intersection(*names) if names else set()
    groups: list[Group] = []
    for several, own in zip(found, names, strict=True):
        for narrowed in (own & set(formats), own & certain, own & shared):
            if len(several) > 1 and len(narrowed) == 1:
                several = [g for g in several if g.form.format_name in narrowed]
        if len(several) == 1:
            groups += several
        else:
            doubts.append(_make_ambiguous(several))
    return Grouping(tuple(groups), tuple(doubts), tuple(t for t in tensors.values() if t.name not in taken))


def _make_ambiguous(several: Sequence[Group]) -> Doubt:
    first = several[0]
    names = " and ".join(f"{g.form.format_name} of shape {list(g.shape)}" for g in several)
    text = f"fits {first.form.convention} {names} alike; say which it is (--format)"
    return Doubt(first.base, first.form, first.members, (Fault(Misfit.AMBIGUOUS, first.codes.name, text, first.codes.offset),))


def _candidates(tensor: Tensor, tensors: Mapping[str, Tensor], container: str, marks: Mapping[str, Mark]) -> Iterator[tuple[Form, str]]:
    for form in FORMS:
        if form.container != container or tensor.dtype not in form.codes.dtypes:
            continue
        if not tensor.name.endswith(form.codes.suffix) or tensor.name == form.codes.suffix:
            continue
        base = tensor.name.removesuffix(form.codes.suffix)
        mark = marks.get(base)
        if (mark is None) != (form.mark is None):
            continue
        if mark.fault or mark.says == form.mark if mark is not None else _is_claimed(form, base, tensor, tensors):
            yield form, base


def _is_claimed(form: Form, base: str, tensor: Tensor, tensors: Mapping[str, Tensor]) -> bool:
    """Whether there is more than a common suffix to say that the tensor is of this form."""
    if form.container == "gguf" or form.codes.suffix == ".weight_packed":
        return True
    assert form.scales is not None
    scales = tensors.get(base + form.scales.suffix)
    if form.grid is not None:
        if scales is None or scales.dtype not in form.scales.dtypes or len(tensor.shape) != 2:
            return False
        return form.holds_scales(scales.shape, tensor.shape) or bool(_misses(form, scales.shape, tensor.shape))
    if scales is not None and scales.dtype in ("U8", "F8_E8M0", "F8_E4M3"):
        return True
    if form.tensor_scale is not None and base + form.tensor_scale.suffix in tensors:
        return True
    return form.codes.shape is CodeShape.BLOCKS and tensor.shape[-1:] == (16,)


def _misses(form: Form, stored: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """What is wrong with the shape of a grid of tiles; "" where it may be one of other tiles, or of none."""
    if form.grid is None or 0 in form.grid or len(stored) != 2 or 0 in (*stored, *shape) or stored[0] in (1, shape[0]):
        return ""
    due, down = form.scale_shape(shape), tuple(n // size for n, size in zip(shape, form.grid, strict=True))
    if stored == due[::-1]:
        return "it is that of [K / 128, N / 128], column by column"
    # Unless tiles of another size have as many.
    others = [{-(-n // (1 << power)) for power in range(4, 13) if power != 7} for n in shape]
    short = all(s == d or (s == f and s not in o) for s, d, f, o in zip(stored, due, down, others, strict=True))
    return "the last tile of an axis, which is partly filled, is left out" if short else ""


def fit(form: Form, base: str, tensors: Mapping[str, Tensor], mark: Mark | None = None) -> Group | Doubt:
    """The group of a base in a form, or why it is none."""
    parts: dict[str, Tensor] = {}
    faults: list[Fault] = []

    def note(misfit: Misfit, tensor: Tensor, text: str) -> None:
        faults.append(Fault(misfit, tensor.name, text, tensor.offset))

    def take(suffix: str, due: str = "") -> Tensor | None:
        """A part; due: what is missing without it."""
        found = tensors.get(base + suffix)
        if found is not None:
            parts[suffix] = found
        elif due:
            faults.append(Fault(Misfit.MISSING, codes.name, f"its {due} not there"))
        return found

    if mark is not None and mark.tensor is not None and mark.fault:
        note(Misfit.MARK, mark.tensor, mark.fault)
    codes = parts[form.codes.suffix] = tensors[base + form.codes.suffix]
    shape = form.logical_shape(codes.shape)
    if codes.dtype not in form.codes.dtypes:
        note(Misfit.DTYPE, codes, f"is {codes.dtype}; {form.name} has {' or '.join(form.codes.dtypes)}")
        shape = None
    elif shape is None or len(shape) not in form.ranks:
        ranks = " or ".join(map(str, form.ranks))
        note(Misfit.RANK, codes, f"shape {list(codes.shape)} is none of {form.name}; codes have {ranks} axes")
        shape = None
    elif shape[-1] % form.row_multiple:
        note(Misfit.ROW, codes, f"rows have {shape[-1]} elements; {form.name} needs a multiple of {form.row_multiple}")
        shape = None
    if form.scales is not None and (scales := take(form.scales.suffix, f"block scales {base}{form.scales.suffix} are")) is not None:
        if scales.dtype not in form.scales.dtypes:
            note(Misfit.DTYPE, scales, f"is {scales.dtype}; {form.name} has {' or '.join(form.scales.dtypes)}")
        if shape is not None and not form.holds_scales(scales.shape, shape):
            text = f"shape {list(scales.shape)} is not the {list(form.scale_shape(shape))} of codes of shape {list(shape)}"
            if form.grid is not None:
                note(Misfit.SHAPE, scales, f"{text}; {_misses(form, scales.shape, shape)}")
            elif len(shape) > 1 and scales.shape == form.tile_shape(shape):
                note(Misfit.TILED, scales, f"{text}; it is that of scales in 128x4 tiles")
            else:
                note(Misfit.SHAPE, scales, text)
    # Each of a stack may have a tensor scale of its own.
    stacked = shape[0] if shape is not None and len(shape) == 3 and form.container == "gguf" else 1
    for scalar in (form.tensor_scale, *form.input_scales):
        if scalar is not None:
            found = take(scalar.suffix, "" if scalar.optional else f"tensor scale {base}{scalar.suffix} is")
            faults += [] if found is None or (form.grid is not None and found.dtype == "BF16") else _check_scalar(found, stacked)
    if form.alpha is not None and (found := take(form.alpha)) is not None:
        faults += _check_scalar(found, 1)
    if mark is not None and mark.tensor is not None:
        parts[MARK_SUFFIX] = mark.tensor
    if faults or shape is None:
        return Doubt(base, form, tuple(parts.values()), tuple(faults))
    register_named([form.format_name])
    return Group(base, form, shape, parts)


def _check_scalar(tensor: Tensor, stacked: int) -> Iterator[Fault]:
    if tensor.dtype != "F32":
        yield Fault(Misfit.DTYPE, tensor.name, f"is {tensor.dtype}; a tensor scale is F32", tensor.offset)
    elif count_items(tensor.shape) not in (1, stacked):
        due = "one number" if stacked == 1 else f"one number, or {stacked}"
        yield Fault(Misfit.SHAPE, tensor.name, f"shape {list(tensor.shape)}; a tensor scale is {due}", tensor.offset)
