"""How a document is stored: what repeats is written once, and what a recipe computes is not written at all.

`pack` turns a `Document`, in which every case is written out, into the JSON object of its file; `expand` is the inverse.
vectors/README.md describes that object for readers in other languages, the schemas bind it.
"""

from __future__ import annotations

from collections.abc import Callable

from mxspec_vectors.compact.blocks import expand_quantize, pack_quantize
from mxspec_vectors.compact.groups import Stored
from mxspec_vectors.compact.layouts import expand_layout, pack_layout
from mxspec_vectors.compact.plain import expand_plain, pack_plain
from mxspec_vectors.compact.products import expand_dot, pack_dot
from mxspec_vectors.compact.scales import expand_scale, pack_scale
from mxspec_vectors.compact.values import expand_dequantize, pack_dequantize
from mxspec_vectors.document import Document, VectorError

_KINDS: dict[str, tuple[Callable[[Document], Stored], Callable[[Stored], Document]]] = {
    "encode": (pack_plain, expand_plain),
    "decode": (pack_plain, expand_plain),
    "scale": (pack_scale, expand_scale),
    "quantize": (pack_quantize, expand_quantize),
    "dequantize": (pack_dequantize, expand_dequantize),
    "stochastic": (pack_plain, expand_plain),
    "quantize_affine": (pack_plain, expand_plain),
    "dequantize_affine": (pack_plain, expand_plain),
    "layout": (pack_layout, expand_layout),
    "sparse": (pack_plain, expand_plain),
    "dot": (pack_dot, expand_dot),
}


def pack(document: Document) -> Stored:
    """The JSON object of a document's file.

    Raises VectorError where a case's recipe does not give the case's inputs, or a scale table not its answers.
    """
    try:
        return _KINDS[document["operation"]][0](document)
    except VectorError as error:
        raise VectorError(f"{document['operation']}/{document['format']}.json: {error}") from error


def expand(stored: Stored) -> Document:
    """The document of a file's JSON object.

    Raises VectorError where a recipe does not give the inputs that a case's id stands for, or the object is none of a file.
    """
    name = f"{stored.get('operation')}/{stored.get('format')}.json"
    if stored.get("operation") not in _KINDS:
        raise VectorError(f"{name} is no vector file: operations are {', '.join(_KINDS)}")
    try:
        return _KINDS[stored["operation"]][1](stored)
    except VectorError as error:
        raise VectorError(f"{name}: {error}") from error
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise VectorError(f"{name} is not what its schema says: {type(error).__name__} {error}") from error


__all__ = ["Stored", "expand", "pack"]
