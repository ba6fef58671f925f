"""The kinds of tests: a function, a pytest file, a program, a named rule; each is run on one implementation."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mxspec_conformance.scoring.implementation import FUNCTIONS, Implementation
from mxspec_conformance.scoring.outcomes import Outcome, Verdict
from mxspec_conformance.scoring.products.implementation import ProductImplementation
from mxspec_conformance.scoring.products.rules import PRODUCT_RULES, find_rule, run_product_rule
from mxspec_conformance.scoring.products.subjects import is_product
from mxspec_conformance.scoring.rules import RULES, run_rule
from mxspec_conformance.scoring.subjects import Kind, Subject
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.targets.sessions import message_of
from mxspec_conformance.targets.texts import MESSAGE

#: Runs a test on one implementation.
Ask = Callable[[Subject, str], Outcome]

RULE, PROGRAM, FUNCTION_MARK = "rule:", "cmd:", "::"
#: Exit code by which a program says that it cannot run here; the convention of automake.
SKIP_CODE = 77
#: Argument names under which a function takes the whole implementation, or its format.
NO_CALL = (
    "no implementation was called: request the fixture (mxspec supplies quantize, dequantize, matmul or impl; one of your own hides it)"
)
_WHOLE, _FORMAT = ("impl", "implementation", "target"), ("fmt", "format")


def load_test(spec: str, replace: Sequence[str] = ()) -> Ask:
    """The test that a text names.

    `rule:NAME`; `cmd:PROGRAM ...`; `FILE.py::FUNCTION` or `MODULE::FUNCTION`, where the function takes `quantize`, `dequantize`, `tensor_scale`,
    `matmul`, or the whole `impl`; any other file, folder or node id: pytest's, with fixtures of these names.
    replace: for pytest, `MODULE.ATTRIBUTE=FUNCTION` or `MODULE.ATTRIBUTE=FILE.py::MAKER`: what takes the place of the function under test;
    a maker is given the implementation.
    Raises TargetError, saying what to do.
    """
    if spec.startswith(RULE):
        name = spec.removeprefix(RULE)
        if name not in RULES and not _is_product_rule(name):
            raise TargetError(
                f"no rule is named {name!r}; known are {', '.join(RULES)}, and of products {', '.join(r.id for r in PRODUCT_RULES)}"
            )
        return lambda subject, profile: _ask_rule(name, subject, profile)
    if spec.startswith(PROGRAM):
        words = shlex.split(spec.removeprefix(PROGRAM), posix=os.name != "nt")
        if not words:
            raise TargetError("cmd: names no program; write cmd:./my_test {implementation}")
        return lambda subject, _: _ask_program(words, subject)
    place, mark, function = spec.partition(FUNCTION_MARK)
    found = getattr(_load_module(place), function, None) if mark and not function.startswith("Test") and not replace else None
    if mark and callable(found) and _is_plain(found):
        return lambda subject, _: _ask_function(found, subject)
    if not Path(place).exists():
        raise TargetError(f"{place} does not exist; a test is FILE.py::FUNCTION, a pytest file, cmd:PROGRAM or rule:NAME")
    _import_pytest()
    _import_replaced(replace)
    return lambda subject, _: _ask_pytest(spec, subject, replace)


def _is_product_rule(name: str) -> bool:
    try:
        find_rule(name)
    except TargetError:
        return False
    return True


def _ask_rule(name: str, subject: Subject, profile: str) -> Outcome:
    if is_product(subject.format):
        return run_product_rule(find_rule(name), subject)
    if name not in RULES:
        raise TargetError(f"no rule is named {name!r}; known are {', '.join(RULES)}")
    return run_rule(RULES[name], subject, profile)


def _implement(subject: Subject) -> Implementation | ProductImplementation:
    """A subject as a test sees it."""
    if is_product(subject.format):
        return ProductImplementation(subject.build(), subject.format)
    return Implementation(subject.build(), subject.format)


def _is_plain(function: Callable[..., Any]) -> bool:
    """Whether a function can be called here: what pytest parametrizes, or gives other fixtures, is pytest's."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    known = {*FUNCTIONS, *ProductImplementation.functions, *_WHOLE, *_FORMAT}
    return not getattr(function, "pytestmark", None) and all(p.name in known or p.default is not p.empty for p in parameters)


def _load_module(place: str) -> Any:
    path = Path(place)
    if not place.endswith(".py"):
        try:
            return importlib.import_module(place)
        except ImportError:
            return None
    if not path.is_file():
        raise TargetError(f"{place}: no such file; write FILE.py::FUNCTION")
    name = f"mxspec_scored_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.append(str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise TargetError(f"{place} does not import: {message_of(error, MESSAGE)}") from error
    return module


def _arguments(implementation: Implementation | ProductImplementation) -> dict[str, Any]:
    whole: dict[str, Any] = dict.fromkeys(_WHOLE, implementation)
    functions = implementation.functions if isinstance(implementation, ProductImplementation) else FUNCTIONS
    return whole | dict.fromkeys(_FORMAT, implementation.fmt) | {name: getattr(implementation, name) for name in functions}


def _ask_function(function: Callable[..., Any], subject: Subject) -> Outcome:
    implementation = _implement(subject)
    given = _arguments(implementation)
    wanted = {name: given[name] for name in inspect.signature(function).parameters if name in given}
    try:
        answer = function(**wanted)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if type(error).__name__ == "Skipped" and type(error).__module__ == "_pytest.outcomes":
            return Outcome(Verdict.SKIPPED, str(error))
        return Outcome(Verdict.REJECTS, message_of(error, MESSAGE), tuple(implementation.calls))
    calls = tuple(implementation.calls)
    if answer is False:
        return Outcome(Verdict.REJECTS, "returned False", calls)
    return Outcome(Verdict.ACCEPTS, "", calls) if calls else Outcome(Verdict.SKIPPED, NO_CALL)


# pytest.


_OPTIONS = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:mxspec", "-p", "no:xdist")


class _Fixtures:
    """The plugin of a run: fixtures, and the outcomes of the tests."""

    def __init__(self, implementation: Implementation | ProductImplementation) -> None:
        self._implementation = implementation
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}
        self.first = ""

    def pytest_collection_modifyitems(self, session: Any) -> None:
        """Enter the fixtures: those of a file or a conftest of these names come before ours."""

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Count."""
        if report.failed or (report.when == "call" and report.passed) or report.skipped:
            self.counts[report.outcome] += 1
        if report.failed and not self.first:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.first = f"{report.nodeid}: {crash.message if crash else report.longrepr}"[:MESSAGE]

    def pytest_collectreport(self, report: Any) -> None:
        """A file that does not import."""
        if report.failed and not self.first:
            self.first = str(report.longrepr)[-MESSAGE:]


def _fixtures_of(implementation: Implementation | ProductImplementation) -> Any:
    """A plugin class with a fixture for each name; defined late, as mxspec does not require pytest."""
    import pytest

    namespace: dict[str, Any] = {}
    for name, value in _arguments(implementation).items():

        def give(self: Any, value: Any = value) -> Any:
            return value

        give.__name__ = name
        give.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        )
        namespace[name] = pytest.fixture(name=name)(give)
    return type("MxspecFixtures", (_Fixtures,), namespace)(implementation)


def _ask_pytest(spec: str, subject: Subject, replace: Sequence[str]) -> Outcome:
    try:
        import pytest
    except ImportError:
        return Outcome(Verdict.BROKEN, "pytest is not installed here; `pip install pytest`, or name a function: FILE.py::FUNCTION")
    implementation = _implement(subject)
    for entry in replace:
        _replace(entry, implementation)
    plugin = _fixtures_of(implementation)
    code = int(pytest.main([*_OPTIONS, spec], plugins=[plugin]))
    calls = tuple(implementation.calls)
    if plugin.counts["failed"]:
        return Outcome(Verdict.REJECTS, plugin.first, calls)
    if code == 0 and plugin.counts["passed"]:
        return Outcome(Verdict.ACCEPTS if calls else Verdict.SKIPPED, "" if calls else NO_CALL, calls)
    if code in (0, 5):
        return Outcome(Verdict.SKIPPED, "every test was skipped" if plugin.counts["skipped"] else "no test was found", calls)
    return Outcome(Verdict.BROKEN, plugin.first or f"pytest ended with exit code {code}", calls)


def _import_pytest() -> None:
    """Let pytest import itself and all its plugins, in a folder without tests, once, and not again for each implementation."""
    with suppress(ImportError), tempfile.TemporaryDirectory() as folder:  # `_ask_pytest` says so
        import pytest

        Path(folder, "pytest.ini").write_text("[pytest]\n", "ascii")
        pytest.main([*_OPTIONS, "--noconftest", folder])


def _import_replaced(replace: Sequence[str]) -> None:
    """Import what is replaced, and its makers, once, and not again for each implementation: frameworks are slow to import."""
    for entry in replace:
        place, _, by = entry.partition("=")
        file, mark, _ = by.partition(FUNCTION_MARK)
        with suppress(ImportError):  # `_replace` says so
            importlib.import_module(place.rpartition(".")[0])
        if mark:
            _load_module(file)


def _replace(entry: str, implementation: Implementation | ProductImplementation) -> None:
    """Put the implementation, or what a maker makes of it, in the place of the function under test."""
    place, _, by = entry.partition("=")
    module_name, _, attribute = place.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise TargetError(f"--replace {entry}: {module_name} does not import: {error}") from error
    if not hasattr(module, attribute):
        raise TargetError(f"--replace {entry}: {module_name} has no {attribute}")
    if by in _arguments(implementation):
        made = getattr(implementation, by)
    else:
        file, _, maker = by.partition(FUNCTION_MARK)
        function = getattr(_load_module(file), maker, None)
        if function is None:
            raise TargetError(
                f"--replace {entry}: {by} is neither {', '.join((*FUNCTIONS, *ProductImplementation.functions))} nor FILE.py::MAKER"
            )
        made = function(implementation)
    setattr(module, attribute, made)


# Programs.


def _ask_program(words: Sequence[str], subject: Subject) -> Outcome:
    """Run a program; `{implementation}` stands for a command that quantizes: `scoring/command.py`."""
    command = [sys.executable, "-m", "mxspec_conformance.scoring.command", subject.name]
    filled = [shlex.join(command) if w == "{implementation}" else w.replace("{format}", subject.format) for w in words]
    environment = os.environ | {"MXSPEC_IMPLEMENTATION": shlex.join(command), "MXSPEC_FORMAT": subject.format}
    try:
        done = subprocess.run(filled, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        return Outcome(Verdict.BROKEN, f"{filled[0]} cannot be run: {error.strerror}")
    said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()[-MESSAGE:]
    calls = ProductImplementation.functions if is_product(subject.format) else ("quantize", "dequantize")
    if done.returncode == 0:
        return Outcome(Verdict.ACCEPTS, "", calls)
    if done.returncode == SKIP_CODE:
        return Outcome(Verdict.SKIPPED, said, calls)
    return Outcome(Verdict.REJECTS, said or f"exit code {done.returncode}", calls)


def is_right(subject: Subject) -> bool:
    """Whether a test that rejects this subject rejects something right."""
    return subject.kind in (Kind.CONTROL, Kind.RIGHT)
