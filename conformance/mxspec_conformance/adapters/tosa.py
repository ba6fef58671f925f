"""Arm's TOSA reference model: the operators CAST_TO_BLOCK_SCALED and CAST_FROM_BLOCK_SCALED of TOSA 1.1, in blocks of 32.

The program `tosa_reference_model` of the package `tosa-tools` runs a graph of one operator, which the package's own serializer
writes; tensors go through files. Its Python binding does not take the types of this operator.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from mxspec_conformance.adapters._convert import pack_nibbles, pack_six_bits, unpack_nibbles, unpack_six_bits
from mxspec_conformance.adapters.registry import Adapter, Library

#: Block formats, and what TOSA calls their elements.
ELEMENTS = {
    "mxfp4": "FP4E2M1",
    "mxfp6_e2m3": "FP6E2M3",
    "mxfp6_e3m2": "FP6E3M2",
    "mxfp8_e4m3": "FP8E4M3",
    "mxfp8_e5m2": "FP8E5M2",
    "mxint8": "MXINT8",
}
#: The operators, and the serializer's name of their attributes.
OPERATORS = {"CAST_TO_BLOCK_SCALED": "CastToBlockScaledAttribute", "CAST_FROM_BLOCK_SCALED": "CastFromBlockScaledAttribute"}
_INPUTS = {"float32": "FP32", "bfloat16": "BF16"}
#: Formats whose codes are packed, and how.
_PACKED = {
    "mxfp4": (pack_nibbles, unpack_nibbles),
    "mxfp6_e2m3": (pack_six_bits, unpack_six_bits),
    "mxfp6_e3m2": (pack_six_bits, unpack_six_bits),
}
#: Types whose files are those that NumPy writes of these types.
_STORED = {"FP8E4M3": ml_dtypes.float8_e4m3fn, "FP8UE8M0": ml_dtypes.float8_e8m0fnu}


def pack(codes: Any, fmt: str) -> Any:
    """Codes [..., k], one to a byte, as TOSA's files have them."""
    data = _PACKED[fmt][0](codes) if fmt in _PACKED else np.ascontiguousarray(codes)
    return data.view(_STORED.get(ELEMENTS[fmt], data.dtype))


def unpack(data: Any, fmt: str) -> Any:
    """The inverse of `pack`."""
    data = np.ascontiguousarray(data).view(np.uint8)
    return _PACKED[fmt][1](data) if fmt in _PACKED else data


@dataclass(frozen=True, slots=True)
class _Test:
    """A folder with graph.tosa and NAME.npy of each input."""

    folder: Path
    operator: str
    #: Name -> type, shape.
    inputs: Mapping[str, tuple[str, tuple[int, ...]]]
    outputs: Mapping[str, tuple[str, tuple[int, ...]]]


class _ReferenceModel:
    FORMATS = tuple(ELEMENTS)
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
            results = [graph.addOutput(list(shape), getattr(types, dtype)).name for dtype, shape in wanted.items()]
            attribute = self._serializer.TosaSerializerAttribute()
            getattr(attribute, OPERATORS[operator])(self._serializer.BlockSize.BLOCK_SIZE_32)
            graph.addOperator(getattr(self._serializer.Op, operator), names, results, attribute)
            (Path(scratch) / "graph.tosa").write_bytes(bytes(graph.serialize()))
            test = _Test(
                Path(scratch),
                operator,
                dict(zip(names, ((t, shape) for t, (shape, _) in given.items()), strict=True)),
                dict(zip(results, wanted.items(), strict=True)),
            )
            self._execute(test)
            return [np.load(Path(scratch) / f"{r}.npy") for r in results]

    def _execute(self, test: _Test) -> None:
        """Run the graph in a folder; results are FOLDER/NAME.npy. Raises RuntimeError."""
        command = [
            self._program, "--tosa_file=graph.tosa", "--flatbuffer_dir=.", "--output_dir=.",
            f"--ifm_name={','.join(test.inputs)}", f"--ifm_file={','.join(f'{n}.npy' for n in test.inputs)}",
            f"--ofm_name={','.join(test.outputs)}", f"--ofm_file={','.join(f'{n}.npy' for n in test.outputs)}",
        ]  # fmt: skip
        done = subprocess.run([str(c) for c in command], cwd=test.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"tosa_reference_model returned {done.returncode}: {done.stderr.strip()[:300]}")

    def quantize(self, x: Any, fmt: str) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/32]."""
        codes, scales = self._run(
            "CAST_TO_BLOCK_SCALED", {_INPUTS[str(x.dtype)]: (x.shape, x)}, {ELEMENTS[fmt]: x.shape, "FP8UE8M0": (len(x), x.shape[1] // 32)}
        )
        return unpack(codes, fmt), scales.view(np.uint8)

    def dequantize(self, codes: Any, scales: Any, fmt: str) -> Any:
        """Float32 values [rows, k]."""
        (values,) = self._run(
            "CAST_FROM_BLOCK_SCALED",
            {ELEMENTS[fmt]: (codes.shape, pack(codes, fmt)), "FP8UE8M0": (scales.shape, scales)},
            {"FP32": codes.shape},
        )
        return values


class SystemUnderTest(_ReferenceModel):
    """A module that TOSA's test runner takes by `--sut-module`, with the arguments that it is given by `--sut-module-args`.

    Raises ValueError if no module is named, ImportError for one that does not import.
    """

    def __init__(self, module: str, arguments: Sequence[str] = ()) -> None:
        if not module:
            raise ValueError("no module is named; set MX_TOSA_SUT to what --sut-module takes")
        super().__init__()
        import conformance.model_files as files_of_model
        import runner.tosa_verif_run_tests as run_tests

        self._module, self._arguments = importlib.import_module(module), list(arguments)
        self.VERSION = f"{module} in tosa-tools {self.VERSION}"
        kinds = files_of_model.TosaFileType
        paths = {
            "generate_lib_path": kinds.GENERATE_LIBRARY,
            "verify_path": kinds.VERIFY,
            "flatc_path": kinds.FLATC,
            "schema_path": kinds.SCHEMA,
        }
        self._options: Any = run_tests.parseArgs(["--test", ".", "--sut-module", module, "--ref-model-path", str(self._program)])
        for name, kind in paths.items():
            setattr(self._options, name, files_of_model.find_tosa_file(kind, self._program))

    def _execute(self, test: _Test) -> None:
        (test.folder / "desc.json").write_text(json.dumps(_describe(test)), "utf-8")
        with contextlib.redirect_stdout(io.StringIO()):
            system = self._module.TosaSUTRunner(self._options, self._arguments, test.folder)
            skipped, why = system.skipTest()
            if skipped:
                raise RuntimeError(f"{self._module.__name__} skips this: {why}")
            result, said = system.runTestGraph()
        if result != system.TosaGraphResult.TOSA_VALID:
            raise RuntimeError(f"{self._module.__name__} returned {result!r}: {str(said)[:300]}")


def _describe(test: _Test) -> dict[str, Any]:
    """A test folder's desc.json."""
    drawn = {
        name: {"generator": "PSEUDO_RANDOM", "data_type": dtype, "shape": list(shape), "input_pos": i, "op": test.operator, "block_size": 32, "input_type": "VARIABLE"}
        for i, (name, (dtype, shape)) in enumerate(test.inputs.items())
    }  # fmt: skip
    types, shapes = zip(*test.outputs.values(), strict=True)
    return {
        "tosa_file": "graph.tosa", "ifm_name": list(test.inputs), "ifm_file": [f"{n}.npy" for n in test.inputs],
        "ofm_name": list(test.outputs), "ofm_file": [f"{n}.npy" for n in test.outputs], "expected_failure": False,
        "meta": {"data_gen": {"version": "1.2", "tensors": drawn}},
        "test_details": {"operator": test.operator, "output_types": list(types), "output_shapes": [list(s) for s in shapes], "oversize": False},
    }  # fmt: skip


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
        library=Library(name="tosa", requires="tosa-tools", imports="tosa_serializer", packages=("tosa-tools==2026.8.0",)),
        about="Arm's TOSA reference model",
        make=_ReferenceModel,
        # What MXINT8 lacks stands in the profiles' module.
        profiles={fmt: f"tosa-1.1/{fmt}" for fmt in ELEMENTS if fmt != "mxint8"},
    ),
)
