"""Everything that is observed of a target in one block format, each part when it is first needed."""

from __future__ import annotations

from functools import cached_property

from mxspec.formats import BlockFormat, get_rows
from mxspec_conformance.observations.quantize import Observed, Unanswered, observe_quantize
from mxspec_conformance.observations.scale import ObservedScales, observe_scales
from mxspec_conformance.observations.tables import ObservedTable, observe_tables
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import QuantizeCase, load_quantize_cases, load_scale_cases


class Observations:
    """A target's answers to the vectors of a block format; what it does not offer is not asked."""

    def __init__(self, session: TargetSession, fmt: str | BlockFormat) -> None:
        self.session = session
        self.fmt = get_rows(fmt)
        #: Blocks that the judge made, of which the answers are not the profile's to the bit; set by the stage that asks them.
        self.made: list[Observed] = []

    @cached_property
    def _quantized(self) -> tuple[list[Observed], list[Unanswered]]:
        if not self.session.capabilities.repeats:
            return [], []
        return observe_quantize(self.session, self.fmt.name, load_quantize_cases(self.fmt.name))

    @property
    def answered(self) -> list[Observed]:
        """The quantize cases with an answer, one entry for each dtype; none of a target that rounds stochastically."""
        return self._quantized[0]

    @property
    def unanswered(self) -> list[Unanswered]:
        """The quantize cases without an answer, one entry for each dtype."""
        return self._quantized[1]

    @property
    def lost(self) -> list[QuantizeCase]:
        """Cases that should have had an answer."""
        return [item.case for item in self.unanswered if not item.reason.is_unsupported]

    @cached_property
    def scales(self) -> list[ObservedScales]:
        """The scale bytes of the scale cases."""
        if not self.session.capabilities.has("quantize"):
            return []
        return observe_scales(self.session, self.fmt.name, load_scale_cases(self.fmt.name))

    @cached_property
    def tables(self) -> list[ObservedTable]:
        """The values of every code under every scale byte."""
        if not self.session.capabilities.has("dequantize"):
            return []
        return observe_tables(self.session, self.fmt.name)
