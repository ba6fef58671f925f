"""Finding the sizes of products that a target takes, where it refuses some that it does not exclude in PRODUCT_SHAPES."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mxspec.affine import Offset
from mxspec.dot import PLAIN_DTYPES
from mxspec.elements import code_dtype
from mxspec_conformance.targets.capabilities import PRODUCT_SHAPE_NAMES, Capabilities
from mxspec_conformance.targets.errors import REFUSALS, CallError, FailureKind
from mxspec_conformance.targets.grouped import GroupedProduct, make_call
from mxspec_conformance.targets.operands import Numbers, OperandKind, OperandSpec, Product
from mxspec_conformance.targets.product_sizes import find_sizes
from mxspec_conformance.targets.sessions import TargetSession

#: Multiples of m, n and k that are tried together, from the smallest, until a product is answered. Then each is lowered alone.
_TOGETHER = ((8, 8, 32), (16, 16, 64), (32, 32, 128), (64, 64, 128), (128, 128, 128), (256, 128, 256), (256, 256, 512), (256, 256, 1024))
#: A size that is refused at half of itself and at three halves is one of which multiples are taken; from this one on, the
#: smallest that is taken counts as well: kernels have least sizes.
_LEAST_TILE = 8
#: A nibble that names the first two of four.
FIRST_TWO = 0x4

Multiples = tuple[int, int, int]


#: Seconds of the first call of a shape from which on, and how many times those of the next call, it was compiled; after so many shapes.
_COMPILED, _TIMES, _SHAPES = 1.0, 10.0, 2


class SizedSession:
    """A session of a target that is known to take products of some sizes only, or few of them in the time that there is."""

    def __init__(self, inner: TargetSession, found: str, *, has_sizes: bool = True, **known: Any) -> None:
        self.inner = inner
        #: Whether sizes were looked for.
        self.has_sizes = has_sizes or getattr(inner, "has_sizes", False)
        self.capabilities: Capabilities = replace(inner.capabilities, **known)
        self.transport = inner.transport
        self.environment: dict[str, Any] = getattr(inner, "environment", {})
        #: What was found, in words.
        self.found = "; ".join(filter(None, (getattr(inner, "found", ""), found)))

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallError."""
        return self.inner.call(function, *args, **kwargs)

    def close(self) -> None:
        """Close the session."""
        self.inner.close()


class SizeWatch:
    """What the first calls of a product show of the sizes that the target takes."""

    def __init__(self, session: TargetSession, product: Product) -> None:
        self.session, self.product = session, product
        #: n and k -> seconds of a first call that compiled, else 0.
        self._first: dict[tuple[int, int], float] = {}
        #: The first product that was answered while sizes were looked for: its operands, dtype and outputs.
        self.first: tuple[Numbers, Numbers, str, Any] | None = None
        self._has_climbed = getattr(session, "has_sizes", False) or session.transport == "results-file"

    def see_refusal(self) -> SizedSession | None:
        """A session of the sizes that the target takes, where it refuses those that it declares; None where sizes do not explain it.

        Calls of ordinary numbers are refused, which every kernel takes; what else fails is no matter of size.
        """
        if self._has_climbed:
            return None
        self._has_climbed = True
        ladder = _Ladder(self.session, self.product)
        sized, self.first = ladder.climb(), ladder.first
        return sized or ladder.drop_declined()

    def see_time(self, shape: tuple[int, int], call: Callable[[], Any]) -> tuple[Any, SizedSession | None]:
        """What a call returns; with a session that uses few shapes of b, once the calls so far show that each is compiled.

        shape: n and k of the call, which is made twice where the first of its shape is slow.
        """
        seconds, answer = _time(call)
        is_new = shape not in self._first
        self._first.setdefault(shape, 0.0)
        if is_new and seconds >= _COMPILED and seconds >= _TIMES * _time(call)[0]:
            self._first[shape] = seconds
        compiled = [s for s in self._first.values() if s]
        if self.session.capabilities.few_shapes or len(compiled) < _SHAPES:
            return answer, None
        each = f"each shape of b is compiled, in {sum(compiled) / len(compiled):.0f} s: few are used"
        return answer, SizedSession(self.session, each, few_shapes=True)


def fit_product(session: TargetSession, product: Product) -> TargetSession:
    """The session, or one of the sizes that the target takes, where it refuses products of those that it declares."""
    return SizeWatch(session, product).see_refusal() or session


def _time(call: Callable[[], Any]) -> tuple[float, Any]:
    started = time.monotonic()
    answer = call()
    return time.monotonic() - started, answer


class _Ladder:
    def __init__(self, session: TargetSession, product: Product) -> None:
        self.session, self.product = session, product
        self.refused: dict[Multiples, CallError] = {}
        self.has_answered = False
        #: Whether a call failed otherwise than by a refusal: no ladder explains that.
        self.is_broken = False
        #: As a `SizeWatch` has it.
        self.first: tuple[Numbers, Numbers, str, Any] | None = None

    def climb(self) -> SizedSession | None:
        declared = self.session.capabilities.product_shapes
        if self.takes(declared, (1, 3)) or self.is_broken:
            return None
        found = next((m for m in self.list_raised() if self.takes(m)), None)
        if found is None or self.is_broken:
            return None
        for axis, least in enumerate(declared):
            steps = (_set(found, axis, step) for step in _list_steps(least, found[axis]))
            found = next(filter(self.takes, steps), found)
            # A kernel that refuses one row, and takes two and three, has no size of its own.
            near = [_set(found, axis, size) for size in (found[axis] // 2, 3 * found[axis] // 2)]
            if least < found[axis] < _LEAST_TILE and any(map(self.takes, near)):
                return None
        if self.is_broken or not self.takes(found, (3,)):
            return None
        return SizedSession(self.session, self.describe(found), product_shapes=found)

    def list_raised(self) -> list[Any]:
        """Multiples that are tried together, from the smallest."""
        return [tuple(map(math.lcm, self.session.capabilities.product_shapes, steps)) for steps in _TOGETHER]

    def takes(self, multiples: Multiples, times: tuple[int, ...] = (1,)) -> bool:
        """Whether products of these sizes, times each number, are answered."""
        m, n, k = multiples
        return all(self.answers((m * t, n * t, k * t)) for t in times)

    def answers(self, sizes: Multiples) -> bool:
        """Whether a product of these sizes, rounded up to what the operands' blocks and layouts need, is answered in the first dtype."""
        dtype = self.session.capabilities.out_dtypes[0]
        whole = find_sizes(self.product, sizes)
        try:
            if isinstance(self.product, GroupedProduct):
                self.session.call("grouped_matmul", *make_call(self.product, make_ordinary, sizes, dtype, least=(1, 1)))
            else:
                a, b = make_ordinary(self.product.a, whole.m, whole.k), make_ordinary(self.product.b, whole.n, whole.k)
                output = self.session.call("matmul", a.as_data(), b.as_data(), dtype)
                self.first = self.first or (a, b, dtype, output)
        except CallError as error:
            self.refused.setdefault((whole.m, whole.n, whole.k), error)
            self.is_broken |= error.kind not in REFUSALS or error.is_defect
            return False
        self.has_answered = True
        return True

    def drop_declined(self) -> SizedSession | None:
        """A session without the first output dtype, where the product declines it in all sizes that were tried; sizes are then looked for again."""
        first, *others = self.session.capabilities.out_dtypes
        declines = any(error.kind is FailureKind.UNSUPPORTED for error in self.refused.values())
        if not others or not declines or self.has_answered or self.is_broken:
            return None
        return SizedSession(self.session, f"declines outputs of {first}", has_sizes=False, out_dtypes=tuple(others))

    def describe(self, found: Multiples) -> str:
        """In words."""
        whole, (sizes, error) = find_sizes(self.product, found), next(iter(self.refused.items()))
        needed = find_sizes(self.product, (1, 1, 1))
        limits = {name: getattr(whole, name) for name in PRODUCT_SHAPE_NAMES if getattr(whole, name) > getattr(needed, name)}
        taken = " and ".join(f"{name} in multiples of {size}" for name, size in limits.items())
        m, n, k = sizes
        return f"takes {taken} (m x n x k = {m} x {n} x {k}: {error}); judged in these: declare PRODUCT_SHAPES = {limits}"


def _set(multiples: Multiples, axis: int, value: int) -> Multiples:
    return (*multiples[:axis], value, *multiples[axis + 1 :])  # type: ignore[return-value]


def _list_steps(least: int, most: int) -> Iterator[int]:
    """Multiples of what is declared, by powers of two, below one that is taken."""
    step = least
    while step < most:
        yield step
        step *= 2


def make_ordinary(spec: OperandSpec, rows: int, k: int) -> Numbers:
    """An operand of small numbers under scales of one."""
    stored, shared = k // spec.stored, (rows, k // spec.group)
    metadata = None if spec.sparsity is None else np.full((rows, k // spec.sparsity.group), FIRST_TWO, np.uint8)
    if spec.kind is OperandKind.PLAIN:
        values = (np.arange(rows * stored) % 5 - 2).astype(PLAIN_DTYPES[spec.format]).reshape(rows, stored)
        return Numbers(spec=spec, values=values, metadata=metadata)
    codes = (np.arange(rows * stored) % 4).astype(np.uint8).reshape(rows, stored)
    if spec.kind is OperandKind.BLOCK:
        scale = spec.block.scale
        return Numbers(
            spec=spec, codes=codes, scales=np.full(shared, scale.bias << scale.mantissa_bits, code_dtype(scale)), metadata=metadata
        )
    dtype = spec.affine.numpy_dtype
    offsets = np.ones(shared, dtype if spec.affine.offset is Offset.BIAS else np.uint8)
    return Numbers(spec=spec, codes=codes, scales=np.ones(shared, dtype), offsets=offsets, metadata=metadata)
