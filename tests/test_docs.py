"""What the documentation says is so: links, paths, command lines, the example of the README, and the lists it repeats."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from mxspec_conformance.atlas.letter import INSTALL
from mxspec_conformance.cli.main import main
from mxspec_lab.__main__ import main as lab
from mxspec_vectors.topics import TOPICS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "reports").rglob("*.md"), ROOT / "vectors" / "README.md"])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(text: str) -> str:
    """A page without its code blocks."""
    return FENCE.sub("", text)


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


# Links and paths


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as they are made where the repository is hosted."""
    headings = re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    text = page.read_text("utf-8")
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if re.match(r"[a-z]+://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            broken.append(link)
    assert broken == []


def test_every_page_is_linked() -> None:
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in PAGES
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
        if "://" not in link
    }
    assert [name_of(p) for p in (ROOT / "docs").glob("*.md") if p.resolve() not in linked] == []


#: What stands for a name that a reader chooses.
PLACEHOLDER = re.compile(r"\b(NEW|NAME|FILE)\b")


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "RELEASING.md", "SECURITY.md", "docs/architecture.md"])
def test_every_path_that_is_named_exists(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    roots = (ROOT, ROOT / "conformance" / "mxspec_conformance")
    named = {
        word.rstrip(":,;")
        for code in re.findall(r"`([^`\n]+)`", prose(text))
        for word in code.split()
        if re.fullmatch(r"[\w./*{},-]*/[\w./*{},-]*", word.rstrip(":,;"))
    } | set(re.findall(r"\btests/[\w/]+\.py", text))
    missing = [
        path
        for path in sorted(named)
        if not PLACEHOLDER.search(path)
        and not any(any(root.glob(path)) if "*" in path else (root / path).exists() for root in roots)
        and path.split("/")[0] not in ("build", "dist", "library-version", "operation")
    ]
    assert named
    assert missing == []


# Command lines


def command_lines(text: str) -> Iterator[str]:
    """Every call of mxspec in a page: in code blocks, and in backquotes."""
    blocks = [body for language, body in FENCE.findall(text) if language in ("", "console", "sh", "bash")]
    lines = [line for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`(mxspec [^`]+)`", prose(text).replace("\n", " "))
    for line in lines:
        yield from re.findall(r"(?:^|[$(] ?|&& |run: |\.venv/bin/)(mxspec [^)&|<>]*)", line.strip())


def root_context() -> click.Context:
    return click.Context(main, info_name="mxspec", **main.context_settings)


def find_mistake(program: str, *arguments: str) -> str | None:
    """What the command's own parser says of arguments; nothing is executed, and no file has to exist."""
    command: click.Command = {"mxspec": main, "mxspec_lab": lab}[program]
    context = click.Context(command, info_name=program, **main.context_settings)
    path = [program]
    rest = list(arguments)
    while True:
        try:
            given, rest, _ = command.make_parser(context).parse_args(args=rest)
        except click.ClickException as error:
            return error.format_message()
        if not isinstance(command, click.Group) or not rest:
            break
        path.append(rest[0])
        following = command.get_command(context, rest[0])
        if following is None:
            return f"no command {' '.join(path)}"
        command, rest = following, rest[1:]
        context = click.Context(command, parent=context, info_name=path[-1])
    if rest:
        return f"{rest} is left over"
    if len(path) == len(arguments) + 1:
        return None  # a command's name alone
    for parameter in command.params:
        value = given.get(parameter.name or "")
        given_one = isinstance(value, (str, list, tuple)) and bool(value)
        if isinstance(parameter, click.Argument) and parameter.required and not given_one:
            return f"{parameter.human_readable_name} is missing"
        values = value if isinstance(value, (list, tuple)) else [value]
        if isinstance(parameter.type, click.Choice):
            for chosen in (v for v in values if isinstance(v, str) and not v.isupper()):
                try:
                    parameter.type.convert(chosen, parameter, context)
                except click.BadParameter:
                    return f"{parameter.name}: {chosen} is not a choice"
    return None


@pytest.mark.parametrize("page", [*PAGES, ROOT / "docs" / "github-actions.yml"], ids=name_of)
def test_every_command_line_parses(page: Path) -> None:
    text = page.read_text("utf-8")
    calls = list(command_lines(text)) if page.suffix == ".md" else re.findall(r"(mxspec [a-z]+ .*)", text)
    calls += re.findall(r"\b(mxspec_lab [^`)&|<>\n]*)", text)
    wrong = {call: mistake for call in calls if (mistake := find_mistake(*shlex.split(call, comments=True)))}
    assert wrong == {}


def test_the_parser_of_command_lines_notices_mistakes() -> None:
    assert find_mistake("mxspec", "check", "x.py", "--format", "mxfp4") is None
    for line in (["chek"], ["diff", "a"], ["check", "x.py", "--ask", "y"], ["header", "x"], ["prove", "x", "--format", "fp4"]):
        assert find_mistake("mxspec", *line) is not None, line
    assert find_mistake("mxspec_lab", "mutants", "--fast") is not None


def test_the_readme_names_every_command() -> None:
    table = README[README.index("## Commands") : README.index("In Python:")]
    calls = [shlex.split(c) for c in re.findall(r"`((?!python )[^`]+)`", table)]
    named = {c[0] for c in calls if c[0].replace("-", "").isalpha() and not c[0].startswith("-")}
    assert named == set(main.list_commands(root_context()))
    assert {" ".join(c): find_mistake("mxspec", *c) for c in calls if len(c) > 1 and find_mistake("mxspec", *c)} == {}


# The README's first screen


def readme_target() -> str:
    (source,) = (body for language, body in FENCE.findall(README) if body.startswith("# my_kernel.py"))
    return str(source)


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 130


def check_as_shown(target: Path, folder: Path) -> None:
    """The verdict begins with what the README shows."""
    shown = next(body for _, body in FENCE.findall(README) if body.startswith("wrong: "))
    done = subprocess.run(
        [sys.executable, "-m", "mxspec_conformance", "check", str(target)],
        cwd=folder, env={**os.environ, "COLUMNS": "80"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    printed = "\n".join(line.rstrip() for line in done.stdout.splitlines())
    assert printed.startswith(shown), printed


def test_the_target_of_the_readme_gets_the_verdict_that_is_shown(tmp_path: Path) -> None:
    (tmp_path / "my_kernel.py").write_text(readme_target(), encoding="utf-8")
    check_as_shown(tmp_path / "my_kernel.py", tmp_path)


TRITON = ROOT / "conformance/examples/python/triton_mxfp4.py"


def test_the_triton_kernel_of_the_readme_is_that_of_its_file() -> None:
    (kernel,) = (body for _, body in FENCE.findall(README) if body.startswith("@triton.jit"))
    assert kernel in TRITON.read_text("utf-8")
    assert f"]({TRITON.relative_to(ROOT).as_posix()})" in README


def test_the_triton_kernel_on_tensors_of_torch_gets_the_verdict_of_its_twin(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    check_as_shown(TRITON, tmp_path)


def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = (body for language, body in FENCE.findall(README) if "from mxspec_conformance import check" in body)
    (tmp_path / "my_kernel.py").write_text(readme_target(), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(source, "README.md", "exec"), names)
    assert (names["t"].codes.shape, names["y"].dtype.name, names["report"].exit_code) == ((64,), "float32", 1)


# Lists that are repeated


def test_every_topic_is_explained() -> None:
    text = (ROOT / "docs" / "judge.md").read_text("utf-8")
    assert [t for t in TOPICS if f"`{t}`" not in text] == []


def test_the_packages_are_those_of_the_contract() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    contracts = pyproject()["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["name"] == "layers of the checker")
    table = text[text.index("| package | purpose |") : text.index("These rules are the contract")]
    rows = re.findall(r"^\| (`[a-z`, ]+`) \|", table, re.MULTILINE)
    assert rows == [", ".join(f"`{package}`" for package in layer.split(" | ")) for layer in layers]


def test_ci_covers_what_the_classifiers_promise() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    classifiers = pyproject()["project"]["classifiers"]
    versions = [c.rpartition(" ")[2] for c in classifiers if re.search(r":: 3\.\d+$", c)]
    (matrix,) = re.findall(r"^ +python: \[(.*)\]$", workflow, re.MULTILINE)
    assert re.findall(r'"([\d.]+)"', matrix) == versions
    assert "os: [ubuntu-latest, macos-latest, windows-latest]" in workflow


def test_the_speed_page_is_the_published_measurement() -> None:
    import json

    from mxspec_lab.bench import format_bench

    result = json.loads((ROOT / "reports" / "bench" / "cpu.json").read_text("ascii"))
    assert (ROOT / "reports" / "bench" / "speed.md").read_text("utf-8").endswith(format_bench(result)), (
        "replace the tables of reports/bench/speed.md by the output of: python -m mxspec_lab bench --markdown reports/bench/cpu.json"
    )


# Words that were replaced by the field's terms

HOMELY = re.compile(
    r"\b(told|plainest|found out|roads?|parts from|so would return|(?<!#)beside|stumbled?|spoilt|looked at|came to|goes nowhere|worded|nobody)\b",
    re.IGNORECASE,
)


def help_texts(context: click.Context) -> Iterator[tuple[str, str]]:
    group = context.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, parent=context, info_name=name)
        yield inner.command_path, command.get_help(inner)
        if isinstance(command, click.Group):
            yield from help_texts(inner)


#: Installing mxspec by its name alone, which no registry holds for this project.
BY_NAME = re.compile(
    r"""(?:pipx?3? (?:install|run)|uvx|uv (?:pip install|add|tool \w+))\b(?! --(?:from|spec) (?!mxspec))[^\n;&|`]*[ "']mxspec(?:\[[\w,]*\])?(?! @ )(?=$|[\s"'`=<>~!,;)])""",
    re.MULTILINE,
)


def test_nothing_installs_mxspec_by_a_name_that_anybody_can_register() -> None:
    assert BY_NAME.search("pip install mxspec torch==2.13.0")
    assert BY_NAME.search("pip install 'mxspec[gpu]'")
    assert BY_NAME.search("uvx --from mxspec mxspec check")
    assert BY_NAME.search("pipx run mxspec check")
    assert not BY_NAME.search("uvx --from WHEEL mxspec check")
    assert not BY_NAME.search("pipx run --spec WHEEL mxspec check")
    assert not BY_NAME.search(INSTALL)
    folders = ("mxspec", "gpu", "vectors", "conformance", "docs", "reports", ".github")
    suffixes = {".py", ".md", ".yml", ".yaml", ".toml", ".j2", ".js", ".c", ".h", ".sv", ".cpp", ".html", ".svg"}
    files = [p for folder in folders for p in (ROOT / folder).rglob("*") if p.suffix in suffixes]
    found = [f"{name_of(p)}: {m[0]}" for p in (*files, *ROOT.glob("*.*")) if p.is_file() for m in BY_NAME.finditer(p.read_text("utf-8"))]
    assert len(files) > 500
    assert found == []


def test_help_and_pages_use_the_terms_of_the_field() -> None:
    texts = {**dict(help_texts(root_context())), **{name_of(p): prose(p.read_text("utf-8")) for p in PAGES}}
    # Results, generated from the laboratory's and the layouts' own texts.
    texts = {name: text for name, text in texts.items() if not name.startswith("reports/")}
    assert {name: found for name, text in texts.items() if (found := HOMELY.findall(text))} == {}


# Python that is shown

#: Pages with Python that runs as it stands, in a folder with `my_kernel.py` and `model.safetensors`.
RUNNABLE = (
    "README.md", "docs/affine.md", "docs/attention.md", "docs/checkpoints.md", "docs/fused.md", "docs/fuzzing.md", "docs/judge.md", "docs/kits.md", "docs/layouts.md",
    "docs/lightx2v.md", "docs/products.md", "docs/python.md",
)  # fmt: skip
#: Pages whose Python needs what is not here, or is a part of a file: a GPU, the user's own library, one of our tables.
EXCERPTS = ("docs/gpu.md", "docs/mutants.md", "docs/targets.md", "reports/kits/trials.md")
_MODEL = """
import numpy as np, mxspec
from hypothesis import HealthCheck, settings
settings.register_profile("docs", max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("docs")
from mxspec import containers
_t = mxspec.quantize(np.ones((64, 128), np.float32), "nvfp4", profile="nvfp4-decode", tensor_scale="auto")
containers.write("model.safetensors", {"model.layers.0.mlp.up_proj": _t}, "modelopt")
def my_kernel(x):
    t = mxspec.quantize(x, "mxfp8_e4m3")
    return t.codes, t.scales
"""


def snippets_of(page: Path) -> list[str]:
    """All but the Triton kernel, which is held by tests above."""
    return [
        body for language, body in FENCE.findall(page.read_text("utf-8")) if language == "python" and not body.startswith("@triton.jit")
    ]


def test_every_page_with_python_is_run_or_named() -> None:
    shown = {name_of(page) for page in PAGES if snippets_of(page)}
    assert shown == {*RUNNABLE, *EXCERPTS}


def test_python_that_is_shown_runs(tmp_path: Path) -> None:
    """All snippets in one process; those with tests of their own call them."""
    (tmp_path / "my_kernel.py").write_text(readme_target(), encoding="utf-8")
    program = [_MODEL]
    for page in RUNNABLE:
        for number, body in enumerate(snippets_of(ROOT / page)):
            calls = "".join(f"\n{name}()" for name in re.findall(r"^def (test_\w+)", body, re.MULTILINE))
            program.append(f"exec(compile({body + calls!r}, {f'{page}, snippet {number}'!r}, 'exec'), dict(globals()))")
    (tmp_path / "program.py").write_text(
        "if __name__ == '__main__':\n" + "".join(f"    {line}\n" for part in program for line in part.splitlines()), "utf-8"
    )
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
