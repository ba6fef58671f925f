"""Every command line that a page shows with its values is run: it is understood, and ends in an answer.

The lines of a page run in their order in one folder, which holds the files that the pages name. What a line needs and a
bare machine lacks is listed here with the reason.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mxspec

from tests.test_docs import FENCE, PAGES, ROOT, command_lines, name_of, readme_target

#: What cannot run here, and why.
EXCLUDED = {
    r"ssh |docker |scheduler:": "another machine",
    r"ggml-c|auto-round|compressed-tensors --only|torch|microxcaling|quark|modelopt --only|fouroversix|ggml-products|-cuda|mlir|mxspec_gpu": (
        "a library or a chip that is not here"
    ),
    r"conformance/examples/(?:gpu|packages)/": "libraries that are not here",
    r"kit tosa|kit onnx": "a package that is not here",
    r"lightx2v_target\.py$": "the library",
    r"\.\/libmykernel|cmd:\.\/my_test|cmd:node|mypackage": "the reader's own code",
    r"--replay found/": "a failure that a right kernel has not",
    r"vectors build|^mxspec submit|--missing-calls|^mxspec bundle": "writes into the sources, or is shown in tests of its own",
    r"^mxspec (?:site|score-tests)|^mxspec check mxspec\b": "takes minutes, and has tests of its own",
}
#: A word that stands for something that the reader chooses.
PLACEHOLDER = re.compile(r"(?<![\w:])(?:[A-Z]{3,}|IN|OUT|ID|F|CKPT)(?:\.\.\.|\.json)?(?![\w'.])|\.\.\.")
#: Long campaigns, made short.
SHORTER = (
    (r"(?<=fuzz my_kernel.py) --minutes 5\b", " --batches 1"),
    (r"--minutes 5\b", "--minutes 0.05"),
    (r"--batches 20\b", "--batches 1"),
    (r"prove gguf --format mxfp4", "prove gguf --format mxfp4 --minutes 0.05"),
)


def list_lines(page: Path) -> list[str]:
    """The command lines of a page that have all their values, each once, in the order of the page."""
    lines = [re.sub(r"\s+#.*", "", line).strip() for line in command_lines(page.read_text("utf-8"))]
    inline = set(re.findall(r"`(mxspec [^`]+)`", FENCE.sub("", page.read_text("utf-8")).replace("\n", " ")))
    whole = [line for line in dict.fromkeys(lines) if (line not in inline or " --" in line) and not PLACEHOLDER.search(line)]
    return [line for line in whole if not any(re.search(pattern, line) for pattern in EXCLUDED)]


#: A kernel of several operations and formats, where the README's offers less than a page needs.
MODEL = """
import mxspec
from mxspec import affine, sparsity

NAME, VERSION, FORMATS = "my-kernel", "1.0", ["mxfp4", "mxfp8_e4m3", "nvfp4"]
SPARSE_FORMATS, AFFINE = ["e2m1-2to4"], ["int4-g64-bias-float16"]

def quantize(x, fmt, tensor_scale=None):
    scale = None if tensor_scale is None else mxspec.TensorScale("decode", tensor_scale)
    t = mxspec.quantize(x, fmt, tensor_scale=scale, convert=True)
    return t.codes, t.scales

def prune(codes, fmt):
    return sparsity.prune(codes)

def quantize_affine(x, fmt):
    t = affine.quantize(x, bits=4, group=64, offset="bias", scale_dtype="float16")
    return t.codes, t.scales, t.offsets
"""


def prepare(folder: Path, page: str) -> None:
    """The files that pages name."""
    kernel = MODEL if page == "docs/fuzzing.md" else readme_target()
    # In CI a rule is named.
    claim = 'PROFILE = "mx-floor"\n' if "--ci" in (ROOT / page).read_text("utf-8") else ""
    (folder / "my_kernel.py").write_text(kernel + claim, "utf-8")
    (gemm,) = (body for _, body in FENCE.findall((ROOT / "docs/products.md").read_text("utf-8")) if body.startswith("# my_gemm.py"))
    if page in ("docs/fuzzing.md", "docs/products.md"):  # what is shown next is a failure
        gemm = gemm.replace("return ", "return 2 * ")
    (folder / "my_gemm.py").write_text(gemm, "utf-8")
    for name, of in (("my_experts.py", "docs/products.md"), ("my_attention.py", "docs/attention.md")):
        (text,) = (body for _, body in FENCE.findall((ROOT / of).read_text("utf-8")) if body.startswith(f"# {name}"))
        (folder / name).write_text(text, "utf-8")
    files = ROOT / "tests/containers/files"
    shutil.copytree(files / "modelopt-nvfp4", folder / "modelopt")
    quantized = files / "compressed-tensors-mxfp4-pack-quantized/model.safetensors"
    shutil.copy(quantized, folder / "quantized.safetensors")
    shutil.copy(files / "original.safetensors", folder / "model.safetensors")
    shutil.copy(files / "original.safetensors", folder / "original.safetensors")
    shutil.copy(ROOT / "reports/gpu/probe-h100.json", folder / "chip.json")
    shutil.copy(ROOT / "reports/html/gguf.json", folder / "other.json")
    rng = np.random.default_rng(0)
    np.save(folder / "weights.npy", rng.standard_normal((64, 128), np.float32))
    a, b = (mxspec.quantize(rng.standard_normal((rows, 128), np.float32), "mxfp8_e4m3") for rows in (8, 24))
    np.savez(folder / "operands.npz", a_codes=a.codes, a_scales=a.scales, b_codes=b.codes, b_scales=b.scales)


def complete_waivers(folder: Path) -> None:
    """Give the reasons that a new file of waivers requires."""
    for file in folder.glob("waivers.toml"):
        file.write_text(re.sub(r"TODO[^\"]*", "known", file.read_text("utf-8")), "utf-8")


@pytest.mark.share(20)
@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md" and list_lines(page)], ids=name_of)
def test_commands_that_are_shown_run(page: Path, tmp_path: Path) -> None:
    prepare(tmp_path, name_of(page))
    broken = {}
    for line in list_lines(page):
        complete_waivers(tmp_path)
        for pattern, short in SHORTER:
            line = re.sub(pattern, short, line)
        done = subprocess.run(
            [sys.executable, "-m", "mxspec_conformance", *shlex.split(line)[1:]],
            cwd=tmp_path, env={**os.environ, "COLUMNS": "100"}, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        if done.returncode not in (0, 1) or "Traceback" in done.stderr:
            broken[line] = done.stderr[-400:] or done.stdout[-400:]
    assert broken == {}


def test_no_reason_to_leave_a_line_out_is_idle() -> None:
    lines = [line for page in PAGES for line in command_lines(page.read_text("utf-8"))]
    assert [pattern for pattern in EXCLUDED if not any(re.search(pattern, line) for line in lines)] == []


def test_a_command_with_a_wrong_value_is_noticed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mxspec_conformance", "explain", "mxfp4", "1,2"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
