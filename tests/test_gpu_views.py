"""Which matrix a view is, and how launches cut it: pure functions, held to what NumPy says of the same views."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st
from numpy.lib.stride_tricks import as_strided

from mxspec_gpu import plans
from mxspec_gpu.build import KernelSource
from mxspec_gpu.views import Matrix, count_tiles, find_extent, find_matrix, is_contiguous, split_launches, tiled_bytes

from tests.gpu.device import swizzle

Array = npt.NDArray[Any]


def element_strides(view: Array) -> tuple[int, ...]:
    return tuple(s // view.itemsize for s in view.strides)


def places(view: Array) -> Array:
    """Offset in elements from the view's first element of each of its elements."""
    found = np.zeros(view.shape, np.int64)
    for axis, stride in enumerate(element_strides(view)):
        steps = np.arange(view.shape[axis]) * stride
        found += steps.reshape(-1, *(1,) * (view.ndim - axis - 1))
    return found


def check(view: Array, axis: int) -> bool:
    """Holds the plan for a view to its elements; whether it is a matrix without a copy."""
    shape, strides = view.shape, element_strides(view)
    rows = np.moveaxis(places(view), axis, -1).reshape(-1, shape[axis])
    matrix = find_matrix(shape, strides, axis)
    steps = np.diff(rows[:, 0])
    assert (matrix is not None) == (len(set(steps.tolist())) <= 1), "a copy exactly where no one stride leads along the rows"
    low, high = find_extent(shape, strides)
    assert (low, high) == (rows.min(), rows.max() + 1)
    assert is_contiguous(shape, strides) == bool((places(view).reshape(-1) == np.arange(view.size)).all())
    if matrix is None:
        return False
    row, column = np.indices((matrix.rows, matrix.columns))
    np.testing.assert_array_equal(row * matrix.row_stride + column * matrix.column_stride, rows)
    assert matrix.packed == bool((rows.reshape(-1) == np.arange(view.size)).all())
    return True


def check_every_axis(view: Array) -> int:
    return sum(check(view, axis) for axis in range(view.ndim))


def test_views_of_three_axes() -> None:
    """Those that were quantized wrongly: the blocks' axis contiguous, the others not one stride apart."""
    x = np.zeros((4, 16, 64), np.float32)
    for view in (x[:, :10], x[:, 1:], x[::2, 1:], np.zeros((2, 16, 8, 64)).transpose(0, 2, 1, 3), x.transpose(1, 0, 2)):
        assert not check(view, view.ndim - 1)
        assert find_matrix(view.shape, element_strides(view), view.ndim - 1) is None
    expanded = np.broadcast_to(np.zeros((16, 64), np.float32), (4, 16, 64))
    assert not check(expanded, 2)
    assert find_extent(expanded.shape, element_strides(expanded)) == (0, 16 * 64)


def test_rows_a_pitch_apart_are_a_matrix() -> None:
    x = np.zeros((6, 16, 64), np.float32)
    assert find_matrix((6, 10), (64, 1), 1) == Matrix(6, 10, 64, 1)
    assert not Matrix(6, 10, 64, 1).packed
    assert check(x[..., :32], 2)
    assert check(x[:, ::2], 2)
    assert check(x[::-1, ::-1], 2)
    assert check(np.broadcast_to(np.zeros(64, np.float32), (3, 64)), 1)


INDEX = [slice(None), slice(1, None), slice(None, None, 2), slice(None, None, -1), slice(0, 1)]


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (2, 1, 3, 2)], ids=str)
def test_every_slice_of_small_arrays(shape: tuple[int, ...]) -> None:
    """Every combination of whole, shifted, stepped, reversed and single, under every order of axes."""
    x = np.zeros(shape, np.float32)
    seen = 0
    for index in product(INDEX, repeat=len(shape)):
        view = x[index]
        if view.size:
            seen += view.ndim
            check_every_axis(view)
            check_every_axis(view.T)
    assert seen >= 5


@given(data=st.data())
def test_drawn_views(data: st.DataObject) -> None:
    """One to five axes, permuted, sliced, reversed, broadcast, indexed away."""
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=5), label="shape"))
    view: Array = np.zeros(shape, np.float16)
    for _ in range(data.draw(st.integers(0, 3), label="steps")):
        axis = data.draw(st.integers(0, view.ndim - 1), label="axis")
        kind = data.draw(st.sampled_from(["permute", "slice", "broadcast", "drop"]), label="kind")
        if kind == "permute":
            view = view.transpose(data.draw(st.permutations(range(view.ndim))))
        elif kind == "slice":
            step = data.draw(st.sampled_from([-3, -2, -1, 1, 2, 3]))
            start = data.draw(st.integers(0, view.shape[axis] - 1))
            view = view[(slice(None),) * axis + (slice(start, None, step),)]
        elif kind == "broadcast" and view.ndim < 6:
            count = data.draw(st.integers(1, 3))
            view = np.moveaxis(np.broadcast_to(view, (count, *view.shape)), 0, axis)
        elif view.ndim > 1:
            view = view[(slice(None),) * axis + (0,)]
    check_every_axis(view)


@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=5), strides=st.lists(st.integers(-70, 70), min_size=5, max_size=5))
def test_any_strides(shape: list[int], strides: list[int]) -> None:
    """Strides that no indexing makes: overlapping ones, pitches, any signs."""
    base = np.zeros(4096, np.int8)
    check_every_axis(as_strided(base[2048:], tuple(shape), tuple(strides[: len(shape)])))


def test_empty_views_touch_nothing() -> None:
    assert find_extent((4, 0, 3), (7, 7, 7)) == (0, 0)
    assert is_contiguous((4, 0), (9, 9))
    assert find_extent((), ()) == (0, 1)
    assert is_contiguous((), ())


Launched = list[tuple[str, tuple[int, ...]]]


def record_plan(view: Array, axis: int, address: int = 0, *, square: bool = False, arch: str = "sm_90") -> Launched | None:
    """File and parameters of each launch of a call on a view; None: the view is copied first. square: of nvfp4."""
    launched: Launched = []

    class Recorder:
        """Stands for a kernel."""

        def __init__(self, source: KernelSource, types: str, device: int) -> None:
            self.file = source.file

        def launch(self, grid: tuple[int, int], threads: int, stream: int, *parameters: int) -> None:
            launched.append((self.file, parameters))

    shape, strides = view.shape, element_strides(view)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "get_kernel", Recorder)
        patch.setattr(plans, "find_arch", lambda device: arch)
        try:
            plan = plans.make_plan(
                shape, strides, view.dtype.name, 0, address, "nvfp4" if square else "mxfp4", None, axis, False, "row-major", 0, True,
                square=square,
            )  # fmt: skip
        except plans.NotAMatrixError:
            return None
    for launch in plan.launches:
        launch(0, 0, 0, 0, 0, 0, 0, 0)
    return launched


def name_kernel(view: Array, axis: int) -> str:
    """Which kernel reads a view, or "copy"."""
    launched = record_plan(view, axis, view.ctypes.data % 16)
    if launched is None:
        return "copy"
    ((file, parameters),) = launched
    if file == "quantize_any.cu":
        matrix = find_matrix(view.shape, element_strides(view), axis)
        assert matrix is not None
        assert parameters[7:11] == (matrix.row_stride, matrix.column_stride, matrix.rows, matrix.columns)
    return file.removesuffix(".cu")


def test_a_limited_chip_has_the_plain_kernel() -> None:
    x = np.zeros((64, 64), np.float16)
    for view in (x, x.T, x[:, 1:34]):
        assert [file for file, _ in record_plan(view, 1, arch="sm_75") or ()] == ["quantize_any.cu"]


def test_square_blocks_of_a_view() -> None:
    """Read where rows are contiguous, one launch, zeros below and at the side; several matrices only where no row is missing."""
    x = np.zeros((3, 32, 64), np.float16)
    for view, axis, place in (
        (x, 2, (64, 96, 64, 4, 6, 1)), (x[0, :, :40], 1, (64, 32, 40, 3, 2, 1)), (x[1, :17, 1:], 1, (64, 17, 63, 4, 2, 1)), (x[2, ::-1], 1, (-64, 32, 64, 4, 2, 1)),
        (x[0].T, 0, (64, 32, 64, 4, 2, 1)),
    ):  # fmt: skip
        ((file, parameters),) = record_plan(view, axis, square=True) or ()
        assert (file, parameters[7:13]) == ("quantize_square.cu", place)
    assert record_plan(x[0], 0, square=True) is None
    assert record_plan(x[:, ::2].transpose(0, 2, 1), 2, square=True) is None
    with pytest.raises(ValueError, match="k = 17 is not a multiple of the 16-element block of nvfp4; pad axis 1 to 32"):
        record_plan(x[:, :17], 2, square=True)


def test_which_kernel_reads_a_view() -> None:
    """A copy where no one stride leads from row to row; the plain kernel where neither columns nor rows follow one another."""
    x = np.zeros((4, 16, 64), np.float16)
    assert x.ctypes.data % 16 == 0
    expected = {
        "quantize_rows": (
            x, x[1:3], x[2], x[:, :1, :][0], x.reshape(64, 64), x[..., :32], x[:, ::2], x[::-1, ::-1], x[:, :, :33][0],
            x[..., 1:34], x[0, :, 5:6], np.broadcast_to(x[0, :1], (5, 64)),
        ),
        "quantize_columns": (x.reshape(64, 64).T, x[0].T, x[1, ::2].T, x[1, ::-1].T, x[0].T[3:50]),
        "quantize_any": (x[0, :, ::2], x[..., ::-1], x[0, :, :9].T, x[..., ::2].reshape(64, 32)[:, ::3]),
        "copy": (x[:, :10], x[:, 1:], x[::2, :5], x.transpose(1, 0, 2), np.broadcast_to(x[0], (4, 16, 64))),
    }  # fmt: skip
    for kernel, views in expected.items():
        for view in views:
            assert name_kernel(view, view.ndim - 1) == kernel, (view.shape, element_strides(view))
    for matrix in (np.zeros((64, 128), np.float16), np.zeros((63, 31), np.float32), x[0, :, 1:]):
        assert name_kernel(matrix, 0) == "quantize_columns"
    assert name_kernel(np.zeros((64, 128), np.float16)[:, ::2], 0) == "quantize_any"
    assert name_kernel(x, 1) == "copy"
    assert name_kernel(x.transpose(0, 2, 1), 2) == "copy"


def test_more_blocks_than_a_launch_takes() -> None:
    """Only contiguous, aligned rows are cut into several launches; other rows go to the plain kernel, which has no such bound."""
    item = np.dtype(np.float16).itemsize
    huge = (1 << 18, 1 << 18)  # nothing is read
    for pitch, address, want in ((1 << 18, 0, ["quantize_rows.cu"] * 2), (1 << 18, 2, ["quantize_any.cu"]), ((1 << 18) + 8, 0, ["quantize_any.cu"])):  # fmt: skip
        view = as_strided(np.zeros(1, np.float16), huge, (pitch * item, item))
        assert [file for file, _ in record_plan(view, 1, address) or ()] == want
    view = as_strided(np.zeros(1, np.float16), (1 << 15, 1 << 18), ((1 << 18) * item, item))
    assert [file for file, _ in record_plan(view, 1, 2) or ()] == ["quantize_rows.cu"]


def rows_source(view: Array, address: int = 0) -> int:
    """How `quantize_rows` reads a view."""
    matrix = find_matrix(view.shape, element_strides(view), view.ndim - 1)
    assert matrix is not None
    return plans.find_source(matrix, 32, view.itemsize, address)


def test_how_rows_are_read() -> None:
    """16 bytes at a time where every row starts at a multiple of 16 and has whole blocks; loosely where not."""
    x = np.zeros((6, 96), np.float16)
    assert rows_source(x) == 0
    assert rows_source(x[2:3, :64]) == 0
    for view in (x[:, :64], x[::2], x[::-1, :32], np.broadcast_to(x[:1], (5, 96))):
        assert rows_source(view) == 1
    for view in (x[:, :33], np.zeros((6, 97), np.float16)[:, :64], np.zeros((4, 40), np.float32)):
        assert rows_source(view) == 2
    for address in range(2, 16, 2):
        assert rows_source(x, address) == 2


@given(data=st.data())
def test_fast_kernels_read_what_they_can(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 32, 64]), min_size=1, max_size=4)))
    strides = tuple(data.draw(st.sampled_from([0, 1, 2, 32, 64, 96, 2048, -1, -64])) for _ in shape)
    # Nothing is read: the strides may lead anywhere.
    item = np.dtype(np.float32).itemsize
    view = as_strided(np.zeros(1, np.float32), shape, tuple(s * item for s in strides))
    axis = view.ndim - 1
    launched = record_plan(view, axis)
    matrix = find_matrix(shape, strides, axis)
    assert (launched is None) == (matrix is None)
    if matrix is None or launched is None:
        return
    ((file, parameters),) = launched
    if file == "quantize_rows.cu":
        contiguous = bool((places(view).reshape(-1) == np.arange(view.size)).all())
        source = rows_source(view)
        assert (source == 0) == (contiguous and shape[-1] % 32 == 0)
        assert (source == 2) == bool(shape[-1] % 32 or (not contiguous and matrix.row_stride * item % 16))
        assert parameters[-4:] == (matrix.row_stride, matrix.columns, *(e * item for e in find_extent(shape, strides)))
    elif file == "quantize_columns.cu":
        assert matrix.row_stride == 1 != matrix.column_stride
    else:
        assert matrix.column_stride != 1 < matrix.columns


LAUNCHES = [
    (rows, columns, most)
    for rows in (1, 2, 31, 127, 128, 129, 256, 300, 513)
    for columns in (1, 3, 4, 7, 64)
    for most in (64, 100, 500, 1000, 8192, 1 << 30)
]


@pytest.mark.parametrize("tiled", [False, True])
def test_launches_are_the_matrix(tiled: bool) -> None:
    """Each block once, in order; each scale where the whole matrix has it, as a kernel that sees only its launch writes."""
    for rows, columns, most in LAUNCHES:
        scales = np.arange(rows * columns).reshape(rows, columns)
        want = swizzle(scales) if tiled else scales.reshape(-1)
        got = np.full(tiled_bytes(rows, columns) if tiled else rows * columns, 0)
        done = 0
        for part in split_launches(rows, columns, most, tiled=tiled):
            assert part.first_block == done
            assert 0 < part.blocks <= most
            done += part.blocks
            blocks = np.arange(part.blocks)
            if tiled:
                assert part.blocks == part.rows * columns
                row, column = np.divmod(blocks, columns)
                at = (row // 128 * count_tiles(columns) + column // 4) * 512 + row % 32 * 16 + row % 128 // 32 * 4 + column % 4
            else:
                at = blocks
            got[part.scale_offset + at] = scales.reshape(-1)[part.first_block + blocks]
        assert done == rows * columns
        np.testing.assert_array_equal(got, want)


def test_launches_of_one_row_beyond_four_gigabytes() -> None:
    """Rows of more blocks than 128 rows of a launch may have go one by one."""
    (only,) = split_launches(1, (1 << 30) // 32 + 4, 1 << 30, tiled=True)
    assert only.blocks == (1 << 25) + 4
    parts = list(split_launches(200, 1 << 24, 1 << 30, tiled=True))
    assert len(parts) == 200
    assert parts[129].scale_offset == (count_tiles(1 << 24) * 512) + 16
    with pytest.raises(ValueError, match="rows have 1073741828 blocks; in scale_layout='128x4' at most 1073741824 can be done"):
        list(split_launches(1, (1 << 30) + 4, 1 << 30, tiled=True))
    assert len(list(split_launches(1, (1 << 30) + 4, 1 << 30, tiled=False))) == 2
