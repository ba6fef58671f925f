"""What the documentation shows of transports and waivers is true: its lines fit the schema, its code compiles and conforms."""

from __future__ import annotations

import json
import re
import runpy
from datetime import date
from pathlib import Path

from mxspec_conformance.results.waivers import read_waivers
from mxspec_conformance.targets.interface import OPERATIONS
from mxspec_conformance.transports.description import find_reply_violation, find_violation

from tests.transports import EXAMPLES, build_library, judged, no_answers

DOCS = Path(__file__).resolve().parents[1] / "docs"
TARGETS = (DOCS / "targets.md").read_text("utf-8")
REPORTS = (DOCS / "reports.md").read_text("utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def test_the_description_is_one() -> None:
    (text,) = blocks(TARGETS, "json")
    assert find_violation(json.loads(text), "description") is None


def test_the_conversation_is_as_the_schema_says() -> None:
    lines = re.findall(r"^([<>]) (\{.*\})$", TARGETS, re.MULTILINE)
    said = [(side, json.loads(text.replace("...", ""))) for side, text in lines]
    assert [side for side, _ in said] == [">", "<", ">", "<", ">"]
    for side, document in said:
        if side == ">":
            assert find_violation(document, "request") is None
        elif "mxspec" in document:
            assert find_violation(document, "description") is None
        else:
            assert find_reply_violation(document) is None


def test_the_table_of_functions_is_the_interface() -> None:
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \| ([^|]*) \| ([^|]*)\| ([^|]*) \|$", TARGETS, re.MULTILINE)
    shown = {}
    for names, arguments, options, outputs in rows:
        several = names.replace("`", "").split(", ")
        for name, given, made in zip(several, arguments.split("; "), outputs.split("; "), strict=True):
            shown[name] = (tuple(given.split(", ")), tuple(o for o in options.strip().split(", ") if o), tuple(made.split(", ")))
    assert shown == {name: (o.arguments, o.options, tuple(x.name for x in o.outputs)) for name, o in OPERATIONS.items()}


def test_the_harness_knows_the_interface() -> None:
    """It is copied, and so imports nothing of the judge."""
    harness = runpy.run_path(str(EXAMPLES / "python" / "harness.py"))
    assert harness["FUNCTIONS"] == {name: (o.arguments, tuple(x.name for x in o.outputs)) for name, o in OPERATIONS.items()}
    assert harness["OPTIONS"] == {name: o.options for name, o in OPERATIONS.items() if o.options}


def test_the_shared_library_compiles_and_is_judged(tmp_path: Path) -> None:
    (code,) = blocks(TARGETS, "c")
    stub = (
        "#include <string.h>\n#include <stdint.h>\n"
        "static void my_quantize_mxfp4(const void *x, int64_t rows, int64_t columns, uint8_t *codes, uint8_t *scales) {\n"
        "    (void)x; memset(codes, 0, rows * columns); memset(scales, 127, rows * columns / 32);\n}\n"
    )
    source = tmp_path / "kernel.c"
    source.write_text(stub + code, encoding="ascii")
    report = judged(build_library(source, tmp_path / "libkernel.so"), only="quantize/mxfp4/*")
    assert "quantize/mxfp4/zero-block" not in no_answers(report), "zeros under any scale are a legal block of zeros"
    assert "quantize/mxfp4/exact" in no_answers(report)


def test_the_waiver_reads(tmp_path: Path) -> None:
    (text,) = blocks(REPORTS, "toml")
    path = tmp_path / "waivers.toml"
    path.write_text(text, encoding="utf-8")
    (waiver,) = read_waivers(path)
    assert (waiver.id, waiver.expires, waiver.failing) == ("quantize/mxfp4/tie-even", date(2027, 3, 31), 365)


def test_every_option_that_is_shown_exists() -> None:
    """The commands in both pages, by their options."""
    from mxspec_conformance.cli.main import main

    shown = re.findall(r"^\s*(?:run: )?mxspec ([a-z]+) (.*)$", TARGETS + REPORTS + (DOCS / "github-actions.yml").read_text("utf-8"), re.MULTILINE)  # fmt: skip
    assert {name for name, _ in shown} >= {"check", "bundle", "report"}
    for name, arguments in shown:
        command = main.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None, name
        known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
        quoted = re.sub(r"'[^']*'|#.*", "", arguments)
        assert set(re.findall(r"(?<!\w)--?[a-z-]+", quoted)) <= known
