"""The libraries that the judge has a target for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A library that the judge has a target for."""

    name: str
    module: str
    #: Distribution to install.
    requires: str
    about: str


KNOWN: dict[str, Known] = {
    k.name: k
    for k in (
        Known(name="mxspec", module="mxspec_py", requires="mxspec", about="this model itself"),
        Known(name="gguf", module="gguf_py", requires="gguf", about="llama.cpp's Python package"),
        Known(name="gfloat", module="gfloat_py", requires="gfloat", about="Graphcore's format library"),
        Known(name="mlx", module="mlx_py", requires="mlx", about="Apple's array framework"),
        Known(name="ml_dtypes", module="ml_dtypes_py", requires="ml_dtypes", about="NumPy scalar types (elements only)"),
        Known(name="torchao", module="torchao_floor", requires="torchao", about="torchao, scale mode FLOOR, eager"),
        Known(name="torchao-rceil", module="torchao_rceil", requires="torchao", about="torchao, scale mode RCEIL, eager"),
        Known(name="torchao-even", module="torchao_even", requires="torchao", about="torchao, scale mode EVEN, eager"),
        Known(name="torchao-ceil", module="torchao_ceil", requires="torchao", about="torchao, scale mode CEIL, eager"),
        Known(name="microxcaling", module="microxcaling_py", requires="mx", about="Microsoft's emulation"),
        Known(name="compressed-tensors", module="compressed_tensors_py", requires="compressed_tensors", about="vLLM's checkpoint library"),
        Known(name="modelopt", module="modelopt_py", requires="nvidia-modelopt", about="NVIDIA ModelOpt, dynamic"),
        Known(name="modelopt-static", module="modelopt_static_py", requires="nvidia-modelopt", about="NVIDIA ModelOpt, calibrated"),
        Known(name="auto-round", module="auto_round_py", requires="auto-round", about="Intel AutoRound, fake quantization"),
        Known(name="auto-round-export", module="auto_round_export", requires="auto-round", about="Intel AutoRound, exported codes"),
        Known(name="quark", module="quark_py", requires="amd-quark", about="AMD Quark downcast, ROUND_UP"),
        Known(name="quark-down", module="quark_down", requires="amd-quark", about="AMD Quark downcast, ROUND_DOWN"),
        Known(name="quark-even", module="quark_even", requires="amd-quark", about="AMD Quark downcast, EVEN"),
        Known(name="quark-fake", module="quark_fake", requires="amd-quark", about="AMD Quark fake quantization"),
        Known(name="fouroversix", module="fouroversix_py", requires="fouroversix", about="Four Over Six reference"),
        Known(name="te-reference", module="te_reference", requires="transformer_engine sources", about="Transformer Engine's Python reference"),
        Known(name="vllm-emulation", module="vllm_emulation", requires="vllm sources", about="vLLM's Python emulation"),
        Known(name="mxspec_gpu", module="mxspec_gpu_kernels", requires="CuPy and an NVIDIA GPU", about="this project's GPU kernels"),
        Known(name="mxspec_gpu-tiles", module="mxspec_gpu_tiles", requires="CuPy and an NVIDIA GPU", about="the same, packed, scales in tiles"),
        Known(name="ggml-c", module="ggml_c", requires="a ggml library", about="llama.cpp's C reference"),
    )
}  # fmt: skip
