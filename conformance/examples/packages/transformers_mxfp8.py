"""Transformers: FP8 weights in blocks of 32 with E8M0 scales."""

import torch
import transformers
from transformers import FineGrainedFP8Config
from transformers.integrations.finegrained_fp8 import Fp8Quantize

NAME, VERSION, FORMATS, ARRAYS = "transformers-mxfp8", transformers.__version__, ["mxfp8_e4m3"], "torch"


class Quantizer:
    quantization_config = FineGrainedFP8Config(weight_block_size=(1, 32), scale_fmt="ue8m0")


def quantize(x, fmt):
    made = Fp8Quantize(Quantizer).convert({"w.weight": x})
    return made["w.weight"].view(torch.uint8), made["w.weight_scale_inv"].view(torch.uint8)
