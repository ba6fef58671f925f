"""Targets that run in this process."""

from __future__ import annotations

from typing import Any

from mxspec_conformance.targets.capabilities import describe_target
from mxspec_conformance.targets.marshalling import Marshaller
from mxspec_conformance.targets.sessions import run_call
from mxspec_conformance.targets.surroundings import describe_surroundings


class InProcessSession:
    """Calls a target that is loaded here. A crash or a hang of the target is the judge's too."""

    transport = "python"

    def __init__(self, module: Any, spec: str, *, transport: str | None = None) -> None:
        self.transport = transport or self.transport
        self.capabilities = describe_target(module, spec)
        self.environment = describe_surroundings(module, self.capabilities)
        self._marshaller = Marshaller(module, self.capabilities)

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallError."""
        return run_call(self._marshaller, function, args, kwargs)

    def close(self) -> None:
        """Nothing to free."""
