"""All questions about one product, or about every product of a target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxspec_conformance.identification.products.bits import find_rounding, find_width
from mxspec_conformance.identification.products.comparing import compare_models
from mxspec_conformance.identification.products.identity import ProductIdentity
from mxspec_conformance.identification.products.models import list_models
from mxspec_conformance.identification.products.order import PLACES, ask_order, model_order
from mxspec_conformance.judge.products.asking import Asker
from mxspec_conformance.targets.operands import Product, parse_product
from mxspec_conformance.targets.product_fitting import fit_product
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_conformance.transports.opening import open_target

#: How far places lie apart that no tensor core adds at once.
_APART = 32


def identify_products_of(
    target: Any, *, in_process: bool = False, timeout: float = 60.0, progress: Callable[[str], None] = lambda _: None
) -> list[ProductIdentity]:
    """What is found of every product of a target, in the order in which it lists them; none where it has no `matmul`.

    Raises TargetError where the target does not load.
    """
    session = open_target(target, in_process=in_process, timeout=timeout)
    try:
        found = []
        for text in session.capabilities.products:
            progress(text)
            found.append(identify_product(session, parse_product(text)))
        return found
    finally:
        session.close()


def identify_product(session: TargetSession, product: Product) -> ProductIdentity:
    """What a few dozen questions tell of one product, and the model that gives its bits."""
    asker = Asker(fit_product(session, product), product)
    found = ProductIdentity(product=product.text)
    k = asker.sizes.fit(1, 1, PLACES * max(asker.run, _APART))[2]
    found.near_bits = find_width(asker, (0, 1, 2), k)
    found.far_bits = find_width(asker, (0, k // 2, k - 1), k)
    if found.far_bits is not None:
        found.rounding = find_rounding(asker, found.far_bits, k)
    models = list(list_models(found))
    ask_order(asker, found, k)
    if found.order:
        found.orders = [name for name, model in models if model_order(found, k, model) == found.order]
    # Those that add in the target's order first: several may give the bits of few operands.
    models.sort(key=lambda model: model[0] not in found.orders)
    compare_models(asker, found, models)
    found.questions = asker.questions
    if not found.questions and asker.refused is not None:
        found.refused = str(asker.refused)
    return found
