"""The kernels of products and of stored weights: their sources with compile-time choices, and how they were tuned."""

from __future__ import annotations

from dataclasses import dataclass

from mxspec.affine import AffineContract, AffineFormat, Offset, get_contract, list_contracts
from mxspec.formats import BLOCKS, BlockFormat
from mxspec_gpu.build import KernelSource
from mxspec_gpu.gemv_tunings import GemvTuning, list_gemv_tunings
from mxspec_gpu.kernels import INPUTS, PLAIN_STORE, WIDEST
from mxspec_gpu.rules import KernelRules, generate_rules

#: Threads of a block of `decode_exact`.
EXACT_THREADS = 256
#: Rows and columns of a block of `certify_sums`.
CERTIFY_TILE = 64
#: Elements that a block of threads of the kernels of records moves.
RECORDS_ELEMENTS = 8192


def _source(file: str, function: str, defines: dict[str, object], rules: KernelRules | None = None, *, shared: int = 0) -> KernelSource:
    return KernelSource(
        file=file,
        function=function,
        defines=tuple((name, str(int(v)) if isinstance(v, bool) else str(v)) for name, v in defines.items()),
        generated=() if rules is None else (("rules.generated.cuh", rules.text),),
        shared=shared,
    )


# Exact products


def exact_kernel(block: BlockFormat, *, tiled: bool) -> KernelSource:
    """`decode_exact` of a format."""
    return _source(
        "exact.cu",
        "decode_exact",
        {
            "MX_ELEMENT": block.element.name.upper(), "MX_SCALE": block.scale.name.upper(), "MX_BLOCK": block.k,
            "MX_TILED": tiled, "MX_THREADS": EXACT_THREADS,
        },
    )  # fmt: skip


def certify_kernel() -> KernelSource:
    """`certify_sums`."""
    block = BLOCKS["mxfp4"]  # the file's other kernel needs one
    return _source("exact.cu", "certify_sums", dict(exact_kernel(block, tiled=False).defines))


def bias_kernel(dtype: str) -> KernelSource:
    """`add_bias`."""
    return _source("bias.cu", "add_bias", {"MX_OUTPUT": INPUTS[dtype]})


# Affine weights


@dataclass(frozen=True, slots=True, kw_only=True)
class AffineTuning:
    """Speed choices of `dequantize_affine`."""

    threads: int = 256
    unroll: int = 4
    store: str = PLAIN_STORE


def _affine_defines(fmt: AffineFormat) -> dict[str, object]:
    return {"MX_STORED": INPUTS[fmt.dtype], "MX_ZERO": fmt.offset is Offset.ZERO, "MX_GROUP": fmt.group}


def affine_kernel(fmt: AffineFormat, contract: AffineContract, output: str, tuning: AffineTuning) -> KernelSource:
    """`dequantize_affine` of a format under a contract. What `exact` leaves unrounded is rounded once, to the output."""
    zero = fmt.offset is Offset.ZERO
    return _source(
        "affine.cu",
        "dequantize_affine",
        _affine_defines(fmt)
        | {
            "MX_HELD": INPUTS[contract.dtype or output],
            # (q - z) * s, or q * s - z * s.
            "MX_FORM": int(zero and not contract.fused),
            "MX_FUSED": contract.fused or contract.name.endswith("-fma"),
            "MX_OUTPUT": INPUTS[output], "MX_UNROLL": tuning.unroll, "MX_THREADS": tuning.threads,
            "MX_STORE(p,v)": tuning.store,
        },
    )  # fmt: skip


def count_factor_bytes(fmt: AffineFormat) -> int:
    """Bytes of the factors of 256 columns, as they are copied."""
    groups = max(256 // fmt.group, 1)
    return 2 * groups + max(groups * (1 if fmt.offset is Offset.ZERO else 2), 4)


def can_copy(fmt: AffineFormat, k: int) -> bool:
    """Whether `gemv_affine` can have the factors of k columns copied ahead: those of 256 columns, zero points of 128 those of 512."""
    offsets = 256 // fmt.group * (1 if fmt.offset is Offset.ZERO else 2)
    return 256 % fmt.group == 0 and offsets >= 2 and k % (512 if offsets < 4 else 256) == 0


def gemv_affine_kernel(fmt: AffineFormat, output: str, tuning: GemvTuning, shared: int = 0) -> KernelSource:
    """`gemv_affine`, and the bytes of shared memory of a launch."""
    return _source("gemv_affine.cu", "gemv_affine", _affine_defines(fmt) | {"MX_OUTPUT": INPUTS[output], **tuning.defines()}, shared=shared)


# Sparse codes


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseTuning:
    """Speed choices of `dequantize_sparse`."""

    threads: int = 256
    unroll: int = 4
    store: str = PLAIN_STORE


def sparse_kernel(rules: KernelRules, output: str, *, pairs: bool, tuning: SparseTuning) -> KernelSource:
    """`dequantize_sparse` to a dtype."""
    defines: dict[str, object] = {
        "MX_OUTPUT": INPUTS[output], "MX_PAIRS": pairs, "MX_UNROLL": tuning.unroll, "MX_THREADS": tuning.threads,
        "MX_STORE(p,v)": tuning.store,
    }  # fmt: skip
    return _source("sparse.cu", "dequantize_sparse", defines, rules)


# ggml's records


def records_kernel(rules: KernelRules, function: str, output: str = "bfloat16") -> KernelSource:
    """`dequantize_records` (to a dtype), `unpack_records` or `pack_records`."""
    return _source("records.cu", function, {"MX_OUTPUT": INPUTS[output], "MX_STORE(p,v)": PLAIN_STORE}, rules)


def records_rules(fmt: str) -> KernelRules:
    """The rules by which records are values: codes times block scales."""
    return generate_rules(None, fmt, two_level=False)


#: Affine formats that `compile_all` builds and the tests use: what checkpoints hold.
AFFINE_FORMATS = tuple(
    AffineFormat(group=group, offset=offset, dtype=dtype)
    for group in (32, 64, 128)
    for offset in Offset
    for dtype in ("float16", "bfloat16")
)


def list_product_kernels() -> list[KernelSource]:
    """The kernels of products and stored weights that calls use: all but affine formats of other groups."""
    found = [
        certify_kernel(),
        *(exact_kernel(block, tiled=tiled) for block in BLOCKS.values() if block.k <= WIDEST for tiled in (False, True)),
    ]
    found += [bias_kernel(dtype) for dtype in INPUTS]
    for fmt in AFFINE_FORMATS:
        found += [affine_kernel(fmt, rule, output, AffineTuning()) for rule in list_contracts(fmt) for output in INPUTS]
        found += [
            gemv_affine_kernel(fmt, output, tuning)
            for output in INPUTS
            for tuning in list_gemv_tunings("affine", copies=(False, True) if can_copy(fmt, 512) else (False,))
        ]
    for name in ("mxfp4", "nvfp4"):
        rules = records_rules(name)
        found += [records_kernel(rules, "dequantize_records", output) for output in INPUTS]
        found += [records_kernel(rules, function) for function in ("pack_records", "unpack_records")]
    for name, two_level in (("mxfp4", False), ("nvfp4", False), ("nvfp4", True)):
        rules = generate_rules(None, name, two_level=two_level)
        found += [sparse_kernel(rules, output, pairs=pairs, tuning=SparseTuning()) for output in INPUTS for pairs in (False, True)]
    return list(dict.fromkeys(found))


def list_product_templates() -> dict[str, KernelSource]:
    """One instantiation of every kernel template, by a short name: what the test command compiles."""
    bias, zero = AffineFormat(dtype="bfloat16"), AffineFormat(offset=Offset.ZERO, group=128)
    return {
        "decode_exact": exact_kernel(BLOCKS["nvfp4"], tiled=True),
        "certify_sums": certify_kernel(),
        "add_bias": bias_kernel("bfloat16"),
        "dequantize_affine": affine_kernel(bias, get_contract("bfloat16", bias), "bfloat16", AffineTuning()),
        "dequantize_affine-zero": affine_kernel(zero, get_contract("float16", zero), "float32", AffineTuning()),
        "gemv_affine-bias": gemv_affine_kernel(bias, "bfloat16", GemvTuning(batch=8, warps=1, blocks_of_sm=4, copy=True, whole=True)),
        "gemv_affine-zero": gemv_affine_kernel(zero, "float32", GemvTuning(batch=16, warps=4, blocks_of_sm=1, copy=True)),
        "dequantize_records-mxfp4": records_kernel(records_rules("mxfp4"), "dequantize_records"),
        "dequantize_records-nvfp4": records_kernel(records_rules("nvfp4"), "dequantize_records", "float32"),
        "dequantize_sparse": sparse_kernel(records_rules("mxfp4"), "bfloat16", pairs=False, tuning=SparseTuning()),
        "pack_records": records_kernel(records_rules("mxfp4"), "pack_records"),
        "unpack_records": records_kernel(records_rules("nvfp4"), "unpack_records"),
    }
