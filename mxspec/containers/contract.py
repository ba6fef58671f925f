"""The numeric contract of a file that mxspec quantized: by which profile, of which version, with which arithmetic.

It is one JSON text under the key `mxspec.contract`: safetensors' metadata, or a GGUF key of type string.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from mxspec._version import __version__
from mxspec.blocks import quantize
from mxspec.containers.problems import Collector, ContainerError
from mxspec.containers.text import parse_object
from mxspec.formats import get_block
from mxspec.profiles import get_profile
from mxspec.rounding import NanPolicy
from mxspec.tensorscale import derive_tensor_scale

KEY = "mxspec.contract"
_SCHEMA = "mxspec-contract/1"
_BLOCKS = 4096
#: float32 bits of 1000, the largest magnitude for which the tensor scale of the recipe is made.
_AMAX = 0x447A0000


@dataclass(frozen=True, slots=True)
class Contract:
    """What one file says of how its tensors were quantized."""

    format_name: str
    profile: str
    #: `digest_arithmetic` of the profile when the file was made.
    digest: str
    #: Version of mxspec.
    version: str = __version__
    #: Base name -> the original's name, where that is not the base with `.weight`.
    names: Mapping[str, str] = field(default_factory=dict)
    #: False where the format has a tensor scale, and tensors were quantized without one.
    scaled: bool = True

    def as_text(self) -> str:
        """The JSON text."""
        found = {
            "schema": _SCHEMA, "mxspec": self.version, "format": self.format_name, "profile": self.profile,
            "digest": self.digest, **({"names": dict(self.names)} if self.names else {}),
            **({} if self.scaled else {"tensor_scale": False}),
        }  # fmt: skip
        return json.dumps(found, separators=(",", ":"), ensure_ascii=True)


def parse_contract(text: str | None, path: Path) -> Contract | None:
    """What a file says of its contract; None where it says nothing.

    Raises ContainerError for a text that mxspec did not write.
    """
    if text is None:
        return None
    found = parse_object(text.encode("utf-8", "surrogatepass"), Collector(path), what=KEY)
    names = found.get("names", {})
    texts = [found.get(k) for k in ("schema", "mxspec", "format", "profile", "digest")]
    scaled = found.get("tensor_scale", True)
    ok = isinstance(names, dict) and all(isinstance(v, str) for v in (*texts, *names.values())) and isinstance(scaled, bool)
    if not ok or found["schema"] != _SCHEMA:
        raise ContainerError(f"{path}: {KEY} is not of the schema {_SCHEMA}; remove the entry, or quantize again")
    return Contract(found["format"], found["profile"], found["digest"], found["mxspec"], names, scaled)


def make_rows(k: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """The recipe of the digest: float32 [4096, k], from integers alone.

    Bits 0 to 31 of splitmix64 of 0, 1, 2, ... are sign and significand; the exponents of a block lie within 16 of one that
    runs through all of them. Every 64th block has a NaN, an infinity, a zero and a subnormal number in its first lanes.
    """
    with np.errstate(over="ignore"):
        z = np.arange(1, _BLOCKS * k + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    words = (z & np.uint64(0x807FFFFF)).astype(np.uint32).reshape(_BLOCKS, k)
    own = (z >> np.uint64(32) & np.uint64(15)).astype(np.int64).reshape(_BLOCKS, k)
    # Half of the blocks about 1, where weights are; the others anywhere.
    number = np.arange(_BLOCKS)[:, None]
    top = np.where(number % 2, 120 + number // 2 % 16, number // 2 % 254 + 1)
    exponents = np.clip(top - own, 0, 254).astype(np.uint32)
    bits = words | exponents << np.uint32(23)
    bits[::64, :4] = (0x7FC00000, 0xFF800000, 0x80000000, 0x00000123)
    bits[32::64, 0] = 0x7F800000
    return bits.view(np.float32)


@lru_cache(maxsize=256)
def digest_arithmetic(format_name: str, profile: str, *, scaled: bool = True) -> str:
    """SHA-256, in hex, of the scales and codes that a profile gives for the recipe: the same as long as its arithmetic is.

    Profiles that refuse NaN get zeros for NaN and infinity. scaled: whether with the tensor scale, where the format has one.

    Raises ValueError for an unknown format or profile, or one that does not cover the format or has no such form.
    """
    fmt = get_block(format_name)
    chosen = get_profile(profile, fmt)
    scale = None if chosen.tensor is None or not scaled else derive_tensor_scale(_AMAX, chosen)
    rule = chosen.steps(with_tensor_scale=scale is not None).element
    x = make_rows(fmt.k)
    if NanPolicy.RAISE in (rule.nan, rule.nan_own):
        x = np.where(np.isfinite(x), x, np.float32(0))
    found = quantize(x, fmt, profile=chosen, tensor_scale=scale)
    digest = hashlib.sha256(f"{format_name}\n{chosen.id}\n".encode())
    digest.update(found.scales.tobytes())
    digest.update(found.codes.tobytes())
    return digest.hexdigest()
