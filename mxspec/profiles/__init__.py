"""Profiles: named functions from inputs to bits.

`get_profile` finds one by name, `list_profiles` lists them. A stack's profiles live in the module named after it.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules
from threading import RLock
from typing import Literal

from mxspec.formats import BLOCKS, BlockFormat, get_block
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
from mxspec.suggestions import did_you_mean, matches_short, refuse_name

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
    "find_profile",
    "find_variant",
    "get_profile",
    "list_profiles",
    "list_waiting",
    "name_main_profile",
    "register_profile",
]

#: The modules of this package that hold no profiles, and the one whose profiles come first.
_SCHEMA, _NORMATIVE = "schema", "normative"

_profiles: dict[str, Profile] = {}
#: Profiles of libraries for formats that are not registered.
_waiting: list[Profile] = []
#: Held while profiles are added: two threads may request a library's profile first.
_lock = RLock()


def register_profile(profile: Profile) -> None:
    """Add a profile.

    Raises TypeError for something else than a `Profile`, and ValueError when the id is taken by a different one, or a
    format that it covers is not registered.
    """
    if not isinstance(profile, Profile):
        raise TypeError(f"profile is of type {type(profile).__name__}; pass a mxspec.Profile")
    _load_stacks()
    with _lock:
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
        if all(fmt in BLOCKS for fmt in profile.formats):
            _add(profile)
        elif profile not in _waiting:
            _waiting.append(profile)


def list_waiting(fmt: str) -> tuple[Profile, ...]:
    """What libraries compute for an adjacent format; `list_profiles` has it once the format is registered."""
    _load_stacks()
    return tuple(profile for profile in _waiting if fmt in profile.formats)


@lru_cache(maxsize=1)
def _load_stacks() -> None:
    """Register the descriptive profiles; done when one is first requested, so that `import mxspec` stays quick.

    Every other module of this package holds an implementation's, as a tuple PROFILES; they are found, and listed by the
    modules' names.
    """
    with _lock:  # a second thread that comes while the first loads waits, and adds the same again
        for module in sorted({m.name for m in iter_modules(__path__)} - {_SCHEMA, _NORMATIVE}):
            _load(module)


_load(_NORMATIVE)


def list_profiles(
    fmt: str | BlockFormat | None = None, *, kind: Kind | Literal["normative", "descriptive"] | None = None
) -> tuple[Profile, ...]:
    """All profiles, or those of one format or kind: normative ones, then by library, then those that were registered.

    Raises ValueError for an unknown format or kind.
    """
    _load_stacks()
    wanted = None if kind is None else Kind(kind)
    name = None if fmt is None else get_block(fmt).name
    return tuple(p for p in tuple(_profiles.values()) if (name is None or name in p.formats) and (wanted is None or p.kind is wanted))


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

    A name may be short: the library without its version and as many parts of the path as are needed, if one profile of the
    format alone is meant (`gfloat`, `torchao/rceil`). A short name that has become ambiguous is refused, never guessed.

    Raises ValueError, with the names that may be meant, when there is none, when a short name means several, or when the
    profile does not cover the format.
    """
    block = get_block(fmt)
    if profile is None:
        return default_profile(block)
    if not isinstance(profile, Profile):
        if not isinstance(profile, str):
            raise refuse_name(profile, f"unknown profile {profile!r}; {_list_some(block)}")
        if profile not in _profiles:
            _load_stacks()
        profile = _profiles[profile] if profile in _profiles else _find_short(profile, block)
    if block.name not in profile.formats:
        raise ValueError(f"profile {profile.id} does not cover {block.name}, only {', '.join(profile.formats)}; {_list_some(block)}")
    return profile


def find_profile(name: str, fmt: str | BlockFormat | None = None) -> Profile:
    """The profile of this name, short ones as for `get_profile`, of a format or, without one, of all.

    Raises ValueError, with the names that may be meant, when there is none, or several.
    """
    if fmt is not None:
        return get_profile(name, fmt)
    known = list_profiles()
    exact = [p for p in known if p.id == name]
    meant = exact or [p for p in known if matches_short(name, p.id) and p.variant_of is None]
    if len(meant) == 1:
        return meant[0]
    suggested = did_you_mean(name, (p.id for p in meant or known))
    raise ValueError(f"unknown profile {name!r}; {suggested or '`mxspec profiles` lists them'}")


def _find_short(name: str, block: BlockFormat) -> Profile:
    """The one profile of a format that a short name means."""
    known = list_profiles(block)
    meant = [p for p in known if matches_short(name, p.id)]
    # An implementation's path for 16-bit inputs is never meant by the name of its main one.
    main = [p for p in meant if p.variant_of is None] or meant
    if len(main) == 1:
        return main[0]
    text = f"unknown profile {name!r}; {_list_some(block)}"
    elsewhere = sorted({f for p in list_profiles() if matches_short(name, p.id) for f in p.formats})
    if not main and elsewhere:
        raise ValueError(f"{text}; {name} has profiles of {', '.join(elsewhere)}")
    raise refuse_name(name, text, (p.id for p in main or known))


def _list_some(block: BlockFormat) -> str:
    known = list_profiles(block)
    normative = [p.id for p in known if p.kind is Kind.NORMATIVE]
    others = len(known) - len(normative)
    more = f", and {others} of libraries (`mxspec profiles --format {block.name}`)" if others else ""
    return f"those of {block.name} are {', '.join(normative)}{more}"


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
