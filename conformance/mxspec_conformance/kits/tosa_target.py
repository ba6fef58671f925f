"""A `--sut-module` of Arm TOSA's test runner as an mxspec target.

MX_TOSA_SUT=my_sut_module mxspec check tosa_target.py

MX_TOSA_ARGS holds what follows `--sut-module-args my_sut_module:`, one argument to a word; MX_TOSA_FORMATS the formats that it has, if not all.
"""

from __future__ import annotations

import os

from mxspec_conformance.adapters.tosa import SystemUnderTest

_TARGET = SystemUnderTest(os.environ.get("MX_TOSA_SUT", ""), os.environ.get("MX_TOSA_ARGS", "").split())
FORMATS = tuple(filter(None, os.environ.get("MX_TOSA_FORMATS", "").split(","))) or _TARGET.FORMATS
DTYPES = _TARGET.DTYPES
quantize, dequantize = _TARGET.quantize, _TARGET.dequantize
