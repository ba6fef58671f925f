"""From what a user names to a session with it."""

from __future__ import annotations

import os
from typing import Any

from mxspec_conformance.targets.capabilities import LIBRARY_SUFFIXES
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_conformance.transports.child import SubprocessSession
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_conformance.transports.loading import load_target
from mxspec_conformance.transports.process import ProcessTarget
from mxspec_conformance.transports.recorded import ResultsFile

#: What a spec starts with that is a command line, and what names of results files end in.
COMMAND = "cmd:"
RESULTS_SUFFIXES = (".json", ".jsonl")


def open_target(target: Any, *, in_process: bool = False, timeout: float = 60.0) -> TargetSession:
    """An session for a target: a spec string or a path (run in a child unless `in_process`), or an object (run here).

    An session is taken as it is.
    A spec that starts with `cmd:` is a program, one that ends in `.json` or `.jsonl` a results file; these run nothing in
    this process.

    Raises TargetError where it does not load.
    """
    if isinstance(target, TargetSession):
        return target
    if isinstance(target, os.PathLike):
        target = os.fspath(target)
    if isinstance(target, str):
        if target.startswith(COMMAND):
            return ProcessTarget(target.removeprefix(COMMAND), timeout=timeout)
        if target.endswith(RESULTS_SUFFIXES):
            return ResultsFile(target)
        if target.endswith(LIBRARY_SUFFIXES):
            if in_process:
                return InProcessSession(load_target(target), target, transport="library")
            return SubprocessSession(target, timeout=timeout, transport="library-child")
        if in_process:
            return InProcessSession(load_target(target), target)
        return SubprocessSession(target, timeout=timeout)
    return InProcessSession(target, str(getattr(target, "NAME", type(target).__name__)))
