"""The judge of third-party kernels for OCP MX and NVFP4.

>>> from mxspec_conformance import check
>>> report = check("my_kernel.py")      # doctest: +SKIP
>>> report.exit_code, report.counts     # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mxspec_conformance.fuzzing.run import fuzz
    from mxspec_conformance.fuzzing.subject import Campaign, Settings
    from mxspec_conformance.identification.diff import FormatDiff, TargetDiff, diff
    from mxspec_conformance.identification.target import Identity, identify
    from mxspec_conformance.judge.check import check
    from mxspec_conformance.results.report import FormatResult, Report, Requirement, Verdict
    from mxspec_conformance.targets.capabilities import Capabilities
    from mxspec_conformance.targets.errors import CallError, TargetError
    from mxspec_conformance.targets.sessions import TargetSession
    from mxspec_conformance.transports.opening import open_target

#: Public name -> the module that holds it, imported when the name is first used.
_HOMES = {
    "CallError": "targets.errors",
    "Campaign": "fuzzing.subject",
    "Capabilities": "targets.capabilities",
    "FormatDiff": "identification.diff",
    "FormatResult": "results.report",
    "Identity": "identification.target",
    "Report": "results.report",
    "Requirement": "results.report",
    "Settings": "fuzzing.subject",
    "TargetDiff": "identification.diff",
    "TargetError": "targets.errors",
    "TargetSession": "targets.sessions",
    "Verdict": "results.report",
    "check": "judge.check",
    "diff": "identification.diff",
    "fuzz": "fuzzing.run",
    "identify": "identification.target",
    "open_target": "transports.opening",
}

__all__ = [
    "CallError",
    "Campaign",
    "Capabilities",
    "FormatDiff",
    "FormatResult",
    "Identity",
    "Report",
    "Requirement",
    "Settings",
    "TargetDiff",
    "TargetError",
    "TargetSession",
    "Verdict",
    "check",
    "diff",
    "fuzz",
    "identify",
    "open_target",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
