"""MLX on float16 arrays, in which it computes every step: other answers than for the same float32 values."""

from mxspec_conformance.adapters import mlx_py

NAME, VERSION = "mlx-fp16", mlx_py.VERSION
FORMATS = mlx_py.FORMATS
DTYPES = ["float16"]
TENSOR_SCALE = mlx_py.TENSOR_SCALE
PROFILES = {fmt: f"mlx-0.32/{fmt}/cpu/float16" for fmt in FORMATS}
PROFILES_ONE_LEVEL = {"nvfp4": "mlx-0.32/nvfp4/cpu/float16"}

quantize = mlx_py.quantize
