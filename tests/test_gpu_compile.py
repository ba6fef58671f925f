"""What a machine without a GPU can say of the kernels: they compile, with the instructions that were meant, without spills.

One instantiation of every kernel template, for a Hopper and three Blackwell targets. Blackwell code is compiled here, not
run anywhere.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

from mxspec_gpu import build, fp8, fused, kernels, product_kernels, step_kernels, tiles

from tests.gpu.arithmetic import GROUP_LEVELS, Level, level_id, rules_of
from tests.once import once

ARCHITECTURES = ("sm_90", "sm_100a", "sm_103a", "sm_120a")
BLACKWELL = ARCHITECTURES[1:]
#: Norms by the most threads and by fewer, of each kind of codes.
NORMS = {
    "quantize_norm-fp8": fused.norm_kernel(rules_of(("mx-floor", "mxfp8_e4m3", False)), "bfloat16", 16384, tiled=0),
    "quantize_norm-mxfp4": fused.norm_kernel(rules_of(("mx-floor", "mxfp4", False)), "bfloat16", 4096, tiled=1),
    "quantize_norm-nvfp4": fused.norm_kernel(rules_of(("nvfp4-te", "nvfp4", True)), "float16", 8192, tiled=1),
    "quantize_norm-fp6": fused.norm_kernel(rules_of(("mx-floor", "mxfp6_e2m3", False)), "bfloat16", 16384, tiled=1),
}
SOURCES = (
    kernels.list_templates()
    | product_kernels.list_product_templates()
    | step_kernels.list_step_templates()
    | tiles.list_tile_templates()
    | fp8.list_group_templates()
    | NORMS
)
TEMPLATES = tuple(SOURCES)
#: Variants of templates, which two targets are enough for: a minute of compiling else.
VARIANTS = (
    "-pitched", "-loose", "square", "-transformed", "-gather", "gemv-", "move_bytes", "quantize_norm-", *product_kernels.list_product_templates(),
    *step_kernels.list_step_templates(),
)  # fmt: skip
COMPILED = tuple(
    (template, arch)
    for template in TEMPLATES
    for arch in (
        ("sm_90",)
        if isinstance(SOURCES[template], tiles.TileSource)
        else ("sm_90", "sm_100a")
        if any(v in template for v in VARIANTS)
        else ARCHITECTURES
    )
)

#: Template -> instructions that its machine code must hold: on Hopper, and on Blackwell.
EXPECTED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # packed bfloat16 arithmetic; the e2m1 conversion
    "quantize_rows": (("HFMA2.BF16", "HMNMX2.BF16"), ("F2FP.SATFINITE.E2M1",)),
    # the block's scale by the e4m3 conversion
    "quantize_rows-nvfp4": (("F2FP.SATFINITE.E4M3", "MUFU.RCP"), ("F2FP.SATFINITE.E2M1", "F2FP.SATFINITE.E4M3")),
    "quantize_rows-fp6": (("F2FP.SATFINITE.E4M3",), ("F2FP.SATFINITE.E2M3",)),
    "quantize_rows-fp8": (("F2FP.SATFINITE.E4M3",), ("F2FP.SATFINITE.E4M3",)),
    "quantize_columns": (("F2FP.SATFINITE.E4M3",), ("F2FP.SATFINITE.E4M3",)),
    # a row in shared memory, 16 bytes at a time; IEEE root
    "quantize_norm-fp8": (("STS.128", "LDS.128", "MUFU.RSQ", "F2FP.SATFINITE.E4M3"), ("STS.128", "LDS.128", "F2FP.SATFINITE.E4M3")),
    # the sparse tensor cores
    "gemv_sparse-mxfp4": (("HMMA.SP",), ("HMMA.SP",)),
    # loads and stores as wide as the step says
    "dequantize_ways-4": (("LDG.E.U16", "STG.E.64"), ("LDG.E.U16", "STG.E.64")),
    "dequantize_ways-8": (("STG.E.128",), ("STG.E.128",)),
    "quantize_grid_stride-nvfp4": (("LDG.E.128", "SHFL.BFLY"), ("LDG.E.128", "SHFL.BFLY")),
}


def find_tool(name: str) -> str:
    """cuobjdump or nvdisasm, of the toolkit or of NVIDIA's wheels."""
    found = shutil.which(name)
    if found:
        return found
    for folder in sys.path:
        path = Path(folder) / "nvidia" / "cu13" / "bin" / name
        if path.is_file():
            return str(path)
    raise AssertionError(f"{name} is missing; install the test group (nvidia-cuda-cuobjdump, nvidia-cuda-nvdisasm)")


@lru_cache(maxsize=128)
def cubin(template: str, arch: str) -> bytes:
    """The compiled template."""
    return once(f"{template} for {arch}", lambda: build.compile_cubin(SOURCES[template], arch))


def run_tool(tool: str, arguments: list[str], content: bytes, folder: Path) -> str:
    path = folder / "kernel.cubin"
    path.write_bytes(content)
    done = subprocess.run([find_tool(tool), *arguments, str(path)], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


#: Products of NVIDIA's correctly rounded root, inline and for special operands: of normal numbers, as every root of float32 is.
ROOT_PRODUCTS = 5


def find_flushing(code: str) -> list[str]:
    """Products that make subnormal numbers zero."""
    return re.findall(r"\b(?:FMUL|FFMA)\S*\.FTZ", code)


@pytest.mark.parametrize(("template", "arch"), COMPILED)
def test_compiles_without_spills(template: str, arch: str, tmp_path: Path) -> None:
    usage = run_tool("cuobjdump", ["-res-usage"], cubin(template, arch), tmp_path)
    stacks = [int(n) for n in re.findall(r"STACK:(\d+)", usage)]
    registers = [int(n) for n in re.findall(r"REG:(\d+)", usage)]
    assert stacks, usage
    assert registers
    assert max(stacks) == 0, f"{template} for {arch} keeps {max(stacks)} bytes of a thread in memory:\n{usage}"
    # Of a kernel with wgmma: as many as all threads of a multiprocessor can have when it starts.
    assert max(registers) <= (224 if template.endswith("narrow") else 168 if isinstance(SOURCES[template], tiles.TileSource) else 128)


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("template", EXPECTED)
def test_holds_the_instructions(template: str, arch: str, tmp_path: Path) -> None:
    code = run_tool("nvdisasm", ["-c"], cubin(template, arch), tmp_path)
    for instruction in EXPECTED[template][arch in BLACKWELL]:
        assert instruction in code, f"{template} for {arch} has no {instruction}"
    assert "F64" not in code, "no float64 in a kernel"


@pytest.mark.parametrize("level", [GROUP_LEVELS[0], GROUP_LEVELS[2], GROUP_LEVELS[-1]], ids=level_id)
def test_groups_of_128_compile_as_blocks_do(level: Level, tmp_path: Path) -> None:
    """A product, a quotient and a power of two for each element: nothing in memory, the conversion of four bytes, no product that flushes."""
    rules = rules_of(level)
    tiled = 4 if rules.fmt.scale.name == "f32" else 0
    tuning, back = kernels.tune_rows(level[1], "bfloat16"), kernels.tune_dequantize(level[1], "bfloat16")
    for source, instruction in (
        (kernels.rows_kernel(rules, "bfloat16", tiled=tiled, stochastic=False, tuning=tuning), "F2FP.SATFINITE.E4M3"),
        (kernels.dequantize_kernel(rules, "bfloat16", tiled=tiled, tuning=back), "F2FP.F16.E4M3"),
        (fused.norm_kernel(rules, "bfloat16", 16384, tiled=tiled), "F2FP.SATFINITE.E4M3"),
    ):
        content = build.compile_cubin(source, "sm_90")
        usage = run_tool("cuobjdump", ["-res-usage"], content, tmp_path)
        assert re.findall(r"STACK:(\d+)", usage) == ["0"], usage
        code = run_tool("nvdisasm", ["-c"], content, tmp_path)
        assert instruction in code
        assert "F64" not in code
        assert len(find_flushing(code)) == (ROOT_PRODUCTS if source.function == "quantize_norm" else 0)


@pytest.mark.parametrize("template", [name for name in TEMPLATES if name.startswith("multiply_tiles")])
def test_products_go_on_while_codes_are_decoded(template: str, tmp_path: Path) -> None:
    """The compiler makes wgmma wait for one another where registers are too few: never for all before the last stage."""
    code = run_tool("nvdisasm", ["-c"], cubin(template, "sm_90"), tmp_path)
    assert code.count("HGMMA") >= 8
    assert len(re.findall(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x0", code)) == 1


@pytest.mark.parametrize("template", TEMPLATES)
def test_keeps_subnormals(template: str, tmp_path: Path) -> None:
    """No product flushes but of a root; the one sum that does only makes NaN, where the correctly rounded division handles special operands."""
    code = run_tool("nvdisasm", ["-c"], cubin(template, "sm_90"), tmp_path)
    assert len(find_flushing(code)) == (ROOT_PRODUCTS if template in NORMS else 0)


#: Templates that a T4 lacks instructions for, and some that it has: compiled here, run nowhere.
REFUSED = ("quantize_rows", "quantize_columns", "quantize_both", "quantize_square", "tensor_amax", "gemv-mxfp4", "gemv_affine-bias", "gemv_sparse-nvfp4",
    "quantize_grid_stride-nvfp4")  # fmt: skip
HELD = ("quantize_any", "dequantize", "dequantize-fp6", "encode_scalars", "unpack_codes", "dequantize_elements", "dequantize_records_each",
    "dequantize_ways-8", "affine_matmul_naive", "dequantize_affine", "pack_records", "dequantize_sparse")  # fmt: skip


@pytest.mark.parametrize("template", REFUSED)
def test_a_limited_target_refuses_in_words(template: str) -> None:
    with pytest.raises(
        build.OldGpuError, match=rf"^{SOURCES[template].function} needs compute capability 8\.0, and this GPU has 7\.5, where dequantize"
    ):
        build.compile_cubin(SOURCES[template], "sm_75")


@pytest.mark.parametrize("template", HELD)
def test_a_limited_target_has_the_rest(template: str) -> None:
    assert build.compile_cubin(SOURCES[template], "sm_75")


def test_targets_of_capabilities() -> None:
    assert (build.name_arch((7, 5)), build.name_arch((9, 0)), build.name_arch((12, 1))) == ("sm_75", "sm_90", "sm_121a")
    with pytest.raises(build.OldGpuError, match=r"compute capability 7\.0; the kernels need 7\.5"):
        build.name_arch((7, 0))


def test_options_are_exact() -> None:
    options = kernels.list_templates()["quantize_rows"].options("sm_90")
    assert {"-ftz=false", "-fmad=false", "-prec-div=true"} <= set(options)


def test_cache_knows_sources_and_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(build.CACHE_VARIABLE, str(tmp_path))
    sources = kernels.list_templates()
    first = build.find_cubin(sources["unpack_codes"], "sm_90")
    assert first.parent == tmp_path
    assert build.find_cubin(sources["unpack_codes"], "sm_90") == first
    assert build.find_cubin(sources["unpack_codes"], "sm_100a") != first
    assert build.find_cubin(kernels.scalar_kernel("unpack_codes", "e3m2"), "sm_90") != first


def test_compile_errors_show_the_log() -> None:
    broken = build.KernelSource(file="unpack.cu", function="unpack_codes", defines=(("MX_SCALAR", "E9M9"),))
    with pytest.raises(RuntimeError, match=r"unpack\.cu does not compile for sm_90:(.|\n)*E9M9"):
        build.compile_cubin(broken, "sm_90")
