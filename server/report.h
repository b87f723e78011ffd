// SPDX-License-Identifier: Apache-2.0
//
// The start-up report: what was loaded, where the memory goes, what fits.
#ifndef QUIRE_SERVER_REPORT_H
#define QUIRE_SERVER_REPORT_H

#include "engine/engine.h"

#include <stdio.h>

void report_print(FILE *f, const struct engine_info *in, const char *url, double ready_seconds);

#endif
