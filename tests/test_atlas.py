"""The atlas: its pages hang together, its numbers come from results, and what joins it is complete and true."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from markupsafe import escape

from mxspec_conformance.atlas.documents import anchor_of, make_document
from mxspec_conformance.atlas.entries import find_column, list_changes, make_entry, sum_up, worst
from mxspec_conformance.atlas.findings import SCHEMA, Seen, read_findings, show_finding
from mxspec_conformance.atlas.followers import list_followers
from mxspec_conformance.atlas.letter import INSTALL, list_setup
from mxspec_conformance.atlas.reading import Collection, read_collection
from mxspec_conformance.atlas.site import Site
from mxspec_conformance.cli.main import main
from mxspec_conformance.render.headline import list_headlines
from mxspec_conformance.results.conclusion import list_unmet
from mxspec_conformance.results.report import FormatResult, Report, Requirement, Verdict

ROOT = Path(__file__).parents[1]
KERNEL = """
import numpy as np

NAME, VERSION, FORMATS = "my-kernel", "{version}", ["mxfp4"]

def quantize(x, fmt):
    scales = (np.abs(x).reshape(len(x), -1, 32).max(axis=-1).view("u4") >> 23).clip(2) - 2
    q = np.abs(x) / np.repeat(np.ldexp(np.float32(1), scales.astype(int) - 127), 32, axis=-1)
    codes = np.searchsorted({steps}, q, side="right")
    return (codes | np.signbit(x) << 3).astype(np.uint8), scales.astype(np.uint8)
"""
RIGHT = "[0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5]"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments], catch_exceptions=False)


class _Links(HTMLParser):
    """Links, ids and what a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        for name in ("src", "href") if tag != "a" else ():
            if name in given:
                self.loads.append(given[name])


#: The results of a site: all committed results, or a few of each kind.
SITES = {
    "all": ["reports", "--docs", "docs"],
    "few": ["reports/peers/triton-kernels.json", "reports/products/numpy-products-float32.json", "reports/atlas"],
}


@pytest.fixture(scope="module", params=SITES)
def site(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A site of committed results."""
    out = tmp_path_factory.mktemp("atlas") / "site"
    done = run("site", "-o", out, *(a if a.startswith("-") else ROOT / a for a in SITES[request.param]))
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, _Links]:
    """What each page of it links to and loads."""
    found = {}
    for page in site.rglob("*.html"):
        found[page.resolve()] = links = _Links()
        links.feed(page.read_text("utf-8"))
    return found


def test_every_link_leads_somewhere(pages: dict[Path, _Links]) -> None:
    assert len(pages) > 200
    broken = []
    for page, found in pages.items():
        for link in found.links:
            if link.startswith(("https://", "http://")):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            state = target.name == "explorer.html" and anchor.startswith("f=")  # what the page is to show, and no place on it
            if target not in pages or (anchor and not state and anchor not in pages[target].ids):
                broken.append((page.name, link))
    assert broken == []


def test_nothing_is_fetched_to_read_it(site: Path, pages: dict[Path, _Links]) -> None:
    for page, found in pages.items():
        for load in found.loads:
            assert load == "data:," or (page.parent / load).is_file(), (page, load)
    for script in site.rglob("*.js"):
        assert not re.search(r"\bfetch\(|XMLHttpRequest|https?://", script.read_text("utf-8").partition("MXSPEC_PAGES=")[0])


def test_committed_results_age_by_what_they_used() -> None:
    """New profiles change the digest of all vectors, but no answer of those that a library was compared with."""
    entries = read_collection([ROOT / "reports"]).entries
    suites = {entry.report.vectors for entry in entries}
    assert len(suites) > 1
    assert all(entry.current for entry in entries), [entry.slug for entry in entries if not entry.current]


@pytest.mark.parametrize("change", ["another digest", "no uses", "an unknown profile"])
def test_a_result_of_other_vectors_is_said_to_be_old(tmp_path: Path, change: str) -> None:
    path = tmp_path / "record.json"
    document = json.loads((ROOT / "reports/peers/triton-kernels.json").read_text("ascii"))
    for check in document["checks"]:
        check["suite"]["vectors"] = "0" * 64
    path.write_text(json.dumps(document))
    assert all(entry.current for entry in read_collection([path]).entries)
    use = document["uses"]["vectors"][0]
    if change == "another digest":
        use["digest"] = "0" * 64
    elif change == "no uses":
        del document["uses"]
    else:
        use["profiles"] = ["mx-imagined"]
    path.write_text(json.dumps(document))
    assert not any(entry.current for entry in read_collection([path]).entries)


@pytest.mark.parametrize("site", ["all"], indirect=True)
def test_the_matrix_says_what_the_results_say(site: Path) -> None:
    text = (site / "index.html").read_text("utf-8")
    data = re.search(r"<script type=application/json id=rows>(.*?)</script>", text, re.DOTALL)
    assert data is not None
    rows = {row["slug"]: row for row in json.loads(data.group(1))}
    entries = read_collection([ROOT / "reports"]).entries
    assert set(rows) == {entry.slug for entry in entries}
    for entry in entries:
        cells = rows[entry.slug]["cells"]
        for column, cell in cells.items():
            members = [r for r in entry.report.requirements if find_column(r.format) == column]
            supported = [r for r in members if r.verdict is not Verdict.UNSUPPORTED]
            assert sum(asked for _, asked, _ in cell["o"].values()) == len(supported)
            assert cell["v"] == worst(r.verdict for r in members).value
        assert {find_column(r.format) for r in entry.report.requirements if r.verdict is not Verdict.UNSUPPORTED} == set(cells)


def test_a_case_that_another_page_draws_is_the_same_there(site: Path) -> None:
    """Every requirement that is not met is on its page: drawn, or linked to a page that draws the same case with the same answer."""
    entries = {e.slug: e for e in read_collection([ROOT / a for a in ("reports", "docs")]).entries}
    linked = 0
    for page in (site / "i").iterdir():
        text = page.read_text("utf-8")
        unmet = {r.id.replace("/", "-"): r for r in list_unmet(entries[page.stem].report)}
        drawn = set(re.findall(r"<article id=([^>]+)>", text))
        apart = {
            anchor: (slug.removesuffix(".html") or page.stem, place)
            for anchor, slug, place in re.findall(r"<a id=(\S+) href=([^#>]*)#([^>]+)>", text)
        }
        assert drawn.isdisjoint(apart)
        assert drawn | set(apart) == set(unmet)
        for anchor, (slug, place) in apart.items():
            other = next(r for r in entries[slug].report.requirements if r.id.replace("/", "-") == place)
            assert f"<article id={place}>" in (site / "i" / f"{slug}.html").read_text("utf-8")
            shown = [r.note if r.first is None else (r.first.given, r.first.expected, r.first.returned) for r in (unmet[anchor], other)]
            assert shown[0] == shown[1]
            linked += 1
    assert linked


def test_pages_of_an_earlier_site_are_removed(tmp_path: Path) -> None:
    out = tmp_path / "site"
    assert run("site", ROOT / "reports/products/numpy-products-float32.json", "-o", out).exit_code == 0
    assert (out / "i/numpy-products-float32-2.4.6.html").is_file()
    mine = out / "mine.html"
    mine.write_text("kept")
    style, script = out / "style.css", out / "site.js"
    written, source = style.stat().st_mtime_ns, script.read_bytes()
    script.write_text("edited")
    assert run("site", ROOT / "reports/products/gguf-products.json", "-o", out).exit_code == 0
    assert not (out / "i/numpy-products-float32-2.4.6.html").exists()
    assert mine.read_text() == "kept"
    assert style.stat().st_mtime_ns == written  # it is the same, and was not written again
    assert script.read_bytes() == source


def a_result(name: str = "light") -> dict[str, Any]:
    """A committed result of gguf."""
    checks = json.loads((ROOT / f"reports/peers/{name}.json").read_text("ascii"))["checks"]
    result: dict[str, Any] = next(c for c in checks if c["target"]["name"] == "gguf")
    return result


def a_finding(**changes: str) -> dict[str, str]:
    return {
        "id": "gguf-nan", "title": "A NaN is lost", "target": "gguf", "requirement": "quantize/mxfp4/nan", "text": "A block.", "effect": "Zeros.",
    } | changes  # fmt: skip


def test_a_finding_needs_a_result_that_shows_it() -> None:
    entry = make_entry(a_result(), source="light.json", current=True)
    (finding,) = read_findings({"schema": SCHEMA, "findings": [a_finding()]}, "f.json")
    shown = show_finding(finding, [entry])
    assert shown.requirement.verdict is not Verdict.PASS
    assert shown.versions == ((entry.version, Seen.SAME),)
    passing = next(r.id for r in entry.report.requirements if r.verdict is Verdict.PASS)
    (untrue,) = read_findings({"schema": SCHEMA, "findings": [a_finding(requirement=passing)]}, "f.json")
    with pytest.raises(ValueError, match="no result of gguf shows"):
        show_finding(untrue, [entry])


def test_a_changed_verdict_is_a_trend() -> None:
    earlier, later = a_result(), a_result()
    later["target"] = {**later["target"], "version": "0.20.0"}
    changed = next(r for r in later["requirements"] if r["verdict"] == "deviation")
    changed["verdict"] = "pass"
    entries = [make_entry(d, source="x", current=True) for d in (earlier, later)]
    (change,) = list_changes(*entries)
    assert (change.requirement, change.earlier, change.later) == (changed["id"], Verdict.DEVIATION, Verdict.PASS)
    assert entries[0].slug != entries[1].slug


def test_links_of_the_documentation() -> None:
    page = make_document(
        "a", "# A\n\n[there](b.md#x), [code](../mxspec/exact.py), <script>alert(1)</script> ![shown](x.png)", {"a": "A", "b": "B"}
    )
    assert 'href="b.html#x"' in page.body
    assert not any(text in page.body for text in ("exact.py", "<script", "<img"))
    assert anchor_of("What `x` says: no") == "what-x-says-no"


def test_a_kernel_joins_by_three_commands(tmp_path: Path) -> None:
    kernel, result, folder = tmp_path / "my_kernel.py", tmp_path / "r.json", tmp_path / "results"
    kernel.write_text(KERNEL.format(version="1.0", steps=RIGHT))
    assert run("check", kernel, "--json", result).exit_code == 1  # its ties go away from zero
    done = run("submit", result, "--into", folder, "--target", kernel)
    assert done.exit_code == 0, done.output
    assert "cases run again, all equal" in done.output
    done = run("site", folder, "-o", tmp_path / "site")
    assert done.exit_code == 0
    assert done.output.startswith("1 implementation, 0 findings, ")
    assert done.output.splitlines()[-1] == f"open {tmp_path / 'site/index.html'} in a browser: the matrix"
    assert "my-kernel" in (tmp_path / "site/index.html").read_text("utf-8")
    assert (tmp_path / "site/i/my-kernel-1.0.html").is_file()
    # The kernel is another one now: the result does not hold of it.
    kernel.write_text(KERNEL.format(version="1.0", steps=RIGHT.replace("3.5", "3.4")))
    done = run("submit", result, "--into", tmp_path / "other", "--target", kernel)
    assert done.exit_code == 2
    assert "run again it is fail" in done.output
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["requirements"].append(d["requirements"][0]), "2 times"),
        (lambda d: d["requirements"][0].update(failing=10**9), "which no run says"),
        (lambda d: d["requirements"][0].update(verdict="pass", cases=9, failing=3), "says pass with 3 of 9 failing"),
        (lambda d: d["target"].update(version="  "), "names no version"),
        (lambda d: d.update(suite="abc"), "suite"),
        (lambda d: d["target"].update(version="unknown"), "set VERSION"),
        (lambda d: d["suite"].update(vectors="0" * 64), "not installed here"),
        (lambda d: d.update(details={"level": "quick"}), "without --quick"),
        (lambda d: d["target"]["capabilities"]["formats"].append("mxint8"), "mxint8 is offered and was not judged"),
        (lambda d: d["target"]["capabilities"]["functions"].update(matmul=[]), "matmul is offered and was not judged"),
        (lambda d: d["environment"].pop("machine"), "does not say machine"),
        (lambda d: d.update(kind="fuzz"), "result of fuzz"),
    ],
)
def test_a_result_that_lacks_something_or_that_no_run_gives_does_not_join(tmp_path: Path, change: Any, words: str) -> None:
    document = a_result()
    change(document)
    path = tmp_path / "r.json"
    path.write_text(json.dumps(document))
    done = run("submit", path, "--into", tmp_path / "results")
    assert done.exit_code == 2
    assert words in re.sub(r"\s+", " ", done.output)
    assert not (tmp_path / "results").exists()


def test_a_report_installs_the_version_that_shows_it() -> None:
    entries = {(e.name, e.version, e.device): e for e in read_collection([ROOT / "reports"]).entries}
    by_name = {name: list(list_setup(entry)) for (name, _, _), entry in entries.items()}
    assert by_name["gguf"] == [f"{INSTALL} gguf==0.19.0"]
    assert by_name["mlir-folding"][1].startswith("export MXSPEC_MLIR_OPT=")
    assert by_name["ggml-c"][0] == INSTALL
    torch = entries["torch-products-bfloat16", "2.13.0+cpu", "CPU"].report.environment["libraries"]["torch"]
    assert by_name["torch-products-bfloat16"] == [f"{INSTALL} torch=={torch.removesuffix('+cpu')}"]
    even = {version: list(list_setup(e)) for (name, version, device), e in entries.items() if (name, device) == ("torchao-even", "CPU")}
    assert any("torchao==0.18.0" in line for line in even["0.18.0"])
    (later,) = (lines for version, lines in even.items() if "+git" in version)
    assert "torchao @ git+https://github.com/pytorch/ao@" in later[0]
    # The compiled one ran under the torch of that machine.
    (compiled,) = (e for (name, _, _), e in entries.items() if name == "torchao-compiled-cuda")
    assert f"torch=={compiled.report.environment['libraries']['torch']}" in next(list_setup(compiled))


def a_follower(verdict: str, *, identical: bool) -> str:
    """The page of mx-floor, of a kernel of mxfp4 whose larger calls got this verdict."""
    target = {"name": "my-kernel", "version": "1", "transport": "python", "capabilities": {}}
    sizes = Requirement("quantize/mxfp4/call-size", "contract", "", Verdict(verdict), 9, int(verdict == "fail"))
    result = FormatResult("mxfp4", "mx-floor", "nearest", False, 0 if identical else 2, 9, open_cases=0 if identical else 2)
    result.identical_to = ["mx-floor", "torchao-0.18/mxfp4/floor"] if identical else []
    report = Report(target=target, vectors="0" * 64, formats=[result], requirements=[sizes])
    site = Site(Collection(entries=[make_entry(report.as_dict(), source="x", current=True)]))
    site._add_profiles()
    return re.sub(r"<[^>]+>|\n", "", site._files["p/mx-floor.html"].decode())


def test_only_what_fails_nothing_follows_a_profile() -> None:
    followed, apart = "Implementations that follow itmy-kernel 1: mxfp4", "The same bits, but requirements that fail"
    assert f"{followed}, bit for bit" in a_follower("pass", identical=True)
    assert f"{followed}, but for what is left open" in a_follower("pass", identical=False)
    assert "my-kernel" not in a_follower("fail", identical=False)
    page = a_follower("fail", identical=True)
    assert f"{apart}my-kernel 1: mxfp4, bit for bit; fails call-size" in page
    assert "that follow it" not in page


def test_a_profile_is_not_followed_where_its_bits_were_not_compared() -> None:
    """The cases of `tensor_scale` are not among those by which a profile is bit-identical."""
    target = {"name": "my-kernel", "version": "1", "transport": "python", "capabilities": {}}
    result = FormatResult("nvfp4", "nvfp4-exact", "nearest", False, 9, 99, operations=["quantize"], identical_to=["nvfp4-te"])
    wrong = Requirement("tensor_scale/nvfp4/tensor-scale", "must", "", Verdict.FAIL, 34, 34)
    for explained, failing in (("", ("tensor-scale",)), ("nvfp4-te", ())):
        wrong.explained_by = explained
        report = Report(target=target, vectors="0" * 64, formats=[result], requirements=[wrong])
        (follower,) = list_followers(make_entry(report.as_dict(), source="x", current=True), result)
        assert (follower.profile, follower.failing) == ("nvfp4-te", failing)


def test_results_of_one_name_and_version_are_counted(tmp_path: Path) -> None:
    for i in range(3):
        document = a_result()
        document["environment"]["time"] = f"2026-01-0{i + 1}T00:00:00Z"
        (tmp_path / f"r{i}.json").write_text(json.dumps(document))
    done = run("site", "-o", tmp_path / "site", *(tmp_path / f"r{i}.json" for i in range(3)))
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "1 implementation, " in said
    assert "2 results of a name, version and device that a newer result has, left out: " in said
    assert f"{tmp_path / 'r0.json'}, {tmp_path / 'r1.json'}; give each" in done.output.replace("\n", "")


def test_what_got_worse_stands_first() -> None:
    before, after = a_result(), a_result()
    after["target"] = {**after["target"], "version": "0.20.0"}
    better = next(r for r in after["requirements"] if r["verdict"] == "deviation")
    worse = next(r for r in reversed(after["requirements"]) if r["verdict"] == "pass")
    better["verdict"], worse["verdict"] = "pass", "fail"
    changes = list_changes(*(make_entry(d, source="x", current=True) for d in (before, after)))
    assert [c.requirement for c in changes] == [worse["id"], better["id"]]
    assert sum_up(changes) == "1 from pass to fail, 1 from deviation to pass"


def test_an_implementation_page_begins_with_its_name() -> None:
    site = Site(read_collection([ROOT / "reports/peers/later.json", ROOT / "reports/peers/torchao.json"]))
    (row,) = (r for r in site.rows if "+git" in r.entry.version)
    site._add_entry(row)
    text = site._files[f"i/{row.entry.slug}.html"].decode()
    sentences = [str(escape(line)) for line in list_headlines(row.entry.report)]
    assert sentences
    order = ("<h1>torchao-even", *sentences, "Compared with", "<h2>The smallest input", "expected", "<h2>Formats", "<h2>Requirements")
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "from pass to fail" in text
