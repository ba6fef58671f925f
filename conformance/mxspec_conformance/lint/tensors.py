"""Rules about which tensors are there, and about the configuration beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mxspec.containers.converting import is_mlx_config
from mxspec.containers.groups import Group, Misfit
from mxspec.containers.refused import find_refused
from mxspec_conformance.lint.layers import find_entry, is_named
from mxspec_conformance.lint.rules import Finding, find
from mxspec_conformance.lint.subject import Subject

#: quant_method of integer checkpoints, which have rules of their own.
_INTEGER_METHODS = ("gptq", "awq")


def check_fit(subject: Subject) -> Iterator[Finding]:
    """Tensors that look like those of a convention and do not fit it."""
    for doubt in subject.checkpoint.doubts:
        for fault in doubt.faults:
            yield find(f"tensor/{Misfit(fault.misfit)}", fault.text, tensor=fault.tensor, offset=fault.offset)


def check_companions(subject: Subject) -> Iterator[Finding]:
    """NVFP4 tensors of GGUF files without their tensor scale."""
    for group in subject.groups:
        form = group.form
        if form.tensor_scale is not None and form.tensor_scale.optional and subject.scales[group.base].tensor is None:
            yield find(
                "tensor/no-scale", f"{group.base}{form.tensor_scale.suffix} is not there", tensor=group.codes.name,
                offset=group.codes.offset,
            )  # fmt: skip


def check_refused(subject: Subject) -> Iterator[Finding]:
    """Sparse forms that are not read."""
    found = find_refused(subject.checkpoint.tensors)
    if found is not None:
        form, name = found
        yield find("tensor/refused", f"{form.name}: {form.reason}", tensor=name, offset=subject.checkpoint.tensors[name].offset)


def check_method(subject: Subject) -> Iterator[Finding]:
    """quant_method, and format or quant_algo, against the tensors."""
    wanted = {
        (g.form.convention, g.form.config, tuple(_said(subject, g.base))): g
        for g in subject.groups
        if g.form.config is not None
    }
    if not wanted:
        yield from _check_nothing_found(subject)
        return
    if subject.config is not None and subject.quantization is None:
        first = next(iter(wanted.values()))
        yield find(
            "config/absent", f"tensors are {first.form.convention} {first.form.format_name}", tensor=first.codes.name
        )
    for (convention, config, every), group in wanted.items():
        assert config is not None
        for said in every:
            if not any(_agrees(said, c) for c in (config, *group.form.aliases)):
                described = f"{said[0]} {said[1]}".strip()
                yield find(
                    "config/method",
                    f"the configuration says {described}; tensors are {convention} {group.form.format_name}",
                    tensor=group.codes.name, offset=group.codes.offset,
                )  # fmt: skip


def _check_nothing_found(subject: Subject) -> Iterator[Finding]:
    """A configuration that names a convention of which no tensor is there."""
    if any(True for _ in subject.groups) or subject.checkpoint.doubts:
        return
    for method, name in _said(subject, ""):
        if method in ("compressed-tensors", "modelopt", "mxfp4") and _is_float(method, name):
            yield find("config/method", f"the configuration says {method} {name}; no such tensor is there")


def _is_float(method: str, name: str) -> bool:
    return method == "mxfp4" or "fp4" in name.lower() or name.startswith("mxfp")


def _find_entry(subject: Subject, base: str) -> Mapping[str, Any] | None:
    """What MLX's configuration says of a layer: an entry of its own, or what holds for all; None for other configurations."""
    main = subject.quantization
    if main is None or not is_mlx_config(main):
        return None
    own = main.get(base)
    return own if isinstance(own, dict) else main


def _said(subject: Subject, base: str) -> list[tuple[str, str]]:
    """(method, format or algorithm) as the configuration files give them, for a layer where they name layers."""
    found: list[tuple[str, str]] = []
    main, entry = subject.quantization, _find_entry(subject, base)
    if entry is not None:
        found.append(("mlx", str(entry.get("mode", "affine"))))
    elif main is not None:
        method = str(main.get("quant_method", ""))
        found.append((method, str(main.get("format") or main.get("quant_algo") or "")))
    other = (subject.quant_config or {}).get("quantization")
    if isinstance(other, dict):
        found.append(("modelopt", str(other.get("quant_algo") or "")))
    return found


def _agrees(said: tuple[str, str], config: tuple[str, str]) -> bool:
    method, name = said
    # A mixed checkpoint names its formats layer by layer.
    return method == config[0] and (
        name == config[1] or not config[1] or name.lower() in ("mixed-precision", "mixed_precision")
    )


def check_group_size(subject: Subject) -> Iterator[Finding]:
    """group_size against the block, where the whole checkpoint has one format, or the configuration names layers."""
    for group in subject.groups:
        size = (_find_entry(subject, group.base) or {}).get("group_size")
        if type(size) is int and group.form.config is not None and size != group.form.format.k:
            text = f"group_size is {size}; the block of {group.form.format_name} has {group.form.format.k} elements"
            yield find("config/group-size", text, tensor=group.codes.name, offset=group.codes.offset)
    formats = {g.form.format for g in subject.groups if g.form.config is not None}
    if len(formats) != 1:
        return
    fmt = next(iter(formats))
    for size in _group_sizes(subject):
        if size != fmt.k:
            yield find("config/group-size", f"group_size is {size}; the block of {fmt.name} has {fmt.k} elements")


def _group_sizes(subject: Subject) -> list[int]:
    found: list[Any] = []
    main = subject.quantization or {}
    groups = main.get("config_groups")
    if isinstance(groups, Mapping):
        for entry in groups.values():
            weights = entry.get("weights") if isinstance(entry, Mapping) else None
            if isinstance(weights, Mapping):
                found.append(weights.get("group_size"))
    other = (subject.quant_config or {}).get("quantization")
    if isinstance(other, Mapping):
        found.append(other.get("group_size"))
    return [size for size in found if type(size) is int]


def check_groups(subject: Subject) -> Iterator[Finding]:
    """What the configuration's entry for each layer says, where it has several entries or leaves layers out."""
    main = subject.quantization or {}
    method, groups = main.get("quant_method"), main.get("config_groups")
    if not isinstance(groups, Mapping) or not groups:
        return
    for group in subject.groups:
        config = group.form.config
        if config is None or method != config[0]:
            continue
        stored = f"{group.form.convention} {group.form.format_name}"
        if is_named(main.get("ignore"), group.base):
            text: str | None = f"`ignore` names it, and it is stored as {stored}"
        else:
            entry = find_entry(groups, group.base) if len(groups) > 1 else None
            text = None if entry is None else _contradict(entry, group)
        if text is not None:
            yield find("config/group", text, tensor=group.codes.name, offset=group.codes.offset)


def _contradict(entry: Mapping[str, Any], group: Group) -> str | None:
    """What an entry of `config_groups` says that is not so."""
    assert group.form.config is not None
    name, weights, fmt = entry.get("format"), entry.get("weights"), group.form.format
    if isinstance(name, str) and not _agrees((group.form.config[0], name), group.form.config):
        return f"its config group says {name}; it is stored as {group.form.config[1]}"
    if isinstance(weights, Mapping):
        for key, due in (("num_bits", fmt.element.bits), ("group_size", fmt.k)):
            if type(weights.get(key)) is int and weights[key] != due:
                return f"its config group says {key} {weights[key]}; {fmt.name} has {due}"
    return None


CHECKS = (check_fit, check_companions, check_refused, check_method, check_group_size, check_groups)
