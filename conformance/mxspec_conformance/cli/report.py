"""The command `report`."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from mxspec_conformance.cli.console import fail
from mxspec_conformance.cli.parameters import INPUT_FILE, NO_JINJA2, OUTPUT_FOLDER, FileCommand
from mxspec_vectors.files import list_result_digests, write_files
from mxspec_vectors.reading import read_json

#: Requirements of one result: all formats and topics are a few hundred.
MAX_REQUIREMENTS = 10_000


@click.command(cls=FileCommand)
@click.argument("results", nargs=-1, required=True, metavar="RESULTS...", type=INPUT_FILE)
@click.option("-o", "--out", required=True, type=OUTPUT_FOLDER, help="Output folder.")
def report(results: tuple[Path, ...], out: Path) -> None:
    """Render results as HTML, Markdown, JUnit XML and badges.

    RESULTS are files that `mxspec check --json` wrote. For several results an index.html is added; they must come from the
    same version of the vectors. Without jinja2 no HTML is written.
    """
    from mxspec_conformance.render import RENDERERS, SUFFIXES
    from mxspec_conformance.render.faults import FAULTS, describe_fault
    from mxspec_conformance.render.html import render_index

    documents: dict[str, dict[str, Any]] = {}
    for path in results:
        for document in _read(path):
            count = len(document["requirements"]) if isinstance(document.get("requirements"), list) else 0
            if count > MAX_REQUIREMENTS:
                fail(f"{path} holds {count} requirements; at most {MAX_REQUIREMENTS} are drawn")
            stem = path.stem if path.stem not in documents else f"{path.stem}-{_slug(document)}"
            if stem in documents:
                fail(f"two results would be written to {stem}.html; rename {path}")
            documents[stem] = document
    digests = {d["suite"]["vectors"] for d in documents.values() if isinstance(d.get("suite"), dict)}
    # Results carry the digest of those operations that the target has; all these digests belong to one build.
    current = list_result_digests()
    if len(digests) > 1 and not digests <= current:
        fail(
            f"the results come from {len(digests)} versions of the vectors ({', '.join(sorted(x[:12] for x in digests))}); run `mxspec check` again"
        )
    has_html = find_spec("jinja2") is not None
    contents: dict[Path, bytes] = {}
    for stem, document in documents.items():
        try:
            for kind, render in RENDERERS.items():
                if kind == "html" and not has_html:
                    continue
                contents[out / f"{stem}{SUFFIXES[kind]}"] = render([document])
        except FAULTS as error:
            fail(f"{stem}: {describe_fault(error)}")
    if len(documents) > 1 and has_html:
        contents[out / "index.html"] = render_index(list(documents.values()), [f"{stem}.html" for stem in documents])
    write_files(contents)
    for written in contents:
        click.echo(str(written))
    if not has_html:
        click.echo(f"mxspec: no HTML: {NO_JINJA2}", err=True)


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        content = read_json(path)
    except FileNotFoundError:
        fail(f"{path} does not exist")
    found = content if isinstance(content, list) else [content]
    if not found or not all(isinstance(d, dict) for d in found):
        fail(f"{path} contains no result; pass a file that `mxspec check --json` wrote")
    return found


def _slug(document: dict[str, Any]) -> str:
    target = document.get("target")
    name = str(target.get("name", "target")) if isinstance(target, dict) else "target"
    return re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-") or "target"
