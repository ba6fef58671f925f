"""Both sides of the comparison: a stored tensor in every order in which it may be read, and originals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mxspec import layouts
from mxspec.calibration import RunningAmax
from mxspec.containers import Checkpoint
from mxspec.containers.groups import Group
from mxspec.containers.header import Tensor, count_items, read_at
from mxspec.containers.parts import cut, read_codes, read_part
from mxspec.containers.plain import PLAIN_DTYPES, measure_amax, read_plain
from mxspec_conformance.lint.against.names import rename
from mxspec_conformance.lint.hypotheses import CodeOrder, ScaleOrder

Codes = npt.NDArray[np.uint8]
Float32s = npt.NDArray[np.float32]
#: Runs of a sample, and elements of each: enough to tell hypotheses apart; what they say is then counted on all elements.
SAMPLE_RUNS, SAMPLE_RUN = 16, 4096


@dataclass(frozen=True, slots=True)
class Piece:
    """Blocks of a tensor that lie together: first block, codes [n, k] as stored."""

    start: int
    codes: Codes

    @property
    def blocks(self) -> slice:
        """The blocks' numbers in row-major order."""
        return slice(self.start, self.start + len(self.codes))


@dataclass
class Stored:
    """A block-quantized tensor of the file."""

    group: Group

    @cached_property
    def _kept(self) -> Codes:
        """Block scales in the order in which they are stored: one byte for each block, and padding."""
        group = self.group
        if group.scales is not None:
            return np.frombuffer(read_at(group.scales, 0, group.scales.size), np.uint8)
        return np.concatenate([read_part(group, *ends).scales for ends in cut(group.shape, by_rows=False)])

    @cached_property
    def scales(self) -> Mapping[ScaleOrder, Codes]:
        """Block scales, row-major, for each order in which the stored bytes can be read."""
        group, kept = self.group, self._kept
        blocks = group.elements // group.form.format.k
        columns = group.shape[-1] // group.form.format.k
        rows = group.shape[-2] if len(group.shape) > 1 else 1
        if not blocks:
            return {ScaleOrder.STORED: kept}
        matrices = blocks // (rows * columns)
        found: dict[ScaleOrder, Codes] = {}
        padded = (matrices, -(-rows // 128) * 128, -(-columns // 4) * 4)
        if kept.size == padded[0] * padded[1] * padded[2]:
            shape = (matrices, rows, columns)
            found[ScaleOrder.TILED] = layouts.unpack(kept, layouts.get_layout("128x4"), shape).reshape(-1)
            found[ScaleOrder.LINEAR] = kept.reshape(padded)[:, :rows, :columns].reshape(-1)
        elif kept.size == blocks:
            found[ScaleOrder.LINEAR] = kept
        if kept.size == blocks and rows > 1 and columns > 1:
            turned = kept.reshape(matrices, columns, rows).transpose(0, 2, 1)
            found[ScaleOrder.TRANSPOSED] = np.ascontiguousarray(turned).reshape(-1)
        own = ScaleOrder.TILED if group.form.tiled else ScaleOrder.LINEAR
        return {ScaleOrder.STORED: found.pop(own), **found}

    def as_rows(self) -> Codes:
        """Block scales [matrices, rows, columns], as the convention says."""
        shape = self.group.shape
        rows = shape[-2] if len(shape) > 1 else 1
        return self.scales[ScaleOrder.STORED].reshape(-1, rows, shape[-1] // self.group.form.format.k)

    def roll_back(self, by: int) -> Codes:
        """Block scales, row-major, if those of a row stand so many rows below it."""
        return np.roll(self.as_rows(), -by, axis=1).reshape(-1)

    @property
    def orders(self) -> tuple[CodeOrder, ...]:
        """The orders in which codes may be read: only nibbles are mistaken."""
        return tuple(CodeOrder) if self.group.form.format.element.bits == 4 else (CodeOrder.STORED,)

    def pieces(self, runs: Iterator[tuple[int, int]]) -> Iterator[Piece]:
        """Codes of these runs of elements."""
        k = self.group.form.format.k
        for start, stop in runs:
            yield Piece(start // k, read_codes(self.group, start, stop).reshape(-1, k))


def reorder(codes: Codes, order: CodeOrder) -> Codes:
    """Codes [n, k] read in an order."""
    n, k = codes.shape
    if order is CodeOrder.SWAPPED:
        return codes.reshape(n, k // 2, 2)[:, :, ::-1].reshape(n, k)
    if order is CodeOrder.HALVES:
        return codes.reshape(n, k // 2, 2).transpose(0, 2, 1).reshape(n, k)
    if order is CodeOrder.PAIRS:
        return codes.reshape(n, 2, k // 2).transpose(0, 2, 1).reshape(n, k)
    return codes


def sample_runs(elements: int, runs: int = SAMPLE_RUNS, run: int = SAMPLE_RUN) -> Iterator[tuple[int, int]]:
    """Runs of elements, evenly spread; all of a small tensor. Their ends are multiples of 64."""
    if elements <= runs * run:
        if elements:
            yield 0, elements
        return
    for number in range(runs):
        start = (elements - run) * number // (runs - 1) // 64 * 64
        yield start, start + run


def whole_runs(elements: int) -> Iterator[tuple[int, int]]:
    """All elements, in runs of a million."""
    for start in range(0, elements, 1 << 20):
        yield start, min(start + (1 << 20), elements)


@dataclass
class Originals:
    """The unquantized checkpoint."""

    checkpoint: Checkpoint
    _maxima: dict[str, RunningAmax] = field(default_factory=dict)

    _stacks: dict[str, tuple[Tensor, ...]] = field(default_factory=dict)
    _turned: dict[str, int] = field(default_factory=dict)

    def find(self, base: str) -> Tensor | None:
        """The tensor of a base: `base.weight`, or of that very name, or of the names that llama.cpp has for others."""
        tensors = self.checkpoint.tensors
        return tensors.get(f"{base}.weight") or tensors.get(base) or self.find_renamed(f"{base}.weight")

    def find_renamed(self, name: str) -> Tensor | None:
        """The tensor that has become one of this name in a GGUF file; experts are one stack."""
        for other in rename(name):
            found = self.checkpoint.tensors.get(other) or (self._join(other) if "*" in other else None)
            if found is not None:
                return found
        return None

    def _join(self, pattern: str) -> Tensor | None:
        parts: list[Tensor] = []
        while (part := self.checkpoint.tensors.get(pattern.replace("*", str(len(parts))))) is not None:
            parts.append(part)
        if len({(p.dtype, p.shape) for p in parts}) != 1:
            return None
        self._stacks[pattern] = tuple(parts)
        return replace(parts[0], name=pattern, shape=(len(parts), *parts[0].shape), size=sum(p.size for p in parts))

    def parts(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """The stored tensors that make a stack; of any other tensor itself."""
        return self._stacks.get(tensor.name, (tensor,))

    def turn(self, tensor: Tensor, heads: int) -> Tensor | None:
        """A tensor with the rows of each head's halves in turn, as llama.cpp has some models' queries and keys; None: it has no such halves."""
        if not heads or len(tensor.shape) != 2 or tensor.shape[0] % (2 * heads):
            return None
        name = f"{tensor.name}, halves of {heads} heads in turn"
        self._turned[name] = tensor.shape[0] // heads * tensor.shape[1]
        return replace(tensor, name=name)

    @cached_property
    def plain(self) -> tuple[Tensor, ...]:
        """Tensors of plain numbers."""
        return tuple(t for t in self.checkpoint.tensors.values() if t.dtype in PLAIN_DTYPES)

    def read(self, tensor: Tensor, runs: Iterator[tuple[int, int]], k: int) -> Float32s:
        """Blocks [n, k] of these runs of elements."""
        return np.concatenate([self._read_run(tensor, *ends).reshape(-1, k) for ends in runs])

    def _read_run(self, tensor: Tensor, start: int, stop: int) -> Float32s:
        parts, head = self.parts(tensor), self._turned.get(tensor.name)
        if head is not None:
            first, last = start // head * head, -(-stop // head) * head
            halves = read_plain(tensor, first, last).reshape(last // head - first // head, 2, -1, tensor.shape[1])
            return halves.swapaxes(1, 2).reshape(-1)[start - first : stop - first]
        size = (count_items(tensor.shape) or 0) // len(parts)
        ends = ((p, max(start - i * size, 0), min(stop - i * size, size)) for i, p in enumerate(parts))
        return np.concatenate([read_plain(p, a, b) for p, a, b in ends if a < b] or [np.empty(0, np.float32)])

    def amax(self, tensor: Tensor) -> RunningAmax:
        """The largest magnitude of a tensor; measured once."""
        if tensor.name not in self._maxima:
            seen = RunningAmax()
            for part in self.parts(tensor):
                seen = seen.merge(measure_amax(part))
            self._maxima[tensor.name] = seen
        return self._maxima[tensor.name]
