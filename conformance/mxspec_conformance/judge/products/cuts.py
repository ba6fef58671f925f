"""Where a kernel cuts k into parts whose sums it rounds to the dtype of outputs before it adds them: split-K, stream-K."""

from __future__ import annotations

from mxspec.dot import OUTPUTS
from mxspec_conformance.judge.products.asking import Asker
from mxspec_conformance.targets.operands import Product
from mxspec_conformance.targets.sessions import TargetSession

#: Numbers along k that no kernel cuts, where no scale is shared; stretches of k that are looked into; cuts after which no more are looked for.
_TILE, _STRETCHES, _MOST = 16, 64, 16


def find_cuts(session: TargetSession, product: Product, size: tuple[int, int, int], out_dtype: str) -> list[int]:
    """The places along k, in a product of this size, at which one part ends and the next begins; empty: none is found.

    A part of 2^p and 1/2, where outputs have p bits or fewer, is rounded to 2^p, and the half is lost to a part of -2^p: it is
    left where all three numbers are in one part. Sums of float32 outputs are rounded alike within parts and between them.
    """
    bits, (m, n, k) = OUTPUTS[out_dtype].mantissa_bits + 2, size
    if out_dtype == "float32":
        return []
    asker = Asker(session, product)
    step = asker.run if asker.run > 1 else _TILE

    def is_cut(low: int, high: int) -> bool:
        answer = asker.ask([{low: (1, bits), low + 1: (1, -1), high: (-1, bits)}], k, (m, n))
        return answer is not None and answer[0] == 0

    def search(low: int, high: int) -> list[int]:
        if len(found) >= _MOST or not is_cut(low, high):
            return []
        if high - low <= step:
            found.append(high)
            return [high]
        middle = low + (high - low) // step // 2 * step
        return search(low, middle) + search(middle, high)

    found: list[int] = []
    stretch = max(-(-k // step) // _STRETCHES, 1) * step
    for low in range(0, k - step, stretch):
        search(low, min(low + stretch, k - step))
    return found
