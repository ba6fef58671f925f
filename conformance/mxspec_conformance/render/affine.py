"""What a report says of affine formats and fused quantizers: which profile and which contract the target follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mxspec_conformance.results.report import GOOD, Report, Verdict

_WORDS = {"quantize_affine": "quantize", "dequantize_affine": "dequantize"}


@dataclass(frozen=True, slots=True)
class AffineLine:
    """One function of one format."""

    format: str
    text: str
    failing: int
    cases: int


def list_affine(report: Report) -> Iterator[AffineLine]:
    """The lines of a report, in its order."""
    for fmt, functions in report.details.get("affine", {}).items():
        for function, entry in functions.items():
            own = [r for r in report.requirements if r.operation == function and r.format == fmt]
            fine = all(r.verdict in GOOD for r in own)
            any_open = any(r.verdict is Verdict.OPEN for r in own if r.topic == "affine-profile")
            named = f"contract {entry['judged_against']}" if function == "dequantize_affine" else entry["judged_against"]
            # Codes that are right under their own scale conform, whatever rule chose the scale.
            stand = "right under its own scales; nearest" if fine and any_open else "as" if fine else "nearest"
            yield AffineLine(fmt, f"{_WORDS.get(function, function)}: {stand} {named}", entry["failing"], entry["cases"])
    for name, dtypes in report.details.get("fused", {}).items():
        for dtype, entry in dtypes.items():
            stand = "nearest" if entry["failing"] else "as"
            yield AffineLine(name, f"{dtype}: {stand} {entry['text']}; {entry['profile']}", entry["failing"], entry["cases"])
