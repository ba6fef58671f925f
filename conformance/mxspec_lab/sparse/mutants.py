"""Ways to get sparse operands wrong: the mistakes of Metal Marlin's document (`S4`), and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import numpy as np

from mxspec_lab.sparse.plain import Array, Form, Step, decode, find, gather, magnitude, scatter, select

Wrap = Callable[[Step], Step]
TWO = ("e2m1-2to4", "int4-2to4", "e4m3-2to4")
FOUR = ("e2m1-2to4", "int4-2to4")
PAIRS = ("e2m1-4to8",)
SIGNED = ("e2m1-2to4", "e4m3-2to4")
LINEAR = ("metal-marlin-values", "metal-marlin-metadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseMutant:
    """One small change to a right implementation."""

    id: str
    function: str
    #: `S4 E48`: a row of the list of that document's mistakes; `own`.
    source: str = "own"
    formats: tuple[str, ...] = TWO
    what: str
    change: Mapping[str, Step] = field(default_factory=dict)
    wrap: Mapping[str, Wrap] = field(default_factory=dict)
    #: What the target declares: a rule, a layout.
    declared: Mapping[str, Any] = field(default_factory=dict)


# prune


def selecting(order: Callable[[Array], Array]) -> Step:
    """Two positions by an order of weights: ascending positions of the first two."""
    return lambda weights: np.sort(order(weights)[..., :2], axis=-1)


def fixed(*positions: int) -> Step:
    return lambda weights: np.broadcast_to(np.array(positions), (*weights.shape[:-1], 2))


def by_code(groups: Array, form: Form) -> Any:
    """The code as an unsigned number."""
    return groups.astype(np.int64).sum(axis=-1)


def by_number(groups: Array, form: Form) -> Any:
    """The number, not its magnitude."""
    sign = groups >> form.bits - 1 == 1
    return np.where(sign, -magnitude(groups, form), magnitude(groups, form)).sum(axis=-1)


def by_low_bits(groups: Array, form: Form) -> Any:
    """The bits below the sign, of two's complement, too."""
    return (groups & (1 << form.bits - 1) - 1).astype(np.int64).sum(axis=-1)


def by_negated_code(groups: Array, form: Form) -> Any:
    """Sign and magnitude taken for two's complement."""
    wide = groups.astype(np.int64)
    return np.abs(np.where(wide >= 1 << form.bits - 1, wide - (1 << form.bits), wide)).sum(axis=-1)


def lowest_wraps(groups: Array, form: Form) -> Any:
    """abs of the most negative code overflows to itself."""
    size = magnitude(groups, form)
    return np.where(size == 1 << form.bits - 1, -size, size).sum(axis=-1)


def without_lowest_bit(groups: Array, form: Form) -> Any:
    return (magnitude(groups, form) >> 1).sum(axis=-1)


def nonzero_first(groups: Array, form: Form) -> Any:
    """Whatever is not the code 0 counts alike."""
    return (groups != 0).any(axis=-1).astype(np.int64)


def first_of_pair(groups: Array, form: Form) -> Array:
    return magnitude(groups[..., 0], form)


def one_of_two(weights: Array) -> Array:
    """The larger of 0 and 1, and of 2 and 3."""
    return np.stack([weights[..., 1] > weights[..., 0], 2 + (weights[..., 3] > weights[..., 2])], axis=-1).astype(np.intp)


def threshold(keep: Callable[[Array, Array], Array]) -> Step:
    """Groups in which everything stays that compares so with the second largest."""

    def blank(groups: Array, kept: Array, form: Form) -> Array:
        size = magnitude(groups, form).sum(axis=-1)
        second = np.sort(size, axis=-1)[..., 2:3]
        return np.where(keep(size, second)[..., None], groups, 0).astype(np.uint8)

    return blank


def only_largest(groups: Array, kept: Array, form: Form) -> Array:
    best = np.argmax(magnitude(groups, form).sum(axis=-1), axis=-1)[..., None]
    return np.where((np.arange(4) == best)[..., None], groups, 0).astype(np.uint8)


def to_the_front(groups: Array, kept: Array, form: Form) -> Array:
    out = np.zeros_like(groups)
    out[..., :2, :] = gather(groups, kept, form)
    return out


def filled_with(value: int) -> Step:
    def blank(groups: Array, kept: Array, form: Form) -> Array:
        out = np.full_like(groups, value)
        np.put_along_axis(out, kept[..., None], gather(groups, kept, form), axis=-2)
        return out

    return blank


def without_sign(groups: Array, kept: Array, form: Form) -> Array:
    out = np.zeros_like(groups)
    np.put_along_axis(out, kept[..., None], gather(groups, kept, form) & (1 << form.bits - 1) - 1, axis=-2)
    return out


def inverted(groups: Array, kept: Array, form: Form) -> Array:
    out = np.array(groups)
    np.put_along_axis(out, kept[..., None], 0, axis=-2)
    return out


def swapped_back(groups: Array, kept: Array, form: Form) -> Array:
    out = np.zeros_like(groups)
    np.put_along_axis(out, kept[..., None], gather(groups, kept, form)[..., ::-1, :], axis=-2)
    return out


def turning(before: Callable[[Array], Array], after: Callable[[Array], Array]) -> Wrap:
    """prune of something else than the rows that are given, put back."""

    def wrap(right: Step) -> Step:
        @wraps(right)
        def prune(codes: Any, fmt: str) -> Any:
            return np.ascontiguousarray(after(right(np.ascontiguousarray(before(np.asarray(codes))), fmt)))

        return prune

    return wrap


def transpose(a: Array) -> Array:
    return a.T


def rolled(by: int) -> Callable[[Array], Array]:
    return lambda a: np.roll(a, by, axis=-1)


def strided(a: Array) -> Array:
    """Neighbours are K / 4 apart."""
    return a.reshape(a.shape[0], 4, -1).swapaxes(1, 2).reshape(a.shape)


def unstrided(a: Array) -> Array:
    return a.reshape(a.shape[0], -1, 4).swapaxes(1, 2).reshape(a.shape)


def half_of_row(right: Step) -> Step:
    """The larger half of each row: half of the codes, but no structure."""

    def prune(codes: Any, fmt: str) -> Any:
        size = np.asarray(codes) & 7
        order = np.argsort(-size.astype(int), axis=-1, kind="stable")
        keep = np.zeros(size.shape, bool)
        np.put_along_axis(keep, order[:, : size.shape[1] // 2], True, axis=-1)
        return np.where(keep, codes, 0).astype(np.uint8)

    return prune


def tiles_of_four(right: Step) -> Step:
    """Greedily the largest of a 4 x 4 tile, at most two in each row and column: torch's, by magnitude."""

    def prune(codes: Any, fmt: str) -> Any:
        out = np.array(codes)
        rows, k = out.shape
        if rows % 4:
            return right(codes, fmt)
        for r in range(0, min(rows, 64), 4):
            for c in range(0, k, 4):
                tile = out[r : r + 4, c : c + 4]
                in_row, in_column = [0] * 4, [0] * 4
                for place in np.argsort(-(tile & 7).reshape(-1).astype(int), kind="stable"):
                    i, j = divmod(int(place), 4)
                    if in_row[i] < 2 and in_column[j] < 2:
                        in_row[i], in_column[j] = in_row[i] + 1, in_column[j] + 1
                    else:
                        tile[i, j] = 0
        return out

    return prune


def every_other_tie(weights: Array) -> Array:
    """Ties to the lower position in even groups, to the higher one in odd ones."""
    kept = select(weights)
    high = np.sort(np.argsort(weights, axis=-1, kind="stable")[..., -2:], axis=-1)
    odd = np.arange(weights.shape[-2])[:, None] % 2 == 1
    return np.where(odd, high, kept)


def beyond(limit: int, dirty: int | None = None) -> Wrap:
    """Groups beyond so many columns are left as they are, or hold something."""

    def wrap(right: Step) -> Step:
        @wraps(right)
        def function(codes: Any, *rest: Any) -> Any:
            answer = right(codes, *rest)
            out = np.array(answer)
            if out.shape[-1] > limit:
                out[..., limit:] = np.asarray(codes)[..., limit:] if dirty is None else dirty
            return out

        return function

    return wrap


def in_blocks_of(rows: int) -> Wrap:
    """Rows beyond whole blocks of rows are not written."""

    def wrap(right: Step) -> Step:
        @wraps(right)
        def function(codes: Any, *rest: Any) -> Any:
            out = np.array(right(codes, *rest))
            if out.shape[0] % rows:
                out[out.shape[0] // rows * rows :] = 0
            return out

        return function

    return wrap


def writes_into_input(right: Step) -> Step:
    def prune(codes: Any, fmt: str) -> Any:
        codes[...] = right(codes, fmt)
        return codes

    return prune


def shares_a_buffer(right: Step) -> Step:
    """All answers of a shape lie in one buffer."""
    kept: dict[Any, Array] = {}

    def function(*args: Any) -> Any:
        answer = np.asarray(right(*args))
        buffer = kept.setdefault(answer.shape, answer)
        buffer[...] = answer
        return buffer

    return function


def drops_the_tail(right: Step) -> Step:
    """What is no whole group is kept as it is."""

    def prune(codes: Any, fmt: str) -> Any:
        whole = codes.shape[-1] // 4 * 4
        out = np.zeros(np.shape(codes), np.uint8)
        out[..., :whole] = right(np.ascontiguousarray(codes[..., :whole]), fmt)
        return out

    return prune


# compress


def crossed(kept: Array, form: Form) -> Array:
    return (kept[..., 0] << 2 | kept[..., 1]).astype(np.uint8)


def as_mask(kept: Array, form: Form) -> Array:
    """One bit for each position that is kept."""
    return (1 << kept[..., 0] | 1 << kept[..., 1]).astype(np.uint8)


def as_distance(kept: Array, form: Form) -> Array:
    """The second position counted from the first."""
    return (kept[..., 1] - kept[..., 0] << 2 | kept[..., 0]).astype(np.uint8)


def gathered(order: slice | list[int]) -> Step:
    return lambda groups, kept, form: gather(groups, kept, form)[..., order, :]


def second_from_next_group(groups: Array, kept: Array, form: Form) -> Array:
    """The second code of a group comes from the group after it: [8..11] for [4..7]."""
    out = np.array(gather(groups, kept, form))
    after = np.roll(groups, -1, axis=-3)
    out[..., 1, :] = np.take_along_axis(after, kept[..., 1:, None], axis=-2)[..., 0, :]
    return out


def count_codes(groups: Array, form: Form) -> Array:
    """Codes that are not 0: -0 is one of them."""
    return select((groups != 0).any(axis=-1).astype(np.int64))


def doubled(groups: Array, form: Form) -> Array:
    """Of a single number its position twice."""
    kept = find(groups, form)
    some = (magnitude(groups, form) != 0).any(axis=-1)
    one = (some.sum(axis=-1) == 1)[..., None]
    return np.where(one, np.argmax(some, axis=-1)[..., None], kept)


def number_first(groups: Array, form: Form) -> Array:
    """The position of the larger first, whatever the order."""
    size = magnitude(groups, form).sum(axis=-1)
    kept = find(groups, form)
    of = np.take_along_axis(size, kept, axis=-1)
    return np.where((of[..., :1] < of[..., 1:]), kept[..., ::-1], kept)


def demands_two(groups: Array, form: Form) -> Array:
    """Exactly two of each group."""
    if ((magnitude(groups, form) != 0).any(axis=-1).sum(axis=-1) != 2).any():
        raise ValueError("a group does not have exactly two numbers")
    return find(groups, form)


def zeros_then_numbers(groups: Array, form: Form) -> Array:
    """Of a single number: it and the position after it, beyond the group for the last."""
    kept = find(groups, form)
    some = (magnitude(groups, form) != 0).any(axis=-1)
    place = np.argmax(some, axis=-1)[..., None]
    return np.where((some.sum(axis=-1) == 1)[..., None], np.concatenate([place, (place + 1) % 4], axis=-1), kept)


def of_metadata(change: Callable[[Array], Array]) -> Wrap:
    """The right kept codes, other metadata."""

    def wrap(right: Step) -> Step:
        @wraps(right)
        def compress(*args: Any) -> Any:
            kept, metadata = right(*args)
            return kept, change(np.array(metadata))

        return compress

    return wrap


def of_kept(change: Callable[[Array], Array]) -> Wrap:
    """The right metadata, other kept codes."""

    def wrap(right: Step) -> Step:
        @wraps(right)
        def compress(*args: Any) -> Any:
            kept, metadata = right(*args)
            return change(np.array(kept)), metadata

        return compress

    return wrap


def neighbours_exchanged(a: Array) -> Array:
    return a.reshape(*a.shape[:-1], -1, 2)[..., ::-1].reshape(a.shape) if a.shape[-1] % 2 == 0 else a


def shared_metadata(a: Array) -> Array:
    """All groups of a row get the nibble of the first of each eight."""
    return np.repeat(a[..., ::8], 8, axis=-1)[..., : a.shape[-1]]


def lowest_two_bits_lost(a: Array) -> Array:
    return a & 0xC


def row_above(a: Array) -> Array:
    return np.roll(a, 1, axis=0)


def reads_packed(right: Step) -> Step:
    """Takes two codes from each byte."""

    def compress(codes: Any, fmt: str) -> Any:
        data = np.asarray(codes)
        both = np.stack([data & 15, data >> 4], axis=-1).reshape(data.shape[0], -1)
        return right(both, fmt)

    return compress


# Words of the document: values [K / 16, N], metadata [K / 32, N].


def to_words(items: Array) -> Any:
    """Rows of nibbles [N, C] as words [C / 8, N]."""
    slots = items.reshape(items.shape[0], -1, 8).astype(np.uint32)
    return (slots << np.arange(0, 32, 4, dtype=np.uint32)).sum(axis=-1, dtype=np.uint32).T.copy()


def from_words(data: Array, rows: int) -> Array:
    words = np.asarray(data).view(np.uint32).reshape(-1, rows).T
    return (words[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15).astype(np.uint8).reshape(rows, -1)


def in_words(values: Callable[[Array], Array] = to_words, metadata: Callable[[Array], Array] = to_words) -> Wrap:
    """compress, its parts in words."""

    def wrap(right: Step) -> Step:
        @wraps(right)
        def compress(*args: Any) -> Any:
            kept, nibbles = right(*args)
            return values(kept), metadata(nibbles)

        return compress

    return wrap


def out_of_words(change: Callable[[Array], Array] = lambda a: a, change_kept: Callable[[Array], Array] = lambda a: a) -> Wrap:
    """decompress of words."""

    def wrap(right: Step) -> Step:
        @wraps(right)
        def decompress(kept: Any, metadata: Any, fmt: str, shape: tuple[int, ...]) -> Any:
            rows = shape[0]
            return right(change_kept(from_words(kept, rows)), change(from_words(metadata, rows)), fmt, shape)

        return decompress

    return wrap


def dense_words(items: Array) -> Any:
    """Eight dense codes to a word: four kept ones, then four zeros."""
    fours = items.reshape(items.shape[0], -1, 4)
    return to_words(np.concatenate([fours, np.zeros_like(fours)], axis=-1).reshape(items.shape[0], -1))


def along_n(nibbles: Array) -> Any:
    """[K / 16, N / 2]: four groups of two neighbouring columns share a word."""
    halves = nibbles.reshape(nibbles.shape[0] // 2, 2, -1, 4).astype(np.uint32)
    words = (halves << np.arange(0, 16, 4, dtype=np.uint32)).sum(axis=-1, dtype=np.uint32)
    return (words[:, 0] | words[:, 1] << np.uint32(16)).T.copy()


def upper_half_unread(nibbles: Array) -> Array:
    """Odd iterations along K read bits 0 to 15 again."""
    words = nibbles.reshape(*nibbles.shape[:-1], -1, 8)
    return np.concatenate([words[..., :4], words[..., :4]], axis=-1).reshape(nibbles.shape)


def words_by_row(items: Array) -> Any:
    """[N, C / 8]: words of a row lie together."""
    return to_words(items).T.copy()


def big_endian(items: Array) -> Any:
    return to_words(items).byteswap()


# decompress


def decoded(change: Callable[[Array], Array]) -> Step:
    return lambda nibbles, form: change(decode(nibbles, form))


def relative(nibbles: Array, form: Form) -> Array:
    """The second position counted from the first."""
    kept = decode(nibbles, form)
    return np.stack([kept[..., 0], (kept[..., 0] + kept[..., 1]) % 4], axis=-1)


def ignoring(nibbles: Array, form: Form) -> Array:
    return np.broadcast_to(np.array([0, 1]), (*nibbles.shape, 2))


def one_bit(nibbles: Array, form: Form) -> Array:
    """Positions of one bit."""
    return np.stack([nibbles & 1, nibbles >> 2 & 1], axis=-1).astype(np.intp)


def scattered(change: Callable[[Array], Array]) -> Step:
    return lambda units, kept, form: scatter(change(units), kept, form)


def repeating(units: Array, kept: Array, form: Form) -> Array:
    """What was not kept holds the first kept code."""
    out = np.repeat(units[..., :1, :], 4, axis=-2)
    np.put_along_axis(out, kept[..., None], units, axis=-2)
    return out


def adding(units: Array, kept: Array, form: Form) -> Array:
    """Kept codes are ORed into a buffer that starts with the group before."""
    out = scatter(units, kept, form)
    return out | np.roll(out, 1, axis=-3)


def only_first(units: Array, kept: Array, form: Form) -> Array:
    out = scatter(units, kept, form)
    np.put_along_axis(out, kept[..., 1:, None], 0, axis=-2)
    return out


def signs_lost(units: Array) -> Array:
    return units & 7


_PRUNE, _COMPRESS, _DECOMPRESS = "prune", "compress", "decompress"
_LOWER = {"PRUNE_RULE": "lower"}
_WORDS = {"SPARSE_LAYOUT": LINEAR}

MUTANTS: tuple[SparseMutant, ...] = (
    SparseMutant(id="prune-codes-as-numbers", function=_PRUNE, source="S4 E48", formats=SIGNED, what="abs of codes, which changes nothing: every negative code is the larger", change={"weigh": by_code}),
    SparseMutant(id="prune-codes-as-numbers-int4", function=_PRUNE, source="S4 E48", formats=("int4-2to4",), what="the same of two's complement", change={"weigh": by_code}),
    SparseMutant(id="prune-ties-higher", function=_PRUNE, source="S4 E49", what="ties to the higher position, where the lower one is claimed", change={"select": selecting(lambda w: np.argsort(w, axis=-1, kind="stable")[..., ::-1])}, declared=_LOWER),
    SparseMutant(id="prune-ties-alternate", function=_PRUNE, what="ties to the lower position in every other group alone, where it is claimed", change={"select": every_other_tie}, declared=_LOWER),
    SparseMutant(id="prune-pairs-by-maximum", function=_PRUNE, formats=PAIRS, what="pairs weighed by the larger code, where the sum is claimed", change={"weigh": lambda g, f: magnitude(g, f).max(axis=-1)}, declared=_LOWER),
    SparseMutant(id="prune-signed", function=_PRUNE, what="the largest numbers, not magnitudes", change={"weigh": by_number}),
    SparseMutant(id="prune-smallest", function=_PRUNE, what="the two smallest", change={"select": selecting(lambda w: np.argsort(w, axis=-1, kind="stable"))}),
    SparseMutant(id="prune-first-two", function=_PRUNE, what="the first two", change={"select": fixed(0, 1)}),
    SparseMutant(id="prune-ends", function=_PRUNE, what="the first and the last", change={"select": fixed(0, 3)}),
    SparseMutant(id="prune-one-of-two", function=_PRUNE, what="one of each two neighbours", change={"select": one_of_two}),
    SparseMutant(id="prune-nonzero-first", function=_PRUNE, what="the first two codes that are not 0: a conversion taken for pruning", change={"weigh": nonzero_first}),
    SparseMutant(id="prune-low-bits-of-int4", function=_PRUNE, formats=("int4-2to4", "int8-2to4"), what="two's complement taken for sign and magnitude", change={"weigh": by_low_bits}),
    SparseMutant(id="prune-sign-magnitude-as-int", function=_PRUNE, formats=SIGNED, what="sign and magnitude taken for two's complement", change={"weigh": by_negated_code}),
    SparseMutant(id="prune-abs-overflow", function=_PRUNE, formats=("int4-2to4", "int8-2to4"), what="abs of the most negative code overflows", change={"weigh": lowest_wraps}),
    SparseMutant(id="prune-coarse", function=_PRUNE, what="magnitudes without their lowest bit", change={"weigh": without_lowest_bit}),
    SparseMutant(id="prune-threshold-keeps-ties", function=_PRUNE, what="everything as large as the second largest stays: more than two of equal ones", change={"blank": threshold(lambda a, b: a >= b)}),
    SparseMutant(id="prune-threshold-drops-ties", function=_PRUNE, what="only what is larger than the second largest stays", change={"blank": threshold(lambda a, b: a > b)}),
    SparseMutant(id="prune-one", function=_PRUNE, what="only the largest", change={"blank": only_largest}),
    SparseMutant(id="prune-inverted", function=_PRUNE, what="what should be kept is dropped", change={"blank": inverted}),
    SparseMutant(id="prune-to-the-front", function=_PRUNE, what="what is kept moves to the front of its group", change={"blank": to_the_front}),
    SparseMutant(id="prune-exchanged", function=_PRUNE, what="the two kept codes exchange places", change={"blank": swapped_back}),
    SparseMutant(id="prune-fills-ones", function=_PRUNE, what="what is dropped becomes 1", change={"blank": filled_with(1)}),
    SparseMutant(id="prune-fills-int4-zero-point", function=_PRUNE, formats=("int4-2to4",), what="what is dropped becomes code 8, the zero of codes with an offset", change={"blank": filled_with(8)}),
    SparseMutant(id="prune-signs-lost", function=_PRUNE, what="kept codes lose their sign", change={"blank": without_sign}),
    SparseMutant(id="prune-along-rows", function=_PRUNE, what="groups along the other axis", wrap={"prune": turning(transpose, transpose)}),
    SparseMutant(id="prune-shifted", function=_PRUNE, what="groups begin two codes later", wrap={"prune": turning(rolled(-2), rolled(2))}),
    SparseMutant(id="prune-strided", function=_PRUNE, what="the four codes of a group are K / 4 apart", wrap={"prune": turning(strided, unstrided)}),
    SparseMutant(id="prune-unstructured", function=_PRUNE, formats=("e2m1-2to4",), what="the larger half of each row", wrap={"prune": half_of_row}),
    SparseMutant(id="prune-tiles", function=_PRUNE, source="torch _sparse_semi_structured_tile", formats=("e2m1-2to4",), what="at most two in each row and column of 4 x 4 tiles", wrap={"prune": tiles_of_four}),
    SparseMutant(id="prune-pairs-as-singles", function=_PRUNE, formats=PAIRS, what="two of four codes instead of whole pairs", wrap={"prune": lambda right: lambda codes, fmt: right(codes, "e2m1-2to4")}),
    SparseMutant(id="prune-singles-as-pairs", function=_PRUNE, formats=("e2m1-2to4",), what="whole pairs of eight instead of two of four", wrap={"prune": lambda right: lambda codes, fmt: right(np.concatenate([codes, codes], axis=-1), "e2m1-4to8")[:, : np.shape(codes)[1]]}),
    SparseMutant(id="prune-pairs-by-first", function=_PRUNE, formats=PAIRS, what="pairs weighed by their first code", change={"weigh": first_of_pair}),
    SparseMutant(id="prune-512-columns", function=_PRUNE, what="columns from 512 on stay dense", wrap={"prune": beyond(512)}),
    SparseMutant(id="prune-blocks-of-16-rows", function=_PRUNE, what="rows beyond whole blocks of 16 are zeros", wrap={"prune": in_blocks_of(16)}),
    SparseMutant(id="prune-in-place", function=_PRUNE, what="writes into its input", wrap={"prune": writes_into_input}),
    SparseMutant(id="prune-one-buffer", function=_PRUNE, what="all answers lie in one buffer", wrap={"prune": shares_a_buffer}),
    SparseMutant(id="prune-tail-lost", function=_PRUNE, formats=FOUR, what="columns beyond whole groups become zeros", wrap={"prune": drops_the_tail}),
    SparseMutant(id="compress-positions-crossed", function=_COMPRESS, what="first position << 2 | second", change={"encode": crossed}),
    SparseMutant(id="compress-kept-crossed", function=_COMPRESS, what="the second kept code first", change={"gather": gathered(slice(None, None, -1))}),
    SparseMutant(id="compress-both-crossed", function=_COMPRESS, what="codes and positions in descending order: legal for no consumer", change={"gather": gathered(slice(None, None, -1)), "encode": crossed}),
    SparseMutant(id="compress-mask", function=_COMPRESS, what="a bit for each position instead of two positions", change={"encode": as_mask}),
    SparseMutant(id="compress-distance", function=_COMPRESS, what="the second position counted from the first", change={"encode": as_distance}),
    SparseMutant(id="compress-first-twice", function=_COMPRESS, what="the first kept code twice", change={"gather": gathered([0, 0])}),
    SparseMutant(id="compress-next-group", function=_COMPRESS, source="S4 E52", what="the second code of a group from the group after it", change={"gather": second_from_next_group}),
    SparseMutant(id="compress-minus-zero", function=_COMPRESS, formats=SIGNED, what="-0 counts as a number, for which another one is dropped", change={"find": count_codes}),
    SparseMutant(id="compress-single-doubled", function=_COMPRESS, source="S4 E55", what="of a single number its position twice, which no nibble may say", change={"find": doubled}),
    SparseMutant(id="compress-larger-first", function=_COMPRESS, what="the larger number first, whatever its position", change={"find": number_first}),
    SparseMutant(id="compress-exactly-two", function=_COMPRESS, source="S4 E55", what="groups without exactly two numbers are refused", change={"find": demands_two}),
    SparseMutant(id="compress-single-and-next", function=_COMPRESS, source="S4 E55", what="of a single number the position after it, round the corner", change={"find": zeros_then_numbers}),
    SparseMutant(id="compress-by-code", function=_COMPRESS, formats=("int4-2to4",), what="two's complement taken for sign and magnitude: -8 is zero", change={"find": lambda g, f: select((g & 7 != 0).any(axis=-1).astype(np.int64))}),
    SparseMutant(id="compress-nibbles-exchanged", function=_COMPRESS, what="neighbouring nibbles exchanged: the high one first", wrap={"compress": of_metadata(neighbours_exchanged)}),
    SparseMutant(id="compress-one-nibble-for-eight", function=_COMPRESS, what="eight groups share the nibble of the first", wrap={"compress": of_metadata(shared_metadata)}),
    SparseMutant(id="compress-first-position-lost", function=_COMPRESS, what="only the second position is stored", wrap={"compress": of_metadata(lowest_two_bits_lost)}),
    SparseMutant(id="compress-metadata-of-row-above", function=_COMPRESS, what="metadata one row further down", wrap={"compress": of_metadata(row_above)}),
    SparseMutant(id="compress-no-metadata", function=_COMPRESS, what="all nibbles are 4", wrap={"compress": of_metadata(lambda a: np.full_like(a, 4))}),
    SparseMutant(id="compress-kept-of-row-above", function=_COMPRESS, what="kept codes one row further down", wrap={"compress": of_kept(row_above)}),
    SparseMutant(id="compress-signs-lost", function=_COMPRESS, formats=FOUR, what="kept codes lose their sign", wrap={"compress": of_kept(lambda a: a & 7)}),
    SparseMutant(id="compress-neighbours", function=_COMPRESS, what="kept codes exchanged in twos", wrap={"compress": of_kept(neighbours_exchanged)}),
    SparseMutant(id="compress-pairs-turned", function=_COMPRESS, formats=PAIRS, what="the two codes of a pair exchanged", change={"gather": lambda g, k, f: gather(g, k, f)[..., ::-1]}),
    SparseMutant(id="compress-pairs-as-singles", function=_COMPRESS, formats=PAIRS, what="4:8 compressed as 2:4", wrap={"compress": lambda right: lambda codes, fmt: (lambda k, m: (k, m[..., ::2]))(*right(codes, "e2m1-2to4"))}),
    SparseMutant(id="compress-reads-packed", function=_COMPRESS, source="S4 E50", formats=("e2m1-2to4",), what="takes two codes from each byte", wrap={"compress": reads_packed}),
    SparseMutant(id="compress-words-of-eight-dense", function=_COMPRESS, source="S4 E51", formats=FOUR, what="eight dense codes to a word of values", wrap={"compress": in_words(values=dense_words)}, declared=_WORDS),
    SparseMutant(id="compress-words-along-n", function=_COMPRESS, source="S4 E53", formats=FOUR, what="words of metadata pair two columns: [K / 16, N / 2]", wrap={"compress": in_words(metadata=along_n)}, declared=_WORDS),
    SparseMutant(id="compress-words-by-row", function=_COMPRESS, formats=FOUR, what="words of a row lie together: [N, K / 32]", wrap={"compress": in_words(words_by_row, words_by_row)}, declared=_WORDS),
    SparseMutant(id="compress-words-big-endian", function=_COMPRESS, formats=FOUR, what="words are big-endian", wrap={"compress": in_words(big_endian, big_endian)}, declared=_WORDS),
    SparseMutant(id="decompress-positions-crossed", function=_DECOMPRESS, what="the upper two bits are the first position", change={"decode": decoded(lambda a: a[..., ::-1])}),
    SparseMutant(id="decompress-kept-crossed", function=_DECOMPRESS, what="the second kept code first", change={"scatter": scattered(lambda u: u[..., ::-1, :])}),
    SparseMutant(id="decompress-relative", function=_DECOMPRESS, what="the second position counted from the first", change={"decode": relative}),
    SparseMutant(id="decompress-no-metadata", function=_DECOMPRESS, what="everything goes to the first two positions", change={"decode": ignoring}),
    SparseMutant(id="decompress-one-bit", function=_DECOMPRESS, what="positions of one bit", change={"decode": one_bit}),
    SparseMutant(id="decompress-reversed", function=_DECOMPRESS, what="positions count from the end", change={"decode": decoded(lambda a: 3 - a)}),
    SparseMutant(id="decompress-not-cleared", function=_DECOMPRESS, what="what was not kept holds a kept code", change={"scatter": repeating}),
    SparseMutant(id="decompress-accumulates", function=_DECOMPRESS, what="kept codes are ORed into what the group before left", change={"scatter": adding}),
    SparseMutant(id="decompress-only-first", function=_DECOMPRESS, what="the second kept code is lost", change={"scatter": only_first}),
    SparseMutant(id="decompress-signs-lost", function=_DECOMPRESS, formats=FOUR, what="kept codes lose their sign", change={"scatter": scattered(signs_lost)}),
    SparseMutant(id="decompress-nibbles-exchanged", function=_DECOMPRESS, what="the high nibble first", wrap={"decompress": lambda right: lambda k, m, f, s: right(k, neighbours_exchanged(np.asarray(m)), f, s)}),
    SparseMutant(id="decompress-odd-iterations", function=_DECOMPRESS, source="S4 E54", formats=FOUR, what="odd iterations along K read bits 0 to 15 of the word again", wrap={"decompress": out_of_words(upper_half_unread)}, declared=_WORDS),
    SparseMutant(id="decompress-words-along-n", function=_DECOMPRESS, source="S4 E53", formats=FOUR, what="words of values read by row", wrap={"decompress": out_of_words(change_kept=lambda a: np.ascontiguousarray(a.reshape(-1, a.shape[0]).T))}, declared=_WORDS),
    SparseMutant(id="decompress-pairs-turned", function=_DECOMPRESS, formats=PAIRS, what="the two codes of a pair exchanged", change={"scatter": scattered(lambda u: u[..., ::-1])}),
    SparseMutant(id="decompress-pairs-interleaved", function=_DECOMPRESS, formats=PAIRS, what="the halves of a pair four codes apart", change={"join": lambda g, f: np.ascontiguousarray(g.swapaxes(-1, -2)).reshape(*g.shape[:-3], -1)}),
    SparseMutant(id="decompress-256-columns", function=_DECOMPRESS, what="columns from 256 on are not written", wrap={"decompress": lambda right: lambda k, m, f, s: _zeroed(right(k, m, f, s), 256)}),
    SparseMutant(id="decompress-one-buffer", function=_DECOMPRESS, what="all answers lie in one buffer", wrap={"decompress": shares_a_buffer}),
)  # fmt: skip


def _zeroed(answer: Array, limit: int) -> Array:
    out = np.array(answer)
    out[..., limit:] = 0
    return out


__all__ = ["MUTANTS", "SparseMutant"]
