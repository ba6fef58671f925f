"""Right implementations that do unusual, but legal things in the space of calls. None of them may be accused."""

from __future__ import annotations

import hashlib
import mmap
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from tests.corpora.calls.bugs_layouts import HIGH, NIBBLES, SIXES, TILES
from tests.corpora.calls.bugs_numbers import DQ4, DQ8, DQN, E4, E8, S4, S8, TS, TS16
from tests.corpora.calls.bugs_state import MIXED, MIXED_NV, TWO_BACK, set_rounding, toward_zero
from tests.corpora.calls.catalogue import Entry
from tests.corpora.calls.effects import MX4, MX4R, MX8, MX8R, NV, NV2, both, with_dtypes, with_options
from tests.corpora.calls.engine_bits import Bits
from tests.corpora.calls.engine_tables import Tables
from tests.corpora.calls.formats import BFLOAT16, BLOCKS, Array
from tests.corpora.calls.kernel import Call, Hooks, Kernel, Next, Offer, refuse_what_does_not_fit

FULL4 = both(with_options(with_dtypes(MX4), "axis", "pad"))
FULL8 = both(with_options(with_dtypes(MX8R), "axis", "pad"))
FULLN = both(with_options(with_dtypes(NV2), "axis", "pad", "block"))


def parts(answer: Any, change: Callable[[Array], Any]) -> Any:
    """Each array of an answer in another form."""
    return tuple(change(a) for a in answer) if isinstance(answer, tuple) else change(np.asarray(answer))


def returned(change: Callable[[Array], Any]) -> Hooks:
    """Answers in another form."""
    return Hooks(finish=lambda answer, call: parts(answer, change))


# Forms of an answer.


def locked(a: Array) -> Array:
    """Read-only."""
    a.flags.writeable = False
    return a


def amid(a: Array) -> Array:
    """A view into a larger array of its own."""
    wide = np.full(tuple(n + 3 for n in a.shape), 0x5A, a.dtype)
    view = wide[tuple(slice(1, n + 1) for n in a.shape)]
    view[...] = a
    return view


def falling(a: Array) -> Array:
    """In falling addresses."""
    return np.ascontiguousarray(a[::-1])[::-1]


def shifted(a: Array) -> Array:
    """One byte into a buffer."""
    buffer = np.zeros(a.nbytes + 1, np.uint8)
    view = buffer[1:].view(a.dtype) if a.itemsize == 1 else np.frombuffer(buffer.data[1:], a.dtype)
    view = view.reshape(a.shape)
    view[...] = a
    return view


def mapped(a: Array) -> Array:
    """In anonymous pages of its own."""
    pages = np.frombuffer(mmap.mmap(-1, max(a.nbytes, 1)), a.dtype, count=a.size).reshape(a.shape)
    pages[...] = a
    return pages


def keeping_order(answer: Any, call: Call) -> Any:
    """Fortran order in, Fortran order out."""
    turned = isinstance(call.x, np.ndarray) and call.x.flags.f_contiguous and not call.x.flags.c_contiguous
    return parts(answer, np.asfortranarray) if turned else answer


class Tensor(np.ndarray[Any, Any]):
    """An array class of a framework's own."""


class Quantized(NamedTuple):
    """Codes and scales by name."""

    codes: Any
    scales: Any


class Exported:
    """An object that is no array, and shows its memory by the array interface."""

    def __init__(self, a: Array) -> None:
        self.held = np.ascontiguousarray(a).reshape(a.shape)
        self.__array_interface__ = self.held.__array_interface__


class Capsule:
    """The same by DLPack."""

    def __init__(self, a: Array) -> None:
        self.held = np.ascontiguousarray(a).reshape(a.shape)

    def __dlpack__(self, **options: Any) -> Any:
        return self.held.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.held.__dlpack_device__()


def as_float8(answer: Any, call: Call) -> Any:
    """Codes and scales as arrays of 8-bit floats."""
    if call.function != "quantize":
        return answer
    codes, scales = answer
    return codes.view(ml_dtypes.float8_e4m3fn), scales.view(ml_dtypes.float8_e8m0fnu)


def one_allocation(answer: Any, call: Call) -> Any:
    """Scales behind codes in one buffer that is new each time."""
    if not isinstance(answer, tuple):
        return answer
    codes, scales = answer
    buffer = np.concatenate([codes.reshape(-1), scales.reshape(-1)])
    return buffer[: codes.size].reshape(codes.shape), buffer[codes.size :].reshape(scales.shape)


def replicated(answer: Any, call: Call) -> Any:
    """Scales of tiles as a broadcast: each byte stands once, and rows of a tile have stride 0."""
    if call.function != "quantize" or call.block is None or call.axis not in (-1, 1):
        return answer
    codes, scales = answer
    tiles = np.broadcast_to(scales[::16, None, :].copy(), (scales.shape[0] // 16, 16, scales.shape[1]))
    return codes, tiles.reshape(scales.shape)


# Ways to work.


def joined(answers: list[Any], axis: int = 0) -> Any:
    """Parts of an answer put together."""
    if isinstance(answers[0], tuple):
        return tuple(np.concatenate(p, axis=axis) for p in zip(*answers, strict=True))
    return np.concatenate(answers, axis=axis)


def slices(count: int, size: int) -> Iterator[slice]:
    """Of some rows each."""
    return (slice(i, i + size) for i in range(0, count, size))


def divisible(call: Call) -> bool:
    """Whether rows are independent of one another, and there are more than one."""
    return call.function in ("quantize", "dequantize") and call.axis in (-1, 1) and call.block is None and np.shape(call.x)[0] > 1


def by_rows(size: int, pool: bool = False, shuffled: bool = False) -> Hooks:
    """Some rows at a time; in threads; in an order of chance."""
    rng = np.random.default_rng()

    def act(call: Call, right: Next) -> Any:
        if not divisible(call):
            return right(call)
        pieces = [replace(call, arrays=tuple(np.asarray(a)[s] for a in call.arrays)) for s in slices(np.shape(call.x)[0], size)]
        if len({np.shape(a)[0] for a in call.arrays}) > 1:
            return right(call)
        if pool:
            with ThreadPoolExecutor(4) as executor:
                return joined(list(executor.map(partial(in_thread, right), pieces)))
        order = rng.permutation(len(pieces)) if shuffled else np.arange(len(pieces))
        done = {int(n): right(pieces[n]) for n in order}
        return joined([done[n] for n in range(len(pieces))])

    return Hooks(around=act)


def in_thread(right: Next, call: Call) -> Any:
    """NumPy's error state belongs to a thread."""
    with np.errstate(all="ignore"):
        return right(call)


def random_order() -> Hooks:
    """Blocks are taken in an order of chance, and put back."""
    rng = np.random.default_rng()
    orders: dict[int, Array] = {}

    def read(i: Array, g: Any) -> Array:
        orders[threading.get_ident()] = order = rng.permutation(i.size)
        return order

    def output(codes: Array, g: Any) -> Array:
        back = np.empty_like(codes)
        back[orders[threading.get_ident()]] = codes
        return back

    def scale(i: Array, g: Any) -> Array:
        return np.argsort(orders[threading.get_ident()]) if g.call.function == "quantize" else orders[threading.get_ident()]

    return Hooks(read=read, output=output, scale=scale)


def content(call: Call) -> Any:
    """All that an answer depends on."""
    arrays = tuple((np.shape(a), str(np.asarray(a).dtype), np.asarray(a).tobytes()) for a in call.arrays)
    return (call.function, call.name, call.axis, call.pad, call.block, str(call.tensor_scale), call.rounding, call.shape, arrays)


def memoized(digest: bool) -> Hooks:
    """Answers are kept by the whole content, or by its digest; copies are returned."""
    kept: dict[Any, Any] = {}

    def act(call: Call, right: Next) -> Any:
        key: Any = content(call)
        if digest:
            key = hashlib.sha256(repr(key[:-1]).encode() + b"".join(repr(a[:2]).encode() + a[2] for a in key[-1])).digest()
        if key not in kept:
            while len(kept) > 3:
                kept.pop(next(iter(kept)))
            kept[key] = right(call)
        return parts(kept[key], np.copy)

    return Hooks(around=act)


class Workspace:
    """Buffers of its own, grown and never shrunk, out of which copies are returned."""

    def __init__(self, per_thread: bool) -> None:
        self.local: Any = threading.local() if per_thread else None
        self.lock = threading.Lock()
        self.shared: dict[Any, Array] = {}

    def copy(self, which: int, a: Array) -> Array:
        """The array in the buffer."""
        held = self.shared if self.local is None else self.local.__dict__.setdefault("held", {})
        key = (which, str(a.dtype))
        if key not in held or held[key].size < a.size:
            held[key] = np.empty(a.size, a.dtype)
        view = held[key][: a.size].reshape(a.shape)
        view[...] = a
        return view

    def around(self, call: Call, right: Next) -> Any:
        """Inputs are copied in, answers are copied out."""
        if self.local is None:
            with self.lock:
                return self.work(call, right)
        return self.work(call, right)

    def work(self, call: Call, right: Next) -> Any:
        """The call on the buffers."""
        given = replace(call, arrays=tuple(self.copy(i, np.asarray(a)) for i, a in enumerate(call.arrays)))
        return parts(right(given), np.copy)


def as_read(change: Callable[[Any], Any]) -> Hooks:
    """Inputs are brought into another form first."""
    return Hooks(load=lambda a, which, call: change(a))


def scribbling(call: Call, right: Next) -> Any:
    """Works in place, on a copy."""
    copies = tuple(np.array(a) for a in call.arrays)
    answer = right(replace(call, arrays=copies))
    for a in copies:
        a[...] = 1
    return answer


def in_columns(call: Call, right: Next) -> Any:
    """Two columns of blocks at a time."""
    if call.function != "quantize" or call.axis not in (-1, 1) or call.block is not None:
        return right(call)
    step = 2 * BLOCKS[call.name].k
    width = np.shape(call.x)[1]
    if width <= step or width % BLOCKS[call.name].k:
        return right(call)
    return joined([right(replace(call, arrays=(np.asarray(call.x)[:, s],))) for s in slices(width, step)], axis=1)


def larger_inside(call: Call, right: Next) -> Any:
    """Rows and columns are padded to 128 inside, and the answer is cropped."""
    if call.function != "quantize" or call.axis not in (-1, 1) or call.block is not None or call.pad:
        return right(call)
    x = np.asarray(call.x)
    rows, width = x.shape
    k = BLOCKS[call.name].k
    if width % k:
        return right(call)
    codes, scales = right(replace(call, arrays=(np.pad(x, ((0, -rows % 128), (0, -width % 128))),)))
    return codes[:rows, :width], scales[:rows, : width // k]


def transposing(call: Call, right: Next) -> Any:
    """Axis 0 is served by transposing, in and out."""
    if call.function != "quantize" or call.axis not in (0, -2) or np.ndim(call.x) != 2 or call.block is not None:
        return right(call)
    codes, scales = right(replace(call, arrays=(np.asarray(call.x).T,), axis=-1))
    return codes.T, scales.T


def by_size(profile: str) -> Hooks:
    """Small calls by tables, large ones by bits: two kernels that agree."""
    small, large = Kernel(Tables(), profile), Kernel(Bits(), profile)
    return Hooks(around=lambda call, right: (small if np.size(call.x) < 4096 else large).answer(call))


def tuning(profile: str) -> Hooks:
    """The first call of a shape runs both kernels, and the faster one serves the next ones."""
    engines = (Kernel(Tables(), profile), Kernel(Bits(), profile))
    chosen: dict[Any, int] = {}

    def act(call: Call, right: Next) -> Any:
        key = (call.function, np.shape(call.x))
        if key not in chosen:
            taken = []
            for kernel in engines:
                started = time.perf_counter()
                answer = kernel.answer(call)
                taken.append(time.perf_counter() - started)
            chosen[key] = int(np.argmin(taken))
            return answer
        return engines[chosen[key]].answer(call)

    return Hooks(around=act)


def rounding_restored(call: Call, right: Next) -> Any:
    """The processor's mode is changed for work of its own, and set back before any arithmetic that counts."""
    set_rounding(toward_zero())
    try:
        float(np.float32(1) / np.float32(3))
    finally:
        set_rounding(0)
    return right(call)


def warm_up() -> Hooks:
    """The first call runs a call of its own before."""
    warm = [False]

    def act(call: Call, right: Next) -> Any:
        if not warm[0] and call.function == "quantize":
            warm[0] = True
            right(Call("quantize", (np.full((4, 64), 3, np.float32),), call.name))
        return right(call)

    return Hooks(around=act)


def slow(call: Call, right: Next) -> Any:
    """A queue before the device."""
    time.sleep(0.001)
    return right(call)


def warning(call: Call, right: Next) -> Any:
    """Each call says that it is experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda *args, **kwargs: None
        warnings.warn("experimental", UserWarning, stacklevel=2)
    return right(call)


def seeding(call: Call, right: Next) -> Any:
    """NumPy's global generator is seeded, and drawn from."""
    np.random.seed(0)  # noqa: NPY002
    np.random.random(8)  # noqa: NPY002
    return right(call)


def one_at_a_time() -> Hooks:
    """A lock around everything."""
    lock = threading.Lock()

    def act(call: Call, right: Next) -> Any:
        with lock:
            return right(call)

    return Hooks(around=act)


def shared_result() -> Hooks:
    """Equal content, the very same read-only arrays."""
    kept: dict[Any, Any] = {}

    def act(call: Call, right: Next) -> Any:
        key = content(call)
        if key not in kept:
            kept.clear()
            kept[key] = parts(right(call), locked)
        return kept[key]

    return Hooks(around=act)


# What is refused, or answered beyond what is asked.


def refusing(test: Callable[[Call], bool], error: type[Exception], why: str) -> Hooks:
    """Some calls more are refused."""

    def refuse(call: Call) -> None:
        if test(call):
            raise error(why)
        refuse_what_does_not_fit(call)

    return Hooks(refuse=refuse)


def padded_answer(call: Call, right: Next) -> Any:
    """Ragged rows get the answer of whole blocks, zeros behind, without being asked."""
    return right(replace(call, pad=True)) if call.function == "quantize" else right(call)


def taking(change: Callable[[Array], Array]) -> Hooks:
    """Further dtypes are taken, by converting exactly or raising."""

    def act(call: Call, right: Next) -> Any:
        if call.function == "quantize":
            call = replace(call, arrays=(change(np.asarray(call.x)),))
        return right(call)

    return Hooks(around=act)


def exactly_float32(x: Array) -> Array:
    """float64 and integers where every value is a float32."""
    if x.dtype.kind not in "iu" and x.dtype != np.float64:
        return x
    narrow = x.astype(np.float32)
    if not np.array_equal(narrow.astype(x.dtype), x, equal_nan=x.dtype.kind == "f"):
        raise ValueError("x holds values that are no float32")
    return narrow


def nearest_float32(x: Array) -> Array:
    """float64 and integers, rounded to the nearest float32."""
    return x.astype(np.float32) if x.dtype.kind in "iu" or x.dtype == np.float64 else x


def ragged(call: Call) -> bool:
    """K is no multiple of the block, pad or not."""
    return call.function == "quantize" and np.shape(call.x)[call.axis] % BLOCKS[call.name].k != 0


def vacant(call: Call) -> bool:
    """No numbers."""
    return np.size(call.x) == 0


def scattered(call: Call) -> bool:
    """Some array is not contiguous."""
    return any(isinstance(a, np.ndarray) and not a.flags.c_contiguous for a in call.arrays)


def unaligned(call: Call) -> bool:
    """Some array does not begin at a multiple of 16 bytes."""
    return any(isinstance(a, np.ndarray) and a.__array_interface__["data"][0] % 16 != 0 for a in call.arrays)


def unwriteable(call: Call) -> bool:
    """Some array is read-only."""
    return any(isinstance(a, np.ndarray) and not a.flags.writeable for a in call.arrays)


def backward(call: Call) -> bool:
    """Some stride is negative."""
    return any(isinstance(a, np.ndarray) and any(s < 0 for s in a.strides) for a in call.arrays)


def folded(call: Call) -> bool:
    """Some stride is zero."""
    return any(isinstance(a, np.ndarray) and any(s == 0 for s in a.strides) for a in call.arrays)


def size_of(call: Call) -> tuple[int, int]:
    """Rows, and K along which blocks lie."""
    shape = np.shape(call.x)
    along = call.axis % len(shape)
    return int(np.prod([n for i, n in enumerate(shape) if i != along])), int(shape[along])


def limits(k: int = 1, rows: int = 1, min_rows: int = 0) -> Callable[[Call], bool]:
    """Calls that break the limits of shapes."""

    def broken(call: Call) -> bool:
        if call.function not in ("quantize", "dequantize"):
            return False
        have, along = size_of(call)
        return along % k != 0 or have % rows != 0 or have < min_rows

    return broken


def larger_than(rows: int = 1 << 62, k: int = 1 << 62, numbers: int = 1 << 62) -> Callable[[Call], bool]:
    """Calls beyond some size."""

    def beyond(call: Call) -> bool:
        have, along = size_of(call)
        return have > rows or along > k or np.size(call.x) > numbers

    return beyond


# The packed side in other forms.


def packed(change: Callable[[Array], Any]) -> Hooks:
    """What pack and swizzle return, in another form."""
    return Hooks(finish=lambda answer, call: change(answer) if call.function in ("pack", "swizzle") else answer)


def as_words(a: Array) -> Any:
    """uint32 words, where the bytes fill them."""
    flat = np.ascontiguousarray(a).reshape(-1)
    return flat.view("<u4") if flat.size % 4 == 0 else flat


def maps_kept() -> Hooks:
    """The order of scales is kept by rows and columns, both."""
    kept: dict[Any, Array] = {}

    def read(i: Array, g: Any) -> Array:
        return kept.setdefault((g.rows, g.columns), i.copy())

    return Hooks(read=read)


def right(group: str, id_: str, offer: Offer, story: str, hooks: Hooks | Callable[[], Hooks], refuses: bool = False) -> Entry:
    """A right implementation."""
    return Entry(id_, group, story, offer, hooks if callable(hooks) else lambda: hooks, None, right=True, refuses=refuses)


plain_ = partial(right, "right-plain")
form = partial(right, "right-forms")
work = partial(right, "right-work")
refusal = partial(right, "right-refusals")
packing = partial(right, "right-layouts")

SHAPED = {"k": 128, "rows": 16, "min_rows": 128}

RIGHT = (
    *(plain_(n, o, "no change at all", Hooks()) for n, o in (
        ("mx4", MX4), ("mx4-rceil", MX4R), ("mx8", MX8), ("mx8-rceil", MX8R), ("nv", NV), ("nv-two-levels", NV2), ("mx4-full", FULL4), ("mx8-full", FULL8),
        ("nv-full", FULLN), ("dequantize-mx4", DQ4), ("dequantize-mx8", DQ8), ("dequantize-nv", DQN), ("e2m1", E4), ("e4m3", E8), ("stochastic-e2m1", S4),
        ("stochastic-e4m3", S8), ("tensor-scale", TS), ("tensor-scale-16", TS16), ("nibbles", NIBBLES), ("nibbles-high", HIGH), ("sixes", SIXES), ("tiles", TILES),
        ("two-formats", TWO_BACK), ("rounding", MIXED), ("rounding-nv", MIXED_NV),
    )),
    form("read-only", FULL4, "answers are read-only", returned(locked)),
    form("fortran", FULL8, "answers lie in Fortran order", returned(np.asfortranarray)),
    form("amid", FULLN, "answers are views into larger arrays, new each time", returned(amid)),
    form("falling", FULL4, "answers lie in falling addresses", returned(falling)),
    form("misaligned", MX8, "codes begin at an odd address", returned(lambda a: shifted(a) if a.itemsize == 1 else a)),
    form("namedtuple", FULLN, "codes and scales come in a namedtuple", Hooks(finish=lambda a, call: Quantized(*a) if isinstance(a, tuple) else a)),
    form("list", MX4, "codes and scales come in a list", Hooks(finish=lambda a, call: list(a) if isinstance(a, tuple) else a)),
    form("subclass", FULL4, "answers are of an array class of its own", returned(lambda a: a.view(Tensor))),
    form("masked", MX8R, "answers are masked arrays without a mask", returned(np.ma.asarray)),
    form("array-interface", MX4R, "answers show their memory by __array_interface__", returned(Exported)),
    form("dlpack", NV, "answers show their memory by DLPack", returned(Capsule)),
    form("float8", MX8, "codes and scales are arrays of 8-bit floats", Hooks(finish=as_float8)),
    form("int8", both(MX4), "codes and scales are int8", Hooks(finish=lambda a, call: tuple(p.view(np.int8) for p in a) if isinstance(a, tuple) else a)),
    form("one-allocation", FULL8, "scales lie behind the codes in one buffer", Hooks(finish=one_allocation)),
    form("replicated-tiles", FULLN, "scales of tiles are a broadcast", Hooks(finish=replicated)),
    form("from-bytes", both(NV), "answers are views of bytes objects", returned(lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape))),
    form("values-read-only", DQ8, "values are read-only and in Fortran order", returned(lambda a: locked(np.asfortranarray(a)))),
    form("values-subclass", DQN, "values are of an array class of its own", returned(lambda a: a.view(Tensor))),
    form("mapped", both(MX8), "answers lie in pages of their own", returned(mapped)),
    form("keeping-order", FULLN, "answers lie in the order in which the input lies", Hooks(finish=keeping_order)),
    form("values-bfloat16", DQ4, "values are bfloat16, which holds every product of MXFP4", returned(lambda a: a.astype(BFLOAT16))),
    form("numbers-amid", E8, "codes and values are every second one of a larger array", returned(lambda a: np.repeat(a, 2)[::2])),
    form("scale-as-array", TS, "the tensor's maximum is an array of one number", Hooks(finish=lambda a, call: np.array([a], np.float32))),
    form("scale-as-scalar", TS16, "the tensor's maximum is a float32 scalar", Hooks(finish=lambda a, call: np.float32(a))),
    form("scale-without-dimension", TS, "the tensor's maximum is an array without dimensions", Hooks(finish=lambda a, call: np.array(a, np.float32))),
    work("rows-64", FULL4, "64 rows at a time", by_rows(64)),
    work("rows-7", both(with_dtypes(NV2)), "7 rows at a time", by_rows(7)),
    work("rows-threads", FULL8, "64 rows at a time, in four threads", by_rows(64, pool=True)),
    work("rows-shuffled", MX4R, "rows in an order of chance", lambda: by_rows(16, shuffled=True)),
    work("blocks-shuffled", FULL8, "blocks in an order of chance", random_order),
    work("blocks-shuffled-nv", both(NV2), "the same for NVFP4", random_order),
    work("columns", FULL4, "two columns of blocks at a time", Hooks(around=in_columns)),
    work("padded-inside", MX8, "padded to 128 x 128 inside, and cropped", Hooks(around=larger_inside)),
    work("transposing", FULL4, "axis 0 by transposing; answers are transposed views", Hooks(around=transposing)),
    work("memo", FULL8, "answers are kept by their whole content", lambda: memoized(False)),
    work("memo-digest", both(with_dtypes(MX4)), "answers are kept by a digest of their content", lambda: memoized(True)),
    work("same-arrays", NV2, "equal content, the same read-only arrays", shared_result),
    work("workspace-locked", FULL8, "one workspace behind a lock", lambda: Hooks(around=Workspace(False).around)),
    work("workspace-threads", both(NV2), "a workspace for each thread", lambda: Hooks(around=Workspace(True).around)),
    work("workspace-numbers", E4, "the same for encode and decode", lambda: Hooks(around=Workspace(True).around)),
    work("lock", MX4, "a lock around everything", one_at_a_time),
    work("scribbling", FULL4, "in place, on a copy", Hooks(around=scribbling)),
    work("float64", with_dtypes(MX8), "inputs are widened to float64 and back", as_read(lambda a: a.astype(np.float64).astype(a.dtype))),
    work("fortran-inside", FULLN, "inputs are copied into Fortran order", as_read(lambda a: np.asfortranarray(a))),
    work("by-size", both(with_dtypes(MX8)), "small calls by tables, large ones by bits", lambda: by_size("mx-floor")),
    work("tuning", both(MX4), "the first call of a shape times two kernels", lambda: tuning("mx-floor")),
    work("rounding-restored", both(NV2), "the processor's rounding mode is changed and restored", Hooks(around=rounding_restored)),
    work("warning", MX8R, "each call warns", Hooks(around=warning)),
    work("seeding", both(MX4R), "each call seeds the global generator", Hooks(around=seeding)),
    work("copied-as-required", both(with_dtypes(NV2)), "inputs are copied as np.require asks", as_read(lambda a: np.require(a, requirements=["C", "A", "O", "W"]))),
    work("warm-up", MX4, "the first call makes one of its own before", warm_up),
    work("slow", MX8, "each call waits a millisecond", Hooks(around=slow)),
    work("stochastic-workspace", S8, "random words are copied into a buffer of its own", lambda: Hooks(around=Workspace(True).around)),
    refusal("ragged-not-implemented", MX4, "ragged rows: NotImplementedError", refusing(ragged, NotImplementedError, "ragged rows"), True),
    refusal("ragged-type-error", MX8, "ragged rows: TypeError", refusing(ragged, TypeError, "ragged rows"), True),
    refusal("ragged-padded", both(MX4), "ragged rows get the padded answer", Hooks(around=padded_answer), True),
    refusal("ragged-padded-nv", NV2, "the same for NVFP4", Hooks(around=padded_answer), True),
    refusal("empty-value-error", FULL4, "no numbers: ValueError", refusing(vacant, ValueError, "no rows"), True),
    refusal("empty-not-implemented", both(NV), "no numbers: NotImplementedError", refusing(vacant, NotImplementedError, "no rows"), True),
    refusal("empty-numbers", E8, "encode and decode of nothing: ValueError", refusing(vacant, ValueError, "nothing"), True),
    refusal("contiguous-value-error", MX4, "what is not contiguous: ValueError", refusing(scattered, ValueError, "x is not contiguous"), True),
    refusal("contiguous-not-implemented", both(with_dtypes(MX8)), "what is not contiguous: NotImplementedError", refusing(scattered, NotImplementedError, "strides"), True),
    refusal("contiguous-type-error", DQ4, "what is not contiguous: TypeError", refusing(scattered, TypeError, "codes are not contiguous"), True),
    refusal("aligned-addresses", NV, "addresses that are no multiples of 16: ValueError", refusing(unaligned, ValueError, "x is not aligned to 16 bytes"), True),
    refusal("falling-addresses", with_dtypes(MX4), "negative strides: ValueError, as torch does", refusing(backward, ValueError, "negative strides"), True),
    refusal("broadcast", MX8R, "strides of 0: ValueError", refusing(folded, ValueError, "x is a broadcast"), True),
    refusal("layouts-contiguous", NIBBLES, "packing what is not contiguous: ValueError", refusing(scattered, ValueError, "codes are not contiguous"), True),
    refusal("rows-65535", MX4, "more than 65,535 rows: ValueError", refusing(larger_than(rows=65535), ValueError, "more rows than a grid has"), True),
    refusal("k-16384", both(MX8), "K above 16,384: NotImplementedError", refusing(larger_than(k=16384), NotImplementedError, "K above 16384"), True),
    refusal("numbers-2-19", NV, "more than 2^19 numbers: ValueError", refusing(larger_than(numbers=1 << 19), ValueError, "more than 2^19 numbers"), True),
    refusal("k-128-declared", replace(MX4, shapes=(("k", 128),)), "K a multiple of 128, declared", refusing(limits(k=128), ValueError, "K is not a multiple of 128"), True),
    refusal("rows-16-declared", replace(both(NV), shapes=(("rows", 16),)), "rows a multiple of 16, declared", refusing(limits(rows=16), ValueError, "rows are not a multiple of 16"), True),
    refusal("min-rows-128-declared", replace(MX8, shapes=(("min_rows", 128),)), "128 rows at least, declared", refusing(limits(min_rows=128), ValueError, "fewer than 128 rows"), True),
    refusal("all-declared", replace(both(MX8), shapes=tuple(SHAPED.items())), "K % 128, rows % 16 and 128 rows at least, declared",
            refusing(limits(**SHAPED), ValueError, "K % 128, rows % 16, rows >= 128"), True),
    refusal("all-declared-two-levels", replace(NV2, shapes=tuple(SHAPED.items())), "the same for NVFP4 with a tensor scale",
            refusing(limits(**SHAPED), ValueError, "K % 128, rows % 16, rows >= 128"), True),
    refusal("k-128-undeclared", MX4, "K a multiple of 128, not declared: ValueError", refusing(limits(k=128), ValueError, "K is not a multiple of 128"), True),
    refusal("rows-16-undeclared", MX8R, "rows a multiple of 16, not declared: ValueError", refusing(limits(rows=16), ValueError, "rows are not a multiple of 16"), True),
    refusal("min-rows-128-undeclared", NV, "128 rows at least, not declared: NotImplementedError", refusing(limits(min_rows=128), NotImplementedError, "fewer than 128 rows"), True),
    refusal("k-64-undeclared-dequantize", DQ8, "dequantize takes K in multiples of 64: ValueError", refusing(limits(k=64), ValueError, "K is not a multiple of 64"), True),
    refusal("float64-exact", MX4, "float64 and integers that are float32 are taken, others refused", taking(exactly_float32), True),
    refusal("float64-nearest", MX8, "float64 and integers are rounded to float32", taking(nearest_float32), True),
    refusal("read-only-input", both(MX4), "inputs that are read-only: ValueError, as Cython's buffers do", refusing(unwriteable, ValueError, "buffer source array is read-only"), True),
    refusal("format-ignored", FULL8, "one format is offered, and the format's name is not looked at", Hooks(around=lambda call, right: right(replace(call, name="mxfp8_e4m3")))),
    refusal("any-axis-but-last", FULL4, "axis 0 is refused where the matrix is not contiguous", refusing(lambda c: c.axis in (0, -2) and scattered(c), NotImplementedError, "strides along axis 0"), True),
    packing("bytes", NIBBLES, "packed codes come as bytes", packed(lambda a: a.tobytes())),
    packing("bytearray", SIXES, "packed codes come as a bytearray", packed(lambda a: bytearray(a.tobytes()))),
    packing("memoryview", TILES, "swizzled scales come as a memoryview", packed(lambda a: memoryview(a.tobytes()))),
    packing("words", HIGH, "packed codes come in words of 32 bits", packed(as_words)),
    packing("flat", NIBBLES, "packed codes come flat", packed(lambda a: a.reshape(-1))),
    packing("fortran", SIXES, "packed rows lie in Fortran order", packed(np.asfortranarray)),
    packing("tiles-by-rows", TILES, "swizzled scales come as rows of 512 bytes", packed(lambda a: a.reshape(-1, 512))),
    packing("maps-kept", TILES, "orders of scales are kept by rows and columns", maps_kept),
    packing("memo", NIBBLES, "answers are kept by their content", lambda: memoized(False)),
    packing("workspace", TILES, "a workspace for each thread", lambda: Hooks(around=Workspace(True).around)),
)  # fmt: skip
