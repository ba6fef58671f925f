"""Blocks as ONNX node tests: folders with a model of one node, its inputs and its outputs, as ONNX's own backend tests have them.

ONNX's QuantizeLinear is given the scale; DequantizeLinear multiplies. So these ask about the element's rounding, saturation and place, and about what
codes and E8M0 scales mean; the scale rule is no operator of ONNX. Blocks whose answer is open, or has a scale that ONNX's float32 cannot hold
as a number, are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from mxspec_conformance.kits.choosing import chosen_blocks
from mxspec_conformance.kits.golden import Block
from mxspec_conformance.kits.runtime import FORMATS, answers_of, inputs_of

#: Format -> (ONNX's element type, the rule by which blocks are scaled).
ELEMENTS = {"mxfp4": ("FLOAT4E2M1", "mx-floor"), "mxfp8_e4m3": ("FLOAT8E4M3FN", "mx-rceil"), "mxfp8_e5m2": ("FLOAT8E5M2", "mx-floor")}
#: Both since opset 23: blocks, FLOAT4E2M1 and, for scales, E8M0 beside float32.
OPSET = 23


class OnnxMissingError(ValueError):
    """The package onnx, which writes the files, is not installed."""


def write_onnx(formats: Iterable[str], size: int) -> dict[str, bytes]:
    """Path -> content.

    Raises OnnxMissingError, or ValueError for a format that ONNX lacks.
    """
    try:
        import onnx
    except ImportError as error:
        raise OnnxMissingError("the onnx kit is written by the package onnx; pip install onnx") from error
    files: dict[str, bytes] = {}
    for fmt in formats:
        if fmt not in ELEMENTS:
            raise ValueError(f"ONNX has no blocks of {fmt}; it has {', '.join(ELEMENTS)}")
        for case in _cases(onnx, fmt, size):
            files |= case
    return files


def _cases(onnx: Any, fmt: str, size: int) -> Iterator[dict[str, bytes]]:
    name, rule = ELEMENTS[fmt]
    element = getattr(onnx.TensorProto, name)
    blocks = [b for b in chosen_blocks(fmt, size) if _is_for_onnx(b, fmt, rule)]
    answers = [(answers_of(b, rule) or [{}])[0] for b in blocks]
    x = np.stack([inputs_of(b) for b in blocks])
    codes = np.stack([np.frombuffer(bytes.fromhex(a["c"]), np.uint8) for a in answers])
    stored = np.array([[a["s"]] for a in answers], np.uint8)
    scales = np.ldexp(np.float32(1), stored.astype(np.int32) - 127).astype(np.float32)
    short = name.lower()
    yield _folder(
        onnx, f"test_mx_quantizelinear_{short}", "QuantizeLinear", {"axis": 1, "block_size": 32, "output_dtype": element},
        [_tensor(onnx, "x", onnx.TensorProto.FLOAT, x), _tensor(onnx, "y_scale", onnx.TensorProto.FLOAT, scales)], _tensor(onnx, "y", element, codes),
    )  # fmt: skip
    values = (FORMATS[fmt].value(codes) * scales).astype(np.float32)
    yield _folder(
        onnx, f"test_mx_dequantizelinear_{short}", "DequantizeLinear", {"axis": 1, "block_size": 32},
        [_tensor(onnx, "x", element, codes), _tensor(onnx, "x_scale", onnx.TensorProto.FLOAT, scales)],
        _tensor(onnx, "y", onnx.TensorProto.FLOAT, values),
    )  # fmt: skip


def _is_for_onnx(block: Block, fmt: str, rule: str) -> bool:
    legal = answers_of(block, rule)
    if legal is None or len(legal) > 1 or {"m", "n", "t"} & set(legal[0]) or block.get("o") or not np.isfinite(inputs_of(block)).all():
        return False
    f = FORMATS[fmt]
    largest = np.ldexp(float(f.value(np.array(f.top))), legal[0]["s"] - 127)
    return legal[0]["s"] >= 1 and bool(largest <= np.finfo(np.float32).max)


def _tensor(onnx: Any, name: str, kind: int, array: Any) -> Any:
    raw = array.astype("<f4").tobytes() if array.dtype == np.float32 else array.tobytes()
    if kind == onnx.TensorProto.FLOAT4E2M1:
        flat = array.reshape(-1)
        raw = (flat[::2] | flat[1::2] << 4).astype(np.uint8).tobytes()
    return onnx.helper.make_tensor(name, kind, array.shape, raw, raw=True)


def _folder(onnx: Any, name: str, operator: str, attributes: dict[str, int], inputs: Sequence[Any], output: Any) -> dict[str, bytes]:
    """A node test: model.onnx and test_data_set_0 with a file for each tensor."""
    helper = onnx.helper
    node = helper.make_node(operator, [t.name for t in inputs], [output.name], **attributes)
    given = [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in inputs]
    wanted = [helper.make_tensor_value_info(output.name, output.data_type, list(output.dims))]
    model = helper.make_model(helper.make_graph([node], name, given, wanted), opset_imports=[helper.make_opsetid("", OPSET)], producer_name="mxspec")
    model.ir_version = 11
    onnx.checker.check_model(model)
    files = {f"{name}/model.onnx": model.SerializeToString()}
    files |= {f"{name}/test_data_set_0/input_{i}.pb": t.SerializeToString() for i, t in enumerate(inputs)}
    return files | {f"{name}/test_data_set_0/output_0.pb": output.SerializeToString()}
