"""Long work in keyed pieces: on any `concurrent.futures.Executor`, resumable, each piece counted once."""

from mxspec_conformance.campaign.conduct import Procedure, run_campaign
from mxspec_conformance.campaign.run import Outcome, WorkItem, describe_work, run_work_items
from mxspec_conformance.campaign.state import State, StateError, open_state
from mxspec_conformance.campaign.workers import Named, Workers, call_target, open_workers

__all__ = [
    "Named", "Outcome", "Procedure", "State", "StateError", "WorkItem", "Workers", "call_target", "describe_work", "open_state",
    "open_workers", "run_campaign", "run_work_items",
]  # fmt: skip
