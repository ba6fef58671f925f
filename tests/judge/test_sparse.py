"""Judging pruning, compressing and decompressing: every mutant is found out, nothing that is right is accused."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis.errors import InvalidArgument
from rich.console import Console

from mxspec import sparsity
from mxspec_conformance.adapters.registry import known_adapters
from mxspec_conformance.judge.check import check
from mxspec_conformance.judge.explanation import SparseMistake
from mxspec_conformance.judge.listing import list_requirements
from mxspec_conformance.judge.planning import plan_requests
from mxspec_conformance.judge.sparse import judge_sparse
from mxspec_conformance.judge.wanted import OF_CALLS
from mxspec_conformance.render.terminal import summary_table
from mxspec_conformance.results.report import Requirement, Verdict
from mxspec_conformance.targets.errors import TargetError
from mxspec_conformance.targets.interface import SPARSE_FUNCTIONS
from mxspec_conformance.testing import strategies as mx
from mxspec_conformance.transports.in_process import InProcessSession
from mxspec_conformance.transports.opening import open_target
from mxspec_conformance.transports.recorded import write_bundle
from mxspec_lab.sparse.mutants import MUTANTS
from mxspec_lab.sparse.plain import FORMS, Plain, SparseVariant
from mxspec_lab.sparse.right import RIGHT
from mxspec_lab.sparse.run import Instance, judge_right, list_accused, list_instances
from mxspec_vectors.cases import load_sparse_cases

from tests.shrinking import shrink_to
from tests.transports import EXAMPLES, build_library, harness_command, judged

REPORT = Path(__file__).parents[2] / "reports" / "mutants" / "sparse.json"


@pytest.mark.share(10)
@pytest.mark.parametrize("mutant", MUTANTS, ids=[m.id for m in MUTANTS])
def test_a_mutant_is_found_out(mutant: SparseVariant) -> None:
    for fmt in mutant.formats:
        assert list_accused(Instance(mutant, fmt).judge()), fmt


@pytest.mark.parametrize("right", RIGHT, ids=[r.id for r in RIGHT])
def test_what_is_right_is_not_accused(right: SparseVariant) -> None:
    requirements = judge_right(right)
    assert list_accused(requirements) == []
    assert sum(r.verdict is Verdict.PASS for r in requirements) >= 6


def test_every_mistake_of_the_document_that_a_function_can_show_has_a_mutant() -> None:
    rows = {m.source for m in MUTANTS if m.source.startswith("S4")}
    assert rows == {f"S4 E{n}" for n in (48, 49, 50, 51, 52, 53, 54, 55)}
    assert len({m.id for m in MUTANTS}) == len(MUTANTS)
    assert {m.function for m in MUTANTS} == set(SPARSE_FUNCTIONS)


def test_what_is_published_is_what_the_catalogue_has() -> None:
    document = json.loads(REPORT.read_text("ascii"))
    counts = document["counts"]
    assert counts["killed"] == counts["instances"] == len(list(list_instances()))
    assert (counts["right"], counts["accused"]) == (len(RIGHT), 0)
    assert [(i["mutant"], i["operation"], i["format"], i["what"]) for i in document["instances"]] == [
        (i.mutant.id, i.mutant.function, i.format, i.mutant.what) for i in list_instances()
    ], "run `python -m mxspec_lab.sparse.run --json reports/mutants/sparse.json`"


def target(**given: Any) -> SimpleNamespace:
    """The model in one format, with changes."""
    model = {
        "prune": lambda codes, fmt: sparsity.prune(codes),
        "compress": lambda codes, fmt: sparsity.compress(codes),
        "decompress": lambda kept, metadata, fmt, shape: sparsity.decompress(kept, metadata),
    }
    return SimpleNamespace(**{"NAME": "t", "VERSION": "1", "SPARSE_FORMATS": ["e2m1-2to4"], **model, **given})


def by_topic(given: Any, function: str) -> dict[str, Requirement]:
    return {r.topic: r for r in judge_sparse(InProcessSession(given, "t"), function, "e2m1-2to4")}


def test_the_document_s_procedure_is_named() -> None:
    found = by_topic(target(prune=lambda codes, fmt: sparsity.prune(codes, rule="metal-marlin/procedure")), "prune")
    assert found["largest"].verdict is Verdict.DEVIATION
    assert found["largest"].explained_by == "metal-marlin/procedure"
    assert found["call-size"].verdict is Verdict.PASS
    first = found["largest"].first
    assert first is not None
    assert first.expected != first.returned
    # Who claims it is held to it, and passes.
    claimed = by_topic(
        target(prune=lambda codes, fmt: sparsity.prune(codes, rule="metal-marlin/procedure"), PRUNE_RULE="metal-marlin/procedure"), "prune"
    )
    assert {r.verdict for r in claimed.values()} == {Verdict.PASS}


def test_ties_are_open_until_a_rule_is_claimed() -> None:
    higher = target(prune=lambda codes, fmt: sparsity.prune(codes, rule="higher"))
    found = by_topic(higher, "prune")
    assert found["prune-tie"].verdict is Verdict.PASS
    assert found["tie-choice"].verdict is Verdict.OPEN
    assert found["tie-choice"].explained_by == "higher"
    higher.PRUNE_RULE = "lower"
    found = by_topic(higher, "prune")
    assert found["tie-choice"].verdict is Verdict.DEVIATION
    assert found["tie-choice"].explained_by == "higher"


@pytest.mark.all_calls
def test_a_claimed_rule_holds_in_every_call() -> None:
    higher = target(prune=lambda codes, fmt: sparsity.prune(codes, rule="higher" if len(codes) == 1 else "lower"))
    assert by_topic(higher, "prune")["call-size"].verdict is Verdict.PASS, "without a rule each call may choose anew"
    higher.PRUNE_RULE = "lower"
    assert by_topic(higher, "prune")["call-size"].verdict is Verdict.FAIL


@pytest.mark.all_calls
def test_nibbles_name_the_lower_position_first_in_every_call() -> None:
    def crossed(codes: Any, fmt: str) -> Any:
        """The same numbers, in a tail of rows under nibbles that are not allowed."""
        kept, metadata = sparsity.compress(codes)
        if not len(codes) % 32:
            return kept, metadata
        units = kept.reshape(*metadata.shape, 2, -1)[:, :, ::-1]
        return np.ascontiguousarray(units).reshape(kept.shape), np.asarray((metadata & 3) << 2 | metadata >> 2, np.uint8)

    assert by_topic(target(compress=crossed), "compress")["call-size"].verdict is Verdict.FAIL


def test_nibble_0_of_zeros_is_open_and_of_numbers_wrong() -> None:
    def zeros(codes: Any, fmt: str) -> Any:
        kept, metadata = sparsity.compress(codes)
        return kept, np.where((kept.reshape(*metadata.shape, 2) & 7 == 0).all(axis=-1), 0, metadata).astype(np.uint8)

    found = by_topic(target(compress=zeros), "compress")
    assert found["zero-metadata"].verdict is Verdict.OPEN
    assert found["metadata"].verdict is found["pattern"].verdict is Verdict.PASS
    found = by_topic(
        target(compress=lambda codes, fmt: (sparsity.compress(codes)[0], np.zeros((len(codes), codes.shape[1] // 4), np.uint8))), "compress"
    )
    assert found["metadata"].verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("id_", "mistake"),
    [
        ("compress-positions-crossed", SparseMistake.EXCHANGED),
        ("compress-kept-crossed", SparseMistake.EXCHANGED),
        ("compress-nibbles-exchanged", SparseMistake.NIBBLES_SWAPPED),
        ("decompress-positions-crossed", SparseMistake.EXCHANGED),
        ("decompress-odd-iterations", SparseMistake.HALF_A_WORD),
        ("prune-signed", SparseMistake.SIGNED),
        ("prune-smallest", SparseMistake.SMALLEST),
    ],
)
def test_a_mistake_is_named(id_: str, mistake: SparseMistake) -> None:
    mutant = next(m for m in MUTANTS if m.id == id_)
    notes = {r.note for r in Instance(mutant, "e2m1-2to4").judge()}
    assert any(note.startswith("as ") and note.endswith(mistake.value) for note in notes)


def test_helpers_of_these_names_are_no_functions_without_sparse_formats() -> None:
    given = SimpleNamespace(FORMATS=["mxfp4"], ELEMENTS=["e2m1"], decode=lambda codes, element: codes, compress=bytes, prune=len)
    assert InProcessSession(given, "t").capabilities.functions == ("decode",)
    with pytest.raises(TargetError, match="compress: say of what in SPARSE_FORMATS"):
        InProcessSession(SimpleNamespace(compress=lambda codes, fmt: None), "t")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"SPARSE_FORMATS": ["e2m1"]}, "SPARSE_FORMATS names 'e2m1'; allowed are e2m1-2to4"),
        ({"SPARSE_LAYOUT": ["nibble-low"]}, "SPARSE_LAYOUT names 1; name two"),
        ({"SPARSE_LAYOUT": ["nibble-low", "packed"]}, "SPARSE_LAYOUT names 'packed'"),
        ({"PRUNE_RULE": "highest"}, "PRUNE_RULE names 'highest'; allowed are lower, higher"),
        ({"prune": lambda codes: codes}, r"cannot be called as prune\(codes, format\)"),
    ],
)
def test_declarations_that_are_none(given: dict[str, Any], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        InProcessSession(target(**given), "t")


@pytest.mark.parametrize(
    ("function", "wrong", "words"),
    [
        ("compress", lambda codes, fmt: codes, "compress returned an ndarray; return"),
        ("compress", lambda codes, fmt: (codes, codes), "kept have shape"),
        ("compress", lambda codes, fmt: (codes[:, ::2].astype(np.float32), codes[:, ::4]), "kept have dtype float32"),
        ("prune", lambda codes, fmt: codes[:, ::2], "prune returned shape"),
        ("decompress", lambda kept, metadata, fmt, shape: kept, "decompress returned shape"),
    ],
)  # fmt: skip
def test_malformed_answers_are_errors(function: str, wrong: Any, words: str) -> None:
    found = by_topic(target(**{function: wrong}), function)
    assert {r.verdict for t, r in found.items() if t not in ("negative-zero", "illegal-metadata", "metadata")} == {Verdict.ERROR}
    assert all(words in r.note for r in found.values())


def test_a_code_with_too_many_bits_is_wrong() -> None:
    found = by_topic(target(prune=lambda codes, fmt: sparsity.prune(codes) | 0x10), "prune")
    assert found["largest"].failing == found["largest"].cases


def test_what_is_judged_was_listed_and_planned() -> None:
    session = InProcessSession(Plain(formats=("e2m1-2to4", "int4-4to8")), "t")
    report = check(session)
    assert {r.id for r in report.requirements} <= set(list_requirements(session))
    assert report.exit_code == 0
    assert {function for _, function, _ in plan_requests(session.capabilities)} == set(SPARSE_FUNCTIONS)
    assert report.target["capabilities"]["sparse_formats"] == ["e2m1-2to4", "int4-4to8"]


def test_results_without_sparse_functions_name_the_same_vectors_as_before() -> None:
    plain = check(SimpleNamespace(NAME="t", VERSION="1", FORMATS=[], ELEMENTS=["e2m1"], decode=lambda c, e: c), only="decode/*")
    assert plain.vectors != check(target(), only="prune/*/few").vectors


def test_the_model_passes() -> None:
    model = known_adapters()["mxspec"].load()
    assert set(model.SPARSE_FORMATS) == set(FORMS) == set(sparsity.SPARSE_FORMATS)
    found = [r for f in SPARSE_FUNCTIONS for r in judge_sparse(InProcessSession(model, "mxspec"), f, "e2m1-4to8")]
    assert {r.verdict for r in found} <= {Verdict.PASS, Verdict.OPEN}


SOURCE = """
import numpy as np
from mxspec import layouts, sparsity
NAME, VERSION = "words", "1"
SPARSE_FORMATS, SPARSE_LAYOUT, PRUNE_RULE = ["int4-2to4"], ["metal-marlin-values", "metal-marlin-metadata"], "lower"
def prune(codes, fmt): return sparsity.prune(codes, kind="int4")
def compress(codes, fmt): return sparsity.pack_sparse(np.ascontiguousarray(codes.T), kind="int4")
def decompress(kept, metadata, fmt, shape):
    n, k = shape
    values, nibbles = np.asarray(kept).view(np.uint32), np.asarray(metadata).view(np.uint32)
    return sparsity.unpack_sparse(values.reshape(k // 16, n), nibbles.reshape(k // 32, n)).T
"""


def test_one_call_packers_are_judged_on_every_python_road(tmp_path: Path) -> None:
    """The document's one call, in its own words, in a child process and as a program that answers JSON lines."""

    path = tmp_path / "words.py"
    path.write_text(SOURCE, encoding="utf-8")
    here = judged(str(path), only="*compress/*")
    there = judged(harness_command(path), only="*compress/*")
    for report in (here, there):
        verdicts = {r.id: r.verdict for r in report.requirements}
        assert verdicts["compress/int4-2to4/pattern"] is verdicts["decompress/int4-2to4/pattern"] is Verdict.PASS
        assert set(verdicts.values()) <= {Verdict.PASS, Verdict.OPEN}


def test_a_case_of_a_report_can_be_asked_again(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from mxspec_conformance.cli.main import main

    path = tmp_path / "numbers.py"
    path.write_text(
        "from mxspec import sparsity\nSPARSE_FORMATS = ['e2m1-2to4']\n"
        "def prune(codes, fmt): return sparsity.prune(codes, rule='metal-marlin/procedure')\n"
        "def compress(codes, fmt): return sparsity.compress(codes)\n"
        "def decompress(kept, metadata, fmt, shape): return sparsity.decompress(kept, metadata)\n",
        encoding="utf-8",
    )
    report = check(str(path))
    table = Console(width=120)
    with table.capture() as printed:
        table.print(summary_table([report]))
    assert " sparse " in printed.get()
    first = next(r for r in report.requirements if r.id == "prune/e2m1-2to4/largest").failing_cases[0]
    shown = CliRunner().invoke(main, ["show", first, "--against", str(path)])
    assert shown.exit_code == 1, shown.output
    assert "keeps" in shown.output
    for function in ("compress", "decompress"):
        case = next(c.id for c in load_sparse_cases("e2m1-2to4") if c.function == function and c.topic == "pattern")
        assert CliRunner().invoke(main, ["show", case, "--against", str(path)]).exit_code == 0
        assert CliRunner().invoke(main, ["show", case]).exit_code == 0


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("pruned", [False, True])
def test_strategies_give_codes_of_the_format(name: str, pruned: bool) -> None:
    fmt = sparsity.SPARSE_FORMATS[name]

    @settings(max_examples=20, deadline=None, database=None)
    @given(mx.sparse_codes(name, pruned=pruned))
    def run(codes: np.ndarray) -> None:
        assert codes.shape[1] % fmt.group == 0
        choices = {"kind": fmt.kind, "sparsity": fmt.sparsity}
        kept, metadata = sparsity.compress(codes if pruned else sparsity.prune(codes, **choices), **choices)
        table = fmt.codes.table
        assert table is not None
        if pruned:
            assert (table[sparsity.decompress(kept, metadata, sparsity=fmt.sparsity)] == table[codes]).all()

    run()


def test_strategies_reach_ties_and_shrink_to_little() -> None:
    whole = mx.sparse_codes("e2m1-2to4")
    shrink_to(whole, lambda c: (c.reshape(-1, 4) & 7 > 0).all(axis=-1).any(), lambda c: c.size == 4, limits=settings(database=None))
    wide = find(mx.sparse_codes("int4-2to4", columns=32), lambda c: c.any())
    assert wide.shape == (1, 32)
    with pytest.raises(InvalidArgument, match="columns=6 must be a multiple of the 4 codes"):
        mx.sparse_codes("e2m1-2to4", columns=6)
    with pytest.raises(InvalidArgument, match="is not a sparse format; known are e2m1-2to4"):
        mx.sparse_codes("mxfp4")


def test_a_shared_library_conforms(tmp_path: Path) -> None:
    """C++ with kept codes in bytes, nibbles in words, and ties to the higher position, which it claims."""
    library = build_library(Path(__file__).parents[1] / "targets" / "sparse.cpp", tmp_path / "libsparse.so")
    verdicts = {r.id: r.verdict for r in judged(library).requirements}
    assert set(verdicts.values()) == {Verdict.PASS}
    assert len(verdicts) >= 17


def test_a_results_file_conforms(tmp_path: Path) -> None:
    """The same calls, answered elsewhere: nothing is missing."""
    import subprocess
    import sys

    source, bundle, results = (tmp_path / name for name in ("words.py", "bundle.jsonl", "results.jsonl"))
    source.write_text(SOURCE, encoding="utf-8")
    session = InProcessSession(SimpleNamespace(**run_source(SOURCE)), "words")
    write_bundle(bundle, plan_requests(session.capabilities))
    with bundle.open("rb") as given, results.open("wb") as written:
        subprocess.run([sys.executable, EXAMPLES / "python" / "harness.py", source], stdin=given, stdout=written, check=True)
    report = judged(str(results))
    assert {r.verdict for r in report.requirements} == {Verdict.PASS, Verdict.UNSUPPORTED}
    assert {r.topic for r in report.requirements if r.verdict is Verdict.UNSUPPORTED} <= set(OF_CALLS)
    assert {r.operation for r in report.requirements} == set(SPARSE_FUNCTIONS)


def test_the_harness_hands_limits_of_shapes_over(tmp_path: Path) -> None:

    path = tmp_path / "limited.py"
    path.write_text(f"{SOURCE}\nSHAPES = {{'k': 64, 'rows': 16}}\n", encoding="utf-8")
    session = open_target(harness_command(path))
    session.close()
    assert session.capabilities.shapes == (64, 16, 1)
    assert session.capabilities.prune_rule == "lower"


def run_source(text: str) -> dict[str, Any]:
    """The names that a module's text defines."""
    names: dict[str, Any] = {}
    exec(text, names)
    return names


@pytest.mark.parametrize(("fmt", "codes"), [("e4m3-2to4", (0x7F, 0xFF)), ("e5m2-2to4", (0x7C, 0x7E, 0xFC, 0xFF))])
def test_nan_and_inf_are_kept(fmt: str, codes: tuple[int, ...]) -> None:
    """A packer that loses them fails; who writes another NaN, or refuses it as mxspec does, is right."""

    def lose(x: Any, fmt: str) -> Any:
        return sparsity.compress(np.where(np.isin(x, codes), 0, x).astype(np.uint8), kind=fmt[:4])

    def rewrite(x: Any, fmt: str) -> Any:
        kept, metadata = sparsity.compress(np.where(np.isin(x, codes), 1, x).astype(np.uint8), kind=fmt[:4])
        dense = x.reshape(-1, 4)
        places = np.stack([metadata.reshape(-1) & 3, metadata.reshape(-1) >> 2], axis=1)
        found = np.take_along_axis(dense, places, axis=1).reshape(kept.shape)
        return np.where((found & 0x7F) == 0x7F, 0x7F, found).astype(np.uint8), metadata

    def refuse(x: Any, fmt: str) -> Any:
        return sparsity.compress(x, kind=fmt[:4])

    for compress, verdict in ((lose, Verdict.FAIL), (rewrite, Verdict.PASS), (refuse, Verdict.PASS)):
        target = SimpleNamespace(NAME="packer", VERSION="1", SPARSE_FORMATS=[fmt], compress=compress)
        found = {r.topic: r.verdict for r in judge_sparse(InProcessSession(target, "packer"), "compress", fmt, calls=False)}
        assert found["pattern"] is verdict


@pytest.mark.parametrize("fmt", ["e4m3-2to4", "int4-2to4"])
def test_the_two_largest_magnitudes_are_told_apart(fmt: str) -> None:
    """One that takes the largest for the next one keeps either; no rule does, as it is right elsewhere."""
    kind, _, _ = fmt.partition("-")

    def alike(codes: Any, fmt: str) -> Any:
        largest, next_one = (7, 6) if kind == "int4" else (0x7E, 0x7D)
        taken = np.where(codes & 0x7F == largest, next_one | codes & 0x80, codes).astype(np.uint8)
        return np.where(sparsity.prune(taken, kind=kind) == 0, 0, codes).astype(np.uint8)

    found = {r.topic: r for r in judge_sparse(InProcessSession(target(prune=alike, SPARSE_FORMATS=[fmt]), "t"), "prune", fmt, calls=False)}
    assert found["largest"].verdict is Verdict.FAIL
    assert found["largest"].explained_by == ""
