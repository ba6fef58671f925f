"""The kits by name: which files each consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType

from mxspec_conformance.kits.c99 import write_c99
from mxspec_conformance.kits.c_header import write_c_header, write_driver
from mxspec_conformance.kits.choosing import chosen_blocks, chosen_formats
from mxspec_conformance.kits.hardware import write_dot, write_dpi, write_package, write_scoreboard
from mxspec_conformance.kits.llvm import (
    elements_of,
    write_cases,
    write_driver as write_driver_of_apfloat,
    write_lit,
    write_nan_lit,
    write_scaling_lit,
)
from mxspec_conformance.kits.onnx_nodes import ELEMENTS, write_onnx
from mxspec_conformance.kits.products import PAIRS, list_calls, write_products_file
from mxspec_conformance.kits.products_runtime import PATTERNS as DESIGNS
from mxspec_conformance.kits.pytest_file import write_pytest_file
from mxspec_conformance.kits.readmem import write_readmem
from mxspec_conformance.kits.runtime import PATTERNS

#: File name -> content.
Files = Mapping[str, bytes]
#: What a kit holds unless others are requested.
COMMON = ("mxfp4", "mxfp8_e4m3", "nvfp4")
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


def _pytest(formats: tuple[str, ...], size: int) -> Files:
    name = "test_mx_blocks.py"
    about = (
        f"{size} golden blocks of each of {', '.join(formats)}, and {len(PATTERNS)} call patterns. What it finds is published with mxspec."
    )
    blocks = {fmt: chosen_blocks(fmt, size) for fmt in formats}
    text = write_pytest_file(blocks, tuple(PATTERNS), name=name, title="Golden blocks for MX and NVFP4 quantizers", about=about)
    return _encoded({name: text})


def _c(formats: tuple[str, ...], size: int) -> Files:
    header = write_c_header({fmt: chosen_blocks(fmt, size) for fmt in formats})
    return _encoded({"mxspec_kit.h": header, "driver.c": write_driver("mxspec_kit.h")})


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
    pairs = [pair for pair in PAIRS if set(pair.split("@")) <= set(formats)]
    calls = {pair: [call["i"] for call in list_calls(pair)[1]] for pair in pairs}
    about = (
        f"{sum(map(len, calls.values()))} golden calls of {', '.join(pairs)}, and {len(DESIGNS)} patterns of calls that it computes. What they find of mistakes "
        "that were not used to choose the calls is published with mxspec."
    )
    text = write_products_file(calls, tuple(DESIGNS), name=name, title="Golden calls for products of MX and NVFP4 operands", about=about)
    return _encoded({name: text})


def _encoded(texts: Mapping[str, str]) -> Files:
    return {name: text.encode("ascii") for name, text in texts.items()}


KITS: Mapping[str, KitKind] = MappingProxyType(
    {
        "pytest": KitKind("one pytest file that needs NumPy alone, for kernels that Python can call", _pytest),
        "products": KitKind(
            "one pytest file that needs NumPy alone, for products of two operands with block scales", _products, tuple(chosen_formats())
        ),
        "c": KitKind("one C99 header with data, and a driver", _c),
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


def write_kit(name: str, formats: Iterable[str] = (), size: int = 140) -> Files:
    """The files of a kit.

    Raises ValueError for a name, format or size that there is not.
    """
    if name not in KITS:
        raise ValueError(f"no kit is named {name!r}; there are {', '.join(KITS)}")
    wanted = tuple(dict.fromkeys(formats)) or KITS[name].formats
    for fmt in wanted:
        if fmt not in chosen_formats():
            raise ValueError(f"no kit for {fmt}; there are kits for {', '.join(chosen_formats())}")
    return KITS[name].write(wanted, size)
