"""The exact model and the array model are two: neither imports the other, and what they share is named."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import mxspec

ROOT = Path(mxspec.__file__).parent
#: What computes on arrays.
ARRAY_MODULES = (
    "arrays", "elements", "scales", "fast", "blocks", "stochastic", "tensorscale", "elements_given_scale", "acceptance",
)  # fmt: skip
#: What the array model takes from exact numbers: what a code means, and which code stands for NaN and for overflow.
SHARED = {"decode_real", "nan_codes", "overflow_code"}


def tree_of(module: str) -> ast.Module:
    place = ROOT / module.replace(".", "/")
    path = place.with_suffix(".py")
    return ast.parse((path if path.exists() else place / "__init__.py").read_text("utf-8"))


def imports_of(module: str) -> set[str]:
    """Modules of mxspec that a module imports, in functions too."""
    found = set()
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.ImportFrom) and node.module == "mxspec":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mxspec."):
            found.add((node.module or "").removeprefix("mxspec."))
    return found


def reached_from(module: str) -> set[str]:
    reached, new = set(), {module}
    while new:
        reached |= new
        new = {name for m in new for name in imports_of(m)} - reached
    return reached


def test_the_exact_model_reaches_no_array_arithmetic() -> None:
    reached = reached_from("exact")
    assert {"reals", "expressions", "formats", "profiles"} <= reached
    assert not reached & set(ARRAY_MODULES)


@pytest.mark.parametrize("module", ARRAY_MODULES)
def test_the_array_model_does_not_reach_the_exact_one(module: str) -> None:
    assert "exact" not in reached_from(module)


def test_what_the_array_model_takes_from_exact_numbers_is_what_is_said() -> None:
    """`mxspec.exact` and docs/evidence.md name the same three functions."""
    used = {
        node.attr
        for module in ("arrays", "elements", "scales", "fast", "blocks")
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "reals"
    }
    assert used == SHARED
    for text in (ast.get_docstring(tree_of("exact")), (ROOT.parent / "docs" / "evidence.md").read_text("utf-8")):
        assert text is not None
        assert all(f"`{name}`" in text for name in SHARED)
