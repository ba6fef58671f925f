"""Casts of float32 for compilers: every step of every cast as X-macro rows, digests of all inputs, and decodes as a lit test for MLIR.

A cast is a step function of the bits: from a pattern on it gives one code, up to the next row. What OCP leaves open, NaN and infinity in formats
that have neither, has rows of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.elements import decode_table, encode
from mxspec.formats import ELEMENTS as FORMATS, ElementFormat, get_block
from mxspec.rounding import NanPolicy, Overflow, Rounding
from mxspec.stepfunctions import INF_BITS, SIGN, Bits, StepFunction, find_float32_steps

#: Elements by their names in LLVM, and modes by what APFloat calls them.
ELEMENTS: Mapping[str, str] = MappingProxyType(
    {"e5m2": "Float8E5M2", "e4m3": "Float8E4M3FN", "e3m2": "Float6E3M2FN", "e2m3": "Float6E2M3FN", "e2m1": "Float4E2M1FN"}
)
MODES: Mapping[Rounding, str] = MappingProxyType(
    {
        Rounding.RNE: "NearestTiesToEven", Rounding.RNA: "NearestTiesToAway", Rounding.RTZ: "TowardZero", Rounding.RTP: "TowardPositive",
        Rounding.RTN: "TowardNegative",
    }
)  # fmt: skip
#: The digest of codes c: h = h * FACTOR + c + 1 modulo 2^64, from 0.
FACTOR = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
#: MLIR's names of the elements, and of scales; MLIR 19 has those of eight bits.
_TYPES = {"e5m2": "f8E5M2", "e4m3": "f8E4M3FN", "e3m2": "f6E3M2FN", "e2m3": "f6E2M3FN", "e2m1": "f4E2M1FN"}
_SCALE_TYPE, _NAN_BYTE = "f8E8M0FNU", 0xFF
#: MLIR's names of the formats that arith.extf of MLIR 19 folds.
_MLIR = {"e5m2": "f8E5M2", "e4m3": "f8E4M3FN"}
_LANES = 16


def cast_steps(element: ElementFormat, mode: Rounding) -> StepFunction:
    """The code of every float32 pattern. Beyond the largest value: the format's infinity or NaN, else the largest."""
    has_own = element.nan_code is not None
    overflow, nan = (Overflow.OWN, NanPolicy.NAN) if has_own else (Overflow.SATURATE, NanPolicy.MAX_POSITIVE)

    def compute(bits: Bits) -> npt.NDArray[np.uint8]:
        return encode(bits.astype(np.uint32).view(np.float32), element, rounding=mode, overflow=overflow, nan=nan)

    return find_float32_steps(compute, 2 * SIGN)


def digest_steps(steps: StepFunction, shift: int = 0) -> int:
    """The digest of the codes of all patterns, or of those whose lower `shift` bits are zero; open answers count as their rows have them."""
    total = 0
    for start, end, value in zip(steps.starts.tolist(), steps.ends.tolist(), steps.values.tolist(), strict=True):
        count = (end >> shift) - ((start - 1) >> shift)
        factor, term = _repeat(FACTOR, value + 1, count)
        total = (total * factor + term) & _MASK
    return total


def _repeat(factor: int, term: int, count: int) -> tuple[int, int]:
    """h -> h * factor + term, `count` times, as one such step."""
    whole = (1, 0)
    while count:
        if count & 1:
            whole = (whole[0] * factor & _MASK, (whole[1] * factor + term) & _MASK)
        factor, term = factor * factor & _MASK, (term * factor + term) & _MASK
        count >>= 1
    return whole


def _rows(name: str, mode: Rounding, steps: StepFunction) -> Iterator[str]:
    element = FORMATS[name]
    for sign in (0, SIGN):
        bounds = [sign, *(s for s in steps.starts.tolist() if sign < s < sign + INF_BITS), sign + INF_BITS, sign + INF_BITS + 1]
        for start in bounds:
            code = int(steps.at(np.array([start]))[0])
            head = f"{ELEMENTS[name]}, {MODES[mode]}, 0x{start:08X}"
            if start > sign + INF_BITS and element.nan_code is not None:
                yield f"MX_NAN({head}, 0x{code:02X})"
            elif start >= sign + INF_BITS and element.nan_code is None:
                yield f"MX_OPEN({head}, 0x{code:02X})"
            else:
                yield f"MX_STEP({head}, 0x{code:02X})"


def elements_of(formats: Iterable[str]) -> tuple[str, ...]:
    """The elements of block formats. Raises ValueError for one that LLVM has no semantics for."""
    names = tuple(dict.fromkeys(get_block(f).element.name for f in formats))
    if without := [n for n in names if n not in ELEMENTS]:
        raise ValueError(f"LLVM has no floating-point semantics for {', '.join(without)}; it has them for {', '.join(ELEMENTS)}")
    return names


def write_cases(elements: Iterable[str] = tuple(ELEMENTS)) -> str:
    """MXCases.inc."""
    lines = [
        f"// Every step of every cast from float32 to the elements of OCP MX, by mxspec {mxspec.__version__}. Data: CC0-1.0.",
        "// MX_STEP(semantics, mode, first, code): from the float32 pattern `first` on, up to the next row of the cast, the code is `code`.",
        "// MX_NAN: any NaN of the format is right. MX_OPEN: NaN or infinity in a format without; OCP leaves the answer open.",
        "// MX_SWEEP(semantics, mode, all, upper): digests of the codes of all 2^32 patterns, and of the 2^16 whose lower half is zero, in rising order:",
        f"// h = h * 0x{FACTOR:016X} + code + 1 modulo 2^64, from 0; NaN and open answers count with the code of their row.",
        *(f"#ifndef {m}\n#define {m}({', '.join('abcd')})\n#endif" for m in ("MX_STEP", "MX_NAN", "MX_OPEN", "MX_SWEEP")),
    ]  # fmt: skip
    for name in elements:
        for mode in MODES:
            steps = cast_steps(FORMATS[name], mode)
            lines += _rows(name, mode, steps)
            lines.append(f"MX_SWEEP({ELEMENTS[name]}, {MODES[mode]}, 0x{digest_steps(steps):016X}, 0x{digest_steps(steps, 16):016X})")
    return "\n".join([*lines, *(f"#undef {m}" for m in ("MX_STEP", "MX_NAN", "MX_OPEN", "MX_SWEEP")), ""])


def write_lit(elements: Iterable[str] = tuple(ELEMENTS)) -> str:
    """mx-decode.mlir: constants of MLIR's f8 types, extended to f32 by the folder of arith.extf; NaN by what it is compared with."""
    lines = [
        "// RUN: mlir-opt --canonicalize %s | FileCheck %s",
        f"// Generated by mxspec {mxspec.__version__}. Data: CC0-1.0. Lanes that are NaN are left out: their bits are open.",
        "",
    ]
    for name, kind in ((n, _MLIR[n]) for n in elements if n in _MLIR):
        values = decode_table(FORMATS[name])
        codes = np.flatnonzero(~np.isnan(values))
        for number, first in enumerate(range(0, len(codes), _LANES)):
            chosen = codes[first : first + _LANES]
            n, label = len(chosen), f"{name}_{number}"
            words = ", ".join(map(str, values[chosen].view(np.int32).tolist()))
            given = ", ".join(f"0x{c:02X}" for c in chosen.tolist())
            lines += [
                f"// CHECK-LABEL: @{label}(", f"// CHECK: arith.constant dense<[{words}]> : vector<{n}xi32>", f"func.func @{label}() -> vector<{n}xi32> {{",
                f"  %0 = arith.constant dense<[{given}]> : vector<{n}x{kind}>", f"  %1 = arith.extf %0 : vector<{n}x{kind}> to vector<{n}xf32>",
                f"  %2 = arith.bitcast %1 : vector<{n}xf32> to vector<{n}xi32>", f"  return %2 : vector<{n}xi32>", "}", "",
            ]  # fmt: skip
    return "\n".join(lines)


def write_scaling_lit(elements: Iterable[str] = tuple(ELEMENTS)) -> str:
    """mx-scaling.mlir: every E8M0 byte but FF, and each element under four bytes, by scaling_extf and back; all results are exact. For MLIR 22."""
    lines = [
        '// RUN: mlir-opt --arith-expand="include-f8e8m0=false include-f4e2m1=false" --canonicalize %s | FileCheck %s',
        f"// Generated by mxspec {mxspec.__version__}. Data: CC0-1.0. Scales 00, 01, 7F, and the highest under which the largest element is a float32.", "",
    ]  # fmt: skip
    stored = np.arange(_NAN_BYTE)
    scales = np.ldexp(np.float32(1), stored - 127).astype(np.float32)
    for first in range(0, len(stored), _LANES):
        part = stored[first : first + _LANES]
        lines += _folded(f"e8m0_{first:02x}", "extf", [(part, _SCALE_TYPE)], "f32", scales[part].view(np.int32))
    for name in elements:
        values, kind = decode_table(FORMATS[name]), _TYPES[name]
        codes = np.flatnonzero(np.isfinite(values))
        for byte in (0, 1, 127, 254 - int(np.frexp(values[codes].max())[1])):
            for number, first in enumerate(range(0, len(codes), _LANES)):
                part = codes[first : first + _LANES]
                label, under = f"{name}_{byte:02x}_{number}", (np.full(len(part), byte), _SCALE_TYPE)
                wide = (values[part] * scales[byte]).astype(np.float32).view(np.int32)
                lines += _folded(f"{label}_extf", "scaling_extf", [(part, kind), under], "f32", wide)
                if byte == 127:  # others are divided by a scale that MLIR may flush
                    lines += _folded(f"{label}_truncf", "scaling_truncf", [(wide, "f32"), under], kind, part)
    return "\n".join(lines)


def write_nan_lit() -> str:
    """mx-nan.mlir: E8M0's FF is NaN, by the bits of its float32. A file of its own: LLVM 22.1 folds them to those of an infinity."""
    lines = [
        "// RUN: mlir-opt --canonicalize %s | FileCheck %s", f"// Generated by mxspec {mxspec.__version__}. Data: CC0-1.0. Bits of a NaN are above those of infinity.", "",
        "// CHECK-LABEL: @e8m0_ff(", "// CHECK: arith.constant true", "func.func @e8m0_ff() -> i1 {",
        f"  %0 = arith.constant 0x{_NAN_BYTE:02X} : {_SCALE_TYPE}", f"  %1 = arith.extf %0 : {_SCALE_TYPE} to f32", "  %2 = arith.bitcast %1 : f32 to i32",
        f"  %m = arith.constant {SIGN - 1} : i32", f"  %i = arith.constant {INF_BITS} : i32", "  %3 = arith.andi %2, %m : i32", "  %4 = arith.cmpi ugt, %3, %i : i32",
        "  return %4 : i1", "}", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _folded(
    label: str, operator: str, operands: Sequence[tuple[npt.NDArray[Any], str]], result: str, wanted: npt.NDArray[Any]
) -> list[str]:
    """A function of constants that is folded to one constant: the bits of the result."""
    n, width = len(wanted), int(re.findall(r"\d+", result)[0])
    shapes = [f"vector<{n}x{kind}>" for _, kind in operands]
    given = [f"  %{i} = arith.constant dense<[{', '.join(_bits(a, kind))}]> : {shapes[i]}" for i, (a, kind) in enumerate(operands)]
    return [
        f"// CHECK-LABEL: @{label}(", f"// CHECK: arith.constant dense<{_list(wanted, width)}> : vector<{n}xi{width}>", f"func.func @{label}() -> vector<{n}xi{width}> {{",
        *given, f"  %v = arith.{operator} {', '.join(f'%{i}' for i in range(len(operands)))} : {', '.join(shapes)} to vector<{n}x{result}>",
        f"  %w = arith.bitcast %v : vector<{n}x{result}> to vector<{n}xi{width}>", f"  return %w : vector<{n}xi{width}>", "}", "",
    ]  # fmt: skip


def _bits(array: npt.NDArray[Any], kind: str) -> list[str]:
    return [f"0x{int(v) & 0xFFFFFFFF:0{8 if kind == 'f32' else 2}X}" for v in array.tolist()]


def _list(array: npt.NDArray[Any], width: int) -> str:
    """As MLIR prints integers: signed, and one for all where they are equal."""
    signed = [v - (1 << width) if v >> (width - 1) & 1 and v >= 0 else v for v in array.tolist()]
    return str(signed[0]) if len(set(signed)) == 1 else f"[{', '.join(map(str, signed))}]"


def write_driver() -> str:
    """mx_apfloat.cpp."""
    return Path(__file__).with_name("apfloat.cpp").read_text("ascii")
