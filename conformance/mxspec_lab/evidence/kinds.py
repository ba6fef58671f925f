"""The kinds of committed results: what each used, as its own document says, and what renews it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import mxspec
from mxspec.formats import BLOCKS, ELEMENTS, SCALES
from mxspec.layouts import list_layouts
from mxspec_conformance.targets.interface import SPARSE_FUNCTIONS

Document = Mapping[str, Any]
#: The mutants and what judges them; their commands and tables, and the automatic mutants, are other modules.
_MATRIX_CODE = (
    *(
        f"conformance/mxspec_conformance/mutants/{name}.py"
        for name in (
            "__init__", "call_mutants", "decode_mutants", "instance", "layout_mutants", "placement_mutants", "reference",
            "rounding_mutants", "scale_mutants", "schema", "two_level_mutants",
        )
    ),
    "conformance/mxspec_conformance/kits/cover.py",
    *(f"conformance/mxspec_lab/mutants/{name}.py" for name in ("cover", "judging", "matrix")),
)  # fmt: skip
#: What decides which blocks a kit holds and what they find.
_KIT_CODE = (
    *(f"conformance/mxspec_conformance/kits/{name}.py" for name in ("choosing", "golden", "runtime")), "conformance/mxspec_lab/kits.py",
    *_MATRIX_CODE[:11],
)  # fmt: skip
#: What decides what a rule sees of the mutants.
_SCORING_CODE = (*(f"conformance/mxspec_conformance/scoring/{name}.py" for name in ("rules", "subjects", "score")), *_MATRIX_CODE[:11])
#: (operation, format, profiles).
Wanted = tuple[str, str, Iterable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Results that are made by one command."""

    #: Below reports/.
    pattern: str
    #: Names that the pattern matches and that are of another kind.
    without: tuple[str, ...] = ()
    what: str
    #: `{name}` is the file's stem.
    command: str
    time: str
    #: What a document says that it used of the vectors.
    list_vectors: Callable[[Document], Iterable[Wanted]] = lambda _: ()
    #: Files or folders without which the result would be another.
    code: tuple[str, ...] = ()
    #: Code that a result was made by, and that may change without changing what it says: noted, not stale.
    made_by: tuple[str, ...] = ()


def of_interop(document: Document) -> Iterator[Wanted]:
    """The blocks that were handed on, and the answers of the profiles that wrote or read them."""
    for row in document["decoders"]:
        yield "quantize", row["format"], row["stand_ins"]
    for row in document["requantization"]:
        yield "quantize", row["format"], (row["profile"],)


def of_check(document: Document) -> Iterator[Wanted]:
    """A result of `check`, or of a proof: the cases of each format, and the answers of the profiles that it names."""
    for entry in document["formats"]:
        profiles = {entry["judged_against"], *entry["identical_to"]}
        yield from ((operation, entry["format"], profiles) for operation in entry["operations"])
    functions = {"pack", "unpack", "swizzle", "unswizzle", "pack_blocks", "unpack_blocks"}
    for requirement in document["requirements"]:
        operation, fmt, _ = requirement["id"].split("/")
        if requirement["verdict"] == "unsupported":
            continue
        if operation in ("encode", "decode", "stochastic") and fmt not in BLOCKS:
            yield operation, fmt, ()
        elif operation in functions:
            yield "layout", fmt, ()
        elif operation in SPARSE_FUNCTIONS:
            yield "sparse", fmt, ()


def _of_records(records: Iterable[Document]) -> Iterator[Wanted]:
    for record in records:
        for comparison in record["comparisons"]:
            profiles = (comparison["profile"],)
            yield comparison["operation"], comparison["format"], profiles
            if comparison["operation"] == "quantize":
                yield "scale", comparison["format"], profiles


def of_comparisons(document: Document) -> Iterator[Wanted]:
    """Comparisons of libraries on a GPU with their profiles."""
    yield from _of_records(document["targets"])


def of_library(document: Document) -> Iterator[Wanted]:
    """A library's comparisons with its profiles, and its verdicts."""
    yield from _of_records(document["witness"])
    for result in document["checks"]:
        yield from of_check(result)


def of_identities(document: Document) -> Iterator[Wanted]:
    """Identified targets: the profiles that were named."""
    for target in document["targets"].values():
        for entry in target["formats"]:
            named = {entry["nearest"], *entry["identical"], *(n["profile"] for n in entry["neighbours"])}
            yield from ((operation, entry["format"], named - {""}) for operation in ("quantize", "scale"))


def of_pairs(document: Document) -> Iterator[Wanted]:
    """All pairs of profiles of a format."""
    for fmt, entry in document["formats"].items():
        yield from ((operation, fmt, entry["profiles"]) for operation in ("quantize", "scale"))


_FILES = {
    "quantize": ("quantize", "scale"),
    "dequantize": ("dequantize",),
    "encode": ("encode",),
    "decode": ("decode",),
    "encode_stochastic": ("stochastic",),
    "tensor_scale": (),
}


def of_instances(instances: Iterable[Document]) -> Iterator[Wanted]:
    """Implementations that were judged in an operation and format by a profile."""
    for entry in instances:
        for operation in _FILES.get(entry["operation"], ("layout",)):
            yield operation, entry["format"], (entry["profile"],)


def of_matrix(document: Document) -> Iterator[Wanted]:
    """The kill matrix."""
    for mutant in document["mutants"]:
        yield from of_instances(mutant["instances"])


def of_bugs(document: Document) -> Iterator[Wanted]:
    """The independent bugs."""
    yield from of_instances(document["bugs"])


def of_sparse(document: Document) -> Iterator[Wanted]:
    """The sparse formats in which mutants and right implementations were judged."""
    formats = {i["format"] for i in document["instances"]} | {f for r in document["right"] for f in r["formats"]}
    yield from (("sparse", fmt, ()) for fmt in sorted(formats))


def of_products(document: Document) -> Iterator[Wanted]:
    """The pairs of formats by which kernels were asked."""
    yield from (("dot", pair, ()) for pair in sorted({row["vectors"]["file"] for row in (*document["wrong"], *document["right"])}))


def of_everything(document: Document) -> Iterator[Wanted]:
    """All numeric vectors, of the profiles that the document lists."""
    for fmt in BLOCKS:
        known = {p.id for p in mxspec.list_profiles(fmt)}
        for operation in ("quantize", "scale", "dequantize"):
            yield operation, fmt, known & set(document["profiles"])
    for element in (*ELEMENTS, *SCALES):
        yield "encode", element, ()
        yield "decode", element, ()


def of_layouts(_: Document) -> Iterator[Wanted]:
    """All layouts."""
    yield from (("layout", layout.name, ()) for layout in list_layouts())


def of_threads(document: Document) -> Iterator[Wanted]:
    """What the pairs were asked, by the profiles that the mended ones follow."""
    for row in document["threads"]:
        for operation in row["operations"]:
            for fmt in row["formats"] if operation != "matmul" else ():
                yield from ((name, fmt, (row["fixed"]["profile"],) if row["fixed"]["profile"] else ()) for name in _FILES.get(operation, ("layout",)))


def of_kits(document: Document) -> Iterator[Wanted]:
    """The rules that kits know, in the formats that they hold."""
    for entry in document["formats"]:
        known = {p.id for p in mxspec.list_profiles(entry["format"])}
        yield "quantize", entry["format"], {p for p in known if p.startswith(("mx-", "nvfp4-"))}


def of_c99(document: Document) -> Iterator[Wanted]:
    """Each profile that the header has."""
    for row in document["rows"]:
        yield "quantize", row["format"], (row["profile"],)


def of_vendor(document: Document) -> Iterator[Wanted]:
    """The blocks that vendors' functions were asked, and the answers of their profiles."""
    for row in document["functions"]:
        yield from ((operation, row["format"], (row["profile"],)) for operation in ("quantize", "scale"))


def of_explorer(document: Document) -> Iterator[Wanted]:
    """Each profile that the script has, and the scalar formats."""
    for row in document["judged"]:
        yield from ((operation, row["format"], (row["profile"],)) for operation in ("quantize", "scale", "dequantize"))
    for row in document["scalars"]:
        operation, element, _ = row["requirement"].split("/")
        yield operation, element, ()


KINDS = (
    Kind(
        pattern="peers/*.json", without=("layouts",), what="a library against its profiles, and its verdicts",
        command="python tests/peers/run_peers.py {name}", time="2 to 15 min and an environment of its own",
        list_vectors=of_library,
    ),
    Kind(
        pattern="peers/layouts.json", what="layouts against the libraries", time="20 min and their environments",
        command="python tests/peers/layouts/run_layouts.py", list_vectors=of_layouts,
    ),
    Kind(
        pattern="vendor/device.json", what="vendors' device functions, built for the host, against their profiles",
        command="python -m tests.peers.vendor RECORD... --source NAME=FOLDER... --write",
        time="1 min, and libraries built from the vendors' sources", list_vectors=of_vendor, made_by=("tests/peers/vendor",),
    ),
    Kind(
        pattern="affine/*.json", what="affine integers against MLX, and against GPTQ and AWQ on torch", time="1 min", command="python -m tests.peers.affine_{name} --json reports/affine/{name}.json",
        code=(*(f"mxspec/affine/{n}.py" for n in ("arrays", "certain", "contracts", "formats", "products", "profiles", "schema", "tensor", "words")), "tests/peers/affine_mlx.py", "tests/peers/affine_torch.py", "vectors/mxspec_vectors/inputs_affine.py"),
    ),
    Kind(
        pattern="html/*.json", what="the example report", time="5 s", list_vectors=of_check,
        command="mxspec check {name} --json reports/html/{name}.json --html reports/html/{name}.html",
    ),
    Kind(
        pattern="gpu/mxspec_gpu*.json", what="the GPU kernels' verdicts", time="10 s on an NVIDIA GPU",
        command="mxspec check {name} --json reports/gpu/{name}.json", list_vectors=of_check,
        without=tuple(f"mxspec_gpu-{part}" for part in ("products-bfloat16", "products-float16", "sparse", "steps-bfloat16", "steps-float16")),
    ),
    Kind(
        pattern="gpu/mxspec_gpu-products-*.json", what="the GPU kernels' products, judged", time="5 s on an NVIDIA GPU",
        command="mxspec check {name} --json reports/gpu/{name}.json",
        made_by=("conformance/mxspec_conformance/judge/products", "mxspec/dot"),
    ),
    Kind(
        pattern="gpu/mxspec_gpu-s*.json", what="the documents' steps and sparse products on the GPU, judged", time="10 s on an NVIDIA GPU",
        command="mxspec check {name} --json reports/gpu/{name}.json",
        made_by=("conformance/mxspec_conformance/judge/products", "mxspec/dot"),
    ),
    Kind(
        pattern="gpu/*-cuda.json", what="a library on a GPU: its verdicts", time="2 min on an NVIDIA GPU and the library",
        command="python tests/peers/gpu_peers.py {name}", list_vectors=of_check,
    ),
    Kind(
        pattern="gpu/peers-*.json", what="libraries on a GPU against profiles, and the same code on that machine's CPU",
        command="python tests/peers/gpu_peers.py", time="5 min on an NVIDIA GPU and the libraries", list_vectors=of_comparisons,
    ),
    Kind(
        pattern="gpu/differential-*.json", what="the GPU kernels against the model", time="5 min on an NVIDIA GPU",
        command="python -m tests.gpu.differential", made_by=("gpu/mxspec_gpu",),
    ),
    Kind(
        pattern="gpu/bench-*.json", what="the GPU kernels' speed", time="10 min on an NVIDIA GPU",
        command="python -m mxspec_gpu.bench", made_by=("gpu/mxspec_gpu",),
    ),
    Kind(
        pattern="gpu/products-*.json", what="the GPU kernels' products: speed, and exact sums", time="1 min on an NVIDIA GPU",
        command="python -m mxspec_gpu.bench_products", made_by=("gpu/mxspec_gpu",),
    ),
    Kind(
        pattern="gpu/steps-*.json", what="the documents' steps and sparse products: speed, and what claims come to", time="1 min on an NVIDIA GPU",
        command="python -m mxspec_gpu.bench_steps", made_by=("gpu/mxspec_gpu",),
    ),
    Kind(
        pattern="proofs/*.json", without=("smt",), what="exhaustive proofs", time="2 min on 8 cores", list_vectors=of_check,
        command="mxspec prove TARGET --json reports/proofs/{name}.json",
    ),
    Kind(
        pattern="identify/peers.json", what="libraries identified", time="2 min and their environments",
        command="python tests/peers/identify_peers.py", list_vectors=of_identities,
    ),
    Kind(
        pattern="identify/pairs.json", what="a block that distinguishes each pair of profiles", time="10 min",
        command="python tests/identify_pairs.py", list_vectors=of_pairs,
    ),
    Kind(
        pattern="mutants/matrix.json", what="the kill matrix", time="3 min on 2 cores", list_vectors=of_matrix,
        command="python -m mxspec_lab mutants publish", code=_MATRIX_CODE,
    ),
    Kind(
        pattern="mutants/affine.json", what="the kill matrix of affine integers", time="20 s",
        command="python -m mxspec_lab.mutants.affine_matrix --json reports/mutants/affine.json",
        code=("conformance/mxspec_lab/mutants/affine_mutants.py", "conformance/mxspec_lab/mutants/affine_matrix.py", "vectors/mxspec_vectors/inputs_affine.py"),
        made_by=("conformance/mxspec_conformance/judge/affine",),
    ),
    Kind(
        pattern="mutants/automatic.json", what="every one-place change of the model's arithmetic", time="2 core-hours",
        command="python -m mxspec_lab mutants automatic", list_vectors=of_everything, made_by=("mxspec",),
    ),
    Kind(
        pattern="mutants/independent.json", what="an independent implementation's bugs", time="12 min on 2 cores",
        command="python -m tests.independent.run_independent", list_vectors=of_bugs,
        code=tuple(f"tests/independent/{n}.py" for n in ("catalogue", "implementation", *(f"bugs_{b}" for b in ("calls", "output", "paths", "rounding", "scale", "two_levels")))),
    ),
    Kind(
        pattern="mutants/independent-calls.json", what="a second independent set: bugs of calls, and right implementations", time="6 min on 2 cores",
        command="python -m tests.independent_calls --json reports/mutants/{name}.json", code=("tests/independent_calls",),
        made_by=("conformance/mxspec_conformance/judge",),
    ),
    Kind(
        pattern="mutants/sparse.json", what="mutants of sparse operands, and right implementations", time="6 min",
        command="python -m mxspec_lab.sparse.run --json reports/mutants/{name}.json", list_vectors=of_sparse,
        code=("conformance/mxspec_lab/sparse",),
        made_by=tuple(f"conformance/mxspec_conformance/judge/{n}.py" for n in ("sparse", "sparse_calls", "sparse_groups")),
    ),
    Kind(
        pattern="mutants/products.json", what="the kill matrix of products: wrong kernels, and right ones", time="6 min",
        command="python -m mxspec_lab.products.run --json reports/mutants/{name}.json --markdown reports/mutants/{name}.md",
        code=tuple(f"conformance/mxspec_lab/products/{n}.py" for n in ("by_vectors", "kernels", "kinds", "kinds_right", "kinds_wrong", "right", "run", "wrong")),
        list_vectors=of_products, made_by=("conformance/mxspec_conformance/judge/products", "mxspec/dot"),
    ),
    Kind(
        pattern="mutants/acceptance.json", what="common acceptance rules of products on wrong and right kernels", time="2 min",
        command="python -m mxspec_lab.products.acceptance --json reports/mutants/{name}.json --page reports/acceptance.md",
        code=(
            "conformance/mxspec_conformance/scoring/products/rules.py",
            *(f"conformance/mxspec_lab/products/{n}.py" for n in ("acceptance", "kernels", "right", "wrong")),
        ), made_by=("mxspec/dot",),
    ),
    Kind(
        pattern="products/*.json", what="libraries' products, judged and identified", time="20 s and the library",
        command="python tests/peers/products_peers.py {name}",
        made_by=("conformance/mxspec_conformance/judge/products", "conformance/mxspec_conformance/identification/products", "mxspec/dot"),
    ),
    Kind(
        pattern="sparse/torch.json", what="sparse operands against torch", time="20 s and an environment with torch",
        command="python tests/peers/sparse_torch.py --json reports/sparse/torch.json", code=("tests/peers/sparse_torch.py",),
        made_by=("mxspec/sparsity",),
    ),
    Kind(
        pattern="sparse/torch-check.json", what="torch's verdicts on sparse operands", time="15 s and an environment with torch",
        command="mxspec check 'cmd:PYTHON conformance/examples/python/harness.py tests/peers/sparse_torch_target.py' --json reports/sparse/{name}.json",
        list_vectors=of_check,
    ),
    Kind(
        pattern="sweeps/index.json", what="every function on all 2^32 inputs", time="hours on 16 cores",
        command="make sweep",
        made_by=tuple(f"mxspec/{n}.py" for n in ("arrays", "elements", "exact", "expressions", "formats", "reals", "rounding", "scales")),
    ),
    Kind(
        pattern="bench/cpu.json", what="the model's speed", time="5 min on an idle machine", command="make bench",
        made_by=("mxspec",),
    ),
    Kind(
        pattern="bench/exact-products.json", what="exact products of 4096 x 4096 x 4096: time, and outputs with one result",
        time="4 min on an idle machine", command="python -m mxspec_lab.products.exact --json reports/bench/{name}.json --page docs/products.md",
        code=("conformance/mxspec_lab/products/exact.py",), made_by=("mxspec/dot",),
    ),
    Kind(
        pattern="containers/convert.json", what="conversion of a checkpoint of 2 GB", time="5 min",
        command="python tests/containers/measure_convert.py", made_by=("mxspec/containers",),
    ),
    Kind(
        pattern="containers/quantize.json", what="quantization of a checkpoint of 2 GB", time="2 min",
        command="python tests/containers/measure_quantize.py", made_by=("mxspec/containers",),
    ),
    Kind(
        pattern="containers/loaded.json", what="quantized checkpoints loaded by transformers", time="1 min",
        command="python tests/containers/load_with_libraries.py", made_by=("mxspec/containers",),
    ),
    Kind(
        pattern="containers/affine-*.json", what="checkpoints of affine integers decoded by the libraries", time="1 min",
        command="python tests/containers/affine_with_libraries.py load LIBRARY --json reports/containers/{name}.json",
        code=("tests/containers/affine_with_libraries.py",), made_by=("mxspec/affine",),
    ),
    Kind(
        pattern="fuzz/planted.json", what="planted bugs found by fuzzing", time="2 min",
        command="python tests/targets/run_planted.py", made_by=("conformance/mxspec_conformance/fuzzing",),
    ),
    Kind(
        pattern="fuzz/products.json", what="wrong and right products under fuzzing", time="20 min on an idle core",
        command="python -m mxspec_lab.products.fuzzed",
        code=tuple(f"conformance/mxspec_lab/products/{n}.py" for n in ("kernels", "kinds", "kinds_right", "kinds_wrong", "narrow", "narrow_kinds", "right", "wrong")),
        made_by=tuple(f"conformance/mxspec_conformance/{room}/products" for room in ("fuzzing", "judge")),
    ),
    Kind(
        pattern="attacks/attacks.json", what="attacks on the command line", time="20 min on 2 cores", code=("tests/attacks",),
        command="python -m tests.attacks --json reports/attacks/attacks.json --markdown reports/attacks/attacks.md",
        made_by=tuple(f"conformance/mxspec_conformance/{room}" for room in ("cli", "targets", "transports")),
    ),
    Kind(
        pattern="kits/cross-validation.json", what="which blocks kits hold, and what they find of mutants that were not looked at",
        time="20 min on 2 cores", command="python -m mxspec_lab.kits", list_vectors=of_kits, code=_KIT_CODE,
    ),
    Kind(
        pattern="kits/products.json", what="what the golden calls of products find of mutants that were not looked at",
        time="5 min on 2 cores", command="python -m mxspec_lab.products.kit --write",
        code=(
            *(f"conformance/mxspec_conformance/kits/{n}.py" for n in ("products", "products_runtime")), "conformance/mxspec_lab/products/kit.py",
            *(f"conformance/mxspec_lab/products/{n}.py" for n in ("kernels", "narrow", "right", "subjects", "wrong")),
        ),
    ),
    Kind(
        pattern="kits/c99.json", what="the generated C99 header against the model", time="15 min", list_vectors=of_c99,
        command="python -m mxspec_lab.c99 --blocks 16384 --default-blocks 16777216 --write",
        code=tuple(f"conformance/mxspec_conformance/kits/{n}" for n in ("c99.py", "c99_runtime.h", "reciprocal.py")),
    ),
    Kind(
        pattern="atlas/explorer.json", what="the explorer's JavaScript in node: compared with the model, and judged", time="30 min",
        command="python -m tests.explorer_in_node --write", list_vectors=of_explorer,
        code=tuple(f"conformance/mxspec_conformance/atlas/{n}" for n in ("javascript.py", "explorer_runtime.js", "explorer_target.js")),
    ),
    Kind(
        pattern="kits/hardware.json", what="the kit hardware in simulators", time="2 min, Icarus Verilog, Verilator and cocotb",
        command="python -m mxspec_lab.hardware --write",
        code=(
            *(f"conformance/mxspec_conformance/kits/{n}" for n in ("c99.py", "c99_runtime.h", "dpi.c", "hardware.py", "readmem.py", "reciprocal.py", "scoreboard.py")),
            *(f"conformance/examples/verilog/{n}" for n in ("mxfp4_quantizer.v", "tb_dpi.sv", "tb_readmem.v", "test_mxfp4.py")), "conformance/mxspec_lab/hardware.py",
        ),
    ),
    Kind(
        pattern="kits/llvm.json", what="the kit llvm against APFloat and MLIR", time="1 min and LLVM's development package",
        command="python -m mxspec_lab.llvm --write", code=(*(f"conformance/mxspec_conformance/kits/{n}" for n in ("apfloat.cpp", "llvm.py")), "conformance/mxspec_lab/llvm.py"),
    ),
    Kind(
        pattern="proofs/smt.json", what="casts and scale rules proved for all inputs by a solver, and mutants refuted", time="10 min, pycparser and bitwuzla",
        command="python -m mxspec_lab.smt --write",
        code=(
            "conformance/mxspec_conformance/kits/c99.py", "conformance/mxspec_conformance/kits/c99_runtime.h",
            *(f"conformance/mxspec_lab/smt/{n}.py" for n in ("arrayform", "claims", "ctext", "definition", "header", "mutants", "solving", "terms")),
        ),
        made_by=("mxspec", "conformance/mxspec_lab/smt"),
    ),
    Kind(
        pattern="score-tests/rules.json", what="what the acceptance rules of public suites see", time="20 min on 2 cores",
        command="python -m tests.pages.suites", code=_SCORING_CODE,
    ),
    Kind(
        pattern="score-tests/real.json", what="what public suites that were run see", time="15 min and the suites",
        command="python -m tests.pages.suites --real NAME=FILE", made_by=("tests/suites",),
    ),
    Kind(
        pattern="atlas/attribution.json", what="checkpoints of libraries, and planted contradictions, attributed by their bytes",
        time="2 min", command="python -m mxspec_lab.attributions",
        code=("conformance/mxspec_conformance/attribution", "conformance/mxspec_lab/attributions.py"),
        made_by=("mxspec/profiles",),
    ),
    Kind(
        pattern="atlas/interop.json", what="quantized by A, moved by B, decoded by C; requantization; reciprocal tensor scales",
        time="3 min", command="python -m mxspec_lab.interop",
        list_vectors=of_interop, code=("conformance/mxspec_lab/interop.py",), made_by=("mxspec/profiles", "mxspec/containers"),
    ),
    Kind(
        pattern="atlas/model.json", what="error by format, block size and scale rule; products, chains and exact bounds", time="2 min, and ggml's library for Q4_K",
        command="python -m mxspec_lab.model_level", code=("conformance/mxspec_lab/model_level.py",), made_by=("mxspec/profiles",),
    ),
    Kind(
        pattern="atlas/transformer.json", what="a small transformer with weights in every format, loaded from containers: perplexity, tokens, layers",
        time="10 min, and ggml's library for Q4_K", command="python -m mxspec_lab.transformer", code=("conformance/mxspec_lab/transformer", "conformance/mxspec_lab/model_level.py"),
        made_by=("mxspec/affine", "mxspec/containers", "mxspec/dot", "mxspec/profiles", "mxspec/sparsity"),
    ),
    Kind(
        pattern="atlas/threads.json", what="public bug threads replayed as pairs of targets, broken and mended", time="4 min",
        command="python -m mxspec_lab.threads --write", list_vectors=of_threads,
        code=("conformance/mxspec_lab/threads", *_MATRIX_CODE[:11], *(f"conformance/mxspec_lab/products/{n}.py" for n in ("kernels", "kinds", "kinds_right", "wrong"))),
        made_by=("conformance/mxspec_conformance/judge", "mxspec/dot"),
    ),
    Kind(
        pattern="clusters/dask.json", what="a campaign on a cluster, one worker killed", time="1 min",
        command="python tests/clusters/run_dask.py", made_by=("conformance/mxspec_conformance/campaign",),
    ),
)  # fmt: skip
