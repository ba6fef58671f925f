"""The digests of the GPU's evidence change with the code, not with its comments."""

from __future__ import annotations

from tests.gpu import digest


def test_comments_do_not_count() -> None:
    text = '"""Doc."""\n\nX = 1  # why\n# more\n\n\ndef f():\n    """Doc\n    of f."""\n    return X\n'
    assert digest._code_of_module(text) == "X = 1  # why\ndef f():\nreturn X"
    assert digest._code_of_kernel("// all\nint a;  // one\n  int b;\n") == "int a; int b;"


def test_code_counts() -> None:
    assert digest._code_of_module("X = 1\n") != digest._code_of_module("X = 2\n")
    assert set(digest.digest_sources()) == {"kernels", "modules", "rules", "products", "steps", "operators"}


def test_every_file_counts_once() -> None:
    """A new kernel or module is in one of the groups, or measures and draws."""
    kernels = {f.name for f in (digest.PACKAGE / "kernels").iterdir() if f.suffix in (".cu", ".cuh")}
    assert set(digest.PRODUCT_KERNELS) | set(digest.STEP_KERNELS) <= kernels
    assert not set(digest.PRODUCT_KERNELS) & set(digest.STEP_KERNELS)
    groups = (digest.MODULES, digest.PRODUCT_MODULES, digest.STEP_MODULES, digest.OPERATOR_MODULES)
    assert sum(map(len, groups)) == len(set().union(*groups))
    measuring = {
        "__init__", "bench", "bench_products", "bench_reports", "bench_rows", "bench_steps", "ceilings", "chart", "compile_all", "host", "peers", "profile_kernels", "tasks",
        "timing", "witness",
    }  # fmt: skip
    modules = {f.stem for f in digest.PACKAGE.glob("*.py")}
    assert modules == measuring.union(*groups)


def test_sections_depend_on_what_they_call() -> None:
    assert "products" in digest.find_groups("exact")
    assert "products" not in digest.find_groups("levels")
    assert {"products", "operators"} <= set(digest.find_groups("lightx2v"))
    assert "steps" in digest.find_groups("steps")
    assert "steps" not in digest.find_groups("exact")
