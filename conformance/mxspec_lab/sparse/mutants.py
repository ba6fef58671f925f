"""Ways to get sparse operands wrong: the mistakes of Metal Marlin's document (`S4`), and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxspec_conformance.mutants.staged import Step, Wrap, around
from mxspec_lab.sparse.plain import Array, Form, SparseVariant, decode, encode, find, gather, magnitude, scatter, select, weigh

TWO = ("e2m1-2to4", "int4-2to4", "e4m3-2to4")
FOUR = ("e2m1-2to4", "int4-2to4")
PAIRS = ("e2m1-4to8",)
SIGNED = ("e2m1-2to4", "e4m3-2to4")
LINEAR = ("metal-marlin-values", "metal-marlin-metadata")


# prune


def selecting(order: Callable[[Array], Array]) -> Step:
    """Two positions by an order of weights: ascending positions of the first two."""
    return lambda weights: np.sort(order(weights)[..., :2], axis=-1)


def fixed(*positions: int) -> Step:
    return lambda weights: np.broadcast_to(np.array(positions), (*weights.shape[:-1], 2))


def by_number(groups: Array, form: Form) -> Any:
    """The number, not its magnitude."""
    sign = groups >> form.bits - 1 == 1
    return np.where(sign, -magnitude(groups, form), magnitude(groups, form)).sum(axis=-1)


def by_negated_code(groups: Array, form: Form) -> Any:
    """Sign and magnitude taken for two's complement."""
    wide = groups.astype(np.int64)
    return np.abs(np.where(wide >= 1 << form.bits - 1, wide - (1 << form.bits), wide)).sum(axis=-1)


def lowest_wraps(groups: Array, form: Form) -> Any:
    """abs of the most negative code overflows to itself."""
    size = magnitude(groups, form)
    return np.where(size == 1 << form.bits - 1, -size, size).sum(axis=-1)


def threshold(keep: Callable[[Array, Array], Array]) -> Step:
    """Groups in which everything stays that compares so with the second largest."""

    def blank(groups: Array, kept: Array, form: Form) -> Array:
        size = magnitude(groups, form).sum(axis=-1)
        second = np.sort(size, axis=-1)[..., 2:3]
        return np.where(keep(size, second)[..., None], groups, 0).astype(np.uint8)

    return blank


def put(out: Array, kept: Array, units: Any) -> Array:
    """Groups with units at positions."""
    np.put_along_axis(out, kept[..., None], units, axis=-2)
    return out


def keeping(change: Callable[[Array, Form], Any], fill: int = 0) -> Step:
    """Kept units changed, something in place of the others."""
    return lambda groups, kept, form: put(np.full_like(groups, fill), kept, change(gather(groups, kept, form), form))


def turning(before: Callable[[Array], Array], after: Callable[[Array], Array]) -> Wrap:
    """prune of something else than the rows that are given, put back."""

    def prune(right: Step, codes: Any, fmt: str) -> Any:
        return np.ascontiguousarray(after(right(np.ascontiguousarray(before(np.asarray(codes))), fmt)))

    return around(prune)


def strided(a: Array) -> Array:
    """Neighbours are K / 4 apart."""
    return a.reshape(a.shape[0], 4, -1).swapaxes(1, 2).reshape(a.shape)


@around
def half_of_row(right: Step, codes: Any, fmt: str) -> Any:
    """The larger half of each row: half of the codes, but no structure."""
    size = np.asarray(codes) & 7
    order = np.argsort(-size.astype(int), axis=-1, kind="stable")
    keep = np.zeros(size.shape, bool)
    np.put_along_axis(keep, order[:, : size.shape[1] // 2], True, axis=-1)
    return np.where(keep, codes, 0).astype(np.uint8)


@around
def tiles_of_four(right: Step, codes: Any, fmt: str) -> Any:
    """Greedily the largest of a 4 x 4 tile, at most two in each row and column: torch's, by magnitude."""
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


def every_other_tie(weights: Array) -> Array:
    """Ties to the lower position in even groups, to the higher one in odd ones."""
    kept = select(weights)
    high = np.sort(np.argsort(weights, axis=-1, kind="stable")[..., -2:], axis=-1)
    odd = np.arange(weights.shape[-2])[:, None] % 2 == 1
    return np.where(odd, high, kept)


def beyond(limit: int, dirty: int | None = None) -> Wrap:
    """Groups beyond so many columns are left as they are, or hold something."""

    def function(right: Step, codes: Any, *rest: Any) -> Any:
        answer = right(codes, *rest)
        out = np.array(answer)
        if out.shape[-1] > limit:
            out[..., limit:] = np.asarray(codes)[..., limit:] if dirty is None else dirty
        return out

    return around(function)


def in_blocks_of(rows: int) -> Wrap:
    """Rows beyond whole blocks of rows are not written."""

    def function(right: Step, codes: Any, *rest: Any) -> Any:
        out = np.array(right(codes, *rest))
        if out.shape[0] % rows:
            out[out.shape[0] // rows * rows :] = 0
        return out

    return around(function)


@around
def writes_into_input(right: Step, codes: Any, fmt: str) -> Any:
    codes[...] = right(codes, fmt)
    return codes


def shares_a_buffer(right: Step) -> Step:
    """All answers of a shape lie in one buffer."""
    kept: dict[Any, Array] = {}

    def function(*args: Any) -> Any:
        answer = np.asarray(right(*args))
        buffer = kept.setdefault(answer.shape, answer)
        buffer[...] = answer
        return buffer

    return function


@around
def drops_the_tail(right: Step, codes: Any, fmt: str) -> Any:
    """What is no whole group is kept as it is."""
    whole = codes.shape[-1] // 4 * 4
    out = np.zeros(np.shape(codes), np.uint8)
    out[..., :whole] = right(np.ascontiguousarray(codes[..., :whole]), fmt)
    return out


# compress


def parts(kept: Callable[[Array], Any] = np.asarray, metadata: Callable[[Array], Any] = np.asarray) -> Wrap:
    """compress, its kept codes and its metadata changed."""
    return around(lambda right, *args: tuple(change(np.array(part)) for change, part in zip((kept, metadata), right(*args), strict=True)))


def gathered(order: slice | list[int]) -> Step:
    return lambda groups, kept, form: gather(groups, kept, form)[..., order, :]


def second_from_next_group(groups: Array, kept: Array, form: Form) -> Array:
    """The second code of a group comes from the group after it: [8..11] for [4..7]."""
    out = np.array(gather(groups, kept, form))
    after = np.roll(groups, -1, axis=-3)
    out[..., 1, :] = np.take_along_axis(after, kept[..., 1:, None], axis=-2)[..., 0, :]
    return out


def doubled(groups: Array, form: Form) -> Array:
    """Of a single number its position twice."""
    kept = find(groups, form)
    some = (magnitude(groups, form) != 0).any(axis=-1)
    one = (some.sum(axis=-1) == 1)[..., None]
    return np.where(one, np.argmax(some, axis=-1)[..., None], kept)


def larger_first(groups: Array, form: Form) -> Array:
    """The position of the larger first, whatever the order."""
    kept = find(groups, form)
    first, second = np.moveaxis(np.take_along_axis(weigh(groups, form), kept, axis=-1), -1, 0)
    return np.where((first < second)[..., None], kept[..., ::-1], kept)


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


def neighbours_exchanged(a: Array) -> Array:
    return a.reshape(*a.shape[:-1], -1, 2)[..., ::-1].reshape(a.shape) if a.shape[-1] % 2 == 0 else a


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
    return parts(values, metadata)


def out_of_words(change: Callable[[Array], Array] = lambda a: a, change_kept: Callable[[Array], Array] = lambda a: a) -> Wrap:
    """decompress of words."""

    def decompress(right: Step, kept: Any, metadata: Any, fmt: str, shape: tuple[int, ...]) -> Any:
        rows = shape[0]
        return right(change_kept(from_words(kept, rows)), change(from_words(metadata, rows)), fmt, shape)

    return around(decompress)


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


# decompress


_LOWER = {"PRUNE_RULE": "lower"}
_WORDS = {"SPARSE_LAYOUT": LINEAR}

MUTANTS: tuple[SparseVariant, ...] = (
    SparseVariant(id="prune-codes-as-numbers", function="prune", source="S4 E48", formats=SIGNED, what="abs of codes, which changes nothing: every negative code is the larger", change={"weigh": lambda g, f: g.astype(np.int64).sum(axis=-1)}),
    SparseVariant(id="prune-codes-as-numbers-int4", function="prune", source="S4 E48", formats=("int4-2to4",), what="the same of two's complement", change={"weigh": lambda g, f: g.astype(np.int64).sum(axis=-1)}),
    SparseVariant(id="prune-ties-higher", function="prune", source="S4 E49", formats=TWO, what="ties to the higher position, where the lower one is claimed", change={"select": selecting(lambda w: np.argsort(w, axis=-1, kind="stable")[..., ::-1])}, declared=_LOWER),
    SparseVariant(id="prune-ties-alternate", function="prune", formats=TWO, what="ties to the lower position in every other group alone, where it is claimed", change={"select": every_other_tie}, declared=_LOWER),
    SparseVariant(id="prune-pairs-by-maximum", function="prune", formats=PAIRS, what="pairs weighed by the larger code, where the sum is claimed", change={"weigh": lambda g, f: magnitude(g, f).max(axis=-1)}, declared=_LOWER),
    SparseVariant(id="prune-signed", function="prune", formats=TWO, what="the largest numbers, not magnitudes", change={"weigh": by_number}),
    SparseVariant(id="prune-smallest", function="prune", formats=TWO, what="the two smallest", change={"select": selecting(lambda w: np.argsort(w, axis=-1, kind="stable"))}),
    SparseVariant(id="prune-first-two", function="prune", formats=TWO, what="the first two", change={"select": fixed(0, 1)}),
    SparseVariant(id="prune-ends", function="prune", formats=TWO, what="the first and the last", change={"select": fixed(0, 3)}),
    SparseVariant(id="prune-one-of-two", function="prune", formats=TWO, what="one of each two neighbours", change={"select": lambda weights: np.stack([weights[..., 1] > weights[..., 0], 2 + (weights[..., 3] > weights[..., 2])], axis=-1).astype(np.intp)}),
    SparseVariant(id="prune-nonzero-first", function="prune", formats=TWO, what="the first two codes that are not 0: a conversion taken for pruning", change={"weigh": lambda groups, form: (groups != 0).any(axis=-1).astype(np.int64)}),
    SparseVariant(id="prune-low-bits-of-int4", function="prune", formats=("int4-2to4", "int8-2to4"), what="two's complement taken for sign and magnitude", change={"weigh": lambda groups, form: (groups & (1 << form.bits - 1) - 1).astype(np.int64).sum(axis=-1)}),
    SparseVariant(id="prune-sign-magnitude-as-int", function="prune", formats=SIGNED, what="sign and magnitude taken for two's complement", change={"weigh": by_negated_code}),
    SparseVariant(id="prune-abs-overflow", function="prune", formats=("int4-2to4", "int8-2to4"), what="abs of the most negative code overflows", change={"weigh": lowest_wraps}),
    SparseVariant(id="prune-coarse", function="prune", formats=TWO, what="magnitudes without their lowest bit", change={"weigh": lambda groups, form: (magnitude(groups, form) >> 1).sum(axis=-1)}),
    SparseVariant(id="prune-threshold-keeps-ties", function="prune", formats=TWO, what="everything as large as the second largest stays: more than two of equal ones", change={"blank": threshold(lambda a, b: a >= b)}),
    SparseVariant(id="prune-threshold-drops-ties", function="prune", formats=TWO, what="only what is larger than the second largest stays", change={"blank": threshold(lambda a, b: a > b)}),
    SparseVariant(id="prune-one", function="prune", formats=TWO, what="only the largest", change={"blank": lambda g, kept, f: np.where((np.arange(4) == weigh(g, f).argmax(axis=-1)[..., None])[..., None], g, 0)}),
    SparseVariant(id="prune-inverted", function="prune", formats=TWO, what="what should be kept is dropped", change={"blank": lambda g, kept, f: put(np.array(g), kept, 0)}),
    SparseVariant(id="prune-to-the-front", function="prune", formats=TWO, what="what is kept moves to the front of its group", change={"blank": lambda g, kept, f: put(np.zeros_like(g), np.broadcast_to([0, 1], kept.shape), gather(g, kept, f))}),
    SparseVariant(id="prune-exchanged", function="prune", formats=TWO, what="the two kept codes exchange places", change={"blank": keeping(lambda u, f: u[..., ::-1, :])}),
    SparseVariant(id="prune-fills-ones", function="prune", formats=TWO, what="what is dropped becomes 1", change={"blank": keeping(lambda u, f: u, 1)}),
    SparseVariant(id="prune-fills-int4-zero-point", function="prune", formats=("int4-2to4",), what="what is dropped becomes code 8, the zero of codes with an offset", change={"blank": keeping(lambda u, f: u, 8)}),
    SparseVariant(id="prune-signs-lost", function="prune", formats=TWO, what="kept codes lose their sign", change={"blank": keeping(lambda u, f: u & (1 << f.bits - 1) - 1)}),
    SparseVariant(id="prune-along-rows", function="prune", formats=TWO, what="groups along the other axis", wrap={"prune": turning(np.transpose, np.transpose)}),
    SparseVariant(id="prune-shifted", function="prune", formats=TWO, what="groups begin two codes later", wrap={"prune": turning(lambda a: np.roll(a, -2, axis=-1), lambda a: np.roll(a, 2, axis=-1))}),
    SparseVariant(id="prune-strided", function="prune", formats=TWO, what="the four codes of a group are K / 4 apart", wrap={"prune": turning(strided, lambda a: a.reshape(a.shape[0], -1, 4).swapaxes(1, 2).reshape(a.shape))}),
    SparseVariant(id="prune-unstructured", function="prune", formats=("e2m1-2to4",), what="the larger half of each row", wrap={"prune": half_of_row}),
    SparseVariant(id="prune-tiles", function="prune", source="torch _sparse_semi_structured_tile", formats=("e2m1-2to4",), what="at most two in each row and column of 4 x 4 tiles", wrap={"prune": tiles_of_four}),
    SparseVariant(id="prune-pairs-as-singles", function="prune", formats=PAIRS, what="two of four codes instead of whole pairs", wrap={"prune": around(lambda right, codes, fmt: right(codes, "e2m1-2to4"))}),
    SparseVariant(id="prune-singles-as-pairs", function="prune", formats=("e2m1-2to4",), what="whole pairs of eight instead of two of four", wrap={"prune": around(lambda right, codes, fmt: right(np.concatenate([codes, codes], axis=-1), "e2m1-4to8")[:, : np.shape(codes)[1]])}),
    SparseVariant(id="prune-pairs-by-first", function="prune", formats=PAIRS, what="pairs weighed by their first code", change={"weigh": lambda groups, form: magnitude(groups[..., 0], form)}),
    SparseVariant(id="prune-512-columns", function="prune", formats=TWO, what="columns from 512 on stay dense", wrap={"prune": beyond(512)}),
    SparseVariant(id="prune-blocks-of-16-rows", function="prune", formats=TWO, what="rows beyond whole blocks of 16 are zeros", wrap={"prune": in_blocks_of(16)}),
    SparseVariant(id="prune-in-place", function="prune", formats=TWO, what="writes into its input", wrap={"prune": writes_into_input}),
    SparseVariant(id="prune-one-buffer", function="prune", formats=TWO, what="all answers lie in one buffer", wrap={"prune": shares_a_buffer}),
    SparseVariant(id="prune-tail-lost", function="prune", formats=FOUR, what="columns beyond whole groups become zeros", wrap={"prune": drops_the_tail}),
    SparseVariant(id="compress-positions-crossed", function="compress", formats=TWO, what="first position << 2 | second", change={"encode": lambda kept, f: encode(kept[..., ::-1], f)}),
    SparseVariant(id="compress-kept-crossed", function="compress", formats=TWO, what="the second kept code first", change={"gather": gathered(slice(None, None, -1))}),
    SparseVariant(id="compress-both-crossed", function="compress", formats=TWO, what="codes and positions in descending order: legal for no consumer", change={"gather": gathered(slice(None, None, -1)), "encode": lambda kept, f: encode(kept[..., ::-1], f)}),
    SparseVariant(id="compress-mask", function="compress", formats=TWO, what="a bit for each position instead of two positions", change={"encode": lambda kept, form: (1 << kept[..., 0] | 1 << kept[..., 1]).astype(np.uint8)}),
    SparseVariant(id="compress-distance", function="compress", formats=TWO, what="the second position counted from the first", change={"encode": lambda kept, form: (kept[..., 1] - kept[..., 0] << 2 | kept[..., 0]).astype(np.uint8)}),
    SparseVariant(id="compress-first-twice", function="compress", formats=TWO, what="the first kept code twice", change={"gather": gathered([0, 0])}),
    SparseVariant(id="compress-next-group", function="compress", source="S4 E52", formats=TWO, what="the second code of a group from the group after it", change={"gather": second_from_next_group}),
    SparseVariant(id="compress-minus-zero", function="compress", formats=SIGNED, what="-0 counts as a number, for which another one is dropped", change={"find": lambda groups, form: select((groups != 0).any(axis=-1).astype(np.int64))}),
    SparseVariant(id="compress-single-doubled", function="compress", source="S4 E55", formats=TWO, what="of a single number its position twice, which no nibble may say", change={"find": doubled}),
    SparseVariant(id="compress-larger-first", function="compress", formats=TWO, what="the larger number first, whatever its position", change={"find": larger_first}),
    SparseVariant(id="compress-exactly-two", function="compress", source="S4 E55", formats=TWO, what="groups without exactly two numbers are refused", change={"find": demands_two}),
    SparseVariant(id="compress-single-and-next", function="compress", source="S4 E55", formats=TWO, what="of a single number the position after it, round the corner", change={"find": zeros_then_numbers}),
    SparseVariant(id="compress-by-code", function="compress", formats=("int4-2to4",), what="two's complement taken for sign and magnitude: -8 is zero", change={"find": lambda g, f: select((g & 7 != 0).any(axis=-1).astype(np.int64))}),
    SparseVariant(id="compress-nibbles-exchanged", function="compress", formats=TWO, what="neighbouring nibbles exchanged: the high one first", wrap={"compress": parts(metadata=neighbours_exchanged)}),
    SparseVariant(id="compress-one-nibble-for-eight", function="compress", formats=TWO, what="eight groups share the nibble of the first", wrap={"compress": parts(metadata=lambda a: np.repeat(a[..., ::8], 8, axis=-1)[..., : a.shape[-1]])}),
    SparseVariant(id="compress-first-position-lost", function="compress", formats=TWO, what="only the second position is stored", wrap={"compress": parts(metadata=lambda a: a & 0xC)}),
    SparseVariant(id="compress-metadata-of-row-above", function="compress", formats=TWO, what="metadata one row further down", wrap={"compress": parts(metadata=lambda a: np.roll(a, 1, axis=0))}),
    SparseVariant(id="compress-no-metadata", function="compress", formats=TWO, what="all nibbles are 4", wrap={"compress": parts(metadata=lambda a: np.full_like(a, 4))}),
    SparseVariant(id="compress-kept-of-row-above", function="compress", formats=TWO, what="kept codes one row further down", wrap={"compress": parts(lambda a: np.roll(a, 1, axis=0))}),
    SparseVariant(id="compress-signs-lost", function="compress", formats=FOUR, what="kept codes lose their sign", wrap={"compress": parts(lambda a: a & 7)}),
    SparseVariant(id="compress-neighbours", function="compress", formats=TWO, what="kept codes exchanged in twos", wrap={"compress": parts(neighbours_exchanged)}),
    SparseVariant(id="compress-pairs-turned", function="compress", formats=PAIRS, what="the two codes of a pair exchanged", change={"gather": lambda g, k, f: gather(g, k, f)[..., ::-1]}),
    SparseVariant(id="compress-pairs-as-singles", function="compress", formats=PAIRS, what="4:8 compressed as 2:4", wrap={"compress": around(lambda right, codes, fmt: (lambda k, m: (k, m[..., ::2]))(*right(codes, "e2m1-2to4")))}),
    SparseVariant(id="compress-reads-packed", function="compress", source="S4 E50", formats=("e2m1-2to4",), what="takes two codes from each byte", wrap={"compress": around(lambda right, codes, fmt: right(np.stack([codes & 15, codes >> 4], axis=-1).reshape(len(codes), -1), fmt))}),
    SparseVariant(id="compress-words-of-eight-dense", function="compress", source="S4 E51", formats=FOUR, what="eight dense codes to a word of values", wrap={"compress": in_words(values=dense_words)}, declared=_WORDS),
    SparseVariant(id="compress-words-along-n", function="compress", source="S4 E53", formats=FOUR, what="words of metadata pair two columns: [K / 16, N / 2]", wrap={"compress": in_words(metadata=along_n)}, declared=_WORDS),
    SparseVariant(id="compress-words-by-row", function="compress", formats=FOUR, what="words of a row lie together: [N, K / 32]", wrap={"compress": in_words(words_by_row, words_by_row)}, declared=_WORDS),
    SparseVariant(id="compress-words-big-endian", function="compress", formats=FOUR, what="words are big-endian", wrap={"compress": in_words(*[lambda a: to_words(a).byteswap()] * 2)}, declared=_WORDS),
    SparseVariant(id="decompress-positions-crossed", function="decompress", formats=TWO, what="the upper two bits are the first position", change={"decode": lambda n, f: decode(n, f)[..., ::-1]}),
    SparseVariant(id="decompress-kept-crossed", function="decompress", formats=TWO, what="the second kept code first", change={"scatter": lambda u, kept, f: scatter(u[..., ::-1, :], kept, f)}),
    SparseVariant(id="decompress-relative", function="decompress", formats=TWO, what="the second position counted from the first", change={"decode": lambda n, f: np.stack([n & 3, ((n & 3) + (n >> 2 & 3)) % 4], axis=-1).astype(np.intp)}),
    SparseVariant(id="decompress-no-metadata", function="decompress", formats=TWO, what="everything goes to the first two positions", change={"decode": lambda nibbles, form: np.broadcast_to(np.array([0, 1]), (*nibbles.shape, 2))}),
    SparseVariant(id="decompress-one-bit", function="decompress", formats=TWO, what="positions of one bit", change={"decode": lambda nibbles, form: np.stack([nibbles & 1, nibbles >> 2 & 1], axis=-1).astype(np.intp)}),
    SparseVariant(id="decompress-reversed", function="decompress", formats=TWO, what="positions count from the end", change={"decode": lambda n, f: 3 - decode(n, f)}),
    SparseVariant(id="decompress-not-cleared", function="decompress", formats=TWO, what="what was not kept holds a kept code", change={"scatter": lambda u, kept, f: put(np.repeat(u[..., :1, :], 4, axis=-2), kept, u)}),
    SparseVariant(id="decompress-accumulates", function="decompress", formats=TWO, what="kept codes are ORed into what the group before left", change={"scatter": lambda u, kept, f: scatter(u, kept, f) | np.roll(scatter(u, kept, f), 1, axis=-3)}),
    SparseVariant(id="decompress-only-first", function="decompress", formats=TWO, what="the second kept code is lost", change={"scatter": lambda u, kept, f: put(scatter(u, kept, f), kept[..., 1:], 0)}),
    SparseVariant(id="decompress-signs-lost", function="decompress", formats=FOUR, what="kept codes lose their sign", change={"scatter": lambda u, kept, f: scatter(u & 7, kept, f)}),
    SparseVariant(id="decompress-nibbles-exchanged", function="decompress", formats=TWO, what="the high nibble first", wrap={"decompress": around(lambda right, k, m, f, s: right(k, neighbours_exchanged(np.asarray(m)), f, s))}),
    SparseVariant(id="decompress-odd-iterations", function="decompress", source="S4 E54", formats=FOUR, what="odd iterations along K read bits 0 to 15 of the word again", wrap={"decompress": out_of_words(upper_half_unread)}, declared=_WORDS),
    SparseVariant(id="decompress-words-along-n", function="decompress", source="S4 E53", formats=FOUR, what="words of values read by row", wrap={"decompress": out_of_words(change_kept=lambda a: np.ascontiguousarray(a.reshape(-1, a.shape[0]).T))}, declared=_WORDS),
    SparseVariant(id="decompress-pairs-turned", function="decompress", formats=PAIRS, what="the two codes of a pair exchanged", change={"scatter": lambda u, kept, f: scatter(u[..., ::-1], kept, f)}),
    SparseVariant(id="decompress-pairs-interleaved", function="decompress", formats=PAIRS, what="the halves of a pair four codes apart", change={"join": lambda g, f: np.ascontiguousarray(g.swapaxes(-1, -2)).reshape(*g.shape[:-3], -1)}),
    SparseVariant(id="decompress-256-columns", function="decompress", formats=TWO, what="columns from 256 on are not written", wrap={"decompress": around(lambda right, k, m, f, s: np.where(np.arange(s[1]) < 256, right(k, m, f, s), 0).astype(np.uint8))}),
    SparseVariant(id="decompress-one-buffer", function="decompress", formats=TWO, what="all answers lie in one buffer", wrap={"decompress": shares_a_buffer}),
)  # fmt: skip
