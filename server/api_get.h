// SPDX-License-Identifier: Apache-2.0
//
// What GET answers. Each fills the exchange's answer at once and never waits: not for the engine, nor for a lock. Loop
// thread.
#ifndef QUIRE_SERVER_API_GET_H
#define QUIRE_SERVER_API_GET_H

struct exchange;

void api_get_root(struct exchange *ex, const char *rest);
void api_get_health(struct exchange *ex, const char *rest); // 200 while alive, draining too
void api_get_ready(struct exchange *ex, const char *rest);	// 503 once draining
void api_get_metrics(struct exchange *ex, const char *rest);
void api_get_models(struct exchange *ex, const char *rest);
void api_get_model(struct exchange *ex, const char *rest);

#endif
