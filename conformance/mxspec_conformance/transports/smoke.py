"""Trying a target before it is judged: does it start, say what it can do, answer small calls in time, and stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mxspec.affine.formats import Offset
from mxspec.elements import code_dtype
from mxspec.formats import get_block
from mxspec.fused.functions import read_fused
from mxspec.layouts import Part, get_layout
from mxspec.sparsity import get_sparse
from mxspec_conformance.targets.affine import read_operand
from mxspec_conformance.targets.cache_calls import make_cache_call
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.errors import CallError, FailureKind, TargetError
from mxspec_conformance.targets.grouped import make_call, parse_grouped
from mxspec_conformance.targets.operands import Product, parse_product
from mxspec_conformance.targets.product_fitting import make_ordinary
from mxspec_conformance.targets.product_sizes import find_sizes
from mxspec_conformance.targets.randomness import some_randomness
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_conformance.transports.opening import open_target


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was tried."""

    name: str
    ok: bool
    #: What came back, or what was wrong.
    note: str
    seconds: float


def try_target(target: Any, *, timeout: float = 10.0) -> Iterator[Step]:
    """Each step as it is done; the first that fails in a way that makes the rest pointless is the last.

    Small calls are made, in the first dtype that the target takes: one block of zeros, one of multiples of 1/2, then sixteen. Every
    answer has to have the right shape and type, and to come again.
    """
    started = time.monotonic()
    try:
        session = open_target(target, timeout=timeout)
    except TargetError as error:
        yield Step("start", False, str(error), time.monotonic() - started)
        return
    capabilities = session.capabilities
    functions = ", ".join(capabilities.functions)
    yield Step("start", True, f"{capabilities.name} {capabilities.version}: {functions}", time.monotonic() - started)
    try:
        repeats = not capabilities.stochastic or some_randomness(capabilities, ())
        for name, call in _calls(session):
            yield _try(name, call, twice=bool(repeats))
    finally:
        started = time.monotonic()
        session.close()
    seconds = time.monotonic() - started
    yield Step("stop", seconds < 2, "ended" if seconds < 2 else "had to be killed: end when stdin does", seconds)


def _try(name: str, call: Callable[[], Any], *, twice: bool) -> Step:
    """One call; twice: made once more, and both answers have to be equal in every bit."""
    started = time.monotonic()
    try:
        first = _read_bytes(call())
        ok = not twice or _read_bytes(call()) == first
        note = "answered" if ok else "the same call again was answered with other bits"
    except CallError as failure:
        ok, note = failure.kind is FailureKind.UNSUPPORTED, f"{failure.kind}: {failure}"
    return Step(name, ok, note, time.monotonic() - started)


def _read_bytes(answer: Any) -> tuple[bytes, ...]:
    return tuple(np.asarray(part).tobytes() for part in (answer if isinstance(answer, (tuple, list)) else (answer,)))


def _multiply(session: TargetSession, product: Product, rows: int) -> Any:
    """A product of small numbers, in sizes that the target takes."""
    sizes = find_sizes(product, session.capabilities.product_shapes)
    m, n, k = sizes.fit(rows, rows, 1)
    a, b = make_ordinary(product.a, m, k), make_ordinary(product.b, n, k)
    return session.call("matmul", a.as_data(), b.as_data(), session.capabilities.out_dtypes[0])


def _calls(session: TargetSession) -> Iterator[tuple[str, Callable[[], Any]]]:
    capabilities = session.capabilities
    one, dtype = np.ones(4, np.float32), DTYPES[capabilities.dtypes[0]]
    ramp = np.tile(np.arange(-4, 5) / 2, 512).astype(dtype)  # numbers that differ, exact in every dtype
    for fmt in capabilities.formats:
        block = get_block(fmt)
        for label, rows, value in (("zeros", 1, 0), ("halves", 1, 1), ("16 rows", 16, 1)):
            codes, scales = (
                np.zeros((rows, block.k), np.uint8),
                np.full((rows, 1), block.scale.bias << block.scale.mantissa_bits, code_dtype(block.scale)),
            )
            x = (ramp if value else np.zeros_like(ramp))[: rows * block.k].reshape(rows, block.k)
            if capabilities.has("quantize") and capabilities.one_level:
                yield f"quantize {fmt}, {label}", partial(session.call, "quantize", x, fmt)
            if capabilities.has("quantize", "tensor_scale") and block.has_tensor_scale:
                yield (f"quantize {fmt}, {label}, tensor scale", partial(session.call, "quantize", x, fmt, tensor_scale=1.0))
            if capabilities.has("dequantize"):
                options = {"tensor_scale": 1.0} if capabilities.has("dequantize", "tensor_scale") and block.has_tensor_scale else {}
                yield f"dequantize {fmt}, {label}", partial(session.call, "dequantize", codes, scales, fmt, **options)
        if capabilities.has("tensor_scale") and block.has_tensor_scale:
            yield f"tensor_scale {fmt}", partial(session.call, "tensor_scale", ramp[None, : block.k], fmt)
    for name in capabilities.affine:
        fmt_of_name = read_operand(name).format
        for rows in (1, 16):
            given = np.ones((rows, 2 * fmt_of_name.group), fmt_of_name.numpy_dtype)
            if capabilities.has("quantize_affine"):
                yield f"quantize_affine {name}, {rows} rows", partial(session.call, "quantize_affine", given, name)
            if capabilities.has("dequantize_affine"):
                shared = np.ones((rows, 2), fmt_of_name.numpy_dtype)
                offsets = shared if fmt_of_name.offset is Offset.BIAS else shared.astype(np.uint8)
                stored = (np.ones(given.shape, np.uint8), shared, offsets, name)
                yield f"dequantize_affine {name}, {rows} rows", partial(session.call, "dequantize_affine", *stored)
    for text in capabilities.products:
        product = parse_product(text)
        for rows in (1, 16):
            yield f"matmul {text}, {rows} rows", partial(_multiply, session, product, rows)
    for text in capabilities.grouped:
        small = make_call(parse_grouped(text), make_ordinary, capabilities.product_shapes, capabilities.out_dtypes[0])
        yield f"grouped_matmul {text}", partial(session.call, "grouped_matmul", *small)
    for function, names in (
        ("append_cache", capabilities.caches),
        ("read_cache", capabilities.caches),
        ("attention", capabilities.attention),
    ):
        for name in names if capabilities.has(function) else ():
            arguments, options = make_cache_call(capabilities, function, name)
            yield f"{function} {name}", partial(session.call, function, *arguments, **options)
    for function, inverse, part in (("pack", "unpack", Part.CODES), ("swizzle", "unswizzle", Part.SCALES)):
        for layout in map(get_layout, capabilities.layouts):
            if [field.part for field in layout.fields] == [part] and layout.main.stored is None:
                items = np.zeros(tuple(2 * n for n in layout.pad_to or layout.tile), np.uint8)
                if capabilities.has(function):
                    yield f"{function} {layout.name}", partial(session.call, function, items, layout.name)
                if capabilities.has(inverse):
                    yield f"{inverse} {layout.name}", partial(session.call, inverse, layout.pack(items), layout.name, items.shape)
    for element in capabilities.elements:
        if capabilities.has("encode"):
            yield f"encode {element}", partial(session.call, "encode", one, element)
        if capabilities.has("decode"):
            yield f"decode {element}", partial(session.call, "decode", one.astype(np.uint8), element)
        if capabilities.has("encode_stochastic"):
            yield (f"encode_stochastic {element}", partial(session.call, "encode_stochastic", one, element, one.astype(np.uint32)))
    for name in capabilities.fused:
        fused, block = read_fused(name)
        x = np.resize(ramp, (16, 2 * block.k * fused.size))
        yield f"quantize_fused {name}", partial(session.call, "quantize_fused", x, fused.name, block.name, **dict.fromkeys(fused.needs, x))
    for name in capabilities.sparse_formats:
        sparse = get_sparse(name)
        dense = np.zeros((32, 32 * sparse.group), np.uint8)
        kept, nibbles = dense[:, ::2].copy(), np.full((32, 32), 4, np.uint8)
        for function in ("prune", "compress"):
            if capabilities.has(function):
                yield f"{function} {name}", partial(session.call, function, dense, name)
        if capabilities.has("decompress"):
            yield f"decompress {name}", partial(session.call, "decompress", kept, nibbles, name, dense.shape)
