#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a small Hugging Face model (config.json, model.safetensors, tokenizer.json) into a float32 GGUF file for the tests.

    tiny-to-gguf.py FOLDER OUT.gguf        needs the PyPI packages gguf, numpy and safetensors

Knows dense decoders of the llama, mistral (as llama with a window), qwen2 and qwen3 kind. Not a converter for published models.
"""
import json
import sys
from pathlib import Path

import gguf
import numpy as np
from safetensors import safe_open

ARCH = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
TOP_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(name):
    stem, kind = name.rsplit(".", 1)
    if stem in TOP_NAMES:
        return f"{TOP_NAMES[stem]}.{kind}"
    layer, part = stem.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{NAMES[part]}.{kind}"


def pairs(w, n_heads):
    """Rows of a head from halves (i, i + n/2), as Hugging Face rotates them, to neighbours (2i, 2i + 1), as GGUF's llama does."""
    head = w.shape[0] // n_heads
    return w.reshape(n_heads, 2, head // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def write_sizes(out, c):
    rope = c.get("rope_parameters") or {"rope_theta": c["rope_theta"]}
    head_dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    if c.get("rope_scaling") or rope.get("rope_type", "default") != "default":
        sys.exit("rotary scaling is not converted here")
    out.add_block_count(c["num_hidden_layers"])
    out.add_context_length(c["max_position_embeddings"])
    out.add_embedding_length(c["hidden_size"])
    out.add_feed_forward_length(c["intermediate_size"])
    out.add_head_count(c["num_attention_heads"])
    out.add_head_count_kv(c["num_key_value_heads"])
    out.add_key_length(head_dim)
    out.add_value_length(head_dim)
    out.add_rope_dimension_count(head_dim)
    out.add_rope_freq_base(rope["rope_theta"])
    out.add_layer_norm_rms_eps(c["rms_norm_eps"])
    out.add_vocab_size(c["vocab_size"])
    if c.get("sliding_window"):
        out.add_sliding_window(c["sliding_window"])
    out.add_file_type(gguf.LlamaFileType.ALL_F32)


def write_tokenizer(out, tokenizer, c):
    special = {t["id"]: t["content"] for t in tokenizer["added_tokens"]}
    by_id = {i: t for t, i in tokenizer["model"]["vocab"].items()} | special
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]
    n = c["vocab_size"]
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list([by_id[i] for i in range(n)])
    out.add_token_types([gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL for i in range(n)])
    out.add_token_merges(merges)
    out.add_bos_token_id(c["bos_token_id"])
    out.add_eos_token_id(c["eos_token_id"])
    out.add_unk_token_id(0)
    out.add_add_bos_token(False)


def main():
    folder, target = Path(sys.argv[1]), sys.argv[2]
    c = json.loads((folder / "config.json").read_text())
    arch = ARCH[c["model_type"]]
    out = gguf.GGUFWriter(target, arch)
    out.add_name("tiny")
    write_sizes(out, c)
    write_tokenizer(out, json.loads((folder / "tokenizer.json").read_text()), c)
    heads = {"self_attn.q_proj": c["num_attention_heads"], "self_attn.k_proj": c["num_key_value_heads"]}
    with safe_open(folder / "model.safetensors", "np") as f:
        for name in f.keys():
            if name == "lm_head.weight" and c.get("tie_word_embeddings"):
                continue
            w = f.get_tensor(name).astype(np.float32)
            part = name.rsplit(".", 1)[0].split(".", 3)[-1]
            if arch == "llama" and part in heads:
                w = pairs(w, heads[part])
            out.add_tensor(gguf_name(name), np.ascontiguousarray(w))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


main()
