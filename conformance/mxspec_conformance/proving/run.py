"""`prove`: plan the pieces, run them, and say what has been proven, and what not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor as Pool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mxspec.formats import get_rows
from mxspec.profiles import find_variant
from mxspec.profiles.schema import Profile
from mxspec_conformance.campaign import Outcome, Procedure, State, Workers, WorkItem, run_campaign, run_work_items
from mxspec_conformance.campaign.profile import find_profile, nearest_profile
from mxspec_conformance.campaign.state import Result
from mxspec_conformance.proving import work
from mxspec_conformance.proving.judge import ProofJudge
from mxspec_conformance.proving.maxima import CHUNK_BITS
from mxspec_conformance.proving.refusals import name_obstacle
from mxspec_conformance.proving.work import Job
from mxspec_conformance.results.report import FormatResult, Report
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.sessions import TargetSession

#: Drawn inputs of a proof do not change from run to run.
SEED = 20231
PAIR_DTYPES = ("bfloat16", "float16")

#: Called with words, pieces done and pieces in all.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be proven, and how far."""

    fmt: str
    profile: str | None = None
    dtypes: tuple[str, ...] = PAIR_DTYPES
    #: float32 bits of tensor maxima; None stands for the form without a tensor scale.
    tensors: tuple[int | None, ...] = (None,)
    #: Ask all 2**31 float32 maxima instead of those where the scale changes.
    all_maxima: bool = False
    block: tuple[int, int] | None = None
    #: This share of the pieces, of so many.
    part: tuple[int, int] = (1, 1)
    minutes: float | None = None


def prove(
    target: Any, plan: Plan, *, state_file: Path | None = None, fresh: bool = False, jobs: int = 1, dask: str | None = None,
    pool: Pool | None = None, timeout: float = 600.0, in_process: bool = False,
    progress: Progress = lambda _words, _done, _total: None,
) -> Report:  # fmt: skip
    """Hold a target to a profile on every input that decides it.

    pool: any `concurrent.futures.Executor`, `jobs` of whose workers are kept busy; else `jobs` processes, or Dask.
    Raises ValueError where the profile's blocks do not come apart into pairs, StateError for another campaign's file, and
    TargetError where the target does not load.
    """
    return run_campaign(
        _Proof(plan, timeout, in_process, progress), target, state_file=state_file, fresh=fresh, jobs=jobs, dask=dask, pool=pool,
        timeout=timeout, in_process=in_process,
    )  # fmt: skip


class _Proof(Procedure):
    """The lanes first, then what rests on them."""

    command, kind = "prove", "proof"

    def __init__(self, plan: Plan, timeout: float, in_process: bool, progress: Progress) -> None:
        self.wanted, self.timeout, self.in_process, self.progress = plan, timeout, in_process, progress
        self.fmt = get_rows(plan.fmt)
        self.left_out: list[str] = []
        self.lanes: dict[str, Job] = {}
        self.pieces: list[WorkItem] = []

    def plan(self, session: TargetSession, spec: Any) -> dict[str, Any]:
        """The jobs of one target and their pieces."""
        fmt, capabilities = self.fmt, session.capabilities
        if fmt.name not in capabilities.formats:
            raise ValueError(f"{capabilities.name} offers {', '.join(capabilities.formats)}; not {fmt.name}")
        if capabilities.stochastic and not capabilities.has("dequantize"):
            raise ValueError(f"{capabilities.name} quantizes stochastically, so that no answer has to come; see check")
        if self.wanted.profile is not None:
            self.profile, self.distance, self.compared = find_profile(self.wanted.profile, fmt), 0, 0
        else:
            self.profile, self.distance, self.compared = nearest_profile(session, fmt)
        tensors, (share, shares) = self._choose_tensors(capabilities), self.wanted.part
        self.pieces = [item for tensor in tensors for item in self._plan_form(session, spec, tensor)][share - 1 :: shares]
        answers = {key.partition("/")[2]: work.pair_answers(j).digest() for key, j in self.lanes.items()}
        return {"format": self.fmt.name, "profile": self.profile.id, "answers": answers, "seed": SEED, "pieces": 1}

    def _choose_tensors(self, capabilities: Capabilities) -> list[int | None]:
        """Forms that target and profile have; why others are left out is kept.

        Raises ValueError where none is left.
        """
        kept: list[int | None] = []
        takes = any(capabilities.has(f, "tensor_scale") for f in ("quantize", "dequantize"))
        for bits in self.wanted.tensors:
            reason = name_obstacle(self.profile, two_level=bits is not None, block=self.wanted.block)
            if reason is None and bits is None and not capabilities.one_level:
                reason = f"{capabilities.name} needs a tensor scale"
            if reason is None and bits is not None and not takes:
                reason = f"{capabilities.name} takes no tensor scale"
            if reason is None:
                kept.append(bits)
            elif reason not in self.left_out:
                self.left_out.append(reason)
        if not kept:
            raise ValueError(f"there is no proof by pairs: {'; '.join(self.left_out)}")
        return kept

    def _plan_form(self, session: TargetSession, spec: Any, tensor: int | None) -> Iterator[WorkItem]:
        """The pieces of the form with one tensor scale, or with none."""
        fmt, profile, capabilities = self.fmt, self.profile, session.capabilities

        def takes(function: str) -> bool:
            return tensor is None or capabilities.has(function, "tensor_scale")

        def job(dtype: str, own: Profile = profile) -> Job:
            return Job(spec, fmt.name, own.id, dtype, tensor, self.timeout, self.in_process)

        j = job("float32")
        if capabilities.repeats and takes("quantize"):
            for dtype in self.wanted.dtypes:
                # The numbers of a dtype that is not offered are handed over as float32.
                own = find_variant(profile, dtype if dtype in capabilities.dtypes or "float32" not in profile.dtypes else "float32")
                if own is None or name_obstacle(own, two_level=tensor is not None) is not None:
                    continue
                pair = job(dtype, own)
                self.lanes[f"lanes/{pair.name}"] = pair
                for number, (first, last) in enumerate(work.pair_space(pair).chunks()):
                    yield WorkItem(f"pairs/{pair.name}/{number:03d}", (work.prove_pairs, pair, first, last))
            if "float32" in capabilities.dtypes and "float32" in profile.dtypes and self._has_steps(tensor):
                yield WorkItem(f"thresholds/{j.name}", (work.prove_thresholds, j, SEED))
                end = (work.largest_maximum(tensor) >> CHUNK_BITS) + 1 if self.wanted.all_maxima else 0
                yield from (WorkItem(f"maxima/{j.name}/{n:03d}", (work.prove_maxima, j, n)) for n in range(end))
        if capabilities.has("dequantize") and takes("dequantize"):
            yield WorkItem(f"values/{j.name}", (work.prove_values, j))

    def _has_steps(self, tensor: int | None) -> bool:
        try:
            work.exact_scale_steps(self.fmt.name, self.profile.id, tensor)
        except ValueError:
            return False
        return True

    def ask(self, state: State, workers: Workers, started: float) -> list[Outcome]:
        """Where the lanes depend on each other pairs prove nothing."""
        total = len(self.lanes) + len(self.pieces)
        done = sum(key in state.finished for key in [*self.lanes, *(piece.key for piece in self.pieces)])
        self.progress("testing that lanes are independent", done, total)

        def tick(key: str, result: Result) -> bool:
            nonlocal done
            done += 1
            words = " ".join(key.split("/")[:3])
            self.progress(words + (": differs" if result.get("wrong") or result.get("broken") else ""), done, total)
            return True

        lanes = [WorkItem(key, (work.prove_lanes, j, SEED)) for key, j in self.lanes.items()]
        outcomes = [run_work_items(lanes, work.run_piece, state, workers, on_result=tick)]
        if outcomes[0].interrupted:
            return outcomes
        results = {key.partition("/")[2]: state.finished.get(key, {}) for key in self.lanes}
        broken = {f"pairs/{name}" for name, r in results.items() if r.get("broken") or r.get("no_answer")}
        rest = [piece for piece in self.pieces if piece.key.rpartition("/")[0] not in broken]
        minutes = self.wanted.minutes
        deadline = None if minutes is None else started + 60 * minutes
        return [*outcomes, run_work_items(rest, work.run_piece, state, workers, deadline=deadline, on_result=tick)]

    def conclude(self, report: Report, session: TargetSession, finished: Mapping[str, Result]) -> None:
        """Requirements and statements."""
        judge = ProofJudge(session, self.fmt, self.profile, finished)
        judge.judge(self.lanes, self.left_out, self.wanted.part)
        report.requirements = judge.requirements
        report.environment["campaign"]["target_seconds"] = round(judge.seconds, 1)
        report.formats = [
            FormatResult(
                format=self.fmt.name, judged_against=self.profile.id, chosen="asked" if self.wanted.profile is not None else "nearest", provisional=self.profile.provisional,
                distance=self.distance, cases=self.compared, operations=judge.operations, deviations=judge.deviations,
            )
        ]  # fmt: skip
        report.details = {
            "statements": judge.statements, "claims": judge.claims, "independence": judge.independence, **report.details,
            "numpy": np.__version__,
        }  # fmt: skip
