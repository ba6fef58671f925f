"""Blocks as ONNX node tests: folders with a model of one node, its inputs and its outputs, as ONNX's own backend tests have them.

ONNX's QuantizeLinear is given the scale; DequantizeLinear multiplies. So these test the element's rounding, saturation and place, and what
codes and E8M0 scales mean; the scale rule is no operator of ONNX. Each operator is tested with scales in float32, which opset 23 has, and with scales
in E8M0, which opset 24 added, as is a Cast from each E8M0 byte. Blocks whose answer is open are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from mxspec.elements import decode_table
from mxspec.formats import E8M0
from mxspec_conformance.kits.choosing import chosen_blocks
from mxspec_conformance.kits.golden import Block
from mxspec_conformance.kits.runtime import FORMATS, answers_of, inputs_of

#: Format -> (ONNX's element type, the rule by which blocks are scaled).
ELEMENTS = {"mxfp4": ("FLOAT4E2M1", "mx-floor"), "mxfp8_e4m3": ("FLOAT8E4M3FN", "mx-rceil"), "mxfp8_e5m2": ("FLOAT8E5M2", "mx-floor")}
#: What the scales are stored in -> the first opset that has it, and blocks and FLOAT4E2M1, and the IR that it belongs to.
SCALES = {"FLOAT": (23, 11), "FLOAT8E8M0": (24, 12)}


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
    return files | _scale_bytes(onnx)


def _cases(onnx: Any, fmt: str, size: int) -> Iterator[dict[str, bytes]]:
    name, rule = ELEMENTS[fmt]
    element = getattr(onnx.TensorProto, name)
    blocks = [b for b in chosen_blocks(fmt, size) if _is_for_onnx(b, fmt, rule)]
    answers = [(answers_of(b, rule) or [{}])[0] for b in blocks]
    x = np.stack([inputs_of(b) for b in blocks])
    codes = np.stack([np.frombuffer(bytes.fromhex(a["c"]), np.uint8) for a in answers])
    stored = np.array([[a["s"]] for a in answers], np.uint8)
    scales = np.ldexp(np.float32(1), stored.astype(np.int32) - 127).astype(np.float32)
    values = (FORMATS[fmt].value(codes) * scales).astype(np.float32)
    short = name.lower()
    for kind, suffix in (("FLOAT", ""), ("FLOAT8E8M0", "_float8e8m0")):
        given = _tensor(onnx, "scale", getattr(onnx.TensorProto, kind), scales if kind == "FLOAT" else stored)
        yield _folder(
            onnx, f"test_mx_quantizelinear_{short}{suffix}", "QuantizeLinear", {"axis": 1, "block_size": 32, "output_dtype": element},
            [_tensor(onnx, "x", onnx.TensorProto.FLOAT, x), given], _tensor(onnx, "y", element, codes), kind,
        )  # fmt: skip
        yield _folder(
            onnx, f"test_mx_dequantizelinear_{short}{suffix}", "DequantizeLinear",
            {"axis": 1, "block_size": 32} | ({"output_dtype": onnx.TensorProto.FLOAT} if suffix else {}),
            [_tensor(onnx, "x", element, codes), given], _tensor(onnx, "y", onnx.TensorProto.FLOAT, values), kind,
        )  # fmt: skip


def _scale_bytes(onnx: Any) -> dict[str, bytes]:
    """Every E8M0 byte as a number; FF is NaN."""
    stored = np.arange(256, dtype=np.uint8)
    return _folder(
        onnx, "test_mx_cast_float8e8m0_to_float", "Cast", {"to": onnx.TensorProto.FLOAT}, [_tensor(onnx, "x", onnx.TensorProto.FLOAT8E8M0, stored)],
        _tensor(onnx, "y", onnx.TensorProto.FLOAT, decode_table(E8M0)), "FLOAT8E8M0",
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


def _folder(
    onnx: Any, name: str, operator: str, attributes: dict[str, int], inputs: Sequence[Any], output: Any, scales: str
) -> dict[str, bytes]:
    """A node test: model.onnx and test_data_set_0 with a file for each tensor."""
    helper = onnx.helper
    node = helper.make_node(operator, [t.name for t in inputs], [output.name], **attributes)
    given = [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in inputs]
    wanted = [helper.make_tensor_value_info(output.name, output.data_type, list(output.dims))]
    model = helper.make_model(
        helper.make_graph([node], name, given, wanted), opset_imports=[helper.make_opsetid("", SCALES[scales][0])], producer_name="mxspec"
    )
    model.ir_version = SCALES[scales][1]
    onnx.checker.check_model(model)
    files = {f"{name}/model.onnx": model.SerializeToString()}
    files |= {f"{name}/test_data_set_0/input_{i}.pb": t.SerializeToString() for i, t in enumerate(inputs)}
    return files | {f"{name}/test_data_set_0/output_0.pb": output.SerializeToString()}
