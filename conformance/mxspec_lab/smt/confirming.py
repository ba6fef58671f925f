"""A solver's counterexample, asked again without the solver: the changed header is compiled, the model quantizes the block, `check` judges the kernel."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import mxspec
from mxspec import exact
from mxspec.formats import get_block
from mxspec_conformance import check
from mxspec_conformance.kits.c99 import Code, write_c99
from mxspec_conformance.results.report import Verdict
from mxspec_lab import c99
from mxspec_lab.smt.mutants import Mutant

_FLAGS = ("-std=c99", "-O2", "-w")


class Kernel:
    """The header, compiled, as a target of one format and profile."""

    NAME = "mxspec-c99"
    VERSION = "1"

    def __init__(self, fmt: str, profile: str, mutant: Mutant | None, folder: Path) -> None:
        header = write_c99([fmt])
        text = header.text if mutant is None else mutant.apply(header.text)
        self._library = c99.build(Code(text, header.rows, header.left_out), folder, _FLAGS)
        self._row = header.rows.index((profile, fmt, False))
        self.FORMATS = [fmt]

    def quantize(self, x: Any, fmt: str) -> tuple[Any, Any]:
        """Codes [rows, k] and scales [rows, blocks] of float32 rows."""
        k = get_block(fmt).k
        blocks = np.ascontiguousarray(x, np.float32).reshape(-1, k)
        codes, scales = c99.quantize(self._library, self._row, blocks, 0)
        return codes.reshape(x.shape), scales.reshape(*x.shape[:-1], -1)


def block_of(values: dict[str, int], k: int) -> Any:
    """The block [1, k] of a counterexample: the maximum, the element if there is one, zeros."""
    bits = np.zeros((1, k), np.uint32)
    bits[0, 0] = values["amax"]
    bits[0, 1] = values.get("x", 0)
    return bits.view(np.float32)


def confirm(mutant: Mutant | None, fmt: str, profile: str, values: dict[str, int] | None) -> dict[str, Any]:
    """What the compiled header, both models, and `check` say; values: a counterexample."""
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(fmt, profile, mutant, Path(folder))
        entry: dict[str, Any] = {}
        if values is not None:
            x = block_of(values, get_block(fmt).k)
            codes, scales = kernel.quantize(x, fmt)
            model = mxspec.quantize(x, fmt, profile=profile)
            exactly = exact.quantize_block([exact.real_from_bits(int(b)) for b in x[0].view(np.uint32)], fmt, profile=profile)
            entry = {
                "compiled": [int(scales[0, 0]), *codes[0, :2].tolist()],
                "model": [int(model.scales[0, 0]), *model.codes[0, :2].tolist()],
                "exact": [exactly.scale_code, *exactly.codes[:2]],
            }
        judged = _judge(kernel, fmt, profile, quick=True)
        if judged["check"] == "conforms":
            judged = _judge(kernel, fmt, profile, quick=False)
    return entry | judged


def _judge(kernel: Kernel, fmt: str, profile: str, *, quick: bool) -> dict[str, Any]:
    """The requirements of quantize that `check` says fail, and those whose answer OCP leaves open."""
    report = check(kernel, profile=profile, formats=[fmt], only=f"quantize/{fmt}/*", quick=quick)
    failing = sorted(r.id for r in report.requirements if r.verdict not in (Verdict.PASS, Verdict.OPEN, Verdict.UNSUPPORTED))
    entry: dict[str, Any] = {"check": "differs" if failing else "conforms", "level": "quick" if quick else "all", "requirements": failing}
    return entry | {"open": sorted(r.id for r in report.requirements if r.verdict is Verdict.OPEN)}
