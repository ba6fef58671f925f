"""Known bugs that are mutants of `mxspec_lab`: here judged by `check`, as a user's target is.

An entry shows the judge only the mutant's own operation, with the fewest keywords in which the bug shows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

from mxspec_conformance.mutants import list_mutants
from mxspec_conformance.mutants.instance import Instance
from mxspec_conformance.mutants.schema import Mutant
from mxspec_conformance.results.report import Verdict

from tests.bugs.entry import Entry

MX = ("mxfp4", "mxfp8_e4m3")


@cache
def _mutants() -> dict[str, Mutant]:
    return {mutant.id: mutant for mutant in list_mutants()}


def _functions(operation: str, target: Any, *, two_level: bool, pad: bool) -> dict[str, Callable[..., Any]]:
    """The operation alone, with no more keywords than are needed."""
    function = getattr(target, operation)
    if operation == "quantize" and pad:
        return {"quantize": lambda x, fmt, pad=False: function(x, fmt, pad=pad)}
    if operation == "quantize" and two_level:
        return {"quantize": lambda x, fmt, tensor_scale=None: function(x, fmt, tensor_scale)}
    if operation == "quantize":
        return {"quantize": lambda x, fmt: function(x, fmt)}
    if operation == "dequantize" and not two_level:
        return {"dequantize": lambda codes, scales, fmt: function(codes, scales, fmt)}
    return {operation: function}


def _restate(
    id_: str, mutant: str, formats: tuple[str, ...], must_fail: tuple[str, ...], may_fail: tuple[str, ...] = (), *,
    verdict: Verdict = Verdict.FAIL, pad: bool = False, also: tuple[Verdict, ...] = (),
) -> Entry:  # fmt: skip
    found = _mutants()[mutant]
    (operation,) = found.operations

    def target() -> SimpleNamespace:
        changed = next(Instance(found, operation, formats[0]).build())
        functions = _functions(operation, changed, two_level="nvfp4" in formats, pad=pad)
        declared = {"ELEMENTS": list(formats)} if operation == "encode_stochastic" else {"FORMATS": list(formats)}
        return SimpleNamespace(NAME=found.id, VERSION="1", SR_BITS=32, TENSOR_SCALE=changed.TENSOR_SCALE, **declared, **functions)

    return Entry(
        id=id_, what=found.what, target=target, formats=formats, must_fail=must_fail, may_fail=may_fail,
        verdicts=(verdict, *also), mutant=mutant,
    )  # fmt: skip


#: What a wrong scale makes fail.
SCALE = ("quantize/scale-boundary,scale-clamp", "scale/scale-boundary")

ENTRIES: tuple[Entry, ...] = (
    # Elements.
    _restate("P01 ties away", "ties-away", MX, ("quantize/tie-even",)),
    _restate("P02 truncate", "truncate", MX, ("quantize/above-tie,inf,mixture,subnormal,tie-even",)),
    _restate("P03 element subnormals flushed", "element-subnormal-flush", ("mxfp8_e4m3",), ("quantize/above-tie,below-tie,subnormal,tie-even",), ("quantize/exact",)),
    _restate("P04 one threshold inclusive", "one-tie-above-one", ("mxfp4",), ("quantize/tie-even",)),
    _restate("P06 rounded to float16 first", "double-round-fp16", MX, ("quantize/above-tie,below-tie,mixture,subnormal",), also=(Verdict.DEVIATION,)),
    _restate("P64 int8 truncates", "int8-truncate", ("mxint8",), ("quantize/above-tie,mixture,subnormal,tie-even",), ("quantize/inf",)),
    _restate("e5m2 overflows to infinity", "e5m2-overflow-inf", ("mxfp8_e5m2",), ("quantize/overflow",)),
    # Scales.
    _restate("P20 emax not subtracted", "emax-not-subtracted", ("mxfp4",), SCALE),
    _restate("P22 float log2", "float-log2", MX, SCALE, verdict=Verdict.DEVIATION),
    _restate("P24 amax without abs", "amax-signed", ("mxfp4",), (*SCALE, "quantize/inf,position"), ("quantize/nan",)),
    _restate("P25 scale byte wraps", "byte-wraps", ("mxfp4",), SCALE, ("quantize/mixture",)),
    _restate("P26 amax in float16", "amax-fp16", ("mxfp4",), SCALE, ("quantize/mixture",)),
    _restate("P37 amax at least 1e-5", "eps-1e-5", ("mxfp4",), SCALE, ("quantize/mixture",)),
    _restate("EVEN leaves its own threshold out", "even-exclusive", ("mxfp4",), SCALE),
    # Zeros, NaN, subnormal inputs.
    _restate("P34 zero block gives the largest code", "zero-block-nan", ("mxfp4",), ("quantize/zero-block",), ("quantize/zero-sign",)),
    _restate("the block of zeros is NaN", "zero-block-scale-ff", ("mxfp4",), ("quantize/zero-block",)),
    _restate("P35 NaN ignored", "nan-ignored", MX, ("quantize/nan",), ("quantize/position",)),
    _restate("P36 inputs flushed", "input-ftz", ("mxfp8_e4m3",), ("quantize/above-tie,exact,mixture,subnormal,tie-even",), ("quantize/below-tie,scale-clamp",)),
    # Two levels.
    _restate(
        "P40 tensor scale ignored", "nv-global-ignored", ("nvfp4",),
        ("quantize/above-tie,below-tie,exact,inf,mixture,overflow,scale-clamp,scale-tie,subnormal,tensor-scale,tie-even", "scale/scale-tie"),
    ),
    _restate("P46 tensor scale twice", "nv-global-twice", ("nvfp4",), ("dequantize/tensor-scale",), ("dequantize/zero-sign",)),
    _restate("P66 tensor amax in bfloat16", "tensor-amax-bf16", ("nvfp4",), ("tensor_scale/tensor-scale",)),
    _restate("the tensor scale is rounded to bfloat16", "nv-partial-bf16", ("nvfp4",), ("dequantize/tensor-scale",)),
    # Values.
    _restate("P10 exponent field 0 decoded as a normal", "exponent-0-as-normal", ("mxfp4",), ("dequantize/code,scale-code",)),
    _restate("P11 e4m3 7F decoded as 480", "e4m3-7f-is-480", ("mxfp8_e4m3",), ("dequantize/code,scale-code",)),
    _restate("P13 negative zero lost", "negative-zero-lost", ("mxfp4",), ("dequantize/zero-sign",), verdict=Verdict.DEVIATION),
    _restate("P31 bias 128", "bias-128", MX, ("dequantize/scale-code",)),
    _restate("P63 int8 without its 2**-6", "int8-no-implicit-scale", ("mxint8",), ("dequantize/scale-code",)),
    # Calls.
    _restate(
        "P67 only the first 128 blocks", "first-128-blocks", ("mxfp4",),
        ("quantize/above-tie,below-tie,call-size,exact,mixture,overflow,position,subnormal,tie-even,zero-sign", *SCALE),
    ),
    _restate("one scale for a row of blocks", "scales-of-row-shared", ("mxfp4",), ("quantize/axis,call-size,overflow,subnormal,tie-even",)),
    _restate("P59 tail dropped", "tail-dropped", ("mxfp4",), ("quantize/tail",), verdict=Verdict.ERROR, pad=True),
    _restate("P60 tail repeats the edge", "tail-edge-repeated", ("mxfp4",), ("quantize/tail",), pad=True),
    # Stochastic rounding.
    _restate("P61 stochastic never up", "sr-never-up", ("e2m1",), ("stochastic/random-bits",), ("stochastic/refusal",)),
    _restate("P62 stochastic inverted", "sr-inverted", ("e2m1",), ("stochastic/random-bits",)),
)  # fmt: skip
