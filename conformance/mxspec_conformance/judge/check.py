"""`check`: judge a target and report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from mxspec.adjacent import find_any_profile
from mxspec_conformance.judge.block_format import check_format
from mxspec_conformance.judge.choosing import choose_formats
from mxspec_conformance.judge.impact import Data, normal_data
from mxspec_conformance.judge.listing import list_fewer, list_requirements
from mxspec_conformance.judge.other_operations import (
    Progress,
    check_affine,
    check_attention,
    check_fused,
    check_layouts,
    check_products,
    check_scalars,
    check_sparse,
    name_operations,
)
from mxspec_conformance.judge.shapes import fit_session
from mxspec_conformance.judge.stages import BLOCK_STAGES
from mxspec_conformance.judge.wanted import OF_CALLS, Wanted
from mxspec_conformance.observations.selection import EVERYTHING as EVERY_CASE, Selection, quick_selection, selects_calls, use_selection
from mxspec_conformance.results.environment import describe_environment, describe_git
from mxspec_conformance.results.report import Report, Requirement, Verdict
from mxspec_conformance.targets.errors import CallError, own_errors
from mxspec_conformance.targets.fitting import FittedSession
from mxspec_conformance.targets.sessions import TOTAL_SECONDS, TargetSession
from mxspec_conformance.targets.texts import clean_text
from mxspec_conformance.transports.opening import open_target
from mxspec_conformance.transports.recorded import ResultsFile
from mxspec_vectors.files import vector_digest
from mxspec_vectors.topics import topic_level, topic_text


def check(
    target: Any,
    *,
    profile: str | None = None,
    formats: Sequence[str] | None = None,
    only: str | None = None,
    in_process: bool = False,
    timeout: float = 60.0,
    total_timeout: float = TOTAL_SECONDS,
    quick: bool = False,
    selection: Selection | None = None,
    shard: tuple[int, int] = (1, 1),
    data: Sequence[Data] | None = None,
    progress: Progress = lambda _: None,
    begun: Callable[[Report], None] = lambda _: None,
    loaded: Callable[[Sequence[str]], None] | None = None,
) -> Report:
    """Judge a target bit for bit by the golden vectors. This is `mxspec check`.

    Args:
        target: A path or name as on the command line (Python file, module, known library, shared library, "cmd:PROGRAM",
            results file), run in a process of its own; or a Python object with functions of the interface, run in this
            process; or an open session.
        profile: Judge against this profile; default: the one that the target claims, else the nearest normative one.
        formats: Block formats to judge; default: those that the target lists.
        only: A glob that requirement ids must match, or several, separated by spaces, one of which does.
        in_process: Run a path or name in this process, too.
        timeout: Seconds that one call may take; not for targets in this process.
        total_timeout: Seconds that all calls together may take; what is not asked by then is a time-out.
        quick: Use only the cases of the quick set, which kill the same mutants.
        selection: Use only these cases; default: all, or the quick set.
        shard: (i, n): of the formats, elements, layouts and products, by name, every n-th from the i-th on.
        data: Numbers on which to measure what differences mean (`judge.impact`); default: those of N(0, 1). No verdict depends
            on it.
        progress: Called with a word about each step.
        begun: Called with the report that is about to be filled, format by format: what it holds at an interrupt was judged.
        loaded: Called at the end with the files that the target's process has loaded; not where a target cannot tell.

    Returns:
        Every requirement with its verdict, and for each format the profile, the behaviour and the deviations found.

    Raises:
        TargetError: The target does not load, declares what the interface does not have, or lacks one of the formats.
        ValueError: An unknown profile or format, or a profile that does not cover the formats.
        InternalError: A defect of mxspec; no verdict on the target.
    """
    if only is not None and not isinstance(only, str):
        raise TypeError(f"only is a {type(only).__name__}; pass one pattern of requirements, such as 'quantize/*/nan'")
    if profile is not None:
        profile = find_any_profile(profile).id
    session = open_target(target, in_process=in_process, timeout=timeout, total=total_timeout)
    with use_selection(selection or (quick_selection() if quick else EVERY_CASE)):
        return _run(
            session, target, profile, formats, only, progress, begun, loaded, quick=quick, shard=shard,
            data=(normal_data(),) if data is None else data,
        )  # fmt: skip


def _not_judged(identifier: str) -> Requirement:
    """A requirement whose calls no results file holds."""
    operation, fmt, topic = identifier.split("/")
    level, text = topic_level(topic, operation, fmt), topic_text(topic, operation)
    return Requirement(identifier, level.value, text, Verdict.UNSUPPORTED, note="not judged: a results file holds no calls for it")


def _run(
    session: TargetSession, target: Any, profile: str | None, formats: Sequence[str] | None, only: str | None, progress: Progress,
    begun: Callable[[Report], None], loaded: Callable[[Sequence[str]], None] | None, *, quick: bool, shard: tuple[int, int],
    data: Sequence[Data],
) -> Report:  # fmt: skip
    started = time.monotonic()
    try:
        report = Report(
            target={
                "name": session.capabilities.name,
                "version": session.capabilities.version,
                "transport": session.transport,
                "capabilities": session.capabilities.as_dict(),
            },
            vectors=vector_digest(operations=name_operations(session)),
            environment=describe_environment() | describe_git(target) | getattr(session, "environment", {}),
        )
        if quick:
            report.details["level"] = "quick"
        begun(report)
        wanted = Wanted(only, calls=selects_calls())
        chosen = choose_formats(session, formats, profile)
        if shard != (1, 1):
            listed = list_requirements(session, profile=profile, formats=formats)
            names = sorted({name.split("/")[1] for name in listed})[shard[0] - 1 :: shard[1]]
            wanted = replace(wanted, names=frozenset(names))
            report.details["shard"] = {"part": "{}/{}".format(*shard), "names": names}
        with own_errors():
            session = fit_session(session, chosen)
            if isinstance(session, FittedSession) and session.limits:
                report.details["shapes"] = session.describe_limits()
            for fmt in chosen:
                if any(wanted.any_of(stage.operation, fmt) for stages in BLOCK_STAGES.values() for stage in stages):
                    progress(fmt)
                    check_format(session, fmt, profile, report, wanted, data)
            if profile is None or not chosen:
                check_scalars(session, formats, report, progress, wanted)
            if profile is None and formats is None:
                check_affine(session, report, progress, wanted)
                check_layouts(session, report, progress, wanted)
                check_sparse(session, report, progress, wanted)
                check_fused(session, report, progress, wanted)
                check_attention(session, report, progress, wanted)
            if profile is None:
                check_products(session, formats, report, progress, wanted)
            if session.transport == ResultsFile.transport:
                found = {r.id for r in report.requirements}
                listed = list_requirements(session, profile=profile, formats=formats)
                report.requirements += [_not_judged(i) for i in listed if i not in found and i.split("/")[2] in OF_CALLS]
                report.details["fewer_cases"] = list_fewer(r.id for r in report.requirements if r.cases and wanted.fits(r.id))
        report.requirements = [r for r in report.requirements if wanted.fits(r.id)]
        with suppress(CallError):  # only Python targets have this call
            if changes := clean_text(str(session.call("float_environment"))):
                report.environment["float_environment"] = changes
            files = str(session.call("loaded_files")).splitlines()
            report.environment |= describe_git(target, files)
            if loaded is not None:
                loaded(files)
        if only is not None:
            report.details["only"] = only
            for result in report.formats:
                result.partial = True
    finally:
        session.close()
    report.seconds = time.monotonic() - started
    return report
