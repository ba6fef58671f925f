"""A `--sut-module` for the test runner of Arm TOSA: an mxspec target, judged by TOSA's tests of casts to and from scaled blocks.

tosa_verif_run_tests --sut-module mxspec_tosa_sut --sut-module-args mxspec_tosa_sut:target=my_kernel.py -r -t tests

TARGET is whatever `mxspec check` takes. Tests of other operators are skipped.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from runner.tosa_test_runner import TosaTestRunner

from mxspec_conformance.adapters.tosa import ELEMENTS, OPERATORS, pack, unpack
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.transports.opening import open_target

_FORMATS = {element: fmt for fmt, element in ELEMENTS.items()}
_SESSIONS: dict[str, Any] = {}
_LOCK = threading.Lock()


def _open(target: str) -> Any:
    """A target's session, one for all tests."""
    with _LOCK:
        if target not in _SESSIONS:
            _SESSIONS[target] = open_target(target)
        return _SESSIONS[target]


class TosaSUTRunner(TosaTestRunner):  # type: ignore[misc]  # a library without types
    """Runs a test folder on a target."""

    def __init__(self, args: Any, runnerArgs: list[str], testDirPath: Path) -> None:
        super().__init__(args, runnerArgs, testDirPath)
        named = [a.partition("=")[2] for a in runnerArgs if a.startswith("target=")]
        if len(named) != 1:
            raise ValueError(f"{len(named)} targets are named; write --sut-module-args {__name__}:target=my_kernel.py")
        self._target = named[0]
        self._operator = self.testDesc.get("test_details", {}).get("operator", "")

    def skipTest(self) -> tuple[bool, str]:  # noqa: N802
        """As the runner says, and what no target has."""
        if self._operator not in OPERATORS:
            return True, f"operator {self._operator or 'unnamed'}"
        if self._format not in _open(self._target).capabilities.formats:
            return True, f"format {self._format}"
        skipped, why = super().skipTest()
        return bool(skipped), str(why)

    def runTestGraph(self) -> tuple[Any, str | None]:  # noqa: N802
        """Call the target, and write its results next to the test."""
        arrays = [np.load(self.testDirPath / name) for name in self.testDesc["ifm_file"]]
        try:
            session = _open(self._target)
            with _LOCK:
                results = self._ask(session, arrays)
        except CallError as error:
            return self.TosaGraphResult.OTHER_ERROR, str(error)
        for name, result in zip(self.testDesc["ofm_file"], results, strict=True):
            np.save(self.testDirPath / name, result)
        return self.TosaGraphResult.TOSA_VALID, None

    @property
    def _given(self) -> str:
        """The type of the first input."""
        return str(next(iter(self.testDesc["meta"]["data_gen"]["tensors"].values()))["data_type"])

    @property
    def _format(self) -> str:
        details = self.testDesc["test_details"]
        element = details["output_types"][0] if self._operator == "CAST_TO_BLOCK_SCALED" else self._given
        return _FORMATS.get(element, element)

    def _ask(self, session: Any, arrays: list[Any]) -> list[Any]:
        details, fmt = self.testDesc["test_details"], self._format
        shapes = [tuple(s) for s in details["output_shapes"]]
        if self._operator == "CAST_TO_BLOCK_SCALED":
            x = arrays[0] if self._given == "FP32" else arrays[0].view(ml_dtypes.bfloat16)
            codes, scales = session.call("quantize", x.reshape(-1, shapes[0][-1]), fmt)
            return [pack(codes, fmt).reshape(*shapes[0][:-1], -1), scales.reshape(shapes[1]).view(ml_dtypes.float8_e8m0fnu)]
        codes = unpack(arrays[0], fmt)
        y = session.call("dequantize", codes.reshape(-1, shapes[0][-1]), arrays[1].view(np.uint8).reshape(-1, arrays[1].shape[-1]), fmt)
        return [np.asarray(y, np.float32 if details["output_types"][0] == "FP32" else ml_dtypes.bfloat16).reshape(shapes[0])]
