"""The digests of the GPU's evidence change with the code, not with its comments."""

from __future__ import annotations

import re
from pathlib import Path

from tests.gpu import digest

FOLDER = Path(digest.__file__).parent


def test_comments_do_not_count() -> None:
    text = '"""Doc."""\n\nX = 1  # why\n# more\n\n\ndef f():\n    """Doc\n    of f."""\n    return X\n'
    assert digest._code_of_module(text) == "X = 1  # why\ndef f():\nreturn X"
    assert digest._code_of_kernel("// all\nint a;  // one\n  int b;\n") == "int a; int b;"


def test_code_counts() -> None:
    assert digest._code_of_module("X = 1\n") != digest._code_of_module("X = 2\n")
    assert set(digest.digest_sources()) == {"kernels", "modules", "rules", *digest.GROUPS}


def test_every_file_counts_once() -> None:
    """A new kernel or module is in one of the groups, or measures and draws; `rules` counts by the texts that it writes."""
    kernels = [f.name for f in (digest.PACKAGE / "kernels").iterdir() if f.suffix in (".cu", ".cuh")]
    apart = [name for files, _, _ in digest.GROUPS.values() for name in files]
    assert set(apart) <= set(kernels)
    groups = [*digest.MODULES, *(name for _, names, _ in digest.GROUPS.values() for name in names)]
    assert len(apart) == len(set(apart))
    assert len(groups) == len(set(groups))
    measuring = {
        "__init__", "bench", "bench_products", "bench_reports", "bench_rows", "bench_steps", "bench_tiles", "ceilings", "chart", "compile_all", "host", "peers", "profile_kernels", "tasks",
        "timing", "witness",
    }  # fmt: skip
    modules = {f.stem for f in digest.PACKAGE.glob("*.py")}
    assert modules == measuring.union({"rules"}, groups)


def test_sections_depend_on_what_they_call() -> None:
    assert "products" in digest.find_groups("exact")
    assert "products" not in digest.find_groups("levels")
    assert {"products", "operators"} <= set(digest.find_groups("lightx2v"))
    assert "steps" in digest.find_groups("steps")
    assert "steps" not in digest.find_groups("exact")
    assert "vectors" not in digest.find_groups("views")


def test_sections_that_multiply_vectors_depend_on_their_kernels() -> None:
    """Those whose tests call such a product, or what hands its work on to one or shares its parts."""
    calls = re.compile(r"mxspec_gpu\.(?:\w*gemv|\w*gemm)\b|cutlass_scaled")
    tests = {f.stem.removeprefix("test_") for f in FOLDER.glob("test_*.py") if calls.search(f.read_text("utf-8"))}
    assert tests == {name for name in tests | set(digest.GROUPS["vectors"][2]) if "vectors" in digest.find_groups(name)}
