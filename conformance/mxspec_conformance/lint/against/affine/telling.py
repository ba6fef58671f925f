"""What happened to affine integers, in words."""

from __future__ import annotations

from mxspec_conformance.lint.hypotheses import AffineHypothesis, Basis, Departure, GroupOrder, WordOrder


def describe_affine(hypothesis: AffineHypothesis, departure: Departure) -> str:
    """One departure of a hypothesis, and by which rule."""
    reading = hypothesis.reading
    orders = (("codes", reading.codes), ("zero points", reading.zeros))
    places = (("scales", reading.scales), ("zero points or biases", reading.offsets))

    def name(of: tuple[tuple[str, WordOrder], ...], *wanted: WordOrder) -> str:
        return " and ".join(what for what, order in of if order in wanted)

    moved = ", ".join(
        f"{what} of the group {'after' if o is GroupOrder.BEFORE else 'before'}"
        for what, o in places
        if o in (GroupOrder.BEFORE, GroupOrder.AFTER)
    )
    turned = " and ".join([*(what for what, o in places if o is GroupOrder.TRANSPOSED), *(["words of codes"] if reading.turned else [])])
    what = {
        Departure.NIBBLES: f"{name(orders, WordOrder.SWAPPED)} with the nibbles of each byte swapped",
        Departure.INTERLEAVE: f"{name(orders, WordOrder.LOWEST_FIRST)} with the first of eight in the lowest bits"
        if WordOrder.LOWEST_FIRST in (reading.codes, reading.zeros)
        else f"{name(orders, WordOrder.INTERLEAVED)} in AWQ's order of eight",
        Departure.TRANSPOSED: "the columns of the original" if hypothesis.of_columns else f"{turned} read column by column",
        Departure.GROUP: moved,
        Departure.ZERO_POINT: f"zero points {reading.step:+d}",
        Departure.DTYPE: f"bits of scales that are {reading.dtype}'s",
        Departure.COMPLEMENT: "codes with the highest bit inverted",
        Departure.SIGN: "biases of the other sign",
        Departure.TWICE: f"the original quantized to {hypothesis.between} first",
        Departure.CAST: f"the original rounded to {hypothesis.between} first",
        Departure.OTHER: f"the original {hypothesis.codes_of}",
        Departure.OTHER_CODES: f"codes of the original {hypothesis.codes_of}",
        Departure.OTHER_SCALES: f"scales of the original {hypothesis.scales_of}",
    }[departure]  # fmt: skip
    rule = hypothesis.profile if hypothesis.basis is Basis.PROFILE else "codes rounded to nearest under the scales"
    return f"{what} ({rule})"
