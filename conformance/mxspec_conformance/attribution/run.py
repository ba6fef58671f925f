"""From a checkpoint to what is known of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from mxspec.containers import Checkpoint, ContainerError, open_checkpoint
from mxspec.containers.checkpoint import read_json, read_scales
from mxspec.containers.converting import is_mlx_config
from mxspec.containers.groups import Group
from mxspec.containers.plain import PLAIN_DTYPES
from mxspec.formats import F32, BlockFormat
from mxspec.profiles import list_profiles
from mxspec.tensorscale import TensorScale
from mxspec_conformance.attribution.matching import match, match_grid
from mxspec_conformance.attribution.remarks import list_remarks
from mxspec_conformance.attribution.results import Attribution, Claim, Observed, Remark, TensorAttribution, Topic, name_library
from mxspec_conformance.attribution.standing import count_zeros, judge_grid, judge_profiles, ordinary_blocks
from mxspec_conformance.lint.against import list_fused
from mxspec_conformance.lint.against.case import Case
from mxspec_conformance.lint.against.grids import GridCase
from mxspec_conformance.lint.against.material import Originals
from mxspec_conformance.lint.contracts import check_contracts, read_contracts
from mxspec_conformance.lint.subject import BlockCounts, Subject, as_blocks


def attribute(
    path: str | Path, *, source: str | Path | None = None, formats: Collection[str] = (), progress: Callable[[str], None] | None = None
) -> Attribution:
    """Find for every block-quantized tensor the profiles that its bytes are consistent with.

    path: a GGUF or safetensors file, an index of shards, or a folder. source: the checkpoint with the weights before
    quantization, under the same names; then every profile's bits are compared, block by block. formats: as for `lint`.
    progress: called with the tensor that is examined. Data are read in runs; memory does not grow with the checkpoint, save for the
    block scales of one tensor where there is a source.

    Raises ContainerError where a file is damaged or cannot be read.
    """
    checkpoint = open_checkpoint(path, formats=formats)
    originals = None if source is None else Originals(open_checkpoint(source))
    subject = Subject(checkpoint)
    claims = _Claims.of(checkpoint)
    tensors: list[TensorAttribution] = []
    skipped: dict[str, str] = {d.base: d.faults[0].text for d in checkpoint.doubts if d.faults}
    for group in checkpoint.blocks.values():
        scale = read_scales(group).tensor
        if not group.elements:
            skipped[group.base] = "has no elements"
        elif group.form.grid not in (None, (128, 128)):
            skipped[group.base] = f"is {group.form.name}, a scale for each row or one for the tensor: no profile is known for these"
        elif group.scales is not None and group.scales.dtype == "BF16":
            skipped[group.base] = "has scales of bfloat16, which no known profile gives"
        elif scale is not None and len(scale[1]) != 1:
            skipped[group.base] = f"has {len(scale[1])} tensor scales, one for each of a stack"
        else:
            if progress is not None:
                progress(group.base)
            kept = None if scale is None else TensorScale(scale[0], scale[1][0])
            tensors.append(_attribute_tensor(subject, group, kept, claims.find(group), originals))
    of_files = tuple(Remark(Topic.CONTRACT, f"{f.rule.means}: {f.text}") for f in check_contracts(subject))
    return Attribution(Path(path), None if source is None else Path(source), tuple(tensors), skipped, of_files)


@dataclass(frozen=True, slots=True)
class _Claims:
    """What the files and the configuration say."""

    contracts: Mapping[Path, tuple[str, str]]
    library: str | None

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> _Claims:
        contracts = {p: (c.format_name, c.profile) for p, c in read_contracts(checkpoint).items()}
        folder = checkpoint.path if checkpoint.path.is_dir() else checkpoint.path.parent
        try:
            config = read_json(folder / "config.json", "the configuration") if (folder / "config.json").is_file() else {}
        except ContainerError:  # `lint` says so
            config = {}
        quantization = config.get("quantization_config", config.get("quantization"))
        method = quantization.get("quant_method") if isinstance(quantization, dict) else None
        method = "mlx" if is_mlx_config(quantization) else method
        return cls(contracts, method if isinstance(method, str) else None)

    def find(self, group: Group) -> Claim | None:
        """The claim about one tensor: the contract's where there is one, else the library's where it has profiles."""
        said = self.contracts.get(group.codes.path)
        if said is not None and said[0] == group.form.format_name:
            return Claim(said[1], contract=True)
        known = {name_library(p.id) for p in list_profiles(group.form.format)}
        return Claim(self.library, contract=False) if self.library in known else None


def _attribute_tensor(
    subject: Subject, group: Group, scale: TensorScale | None, claim: Claim | None, originals: Originals | None
) -> TensorAttribution:
    fmt = group.form.format
    counts = subject.counts(group) if group.form.grid is None else as_blocks(subject.grid(group), group)
    candidates = judge_grid(subject.grid(group), fmt) if fmt.scale == F32 else judge_profiles(counts, fmt, scale)
    provenance, missing = None, False
    if originals is not None:
        tensor = originals.find(group.base)
        missing = tensor is None or tensor.dtype not in PLAIN_DTYPES or tensor.shape != group.shape
        if tensor is not None and not missing:
            first = [claim.name] if claim is not None and claim.contract else []
            fused = list_fused(tensor, originals)
            grid = group.form.grid is not None
            provenance = (
                match_grid(GridCase(group, tensor, originals, tuple(first)))
                if grid
                else match(Case(group, tensor, originals, fused, first))
            )
    remarks = tuple(list_remarks(candidates, claim, provenance, missing=missing))
    return TensorAttribution(
        group.base, group.form.convention, fmt.name, group.shape, scale, _observe(counts, fmt), candidates, claim, provenance, remarks
    )


def _observe(counts: BlockCounts, fmt: BlockFormat) -> Observed:
    held = ordinary_blocks(counts, fmt)
    used = [int(b) for b in held.sum(axis=1).nonzero()[0]]
    zeros, minus = count_zeros(counts, fmt)
    columns = held.sum(axis=0)
    element = fmt.element
    unit = float(element.magnitude(1))
    value = (lambda c: c * unit) if element.twos_complement else (lambda c: float(element.magnitude(c)))
    blocks = int(counts.largest.sum())
    return Observed(
        blocks, blocks - int(held.sum()), (used[0], used[-1]) if used else None,
        {b: int(held[b, 0]) for b in used if held[b, 0]}, zeros, minus,
        {value(int(c)): int(columns[c]) for c in columns.nonzero()[0]},
    )  # fmt: skip
