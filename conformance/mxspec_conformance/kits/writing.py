"""The kits by name: which files each consists of."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType

from mxspec_conformance.kits.c99 import write_c99
from mxspec_conformance.kits.c_header import write_c_header, write_driver
from mxspec_conformance.kits.choosing import SIZES, chosen_blocks, chosen_formats, say_limits
from mxspec_conformance.kits.golden import GROUPS
from mxspec_conformance.kits.hardware import write_dot, write_dpi, write_package, write_scoreboard
from mxspec_conformance.kits.json_file import write_json
from mxspec_conformance.kits.llvm import (
    elements_of,
    write_cases,
    write_driver as write_driver_of_apfloat,
    write_lit,
    write_nan_lit,
    write_scaling_lit,
)
from mxspec_conformance.kits.onnx_nodes import ELEMENTS, write_onnx
from mxspec_conformance.kits.products import GROUP_PAIRS, PAIRS, list_calls, write_products_file
from mxspec_conformance.kits.products_runtime import PATTERNS as DESIGNS
from mxspec_conformance.kits.pytest_file import write_pytest_file
from mxspec_conformance.kits.readmem import write_readmem
from mxspec_conformance.kits.runtime import PATTERNS

#: File name -> content.
Files = Mapping[str, bytes]
#: What a kit holds unless others are requested.
COMMON = ("mxfp4", "mxfp8_e4m3", "nvfp4")
#: A file that other projects take into their repositories is smaller than this, in bytes, unless a number of blocks is requested.
LARGEST = 30_000
#: The formats whose elements are floats of their own.
CASTS = ("mxfp8_e5m2", "mxfp8_e4m3", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4")


#: File of the kit tosa -> module here.
_TOSA = {"mxspec_tosa_sut": "tosa_sut", "tosa_target": "tosa_target"}


@dataclass(frozen=True, slots=True)
class KitKind:
    """A kit for one kind of project."""

    what: str
    #: (formats, blocks of each) -> files.
    write: Callable[[tuple[str, ...], int], Files]
    #: What it holds unless others are requested.
    formats: tuple[str, ...] = COMMON
    #: Others that it can hold.
    others: tuple[str, ...] = tuple(chosen_formats())
    #: Whether it has as many blocks as fit into `LARGEST`, rather than all.
    is_small: bool = False


def _pytest(formats: tuple[str, ...], size: int) -> Files:
    name = "test_mx_blocks.py"
    # Code of torch divides in the dtype of its input, so that 16-bit inputs of FP8 in groups may get answers of their own.
    patterns = tuple(p for p in PATTERNS if p != "halves" or not set(formats) & set(GROUPS))
    about = (
        f"{size} golden blocks of each of {', '.join(formats)}, and {len(patterns)} call patterns. {say_limits(formats, size, calls=True)}"
    )
    blocks = {fmt: chosen_blocks(fmt, size) for fmt in formats}
    text = write_pytest_file(blocks, patterns, name=name, title="Golden blocks for MX and NVFP4 quantizers", about=about)
    return _encoded({name: text})


def _c(formats: tuple[str, ...], size: int) -> Files:
    header = write_c_header({fmt: chosen_blocks(fmt, size) for fmt in formats})
    return _encoded({"mxspec_kit.h": header, "driver.c": write_driver("mxspec_kit.h")})


def _json(formats: tuple[str, ...], size: int) -> Files:
    return _encoded({f"mx_blocks_{fmt}.json": write_json(fmt, chosen_blocks(fmt, size)) for fmt in formats})


def _hardware(formats: tuple[str, ...], size: int) -> Files:
    headers = {"mxspec_c99.h": write_c99(formats).text, "mxspec_dot.h": write_dot()}
    simulators = {"mxspec_dpi.c": write_dpi(), "mxspec_pkg.sv": write_package(formats), "mxspec_scoreboard.py": write_scoreboard()}
    return _encoded(headers | simulators | write_readmem(formats, size))


def _llvm(formats: tuple[str, ...], size: int) -> Files:
    elements = elements_of(formats)
    return _encoded(
        {
            "MXCases.inc": write_cases(elements), "mx-decode.mlir": write_lit(elements), "mx-scaling.mlir": write_scaling_lit(elements),
            "mx-nan.mlir": write_nan_lit(), "mx_apfloat.cpp": write_driver_of_apfloat(),
        }
    )  # fmt: skip


def _tosa(formats: tuple[str, ...], size: int) -> Files:
    texts = {f"{name}.py": (files("mxspec_conformance.kits") / f"{source}.py").read_text("utf-8") for name, source in _TOSA.items()}
    return _encoded(texts)


def _products(formats: tuple[str, ...], size: int) -> Files:
    name = "test_mx_products.py"
    pairs = [pair for pair in (*PAIRS, *GROUP_PAIRS) if pair in formats or set(pair.split("@")) <= set(formats)]
    calls = {pair: [call["i"] for call in list_calls(pair)[1]] for pair in pairs}
    about = (
        f"{sum(map(len, calls.values()))} golden calls of {', '.join(pairs)}, and {len(DESIGNS)} patterns of calls that it computes. Not looked at: packed "
        "codes, swizzled scales, the order of long sums that the class leaves open, k beyond 4,224, threads, streams, and memory next to the arrays."
    )
    text = write_products_file(calls, tuple(DESIGNS), name=name, title="Golden calls for products of MX and NVFP4 operands", about=about)
    return _encoded({name: text})


def _encoded(texts: Mapping[str, str]) -> Files:
    return {name: text.encode("ascii") for name, text in texts.items()}


KITS: Mapping[str, KitKind] = MappingProxyType(
    {
        "pytest": KitKind(
            "one pytest file that needs NumPy alone, for kernels that Python can call",
            _pytest,
            others=(*chosen_formats(), *GROUPS),
            is_small=True,
        ),
        "json": KitKind(
            "a JSON file to a format, with the reasons, for tests in any language",
            _json,
            others=(*chosen_formats(), *GROUPS),
            is_small=True,
        ),
        "products": KitKind(
            "one pytest file that needs NumPy alone, for products of two operands with block scales",
            _products,
            others=(*chosen_formats(), *GROUPS, *PAIRS, *GROUP_PAIRS),
        ),
        "c": KitKind("one C99 header with data, and a driver", _c, is_small=True),
        "hardware": KitKind(
            "the profiles and accumulators as C99 headers of integer arithmetic, by DPI-C and for cocotb, coverage bins, $readmemh files",
            _hardware,
        ),
        "llvm": KitKind(
            "every step of every cast as X-macro rows, a driver for LLVM's APFloat, and lit tests of decodes and scaling casts",
            _llvm,
            CASTS,
        ),
        "tosa": KitKind(
            "a --sut-module of an mxspec target for Arm TOSA's test runner, and one of the runner's modules as a target; needs tosa-tools",
            _tosa,
        ),
        "onnx": KitKind(
            "ONNX node tests of QuantizeLinear and DequantizeLinear by blocks; needs the package onnx", write_onnx, tuple(ELEMENTS)
        ),
    }
)


def write_kit(name: str, formats: Iterable[str] = (), size: int | None = None) -> Files:
    """The files of a kit. size: blocks of each format; None: all, or of a kit for other repositories as many as leave each file below `LARGEST` bytes.

    Raises ValueError for a name, format or size that there is not.
    """
    if name not in KITS:
        raise ValueError(f"no kit is named {name!r}; there are {', '.join(KITS)}")
    wanted = tuple(dict.fromkeys(formats)) or KITS[name].formats
    kind = KITS[name]
    for fmt in wanted:
        if fmt not in kind.others:
            raise ValueError(f"no kit {name} for {fmt}; there are kits for {', '.join(kind.others)}")
    if size is None and kind.is_small:
        sizes = range(1, SIZES[-1] + 1)
        size = max(1, bisect_left(sizes, LARGEST, key=lambda n: max(map(len, kind.write(wanted, n).values()))))
    return kind.write(wanted, size or SIZES[-1])
