"""The digests of the GPU's evidence change with the code, not with its comments."""

from __future__ import annotations

from tests.gpu import digest


def test_comments_do_not_count() -> None:
    text = '"""Doc."""\n\nX = 1  # why\n# more\n\n\ndef f():\n    """Doc\n    of f."""\n    return X\n'
    assert digest._code_of_module(text) == "X = 1  # why\ndef f():\nreturn X"
    assert digest._code_of_kernel("// all\nint a;  // one\n  int b;\n") == "int a; int b;"


def test_code_counts() -> None:
    assert digest._code_of_module("X = 1\n") != digest._code_of_module("X = 2\n")
    assert set(digest.digest_sources()) == {"kernels", "modules", "rules"}
