"""Attribute checkpoints that libraries wrote, and planted contradictions: `python -m mxspec_lab.attributions`.

Writes reports/atlas/attribution.json. Checkpoints of comfy-kitchen, compressed-tensors, MLX and ModelOpt are the libraries'
own files among the tests; the others are made here by the libraries that are installed. A row says which profile the library is known to follow, and what its bytes alone, and then with the weights, say.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import ml_dtypes
import numpy as np
import numpy.typing as npt

import mxspec
from mxspec import containers
from mxspec.blocktensor import BlockTensor
from mxspec.containers.conventions import find_form
from mxspec.formats import get_block
from mxspec.profiles import get_profile
from mxspec.tensorscale import TensorScale, tensor_scale
from mxspec_conformance.attribution import Attribution, ScaleOrigin, Standing, attribute
from mxspec_conformance.attribution.remarks import list_remarks
from mxspec_conformance.results.environment import describe_environment
from mxspec_lab.evidence.status import write_result
from mxspec_lab.libraries import ask, find_version, list_here
from mxspec_lab.transformer.storing import write_arrays, write_gguf

SCHEMA = "mxspec-atlas-attribution/1"
ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "reports" / "atlas" / "attribution.json"
#: Checkpoints that the libraries themselves wrote, and the weights of all of them.
FILES = ROOT / "tests" / "containers" / "files"
#: The library by the first part of a folder's name: its package, and the profile that it follows for bfloat16 weights.
WRITERS = {
    "comfy-kitchen": ("comfy-kitchen", "comfy-kitchen-0.2/{}/eager"),
    "compressed-tensors": ("compressed-tensors", "compressed-tensors-0.20/{}/eager/bfloat16"),
    "mlx": ("mlx", "mlx-0.32/{}/cpu/bfloat16"),
    "modelopt": ("nvidia-modelopt", "modelopt-0.47/{}/dynamic"),
}
BASES = {"model.layers.0.self_attn.o_proj": (64, 256), "model.layers.0.mlp.down_proj": (32, 512)}
SEED = 16
#: Profiles by which `mxspec quantize` makes a checkpoint.
OWN = (
    ("mxfp4", "mx-floor"), ("mxfp4", "mx-rceil"), ("mxfp4", "mx-even"), ("mxfp4", "gguf-0.19/mxfp4"), ("mxfp8_e4m3", "mx-rceil"),
    ("mxfp6_e2m3", "mx-floor"), ("mxint8", "mx-floor"), ("nvfp4", "nvfp4-te"), ("nvfp4", "modelopt-0.47/nvfp4/dynamic"),
    ("nvfp4", "te-2.17/nvfp4/4over6-kernel/mse"),
)  # fmt: skip
Weights = Mapping[str, npt.NDArray[np.float32]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A checkpoint to attribute."""

    name: str
    path: Path
    source: Path
    #: The library that quantized it, its version, and who wrote the file.
    library: str = "mxspec"
    version: str = mxspec.__version__
    written_by: str = "mxspec.containers.write"
    #: The profile that the library is known to follow for these weights.
    follows: str
    #: What was done wrong on purpose: the topic of the remark that is due.
    planted: str = ""


def draw_weights() -> Weights:
    """N(0, 0.02) of bfloat16."""
    rng = np.random.default_rng(SEED)
    return {base: (0.02 * rng.standard_normal(shape)).astype(ml_dtypes.bfloat16).astype(np.float32) for base, shape in BASES.items()}


def _write(path: Path, tensors: Mapping[str, BlockTensor]) -> None:
    """A file of a convention that stores the format."""
    containers.write(path, tensors, _choose_convention(next(iter(tensors.values())).format.name), convert=True)


def _choose_convention(fmt: str) -> str:
    """One in which names, dtypes and shapes tell the format."""
    return "torch-dtypes" if find_form("compressed-tensors", fmt) is None else "compressed-tensors"


def list_library_files() -> Iterator[Made]:
    """What the libraries wrote themselves."""
    for folder in sorted(p for p in FILES.iterdir() if p.is_dir()):
        file = next(p for p in sorted(folder.iterdir()) if p.suffix == ".safetensors" and p.name != "decoded.safetensors")
        (fmt,) = {g.form.format_name for g in containers.open_checkpoint(file).blocks.values()}
        library, (package, profile) = next((n, f) for n, f in WRITERS.items() if folder.name.startswith(n))
        versions = json.loads((folder / "written_by.json").read_text("ascii"))
        yield Made(
            name=folder.name, path=file, source=FILES / "original.safetensors", written_by="the library", library=library,
            version=versions[package], follows=profile.format(fmt),
        )  # fmt: skip


def list_quantized_here(folder: Path, weights: Weights, source: Path) -> Iterator[Made]:
    """Checkpoints of the libraries that can be asked."""
    from gguf import GGMLQuantizationType, quants

    for adapter in list_here():
        for fmt, profile in adapter.profiles.items() if isinstance(adapter.profiles, Mapping) else ():
            tensors = _quantize(adapter.name, fmt, profile, weights)
            if tensors is not None:
                path = folder / f"{adapter.name}-{fmt}.safetensors"
                _write(path, tensors)
                yield Made(
                    name=path.stem, path=path, source=source, library=adapter.name, version=find_version(adapter.name), follows=profile
                )
    path = write_gguf(
        folder / "gguf.gguf",
        GGMLQuantizationType.MXFP4,
        {b: quants.quantize(x, GGMLQuantizationType.MXFP4) for b, x in weights.items()},
        "llama",
    )
    yield Made(
        name="gguf-file", path=path, source=source, library="gguf", version=find_version("gguf"), written_by="the library", follows="gguf-0.19/mxfp4",
    )  # fmt: skip


def _quantize(adapter: str, fmt: str, profile: str, weights: Weights) -> dict[str, BlockTensor] | None:
    """The weights by a library; None where it does not take one of them."""
    block, found = get_block(fmt), {}
    for base, x in weights.items():
        scale = tensor_scale(x, fmt, profile) if block.has_tensor_scale else None
        reply = ask(adapter, "quantize", fmt, x, tensor_scale=None if scale is None else scale.value)
        if isinstance(reply, str):
            return None
        codes, scales = map(np.ascontiguousarray, reply)
        found[base] = BlockTensor(
            format=block, profile=get_profile(profile, fmt), codes=codes, scales=scales, tensor_scale=scale, shape=x.shape, axis=1
        )
    return found


def list_own(folder: Path, source: Path) -> Iterator[Made]:
    """Checkpoints of `mxspec quantize`."""
    for fmt, profile in OWN:
        path = folder / f"own-{fmt}-{profile.replace('/', '-')}.safetensors"
        containers.quantize_checkpoint(source, path, fmt, _choose_convention(fmt), profile=profile, convert=True)
        yield Made(name=path.stem, path=path, source=source, written_by="mxspec quantize", follows=profile)


def list_planted(folder: Path, weights: Weights, source: Path) -> Iterator[Made]:
    """Contradictions made on purpose."""

    def made(name: str, tensors: Mapping[str, BlockTensor], follows: str, planted: str) -> Made:
        place = folder / name
        place.mkdir()
        _write(place / "model.safetensors", tensors)
        return Made(name=name, path=place / "model.safetensors", source=source, follows=follows, planted=planted)

    once = {b: mxspec.quantize(x, "mxfp8_e4m3", profile="mx-rceil").dequantize() for b, x in weights.items()}
    yield made("planted-twice", {b: mxspec.quantize(x, "mxfp4", profile="mx-floor") for b, x in once.items()}, "mx-floor", "twice")
    wrong = TensorScale("amax", 0.3)
    scaled = {b: mxspec.quantize(x, "nvfp4", profile="nvfp4-te", tensor_scale=wrong) for b, x in weights.items()}
    yield made("planted-tensor-scale", scaled, "nvfp4-te", "tensor-scale")
    ceil = {b: mxspec.quantize(x, "mxfp4", profile="mx-ceil") for b, x in weights.items()}
    found = made("planted-configuration", ceil, "mx-ceil", "configuration")
    (found.path.parent / "config.json").write_text(json.dumps({"quantization_config": {"quant_method": "quark"}}), "utf-8")
    yield found
    path = folder / "planted-contract.safetensors"
    containers.quantize_checkpoint(source, path, "mxfp4", "compressed-tensors", profile="mx-rceil")
    raw = path.read_bytes()
    assert raw.count(b"mx-rceil") == 1  # in the contract
    path.write_bytes(raw.replace(b"mx-rceil", b"mx-floor"))
    yield Made(
        name=path.stem, path=path, source=source, written_by="mxspec quantize, contract edited", follows="mx-rceil", planted="contract"
    )


def describe(made: Made, confirmed: Attribution) -> dict[str, Any]:
    """One row of the result."""
    (fmt,) = {t.format_name for t in confirmed.tensors}
    standings = {s.value: set.intersection(*(set(t.list(s)) for t in confirmed.tensors)) for s in Standing}
    ruled_out = set.union(*(set(t.list(Standing.EXCLUDED)) for t in confirmed.tensors))
    matches = [t.provenance for t in confirmed.tensors if t.provenance is not None]
    exact = set.intersection(*({m.profile for m in p.exact} for p in matches)) if matches else set()
    same = set.intersection(*({m.profile for m in p.same_values} for p in matches)) if matches else set()
    nearest = [m for p in matches for m in p.matches if m.profile == made.follows]
    return {
        "checkpoint": made.name, "library": made.library, "version": made.version, "written_by": made.written_by, "format": fmt,
        "convention": confirmed.tensors[0].convention, "tensors": len(confirmed.tensors),
        "blocks": sum(t.observed.blocks for t in confirmed.tensors), "follows": made.follows, "planted": made.planted,
        "consistent_with": sorted(standings["consistent"]), "excluded": sorted(ruled_out),
        "own_profile_excluded": made.follows in ruled_out, "exact_from_source": sorted(exact),
        "same_values_from_source": sorted(same - exact),
        "equal_blocks_of_own_profile": sum(m.equal for m in nearest),
        "tensor_scale_from": sorted({m.scale.value for m in nearest if isinstance(m.scale, ScaleOrigin)}),
        "remarks_by_bytes": sorted(
            {r.topic.value for t in confirmed.tensors for r in list_remarks(t.candidates, t.claim, None, missing=False)}
        ),
        "remarks_with_source": sorted({r.topic.value for t in confirmed.tensors for r in t.remarks}),
        "text": sorted({r.text for t in confirmed.tensors for r in t.remarks})[:2],
    }  # fmt: skip


@click.command()
@click.option("--json", "out", type=click.Path(path_type=Path), default=REPORT, show_default="reports/atlas/attribution.json")
def main(out: Path) -> None:
    """Make checkpoints, attribute them, and write the result."""
    started = time.process_time()
    weights = draw_weights()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = write_arrays(
            folder / "source.safetensors", {f"{base}.weight": x.astype(ml_dtypes.bfloat16) for base, x in weights.items()}
        )
        for made in (
            *list_library_files(), *list_quantized_here(folder, weights, source), *list_own(folder, source),
            *list_planted(folder, weights, source),
        ):  # fmt: skip
            row = describe(made, attribute(made.path, source=made.source))
            rows.append(row)
            said = ", ".join(row["remarks_with_source"]) or f"{len(row['exact_from_source'])} exact"
            click.echo(f"{made.name:44} {len(row['consistent_with']):3} consistent, {len(row['excluded']):3} excluded; {said}")
    write_result(
        out,
        {
            "schema": SCHEMA, "command": "python -m mxspec_lab.attributions", "environment": describe_environment(),
            "cpu_seconds": round(time.process_time() - started, 1), "seed": SEED, "rows": rows,
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
