"""Other libraries' kernels that do what these do, on the same data, for the bench."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from mxspec_gpu.timing import import_torch


def _make_call(function: Callable[..., Any], arguments: tuple[Any, ...], x: Any) -> Callable[[], Any]:
    return partial(function, x, *arguments)


def _cast_groups(x: Any) -> Any:
    """What DeepGEMM's `per_token_cast_to_fp8` computes, for torch to compile."""
    torch = import_torch()
    groups = x.reshape(x.shape[0], -1, 128)
    scales = groups.abs().float().amax(2, keepdim=True).clamp(1e-4) / 448
    return (groups * (1 / scales)).to(torch.float8_e4m3fn).reshape(x.shape), scales.squeeze(2)


def _cast_gated(x: Any) -> Any:
    """The same of SiLU(gate) * up."""
    gate, up = x.chunk(2, dim=1)
    return _cast_groups(import_torch().nn.functional.silu(gate) * up)


def _cast_norm(x: Any, weight: Any) -> Any:
    """The same of RMSNorm."""
    return _cast_groups(import_torch().nn.functional.rms_norm(x, weight.shape, eps=1e-6) * weight)


def list_peers(n: int) -> list[tuple[str, str, tuple[int, int], Callable[[Any], Callable[[], Any]]]]:
    """(library, what, bytes, from a tensor the call)."""
    torch = import_torch()

    def size(bits: float, k: int = 0, scale: int = 1) -> tuple[int, int]:
        return n * n * 2, int(n * n * bits / 8) + (n * n * scale // k if k else 0)

    peers: list[tuple[str, str, tuple[int, int], Callable[[Any], Callable[[], Any]]]] = [
        ("torch", "x.to(float8_e4m3fn), no scale", size(8), lambda x: lambda: x.to(torch.float8_e4m3fn)),
        ("torch", "x.to(float32), for comparison", (n * n * 2, n * n * 4), lambda x: lambda: x.to(torch.float32)),
    ]
    groups = "FP8 in groups of 128, float32 scales"
    peers.append(("torch.compile", groups, size(8, 128, 4), partial(_make_call, torch.compile(_cast_groups, fullgraph=True), ())))
    gated, half = "SiLU times up, FP8 in groups of 128, float32 scales", (n * n * 2, n * n // 2 + n * n // 64)
    peers.append(("torch.compile", gated, half, partial(_make_call, torch.compile(_cast_gated, fullgraph=True), ())))
    weight = torch.ones(n, device="cuda", dtype=torch.bfloat16)
    normed = partial(_make_call, torch.compile(_cast_norm, fullgraph=True), (weight,))
    peers.append(("torch.compile", "RMSNorm, FP8 in groups of 128, float32 scales", size(8, 128, 4), normed))
    try:
        from vllm.model_executor.layers.quantization.utils.fp8_utils import (
            per_token_group_quant_fp8,
            silu_mul_per_token_group_quant_fp8_colmajor,
        )
    except Exception as error:
        print(f"vllm: {error}", file=sys.stderr)
    else:
        peers.append(
            ("vllm", f"{groups}, per_token_group_quant_fp8", size(8, 128, 4), partial(_make_call, per_token_group_quant_fp8, (128,)))
        )
        peers.append(("vllm", f"{gated}, by columns", half, partial(_make_call, silu_mul_per_token_group_quant_fp8_colmajor, ())))
    try:
        from sglang.kernels.ops.quantization.fp8_kernel import sglang_per_token_group_quant_fp8
    except Exception as error:
        print(f"sglang: {error}", file=sys.stderr)
    else:
        name = "sglang_per_token_group_quant_fp8"
        peers.append(("sglang", f"{groups}, {name}", size(8, 128, 4), partial(_make_call, sglang_per_token_group_quant_fp8, (128,))))
    try:
        from torchao.prototype.mx_formats.config import ScaleCalculationMode
        from torchao.prototype.mx_formats.mx_tensor import to_dtype, to_mx
        from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize
    except Exception as error:
        print(f"torchao: {error}", file=sys.stderr)
    else:
        fp4 = getattr(torch, "float4_e2m1fn_x2", None)
        compiled = torch.compile(to_mx, fullgraph=True)
        for mode in (ScaleCalculationMode.FLOOR, ScaleCalculationMode.RCEIL):
            for element, bits in ((fp4, 4), (torch.float8_e4m3fn, 8)):
                if element is not None:
                    peers.append((
                        "torchao, torch.compile", f"to_mx {'mxfp4' if bits == 4 else 'mxfp8_e4m3'} {mode.name}", size(bits, 32),
                        partial(_make_call, compiled, (element, 32, mode)),
                    ))  # fmt: skip
        nv = torch.compile(nvfp4_quantize, fullgraph=True)
        scale = torch.full((), 0.002, device="cuda")
        peers.append(("torchao, torch.compile", "nvfp4_quantize", size(4, 16), lambda x: lambda: nv(x, 16, scale)))

        def make_dequantize(x: Any) -> Callable[[], Any]:
            scales, codes = compiled(x, torch.float8_e4m3fn, 32, ScaleCalculationMode.FLOOR)
            back = torch.compile(to_dtype, fullgraph=True)
            return lambda: back(codes, scales, torch.float8_e4m3fn, 32, torch.bfloat16)

        peers.append(("torchao, torch.compile", "to_dtype mxfp8_e4m3", size(8, 32), make_dequantize))
    try:
        import bitsandbytes.functional as bnb
    except Exception as error:
        print(f"bitsandbytes: {error}", file=sys.stderr)
    else:
        peers.append(("bitsandbytes", "quantize_fp4, blocks of 64", size(4, 64, 4), lambda x: lambda: bnb.quantize_fp4(x, blocksize=64)))

        def make_back(x: Any) -> Callable[[], Any]:
            codes, state = bnb.quantize_fp4(x, blocksize=64)
            return lambda: bnb.dequantize_fp4(codes, state)

        peers.append(("bitsandbytes", "dequantize_fp4, blocks of 64", size(4, 64, 4), make_back))
    return peers


def prepare_humming(fmt: str, codes: Any, scales: Any) -> Callable[..., Any] | None:
    """humming-kernels' product with the same weights, of experts too, prepared as it wants them; None where it is not installed."""
    try:
        from humming.layer import HummingLayer
    except Exception as error:
        print(f"humming-kernels: {error}", file=sys.stderr)
        return None
    torch = import_torch()
    n, k = codes.shape[-2], codes.shape[-1] * 2
    config, tensors = {"quant_method": "mxfp4"}, {"weight": codes, "weight_scale": scales}
    if fmt == "nvfp4":
        config = {"quant_method": "modelopt", "quant_algo": "nvfp4"}
        one = torch.ones(codes.shape[0] if codes.ndim == 3 else 1, device="cuda")
        tensors = {"weight": codes, "weight_scale": scales.view(torch.float8_e4m3fn), "weight_scale_2": one}
    experts = {"num_experts": codes.shape[0]} if codes.ndim == 3 else {}
    layer = HummingLayer(shape_n=n, shape_k=k, weight_config=config, torch_dtype=torch.bfloat16, **experts).cuda()
    layer.load_from_tensors(tensors)
    layer.transform()
    made: Callable[..., Any] = layer
    return made


def find_deepgemm() -> Callable[..., Any] | None:
    """DeepGEMM's product of FP8 in groups, with a's scales by columns; None where it is not installed."""
    try:
        import deep_gemm
    except Exception as error:
        print(f"DeepGEMM: {error}", file=sys.stderr)
        return None
    found: Callable[..., Any] = deep_gemm.fp8_gemm_nt
    return found
