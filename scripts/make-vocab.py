#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a GGUF file that holds nothing but a vocabulary, for tests of the tokenizer.

    make-vocab.py MODEL.gguf OUT.gguf                  keeps the tokenizer.* keys of a model
    make-vocab.py tokenizer.json OUT.gguf --pre NAME   converts byte-level BPE of a Hugging Face tokenizer

Needs the package gguf. Compress the result with `xz -9e`.
"""
import argparse
import json

import gguf

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5


def copy_keys(source, writer):
    for key, field in gguf.GGUFReader(source).fields.items():
        if not key.startswith("tokenizer.") or key.startswith("tokenizer.chat_template"):
            continue
        value = field.contents()
        if field.types[0] == gguf.GGUFValueType.ARRAY:
            writer.add_key_value(key, value, field.types[0], sub_type=field.types[-1])
        else:
            writer.add_key_value(key, value, field.types[0])


def convert(source, pre, writer):
    with open(source, encoding="utf-8") as f:
        tokenizer = json.load(f)
    vocab = dict(tokenizer["model"]["vocab"])
    types = {}
    for added in tokenizer["added_tokens"]:
        vocab[added["content"]] = added["id"]
        types[added["id"]] = CONTROL if added["special"] else USER_DEFINED
    by_id = {i: token for token, i in vocab.items()}
    ids = range(max(by_id) + 1)
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([by_id.get(i, f"[hole {i}]") for i in ids])
    writer.add_token_types([types.get(i, NORMAL if i in by_id else UNUSED) for i in ids])
    writer.add_token_merges(merges)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("out")
    parser.add_argument("--pre", help="tokenizer.ggml.pre of a converted tokenizer.json")
    args = parser.parse_args()
    writer = gguf.GGUFWriter(args.out, "vocabulary")
    if args.source.endswith(".gguf"):
        copy_keys(args.source, writer)
    elif args.pre:
        convert(args.source, args.pre, writer)
    else:
        parser.error("a tokenizer.json needs --pre")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


if __name__ == "__main__":
    main()
