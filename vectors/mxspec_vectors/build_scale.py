"""The scale files: every block maximum at which some profile's scale changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.arrays import ARRAYS
from mxspec.blocks import quantize_rows
from mxspec.expressions import evaluate
from mxspec.formats import UE4M3, BlockFormat, get_block, power_of_two
from mxspec.profiles import get_profile
from mxspec.profiles.schema import Profile
from mxspec.scales import log2f_thresholds
from mxspec.stepfunctions import Compute, rule_steps, scale_steps
from mxspec.tensorscale import bind_arrays, derive_tensor_scale
from mxspec_vectors.compact.scales import look_up_scales, read_scale_tables
from mxspec_vectors.document import Document, VectorError, case_id
from mxspec_vectors.entries import cut_chunks, has_level, hex_words, make_header, native_tensor_scale, tensor_scale_entry
from mxspec_vectors.points import FLT_MAX, INF, ORDINARY_AMAXES, QUIET_NAN, TENSOR_AMAXES, bits_value, float_bits, neighbours, walking_ones
from mxspec_vectors.profile_order import list_joined
from mxspec_vectors.recipes import STEP_CASE, bfloat16_magnitudes, neighbours_of
from mxspec_vectors.scale_table import REFUSED, ScaleTable, complete_table, find_dense_steps


def _bind(profile: Profile, entry: dict[str, str] | None) -> dict[str, Any]:
    return {} if entry is None else dict(bind_arrays(profile, native_tensor_scale(profile, entry)))


def _find_changes(fmt: BlockFormat, profile: Profile, entry: dict[str, str] | None, limit: int) -> list[int]:
    """Maxima at which the profile's scale rule changes; none where its bytes wrap.

    Of a profile that tries two scales it is the first one's rule. Of a rule whose byte falls at the end of the range
    (compressed-tensors: 7F for what lies beyond it) v1 holds only the boundaries up to that last byte.
    """
    forms = [form for form in (profile.one_level, profile.two_level) if form is not None]
    if not has_level(profile, two_level=entry is not None) or not all(form.scale.is_monotone for form in forms):
        return []
    form = profile.steps(with_tensor_scale=entry is not None)
    steps = rule_steps(form.scale, fmt, _bind(profile, entry)).below(limit + 1)
    changes: list[int] = steps.rises[steps.at(steps.rises) <= steps.values[-1]].tolist()
    return changes


def _scale_function(fmt: BlockFormat, profile: Profile, entry: dict[str, str] | None) -> Compute | None:
    """Maxima -> the scale bytes of blocks whose other lanes are zero; None where the profile has no such form."""
    if not has_level(profile, two_level=entry is not None):
        return None
    form, bindings = profile.steps(with_tensor_scale=entry is not None), _bind(profile, entry)

    def scale_bytes(bits: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        rows = np.zeros((len(bits), fmt.k), np.uint32)
        rows[:, 0] = bits
        with np.errstate(all="ignore"):
            scales, _ = quantize_rows(rows.view(np.float32), fmt, profile, form, bindings)
        return scales[:, 0]

    return scale_bytes


def build_scale(fmt_name: str) -> Document:
    """The scale file: every block maximum at which some profile's scale changes, with both neighbours.

    The answers are those of a block whose other lanes are zero: where a profile tries two scales, they decide too.
    A case holds boundaries of one profile only, so that a profile that is added later changes no case but its own.
    """
    fmt = get_block(fmt_name)
    profiles = list_joined(fmt)
    settings = _list_settings(fmt)
    tables, numbers = _tabulate(fmt, profiles, settings)
    document = make_header("scale", fmt_name, [p.id for p in profiles], _FLAGS_MX + _FLAGS_NVFP4)
    document["tensor_scales"] = [entry for _, entry in settings]
    document["tables"] = [table.as_dict() for table in tables]
    document["tables_of"] = {p.id: numbers[p.id] for p in profiles}
    document["exhaustive"] = _bfloat16_cases(fmt, settings)
    rows: dict[str, dict[str, Any]] = {}
    for number, (tensor, entry) in enumerate(settings):
        runs = list(_step_runs(profiles, fmt, tensor, entry, [(tables[n], n) for n in _tables_under(numbers, number)]))
        runs += [_Run(chunk) for chunk in cut_chunks(sorted(_scale_details(fmt, tensor)), STEP_CASE)]
        for run in runs:
            key, row = _make_case(fmt, tensor, entry, run)
            rows.setdefault(key, row | {"expect": look_up_scales(document, tables, number, row["amax"])})
    document["cases"] = list(rows.values())
    _check_answers(fmt, profiles, document)
    return document


@dataclass(frozen=True, slots=True)
class _Run:
    """The maxima of one case."""

    amaxes: Sequence[int]
    #: The profile at whose boundaries they lie; None: everybody's.
    of: str | None = None
    #: The recipe that gives them.
    recipe: list[Any] | None = None


_FLAGS_MX = ("scale-rule", "float-log2")
_FLAGS_NVFP4 = ("scale-rounding", "order")
Setting = tuple[int | None, dict[str, str] | None]


def _list_settings(fmt: BlockFormat) -> list[Setting]:
    """The tensor scales under which maxima stand: (the tensor's largest magnitude, its three kinds); None: without one."""
    settings: list[Setting] = [(None, None)]
    if fmt.has_tensor_scale:
        for name in (*ORDINARY_AMAXES, "tiny", "overflow"):
            settings.append((TENSOR_AMAXES[name], tensor_scale_entry(TENSOR_AMAXES[name])))
    return settings


def _tabulate(
    fmt: BlockFormat, profiles: Sequence[Profile], settings: Sequence[Setting]
) -> tuple[list[ScaleTable], dict[str, list[int | None]]]:
    """The distinct tables, and for each profile the number of its table under each tensor scale.

    Tables are numbered profile by profile, so that those of a profile that is added come last.
    """
    tables: list[ScaleTable] = []
    known: dict[bytes, int] = {}
    numbers: dict[str, list[int | None]] = {}
    for profile in profiles:
        mine: list[int | None] = []
        for _, entry in settings:
            table = _find_table(fmt, profile, entry)
            if table is None:
                mine.append(None)
                continue
            key = table.first.tobytes() + table.scale.tobytes()
            if key not in known:
                known[key] = len(tables)
                tables.append(table)
            mine.append(known[key])
        numbers[profile.id] = mine
    return tables, numbers


def _tables_under(numbers: Mapping[str, Sequence[int | None]], setting: int) -> list[int]:
    """The numbers of the tables that some profile has under a tensor scale."""
    return list(dict.fromkeys(n for mine in numbers.values() if (n := mine[setting]) is not None))


def _find_table(fmt: BlockFormat, profile: Profile, entry: dict[str, str] | None) -> ScaleTable | None:
    """Magnitude bits -> the scale bytes of blocks whose other lanes are zero; None where the profile has no such form.

    Zero, infinities and NaN are tested in whole blocks, where rules of their own hold. So are all maxima where the scale is
    not that of one rule: the profile tries two scales, or changes the block first.
    """
    function = _scale_function(fmt, profile, entry)
    if function is None:
        return None
    scale = None if entry is None else native_tensor_scale(profile, entry)
    form = profile.steps(with_tensor_scale=scale is not None)
    if form.alternative is None and form.normalize is None:
        steps = scale_steps(profile, fmt, scale)
    else:
        steps = find_dense_steps(function)

    def special(bits: int) -> int:
        rows = np.zeros((1, fmt.k), np.uint32)
        rows[0, 0] = bits
        try:
            return int(mxspec.quantize(rows.view(np.float32), fmt, profile=profile, tensor_scale=scale).scales[0, 0])
        except ValueError:
            return REFUSED

    return complete_table(steps, at_zero=special(0), at_inf=special(INF), at_nan=special(QUIET_NAN))


def _step_runs(
    profiles: Sequence[Profile],
    fmt: BlockFormat,
    tensor: int | None,
    entry: dict[str, str] | None,
    tables: Sequence[tuple[ScaleTable, int]],
) -> Iterator[_Run]:
    """The maxima at which some profile's scale changes, in runs of one profile's."""
    limit = FLT_MAX if tensor is None else min(tensor, FLT_MAX)
    done: set[tuple[int, ...]] = set()
    for profile in profiles:
        steps = tuple(_find_changes(fmt, profile, entry, limit))
        if steps in done:
            continue
        done.add(steps)
        place = next(((n, *found) for table, n in tables if (found := table.find_slice(steps)) is not None), None)
        for part, chunk in enumerate(cut_chunks(neighbours_of(steps, limit), STEP_CASE)):
            yield _Run(chunk, profile.id, None if place is None else ["steps", *place, part])


def _make_case(fmt: BlockFormat, tensor: int | None, entry: dict[str, str] | None, run: _Run) -> tuple[str, dict[str, Any]]:
    """A case's id and the case without its answers: maxima under one tensor scale."""
    question: dict[str, Any] = {} if entry is None else {"tensor_scale": entry}
    question["amax"] = hex_words(run.amaxes, 8)
    identity = {"operation": "scale", "format": fmt.name, **question}
    key = case_id(f"scale-{_name(tensor)}-{run.amaxes[0]:08x}", identity)
    why = {"of": run.of} if run.of is not None else {}
    how = {"recipe": run.recipe} if run.recipe is not None else {}
    return key, {"id": key, "topic": _topic(fmt), "flags": list(_flags(fmt)), **why, **question, **how}


def _name(tensor: int | None) -> str:
    return "one-level" if tensor is None else f"t{tensor:08x}"


def _topic(fmt: BlockFormat) -> str:
    """A scale of few significant bits has ties between its codes; one of exponents has boundaries."""
    return "scale-tie" if fmt.scale.mantissa_bits else "scale-boundary"


def _flags(fmt: BlockFormat) -> tuple[str, ...]:
    return _FLAGS_NVFP4 if fmt.scale.mantissa_bits else _FLAGS_MX


def _bfloat16_cases(fmt: BlockFormat, settings: Sequence[Setting]) -> list[dict[str, Any]]:
    """All bfloat16 magnitudes as block maxima, under each tensor scale: cases whose inputs and answers are computed."""
    topics = {"finite": _topic(fmt), "zero": "zero-block", "inf": "inf", "nan": "nan"}
    rows = []
    for number, (tensor, entry) in enumerate(settings):
        for kind, topic in topics.items():
            question: dict[str, Any] = {} if entry is None else {"tensor_scale": entry}
            question["amax"] = bfloat16_magnitudes(kind).astype(">u4").tobytes().hex()
            identity = {"operation": "scale", "format": fmt.name, **question}
            key = case_id(f"bfloat16-{_name(tensor)}-{kind}", identity)
            rows.append({"id": key, "topic": topic, "flags": list(_flags(fmt)), "tensor": number, "recipe": ["bfloat16", kind]})
    return rows


def _check_answers(fmt: BlockFormat, profiles: Sequence[Profile], document: Document) -> None:
    """Raise VectorError where a table is not exact at a maximum that the file holds."""
    tables = read_scale_tables(document)
    for number, entry in enumerate(document["tensor_scales"]):
        asked = [case["amax"] for case in document["cases"] if case.get("tensor_scale") == entry]
        amaxes = np.unique(np.frombuffer(bytes.fromhex("".join(asked)), ">u4").astype(np.uint32))
        for profile in profiles:
            mine = document["tables_of"][profile.id][number]
            function = _scale_function(fmt, profile, entry)
            if function is None or mine is None:
                continue
            wrong = np.flatnonzero(tables[mine].at(amaxes) != function(amaxes.astype(np.int64)))
            if len(wrong):
                raise VectorError(
                    f"scale/{fmt.name}.json: the table of {profile.id} is wrong at {len(wrong)} maxima, "
                    f"{amaxes[wrong[0]]:08x} among them; ask its function at more places in scale_table.py"
                )


def _scale_details(fmt: BlockFormat, tensor: int | None) -> set[int]:
    """Maxima that one bit of the significand puts beyond a boundary, each bit in turn; for MX also those at which a float
    log2 rounds to another integer, down to subnormal numbers, where no bisection finds them if the scale byte wraps."""
    if fmt == get_block("nvfp4"):
        return _nvfp4_scale_details(tensor)
    element = fmt.element
    significand = float_bits(element.max_value / power_of_two(element.emax))
    points = {start + (1 << j) for start in (float_bits(1), significand) for j in range(23)}
    first, last = log2f_thresholds()
    for exponent in (-141, -130, -129, -128, -127, -126, -3, 5, 64, 126):
        for threshold in (first[exponent + 149], last[exponent + 149]):
            points.update(neighbours(float_bits(Fraction(float(threshold)))))
    return {b for b in points if 0 < b <= FLT_MAX}


def _nvfp4_scale_details(tensor: int | None) -> set[int]:
    if tensor not in (None, TENSOR_AMAXES["odd"]):
        return set()
    points: set[int] = set()
    for name in ("nvfp4-te", "nvfp4-paper"):
        value = _scale_value(get_profile(name, "nvfp4"), tensor)
        unit = Fraction(1) if tensor is None else bits_value(tensor) / 2688
        for bits in walking_ones(UE4M3):
            near = float_bits(6 * bits_value(bits) * unit) + np.arange(-6, 7)
            reached = value(near.astype(np.uint32)) == bits
            points.update(int(b) for b in near[reached][:1])
        for largest in (240, 464) if tensor is None else ():  # one step beyond what e4m3 variants and casts overflow at
            near = float_bits(6 * largest) + np.arange(-6, 7)
            reached = value(near.astype(np.uint32)) == float_bits(largest) + 1
            points.update(int(b) for b in near[reached][:1])
    if tensor is None:  # around what e4m3 rounds to its largest value, and beyond
        for largest in (240, 448, 456, 464, 480, 512):
            points.update(neighbours(float_bits(6 * largest)))
    return points


def _scale_value(profile: Profile, tensor: int | None) -> Callable[[npt.NDArray[np.uint32]], npt.NDArray[np.uint32]]:
    """Bits of the number that becomes the scale byte, as a function of the maximum's bits."""
    form = profile.steps(with_tensor_scale=tensor is not None)
    bindings: dict[str, Any] = {} if tensor is None else dict(bind_arrays(profile, derive_tensor_scale(tensor, profile)))

    def value(bits: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        values: npt.NDArray[np.float32] = evaluate(form.scale.value, {**bindings, "amax": bits.view(np.float32)}, ARRAYS)
        return values.view(np.uint32)

    return value
