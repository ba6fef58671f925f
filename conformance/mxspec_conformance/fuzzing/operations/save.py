"""Wrong groups as files in the form of the vectors, and those files asked again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from mxspec_conformance.fuzzing.operations.batch import judge_document
from mxspec_conformance.fuzzing.operations.draw import list_inputs, make_document
from mxspec_conformance.fuzzing.operations.findings import OperationFinding
from mxspec_conformance.fuzzing.operations.job import OperationJob
from mxspec_conformance.fuzzing.operations.report import plan_operations
from mxspec_conformance.fuzzing.replay import Replayed
from mxspec_conformance.results.report import GOOD
from mxspec_conformance.targets.affine import AFFINE_FUNCTIONS
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.files import write_file
from mxspec_vectors.reading import NotJson, UnreadableFile, read_json


def save_operations(folder: Path, findings: Sequence[OperationFinding]) -> list[Path]:
    """Write the groups of each function and format into a file of its own."""
    written = []
    for job in dict.fromkeys(f.job for f in findings):
        groups = dict.fromkeys(one for f in findings if f.job == job for one in f.inputs)
        path = folder / f"{job.function}-{job.format_name}.json"
        write_file(path, (json.dumps(make_document(job, list(groups)), indent=1) + "\n").encode("ascii"))
        written.append(path)
    return written


def is_operations(path: Path) -> bool:
    """Whether a file is one of groups; what cannot be read is said by whoever reads it as something else."""
    try:
        document = read_json(path)
    except (NotJson, UnreadableFile, OSError):
        return False
    return isinstance(document, dict) and document.get("operation") in (*AFFINE_FUNCTIONS, "sparse")


def replay_operations(path: Path, session: TargetSession) -> list[Replayed]:
    """The groups of a file asked again, together, by the answers that the model gives now: a row for each requirement.

    Raises ValueError for a file that is none, and where the target does not have its function.
    """
    document = read_json(path)
    results: list[Replayed] = []
    try:
        sparse = document["operation"] == "sparse"
        functions = dict.fromkeys(e["function"] for e in document["cases"]) if sparse else {document["operation"]: None}
        for function in functions:
            own = {**document, "cases": [e for e in document["cases"] if not sparse or e["function"] == function]}
            groups = list(list_inputs(own).values())
            job = _find_job(session, str(function), str(document["format"]))
            for r in judge_document(job, session, make_document(job, groups))[0]:
                verdict = "right" if r.verdict in GOOD else "differs"
                words = f"{r.failing} of {r.cases}: {r.note}".rstrip(": ") if verdict == "differs" else ""
                results.append(Replayed(f"{job.fmt}/{r.topic}", verdict, words))
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"{path} has groups that cannot be asked: {type(error).__name__} {error}") from None
    return results


def _find_job(session: TargetSession, function: str, fmt: str) -> OperationJob:
    jobs = plan_operations(session, session, names=(f"{function}.{fmt}",), seed=0, timeout=60.0, in_process=True)
    return jobs[0]
