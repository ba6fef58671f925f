"""compressed-tensors on bfloat16 tensors, in which it computes most steps: other answers than in float32."""

from mxspec_conformance.adapters import compressed_tensors_py

NAME, VERSION = "compressed-tensors-bf16", compressed_tensors_py.VERSION
FORMATS = compressed_tensors_py.FORMATS
DTYPES = ["bfloat16"]
TENSOR_SCALE = compressed_tensors_py.TENSOR_SCALE
PROFILES = {fmt: f"compressed-tensors-0.20/{fmt}/eager/bfloat16" for fmt in FORMATS}
PROFILES_ONE_LEVEL = {"nvfp4": "compressed-tensors-0.20/nvfp4/eager/bfloat16"}

quantize = compressed_tensors_py.quantize
tensor_scale = compressed_tensors_py.tensor_scale
