"""The model against cuda_fp4.h, cuda_fp6.h and cuda_fp8.h: every encoder and decoder of theirs, bit for bit."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest

import mxspec
from mxspec.formats import get_scalar
from mxspec_lab import cuda_headers

from tests.cuda_headers import all_of, directed_float32, headers, wide_float32
from tests.support import Array, assert_same, bits_of

#: What the headers make of NaN: the largest number where a format has no NaN, else a NaN without sign.
NAN_POLICY = {
    "e2m1": "max-positive",
    "e2m3": "max-positive",
    "e3m2": "max-positive",
    "e4m3": "nan-positive",
    "e5m2": "nan-positive",
    "e8m0": "nan",
}


def inputs(name: str, dtype: str) -> Array:
    """All numbers of a 16-bit dtype; of float32 the directed ones of the format and the wide net."""
    return all_of(dtype) if dtype != "float32" else np.concatenate([directed_float32(name), wide_float32()])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("name", "rounding", "overflow"), cuda_headers.ENCODERS)
def test_encode(name: str, rounding: str, overflow: str, dtype: str) -> None:
    if (name, dtype) == ("e8m0", "float16"):
        with pytest.raises(ValueError, match="no conversion of float16 to e8m0"):
            headers().encode(all_of(dtype), name, rounding=rounding, overflow=overflow)
        return
    x = inputs(name, dtype)
    theirs = headers().encode(x, name, rounding=rounding, overflow=overflow)
    ours = mxspec.encode(x, name, rounding=rounding, overflow=overflow, nan=NAN_POLICY[name], sign="ignore")
    assert_same(ours, theirs, lambda i: f"{x.dtype} {int(bits_of(x)[i]):#x}")


@pytest.mark.parametrize("name", cuda_headers.DECODERS)
def test_decode(name: str) -> None:
    codes = np.arange(get_scalar(name).code_count, dtype=np.uint32).astype(np.uint8)
    ours, theirs = mxspec.decode(codes, name), headers().decode(codes, name)
    missing = np.isnan(theirs)
    assert np.array_equal(np.isnan(ours), missing)
    assert_same(ours[~missing], theirs[~missing])


def test_the_headers_have_what_they_are_said_to_have() -> None:
    assert len(cuda_headers.ENCODERS) == 14
    assert set(cuda_headers.DECODERS) == set(NAN_POLICY)
    x = np.ones(1, np.float32)
    with pytest.raises(ValueError, match="to e2m1, rna, saturate"):
        headers().encode(x, "e2m1", rounding="rna")
    with pytest.raises(TypeError, match="dtype float64"):
        headers().encode(x.astype(np.float64), "e2m1")
    with pytest.raises(ValueError, match="do not decode int8"):
        headers().decode(np.zeros(1, np.uint8), "int8")


def test_missing_headers_say_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def absent(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(cuda_headers, "distribution", absent)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(cuda_headers.HeadersMissingError, match="pip install --no-deps nvidia-cuda-runtime=="):
        cuda_headers.find_include()


def test_a_missing_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(cuda_headers.HeadersMissingError, match=r"install g\+\+"):
        cuda_headers.find_compiler()


def test_a_compiler_that_refuses_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cuda_headers, "find_include", lambda: tmp_path)
    with pytest.raises(RuntimeError, match=r"(?s)does not compile; are nvidia-cuda-runtime.*cuda_fp4\.h"):
        cuda_headers.compile_wrapper(tmp_path)
