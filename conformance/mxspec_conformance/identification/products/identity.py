"""What was found of one product, and its words."""

from __future__ import annotations

from dataclasses import dataclass, field

from mxspec.dot import Direction

_ROUNDING_WORDS = {
    Direction.NEAREST: "to nearest, ties to even", Direction.ZERO: "toward zero", Direction.DOWN: "down", Direction.UP: "up",
}  # fmt: skip


@dataclass(slots=True)
class ProductIdentity:
    """What the questions found of one product."""

    product: str
    #: Outputs that were requested.
    questions: int = 0
    #: Why the target answered nothing.
    refused: str = ""
    #: The bits between the largest number of a sum and the smallest one that still counts: of neighbours along k, and of
    #: places far apart. None: the format does not reach so far, or nothing was lost.
    near_bits: int | None = None
    far_bits: int | None = None
    #: How a sum that does not fit is rounded; None: neither way, or not found.
    rounding: Direction | None = None
    #: For each place of a negative number, how many ones are left next to it and its positive: of neighbours along k, then of
    #: places far apart.
    order: list[int] = field(default_factory=list)
    #: Whether `order` holds answers of neighbours.
    near_order: bool = False
    #: Models that leave as many.
    orders: list[str] = field(default_factory=list)
    #: The model that gives every output of random operands, its bits, and every other answer; empty: none that is known.
    model: str = ""
    #: Outputs of random operands, and of them those that the nearest model gives.
    compared: int = 0
    equal: int = 0
    #: Of the outputs those that every order of float32 additions gives alike.
    certain: int = 0
    #: The nearest model.
    nearest: str = ""


def describe_product(found: ProductIdentity) -> dict[str, str]:
    """The traits in words."""
    if found.refused:
        return {"no answer": found.refused}
    unknown = "nothing is lost as far as these formats reach"
    words = {
        "neighbours along k": unknown if found.near_bits is None else f"{found.near_bits} bits below the largest number count",
        "places far apart": unknown if found.far_bits is None else f"{found.far_bits} bits below the largest number count",
        "sums that do not fit": "not found" if found.rounding is None else f"rounded {_ROUNDING_WORDS[found.rounding]}",
    }
    if found.orders:
        words["order of additions"] = f"as {found.orders[0]}" + (f" ({len(found.orders) - 1} more alike)" if len(found.orders) > 1 else "")
    elif found.order:
        words["order of additions"] = "as no known model"
    if found.compared:
        words["random operands"] = (
            f"{found.model}: all {found.compared} outputs, bit for bit{_certain_words(found)}" if found.model
            else f"{found.nearest}: all {found.compared} outputs, but other answers contradict it" if found.equal == found.compared
            else f"no known model gives all {found.compared} outputs; nearest: {found.nearest or 'none'} ({found.equal})"
        )  # fmt: skip
    return words


def _certain_words(found: ProductIdentity) -> str:
    """How many of the outputs tell nothing of the order."""
    if not found.certain:
        return ""
    return f" ({'all' if found.certain == found.compared else found.certain} of them are the same in every order)"
