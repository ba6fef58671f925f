"""Grouped products in NumPy: a plain kernel, wrong ones that change one step of it, and right ones in other styles.

The sources are threads, as `owner/repo#number`, in which a kernel was wrong in this way as far as the thread tells; or "-".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

Array = Any
DTYPES: dict[str, Any] = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
_ELEMENTS: dict[str, Any] = {"mxfp8_e4m3": ml_dtypes.float8_e4m3fn}
_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


@dataclass
class Call:
    """One call, its operands apart: rows [R, k], matrices [E, n, k]."""

    a: Any
    b: Any
    groups: Array
    form: str
    alpha: Array | None
    bias: Array | None
    #: What a kernel keeps from call to call.
    kept: dict[Any, Any]
    places: list[Array] = field(default_factory=list)

    @property
    def experts(self) -> int:
        return len(getattr(self.b, "codes", self.b))

    @property
    def rows(self) -> int:
        return int(np.prod(getattr(self.a, "codes", self.a).shape[:-1]))


def find_places(call: Call) -> list[Array]:
    """Of each expert the rows that are its own."""
    groups, count = np.asarray(call.groups), call.experts
    if call.form == "masked":
        each = call.rows // count
        return [e * each + np.arange(groups[e]) for e in range(count)]
    if call.form in ("padded", "indexed"):
        return [np.flatnonzero(groups == e) for e in range(count)]
    ends = groups if call.form == "offsets" else np.concatenate([[0], np.cumsum(groups)])
    return [np.arange(ends[e], ends[e + 1]) for e in range(count)]


def read_codes(codes: Array, fmt: str) -> Array:
    return codes.view(_ELEMENTS[fmt]).astype(np.float32) if fmt in _ELEMENTS else _E2M1[codes]


def read_scales(scales: Array, fmt: str) -> Array:
    return scales.view(ml_dtypes.float8_e4m3fn if fmt == "nvfp4" else ml_dtypes.float8_e8m0fnu).astype(np.float32)


def read_rows(call: Call, places: Array) -> Array:
    """The numbers of some rows of a."""
    if not hasattr(call.a, "codes"):
        return np.asarray(call.a).reshape(call.rows, -1)[places].astype(np.float32)
    codes, scales = (x.reshape(call.rows, -1)[places] for x in (call.a.codes, call.a.scales))
    tensor = 1 if call.a.tensor_scale is None else np.ravel(call.a.tensor_scale)[0]
    return read_codes(codes, call.a.format) * np.repeat(read_scales(scales, call.a.format), codes.shape[1] // scales.shape[1], 1) * tensor


def read_matrix(call: Call, of_codes: int, of_scales: int, of_tensor: int) -> Array:
    """The numbers of a matrix, with the scales of one expert and the tensor scale of one."""
    if not hasattr(call.b, "codes"):
        return np.asarray(call.b[of_codes]).astype(np.float32)
    codes, scales = call.b.codes[of_codes], call.b.scales[of_scales]
    tensor = 1 if call.b.tensor_scale is None else call.b.tensor_scale[of_tensor]
    return read_codes(codes, call.b.format) * np.repeat(read_scales(scales, call.b.format), codes.shape[1] // scales.shape[1], 1) * tensor


def add_factors(y: Array, places: Array, call: Call, of_alpha: Any, of_bias: int) -> Array:
    y = y if call.alpha is None else y * np.reshape(call.alpha[of_alpha], (-1, 1))
    return y if call.bias is None else y + call.bias[of_bias].astype(np.float32)


def same(call: Call, expert: int) -> int:
    return expert


#: The steps of a kernel. Those called `of_` say whose part is used in the place of an expert's.
STEPS: dict[str, Callable[..., Any]] = {
    "find": find_places,
    "rows": read_rows,
    "matrix": read_matrix,
    "of_codes": same,
    "of_scales": same,
    "of_tensor": same,
    "of_alpha": lambda call, expert, places: expert,
    "of_bias": same,
    "multiply": lambda x, w: x @ w.T,
    "write": lambda out, places, y, call: out.__setitem__(places, y),
    "finish": lambda out, call: out,
}


def build(form: str = "counts", pair: str = "mxfp8_e4m3 @ mxfp8_e4m3", **changed: Any) -> SimpleNamespace:
    """A target, with other steps where some are given; `dtypes`: what it returns."""
    dtypes = changed.pop("dtypes", ["float32"])
    step = SimpleNamespace(**{**STEPS, **changed})
    kept: dict[Any, Any] = {}

    def grouped_matmul(a: Any, b: Any, groups: Any, form: str, out_dtype: str, alpha: Any = None, bias: Any = None) -> Any:
        call = Call(a, b, groups, form, alpha, bias, kept)
        call.places = step.find(call)
        out = np.zeros((call.rows, getattr(b, "codes", b).shape[1]), np.float32)
        with np.errstate(all="ignore"):
            for expert, places in enumerate(call.places):
                w = step.matrix(call, *(getattr(step, f"of_{part}")(call, expert) for part in ("codes", "scales", "tensor")))
                y = step.multiply(step.rows(call, places), w)
                y = add_factors(y, places, call, step.of_alpha(call, expert, places), step.of_bias(call, expert))
                step.write(out, places, y, call)
            shape = getattr(a, "codes", a).shape[:-1]
            return step.finish(out, call).reshape(*shape, -1).astype(DTYPES[out_dtype])

    return SimpleNamespace(NAME="kernel", VERSION="1", GROUPED=[f"{pair} : {form}"], OUT_DTYPES=dtypes, grouped_matmul=grouped_matmul)


@dataclass(frozen=True)
class Wrong:
    """A kernel that changes one step."""

    id: str
    source: str
    steps: dict[str, Any]
    form: str = "counts"
    pair: str = "mxfp8_e4m3 @ mxfp8_e4m3"


def moved(change: Callable[[list[Array], Call], list[Array]]) -> dict[str, Any]:
    """Other rows are taken for an expert's."""
    return {"find": lambda call: [np.clip(p, 0, call.rows - 1) for p in change(find_places(call), call)]}


def packed(places: list[Array], _: Call) -> list[Array]:
    """The rows of experts lie one after another."""
    return [start + np.arange(len(p)) for start, p in zip(np.cumsum([0, *map(len, places[:-1])]), places, strict=True)]


def finished(change: Callable[[Array, Call], Array]) -> dict[str, Any]:
    return {"finish": change}


def written(change: Callable[[Array, Array, Call], Array]) -> dict[str, Any]:
    """The outputs of an expert are others: y, places, call."""
    return {"write": lambda out, places, y, call: out.__setitem__(places, change(y, places, call))}


def zero_where(wrong: Callable[[Array], Any]) -> dict[str, Any]:
    """Rows of which nothing is written; wrong: of the numbers of an expert's rows."""
    return written(lambda y, places, call: np.where(np.reshape(wrong(np.arange(len(places))), (-1, 1)), 0, y))


def keep_groups(call: Call) -> list[Array]:
    """The counts of the first call of a shape are those of all."""
    call.groups = call.kept.setdefault((call.form, np.shape(call.groups), call.rows), np.array(call.groups))
    return find_places(call)


def leak_nan(out: Array, call: Call) -> Array:
    """Every row is multiplied with every matrix, and the others' products times zero are added."""
    used = np.concatenate(call.places)
    for expert in range(call.experts):
        out[used] += 0 * np.nan_to_num(read_rows(call, used), posinf=0, neginf=0) @ read_matrix(call, expert, expert, expert).T
    return out


def run_on(call: Call, places: Array) -> Array:
    """A tile of k that is not full goes on in the next row."""
    x, tile = read_rows(call, places), 64
    if len(x) < 2 or not x.shape[1] % tile:
        return x
    x = x.copy()
    x[:-1, -1] += x[1:, 0]
    return x


def tiles_of_first(call: Call) -> list[Array]:
    """The expert of the first row of a tile of 16 is that of the tile."""
    ids = np.full(call.rows, -1)
    for expert, places in enumerate(find_places(call)):
        ids[places] = expert
    ids = np.repeat(ids[::16], 16)[: call.rows]
    return [np.flatnonzero(ids == expert) for expert in range(call.experts)]


def replay(out: Array, call: Call) -> Array:
    """The first rows of every second call of a shape are those of the call before."""
    before = call.kept.get(out.shape)
    call.kept[out.shape] = None if before is not None else out.copy()
    if before is not None:
        out[: len(out) // 2] = before[: len(out) // 2]
    return out


def spoil_tiles(call: Call, places: Array) -> Array:
    """A row's scale is NaN where that of a row of its tile of eight is, padding included."""
    whole = read_rows(call, np.arange(call.rows))
    whole = np.concatenate([whole, np.zeros((-len(whole) % 8, whole.shape[1]), np.float32)]).reshape(-1, 8, whole.shape[1])
    lost = np.isnan(whole).any(axis=(1, 2)).repeat(8)[places]
    return np.where(lost[:, None], np.nan, read_rows(call, places))


def scatter_by_order(out: Array, call: Call) -> Array:
    """Rows are sorted by expert, and put back by the order, not by its inverse."""
    order = np.argsort(call.groups, kind="stable")
    return out[order][order]


def write_tiles(out: Array, call: Call, tile: int, *, zeros: bool = False, step: int = -1) -> Array:
    """Each expert's tiles are written whole, from the last expert to the first: what lies behind its rows is its product, or zeros."""
    each = call.rows // call.experts
    for expert in range(call.experts)[::step]:
        places = call.places[expert]
        if len(places):
            start = expert * each if call.form == "masked" else int(places[0])
            behind = np.arange(start + len(places), min(start + -(-len(places) // tile) * tile, call.rows))
            whole = np.concatenate([places, behind])
            y = read_rows(call, whole) @ read_matrix(call, expert, expert, expert).T
            y = add_factors(y, whole, call, expert, expert)
            out[whole] = np.where(zeros & (np.arange(len(whole)) >= len(places))[:, None], np.float32(0), y)
    return out


def count_down(call: Call) -> list[Array]:
    places = find_places(call)
    call.groups -= call.groups > 0
    return places


def used_number(call: Call, expert: int) -> int:
    """Experts are counted among those with rows."""
    return sum(len(p) > 0 for p in call.places[:expert])


def other(step: int) -> Callable[[Call, int], int]:
    return lambda call, expert: (expert + step) % call.experts


def first(call: Call, expert: int, *_: Any) -> int:
    return 0


NVFP4, MIXED, WEIGHTS = "nvfp4 @ nvfp4", "mxfp8_e4m3 @ mxfp4", "bfloat16 @ mxfp4"
WRONG = (
    Wrong("offset-off-by-one", "-", moved(lambda p, _: [x - (e > 0) for e, x in enumerate(p)]), "offsets"),
    Wrong("last-expert-skipped", "-", moved(lambda p, _: [*p[:-1], p[-1][:0]])),
    Wrong("gives-up-after-32-without-rows", "-", moved(lambda p, _: [x[: len(x) * any(map(len, p[max(e - 32, 0) : e] if e > 31 else [x]))] for e, x in enumerate(p)])),
    Wrong("experts-without-rows-shift", "-", {"of_codes": used_number, "of_scales": used_number}),
    Wrong("padding-not-skipped", "-", moved(packed), "padded"),
    Wrong("stops-at-padding", "-", moved(lambda p, c: [x[x < min(np.flatnonzero(c.groups < 0), default=c.rows)] for x in p]), "padded"),
    Wrong("scales-of-the-next", "-", {"of_scales": other(1)}, pair=MIXED),
    Wrong("scales-of-the-first", "-", {"of_scales": first}, "masked"),
    Wrong("scales-of-another-rank", "sgl-project/sglang#36597", {"of_scales": lambda c, e: (e + c.experts // 2) % c.experts}),
    Wrong("tensor-scale-of-the-first", "NVIDIA/TensorRT-LLM#12183", {"of_tensor": first}, pair=NVFP4),
    Wrong("tensor-scale-of-the-largest", "-", {"of_tensor": lambda c, e: int(np.argmax([len(p) for p in c.places]))}, "masked", NVFP4),
    Wrong("alpha-by-row", "-", {"of_alpha": lambda c, e, places: places % c.experts}),
    Wrong("alpha-of-the-first", "-", {"of_alpha": first}, "indexed"),
    Wrong("bias-of-the-one-before", "-", {"of_bias": other(-1)}, "offsets", WEIGHTS),
    Wrong("put-back-by-order", "-", finished(scatter_by_order), "indexed"),
    Wrong("ids-taken-for-sorted", "-", moved(packed), "indexed"),
    Wrong("masked-below-64", "deepseek-ai/DeepGEMM#268", zero_where(lambda row: len(row) < 64), "masked"),
    Wrong("masked-above-64", "deepseek-ai/DeepGEMM#268, the other way round", zero_where(lambda row: row >= 64), "masked"),
    Wrong("counts-of-the-first-call", "-", {"find": keep_groups}),
    Wrong("offsets-of-the-first-call", "-", {"find": keep_groups}, "offsets"),
    Wrong("nan-leaks", "flashinfer-ai/flashinfer#3103", finished(leak_nan), pair=MIXED),
    Wrong("nan-padding-leaks", "flashinfer-ai/flashinfer#3057", {"rows": spoil_tiles}, "padded"),
    Wrong("masked-nan-padding-leaks", "flashinfer-ai/flashinfer#3057", {"rows": spoil_tiles}, "masked"),
    Wrong("nan-becomes-zero", "-", written(lambda y, p, c: np.nan_to_num(y))),
    Wrong("tile-of-the-first-row", "-", {"find": tiles_of_first}),
    Wrong("k-tail-runs-on", "ml-explore/mlx#3887", {"rows": run_on}, "indexed"),
    Wrong("int16-rows", "ml-explore/mlx#3856", zero_where(lambda row: row > 32767)),
    Wrong("int16-places", "ml-explore/mlx#3856", written(lambda y, p, c: np.where((p > 32767)[:, None], y[:1], y)), "indexed"),
    Wrong("uint8-expert", "-", {"of_codes": lambda c, e: e & 255}),
    Wrong("int8-expert", "-", {"of_codes": lambda c, e: e if e < 128 else 0}, "indexed"),
    Wrong("replays-an-old-part", "deepseek-ai/DeepGEMM#451", finished(replay)),
    Wrong("one-row-is-none", "-", zero_where(lambda row: len(row) == 1)),
    Wrong("odd-row-is-lost", "-", written(lambda y, p, c: np.where((np.arange(len(p)) == len(p) // 2 * 2)[:, None], 0, y))),
    Wrong("last-row-is-lost", "-", zero_where(lambda row: row == row.max(initial=-1)), "masked", NVFP4),
    Wrong("rows-beyond-128-come-again", "-", written(lambda y, p, c: y[np.arange(len(y)) % 128]), "padded"),
    Wrong("experts-in-reverse", "-", {"of_codes": lambda c, e: c.experts - 1 - e, "of_scales": lambda c, e: c.experts - 1 - e}),
    Wrong("columns-beyond-128", "-", written(lambda y, p, c: np.where(np.arange(y.shape[1]) < 128, y, 0)), pair=WEIGHTS),
    Wrong("tile-of-both-lost", "-", written(lambda y, p, c: np.where((np.arange(len(y)) > 127)[:, None] & (np.arange(y.shape[1]) > 127), 0, y))),
    Wrong("experts-of-16", "-", {"of_codes": lambda c, e: e % 16}, "masked"),
    Wrong("writes-whole-tiles", "-", {"finish": lambda out, c: write_tiles(out, c, 64)}, "masked"),
    Wrong("writes-tiles-of-zeros", "-", {"finish": lambda out, c: write_tiles(out, c, 128, zeros=True)}),
    Wrong("counts-down-in-place", "-", {"find": count_down}),
)  # fmt: skip


def in_order(x: Array, w: Array, order: Any) -> Array:
    """Products added one after another in float32."""
    y = np.zeros((len(x), len(w)), np.float32)
    for j in order:
        y += x[:, j, None] * w[None, :, j]
    return y


def split_k(x: Array, w: Array) -> Array:
    half = x.shape[1] // 2
    return x[:, half:] @ w[:, half:].T + x[:, :half] @ w[:, :half].T


def in_tiles(x: Array, w: Array) -> Array:
    """Whole tiles of 128 rows, the last one filled with zeros."""
    full = np.concatenate([x, np.zeros((-len(x) % 128, x.shape[1]), np.float32)])
    return np.concatenate([full[i : i + 128] @ w.T for i in range(0, len(full), 128)] or [full @ w.T])[: len(x)]


def dirty(value: float) -> dict[str, Any]:
    """Something is written into rows of padding."""

    def finish(out: Array, call: Call) -> Array:
        padding = np.ones(call.rows, bool)
        padding[np.concatenate(call.places)] = False
        out[padding] = value
        return out

    return {"finish": finish}


def gather_all(call: Call, places: Array) -> Array:
    """All rows are read, and those of the expert picked."""
    return read_rows(call, np.arange(call.rows))[places]


def as_bfloat16(x: Array, w: Array) -> Array:
    return x.astype(ml_dtypes.bfloat16).astype(np.float32) @ w.astype(ml_dtypes.bfloat16).astype(np.float32).T


ALL = ["float32", "bfloat16", "float16"]
RIGHT: dict[str, dict[str, Any]] = {
    "a loop over experts": {"dtypes": ALL},
    "a loop over experts, offsets of NVFP4": {"form": "offsets", "pair": NVFP4, "dtypes": ALL},
    "one gathered product": {"rows": gather_all, "form": "indexed"},
    "padded tiles": {"multiply": in_tiles, "form": "padded", "pair": MIXED},
    "float64": {
        "multiply": lambda x, w: (x.astype(np.float64) @ w.astype(np.float64).T).astype(np.float32),
        "form": "masked",
        "pair": NVFP4,
    },
    "float32 from the end": {"multiply": lambda x, w: in_order(x, w, range(x.shape[1])[::-1]), "pair": WEIGHTS},
    "split-K": {"multiply": split_k, "form": "offsets"},
    "bfloat16 operands": {"multiply": as_bfloat16, "pair": "mxfp4 @ mxfp4"},
    "whole tiles, which the next experts overwrite": {"finish": lambda out, call: write_tiles(out, call, 64, step=1), "form": "masked"},
    "NaN in rows of padding": {**dirty(np.nan), "form": "masked"},
    "numbers in rows of padding": {**dirty(1e30), "form": "padded"},
    "plain floats": {"pair": "float16 @ bfloat16", "form": "indexed"},
}
