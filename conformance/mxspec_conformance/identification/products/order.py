"""In which order a product is added: what is left of ones next to a large number and its negative."""

from __future__ import annotations

import numpy as np

from mxspec import dot
from mxspec_conformance.identification.products.identity import ProductIdentity
from mxspec_conformance.identification.products.models import Model, simulate
from mxspec_conformance.judge.products.asking import Asker, Question

#: Places along k at which the order of additions is measured.
PLACES = 32


def _order_questions(found: ProductIdentity, k: int, *, near: bool) -> list[Question]:
    """A large number first, its negative at each place in turn, ones at all others."""
    bits = max(found.near_bits or 0, found.far_bits or 0, 8)
    places = list(range(0, k, 1 if near else k // PLACES))[:PLACES]
    large = bits + len(places).bit_length() + 1
    return [dict.fromkeys(places, (1, 0)) | {0: (1, large), at: (-1, large)} for at in places[1:]]


def ask_order(asker: Asker, found: ProductIdentity, k: int) -> None:
    """Enter the answers of neighbours along k, then of places far apart; those that are no whole numbers tell nothing."""
    for near in (True, False):
        answers = asker.ask(_order_questions(found, k, near=near), k)
        if answers is not None and np.isfinite(answers).all() and (answers == np.rint(answers)).all():
            found.order += [int(a) for a in answers]
        found.near_order |= near and bool(found.order)


def model_order(found: ProductIdentity, k: int, model: Model) -> list[int]:
    """The answers of a model to the same questions; none where one is no whole number."""
    answers: list[int] = []
    for near in (True, False) if found.near_order else (False,):
        questions = _order_questions(found, k, near=near)
        values = np.zeros((len(questions), k))
        for row, question in enumerate(questions):
            for place, (number, exponent) in question.items():
                values[row, place] = number * 2.0**exponent
        output = simulate(dot.exact_factor(values), dot.exact_factor(np.ones((1, k))), model)[:, 0]
        if not np.isfinite(output).all() or (output != np.rint(output)).any():
            return []
        answers += [int(a) for a in output]
    return answers
