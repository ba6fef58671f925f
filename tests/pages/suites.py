"""The published table of what acceptance tests see: `python -m tests.pages.suites`.

Every named rule (`mxspec_conformance.scoring.rules`) is asked about all mutants, right implementations and bugs by other authors of the formats
that it speaks of. Scores of suites that were run themselves, written by `mxspec score-tests --json`, join the table
by `--real NAME=FILE`.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

from mxspec_conformance.kits.choosing import order_blocks
from mxspec_conformance.kits.golden import Kit, find_kills, list_blocks
from mxspec_conformance.scoring.rules import RULES
from mxspec_conformance.scoring.score import as_dict, score_test
from mxspec_conformance.scoring.subjects import Subject, list_mutant_subjects
from mxspec_lab.kits import Matrix, find_matrix
from mxspec_lab.pools import forked_pool
from mxspec_vectors.files import vector_digest, write_file

FOLDER = Path(__file__).resolve().parents[2] / "reports" / "score-tests"
FORMATS = ("mxfp4", "mxfp8_e4m3", "nvfp4")
SCHEMA = "mxspec-suites/1"
#: Suites that were run themselves: what, in which version. tests/suites/README.md has the commands.
REAL = {
    "tosa": "Arm TOSA, CAST_TO_BLOCK_SCALED from fp32, reference model and tosa_verify of tosa-tools 2026.8.0",
    "gfloat": "graphcore-research/gfloat `test/test_block.py` @b142762de8, gfloat 0.5.2",
    "ggml": "ggml-org/ggml `tests/test-quantize-fns.cpp` @d99724f2b1, the program of ggml 0.21.0 with one type's functions replaced while it runs",
    "torchao": "pytorch/ao `test/prototype/mx_formats/test_kernels.py` @36027d82d1, casts of elements on a CPU; its tests of whole blocks need a GPU",
    "mlx": "ml-explore/mlx `python/tests/test_quantized.py` @846d176227, the test of the format's mode, mlx 0.32.4",
    "microxcaling": "microsoft/microxcaling `mx/tests/test_quantize_mx.py` @7bc41952de, blocks of 8 with ties to even on a CPU, in the place of the extension",
    "brevitas": "Xilinx/brevitas `tests/brevitas/core/test_quant_mx.py` @b106358c41, test_act_mx of the format, brevitas 0.12.1, Hypothesis 6.170.17",
    "compressed-tensors-scales": "vllm-project/compressed-tensors `test_mxfp4_utils.py` @ac8e2ba82f, test_mxfp4_scales_e2e in bfloat16, version 0.20.1",
    "compressed-tensors-codes": "vllm-project/compressed-tensors `test_fp4_quant.py` @ac8e2ba82f, version 0.20.1",
    "compressed-tensors-mxfp8": "vllm-project/compressed-tensors `test_mxfp8_quant.py` @ac8e2ba82f, test_mxfp8_compress_decompress, version 0.20.1",
}
#: What a suite that was run asks about, and so what it cannot see.
ASKED = {
    "microxcaling": "all numbers of 9 fraction bits in their order, so that neighbours share a binade; no NaN, no infinity, one shape",
    "brevitas": "100 blocks of Hypothesis between -1e10 and 1e10, whose largest number was between 2^33 and 1.2 times that in each: there `mx-floor`, `mx-rceil` and `mx-even` have one scale",
    "compressed-tensors-scales": "scale bytes of a weight of normal numbers: no element and no decoding",
    "compressed-tensors-codes": "12 of the 16 codes under the scale 1: no rounding and no scale",
    "compressed-tensors-mxfp8": "normal numbers there and back within 10 % and 0.1: most of what is lost is smaller",
}
#: The same rules, written by others from the same files, asked about the mutants of main at 1b7a1c2: (rule, format) -> (seen, mutants).
OUTSIDE = {
    ("flashinfer-mm-fp4", "mxfp4"): (7, 121), ("torchao-sqnr", "mxfp4"): (15, 121), ("tosa", "mxfp4"): (24, 121), ("flashinfer-roundtrip", "mxfp4"): (35, 121),
    ("aiter-allclose", "mxfp4"): (40, 121), ("flashinfer-fp4-quantize", "mxfp4"): (55, 121), ("normal-numbers", "mxfp4"): (65, 121), ("qutlass", "mxfp4"): (66, 121),
    ("flashinfer-mm-fp4", "mxfp8_e4m3"): (8, 115), ("torchao-sqnr", "mxfp8_e4m3"): (16, 115), ("normal-numbers", "mxfp8_e4m3"): (63, 115), ("te-exact", "mxfp8_e4m3"): (83, 115),
    ("flashinfer-mm-fp4", "nvfp4"): (7, 117), ("torchao-sqnr", "nvfp4"): (10, 117), ("flashinfer-roundtrip", "nvfp4"): (27, 117), ("qutlass-values", "nvfp4"): (46, 117),
    ("flashinfer-fp4-quantize", "nvfp4"): (47, 117), ("normal-numbers", "nvfp4"): (51, 117), ("te-exact", "nvfp4"): (70, 117), ("vllm-fp4", "nvfp4"): (71, 117),
}  # fmt: skip
#: Why a share is more than five points from ours, found by asking our rule with one thing changed.
OUTSIDE_REASONS = {
    ("qutlass-values", "nvfp4"): "the other lets 1e-4 of the values differ, as the file does for MXFP4; the file says 10 %. Ours with 1e-4: 52 of 117 (44 %)",
    ("vllm-fp4", "nvfp4"): "the other compares exactly; the file by torch's default tolerances. Ours by bytes, on 150 x 128 and 64 x 7168 of the file's shapes: 68 of 117 (58 %)",
}  # fmt: skip
#: Topics about the call, not about the numbers of a block.
OF_CALLS = frozenset({"tensor-scale", "choice", "position", "axis", "tail", "call-size", "state", "memory", "refusal"})
#: Calls without a keyword, and with float32: what `quantize(x)` alone can show.
PLAIN_CALLS = frozenset({"call:rows", "call:wide", "call:single", "call:large"})


def is_plain(subject: Subject) -> bool:
    """Whether a golden block, or blocks in one plain call, find a mutant out."""
    kills = find_kills(subject.build, Kit(subject.format, list_blocks(subject.format)), subject.profile)
    return bool(kills.blocks or kills.open_blocks or kills.calls & PLAIN_CALLS)


def find_plain(fmt: str) -> set[str]:
    """The mutants of quantize that one plain call can show: what a test of `quantize(x)` is asked about."""
    subjects = [s for s in list_mutant_subjects(fmt) if s.operation == "quantize"]
    with forked_pool() as pool:
        return {s.id for s, plain in zip(subjects, pool.map(is_plain, subjects, chunksize=8), strict=True) if plain}


def entry_of(name: str, document: Mapping[str, Any], plain: set[str]) -> dict[str, Any]:
    """A row of the table, from a score."""
    quantize = [r for r in document["mutants"] if r["operation"] == "quantize"]
    visible = [r for r in quantize if r["id"] in plain]
    # A suite whose own package is named like the one that the bugs by others are in cannot be asked about them.
    others = [r for r in document["independent"] if r["operation"] == "quantize" and r["verdict"] in ("accepts", "rejects")]
    return {
        "rule": name, "format": document["format"], "status": document["status"], "rules": document["rules"],
        "quantize": {"mutants": len(quantize), "seen": _seen(quantize)}, "plain": {"mutants": len(visible), "seen": _seen(visible)},
        "independent": {"bugs": len(others), "seen": _seen(others)},
        "right": {"asked": document["counts"]["right"] + len(document["controls"]), "rejected": document["counts"]["right_rejected"]},
        "families": document["families"], "does_not_see": sorted(r["id"] for r in quantize if r["verdict"] == "accepts"),
    }  # fmt: skip


def lift(document: Mapping[str, Any], matrix: Matrix, splits: int = 20, seed: int = 15, size: int = 140) -> dict[str, Any]:
    """What a test sees together with a patch that was chosen by half of the mutants: shares of the other half, over random halves.

    document: the test's score. matrix: what finds each mutant of quantize out. The patch is `size` blocks, and all calls.
    """
    seen = {r["id"] for r in document["mutants"] if r["operation"] == "quantize" and r["verdict"] == "rejects"}
    ids = sorted({name.rpartition("/")[2] for name in matrix})
    chance, before, after = random.Random(seed), [], []
    for _ in range(splits):
        looked = set(chance.sample(ids, len(ids) // 2))
        chosen = set(order_blocks([k.blocks | k.open_blocks for n, k in matrix.items() if n.rpartition("/")[2] in looked], size))
        others = [(n.rpartition("/")[2], k) for n, k in matrix.items() if n.rpartition("/")[2] not in looked]
        before.append(sum(n in seen for n, _ in others) / len(others))
        after.append(sum(n in seen or bool(k.calls) or bool(chosen & (k.blocks | k.open_blocks)) for n, k in others) / len(others))
    return {
        "blocks": size,
        "splits": splits,
        "before": round(mean(before), 4),
        "mean": round(mean(after), 4),
        "worst": round(min(after), 4),
    }


def _seen(rows: Sequence[Mapping[str, Any]]) -> int:
    return sum(r["verdict"] == "rejects" for r in rows)


def render(document: Mapping[str, Any]) -> str:
    """The table as Markdown."""
    lines = [
        "# What acceptance tests see",
        "",
        "Generated by `python -m tests.pages.suites`; the data is in [rules.json](rules.json). How to read it: [score-tests](../../docs/kits.md#the-score-of-an-acceptance-test).",
        "A rule is restated from the named file, on data of its distribution; suites that were run themselves say so. Mutants are mxspec's",
        "own; bugs by other authors count in a column of their own. A test that does not see a mutant is not wrong: it asks something else. Tests that",
        "compare bytes with a reference, such as Transformer Engine's and vLLM's, are good tests with thin data. The last column counts choices that",
        "OCP leaves open (NaN, zero blocks): a test of one implementation may well insist on the choice that was made there.",
        "",
    ]
    for fmt in FORMATS:
        listed = [r for r in (*document["suites"], *document["real"]) if r["format"] == fmt]
        rows = sorted(listed, key=lambda r: r["plain"]["seen"] / max(r["plain"]["mutants"], 1))
        lines += [
            f"## {fmt}",
            "",
            "| test | from | of mutants that a plain call shows | of all | by other authors | right ones rejected |",
            "|---|---|---:|---:|---:|---:|",
        ]
        lines += [_row(r, document["rules"]) for r in rows]
        lines += [""] + [_missed(r) for r in rows if r["rule"] in REAL]
        lines += ["", _on_another_list(fmt, rows, document["rules"])]
        lines += _lifted([r for r in rows if "with_patch" in r])
        lines.append("")
    return "\n".join([*lines, *_beside_others(document)])


def _missed(row: Mapping[str, Any]) -> str:
    """What a suite asks, and the kinds of mistakes of which it sees none, or few."""
    families = {name: (part["seen"], part["mutants"]) for name, part in row["families"].items()}
    none = [name for name, (seen, _) in families.items() if not seen]
    few = [f"{name} {seen} of {of}" for name, (seen, of) in families.items() if 0 < 3 * seen <= of]
    said = [f"sees none of: {'; '.join(none)}"] * bool(none) + [f"few of: {'; '.join(few)}"] * bool(few)
    asked = f"asks {ASKED[row['rule']]}; it " if row["rule"] in ASKED else ""
    return f"- {row['rule']} {asked}{', and '.join(said) or 'sees some of every kind'}."


def _beside_others(document: Mapping[str, Any]) -> list[str]:
    """Our shares beside those that were measured outside."""
    rows = {(r["rule"], r["format"]): r for r in (*document["suites"], *document["real"])}
    lines = [
        "## Beside others' measurement", "",
        "Others restated the same rules and asked them about the mutants of an earlier state, at commit 1b7a1c2, those about calls, places and tensor scales left out.",
        "Ours: the mutants of today that are left by the same rule.", "",
        "| format | rule | others | here | points apart | why |", "|---|---|---:|---:|---:|---|",
    ]  # fmt: skip
    shares: dict[tuple[str, str], tuple[float, float]] = {}
    for (name, fmt), (seen, of) in OUTSIDE.items():
        listed = _list_of_blocks(fmt)
        ours = len(listed - set(rows[name, fmt]["does_not_see"]))
        shares[name, fmt] = 100 * seen / of, 100 * ours / len(listed)
        apart = shares[name, fmt][1] - shares[name, fmt][0]
        lines.append(
            f"| {fmt} | {name} | {seen} of {of} ({100 * seen / of:.0f} %) | {ours} of {len(listed)} ({shares[name, fmt][1]:.0f} %) | {apart:+.1f} | {OUTSIDE_REASONS.get((name, fmt), '')} |"
        )
    turned = [
        f"{a} and {b} ({f})"
        for (a, f), (b, g) in combinations(shares, 2)
        if f == g and (shares[a, f][0] - shares[b, g][0]) * (shares[a, f][1] - shares[b, g][1]) < 0
    ]
    return [
        *lines,
        "",
        f"Of {sum(f == g for (_, f), (_, g) in combinations(shares, 2))} pairs of rules, {len(turned)} come in another order: {', '.join(turned)}.",
        "",
    ]


def _list_of_blocks(fmt: str) -> set[str]:
    """Mutants of quantize that the kill matrix finds by a topic that is not about calls, places or tensor scales."""
    matrix = json.loads((FOLDER.parent / "mutants" / "matrix.json").read_text("ascii"))["mutants"]
    return {
        m["id"]
        for m in matrix
        for i in m["instances"]
        if (i["operation"], i["format"]) == ("quantize", fmt) and set(i["topics"]) - OF_CALLS
    }


def _on_another_list(fmt: str, rows: Sequence[Mapping[str, Any]], rules: Mapping[str, Any]) -> str:
    """The same rules' shares of mutants that were chosen in another way: how much a share depends on the list."""
    listed = _list_of_blocks(fmt)
    shares = [
        f"{rules[r['rule']]['suite']} {100 * len(listed - set(r['does_not_see'])) / len(listed):.0f} %" for r in rows if r["rule"] in rules
    ]
    return (
        f"Shares depend on the list. Of the {len(listed)} mutants that the [kill matrix](../mutants/matrix.json) finds by a topic that is not about calls, places "
        f"or tensor scales: {', '.join(shares)}."
    )


def _lifted(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each suite that was run: what it sees with a patch."""
    return [
        f"\n{r['rule']} with a patch of {r['with_patch']['blocks']} blocks and the call patterns, chosen by half of all mutants of quantize: it sees "
        f"{100 * r['with_patch']['mean']:.0f} % of the other half (worst of {r['with_patch']['splits']} splits {100 * r['with_patch']['worst']:.0f} %), "
        f"without it {100 * r['with_patch']['before']:.0f} %."
        for r in rows
    ]


def _row(row: Mapping[str, Any], rules: Mapping[str, Any]) -> str:
    about = rules.get(row["rule"], {})
    files = about.get("file", "").split(", ")
    file = next((f for f in files if row["format"] in f), files[0])
    place = f"{about['repository']} `{file}` @{about['commit'][:10]}" if about.get("repository") else "-"
    if row["rule"] in REAL:
        place = f"run itself: {REAL[row['rule']]}"

    def share(part: Mapping[str, int], key: str) -> str:
        return f"{part['seen']} of {part[key]} ({100 * part['seen'] / part[key]:.0f} %)" if part[key] else "-"

    right = row["right"]
    name = f"{about.get('suite', row['rule'])}: {about['words']}" if about else row["rule"]
    return f"| {name} | {place} | {share(row['plain'], 'mutants')} | {share(row['quantize'], 'mutants')} | {share(row['independent'], 'bugs')} | {right['rejected']} of {right['asked']} |"


def join_real(named: Sequence[str]) -> None:
    """Enter scores of suites that were run, NAME=FILE of `mxspec score-tests --json`, into reports/score-tests/real.json."""
    path = FOLDER / "real.json"
    matrices: dict[str, Matrix] = {}
    rows = json.loads(path.read_text("ascii"))["suites"] if path.exists() else []
    for text in named:
        name, _, file = text.partition("=")
        score = json.loads(Path(file).read_text("ascii"))
        rows = [r for r in rows if (r["rule"], r["format"]) != (name, score["format"])]
        row = entry_of(name, score, find_plain(score["format"]))
        if score["format"] not in matrices:
            matrices[score["format"]] = find_matrix([s for s in list_mutant_subjects(score["format"]) if s.operation == "quantize"])
        rows.append(row | {"with_patch": lift(score, matrices[score["format"]])})
    document = {"schema": SCHEMA, "suites": sorted(rows, key=lambda r: (r["format"], r["rule"]))}
    write_file(path, (json.dumps(document, indent=1) + "\n").encode("ascii"))
    publish()


def publish() -> None:
    """Write the table."""
    document = json.loads((FOLDER / "rules.json").read_text("ascii"))
    real = FOLDER / "real.json"
    document["real"] = json.loads(real.read_text("ascii"))["suites"] if real.exists() else []
    write_file(FOLDER / "README.md", render(document).encode("utf-8"))


def _put_in_place(rows: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with those of the same rule and format replaced, in the order of formats and rules."""
    known = {(r["format"], r["rule"]): r for r in (*rows, *new)}
    return [known[fmt, name] for fmt in FORMATS for name in RULES if (fmt, name) in known]


def main(arguments: Sequence[str]) -> int:
    """Score all rules, or print those named; --renew NAME ...: those in place of what is published; --real NAME=FILE ...: join scores of suites."""
    if arguments[:1] == ["--real"]:
        join_real(arguments[1:])
        return 0
    renewed = arguments[:1] == ["--renew"]
    arguments = arguments[renewed:]
    suites: list[dict[str, Any]] = []
    for fmt in FORMATS:
        plain = find_plain(fmt)
        print(f"{fmt}: {len(plain)} mutants in a plain call", file=sys.stderr, flush=True)
        for name, rule in RULES.items():
            if fmt in rule.checks and (not arguments or name in arguments):
                score = score_test(f"rule:{name}", fmt, timeout=600, repeat=1, patch=False)
                suites.append(entry_of(name, as_dict(score), plain))
                print({k: v for k, v in suites[-1].items() if k not in ("families", "does_not_see")}, file=sys.stderr, flush=True)
    if renewed:
        suites = _put_in_place(json.loads((FOLDER / "rules.json").read_text("ascii"))["suites"], suites)
    elif arguments:
        return 0
    about = {
        n: {"suite": r.suite, "repository": r.repository, "file": r.file, "commit": r.commit, "words": r.words} for n, r in RULES.items()
    }
    document = {"schema": SCHEMA, "vectors": vector_digest(operations=("quantize",)), "rules": about, "suites": suites}
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_file(FOLDER / "rules.json", (json.dumps(document, indent=1) + "\n").encode("ascii"))
    publish()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
