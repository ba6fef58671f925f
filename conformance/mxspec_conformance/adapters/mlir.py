"""MLIR's constant folding of arith.extf from the small floats: what a compiler puts in place of a decoded constant.

A module that decodes every requested code is canonicalized by mlir-opt, and the bits of the float32 constants are read from
what remains. It folds no casts that round (`arith.truncf`), so there is no `encode`, and none of a signaling NaN.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from typing import Any

import numpy as np

from mxspec_conformance.adapters.registry import Library, Source

#: Element -> MLIR's name of its type.
_TYPES = {"e2m1": "f4E2M1FN", "e2m3": "f6E2M3FN", "e3m2": "f6E3M2FN", "e4m3": "f8E4M3FN", "e5m2": "f8E5M2", "e8m0": "f8E8M0FNU"}
_CONSTANT = re.compile(r"(%\S+) = arith\.constant (-?\d+) : i32")
_RETURN = re.compile(r"return (.+?) : i32")
_SOURCE = Source("MXSPEC_MLIR_OPT", "the program mlir-opt of LLVM 22 or later")
_SECONDS = 60


class _Folding:
    """The program, called once for each array of codes."""

    ELEMENTS = tuple(_TYPES)

    def __init__(self) -> None:
        self._program = _SOURCE.find()
        version = self._run("--version", "")
        found = re.search(r"LLVM version (\S+)", version)
        self.VERSION = found[1] if found else "unknown"

    def _run(self, option: str, text: str) -> str:
        done = subprocess.run([str(self._program), option], input=text, capture_output=True, text=True, timeout=_SECONDS, check=False)
        if done.returncode:
            raise RuntimeError(f"mlir-opt {option} ended with {done.returncode}: {done.stderr.strip()[:500]}")
        return done.stdout

    def decode(self, codes: Any, element: str) -> Any:
        """The float32 constant that each code is folded to."""
        if element not in _TYPES:
            raise NotImplementedError(f"MLIR has no type for {element}; it has one for {', '.join(_TYPES)}")
        # Each code once: a function is slow to print with thousands of results.
        every, places = np.unique(np.asarray(codes).reshape(-1), return_inverse=True)
        left = self._run("--canonicalize", "\n".join(_write_module(every.tolist(), _TYPES[element])))
        constants = {name: int(value) for name, value in _CONSTANT.findall(left)}
        returned = _RETURN.search(left)
        names = [] if returned is None else returned[1].split(", ")
        if len(names) != len(every) or not constants.keys() >= set(names):
            raise NotImplementedError(f"mlir-opt does not fold all these casts of {_TYPES[element]}: a signaling NaN stays as it is")
        bits = np.array([constants[name] & 0xFFFFFFFF for name in names], np.uint32)
        return bits[places].view(np.float32).reshape(np.shape(codes))


def _write_module(codes: list[int], name: str) -> Iterator[str]:
    """A function that returns the bits of the float32 of every code."""
    types = ", ".join(["i32"] * len(codes))
    yield f"func.func @decode() -> ({types}) {{"
    for i, code in enumerate(codes):
        yield f"  %c{i} = arith.constant 0x{code:X} : {name}"
        yield f"  %f{i} = arith.extf %c{i} : {name} to f32"
        yield f"  %b{i} = arith.bitcast %f{i} : f32 to i32"
    yield f"  return {', '.join(f'%b{i}' for i in range(len(codes)))} : {types}\n}}"


_LIBRARY = Library(name="mlir", requires="mlir-opt, which MXSPEC_MLIR_OPT names", source=_SOURCE)

ADAPTERS = (_LIBRARY.target("mlir-folding", "MLIR, constant folding of arith.extf", _Folding),)
