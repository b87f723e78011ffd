// SPDX-License-Identifier: Apache-2.0
//
// Letters for dimensions, and the memory layouts that kernels and engine agree on. Read this before any kernel.
//
//   T   tokens (rows) of a step            S   sequences of a step
//   D   model width                        F   width inside the MLP
//   H   query heads                        KH  key/value heads           G = H / KH query heads a key/value head
//   Dh  head size                          L   layers                    V   vocabulary
//   B   tokens a KV block                  N×K a weight: N output rows of K inputs each
//
// Activations are float32, row-major, rows contiguous: x[T][D]. Attention input is one row a token:
//   qkv[T][(H + 2 KH) * Dh]: H query heads, then KH key heads, then KH value heads.
//
// KV block: B tokens of all layers, contiguous, so that moving one is a single copy. The CPU and reference back ends
// lay out (layer, KV head) as K transposed [Dh][B], then V [B][Dh]; a device may choose its own. Nobody but the back end
// looks inside. Chunks of attention are CHUNK absolute positions; CHUNK is a multiple of B.
#ifndef QUIRE_KERNELS_SHAPES_H
#define QUIRE_KERNELS_SHAPES_H

enum {
	KERNEL_ALIGN = 64,      // bytes: every plane, row group and block starts on a cache line
	ATTENTION_CHUNK = 256,  // positions whose softmax is computed as one piece; pieces merge in ascending order
	MAX_HEAD_DIM = 256,     // refused at load beyond this
	MAX_LAYERS = 512,
};

#endif
