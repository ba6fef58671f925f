"""A comparison as one HTML page: the table, and plots as inline SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mxspec.elements import decode_table
from mxspec.formats import get_scalar
from mxspec_conformance.render.clean import clean
from mxspec_conformance.render.html import make_environment

#: Size of a plot in SVG units, and the strip below it for labels.
_WIDTH, _HEIGHT, _LABELS = 640, 160, 18


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: place, size and what it says."""

    x: float
    y: float
    width: float
    height: float
    title: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """Bars from left to right on a common ground."""

    title: str
    bars: tuple[Bar, ...]
    width: int = _WIDTH
    height: int = _HEIGHT
    labels: int = _LABELS


def plot_counts(title: str, counts: Sequence[tuple[str, int]], *, every: int = 1) -> Plot:
    """A histogram of named counts; every so many names are written below it."""
    most = max((n for _, n in counts), default=0) or 1
    step = _WIDTH / max(1, len(counts))
    bars = []
    for i, (name, count) in enumerate(counts):
        height = _HEIGHT * count / most
        label = name if i % every == 0 else ""
        bars.append(
            Bar(round(i * step, 2), round(_HEIGHT - height, 2), round(max(step - 1, 0.5), 2), round(height, 2), f"{name}: {count:,}", label)
        )
    return Plot(title, tuple(bars))


def render_comparison(document: Mapping[str, Any]) -> bytes:
    """The page."""
    held = clean(dict(document))
    best: dict[str, Any] = {}
    for outcome in held["outcomes"]:
        best.setdefault(outcome["format"], outcome)
    top = max((o["sqnr"] or 0 for o in held["outcomes"]), default=0) or 1
    text = (
        make_environment()
        .get_template("compare.html.j2")
        .render(
            d=held,
            top=top,
            numbers=plot_counts("magnitudes by binade: e of 2^e", _list_binades(held["exponents"])),
            plots=[(o, *_plots_of(o)) for o in best.values()],
        )
    )
    return text.strip().encode("utf-8") + b"\n"


def _list_binades(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """All binades from the lowest to the highest that occurs."""
    held = {int(e): n for e, n in counts.items()}
    return [(str(e), held.get(e, 0)) for e in range(min(held, default=0), max(held, default=0) + 1)]


def _plots_of(outcome: Mapping[str, Any]) -> tuple[Plot, Plot]:
    """How often each element value and each scale byte occurs."""
    values = decode_table(get_scalar(outcome["element"]))
    named = [(f"{values[code]:g}", n) for code, n in enumerate(outcome["codes"])]
    order = sorted(range(len(named)), key=lambda c: (float(values[c]) if values[c] == values[c] else 1e9, c))
    elements = [named[c] for c in order]
    scales = sorted(outcome["scales"].items())
    return (
        plot_counts("element values", elements, every=max(1, len(elements) // 16)),
        plot_counts("scale bytes", scales, every=max(1, len(scales) // 16)),
    )
