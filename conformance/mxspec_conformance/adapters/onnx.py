"""ONNX's Cast to and from the small floats: ONNX's own reference evaluator, and ONNX Runtime on the CPU.

Both run the same model. Cast to FLOAT8E8M0 has three round modes (`up` by default in the operator, tested here by the
rounding that is wanted); the others round to nearest even, saturating or not. ONNX Runtime has no Cast of FLOAT4E2M1 on the CPU
and does not know the 6-bit types.
"""

from __future__ import annotations

from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from mxspec_conformance.adapters.registry import Library
from mxspec_conformance.targets.dtypes import SCALAR_TYPES

#: Element -> ONNX's name of it.
_RUNTIME = {"e4m3": "FLOAT8E4M3FN", "e5m2": "FLOAT8E5M2", "e8m0": "FLOAT8E8M0"}
_REFERENCE = {**_RUNTIME, "e2m1": "FLOAT4E2M1", "e2m3": "FLOAT6E2M3", "e3m2": "FLOAT6E3M2"}
#: The round modes of FLOAT8E8M0, whose numbers have one sign.
_E8M0_MODES = {"rne": "nearest", "rtp": "up", "rtn": "down", "rtz": "down"}
_OPSET, _IR_VERSION = 25, 13


class _Cast:
    """What the two have in common: models of one Cast."""

    DTYPES = ("float32", "float16", "bfloat16")

    def __init__(self, elements: dict[str, str]) -> None:
        import onnx

        self._onnx: Any = onnx
        self._names = elements
        self.ELEMENTS = tuple(elements)
        self._sessions: dict[tuple[Any, ...], Any] = {}

    def _session(self, source: int, target: int, **attributes: Any) -> Any:
        key = (source, target, *sorted(attributes.items()))
        if key not in self._sessions:
            helper = self._onnx.helper
            node = helper.make_node("Cast", ["x"], ["y"], to=target, **attributes)
            sides = [helper.make_tensor_value_info(name, t, [None]) for name, t in (("x", source), ("y", target))]
            graph = helper.make_graph([node], "cast", sides[:1], sides[1:])
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
            self._sessions[key] = self._load(model)
        return self._sessions[key]

    def _load(self, model: Any) -> Any:
        raise NotImplementedError

    def _run(self, session: Any, x: Any, source: int, target: int, dtype: Any) -> Any:
        raise NotImplementedError

    def _type(self, element: str) -> int:
        if element not in self._names:
            raise NotImplementedError(f"no Cast of {element}; there is one of {', '.join(self._names)}")
        found: int = getattr(self._onnx.TensorProto, self._names[element])
        return found

    def encode(self, x: Any, element: str, rounding: str = "rne", overflow: str = "saturate") -> Any:
        """Code of each value, one per byte."""
        target = self._type(element)
        attributes: dict[str, Any] = {}
        if element == "e8m0":
            if rounding not in _E8M0_MODES:
                raise NotImplementedError(f"Cast to FLOAT8E8M0 has no round mode for {rounding}")
            attributes["round_mode"] = _E8M0_MODES[rounding]
        elif rounding != "rne":
            raise NotImplementedError("Cast rounds to nearest even")
        if overflow not in ("saturate", "own") or (overflow == "own" and self._names[element].startswith(("FLOAT4", "FLOAT6"))):
            raise NotImplementedError(f"Cast to {self._names[element]} has no overflow {overflow}")
        attributes["saturate"] = int(overflow == "saturate")
        kinds = {"float32": "FLOAT", "float16": "FLOAT16", "bfloat16": "BFLOAT16"}
        source = getattr(self._onnx.TensorProto, kinds[str(x.dtype)])
        return self._run(self._session(source, target, **attributes), np.ascontiguousarray(x), source, target, np.uint8)

    def decode(self, codes: Any, element: str) -> Any:
        """Float32 value of each code."""
        source, target = self._type(element), self._onnx.TensorProto.FLOAT
        values = np.ascontiguousarray(codes).view(SCALAR_TYPES[element])
        return self._run(self._session(source, target), values, source, target, np.float32)


class _Reference(_Cast):
    """ONNX's reference evaluator."""

    def __init__(self) -> None:
        super().__init__(_REFERENCE)
        self.VERSION = version("onnx")

    def _load(self, model: Any) -> Any:
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(model)

    def _run(self, session: Any, x: Any, source: int, target: int, dtype: Any) -> Any:
        (y,) = session.run(None, {"x": x})
        return y.view(dtype)


class _Runtime(_Cast):
    """ONNX Runtime; types that NumPy does not have go in and out by their bytes."""

    def __init__(self) -> None:
        super().__init__(_RUNTIME)
        self.VERSION = version("onnxruntime")

    @cached_property
    def _ort(self) -> Any:
        import onnxruntime

        return onnxruntime

    def _load(self, model: Any) -> Any:
        return self._ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

    def _run(self, session: Any, x: Any, source: int, target: int, dtype: Any) -> Any:
        y = np.empty(len(x), dtype)
        binding = session.io_binding()
        binding.bind_input("x", "cpu", 0, source, [len(x)], x.ctypes.data)
        binding.bind_output("y", "cpu", 0, target, [len(x)], y.ctypes.data)
        session.run_with_iobinding(binding)
        return y


_ONNX = Library(name="onnx", requires="onnx", imports="onnx", packages=("onnx==1.23.2",))
#: It runs models that onnx makes.
_ORT = Library(name="onnxruntime", requires="onnxruntime and onnx", imports="onnxruntime", packages=("onnxruntime==1.31.1", "onnx==1.23.2"))

ADAPTERS = (
    _ONNX.target("onnx", "ONNX's reference evaluator (elements only)", _Reference),
    _ORT.target("onnxruntime", "ONNX Runtime on the CPU (elements only)", _Runtime),
)
