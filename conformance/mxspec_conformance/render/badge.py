"""One result as a badge: the JSON of a shields.io endpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mxspec_conformance.render.view import KNOWN, ResultView, view_result
from mxspec_conformance.results.conclusion import Stand
from mxspec_conformance.results.report import Verdict


def render_badge(documents: Sequence[Mapping[str, Any]]) -> bytes:
    """JSON with schemaVersion, label, message and color; of several results, how many pass, in the colour of the worst."""
    described = [_describe(view_result(d)) for d in documents]
    message, color = max(described, key=lambda d: _COLORS.index(d[1]))
    if len(documents) > 1:
        message = f"{sum(d['exit_code'] == 0 for d in documents)} of {len(documents)} targets pass"
    badge = {"schemaVersion": 1, "label": "mxspec", "message": message, "color": color}
    if color == "red":
        badge["isError"] = True
    return (json.dumps(badge, indent=1) + "\n").encode("ascii")


#: From the best to the worst.
_COLORS = ("brightgreen", "yellowgreen", "lightgrey", "yellow", "red")


def _describe(v: ResultView) -> tuple[str, str]:
    if v.document["exit_code"] == 2:
        return "nothing judged", "lightgrey"
    counts = dict(v.counts)
    if v.document["exit_code"] == 0:
        excused = "".join(f", {counts[word]} {word}" for word in ("waived", KNOWN) if word in counts)
        if "only" in v.report.details:
            return f"pass of {v.report.details['only']}{excused}", "lightgrey"
        names = dict.fromkeys(f.result.judged_against for f in v.formats if f.conclusion.stand is Stand.CONFORMS)
        return (", ".join(names) or "pass") + excused, "yellowgreen" if excused else "brightgreen"
    bad = {Verdict.FAIL, Verdict.ERROR, Verdict.TIMEOUT, Verdict.STALE_WAIVER} & set(counts)
    return v.report.counts_text, "red" if bad or v.report.waivers else "yellow"
