// SPDX-License-Identifier: Apache-2.0
#include "server/token_ids.h"

#include <math.h>

int token_ids_read(const json_t *v, const char *field, int n_vocab, struct token_vec *out, struct api_error *err)
{
	if (!json_is_array(v))
		return api_error_set(err, 400, field, "'%s' must be an array of token ids", field);
	for (size_t i = 0; i < json_array_size(v); i++) {
		const json_t *id = json_array_get(v, i);
		double d = json_number_value(id);
		if (!json_is_number(id) || d != floor(d) || d < 0 || d >= n_vocab)
			return api_error_set(err, 400, field, "element %zu of '%s' is not a token id from 0 to %d", i, field,
								 n_vocab - 1);
		token_vec_push(out, (int32_t)d);
	}
	return 0;
}
