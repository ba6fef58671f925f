"""Single numbers and single codes: encode, decode, pack, unpack."""

from __future__ import annotations

import numpy as np
import pytest

import mxspec
import mxspec_gpu
from mxspec.formats import BLOCKS, get_scalar
from mxspec.rounding import DETERMINISTIC
from mxspec_gpu.kernels import SCALARS

from tests.cuda_headers import all_of, directed_float32
from tests.gpu import arithmetic
from tests.gpu.device import LIBRARIES, SEED, Tally, require_gpu, to_gpu, to_host

pytestmark = pytest.mark.gpu
require_gpu()


@pytest.mark.parametrize("name", SCALARS)
def test_encode_every_16_bit_number(name: str, tally: Tally) -> None:
    """Every rounding, overflow and dtype; a NaN keeps its sign in every dtype."""
    fmt = get_scalar(name)
    overflows = ("saturate", "own", "saturate-finite") if fmt.nan_code is not None else ("saturate",)
    inputs = [all_of("float16"), all_of("bfloat16"), directed_float32(name)]
    for x in inputs:
        given = to_gpu(x)
        for rounding in DETERMINISTIC:
            for overflow in overflows:
                want = mxspec.encode(x, name, rounding=rounding, overflow=overflow, sign="ignore")
                got = to_host(mxspec_gpu.encode(given, name, rounding=rounding, overflow=overflow))
                tally.equal(got, want, f"{name} {x.dtype} {rounding} {overflow}")
        words = np.random.default_rng(SEED).integers(0, 1 << 32, x.size, dtype=np.uint32).reshape(x.shape)
        for bits in (32, 8):
            want = mxspec.encode(x, name, rounding="sr", random_bits=words, sr_bits=bits, sign="ignore")
            got = mxspec_gpu.encode(given, name, rounding="sr", random_bits=to_gpu(words), sr_bits=bits)
            tally.equal(to_host(got), want, f"{name} {x.dtype} sr {bits}")


@pytest.mark.parametrize("nan", ["nan", "nan-positive", "max-positive", "max-signed"])
def test_nan_policies(nan: str, tally: Tally) -> None:
    for dtype in arithmetic.DTYPES:
        x = np.array([np.nan, -np.float32("nan"), 1, -1], np.float32).astype(arithmetic.DTYPES[dtype])
        for name in ("e4m3", "e5m2"):
            want = mxspec.encode(x, name, nan=nan)
            tally.equal(to_host(mxspec_gpu.encode(to_gpu(x), name, nan=nan)), want, f"{name} {dtype} {nan}")


@pytest.mark.parametrize("library", LIBRARIES)
def test_no_axes(library: str, tally: Tally) -> None:
    """One number without an axis is a number; random words without an axis, too."""
    x = np.array(1.37, np.float32)
    got = mxspec_gpu.encode(to_gpu(x, library), "e4m3")
    tally.equal(to_host(got), mxspec.encode(x, "e4m3"), "encode")
    tally.equal(to_host(mxspec_gpu.decode(got, "e4m3")), mxspec.decode(to_host(got), "e4m3"), "decode")
    words = np.array(0xFFFFFFFF, np.uint32)
    got = mxspec_gpu.encode(to_gpu(x, library), "e2m1", rounding="sr", random_bits=to_gpu(words.view(np.int32), library))
    tally.equal(to_host(got), mxspec.encode(x, "e2m1", rounding="sr", random_bits=words), "stochastic")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("fmt", BLOCKS)
def test_codes(fmt: str, library: str, tally: Tally) -> None:
    """Every code to its value and into bytes and back; one that is too wide is refused by its place, or cut on demand."""
    block = BLOCKS[fmt]
    bits, name = block.element.bits, block.element.name
    codes = np.tile(np.arange(1 << bits, dtype=np.uint8), 6).reshape(-1, block.k)
    given = to_gpu(codes, library)
    packed = mxspec_gpu.pack(given, fmt)
    tally.equal(to_host(packed), arithmetic.pack(codes, bits), "pack")
    tally.equal(to_host(mxspec_gpu.unpack(packed, fmt)), codes, "unpack")
    values = mxspec.decode(codes, name)
    tally.equal(to_host(mxspec_gpu.decode(given, name)).view(np.uint32), values.view(np.uint32), "decode")
    if bits == 8:
        return
    wide = codes.copy()
    wide[1, 3], wide[1, 9] = codes[1, 3] | 1 << bits, 200
    for call in (lambda x, **k: mxspec_gpu.pack(x, fmt, **k), lambda x, **k: mxspec_gpu.decode(x, name, **k)):
        text = rf"codes\[{block.k + 3}\] \(flat\) = {wide[1, 3]} has bits beyond the {bits} of {name}; pass codes from 0 to"
        with pytest.raises(ValueError, match=text):
            call(to_gpu(wide, library))
        tally.equal(to_host(call(to_gpu(wide & (1 << bits) - 1, library))), to_host(call(to_gpu(wide, library), check=False)), "cut")


def test_wide_codes_of_ue4m3(tally: Tally) -> None:
    with pytest.raises(ValueError, match=r"codes\[5\] \(flat\) = 128 has bits beyond the 7 of ue4m3"):
        mxspec_gpu.decode(to_gpu(np.array([1, 2, 3, 4, 127, 128, 255], np.uint8)), "ue4m3")
    tally.require(mxspec_gpu.decode(to_gpu(np.zeros((0, 4), np.uint8)), "ue4m3").shape == (0, 4), "empty")
