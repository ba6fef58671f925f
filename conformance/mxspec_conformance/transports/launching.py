"""Starting a target's process so that nothing of it outlives the run."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_GUARD = str(Path(__file__).with_name("guard.py"))
#: Seconds for a process to be gone after it was killed.
_GONE = 8.0


class Launched:
    """A process with all that it starts. POSIX systems have `guard.py` in between; Windows has `taskkill`."""

    def __init__(self, process: subprocess.Popen[bytes], lifeline: int | None) -> None:
        self.process = process
        self._lifeline = lifeline

    def poll(self) -> int | None:
        """The exit code, or minus the signal; None while it runs."""
        return self.process.poll()

    def wait(self, seconds: float) -> int | None:
        """The same, after at most so many seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.process.poll()

    def kill(self) -> None:
        """End the process and what it started."""
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        elif os.name == "nt" and self.process.poll() is None:
            _kill_tree(self.process.pid)
        if self.wait(_GONE if os.name != "nt" else 0) is None:
            self.process.kill()
            self.wait(_GONE)

    def __del__(self) -> None:
        # A session that was not closed: the guard sees the end of the pipe.
        if self._lifeline is not None:
            with contextlib.suppress(OSError):
                os.close(self._lifeline)
            self._lifeline = None
            if self.wait(2) is None:
                self.process.returncode = 0  # or Popen warns of a process that runs


def _kill_tree(pid: int) -> None:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(pid)], capture_output=True, timeout=_GONE, check=False)


def _guarded(flags: Sequence[str], arguments: Sequence[str], fds: tuple[int, ...], **pipes: Any) -> Launched:
    theirs, ours = os.pipe()
    try:
        command = [sys.executable, *flags, _GUARD, str(theirs), *arguments]
        process = subprocess.Popen(command, pass_fds=(theirs, *fds), start_new_session=True, **pipes)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return Launched(process, ours)


def launch_program(command: Sequence[str], **pipes: Any) -> Launched:
    """Start a program. pipes: what `subprocess.Popen` takes. Raises OSError where it cannot be started."""
    if os.name == "nt":
        return Launched(subprocess.Popen(command, **pipes), None)
    return _guarded(("-I", "-S"), ("run", *command), (), **pipes)


def launch_server() -> tuple[Launched, socket.socket]:
    """Start a process that loads a target and answers calls (`serving.serve_wire`), and the wire to it.

    The working folder is not on its path; modules of the standard library come before all others.
    """
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            end.setsockopt(socket.SOL_SOCKET, option, 1 << 20)
    path = json.dumps(stdlib_first(sys.path))
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        if os.name == "nt":
            return _serve_on_windows(theirs, path, quiet), ours
        return _guarded(_flags(), ("serve", str(theirs.fileno()), path), (theirs.fileno(),), **quiet), ours
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()


def _serve_on_windows(theirs: socket.socket, path: str, pipes: dict[str, Any]) -> Launched:
    """A socket goes to another process of Windows as a message for this process, here on stdin."""
    code = (
        "import sys; sys.path[:] = filter(None, sys.path)\n"  # Python 3.10 puts the working folder there
        "import json; sys.path[:] = json.loads(sys.argv[1])\n"
        "import socket\nfrom mxspec_conformance.transports.serving import serve_socket\n"
        "serve_socket(socket.fromshare(sys.stdin.buffer.read()))"
    )
    command = [sys.executable, *_flags(), "-c", code, path]
    process: subprocess.Popen[bytes] = subprocess.Popen(command, **(pipes | {"stdin": subprocess.PIPE}))
    assert process.stdin is not None
    process.stdin.write(theirs.share(process.pid))  # type: ignore[attr-defined,unused-ignore]  # on Windows alone
    process.stdin.close()
    return Launched(process, None)


def _flags() -> list[str]:
    """This interpreter's own flags, for another one, on whose path nothing comes before the standard library.

    Python 3.10 has no flag for that: the guard's own folder comes first until the path is set, and has no name of that library.
    """
    given = (
        (sys.dont_write_bytecode, "-B"), (sys.flags.optimize > 0, "-" + "O" * sys.flags.optimize), (sys.flags.dev_mode, "-Xdev"),
        (sys.version_info >= (3, 11), "-P"), (sys.flags.no_user_site, "-s"), (sys.flags.ignore_environment, "-E"), (sys.flags.utf8_mode, "-Xutf8"),
    )  # fmt: skip
    return [flag for condition, flag in given if condition]


def stdlib_first(path: Sequence[str]) -> list[str]:
    """A search path with the standard library in front: a stray file types.py must not replace `types`."""
    return sorted(path, key=lambda entry: not is_stdlib(entry))


def is_stdlib(entry: str) -> bool:
    """Whether an entry of a search path is the standard library's."""
    home = sysconfig.get_path("stdlib")
    inside = entry == home or entry.startswith(home + os.sep) or entry == sysconfig.get_path("platstdlib")
    archive = os.path.basename(entry) == f"python{sys.version_info[0]}{sys.version_info[1]}.zip"  # noqa: PTH119
    return (inside and "site-packages" not in entry and "dist-packages" not in entry) or archive
