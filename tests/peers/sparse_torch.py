"""torch as a witness of sparse operands: its conversion both ways, its class, and what its pruning keeps.

    PYTHONPATH=. PYTHON_WITH_TORCH tests/peers/sparse_torch.py [--json reports/sparse/torch.json]

Needs torch, NumPy and ml_dtypes; no GPU. What torch refuses on a CPU is recorded as such.
"""

from __future__ import annotations

import argparse
import platform
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.sparse import SparseSemiStructuredTensorCUTLASS, _semi_structured_conversions as conversions

from mxspec import sparsity
from mxspec.sparsity import KEPT, RULES
from mxspec_lab.evidence.status import write_result

Array = np.ndarray[Any, Any]
#: What is compared, how much of it, and how much of that differs.
Row = dict[str, Any]
SHAPES = ((32, 64), (32, 128), (64, 192), (96, 64), (160, 448), (288, 256), (512, 512))
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "int8": torch.int8}
RNG = np.random.default_rng(24)


def row(what: str, compared: int, differ: int, **more: Any) -> Row:
    """One comparison."""
    return {"what": what, "compared": compared, "differ": differ, **more}


def draw_sparse(shape: tuple[int, int], *, full: bool) -> Array:
    """Whole numbers, 2:4 sparse; full: two of each group are not zero, else up to two."""
    m, k = shape
    numbers = RNG.integers(1, 120, (m, k // 4, 2)) * RNG.choice([-1, 1], (m, k // 4, 2))
    if not full:
        numbers *= RNG.integers(0, 2, numbers.shape)
    nibbles = RNG.choice(list(KEPT), (m, k // 4)).astype(np.uint8)
    dense: Array = sparsity.decompress(numbers.reshape(m, -1).astype(np.float32), nibbles)
    return dense


def tensor_of(dense: Array, name: str) -> torch.Tensor:
    """Whole numbers as a tensor; all are exact in all three types."""
    return torch.from_numpy(dense.astype(np.float32)).to(DTYPES[name])


def parts_of(packed: torch.Tensor, meta: torch.Tensor) -> tuple[Array, Array]:
    """torch's parts as arrays that mxspec takes: bfloat16 by ml_dtypes."""
    if packed.dtype == torch.bfloat16:
        import ml_dtypes

        return packed.view(torch.int16).numpy().view(ml_dtypes.bfloat16), meta.numpy()
    return packed.numpy(), meta.numpy()


def tensors_of(packed: Array, meta: Array, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """mxspec's parts as torch's."""
    if name == "bfloat16":
        return torch.from_numpy(packed.view(np.int16).copy()).view(torch.bfloat16), torch.from_numpy(meta.copy())
    return torch.from_numpy(packed.copy()), torch.from_numpy(meta.copy())


def compare_conversions() -> Iterator[Row]:
    """Both directions, for matrices of two numbers in each group and of fewer."""
    for name in DTYPES:
        groups = other = words = back = whole = 0
        for shape in SHAPES:
            dense = draw_sparse(shape, full=True)
            theirs = conversions.sparse_semi_structured_from_dense_cutlass(tensor_of(dense, name))
            packed, meta = parts_of(*theirs)
            kept, nibbles = sparsity.compress(dense, kind="float32")
            mine = sparsity.convert(kept.astype(packed.dtype), nibbles, to="torch")
            words += int((mine[1] != meta).sum()) + int((mine[0] != packed).sum())
            again = conversions.sparse_semi_structured_to_dense_cutlass(*tensors_of(*mine, name))
            back += int((again.float().numpy() != dense).sum())
            groups += dense.size // 4
            few = draw_sparse(shape, full=False)
            found = sparsity.convert_from_torch(*parts_of(*conversions.sparse_semi_structured_from_dense_cutlass(tensor_of(few, name))))
            other += int((sparsity.decompress(*found).astype(np.float32) != few).sum())
            whole += int((found[1] != sparsity.compress(few, kind="float32")[1]).sum())
        yield row(f"{name}: convert(to='torch') against from_dense, kept items and words of metadata", groups, words)
        yield row(f"{name}: to_dense of mxspec's parts", 4 * groups, back)
        yield row(f"{name}: fewer than two numbers, torch's parts decompressed", 4 * groups, other)
        yield row(f"{name}: the same, nibbles that differ from mxspec's and mean the same", groups, whole, open=True)


def compare_class() -> Iterator[Row]:
    """torch's class, made of mxspec's parts."""
    for name in DTYPES:
        differ = compared = 0
        for shape in SHAPES[1:]:
            dense = draw_sparse(shape, full=False)
            kept, nibbles = sparsity.compress(dense, kind="float32")
            packed, _ = parts_of(tensor_of(kept, name), torch.empty(0))
            parts = tensors_of(*sparsity.convert(packed, nibbles, to="torch"), name)
            made = SparseSemiStructuredTensorCUTLASS(torch.Size(shape), *parts, None, None, None)
            differ += int((made.to_dense().float().numpy() != dense).sum())
            compared += dense.size
        yield row(f"{name}: SparseSemiStructuredTensorCUTLASS of mxspec's parts, to_dense", compared, differ)


def every_group() -> Array:
    """All groups of four numbers of -8 to 7."""
    return np.array(list(product(range(-8, 8), repeat=4)), np.float32)


def compare_choice() -> Iterator[Row]:
    """What the conversion takes of more than two numbers."""
    groups = every_group()
    packed, meta = conversions.sparse_semi_structured_from_dense_cutlass(tensor_of(groups.reshape(1024, 256), "int8"))
    nibbles = sparsity.convert_from_torch(*parts_of(packed, meta))[1].reshape(-1, 1)
    mine = sparsity.choose_kept(groups, kind="float32", rule="torch-2.13/from-dense")
    yield row("rule torch-2.13/from-dense against from_dense, all groups of 16 numbers", len(groups), int((mine != nibbles).sum()))


def norm_sparsifier(groups: Array) -> Array:
    """torch.ao's sparsifier, two zeros in each block of four."""
    from torch.ao.pruning import WeightNormSparsifier

    linear = torch.nn.Linear(groups.shape[1], groups.shape[0], bias=False)
    linear.weight = torch.nn.Parameter(torch.from_numpy(groups.copy()))
    model = torch.nn.Sequential(linear)
    sparsifier = WeightNormSparsifier(sparsity_level=1.0, sparse_block_shape=(1, 4), zeros_per_block=2)
    sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}])
    sparsifier.step()
    sparsifier.squash_mask()
    found: Array = model[0].weight.detach().numpy()
    return found


def tiles(groups: Array) -> Array:
    """The Python form of torch's greedy pruning of 4 x 4 tiles."""
    found: Array = conversions._sparse_semi_structured_tile(torch.from_numpy(groups.copy())).numpy()
    return found


def compare_pruning() -> Iterator[Row]:
    """Whether torch's ways to prune keep the largest, and which of equal ones."""
    every = every_group()
    chosen = every[RNG.permutation(len(every))[:4096]]
    ways: dict[str, Callable[[Array], Array]] = {"WeightNormSparsifier": norm_sparsifier, "_sparse_semi_structured_tile (Python)": tiles}
    for name, prune in ways.items():
        pruned = prune(chosen.reshape(512, 32)).reshape(-1, 4)
        legal = sparsity.find_largest(chosen, kind="float32")[:, 0]
        right = np.zeros(len(chosen), np.bool_)
        for number, kept in enumerate(KEPT.values()):
            mask = np.isin(np.arange(4), kept)
            right |= (legal >> number & 1 == 1) & (pruned == np.where(mask, chosen, 0)).all(axis=-1)
        same = {
            rule: int((pruned != sparsity.prune(chosen, kind="float32", rule=rule)).any(axis=-1).sum())
            for rule in RULES if RULES[rule].keeps_largest
        }  # fmt: skip
        minus = int((np.signbit(pruned) & (pruned == 0)).any(axis=-1).sum())
        yield row(
            f"{name}: groups that do not keep the largest", len(chosen), int((~right).sum()), open=True,
            differ_from_rule=same, groups_with_minus_zero=minus,
        )  # fmt: skip


def what_needs_a_gpu() -> Iterator[Row]:
    """Calls that torch refuses on a CPU, in its own words."""
    dense = tensor_of(draw_sparse((64, 128), full=True), "float16")
    calls: dict[str, Callable[[], Any]] = {
        "torch.sparse.to_sparse_semi_structured": lambda: torch.sparse.to_sparse_semi_structured(dense),
        "SparseSemiStructuredTensorCUTLASS.from_dense": lambda: SparseSemiStructuredTensorCUTLASS.from_dense(dense),
        "torch._sparse_semi_structured_tile": lambda: torch._sparse_semi_structured_tile(dense),
    }
    for name, call in calls.items():
        try:
            call()
            yield {"what": name, "refused": ""}
        except (RuntimeError, NotImplementedError) as error:
            yield {"what": name, "refused": str(error).partition(".")[0][:160]}


def main(arguments: list[str] | None = None) -> int:
    """Compare; returns 1 where something differs that must not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    rows = [*compare_conversions(), *compare_class(), *compare_choice(), *compare_pruning()]
    document = {
        "schema": "mxspec-sparse-torch/1",
        "versions": {"torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version()},
        "comparisons": rows,
        "on_a_gpu_alone": list(what_needs_a_gpu()),
    }
    for entry in rows:
        print(f"{entry['differ']:>7} of {entry['compared']:>8} differ: {entry['what']}")
    for entry in document["on_a_gpu_alone"]:  # type: ignore[attr-defined]
        print(f"{entry['what']}: {entry['refused'] or 'answered'}")
    if given.json:
        write_result(given.json, document)
    return int(any(r["differ"] for r in rows if not r.get("open")))


if __name__ == "__main__":
    sys.exit(main())
