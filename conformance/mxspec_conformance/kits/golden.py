"""The golden vectors' blocks as a kit holds them, and which of them, and which calls, find a mutant out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import ml_dtypes  # noqa: F401  # the runtime looks for it among what is imported
import numpy as np

from mxspec.adjacent import register_named
from mxspec.formats import F32, get_block
from mxspec.profiles import list_profiles
from mxspec_conformance.kits import runtime
from mxspec_vectors.cases import Answer, QuantizeCase, load_quantize_cases
from mxspec_vectors.topics import Level, topic_level

#: What a kit says of a block: see `runtime.failing_blocks`.
Block = dict[str, Any]
#: Rules that a kit knows.
RULES = {
    False: ("mx-floor", "mx-rceil", "mx-even", "mx-ceil"),
    True: ("nvfp4-te", "nvfp4-paper", "nvfp4-exact", "nvfp4-exact-encode", "nvfp4-decode"),
}

#: FP8 in groups: no text fixes its scales, so that its rules are what libraries do with float32 inputs.
GROUPS = ("fp8_e4m3-128-f32", "fp8_e4m3-128")
#: Cases that a tensor scale needs.
FEWEST = 4
#: A NaN in float32 scales, whatever its bits.
_NAN = 0x7FC00000


def rules_of(fmt: str) -> tuple[str, ...]:
    """The rules that a kit of a format knows."""
    register_named([fmt])
    if fmt not in GROUPS:
        return RULES[get_block(fmt).has_tensor_scale]
    return tuple(p.id for p in list_profiles(get_block(fmt)) if p.variant_of is None)


@lru_cache(maxsize=16)
def list_blocks(fmt: str) -> tuple[Block, ...]:
    """The blocks of a format's vectors that a kit may hold.

    Left out, in NVFP4: blocks with NaN or Inf, or of a tensor with one; zeros, whose scale no text fixes; and tensor scales that few cases share,
    as each is a call of its own.
    """
    register_named([fmt])
    cases = [case for case in load_quantize_cases(fmt) if case.is_row and _is_for_kits(case, fmt)]
    shared = Counter(case.tensor for case in cases)
    return tuple(_as_block(case, fmt) for case in cases if shared[case.tensor] >= FEWEST)


def list_flags(fmt: str) -> dict[str, set[str]]:
    """Mistake -> the blocks that are flagged with it."""
    flags: dict[str, set[str]] = {}
    known = {block["i"] for block in list_blocks(fmt)}
    for case in load_quantize_cases(fmt):
        for flag in (case.topic, *case.flags) if case.id in known else ():
            flags.setdefault(flag, set()).add(case.id)
    return flags


def _is_for_kits(case: QuantizeCase, fmt: str) -> bool:
    block = get_block(fmt)
    if not any(r in case.answers for r in rules_of(fmt)):
        return False
    if block.has_tensor_scale:
        special = case.tensor is not None and case.tensor.is_special
        return not special and case.topic not in ("nan", "inf", "zero-block")
    return True


def _is_low_end(case: QuantizeCase, fmt: str) -> bool:
    """Whether a rule gives a MX block the smallest scale: OCP leaves open whether such blocks take the next one, or become zeros."""
    if get_block(fmt).has_tensor_scale or case.topic == "zero-block":
        return False
    return any(answers[0].scale[0] == 0 for rule, answers in case.answers.items() if rule in RULES[False])


def _as_block(case: QuantizeCase, fmt: str) -> Block:
    block = get_block(fmt)
    words = case.x.reshape(-1).view(np.uint32)
    entry: Block = {"i": case.id, "p": case.topic, "x": words, "a": []}
    if case.tensor is not None:
        entry["g"] = {
            "amax": case.tensor.as_dict()["amax"],
            "encode": case.tensor.as_dict()["encode"],
            "decode": case.tensor.as_dict()["decode"],
        }
    if case.topic in ("zero-sign", "zero-block"):
        entry["z"] = 1
    if topic_level(case.topic, "quantize", fmt, described=fmt in GROUPS and case.topic not in ("nan", "inf")) is Level.OPEN:
        entry["o"] = 1
    elif _is_low_end(case, fmt):
        entry["o"] = 2
    groups: dict[int, tuple[list[str], tuple[Answer, ...]]] = {}
    for rule in rules_of(fmt):
        if rule in case.answers:
            answers = case.answers[rule]
            groups.setdefault(id(answers), ([], answers))[0].append(rule)
    entry["a"] = [[rules, [_as_answer(a, block.scale == F32) for a in answers]] for rules, answers in groups.values()]
    if case.topic == "zero-block" and block.scale == F32:  # where 0 / 0 makes zeros NaN, zeros under any number are as right
        zeros = {"s": 0, "t": 0x7F800000, "c": "00" * block.k, "m": "7f" * block.k}
        for _, legal in entry["a"]:
            legal += [zeros] * all(c & 0x7F == 0x7F for c in bytes.fromhex(legal[0]["c"]))
    return entry


def _as_answer(a: Answer, wide: bool) -> dict[str, Any]:
    low, high = (_NAN if wide and int(s[0]) & 0x7FFFFFFF > 0x7F800000 else int(s[0]) for s in (a.scale, a.scale_max))
    entry: dict[str, Any] = {"s": low, "c": a.codes.tobytes().hex()}
    if high != low:
        entry["t"] = high
    if (a.mask != 0xFF).any():
        entry["m"] = a.mask.tobytes().hex()
    if a.nan_lanes:
        entry["n"] = list(a.nan_lanes)
    return entry


@dataclass(frozen=True, slots=True)
class Kills:
    """What finds an implementation out: blocks by their id, and calls as `call:NAME`; those by open choices alone apart."""

    blocks: frozenset[str] = frozenset()
    open_blocks: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()

    @property
    def all(self) -> frozenset[str]:
        """Everything."""
        return self.blocks | self.open_blocks | self.calls


@dataclass(frozen=True, slots=True)
class Kit:
    """Blocks and call patterns of one format."""

    format: str
    blocks: tuple[Block, ...]
    patterns: tuple[str, ...] = field(default=tuple(runtime.PATTERNS))


def find_kills(build: Callable[[], Any], kit: Kit, rule: str) -> Kills:
    """Which blocks and calls of a kit an implementation of a rule fails.

    build: a fresh implementation; each pattern gets its own, so that state does not pass from one to the next.
    """
    fmt = kit.format
    kind = getattr(build(), "TENSOR_SCALE", "amax") or "amax"
    try:
        found = runtime.ask_blocks(build().quantize, fmt, kit.blocks, kind)
        wrong = runtime.failing_blocks(found, fmt, kit.blocks, rule)
        closed = set(runtime.closed_blocks(found, fmt, kit.blocks, wrong))
    except Exception:
        wrong = list(range(len(kit.blocks)))
        closed = {i for i in wrong if not kit.blocks[i].get("o")}
    calls = [name for name in kit.patterns if not call_holds(build, kit, name, kind)]
    return Kills(
        frozenset(kit.blocks[i]["i"] for i in closed),
        frozenset(kit.blocks[i]["i"] for i in wrong if i not in closed),
        frozenset(f"call:{c}" for c in calls),
    )


def call_holds(build: Callable[[], Any], kit: Kit, name: str, kind: str) -> bool:
    """Whether a call pattern gives the answers of a plain call."""
    try:
        return bool(getattr(runtime.Calls(build().quantize, kit.format, kit.blocks, kind), name)())
    except Exception:
        return False


def select(fmt: str, ids: Iterable[str]) -> tuple[Block, ...]:
    """Blocks by their ids, in that order."""
    known = {block["i"]: block for block in list_blocks(fmt)}
    return tuple(known[name] for name in ids)
