"""A kit as one pytest file that needs NumPy alone."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import mxspec
from mxspec_conformance.kits import runtime
from mxspec_conformance.kits.golden import Block

#: The file runs in any project, so it follows no linter's settings, and its target may have no types.
_HEAD = '''# {title}
#
# {about}
#
# Written by mxspec {version}. SPDX-License-Identifier: CC0-1.0. It needs NumPy and pytest; torch if TORCH is set. Edit the next lines or
# set MX_KIT_TARGET, and run: pytest {name}
"""MX and NVFP4 golden blocks."""

from __future__ import annotations

# ruff: noqa
# mypy: ignore-errors
import os

#: The function under test: "package.module:function". It is called with (x [rows, columns] float32, fmt) and returns codes (uint8, or
#: two FP4 codes to a byte, the first in the low half) and scales (uint8, float8_e4m3 or float8_e8m0 [rows, columns / k]; of formats in
#: -f32 float32).
TARGET = os.environ.get("MX_KIT_TARGET", "")
#: The same for the way back, (codes, scales, fmt) -> float32; "" if there is none.
DEQUANTIZE = os.environ.get("MX_KIT_DEQUANTIZE", "")
#: The formats that it supports; () for all.
SUPPORTED = tuple(filter(None, os.environ.get("MX_KIT_FORMATS", "").split(",")))
#: The rule that it follows; "" for the nearest. The rules: {rules}.
RULE = os.environ.get("MX_KIT_RULE", "")
#: What `tensor_scale` is to it: "amax" (the largest magnitude), "encode" (S) or "decode" (1 / S); "" if none.
TENSOR_SCALE = os.environ.get("MX_KIT_TENSOR_SCALE", "")
#: Pass torch tensors.
TORCH = bool(os.environ.get("MX_KIT_TORCH", ""))
#: Also fail where OCP leaves the answer open (NaN, infinities, the sign of zero, the lowest scale).
STRICT = bool(os.environ.get("MX_KIT_STRICT", ""))
#: Keywords that it takes besides: "axis", "pad", "block".
KEYWORDS = tuple(filter(None, os.environ.get("MX_KIT_KEYWORDS", "").split(",")))
'''

_TESTS = '''
DATA = unpack_data("""
{data}
""")
CALLS = {calls!r}


def _load(name):
    import importlib

    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


class Refused(Exception):
    """The target raised what libraries refuse with."""


@pytest.fixture
def quantize():
    if not TARGET:
        pytest.skip("set TARGET at the head of this file, or MX_KIT_TARGET, to package.module:function")
    target = _load(TARGET)

    def ask(*given, **options):
        try:
            return target(*given, **options)
        except (AssertionError, RuntimeError, TypeError, ValueError) as e:  # how libraries refuse; an IndexError is a crash
            raise Refused(repr(e)) from e

    return plain(ask, torch=TORCH)


def _blocks(fmt):
    if SUPPORTED and fmt not in SUPPORTED:
        pytest.skip(f"{{fmt}} is not among SUPPORTED")
    return [b for b in DATA[fmt] if "g" not in b or TENSOR_SCALE]


@pytest.mark.parametrize("fmt", DATA)
def test_blocks(quantize, fmt):
    blocks = _blocks(fmt)
    found = ask_blocks(quantize, fmt, blocks, TENSOR_SCALE)
    rule, wrong = nearest_rule(found, fmt, blocks, RULE)
    failing = wrong if STRICT else closed_blocks(found, fmt, blocks, wrong)
    line = f"{{fmt}}: {{len(blocks)}} blocks, nearest rule {{rule}}, {{len(failing)}} differ, {{len(wrong) - len(failing)}} where OCP leaves it open"
    print(line)
    if failing and fmt.startswith("fp8") and not RULE:
        pytest.skip(f"{{line}}. No text fixes its scales: set RULE to the rule that the target has to follow")
    assert not failing, "\\n" + describe(quantize, fmt, blocks, found, rule, failing, TENSOR_SCALE)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("fmt", DATA)
def test_calls(quantize, fmt, name):
    needed = PATTERNS[name]
    if needed and needed not in KEYWORDS:
        pytest.skip(f"{{needed}} is not among KEYWORDS")
    calls = Calls(quantize, fmt, _blocks(fmt), TENSOR_SCALE)
    try:
        same = getattr(calls, name)()
    except Refused as e:
        if name not in ("strides", "halves"):
            raise
        pytest.skip(f"refused: {{e}}")
    assert same, f"{{fmt}}: {{getattr(Calls, name).__doc__}} The same block got another answer than in a plain call. {{calls.seen}}"


@pytest.mark.parametrize("fmt", DATA)
def test_dequantize(fmt):
    if not DEQUANTIZE:
        pytest.skip("DEQUANTIZE is not set")
    _blocks(fmt)
    wrong = wrong_values(_load(DEQUANTIZE), fmt)
    assert not wrong, wrong
'''


def write_pytest_file(blocks: Mapping[str, Sequence[Block]], calls: Sequence[str], *, name: str, title: str, about: str) -> str:
    """The text of the file. blocks: format -> blocks; calls: names of `runtime.PATTERNS`; about: a sentence or two."""
    rules = dict.fromkeys(rule for listed in blocks.values() for rule in runtime.rules_in(listed))
    head = _HEAD.format(
        title=title, about="\n# ".join(textwrap.wrap(about, 140)), version=mxspec.__version__, name=name, rules=", ".join(rules)
    )
    data = "\n".join(textwrap.wrap(runtime.pack_data(blocks), 1000))
    return (
        head
        + shorten(runtime, blocks).replace("import numpy as np\n", "import numpy as np\nimport pytest\n", 1)
        + _TESTS.format(data=data, calls=list(calls))
    )


def shorten(module: ModuleType, formats: Container[str]) -> str:
    """A runtime's text for some formats, without what a file that has to stay small can spare: its docstrings but those of call patterns, which
    are printed, types of results, headings, what only the writer needs, and its future import, which has to come first in a file."""
    _, _, text = Path(str(module.__file__)).read_text("utf-8").partition("from __future__ import annotations\n")
    text = re.sub(r"  # (noqa|type: ignore|fmt).*", "", text)
    text = re.sub(r"\n\n# [A-Z][^\n]*\n(?=\n)", "", text)
    text = re.sub(r"\ndef pack_\w+\(.*?(?=\n\n\n)", "", text, flags=re.DOTALL)
    text = re.sub(r'(?<!\(self\) -> bool:)\n +"""[^"]*"""(?=\n)', "", text)
    text = re.sub(r"\) -> [^\n]*:\n", "):\n", text)
    return re.sub(r'    "([\w-]+)": Format\(.*\n', lambda row: row[0] if row[1] in formats else "", text)
