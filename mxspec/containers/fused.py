"""Layers that loaders join into one, by the end of their names: they need one tensor scale."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

FUSED = (
    re.compile(r"^(.*)\b(q_proj|k_proj|v_proj)$"),
    re.compile(r"^(.*)\b(gate_proj|up_proj)$"),
    re.compile(r"^(.*)\b(w1|w3)$"),
    re.compile(r"^(.*)\b(attn_q|attn_k|attn_v)$"),
    re.compile(r"^(.*)\b(ffn_gate|ffn_up)$"),
)


def name_fusion(base: str) -> object:
    """What bases that loaders join have in common; for any other base, itself."""
    for number, pattern in enumerate(FUSED):
        found = pattern.match(base)
        if found:
            return number, found[1]
    return base


def list_fused(bases: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """For each base those that are joined with it, itself included."""
    joined: dict[object, list[str]] = defaultdict(list)
    names = list(bases)
    for base in names:
        joined[name_fusion(base)].append(base)
    return {base: tuple(joined[name_fusion(base)]) for base in names}
