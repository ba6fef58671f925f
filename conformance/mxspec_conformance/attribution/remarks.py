"""What contradicts what: the bytes, the metadata, the source."""

from __future__ import annotations

from collections.abc import Iterator

from mxspec_conformance.attribution.matching import Provenance, ScaleOrigin
from mxspec_conformance.attribution.results import Claim, Remark, Topic
from mxspec_conformance.attribution.standing import Candidate, Standing
from mxspec_conformance.lint.hypotheses import Departure


def list_remarks(
    candidates: tuple[Candidate, ...], claim: Claim | None, provenance: Provenance | None, *, missing: bool
) -> Iterator[Remark]:
    """The contradictions of one tensor; missing: there is a source, without this tensor."""
    open_ = [c for c in candidates if c.standing is not Standing.EXCLUDED]
    if not open_:
        yield Remark(Topic.NO_PROFILE, "no known profile is consistent with the bytes")
    if claim is not None:
        named = [c for c in candidates if claim.covers(c.profile)]
        if named and not any(claim.covers(c.profile) for c in open_):
            best = min(named, key=lambda c: len(c.reasons))
            topic = Topic.CONTRACT if claim.contract else Topic.CONFIGURATION
            who = f"the contract says {claim.name}" if claim.contract else f"the configuration names {claim.name}"
            yield Remark(topic, f"{who}; against {best.profile}: {best.reasons[0].text}")
        elif provenance is not None and claim.contract:
            said = [m for m in provenance.exact if m.profile == claim.name]
            if not said and provenance.same_values:
                yield Remark(Topic.CONTRACT, f"the contract says {claim.name}; every value is that of {provenance.same_values[0].profile}")
            elif not said:
                yield Remark(Topic.CONTRACT, f"the contract says {claim.name}, which does not give these bytes from the source")
    if missing:
        yield Remark(Topic.MISSING, "the source has no plain tensor of this name and shape")
    if provenance is None:
        return
    right = [m for m in provenance.same_values if m.scale is not ScaleOrigin.OTHER]
    if right:
        return
    explained = provenance.explanation
    departures = () if explained is None or not explained.agreement.majority else explained.hypothesis.departures
    if explained is not None and {Departure.TWICE, Departure.CAST} & set(departures):
        counts = f"{explained.agreement.agreeing} of {explained.agreement.elements} elements"
        first = "rounded" if Departure.CAST in departures else "quantized"
        yield Remark(
            Topic.TWICE,
            f"consistent with the source {first} to {explained.hypothesis.between} first, then {explained.hypothesis.profile}: {counts}",
        )
    elif provenance.same_values or {Departure.TENSOR_SCALE, Departure.INVERTED} & set(departures):
        yield Remark(
            Topic.TENSOR_SCALE,
            "the stored tensor scale is not one that a profile makes of the source's maximum, nor of the layers joined with it",
        )
    elif departures and explained is not None:
        names = ", ".join(d.value for d in departures)
        yield Remark(
            Topic.SOURCE,
            f"{names} ({explained.hypothesis.profile}): {explained.agreement.agreeing} of {explained.agreement.elements} elements; `mxspec lint --against` says more",
        )
    elif provenance.matches:
        near = provenance.matches[0]
        yield Remark(
            Topic.SOURCE, f"no profile gives every block from the source; nearest {near.profile}, {near.equal} of {near.blocks} blocks"
        )
