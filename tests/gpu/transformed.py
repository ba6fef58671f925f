"""What the tests of the transform quantize: profiles with the transform, which is data, and the kernels that it takes."""

from __future__ import annotations

from dataclasses import replace

from mxspec.profiles import Profile, Transform, TransformKind, get_profile
from mxspec_gpu.build import KernelSource
from mxspec_gpu.kernels import list_transformed
from mxspec_gpu.rules import generate_rules
from mxspec_gpu.transform import find_signs

SIGNS = 0x5A3C
_TRANSFORM = Transform(kind=TransformKind.RANDOM_HADAMARD, size=16, columnwise=False)


def with_transform(profile: str, fmt: str) -> Profile:
    """A profile with the transform."""
    return replace(get_profile(profile, fmt), id=f"{profile}/transformed", transform=_TRANSFORM)


#: Name -> (profile, format, dtypes of x).
KINDS: dict[str, tuple[Profile, str, tuple[str, ...]]] = {
    "te": (get_profile("te-2.14/nvfp4/kernel-rht", "nvfp4"), "nvfp4", ("bfloat16", "float16")),
    "te-fastmath": (get_profile("te-2.14/nvfp4/kernel-rht-fastmath", "nvfp4"), "nvfp4", ("bfloat16",)),
    "nvfp4-te": (with_transform("nvfp4-te", "nvfp4"), "nvfp4", ("bfloat16",)),
    "mxfp4": (with_transform("mx-floor", "mxfp4"), "mxfp4", ("bfloat16", "float16")),
    "mxfp6": (with_transform("mx-floor", "mxfp6_e2m3"), "mxfp6_e2m3", ("bfloat16",)),
    "mxfp8": (with_transform("mx-rceil", "mxfp8_e4m3"), "mxfp8_e4m3", ("bfloat16",)),
}
CASES = tuple((kind, dtype) for kind, (_, _, dtypes) in KINDS.items() for dtype in dtypes)


def list_kernels() -> list[KernelSource]:
    """All kernels that the tests ask for with `SIGNS`."""
    found = []
    for kind, dtype in CASES:
        profile, fmt, _ = KINDS[kind]
        rules = generate_rules(profile, fmt, two_level=profile.tensor is not None)
        found += list_transformed(rules, dtype, find_signs(SIGNS, profile))
    return found
