"""One output of a product as text of 80 columns: products and what is cut of them, sums, the epilogue, what is legal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, groupby, product

import numpy as np

from mxspec.dot import EXACTLY, OUTPUTS, OperandContract, OutputExplanation, Special, Step, Term, Why
from mxspec.dot.rounding import DTYPES
from mxspec.enums import StrEnum
from mxspec.sparsity import decompress
from mxspec_conformance.judge.products.editing import place_dense
from mxspec_conformance.targets.operands import Numbers, OperandKind

WIDTH = 80
#: Products that are shown of all, of one step, and steps that are shown; what loses most first.
TERMS, STEP_TERMS, STEPS = 24, 8, 4


class Per(StrEnum):
    """What a line stands for."""

    K = "k"
    BLOCK = "block"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandText:
    """One operand as it is shown."""

    #: The declaration's text, such as mxfp4/nibble-low.
    name: str
    #: For each k the bits: element code and scale code, an affine code, or the float.
    codes: tuple[str, ...]
    #: Elements that share a scale; 0: none do.
    block: int = 0


def describe_operand(numbers: Numbers, row: int) -> OperandText:
    """The bits of one row [k] of an operand; empty where a sparse operand keeps no number."""
    dense = np.ascontiguousarray(place_dense(numbers)[row])
    width = dense.dtype.itemsize
    texts = [f"{bits:0{2 * width}x}" for bits in dense.view(f"u{width}").tolist()]
    run = 0 if numbers.spec.kind is OperandKind.PLAIN else numbers.spec.group
    if numbers.spec.kind is OperandKind.BLOCK:
        assert numbers.scales is not None
        scales = numbers.scales[row].tolist()
        texts = [f"{text}·{scales[k // run]:02x}" for k, text in enumerate(texts)]
    if numbers.metadata is not None:
        assert numbers.spec.sparsity is not None
        mask = np.ones((1, numbers.held.shape[1]), np.bool_)
        kept = decompress(mask, numbers.metadata[row : row + 1], sparsity=numbers.spec.sparsity)[0]
        texts = [text if is_kept else "" for text, is_kept in zip(texts, kept.tolist(), strict=True)]
    return OperandText(name=numbers.spec.text, codes=tuple(texts), block=run)


def number_cell(x: float, width: int = 11) -> str:
    """A number exactly, as a decimal or an odd number times a power of two; where neither fits, a rounded one after a ~."""
    if not np.isfinite(x):
        return "NaN" if np.isnan(x) else f"{'-' * (x < 0)}Inf"
    text = f"{x:.9g}"
    if float(text) == x and len(text) <= width:
        return text
    numerator, denominator = x.as_integer_ratio()
    exponent = 1 - denominator.bit_length()
    while numerator % 2 == 0:
        numerator, exponent = numerator // 2, exponent + 1
    text = f"{'-' * (numerator < 0)}2^{exponent}" if abs(numerator) == 1 else f"{numerator}*2^{exponent}"
    return text if len(text) <= width else f"~{x:.{max(width - 7, 2)}g}"


def _bits(x: float, dtype: str = "float32") -> str:
    with np.errstate(all="ignore"):
        return bytes(np.array([x]).astype(DTYPES[dtype]).tobytes())[::-1].hex()


def explain_product_lines(
    e: OutputExplanation, a: OperandText, b: OperandText, *, contract: OperandContract = EXACTLY, per: Per = Per.K, whole: bool = False
) -> list[str]:
    """The explanation as lines of at most 80 columns.

    whole: show every product that is not zero; else long sums are folded to what loses most, and what is largest.
    """
    lines = [
        *wrap(f"{a.name} @ {b.name}, output [{e.row}, {e.column}] in {e.out_dtype}, k = {e.k}"),
        *wrap(f"{e.accumulator.name}: {e.accumulator.text}"),
    ]
    if contract != EXACTLY:
        lines += wrap(f"contract {contract.text}: numbers are {contract.words}, before they are multiplied")
    if e.parts > 1:
        lines += wrap(f"{e.parts} products of each k: one for each pair of parts (code times scale, offset), pair after pair")
    lines.append("")
    if per is Per.BLOCK:
        lines += _block_lines(e, max(a.block, b.block) or 32, a, b)
    elif e.accumulator.group:
        lines += _group_lines(e, a, b, whole=whole)
    else:
        lines += _addition_lines(e, a, b, whole=whole)
    lines += ["", *_sum_lines(e), *_output_lines(e), "", *_class_lines(e)]
    return [line.rstrip() for line in lines]


def wrap(text: str, indent: str = "  ") -> Iterator[str]:
    """A text as lines of 80 columns."""
    yield from textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]


# Products.


def _choose(terms: Sequence[Term], most: int, *, whole: bool, lost: Sequence[float]) -> set[int]:
    """Places of the terms that are shown: those that lose most, the largest, the first and the last."""
    used = [i for i, t in enumerate(terms) if t.product != 0]
    if whole or len(used) <= most:
        return set(used)
    ordered = sorted(used, key=lambda i: (-abs(lost[i]), -abs(terms[i].product) if np.isfinite(terms[i].product) else -np.inf, i))
    odd = [i for i in used if not np.isfinite(terms[i].product)]
    return set([*odd, used[0], used[-1], *ordered][:most])


def _folded(terms: Sequence[Term], shown: set[int]) -> Iterator[tuple[bool, list[int]]]:
    """Runs of places: shown ones each, others together; zeros belong to neither."""
    used = [i for i, t in enumerate(terms) if t.product != 0]
    for is_shown, run in groupby(used, key=lambda i: i in shown):
        places = list(run)
        yield is_shown or len(places) == 1, places


def _sum(terms: Sequence[Term]) -> float:
    products = [t.product for t in terms]
    if not np.isfinite(products).all():
        return float("nan")
    return float(sum(map(Fraction, products), Fraction()))


def _count(n: int, what: str = "product") -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _widths(a: OperandText, b: OperandText) -> tuple[int, int]:
    """Columns that the codes of each operand take."""
    return max([1, *map(len, a.codes)]), max([1, *map(len, b.codes)])


def _group_lines(e: OutputExplanation, a: OperandText, b: OperandText, *, whole: bool) -> Iterator[str]:
    live = [i for i, s in enumerate(e.steps) if any(t.product != 0 for t in s.terms) or s.before != 0]
    ordered = sorted(live, key=lambda i: (-abs(e.steps[i].lost), i))
    shown = set(live) if whole or len(live) <= STEPS else set([live[0], live[-1], *ordered][:STEPS])
    for is_shown, run in groupby(range(len(e.steps)), key=lambda i: i in shown):
        places = list(run)
        if is_shown:
            for i in places:
                yield from _group_step(i, e.steps[i], a, b, e.accumulator.fraction, whole=whole)
            continue
        steps = [e.steps[i] for i in places]
        used = sum(t.product != 0 for s in steps for t in s.terms)
        where = f"steps {places[0] + 1} to {places[-1] + 1}" if len(places) > 1 else f"step {places[0] + 1}"
        lost = float(sum((s.lost for s in steps), Fraction()))
        yield from wrap(
            f"{where}, k {steps[0].start} to {steps[-1].stop - 1}: {_count(used)}, sum "
            f"{number_cell(steps[0].before)} -> {number_cell(steps[-1].after)}, lost {number_cell(lost)}"
        )


def _group_step(number: int, step: Step, a: OperandText, b: OperandText, fraction: int, *, whole: bool) -> Iterator[str]:
    assert step.top is not None
    assert step.place is not None
    wide = _widths(a, b)
    bits = fraction + 2  # a product's significand is below 4
    yield (f"step {number + 1}, k {step.start} to {step.stop - 1}: largest exponent {step.top}; what lies below 2^{step.place} is cut")
    places = f"2^{step.top + 1}"
    last = f"2^{step.place}"
    gap = max(bits + 1 - len(places) - len(last), 1)
    yield f"    k {'a':<{wide[0]}} {'b':<{wide[1]}} {'product':>11}  exp {places}{'.' * gap}{last}|cut"
    digits = max(WIDTH - (5 + 1 + wide[0] + 1 + wide[1] + 1 + 11 + 1 + 4 + 1 + 1 + bits + 1), 3)
    if step.before:
        yield f"      {'sum before':<{wide[0] + wide[1] + 1}} {number_cell(step.before):>11}      {_window(step.before, step.place, bits, digits)}"
    chosen = _choose(step.terms, STEP_TERMS, whole=whole, lost=[t.cut if np.isfinite(t.product) else 0 for t in step.terms])
    for i in sorted(chosen):
        t = step.terms[i]
        yield (
            f"{t.k:>5} {a.codes[t.k]:<{wide[0]}} {b.codes[t.k]:<{wide[1]}} {number_cell(t.product):>11} {t.exponent:>4} "
            f"{_window(t.product, step.place, bits, digits)}"
        )
    rest = [t for i, t in enumerate(step.terms) if t.product != 0 and i not in chosen]
    if rest:
        lost = float(sum((Fraction(t.cut) for t in rest), Fraction()))
        yield f"    … {_count(len(rest))} more, sum {number_cell(_sum(rest))}, of which {number_cell(lost)} is cut"
    zeros = sum(t.product == 0 for t in step.terms)
    if zeros:
        top = max(t.exponent for t in step.terms if t.product == 0)
        yield f"    … {_count(zeros)} of zero, exponents to {top}"
    text = f"sum after: {number_cell(step.after)} ({_bits(step.after)}), lost {number_cell(float(step.lost))}"
    if step.promoted is not None:
        text += f"; float32 sum {number_cell(step.promoted)}"
    yield from textwrap.wrap(text, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False)


def _window(x: float, place: int, bits: int, most: int) -> str:
    """Sign and bits of a number from a place upward, and behind | those below it."""
    if not np.isfinite(x):
        return f" {number_cell(x):>{bits}}|"
    scaled = abs(Fraction(x)) / Fraction(2) ** place
    whole = int(scaled)
    rest, digits = scaled - whole, ""
    while rest and len(digits) < most - 1:
        rest *= 2
        digits += "1" if rest >= 1 else "0"
        rest -= rest >= 1
    return f"{'-' if x < 0 else ' '}{whole:0{bits}b}|{digits}{'…' if rest else ''}"


def _addition_lines(e: OutputExplanation, a: OperandText, b: OperandText, *, whole: bool) -> Iterator[str]:
    terms = [t for s in e.steps for t in s.terms]
    losses = _losses(terms)
    wide = _widths(a, b)
    yield "one order of the many that the class allows: the first k first, to nearest"
    yield f"    k {'a':<{wide[0]}} {'b':<{wide[1]}} {'product':>11}  exp {'running sum':>20} {'lost':>11}"
    chosen = _choose(terms, TERMS, whole=whole, lost=losses)
    for is_shown, run in _folded(terms, chosen):
        if not is_shown:
            part = [terms[i] for i in run]
            lost = float(sum((Fraction(losses[i]) for i in run), Fraction()))
            yield f"    … {_count(len(part))} of sum {number_cell(_sum(part))}, {number_cell(lost)} is lost"
            continue
        for i in run:
            t = terms[i]
            assert t.total is not None
            yield (
                f"{t.k:>5} {a.codes[t.k]:<{wide[0]}} {b.codes[t.k]:<{wide[1]}} {number_cell(t.product):>11} {t.exponent:>4} "
                f"{number_cell(t.total):>11} {_bits(t.total)} {number_cell(losses[i]) if losses[i] else '-':>11}"
            )
    zeros = sum(t.product == 0 for t in terms)
    if zeros:
        yield f"    … {_count(zeros)} of zero"


def _losses(terms: Sequence[Term]) -> list[float]:
    """What each addition lost, its product's own rounding included."""
    found, before = [], Fraction(0)
    for t in terms:
        assert t.total is not None
        if not (np.isfinite(t.product) and np.isfinite(t.total)):
            found.append(0.0)
            continue
        found.append(float(before + Fraction(t.product) - Fraction(t.total)))
        before = Fraction(t.total)
    return found


def _block_lines(e: OutputExplanation, run: int, a: OperandText, b: OperandText) -> Iterator[str]:
    terms = [t for s in e.steps for t in s.terms]
    losses = [t.cut for t in terms] if e.accumulator.group else _losses(terms)
    yield f"  block {'k':<12} {'scales':<6} {'products':>8} exp {'sum of block':>12} {'running sum':>12} {'lost':>11}"
    totals = dict(zip(accumulate(len(s.terms) for s in e.steps), (s.after for s in e.steps), strict=True))
    for begin, start in product(range(0, len(terms), max(e.k, 1)), range(0, e.k, run)):
        stop = min(start + run, e.k)
        part = terms[begin + start : begin + stop]
        used = [t for t in part if t.product != 0]
        total = part[-1].total if part[-1].total is not None else totals.get(begin + stop)
        scales = " ".join(_find_scale(s.codes[start:stop]) for s in (a, b))
        lost = float(sum((Fraction(x) for x in losses[begin + start : begin + stop]), Fraction()))
        yield (
            f"{start // run:>7} {f'{start} to {stop - 1}':<12} {scales:<6} {len(used):>8} {max(t.exponent for t in part):>3} "
            f"{number_cell(_sum(part), 12):>12} {'' if total is None else number_cell(total, 12):>12} {number_cell(lost) if lost else '-':>11}"
        )


def _find_scale(codes: Sequence[str]) -> str:
    """The scale code of a block, some of whose numbers may be dropped; empty where an operand has none."""
    return next((scale for code in codes if (scale := code.partition("·")[2])), "")


# Sums and outputs.

LABEL = 14


def _fact(label: str, text: str) -> Iterator[str]:
    parts = textwrap.wrap(text, WIDTH - LABEL, break_long_words=False, break_on_hyphens=False) or [""]
    yield f"{label:<{LABEL}}{parts[0]}"
    for part in parts[1:]:
        yield " " * LABEL + part


def _sum_lines(e: OutputExplanation) -> Iterator[str]:
    if e.special is not Special.FINITE:
        words = {Special.NAN: "NaN", Special.PLUS_INF: "plus infinity", Special.MINUS_INF: "minus infinity"}[e.special]
        yield from _fact("sum", f"{words}: a product is NaN or infinite, or infinities cancel")
        return
    text = f"{number_cell(e.exact_sum, 20)} exactly" if e.is_exact else f"{number_cell(e.exact_sum, 20)} is the nearest float64"
    off = Fraction(e.total) - Fraction(e.exact_sum) if np.isfinite(e.total) else Fraction(0)
    ours = f"; here {number_cell(e.total, 20)} ({_bits(e.total)})" + (f", off by {number_cell(float(off), 14)}" if off else "")
    yield from _fact("sum", text + ours)
    if not e.magnitude:
        yield from _fact("certainty", "every product is zero")
        return
    need = f"products are multiples of 2^{e.unit}, their magnitudes sum to {number_cell(e.magnitude, 16)}: {e.bits_needed} bits"
    sure = e.accumulator.sure_bits
    yield from _fact("certainty", f"{need}; the class is sure of {sure}")


def _output_lines(e: OutputExplanation) -> Iterator[str]:
    for step in e.epilogue:
        value = number_cell(step.operand, 14)
        yield from _fact(
            "epilogue", f"{step.words} {value} ({_bits(step.operand)}) = {number_cell(step.result, 16)} ({_bits(step.result)})"
        )
    fmt = OUTPUTS[e.out_dtype]
    rounded = "" if e.output == e.finished or np.isnan(e.output) else f", rounded from {number_cell(e.finished, 16)}"
    yield from _fact("this order", f"{number_cell(e.output, 16)} ({_bits(e.output, e.out_dtype)}){rounded}")
    yield from _fact("rounded once", f"{number_cell(e.expected, 16)} ({_bits(e.expected, fmt.name)}): the exact result in {fmt.name}")
    yield from _fact("legal", _legal_words(e))
    if e.returned is not None:
        verdict = "legal" if e.accepted else "wrong"
        yield from _fact("returned", f"{number_cell(e.returned, 16)} ({_bits(e.returned, e.out_dtype)}): {verdict}{_distance(e)}")


def _distance(e: OutputExplanation) -> str:
    if e.accepted or e.returned is None or not np.isfinite([e.returned, e.low, e.high]).all():
        return ""
    end = e.low if e.returned < e.low else e.high
    if e.low == e.high:
        return f", off by {number_cell(float(Fraction(e.returned) - Fraction(end)), 14)}"
    return f", {number_cell(float(Fraction(e.returned) - Fraction(end)), 14)} beyond the {'lower' if end == e.low else 'upper'} end"


def _interval(low: float, high: float, dtype: str) -> str:
    if low == high:
        return f"{number_cell(low, 16)} ({_bits(low, dtype)})"
    return f"{number_cell(low, 16)} ({_bits(low, dtype)}) to {number_cell(high, 16)} ({_bits(high, dtype)})"


def _legal_words(e: OutputExplanation) -> str:
    if e.why is Why.SPECIAL:
        return {Special.NAN: "NaN alone", Special.PLUS_INF: "Inf alone", Special.MINUS_INF: "-Inf alone"}[e.special]
    if e.why is Why.UNBOUNDED:
        return f"anything: nothing is proven of {e.accumulator.name} here"
    shown = _interval(e.low, e.high, e.out_dtype)
    if e.why is Why.CERTAIN:
        return f"{shown} alone: every order of additions gives it"
    bound = f"interval of {e.accumulator.name}, whose sums are off by at most {number_cell(e.bound, 12)}"
    return f"{shown} alone: the {bound}, rounds to it" if e.why is Why.ONE_OUTPUT else f"{shown}: {bound}"


def _class_lines(e: OutputExplanation) -> Iterator[str]:
    """Runs of classes that say the same are one line."""
    has_returned = e.returned is not None
    yield "under other classes:" if len(e.classes) > 1 else ""
    # What a NaN's interval is says nothing, and a NaN equals no other.
    for _, run in groupby(e.classes, key=lambda c: (c.why, c.accepts, *(() if c.why is Why.SPECIAL else (c.low, c.high)))):
        alike = list(run)
        c = alike[0]
        names = c.accumulator.name if len(alike) == 1 else f"{c.accumulator.name} to {alike[-1].accumulator.name}"
        if c.why is Why.SPECIAL:
            words = "no sum decides"
        elif c.why is Why.UNBOUNDED:
            words = "nothing is proven"
        else:
            words = {Why.CERTAIN: "certain", Why.ONE_OUTPUT: "one output", Why.INTERVAL: "interval"}[c.why]
            words += f", {number_cell(c.low, 13)}" + ("" if c.low == c.high else f" to {number_cell(c.high, 13)}")
        verdict = "" if not has_returned else "; returned is " + ("legal" if c.accepts else "wrong")
        text = f"  {names}: {words}{verdict}"
        yield from wrap(text, "    ")
