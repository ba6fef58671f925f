"""Formats in addition to those that come registered: forms that libraries store and OCP MX v1.0 does not define.

An entry is all that a form needs: what is registered is quantized, exported as vectors and judged (by contracts, since no
requirement of OCP binds it). They are not registered at first, so that lists of formats hold what a standard or NVFP4 defines;
`register_adjacent` adds one by name, with its scale format and profiles, and so does whatever names one: a target's FORMATS, or `--format` on the command line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import MappingProxyType

from mxspec.expressions import ONE, Expr, S, substitute
from mxspec.formats import (
    BLOCKS,
    E2M1,
    E4M3,
    E4M3FNUZ,
    E5M2,
    E5M2FNUZ,
    E8M0,
    ELEMENTS,
    F32,
    UE4M3,
    UE5M3,
    BlockFormat,
    ElementFormat,
    Extent,
    register_block,
    register_scalar,
)
from mxspec.profiles import Profile, QuantizationSteps, find_profile, get_profile, list_waiting, register_profile
from mxspec.suggestions import matches_short, refuse_name


@dataclass(frozen=True, slots=True)
class Adjacent:
    """One form."""

    block: BlockFormat
    #: Who stores it, and where that was read.
    source: str
    #: Profiles of NVFP4 whose form without a tensor scale is this form's, too; MX forms have the normative ones without.
    like: tuple[str, ...] = ()

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """Its own profiles: those that `like` names, on its scale format, and those of libraries that store this form."""
        moved = (_move(get_profile(name, "nvfp4"), self.block) for name in self.like)
        return (*moved, *list_waiting(self.block.name))


def _move(profile: Profile, block: BlockFormat) -> Profile:
    """A profile's form without a tensor scale, on another block format; of one that always has a scale, its form under scale 1."""
    steps = profile.one_level or _without_scale(profile)
    top = steps.scale.byte_range and (steps.scale.byte_range[0], block.scale.max_code)
    return replace(
        profile, id=f"{block.name}/{profile.id}", formats=(block.name,), two_level=None, tensor=None, variant_of=None,
        one_level=replace(steps, scale=replace(steps.scale, byte_range=top)),
    )  # fmt: skip


def _without_scale(profile: Profile) -> QuantizationSteps:
    steps = profile.two_level
    assert steps is not None

    def one(expr: Expr) -> Expr:
        return substitute(expr, {S: ONE})

    scale = replace(steps.scale, value=one(steps.scale.value))
    return replace(steps, scale=scale, scaled=one(steps.scaled), dequantize=one(steps.dequantize))


def _fp8(element: ElementFormat, extent: Extent, source: str) -> Adjacent:
    """FP8 with one float32 scale for each group of 128, or whole row, or tensor; vectors have rows of 128."""
    grouped = extent is Extent.BLOCK
    shapes = ((1, 128), (128, 128)) if grouped else ((1, 128),)
    name = f"fp8_{element.name}-{128 if grouped else extent}-f32"
    return Adjacent(BlockFormat(name=name, element=element, scale=F32, k=128, shapes=shapes, extent=extent), source)


_ENTRIES = (
    Adjacent(
        BlockFormat(name="mxfp4-16", element=E2M1, scale=E8M0, k=16, shapes=((1, 16),)),
        "PTX 9.1 mma kind::mxf4nvf4.block_scale.scale_vec::4X with .ue8m0; LightX2V; not OCP's MXFP4, whose blocks have 32",
    ),
    Adjacent(
        BlockFormat(name="fp8_e4m3-128", element=E4M3, scale=E8M0, k=128, shapes=((1, 128), (128, 128))),
        "DeepSeek's blockwise FP8 with UE8M0 scales: 1 x 128 for activations, 128 x 128 for weights (DeepGEMM)",
    ),
    Adjacent(BlockFormat(name="fp8_e5m2-128", element=E5M2, scale=E8M0, k=128, shapes=((1, 128), (128, 128))), "the same with E5M2"),
    _fp8(
        E4M3,
        Extent.BLOCK,
        "DeepSeek's blockwise FP8 with float32 scales, 1 x 128 and 128 x 128: vLLM, SGLang, DeepGEMM, Transformer Engine",
    ),
    _fp8(E5M2, Extent.BLOCK, "the same with E5M2"),
    _fp8(E4M3, Extent.ROW, "a scale for each row, or token: torchao Float8 row-wise, torch._scaled_mm, vLLM, FBGEMM quantize_fp8_row"),
    _fp8(E5M2, Extent.ROW, "the same with E5M2"),
    _fp8(E4M3, Extent.TENSOR, "one scale: torchao Float8 tensor-wise, vLLM scaled_fp8_quant, Transformer Engine's current scaling"),
    _fp8(E5M2, Extent.TENSOR, "the same with E5M2"),
    *(
        _fp8(element, extent, "the same with the fnuz elements of AMD's MI300: vLLM, SGLang, FBGEMM and torchao on ROCm")
        for element in (E4M3FNUZ, E5M2FNUZ)
        for extent in Extent
    ),
    Adjacent(
        BlockFormat(name="mxfp4-32x32", element=E2M1, scale=E8M0, k=32, shapes=((1, 32), (32, 32))),
        "AMD Quark per_block; Huawei CANN DynamicMxQuant; rows of 32 are OCP's MXFP4, tiles are not",
    ),
    Adjacent(
        BlockFormat(name="mxfp8_e4m3-32x32", element=E4M3, scale=E8M0, k=32, shapes=((1, 32), (32, 32))),
        "Transformer Engine 2.20, MXFP8 scaled in two dimensions; rows of 32 are OCP's MXFP8, tiles are not",
    ),
    Adjacent(BlockFormat(name="mxfp8_e5m2-32x32", element=E5M2, scale=E8M0, k=32, shapes=((1, 32), (32, 32))), "the same with E5M2"),
    Adjacent(
        BlockFormat(name="fp4-16-ue5m3", element=E2M1, scale=UE5M3, k=16, shapes=((1, 16),)),
        "scales of PTX 9.4 cvt.rn.satfinite.ue5m3x2.f32, LLVM Float8E5M3FNU; blocks as NVFP4's, without a scale of the tensor",
        ("nvfp4-exact", "nvfp4-paper"),
    ),
    Adjacent(
        BlockFormat(name="fp4-16-ue4m3", element=E2M1, scale=UE4M3, k=16, shapes=((1, 16),)),
        "NVFP4 of one level, without a scale of the tensor: LightX2V's kernel without SFScale, triton_kernels, MLX",
        ("nvfp4-exact", "nvfp4-paper", "lightx2v-0.0.1/nvfp4"),
    ),
    Adjacent(
        BlockFormat(name="fp4-32-ue4m3", element=E2M1, scale=UE4M3, k=32, shapes=((1, 32),)),
        "SCALE selectors of gfx1250's WMMA with blocks of 32; hipBLASLt lists the form and does not support it yet",
        ("nvfp4-exact", "nvfp4-paper"),
    ),
    Adjacent(
        BlockFormat(name="fp4-32-ue5m3", element=E2M1, scale=UE5M3, k=32, shapes=((1, 32),)),
        "the same with UE5M3, which hipBLASLt lists as well",
        ("nvfp4-exact", "nvfp4-paper"),
    ),
)

#: The forms by name, and their elements.
ADJACENT: MappingProxyType[str, Adjacent] = MappingProxyType({entry.block.name: entry for entry in _ENTRIES})
_ELEMENTS = {entry.block.element.name: entry.block.element for entry in _ENTRIES}


def register_adjacent(name: str) -> BlockFormat:
    """Register one of `ADJACENT`; a second time changes nothing.

    Returns:
        The format, which every function now takes by its name.

    Raises:
        TypeError: the name is no text.
        ValueError: no form has this name, or another format was registered under it.
    """
    entry = ADJACENT.get(name) if isinstance(name, str) else None
    if entry is None:
        raise refuse_name(name, f"unknown adjacent format {name!r}; known are {', '.join(ADJACENT)}", ADJACENT)
    profiles = entry.profiles  # while it is not registered
    for part in (entry.block.scale, entry.block.element):
        register_scalar(part)
    register_block(entry.block)
    for profile in profiles:
        register_profile(profile)
    return entry.block


def find_any_profile(name: str, fmt: str | None = None) -> Profile:
    """`find_profile` that knows the profiles of adjacent forms as well: `FORM/PROFILE`, and those of libraries. Their forms are registered.

    Raises ValueError, with the names that may be meant, when there is none, or several.
    """
    stored = (form for form in ADJACENT for p in list_waiting(form) if name == p.id or matches_short(name, p.id))
    register_named([name.partition("/")[0], *stored])
    return find_profile(name, fmt)


def register_named(names: Iterable[object]) -> None:
    """Register those of the names that are adjacent forms, or their elements, and are not taken; others are left to the caller."""
    for name in names:
        if isinstance(name, str) and name in ADJACENT and name not in BLOCKS:
            register_adjacent(name)
        elif isinstance(name, str) and name in _ELEMENTS and name not in ELEMENTS:
            register_scalar(_ELEMENTS[name])
