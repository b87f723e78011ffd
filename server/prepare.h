// SPDX-License-Identifier: Apache-2.0
//
// Has a worker parse the body and do what its route says (check, render, tokenize). Big bodies get at most half of the
// workers, so that small requests pass them. Loop thread.
#ifndef QUIRE_SERVER_PREPARE_H
#define QUIRE_SERVER_PREPARE_H

#include "server/exchange.h"

// The exchange is suspended, or about to be. Ends in exchange_answer, exchange_fail or generate_start.
void prepare_start(struct exchange *ex);

// The client has gone: work that has not begun need not be done.
void prepare_cancel(struct exchange *ex);

#endif
