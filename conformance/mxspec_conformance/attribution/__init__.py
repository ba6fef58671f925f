"""`mxspec attribute`: with which profiles the bytes of a checkpoint are consistent, and which one its weights confirm."""

from __future__ import annotations

from mxspec_conformance.attribution.matching import Match, Provenance, ScaleOrigin
from mxspec_conformance.attribution.maxima import Maximum
from mxspec_conformance.attribution.results import SCHEMA, Attribution, Claim, Observed, Remark, TensorAttribution, Topic
from mxspec_conformance.attribution.run import attribute
from mxspec_conformance.attribution.standing import Candidate, Reason, Sign, Standing

__all__ = [
    "SCHEMA", "Attribution", "Candidate", "Claim", "Match", "Maximum", "Observed", "Provenance", "Reason", "Remark", "ScaleOrigin",
    "Sign", "Standing", "TensorAttribution", "Topic", "attribute",
]  # fmt: skip
