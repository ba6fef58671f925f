"""The explorer: a page on which a block is quantized by any profile, and the program by which its arithmetic is judged."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from mxspec_conformance.atlas.javascript import write_javascript
from mxspec_vectors.files import write_file

if TYPE_CHECKING:
    import jinja2

#: The page and the script that it loads.
PAGE_NAME, SCRIPT_NAME = "explorer.html", "explorer.js"
_FOLDER = Path(__file__).parent
_PAGE, _TARGET = _FOLDER / "explorer_page.js", _FOLDER / "explorer_target.js"


@lru_cache(maxsize=1)
def write_explorer_script() -> bytes:
    """The script of the page: the profiles' arithmetic as it is judged, and what the page does with it."""
    return (write_javascript().text + _PAGE.read_text("utf-8")).encode("ascii")


def write_target(folder: Path) -> Path:
    """Write the judged program into a folder that exists: `target.js`, and the arithmetic next to it. Returns its path.

    The arithmetic is byte for byte the beginning of the page's script.
    """
    write_file(folder / "mxspec.js", write_javascript().text.encode("ascii"))
    write_file(folder / "target.js", _TARGET.read_text("utf-8").encode("ascii"))
    return folder / "target.js"


def target_command(program: Path, *profiles: str, node: str = "node") -> str:
    """The name of the program as a target: `cmd:node target.js --profile ...`."""
    words = [node, str(program)]
    for profile in profiles:
        words += ["--profile", profile]
    return f"cmd:{shlex.join(words)}"


def link_block(fmt: str, profile: str, other: str, lanes: Sequence[int], tensor_amax: int | None) -> str | None:
    """The address of the explorer's page that shows a block under two profiles; None where it does not have them.

    lanes: float32 bits of the first lanes. tensor_amax: float32 bits of the tensor's largest magnitude; None: no tensor scale.
    """
    known = write_javascript().profiles
    if (profile, fmt) not in known or (other, fmt) not in known:
        return None
    given = {"f": fmt, "p": profile, "q": other, "x": " ".join(f"0x{bits:08X}" for bits in lanes)}
    if tensor_amax is not None:
        given |= {"t": "amax", "v": f"0x{tensor_amax:08X}"}
    elif fmt == "nvfp4":
        given["t"] = "none"
    return f"{PAGE_NAME}#{urlencode(given)}"


def describe_explorer(verdict: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the template `explorer.html.j2` is given.

    verdict: the document of reports/atlas/explorer.json; None: the arithmetic was not judged, and the page says so.
    """
    script = write_javascript()
    judged = () if verdict is None else verdict["judged"]
    return {
        "verdict": verdict, "script": SCRIPT_NAME, "profiles": len(script.profiles), "left_out": script.left_out,
        "verdicts": {f"{r['profile']} {r['format']}": {"text": r["conclusion"], "ok": not r.get("failed")} for r in judged},
    }  # fmt: skip


def render_explorer(environment: jinja2.Environment, verdict: Mapping[str, Any] | None) -> bytes:
    """The page by itself, without the site's navigation; environment: has the templates of this package."""
    text = environment.get_template("explorer.html.j2").render(title="Explorer", base="explorer_base.html.j2", **describe_explorer(verdict))
    return text.strip().encode("utf-8") + b"\n"
