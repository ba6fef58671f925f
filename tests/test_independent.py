"""The independent implementation passes, and its bugs fare as the published table says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.independent.catalogue import build
from tests.independent.implementation import BLOCKS, ELEMENTS, Kernel
from tests.independent.judge import SCALAR, failing, judge
from tests.independent.reasons import Survival
from tests.independent.run_independent import BUGS, SCHEMA, TABLE, judge_bug, key_of
from tests.support import seed

TABLE_OF_BUGS: dict[str, Any] = json.loads(TABLE.read_text("utf-8"))
ENTRIES = {f"{e['operation']}/{e['format']}/{e['profile']}/{e['id']}": e for e in TABLE_OF_BUGS["bugs"]}

#: The seed chooses which third of the bugs is judged again; the command that makes the table judges all.
THIRD = 3

RIGHT = [(op, f, "mx-floor") for op in ("quantize", "dequantize") for f in BLOCKS if f != "nvfp4"]
RIGHT += [("quantize", "mxfp4", p) for p in ("mx-rceil", "mx-even", "mx-ceil")]
RIGHT += [(op, "nvfp4", p) for op in ("quantize", "dequantize", "tensor_scale") for p in ("nvfp4-te", "nvfp4-paper")]
RIGHT += [(op, e, "") for op in SCALAR for e in ELEMENTS if op != "encode_stochastic" or e not in ("e8m0", "ue4m3")]


@pytest.mark.parametrize(("operation", "fmt", "profile"), RIGHT)
def test_right_implementation_passes(operation: str, fmt: str, profile: str) -> None:
    report = judge(Kernel(profile), operation, fmt, profile)
    assert report.requirements
    assert failing(report) == []


def test_table_has_its_schema() -> None:
    assert TABLE_OF_BUGS["schema"] == SCHEMA


def test_table_names_each_bug_once() -> None:
    assert [key_of(bug) for bug in BUGS] == list(ENTRIES)


def test_survivors_are_explained() -> None:
    kinds = {str(kind) for kind in Survival}
    bare = [k for k, e in ENTRIES.items() if e["verdict"] == "survives" and (e["kind"] not in kinds or not e["reason"])]
    assert bare == []


def _needs_all_calls(entry: dict[str, Any]) -> bool:
    """Whether the first requirement that a bug fails is about calls, of which tests ask few."""
    return entry.get("by", "").partition(":")[0].rpartition("/")[2] in ("call-size", "memory", "state")


@pytest.mark.share(30)
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(n, marks=[pytest.mark.all_calls] if _needs_all_calls(ENTRIES[key_of(bug)]) else [])
        for n, bug in enumerate(BUGS)
        if n % THIRD == seed() % THIRD or _needs_all_calls(ENTRIES[key_of(bug)])
    ],
)
def test_table_says_what_the_judge_says(number: int) -> None:
    """What is killed fails the requirement that the table names, judged alone, or the whole; all others survive everything."""
    bug = BUGS[number]
    published = ENTRIES[key_of(bug)]
    if published["verdict"] != "killed":
        assert judge_bug(bug) == published
        return
    requirement = published["by"].partition(":")[0]
    if not failing(judge(build(bug), bug.operation, bug.format, bug.profile, only=requirement)):
        # What shows by the order of calls, or by numbers that are drawn for them, shows elsewhere where these are fewer.
        assert failing(judge(build(bug), bug.operation, bug.format, bug.profile)), (
            "python -m tests.independent.run_independent judges all again"
        )
