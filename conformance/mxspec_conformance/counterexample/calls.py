"""The calls of a batch: the same blocks at once, in calls of every size, wide, again, turned, scaled, in other memory, along
the first axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.counterexample.kinds import CallKind
from mxspec_conformance.counterexample.sample_space import Codes, Float32s, SampleSpace
from mxspec_conformance.observations.quantize import tensor_argument
from mxspec_conformance.targets.capabilities import ARRANGEMENTS
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession

#: Blocks of a call: one, all residues of small powers of two, both sides of large ones, more than 512.
CALL_SIZES = (1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 63, 65, 127, 128, 129, 255, 257, 511, 512, 513, 515, 1026)
#: Blocks of a row, and of a column.
WIDTHS = (2, 3, 4, 8, 16, 33, 64, 128, 256)
DEPTHS = (1, 2, 3, 8, 33)
#: Rows of inputs that lie otherwise in memory.
ARRANGED_ROWS = 67


@dataclass(frozen=True, slots=True)
class Call:
    """One call: its blocks, and how they are passed."""

    kind: CallKind
    #: Which blocks of the batch, in order.
    rows: npt.NDArray[np.intp]
    #: Blocks to a row, or to a column.
    width: int = 1
    #: Along which they lie: -1 or 0.
    axis: int = -1
    arrangement: str = "contiguous"
    negate: bool = False
    #: Power of two by which the blocks are multiplied.
    shift: int = 0

    @property
    def words(self) -> str:
        """The call in a few words."""
        details = {
            CallKind.SIZE: f"{len(self.rows)} blocks",
            CallKind.WIDE: f"{self.width} blocks to a row",
            CallKind.AXIS: f"{self.width} to a column",
            CallKind.ARRANGED: self.arrangement,
            CallKind.SCALED: f"times 2^{self.shift}",
        }
        return f"{self.kind} ({details[self.kind]})" if self.kind in details else self.kind

    def blocks(self, x: Float32s) -> Float32s:
        """The blocks [n, k] that are passed."""
        chosen: Float32s = x[self.rows]
        if self.negate:
            chosen = -chosen
        if self.shift:
            with np.errstate(all="ignore"):
                moved = np.ldexp(chosen, self.shift).astype(np.float32)
            chosen = np.where(np.isfinite(moved).all(axis=1, keepdims=True), moved, chosen)
        return chosen

    def ask(self, session: TargetSession, space: SampleSpace, blocks: Float32s) -> tuple[Codes, Codes]:
        """Scales [n] and codes [n, k]; raises CallError."""
        if self.kind is CallKind.REUSED:
            return ask_reused(session, space, blocks)
        return ask_blocks(session, space, blocks, width=self.width, axis=self.axis, arrangement=self.arrangement)


def scale_argument(session: TargetSession, space: SampleSpace) -> dict[str, Any]:
    """The keyword that hands the tensor scale over."""
    return dict(tensor_argument(space.entry, session.capabilities))


def ask_blocks(
    session: TargetSession, space: SampleSpace, blocks: Float32s, *, width: int = 1, axis: int = -1,
    arrangement: str = "contiguous",
) -> tuple[Codes, Codes]:  # fmt: skip
    """Scales [n] and codes [n, k] of blocks [n, k], passed as rows of `width` blocks, or as columns; raises CallError."""
    k = space.fmt.k
    x = space.as_input(blocks).reshape(-1, width * k)
    options = scale_argument(session, space)
    if axis == 0:
        x, options = np.ascontiguousarray(x.T), {**options, "axis": 0}
    before = () if arrangement == "contiguous" else ("arranged", arrangement)
    codes, scales = session.call(*before, "quantize", x, space.fmt.name, **options)
    if axis == 0:
        codes, scales = codes.T, scales.T
    return scales.reshape(-1), codes.reshape(-1, k)


def ask_reused(session: TargetSession, space: SampleSpace, blocks: Float32s) -> tuple[Codes, Codes]:
    """The same, from memory in which the blocks lay in reverse order at the call before."""
    x, extra = space.as_input(blocks), scale_argument(session, space)
    pair = (x[::-1], space.fmt.name), (x, space.fmt.name)
    codes, scales = session.call("reused", "quantize", *pair, **extra)
    return scales.reshape(-1), codes


def plan_calls(space: SampleSpace, n: int, rng: np.random.Generator) -> Iterator[Call]:
    """The calls for n drawn blocks."""
    every = np.arange(n)
    yield Call(CallKind.WHOLE, every)
    order = rng.permutation(n)
    start = 0
    for size in rng.permutation(np.array(CALL_SIZES)).tolist():
        yield Call(CallKind.SIZE, order[np.arange(start, start + size) % n])
        start += size
    width = int(rng.choice(np.array(WIDTHS)))
    yield Call(CallKind.WIDE, order[: n // 4 // width * width], width=width)
    yield Call(CallKind.NEGATED, order[: n // 4], negate=True)
    shift = int(rng.integers(-12, 13))
    if shift and space.tensor is None and space.dtype == "float32":
        yield Call(CallKind.SCALED, order[n // 4 : n // 2], shift=shift)
    for arrangement in ARRANGEMENTS[1:-1]:
        yield Call(CallKind.ARRANGED, order[:ARRANGED_ROWS], arrangement=arrangement)
    yield Call(CallKind.REUSED, order[:ARRANGED_ROWS])
    yield Call(CallKind.AGAIN, every[: n // 4])
    depth = int(rng.choice(np.array(DEPTHS)))
    yield Call(CallKind.AXIS, order[: n // 4 // depth * depth], width=depth, axis=0)


@dataclass(slots=True)
class Relations:
    """Relations between answers, whatever the profile: how many blocks were compared, and how many broke."""

    compared: dict[str, int] = field(default_factory=dict)
    broken: dict[str, int] = field(default_factory=dict)

    def enter(self, name: str, wrong: npt.NDArray[np.bool_]) -> None:
        """Count blocks."""
        if len(wrong):
            self.compared[name] = self.compared.get(name, 0) + len(wrong)
            self.broken[name] = self.broken.get(name, 0) + int(wrong.sum())


def relate(relations: Relations, space: SampleSpace, call: Call, x: Float32s, base: tuple[Any, Any], got: tuple[Any, Any]) -> None:
    """Enter what a call's answers, compared with the first call's, `base`, show about the target alone."""
    scales, codes = base[0][call.rows], base[1][call.rows]
    if call.kind is CallKind.NEGATED:
        element = space.fmt.element
        if element.twos_complement:
            turned, plain = (-codes.astype(np.int16)).astype(np.uint8), codes != 0x80
        else:
            turned, plain = codes ^ np.uint8(element.sign_bit), (codes & (element.sign_bit - 1)) != 0
        wrong = (got[0] != scales) | ((got[1] != turned) & plain).any(axis=1)
        relations.enter("negation turns signs alone", wrong)
    elif call.kind is CallKind.SCALED:
        if space.fmt.has_tensor_scale:
            return  # its scales are no powers of two
        # Where nothing is subnormal or at the ends of the scale's range, before and after.
        y = call.blocks(x)
        nonzero = (x[call.rows] != 0) & (np.abs(x[call.rows]) >= 2.0**-100) & (np.abs(x[call.rows]) < 2.0**100)
        same = (np.ldexp(y, -call.shift) == x[call.rows]).all(axis=1) & (nonzero | (x[call.rows] == 0)).all(axis=1)
        same &= (scales > 20) & (scales < 235) & nonzero.any(axis=1)
        moved = scales.astype(np.int64) + call.shift
        wrong = ((got[0] != moved) | (got[1] != codes).any(axis=1)) & same
        relations.enter("a power of two moves the scale alone", wrong[same])
    else:
        names = {
            CallKind.SIZE: "splitting and permuting a call changes nothing",
            CallKind.WIDE: "blocks to a row change nothing",
            CallKind.AXIS: "the axis changes nothing",
            CallKind.ARRANGED: f"memory changes nothing: {call.arrangement}",
            CallKind.AGAIN: "the same call again changes nothing",
            CallKind.REUSED: "what lay in the input's memory before changes nothing",
        }
        if call.kind in names:
            wrong = (got[0] != scales) | (got[1] != codes).any(axis=1)
            relations.enter(names[call.kind], wrong)


def probe_memory(session: TargetSession, space: SampleSpace, x: Float32s) -> dict[str, str]:
    """Whether a call writes into its input, or a later one changes what an earlier one returned: words by name."""
    first, second = space.as_input(x[:129]), space.as_input(x[129:258])
    extra = scale_argument(session, space)
    try:
        wrote, changed, _ = session.call("probe", "quantize", (first, space.fmt.name), (second, space.fmt.name), **extra)
    except CallError:
        return {}
    found = {}
    if wrote:
        found["writes into its input"] = "a call writes into its input"
    if changed:
        found["reuses its answer"] = "a later call changes what an earlier one returned"
    return found
