"""Pages of measurements: each document's facts, plots, tables, and what it says that it does not show."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mxspec_conformance.atlas.plots import BarPlot, make_bars
from mxspec_conformance.atlas.tables import Table, list_facts, list_tables

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One document on a page."""

    #: "" where the page has no other part.
    title: str
    facts: tuple[tuple[str, str], ...]
    plots: tuple[BarPlot, ...]
    tables: tuple[Table, ...]
    #: What the document does not show, in its own words.
    remarks: tuple[str, ...]


def make_part(name: str, title: str, document: Document) -> Part:
    """A document by the name of its measurement."""
    draw = _PLOTS.get(name)
    return Part(
        title=title, facts=tuple(list_facts(document)), plots=tuple(draw(document)) if draw else (), tables=tuple(list_tables(document)),
        remarks=tuple(str(x) for x in document.get("not_shown", ()) if isinstance(x, str)),
    )  # fmt: skip


def _draw_errors(document: Document) -> Iterator[BarPlot]:
    """Signal to noise by format and rule, a plot for each distribution."""
    for distribution in dict.fromkeys(row["distribution"] for row in document["rows"]):
        rows = sorted((row for row in document["rows"] if row["distribution"] == distribution), key=lambda row: -row["sqnr_db"])
        yield make_bars(
            f"Signal to noise on {distribution}, in dB",
            [(f"{r['format']}, {r['rule']}, blocks of {r['block']}", r["sqnr_db"], f"{r['sqnr_db']:.2f} ± {r['sqnr_db_standard_error']:.2f}, {r['bits_per_element']:g} bits") for r in rows],
            note="Longer is better; six dB are one bit of a plain integer. ±: the standard error.",
        )  # fmt: skip


def _draw_transformer(document: Document) -> Iterator[BarPlot]:
    """What each format adds to the perplexity, and errors through the layers, predicted and measured."""
    rows = [row for row in document["rows"] if row["rule"] != "unquantized"]
    rows.sort(key=lambda row: row["ratio"])
    yield make_bars(
        "Perplexity added to the small transformer, in %",
        [(f"{r['format']}, {r['rule']}", r["ratio"] - 1, f"{100 * (r['ratio'] - 1):.2f} ± {100 * r['ratio_standard_error']:.2f}, {r['bits_per_number']:.3g} bits") for r in rows],
        note="Shorter is better. ±: the standard error over paragraphs, of the same text with and without quantization.",
    )  # fmt: skip
    yield make_bars(
        "Greedy tokens that stay the same, in %",
        [(f"{r['format']}, {r['rule']}", r["greedy_token_match"], f"{100 * r['greedy_token_match']:.1f}; of single predictions {100 * r['top_token_match']:.1f}") for r in rows],
        whole=1.0, note="After the first other token the texts tell other stories: a near tie at one place counts as often as there are tokens after it.",
    )  # fmt: skip
    for fmt in ("mxfp4", "nvfp4", "mxfp8_e4m3"):
        layers = [row for row in document["layers"] if row["format"] == fmt]
        pairs = [
            bar for r in layers for bar in (
                (f"{r['layer']}: law", r["predicted"], f"{r['predicted']:.3g}"),
                ("with gains", r["predicted_with_gains"], f"{r['predicted_with_gains']:.3g}"),
                ("measured", r["measured"], f"{r['measured']:.3g} ± {r['standard_error']:.1g}"),
            )
        ]  # fmt: skip
        if pairs:
            yield make_bars(
                f"{fmt}: relative squared error after each layer", pairs,
                note="Law: the errors of the matrices composed as those of independent numbers, which takes a trained matrix for a random one. With gains: "
                "times what each product and GELU make of a random error in this model, which takes errors of different layers for independent. "
                "±: the standard error.",
            )  # fmt: skip


def _draw_interop(document: Document) -> Iterator[BarPlot]:
    """How often what one wrote is what the other reads, by format."""
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for row in document["rows"]:
        level = ", with a tensor scale" if row["tensor_scale"] else ""
        groups[row["format"] + level][row["verdict"]] += 1
    yield make_bars(
        "Pairs of quantizer and decoder that agree in every bit, of all pairs",
        [(name, c["bits"] / c.total(), f"{c['bits']} of {c.total()}; {c['values']} except for signs of zero, {c['wrong']} wrong") for name, c in groups.items()],
        whole=1.0, note="A stand-in is a profile in a library's place: what the library does, computed by the model. Wrong: a block that occurs decodes to another float32, be it by the last bit.",
    )  # fmt: skip


_PLOTS: Mapping[str, Callable[[Document], Iterator[BarPlot]]] = {
    "interop": _draw_interop,
    "model": _draw_errors,
    "transformer": _draw_transformer,
}
