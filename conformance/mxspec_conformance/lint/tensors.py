"""Rules about which tensors are there, and about the configuration next to them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from mxspec.containers.configuring import STRATEGIES, is_mlx_config
from mxspec.containers.conventions import FORMS, Form
from mxspec.containers.dtypes import SAFETENSORS_BITS, SHARED
from mxspec.containers.groups import Doubt, Group, Misfit, fit
from mxspec.containers.header import Tensor, read_at
from mxspec.containers.plain import PLAIN_DTYPES, cut_plain
from mxspec.containers.refused import find_refused
from mxspec.containers.text import clip
from mxspec_conformance.lint.layers import find_entry, is_named
from mxspec_conformance.lint.rules import Finding, find
from mxspec_conformance.lint.subject import Subject

#: quant_method of integer checkpoints, which have rules of their own.
_INTEGER_METHODS = ("gptq", "awq")
_INTEGER_FORMATS = ("pack-quantized", "affine")
#: Floats that are codes wherever they are, but for block scales; and integers that are codes as a matrix of such a name, or with scales.
_CODE_FLOATS = {n for n in SAFETENSORS_BITS if n.startswith(("F4", "F6_", "F8_")) and n != "F8_E8M0"}
_CODE_INTEGERS = {"U8", "I8", "U16", "I16", "U32", "I32"}
_CODE_NAMES = {"weight", "qweight", "weight_packed"}
_SCALE_NAME = re.compile(r"scale|absmax|^scb$", re.IGNORECASE)
#: What quantizers keep while they calibrate or train: modules of ModelOpt and torch.ao, and observers.
_BUFFER = re.compile(r"\.((?:\w*_quantizer|\w*fake_quant(?:ize|izer)?|\w*_observer|activation_post_process)(?:\.\d+)?\..+)$")
#: Names of scales of one tensor that are shown.
_SHOWN = 4


def _names_of(form: Form) -> list[tuple[str, str]]:
    """What configurations call a form."""
    return [c for c in (form.config, *form.aliases) if c is not None]


@lru_cache(maxsize=64)
def _list_named(said: tuple[tuple[str, str], ...]) -> tuple[Form, ...]:
    """The forms of which a configuration speaks; of a method alone all of its forms."""
    return tuple(f for f in FORMS if any(s[0] == c[0] and (not s[1] or _agrees(s, c)) for s in said for c in _names_of(f)))


def list_doubts(subject: Subject) -> Iterator[Doubt]:
    """Tensors that do not fit a convention: the one that the configuration names, where it names one that has codes of their name."""
    tensors, size = subject.checkpoint.tensors, _block_size(subject)
    for doubt in subject.checkpoint.doubts:
        if isinstance(doubt.form, Form) and doubt.form.grid is not None and size not in (None, doubt.form.grid):
            continue  # tiles of another size are declared, which `check_fp8` compares
        said = tuple(s for s in _said(subject, doubt.base) if s[0])
        named = _list_named(said)
        if not said or doubt.form in named:
            yield doubt
        elif named and any(f.grid is None for f in named):
            fitted = (fit(f, doubt.base, tensors) for f in named if f.grid is None and doubt.base + f.codes.suffix in tensors)
            yield next((f for f in fitted if isinstance(f, Doubt)), doubt)


def list_unchecked(subject: Subject) -> dict[str, list[Tensor]]:
    """Tensors of quantized forms that are not known, by their kind: dtype, and what scales are called that are adjacent to them."""
    tensors = subject.checkpoint.tensors
    known = {t.name for g in subject.groups for t in g.members} | {t.name for d in list_doubts(subject) for t in d.members}
    known |= {t.name for g in subject.affine.groups.values() for t in g.members}
    known |= {d.tensor.name for d in subject.affine.doubts}
    refused = find_refused(tensors)
    endings = () if refused is None else refused[0].suffixes
    scales = _Scales(tensors)
    found: dict[str, list[Tensor]] = defaultdict(list)
    for tensor in tensors.values():
        parent, _, last = tensor.name.rpartition(".")
        if tensor.name in known or tensor.name.endswith(endings) or _SCALE_NAME.search(last):
            continue
        if last == "qweight" and f"{parent}.qzeros" in tensors:
            continue  # `integers` speaks of it
        adjacent = () if subject.checkpoint.container == "gguf" else scales.adjacent_to(tensor.name)
        if subject.checkpoint.container == "gguf":
            coded = tensor.dtype not in SHARED
        else:
            coded = tensor.dtype in _CODE_FLOATS or (
                tensor.dtype in _CODE_INTEGERS
                and len(tensor.shape) > 1
                and (last in _CODE_NAMES or any(a.startswith("*") for a in adjacent))
            )
        if coded:
            names = ", ".join(map(clip, adjacent))
            found[f"{tensor.dtype} adjacent to {names}" if names else tensor.dtype].append(tensor)
    return found


class _Scales:
    """Names of scales, by the module that they are of."""

    def __init__(self, names: Iterable[str]) -> None:
        self._by_parent: dict[str, list[str]] = defaultdict(list)
        for name in sorted(names):
            parent, _, last = name.rpartition(".")
            if _SCALE_NAME.search(last):
                self._by_parent[parent].append(last)

    def adjacent_to(self, name: str) -> tuple[str, ...]:
        """Scales below a tensor's name or beginning with it, as *, else those of its module; some of them."""
        parent, _, last = name.rpartition(".")
        own = [f"*.{s}" for s in self._by_parent.get(name, ())[:_SHOWN]]
        siblings = self._by_parent.get(parent, [])
        first = bisect_left(siblings, last)
        own += [f"*{s.removeprefix(last)}" for s in siblings[first : first + _SHOWN] if s.startswith(last)]
        return tuple(own or siblings[:_SHOWN])


def check_known(subject: Subject) -> Iterator[Finding]:
    """Quantized tensors, and methods of the configuration, of which nothing is known."""
    said = [
        s for s in _said(subject, "")
        if s[0] and s[0] not in _INTEGER_METHODS and s[1] not in _INTEGER_FORMATS and not _list_named((s,))
    ]  # fmt: skip
    method = f"{' '.join(filter(None, said[0]))}: " if said else ""
    unchecked = list_unchecked(subject)
    for kind, several in unchecked.items():
        text = f"{method}{len(several)} {'tensors are' if len(several) > 1 else 'tensor is'} {kind}: not known, not checked"
        yield find("tensor/not-checked", text, several[0])
    if method and not unchecked and not subject.affine.groups and not subject.groups:
        yield find("tensor/not-checked", f"{method}the configuration names it; not known, not checked")


def check_experts(subject: Subject) -> Iterator[Finding]:
    """Experts that lack a scale that at least half of those with the same tensors have."""
    missing = {d.base for d in list_doubts(subject) if any(f.misfit is Misfit.MISSING for f in d.faults)}
    missing |= {t.name.removesuffix(".weight") for t in _list_scaleless(subject)}
    layers: dict[tuple[str, str], dict[str, dict[str, Tensor]]] = defaultdict(lambda: defaultdict(dict))
    for name, tensor in subject.checkpoint.tensors.items():
        *path, last = name.split(".")
        at = next((i for i in range(len(path) - 1, 0, -1) if path[i].isdecimal() and path[i - 1] in ("expert", "experts")), 0)
        if at:
            layers[".".join(path[:at]), ".".join(path[at + 1 :])][path[at]][last] = tensor
    for (stack, module), experts in layers.items():
        alike: dict[object, list[str]] = defaultdict(list)
        for number, parts in experts.items():
            alike[tuple(sorted((p, t.dtype) for p, t in parts.items() if not _SCALE_NAME.search(p)))].append(number)
        for numbers in alike.values():
            counts = Counter(p for n in numbers for p in experts[n] if _SCALE_NAME.search(p))
            for scale in sorted(s for s, number in counts.items() if len(numbers) <= 2 * number < 2 * len(numbers)):
                lacking = [n for n in numbers if scale not in experts[n] and f"{stack}.{n}.{module}" not in missing]
                if lacking:
                    text = f"no {scale} of expert {', '.join(lacking[:8])}{', ...' if lacking[8:] else ''}, where {counts[scale]} of {len(numbers)} have one"
                    first = next(iter(experts[lacking[0]].values()))
                    yield find("tensor/expert", text, first)


def check_buffers(subject: Subject) -> Iterator[Finding]:
    """Buffers of a quantizer in a file that holds its results."""
    left: dict[str, list[Tensor]] = defaultdict(list)
    for name, tensor in subject.checkpoint.tensors.items():
        if found := _BUFFER.search(name):
            left[found[1]].append(tensor)
    if left and (subject.groups or subject.checkpoint.doubts or subject.affine.groups or list_unchecked(subject)):
        for buffer, several in left.items():
            yield find("tensor/buffer", f"{len(several)} named *.{buffer}", several[0])


def check_plain(subject: Subject) -> Iterator[Finding]:
    """NaN in the plain tensors of a quantized checkpoint: norms, biases, embeddings."""
    if not subject.groups and not subject.affine.groups:
        return
    parts = {t.name for g in subject.affine.groups.values() for t in g.members}
    for tensor in subject.checkpoint.grouping.others:
        dtype = PLAIN_DTYPES.get(tensor.dtype)
        if dtype is None or tensor.name in parts:
            continue
        bad = sum(
            int(np.isnan(np.frombuffer(read_at(tensor, a * dtype.itemsize, (b - a) * dtype.itemsize), dtype)).sum())
            for a, b in cut_plain(tensor)
        )
        if bad:
            yield find("tensor/nan", f"{bad} of {tensor.size // dtype.itemsize} numbers are NaN", tensor)


def check_fit(subject: Subject) -> Iterator[Finding]:
    """Tensors that look like those of a convention and do not fit it."""
    for doubt in list_doubts(subject):
        for fault in doubt.faults:
            yield find(f"tensor/{fault.misfit}", fault.text, fault.tensor, offset=fault.offset)


def check_companions(subject: Subject) -> Iterator[Finding]:
    """NVFP4 tensors of GGUF files without their tensor scale."""
    for group in subject.groups:
        form = group.form
        if form.tensor_scale is not None and form.tensor_scale.optional and subject.scales[group.base].tensor is None:
            yield find("tensor/no-scale", f"{group.base}{form.tensor_scale.suffix} is not there", group.codes)


def check_refused(subject: Subject) -> Iterator[Finding]:
    """Sparse forms that are not read."""
    found = find_refused(subject.checkpoint.tensors)
    if found is not None:
        form, name = found
        yield find("tensor/refused", f"{form.name}: {form.reason}", subject.checkpoint.tensors[name])


def check_method(subject: Subject) -> Iterator[Finding]:
    """quant_method, and format or quant_algo, against the tensors."""
    wanted = {(g.form.convention, g.form.config, tuple(_said(subject, g.base))): g for g in subject.groups if g.form.config}
    if not wanted:
        yield from _check_nothing_found(subject)
        return
    if subject.config is not None and subject.quantization is None:
        first = next(iter(wanted.values()))
        yield find("config/absent", f"tensors are {first.form.name}", first.codes.name)
    for (*_, every), group in wanted.items():
        for said in every:
            if not any(_agrees(said, c) for c in _names_of(group.form)):
                described = f"{said[0]} {said[1]}".strip()
                yield find("config/method", f"the configuration says {described}; tensors are {group.form.name}", group.codes)


def _check_nothing_found(subject: Subject) -> Iterator[Finding]:
    """A configuration that names a convention of which no tensor is there."""
    if subject.groups or subject.checkpoint.doubts or list_unchecked(subject):
        return
    for method, name in _said(subject, ""):
        if method in ("compressed-tensors", "modelopt", "mxfp4", "fp8") and _is_float(method, name):
            yield find("config/method", f"the configuration says {f'{method} {name}'.strip()}; no such tensor is there")


def _is_float(method: str, name: str) -> bool:
    return method in ("mxfp4", "fp8") or "fp4" in name.lower() or name.startswith(("mxfp", "float-quantized", "FP8"))


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
    return method == config[0] and (name == config[1] or not config[1] or name.lower() in ("mixed-precision", "mixed_precision"))


def check_group_size(subject: Subject) -> Iterator[Finding]:
    """group_size against the block, where the whole checkpoint has one format, or the configuration names layers."""
    for group in subject.with_blocks:
        size = (_find_entry(subject, group.base) or {}).get("group_size")
        if type(size) is int and group.form.config is not None and size != group.form.format.k:
            text = f"group_size is {size}; the block of {group.form.format_name} has {group.form.format.k} elements"
            yield find("config/group-size", text, group.codes)
    formats = {g.form.format for g in subject.with_blocks if g.form.config is not None}
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
        if is_named(main.get("ignore"), group.base):
            text: str | None = f"`ignore` names it, and it is stored as {group.form.name}"
        else:
            entry = find_entry(groups, group.base) if len(groups) > 1 or group.form.grid is not None else None
            text = None if entry is None else _contradict(entry, group)
        if text is not None:
            yield find("config/group", text, group.codes)


def _contradict(entry: Mapping[str, Any], group: Group) -> str | None:
    """What an entry of `config_groups` says that is not so."""
    assert group.form.config is not None
    name, weights, fmt = entry.get("format"), entry.get("weights"), group.form.format
    if isinstance(name, str) and not _agrees((group.form.config[0], name), group.form.config):
        return f"its config group says {name}; it is stored as {group.form.config[1]}"
    if isinstance(weights, Mapping):
        strategy = STRATEGIES.get(group.form.grid or (1, 1))
        if strategy is not None and isinstance(weights.get("strategy"), str) and weights["strategy"] != strategy:
            return f"its config group says strategy {weights['strategy']}; its scales are those of {strategy}"
        for key, due in (("num_bits", fmt.element.bits), *((("group_size", fmt.k),) if strategy is None else ())):
            if type(weights.get(key)) is int and weights[key] != due:
                return f"its config group says {key} {weights[key]}; {fmt.name} has {due}"
    return None


def _block_size(subject: Subject) -> tuple[int, int] | None:
    """`weight_block_size` of the configuration, where it is two sizes."""
    match (subject.quantization or {}).get("weight_block_size"):
        case [int(rows), int(columns)] if rows > 0 and columns > 0:
            return rows, columns
    return None


def check_fp8(subject: Subject) -> Iterator[Finding]:
    """FP8 with float scales: codes without scales and scales without codes, grids of the wrong size, several kinds in one file."""
    tensors, size = subject.checkpoint.tensors, _block_size(subject)
    doubtful = {t.name for d in list_doubts(subject) for t in d.members}
    kinds = {g.form.convention: g for g in subject.with_grids}
    for tensor in _list_scaleless(subject):
        place = next(iter(kinds.values())).form.scales
        assert place is not None
        yield find("tensor/missing", f"its scales {tensor.name.removesuffix('.weight')}{place.suffix} are not there", tensor)
    for name, tensor in tensors.items():
        base, _, last = name.rpartition(".")
        codes, scales = tensors.get(f"{base}.weight"), tensors.get(f"{base}.weight_scale_inv")
        if last == "weight_scale_inv" and codes is None:
            yield find("tensor/missing", f"its codes {base}.weight are not there", tensor)
        elif last == "weight_scale_inv" and codes is not None and codes.dtype in PLAIN_DTYPES:
            yield find("tensor/dtype", f"is {codes.dtype}, with scales {name}; fp8 has F8_E4M3", codes)
        if last != "weight" or tensor.dtype != "F8_E4M3" or len(tensor.shape) != 2 or name in doubtful or base in subject.checkpoint.blocks:
            continue
        if scales is not None and size is not None and scales.dtype in (*PLAIN_DTYPES, "F8_E8M0"):
            due = [-(-n // s) for n, s in zip(tensor.shape, size, strict=True)]
            if list(scales.shape) != due:
                text = (
                    f"shape {list(scales.shape)} is not the {due} of codes of shape {list(tensor.shape)} in tiles of {size[0]} x {size[1]}"
                )
                yield find("tensor/shape", text, scales)
    if len(kinds) > 1 and subject.quantization is None and subject.quant_config is None:
        yield find("tensor/mixed", f"they are {' and '.join(kinds)}", next(iter(kinds.values())).codes)


def _list_scaleless(subject: Subject) -> Iterator[Tensor]:
    """FP8 matrices without any scale, in a file where others have one."""
    if not subject.with_grids:
        return
    every, lists = _Scales(subject.checkpoint.tensors), _Excluded(subject)
    for name, tensor in subject.checkpoint.tensors.items():
        base, _, last = name.rpartition(".")
        if (last, tensor.dtype, len(tensor.shape)) == ("weight", "F8_E4M3", 2) and not every.adjacent_to(name) and lists.find(base) is None:
            yield tensor


class _Excluded:
    """The lists of layers that the configuration leaves out."""

    def __init__(self, subject: Subject) -> None:
        main, other = subject.quantization or {}, (subject.quant_config or {}).get("quantization")
        every = [(k, main.get(k)) for k in ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules")]
        every += [("exclude_modules", other.get("exclude_modules"))] if isinstance(other, dict) else []
        lists = [(k, [t for t in found if isinstance(t, str)]) for k, found in every if isinstance(found, list)]
        self._names = [(k, set(found), [t for t in found if t.startswith("re:")]) for k, found in lists]

    def find(self, base: str) -> str | None:
        """The list that names a layer, or a module around it; None: none does."""
        parts = base.split(".")
        around = {".".join(parts[: n + 1]) for n in range(len(parts))}
        return next((k for k, names, patterns in self._names if around & names or is_named(patterns, base)), None)


def check_fp8_config(subject: Subject) -> Iterator[Finding]:
    """What the configuration says of the scales of FP8 weights, and of layers that are left out."""
    main, size, lists = subject.quantization or {}, _block_size(subject), _Excluded(subject)
    for group in subject.with_grids:
        excluded = lists.find(group.base)
        if excluded is not None and (excluded != "ignore" or not main.get("config_groups")):  # `check_groups` has that
            yield find("config/group", f"`{excluded}` names it, and it is stored as {group.form.name}", group.codes)
        if size is not None and size != group.form.grid:
            text = f"weight_block_size is {list(size)}; its scales are those of {group.form.name}"
            yield find("config/group-size", text, group.codes)
        if main.get("scale_fmt") == "ue8m0":
            bits = subject.grid(group).bits
            odd = (bits & np.uint32(0x7FFFFF) != 0) & (bits & np.uint32(0x7F800000) != 0x7F800000) & (bits != 1 << 22)
            if odd.any():
                yield find("config/scale-format", f"{int(odd.sum())} of {bits.size} scales are no powers of two", group.scales)


CHECKS = (
    check_fp8, check_fp8_config, check_fit, check_companions, check_refused, check_known, check_experts, check_buffers, check_plain, check_method, check_group_size,
    check_groups,
)  # fmt: skip
