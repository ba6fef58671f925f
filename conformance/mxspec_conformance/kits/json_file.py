"""A kit as one JSON file to a format: blocks, legal answers and reasons as text, for tests in any language."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import mxspec
from mxspec_conformance.kits.choosing import say_limits
from mxspec_conformance.kits.golden import Block, rules_of
from mxspec_conformance.kits.runtime import FORMATS
from mxspec_vectors.topics import TOPICS

SCHEMA = "mxspec-kit/1"
#: How the file is read, in the file.
_KEYS = {
    "x": "the block's k float32 inputs as hex bits; W*N is N times W",
    "rules": "numbers of entries of `rules`; a rule that a block does not name says nothing of it. A kernel that follows a rule returns one of the "
    "answers that the rule has for each block",
    "scale": "the scale code in hex, float32 scales as their bits; with `to` any code from scale to `to`",
    "codes": "k element codes, two hex digits each; only bits of `mask` count where there is one",
    "nan": "lanes that may hold any NaN code instead",
    "signs": "the sign of zero counts; in other blocks a code of -0 counts as that of 0",
    "open": "1: OCP leaves the answer open; 2: also right are zeros under a scale up to 7f, and any answer under a scale of 00 or 01",
    "tensor_scale": "float32 bits of the tensor's largest magnitude (amax), of S (encode) and of 1 / S (decode)",
}


def write_json(fmt: str, listed: Sequence[Block]) -> str:
    """The text of a format's file: a head, then one block to a line."""
    f, rules = FORMATS[fmt], list(rules_of(fmt))
    head = {
        "schema": SCHEMA, "license": "CC0-1.0", "about": f"Golden blocks of {fmt}. Written by mxspec {mxspec.__version__}",
        "not_detected": say_limits([fmt], len(listed), calls=False), "format": fmt, "k": f.k, "rules": rules, "keys": _KEYS,
        "topics": {topic: TOPICS[topic] for topic in sorted({b["p"] for b in listed})},
    }  # fmt: skip
    lines = ",\n".join(json.dumps(_as_entry(b, rules, 8 if f.wide else 2), separators=(",", ":")) for b in listed)
    return json.dumps(head, indent=1)[:-2] + f',\n "blocks": [\n{lines}\n]}}\n'


def _as_entry(block: Block, rules: Sequence[str], digits: int) -> dict[str, Any]:
    runs = [(f"{word:08x}", len(list(same))) for word, same in groupby(block["x"].tolist())]
    entry = {"id": block["i"], "topic": block["p"], "x": " ".join(word if n == 1 else f"{word}*{n}" for word, n in runs)}
    if "g" in block:
        entry["tensor_scale"] = block["g"]
    entry |= {name: block[key] for name, key in (("signs", "z"), ("open", "o")) if key in block}
    return entry | {"answers": [_as_answer(a, [rules.index(r) for r in named], digits) for named, legal in block["a"] for a in legal]}


def _as_answer(answer: Mapping[str, Any], rules: Sequence[int], digits: int) -> dict[str, Any]:
    entry = {"rules": rules, "scale": f"{answer['s']:0{digits}x}", "codes": answer["c"]}
    if "t" in answer:
        entry["to"] = f"{answer['t']:0{digits}x}"
    return entry | {name: answer[key] for name, key in (("mask", "m"), ("nan", "n")) if key in answer}
