"""Training: `python -m mxspec_lab.transformer.train` writes model.safetensors beside it.

Adam in NumPy, with a fixed seed. Another BLAS adds in another order, so that another machine's weights differ in their last bits and
then in more; the weights are therefore kept as a file, rounded to bfloat16.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import click
import ml_dtypes
import numpy as np

from mxspec.containers import open_checkpoint
from mxspec.containers.plain import read_plain
from mxspec_lab.transformer.network import (
    BLOCKS,
    Floats,
    Tokens,
    find_gradients,
    hold_dense,
    list_shapes,
    measure_loss,
    run,
)
from mxspec_lab.transformer.source import HELD_OUT_SEED, LENGTH, TRAINING_SEED, make_source, write_text
from mxspec_lab.transformer.storing import write_arrays

MODEL = Path(__file__).with_name("model.safetensors")
BATCH, STEPS, RATE, WARM = 32, 2400, 4e-3, 100
PARAGRAPHS = 24_000


def make_parameters(seed: int = 0) -> dict[str, Floats]:
    """Parameters before training: gains 1, matrices normally distributed."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, shape in list_shapes().items():
        narrow = 1 / np.sqrt(2 * BLOCKS) if name.endswith(("out", "down")) else 1.0
        deviation = 0.1 if name == "embed" else narrow / np.sqrt(shape[-1])
        found[name] = np.ones(shape, np.float32) if len(shape) == 1 else (deviation * rng.standard_normal(shape)).astype(np.float32)
    return found


def train(parameters: dict[str, Floats], tokens: Tokens, steps: int) -> Iterator[float]:
    """Train in place on paragraphs [n, LENGTH + 1]; yields the loss of each step."""
    rng = np.random.default_rng(0)
    first = {name: np.zeros_like(x) for name, x in parameters.items()}
    second = {name: np.zeros_like(x) for name, x in parameters.items()}
    for step in range(1, steps + 1):
        loss, gradients = find_gradients(parameters, tokens[rng.integers(0, len(tokens), BATCH)])
        now = RATE * min(step / WARM, 0.5 * (1 + np.cos(np.pi * step / steps)) + 0.02)
        norm = np.sqrt(sum(float((g * g).sum()) for g in gradients.values()))
        for name, gradient in gradients.items():
            gradient = gradient * np.float32(min(1.0, 1.0 / norm))
            first[name] += np.float32(0.1) * (gradient - first[name])
            second[name] += np.float32(0.02) * (gradient * gradient - second[name])
            change = first[name] / np.float32(1 - 0.9**step) / (np.sqrt(second[name] / np.float32(1 - 0.98**step)) + np.float32(1e-8))
            decay = np.float32(0.01) * parameters[name] if parameters[name].ndim == 2 else np.float32(0)
            parameters[name] -= np.float32(now) * (change + decay)
        yield loss


def read_model(path: Path = MODEL) -> dict[str, Floats]:
    """The parameters as float32, whose values bfloat16 holds. Raises ContainerError."""
    tensors = open_checkpoint(path).tensors
    return {
        name: read_plain(tensors[f"{name}.weight"], 0, int(np.prod(shape))).reshape(shape) for name, shape in list_shapes().items()
    }


@click.command()
@click.option("--steps", type=click.IntRange(min=1), default=STEPS, show_default=True)
@click.option("-o", "out", type=click.Path(path_type=Path), default=MODEL, show_default="model.safetensors beside this module")
def main(steps: int, out: Path) -> None:
    """Train, and write the weights."""
    source = make_source()
    tokens, _ = write_text(PARAGRAPHS, TRAINING_SEED, source)
    held, logs = write_text(256, HELD_OUT_SEED, source)
    click.echo(f"{tokens.size:,} tokens; the source's own loss on held-out text is {-logs[:, 1:].mean():.4f}")
    parameters = make_parameters()
    started = time.process_time()
    losses: list[float] = []
    for loss in train(parameters, tokens, steps):
        losses.append(loss)
        if len(losses) % 100 == 0:
            click.echo(f"step {len(losses)}: loss {np.mean(losses[-100:]):.4f}")
    found = measure_loss(run(hold_dense(parameters), held[:, :-1]), held[:, 1:]).mean()
    click.echo(f"held out: {found:.4f} after {time.process_time() - started:.0f} CPU s")
    rounded = {f"{name}.weight": x.astype(ml_dtypes.bfloat16) for name, x in parameters.items()}
    write_arrays(out, rounded, {"made_by": f"python -m mxspec_lab.transformer.train --steps {steps}", "length": str(LENGTH)})


if __name__ == "__main__":
    main()
