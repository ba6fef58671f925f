"""Stands between the judge and a target: kills all that the target started, when it ends, and when the judge is gone.

Run as a script: `python guard.py LIFELINE serve WIRE PATH` or `python guard.py LIFELINE run PROGRAM ARGUMENTS...`. It forks
at once; the new process, in a session of its own, becomes the target's. This one reads the lifeline, a pipe whose other end
only the judge holds: its end is the judge's, however the judge died. It then exits as the target's process did.

Standard library only, and little of that: every start of a target waits for it. On Linux, processes that lost their parent
come to this one, so that none escapes by a double fork; elsewhere the target's process group is killed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time

#: Seconds that killing may take: a target that starts processes faster than they can be killed is not waited for.
_KILLING = 5.0
#: prctl(2).
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_QUIET = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")


def _prctl(option: int, value: int) -> None:
    """Does nothing where there is no prctl."""
    if sys.platform != "linux":
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def guard(lifeline: int, mine: tuple[int, ...] = ()) -> None:
    """Fork; returns in the process that is to be the target's, and never in the other.

    mine: descriptors that are for the target's process alone.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    parent = os.getpid()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    child = os.fork()
    if child == 0:
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for name in ("SIGCHLD", *_QUIET):  # one that starts us may ignore some
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        for fd in (lifeline, woken, wake):
            os.close(fd)
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was killed before the line above
            os._exit(1)
        return
    for name in _QUIET:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    for fd in (*mine, nowhere):
        os.close(fd)
    _exit_as(_watch(child, lifeline, woken))


def _watch(child: int, lifeline: int, woken: int) -> int | None:
    """Wait for the child or for the judge, then kill what is left; the child's status if it ended of its own."""
    status: int | None = None
    ended = False
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    poll.register(woken, select.POLLIN)
    while not ended:
        ready = {fd for fd, _ in poll.poll()}
        if lifeline in ready:
            break
        if woken in ready:
            os.read(woken, 4096)
        while True:
            try:
                pid, found = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return status
            if pid == 0:
                break
            if pid == child:
                status, ended = found, True
    _kill_group(child)
    return _kill_rest(child, status)


def _kill_group(child: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def _kill_rest(child: int, status: int | None) -> int | None:
    deadline = time.monotonic() + _KILLING
    while time.monotonic() < deadline:
        for pid in _children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == child:
                    status = found[1]
        except ChildProcessError:
            break
        time.sleep(0.002)
    return status


def _children() -> list[int]:
    """The processes whose parent is this one; those that lost theirs are among them."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:  # noqa: PTH123  # pathlib takes 5 ms to import
            return [int(n) for n in file.read().split()]
    except OSError:
        return []


def _exit_as(status: int | None) -> None:
    """End as the child did, so that the judge sees its exit code or its signal."""
    if status is None:
        os._exit(1)
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        os._exit(code)
    import resource

    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    os._exit(128 - code)


def main(arguments: list[str]) -> None:
    """See the head of this file."""
    lifeline, what = int(arguments[0]), arguments[1]
    if what == "serve":
        wire = int(arguments[2])
        guard(lifeline, (wire,))
        import json

        sys.path[:] = json.loads(arguments[3])
        from mxspec_conformance.transports.serving import serve_wire

        serve_wire(wire)
        return
    guard(lifeline)
    try:
        os.execvp(arguments[2], arguments[2:])
    except OSError as error:
        os.write(2, f"{arguments[2]} cannot be run: {error.strerror}\n".encode(errors="backslashreplace"))
        os._exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
