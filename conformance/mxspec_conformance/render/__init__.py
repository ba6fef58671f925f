"""Results drawn for people and machines: HTML, Markdown, JUnit XML, badges; all from the JSON of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mxspec_conformance.render.badge import render_badge
from mxspec_conformance.render.html import render_html
from mxspec_conformance.render.junit import render_junit
from mxspec_conformance.render.markdown import render_markdown

RENDERERS: dict[str, Callable[[Sequence[dict[str, Any]]], bytes]] = {
    "html": render_html,
    "junit": render_junit,
    "markdown": render_markdown,
    "badge": render_badge,
}
#: What the files are called.
SUFFIXES = {"html": ".html", "junit": ".junit.xml", "markdown": ".md", "badge": ".badge.json"}
