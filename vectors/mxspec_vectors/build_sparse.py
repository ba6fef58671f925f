"""The sparse files: groups of codes to prune, to compress and to decompress.

A group is what one metadata nibble speaks of: four codes, of pairs eight. Groups do not depend on each other, so that they can be
asked in matrices of any shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.sparsity import KEPT, SPARSE_FORMATS, SparseFormat, Sparsity, choose_kept, decompress, find_largest, take
from mxspec_vectors.document import VERSION, Document, case_id
from mxspec_vectors.topics import FLAGS

Codes = npt.NDArray[np.uint8]

#: Groups that are drawn where not all can be asked.
_DRAWN = 512
#: Codes of each position where not all pairs of kept codes can be asked.
_SAMPLED = 16


def list_sparse_names() -> tuple[str, ...]:
    """The sparse formats that have a file."""
    return tuple(SPARSE_FORMATS)


def build_sparse(name: str) -> Document:
    """The file of one sparse format."""
    fmt = SPARSE_FORMATS[name]
    return document_sparse(fmt, list(_make_cases(fmt)))


def document_sparse(fmt: SparseFormat, cases: Sequence[dict[str, Any]]) -> Document:
    """Cases of a sparse format as its file has them."""
    flags = dict.fromkeys(flag for case in cases for flag in case["flags"])
    return {
        "schema": f"mxspec-vectors/{VERSION}/sparse",
        "operation": "sparse",
        "format": fmt.name,
        "licence": "CC0-1.0",
        "kind": fmt.kind,
        "sparsity": fmt.sparsity.value,
        "group": fmt.group,
        "zeros": hex_codes(zeros_of(fmt), fmt),
        "patterns": [{"nibble": nibble, "kept": list(kept)} for nibble, kept in KEPT.items()],
        "flags": {
            f: {"note": FLAGS[f].note, "source": FLAGS[f].source, "kind": FLAGS[f].kind, "evidence": FLAGS[f].evidence} for f in flags
        },
        "cases": list(cases),
    }


def hex_codes(codes: npt.NDArray[Any], fmt: SparseFormat) -> str:
    """One hex digit for each 4-bit code, else two."""
    return "".join(f"{int(c):0{fmt.codes.digits}x}" for c in codes.flat)


def zeros_of(fmt: SparseFormat) -> Codes:
    """The codes that mean zero."""
    return np.array([c for c in range(1 << fmt.codes.bits) if _order(fmt)[c] == 0], np.uint8)


def _order(fmt: SparseFormat) -> npt.NDArray[np.int64]:
    table = fmt.codes.table
    assert table is not None
    return table


def list_numbers(fmt: SparseFormat) -> Codes:
    """Finite codes that are not zero, ascending."""
    order = _order(fmt)
    finite = order < order.max() if fmt.kind == "e5m2" else order >= 0
    return np.flatnonzero(finite & (order > 0)).astype(np.uint8)


def scramble(count: int, turn: int) -> npt.NDArray[np.uint64]:
    """Numbers without a pattern: the upper bits of multiples of the golden ratio, hashed once more."""
    z = (np.arange(count, dtype=np.uint64) + np.uint64(turn << 20)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    return z >> np.uint64(24)


def _draw(codes: Codes, shape: tuple[int, int], turn: int) -> Codes:
    found: Codes = codes[(scramble(shape[0] * shape[1], turn) % np.uint64(len(codes))).astype(np.intp)].reshape(shape)
    return found


def _by_magnitude(fmt: SparseFormat) -> list[Codes]:
    """The codes of each magnitude, zeros first."""
    known = np.concatenate([zeros_of(fmt), list_numbers(fmt)])
    order = _order(fmt)[known]
    return [known[order == size] for size in np.unique(order)]


def _with_magnitudes(groups: Sequence[Sequence[int]], fmt: SparseFormat, turn: int) -> Codes:
    """Codes of magnitudes given by rank, each with either sign."""
    sizes = _by_magnitude(fmt)
    signs = scramble(4 * len(groups), turn).reshape(-1, 4)
    return np.array(
        [[sizes[m][int(s) % len(sizes[m])] for m, s in zip(g, own, strict=True)] for g, own in zip(groups, signs, strict=True)], np.uint8
    )


def groups_to_prune(fmt: SparseFormat) -> Codes:
    """Groups of all magnitudes in all places where that can be done, else of neighbouring ones in all orders, and drawn ones."""
    everything = np.concatenate([zeros_of(fmt), list_numbers(fmt)])
    if fmt.sparsity is Sparsity.PAIRS:
        drawn = _draw(everything, (2 * _DRAWN, 8), 1)
        thin = _draw(everything, (_DRAWN // 2, 8), 2)
        thin[scramble(thin.size, 3).reshape(thin.shape) % np.uint64(2) == 0] = 0
        # Two pairs far above the others, in all places.
        low, high = _by_magnitude(fmt)[1], _by_magnitude(fmt)[-1]
        clear = _draw(low, (6 * 8, 8), 4)
        for number, kept in enumerate(list(KEPT.values()) * 8):
            for place in kept:
                clear[number, 2 * place : 2 * place + 2] = high[int(scramble(1, 100 + number)[0]) % len(high)]
        return np.unique(np.concatenate([drawn, thin, clear]), axis=0)
    ranks = len(_by_magnitude(fmt))
    if fmt.codes.bits == 4:
        return _with_magnitudes(list(product(range(ranks), repeat=4)), fmt, 5)
    steps = sorted({round(i * (ranks - 3) / 23) for i in range(24)})
    orders = list(permutations(range(4)))
    near = [[(ranks - 1, r + 1, r, max(r - 1, 0))[i] for i in orders[(5 * n + t) % 24]] for n, r in enumerate(steps) for t in range(6)]
    ties = [[(r + 1, r, r, 0)[i] for i in orders[(7 * n + t) % 24]] for n, r in enumerate(steps[::3]) for t in range(12)]
    few = [[m if i in kept else 0 for i in range(4)] for m in steps[::4] for kept in (*KEPT.values(), (0,), (1,), (2,), (3,))]
    directed = [_with_magnitudes(groups, fmt, turn) for turn, groups in enumerate((near, ties, few), 6)]
    return np.unique(np.concatenate([*directed, _draw(everything, (_DRAWN, 4), 9)]), axis=0)


def sort_groups(fmt: SparseFormat, groups: Codes) -> Iterator[tuple[str, npt.NDArray[np.intp], Codes]]:
    """(topic, which groups, the patterns that are right) of groups to prune."""
    legal = find_largest(groups, kind=fmt.kind, sparsity=fmt.sparsity)[:, 0]
    order = _order(fmt)[groups].reshape(len(groups), 4, -1)
    few = ((order != 0).any(axis=-1).sum(axis=-1)) <= 2
    # What is right by value: patterns that keep the same numbers are one.
    kept = np.zeros((len(groups), len(KEPT), *order.shape[1:]), np.int64)
    for number, places in enumerate(KEPT.values()):
        kept[:, number, places] = groups.reshape(order.shape)[:, places] * (order[:, places] != 0) + (order[:, places] != 0)
    rights = (legal[:, None] >> np.arange(len(KEPT)) & 1).astype(bool)
    first = rights.argmax(axis=1)
    same = (kept == kept[np.arange(len(groups)), first][:, None]).all(axis=(2, 3))
    unique = (same | ~rights).all(axis=1)
    for topic, where in (("few", few), ("largest", unique & ~few), ("prune-tie", ~unique & ~few)):
        yield topic, np.flatnonzero(where), legal[where]


_PRUNE_FLAGS = {
    "few": ["few-kept", "negative-zero"],
    "largest": ["codes-as-numbers", "sparse-place"],
    "prune-tie": ["tie-position", "codes-as-numbers"],
}


def _make_cases(fmt: SparseFormat) -> Iterator[dict[str, Any]]:
    yield from list_prune_cases(fmt, groups_to_prune(fmt))
    for topic, flags, dense in _to_compress(fmt):
        yield make_compress_case(fmt, topic, flags, dense)
    for topic, flags, kept, nibbles in _to_decompress(fmt):
        yield make_decompress_case(fmt, topic, flags, kept, nibbles)


def list_prune_cases(fmt: SparseFormat, groups: Codes) -> Iterator[dict[str, Any]]:
    """Groups [n, group] to prune, a case for each topic."""
    for topic, where, legal in sort_groups(fmt, groups):
        asked = {"function": "prune", "codes": hex_codes(groups[where], fmt)}
        yield _case(fmt, topic, _PRUNE_FLAGS[topic], asked, {"patterns": legal.tobytes().hex()})


def make_compress_case(fmt: SparseFormat, topic: str, flags: list[str], dense: Codes) -> dict[str, Any]:
    """Groups [n, group] with no more numbers than are kept."""
    nibbles = choose_kept(dense, kind=fmt.kind, sparsity=fmt.sparsity)
    kept = take(dense, nibbles, sparsity=fmt.sparsity)
    answer = {"kept": hex_codes(kept, fmt), "metadata": "".join(f"{n:x}" for n in nibbles.flat)}
    return _case(fmt, topic, flags, {"function": "compress", "codes": hex_codes(dense, fmt)}, answer)


def make_decompress_case(fmt: SparseFormat, topic: str, flags: list[str], kept: Codes, nibbles: Codes) -> dict[str, Any]:
    """Kept codes [n, group / 2] and their nibbles [n, 1]."""
    asked = {"function": "decompress", "kept": hex_codes(kept, fmt), "metadata": "".join(f"{n:x}" for n in nibbles.flat)}
    return _case(fmt, topic, flags, asked, {"codes": hex_codes(_scatter(kept, nibbles, fmt), fmt)})


def _case(fmt: SparseFormat, topic: str, flags: list[str], asked: dict[str, Any], answer: dict[str, str]) -> dict[str, Any]:
    identity = {"operation": "sparse", "format": fmt.name, **asked}
    return {"id": case_id(f"{asked['function']}-{topic}", identity), "topic": topic, "flags": flags, **asked, "expect": [answer]}


def _kept_pairs(fmt: SparseFormat, codes: Codes) -> Codes:
    """Two kept units: of every code with every other where these are few."""
    if fmt.sparsity is Sparsity.PAIRS:
        return _draw(codes, (96, 4), 10)
    if fmt.codes.bits == 4:
        return np.array(list(product(codes.tolist(), repeat=2)), np.uint8)
    ends = np.stack([codes, np.roll(codes, 7)], axis=1)
    return ends[:: max(len(ends) // (4 * _SAMPLED), 1)]


def _to_compress(fmt: SparseFormat) -> Iterator[tuple[str, list[str], Codes]]:
    numbers = list_numbers(fmt)
    pairs = _kept_pairs(fmt, numbers)
    yield "pattern", ["sparse-place"], _under_all_patterns(pairs, fmt)[0]
    unit = fmt.sparsity.unit
    single = np.zeros((4 * _SAMPLED + 4, fmt.group), np.uint8)
    chosen = numbers[:: max(len(numbers) // _SAMPLED, 1)]
    for i in range(4 * _SAMPLED):
        place = i % 4 * unit + (i // 4) % unit
        single[i, place] = chosen[i % len(chosen)]
    yield "few", ["few-kept"], np.unique(single, axis=0)
    if len(zeros_of(fmt)) > 1:
        minus = int(zeros_of(fmt)[1])
        dense = _under_all_patterns(pairs[:: -(-len(pairs) // 16)], fmt)[0]
        lowest = np.where(dense == 0, np.uint8(minus), dense)
        some = np.where((dense == 0) & (scramble(dense.size, 11).reshape(dense.shape) % np.uint64(2) == 0), np.uint8(minus), dense)
        zeros = np.array([[0] * fmt.group, [minus] * fmt.group], np.uint8)
        yield "negative-zero", ["negative-zero"], np.unique(np.concatenate([lowest, some, zeros]), axis=0)


def _under_all_patterns(pairs: Codes, fmt: SparseFormat) -> tuple[Codes, Codes, Codes]:
    """(dense, kept, metadata) of kept units under each of the six patterns, the pattern changing fastest."""
    kept = np.repeat(pairs, len(KEPT), axis=0)
    nibbles = np.tile(np.array(list(KEPT), np.uint8), len(pairs))[:, None]
    return decompress(kept, nibbles, sparsity=fmt.sparsity), kept, nibbles


def _to_decompress(fmt: SparseFormat) -> Iterator[tuple[str, list[str], Codes, Codes]]:
    everything = np.sort(np.concatenate([zeros_of(fmt), list_numbers(fmt)]))
    pairs = _kept_pairs(fmt, everything)
    yield ("pattern", ["sparse-place"], *_under_all_patterns(pairs, fmt)[1:])
    illegal = np.array([n for n in range(16) if n not in KEPT], np.uint8)
    few = pairs[1 :: max(len(pairs) // 8, 1)][:8]
    yield "illegal-metadata", ["illegal-nibble"], np.repeat(few, len(illegal), axis=0), np.tile(illegal, len(few))[:, None]


def _scatter(kept: Codes, nibbles: Codes, fmt: SparseFormat) -> Codes:
    """Each kept unit at the position that the nibble gives, the second over the first: legal nibbles and others."""
    units = kept.reshape(len(kept), 2, fmt.sparsity.unit)
    dense = np.zeros((len(kept), 4, fmt.sparsity.unit), np.uint8)
    rows = np.arange(len(kept))
    dense[rows, nibbles[:, 0] & 3] = units[:, 0]
    dense[rows, nibbles[:, 0] >> 2] = units[:, 1]
    return dense.reshape(len(kept), fmt.group)
