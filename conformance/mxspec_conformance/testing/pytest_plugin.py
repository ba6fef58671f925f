"""A pytest plugin: each requirement a test of a third party's own test run, waivers as strict xfail.

    pytest --mxspec-target path/to/target.py [--mxspec-waivers waivers.toml] [--mxspec-json result.json]

One more test, `judged`, fails where something that the target lists has no verdict, or no profile is named: skipped tests alone are
no pass. Tests are collected from what the target says of itself; none of its functions is called before the first of them runs, which
judges once for all. With pytest-xdist the controlling process judges, before it hands out the tests. Nothing of the judge is
imported where the option is not given.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mxspec_conformance.results.report import Report, Requirement
    from mxspec_conformance.results.waivers import Waiver

#: What the ids of these tests start with, and the name of a target's test for all of them together.
PREFIX, JUDGED = "mxspec", "judged"

#: The key by which the controlling process of pytest-xdist hands its results over.
_HANDED = "mxspec_results"
_RUNS = pytest.StashKey["list[Run]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options; each but `--mxspec-json` has an ini key of the same name."""
    group = parser.getgroup("mxspec", "judge implementations of microscaling formats")
    group.addoption("--mxspec-target", action="append", metavar="TARGET", help="Judge this target; repeatable.")
    group.addoption("--mxspec-profile", metavar="PROFILE", help="Judge against this profile; 'nearest': whichever is.")
    group.addoption("--mxspec-format", action="append", metavar="FORMAT", help="Only this block format; repeatable.")
    group.addoption("--mxspec-quick", action="store_true", help="Only the quick level's cases, as `mxspec check --quick`.")
    group.addoption("--mxspec-waivers", metavar="FILE", help="TOML file of known failures.")
    group.addoption("--mxspec-baseline", metavar="FILE", help="List of the ids that fail, as `mxspec check --write-baseline` writes it.")
    group.addoption("--mxspec-json", metavar="FILE", help="Write the result, as `mxspec check --json` does.")
    group.addoption("--mxspec-timeout", type=float, default=60.0, metavar="SECONDS", help="What one call may take.")
    parser.addini("mxspec_target", "targets to judge, one a line", type="linelist")
    parser.addini("mxspec_profile", "profile to judge against")
    parser.addini("mxspec_quick", "whether to use the quick level's cases alone", type="bool")
    parser.addini("mxspec_waivers", "TOML file of known failures")
    parser.addini("mxspec_baseline", "list of the ids that fail")


class MxspecFailure(Exception):
    """A requirement that is not met; the text is the drawn case."""


class Run:
    """One target: what it offers, and, once a test requested it, what the judge found."""

    def __init__(self, spec: str, config: pytest.Config, waivers: Sequence[Waiver] | None, listed: Mapping[str, str] | None) -> None:
        profile = _option(config, "profile")
        self._spec = spec
        self._waivers = waivers
        self._listed = listed
        self._list_file = _option(config, "baseline")
        self._needs_profile = profile is None
        self._options: dict[str, Any] = {
            "profile": None if profile == "nearest" else profile,
            "formats": config.getoption("mxspec_format"),
            "timeout": config.getoption("mxspec_timeout"),
            "quick": bool(_option(config, "quick")),
        }
        self._report: Report | None = None
        self._error: str | None = None
        #: Name and version, as the target says; where it does not load, the name of its file.
        self.target: dict[str, Any] = {"name": Path(spec).name, "version": ""}
        #: Ids of the requirements to expect, in the order of the tests.
        self.planned: list[str] = []

    def describe(self) -> None:
        """Read what the target offers, unless it has been judged.

        Raises ValueError where it does not fit the options; one that does not load fails its test `judged`.
        """
        from mxspec_conformance.judge.listing import list_requirements
        from mxspec_conformance.targets.errors import TargetError
        from mxspec_conformance.transports.opening import open_target

        if self.is_judged or self._error is not None:
            return
        try:
            session = open_target(self._spec, timeout=self._options["timeout"])
            try:
                self.target = {"name": session.capabilities.name, "version": session.capabilities.version}
                self.planned = list_requirements(session, profile=self._options["profile"], formats=self._options["formats"])
            finally:
                session.close()
        except TargetError as error:
            self._error = str(error)

    def take(self, document: dict[str, Any]) -> None:
        """Take what `hand_over` gave in another process."""
        from mxspec_conformance.results.report import read_report

        self._error = document.get("error")
        if self._error is not None:
            return
        self._report = read_report(document)
        self.target = self._report.target
        self.planned = [r.id for r in self._report.requirements]

    def hand_over(self) -> dict[str, Any]:
        """The result as JSON, or the error of a target that does not load.

        Raises pytest.UsageError where the options do not fit the target.
        """
        try:
            return self.judge().as_dict()
        except MxspecFailure as error:
            if isinstance(error.__cause__, ValueError):
                raise pytest.UsageError(f"mxspec: {error}") from error
            return {"error": str(error)}

    @property
    def is_judged(self) -> bool:
        """Whether there is a result."""
        return self._report is not None

    def judge(self) -> Report:
        """The result; the first call judges.

        Raises MxspecFailure where the target could not be judged at all.
        """
        from mxspec_conformance.judge.check import check
        from mxspec_conformance.results.baseline import apply_list
        from mxspec_conformance.results.waivers import apply_waivers
        from mxspec_conformance.targets.errors import TargetError

        if self._error is not None:
            raise MxspecFailure(self._error)
        if self._report is None:
            try:
                self._report = check(self._spec, **self._options)
            except (TargetError, ValueError) as error:
                self._error = str(error)
                raise MxspecFailure(self._error) from error
            if self._waivers is not None:
                apply_waivers(self._report, self._waivers, today=_today())
            if self._listed is not None:
                apply_list(self._report, self._listed, partial=bool(self._options["formats"]), file=self._list_file)
        return self._report

    def list_not_judged(self) -> list[str]:
        """What the target lists and has no verdict, and whether a profile has to be named."""
        from mxspec_conformance.judge.wanted import list_not_judged

        report = self.judge()
        found = list(list_not_judged(report, self._options["formats"] or (), whole=True, nearest=self._needs_profile, options="--mxspec-"))
        return found or [f"{report.target['name']}: nothing could be judged"] * (report.exit_code == 2)

    def list_unplanned(self) -> list[Requirement]:
        """Requirements that are not met and were unknown when tests were collected."""
        report = self.judge()
        return [r for r in report.requirements if r.id not in self.planned and report.counts_as_wrong(r)]

    def find(self, identifier: str) -> Requirement | None:
        """A requirement by its id; None if nothing of the kind was judged."""
        return next((r for r in self.judge().requirements if r.id == identifier), None)

    def list_stale(self) -> list[str]:
        """Ids of waivers that are stale already: they have ended, or concern nothing that will be judged."""
        from fnmatch import fnmatchcase

        if self._error is not None:
            return []
        if self.is_judged:
            from mxspec_conformance.results.report import STALE_STATES, WaiverState

            states = {w["id"]: w["state"] for w in self.judge().waivers}
            return [i for i, s in states.items() if s in STALE_STATES and s != WaiverState.NOT_NEEDED]
        return [
            w.id
            for w in self._waivers or ()
            if w.concerns_version(self.target) and (_today() > w.expires or not any(fnmatchcase(i, w.id) for i in self.planned))
        ]


class _Quiet(pytest.Item):
    """A test whose failure is a text of ours, not a traceback."""

    def __init__(self, *, run: Run, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The text alone."""
        if isinstance(excinfo.value, MxspecFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it is said to be: the target's file."""
        return self.path, None, self.name


class MxspecItem(_Quiet):
    """One requirement of one target."""

    def runtest(self) -> None:
        """Raise what the judge found."""
        from mxspec_conformance.results.report import Verdict

        r = self.run.find(self.name)
        if r is None or r.verdict is Verdict.UNSUPPORTED:
            pytest.skip((r.note if r is not None else "") or "the target does not offer it, or no case applies")
        self.user_properties.append(("mxspec_verdict", r.verdict.value))
        self.user_properties.append(("mxspec_level", r.level))
        if r.verdict is Verdict.OPEN:
            pytest.skip(f"open: {r.note or r.text}")
        report = self.run.judge()
        if r.verdict in (Verdict.WAIVED, Verdict.STALE_WAIVER) or report.is_known(r):
            self.add_marker(pytest.mark.xfail(reason=_reason(report, r), strict=True, raises=MxspecFailure))
        if r.verdict not in (Verdict.PASS, Verdict.STALE_WAIVER):
            raise MxspecFailure(_describe(report, r))


class JudgedItem(_Quiet):
    """Whether a target was judged at all: in all that it lists, by a profile that was named, and in nothing unforeseen that it fails."""

    def runtest(self) -> None:
        """Fail with what has no verdict, or has one that no test shows."""
        words = self.run.list_not_judged()
        report = self.run.judge()
        words += [f"{r.id} was not foreseen, and is not met\n{_describe(report, r)}" for r in self.run.list_unplanned()]
        if words:
            raise MxspecFailure("\n\n".join(words))


class WaiverItem(_Quiet):
    """A waiver that is stale in a way that no requirement shows."""

    def runtest(self) -> None:
        """Fail, unless the run showed that it is of use."""
        from mxspec_conformance.results.report import STALE_STATES

        state = next((w["state"] for w in self.run.judge().waivers if f"waiver {w['id']}" == self.name), None)
        if state in STALE_STATES:
            raise MxspecFailure(f"stale waiver: {state}")


class MxspecCollector(pytest.Collector):
    """The requirements of one target."""

    def __init__(self, *, run: Run, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._run = run

    def collect(self) -> Iterator[pytest.Item]:
        """A test for each requirement, one for all together, and one for each waiver that matches nothing or has ended."""
        for identifier in self._run.planned:
            yield MxspecItem.from_parent(self, name=identifier, run=self._run)
        yield JudgedItem.from_parent(self, name=JUDGED, run=self._run)
        for identifier in self._run.list_stale():
            yield WaiverItem.from_parent(self, name=f"waiver {identifier}", run=self._run)


def _today() -> Any:
    return datetime.now(timezone.utc).date()


def _describe(report: Report, requirement: Requirement) -> str:
    from mxspec_conformance.render.headline import describe_requirement
    from mxspec_conformance.render.terminal import failure_text

    return f"{describe_requirement(report, requirement)}\n\n{failure_text(requirement)}"


def _reason(report: Report, requirement: Requirement) -> str:
    for waiver in report.waivers:
        if requirement.id in waiver["requirements"]:
            return f"{waiver['reason']} ({waiver['link']}, until {waiver['expires']})"
    return "the baseline lists it" if report.is_known(requirement) else requirement.note


def _option(config: pytest.Config, name: str) -> Any:
    return config.getoption(f"mxspec_{name}") or config.getini(f"mxspec_{name}") or None


def _option_path(config: pytest.Config, name: str) -> Path | None:
    """A file of the command line, from the working directory, or of the ini file, from its folder."""
    given, found = config.getoption(f"mxspec_{name}"), config.getini(f"mxspec_{name}")
    return config.invocation_params.dir / given if given else _ini_folder(config) / found if found else None


def _ini_folder(config: pytest.Config) -> Path:
    return config.rootpath if config.inipath is None else config.inipath.parent


def _list_targets(config: pytest.Config) -> list[str]:
    """The targets to judge: those of the command line, or of the ini file unless files or tests were named for this run."""
    given: list[str] = config.getoption("mxspec_target") or []
    if given:
        return given
    folder = config.invocation_params.dir
    if hasattr(config, "workerinput"):  # of pytest-xdist: the controlling process has decided
        narrow = _HANDED not in config.workerinput
    else:
        narrow = config.args_source is config.ArgsSource.ARGS and all("::" in a or (folder / a).is_file() for a in config.args)
    found = [] if narrow else config.getini("mxspec_target")
    if not found:
        return []
    from mxspec_conformance.transports.opening import COMMAND, FILE_SUFFIXES

    return [str(_ini_folder(config) / spec) if spec.endswith(FILE_SUFFIXES) and not spec.startswith(COMMAND) else spec for spec in found]


def _open_runs(config: pytest.Config, *, describe: bool) -> list[Run]:
    """The targets that the options name, with the results of the controlling process if there is one.

    describe: whether to open those that are not judged yet, to see what they offer.
    """
    if _RUNS in config.stash:
        return config.stash[_RUNS]
    from mxspec_conformance.results.baseline import BaselineError, read_list
    from mxspec_conformance.results.waivers import read_waivers

    try:
        path = _option_path(config, "waivers")
        waivers = None if path is None else read_waivers(path)
        known = _option_path(config, "baseline")
        listed = None if known is None else read_list(known)
        targets = _list_targets(config)
        if known is not None and (listed is None or len(targets) > 1):
            raise BaselineError(
                f"{known} has to be a list of ids of one target, not {'JSON' if listed is None else f'{len(targets)} targets'}"
            )
        runs = [Run(target, config, waivers, listed) for target in targets]
        handed = getattr(config, "workerinput", {}).get(_HANDED)
        for run, document in zip(runs, json.loads(handed) if handed else (), strict=bool(handed)):
            run.take(document)
        if describe:
            for run in runs:
                run.describe()
    except ValueError as error:
        raise pytest.UsageError(f"mxspec: {error}") from error
    config.stash[_RUNS] = runs
    return runs


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Of pytest-xdist: judge once, and hand the results to each worker."""
    config = node.config
    if _list_targets(config):
        node.workerinput[_HANDED] = json.dumps([run.hand_over() for run in _open_runs(config, describe=False)])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the requirements to the tests that were collected; before `-k` and `-m` choose."""
    if not _list_targets(config):
        return
    runs = _open_runs(config, describe=True)
    names = [run.target["name"] for run in runs]
    for run, name in zip(runs, names, strict=True):
        title = name if names.count(name) == 1 else f"{name} {run.target['version']}"
        parent = MxspecCollector.from_parent(session, name=title, nodeid=f"{PREFIX}::{title}", run=run)
        # As pytest itself collects, so that they are counted as others are.
        report = config.hook.pytest_make_collect_report(collector=parent)
        config.hook.pytest_collectreport(report=report)
        items.extend(report.result)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the result, if a test requested it."""
    path = session.config.getoption("mxspec_json")
    runs = session.config.stash.get(_RUNS, [])
    if path and not hasattr(session.config, "workerinput") and any(run.is_judged for run in runs):
        from mxspec_vectors.files import write_file

        documents = [run.judge().as_dict() for run in runs if run.is_judged]
        text = json.dumps(documents[0] if len(documents) == 1 else documents, indent=1) + "\n"
        write_file(Path(path), text.encode("ascii"))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Warn of ids in a baseline that no requirement has."""
    for run in config.stash.get(_RUNS, []):
        if run.is_judged:
            from mxspec_conformance.results.baseline import list_unmatched

            for line in list_unmatched(run.judge()):
                terminalreporter.write_line(f"mxspec: {line}", yellow=True)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """What is judged, and by which version."""
    targets = _list_targets(config)
    if not targets:
        return []
    import mxspec

    return [f"mxspec: {mxspec.__version__}, target {', '.join(targets)}{', quick level' if _option(config, 'quick') else ''}"]


def pytest_assertrepr_compare(config: pytest.Config, op: str, left: object, right: object) -> list[str] | None:
    """What differs between two BlockTensors, block by block."""
    if op != "==" or type(left).__name__ != "BlockTensor" or type(right).__name__ != "BlockTensor":
        return None
    from mxspec_conformance.testing.tensor_diff import explain_difference

    return explain_difference(left, right)
