// SPDX-License-Identifier: Apache-2.0
//
// A loaded model: its spec, its weights on a back end, and the forward pass. The engine thread owns it once serving.
#ifndef QUIRE_MODEL_MODEL_H
#define QUIRE_MODEL_MODEL_H

#include "engine/model/spec.h"

struct gguf;
struct model;

// Reads the spec from an open file and checks that every tensor is there with the right shape. ERR_UNSUPPORTED names an
// unknown architecture and lists the known ones.
int model_read_spec(const struct gguf *g, struct model_spec *out, char *err, size_t len);

// Loads the weights of g onto be. g must stay open as long as the model if model_borrows_file() says so.
// The back end stays the caller's and must outlive the model.
int model_load(const struct gguf *g, struct backend *be, struct model **out, char *err, size_t len);
void model_destroy(struct model *m);

const struct model_spec *model_spec(const struct model *m);
size_t model_weight_bytes(const struct model *m); // the back end's copies, or the file's pages where borrowed
bool model_borrows_file(const struct model *m);

// Sizes the back end for steps of at most these; kv_shape_of says what a KV block of this model looks like.
void model_kv_shape(const struct model_spec *s, enum kv_dtype type, int block_tokens, struct kv_shape *out);
void model_reserve_sizes(const struct model *m, int max_tokens, int max_seqs, int max_out, int max_blocks, struct reserve *out);

// Computes one step: logits[b->n_out][V] of the rows b->out_rows. Allocates nothing. `logits` is not touched if n_out is 0.
void model_forward(struct model *m, const struct batch_view *b, float *logits);

// The names of the architectures that this build knows, separated by ", ".
const char *model_known_archs(void);

#endif
