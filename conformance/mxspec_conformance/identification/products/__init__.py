"""How a target adds products: a few dozen questions about one `matmul`, and the model that reproduces it bit for bit.

Each question is one output, of powers of two placed along k. Sources of the method: FPRev (order from what a large number and
its negative leave), Fasi et al. (bits that a unit keeps).
"""

from __future__ import annotations

from mxspec_conformance.identification.products.identifying import identify_product, identify_products_of
from mxspec_conformance.identification.products.identity import ProductIdentity, describe_product

__all__ = ["ProductIdentity", "describe_product", "identify_product", "identify_products_of"]
