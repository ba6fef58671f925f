"""The structures of `mxspec_target.h` for ctypes, read from its text; a test compiles the header and compares every offset."""

from __future__ import annotations

import ctypes as c
import re
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

ABI = 2
#: ABIs that a library may have been compiled for: 2 differs from 1 in a function that was never called.
ABIS = (1, 2)
#: Values of `enum mxspec_status`.
OK, UNSUPPORTED, ERROR = 0, 1, 2
#: Values of `enum mxspec_dtype`.
DTYPE_NUMBERS = {"float32": 0, "float16": 1, "bfloat16": 2}

#: C types of fields; text and arrays are pointers.
_NUMBERS: dict[str, Any] = {"int32_t": c.c_int32, "int64_t": c.c_int64}
#: Dtypes of arrays behind a pointer; bytes and what has no type are handed over as they are.
_ARRAYS: dict[str, Any] = {"float": np.float32, "uint32_t": np.uint32, "int32_t": np.int32, "uint64_t": np.uint64, "int64_t": np.int64}


class Structure(c.Structure):
    """A structure of the header."""

    #: Field -> its C type, and those that point at an array -> the array's dtype; None: any.
    fields: ClassVar[dict[str, Any]]
    arrays: ClassVar[dict[str, Any]]


def header_path() -> Path:
    """Where `mxspec_target.h` lies."""
    return Path(str(files("mxspec_conformance").joinpath("transports/include/mxspec_target.h")))


def _read_structures(text: str) -> dict[str, type[Structure]]:
    """Each `typedef struct` of a C text without comments, by its name."""
    found: dict[str, type[Structure]] = {}
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\}", text, re.DOTALL):
        fields: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        for kind, names in re.findall(r"(?:const )?(\w+) ([^;]+);", body):
            for field in names.split(","):
                plain = field.strip().removeprefix("*")
                if plain == field.strip():
                    fields[plain] = _NUMBERS.get(kind) or found[kind]
                elif kind == "char":
                    fields[plain] = c.c_char_p
                else:
                    fields[plain], arrays[plain] = c.c_void_p, _ARRAYS.get(kind)
        found[name] = type(name, (Structure,), {"_fields_": [*fields.items()], "fields": fields, "arrays": arrays})
    return found


_TEXT = re.sub(r"/\*.*?\*/", "", header_path().read_text("ascii"), flags=re.DOTALL)
#: Name in the header -> structure.
STRUCTURES = _read_structures(_TEXT)
#: Function of the interface -> the structure that it is handed.
CALLS = {name: STRUCTURES[structure] for name, structure in re.findall(r"mxspec_(\w+)\(const (\w+) \*call\)", _TEXT)}
