"""Explanations as plain data."""

from __future__ import annotations

from typing import Any

from mxspec.explain.records import BlockExplanation, LaneExplanation, ScalarExplanation
from mxspec.explain.text import code_text, exact_text, float32_bits
from mxspec.explain.trace import Neighbour, Place, Step
from mxspec.explain.words import scale_words
from mxspec.formats import ScalarFormat
from mxspec.reals import Real


def real_dict(x: Real) -> dict[str, Any]:
    """A number as plain data: its exact text, and float32 bits if float32 holds it."""
    bits = float32_bits(x)
    return {"value": exact_text(x), "bits": None if bits is None else f"{bits:08x}"}


def step_dict(step: Step) -> dict[str, Any]:
    """A step as plain data."""
    return {
        "name": step.name,
        "operation": step.operation,
        "domain": step.domain.value,
        "exact": exact_text(step.exact),
        "result": real_dict(step.result),
    }


def place_dict(place: Place, fmt: ScalarFormat) -> dict[str, Any]:
    """A place as plain data."""

    def near(n: Neighbour | None) -> dict[str, Any] | None:
        if n is None:
            return None
        return {"code": None if n.code is None else code_text(n.code, fmt), "value": exact_text(n.value)}

    return {
        "where": place.where.value,
        "lower": near(place.lower),
        "upper": near(place.upper),
        "midpoint": None if place.midpoint is None else exact_text(place.midpoint),
        "distance": None if place.distance is None else exact_text(place.distance),
    }


def block_dict(e: BlockExplanation) -> dict[str, Any]:
    """An explanation as plain data that JSON holds: bits and codes in hex, numbers as exact decimals."""
    scale, element = e.scale, e.format.element
    return {
        "format": e.format.name,
        "profile": e.profile.id,
        "tensor_scale": None if e.tensor_scale is None else {"kind": e.tensor_scale.kind.value, "bits": f"{e.tensor_scale.bits:08x}"},
        "tensor_steps": [step_dict(s) for s in e.tensor_steps],
        "amax": {**real_dict(e.amax), "lane": e.amax_lane},
        "scale": {
            "rule": scale.rule.step.value,
            "expression": str(scale.rule.value),
            "steps": [step_dict(s) for s in scale.steps],
            "value": real_dict(scale.value),
            "floor_log2": scale.floor_log2,
            "log2": None if scale.log2 is None else exact_text(scale.log2),
            "exponent": scale.exponent,
            "place": None if scale.place is None else place_dict(scale.place, scale.format),
            "code": code_text(scale.code, scale.format),
            "decoded": exact_text(scale.decoded),
            "words": scale_words(e),
        },
        "candidates": [
            {
                "scale": code_text(c.scale_code, scale.format),
                "codes": [code_text(code, element) for code in c.codes],
                "error": exact_text(c.error),
                "chosen": c.chosen,
            }
            for c in e.candidates
        ],
        "shared_steps": [step_dict(s) for s in e.shared_steps],
        "lanes": [_lane_dict(e, lane) for lane in e.lanes],
    }


def _lane_dict(e: BlockExplanation, lane: LaneExplanation) -> dict[str, Any]:
    element = e.format.element
    return {
        "lane": lane.lane,
        "x": {"value": exact_text(lane.x), "bits": f"{lane.bits:08x}"},
        "steps": [step_dict(s) for s in lane.steps],
        "scaled": exact_text(lane.scaled),
        "place": place_dict(lane.place, element),
        "errors": {code_text(code, element): exact_text(error) for code, error in lane.errors},
        "rule": str(lane.rule),
        "code": code_text(lane.code, element),
        "q": exact_text(lane.q),
        "value": {"value": exact_text(lane.value), "bits": f"{lane.value_bits:08x}"},
    }


def scalar_dict(e: ScalarExplanation) -> dict[str, Any]:
    """An explanation of one number as plain data."""
    return {
        "element": e.format.name,
        "rounding": e.rounding.value,
        "overflow": e.overflow.value,
        "nan": e.nan.value,
        "x": {"value": exact_text(e.x), "bits": f"{e.bits:08x}"},
        "place": place_dict(e.place, e.format),
        "rule": str(e.rule),
        "code": code_text(e.code, e.format),
        "value": exact_text(e.value),
    }
