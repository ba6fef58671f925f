"""Finding a case of the vectors by the name that a report gives it, and calling a target with it again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.formats import BLOCKS, ELEMENTS, SCALES, get_block, get_rows, get_scalar
from mxspec.layouts import get_layout, list_layouts
from mxspec.sparsity import KEPT, SPARSE_FORMATS, SparseFormat, decompress, find_illegal
from mxspec_conformance.counterexample.evidence import show_code
from mxspec_conformance.counterexample.failure import describe_bits
from mxspec_conformance.counterexample.replay_affine import arguments_of, choose_reference, declared_name, find_affine, list_rows
from mxspec_conformance.observations.quantize import tensor_argument
from mxspec_conformance.observations.scale import scale_blocks
from mxspec_conformance.observations.sparse_cases import list_sparse_cases
from mxspec_conformance.observations.tables import load_table_cases, rotated_table
from mxspec_conformance.targets.affine import AFFINE_FUNCTIONS
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.dtypes import cast_input
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import (
    QuantizeCase,
    SparseCase,
    SparseFunction,
    load_encode_cases,
    load_layout_file,
    load_quantize_cases,
    load_scale_cases,
    load_stochastic_cases,
)
from mxspec_vectors.files import VectorError
from mxspec_vectors.tensor_scales import native_scale

#: `ID@variant[lane]`: the dtype, or the rounding, and the lane, where there are any.
_NAME = re.compile(r"(?P<id>[^@\[]+)(?:@(?P<variant>[a-z0-9]+))?(?:\[(?P<lane>\d+)\])?$")
_TABLE = re.compile(r"(?P<table>table-.+?)(?:-scale-(?P<scale>[0-9a-f]{2}))?$")
_CODE = re.compile(r"code-(?P<code>[0-9a-f]{2})$")
DTYPES = ("float32", "float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class FoundCase:
    """A case of one vector file, and which part of it was named."""

    operation: str
    format: str
    topic: str
    id: str
    case: Any
    variant: str = ""
    lane: int | None = None

    def is_asked_of(self, capabilities: Capabilities) -> bool:
        """Whether a target offers what the case needs."""
        function = {"scale": "quantize", "stochastic": "encode_stochastic"}.get(self.operation, self.operation)
        if self.operation == "layout":
            return True
        if self.operation in AFFINE_FUNCTIONS:
            return capabilities.has(self.operation) and declared_name(capabilities, self.format) is not None
        if self.operation == "sparse":
            return capabilities.has(self.case.function.value) and self.format in capabilities.sparse_formats
        known = capabilities.formats if self.operation in ("quantize", "scale", "dequantize") else capabilities.elements
        return capabilities.has(function) and self.format in known


@dataclass(slots=True)
class Replayed:
    """A case, ready to be shown."""

    operation: str
    format: str
    topic: str
    id: str
    profile: str
    input: npt.NDArray[Any]
    facts: dict[str, str] = field(default_factory=dict)
    #: Place, input, expected, returned.
    rows: list[tuple[str, str, str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    differs: bool = False
    #: Whether the target was called, and gave an answer that can be compared.
    has_answer: bool = False


def find_cases(name: str) -> list[FoundCase]:
    """The cases that a report could mean by a name, of every operation and format."""
    return list(_find(name))


def _find(name: str) -> Iterator[FoundCase]:
    if match := _CODE.match(name):
        for fmt in (*ELEMENTS, *SCALES):
            if int(match["code"], 16) < get_scalar(fmt).code_count:
                yield FoundCase("decode", fmt, "code", name, int(match["code"], 16))
        return
    if match := _TABLE.match(name):
        for fmt in BLOCKS:
            for table in _or_nothing(load_table_cases, get_block(fmt).name):
                if table.id == match["table"]:
                    scale = None if match["scale"] is None else int(match["scale"], 16)
                    yield FoundCase("dequantize", fmt, "code" if scale is None else "scale-code", name, table, lane=scale)
        return
    match = _NAME.match(name)
    if match is None:
        return
    wanted, variant = match["id"], match["variant"] or ""
    lane = None if match["lane"] is None else int(match["lane"])
    loaders: tuple[tuple[str, Any, Callable[[str], Any]], ...] = (
        ("quantize", BLOCKS, load_quantize_cases), ("scale", BLOCKS, load_scale_cases),
        ("encode", (*ELEMENTS, *SCALES), load_encode_cases), ("stochastic", ELEMENTS, load_stochastic_cases),
    )  # fmt: skip
    for operation, formats, load in loaders:
        for fmt in formats:
            for case in _or_nothing(load, fmt):
                if case.id == wanted:
                    yield FoundCase(operation, fmt, case.topic, name, case, variant, lane)
    for layout in list_layouts():
        for case in _or_nothing(lambda n: load_layout_file(n).cases, layout.name):
            if case.id == wanted:
                yield FoundCase("layout", layout.name, case.topic, name, case, variant, lane)
    for fmt in SPARSE_FORMATS:
        for case in _or_nothing(list_sparse_cases, fmt):
            if case.id == wanted:
                yield FoundCase("sparse", fmt, case.topic, name, case, variant, lane)

    for operation, fmt, affine_case in find_affine(wanted):
        yield FoundCase(operation, fmt, affine_case.topic, name, affine_case, variant, lane)


def _or_nothing(load: Callable[[str], Any], fmt: str) -> Any:
    """The cases of a file; none where a registered format has no file."""
    try:
        return load(fmt)
    except (VectorError, ValueError, KeyError):
        return ()


def replay_case(found: FoundCase, profile: str | None, session: TargetSession | None) -> Replayed:
    """The input of a case, the answer of a profile, and what a target returns.

    Raises ValueError for a profile that does not know the format.
    """
    ask = {
        "quantize": _replay_quantize, "scale": _replay_scale, "dequantize": _replay_table, "encode": _replay_numbers,
        "stochastic": _replay_numbers, "decode": _replay_code, "layout": _replay_layout, "sparse": _replay_sparse,
        "quantize_affine": _replay_affine, "dequantize_affine": _replay_affine,
    }[found.operation]  # fmt: skip
    return ask(found, profile, session)


def _call(replayed: Replayed, session: TargetSession | None, function: str, *args: Any, **kwargs: Any) -> Any:
    """The target's answer; None where there is none, which is noted."""
    if session is None:
        return None
    try:
        answer = session.call(function, *args, **kwargs)
    except CallError as failure:
        replayed.notes += [f"{failure.kind.value}: {failure}", *failure.detail.splitlines()[-6:]]
        replayed.differs = True
        return None
    replayed.has_answer = True
    return answer


def _name_dtype(found: FoundCase) -> str:
    """The dtype in a name; raises ValueError for what is none."""
    dtype = found.variant or "float32"
    if dtype not in DTYPES:
        raise ValueError(f"{found.id}: {dtype!r} is no input dtype; they are {', '.join(DTYPES)}")
    return dtype


def _list_lanes(found: FoundCase, count: int) -> list[int]:
    """The number in a case's name, or all of the case's numbers; raises ValueError for one that it does not have."""
    if found.lane is not None and found.lane >= count:
        raise ValueError(f"{found.id}: the case has the numbers 0 to {count - 1}; write one of them in brackets, or none")
    return list(range(count)) if found.lane is None else [found.lane]


def _replay_quantize(found: FoundCase, profile: str | None, session: TargetSession | None) -> Replayed:
    case: QuantizeCase = found.case
    fmt = get_rows(found.format)
    chosen = mxspec.default_profile(fmt) if profile is None else mxspec.get_profile(profile, fmt)
    dtype = _name_dtype(found)
    shown = Replayed("quantize", fmt.name, case.topic, found.id, chosen.id, cast_input(case.x, dtype))
    shown.facts = {"shape": "x".join(map(str, case.x.shape)), "dtype": dtype}
    if case.tensor is not None:
        shown.facts["tensor scale"] = ", ".join(f"{k} 0x{v}" for k, v in case.tensor.as_dict().items())
    options: dict[str, Any] = {"axis": case.axis, "pad": case.pad, "block": case.block}
    given = {k: v for k, v in options.items() if v not in (-1, False, None)}
    shown.facts |= {k: str(v) for k, v in given.items()}
    shown.facts["profiles that answer"] = str(len(case.answers))
    with np.errstate(all="ignore"):
        t = mxspec.quantize(case.x, fmt, profile=chosen, tensor_scale=native_scale(chosen, case.tensor), **options)
    extra = {} if session is None else tensor_argument(case.tensor, session.capabilities)
    answer = _call(shown, session, "quantize", shown.input, fmt.name, **given, **extra)
    legal = case.answers.get(chosen.id, ())
    if len(legal) > 1:
        shown.facts["legal answers"] = str(len(legal))
    _list_rows(shown, "scale", [""] * t.scales.size, t.scales, None if answer is None else answer[1])
    padded = np.pad(case.x, [(0, n - m) for n, m in zip(t.codes.shape, case.x.shape, strict=True)])
    inputs = [describe_bits(float(v)) for v in padded.reshape(-1)]
    _list_rows(shown, "code", inputs, t.codes, None if answer is None else answer[0])
    return shown


def _list_rows(shown: Replayed, what: str, inputs: list[str], want: Any, got: Any) -> None:
    """One row for each item: those that differ, and the first of the others."""
    want_flat = np.asarray(want).reshape(-1)
    got_flat = None if got is None else np.asarray(got).reshape(-1)
    for i, code in enumerate(want_flat.tolist()):
        differs = got_flat is not None and int(got_flat[i]) != code
        shown.differs |= differs
        if differs or i < 64:
            returned = "" if got_flat is None else f"{int(got_flat[i]):02x}"
            shown.rows.append((f"{what} {i}", inputs[i], f"{code:02x}", returned))
    if len(want_flat) > 64:
        shown.notes.append(f"{len(want_flat)} {what}s in all; --out writes the input")


def _replay_scale(found: FoundCase, profile: str | None, session: TargetSession | None) -> Replayed:
    case, fmt = found.case, get_rows(found.format)
    lanes = _list_lanes(found, len(case.amax))
    if found.lane is not None:
        case = case.keep(lanes)
    blocks = scale_blocks(case, fmt.k)
    dtype = _name_dtype(found)
    chosen = mxspec.default_profile(fmt) if profile is None else mxspec.get_profile(profile, fmt)
    shown = Replayed("scale", fmt.name, case.topic, found.id, chosen.id, cast_input(blocks, dtype))
    shown.facts = {"blocks": f"one for each of {len(case.amax)} maxima; the other lanes are +0"}
    if case.tensor is not None:
        shown.facts["tensor scale"] = ", ".join(f"{k} 0x{v}" for k, v in case.tensor.as_dict().items())
    expected = case.answers.get(chosen.id)
    if expected is None:
        raise ValueError(f"profile {chosen.id} says nothing of case {case.id}")
    extra = {} if session is None else tensor_argument(case.tensor, session.capabilities)
    answer = _call(shown, session, "quantize", shown.input, fmt.name, **extra)
    inputs = [describe_bits(float(v)) for v in case.amax.view(np.float32)]
    _list_rows(shown, "scale", inputs, expected, None if answer is None else answer[1])
    return shown


def _replay_table(found: FoundCase, profile: str | None, session: TargetSession | None) -> Replayed:
    table, fmt = found.case, get_block(found.format)
    codes, scales = rotated_table(fmt)
    rows = np.ones(len(scales), bool) if found.lane is None else scales == found.lane
    codes, scales = codes[rows], scales[rows]
    chosen = mxspec.default_profile(fmt) if profile is None else mxspec.get_profile(profile, fmt)
    shown = Replayed("dequantize", fmt.name, found.topic, found.id, chosen.id, codes)
    if table.tensor is not None:
        shown.facts["tensor scale"] = ", ".join(f"{k} 0x{v}" for k, v in table.tensor.as_dict().items())
    with np.errstate(all="ignore"):
        want = mxspec.dequantize(codes, scales[:, None], fmt, profile=chosen, tensor_scale=native_scale(chosen, table.tensor))
    extra = {} if session is None else tensor_argument(table.tensor, session.capabilities)
    got = _call(shown, session, "dequantize", codes, scales[:, None], fmt.name, **extra)
    seen = set()
    for row, lane in np.ndindex(*codes.shape):
        key = int(codes[row, lane]), int(scales[row])
        if key in seen or len(shown.rows) >= 256:
            continue
        seen.add(key)
        returned = "" if got is None else describe_bits(float(got[row, lane]))
        expected = describe_bits(float(want[row, lane]))
        shown.differs |= bool(returned) and returned != expected
        shown.rows.append((f"code {key[0]:02x}", f"scale {key[1]:02x}", expected, returned))
    return shown


def _replay_numbers(found: FoundCase, profile: str | None, session: TargetSession | None) -> Replayed:
    case, fmt = found.case, get_scalar(found.format)
    lanes = _list_lanes(found, len(case.x))
    x = case.x[lanes]
    if found.operation == "stochastic":
        expected, words = case.codes[lanes], case.random_bits[lanes]
        shown = Replayed("stochastic", fmt.name, case.topic, found.id, f"{case.rule.value}, {case.sr_bits} bits", x)
        shown.facts["words"] = " ".join(f"{int(w):08x}" for w in words[:16])
        got = _call(shown, session, "encode_stochastic", x, fmt.name, words)
    else:
        rounding = mxspec.Rounding(found.variant or "rne")
        expected = case.codes[rounding][lanes]
        shown = Replayed("encode", fmt.name, case.topic, found.id, f"rounding {rounding.value}", x)
        offered = () if session is None else session.capabilities.keywords.get("encode", ())
        options = {"rounding": rounding.value, "overflow": case.overflow.value}
        got = _call(shown, session, "encode", x, fmt.name, **{k: v for k, v in options.items() if k in offered})
    for i, code in enumerate(expected.tolist()):
        returned = "" if got is None else show_code(int(got[i]), fmt)
        want = show_code(int(code), fmt)
        shown.differs |= bool(returned) and returned != want
        shown.rows.append((f"number {lanes[i]}", describe_bits(float(x[i])), want, returned))
    return shown


def _replay_code(found: FoundCase, profile: str | None, session: TargetSession | None) -> Replayed:
    codes = np.array([found.case], np.uint8)
    shown = Replayed("decode", found.format, found.topic, found.id, "value", codes)
    want = float(mxspec.decode(codes, found.format)[0])
    got = _call(shown, session, "decode", codes, found.format)
    returned = "" if got is None else describe_bits(float(got[0]))
    shown.differs |= bool(returned) and returned != describe_bits(want)
    shown.rows.append((f"code {found.case:02x}", "", describe_bits(want), returned))
    return shown


def _replay_layout(found: FoundCase, profile: str | None, session: TargetSession | None) -> Replayed:
    case, layout = found.case, get_layout(found.format)
    shown = Replayed("layout", layout.name, case.topic, found.id, layout.name, case.parts[0])
    shown.facts = {"shape": "x".join(map(str, case.shape)), "bytes": str(case.data.size)}
    function = next((f for f in ("pack", "swizzle", "pack_blocks") if session is not None and session.capabilities.has(f)), None)
    got = None if function is None else _call(shown, session, function, *reversed(case.parts), layout.name)
    if got is not None and got.size != case.data.size:
        shown.notes.append(f"{got.size} bytes came back; {case.data.size} were expected")
        shown.differs, shown.has_answer, got = True, False, None
    for i, (byte, mask) in enumerate(zip(case.data.tolist(), case.mask.tolist(), strict=True)):
        differs = got is not None and bool((int(got[i]) ^ byte) & mask)
        shown.differs |= differs
        if differs or i < 32:
            shown.rows.append((f"byte {i}", "", f"{byte & mask:02x}", "" if got is None else f"{int(got[i]) & mask:02x}"))
    return shown


def _replay_affine(found: FoundCase, profile: str | None, session: TargetSession | None) -> Replayed:
    case, reference = found.case, choose_reference(found.operation, found.format, profile, session)
    given = arguments_of(case)
    named = reference if found.operation == "quantize_affine" else f"contract {reference}"
    shown = Replayed(found.operation, found.format, found.topic, found.id, named, given[0][:, : given[0].shape[1] // 3])
    shown.facts = {"call": "the group three times in a row"}
    declared = None if session is None else declared_name(session.capabilities, found.format)
    got = None if declared is None else _call(shown, session, found.operation, *given, declared)
    dtype = "float32"
    if session is not None and got is not None and found.operation == "dequantize_affine":
        dtype = session.call("output_dtype", found.operation, *given, declared)
    rows = list(list_rows(case, reference, got, found.lane, dtype))
    shown.rows = [(row.place, row.given, row.expected, row.returned) for row in rows]
    shown.differs |= got is not None and any(row.returned != row.expected for row in rows if row.expected)
    if found.operation == "quantize_affine":
        shown.notes.append("codes that are right under the scale that is returned pass, too: `mxspec check` judges them")
    return shown


#: Groups in a row, and rows, of the call that replays a sparse case.
_SPARSE_CALL = (32, 32)


def _replay_sparse(found: FoundCase, profile: str | None, session: TargetSession | None) -> Replayed:
    case, fmt = found.case, SPARSE_FORMATS[found.format]
    count = len(case.metadata if case.function is SparseFunction.DECOMPRESS else case.codes)
    index = [found.lane] if found.lane is not None and found.lane < count else list(range(min(count, 64)))
    rows, wide = _SPARSE_CALL
    filled = np.resize(np.array(index), rows * wide)
    shown = Replayed(case.function.value, fmt.name, case.topic, found.id, "expected", _sparse_input(case, index)[0])
    shown.facts = {"groups": f"{len(index)} of {count}", "call": f"{rows} x {wide * fmt.group}, the groups again and again"}
    given = tuple(part.reshape(rows, -1) for part in _sparse_input(case, filled.tolist()))
    shape = ((rows, wide * fmt.group),) if case.function is SparseFunction.DECOMPRESS else ()
    got = _call(shown, session, case.function.value, *given, fmt.name, *shape)
    digits = fmt.codes.digits

    def text(codes: Any) -> str:
        return " ".join(f"{int(c):0{digits}x}" for c in np.atleast_1d(codes))

    for number, i in enumerate(index):
        inputs = " under ".join(text(part[0]) for part in _sparse_input(case, [i]))
        if case.function is SparseFunction.COMPRESS:
            want = f"{text(case.kept[i])}, {int(case.metadata[i]):x}"
            back = "" if got is None else f"{text(got[0].reshape(-1, fmt.group // 2)[number])}, {int(got[1].reshape(-1)[number]):x}"
        else:
            want = _name_patterns(case, i) if case.function is SparseFunction.PRUNE else text(case.codes[i])
            back = "" if got is None else text(got.reshape(-1, fmt.group)[number])
        shown.rows.append((f"group {i}", inputs, want, back))
        shown.differs |= got is not None and not _is_right(case, fmt, i, got, number)
    if case.function is not SparseFunction.DECOMPRESS:
        shown.notes.append("answers are compared by value: any legal choice is right; `mxspec check` judges them")
    return shown


def _is_right(case: SparseCase, fmt: SparseFormat, i: int, got: Any, number: int) -> bool:
    """Whether the answer to a group, of its number in the call, means what it should."""
    if case.function is SparseFunction.COMPRESS:
        kept, nibbles = got[0].reshape(-1, fmt.group // 2)[number], got[1].reshape(-1)[number : number + 1]
        if find_illegal(nibbles).any():
            return False
        back = decompress(kept, nibbles, sparsity=fmt.sparsity)
    else:
        back = got.reshape(-1, fmt.group)[number]
    order = fmt.codes.table
    assert order is not None
    if (back >> fmt.codes.bits).any():
        return False

    def mean(codes: Any) -> list[int]:
        return [0 if order[c] == 0 else int(c) for c in codes]

    if case.function is not SparseFunction.PRUNE:
        return mean(back) == mean(case.codes[i])
    unit = fmt.sparsity.unit
    legal = (kept for n, kept in enumerate(KEPT.values()) if int(case.patterns[i]) >> n & 1)
    return any(mean(back) == mean(c if place // unit in kept else 0 for place, c in enumerate(case.codes[i])) for kept in legal)


def _sparse_input(case: SparseCase, index: list[int]) -> tuple[npt.NDArray[np.uint8], ...]:
    """What a function is given of some groups."""
    parts = (case.kept, case.metadata[:, None]) if case.function is SparseFunction.DECOMPRESS else (case.codes,)
    return tuple(part[index] for part in parts)


def _name_patterns(case: SparseCase, i: int) -> str:
    """The positions that may be kept."""
    legal = [kept for number, kept in enumerate(KEPT.values()) if int(case.patterns[i]) >> number & 1]
    return "keeps " + " or ".join(f"{a},{b}" for a, b in legal)
