"""Run the libraries that the judge knows, each in an environment of its own, and record what they showed.

For every peer: an environment `.venv-NAME` with the pinned packages, the comparison of each of its targets with the profiles
that it is expected to follow (zero differences are expected), and `mxspec check` of each. What is installed and compared stands
in the modules of `mxspec_conformance.adapters`. Results go to `reports/peers/NAME.json`; the test command fails when one of
them was made with other vectors than the current ones, or shows a difference.

    python tests/peers/run_peers.py [NAME...] [--python NAME=PATH]

Peers that are not on the package index need an environment variable; those that were not run are named in the last line.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from mxspec_conformance.adapters.registry import Adapter, Kept, Library, Source, known_adapters
from mxspec_lab.evidence.status import stamp
from mxspec_vectors.files import write_file

ROOT = Path(__file__).resolve().parents[2]


class Release(Enum):
    """Which release of a library is judged; of others than the pinned one profiles say nothing."""

    PINNED = "pinned"
    EARLIER = "earlier"
    #: A commit after the pinned release.
    LATER = "later"


@dataclass(frozen=True, slots=True)
class Peer:
    """One environment with its libraries: one, or all light ones."""

    name: str
    libraries: tuple[Library, ...]
    adapters: tuple[Adapter, ...]
    release: Release = Release.PINNED

    @property
    def packages(self) -> tuple[str, ...]:
        """What is installed."""
        if self.release is Release.LATER:
            return tuple(dict.fromkeys(p for a in self.adapters for p in a.later))
        return tuple(p for library in self.libraries for p in (library.earlier if self.release is Release.EARLIER else library.packages))

    @property
    def bare_packages(self) -> tuple[str, ...]:
        """What is installed without what it asks for."""
        return tuple(package for library in self.libraries for package in library.bare_packages)

    @property
    def missing(self) -> tuple[Source, ...]:
        """What is not on the package index and has not been named."""
        return tuple(x.source for x in self.libraries if x.source is not None and x.source.variable not in os.environ)


def list_peers() -> tuple[Peer, ...]:
    """The environments of all known libraries."""
    members: dict[str, list[Adapter]] = {}
    for adapter in known_adapters().values():
        if adapter.library.environment is not None and adapter.kept is Kept.PEER:
            members.setdefault(adapter.library.environment, []).append(adapter)
    return tuple(Peer(name, tuple(dict.fromkeys(a.library for a in adapters)), tuple(adapters)) for name, adapters in members.items())


def make_other(release: Release) -> Peer:
    """One environment with the earlier releases of all libraries that name one, or with what comes after the pinned ones."""
    known = [a for a in known_adapters().values() if a.kept is Kept.PEER]
    adapters = tuple(a for a in known if (a.library.earlier if release is Release.EARLIER else a.later))
    return Peer(release.value, tuple(dict.fromkeys(a.library for a in adapters)), adapters, release)


PEERS = (*list_peers(), make_other(Release.EARLIER), make_other(Release.LATER))


def run(*command: str | Path) -> None:
    """Run a command and pass its failure on."""
    print("$", *command, flush=True)
    subprocess.run([str(c) for c in command], check=True, cwd=ROOT)


def make_environment(peer: Peer) -> Path:
    """The interpreter of the peer's environment, made if it is not there."""
    folder = ROOT / f".venv-{peer.name}"
    python = folder / "bin" / "python"
    if not (folder / "done").exists():
        run(sys.executable, "-m", "venv", folder)
        for package in peer.packages:
            run(python, "-m", "pip", "install", "--quiet", package)
        for package in peer.bare_packages:
            run(python, "-m", "pip", "install", "--quiet", "--no-deps", package)
        run(python, "-m", "pip", "install", "--quiet", "--editable", ROOT)
        (folder / "done").touch()
    return python


def record(peer: Peer, python: Path) -> dict[str, object]:
    """Compare every target of a peer with its profiles, and check it."""
    with tempfile.TemporaryDirectory() as scratch:
        witness, judged = Path(scratch) / "witness.json", []
        compared = [] if peer.release is not Release.PINNED else [a.name for a in peer.adapters if a.profiles or a.profiles_one_level]
        if compared:
            subprocess.run([python, "-m", "mxspec_lab.crosscheck", *compared, "--json", witness], cwd=ROOT, check=False)
        else:  # casts of elements have no profiles, and other releases others
            witness.write_text("[]", "ascii")
        if not witness.exists():
            raise SystemExit(f"{peer.name}: its targets could not be compared; what went wrong stands above")
        for target in (a.name for a in peer.adapters):
            result = Path(scratch) / "check.json"
            command = [python, "-m", "mxspec_conformance", "check", target, "--json", result, "--failures", "0"]
            done = subprocess.run([str(c) for c in command], cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
            if done.returncode > 1:
                raise SystemExit(f"{target} could not be judged")
            document = json.loads(result.read_text("ascii"))
            for requirement in document["requirements"]:
                requirement["failing_cases"] = requirement["failing_cases"][:3]
            judged.append(document)
        packages = subprocess.run([python, "-m", "pip", "list", "--format=json"], capture_output=True, text=True, check=True).stdout
        wanted = {_canonical(re.split(r"[=\[ ]", p)[0]) for p in (*peer.packages, *peer.bare_packages, "numpy", "ml_dtypes")}
        return {
            "peer": peer.name,
            "packages": {p["name"]: p["version"] for p in json.loads(packages) if _canonical(p["name"]) in wanted},
            "witness": json.loads(witness.read_text("ascii")),
            "checks": judged,
        }


def _canonical(name: str) -> str:
    """A distribution's name as the package index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> int:
    """Run the peers named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(p.name for p in PEERS))
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH", help="use this interpreter instead")
    options = parser.parse_args()
    given = dict(p.split("=", 1) for p in options.python)
    unknown = {*options.names, *given} - {p.name for p in PEERS}
    if unknown:
        parser.error(f"unknown peer {', '.join(sorted(unknown))}; known are {', '.join(p.name for p in PEERS)}")
    bad, skipped = 0, []
    for peer in PEERS:
        if options.names and peer.name not in options.names:
            continue
        if peer.missing:
            skipped.append(f"{peer.name} (set " + ", ".join(f"{s.variable} to {s.what}" for s in peer.missing) + ")")
            continue
        python = Path(given[peer.name]) if peer.name in given else make_environment(peer)
        document = record(peer, python)
        out = ROOT / "reports" / "peers" / f"{peer.name}.json"
        write_file(out, (json.dumps(document, indent=1) + "\n").encode("ascii"))
        stamp(out)
        witnesses = document["witness"]
        assert isinstance(witnesses, list)
        different = sum(w["different"] for w in witnesses)
        print(f"{peer.name}: {sum(w['compared'] for w in witnesses)} comparisons, {different} different -> {out.relative_to(ROOT)}")
        bad += different
    if skipped:
        print(f"not run: {', '.join(skipped)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
