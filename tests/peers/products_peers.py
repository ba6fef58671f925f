"""Judge known libraries' products, and the examples of libraries that no adapter has, in the environment at hand.

    python tests/peers/products_peers.py [TARGET...]

Without a target: the known ones whose library is here. Each writes TARGET.json into reports/products, whose README.md shows them as a table; examples
of packages, into reports/packages, whose table is written, too.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mxspec_conformance import check
from mxspec_conformance.adapters.registry import Kept, known_adapters
from mxspec_conformance.identification.products import identify_products_of
from mxspec_lab.evidence.status import REPORTS, stamp
from mxspec_vectors.files import write_file

SCHEMA = "mxspec-products/1"
FOLDER = REPORTS / "products"
EXAMPLES = REPORTS.parent / "conformance/examples"
#: Folders of examples, and where their results are kept.
FOLDERS = {"gpu": REPORTS / "card", "packages": REPORTS / "packages"}
#: Runs of an example under another value of a variable that it reads: example, what is added to its name, variable, value.
RUNS = (
    ("gptqmodel-marlin", "mxfp4", "WEIGHTS", "mxfp4"), ("gptqmodel-marlin", "nvfp4", "WEIGHTS", "nvfp4"), ("humming-fp8", "mx", "KIND", "mx"),
    ("humming-int", "gptq", "METHOD", "gptq"), ("humming-int", "int8", "METHOD", "int8"), ("mslk-fp8-block", "slow", "ACCUMULATE", "slow"),
    ("mslk-fp8-block", "first", "TILES", "first"), ("sglang-act-quant", "ue8m0", "SCALE", "ue8m0"),
    ("sglang-fp8-product", "split", "SPLIT_K", "4"), ("sglang-mxfp8", "tiles", "PLACES", "tiles"),
    ("tokenspeed-mxfp4", "hopper", "ORDER", "hopper"), ("tokenspeed-mxfp4", "hopper-64", "ORDER", "hopper-64"),
    ("torch-scaled-grouped", "fast", "FAST", "1"), ("torch-scaled-rows", "fast", "FAST", "1"),
    ("torchao-fp8-groups", "training", "FOR", "training"), ("vllm-awq", "dequantize", "BY", "dequantize"),
    ("vllm-fp8-groups", "columns", "ORDER", "columns"), ("vllm-silu-mul", "ue8m0", "SCALE", "ue8m0"),
)  # fmt: skip
VARIABLES = {f"{example}-{word}": (variable, value) for example, word, variable, value in RUNS}
#: Examples that no card has judged to the end yet.
WAITING = ("humming-int-int8", "humming-moe")
#: Examples that take minutes otherwise: judged at the quick level.
SLOW = ("humming-fp8", "humming-fp8-mx", "pychop-mx", "tt-lang-mxfp4")
#: Ids of failing calls that are kept.
_KEPT = 3
#: Bytes of a first failure, with the operands that give it.
_MOST_BYTES = 20_000


def list_examples(*folders: str) -> dict[str, Path]:
    """Name -> target file of a library that no adapter has; of some folders, or all."""
    found = {path.stem.replace("_", "-"): path for folder in folders or FOLDERS for path in sorted((EXAMPLES / folder).glob("*.py"))}
    return found | {f"{example}-{word}": found[example] for example, word, *_ in RUNS if example in found}


def list_targets() -> list[str]:
    """The targets whose products are kept."""
    return [name for name, adapter in known_adapters().items() if adapter.kept is Kept.PRODUCTS]


def record(name: str) -> dict[str, Any]:
    """What is published of one target."""
    target = str(list_examples().get(name, name))
    os.environ |= dict([VARIABLES[name]] if name in VARIABLES else [])
    judged = check(target, quick=name in SLOW).as_dict()
    products = any("matmul" in entry["operations"] for entry in judged["formats"])
    return describe_check(name, judged, [asdict(found) for found in identify_products_of(target)] if products else [])


def find_about(name: str) -> str:
    """What a target is."""
    if name in known_adapters():
        return known_adapters()[name].about
    return ast.get_docstring(ast.parse(list_examples()[name].read_text("utf-8"))) or ""


def describe_check(name: str, judged: dict[str, Any], identified: list[dict[str, Any]]) -> dict[str, Any]:
    """The document of a target: of failing cases the first ones, of the first output no more than fits a page."""
    for requirement in judged["requirements"]:
        requirement["failing_cases"] = requirement["failing_cases"][:_KEPT]
        if requirement["first"] is not None and len(json.dumps(requirement["first"])) > _MOST_BYTES:
            requirement["first"].pop("product", None)
    file = list_examples().get(name)
    where: dict[str, Any] = {} if file is None else {"file": file.relative_to(REPORTS.parent).as_posix()}
    where |= {"variables": dict([VARIABLES[name]])} if name in VARIABLES else {}
    return {"schema": SCHEMA, "target": name, "about": find_about(name), **where, "check": judged, "identify": identified}


def describe(document: Mapping[str, Any]) -> str:
    """A row of the page's table."""
    judged = document["check"]
    offered = len(judged["formats"] or {r["id"].partition("/")[2].rpartition("/")[0] for r in judged["requirements"]})
    topics: dict[tuple[str, str], list[str]] = {}
    for requirement in judged["requirements"]:
        if requirement["verdict"] not in ("pass", "open", "unsupported"):
            product, topic = requirement["id"].partition("/")[2].rsplit("/", 1)
            topics.setdefault((requirement["verdict"], topic), []).append(product)
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (verdict, topic), products in topics.items():
        groups.setdefault((verdict, tuple(products)), []).append(topic)
    said = [
        f"{verdict} in {', '.join(found)}{'' if len(products) == offered else f' of {_join(products)}'}"
        for (verdict, products), found in groups.items()
    ] or ["conforms"]
    # The sentence that names the class of additions says no more than the class.
    said += dict.fromkeys(f"sums: {entry['behaviour']['sums']}" for entry in judged["formats"] if "sums" in entry["behaviour"])
    said += dict.fromkeys(d for entry in judged["formats"] for d in entry["deviations"] if not d.startswith("sums fit no finer class"))
    unsupported = sum(r["verdict"] == "unsupported" for r in judged["requirements"])
    said += [f"{unsupported} requirement{'s' * (unsupported > 1)} not supported"] * bool(unsupported)
    asked = [found for found in document["identify"] if found["compared"]]
    models = Counter(found["model"] for found in asked)
    named = [model if len(models) == 1 else f"{model} ({count})" for model, count in models.items() if model]
    return f"| `{document['target']}` {judged['target']['version']} | {offered} | {'<br>'.join(said)} | {'<br>'.join(named) or 'none'} |"


def _join(names: Sequence[str]) -> str:
    """Products that share a side, by that side."""
    sides = {side for side in (0, 1) if len({name.split("@")[side] for name in names}) == 1}
    if len(names) > 1 and len(sides) == 1:
        (side,) = sides
        one, others = names[0].split("@")[side], [name.split("@")[1 - side] for name in names]
        return f"{one}@({', '.join(others)})" if side == 0 else f"({', '.join(others)})@{one}"
    return ", ".join(names)


#: How often a requirement met an error, which each of them says.
_COUNT = re.compile(r"^\d+ of \d+ cases: ")
PACKAGES_HEAD = "| package | operations | what `mxspec check` says | level | fail | seconds |\n|---|---|---|---|---:|---:|"


def describe_package(document: Mapping[str, Any]) -> Iterator[str]:
    """Rows of a package: one for each block format or operation on elements, with what is named of it."""
    judged = document["check"]
    said = {entry["format"]: entry for entry in judged["formats"]}
    found: dict[tuple[str, ...], list[str]] = {}
    for fmt in dict.fromkeys(r["id"].split("/")[1] for r in judged["requirements"]):
        own = [r for r in judged["requirements"] if r["id"].split("/")[1] == fmt and r["verdict"] not in ("unsupported", "pass", "open")]
        entry = said.get(fmt)
        words = [] if entry is None else [_conclude(entry, bool(own)), *(d for d in entry["deviations"] if not d.startswith("open: "))]
        notes = (" ".join(_COUNT.sub("", r["note"]).split()) for r in own if not any(r["note"] in word for word in words))
        words += filter(None, dict.fromkeys(notes))
        operations = dict.fromkeys(r["id"].split("/")[0] for r in judged["requirements"] if r["id"].split("/")[1] == fmt)
        levels = " and ".join(dict.fromkeys(r["level"] for r in own)) or ""
        found.setdefault(
            (
                ", ".join(operations),
                "<br>".join(words if len(words) > 1 or not own else [*words, f"fails {', '.join(r['id'].split('/')[2] for r in own)}"])
                or "passes",
                levels,
                str(len(own)),
            ),
            [],
        ).append(fmt)
    for number, ((operations, words, levels, count), formats) in enumerate(found.items()):
        name = f"[{document['target']}](../../{document['file']}) {judged['target']['version']}" if not number else ""
        card = judged["environment"].get("device", "").replace("NVIDIA", "").partition(" 80GB")[0]
        seconds = f"{judged['seconds']:.0f}{card}{' (quick)' * (document['target'] in SLOW)}" if not number else ""
        yield f"| {name} | {operations} of {', '.join(formats)} | {words} | {levels} | {count} | {seconds} |"


def _conclude(entry: Mapping[str, Any], fails: bool) -> str:
    """The profile by which a format is judged, and the one whose bits it has."""
    same = f", same bits as {', '.join(entry['identical_to'][:2])}" * bool(entry["identical_to"])
    return f"{'nearest' if fails else 'conforms to'} {entry['judged_against']}{same}"


def render_packages(folder: str = "packages") -> str:
    """The table of reports/packages/README.md, or of reports/card/README.md."""
    documents = [json.loads(path.read_text("ascii")) for path in sorted(FOLDERS[folder].glob("*.json"))]
    return "\n".join([PACKAGES_HEAD, *(row for document in documents for row in describe_package(document))]) + "\n"


HEAD = "| target | products | what `mxspec check` says | model that gives its bits |\n|---|---:|---|---|"


def main(arguments: list[str]) -> None:
    """All targets named, each written as soon as it is known."""
    here = [name for name in list_targets() if name in known_adapters() and known_adapters()[name].library.is_here()]
    for name in arguments or here:
        document = record(name)
        example = next((folder for folder in FOLDERS if name in list_examples(folder)), "")
        path = FOLDERS.get(example, FOLDER) / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, (json.dumps(document, indent=1) + "\n").encode("ascii"))
        stamp(path)
        if not example:
            print(describe(document), flush=True)
        else:
            page = path.with_name("README.md")
            write_file(page, (page.read_text("utf-8").partition(PACKAGES_HEAD)[0] + render_packages(example)).encode("utf-8"))
            print("\n".join(describe_package(document)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
