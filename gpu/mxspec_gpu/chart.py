"""A chart of a bench report: `python -m mxspec_gpu.chart bench.json chart.svg`."""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path
from typing import Any

#: Colours of the sizes, largest first.
_COLOURS = ("#1f5f8b", "#6aa5c9", "#9cc6de", "#c3dced")
_LABEL, _WIDTH, _ROW, _TOP, _MOST = 330, 560, 34, 78, 110.0


def draw_chart(report: dict[str, Any]) -> str:
    """SVG: a bar for each kernel and size, its share of the copy bandwidth; ticks for the least share, the goal, and what its mix
    of reads and writes reaches without arithmetic."""
    sizes = list(dict.fromkeys(r["size"] for r in report["rows"]))
    names = list(dict.fromkeys(r["name"] for r in report["rows"]))
    at = {(r["name"], r["size"]): r for r in report["rows"]}
    peers = [p for p in report["peers"] if p["size"] == sizes[0] and "percent" in p]
    height = _TOP + _ROW * (len(names) + len(peers)) + 60

    def x(percent: float) -> float:
        return _LABEL + percent / _MOST * _WIDTH

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LABEL + _WIDTH + 90}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="100%" height="100%" fill="white"/><text x="12" y="24" font-size="16">Share of the copy bandwidth, '
        f"{escape(report['device'])}</text>",
        f'<text x="12" y="44" fill="#555">100 % is {report["bandwidth"]["copy"] / 1e12:.3f} TB/s, a 4 GiB copy in the same '
        "run; for the amax pass the read bandwidth. Red: least share; green: goal; black: a kernel that only moves the same bytes.</text>",
    ]
    for i, size in enumerate(sizes):
        left = 12 + i * 130
        parts.append(f'<rect x="{left}" y="54" width="12" height="12" fill="{_COLOURS[i]}"/>')
        parts.append(f'<text x="{left + 18}" y="65">{size if isinstance(size, str) else f"{size} x {size}"}</text>')
    for percent in range(0, 111, 10):
        parts.append(
            f'<line x1="{x(percent):.1f}" x2="{x(percent):.1f}" y1="{_TOP}" y2="{height - 40}" stroke="{"#888" if percent == 100 else "#ddd"}"/>'
            f'<text x="{x(percent):.1f}" y="{height - 24}" text-anchor="middle" fill="#555">{percent}</text>'
        )
    y = _TOP + 4
    for name in names:
        parts.append(f'<text x="{_LABEL - 8}" y="{y + 16}" text-anchor="end">{escape(name)}</text>')
        for i, size in enumerate(sizes):
            row = at.get((name, size))
            if row:
                parts.append(
                    f'<rect x="{_LABEL}" y="{y + i * 9}" width="{x(row["percent"]) - _LABEL:.1f}" height="8" fill="{_COLOURS[i]}"/>'
                )
        first = next(at[name, size] for size in sizes if (name, size) in at)
        parts.append(f'<text x="{x(_MOST) + 6:.0f}" y="{y + 9}" fill="#333">{first["percent"]:.1f} %</text>')
        marks = [("#c0392b", first.get("floor")), ("#1e8449", first.get("goal"))]
        if "percent_of_mix" in first:
            marks.append(("#000", first["percent"] / first["percent_of_mix"] * 100))
        for colour, place in marks:
            if place is not None:
                parts.append(
                    f'<line x1="{x(place):.1f}" x2="{x(place):.1f}" y1="{y - 2}" y2="{y + 10}" stroke="{colour}" stroke-width="2"/>'
                )
        y += _ROW
    for peer in peers:
        label = escape(f"{peer['library']}: {peer['name']}")
        parts.append(f'<text x="{_LABEL - 8}" y="{y + 10}" text-anchor="end" fill="#777">{label}</text>')
        parts.append(f'<rect x="{_LABEL}" y="{y}" width="{x(peer["percent"]) - _LABEL:.1f}" height="12" fill="#bbb"/>')
        parts.append(f'<text x="{x(_MOST) + 6:.0f}" y="{y + 10}" fill="#333">{peer["percent"]:.1f} %</text>')
        y += _ROW
    return "\n".join([*parts, "</svg>", ""])


def main() -> int:
    """Read a report, write the chart."""
    if len(sys.argv) != 3:
        print("usage: python -m mxspec_gpu.chart bench.json chart.svg", file=sys.stderr)
        return 2
    report = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    Path(sys.argv[2]).write_text(draw_chart(report), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
