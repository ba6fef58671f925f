"""The network: a decoder of two blocks, for every kind of weights, in NumPy.

    x = embed[tokens]
    x = x + out(attention(qkv(norm(x))))        eight query heads share one key and value head; rotary positions
    x = x + down(gelu(up(norm(x))))             gelu by its tanh form
    logits = head(norm(x))

Norms divide by the root mean square and multiply by a gain. Linear layers hold [outputs, inputs], as checkpoints do, and no bias.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.containers import open_checkpoint
from mxspec.containers.plain import read_plain
from mxspec_lab.transformer.source import LENGTH, VOCABULARY

Floats = npt.NDArray[np.float32]
Tokens = npt.NDArray[np.int64]
#: Blocks, width, query heads, width of a head, and width between `up` and `down`.
BLOCKS, WIDTH, HEADS, HEAD, INNER = 2, 256, 8, 32, 256
EPSILON = np.float32(1e-5)
_GELU = np.float32(np.sqrt(2 / np.pi))


def list_shapes() -> dict[str, tuple[int, ...]]:
    """The shape of each parameter by the name of its tensor, in the order of the file."""
    shapes: dict[str, tuple[int, ...]] = {"embed": (len(VOCABULARY), WIDTH)}
    for block in range(BLOCKS):
        own = {
            "norm1": (WIDTH,), "qkv": ((HEADS + 2) * HEAD, WIDTH), "out": (WIDTH, HEADS * HEAD),
            "norm2": (WIDTH,), "up": (INNER, WIDTH), "down": (WIDTH, INNER),
        }  # fmt: skip
        shapes |= {f"blocks.{block}.{name}": shape for name, shape in own.items()}
    return shapes | {"norm": (WIDTH,), "head": (len(VOCABULARY), WIDTH)}


#: The weights, in bfloat16: trained by Adam in NumPy on so many paragraphs, in so many steps.
MODEL, PARAGRAPHS, STEPS = Path(__file__).with_name("model.safetensors"), 24_000, 2400


def read_model(path: Path = MODEL) -> dict[str, Floats]:
    """The parameters as float32, whose values bfloat16 holds. Raises ContainerError."""
    tensors = open_checkpoint(path).tensors
    return {name: read_plain(tensors[f"{name}.weight"], 0, int(np.prod(shape))).reshape(shape) for name, shape in list_shapes().items()}


#: Names of the matrices, which are quantized; norms are not.
MATRICES = tuple(name for name, shape in list_shapes().items() if len(shape) == 2)


@dataclass(frozen=True, slots=True)
class Weights:
    """What the network asks of its parameters."""

    gains: Mapping[str, Floats]
    #: Name of a matrix and rows x [n, inputs] -> x W^T [n, outputs].
    multiply: Callable[[str, Floats], Floats]
    #: Token numbers -> rows of the embedding.
    embed: Callable[[Tokens], Floats]


def hold_dense(parameters: Mapping[str, Floats]) -> Weights:
    """Weights that are plain arrays."""
    return Weights(
        gains={name: x for name, x in parameters.items() if x.ndim == 1},
        multiply=lambda name, x: x @ parameters[name].T, embed=lambda tokens: parameters["embed"][tokens],
    )  # fmt: skip


def _rotation() -> tuple[Floats, Floats]:
    """Cosine and sine [LENGTH, HEAD / 2] of rotary positions."""
    angles = np.outer(np.arange(LENGTH), 1000.0 ** (-np.arange(HEAD // 2) / (HEAD // 2)))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


_COS, _SIN = _rotation()


def _rotate(x: Floats) -> Floats:
    """Heads [batch, heads, tokens, HEAD] turned by their positions."""
    cos, sin = _COS[: x.shape[2]], _SIN[: x.shape[2]]
    one, other = x[..., : HEAD // 2], x[..., HEAD // 2 :]
    return np.concatenate([one * cos - other * sin, other * cos + one * sin], axis=-1)


def _norm(x: Floats, gain: Floats) -> Floats:
    return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * gain, np.float32)


def _gelu(x: Floats) -> Floats:
    return np.asarray(0.5 * x * (1 + np.tanh(_GELU * (x + np.float32(0.044715) * x * x * x))), np.float32)


def gelu_slope(x: Floats) -> Floats:
    """The derivative of GELU."""
    t = np.tanh(_GELU * (x + np.float32(0.044715) * x * x * x))
    return np.asarray(0.5 * (1 + t) + 0.5 * x * (1 - t * t) * _GELU * (1 + np.float32(3 * 0.044715) * x * x), np.float32)


def _attend(q: Floats, k: Floats) -> Floats:
    """Weights [batch, heads, tokens, tokens] of rotated queries and keys; no token sees a later one."""
    scores = q @ k.transpose(0, 1, 3, 2) * np.float32(HEAD**-0.5)
    length = q.shape[2]
    scores += np.triu(np.full((length, length), -1e9, np.float32), 1)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(scores / scores.sum(-1, keepdims=True), np.float32)


def _split(qkv: Floats, batch: int, length: int) -> tuple[Floats, Floats, Floats]:
    """Queries [batch, HEADS, length, HEAD], keys and values [batch, 1, length, HEAD], not rotated."""
    heads = qkv.reshape(batch, length, HEADS + 2, HEAD).transpose(0, 2, 1, 3)
    return heads[:, :HEADS], heads[:, HEADS : HEADS + 1], heads[:, HEADS + 1 :]


#: What the forward pass meets on its way, by name: the inputs of each matrix and its outputs, and the sums.
Trace = dict[str, Any]


def run(weights: Weights, tokens: Tokens, trace: Trace | None = None) -> Floats:
    """The logits float32 [batch, length, vocabulary] of tokens [batch, length <= LENGTH]; trace: filled with what is met on the way."""
    batch, length = tokens.shape
    kept: Trace = {} if trace is None else trace

    def multiply(name: str, x: Floats) -> Floats:
        kept[f"{name}.in"] = x
        kept[f"{name}.out"] = y = weights.multiply(name, x)
        return y

    x = weights.embed(tokens.reshape(-1))
    kept["embed"] = x
    for number in range(BLOCKS):
        block = f"blocks.{number}"
        qkv = multiply(f"{block}.qkv", _norm(x, weights.gains[f"{block}.norm1"]))
        q, k, v = _split(qkv, batch, length)
        mixed = (_attend(_rotate(q), _rotate(k)) @ v).transpose(0, 2, 1, 3).reshape(batch * length, -1)
        x = x + multiply(f"{block}.out", mixed)
        kept[f"{block}.middle"] = x
        inner = multiply(f"{block}.up", _norm(x, weights.gains[f"{block}.norm2"]))
        x = x + multiply(f"{block}.down", _gelu(inner))
        kept[f"{block}.end"] = x
    return multiply("head", _norm(x, weights.gains["norm"])).reshape(batch, length, -1)


def measure_loss(logits: Floats, targets: Tokens) -> npt.NDArray[np.float64]:
    """-ln p of each target, float64 [batch, length]."""
    wide = logits.astype(np.float64)
    wide -= wide.max(-1, keepdims=True)
    chosen = np.take_along_axis(wide, targets[..., None], -1)[..., 0]
    return np.asarray(np.log(np.exp(wide).sum(-1)) - chosen)
