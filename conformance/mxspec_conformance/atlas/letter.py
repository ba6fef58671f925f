"""A finding as a report to send, with the commands that install what shows it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from mxspec_conformance.adapters.registry import known_adapters
from mxspec_conformance.atlas.entries import Entry
from mxspec_conformance.atlas.findings import Seen, Shown

#: How mxspec is installed: its name alone would ask a registry, where anybody could take it.
INSTALL = 'pip install "mxspec @ git+URL_OF_THIS_REPOSITORY"'


def write_letter(shown: Shown) -> str:
    """A report that can be sent to the implementation's maintainers as it is."""
    finding, first = shown.finding, shown.requirement.first
    lines = [
        f"{finding.title}", "", finding.text, "", f"What a user sees: {finding.effect}", "",
        f"Seen in {finding.target} {', '.join(v for v, seen in shown.versions if seen is Seen.SAME)}"
        + "".join(f"; {seen.value} in {v}" for v, seen in shown.versions if seen is not Seen.SAME)
        + f", {shown.entry.device}, {shown.entry.date}.",
    ]  # fmt: skip
    if first is not None:
        lines += ["", f"Smallest input found ({first.case}):"]
        lines += [f"  {key}: {_as_text(value)}" for key, value in first.given.items()]
        lines += [f"  expected {key}: {_as_text(value)}" for key, value in first.expected.items()]
        lines += [f"  returned {key}: {_as_text(value)}" for key, value in first.returned.items()]
        lines += [f"  {step}" for step in first.steps]
    lines += ["", "Reproduce:", *(f"  {line}" for line in list_setup(shown.entry)), f"  {shown.command}"]
    if first is not None and first.snippet:
        lines += ["", "To reproduce in Python:", *(f"  {line}" for line in first.snippet.splitlines())]
    return "\n".join(lines)


def list_setup(entry: Entry) -> Iterator[str]:
    """The commands that install what a target needs, in the versions of its result; of a target that neither an adapter
    nor an example has, mxspec alone."""
    adapter = known_adapters().get(entry.name)
    if adapter is None:
        used = entry.report.environment.get("libraries", {}) if entry.file else {}
        yield " ".join([INSTALL, *(f"{name}=={version.partition('+')[0]}" for name, version in used.items())])
        return
    library, used = adapter.library, entry.report.environment.get("libraries", {})
    commit = entry.version.partition("+git")[2]
    later = commit and any(commit in package for package in adapter.later)
    packages = [_pin(package, used) for package in (adapter.later if later else library.packages)]
    if not packages and library.imports in used:  # of a library that no environment is made for, what the result was made with
        packages = [f"{library.imports}=={used[library.imports].partition('+')[0]}"]
    yield " ".join([INSTALL, *packages])
    if library.bare_packages:
        yield " ".join(["pip install --no-deps", *library.bare_packages])
    if library.source is not None:
        yield f"export {library.source.variable}=...  # {library.source.what}"


def _pin(package: str, used: Mapping[str, str]) -> str:
    """A requirement in the version that was used, where the result says which: a GPU's libraries are others."""
    name, pinned, _ = package.partition("==")
    version = used.get(name, "").partition("+")[0]
    return f"{name}=={version}" if pinned and version else shlex.quote(package)


def _as_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} = {_as_text(v)}" for k, v in value.items())
    return value if isinstance(value, str) else json.dumps(value)
