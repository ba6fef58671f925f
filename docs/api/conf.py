"""Sphinx configuration of the API pages; `make docs` renders them to build/docs."""

import re
from typing import Any

from sphinx.ext.napoleon import Config, GoogleDocstring

import mxspec

project = "mxspec"
release = mxspec.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.viewcode"]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {"npt.ArrayLike": "ArrayLike", "npt.DTypeLike": "DTypeLike"}
# Docstrings write names in single backquotes.
default_role = "code"
html_theme_options = {"page_width": "1100px", "body_max_width": "820px"}
html_show_copyright = False


def format_docstring(app: Any, what: Any, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape formulas (|x|, 2**n), and format the sections Args, Returns and Raises."""
    for number, line in enumerate(lines):
        parts = re.split(r"(`[^`]*`)", line)
        lines[number] = "".join(p if p[:1] == "`" else p.replace("|", r"\|").replace("**", r"\*\*") for p in parts)
    if what not in ("attribute", "property", "data"):  # there a colon would be taken for the end of a type
        lines[:] = GoogleDocstring(lines, Config(), app, what, name, obj, options).lines()


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", format_docstring)
