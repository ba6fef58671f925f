"""The command: `python -m mxspec_lab.transformer` stores the model in every format, measures, and writes reports/atlas/transformer.json.

Every figure is against the same model unquantized (bfloat16), those of one table against the model in Q4_K. All are informational: nothing here is a verdict.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
import numpy as np

from mxspec_conformance.results.environment import describe_environment
from mxspec_lab.evidence.status import write_result
from mxspec_lab.model_level import list_absent
from mxspec_lab.transformer.ladder import draw_rows, judge_layers, judge_loaders
from mxspec_lab.transformer.loaders import Packed
from mxspec_lab.transformer.measure import (
    GENERATED,
    PROMPT,
    Answers,
    ask,
    compare,
    compare_loaders,
    list_numbers,
    load_dense,
    measure_layers,
    measure_sensitivity,
    summarize,
)
from mxspec_lab.transformer.network import (
    BLOCKS,
    HEAD,
    HEADS,
    INNER,
    MATRICES,
    MODEL,
    PARAGRAPHS,
    STEPS,
    WIDTH,
    Floats,
    Tokens,
    Trace,
    hold_dense,
    list_shapes,
    read_model,
    run,
)
from mxspec_lab.transformer.source import HELD_OUT_SEED, LENGTH, VOCABULARY, write_text
from mxspec_lab.transformer.storing import Matrix, Variant, list_variants

SCHEMA = "mxspec-atlas-transformer/1"
REPORT = Path(__file__).resolve().parents[3] / "reports" / "atlas" / "transformer.json"
TEXTS, PROMPTS = 512, 64
#: What other formats are compared with, beside the unquantized model: most weights of a Q4_K_M file are in it.
BASELINE = "Q4_K"
#: Rules of which errors after each layer, and loaders, are looked at: one of a format.
CHOSEN = ("mx-floor", "nvfp4-paper", "affine, bfloat16 scale and bias")
#: Formats in which each matrix is quantized alone.
ALONE = ("mxfp4", "nvfp4", "int4-g64", "mxfp8_e4m3")
#: Formats of which each layer is compared with its exact sums; rows of activations of each.
UNDER_LADDER, ROWS = ("mxfp4", "nvfp4", "mxfp8_e4m3", "int4-g64", "mxfp4, 2:4"), 32

NUMBERS = sum(int(np.prod(shape)) for shape in list_shapes().values())
NOT_SHOWN = (
    f"A model of {NUMBERS / 1e6:.2f} million numbers on sentences of a synthetic source; large models have outlier channels that this one has not, and other errors.",
    "Weights alone are quantized; activations, attention and norms are float32.",
    "No calibration, rotation, GPTQ, AWQ or training after quantization: formats and rules alone.",
    "The answer to a question is certain for whoever remembers: a model that knows it hardly notices small errors, which flatters every format.",
    "One model from one training seed: the standard errors are of the text, not of the training.",
    "The order of formats is this model's; whether a perplexity within 1 % is good enough is for whoever uses a model to say.",
)


def _describe(variant: Variant, matrices: Mapping[str, Matrix]) -> dict[str, Any]:
    numbers = sum(int(np.prod(list_shapes()[name])) for name in MATRICES)
    bits = 8 * sum(w.bytes for w in matrices.values()) / numbers
    return {"format": variant.format, "rule": variant.rule, "container": variant.convention, "bits_per_number": bits}


def _list_packed(matrices: Mapping[str, Matrix]) -> dict[str, Packed] | None:
    found = {name: w for name, w in matrices.items() if isinstance(w, Packed)}
    return found if len(found) == len(matrices) else None


def measure(texts: int, prompts: int) -> dict[str, Any]:
    """Everything that the result holds beside its provenance."""
    parameters = read_model()
    tokens, logs = write_text(texts, HELD_OUT_SEED)
    plain = hold_dense(parameters)
    due = ask(plain, tokens, prompts)
    met = Trace()
    run(plain, tokens[:64, :-1], met)
    inputs = {name: draw_rows(met[f"{name}.in"], ROWS, 3) for name in MATRICES if name != "embed"}
    loss, error = summarize(due.losses)
    floor, floor_error = summarize(-logs[:, 1:].mean(1))
    tables: dict[str, list[dict[str, Any]]] = {
        "rows": [{"format": "bfloat16", "rule": "unquantized", "container": "safetensors", "bits_per_number": 16.0, **compare(due, due), "note": ""}],
        "layers": [], "sensitivity": [], "loaders": [], "judged_loaders": [], "ladder": [],
    }  # fmt: skip
    held: list[tuple[Variant, Answers]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, variant in enumerate(list_variants()):
            place = Path(folder) / str(number)
            place.mkdir()
            matrices = variant.read(variant.write(MODEL, parameters, place))
            held.append((variant, _measure_variant(tables, variant, matrices, parameters, due, tokens, inputs, prompts)))
            row = tables["rows"][-1]
            click.echo(
                f"{variant.format:14} {variant.rule:33.33} {row['bits_per_number']:6.3f} bits, perplexity {row['perplexity']:.4f}, "
                f"ratio {row['ratio']:.4f} +- {row['ratio_standard_error']:.4f}, greedy {row['greedy_token_match']:.3f}, cosine {row['cosine']:.4f}"
            )
    tables[f"against_{BASELINE.lower()}"] = [
        {"format": v.format, "rule": v.rule, **compare(answers, base)}
        for b, base in held if b.format == BASELINE for v, answers in held if v.format != BASELINE
    ]  # fmt: skip
    return {
        "source": {
            "perplexity_of_the_source_itself": float(np.exp(floor)), "its_standard_error": float(np.exp(floor) * floor_error),
            "held_out_paragraphs": texts, "tokens_predicted": texts * LENGTH, "vocabulary": len(VOCABULARY),
        },
        "model": {
            "blocks": BLOCKS, "width": WIDTH, "query_heads": HEADS, "key_and_value_heads": 1, "head": HEAD, "inner_width": INNER,
            "numbers": NUMBERS, "file": MODEL.name, "sha256": sha256(MODEL.read_bytes()).hexdigest(),
            "steps": STEPS, "paragraphs": PARAGRAPHS, "perplexity": float(np.exp(loss)), "perplexity_standard_error": float(np.exp(loss) * error),
        },
        "decoding": {"prompts": prompts, "prompt_tokens": PROMPT, "generated_tokens": GENERATED},
        **tables,
        "absent": list_absent(), "not_shown": list(NOT_SHOWN),
    }  # fmt: skip


def _measure_variant(
    tables: dict[str, list[dict[str, Any]]], variant: Variant, matrices: Mapping[str, Matrix], parameters: Mapping[str, Floats], due: Answers,
    tokens: Tokens, inputs: Mapping[str, Floats], prompts: int,
) -> Answers:  # fmt: skip
    head = {"format": variant.format, "rule": variant.rule}
    numbers = list_numbers(matrices)
    found = ask(load_dense(parameters, numbers), tokens, prompts)
    tables["rows"].append({**_describe(variant, matrices), **compare(found, due), "note": variant.note})
    if variant.rule not in CHOSEN:
        return found
    tables["layers"] += [{**head, **row} for row in measure_layers(parameters, numbers, tokens[:128])]
    if variant.format in ALONE:
        tables["sensitivity"] += [{**head, **row} for row in measure_sensitivity(parameters, numbers, due, tokens[:256])]
    packed = _list_packed(matrices)
    if packed is None:
        return found
    tables["loaders"].append({**head, **compare_loaders(parameters, packed, found, tokens, prompts)})
    tables["judged_loaders"] += [{**head, **row} for row in judge_loaders(packed["head"])]
    if variant.format in UNDER_LADDER:
        tables["ladder"] += [{**head, **row} for row in judge_layers(packed, inputs)]
    return found


@click.command()
@click.option("--texts", type=click.IntRange(min=64), default=TEXTS, show_default=True, help="Paragraphs of held-out text, of 64 tokens.")
@click.option("--prompts", type=click.IntRange(min=8), default=PROMPTS, show_default=True, help="Prompts that are continued.")
@click.option("--json", "out", type=click.Path(path_type=Path), default=REPORT, show_default="reports/atlas/transformer.json")
def main(texts: int, prompts: int, out: Path) -> None:
    """Store the model in every format, measure it, and write the tables."""
    started = time.process_time()
    found = measure(texts, prompts)
    write_result(
        out,
        {
            "schema": SCHEMA, "command": f"python -m mxspec_lab.transformer --texts {texts} --prompts {prompts}",
            "environment": describe_environment(), "cpu_seconds": round(time.process_time() - started, 1), **found,
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
