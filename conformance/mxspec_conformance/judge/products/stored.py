"""One output of a product as JSON, operands and all: in results, in files of `mxspec fuzz --out`, and read by `mxspec explain`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.dot import ACCUMULATORS, OUTPUTS, OperandContract
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.reference import make_factor, read_contract
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.errors import BadReturn
from mxspec_conformance.targets.operands import Numbers, read_numbers
from mxspec_conformance.transports.wire import read_array, write_array, write_float
from mxspec_vectors.topics import TOPICS

SCHEMA = "mxspec-product/1"
#: Bytes of operands beyond which a product is not stored in a result.
MAX_BYTES = 1 << 20
_FLOAT = re.compile(r"[0-9a-f]{8}")
#: Members of `Numbers.as_data`.
_PARTS = 7
#: Options of `matmul` -> whether they are arrays.
_OPTIONS = {"alpha": False, "beta": False, "c": True, "bias": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProduct:
    """A call of `matmul`, one of its outputs, and how it was judged."""

    case: ProductCase
    #: Row and column of the output.
    place: tuple[int, int]
    accumulator: str
    contract: OperandContract
    #: What was returned at that place, of `case.out_dtype`; None: nothing was.
    returned: npt.NDArray[Any] | None = None


def store_product(stored: StoredProduct) -> dict[str, Any] | None:
    """The JSON form; None where the operands are larger than a result should be."""
    case = stored.case
    parts = [p for side in (case.a, case.b) for p in side.as_data() if isinstance(p, np.ndarray)]
    parts += [v for v in case.options.values() if isinstance(v, np.ndarray)]
    if sum(p.nbytes for p in parts) > MAX_BYTES:
        return None
    return {
        "schema": SCHEMA, "topic": case.topic, "label": case.label, "a": _write_side(case.a), "b": _write_side(case.b),
        "out_dtype": case.out_dtype, "options": {k: _write(v) for k, v in case.options.items()},
        "before": list(case.before), "output": list(stored.place), "accumulator": stored.accumulator,
        "contract": stored.contract.text, "returned": None if stored.returned is None else _write(stored.returned.reshape(1)),
    }  # fmt: skip


def _write_side(numbers: Numbers) -> list[Any]:
    return [_write(part) for part in numbers.as_data()]


def _write(part: Any) -> Any:
    if isinstance(part, np.ndarray):
        return write_array(part, "hex")
    return write_float(part) if isinstance(part, float) else part


def read_product(document: Any, where: str) -> StoredProduct:
    """Inverts `store_product`. where: what the document is called in messages.

    Raises ValueError, saying what is wrong, for what is no stored product.
    """
    if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
        raise ValueError(f"{where} is no product of {SCHEMA}")
    try:
        a, b = (_read_side(document[name], f"{where}: {name}") for name in ("a", "b"))
        options = {str(k): _read_option(str(k), v, where) for k, v in dict(document["options"]).items()}
        topic, out_dtype, accumulator = (document[name] for name in ("topic", "out_dtype", "accumulator"))
        for name, value, known in (
            ("topic", topic, TOPICS), ("out_dtype", out_dtype, OUTPUTS), ("accumulator", accumulator, ACCUMULATORS)
        ):  # fmt: skip
            if not isinstance(value, str) or value not in known:
                raise ValueError(f"{where}: {name} is {value!r}; allowed are {', '.join(known)}")
        case = ProductCase(
            topic=topic, label=str(document["label"]), a=a, b=b, out_dtype=out_dtype, options=options,
            before=tuple(map(str, document["before"])),
        )  # fmt: skip
        place = tuple(document["output"])
        _check_sizes(case, place, where)
        returned = None if document["returned"] is None else _read(document["returned"], f"{where}: returned")
        if returned is not None and (returned.shape != (1,) or returned.dtype != DTYPES[out_dtype]):
            raise ValueError(f"{where}: returned is {returned.dtype} {list(returned.shape)}; one {out_dtype} is stored there")
        return StoredProduct(
            case=case, place=(int(place[0]), int(place[1])), accumulator=accumulator,
            contract=read_contract(document["contract"], (a.spec, b.spec)), returned=returned,
        )  # fmt: skip
    except (KeyError, TypeError, IndexError, AssertionError, AttributeError) as error:
        raise ValueError(f"{where} is not whole: {type(error).__name__} {error}") from None


def _read_side(parts: Any, where: str) -> Numbers:
    if not isinstance(parts, list) or len(parts) != _PARTS:
        raise ValueError(f"{where} is not whole: a side is a list of {_PARTS} parts")
    numbers = read_numbers([_read(part, where) for part in parts])
    make_factor(numbers)  # which checks dtypes, shapes and codes
    return numbers


def _read(part: Any, where: str) -> Any:
    if not isinstance(part, Mapping):
        return part
    if set(part) == {"float32"}:
        if not (isinstance(part["float32"], str) and _FLOAT.fullmatch(part["float32"])):
            raise ValueError(f"{where}: {part['float32']!r} is not the eight hex digits of a float32")
        return float(np.uint32(int(part["float32"], 16)).view(np.float32))
    try:
        return read_array(part, where)
    except BadReturn as error:
        raise ValueError(str(error)) from None


def _read_option(name: str, value: Any, where: str) -> Any:
    if name not in _OPTIONS:
        raise ValueError(f"{where}: {name!r} is no option of matmul; known are {', '.join(_OPTIONS)}")
    found = _read(value, f"{where}: {name}")
    if isinstance(found, np.ndarray) is not _OPTIONS[name] or not isinstance(found, (np.ndarray, float)):
        raise ValueError(f"{where}: {name} is {'an array' if _OPTIONS[name] else 'one float32'}")
    return found


def _check_sizes(case: ProductCase, place: tuple[Any, ...], where: str) -> None:
    (m, k), (n, other) = case.a.shape, case.b.shape
    if k != other:
        raise ValueError(f"{where}: a has k = {k} and b has k = {other}; both sides of a product have one k")
    if len(place) != 2 or not all(type(i) is int and 0 <= i < size for i, size in zip(place, (m, n), strict=True)):
        raise ValueError(f"{where}: output {list(place)} is none of a product of {m} x {n}")
    for name, shape in (("c", (m, n)), ("bias", (n,))):
        if name in case.options and case.options[name].shape != shape:
            raise ValueError(f"{where}: {name} has shape {list(case.options[name].shape)}; it needs {list(shape)}")
