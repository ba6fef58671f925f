"""What a conversion will write: decided, and refused, before a byte is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mxspec.containers import contract, gguf, safetensors
from mxspec.containers.checkpoint import FORMAT_KEY, StoredScales, interpret_scales, read_bits
from mxspec.containers.conventions import CONVENTIONS, MARK_KEY, Form, Scalars, check_shape, find_form, list_forms, require_form
from mxspec.containers.groups import Group
from mxspec.containers.header import Header, Preamble
from mxspec.containers.marks import name_format, read_layers, read_mark_text
from mxspec.containers.origin import KEY, Origin, TensorOrigin
from mxspec.containers.pipeline import OWN, Item, Step
from mxspec.containers.problems import ContainerError
from mxspec.containers.scalars import alpha_bits, derive_scalars
from mxspec.profiles.schema import TensorScaleKind


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One block-quantized tensor in its new form."""

    group: Group
    form: Form
    before: StoredScales
    after: StoredScales
    #: float32 scales to write.
    scalars: Scalars
    #: Whether they are the first file's own, kept on the way.
    restored: bool
    origin: TensorOrigin | None
    #: dtype of the block scales; None: the form's first.
    scale_dtype: str | None
    #: Text of the mark to write.
    mark: str | None

    def as_item(self, list_steps: Callable[[GroupPlan], Iterator[Step]]) -> Item:
        """What is to be written, in these steps."""
        stored = self.form.list_stored(self.group.base, self.group.shape, self.scalars, self.mark, self.scale_dtype)
        return Item(self.group.base, self.group.base, self.group.codes, tuple(stored), partial(list_steps, self))


def _bits(scalars: Scalars) -> dict[str, tuple[int, ...]]:
    return {suffix: bits for suffix, (_, bits) in scalars.items()}


def plan_group(group: Group, convention: str, origin: Origin | None, notes: dict[str, None]) -> GroupPlan:
    """One tensor's new form. Raises ContainerError, saying why, where the convention cannot hold it.

    origin: what the file keeps of its first form. notes: takes what is to be said of it.
    """
    kept = origin.tensors.get(group.base) if origin else None
    form = _find_turned(group.form, convention) or require_form(convention, group.form.format_name, group.base)
    check_shape(form, group.base, group.shape, ": split it first")
    if form.grid is not None and not all(form.grid[a] == size or size == 0 for a, size in enumerate(group.form.grid or (1, 1))):
        raise ContainerError(
            f"{group.base} is {group.form.name}, whose scales are for smaller parts than those of {form.name}; dequantize it, then quantize"
        )
    stored = {suffix: read_bits(t) for suffix, t in group.scalars.items()}
    before = interpret_scales(group.form, stored)
    _check_alpha(group, before)
    if before.tensor is not None and len(before.tensor[1]) > 1 and form.container != "gguf":
        raise ContainerError(
            f"{group.base} is a stack of {group.shape[0]} with a tensor scale each; {convention} stores one: split it first"
        )
    first = None if kept is None else _find_first(group, kept, stored, notes)
    if origin is not None and kept is not None and first is not None and kept.convention == convention:
        known = form.scales is not None and kept.scale_dtype in form.scales.dtypes
        mark = _choose_mark(form, group.base, kept, origin.first.metadata)
        after, dtype = interpret_kept(form, kept), kept.scale_dtype if known else None
        return GroupPlan(group, form, before, after, kept.scalars, True, None, dtype, mark)
    try:
        scalars = derive_scalars(form, before if first is None else first, group.base)
    except ContainerError as error:
        text = str(error)
        raise ContainerError(text if text.startswith(group.base) else f"{group.base}: {text}") from error
    entry = _make_origin(group, form) if first is None else kept
    return GroupPlan(group, form, before, interpret_scales(form, _bits(scalars)), scalars, False, entry, None, form.mark_text)


def _find_turned(source: Form, convention: str) -> Form | None:
    """The form of a convention that has the same codes under a grid of scales of the other kind, float32 or powers of two."""
    if source.grid is None:
        return None
    forms = [f for f in list_forms(convention) if f.grid is not None and f.format.element == source.format.element]
    return None if not forms or find_form(convention, source.format_name) else require_form(convention, forms[0].format_name)


def _choose_mark(form: Form, base: str, kept: TensorOrigin, metadata: Mapping[str, str]) -> str | None:
    """The text of the mark to write: the first file's, or none where its metadata marked the tensor, if it says what is so."""
    if form.mark is None:
        return None
    if kept.mark is None:
        return None if read_layers(metadata.get(MARK_KEY)).get(base) == form.mark else form.mark_text
    try:
        return kept.mark if name_format(kept.mark) == form.mark else form.mark_text
    except ContainerError:
        return form.mark_text


def _check_alpha(group: Group, scales: StoredScales) -> None:
    """LightX2V's alpha is derived, so it is written anew; one that is not derived would be lost."""
    if scales.alpha is None:
        return
    ok = (
        scales.inputs is not None and scales.tensor is not None and scales.inputs[0] is TensorScaleKind.ENCODE
        and scales.alpha == (alpha_bits(scales.inputs[1][0], scales.tensor[1][0]),)
    )  # fmt: skip
    if not ok:
        raise ContainerError(
            f"{group.base}{group.form.alpha} is not 1 / (input_global_scale x weight_global_scale) in float32, so no "
            "other convention can keep it"
        )


def _make_origin(group: Group, form: Form) -> TensorOrigin | None:
    """What is to be kept of a tensor that goes to a form: None where the way back is certain without."""
    scalars = {suffix: (t.shape, read_bits(t)) for suffix, t in group.scalars.items()}
    plain = group.scales is None or group.form.scales is None or group.scales.dtype == group.form.scales.dtypes[0]
    # The new form may have a tensor scale of 1 or a mark that the first had not, and the reverse.
    same = not group.form.format.has_tensor_scale and group.form.mark is None and form.mark is None
    if not scalars and plain and same:
        return None
    mark = None if group.mark is None else read_mark_text(group.mark)
    return TensorOrigin(group.form.convention, scalars, None if group.scales is None else group.scales.dtype, mark)


def interpret_kept(form: Form, kept: TensorOrigin) -> StoredScales:
    """The float32 scales that a tensor had in its first form."""
    return interpret_scales(form, _bits(kept.scalars))


def _find_first(group: Group, kept: TensorOrigin, stored: Mapping[str, tuple[int, ...]], notes: dict[str, None]) -> StoredScales | None:
    """The first file's scales, if what is stored is what they give in this one."""
    known = kept.convention in CONVENTIONS
    form = (_find_turned(group.form, kept.convention) or find_form(kept.convention, group.form.format_name)) if known else None
    if form is not None:
        scales = interpret_kept(form, kept)
        try:
            if _bits(derive_scalars(group.form, scales, group.base)) == stored:
                return scales
        except (ContainerError, KeyError, IndexError):
            pass
    notes[f"{group.base}: the kept scales do not give the stored ones, so they are not used; the file was edited"] = None
    return None


def describe_file(
    container: str, plans: Sequence[GroupPlan], origins: Mapping[Path, Origin | None], headers: Sequence[Header], here: Sequence[Item]
) -> Preamble:
    """What a file that follows these says of itself, with what is kept for the way back. origins: what each keeps already."""
    source, first = headers[0], next((o for h in headers if (o := origins[h.path]) is not None), None)
    paths = {h.path for h in headers}
    plans = [p for p in plans if p.group.codes.path in paths]
    # What the first file said, if it was of this container.
    old = first.first if first is not None and first.first.container == container else None
    # Codes stay as they are, and so does what the file says of how they were made.
    own = {k: v for h in headers for k, v in h.metadata.items() if not k.startswith(OWN) or k == contract.KEY}
    said = {k: v for k, v in own.items() if k == contract.KEY and old is None}
    entries = {p.group.base: p.origin for p in plans if p.origin is not None}
    text = safetensors.read_foreign_text(source) if first is None and len(headers) == 1 and source.container == "safetensors" else None
    # Between files of one container everything but the scales is carried over as it is.
    same = old is not None or (first is None and source.container == container)
    if entries or text or not same:
        # GGUF has no scalars.
        lost = {i.base: i.source.shape for i in here if not i.source.shape and container == "gguf"}
        if first is not None:
            origin = Origin(first.first, entries, {**first.shapes, **lost})
        elif source.container == "gguf":
            order = tuple(t.name for t in source.tensors)
            origin = Origin(Preamble("gguf", {}, source.keys, source.key_count, source.alignment, order), entries, lost)
        else:
            origin = Origin(Preamble("safetensors", own, text=text), entries, lost)
        said[KEY] = origin.as_text()
    formats = sorted({p.form.format_name for p in plans})
    if container == "gguf":
        if old is not None:
            return replace(old, metadata=said)
        key = gguf.encode_file_type(formats[0]) if len(formats) == 1 else b""
        new = {i.source.name: [t.name for t in i.stored] for i in here}
        return Preamble("gguf", said, key, int(bool(key)), order=tuple(n for h in headers for t in h.tensors for n in new.get(t.name, ())))
    metadata = dict(old.metadata if old is not None else own if source.container == container else {})
    if old is None and not any(p.form.mark for p in plans):
        metadata.pop(MARK_KEY, None)
    if any(p.form.ambiguous for p in plans):
        metadata[FORMAT_KEY] = " ".join(formats)
    return Preamble("safetensors", {**metadata, **said}, text=None if old is None else old.text)
