"""Groups of a sparse case: how they are asked, what is right of what comes back, and what else would have given it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.sparsity import KEPT, RULES, SparseFormat, find_illegal, prune
from mxspec_conformance.judge.explanation import Cause, Explanation, SparseMistake, by_profile
from mxspec_vectors.cases import SparseCase, SparseFunction

Codes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Asked:
    """Groups of a case, and how they are asked and judged."""

    case: SparseCase
    fmt: SparseFormat
    #: The rule of pruning that the target claims; "": none.
    rule: str = ""
    #: What the target answered, as dense codes; None before it is asked.
    answers: Codes | None = None
    #: Where what it compressed has a nibble that no reader need know; None before it is asked.
    strayed: Bools | None = None

    @property
    def count(self) -> int:
        """Groups."""
        return len(self.case.metadata if self.case.function is SparseFunction.DECOMPRESS else self.case.codes)

    def choose(self, index: npt.NDArray[np.intp]) -> Asked:
        """The groups of these numbers."""
        case = self.case
        parts = {n: a[index] if len(a) else a for n in ("codes", "kept", "metadata", "patterns") for a in (getattr(case, n),)}
        answers = None if self.answers is None else self.answers[index]
        strayed = None if self.strayed is None else self.strayed[index]
        return replace(self, case=replace(case, **parts), answers=answers, strayed=strayed)

    def join(self, other: Asked) -> Asked:
        """The answered groups of two cases as those of one."""
        both = ((n, getattr(self.case, n), getattr(other.case, n)) for n in ("codes", "kept", "metadata", "patterns"))
        parts: dict[str, Any] = {n: np.concatenate([mine, others]) for n, mine, others in both}
        assert self.answers is not None
        assert other.answers is not None
        assert self.strayed is not None
        assert other.strayed is not None
        answers, strayed = np.concatenate([self.answers, other.answers]), np.concatenate([self.strayed, other.strayed])
        return replace(self, case=replace(self.case, **parts), answers=answers, strayed=strayed)

    def join_zeros(self) -> Asked:
        """The groups and, where they are pruned, one of zeros, of which nothing else can come back."""
        if self.case.function is not SparseFunction.PRUNE:
            return self
        zeros = np.zeros((1, self.fmt.group), np.uint8)
        case = replace(self.case, codes=zeros, patterns=self.case.patterns[:1])
        return self.join(replace(self, case=case, answers=zeros, strayed=np.zeros(1, np.bool_)))

    def arguments(self, rows: int) -> tuple[Any, ...]:
        """What a call of so many rows is given; the groups fill it."""
        case, name = self.case, self.fmt.name
        if case.function is not SparseFunction.DECOMPRESS:
            return case.codes.reshape(rows, -1), name
        shape = (rows, self.count // rows * self.fmt.group)
        return case.kept.reshape(rows, -1), case.metadata.reshape(rows, -1), name, shape

    def read(self, answer: Any) -> tuple[Codes, ...]:
        """What came back, by group."""
        if self.case.function is not SparseFunction.COMPRESS:
            return (answer.reshape(-1, self.fmt.group),)
        kept, metadata = answer
        return kept.reshape(-1, self.fmt.group // 2), metadata.reshape(-1)

    def mean(self, returned: tuple[Codes, ...]) -> Codes:
        """The dense codes, by group, that came back."""
        if self.case.function is SparseFunction.COMPRESS:
            return place_kept(returned[0], returned[1], self.fmt)
        return returned[0]

    def find_strays(self, returned: tuple[Codes, ...]) -> Bools:
        """Where an illegal nibble came back for a group that holds a number. Of a group of zeros nothing depends on it."""
        if self.case.function is not SparseFunction.COMPRESS:
            return np.zeros(self.count, np.bool_)
        illegal: Bools = find_illegal(returned[1])
        return illegal & ~self.find_empty(returned[0]) if illegal.any() else illegal

    def find_zeros(self) -> npt.NDArray[np.intp]:
        """The groups that are given as zeros alone."""
        held = self.case.kept if self.case.function is SparseFunction.DECOMPRESS else self.case.codes
        return np.flatnonzero(~held.astype(np.bool_).any(axis=1))

    def find_empty(self, kept: Codes) -> Bools:
        """Which groups keep zeros alone."""
        return self.equal(kept, np.zeros_like(kept))

    def find_right(self, returned: tuple[Codes, ...]) -> Bools:
        """Which groups mean what they should."""
        case = self.case
        if case.function is SparseFunction.PRUNE:
            if self.rule:
                return self.equal(returned[0], self.prune_by(self.rule))
            rights = (case.patterns[:, None] >> np.arange(len(KEPT)) & 1).astype(bool)
            found = np.zeros(self.count, np.bool_)
            for number, mask in enumerate(list_masks(self.fmt)):
                found |= rights[:, number] & self.equal(returned[0], np.where(mask, case.codes, 0).astype(np.uint8))
            return found
        return self.equal(self.mean(returned), case.codes)

    def prune_by(self, rule: str) -> Codes:
        """The groups, pruned by a rule."""
        pruned: Codes = prune(self.case.codes, kind=self.fmt.kind, sparsity=self.fmt.sparsity, rule=rule)
        return pruned

    def list_alternatives(self) -> Iterator[tuple[Explanation, Codes]]:
        """What else could come back, and what would have given it: dense codes by group."""
        case, fmt = self.case, self.fmt
        if case.function is SparseFunction.PRUNE:
            yield from ((by_profile(name), self.prune_by(name)) for name in RULES if name != self.rule)
            for mistake, turned in _turn_magnitudes(case.codes, fmt):
                yield Explanation(Cause.SPARSE_MISTAKE, mistake=mistake), turned
        elif case.function is SparseFunction.DECOMPRESS:
            for mistake, (kept, metadata) in list_mistakes(case.kept, case.metadata, fmt):
                yield Explanation(Cause.SPARSE_MISTAKE, mistake=mistake), place_kept(kept, metadata, fmt)

    def explain(self, returned: tuple[Codes, ...], wrong: Bools) -> list[frozenset[Explanation]]:
        """For each wrong group what would have returned it."""
        found: list[tuple[Explanation, Bools]] = []
        if self.case.function is SparseFunction.COMPRESS:
            # Read as if that mistake had been made, what came back is right.
            for mistake, parts in list_mistakes(returned[0], returned[1], self.fmt):
                same = self.equal(place_kept(*parts, self.fmt), self.case.codes)
                found.append((Explanation(Cause.SPARSE_MISTAKE, mistake=mistake), same))
        else:
            found = [(e, self.equal(returned[0], dense)) for e, dense in self.list_alternatives()]
        return [frozenset(e for e, same in found if same[i]) for i in np.flatnonzero(wrong)]

    def list_contradicted(self) -> set[Explanation]:
        """What would have pruned otherwise some group that came back right."""
        if self.case.function is not SparseFunction.PRUNE or self.answers is None:
            return set()
        right = self.find_right((self.answers,))
        return {e for e, dense in self.list_alternatives() if (right & ~self.equal(self.answers, dense)).any()}

    def equal(self, a: Codes, b: Codes) -> Bools:
        """Whether two groups hold equal numbers."""
        same: Bools = np.asarray(equal_codes(a, b, self.fmt).all(axis=-1))
        return same


def equal_codes(a: Codes, b: Codes, fmt: SparseFormat) -> Bools:
    """Where codes mean equal numbers: the same code, zeros both, or NaN both. A code with too many bits equals nothing."""
    kind = fmt.codes
    assert kind.table is not None
    same: Bools = (a == b) & (a < 1 << kind.bits)
    if same.all():  # of most calls; what follows looks every code up
        return same
    zero, nan = np.zeros(256, np.bool_), np.zeros(256, np.bool_)
    zero[: 1 << kind.bits] = kind.table == 0
    nan[: 1 << kind.bits] = kind.table < 0
    alike: Bools = same | (zero[a] & zero[b]) | (nan[a] & nan[b])
    return alike


def place_kept(kept: Codes, metadata: Codes, fmt: SparseFormat) -> Codes:
    """Each kept unit at the position that its nibble says, the second over the first: of legal nibbles and of others."""
    unit = fmt.sparsity.unit
    units, rows = kept.reshape(len(kept), 2, unit), np.arange(len(kept))
    dense = np.zeros((len(kept), 4, unit), np.uint8)
    dense[rows, metadata & 3] = units[:, 0]
    dense[rows, metadata >> 2 & 3] = units[:, 1]
    return dense.reshape(len(kept), fmt.group)


def list_mistakes(kept: Codes, metadata: Codes, fmt: SparseFormat) -> Iterator[tuple[SparseMistake, tuple[Codes, Codes]]]:
    """Kept codes and metadata as somebody else reads or writes them, and what he has mixed up."""
    unit = fmt.sparsity.unit
    turned = np.ascontiguousarray(kept.reshape(len(kept), 2, unit)[:, ::-1]).reshape(kept.shape)
    yield SparseMistake.EXCHANGED, (turned, metadata)
    if unit > 1:
        inside = np.ascontiguousarray(kept.reshape(len(kept), 2, unit)[:, :, ::-1]).reshape(kept.shape)
        yield SparseMistake.PAIRS_TURNED, (inside, metadata)
    if len(metadata) % 8 == 0:
        words = metadata.reshape(-1, 8)
        for name, order in (
            (SparseMistake.NIBBLES_SWAPPED, [1, 0, 3, 2, 5, 4, 7, 6]),
            (SparseMistake.NIBBLES_REVERSED, [7, 6, 5, 4, 3, 2, 1, 0]),
            (SparseMistake.HALF_A_WORD, [0, 1, 2, 3, 0, 1, 2, 3]),
        ):
            yield name, (kept, np.ascontiguousarray(words[:, order]).reshape(-1))


def list_masks(fmt: SparseFormat) -> npt.NDArray[np.bool_]:
    """[6, group]: the positions that each pattern keeps."""
    found = np.zeros((len(KEPT), 4, fmt.sparsity.unit), np.bool_)
    for number, places in enumerate(KEPT.values()):
        found[number, places] = True
    return found.reshape(len(KEPT), fmt.group)


def _turn_magnitudes(codes: Codes, fmt: SparseFormat) -> Iterator[tuple[SparseMistake, Codes]]:
    """The groups, pruned by something else than magnitudes."""
    table, bits = fmt.codes.table, fmt.codes.bits
    assert table is not None
    order, negative = table[codes].astype(np.int64), codes >> bits - 1 == 1
    signed = np.where(negative, -order, order)
    for name, weight in ((SparseMistake.SIGNED, signed), (SparseMistake.SMALLEST, -order)):
        of_units = weight.reshape(len(codes), 4, -1).sum(axis=-1)
        kept = np.sort(np.argsort(-of_units, axis=-1, kind="stable")[:, :2], axis=-1)
        mask = np.zeros((len(codes), 4), np.bool_)
        np.put_along_axis(mask, kept, True, axis=-1)
        yield name, np.where(np.repeat(mask, fmt.sparsity.unit, axis=-1), codes, 0).astype(np.uint8)
