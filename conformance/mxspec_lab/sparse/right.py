"""Right implementations that do otherwise than the model wherever that is allowed: none may be accused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mxspec_conformance.mutants.staged import Step, Wrap, around
from mxspec_lab.sparse.mutants import LINEAR, from_words, in_words, out_of_words, selecting, to_words
from mxspec_lab.sparse.plain import FORMS, Array, Form, SparseVariant, find, gather, magnitude

FOUR_BITS = ("e2m1-2to4", "int4-2to4")


def _higher(weights: Array) -> Array:
    return np.argsort(weights, axis=-1, kind="stable")[..., ::-1]


def _any_tie(weights: Array) -> Array:
    """Ties by a number that has nothing to do with positions."""
    noise = (np.arange(weights.size).reshape(weights.shape) * 2654435761 >> 7) % 97
    return np.argsort(-(weights * 128 + noise), axis=-1, kind="stable")


@around
def _cutlass(right: Step, codes: Any, fmt: str) -> Any:
    """Nibble 0 for groups of zeros, as CUTLASS' compressor writes; otherwise legal ones."""
    kept, metadata = right(codes, fmt)
    form = FORMS[fmt]
    empty = (magnitude(np.asarray(codes), form).reshape(*metadata.shape, -1) == 0).all(axis=-1)
    return kept, np.where(empty, 0, metadata).astype(np.uint8)


#: torch's nibbles by which of the four are not zero.
_TORCH = np.array([14, 8, 9, 4, 14, 8, 9, 4, 14, 12, 13, 4, 14, 12, 13, 4])


def _torch_choice(groups: Array, form: Form) -> Array:
    mask = (magnitude(groups, form) != 0).any(axis=-1) @ (1 << np.arange(4))
    return np.stack([_TORCH[mask] & 3, _TORCH[mask] >> 2], axis=-1)


def _highest_zeros(groups: Array, form: Form) -> Array:
    """Zeros are kept at the highest positions."""
    number = (magnitude(groups, form) != 0).any(axis=-1).astype(np.int64)
    return np.sort(_higher(number)[..., :2], axis=-1)


def _any_zeros(groups: Array, form: Form) -> Array:
    """Zeros are kept at positions that follow no rule."""
    number = (magnitude(groups, form) != 0).any(axis=-1).astype(np.int64)
    noise = (np.arange(number.size).reshape(number.shape) * 2654435761 >> 9) % 61
    return np.sort(np.argsort(-(number * 64 + noise), axis=-1, kind="stable")[..., :2], axis=-1)


def _minus_zeros(groups: Array, kept: Array, form: Form) -> Array:
    """What is dropped keeps its sign, as a product with 0 does."""
    minus = 1 << form.bits - 1 if form.signed_magnitude else 0
    out = (groups & minus).astype(np.uint8)
    np.put_along_axis(out, kept[..., None], gather(groups, kept, form), axis=-2)
    return out


def _plus_zeros(groups: Array, kept: Array, form: Form) -> Array:
    """Kept zeros lose their sign."""
    units = gather(groups, kept, form)
    return np.where(magnitude(units, form) == 0, 0, units).astype(np.uint8)


def _refuses_minus_zero(groups: Array, form: Form) -> Array:
    if ((groups != 0).any(axis=-1).sum(axis=-1) > 2).any():
        raise ValueError("more than two codes of a group are not 0")
    return find(groups, form)


@around
def _refuses_illegal(right: Step, kept: Any, metadata: Any, fmt: str, shape: tuple[int, ...]) -> Any:
    if not np.isin(metadata, [4, 8, 9, 12, 13, 14]).all():
        raise ValueError("illegal nibble")
    return right(kept, metadata, fmt, shape)


@around
def _ignores_illegal(right: Step, kept: Any, metadata: Any, fmt: str, shape: tuple[int, ...]) -> Any:
    """Illegal nibbles give zeros."""
    legal = np.isin(metadata, [4, 8, 9, 12, 13, 14])
    out = np.array(right(kept, metadata, fmt, shape)).reshape(*np.shape(metadata), -1)
    out[~legal] = 0
    return out.reshape(shape)


@around
def _pads(right: Step, codes: Any, fmt: str) -> Any:
    """A ragged row is answered as if zeros followed."""
    k, step = np.shape(codes)[1], 4 * FORMS[fmt].unit
    return np.asarray(right(np.pad(codes, ((0, 0), (0, -k % step))), fmt))[:, :k]


def _only(allowed: Callable[[int, int], bool]) -> Wrap:
    """Matrices of some shapes only."""

    def function(right: Step, first: Any, *rest: Any) -> Any:
        rows, k = rest[-1] if isinstance(rest[-1], tuple) else np.shape(first)
        if not allowed(rows, k):
            raise ValueError(f"[{rows}, {k}] is not taken")
        return right(first, *rest)

    return around(function)


@around
def _as_int8(right: Step, *args: Any) -> Any:
    answer = right(*args)
    return tuple(a.view(np.int8) for a in answer) if isinstance(answer, tuple) else answer.view(np.int8)


def _offers(*functions: str) -> Mapping[str, Wrap]:
    """Only some of the functions."""

    def refuse(right: Step) -> Step:
        def function(*args: Any) -> Any:
            raise NotImplementedError("not offered")

        return function

    return {f: refuse for f in ("prune", "compress", "decompress") if f not in functions}


@around
def _torch_words(right: Step, codes: Any, fmt: str) -> Any:
    """compress whose metadata are torch's int32 words of 8-bit items."""
    kept, nibbles = right(codes, fmt)
    m, c = nibbles.shape
    words = (nibbles.reshape(m, -1, 8).astype(np.int64) << np.arange(0, 32, 4)).sum(axis=-1).astype(np.uint32)
    rows, columns = np.meshgrid(np.arange(m), np.arange(c // 8), indexing="ij")
    # CUTLASS: rows in an order of 16, the corners of 2 x 2 words exchanged, then pairs of columns interleaved.
    to = rows // 16 * 16 + rows % 8 * 2 + rows % 16 // 8
    up, left = (to % 2 == 0) & (columns % 2 == 1), (to % 2 == 1) & (columns % 2 == 0)
    to_row, to_column = to + up - left, columns - up + left
    out = np.empty(words.size, np.uint32)
    out[to_column // 2 * m * 2 + to_row * 2 + to_column % 2] = words
    return kept, out.reshape(words.shape)


#: The formats of right implementations, unless others are given.
_SOME = ("e2m1-2to4", "e2m1-4to8", "int4-2to4", "e5m2-2to4")

RIGHT: tuple[SparseVariant, ...] = (
    SparseVariant(id="plain", what="nothing special", formats=tuple(FORMS)),
    SparseVariant(id="ties-higher", formats=_SOME, what="ties to the higher position", change={"select": selecting(_higher)}),
    SparseVariant(id="ties-anyhow", formats=_SOME, what="ties without a rule", change={"select": selecting(_any_tie)}),
    SparseVariant(id="claims-lower", formats=_SOME, what="claims the rule that it follows", declared={"PRUNE_RULE": "lower"}),
    SparseVariant(id="claims-higher", formats=_SOME, what="claims the rule that it follows", change={"select": selecting(_higher)}, declared={"PRUNE_RULE": "higher"}),
    SparseVariant(id="pairs-by-squares", formats=_SOME, what="pairs by the sum of squares", change={"weigh": lambda g, f: (magnitude(g, f) ** 2).sum(axis=-1) if f.unit > 1 else magnitude(g, f)[..., 0]}),
    SparseVariant(id="pairs-by-maximum", formats=_SOME, what="pairs by the larger code", change={"weigh": lambda g, f: magnitude(g, f).max(axis=-1)}),
    SparseVariant(id="pairs-by-maximum-claimed", formats=_SOME, what="the same, claimed", change={"weigh": lambda g, f: magnitude(g, f).max(axis=-1)}, declared={"PRUNE_RULE": "lower-max"}),
    SparseVariant(id="cutlass-zeros", formats=_SOME, what="nibble 0 for groups of zeros", wrap={"compress": _cutlass}),
    SparseVariant(id="torch-zeros", formats=_SOME, what="torch's choice of zeros that are kept", change={"find": _torch_choice}),
    SparseVariant(id="highest-zeros", formats=_SOME, what="zeros kept at the highest positions", change={"find": _highest_zeros}),
    SparseVariant(id="any-zeros", formats=_SOME, what="zeros kept anywhere", change={"find": _any_zeros}),
    SparseVariant(id="minus-zeros", formats=_SOME, what="dropped codes keep their sign", change={"blank": _minus_zeros}),
    SparseVariant(id="plus-zeros", formats=_SOME, what="kept zeros lose their sign", change={"gather": _plus_zeros}),
    SparseVariant(id="refuses-minus-zero", formats=_SOME, what="a third code that is -0 is refused", change={"find": _refuses_minus_zero}),
    SparseVariant(id="refuses-illegal", formats=_SOME, what="illegal nibbles are refused", wrap={"decompress": _refuses_illegal}),
    SparseVariant(id="ignores-illegal", formats=_SOME, what="illegal nibbles give zeros", wrap={"decompress": _ignores_illegal}),
    SparseVariant(id="pads", formats=_SOME, what="ragged rows as if zeros followed", wrap={"prune": _pads}),
    SparseVariant(id="int8", formats=_SOME, what="answers are int8 by their bits", wrap=dict.fromkeys(("prune", "compress", "decompress"), _as_int8)),
    SparseVariant(id="columns-of-128", formats=_SOME, what="K in multiples of 128, declared", wrap=dict.fromkeys(("prune", "compress", "decompress"), _only(lambda m, k: k % 128 == 0)), declared={"SHAPES": {"k": 128}}),
    SparseVariant(id="large-rows", formats=_SOME, what="128 rows and more, K in multiples of 256, declared", wrap=dict.fromkeys(("prune", "compress", "decompress"), _only(lambda m, k: k % 256 == 0 and m >= 128 and m % 16 == 0)), declared={"SHAPES": {"k": 256, "rows": 16, "min_rows": 128}}),
    SparseVariant(id="refuses-small", formats=_SOME, what="K below 64 is refused, undeclared", wrap=dict.fromkeys(("prune", "compress", "decompress"), _only(lambda m, k: k >= 64))),
    SparseVariant(id="linear-words", what="words of the Metal Marlin document", formats=FOUR_BITS, wrap={"compress": in_words(), "decompress": out_of_words()}, declared={"SPARSE_LAYOUT": LINEAR}),
    SparseVariant(id="nibble-low", what="two codes, and two nibbles, to a byte", formats=FOUR_BITS, wrap={"compress": in_words(lambda a: to_words(a.reshape(1, -1)).T, lambda a: to_words(a.reshape(1, -1)).T), "decompress": lambda right: lambda k, m, f, s: right(from_words(k, 1).reshape(s[0], -1), from_words(m, 1).reshape(s[0], -1), f, s)}, declared={"SPARSE_LAYOUT": ("nibble-low", "nibble-low")}),
    SparseVariant(id="torch-metadata", what="kept bytes and torch's metadata", formats=("int8-2to4",), wrap={"compress": _torch_words, **_offers("prune", "compress")}, declared={"SPARSE_LAYOUT": ("unpacked", "torch-metadata-32"), "SHAPES": {"k": 64, "rows": 16}}),
    SparseVariant(id="only-prune", formats=_SOME, what="offers pruning alone", wrap=_offers("prune")),
    SparseVariant(id="only-compress", formats=_SOME, what="offers compressing alone", wrap=_offers("compress")),
    SparseVariant(id="only-decompress", formats=_SOME, what="offers decompressing alone", wrap=_offers("decompress")),
)  # fmt: skip
