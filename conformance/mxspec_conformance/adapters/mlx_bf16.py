"""MLX on bfloat16 arrays, in which it computes every step: other answers than for the same float32 values."""

from mxspec_conformance.adapters import mlx_py

NAME, VERSION = "mlx-bf16", mlx_py.VERSION
FORMATS = mlx_py.FORMATS
DTYPES = ["bfloat16"]
TENSOR_SCALE = mlx_py.TENSOR_SCALE
PROFILES = {fmt: f"mlx-0.32/{fmt}/cpu/bfloat16" for fmt in FORMATS}
PROFILES_ONE_LEVEL = {"nvfp4": "mlx-0.32/nvfp4/cpu/bfloat16"}

quantize = mlx_py.quantize
