"""The kernels of the documents' steps and of sparse products: their sources with compile-time choices."""

from __future__ import annotations

from dataclasses import dataclass

from mxspec.affine import AffineContract, AffineFormat, Offset, get_contract
from mxspec.formats import BLOCKS
from mxspec_gpu.build import KernelSource
from mxspec_gpu.kernels import INPUTS
from mxspec_gpu.product_kernels import AFFINE_FORMATS, records_rules
from mxspec_gpu.rules import KernelRules, generate_rules

#: Elements that a thread of `dequantize_ways` makes.
WAYS = (2, 4, 8)
#: Dtypes of the steps.
HALVES = ("float16", "bfloat16")
#: Outputs of a block of threads of `affine_matmul_naive`: rows of x, rows of the weights.
AFFINE_TILE = (32, 8)


def _make_source(file: str, function: str, defines: dict[str, int], rules: KernelRules | None = None) -> KernelSource:
    generated = () if rules is None else (("rules.generated.cuh", rules.text),)
    return KernelSource(
        file=file, function=function, defines=tuple((name, str(int(value))) for name, value in defines.items()), generated=generated
    )


def step_records_kernel(rules: KernelRules, function: str, dtype: str) -> KernelSource:
    """`dequantize_elements` or `dequantize_records_each`, of ggml's records."""
    return _make_source("step_dequantize.cu", function, {"MX_OUTPUT": INPUTS[dtype], "MX_WAY": 2}, rules)


def step_ways_kernel(rules: KernelRules, way: int, dtype: str) -> KernelSource:
    """`dequantize_ways`, 2, 4 or 8 elements a thread."""
    return _make_source("step_dequantize.cu", "dequantize_ways", {"MX_OUTPUT": INPUTS[dtype], "MX_WAY": way}, rules)


def step_quantize_kernel(rules: KernelRules, dtype: str, *, tiled: bool) -> KernelSource:
    """`quantize_grid_stride`."""
    return _make_source("step_quantize.cu", "quantize_grid_stride", {"MX_INPUT": INPUTS[dtype], "MX_TILED": tiled}, rules)


def step_affine_kernel(fmt: AffineFormat, contract: AffineContract) -> KernelSource:
    """`affine_matmul_naive` under a contract in float32."""
    defines = {
        "MX_STORED": INPUTS[fmt.dtype], "MX_ZERO": fmt.offset is Offset.ZERO, "MX_GROUP": fmt.group,
        "MX_FORM": fmt.offset is Offset.ZERO and not contract.fused,
        "MX_FUSED": contract.fused or contract.name.endswith("-fma"),
    }  # fmt: skip
    return _make_source("step_affine.cu", "affine_matmul_naive", defines)


#: Rows of W that a block of threads of `gemv_sparse` takes.
SPARSE_ROWS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseGemvTuning:
    """Speed choices of `gemv_sparse`."""

    warps: int = 4
    blocks_of_sm: int = 4
    #: Chunks of codes on their way.
    depth: int = 2


def sparse_gemv_kernel(fmt: str, output: str, batch: int, tuning: SparseGemvTuning) -> KernelSource:
    """`gemv_sparse` of a format of e2m1 codes; batch: at most this many x, 8 or 16."""
    block = BLOCKS[fmt]
    defines = {"MX_BLOCK": block.k, "MX_OUTPUT": INPUTS[output], "MX_BATCH": batch}
    made = _make_source(
        "sparse_gemv.cu", "gemv_sparse",
        defines | {"MX_WARPS": tuning.warps, "MX_BLOCKS_OF_SM": tuning.blocks_of_sm, "MX_DEPTH": tuning.depth},
    )  # fmt: skip
    return KernelSource(file=made.file, function=made.function, defines=(("MX_SCALE", block.scale.name.upper()), *made.defines))


def tune_sparse_gemv(fmt: str, batch: int) -> SparseGemvTuning:
    """The choices for a format and number of vectors."""
    return SparseGemvTuning()


#: (profile, format, with a tensor scale) that `compile_all` builds the steps for.
STEP_LEVELS = (
    ("mx-floor", "mxfp4", False), ("nvfp4-te", "nvfp4", False), ("nvfp4-te", "nvfp4", True),
    ("lightx2v-0.0.1/mxfp4", "mxfp4", False), ("lightx2v-0.0.1/nvfp4", "nvfp4", True),
)  # fmt: skip


def list_step_kernels() -> list[KernelSource]:
    """The kernels of the steps of `STEP_LEVELS`, and all of sparse products."""
    found: list[KernelSource] = []
    for name in ("mxfp4", "nvfp4"):
        rules = records_rules(name)
        found += [
            step_records_kernel(rules, function, dtype)
            for function in ("dequantize_elements", "dequantize_records_each")
            for dtype in HALVES
        ]
        found += [sparse_gemv_kernel(name, output, batch, tune_sparse_gemv(name, batch)) for output in INPUTS for batch in (8, 16)]
    for profile, fmt, two_level in STEP_LEVELS:
        rules = generate_rules(profile, fmt, two_level=two_level)
        found += [step_ways_kernel(rules, way, dtype) for way in WAYS for dtype in HALVES]
        found += [step_quantize_kernel(rules, dtype, tiled=tiled) for dtype in HALVES for tiled in (False, True)]
    found += [step_affine_kernel(fmt, get_contract("float32", fmt)) for fmt in AFFINE_FORMATS]
    return list(dict.fromkeys(found))


def list_step_templates() -> dict[str, KernelSource]:
    """One instantiation of every kernel template, by a short name: what the test command compiles."""
    mxfp4, nvfp4 = generate_rules(None, "mxfp4", two_level=False), generate_rules(None, "nvfp4", two_level=True)
    fmt = AffineFormat(dtype="bfloat16")
    return {
        "dequantize_elements": step_records_kernel(records_rules("nvfp4"), "dequantize_elements", "float16"),
        "dequantize_records_each": step_records_kernel(records_rules("mxfp4"), "dequantize_records_each", "float16"),
        **{f"dequantize_ways-{way}": step_ways_kernel(nvfp4, way, "bfloat16") for way in WAYS},
        "quantize_grid_stride-mxfp4": step_quantize_kernel(mxfp4, "float16", tiled=False),
        "quantize_grid_stride-nvfp4": step_quantize_kernel(nvfp4, "bfloat16", tiled=True),
        "affine_matmul_naive": step_affine_kernel(fmt, get_contract("float32", fmt)),
        "gemv_sparse-mxfp4": sparse_gemv_kernel("mxfp4", "bfloat16", 8, SparseGemvTuning()),
        "gemv_sparse-nvfp4": sparse_gemv_kernel("nvfp4", "float32", 8, SparseGemvTuning()),
    }
