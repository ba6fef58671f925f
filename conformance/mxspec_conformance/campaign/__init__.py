"""Long work in keyed pieces: on any `concurrent.futures.Executor`, resumable, each piece counted once."""

from mxspec_conformance.campaign.run import Outcome, Piece, run_pieces
from mxspec_conformance.campaign.state import State, StateError, open_state
from mxspec_conformance.campaign.workers import Workers, call_target, open_workers

__all__ = [
    "Outcome",
    "Piece",
    "State",
    "StateError",
    "Workers",
    "call_target",
    "open_state",
    "open_workers",
    "run_pieces",
]
