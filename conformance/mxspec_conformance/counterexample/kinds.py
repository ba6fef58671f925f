"""Kinds of calls, and patterns of calling."""

from __future__ import annotations

from mxspec.enums import StrEnum


class CallKind(StrEnum):
    """What a call of a batch tests."""

    #: All blocks at once.
    WHOLE = "whole"
    #: Some of them, of every size.
    SIZE = "size"
    #: Several blocks to a row.
    WIDE = "wide"
    #: Along the first axis.
    AXIS = "axis"
    AGAIN = "again"
    NEGATED = "negated"
    #: Times a power of two.
    SCALED = "scaled"
    #: From an input that lies otherwise in memory.
    ARRANGED = "arranged"
    #: From memory in which another input lay at the call before.
    REUSED = "reused"
    #: Blocks with NaN, infinities and zeros.
    SPECIAL = "special"


class PatternKind(StrEnum):
    """How a block is called when a failure is made smaller."""

    #: Alone.
    BLOCK = "block"
    #: Among blocks of zeros.
    CALL = "call"
    #: With the blocks that were adjacent to it.
    AMONG = "among"
    ARRANGED = "arranged"
    REUSED = "reused"
    #: In a row of several, or in a column.
    WIDE = "wide"
    #: As the n-th call after the target was loaded.
    HISTORY = "history"


#: Patterns whose failures depend on earlier calls or adjacent blocks: lanes and scales cannot be varied alone.
TIED = (PatternKind.HISTORY, PatternKind.AMONG)
#: Patterns in which the target sees other numbers than it was given: what is wrong then, scale or code, says nothing.
GARBLED = (PatternKind.ARRANGED, PatternKind.REUSED)
