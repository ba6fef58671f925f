"""Run the libraries that need torch, each in an environment of its own, and record what they showed.

For every peer: an environment `.venv-NAME` with the pinned packages, the witness comparison of each of its targets with the
profiles that describe it (zero differences are expected), and `mxspec check` of each. Results go to `reports/peers/NAME.json`;
the test command fails when one of them was made with other vectors than the current ones, or shows a difference.

    python tests/peers/run_peers.py [NAME...] [--python NAME=PATH]

Peers that are not on the package index need an environment variable; those that were not run are named in the last line.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TORCH = "torch==2.13.0"


@dataclass(frozen=True, slots=True)
class Peer:
    """One environment."""

    name: str
    packages: tuple[str, ...]
    #: Modules of mxspec_conformance.adapters compared with their profiles.
    modules: tuple[str, ...]
    #: Targets that are judged.
    targets: tuple[str, ...]
    #: Packages installed without what they ask for: their requirements would replace torch or bring GPU packages.
    bare: tuple[str, ...] = ()
    #: Environment variable that names what is not on the package index, and what that is; unset: the peer is not run.
    source: tuple[str, str] | None = None
    #: Whether the peer's modules are imported from there.
    on_path: bool = False


PEERS = (
    Peer("light", ("gguf==0.19.0", "gfloat==0.5.2", "mlx[cpu]==0.32.4"),
         ("gguf_py", "gfloat_py", "mlx_py", "mlx_bf16", "mlx_fp16"), ("gguf", "gfloat", "mlx", "ml_dtypes")),
    Peer("torchao", (TORCH, "torchao==0.18.0"),
         ("torchao_floor", "torchao_rceil", "torchao_even", "torchao_ceil"),
         ("torchao", "torchao-rceil", "torchao-even", "torchao-ceil")),
    Peer("compressed-tensors", (TORCH, "compressed-tensors==0.20.0"),
         ("compressed_tensors_py", "compressed_tensors_bf16", "compressed_tensors_fp16"), ("compressed-tensors",)),
    Peer("modelopt", (TORCH, "nvidia-modelopt==0.47.0", "requests", "huggingface_hub"),
         ("modelopt_py", "modelopt_static_py"), ("modelopt", "modelopt-static")),
    Peer("auto-round", (TORCH, "transformers==5.23.0", "accelerate==1.15.0", "datasets==5.2.0", "py-cpuinfo", "scipy"),
         ("auto_round_py", "auto_round_export"), ("auto-round", "auto-round-export"), bare=("auto-round==0.16.1",)),
    Peer("quark", (TORCH, "triton==3.9.0", "onnx==1.23.2", "onnxslim==0.1.98", "transformers==5.23.0", "ninja", "scipy"),
         ("quark_py", "quark_down", "quark_even", "quark_fake"),
         ("quark", "quark-down", "quark-even", "quark-fake"), bare=("amd-quark==0.13",)),
    Peer("fouroversix", (TORCH, "transformers==5.23.0", "scipy"),
         ("fouroversix_py", "fouroversix_six", "fouroversix_mae", "fouroversix_max"), ("fouroversix",),
         bare=("fouroversix==0.1.0",)),
    Peer("microxcaling", (TORCH, "packaging"),
         ("microxcaling_py", "microxcaling_even", "microxcaling_floor", "microxcaling_bf16", "microxcaling_even_bf16"),
         ("microxcaling",), source=("MXSPEC_MICROXCALING_SOURCE", "a checkout of microsoft/microxcaling"), on_path=True),
    Peer("te-reference", (TORCH,), ("te_reference", "te_reference_4over6"), ("te-reference",),
         source=("MXSPEC_TE_SOURCE", "a checkout of NVIDIA/TransformerEngine, 2.17 or later")),
    Peer("vllm-emulation", (TORCH,), ("vllm_emulation", "vllm_emulation_dequantize", "vllm_mxfp8"), ("vllm-emulation",),
         source=("MXSPEC_VLLM_SOURCE", "a checkout of vllm-project/vllm, or a folder where its wheel is unpacked")),
    Peer("ggml-c", (), ("ggml_c",), ("ggml-c",),
         source=("MXSPEC_GGML_LIBRARY", "the libggml-base that ggml-org/ggml builds")),
)  # fmt: skip


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
        for package in peer.bare:
            run(python, "-m", "pip", "install", "--quiet", "--no-deps", package)
        run(python, "-m", "pip", "install", "--quiet", "--editable", ROOT)
        (folder / "done").touch()
    return python


def record(peer: Peer, python: Path) -> dict[str, object]:
    """Witness and check every target of a peer."""
    with tempfile.TemporaryDirectory() as scratch:
        witness, judged = Path(scratch) / "witness.json", []
        environment = dict(os.environ)
        if peer.source is not None and peer.on_path:
            paths = (os.environ[peer.source[0]], environment.get("PYTHONPATH", ""))
            environment["PYTHONPATH"] = os.pathsep.join(p for p in paths if p)
        subprocess.run([python, "-m", "mxspec_lab.crosscheck", *peer.modules, "--json", witness],
                       cwd=ROOT, check=False, env=environment)  # fmt: skip
        if not witness.exists():
            raise SystemExit(f"{peer.name}: its targets could not be compared; what went wrong stands above")
        for target in peer.targets:
            result = Path(scratch) / "check.json"
            command = [python, "-m", "mxspec_conformance", "check", target, "--json", result, "--failures", "0"]
            done = subprocess.run(
                [str(c) for c in command], cwd=ROOT, check=False, stdout=subprocess.DEVNULL, env=environment
            )
            if done.returncode > 1:
                raise SystemExit(f"{target} could not be judged")
            document = json.loads(result.read_text("ascii"))
            for requirement in document["requirements"]:
                requirement["failing_cases"] = requirement["failing_cases"][:3]
            judged.append(document)
        packages = subprocess.run(
            [python, "-m", "pip", "list", "--format=json"], capture_output=True, text=True, check=True
        ).stdout
        wanted = {p.split("==")[0].split("[")[0].lower() for p in (*peer.packages, *peer.bare, "numpy", "ml_dtypes")}
        return {
            "peer": peer.name,
            "packages": {p["name"]: p["version"] for p in json.loads(packages) if p["name"].lower() in wanted},
            "witness": json.loads(witness.read_text("ascii")),
            "checks": judged,
        }


def main() -> int:
    """Run the peers named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(p.name for p in PEERS))
    parser.add_argument(
        "--python", action="append", default=[], metavar="NAME=PATH", help="use this interpreter instead"
    )
    options = parser.parse_args()
    given = dict(p.split("=", 1) for p in options.python)
    unknown = {*options.names, *given} - {p.name for p in PEERS}
    if unknown:
        parser.error(f"unknown peer {', '.join(sorted(unknown))}; known are {', '.join(p.name for p in PEERS)}")
    bad, skipped = 0, []
    for peer in PEERS:
        if options.names and peer.name not in options.names:
            continue
        if peer.source is not None and peer.source[0] not in os.environ:
            skipped.append(f"{peer.name} (set {peer.source[0]} to {peer.source[1]})")
            continue
        python = Path(given[peer.name]) if peer.name in given else make_environment(peer)
        document = record(peer, python)
        out = ROOT / "reports" / "peers" / f"{peer.name}.json"
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary = out.with_suffix(".part")
        temporary.write_text(json.dumps(document, indent=1) + "\n", "ascii")
        temporary.replace(out)
        witnesses = document["witness"]
        assert isinstance(witnesses, list)
        different = sum(w["different"] for w in witnesses)
        print(
            f"{peer.name}: {sum(w['compared'] for w in witnesses)} comparisons, {different} different -> {out.relative_to(ROOT)}"
        )
        bad += different
    if skipped:
        print(f"not run: {', '.join(skipped)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
