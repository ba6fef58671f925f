"""The random Hadamard transform: its definition against the matrix, and the kernels' arithmetic against the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mxspec.profiles import get_profile
from mxspec_gpu.kernels import Signs
from mxspec_gpu.transform import SIZE, find_signs, transform_rows

from tests.gpu.arithmetic import DTYPES, library

MASKS = (0x0000, 0x5A3C, 0x8001, 0xFFFF)
RHT = get_profile("te-2.14/nvfp4/kernel-rht", "nvfp4")


def matrix(mask: int) -> npt.NDArray[np.int64]:
    """Rows of the transform times 4: Sylvester's matrix with signs."""
    h = np.ones((1, 1), np.int64)
    while len(h) < SIZE:
        h = np.block([[h, h], [h, -h]])
    return np.where(mask >> np.arange(SIZE) & 1, -1, 1)[:, np.newaxis] * h


@pytest.mark.parametrize("mask", MASKS)
def test_definition_is_the_matrix(mask: int) -> None:
    """Whole numbers, whose sums no order rounds; and its inverse is its transpose."""
    x = np.random.default_rng(mask).integers(-64, 64, (9, 48))
    got = transform_rows(x.astype(np.float16), Signs(mask, "float32"))
    np.testing.assert_array_equal(got * 4, (x.reshape(-1, SIZE) @ matrix(mask)).reshape(x.shape))
    np.testing.assert_array_equal(matrix(mask) @ matrix(mask).T, 16 * np.eye(SIZE))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_kernels_follow_the_definition(mask: int, dtype: str) -> None:
    """Every 16-bit number among random others: subnormals, cancellation, overflow, infinities and NaN."""
    words = np.random.default_rng(mask).permutation(np.tile(np.arange(1 << 16, dtype=np.uint16), 4))
    for bits in (words, words & np.uint16(0x83FF), words & np.uint16(0x807F)):
        x: npt.NDArray[Any] = bits.view(DTYPES[dtype]).reshape(-1, SIZE)
        want = transform_rows(x, Signs(mask, "float32"))
        got = library().hadamard(x.astype(np.float32), mask)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        kept = ~np.isnan(want)
        np.testing.assert_array_equal(got[kept].view(np.uint32), want[kept].view(np.uint32))


def test_nan_is_positive() -> None:
    x = np.zeros((1, SIZE), np.float16)
    x[0, :2] = np.inf, -np.inf
    for dtype in ("float32", "bfloat16"):
        y = transform_rows(x, Signs(0, dtype))
        assert np.isnan(y.astype(np.float32)).any()
        assert not np.signbit(y.astype(np.float32)[np.isnan(y.astype(np.float32))]).any()


def test_values_are_of_the_type_that_the_profile_names() -> None:
    fast = get_profile("te-2.14/nvfp4/kernel-rht-fastmath", "nvfp4")
    assert find_signs(3, RHT) == Signs(3, "bfloat16")
    assert find_signs(np.int64(0xFFFF), fast) == Signs(0xFFFF, "float32")


@pytest.mark.parametrize(
    ("signs", "profile", "kind", "words"),
    [
        (-1, RHT, ValueError, r"signs = -1 is out of range; pass an integer from 0 to 65535"),
        (1 << 16, RHT, ValueError, r"signs = 65536 is out of range"),
        (1.0, RHT, TypeError, r"signs = 1\.0 is of type float; pass an integer from 0 to 65535"),
        (True, RHT, TypeError, r"signs = True is of type bool"),
        (1, get_profile("nvfp4-te", "nvfp4"), ValueError, r"profile nvfp4-te has no random Hadamard transform of 16 elements"),
    ],
)  # fmt: skip
def test_wrong_signs(signs: Any, profile: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        find_signs(signs, profile)
