"""What differences mean on ordinary data, in a sentence."""

from __future__ import annotations

from mxspec_conformance.results.report import FormatResult, Impact


def describe_impact(result: FormatResult) -> list[str]:
    """A sentence for each data; none for a format that agrees with its profile, unless the user brought data."""
    return [_describe(i) for i in result.impact if result.distance or len(result.impact) > 1]


def _describe(impact: Impact) -> str:
    if impact.note:
        return f"on {impact.data}: not measured: {impact.note}"
    nothing = "some values are NaN or infinite" if impact.largest is None else "no error"
    quality = nothing if impact.sqnr is None else f"SQNR {_decibels(impact.sqnr)} dB"
    if not impact.codes_differ and not impact.scales_differ:
        return f"on {impact.data}: no code and no scale differs; {quality}"
    codes = f"{_share(impact.codes_differ, impact.codes)} of codes differ"
    values = f"{_share(impact.values_differ, impact.codes)} in value"
    scales = f"{_share(impact.scales_differ, impact.scales)} of scales"
    if impact.largest is None:
        return f"on {impact.data}: {codes} ({values}), {scales}; {quality}, the profile's SQNR {_decibels(impact.sqnr_profile)} dB"
    largest = f"largest error {_number(impact.largest)}, {_number(impact.largest_profile)}"
    return f"on {impact.data}: {codes} ({values}), {scales}; {quality}, the profile's {_decibels(impact.sqnr_profile)}; {largest}"


def _share(count: int, total: int) -> str:
    """A percentage that is 0 or 100 only where it is."""
    percent = 100 * count / total if total else 0.0
    if 0 < percent < 0.01:
        return "under 0.01 %"
    text = f"{percent:.2f}"
    return f"{'over 99.99' if text == '100.00' and count < total else text.rstrip('0').rstrip('.')} %"


def _decibels(value: float | None) -> str:
    """The same digits for any value, so that two can be compared."""
    return "undefined" if value is None else f"{value:.2f}"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"
