"""A pytest plugin: each requirement a test of a third party's own test run, waivers as strict xfail.

    pytest --mxspec-target path/to/target.py [--mxspec-waivers waivers.toml] [--mxspec-json result.json]

The judge runs once, when tests are collected (with pytest-xdist: in the controlling process); the tests report what it found.
Nothing of the judge is imported where the option is not given.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mxspec_conformance.results.report import Report, Requirement

#: What the ids of these tests start with.
PREFIX = "mxspec"

_RESULTS = pytest.StashKey["list[dict[str, Any]]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options; each but `--mxspec-json` has an ini key of the same name."""
    group = parser.getgroup("mxspec", "judge implementations of microscaling formats")
    group.addoption("--mxspec-target", action="append", metavar="TARGET", help="Judge this target; repeatable.")
    group.addoption("--mxspec-profile", metavar="PROFILE", help="Judge against this profile.")
    group.addoption("--mxspec-format", action="append", metavar="FORMAT", help="Only this block format; repeatable.")
    group.addoption("--mxspec-waivers", metavar="FILE", help="TOML file of known failures.")
    group.addoption("--mxspec-json", metavar="FILE", help="Write the result, as `mxspec check --json` does.")
    group.addoption("--mxspec-timeout", type=float, default=60.0, metavar="SECONDS", help="What one call may take.")
    parser.addini("mxspec_target", "targets to judge, one a line", type="linelist")
    parser.addini("mxspec_profile", "profile to judge against")
    parser.addini("mxspec_waivers", "TOML file of known failures")


class MxspecFailure(Exception):
    """A requirement that is not met; the text is the drawn case."""


class MxspecItem(pytest.Item):
    """One requirement of one target."""

    def __init__(self, *, requirement: Requirement, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.requirement = requirement
        self.user_properties.append(("mxspec_verdict", requirement.verdict.value))
        self.user_properties.append(("mxspec_level", requirement.level))

    def runtest(self) -> None:
        """Raise what the judge found."""
        from mxspec_conformance.render.terminal import failure_text
        from mxspec_conformance.results.report import Verdict

        r = self.requirement
        if r.verdict is Verdict.UNSUPPORTED:
            pytest.skip(r.note or "the target does not offer it")
        if r.verdict is Verdict.OPEN:
            pytest.skip(f"open: {r.note or r.text}")
        if r.verdict not in (Verdict.PASS, Verdict.STALE_WAIVER):
            words = f"{r.verdict}: {r.failing} of {r.cases} cases" + (f", {r.note}" if r.note else "")
            raise MxspecFailure(f"{words}\n\n{failure_text(r)}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The drawn case instead of a traceback."""
        if isinstance(excinfo.value, MxspecFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it is said to be: the target's file."""
        return self.path, None, self.name


class WaiverItem(pytest.Item):
    """A waiver that is stale in a way that no requirement shows."""

    def __init__(self, *, state: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.state = state

    def runtest(self) -> None:
        """Fail, always."""
        raise MxspecFailure(f"stale waiver: {self.state}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The reason alone."""
        if isinstance(excinfo.value, MxspecFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it is said to be."""
        return self.path, None, self.name


class MxspecCollector(pytest.Collector):
    """The requirements of one target."""

    def __init__(self, *, document: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._document = document

    def collect(self) -> Iterator[pytest.Item]:
        """A test for each requirement, and one for each waiver that matches nothing or has ended."""
        from mxspec_conformance.results.report import STALE_STATES, Verdict, WaiverState, read_report

        report = read_report(self._document)
        for r in report.requirements:
            item = MxspecItem.from_parent(self, name=r.id, requirement=r)
            if r.verdict in (Verdict.WAIVED, Verdict.STALE_WAIVER):
                item.add_marker(pytest.mark.xfail(reason=_reason(report, r), strict=True, raises=MxspecFailure))
            yield item
        for waiver in report.waivers:
            # One that covers what passes is a strict xfail that passes: its requirement's own test fails.
            if waiver["state"] in STALE_STATES and waiver["state"] != WaiverState.NOT_NEEDED:
                yield WaiverItem.from_parent(self, name=f"waiver {waiver['id']}", state=waiver["state"])


def _reason(report: Report, requirement: Requirement) -> str:
    for waiver in report.waivers:
        if requirement.id in waiver["requirements"]:
            return f"{waiver['reason']} ({waiver['link']}, until {waiver['expires']})"
    return "waived"


def _option(config: pytest.Config, name: str) -> Any:
    return config.getoption(f"mxspec_{name}") or config.getini(f"mxspec_{name}") or None


def _judge(config: pytest.Config) -> list[dict[str, Any]]:
    """The results of the targets that the options name: judged here, or handed over by the controlling process."""
    if _RESULTS in config.stash:
        return config.stash[_RESULTS]
    handed = getattr(config, "workerinput", {}).get("mxspec_results")
    if handed is not None:
        config.stash[_RESULTS] = json.loads(handed)
        return config.stash[_RESULTS]
    from datetime import UTC, datetime

    from mxspec_conformance.judge.check import check
    from mxspec_conformance.results.waivers import apply_waivers, read_waivers
    from mxspec_conformance.targets.errors import TargetError

    found = []
    try:
        path = _option(config, "waivers")
        waivers = [] if path is None else read_waivers(config.rootpath / path)
        for target in _option(config, "target") or ():
            report = check(
                target,
                profile=_option(config, "profile"),
                formats=config.getoption("mxspec_format"),
                timeout=config.getoption("mxspec_timeout"),
            )
            if path is not None:
                apply_waivers(report, waivers, today=datetime.now(UTC).date())
            found.append(report.as_dict())
    except (TargetError, ValueError) as error:
        raise pytest.UsageError(f"mxspec: {error}") from error
    config.stash[_RESULTS] = found
    return found


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Of pytest-xdist: hand the results to a worker, which would judge again otherwise."""
    if _option(node.config, "target"):
        node.workerinput["mxspec_results"] = json.dumps(_judge(node.config))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the requirements to the tests that were collected; before `-k` and `-m` choose."""
    if not _option(config, "target"):
        return
    documents = _judge(config)
    names = [d["target"]["name"] for d in documents]
    for document, name in zip(documents, names, strict=True):
        title = name if names.count(name) == 1 else f"{name} {document['target']['version']}"
        parent = MxspecCollector.from_parent(session, name=title, nodeid=f"{PREFIX}::{title}", document=document)
        items.extend(parent.collect())


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the result."""
    path = session.config.getoption("mxspec_json")
    if path and not hasattr(session.config, "workerinput") and _RESULTS in session.config.stash:
        from mxspec_vectors.files import write_file

        documents = session.config.stash[_RESULTS]
        text = json.dumps(documents[0] if len(documents) == 1 else documents, indent=1) + "\n"
        write_file(Path(path), text.encode("ascii"))


def pytest_report_header(config: pytest.Config) -> list[str]:
    """What is judged, and by which version."""
    targets = _option(config, "target")
    if not targets:
        return []
    import mxspec

    return [f"mxspec: {mxspec.__version__}, target {', '.join(targets)}"]


def pytest_assertrepr_compare(config: pytest.Config, op: str, left: object, right: object) -> list[str] | None:
    """What differs between two BlockTensors, block by block."""
    if op != "==" or type(left).__name__ != "BlockTensor" or type(right).__name__ != "BlockTensor":
        return None
    from mxspec_conformance.testing.tensor_diff import explain_difference

    return explain_difference(left, right)
