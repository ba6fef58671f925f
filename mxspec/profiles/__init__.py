"""Profiles: named functions from inputs to bits.

`get_profile` finds one by name, `list_profiles` lists them. A stack's profiles live in the module named after it.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules

from mxspec.formats import BlockFormat, get_block
from mxspec.profiles.schema import (
    Alternative,
    AmaxNan,
    ElementRule,
    ErrorNorm,
    ErrorOrder,
    Evidence,
    ExponentUnderflow,
    Kind,
    Profile,
    QuantizationSteps,
    ScaleRule,
    ScaleStep,
    TensorRule,
    TensorScaleKind,
    Transform,
    TransformKind,
)

__all__ = [
    "Alternative",
    "AmaxNan",
    "ElementRule",
    "ErrorNorm",
    "ErrorOrder",
    "Evidence",
    "ExponentUnderflow",
    "Kind",
    "Profile",
    "QuantizationSteps",
    "ScaleRule",
    "ScaleStep",
    "TensorRule",
    "TensorScaleKind",
    "Transform",
    "TransformKind",
    "default_profile",
    "find_variant",
    "get_profile",
    "list_profiles",
    "name_main_profile",
    "register_profile",
]

#: The modules of this package that hold no profiles, and the one whose profiles come first.
_SCHEMA, _NORMATIVE = "schema", "normative"

_profiles: dict[str, Profile] = {}


def register_profile(profile: Profile) -> None:
    """Add a profile.

    Raises ValueError when the id is taken by a different one.
    """
    _load_stacks()
    _add(profile)


def _add(profile: Profile) -> None:
    existing = _profiles.get(profile.id)
    if existing is not None and existing != profile:
        raise ValueError(f"the profile id {profile.id!r} is taken; choose a new one")
    for fmt in profile.formats:
        get_block(fmt)
    _profiles[profile.id] = profile


def _load(module: str) -> None:
    for profile in import_module(f"mxspec.profiles.{module}").PROFILES:
        _add(profile)


@lru_cache(maxsize=1)
def _load_stacks() -> None:
    """Register the descriptive profiles; done when one is first asked for, so that `import mxspec` stays quick.

    Every other module of this package holds an implementation's, as a tuple PROFILES; they are found, and listed by the
    modules' names.
    """
    for module in sorted({m.name for m in iter_modules(__path__)} - {_SCHEMA, _NORMATIVE}):
        _load(module)


_load(_NORMATIVE)


def list_profiles(fmt: str | BlockFormat | None = None, *, kind: Kind | None = None) -> tuple[Profile, ...]:
    """All profiles, or those of one format or kind: normative ones, then by library, then those that were registered."""
    _load_stacks()
    name = None if fmt is None else get_block(fmt).name
    return tuple(
        p for p in _profiles.values() if (name is None or name in p.formats) and (kind is None or p.kind is kind)
    )


def default_profile(fmt: str | BlockFormat) -> Profile:
    """`mx-floor` for the MX formats, `nvfp4-te` for NVFP4, else the first that covers the format.

    Raises ValueError for a format that no profile covers.
    """
    block = get_block(fmt)
    for name in ("mx-floor", "nvfp4-te"):
        if block.name in _profiles[name].formats:
            return _profiles[name]
    for profile in list_profiles(block):
        return profile
    raise ValueError(f"no profile covers {block.name}; register one for it (mxspec.register_profile)")


def get_profile(profile: str | Profile | None, fmt: str | BlockFormat) -> Profile:
    """The profile of this name, checked to cover the format; None gives the format's default.

    Raises ValueError, listing what is allowed, when there is none or it does not cover the format.
    """
    block = get_block(fmt)
    if profile is None:
        return default_profile(block)
    if not isinstance(profile, Profile):
        if profile not in _profiles:
            _load_stacks()
        if profile not in _profiles:
            allowed = ", ".join(p.id for p in list_profiles(block))
            raise ValueError(f"unknown profile {profile!r}; those of {block.name} are {allowed}")
        profile = _profiles[profile]
    if block.name not in profile.formats:
        raise ValueError(
            f"profile {profile.id} does not cover {block.name}, only {', '.join(profile.formats)}; "
            f"those of {block.name} are {', '.join(p.id for p in list_profiles(block))}"
        )
    return profile


def find_variant(profile: Profile, dtype: str) -> Profile | None:
    """The profile that speaks of an input dtype: itself, or that of its implementation's path for it; else None."""
    if dtype in profile.dtypes:
        return profile
    return next((p for p in list_profiles() if p.variant_of == profile.id and dtype in p.dtypes), None)


def name_main_profile(profile_id: str, dtype: str) -> str:
    """The id of the main profile of an implementation whose path for inputs of this dtype a profile is; else its own."""
    profile = _profiles.get(profile_id)
    if profile is None or profile.variant_of is None or dtype not in profile.dtypes:
        return profile_id
    return profile.variant_of
