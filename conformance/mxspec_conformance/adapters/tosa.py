"""Arm's TOSA reference model: the operators CAST_TO_BLOCK_SCALED and CAST_FROM_BLOCK_SCALED of TOSA 1.1, in blocks of 32.

The program `tosa_reference_model` of the package `tosa-tools` runs a graph of one operator, which the package's own serializer
writes; tensors go through files. Its Python binding does not take the types of this operator.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from mxspec_conformance.adapters._convert import pack_nibbles, pack_six_bits, unpack_nibbles, unpack_six_bits
from mxspec_conformance.adapters.registry import Adapter, Library

_ELEMENTS = {
    "mxfp4": "FP4E2M1",
    "mxfp6_e2m3": "FP6E2M3",
    "mxfp6_e3m2": "FP6E3M2",
    "mxfp8_e4m3": "FP8E4M3",
    "mxfp8_e5m2": "FP8E5M2",
    "mxint8": "MXINT8",
}
_ATTRIBUTES = {
    "CAST_TO_BLOCK_SCALED": "CastToBlockScaledAttribute",
    "CAST_FROM_BLOCK_SCALED": "CastFromBlockScaledAttribute",
}
_INPUTS = {"float32": "FP32", "bfloat16": "BF16"}
#: Formats whose codes are packed, and how.
_PACKED = {
    "mxfp4": (pack_nibbles, unpack_nibbles),
    "mxfp6_e2m3": (pack_six_bits, unpack_six_bits),
    "mxfp6_e3m2": (pack_six_bits, unpack_six_bits),
}
#: Types whose files are those that NumPy writes of these types.
_STORED = {"FP8E4M3": ml_dtypes.float8_e4m3fn, "FP8UE8M0": ml_dtypes.float8_e8m0fnu}


class _ReferenceModel:
    FORMATS = tuple(_ELEMENTS)
    DTYPES = tuple(_INPUTS)

    def __init__(self) -> None:
        import tosa_serializer

        self.VERSION = version("tosa-tools")
        self._serializer: Any = tosa_serializer
        self._program = _find_program()

    def _run(self, operator: str, given: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[Any]:
        """The results of an operator: of the types and shapes `wanted`, from the shapes and arrays by type `given`."""
        types, graph = self._serializer.DType, self._serializer.TosaSerializer()
        with tempfile.TemporaryDirectory() as scratch:
            names = []
            for dtype, (shape, array) in given.items():
                placeholder = graph.addPlaceholder(list(shape), getattr(types, dtype), None)
                data = np.ascontiguousarray(array)
                np.save(Path(scratch) / f"{placeholder.name}.npy", data.view(_STORED.get(dtype, data.dtype)))
                names.append(placeholder.name)
            sources = [f"{name}.npy" for name in names]
            results = [graph.addOutput(list(shape), getattr(types, dtype)).name for dtype, shape in wanted.items()]
            attribute = self._serializer.TosaSerializerAttribute()
            getattr(attribute, _ATTRIBUTES[operator])(self._serializer.BlockSize.BLOCK_SIZE_32)
            graph.addOperator(getattr(self._serializer.Op, operator), names, results, attribute)
            (Path(scratch) / "graph.tosa").write_bytes(bytes(graph.serialize()))
            command = [
                self._program, "--tosa_file=graph.tosa", "--flatbuffer_dir=.", "--output_dir=.",
                f"--ifm_name={','.join(names)}", f"--ifm_file={','.join(sources)}",
                f"--ofm_name={','.join(results)}", f"--ofm_file={','.join(f'{r}.npy' for r in results)}",
            ]  # fmt: skip
            done = subprocess.run([str(c) for c in command], cwd=scratch, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"tosa_reference_model returned {done.returncode}: {done.stderr.strip()[:300]}")
            return [np.load(Path(scratch) / f"{r}.npy") for r in results]

    def quantize(self, x: Any, fmt: str) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/32]."""
        codes, scales = self._run(
            "CAST_TO_BLOCK_SCALED",
            {_INPUTS[str(x.dtype)]: (x.shape, x)},
            {_ELEMENTS[fmt]: x.shape, "FP8UE8M0": (len(x), x.shape[1] // 32)},
        )
        data = codes.view(np.uint8)
        return _PACKED[fmt][1](data) if fmt in _PACKED else data, scales.view(np.uint8)

    def dequantize(self, codes: Any, scales: Any, fmt: str) -> Any:
        """Float32 values [rows, k]."""
        data = _PACKED[fmt][0](codes) if fmt in _PACKED else codes
        (values,) = self._run(
            "CAST_FROM_BLOCK_SCALED",
            {_ELEMENTS[fmt]: (codes.shape, data), "FP8UE8M0": (scales.shape, scales)},
            {"FP32": codes.shape},
        )
        return values


def _find_program() -> Path:
    """The program that the package installs."""
    try:
        listed = files("tosa-tools") or []
    except PackageNotFoundError:
        raise ImportError("tosa-tools is not installed") from None
    found = next((Path(str(f.locate())).resolve() for f in listed if f.as_posix() == "bin/tosa_reference_model"), None)
    if found is None:
        raise ImportError("the installed tosa-tools has no program tosa_reference_model")
    return found


ADAPTERS = (
    Adapter(
        name="tosa",
        library=Library(
            name="tosa", requires="tosa-tools", imports="tosa_serializer", packages=("tosa-tools==2026.8.0",)
        ),
        about="Arm's TOSA reference model",
        make=_ReferenceModel,
        # What MXINT8 lacks stands in the profiles' module.
        profiles={fmt: f"tosa-1.1/{fmt}" for fmt in _ELEMENTS if fmt != "mxint8"},
    ),
)
