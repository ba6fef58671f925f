"""Acceptance by a cosine of at least 0.99, asked about right formats and about wrong implementations of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import mxspec
from mxspec.formats import get_block
from mxspec_conformance.mutants import list_instances
from mxspec_lab.transformer.measure import Answers, ask, compare, find_error, load_dense
from mxspec_lab.transformer.network import MATRICES, Floats, Tokens

LEAST = 0.99
FORMATS = ("mxfp4", "mxfp8_e4m3")


def list_wrong(parameters: Mapping[str, Floats]) -> Iterator[tuple[str, str, str, dict[str, Floats]]]:
    """Mutants of quantizers whose matrices differ from the right ones: format, id, what it does, matrices."""
    right = {fmt: {name: mxspec.quantize(parameters[name], fmt, profile="mx-floor") for name in MATRICES} for fmt in FORMATS}
    for instance in list_instances():
        fmt = instance.format
        if instance.operation != "quantize" or fmt not in FORMATS or instance.profile != "mx-floor":
            continue
        target = next(iter(instance.build()))
        found: dict[str, Floats] = {}
        differs = False
        for name in MATRICES:
            x = parameters[name]
            codes, scales = target.quantize(x.reshape(-1, get_block(fmt).k).copy(), fmt)
            codes, scales = np.asarray(codes, np.uint8).reshape(x.shape), np.asarray(scales, np.uint8).reshape(x.shape[0], -1)
            differs |= not (np.array_equal(codes, right[fmt][name].codes) and np.array_equal(scales, right[fmt][name].scales))
            found[name] = np.asarray(mxspec.dequantize(codes, scales, fmt), np.float32)
        if differs:
            yield fmt, instance.mutant.id, instance.mutant.what, found


def ask_rule(parameters: Mapping[str, Floats], due: Answers, tokens: Tokens, prompts: int) -> Iterator[dict[str, Any]]:
    """A row for each wrong quantizer that leaves a trace in this model: its cosine, and what it does to the perplexity."""
    for fmt, mutant, what, matrices in list_wrong(parameters):
        with np.errstate(all="ignore"):
            found = compare(ask(load_dense(parameters, matrices), tokens, prompts), due)
        worst = max(find_error(matrices[name], parameters[name]) for name in MATRICES)
        numbers = {key: found[key] if np.isfinite(found[key]) else None for key in ("cosine", "ratio", "ratio_standard_error")}
        yield {
            "format": fmt, "mutant": mutant, "what": what, "weights_nmse": worst if np.isfinite(worst) else None, "accepted": bool(found["cosine"] >= LEAST), **numbers, "greedy_token_match": found["greedy_token_match"],
        }  # fmt: skip
