"""The kinds of committed results: where they lie, what makes them, and what each used of the vectors, as its own document says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import mxspec
from mxspec.formats import BLOCKS
from mxspec.layouts import list_layouts
from mxspec_conformance.mutants.instance import LAYOUT_OPERATIONS
from mxspec_conformance.targets.interface import SPARSE_FUNCTIONS

Document = Mapping[str, Any]
#: (operation, format, profiles).
Wanted = tuple[str, str, Iterable[str]]
Lister = Callable[[Document], Iterable[Wanted]]
_SCALED = ("quantize", "scale")
#: Operations whose answers are profiles'.
BLOCK_OPERATIONS = (*_SCALED, "dequantize")
_LAYOUT = frozenset({"pack", "unpack", "swizzle", "unswizzle", "pack_blocks", "unpack_blocks"})
#: Function of a target -> operations of the vectors; all others are functions of layouts.
_FILES: Mapping[str, tuple[str, ...]] = {
    "quantize": _SCALED, "dequantize": ("dequantize",), "encode": ("encode",), "decode": ("decode",),
    "encode_stochastic": ("stochastic",), "tensor_scale": (),
}  # fmt: skip


def of_rows(key: str, *operations: str) -> Lister:
    """A lister of rows that each name a format and a profile."""
    return lambda document: ((o, row["format"], (row["profile"],)) for row in document[key] for o in operations)


def of_check(document: Document) -> Iterator[Wanted]:
    """A result of `check`, or of a proof: the cases of each format, and the answers of the profiles that it names."""
    for entry in document["formats"]:
        profiles = {entry["judged_against"], *entry["identical_to"]}
        yield from ((operation, entry["format"], profiles) for operation in entry["operations"] if operation in BLOCK_OPERATIONS)
    for requirement in document["requirements"]:
        operation, fmt, _ = requirement["id"].split("/")
        if requirement["verdict"] == "unsupported":
            continue
        if operation in ("encode", "decode", "stochastic") and fmt not in BLOCKS:
            yield operation, fmt, ()
        elif operation in _LAYOUT:
            yield "layout", fmt, ()
        elif operation in SPARSE_FUNCTIONS:
            yield "sparse", fmt, ()


def of_records(key: str) -> Lister:
    """A lister of comparisons of libraries with their profiles."""

    def list_vectors(document: Document) -> Iterator[Wanted]:
        for found in (comparison for record in document[key] for comparison in record["comparisons"]):
            for operation in _SCALED if found["operation"] == "quantize" else (found["operation"],):
                yield operation, found["format"], (found["profile"],)

    return list_vectors


def of_library(document: Document) -> Iterator[Wanted]:
    """A library's comparisons with its profiles, and its verdicts."""
    yield from of_records("witness")(document)
    for result in document["checks"]:
        yield from of_check(result)


def of_example(document: Document) -> Iterator[Wanted]:
    """An example's verdicts."""
    return of_check(document["check"])


def of_identities(document: Document) -> Iterator[Wanted]:
    """Identified targets: the profiles that were named."""
    for entry in (entry for target in document["targets"].values() for entry in target["formats"]):
        named = {entry["nearest"], *entry["identical"], *(n["profile"] for n in entry["neighbours"])}
        yield from ((operation, entry["format"], named - {""}) for operation in _SCALED)


def of_pairs(document: Document) -> Iterator[Wanted]:
    """All pairs of profiles of a format."""
    for fmt, entry in document["formats"].items():
        yield from ((operation, fmt, entry["profiles"]) for operation in _SCALED)


def of_instances(instances: Iterable[Document]) -> Iterator[Wanted]:
    """Implementations that were judged in an operation and format by a profile."""
    for entry in instances:
        yield from ((o, entry["format"], (entry["profile"],)) for o in _FILES.get(entry["operation"], ("layout",)))


def of_sparse(document: Document) -> Iterator[Wanted]:
    """The sparse formats in which mutants and right implementations were judged."""
    formats = {i["format"] for i in document["instances"]} | {f for r in document["right"] for f in r["formats"]}
    yield from (("sparse", fmt, ()) for fmt in formats)


def of_products(document: Document) -> Iterator[Wanted]:
    """The pairs of formats by which kernels were asked."""
    yield from (("dot", row["vectors"]["file"], ()) for row in (*document["wrong"], *document["right"]))


def of_threads(document: Document) -> Iterator[Wanted]:
    """What the pairs were asked, by the profiles that the mended ones follow."""
    for row in document["threads"]:
        operations = [o for o in row["operations"] if o in _FILES or o in LAYOUT_OPERATIONS]
        profiles = [p for p in (row["fixed"]["profile"],) if p]
        yield from ((name, f, profiles) for o in operations for f in row["formats"] for name in _FILES.get(o, ("layout",)))


def of_kits(document: Document) -> Iterator[Wanted]:
    """The rules that kits know, in the formats that they hold."""
    for fmt in (entry["format"] for entry in document["formats"]):
        yield "quantize", fmt, {p.id for p in mxspec.list_profiles(fmt) if p.id.startswith(("mx-", "nvfp4-"))}


def of_explorer(document: Document) -> Iterator[Wanted]:
    """Each profile that the script has, and the scalar formats."""
    yield from of_rows("judged", *BLOCK_OPERATIONS)(document)
    yield from ((operation, fmt, ()) for operation, fmt, _ in (row["requirement"].split("/") for row in document["scalars"]))


@dataclass(frozen=True, slots=True)
class Kind:
    """Results that are made by one command."""

    #: Below reports/; a file is of the first kind that fits.
    pattern: str
    #: `{name}` is the file's stem, `{file}` its path.
    command: str
    time: str
    #: What a document says that it used of the vectors.
    list_vectors: Lister = lambda _: ()


#: Results that were measured once: their scripts are in the commit that wrote them.
ONCE = (
    "affine/torch.json",
    "atlas/attribution.json",
    "atlas/interop.json",
    "bench/exact-products.json",
    "clusters/*.json",
    "containers/*.json",
    "fuzz/*.json",
    "kits/products.json",
    "mutants/acceptance.json",
    "mutants/automatic.json",
    "score-tests/*.json",
    "sparse/torch.json",
)

KINDS = (
    Kind(
        "peers/layouts.json", "python tests/peers/layouts/run_layouts.py",
        "20 min and their environments", lambda _: (("layout", layout.name, ()) for layout in list_layouts()),
    ),
    Kind("peers/*.json", "python tests/peers/run_peers.py {name}", "2 to 15 min and an environment of its own", of_library),
    Kind(
        "vendor/device.json", "python -m tests.peers.vendor RECORD... --source NAME=FOLDER... --write",
        "1 min, and libraries built from the vendors' sources", of_rows("functions", *_SCALED),
    ),
    Kind("affine/mlx.json", "python -m tests.peers.affine_mlx --json {file}", "1 min"),
    Kind("html/*.json", "mxspec check {name} --json {file} --html reports/html/{name}.html", "5 s", of_check),
    Kind("gpu/mxspec_gpu*.json", "mxspec check {name} --json {file}", "10 s on an NVIDIA GPU", of_check),
    Kind("gpu/*-cuda.json", "python tests/peers/gpu_peers.py {name}", "2 min on an NVIDIA GPU and the library", of_check),
    Kind("gpu/peers-*.json", "python tests/peers/gpu_peers.py", "5 min on an NVIDIA GPU and the libraries", of_records("targets")),
    Kind("gpu/differential-*.json", "python -m tests.gpu.differential", "5 min on an NVIDIA GPU"),
    Kind("gpu/bench-*.json", "python -m mxspec_gpu.bench", "10 min on an NVIDIA GPU"),
    Kind("gpu/groups-*.json", "python -m mxspec_gpu.bench --only", "2 min on an NVIDIA GPU"),
    Kind("gpu/norm-*.json", "python -m mxspec_gpu.bench --quick --peers --only", "1 min on an NVIDIA GPU"),
    Kind("gpu/fp8-*.json", "python -m mxspec_gpu.bench_tiles --only groups", "1 min on an NVIDIA GPU, and DeepGEMM"),
    Kind("gpu/rows-*.json", "python -m mxspec_gpu.bench_tiles", "5 min on an NVIDIA GPU"),
    Kind("gpu/products-*.json", "python -m mxspec_gpu.bench_products", "1 min on an NVIDIA GPU"),
    Kind("gpu/steps-*.json", "python -m mxspec_gpu.bench_steps", "1 min on an NVIDIA GPU"),
    Kind("proofs/smt.json", "python -m mxspec_lab.smt --write", "10 min, pycparser and bitwuzla"),
    Kind("proofs/*.json", "mxspec prove TARGET --json {file}", "2 min on 8 cores", of_check),
    Kind("identify/peers.json", "python tests/peers/identify_peers.py", "2 min and their environments", of_identities),
    Kind("identify/pairs.json", "python tests/identify_pairs.py", "10 min", of_pairs),
    Kind(
        "mutants/matrix.json", "python -m mxspec_lab mutants publish",
        "3 min on 2 cores", lambda document: of_instances(i for m in document["mutants"] for i in m["instances"]),
    ),
    Kind("mutants/affine.json", "python -m mxspec_lab.mutants.affine_matrix --json {file}", "20 s"),
    Kind(
        "mutants/independent.json", "python -m tests.corpora --set independent --json {file}",
        "hours on 2 cores", lambda document: of_instances(document["bugs"]),
    ),
    Kind("mutants/independent-calls.json", "python -m tests.corpora --set 'calls-*' --json {file}", "6 min on 2 cores"),
    Kind("mutants/sparse.json", "python -m mxspec_lab.sparse.run --json {file}", "6 min", of_sparse),
    Kind("mutants/products.json", "python -m mxspec_lab.products.run --json {file} --markdown reports/mutants/{name}.md", "6 min", of_products),
    Kind("products/*.json", "python tests/peers/products_peers.py {name}", "20 s and the library"),
    Kind("elements/verifloat.json", "python -m tests.peers.elements_verifloat --json {file}", "10 s, verifloat and Python 3.12"),
    Kind("sums/fpsan.json", "python tests/peers/products_fpsan.py run FOLDER {file}", "1 min on an NVIDIA GPU, kernels built by Triton 3.8 or later"),
    Kind("sums/zeros.json", "python tests/peers/products_zeros.py {file}", "10 s on an NVIDIA GPU, with torch"),
    Kind("sums/mmaemu.json", "python -m tests.peers.products_mmaemu --json {file}", "4 min, mmaemu and torch"),
    Kind("card/*.json", "python tests/peers/products_peers.py {name}", "5 min on an NVIDIA GPU, with the package", of_example),
    Kind("packages/*.json", "python tests/peers/products_peers.py {name}", "1 min and the package", of_example),
    Kind(
        "sparse/torch-check.json", "mxspec check 'cmd:PYTHON conformance/examples/python/harness.py tests/peers/sparse_torch_target.py' --json {file}",
        "15 s and an environment with torch", of_check,
    ),
    Kind("sweeps/index.json", "make sweep", "hours on 16 cores"),
    Kind("bench/cpu.json", "make bench", "5 min on an idle machine"),
    Kind("attacks/attacks.json", "python -m tests.attacks --json {file} --markdown reports/attacks/attacks.md", "20 min on 2 cores"),
    Kind("kits/cross-validation.json", "python -m mxspec_lab.kits", "20 min on 2 cores", of_kits),
    Kind("kits/c99.json", "python -m mxspec_lab.c99 --blocks 16384 --default-blocks 16777216 --write", "15 min", of_rows("rows", "quantize")),
    Kind("atlas/explorer.json", "python -m tests.explorer_in_node --write", "30 min", of_explorer),
    Kind("kits/hardware.json", "python -m mxspec_lab.hardware --write", "2 min, Icarus Verilog, Verilator and cocotb"),
    Kind("kits/llvm.json", "python -m mxspec_lab.llvm --write", "1 min and LLVM's development package"),
    Kind("atlas/model.json", "python -m mxspec_lab.model_level", "2 min, and ggml's library for Q4_K"),
    Kind("atlas/transformer.json", "python -m mxspec_lab.transformer", "10 min, and ggml's library for Q4_K"),
    Kind("atlas/threads.json", "python -m tests.threads --write", "9 min", of_threads),
    *(Kind(pattern, "git log -1 -- {file}", "measured once: that commit has the script") for pattern in ONCE),
)  # fmt: skip
