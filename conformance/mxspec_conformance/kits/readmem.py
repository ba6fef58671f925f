"""Blocks for `$readmemh`: one word to a line, the same line of each file for the same block."""

from __future__ import annotations

from collections.abc import Iterable

from mxspec.formats import get_block
from mxspec_conformance.kits.choosing import chosen_blocks
from mxspec_conformance.kits.golden import RULES, Block
from mxspec_conformance.kits.runtime import answers_of, inputs_of


def write_readmem(formats: Iterable[str], size: int) -> dict[str, str]:
    """For each format: FORMAT.x.hex (k float32 to a line, lane 0 in the low bits), and FORMAT.RULE.hex for each rule: codes, lane 0 in the low
    bits, one to 8 bits, and above them the scale byte. Blocks without a tensor scale, of which a rule has one answer alone.
    """
    files: dict[str, str] = {}
    for fmt in formats:
        blocks = [b for b in chosen_blocks(fmt, size) if "g" not in b and not b.get("o")]
        rules = RULES[get_block(fmt).has_tensor_scale]
        chosen = [b for b in blocks if all(_is_single(b, rule) for rule in rules)]
        files[f"{fmt}.x.hex"] = _lines(("".join(f"{w:08x}" for w in inputs_of(b).view("u4")[::-1].tolist()), b["i"]) for b in chosen)
        for rule in rules:
            files[f"{fmt}.{rule}.hex"] = _lines((_answer(b, rule), b["i"]) for b in chosen)
    return files


def _is_single(block: Block, rule: str) -> bool:
    answers = answers_of(block, rule)
    return answers is not None and len(answers) == 1 and not {"t", "m", "n"} & set(answers[0])


def _answer(block: Block, rule: str) -> str:
    (answer,) = answers_of(block, rule) or ()
    return f"{answer['s']:02x}" + bytes.fromhex(answer["c"])[::-1].hex()


def _lines(rows: Iterable[tuple[str, str]]) -> str:
    return "".join(f"{digits} // {name}\n" for digits, name in rows)
