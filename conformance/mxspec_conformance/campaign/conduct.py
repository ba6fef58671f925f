"""One campaign from its target to its report: work items, their answers, their verdicts. `fuzz` and `prove` are two procedures."""

from __future__ import annotations

import hashlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import Executor as Pool
from pathlib import Path
from typing import Any, ClassVar

from mxspec_conformance.campaign.run import Outcome, describe_work
from mxspec_conformance.campaign.state import Result, State, open_state
from mxspec_conformance.campaign.workers import Named, Workers, close_targets, open_workers
from mxspec_conformance.judge.shapes import fit_session
from mxspec_conformance.results.environment import describe_environment, describe_git
from mxspec_conformance.results.report import Report
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_conformance.transports.opening import open_target
from mxspec_vectors.files import NUMERIC_OPERATIONS, vector_digest


class Procedure(ABC):
    """How a campaign goes: which work items it runs, in which order, and what follows from the answers."""

    #: How the command and the reports are called.
    command: ClassVar[str]
    kind: ClassVar[str]

    @abstractmethod
    def plan(self, session: TargetSession, spec: Any) -> dict[str, Any]:
        """List the work items; what, in addition to command and target, names the campaign in its state file.

        spec: what workers open: a `Named` target, or the session of an object.
        """

    @abstractmethod
    def ask(self, state: State, workers: Workers, started: float) -> list[Outcome]:
        """Run the work items; started: when the campaign began, by `time.monotonic`."""

    @abstractmethod
    def conclude(self, report: Report, session: TargetSession, finished: Mapping[str, Result]) -> None:
        """Enter the results of the finished work items."""


def run_campaign(
    procedure: Procedure, target: Any, *, state_file: Path | None, fresh: bool, jobs: int, dask: str | None, pool: Pool | None,
    timeout: float, in_process: bool,
) -> Report:  # fmt: skip
    """Plan, ask, conclude.

    Raises TargetError where the target does not load, StateError for another campaign's file, and what the procedure's plan raises.
    """
    started = time.monotonic()
    session = fit_session(open_target(target, in_process=in_process, timeout=timeout))
    spec = Named(target, getattr(session, "limits", {})) if isinstance(target, str) else session
    try:
        named = procedure.plan(session, spec)
        digest = ""
        if isinstance(target, (str, os.PathLike)) and Path(target).is_file():
            digest = hashlib.sha256(Path(target).read_bytes()).hexdigest()
        capabilities = session.capabilities
        identity = {"command": procedure.command, "target": capabilities.name, "version": capabilities.version, "file": digest, **named}
        local = jobs if isinstance(spec, Named) else 1  # an object stays here
        with open_state(state_file, identity, fresh=fresh) as state, open_workers(local, dask, pool) as workers:
            outcomes = procedure.ask(state, workers, started)
        described = {
            "name": capabilities.name, "version": capabilities.version, "transport": session.transport,
            "capabilities": capabilities.as_dict(),
        }  # fmt: skip
        report = Report(
            kind=procedure.kind, target=described, vectors=vector_digest(operations=NUMERIC_OPERATIONS),
            environment={
                **describe_environment(), "load": [round(x, 2) for x in os.getloadavg()], **describe_git(target),
                **getattr(session, "environment", {}), "campaign": describe_work(outcomes) | {"workers": workers.name},
            },
        )  # fmt: skip
        report.details = {
            "pieces": {"lost": {key: why for o in outcomes for key, why in o.lost.items()}},
            "stopped": next((o.stopped for o in outcomes if o.stopped), ""),
        }
        procedure.conclude(report, session, state.finished)
    finally:
        close_targets()
        session.close()
    report.seconds = time.monotonic() - started
    return report
