"""Which kernel does what: sources with their compile-time choices.

The choices that only speed depends on (elements of a thread, threads of a block, cache hints) stand in one table, as
measured on an H200 (reports/gpu).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mxspec.formats import BLOCKS, ELEMENTS
from mxspec_gpu.build import KernelSource
from mxspec_gpu.rules import KernelRules, generate_rules

INPUTS = {"float32": 0, "float16": 1, "bfloat16": 2}
#: The scalar formats of kernels/element.cuh; others may be registered with the model, which the kernels do not have.
SCALARS = ("e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "int8", "e8m0", "ue4m3")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsTuning:
    """Speed choices of `quantize_rows`."""

    values: int = 32
    threads: int = 128
    turns: int = 1
    load: str = "__ldg(p)"
    store: str = "__stcs(p, v)"


@dataclass(frozen=True, slots=True, kw_only=True)
class DequantizeTuning:
    """Speed choices of `dequantize`."""

    unroll: int = 2
    threads: int = 128
    #: Groups of eight between a thread's own; 0: the number of threads.
    step: int = 0
    store: str = "__stcs(p, v)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsTuning:
    """Speed choices of `quantize_columns`."""

    warps: int = 8
    #: Threads of a multiprocessor that registers are shared out for.
    threads_of_sm: int = 1024


_PLAIN_STORE = "(*(p) = (v))"


def tune_columns(fmt: str, *, both: bool) -> ColumnsTuning:
    """The choices for a format."""
    if both:
        return ColumnsTuning(threads_of_sm=512)
    return ColumnsTuning(warps=4 if fmt == "nvfp4" or fmt.startswith("mxfp6") else 8)


def tune_rows(fmt: str, dtype: str, *, stochastic: bool = False) -> RowsTuning:
    """The choices for a format and input."""
    bits = BLOCKS[fmt].element.bits
    if stochastic:
        return RowsTuning(threads=64, turns=4)
    if bits == 8:
        return RowsTuning(values=16, threads=256, turns=2)
    if bits == 6:
        return RowsTuning()
    if dtype != "bfloat16":
        return RowsTuning(values=16)
    return RowsTuning(turns=2) if fmt == "nvfp4" else RowsTuning()


def tune_dequantize(fmt: str, dtype: str) -> DequantizeTuning:
    """The choices for a format and output."""
    bits = BLOCKS[fmt].element.bits
    if fmt == "mxfp4":
        return DequantizeTuning(threads=512)
    if bits == 8:
        return DequantizeTuning(store=_PLAIN_STORE)
    if fmt == "nvfp4":
        return DequantizeTuning(threads=512)
    return DequantizeTuning(threads=64, step=32, store=_PLAIN_STORE)


def _source(file: str, function: str, rules: KernelRules | None, defines: dict[str, object]) -> KernelSource:
    return KernelSource(
        file=file,
        function=function,
        defines=tuple((name, str(int(v)) if isinstance(v, bool) else str(v)) for name, v in defines.items()),
        generated=() if rules is None else (("rules.generated.cuh", rules.text),),
    )


def rows_kernel(rules: KernelRules, dtype: str, *, tiled: int, stochastic: bool, tuning: RowsTuning) -> KernelSource:
    """`quantize_rows`; tiled: 0 row-major scales, 1 tiles, 2 tiles where a row has a multiple of four blocks, 3 tiles where
    rows come in 128s and a row is a multiple of what a warp takes."""
    if tiled == 3:
        tuning = replace(tuning, threads=128)
    return _source(
        "quantize_rows.cu",
        "quantize_rows",
        rules,
        {
            "MX_INPUT": INPUTS[dtype],
            "MX_VALUES": tuning.values,
            "MX_TILED": tiled,
            "MX_STOCHASTIC": stochastic,
            "MX_THREADS": tuning.threads,
            "MX_TURNS": tuning.turns,
            "MX_LOAD(p)": tuning.load,
            "MX_STORE(p,v)": tuning.store,
        },
    )


def any_kernel(rules: KernelRules, dtype: str, *, tiled: bool, random: int) -> KernelSource:
    """`quantize_any`; random: 0 none, 1 words of 32 bits, 2 words of 8, 3 bytes from a counter."""
    defines: dict[str, object] = {"MX_INPUT": INPUTS[dtype], "MX_RANDOM": random, "MX_TILED": tiled}
    return _source("quantize_any.cu", "quantize_any", rules, defines)


def columns_kernel(
    rules: KernelRules, dtype: str, *, tiled: bool, both: bool, tuning: ColumnsTuning | None = None
) -> KernelSource:
    """`quantize_columns`."""
    tune = tuning or tune_columns(rules.fmt.name, both=both)
    defines: dict[str, object] = {
        "MX_INPUT": INPUTS[dtype], "MX_TILED": tiled, "MX_WARPS": tune.warps, "MX_BOTH": both,
        "MX_THREADS_OF_SM": tune.threads_of_sm,
    }  # fmt: skip
    return _source("quantize_columns.cu", "quantize_columns", rules, defines)


def dequantize_kernel(rules: KernelRules, dtype: str, *, tiled: bool, tuning: DequantizeTuning) -> KernelSource:
    """`dequantize`."""
    defines: dict[str, object] = {
        "MX_OUTPUT": INPUTS[dtype],
        "MX_TILED": tiled,
        "MX_UNROLL": tuning.unroll,
        "MX_THREADS": tuning.threads,
        "MX_STEP": tuning.step or tuning.threads,
        "MX_STORE(p,v)": tuning.store,
    }
    return _source("dequantize.cu", "dequantize", rules, defines)


def amax_kernel(rules: KernelRules, dtype: str, function: str) -> KernelSource:
    """`tensor_amax` or `derive_native`."""
    return _source("amax.cu", function, rules, {"MX_INPUT": INPUTS[dtype], "MX_THREADS": 512})


def scalar_kernel(function: str, fmt: str, dtype: str = "float32") -> KernelSource:
    """`encode_scalars`, `encode_scalars_stochastic` (of a dtype), `decode_scalars`, `unpack_codes` or `pack_codes`."""
    if function in ("unpack_codes", "pack_codes"):
        return _source("unpack.cu", function, None, {"MX_SCALAR": fmt.upper()})
    return _source("scalars.cu", function, None, {"MX_SCALAR": fmt.upper(), "MX_INPUT": INPUTS[dtype]})


def sweep_kernel(kind: int, defines: dict[str, object], rules: KernelRules | None, *, write: bool) -> KernelSource:
    """`sweep`; kind 0 the plain encoder, 1 the fast one, 2 the scale of a largest magnitude."""
    return _source("sweep.cu", "sweep", rules, {"MX_SWEEP": kind, **defines, "MX_WRITE": write})


def list_templates() -> dict[str, KernelSource]:
    """One instantiation of every kernel template, by a short name: what the test command compiles."""
    floor, te = (
        generate_rules("mx-floor", "mxfp4", two_level=False),
        generate_rules("nvfp4-te", "nvfp4", two_level=True),
    )
    fp6, fp8 = (generate_rules("mx-floor", f, two_level=False) for f in ("mxfp6_e2m3", "mxfp8_e4m3"))
    return {
        "quantize_rows": rows_kernel(floor, "bfloat16", tiled=0, stochastic=False, tuning=RowsTuning()),
        "quantize_rows-nvfp4": rows_kernel(te, "bfloat16", tiled=2, stochastic=False, tuning=RowsTuning()),
        "quantize_rows-fp6": rows_kernel(fp6, "float32", tiled=0, stochastic=False, tuning=RowsTuning()),
        "quantize_rows-fp8": rows_kernel(fp8, "float16", tiled=0, stochastic=False, tuning=RowsTuning(values=16)),
        "quantize_rows-stochastic": rows_kernel(floor, "bfloat16", tiled=0, stochastic=True, tuning=RowsTuning()),
        "quantize_any": any_kernel(te, "float32", tiled=True, random=1),
        "quantize_columns": columns_kernel(fp8, "bfloat16", tiled=False, both=False),
        "quantize_columns-both": columns_kernel(floor, "bfloat16", tiled=True, both=True),
        "dequantize": dequantize_kernel(te, "bfloat16", tiled=False, tuning=DequantizeTuning()),
        "dequantize-fp6": dequantize_kernel(fp6, "float16", tiled=True, tuning=DequantizeTuning()),
        "tensor_amax": amax_kernel(te, "bfloat16", "tensor_amax"),
        "encode_scalars": scalar_kernel("encode_scalars", "e2m1"),
        "unpack_codes": scalar_kernel("unpack_codes", "e2m3"),
        "sweep": sweep_kernel(1, {"MX_SCALAR": "E2M1", "MX_NAN_POSITIVE": 7, "MX_NAN_NEGATIVE": 7}, None, write=False),
    }


def list_instantiations(
    levels: Iterable[tuple[str, str, bool]], randoms: tuple[int, ...] = (0, 1, 2, 3)
) -> list[KernelSource]:
    """Every kernel that the API can ask for under these (profile, format, with a tensor scale)."""
    found: dict[KernelSource, None] = {}
    for profile, fmt, two_level in levels:
        rules = generate_rules(profile, fmt, two_level=two_level)
        k = rules.fmt.k
        for dtype in INPUTS:
            for tiled in (False, True):
                for stochastic in (False, True) if rules.fmt.element.bits == 4 and 3 in randoms else (False,):
                    tuning = tune_rows(fmt, dtype, stochastic=stochastic)
                    for choice in {tuning, replace(tuning, values=min(tuning.values, k))}:
                        for tiles in (1, 2, 3) if tiled else (0,):
                            found[rows_kernel(rules, dtype, tiled=tiles, stochastic=stochastic, tuning=choice)] = None
                for random in randoms:
                    found[any_kernel(rules, dtype, tiled=tiled, random=random)] = None
                if dtype != "float32":
                    for both in (False, True):
                        found[columns_kernel(rules, dtype, tiled=tiled, both=both)] = None
                found[dequantize_kernel(rules, dtype, tiled=tiled, tuning=tune_dequantize(fmt, dtype))] = None
            if two_level:
                for function in ("tensor_amax", "derive_native"):
                    found[amax_kernel(rules, dtype, function)] = None
    for name in SCALARS:
        for function in ("encode_scalars", "encode_scalars_stochastic"):
            for dtype in INPUTS:
                found[scalar_kernel(function, name, dtype)] = None
        found[scalar_kernel("decode_scalars", name)] = None
        if name in ELEMENTS:
            for function in ("unpack_codes", "pack_codes"):
                found[scalar_kernel(function, name)] = None
    return list(found)


#: What `compile_all` builds: the normative profiles and the stacks that users ask for most.
LEVELS: tuple[tuple[str, str, bool], ...] = (
    *((p, f, False) for f in BLOCKS if f != "nvfp4" for p in ("mx-floor", "mx-rceil", "mx-even", "mx-ceil")),
    *(("nvfp4-te", "nvfp4", two) for two in (False, True)),
    ("nvfp4-paper", "nvfp4", True),
    ("vllm-0.33/nvfp4/kernel", "nvfp4", True),
    *(("torchao-0.18/nvfp4/eager", "nvfp4", two) for two in (False, True)),
)
