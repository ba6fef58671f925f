"""Plots as SVG: drawn from rows of numbers, readable in light and dark, and without a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bar:
    """A horizontal bar: label, length as a share of the whole, and what stands behind it."""

    label: str
    share: float
    text: str
    #: A mark on the bar, as a share: a floor, a goal.
    mark: float | None = None


@dataclass(frozen=True, slots=True)
class BarPlot:
    """A titled list of bars."""

    title: str
    note: str
    bars: tuple[Bar, ...]


def make_bars(
    title: str, rows: Sequence[tuple[str, float, str]], *, note: str = "", whole: float | None = None,
    marks: Sequence[float | None] | None = None,
) -> BarPlot:  # fmt: skip
    """Bars of (label, value, text); whole: the value of a full bar, by default the largest."""
    top = whole if whole is not None else max([1e-30, *(value for _, value, _ in rows)])
    marks = [None] * len(rows) if marks is None else marks
    bars = tuple(
        Bar(label, min(1.0, max(0.0, value / top)), text, None if mark is None else min(1.0, mark / top))
        for (label, value, text), mark in zip(rows, marks, strict=True)
    )
    return BarPlot(title, note, bars)


@dataclass(frozen=True, slots=True)
class Grid:
    """A square of shares: rows against columns, each field with a text."""

    title: str
    note: str
    names: tuple[str, ...]
    #: (row, column) -> (share, text); fields that are not there are left empty.
    fields: dict[tuple[int, int], tuple[float, str]]
