"""Results that their schema allows and of which nothing can be drawn."""

from __future__ import annotations

#: What drawing raises where a value is missing, or of another kind than every result's that mxspec writes.
FAULTS = (ValueError, KeyError, TypeError, AttributeError, IndexError)


def describe_fault(error: Exception) -> str:
    """The message for a file that holds such a result."""
    if type(error) is ValueError:
        return str(error)
    return f"this is no result that mxspec wrote: {type(error).__name__}: {error}"
