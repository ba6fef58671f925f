"""ggml's C library: its blocks both ways, through ctypes, from a libggml-base that an environment variable names.

The npm package @node-llama-cpp/linux-x64 carries one.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mxspec import layouts
from mxspec.formats import E2M1

from tests.peers.layouts.compare import Bytes, Comparison, decode_codes, encode_values, number_items
from tests.peers.layouts.sources import find_checkout

PACKAGES = ()
SOURCE_VARIABLE = "MXSPEC_GGML_LIBRARY"
_NO_MINUS_ZERO = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15)


def describe_source() -> str:
    """The release that the package says it was built from."""
    note = find_checkout(SOURCE_VARIABLE).parent / "_nlcBuildMetadata.json"
    if not note.is_file():
        return "unknown"
    return "{repo} {release}".format(**json.loads(note.read_text("utf-8"))["buildOptions"]["llamaCpp"])


def compare() -> Iterator[Comparison]:
    """Every comparison."""
    library = ctypes.CDLL(str(Path(find_checkout(SOURCE_VARIABLE))))
    for layout, block, one, largest in (("ggml-mxfp4", 32, 127, 6), ("ggml-nvfp4", 16, 0x38, 7)):
        name = layout.removeprefix("ggml-")
        read, write = getattr(library, f"dequantize_row_{name}"), getattr(library, f"quantize_row_{name}_ref")
        for shape in ((1, 64), (3, 128), (127, 64), (129, 192), (300, 448)):
            own = (shape[0], shape[1] // block)
            for codes in number_items(shape, 16):
                data = layouts.pack_blocks(codes, np.full(own, one, np.uint8), layout)
                values = np.empty(shape, np.float32)
                read(_pointer(data), _pointer(values), ctypes.c_int64(values.size))
                yield Comparison(layout, "unpack", shape, np.where(codes == 8, 0, codes), encode_values(values, E2M1))
            for plane, codes in enumerate(number_items(shape, _NO_MINUS_ZERO)):
                for place in range(plane, block, 7):
                    kept = codes.copy()
                    kept[:, place::block] = np.where(kept[:, place::block] < 8, largest, largest + 8)
                    values = decode_codes(kept, E2M1)
                    data = layouts.pack_blocks(kept, np.full(own, one, np.uint8), layout)
                    theirs = np.empty_like(data)
                    write(_pointer(values), _pointer(theirs), ctypes.c_int64(values.size))
                    yield Comparison(layout, "pack", shape, data, theirs)
                    own_codes = theirs.reshape(-1, 17)[:, 1:] if block == 32 else theirs.reshape(-1, 36)[:, 4:]
                    split = f"nibble-split-{block}"
                    yield Comparison(split, "pack", shape, layouts.pack(kept, split), np.ascontiguousarray(own_codes))


def _pointer(array: Bytes | np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
