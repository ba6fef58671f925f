"""`mxspec explain` of one output of a product: from a result, from a file of `mxspec fuzz --out`, or from arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.affine import Offset
from mxspec.dot import (
    DEFAULT_ACCUMULATOR,
    EXACTLY,
    OUTPUTS,
    PLAIN_DTYPES,
    Accumulator,
    Epilogue,
    OutputExplanation,
    explain_output,
)  # fmt: skip
from mxspec_conformance.cli.explain_input import load_arrays
from mxspec_conformance.cli.explain_result import StoredBlock, find_blocks, list_failures, list_reports
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.reference import make_factor, make_sides, read_contract
from mxspec_conformance.judge.products.stored import SCHEMA, StoredProduct, read_product
from mxspec_conformance.render.product import Per, describe_operand, explain_product_lines
from mxspec_conformance.targets.errors import is_refusal
from mxspec_conformance.targets.operands import Numbers, OperandKind, OperandSpec, parse_product
from mxspec_vectors.reading import read_json

#: Parts of an operand, as arrays are named behind a_ and b_; a plain operand's `values` may be called a or b alone.
_PARTS = tuple(f.name for f in fields(Numbers) if f.name != "spec")
#: What else a file of arrays may hold.
_OTHERS = ("alpha", "beta", "c", "bias", "returned")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductOptions:
    """Options of `mxspec explain` that concern products; None: as stored, or the default."""

    row: int | None = None
    column: int | None = None
    accumulator: str | None = None
    contract: str | None = None
    out_dtype: str | None = None
    per: Per = Per.K
    whole: bool = False


def explain_stored(stored: StoredProduct, options: ProductOptions = ProductOptions()) -> tuple[OutputExplanation, list[str]]:
    """The explanation of one output, and its lines of at most 80 columns.

    Raises ValueError for an output, class or dtype that there is not.
    """
    case = stored.case
    place = tuple(own if given is None else given for own, given in zip(stored.place, (options.row, options.column), strict=True))
    out_dtype = options.out_dtype or case.out_dtype
    contract = read_contract(options.contract, (stored.case.a.spec, stored.case.b.spec)) if options.contract else stored.contract
    a, b = make_sides(case, contract)
    returned = stored.returned if place == stored.place and out_dtype == case.out_dtype else None
    e = explain_output(
        a, b, row=place[0], column=place[1], accumulator=options.accumulator or stored.accumulator, out_dtype=out_dtype,
        epilogue=Epilogue(**case.options), returned=None if returned is None else float(returned[0]),
    )  # fmt: skip
    lines = explain_product_lines(
        e, describe_operand(case.a, e.row), describe_operand(case.b, e.column), contract=contract, per=options.per, whole=options.whole
    )
    return e, lines


def find_products(document: Any, where: str) -> dict[str, StoredProduct]:
    """The stored products of a result, or of a file of products, by requirement id or label."""
    if isinstance(document, Mapping) and document.get("schema") == SCHEMA:
        stored = read_product(document, where)
        return {stored.case.label: stored}
    found: dict[str, StoredProduct] = {}
    if isinstance(document, Mapping) and isinstance(document.get("products"), list):
        for number, one in enumerate(document["products"]):
            stored = read_product(one, f"{where}: product {number}")
            found[f"{number}"] = stored
    for report in list_reports(document):
        for name, first in list_failures(report):
            if isinstance(first.get("product"), Mapping):
                found[name] = read_product(first["product"], f"{where}: {name}")
    return found


def read_stored(path: Path, wanted: Sequence[str]) -> tuple[StoredProduct | StoredBlock, str, list[str]]:
    """One stored product or wrong block of a JSON file, its name, and the names of the others; products come first.

    Raises ValueError for an id that the file does not have.
    """
    document = read_json(path)
    found: dict[str, StoredProduct | StoredBlock] = {**find_products(document, path.name)}
    found |= {name: block for name, block in find_blocks(document).items() if name not in found}
    if not found:
        raise ValueError(
            f"{path.name} holds no wrong product and no wrong block; it takes a result that `mxspec check --json` wrote of a target with a "
            "wrong matmul or quantize, or a file of `mxspec fuzz --out`. A block of your own: `mxspec explain FORMAT VALUES --profile NAME`"
        )
    if len(wanted) > 1:
        raise ValueError(f"{len(wanted)} ids are given; one is explained at a time")
    name = wanted[0] if wanted else next(iter(found))
    if name not in found:
        raise ValueError(f"{path.name} has no product or block {name!r}; it has {', '.join(found)}")
    return found[name], name, [other for other in found if other != name]


def read_arrays(product: str, file: Path | None, named: Sequence[str], options: ProductOptions) -> StoredProduct:
    """The product that arrays make: a .npz, and NAME=FILE.npy.

    Raises ValueError, saying which names are known, for arrays that are missing, unknown, or do not fit.
    """
    spec = parse_product(product)
    arrays: dict[str, Any] = {}
    if file is not None:
        loaded = load_arrays(file, ".npy or .npz")
        if isinstance(loaded, np.ndarray):
            raise ValueError(f"{file.name} holds one array; name it: --array a_codes={file.name}, or save all in one .npz")
        arrays |= loaded
    for text in named:
        name, _, where = text.partition("=")
        if not where:
            raise ValueError(f"--array {text!r} is not NAME=FILE.npy, such as a_codes=codes.npy")
        one = load_arrays(Path(where), ".npy")
        if not isinstance(one, np.ndarray):
            raise ValueError(f"{where} holds several arrays; pass it with --file")
        arrays[name] = one
    known = {f"{side}_{part}" for side in "ab" for part in _PARTS} | set(_OTHERS)
    for side, own in (("a", spec.a), ("b", spec.b)):
        if own.kind is OperandKind.PLAIN and side in arrays:
            arrays[f"{side}_values"] = arrays.pop(side)
    unknown = sorted(set(arrays) - known)
    if unknown:
        raise ValueError(f"unknown array {unknown[0]!r}; known are {', '.join(sorted(known))}")
    sides = [
        _make_operand(own, {p: arrays[f"{name}_{p}"] for p in _PARTS if f"{name}_{p}" in arrays}, name)
        for name, own in (("a", spec.a), ("b", spec.b))
    ]
    out_dtype = options.out_dtype or "float32"
    if out_dtype not in OUTPUTS:
        raise ValueError(f"--out-dtype {out_dtype}: allowed are {', '.join(OUTPUTS)}")
    given: dict[str, Any] = {n: float(np.asarray(arrays[n]).reshape(())) for n in ("alpha", "beta") if n in arrays}
    given |= {n: arrays[n] for n in ("c", "bias") if n in arrays}
    place = (options.row or 0, options.column or 0)
    case = ProductCase(topic="interval", label=product, a=sides[0], b=sides[1], out_dtype=out_dtype, options=given)
    (m, k), (n, other) = sides[0].shape, sides[1].shape
    if k != other:
        raise ValueError(f"a has k = {k} and b has k = {other}; both operands of a product have one k, their last axis")
    for name, shape in (("c", (m, n)), ("bias", (n,)), ("returned", (m, n))):
        if name in arrays and arrays[name].shape != shape:
            raise ValueError(f"{name} has shape {arrays[name].shape}; it needs {shape}")
    returned = None
    if "returned" in arrays and 0 <= place[0] < m and 0 <= place[1] < n:
        returned = _as_float(arrays["returned"], out_dtype, "returned")[place].reshape(1)
    return StoredProduct(case=case, place=place, accumulator=DEFAULT_ACCUMULATOR, contract=EXACTLY, returned=returned)


#: Parts that an operand has to have; a sparse one has metadata, too.
_NEEDED = {OperandKind.PLAIN: ("values",), OperandKind.BLOCK: ("codes", "scales"), OperandKind.AFFINE: ("codes", "scales", "offsets")}


def _make_operand(spec: OperandSpec, parts: dict[str, Any], name: str) -> Numbers:
    needed = (*_NEEDED[spec.kind], *(() if spec.sparsity is None else ("metadata",)))
    needs = f"an operand {spec.text} has {', '.join(f'{name}_{p}' for p in needed)}"
    missing = [part for part in needed if part not in parts]
    if missing:
        raise ValueError(f"{name}_{missing[0]} is missing; {needs}")
    unused = [part for part in parts if part not in needed and (part != "tensor_scale" or spec.kind is not OperandKind.BLOCK)]
    if unused:
        raise ValueError(f"unknown array '{name}_{unused[0]}'; {needs}")
    if spec.kind is OperandKind.PLAIN:
        parts["values"] = _as_float(parts["values"], spec.format, f"{name}_values")
    if spec.kind is OperandKind.AFFINE:
        for part in ("scales", "offsets") if spec.affine.offset is Offset.BIAS else ("scales",):
            parts[part] = _as_float(parts[part], spec.affine.dtype, f"{name}_{part}")
    if "tensor_scale" in parts:
        parts["tensor_scale"] = float(np.asarray(parts["tensor_scale"]).reshape(()))
    numbers = Numbers(spec=spec, **parts)
    try:
        make_factor(numbers)  # which checks dtypes, shapes and codes
    except (TypeError, ValueError) as error:
        if not is_refusal(error):
            raise
        raise ValueError(f"operand {name}: {error}") from error
    return numbers


def _as_float(x: npt.NDArray[Any], dtype: str, name: str) -> npt.NDArray[Any]:
    """The array in its dtype; NumPy saves bfloat16 as raw bytes or as its bits."""
    wanted = PLAIN_DTYPES[dtype]
    if x.dtype == wanted:
        return x
    if dtype == "bfloat16" and (x.dtype == np.uint16 or (x.dtype.kind == "V" and x.dtype.itemsize == 2)):
        return np.ascontiguousarray(x).view(wanted)
    raise ValueError(f"{name} is {x.dtype}; {dtype} is needed{' (or its bits as uint16)' if dtype == 'bfloat16' else ''}")


def explanation_dict(e: OutputExplanation) -> dict[str, Any]:
    """The explanation for JSON; numbers that JSON does not have are texts."""
    document: dict[str, Any] = _plain(asdict(replace(e, steps=())))
    document["steps"] = [_plain(asdict(step)) for step in e.steps]
    return document


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return value["name"] if set(value) == _ACCUMULATOR else {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, Enum):
        return value.name.lower() if isinstance(value, int) else value.value
    if isinstance(value, Fraction):
        return _plain(float(value))
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


_ACCUMULATOR = {f.name for f in fields(Accumulator)}


def dump_explanation(e: OutputExplanation) -> str:
    """The explanation as JSON."""
    return json.dumps(explanation_dict(e), indent=1)
