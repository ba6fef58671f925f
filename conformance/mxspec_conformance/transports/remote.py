"""A target that is reached by requests and replies, with the interface of a module: the judge calls both alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.errors import BadReturn, RemoteError
from mxspec_conformance.targets.interface import OPERATIONS
from mxspec_conformance.transports.wire import digest_call, name_arguments, read_array

#: (id, function, arguments) -> reply, a document of the schema's `reply`.
Ask = Callable[[str, str, Mapping[str, Any]], Mapping[str, Any]]


class RemoteModule:
    """Has the functions that its capabilities list; each sends a request and reads the reply."""

    MXSPEC_TAKES_SIDES = True

    def __init__(self, capabilities: Capabilities, ask: Ask) -> None:
        self.MXSPEC_CAPABILITIES = capabilities
        self._ask = ask
        self._times: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        if name not in self.MXSPEC_CAPABILITIES.functions:
            raise AttributeError(name)
        return partial(self._run, name)

    def _run(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        arguments = name_arguments(function, args, kwargs)
        digest = digest_call(function, arguments)
        self._times[digest] += 1
        times = self._times[digest]
        reply = self._ask(digest if times == 1 else f"{digest}.{times}", function, arguments)
        return read_reply(function, reply)


def read_reply(function: str, reply: Mapping[str, Any]) -> Any:
    """The answer in a reply to a call: one array, or a tuple of them.

    Raises NotImplementedError, RemoteError or BadReturn for replies that hold no answer.
    """
    if "skipped" in reply:
        reason, link = reply["skipped"]["reason"], reply["skipped"].get("link")
        raise NotImplementedError(f"{reason} ({link})" if link else reason)
    if "error" in reply:
        raise RemoteError(reply["error"]["message"], reply["error"].get("detail", ""))
    outputs = [output.name for output in OPERATIONS[function].outputs]
    if set(reply["outputs"]) != set(outputs):
        given = ", ".join(reply["outputs"])
        raise BadReturn(f"the outputs of {function} are {', '.join(outputs)}; the reply holds {given}")
    arrays = tuple(read_array(reply["outputs"][name], name) for name in outputs)
    return arrays[0] if len(arrays) == 1 else arrays
