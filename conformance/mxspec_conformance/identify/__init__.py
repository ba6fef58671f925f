"""Which profile is it: tables of what each profile does, inputs that tell them apart, and the leaves of a target."""

from __future__ import annotations
