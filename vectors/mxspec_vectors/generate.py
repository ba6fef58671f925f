"""Vector files computed from the model: which there are, and the content of each."""

from __future__ import annotations

from mxspec.affine.formats import get_affine
from mxspec.environment import check_environment
from mxspec.formats import BLOCKS, ELEMENTS, SCALES
from mxspec_vectors.build_affine import AFFINE_FILES, build_dequantize_affine, build_quantize_affine
from mxspec_vectors.build_dequantize import build_dequantize
from mxspec_vectors.build_dot import DOT_FILES, build_dot
from mxspec_vectors.build_layouts import build_layout, list_layout_names
from mxspec_vectors.build_quantize import build_quantize
from mxspec_vectors.build_scalars import build_decode, build_encode
from mxspec_vectors.build_scale import build_scale
from mxspec_vectors.build_sparse import build_sparse, list_sparse_names
from mxspec_vectors.build_stochastic import build_stochastic
from mxspec_vectors.document import Document, VectorError

_BUILDERS = {
    "encode": build_encode,
    "decode": build_decode,
    "scale": build_scale,
    "quantize": build_quantize,
    "dequantize": build_dequantize,
    "stochastic": build_stochastic,
    "quantize_affine": build_quantize_affine,
    "dequantize_affine": build_dequantize_affine,
    "layout": build_layout,
    "sparse": build_sparse,
    "dot": build_dot,
}


AFFINE_OPERATIONS = ("quantize_affine", "dequantize_affine")


def list_formats(operation: str) -> tuple[str, ...]:
    """The formats, layouts, sparse formats or pairs of formats, that an operation has vectors of: those that are registered now."""
    if operation in ("encode", "decode"):
        return (*ELEMENTS, *SCALES)
    if operation in AFFINE_OPERATIONS:
        return AFFINE_FILES
    if operation == "stochastic":
        return tuple(ELEMENTS)
    if operation == "sparse":
        return list_sparse_names()
    if operation == "dot":
        return DOT_FILES
    if operation == "scale":
        return tuple(name for name, fmt in BLOCKS.items() if fmt.scale.bits <= 8)
    return list_layout_names() if operation == "layout" else tuple(BLOCKS)


def can_build(operation: str, fmt: str) -> bool:
    """Whether the model gives the cases of a format, of which a file may or may not be shipped."""
    if operation not in AFFINE_OPERATIONS:
        return fmt in list_formats(operation)
    try:
        return get_affine(fmt).name == fmt
    except ValueError:
        return False


def list_files() -> list[tuple[str, str]]:
    """(operation, format) of every file."""
    return [(operation, fmt) for operation in _BUILDERS for fmt in list_formats(operation)]


def build_document(operation: str, fmt: str) -> Document:
    """One vector file's content, computed from the model.

    Raises VectorError for an operation that has no vectors, and FloatEnvironmentError where floats are not computed as by default.
    """
    check_environment()
    if operation not in _BUILDERS:
        raise VectorError(f"no vectors of {operation!r}; there are {', '.join(_BUILDERS)}")
    return _BUILDERS[operation](fmt)


__all__ = ["build_document", "can_build", "list_files", "list_formats"]
