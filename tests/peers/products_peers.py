"""Judge and identify the products of known libraries, in the environment at hand.

    python tests/peers/products_peers.py [TARGET...]

Without a target: the known ones whose library is here. Each writes reports/products/TARGET.json, which reports/products/README.md shows as a table.
"""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
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
EXAMPLES = REPORTS.parent / "conformance/examples/gpu"
#: Ids of failing calls that are kept.
_KEPT = 3
#: Bytes of a first failure, with the operands that give it.
_MOST_BYTES = 20_000


def list_examples() -> dict[str, Path]:
    """Name -> target file of a library that runs on a GPU."""
    return {path.stem.replace("_", "-"): path for path in sorted(EXAMPLES.glob("*.py"))}


def list_targets() -> list[str]:
    """The targets whose products are kept: known ones, and files of examples."""
    return [*(name for name, adapter in known_adapters().items() if adapter.kept is Kept.PRODUCTS), *list_examples()]


def record(name: str) -> dict[str, Any]:
    """What is published of one target."""
    target = str(list_examples().get(name, name))
    judged = check(target).as_dict()
    return describe_check(name, judged, [asdict(found) for found in identify_products_of(target)] if judged["formats"] else [])


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
    return {"schema": SCHEMA, "target": name, "about": find_about(name), "check": judged, "identify": identified}


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


HEAD = "| target | products | what `mxspec check` says | model that gives its bits |\n|---|---:|---|---|"


def main(arguments: list[str]) -> None:
    """All targets named, each written as soon as it is known."""
    here = [name for name in list_targets() if name in known_adapters() and known_adapters()[name].library.is_here()]
    for name in arguments or here:
        document = record(name)
        path = FOLDER / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, (json.dumps(document, indent=1) + "\n").encode("ascii"))
        stamp(path)
        print(describe(document), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
