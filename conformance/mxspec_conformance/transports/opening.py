"""From what a user names to a session with it."""

from __future__ import annotations

import os
from typing import Any

from mxspec.formats import Extent, get_block
from mxspec_conformance.targets.capabilities import LIBRARY_SUFFIXES
from mxspec_conformance.targets.fitting import FittedSession
from mxspec_conformance.targets.randomness import RandomSession
from mxspec_conformance.targets.sessions import TOTAL_SECONDS, TargetSession
from mxspec_conformance.transports.child import SubprocessSession
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_conformance.transports.loading import load_target
from mxspec_conformance.transports.process import ProcessTarget
from mxspec_conformance.transports.recorded import ResultsFile

#: Seconds; the waits of operating systems end a little further on.
MAX_TIMEOUT = 1e7
#: What a spec starts with that is a command line, and what names of results files end in.
COMMAND = "cmd:"
RESULTS_SUFFIXES = (".json", ".jsonl")
#: What names of targets end in that are files.
FILE_SUFFIXES = (".py", *LIBRARY_SUFFIXES, *RESULTS_SUFFIXES)


def open_target(target: Any, *, in_process: bool = False, timeout: float = 60.0, total: float = TOTAL_SECONDS) -> TargetSession:
    """Open a session with a target; close it with `close()`.

    Args:
        target: A path or name as on the command line; a Python object with functions of the interface, which runs in this
            process; or a session, which is returned as it is. A name that starts with "cmd:" is a program, one that ends in
            .json or .jsonl a results file.
        in_process: Run a Python file, module, known library or shared library in this process instead of a child process.
        timeout: Seconds that one call may take; not for targets in this process. A start may take ten times as long, and at
            least 30 s.
        total: Seconds that all calls together may take; may be infinite.

    Returns:
        A session with `capabilities` and `call(function, *arguments, **options)`, which returns checked NumPy arrays or
        raises CallError.

    Raises:
        ValueError: A timeout that is not positive or has no end.
        TargetError: The target does not load, or declares what the interface does not have.
    """
    if not 0 < timeout <= MAX_TIMEOUT:
        raise ValueError(f"timeout = {timeout!r} is not a time in seconds; allowed is more than 0 and at most {MAX_TIMEOUT:g}")
    session = _open(target, in_process=in_process, timeout=timeout, total=total)
    if session.capabilities.stochastic and not isinstance(session, (RandomSession, FittedSession)):
        session = RandomSession(session)
    limits = session.capabilities.limits
    return (
        session
        if isinstance(session, FittedSession)
        or (limits.are_none and all(get_block(name).extent is Extent.BLOCK for name in session.capabilities.formats))
        else FittedSession(session, {} if limits.are_none else dict.fromkeys(("quantize", "dequantize"), limits))
    )


def _open(target: Any, *, in_process: bool, timeout: float, total: float) -> TargetSession:
    if isinstance(target, TargetSession):
        return target
    if isinstance(target, os.PathLike):
        target = os.fspath(target)
    if isinstance(target, str):
        if target.startswith(COMMAND):
            return ProcessTarget(target.removeprefix(COMMAND), timeout=timeout, total=total)
        if target.endswith(RESULTS_SUFFIXES):
            return ResultsFile(target)
        if target.endswith(LIBRARY_SUFFIXES):
            if in_process:
                return InProcessSession(load_target(target), target, transport="library")
            return SubprocessSession(target, timeout=timeout, total=total, transport="library-child")
        if in_process:
            return InProcessSession(load_target(target), target)
        return SubprocessSession(target, timeout=timeout, total=total)
    return InProcessSession(target, str(getattr(target, "NAME", type(target).__name__)))
