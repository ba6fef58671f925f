"""What a folder's config.json says of its quantization."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mxspec.containers.conventions import Form

#: Where MLX looks; it has what stands in quantization_config besides.
_MLX_KEY = "quantization"
#: What compressed-tensors calls a grid of scales.
STRATEGIES = {(128, 128): "block", (1, 0): "channel", (0, 0): "tensor"}


def is_mlx_config(quantization: Any) -> bool:
    """Whether a `quantization_config` is one of MLX: sizes, a mode, and entries for single layers."""
    return isinstance(quantization, dict) and "quant_method" not in quantization and {"group_size", "bits"} <= set(quantization)


def set_config(config: dict[str, Any], wanted: dict[str, Any] | None) -> None:
    """Put what `describe_config` gave into a configuration, in place of what stood there."""
    config.pop("quantization_config", None)
    if is_mlx_config(config.get(_MLX_KEY)):
        del config[_MLX_KEY]
    if wanted is not None:
        config["quantization_config"] = wanted
        if is_mlx_config(wanted):
            config[_MLX_KEY] = wanted


def _describe_mlx(stored: Mapping[str, Form]) -> dict[str, Any]:
    """MLX's entries: what holds for most layers, and the layers for which something else does."""

    def describe(form: Form) -> dict[str, Any]:
        assert form.config is not None
        return {"group_size": form.format.k, "bits": form.format.element.bits, "mode": form.config[1]}

    counts = Counter(f.format_name for f in stored.values())
    most = max(stored.values(), key=lambda f: counts[f.format_name])
    return {**describe(most), **{base: describe(f) for base, f in stored.items() if f.format_name != most.format_name}}


def describe_config(stored: Mapping[str, Form], before: Any, *, inputs: bool, ignored: Sequence[str] = ()) -> dict[str, Any] | None:
    """The least `quantization_config` with which the convention's loaders know the tensors; None where it has none.

    stored: the forms of the tensors, by base name. before: what stood there. inputs: whether there are input scales. ignored: names of linear
    layers that are not quantized, where `before` does not say.
    """
    forms: Mapping[str, Form] = {f.format_name: f for f in stored.values()}
    form = next(iter(forms.values()))
    if form.convention == "mlx":
        return _describe_mlx(stored)
    if form.config is None or form.config[0] == "quark" or len(forms) > 1:
        return None
    method, name = form.config
    old = before if isinstance(before, dict) else {}
    ignore = old.get("ignore", old.get("modules_to_not_convert", list(ignored)))
    if method == "fp8":
        found = {
            "quant_method": method,
            "activation_scheme": "dynamic",
            "fmt": "e4m3",
            "weight_block_size": list(form.grid or ()) if form.grid != (0, 0) else None,
        }
        return {**found, **({"scale_fmt": "ue8m0"} if form.format.is_mx else {}), "modules_to_not_convert": ignore}
    if form.grid is not None:
        weights = {"num_bits": 8, "type": "float", "strategy": STRATEGIES[form.grid], "symmetric": True, "dynamic": False}
        weights |= {"block_structure": list(form.grid)} if 0 not in form.grid else {}
        given = {**weights, "strategy": "tensor"} if inputs else None
        return describe_compressed(name, {"weights": weights, "input_activations": given}, ignore)
    if method == "mxfp4":
        return {"quant_method": method, "modules_to_not_convert": ignore}
    args = {"num_bits": form.format.element.bits, "type": "float", "group_size": form.format.k, "dynamic": False}
    if method == "modelopt":
        group: dict[str, Any] = {"weights": args, "targets": ["Linear"]}
        if inputs:
            group["input_activations"] = args
        return {"quant_method": method, "quant_algo": name, "config_groups": {"group_0": group}, "ignore": ignore}
    strategy = "tensor_group" if form.format.has_tensor_scale else "group"
    weights = {**args, "strategy": strategy, "symmetric": True}
    weights["scale_dtype"] = "torch.float8_e4m3fn" if form.format.has_tensor_scale else "torch.uint8"
    activations = {**weights, "dynamic": "local"} if inputs else None
    return describe_compressed(name, {"weights": weights, "input_activations": activations}, ignore)


def describe_compressed(name: str, args: Mapping[str, Any], ignore: Any) -> dict[str, Any]:
    """The entry of compressed-tensors for one format of all linear layers but those ignored."""
    group = {"format": name, "targets": ["Linear"], **args}
    return {
        "quant_method": "compressed-tensors", "format": name, "quantization_status": "compressed", "config_groups": {"group_0": group},
        "ignore": ignore,
    }  # fmt: skip
