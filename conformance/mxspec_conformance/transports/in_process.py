"""Targets that run in this process."""

from __future__ import annotations

from typing import Any

from mxspec.environment import describe_changes
from mxspec_conformance.targets.declared import describe_target
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.targets.marshalling import Marshaller
from mxspec_conformance.targets.sessions import names_calls, run_call
from mxspec_conformance.targets.surroundings import describe_surroundings


class InProcessSession:
    """Calls a target that is loaded here. A crash or a hang of the target is the judge's too."""

    transport = "python"

    def __init__(self, module: Any, spec: str, *, transport: str | None = None) -> None:
        self.transport = transport or self.transport
        self._spec = spec
        self._check_environment("once it is loaded")
        self.capabilities = describe_target(module, spec)
        self.environment = describe_surroundings(module, self.capabilities)
        self._marshaller = Marshaller(module, self.capabilities)

    @names_calls
    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallError, and TargetError where the judge cannot go on computing after it."""
        try:
            return run_call(self._marshaller, function, args, kwargs)
        finally:
            self._check_environment(f"after a call of {function}")

    def _check_environment(self, when: str) -> None:
        if changes := describe_changes():
            raise TargetError(
                f"{self._spec}: {when} the floating-point environment of this process is changed ({changes}), in which the judge's "
                "own numbers would be wrong; run the target in a process of its own: leave out --in-process, and pass a file in "
                "place of an object"
            )

    def close(self) -> None:
        """Nothing to free."""
