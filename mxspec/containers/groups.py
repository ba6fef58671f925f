"""Which stored tensors belong together as one block-quantized tensor, and what is missing where they do not fit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mxspec.containers.conventions import FORMS, CodeShape, Form, Scalar
from mxspec.containers.header import Tensor, count_items


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


@dataclass(frozen=True, slots=True)
class Group:
    """The stored tensors of one block-quantized tensor."""

    base: str
    form: Form
    #: Logical shape; the last axis lies along blocks.
    shape: tuple[int, ...]
    codes: Tensor
    #: None where the codes' tensor holds them too.
    scales: Tensor | None
    #: float32 scales by suffix, as far as they are there.
    scalars: Mapping[str, Tensor]
    #: The tensor that says what it is.
    mark: Tensor | None = None

    @property
    def elements(self) -> int:
        """Number of elements."""
        return count_items(self.shape) or 0

    @property
    def members(self) -> tuple[Tensor, ...]:
        """All stored tensors of the group."""
        return (*(t for t in (self.codes, self.scales) if t), *self.scalars.values(), *((self.mark,) if self.mark else ()))


@dataclass(frozen=True, slots=True)
class Doubt:
    """Tensors that look like a form's and do not fit it."""

    base: str
    form: Form
    members: tuple[Tensor, ...]
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class Grouping:
    """The tensors of a checkpoint, sorted out."""

    groups: tuple[Group, ...]
    doubts: tuple[Doubt, ...]
    #: Tensors that are no part of a block-quantized one.
    others: tuple[Tensor, ...]


_SCALE_DTYPES = ("U8", "F8_E8M0", "F8_E4M3")


def group_tensors(
    tensors: Mapping[str, Tensor], container: str, formats: Collection[str] = (), marks: Mapping[str, Mark] | None = None
) -> Grouping:
    """Sort tensors into groups; names decide which form is tried, dtypes and shapes whether it fits.

    formats: the formats that the file is known to hold, where names, dtypes and shapes leave it open. (LightX2V stores
    codes of 4, 6 and 8 bits as the same bytes beside padded scales, and short rows fit more than one.)
    marks: what the file says of single tensors, by base name.
    """
    marks = marks or {}
    found: dict[str, list[Group]] = {}
    doubts: list[Doubt] = []
    taken: set[str] = set()
    for tensor in tensors.values():
        if tensor.name in taken:
            continue
        tried = [fit(form, base, tensors, marks.get(base)) for form, base in _candidates(tensor, tensors, container, marks)]
        fitting = [t for t in tried if isinstance(t, Group)]
        if fitting:
            found[tensor.name] = [g for g in fitting if g.form.convention == fitting[0].form.convention]
            taken.update(t.name for t in fitting[0].members)
        elif tried:
            doubt = min((t for t in tried if isinstance(t, Doubt)), key=lambda t: len(t.faults))
            doubts.append(doubt)
            taken.update(t.name for t in doubt.members)
    certain = {g[0].form.format_name for g in found.values() if len(g) == 1} | set(formats)
    shared = set.intersection(*({g.form.format_name for g in gs} for gs in found.values())) if found else set()
    groups: list[Group] = []
    for several in found.values():
        names = {g.form.format_name for g in several}
        for narrowed in (names & set(formats), names & certain, names & shared):
            if len(several) > 1 and len(narrowed) == 1:
                several = [g for g in several if g.form.format_name in narrowed]
        if len(several) == 1:
            groups.append(several[0])
        else:
            doubts.append(_make_ambiguous(several))
    others = tuple(t for t in tensors.values() if t.name not in taken)
    return Grouping(tuple(groups), tuple(doubts), others)


def _make_ambiguous(several: Sequence[Group]) -> Doubt:
    first = several[0]
    names = " and ".join(f"{g.form.format_name} of shape {list(g.shape)}" for g in several)
    text = f"fits {first.form.convention} {names} alike; say which it is (--format)"
    return Doubt(
        first.base, first.form, first.members, (Fault(Misfit.AMBIGUOUS, first.codes.name, text, first.codes.offset),)
    )


def _candidates(
    tensor: Tensor, tensors: Mapping[str, Tensor], container: str, marks: Mapping[str, Mark]
) -> Iterator[tuple[Form, str]]:
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
    if scales is not None and scales.dtype in _SCALE_DTYPES:
        return True
    if form.tensor_scale is not None and base + form.tensor_scale.suffix in tensors:
        return True
    return form.codes.shape is CodeShape.BLOCKS and tensor.shape[-1:] == (16,)


def fit(form: Form, base: str, tensors: Mapping[str, Tensor], mark: Mark | None = None) -> Group | Doubt:
    """The group of a base in a form, or why it is none."""
    codes = tensors[base + form.codes.suffix]
    faults: list[Fault] = []
    members: list[Tensor] = [codes]
    if mark is not None and mark.tensor is not None:
        members.append(mark.tensor)
        if mark.fault:
            faults.append(Fault(Misfit.MARK, mark.tensor.name, mark.fault, mark.tensor.offset))
    shape = form.logical_shape(codes.shape)
    if codes.dtype not in form.codes.dtypes:
        due = " or ".join(form.codes.dtypes)
        faults.append(
            Fault(Misfit.DTYPE, codes.name, f"is {codes.dtype}; {form.convention} {form.format_name} has {due}", codes.offset)
        )
        shape = None
    elif shape is None or len(shape) not in form.ranks:
        ranks = " or ".join(map(str, form.ranks))
        faults.append(
            Fault(
                Misfit.RANK, codes.name,
                f"shape {list(codes.shape)} is none of {form.convention} {form.format_name}; codes have {ranks} axes",
                codes.offset,
            )
        )  # fmt: skip
        shape = None
    elif shape[-1] % form.row_multiple:
        faults.append(
            Fault(
                Misfit.ROW, codes.name,
                f"rows have {shape[-1]} elements; {form.convention} {form.format_name} needs a multiple of {form.row_multiple}",
                codes.offset,
            )
        )  # fmt: skip
        shape = None
    scales = None
    if form.scales is not None:
        scales = _find_scales(form, base, shape, tensors, faults)
        members += [scales] if scales else []
    stacked = shape[0] if shape is not None and len(shape) == 3 else 1
    scalars = {}
    for scalar in (*([form.tensor_scale] if form.tensor_scale else []), *form.input_scales):
        found = _find_scalar(form, scalar, base, stacked, tensors, faults)
        if found is not None:
            scalars[scalar.suffix] = found
    if form.alpha and (found := tensors.get(base + form.alpha)) is not None:
        scalars[form.alpha] = found
        _check_scalar(found, 1, faults)
    members += scalars.values()
    if faults or shape is None:
        return Doubt(base, form, tuple(members), tuple(faults))
    return Group(base, form, shape, codes, scales, scalars, mark.tensor if mark is not None else None)


def _find_scales(
    form: Form, base: str, shape: tuple[int, ...] | None, tensors: Mapping[str, Tensor], faults: list[Fault]
) -> Tensor | None:
    assert form.scales is not None
    name = base + form.scales.suffix
    scales = tensors.get(name)
    if scales is None:
        faults.append(Fault(Misfit.MISSING, base + form.codes.suffix, f"its block scales {name} are not there"))
        return None
    if scales.dtype not in form.scales.dtypes:
        due = " or ".join(form.scales.dtypes)
        faults.append(
            Fault(
                Misfit.DTYPE, name, f"is {scales.dtype}; {form.convention} {form.format_name} has {due}", scales.offset
            )
        )
    if shape is None:
        return scales
    due_shape = form.scale_shape(shape)
    if scales.shape != due_shape:
        columns = shape[-1] // form.format.k
        tiles = (*shape[:-2], -(-shape[-2] // 128) * 128, -(-columns // 4) * 4) if len(shape) > 1 else ()
        swizzled = not form.tiled and scales.shape == tiles
        text = f"shape {list(scales.shape)} is not the {list(due_shape)} of codes of shape {list(shape)}"
        faults.append(
            Fault(
                Misfit.TILED if swizzled else Misfit.SHAPE, name,
                text + ("; it is that of scales in 128x4 tiles" if swizzled else ""), scales.offset,
            )
        )  # fmt: skip
    return scales


def _find_scalar(
    form: Form, scalar: Scalar, base: str, stacked: int, tensors: Mapping[str, Tensor], faults: list[Fault]
) -> Tensor | None:
    name = base + scalar.suffix
    found = tensors.get(name)
    if found is None:
        if not scalar.optional:
            faults.append(Fault(Misfit.MISSING, base + form.codes.suffix, f"its tensor scale {name} is not there"))
        return None
    _check_scalar(found, stacked if form.container == "gguf" else 1, faults)
    return found


def _check_scalar(tensor: Tensor, stacked: int, faults: list[Fault]) -> None:
    if tensor.dtype != "F32":
        faults.append(Fault(Misfit.DTYPE, tensor.name, f"is {tensor.dtype}; a tensor scale is F32", tensor.offset))
    elif count_items(tensor.shape) not in (1, stacked):
        due = "one number" if stacked == 1 else f"one number, or {stacked}"
        faults.append(
            Fault(Misfit.SHAPE, tensor.name, f"shape {list(tensor.shape)}; a tensor scale is {due}", tensor.offset)
        )
