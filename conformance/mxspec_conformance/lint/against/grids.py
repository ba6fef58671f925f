"""What became of a tensor whose scales are a grid: for tiles of 128 x 128, for rows, or for the tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import ml_dtypes
import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.containers.groups import Group
from mxspec.containers.header import Tensor
from mxspec.containers.parts import cut, read_codes, read_grid
from mxspec.elements import ScaleCodes, decode_codes
from mxspec.profiles import Profile, get_profile
from mxspec_conformance.lint.against.candidates import Candidate, choose, tally
from mxspec_conformance.lint.against.expecting import Flags, is_nearest, list_suited, zero_table
from mxspec_conformance.lint.against.material import Codes, Float32s, Originals
from mxspec_conformance.lint.hypotheses import Agreement, Basis, Departure, Explanation, Hypothesis, ScaleOrder

#: Rows and columns of tiles of which the sample is made.
_SAMPLE = 4


@dataclass(frozen=True, slots=True)
class Window:
    """Rows and columns of a matrix: whole tiles, but for the last."""

    rows: tuple[int, int]
    columns: tuple[int, int]
    #: As stored, without -0, and as the original has them: [rows, columns].
    codes: Codes
    x: Float32s


@dataclass
class GridCase:
    """One tensor with its original."""

    group: Group
    original: Tensor
    originals: Originals
    first: tuple[str, ...] = ()

    @cached_property
    def profiles(self) -> list[Profile]:
        """Every profile that can have made the codes, the likeliest first."""
        order = {name: number for number, name in enumerate(dict.fromkeys((*self.first, self.group.form.profile)))}
        return sorted(list_suited(self.group.form.format, with_tensor_scale=False), key=lambda p: order.get(p.id, len(order)))

    @cached_property
    def grid(self) -> npt.NDArray[np.uint32] | npt.NDArray[np.uint8]:
        """The stored scales: float32 bits, or E8M0 bytes."""
        found: npt.NDArray[np.uint32] | npt.NDArray[np.uint8] = read_grid(self.group, 0, self.group.shape[0])
        return found

    def read_rows(self, start: int, stop: int) -> tuple[Codes, Float32s]:
        """Codes and numbers of rows."""
        row, padded = self.group.shape[-1], self.group.padded[-1]
        codes = read_codes(self.group, start * padded, stop * padded).reshape(-1, padded)[:, :row]
        x = self.originals.read(self.original, iter([(start * row, stop * row)]), row)
        return zero_table(self.group.form.format)[codes], x

    def raw(self, window: Window) -> Codes:
        """The codes of whole rows as stored, padded, in blocks [n, k]."""
        padded = self.group.padded[-1]
        return read_codes(self.group, window.rows[0] * padded, window.rows[1] * padded).reshape(-1, self.group.form.format.k)

    def bands(self) -> Iterator[Window]:
        """All of the tensor."""
        padded = self.group.padded[-1]
        for start, stop in cut(self.group.padded, by_rows=True):
            rows = start // padded, stop // padded
            yield Window(rows, (0, self.group.shape[-1]), *self.read_rows(*rows))

    @cached_property
    def sample(self) -> list[Window]:
        """Tiles that are evenly spread."""
        n, k = self.group.shape
        found = []
        for top in _spread(n):
            rows = top, min(top + 128, n)
            codes, x = self.read_rows(*rows)
            for left in _spread(k):
                right = min(left + 128, k)
                found.append(Window(rows, (left, right), codes[:, left:right], np.ascontiguousarray(x[:, left:right])))
        return found

    def judge(self, hypothesis: Hypothesis, window: Window) -> Flags:
        """Which elements agree."""
        fmt, (rows, columns) = self.group.form.format, window.x.shape
        scales = self.scales_of(hypothesis, window)
        profile = get_profile(hypothesis.profile, fmt)
        if hypothesis.basis is Basis.PROFILE:
            made = mxspec.quantize(window.x, fmt, profile=profile, block=(128, 128), pad=True)
            codes = zero_table(fmt)[made.codes[:rows, :columns]]
            due = np.repeat(made.scales[:rows], 128, axis=1)[:, :columns]
            right: Flags = (codes == window.codes) & (due == np.repeat(scales, 128, axis=1)[:, :columns])
            return right
        widths = ((0, 0), (0, -columns % fmt.k))
        x, codes = np.pad(window.x, widths), np.pad(window.codes, widths)
        near = is_nearest(x.reshape(-1, fmt.k), codes.reshape(-1, fmt.k), scales.reshape(-1), fmt, profile, None)
        if self.group.scales is not None and {self.group.scales.dtype, self.original.dtype} == {"BF16"}:
            # compressed-tensors divides in the dtype that weights and scales have.
            with np.errstate(all="ignore"):
                quotient = (x.reshape(-1, fmt.k) / decode_codes(scales.reshape(-1, 1), fmt.scale)).astype(ml_dtypes.bfloat16)
            near |= zero_table(fmt)[mxspec.encode(quotient.astype(np.float32), fmt.element)] == codes.reshape(-1, fmt.k)
        return near.reshape(rows, -1)[:, :columns]

    def scales_of(self, hypothesis: Hypothesis, window: Window) -> ScaleCodes:
        """The scales of the blocks of a window [rows, blocks], read as the hypothesis says."""
        grid, k = self.grid, self.group.form.format.k
        if hypothesis.scales is ScaleOrder.TRANSPOSED:
            grid = grid.reshape(grid.shape[::-1]).T
        if hypothesis.scale_fault is Departure.INVERTED:
            grid = _turn(grid)
        rows, columns = self.group.form.list_places(window.rows[1], -(-window.columns[1] // k))
        return np.ascontiguousarray(grid[rows[window.rows[0] :, None], columns[window.columns[0] // k :]])


def _spread(size: int) -> list[int]:
    tiles = -(-size // 128)
    return sorted({128 * (tiles - 1) * n // max(_SAMPLE - 1, 1) // 128 * 128 for n in range(_SAMPLE)})


def _turn(grid: npt.NDArray[np.uint32] | npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32] | npt.NDArray[np.uint8]:
    """The reciprocals, rounded to nearest; of E8M0 exact."""
    if grid.dtype == np.uint8:
        return np.where(grid == 0xFF, np.uint8(0xFF), np.uint8(0xFE) - grid).astype(np.uint8)
    with np.errstate(all="ignore"):
        return (np.float32(1) / grid.view(np.float32)).view(np.uint32)


def explain_grid(case: GridCase) -> Explanation:
    """What became of a tensor: what is stored if that explains it, else the best hypothesis that explains more."""
    size = sum(w.x.size for w in case.sample)

    def rank(hypothesis: Hypothesis) -> Candidate[Hypothesis]:
        return Candidate(hypothesis, sum(int(case.judge(hypothesis, w).sum()) for w in case.sample), size)

    def count(hypothesis: Hypothesis) -> Agreement:
        runs = ((w.rows[0] * case.group.shape[-1], case.judge(hypothesis, w), (w.x == 0) & (w.codes == 0)) for w in case.bands())
        return tally(case.group.elements, runs)

    def list_given() -> list[Candidate[Hypothesis]]:
        orders = [ScaleOrder.STORED, *([ScaleOrder.TRANSPOSED] if min(case.grid.shape) > 1 else [])]
        return [
            rank(Hypothesis(basis=Basis.GIVEN_SCALES, profile=p.id, scales=order, scale_fault=fault))
            for p in _differ(case.profiles) for order in orders for fault in (None, Departure.INVERTED)
        ]  # fmt: skip

    by_tiles = case.group.form.grid == (128, 128)
    own = [rank(Hypothesis(basis=Basis.PROFILE, profile=p.id)) for p in case.profiles] if by_tiles else list_given()
    return choose(case.group.base, case.original.name, own, list_given, lambda _: (), count)


def _differ(profiles: list[Profile]) -> list[Profile]:
    """One of each arithmetic in which elements are scaled."""
    found: dict[object, Profile] = {}
    for p in profiles:
        if p.one_level is not None and not p.one_level.needs_maximum:
            found.setdefault((p.one_level.scaled, p.one_level.element), p)
    return list(found.values())
