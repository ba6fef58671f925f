"""A case of affine integers, found by its name and run on a target again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine.contracts import list_contracts
from mxspec.affine.formats import BITS, GROUPS, AffineFormat, Offset, get_affine
from mxspec.affine.profiles import default_affine_profile
from mxspec.elements import round_to
from mxspec.formats import FLOATS
from mxspec_conformance.targets.affine import read_operand
from mxspec_conformance.targets.capabilities import Capabilities
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.affine_cases import AffineGroupCase, AffineStoredCase, load_affine_groups, load_affine_stored
from mxspec_vectors.build_affine import AFFINE_FILES

Values = npt.NDArray[Any]

#: How often the group stands in the row: a target that takes another group's scale takes an equal one.
_ABREAST = 3


@dataclass(frozen=True, slots=True)
class AffineRow:
    """One line: place, input, expected, returned."""

    place: str
    given: str
    expected: str
    returned: str = ""


def find_affine(wanted: str) -> Iterator[tuple[str, str, AffineGroupCase | AffineStoredCase]]:
    """(operation, format, case) of an id: of the formats with files, else of all that checkpoints hold."""
    found = list(_find_in(wanted, AFFINE_FILES))
    # Only what is named as these cases are is worth building the others' cases for.
    if not found and _without_digits(wanted[:-11]) in _list_slugs():
        found = list(_find_in(wanted, _list_others()))
    yield from found


@lru_cache(maxsize=1)
def _list_slugs() -> frozenset[str]:
    ids = [c.id for name in AFFINE_FILES for c in load_affine_groups(name)]
    ids += [c.id for name in AFFINE_FILES for c in load_affine_stored(name)]
    return frozenset(_without_digits(name[:-11]) for name in ids)


def _without_digits(text: str) -> str:
    return re.sub(r"\d+", "", text)


def _list_others() -> Iterator[str]:
    for bits in BITS:
        for group in GROUPS:
            for offset in Offset:
                for dtype in FLOATS:
                    name = AffineFormat(bits=bits, group=group, offset=offset, dtype=dtype).name
                    if name not in AFFINE_FILES:
                        yield name


def _find_in(wanted: str, formats: Any) -> Iterator[tuple[str, str, AffineGroupCase | AffineStoredCase]]:
    for name in formats:
        yield from (("quantize_affine", name, c) for c in load_affine_groups(name) if c.id == wanted)
        yield from (("dequantize_affine", name, c) for c in load_affine_stored(name) if c.id == wanted)


def declared_name(capabilities: Capabilities, fmt: str) -> str | None:
    """How a target declares a format; None where it does not."""
    return next((name for name in capabilities.affine if read_operand(name).format.name == fmt), None)


def choose_reference(operation: str, fmt: str, requested: str | None, session: TargetSession | None) -> str:
    """The profile or contract that is shown: that requested, that claimed, or the format's default.

    Raises ValueError where the format does not have it.
    """
    affine = get_affine(fmt)
    claimed = None
    if session is not None:
        offered = session.capabilities
        claimed = offered.affine_profile if operation == "quantize_affine" else offered.affine_contract
    if operation == "quantize_affine":
        known = list(load_affine_groups(fmt)[0].answers)
        name = requested or claimed or default_affine_profile(affine).id
    else:
        known = [c.name for c in list_contracts(affine)]
        name = requested or claimed or "exact"
    if name not in known:
        raise ValueError(f"{name!r} does not cover {fmt}; there are {', '.join(known)}")
    return name


def arguments_of(case: AffineGroupCase | AffineStoredCase) -> tuple[Values, ...]:
    """The input of the call: the group, several times in a row."""
    if isinstance(case, AffineGroupCase):
        return (np.tile(case.x, _ABREAST)[None],)
    shared = (np.tile(np.asarray(part)[None], _ABREAST)[None] for part in (case.scale, case.offset))
    return (np.tile(case.codes, _ABREAST)[None], *shared)


def list_rows(
    case: AffineGroupCase | AffineStoredCase, reference: str, answer: Any, lane: int | None, dtype: str = "float32"
) -> Iterator[AffineRow]:
    """The lines of a case; answer: what the target returned, or None; dtype: in which it returns values."""
    if isinstance(case, AffineGroupCase):
        right = case.answers[reference]
        got = None if answer is None else (answer[0][0], answer[1][0, 0], answer[2][0, 0])
        for place, number in (("scale", 1), ("offset", 2)):
            wanted = right.scale if place == "scale" else right.offset
            yield AffineRow(place, "", show(wanted), "" if got is None else show(got[number]))
        for i in _lanes(case.x.size, lane, None if got is None else got[0][: case.x.size] != right.codes):
            yield AffineRow(f"{i}", show(case.x[i]), f"{right.codes[i]}", "" if got is None else f"{got[0][i]}")
        return
    values = round_to(case.values[reference].astype(np.float64), dtype).astype(np.float32)
    yield AffineRow("scale", show(case.scale), "", "")
    yield AffineRow("offset", show(case.offset), "", "")
    returned = None if answer is None else answer[0][: values.size]
    for i in _lanes(values.size, lane, None if returned is None else _differ(returned, values)):
        yield AffineRow(f"{i}", f"code {case.codes[i]}", show(values[i]), "" if returned is None else show(returned[i]))


def _differ(a: Values, b: Values) -> Values:
    return np.asarray(~((np.isnan(a) & np.isnan(b)) | (a == b)))


def _lanes(size: int, lane: int | None, differing: Values | None) -> list[int]:
    """One lane, or the first sixteen and sixteen that differ."""
    if lane is not None:
        return [lane] if lane < size else []
    more = [] if differing is None else np.flatnonzero(differing)[:16].tolist()
    return sorted({*range(min(size, 16)), *more})


def show(value: Any) -> str:
    """A float with its bits, or a whole number."""
    array = np.asarray(value)
    if array.dtype == np.uint8:
        return str(int(array))
    width = array.dtype.itemsize
    return f"{float(array.astype(np.float32))!r} ({int(array.view(f'u{width}')):0{2 * width}x})"
