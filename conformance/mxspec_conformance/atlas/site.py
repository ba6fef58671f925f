"""The atlas as files: pages, one style, two scripts and the data that they filter; nothing is fetched to read it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any

import jinja2
from markupsafe import Markup

import mxspec
from mxspec.formats import BLOCKS
from mxspec.layouts import list_layouts
from mxspec.profiles import Profile, list_profiles
from mxspec_conformance.atlas.agreement import count_agreement, list_neighbours
from mxspec_conformance.atlas.documents import Document, search_row
from mxspec_conformance.atlas.entries import (
    ELEMENTS_COLUMN,
    LAYOUTS_COLUMN,
    Cell,
    Entry,
    age,
    is_pair,
    list_cells,
    list_changes,
    slug,
    sum_up,
)
from mxspec_conformance.atlas.explorer import SCRIPT_NAME, describe_explorer, link_block, write_explorer_script
from mxspec_conformance.atlas.findings import show_finding
from mxspec_conformance.atlas.followers import Follower, list_followers
from mxspec_conformance.atlas.layouts import view_layout
from mxspec_conformance.atlas.letter import write_letter
from mxspec_conformance.atlas.measured import make_part
from mxspec_conformance.atlas.places import Places, place_cases
from mxspec_conformance.atlas.plots import BarPlot, make_bars
from mxspec_conformance.atlas.reading import Collection
from mxspec_conformance.atlas.requirements import list_requirements
from mxspec_conformance.atlas.threads import link_of, list_shown
from mxspec_conformance.render.bits import draw_code, draw_float, formats_of, write_word
from mxspec_conformance.render.faults import FAULTS, describe_fault
from mxspec_conformance.render.headline import list_headlines
from mxspec_conformance.render.html import TRANSPORTS
from mxspec_conformance.render.profile import list_profile_rows, list_steps, list_symbols
from mxspec_conformance.render.view import MARKS, ResultView, view_deviation, view_report

#: Pages of the navigation: file, word. All others stand behind the third.
NAVIGATION = (("index.html", "Matrix"), ("findings.html", "Findings"), ("more.html", "More"), ("search.html", "Search"))
#: File, word, and what is there.
MORE = (
    ("explorer.html", "Explorer", "numbers, a format and a profile: every step, every bit, every layout's bytes"),
    ("docs/index.html", "Documentation", "how to judge a kernel, and what the words mean"),
    ("profiles.html", "Profiles", "named contracts of arithmetic, step by step, and who follows them"),
    ("requirements.html", "Requirements", "the verdict of every implementation, and the mistakes that each detects"),
    ("layouts.html", "Layouts", "the bytes of a small tile: byte, bits, row and column of each field"),
    ("threads.html", "Threads", "public bug reports as pairs of targets, broken and mended"),
    ("agreement.html", "Agreement", "how often profiles give the same bits"),
    ("interop.html", "Interop", "quantized by one implementation, decoded by another"),
    ("model.html", "Model level", "errors by format and rule, and a small transformer in every format"),
    ("attribution.html", "Attribution", "the profiles that the bytes of checkpoints are consistent with"),
    ("plots.html", "Plots", "kernels against the bandwidth, mistakes by topic, distances"),
)
#: Pages of tables: name of the measurement, title, and what it is.
TABLES = (
    ("interop", "Interop", "Quantized by one implementation, stored by a layout or a container, decoded by another: are the values equal?"),
    ("model", "Model level", "Errors by format, block size and scale rule, and what they make of a small transformer. For information; no verdict depends on it."),
    ("attribution", "Attribution", "Which profiles the bytes of checkpoints are consistent with."),
)  # fmt: skip
#: Measurements that stand below another one on its page: name, of which page, and title.
BELOW = (("transformer", "model", "A small transformer"),)
#: What the counts of replayed threads are called on their page.
THREAD_COUNTS = {
    "separated": "separated by the judge", "named": "cause named in its words", "named by a step alone": "of these as a step of the arithmetic",
    "separated and named": "separated and named", "threads": "public threads behind the pairs", "refused": "threads that are no pairs",
}  # fmt: skip
#: Lanes of a failing block that are drawn, and of the first one of a page.
MOST_LANES, LEAD_LANES = 3, 8
Files = dict[str, bytes]
#: Attributes that need no quotes; in text a quote is an entity.
_QUOTED = re.compile(r' ([a-z-]+)="([\w./#%+@-]*[\w%+@-])"')
#: End tags that HTML lets a page leave out, and blanks that nobody sees: a third of a table.
_UNSEEN = re.compile(r"\s*</(?:td|th|tr|li|dd|dt)>\s*|(?<=>)\n\s*(?=<(?!/(?:code|pre)))")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the matrix."""

    entry: Entry
    cells: Mapping[str, Cell]


@contextmanager
def _naming(entry: Entry) -> Iterator[None]:
    """Within it an entry's result is drawn; where nothing can be drawn of it, a ValueError names its file."""
    try:
        yield
    except FAULTS as error:
        raise ValueError(f"{entry.source}: {describe_fault(error)}") from error


class Site:
    """Renders pages; one object holds what they share."""

    def __init__(self, collection: Collection, documents: Sequence[Document] = ()) -> None:
        self.collection = collection
        self.documents = documents
        self.rows = []
        self._views: dict[str, ResultView] = {}
        #: Where a failing case is drawn: the first page that has it. Half of all cases are those of another version or device.
        self._drawn: Places = {}
        for entry in collection.entries:
            with _naming(entry):
                self.rows.append(Row(entry, list_cells(entry)))
                self._views[entry.slug] = view_report(entry.document, entry.report, lanes=MOST_LANES)
        self.findings = [show_finding(f, collection.entries) for f in collection.findings]
        self.requirements = list_requirements(collection.entries, collection.others.get("kills"))
        self.profiles = list_profiles()
        self.layouts = [view_layout(layout) for layout in list_layouts()]
        self._files: Files = {}
        self._search: list[dict[str, Any]] = []
        self._templates = _make_templates()

    def render(self) -> Files:
        """Every file by its path below the site's folder."""
        self._add_matrix()
        for row in self.rows:
            with _naming(row.entry):
                self._add_entry(row)
        self._add_findings()
        self._add_threads()
        self._add_profiles()
        self._add_layouts()
        self._add_requirements()
        self._add_agreement()
        self._add_plots()
        self._add_tables()
        self._add_explorer()
        self._add_documents()
        self._page("more.html", "more.html.j2", title="More", text="", kind="", pages=[item for item in MORE if self._has(item[0])])
        self._page("search.html", "search.html.j2", title="Search", text="", kind="")
        own, shared = (files(f"mxspec_conformance.{name}").joinpath("templates") for name in ("atlas", "render"))
        self._files["site.js"] = own.joinpath("site.js").read_bytes()
        self._files["style.css"] = shared.joinpath("style.css").read_bytes() + own.joinpath("site.css").read_bytes()
        self._files["search-data.js"] = _as_script("MXSPEC_PAGES", [row for row in self._search if row["x"]])
        return self._files

    def _page(self, path: str, template: str, *, title: str, text: str, kind: str, **given: Any) -> None:
        """Render a page, and enter it into the search."""
        root = "../" * (len(PurePosixPath(path).parts) - 1)
        page = self._templates.get_template(template).render(
            title=title, root=root, path=path, navigation=[item for item in NAVIGATION if self._has(item[0])], site=self, **given
        )
        self._files[path] = squeeze(page).encode("utf-8")
        self._search.append(search_row(path, title, text, kind=kind))

    def _has(self, page: str) -> bool:
        """Whether the site has a page of the navigation."""
        others = self.collection.others
        tables = {name: {name, *(other for other, on, _ in BELOW if on == name)} for name, _, _ in TABLES}
        needs = {"docs/index.html": self.documents, "findings.html": self.findings, "threads.html": "threads" in others}
        needs |= {f"{name}.html": not names.isdisjoint(others) for name, names in tables.items()}
        return bool(needs.get(page, True))

    # The matrix, and a page for each implementation

    def _add_matrix(self) -> None:
        used = {column for row in self.rows for column in row.cells}
        columns = [c for c in (*BLOCKS, ELEMENTS_COLUMN, LAYOUTS_COLUMN) if c in used]
        pairs = sorted(c for c in used if is_pair(c))
        products = [row for row in self.rows if row.cells and all(map(is_pair, row.cells))]
        quantizers = [row for row in self.rows if row not in products]
        operations = sorted({name for row in self.rows for cell in row.cells.values() for name in cell.operations})
        data = [_row_data(row) for row in self.rows]
        self._page(
            "index.html", "matrix.html.j2", title="Implementations", kind="", text="", rows=self.rows, columns=columns, pairs=pairs, quantizers=quantizers, products=products, operations=operations,
            data=Markup(_in_script(data)),
        )  # fmt: skip

    def _add_entry(self, row: Row) -> None:
        entry = row.entry
        view = self._views[entry.slug]
        others = [r.entry for r in self.rows if r.entry.name == entry.name and r.entry is not entry and r.entry.device == entry.device]
        trends = [(other, changes, sum_up(changes)) for other in others for changes in [list_changes(*sorted((other, entry), key=age))]]
        about = [shown for shown in self.findings if shown.entry is entry]
        first = next((d.requirement for d in view.deviations if entry.report.counts_as_wrong(d.requirement)), None)
        lead = None if first is None else view_deviation(first, "", LEAD_LANES)
        drawn, elsewhere = place_cases(entry, view.deviations, self._drawn)
        self._page(
            f"i/{entry.slug}.html", "entry.html.j2", title=view.title, kind="implementation", text=_entry_text(entry, view), entry=entry, view=view,
            trends=trends, findings=about, lead=lead, drawn=drawn, elsewhere=elsewhere, wrong=list_headlines(entry.report), command=entry.file or entry.name,
        )  # fmt: skip

    # Findings

    def _add_findings(self) -> None:
        if not self.findings:
            return
        self._page("findings.html", "findings.html.j2", title="Findings", kind="", text="")
        for shown in self.findings:
            view = self._views[shown.entry.slug]
            deviation = next((d for d in view.deviations if d.requirement.id == shown.requirement.id), None)
            finding = shown.finding
            self._page(
                f"f/{finding.id}.html", "finding.html.j2", title=finding.title, kind="finding", text=f"{finding.text} {finding.effect}",
                shown=shown, deviation=deviation, letter=write_letter(shown),
            )  # fmt: skip

    # Replayed threads

    def _add_threads(self) -> None:
        document = self.collection.others.get("threads")
        if document is None:
            return
        shown = list_shown(document)
        counts = [(THREAD_COUNTS.get(name, name), number) for name, number in document["counts"].items()]
        self._page(
            "threads.html",
            "threads.html.j2",
            title="Replayed bug threads",
            kind="",
            text="",
            shown=shown,
            counts=counts,
            document=document,
            link_of=link_of,
        )
        for thread in shown:
            text = f"{thread.row['reference']} {thread.row['wrong']}"
            self._page(
                f"t/{thread.id}.html", "thread.html.j2", title=thread.row["title"], kind="thread", text=text, s=thread, link_of=link_of
            )

    # Profiles

    def _add_profiles(self) -> None:
        followers: dict[str, list[Follower]] = defaultdict(list)
        for row in self.rows:
            for result in row.entry.report.formats:
                for follower in list_followers(row.entry, result):
                    followers[follower.profile].append(follower)
        self._page("profiles.html", "profiles.html.j2", title="Profiles", kind="", text="", profiles=self.profiles, followers=followers)
        pairs = self.collection.others.get("pairs", {}).get("formats", {})
        known = {fmt: list_neighbours(fmt, pairs.get(fmt, {}).get("pairs", {})) for fmt in BLOCKS}
        for profile in _unique(self.profiles):
            neighbours = {fmt: known[fmt].get(profile.id, ()) for fmt in profile.formats if fmt in BLOCKS}
            links = {
                (fmt, n.profile): link_block(fmt, profile.id, n.profile, n.lanes, n.tensor_amax)
                for fmt, others in neighbours.items() for n in others if n.lanes
            }  # fmt: skip
            rows = list(list_profile_rows(profile))
            steps = list(list_steps(profile))
            self._page(
                f"p/{slug(profile.id)}.html", "profile.html.j2", title=profile.id, kind="profile",
                text=f"{profile.summary} {' '.join(profile.formats)}", profile=profile,
                rows=[r for r in rows if r not in steps], steps=steps, symbols=list_symbols(profile), neighbours=neighbours, links=links, followers=followers.get(profile.id, []),
            )  # fmt: skip

    # Layouts

    def _add_layouts(self) -> None:
        self._page("layouts.html", "layouts.html.j2", title="Layouts", kind="", text="")
        for view in self.layouts:
            layout = view.layout
            text = f"{layout.summary} {' '.join(layout.aliases)} {layout.source} {', '.join(layout.users)}"
            self._page(f"l/{slug(layout.name)}.html", "layout.html.j2", title=layout.name, kind="layout", text=text, v=view)

    # Requirements

    def _add_requirements(self) -> None:
        self._page("requirements.html", "requirements.html.j2", title="Requirements", kind="", text="")
        for page in self.requirements:
            self._page(
                f"r/{page.slug}.html", "requirement.html.j2", title=f"{page.operation}: {page.topic}", kind="requirement",
                text=page.text, page=page,
            )  # fmt: skip

    # Pictures

    def _add_agreement(self) -> None:
        formats = [fmt for fmt in BLOCKS if any(fmt in p.formats for p in self.profiles)]
        grids = [(fmt, count_agreement(fmt)) for fmt in formats]
        self._page(
            "agreement.html",
            "agreement.html.j2",
            title="Agreement of profiles",
            kind="",
            text="",
            grids=[g for g in grids if g[1].profiles],
        )

    def _add_plots(self) -> None:
        self._page("plots.html", "plots.html.j2", title="Plots", kind="", text="", plots=list(self._list_plots()))

    def _list_plots(self) -> Iterator[BarPlot]:
        bench = self.collection.others.get("bench")
        if bench is not None:
            largest = max(r["size"] for r in bench["rows"] if isinstance(r["size"], int))
            rows = [row for row in bench["rows"] if row["size"] == largest and row.get("percent_of_mix")]
            yield make_bars(
                f"Kernels on {bench['device']}: share of the bandwidth that a kernel without arithmetic reaches",
                [(row["name"], row["percent_of_mix"], f"{row['percent_of_mix']:.1f} %") for row in rows], whole=110,
                note=f"{largest} x {largest}; the kernel reads and writes the same bytes.",
            )  # fmt: skip
        kills = self.collection.others.get("kills")
        if kills is not None:
            found: dict[str, int] = defaultdict(int)
            for mutant in kills["mutants"]:
                for topic in {t for i in mutant["instances"] for t in i["topics"]}:
                    found[topic] += 1
            ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
            yield make_bars(
                "Mutants that each topic kills", [(topic, count, str(count)) for topic, count in ranked],
                note=f"Of {len(kills['mutants'])} mutants; most are killed by several topics.",
            )  # fmt: skip
        for fmt in BLOCKS:
            rows_of = [
                (row.entry, r)
                for row in self.rows
                for r in row.entry.report.formats
                if r.format == fmt and r.cases and "quantize" in r.operations
            ]
            if rows_of:
                rows_of.sort(key=lambda pair: pair[1].distance / pair[1].cases)
                yield make_bars(
                    f"{fmt}: cases that differ from the nearest normative profile",
                    [(f"{e.name} {e.version}", r.distance / r.cases, f"{100 * r.distance / r.cases:.1f} %, {r.judged_against}") for e, r in rows_of],
                    whole=1.0, note="Cases are chosen to tell rules apart, so these are no shares of ordinary data.",
                )  # fmt: skip

    def _add_tables(self) -> None:
        for name, title, intro in TABLES:
            others = self.collection.others
            below = [(other, head) for other, page, head in BELOW if page == name and other in others]
            if name in others or below:
                first = "Distributions" if below else ""
                parts = [make_part(n, head, others[n]) for n, head in ((name, first), *below) if n in others]
                self._page(f"{name}.html", "tables.html.j2", title=title, kind="measurement", text=intro, intro=intro, parts=parts)

    def _add_explorer(self) -> None:
        verdict = self.collection.others.get("explorer")
        text = "Type numbers or paste a block, choose a format and a profile: every step, every bit, every layout's bytes."
        self._page("explorer.html", "explorer.html.j2", title="Explorer", kind="explorer", text=text, **describe_explorer(verdict))
        self._files[SCRIPT_NAME] = write_explorer_script()

    # Documentation

    def _add_documents(self) -> None:
        if not self.documents:
            return
        self._page("docs/index.html", "docs.html.j2", title="Documentation", kind="", text="")
        for document in self.documents:
            self._page(
                f"docs/{document.name}.html",
                "document.html.j2",
                title=document.title,
                kind="documentation",
                text=document.text,
                document=document,
            )

    # What templates ask for

    def url_of_profile(self, name: str) -> str | None:
        """The page of a profile, below the root; None where there is no such profile."""
        return f"p/{slug(name)}.html" if any(p.id == name for p in self.profiles) else None


def squeeze(page: str) -> str:
    """The same page in fewer bytes."""
    return _QUOTED.sub(r" \1=\2", _UNSEEN.sub("", page.strip())) + "\n"


def _unique(profiles: Sequence[Profile]) -> list[Profile]:
    return list({p.id: p for p in profiles}.values())


def _entry_text(entry: Entry, view: ResultView) -> str:
    said = [f.conclusion.text for f in view.formats] + [w for f in entry.report.formats for w in (*f.deviations, *f.open_choices)]
    words = dict.fromkeys(said)
    return f"{entry.name} {entry.version} {entry.device} {entry.about} " + " ".join(words)


def _row_data(row: Row) -> dict[str, Any]:
    """What the matrix's script filters and shows anew."""
    return {
        "slug": row.entry.slug, "name": row.entry.name, "version": row.entry.version, "device": row.entry.device, "date": row.entry.date,
        "current": row.entry.current,
        "cells": {
            column: {
                "v": cell.verdict.value,
                "o": {name: [verdict.value, asked, failing] for name, (verdict, asked, failing) in cell.operations.items()},
            }
            for column, cell in row.cells.items()
        },
    }  # fmt: skip


def _in_script(value: Any) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _as_script(name: str, value: Any) -> bytes:
    return f"window.{name}={_in_script(value)};\n".encode()


def _make_templates() -> jinja2.Environment:
    templates = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader("mxspec_conformance.atlas"), jinja2.PackageLoader("mxspec_conformance.render")]),
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    templates.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]
    templates.globals.update(
        marks=MARKS,
        transports=TRANSPORTS,
        suite_version=mxspec.__version__,
        slug=slug,
        draw_code=draw_code,
        draw_float=draw_float,
        formats_of=formats_of,
        write_word=write_word,
    )
    return templates


def render_site(collection: Collection, documents: Sequence[Document] = ()) -> Files:
    """The site's files by path."""
    return Site(collection, documents).render()


__all__ = ["Site", "render_site"]
