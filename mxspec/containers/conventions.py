"""Conventions as data: under which names, dtypes and shapes a library stores a block-quantized tensor.

One row, a `Form`, for each pair of convention and block format. A tensor is known by its base: `model.layers.0.mlp.up_proj`
of `model.layers.0.mlp.up_proj.weight_packed`. Evidence: `measured` where a file that the library itself wrote is read and
decoded equal in the tests, `read` where its source was read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from mxspec.containers.header import Tensor, count_items
from mxspec.containers.problems import ContainerError
from mxspec.containers.refused import explain_refusal
from mxspec.formats import BlockFormat, get_block
from mxspec.layouts.schema import Evidence
from mxspec.profiles.schema import TensorScaleKind
from mxspec.suggestions import refuse_name

#: A tensor beside a layer's, U8 of JSON, that says in `format` how the layer is stored; and the metadata key that says so of all
#: layers in one text. Both are ComfyUI's.
MARK_SUFFIX, MARK_KEY = ".comfy_quant", "_quantization_metadata"

#: float32 scales of a tensor by suffix: shape and bits.
Scalars = Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]


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


class ScaleShape(StrEnum):
    """How the shape of the stored block scales follows from the logical shape."""

    #: [..., K / k], row-major.
    LINEAR = "linear"
    #: [ceil(N, 128), ceil(K / k, 4)], in the 128x4 tile: looks row-major and is not.
    TILED = "tiled"


@dataclass(frozen=True, slots=True)
class Codes:
    """Where the element codes are."""

    suffix: str
    #: dtypes that are read; the first is written.
    dtypes: tuple[str, ...]
    #: A layout of `mxspec.layouts`; one that holds scales too where `Form.scales` is None.
    layout: str
    shape: CodeShape = CodeShape.PACKED


@dataclass(frozen=True, slots=True)
class Scales:
    """Where the block scales are."""

    suffix: str
    dtypes: tuple[str, ...]
    shape: ScaleShape = ScaleShape.LINEAR


@dataclass(frozen=True, slots=True)
class Scalar:
    """Where a float32 scale of a whole tensor is, and what it means."""

    suffix: str
    kind: TensorScaleKind
    #: The shape that is written; one item of any shape is read.
    shape: tuple[int, ...] = ()
    #: Without it the values are those of scale 1.
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How one convention stores one block format."""

    convention: str
    container: str
    format_name: str
    codes: Codes
    scales: Scales | None
    tensor_scale: Scalar | None = None
    #: The scale of the layer's inputs, which kernels need and weights do not; in one of these places.
    input_scales: tuple[Scalar, ...] = ()
    #: float32 of 1 / (input scale x tensor scale), both of kind encode; only beside the second of `input_scales`.
    alpha: str | None = None
    #: Axes that tensors may have.
    ranks: tuple[int, ...] = (2,)
    #: Every row has a multiple of this many elements.
    row_multiple: int
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
    source: str
    evidence: Evidence

    @property
    def format(self) -> BlockFormat:
        """The block format."""
        return get_block(self.format_name)

    def code_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The stored shape of codes of a logical shape."""
        row = shape[-1]
        if self.codes.shape is CodeShape.LOGICAL:
            return shape
        width = row * self.format.element.bits // 8
        if self.codes.shape is not CodeShape.BLOCKS:
            return (*shape[:-1], width // self._unit)
        return (*shape[:-1], row // self.format.k, width // (row // self.format.k) if row else 0)

    def scale_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The stored shape of block scales of a logical shape."""
        assert self.scales is not None
        columns = shape[-1] // self.format.k
        if self.scales.shape is ScaleShape.LINEAR:
            return (*shape[:-1], columns)
        return (*shape[:-2], -(-shape[-2] // 128) * 128, -(-columns // 4) * 4)

    def logical_shape(self, stored: tuple[int, ...]) -> tuple[int, ...] | None:
        """The logical shape of codes stored in this shape, or None where there is none."""
        if self.codes.shape is CodeShape.LOGICAL:
            return stored or None
        bits = self.format.element.bits
        if self.codes.shape is not CodeShape.BLOCKS:
            held = stored[-1] * self._unit * 8 if stored else 1
            return (*stored[:-1], held // bits) if held % bits == 0 else None
        if len(stored) < 2 or stored[-1] * 8 != self.format.k * bits:
            return None
        return (*stored[:-2], stored[-2] * self.format.k)

    @property
    def mark_text(self) -> str | None:
        """The mark that is written."""
        return None if self.mark is None else json.dumps({"format": self.mark})

    def list_stored(
        self, base: str, shape: tuple[int, ...], scalars: Scalars, mark: str | None, scale_dtype: str | None = None
    ) -> Iterator[Tensor]:
        """The stored tensors of a tensor of this shape, with the mark of this text; they have no place in a file yet."""
        items, nowhere = count_items(shape) or 0, Path()
        # Blocks hold their scales where these have no tensor of their own.
        size = (items * self.format.element.bits + (0 if self.scales else items // self.format.k * 8)) // 8
        yield Tensor(base + self.codes.suffix, self.codes.dtypes[0], self.code_shape(shape), 0, size, nowhere)
        if self.scales is not None:
            due = self.scale_shape(shape)
            yield Tensor(base + self.scales.suffix, scale_dtype or self.scales.dtypes[0], due, 0, count_items(due) or 0, nowhere)
        for suffix, (stored, bits) in scalars.items():
            yield Tensor(base + suffix, "F32", stored, 0, 4 * len(bits), nowhere)
        if mark is not None:
            yield Tensor(base + MARK_SUFFIX, "U8", (len(mark.encode()),), 0, len(mark.encode()), nowhere)

    def find_obstacle(self, shape: tuple[int, ...]) -> str | None:
        """Why tensors of this shape are not written, or None; the number of axes is that of a form."""
        if shape[-1] % self.row_multiple:
            return f"rows of {shape[-1]} elements; {self.convention} {self.format_name} needs a multiple of {self.row_multiple}"
        if len(shape) > 1 and shape[-2] % self.rows_multiple:
            return f"{shape[-2]} rows; {self.convention} {self.format_name} needs a multiple of {self.rows_multiple}"
        return None

    @property
    def _unit(self) -> int:
        """Bytes of one item of packed codes."""
        return 4 if self.codes.shape is CodeShape.WORDS else 1

    def decoding_profile(self, *, scaled: bool) -> str:
        """The arithmetic with which the library decodes a tensor with or without a tensor scale."""
        return self.profile if scaled or self.profile_alone is None else self.profile_alone

    @property
    def ambiguous(self) -> bool:
        """Whether tensors of another format of the convention can have the same names, dtypes and shapes.

        Scales without padding tell how many bytes a block of codes takes.
        """
        same = (self.codes.suffix, self.codes.dtypes, self.scales, self.tensor_scale)
        return any(
            (f.codes.suffix, f.codes.dtypes, f.scales, f.tensor_scale) == same
            and (self.tiled or f.format.k * f.format.element.bits == self.format.k * self.format.element.bits)
            for f in FORMS
            if f.convention == self.convention and f.format_name != self.format_name
        )

    @property
    def tiled(self) -> bool:
        """Whether block scales lie in tiles of 128 rows."""
        return self.scales is not None and self.scales.shape is ScaleShape.TILED


_E8M0 = ("U8", "F8_E8M0")
_ENCODE, _DECODE, _AMAX = TensorScaleKind.ENCODE, TensorScaleKind.DECODE, TensorScaleKind.AMAX


def _compressed_tensors(fmt: str, name: str, codes: Codes) -> Form:
    nvfp4 = fmt == "nvfp4"
    # Codes of dtype F8_E4M3 beside scales of F8_E8M0 are plain torch tensors, not what this library writes.
    scale_dtypes = ("F8_E4M3",) if nvfp4 else ("U8",) if codes.dtypes == ("F8_E4M3",) else _E8M0
    return Form(
        convention="compressed-tensors", container="safetensors", format_name=fmt, codes=codes,
        scales=Scales(".weight_scale", scale_dtypes),
        tensor_scale=Scalar(".weight_global_scale", _ENCODE, (1,)) if nvfp4 else None,
        input_scales=(Scalar(".input_global_scale", _ENCODE, (1,), optional=True),) if nvfp4 else (),
        row_multiple=get_block(fmt).k, profile=f"compressed-tensors-0.20/{fmt}/eager",
        config=("compressed-tensors", name),
        aliases=(("modelopt", "MXFP8"),) if fmt == "mxfp8_e4m3" else (), source=f"compressed-tensors 0.20, format {name}",
        evidence=Evidence.MEASURED,
    )  # fmt: skip


def _lightx2v(fmt: str, layout: str, scale: str, evidence: Evidence) -> Form:
    nvfp4 = fmt == "nvfp4"
    return Form(
        convention="lightx2v", container="safetensors", format_name=fmt, codes=Codes(".weight", ("U8",), layout),
        scales=Scales(".weight_scale", (scale,), ScaleShape.TILED),
        tensor_scale=Scalar(".weight_global_scale", _ENCODE) if nvfp4 else None,
        input_scales=(Scalar(".input_absmax", _AMAX, optional=True), Scalar(".input_global_scale", _ENCODE, optional=True))
        if nvfp4 else (),
        alpha=".alpha" if nvfp4 else None, row_multiple=get_block(fmt).k, profile=f"lightx2v-0.0.1/{fmt}",
        source="LightX2V f8aee98b: common/ops/mm/mm_weight.py, tools/convert, lightx2v_kernel gemm.py",
        evidence=evidence,
    )  # fmt: skip


def _gpt_oss(convention: str, codes: str, scales: str) -> Form:
    return Form(
        convention=convention, container="safetensors", format_name="mxfp4",
        codes=Codes(codes, ("U8",), "nibble-low", CodeShape.BLOCKS), scales=Scales(scales, _E8M0),
        ranks=(2, 3), row_multiple=32, profile="mx-floor", config=("mxfp4", ""),
        source="transformers integrations/mxfp4.py, gpt_oss/torch/weights.py", evidence=Evidence.READ,
    )  # fmt: skip


def _gguf(fmt: str, number: str, multiple: int, profile: str, scalars: tuple[Scalar, ...]) -> Form:
    return Form(
        convention="gguf", container="gguf", format_name=fmt,
        codes=Codes(".weight", (number,), f"ggml-{fmt}", CodeShape.LOGICAL), scales=None,
        tensor_scale=scalars[0] if scalars else None, input_scales=scalars[1:], ranks=(1, 2, 3, 4),
        row_multiple=multiple, profile=profile, profile_alone="ggml-0.21/nvfp4" if scalars else None,
        source="gguf 0.19; companions: llama.cpp conversion/base.py, ggml-org/llama.cpp#19769, #21095",
        evidence=Evidence.MEASURED,
    )  # fmt: skip


def _quark(fmt: str, layout: str) -> Form:
    fp4 = fmt == "mxfp4"
    return Form(
        convention="quark", container="safetensors", format_name=fmt, codes=Codes(".weight", ("U8",), layout),
        scales=Scales(".weight_scale", ("U8",)), row_multiple=32, profile="mx-floor", config=("quark", ""),
        aliases=(("modelopt", "MXFP4"), ("modelopt", "W4A8_MXFP4_FP8")) if fp4 else (),
        source="vLLM quark/schemes/quark_ocp_mx.py 039541c7; nvidia-modelopt 0.47 torch/export (MXFP4)",
        evidence=Evidence.READ,
    )  # fmt: skip


def _mlx(fmt: str, mode: str, layout: str) -> Form:
    return Form(
        convention="mlx", container="safetensors", format_name=fmt, codes=Codes(".weight", ("U32",), layout, CodeShape.WORDS),
        scales=Scales(".scales", ("U8",)), ranks=(2, 3), row_multiple=get_block(fmt).k, profile=f"mlx-0.32/{fmt}/cpu",
        config=("mlx", mode), source=f"mlx 0.32.4, mode {mode}; ml-explore/mlx-lm@d78bf58e:mlx_lm/utils.py (configuration)",
        evidence=Evidence.MEASURED,
    )  # fmt: skip


def _comfy(fmt: str, mark: str, codes: Codes, scales: tuple[str, ...], rows: int) -> Form:
    nvfp4 = fmt == "nvfp4"
    return Form(
        convention="comfy-kitchen", container="safetensors", format_name=fmt, codes=codes,
        scales=Scales(".weight_scale", scales, ScaleShape.TILED), tensor_scale=Scalar(".weight_scale_2", _DECODE) if nvfp4 else None,
        input_scales=(Scalar(".input_scale", _DECODE, optional=True),) if nvfp4 else (), row_multiple=get_block(fmt).k,
        rows_multiple=rows, fused=False, mark=mark, profile=f"comfy-kitchen-0.2/{fmt}/eager",
        source="comfy-kitchen 0.2.40, state_dict of its tensors; marks: Comfy-Org/ComfyUI@0271a469:comfy/ops.py, comfy/quant_ops.py",
        evidence=Evidence.MEASURED,
    )  # fmt: skip


def _torch(fmt: str, dtype: str, layout: str) -> Form:
    nvfp4 = fmt == "nvfp4"
    return Form(
        convention="torch-dtypes", container="safetensors", format_name=fmt,
        codes=Codes(".weight", (dtype,), layout, CodeShape.LOGICAL),
        scales=Scales(".weight_scale", ("F8_E4M3",) if nvfp4 else ("F8_E8M0",)),
        tensor_scale=Scalar(".weight_scale_2", _DECODE) if nvfp4 else None,
        input_scales=(Scalar(".input_scale", _DECODE, optional=True),) if nvfp4 else (),
        ranks=(1, 2, 3, 4), row_multiple=get_block(fmt).k,
        profile="modelopt-0.47/nvfp4/dynamic" if nvfp4 else "mx-floor",
        source="safetensors 0.8: dtypes F4, F6_E2M3, F6_E3M2, F8_E8M0, whose shapes count codes", evidence=Evidence.READ,
    )  # fmt: skip


#: The first row that fits a tensor is taken: rows that ask for more come first.
FORMS: tuple[Form, ...] = (
    _compressed_tensors("nvfp4", "nvfp4-pack-quantized", Codes(".weight_packed", ("U8",), "nibble-low")),
    _compressed_tensors("mxfp4", "mxfp4-pack-quantized", Codes(".weight_packed", ("U8",), "nibble-low")),
    _compressed_tensors("mxfp6_e2m3", "mxfp6-pack-quantized", Codes(".weight_packed", ("U8",), "fp6-le")),
    _compressed_tensors("mxfp8_e4m3", "mxfp8-quantized", Codes(".weight", ("F8_E4M3",), "bytes")),
    Form(
        convention="modelopt", container="safetensors", format_name="nvfp4",
        codes=Codes(".weight", ("U8",), "nibble-low"), scales=Scales(".weight_scale", ("F8_E4M3",)),
        tensor_scale=Scalar(".weight_scale_2", _DECODE),
        input_scales=(Scalar(".input_scale", _DECODE, optional=True),), row_multiple=16,
        profile="modelopt-0.47/nvfp4/dynamic", config=("modelopt", "NVFP4"),
        aliases=tuple(("modelopt", n) for n in ("W4A16_NVFP4", "NVFP4_AWQ", "NVFP4_SVD", "W4A8_NVFP4_FP8")),
        source="nvidia-modelopt 0.47, export_hf_checkpoint", evidence=Evidence.MEASURED,
    ),
    _quark("mxfp4", "nibble-low"),
    _quark("mxfp6_e2m3", "fp6-le"),
    _quark("mxfp6_e3m2", "fp6-le"),
    _gpt_oss("gpt-oss", "_blocks", "_scales"),
    _gpt_oss("gpt-oss-openai", ".blocks", ".scales"),
    _lightx2v("nvfp4", "nibble-low", "F8_E4M3", Evidence.READ),
    _lightx2v("mxfp4", "nibble-low", "F8_E8M0", Evidence.READ),
    _lightx2v("mxfp6_e3m2", "fp6-le", "F8_E8M0", Evidence.READ),
    _lightx2v("mxfp8_e4m3", "bytes", "F8_E8M0", Evidence.READ),
    _gguf("mxfp4", "MXFP4", 32, "gguf-0.19/mxfp4", ()),
    _gguf("nvfp4", "NVFP4", 64, "modelopt-0.47/nvfp4/dynamic", (
        Scalar(".scale", _DECODE, (1,), optional=True), Scalar(".input_scale", _DECODE, (1,), optional=True),
    )),
    _comfy("nvfp4", "nvfp4", Codes(".weight", ("U8",), "nibble-high"), ("F8_E4M3",), 16),
    _comfy("mxfp8_e4m3", "mxfp8", Codes(".weight", ("F8_E4M3",), "bytes"), ("F8_E8M0", "U8"), 32),
    _mlx("mxfp4", "mxfp4", "nibble-low"),
    _mlx("mxfp8_e4m3", "mxfp8", "bytes"),
    _mlx("nvfp4", "nvfp4", "nibble-low"),
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
    if convention not in CONVENTIONS:
        refusal = explain_refusal(convention)
        if refusal is not None:
            raise ValueError(refusal)
        raise refuse_name(
            convention, f"unknown convention {convention!r}; known are {', '.join(CONVENTIONS)}", CONVENTIONS
        )
    return tuple(f for f in FORMS if f.convention == convention)


def find_form(convention: str, format_name: str) -> Form | None:
    """The form in which a convention stores a block format, if it does."""
    return next((f for f in list_forms(convention) if f.format_name == format_name), None)


def require_form(convention: str, format_name: str, base: str | None = None) -> Form:
    """The same, where there has to be one. Raises ContainerError for a tensor `base`, or any, that the convention does not store."""
    form = find_form(convention, format_name)
    if form is None:
        known = ", ".join(dict.fromkeys(f.format_name for f in list_forms(convention)))
        what = f"{convention} does not store {format_name}" if base is None else f"{base} is {format_name}, which {convention} does not store"
        raise ContainerError(f"{what}; it stores {known}")
    return form


def check_shape(form: Form, base: str, shape: tuple[int, ...], advice: str = "") -> None:
    """Raise ContainerError for a tensor that a form does not hold."""
    if len(shape) not in form.ranks:
        ranks = " or ".join(map(str, form.ranks))
        raise ContainerError(f"{base} has shape {list(shape)}; {form.convention} stores tensors of {ranks} axes{advice}")
    obstacle = form.find_obstacle(shape)
    if obstacle is not None:
        raise ContainerError(f"{base} has {obstacle}")
