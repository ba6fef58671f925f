"""Quantized by A, moved by B, decoded by C: `python -m mxspec_lab.interop` writes reports/atlas/interop.json.

A and C are the libraries that are installed here, and every profile of the model
as a stand-in for what cannot run; stand-ins are marked. B are the conventions of containers: each file is written and read.

Every decoder here takes an element's value from its code, the block's scale byte and the tensor scale alone, so each is asked for
all of them once, and a cell is judged on the pairs of codes and scale bytes that occur. What C returns is compared with what A's
own decoder returns for the bytes that A wrote.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

import mxspec
from mxspec import containers
from mxspec.blocktensor import BlockTensor
from mxspec.containers.conventions import list_forms
from mxspec.formats import BLOCKS, BlockFormat, get_block
from mxspec.profiles import Profile, get_profile, list_profiles
from mxspec.tensorscale import TensorScale, convert_tensor_scale, derive_tensor_scale
from mxspec_conformance.adapters.registry import Adapter
from mxspec_conformance.results.environment import describe_environment
from mxspec_lab.evidence.status import write_result
from mxspec_lab.libraries import ask, find_version, list_here
from mxspec_vectors.cases import open_document, read_floats

SCHEMA = "mxspec-atlas-interop/1"
REPORT = Path(__file__).resolve().parents[2] / "reports" / "atlas" / "interop.json"
SEED, NORMAL, FROM_VECTORS = 16, 256, 256
#: Elements of a row of the moved tensors: whole blocks of every convention.
ROW = 256
Codes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


# Inputs


def draw_inputs(fmt: BlockFormat) -> tuple[Floats, int, int]:
    """Blocks [n, k], how many of them are of the vectors, and the float32 bits of the largest magnitude of the others."""
    entries = [e for e in open_document("quantize", fmt.name)["cases"] if e["shape"] == [1, fmt.k] and e.get("axis", -1) == -1]
    step = max(len(entries) // FROM_VECTORS, 1)
    chosen = np.concatenate([read_floats(e["x"]).reshape(1, fmt.k) for e in entries[::step][:FROM_VECTORS]])
    normal = np.random.default_rng(SEED).standard_normal((NORMAL, fmt.k)).astype(np.float32)
    x = np.concatenate([chosen, normal])
    x = x[: len(x) * fmt.k // ROW * ROW // fmt.k]
    return x, len(chosen), int(np.abs(normal).max().view(np.uint32))


# Quantizers


@dataclass(frozen=True, slots=True)
class Stored:
    """What A wrote."""

    name: str
    stand_in: bool
    codes: Codes
    scales: Codes
    tensor_scale: TensorScale | None
    #: The decoder that is A's own.
    decoder: str


def quantize_by_profiles(fmt: BlockFormat, x: Floats, amax: int) -> Iterator[Stored]:
    """What every profile gives; those that refuse NaN are not asked for blocks that hold one."""
    for profile in list_profiles(fmt):
        two_level = fmt.has_tensor_scale and profile.two_level is not None
        if profile.transform is not None or (not two_level and profile.one_level is None):
            continue
        scale = derive_tensor_scale(amax, profile) if two_level else None
        try:
            t = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale)
        except ValueError:
            t = mxspec.quantize(x[np.isfinite(x).all(axis=1)], fmt, profile=profile, tensor_scale=scale)
        # Bit 7 of a ue4m3 byte is no part of the format.
        yield Stored(profile.id, True, t.codes, t.scales.reshape(-1) & np.uint8(fmt.scale.code_count - 1), scale, profile.id)


def quantize_by_libraries(fmt: BlockFormat, x: Floats, amax: int, adapters: Sequence[Adapter]) -> Iterator[Stored]:
    """What the libraries give; one that fails on NaN or infinity is asked for the finite blocks."""
    for adapter in adapters:
        name = _profile_of(adapter, fmt)
        if name is None:
            continue
        profile = get_profile(name, fmt)
        scale = derive_tensor_scale(amax, profile) if fmt.has_tensor_scale and profile.tensor is not None else None
        for blocks in (x, x[np.isfinite(x).all(axis=1)]):
            reply = ask(adapter.name, "quantize", fmt.name, blocks, tensor_scale=None if scale is None else scale.value)
            if not isinstance(reply, str):
                stored = reply[1].reshape(-1) & np.uint8(fmt.scale.code_count - 1)
                yield Stored(adapter.name, False, reply[0], stored, scale, adapter.name)
                break


def _profile_of(adapter: Adapter, fmt: BlockFormat) -> str | None:
    return adapter.profiles.get(fmt.name) if isinstance(adapter.profiles, Mapping) else None


# Decoders


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The values that a decoder gives under one tensor scale: float32 [scale codes, element codes]."""

    name: str
    stand_in: bool
    values: Floats


def _all_pairs(fmt: BlockFormat) -> tuple[Codes, Codes]:
    """Rows of codes, and scale bytes, in which each pair occurs."""
    count, scales = max(fmt.element.code_count, fmt.k), fmt.scale.code_count
    codes = np.tile((np.arange(count) % fmt.element.code_count).astype(np.uint8), scales).reshape(-1, fmt.k)
    return codes, np.repeat(np.arange(scales).astype(np.uint8), count // fmt.k)


def _as_table(fmt: BlockFormat, values: npt.NDArray[Any]) -> Floats:
    found: Floats = np.ascontiguousarray(values, np.float32).reshape(fmt.scale.code_count, -1)[:, : fmt.element.code_count]
    return found


def decode_by_profiles(fmt: BlockFormat, scale: TensorScale | None) -> Iterator[Table]:
    """What every profile's arithmetic gives."""
    codes, scales = _all_pairs(fmt)
    for profile in list_profiles(fmt):
        if (scale is not None and profile.two_level is None) or (scale is None and profile.one_level is None):
            continue
        values = mxspec.dequantize(codes, scales[:, None], fmt, profile=profile, tensor_scale=scale, convert=True)
        yield Table(profile.id, True, _as_table(fmt, values))


def decode_by_libraries(fmt: BlockFormat, scale: TensorScale | None, adapters: Sequence[Adapter]) -> Iterator[Table]:
    """What the libraries give; ml_dtypes decodes elements and scales, whose product is made here in float32."""
    codes, scales = _all_pairs(fmt)
    for adapter in adapters:
        native: float | None = None
        if scale is not None:
            name = _profile_of(adapter, fmt)
            if name is None or get_profile(name, fmt).tensor is None:
                continue
            native = convert_tensor_scale(scale, get_profile(name, fmt)).value
        reply = ask(adapter.name, "dequantize", fmt.name, codes, scales[:, None], tensor_scale=native)
        if not isinstance(reply, str):
            yield Table(adapter.name, False, _as_table(fmt, reply[0]))
    if scale is None:
        elements = ask("ml_dtypes", "decode", fmt.element.name, np.arange(fmt.element.code_count, dtype=np.uint8))
        bytes_ = ask(
            "ml_dtypes", "decode", "e4m3" if fmt.has_tensor_scale else fmt.scale.name, np.arange(fmt.scale.code_count).astype(np.uint8)
        )
        if not isinstance(elements, str) and not isinstance(bytes_, str):
            with np.errstate(all="ignore"):
                yield Table("ml_dtypes", False, np.multiply.outer(np.asarray(bytes_[0], np.float32), np.asarray(elements[0], np.float32)))


# Movers


def move(fmt: BlockFormat, stored: Stored, folder: Path) -> dict[str, tuple[bool, TensorScale | None]]:
    """Convention -> whether codes and scales came back as they were, and the tensor scale that it holds."""
    count = stored.codes.size // ROW * ROW
    shape = (count // ROW, ROW)
    profile = get_profile(stored.decoder, fmt) if stored.stand_in else mxspec.default_profile(fmt)
    codes = stored.codes.reshape(-1)[:count].reshape(shape)
    scales = stored.scales[: count // fmt.k].reshape(shape[0], -1)
    found: dict[str, tuple[bool, TensorScale | None]] = {}
    for form in list_forms():
        if form.format_name != fmt.name:
            continue
        path = folder / f"moved.{form.container}"
        sent = BlockTensor(format=fmt, profile=profile, codes=codes, scales=scales, tensor_scale=stored.tensor_scale, shape=shape, axis=1)
        try:
            containers.write(path, {"w.0.x": sent}, form.convention, convert=True, force=True)
        except containers.ContainerError:
            continue
        back = containers.open_checkpoint(path, formats=(fmt.name,)).read("w.0.x")
        same = np.array_equal(back.codes, codes) and np.array_equal(back.scales, scales)
        found[form.convention] = (same, back.tensor_scale)
    return found


# The matrix


def compare(mine: Floats, theirs: Floats, used: npt.NDArray[np.bool_], counts: npt.NDArray[np.int64]) -> dict[str, Any]:
    """The verdict on the pairs that occur: bits equal, values equal, or wrong, with the pair that occurs most often, and how far
    values are apart: a wrong last bit is wrong, too.
    """
    a, b = mine.view(np.uint32), theirs.view(np.uint32)
    both_nan = np.isnan(mine) & np.isnan(theirs)
    with np.errstate(invalid="ignore"):
        differ = used & (a != b)
        wrong = used & ~both_nan & ~(mine == theirs)
    elements = int(counts.sum())
    found: dict[str, Any] = {"verdict": "wrong" if wrong.any() else "values" if differ.any() else "bits", "elements": elements}
    chosen = wrong if wrong.any() else differ
    if chosen.any():
        # The pair that occurs most often: a block of one element and zeros shows it.
        s, c = (int(i) for i in np.unravel_index(np.where(chosen, counts, 0).argmax(), chosen.shape))
        found |= {
            "differing": int(counts[chosen].sum()),
            "largest_ulps": _count_ulps(mine[chosen], theirs[chosen]),
            "minimal": {"scale": f"{s:02x}", "code": f"{c:02x}", "due": f"{int(a[s, c]):08x}", "returned": f"{int(b[s, c]):08x}"},
        }
    return found


def _count_ulps(mine: Floats, theirs: Floats) -> int | None:
    """The most float32 numbers between two values; None: one is NaN, infinite, or of the other sign."""
    if not (np.isfinite(mine) & np.isfinite(theirs) & (np.signbit(mine) == np.signbit(theirs))).all():
        return None
    a, b = mine.view(np.uint32).astype(np.int64), theirs.view(np.uint32).astype(np.int64)
    return int(np.abs(a - b).max())


def name_decoders(tables: Sequence[Table]) -> tuple[dict[str, str], list[dict[str, Any]], dict[str, Floats]]:
    """Decoders that give the same bits are one column: name -> column, the columns, and their tables."""
    columns: dict[bytes, str] = {}
    members: dict[str, list[Table]] = {}
    for table in sorted(tables, key=lambda t: t.stand_in):
        column = columns.setdefault(table.values.tobytes(), table.name)
        members.setdefault(column, []).append(table)
    described = [
        {"decoder": name, "libraries": [t.name for t in ts if not t.stand_in], "stand_ins": [t.name for t in ts if t.stand_in]}
        for name, ts in members.items()
    ]
    return ({t.name: name for name, ts in members.items() for t in ts}, described, {n: ts[0].values for n, ts in members.items()})


def run_format(fmt: BlockFormat, adapters: Sequence[Adapter]) -> dict[str, list[dict[str, Any]]]:
    """Rows and decoders of one format."""
    x, _, amax = draw_inputs(fmt)
    known: dict[TensorScale | None, tuple[dict[str, str], list[dict[str, Any]], dict[str, Floats]]] = {}
    decoders: list[dict[str, Any]] = []

    def decode(scale: TensorScale | None) -> tuple[dict[str, str], dict[str, Floats]]:
        bare = None if scale is None else TensorScale(scale.kind, scale.bits)
        if bare not in known:
            tables = [*decode_by_libraries(fmt, bare, adapters), *decode_by_profiles(fmt, bare)]
            known[bare] = name_decoders(tables)
            text = None if bare is None else f"{bare.kind.value}:{bare.bits:08x}"
            decoders.extend({"format": fmt.name, "tensor_scale": text, **row} for row in known[bare][1])
        return known[bare][0], known[bare][2]

    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        stored_by = [*quantize_by_libraries(fmt, x, amax, adapters), *quantize_by_profiles(fmt, x, amax)]
        for stored in stored_by:
            columns, tables = decode(stored.tensor_scale)
            own = columns.get(stored.decoder)
            if own is None:
                continue
            keys = np.repeat(stored.scales.astype(np.int64), fmt.k) * fmt.element.code_count + stored.codes.reshape(-1)
            counts = np.bincount(keys, minlength=fmt.scale.code_count * fmt.element.code_count)
            counts = counts.reshape(fmt.scale.code_count, -1)
            by_scale: dict[tuple[bool, TensorScale | None], list[str]] = {}
            for convention, (same, scale) in move(fmt, stored, Path(name)).items():
                bare = None if scale is None else TensorScale(scale.kind, scale.bits)
                by_scale.setdefault((same, bare), []).append(convention)
            by_scale = by_scale or {(True, stored.tensor_scale): []}
            for (same, scale), conventions in by_scale.items():
                for column, values in decode(scale)[1].items():
                    rows.append({
                        "format": fmt.name, "quantized_by": stored.name, "stand_in": stored.stand_in, "moved_by": conventions,
                        "bytes_kept": same, "tensor_scale": None if scale is None else f"{scale.kind.value}:{scale.bits:08x}",
                        "tensor_scale_kept": scale is None or stored.tensor_scale is None or scale.bits == stored.tensor_scale.bits,
                        "decoded_by": column, **compare(tables[own], values, counts > 0, counts),
                    })  # fmt: skip
    return {"rows": rows, "decoders": decoders}


# Requantization


def requantize(fmt: BlockFormat, profile: Profile, x: Floats, amax: int) -> dict[str, Any] | None:
    """Whether Q(D(Q(x))) is Q(x), block by block, on finite blocks, under one tensor scale."""
    two_level = fmt.has_tensor_scale and profile.two_level is not None
    if profile.transform is not None or (not two_level and profile.one_level is None):
        return None
    scale = derive_tensor_scale(amax, profile) if two_level else None
    x = x[np.isfinite(x).all(axis=1)]
    once = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale)
    y = once.dequantize(np.float32)
    fit = np.isfinite(y).all(axis=1)
    twice = mxspec.quantize(y[fit], fmt, profile=profile, tensor_scale=scale)
    fold = np.arange(256, dtype=np.uint8)
    if not fmt.element.twos_complement:
        fold[fmt.element.sign_bit] = 0
    same_scale = (once.scales[fit] == twice.scales).reshape(-1)
    equal = same_scale & (once.codes[fit] == twice.codes).all(axis=1)
    again = twice.dequantize(np.float32)
    values = (again == y[fit]).all(axis=1)
    normal = np.arange(len(x))[fit] >= len(x) - NORMAL
    row: dict[str, Any] = {
        "format": fmt.name, "profile": profile.id, "blocks": int(fit.sum()), "equal_bits": int(equal.sum()), "equal_values": int(values.sum()),
        "normal_blocks": int(normal.sum()), "normal_equal_bits": int(equal[normal].sum()), "normal_equal_values": int(values[normal].sum()),
    }  # fmt: skip
    if not values.all():
        # The block with the fewest elements that are not zero.
        bad = np.flatnonzero(~values)
        n = bad[(y[fit][bad] != 0).sum(axis=1).argmin()]
        row["minimal"] = {
            "x": " ".join(f"{int(b):08x}" for b in x[fit][n].view(np.uint32)), "scale": f"{int(once.scales[fit].reshape(-1)[n]):02x}",
            "again": f"{int(twice.scales.reshape(-1)[n]):02x}", "codes": once.codes[fit][n].tobytes().hex(), "codes_again": twice.codes[n].tobytes().hex(),
        }  # fmt: skip
    return row


@click.command()
@click.option("--format", "formats", multiple=True, type=click.Choice(tuple(BLOCKS)), help="Only this format; repeatable.")
@click.option("--json", "out", type=click.Path(dir_okay=False, path_type=Path), default=REPORT, show_default="reports/atlas/interop.json")
def main(formats: tuple[str, ...], out: Path) -> None:
    """Compare every quantizer with every decoder, and write the matrix."""
    started = time.process_time()
    adapters = list_here()
    rows, decoders, again = [], [], []
    for name in formats or BLOCKS:
        fmt = get_block(name)
        found = run_format(fmt, adapters)
        rows += found["rows"]
        decoders += found["decoders"]
        x, _, amax = draw_inputs(fmt)
        again += [r for p in list_profiles(fmt) if (r := requantize(fmt, p, x, amax)) is not None]
        verdicts = [r["verdict"] for r in found["rows"]]
        click.echo(f"{name:11} " + ", ".join(f"{verdicts.count(v)} {v}" for v in ("bits", "values", "wrong")))
    write_result(
        out,
        {
            "schema": SCHEMA, "command": "python -m mxspec_lab.interop", "environment": describe_environment(), "cpu_seconds": round(time.process_time() - started, 1),
            "seed": SEED, "inputs": f"up to {FROM_VECTORS} blocks of the vectors, and {NORMAL} of N(0, 1)",
            "versions": {name: find_version(name) for name in (*(a.name for a in adapters), "ml_dtypes")}, "decoders": decoders, "rows": rows, "requantization": again,
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
