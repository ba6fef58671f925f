"""The tensor core instructions that gpu/probe/mxprobe.cu asks, by their names, and how far its questions go in each format."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: How a path's instructions begin.
PATHS = {"mma.": "mma.sync", "wgmma.": "wgmma", "tcgen05.mma.": "tcgen05.mma"}
#: Format -> exponents of the small term, of the largest product, and of the largest sum that is handed on.
RANGES: dict[str, tuple[int, int, int]] = {
    "f16": (-24, 30, 30), "bf16": (-40, 40, 40), "tf32": (-40, 40, 40), "e4m3": (-12, 16, 16), "e5m2": (-24, 30, 30),
    "e2m3": (-6, 4, 34), "e3m2": (-8, 8, 32), "e2m1": (-2, 4, 38),
}  # fmt: skip
#: Formats of four and six bits have instructions on the last path alone.
_NAME = re.compile(
    r"(mma|wgmma)\.m\d+n\d+k(?P<k>8|16|32)\.f32\.(?P<fmt>f16|bf16|tf32|e4m3|e5m2)"
    r"|tcgen05\.mma\.(f16|tf32|f8f6f4|mxf8f6f4|mxf4|mxf4nvf4)\.m\d+n\d+k(?P<long>8|16|32|64)\.f32\.(?P<any>f16|bf16|tf32|e[0-9]m[0-9])"
)


@dataclass(frozen=True, slots=True)
class Instruction:
    """What a name says."""

    name: str
    path: str
    #: Products that it adds.
    k: int
    format: str

    @property
    def asked_up_to(self) -> tuple[int, int]:
        """The most bits that the questions can find: among products, and in the sum that is handed on."""
        low, high, above = RANGES[self.format]
        return high - low, above - low


def find_path(instruction: str) -> str:
    """The path of an instruction as the probe names it.

    Raises ValueError for one of no known path.
    """
    for start, path in PATHS.items():
        if instruction.startswith(start):
            return path
    raise ValueError(f"{instruction!r} is of none of the paths {', '.join(PATHS.values())}")


def read_name(name: str) -> Instruction:
    """An instruction by the name that the probe gives it.

    Raises ValueError for a name that the probe does not write.
    """
    path = find_path(name)
    found = _NAME.fullmatch(name)
    fmt = found and (found["fmt"] or found["any"])
    if found is None or fmt not in RANGES:
        raise ValueError(f"{name!r} is no name of an instruction that the probe asks, such as mma.m16n8k16.f32.f16")
    return Instruction(name, path, int(found["k"] or found["long"]), fmt)
