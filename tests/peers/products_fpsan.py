"""Triton's floating-point sanitizer (FPSan) on right and wrong products: which does it tell from a reference?

    python -m tests.peers.products_fpsan build FOLDER            # Triton with FPSan (3.9 has it, 3.6 has not); no GPU
    python tests/peers/products_fpsan.py run FOLDER FILE.json    # CuPy and a GPU of compute capability 9.0; neither Triton nor mxspec
    python -m tests.peers.products_fpsan table FILE.json         # the table, with what the judge says of the same mistakes

FPSan rewrites floating-point operations into integer ones that keep algebraic identities: kernels that are equal as formulas
give equal bits. So it is asked as it is meant: is the output that of the reference, both built with FPSan? The wrong kernels
have the names of the catalogue in mxspec_lab/products, whose verdicts are in reports/mutants/products.json.
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

SOURCE = """
import triton
import triton.language as tl

@triton.jit
def product(A, B, SA, SB, C, BIAS, OUT, alpha, beta, ts_a, ts_b, K: tl.constexpr):
    m = tl.arange(0, 16)[:, None]
    n = tl.arange(0, 16)[None, :]
    i = tl.arange(0, 32)[None, :]
    acc = tl.zeros((16, 16), tl.float32)
    odd = tl.zeros((16, 16), tl.float32)
    BLOCKS: tl.constexpr = K // 32
    for j in range(0, BLOCKS):
        k = {k}
        a = tl.load(A + m * K + k * 32 + i).to(tl.float32)
        b = tl.load(B + m * K + k * 32 + i).to(tl.float32)
        ca = tl.load(SA + m * BLOCKS + {ka}).to(tl.int32)
        cb = tl.load(SB + n * BLOCKS + {kb}).to(tl.int32)
        {codes}
        sa = tl.where(ca == 0, 0x00400000, tl.where(ca == 255, 0x7FC00000, ca << 23)).to(tl.float32, bitcast=True)
        sb = tl.where(cb == 0, 0x00400000, tl.where(cb == 255, 0x7FC00000, cb << 23)).to(tl.float32, bitcast=True)
        {scales}
        {numbers}
        p = {products}
        s = tl.sum(p, 2)
        {add}
    c = tl.load(C + {at})
    bias = tl.load(BIAS + {bias_at})
    y = {finish}
    y = {out}
    tl.store(OUT + {to}, y)
"""
#: The steps of the reference.
STEPS = {
    "k": "j", "ka": "k", "kb": "k", "codes": "pass", "scales": "pass", "numbers": "pass", "products": "a[:, None, :] * b[None, :, :]",
    "add": "acc += s * (sa * sb)", "at": "m * 16 + n", "bias_at": "n", "finish": "acc * (alpha * (ts_a * ts_b)) + beta * c + bias",
    "out": "y.to(tl.bfloat16)", "to": "m * 16 + n",
}  # fmt: skip
#: Right ones: all are the same number; those through 16 bits because a number of E4M3 has four bits.
RIGHT: dict[str, dict[str, str]] = {
    "the reference": {},
    "blocks backward": {"k": "BLOCKS - 1 - j"},
    "scales multiplied one by one": {"add": "acc += (s * sa) * sb"},
    "scales folded into numbers": {"products": "(a * tl.reshape(sa, (16, 1)))[:, None, :] * (b * tl.reshape(sb, (16, 1)))[None, :, :]", "add": "acc += s"},
    "sums of every other block, added": {"add": "acc, odd = odd, acc + s * (sa * sb)", "finish": "(acc + odd) * (alpha * (ts_a * ts_b)) + beta * c + bias"},
    "tensor scales, then alpha": {"finish": "acc * ts_a * ts_b * alpha + (bias + beta * c)"},
    "numbers through bfloat16": {"numbers": "a = a.to(tl.bfloat16).to(tl.float32)"},
    "numbers through float16": {"numbers": "a = a.to(tl.float16).to(tl.float32)"},
    "the product of scales by their codes": {
        "add": "acc += s * tl.where((ca > 64) & (ca < 190) & (cb > 64) & (cb < 190), ((ca + cb - 127) << 23).to(tl.float32, bitcast=True), sa * sb)"
    },
}  # fmt: skip
WRONG: dict[str, dict[str, str]] = {
    "next block's scale, a": {"ka": "(k + 1) % BLOCKS"},
    "first block's scale, b": {"kb": "0"},
    "next row's scale, a": {"codes": "ca = tl.load(SA + (m + 1) % 16 * BLOCKS + k).to(tl.int32)"},
    "block reversed, a": {"numbers": "a = tl.load(A + m * K + k * 32 + 31 - i).to(tl.float32)"},
    "last k dropped, a": {"numbers": "a = tl.where((k == BLOCKS - 1) & (i == 31), 0.0, a)"},
    "last block dropped, a": {"numbers": "a = tl.where(k == BLOCKS - 1, 0.0, a)"},
    "last block twice, a": {"add": "acc += s * (sa * sb) * tl.where(k == BLOCKS - 1, 2.0, 1.0)"},
    "output written transposed": {"to": "n * 16 + m"},
    "no tensor scale of a": {"finish": "acc * (alpha * ts_b) + beta * c + bias"},
    "tensor scale of a twice": {"finish": "acc * (alpha * (ts_a * ts_a * ts_b)) + beta * c + bias"},
    "tensor scale divides": {"finish": "acc * (alpha / (ts_a * ts_b)) + beta * c + bias"},
    "epilogue: no alpha": {"finish": "acc * (ts_a * ts_b) + beta * c + bias"},
    "epilogue: bias before alpha": {"finish": "(acc * (ts_a * ts_b) + bias) * alpha + beta * c"},
    "epilogue: bias of next": {"bias_at": "(n + 1) % 16"},
    "epilogue: c transposed": {"at": "n * 16 + m"},
    "epilogue: negative beta": {"finish": "acc * (alpha * (ts_a * ts_b)) - beta * c + bias"},
    "signs of a dropped": {"numbers": "a = tl.abs(a)"},
    "scale 00 is zero": {"scales": "sa = tl.where(ca == 0, 0.0, sa)"},
    "scale FF is infinite": {"scales": "sa = tl.where(ca == 255, float('inf'), sa)"},
    "scale bias 126": {"codes": "ca = tl.minimum(ca + 1, 255)"},
    "scales within 2^-64 and 2^64": {"codes": "ca = tl.minimum(tl.maximum(ca, 63), 191)"},
    "subnormal scales flushed": {"scales": "sa = tl.where(tl.abs(sa) < 1.1754943508222875e-38, 0.0, sa)"},
    "NaN becomes zero": {"out": "tl.where(y != y, 0.0, y).to(tl.bfloat16)"},
    "no sum below -1e30": {"finish": "tl.maximum(acc, -1e30) * (alpha * (ts_a * ts_b)) + beta * c + bias"},
    "bfloat16 additions, not declared": {"add": "acc = (acc + s * (sa * sb)).to(tl.bfloat16).to(tl.float32)"},
    "float16 additions, not declared": {"add": "acc = (acc + s * (sa * sb)).to(tl.float16).to(tl.float32)"},
    "block sums in float16": {"add": "acc += s.to(tl.float16).to(tl.float32) * (sa * sb)"},
    "products in float16": {"products": "(a[:, None, :] * b[None, :, :]).to(tl.float16).to(tl.float32)"},
    "numbers cut to float8": {"numbers": "a = a.to(tl.float8e5).to(tl.float32)"},
    "sum rounded before alpha": {"finish": "acc.to(tl.bfloat16).to(tl.float32) * (alpha * (ts_a * ts_b)) + beta * c + bias"},
    "tensor scales in bfloat16": {"finish": "acc * (alpha * (ts_a.to(tl.bfloat16).to(tl.float32) * ts_b)) + beta * c + bias"},
    "epilogue: C in bfloat16": {"finish": "acc * (alpha * (ts_a * ts_b)) + beta * c.to(tl.bfloat16).to(tl.float32) + bias"},
    "output through float16": {"out": "y.to(tl.float16).to(tl.float32).to(tl.bfloat16)"},
    "bfloat16 output cut": {"out": "y.to(tl.bfloat16, fp_downcast_rounding='rtz')"},
}
_TYPES = {
    "A": "*bf16", "B": "*bf16", "SA": "*u8", "SB": "*u8", "C": "*fp32", "BIAS": "*fp32", "OUT": "*bf16",
    "alpha": "fp32", "beta": "fp32", "ts_a": "fp32", "ts_b": "fp32", "K": "constexpr",
}  # fmt: skip
MODES = ("plain", "fpsan")
SETS = ("scales 118 to 136", "all scale codes")


def build(folder: Path) -> None:
    """A binary of each kernel, with and without FPSan, and `kernels.json`."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    folder.mkdir(parents=True, exist_ok=True)
    kernels: list[dict[str, Any]] = []
    for number, (name, steps) in enumerate((RIGHT | WRONG).items()):
        source = folder / f"kernel{number}.py"
        source.write_text(SOURCE.format(**(STEPS | steps)), "ascii")
        spec = importlib.util.spec_from_file_location(source.stem, source)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        entry: dict[str, Any] = {"name": name, "right": name in RIGHT}
        for mode in MODES:
            triton.knobs.compilation.instrumentation_mode = "" if mode == "plain" else mode
            done = triton.compile(
                ASTSource(module.product, _TYPES, {"K": 128}), target=GPUTarget("cuda", 90, 32),
                options={"num_warps": 4, "instrumentation_mode": "" if mode == "plain" else mode},
            )  # fmt: skip
            if mode == "fpsan" and "arith.mulf" in done.asm["ttgir"]:
                raise SystemExit(f"{name}: this Triton has no FPSan")
            (folder / f"{source.stem}-{mode}.cubin").write_bytes(done.asm["cubin"])
            entry[mode] = {"file": f"{source.stem}-{mode}.cubin", "function": done.metadata.name, "shared": done.metadata.shared}
        source.unlink()
        kernels.append(entry)
    (folder / "kernels.json").write_text(json.dumps({"triton": triton.__version__, "kernels": kernels}, indent=1) + "\n", "ascii")


def draw(seed: int, every: bool) -> tuple[list[Any], list[Any]]:
    """Arrays and numbers of a call."""
    import numpy as np

    rng = np.random.default_rng(seed)
    numbers = [s * (f / 8 + (e > 0)) * 2.0 ** (max(e, 1) - 7) for s in (1, -1) for e in range(16) for f in range(8) if (e, f) != (15, 7)]
    a, b = ((rng.choice(numbers, (16, 128)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for _ in "ab")
    sa, sb = (rng.integers(*((0, 256) if every else (118, 137)), (16, 4)).astype(np.uint8) for _ in "ab")
    if every:
        sa[3, 1], sa[9, 2] = 0, 255
        sb[3, :], sb[9, :] = 127, 127
    c, bias = (rng.standard_normal(shape).astype(np.float32) * np.float32(1e5) for shape in ((16, 16), 16))
    return [a, b, sa, sb, c, bias], [np.float32(x) for x in (0.75 + seed / 64, 1.1, 1.37 / seed, 0.3 * seed)]


def run(folder: Path, path: Path) -> None:
    """How many outputs of each kernel differ from those of the reference that was built in the same way."""
    import cupy as cp

    listed = json.loads((folder / "kernels.json").read_text("ascii"))
    kernels, scratch = listed["kernels"], cp.zeros(1 << 20, cp.uint8)
    for entry in kernels:
        entry["differ"] = {mode: dict.fromkeys(SETS, 0) for mode in MODES}
    for mode in MODES:
        for seed in range(1, 9):
            arrays, numbers = draw(seed, seed > 4)
            given, reference = [cp.asarray(x) for x in arrays], None
            for entry in kernels:
                kernel = cp.RawModule(path=str(folder / entry[mode]["file"])).get_function(entry[mode]["function"])
                y = cp.zeros((16, 16), cp.uint16)
                # The last two are for kernels that ask for memory of their own; these do not.
                kernel((1, 1, 1), (128, 1, 1), (*given, y, *numbers, scratch, scratch), shared_mem=entry[mode]["shared"])
                output = y.get()
                reference = output if reference is None else reference
                entry["differ"][mode][SETS[seed > 4]] += int((output != reference).sum())
    device = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    rows = [{key: entry[key] for key in ("name", "right", "differ")} for entry in kernels]
    document = {"schema": "mxspec-products-fpsan/1", "triton": listed["triton"], "device": device, "outputs": 4 * 256, "kernels": rows}
    path.write_text(json.dumps(document, indent=1) + "\n", "ascii")
    for row in rows:
        print("right" if row["right"] else "wrong", row["name"], row["differ"])


def table(path: Path) -> str:
    """Markdown: whether FPSan tells each kernel from the reference, in either set of scales, and the judge's verdict."""
    judged = json.loads((Path(__file__).parents[2] / "reports/mutants/products.json").read_text("ascii"))["wrong"]
    verdicts = {row["kernel"]: row["verdict"] for row in judged}
    lines = ["| kernel | " + " | ".join(f"FPSan, {s}" for s in SETS) + " | `mxspec check` |", "|---|---|---|---|"]
    for row in json.loads(path.read_text("ascii"))["kernels"]:
        seen = ["differs" if row["differ"]["fpsan"][s] else "same" for s in SETS]
        lines.append(f"| {row['name']} | {' | '.join(seen)} | {'right' if row['right'] else verdicts[row['name']]} |")
    return "\n".join(lines)


if __name__ == "__main__":
    command, *paths = sys.argv[1], *map(Path, sys.argv[2:])
    if command == "build":
        build(*paths)
    elif command == "run":
        run(*paths)
    else:
        print(table(*paths))
