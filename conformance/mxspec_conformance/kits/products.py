"""Golden calls of products as a kit holds them, which of them find a kernel out, and the pytest file."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

import mxspec
from mxspec.formats import BLOCKS
from mxspec_conformance.kits import products_runtime as runtime, runtime as blocks_runtime
from mxspec_conformance.kits.golden import GROUPS, Kills
from mxspec_conformance.kits.pytest_file import shorten
from mxspec_vectors.build_dot import DOT_FILES
from mxspec_vectors.cases import DotCase, load_dot_cases
from mxspec_vectors.files import parse, read_vectors, vectors_root

#: The pairs of block formats that there are golden calls for.
PAIRS = tuple(pair for pair in DOT_FILES if all(fmt in BLOCKS for fmt in pair.split("@")))
#: Pairs of FP8 in groups: their calls are computed.
GROUP_PAIRS = tuple(f"{fmt}@{fmt}" for fmt in GROUPS)
#: Topics that no class decides.
_OPEN = ("zero-block",)
_LETTERS = {name: letter for letter, name in runtime.CLASSES.items()}

#: What a kit says of a call: see `products_runtime.answer_of`.
Call = dict[str, Any]


@lru_cache(maxsize=16)
def list_calls(pair: str) -> tuple[dict[str, dict[str, str]], tuple[Call, ...]]:
    """(tables, calls) of a pair of formats; answers that the exact product gives, rounded once, are not stored."""
    if pair in GROUP_PAIRS:
        return {part: {} for part in runtime.PARTS}, ()
    stored = parse(read_vectors(vectors_root() / "dot" / f"{pair}.json"), f"dot/{pair}.json")
    tables = stored["recipes"]["sides"]
    cases = {case.id: case for case in load_dot_cases(pair)}
    entries = [(group["topic"], entry) for group in stored["groups"] for entry in group["cases"] if group["topic"] not in _OPEN]
    return tables, tuple(_as_call(pair, tables, topic, entry, cases[entry["id"]]) for topic, entry in entries)


def _as_call(pair: str, tables: Mapping[str, Any], topic: str, entry: Mapping[str, Any], case: DotCase) -> Call:
    call: Call = {"i": entry["id"], "p": topic, "s": list(entry["shape"]), "o": entry["out"], "r": list(entry["recipe"][1:])}
    if "a_tensor_scale" in entry or "b_tensor_scale" in entry:
        call["t"] = [entry.get("a_tensor_scale"), entry.get("b_tensor_scale")]
    groups: dict[int, list[str]] = {}
    for name, answer in case.answers.items():
        groups.setdefault(id(answer), []).append(name)
    computed = runtime.exact_product(*runtime.operands_of(pair, tables, call), entry["out"])
    call["e"] = {}
    for names in groups.values():
        answer = case.answers[names[0]]
        ends = [np.asarray(x).astype(np.float64) for x in (answer.low, answer.high)]
        same = all(np.array_equal(x, computed, equal_nan=True) for x in ends)
        texts = [_bits(x) for x in ((answer.low,) if np.array_equal(ends[0], ends[1], equal_nan=True) else (answer.low, answer.high))]
        call["e"]["".join(_LETTERS[name] for name in names)] = 1 if same else texts
    return call


def _bits(x: Any) -> str:
    flat = np.asarray(x).reshape(-1)
    words = flat.view(f"u{flat.dtype.itemsize}")
    return "".join(f"{int(w):0{2 * flat.dtype.itemsize}x}" for w in words)


#: Makes a fresh kernel: (a_codes, a_scales, b_codes, b_scales, **options) -> outputs.
Build = Callable[[], runtime.Matmul]


def find_kills(
    build: Build, pair: str, calls: Sequence[Call], letter: str, numbers: str = "", patterns: Iterable[str] = tuple(runtime.PATTERNS)
) -> Kills:
    """Which calls and call patterns find a kernel out. letter: its class; numbers: the dtype to which it may round its operands."""
    tables, _ = list_calls(pair)
    matmul = build()
    failing = frozenset(call["i"] for call in calls if _fails(matmul, pair, tables, call, letter, numbers))
    wrong = frozenset(f"call:{name}" for name in patterns if not design_holds(build, pair, name, letter, numbers))
    return Kills(blocks=failing, calls=wrong)


def _fails(matmul: runtime.Matmul, pair: str, tables: Mapping[str, Any], call: Call, letter: str, numbers: str) -> bool:
    try:
        with np.errstate(all="ignore"):
            return bool(runtime.check_call(matmul, pair, tables, call, letter, numbers))
    except Exception:
        return True


def design_holds(build: Build, pair: str, name: str, letter: str, numbers: str = "") -> bool:
    """Whether all calls of a pattern give what they must."""
    try:
        with np.errstate(all="ignore"):
            designs = runtime.Designs(build(), pair, letter, numbers, ("float32", "bfloat16", "float16"))
            return next(getattr(designs, name)(), None) is None
    except Exception:
        return False


_HEAD = '''\
# {title}. Written by mxspec {version}. SPDX-License-Identifier: CC0-1.0
# {about}
# Edit the lines below, or set the environment variable MX_KIT_MATMUL, and run: pytest {name}
"""Golden calls of MX and NVFP4 products."""

from __future__ import annotations

# ruff: noqa
# mypy: ignore-errors
import os

#: The function under test: "package.module:function". It is called with (a_codes, a_scales, b_codes, b_scales, out_dtype="float32") and returns
#: the product [m, n] of a [m, k] and the transpose of b [n, k]. Codes are uint8, one to a byte; scales uint8 [rows, k / block], row-major, of formats in -f32
#: float32. NVFP4 operands come with a_tensor_scale, b_tensor_scale: floats that multiply.
MATMUL = os.environ.get("MX_KIT_MATMUL", "")
#: The pairs that it supports; () for all: {pairs}.
PAIRS = tuple(filter(None, os.environ.get("MX_KIT_PAIRS", "").split(",")))
#: How it adds: {classes}.
CLASS = os.environ.get("MX_KIT_CLASS", "float32")
#: The dtype to which it rounds code times scale before it multiplies, as W4A16 kernels do: "", "float16" or "bfloat16".
NUMBERS = os.environ.get("MX_KIT_NUMBERS", "")
#: The dtypes of outputs that it has.
OUTPUTS = tuple(os.environ.get("MX_KIT_OUTPUTS", "float32").split(","))
#: "alpha" if it takes alpha, beta, c [m, n] and bias [n]: alpha a b^T + beta c + bias.
KEYWORDS = tuple(filter(None, os.environ.get("MX_KIT_KEYWORDS", "").split(",")))
#: Pass torch tensors.
TORCH = bool(os.environ.get("MX_KIT_TORCH", ""))
'''

_TESTS = '''
DATA = unpack_calls("""
{data}
""")
DESIGNS = {patterns!r}
LETTER = next((letter for letter, name in CLASSES.items() if name == CLASS), "")


@pytest.fixture
def matmul():
    if not MATMUL:
        pytest.skip("set MATMUL at the head of this file, or MX_KIT_MATMUL, to package.module:function")
    assert LETTER, f"CLASS is {{CLASS!r}}; allowed are {{', '.join(CLASSES.values())}}"
    import importlib

    module, _, function = MATMUL.partition(":")
    target = getattr(importlib.import_module(module), function)

    def call(*given, **options):
        if TORCH:
            import torch

            given = [torch.from_numpy(x.copy()) for x in given]
            options = {{k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}}
            options["out_dtype"] = getattr(torch, options["out_dtype"])
        return target(*given, **options)

    return call


def _check(pair):
    if PAIRS and pair not in PAIRS:
        pytest.skip(f"{{pair}} is not among PAIRS")


@pytest.mark.parametrize("pair", [pair for pair in DATA if DATA[pair]["c"]])
def test_calls(matmul, pair):
    _check(pair)
    found = [check_call(matmul, pair, DATA[pair]["t"], c, LETTER, NUMBERS) for c in DATA[pair]["c"] if c["o"] in OUTPUTS]
    wrong = [w for w in found if w]
    print(f"{{pair}}: {{sum(w is not None for w in found)}} calls, {{len(wrong)}} differ")
    assert not wrong, f"{{pair}}, class {{CLASS}}: {{len(wrong)}} of {{len(found)}} calls differ. The first:\\n{{wrong[0]}}"


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("pair", DATA)
def test_designs(matmul, pair, name):
    _check(pair)
    if PATTERNS[name] and PATTERNS[name] not in KEYWORDS:
        pytest.skip(f"{{PATTERNS[name]}} is not among KEYWORDS")
    for wrong in getattr(Designs(matmul, pair, LETTER, NUMBERS, OUTPUTS), name)():
        pytest.fail(f"{{pair}}: {{wrong}}", pytrace=False)
'''


def select(pair: str, ids: Iterable[str]) -> dict[str, Any]:
    """Calls of a pair by their ids, in that order, and the tables that they use."""
    tables, calls = list_calls(pair)
    known = {call["i"]: call for call in calls}
    chosen = [known[name] for name in ids]
    used = {part: {call["r"][i][1] for call in chosen} for i, part in enumerate(runtime.PARTS)}
    return {"t": {part: {name: text for name, text in tables[part].items() if name in used[part]} for part in runtime.PARTS}, "c": chosen}


def write_products_file(calls: Mapping[str, Iterable[str]], patterns: Sequence[str], *, name: str, title: str, about: str) -> str:
    """The text of the file. calls: pair -> ids of golden calls; patterns: names of `products_runtime.PATTERNS`."""
    data = {pair: select(pair, ids) for pair, ids in calls.items()}
    head = _HEAD.format(
        title=title, about="\n# ".join(textwrap.wrap(about, 140)), version=mxspec.__version__, name=name, pairs=", ".join(data),
        classes=", ".join(runtime.CLASSES.values()),
    )  # fmt: skip
    packed = "\n".join(textwrap.wrap(runtime.pack_calls(data), 1000))
    return head + _runtime_text({fmt for pair in data for fmt in pair.split("@")}) + _TESTS.format(data=packed, patterns=list(patterns))


def _runtime_text(formats: Container[str]) -> str:
    """Both runtimes' parts."""
    blocks = shorten(blocks_runtime, formats)
    given = blocks[blocks.index("class Format:") : blocks.index("def unpack_data")]
    text = shorten(runtime, formats).replace("\nfrom mxspec_conformance.kits.runtime import FORMATS, Format\n", "")
    return text.replace("import numpy as np\n", "import numpy as np\nimport pytest\n", 1).replace(
        "Array = Any\n", f"Array = Any\n\n\n{given}", 1
    )
