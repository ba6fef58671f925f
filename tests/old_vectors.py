"""Do today's vectors say what those of an older commit said, and under which digests does older evidence stand now?

    python tests/old_vectors.py 1b7a1c2 --json reports/vectors/content-1b7a1c2.json

Holds every case of the older commit to today's: id, question, topic, flags, and the answer of each profile; then the
content digests of every file, for all profiles together and for each alone. Exit code 1 where anything differs. The JSON
maps the SHA-256 of each older file, and the digests of all of them, to content digests: a report that names the older ones
may be given the newer ones instead, without being run again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mxspec_vectors.cases import open_document
from mxspec_vectors.compact import expand
from mxspec_vectors.digests import content_digest, digest_document
from mxspec_vectors.document import Document, asked, canonical_json
from mxspec_vectors.files import NUMERIC_OPERATIONS, OPERATIONS, total_digest

ROOT = Path(__file__).resolve().parents[1]
V1 = "vectors/mxspec_vectors/v1"


def read_old(commit: str, name: str) -> bytes:
    """A file of a commit."""
    return subprocess.run(["git", "show", f"{commit}:{V1}/{name}"], cwd=ROOT, capture_output=True, check=True).stdout


def open_old(data: bytes, today: Document) -> Document:
    """An older file's content.

    In the first layout of files, entries name profiles by their place in a list, and no case says whose boundaries it holds:
    that is taken from the case of the same id today.
    """
    stored: dict[str, Any] = json.loads(data)
    if "cases" not in stored:
        return expand(stored)
    names = stored.get("profiles", [])
    for entry in [*stored.get("digests", []), *(e for case in stored["cases"] for e in case["expect"])]:
        if "profiles" in entry:
            entry["profiles"] = [names[i] for i in entry["profiles"]]
    of = {case["id"]: case["of"] for case in today["cases"] if "of" in case}
    for case in stored["cases"]:
        if case["id"] in of:
            case["of"] = of[case["id"]]
    return stored


def by_name(case: Mapping[str, Any]) -> dict[str, str]:
    """The answers of a case as text, by the profiles or roundings that give them."""
    found = {}
    for entry in case["expect"]:
        answer = canonical_json({k: v for k, v in entry.items() if k not in ("profiles", "roundings")})
        found |= dict.fromkeys(entry.get("profiles", entry.get("roundings", [""])), answer)
    return found


def find_differences(old: Document, today: Document) -> Iterator[str]:
    """What an older document says and today's does not."""
    cases = {case["id"]: case for case in today["cases"]}
    for case in old["cases"]:
        other = cases.get(case["id"])
        if other is None:
            yield f"{case['id']} is lost"
        elif (asked(case), case["topic"], case["flags"]) != (asked(other), other["topic"], other["flags"]):
            yield f"{case['id']} asks something else"
        elif by_name(case).items() - by_name(other).items():
            yield f"{case['id']} has another answer"
    names = old.get("profiles", [])
    if len(old["cases"]) == len(today["cases"]):
        if digest_document(old) != digest_document(today, names or None):
            yield "the content digest differs"
        yield from (f"{n}: the digest differs" for n in names if digest_document(old, [n]) != digest_document(today, [n]))


def main() -> int:
    """Compare, and write the map; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    index = json.loads(read_old(given.commit, "index.json"))
    files: dict[str, Any] = {}
    problems = cases = 0
    for name, entry in index["files"].items():
        operation, _, fmt = name.removesuffix(".json").partition("/")
        data, today = read_old(given.commit, name), open_document(operation, fmt)
        assert hashlib.sha256(data).hexdigest() == entry["sha256"]
        old = open_old(data, today)
        found = list(find_differences(old, today))
        problems += len(found)
        cases += len(old["cases"])
        print("".join(f"{name}: {line}\n" for line in found), end="")
        profiles = old.get("profiles")
        files[name] = {"sha256": entry["sha256"], "content": content_digest(operation, fmt, profiles)}
        if profiles is not None:
            files[name]["profiles"] = profiles
    groups = {"all": OPERATIONS, "numeric": NUMERIC_OPERATIONS}
    digests = {
        group: total_digest({n: e for n, e in index["files"].items() if n.partition("/")[0] in operations})
        for group, operations in groups.items()
    }
    print(f"{cases} cases in {len(files)} files of {given.commit}: {problems} differences")
    if given.json and not problems:
        document = {"schema": "mxspec-vectors/v1/content", "commit": given.commit, "vectors": digests, "files": files}
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(document, indent=1) + "\n", encoding="ascii")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
