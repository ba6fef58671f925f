"""Measurements of a stored model against the same model unquantized: perplexity, tokens, cosines, and errors after each layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_lab.transformer.loaders import Packed, dequantize, multiply_packed
from mxspec_lab.transformer.network import BLOCKS, MATRICES, Floats, Tokens, Trace, Weights, gelu_slope, hold_dense, measure_loss, run
from mxspec_lab.transformer.source import LENGTH
from mxspec_lab.transformer.storing import Matrix, Plain

Doubles = npt.NDArray[np.float64]
Parameters = Mapping[str, Floats]
#: Tokens of a prompt, and tokens that are generated after it.
PROMPT, GENERATED = 16, 32
#: Paragraphs of one pass: more do not fit a cache.
_PASS = 64
#: Groups of paragraphs of whose errors the standard error is taken.
GROUPS = 8


def list_numbers(matrices: Mapping[str, Matrix]) -> dict[str, Floats]:
    """Every matrix as float32."""
    return {name: w.numbers if isinstance(w, Plain) else dequantize(w, w.layout) for name, w in matrices.items()}


def load_dense(parameters: Parameters, matrices: Mapping[str, Floats]) -> Weights:
    """The model with these matrices, and the norms of the given parameters."""
    return hold_dense({**parameters, **matrices})


def load_packed(parameters: Parameters, matrices: Mapping[str, Packed]) -> Weights:
    """The model that multiplies what the container holds; of the embedding rows are looked up, so it is made plain."""
    embedding = matrices["embed"]
    rows = dequantize(embedding, embedding.layout)
    return Weights(
        gains={name: x for name, x in parameters.items() if x.ndim == 1},
        multiply=lambda name, x: multiply_packed(x, matrices[name], matrices[name].layout), embed=lambda tokens: rows[tokens],
    )  # fmt: skip


# Perplexity, logits and tokens


@dataclass(frozen=True, slots=True)
class Answers:
    """What a model says of the held-out text."""

    #: Mean loss of each paragraph.
    losses: Doubles
    logits: Floats
    generated: Tokens

    @property
    def top(self) -> Tokens:
        """The most likely token at each place."""
        return np.asarray(self.logits.argmax(-1), np.int64)


def ask(weights: Weights, tokens: Tokens, prompts: int) -> Answers:
    """Run a model over paragraphs [n, LENGTH + 1], and let it continue the first `prompts` of them greedily."""
    logits = np.concatenate([run(weights, tokens[i : i + _PASS, :-1]) for i in range(0, len(tokens), _PASS)])
    return Answers(measure_loss(logits, tokens[:, 1:]).mean(1), logits, generate(weights, tokens[:prompts, :PROMPT]))


def generate(weights: Weights, prompts: Tokens) -> Tokens:
    """The GENERATED most likely tokens after each prompt, one after the other; of equal logits the first token is taken."""
    text = prompts
    for _ in range(GENERATED):
        text = np.concatenate([text, run(weights, text[:, -LENGTH:])[:, -1:].argmax(-1)], axis=1)
    return text[:, prompts.shape[1] :]


def summarize(values: Doubles) -> tuple[float, float]:
    """Mean and standard error of independent values."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def compare(found: Answers, due: Answers) -> dict[str, Any]:
    """A model against the unquantized one; the ratio of perplexities is of the same paragraphs, and so is its standard error."""
    loss, error = summarize(found.losses)
    more, more_error = summarize(found.losses - due.losses)
    one, other = found.logits.astype(np.float64), due.logits.astype(np.float64)
    cosines = (one * other).sum(-1) / np.sqrt((one * one).sum(-1) * (other * other).sum(-1))
    equal = found.generated == due.generated
    first = np.where(equal.all(1), equal.shape[1], equal.argmin(1))
    return {
        "perplexity": float(np.exp(loss)), "perplexity_standard_error": float(np.exp(loss) * error),
        "ratio": float(np.exp(more)), "ratio_standard_error": float(np.exp(more) * more_error),
        "top_token_match": float((found.top == due.top).mean()), "greedy_token_match": float(equal.mean()),
        "tokens_before_first_difference": float(first.mean()), "texts_equal": int(equal.all(1).sum()), "texts": len(equal),
        "logits_nmse": float(((one - other) ** 2).sum() / (other**2).sum()),
        "cosine": float(cosines.mean()), "least_cosine": float(cosines.min()), "cosine_whole": _cosine(one, other),
    }  # fmt: skip


def _cosine(one: Doubles, other: Doubles) -> float:
    return float((one * other).sum() / np.sqrt((one * one).sum() * (other * other).sum()))


# Errors after each layer


def compose(*errors: float) -> float:
    """The relative squared error of a product of things with independent errors: 1 + e is multiplied."""
    return float(np.prod([1 + e for e in errors])) - 1


@dataclass(frozen=True, slots=True)
class Point:
    """A place in the network."""

    name: str
    #: What the trace holds there.
    key: str
    #: The matrix whose product it is; "" for the sums of the residual stream.
    matrix: str = ""


def list_points() -> Iterator[Point]:
    """Every place at which errors are looked at, in order."""
    yield Point("embedding", "embed")
    for number in range(BLOCKS):
        block = f"blocks.{number}"
        for matrix, name in (("qkv", "QKV"), ("out", "attention output")):
            yield Point(f"block {number + 1}, {name}", f"{block}.{matrix}.out", f"{block}.{matrix}")
        yield Point(f"block {number + 1}, after attention", f"{block}.middle")
        for matrix, name in (("up", "FFN up"), ("down", "FFN down")):
            yield Point(f"block {number + 1}, {name}", f"{block}.{matrix}.out", f"{block}.{matrix}")
        yield Point(f"block {number + 1}, after FFN", f"{block}.end")
    yield Point("head", "head.out", "head")


def _power(x: Floats | Doubles) -> float:
    return float(np.square(x.astype(np.float64)).sum())


def find_error(found: Floats, due: Floats) -> float:
    """sum (found - due)^2 / sum due^2."""
    return _power(found.astype(np.float64) - due) / _power(due)


def predict_errors(weights: Mapping[str, float], due: Trace, parameters: Parameters | None = None) -> dict[str, float]:
    """The composition law through the network, from the errors of the matrices: point -> relative squared error.

    A product adds its matrix' error to its input's, e + w + e w. Norms and softmax are taken to hand a relative error on as it is, and errors of the two
    terms of a sum to be independent. Without parameters this is the law for independent numbers: GELU hands errors on as well. With them
    each product's error is multiplied by |x|^2 |W|^2 / (k |x W|^2): a trained matrix answers its inputs with more than a random one of its size, and errors
    are random; GELU multiplies it by what its slope makes of the power.
    """
    found = {"embedding": weights["embed"]}
    stream, power = weights["embed"], _power(due["embed"])

    def multiply(error: float, name: str) -> float:
        combined = compose(error, weights[name])
        if parameters is None:
            return combined
        w = parameters[name]
        return float(combined * _power(due[f"{name}.in"]) * _power(w) / (w.shape[1] * _power(due[f"{name}.out"])))

    for number in range(BLOCKS):
        block, name = f"blocks.{number}", f"block {number + 1}"
        for matrices, names, after, key in (
            (("qkv", "out"), ("QKV", "attention output"), "after attention", "middle"), (("up", "down"), ("FFN up", "FFN down"), "after FFN", "end"),
        ):  # fmt: skip
            first = multiply(stream, f"{block}.{matrices[0]}")
            bent = first
            if matrices[0] == "up" and parameters is not None:
                inner = due[f"{block}.up.out"]
                bent *= float(np.square(gelu_slope(inner)).mean()) * _power(inner) / _power(due[f"{block}.down.in"])
            second = multiply(bent, f"{block}.{matrices[1]}")
            found |= {f"{name}, {names[0]}": first, f"{name}, {names[1]}": second}
            summed = _power(due[f"{block}.{key}"])
            stream = (stream * power + second * _power(due[f"{block}.{matrices[1]}.out"])) / summed
            power = summed
            found[f"{name}, {after}"] = stream
    return found | {"head": multiply(stream, "head")}


def measure_layers(parameters: Parameters, matrices: Mapping[str, Floats], tokens: Tokens) -> Iterator[dict[str, Any]]:
    """A row for each place: the errors that the law predicts, as for independent numbers and with the model's gains, and the measured one.

    Of products also the error with the right input.
    """
    errors = {name: find_error(matrices[name], parameters[name]) for name in MATRICES}
    points = list(list_points())
    measured, alone = (np.full((GROUPS, len(points)), np.nan) for _ in range(2))
    predicted, aligned = (np.empty((GROUPS, len(points))) for _ in range(2))
    for group, given in enumerate(np.array_split(tokens[:, :-1], GROUPS)):
        due, found = Trace(), Trace()
        run(hold_dense(dict(parameters)), given, due)
        run(load_dense(parameters, matrices), given, found)
        law, aware = predict_errors(errors, due), predict_errors(errors, due, parameters)
        for place, point in enumerate(points):
            measured[group, place] = find_error(found[point.key], due[point.key])
            predicted[group, place], aligned[group, place] = law[point.name], aware[point.name]
            if point.matrix:
                alone[group, place] = find_error(due[f"{point.matrix}.in"] @ matrices[point.matrix].T, due[point.key])
    for place, point in enumerate(points):
        whole, error = summarize(measured[:, place])
        independent, trained = float(predicted[:, place].mean()), float(aligned[:, place].mean())
        row: dict[str, Any] = {
            "layer": point.name, "predicted": independent, "predicted_with_gains": trained, "measured": whole, "standard_error": error,
            "ratio": whole / independent, "ratio_with_gains": whole / trained,
        }  # fmt: skip
        if point.matrix:
            own, own_error = summarize(alone[:, place])
            row |= {
                "weights": errors[point.matrix],
                "alone": own,
                "alone_standard_error": own_error,
                "alone_ratio": own / errors[point.matrix],
            }
        yield row


def measure_sensitivity(parameters: Parameters, matrices: Mapping[str, Floats], due: Answers, tokens: Tokens) -> Iterator[dict[str, Any]]:
    """A row for each matrix: the perplexity if that one alone is quantized."""
    for name in MATRICES:
        weights = load_dense(parameters, {name: matrices[name]})
        logits = np.concatenate([run(weights, tokens[i : i + _PASS, :-1]) for i in range(0, len(tokens), _PASS)])
        more, error = summarize(measure_loss(logits, tokens[:, 1:]).mean(1) - due.losses[: len(tokens)])
        yield {
            "matrix": name, "weights": find_error(matrices[name], parameters[name]), "ratio": float(np.exp(more)), "ratio_standard_error": float(np.exp(more) * error),
        }  # fmt: skip


# The two loaders


@dataclass(slots=True)
class LoaderTarget:
    """A loader's product, as a target of `mxspec check`."""

    multiply: Callable[..., Floats]
    matrix: Packed
    ACCUMULATOR: str = "float32"

    @property
    def OPERANDS(self) -> dict[str, str]:  # noqa: N802  # the interface's name
        """Activations in float32 by the matrix as it is stored."""
        return {"a": "float32", "b": self.matrix.operand}

    def matmul(self, a: Floats, b: Any, out_dtype: str) -> Floats:
        """[m, n] of activations [m, k] and a stored matrix [n, k]."""
        return np.asarray(self.multiply(a, b, self.matrix.layout), out_dtype)


def compare_loaders(parameters: Parameters, matrices: Mapping[str, Packed], found: Answers, tokens: Tokens, prompts: int) -> dict[str, Any]:
    """What the loader that multiplies packed weights changes against the one that dequantizes."""
    packed = ask(load_packed(parameters, matrices), tokens, prompts)
    return {
        "perplexity_dequantizing": float(np.exp(found.losses.mean())), "perplexity_packed": float(np.exp(packed.losses.mean())),
        "largest_difference_of_logits": float(np.abs(packed.logits - found.logits).max()), "largest_logit": float(np.abs(found.logits).max()),
        "other_top_tokens": int((packed.top != found.top).sum()), "places": int(found.top.size),
        "other_generated_tokens": int((packed.generated != found.generated).sum()),
    }  # fmt: skip
