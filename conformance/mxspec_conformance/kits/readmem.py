"""Blocks for `$readmemh`, the answers that are right, and what both find: bins of the covergroup, and mutants."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

import mxspec
from mxspec.elements import decode_codes, decode_table
from mxspec.formats import get_block
from mxspec_conformance.kits.choosing import chosen_blocks
from mxspec_conformance.kits.golden import RULES, Block, Kit, find_kills
from mxspec_conformance.kits.hardware import BLOCK_TOPICS
from mxspec_conformance.mutants import list_mutants
from mxspec_conformance.mutants.instance import default_profile
from mxspec_conformance.mutants.reference import Reference
from mxspec_vectors.cases import QuantizeCase, load_quantize_cases
from mxspec_vectors.export import ANYTHING, Pattern, list_patterns, list_ranges, write_answers

#: Topics of blocks whose answer no text fixes in formats other than OCP's.
_SPECIAL = ("zero-block", "nan", "inf")


def write_readmem(formats: Iterable[str], size: int) -> dict[str, str]:
    """For each format FORMAT.x.hex, k float32 to a line, and FORMAT.RULE.hex for each rule, the answers; blocks without a tensor scale."""
    files: dict[str, str] = {}
    for fmt in formats:
        block, cases = get_block(fmt), {case.id: case for case in load_quantize_cases(fmt)}
        rules = RULES[block.has_tensor_scale]
        chosen = [b for b in chosen_blocks(fmt, size) if "g" not in b]
        chosen += _fill_special(fmt, cases.values(), chosen, rules) if block.has_tensor_scale else []
        about = [f"{fmt}: {_sum_up(fmt, chosen, size)}", "written by mxspec " + mxspec.__version__ + "; data: CC0-1.0"]
        head = [*about, f"{32 * block.k} bits: float32 of lane i [32i+31:32i]; a block to a line"]
        lines = ["".join(f"{w:08x}" for w in b["x"][::-1].tolist()) + f" // {b['i']}" for b in chosen]
        files[f"{fmt}.x.hex"] = "\n".join([*(f"// {line}" for line in head), *lines]) + "\n"
        for rule in rules:
            legal = [(_list_right(cases[b["i"]], fmt, rule, b), _list_open(b, fmt)) for b in chosen]
            files[f"{fmt}.{rule}.hex"] = write_answers(legal, block.k, [f"{about[0]}; answers by {rule}", about[1]])
    return files


def _list_right(case: QuantizeCase, fmt: str, rule: str, b: Block) -> Iterator[Pattern]:
    for answer in case.answers[rule]:
        yield from list_patterns(answer, get_block(fmt), signs=bool(b.get("z")))


def _list_open(b: Block, fmt: str) -> Iterator[Pattern]:
    """As `runtime.closed_blocks`: anything, or the two lowest scales, and zeros."""
    block = get_block(fmt)
    if b.get("o") == 1:
        yield ANYTHING
    if b.get("o") == 2:
        yield 0, 0xFE << 8 * block.k
        magnitude = 0xFF if block.element.twos_complement else 0xFF ^ block.element.sign_bit
        zeros = int.from_bytes(bytes([magnitude] * block.k), "little")
        for scale, counting in list_ranges(0, 0x7F):
            yield scale << 8 * block.k, counting << 8 * block.k | zeros


def _fill_special(fmt: str, cases: Iterable[QuantizeCase], chosen: Sequence[Block], rules: Sequence[str]) -> list[Block]:
    """A block for each special topic that none of `chosen` has; its answer is open."""
    held = {b["p"] for b in chosen}
    rows = [c for c in cases if c.is_row and c.tensor is None and all(rule in c.answers for rule in rules)]
    found = {topic: next((c for c in rows if c.topic == topic), None) for topic in _SPECIAL if topic not in held}
    return [
        {"i": c.id, "p": topic, "x": c.x.reshape(-1).view(np.uint32), "o": 1, "z": 1, "a": []}
        for topic, c in found.items()
        if c is not None
    ]


def _sum_up(fmt: str, chosen: Sequence[Block], size: int) -> str:
    """What blocks are worth: how many there are, the bins that they fill, and the mutants that they find."""
    rule = RULES[get_block(fmt).has_tensor_scale][0]
    met = {topic for b in chosen for topic in find_topics(b["x"], fmt, rule)}
    empty = ", ".join(topic for topic in BLOCK_TOPICS if topic not in met)
    scaled = sum("g" in b for b in chosen_blocks(fmt, size))
    broken = [(m, m.profile or default_profile(fmt)) for m in list_mutants() if fmt in m.formats and "quantize" in m.operations]
    mutants = [(partial(Reference, name, change=m.change, wrap=m.wrap), name) for m, name in broken if name in RULES[fmt == "nvfp4"]]
    kit = Kit(fmt, tuple(b for b in chosen if b["a"]), ())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mutants may overflow
        kills = [find_kills(build, kit, name) for build, name in mutants]
    certain, more = sum(bool(k.blocks) for k in kills), sum(not k.blocks and bool(k.open_blocks) for k in kills)
    return (
        f"{len(chosen)} blocks, {len(met)} of {len(BLOCK_TOPICS)} bins{f' (empty: {empty})' if empty else ''}, kills {certain} of {len(mutants)} mutants, "
        f"{more} more where the answer is left open" + (f"; {scaled} blocks that need a tensor scale are left out" if scaled else "")
    )


def find_topics(words: np.ndarray[tuple[int, ...], np.dtype[np.uint32]], fmt: str, rule: str) -> set[str]:
    """The bins of the covergroup that a block fills, as `mxspec_topics` of mxspec_dpi.c says; quotients are exact here."""
    magnitudes = words & 0x7FFFFFFF
    top = int(magnitudes.max())
    if top >= 0x7F800000:
        return {name for name, met in (("nan", top > 0x7F800000), ("inf", bool((magnitudes == 0x7F800000).any()))) if met}
    block, at = get_block(fmt), int(magnitudes.argmax())
    steps = mxspec.get_profile(rule, fmt).steps(with_tensor_scale=False)

    def quantize(change: int) -> tuple[int, list[int]]:
        moved = words.copy()
        moved[at] = int(moved[at]) + change
        made = mxspec.quantize(moved.view(np.float32)[None], fmt, profile=rule, tensor_scale=None)
        return int(made.scales[0, 0]), made.codes[0].tolist()

    scale, codes = quantize(0)
    met = set()
    if not top:
        met.add("zero-block")
    elif scale in steps.scale.byte_range:
        met.add("scale-clamp")
    if (top < 0x7F7FFFFF and quantize(1)[0] != scale) or (top and quantize(-1)[0] != scale):
        met.add("scale-boundary")
    factor = Fraction(float(decode_codes(scale, block.scale)))
    values = sorted({abs(Fraction(float(v))) for v in decode_table(block.element) if np.isfinite(v)})
    middles = {(a + b) / 2 * factor for a, b in itertools.pairwise(values)}
    for word, code in zip(magnitudes.tolist(), codes, strict=True):
        if not word:
            continue
        below, given, above = (Fraction(float(np.uint32(w).view(np.float32))) for w in (word - 1, word, min(word + 1, 0x7F7FFFFF)))
        if given > values[-1] * factor:
            met.add("overflow")
            continue
        small = code & (block.element.sign_bit - 1) if not block.element.twos_complement else 0
        conditions = {
            "subnormal": 0 < small < 1 << block.element.mantissa_bits, "exact": given / factor in values, "tie-even": given in middles,
            "below-tie": above in middles, "above-tie": below in middles,
        }  # fmt: skip
        met |= {topic for topic, holds in conditions.items() if holds}
    return met | ({"zero-sign"} if (words == 0x80000000).any() else set())
