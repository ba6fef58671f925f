"""What a valid answer is, whichever process sends it: the judge's own check of types, dtypes and shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.interface import OPERATIONS, Expected, Operation

Arguments = tuple[Any, ...]
Options = Mapping[str, Any]


def is_answer(function: str, args: Arguments, kwargs: Options, value: Any) -> bool:
    """Whether a value can be what `Marshaller.call` returns; True for calls that this module does not know.

    The process that answers runs the target: what it sends need not be what the marshaller made.
    """
    if function in OPERATIONS:
        return _is_result(OPERATIONS[function], args, kwargs, value)
    check = CHECKS.get(function)
    return check is None or check(args, kwargs, value)


def _is_result(operation: Operation, args: Arguments, kwargs: Options, value: Any) -> bool:
    wanted = operation.join(operation.expect(operation.name_call(args, kwargs)))
    if isinstance(wanted, Expected):
        return _is_array(value, wanted)
    return isinstance(value, tuple) and len(value) == len(wanted) and all(map(_is_array, value, wanted))


def _is_array(value: Any, wanted: Expected) -> bool:
    if wanted.dtype is float:
        return isinstance(value, float)
    if not isinstance(value, np.ndarray) or value.dtype != wanted.dtype:
        return False
    return value.ndim == 1 if wanted.shape is None else value.shape == wanted.shape


def _probe(args: Arguments, kwargs: Options, value: Any) -> bool:
    function, first, _second = args
    if not (isinstance(value, tuple) and len(value) == 3 and all(isinstance(v, bool) for v in value[:2])):
        return False
    return is_answer(function, first, kwargs, value[2])


def _strays(args: Arguments, kwargs: Options, value: Any) -> bool:
    function, *given = args
    wanted = OPERATIONS[function].expect(OPERATIONS[function].name_call(given, kwargs))
    floats = (Expected(w.name, np.float32, w.shape) for w in wanted)
    return isinstance(value, tuple) and len(value) == len(wanted) and all(map(_is_array, value, floats))


def _are(value: Any, count: int, kind: type) -> bool:
    return isinstance(value, tuple) and len(value) == count and all(type(v) is kind for v in value)


#: Of the calls that are no operations, most of which hold one.
CHECKS: dict[str, Callable[[Arguments, Options, Any], bool]] = {
    "raw_quantize": lambda _args, _, value: _are(value, 2, bytes),
    "arranged": lambda args, kwargs, value: is_answer(args[1], args[2:], kwargs, value),
    "probe": _probe,
    "strays": _strays,
    "reused": lambda args, kwargs, value: is_answer(args[0], args[2], kwargs, value),
    "held": lambda _args, _, value: _are(value, 3, int),
    "covered": lambda _args, _, value: type(value) is int,
    "output_dtype": lambda _args, _, value: isinstance(value, str) and value in DTYPES,
    "repeated": lambda _args, _, value: _are(value, 2, int),
    "threads": lambda _args, _, value: _are(value, 2, int),
    "trimmed": lambda args, _, value: value is None or _is_array(value, Expected("codes", np.uint8, args[0].shape)),
    "wrote": lambda _args, _, value: isinstance(value, bool),
    "float_environment": lambda _args, _, value: isinstance(value, str),
    "loaded_files": lambda _args, _, value: isinstance(value, str),
    "timed": lambda _args, _, value: isinstance(value, float),
}
