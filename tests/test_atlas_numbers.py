"""Numbers that hand-written pages say of the atlas: each is that of a committed result or of the code, and none stands there unchecked."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import mxspec
from mxspec.formats import BLOCKS
from mxspec.profiles import get_profile, list_profiles
from mxspec.profiles.schema import Kind
from mxspec.tensorscale import TensorScale
from mxspec_conformance.atlas.documents import read_documents
from mxspec_conformance.atlas.entries import OLD_DAYS
from mxspec_conformance.atlas.reading import read_collection
from mxspec_conformance.atlas.site import render_site
from mxspec_conformance.atlas.submission import SHARE
from mxspec_conformance.attribution.maxima import _list_maxima
from mxspec_conformance.attribution.standing import _BLOCKS_DUE, _TURNED, _ZEROS
from mxspec_conformance.attribution.traces import trace
from mxspec_conformance.cli.main import main
from mxspec_conformance.scoring.subjects import list_mutant_subjects
from mxspec_lab.model_level import DISTRIBUTIONS
from mxspec_lab.transformer.loaders import LOADERS

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
WORDS = dict(enumerate(["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"], 2))
#: Numbers in digits and in words; not digits within names such as float32, MXFP4 and C99.
NUMBER = re.compile(
    rf"(?<![\w.#-])(?:\d+(?:,\d{{3}})*(?:\.\d+)?|{'|'.join(WORDS.values())}|tenth|half|hundred|thousand)(?!\w)", re.IGNORECASE
)
#: What is no measure: versions, names, powers, and exit codes, which tests/test_cli.py checks.
NAMES = re.compile(
    r"Python 3\.11\+|2\^32|2:4|exit code (?:is )?\d|\d if not, \d if something|and \d if mxspec|two (?:targets|profiles)\b", re.IGNORECASE
)
#: Pages, or one section of a page.
PAGES = ("README.md", "docs/reports.md#The site", "reports/atlas/README.md", "docs/checkpoints.md#Attribute")


def read_part(name: str) -> str:
    """A page, or the section that follows its name after a #."""
    page, _, section = name.partition("#")
    text = (ROOT / page).read_text("utf-8")
    return text.partition(f"\n## {section}\n")[2].partition("\n## ")[0] if section else text


def read_prose(name: str) -> str:
    """A page on one line, without code and without the targets of links."""
    text = re.sub(r"\]\([^)]*\)", "]", FENCE.sub("", read_part(name)))
    return re.sub(r"\s+", " ", re.sub(r"`[^`]*`", "`", text))


@cache
def load(name: str) -> Any:
    return json.loads((ROOT / "reports" / "atlas" / f"{name}.json").read_text("ascii"))


@dataclass(frozen=True)
class Said:
    """Words of a page with `#` for each number; `due` computes the numbers as the page writes them."""

    page: str
    words: str
    due: Callable[[], tuple[str, ...]]

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(r"([\w.,^]*\w)".join(map(re.escape, self.words.split("#"))))


def bound(limit: float, actual: float, *, at_least: float = 0.6) -> str:
    """A limit that a page names: it holds, and says something."""
    assert at_least * limit <= actual < limit, f"the page says less than {limit:g}; it is {actual:g}"
    return f"{limit:g}"


def transformer() -> Any:
    return load("transformer")


def measure_law() -> tuple[str, ...]:
    """By how much the law of independent numbers is too large, over all products."""
    factors = [1 / row["ratio"] for row in transformer()["layers"] if "weights" in row]
    return f"{min(factors):.1f}", f"{max(factors):.0f}"


def measure_first_layer() -> tuple[str, ...]:
    rows = [r for r in transformer()["layers"] if r["layer"] == "block 1, QKV" and "2:4" not in r["format"]]
    return (f"{100 * max(abs(r['ratio_with_gains'] - 1) for r in rows):.0f}",)


def measure_tokens() -> tuple[str, ...]:
    rows = [row for row in transformer()["rows"] if row["format"] == "mxint8"]
    assert all(abs(row["ratio"] - 1) < row["ratio_standard_error"] for row in rows)
    return (f"{100 * min(row['greedy_token_match'] for row in rows):.0f}",)


def read_browser_width() -> tuple[str, ...]:
    text = (ROOT / "tests" / "browser" / "test_site.py").read_text("utf-8")
    return tuple(set(re.findall(r"scrollWidth\"\) <= (\d+)", text[text.index("def test_narrow") : text.index("def test_wide")])))


def measure_files() -> tuple[str, ...]:
    """Megabytes of the JSON from which the site is rendered: as it is, and about as git stores it."""
    files = [p.read_bytes() for folder in ("reports", "docs") for p in sorted((ROOT / folder).rglob("*.json"))]
    packed = sum(len(zlib.compress(f, 1)) for f in files) / 1e6
    assert packed < 5
    return bound(25, sum(map(len, files)) / 1e6), bound(4, packed)


def measure_site() -> tuple[str, ...]:
    """Megabytes of the site of all committed results, at most."""
    pages = render_site(read_collection([ROOT / "reports", ROOT / "docs"]), read_documents(ROOT / "docs"))
    return (bound(8, sum(map(len, pages.values())) / 1e6),)


def list_bytes_of_zeros() -> tuple[str, ...]:
    """The scale bytes that profiles give to blocks of zeros, in a tensor that has other numbers."""
    found = set()
    for profile in list_profiles():
        for fmt, two_level in ((BLOCKS[f], level) for f in profile.formats if f in BLOCKS for level in (False, True)):
            if (profile.two_level if two_level else profile.one_level) is not None:
                x = np.zeros((2, fmt.k), np.float32)
                x[1] = 1
                found.add(int(mxspec.quantize(x, fmt.name, profile=profile.id, tensor_scale="auto" if two_level else None).scales[0, 0]))
    return tuple(f"{byte:02X}" for byte in sorted(found))


def find_smallest_byte() -> tuple[str, ...]:
    found = trace(get_profile("torchao-0.18/nvfp4/eager", "nvfp4"), BLOCKS["nvfp4"], TensorScale("amax", 1.0))
    assert found is not None
    return (f"{found.smallest_scale:02X}",)


SAID = (
    Said("README.md", "of more than # mutants a format", lambda: (bound(1, 130 / min(len([*list_mutant_subjects(f)]) for f in BLOCKS)) and "130",)),
    Said("README.md", "# are normative", lambda: (WORDS[sum(p.kind is Kind.NORMATIVE for p in list_profiles())].capitalize(),)),
    Said("docs/reports.md#The site", "rule on # distributions", lambda: (WORDS[len(DISTRIBUTIONS)],)),
    Said("docs/reports.md#The site", "older than # days", lambda: (str(OLD_DAYS),)),
    Said("docs/reports.md#The site", "less than # MB, # MB in a clone", measure_files),
    Said("docs/reports.md#The site", "the site is at most # MB", measure_site),
    Said("docs/reports.md#The site", "repeats a random # of the cases", lambda: ({10: "tenth"}[SHARE],)),
    Said("reports/atlas/README.md", "a decoder of # blocks and # million numbers", lambda: (
        WORDS[transformer()["model"]["blocks"]], f"{transformer()['model']['numbers'] / 1e6:.2f}")),
    Said("reports/atlas/README.md", "its rows are of # numbers", lambda: (str(transformer()["model"]["width"]),)),
    Said("reports/atlas/README.md", "a floor (#, the model has #)", lambda: (
        f"{transformer()['source']['perplexity_of_the_source_itself']:.2f}", f"{transformer()['model']['perplexity']:.2f}")),
    Said("reports/atlas/README.md", "in # steps", lambda: (f"{transformer()['model']['steps']:,}",)),
    Said("reports/atlas/README.md", "too large by a factor of # to #:", measure_law),
    Said("reports/atlas/README.md", "(within # % for QKV of the first block, 2:4 weights aside", measure_first_layer),
    Said("reports/atlas/README.md", "# loaders run the model", lambda: (WORDS[len(LOADERS)].capitalize(),)),
    Said("reports/atlas/README.md", "keeps # % of them", measure_tokens),
    Said("reports/atlas/README.md", "less than # kB", lambda: (bound(150, load("explorer")["script_bytes"] / 1e3),)),
    Said("reports/atlas/README.md", "windows of # pixels", read_browser_width),
    Said("docs/checkpoints.md#Attribute", "one below # of torchao's NVFP4", find_smallest_byte),
    Said("docs/checkpoints.md#Attribute", "by library one of #, #, #, #, #, #, #, #, #, #, # or # |", list_bytes_of_zeros),
    Said("docs/checkpoints.md#Attribute", "at least # zeros and no -0", lambda: (str(_ZEROS),)),
    Said("docs/checkpoints.md#Attribute", "at least # would", lambda: (str(_BLOCKS_DUE),)),
    Said("docs/checkpoints.md#Attribute", "so # float32 numbers on either side", lambda: (WORDS[len(_TURNED) // 2],)),
    Said("docs/checkpoints.md#Attribute", "one of # numbers", lambda: (f"{len(_list_maxima('bfloat16')):,}",)),
)  # fmt: skip


def show(name: str, words: str) -> str:
    return f"{name}: {words}"


@pytest.mark.parametrize("said", SAID, ids=lambda s: show(Path(s.page).stem, s.words))
def test_a_number_is_that_of_the_result(said: Said) -> None:
    found = said.pattern.findall(read_prose(said.page))
    assert len(found) == 1, "the page does not say this, or says it twice"
    assert found[0] == (said.due()[0] if said.words.count("#") == 1 else said.due())


def list_unchecked(page: str, text: str) -> list[str]:
    """Numbers of a text that no row speaks of, with the words around them."""
    spans = [m.span() for s in SAID if s.page == page for m in s.pattern.finditer(text)] + [m.span() for m in NAMES.finditer(text)]
    return [
        text[max(0, m.start() - 40) : m.end() + 20]
        for m in NUMBER.finditer(text)
        if not any(low <= m.start() and m.end() <= high for low, high in spans)
    ]


@pytest.mark.parametrize("page", PAGES)
def test_no_number_stands_unchecked(page: str) -> None:
    text = read_prose(page)
    assert list_unchecked(page, text) == []
    for planted in ("91 %", "1,234", "2.5 times", "three libraries"):
        assert list_unchecked(page, f"{text} It is {planted}."), planted


@pytest.mark.parametrize("more", [[], ["--source", "original"]], ids=["bytes alone", "source"])
def test_the_checkpoint_of_the_page_is_attributed_so(more: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    files = ROOT / "tests" / "containers" / "files"
    monkeypatch.chdir(files / "compressed-tensors-mxfp4-pack-quantized")
    monkeypatch.setenv("COLUMNS", "80")
    shown = FENCE.findall(read_part("docs/checkpoints.md#Attribute"))[bool(more)].replace("quantized.safetensors", "model.safetensors")
    arguments = ["attribute", "model.safetensors", *(str(files / f"{a}.safetensors") if a == "original" else a for a in more)]
    printed = CliRunner().invoke(main, arguments).output
    # The page shows the first of two groups of tensors.
    for part in shown.partition("nothing contradicts")[0].removeprefix("$ mxspec attribute model.safetensors\n").split("\n\n"):
        assert part in printed
