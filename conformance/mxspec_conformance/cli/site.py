"""The command `site`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mxspec_conformance.cli.console import fail
from mxspec_conformance.cli.parameters import EXISTING_FOLDER, INPUT, OUTPUT_FOLDER, FileCommand, need_jinja2
from mxspec_vectors.writing import write_files

if TYPE_CHECKING:
    from mxspec_conformance.atlas.entries import Entry

#: The names of all files of a site, so that the next one removes pages that it has not.
MANIFEST = "pages.txt"


@click.command(cls=FileCommand)
@click.argument("results", nargs=-1, required=True, metavar="RESULTS...", type=INPUT)
@click.option(
    "-o",
    "--out",
    required=True,
    type=OUTPUT_FOLDER,
    callback=need_jinja2,
    help="Output folder; files of an earlier site in it are replaced.",
)
@click.option(
    "--docs", type=EXISTING_FOLDER, help="Folder of Markdown pages to render as documentation; findings are read from its JSON files."
)
def site(results: tuple[Path, ...], out: Path, docs: Path | None) -> None:
    """Build a static site from results.

    RESULTS are files, or folders of files, that `mxspec check --json` and the other commands of mxspec wrote. The site is
    read without a network and without a server: open OUT/index.html.
    """
    from mxspec_conformance.atlas.documents import read_documents
    from mxspec_conformance.atlas.reading import read_collection
    from mxspec_conformance.atlas.site import render_site

    for path in results:
        if not path.exists():
            fail(f"{path} does not exist; pass files that `mxspec check --json` wrote, or folders of them")
    collection = read_collection([*results, *([] if docs is None else [docs])])
    if not collection.entries:
        fail(f"no result of `mxspec check --json` among {', '.join(map(str, results))}{_describe_left(collection.left)}")
    files = render_site(collection, read_documents(docs) if docs is not None else ())
    earlier = _list_earlier(out)
    files[MANIFEST] = ("\n".join(sorted(files)) + "\n").encode("utf-8")
    strange = [name for name in files if name not in earlier and name != MANIFEST and (out / name).exists()]
    if strange:
        fail(f"{out / strange[0]} exists and is of no earlier site; name another folder, or move it away; nothing was written")
    changed = {out / name: content for name, content in files.items() if not _holds(out / name, content)}
    write_files(changed, sync=False)  # hundreds of files, which this command makes again
    for name in earlier - set(files):
        (out / name).unlink(missing_ok=True)
    old = sum(not entry.current for entry in collection.entries)
    size = sum(map(len, files.values())) / 1e6
    click.echo(
        _count(len(collection.entries), "implementation")
        + (f", {old} of them judged by older vectors" if old else "")
        + f", {_count(len(collection.findings), 'finding')}, {len(files)} files, {size:.1f} MB"
    )
    if collection.older:
        click.echo(
            f"{_count(len(collection.older), 'result')} of a name, version and device that a newer result has, left out: "
            f"{_list_sources(collection.older)}; give each implementation its own NAME or VERSION to show all"
        )
    # Last and on a line of its own: the next step must not be missed.
    click.echo(f"open {out / 'index.html'} in a browser: the matrix")


def _holds(path: Path, content: bytes) -> bool:
    """Whether a file has this content, so that it need not be written."""
    try:
        return path.is_file() and path.read_bytes() == content
    except OSError:
        return False


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _list_sources(entries: Sequence[Entry]) -> str:
    """Where results come from: a few of the files, and how many more there are."""
    files = list(dict.fromkeys(entry.source for entry in entries))
    return ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")


def _describe_left(left: list[tuple[str, str]]) -> str:
    """Why files were passed over, if there are any."""
    words = "; ".join(f"{path}: {why}" for path, why in left[:3])
    return f" ({words}{f'; and {len(left) - 3} more' if len(left) > 3 else ''})" if left else ""


def _list_earlier(out: Path) -> set[str]:
    """What an earlier site left in the folder: only names below it, which it wrote itself."""
    try:
        names = (out / MANIFEST).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return set()
    return {name for name in names if name and not Path(name).is_absolute() and ".." not in Path(name).parts}
