"""All blind kernels, with the model itself as a right one of each offer; and whether a kernel is what its row says."""

from __future__ import annotations

import traceback

import numpy as np

from . import KERNELS, Kernel, conversions, products, quantizers, same

__all__ = ["KERNELS", "prove"]
TABLES = (quantizers, conversions, products)
for first in {id(kernel.offer): kernel for kernel in reversed(KERNELS.values()) if kernel.wrong}.values():
    first.offer.odd(f"model-of-{first.id}", "the model itself", lambda state, right, *args, **given: right(*args, **given))


def prove(kernel: Kernel) -> str | None:
    """What is wrong with a row: a wrong kernel whose calls show nothing, a right one that the model contradicts."""
    shows = [kernel.show] if kernel.show else list(kernel.offer.calls)
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            differ = [not same(show(*kernel.functions().values()), show(*kernel.offer.functions.values())) for show in shows]
    except Exception:
        return traceback.format_exc()
    if kernel.wrong:
        return None if any(differ) else "its calls show nothing"
    return "the model answers otherwise" if any(differ) else None
