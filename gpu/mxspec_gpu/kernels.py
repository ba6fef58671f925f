"""Which kernel does what: sources with their compile-time choices.

The choices that only speed depends on (elements of a thread, threads of a block, cache hints) stand in one table, as
measured on an H200 (reports/gpu).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product

from mxspec.formats import BLOCKS, ELEMENTS, F32
from mxspec_gpu.build import KernelSource
from mxspec_gpu.gemv_tunings import GemvTuning, list_gemv_tunings
from mxspec_gpu.rules import KernelRules, generate_rules

INPUTS = {"float32": 0, "float16": 1, "bfloat16": 2}
#: The scalar formats of kernels/element.cuh; others may be registered with the model, which the kernels do not have.
SCALARS = ("e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "int8", "e8m0", "ue4m3")
#: Elements of a block, at most, that kernels take but `quantize_rows`, `quantize_any` and `dequantize`.
WIDEST = 32


@dataclass(frozen=True, slots=True)
class Signs:
    """The random signs of a profile's Hadamard transform."""

    #: Bit i: whether element i of each sixteen is negated.
    mask: int
    #: Of the transformed values.
    dtype: str

    @property
    def defines(self) -> dict[str, object]:
        """For a kernel."""
        return {"MX_TRANSFORM": self.mask, "MX_VALUE": INPUTS[self.dtype]}


def _signs(signs: Signs | None) -> dict[str, object]:
    return {} if signs is None else signs.defines


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
    #: Whether a thread steps its pointer from row to row; otherwise it finds each.
    step: bool = True
    #: Adjacent tiles that blocks of threads go down together.
    group: int = 4
    load: str = "__ldg(p)"


@dataclass(frozen=True, slots=True, kw_only=True)
class BothTuning:
    """Speed choices of `quantize_both`; threads are those of the columns."""

    columns: ColumnsTuning = ColumnsTuning()
    rows: RowsTuning = RowsTuning(turns=2, load="__ldcs(p)")


PLAIN_STORE = "(*(p) = (v))"
#: Columns of 16-bit numbers in a tile of `quantize_columns`.
TILE_COLUMNS = 64


def tune_columns(fmt: str, dtype: str, *, loose: bool = False) -> ColumnsTuning:
    """The choices for a format and input."""
    if BLOCKS[fmt].element.bits == 8 and not loose:
        return ColumnsTuning(warps=16, load="load_word_ahead(p)")
    warps = 4 if fmt == "nvfp4" or fmt.startswith("mxfp6") else 8
    threads = 768 if loose and dtype != "float32" else 1024
    return ColumnsTuning(warps=warps, threads_of_sm=threads, group=1 if fmt == "nvfp4" else 4)


def columns_grid(rows: int, columns: int, dtype: str, tuning: ColumnsTuning) -> int:
    """Blocks of threads of `quantize_columns`: groups of adjacent tiles, each going down the rows."""
    width = TILE_COLUMNS // 2 if dtype == "float32" else TILE_COLUMNS
    return -(-rows // (32 * tuning.warps)) * -(-columns // (tuning.group * width)) * tuning.group


def tune_both(fmt: str) -> BothTuning:
    """The choices for a format."""
    if BLOCKS[fmt].element.bits == 8:
        return BothTuning(rows=RowsTuning(values=16, turns=2))
    return BothTuning()


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


def tune_transformed(tuning: RowsTuning, *, stochastic: bool) -> RowsTuning:
    """The choices for rows that are transformed first, from those for rows that are not."""
    return RowsTuning(values=tuning.values, threads=64, turns=4)


def tune_transformed_columns(fmt: str, dtype: str, *, loose: bool) -> ColumnsTuning:
    """The choices for columns that are transformed first, which takes more registers."""
    return replace(tune_columns(fmt, dtype, loose=loose), threads_of_sm=768)


def tune_transformed_both(fmt: str) -> BothTuning:
    """The choices for both directions, transformed first."""
    tune = tune_both(fmt)
    return replace(tune, columns=replace(tune.columns, threads_of_sm=768))


def tune_dequantize(fmt: str, dtype: str) -> DequantizeTuning:
    """The choices for a format and output."""
    bits = BLOCKS[fmt].element.bits
    if fmt == "mxfp4":
        return DequantizeTuning(threads=512)
    if bits == 8:
        return DequantizeTuning(store=PLAIN_STORE)
    if fmt == "nvfp4":
        return DequantizeTuning(threads=512)
    return DequantizeTuning(threads=64, step=32, store=PLAIN_STORE)


def _source(file: str, function: str, rules: KernelRules | None, defines: dict[str, object], *, shared: int = 0) -> KernelSource:
    return KernelSource(
        file=file,
        function=function,
        defines=tuple((name, str(int(v)) if isinstance(v, bool) else str(v)) for name, v in defines.items()),
        generated=() if rules is None else (("rules.generated.cuh", rules.text),),
        shared=shared,
    )


def _rows_defines(tuning: RowsTuning, dtype: str, *, source: int, tiled: int, stochastic: bool) -> dict[str, object]:
    return {
        "MX_INPUT": INPUTS[dtype],
        "MX_SOURCE": source,
        "MX_VALUES": tuning.values,
        "MX_TILED": tiled,
        "MX_STOCHASTIC": stochastic,
        "MX_THREADS": tuning.threads,
        "MX_TURNS": tuning.turns,
        "MX_LOAD(p)": tuning.load,
        "MX_STORE(p,v)": tuning.store,
    }


def rows_kernel(
    rules: KernelRules, dtype: str, *, tiled: int, stochastic: bool, tuning: RowsTuning, source: int = 0,
    signs: Signs | None = None, fused: bool = False,
) -> KernelSource:  # fmt: skip
    """`quantize_rows`; fused: of SiLU(gate) * up; source: 0 contiguous rows of whole blocks, 1 the same a pitch of whole 16 bytes apart, 2 rows that
    start and end anywhere; tiled: 0 row-major scales, 1 tiles, 2 tiles where a row has a multiple of four blocks, 3 tiles where
    rows come in 128s and a row is a multiple of what a warp takes, 4 scales column by column."""
    if tiled == 3:
        tuning = replace(tuning, threads=128)
    defines = _rows_defines(tuning, dtype, source=source, tiled=tiled, stochastic=stochastic)
    return _source("quantize_rows.cu", "quantize_rows", rules, defines | _signs(signs) | ({"MX_FUSED": 1} if fused else {}))


def experts_kernel(rules: KernelRules, dtype: str, function: str, *, tiled: int, tuning: RowsTuning) -> KernelSource:
    """`quantize_experts`, `experts_amax` or `derive_natives`; tiled as in `rows_kernel`, at most 2. A thread does one turn."""
    defines = _rows_defines(replace(tuning, turns=1), dtype, source=0, tiled=tiled, stochastic=False)
    return _source("quantize_experts.cu", function, rules, defines)


#: Of `quantize_square`.
SQUARE_TUNING = RowsTuning(values=16)
#: Adjacent tiles that a warp of it takes.
SQUARE_ACROSS = 8


def square_kernel(
    rules: KernelRules, dtype: str, *, source: int, tiled: int, wide: bool, stochastic: bool, tuning: RowsTuning = SQUARE_TUNING
) -> KernelSource:
    """`quantize_square`; source: 1 or 2 as in `rows_kernel`; wide: a row has a multiple of four blocks."""
    defines = _rows_defines(tuning, dtype, source=source, tiled=tiled, stochastic=stochastic)
    return _source("quantize_square.cu", "quantize_square", rules, defines | {"MX_WIDE": wide})


def tune_experts(fmt: str, dtype: str, per_row: int) -> RowsTuning:
    """The choices for rows of so many blocks, which no thread may leave."""
    tuning, k = tune_rows(fmt, dtype), BLOCKS[fmt].k
    return replace(tuning, values=k) if tuning.values > k and per_row % (tuning.values // k) else tuning


def any_kernel(rules: KernelRules, dtype: str, *, tiled: int, random: int) -> KernelSource:
    """`quantize_any`; random: 0 none, 1 words of 32 bits, 2 words of 8, 3 bytes from a counter."""
    defines: dict[str, object] = {"MX_INPUT": INPUTS[dtype], "MX_RANDOM": random, "MX_TILED": tiled}
    return _source("quantize_any.cu", "quantize_any", rules, defines)


def _columns_defines(tuning: ColumnsTuning, dtype: str, *, loose: bool, tiled: int, stochastic: bool) -> dict[str, object]:
    return {
        "MX_INPUT": INPUTS[dtype], "MX_STOCHASTIC": stochastic, "MX_LOOSE": loose, "MX_GROUP": tuning.group,
        "MX_COLUMN_LOAD(p)": tuning.load, "MX_TILED": tiled, "MX_WARPS": tuning.warps, "MX_STEP": tuning.step,
        "MX_THREADS_OF_SM": tuning.threads_of_sm,
    }  # fmt: skip


def columns_kernel(
    rules: KernelRules, dtype: str, *, tiled: int, loose: bool = False, stochastic: bool = False,
    tuning: ColumnsTuning | None = None, signs: Signs | None = None,
) -> KernelSource:  # fmt: skip
    """`quantize_columns`; loose: columns one by one from any address, any number of rows (float32 only so)."""
    tune = tuning or tune_columns(rules.fmt.name, dtype, loose=loose)
    defines = _columns_defines(tune, dtype, loose=loose, tiled=tiled, stochastic=stochastic)
    return _source("quantize_columns.cu", "quantize_columns", rules, defines | _signs(signs))


def both_kernel(
    rules: KernelRules, dtype: str, *, source: int, tiled: int, stochastic: bool = False, tuning: BothTuning | None = None,
    signs: Signs | None = None,
) -> KernelSource:  # fmt: skip
    """`quantize_both`; source and tiled as in `rows_kernel`, tiled at most 2."""
    tune = tuning or tune_both(rules.fmt.name)
    threads = replace(tune.rows, threads=32 * tune.columns.warps)
    defines = _rows_defines(threads, dtype, source=source, tiled=tiled, stochastic=stochastic)
    defines |= _columns_defines(tune.columns, dtype, loose=False, tiled=tiled, stochastic=stochastic)
    return _source("quantize_both.cu", "quantize_both", rules, defines | _signs(signs))


def dequantize_kernel(rules: KernelRules, dtype: str, *, tiled: int, tuning: DequantizeTuning, gather: bool = False) -> KernelSource:
    """`dequantize`; gather: rows of a table by their numbers."""
    defines: dict[str, object] = {
        "MX_OUTPUT": INPUTS[dtype],
        "MX_TILED": tiled,
        "MX_UNROLL": tuning.unroll,
        "MX_THREADS": tuning.threads,
        "MX_STEP": tuning.step or tuning.threads,
        "MX_GATHER": gather,
        "MX_STORE(p,v)": tuning.store,
    }
    return _source("dequantize.cu", "dequantize", rules, defines)


def amax_kernel(rules: KernelRules, dtype: str, function: str, signs: Signs | None = None) -> KernelSource:
    """`tensor_amax`, `transformed_amax` or `derive_native`."""
    return _source("amax.cu", function, rules, {"MX_INPUT": INPUTS[dtype], "MX_THREADS": 512} | _signs(signs))


def scalar_kernel(function: str, fmt: str, dtype: str = "float32") -> KernelSource:
    """`encode_scalars`, `encode_scalars_stochastic` (of a dtype), `decode_scalars`, `unpack_codes` or `pack_codes`."""
    if function in ("unpack_codes", "pack_codes"):
        return _source("unpack.cu", function, None, {"MX_SCALAR": fmt.upper()})
    return _source("scalars.cu", function, None, {"MX_SCALAR": fmt.upper(), "MX_INPUT": INPUTS[dtype]})


def gemv_kernel(fmt: str, output: str, tuning: GemvTuning, shared: int = 0) -> KernelSource:
    """`gemv` of a format of e2m1 codes, and the bytes of shared memory of a launch."""
    block = BLOCKS[fmt]
    return _source(
        "gemv.cu",
        "gemv",
        None,
        {"MX_SCALE": block.scale.name.upper(), "MX_BLOCK": block.k, "MX_OUTPUT": INPUTS[output], **tuning.defines()},
        shared=shared,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MixTuning:
    """How `move_bytes` reads and writes."""

    threads: int
    load: str
    store: str


def mix_kernel(reads: int, writes: int, tuning: MixTuning) -> KernelSource:
    """`move_bytes`, which only reads and writes: vectors of 16 bytes for each block of threads."""
    return _source(
        "mix.cu",
        "move_bytes",
        None,
        {
            "MX_READS": reads, "MX_WRITES": writes, "MX_THREADS": tuning.threads, "MX_LOAD(p)": tuning.load,
            "MX_STORE(p,v)": tuning.store,
        },
    )  # fmt: skip


def sweep_kernel(kind: int, defines: dict[str, object], rules: KernelRules | None, *, write: bool) -> KernelSource:
    """`sweep`; kind 0 the plain encoder, 1 the fast one, 2 the scale of a largest magnitude."""
    return _source("sweep.cu", "sweep", rules, {"MX_SWEEP": kind, **defines, "MX_WRITE": write})


def list_templates() -> dict[str, KernelSource]:
    """One instantiation of every kernel template, by a short name: what the test command compiles."""
    floor, te = (generate_rules("mx-floor", "mxfp4", two_level=False), generate_rules("nvfp4-te", "nvfp4", two_level=True))
    fp6, fp8 = (generate_rules("mx-floor", f, two_level=False) for f in ("mxfp6_e2m3", "mxfp8_e4m3"))
    return {
        "quantize_rows": rows_kernel(floor, "bfloat16", tiled=0, stochastic=False, tuning=RowsTuning()),
        "quantize_rows-nvfp4": rows_kernel(te, "bfloat16", tiled=2, stochastic=False, tuning=RowsTuning()),
        "quantize_rows-fp6": rows_kernel(fp6, "float32", tiled=0, stochastic=False, tuning=RowsTuning()),
        "quantize_rows-fp8": rows_kernel(fp8, "float16", tiled=0, stochastic=False, tuning=RowsTuning(values=16)),
        "quantize_rows-stochastic": rows_kernel(floor, "bfloat16", tiled=0, stochastic=True, tuning=RowsTuning()),
        "quantize_any": any_kernel(te, "float32", tiled=True, random=1),
        "quantize_rows-pitched": rows_kernel(te, "bfloat16", source=1, tiled=1, stochastic=False, tuning=RowsTuning()),
        "quantize_experts": experts_kernel(te, "bfloat16", "quantize_experts", tiled=2, tuning=tune_experts("nvfp4", "bfloat16", 4)),
        "quantize_rows-loose": rows_kernel(floor, "bfloat16", source=2, tiled=0, stochastic=False, tuning=RowsTuning()),
        "quantize_columns": columns_kernel(fp8, "bfloat16", tiled=False),
        "quantize_columns-loose": columns_kernel(te, "float32", tiled=False, loose=True),
        "quantize_both": both_kernel(floor, "bfloat16", source=0, tiled=2),
        "quantize_rows-transformed": rows_kernel(
            te, "bfloat16", tiled=0, stochastic=False, tuning=RowsTuning(), signs=Signs(0x5A3C, "bfloat16")
        ),
        "quantize_columns-transformed": columns_kernel(
            te,
            "bfloat16",
            tiled=False,
            stochastic=False,
            signs=Signs(0x5A3C, "bfloat16"),
            tuning=tune_transformed_columns("nvfp4", "bfloat16", loose=False),
        ),
        "quantize_square": square_kernel(te, "bfloat16", source=1, tiled=False, wide=True, stochastic=False),
        "quantize_square-loose": square_kernel(te, "float32", source=2, tiled=True, wide=False, stochastic=True),
        "dequantize": dequantize_kernel(te, "bfloat16", tiled=False, tuning=DequantizeTuning()),
        "dequantize-fp6": dequantize_kernel(fp6, "float16", tiled=True, tuning=DequantizeTuning()),
        "dequantize-gather": dequantize_kernel(floor, "bfloat16", tiled=True, tuning=DequantizeTuning(), gather=True),
        "gemv-mxfp4": gemv_kernel("mxfp4", "bfloat16", GemvTuning(batch=8, warps=2, blocks_of_sm=2, copy=True, whole=True)),
        "gemv-nvfp4": gemv_kernel("nvfp4", "float32", GemvTuning(batch=16, warps=4, blocks_of_sm=1, copy=True)),
        "tensor_amax": amax_kernel(te, "bfloat16", "tensor_amax"),
        "move_bytes": mix_kernel(1024, 272, MixTuning(threads=256, load="__ldg(p)", store=PLAIN_STORE)),
        "encode_scalars": scalar_kernel("encode_scalars", "e2m1"),
        "unpack_codes": scalar_kernel("unpack_codes", "e2m3"),
        "sweep": sweep_kernel(1, {"MX_SCALAR": "E2M1", "MX_NAN_POSITIVE": 7, "MX_NAN_NEGATIVE": 7}, None, write=False),
    }


def _ways(tiled: int) -> tuple[tuple[int, int], ...]:
    """(source, tiled) of `rows_kernel` that the API uses."""
    return ((0, 1), (0, 2), (0, 3), (1, 1), (2, 1)) if tiled == 1 else tuple((source, int(tiled)) for source in range(3))


def list_instantiations(levels: Iterable[tuple[str, str, bool]], randoms: tuple[int, ...] = (0, 1, 2, 3)) -> list[KernelSource]:
    """Every kernel that the API can use under these (profile, format, with a tensor scale)."""
    found: dict[KernelSource, None] = {}
    for profile, fmt, two_level in levels:
        rules = generate_rules(profile, fmt, two_level=two_level)
        k = rules.fmt.k
        for dtype in INPUTS:
            for tiled in (0, 4) if rules.fmt.scale == F32 else (0, 1):
                for stochastic in (False, True) if rules.fmt.element.bits == 4 and 3 in randoms else (False,):
                    tuning = tune_rows(fmt, dtype, stochastic=stochastic)
                    for choice in {tuning, replace(tuning, values=min(tuning.values, k))}:
                        for source, tiles in _ways(tiled):
                            kernel = rows_kernel(rules, dtype, source=source, tiled=tiles, stochastic=stochastic, tuning=choice)
                            found[kernel] = None
                if (k, k) in rules.fmt.shapes and k == SQUARE_TUNING.values:
                    for source, wide, stochastic in product((1, 2), (False, True), (False, True) if 3 in randoms else (False,)):
                        found[square_kernel(rules, dtype, source=source, tiled=tiled, wide=wide, stochastic=stochastic)] = None
                for random in randoms:
                    found[any_kernel(rules, dtype, tiled=tiled, random=random)] = None
                tuning_back = tune_dequantize(fmt, dtype)
                for gather in (False, True) if k <= WIDEST else (False,):
                    found[dequantize_kernel(rules, dtype, tiled=tiled, tuning=tuning_back, gather=gather)] = None
                if k > WIDEST:
                    continue
                for loose in (False, True) if dtype != "float32" else (True,):
                    for stochastic in (False, True) if rules.fmt.element.bits == 4 and 3 in randoms else (False,):
                        found[columns_kernel(rules, dtype, tiled=tiled, loose=loose, stochastic=stochastic)] = None
                if dtype != "float32":
                    for source, tiles in _ways(tiled):
                        if source != 1 and tiles != 3:
                            found[both_kernel(rules, dtype, source=source, tiled=tiles)] = None
            if two_level:
                for function in ("tensor_amax", "derive_native"):
                    found[amax_kernel(rules, dtype, function)] = None
    for fmt in ("mxfp4", "nvfp4"):
        for dtype in INPUTS:
            for tuning_of_gemv in list_gemv_tunings(fmt):
                found[gemv_kernel(fmt, dtype, tuning_of_gemv)] = None
    for name in SCALARS:
        for function in ("encode_scalars", "encode_scalars_stochastic"):
            for dtype in INPUTS:
                found[scalar_kernel(function, name, dtype)] = None
        found[scalar_kernel("decode_scalars", name)] = None
        if name in ELEMENTS:
            for function in ("unpack_codes", "pack_codes"):
                found[scalar_kernel(function, name)] = None
    return list(found)


def list_expert_kernels(levels: Iterable[tuple[str, str, bool]]) -> list[KernelSource]:
    """Every kernel that rows of experts can use under these."""
    found: dict[KernelSource, None] = {}
    for profile, fmt, two_level in levels:
        rules = generate_rules(profile, fmt, two_level=two_level)
        for dtype in INPUTS:
            for tuning in {tune_experts(fmt, dtype, per_row) for per_row in (1, 4)}:
                for way in (0, 1, 2):
                    found[experts_kernel(rules, dtype, "quantize_experts", tiled=way, tuning=tuning)] = None
                for function in ("experts_amax", "derive_natives") if two_level else ():
                    found[experts_kernel(rules, dtype, function, tiled=0, tuning=tuning)] = None
    return list(found)


def list_transformed(rules: KernelRules, dtype: str, signs: Signs) -> list[KernelSource]:
    """Every kernel that the API can use with these signs, but those of `any_kernel`, which has no transform."""
    found: dict[KernelSource, None] = {}
    for stochastic in (False, True) if rules.fmt.element.bits == 4 else (False,):
        tuning = tune_transformed(tune_rows(rules.fmt.name, dtype, stochastic=stochastic), stochastic=stochastic)
        for tiled in (False, True):
            for source, tiles in _ways(tiled):
                for values in {tuning.values, min(tuning.values, rules.fmt.k)}:
                    choice = replace(tuning, values=values)
                    kernel = rows_kernel(rules, dtype, source=source, tiled=tiles, stochastic=stochastic, tuning=choice, signs=signs)
                    found[kernel] = None
                if source != 1 and tiles != 3:
                    both = tune_transformed_both(rules.fmt.name)
                    kernel = both_kernel(rules, dtype, source=source, tiled=tiles, stochastic=stochastic, tuning=both, signs=signs)
                    found[kernel] = None
            for loose in (False, True):
                columns = tune_transformed_columns(rules.fmt.name, dtype, loose=loose)
                kernel = columns_kernel(rules, dtype, tiled=tiled, loose=loose, stochastic=stochastic, tuning=columns, signs=signs)
                found[kernel] = None
    return list(found)


#: What `compile_all` builds: the normative profiles and the stacks that users need most.
LEVELS: tuple[tuple[str, str, bool], ...] = (
    *((p, f, False) for f, b in BLOCKS.items() if b.is_ocp for p in ("mx-floor", "mx-rceil", "mx-even", "mx-ceil")),
    *(("nvfp4-te", "nvfp4", two) for two in (False, True)),
    ("nvfp4-paper", "nvfp4", True),
    ("vllm-0.33/nvfp4/kernel", "nvfp4", True),
    *(("torchao-0.18/nvfp4/eager", "nvfp4", two) for two in (False, True)),
)
