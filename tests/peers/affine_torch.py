"""The zero points of GPTQ and AWQ against the model, bit for bit, from checkouts and on torch's CPU.

    MXSPEC_GPTQ_SOURCE=... MXSPEC_LLM_AWQ_SOURCE=... python -m tests.peers.affine_torch [--json reports/affine/torch.json]

Needs torch. Of GPTQ `Quantizer` in quant.py is run (mse off), of llm-awq `pseudo_quantize_tensor` in awq/quantize/quantizer.py
alone: its module imports models that are not needed. Neither returns codes; what they return tells them: a scale times a whole
number, which is another value for each code.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.util
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import affine
from mxspec.affine.formats import AffineFormat, Offset
from mxspec_conformance.results.environment import describe_environment
from mxspec_lab.evidence.status import stamp
from mxspec_vectors.writing import write_file

from tests.peers.affine_mlx import Comparison, bits_of, list_inputs

Values = npt.NDArray[Any]
#: Scales, zero points and dequantized values of groups [n, g]; None for groups that the library refuses.
Run = Callable[[Values, int], tuple[Values, Values, Values] | None]

BITS, GROUPS, DTYPES = (2, 3, 4, 8), (32, 64, 128), ("float32", "float16", "bfloat16")
#: Library -> (environment variable, file).
SOURCES = {"gptq": ("MXSPEC_GPTQ_SOURCE", "quant.py"), "llm-awq": ("MXSPEC_LLM_AWQ_SOURCE", "awq/quantize/quantizer.py")}


def find_source(library: str) -> Path:
    """The file of a library's checkout."""
    variable, name = SOURCES[library]
    if variable not in os.environ:
        raise SystemExit(f"{variable} is not set; it has to name a checkout of {library}")
    return Path(os.environ[variable]) / name


def to_torch(x: Values) -> Any:
    """A tensor with the same bits."""
    import torch

    return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16) if x.dtype.name == "bfloat16" else torch.from_numpy(x)


def from_torch(a: Any, like: Any) -> Values:
    """An array with the same bits."""
    import torch

    return a.contiguous().view(torch.int16).numpy().view(like) if a.dtype == torch.bfloat16 else a.contiguous().numpy()


def make_gptq(*, symmetric: bool) -> Run:
    """GPTQ's quantizer, one group to a row; it computes in float32."""
    spec = importlib.util.spec_from_file_location("gptq_quant", find_source("gptq"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def run(x: Values, bits: int) -> tuple[Values, Values, Values]:
        quantizer = module.Quantizer()
        quantizer.configure(bits, perchannel=True, sym=symmetric, mse=False)
        w = to_torch(x.astype(np.float32))
        quantizer.find_params(w, weight=True)
        scale, zero = quantizer.scale, quantizer.zero
        values = module.quantize(w, scale, zero, quantizer.maxq)
        return scale[:, 0].numpy(), zero[:, 0].numpy(), values.numpy()

    return run


def make_awq() -> Run:
    """llm-awq's function, in the dtype of its input."""
    import torch

    tree = ast.parse(find_source("llm-awq").read_text("utf-8"))
    wanted = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "pseudo_quantize_tensor"]
    names: dict[str, Any] = {"torch": torch}
    exec(compile(ast.Module(wanted, []), "quantizer.py", "exec"), names)

    def run(x: Values, bits: int) -> tuple[Values, Values, Values] | None:
        try:
            values, scales, zeros = names["pseudo_quantize_tensor"](
                to_torch(x), n_bit=bits, zero_point=True, q_group_size=x.shape[1], get_scale_zp=True
            )
        except AssertionError:  # a NaN
            return None
        dtype = x.dtype
        return tuple(from_torch(a, dtype) for a in (scales[:, 0], zeros[:, 0], values))  # type: ignore[return-value]

    return run


def compare(run: Run, profile: str, fmt: AffineFormat, count: int) -> Iterator[Comparison]:
    """All comparisons of one profile in one format; groups that are refused, or whose zero point is NaN, are counted in none."""
    for inputs, x in list_inputs(fmt, count):
        found = Comparison("quantize", fmt.name, f"{profile}: {inputs}")
        whole = run(x, fmt.bits)
        parts = [(x, whole)] if whole is not None else [(x[i : i + 1], run(x[i : i + 1], fmt.bits)) for i in range(len(x))]
        for given, answer in parts:
            if answer is None:
                continue
            stored = ~np.isnan(answer[1].astype(np.float32))
            kept = [a[stored] for a in answer]
            ours_of = given[stored]
            ours = affine.quantize(ours_of, bits=fmt.bits, group=fmt.group, profile=profile)
            values = ours.dequantize(fmt.dtype, contract=fmt.dtype)
            zeros = kept[1].astype(np.float32)
            pairs = ((kept[0], ours.scales[:, 0]), (zeros, ours.offsets[:, 0].astype(np.float32)), (kept[2], values))
            for what, (theirs, mine) in zip(("scale", "zero", "value"), pairs, strict=True):
                wrong = (bits_of(theirs) != bits_of(mine)) & ~((theirs == 0) & (mine == 0))
                found.compared += wrong.size
                found.different += int(wrong.sum())
                if wrong.any() and not found.first:
                    place = tuple(int(i) for i in np.argwhere(wrong)[0])
                    found.first = f"{what} {place}: {theirs[place]!r}, the model {mine[place]!r}"
            found.scales += len(ours_of)
        yield found


def run_all(count: int) -> Iterator[Comparison]:
    """Every comparison."""
    makers: dict[str, Callable[[], Run]] = {
        "gptq/asymmetric": lambda: make_gptq(symmetric=False),
        "gptq/symmetric": lambda: make_gptq(symmetric=True),
        **{f"awq/{dtype}": make_awq for dtype in DTYPES},
    }
    for profile, make in makers.items():
        run = make()
        for bits in BITS:
            for group in GROUPS:
                dtype = profile.partition("/")[2] if profile.startswith("awq") else "float32"
                yield from compare(run, profile, AffineFormat(bits=bits, group=group, offset=Offset.ZERO, dtype=dtype), count)


def main() -> None:
    """Compare everything and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--groups", type=int, default=1000, help="random groups, and threshold groups, of each format")
    asked = parser.parse_args()
    found = list(run_all(asked.groups))
    totals: dict[str, Counter[str]] = {}
    for c in found:
        totals.setdefault(c.inputs.partition(":")[0], Counter()).update(compared=c.compared, different=c.different, groups=c.scales)
    sources = {name: hashlib.sha256(find_source(name).read_bytes()).hexdigest() for name in SOURCES}
    document = {
        "libraries": {"torch": version("torch")}, "sources": sources, "environment": describe_environment(),
        "totals": {name: dict(counter) for name, counter in totals.items()},
        "comparisons": [asdict(c) for c in found],
    }  # fmt: skip
    for name, counter in totals.items():
        print(f"{name}: {counter['groups']} groups, {counter['compared']} compared, {counter['different']} different")
    for c in found:
        if c.different:
            print(c.format, c.inputs, c.different, c.first)
    if asked.json:
        write_file(asked.json, (json.dumps(document, indent=1) + "\n").encode("ascii"))
        stamp(asked.json)


if __name__ == "__main__":
    main()
