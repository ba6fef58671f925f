"""Which tensors of a model as transformers stores it have become a tensor of a GGUF file, by llama.cpp's names.

Source: llama.cpp, gguf-py/gguf/tensor_mapping.py, and conversion of the models of Llama, Mistral, Mixtral, Qwen and Gemma.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mxspec.containers import Header

#: What the names of all layers begin with.
_STEMS = ("model.", "language_model.model.", "model.language_model.", "")
#: One name or several; "*" is the number of an expert, all of which are one stack.
_LAYER: dict[str, tuple[str, ...]] = {
    "attn_q": ("self_attn.q_proj",), "attn_k": ("self_attn.k_proj",), "attn_v": ("self_attn.v_proj",), "attn_qkv": ("self_attn.qkv_proj",),
    "attn_output": ("self_attn.o_proj",), "attn_q_norm": ("self_attn.q_norm",), "attn_k_norm": ("self_attn.k_norm",),
    "attn_norm": ("input_layernorm",), "ffn_norm": ("pre_feedforward_layernorm", "post_attention_layernorm"),
    "post_attention_norm": ("post_attention_layernorm",), "post_ffw_norm": ("post_feedforward_layernorm",),
    "ffn_gate": ("mlp.gate_proj",), "ffn_up": ("mlp.up_proj", "mlp.gate_up_proj"), "ffn_down": ("mlp.down_proj",),
    "ffn_gate_inp": ("mlp.gate", "block_sparse_moe.gate"), "ffn_gate_inp_shexp": ("mlp.shared_expert_gate",),
    "ffn_gate_exps": ("mlp.experts.*.gate_proj", "block_sparse_moe.experts.*.w1"),
    "ffn_up_exps": ("mlp.experts.*.up_proj", "block_sparse_moe.experts.*.w3"),
    "ffn_down_exps": ("mlp.experts.*.down_proj", "block_sparse_moe.experts.*.w2"),
    **{f"ffn_{p}_shexp": (f"mlp.shared_expert.{p}_proj", f"mlp.shared_experts.{p}_proj") for p in ("gate", "up", "down")},
}  # fmt: skip
_MODEL = {"token_embd": "embed_tokens", "output_norm": "norm"}
_NAME = re.compile(r"blk\.(\d+)\.(\w+)(\.weight|\.bias)")
#: Heads of queries, and of keys and values, as 32-bit numbers among the keys of a header.
_HEADS = {
    "attn_q": (rb"\.attention\.head_count\x04\0\0\0(.{4})",),
    "attn_k": (rb"\.attention\.head_count_kv\x04\0\0\0(.{4})", rb"\.attention\.head_count\x04\0\0\0(.{4})"),
}


def rename(name: str) -> Iterator[str]:
    """Names that a tensor of a GGUF file may have had before; none for a name that is not llama.cpp's."""
    found = _NAME.fullmatch(name)
    if found is not None:
        layer, part, ending = found.groups()
        yield from (f"{stem}layers.{layer}.{other}{ending}" for other in _LAYER.get(part, ()) for stem in _STEMS)
    elif name == "output.weight":
        yield from ("lm_head.weight", "language_model.lm_head.weight")
    elif name.removesuffix(".weight") in _MODEL:
        yield from (f"{stem}{_MODEL[name.removesuffix('.weight')]}.weight" for stem in _STEMS)


def count_heads(headers: Iterable[Header], base: str) -> int:
    """How many heads the rows of queries or keys are of, where llama.cpp may have put the two halves of each in turn; else 0."""
    for pattern in _HEADS.get(base.rpartition(".")[2], ()):
        for header in headers:
            if header.container == "gguf" and (found := re.search(pattern, header.keys, re.DOTALL)):
                return int.from_bytes(found[1], "little")
    return 0
