"""Run the libraries that the judge knows on an NVIDIA GPU, and record what they showed.

For every target of a library on a GPU: `mxspec check`, and the comparison with the profiles that it is expected to follow, and with
those that the same code follows on the CPU where they are others. What differs on a GPU may be owed to the versions there: so the same
code is compared with its profiles on that machine's CPU, too. Each is a process of its own with a time limit, so that one that hangs
or fails costs no other. The verdicts go to `reports/gpu/NAME.json`, the comparisons of all to `reports/gpu/peers-GPU.json`.
Libraries that are not installed are named in the last line.

    python tests/peers/gpu_peers.py [NAME...] [--into FOLDER] [--jobs N] [--seconds S] [--markdown]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mxspec_conformance.adapters._cuda import list_versions
from mxspec_conformance.adapters.registry import Kept, known_adapters
from mxspec_lab.crosscheck import compare_all, compare_counterpart, describe
from mxspec_lab.evidence.status import write_result

ROOT = Path(__file__).resolve().parents[2]
Document = dict[str, Any]
#: Failing cases that are kept of a requirement.
_KEPT_CASES = 3


def list_targets() -> list[str]:
    """The libraries' targets on a GPU; those whose kernels are compiled when they are called first, since they take longest."""
    found = [a.name for a in known_adapters().values() if a.kept is Kept.GPU and a.counterpart]
    return sorted(found, key=lambda name: "compiled" not in name)


def list_counterparts() -> list[str]:
    """The same code on the CPU, where it is expected to follow profiles."""
    known = known_adapters()
    found = dict.fromkeys(known[name].counterpart for name in list_targets())
    return [name for name in found if known[name].profiles or known[name].profiles_one_level]


def compare(name: str) -> Document:
    """A target's comparisons with the profiles that it follows, and with those of its counterpart."""
    adapter = known_adapters()[name]
    target = adapter.load()
    record = describe(target, compare_all(adapter, target))
    if not adapter.counterpart:
        record["environment"] |= {"device": "CPU", "libraries": list_versions()}
        return record
    record["environment"] |= target.MXSPEC_SURROUNDINGS
    return {
        **record,
        "counterpart": adapter.counterpart,
        "with the counterpart's": [asdict(c) for c in compare_counterpart(adapter, target)],
    }


def judge(name: str, into: Path, seconds: float) -> tuple[Document | None, str]:
    """What a target's comparisons showed, and how its judging ended; its verdicts are written."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        verdict, witness = Path(scratch) / "check.json", Path(scratch) / "witness.json"
        commands: dict[str, list[str | Path]] = {"comparison": [__file__, "--compare", name, "--json", witness]}
        if known_adapters()[name].counterpart:
            commands["check"] = ["-m", "mxspec_conformance", "check", name, "--json", verdict, "--failures", "0", "--timeout", "300"]
        ended = {what: _run(command, seconds) for what, command in commands.items()}
        if verdict.exists():
            document = json.loads(verdict.read_text("ascii"))
            for requirement in document["requirements"]:
                requirement["failing_cases"] = requirement["failing_cases"][:_KEPT_CASES]
            write_result(into / f"{name}.json", document)
        record = json.loads(witness.read_text("ascii")) if witness.exists() else None
    said = "; ".join(f"{what}: {end}" for what, end in ended.items() if end)
    return record, f"{name}: {said or 'done'} ({time.monotonic() - start:.0f} s)"


def _run(command: Sequence[str | Path], seconds: float) -> str:
    """How a command ended, where it did not end well."""
    try:
        done = subprocess.run([sys.executable, *map(str, command)], cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return f"not done in {seconds:.0f} s"
    return "" if done.returncode in (0, 1) and "Traceback" not in done.stderr else (done.stderr or done.stdout)[-1500:]


def keep_records(path: Path, records: Sequence[Document]) -> None:
    """Write the comparisons, in the order of their targets; those of targets that were not run stay."""
    held = json.loads(path.read_text("ascii"))["targets"] if path.exists() else []
    found = {r["target"]: r for r in (*held, *records)}
    write_result(path, {"what": "libraries on a GPU against profiles", "targets": [found[name] for name in sorted(found)]})


HEAD = (
    "| target | library | pass, fail, deviation, open | blocks that differ from its profiles | of the same code on that machine's CPU |\n"
    "|---|---|---|---|---|"
)


def describe_result(name: str, folder: Path) -> str:
    """A line of the table in reports/gpu/README.md, from a target's verdicts and from the comparisons beside them."""
    judged = json.loads((folder / f"{name}.json").read_text("ascii"))
    records = {r["target"]: r for r in json.loads((folder / "peers-h200.json").read_text("ascii"))["targets"]}
    counts, adapter = judged["counts"], known_adapters()[name]
    said = ", ".join(f"{counts.get(verdict, 0)}" for verdict in ("pass", "fail", "deviation", "open"))
    return f"| `{name}` | {adapter.about} ({judged['target']['version']}) | {said} | {_share(records.get(name))} | {_share(records.get(adapter.counterpart))} |"


def _share(record: Mapping[str, Any] | None) -> str:
    if record is None or not record["compared"]:
        return "-"
    return f"{record['different']:,} of {record['compared']:,}" if record["different"] else f"none of {record['compared']:,}"


def main() -> int:
    """Judge the targets named on the command line, or all that are installed, and compare their counterparts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join((*list_targets(), *list_counterparts())))
    parser.add_argument("--into", type=Path, default=ROOT / "reports" / "gpu", metavar="FOLDER")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) - 2), help="targets at a time")
    parser.add_argument("--seconds", type=float, default=300, help="the time limit of each of a target's two processes")
    parser.add_argument("--gpu", default="h200", help="the chip, for the name of the comparisons' file")
    parser.add_argument("--compare", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--markdown", action="store_true", help="print the table of the results in the folder, and run nothing")
    options = parser.parse_args()
    if options.markdown:
        print(
            "\n".join([HEAD, *(describe_result(n, options.into) for n in sorted(list_targets()) if (options.into / f"{n}.json").exists())])
        )
        return 0
    if options.compare:
        write_result(options.json, compare(options.compare))
        return 0
    known = [*list_targets(), *list_counterparts()]
    unknown = set(options.names) - set(known)
    if unknown:
        parser.error(f"unknown target {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    wanted = options.names or known
    here = [name for name in wanted if known_adapters()[name].library.is_here()]
    path, bad = options.into / f"peers-{options.gpu}.json", 0
    with ThreadPoolExecutor(options.jobs) as pool:
        waiting = [pool.submit(judge, name, options.into, options.seconds) for name in here]
        for done in as_completed(waiting):
            record, said = done.result()
            if record is not None:
                keep_records(path, [record])
            different = 0 if record is None else record["different"]
            bad += record is None or bool(different)
            print(said + (f", {record['compared']} comparisons, {different} different" if record else ""), flush=True)
    if missing := [name for name in wanted if name not in here]:
        print(f"not installed: {', '.join(missing)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
