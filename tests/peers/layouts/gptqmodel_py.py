"""GPTQModel, from a checkout: its conversion of zero points between the two checkpoint formats, both ways."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import torch

from mxspec import layouts

from tests.peers.layouts.compare import Comparison, number_items
from tests.peers.layouts.sources import find_checkout

PACKAGES = ("torch",)
SOURCE_VARIABLE = "MXSPEC_GPTQMODEL_SOURCE"
_NAMES = ("convert_gptq_v2_to_v1_format_module", "convert_gptq_v1_to_v2_format_module")


def compare() -> Iterator[Comparison]:
    """Zero points of 1 to 15; less one, a 0 would borrow from its neighbour in the word."""
    to_first, to_second = _load_functions()
    for shape in ((1, 8), (3, 64), (7, 128), (11, 136)):
        for zeros in number_items(shape, range(1, 16)):
            first, second = layouts.pack(zeros, "gptq-v1-zeros"), layouts.pack(zeros, "nibble-low")
            module = _Module(second.view("<i4").reshape(shape[0], -1))
            to_first(module, SimpleNamespace(bits=4, pack_dtype=torch.int32))
            yield Comparison("gptq-v1-zeros", "pack", shape, first, module.bytes())
            module = _Module(first.view("<i4").reshape(shape[0], -1))
            to_second(module, 4, torch.int32)
            back = layouts.unpack(module.bytes(), "nibble-low", shape)
            yield Comparison("gptq-v1-zeros", "unpack", shape, layouts.unpack(first, "gptq-v1-zeros", shape), back)


class _Module:
    """What the conversions touch of a layer."""

    def __init__(self, words: np.ndarray) -> None:
        self.qzeros = torch.from_numpy(words.copy())
        self.bits, self.pack_dtype = 4, torch.int32

    def qzero_format(self, *, format: int) -> None:  # noqa: A002
        """The format's number, which nobody asks for here."""

    def bytes(self) -> np.ndarray:
        return np.ascontiguousarray(self.qzeros.numpy()).reshape(-1).view(np.uint8)


def _load_functions() -> tuple[Any, Any]:
    """The two functions, compiled from the file by themselves: the package imports all of transformers' models."""
    path = find_checkout(SOURCE_VARIABLE) / "gptqmodel" / "utils" / "model.py"
    tree = ast.parse(path.read_text("utf-8"))
    tree.body = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in _NAMES]
    future = ast.parse("from __future__ import annotations").body
    tree.body = [*future, *tree.body]
    space: dict[str, Any] = {"torch": torch, "log": MagicMock(), "BaseQuantLinear": _Module}
    exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), space)
    return space[_NAMES[0]], space[_NAMES[1]]
