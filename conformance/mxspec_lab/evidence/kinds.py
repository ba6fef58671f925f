"""The kinds of committed results: where they lie, what makes them, and what each used of the vectors, as its own document says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import mxspec
from mxspec.formats import BLOCKS, ELEMENTS, SCALES
from mxspec.layouts import list_layouts
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


def of_interop(document: Document) -> Iterator[Wanted]:
    """The blocks that were handed on, and the answers of the profiles that wrote or read them."""
    yield from (("quantize", row["format"], row["stand_ins"]) for row in document["decoders"])
    yield from of_rows("requantization", "quantize")(document)


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


def of_everything(document: Document) -> Iterator[Wanted]:
    """All numeric vectors, of the profiles that the document lists."""
    for fmt in BLOCKS:
        known = {p.id for p in mxspec.list_profiles(fmt)} & set(document["profiles"])
        yield from ((operation, fmt, known) for operation in BLOCK_OPERATIONS)
    yield from ((operation, fmt, ()) for fmt in (*ELEMENTS, *SCALES) for operation in ("encode", "decode"))


def of_threads(document: Document) -> Iterator[Wanted]:
    """What the pairs were asked, by the profiles that the mended ones follow."""
    for row in document["threads"]:
        operations = [o for o in row["operations"] if o != "matmul"]
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
    what: str
    #: `{name}` is the file's stem.
    command: str
    time: str
    #: What a document says that it used of the vectors.
    list_vectors: Lister = lambda _: ()


KINDS = (
    Kind("peers/layouts.json", "layouts against the libraries", "python tests/peers/layouts/run_layouts.py", "20 min and their environments", lambda _: (("layout", layout.name, ()) for layout in list_layouts())),
    Kind("peers/*.json", "a library against its profiles, and its verdicts", "python tests/peers/run_peers.py {name}", "2 to 15 min and an environment of its own", of_library),
    Kind("vendor/device.json", "vendors' device functions, built for the host, against their profiles", "python -m tests.peers.vendor RECORD... --source NAME=FOLDER... --write", "1 min, and libraries built from the vendors' sources", of_rows("functions", *_SCALED)),
    Kind("affine/*.json", "affine integers against MLX, and against GPTQ and AWQ on torch", "python -m tests.peers.affine_{name} --json reports/affine/{name}.json", "1 min"),
    Kind("html/*.json", "the example report", "mxspec check {name} --json reports/html/{name}.json --html reports/html/{name}.html", "5 s", of_check),
    Kind("gpu/mxspec_gpu*.json", "the GPU kernels' verdicts: blocks, products, steps, sparse products", "mxspec check {name} --json reports/gpu/{name}.json", "10 s on an NVIDIA GPU", of_check),
    Kind("gpu/*-cuda.json", "a library on a GPU: its verdicts", "python tests/peers/gpu_peers.py {name}", "2 min on an NVIDIA GPU and the library", of_check),
    Kind("gpu/peers-*.json", "libraries on a GPU against profiles, and the same code on that machine's CPU", "python tests/peers/gpu_peers.py", "5 min on an NVIDIA GPU and the libraries", of_records("targets")),
    Kind("gpu/differential-*.json", "the GPU kernels against the model", "python -m tests.gpu.differential", "5 min on an NVIDIA GPU"),
    Kind("gpu/bench-*.json", "the GPU kernels' speed", "python -m mxspec_gpu.bench", "10 min on an NVIDIA GPU"),
    Kind("gpu/products-*.json", "the GPU kernels' products: speed, and exact sums", "python -m mxspec_gpu.bench_products", "1 min on an NVIDIA GPU"),
    Kind("gpu/steps-*.json", "the documents' steps and sparse products: speed, and what claims come to", "python -m mxspec_gpu.bench_steps", "1 min on an NVIDIA GPU"),
    Kind("proofs/smt.json", "casts and scale rules proved for all inputs by a solver, and mutants refuted", "python -m mxspec_lab.smt --write", "10 min, pycparser and bitwuzla"),
    Kind("proofs/*.json", "exhaustive proofs", "mxspec prove TARGET --json reports/proofs/{name}.json", "2 min on 8 cores", of_check),
    Kind("identify/peers.json", "libraries identified", "python tests/peers/identify_peers.py", "2 min and their environments", of_identities),
    Kind("identify/pairs.json", "a block that distinguishes each pair of profiles", "python tests/identify_pairs.py", "10 min", of_pairs),
    Kind("mutants/matrix.json", "the kill matrix", "python -m mxspec_lab mutants publish", "3 min on 2 cores", lambda document: of_instances(i for m in document["mutants"] for i in m["instances"])),
    Kind("mutants/affine.json", "the kill matrix of affine integers", "python -m mxspec_lab.mutants.affine_matrix --json reports/mutants/affine.json", "20 s"),
    Kind("mutants/automatic.json", "every one-place change of the model's arithmetic", "python -m mxspec_lab mutants automatic", "2 core-hours", of_everything),
    Kind("mutants/independent.json", "an independent implementation's bugs", "python -m tests.independent.run_independent", "12 min on 2 cores", lambda document: of_instances(document["bugs"])),
    Kind("mutants/independent-calls.json", "a second independent set: bugs of calls, and right implementations", "python -m tests.independent_calls --json reports/mutants/{name}.json", "6 min on 2 cores"),
    Kind("mutants/sparse.json", "mutants of sparse operands, and right implementations", "python -m mxspec_lab.sparse.run --json reports/mutants/{name}.json", "6 min", of_sparse),
    Kind("mutants/products.json", "the kill matrix of products: wrong kernels, and right ones", "python -m mxspec_lab.products.run --json reports/mutants/{name}.json --markdown reports/mutants/{name}.md", "6 min", of_products),
    Kind("mutants/acceptance.json", "common acceptance rules of products on wrong and right kernels", "python -m mxspec_lab.products.acceptance --json reports/mutants/{name}.json --page reports/acceptance.md", "2 min"),
    Kind("products/*.json", "libraries' products, judged and identified", "python tests/peers/products_peers.py {name}", "20 s and the library"),
    Kind("sparse/torch.json", "sparse operands against torch", "python tests/peers/sparse_torch.py --json reports/sparse/torch.json", "20 s and an environment with torch"),
    Kind("sparse/torch-check.json", "torch's verdicts on sparse operands", "mxspec check 'cmd:PYTHON conformance/examples/python/harness.py tests/peers/sparse_torch_target.py' --json reports/sparse/{name}.json", "15 s and an environment with torch", of_check),
    Kind("sweeps/index.json", "every function on all 2^32 inputs", "make sweep", "hours on 16 cores"),
    Kind("bench/cpu.json", "the model's speed", "make bench", "5 min on an idle machine"),
    Kind("bench/exact-products.json", "exact products of 4096 x 4096 x 4096: time, and outputs with one result", "python -m mxspec_lab.products.exact --json reports/bench/{name}.json --page docs/products.md", "4 min on an idle machine"),
    Kind("containers/convert.json", "conversion of a checkpoint of 2 GB", "python tests/containers/measure_convert.py", "5 min"),
    Kind("containers/quantize.json", "quantization of a checkpoint of 2 GB", "python tests/containers/measure_quantize.py", "2 min"),
    Kind("containers/loaded.json", "quantized checkpoints loaded by transformers", "python tests/containers/load_with_libraries.py", "1 min"),
    Kind("containers/affine-*.json", "checkpoints of affine integers decoded by the libraries", "python tests/containers/affine_with_libraries.py load LIBRARY --json reports/containers/{name}.json", "1 min"),
    Kind("fuzz/planted.json", "planted bugs found by fuzzing", "python tests/targets/run_planted.py", "2 min"),
    Kind("fuzz/products.json", "wrong and right products under fuzzing", "python -m mxspec_lab.products.fuzzed", "20 min on an idle core"),
    Kind("attacks/attacks.json", "attacks on the command line", "python -m tests.attacks --json reports/attacks/attacks.json --markdown reports/attacks/attacks.md", "20 min on 2 cores"),
    Kind("kits/cross-validation.json", "which blocks kits hold, and what they find of mutants that were not looked at", "python -m mxspec_lab.kits", "20 min on 2 cores", of_kits),
    Kind("kits/products.json", "what the golden calls of products find of mutants that were not looked at", "python -m mxspec_lab.products.kit --write", "5 min on 2 cores"),
    Kind("kits/c99.json", "the generated C99 header against the model", "python -m mxspec_lab.c99 --blocks 16384 --default-blocks 16777216 --write", "15 min", of_rows("rows", "quantize")),
    Kind("atlas/explorer.json", "the explorer's JavaScript in node: compared with the model, and judged", "python -m tests.explorer_in_node --write", "30 min", of_explorer),
    Kind("kits/hardware.json", "the kit hardware in simulators", "python -m mxspec_lab.hardware --write", "2 min, Icarus Verilog, Verilator and cocotb"),
    Kind("kits/llvm.json", "the kit llvm against APFloat and MLIR", "python -m mxspec_lab.llvm --write", "1 min and LLVM's development package"),
    Kind("score-tests/rules.json", "what the acceptance rules of public suites see", "python -m tests.pages.suites", "20 min on 2 cores"),
    Kind("score-tests/real.json", "what public suites that were run see", "python -m tests.pages.suites --real NAME=FILE", "15 min and the suites"),
    Kind("atlas/attribution.json", "checkpoints of libraries, and planted contradictions, attributed by their bytes", "python -m mxspec_lab.attributions", "2 min"),
    Kind("atlas/interop.json", "quantized by A, moved by B, decoded by C; requantization", "python -m mxspec_lab.interop", "3 min", of_interop),
    Kind("atlas/model.json", "error by format, block size and scale rule; products, chains and exact bounds", "python -m mxspec_lab.model_level", "2 min, and ggml's library for Q4_K"),
    Kind("atlas/transformer.json", "a small transformer with weights in every format, loaded from containers: perplexity, tokens, layers", "python -m mxspec_lab.transformer", "10 min, and ggml's library for Q4_K"),
    Kind("atlas/threads.json", "public bug threads replayed as pairs of targets, broken and mended", "python -m mxspec_lab.threads --write", "4 min", of_threads),
    Kind("clusters/dask.json", "a campaign on a cluster, one worker killed", "python tests/clusters/run_dask.py", "1 min"),
)  # fmt: skip
