"""What a conversion will write: decided, and refused, before a byte is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mxspec.containers import contract, gguf, safetensors
from mxspec.containers.checkpoint import FORMAT_KEY, Checkpoint, StoredScales, interpret_scales, read_bits
from mxspec.containers.conventions import CONVENTIONS, MARK_KEY, MARK_SUFFIX, Form, Scalar, find_form, list_forms
from mxspec.containers.dtypes import SAFETENSORS_BITS, SHARED
from mxspec.containers.groups import Group
from mxspec.containers.header import Header, Tensor, count_items, round_up
from mxspec.containers.marks import name_format, read_layers, read_mark_text
from mxspec.containers.origin import KEY, Origin, TensorOrigin, parse_origin
from mxspec.containers.problems import ContainerError
from mxspec.containers.refused import describe_refused
from mxspec.containers.scalars import ONE, alpha_bits, convert_bits
from mxspec.profiles import Profile, list_profiles
from mxspec.profiles.schema import Kind, TensorScaleKind

#: `general.file_type` of GGUF files whose weights are mostly of one format.
FILE_TYPES = {"mxfp4": 38, "nvfp4": 39}
Scalars = dict[str, tuple[tuple[int, ...], tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One block-quantized tensor in its new form."""

    group: Group
    form: Form
    before: StoredScales
    after: StoredScales
    #: float32 scales to write, by suffix: shape and bits.
    scalars: Scalars
    #: Whether they are the first file's own, kept on the way.
    restored: bool
    origin: TensorOrigin | None
    #: dtype of the block scales.
    scale_dtype: str
    #: Text of the mark to write.
    mark: str | None


@dataclass(frozen=True, slots=True)
class FilePlan:
    """One file to write."""

    name: str
    header: bytes
    placed: tuple[Tensor, ...]
    size: int
    groups: tuple[GroupPlan, ...]
    #: Tensors copied as they are.
    others: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole conversion."""

    convention: str
    files: tuple[FilePlan, ...]
    notes: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[GroupPlan, ...]:
        """All block-quantized tensors."""
        return tuple(g for f in self.files for g in f.groups)


@dataclass(slots=True)
class _Notes:
    texts: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        if text not in self.texts:
            self.texts.append(text)


def derive_scalars(form: Form, scales: StoredScales, base: str) -> Scalars:
    """The float32 scales of a form, from those of another: same bits where the kind is the same.

    Raises ContainerError where the form has no place for one.
    """
    found: Scalars = {}
    if form.tensor_scale is not None:
        if scales.tensor is not None:
            found[form.tensor_scale.suffix] = _convert(form.tensor_scale, *scales.tensor)
        elif not form.tensor_scale.optional:
            found[form.tensor_scale.suffix] = (form.tensor_scale.shape, (ONE,))
    elif scales.tensor is not None and not _is_one(*scales.tensor):
        raise ContainerError(f"{base} has a tensor scale; {form.convention} {form.format_name} has no place for it")
    if scales.inputs is None:
        return found
    if not form.input_scales:
        raise ContainerError(f"{base} has an input scale; {form.convention} {form.format_name} has no place for it")
    kind, bits = scales.inputs
    place = next((s for s in form.input_scales if s.kind is kind), None) or next(
        (s for s in form.input_scales if s.kind is not TensorScaleKind.AMAX), form.input_scales[0]
    )
    found[place.suffix] = _convert(place, kind, bits)
    if form.alpha and form.tensor_scale is not None and place.kind is TensorScaleKind.ENCODE:
        tensor = found[form.tensor_scale.suffix][1]
        found[form.alpha] = ((), (alpha_bits(found[place.suffix][1][0], tensor[0]),))
    return found


def check_kind(form: Form, profile: Profile, *, convert: bool) -> None:
    """Raise ContainerError where a form stores tensor scales of another kind than the profile's, unless conversion was requested."""
    place, rule = form.tensor_scale, profile.tensor
    if convert or place is None or rule is None or rule.native is place.kind:
        return
    native = [
        p.id for p in list_profiles(form.format, kind=Kind.NORMATIVE) if p.tensor is not None and p.tensor.native is place.kind
    ]
    raise ContainerError(
        f"profile {profile.id} has a tensor scale of kind {rule.native.value}, and {form.convention} {form.format_name} stores "
        f"{place.kind.value}; choose a profile that has this kind ({', '.join(dict.fromkeys((form.profile, *native)))}), or pass "
        "convert=True (--convert): the scale is then rounded once more, and values can change in the last bit"
    )


def _is_one(kind: TensorScaleKind, bits: tuple[int, ...]) -> bool:
    """Whether a tensor scale leaves every value as it is, so that a form without one loses nothing."""
    return kind is not TensorScaleKind.AMAX and set(bits) == {ONE}


def _convert(place: Scalar, kind: TensorScaleKind, bits: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = place.shape if len(bits) == 1 else (len(bits),)
    return shape, tuple(convert_bits(b, kind, place.kind) for b in bits)


def _bits(scalars: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]) -> dict[str, tuple[int, ...]]:
    return {suffix: bits for suffix, (_, bits) in scalars.items()}


def plan_group(group: Group, convention: str, origin: Origin | None, notes: _Notes) -> GroupPlan:
    """One tensor's new form. Raises ContainerError, saying why, where the convention cannot hold it.

    origin: what the file keeps of its first form.
    """
    kept = origin.tensors.get(group.base) if origin else None
    form = find_form(convention, group.form.format_name)
    if form is None:
        known = ", ".join(dict.fromkeys(f.format_name for f in list_forms(convention)))
        raise ContainerError(
            f"{group.base} is {group.form.format_name}, which {convention} does not store; it stores {known}"
        )
    if len(group.shape) not in form.ranks:
        ranks = " or ".join(map(str, form.ranks))
        raise ContainerError(
            f"{group.base} has shape {list(group.shape)}; {convention} stores tensors of {ranks} axes: split it first"
        )
    obstacle = form.find_obstacle(group.shape)
    if obstacle is not None:
        raise ContainerError(f"{group.base} has {obstacle}")
    stored = {suffix: read_bits(t) for suffix, t in group.scalars.items()}
    before = interpret_scales(group.form, stored)
    _check_alpha(group, before)
    if before.tensor is not None and len(before.tensor[1]) > 1 and form.container != "gguf":
        raise ContainerError(
            f"{group.base} is a stack of {group.shape[0]} with a tensor scale each; {convention} stores one: split it first"
        )
    first = None if kept is None else _find_first(group, kept, stored, notes)
    restored = first is not None and kept is not None and kept.convention == convention
    if restored and kept is not None:
        scalars = dict(kept.scalars)
    else:
        try:
            scalars = derive_scalars(form, before if first is None else first, group.base)
        except ContainerError as error:
            text = str(error)
            raise ContainerError(text if text.startswith(group.base) else f"{group.base}: {text}") from error
    dtype = "" if form.scales is None else form.scales.dtypes[0]
    if restored and kept is not None and form.scales is not None and kept.scale_dtype in form.scales.dtypes:
        dtype = kept.scale_dtype
    entry = None if restored else kept if first is not None else _make_origin(group, form)
    after = interpret_scales(form, _bits(scalars))
    mark = _choose_mark(form, group.base, origin if restored else None)
    return GroupPlan(group, form, before, after, scalars, restored, entry, dtype, mark)


def _choose_mark(form: Form, base: str, origin: Origin | None) -> str | None:
    """The text of the mark to write: the first file's, or none where its metadata marked the tensor, if it says what is so."""
    if form.mark is None or origin is None:
        return form.mark_text
    kept = origin.tensors[base].mark
    if kept is None:
        return None if read_layers(origin.metadata.get(MARK_KEY)).get(base) == form.mark else form.mark_text
    try:
        return kept if name_format(kept) == form.mark else form.mark_text
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


def _find_first(
    group: Group, kept: TensorOrigin, stored: Mapping[str, tuple[int, ...]], notes: _Notes
) -> StoredScales | None:
    """The first file's scales, if what is stored is what they give in this one."""
    form = find_form(kept.convention, group.form.format_name) if kept.convention in CONVENTIONS else None
    if form is not None:
        scales = interpret_kept(form, kept)
        try:
            agrees = _bits(derive_scalars(group.form, scales, group.base)) == dict(stored)
        except (ContainerError, KeyError, IndexError):
            agrees = False
        if agrees:
            return scales
    notes.add(f"{group.base}: the kept scales do not give the stored ones, so they are not used; the file was edited")
    return None


def plan_conversion(
    checkpoint: Checkpoint, convention: str, *, sharded: bool, name: str, ignore_origin: bool = False
) -> Plan:
    """Everything that a conversion will write.

    sharded: one file for each of the input's, under its name; otherwise all in one file called `name`.
    Raises ContainerError, in one message, for the first thing that the convention cannot keep.
    """
    forms = list_forms(convention)
    container = forms[0].container
    if checkpoint.doubts:
        doubt = checkpoint.doubts[0]
        raise ContainerError(f"{doubt.faults[0].tensor}: {doubt.faults[0].text}; `mxspec lint` lists every fault")
    if not checkpoint.blocks:
        raise ContainerError(
            f"{checkpoint.path} holds no block-quantized tensor of a known convention; nothing to convert{describe_refused(checkpoint.tensors)}"
        )
    if all(g.form.convention == convention for g in checkpoint.blocks.values()):
        raise ContainerError(f"{checkpoint.path} is {convention} already; nothing to convert")
    notes = _Notes()
    origins = {h.path: None if ignore_origin else parse_origin(h.metadata.get(KEY), h.path) for h in checkpoint.headers}
    plans: dict[Path, list[GroupPlan]] = {h.path: [] for h in checkpoint.headers}
    for group in checkpoint.blocks.values():
        plans[group.codes.path].append(plan_group(group, convention, origins[group.codes.path], notes))
    others: dict[Path, list[Tensor]] = {h.path: [] for h in checkpoint.headers}
    for tensor in checkpoint.grouping.others:
        others[tensor.path].append(tensor)
    if sharded and container == "safetensors":
        files = [
            _plan_file(h.path.name, container, [h], plans[h.path], others[h.path], [origins[h.path]], notes)
            for h in checkpoint.headers
        ]
    else:
        files = [
            _plan_file(
                name, container, list(checkpoint.headers), [p for h in checkpoint.headers for p in plans[h.path]],
                [t for h in checkpoint.headers for t in others[h.path]], [origins[h.path] for h in checkpoint.headers], notes,
            )
        ]  # fmt: skip
    return Plan(convention, tuple(files), tuple(notes.texts))


def _plan_file(
    name: str,
    container: str,
    headers: Sequence[Header],
    groups: Sequence[GroupPlan],
    others: Sequence[Tensor],
    origins: Sequence[Origin | None],
    notes: _Notes,
) -> FilePlan:
    source = headers[0]
    first = next((o for o in origins if o is not None), None)
    path = Path(name)
    tensors = [t for g in groups for t in _stored_tensors(g, path)]
    shapes: dict[str, tuple[int, ...]] = {}
    for other in others:
        tensors.append(plan_other(other, container, first, shapes, path))
    twice = {t.name for t in tensors}
    if len(twice) < len(tensors):
        seen: set[str] = set()
        clash = next(t.name for t in tensors if t.name in seen or seen.add(t.name))  # type: ignore[func-returns-value]
        raise ContainerError(f"{clash} would be written twice: another tensor has that name already")
    back = first is not None and first.container == container
    entries = {g.group.base: g.origin for g in groups if g.origin is not None}
    # Codes stay as they are, and so does what the file says of how they were made.
    own = {k: v for h in headers for k, v in h.metadata.items() if not k.startswith("mxspec.") or k == contract.KEY}
    said = {} if back else {k: v for k, v in own.items() if k == contract.KEY}
    # Between files of one container everything but the scales is carried over as it is.
    same = back or (first is None and source.container == container)
    text = safetensors.read_foreign_text(source) if first is None and len(headers) == 1 and source.container == "safetensors" else None
    kept = {KEY: _next_origin(first, source, entries, shapes, own, text).as_text()} if entries or text or not same else {}
    if container == "safetensors":
        metadata = dict(first.metadata) if back and first is not None else dict(own) if source.container == container else {}
        if not back and not any(g.form.mark for g in groups):
            metadata.pop(MARK_KEY, None)
        if any(g.form.ambiguous for g in groups):
            metadata[FORMAT_KEY] = " ".join(sorted({g.form.format_name for g in groups}))
        metadata = {**metadata, **said, **kept}
        restored = safetensors.restore(first.header, tensors, metadata, path) if back and first and first.header else None
        header, placed = restored or safetensors.lay_out(tensors, metadata, path)
        size = placed[-1].offset + placed[-1].size if placed else len(header)
    else:
        keys, count, alignment = _gguf_keys(first, groups, back)
        tensors = _order(tensors, first.order if back and first is not None else _source_order(headers, groups))
        header, placed = gguf.lay_out(tensors, keys, count, {**said, **kept}, alignment, path)
        size = round_up(placed[-1].offset + placed[-1].size, alignment) if placed else len(header)
    if source.container == "gguf" and len(source.keys) == 0 and source.key_count:
        notes.add("the keys of the GGUF file take more than 64 MiB and are not kept")
    return FilePlan(name, header, tuple(placed), size, tuple(groups), tuple(others))


def _next_origin(
    first: Origin | None, source: Header, entries: Mapping[str, TensorOrigin], shapes: Mapping[str, tuple[int, ...]],
    own: Mapping[str, str], text: str | None,
) -> Origin:  # fmt: skip
    """What the new file keeps: the first file's record if there is one, else the source's own."""
    if first is not None:
        return Origin(
            first.container, dict(entries), first.metadata, {**first.shapes, **shapes}, first.keys, first.key_count,
            first.alignment, first.order, first.header,
        )  # fmt: skip
    if source.container == "gguf":
        return Origin(
            "gguf", dict(entries), {}, dict(shapes), source.keys, source.key_count, source.alignment,
            tuple(t.name for t in source.tensors),
        )  # fmt: skip
    return Origin("safetensors", dict(entries), dict(own), dict(shapes), header=text)


def _gguf_keys(first: Origin | None, groups: Sequence[GroupPlan], back: bool) -> tuple[bytes, int, int]:
    if back and first is not None:
        return first.keys, first.key_count, first.alignment
    formats = {g.form.format_name for g in groups}
    if len(formats) == 1:
        return gguf.encode_number_key("general.file_type", FILE_TYPES[formats.pop()]), 1, gguf.DEFAULT_ALIGNMENT
    return b"", 0, gguf.DEFAULT_ALIGNMENT


def _source_order(headers: Sequence[Header], groups: Sequence[GroupPlan]) -> tuple[str, ...]:
    """The names of the new tensors in the order of the old ones."""
    new = {t.name: [s.name for s in _stored_tensors(g, Path())] for g in groups for t in (g.group.codes,)}
    return tuple(n for h in headers for t in h.tensors for n in new.get(t.name, [t.name]))


def _order(tensors: list[Tensor], names: Sequence[str]) -> list[Tensor]:
    rank = {n: i for i, n in enumerate(names)}
    return sorted(tensors, key=lambda t: rank.get(t.name, len(rank)))


def _stored_tensors(plan: GroupPlan, path: Path) -> list[Tensor]:
    found = place_tensors(plan.form, plan.group.base, plan.group.shape, plan.scalars, plan.scale_dtype, path, plan.mark)
    if plan.form.container == "gguf":
        for tensor in found:
            check_gguf_name(tensor.name)
    return found


def place_tensors(
    form: Form,
    base: str,
    shape: tuple[int, ...],
    scalars: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]],
    scale_dtype: str,
    path: Path,
    mark: str | None,
) -> list[Tensor]:
    """The stored tensors of a block-quantized one in a form, with the mark of this text; their offsets are not known yet."""
    items = count_items(shape) or 0
    bits = items * form.format.element.bits
    if form.scales is None:
        bits += items // form.format.k * 8
    found = [Tensor(base + form.codes.suffix, form.codes.dtypes[0], form.code_shape(shape), 0, bits // 8, path)]
    if form.scales is not None:
        due = form.scale_shape(shape)
        found.append(Tensor(base + form.scales.suffix, scale_dtype, due, 0, count_items(due) or 0, path))
    for suffix, (stored, words) in scalars.items():
        found.append(Tensor(base + suffix, "F32", stored, 0, 4 * len(words), path))
    if mark is not None:
        found.append(Tensor(base + MARK_SUFFIX, "U8", (len(mark.encode()),), 0, len(mark.encode()), path))
    return found


def check_gguf_name(name: str) -> None:
    """Raise ContainerError for a name that ggml would not read."""
    if len(name.encode()) >= gguf.MAX_NAME:
        raise ContainerError(
            f"the name {name} has {len(name.encode())} bytes; ggml reads names of at most {gguf.MAX_NAME - 1}: rename it first"
        )


def plan_other(
    tensor: Tensor, container: str, first: Origin | None, shapes: dict[str, tuple[int, ...]], path: Path
) -> Tensor:
    """The same tensor in a container, whose shape is kept in `shapes` where the container cannot hold it.

    Raises ContainerError for a type, name or shape that the container does not have.
    """
    shape = tensor.shape
    if container == "gguf":
        if tensor.dtype not in SHARED:
            raise ContainerError(
                f"{tensor.name} is {tensor.dtype}, for which GGUF has no type; it has {', '.join(SHARED)}"
            )
        check_gguf_name(tensor.name)
        if len(shape) > gguf.MAX_RANK:
            raise ContainerError(
                f"{tensor.name} has {len(shape)} axes; GGUF has at most {gguf.MAX_RANK}: reshape it first"
            )
        if not shape:
            shapes[tensor.name], shape = shape, (1,)
    elif tensor.dtype not in SAFETENSORS_BITS:
        raise ContainerError(f"{tensor.name} is {tensor.dtype}, a type of ggml that safetensors does not have")
    if first is not None and first.container == container:
        kept = first.shapes.get(tensor.name)
        if kept is not None and count_items(kept) == count_items(tensor.shape):
            shape = kept
    return Tensor(tensor.name, tensor.dtype, shape, 0, tensor.size, path)
