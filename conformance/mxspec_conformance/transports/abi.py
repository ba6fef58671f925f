"""The structures of `mxspec_target.h` for ctypes; a test compiles the header and compares every offset."""

from __future__ import annotations

import ctypes as c

ABI = 2
#: ABIs that a library may have been compiled for: 2 differs from 1 in a function that was never called.
ABIS = (1, 2)
#: Values of `enum mxspec_status`.
OK, UNSUPPORTED, ERROR = 0, 1, 2
#: Values of `enum mxspec_dtype`.
DTYPE_NUMBERS = {"float32": 0, "float16": 1, "bfloat16": 2}

_TEXT, _POINTER, _SIZE, _INT = c.c_char_p, c.c_void_p, c.c_int64, c.c_int32


class QuantizeCall(c.Structure):
    """mxspec_quantize_call."""

    _fields_ = (
        ("format", _TEXT), ("x", _POINTER), ("dtype", _INT), ("axis", _INT), ("rows", _SIZE), ("columns", _SIZE),
        ("pad", _INT), ("block_rows", _INT), ("tensor_scale", _POINTER), ("codes", _POINTER), ("codes_size", _SIZE),
        ("scales", _POINTER), ("scales_size", _SIZE), ("random_bits", _POINTER), ("seed", _POINTER),
    )  # fmt: skip


class DequantizeCall(c.Structure):
    """mxspec_dequantize_call."""

    _fields_ = (
        ("format", _TEXT), ("codes", _POINTER), ("codes_size", _SIZE), ("scales", _POINTER), ("scales_size", _SIZE),
        ("rows", _SIZE), ("columns", _SIZE), ("tensor_scale", _POINTER), ("values", _POINTER),
    )  # fmt: skip


class QuantizeAffineCall(c.Structure):
    """mxspec_quantize_affine_call."""

    _fields_ = (
        ("affine", _TEXT), ("x", _POINTER), ("rows", _SIZE), ("columns", _SIZE), ("codes", _POINTER), ("codes_size", _SIZE),
        ("scales", _POINTER), ("scales_size", _SIZE), ("offsets", _POINTER), ("offsets_size", _SIZE),
    )  # fmt: skip


class DequantizeAffineCall(c.Structure):
    """mxspec_dequantize_affine_call."""

    _fields_ = (
        ("affine", _TEXT), ("codes", _POINTER), ("codes_size", _SIZE), ("scales", _POINTER), ("scales_size", _SIZE),
        ("offsets", _POINTER), ("offsets_size", _SIZE), ("rows", _SIZE), ("columns", _SIZE), ("values", _POINTER),
    )  # fmt: skip


class EncodeCall(c.Structure):
    """mxspec_encode_call."""

    _fields_ = (
        ("element", _TEXT), ("x", _POINTER), ("count", _SIZE), ("rounding", _TEXT), ("overflow", _TEXT),
        ("codes", _POINTER),
    )  # fmt: skip


class DecodeCall(c.Structure):
    """mxspec_decode_call."""

    _fields_ = (("element", _TEXT), ("codes", _POINTER), ("count", _SIZE), ("values", _POINTER))


class EncodeStochasticCall(c.Structure):
    """mxspec_encode_stochastic_call."""

    _fields_ = (("element", _TEXT), ("x", _POINTER), ("random_bits", _POINTER), ("count", _SIZE), ("codes", _POINTER))


class TensorScaleCall(c.Structure):
    """mxspec_tensor_scale_call."""

    _fields_ = (("format", _TEXT), ("x", _POINTER), ("rows", _SIZE), ("columns", _SIZE), ("scale", _POINTER))


class LayoutCall(c.Structure):
    """mxspec_layout_call."""

    _fields_ = (
        ("layout", _TEXT), ("rank", _INT), ("shape", _POINTER), ("codes", _POINTER), ("scales", _POINTER),
        ("data", _POINTER), ("data_size", _SIZE),
    )  # fmt: skip


class SparseCall(c.Structure):
    """mxspec_sparse_call."""

    _fields_ = (
        ("format", _TEXT), ("rows", _SIZE), ("columns", _SIZE), ("codes", _POINTER), ("pruned", _POINTER), ("kept", _POINTER),
        ("kept_size", _SIZE), ("metadata", _POINTER), ("metadata_size", _SIZE),
    )  # fmt: skip


class Operand(c.Structure):
    """mxspec_operand."""

    _fields_ = (
        ("spec", _TEXT), ("values", _POINTER), ("codes", _POINTER), ("codes_size", _SIZE), ("scales", _POINTER),
        ("scales_size", _SIZE), ("tensor_scale", _POINTER),
    )  # fmt: skip


class OperandMore(c.Structure):
    """mxspec_operand_more."""

    _fields_ = (
        ("offsets", _POINTER), ("offsets_size", _SIZE), ("metadata", _POINTER), ("metadata_size", _SIZE),
    )  # fmt: skip


class MatmulCall(c.Structure):
    """mxspec_matmul_call."""

    _fields_ = (
        ("m", _SIZE), ("n", _SIZE), ("k", _SIZE), ("a", Operand), ("b", Operand), ("alpha", _POINTER), ("beta", _POINTER),
        ("c", _POINTER), ("bias", _POINTER), ("out_dtype", _INT), ("added_dtype", _INT), ("values", _POINTER),
        ("a_more", OperandMore), ("b_more", OperandMore),
    )  # fmt: skip


#: Name in the header -> structure.
STRUCTURES: dict[str, type[c.Structure]] = {
    "mxspec_quantize_call": QuantizeCall,
    "mxspec_dequantize_call": DequantizeCall,
    "mxspec_quantize_affine_call": QuantizeAffineCall,
    "mxspec_dequantize_affine_call": DequantizeAffineCall,
    "mxspec_encode_call": EncodeCall,
    "mxspec_decode_call": DecodeCall,
    "mxspec_encode_stochastic_call": EncodeStochasticCall,
    "mxspec_tensor_scale_call": TensorScaleCall,
    "mxspec_layout_call": LayoutCall,
    "mxspec_operand": Operand,
    "mxspec_operand_more": OperandMore,
    "mxspec_matmul_call": MatmulCall,
    "mxspec_sparse_call": SparseCall,
}
