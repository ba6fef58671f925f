"""Vector files as typed cases: the one place where their hex is read.

`load_*` reads the files that this package ships, once; `read_*` reads any document of the same schema. Of a format that a
caller registered, and that has no file, `load_*` gives the cases that the model builds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.dot.rounding import DTYPES
from mxspec.elements import ScaleCodes
from mxspec.enums import StrEnum
from mxspec.formats import BlockFormat, get_block
from mxspec.layouts import Layout, get_layout
from mxspec.rounding import Overflow, Rounding
from mxspec.sparsity import SparseFormat, get_sparse
from mxspec_vectors.compact.groups import check_recipe
from mxspec_vectors.compact.scales import read_scale_tables
from mxspec_vectors.entries import code_digits
from mxspec_vectors.files import Document, VectorError, read_document, read_index
from mxspec_vectors.recipes import bfloat16_magnitudes
from mxspec_vectors.scale_table import REFUSED
from mxspec_vectors.scale_values import list_bfloat16_values, list_scale_values
from mxspec_vectors.tensor_scales import TensorScales

Codes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]


def open_document(operation: str, fmt: str) -> Document:
    """A shipped file's content; of a registered format of which no file is shipped, what the model gives.

    Raises VectorError where there is neither, or the file is missing or damaged.
    """
    shipped = {name.rpartition("/")[2] for name in read_index()["files"]}
    if f"{fmt}.json" not in shipped:
        from mxspec_vectors.generate import can_build  # here, as few formats need what makes all files

        if can_build(operation, fmt):
            return _build_document(operation, fmt)
    return read_document(operation, fmt)


@lru_cache(maxsize=16)
def _build_document(operation: str, fmt: str) -> Document:
    from mxspec_vectors.generate import build_document

    return build_document(operation, fmt)


def read_words(text: str) -> Words:
    """float32 bits, or 32-bit words, of eight hex digits each."""
    return np.frombuffer(bytes.fromhex(text), ">u4").astype(np.uint32)


def read_floats(text: str) -> Floats:
    """float32 numbers from their bits."""
    return read_words(text).view(np.float32)


def read_bytes(text: str) -> Codes:
    """Bytes of two hex digits each."""
    return np.frombuffer(bytes.fromhex(text), np.uint8)


def read_codes(text: str, digits: int) -> Codes:
    """Codes of one or two hex digits each."""
    return read_bytes(text) if digits == 2 else np.array([int(c, 16) for c in text], np.uint8)


def read_scale_codes(text: str, fmt: BlockFormat) -> ScaleCodes:
    """Scale codes of two hex digits each, or of eight for float32 scales."""
    return read_bytes(text) if fmt.scale.bits <= 8 else read_words(text)


def _read_tensor(entry: Mapping[str, Any]) -> TensorScales | None:
    return TensorScales.from_dict(entry["tensor_scale"]) if "tensor_scale" in entry else None


# quantize


@dataclass(frozen=True, slots=True)
class Answer:
    """One legal answer to a quantize case; flat arrays in the order of the returned ones."""

    scale: ScaleCodes
    #: The largest scale codes that are legal; `scale` are the smallest.
    scale_max: ScaleCodes
    codes: Codes
    #: The bits of `codes` that count.
    mask: Codes
    #: Lanes that hold any NaN code.
    nan_lanes: tuple[int, ...]

    def compare_every_bit(self) -> Answer:
        """The answer with nothing left open but a range of scales."""
        return replace(self, mask=np.full(self.codes.shape, 0xFF, np.uint8), nan_lanes=())


@dataclass(frozen=True, slots=True)
class QuantizeCase:
    """A block, or a small tensor, and what each profile makes of it."""

    id: str
    topic: str
    #: [rows, columns].
    x: Floats
    axis: int = -1
    pad: bool = False
    block: tuple[int, int] | None = None
    tensor: TensorScales | None = None
    #: Profile id -> legal answers, canonical first; a profile that is missing does not decide the case.
    answers: Mapping[str, tuple[Answer, ...]] = field(default_factory=dict)
    flags: tuple[str, ...] = ()

    @property
    def is_row(self) -> bool:
        """Whether the case is one block along the last axis."""
        return self.x.shape[0] == 1 and self.axis == -1 and not self.pad and self.block is None


def read_quantize_cases(document: Document) -> tuple[QuantizeCase, ...]:
    """The cases of a quantize document."""
    fmt = get_block(document["format"])
    return tuple(_read_quantize(entry, fmt) for entry in document["cases"])


def _read_quantize(entry: Mapping[str, Any], fmt: BlockFormat) -> QuantizeCase:
    answers: dict[str, tuple[Answer, ...]] = {}
    for expected in entry["expect"]:
        rows = tuple(_read_answer(row, fmt) for row in expected["any"])
        answers |= dict.fromkeys(expected["profiles"], rows)
    return QuantizeCase(
        id=entry["id"],
        topic=entry["topic"],
        x=read_floats(entry["x"]).reshape(entry["shape"]),
        axis=entry.get("axis", -1),
        pad=entry.get("pad", False),
        block=tuple(entry["block"]) if "block" in entry else None,
        tensor=_read_tensor(entry),
        answers=answers,
        flags=tuple(entry["flags"]),
    )


def _read_answer(row: Mapping[str, Any], fmt: BlockFormat) -> Answer:
    digits = code_digits(fmt)
    codes, scale = read_codes(row["codes"], digits), read_scale_codes(row["scale"], fmt)
    return Answer(
        scale=scale,
        scale_max=read_scale_codes(row["scale_max"], fmt) if "scale_max" in row else scale,
        codes=codes,
        mask=read_codes(row["mask"], digits) if "mask" in row else np.full(codes.shape, 0xFF, np.uint8),
        nan_lanes=tuple(row.get("nan_lanes", ())),
    )


@lru_cache(maxsize=16)
def load_quantize_cases(fmt: str) -> tuple[QuantizeCase, ...]:
    """The quantize cases of a block format."""
    return read_quantize_cases(open_document("quantize", fmt))


# scale


@dataclass(frozen=True, slots=True)
class ScaleCase:
    """A run of block maxima under one tensor scale."""

    id: str
    topic: str
    #: float32 bits.
    amax: Words
    tensor: TensorScales | None
    #: Profile id -> scale codes.
    answers: Mapping[str, ScaleCodes]
    #: The place of each maximum in the case, where only some are tested.
    places: tuple[int, ...] | None = None
    flags: tuple[str, ...] = ()

    def place(self, lane: int) -> int:
        """The place in the file's case of one of these maxima."""
        return lane if self.places is None else self.places[lane]

    def label(self, lane: int) -> str:
        """The label of one maximum."""
        return f"{self.id}[{self.place(lane)}]"

    def keep(self, lanes: Sequence[int]) -> ScaleCase:
        """Some of these maxima."""
        index = np.array(lanes, np.intp)
        answers = {name: scales[index] for name, scales in self.answers.items()}
        places = tuple(self.place(lane) for lane in lanes)
        return replace(self, amax=self.amax[index], answers=answers, places=places)


def read_scale_cases(document: Document) -> tuple[ScaleCase, ...]:
    """The cases of a scale document."""
    return tuple(
        ScaleCase(
            id=entry["id"],
            topic=entry["topic"],
            amax=read_words(entry["amax"]),
            tensor=_read_tensor(entry),
            answers={name: read_bytes(e["scale"]) for e in entry["expect"] for name in e["profiles"]},
            flags=tuple(entry["flags"]),
        )
        for entry in document["cases"]
    )


@lru_cache(maxsize=16)
def load_scale_cases(fmt: str) -> tuple[ScaleCase, ...]:
    """The scale cases of a block format; of one with float32 scales they are computed (`scale_values`)."""
    if get_block(fmt).scale.bits > 8:
        return tuple(ScaleCase(v.id, v.topic, v.amax, None, v.answers) for v in list_scale_values(get_block(fmt)))
    return read_scale_cases(open_document("scale", fmt))


@lru_cache(maxsize=16)
def load_scale_recipes(fmt: str) -> tuple[ScaleCase, ...]:
    """All bfloat16 magnitudes as block maxima, under each tensor scale of the scale cases: none of the 2**15 is left out.

    Four cases for each tensor scale: the finite magnitudes, zero, infinity and NaN, so that each kind has its own topic.
    A profile that refuses such blocks is missing from their answers.
    Raises VectorError where a case's maxima, or a table's answers, have another digest than the file says.
    """
    if get_block(fmt).scale.bits > 8:
        return tuple(ScaleCase(v.id, v.topic, v.amax, None, v.answers) for v in list_bfloat16_values(get_block(fmt)))
    document = open_document("scale", fmt)
    tables, cases = read_scale_tables(document), []
    for entry in document["exhaustive"]:
        tensor, (recipe, kind) = document["tensor_scales"][entry["tensor"]], entry["recipe"]
        if recipe != "bfloat16":
            raise VectorError(f"scale/{fmt}.json: case {entry['id']}: unknown recipe {recipe!r}; known is bfloat16")
        amax = bfloat16_magnitudes(kind)
        asked = {"tensor_scale": tensor} if tensor is not None else {}
        check_recipe(document, {**entry, **asked, "amax": amax.astype(">u4").tobytes().hex()})
        answers = {}
        for name in document["profiles"]:
            number = document["tables_of"][name][entry["tensor"]]
            if number is not None and not ((found := tables[number].at(amax)) == REFUSED).any():
                answers[name] = found.astype(np.uint8)
        cases.append(
            ScaleCase(
                id=entry["id"], topic=entry["topic"], amax=amax,
                tensor=None if tensor is None else TensorScales.from_dict(tensor), answers=answers,
                flags=tuple(entry["flags"]),
            )
        )  # fmt: skip
    return tuple(cases)


# dequantize


@dataclass(frozen=True, slots=True)
class DequantizeCase:
    """Codes [n, k] under scale bytes [n, 1]."""

    id: str
    topic: str
    codes: Codes
    scales: ScaleCodes
    tensor: TensorScales | None
    flags: tuple[str, ...] = ()


def read_dequantize_cases(document: Document) -> tuple[DequantizeCase, ...]:
    """The cases of a dequantize document."""
    fmt = get_block(document["format"])
    digits = code_digits(fmt)
    return tuple(
        DequantizeCase(
            id=entry["id"],
            topic=entry["topic"],
            codes=read_codes(entry["codes"], digits).reshape(entry["shape"]),
            scales=read_scale_codes(entry["scales"], fmt).reshape(entry["shape"][0], -1),
            tensor=_read_tensor(entry),
            flags=tuple(entry["flags"]),
        )
        for entry in document["cases"]
    )


def _cut(text: str, digits: int) -> Iterator[str]:
    return (text[i : i + digits] for i in range(0, len(text), digits))


@lru_cache(maxsize=16)
def load_dequantize_tensors(fmt: str) -> tuple[TensorScales | None, ...]:
    """The tensor scales under which a block format's dequantize cases stand; None: without one."""
    return tuple(dict.fromkeys(_read_tensor(entry) for entry in open_document("dequantize", fmt)["cases"]))


# encode, stochastic


@dataclass(frozen=True, slots=True)
class EncodeCase:
    """Numbers and their codes under each rounding."""

    id: str
    topic: str
    overflow: Overflow
    x: Floats
    codes: Mapping[Rounding, Codes]
    flags: tuple[str, ...] = ()


@lru_cache(maxsize=16)
def load_encode_cases(element: str) -> tuple[EncodeCase, ...]:
    """The encode cases of a scalar format."""
    return tuple(
        EncodeCase(
            id=entry["id"],
            topic=entry["topic"],
            overflow=Overflow(entry["overflow"]),
            x=read_floats(entry["x"]),
            codes={Rounding(r): read_bytes(e["codes"]) for e in entry["expect"] for r in e["roundings"]},
            flags=tuple(entry["flags"]),
        )
        for entry in open_document("encode", element)["cases"]
    )


class StochasticRule(StrEnum):
    """How random bits are used."""

    #: Up if and only if floor(frac 2^n) + r >= 2^n.
    INTEGER = "integer"
    #: Transformer Engine's float32 rule, whose fma rounds.
    TE_SOFTWARE = "te-software"


@dataclass(frozen=True, slots=True)
class StochasticCase:
    """Numbers, random words, and the codes that they give."""

    id: str
    topic: str
    rule: StochasticRule
    sr_bits: int
    x: Floats
    random_bits: Words
    codes: Codes
    flags: tuple[str, ...] = ()


@lru_cache(maxsize=16)
def load_stochastic_cases(element: str) -> tuple[StochasticCase, ...]:
    """The stochastic cases of an element format."""
    return tuple(_read_stochastic(entry) for entry in open_document("stochastic", element)["cases"])


def _read_stochastic(entry: Mapping[str, Any]) -> StochasticCase:
    x, text = read_floats(entry["x"]), entry["random_bits"]
    return StochasticCase(
        id=entry["id"],
        topic=entry["topic"],
        rule=StochasticRule(entry["rule"]),
        sr_bits=entry["sr_bits"],
        x=x,
        random_bits=np.array([int(word, 16) for word in _cut(text, len(text) // len(x))], np.uint32),
        codes=read_bytes(entry["expect"][0]["codes"]),
        flags=tuple(entry["flags"]),
    )


@dataclass(frozen=True, slots=True)
class DecodeCase:
    """Codes; their values follow from the format."""

    id: str
    topic: str
    codes: Codes
    flags: tuple[str, ...] = ()


@lru_cache(maxsize=16)
def load_decode_cases(element: str) -> tuple[DecodeCase, ...]:
    """The decode cases of a scalar format."""
    return tuple(
        DecodeCase(entry["id"], entry["topic"], read_bytes(entry["codes"]), tuple(entry["flags"]))
        for entry in open_document("decode", element)["cases"]
    )


# layout


@dataclass(frozen=True, slots=True)
class LayoutCase:
    """Items of a matrix and the bytes that hold them."""

    id: str
    topic: str
    shape: tuple[int, ...]
    #: One array for each part of the layout, in its order.
    parts: tuple[Codes, ...]
    data: Codes
    #: The bits of `data` that hold items.
    mask: Codes
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LayoutFile:
    """The cases of one layout."""

    cases: tuple[LayoutCase, ...]
    #: Whether the bits that hold no item are the layout's too.
    padding_is_specified: bool


@lru_cache(maxsize=128)
def load_layout_file(name: str) -> LayoutFile:
    """The layout cases of a layout."""
    document, layout = open_document("layout", name), get_layout(name)
    cases = tuple(_read_layout(entry, layout, document["masks"]) for entry in document["cases"])
    return LayoutFile(cases, document["padding"] == "specified")


def _read_layout(entry: Mapping[str, Any], layout: Layout, masks: Mapping[str, str]) -> LayoutCase:
    shape, data = tuple(entry["shape"]), read_bytes(entry["expect"][0]["data"])
    mask = masks.get("x".join(map(str, shape)))
    return LayoutCase(
        id=entry["id"],
        topic=entry["topic"],
        shape=shape,
        parts=tuple(
            read_codes(entry[f.part.value], 1 if f.packing.width <= 4 else 2).reshape((*shape[:-1], shape[-1] // f.covers))
            for f in layout.fields
        ),
        data=data,
        mask=np.full(data.size, 0xFF, np.uint8) if mask is None else read_bytes(mask),
        flags=tuple(entry["flags"]),
    )


# sparse


class SparseFunction(StrEnum):
    """The input of a sparse case."""

    PRUNE = "prune"
    COMPRESS = "compress"
    DECOMPRESS = "decompress"


@dataclass(frozen=True, slots=True)
class SparseCase:
    """Groups of codes, each by itself; the arrays that a function neither takes nor gives are empty."""

    id: str
    topic: str
    function: SparseFunction
    #: Dense codes [n, group]: given, or what decompressing gives.
    codes: Codes
    #: Kept codes [n, group / 2] and their nibbles [n]: given, or one of the answers of compressing.
    kept: Codes
    metadata: Codes
    #: Of pruning: bit i of an entry says that the i-th pattern of `KEPT` keeps the largest.
    patterns: Codes
    flags: tuple[str, ...] = ()


def read_sparse_cases(document: Document) -> tuple[SparseCase, ...]:
    """The cases of a sparse document."""
    fmt = get_sparse(document["format"])
    return tuple(_read_sparse(entry, fmt) for entry in document["cases"])


def _read_sparse(entry: Mapping[str, Any], fmt: SparseFormat) -> SparseCase:
    given = {**entry, **entry["expect"][0]}

    def read(name: str, digits: int, columns: int) -> Codes:
        found = read_codes(given[name], digits) if name in given else np.empty(0, np.uint8)
        return found.reshape(-1, columns)

    return SparseCase(
        id=entry["id"],
        topic=entry["topic"],
        function=SparseFunction(entry["function"]),
        codes=read("codes", fmt.codes.digits, fmt.group),
        kept=read("kept", fmt.codes.digits, fmt.group // 2),
        metadata=read("metadata", 1, 1)[:, 0],
        patterns=read("patterns", 2, 1)[:, 0],
        flags=tuple(entry["flags"]),
    )


@lru_cache(maxsize=16)
def load_sparse_cases(fmt: str) -> tuple[SparseCase, ...]:
    """The cases of a sparse format."""
    return read_sparse_cases(open_document("sparse", fmt))


# dot


@dataclass(frozen=True, slots=True)
class DotOperand:
    """One side of a product."""

    format: str
    #: uint8 [rows, k], one code for each element; of float32, bfloat16 and float16 the numbers.
    data: npt.NDArray[Any]
    #: uint8 [rows, k / block]; None: plain numbers.
    scales: Codes | None
    #: NVFP4's second scale, of the kind that decodes; None: there is none.
    tensor_scale: np.float32 | None


@dataclass(frozen=True, slots=True)
class DotAnswer:
    """The outputs that a class of accumulations allows: from `low` to `high`, both included; NaN stands for NaN alone."""

    low: npt.NDArray[Any]
    high: npt.NDArray[Any]

    def accepts(self, output: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Which outputs [m, n] are among them. Zeros of both signs are one number."""
        y, low, high = (np.asarray(x).astype(np.float64) for x in (output, self.low, self.high))
        # From one infinity to the other nothing is proven: partial sums may overflow, and infinities cancel.
        inside = ((low <= y) & (y <= high)) | ((low == -np.inf) & (high == np.inf))
        found: npt.NDArray[np.bool_] = np.where(np.isnan(low), np.isnan(y), inside)
        return found


@dataclass(frozen=True, slots=True)
class DotCase:
    """A product a b^T [m, n] of a [m, k] and b [n, k]."""

    id: str
    topic: str
    #: The outputs' dtype.
    out: str
    a: DotOperand
    b: DotOperand
    #: Class of accumulations -> the outputs that it allows; classes that the case does not ask are missing.
    answers: Mapping[str, DotAnswer]
    flags: tuple[str, ...] = ()


def _read_plain(text: str, dtype: str) -> npt.NDArray[Any]:
    """Floats from their bits; `nan` stands for any NaN."""
    width = DTYPES[dtype].itemsize
    words = text.replace("nan.....", "7fc00000") if width == 4 else text.replace("nan.", "7e00" if dtype == "float16" else "7fc0")
    return np.frombuffer(bytes.fromhex(words), f">u{width}").astype(f"u{width}").view(DTYPES[dtype])


def _read_operand(entry: Mapping[str, Any], which: str, side: Mapping[str, Any], rows: int) -> DotOperand:
    scales, tensor = entry.get(f"{which}_scales"), entry.get(f"{which}_tensor_scale")
    data = _read_plain(entry[which], side["format"]) if scales is None else read_codes(entry[which], side["digits"])
    return DotOperand(
        format=side["format"],
        data=data.reshape(rows, -1),
        scales=None if scales is None else read_bytes(scales).reshape(rows, -1),
        tensor_scale=None if tensor is None else read_floats(tensor)[0],
    )


def read_dot_cases(document: Document) -> tuple[DotCase, ...]:
    """The cases of a document of products."""
    return tuple(_read_dot(entry, document["sides"]) for entry in document["cases"])


def _read_dot(entry: Mapping[str, Any], sides: Mapping[str, Any]) -> DotCase:
    m, n, _ = entry["shape"]
    answers = {
        name: DotAnswer(*(_read_plain(answer[end], entry["out"]).reshape(m, n) for end in ("low", "high")))
        for answer in entry["expect"]
        for name in answer["profiles"]
    }
    a, b = (_read_operand(entry, which, sides[which], rows) for which, rows in (("a", m), ("b", n)))
    return DotCase(
        id=entry["id"], topic=entry["topic"], out=entry["out"], a=a, b=b, answers=answers, flags=tuple(entry["flags"])
    )  # fmt: skip


@lru_cache(maxsize=32)
def load_dot_cases(pair: str) -> tuple[DotCase, ...]:
    """The products of a pair of formats, such as "bfloat16@mxfp4"."""
    return read_dot_cases(open_document("dot", pair))


def list_blocks(case: QuantizeCase, fmt: BlockFormat, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A tensor in the case's axis order as blocks [n, k]."""
    moved = np.moveaxis(array, case.axis % array.ndim, -1)
    return np.ascontiguousarray(moved).reshape(-1, fmt.k)


def forget_cases() -> None:
    """Read the files again on next use: they have changed, or others have taken their place."""
    for loader in (
        _build_document,
        load_quantize_cases,
        load_scale_cases,
        load_scale_recipes,
        load_dequantize_tensors,
        load_encode_cases,
        load_stochastic_cases,
        load_decode_cases,
        load_layout_file,
        load_sparse_cases,
        load_dot_cases,
    ):
        loader.cache_clear()
