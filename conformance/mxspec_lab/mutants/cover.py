"""The fewest cases, nearly: a greedy cover of everything that has to be killed."""

from __future__ import annotations

from collections.abc import Iterable

from mxspec.layouts import Layout, list_layouts
from mxspec_conformance.judge.explanation import Explanation
from mxspec_conformance.judge.layout_mistakes import list_alternatives
from mxspec_conformance.judge.stages import Source
from mxspec_conformance.kits.cover import cover_greedily
from mxspec_lab.mutants.judging import Label
from mxspec_vectors.cases import load_layout_file, load_quantize_cases, load_scale_cases


def split_levels(kills: Iterable[Label]) -> list[frozenset[Label]]:
    """Kills by what a target may lack: cases with and without a tensor scale, random words of 32 and of 8 bits.

    A mutant has to be killed by a target's own kind of cases.
    """
    groups: dict[str, set[Label]] = {}
    for label in kills:
        groups.setdefault(_level(label), set()).add(label)
    if len(groups) > 1:  # calls repeat what was answered, whatever that was
        groups.pop("calls", None)
    return [frozenset(members) for members in groups.values()]


_TENSOR_CASES: dict[tuple[str, str], frozenset[str]] = {}


def _level(label: Label) -> str:
    kind, fmt, name = label
    if kind == "calls":
        return "calls"
    if kind == "stochastic":
        return name.split("-")[1]
    if kind == "dequantize":
        return "one-level" if name == "table-one-level" else "two-level"
    if kind in ("quantize", "scale"):
        if (kind, fmt) not in _TENSOR_CASES:
            cases = load_quantize_cases(fmt) if kind == Source.QUANTIZE else load_scale_cases(fmt)
            _TENSOR_CASES[kind, fmt] = frozenset(c.id for c in cases if c.tensor is not None)
        return "two-level" if name.partition("[")[0] in _TENSOR_CASES[kind, fmt] else "one-level"
    return ""


def choose_layout_cases() -> dict[str, list[str]]:
    """For each layout the cases that tell it from every other layout and slip that the judge can name, in either direction."""
    return {layout.name: _cases_of(layout) for layout in list_layouts()}


def _cases_of(layout: Layout) -> list[str]:
    wanted: dict[str | Explanation, set[str]] = {}
    for case in load_layout_file(layout.name).cases:
        wanted.setdefault(f"topic {case.topic}", set()).add(case.id)
        for explanation, data, mask in list_alternatives(layout, case.parts, case.data):
            mask = mask & case.mask if mask.shape == case.mask.shape else mask
            if data.shape != case.data.shape or ((data ^ case.data) & mask).any():
                wanted.setdefault(explanation, set()).add(case.id)
    return sorted(cover_greedily(wanted.values()))
