"""Conventions as data: under which names, dtypes and shapes a library stores a block-quantized tensor.

One row, a `Form`, for each pair of convention and block format. A tensor is known by its base: `model.layers.0.mlp.up_proj`
of `model.layers.0.mlp.up_proj.weight_packed`. Evidence: `measured` where a file that the library itself wrote is read and
decoded equal in the tests, `read` where its source was read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.adjacent import ADJACENT, register_named
from mxspec.containers.dtypes import SAFETENSORS_BITS
from mxspec.containers.header import Tensor, count_items
from mxspec.containers.problems import ContainerError
from mxspec.containers.refused import explain_refusal
from mxspec.enums import StrEnum
from mxspec.formats import BlockFormat, get_block
from mxspec.layouts.schema import Evidence
from mxspec.profiles.schema import TensorScaleKind
from mxspec.suggestions import refuse_name

#: A tensor next to a layer's, U8 of JSON, that says in `format` how the layer is stored; and the metadata key that says so of all
#: layers in one text. Both are ComfyUI's.
MARK_SUFFIX, MARK_KEY = ".comfy_quant", "_quantization_metadata"

Shape = tuple[int, ...]
#: float32 scales of a tensor by suffix: shape and bits.
Scalars = Mapping[str, tuple[Shape, tuple[int, ...]]]


class CodeShape(StrEnum):
    """How the shape of the stored codes follows from the logical shape [..., K]."""

    #: [..., bytes of a row]
    PACKED = "packed"
    #: [..., bytes of a row / 4], of 32-bit words, the first byte lowest
    WORDS = "words"
    #: [..., K / k, bytes of a block]
    BLOCKS = "blocks"
    #: [..., K]
    LOGICAL = "logical"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a part of a tensor is: how its name ends."""

    suffix: str


@dataclass(frozen=True, slots=True)
class Codes(Place):
    """Where the element codes are."""

    #: dtypes that are read; the first is written.
    dtypes: tuple[str, ...]
    #: A layout of `mxspec.layouts`; one that holds scales too where `Form.scales` is None.
    layout: str
    shape: CodeShape = CodeShape.PACKED


@dataclass(frozen=True, slots=True)
class Scales(Place):
    """Where the block scales are."""

    dtypes: tuple[str, ...]
    #: [ceil(N, 128), ceil(K / k, 4)], in the 128x4 tile, which looks row-major and is not; else [..., K / k].
    tiled: bool = False
    #: Rows and columns of a matrix that one number scales, 0: all; the last of an axis may have fewer. None: a block of a row.
    grid: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Scalar(Place):
    """Where a float32 scale of a whole tensor is, and what it means."""

    kind: TensorScaleKind
    #: The shape that is written; one item of any shape is read.
    shape: Shape = ()
    #: Without it the values are those of scale 1.
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseForm:
    """How a convention stores a quantized tensor: what block formats and affine integers have in common."""

    convention: str
    container: str = "safetensors"
    codes: Place
    #: Axes that tensors may have.
    ranks: tuple[int, ...] = (2,)
    source: str
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Form(BaseForm):
    """How one convention stores one block format."""

    codes: Codes
    #: Of `mxspec.adjacent` too: these are registered when a tensor of them is met.
    format_name: str
    scales: Scales | None
    tensor_scale: Scalar | None = None
    #: The scale of the layer's inputs, which kernels need and weights do not; in one of these places.
    input_scales: tuple[Scalar, ...] = ()
    #: float32 of 1 / (input scale x tensor scale), both of kind encode; only with the second of `input_scales`.
    alpha: str | None = None
    #: Every row has a multiple of this many blocks.
    blocks: int = 1
    #: Matrices are written with a multiple of this many rows.
    rows_multiple: int = 1
    #: Whether loaders join layers (q, k and v; gate and up), which then need one tensor scale.
    fused: bool = True
    #: What a mark says of it. Marked tensors have no other form, and others not this one.
    mark: str | None = None
    #: The arithmetic with which the library decodes.
    profile: str
    #: The same for a tensor whose optional tensor scale is not there.
    profile_alone: str | None = None
    #: What configuration files call it: quant_method, and format or quant_algo.
    config: tuple[str, str] | None = None
    #: Other names of it in configuration files: what else stores the very same tensors.
    aliases: tuple[tuple[str, str], ...] = ()

    @property
    def format(self) -> BlockFormat:
        """The block format; of a form with a grid of scales the one in which its numbers are repeated for each block."""
        return ADJACENT[self.format_name].block if self.format_name in ADJACENT else get_block(self.format_name)

    @property
    def name(self) -> str:
        """Convention and format."""
        return f"{self.convention} {self.format_name if self.grid in (None, (128, 128)) else self.format.element.name}"

    @property
    def row_multiple(self) -> int:
        """Every row has a multiple of this many elements."""
        return self.format.k * self.blocks if self.grid is None else 1

    @property
    def grid(self) -> tuple[int, int] | None:
        """`Scales.grid`."""
        return None if self.scales is None else self.scales.grid

    def list_places(self, rows: int, blocks: int) -> list[npt.NDArray[np.intp]]:
        """The row and the column of the grid of scales for each of these rows, and for each block of a row."""
        assert self.grid is not None
        sizes = self.grid[0], self.grid[1] // self.format.k
        return [np.arange(n) // size if size else np.zeros(n, np.intp) for n, size in zip((rows, blocks), sizes, strict=True)]

    @property
    def by_rows(self) -> bool:
        """Whether runs of elements are whole rows, of 128."""
        return self.tiled or self.grid is not None

    def padded(self, shape: Shape) -> Shape:
        """The shape in whole blocks, in which runs are counted: where scales are a grid a row may end within a block."""
        return shape if self.grid is None else (*shape[:-1], -(-shape[-1] // self.format.k) * self.format.k)

    @property
    def tiled(self) -> bool:
        """Whether block scales lie in tiles of 128 rows."""
        return self.scales is not None and self.scales.tiled

    @property
    def mark_text(self) -> str | None:
        """The mark that is written."""
        return None if self.mark is None else json.dumps({"format": self.mark})

    def decoding_profile(self, *, scaled: bool) -> str:
        """The arithmetic with which the library decodes a tensor with or without a tensor scale."""
        return self.profile if scaled or self.profile_alone is None else self.profile_alone

    @property
    def ambiguous(self) -> bool:
        """Whether tensors of another format of the convention can have the same names, dtypes and shapes.

        Scales without padding tell how many bytes a block of codes takes.
        """

        def look(form: Form) -> tuple[object, ...]:
            size = 0 if form.tiled else form.format.k * form.format.element.bits
            return form.codes.suffix, form.codes.dtypes, form.scales, form.tensor_scale, size

        return any(look(f) == look(self) for f in list_forms(self.convention) if f.format_name != self.format_name)

    def code_shape(self, shape: Shape) -> Shape:
        """The stored shape of codes of a logical shape."""
        if self.codes.shape is CodeShape.LOGICAL:
            return shape
        if self.codes.shape is CodeShape.BLOCKS:
            return (*self.scale_shape(shape), self._block_bytes if shape[-1] else 0)
        return (*shape[:-1], shape[-1] * self.format.element.bits // self._unit)

    def scale_shape(self, shape: Shape) -> Shape:
        """The stored shape of block scales of a logical shape."""
        if self.grid is not None:
            return () if self.grid == (0, 0) else tuple(-(-n // size) if size else 1 for n, size in zip(shape, self.grid, strict=True))
        return self.tile_shape(shape) if self.tiled else (*shape[:-1], shape[-1] // self.format.k)

    def holds_scales(self, stored: Shape, shape: Shape) -> bool:
        """Whether block scales of this stored shape are those of a logical shape: axes of one may be left out where all of an axis is scaled."""
        due = self.scale_shape(shape)
        free = self.grid is not None and 0 in self.grid and len(stored) < 2
        return stored == due or (free and count_items(stored) == count_items(due))

    def tile_shape(self, shape: Shape) -> Shape:
        """The shape of block scales of a logical shape in whole 128x4 tiles."""
        return (*shape[:-2], -(-shape[-2] // 128) * 128, -(-(shape[-1] // self.format.k) // 4) * 4)

    def logical_shape(self, stored: Shape) -> Shape | None:
        """The logical shape of codes stored in this shape, or None where there is none."""
        if self.codes.shape is CodeShape.LOGICAL:
            return stored or None
        if self.codes.shape is CodeShape.BLOCKS:
            fits = len(stored) > 1 and stored[-1] == self._block_bytes
            return (*stored[:-2], stored[-2] * self.format.k) if fits else None
        row, rest = divmod(stored[-1] * self._unit if stored else 1, self.format.element.bits)
        return None if rest else (*stored[:-1], row)

    @property
    def _block_bytes(self) -> int:
        return self.format.k * self.format.element.bits // 8

    @property
    def _unit(self) -> int:
        """Bits of one item of packed codes."""
        return 32 if self.codes.shape is CodeShape.WORDS else 8

    def list_stored(self, base: str, shape: Shape, scalars: Scalars, mark: str | None, scale_dtype: str | None = None) -> Iterator[Tensor]:
        """The stored tensors of a tensor of this shape, with the mark of this text; they have no place in a file yet."""
        items, nowhere = count_items(shape) or 0, Path()
        # Blocks hold their scales where these have no tensor of their own.
        size = (items * self.format.element.bits + (0 if self.scales else items // self.format.k * 8)) // 8
        yield Tensor(base + self.codes.suffix, self.codes.dtypes[0], self.code_shape(shape), 0, size, nowhere)
        if self.scales is not None:
            due, dtype = self.scale_shape(shape), scale_dtype or self.scales.dtypes[0]
            yield Tensor(base + self.scales.suffix, dtype, due, 0, (count_items(due) or 0) * SAFETENSORS_BITS[dtype] // 8, nowhere)
        for suffix, (stored, bits) in scalars.items():
            yield Tensor(base + suffix, "F32", stored, 0, 4 * len(bits), nowhere)
        if mark is not None:
            yield Tensor(base + MARK_SUFFIX, "U8", (len(mark.encode()),), 0, len(mark.encode()), nowhere)

    def find_obstacle(self, shape: Shape) -> str | None:
        """Why tensors of this shape are not written, or None; the number of axes is that of a form."""
        if shape[-1] % self.row_multiple:
            return f"rows of {shape[-1]} elements; {self.name} needs a multiple of {self.row_multiple}"
        if len(shape) > 1 and shape[-2] % self.rows_multiple:
            return f"{shape[-2]} rows; {self.name} needs a multiple of {self.rows_multiple}"
        return None


_E8M0 = ("U8", "F8_E8M0")
_ENCODE, _DECODE, _AMAX = TensorScaleKind.ENCODE, TensorScaleKind.DECODE, TensorScaleKind.AMAX
_MEASURED, _READ, _LOGICAL = Evidence.MEASURED, Evidence.READ, CodeShape.LOGICAL


def _form(convention: str, fmt: str, codes: Codes, scales: Scales | None, *scalars: Scalar, **rest: Any) -> Form:
    """A form. scalars: the tensor scale and those of inputs, of formats that have one."""
    mine = scalars if fmt not in ADJACENT and get_block(fmt).has_tensor_scale else ()
    return Form(
        convention=convention, format_name=fmt, codes=codes, scales=scales, tensor_scale=mine[0] if mine else None,
        input_scales=mine[1:], **rest,
    )  # fmt: skip


def _compressed_tensors(fmt: str, name: str, codes: Codes) -> Form:
    # Codes of dtype F8_E4M3 with scales of F8_E8M0 are plain torch tensors, not what this library writes.
    dtypes = ("F8_E4M3",) if fmt == "nvfp4" else ("U8",) if codes.dtypes == ("F8_E4M3",) else _E8M0
    return _form(
        "compressed-tensors", fmt, codes, Scales(".weight_scale", dtypes), Scalar(".weight_global_scale", _ENCODE, (1,)),
        Scalar(".input_global_scale", _ENCODE, (1,), optional=True), profile=f"compressed-tensors-0.20/{fmt}/eager",
        config=("compressed-tensors", name), aliases=(("modelopt", "MXFP8"),) if fmt == "mxfp8_e4m3" else (),
        source=f"compressed-tensors 0.20, format {name}", evidence=_MEASURED,
    )  # fmt: skip


def _lightx2v(fmt: str, layout: str, scale: str) -> Form:
    return _form(
        "lightx2v", fmt, Codes(".weight", ("U8",), layout), Scales(".weight_scale", (scale,), tiled=True),
        Scalar(".weight_global_scale", _ENCODE), Scalar(".input_absmax", _AMAX, optional=True),
        Scalar(".input_global_scale", _ENCODE, optional=True), alpha=".alpha" if fmt == "nvfp4" else None,
        profile=f"lightx2v-0.0.1/{fmt}", evidence=_READ,
        source="LightX2V f8aee98b: common/ops/mm/mm_weight.py, tools/convert, lightx2v_kernel gemm.py",
    )  # fmt: skip


def _gpt_oss(convention: str, codes: str, scales: str) -> Form:
    return _form(
        convention, "mxfp4", Codes(codes, ("U8",), "nibble-low", CodeShape.BLOCKS), Scales(scales, _E8M0), ranks=(2, 3),
        profile="mx-floor", config=("mxfp4", ""), source="transformers integrations/mxfp4.py, gpt_oss/torch/weights.py", evidence=_READ,
    )  # fmt: skip


def _gguf(fmt: str, **rest: Any) -> Form:
    return _form(
        "gguf", fmt, Codes(".weight", (fmt.upper(),), f"ggml-{fmt}", _LOGICAL), None, Scalar(".scale", _DECODE, (1,), optional=True),
        Scalar(".input_scale", _DECODE, (1,), optional=True), container="gguf", ranks=(1, 2, 3, 4), evidence=_MEASURED,
        source="gguf 0.19; companions: llama.cpp conversion/base.py, ggml-org/llama.cpp#19769, #21095", **rest,
    )  # fmt: skip


def _quark(fmt: str, layout: str) -> Form:
    return _form(
        "quark", fmt, Codes(".weight", ("U8",), layout), Scales(".weight_scale", ("U8",)), profile="mx-floor", config=("quark", ""),
        aliases=(("modelopt", "MXFP4"), ("modelopt", "W4A8_MXFP4_FP8")) if fmt == "mxfp4" else (),
        source="vLLM quark/schemes/quark_ocp_mx.py 039541c7; nvidia-modelopt 0.47 torch/export (MXFP4)", evidence=_READ,
    )  # fmt: skip


def _mlx(fmt: str, mode: str, layout: str) -> Form:
    # Its NVFP4 has no tensor scale.
    return Form(
        convention="mlx", format_name=fmt, codes=Codes(".weight", ("U32",), layout, CodeShape.WORDS), scales=Scales(".scales", ("U8",)),
        ranks=(2, 3), profile=f"mlx-0.32/{fmt}/cpu", config=("mlx", mode), evidence=_MEASURED,
        source=f"mlx 0.32.4, mode {mode}; ml-explore/mlx-lm@d78bf58e:mlx_lm/utils.py (configuration)",
    )  # fmt: skip


def _comfy(fmt: str, mark: str, codes: Codes, scales: tuple[str, ...], rows: int) -> Form:
    return _form(
        "comfy-kitchen", fmt, codes, Scales(".weight_scale", scales, tiled=True), Scalar(".weight_scale_2", _DECODE),
        Scalar(".input_scale", _DECODE, optional=True), rows_multiple=rows, fused=False, mark=mark,
        profile=f"comfy-kitchen-0.2/{fmt}/eager", evidence=_MEASURED,
        source="comfy-kitchen 0.2.40, state_dict of its tensors; marks: Comfy-Org/ComfyUI@0271a469:comfy/ops.py, comfy/quant_ops.py",
    )  # fmt: skip


def _torch(fmt: str, dtype: str, layout: str) -> Form:
    nvfp4 = fmt == "nvfp4"
    return _form(
        "torch-dtypes", fmt, Codes(".weight", (dtype,), layout, _LOGICAL), Scales(".weight_scale", ("F8_E4M3" if nvfp4 else "F8_E8M0",)),
        Scalar(".weight_scale_2", _DECODE), Scalar(".input_scale", _DECODE, optional=True), ranks=(1, 2, 3, 4),
        profile="modelopt-0.47/nvfp4/dynamic" if nvfp4 else "mx-floor", evidence=_READ,
        source="safetensors 0.8: dtypes F4, F6_E2M3, F6_E3M2, F8_E8M0, whose shapes count codes",
    )  # fmt: skip


def _fp8(
    convention: str, suffix: str, grid: tuple[int, int], *config: tuple[str, str], source: str, power: bool = False, **rest: Any
) -> Form:
    # transformers casts both factors to float32, and the product to the output: `Fp8Dequantize`; so does `weight_dequant` of DeepSeek-V3.
    fmt, dtypes = ("fp8_e4m3-128", ("F8_E8M0", "U8")) if power else ("fp8_e4m3-128-f32", ("F32", "BF16"))
    inputs = tuple(Scalar(s, _DECODE, optional=True) for s in rest.pop("inputs", ()))
    return Form(
        convention=convention, format_name=fmt, codes=Codes(".weight", ("F8_E4M3",), "bytes", _LOGICAL),
        scales=Scales(suffix, dtypes, grid=grid), input_scales=inputs, profile=f"transformers-5.23/fp8-128/{'ue8m0' if power else 'float32'}",
        fused=False, config=config[0] if config else None, aliases=config[1:], source=source, **rest,
    )  # fmt: skip


_TILE, _ROW, _ALL = (128, 128), (1, 0), (0, 0)
_TRANSFORMERS = "transformers 5.23 integrations/finegrained_fp8.py (Fp8Quantize, Fp8Dequantize, FP8Linear)"
_FP8_CT = ("compressed-tensors", "float-quantized")

#: The first row that fits a tensor is taken: rows with more conditions come first.
FORMS: tuple[Form, ...] = (
    _compressed_tensors("nvfp4", "nvfp4-pack-quantized", Codes(".weight_packed", ("U8",), "nibble-low")),
    _compressed_tensors("mxfp4", "mxfp4-pack-quantized", Codes(".weight_packed", ("U8",), "nibble-low")),
    _compressed_tensors("mxfp6_e2m3", "mxfp6-pack-quantized", Codes(".weight_packed", ("U8",), "fp6-le")),
    _compressed_tensors("mxfp8_e4m3", "mxfp8-quantized", Codes(".weight", ("F8_E4M3",), "bytes")),
    _form(
        "modelopt", "nvfp4", Codes(".weight", ("U8",), "nibble-low"), Scales(".weight_scale", ("F8_E4M3",)),
        Scalar(".weight_scale_2", _DECODE), Scalar(".input_scale", _DECODE, optional=True),
        profile="modelopt-0.47/nvfp4/dynamic", config=("modelopt", "NVFP4"),
        aliases=tuple(("modelopt", n) for n in ("W4A16_NVFP4", "NVFP4_AWQ", "NVFP4_SVD", "W4A8_NVFP4_FP8")),
        source="nvidia-modelopt 0.47, export_hf_checkpoint", evidence=_MEASURED,
    ),
    _quark("mxfp4", "nibble-low"),
    _quark("mxfp6_e2m3", "fp6-le"),
    _quark("mxfp6_e3m2", "fp6-le"),
    _gpt_oss("gpt-oss", "_blocks", "_scales"),
    _gpt_oss("gpt-oss-openai", ".blocks", ".scales"),
    _lightx2v("nvfp4", "nibble-low", "F8_E4M3"),
    _lightx2v("mxfp4", "nibble-low", "F8_E8M0"),
    _lightx2v("mxfp6_e3m2", "fp6-le", "F8_E8M0"),
    _lightx2v("mxfp8_e4m3", "bytes", "F8_E8M0"),
    _gguf("mxfp4", profile="gguf-0.19/mxfp4"),
    _gguf("nvfp4", blocks=4, profile="modelopt-0.47/nvfp4/dynamic", profile_alone="ggml-0.21/nvfp4"),
    _comfy("nvfp4", "nvfp4", Codes(".weight", ("U8",), "nibble-high"), ("F8_E4M3",), 16),
    _comfy("mxfp8_e4m3", "mxfp8", Codes(".weight", ("F8_E4M3",), "bytes"), ("F8_E8M0", "U8"), 32),
    _fp8("comfy-kitchen", ".weight_scale", _ALL, inputs=(".input_scale",), mark="float8_e4m3fn", source="Comfy-Org/ComfyUI@7f75cc2b:QUANTIZATION.md", evidence=_READ),
    _mlx("mxfp4", "mxfp4", "nibble-low"),
    _mlx("mxfp8_e4m3", "mxfp8", "bytes"),
    _mlx("nvfp4", "nvfp4", "nibble-low"),
    _fp8("fp8", ".weight_scale_inv", _TILE, ("fp8", ""), inputs=(".activation_scale",), source=_TRANSFORMERS, evidence=_MEASURED),
    _fp8("fp8-ue8m0", ".weight_scale_inv", _TILE, ("fp8", ""), power=True, inputs=(".activation_scale",), source=_TRANSFORMERS, evidence=_MEASURED),
    _fp8("deepseek-v4", ".scale", _TILE, ("fp8", ""), power=True, source="DeepSeek-V4-Flash: JustVugg/colibri#779, wuwangzhang1216/abliterix#93", evidence=_READ),
    _fp8("fp8-inv-tensor", ".weight_scale_inv", _ALL, ("fp8", ""), inputs=(".activation_scale",), source=_TRANSFORMERS, evidence=_READ),
    _fp8("fp8-block", ".weight_scale", _TILE, _FP8_CT, source="compressed-tensors 0.20, float-quantized, strategy block", evidence=_MEASURED),
    _fp8(
        "fp8-channel", ".weight_scale", _ROW, _FP8_CT, ("fbgemm_fp8", ""), ("modelopt", "FP8_PER_CHANNEL_PER_TOKEN"),
        source="compressed-tensors 0.20, float-quantized, strategy channel", evidence=_MEASURED,
    ),
    _fp8(
        "fp8-tensor", ".weight_scale", _ALL, _FP8_CT, ("modelopt", "FP8"), ("fp8", ""), inputs=(".input_scale",),
        source="compressed-tensors 0.20, float-quantized, strategy tensor; nvidia-modelopt 0.47 (FP8); AutoFP8 README", evidence=_MEASURED,
    ),
    _torch("nvfp4", "F4", "nibble-low"),
    _torch("mxfp4", "F4", "nibble-low"),
    _torch("mxfp6_e2m3", "F6_E2M3", "fp6-le"),
    _torch("mxfp6_e3m2", "F6_E3M2", "fp6-le"),
    _torch("mxfp8_e4m3", "F8_E4M3", "bytes"),
    _torch("mxfp8_e5m2", "F8_E5M2", "bytes"),
    _torch("mxint8", "I8", "bytes"),
)  # fmt: skip

CONVENTIONS: tuple[str, ...] = tuple(dict.fromkeys(f.convention for f in FORMS))


def list_forms(convention: str | None = None) -> tuple[Form, ...]:
    """All forms, or those of one convention.

    Raises ValueError, listing the names, for an unknown convention.
    """
    if convention is None:
        return FORMS
    found = tuple(f for f in FORMS if f.convention == convention)
    if found:
        return found
    if (refusal := explain_refusal(convention)) is not None:
        raise ValueError(refusal)
    raise refuse_name(convention, f"unknown convention {convention!r}; known are {', '.join(CONVENTIONS)}", CONVENTIONS)


def find_form(convention: str, format_name: str) -> Form | None:
    """The form in which a convention stores a block format, if it does."""
    return next((f for f in list_forms(convention) if f.format_name == format_name), None)


def require_form(convention: str, format_name: str, base: str | None = None) -> Form:
    """The same, where there has to be one. Raises ContainerError for a tensor `base`, or any, that the convention does not store."""
    form = find_form(convention, format_name)
    if form is None:
        known = ", ".join(dict.fromkeys(f.format_name for f in list_forms(convention)))
        what = (
            f"{convention} does not store {format_name}" if base is None else f"{base} is {format_name}, which {convention} does not store"
        )
        raise ContainerError(f"{what}; it stores {known}")
    register_named([format_name])
    return form


def check_shape(form: Form, base: str, shape: Shape, advice: str = "") -> None:
    """Raise ContainerError for a tensor that a form does not hold."""
    if len(shape) not in form.ranks:
        ranks = " or ".join(map(str, form.ranks))
        raise ContainerError(f"{base} has shape {list(shape)}; {form.convention} stores tensors of {ranks} axes{advice}")
    obstacle = form.find_obstacle(shape)
    if obstacle is not None:
        raise ContainerError(f"{base} has {obstacle}")
