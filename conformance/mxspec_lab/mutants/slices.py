"""The slice of the vectors that the quick level asks whatever the mutants are: a few cases of every kind, spread over each file.

Cases that are chosen by mutants find what resembles these mutants. What finds the others is that no threshold, no kind of special
value and no table is left out. Which cases stand for a kind follows from their order in the file alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from mxspec.formats import BLOCKS
from mxspec_conformance.judge.stages import Source
from mxspec_conformance.mutants.instance import LAYOUT_OPERATIONS, Instance, build_target
from mxspec_conformance.observations.selection import CALLS, Selection, use_selection
from mxspec_conformance.observations.tables import load_table_cases
from mxspec_lab.mutants.cover import choose_layout_cases
from mxspec_lab.mutants.judging import Label, judge_target
from mxspec_vectors.cases import load_encode_cases, load_quantize_cases, load_scale_cases, load_stochastic_cases
from mxspec_vectors.files import read_index

T = TypeVar("T")

#: Blocks of each topic and flag, with and without a tensor scale; maxima of each run; numbers of each array of numbers.
BLOCKS_EACH, MAXIMA_EACH, NUMBERS_EACH = 8, 2, 4


def spread(members: Sequence[T], count: int) -> list[T]:
    """So many of them, evenly, the first always; all where there are fewer."""
    if len(members) <= count:
        return list(members)
    return [members[i * len(members) // count] for i in range(count)]


def list_slice() -> frozenset[Label]:
    """Every case of the slice; the layouts' cases are those that tell a layout from all others."""
    found: set[Label] = {("layout", name, case) for name, cases in choose_layout_cases().items() for case in cases}
    for fmt in BLOCKS:
        found.update((Source.QUANTIZE.value, fmt, case) for case in _spread_blocks(fmt))
        for run in load_scale_cases(fmt):
            found.update((Source.SCALE.value, fmt, run.label(i)) for i in spread(range(len(run.amax)), MAXIMA_EACH))
        found.update((Source.DEQUANTIZE.value, fmt, table.id) for table in load_table_cases(fmt))
    for element in _list_elements("encode"):
        found.update(_spread_numbers(Source.ENCODE, element, ((c.id, len(c.x)) for c in load_encode_cases(element))))
    for element in _list_elements("stochastic"):
        found.update(_spread_numbers(Source.STOCHASTIC, element, ((c.id, len(c.x)) for c in load_stochastic_cases(element))))
    return frozenset(found)


def _spread_blocks(fmt: str) -> Iterator[str]:
    kinds: dict[tuple[bool, str], list[str]] = {}
    for case in load_quantize_cases(fmt):
        for kind in (case.topic, *case.flags):
            kinds.setdefault((case.tensor is None, kind), []).append(case.id)
    for members in kinds.values():
        yield from spread(members, BLOCKS_EACH)


def _spread_numbers(source: Source, element: str, cases: Iterable[tuple[str, int]]) -> Iterator[Label]:
    for case, count in cases:
        yield from ((source.value, element, f"{case}[{lane}]") for lane in spread(range(count), NUMBERS_EACH))


def _list_elements(operation: str) -> list[str]:
    names = (name.partition("/") for name in sorted(read_index()["files"]))
    return [file.removesuffix(".json") for folder, _, file in names if folder == operation]


def select(labels: Iterable[Label]) -> Selection:
    """The selection of these labels; files of which none is among them are judged in full."""
    chosen: dict[tuple[str, str], set[str]] = {}
    for kind, fmt, name in labels:
        if kind != Source.DECODE:  # a file is one case
            chosen.setdefault((kind, fmt), set()).add(name)
    return Selection({key: frozenset(names) for key, names in chosen.items()})


def list_unfitted(instances: Iterable[Instance]) -> frozenset[Label]:
    """What the quick level asks if no case is chosen by mutants: the slice, tables of single codes, and the calls that it makes unlisted.

    instances: places whose operations and formats are looked at; found by asking the plain implementation.
    """
    found = set(list_slice())
    places = {(i.operation, i.format): i.profile for i in instances if i.operation not in LAYOUT_OPERATIONS}
    functions = {operation: "stochastic" if operation == "encode_stochastic" else operation for operation, _ in places}
    listed = dict(select(found).labels) | {(CALLS, f"{functions[o]}/{fmt}"): frozenset[str]() for o, fmt in places}
    with use_selection(Selection(listed)):
        for (operation, fmt), profile in places.items():
            target = build_target(operation, profile)
            target.SR_BITS = 32
            found |= judge_target(target, operation, fmt, profile).asked
    return frozenset(found)
