"""Conventions of affine integers as data: under which names, dtypes and shapes a library stores codes, scales and offsets.

A tensor [N, K] has groups along K. What is stored is a matrix of numbers [N, ...] or, transposed, [..., N]; numbers of few bits
are packed into 32-bit words, along K or along N. Evidence: `measured` where a file that the library itself wrote is read and
decoded equal in the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mxspec.affine.formats import AffineFormat, Offset
from mxspec.containers.conventions import BaseForm, Place
from mxspec.containers.header import Tensor, count_items
from mxspec.containers.refused import explain_refusal
from mxspec.enums import StrEnum
from mxspec.formats import FLOATS
from mxspec.layouts.schema import Evidence
from mxspec.suggestions import did_you_mean

#: safetensors' names of the dtypes of scales and biases.
FLOAT_DTYPES = {"float16": "F16", "bfloat16": "BF16", "float32": "F32"}
#: Metadata in which a file says which convention it follows, where tensors do not.
CONVENTION_KEY = "mxspec.convention"


class Axis(StrEnum):
    """An axis of the tensor [N, K] along which words hold numbers."""

    N = "n"
    K = "k"


class Extra(StrEnum):
    """What a convention stores besides codes, scales and offsets."""

    #: I32 [K]: the group of each column.
    INDEX = "index"
    #: I64 [2]: N and K.
    SHAPE = "shape"


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed(Place):
    """Codes or zero points in 32-bit words, the first in the lowest bits; numbers cross the edges of words."""

    dtype: str
    axis: Axis
    #: Stored [.., N] and not [N, ..].
    transposed: bool = False
    #: Which of 8 numbers each slot of a word holds.
    order: tuple[int, ...] | None = None
    #: One less than the number is stored.
    minus_one: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Floats(Place):
    """Scales or biases, one for each group, in the format's dtype."""

    transposed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AffineForm(BaseForm):
    """How one convention stores affine integers."""

    codes: Packed
    scales: Floats
    #: Zero points are packed, biases are floats.
    offsets: Packed | Floats
    #: Whether tensors whose zero points are all 2^(bits - 1) are stored without any.
    symmetric: bool = False
    #: Suffixes of what is stored besides.
    extras: tuple[tuple[Extra, str], ...] = ()
    #: What codes can be.
    bits: tuple[int, ...]
    #: Dtypes of scales.
    dtypes: tuple[str, ...] = tuple(FLOATS)
    #: `quant_method` of configuration files, and what they say besides.
    method: str
    config: tuple[tuple[str, object], ...] = ()

    @property
    def offset(self) -> Offset:
        """What groups share in addition to the scale."""
        return Offset.ZERO if isinstance(self.offsets, Packed) else Offset.BIAS

    def extra(self, which: Extra) -> str | None:
        """The suffix of what is stored besides, if it is."""
        return dict(self.extras).get(which)

    def refuse(self, fmt: AffineFormat) -> str | None:
        """Why a format is not stored, or None."""
        if fmt.offset is not self.offset:
            return f"{self.convention} stores a {self.offset.value} with each group, and {fmt.name} has a {fmt.offset.value}"
        if fmt.bits not in self.bits:
            return f"{self.convention} stores codes of {', '.join(map(str, self.bits))} bits, and {fmt.name} has {fmt.bits}"
        if fmt.dtype not in self.dtypes:
            return f"{self.convention} stores scales in {', '.join(self.dtypes)}, and {fmt.name} has {fmt.dtype}"
        return None

    def list_stored(self, base: str, fmt: AffineFormat, shape: tuple[int, int], *, symmetric: bool) -> Iterator[Tensor]:
        """The stored tensors of a tensor [N, K]; they have no place in a file yet."""
        n, k = shape
        groups, parts = k // fmt.group, list[tuple[str, str, tuple[int, ...], int]]()
        for part, across in ((self.codes, k), (self.scales, groups), (self.offsets, groups)):
            if part is self.offsets and symmetric and self.symmetric:
                continue
            if isinstance(part, Packed):
                inner = (n, across * fmt.bits // 32) if part.axis is Axis.K else (n * fmt.bits // 32, across)
                parts.append((part.suffix, part.dtype, inner[::-1] if part.transposed else inner, 4))
            else:
                parts.append((part.suffix, FLOAT_DTYPES[fmt.dtype], (groups, n) if part.transposed else (n, groups), fmt.scalar.bits // 8))
        for extra, suffix in self.extras:
            parts.append((suffix, "I32", (k,), 4) if extra is Extra.INDEX else (suffix, "I64", (2,), 8))
        for suffix, dtype, stored, width in parts:
            yield Tensor(base + suffix, dtype, stored, 0, width * (count_items(stored) or 0), Path())

    def find_obstacle(self, shape: tuple[int, ...], fmt: AffineFormat, *, symmetric: bool = False) -> str | None:
        """Why a tensor [N, K] is not written, or None."""
        n, k = shape
        if k % fmt.group:
            return f"rows of {k} numbers; {fmt.name} needs a multiple of {fmt.group}"
        for part in (self.codes, *(() if symmetric and self.symmetric else (self.offsets,))):
            if not isinstance(part, Packed):
                continue
            count, what = (k, "rows of") if part.axis is Axis.K else (n, "columns of")
            if count * fmt.bits % 32 or (part.order is not None and count % len(part.order)):
                return f"{what} {count} numbers; {self.convention} packs {fmt.bits} bits of each into whole 32-bit words along them"
        return None


_GPTQ_SOURCE = "auto-round 0.16.1, export_to_autogptq; ModelCloud/GPTQModel@f4c327a1:gptqmodel/nn_modules/qlinear/__init__.py"


def _gptq(convention: str, checkpoint_format: str, *, minus_one: bool, evidence: Evidence) -> AffineForm:
    return AffineForm(
        convention=convention,
        codes=Packed(suffix=".qweight", dtype="I32", axis=Axis.K, transposed=True),
        scales=Floats(suffix=".scales", transposed=True),
        offsets=Packed(suffix=".qzeros", dtype="I32", axis=Axis.N, transposed=True, minus_one=minus_one),
        extras=((Extra.INDEX, ".g_idx"),), bits=(2, 3, 4, 8), dtypes=("float16", "bfloat16"), method="gptq",
        config=(("checkpoint_format", checkpoint_format), ("desc_act", False)), source=_GPTQ_SOURCE, evidence=evidence,
    )  # fmt: skip


#: The first that fits a tensor is taken.
FORMS: tuple[AffineForm, ...] = (
    _gptq("gptq", "gptq", minus_one=True, evidence=Evidence.MEASURED),
    _gptq("gptq-v2", "gptq_v2", minus_one=False, evidence=Evidence.MEASURED),
    AffineForm(
        convention="awq",
        codes=Packed(suffix=".qweight", dtype="I32", axis=Axis.N, transposed=True, order=(0, 2, 4, 6, 1, 3, 5, 7)),
        scales=Floats(suffix=".scales", transposed=True),
        offsets=Packed(suffix=".qzeros", dtype="I32", axis=Axis.N, transposed=True, order=(0, 2, 4, 6, 1, 3, 5, 7)),
        bits=(4,), dtypes=("float16", "bfloat16"), method="awq", config=(("version", "gemm"), ("zero_point", True)),
        source="AutoAWQ 0.2.9, awq/modules/linear/gemm.py: WQLinear_GEMM.from_linear", evidence=Evidence.MEASURED,
    ),
    AffineForm(
        convention="pack-quantized",
        codes=Packed(suffix=".weight_packed", dtype="I32", axis=Axis.K), scales=Floats(suffix=".weight_scale"),
        offsets=Packed(suffix=".weight_zero_point", dtype="I32", axis=Axis.N), symmetric=True,
        extras=((Extra.SHAPE, ".weight_shape"),), bits=tuple(range(1, 9)), method="compressed-tensors",
        source="compressed-tensors 0.20, format pack-quantized", evidence=Evidence.MEASURED,
    ),
    AffineForm(
        convention="mlx-affine",
        codes=Packed(suffix=".weight", dtype="U32", axis=Axis.K), scales=Floats(suffix=".scales"),
        offsets=Floats(suffix=".biases"), bits=(2, 3, 4, 5, 6, 8), method="mlx",
        source="mlx 0.32.4, mode affine", evidence=Evidence.MEASURED,
    ),
)  # fmt: skip

CONVENTIONS: tuple[str, ...] = tuple(f.convention for f in FORMS)


def find_form(convention: str) -> AffineForm:
    """The form of a convention.

    Raises ValueError, listing the names, for an unknown one.
    """
    found = next((f for f in FORMS if f.convention == convention), None)
    if found is None:
        refusal = explain_refusal(convention)
        if refusal is not None:
            raise ValueError(refusal)
        known = f"unknown convention {convention!r} of affine integers; known are {', '.join(CONVENTIONS)}"
        raise ValueError(f"{known}. {did_you_mean(convention, CONVENTIONS)}".rstrip())
    return found
