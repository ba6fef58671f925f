"""A target's texts are data: on the terminal, in JSON, JUnit and HTML, whatever they say and however long they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from mxspec_conformance.targets.texts import clean_name, clean_text

TARGET = """
NAME, VERSION, FORMATS = {name!r}, "1", ["mxfp4"]


def quantize(x, fmt):
    raise {error}({message!r})
"""

TEXTS = {
    "an ordinary path in brackets": "cannot open [/opt/kernels/lut.bin]",
    "an ordinary dtype in brackets": "expected [torch.bfloat16]",
    "markup without an end": "[/red] [bold [link=x]",
    "escape sequences": "\x1b]0;title\x07\x1b[31mred\x1b[2J",
    "controls and NUL": "a\x00b\x07c\x85d",
    "a lone surrogate": "half \ud800 a character",
    "text from right to left": "\u202egnp.exe",
    "HTML": "<script>alert(1)</script>&amp;",
    "JSON and quotes": '{"verdict": "pass"}\\" \'',
    "100,000 characters": "x" * 100_000,
    "many lines": "\n" * 3000,
    "nothing": "",
}


def run(tmp_path: Path, **texts: str) -> tuple[subprocess.CompletedProcess[bytes], Path]:
    target = tmp_path / "target.py"
    given = {"name": "plain", "message": "plain", "error": "ValueError"} | texts
    target.write_text(TARGET.format(**given), "utf-8", errors="surrogatepass")
    out = tmp_path / "out"
    command = [sys.executable, "-m", "mxspec_conformance", "check", str(target), "--quick", "--json", f"{out}.json"]
    command += ["--junit", f"{out}.xml", "--html", f"{out}.html", "--markdown", f"{out}.md"]
    return subprocess.run(command, capture_output=True, timeout=120, check=False), out


@pytest.mark.parametrize("what", TEXTS)
@pytest.mark.parametrize("where", ["message", "name"])
def test_no_text_breaks_a_report(tmp_path: Path, what: str, where: str) -> None:
    done, out = run(tmp_path, **{where: TEXTS[what]})
    assert done.returncode == 1, done.stderr.decode()
    shown = done.stdout.decode("utf-8")
    assert "mxspec failed" not in shown + done.stderr.decode("utf-8")
    assert not set(map(chr, range(32))) & set(shown) - {"\n"}
    document = json.loads(out.with_suffix(".json").read_text("ascii"))
    assert document["counts"]["error"] > 0
    Xml.parse(out.with_suffix(".xml"))
    assert "<script>alert" not in out.with_suffix(".html").read_text("utf-8")
    assert max(f.stat().st_size for f in tmp_path.iterdir()) < 2_000_000


def test_an_ordinary_message_is_shown_as_it_is(tmp_path: Path) -> None:
    done, _ = run(tmp_path, message="cannot open [/opt/lut.bin], expected [torch.bfloat16]")
    shown = " ".join(done.stdout.decode("utf-8").split())
    assert "[/opt/lut.bin]" in shown
    assert "[torch.bfloat16]" in shown


def test_what_is_cut_says_how_long_it_was() -> None:
    assert clean_text("a" * 5000, 10) == "aaaaaaaaaa ... (5000 characters)"
    assert clean_text("a\x1bb") == "a\ufffdb"
    assert clean_name("a\n\tb") == "a b"
