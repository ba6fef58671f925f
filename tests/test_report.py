"""Reports: what is drawn is what the JSON says, in files that need nothing else."""

from __future__ import annotations

import html.parser
import json
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

import mxspec
from mxspec.formats import ELEMENTS, SCALES, get_scalar
from mxspec_conformance.cli.main import main
from mxspec_conformance.render import RENDERERS
from mxspec_conformance.render.bits import describe_code, draw_code, draw_float
from mxspec_conformance.render.html import render_html
from mxspec_conformance.render.terminal import print_report
from mxspec_conformance.render.view import MARKS, view_result
from mxspec_conformance.results.report import Baseline, Failure, Report, Requirement, Verdict, read_report

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "reports" / "html" / "gguf.json"
SCREENSHOT = ROOT / "docs" / "report-gguf.png"

#: Text of a target that wants to break out of every format.
HOSTILE = '<script>alert(1)</script> & "quoted" | `pipe` ]]> \x00\x1b[31m \ud800 é'


def load_example() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(EXAMPLE.read_bytes())
    return document


def hostile_result() -> dict[str, Any]:
    """A result with every verdict, and with a target's own words where they can come."""
    requirements = [
        Requirement(f"quantize/mxfp4/{topic}", "must", "text", verdict, 10, 3, HOSTILE, [HOSTILE])
        for topic, verdict in zip(("exact", "nan", "inf", "axis", "tail", "position", "mixture", "overflow", "zero-sign"), Verdict, strict=True)
    ]  # fmt: skip
    given = {"x": {"lane 0": "0x40c00000 = 6.0"}, "other lanes": HOSTILE}
    requirements[1].first = Failure(
        HOSTILE, given, {"scale": "7f", "codes": {"lane 0": "07"}}, {"scale": "80", "codes": {"lane 0": "1f"}}, [HOSTILE], [HOSTILE], HOSTILE
    )  # fmt: skip
    target = {"name": HOSTILE, "version": HOSTILE, "transport": HOSTILE, "capabilities": {}}
    requirements.append(Requirement("quantize/mxfp4/subnormal", "must", "text", Verdict.FAIL, 10, 3, HOSTILE))
    report = Report(target=target, vectors="0" * 64, requirements=requirements, environment={"device": HOSTILE})
    report.baseline = Baseline(version="", vectors="", known=[requirements[-1].id])
    report.waivers = [
        {"id": HOSTILE, "reason": HOSTILE, "link": "javascript:alert(1)", "expires": "2026-01-01", "state": "expired", "requirements": []}
    ]  # fmt: skip
    document: dict[str, Any] = json.loads(json.dumps(report.as_dict()))
    return document


class Page(html.parser.HTMLParser):
    """Tags, links, ids and text of a page; unbalanced tags are an error."""

    VOID = ("meta", "br", "hr", "img", "link", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.sources: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [v for k, v in attrs if k == "id" and v]
        self.links += [v or "" for k, v in attrs if k == "href"]
        self.sources += [v or "" for k, v in attrs if k in ("src", "srcset")]
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


# Bits


@pytest.mark.parametrize("name", [*ELEMENTS, *SCALES])
def test_every_code_is_drawn_with_its_own_bits_and_value(name: str) -> None:
    fmt = get_scalar(name)
    import numpy as np

    values = mxspec.decode(np.arange(fmt.code_count, dtype=np.uint8), fmt)
    for code, value in enumerate(values):
        word = draw_code(code, fmt)
        assert int("".join(b.value for f in word.fields for b in f.bits), 2) == code
        assert sum(len(f.bits) for f in word.fields) == fmt.bits
        text = word.meaning.replace("−", "-")
        if name == "e8m0" and code != 255:
            assert describe_code(code, fmt) == "2" + str(code - 127).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        elif text not in ("NaN", "∞", "-∞"):
            assert np.float32(text) == value or f"{value:.4e}" == f"{float(text):.4e}"
            assert (text[0] == "-") == bool(np.signbit(value))
        else:
            assert not np.isfinite(value)


def test_differing_bits_are_marked_and_surplus_bits_shown() -> None:
    word = draw_code(0b1_1011, get_scalar("e2m1"), 0b0011)
    assert [f.kind for f in word.fields] == ["surplus", "sign", "exponent", "fraction"]
    assert [b.differs for f in word.fields for b in f.bits] == [True, True, False, False, False]
    assert word.meaning == "no code"
    assert [len(f.bits) for f in draw_float(0x3F800000).fields] == [1, 8, 23]


# The page


def test_the_page_says_what_the_result_says() -> None:
    document = load_example()
    page = Page(render_html([document]).decode("utf-8"))
    assert f"gguf {document['target']['version']}" in page.text
    off = [r for r in document["requirements"] if r["verdict"] not in ("pass", "unsupported")]
    for r in off:
        assert r["id"].replace("/", "-") in page.ids
        assert r["id"] in page.text
        for step in (r["first"] or {"steps": []})["steps"]:
            assert re.sub(r"\s+", " ", step) in page.text
    assert page.tags.count("article") == len(off)
    for verdict, count in document["counts"].items():
        assert f"{count} {verdict}" in page.text
    assert document["suite"]["vectors"] in page.text
    for key in ("processor", "python", "numpy"):
        assert str(document["environment"][key]) in page.text


def test_the_page_needs_nothing_else() -> None:
    page = Page(render_html([load_example()]).decode("utf-8"))
    assert not {"script", "link", "img", "iframe", "object", "embed"} & set(page.tags)
    assert page.sources == []
    assert all(link.startswith("#") for link in page.links)
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    style = re.search(r"<style>(.*?)</style>", render_html([load_example()]).decode("utf-8"), re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_what_a_target_says_stays_text() -> None:
    document = hostile_result()
    page = Page(render_html([document]).decode("utf-8", errors="strict"))
    assert "script" not in page.tags
    assert not any(link.startswith("javascript") for link in page.links)
    assert "<script>alert(1)</script>" in page.text
    assert {mark for v, mark in MARKS.items() if v != "unsupported"} <= set(page.text.replace("w!", "w! ").split())


def test_several_results_are_one_page_with_a_table() -> None:
    documents = [load_example(), hostile_result()]
    page = Page(render_html(documents).decode("utf-8"))
    assert "2 targets" in page.text
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_a_result_reads_back() -> None:
    document = load_example()
    again = read_report(document).as_dict()
    for d in (document, again):
        d.pop("suite")
        d.pop("uses", None)
    assert again == document


@pytest.mark.parametrize("document", [{}, {"schema": "mxspec-result/2"}, {**load_example(), "counts": {"pass": -1}}])
def test_what_is_no_result_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="this is no result of mxspec-result/1"):
        view_result(document)


# Other forms


def test_junit_counts_and_words() -> None:
    document = load_example()
    root = Xml.fromstring(RENDERERS["junit"]([document]))
    suite = root[0]
    cases = {f"{c.get('classname')}.{c.get('name')}": c for c in suite.iter("testcase")}
    counts = document["counts"]
    assert int(suite.get("tests", "")) == len(cases) == len(document["requirements"])
    assert int(suite.get("failures", "")) == len(list(suite.iter("failure"))) == counts["deviation"] + counts.get("fail", 0)
    assert int(suite.get("skipped", "")) == len(list(suite.iter("skipped"))) == counts["unsupported"] + counts["open"]
    failure = cases["mxspec.quantize.mxfp4.tie-even"].find("failure")
    assert failure is not None
    assert failure.get("type") == "deviation"
    assert "lies midway" in re.sub(r"\s+", " ", failure.text or "")


def test_markdown_tables_hold_together() -> None:
    for document in (load_example(), hostile_result()):
        text = RENDERERS["markdown"]([document]).decode("utf-8", errors="strict")
        block: list[str] = []
        for line in [*text.splitlines(), ""]:
            if line.startswith("|"):
                block.append(line)
            elif block:
                columns = {len(re.findall(r"(?<!\\)\|", row)) for row in block}
                assert len(columns) == 1, block
                block = []
        assert "<script>" not in text


@pytest.mark.parametrize(
    ("verdicts", "message", "color"),
    [
        (["pass", "unsupported"], "pass", "brightgreen"),
        (["pass", "waived"], "pass, 1 waived", "yellowgreen"),
        (["pass", "deviation", "open", "unsupported"], "1 pass, 1 deviation, 1 open, 1 unsupported", "yellow"),
        (["pass", "pass", "fail"], "2 pass, 1 fail", "red"),
        (["unsupported"], "nothing judged", "lightgrey"),
    ],
)
def test_badge(verdicts: list[str], message: str, color: str) -> None:
    requirements = [Requirement(f"decode/e2m1/t{i}", "must", "", Verdict(v)) for i, v in enumerate(verdicts)]
    target = {"name": "t", "version": "1", "transport": "python", "capabilities": {}}
    document = Report(target=target, vectors="0" * 64, requirements=requirements).as_dict()
    badge = json.loads(RENDERERS["badge"]([document]))
    assert badge == {"schemaVersion": 1, "label": "mxspec", "message": message, "color": color} | (
        {"isError": True} if color == "red" else {}
    )


def test_every_form_counts_alike() -> None:
    """The badge, Markdown, JUnit and the screen count requirements; text and bars of the HTML count the same cases."""
    document = load_example()
    due = ", ".join(f"{n} {verdict}" for verdict, n in document["counts"].items())
    report = read_report(document)
    screen = StringIO()
    print_report(report, Console(file=screen, width=200))
    assert f": {due}; " in screen.getvalue()
    assert f": {due}." in RENDERERS["markdown"]([document]).decode()
    assert json.loads(RENDERERS["badge"]([document]))["message"] == due
    assert int(Xml.fromstring(RENDERERS["junit"]([document]))[0].get("tests", "")) == sum(document["counts"].values())
    html = render_html([document]).decode()
    assert any(f.open_cases for f in report.formats)
    for result in report.formats:
        assert f">{result.distance:,} of {result.cases:,} cases of " in html, result.format
        assert result.distances[result.judged_against] == result.distance


# The command


def test_the_command_writes_all_forms(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(json.dumps(load_example()), encoding="ascii")
    done = CliRunner().invoke(main, ["report", str(EXAMPLE), str(tmp_path / "other.json"), "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    names = {p.name for p in (tmp_path / "out").iterdir()}
    kinds = (".html", ".junit.xml", ".md", ".badge.json")
    assert names == {"index.html", *(stem + kind for stem in ("gguf", "other") for kind in kinds)}
    index = Page((tmp_path / "out" / "index.html").read_text("utf-8"))
    assert set(index.links) == {"gguf.html", "other.html"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "contains no result"),
        ('{"schema": 1}', "this is no result of mxspec-result/1"),
        (json.dumps({**load_example(), "suite": {"version": "1", "vectors": "f" * 64}}), "2 versions of the vectors"),
    ],
)
def test_the_command_refuses_and_writes_nothing(content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(content, encoding="ascii")
    done = CliRunner().invoke(main, ["report", str(EXAMPLE), str(tmp_path / "r.json"), "-o", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert words in done.output
    assert not (tmp_path / "out").exists()


# The example


def test_the_example_is_current() -> None:
    command = "run: mxspec check gguf --json reports/html/gguf.json --html reports/html/gguf.html"
    document = load_example()
    assert EXAMPLE.with_suffix(".html").read_bytes() == render_html([document]), command
    assert SCREENSHOT.stat().st_size < 300_000


# A plain installation, without the extra `site`

WITHOUT = (
    "import sys; sys.modules |= dict.fromkeys(('jinja2', 'markupsafe', 'markdown_it'));"
    "from mxspec_conformance.cli.main import main; main(sys.argv[1:], prog_name='mxspec')"
)
NUMBERS = "NAME, ELEMENTS = 'numbers', ['e2m1']\ndef decode(codes, element):\n    import mxspec\n    return mxspec.decode(codes, element)\n"


@pytest.mark.parametrize("command", ["check kernel.py --html out", f"site {EXAMPLE} -o out", "compare x.npy --html out"])
def test_html_without_jinja2_is_refused_before_anything_is_judged(command: str, tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(NUMBERS, "utf-8")
    np.save(tmp_path / "x.npy", np.ones((2, 32), np.float32))
    done = subprocess.run([sys.executable, "-c", WITHOUT, *command.split()], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "HTML is written by the package jinja2, which is not installed: pip install jinja2" in " ".join(done.stderr.split())
    assert not (tmp_path / "out").exists()


def test_report_without_jinja2_writes_all_but_html(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT, "report", str(EXAMPLE), "-o", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"gguf.junit.xml", "gguf.md", "gguf.badge.json"}
    assert "no HTML: HTML is written by the package jinja2" in done.stderr


def test_all_other_reports_need_no_extra(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(NUMBERS, "utf-8")
    files = {f"--{kind}": tmp_path / f"report.{kind}" for kind in ("json", "junit", "markdown", "badge")}
    arguments = [str(word) for option in files.items() for word in option]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, "check", "kernel.py", "--quick", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert all(file.stat().st_size for file in files.values())
