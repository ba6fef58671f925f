"""Mistakes after the sum: in alpha, beta, C and the bias."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.mistakes.mistake import Mistake


def _options(case: ProductCase, **changed: object) -> ProductCase | None:
    kept = {k: v for k, v in (case.options | changed).items() if v is not None}
    given = {k: v for k, v in case.options.items() if v is not None}
    same = set(kept) == set(given) and all(kept[k] is given[k] for k in kept)
    return None if same else replace(case, options=kept)


def _without(name: str, case: ProductCase) -> ProductCase | None:
    return _options(case, **{name: None}) if name in case.options else None


def _without_beside(name: str, other: str, case: ProductCase) -> ProductCase | None:
    """One is ignored where there is the other, too."""
    return _without(name, case) if other in case.options else None


def _no_c(case: ProductCase) -> ProductCase | None:
    return _options(case, c=None, beta=None) if "c" in case.options else None


def _beta_one(case: ProductCase) -> ProductCase | None:
    return _options(case, beta=1.0) if "c" in case.options else None


def _alpha_on_all(case: ProductCase) -> ProductCase | None:
    alpha = case.options.get("alpha")
    if alpha is None or not {"c", "bias"} & set(case.options):
        return None
    changed = {}
    if "c" in case.options:
        changed["beta"] = case.options["beta"] * alpha
    if "bias" in case.options:
        changed["bias"] = (case.options["bias"].astype(np.float32) * np.float32(alpha)).astype(np.float32)
    return _options(case, **changed)


def _alpha_on_bias(case: ProductCase) -> ProductCase | None:
    if "alpha" not in case.options or "bias" not in case.options:
        return None
    return _options(case, bias=(case.options["bias"].astype(np.float32) * np.float32(case.options["alpha"])).astype(np.float32))


def _bias_twice(case: ProductCase) -> ProductCase | None:
    return _options(case, bias=case.options["bias"] * 2) if "bias" in case.options else None


def _shift_bias(case: ProductCase) -> ProductCase | None:
    return _options(case, bias=np.roll(case.options["bias"], -1)) if "bias" in case.options else None


def _first_bias(case: ProductCase) -> ProductCase | None:
    return _options(case, bias=np.full_like(case.options["bias"], case.options["bias"][0])) if "bias" in case.options else None


def _bias_of_rows(case: ProductCase) -> ProductCase | None:
    if "bias" not in case.options or "c" in case.options:
        return None
    m, n = case.a.shape[0], case.b.shape[0]
    by_row = np.resize(case.options["bias"], m)[:, None] * np.ones((1, n), np.float32)
    return _options(case, bias=None, c=by_row.astype(np.float32), beta=1.0)


def _transposed_c(case: ProductCase) -> ProductCase | None:
    if "c" not in case.options:
        return None
    c = case.options["c"]
    return _options(case, c=np.ascontiguousarray(c.T).reshape(c.shape))


def list_epilogue_mistakes() -> Iterator[Mistake]:
    """Mistakes in what is multiplied with the sum and added to it."""
    for name in ("alpha", "bias"):
        yield Mistake(f"{name} is ignored", partial(_without, name))
    for name, other in (("alpha", "bias"), ("alpha", "c"), ("bias", "c"), ("bias", "alpha")):
        yield Mistake(f"{name} is ignored where there is {other.upper() if other == 'c' else other}", partial(_without_beside, name, other))
    for text, change_case in (
        ("C is ignored", _no_c), ("beta is taken as one", _beta_one), ("alpha multiplies what is added, too", _alpha_on_all),
        ("alpha multiplies the bias, too", _alpha_on_bias), ("the bias is added twice", _bias_twice),
        ("the bias of the next column is added", _shift_bias), ("the first bias is added to every column", _first_bias),
        ("the bias is added along rows", _bias_of_rows), ("C is read transposed", _transposed_c),
    ):  # fmt: skip
        yield Mistake(text, change_case)
