"""Known causes of many failures at once, found from what a target returned: what a headline names first.

A cause is named where it explains every block of those that were asked about it, the right ones too. A cause is a type: no
verdict depends on it. `questions.py` lists the causes in the order in which they are asked.
"""

from __future__ import annotations

from mxspec_conformance.judge.causes.calls import CALL_ALONE
from mxspec_conformance.judge.causes.known import OF_ELEMENTS, OF_SCALE, Found, KnownCause
from mxspec_conformance.judge.causes.no_answer import find_no_answer, find_no_numbers
from mxspec_conformance.judge.causes.questions import find_causes

__all__ = ["CALL_ALONE", "OF_ELEMENTS", "OF_SCALE", "Found", "KnownCause", "find_causes", "find_no_answer", "find_no_numbers"]
