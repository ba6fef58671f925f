"""Small slips as hooks: which item is read, which is not written, and for which calls that is so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from tests.corpora.calls.catalogue import Entry, Script
from tests.corpora.calls.formats import Array
from tests.corpora.calls.kernel import Grid, Hooks, Offer

Where = Callable[[Grid], bool]
#: (numbers of items, grid) -> others, or a mask.
Choice = Callable[[Array, Grid], Array]

MX4 = Offer(("mxfp4",))
MX4R = Offer(("mxfp4",), profile="mx-rceil")
MX8 = Offer(("mxfp8_e4m3",))
MX8R = Offer(("mxfp8_e4m3",), profile="mx-rceil")
NV = Offer(("nvfp4",), profile="nvfp4-te")
NV2 = replace(NV, options=("tensor_scale",))
SIXTEEN = ("float32", "float16", "bfloat16")


def both(offer: Offer) -> Offer:
    """The same with dequantize."""
    return replace(offer, functions=("quantize", "dequantize"))


def with_options(offer: Offer, *options: str) -> Offer:
    """The same with further keywords."""
    return replace(offer, options=(*offer.options, *options))


def with_dtypes(offer: Offer) -> Offer:
    """The same, that takes the 16-bit dtypes, too."""
    return replace(offer, dtypes=SIXTEEN)


def always(grid: Grid) -> bool:
    """Every call."""
    return True


def reads(choose: Choice, where: Where = always) -> Hooks:
    """Other items are read."""
    return Hooks(read=lambda i, g: np.clip(choose(i, g), 0, g.items - 1) if where(g) else i)


def scales_of(choose: Choice, where: Where = always) -> Hooks:
    """Other blocks' scales are stored, or read."""
    return Hooks(scale=lambda i, g: np.clip(choose(i, g), 0, g.items - 1) if where(g) else i)


def leaves(mask: Choice, where: Where = always) -> Hooks:
    """Some items are not written."""
    return Hooks(skip=lambda g: mask(np.arange(g.items), g) if where(g) else None)


def row_column(i: Array, g: Grid) -> tuple[Array, Array]:
    """Of items."""
    return i // max(g.columns, 1), i % max(g.columns, 1)


def only(function: str, hooks: Hooks) -> Hooks:
    """The hooks of one function; the others are right."""
    right = Hooks()
    changed: dict[str, Any] = {}
    for f in fields(Hooks):
        mine, usual = getattr(hooks, f.name), getattr(right, f.name)
        if f.name == "around" or mine is usual or mine is None:
            continue

        def chosen(*args: Any, mine: Any = mine, usual: Any = usual) -> Any:
            call = args[-1].call if isinstance(args[-1], Grid) else args[-1]
            if call.function == function:
                return mine(*args)
            return args[0] if usual is None else usual(*args)

        changed[f.name] = chosen
    return replace(hooks, **changed)


def bug(group: str, id_: str, offer: Offer, story: str, hooks: Hooks | Callable[[], Hooks], shows: Script) -> Entry:
    """A bug; hooks that hold state come as a function that makes them."""
    return Entry(id_, group, story, offer, hooks if callable(hooks) else lambda: hooks, shows)
