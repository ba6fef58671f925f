"""Separate every pair of profiles of every format and write reports/identify/pairs.json.

Run: python tests/identify_pairs.py [FORMAT...]
"""

from __future__ import annotations

import json
import re
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import mxspec
from mxspec_conformance.identification.distinguish import distinguish, explain_sameness, list_forms
from mxspec_conformance.identification.tables import tabulate
from mxspec_conformance.results.environment import describe_environment
from mxspec_vectors.files import NUMERIC_OPERATIONS, vector_digest, write_file

REPORT = Path(__file__).parents[1] / "reports" / "identify" / "pairs.json"


def separate_format(fmt: str) -> dict[str, Any]:
    """The separations of all pairs of profiles of a format, and the groups that are one function."""
    ids = [p.id for p in mxspec.list_profiles(fmt)]
    pairs: dict[str, Any] = {}
    for number, (a, b) in enumerate(combinations(ids, 2)):
        print(f"\r{fmt}: {number + 1} of {len(ids) * (len(ids) - 1) // 2} pairs", end="", file=sys.stderr, flush=True)
        found = distinguish(a, b, fmt)
        if found is None:
            pairs[f"{a} | {b}"] = {"why": explain_sameness(a, b, fmt)}
            continue
        tensor = {} if found.tensor_amax is None else {"tensor_amax": f"{found.tensor_amax:08x}"}
        pairs[f"{a} | {b}"] = {"lanes": [f"{x:08x}" for x in found.lanes], **tensor}
    print(file=sys.stderr)
    return {"profiles": ids, "pairs": pairs, "one_function": group_functions(fmt)}


def group_functions(fmt: str) -> list[dict[str, Any]]:
    """Profiles that are provably one function, for each dtype and form in which there are any."""
    found = []
    for dtype, step in (("float32", 1), ("bfloat16", 1 << 16)):
        for form in list_forms(mxspec.get_block(fmt)):
            groups: dict[str, list[str]] = {}
            for p in mxspec.list_profiles(fmt):
                table = tabulate(p.id, fmt, form)
                if table is not None:
                    groups.setdefault(table.digest(step), []).append(p.id)
            same = [g for g in groups.values() if len(g) > 1]
            if same:
                found.append({"dtype": dtype, "tensor_amax": None if form is None else f"{form:08x}", "groups": same})
    return found


def main() -> None:
    """All formats, or those named."""
    known = json.loads(REPORT.read_text("ascii"))["formats"] if REPORT.exists() else {}
    wanted = sys.argv[1:] or list(mxspec.BLOCKS)
    formats = {f: separate_format(f) if f in wanted else known[f] for f in mxspec.BLOCKS if f in wanted or f in known}
    document = {
        "command": "python tests/identify_pairs.py",
        "environment": describe_environment(),
        "vectors": vector_digest(operations=NUMERIC_OPERATIONS),
        "formats": formats,
    }
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    # A pair to a line.
    text = json.dumps(document, indent=1)
    text = re.sub(r'": \{\s+("lanes": \[[^]]*\]|"why": "[^"]*")(,\s+"tensor_amax": "[0-9a-f]*")?\s+\}', _on_one_line, text)
    write_file(REPORT, (text + "\n").encode("ascii"))


def _on_one_line(found: re.Match[str]) -> str:
    return re.sub(r"\s*\n\s*", " ", found[0]).replace("[ ", "[").replace(" ]", "]")


if __name__ == "__main__":
    main()
