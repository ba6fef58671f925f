"""`check --ci`: the cache never answers for what has changed, the list of known failures, annotations, and what was not judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from mxspec_conformance.cli.ci import find_place, list_annotations, open_memory
from mxspec_conformance.cli.init import write_template
from mxspec_conformance.results.baseline import BaselineError, apply_list, read_list, render_list
from mxspec_conformance.results.environment import describe_git
from mxspec_conformance.results.report import Report, Requirement, Verdict, read_report

KERNEL = """import helper
NAME, VERSION, FORMATS, PROFILE = 'k', '1', ['mxfp4'], 'mx-floor'

def quantize(x, fmt):
    return helper.answer(x, fmt)
"""
RIGHT = "import mxspec\ndef answer(x, fmt):\n    t = mxspec.quantize(x, fmt)\n    return t.codes, t.scales\n"
#: The sign of zero is lost, which is open, and ties go up: the codes of 7 become 6.
WRONG = RIGHT.replace("t.codes", "t.codes - (t.codes == 7)")
ROOT = Path(__file__).resolve().parents[1]


def run(folder: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    settings = {k: v for k, v in os.environ.items() if not k.startswith("GITHUB_")} | environment
    settings["PYTHONPATH"] = os.pathsep.join(str(ROOT / part) for part in ("", "vectors", "conformance", "gpu"))
    command = [sys.executable, "-m", "mxspec_conformance", "check", *arguments]
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def write_kernel(folder: Path, helper: str = RIGHT, kernel: str = KERNEL) -> None:
    (folder / "k.py").write_text(kernel, "utf-8")
    (folder / "helper.py").write_text(helper, "utf-8")


def test_an_unchanged_target_answers_from_the_cache_and_a_changed_one_does_not(tmp_path: Path) -> None:
    write_kernel(tmp_path)
    only = ("--ci", "k.py", "--only", "quantize/mxfp4/mixture")
    first = run(tmp_path, *only)
    junit = tmp_path / "mxspec-junit.xml"
    before = junit.read_bytes()
    junit.unlink()
    again = run(tmp_path, *only)
    assert (first[0], again[0]) == (0, 0), first[1]
    assert "from the cache" not in first[1]
    assert again[1].replace("\n", " ").count("from the cache") == 1, again[1]
    assert junit.read_bytes() == before
    write_kernel(tmp_path, WRONG)  # a module that the target imports
    code, said = run(tmp_path, *only, GITHUB_ACTIONS="true")
    assert code == 1
    assert "from the cache" not in said
    assert "::error file=k.py,line=4,title=mxspec::quantize mxfp4: " in said
    code, said = run(tmp_path, *only)
    assert (code, "from the cache" in said) == (1, True), said


def test_a_module_from_elsewhere_is_looked_at_too(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    write_kernel(tmp_path / "there")
    (tmp_path / "here/k.py").write_text(f"import sys\nsys.path.insert(0, {str(tmp_path / 'there')!r})\n{KERNEL}", "utf-8")
    only = ("--ci", "k.py", "--only", "quantize/mxfp4/mixture")
    assert run(tmp_path / "here", *only)[0] == 0
    code, said = run(tmp_path / "here", *only)
    assert (code, "from the cache" in said) == (0, True), said
    write_kernel(tmp_path / "there", WRONG)
    assert run(tmp_path / "here", *only)[0] == 1


def test_what_cannot_tell_its_files_or_failed_by_accident_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    on_card = report_of(("exact", "pass"))
    on_card.environment["device"] = "NVIDIA H100"
    for report, files, reason in (
        (report_of(("exact", "timeout")), [], "may not come again"), (on_card, [], "NVIDIA H100"), (report_of(("exact", "pass")), None, "does not tell"),
    ):  # fmt: skip
        memory = open_memory(["k.py"], {}, [], [])
        if files is not None:
            memory.learn(files)
        assert reason in memory.keep([report], [])
        assert memory.recall() is None
    memory.learn(["/usr/lib/libcuda.so.1"])
    assert "the driver of a card" in memory.keep([report_of(("exact", "pass"))], [])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"digest": 1}', '{"digest": "D", "elsewhere": [], "lost": [], "results": []}'])
def test_a_damaged_cache_is_no_answer(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mxspec_conformance.cli.ci._list_sources", lambda: ())  # other tests write into this repository
    memory = open_memory([], {}, [], [])
    assert memory.keep([report_of(("exact", "pass"))], []) == ""
    assert memory.recall() is not None
    memory.file.write_text(text.replace("D", memory.digest), "utf-8")
    assert memory.recall() is None


def test_the_digest_sees_every_file_and_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mxspec_conformance.cli.ci._list_sources", lambda: ())  # other tests write into this repository
    write_kernel(tmp_path)
    waivers, own = tmp_path.parent / f"{tmp_path.name}-waivers.toml", tmp_path / "junit.xml"
    waivers.write_text("", "utf-8")
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    for name in ("file", "linked"):
        (outside / name).write_text("0", "utf-8")
    for link, to in (("loop", "loop"), ("nowhere", "none"), ("folder", outside), ("again", tmp_path), ("link", outside / "linked")):
        (tmp_path / link).symlink_to(to)

    def digest(**options: object) -> tuple[str, str]:
        memory = open_memory(["k.py"], options, [waivers], [own])
        return memory.digest, memory.reason

    found = [digest()]
    own.write_text("written by the run", "utf-8")
    assert digest() == found[0]
    assert found[0][1] == ""
    for change in (
        lambda: (tmp_path / "new.cu").write_text("//", "utf-8"),
        lambda: (tmp_path / "helper.py").write_text(WRONG, "utf-8"),
        lambda: waivers.write_text("level = 'full'", "utf-8"),
        lambda: (tmp_path / "new.cu").rename(tmp_path / "other.cu"),
        lambda: (outside / "file").write_text("1", "utf-8"),
        lambda: (outside / "linked").write_text("1", "utf-8"),
        lambda: monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7"),
        lambda: monkeypatch.setenv("MY_KERNEL_BACKEND", "fast"),
    ):
        change()
        found.append(digest())
    monkeypatch.setenv("GITHUB_RUN_ID", "1")
    assert digest() == found[-1], "what differs from run to run does not count"
    found.append(digest(profile="mx-even"))
    assert len({d for d, _ in found}) == len(found)


def test_what_was_named_and_not_judged_is_exit_code_2(tmp_path: Path) -> None:
    """A format that the target lists, too; and a profile that leaves one of its formats out."""
    write_kernel(tmp_path, kernel=KERNEL.replace("['mxfp4'], 'mx-floor'", "['mxfp4', 'nvfp4'], ['mx-floor', 'nvfp4-paper']"))
    code, said = run(tmp_path, "--ci", "k.py", "--profile", "mx-floor")
    assert code == 2
    assert "k: nvfp4 is not judged" in " ".join(said.split())
    assert run(tmp_path, "--ci", "k.py", "--profile", "mx-floor", "--format", "mxfp4")[0] == 0


@pytest.mark.parametrize("kind", ["dequantizer", "product", "layout"])
def test_what_rounds_nothing_needs_no_profile(kind: str, tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(write_template(kind, "numpy", Path("k.py")), "utf-8")
    code, said = run(tmp_path, "--ci", "k.py")
    assert code == 0, said


def test_without_a_profile_nothing_is_green(tmp_path: Path) -> None:
    write_kernel(tmp_path, kernel=KERNEL.replace(", PROFILE", "").replace(", 'mx-floor'", ""))
    code, said = run(tmp_path, "--ci", "k.py", GITHUB_ACTIONS="true")
    assert code == 2
    assert "write PROFILE = 'mx-floor' in it" in " ".join(said.split())
    assert "::error file=k.py,line=1,title=mxspec::k names no profile" in said
    assert run(tmp_path, "--ci", "k.py", "--profile", "nearest")[0] == 0


def report_of(*entries: tuple[str, str], level: str = "full") -> Report:
    requirements = [
        Requirement(f"quantize/mxfp4/{topic}", "must", "text", Verdict(verdict), 9, int(verdict == "fail")) for topic, verdict in entries
    ]
    target = {"name": "k", "version": "1", "transport": "python", "capabilities": {}}
    return Report(target=target, vectors="0" * 64, requirements=requirements, details={"level": "quick"} if level == "quick" else {})


@pytest.mark.parametrize(
    ("text", "level", "verdicts", "code", "gone", "unmatched"),
    [
        ("exact", "full", {"exact": "fail", "nan": "pass"}, 0, [], []),
        ("exact", "quick", {"exact": "fail", "nan": "pass"}, 0, [], []),
        ("exact", "full", {"exact": "fail", "nan": "fail"}, 1, [], []),
        ("exact\nnan", "quick", {"exact": "fail", "nan": "pass"}, 1, ["nan"], []),
        ("exact\nnan full", "quick", {"exact": "fail", "nan": "pass"}, 0, [], []),
        ("exact\nnan full", "full", {"exact": "fail", "nan": "pass"}, 1, ["nan"], []),
        ("nan full", "quick", {"exact": "pass", "nan": "fail"}, 0, [], []),
        ("exact\ntail  # gone", "full", {"exact": "fail", "nan": "pass"}, 0, [], ["tail"]),
        ("exact\ntail", "full", {"exact": "fail", "tail": "unsupported"}, 0, [], ["tail"]),
        ("exact\ntail full", "quick", {"exact": "fail"}, 0, [], []),
    ],
)  # fmt: skip
def test_a_list_excuses_what_fails_and_fails_for_what_passes(
    text: str, level: str, verdicts: dict[str, str], code: int, gone: list[str], unmatched: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "known.txt"
    path.write_text("# ours\n" + "".join(f"quantize/mxfp4/{line}\n" for line in text.splitlines()), "utf-8")
    report, entries = report_of(*verdicts.items(), level=level), read_list(path)
    assert entries is not None
    apply_list(report, entries)
    assert report.exit_code == code
    read_again = read_report(report.as_dict())
    for each in (report, read_again):
        assert each.baseline is not None
        assert [i.rpartition("/")[2] for i in each.baseline.gone] == gone
        assert [i.rpartition("/")[2] for i in each.baseline.unmatched] == unmatched
    assert read_again.exit_code == code
    warned = [line for line in list_annotations([report], ["k.py"], [], None) if line.startswith("::warning")]
    assert len(warned) == len(unmatched)


def test_quick_and_full_write_one_list(tmp_path: Path) -> None:
    path = tmp_path / "known.txt"
    quick = report_of(("exact", "fail"), ("nan", "pass"), ("axis", "pass"), level="quick")
    full = report_of(("exact", "fail"), ("nan", "fail"), ("axis", "pass"))
    for report in (quick, full, quick):
        path.write_text(render_list(report, path), "utf-8")
    assert read_list(path) == {"quantize/mxfp4/exact": "", "quantize/mxfp4/nan": "full"}
    for report in (quick, full):
        entries = read_list(path)
        assert entries is not None
        apply_list(report, entries)
        assert report.exit_code == 0
    text = path.read_text("utf-8").replace("nan full", "nan full  # a reason")
    path.write_text(text, "utf-8")
    now = report_of(("exact", "pass"), ("nan", "fail"), ("axis", "pass"), level="quick")
    renewed = render_list(now, path)
    assert renewed == text.replace(" full  # a reason", "  # a reason").replace("quantize/mxfp4/exact\n", "")


@pytest.mark.parametrize("text", ["quantize/mxfp4\n", "quantize/mxfp4/nan quick\n", "\ufeffx\n", "{"])
def test_what_is_no_list_is_one_message(text: str, tmp_path: Path) -> None:
    path = tmp_path / "known.txt"
    path.write_text(text, "utf-8")
    if text == "{":
        assert read_list(path) is None
        with pytest.raises(BaselineError, match="name another file"):
            render_list(report_of(), path)
        return
    with pytest.raises(BaselineError, match=r"known\.txt, line 1: .*write an id"):
        read_list(path)
    with pytest.raises(BaselineError, match="--write-baseline"):
        read_list(tmp_path / "none.txt")


def test_a_passing_entry_is_a_failure_in_junit(tmp_path: Path) -> None:
    write_kernel(tmp_path)
    (tmp_path / "known.txt").write_text("quantize/mxfp4/mixture\n", "utf-8")
    code, said = run(tmp_path, "--ci", "k.py", "--only", "quantize/mxfp4/mixture", "--baseline", "known.txt")
    assert code == 1, said
    # What fails is the list: the kernel differs from nothing.
    assert "passes the requested part of mx-floor" in " ".join(said.split()), said
    (failure,) = Xml.parse(tmp_path / "mxspec-junit.xml").iter("failure")
    assert "passes, but the baseline" in str(failure.get("message"))


@pytest.mark.parametrize(
    ("text", "line"),
    [("x = 1\n\ndef quantize(x): ...\n", 3), ("from k import q\nquantize = q\n", 2), ("class T:\n    def quantize(self): ...\n", 2),
     ("def other(): ...\n", 1), ("def (", 1)],
)  # fmt: skip
def test_the_line_of_a_function(text: str, line: int, tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(text, "utf-8")
    assert find_place(tmp_path / "k.py", "quantize") == (tmp_path / "k.py", line)


def test_an_installed_module_that_was_edited_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its record still has the digest of what was installed."""
    monkeypatch.chdir(tmp_path)
    module = Path(sysconfig.get_path("purelib")) / "numpy" / "version.py"
    monkeypatch.setattr("mxspec_conformance.cli.ci._list_sources", lambda: ())
    memory = open_memory([], {}, [], [])
    memory.learn([str(module)])
    assert memory.keep([report_of(("exact", "pass"))], []) == ""
    assert memory.recall() is not None
    document = json.loads(memory.file.read_bytes())
    assert list(document["elsewhere"]) == [str(module)]
    document["elsewhere"][str(module)] = "0" * 64
    memory.file.write_text(json.dumps(document), "utf-8")
    assert memory.recall() is None


def test_what_ends_early_leaves_no_green_file(tmp_path: Path) -> None:
    junit = tmp_path / "mxspec-junit.xml"
    for text, given in (
        ("import nothing_of_this_name\n", ()),
        (KERNEL, ("--baseline", "missing.txt")),
        (KERNEL.replace("mxfp4", "mxpf4"), ()),
    ):
        write_kernel(tmp_path, kernel=text)
        junit.write_text("<testsuites/>", "utf-8")
        code, said = run(tmp_path, "--ci", "k.py", *given, GITHUB_ACTIONS="true")
        assert code == 2, said
        assert "::error " in said
        [error] = Xml.parse(junit).getroot().iter("error")
        assert error.get("type") == "not judged"


def test_a_function_from_elsewhere_is_annotated_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text("from .inner import real as quantize\n", "utf-8")
    (tmp_path / "pack/inner.py").write_text("import math\n\ndef real(x, fmt):\n    return x\n", "utf-8")
    (tmp_path / "k.py").write_text("import os\nfrom pack import quantize\n", "utf-8")
    assert find_place(tmp_path / "k.py", "quantize") == (tmp_path / "pack/inner.py", 3)
    (tmp_path / "k.py").write_text("import os\nfrom nowhere import quantize\n", "utf-8")
    assert find_place(tmp_path / "k.py", "quantize") == (tmp_path / "k.py", 2)


def test_a_commit_is_changed_where_a_module_of_the_target_is(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *words], cwd=tmp_path, check=True, capture_output=True)

    write_kernel(tmp_path)
    git("init")
    git("add", ".")
    git("commit", "-m", "one")
    loaded = [str(tmp_path / "helper.py"), os.__file__]
    assert describe_git(tmp_path / "k.py", loaded)["git"]["changed"] is False
    write_kernel(tmp_path, WRONG)
    assert describe_git(tmp_path / "k.py", loaded)["git"]["changed"] is True
    assert describe_git(tmp_path / "k.py")["git"]["changed"] is False


def test_shards_are_the_whole(tmp_path: Path) -> None:
    """Each requirement in one of them, with its verdict; an empty one is an error."""
    formats = ["mxfp4", "mxfp8_e4m3", "mxint8"]
    write_kernel(tmp_path, kernel=KERNEL.replace("['mxfp4']", repr(formats)))
    only = ("--only", "quantize/*/mixture", "--only", "quantize/*/exact")
    found = []
    for name, part in (("whole", ()), ("one", ("--shard", "1/2")), ("two", ("--shard", "2/2"))):
        code, said = run(tmp_path, "k.py", "--quick", *only, *part, "--json", f"{name}.json")
        assert code == 0, said
        report = read_report(json.loads((tmp_path / f"{name}.json").read_bytes()))
        found.append({r.id: r.verdict for r in report.requirements})
    whole, one, two = found
    assert whole == one | two
    assert {name.split("/")[1] for name in one} == {"mxfp4", "mxint8"}
    assert {name.split("/")[1] for name in two} == {"mxfp8_e4m3"}
    code, said = run(tmp_path, "k.py", "--ci", "--shard", "4/4")
    assert (code, "shard 4/4 is empty; use fewer shards" in " ".join(said.split())) == (2, True), said
    assert (tmp_path / "mxspec-junit-4.xml").exists()
    assert run(tmp_path, "k.py", "--shard", "3/2")[0] == 2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--fromat", "mxfp4"), "No such option '--fromat'. Did you mean '--format'?"),
        (("--format", "mxpf4"), "Invalid value for '--format': 'mxpf4' is no block format; did you mean mxfp4"),
        (("--profile", "mx-flor"), "unknown profile 'mx-flor'; "),
        (("--only", " "), "--only is empty; "),
    ],
    ids=str,
)
def test_a_misspelt_option_is_annotated(options: tuple[str, str], text: str, tmp_path: Path) -> None:
    write_kernel(tmp_path)
    code, said = run(tmp_path, "k.py", "--ci", *options, GITHUB_ACTIONS="true")
    lines = [line for line in said.splitlines() if line.startswith("::error ")]
    assert (code, len(lines)) == (2, 1), said
    assert lines[0].partition("::error ")[2].partition("::")[2].startswith(text), said
    for quiet in (run(tmp_path, "k.py", "--ci", *options), run(tmp_path, "k.py", *options, GITHUB_ACTIONS="true")):
        assert (quiet[0], "::error" in quiet[1]) == (2, False), quiet[1]
