"""The error that formats and profiles leave on given numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mxspec.blocks import quantize
from mxspec.blocktensor import BlockTensor
from mxspec.formats import BLOCKS, BlockFormat, get_block
from mxspec.measures import ErrorMeasures, join_measures, measure_error
from mxspec.profiles import get_profile, list_profiles
from mxspec.profiles.schema import Kind, Profile


@dataclass(frozen=True, slots=True)
class Outcome:
    """A format and a profile on given numbers."""

    format: BlockFormat
    profile: Profile
    #: Other profiles that gave every bit alike.
    same: tuple[str, ...]
    #: Stored bits per element, the tensor's scale left out.
    bits: float
    error: ErrorMeasures
    #: How often each element code occurs, padding included.
    codes: tuple[int, ...]
    #: How often each scale code occurs, padding included.
    scales: tuple[int, ...]


def quantize_ordinarily(x: npt.NDArray[np.float32], fmt: BlockFormat, profile: Profile) -> BlockTensor:
    """A matrix as a profile quantizes it: with its own tensor scale where it has one, the tail padded with zeros."""
    return quantize(x, fmt, profile=profile, tensor_scale="auto" if profile.two_level is not None else None, pad=True)


def compare(tensors: Sequence[npt.NDArray[np.float32]], formats: Iterable[str] = (), profiles: Iterable[str] | None = ()) -> list[Outcome]:
    """The error that formats and profiles leave on matrices, each quantized by itself.

    Args:
        tensors: float32 matrices [rows, columns]; blocks lie along the columns.
        formats: Names of block formats; default: all.
        profiles: Names of profiles, each for the formats that it covers; default: the normative ones; None: every profile.

    Returns:
        For each format its profiles by falling SQNR; profiles that give the same bits are one outcome.

    Raises:
        ValueError: An unknown format or profile, or a profile that covers none of the formats.
    """
    chosen = [get_block(name) for name in formats] or list(BLOCKS.values())
    found: list[Outcome] = []
    covered: set[str] = set()
    for fmt in chosen:
        # Paths for 16-bit inputs are left out: these are float32.
        known = tuple(p for p in list_profiles(fmt) if p.variant_of is None and (profiles is None or p.kind is Kind.NORMATIVE))
        if profiles:
            named = [name for name in profiles if _covers(name, fmt)]
            covered.update(named)
            known = tuple(get_profile(name, fmt) for name in named)
        outcomes: list[tuple[list[BlockTensor], Profile, list[str]]] = []
        for profile in known:
            made = [quantize_ordinarily(x, fmt, profile) for x in tensors]
            alike = next((names for other, _, names in outcomes if all(map(_same_values, made, other))), None)
            if alike is None:
                outcomes.append((made, profile, []))
            else:
                alike.append(profile.id)
        rows = [_measure(tensors, made, fmt, profile, names) for made, profile, names in outcomes]
        found += sorted(rows, key=lambda o: -o.error.sqnr if o.error.sqnr == o.error.sqnr else np.inf)
    for name in profiles or ():
        if name not in covered:
            get_profile(name, chosen[0])  # which says what is wrong with the name
    return found


def _covers(name: str, fmt: BlockFormat) -> bool:
    try:
        get_profile(name, fmt)
    except ValueError:
        return False
    return True


def _same_values(a: BlockTensor, b: BlockTensor) -> bool:
    """Whether codes and scales are equal, and what they mean is the same."""
    return (
        np.array_equal(a.codes, b.codes)
        and np.array_equal(a.scales, b.scales)
        and (a.tensor_scale is None) == (b.tensor_scale is None)
        and np.array_equal(a.dequantize(), b.dequantize(), equal_nan=True)
    )


def _measure(
    tensors: Sequence[npt.NDArray[np.float32]], made: Sequence[BlockTensor], fmt: BlockFormat, profile: Profile, same: Sequence[str]
) -> Outcome:
    error = join_measures([measure_error(x, t.dequantize()) for x, t in zip(tensors, made, strict=True)])
    codes = sum(np.bincount(t.codes.reshape(-1), minlength=fmt.element.code_count) for t in made)
    scales = sum(np.bincount(t.scales.reshape(-1), minlength=256) for t in made)
    return Outcome(
        fmt, profile, tuple(same), float(fmt.bits_per_element), error,
        tuple(int(n) for n in np.atleast_1d(codes)), tuple(int(n) for n in np.atleast_1d(scales)),
    )  # fmt: skip
