"""Plots as tables of bars: drawn from rows of numbers, readable in light and dark, and without a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bar:
    """A horizontal bar: label, length as a share of the whole, and what stands behind it."""

    label: str
    share: float
    text: str


@dataclass(frozen=True, slots=True)
class BarPlot:
    """A titled list of bars."""

    title: str
    note: str
    bars: tuple[Bar, ...]


def make_bars(title: str, rows: Sequence[tuple[str, float, str]], *, note: str = "", whole: float | None = None) -> BarPlot:
    """Bars of (label, value, text); whole: the value of a full bar, by default the largest."""
    top = whole if whole is not None else max([1e-30, *(value for _, value, _ in rows)])
    return BarPlot(title, note, tuple(Bar(label, min(1.0, max(0.0, value / top)), text) for label, value, text in rows))
