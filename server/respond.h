// SPDX-License-Identifier: Apache-2.0
//
// Hands an exchange's answer to the HTTP library, with the headers that every reply carries. Loop thread, inside of the
// library's request callback.
#ifndef QUIRE_SERVER_RESPOND_H
#define QUIRE_SERVER_RESPOND_H

#include "server/exchange.h"

#include <microhttpd.h>

// The answer, or the error, that is ready.
enum MHD_Result respond_plain(struct exchange *ex);

// The stream of the exchange's job, as it comes.
enum MHD_Result respond_stream(struct exchange *ex);

#endif
