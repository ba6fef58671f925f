"""Pages of documentation: Markdown as HTML, with links between pages kept and all others left as text."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from mxspec_vectors.reading import read_regular

#: Pages that are read first, in this order; the others follow by name.
_FIRST = (
    "targets", "judge", "products", "affine", "fuzzing", "identify", "checkpoints", "layouts", "kits", "reports", "python", "gpu", "glossary", "architecture",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Document:
    """A page of documentation."""

    name: str
    title: str
    body: Markup
    #: (anchor, heading), of the second level.
    headings: tuple[tuple[str, str], ...]
    #: Everything as plain text, for the search.
    text: str


def read_documents(folder: Path) -> list[Document]:
    """All Markdown pages of a folder, in reading order.

    Raises ValueError, naming the file, for one that is not UTF-8 or no regular file.
    """
    pages = {path.stem: _read_text(path) for path in sorted(folder.glob("*.md"))}
    titles = {name: _find_title(text, name) for name, text in pages.items()}
    order = [*(n for n in _FIRST if n in pages), *(n for n in pages if n not in _FIRST)]
    return [make_document(name, pages[name], titles) for name in order]


def _read_text(path: Path) -> str:
    try:
        return read_regular(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 at byte {error.start}; save it as UTF-8") from None


def make_document(name: str, text: str, titles: Mapping[str, str]) -> Document:
    """One page; titles: the pages that links may lead to."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(_drop_comments(text))
    headings: list[tuple[str, str]] = []
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            heading = _plain(tokens[place + 1])
            token.attrs["id"] = anchor_of(heading)
            if token.tag == "h2":
                headings.append((anchor_of(heading), heading))
        if token.type == "inline":
            _mend_links(token, titles)
    body = parser.renderer.render(tokens, parser.options, {})
    # Wide tables scroll by themselves, so that the page does not.
    body = body.replace("<table>", '<div class="scroll"><table class="list">').replace("</table>", "</table></div>")
    plain = " ".join(_plain(t) for t in tokens if t.type == "inline")
    return Document(name=name, title=titles[name], body=Markup(body), headings=tuple(headings), text=plain)


def anchor_of(heading: str) -> str:
    """The anchor of a heading, as hosts of Markdown make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _find_title(text: str, name: str) -> str:
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else name


def _drop_comments(text: str) -> str:
    return re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)


def _plain(token: Token) -> str:
    return "".join(t.content if t.type in ("text", "code_inline") else " " for t in token.children or ()).strip()


def _mend_links(token: Token, titles: Mapping[str, str]) -> None:
    """Links to other pages lead to their HTML; links to files of the repository, and images, become text."""
    closing: list[bool] = []
    for child in token.children or ():
        if child.type == "image":
            child.type, child.tag, child.content, child.children = "text", "", child.content, None
        if child.type == "link_open":
            target = _find_target(str(child.attrGet("href") or ""), titles)
            closing.append(target is None)
            if target is None:
                child.tag, child.attrs = "span", {}
            else:
                child.attrs["href"] = target
        elif child.type == "link_close" and closing.pop():
            child.tag = "span"


def _find_target(href: str, titles: Mapping[str, str]) -> str | None:
    if href.startswith(("https://", "http://", "#")):
        return href
    path, _, fragment = href.partition("#")
    stem, suffix = posixpath.splitext(path)
    if suffix != ".md" or stem not in titles:
        return None
    return f"{stem}.html" + (f"#{fragment}" if fragment else "")


def search_row(url: str, title: str, text: str, *, kind: str, most: int = 2_000) -> dict[str, Any]:
    """What the search holds of a page: its text as far as `most` characters, then each further word once."""
    text = re.sub(r"\s+", " ", text)
    begun = text[:most].lower()
    more = dict.fromkeys(word for word in re.findall(r"[\w.-]{3,}", text[most:].lower()) if word not in begun)
    return {"u": url, "t": title, "k": kind, "x": " ".join((text[:most], *more))}
