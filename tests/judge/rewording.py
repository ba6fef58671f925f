"""The project with every human text replaced by gibberish, and what it then says of some targets.

    python -m tests.judge.rewording judge|others

A text is a string constant, or part of an f-string, that holds a letter and a space and is no docstring. Each place in the
source has a word of its own, so that a text that is made in one place is not found by what another place looks for.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import json
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

#: Packages whose texts are replaced; packages and modules in them whose strings are data.
PACKAGES = ("mxspec", "mxspec_vectors", "mxspec_conformance", "mxspec_lab")
DATA = ("mxspec.layouts", "mxspec_conformance.fuzzing.blocks.coverage")


class Reworder(ast.NodeTransformer):
    """Replaces texts by words that say nothing, each one different."""

    def __init__(self, module: str) -> None:
        self._module, self.count = module, 0

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and " " in node.value and any(map(str.isalpha, node.value)):
            self.count += 1
            return ast.copy_location(ast.Constant(f"qx{self._module}q{self.count}x "), node)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        # A string by itself is a docstring.
        return node if isinstance(node.value, ast.Constant) else self.generic_visit(node)


def reword(source: str, module: str) -> ast.Module:
    """The source without its texts."""
    tree = Reworder(module).visit(ast.parse(source))
    assert isinstance(tree, ast.Module)
    return ast.fix_missing_locations(tree)


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return compile(reword(self.get_data(path).decode("utf-8"), fullname.replace(".", "")), path, "exec")


class Finder(importlib.abc.MetaPathFinder):
    """Imports modules of ours without their texts."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.split(".")[0] not in PACKAGES or f"{fullname}.".startswith(tuple(f"{name}." for name in DATA)):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


#: Entries of the catalogue that are judged, and mutants of layouts.
ENTRIES = (
    "P22 float log2", "encode named amax", "nibbles the wrong way round", "raises on NaN alone", "fp8: the NaN lane alone",
)  # fmt: skip
LAYOUTS = ("nibbles-swapped", "swizzle-none", "swizzle-pad-one", "ggml-linear", "unpack-swapped")


class Summary:
    """What is said of targets, apart from texts; and all texts."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.texts: set[str] = set()

    def enter(self, name: str, report: Any) -> None:
        """One report of the judge, a proof or a campaign."""
        for r in report.requirements:
            # Of a call without an answer the steps are the target's own traceback.
            steps = r.first.steps if r.first is not None and "answer" not in r.first.returned else ()
            self.texts.update(text for text in (r.text, r.note, *steps) if text)
        self.found[name] = {
            "exit": report.exit_code,
            "counts": report.counts,
            "requirements": {
                r.id: [r.level, r.verdict.value, r.cases, r.failing, r.explained_by, r.first is not None]
                for r in report.requirements
            },
            "formats": [
                [
                    f.format, f.judged_against, f.chosen, f.provisional, f.distance, f.cases, f.distances, f.operations,
                    f.identical_to, len(f.behaviour), len(f.deviations), f.causes, len(f.open_choices), f.open_cases,
                ]
                for f in report.formats
            ],
        }  # fmt: skip


def summarize_judge(summary: Summary) -> None:
    """Verdicts on targets that are right, wrong in each way, and without an answer."""
    from mxspec_conformance.judge.check import check
    from mxspec_conformance.mutants import list_mutants
    from mxspec_conformance.mutants.instance import list_instances_of

    from tests.bugs import find
    from tests.judge.reading import AWAY, TARGETS

    summary.enter("ties away", check(AWAY, in_process=True, formats=["mxfp4", "mxint8", "nvfp4"]))
    summary.enter("scales by mx-rceil", check(find("scales by mx-rceil").target(), profile="mx-floor"))
    summary.enter("crashes", check(str(TARGETS / "processes" / "crashes.py"), only="scale/*"))
    for name in ENTRIES:
        entry = find(name)
        summary.enter(name, check(entry.target(), in_process=True, profile=entry.profile or None))
    mutants = {mutant.id: mutant for mutant in list_mutants()}
    for name in LAYOUTS:
        instance = next(list_instances_of(mutants[name]))
        summary.enter(name, check(next(instance.build())))


def summarize_others(summary: Summary) -> None:
    """What fuzzing, proving and identification find."""
    import mxspec
    from mxspec_conformance.fuzzing.run import fuzz
    from mxspec_conformance.fuzzing.subject import Settings
    from mxspec_conformance.identification.target import identify_format
    from mxspec_conformance.proving.run import Plan, prove
    from mxspec_conformance.transports.opening import open_target

    from tests.bugs import find

    for name in ("one_threshold", "odd_stride", "last_block"):
        campaign = fuzz(find(name).target(), Settings(seed=1, batches=4, first=True), in_process=True)
        summary.enter(f"fuzz {name}", campaign.report)
        summary.found[f"fuzz {name}"]["findings"] = [[f.topic, f.nonzero, f.mismatches, f.pattern.kind] for f in campaign.findings]
    for name, fmt, part in (("one_threshold", "mxfp8_e4m3", (60, 127)), ("last_block", "mxfp6_e3m2", (1, 200))):
        plan = Plan(fmt=fmt, dtypes=("bfloat16",), part=part)
        summary.enter(f"prove {name}", prove(find(name).target(), plan, in_process=True))
    identity = identify_format(open_target(find("P02 truncate").target()), mxspec.get_block("mxfp4"))
    summary.found["identify"] = [identity.identical, identity.nearest, len(identity.neighbours)]


SUMMARIES = {"judge": summarize_judge, "others": summarize_others}


def summarize(which: str) -> dict[str, Any]:
    """One of the summaries, as JSON holds it."""
    summary = Summary()
    SUMMARIES[which](summary)
    document: dict[str, Any] = json.loads(json.dumps({"found": summary.found, "texts": sorted(summary.texts)}))
    return document


def main() -> None:
    """Print a summary of the project without its texts."""
    sys.meta_path.insert(0, Finder())
    from tests.few_calls import ask_few_calls

    ask_few_calls()
    print(json.dumps(summarize(sys.argv[1])))


if __name__ == "__main__":
    main()
