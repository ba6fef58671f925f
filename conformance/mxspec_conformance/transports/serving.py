"""The target's process: load the target, then answer calls until the wire closes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from typing import Any

from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.declared import describe_target, write_capabilities
from mxspec_conformance.targets.errors import CallError, FailureKind, TargetError
from mxspec_conformance.targets.marshalling import Marshaller
from mxspec_conformance.targets.sessions import describe_import, message_of, run_call
from mxspec_conformance.targets.surroundings import describe_surroundings
from mxspec_conformance.transports.frames import FrameError, WireClosed, read_frame, write_frame
from mxspec_conformance.transports.loading import load_target

#: Kinds of messages in addition to those of `FailureKind`.
OK, TARGET_ERROR, LOST = "ok", "target-error", "lost-device"


def serve_wire(fd: int) -> None:
    """Serve on a descriptor that this process was given."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    moved = _move_up(fd)
    serve_socket(socket.socket(fileno=moved))


def _move_up(fd: int) -> int:
    """The descriptor under another number, high and not known before: a target that writes to 3, 4, 5 ... by mistake misses it."""
    import fcntl
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = 4096 if limit == resource.RLIM_INFINITY else min(limit, 4096)
    least = most // 2 + int.from_bytes(os.urandom(4), "little") % max(most // 2 - 64, 1)
    try:
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, least)
    except OSError:
        return fd
    os.close(fd)
    return int(moved)


def serve_socket(wire: socket.socket) -> None:
    """Answer calls until the wire closes. A process that the target forks from this one has no part in the wire."""
    mine = os.getpid()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _drop(wire))
    with contextlib.suppress(WireClosed, FrameError):
        call, _, spec = read_frame(wire)
        module, capabilities = _load(wire, call, spec, mine)
        if module is None:
            return
        marshaller = Marshaller(module, capabilities)
        while True:
            call, _, (function, args, kwargs) = read_frame(wire)
            try:
                kind, value = OK, run_call(marshaller, function, args, kwargs)
            except CallError as error:
                kind, value = error.kind.value, (str(error), error.detail, error.is_defect)
                if lost := _find_lost_device(capabilities):
                    kind, value = LOST, (f"{lost}, after {error}", error.detail, False)
            _reply(wire, mine, call, kind, value)


def _find_lost_device(capabilities: Capabilities) -> str:
    """What the GPU raises when it is waited for: its context is lost, and with it every later call of this process. Else nothing."""
    try:
        if capabilities.arrays == "cupy":
            import cupy

            cupy.cuda.runtime.deviceSynchronize()
        elif capabilities.arrays == "torch" and (capabilities.device or "").startswith("cuda"):
            import torch

            torch.cuda.synchronize(capabilities.device)
    except Exception as error:
        return f"the GPU's context is lost ({message_of(error)}); a new process is started"
    return ""


def _drop(wire: socket.socket) -> None:
    with contextlib.suppress(OSError):
        wire.close()


def _reply(wire: socket.socket, mine: int, call: str, kind: str, value: Any) -> None:
    if os.getpid() != mine:  # the target forked, and both processes came back from the call
        os._exit(0)
    try:
        write_frame(wire, call, kind, value)
    except TypeError as error:
        write_frame(wire, call, FailureKind.BAD_RETURN.value, (f"the answer cannot be sent: {error}", "", False))


def _load(wire: socket.socket, call: str, spec: str, mine: int) -> tuple[Any, Any]:
    """The target and its capabilities; None where it does not load, after a message to the judge."""
    try:
        module = load_target(spec, stay=True)
        capabilities = describe_target(module, spec)
        described = (write_capabilities(capabilities), describe_surroundings(module, capabilities))
    except TargetError as error:
        _reply(wire, mine, call, TARGET_ERROR, (str(error), "", False))
        return None, None
    except BaseException as error:
        _reply(wire, mine, call, TARGET_ERROR, (f"{spec} does not import: {describe_import(error)}", "", False))
        return None, None
    _reply(wire, mine, call, OK, described)
    return module, capabilities
