"""Mistakes that kernels are known to make in products: what each would return, so that wrong outputs can be named."""

from __future__ import annotations

from collections.abc import Iterator

from mxspec_conformance.judge.products.mistakes.affine import list_affine_mistakes
from mxspec_conformance.judge.products.mistakes.epilogues import list_epilogue_mistakes
from mxspec_conformance.judge.products.mistakes.mistake import Mistake
from mxspec_conformance.judge.products.mistakes.operands import list_operand_mistakes
from mxspec_conformance.judge.products.mistakes.places import list_counted_twice, list_dropped, list_repeated
from mxspec_conformance.judge.products.mistakes.plain import list_plain_mistakes
from mxspec_conformance.judge.products.mistakes.rebased import list_rebased_mistakes
from mxspec_conformance.judge.products.mistakes.sparse import list_sparse_mistakes
from mxspec_conformance.judge.products.mistakes.written import list_written_mistakes

__all__ = ["Mistake", "list_mistakes"]


def list_mistakes() -> Iterator[Mistake]:
    """Every known mistake, the more common ones first."""
    yield from list_dropped()
    yield from list_operand_mistakes()
    yield from list_affine_mistakes()
    yield from list_plain_mistakes()
    yield from list_sparse_mistakes()
    yield from list_counted_twice()
    yield from list_repeated()
    yield from list_epilogue_mistakes()
    yield from list_rebased_mistakes()
    yield from list_written_mistakes()
