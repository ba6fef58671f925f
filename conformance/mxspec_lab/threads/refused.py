"""Threads that are no pairs: the judge leaves open what they are about, the interface cannot ask for it, it is no mistake, or it is not known."""

from __future__ import annotations

from mxspec_lab.threads.schema import Refused

_OPEN = "Judged, and not told apart: no text says how, so the judge leaves it open and both conform."
_CONTAINER = "About files and their metadata, not about a function; `mxspec lint` and `attribute` are for them."
_ORDER = "The order of experts' and gates' rows is no layout of one matrix, and the interface has no word for it."

REFUSED: tuple[Refused, ...] = (
    Refused(reference="NVIDIA/TransformerEngine#2408", what="The reciprocal of scale byte 00 is taken to be 1.", reason=f"{_OPEN} (Requirement low-end.)"),
    Refused(reference="microsoft/onnxruntime#28435", what="Between 2^-127 and 2^-126, to nearest means up to E8M0.", reason=f"{_OPEN} (Casts to E8M0 below 2^-126.)"),
    Refused(reference="openvinotoolkit/openvino#34165", what="float32 subnormals become scale 00, whatever their size.", reason=f"{_OPEN} (Casts to E8M0 below 2^-126.)"),
    Refused(reference="microsoft/microxcaling#4", what="957 becomes 896 in MXFP8.", reason="No mistake: the floor rule saturates the top of a binade, and mx-floor does so, too."),
    Refused(reference="nunchux-ai/nunchaku#362", what="Is NVFP4 scaled on one level or on two?", reason="A question. Both are legal, and the answer there is two."),
    Refused(reference="llvm/llvm-project#215295", what="Is a scale that is no power of two rounded, or read by its exponent?", reason="A question about an operation whose scale is a number; scales here are bytes."),
    Refused(reference="pytorch/ao#2035", what="Which scale rule should be the default?", reason="A choice; each is a profile."),
    Refused(reference="triton-lang/triton#6054", what="Two quantizers differ; which is golden?", reason="A question; `mxspec identify` names the profile of each."),
    Refused(reference="ROCm/FlyDSL#590", what="The E8M0 byte is one off in 67.9 % of blocks.", reason="Known by a line that does not say in which direction, or by which rule."),
    Refused(reference="pytorch/ao#4598", what="Scales of zero blocks, and a lower bound.", reason="Known by a line that does not say what was returned."),
    Refused(reference="triton-lang/triton#11734", what="A scaled product is wrong in 524,214 of 524,288 elements on one device.", reason="The cause is not known."),
    Refused(reference="NVIDIA/TransformerEngine#3300", what="One unit in the last place of bfloat16 gives other FP4 codes.", reason="No mistake of a quantizer: its inputs differ."),
    Refused(reference="vllm-project/vllm#36488", what="20 of 30 prompts give other text in another batch.", reason="The order of additions is open, and may depend on the batch."),
    Refused(reference="openxla/xla#32525", what="A product ignores the global scale in older cuDNN.", reason="The mistake of flashinfer-3548; nothing more is known of it."),
    Refused(reference="radixark/miles#1261", what="FlashInfer's four-over-six differs from Transformer Engine's near ties.", reason="The model has no profile of FlashInfer's four-over-six, and the line does not say its arithmetic."),
    Refused(reference="triton-lang/triton#10745", what="FNUZ NaN decodes as -0.", reason="An adjacent format, and pairs are of those with vectors; tests/judge/test_fnuz.py has the kernel."),
    Refused(reference="sgl-project/sglang#26884", what="A preshuffled layout costs most of the accuracy.", reason=_ORDER),
    Refused(reference="vllm-project/vllm#44893", what="Accuracy 0 by the wrong gate mode.", reason=_ORDER),
    Refused(reference="vllm-project/vllm#42595", what="Three layout bugs of a mixture of experts.", reason=_ORDER),
    Refused(reference="flashinfer-ai/flashinfer#4874", what="Is the interleave 8 or 16?", reason=_ORDER),
    Refused(reference="vllm-project/vllm#54150", what="Gate and up share one tensor scale after repacking.", reason=_CONTAINER),
    Refused(reference="vllm-project/vllm#49715", what="An input scale is a placeholder that was never filled.", reason=_CONTAINER),
    Refused(reference="vllm-project/vllm#35693", what="Unfilled slots of a tensor scale win the maximum.", reason=_CONTAINER),
    Refused(reference="ggml-org/llama.cpp#21095", what="Conversion between two conventions of NVFP4 checkpoints.", reason=_CONTAINER),
    Refused(reference="vllm-project/llm-compressor#2936", what="A checkpoint scores 3.7 % where 77.7 % are due.", reason=_CONTAINER),
    Refused(reference="NVIDIA/Model-Optimizer#1372", what="MXFP4 becomes NVFP4 without loss in 67 of 72 layers.", reason="A property of weights, not a mistake."),
    Refused(reference="NVIDIA/cudnn-frontend#221", what="Please document the layout of scales.", reason="Documentation."),
    Refused(reference="NVIDIA/TransformerEngine#3518", what="Please document the padding of scales.", reason="Documentation."),
    Refused(reference="pytorch/TensorRT#4697", what="A test is flaky by its tolerance.", reason="About a tolerance; nothing wrong was computed."),
    Refused(reference="Comfy-Org/comfy-kitchen#100", what="Random draws differ between chunked and whole calls.", reason="Random words are given here, so that the generator is not asked."),
)  # fmt: skip
