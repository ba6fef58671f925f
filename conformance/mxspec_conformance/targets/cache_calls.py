"""A small call of each function on a cache, such as every target answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxspec.attention import parse_attention, parse_cache
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.interface import ATTENTION


def make_cache_call(capabilities: Capabilities, function: str, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A small call on two pages of zeros, of 16 tokens or as many as the target takes."""
    spec = parse_attention(name) if function == ATTENTION else parse_cache(name)
    page, tokens, heads = spec.page or 16, 8, 2
    shape = (page, heads) if spec.ragged else (2, heads, page) if spec.heads_first else (2, page, heads)
    k, v = (np.zeros((*shape, fmt.width(spec.d)), fmt.dtype) for fmt in (spec.k, spec.v))
    numbers = np.ones((tokens, heads, spec.d), DTYPES[capabilities.dtypes[0]])
    table, lengths = np.array([[1]], np.int32), np.array([page], np.int32)
    if function != ATTENTION:
        new = numbers, numbers, np.arange(min(tokens, page), dtype=np.int32)
        return (*(part[:page] for part in new), k, v, name) if function == "append_cache" else (k, v, table, lengths, name), {}
    assert spec.q is not None
    q = numbers.astype(spec.q.dtype) if spec.q.dtype != np.uint8 else np.zeros(numbers.shape, np.uint8)
    options = {} if spec.ragged else {"page_table": table}
    options |= {"q_scale": np.ones(1, np.float32)} if spec.q.takes_scale else {}
    return (q, k, v, np.array([0, tokens], np.int32), lengths, name, capabilities.out_dtypes[0]), options
