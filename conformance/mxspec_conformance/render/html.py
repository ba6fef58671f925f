"""Results as one HTML file: no script, no network, readable in light and dark, narrow and on paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from mxspec_conformance.render.bits import write_word
from mxspec_conformance.render.view import MARKS, view_result

if TYPE_CHECKING:
    import jinja2

#: The transports in words.
TRANSPORTS = {
    "python": "a Python object",
    "python-child": "a Python module in a process of its own",
    "library": "a shared library",
    "library-child": "a shared library in a process of its own",
    "process": "a program that speaks JSON lines",
    "results-file": "a results file",
}


@lru_cache(maxsize=1)
def make_environment() -> jinja2.Environment:
    """Templates with the common style; what they print is escaped."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("mxspec_conformance.render"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]
    style = files("mxspec_conformance.render").joinpath("templates/style.css").read_text("utf-8")
    environment.globals.update(style=Markup(style), marks=MARKS, transports=TRANSPORTS, write_word=write_word)
    return environment


def render_html(documents: Sequence[Mapping[str, Any]]) -> bytes:
    """One page for results: one alone, or several below a table."""
    many = len(documents) > 1
    views = [view_result(d, i + 1 if many else 0) for i, d in enumerate(documents)]
    links = {v.anchor: f"#{v.anchor}" for v in views}
    text = make_environment().get_template("page.html.j2").render(views=views, v_links=links)
    return text.strip().encode("utf-8") + b"\n"


def render_index(documents: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bytes:
    """A page that links to those of single results; names: their files."""
    views = [view_result(d, i + 1) for i, d in enumerate(documents)]
    links = {v.anchor: name for v, name in zip(views, names, strict=True)}
    text = make_environment().get_template("index.html.j2").render(views=views, v_links=links)
    return text.strip().encode("utf-8") + b"\n"
