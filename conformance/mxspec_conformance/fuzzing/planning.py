"""What `fuzz` is asked for, and the jobs that follow: one for each format, dtype and tensor scale, one for each product and operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mxspec.formats import BLOCKS, BlockFormat, get_block
from mxspec.profiles import find_variant
from mxspec.profiles.schema import Profile
from mxspec_conformance.campaign.profile import find_profile, nearest_profile
from mxspec_conformance.fuzzing.job import Job
from mxspec_conformance.fuzzing.operations.job import OperationJob
from mxspec_conformance.fuzzing.operations.report import plan_operations
from mxspec_conformance.fuzzing.products.job import ProductJob
from mxspec_conformance.fuzzing.products.report import plan_products
from mxspec_conformance.judge.choosing import require_formats
from mxspec_conformance.results.report import FormatResult
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.entries import has_level
from mxspec_vectors.points import TENSOR_AMAXES

#: Tensor maxima under which nvfp4 is fuzzed.
TENSORS = ("unit", "odd", "thousandth", "large")

#: What a target has to offer.
_NEEDED = "it needs quantize, dequantize, matmul, or a function of affine integers or of sparse operands"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How long, from which seed, of what."""

    seed: int = 0
    minutes: float = 1.0
    #: Stop after so many batches of each job instead of after a time.
    batches: int | None = None
    formats: tuple[str, ...] = ()
    profile: str | None = None
    #: Only these products, by name; formats are then left out.
    products: tuple[str, ...] = ()
    #: Only these functions of affine integers and sparse operands, `function` or `function.format`; formats are then left out.
    operations: tuple[str, ...] = ()
    #: The class by which products are judged; None: the declared one, or float32.
    accumulator: str | None = None
    #: End with the first batch in which something is wrong.
    first: bool = False


def plan_named_products(
    session: TargetSession, spec: Any, settings: Settings, timeout: float, in_process: bool, progress: Progress
) -> list[ProductJob]:
    """The jobs of products; none where a profile is asked for, which says nothing of them, and no product is named.

    Raises ValueError for a product that the target does not offer.
    """
    if (settings.profile is not None or settings.operations) and not settings.products:
        return []
    return plan_products(
        session, spec, names=settings.products, formats=settings.formats, accumulator=settings.accumulator, seed=settings.seed,
        timeout=timeout, in_process=in_process, progress=progress,
    )  # fmt: skip


def plan_named_operations(
    session: TargetSession, spec: Any, settings: Settings, timeout: float, in_process: bool
) -> list[OperationJob]:
    """The jobs of functions of affine integers and sparse operands; none where a profile, a block format or a product is asked for.

    Raises ValueError for one that the target does not offer.
    """
    if (settings.profile is not None or settings.formats or settings.products) and not settings.operations:
        return []
    return plan_operations(session, spec, names=settings.operations, seed=settings.seed, timeout=timeout, in_process=in_process)


def plan_formats(
    session: TargetSession, spec: Any, settings: Settings, timeout: float, in_process: bool, progress: Progress, *, optional: bool
) -> tuple[list[FormatResult], list[Job]]:
    """The jobs of quantizers, and a result for each of their formats.

    optional: whether there are products or operations, so that there need be no quantizer.
    Raises ValueError for a format or a profile that does not fit, and where nothing can be fuzzed.
    """
    capabilities = session.capabilities
    if settings.products or settings.operations:
        return [], []
    require_formats(capabilities, settings.formats)
    wanted = settings.formats or tuple(f for f in BLOCKS if f in capabilities.formats)
    if optional:
        wanted = tuple(f for f in wanted if f in capabilities.formats)
    planned: list[Job] = []
    formats: list[FormatResult] = []
    lost: list[str] = []
    for name in wanted:
        progress(f"{name}: which profile is nearest")
        fmt = get_block(name)
        if settings.profile is not None:
            profile, distance, asked = find_profile(settings.profile, fmt), 0, 0
        else:
            try:
                profile, distance, asked = nearest_profile(session, fmt)
            except ValueError as error:
                lost.append(f"{name}: {error}")
                continue
        mine = _plan_format(session, spec, fmt, profile, settings, timeout, in_process)
        planned += mine
        operations = [
            o for o, c in (("quantize", False), ("dequantize", True)) if any((j.dtype == "codes") is c for j in mine)
        ]
        formats.append(
            FormatResult(
                format=name, judged_against=profile.id, chosen="asked" if settings.profile else "nearest",
                provisional=profile.provisional, distance=distance, cases=asked, operations=operations,
            )
        )  # fmt: skip
    if not planned and optional:
        return formats, planned
    if not planned and (capabilities.repeats or capabilities.has("dequantize")):
        found = ", ".join(lost + [f"{f.format}: {f.judged_against}" for f in formats])
        raise ValueError(
            f"{capabilities.name} has nothing that can be fuzzed: the profiles found ({found}) do not fit its dtypes or tensor "
            "scale; if it answers no call, `mxspec check` says why, else pass --profile"
        )
    if not planned:
        why = "its quantize rounds stochastically" if capabilities.has("quantize") else _NEEDED
        raise ValueError(f"{capabilities.name} has nothing that can be fuzzed: {why}")
    return formats, planned


def _plan_format(
    session: TargetSession,
    spec: Any,
    fmt: BlockFormat,
    profile: Profile,
    settings: Settings,
    timeout: float,
    in_process: bool,
) -> list[Job]:
    capabilities = session.capabilities
    planned: list[Job] = []
    tensors = [None, *(TENSOR_AMAXES[t] for t in TENSORS)] if fmt.has_tensor_scale else [None]

    def takes(function: str, tensor: int | None) -> bool:
        asked = capabilities.repeats if function == "quantize" else capabilities.has(function)
        if not asked or not has_level(profile, two_level=tensor is not None):
            return False
        return capabilities.one_level if tensor is None else capabilities.has(function, "tensor_scale")

    for tensor in tensors:
        if takes("quantize", tensor):
            for dtype in capabilities.dtypes:
                own = find_variant(profile, dtype)
                if own is not None and has_level(own, two_level=tensor is not None):
                    planned.append(Job(spec, fmt.name, own.id, tensor, dtype, settings.seed, timeout, in_process))
        if takes("dequantize", tensor):
            planned.append(Job(spec, fmt.name, profile.id, tensor, "codes", settings.seed, timeout, in_process))
    return planned
