"""Blocks for `$readmemh`, the answers that are right, and what both find: bins of the covergroup, and mutants."""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.dot import ACCUMULATORS, block_factor, get_accumulator, simulate_product
from mxspec.elements import decode_codes, decode_table
from mxspec.formats import BlockFormat, get_block
from mxspec_conformance.kits import runtime
from mxspec_conformance.kits.choosing import chosen_blocks
from mxspec_conformance.kits.golden import RULES, Block
from mxspec_conformance.kits.hardware import UNITS
from mxspec_conformance.mutants import list_mutants
from mxspec_conformance.mutants.instance import default_profile
from mxspec_conformance.mutants.reference import Reference
from mxspec_vectors.cases import DotOperand, QuantizeCase, load_dot_cases, load_quantize_cases
from mxspec_vectors.export import Memory, Pattern, list_answers, list_inputs, list_legal, write_index
from mxspec_vectors.topics import BLOCK_TOPICS

#: Codes and scales, uint8 [rows, ...].
Operand = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]
#: Bits, and the mask of those that count.
Patterns = Sequence[Pattern]
#: Products of a sum in FORMAT.dot.hex, and the code of a scale of one.
_PRODUCTS = 256
#: Rows of an operand among which the outputs are chosen.
_ROWS = 32
#: Sums of wide range.
_WIDE = 12
_ONE = {"e8m0": 127, "ue4m3": 0x38}
#: Topics of blocks whose answer no text fixes in formats other than OCP's.
_SPECIAL = ("zero-block", "nan", "inf")


def write_readmem(formats: Iterable[str], size: int) -> dict[str, str]:
    """FORMAT.x.hex, k float32 to a line, and FORMAT.RULE.hex for each rule, the answers, and FORMAT.dot.hex, sums by each class of fused units; an
    index of all. Of blocks that need a tensor scale there is none."""
    files: dict[str, Memory] = {}
    topics: dict[str, list[str]] = {}
    written = "written by mxspec " + mxspec.__version__ + "; data: CC0-1.0"
    for fmt in formats:
        block, cases = get_block(fmt), {case.id: case for case in load_quantize_cases(fmt)}
        rules = RULES[block.has_tensor_scale]
        chosen = [b for b in chosen_blocks(fmt, size) if "g" not in b]
        chosen += _fill_special(fmt, cases.values(), chosen, rules) if block.has_tensor_scale else []
        about = f"{fmt}: {_sum_up(fmt, chosen, size)}"
        files[f"{fmt}.x.hex"] = list_inputs(
            [b["x"].tolist() for b in chosen], [b["i"] for b in chosen], [about, f"{written}; float32 bits, a block to a line"]
        )
        topics[f"{fmt}.x.hex"] = [b["p"] for b in chosen]
        for rule in rules:
            legal = [list_legal(cases[b["i"]], rule, block) for b in chosen]
            files[f"{fmt}.{rule}.hex"] = list_answers(legal, block.k, [f"{about}; answers by {rule}", written])
        files[f"{fmt}.dot.hex"] = _list_sums(block, written)
    index = write_index(files, topics, written)
    return {name: file.text() for name, file in files.items()} | {f"mxspec_{name}": text for name, text in index.items()}


def _list_sums(block: BlockFormat, about: str) -> Memory:
    """Of each golden product of two such operands one output, its first 256 products alone, and more of wide range: those on which units differ most."""
    golden = [c for c in load_dot_cases(f"{block.name}@{block.name}") if c.topic != "zero-block"]
    products = [(c.id, 1, _cut(c.a, block), _cut(c.b, block)) for c in golden]
    products.append(("wide", _WIDE, _draw_wide(block, 0), _draw_wide(block, 1)))
    if not block.has_tensor_scale:
        products.append(("beyond-float32", 1, _pass_largest(block, back=False), _pass_largest(block, back=True)))
    names: list[str] = []
    chosen: list[tuple[Operand, Operand]] = []
    for name, count, a, b in products:
        sums = np.stack([add_products(a, b, block, unit) for unit in UNITS if unit in ACCUMULATORS], axis=-1)
        different = (np.diff(np.sort(sums, axis=-1), axis=-1) != 0).sum(axis=-1)
        for at in np.argsort(-different, axis=None, kind="stable")[:count]:
            i, j = np.unravel_index(at, different.shape)
            names.append(name)
            chosen.append(((a[0][i], a[1][i]), (b[0][j], b[1][j])))
    a, b = ((np.stack([pair[side][0] for pair in chosen]), np.stack([pair[side][1] for pair in chosen])) for side in (0, 1))
    sums = np.stack([add_products(a, b, block, unit).diagonal() for unit in UNITS], axis=-1)
    lines = (
        "".join([*(f"{word:08x}" for word in row[::-1]), *(part.tobytes()[::-1].hex() for part in (*b[::-1], *a[::-1])), f" // {name}"])
        for row, (a, b), name in zip(sums.tolist(), chosen, names, strict=True)
    )
    fields: dict[str, tuple[int, int, int]] = {}
    at = 0
    for side in "ab":
        fields |= {f"{side}_code": (at, 8, _PRODUCTS), f"{side}_scale": (at + 8 * _PRODUCTS, 8, _PRODUCTS // block.k)}
        at += 8 * (_PRODUCTS + _PRODUCTS // block.k)
    fields |= {name: (at + 32 * i, 32, 1) for i, name in enumerate(UNITS)}
    head = f"{block.name}: {len(names)} sums of {_PRODUCTS} products by each unit of mxspec_dot.h, float32 bits"
    return Memory(tuple(lines), fields, (head, about))


def _draw_wide(block: BlockFormat, number: int) -> Operand:
    """Numbers of every code that is one, under scales of 24 binades, or of all binades of NVFP4's."""
    size = _ROWS * _PRODUCTS
    words = np.arange(1 + 2 * number * size, 1 + 2 * (number + 1) * size, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9) >> np.uint64(40)
    finite = np.flatnonzero(np.isfinite(decode_table(block.element))).astype(np.uint8)
    low, high = (1, 127) if block.has_tensor_scale else (115, 139)
    codes = finite[words[:size] % np.uint64(len(finite))].reshape(_ROWS, _PRODUCTS)
    scales = (low + words[size : size + size // block.k] % np.uint64(high - low)).astype(np.uint8)
    return codes, scales.reshape(_ROWS, _PRODUCTS // block.k)


def _pass_largest(block: BlockFormat, *, back: bool) -> Operand:
    """A row of the largest number: its first four products go beyond float32, and its last four go back where the other operand's are negative."""
    values = np.nan_to_num(decode_table(block.element), nan=0, posinf=0, neginf=0)
    codes, scale = np.zeros((1, _PRODUCTS), np.uint8), _ONE[block.scale.name] + 64 - math.frexp(values.max())[1]
    codes[0, [*range(4), _PRODUCTS // 2, *range(_PRODUCTS - 4, _PRODUCTS)]] = values.argmax()
    codes[0, -4:] = values.argmin() if back else values.argmax()
    return codes, np.full((1, _PRODUCTS // block.k), scale, np.uint8)


def _cut(operand: DotOperand, block: BlockFormat) -> Operand:
    """Codes and scales of the first products of the first rows, filled up with zeros under the scale one."""
    rows, k = (min(n, most) for n, most in zip(operand.data.shape, (_ROWS, _PRODUCTS), strict=True))
    codes = np.zeros((rows, _PRODUCTS), np.uint8)
    scales = np.full((rows, _PRODUCTS // block.k), _ONE[block.scale.name], np.uint8)
    assert operand.scales is not None
    codes[:, :k], scales[:, : k // block.k] = operand.data[:rows, :k], operand.scales[:rows, : k // block.k]
    return codes, scales


def add_products(a: Operand, b: Operand, block: BlockFormat, unit: str) -> npt.NDArray[np.uint32]:
    """float32 bits [m, n] of the sums by a unit of mxspec_dot.h; no sum is -0."""
    name = {"float32-chain": "float32-nearest"}.get(unit, unit.removesuffix("-chain"))
    with np.errstate(all="ignore"):
        sums = simulate_product(block_factor(*a, block), block_factor(*b, block), get_accumulator(name), fused=True)
        bits = (sums.astype(np.float32) + np.float32(0)).view(np.uint32)
    return np.where(np.isnan(sums), np.uint32(0x7FC00000), bits)


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
    mutants = [(Reference(name, change=m.change, wrap=m.wrap), name) for m, name in broken if name in RULES[fmt == "nvfp4"]]
    cases = {case.id: case for case in load_quantize_cases(fmt)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mutants may overflow
        kills = Counter(
            _find_kill(mutant, [(b, list_legal(cases[b["i"]], name, get_block(fmt))) for b in chosen], fmt) for mutant, name in mutants
        )
    return (
        f"{len(chosen)} blocks, {len(met)} of {len(BLOCK_TOPICS)} bins{f' (empty: {empty})' if empty else ''}, kills {kills['wrong']} of {len(mutants)} "
        f"mutants of quantizers, {kills['open']} more where the answer is left open; mistakes of calls, such as strides and sizes, are out of reach of blocks"
        + (f"; {scaled} blocks that need a tensor scale are left out" if scaled else "")
    )


def _find_kill(mutant: Reference, blocks: Sequence[tuple[Block, tuple[Patterns, Patterns]]], fmt: str) -> str:
    """Whether a mutant gives a wrong block, or one that differs where the answer is open; "" for neither."""
    try:
        found = runtime.ask_blocks(mutant.quantize, fmt, [b for b, _ in blocks])
    except Exception:
        return "wrong"
    bits = [int.from_bytes(bytes([*codes.tolist(), scale]), "little") for codes, scale in found]
    fits = [
        [any(not (given ^ value) & mask for value, mask in kind) for kind in legal] for given, (_, legal) in zip(bits, blocks, strict=True)
    ]
    return "wrong" if [False, False] in fits else "open" if [False, True] in fits else ""


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
